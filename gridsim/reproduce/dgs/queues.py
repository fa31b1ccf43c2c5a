"""Decentralized co-allocation beside the queues of sites, with exact and with requested run times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import gridsim as gs
from gridsim.reproduce.dgs.common import PLACED_REMARK, GridJobs, about_jobs, never, waiting
from gridsim.reproduce.dgs.rivals import DELAYS, NO_LIMIT, messages, wide_waiting
from gridsim.reproduce.framework import (
    Case,
    Measurements,
    MetricTable,
    Reproduction,
    ResultGrid,
    Run,
    lines,
)
from gridsim.reproduce.verdicts import LARGER, SMALLER, ClaimedRange, Row, judge
from gridsim.results.metrics.registry import MetricFunction

EXACT = "with exact run times, jobs wait as long under DGS_ASAP as in a queue with backfilling"
STAYING = "with requested times, jobs that keep their starts wait longer than in a queue with backfilling"
MOVING = "if placed jobs move forward, they wait less"
EQUAL_WAITING = "if placed jobs move forward, they wait as long as in a queue with backfilling"

NODES, JOBS, LOAD = 100, 1000, 0.9
EASY, CONSERVATIVE = "EASY", "conservative"
ASAP, ASAP_MOVING = "Asap", "Asap, moving"
DGS, DGS_MOVING, ZORILLA = "DGS_ASAP", "DGS_ASAP, moving", "Zorilla"
EXACT_TIMES, REQUESTED_TIMES = "exact run times", "requested times"
_AS_LONG = ClaimedRange("1 +- 25 %", 0.75, 1.25)


def slowdown(result: gs.Result) -> float:
    """Return the mean bounded slowdown of completed jobs."""
    return result.mean_slowdown


METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "wide": wide_waiting,
    "slowdown": slowdown,
    "messages": messages,
    "never": never,
}
COLUMNS = {
    "waiting": "mean waiting (s)",
    "wide": "of the widest tenth (s)",
    "slowdown": "bounded slowdown",
    "messages": "messages per job",
    "never": "never placed (%)",
}


def _schedulers(estimate: Literal["requested", "run"]) -> dict[str, gs.Scheduler]:
    """Return the schedulers that plan with run times ("run") or with requested times ("requested")."""
    return {
        EASY: gs.BatchQueue(estimate=estimate),
        CONSERVATIVE: gs.BatchQueue(backfill="conservative", estimate=estimate),
        ASAP: gs.Asap(estimate=estimate),
        ASAP_MOVING: gs.Asap(move="forward", estimate=estimate),
        DGS: gs.DgsAsap(estimate=estimate),
        DGS_MOVING: gs.DgsAsap(move="forward", estimate=estimate),
    }


#: Zorilla reserves nothing and so uses no estimates.
SCHEDULERS = _schedulers("run") | {ZORILLA: gs.Zorilla(longest=600.0, lifetime=NO_LIMIT)}


def _cases(run: Run) -> dict[str, Case]:
    nodes, count = run.choose((NODES, JOBS), (NODES // 2, JOBS // 10))
    jobs = GridJobs(nodes, count, LOAD, "ricc2010", run.log, nodes)
    return {
        EXACT_TIMES: Case(jobs),
        REQUESTED_TIMES: Case(jobs, _schedulers("requested")),
    }


def _rows(data: Measurements) -> Iterator[Row]:
    exact_times, requested_times = data[EXACT_TIMES], data[REQUESTED_TIMES]

    def ratio(claim: str, name: str, rival: str, expected: ClaimedRange, case: str = REQUESTED_TIMES) -> Row:
        values = data[case].mean_ratio(name, rival, "waiting")
        return judge(claim, f"{case}: mean waiting, {name} / {rival}", values, expected)

    yield ratio(EXACT, DGS, EASY, _AS_LONG, EXACT_TIMES)
    yield ratio(EXACT, DGS, CONSERVATIVE, _AS_LONG, EXACT_TIMES)
    yield ratio(STAYING, DGS, EASY, LARGER)
    yield ratio(STAYING, ASAP, EASY, LARGER)
    yield ratio(MOVING, DGS_MOVING, DGS, SMALLER)
    yield ratio(MOVING, ASAP_MOVING, ASAP, SMALLER)
    yield ratio(EQUAL_WAITING, DGS_MOVING, EASY, _AS_LONG)
    yield ratio(EQUAL_WAITING, DGS_MOVING, CONSERVATIVE, _AS_LONG)
    yield ratio(EQUAL_WAITING, ASAP_MOVING, CONSERVATIVE, _AS_LONG)
    wide = exact_times.mean_ratio(ZORILLA, EASY, "wide")
    yield judge(DELAYS, f"waiting of the widest tenth, {ZORILLA} / {EASY}", wide, LARGER)
    for rival in EASY, DGS:
        yield judge(
            "", f"mean waiting, {ZORILLA} / {rival}", exact_times.mean_ratio(ZORILLA, rival, "waiting")
        )
    more = requested_times.mean_ratio(DGS_MOVING, DGS, "messages")
    yield judge("", f"{REQUESTED_TIMES}: messages per job, {DGS_MOVING} / {DGS}", more)


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    yield MetricTable("Waiting, bounded slowdown, messages", COLUMNS).grid(data)


QUEUES = Reproduction(
    name="queues",
    title="DGS_ASAP, Asap and Zorilla beside EASY and conservative backfilling",
    paper="not in a paper",
    claims=(EXACT, STAYING, MOVING, EQUAL_WAITING, DELAYS),
    files="job log",
    cases=_cases,
    schedulers=SCHEDULERS,
    metrics=METRICS,
    rows=_rows,
    grids=_grids,
    remarks=lambda data: (
        *about_jobs(data.run, "ricc2010"),
        f"{NODES} nodes without jobs that request more, with submissions scaled to a request utilization of "
        f"{LOAD:g}.",
        f"{ZORILLA} reserves nothing and so uses no estimates.",
        PLACED_REMARK,
    ),
    figure=lines(
        ([0, 1], [0, 1]),
        {COLUMNS["waiting"]: "waiting"},
        {"xlabel": "", "xticks": [0, 1], "xticklabels": [EXACT_TIMES, REQUESTED_TIMES], "yscale": "log"},
        [EASY, CONSERVATIVE, ASAP, ASAP_MOVING, DGS, DGS_MOVING],
        name_as="ylabel",
    ),
)
