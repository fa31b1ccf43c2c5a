"""Vasilakos, Sacha and Pierre, Table II: the node degree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.reproduce.dgs.common import FORWARD, HIGH, METRICS, OTHER_JOBS, about_jobs, jobs_of, shown
from gridsim.reproduce.framework import Grid, Report, Row, Run, incomparable, judge, near, sign
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-table2"
TITLE = "failures, waiting and schedules exchanged over the node degree"
FAIL = "with a degree of 10 the jobs fail that are larger than the candidates, 1.5 %, with 20 or more none"
WAITS = "waiting is 247, 394, 467 and 452 s: without the largest jobs it is shortest, else it hardly differs"
TOTALS = "push costs 75,592, 192,713, 282,813 and 346,302 schedules, pull 1,108,196 to 13,097,892"
LINEAR = "both grow nearly linearly with the degree"
CLAIMS = (FAIL, WAITS, TOTALS, LINEAR)
SEEDS = (10, 5)

DEGREES = (10, 20, 30, 40)
FAILED = (1.5, 0.0, 0.0, 0.0)
WAITING = (247.0, 394.0, 467.0, 452.0)
COST = {
    "push": (75_592, 192_713, 282_813, 346_302),
    "pull": (1_108_196, 5_421_255, 11_632_289, 13_097_892),
}
JOBS = 2000
#: Largest number of nodes of a drawn job: jobs of the paper's trace have at most 420, and two hops reach
#: about 400.
WIDEST = 400
#: Load -> profile of the jobs: with room on the grid, and where searches must look far, as in the paper.
CASES = {HIGH: "ricc2010", 4.0: "wagap2013"}
WIDEN = "push, d = 10, widen"
SCHEDULERS: dict[str, Scheduler] = {
    **{f"push, d = {d}": DgsAsap(estimate="run", degree=d, wide="fail") for d in DEGREES},
    **{f"pull, d = {d}": DgsAsap(estimate="run", degree=d, wide="fail", policy="pull") for d in DEGREES},
    WIDEN: DgsAsap(estimate="run", degree=10),
}


def within_reach(result: Result) -> float:
    """Jobs that failed although searches reached as many machines as they want, % of all jobs."""
    jobs = result.applications
    return 100.0 * float(((jobs["failed"] > 0) & (jobs["tasks"] <= jobs["reached"])).mean())


def reach(result: Result) -> float:
    """Largest number of machines that an unsuccessful search reached, mean over the jobs that failed."""
    jobs = result.applications
    return float(jobs["reached"][jobs["failed"] > 0].mean()) if jobs["failed"].any() else math.nan


COLUMNS = {
    "nodes": "E[n]",
    "opened": "m, neighbours opened",
    "cancelled": "cancelled nodes per job",
    "searched": "searches per job",
    "refused": "first commit refused (%)",
    "never": "never placed (%)",
    "reach": "machines reached for those",
    "waiting": "mean waiting (s)",
}
_METRICS: dict[str, MetricFunction] = METRICS | {"within reach": within_reach, "reach": reach}


def run(how: Run) -> Report:
    """Run push and pull with each degree, where there is room and where there is none.

    Jobs that are too large fail, as in the paper; in one case (`WIDEN`) searches widen instead.
    """
    rows: list[Row] = []
    grids, data = [], {}
    for load, profile in CASES.items():
        jobs = replace(jobs_of(how, JOBS, load, profile), widest=WIDEST)
        chosen = SCHEDULERS if load == HIGH else {k: v for k, v in SCHEDULERS.items() if k != WIDEN}
        made = how.replicate(jobs, chosen, _METRICS)
        case = f"RU {load:g}"
        rows += _failures(made, case) + _costs(made, case)
        cells = {name: [shown(made.mean(name, metric)) for metric in COLUMNS] for name in chosen}
        grids.append(Grid(f"{case}: by policy and degree", ["", *COLUMNS.values()], cells))
        data[case] = {p: [made.mean(f"{p}, d = {d}", "schedules") for d in DEGREES] for p in COST}
        data[case]["waiting"] = [made.mean(f"push, d = {d}", "waiting") for d in DEGREES]
    remarks = (*about_jobs(how, *CASES.values()), *_REMARKS)
    return Report(tuple(how.seeds), how.quick, rows, [*grids, _OWN], remarks, data)


def _failures(made: Replicates, case: str) -> list[Row]:
    rows: list[Row] = []
    for d, paper in zip(DEGREES, FAILED, strict=True):
        never = made.mean(f"push, d = {d}", "never")
        rows.append(near(FAIL, f"{case}: jobs that fail, d = {d}", paper, never, unit="%"))
    failed = np.sum([made["within reach"][name] for name in made.schedulers], axis=0)
    what = f"{case}: jobs that fail of no more nodes than were reached, all degrees"
    rows.append(judge(FAIL, what, "0", estimate(failed), 0.0, 0.0, unit="%"))
    if WIDEN in made.schedulers:
        what = f"{case}: jobs that fail where searches widen, d = 10"
        rows.append(judge(FAIL, what, "0", made.mean(WIDEN, "never"), 0.0, 0.0, unit="%"))
    for d, seconds in zip(DEGREES, WAITING, strict=True):
        found = made.mean(f"push, d = {d}", "waiting")
        what = f"{case}: waiting, d = {d}"
        rows.append(incomparable(WAITS, what, f"{seconds:g}", found, OTHER_JOBS, unit="s"))
    longer = made["waiting"]["push, d = 40"] - made["waiting"]["push, d = 10"]
    rows.append(sign(WAITS, f"{case}: waiting, d = 40 - d = 10", "205", longer, unit="s"))
    return rows


def _costs(made: Replicates, case: str) -> list[Row]:
    rows: list[Row] = []
    for policy, printed in COST.items():
        for d, cost in zip(DEGREES, printed, strict=True):
            found = made.mean(f"{policy}, d = {d}", "schedules")
            what = f"{case}: {policy}, d = {d}"
            rows.append(incomparable(TOTALS, what, f"{cost:,}", found, OTHER_JOBS, unit="schedules"))
    for d in DEGREES:
        name = f"push, d = {d}"
        changes = (made["nodes"][name] + 2.0 * made["cancelled"][name]) * made["jobs"][name]
        share = estimate(made["schedules"][name] / (d * changes))
        what = f"{case}: push, d = {d}: schedules / (d * changes of schedules)"
        rows.append(judge(LINEAR, what, "1", share, 0.95, 1.05))
    for low, high in ((20, 40), (10, 40)):
        power, told = _power(made, "pull", low, high), _paper_power("pull", low, high)
        what = f"{case}: pull grows as d to the power of, d = {low} to {high}"
        rows.append(judge(LINEAR, what, f"nearly linear; its numbers {told}", power, 1.0, 2.0))
    power, told = _power(made, "push", 20, 40), _paper_power("push", 20, 40)
    what = f"{case}: push grows as d to the power of, d = 20 to 40"
    rows.append(Row(LINEAR, what, f"nearly linear; its numbers {told}", power))
    return rows


def _power(made: Replicates, policy: str, low: int, high: int) -> Any:
    """Return an estimate of the exponent with which schedules grow between two degrees."""
    ratio = made["schedules"][f"{policy}, d = {high}"] / made["schedules"][f"{policy}, d = {low}"]
    return estimate(np.log(ratio) / math.log(high / low))


def _paper_power(policy: str, low: int, high: int) -> str:
    printed = COST[policy]
    ratio = printed[DEGREES.index(high)] / printed[DEGREES.index(low)]
    return f"{math.log(ratio) / math.log(high / low):.2f}"


def _own() -> Grid:
    """Return a table of relations between the paper's own numbers."""
    nodes = [push / d for push, d in zip(COST["push"], DEGREES, strict=True)]
    jobs = [pull / (FORWARD * d * (1 + d)) for pull, d in zip(COST["pull"], DEGREES, strict=True)]
    rows = {
        "push / d: nodes allocated": [f"{each:,.0f}" for each in nodes],
        "pull / (5 d (1 + d)): jobs, if all neighbours are opened": [f"{each:,.0f}" for each in jobs],
        "the first over the second: nodes of a job": [
            f"{a / b:.2f}" for a, b in zip(nodes, jobs, strict=True)
        ],
    }
    return Grid("The paper's own numbers", ["relation", *(f"d = {d}" for d in DEGREES)], rows)


