"""Schedules in the formats of other tools.

Results are written as a jobs table of Batsim or a job log (SWF), and job logs are read as results.  The jobs
table is that of Batsim 3 and 4 (JobsTracer), which evalys reads.  SWF is the Standard Workload Format,
version 2.2, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.  Jobs are numbered from 1, as SWF
requires: job k is row k - 1 of the table ``applications``.  Rigid jobs of a log keep the numbers that they
have there, unless several have the same.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError, TraceWarning, one_line
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.metrics.formulas import job_slowdown, total
from gridsim.results.result import READ_FROM_LOG, Result
from gridsim.results.table import Table
from gridsim.support import provenance
from gridsim.support.arguments import real, text, whole
from gridsim.support.arrays import Floats, Integers
from gridsim.support.files import StrPath, atomic_file
from gridsim.support.warning_scope import warn

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
#: Status of a cancelled job in SWF.
_CANCELLED = 5


@dataclass(frozen=True)
class _Ran:
    """The rows of a schedule in another format: a rigid job each, or what ran on a machine without a gap.

    Parameters
    ----------
    label
        Name of the row.
    application
        Row of the table ``applications``.
    tasks
        Number of tasks that ran one after another, for a bag.
    start, finish
        s; NaN for a rejected job.
    size
        machines.
    done
        Whether it was completed.
    """

    label: list[str]
    application: Integers
    tasks: Integers
    start: Floats
    finish: Floats
    size: Integers
    done: NDArray[np.bool_]


def _waits(table: Table) -> Floats:
    """Return how long each rigid job waited since its release, s."""
    early = table["not_before"] - table["release"] if "not_before" in table else np.zeros(len(table))
    waits: Floats = table["waiting"] + np.maximum(early, 0.0)
    return waits


# -- results as schedules of other tools ------------------------------------------------------------------


def to_batsim(result: Result, path: StrPath, *, dialect: Dialect = "batsim") -> int:
    """Write the schedule of a recorded result as a jobs table of Batsim (``..._jobs.csv``).

    Rigid jobs have a row each, for the run that was completed, called by their number in the log that they
    come from, else by their row in ``applications``, counted from 1.  A rejected job has no resources and no
    times, and its ``final_state`` is REJECTED.  Bags have a row for each row of the table ``schedule``, which
    is what ran on one machine without a gap.  The rows of bag JOB are called JOB_1, JOB_2 ... in order of
    start; their state is COMPLETED_KILLED if a failure or a faster replica cut them off.  ``profile`` is the
    job, so that all rows of a bag have the same; ``metadata`` has the number of tasks in a row of a bag.  -1
    stands for none (requested times of bags, energy).

    Returns the number of rows.  Raises ScenarioError for a result without a recorded schedule or another
    dialect, OSError if the file cannot be written.

    Parameters
    ----------
    dialect
        ``"batsim"`` (column ``job_id``, Batsim 3 and 4) or ``"evalys"`` (column ``jobID``, which evalys
        required before it accepted both).
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
        "profile": ran.label if result.rigid else [str(i + 1) for i in ran.application.tolist()],
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
    """Write the schedule of a result as a job log in Standard Workload Format, version 2.2.

    A rigid job is one job with status 1.  A rejected or cancelled one has status 5 (cancelled), an unknown
    wait and a run time of 0 s.  For bags, each row of the table ``schedule`` is a job on one processor, with
    status 0 (failed) if it was cut off, and the number of the bag as executable; this requires a recorded
    run.  Times have fractions.

    Returns the number of jobs.  Raises ScenarioError for bags without a recorded schedule, OSError if the
    file cannot be written.
    """
    table, rigid = result.applications, result.rigid
    ran = _rigid_runs(result) if rigid else _ran(result, "to_swf")
    release, none = table["release"][ran.application], ["-1"] * len(ran.application)
    given_up, sizes = np.isnan(ran.finish), [str(n) for n in ran.size.tolist()]
    status = np.where(given_up, _CANCELLED, ran.done.astype(np.int64))
    lasts = table["run_time"] if rigid else ran.finish - ran.start
    columns = [
        ran.label if rigid else [str(k + 1) for k in range(len(release))],
        _numbers(release),
        _numbers(np.where(given_up, -1.0, _waits(table) if rigid else ran.start - release)),
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
        "UnixStartTime": int(result.origin),
        "AllowOveruse": "Yes",  # a job is not ended at its requested time
    }
    lines = [f"; {key}: {value}" for key, value in header.items()]
    _write(path, lines, map(" ".join, zip(*columns, strict=True)))
    return len(release)


