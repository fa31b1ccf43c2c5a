"""Checks that machines run tasks in the order that their scheduler declares."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.model.capacity import whole_bytes
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS
from gridsim.validation.common import queue_numbers
from gridsim.validation.order import order_violations


def promised_order_violation(
    result: Result, order: str, has_nodes: bool = False, foresees_run_times: bool = False
) -> str | None:
    """Describe the first row of a recorded schedule that is not in `order`; return None if all are.

    For "fifo" and "edf", the check replays the schedule from arrivals and withdrawals; for "fcfs" and "list",
    it compares recorded tables, and for "easy" it computes the reservations.  Machines that fail are not
    checked.  "list" and "easy" are not checked in runs with failures, "easy" not on machines that jobs share,
    and "fcfs" not on machines with withdrawals.

    Parameters
    ----------
    has_nodes
        Whether the scheduler has node programs.  Tasks that they take out of their queue and queue again at
        one instant go to its end; those of other schedulers keep their place by their first arrival.
    foresees_run_times
        Whether reservations go by the run times of jobs, and not by the requested times.
    """
    if order in ("list", "easy") and result.scenario.faults is not None:
        return None
    if order in ("list", "easy"):
        violation = _list_order_violation(result) if order == "list" else None
        if violation or not result.rigid or result.scenario.platform.is_shared:
            return violation
        return _late_first_job(result) or (
            _delayed_job(result, foresees_run_times) if order == "easy" else None
        )
    excluded_machines = _failing_machines(result)
    if order == "fcfs":
        arrivals = result.tables["arrivals"]
        excluded_machines += arrivals["machine"][arrivals["tasks"] < 0].tolist()
    if excluded_machines:
        result = _without_machines(result, excluded_machines)
    result = _with_machine_per_queue(result)
    if order == "fcfs":
        return next((f"{item.where} {item.message}" for item in order_violations(result)), None)
    if "largest_task" in result.applications:
        return None  # if sizes differ, the schedule lacks the tasks' sizes, so it cannot be replayed
    applications, arrivals = result.applications, result.tables["arrivals"]
    kind: Callable[..., Any] = TaskQueues
    needs: dict[str, Any] = {}
    if "cores" in result.machines:
        options = {"cores": result.machines["cores"]}
        if "memory" in result.machines and "memory" in applications:
            options["memory"] = whole_bytes(result.machines["memory"], len(result.machines))
            needs["memory"] = whole_bytes(applications["memory"], len(applications))
        kind = partial(CoreQueues, **options)
    replay = kind(result.machines["speed"], order="edf" if order == "edf" else "fifo", record=True)
    replay.add_applications(*(applications[name] for name in ("release", "size", "task_size")), **needs)
    time = np.rint(arrivals["time"] * 1e9).astype(np.int64)
    for at in np.unique(time):
        rows = np.flatnonzero(time == at)
        machine, application = (arrivals[name][rows] for name in ("machine", "application"))
        tasks = arrivals["tasks"][rows]
        if order == "fifo" and not has_nodes:
            tasks = _without_returns(machine, application, tasks)
            is_left = tasks != 0
            machine, application, tasks = machine[is_left], application[is_left], tasks[is_left]
        withdrawn = np.flatnonzero(tasks < 0)
        for low, k in zip(np.append(0, withdrawn + 1), np.append(withdrawn, len(tasks)), strict=True):
            replay.enqueue(machine[low:k], application[low:k], tasks[low:k], int(at))
            if k < len(tasks):
                replay.withdraw(int(machine[k]), int(application[k]), -int(tasks[k]), int(at))
        replay.reschedule(np.unique(machine), int(at))
    replay.advance(NEVER)
    expected_schedule, recorded_schedule = replay.schedule(), result.tables["schedule"]
    for k in range(max(len(expected_schedule["start"]), len(recorded_schedule))):
        expected_row, recorded_row = (
            tuple(int(table[name][k]) for name in ("machine", "application", "tasks"))
            + tuple(float(table[name][k]) / unit for name in ("start", "end"))
            if k < len(table["start"])
            else None
            for table, unit in ((expected_schedule, 1e9), (recorded_schedule, 1.0))
        )
        if expected_row != recorded_row:
            names = "machine, application, tasks, start, end"
            return f"schedule[{k}] is {recorded_row} ({names}), but {order} order gives {expected_row}"
    return None


def _without_returns(machine: Integers, application: Integers, tasks: Integers) -> Integers:
    """Return the numbers of tasks without those that a machine withdraws and queues again at one instant.

    Such tasks have been there all the time, so they keep their place by their first arrival.
    """
    counts = tasks.copy()
    withdrawn: dict[tuple[int, int], list[int]] = {}
    for k, key in enumerate(zip(machine.tolist(), application.tolist(), strict=True)):
        if counts[k] < 0:
            withdrawn.setdefault(key, []).append(k)
        for row in withdrawn.get(key, ()) if counts[k] > 0 else ():
            returned = min(counts[k], -counts[row])
            counts[row] += returned
            counts[k] -= returned
    return counts


def _failing_machines(result: Result) -> list[int]:
    """Return the machines that fail during the run."""
    faults, machines = result.scenario.faults, len(result.machines)
    if faults is None:
        return []
    until = result.provenance["clock_seconds"] + 1.0
    return [u for u, _, _ in faults.outages(machines, until)]


def _without_machines(result: Result, excluded_machines: list[int]) -> Result:
    """Return the result without the recorded rows of the excluded machines."""
    filtered_result, tables = copy(result), {}
    for name in ("schedule", "arrivals"):
        table = result.tables[name]
        is_included = ~np.isin(table["machine"], excluded_machines)
        tables[name] = Table({column: table[column][is_included] for column in table})
    filtered_result.tables = {**result.tables, **tables}
    return filtered_result


def _with_machine_per_queue(result: Result) -> Result:
    """Return the result with each core as a machine, if each has a queue of its own."""
    if "core" not in result.tables["schedule"]:
        return result
    expanded_result, cores = copy(result), result.machines["cores"]
    tables = {"machines": Table({"speed": np.repeat(result.machines["speed"], cores)})}
    for name in ("schedule", "arrivals"):
        table = result.tables[name]
        tables[name] = Table({**dict(table.items()), "machine": queue_numbers(result, name)})
    expanded_result.tables = {**result.tables, **tables}
    return expanded_result


def _list_order_violation(result: Result) -> str | None:
    table = result.tables["schedule"]
    last = -np.inf
    for application in np.argsort(result.applications["release"], kind="stable").tolist():
        start = table["start"][table["application"] == application]
        if not len(start):  # the job was rejected, or cancelled before its start
            continue
        if start.min() < last:
            return (
                f"application {application} starts at {start.min()} s, but an earlier one starts at {last} s"
            )
        last = max(last, float(start.max()))
    return None


def _late_first_job(result: Result) -> str | None:
    """Describe the first rigid job that waits although it is the first one and fits; None if none does."""
    scenario, applications = result.scenario, result.applications
    jobs = scenario.workload.realize(scenario.platform)
    release, start, end = (applications[name] for name in ("release", "first_start", "finish"))
    queue = [i for i in np.argsort(release, kind="stable").tolist() if start[i] >= 0]
    for now in np.unique([release[queue], end[queue]]).tolist():
        first = next((i for i in queue if release[i] <= now < start[i]), None)
        free = scenario.platform.nodes - int(jobs.tasks[(start <= now) & (now < end)].sum())
        if first is not None and jobs.tasks[first] <= free:
            return (
                f"job {first} is the first one that waits at {now} s and needs {jobs.tasks[first]} machines, "
                f"of which {free} are free, but it starts at {start[first]} s"
            )
    return None


def _delayed_job(result: Result, foresees_run_times: bool) -> str | None:
    """Describe the first job whose start delays the first waiting job, by the estimates; None if none does.

    At the start of a job, that of the first waiting job is expected at the end of enough running jobs.
    """
    scenario, applications = result.scenario, result.applications
    jobs = scenario.workload.realize(scenario.platform)
    assert jobs.requested is not None
    release, start, end = (
        np.rint(np.nan_to_num(applications[name], nan=-1.0) * NS).astype(np.int64)
        for name in ("release", "first_start", "finish")
    )
    estimate = np.maximum(1, np.rint(jobs.requested * NS).astype(np.int64))
    expected_end = end if foresees_run_times else start + estimate
    queue = [i for i in np.argsort(release, kind="stable").tolist() if start[i] >= 0]

    def reservation(job: int, running: list[int], now: int) -> int:
        """Return the earliest start of `job` after the running jobs, ns; an overdue job ends directly."""
        free = scenario.platform.nodes - int(jobs.tasks[running].sum())
        at = now
        for i in sorted(running, key=lambda i: int(expected_end[i])):
            if free >= jobs.tasks[job]:
                break
            at = max(now + 1, int(expected_end[i]))
            free += int(jobs.tasks[i])
        return at

    for now in np.unique(start[queue]).tolist():
        running = [i for i in queue if start[i] < now < end[i]]
        waiting = [i for i in queue if release[i] <= now <= start[i]]
        first = next((i for i in waiting if start[i] > now), None)
        if first is None:
            continue
        place = waiting.index(first)
        running += waiting[:place]
        reserved_start = reservation(first, running, now)
        for job in waiting[place:]:
            if start[job] > now:
                continue
            running.append(job)
            if (new_start := reservation(first, running, now)) > reserved_start:
                return (
                    f"job {job} starts at {now / NS} s and so delays job {first}, the first one that waits, "
                    f"by the estimates from {reserved_start / NS} s to {new_start / NS} s"
                )
    return None
