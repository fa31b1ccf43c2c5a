"""Schedules in formats of others: results as Batsim's jobs table or a job log (SWF), job logs as results.

Batsim's table is that of Batsim 3 and 4 (JobsTracer), which evalys reads.  SWF is the Standard Workload
Format, version 2.2, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.  Jobs are numbered from 1, as
SWF wants it: job k is row k - 1 of the table ``applications``.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError, TraceWarning, one_line
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.metrics.formulas import job_slowdown, total
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support import provenance
from gridsim.support.arguments import real, text, whole
from gridsim.support.arrays import Floats, Integers
from gridsim.support.files import StrPath, atomic_file

Dialect = Literal["batsim", "evalys"]
_COMMON = (
    "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time",
    "turnaround_time", "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
#: Columns of each dialect, in order.
COLUMNS: dict[Dialect, tuple[str, ...]] = {
    "batsim": ("job_id", *_COMMON),
    "evalys": ("jobID", *(name for name in _COMMON if name not in ("final_state", "metadata"))),
}
_MESSAGES = ("sent", "delivered", "dropped", "in_flight", "bytes")
#: Machines that are taken from a header, which costs nothing to write.
_MOST_MACHINES = 1 << 20
#: Of a job that was cancelled, in SWF.
_CANCELLED = 5
#: What stands as the class of the scheduler in a result that `result_from_log` made.
READ_FROM_LOG = "gridsim:result_from_log"


@dataclass(frozen=True)
class _Ran:
    """What a schedule of others has rows of: rigid jobs, or what ran on a machine without a gap.

    label : its name.  application : row of the table.  tasks : one after another, of a bag.
    start, finish : s; NaN for a job that was rejected.  size : machines.  done : whether it was completed.
    """

    label: list[str]
    application: Integers
    tasks: Integers
    start: Floats
    finish: Floats
    size: Integers
    done: NDArray[np.bool_]


# -- results as schedules of others -----------------------------------------------------------------------


def to_batsim(result: Result, path: StrPath, *, dialect: Dialect = "batsim") -> int:
    """Write the schedule of a recorded result as a jobs table of Batsim (``..._jobs.csv``); return its rows.

    Rigid jobs have a row each, of the run that was completed; one that was rejected has no resources and no
    times, and its ``final_state`` is REJECTED.  Bags have a row for each row of the table ``schedule``,
    called JOB_1, JOB_2 ... in order of start: what ran on one machine without a gap, COMPLETED_KILLED where
    a failure or a faster instance cut it off.  ``profile`` is the job, so that rows of one bag have one;
    ``metadata`` says how many tasks a row of a bag has.  -1 stands for none (requested times of bags,
    energy).

    dialect : ``"batsim"`` (``job_id``, Batsim 3 and 4) or ``"evalys"`` (``jobID``, which evalys wanted
        before it took both).

    Raises ScenarioError for a result without a recorded schedule or another dialect, OSError for a file that
    cannot be written.
    """
    if dialect not in (known := get_args(Dialect)):
        raise ScenarioError(f"dialect must be {' or '.join(known)}, got {dialect!r}")
    ran = _ran(result, "to_batsim" if dialect == "batsim" else f"to_batsim for {dialect}")
    table = result.applications
    release = table["release"][ran.application]
    waiting, lasts = ran.start - release, ran.finish - ran.start
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = (ran.finish - release) / lasts
    given_up = np.isnan(ran.finish)
    state = np.where(ran.done, "COMPLETED_SUCCESSFULLY", np.where(given_up, "REJECTED", "COMPLETED_KILLED"))
    requested = table["requested"][ran.application] if result.rigid else np.full(len(release), -1.0)
    metadata = [""] * len(release) if result.rigid else [f"tasks={n}" for n in ran.tasks.tolist()]
    columns = {
        COLUMNS[dialect][0]: ran.label,
        "workload_name": ["w0"] * len(release),
        "profile": [str(i + 1) for i in ran.application.tolist()],
        "submission_time": _numbers(release),
        "requested_number_of_resources": [str(n) for n in ran.size.tolist()],
        "requested_time": _numbers(requested),
        "success": [str(int(each)) for each in ran.done.tolist()],
        "final_state": state.tolist(),
        "starting_time": _numbers(ran.start),
        "execution_time": _numbers(lasts),
        "finish_time": _numbers(ran.finish),
        "waiting_time": _numbers(waiting),
        "turnaround_time": _numbers(ran.finish - release),
        "stretch": _numbers(stretch),
        "allocated_resources": _allocated(result, ran),
        "consumed_energy": ["" if never else "-1" for never in given_up.tolist()],
        "metadata": [f'"{words}"' for words in metadata],
    }
    wanted = [columns[name] for name in COLUMNS[dialect]]
    _write(path, [",".join(COLUMNS[dialect])], map(",".join, zip(*wanted, strict=True)))
    return len(release)


def to_swf(result: Result, path: StrPath) -> int:
    """Write the schedule of a result as a job log in Standard Workload Format, version 2.2; return its jobs.

    Rigid jobs are as they are, status 1; one that was rejected has status 5 (cancelled), an unknown wait,
    and ran for 0 s.  Of bags each row of the table ``schedule`` is a job on one processor, status 0
    (failed) where it was cut off, and the executable is the bag's number; for these the run must have been
    recorded.  Times have fractions.

    Raises ScenarioError for bags without a recorded schedule, OSError for a file that cannot be written.
    """
    table, rigid = result.applications, result.rigid
    ran = _rigid_runs(result) if rigid else _ran(result, "to_swf")
    release, none = table["release"][ran.application], ["-1"] * len(ran.application)
    given_up, sizes = np.isnan(ran.finish), [str(n) for n in ran.size.tolist()]
    status = np.where(given_up, _CANCELLED, ran.done.astype(np.int64))
    lasts = table["run_time"] if rigid else ran.finish - ran.start
    columns = [
        [str(k + 1) for k in range(len(release))],
        _numbers(release),
        _numbers(np.where(given_up, -1.0, table["waiting"] if rigid else ran.start - release)),
        _numbers(np.where(given_up, 0.0, lasts)),
        ["-1" if never else size for never, size in zip(given_up.tolist(), sizes, strict=True)],
        none,  # processor time
        none,  # memory
        sizes,
        _numbers(table["requested"]) if rigid else none,
        none,  # requested memory
        [str(each) for each in status.tolist()],
        none,  # user
        none,  # group
        none if rigid else [str(i + 1) for i in ran.application.tolist()],  # executable
        *[none] * 4,  # queue, partition, preceding job, think time
    ]
    machines = len(result.machines)
    header = {
        "Version": "2.2",
        "Computer": f"simulated, {machines} machines",
        "Information": one_line(f"schedule of {result.scheduler['name']}, digest {result.digest}"),
        "MaxJobs": len(release),
        "MaxRecords": len(release),
        "MaxNodes": machines,
        "MaxProcs": machines,
        "UnixStartTime": 0,
        "AllowOveruse": "Yes",  # requested times end no job
    }
    lines = [f"; {key}: {value}" for key, value in header.items()]
    _write(path, lines, map(" ".join, zip(*columns, strict=True)))
    return len(release)


def _write(path: StrPath, head: list[str], lines: Iterable[str]) -> None:
    with atomic_file(path) as stream:
        stream.writelines(f"{line}\n".encode() for line in (*head, *lines))


def _numbers(values: Floats) -> list[str]:
    """Numbers to the nanosecond, without zeros at the end; nothing for NaN."""
    rounded = np.round(values, 9) + 0.0  # no -0
    return [f"{v:.9f}".rstrip("0").rstrip(".") if v == v else "" for v in rounded.tolist()]


def _rigid_runs(result: Result) -> _Ran:
    table = result.applications
    done, index = ~np.isnan(table["finish"]), np.arange(len(table))
    start = np.where(done, table["release"] + table["waiting"], np.nan)
    labels = [str(k + 1) for k in range(len(table))]
    return _Ran(labels, index, np.ones_like(index), start, table["finish"], table["tasks"], done)


def check_recorded(result: Result, what: str) -> None:
    """Raise ScenarioError, which names `what` wants it, for a result without a recorded schedule."""
    if "schedule" not in result.tables:
        raise ScenarioError(
            f"{what} needs a recorded schedule, the result has none: run it with --record, or "
            "simulate(..., record=True)"
        )


def _ran(result: Result, what: str) -> _Ran:
    """What the recorded schedule has."""
    check_recorded(result, what)
    if result.rigid:
        return _rigid_runs(result)
    schedule = result.tables["schedule"]
    order = np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))
    application, tasks, start, end, completed = (
        schedule[name][order] for name in ("application", "tasks", "start", "end", "completed")
    )
    number = np.arange(len(order)) - np.searchsorted(application, application)  # within its application
    label = [f"{i + 1}_{k + 1}" for i, k in zip(application.tolist(), number.tolist(), strict=True)]
    return _Ran(label, application, tasks, start, end, np.ones_like(application), completed > 0)


def _allocated(result: Result, ran: _Ran) -> list[str]:
    """The machines of each as intervals, ``0-3 7``."""
    schedule = result.tables["schedule"]
    if not result.rigid:
        order = np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))
        return [str(u) for u in schedule["machine"][order].tolist()]
    whole_runs = schedule["completed"] > 0
    application, machine = schedule["application"][whole_runs], schedule["machine"][whole_runs]
    order = np.lexsort((machine, application))
    application, machine = application[order], machine[order]
    # an interval ends where the next machine is no neighbour, or of another job
    last = np.append((np.diff(machine) != 1) | (np.diff(application) != 0), True)[: len(machine)]
    first = np.append(True, last)[: len(machine)]
    made: list[list[str]] = [[] for _ in ran.label]
    for i, low, high in zip(
        *(c.tolist() for c in (application[first], machine[first], machine[last])), strict=True
    ):
        made[i].append(str(low) if low == high else f"{low}-{high}")
    return [" ".join(each) for each in made]


# -- job logs as results ----------------------------------------------------------------------------------


def result_from_log(
    path: StrPath,
    *,
    machines: int | None = None,
    speed: float = 1000.0,
    procs_per_node: int = 1,
    start: float = 0.0,
    end: float = math.inf,
    max_nodes: int | None = None,
    name: str = "log",
) -> Result:
    """The schedule that a job log (SWF, GWF) tells of itself, as a result of a scheduler called `name`.

    machines : how many there were; default: those of the header (MaxProcs over `procs_per_node`, else
        MaxNodes).
    speed : Mflop/s of each.
    procs_per_node, start, end, max_nodes : which jobs, as in `Workload.jobs_from_log`; they are released as
        there, the first at 0, and run times of 0 s, below the log's resolution, count as 1 s as there.

    A job started after its wait and ran for its run time, whatever its status says of how it ended.
    ``failed`` is 1, and its times are NaN, if it did not run (cancelled with a run time of 0 s: fact
    ``cancelled``) or if the log does not tell when (a wait below 0: fact ``unknown_waits``, with a
    `TraceWarning`).  What a log does not say is not made up: submitters are -1, ``busy`` and
    ``utilization`` of machines NaN; the fact ``utilization`` is that of all machines together, from the
    first release to the last finish.

    Raises TraceFormatError for a file that is no job log; ScenarioError for parameters out of range, a log
    whose header does not tell the machines, jobs that want more of them, no job in the window, or no wait
    that is known.
    """
    from gridsim.traces import derive_jobs, read_jobs

    file = os.fspath(path)
    with provenance.reading([file]) as files:
        log = read_jobs(path)
    workload = Workload.jobs_from_log(path, procs_per_node, None, start, end, max_nodes)
    jobs = derive_jobs(log, procs_per_node=procs_per_node, start=start, end=end, max_nodes=max_nodes)
    if not len(jobs):
        raise ScenarioError(f"{file}: no job of known run time within the window, so no result")
    count = (
        _machines(file, log.header, procs_per_node)
        if machines is None
        else whole("machines", machines, low=1)
    )
    for i in np.flatnonzero(jobs.nodes > count)[:1]:
        raise ScenarioError(
            f"machines must be at least {jobs.nodes[i]}, which job {jobs.job[i]} of {file} wants, got {count}"
        )
    platform = Platform.equal(count, real("speed", speed, above=0, unit="Mflop/s"))
    row = log.jobs[jobs.row]
    cancelled = (row["status"] == _CANCELLED) & (row["run_time"] == 0)
    unknown = ~cancelled & (row["wait"] < 0)
    if (unknown | cancelled).all():
        raise ScenarioError(f"{file}: no job has a known wait, so the log tells no schedule")
    if unknown.any():
        said = f"{file}:{row['line'][unknown].min()}: {unknown.sum()} jobs of unknown wait, taken as failed"
        warnings.warn(f"{said} (the first is at this line)", TraceWarning, stacklevel=2)
    failed = cancelled | unknown
    release = np.round(jobs.release - jobs.release[0], 9)
    waiting = np.where(failed, np.nan, row["wait"])
    finish = release + waiting + jobs.run_time
    task_size = jobs.run_time * speed
    size = task_size * jobs.nodes
    stretch = (finish - release) / size
    ran = np.where(failed, 0, jobs.nodes)
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
        "nodes_used": ran,
        "failed": failed.astype(np.int64),
        "run_time": jobs.run_time,
        "requested": jobs.requested,
        "waiting": waiting,
        "slowdown": job_slowdown(waiting, jobs.run_time),
    }
    nothing = np.full(count, np.nan)
    scenario = Scenario(platform, workload)
    return Result(
        tables={
            "applications": Table(applications),
            "machines": Table({"speed": platform.speeds, "busy": nothing, "utilization": nothing}),
            "messages": Table(
                {"kind": np.zeros(0, np.str_), **{key: np.zeros(0, np.int64) for key in _MESSAGES}}
            ),
        },
        facts={
            "cancelled": int(cancelled.sum()),
            "unknown_waits": int(unknown.sum()),
            "utilization": total(ran * jobs.run_time) / (count * span),
        },
        scheduler={
            "name": text("name", name),
            "class": READ_FROM_LOG,
            "parameters": {"log": os.path.basename(file)},
        },
        provenance={**provenance.describe(seed=0, files=files), "scenario": scenario.to_toml()},
        scenario=scenario,
    )


def _machines(file: str, header: dict[str, str], procs_per_node: int) -> int:
    """The machines that the header of a log tells."""
    for key in ("MaxProcs", "MaxNodes"):
        if stated := re.match(r"[0-9]{1,15}(?![0-9])", header.get(key, "")):
            count = int(stated[0])
            count = -(-count // procs_per_node) if key == "MaxProcs" else count
            if count > _MOST_MACHINES:
                raise ScenarioError(
                    f"machines must be given: {file} tells of {count}, more than {_MOST_MACHINES}"
                )
            return count
    raise ScenarioError(f"machines must be given: {file} has no MaxProcs and no MaxNodes in its header")


def check_same_jobs(result: Result, scenario: Scenario) -> None:
    """That the applications of `result` are those of `scenario`, on as many machines of the same speeds.

    So that results can stand side by side.  Raises ScenarioError with the first difference.
    """
    given = scenario.workload.realize(scenario.platform)
    table, speeds = result.applications, scenario.platform.speeds
    if not np.array_equal(result.machines["speed"], speeds):
        raise ScenarioError(
            f"scenario must have the machines of the result, {_of_machines(result.machines['speed'])}, "
            f"got {_of_machines(speeds)}"
        )
    if len(given) != len(table):
        raise ScenarioError(
            f"scenario must have the {len(table)} applications of the result, got {len(given)}"
        )
    for name, unit in (("release", "s"), ("tasks", "tasks"), ("task_size", "Mflop")):
        have, want = getattr(given, name), table[name]
        # the clock counts nanoseconds
        differs = np.abs(have - want) > 1e-9 * np.maximum(1.0, np.abs(want))
        for i in np.flatnonzero(differs)[:1]:
            raise ScenarioError(
                f"scenario must have the applications of the result, where {name} of application {i} is "
                f"{want[i]:.12g} {unit}, got {have[i]:.12g} {unit}"
            )


def _of_machines(speeds: Any) -> str:
    return f"{len(speeds)} of {speeds.min():g} to {speeds.max():g} Mflop/s"
