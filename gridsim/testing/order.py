"""Checks that machines run tasks in the order that their scheduler declares."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.model.capacity import MachineCapacity, whole_bytes
from gridsim.model.faults import ListedFaults
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
    checked, and "fcfs" not on machines with withdrawals.  In runs with failures, "list" and "easy" only
    promise that the first rigid job that waits starts, from the last failure and recovery on.

    Parameters
    ----------
    has_nodes
        Whether the scheduler has node programs.  Tasks that they take out of their queue and queue again at
        one instant go to its end; those of other schedulers keep their place by their first arrival.
    foresees_run_times
        Whether reservations go by the run times of jobs, and not by the requested times.
    """
    if order in ("list", "easy"):
        has_failures = result.scenario.faults is not None
        violation = _list_order_violation(result) if order == "list" and not has_failures else None
        if violation or not result.rigid:
            return violation
        is_reserved = order == "easy" and not has_failures
        return _late_first_job(result) or (_delayed_job(result, foresees_run_times) if is_reserved else None)
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


class _Machines:
    """What machines have, what each rigid job takes of them, and when it runs.

    Attributes
    ----------
    capacity
        Cores, bytes and GPUs of each machine, int64[machines, 3].  A machine that jobs do not share counts as
        one core.
    usage
        What each job takes during its last run, int64[jobs, machines, 3].
    runs
        Start and end of each run of each job, ns; also of interrupted ones.
    """

    def __init__(self, result: Result) -> None:
        platform, schedule = result.scenario.platform, result.tables["schedule"]
        jobs = result.scenario.workload.realize(platform)
        self.jobs, count, ones = jobs, len(jobs), np.ones(len(jobs), np.int64)
        attributes = platform.attributes if platform.is_shared else None
        capacity = MachineCapacity.of(platform.nodes, platform.cores, attributes, platform.gpus)
        self.capacity: Integers = np.stack(capacity, axis=1)
        memory = jobs.memory if platform.is_shared else None
        columns = (jobs.cores, whole_bytes(memory, count), jobs.gpus)
        self.needs = np.stack(
            [
                value * ones if column is None else column
                for column, value in zip(columns, (1, 0, 0), strict=True)
            ],
            axis=1,
        )
        self.tasks_limit = ones if jobs.tasks_per_machine is None else jobs.tasks_per_machine
        self.is_exclusive = np.zeros(count, np.bool_) if jobs.exclusive is None else jobs.exclusive != 0
        self.usage = np.zeros((count, *self.capacity.shape), np.int64)
        self.runs: list[set[tuple[int, int]]] = [set() for _ in range(count)]
        start, end = (np.rint(schedule[name] * NS).astype(np.int64) for name in ("start", "end"))
        last_start = np.full(count, -1)
        np.maximum.at(last_start, schedule["application"], start)
        rows = (schedule["application"], schedule["machine"], schedule["tasks"], start, end)
        for job, u, tasks, begin, over in zip(*(column.tolist() for column in rows), strict=True):
            self.runs[job].add((begin, over))
            if begin == last_start[job]:
                self.usage[job, u] += self.capacity[u] if self.is_exclusive[job] else tasks * self.needs[job]
        np.minimum(self.usage, self.capacity, out=self.usage)  # an exclusive job may have several tasks there

    def free(self, running: list[int]) -> Integers:
        """Return what is free on each machine if these jobs run: int64[machines, 3]."""
        left: Integers = self.capacity - self.usage[running].sum(axis=0)
        return left

    def has_room(self, job: int, free: Integers) -> bool:
        """Return whether all tasks of a job have room in what is `free` on each machine."""
        needed = self.needs[job] > 0
        room = (free[:, needed] // self.needs[job, needed]).min(axis=1)
        if self.tasks_limit[job]:
            room = np.minimum(room, self.tasks_limit[job])
        if self.is_exclusive[job]:
            room[(free != self.capacity).any(axis=1)] = 0
        if (suitable := self.jobs.machines_for(job)) is not None:
            room[~suitable] = 0
        return bool(room.clip(min=0).sum() >= self.jobs.tasks[job])


def _late_first_job(result: Result) -> str | None:
    """Describe the first rigid job that waits although it is the first one and has room; None if none does.

    In runs with failures, only the time after the last failure and recovery counts.
    """
    scenario, machines = result.scenario, _Machines(result)
    release, finish = (
        np.rint(np.nan_to_num(result.applications[name], nan=-1.0) * NS).astype(np.int64)
        for name in ("release", "finish")
    )
    queue = [i for i in np.argsort(release, kind="stable").tolist() if machines.runs[i] and finish[i] >= 0]
    since, is_down = -1, np.zeros(len(machines.capacity), np.bool_)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        assert isinstance(recipe, ListedFaults)  # random scenarios have no other recipe
        changes = [*recipe.down, *(up for up in recipe.up if up < np.inf)]
        since = round(max(changes) * NS)
        is_down[[u for u, up in zip(recipe.machine, recipe.up, strict=True) if up == np.inf]] = True
    for now in np.unique([release[queue], finish[queue]]).tolist():
        if now <= since:
            continue
        running = [
            i for i, runs in enumerate(machines.runs) if any(start <= now < end for start, end in runs)
        ]
        first = next((i for i in queue if release[i] <= now < finish[i] and i not in running), None)
        if first is None:
            continue
        free = machines.free(running)
        free[is_down] = 0
        if machines.has_room(first, free):
            start, tasks = max(machines.runs[first])[0] / NS, machines.jobs.tasks[first]
            return (
                f"job {first} is the first one that waits at {now / NS} s, and its {tasks} tasks have room "
                f"on the machines that are up, but it starts at {start} s"
            )
    return None


def _delayed_job(result: Result, foresees_run_times: bool) -> str | None:
    """Describe the first job whose start delays the first waiting job, by the estimates; None if none does.

    At the start of a job, that of the first waiting job is expected when enough running jobs have ended.
    """
    applications, machines = result.applications, _Machines(result)
    requested_time = machines.jobs.requested
    assert requested_time is not None
    release, start, end = (
        np.rint(np.nan_to_num(applications[name], nan=-1.0) * NS).astype(np.int64)
        for name in ("release", "first_start", "finish")
    )
    estimate = np.maximum(1, np.rint(requested_time * NS).astype(np.int64))
    expected_end = end if foresees_run_times else start + estimate
    queue = [i for i in np.argsort(release, kind="stable").tolist() if start[i] >= 0]

    def reservation(job: int, running: list[int], now: int) -> int:
        """Return the earliest start of `job` after the running jobs, ns; an overdue job ends directly."""
        free, at = machines.free(running), now
        for i in sorted(running, key=lambda i: int(expected_end[i])):
            if machines.has_room(job, free):
                break
            at = max(now + 1, int(expected_end[i]))
            free += machines.usage[i]
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
