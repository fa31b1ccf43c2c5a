"""Checks that machines run tasks in order of arrival."""

from __future__ import annotations

import heapq

import numpy as np

from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import Violation, is_close, is_emulated, violations_where

#: Maximum number of applications that an error message lists.
_MAX_LISTED = 10


def order_violations(result: Result) -> list[Violation]:
    """Check that each machine starts tasks in order of arrival, without an idle core while one waits.

    A row of the recorded schedule may have several tasks, which run one after another.  If they differ in
    size, the row does not determine when each of them starts; then a task is too early only if it arrives
    after the end of its row.  In the tables ``schedule`` and ``arrivals``, machines must be known and every
    row must have tasks.

    Returns
    -------
    Violations of the invariant "order".
    """
    schedule, arrivals = result.tables["schedule"], result.tables["arrivals"]
    schedule_rows = np.lexsort((_arrival_ranks(result), schedule["start"], schedule["machine"]))
    arrival_rows = np.argsort(arrivals["machine"], kind="stable")
    # one entry per task, sorted by machine
    schedule_tasks, arrival_tasks = schedule["tasks"][schedule_rows], arrivals["tasks"][arrival_rows]
    run_order, run_machines = (
        np.repeat(schedule[name][schedule_rows], schedule_tasks) for name in ("application", "machine")
    )
    arrival_order, arrival_machines = (
        np.repeat(arrivals[name][arrival_rows], arrival_tasks) for name in ("application", "machine")
    )
    arrival_times = np.repeat(arrivals["time"][arrival_rows], arrival_tasks)
    machines = len(result.machines)
    wrong = np.bincount(run_machines, minlength=machines) != np.bincount(arrival_machines, minlength=machines)
    run_order, arrival_order, arrival_times = (
        run_order[~wrong[run_machines]],
        arrival_order[~wrong[arrival_machines]],
        arrival_times[~wrong[arrival_machines]],
    )
    machines_of_tasks = run_machines[~wrong[run_machines]]
    reordered_machines = np.unique(machines_of_tasks[run_order != arrival_order])
    arrival_times = arrival_times[~np.isin(machines_of_tasks, reordered_machines)]
    wrong[reordered_machines] = True

    def tasks_of(name: str, u: int) -> Integers:
        table, rows = (schedule, schedule_rows) if name == "schedule" else (arrivals, arrival_rows)
        machine_rows = rows[table["machine"][rows] == u]
        return np.repeat(table["application"][machine_rows], table["tasks"][machine_rows])

    def describe(u: int) -> str:
        actual, expected = tasks_of("schedule", u), tasks_of("arrivals", u)
        common = min(len(actual), len(expected))
        first = int(np.argmin(np.append(actual[:common] == expected[:common], False)))
        return (
            f"runs tasks of applications {_list_text(actual, first)}, but they arrived as "
            f"{_list_text(expected, first)}"
        )

    violations = violations_where("order", wrong, lambda u: f"machine {u}", describe)
    # on the other machines both tables have the same tasks in the same order
    schedule_rows = schedule_rows[~wrong[schedule["machine"][schedule_rows]]]
    u, tasks, start, end = (schedule[name][schedule_rows] for name in ("machine", "tasks", "start", "end"))
    first = np.cumsum(tasks) - tasks
    free_from = free_times(result, u, end)
    at = arrival_times[first]
    violations += violations_where(
        "order",
        ~(
            is_close(start, np.maximum(free_from, at))
            | (is_emulated(result) & (start > np.maximum(free_from, at)))
        ),
        lambda k: f"schedule[{schedule_rows[k]}]",
        lambda k: (
            f"starts at {start[k]} s, but arrived at {at[k]} s, "
            f"and its machine is free from {free_from[k]} s on"
        ),
    )
    row = np.repeat(np.arange(len(schedule_rows)), tasks)
    begins = end[row]
    if "largest_task" not in result.applications:
        begins = start[row] + (np.arange(len(row)) - first[row]) * ((end - start) / tasks)[row]
    return violations + violations_where(
        "order",
        (begins < arrival_times) & ~is_close(begins, arrival_times),
        lambda k: f"schedule[{schedule_rows[row[k]]}]",
        lambda k: f"starts a task at {begins[k]} s that arrived at {arrival_times[k]} s",
    )


def free_times(result: Result, machine: Integers, end: Floats) -> Floats:
    """Return for each task the time (s) from which a core of its machine is free for it: float64[tasks].

    Parameters
    ----------
    machine, end
        Machine and end (s) of each task, by machine and start.
    """
    free_from = np.append(0.0, end[:-1])[: len(end)]
    free_from[np.flatnonzero(np.diff(machine, prepend=-1))] = 0.0
    cores = result.scenario.platform.cores
    if cores is None or "core" in result.tables.get("schedule", ()):
        return free_from
    u, heap = -1, list[float]()
    for k in np.flatnonzero(cores[machine] > 1).tolist():
        if machine[k] != u:
            u = int(machine[k])
            heap = [0.0] * int(cores[u])
        free_from[k] = heap[0]
        heapq.heapreplace(heap, float(end[k]))
    return free_from


def _arrival_ranks(result: Result) -> Integers:
    """Return for each row of the recorded schedule the rank of the arrival of its first task: int64[rows].

    Tasks of an application on a machine count as started in the order of their arrival.  Cores may start
    tasks at the same time, in any order.
    """
    rows: list[Integers] = []
    keys: list[Integers] = []
    for table, order in (
        (result.tables["schedule"], np.argsort(result.tables["schedule"]["start"], kind="stable")),
        (result.tables["arrivals"], np.arange(len(result.tables["arrivals"]))),
    ):
        tasks, machine, application = (table[name][order] for name in ("tasks", "machine", "application"))
        rows.append(np.repeat(order, tasks))
        keys.append(np.repeat(machine.astype(np.int64) * len(result.applications) + application, tasks))
    run_order, arrival_order = (np.argsort(column, kind="stable") for column in keys)
    # the number of each task among those of its application on its machine
    run_keys, arrival_keys = keys[0][run_order], keys[1][arrival_order]
    place = np.arange(len(run_keys)) - np.searchsorted(run_keys, run_keys)
    begins = np.searchsorted(arrival_keys, run_keys)
    has_arrived = place < np.searchsorted(arrival_keys, run_keys, side="right") - begins
    ranks = np.full(len(result.tables["schedule"]), len(arrival_keys))
    matches = rows[0][run_order[has_arrived]]
    np.minimum.at(ranks, matches, arrival_order[(begins + place)[has_arrived]])
    return ranks


def _list_text(applications: Integers, first: int) -> str:
    """Return a list of applications as text; of a long list, the part around index `first`."""
    if len(applications) <= _MAX_LISTED:
        return str(applications.tolist())
    low = max(0, min(first - 1, len(applications) - _MAX_LISTED))
    numbers = ", ".join(map(str, applications[low : low + _MAX_LISTED].tolist()))
    after = ", ..." if low + _MAX_LISTED < len(applications) else ""
    return f"[{'..., ' if low else ''}{numbers}{after}]"
