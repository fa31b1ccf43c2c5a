"""The schedule recorded in a job log, as the reference of a comparison of schedulers on its jobs."""

from __future__ import annotations

import os
import warnings
from typing import NamedTuple

import numpy as np

from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.log_facts import log_facts
from gridsim.model.platform import Platform
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.support.arrays import Integers

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
    """Return the schedule recorded in the logs of a scenario, if its jobs and machines are unchanged.

    The jobs are unchanged if they are all rigid jobs of the logs in the window of the workload, released at
    the times of the logs, each once, without constraints.  The machines are those of a log if their number
    is that of its header.  If the header states no number, the recorded schedule must fit on them.  With
    several logs this holds for each of them and its site.
    """
    recipe = scenario.workload.recipe
    if not isinstance(recipe, JobLogRecipe | SiteLogsRecipe):
        return LogReference()
    if change := _job_change(recipe):
        return _no_row(f"{_DIFFERENT}: {change}")
    scenario.workload.realize(scenario.platform)  # issues the warnings on the logs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)
            result, followers_count = _recorded_schedule(scenario, recipe)
    except _NoSchedule as error:
        return _no_row(str(error))
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import stated_machines

    remarks = []
    if recipe.after == "none" and followers_count:
        share = 100 * followers_count / len(result.applications)
        remarks.append(
            f"its waiting times count from the submission and so include waiting for preceding jobs, which "
            f'{followers_count:,} jobs ({share:.2g} %) have; with workload.after = "preceding" (--after '
            "preceding) those of all rows count from the ends of these"
        )
    if isinstance(recipe, SiteLogsRecipe):
        remarks.append("each job ran at its home site")
    if recipe.start > 0:
        remarks.append(
            "jobs submitted before the window still ran or waited at its beginning in the log only"
        )
    else:
        remarks.append(
            "the simulated machines are empty at the first submission, and those of the log may not have been"
        )
    paths = [recipe.path] if isinstance(recipe, JobLogRecipe) else recipe.paths
    if any(stated_machines(read_header(path) or {}) is None for path in paths):
        remarks.append(
            "its header states no number of machines, so its busy share and energy are of those simulated"
        )
    remarks.append("skip_days (--skip-days) leaves the first days out of all means")
    return LogReference(result, f"{LOG}: {'; '.join(remarks)}")


class _NoSchedule(Exception):
    """The log has no schedule of the jobs; the message says why."""


def _no_row(reason: str) -> LogReference:
    return LogReference(remark=f"no row for the log: {reason}")


def _job_change(recipe: JobLogRecipe | SiteLogsRecipe) -> str:
    """Return how the workload changes the jobs of its logs; "" if it does not."""
    if recipe.resample is not None:
        return f"{recipe.resample} are drawn with replacement"
    if isinstance(recipe, SiteLogsRecipe):
        return ""
    if recipe.utilization is not None:
        return f"releases are scaled to a load of {recipe.utilization:.4g}"
    if recipe.copies > 1:
        return f"each job is submitted {recipe.copies} times"
    if recipe.constraints is not None:
        return "jobs have constraints on machines"
    return ""


def _recorded_schedule(scenario: Scenario, recipe: JobLogRecipe | SiteLogsRecipe) -> tuple[Result, int]:
    """Return the schedule of the jobs of all logs, each on the machines of its site.

    The number is that of the jobs with preceding ones.
    """
    from gridsim.results.comparability import check_same_jobs
    from gridsim.results.formats.job_logs import merged_schedule

    platform = scenario.platform
    paths = [recipe.path] if isinstance(recipe, JobLogRecipe) else recipe.paths
    if isinstance(recipe, JobLogRecipe):
        schedules = [_schedule_of_log(recipe, recipe.path, recipe.cores_per_node, platform)]
    else:
        procs = recipe.cores_per_node or [1] * len(recipe.paths)
        logs = enumerate(zip(recipe.paths, procs, strict=True))
        schedules = [_schedule_of_log(recipe, path, count, platform.site(k)) for k, (path, count) in logs]
    try:
        result = merged_schedule(schedules, scenario)
        check_same_jobs(result, scenario)
    except ScenarioError as error:
        reason = "workload.max_nodes leaves out jobs" if recipe.max_nodes is not None else str(error)
        raise _NoSchedule(f"{_DIFFERENT}: {reason}") from error
    gpus = scenario.workload.realize(platform).gpus
    if gpus is not None and platform.gpus is not None:
        most, peak = int(platform.gpus.sum()), _peak(result, gpus)
        if peak > most:
            raise _NoSchedule(f"its jobs had up to {peak:,} GPUs at once, and the platform has {most:,}")
    unknown, jobs = int(result.applications["failed"].sum()), len(result.applications)
    if unknown > _MAX_UNKNOWN * jobs:
        raise _NoSchedule(f"the log does not state the waiting time of {unknown:,} of {jobs:,} jobs")
    numbers = [schedule.tables["log_jobs"]["job"] for schedule in schedules]
    counts = (np.isin(n, log_facts(path).followers).sum() for n, path in zip(numbers, paths, strict=True))
    return result, int(sum(counts))


def _schedule_of_log(
    recipe: JobLogRecipe | SiteLogsRecipe, path: str, cores_per_node: int, platform: Platform
) -> Result:
    """Return the schedule of the jobs of one log on the machines of `platform`."""
    from gridsim.results.formats.job_logs import result_from_log
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import stated_machines

    header = read_header(path)
    # machines that jobs share count by their cores, unless sizes of jobs are in nodes
    count = platform.core_count if cores_per_node == 1 else platform.nodes
    noun = "machines" if count == platform.nodes else "cores"
    of_machine, expected, unit = cores_per_node, count, noun
    if cores_per_node == 1 and platform.cores is not None and np.ptp(platform.cores) == 0:
        # the header may state fewer processors than whole nodes have
        of_machine, expected, unit = int(platform.cores[0]), platform.nodes, "machines"
    machines = None if header is None else stated_machines(header, of_machine)
    site = "" if isinstance(recipe, JobLogRecipe) else f" for {os.path.basename(path)}"
    if machines is not None and machines[1] != expected:
        raise _NoSchedule(f"{_DIFFERENT}: {expected:,} {unit} instead of {machines[1]:,}{site}")
    try:
        result = result_from_log(
            path,
            machines=platform.nodes,
            speed=float(platform.speeds[0]),
            cores_per_node=cores_per_node,
            cores=platform.recipe.cores if cores_per_node == 1 else None,
            start=recipe.start,
            end=recipe.end,
            name=LOG,
        )
    except ScenarioError as error:
        if "no job has a known wait" in str(error):
            raise _NoSchedule("the log does not state the waiting times of its jobs") from error
        raise _NoSchedule(f"{_DIFFERENT}: a job has more nodes than there are machines{site}") from error
    if machines is None and (peak := _peak(result)) > count:
        raise _NoSchedule(
            f"its jobs used up to {peak:,} {noun} at once, and the platform has {count:,}{site}"
        )
    return result


def _peak(result: Result, amount: Integers | None = None) -> int:
    """Return the largest number of machines, or of their cores if jobs share them, in use at once.

    Parameters
    ----------
    amount
        What a job uses of each of its machines, int64[jobs]; by default its cores.
    """
    from gridsim.traces.rigid import peak_use

    known = ~np.isnan(result.applications["finish"])
    width, start, finish = (result.applications[name][known] for name in ("tasks", "first_start", "finish"))
    if amount is not None:
        width = width * amount[known]
    elif "cores" in result.applications:
        width = width * result.applications["cores"][known]
    return peak_use(width, start, finish)
