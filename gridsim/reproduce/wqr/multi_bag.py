"""Anglano and Canonico, PCGrid 2008: the five orders of bags of WQR-FT, on drawn desktops and on real ones.

Only the abstracts of the paper and of its extended report of 2009 were at hand.  What is taken from memory
says so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import TraceWarning
from gridsim.model.bag_workloads import Normal
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, BELOW, Desktops, Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import WqrFt
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "multi-bag"
TITLE = "five orders in which bags of tasks get the machines of a desktop grid"
NO_WINNER = "there is no clear winner among the proposed solutions (abstract, 2008)"
PERFORMANCE = "they outperform FCFS in application performance (abstract, 2009)"
USAGE = "they outperform FCFS in efficient resource usage (abstract, 2009)"
LARGE = "(from memory) with fewer tasks in a bag than machines FCFS-Excl is the worst"
SMALL_TASKS = "(from memory) with many small tasks FCFS-Share is better than RR"
FAIR = "(not in the paper) RR, RR-NRF and LongIdle are fairer than FCFS-Share"
CLAIMS = (NO_WINNER, PERFORMANCE, USAGE, LARGE, SMALL_TASKS, FAIR)
SEEDS = (10, 5)

EXCL, SHARE, RR, NRF, LONG, EXCL_2 = (
    *("FCFS-Excl", "FCFS-Share", "RR", "RR-NRF", "LongIdle"),
    "FCFS-Excl, 2 copies",
)
#: By FCFS-Excl, whose bag has the whole grid, tasks have any number of copies; by the others two at most.
SCHEDULERS: dict[str, Scheduler] = {
    EXCL: WqrFt(bag_order="fcfs-excl", max_replicas=1024),
    SHARE: WqrFt(bag_order="fcfs-share"),
    RR: WqrFt(bag_order="rr"),
    NRF: WqrFt(bag_order="rr-nrf"),
    LONG: WqrFt(bag_order="longidle"),
    EXCL_2: WqrFt(bag_order="fcfs-excl"),
}
#: On thousands of real hosts any number of copies would be thousands of each task.
REAL_SCHEDULERS = {name: scheduler for name, scheduler in SCHEDULERS.items() if name != EXCL}
PROPOSED = (RR, NRF, LONG)

MACHINES, BAGS, FEW_BAGS = 100, 100, 20
#: Mean speed of a machine, Mflop/s, and how long all of them take for a bag at that speed, s.
SPEED, BAG = 1000.0, 2500.0
#: Seconds that a task takes on average at a tenth of the mean speed, as in the paper.
GRANULARITIES, FEW_GRANULARITIES = (1000, 5000, 25_000, 125_000), (5000, 125_000)
#: Mean up and down times, s.
AVAILABILITIES = {"98 % up": (88_200.0, 1800.0), "50 % up": (1800.0, 1800.0)}
#: Work released over what machines can do while they are up.
LOADS, FEW_LOADS = (0.5, 0.9), (0.9,)
REAL = "real hosts"


def fairness(result: Result) -> float:
    """Return Jain's index of the stretch of bags: 1 if all have the same, 1 / n if one has all of it."""
    stretch = np.asarray(result.applications["stretch"])
    return float(stretch.sum() ** 2 / (len(stretch) * (stretch**2).sum()))


METRICS: dict[str, MetricFunction] = {
    "mean_completion": attrgetter("mean_completion"),
    "wasted": attrgetter("wasted"),
    "fairness": fairness,
}


