"""Checks of the arguments and the states of `gridcore.work_queue.dispatch`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gridcore.common.arrays import Bools, Integers, Rows
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
    members_in_order,
    read,
)

#: The orders of bags; `gridcore.work_queue.dispatch.WorkQueue` describes them.
BAG_ORDERS = ("fcfs-share", "fcfs-excl", "rr", "rr-nrf", "longidle")
#: The largest number of simultaneous copies of a task.
MAX_REPLICAS = 1024
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
    "first_start finish nodes resubmitted replicas killed undisturbed place",
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
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return known.index(value)


def check_rules(
    max_replicas: Any, interval: Any, checkpoint: Any, restore: Any, period: Any, phase: Any, seed: Any
) -> None:
    """Raise ValueError or TypeError if an argument is not a whole number in its range."""
    for name, value, low, high in (
        ("max_replicas", max_replicas, 1, MAX_REPLICAS),
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
_COUNT = NumberEntry(0, LATEST + 1)
_PER_MACHINE = ArrayEntry(np.int64, ("machines",), INSTANT)
STATE: dict[str, Entry] = {
    "now": _COUNT,
    "examined": _COUNT,
    "dirty": NumberEntry(0, 2),
    "fed": NumberEntry(0, 2),
    "turn": NumberEntry(),
    "chance": ArrayEntry(np.uint64, (1,)),
    "tasks": TableEntry({"state": (0, 8), "spent": _FINITE, "saved": AMOUNT}, "tasks", TASK),
    "machines": TableEntry(
        {
            **{"task": (-1, "tasks"), "local_task": (-1, "tasks"), "met": (-1, "bags"), "up": FLAG},
            **{"start": INSTANT, "begin": AMOUNT, "local_saved": AMOUNT},
        },
        "machines",
        MACHINE,
    ),
    "bags": TableEntry({"release": INSTANT}, "bags", BAG),
    "rows": TableEntry({"machine": (0, "machines"), "task": (0, "tasks"), "completed": FLAG}, None, ROW),
    "sequence": ArrayEntry(np.int32, ("tasks",), (0, "tasks"), unique=True),
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
        {"time": ("now", None), "machine": (0, "machines"), "up": (0, None), "until": (0, None)}
    ),
}


def read_state(
    state: Any, tasks: Rows, machines: Rows, bags: Rows, n_up_times: int, max_copies: int, min_speed: float
) -> dict[str, Any]:
    """Return the entries of a state of a queue, and the values that follow from them.

    Constant columns of the tables are those of the queue, and links between rows are cleared.  A copy that
    cannot run is dropped: its machine is down or slow, or its task is completed or not released.  The members
    of the lists `running`, `failed`, `ranked_bags` and `ranked` follow from the tables, and the state has
    their order.

    Further entries: `task_of`, int64[machines], the task that each machine runs (-1: none); `fast`,
    bool[machines], whether it gets tasks; `lost_at`, int64[tasks]; `by_place`, int32[k], the released
    bags in order of release.

    Parameters
    ----------
    tasks, machines, bags
        The tables of the queue.
    n_up_times
        The number of up times that are kept for a machine.
    max_copies
        The largest number of simultaneous copies of a task.
    min_speed
        The least speed of machines that get tasks, Mflop/s.
    """
    n, m, b = len(tasks), len(machines), len(bags)
    entries = read(state, STATE, tasks=n, machines=m, bags=b, n_up_times=m * n_up_times, words=(m + 63) >> 6)
    for name, table, constants in (
        ("tasks", tasks, ("size", "bag")),
        ("machines", machines, ("speed", "machine")),
        ("bags", bags, ("first", "tasks")),
    ):
        for column in constants:
            entries[name][column] = table[column]
    entries["since"] = np.minimum(entries["since"], entries["now"])
    faults = entries["faults"]
    if (np.diff(faults[:, 0]) < 0).any():
        entries["faults"] = faults[np.argsort(faults[:, 0], kind="stable")]
    sequence = entries["sequence"]
    for k in np.flatnonzero(tasks["bag"][sequence] != tasks["bag"])[:1]:
        raise ValueError(f"state['sequence'][{k}] must be a task of bag {tasks['bag'][k]}, got {sequence[k]}")
    entries["fast"] = machines["speed"] >= min_speed
    _derive_tasks(entries, max_copies)
    is_free = (entries["machines"]["up"] == 1) & entries["fast"] & (entries["task_of"] < 0)
    entries["until"] = np.where(is_free, entries["until"], -1)
    without_links(entries["tasks"], entries["machines"], entries["bags"])
    entries["machines"]["task"] = -1
    return entries


def _derive_tasks(entries: dict[str, Any], max_copies: int) -> None:
    """Compute the flags of tasks, the counts of bags and all lists from the tables."""
    table, bags, task = entries["tasks"], entries["bags"], entries["machines"]["task"].astype(np.int64)
    bag_of, state = table["bag"].astype(np.int64), table["state"].copy()
    released = (bags["unstarted"] > 0) | (bags["first_start"] >= 0)
    state[~released[bag_of]] = 0
    completed = state & COMPLETED != 0
    running = np.flatnonzero((task >= 0) & (entries["machines"]["up"] == 1) & entries["fast"])
    running = running[released[bag_of[task[running]]] & ~completed[task[running]]]
    copies = np.bincount(task[running], minlength=len(table))
    has_begun = (state & HAS_BEGUN != 0) | completed | (copies > 0)
    table["state"] = state | np.where(has_begun, HAS_BEGUN, 0)

    def count(tasks: Bools) -> Integers:
        return np.bincount(bag_of[tasks], minlength=len(bags))

    n_begun, may_be_copied = count(has_begun), ~completed & (copies < max_copies)
    bags["first_start"] = np.maximum(bags["first_start"], np.where(n_begun > 0, 0, -1))
    bags["unstarted"] = np.where(released, bags["tasks"] - n_begun, 0)
    bags["left"] = bags["tasks"] - count(completed)
    bags["open"] = count(may_be_copied & released[bag_of])
    by_place = np.flatnonzero(released)
    by_place = by_place[np.argsort(bags["place"][by_place], kind="stable")]
    bags["place"] = -1
    bags["place"][by_place] = np.arange(len(by_place))
    is_ranked = np.zeros(len(bags), np.bool_)
    is_ranked[entries["ranked_bags"]] = True
    is_ranked &= bags["left"] > 0
    lost_at = np.full(len(table), entries["now"])
    lost_at[entries["failed"]] = entries["lost"]
    task_of = np.full(len(task), -1)
    task_of[running] = task[running]
    entries |= {
        "task_of": task_of,
        "lost_at": lost_at,
        "by_place": by_place.astype(np.int32),
        "running": members_in_order(running, entries["running"]),
        "failed": members_in_order(np.flatnonzero(has_begun & ~completed & (copies == 0)), entries["failed"]),
        "ranked_bags": np.flatnonzero(is_ranked),
        "ranked": members_in_order(
            np.flatnonzero(may_be_copied & (copies > 0) & is_ranked[bag_of]), entries["ranked"]
        ),
    }
