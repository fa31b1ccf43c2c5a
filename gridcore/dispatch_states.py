"""What `gridcore.dispatch` is told, and its state as read from a checkpoint, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.states import LATEST, State

#: Instances of a task at a time, at most.
MOST_REPLICAS = 1024
#: No interval is longer than this (ns), so that sums of them can be computed with.
LONGEST = 2**62

BEGUN, COMPLETED = 1, 2


def named(what: str, value: Any, known: tuple[str, ...]) -> int:
    """The number of `value` among those known.  ValueError for another."""
    if value not in known:
        raise ValueError(f"{what} must be one of {known}, got {value!r}")
    return known.index(value)


def check_rules(
    max_replicas: Any, interval: Any, checkpoint: Any, restore: Any, period: Any, seed: Any
) -> None:
    """ValueError or TypeError naming the argument that is not a whole number of its range."""
    for name, value, low, high in (
        ("max_replicas", max_replicas, 1, MOST_REPLICAS),
        ("interval", interval, 0, LONGEST),
        ("checkpoint", checkpoint, 0, LONGEST),
        ("restore", restore, 0, LONGEST),
        ("period", period, 0, LONGEST),
        ("seed", seed, 0, 2**64 - 1),
    ):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise TypeError(f"{name} must be a whole number, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")


def check_state(
    state: Any,
    machines: int,
    sizes: NDArray[np.float64],
    offsets: NDArray[np.int64],
    kept: int,
    most: int,
    faults: bool,
) -> dict[str, Any]:
    """Copies of the entries of a state, such that a queue with these machines and bags can go on from them.

    sizes : float64[tasks], Mflop.  offsets : int64[bags + 1].  kept : up times that are remembered of a
        machine.
    most : instances of a task at a time.  faults : whether machines fail.
    """
    read, tasks, bags = State(state), len(sizes), len(offsets) - 1
    whole, real = np.int64, np.float64
    got: dict[str, Any] = {
        "now": read.whole("now", 0, LATEST),
        "looked": read.whole("looked"),
        "dirty": read.whole("dirty", 0, 1),
        "fed": read.whole("fed", 0, 1),
        "chance": read.array("chance", np.uint64, (1,)),
        "sequence": read.array("sequence", np.int32, (tasks,), 0, max(0, tasks - 1)),
        "task_state": read.array("task_state", whole, (tasks,), 0, 7),
        "task_work": read.array("task_work", real, (tasks, 2)),
        "machine_runs": read.array("machine_runs", whole, (machines, 4), 0, 2**63 - 1),
        "machine_tasks": read.array("machine_tasks", whole, (machines, 4), -1),
        "machine_work": read.array("machine_work", real, (machines, 2)),
        "machine_totals": read.array("machine_totals", whole, (machines, 4), 0, LATEST),
        "until": read.array("until", whole, (machines,), -1),
        "outlook": read.array("outlook", whole, (machines, 3), 0),
        "up_times": read.array("up_times", whole, (machines, kept), 0),
        "running": read.array("running", whole, (None,), 0, max(0, machines - 1)),
        "failed": read.array("failed", whole, (None,), 0, max(0, tasks - 1)),
        "ranked": read.array("ranked", whole, (None,), 0, max(0, tasks - 1)),
        "bags": read.array("bags", whole, (bags, 10), -1, LATEST),
        "bag_work": read.array("bag_work", real, (bags, 4)),
        "seen_of": read.array("seen_of", whole, (None,), 0, max(0, bags - 1)),
        "faults": read.array("faults", whole, (None, 4), 0),
        "rows": read.array("rows", whole, (None, 5), 0),
        "row_begin": read.array("row_begin", real, (None,)),
    }
    got["seen"] = read.array("seen", np.uint64, (len(got["seen_of"]), (machines + 63) >> 6))
    _check_tasks(got, sizes, offsets, most)
    _check_machines(got, machines, tasks, bags)
    times, who = got["faults"][:, 0], got["faults"][:, 1]
    if len(times) and (times[0] < got["now"] or (np.diff(times) < 0).any() or who.max() >= machines):
        raise ValueError("state['faults'] must be in order, not before its time, of machines of the queue")
    if not faults and (not got["fed"] or len(times)):
        raise ValueError("state['fed'] must be 1 where no machine fails")
    rows = got["rows"]
    if len(rows) != len(got["row_begin"]) or (
        len(rows) and (rows[:, 0].max() >= machines or rows[:, 1].max() >= tasks)
    ):
        raise ValueError("state['rows'] must be of machines and tasks of the queue")
    return got


def _check_tasks(
    got: dict[str, Any], sizes: NDArray[np.float64], offsets: NDArray[np.int64], most: int
) -> None:
    state, saved, released = got["task_state"], got["task_work"][:, 0], got["bags"][:, 0]
    if not (np.isfinite(got["task_work"]).all() and (saved >= 0).all() and (saved <= sizes * 1.000001).all()):
        raise ValueError("state['task_work'] must be Mflop of the tasks")
    if not np.isin(released, (0, 1)).all():
        raise ValueError("state['bags'] must say 0 or 1 for whether one is released")
    of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    if (state[released[of] == 0] != 0).any():
        raise ValueError("state['task_state'] must be 0 in bags that are not released")
    # each bag's sequence has its own tasks, each once
    if (np.sort(got["sequence"]) != np.arange(len(sizes))).any() or (of[got["sequence"]] != of).any():
        raise ValueError("state['sequence'] must have the tasks of each bag once")
    failed, tasks = got["failed"], got["machine_tasks"][:, 0]
    alive = np.zeros(len(sizes), np.int64)
    np.add.at(alive, tasks[(tasks >= 0) & (tasks < len(sizes))], 1)
    waiting = np.flatnonzero((state & BEGUN != 0) & (state & COMPLETED == 0) & (alive == 0))
    if len(failed) != len(waiting) or (np.sort(failed) != waiting).any():
        raise ValueError("state['failed'] must have each task that lost all instances, once")
    if (np.diff(of[failed]) < 0).any():
        raise ValueError("state['failed'] must be bag after bag")
    if (alive[(state & COMPLETED != 0) | (state & BEGUN == 0)] > 0).any():
        raise ValueError("state['machine_tasks'] must be tasks that have begun and are not completed")
    if alive.max(initial=0) > most:
        raise ValueError(f"state['running'] must have at most {most} instances of a task")
    open_to_more = (alive > 0) & (alive < most) & (got["bags"][of, 1] != 0)
    if not np.array_equal(np.sort(got["ranked"]), np.flatnonzero(open_to_more)):
        raise ValueError("state['ranked'] must have each task that may get a further instance, once")


def _check_machines(got: dict[str, Any], machines: int, tasks: int, bags: int) -> None:
    task, local, met, up = got["machine_tasks"].T
    start, end, _, due = got["machine_runs"].T
    now, runs = got["now"], task >= 0
    if (
        (task >= tasks).any()
        or (local >= tasks).any()
        or (met >= bags).any()
        or not np.isin(up, (0, 1)).all()
    ):
        raise ValueError("state['machine_tasks'] must be tasks and bags of the queue, and 0 or 1")
    if (runs & (up == 0)).any():
        raise ValueError("state['machine_tasks'] must have no task on a machine that is down")
    if ((start > now) | (end < now) | (due < now) | (due > end))[runs].any():
        raise ValueError("state['machine_runs'] must begin before its time, and end later")
    if not np.isfinite(got["machine_work"]).all() or (got["machine_work"] < 0).any():
        raise ValueError("state['machine_work'] must be finite and >= 0")
    if (np.sort(got["running"]) != np.flatnonzero(runs)).any() if len(got["running"]) == runs.sum() else True:
        raise ValueError("state['running'] must have each machine that runs a task, once")
    if ((got["until"] >= 0) != ((up == 1) & ~runs)).any():
        raise ValueError("state['until'] must be -1 but of machines that are free")
