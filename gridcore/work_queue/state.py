"""Checks of the arguments and the states of `gridcore.work_queue.dispatch`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gridcore.common.arrays import Rows
from gridcore.common.state import (
    AMOUNT,
    FLAG,
    INSTANT,
    LATEST,
    ArrayEntry,
    Entry,
    Limits,
    NumberEntry,
    TableEntry,
    read,
    refuse,
)

#: The orders of bags; `gridcore.work_queue.dispatch.WorkQueue` describes them.
BAG_ORDERS = ("fcfs-share", "fcfs-excl", "rr", "rr-nrf", "longidle")
#: The largest number of simultaneous copies of a task.
MOST_REPLICAS = 1024
#: The longest interval (ns); sums of intervals up to it do not overflow.
LONGEST = 10**18
LONGEST_PERIOD = 10**16

HAS_BEGUN, COMPLETED = 1, 2


def _struct(**fields: str) -> np.dtype[Any]:
    return np.dtype([(name, kind) for kind, names in fields.items() for name in names.split()], align=True)


# The structs of gridcore/work_queue/work.pxd as dtypes.
TASK = _struct(f8="size saved spent", i4="head after running state bag unused")
MACHINE = np.dtype(
    [
        *((name, "i8") for name in ("start", "end", "marks")),
        *((name, "f8") for name in ("begin", "speed")),
        ("machine", "i8"),
        *((name, "i4") for name in ("task", "previous", "next", "up")),
        *((name, "i8") for name in ("busy", "done", "interrupted", "ended")),
        ("local_saved", "f8"),
        *((name, "i4") for name in ("local_task", "met")),
        ("due", "i8"),
        ("unused", "f8"),
    ],
    align=True,
)
_COUNTS = ("first_start", "finish", "resubmitted", "replicas", "killed", "undisturbed")
BAG_TOTALS = (*_COUNTS, "redundant", "lost", "overhead", "slowed")
BAG = _struct(
    i8="first tasks left open release unstarted at failed last_failed "
    "first_start finish nodes resubmitted replicas killed undisturbed",
    f8="redundant lost overhead slowed",
)
ROW = np.dtype(
    [("begin", "f8"), ("start", "i8"), ("end", "i8")]
    + [(name, "i4") for name in ("machine", "task", "completed", "unused")],
    align=True,
)


def index_of(name: str, value: Any, known: tuple[str, ...]) -> int:
    """Return the index of `value` in `known`; raise ValueError if it is missing."""
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, got {value!r}")
    return known.index(value)


def check_rules(
    max_replicas: Any, interval: Any, checkpoint: Any, restore: Any, period: Any, phase: Any, seed: Any
) -> None:
    """Raise ValueError or TypeError if an argument is not a whole number in its range."""
    for name, value, low, high in (
        ("max_replicas", max_replicas, 1, MOST_REPLICAS),
        ("interval", interval, 0, LONGEST),
        ("checkpoint", checkpoint, 0, LONGEST),
        ("restore", restore, 0, LONGEST),
        ("period", period, 0, LONGEST_PERIOD),
        ("phase", phase, 0, LONGEST_PERIOD),
        ("seed", seed, 0, 2**64 - 1),
    ):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")
    if phase and phase >= period:
        raise ValueError(f"phase must be below period, {period}, got {phase}")


def without_links(tasks: Rows, machines: Rows, bags: Rows) -> None:
    """Reset, in place, the links between rows and the other columns that `setstate` recomputes."""
    for table, names in (
        (tasks, ("head", "after")),
        (machines, ("previous", "next", "due")),
        (bags, ("failed", "last_failed")),
    ):
        for name in names:
            table[name] = -1
    tasks["running"], bags["at"] = 0, 0


_FINITE: Limits = (-sys.float_info.max, math.inf)
_PER_MACHINE = ArrayEntry(np.int64, ("machines",), INSTANT)
STATE: dict[str, Entry] = {
    "now": NumberEntry(0, LATEST + 1),
    "looked": NumberEntry(),
    "dirty": NumberEntry(0, 2),
    "fed": NumberEntry(0, 2),
    "turn": NumberEntry(),
    "chance": ArrayEntry(np.uint64, (1,)),
    "tasks": TableEntry({"state": (0, 8), "spent": _FINITE, "saved": AMOUNT}, "tasks", TASK),
    "machines": TableEntry(
        {
            **{"task": (-1, "tasks"), "local_task": (-1, "tasks"), "met": (-1, "bags"), "up": FLAG},
            **{"begin": AMOUNT, "local_saved": AMOUNT},
        },
        "machines",
        MACHINE,
    ),
    "bags": TableEntry({"release": INSTANT}, "bags", BAG),
    "rows": TableEntry({"machine": (0, "machines"), "task": (0, "tasks"), "completed": FLAG}, None, ROW),
    "sequence": ArrayEntry(np.int32, ("tasks",), (0, "tasks")),
    "due": ArrayEntry(np.int64, ("machines",), (0, None)),
    "until": ArrayEntry(np.int64, ("machines",), (-1, None)),
    "since": _PER_MACHINE,
    "told": ArrayEntry(np.int64, ("machines",), (0, None)),
    "up_times_ended": _PER_MACHINE,
    "up_times": ArrayEntry(np.int64, ("n_up_times",), INSTANT),
    "running": ArrayEntry(np.int64, limits=(0, "machines")),
    "failed": ArrayEntry(np.int64, limits=(0, "tasks")),
    "lost": ArrayEntry(np.int64, ("failed",), INSTANT),
    "ranked_bags": ArrayEntry(np.int64, limits=(0, "bags")),
    "ranked": ArrayEntry(np.int64, limits=(0, "tasks")),
    "seen_of": ArrayEntry(np.int64, limits=(0, "bags")),
    "seen": ArrayEntry(np.uint64, ("seen_of", "words")),
    "faults": TableEntry(
        {"time": (0, None), "machine": (0, "machines"), "up": (0, None), "until": (0, None)}
    ),
}


def check_state(
    state: Any,
    tasks: Rows,
    machines: Rows,
    bags: Rows,
    n_up_times: int,
    max_copies: int,
    faults: bool,
    min_speed: float,
) -> dict[str, Any]:
    """Return checked copies of the entries of a state, from which a queue can continue.

    The links between rows of the tables are cleared, and constant columns are those of the queue.  Two
    entries are added: `task_of`, int64[machines], the task that each machine runs (-1: none), and `fast`,
    whether a machine gets tasks.

    Parameters
    ----------
    tasks, machines, bags
        The tables of the queue.
    n_up_times
        The number of up times that are kept for a machine.
    max_copies
        The largest number of simultaneous copies of a task.
    faults
        Whether machines fail.
    min_speed
        The least speed of machines that get tasks, Mflop/s.
    """
    n, m, b = len(tasks), len(machines), len(bags)
    entries = read(state, STATE, tasks=n, machines=m, bags=b, n_up_times=m * n_up_times, words=(m + 63) >> 6)
    entries["fast"] = machines["speed"] >= min_speed
    for name in ("ranked_bags", "seen_of"):
        if (np.diff(entries[name]) <= 0).any():
            raise ValueError(f"state[{name!r}] must have bags in ascending order")
    _check_machines(entries, machines)
    _check_tasks(entries, tasks, bags, max_copies)
    without_links(entries["tasks"], entries["machines"], entries["bags"])
    entries["machines"]["task"] = -1
    times = entries["faults"][:, 0]
    refuse(
        "faults", np.diff(times, prepend=entries["now"]) < 0, "in order of time, and not before state['now']"
    )
    if not faults and (not entries["fed"] or len(times)):
        raise ValueError("state['fed'] must be 1 and state['faults'] empty in a run without failures")
    return entries


def _check_machines(entries: dict[str, Any], initial: Rows) -> None:
    table, now = entries["machines"], entries["now"]
    task, up = table["task"].astype(np.int64), table["up"]
    runs_task = task >= 0
    refuse("machines", runs_task & ((up == 0) | ~entries["fast"]), "up and fast enough if it runs a task")
    start, end, marks, due = table["start"], table["end"], table["marks"], entries["due"]
    is_running = (start >= 0) & (start <= now) & (now <= due) & (due <= end) & (marks >= 0)
    refuse("machines", runs_task & ~is_running, "between the start and the end of its task, if it runs one")
    if not np.array_equal(np.sort(entries["running"]), np.flatnonzero(runs_task)):
        raise ValueError("state['running'] must have each machine that runs a task exactly once")
    is_free = (up == 1) & ~runs_task & entries["fast"]
    refuse("until", (entries["until"] >= 0) != is_free, ">= 0 for a free machine, and -1 for others")
    for name in ("speed", "machine"):
        table[name] = initial[name]
    entries["task_of"] = task


def _check_tasks(entries: dict[str, Any], initial: Rows, bags: Rows, max_copies: int) -> None:
    table, bag_table = entries["tasks"], entries["bags"]
    state, count = table["state"], len(initial)
    bag_of = np.repeat(np.arange(len(bags)), bags["tasks"])
    refuse(
        "tasks", table["saved"] > initial["size"] * 1.000001, "a task whose saved work is at most its size"
    )
    has_begun, completed = state & HAS_BEGUN != 0, state & COMPLETED != 0
    released = (bag_table["unstarted"] > 0) | (bag_table["first_start"] >= 0)
    if (has_begun | completed)[~released[bag_of]].any():
        raise ValueError("state['tasks']['state'] must be 0 for tasks of bags that are not released")
    # the part of the sequence for a bag must have exactly the tasks of this bag
    if (
        not np.array_equal(np.sort(entries["sequence"]), np.arange(count))
        or (bag_of[entries["sequence"]] != bag_of).any()
    ):
        raise ValueError("state['sequence'] must have each task of each bag exactly once")
    task = entries["task_of"]
    alive = np.bincount(task[task >= 0], minlength=count)[:count]
    if alive.max(initial=0) > max_copies:
        raise ValueError(f"state['running'] must have at most {max_copies} copies of a task")
    if (alive > 0)[completed | ~has_begun].any():
        raise ValueError("state['machines'] must run only tasks that have begun and are not completed")
    failed = entries["failed"]
    waiting = np.flatnonzero(has_begun & ~completed & (alive == 0))
    if not np.array_equal(np.sort(failed), waiting) or (np.diff(bag_of[failed]) < 0).any():
        raise ValueError(
            "state['failed'] must have each task that lost all copies exactly once, in order of bags"
        )
    is_ranked = np.zeros(len(bags), np.bool_)
    is_ranked[entries["ranked_bags"]] = True
    may_be_copied = (alive > 0) & (alive < max_copies) & is_ranked[bag_of]
    if not np.array_equal(np.sort(entries["ranked"]), np.flatnonzero(may_be_copied)):
        raise ValueError("state['ranked'] must have each task that may get another copy exactly once")
    left = np.bincount(bag_of[~completed], minlength=len(bags))
    if (is_ranked & (left == 0)).any():
        raise ValueError("state['ranked_bags'] must have only bags with unfinished tasks")
    for name in ("first", "tasks"):
        bag_table[name] = bags[name]
    bag_table["left"] = left
    bag_table["open"] = np.bincount(
        bag_of[~completed & (alive < max_copies) & released[bag_of]], minlength=len(bags)
    )
    bag_table["unstarted"] = np.bincount(bag_of[~has_begun & released[bag_of]], minlength=len(bags))
    table["size"], table["bag"] = initial["size"], initial["bag"]
