"""Conversion of schedules to and from the formats of other tools.

Results are written as a jobs table of Batsim or a job log (SWF), and job logs are read as results.  The jobs
table is that of Batsim 3 and 4 (JobsTracer), which evalys reads.  SWF is the Standard Workload Format,
version 2.2, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.  Jobs are numbered from 1, as SWF
requires: job k is row k - 1 of the table ``applications``.  Rigid jobs of a log keep their numbers in it if
these are unique.  The processors of these formats are the cores of all machines; a machine has one unless it
states more.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, TraceWarning, one_line, warn
from gridsim.model.applications import Applications, Columns
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.metrics.energy import recorded_energy
from gridsim.results.metrics.formulas import job_slowdown, total
from gridsim.results.result import READ_FROM_LOG, Result
from gridsim.results.table import Table
from gridsim.support import provenance
from gridsim.support.arguments import integer, real, text
from gridsim.support.arrays import Floats, Integers
from gridsim.support.files import StrPath, atomic_file

Dialect = Literal["batsim", "evalys"]
_COMMON = (
    "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time",
    "turnaround_time", "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
#: Dialect -> its columns, in order.
COLUMNS: dict[Dialect, tuple[str, ...]] = {
    "batsim": ("job_id", *_COMMON),
    "evalys": ("jobID", *(name for name in _COMMON if name not in ("final_state", "metadata"))),
}
_MESSAGES = ("sent", "delivered", "dropped", "in_flight", "bytes")
#: Status of a cancelled job in SWF.
_CANCELLED = 5


@dataclass(frozen=True)
class _ScheduleRows:
    """The rows of a schedule in another format.

    A row is a rigid job, or the tasks of a bag that ran on a machine without a gap.

    Parameters
    ----------
    label
        Name of the row.
    application
        Row of the table ``applications``.
    tasks
        Number of tasks that ran one after another, for a bag; 1 for a rigid job.
    start, finish
        Times, s; NaN for a rejected job.
    size
        Number of cores.
    done
        Whether the tasks were completed.
    """

    label: list[str]
    application: Integers
    tasks: Integers
    start: Floats
    finish: Floats
    size: Integers
    done: NDArray[np.bool_]


def _total_waits(table: Table) -> Floats:
    """Return the wait of each rigid job since its release, s."""
    delay = table["not_before"] - table["release"] if "not_before" in table else np.zeros(len(table))
    waits: Floats = table["waiting"] + np.maximum(delay, 0.0)
    return waits


# -- results as schedules of other tools ------------------------------------------------------------------


def to_batsim(result: Result, path: StrPath, *, dialect: Dialect = "batsim") -> int:
    """Write the schedule of a recorded result as a jobs table of Batsim (``..._jobs.csv``).

    A rigid job has one row, for its completed run; its name is its number in the log, or, without a log, its
    row in ``applications``, counted from 1.  A rejected job has no resources and no times, and its
    ``final_state`` is REJECTED.  A bag has a row for each of its rows in the table ``schedule``, which are
    the tasks that ran on one machine without a gap.  The rows of bag JOB are called JOB_1, JOB_2 ... in order
    of start; their state is COMPLETED_KILLED if a failure or a faster replica interrupted them.  ``profile``
    is the number of the job, which all rows of a bag share; ``metadata`` has the number of tasks in a row of
    a bag.  Missing values (requested times of bags, energy) are -1.

    Resources are cores: those of machine 0 come first, then those of machine 1, and so on.  A result says how
    many cores of a machine a row takes, and only of cores with queues of their own which ones.  Otherwise it
    takes those with the lowest numbers that no earlier row takes at that time.

    Parameters
    ----------
    dialect
        ``"batsim"`` (column ``job_id``, Batsim 3 and 4) or ``"evalys"`` (column ``jobID``, which evalys
        required before it accepted both).

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    ScenarioError
        If the result has no recorded schedule or one that takes more cores than a machine has, or the dialect
        is unknown.
    OSError
        If the file cannot be written.
    """
    if dialect not in (dialects := get_args(Dialect)):
        raise ScenarioError(f"dialect must be {' or '.join(dialects)}, got {dialect!r}")
    rows = _schedule_rows(result, "to_batsim" if dialect == "batsim" else f"to_batsim for {dialect}")
    table = result.applications
    release = table["release"][rows.application]
    waiting, duration = rows.start - release, rows.finish - rows.start
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = (rows.finish - release) / duration
    rejected = np.isnan(rows.finish)
    state = np.where(rows.done, "COMPLETED_SUCCESSFULLY", np.where(rejected, "REJECTED", "COMPLETED_KILLED"))
    requested_time = table["requested"][rows.application] if result.rigid else np.full(len(release), -1.0)
    metadata = [""] * len(release) if result.rigid else [f"tasks={n}" for n in rows.tasks.tolist()]
    columns = {
        COLUMNS[dialect][0]: rows.label,
        "workload_name": ["w0"] * len(release),
        "profile": rows.label if result.rigid else [str(i + 1) for i in rows.application.tolist()],
        "submission_time": _numbers(release),
        "requested_number_of_resources": [str(n) for n in rows.size.tolist()],
        "requested_time": _numbers(requested_time),
        "success": [str(int(done)) for done in rows.done.tolist()],
        "final_state": state.tolist(),
        "starting_time": _numbers(rows.start),
        "execution_time": _numbers(duration),
        "finish_time": _numbers(rows.finish),
        "waiting_time": _numbers(waiting),
        "turnaround_time": _numbers(rows.finish - release),
        "stretch": _numbers(stretch),
        "allocated_resources": _resource_intervals(result, rows),
        "consumed_energy": ["" if job_rejected else "-1" for job_rejected in rejected.tolist()],
        "metadata": [f'"{entry}"' for entry in metadata],
    }
    selected = [columns[name] for name in COLUMNS[dialect]]
    _write(path, [",".join(COLUMNS[dialect])], map(",".join, zip(*selected, strict=True)))
    return len(release)


def to_swf(result: Result, path: StrPath) -> int:
    """Write the schedule of a result as a job log in Standard Workload Format, version 2.2.

    A rigid job is one job with status 1, whose processors are the cores of all its tasks.  A rejected or
    cancelled one has status 5 (cancelled), an unknown wait and a run time of 0 s.  For bags, each row of the
    table ``schedule`` is a job on one processor, with status 0 (failed) if it was interrupted, and the number
    of the bag as executable; this requires a recorded run.  Lines are in order of release.  Times have
    fractions.  A rigid job that was released after others has the last of them to end as its preceding job,
    and the time from that end to its release as its think time.

    The format has no place for the cores of a task, tasks per machine, GPUs, memory of tasks and exclusive
    use, so these are not written: a replay has as many tasks of one core, on any machines.

    Returns
    -------
    int
        The number of jobs.

    Raises
    ------
    ScenarioError
        If the result is of bags and has no recorded schedule.
    OSError
        If the file cannot be written.
    """
    table, rigid = result.applications, result.rigid
    rows = _rigid_rows(result) if rigid else _schedule_rows(result, "to_swf")
    release, missing = table["release"][rows.application], ["-1"] * len(rows.application)
    rejected, sizes = np.isnan(rows.finish), [str(n) for n in rows.size.tolist()]
    status = np.where(rejected, _CANCELLED, rows.done.astype(np.int64))
    duration = table["run_time"] if rigid else rows.finish - rows.start
    users, preceding = _users_and_preceding_jobs(result, rows.label) if rigid else (None, None)
    order = np.argsort(release, kind="stable")
    columns = [
        rows.label if rigid else [str(k + 1) for k in np.argsort(order).tolist()],
        _numbers(release),
        _numbers(np.where(rejected, -1.0, _total_waits(table) if rigid else rows.start - release)),
        _numbers(np.where(rejected, 0.0, duration)),
        ["-1" if job_rejected else size for job_rejected, size in zip(rejected.tolist(), sizes, strict=True)],
        missing,  # processor time
        missing,  # memory
        sizes,
        _numbers(table["requested"]) if rigid else missing,
        missing,  # requested memory
        [str(code) for code in status.tolist()],
        missing if users is None else [str(user) for user in users.tolist()],
        missing,  # group
        missing if rigid else [str(i + 1) for i in rows.application.tolist()],  # executable
        *[missing] * 2,  # queue, partition
        *((missing, missing) if preceding is None else preceding),
    ]
    machines, cores = len(result.machines), result.core_count
    header = {
        "Version": "2.2",
        "Computer": f"simulated, {machines} machines" + (f", {cores} cores" if cores > machines else ""),
        "Information": one_line(f"schedule of {result.scheduler['name']}, digest {result.digest}"),
        "MaxJobs": len(release),
        "MaxRecords": len(release),
        "MaxNodes": machines,
        "MaxProcs": cores,
        "UnixStartTime": int(result.origin),
        "AllowOveruse": "Yes",  # a job may exceed its requested time
    }
    lines = [f"; {key}: {value}" for key, value in header.items()]
    ordered = [[column[k] for k in order.tolist()] for column in columns]
    _write(path, lines, map(" ".join, zip(*ordered, strict=True)))
    return len(release)


def _users_and_preceding_jobs(
    result: Result, labels: Sequence[str]
) -> tuple[NDArray[np.int64] | None, tuple[list[str], list[str]] | None]:
    """Return the users of rigid jobs, and their preceding jobs and think times as text; None if unknown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)  # the run has reported them
            jobs = result.scenario.workload.realize(result.scenario.platform)
    except (GridSimError, OSError):  # a log that the workload was read from is gone
        return None, None
    if jobs.predecessors is None or jobs.predecessor_offsets is None:
        return jobs.user, None
    release, finish = result.applications["release"], result.applications["finish"]
    ends = np.where(np.isnan(finish), release, finish)
    preceding, think = ["-1"] * len(jobs), ["-1"] * len(jobs)
    for i, (begin, end) in enumerate(pairwise(jobs.predecessor_offsets.tolist())):
        if begin < end:
            before = jobs.predecessors[begin:end]
            last = int(before[ends[before].argmax()])
            preceding[i] = labels[last]
            (think[i],) = _numbers(np.maximum(0.0, release[[i]] - ends[[last]]))
    return jobs.user, (preceding, think)


