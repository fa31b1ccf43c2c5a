"""Vasilakos, Sacha and Pierre, Table I: schedules exchanged and failures under push, pull and poll."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gridsim.reproduce.dgs.common import (
    AMONG,
    DAY,
    DEGREE,
    HIGH,
    METRICS,
    OTHER_JOBS,
    Jobs,
    about_jobs,
    conflicts,
    costs,
    jobs_of,
    polled,
    predicted,
    prices,
)
from gridsim.reproduce.framework import (
    ABOVE,
    POSITIVE,
    Grid,
    Report,
    Row,
    Run,
    incomparable,
    judge,
    near,
    per_doubling,
)
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.schedulers import Asap, Backfill, DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-table1"
TITLE = "schedules exchanged and scheduling failures under push, pull and poll"
TOTALS = "push takes 152,277 schedules, and pull 2,187,928"
POLLS = "poll every 120 s takes 72,000,000 schedules"
CHEAPER = "push costs over 10 times less than pull"
DEARER = "poll costs an order of magnitude more than both"
FOLLOWS = "(not in the paper) pull over push follows from the protocol, and rises with the load"
FAILURES = "with poll 0.21 % of the jobs meet a scheduling failure, with push and pull none"
RARER = "failures under poll grow rarer with a shorter period"
SIZE = "the messages of a node do not depend on the size of the system"
CLAIMS = (TOTALS, POLLS, CHEAPER, DEARER, FOLLOWS, FAILURES, RARER, SIZE)
SEEDS = (10, 5)

PUSH, PULL, POLL = "push", "pull", "poll, 120 s"
ASAP, EASY = "asap", "backfill"
PERIODS = (30, 120, 480)
PAPER = {PUSH: 152_277.0, PULL: 2_187_928.0, POLL: 72_000_000.0}
PAPER_REFUSED = 0.21
#: Number of jobs within a day, and at a load of 95 %.
JOBS, MORE = 2000, 5000
PARTS = (4, 2)
SCHEDULERS: dict[str, Scheduler] = {
    PUSH: DgsAsap(estimate="run"),
    PULL: DgsAsap(estimate="run", policy="pull"),
    **{
        f"poll, {period} s": DgsAsap(estimate="run", policy="poll", poll_period=float(period))
        for period in PERIODS
    },
    ASAP: Asap(estimate="run"),
    EASY: Backfill(estimate="run"),
}
LOADED = {name: SCHEDULERS[name] for name in (PUSH, PULL, POLL, ASAP, EASY)}
FEW = {name: SCHEDULERS[name] for name in (PUSH, PULL)}
_METRICS: dict[str, MetricFunction] = METRICS | {"polled": polled}


def run(how: Run) -> Report:
    """Run 2000 jobs within a day and 5000 at a load of 95 %, then jobs one at a time, then on fewer nodes."""
    day, more = jobs_of(how, JOBS), jobs_of(how, MORE, HIGH)
    made = {
        "one day": how.replicate(day, SCHEDULERS, _METRICS),
        f"RU {HIGH:g}": how.replicate(more, LOADED, _METRICS),
    }
    apart = how.replicate(replace(day, alone=True), FEW, METRICS)
    rows = _costs(made) + _failures(made)
    for name in FEW:
        what = f"{name}: first commits refused, one submission at a time, messages take no time"
        found = apart.mean(name, "refused")
        rows.append(judge(FAILURES, what, "0", found, 0.0, 0.0, unit="%"))
    sizes, grown = _sizes(day, how, made["one day"])
    for name, values in grown.items():
        slope = estimate(100.0 * per_doubling(sizes, values) / sum(values) * len(sizes))
        what = f"{name}: growth of schedules per node per doubling, N = {sizes[0]} to {sizes[-1]}"
        rows.append(judge(SIZE, what, "0", slope, -10.0, 10.0, unit="% of the mean"))
    grids = [
        conflicts(made, [name for name in SCHEDULERS if name not in (ASAP, EASY)]),
        costs(made, (PUSH, PULL, POLL)),
        Grid(
            "Schedules per node with as many jobs per node, in a day",
            ["policy", *(f"N = {size}" for size in sizes)],
            {name: [estimate(each) for each in values] for name, values in grown.items()},
        ),
        prices("Price of decentralization", made, PUSH, {ASAP: "Asap", EASY: "EASY backfilling"}),
        _OWN,
    ]
    data = {name: made["one day"].mean(name, "schedules") for name in (PUSH, PULL)}
    data[POLL] = estimate(_in_a_day(made["one day"], POLL))
    remarks = (*about_jobs(how, "ricc2010"), *_REMARKS)
    return Report(tuple(how.seeds), how.quick, rows, grids, remarks, data)


def _in_a_day(made: Replicates, name: str) -> Any:
    """Return, for each seed, the schedules polled while jobs were submitted, per day."""
    return made["polled"][name] * DAY / made["span"][name]


def _costs(made: dict[str, Replicates]) -> list[Row]:
    rows: list[Row] = []
    measured: dict[str, list[Any]] = {"pull / push": [], "pull / push, cancelled nodes left out": []}
    for case, each in made.items():
        schedules = each["schedules"]
        rows += [
            incomparable(
                TOTALS,
                f"{case}: {name}",
                f"{PAPER[name]:,.0f}",
                each.mean(name, "schedules"),
                OTHER_JOBS,
                unit="schedules",
            )
            for name in (PUSH, PULL)
        ]
        what, daily = f"{case}: {POLL}, per day; N d D / p", estimate(_in_a_day(each, POLL))
        rows.append(near(POLLS, what, PAPER[POLL], daily, within=0.01, unit="schedules"))
        for name, paper in ((PULL, "32.9"), (PUSH, "473")):
            times = estimate(each["polled"][POLL] / schedules[name])
            rows.append(judge(DEARER, f"{case}: poll / {name}", paper, times, 10.0, math.inf))
        ratio = schedules[PULL] / schedules[PUSH]
        plain = ratio * (1.0 + 2.0 * each["cancelled"][PUSH] / each["nodes"][PUSH])
        for (name, values), now in zip(measured.items(), (ratio, plain), strict=True):
            values.append(now)
            rows.append(judge(CHEAPER, f"{case}: {name}", "14.4", estimate(now), 10.0, math.inf))
        follows = predicted(each, PULL, PUSH)
        what = f"{case}: fwd (1 + m) searches / (E[n] + 2 cancelled)"
        rows.append(Row(FOLLOWS, what, "", estimate(follows)))
        share = estimate(ratio / follows)
        rows.append(judge(FOLLOWS, f"{case}: pull / push over that", "1", share, 0.9, 1.1))
    low, high = made
    for name, (before, after) in measured.items():
        rise = estimate(after / before)
        rows.append(judge(FOLLOWS, f"{name}: {high} over {low}", "> 1", rise, ABOVE, math.inf))
    return rows


def _failures(made: dict[str, Replicates]) -> list[Row]:
    rows = []
    for case, each in made.items():
        for name, paper in ((PUSH, 0.0), (PULL, 0.0), (POLL, PAPER_REFUSED)):
            what = f"{case}: first commits refused, {name}"
            rows.append(near(FAILURES, what, paper, each.mean(name, "refused"), unit="%"))
        more = each.difference(POLL, PUSH, "refused")
        rows.append(judge(FAILURES, f"{case}: {POLL} - push", "> 0", more, POSITIVE, math.inf, unit="%"))
    case, each = next(iter(made.items()))
    for short, long in pairwise(PERIODS):
        more = each.difference(f"poll, {long} s", f"poll, {short} s", "refused")
        what = f"{case}: poll, {long} s - {short} s"
        rows.append(judge(RARER, what, "> 0", more, POSITIVE, math.inf, unit="%"))
    return rows


def _sizes(day: Jobs, how: Run, last: Replicates) -> tuple[list[int], dict[str, list[Any]]]:
    """Return the sizes, and schedules per node at each size, with the same number of jobs per node."""
    made = []
    for part in PARTS:
        fewer = replace(day, nodes=day.nodes // part, jobs=day.jobs // part)
        made.append(how.replicate(fewer, FEW, METRICS))
    sizes = [*(day.nodes // part for part in PARTS), day.nodes]
    return sizes, {name: [each["per node"][name] for each in (*made, last)] for name in FEW}


#: Relations between the paper's own numbers: N d D / p = 72,000,000 for p = 120 s.
_OWN = Grid(
    "The paper's own numbers",
    ["relation", "value"],
    {
        "D = 72,000,000 p / (N d)": [
            f"{PAPER[POLL] * 120 / (5000 * DEGREE):,.0f} s: a day of the 2.7 months"
        ],
        "push / d": [f"{PAPER[PUSH] / DEGREE:,.2f} nodes allocated, not a whole number"],
        "pull / push": [f"{PAPER[PULL] / PAPER[PUSH]:.1f}"],
        "poll / pull": [f"{PAPER[POLL] / PAPER[PULL]:.1f}"],
        "poll / push": [f"{PAPER[POLL] / PAPER[PUSH]:.0f}: more than an order of magnitude"],
    },
)

_REMARKS = (
    "Failure rate: jobs whose first commit was refused.  They are placed by another answer or search; "
    "jobs that were never placed are counted apart.",
    "Schedules: what pushes, pulls or polls bring.  Push and poll also get the schedules of opened "
    "neighbours, which the paper's push total cannot contain: they are counted apart.",
    "Poll goes on until the last job has ended; the share of the time of submissions is compared, per day.",
    "Each cancelled node pushes twice, as it commits and as it is released.",
    "Many jobs of logs share their second with another: they search at the same time and meet under each "
    "policy.  One at a time and with messages that take no time nobody can.",
    AMONG,
    "DGS_ASAP and Asap start jobs on whole slots of 60 s, backfilling at once.",
)


def figure(report: Report) -> Figure:
    """Draw bars of the schedules of each policy, with the printed ones."""
    from gridsim import plots

    made, panels = plots.figure(1)
    names = (PUSH, PULL, POLL)
    beside = [None if report.quick else PAPER[name] for name in names]
    plots.bars(list(names), [report.data[name] for name in names], beside, axes=panels[0])
    panels[0].set_yscale("log")
    panels[0].set_title("schedules exchanged, jobs of one day")
    return made
