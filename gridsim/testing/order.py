"""Checks that machines run tasks in the order that their scheduler promises."""

from __future__ import annotations

from copy import copy

import numpy as np

from gridcore.queues.task_queues import TaskQueues
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.support.clock import NEVER
from gridsim.validation.order import in_turn


def broken_promise(result: Result, order: str) -> str | None:
    """Return the first place where a recorded schedule is not in `order`; None if none is.

    For "fifo" and "edf" the expected schedule is replayed from the arrivals and withdrawals; for "fcfs" and
    "list" the recorded tables are enough.  Where machines fail, those count that do not; with "list", none.
    With "fcfs", machines do not count out of whose queues tasks were taken.
    """
    if order == "list":
        return _list(result) if result.scenario.faults is None else None
    apart = _down(result)
    if order == "fcfs":
        arrivals = result.tables["arrivals"]
        apart += arrivals["machine"][arrivals["tasks"] < 0].tolist()
    if apart:
        result = _without(result, apart)
    if order == "fcfs":
        return next((f"{each.where} {each.message}" for each in in_turn(result)), None)
    if "largest_task" in result.applications:
        return None  # where sizes differ, schedules do not say which tasks ran: no replay
    applications, arrivals = result.applications, result.tables["arrivals"]
    replayed = TaskQueues(result.machines["speed"], order="edf" if order == "edf" else "fifo", record=True)
    replayed.add_applications(*(applications[name] for name in ("release", "size", "task_size")))
    time = np.rint(arrivals["time"] * 1e9).astype(np.int64)
    for at in np.unique(time):
        rows = np.flatnonzero(time == at)
        machine, application, tasks = (arrivals[name][rows] for name in ("machine", "application", "tasks"))
        withdrawn = np.flatnonzero(tasks < 0)
        for low, k in zip(np.append(0, withdrawn + 1), np.append(withdrawn, len(rows)), strict=True):
            replayed.enqueue(machine[low:k], application[low:k], tasks[low:k], int(at))
            if k < len(rows):
                replayed.withdraw(int(machine[k]), int(application[k]), -int(tasks[k]), int(at))
        replayed.reschedule(np.unique(machine), int(at))
    replayed.advance(NEVER)
    expected, found = replayed.schedule(), result.tables["schedule"]
    for k in range(max(len(expected["start"]), len(found))):
        wanted, ran = (
            tuple(int(table[name][k]) for name in ("machine", "application", "tasks"))
            + tuple(float(table[name][k]) / unit for name in ("start", "end"))
            if k < len(table["start"])
            else None
            for table, unit in ((expected, 1e9), (found, 1.0))
        )
        if wanted != ran:
            names = "machine, application, tasks, start, end"
            return f"schedule[{k}] is {ran} ({names}), {order} order makes {wanted}"
    return None


def _down(result: Result) -> list[int]:
    """Return which machines are down at some time of the run."""
    faults, machines = result.scenario.faults, len(result.machines)
    if faults is None:
        return []
    until = result.provenance["clock_seconds"] + 1.0
    return [u for u, _, _ in faults.outages(machines, until)]


def _without(result: Result, apart: list[int]) -> Result:
    """Return the result without the recorded rows of the machines `apart`."""
    kept, tables = copy(result), {}
    for name in ("schedule", "arrivals"):
        table = result.tables[name]
        mine = ~np.isin(table["machine"], apart)
        tables[name] = Table({column: table[column][mine] for column in table})
    kept.tables = {**result.tables, **tables}
    return kept


def _list(result: Result) -> str | None:
    table = result.tables["schedule"]
    last = -np.inf
    for application in range(len(result.applications)):
        start = table["start"][table["application"] == application]
        if not len(start):  # a job that was rejected, or cancelled before it began
            continue
        if start.min() < last:
            return f"application {application} starts at {start.min()} s, an earlier one at {last} s"
        last = max(last, float(start.max()))
    return None