def _write(path: StrPath, head: list[str], lines: Iterable[str]) -> None:
    with atomic_file(path) as stream:
        stream.writelines(f"{line}\n".encode() for line in (*head, *lines))


def _numbers(values: Floats) -> list[str]:
    """Return numbers as text, rounded to 9 decimals without trailing zeros; an empty text for NaN."""
    rounded = np.round(values, 9) + 0.0  # no -0
    return [f"{v:.9f}".rstrip("0").rstrip(".") if v == v else "" for v in rounded.tolist()]


def _rigid_runs(result: Result) -> _Ran:
    table = result.applications
    done, index = ~np.isnan(table["finish"]), np.arange(len(table))
    start = np.where(done, table["release"] + table["waiting"], np.nan)
    numbers = own_numbers(result)
    labels = list(map(str, (index + 1 if numbers is None else numbers).tolist()))
    return _Ran(labels, index, np.ones_like(index), start, table["finish"], table["tasks"], done)


def own_numbers(result: Result) -> NDArray[np.int64] | None:
    """Return the number in the log of each job; None without a log, or if two jobs have the same number."""
    numbers = result.jobs_of_log
    known = numbers is not None and numbers.min() >= 0 and len(np.unique(numbers)) == len(numbers)
    return numbers if known else None


def check_recorded(result: Result, what: str) -> None:
    """Raise ScenarioError, saying that `what` needs it, if the result has no recorded schedule."""
    if "schedule" not in result.tables:
        raise ScenarioError(
            f"{what} needs a recorded schedule, the result has none: run it with --record, or "
            "simulate(..., record=True)"
        )


def _ran(result: Result, what: str) -> _Ran:
    """Return the rows of the recorded schedule; `what` is named in the error if there is none."""
    check_recorded(result, what)
    if result.rigid:
        return _rigid_runs(result)
    schedule = result.tables["schedule"]
    order = np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))
    application, tasks, start, end, completed = (
        schedule[name][order] for name in ("application", "tasks", "start", "end", "completed")
    )
    number = np.arange(len(order)) - np.searchsorted(application, application)  # number in its bag
    label = [f"{i + 1}_{k + 1}" for i, k in zip(application.tolist(), number.tolist(), strict=True)]
    return _Ran(label, application, tasks, start, end, np.ones_like(application), completed > 0)


