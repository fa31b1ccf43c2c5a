"""Comparison of the fair tree with probe-based schedulers and classic policies on the same bags of tasks.

The claims are those of J. Celaya and L. Marchal (fair tree) and of P. Delgado et al., "Hawk: hybrid
datacenter scheduling" (USENIX ATC 2015) and "Job-aware scheduling in Eagle" (SoCC 2016).  They are judged
here on other workloads and another network.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import Case, Check, Measurements, Reproduction, ResultGrid, Run, ratio
from gridsim.reproduce.verdicts import SMALLER, ClaimedRange
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.formulas import offered_load
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import NodeForm
from gridsim.support.arrays import Floats, Integers
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TREE_FAIR = "the fair tree loses less than 25 % of maximum stretch to MinCent"
TREE_FCFS = "the fair tree has a smaller maximum stretch than FCFS"
HAWK_SHORT = "Hawk completes short jobs earlier than Sparrow"
EAGLE_SHORT = "Eagle completes short jobs earlier than Hawk"

LOAD = 0.8
#: Task size above which a bag is long, Mflop: the default of `Hawk`, to which task sizes are scaled.
CUTOFF = 1e6
#: Time after which an idle machine requests work again, s.
PAUSE = 60.0

_FORMS: tuple[NodeForm, ...] = ("compiled", "interpreted") if find_spec("numba") else ("interpreted",)


class _Stealing(gs.WorkStealing, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


@dataclass(frozen=True)
class BagSource(ABC):
    """A source of bags and machines.

    Parameters
    ----------
    machines
        Number of machines.
    reserved
        Share of machines that run no long tasks under Hawk and Eagle; about the share of short bags in the
        work, as in the paper on Hawk.
    """

    machines: int
    reserved: float

    @property
    @abstractmethod
    def name(self) -> str:
        """File name of the scenario without its extension."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Description of machines and bags for the report."""

    @abstractmethod
    def workload(self, seed: int) -> gs.Workload:
        """Return the bags of a seed."""

    def platform(self, seed: int) -> gs.Platform:
        """Return the machines of a seed, by default of a desktop grid."""
        return gs.Platform.desktop_grid(self.machines, seed)

    def submitters(self, seed: int, bags: int) -> Integers:
        """Draw the machine at which each bag is submitted."""
        return Streams(seed)("probes on bags submitters").integers(self.machines, size=bags)


@dataclass(frozen=True)
class LognormalBags(BagSource):
    """Bags with Poisson arrivals and lognormal task sizes; 10 %, with most of the work, are long."""

    bags: int

    @property
    def name(self) -> str:
        return "drawn"

    @property
    def description(self) -> str:
        return f"{self.bags} drawn bags of 1 to 19 tasks; speeds of a desktop grid"

    def workload(self, seed: int) -> gs.Workload:
        streams, bags = Streams(seed), self.bags
        release = np.cumsum(streams("probes on bags arrivals").exponential(60.0, bags))
        sizes = CUTOFF * np.exp(2.0 * (streams("probes on bags sizes").standard_normal(bags) - 1.28))
        tasks = streams("probes on bags tasks").integers(1, 20, size=bags)
        return gs.Workload.of(release, tasks, sizes, submitter=self.submitters(seed, bags), origin=0.0)


@dataclass(frozen=True)
class _Log(BagSource):
    """Source that runs a `part` of a log; the seed determines which one."""

    path: str
    part: int
    #: Run time above which tasks are long, s; it corresponds to the size `CUTOFF`.
    cutoff: ClassVar[float]

    @property
    def name(self) -> str:
        return self.file.split(".")[0].lower()

    @property
    def file(self) -> str:
        """File name of the log."""
        return os.path.basename(self.path)


