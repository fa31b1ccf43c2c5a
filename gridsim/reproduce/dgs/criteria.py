"""Criteria beyond "as soon as possible", which the paper on DGS_ASAP leaves to future work.

These are suitable machines, machines close to one another, and slots released by jobs that end early.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

import gridsim as gs
from gridsim.reproduce.dgs.common import (
    HIGH,
    LOW,
    PLACED_REMARK,
    GridJobs,
    about_jobs,
    jobs_at_loads,
    never,
    waiting,
)
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
from gridsim.reproduce.verdicts import BELOW_ONE, LARGER, ClaimedRange, Row, exact, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.simulation.simulate import execute as simulate
from gridsim.studies.replicate_result import Replicates
from gridsim.validation.results import validate_result

SUITABLE_MACHINES = "jobs that want certain machines run on these, and on no others"
CLOSE = "as close as possible: machines of a job are closer to one another than random ones"
EARLY_RELEASE = "slots that are released, and pushed, when jobs end before their reservations shorten waiting"

#: A quarter of the jobs need memory that half of the machines have; a quarter need a kind that half of the
#: machines are of.
MEMORY, KINDS, SIDE = (16e9, 64e9), ("cpu", "gpu"), 1.0
CONSTRAINTS = gs.Constraints(memory=(0.0, 0.0, 0.0, 32e9), kinds=("", "", "", "gpu"))

DGS, ASAP, ACAP = "DGS_ASAP", "Asap", "DGS_ACAP"
MANY_NEIGHBOURS, LATER = f"{DGS}, 40 neighbours", f"{ACAP}, an hour later if closer"
PLACING: dict[str, gs.Scheduler] = {DGS: gs.DgsAsap(estimate="run"), ASAP: gs.Asap(estimate="run")}
CLOSENESS: dict[str, gs.Scheduler] = {
    DGS: gs.DgsAsap(estimate="run"),
    MANY_NEIGHBOURS: gs.DgsAsap(estimate="run", degree=40),
    ACAP: gs.DgsAcap(estimate="run"),
    LATER: gs.DgsAcap(estimate="run", tolerance=3600.0),
}
KNOWN, RELEASE, KEEP = "run times are known", "the rest is released", "the rest is kept"
ENDING: dict[str, gs.Scheduler] = {
    KNOWN: gs.DgsAsap(estimate="run"),
    RELEASE: gs.DgsAsap(estimate="requested"),
    KEEP: gs.DgsAsap(estimate="requested", early="keep"),
}


@dataclass(frozen=True)
class AttributedJobs:
    """Factory of scenarios of rigid jobs on machines with attributes; jobs are as in `GridJobs`.

    Parameters
    ----------
    constraints
        Constraints of the jobs.
    ample
        Whether requested times are at least the run times, as on systems that end jobs at their limits.
    """

    jobs: GridJobs
    constraints: gs.Constraints | None = None
    ample: bool = False

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        suffix = "ample" if self.ample else "free" if self.constraints is None else "wanting"
        return f"{self.jobs.name}-{suffix}"

    def __call__(self, seed: int) -> gs.Scenario:
        scenario = self.jobs(seed)
        attributes = gs.DrawnAttributes(memory=MEMORY, kinds=KINDS, side=SIDE, seed=seed)
        recipe = msgspec.structs.replace(
            scenario.workload.recipe, constraints=self.constraints, max_nodes=self.jobs.widest
        )
        platform = gs.Platform.equal(self.jobs.nodes, attributes=attributes)
        workload = gs.Workload(recipe)
        if self.ample:
            jobs = workload.realize(platform)
            assert jobs.requested is not None
            run_time = jobs.task_size / float(platform.speeds[0])
            columns = jobs.release, jobs.tasks, run_time, np.maximum(run_time, jobs.requested), jobs.submitter
            workload = gs.Workload.jobs_of(*columns, origin=0.0)
        return replace(scenario, platform=platform, workload=workload)


# -- metrics --------------------------------------------------------------------------------------------


def distance(result: gs.Result) -> float:
    """Return the mean distance between two machines of a job, mean over jobs with several machines."""
    table = result.tables["placements"]
    several = result.applications["tasks"][table["application"]] > 1
    return float(table["distance"][several].mean()) if several.any() else math.nan


def constrained_waiting(result: gs.Result) -> float:
    """Return the mean waiting time of the jobs with constraints, s; NaN if there are none."""
    table = result.applications
    if "memory" not in table:
        return math.nan
    return float(np.nanmean(table["waiting"][(table["memory"] > 0) | (table["kind"] != "")]))


def schedules_per_job(result: gs.Result) -> float:
    """Return the number of schedules exchanged per job."""
    if "exchanges" not in result.tables:
        return math.nan
    return float(result.tables["exchanges"]["schedules"].sum()) / len(result.applications)


METRICS: dict[str, MetricFunction] = {
    "waiting": waiting,
    "wanting": constrained_waiting,
    "distance": distance,
    "schedules": schedules_per_job,
    "never": never,
}
LABELS = {"waiting": "mean waiting (s)", "schedules": "schedules per job", "never": "never placed (%)"}


def _cases(run: Run) -> dict[tuple[str, str], Case]:
    """Return the cases of the three comparisons at both loads."""
    loads = jobs_at_loads(run)
    # half as many jobs, since the interpreted node program of DGS_ACAP is slower than a compiled protocol
    half = {case: replace(jobs, jobs=jobs.jobs // 2) for case, jobs in loads.items()}
    cases: dict[tuple[str, str], Case] = {}
    for group, jobs_of_group, constraints, ample, schedulers in (
        ("bound", loads, CONSTRAINTS, False, PLACING),
        ("free", loads, None, False, PLACING),
        ("distance", half, None, False, CLOSENESS),
        ("ending", loads, None, True, ENDING),
    ):
        for case, jobs in jobs_of_group.items():
            cases[group, case] = Case(AttributedJobs(jobs, constraints, ample), schedulers)
    return cases


def _rows(data: Measurements) -> Iterator[Row]:
    for case, jobs in jobs_at_loads(data.run).items():
        bound, free, apart, ending = (cases[case] for cases in data.groups.values())
        yield _violations(case, data.run, AttributedJobs(jobs, CONSTRAINTS))
        for name in PLACING:
            more = estimate(bound["waiting"][name] - free["waiting"][name])
            yield judge("", f"{case}: mean waiting of {name}, with constraints - without", more, unit="s")
        yield from _rows_of_distance(case, apart)
        quantity, ratio = (
            f"{case}: mean waiting, {KEEP} / {RELEASE}",
            ending.mean_ratio(KEEP, RELEASE, "waiting"),
        )
        yield judge(EARLY_RELEASE, quantity, ratio, LARGER)
        gain = 100.0 * (1.0 - ending["waiting"][RELEASE] / ending["waiting"][KEEP])
        yield judge("", f"{case}: share of waiting that releasing gains", estimate(gain), unit="%")


def _violations(case: str, run: Run, jobs: AttributedJobs) -> Row:
    """Return the row on the violations that `validate_result` finds in schedules of jobs with constraints."""
    tasks = violations = constrained_tasks = 0
    for seed in run.seeds:
        scenario = jobs(seed)
        for scheduler in PLACING.values():
            result = simulate(scenario, scheduler, record=True)
            violations += sum(violation.count for violation in validate_result(result))
            table = result.applications
            tasks += int(table["tasks"].sum())
            constrained_tasks += int(table["tasks"][(table["memory"] > 0) | (table["kind"] != "")].sum())
    reason = f"{violations} violations in {tasks} allocated machines, "
    reason += f"{constrained_tasks} of them for jobs that want certain ones"
    return exact(SUITABLE_MACHINES, f"{case}: violations found by validate", "none", violations == 0, reason)


def _rows_of_distance(case: str, values: Replicates) -> Iterator[Row]:
    for name in (ACAP, LATER):
        quantity, ratio = f"{case}: mean distance, {name} / {DGS}", values.mean_ratio(name, DGS, "distance")
        yield judge(CLOSE, quantity, ratio, ClaimedRange("< 1", 0.0, BELOW_ONE))
    more = values.difference(ACAP, DGS, "waiting")
    yield judge("", f"{case}: mean waiting, {ACAP} - {DGS}", more, unit="s")


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    bound, free, distances, ending = data.groups.values()
    cases = {}
    for case in bound:
        cases[f"{case}, all alike"] = free[case]
        cases[f"{case}, with constraints"] = bound[case]
    columns = {"waiting": LABELS["waiting"], "wanting": "of jobs that want certain machines (s)"}
    title = "Waiting with constraints, and without"
    yield MetricTable(title, {**columns, "never": LABELS["never"]}).grid(cases)
    title = "Distance between machines of a job, in a square of side 1"
    yield MetricTable(title, {"distance": "mean distance", **LABELS}).grid(distances)
    yield MetricTable("Waiting where users ask for more time than jobs take", LABELS).grid(ending)


REMARKS = (
    "Of what the paper leaves to the future: it measured none of this.",
    "Half of the machines have 64 GB and half 16 GB; half are of a kind of their own.  A quarter of the jobs "
    "need 32 GB, and a quarter that kind; draws are independent.",
    "Places are uniform in a square of side 1, where two random ones are 0.521 apart on average.  Distances "
    "are means over jobs of several machines.",
    "Early ends: jobs reserve what their users asked for; with run times that are known there is nothing to "
    "release.",
    PLACED_REMARK,
)

CRITERIA = Reproduction(
    name="dgs-criteria",
    title="DGS_ASAP with more criteria: constraints of jobs, close machines, early ends",
    paper="Vasilakos, Sacha and Pierre, on future work",
    claims=(SUITABLE_MACHINES, CLOSE, EARLY_RELEASE),
    files="job log",
    cases=_cases,
    metrics=METRICS,
    rows=_rows,
    grids=_grids,
    remarks=lambda data: (*about_jobs(data.run, "wagap2013"), *REMARKS),
    figure=lambda data: panels(
        {
            "mean distance": series(data.groups["distance"], "distance"),
            "mean waiting (s)": series(data.groups["ending"], "waiting"),
        },
        [LOW, HIGH],
        {"xlabel": "request utilization"},
        name_as="ylabel",
    ),
)
