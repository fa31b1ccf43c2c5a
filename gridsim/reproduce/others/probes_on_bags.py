"""The fair tree, its baselines, probe-based schedulers and classic policies on the same bags of tasks.

The claims are those of J. Celaya and L. Marchal (fair tree), of P. Delgado et al., "Hawk: hybrid datacenter
scheduling" (USENIX ATC 2015), and of the same, "Job-aware scheduling in Eagle" (SoCC 2016), on workloads and
on a network that are not theirs.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import BELOW, Grid, Report, Run, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.formulas import offered_load
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import (
    Eagle,
    FairTree,
    Fcfs,
    Hawk,
    JoinIdleQueue,
    Lwl,
    MinCent,
    PowerOfD,
    Sparrow,
    WorkStealing,
)
from gridsim.scheduling.contract import NodeForm, Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.arrays import Floats, Integers
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "probes-on-bags"
TITLE = "fair tree, MinCent, probe-based schedulers and classic policies on the same bags of tasks"
TREE_FAIR = "the fair tree loses less than 25 % of maximum stretch to MinCent"
TREE_FCFS = "the fair tree has a smaller maximum stretch than FCFS"
HAWK_SHORT = "Hawk completes short jobs earlier than Sparrow"
EAGLE_SHORT = "Eagle completes short jobs earlier than Hawk"
CLAIMS = (TREE_FAIR, TREE_FCFS, HAWK_SHORT, EAGLE_SHORT)
SEEDS = (10, 5)

LOAD = 0.8
#: Bags whose tasks are larger are long, Mflop: the default of `Hawk`.  Task sizes are scaled to it.
CUTOFF = 1e6
#: Most tasks of a bag that a node can have asked for at once.
ROOM = 4096
#: s after which an idle machine asks for work again.
PAUSE = 60.0

_FORMS: tuple[NodeForm, ...] = ("compiled", "interpreted") if find_spec("numba") else ("interpreted",)


class _Stealing(WorkStealing, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


@dataclass(frozen=True)
class Source(ABC):
    """Where bags come from, and machines of what speeds.

    Parameters
    ----------
    machines
        How many.
    reserved
        Share of them that runs no long tasks under Hawk and Eagle; about the share of short bags in the work,
        as in the paper on Hawk.
    """

    machines: int
    reserved: float

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the scenario's file."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What machines and bags are, for the report."""

    @abstractmethod
    def workload(self, seed: int) -> Workload:
        """Return the bags."""

    def platform(self, seed: int) -> Platform:
        """Return the machines: by default those of a desktop grid."""
        return Platform.desktop_grid(self.machines, seed)

    def submitters(self, seed: int, bags: int) -> Integers:
        """Draw the machine at which each bag is submitted."""
        return Streams(seed)("probes on bags submitters").integers(self.machines, size=bags)


@dataclass(frozen=True)
class Drawn(Source):
    """Poisson arrivals and a lognormal task size for each bag: 10 % of the bags, with most work, are long."""

    bags: int

    @property
    def name(self) -> str:
        """See `Source`."""
        return "drawn"

    @property
    def about(self) -> str:
        """See `Source`."""
        return f"{self.bags} drawn bags of 1 to 19 tasks; speeds of a desktop grid"

    def workload(self, seed: int) -> Workload:
        """See `Source`."""
        streams, bags = Streams(seed), self.bags
        release = np.cumsum(streams("probes on bags arrivals").exponential(60.0, bags))
        sizes = CUTOFF * np.exp(2.0 * (streams("probes on bags sizes").standard_normal(bags) - 1.28))
        tasks = streams("probes on bags tasks").integers(1, 20, size=bags)
        return Workload.of(release, tasks, sizes, submitter=self.submitters(seed, bags), origin=0.0)


@dataclass(frozen=True)
class _Log(Source):
    """`part` says how much of the log is run, other parts for each seed."""

    path: str
    part: int
    #: s; the run time above which tasks are long, with size `CUTOFF`.
    cutoff: ClassVar[float]

    @property
    def name(self) -> str:
        """See `Source`."""
        return self.file.split(".")[0].lower()

    @property
    def file(self) -> str:
        """Name of the log."""
        return os.path.basename(self.path)


