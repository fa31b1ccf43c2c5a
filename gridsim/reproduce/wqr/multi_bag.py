"""Anglano and Canonico, PCGrid 2008: the five bag orders of WQR-FT, on drawn and on real desktops.

Only the abstracts of the paper and of its extended report of 2009 were available.  Statements from memory are
marked as such.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.errors import TraceWarning
from gridsim.reproduce.framework import (
    Case,
    CaseTable,
    Desktops,
    Measurements,
    Reproduction,
    Run,
    panels,
    series,
)
from gridsim.reproduce.verdicts import ABOVE_ONE, SMALLER, ClaimedRange, Row, judge
from gridsim.results.metrics.registry import MetricFunction
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_WINNER = "there is no clear winner among the proposed solutions (abstract, 2008)"
PERFORMANCE = "they outperform FCFS in application performance (abstract, 2009)"
USAGE = "they outperform FCFS in efficient resource usage (abstract, 2009)"
LARGE = "(from memory) with fewer tasks in a bag than machines FCFS-Excl is the worst"
SMALL_TASKS = "(from memory) with many small tasks FCFS-Share is better than RR"
FAIR = "(not in the paper) RR, RR-NRF and LongIdle are fairer than FCFS-Share"

EXCL, SHARE, RR, NRF, LONG, EXCL_2 = (
    *("FCFS-Excl", "FCFS-Share", "RR", "RR-NRF", "LongIdle"),
    "FCFS-Excl, 2 copies",
)
#: Under FCFS-Excl, whose bag has the whole grid, tasks have any number of copies; under the others at most
#: two.
SCHEDULERS: dict[str, gs.Scheduler] = {
    EXCL: gs.WqrFt(bag_order="fcfs-excl", max_replicas=1024),
    SHARE: gs.WqrFt(bag_order="fcfs-share"),
    RR: gs.WqrFt(bag_order="rr"),
    NRF: gs.WqrFt(bag_order="rr-nrf"),
    LONG: gs.WqrFt(bag_order="longidle"),
    EXCL_2: gs.WqrFt(bag_order="fcfs-excl"),
}
#: The number of copies is limited, since thousands of real hosts would run thousands of copies of each task.
REAL_SCHEDULERS = {name: scheduler for name, scheduler in SCHEDULERS.items() if name != EXCL}
PROPOSALS = (RR, NRF, LONG)

MACHINES = 100
#: Numbers of bags of the full and the quick run.
BAGS = 100, 20
#: Mean speed of a machine, Mflop/s, and run time of a bag on all machines at that speed, s.
SPEED, BAG_TIME = 1000.0, 2500.0
#: Mean run times of a task at a tenth of the mean speed, as in the paper, s.
GRANULARITIES = (1000, 5000, 25_000, 125_000), (5000, 125_000)
#: Mean up and down times, s.
AVAILABILITIES = {"98 % up": (88_200.0, 1800.0), "50 % up": (1800.0, 1800.0)}
#: Released work over the capacity of machines while they are up.
LOADS = (0.5, 0.9), (0.9,)
REAL = "real hosts"


def fairness(result: gs.Result) -> float:
    """Return Jain's index of the stretch of n bags: 1 if all are equal, 1 / n if all but one are 0."""
    stretch = np.asarray(result.applications["stretch"])
    return float(stretch.sum() ** 2 / (len(stretch) * (stretch**2).sum()))


METRICS: dict[str, MetricFunction] = {
    "mean_completion": attrgetter("mean_completion"),
    "wasted": attrgetter("wasted"),
    "fairness": fairness,
}


@dataclass(frozen=True)
class GranularBags:
    """Factory of scenarios of bags on drawn desktops: ``GranularBags(5000, "98 % up", 0.9, 100)(seed)``."""

    granularity: int
    up: str
    load: float
    bags: int

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``5000-98-0.9``."""
        return f"{self.granularity}-{self.up.split()[0]}-{self.load:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        up, down = AVAILABILITIES[self.up]
        workload = gs.Workload.bags(
            self.bags,
            BAG_TIME * (up + down) / up / self.load,
            tasks=MACHINES * BAG_TIME * 10 / self.granularity,
            variation=0.0,
            task_size=self.granularity * SPEED / 10,
            spread=gs.Normal(0.29),
            seed=seed,
        )
        platform = gs.Platform.desktop_grid(MACHINES, seed, 0.2 * SPEED, 1.8 * SPEED, 0.2 * SPEED)
        return gs.Scenario(platform, workload, seed=seed, faults=gs.Faults.exponential(up, down, seed))


@lru_cache(maxsize=4)
def _hosts(desktops: Desktops, load: float) -> tuple[int, float]:
    """Return the number of hosts on which the log has the given load, and the length of the trace, s."""
    from gridsim.traces import derive_bags, read_availability, read_jobs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the run shows the warning again
        bags = derive_bags(read_jobs(desktops.log))
    trace = read_availability(desktops.availability)
    up = trace.availability()
    up = up[up > 0]
    count = bags.offered_load(1) / (load * float(up.mean())) if len(up) else 1.0
    minimum = int(bags.job_procs.max(initial=1))
    return max(minimum, math.ceil(min(count, len(up)))), max(0.0, trace.horizon)


@dataclass(frozen=True)
class RealBags:
    """Factory of scenarios with the bags of a log, on as many real hosts as the load `load` requires.

    The seed determines which hosts, their speeds, and the start time in the trace.

    Parameters
    ----------
    bags
        Number of bags, counted from the first; None for all.
    """

    desktops: Desktops
    load: float
    bags: int | None = None

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``real-0.9``."""
        return f"real-{self.load:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        nodes, horizon = _hosts(self.desktops, self.load)
        start = float(Streams(seed)("reproduce.start").uniform(0.0, 0.4 * horizon))
        return gs.Scenario(
            gs.Platform.from_hosts(self.desktops.speeds, nodes, seed),
            gs.Workload.from_log(self.desktops.log, own_sizes=True, max_applications=self.bags, seed=seed),
            seed=seed,
            faults=gs.Faults.trace(self.desktops.availability, seed, start=start),
        )


