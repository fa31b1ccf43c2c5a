"""Tables of the journals of `gridcore.queues.task_queues`.

A row has machine, application, tasks, start, end (ns) and completed (tasks).
"""

from __future__ import annotations

import numpy as np

from gridcore.common.arrays import Bools, Integers

COLUMNS = ("machine", "application", "tasks", "start", "end", "completed")


def columns(rows: Integers) -> dict[str, Integers]:
    """Return the columns of a journal (int64[k, 6]) by name."""
    return dict(zip(COLUMNS, rows.T.copy(), strict=True))


def schedule(rows: Integers, merges: Bools) -> dict[str, Integers]:
    """Return runs by machine and start; those without a gap are one row if the machine `merges` them."""
    if not len(rows):
        return columns(rows)
    table = columns(rows[np.lexsort((rows[:, 3], rows[:, 0]))])
    is_complete = table["completed"] > 0
    continues = np.zeros(len(rows), bool)
    continues[1:] = is_complete[1:] & is_complete[:-1] & (table["start"][1:] == table["end"][:-1])
    continues &= merges[table["machine"]]
    for name in ("machine", "application"):
        continues[1:] &= table[name][1:] == table[name][:-1]
    first = np.flatnonzero(~continues)
    last = np.r_[first[1:], len(rows)] - 1
    merged = {name: table[name][first] for name in ("machine", "application", "start")}
    merged |= {name: np.add.reduceat(table[name], first) for name in ("tasks", "completed")}
    merged["end"] = table["end"][last]
    return {name: merged[name] for name in COLUMNS}


def arrivals(rows: Integers) -> dict[str, Integers]:
    """Return the columns of a journal of arrivals, in order; its starts are the times of arrival (ns)."""
    table = columns(rows)
    return {
        name: table["start" if name == "time" else name]
        for name in ("machine", "application", "tasks", "time")
    }


def completions(rows: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return columns (machine, application, tasks, end of the last task).

    There is one row for each machine and application, in ascending order.
    """
    if len(rows):
        rows = rows[np.lexsort((rows[:, 4], rows[:, 1], rows[:, 0]))]
    machine, application, tasks, _, end, _ = rows.T
    if not len(rows):
        return machine, application, tasks, end
    new = np.flatnonzero(np.r_[True, (machine[1:] != machine[:-1]) | (application[1:] != application[:-1])])
    last = np.r_[new[1:], len(machine)] - 1
    return machine[new], application[new], np.add.reduceat(tasks, new), end[last]
