"""Jobs under DGS_ASAP with start times in the future, with deadlines, or cancelled by their users.

The paper leaves "more criteria than ASAP" to future work; `gridsim.reproduce.dgs.criteria` has others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.reproduce.dgs.common import HIGH, LOW, PROMPT, GridJobs, about_jobs, jobs_at_loads, waiting
from gridsim.reproduce.framework import (
    Case,
    Measurements,
    MetricTable,
    Reproduction,
    ResultGrid,
    Run,
    panels,
    series,
)
from gridsim.reproduce.verdicts import NEGATIVE, POSITIVE, Row, exact, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Bools, Floats
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

TIMES_HOLD = "no job starts before its time or ends after its deadline, and none runs on once it is cancelled"
SHORTER_WAITS = "jobs that are submitted ahead wait less than those submitted when they are to start"
PATIENT = "the later the deadlines, the more of the work is accepted"
REUSE = "the more is asked of the grid, the more of what cancelled jobs give back is used by others"

#: Share of jobs with a start in the future, and the maximum time from their submission to that start, s.
AHEAD_SHARE, NOTICE = 0.25, 86_400.0
#: Patience, in run times: a deadline is 1 + patience run times after the release, plus `GRACE` s.
PATIENCE, GRACE = (0.1, 1.0, 10.0), 300.0
#: Share of jobs that their users cancel, and the maximum time from the release until then, in run times.
CANCEL_SHARE, CANCEL_TIMES = 0.25, 2.0

DGS, POLL, ASAP = "DGS_ASAP", "DGS_ASAP, poll", "Asap"
SCHEDULERS: dict[str, gs.Scheduler] = {DGS: gs.DgsAsap(estimate="run"), ASAP: gs.Asap(estimate="run")}
REUSING: dict[str, gs.Scheduler] = {
    DGS: gs.DgsAsap(estimate="run"),
    POLL: gs.DgsAsap(estimate="run", policy="poll"),
    ASAP: gs.Asap(estimate="run"),
}


@dataclass(frozen=True)
class TimedJobs:
    """Factory of scenarios of rigid jobs with start times, deadlines or cancellations; see `GridJobs`.

    Parameters
    ----------
    times
        ``"ahead"``, some of the jobs are submitted ahead of their start; ``"later"``, the same jobs are
        submitted when they are to start; ``"deadline"``, all jobs have deadlines; ``"cancel"``, users cancel
        some of the jobs; ``"none"``, jobs have none of these.
    patience
        Patience of the deadlines, one of `PATIENCE`.
    """

    jobs: GridJobs
    times: str
    patience: float = math.inf

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        patience = f"-{self.patience:g}" if self.times == "deadline" else ""
        return f"{self.jobs.name}-{self.times}{patience}"

    def __call__(self, seed: int) -> gs.Scenario:
        scenario = self.jobs(seed)
        bags = scenario.workload.realize(scenario.platform)
        run_time = bags.task_size / float(scenario.platform.speeds[0])
        draw = Streams(seed)("reproduce.times")
        share, part = draw.random(len(bags)), draw.random(len(bags))
        release, columns = bags.release, dict[str, Floats]()
        start = np.where(share < AHEAD_SHARE, release + NOTICE * part, 0.0)
        if self.times == "ahead":
            columns["not_before"] = start
        elif self.times == "later":
            release = np.maximum(release, start)
        elif self.times == "deadline":
            columns["deadline"] = release + (1.0 + self.patience) * run_time + GRACE
        elif self.times == "cancel":
            at = release + np.maximum(1.0, CANCEL_TIMES * part * run_time)
            columns["cancel_at"] = np.where(share < CANCEL_SHARE, at, np.inf)
        jobs = release, bags.tasks, run_time, bags.requested, bags.submitter
        return replace(scenario, workload=gs.Workload.jobs_of(*jobs, **columns, origin=0.0))


def ahead_jobs(scenario: gs.Scenario, seed: int) -> Bools:
    """Return the mask of the jobs that `TimedJobs` submits ahead of their start: bool[jobs]."""
    recipe: Any = scenario.workload.recipe
    of: Bools = Streams(seed)("reproduce.times").random(len(recipe.release)) < AHEAD_SHARE
    return of[np.argsort(np.rint(np.array(recipe.release) * NS), kind="stable")]


# -- metrics --------------------------------------------------------------------------------------------


def accepted(result: gs.Result) -> float:
    """Return the share of jobs that were not rejected, %."""
    return 100.0 * float((result.applications["failed"] == 0).mean())


def accepted_work(result: gs.Result) -> float:
    """Return the share of completed jobs in the node time of all jobs, %."""
    table = result.applications
    time = table["tasks"] * table["run_time"]
    return 100.0 * float(time[~np.isnan(table["finish"])].sum() / time.sum())


def cancelled_share(result: gs.Result) -> float:
    """Return the share of jobs that were cancelled before their end, %."""
    return 100.0 * float(result.applications["cancelled"].mean())


def begun_share(result: gs.Result) -> float:
    """Return the share is_cancelled cancelled jobs that had started, %; NaN if none was cancelled."""
    table = result.applications
    is_cancelled = table["cancelled"] == 1
    return (
        100.0 * float((~np.isnan(table["first_start"][is_cancelled])).mean())
        if is_cancelled.any()
        else math.nan
    )


def reused_share(result: gs.Result) -> float:
    """Return the share of the node time released by cancelled jobs that other jobs reused_time, %."""
    returned_slots, schedule = result.tables["freed"], result.tables["schedule"]
    reused_time = total = 0.0
    for machine in np.unique(returned_slots["machine"]).tolist():
        on_machine = np.flatnonzero(schedule["machine"] == machine)
        for k in np.flatnonzero(returned_slots["machine"] == machine).tolist():
            other = on_machine[schedule["application"][on_machine] != returned_slots["application"][k]]
            starts = np.maximum(schedule["start"][other], returned_slots["start"][k])
            ends = np.minimum(schedule["end"][other], returned_slots["end"][k])
            reused_time += float(np.maximum(ends - starts, 0.0).sum())
            total += float(returned_slots["end"][k] - returned_slots["start"][k])
    return 100.0 * reused_time / total if total else math.nan


METRICS: dict[str, MetricFunction] = {"waiting": waiting, "accepted": accepted, "worked": accepted_work}
CANCEL_METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "cancelled": cancelled_share,
    "begun": begun_share,
}


def _waits(result: gs.Result, is_ahead: Bools) -> tuple[float, float, float]:
    """Return the mean waiting time, s, and the share that starts at once, %, of the jobs `is_ahead`.

    The third value is the mean waiting time of the other jobs, s.
    """
    waits = result.applications["waiting"]
    selected_waits = waits[is_ahead]
    return (
        float(np.nanmean(selected_waits)),
        100.0 * float((selected_waits <= PROMPT).mean()),
        float(np.nanmean(waits[~is_ahead])),
    )


# -- recorded schedules ---------------------------------------------------------------------------------


@dataclass
class Schedules:
    """Measurements of the recorded runs at one load.

    Parameters
    ----------
    violations, machines
        Number of violations, and number of allocated machines that were checked.
    waits
        (times, scheduler) -> the result of `_waits` for each seed.
    shares
        Scheduler -> the `reused_share` of each seed.
    """

    violations: int = 0
    machines: int = 0
    waits: dict[tuple[str, str], list[tuple[float, float, float]]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)


def _recorded_schedules(run: Run) -> dict[str, Schedules]:
    schedules = {}
    for case, jobs in jobs_at_loads(run).items():
        schedules[case] = of_case = Schedules()
        for seed in run.seeds:
            for times in ("ahead", "later", "deadline", "cancel"):
                scenario = TimedJobs(jobs, times, PATIENCE[1])(seed)
                for name, scheduler in (REUSING if times == "cancel" else SCHEDULERS).items():
                    result = simulate(scenario, scheduler, record=True)
                    of_case.violations += sum(violation.count for violation in validate_result(result))
                    of_case.machines += len(result.tables["schedule"])
                    if times == "cancel":
                        of_case.shares.setdefault(name, []).append(reused_share(result))
                    elif times != "deadline":
                        waits = of_case.waits.setdefault((times, name), [])
                        waits.append(_waits(result, ahead_jobs(scenario, seed)))
    return schedules


# -- the experiment -------------------------------------------------------------------------------------


def _cases(run: Run) -> dict[tuple[str, str], Case]:
    cases: dict[tuple[str, str], Case] = {}
    for case, jobs in jobs_at_loads(run).items():
        cases["deadlines", f"{case}, no deadlines"] = Case(TimedJobs(jobs, "none"), SCHEDULERS, METRICS)
        for patience in PATIENCE:
            timed = TimedJobs(jobs, "deadline", patience)
            cases["deadlines", f"{case}, {patience:g} run times"] = Case(timed, SCHEDULERS, METRICS)
        cases["cancels", case] = Case(TimedJobs(jobs, "cancel"), REUSING, CANCEL_METRICS)
    return cases


def _measure(run: Run) -> tuple[Measurements, dict[str, Schedules]]:
    """Run the comparisons at both loads, and check recorded schedules."""
    return run.replicate_cases(_cases(run)), _recorded_schedules(run)


def _rows(data: tuple[Measurements, dict[str, Schedules]]) -> Iterator[Row]:
    measurements, schedules = data
    for case, of_case in schedules.items():
        low, high = (
            measurements["deadlines", f"{case}, {p:g} run times"]["worked"][DGS] for p in PATIENCE[1:]
        )
        quantity = f"{case}: accepted work, {PATIENCE[2]:g} - {PATIENCE[1]:g} run times, {DGS}"
        yield judge(PATIENT, quantity, estimate(high - low), POSITIVE, unit="%")
        reason = f"{of_case.violations} violations in {of_case.machines} allocated machines"
        quantity = f"{case}: violations found by validate"
        yield exact(TIMES_HOLD, quantity, "none", of_case.violations == 0, reason)
        for name in SCHEDULERS:
            ahead, later = (np.array(of_case.waits[times, name])[:, 0] for times in ("ahead", "later"))
            quantity = f"{case}: mean waiting, submitted ahead - when they are to start, {name}"
            yield judge(SHORTER_WAITS, quantity, estimate(ahead - later), NEGATIVE, unit="s")
    for name in REUSING:
        low, high = (np.array(of_case.shares[name]) for of_case in schedules.values())
        quantity = f"used again of what is given back, RU {HIGH:g} - RU {LOW:g}, {name}"
        yield judge(REUSE, quantity, estimate(high - low), POSITIVE, unit="%")


def _grids(data: tuple[Measurements, dict[str, Schedules]]) -> Iterator[ResultGrid]:
    measurements, schedules = data
    labels = {"ahead": "submitted ahead", "later": "when they are to start"}
    yield ResultGrid(
        "A quarter of the jobs is submitted ahead, or when they are to start",
        ["", "mean waiting of these (s)", "started at once (%)", "mean waiting of the others (s)"],
        {
            f"{case}, {labels[times]}: {name}": list(map(estimate, np.array(waits).T))
            for case, of_case in schedules.items()
            for (times, name), waits in of_case.waits.items()
        },
    )
    yield MetricTable(
        "Deadlines: so many run times after the release",
        {"accepted": "accepted (%)", "worked": "accepted work (%)", "waiting": "mean waiting (s)"},
    ).grid(measurements.groups["deadlines"])
    yield MetricTable(
        "A quarter of the users cancel",
        {"cancelled": "cancelled (%)", "begun": "of these, begun (%)", "waiting": "mean waiting (s)"},
    ).grid(measurements.groups["cancels"])
    rows = {
        f"{case}: {name}": [estimate(np.array(shares))]
        for case, of_case in schedules.items()
        for name, shares in of_case.shares.items()
    }
    yield ResultGrid("What cancelled jobs give back", ["", "used by other jobs (%)"], rows)


REMARKS = (
    "Of what the paper leaves to the future: it measured none of this.",
    f"Submitted ahead: a quarter of the jobs, by up to {NOTICE / 3600:g} h, uniformly; the same jobs are "
    "submitted when they are to start, for comparison.  They wait from then on.",
    f"Deadlines: a run time, so many run times more, and {GRACE / 60:g} min after the release.  Mean waiting "
    "is that of the accepted jobs.",
    f"A quarter of the users cancel, at an instant uniform within {CANCEL_TIMES:g} run times after the "
    "release; those whose jobs have ended by then do not.",
    "What is given back is what a cancelled job had reserved from then on, on each of its machines; of that, "
    "others use what the recorded schedule says.",
)


def _draw(data: tuple[Measurements, dict[str, Schedules]]) -> Any:
    """Draw the accepted work over the patience, one panel per load."""
    deadlines, schedules = data[0].groups["deadlines"], data[1]
    accepted = {}
    for case in schedules:
        cases = {p: deadlines[f"{case}, {p:g} run times"] for p in PATIENCE}
        accepted[f"accepted work (%), {case}"] = series(cases, "worked")
    return panels(accepted, PATIENCE, {"xlabel": "run times of patience", "xscale": "log"})


TIMES = Reproduction(
    name="dgs-times",
    title="DGS_ASAP with times that jobs state: starts in the future, deadlines, users who cancel",
    paper="Vasilakos, Sacha and Pierre, on future work",
    claims=(TIMES_HOLD, SHORTER_WAITS, PATIENT, REUSE),
    files="job log",
    measure=_measure,
    rows=_rows,
    grids=_grids,
    remarks=lambda data: (*about_jobs(data[0].run, "wagap2013"), *REMARKS),
    figure=_draw,
)