def _cases(run: Run) -> dict[tuple[str, str], Case]:
    """Return the cases: each granularity, availability and load, or real hosts at each load."""
    if run.desktops is not None:
        return {
            (REAL, f"load {load:g}"): Case(
                RealBags(run.desktops, load, run.choose(None, 20)), REAL_SCHEDULERS
            )
            for load in run.choose(*LOADS)
        }
    return {
        (f"load {load:g}, {up}", str(granularity)): Case(
            GranularBags(granularity, up, load, run.choose(*BAGS)), SCHEDULERS
        )
        for load in run.choose(*LOADS)
        for up in AVAILABILITIES
        for granularity in run.choose(*GRANULARITIES)
    }


def _rows(data: Measurements) -> Iterator[Row]:
    cells = {f"{group}, {column}": values for (group, column), values in data.items()}
    excl = EXCL_2 if REAL in data.groups else EXCL
    orders = (excl, SHARE, *PROPOSALS)
    for name in orders:
        ratios = (
            (values.mean_ratio(rival, name, "mean_completion"), rival, cell)
            for cell, values in cells.items()
            for rival in orders
            if rival != name
        )
        lowest, rival, cell = min(ratios, key=lambda entry: entry[0].mean)
        yield judge(NO_WINNER, f"{rival} / {name}, least of all cells ({cell})", lowest, SMALLER)
    for cell, values in cells.items():
        for claim, metric in ((PERFORMANCE, "mean_completion"), (USAGE, "wasted")):
            best = min(PROPOSALS, key=lambda name: values.mean(name, metric).mean)
            for fcfs in (excl, SHARE):
                quantity = f"{cell}: best of three, {best} / {fcfs}"
                yield judge(claim, quantity, values.mean_ratio(best, fcfs, metric), SMALLER)
        for name in PROPOSALS:
            ratio = values.mean_ratio(name, SHARE, "fairness")
            yield judge(FAIR, f"{cell}: {name} / {SHARE}", ratio, ClaimedRange("", ABOVE_ONE))
        large, small = str(GRANULARITIES[0][-1]), tuple(map(str, GRANULARITIES[0][:2]))
        if cell.endswith(f" {large}") or cell.startswith(REAL):
            pairs = [(LARGE, name, excl) for name in (SHARE, *PROPOSALS)]
        else:
            pairs = [(SMALL_TASKS, SHARE, RR)] if cell.rpartition(" ")[2] in small else []
        for claim, name, rival in pairs:
            ratio = values.mean_ratio(name, rival, "mean_completion")
            yield judge(claim, f"{cell}: {name} / {rival}", ratio, SMALLER)


REMARKS = (
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


def _draw(data: Measurements) -> Figure:
    """Draw completion times over granularity or load, one panel for each availability and load."""
    x: Sequence[float] = data.run.choose(*GRANULARITIES)
    properties: dict[str, Any] = {"xscale": "log", "xlabel": "granularity (s at 100 Mflop/s)"}
    if REAL in data.groups:
        x = range(len(data))
        properties = {"xticks": x, "xticklabels": [load for _, load in data]}
    lines = {group: series(cases, "mean_completion") for group, cases in data.groups.items()}
    properties |= {"ylabel": "completion time of a bag (s)", "yscale": "log"}
    return panels(lines, x, properties, shared=True, columns=2)


MULTI_BAG = Reproduction(
    name="multi-bag",
    title="five orders in which bags of tasks get the machines of a desktop grid",
    paper="Anglano and Canonico, PCGrid 2008",
    claims=(NO_WINNER, PERFORMANCE, USAGE, LARGE, SMALL_TASKS, FAIR),
    files="desktops",
    cases=_cases,
    metrics=METRICS,
    rows=_rows,
    grids=(
        CaseTable("{group}: completion time of a bag, mean, s", "mean_completion", head="order"),
        CaseTable("{group}: fairness, Jain's index of the stretch of bags", "fairness", head="order"),
        CaseTable("{group}: share of the cycles that is wasted", "wasted", head="order"),
    ),
    remarks=REMARKS,
    figure=_draw,
)
