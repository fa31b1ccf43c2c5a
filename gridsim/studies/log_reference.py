"""The schedule recorded in a job log, as the reference of a comparison of schedulers on its jobs."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.rigid_workloads import JobLogRecipe, SiteLogsRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result

#: Name of the recorded schedule in comparisons.
LOG = "log"
#: Largest share of jobs of unknown wait with which a recorded schedule is shown.
_MAX_UNKNOWN = 0.01
_DIFFERENT = "the jobs or the machines differ from those of the log"


class LogReference(NamedTuple):
    """The recorded schedule of the jobs of a scenario.

    Parameters
    ----------
    result
        The schedule; None if there is none for these jobs and machines.
    remark
        Sentence on the schedule, or why there is none; empty if the jobs do not come from a log.
    """

    result: Result | None = None
    remark: str = ""


def log_reference(scenario: Scenario) -> LogReference:
    """Return the schedule recorded in the log of a scenario, if its jobs and machines are unchanged.

    The jobs are unchanged if they are all rigid jobs of the log in the window of the workload, released at
    the times of the log, each once, without constraints.  The machines are those of the log if their number
    is that of its header.  If the header states no number, the recorded schedule must fit on them.
    """
    recipe = scenario.workload.recipe
    if isinstance(recipe, SiteLogsRecipe):
        return _no_row("the jobs come from the logs of several sites")
    if not isinstance(recipe, JobLogRecipe):
        return LogReference()
    if change := _job_change(recipe):
        return _no_row(f"{_DIFFERENT}: {change}")
    try:
        result, header_count = _recorded_schedule(scenario, recipe)
    except _NoSchedule as error:
        return _no_row(str(error))
    machines, jobs = scenario.platform.nodes, len(result.applications)
    unknown = int(result.applications["failed"].sum())
    if header_count is not None and header_count != machines:
        return _no_row(f"{_DIFFERENT}: {machines:,} machines instead of {header_count:,}")
    if header_count is None and (peak := _peak(result)) > machines:
        return _no_row(f"its jobs used up to {peak:,} machines at once, and the platform has {machines:,}")
    if unknown > _MAX_UNKNOWN * jobs:
        return _no_row(f"the log does not state the waiting time of {unknown:,} of {jobs:,} jobs")
    remark = ""
    if recipe.start > 0:
        remark = "log: jobs submitted before the window still ran or waited at its beginning in the log only"
    return LogReference(result, remark)


class _NoSchedule(Exception):
    """The log has no schedule of the jobs; the message says why."""


def _no_row(reason: str) -> LogReference:
    return LogReference(remark=f"no row for the log: {reason}")


def _job_change(recipe: JobLogRecipe) -> str:
    """Return how the workload changes the jobs of its log; "" if it does not."""
    if recipe.utilization is not None:
        return f"releases are scaled to a load of {recipe.utilization:.4g}"
    if recipe.copies > 1:
        return f"each job is submitted {recipe.copies} times"
    if recipe.constraints is not None:
        return "jobs have constraints on machines"
    return ""


def _recorded_schedule(scenario: Scenario, recipe: JobLogRecipe) -> tuple[Result, int | None]:
    """Return the schedule of the jobs of a log, and the number of machines in its header, or None."""
    from gridsim.results.formats.job_logs import check_same_jobs, result_from_log
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import stated_machines

    header = read_header(recipe.path)
    header_count = None if header is None else stated_machines(header, recipe.procs_per_node)
    platform = scenario.platform
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the workload has already issued them
        try:
            result = result_from_log(
                recipe.path,
                machines=platform.nodes,
                speed=float(platform.speeds[0]),
                procs_per_node=recipe.procs_per_node,
                start=recipe.start,
                end=recipe.end,
                name=LOG,
            )
        except ScenarioError as error:
            if "no job has a known wait" in str(error):
                raise _NoSchedule("the log does not state the waiting times of its jobs") from error
            raise _NoSchedule(f"{_DIFFERENT}: a job has more nodes than there are machines") from error
        try:
            check_same_jobs(result, scenario)
        except ScenarioError as error:
            reason = "workload.max_nodes leaves out jobs" if recipe.max_nodes is not None else str(error)
            raise _NoSchedule(f"{_DIFFERENT}: {reason}") from error
    return result, None if header_count is None else header_count[1]


def _peak(result: Result) -> int:
    """Return the largest number of machines in use at once."""
    from gridsim.traces.rigid import peak_use

    known = ~np.isnan(result.applications["finish"])
    columns = (result.applications[name][known] for name in ("tasks", "first_start", "finish"))
    return peak_use(*columns)
