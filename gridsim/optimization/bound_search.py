"""Floating-point search for the largest bound of `gridsim.optimization.bounds`.

It finds the set of applications and the first release that give the largest bound, by the time for their work
or for their tasks of at least some size.  `gridsim.optimization.bounds` then computes the exact bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridsim.support.arrays import Floats, Integers, distinct_values


class Slots:
    """Times at which machines end tasks of one Mflop, run one by one from time 0: {m / s_u}, m = 1, 2, ...

    Parameters
    ----------
    speeds
        Mflop/s of each machine, > 0.
    """

    def __init__(self, speeds: Floats) -> None:
        self.speeds, self.machines = speeds, len(speeds)
        self.speed = math.fsum(speeds.tolist())
        self._ends: dict[int, float] = {0: 0.0}

    def end(self, count: int) -> float:
        """Return the count-th smallest end, s/Mflop, correctly rounded, or raise ValueError if it is inf."""
        if (end := self._ends.get(count)) is None:
            tasks, speeds, place = self._window(count)
            end = self._ends[count] = float(np.partition(tasks / speeds, place)[place])
        return end

    def exact_lower_end(self, count: int) -> Fraction:
        """Return the smallest exact end that rounds to `end`, a lower bound of the exact count-th end."""
        tasks, speeds, _ = self._window(count)
        ties = tasks / speeds == self.end(count)
        pairs = dict.fromkeys(zip(tasks[ties].tolist(), speeds[ties].tolist(), strict=True))
        return min(_exact_ratio(m, speed) for m, speed in pairs)

    def _window(self, count: int) -> tuple[Floats, Floats, int]:
        """Return m and s_u of the ends in an interval around the count-th, and the latter's rank in it.

        Ends are m / s_u, and ranks count from 0.  The interval goes from count / speed to
        (count + machines - 1) / speed and has about two ends per machine.  Ends before the interval are only
        counted.
        """
        low = count / self.speed * (1 - 1e-12)
        high = (count + self.machines - 1) / self.speed * (1 + 1e-12)
        if not high < math.inf:
            raise ValueError(f"speeds must process {count} Mflop in finite time, got a sum of {self.speed!r}")
        preceding = np.floor(low * self.speeds)
        counts = (np.floor(high * self.speeds) - preceding).astype(np.int64)
        ranks = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + 1.0
        return (
            np.repeat(preceding, counts) + ranks,
            np.repeat(self.speeds, counts),
            count - int(preceding.sum()) - 1,
        )


class MigrationSlots(Slots):
    """Times at which machines finish tasks of one Mflop if tasks may migrate before they are finished.

    While q tasks are left, at most the q fastest machines work on them.  Therefore the count-th task ends no
    earlier than count / F, where F is the total speed of the min(count, machines) fastest machines.
    """

    def __init__(self, speeds: Floats) -> None:
        super().__init__(speeds)
        self._fastest = np.sort(speeds)[::-1]
        self._cumulative_speed = self._fastest.cumsum()

    def end(self, count: int) -> float:
        """Return the earliest end of the count-th task, s/Mflop, up to rounding."""
        return count / float(self._cumulative_speed[min(count, self.machines) - 1])

    def exact_lower_end(self, count: int) -> Fraction:
        """Return the exact earliest end of the count-th task, s/Mflop."""
        return Fraction(count) / exact_sum(self._fastest[:count])


def _exact_ratio(dividend: float, divisor: float) -> Fraction:
    """Return the exact ratio of two floats."""
    (a, b), (c, d) = dividend.as_integer_ratio(), divisor.as_integer_ratio()
    return Fraction(a * d, b * c)


def exact_sum(values: Floats) -> Fraction:
    """Return the exact sum of floats as a fraction."""
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    common = max(denominator for _, denominator in ratios)
    return Fraction(sum(numerator * (common // denominator) for numerator, denominator in ratios), common)


@dataclass(frozen=True)
class WholeTasks:
    """Data for the search for bounds by whole tasks.

    Parameters
    ----------
    task_size
        Task size of each of n applications, Mflop.
    tasks
        Number of tasks of each application, whole numbers as float64.
    thresholds
        The task sizes to try, Mflop, ascending.
    slots
        The ends of tasks on the machines.
    """

    task_size: Floats
    tasks: Floats
    thresholds: Floats
    slots: Slots


class BoundSearch:
    """The fixed-point iteration over all (k, J) that `gridsim.optimization.bounds` describes.

    In an EDF order, the applications up to i form a prefix.  A set J has the applications of a prefix that
    are released at start[k] or later; C_ki is start[k] + T(J), where T(J) is the time for their work
    if it is divisible, or for their whole tasks.  The times ``start`` are ascending and distinct, and include
    the latency; start[group[i]] is the earliest start of application i.

    Parameters
    ----------
    work
        Work of each application, Mflop, which takes work / speed; by default its size.
    floor
        A stretch, s/Mflop; the search stops if no set J has a larger value.

    Attributes
    ----------
    value
        The value of the J that `run` has returned, s/Mflop, up to rounding.
    """

    def __init__(
        self,
        release: Floats,
        size: Floats,
        speed: float,
        latency: float,
        whole_tasks: WholeTasks | None = None,
        floor: float = 0.0,
        work: Floats | None = None,
    ) -> None:
        self.release = release - release.min()
        self.size, self.whole_tasks, self.floor = size, whole_tasks, floor
        self.work = (size if work is None else work) / speed
        starts, self.group = np.unique(self.release, return_inverse=True)
        self.start = starts + latency
        self.value = math.nan

    def run(self) -> tuple[Integers, float | None]:
        """Return J, ascending, and the task size of its bound; None if the bound is for divisible work."""
        order, stretch = np.lexsort((self.release, self.size)), math.inf
        while True:
            self.value, members, threshold = self._largest_value(order)
            if not self.floor < self.value < stretch:
                return np.sort(members), threshold
            stretch = self.value
            order = np.argsort(self.release + stretch * self.size, kind="stable")

    def _largest_value(self, order: Integers) -> tuple[float, Integers, float | None]:
        """Return the largest (C_ki - r_i) / w_i over k and i for an EDF order, its set J and task size."""
        low, high = self._ends(order)
        values = (low - self.release) / self.size
        i, threshold = int(values.argmax()), None
        largest = float(values[i])
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        prefix = order[: rank[i] + 1]
        k = int((self.start + self._released_since(prefix, self.work))[: self.group[i] + 1].argmax())
        if self.whole_tasks is not None:
            ceiling = (high - self.release) / self.size
            for i in np.argsort(-ceiling, kind="stable").tolist():
                if not ceiling[i] > (minimum := max(largest, self.floor)):
                    break
                candidate = order[: rank[i] + 1]
                if (
                    improvement := self._improve_by_whole_tasks(self.whole_tasks, candidate, i, minimum)
                ) is not None:
                    (largest, k, threshold), prefix = improvement, candidate
        return largest, prefix[self.group[prefix] >= k], threshold

    def _ends(self, order: Integers) -> tuple[Floats, Floats]:
        """Return bounds on the largest C_ki over k, for each i.

        The first is the exact value for divisible work, the second an upper bound for whole tasks.
        """
        ends, low = self.start.copy(), np.empty(len(order))
        groups, work = (self.group + 1).tolist(), self.work.tolist()
        if (whole_tasks := self.whole_tasks) is None:
            for i in order.tolist():
                prefix = ends[: groups[i]]
                prefix += work[i]
                low[i] = prefix.max()
            return low, low
        # q > 0 tasks of size a take at most a (q + machines - 1) / speed s; each k below `group_ends` has q >
        # 0
        slack = (
            whole_tasks.thresholds * ((whole_tasks.slots.machines - 1) / whole_tasks.slots.speed)
        ).tolist()
        ends_by_threshold = np.tile(self.start, (len(slack), 1))
        unit, group_ends = (whole_tasks.thresholds / whole_tasks.slots.speed).tolist(), [0] * len(slack)
        threshold_counts = np.searchsorted(
            whole_tasks.thresholds, whole_tasks.task_size, side="right"
        ).tolist()
        tasks, high = whole_tasks.tasks.tolist(), np.empty(len(order))
        for i in order.tolist():
            g = groups[i]
            prefix = ends[:g]
            prefix += work[i]
            low[i] = latest = prefix.max()
            for threshold, row in enumerate(ends_by_threshold):
                if threshold < threshold_counts[i]:
                    prefix = row[:g]
                    prefix += unit[threshold] * tasks[i]
                    group_ends[threshold] = max(group_ends[threshold], g)
                if (stop := min(g, group_ends[threshold])) > 0:
                    latest = max(latest, row[:stop].max() + slack[threshold])
            high[i] = latest
        return low, high

    def _released_since(self, members: Integers, amount: Floats) -> Floats:
        """Return, for each k, the sum of `amount` over the `members` released at start[k] or later."""
        sums = np.bincount(self.group[members], amount[members], minlength=len(self.start))
        total: Floats = sums[::-1].cumsum()[::-1]
        return total

    def _improve_by_whole_tasks(
        self, whole_tasks: WholeTasks, members: Integers, i: int, minimum: float
    ) -> tuple[float, int, float] | None:
        """Return the largest value of a prefix for whole tasks, its k and its task size; None if too small.

        Parameters
        ----------
        members
            The applications of the prefix, the last of which is i.
        minimum
            The value that the result must exceed.
        """
        starts, slots = self.start[: self.group[i] + 1], whole_tasks.slots
        best, end = None, self.release[i] + minimum * self.size[i]
        for a in whole_tasks.thresholds.tolist():
            tasks = np.where(whole_tasks.task_size >= a, whole_tasks.tasks, 0.0)
            counts = self._released_since(members, tasks)[: len(starts)]
            slot_counts = np.where(counts > 0, counts + (slots.machines - 1), 0.0)
            ceiling = starts + a * slot_counts / slots.speed
            for k in np.argsort(-ceiling, kind="stable").tolist():
                if not ceiling[k] > end:
                    break
                if (value_end := float(starts[k] + a * slots.end(int(counts[k])))) > end:
                    end, best = value_end, (k, a)
        if best is None or not (value := float((end - self.release[i]) / self.size[i])) > minimum:
            return None
        return value, *best


def size_thresholds(task_size: Floats, limit: int) -> Floats:
    """Return the task sizes to try, Mflop, at most `limit` of them.

    If more sizes occur, the applications are sorted by size and divided into `limit` equal parts, and the
    smallest size of each part is returned.
    """
    distinct: Floats = distinct_values(task_size)
    if len(distinct) <= limit:
        return distinct
    smallest: Floats = np.sort(task_size)[np.arange(limit) * len(task_size) // limit]
    return distinct_values(smallest)


def single_application_bound(whole_tasks: WholeTasks, size: Floats, latency: float) -> tuple[int, float]:
    """Return the application with the largest stretch on the idle platform, and that stretch, s/Mflop."""
    slots = whole_tasks.slots
    ceiling = (
        whole_tasks.task_size * ((whole_tasks.tasks + (slots.machines - 1)) / slots.speed) + latency
    ) / size
    application, largest = 0, 0.0
    for i in np.argsort(-ceiling, kind="stable").tolist():
        if not ceiling[i] > largest:
            break
        stretch = float((whole_tasks.task_size[i] * slots.end(int(whole_tasks.tasks[i])) + latency) / size[i])
        if stretch > largest:
            application, largest = i, stretch
    return application, largest
