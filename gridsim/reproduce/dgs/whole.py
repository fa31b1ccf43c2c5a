"""The claims of Table I and Figure 4 on all jobs of a log under DGS_ASAP, as it is and compressed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gridsim.reproduce.dgs import fig4 as dgs_fig4
from gridsim.reproduce.dgs.common import (
    AMONG,
    HIGH,
    LOW,
    METRICS,
    Jobs,
    about_jobs,
    conflicts,
    costs,
    jobs_of,
    means,
    predicted,
    prices,
)
from gridsim.reproduce.framework import ABOVE, POSITIVE, Report, Row, Run, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.schedulers import Asap, Backfill, DgsAsap
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dgs-whole"
TITLE = "a whole log, as it is and at a load of 95 %: messages, conflicts, waiting, utilization"
ORDER = "poll exchanges most schedules, push fewest, and pull over push rises with the load"
FOLLOWS = "(not in the paper) pull over push follows from the protocol"
RARER = "failures under poll grow rarer with a shorter period"
NONE = "one at a time, push and pull have no failures"
OVERLAP = "effective utilization nearly overlaps request utilization at low load"
FULL = "it is over 90 % when overbooked"
CLAIMS = (ORDER, FOLLOWS, RARER, NONE, OVERLAP, FULL)
SEEDS = (5, 5)

#: Number and profile of the jobs that are drawn if there is no log.
JOBS, PROFILE = 20_000, "ricc2010"
PUSH, PULL, POLL = "push", "pull", "poll, 120 s"
SHORT, LONG = "poll, 30 s", "poll, 480 s"
POLICIES: dict[str, Scheduler] = {
    PUSH: DgsAsap(estimate="run"),
    PULL: DgsAsap(estimate="run", policy="pull"),
    POLL: DgsAsap(estimate="run", policy="poll"),
}
PERIODS: dict[str, Scheduler] = {
    SHORT: DgsAsap(estimate="run", policy="poll", poll_period=30.0),
    LONG: DgsAsap(estimate="run", policy="poll", poll_period=480.0),
}
CENTRAL = {"asap": "Asap", "easy": "EASY backfilling", "fcfs": "FCFS"}
_CENTRAL: dict[str, Scheduler] = {
    "asap": Asap(estimate="run"),
    "easy": Backfill(estimate="run"),
    "fcfs": Backfill(estimate="run", mode="fcfs"),
}
UTILIZATION = {
    "average": "EU of the time of submissions (%)",
    "ideal": "largest EU without waiting (%)",
    "peak": "largest EU (%)",
    "overbooked": "EU where it would be 100 % or more without waiting (%)",
    "distance": "distance of EU from that without waiting, where this is below 60 % (% points)",
    "after": "EU positive after the last submission (days)",
}
_METRICS: dict[str, MetricFunction] = METRICS | {name: dgs_fig4.METRICS[name] for name in UTILIZATION}


def run(how: Run) -> Report:
    """Run both loads; the curves are those of the first seed."""
    cases = _cases(how)
    made = {
        case: how.replicate(jobs, POLICIES | (PERIODS if not number else {}) | _CENTRAL, _METRICS)
        for number, (case, jobs) in enumerate(cases.items())
    }
    low, high = made
    few = {name: POLICIES[name] for name in (PUSH, PULL)}
    apart = how.replicate(replace(cases[low], alone=True), few, METRICS)
    rows = _costs(made)
    for short, long in ((SHORT, POLL), (POLL, LONG)):
        more = made[low].difference(long, short, "refused")
        what = f"{low}: first commits refused, {long} - {short}"
        rows.append(judge(RARER, what, "> 0", more, POSITIVE, math.inf, unit="%"))
    for name in few:
        what = f"{low}: first commits refused, {name}, one submission at a time, messages take no time"
        rows.append(judge(NONE, what, "0", apart.mean(name, "refused"), 0.0, 0.0, unit="%"))
    found = made[low].mean(PUSH, "distance")
    what = f"{low}: distance of EU from that without waiting, below 60 %"
    rows.append(judge(OVERLAP, what, "nearly none", found, 0.0, 1.0, unit="% points"))
    found = made[high].mean(PUSH, "peak")
    rows.append(judge(FULL, f"{high}: largest EU", "> 90", found, 90.0, 100.0, unit="%"))
    names = [*POLICIES, *PERIODS]
    grids = [
        means("Schedules exchanged", made, names, {"schedules": "schedules", "per node": "per node"}),
        conflicts(made, names),
        costs(made, names),
        prices("Price of decentralization", made, PUSH, CENTRAL),
        means("Effective utilization", made, (PUSH, "easy"), UTILIZATION),
    ]
    data = {
        case: dgs_fig4.curves(simulate(jobs(how.seeds[0]), POLICIES[PUSH])) for case, jobs in cases.items()
    }
    return Report(
        tuple(how.seeds), how.quick, rows, grids, (*about_jobs(how, PROFILE, whole=True), *_REMARKS), data
    )


def _cases(how: Run) -> dict[str, Jobs]:
    """Return the cases: the jobs as they are, and compressed."""
    high = jobs_of(how, JOBS, HIGH, PROFILE)
    if how.log is None or how.quick:  # the small version has too few nodes for the log's own load
        return {f"RU {LOW:g}": replace(high, load=LOW), f"RU {HIGH:g}": high}
    high = replace(high, jobs=0)
    return {"own load": replace(high, load=None), f"RU {HIGH:g}": high}


def _costs(made: dict[str, Replicates]) -> list[Row]:
    rows: list[Row] = []
    measured = []
    for case, each in made.items():
        schedules = each["schedules"]
        poll = estimate(schedules[POLL] / np.maximum(schedules[PULL], schedules[PUSH]))
        what = f"{case}: poll / the greater of pull and push"
        rows.append(judge(ORDER, what, "> 1", poll, ABOVE, math.inf))
        ratio = schedules[PULL] / schedules[PUSH]
        measured.append(ratio)
        rows.append(judge(ORDER, f"{case}: pull / push", "> 1", estimate(ratio), ABOVE, math.inf))
        share = estimate(ratio / predicted(each, PULL, PUSH))
        what = f"{case}: pull / push over fwd (1 + m) searches / (E[n] + 2 cancelled)"
        rows.append(judge(FOLLOWS, what, "1", share, 0.9, 1.1))
    rise = estimate(measured[1] / measured[0])
    low, high = made
    rows.append(judge(ORDER, f"pull / push: {high} over {low}", "> 1", rise, ABOVE, math.inf))
    return rows


_REMARKS = (
    "A log has the same jobs with each seed; what differs is where they are submitted, who knows whom, and "
    "what is drawn on the way.",
    AMONG,
    f"Intervals of utilization are a {dgs_fig4.PARTS}th of the time of submissions.",
)


def figure(report: Report) -> Figure:
    """Draw RU and EU over time for the first seed, a panel per load."""
    return dgs_fig4.figure(report)
