"""The search behind `gridsim.results.metrics.bounds`, in floats: which applications, from which release on,
need most time.

Time is needed for work, and for whole tasks of at least some size.  What is found here is only a choice;
`gridsim.results.metrics.bounds` computes its value exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridsim.support.arrays import Floats, Integers


class Slots:
    """The ends of tasks of one Mflop that machines work off one by one from 0: {m / s_u}, m = 1, 2, ...

    speeds : Mflop/s of each machine, > 0.
    """

    def __init__(self, speeds: Floats) -> None:
        self.speeds, self.machines = speeds, len(speeds)
        self.speed = math.fsum(speeds.tolist())
        self._known: dict[int, float] = {0: 0.0}

    def end(self, count: int) -> float:
        """The count-th smallest end, s/Mflop, correctly rounded.  ValueError if it is no finite number."""
        if (known := self._known.get(count)) is None:
            tasks, speeds, place = self._window(count)
            known = self._known[count] = float(np.partition(tasks / speeds, place)[place])
        return known

    def below(self, count: int) -> Fraction:
        """The smallest of the ends, as they are, that are rounded to `end`: not above the exact one."""
        tasks, speeds, _ = self._window(count)
        ties = np.flatnonzero(tasks / speeds == self.end(count))
        pairs = dict.fromkeys(zip(tasks[ties].tolist(), speeds[ties].tolist(), strict=True))
        return min(Fraction(m) / Fraction(speed) for m, speed in pairs)

    def _window(self, count: int) -> tuple[Floats, Floats, int]:
        """All m and s_u with m / s_u from count / speed to (count + machines - 1) / speed: the end is there.

        Last: how many of them are before it.  They are about two a machine; those before are only counted.
        """
        low = count / self.speed * (1 - 1e-12)
        high = (count + self.machines - 1) / self.speed * (1 + 1e-12)
        if not high < math.inf:
            raise ValueError(f"speeds must do {count} Mflop in finite time, got {self.speed!r} in all")
        before = np.floor(low * self.speeds)
        inside = (np.floor(high * self.speeds) - before).astype(np.int64)
        nth = np.arange(inside.sum()) - np.repeat(inside.cumsum() - inside, inside) + 1.0
        return np.repeat(before, inside) + nth, np.repeat(self.speeds, inside), count - int(before.sum()) - 1


@dataclass(frozen=True)
class WholeTasks:
    """What the search needs for whole tasks: columns of length n, the task sizes to look at, the machines.

    task_size : Mflop.  tasks : whole numbers, float64.  levels : Mflop, ascending.
    """

    task_size: Floats
    tasks: Floats
    levels: Floats
    slots: Slots


class Search:
    """The fixed point over all (k, J); see the head of `gridsim.results.metrics.bounds`.

    Of an EDF order the applications up to i are a prefix, and those of it that are released at start[k] or
    later are a set J.  start is ascending and distinct (latency included); start[group[i]] is i's own.

    floor : a stretch, s/Mflop.  Sets worth no more than this need not be told apart.
    """

    def __init__(
        self,
        release: Floats,
        size: Floats,
        speed: float,
        latency: float,
        whole: WholeTasks | None = None,
        floor: float = 0.0,
    ) -> None:
        self.release = release - release.min()
        self.size, self.work, self.whole, self.floor = size, size / speed, whole, floor
        starts, self.group = np.unique(self.release, return_inverse=True)
        self.start = starts + latency

    def run(self) -> tuple[Integers, float | None]:
        """J, ascending, and the task size by which it needs most time, or None if its work does."""
        order, stretch = np.lexsort((self.release, self.size)), math.inf
        while True:
            found, members, level = self._tightest(order)
            if not self.floor < found < stretch:
                return np.sort(members), level
            stretch = found
            order = np.argsort(self.release + stretch * self.size, kind="stable")

    def _tightest(self, order: Integers) -> tuple[float, Integers, float | None]:
        """The largest (C_ki - r_i) / w_i over k and i when applications go in `order`, and its set."""
        low, high = self._ends(order)
        values = (low - self.release) / self.size
        i, level = int(values.argmax()), None
        best = float(values[i])
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        prefix = order[: rank[i] + 1]
        k = int((self.start + self._since(prefix, self.work))[: self.group[i] + 1].argmax())
        if self.whole is not None:
            ceiling = (high - self.release) / self.size
            for i in np.argsort(-ceiling, kind="stable").tolist():
                if not ceiling[i] > (least := max(best, self.floor)):
                    break
                candidate = order[: rank[i] + 1]
                if (better := self._whole_tasks(self.whole, candidate, i, least)) is not None:
                    (best, k, level), prefix = better, candidate
        return best, prefix[self.group[prefix] >= k], level

    def _ends(self, order: Integers) -> tuple[Floats, Floats]:
        """The largest C_ki over k for each i: by work alone, and what it is at most, whole tasks included."""
        ends, low = self.start.copy(), np.empty(len(order))
        groups, work = (self.group + 1).tolist(), self.work.tolist()
        if (whole := self.whole) is None:
            for i in order.tolist():
                part = ends[: groups[i]]
                part += work[i]
                low[i] = part.max()
            return low, low
        # q > 0 tasks of size a take at most a (q + machines - 1) / speed; `last` says for which k q > 0
        slack = (whole.levels * ((whole.slots.machines - 1) / whole.slots.speed)).tolist()
        most = np.tile(self.start, (len(slack), 1))
        unit, last = (whole.levels / whole.slots.speed).tolist(), [0] * len(slack)
        reached = np.searchsorted(whole.levels, whole.task_size, side="right").tolist()
        tasks, high = whole.tasks.tolist(), np.empty(len(order))
        for i in order.tolist():
            g = groups[i]
            part = ends[:g]
            part += work[i]
            low[i] = top = part.max()
            for level, row in enumerate(most):
                if level < reached[i]:
                    part = row[:g]
                    part += unit[level] * tasks[i]
                    last[level] = max(last[level], g)
                if (upto := min(g, last[level])) > 0:
                    top = max(top, row[:upto].max() + slack[level])
            high[i] = top
        return low, high

    def _since(self, members: Integers, amount: Floats) -> Floats:
        """Of `amount`, how much the `members` that are released at start[k] or later have, for each k."""
        of_group = np.bincount(self.group[members], amount[members], minlength=len(self.start))
        total: Floats = of_group[::-1].cumsum()[::-1]
        return total

    def _whole_tasks(
        self, whole: WholeTasks, members: Integers, i: int, least: float
    ) -> tuple[float, int, float] | None:
        """(value, k, task size) worth most with `members`, the last of them i; None if not above `least`."""
        starts, slots = self.start[: self.group[i] + 1], whole.slots
        best, end = None, self.release[i] + least * self.size[i]
        for a in whole.levels.tolist():
            counts = self._since(members, np.where(whole.task_size >= a, whole.tasks, 0.0))[: len(starts)]
            at_most = np.where(counts > 0, counts + (slots.machines - 1), 0.0)
            ceiling = starts + a * at_most / slots.speed
            for k in np.argsort(-ceiling, kind="stable").tolist():
                if not ceiling[k] > end:
                    break
                if (found := float(starts[k] + a * slots.end(int(counts[k])))) > end:
                    end, best = found, (k, a)
        if best is None or not (value := float((end - self.release[i]) / self.size[i])) > least:
            return None
        return value, *best


def levels(task_size: Floats, most: int) -> Floats:
    """The smallest size in each of `most` equal parts of the applications in order of size; all if so few."""
    distinct = np.unique(task_size)
    if len(distinct) <= most:
        return distinct
    return np.unique(np.sort(task_size)[np.arange(most) * len(task_size) // most])


def alone(whole: WholeTasks, size: Floats, latency: float) -> tuple[int, float]:
    """The application whose stretch on the idle platform is largest, and that stretch, s/Mflop."""
    slots = whole.slots
    ceiling = (whole.task_size * ((whole.tasks + (slots.machines - 1)) / slots.speed) + latency) / size
    best, least = 0, 0.0
    for i in np.argsort(-ceiling, kind="stable").tolist():
        if not ceiling[i] > least:
            break
        found = float((whole.task_size[i] * slots.end(int(whole.tasks[i])) + latency) / size[i])
        if found > least:
            best, least = i, found
    return best, least
