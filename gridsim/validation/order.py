"""Checks that machines run tasks in the order in which these came."""

from __future__ import annotations

import numpy as np

from gridsim.results.result import Result
from gridsim.support.arrays import Integers
from gridsim.validation.common import Violation, broken, close, emulated

_SHOWN = 10  # the most applications of a machine that a message lists


def in_turn(result: Result) -> list[Violation]:
    """Check that each machine runs tasks one by one in order of arrival, and never waits while it has one.

    A row of the recorded schedule may have several tasks, which run one after another.  If these differ in
    size, the row does not say when each of them starts; a task is then found to run too early only if it
    comes after the end of its row.  In `schedule` and `arrivals`, machines must be known and every row must
    have tasks.  The invariant is called "order".
    """
    schedule, arrivals = result.tables["schedule"], result.tables["arrivals"]
    ran = np.lexsort((schedule["start"], schedule["machine"]))
    came = np.argsort(arrivals["machine"], kind="stable")
    # one entry for each task, sorted by machine
    did, had = schedule["tasks"][ran], arrivals["tasks"][came]
    order, here = (np.repeat(schedule[name][ran], did) for name in ("application", "machine"))
    wanted, there = (np.repeat(arrivals[name][came], had) for name in ("application", "machine"))
    each = np.repeat(arrivals["time"][came], had)
    machines = len(result.machines)
    wrong = np.bincount(here, minlength=machines) != np.bincount(there, minlength=machines)
    order, wanted, each = order[~wrong[here]], wanted[~wrong[there]], each[~wrong[there]]
    unlike = here[~wrong[here]]
    swapped = np.unique(unlike[order != wanted])
    each = each[~np.isin(unlike, swapped)]
    wrong[swapped] = True

    def tasks_of(name: str, u: int) -> Integers:
        table, rows = (schedule, ran) if name == "schedule" else (arrivals, came)
        mine = rows[table["machine"][rows] == u]
        return np.repeat(table["application"][mine], table["tasks"][mine])

    def say(u: int) -> str:
        have, want = tasks_of("schedule", u), tasks_of("arrivals", u)
        common = min(len(have), len(want))
        first = int(np.argmin(np.append(have[:common] == want[:common], False)))
        return f"runs tasks of applications {_shown(have, first)}, they came as {_shown(want, first)}"

    found = broken("order", wrong, lambda u: f"machine {u}", say)
    # on the other machines both tables have the same tasks in the same order
    ran = ran[~wrong[schedule["machine"][ran]]]
    u, tasks, start, end = (schedule[name][ran] for name in ("machine", "tasks", "start", "end"))
    first = np.cumsum(tasks) - tasks
    before = np.append(0.0, end[:-1])[: len(ran)]
    before[np.flatnonzero(np.diff(u, prepend=-1))] = 0.0
    at = each[first]
    found += broken(
        "order",
        ~(close(start, np.maximum(before, at)) | (emulated(result) & (start > np.maximum(before, at)))),
        lambda k: f"schedule[{ran[k]}]",
        lambda k: f"starts at {start[k]} s, it came at {at[k]} s",
    )
    row = np.repeat(np.arange(len(ran)), tasks)
    begins = end[row]
    if "largest_task" not in result.applications:
        begins = start[row] + (np.arange(len(row)) - first[row]) * ((end - start) / tasks)[row]
    return found + broken(
        "order",
        (begins < each) & ~close(begins, each),
        lambda k: f"schedule[{ran[row[k]]}]",
        lambda k: f"has a task at {begins[k]} s that came at {each[k]} s",
    )


def _shown(applications: Integers, first: int) -> str:
    """Return the list of `applications` as text; of a long one, the part around index `first`."""
    if len(applications) <= _SHOWN:
        return str(applications.tolist())
    low = max(0, min(first - 1, len(applications) - _SHOWN))
    some = ", ".join(map(str, applications[low : low + _SHOWN].tolist()))
    after = ", ..." if low + _SHOWN < len(applications) else ""
    return f"[{'..., ' if low else ''}{some}{after}]"