def _write(path: StrPath, head: list[str], lines: Iterable[str]) -> None:
    with atomic_file(path) as stream:
        stream.writelines(f"{line}\n".encode() for line in (*head, *lines))


def _numbers(values: Floats) -> list[str]:
    """Return numbers as text, rounded to 9 decimals without trailing zeros; an empty text for NaN."""
    rounded = np.round(values, 9) + 0.0  # replaces -0 by 0
    return [f"{v:.9f}".rstrip("0").rstrip(".") if v == v else "" for v in rounded.tolist()]


def _rigid_rows(result: Result) -> _ScheduleRows:
    table = result.applications
    done, index = ~np.isnan(table["finish"]), np.arange(len(table))
    start = np.where(done, table["release"] + table["waiting"], np.nan)
    numbers = unique_job_numbers(result)
    labels = list(map(str, (index + 1 if numbers is None else numbers).tolist()))
    return _ScheduleRows(labels, index, np.ones_like(index), start, table["finish"], result.width, done)


def unique_job_numbers(result: Result) -> NDArray[np.int64] | None:
    """Return the number of each job in its log; None without a log, or if two jobs share a number."""
    numbers = result.jobs_of_log
    is_unique = numbers is not None and numbers.min() >= 0 and len(np.unique(numbers)) == len(numbers)
    return numbers if is_unique else None