_OWN = _own()
_REMARKS = (
    'Jobs that want more machines than a search has reached fail (`wide = "fail"`), as they did in the '
    "paper.  Views overlap: two hops reach fewer than d + d^2 machines.",
    "Push is sent to those who know a node, d on average; a node's schedule changes when it commits, and "
    "again when it is cancelled.",
    "Pull costs d (1 + m) for each neighbour that searches: m falls with d while there is room, and grows "
    "with it where there is none.",
    "The paper's push / d should not depend on d from 20 on, but falls by 10 %.  Its pull grows like d^2 "
    "where all neighbours are opened.",
    "1.5 % of failures at d = 10 are at least 30 jobs of more than 110 nodes, 3355 nodes in all; but the "
    "printed push / d is only 2076 less than for d = 20: these cannot have been the same jobs.",
    "At d = 20 Tables I and II have different totals (push 152,277 and 192,713): different runs.",
)


def figure(report: Report) -> Figure:
    """Draw schedules of push and pull, and waiting, over the degree at the high load, and what is printed."""
    from gridsim import plots

    made, panels = plots.figure(3)
    case, measured = list(report.data.items())[-1]
    printed: dict[str, Sequence[float]] = {**COST, "waiting": WAITING}
    for axes, (what, values) in zip(panels, printed.items(), strict=True):
        beside = [None if report.quick else float(value) for value in values]
        plots.bars([str(d) for d in DEGREES], measured[what], beside, axes=axes)
        title = "mean waiting (s)" if what == "waiting" else f"schedules exchanged, {what}"
        axes.set_title(f"{case}: {title}")
        axes.set_xlabel("node degree")
    return made