class GridLog(_Log):
    """Bags of a job log of a grid (SWF or GWF): a window of `part` bags for each seed."""

    cutoff: ClassVar[float] = 7200.0

    @property
    def about(self) -> str:
        """See `Source`."""
        return (
            f"{self.part} bags in a row of {self.file}, other ones for each seed; long: tasks above "
            f"{self.cutoff:g} s; speeds of a desktop grid"
        )

    def workload(self, seed: int) -> Workload:
        """See `Source`."""
        whole = Workload.from_log(self.path, reference_speed=CUTOFF / self.cutoff, seed=seed)
        windows = max(1, len(whole.realize(Platform.equal(self.machines))) // self.part)
        skip = (seed - 1) % windows * self.part
        return Workload(msgspec.structs.replace(whole.recipe, skip=skip, max_applications=self.part))


class TaskTrace(_Log):
    """One job in `part` of a `.tr` log, other ones for each seed; all tasks of a job last its mean."""

    #: That of the papers for the Yahoo trace.
    cutoff: ClassVar[float] = 90.5811

    @property
    def about(self) -> str:
        """See `Source`."""
        return (
            f"one job in {self.part} of {self.file}, other ones for each seed, all tasks of a job as long as "
            f"their mean; long: above {self.cutoff:g} s; machines of one speed"
        )

    def platform(self, seed: int) -> Platform:
        """See `Source`."""
        return Platform.equal(self.machines)

    def workload(self, seed: int) -> Workload:
        """See `Source`."""
        from gridsim.traces import read_tr

        whole = read_tr(self.path)
        log = whole.take(np.arange((seed - 1) % self.part, len(whole), self.part))
        sizes = log.mean * (CUTOFF / self.cutoff)
        submitter = self.submitters(seed, len(log))
        return Workload.of(log.release, log.tasks, sizes, submitter=submitter, origin=0.0)


@dataclass(frozen=True)
class AtLoad:
    """Makes scenarios of a source, with machines so fast that the load is `LOAD`."""

    source: Source

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        return self.source.name

    def __call__(self, seed: int) -> Scenario:
        platform, workload = self.source.platform(seed), self.source.workload(seed)
        factor = offered_load(workload.realize(platform), platform) / LOAD
        return Scenario(Platform.of(platform.speeds * factor), workload, seed=seed)


def source_of(how: Run) -> Source:
    """Return the bags of a log, if there is one, or drawn ones."""
    if how.log is None:
        return Drawn(100, 0.15, 200 if how.quick else 1000)
    from gridsim.traces.info import detect_format

    path = how.log.path
    if detect_format(path) == "tr":
        return TaskTrace(100, 0.02, path, 40) if how.quick else TaskTrace(400, 0.02, path, 10)
    return GridLog(100, 0.1, path, 300) if how.quick else GridLog(300, 0.1, path, 1200)


def schedulers_for(reserved: float) -> dict[str, Scheduler]:
    """Return those that are compared, under the names of the tables."""
    return {
        "mincent": MinCent(),
        "fcfs": Fcfs(),
        "fair-tree": FairTree(),
        "lwl": Lwl(cutoff=CUTOFF, reserved=reserved),
        "eagle": Eagle(cutoff=CUTOFF, reserved=reserved),
        "hawk": Hawk(cutoff=CUTOFF, reserved=reserved),
        "sparrow": Sparrow(),
        "work-stealing": _Stealing(pause=PAUSE),
        "power-of-d": PowerOfD(room=ROOM),
        "join-idle-queue": JoinIdleQueue(),
    }


def _completion(result: Result, long: bool, percent: float) -> float:
    table = result.applications
    took = (table["finish"] - table["release"])[(table["task_size"] > CUTOFF) == long]
    return float(np.percentile(took, percent)) if len(took) else math.nan


def max_stretch(result: Result) -> float:
    """Largest stretch, (C - r) / (w / aggregate speed)."""
    return float(result.applications["stretch_agg"].max())


def mean_stretch(result: Result) -> float:
    """Mean stretch, (C - r) / (w / aggregate speed)."""
    return float(result.applications["stretch_agg"].mean())


def p50_short(result: Result) -> float:
    """Median time from release to completion of short bags, s."""
    return _completion(result, False, 50)


def p99_short(result: Result) -> float:
    """99th percentile of the time from release to completion of short bags, s."""
    return _completion(result, False, 99)


def p99_long(result: Result) -> float:
    """99th percentile of the time from release to completion of long bags, s."""
    return _completion(result, True, 99)


def messages_per_task(result: Result) -> float:
    """Messages between machines over the number of tasks."""
    return float(result.messages["sent"].sum() / result.applications["tasks"].sum())


MAX, MEAN = "maximum stretch", "mean stretch"
P50, P99, P99_LONG = "p50 short, s", "p99 short, s", "p99 long, s"
#: Title of a column -> metric.
METRICS: dict[str, MetricFunction] = {
    MAX: max_stretch,
    MEAN: mean_stretch,
    P50: p50_short,
    P99: p99_short,
    P99_LONG: p99_long,
    "messages / task": messages_per_task,
}


def geometric_mean(above: Floats, below: Floats, axis: int = -1) -> Any:
    """Geometric mean of the ratios: stretches of different seeds differ by orders of magnitude."""
    return np.exp(np.mean(np.log(above / below), axis=axis))


def run(how: Run) -> Report:
    """Run all schedulers on the same bags."""
    source = source_of(how)
    made = how.replicate(AtLoad(source), schedulers_for(source.reserved), METRICS)
    ratios = (
        (TREE_FAIR, MAX, "fair-tree", "mincent", "< 1.25", 1.25),
        (TREE_FCFS, MAX, "fair-tree", "fcfs", "< 1", BELOW),
        *((HAWK_SHORT, metric, "hawk", "sparrow", "< 1", BELOW) for metric in (P50, P99)),
        *((EAGLE_SHORT, metric, "eagle", "hawk", "< 1", BELOW) for metric in (P50, P99)),
    )
    rows = [
        judge(claim, f"{metric}: {one} / {other}", said, made.ratio(one, other, metric), -math.inf, most)
        for claim, metric, one, other, said, most in ratios
    ]
    means = {name: [made.mean(name, metric) for metric in METRICS] for name in made.schedulers}
    columns = (MAX, MEAN, P50, P99, P99_LONG)
    relative = {
        name: [estimate(made[m][name], made[m]["mincent"], statistic=geometric_mean) for m in columns]
        for name in made.schedulers
        if name != "mincent"
    }
    grids = (
        Grid("Means", ["scheduler", *METRICS], means),
        Grid("Geometric means of the ratios to mincent, a ratio a seed", ["scheduler", *columns], relative),
    )
    remarks = (
        f"{source.machines} machines; {source.about}; load {LOAD:g} between the first and the last release.",
        *_REMARKS,
    )
    return Report(tuple(how.seeds), how.quick, rows, grids, remarks, {"made": made})


_REMARKS = (
    "The default network.  mincent and fcfs know all machines and their work at once, without messages.",
    "Stretch: (C - r) / (w / aggregate speed); on machines of one speed a bag of one task has at least "
    "the number of machines.",
    "Defaults of all schedulers, but for `reserved` (hawk, eagle, lwl), about the share of short bags in the "
    f"work, `room` {ROOM} (power-of-d), and `pause` {PAUSE:g} s (work-stealing): with 5 s, "
    "the default, machines that are idle send most of the messages of a run.",
)


def figure(report: Report) -> Figure:
    """Draw maximum stretch over p99 of short bags, a mark for each scheduler."""
    from gridsim import plots
    from gridsim.plots.style import series_style

    made: Replicates = report.data["made"]
    drawing, (panel,) = plots.figure(1, width=5.0)
    for number, name in enumerate(made.schedulers):
        x, y = made.mean(name, P99), made.mean(name, MAX)
        panel.errorbar(
            x.mean,
            y.mean,
            xerr=[[x.mean - x.low], [x.high - x.mean]],
            yerr=[[y.mean - y.low], [y.high - y.mean]],
            label=name,
            **series_style(number),
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("p99 of the completion time of short bags, s")
    panel.set_ylabel(MAX)
    panel.grid(alpha=0.3)
    plots.shared_legend(drawing)
    return drawing