class GridLog(_Log):
    """Bags of a job log of a grid (SWF or GWF); the seed determines a window of `part` bags."""

    cutoff: ClassVar[float] = 7200.0

    @property
    def description(self) -> str:
        return (
            f"{self.part} bags in a row of {self.file}, other ones for each seed; long: tasks above "
            f"{self.cutoff:g} s; speeds of a desktop grid"
        )

    def workload(self, seed: int) -> gs.Workload:
        complete_log = gs.Workload.from_log(self.path, reference_speed=CUTOFF / self.cutoff, seed=seed)
        windows = max(1, len(complete_log.realize(gs.Platform.equal(self.machines))) // self.part)
        skip = (seed - 1) % windows * self.part
        return gs.Workload(
            msgspec.structs.replace(complete_log.recipe, skip=skip, max_applications=self.part)
        )


class TaskTrace(_Log):
    """Every `part`-th job of a `.tr` log from an offset set by the seed; tasks last their job's mean."""

    #: Cutoff of the papers for the Yahoo trace, s.
    cutoff: ClassVar[float] = 90.5811

    @property
    def description(self) -> str:
        return (
            f"one job in {self.part} of {self.file}, other ones for each seed, all tasks of a job as long as "
            f"their mean; long: above {self.cutoff:g} s; machines of one speed"
        )

    def platform(self, seed: int) -> gs.Platform:
        return gs.Platform.equal(self.machines)

    def workload(self, seed: int) -> gs.Workload:
        from gridsim.traces import read_tr

        complete_log = read_tr(self.path)
        log = complete_log.take(np.arange((seed - 1) % self.part, len(complete_log), self.part))
        sizes = log.mean * (CUTOFF / self.cutoff)
        submitter = self.submitters(seed, len(log))
        return gs.Workload.of(log.release, log.tasks, sizes, submitter=submitter, origin=0.0)


@dataclass(frozen=True)
class AtLoad:
    """Factory of scenarios of a source, in which machine speeds are scaled to the load `LOAD`."""

    source: BagSource

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return self.source.name

    def __call__(self, seed: int) -> gs.Scenario:
        platform, workload = self.source.platform(seed), self.source.workload(seed)
        factor = offered_load(workload.realize(platform), platform) / LOAD
        return gs.Scenario(gs.Platform.of(platform.speeds * factor), workload, seed=seed)


def source_of(run: Run) -> BagSource:
    """Return the bags of the log of a run, or drawn bags if it has no log."""
    if run.log is None:
        return LognormalBags(100, 0.15, run.choose(1000, 200))
    from gridsim.traces.info import detect_format

    path = run.log.path
    if detect_format(path) == "tr":
        return run.choose(TaskTrace(400, 0.02, path, 10), TaskTrace(100, 0.02, path, 40))
    return run.choose(GridLog(300, 0.1, path, 1200), GridLog(100, 0.1, path, 300))


def schedulers_for(reserved: float) -> dict[str, gs.Scheduler]:
    """Return name -> scheduler for all compared schedulers."""
    return {
        "mincent": gs.MinCent(),
        "fcfs": gs.Fcfs(),
        "fair-tree": gs.FairTree(),
        "lwl": gs.Lwl(cutoff=CUTOFF, reserved=reserved),
        "eagle": gs.Eagle(cutoff=CUTOFF, reserved=reserved),
        "hawk": gs.Hawk(cutoff=CUTOFF, reserved=reserved),
        "sparrow": gs.Sparrow(),
        "work-stealing": _Stealing(pause=PAUSE),
        "power-of-d": gs.PowerOfD(),
        "join-idle-queue": gs.JoinIdleQueue(),
    }


def _completion(result: gs.Result, long: bool, percent: float) -> float:
    table = result.applications
    times = (table["finish"] - table["release"])[(table["task_size"] > CUTOFF) == long]
    return float(np.percentile(times, percent)) if len(times) else math.nan


def max_stretch(result: gs.Result) -> float:
    """Return the maximum stretch, (C - r) / (w / aggregate speed)."""
    return float(result.applications["stretch_agg"].max())


def mean_stretch(result: gs.Result) -> float:
    """Return the mean stretch, (C - r) / (w / aggregate speed)."""
    return float(result.applications["stretch_agg"].mean())


def p50_short(result: gs.Result) -> float:
    """Return the median time from release to completion of short bags, s."""
    return _completion(result, False, 50)


def p99_short(result: gs.Result) -> float:
    """Return the 99th percentile of the time from release to completion of short bags, s."""
    return _completion(result, False, 99)


def p99_long(result: gs.Result) -> float:
    """Return the 99th percentile of the time from release to completion of long bags, s."""
    return _completion(result, True, 99)


def messages_per_task(result: gs.Result) -> float:
    """Return the number of messages between machines per task."""
    return float(result.messages["sent"].sum() / result.applications["tasks"].sum())


MAX, MEAN = "maximum stretch", "mean stretch"
P50, P99, P99_LONG = "p50 short, s", "p99 short, s", "p99 long, s"
#: Column heading -> metric.
METRICS: dict[str, MetricFunction] = {
    MAX: max_stretch,
    MEAN: mean_stretch,
    P50: p50_short,
    P99: p99_short,
    P99_LONG: p99_long,
    "messages / task": messages_per_task,
}


def geometric_mean(numerator: Floats, denominator: Floats, axis: int = -1) -> Any:
    """Return the geometric mean of ratios, since stretches of seeds differ by orders of magnitude."""
    return np.exp(np.mean(np.log(numerator / denominator), axis=axis))


def _check(claim: str, metric: str, a: str, b: str, test: ClaimedRange = SMALLER) -> Check:
    return Check(claim, f"{metric}: {a} / {b}", ratio(a, b, metric), test)


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    values = data.first
    means = {name: [values.mean(name, metric) for metric in METRICS] for name in values.schedulers}
    yield ResultGrid("Means", ["scheduler", *METRICS], means)
    columns = (MAX, MEAN, P50, P99, P99_LONG)
    ratios = {
        name: [
            estimate(values[metric][name], values[metric]["mincent"], statistic=geometric_mean)
            for metric in columns
        ]
        for name in values.schedulers
        if name != "mincent"
    }
    title = "Geometric means of the ratios to mincent, a ratio a seed"
    yield ResultGrid(title, ["scheduler", *columns], ratios)


def _remarks(data: Measurements) -> tuple[str, ...]:
    source = source_of(data.run)
    return (
        f"{source.machines} machines; {source.description}; load {LOAD:g} between the first and the last "
        "release.",
        *REMARKS,
    )


REMARKS = (
    "The default network.  mincent and fcfs know all machines and their work at once, without messages.",
    "Stretch: (C - r) / (w / aggregate speed); on machines of one speed a bag of one task has at least "
    "the number of machines.",
    "Defaults of all schedulers, but for `reserved` (hawk, eagle, lwl), about the share of short bags in the "
    f"work, and `pause` {PAUSE:g} s (work-stealing): with 5 s, "
    "the default, machines that are idle send most of the messages of a run.",
)


def _draw(data: Measurements) -> Figure:
    """Draw the maximum stretch over p99 of short bags, one mark for each scheduler."""
    from gridsim import plots

    values = data.first
    figure, (axes,) = plots.figure(1, width=5.0)
    for name, style in plots.styles(values.schedulers).items():
        x, y = values.mean(name, P99), values.mean(name, MAX)
        errors: Any = {
            "xerr": [[x.mean - x.low], [x.high - x.mean]],
            "yerr": [[y.mean - y.low], [y.high - y.mean]],
        }
        axes.errorbar(x.mean, y.mean, **errors, label=name, **style)
    axes.set(xscale="log", yscale="log", ylabel=MAX)
    axes.set_xlabel("p99 of the response time of short bags, s")
    axes.grid(alpha=0.3)
    plots.shared_legend(figure)
    return figure


def _cases(run: Run) -> dict[str, Case]:
    source = source_of(run)
    return {"": Case(AtLoad(source), schedulers_for(source.reserved))}


PROBES_ON_BAGS = Reproduction(
    name="probes-on-bags",
    title="fair tree, MinCent, probe-based schedulers and classic policies on the same bags of tasks",
    paper="Celaya and Marchal; Delgado et al. 2015 and 2016",
    claims=(TREE_FAIR, TREE_FCFS, HAWK_SHORT, EAGLE_SHORT),
    files="bag log",
    cases=_cases,
    metrics=METRICS,
    rows=(
        _check(TREE_FAIR, MAX, "fair-tree", "mincent", ClaimedRange("< 1.25", high=1.25)),
        _check(TREE_FCFS, MAX, "fair-tree", "fcfs"),
        *(_check(HAWK_SHORT, metric, "hawk", "sparrow") for metric in (P50, P99)),
        *(_check(EAGLE_SHORT, metric, "eagle", "hawk") for metric in (P50, P99)),
    ),
    grids=_grids,
    remarks=_remarks,
    figure=_draw,
)
