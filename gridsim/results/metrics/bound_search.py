"""The search behind `gridsim.results.metrics.bounds`, in floats.

It finds the applications, and the release from which on they count, that give the largest bound, by the time
needed for their work or for their tasks of at least some size.  It only chooses them;
`gridsim.results.metrics.bounds` computes the exact value of the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridsim.support.arrays import Floats, Integers


class Slots:
    """The times at which machines finish tasks of one Mflop, one by one from time 0: {m / s_u}, m = 1, 2, ...

    Parameters
    ----------
    speeds
        Mflop/s of each machine, > 0.
    """

    def __init__(self, speeds: Floats) -> None:
        self.speeds, self.machines = speeds, len(speeds)
        self.speed = math.fsum(speeds.tolist())
        self._known: dict[int, float] = {0: 0.0}

    def end(self, count: int) -> float:
        """Return the count-th smallest end, s/Mflop, correctly rounded; ValueError if it is not finite."""
        if (known := self._known.get(count)) is None:
            tasks, speeds, place = self._window(count)
            known = self._known[count] = float(np.partition(tasks / speeds, place)[place])
        return known

    def below(self, count: int) -> Fraction:
        """Return the smallest exact end that rounds to `end`, which is not above the exact count-th end."""
        tasks, speeds, _ = self._window(count)
        ties = np.flatnonzero(tasks / speeds == self.end(count))
        pairs = dict.fromkeys(zip(tasks[ties].tolist(), speeds[ties].tolist(), strict=True))
        return min(Fraction(m) / Fraction(speed) for m, speed in pairs)

    def _window(self, count: int) -> tuple[Floats, Floats, int]:
        """Return all m and s_u with m / s_u in an interval around the count-th end, and how many precede it.

        The interval goes from count / speed to (count + machines - 1) / speed and has about two ends per
        machine.  Ends before the interval are only counted.
        """
        low = count / self.speed * (1 - 1e-12)
        high = (count + self.machines - 1) / self.speed * (1 + 1e-12)
        if not high < math.inf:
            raise ValueError(f"speeds must do {count} Mflop in finite time, got {self.speed!r} in all")
        before = np.floor(low * self.speeds)
        inside = (np.floor(high * self.speeds) - before).astype(np.int64)
        nth = np.arange(inside.sum()) - np.repeat(inside.cumsum() - inside, inside) + 1.0
        return np.repeat(before, inside) + nth, np.repeat(self.speeds, inside), count - int(before.sum()) - 1


class MigrationSlots(Slots):
    """The same for tasks that machines may hand on before they are finished, as they may be cut in time.

    While q tasks are left, at most the q fastest machines work on them.  So the count-th task ends at
    count / F or later, F the speed of the min(count, machines) fastest machines.
    """

    def __init__(self, speeds: Floats) -> None:
        super().__init__(speeds)
        self._fastest = np.sort(speeds)[::-1]
        self._together = self._fastest.cumsum()

    def end(self, count: int) -> float:
        """Return when the count-th task ends at the soonest, s/Mflop, but for rounding."""
        return count / float(self._together[min(count, self.machines) - 1])

    def below(self, count: int) -> Fraction:
        """Return when the count-th task ends at the soonest, exactly."""
        return Fraction(count) / exact_sum(self._fastest[:count])


def exact_sum(values: Floats) -> Fraction:
    """Return the exact sum of floats, which are all whole multiples of one power of two."""
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    common = max(denominator for _, denominator in ratios)
    return Fraction(sum(numerator * (common // denominator) for numerator, denominator in ratios), common)


@dataclass(frozen=True)
class WholeTasks:
    """What the search needs for bounds by whole tasks.

    Parameters
    ----------
    task_size
        Of each of n applications, Mflop.
    tasks
        Of each, whole numbers as float64.
    levels
        The task sizes to try, Mflop, ascending.
    slots
        The ends of tasks on the machines.
    """

    task_size: Floats
    tasks: Floats
    levels: Floats
    slots: Slots


class Search:
    """The fixed-point iteration over all (k, J); see the docstring of `gridsim.results.metrics.bounds`.

    In an EDF order, the applications up to i are a prefix; those in it that are released at start[k] or later
    are a set J.  The times start are ascending and distinct, and include the latency; start[group[i]] is that
    of application i.

    Parameters
    ----------
    work
        What counts of each application, which takes work / speed; by default its size.
    floor
        A stretch, s/Mflop.  Sets with a value of at most this need not be distinguished.
    """

    def __init__(
        self,
        release: Floats,
        size: Floats,
        speed: float,
        latency: float,
        whole: WholeTasks | None = None,
        floor: float = 0.0,
        work: Floats | None = None,
    ) -> None:
        self.release = release - release.min()
        self.size, self.whole, self.floor = size, whole, floor
        self.work = (size if work is None else work) / speed
        starts, self.group = np.unique(self.release, return_inverse=True)
        self.start = starts + latency

    def run(self) -> tuple[Integers, float | None]:
        """Return J, ascending, and the task size that gives its bound, or None if its work gives it."""
        order, stretch = np.lexsort((self.release, self.size)), math.inf
        while True:
            found, members, level = self._tightest(order)
            if not self.floor < found < stretch:
                return np.sort(members), level
            stretch = found
            order = np.argsort(self.release + stretch * self.size, kind="stable")

    def _tightest(self, order: Integers) -> tuple[float, Integers, float | None]:
        """Return the largest (C_ki - r_i) / w_i over k and i for an EDF order, its set, and its task size."""
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
        """Return, for each i, the largest C_ki over k by work alone, and an upper limit with whole tasks."""
        ends, low = self.start.copy(), np.empty(len(order))
        groups, work = (self.group + 1).tolist(), self.work.tolist()
        if (whole := self.whole) is None:
            for i in order.tolist():
                part = ends[: groups[i]]
                part += work[i]
                low[i] = part.max()
            return low, low
        # q > 0 tasks of size a take at most a (q + machines - 1) / speed; q > 0 for each k below `last`
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
        """Return, for each k, the sum of `amount` over the `members` released at start[k] or later."""
        of_group = np.bincount(self.group[members], amount[members], minlength=len(self.start))
        total: Floats = of_group[::-1].cumsum()[::-1]
        return total

    def _whole_tasks(
        self, whole: WholeTasks, members: Integers, i: int, least: float
    ) -> tuple[float, int, float] | None:
        """Return the largest value by whole tasks of a prefix, with its k and task size, or None.

        Parameters
        ----------
        members
            The prefix, whose last application is i.
        least
            None is returned for no larger value.
        """
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
    """Return the task sizes to try: all, or of more than `most` the smallest in each of `most` equal parts.

    The parts are of the applications in order of task size.
    """
    distinct = np.unique(task_size)
    if len(distinct) <= most:
        return distinct
    return np.unique(np.sort(task_size)[np.arange(most) * len(task_size) // most])


def alone(whole: WholeTasks, size: Floats, latency: float) -> tuple[int, float]:
    """Return the application with the largest stretch on the idle platform, and that stretch, s/Mflop."""
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
