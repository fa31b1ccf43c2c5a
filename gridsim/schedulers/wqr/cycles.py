"""The cycles of machines under WQR-FT: background load, and the record of task copies."""

from __future__ import annotations

from collections import defaultdict, namedtuple
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.background_load import LoadProfile
from gridsim.schedulers.wqr.rules import LONGEST, Rules
from gridsim.support.clock import NEVER

#: Ends of a task copy: it completes, another copy has completed the task (KILLED), or its machine fails.
COMPLETED, KILLED, FAILED = range(3)

#: The record of the copies that have ended, written by `View.note`; nodes cannot read it. copy : number of
#: the copy, in the order in which copies began.  machine, application, task : its machine and task.  start,
#: end : ns.  begin : work done before, Mflop, as in the table ``schedule``.  checkpoints : number of
#: checkpoints that it has written.
TABLES: dict[str, dict[str, type]] = {
    "copies": {
        **dict.fromkeys(("copy", "machine", "application", "task", "start", "end"), int),
        **{"begin": float, "checkpoints": int, "how": int},
    }
}


_NAMES = list(TABLES["copies"])
_CopyRow: Any = namedtuple("_CopyRow", _NAMES)  # type: ignore[misc]  # the names are those of the table


class Cycles:
    """The computing rate of a machine: its full speed, or less under background load.

    Parameters
    ----------
    machine
        Number of the machine.
    speed
        Full speed, Mflop/s.
    load
        The background load of all machines; None for none.
    """

    def __init__(self, machine: int, speed: float, load: LoadProfile | None) -> None:
        self.speed, self.load = speed, load
        if load is not None:
            self.factors, self.first = load.factors[load.series[machine]].tolist(), int(load.first[machine])

    def time_for(self, work: float) -> float:
        """Return the time of `work` (Mflop) at full speed, ns; without background load a whole number."""
        needed = work / self.speed * 1e9
        return max(1, round(needed)) if self.load is None else needed

    def _factor(self, step: int) -> float:
        factor: float = self.factors[(self.first + step) % len(self.factors)]
        return factor

    def done(self, begin: int, time: int) -> float:
        """Return the work done in `time` ns from `begin` on, in ns at full speed."""
        if self.load is None:
            return time
        period, phase, done, end = self.load.period, self.load.phase, 0.0, begin + time
        while begin < end:
            step = (begin + phase) // period
            edge = min((step + 1) * period - phase, end)
            done += self._factor(step) * float(edge - begin)
            begin = edge
        return done

    def time_until_done(self, begin: int, left: float, limit: int) -> int | None:
        """Return the time that `left` ns at full speed take from `begin` on, ns.

        The result is None for more than `limit` ns, and NEVER for an end after the last instant.
        """
        if self.load is None:
            return int(left) if left <= limit else None
        period, phase, time, last = self.load.period, self.load.phase, begin, min(begin + limit, LONGEST)
        while time < last:
            step = (time + phase) // period
            edge, factor = min((step + 1) * period - phase, last), self._factor(step)
            capacity = factor * float(edge - time)
            if left <= capacity + 0.5 * factor:  # half a ns is added for rounding
                return min(time + max(1, round(left / factor)), last) - begin
            left -= capacity
            time = edge
        return NEVER if last == LONGEST else None

    def spent(self, rules: Rules, copy: Any) -> tuple[float, float, float, float]:
        """Return the use of the cycles of this machine during a copy, Mflop at full speed.

        The four values are: work for the task; the part of it after the newest checkpoint; overhead of
        checkpoints; work lost to background load.
        """
        ran, interval = copy.end - copy.start, rules.interval
        start = copy.start + min(ran, rules.restore if copy.begin > 0.0 else 0)
        windows = [start + k * (interval + rules.checkpoint) for k in range(copy.checkpoints + 1)]
        fresh_time = min(copy.end - windows[-1], interval or NEVER)
        done = fresh = float(self.done(windows[-1], fresh_time))
        for window in windows[:-1]:
            done += self.done(window, interval)
        computing = fresh_time + copy.checkpoints * interval
        shares = done, fresh, float(ran - computing), float(computing) - done
        computed, after, overhead, slowed = (share / 1e9 * self.speed for share in shares)
        return computed, after, overhead, slowed