@dataclass(frozen=True)
class Bags:
    """Makes bags on drawn desktops, as ``Bags(5000, "98 % up", 0.9, 100)(seed)``."""

    granularity: int
    up: str
    load: float
    bags: int

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``5000-98-0.9``."""
        return f"{self.granularity}-{self.up.split()[0]}-{self.load:g}"

    def __call__(self, seed: int) -> Scenario:
        up, down = AVAILABILITIES[self.up]
        workload = Workload.bags(
            self.bags,
            BAG * (up + down) / up / self.load,
            tasks=MACHINES * BAG * 10 / self.granularity,
            variation=0.0,
            task_size=self.granularity * SPEED / 10,
            spread=Normal(0.29),
            seed=seed,
        )
        platform = Platform.desktop_grid(MACHINES, seed, 0.2 * SPEED, 1.8 * SPEED, 0.2 * SPEED)
        return Scenario(platform, workload, seed=seed, faults=Faults.exponential(up, down, seed))


@lru_cache(maxsize=4)
def _hosts(desktops: Desktops, load: float) -> tuple[int, float]:
    """Return how many hosts the bags of the log load so much, and how long the availability trace is, s."""
    from gridsim.traces import derive_bags, read_availability, read_jobs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the run itself shows the warning
        bags = derive_bags(read_jobs(desktops.log))
    trace = read_availability(desktops.availability)
    up = trace.availability()
    up = up[up > 0]
    wanted = bags.offered_load(1) / (load * float(up.mean())) if len(up) else 1.0
    least = int(bags.job_procs.max(initial=1))
    return max(least, math.ceil(min(wanted, len(up)))), max(0.0, trace.horizon)


@dataclass(frozen=True)
class RealBags:
    """Makes the bags of a log as they came, on so many real hosts that they load them by `load`.

    The seed determines which hosts, their speeds, and the start time in the trace.

    Parameters
    ----------
    bags
        Number of bags, taken from the first on; None for all.
    """

    desktops: Desktops
    load: float
    bags: int | None = None

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``real-0.9``."""
        return f"real-{self.load:g}"

    def __call__(self, seed: int) -> Scenario:
        nodes, horizon = _hosts(self.desktops, self.load)
        start = float(Streams(seed)("reproduce.start").uniform(0.0, 0.4 * horizon))
        return Scenario(
            Platform.from_hosts(self.desktops.speeds, nodes, seed),
            Workload.from_log(self.desktops.log, own_sizes=True, max_applications=self.bags, seed=seed),
            seed=seed,
            faults=Faults.trace(self.desktops.availability, seed, start=start),
        )


def run(how: Run) -> Report:
    """Run the five orders at each granularity, availability and load, or on real hosts at each load."""
    loads = FEW_LOADS if how.quick else LOADS
    granularities = FEW_GRANULARITIES if how.quick else GRANULARITIES
    made: dict[str, dict[str, Replicates]] = {}
    if how.desktops is not None:
        some = FEW_BAGS if how.quick else None
        made[REAL] = {
            f"load {load:g}": how.replicate(RealBags(how.desktops, load, some), REAL_SCHEDULERS, METRICS)
            for load in loads
        }
    else:
        count = FEW_BAGS if how.quick else BAGS
        for load in loads:
            for up in AVAILABILITIES:
                made[f"load {load:g}, {up}"] = {
                    str(granularity): how.replicate(Bags(granularity, up, load, count), SCHEDULERS, METRICS)
                    for granularity in granularities
                }
    grids = [
        Grid(
            f"{where}: {said}",
            ["order", *columns],
            _means(columns, metric),
        )
        for where, columns in made.items()
        for metric, said in (
            ("mean_completion", "completion time of a bag, mean, s"),
            ("fairness", "fairness, Jain's index of the stretch of bags"),
            ("wasted", "share of the cycles that is wasted"),
        )
    ]
    data = {"made": made, "granularities": granularities}
    return Report(tuple(how.seeds), how.quick, _judged(made), grids, _REMARKS, data)


def _means(columns: Mapping[str, Replicates], metric: str) -> dict[str, list[Estimate]]:
    """Return the mean of a metric in each column, for each order."""
    names = next(iter(columns.values())).schedulers
    return {name: [each.mean(name, metric) for each in columns.values()] for name in names}


