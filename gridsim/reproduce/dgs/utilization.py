"""Vasilakos, Sacha and Pierre, Figure 4: request and effective utilization over time.

Also the claims of Table I and Figure 4 for a whole log under DGS_ASAP, as recorded and compressed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import gridsim as gs
from gridsim.reproduce.dgs.common import (
    DAY,
    HIGH,
    LOW,
    METRICS,
    PLACED_REMARK,
    GridJobs,
    about_jobs,
    conflict_table,
    cost_table,
    jobs_of,
    price_table,
    protocol_ratio,
    span,
)
from gridsim.reproduce.framework import (
    Case,
    Measurements,
    MetricTable,
    Reproduction,
    ResultGrid,
    Run,
    ScenarioFactory,
)
from gridsim.reproduce.verdicts import LARGER, POSITIVE, ZERO, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.rigid import effective_series, intervals, request_series
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -- Figure 4 -------------------------------------------------------------------------------------------

OVERLAP = "below 60 % request utilization and effective utilization nearly overlap"
OVERBOOKED_USE = "during overbooked periods effective utilization is about 90 % and more"
AFTER = "after the last submission effective utilization stays positive for several days"

PUSH = "push"
#: Number of intervals into which the period of submissions is divided.
PARTS = 40
#: Utilization below which the curves should overlap, and that from which the grid counts as overbooked.
CALM, FULL = 0.6, 1.0
#: Minimum number of days that counts as "several".
SEVERAL_DAYS = 2.0


class Curves(NamedTuple):
    """RU and EU in equal intervals, and the EU that results if each job starts at its submission (`ideal`).

    Parameters
    ----------
    edges
        Edges of the intervals, s since the first submission.
    submissions
        Number of intervals that begin before the last submission.
    """

    edges: Floats
    ru: Floats
    eu: Floats
    ideal: Floats
    submissions: int


def curves(result: gs.Result) -> Curves:
    """Return the curves of RU and EU of a run."""
    jobs, machines = result.applications, len(result.machines)
    first, length = float(jobs["release"].min()), span(result) / PARTS
    release = jobs["release"] - first
    latest = max(float(np.nanmax(jobs["finish"])) - first, float((release + jobs["run_time"]).max()))
    edges = intervals(0.0, latest, length)
    return Curves(
        edges,
        request_series(edges, release, jobs["tasks"], jobs["run_time"], machines),
        effective_series(edges, jobs["first_start"] - first, jobs["finish"] - first, jobs["tasks"], machines),
        effective_series(edges, release, release + jobs["run_time"], jobs["tasks"], machines),
        PARTS,
    )


def distance(result: gs.Result) -> float:
    """Return the mean distance of EU from EU without waiting, where that is below 60 %, % points."""
    of_run = curves(result)
    calm = of_run.ideal < CALM
    calm[of_run.submissions :] = False
    return 100.0 * float(np.abs(of_run.eu - of_run.ideal)[calm].mean()) if calm.any() else math.nan


def overbooked_use(result: gs.Result) -> float:
    """Return the mean EU of the intervals in which EU without waiting is 100 % or more, %, or NaN."""
    of_run = curves(result)
    full = of_run.ideal >= FULL
    return 100.0 * float(of_run.eu[full].mean()) if full.any() else math.nan


def peak(result: gs.Result) -> float:
    """Return the maximum EU of an interval, %."""
    return 100.0 * float(curves(result).eu.max())


def average(result: gs.Result) -> float:
    """Return the mean EU from the first to the last submission, %."""
    of_run = curves(result)
    return 100.0 * float(of_run.eu[: of_run.submissions].mean())


def peak_without_waits(result: gs.Result) -> float:
    """Return the maximum EU of an interval if no job had to wait, %."""
    return 100.0 * float(curves(result).ideal.max())


def busiest(result: gs.Result) -> float:
    """Return the maximum RU of an interval, %."""
    return 100.0 * float(curves(result).ru.max())


def days_after(result: gs.Result) -> float:
    """Return the time from the last submission until the last job ends, days."""
    return (result.makespan - span(result)) / DAY


def hours_after(result: gs.Result) -> float:
    """Return the time from the last submission until the last job starts, hours."""
    jobs = result.applications
    return (float(np.nanmax(jobs["first_start"])) - float(jobs["release"].max())) / 3600.0


UTILIZATION: dict[str, MetricFunction] = {
    "distance": distance,
    "overbooked": overbooked_use,
    "peak": peak,
    "average": average,
    "ideal": peak_without_waits,
    "busiest": busiest,
    "after": days_after,
    "postponed": hours_after,
    "span": span,
}
#: Claims: EU nearly overlaps RU; EU in overbooked periods; the maximum EU.
SMALL_DISTANCE, HIGH_USE, HIGH_PEAK = (
    ClaimedRange("nearly none", 0.0, 1.0),
    ClaimedRange("about 90", 85.0, 100.0),
    ClaimedRange("> 90", 90.0, 100.0),
)


def _fig4_rows(data: Measurements) -> Iterator[Row]:
    for case, values in data.items():
        full = case == f"RU {HIGH:g}"
        quantity = f"{case}: distance of EU from that without waiting, below 60 %"
        yield judge(OVERLAP, quantity, values.mean(PUSH, "distance"), SMALL_DISTANCE, unit="% points")
        if full:
            column = values["overbooked"][PUSH]
            subset = column[np.isfinite(column)]
            quantity = f"{case}: EU where it would be 100 % or more without waiting"
            why, mean = (
                f"so in {len(subset)} of {len(column)} seeds",
                estimate(subset) if len(subset) else None,
            )
            yield judge(OVERBOOKED_USE, quantity, mean, HIGH_USE, unit="%", why=why)
            yield judge(OVERBOOKED_USE, f"{case}: largest EU", values.mean(PUSH, "peak"), HIGH_PEAK, unit="%")
        days, quantity = values.mean(PUSH, "after"), f"{case}: EU positive after the last submission"
        if full:
            yield judge(AFTER, quantity, days, ClaimedRange("several", SEVERAL_DAYS), unit="days")
        else:
            yield Row(AFTER, quantity, "shorter", days, "days")
        quantity = f"{case}: jobs start after the last submission"
        yield judge(AFTER, quantity, values.mean(PUSH, "postponed"), unit="h")


def _fig4_grids(data: Measurements) -> Iterator[ResultGrid]:
    columns = {
        "busiest": "largest RU (%)",
        "ideal": "largest EU without waiting (%)",
        "peak": "largest EU (%)",
        "average": "EU of the time of submissions (%)",
        "span": "D (s)",
    }
    table = MetricTable("Utilization", columns).grid(data)
    yield replace(table, rows={row.removesuffix(f": {PUSH}"): cells for row, cells in table.rows.items()})
    months = 2.7 * LOW / HIGH
    relations = {
        "2.7 months at 28 %, compressed to 95 %": [f"{months:.3f} months; printed 0.78"],
        "RU of 0.78 months": [f"{100 * 2.7 * LOW / 0.78:.1f} %"],
    }
    yield ResultGrid("The paper's own numbers", ["relation", "value"], relations)


FIG4_REMARKS = (
    f"Intervals are a {PARTS}th of the time of submissions.  RU counts the whole of a job in the interval of "
    "its submission; jobs that last longer make EU later.  So EU is compared with what it would be if each "
    "job started when it is submitted.",
    f'"Several days" is taken as {SEVERAL_DAYS:g} and more.',
    "EU counts the time in which nodes run jobs, not what is left of their last slots.",
)


def _draw(run: Run, cases: Mapping[str, ScenarioFactory]) -> Figure:
    """Draw RU and EU over time for the first seed, one panel per load."""
    from gridsim import plots

    figure, panels = plots.figure(len(cases))
    for axes, (case, jobs) in zip(panels, cases.items(), strict=True):
        of_case = curves(simulate(jobs(run.seeds[0]), gs.DgsAsap(estimate="run")))
        days, end = of_case.edges[:-1] / DAY, of_case.edges[of_case.submissions] / DAY
        for number, name, values in (
            (1, "RU", of_case.ru),
            (2, "EU without waiting", of_case.ideal),
            (0, "EU", of_case.eu),
        ):
            axes.step(days, 100.0 * values, where="post", color=plots.COLOURS[number], label=name)
        axes.axvline(end, color="black", linestyle=":", linewidth=1)
        axes.set_xlim(0.0, min(2.0 * end, of_case.edges[-1] / DAY))
        axes.set(title=case, xlabel="days", ylabel="utilization (%)")
        axes.grid(alpha=0.3)
    plots.shared_legend(figure)
    return figure


def _fig4_cases(run: Run) -> dict[str, GridJobs]:
    return {f"RU {load:g}": jobs_of(run, 6000, load, "wagap2013") for load in (LOW, HIGH)}


FIG4 = Reproduction(
    name="dgs-fig4",
    title="request utilization and effective utilization over time",
    paper="Vasilakos, Sacha and Pierre, Figure 4",
    claims=(OVERLAP, OVERBOOKED_USE, AFTER),
    files="job log",
    cases=_fig4_cases,
    schedulers={PUSH: gs.DgsAsap(estimate="run")},
    metrics=UTILIZATION,
    rows=_fig4_rows,
    grids=_fig4_grids,
    remarks=lambda data: (*about_jobs(data.run, "wagap2013"), *FIG4_REMARKS),
    figure=lambda data: _draw(data.run, _fig4_cases(data.run)),
)

# -- whole logs -----------------------------------------------------------------------------------------

ORDER = "poll exchanges most schedules, push fewest, and pull over push rises with the load"
FOLLOWS = "(not in the paper) pull over push follows from the protocol"
FEWER_POLL_FAILURES = "failures under poll grow rarer with a shorter period"
NO_FAILURES = "one at a time, push and pull have no failures"
EFFECTIVE_OVERLAP = "effective utilization nearly overlaps request utilization at low load"
OVER_90 = "it is over 90 % when overbooked"

PROFILE = "ricc2010"
PULL, POLL = "pull", "poll, 120 s"
SHORT, LONG = "poll, 30 s", "poll, 480 s"
POLICIES: dict[str, gs.Scheduler] = {
    PUSH: gs.DgsAsap(estimate="run"),
    PULL: gs.DgsAsap(estimate="run", policy="pull"),
    POLL: gs.DgsAsap(estimate="run", policy="poll"),
}
PERIODS: dict[str, gs.Scheduler] = {
    SHORT: gs.DgsAsap(estimate="run", policy="poll", poll_period=30.0),
    LONG: gs.DgsAsap(estimate="run", policy="poll", poll_period=480.0),
}
CENTRALIZED_NAMES = {"asap": "Asap", "easy": "EASY backfilling", "fcfs": "FCFS"}
CENTRALIZED_SCHEDULERS: dict[str, gs.Scheduler] = {
    "asap": gs.Asap(estimate="run"),
    "easy": gs.BatchQueue(estimate="run"),
    "fcfs": gs.BatchQueue(estimate="run", backfill="none"),
}
FEW_POLICIES = {name: POLICIES[name] for name in (PUSH, PULL)}
UTILIZATION_COLUMNS = {
    "average": "EU of the time of submissions (%)",
    "ideal": "largest EU without waiting (%)",
    "peak": "largest EU (%)",
    "overbooked": "EU where it would be 100 % or more without waiting (%)",
    "distance": "distance of EU from that without waiting, where this is below 60 % (% points)",
    "after": "EU positive after the last submission (days)",
}


def _jobs_of_log(run: Run) -> dict[str, GridJobs]:
    """Return the jobs of the log, as recorded and compressed, or 20,000 drawn jobs if there is no log."""
    high = jobs_of(run, 20_000, HIGH, PROFILE)
    if run.log is None or run.quick:  # a quick run has too few nodes for the load of the log
        return {f"RU {LOW:g}": replace(high, load=LOW), f"RU {HIGH:g}": high}
    high = replace(high, jobs=0)
    return {"own load": replace(high, load=None), f"RU {HIGH:g}": high}


def _log_cases(run: Run) -> dict[tuple[str, str], Case]:
    (low, as_is), (high, compressed) = _jobs_of_log(run).items()
    metrics = METRICS | {name: UTILIZATION[name] for name in UTILIZATION_COLUMNS}
    return {
        ("loads", low): Case(as_is, POLICIES | PERIODS | CENTRALIZED_SCHEDULERS, metrics),
        ("loads", high): Case(compressed, POLICIES | CENTRALIZED_SCHEDULERS, metrics),
        ("separate", low): Case(replace(as_is, separate=True), FEW_POLICIES, METRICS),
    }


def _log_rows(data: Measurements) -> Iterator[Row]:
    loads, separate = data.groups["loads"], data.groups["separate"].first
    low, high = loads
    ratios = {case: values["schedules"][PULL] / values["schedules"][PUSH] for case, values in loads.items()}
    for case, values in loads.items():
        schedules = values["schedules"]
        poll = estimate(schedules[POLL] / np.maximum(schedules[PULL], schedules[PUSH]))
        yield judge(ORDER, f"{case}: poll / the greater of pull and push", poll, LARGER)
        yield judge(ORDER, f"{case}: pull / push", estimate(ratios[case]), LARGER)
        share = estimate(ratios[case] / protocol_ratio(values, PULL, PUSH))
        quantity = f"{case}: pull / push over fwd (1 + m) searches / (E[n] + 2 cancelled)"
        yield judge(FOLLOWS, quantity, share, ClaimedRange("1", 0.9, 1.1))
    yield judge(ORDER, f"pull / push: {high} over {low}", estimate(ratios[high] / ratios[low]), LARGER)
    for short, long in ((SHORT, POLL), (POLL, LONG)):
        quantity = f"{low}: first commits refused, {long} - {short}"
        yield judge(
            FEWER_POLL_FAILURES, quantity, loads[low].difference(long, short, "refused"), POSITIVE, unit="%"
        )
    for name in FEW_POLICIES:
        quantity = f"{low}: first commits refused, {name}, one submission at a time, messages take no time"
        yield judge(NO_FAILURES, quantity, separate.mean(name, "refused"), ZERO, unit="%")
    quantity = f"{low}: distance of EU from that without waiting, below 60 %"
    yield judge(
        EFFECTIVE_OVERLAP, quantity, loads[low].mean(PUSH, "distance"), SMALL_DISTANCE, unit="% points"
    )
    yield judge(OVER_90, f"{high}: largest EU", loads[high].mean(PUSH, "peak"), HIGH_PEAK, unit="%")


def _log_grids(data: Measurements) -> Iterator[ResultGrid]:
    loads, names = data.groups["loads"], [*POLICIES, *PERIODS]
    columns = {"schedules": "schedules", "per node": "per node"}
    yield MetricTable("Schedules exchanged", columns, names).grid(loads)
    yield conflict_table(names).grid(loads)
    yield cost_table(names).grid(loads)
    yield price_table(loads, PUSH, CENTRALIZED_NAMES)
    yield MetricTable("Effective utilization", UTILIZATION_COLUMNS, (PUSH, "easy")).grid(loads)


WHOLE_LOG = Reproduction(
    name="dgs-whole",
    title="a whole log, as it is and at a load of 95 %: messages, conflicts, waiting, utilization",
    paper="Vasilakos, Sacha and Pierre, Table I and Figure 4, on whole logs",
    claims=(ORDER, FOLLOWS, FEWER_POLL_FAILURES, NO_FAILURES, EFFECTIVE_OVERLAP, OVER_90),
    files="job log",
    seeds=(5, 5),
    cases=_log_cases,
    rows=_log_rows,
    grids=_log_grids,
    remarks=lambda data: (
        *about_jobs(data.run, PROFILE, whole_log=True),
        "A log has the same jobs with each seed; what differs is where they are submitted, who knows whom, "
        "and what is drawn on the way.",
        PLACED_REMARK,
        f"Intervals of utilization are a {PARTS}th of the time of submissions.",
    ),
    figure=lambda data: _draw(data.run, _jobs_of_log(data.run)),
)