def settle(copies: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the record of copies as if all nodes had received all information at once, as in a simulation.

    In an emulation they receive it later.  The copy of a task that ended first completed it; all copies that
    ended later were useless, including those that a failure ended.  The copies of a completed task are
    ordered together, and copies that a failure ended by the time of the failure.
    """
    endings, end = copies["how"], copies["end"]
    row = np.arange(len(end))
    number = copies["application"] * (1 + copies["task"].max(initial=0)) + copies["task"]
    task = np.unique(number, return_inverse=True)[1]
    completions = np.flatnonzero(endings == COMPLETED)
    completions = completions[np.argsort(end[completions], kind="stable")]
    # for each row: the row that completed its task first (-1 for none), and the time of that completion
    tasks, first = np.unique(task[completions], return_index=True)
    place = np.full(len(row), -1)
    place[tasks] = completions[first]
    place = place[task]
    instant = np.where(place < 0, NEVER, end[place])
    is_other = row != place
    endings = np.where(is_other & ((endings == COMPLETED) | (end >= instant)), KILLED, endings)
    is_failed = endings == FAILED
    order = np.lexsort(
        (is_other & ~is_failed, np.where(is_failed, row, place), is_failed, np.where(is_failed, end, instant))
    )
    return {name: column[order] for name, column in {**copies, "how": endings}.items()}


def totals(
    copies: Mapping[str, NDArray[Any]], bags: int, cycles: Sequence[Cycles], rules: Rules
) -> dict[str, NDArray[Any]]:
    """Return the totals of bags and machines, with the names of `gridcore.work_queue.dispatch.WorkQueue`."""
    machines, bag, machine = len(cycles), copies["application"], copies["machine"]
    completed, killed, failed = (copies["how"] == end_kind for end_kind in (COMPLETED, KILLED, FAILED))

    def count(of: NDArray[Any], length: int) -> NDArray[Any]:
        return np.bincount(of, minlength=length)

    total: dict[str, NDArray[Any]] = {
        "first_start": np.full(bags, NEVER),
        "finish": np.full(bags, -1),
        "completed": count(bag[completed], bags),
        "killed": count(bag[killed], bags),
        "nodes_used": count(np.unique(bag * machines + machine) // machines, bags),
        "busy": np.zeros(machines, np.int64),
        "tasks": count(machine[completed], machines),
        "ended": count(machine[killed], machines),
        "interrupted": count(machine[failed], machines),
        **{name: np.zeros(bags, np.int64) for name in ("resubmitted", "replicas", "disturbed")},
        **{name: np.zeros(bags) for name in ("redundant", "lost", "overhead", "slowed")},
    }
    np.minimum.at(total["first_start"], bag, copies["start"])
    np.maximum.at(total["finish"], bag[completed], copies["end"][completed])
    np.add.at(total["busy"], machine, copies["end"] - copies["start"])
    columns = (copies[name].tolist() for name in _NAMES)
    rows = [*map(_CopyRow._make, zip(*columns, strict=True))]
    total["first_start"][total["first_start"] == NEVER] = -1
    _count_starts(total, rows)
    _add_cycles(total, rows, cycles, rules)
    total["undisturbed"] = total["completed"] - total.pop("disturbed")
    return total


def _count_starts(total: dict[str, NDArray[Any]], rows: list[Any]) -> None:
    """Count resubmissions (copies that began after a failure without another copy), and replicas."""
    latest_ends: dict[tuple[int, int], int] = {}
    done = {(copy.application, copy.task): copy.end for copy in rows if copy.how == COMPLETED}
    disturbed = set()
    # in an emulation, a copy that is sent later may start earlier
    for copy in sorted(rows, key=lambda copy: (copy.start, copy.copy)):
        task = copy.application, copy.task
        if latest_ends.get(task, 0) > copy.start:
            total["replicas"][copy.application] += 1
        elif task in latest_ends and done.get(task, NEVER) > copy.start:  # or its start is too late
            total["resubmitted"][copy.application] += 1
            disturbed.add(task)
        latest_ends[task] = max(latest_ends.get(task, 0), copy.end)
    for application, _ in disturbed:
        total["disturbed"][application] += 1


def _add_cycles(
    total: dict[str, NDArray[Any]], rows: list[Any], cycles: Sequence[Cycles], rules: Rules
) -> None:
    """Add up the use of cycles, in the order in which copies ended.

    Of the copies of a completed task, the one that began last comes first.
    """
    # cycles of copies that did not complete their task
    spent: dict[tuple[int, int], float] = defaultdict(float)
    for (failed, bag, task), group in groupby(rows, key=lambda c: (c.how == FAILED, c.application, c.task)):
        among = list(group)
        for copy in among if failed else sorted(among, key=lambda copy: -copy.copy):
            computed, fresh, overhead, slowed = cycles[copy.machine].spent(rules, copy)
            total["overhead"][bag] += overhead
            total["slowed"][bag] += slowed
            if failed:
                total["lost"][bag] += fresh
            if copy.how != COMPLETED:
                spent[bag, task] += computed - fresh if failed else computed
        if not failed:
            total["redundant"][bag] += max(0.0, spent[bag, task] - among[0].begin)