def _judged(made: Mapping[str, Mapping[str, Replicates]]) -> list[Row]:
    """Return the rows about all claims."""
    rows = []
    cells = {f"{where}, {column}": each for where, of in made.items() for column, each in of.items()}
    excl = EXCL_2 if REAL in made else EXCL
    five = (excl, SHARE, *PROPOSED)
    for name in five:
        found = [
            (each.ratio(other, name, "mean_completion"), other, where)
            for where, each in cells.items()
            for other in five
            if other != name
        ]
        lowest, other, where = min(found, key=lambda cell: cell[0].mean)
        said = f"{other} / {name}, least of all cells ({where})"
        rows.append(judge(NO_WINNER, said, "< 1", lowest, -math.inf, BELOW))
    for where, each in cells.items():
        for claim, metric in ((PERFORMANCE, "mean_completion"), (USAGE, "wasted")):
            best = min(PROPOSED, key=lambda name: each.mean(name, metric).mean)
            rows += [
                _below(claim, where, each, best, fcfs, metric, f"best of three, {best}")
                for fcfs in (excl, SHARE)
            ]
        rows += [
            judge(
                FAIR, f"{where}: {name} / {SHARE}", "", each.ratio(name, SHARE, "fairness"), ABOVE, math.inf
            )
            for name in PROPOSED
        ]
        granularity = where.rpartition(" ")[2]
        if granularity == str(GRANULARITIES[-1]) or where.startswith(REAL):
            rows += [_below(LARGE, where, each, name, excl, "mean_completion") for name in (SHARE, *PROPOSED)]
        elif granularity in (str(GRANULARITIES[0]), str(GRANULARITIES[1])):
            rows.append(_below(SMALL_TASKS, where, each, SHARE, RR, "mean_completion"))
    return rows


def _below(
    claim: str, where: str, made: Replicates, name: str, other: str, metric: str, said: str = ""
) -> Row:
    """Return a row that wants the value of `name` below that of `other`."""
    measured: Estimate = made.ratio(name, other, metric)
    return judge(claim, f"{where}: {said or name} / {other}", "< 1", measured, -math.inf, BELOW)


_REMARKS = (
    "Only abstracts were at hand, that of the paper and that of the report TR-INF-2009-02-01-UNIPMN.  The "
    "definitions of the five orders, the granularities, the work of a bag (2500 s of the whole grid), the "
    "availabilities of 98 and 50 % and the repair time of 1800 s are from memory, and not verified.",
    "Chosen here: 100 machines of 200..1800 Mflop/s; exponential up and down times; task sizes normal, "
    "standard deviation 0.29 of the mean; Poisson releases; checkpoints by Young's formula (10 s), read in "
    "10 s.  A granularity is what a task takes at 100 Mflop/s, s: bags of 2500, 500, 100 and 20 tasks.",
    "The abstract of the report does not say which FCFS is outperformed: both are judged, against the best "
    "of RR, RR-NRF and LongIdle in each cell.  By FCFS-Excl tasks have any number of copies, since machines "
    "would be idle otherwise; with two copies at most it is shown, but not judged, except on real hosts.",
    "Real hosts: all bags of the log as they came, on so many hosts that their work is the load.  Seeds "
    "differ in the hosts, their speeds and the day of the trace.",
    '"Least of all cells" is the least of up to 64 ratios, of which an interval of 95 % finds one below 1 '
    "now and then by chance.  The ratios themselves say how far below they are.",
)


def figure(report: Report) -> Figure:
    """Draw completion times over the granularity, a panel for each availability and load."""
    from gridsim import plots

    made: Mapping[str, Mapping[str, Replicates]] = report.data["made"]
    figure, places = plots.figure(min(2, len(made)), rows=math.ceil(len(made) / 2))
    for axes, (where, columns) in zip(places, made.items(), strict=True):
        x: Sequence[Any] = report.data["granularities"] if where != REAL else range(len(columns))
        plots.lines(x, _means(columns, "mean_completion"), axes=axes)
        axes.set(title=where, ylabel="completion time of a bag (s)", yscale="log")
        if where == REAL:
            axes.set_xticks(x, list(columns))
        else:
            axes.set(xscale="log", xlabel="granularity (s at 100 Mflop/s)")
    plots.shared_legend(figure)
    return figure
