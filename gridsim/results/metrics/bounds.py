"""Lower bounds of the maximum stretch: no schedule can beat them, not even one that knows the future.

Let J be a set of applications released at r_k or later, and let T(J) be a lower bound of the time in s that
the platform needs for their tasks alone.  None of them starts before r_k, so the last one ends at r_k + T(J)
or later, and in every schedule

    S >= max over k, J of  min over j in J of  (r_k + T(J) - r_j) / w_j .

`fluid_bound` uses T(J) = work of J / speed of all machines; it is the optimum of the problem in which work
can be preempted and cut at will.  `discrete_bound` uses the larger T of whole tasks, which either stay where
they begin or may migrate.

Both search all k and J by a fixed-point iteration: S <- max over k, i of (C_ki - r_i) / w_i.  C_ki is r_k + T
of the set of (k, i): the applications released at r_k or later that are due no later than i, where r + S w is
due with the previous S.  When S repeats, the set of the (k, i) with the maximum has the value S, since all
applications in it are due by C_ki.  No J has a larger value: if i is due last in J, then J is a subset of the
set of (k, i), and T only grows with the set.  (This is the argument of `gridcore.optimal_stretch`, for
several r_k at once; duality of the single-machine problem f_max.)

Failures and messages take capacity and add none, so the bounds hold with them too.  They refer to the given
times and speeds.  The simulator rounds the duration of a task to whole nanoseconds, so a run may be faster by
as much.

Floating point: the search (`gridsim.results.metrics.bound_search`) computes in floats, but each (k, J) is a
certificate however it was found, and its value is computed in exact fractions and rounded down.  So a result
is never above the exact bound, and below it only as far as rounding affects the choice of (k, J).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridsim.results.metrics.bound_search import (
    MigrationSlots,
    Search,
    Slots,
    WholeTasks,
    alone,
    exact_sum,
    levels,
)
from gridsim.support.arrays import Floats, Integers

#: A summary has the lower bound for at most this many applications.
BOUND_LIMIT = 5000
#: The best bound is the discrete one up to this many pairs of an application and a machine, which take 0.2 s.
DISCRETE_LIMIT = 2_000_000


@dataclass(frozen=True, eq=False)
class Bound:
    """A lower bound with its certificate.

    Parameters
    ----------
    stretch
        The bound, s/Mflop; no schedule has a smaller maximum stretch.
    first
        K, an application of J with the earliest release.
    applications
        J, int64, ascending.
    time
        T(J), s.
    task_size
        None if T(J) is the work of J over the speed of all machines.  Else a size in Mflop: T(J) is the time
        for those tasks of J that are at least this large, where each counts as one of this size.
    latency
        S from a release to the first start, as given to the function that computed the bound.
    migration
        Whether T(J) allows tasks to go on on other machines.
    """

    stretch: float
    first: int
    applications: Integers
    time: float
    task_size: float | None = None
    latency: float = 0.0
    migration: bool = False

    def verify(
        self, release: Any, size: Any, speeds: Any, *, task_size: Any = None, tasks: Any = None
    ) -> Fraction:
        """Return the value of the certificate, s/Mflop, computed anew in exact fractions without the search.

        The other arguments are those from which the bound was computed.  Raises ValueError if the certificate
        does not apply to these applications, or if its value is not `stretch` (1e-9 relative).

        Parameters
        ----------
        speeds
            Mflop/s of each machine, or (fluid) of all together.
        """
        if not math.isfinite(self.stretch):
            raise ValueError(f"stretch must be finite, got {self.stretch!r}")
        members = [int(j) for j in self.applications]
        if not members or min(members) < 0 or max(members) >= len(release) or self.first not in members:
            raise ValueError(f"applications must be some of {len(release)}, {self.first} among them")
        releases = [Fraction(float(release[j])) for j in members]
        start = Fraction(float(release[self.first]))
        if min(releases) < start:
            raise ValueError(f"no application may be released before {self.first}, which is the first")
        machines = np.atleast_1d(np.asarray(speeds, dtype=np.float64))
        if self.task_size is None:
            work = sum((Fraction(float(size[j])) for j in members), Fraction(0))
            time = work / exact_sum(machines)
        elif task_size is None or tasks is None:
            raise ValueError("task_size and tasks must be given for a bound by task size")
        else:
            count = sum(int(tasks[j]) for j in members if task_size[j] >= self.task_size)
            if self.migration:
                end = Fraction(count) / exact_sum(np.sort(machines)[::-1][:count])
            else:
                end = _exact_end(count, machines)
            time = Fraction(self.task_size) * end
        end = start + Fraction(self.latency) + time
        value = min((end - r) / Fraction(float(size[j])) for j, r in zip(members, releases, strict=True))
        if abs(value - Fraction(self.stretch)) > value / 10**9:
            raise ValueError(f"stretch is {self.stretch!r}, but its certificate has {float(value)!r}")
        return value


def fluid_bound(release: Any, size: Any, aggregate_speed: float, *, latency: float = 0.0) -> Bound:
    """Return the smallest maximum stretch possible on one machine that may cut and preempt work at will.

    Takes O(n^2) time per pass, usually 2 to 7 passes, and O(n) memory.  Raises ValueError naming argument,
    index and value.

    Parameters
    ----------
    release
        N, s, in any order.
    size
        N, Mflop, > 0.
    aggregate_speed
        Speed of that machine, Mflop/s, > 0.
    latency
        The least time from a release to the first start, s, >= 0; 0 is always valid.
    """
    releases, sizes = _applications(release, size)
    speed = _number("aggregate_speed", aggregate_speed, "Mflop/s", positive=True)
    wait = _number("latency", latency, "s")
    with np.errstate(over="ignore", invalid="ignore"):
        members, _ = Search(releases, sizes, speed, wait).run()
        return certified(releases, sizes, members, exact_sum(sizes[members]) / Fraction(speed), wait)


def discrete_bound(
    release: Any,
    size: Any,
    task_size: Any,
    tasks: Any,
    speeds: Any,
    *,
    thresholds: int = 5,
    latency: float = 0.0,
    migration: bool = False,
) -> Bound:
    """Return the largest of three bounds: by whole tasks, by work, by one application.

    By whole tasks: let q tasks of J be at least as large as a.  They take at least as long as q tasks of size
    a that the machines process one by one: a times the q-th smallest of {m / s_u}, m = 1, 2, ...  If tasks
    may migrate, they take at least a q over the speed of the min(q, m) fastest of m machines (Horvath, Lam
    and Sethi, J. ACM 24(1), 1977).  This holds for each a, and so for the maximum over any set of sizes;
    fewer sizes only make the bound less tight.  The sizes used are all task sizes or, if these are more than
    `thresholds`, the smallest in each of as many equal parts of the applications in order of task size.  By
    work: as `fluid_bound`.  By one application: at its own task size.

    Takes O(n^2 thresholds) time per pass, without migration O(m) for each q that can matter, and
    O(n thresholds + m) memory.  Raises ValueError naming argument, index and value.

    Parameters
    ----------
    release
        N, s, in any order.
    size
        N, Mflop, at least tasks * task_size; what is more is work of any kind.
    task_size
        N, Mflop, > 0.
    tasks
        N, whole, > 0.
    speeds
        Mflop/s of each of m machines, > 0.
    thresholds
        >= 1.
    latency
        The least time from a release to the first start, s, >= 0; 0 is always valid.
    migration
        Whether a task that has begun may go on on another machine; a machine still works on one task at a
        time, and a task is on one machine at a time.
    """
    releases, sizes = _applications(release, size)
    wait = _number("latency", latency, "s")
    machines = _column("speeds", speeds, "Mflop/s", positive=True)
    _check_sum("speeds", machines)
    if isinstance(thresholds, bool) or not isinstance(thresholds, (int, np.integer)) or thresholds < 1:
        raise ValueError(f"thresholds must be a whole number >= 1, got {thresholds!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        lengths, counts = _tasks(task_size, tasks, sizes)
        slots = MigrationSlots(machines) if migration else Slots(machines)
        whole = WholeTasks(lengths, counts, levels(lengths, int(thresholds)), slots)
        single, floor = alone(whole, sizes, wait)
        members, level = Search(releases, sizes, slots.speed, wait, whole, floor).run()
        if level is None:
            time = exact_sum(sizes[members]) / exact_sum(machines)
        else:
            time = Fraction(level) * slots.below(int(counts[members][lengths[members] >= level].sum()))
        bound = certified(releases, sizes, members, time, wait, level, migration)
        time = Fraction(float(lengths[single])) * slots.below(int(counts[single]))
        one = np.array([single], dtype=np.int64)
        other = certified(releases, sizes, one, time, wait, float(lengths[single]), migration)
        return other if other.stretch > bound.stretch else bound


# -- values of certificates -----------------------------------------------------------------------------


def _exact_end(count: int, speeds: Floats) -> Fraction:
    """Return the exact count-th smallest of {m / s_u}: certainly smaller ones are skipped, others counted."""
    total, machines = exact_sum(speeds), Counter(speeds.tolist())
    end, following = Fraction(0), []
    for speed, alike in machines.items():
        exact = Fraction(speed)
        before = math.floor(count * exact / total)
        count_before = before * alike
        end = max(end, before / exact)
        following.append(((before + 1) / exact, exact, alike, count_before))
    left = count - sum(entry[3] for entry in following)
    heap = [entry[:3] for entry in following]
    heapq.heapify(heap)
    while left > 0:
        end, exact, alike = heap[0]
        left -= alike
        heapq.heapreplace(heap, (end + 1 / exact, exact, alike))
    return end


def certified(
    release: Floats,
    size: Floats,
    members: Integers,
    time: Fraction,
    latency: float,
    task_size: float | None = None,
    migration: bool = False,
) -> Bound:
    """Return the bound of J = `members` and T(J) = `time`, computed exactly, then rounded down."""
    first = int(members[release[members].argmin()])
    try:
        need, sizes = float(time) + latency, size[members]
        waits = release[first] - release[members]
        about = (waits + need) / sizes
        wrong = 2e-15 * (need - waits) / sizes  # more than all roundings of `about`
        near = members[~(about - wrong > (about + wrong).min())].tolist()
        end = Fraction(float(release[first])) + Fraction(latency) + time
        value = min((end - Fraction(float(release[j]))) / Fraction(float(size[j])) for j in near)
        stretch = float(value)
    except OverflowError:
        raise ValueError("size and speeds must leave time and stretch finite, got too far apart") from None
    if Fraction(stretch) > value:
        stretch = math.nextafter(stretch, 0.0)
    return Bound(stretch, first, members, float(time), task_size, latency, migration)


# -- checks ---------------------------------------------------------------------------------------------


def _applications(release: Any, size: Any) -> tuple[Floats, Floats]:
    releases = _column("release", release, "s")
    sizes = _column("size", size, "Mflop", positive=True, rows=len(releases))
    _check_sum("size", sizes)
    return releases, sizes


def _tasks(task_size: Any, tasks: Any, size: Floats) -> tuple[Floats, Floats]:
    lengths = _column("task_size", task_size, "Mflop", positive=True, rows=len(size))
    counts = _column("tasks", tasks, "tasks", positive=True, rows=len(size))
    for i in np.flatnonzero(counts != np.floor(counts))[:1]:
        raise ValueError(f"tasks[{i}] must be a whole number, got {float(counts[i])!r}")
    if not counts.sum() <= 2**53:
        raise ValueError(f"tasks must be at most 2**53 in all, got {float(counts.sum())!r}")
    for i in np.flatnonzero(~(size >= counts * lengths * (1 - 1e-9)))[:1]:
        expected = f"at least tasks * task_size = {float(counts[i] * lengths[i])!r} Mflop"
        raise ValueError(f"size[{i}] must be {expected}, got {float(size[i])!r}")
    return lengths, counts


def _column(name: str, values: Any, unit: str, *, positive: bool = False, rows: int | None = None) -> Floats:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        shown = repr(values)
        raise ValueError(f"{name} must be a list of numbers, got {shown[:60]}") from None
    if column.ndim != 1 or not len(column):
        raise ValueError(f"{name} must be a list of at least one number, got the shape {column.shape}")
    if rows is not None and len(column) != rows:
        raise ValueError(f"{name} must be as long as release, {rows}, got {len(column)}")
    good = np.isfinite(column) & (column > 0) if positive else np.isfinite(column)
    for i in np.flatnonzero(~good)[:1]:
        expected = f"a finite number{' > 0' if positive else ''} {unit}"
        raise ValueError(f"{name}[{i}] must be {expected}, got {float(column[i])!r}")
    return column


def _number(name: str, value: Any, unit: str, *, positive: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and (number > 0 if positive else number >= 0)):
        relation = ">" if positive else ">="
        raise ValueError(f"{name} must be a finite number {relation} 0 {unit}, got {value!r}")
    return number


def _check_sum(name: str, values: Floats) -> None:
    try:
        math.fsum(values.tolist())
    except OverflowError:
        raise ValueError(f"{name} must have a finite sum, got {float(values.max())!r} among them") from None
