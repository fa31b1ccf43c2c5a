"""What `gridcore.work_queue.dispatch` is told, and its state as read from a checkpoint, checked."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gridcore.common.arrays import Rows
from gridcore.common.state import AMOUNT, FLAG, INSTANT, LATEST, Array, Entry, Limits, Number, read, refuse
from gridcore.common.state import Rows as Table

#: How bags take turns; see `gridcore.work_queue.dispatch.WorkQueue`.
BAG_ORDERS = ("fcfs-share", "fcfs-excl", "rr", "rr-nrf", "longidle")
#: Copies of a task at a time, at most.
MOST_REPLICAS = 1024
#: No interval is longer than this (ns), so that sums of them can be computed with.
LONGEST = 10**18
LONGEST_PERIOD = 10**16

BEGUN, COMPLETED = 1, 2


def _struct(**fields: str) -> np.dtype[Any]:
    return np.dtype([(name, kind) for kind, names in fields.items() for name in names.split()], align=True)


# The structs of gridcore/work_queue/work.pxd.
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


def named(what: str, value: Any, known: tuple[str, ...]) -> int:
    """The number of `value` among those known.  ValueError for another."""
    if value not in known:
        raise ValueError(f"{what} must be one of {known}, got {value!r}")
    return known.index(value)


def check_rules(
    max_replicas: Any, interval: Any, checkpoint: Any, restore: Any, period: Any, phase: Any, seed: Any
) -> None:
    """ValueError or TypeError naming the argument that is not a whole number of its range."""
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
            raise TypeError(f"{name} must be a whole number, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")
    if phase and phase >= period:
        raise ValueError(f"phase must be below period, {period}, got {phase}")


def without_links(tasks: Rows, machines: Rows, bags: Rows) -> None:
    """Empty what leads from row to row, and what is made again from the rest."""
    for table, names in (
        (tasks, ("head", "after")),
        (machines, ("previous", "next", "due")),
        (bags, ("failed", "last_failed")),
    ):
        for name in names:
            table[name] = -1
    tasks["running"], bags["at"] = 0, 0


_FINITE: Limits = (-sys.float_info.max, math.inf)
_PER_MACHINE = Array(np.int64, ("machines",), INSTANT)
STATE: dict[str, Entry] = {
    "now": Number(0, LATEST + 1),
    "looked": Number(),
    "dirty": Number(0, 2),
    "fed": Number(0, 2),
    "turn": Number(),
    "chance": Array(np.uint64, (1,)),
    "tasks": Table({"state": (0, 8), "spent": _FINITE, "saved": AMOUNT}, "tasks", TASK),
    "machines": Table(
        {
            **{"task": (-1, "tasks"), "local_task": (-1, "tasks"), "met": (-1, "bags"), "up": FLAG},
            **{"begin": AMOUNT, "local_saved": AMOUNT},
        },
        "machines",
        MACHINE,
    ),
    "bags": Table({"release": INSTANT}, "bags", BAG),
    "rows": Table({"machine": (0, "machines"), "task": (0, "tasks"), "completed": FLAG}, None, ROW),
    "sequence": Array(np.int32, ("tasks",), (0, "tasks")),
    "due": Array(np.int64, ("machines",), (0, None)),
    "until": Array(np.int64, ("machines",), (-1, None)),
    "since": _PER_MACHINE,
    "told": Array(np.int64, ("machines",), (0, None)),
    "up_times_ended": _PER_MACHINE,
    "up_times": Array(np.int64, ("kept",), INSTANT),
    "running": Array(np.int64, limits=(0, "machines")),
    "failed": Array(np.int64, limits=(0, "tasks")),
    "lost": Array(np.int64, ("failed",), INSTANT),
    "ranked_bags": Array(np.int64, limits=(0, "bags")),
    "ranked": Array(np.int64, limits=(0, "tasks")),
    "seen_of": Array(np.int64, limits=(0, "bags")),
    "seen": Array(np.uint64, ("seen_of", "words")),
    "faults": Table({"time": (0, None), "machine": (0, "machines"), "up": (0, None), "until": (0, None)}),
}


def check_state(
    state: Any,
    tasks: Rows,
    machines: Rows,
    bags: Rows,
    kept: int,
    most: int,
    faults: bool,
    min_speed: float,
) -> dict[str, Any]:
    """Copies of the entries of a state, such that a queue can go on from them.

    What leads from row to row in the tables is empty, and what a queue never changes is as in the queue;
    `task_of` is int64[machines], what each machine runs (-1: nothing), and `fast` says which ones get tasks.

    Parameters
    ----------
    tasks, machines, bags
        The tables of the queue.
    kept
        Up times that are remembered of a machine.
    most
        Copies of a task at a time.
    faults
        Whether machines fail.
    min_speed
        Of machines that get tasks, Mflop/s.
    """
    n, m, b = len(tasks), len(machines), len(bags)
    got = read(state, STATE, tasks=n, machines=m, bags=b, kept=m * kept, words=(m + 63) >> 6)
    got["fast"] = machines["speed"] >= min_speed
    for name in ("ranked_bags", "seen_of"):
        if (np.diff(got[name]) <= 0).any():
            raise ValueError(f"state[{name!r}] must be bags of the queue, in order")
    _check_machines(got, machines)
    _check_tasks(got, tasks, bags, most)
    without_links(got["tasks"], got["machines"], got["bags"])
    got["machines"]["task"] = -1
    times = got["faults"][:, 0]
    refuse("faults", np.diff(times, prepend=got["now"]) < 0, "not before the one before it, nor before now")
    if not faults and (not got["fed"] or len(times)):
        raise ValueError("state['fed'] must be 1 where no machine fails")
    return got


def _check_machines(got: dict[str, Any], mine: Rows) -> None:
    given, now = got["machines"], got["now"]
    task, up = given["task"].astype(np.int64), given["up"]
    runs = task >= 0
    refuse("machines", runs & ((up == 0) | ~got["fast"]), "up, and fast enough, where it runs a task")
    start, end, marks, due = given["start"], given["end"], given["marks"], got["due"]
    timed = (start >= 0) & (start <= now) & (now <= due) & (due <= end) & (marks >= 0)
    refuse("machines", runs & ~timed, "of a task that has begun, and ends later")
    if not np.array_equal(np.sort(got["running"]), np.flatnonzero(runs)):
        raise ValueError("state['running'] must have each machine that runs a task, once")
    free = (up == 1) & ~runs & got["fast"]
    refuse("until", (got["until"] >= 0) != free, "-1 but of machines that are free")
    for name in ("speed", "machine"):
        given[name] = mine[name]
    got["task_of"] = task


def _check_tasks(got: dict[str, Any], mine: Rows, bags: Rows, most: int) -> None:
    given, own = got["tasks"], got["bags"]
    state, count = given["state"], len(mine)
    of = np.repeat(np.arange(len(bags)), bags["tasks"])
    refuse("tasks", given["saved"] > mine["size"] * 1.000001, "of which no more is saved than there is")
    begun, completed = state & BEGUN != 0, state & COMPLETED != 0
    released = (own["unstarted"] > 0) | (own["first_start"] >= 0)
    if (begun | completed)[~released[of]].any():
        raise ValueError("state['tasks']: state must be 0 in bags that are not released")
    # each bag's sequence has its own tasks, each once
    if not np.array_equal(np.sort(got["sequence"]), np.arange(count)) or (of[got["sequence"]] != of).any():
        raise ValueError("state['sequence'] must have the tasks of each bag once")
    task = got["task_of"]
    alive = np.bincount(task[task >= 0], minlength=count)[:count]
    if alive.max(initial=0) > most:
        raise ValueError(f"state['running'] must have at most {most} copies of a task")
    if (alive > 0)[completed | ~begun].any():
        raise ValueError("state['machines']: task must have begun, and not be completed")
    failed = got["failed"]
    waiting = np.flatnonzero(begun & ~completed & (alive == 0))
    if not np.array_equal(np.sort(failed), waiting) or (np.diff(of[failed]) < 0).any():
        raise ValueError("state['failed'] must have each task that lost all copies once, bag after bag")
    ranked = np.zeros(len(bags), np.bool_)
    ranked[got["ranked_bags"]] = True
    may = (alive > 0) & (alive < most) & ranked[of]
    if not np.array_equal(np.sort(got["ranked"]), np.flatnonzero(may)):
        raise ValueError("state['ranked'] must have each task that may get a further copy, once")
    left = np.bincount(of[~completed], minlength=len(bags))
    if (ranked & (left == 0)).any():
        raise ValueError("state['ranked_bags'] must have tasks left")
    for name in ("first", "tasks"):
        own[name] = bags[name]
    own["left"] = left
    own["open"] = np.bincount(of[~completed & (alive < most) & released[of]], minlength=len(bags))
    own["unstarted"] = np.bincount(of[~begun & released[of]], minlength=len(bags))
    given["size"], given["bag"] = mine["size"], mine["bag"]