def check_recorded(result: Result, function: str) -> None:
    """Raise ScenarioError if the result lacks the recorded schedule that `function` (a name) requires."""
    if "schedule" not in result.tables:
        raise ScenarioError(
            f"{function} requires a recorded schedule: use simulate(..., record=True) or run --record"
        )


def _schedule_rows(result: Result, function: str) -> _ScheduleRows:
    """Return the rows of the recorded schedule, or raise the ScenarioError of `check_recorded`."""
    check_recorded(result, function)
    if result.rigid:
        return _rigid_rows(result)
    schedule = result.tables["schedule"]
    order = _order_of_pieces(schedule)
    application, tasks, start, end, completed = (
        schedule[name][order] for name in ("application", "tasks", "start", "end", "completed")
    )
    number_in_bag = np.arange(len(order)) - np.searchsorted(application, application)
    label = [f"{i + 1}_{k + 1}" for i, k in zip(application.tolist(), number_in_bag.tolist(), strict=True)]
    return _ScheduleRows(label, application, tasks, start, end, np.ones_like(application), completed > 0)


def _order_of_pieces(schedule: Table) -> Integers:
    """Return the rows of a schedule of bags in order of bag, start and machine."""
    return np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))


def _resource_intervals(result: Result, rows: _ScheduleRows) -> list[str]:
    """Return the resources of each row as intervals, such as ``0-3 7``."""
    schedule = result.tables["schedule"]
    row_of_piece = schedule["application"]
    if not result.rigid:
        row_of_piece = np.argsort(_order_of_pieces(schedule))
    piece, resource = _resources(result, (schedule["completed"] > 0) | (not result.rigid))
    row = row_of_piece[piece]
    order = np.lexsort((resource, row))
    row, resource = row[order], resource[order]
    # an interval ends if the next resource is not adjacent, or belongs to another row
    last = np.append((np.diff(resource) != 1) | (np.diff(row) != 0), True)[: len(resource)]
    first = np.append(True, last)[: len(resource)]
    intervals: list[list[str]] = [[] for _ in rows.label]
    for i, low, high in zip(
        *(c.tolist() for c in (row[first], resource[first], resource[last])), strict=True
    ):
        intervals[i].append(str(low) if low == high else f"{low}-{high}")
    return [" ".join(parts) for parts in intervals]


