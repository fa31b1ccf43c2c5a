"""Checks of a result of gridsim, with its recorded schedule, against its scenario."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.applications import SHOWN_COLUMNS, Applications, durations
from gridsim.model.bag_workloads import BagRecipe
from gridsim.results.metrics.formulas import job_slowdown
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support.arrays import Floats
from gridsim.support.provenance import check_digests
from gridsim.validation.common import (
    NS,
    ROUNDING,
    Violation,
    column_label,
    differences,
    is_close,
    is_declared,
    violations_where,
)
from gridsim.validation.energy import check_energy
from gridsim.validation.jobs import check_jobs
from gridsim.validation.messages import check_messages
from gridsim.validation.reported import check_reported
from gridsim.validation.schedule import check_schedule, rejected_or_cancelled_jobs
from gridsim.validation.times import check_times

#: Columns of applications that the scenario determines.
_SCENARIO_COLUMNS = (
    "release",
    "tasks",
    "task_size",
    "size",
    "submitter",
    "requested",
    *SHOWN_COLUMNS,
)


def validate_result(result: Result | str | os.PathLike[str]) -> list[Violation]:
    """Check a result against its scenario, and return the violations.

    The checks cover the recorded schedule, the tables, and their agreement.  Without a recorded schedule
    (`simulate(record=True)`) only the tables are checked.

    Raises
    ------
    GridSimError
        If the file is no result, or its tables are malformed.
    ScenarioError
        If the result was made from a job log, or its scenario cannot be built again, for example because a
        trace file has changed.
    TraceFormatError
        If a trace file of the scenario cannot be read.
    """
    if not isinstance(result, Result):
        result = Result.load(result, verify=False)
    if "tasks" not in result.machines:
        raise ScenarioError("result must be that of a run, not of a job log; validate the log itself")
    try:
        return _violations(result)
    except GridSimError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise GridSimError(
            f"result must be a valid result of gridsim ({type(error).__name__}: {error})"
        ) from error


def _violations(result: Result) -> list[Violation]:
    if violations := _size_violations(result):
        return violations
    if isinstance(recorded_files := result.provenance.get("files"), dict):
        # check this first: with a changed trace, the result would look faulty
        check_digests(result.scenario.files, recorded_files)
    workload = result.scenario.workload.realize(result.scenario.platform)
    releases = _check_releases(result, workload)
    if workload.predecessors is not None and len(result.applications) == len(workload):
        release = result.applications["release"]
        workload = replace(workload, release=release, release_ns=np.rint(release / NS).astype(np.int64))
    violations = (
        _check_digest(result)
        + releases
        + _check_applications(result, workload)
        + _check_machines(result)
        + check_messages(result)
    )
    if "schedule" in result.tables:
        violations += check_schedule(result, workload)
    if not violations:  # the next check relies on the tables checked so far
        violations += check_reported(result)
    violations += _check_energy(result, workload, is_faulty=bool(violations))
    if is_declared(result, "jobs") or "nodes_asked" in result.facts:  # schedulers with it report this fact
        violations += check_jobs(result, workload)
    return violations


def _check_energy(result: Result, workload: Applications, is_faulty: bool) -> list[Violation]:
    """Check energy and carbon; of a result that `is_faulty` nothing if they cannot be computed."""
    if not is_faulty:
        return check_energy(result, workload)
    try:
        with np.errstate(all="ignore"):
            return check_energy(result, workload)
    except (GridSimError, LookupError, TypeError, ValueError, ArithmeticError):
        return []


def _size_violations(result: Result) -> list[Violation]:
    """Check the numbers of rows of the tables against the scenario.

    If they differ, nothing else is checked, and the workload is not generated.
    """
    platform, recipe = result.scenario.platform, result.scenario.workload.recipe
    if len(result.machines) != platform.nodes:
        message = f"has {len(result.machines)} rows, but the platform has {platform.nodes} machines"
        return [Violation("platform", 1, "machines", message)]
    if isinstance(recipe, BagRecipe) and len(result.applications) != recipe.applications:
        message = (
            f"has {len(result.applications)} rows, but the workload has {recipe.applications} applications"
        )
        return [Violation("workload", 1, "applications", message)]
    return []


def _check_digest(result: Result) -> list[Violation]:
    stated_digest = result.stated_digest
    if stated_digest in (None, result.digest):
        return []
    return [
        Violation(
            "digest",
            1,
            "result.json",
            f"states {stated_digest}, but the tables have the digest {result.digest}",
        )
    ]


def _check_releases(result: Result, workload: Applications) -> list[Violation]:
    """Check that applications with predecessors are released when these have ended and they have thought."""
    table, offsets, predecessors = result.applications, workload.predecessor_offsets, workload.predecessors
    if offsets is None or predecessors is None or len(table) != len(workload):
        return []
    assert workload.think_time is not None
    release, counts = table["release"], np.diff(offsets)
    rows = np.flatnonzero(counts)
    # the last end; those without an end, such as rejected jobs, ended at some time from their release on
    has_end = ~np.isnan(table["finish"])
    ends = np.where(has_end, table["finish"], table["release"])[predecessors]
    expected = workload.release.copy()
    last = np.maximum.reduceat(ends, offsets[rows]) + workload.think_time[rows]
    expected[rows] = np.maximum(expected[rows], last)
    is_exact = np.ones(len(table), np.bool_)
    is_exact[rows] = np.logical_and.reduceat(has_end[predecessors], offsets[rows])
    is_wrong = ~is_close(release, expected) & (is_exact | (release < expected))
    return violations_where(
        "before predecessors",
        is_wrong,
        column_label("applications.release"),
        lambda i: (
            f"is released at {release[i]} s, but its stated release and the ends before it with its think "
            f"time give {'' if is_exact[i] else 'at least '}{expected[i]} s"
        ),
    ) + differences(
        "workload",
        column_label("applications.predecessors"),
        table["predecessors"] != counts,
        table["predecessors"],
        counts,
        "the scenario has",
    )


def _check_applications(result: Result, workload: Applications) -> list[Violation]:
    table = result.applications
    if len(table) != len(workload):
        message = f"has {len(table)} rows, but the workload has {len(workload)} applications"
        return [Violation("workload", 1, "applications", message)]
    violations = []
    for name in _SCENARIO_COLUMNS:
        if getattr(workload, name) is None:
            continue
        actual, expected = table[name], getattr(workload, name)
        violations += differences(
            "workload",
            column_label(f"applications.{name}"),
            actual != expected,
            actual,
            expected,
            "the scenario has",
        )
    sizes = workload.sizes() if "smallest_task" in table or "largest_task" in table else np.zeros(0)
    for name, extreme in (("smallest_task", np.minimum), ("largest_task", np.maximum)):
        if name in table:
            actual, expected = table[name], extreme.reduceat(sizes, workload.offsets[:-1])
            violations += differences(
                "workload",
                column_label(f"applications.{name}"),
                actual != expected,
                actual,
                expected,
                "the scenario has",
            )
    violations += _check_resubmitted(result)
    violations += check_times(result, workload)
    first, finish, release = table["first_start"], table["finish"], table["release"]
    is_rejected = rejected_or_cancelled_jobs(result)
    violations += violations_where(
        "before release",
        ~(first >= release) & ~(is_rejected & np.isnan(first)),
        lambda i: f"applications.first_start[{i}]",
        lambda i: f"starts at {first[i]} s, but is released at {release[i]} s",
    )
    violations += violations_where(
        "time",
        ~(finish > first) & ~(is_rejected & np.isnan(finish)),
        lambda i: f"applications.finish[{i}]",
        lambda i: f"finishes at {finish[i]} s, but starts at {first[i]} s",
    )
    stretch = (finish - release) / table["size"]
    speed = result.aggregate_speed
    derived_columns = {"stretch": stretch, "stretch_agg": stretch * speed}
    if result.rigid:
        speeds = result.scenario.platform.speeds
        run_time: Floats = (durations(workload, float(speeds.max())) * NS).astype(np.float64)
        if speeds.min() != speeds.max():  # the machines of a job determine its run time
            run_time = np.where(np.isfinite(finish), finish - first, run_time)
        if "terminated" in table:
            violations += _check_terminated(table, run_time)
            run_time = np.where(table["terminated"] != 0, table["run_time"], run_time)
        waiting: Floats = finish - run_time - workload.ready
        derived_columns |= {"run_time": run_time, "waiting": waiting}
        derived_columns["slowdown"] = job_slowdown(waiting, run_time)
    # the difference finish - release may have few exact digits
    digits = {"stretch": finish / table["size"], "stretch_agg": finish / table["size"] * speed}
    for name, expected in derived_columns.items():
        actual = table[name]
        is_equal = np.abs(actual - expected) <= 1e-9 * np.fmax(
            np.abs(expected), finish if result.rigid else 0.0
        ) + (ROUNDING * digits.get(name, 0.0))
        wrong = ~is_equal & ~(np.isnan(actual) & np.isnan(expected))
        violations += differences(
            "stretch",
            column_label(f"applications.{name}"),
            wrong,
            actual,
            expected,
            "release, finish and size give",
        )
    return violations


def _check_terminated(table: Table, run_time: Floats) -> list[Violation]:
    """Check that killed jobs have run for less than their full run times."""
    return violations_where(
        "duration",
        (table["terminated"] != 0) & ~((table["run_time"] > 0) & (table["run_time"] < run_time)),
        column_label("applications.run_time"),
        lambda i: f"is {table['run_time'][i]} s for a killed job, which would have run for {run_time[i]} s",
    )


def _check_resubmitted(result: Result) -> list[Violation]:
    """Check that each task was submitted again at most twice per failure and once per lost message.

    A failure can lose a task in a queue and again, submitted during the repair of a router, on its way to
    that router on the same machine, for which there is no message.  An outage that began before the release
    of an application also counts.
    """
    table, faults, machines = result.applications, result.scenario.faults, len(result.machines)
    resubmitted_tasks, until = table["resubmitted"], float(result.provenance["clock_seconds"])
    if faults is None:
        failures = np.zeros(0)
    else:
        downs = [down for _, down, _ in faults.outages(machines, until)]
        failures = np.unique(np.concatenate([np.zeros(0), *downs]))
    log, log_info = result.tables.get("message_log"), result.provenance.get("message_log", {})
    if log is None or log_info.get("left_out"):
        lost = np.full(len(table), result.messages["dropped"].sum())
    else:
        applications_lost = log["application"][(log["dropped"] != 0) & (log["application"] >= 0)]
        lost = np.bincount(applications_lost, minlength=len(table))
    earlier_failures = np.searchsorted(failures, table["release"] - NS)
    max_losses = 2 * (len(failures) - np.maximum(0, earlier_failures - 1)) + lost
    return violations_where(
        "agreement",
        (resubmitted_tasks < 0) | (resubmitted_tasks > table["tasks"] * max_losses),
        column_label("applications.resubmitted"),
        lambda i: (
            f"is {resubmitted_tasks[i]}, but {table['tasks'][i]} tasks can be lost at most {max_losses[i]} "
            "times each"
        ),
    )


def _check_machines(result: Result) -> list[Violation]:
    table, speeds = result.machines, result.scenario.platform.speeds
    actual = table["speed"]
    violations = differences(
        "platform", column_label("machines.speed"), actual != speeds, actual, speeds, "the scenario has"
    )
    for name in ("cores", "gpus"):
        if (stated := getattr(result.scenario.platform, name)) is not None:
            actual, label = table[name], column_label(f"machines.{name}")
            violations += differences("platform", label, actual != stated, actual, stated, "the scenario has")
    if (attributes := result.scenario.platform.attributes) is not None:
        for name, expected in attributes.columns().items():
            values, row_label = table[name], column_label(f"machines.{name}")
            violations += differences(
                "platform", row_label, values != expected, values, expected, "the scenario has"
            )
    completed_tasks, expected_tasks = (
        int(table["tasks"].sum()),
        int(result.applications["tasks"][~rejected_or_cancelled_jobs(result)].sum()),
    )
    if completed_tasks != expected_tasks:
        message = f"add up to {completed_tasks}, but the applications have {expected_tasks} tasks"
        violations.append(Violation("tasks", 1, "machines.tasks", message))
    return violations + _check_failures(result)


def _check_failures(result: Result) -> list[Violation]:
    """Check the numbers of failures of machines until the end of the run against the scenario.

    Failures at the very end of the run are optional.
    """
    faults, actual, machines = result.scenario.faults, result.machines["failures"], len(result.machines)
    until = float(result.provenance["clock_seconds"])
    lower, upper = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
    if faults is not None:
        slack = NS + ROUNDING * until
        for machine, down, up in faults.outages(machines, until + slack):
            is_failure = (down > 0) | (up <= 0)  # a machine that is down from the start has not failed
            lower[machine] = (is_failure & (down < until - slack)).sum()
            upper[machine] = (is_failure & (down <= until + slack)).sum()
    return violations_where(
        "failures",
        (actual < lower) | (actual > upper),
        column_label("machines.failures"),
        lambda u: (
            f"is {actual[u]}, but the scenario has "
            f"{lower[u]}{f' or {upper[u]}' if upper[u] > lower[u] else ''} until {until} s"
        ),
    )