def _allocated(result: Result, ran: _Ran) -> list[str]:
    """Return the machines of each row as intervals, such as ``0-3 7``."""
    schedule = result.tables["schedule"]
    if not result.rigid:
        order = np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))
        return [str(u) for u in schedule["machine"][order].tolist()]
    whole_runs = schedule["completed"] > 0
    application, machine = schedule["application"][whole_runs], schedule["machine"][whole_runs]
    order = np.lexsort((machine, application))
    application, machine = application[order], machine[order]
    # an interval ends if the next machine is not adjacent, or belongs to another job
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
    """Read the schedule recorded in a job log (SWF, GWF) as the result of a scheduler called `name`.

    A job started after its wait and ran for its run time, whatever its status says about its end.  The jobs
    are those of the workload: jobs that never ran and parts of jobs that have a line of their own are left
    out (see `gridsim.traces.derive_jobs`).  ``failed`` is 1, and the times are NaN, if the log does not state
    when a job ran (a wait below 0; the fact ``unknown_waits`` counts these, and there is a `TraceWarning`).
    What a log does not contain is not invented: submitters are -1, ``busy`` and ``utilization`` of machines
    and the number of messages are NaN.  The fact ``utilization`` is that of all machines together, from the
    first release to the last finish.

    Parameters
    ----------
    machines
        Number of machines; by default that of the header (MaxProcs over `procs_per_node`, else MaxNodes).
    speed
        Of each machine, Mflop/s.
    procs_per_node, start, end, max_nodes
        Select and convert jobs as in `Workload.jobs_from_log`.  As there, the first job is released at 0, and
        a run time of 0 s, below the log's resolution, counts as 1 s.

    Raises
    ------
    TraceFormatError
        If the file is not a job log; ScenarioError for parameters out of range, a header without the number
        of machines, jobs that want more machines, no job in the window, or no known wait.
    """
    from gridsim.traces import derive_jobs
    from gridsim.traces.info import load_jobs

    file = os.fspath(path)
    with provenance.reading([file]) as files:
        log = load_jobs(path)
    workload = Workload.jobs_from_log(path, procs_per_node, None, start, end, max_nodes)
    jobs = derive_jobs(log, procs_per_node=procs_per_node, start=start, end=end, max_nodes=max_nodes)
    if not len(jobs):
        raise ScenarioError(f"{file}: no job that ran for a known time within the window, so no result")
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
    failed = row["wait"] < 0
    if failed.all():
        raise ScenarioError(f"{file}: no job has a known wait, so the log tells no schedule")
    if failed.any():
        said = f"{file}:{row['line'][failed].min()}: {failed.sum()} jobs of unknown wait, taken as failed"
        warn(f"{said} (the first is at this line)", TraceWarning, stacklevel=2)
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
            "log_jobs": Table({"job": jobs.job}),
            "messages": Table(
                {"kind": np.zeros(0, np.str_), **{key: np.zeros(0, np.int64) for key in _MESSAGES}}
            ),
        },
        facts={
            "unknown_waits": int(failed.sum()),
            "utilization": total(ran * jobs.run_time) / (count * span),
        },
        scheduler={
            "name": text("name", name),
            "class": READ_FROM_LOG,
            "parameters": {"log": os.path.basename(file)},
        },
        provenance=provenance.describe(seed=0, files=files),
        scenario=scenario,
    )


def _machines(file: str, header: dict[str, str], procs_per_node: int) -> int:
    """Return the number of machines stated in the header of a log."""
    from gridsim.traces.jobs import MAX_MACHINES, stated_machines

    stated = stated_machines(header, procs_per_node)
    if stated is None:
        raise ScenarioError(f"machines must be given: {file} has no MaxProcs and no MaxNodes in its header")
    if stated[1] > MAX_MACHINES:
        raise ScenarioError(f"machines must be given (at most {MAX_MACHINES}): {file} states {stated[1]}")
    return stated[1]


def check_same_jobs(result: Result, scenario: Scenario) -> None:
    """Check that `result` has the applications of `scenario`, on as many machines of the same speeds.

    Only then can it be compared with results of that scenario.  Raises ScenarioError with the first
    difference.
    """
    given = scenario.workload.realize(scenario.platform)
    columns = {name: getattr(given, name) for name in _SAME}
    if found := _difference(result, scenario.platform.speeds, columns):
        raise ScenarioError(f"scenario must have the {found}")


def other_jobs(result: Result, other: Result) -> str:
    """Return the first difference between the machines and applications of two results; "" if there is none.

    Only results without one can be compared.
    """
    return _difference(result, other.machines["speed"], {name: other.applications[name] for name in _SAME})


#: What applications must have in common to be the same, and its unit.
_SAME = {"release": "s", "tasks": "tasks", "task_size": "Mflop"}


def _difference(result: Result, speeds: Any, columns: Mapping[str, Any]) -> str:
    """Return what `result` has and machines and applications do not; "" if they are the same.

    Parameters
    ----------
    speeds
        Mflop/s.
    columns
        Those of `_SAME`.
    """
    table, own = result.applications, result.machines["speed"]
    if not np.array_equal(own, speeds):
        return f"machines of the result, {_of_machines(own)}, got {_of_machines(speeds)}"
    if len(columns["release"]) != len(table):
        return f"{len(table)} applications of the result, got {len(columns['release'])}"
    for name, unit in _SAME.items():
        have, want = columns[name], table[name]
        # the clock counts nanoseconds
        differs = np.abs(have - want) > 1e-9 * np.maximum(1.0, np.abs(want))
        for i in np.flatnonzero(differs)[:1]:
            return (
                f"applications of the result, where {name} of application {i} is {want[i]:.12g} {unit}, got "
                f"{have[i]:.12g} {unit}"
            )
    return ""


def _of_machines(speeds: Any) -> str:
    return f"{len(speeds)} of {speeds.min():g} to {speeds.max():g} Mflop/s"
