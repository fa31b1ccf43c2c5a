"""What `gridcore.work_queue.dispatch` is told, and its state as read from a checkpoint, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.common.arrays import Rows
from gridcore.common.state import LATEST, State

#: Instances of a task at a time, at most.
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
        ("unused", "f8", 2),
    ],
    align=True,
)
_COUNTS = ("first_start", "finish", "resubmitted", "replicas", "killed", "undisturbed")
BAG_TOTALS = (*_COUNTS, "redundant", "lost", "overhead", "slowed")
BAG = _struct(
    i8="first tasks left open unstarted at failed last_failed "
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
    max_replicas: Any, interval: Any, checkpoint: Any, restore: Any, period: Any, seed: Any
) -> None:
    """ValueError or TypeError naming the argument that is not a whole number of its range."""
    for name, value, low, high in (
        ("max_replicas", max_replicas, 1, MOST_REPLICAS),
        ("interval", interval, 0, LONGEST),
        ("checkpoint", checkpoint, 0, LONGEST),
        ("restore", restore, 0, LONGEST),
        ("period", period, 0, LONGEST_PERIOD),
        ("seed", seed, 0, 2**64 - 1),
    ):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise TypeError(f"{name} must be a whole number, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")


def without_links(tasks: Rows, machines: Rows, bags: Rows) -> None:
    """Empty what leads from row to row, and what is made again from the rest."""
    for table, names in (
        (tasks, ("head", "after")),
        (machines, ("previous", "next")),
        (bags, ("failed", "last_failed")),
    ):
        for name in names:
            table[name] = -1
    tasks["running"], bags["at"] = 0, 0


def check_state(
    state: Any, tasks: Rows, machines: Rows, bags: Rows, kept: int, most: int, faults: bool
) -> dict[str, Any]:
    """Copies of the entries of a state, such that a queue can go on from them.

    tasks, machines, bags : the tables of the queue.  kept : up times that are remembered of a machine.
    most : copies of a task at a time.  faults : whether machines fail.

    What leads from row to row in the tables is empty, and what a queue never changes is as in the queue;
    `task_of` is int64[machines], what each machine runs (-1: nothing).
    """
    read, n, m, b = State(state), len(tasks), len(machines), len(bags)
    whole = np.int64
    got: dict[str, Any] = {
        "now": read.whole("now", 0, LATEST),
        "looked": read.whole("looked"),
        "dirty": read.whole("dirty", 0, 1),
        "fed": read.whole("fed", 0, 1),
        "chance": read.array("chance", np.uint64, (1,)),
        "tasks": read.array("tasks", TASK, (n,)),
        "machines": read.array("machines", MACHINE, (m,)),
        "bags": read.array("bags", BAG, (b,)),
        "rows": read.array("rows", ROW, (None,)),
        "sequence": read.array("sequence", np.int32, (n,), 0, max(0, n - 1)),
        "due": read.array("due", whole, (m,), 0),
        "until": read.array("until", whole, (m,), -1),
        "since": read.array("since", whole, (m,), 0, LATEST),
        "told": read.array("told", whole, (m,), 0),
        "up_times_ended": read.array("up_times_ended", whole, (m,), 0, LATEST),
        "up_times": read.array("up_times", whole, (m * kept,), 0, LATEST),
        "running": read.array("running", whole, (None,), 0, max(0, m - 1)),
        "failed": read.array("failed", whole, (None,), 0, max(0, n - 1)),
        "ranked_bags": read.array("ranked_bags", whole, (None,), 0, max(0, b - 1)),
        "ranked": read.array("ranked", whole, (None,), 0, max(0, n - 1)),
        "seen_of": read.array("seen_of", whole, (None,), 0, max(0, b - 1)),
        "faults": read.array("faults", whole, (None, 4), 0),
    }
    got["seen"] = read.array("seen", np.uint64, (len(got["seen_of"]), (m + 63) >> 6))
    for name in ("ranked_bags", "seen_of"):
        if (np.diff(got[name]) <= 0).any():
            raise ValueError(f"state[{name!r}] must be bags of the queue, in order")
    _check_machines(got, machines, n, b)
    _check_tasks(got, tasks, bags, most)
    without_links(got["tasks"], got["machines"], got["bags"])
    got["machines"]["task"] = -1
    times, who = got["faults"][:, 0], got["faults"][:, 1]
    if len(times) and (times[0] < got["now"] or (np.diff(times) < 0).any() or who.max() >= m):
        raise ValueError("state['faults'] must be in order, not before its time, of machines of the queue")
    if not faults and (not got["fed"] or len(times)):
        raise ValueError("state['fed'] must be 1 where no machine fails")
    rows = got["rows"]
    for name, high in (("machine", m), ("task", n), ("completed", 2)):
        if len(rows) and (rows[name].min() < 0 or rows[name].max() >= high):
            raise ValueError(f"state['rows']: {name} must be in 0..{high - 1}")
    return got


def _check_machines(got: dict[str, Any], mine: Rows, tasks: int, bags: int) -> None:
    given, now = got["machines"], got["now"]
    task, up = given["task"].astype(np.int64), given["up"]
    for name, value, high in (
        ("task", task, tasks),
        ("local_task", given["local_task"], tasks),
        ("met", given["met"], bags),
    ):
        if ((value < -1) | (value >= high)).any():
            raise ValueError(f"state['machines']: {name} must be in -1..{high - 1}")
    runs = task >= 0
    if not np.isin(up, (0, 1)).all() or (runs & (up == 0)).any():
        raise ValueError("state['machines']: up must be 0 or 1, and 1 for each machine that runs a task")
    start, end, marks, due = given["start"], given["end"], given["marks"], got["due"]
    timed = (start >= 0) & (start <= now) & (now <= due) & (due <= end) & (marks >= 0)
    if not timed[runs].all():
        raise ValueError("state['machines'] must begin tasks before its time, and end them later")
    for name in ("begin", "local_saved"):
        if not (np.isfinite(given[name]) & (given[name] >= 0)).all():
            raise ValueError(f"state['machines']: {name} must be finite and >= 0")
    if not np.array_equal(np.sort(got["running"]), np.flatnonzero(runs)):
        raise ValueError("state['running'] must have each machine that runs a task, once")
    if ((got["until"] >= 0) != ((up == 1) & ~runs)).any():
        raise ValueError("state['until'] must be -1 but of machines that are free")
    for name in ("speed", "machine"):
        given[name] = mine[name]
    got["task_of"] = task


def _check_tasks(got: dict[str, Any], mine: Rows, bags: Rows, most: int) -> None:
    given, own = got["tasks"], got["bags"]
    state, count = given["state"], len(mine)
    of = np.repeat(np.arange(len(bags)), bags["tasks"])
    saved = given["saved"]
    if ((state < 0) | (state > 7)).any() or not np.isfinite(given["spent"]).all():
        raise ValueError("state['tasks']: state must be in 0..7, and spent finite")
    if not ((saved >= 0) & (saved <= mine["size"] * 1.000001)).all():
        raise ValueError("state['tasks']: saved must be Mflop of the task")
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
