"""Do machines run what came to them in the order that their scheduler promises?"""

from __future__ import annotations

import numpy as np

from gridcore.reference.queues import NEVER, TaskQueues
from gridsim.results import Result


def broken_promise(result: Result, order: str) -> str | None:
    """The first place where a recorded schedule without failures is not in `order`; None if there is none.

    "fifo" and "edf" are replayed from the arrivals, in plain Python; for "fcfs" machines need only be looked
    at.
    """
    if order == "list":
        return _list(result)
    if order == "fcfs":
        return _in_turn(result)
    if "largest_task" in result.applications:
        return None  # schedules do not say which tasks ran, so there is nothing to replay
    applications, arrivals = result.applications, result.tables["arrivals"]
    twin = TaskQueues(result.machines["speed"], order="edf" if order == "edf" else "fifo", record=True)
    twin.add_applications(*(applications[name] for name in ("release", "size", "task_size")))
    time = np.rint(arrivals["time"] * 1e9).astype(np.int64)
    for at in np.unique(time):
        rows = np.flatnonzero(time == at)
        machine = arrivals["machine"][rows]
        twin.enqueue(machine, arrivals["application"][rows], arrivals["tasks"][rows], int(at))
        twin.reschedule(np.unique(machine), int(at))
    twin.advance(NEVER)
    expected, found = twin.schedule(), result.tables["schedule"]
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


def _list(result: Result) -> str | None:
    table = result.tables["schedule"]
    last = -np.inf
    for application in range(len(result.applications)):
        start = table["start"][table["application"] == application]
        if start.min() < last:
            return f"application {application} starts at {start.min()} s, an earlier one at {last} s"
        last = max(last, float(start.max()))
    return None


def _in_turn(result: Result) -> str | None:
    """Each machine runs the tasks that came, one by one as they came, and never waits while one is there.

    A row of the schedule has several tasks, one after the other; where these differ in size it does not say
    when each starts, and only those that come after its end are found to run too early.
    """
    schedule, arrivals = result.tables["schedule"], result.tables["arrivals"]
    unequal = "largest_task" in result.applications
    for u in range(len(result.machines)):
        ran, came = (np.flatnonzero(table["machine"] == u) for table in (schedule, arrivals))
        ran = ran[np.argsort(schedule["start"][ran], kind="stable")]
        tasks = schedule["tasks"][ran]
        order = np.repeat(schedule["application"][ran], tasks)
        wanted = np.repeat(arrivals["application"][came], arrivals["tasks"][came])
        if not np.array_equal(order, wanted):
            return f"machine {u} runs tasks of applications {order.tolist()}, they came as {wanted.tolist()}"
        each = np.repeat(arrivals["time"][came], arrivals["tasks"][came])
        first = np.cumsum(tasks) - tasks
        at, start, end = each[first], schedule["start"][ran], schedule["end"][ran]
        late = np.flatnonzero(np.abs(start - np.maximum(np.append(0.0, end[:-1]), at)) > 1e-9)
        if len(late):
            return f"schedule[{ran[late[0]]}] starts at {start[late[0]]} s, it came at {at[late[0]]} s"
        row = np.repeat(np.arange(len(ran)), tasks)
        begins = end[row]
        if not unequal:
            begins = start[row] + (np.arange(len(row)) - first[row]) * ((end - start) / tasks)[row]
        early = np.flatnonzero(begins < each - 1e-9 - 1e-15 * each)  # sums of floats
        if len(early):
            k = early[0]
            return f"schedule[{ran[row[k]]}] has a task at {begins[k]} s that came at {each[k]} s"
    return None
