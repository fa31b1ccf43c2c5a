"""Checks of a recorded schedule: each row, all rows of a machine, and agreement with the other tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.model.attributes import ANY_KIND
from gridsim.model.capacity import MachineCapacity, whole_bytes
from gridsim.model.faults import Faults
from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import (
    NS,
    ROUNDING,
    Violation,
    check_step_count,
    column_label,
    differences,
    is_close,
    is_emulated,
    overlaps,
    queue_numbers,
    slowest_speeds,
    violations_where,
)
from gridsim.validation.copies import Copies, check_copies, computed_work, overtaken_copies
from gridsim.validation.links import check_links, moves_data
from gridsim.validation.times import cancelled_jobs, check_cancelled


def check_schedule(result: Result, workload: Applications) -> list[Violation]:
    """Check the recorded schedule of a result, and return the violations."""
    table, applications = result.tables["schedule"], result.applications
    speeds = result.scenario.platform.speeds
    u, i, n, done = (table[name] for name in ("machine", "application", "tasks", "completed"))
    start, end = table["start"], table["end"]
    queue, cores = queue_numbers(result, "schedule"), result.scenario.platform.cores

    def row_label(k: int) -> str:
        return f"schedule[{k}]"

    is_known = (u >= 0) & (u < len(speeds)) & (i >= 0) & (i < len(applications))
    violations = violations_where(
        "unknown",
        ~is_known,
        row_label,
        lambda k: (
            f"application {i[k]} on machine {u[k]}; there are {len(applications)} applications and "
            f"{len(speeds)} machines"
        ),
    )
    if "core" in table and cores is not None:
        core = table["core"]
        count = np.where(is_known, cores[np.where(is_known, u, 0)], 0)
        violations += violations_where(
            "unknown",
            is_known & ~((core >= 0) & (core < count)),
            row_label,
            lambda k: f"core {core[k]} of machine {u[k]}, which has {count[k]} cores",
        )
        is_known &= (core >= 0) & (core < count)
    # the tasks of a rigid job on a machine run together, others one after the other
    is_counted = (n >= 1) & ((done == n) | ((done == 0) & (result.rigid | (n == 1))))
    violations += violations_where(
        "count",
        ~is_counted,
        row_label,
        lambda k: (
            f"{done[k]} of {n[k]} tasks are completed; a row must have only completed tasks, or a single one"
        ),
    )
    is_timed = np.isfinite(start) & np.isfinite(end) & (end > start)
    violations += violations_where(
        "time", ~is_timed, row_label, lambda k: f"starts at {start[k]} s, but ends at {end[k]} s"
    )
    valid_rows = np.flatnonzero(is_known & is_counted & is_timed)
    u, i, n, done, start, end = (column[valid_rows] for column in (u, i, n, done, start, end))
    queue = queue[valid_rows]

    def valid_row_label(k: int) -> str:
        return row_label(int(valid_rows[k]))

    release = applications["release"][i]
    violations += violations_where(
        "before release",
        start < release,
        valid_row_label,
        lambda k: f"starts at {start[k]} s, but is released at {release[k]} s",
    )
    is_completed, is_overtaken = done > 0, np.zeros(len(valid_rows), np.bool_)
    if "task" in table:
        task_numbers = table["task"][valid_rows]
        is_numbered = (task_numbers >= 0) & (task_numbers < workload.tasks[i])
        violations += violations_where(
            "unknown",
            ~is_numbered,
            valid_row_label,
            lambda k: f"task {task_numbers[k]} of application {i[k]}, which has {workload.tasks[i[k]]} tasks",
        )
        if not is_numbered.all():
            return violations
        at, until = ((column * 1e9).round().astype(np.int64) for column in (start, end))
        begin = table["begin"][valid_rows]
        copies = Copies(
            u,
            queue,
            workload.offsets[i] + task_numbers,
            at,
            until,
            is_completed,
            begin,
            valid_row_label,
            is_emulated(result),
        )
        violations += check_copies(result, workload, copies)
        is_overtaken = overtaken_copies(copies)
    elif not workload.unequal and result.scenario.fluctuation is None:
        # rows do not tell which tasks ran, so durations can be checked only if all tasks have the same size
        speed = slowest_speeds(speeds, u, i, start) if result.rigid else speeds[u]
        task_time = np.maximum(1.0, np.rint(applications["task_size"][i] / speed * 1e9)) * NS
        if "terminated" in applications:
            is_killed = applications["terminated"][i] != 0
            task_time = np.where(is_killed, applications["run_time"][i], task_time)
        # a task that ends at the instant of a failure is completed, unless it is of a rigid job, of which
        # another machine may have failed; after a million s, floats do not distinguish neighbouring ns
        slack = np.where(result.rigid | (end > 1e6), NS, -0.5 * NS)
        successive = np.ones_like(n) if result.rigid else n  # the tasks of a job on a machine run together
        violations += violations_where(
            "duration",
            np.where(
                is_completed,
                ~is_close(end, start + successive * task_time, successive * NS),
                end - start > task_time + slack,
            ),
            valid_row_label,
            lambda k: f"runs {n[k]} tasks of {task_time[k]:g} s in {end[k] - start[k]:g} s on machine {u[k]}",
        )
    elif workload.unequal and result.scenario.fluctuation is None and (n == 1).all():
        violations += _check_task_sizes(workload, speeds[u], i, is_completed, start, end)
    elif not workload.unequal and result.scenario.fluctuation is not None:
        pace = result.scenario.fluctuation.realize(len(speeds))
        at, until = ((column * 1e9).round().astype(np.int64) for column in (start, end))
        expected_work, work_done = (
            n * (applications["task_size"][i] / speeds[u] * 1e9),
            computed_work(pace, u, at, until),
        )
        slack = 2.0 * n + 1e-9 * work_done + ROUNDING * until
        violations += violations_where(
            "duration",
            np.where(
                is_completed, np.abs(work_done - expected_work) > slack, work_done > expected_work + slack
            ),
            valid_row_label,
            lambda k: (
                f"{n[k]} tasks that take {expected_work[k] * NS:g} s without background load get "
                f"{work_done[k] * NS:g} s of machine {u[k]}"
            ),
        )
    parts = cores if "core" in table else None
    violations += _check_constraints(result, workload, u, i, parts, valid_row_label) + check_cancelled(
        result, i, start, end, valid_row_label
    )
    is_cancelled = cancelled_jobs(result)[i]
    earlier, later = overlaps(queue, start, end)
    if result.rigid and result.scenario.platform.is_shared:
        violations += _check_shares(result, workload, u, i, n, start, end, valid_row_label)
    elif cores is not None and "core" not in table:
        used = np.ones(len(u), np.int64)
        violations += _check_use("tasks", used, cores, u, start, end, valid_row_label)
        if (needs := _shared_bytes(result, workload)) is not None:
            memory = MachineCapacity.of(len(speeds), cores, result.scenario.platform.attributes, None).memory
            violations += _check_use("bytes of memory", needs[i], memory, u, start, end, valid_row_label)
    elif len(later):
        a, b = int(earlier[0]), int(later[0])
        message = f"machine {u[b]} starts at {start[b]} s, while {valid_row_label(a)} lasts until {end[a]} s"
        violations.append(Violation("overlap", len(later), valid_row_label(b), message))
    runs = np.unique(np.stack((i, start)), axis=1, return_inverse=True)[1] if result.rigid else None
    if runs is not None:
        violations += _check_common_starts(result, u, queue, i, runs.ravel(), n, done, valid_row_label)
        run_time = np.rint(workload.task_size[i] / slowest_speeds(speeds, u, i, start) * 1e9)
        if "terminated" in applications:
            run_time = np.rint(applications["run_time"][i] * 1e9)
        is_full = end - start >= np.maximum(1.0, run_time) * NS - 0.5 * NS
        # the message that cancels a job may arrive after its end
        is_late_notification = is_cancelled & (
            end > (workload.cancel_at[i] if workload.cancel_at is not None else np.inf)
        )
        violations += _check_jobs_run_to_end(
            result,
            i,
            runs.ravel(),
            n,
            is_full & ~is_completed & ~is_late_notification & (end < 1e6),
            valid_row_label,
        )
    faults = result.scenario.faults
    needs_no_failure = is_completed | is_overtaken | is_cancelled
    violations += _check_machines_up(
        faults, len(speeds), u, n, start, end, needs_no_failure, runs, valid_row_label
    )
    output_time = end
    if moves_data(result, workload):
        link_violations, output_time = check_links(result, workload, u, i, n, start, end, valid_row_label)
        violations += link_violations
    at_once = n if result.rigid else np.ones_like(n)
    width = at_once if workload.cores is None else at_once * workload.cores[i]
    violations += _check_agreement(
        result, u, queue, i, done, start, end, output_time, is_overtaken, tasks_at_once=at_once, width=width
    )
    violations += _check_resubmission(result, i, needs_no_failure)
    if "arrivals" in result.tables and len(result.tables["arrivals"]):
        violations += _check_arrivals(result, u, i, n, start, valid_row_label)
    return violations


def _check_shares(
    result: Result,
    workload: Applications,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    end: Floats,
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that rigid jobs take at most the cores, memory and GPUs of each machine at any instant.

    An exclusive job takes all of its machines.
    """
    platform, violations = result.scenario.platform, list[Violation]()
    machines, jobs = len(result.machines), len(workload)
    most = np.ones(jobs, np.int64) if workload.tasks_per_machine is None else workload.tasks_per_machine
    violations += violations_where(
        "together",
        (most[i] > 0) & (n > most[i]),
        row_label,
        lambda k: f"application {i[k]} has {n[k]} tasks on machine {u[k]}, but may have {most[i[k]]}",
    )
    available = MachineCapacity.of(machines, platform.cores, platform.attributes, platform.gpus)
    task_cores = np.ones(jobs, np.int64) if workload.cores is None else workload.cores
    for name, capacity, need in (
        ("cores", available.cores, task_cores),
        ("bytes of memory", available.memory, _shared_bytes(result, workload)),
        ("GPUs", available.gpus, workload.gpus),
    ):
        if need is None:
            continue
        used = n * need[i]
        if workload.exclusive is not None:
            used = np.where(workload.exclusive[i] != 0, np.maximum(used, capacity[u]), used)
        violations += _check_use(name, used, capacity, u, start, end, row_label)
    return violations


