"""What `gridcore.queues.task_queues` has noted, row by row, made into tables.

A row has machine, application, tasks, start, end (ns) and completed (tasks).
"""

from __future__ import annotations

import numpy as np

from gridcore.common.arrays import Integers

COLUMNS = ("machine", "application", "tasks", "start", "end", "completed")


def columns(rows: Integers) -> dict[str, Integers]:
    """int64[k, 6] as columns."""
    return dict(zip(COLUMNS, rows.T.copy(), strict=True))


def schedule(rows: Integers, *, merge: bool = True) -> dict[str, Integers]:
    """In order of machine and start; with `merge`, rows that go on where the one before ended are one."""
    if not len(rows):
        return columns(rows)
    found = columns(rows[np.lexsort((rows[:, 3], rows[:, 0]))])
    if not merge:
        return found
    whole = found["completed"] > 0
    on = np.zeros(len(rows), bool)
    on[1:] = whole[1:] & whole[:-1] & (found["start"][1:] == found["end"][:-1])
    for name in ("machine", "application"):
        on[1:] &= found[name][1:] == found[name][:-1]
    first = np.flatnonzero(~on)
    last = np.r_[first[1:], len(rows)] - 1
    merged = {name: found[name][first] for name in ("machine", "application", "start")}
    merged |= {name: np.add.reduceat(found[name], first) for name in ("tasks", "completed")}
    merged["end"] = found["end"][last]
    return {name: merged[name] for name in COLUMNS}


def arrivals(rows: Integers) -> dict[str, Integers]:
    """In the order in which they came; the time of an arrival is its start."""
    found = columns(rows)
    return {
        name: found["start" if name == "time" else name]
        for name in ("machine", "application", "tasks", "time")
    }


def completions(rows: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """(machine, application, tasks, end): a row a machine and application, `end` of its last task, sorted."""
    if len(rows):
        rows = rows[np.lexsort((rows[:, 4], rows[:, 1], rows[:, 0]))]
    machine, application, tasks, _, end, _ = rows.T
    if not len(rows):
        return machine, application, tasks, end
    new = np.flatnonzero(np.r_[True, (machine[1:] != machine[:-1]) | (application[1:] != application[:-1])])
    last = np.r_[new[1:], len(machine)] - 1
    return machine[new], application[new], np.add.reduceat(tasks, new), end[last]