def _resources(result: Result, is_listed: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Return (row of the schedule, resource), int64[k], of each core that a listed row takes (`to_batsim`).

    Raises
    ------
    ScenarioError
        If rows take more cores of a machine at a time than it has.
    """
    schedule, pieces = result.tables["schedule"], np.flatnonzero(is_listed)
    machine = schedule["machine"][pieces]
    if "cores" not in result.machines:
        return pieces, machine
    cores = result.machines["cores"]
    first = np.cumsum(cores) - cores
    if "core" in schedule:
        return pieces, first[machine] + schedule["core"][pieces]
    widths = np.ones(len(pieces), np.int64)
    if result.rigid:
        widths = (
            schedule["tasks"] * (result.width // result.applications["tasks"])[schedule["application"]]
        )[pieces]
    free = [list(range(low, low + count)) for low, count in zip(first.tolist(), cores.tolist(), strict=True)]
    running: list[list[tuple[float, list[int]]]] = [[] for _ in free]
    cores_of_pieces: list[list[int]] = [[] for _ in pieces]
    start, end = schedule["start"][pieces], schedule["end"][pieces]
    for k in np.lexsort((pieces, start)).tolist():
        u, width = int(machine[k]), int(widths[k])
        while running[u] and running[u][0][0] <= start[k]:
            for core in heappop(running[u])[1]:
                heappush(free[u], core)
        if width > len(free[u]):
            raise ScenarioError(
                f"schedule must take at most the {cores[u]} cores of machine {u} at a time, got more at "
                f"{start[k]} s"
            )
        cores_of_pieces[k] = [heappop(free[u]) for _ in range(width)]
        heappush(running[u], (float(end[k]), cores_of_pieces[k]))
    return np.repeat(pieces, widths), np.array([core for each in cores_of_pieces for core in each], np.int64)


# -- job logs as results ----------------------------------------------------------------------------------


def result_from_log(
    path: StrPath,
    *,
    machines: int | None = None,
    speed: float = 1000.0,
    cores_per_node: int = 1,
    cores: int | Sequence[int] | None = None,
    start: float = 0.0,
    end: float = math.inf,
    max_nodes: int | None = None,
    name: str = "log",
) -> Result:
    """Read the schedule recorded in a job log, such as SWF or sacct, as the result of a scheduler `name`.

    A job starts after its wait and runs for its run time, regardless of its status.  The jobs are those of
    the workload, so jobs that never ran and lines for parts of jobs are left out (see
    `gridsim.traces.derive_jobs`).  If the wait of a job is unknown (below 0), ``failed`` is 1 and its times
    are NaN; the fact ``unknown_waits`` counts these jobs, and a `TraceWarning` is issued.  Values that a log
    does not contain are missing: submitters are -1, and ``busy`` and ``utilization`` of machines and the
    number of messages are NaN.  The fact ``utilization`` is that of all machines together, from the first
    release to the last finish.  The fact ``killed`` counts the jobs that failed or were cancelled when they
    had run for the requested time, such as those with the state TIMEOUT of Slurm.

    Parameters
    ----------
    machines
        Number of machines; by default that of the header (MaxProcs over `cores_per_node`, else MaxNodes).
    speed
        Speed of each machine, Mflop/s.
    cores
        Cores of each machine, which jobs share, as of `Platform.equal`; sizes of jobs are then in cores.
    cores_per_node, start, end, max_nodes
        Select and convert jobs as `Workload.jobs_from_log` does: the first job is released at 0, and a run
        time of 0 s, below the resolution of the log, counts as 1 s.

    Raises
    ------
    TraceFormatError
        If the file is not a job log.
    ScenarioError
        If a parameter is out of range, the header does not state the number of machines, a job requires more
        machines, no job is in the window, or no wait is known.
    """
    from gridsim.traces import derive_jobs
    from gridsim.traces.info import load_jobs
    from gridsim.traces.job_lines import CANCELLED, FAILED

    file = os.fspath(path)
    with provenance.file_digests([file]) as files:
        log = load_jobs(path)
    workload = Workload.jobs_from_log(path, cores_per_node, None, start, end, max_nodes)
    keeps_nodes = cores_per_node == 1 and bool(np.max(1 if cores is None else cores) > 1)
    jobs = derive_jobs(
        log,
        cores_per_node=cores_per_node,
        start=start,
        end=end,
        max_nodes=max_nodes,
        keeps_nodes=keeps_nodes,
    )
    width = jobs.nodes if cores is None else jobs.nodes * jobs.cores
    if not len(jobs):
        raise ScenarioError(f"{file}: no job in the window has a known run time")
    count = (
        _header_machines(file, log.header, cores_per_node)
        if machines is None
        else integer("machines", machines, low=1)
    )
    platform = Platform.equal(count, real("speed", speed, above=0, unit="Mflop/s"), cores=cores)
    for i in np.flatnonzero(width > platform.core_count)[:1]:
        noun = "machines" if platform.cores is None else "cores of machines"
        raise ScenarioError(
            f"{noun} must be at least {width[i]}, as job {jobs.job[i]} of {file} requires, got "
            f"{platform.core_count}"
        )
    records = log.jobs[jobs.row]
    unknown_wait = records["wait"] < 0
    if unknown_wait.all():
        raise ScenarioError(f"{file}: no job has a known wait, so the log contains no schedule")
    if unknown_wait.any():
        place = f"{file}:{records['line'][unknown_wait].min()}"
        message = f"{place}: {unknown_wait.sum()} jobs of unknown wait count as failed"
        warn(f"{message} (the first is at this line)", TraceWarning, stacklevel=2)
    release = np.round(jobs.release - jobs.release[0], 9)
    waiting = np.where(unknown_wait, np.nan, records["wait"])
    finish = release + waiting + jobs.run_time
    task_size = jobs.run_time * speed
    size = task_size * width
    stretch = (finish - release) / size
    nodes_used = np.where(unknown_wait, 0, jobs.nodes)
    span = float(np.nanmax(finish) - release[0])
    applications = {
        "release": release,
        "first_start": release + waiting,
        "finish": finish,
        "tasks": jobs.nodes,
        "task_size": task_size,
        "size": size,
        "submitter": np.full(len(jobs), -1),
        "stretch": stretch,
        "stretch_agg": stretch * platform.aggregate_speed,
        "resubmitted": np.zeros(len(jobs), np.int64),
        "nodes_used": nodes_used,
        "failed": unknown_wait.astype(np.int64),
        "run_time": jobs.run_time,
        "requested": jobs.requested,
        "waiting": waiting,
        "slowdown": job_slowdown(waiting, jobs.run_time),
    }
    if keeps_nodes and (jobs.cores > 1).any():
        applications["cores"] = jobs.cores
    ended_early = np.isin(records["status"], (FAILED, CANCELLED)) & (records["req_time"] > 0)
    scenario = Scenario(platform, workload)
    return Result(
        tables={
            "applications": Table(applications),
            "machines": _unknown_machines(platform),
            "log_jobs": Table({"job": jobs.job}),
            "messages": Table(
                {"kind": np.zeros(0, np.str_), **{key: np.zeros(0, np.int64) for key in _MESSAGES}}
            ),
        },
        facts={
            "unknown_waits": int(unknown_wait.sum()),
            "killed": int((ended_early & (records["run_time"] >= records["req_time"])).sum()),
            "utilization": total(np.where(unknown_wait, 0, width) * jobs.run_time)
            / (platform.core_count * span),
        },
        scheduler={
            "name": text("name", name),
            "class": READ_FROM_LOG,
            "parameters": {"log": os.path.basename(file)},
        },
        provenance={**provenance.describe(seed=0, files=files), **scenario.remarks},
        scenario=scenario,
    )


def _unknown_machines(platform: Platform) -> Table:
    """Return the table of machines of which a log does not say what they ran."""
    missing = np.full(platform.nodes, np.nan)
    columns: dict[str, NDArray[Any]] = {"speed": platform.speeds, "busy": missing, "utilization": missing}
    if platform.cores is not None:
        columns["cores"] = platform.cores
    if platform.power is not None:
        columns["energy"] = missing
        if platform.carbon_intensity is not None:
            columns["carbon"] = missing
    return Table(columns)


def merged_schedule(schedules: Sequence[Result], scenario: Scenario) -> Result:
    """Return the recorded schedules of the logs of all sites as one, with the jobs of `scenario` in order.

    Parameters
    ----------
    schedules
        The schedule of each site (`result_from_log`), which has the jobs at home there in order of release;
        without sites, that of the only log.

    Raises
    ------
    ScenarioError
        If the logs have more or fewer jobs than the scenario.
    """
    platform, jobs = scenario.platform, scenario.workload.realize(scenario.platform)
    if (count := sum(len(schedule.applications) for schedule in schedules)) != len(jobs):
        raise ScenarioError(f"scenario must have the {count} jobs of the result, got {len(jobs)}")
    rows = np.arange(len(jobs))
    if jobs.site is not None and len(schedules) > 1:
        rows = np.argsort(np.argsort(jobs.site, kind="stable"))  # of each job, if sites follow one another

    def column(table: str, name: str) -> NDArray[Any]:
        values: NDArray[Any] = np.concatenate([schedule.tables[table][name] for schedule in schedules])
        return values[rows]

    names = [name for name in schedules[0].applications if name != "cores"]
    applications = {name: column("applications", name) for name in names}
    delay = jobs.release - applications["release"]
    if jobs.predecessors is not None:  # others are released at their submissions
        assert jobs.predecessor_offsets is not None
        follows = np.diff(jobs.predecessor_offsets) > 0
        site = np.zeros(len(jobs), np.int64) if jobs.site is None else jobs.site
        for k in np.unique(site):
            delay[site == k] = delay[~follows & (site == k)][0]
    applications |= {name: applications[name] + delay for name in ("release", "first_start", "finish")}
    if jobs.predecessors is not None:
        applications |= _waits_after_predecessors(applications, jobs)
    busy, finish = applications["nodes_used"] * applications["run_time"], applications["finish"]
    if jobs.cores is not None:
        applications["cores"] = jobs.cores
        tables = [schedule.applications for schedule in schedules]
        counted = [table["cores"] if "cores" in table else np.ones(len(table)) for table in tables]
        factor = jobs.cores / np.concatenate(counted)[rows]  # sizes of a site may be in parts of its nodes
        applications["size"] = applications["size"] * factor
        applications["stretch"] = applications["stretch"] / factor
        busy = busy * jobs.cores
    applications["stretch_agg"] = applications["stretch"] * platform.aggregate_speed
    span = float(np.nanmax(finish) - applications["release"].min())
    energy = recorded_energy(
        platform,
        scenario.workload.origin,
        np.zeros(len(jobs), np.int64) if jobs.site is None else jobs.site,
        jobs.width * (np.ones(len(jobs)) if jobs.core_share is None else jobs.core_share),
        applications["first_start"],
        applications["run_time"],
    )
    facts = {name: sum(s.facts[name] for s in schedules) for name in ("unknown_waits", "killed")}
    first = schedules[0]
    files = {name: digest for schedule in schedules for name, digest in schedule.files_read.items()}
    names = [schedule.scheduler["parameters"]["log"] for schedule in schedules]
    return Result(
        tables={
            "applications": Table(applications),
            "machines": _unknown_machines(platform),
            "log_jobs": Table({"job": column("log_jobs", "job")}),
            "messages": first.messages,
        },
        facts={**facts, "utilization": total(busy) / (platform.core_count * span), **energy},
        scheduler={**first.scheduler, "parameters": {"log": ", ".join(names)}},
        provenance={**provenance.describe(seed=0, files=files), **scenario.remarks},
        scenario=Scenario(platform, scenario.workload),
    )


def _waits_after_predecessors(applications: Mapping[str, NDArray[Any]], jobs: Applications) -> Columns:
    """Return the columns of a recorded schedule that change if waiting counts from the ends of predecessors.

    A job is released at its submission or, if that is later, a think time after the last end of its
    predecessors in the log, but not after its start.
    """
    assert jobs.predecessors is not None and jobs.predecessor_offsets is not None
    of = np.repeat(np.arange(len(jobs)), np.diff(jobs.predecessor_offsets))
    ends = np.full(len(jobs), -np.inf)
    np.fmax.at(ends, of, applications["finish"][jobs.predecessors])  # NaN is unknown
    if jobs.think_time is not None:
        ends += jobs.think_time
    release = applications["release"]
    blocked = np.maximum(np.fmin(ends, applications["first_start"]) - release, 0.0)
    waiting = applications["waiting"] - blocked
    return {
        "release": release + blocked,
        "stated_release": jobs.release,
        "waiting": waiting,
        "slowdown": job_slowdown(waiting, applications["run_time"]),
        "stretch": applications["stretch"] - blocked / applications["size"],
    }


def _header_machines(file: str, header: dict[str, str], cores_per_node: int) -> int:
    """Return the number of machines stated in the header of a log."""
    from gridsim.traces.jobs import MACHINE_KEYS, MAX_MACHINES, header_fault_texts, stated_machines

    header_count = stated_machines(header, cores_per_node)
    if header_count is None:
        reason = "; ".join(header_fault_texts(header, *MACHINE_KEYS))
        reason = (
            f"in {file}, {reason}" if reason else f"the header of {file} has neither MaxProcs nor MaxNodes"
        )
        raise ScenarioError(f"machines is required: {reason}")
    if header_count[1] > MAX_MACHINES:
        raise ScenarioError(
            f"machines must be at most {MAX_MACHINES}, got {header_count[1]} from the header of {file}"
        )
    return header_count[1]