def _shared_bytes(result: Result, workload: Applications) -> Integers | None:
    """Return the whole bytes that a task of each application takes; None if machines or tasks state none."""
    attributes = result.scenario.platform.attributes
    if workload.memory is None or attributes is None or attributes.memory is None:
        return None
    return whole_bytes(workload.memory, len(workload))


def _check_use(
    name: str,
    used: Integers,
    capacity: Integers,
    u: NDArray[np.int64],
    start: Floats,
    end: Floats,
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that rows never use more of their machine at an instant than it has.

    Parameters
    ----------
    name
        What is used.
    used
        How much each row uses.
    capacity
        How much each machine has.
    """
    instants = np.concatenate((start, end))
    change, is_start = np.concatenate((used, -used)), np.repeat([True, False], len(u))
    machine, row = np.tile(u, 2), np.tile(np.arange(len(u)), 2)
    order = np.lexsort((is_start, instants, machine))  # rows end before others start
    use = np.cumsum(change[order])  # 0 after the last end on a machine
    excess = np.flatnonzero((use > capacity[machine[order]]) & is_start[order])
    if not len(excess):
        return []
    k = int(row[order][excess[0]])
    message = (
        f"machine {u[k]} starts at {start[k]} s, and then uses {use[excess[0]]:.0f} {name}, of which it has "
        f"{capacity[u[k]]:.0f}"
    )
    return [Violation("overlap", len(excess), row_label(k), message)]


def _check_constraints(
    result: Result,
    workload: Applications,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    parts: Integers | None,
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that tasks run only on machines with the memory, disk and kind that they require.

    Parameters
    ----------
    parts
        The number of cores of each machine if each core has an equal part of its memory; None otherwise.
    """
    attributes, violations = result.scenario.platform.attributes, list[Violation]()
    if attributes is None:
        return violations
    for name in ("memory", "disk"):
        if getattr(attributes, name) is not None and getattr(workload, name) is not None:
            capacity = getattr(attributes, name)
            if name == "memory" and parts is not None and not result.rigid:
                capacity = capacity / parts
            violations += _check_capacity(name, capacity[u], getattr(workload, name)[i], u, i, row_label)
    kind, requested_kind = attributes.kind, workload.kind
    if kind is not None and requested_kind is not None:
        violations += violations_where(
            "constraint",
            (requested_kind[i] != ANY_KIND) & (kind[u] != requested_kind[i]),
            row_label,
            lambda k: (
                f"application {i[k]} requires machines of kind {str(requested_kind[i[k]])!r}, but machine "
                f"{u[k]} is of kind {str(kind[u[k]])!r}"
            ),
        )
    return violations


def _check_capacity(
    name: str,
    capacity: Floats,
    needs: Floats,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that machines have the memory or disk that tasks need.

    Parameters
    ----------
    name
        "memory" or "disk".
    capacity, needs
        Bytes that the machine of each row has, and that its tasks need.
    """
    return violations_where(
        "constraint",
        capacity < needs,
        row_label,
        lambda k: (
            f"application {i[k]} needs {needs[k]:g} bytes of {name}, but machine {u[k]} has {capacity[k]:g}"
        ),
    )


def _check_task_sizes(
    workload: Applications,
    speed: NDArray[np.float64],
    i: NDArray[np.int64],
    is_completed: NDArray[np.bool_],
    start: Floats,
    end: Floats,
) -> list[Violation]:
    """Check by the durations of rows that each task of an application with unequal tasks ran once."""
    assert workload.task_sizes is not None
    owner = np.repeat(np.arange(len(workload)), workload.tasks)
    size, owners_run = ((end - start) * speed)[is_completed], i[is_completed]
    expected_sizes = workload.task_sizes[np.lexsort((workload.task_sizes, owner))]
    sizes = size[np.lexsort((size, owners_run))]
    complete = np.bincount(owners_run, minlength=len(workload)) == workload.tasks
    sizes, expected_sizes = sizes[complete[np.sort(owners_run)]], expected_sizes[complete[owner]]
    # durations are rounded to whole ns; start and end are floats, whose rounding error grows with time
    slack = (NS + 2 * np.spacing(end.max(initial=0.0))) * speed.max(initial=0.0)
    return violations_where(
        "task sizes",
        ~is_close(sizes, expected_sizes, slack),
        lambda k: f"application {owner[complete[owner]][k]}",
        lambda k: (
            f"ran a task of {sizes[k]:g} Mflop where, in order of size, it has one of "
            f"{expected_sizes[k]:g} Mflop"
        ),
    )


def rejected_or_cancelled_jobs(result: Result) -> NDArray[np.bool_]:
    """Return which applications are rigid jobs that were rejected or cancelled: bool[applications]."""
    if not result.rigid:
        return np.zeros(len(result.applications), np.bool_)
    is_failed: NDArray[np.bool_] = (result.applications["failed"] != 0) | cancelled_jobs(result)
    return is_failed


def _check_jobs_run_to_end(
    result: Result,
    i: NDArray[np.int64],
    run_index: NDArray[np.int64],
    n: NDArray[np.int64],
    is_full: NDArray[np.bool_],
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that no rigid job is lost although it has run to its end on all machines, unless it is killed.

    Parameters
    ----------
    is_full
        Whether a row lasts for the whole run time of its job but is not completed.
    """
    if "terminated" in result.applications:  # a killed job may have run for longer before
        is_full = is_full & (result.applications["terminated"][i] == 0)
    is_whole_job = np.bincount(run_index, is_full * n) == np.bincount(
        run_index, result.applications["tasks"][i]
    ) / np.bincount(run_index)
    return violations_where(
        "duration",
        is_full & is_whole_job[run_index],
        row_label,
        lambda k: f"application {i[k]} is lost, although it has run to its end on all its machines",
    )


def _check_common_starts(
    result: Result,
    u: NDArray[np.int64],
    queue: NDArray[np.int64],
    i: NDArray[np.int64],
    run_index: NDArray[np.int64],
    n: NDArray[np.int64],
    completed_tasks: NDArray[np.int64],
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that rigid jobs start on all their machines at once, and are completed on all or on none."""
    job_sizes = result.applications["tasks"]
    size = np.bincount(run_index, n)
    completed = np.bincount(run_index, completed_tasks)
    violations = violations_where(
        "together",
        (size[run_index] > job_sizes[i])
        | ((completed[run_index] > 0) & (completed[run_index] != job_sizes[i])),
        row_label,
        lambda k: (
            f"application {i[k]} starts on {size[run_index[k]]:.0f} machines and is completed on "
            f"{completed[run_index[k]]:.0f} of them, but requires {job_sizes[i[k]]}"
        ),
    )
    pairs = np.stack((run_index, queue))
    _, first = np.unique(pairs, axis=1, return_index=True)
    is_duplicate = np.ones(len(u), np.bool_)
    is_duplicate[first] = False
    return violations + violations_where(
        "together",
        is_duplicate,
        row_label,
        lambda k: f"application {i[k]} starts twice at the same time on machine {u[k]}",
    )


def _check_machines_up(
    faults: Faults | None,
    machines: int,
    u: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    end: Floats,
    needs_no_failure: NDArray[np.bool_],
    run_index: NDArray[np.int64] | None,
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that machines are up while they run tasks, and that interrupted rows end at a failure.

    Parameters
    ----------
    needs_no_failure
        Whether the end of a row has another cause than a failure.
    run_index
        The run of a rigid job that each row belongs to; None if there are no rigid jobs.
    """
    is_down, is_unexplained, steps = np.zeros(len(u), np.bool_), ~needs_no_failure, 0
    if faults is not None and len(u):
        order = np.argsort(u, kind="stable")
        by_machine = u[order]
        for machine, down, up in faults.outages(machines, float(end.max())):
            low, high = np.searchsorted(by_machine, (machine, machine + 1))
            rows = order[low:high]
            # find the first outage that is not over when the row starts; it must not begin before the row
            # ends
            first = np.searchsorted(up, start[rows], side="right")
            is_down[rows] = np.append(down, np.inf)[first] < end[rows]
            rows_hit, first = rows[is_down[rows]], first[is_down[rows]]
            last = np.searchsorted(down, end[rows_hit])
            steps += int((last - first).sum())
            check_step_count(steps, "scenario.faults", "failures while rows of the schedule last")
            for k, j, j_last in zip(rows_hit.tolist(), first.tolist(), last.tolist(), strict=True):
                is_down[k] = not _is_between_tasks(down[j:j_last], up[j:j_last], start[k], end[k], int(n[k]))
            is_unexplained[rows] &= ~np.isin(end[rows], down)
    if run_index is not None and len(u):
        # when a rigid job loses a machine, it ends on the others when they learn of the failure
        loss_time = np.full(run_index.max() + 1, np.inf)
        np.minimum.at(
            loss_time,
            run_index.ravel()[~needs_no_failure & ~is_unexplained],
            end[~needs_no_failure & ~is_unexplained],
        )
        is_unexplained &= end < loss_time[run_index.ravel()]
    violations = violations_where(
        "dead machine",
        is_down,
        row_label,
        lambda k: f"machine {u[k]} is not up all the time from {start[k]} s to {end[k]} s",
    )
    return violations + violations_where(
        "cut off",
        is_unexplained,
        row_label,
        lambda k: f"a task is interrupted at {end[k]} s, but machine {u[k]} does not fail then",
    )


def _is_between_tasks(down: Floats, up: Floats, start: float, end: float, tasks: int) -> bool:
    """Return whether a row meets only transient failures, each between two of its tasks.

    Parameters
    ----------
    down, up
        float64[k], s, failures and recoveries during the row.
    """
    task_count = (down - start) / (end - start) * tasks
    offset = np.abs(task_count - np.rint(task_count)) * (end - start)
    return bool((up <= down).all() and (offset <= NS * tasks).all())


def _check_agreement(
    result: Result,
    u: NDArray[np.int64],
    queue: NDArray[np.int64],
    i: NDArray[np.int64],
    done: NDArray[np.int64],
    start: Floats,
    end: Floats,
    output_time: Floats,
    is_overtaken: NDArray[np.bool_],
    *,
    tasks_at_once: NDArray[np.int64],
    width: NDArray[np.int64],
) -> list[Violation]:
    """Check that the schedule agrees with the other tables.

    Parameters
    ----------
    output_time
        The time (s) at which the output of each row has arrived.
    tasks_at_once, width
        Tasks and cores of its machine that each row uses at a time.
    """
    applications, machines = result.applications, result.machines
    count = len(applications)
    completed = np.bincount(i, done, count).astype(np.int64)
    tasks = np.where(rejected_or_cancelled_jobs(result), 0, applications["tasks"])
    violations = violations_where(
        "lost",
        completed < tasks,
        lambda k: f"application {k}",
        lambda k: f"{completed[k]} of its {tasks[k]} tasks were completed",
    )
    violations += violations_where(
        "done twice",
        completed > tasks,
        lambda k: f"application {k}",
        lambda k: f"{completed[k]} tasks were completed, but it has {tasks[k]}",
    )
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, i, start)
    np.maximum.at(last, i[done > 0], output_time[done > 0])
    first, last = (np.where(np.isfinite(times), times, np.nan) for times in (first, last))
    busy = np.bincount(u, (end - start) * width, len(machines))
    task_counts = np.bincount(u, done, len(machines)).astype(np.int64)
    slack = NS * np.bincount(u, width, len(machines))
    # if tasks wait on machines, an application uses each machine at which its tasks arrive, unless all of
    # them are withdrawn
    arrivals = result.tables.get("arrivals")
    if arrivals is None or not len(arrivals):
        ordered = np.sort(queue * count + i)  # faster than numpy.unique, which hashes them
        pairs = ordered[np.diff(ordered, prepend=-1) != 0]
    else:
        pairs, pair_index = np.unique(
            queue_numbers(result, "arrivals") * count + arrivals["application"], return_inverse=True
        )
        pairs = pairs[np.bincount(pair_index, arrivals["tasks"]) > 0]
    used = np.bincount((pairs % count)[pairs >= 0], minlength=count)[:count]
    last_finish = float(np.fmax.reduce(applications["finish"]))
    if np.isnan(applications["finish"]).any():  # jobs that were rejected later may have kept machines busy
        last_finish = float(np.fmax(last_finish, result.provenance["clock_seconds"]))
    span = last_finish - float(applications["release"].min())
    cores = 1 if result.scenario.platform.cores is None else result.scenario.platform.cores
    further_columns = {
        "utilization": machines["busy"] / (span * cores) if span > 0 else np.zeros(len(machines))
    }
    for name, rows in (("interrupted", (done == 0) & ~is_overtaken), ("ended", is_overtaken)):
        if name in machines:
            further_columns[name] = np.bincount(u[rows], tasks_at_once[rows], len(machines)).astype(np.int64)
    for name, table, actual in (
        ("first_start", "applications", first),
        ("finish", "applications", last),
        ("busy", "machines", busy),
        ("tasks", "machines", task_counts),
        ("nodes_used", "applications", used),
        *((name, "machines", actual) for name, actual in further_columns.items()),
    ):
        expected = result.tables[table][name]
        tolerance = slack.max() if len(slack) else NS
        if name == "utilization" and span > 0:
            # the difference of finish and release may have few exact digits
            tolerance = max(
                tolerance, (tolerance + ROUNDING * (span + float(applications["release"].max()))) / span
            )
        equal = actual == expected if actual.dtype.kind == "i" else is_close(actual, expected, tolerance)
        equal = equal | ((actual != actual) & (expected != expected))  # NaN means never
        violations += differences(
            "agreement", column_label(f"{table}.{name}"), ~equal, expected, actual, "the schedule gives"
        )
    return violations


def _check_resubmission(
    result: Result, i: NDArray[np.int64], is_not_interrupted: NDArray[np.bool_]
) -> list[Violation]:
    """Check that tasks that were interrupted by a failure were submitted again.

    If no tasks wait on machines, no other tasks may have been submitted again.  `gridsim.validation.copies`
    checks schedules of copies.

    Parameters
    ----------
    is_not_interrupted
        Whether each row was not interrupted by a failure: bool[rows].
    """
    if "task" in result.tables["schedule"]:
        return []
    interruptions = np.bincount(i[~is_not_interrupted], minlength=len(result.applications))
    actual = result.applications["resubmitted"]
    arrivals = result.tables.get("arrivals")
    has_waiting_tasks = result.rigid or (arrivals is not None and len(arrivals) > 0)
    violations = violations_where(
        "agreement",
        (actual < interruptions) | ((actual != interruptions) & (not has_waiting_tasks)),
        column_label("applications.resubmitted"),
        lambda k: f"is {actual[k]}, but the schedule has {interruptions[k]} interrupted tasks",
    )
    if result.scenario.faults is None or is_emulated(result):
        return violations
    finish = result.applications["finish"]
    is_before_failures = _is_before_failures(result.scenario.faults, len(result.machines), finish)
    return violations + violations_where(
        "agreement",
        is_before_failures & (actual > 0),
        column_label("applications.resubmitted"),
        lambda k: f"is {actual[k]}, but no machine fails before it finishes at {finish[k]} s",
    )


def _is_before_failures(faults: Faults, machines: int, finish: Floats) -> NDArray[np.bool_]:
    """Return which applications finished before the first failure or outage: bool[applications].

    Tasks may still be lost after the end of an outage, because schedulers detect it late.
    """
    until = float(np.fmax.reduce(finish, initial=0.0))
    outages = [item[1:] for item in faults.outages(machines, until + NS)]
    failures = np.sort(np.concatenate([item[0] for item in outages] or [np.zeros(0)]))
    is_earlier: NDArray[np.bool_] = (
        np.searchsorted(failures, finish + 2 * NS, side="right") == 0
    ) & np.isfinite(finish)
    return is_earlier


def _running_sums(keys: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the running sums of `values` among rows with the same key, int64[k]."""
    order = np.argsort(keys, kind="stable")
    group_starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.cumsum(values[order])
    sums -= np.repeat((sums - values[order])[group_starts], np.diff(np.append(group_starts, len(keys))))
    running = np.empty_like(sums)
    running[order] = sums
    return running


def _check_arrivals(
    result: Result,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    schedule_row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that all tasks arrive, not before their release, and run only where they have arrived.

    A row with a negative number of tasks is a withdrawal.
    """
    table, applications = result.tables["arrivals"], result.applications
    machines, count = len(result.machines), len(applications)
    v, j, arriving_tasks, at = (table[name] for name in ("machine", "application", "tasks", "time"))

    def row_label(k: int) -> str:
        return f"arrivals[{k}]"

    is_known = (v >= 0) & (v < machines) & (j >= 0) & (j < count)
    violations = violations_where(
        "unknown",
        ~is_known,
        row_label,
        lambda k: (
            f"application {j[k]} on machine {v[k]}; there are {count} applications and {machines} machines"
        ),
    )
    release = applications["release"][np.where(is_known, j, 0)]
    violations += violations_where(
        "arrival",
        is_known & ~((arriving_tasks != 0) & (at >= release) & np.isfinite(at)),
        row_label,
        lambda k: (
            f"{arriving_tasks[k]} tasks of application {j[k]} at {at[k]} s, but it is released at "
            f"{release[k]} s"
        ),
    )
    v, j, arriving_tasks, at = (column[is_known] for column in (v, j, arriving_tasks, at))
    # per application and machine: the first arrival, and the numbers of tasks that arrived and started
    keys, key_index = np.unique(np.concatenate((v * count + j, u * count + i)), return_inverse=True)
    first, arrived, started = np.full(len(keys), np.inf), np.zeros(len(keys)), np.zeros(len(keys))
    np.minimum.at(first, key_index[: len(v)], at)
    np.add.at(arrived, key_index[: len(v)], arriving_tasks)
    np.add.at(started, key_index[len(v) :], n)
    violations += violations_where(
        "arrival",
        (arriving_tasks < 0) & (_running_sums(key_index[: len(v)], arriving_tasks) < 0),
        lambda k: row_label(int(np.flatnonzero(is_known)[k])),
        lambda k: f"{-arriving_tasks[k]} tasks of application {j[k]} leave machine {v[k]}, more than it has",
    )
    row_keys = key_index[len(v) :]
    violations += violations_where(
        "before arrival",
        start < first[row_keys],
        schedule_row_label,
        lambda k: (
            f"application {i[k]} starts on machine {u[k]} at {start[k]} s, but arrives there at "
            f"{first[row_keys[k]]} s"
        ),
    )
    # each task arrives once, and again each time it is lost
    total, max_tasks = (
        np.bincount(j, arriving_tasks, count),
        applications["tasks"] + applications["resubmitted"],
    )
    violations += violations_where(
        "arrival",
        (total < applications["tasks"]) | (total > max_tasks),
        lambda k: f"application {k}",
        lambda k: (
            f"{total[k]:.0f} tasks have arrived, but it has {applications['tasks'][k]}, and "
            f"{applications['resubmitted'][k]} were submitted again"
        ),
    )
    # tasks that wait on a machine when it fails have arrived, but do not start there
    wrong = arrived < started if result.scenario.faults is not None else arrived != started
    return violations + violations_where(
        "arrival",
        wrong,
        lambda k: f"application {keys[k] % count} on machine {keys[k] // count}",
        lambda k: f"{arrived[k]:.0f} tasks have arrived, but {started[k]:.0f} have started",
    )
