"""Lower bounds of the maximum stretch, which hold even for clairvoyant schedules.

Let J be a set of applications released at r_k or later, and let T(J) be a lower bound of the time in s that
the platform needs for their tasks alone.  No application in J starts before r_k, so the last one ends at
r_k + T(J) or later, and every schedule has

    S >= max over k, J of  min over j in J of  (r_k + T(J) - r_j) / w_j .

`fluid_bound` uses T(J) = work of J / aggregate speed; it is the optimum if work can be preempted and divided
arbitrarily.  `discrete_bound` uses the larger T of whole tasks, with or without migration.

Both search all k and J by a fixed-point iteration: S <- max over k, i of (C_ki - r_i) / w_i.  C_ki is r_k + T
of the set of (k, i): the applications released at r_k or later that are due no later than i, where r + S w is
due with the previous S.  When S repeats, the set of the (k, i) with the maximum has the value S, since all
applications in it are due by C_ki.  No J has a larger value: if i is due last in J, then J is a subset of the
set of (k, i), and T only grows with the set.  (This is the argument of `gridcore.optimal_stretch`, for
several r_k at once; duality of the single-machine problem f_max.)

Failures and messages only reduce capacity, so the bounds hold with them too.  The bounds refer to the given
times and speeds.  The simulator rounds the duration of a task to whole nanoseconds, so a run may be faster by
these rounding errors.

Floating point: the search (`gridsim.optimization.bound_search`) computes in floats, but each (k, J) is a
certificate however it was found, and its value is computed in exact fractions and rounded down.  A result is
therefore never above the exact bound, and below it only if rounding affects the choice of (k, J).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gridsim.optimization.bound_search import (
    BoundSearch,
    MigrationSlots,
    Slots,
    WholeTasks,
    exact_sum,
    single_application_bound,
    size_thresholds,
)
from gridsim.support.arrays import Floats, Integers, first_true

#: Maximum number of applications for which a summary contains the lower bound.
BOUND_LIMIT = 5000
#: Maximum number of pairs of an application and a machine for which "best" is the discrete bound; that many
#: take about 0.2 s.
DISCRETE_LIMIT = 2_000_000


#: Relative difference from which on two bounds, as the search computes them, are known to differ.
_TIE = 1e-9


@dataclass(frozen=True, eq=False)
class Bound:
    """A lower bound with its certificate.

    Parameters
    ----------
    stretch
        The bound, s/Mflop.
    first
        An application of J with the earliest release.
    applications
        J, int64, ascending.
    time
        T(J), s.
    task_size
        None if T(J) is the work of J over the aggregate speed.  Otherwise a size, Mflop: T(J) is the time for
        the tasks of J that are at least this large, each of which counts as a task of this size.
    latency
        Time from a release to the first start, s, with which the bound was computed.
    migration
        Whether T(J) allows tasks to migrate.
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
        """Return the value of the certificate, s/Mflop, recomputed in exact fractions without the search.

        The arguments are those from which the bound was computed.

        Parameters
        ----------
        speeds
            Speed of each machine, or, for a fluid bound, of all together, Mflop/s.

        Raises
        ------
        ValueError
            If the certificate does not apply to these applications, or if its value is not `stretch` (1e-9
            relative).
        """
        if not math.isfinite(self.stretch):
            raise ValueError(f"stretch must be finite, got {self.stretch!r}")
        members = [int(j) for j in self.applications]
        if not members or min(members) < 0 or max(members) >= len(release) or self.first not in members:
            raise ValueError(
                f"applications must be in 0..{len(release) - 1} and contain {self.first}, got {members}"
            )
        releases = [Fraction(float(release[j])) for j in members]
        start = Fraction(float(release[self.first]))
        if min(releases) < start:
            raise ValueError(f"first must be an application with the earliest release, got {self.first}")
        machines = np.atleast_1d(np.asarray(speeds, dtype=np.float64))
        if self.task_size is None:
            work = sum((Fraction(float(size[j])) for j in members), Fraction(0))
            time = work / exact_sum(machines)
        elif task_size is None or tasks is None:
            raise ValueError("a bound by task size requires task_size and tasks")
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
            raise ValueError(
                f"stretch must be that of its certificate, {float(value)!r}, got {self.stretch!r}"
            )
        return value


def fluid_bound(release: Any, size: Any, aggregate_speed: float, *, latency: float = 0.0) -> Bound:
    """Return the smallest possible maximum stretch on one machine that divides and preempts work at will.

    It takes O(n^2) time per pass, usually 2 to 7 passes, and O(n) memory.

    Parameters
    ----------
    release
        Releases of n applications, s, in any order.
    size
        Sizes of the applications, Mflop, > 0.
    aggregate_speed
        Speed of that machine, Mflop/s, > 0.
    latency
        Minimum time from a release to the first start, s, >= 0; 0 is always valid.

    Raises
    ------
    ValueError
        If an argument is invalid; the error names argument, index and value.
    """
    releases, sizes = _applications(release, size)
    speed = _number("aggregate_speed", aggregate_speed, "Mflop/s", positive=True)
    wait = _number("latency", latency, "s")
    with np.errstate(over="ignore", invalid="ignore"):
        members, _ = BoundSearch(releases, sizes, speed, wait).run()
        return exact_bound(releases, sizes, members, exact_sum(sizes[members]) / Fraction(speed), wait)


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
    """Return the largest of three bounds: by whole tasks, by work, and by a single application.

    The bound by whole tasks: let q tasks of J be at least as large as a.  They take at least as long as q
    tasks of size a that the machines process one by one: a times the q-th smallest of {m / s_u}, m = 1, 2,
    ...  If tasks may migrate, they take at least a q over the speed of the min(q, m) fastest of m machines
    (Horvath, Lam and Sethi, J. ACM 24(1), 1977).  This holds for each a, and therefore for the maximum over
    any set of sizes; fewer sizes only make the bound less tight.  The sizes are all task sizes or, if there
    are more than `thresholds`, the smallest in each of `thresholds` equal parts of the applications in order
    of task size.  The bound by work is `fluid_bound`.  The bound by a single application uses its own task
    size.

    It takes O(n^2 thresholds) time per pass, without migration another O(m) for each relevant q, and
    O(n thresholds + m) memory.

    Parameters
    ----------
    release
        Releases of n applications, s, in any order.
    size
        Sizes of the applications, Mflop, at least tasks * task_size; the rest is divisible work.
    task_size
        Task sizes of the applications, Mflop, > 0.
    tasks
        Numbers of tasks of the applications, whole, > 0.
    speeds
        Speeds of m machines, Mflop/s, > 0.
    thresholds
        Maximum number of task sizes to try, >= 1.
    latency
        Minimum time from a release to the first start, s, >= 0; 0 is always valid.
    migration
        Whether a task that has begun may continue on another machine; a machine still works on one task at a
        time, and a task is on one machine at a time.

    Raises
    ------
    ValueError
        If an argument is invalid; the error names argument, index and value.
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
        whole_tasks_data = WholeTasks(lengths, counts, size_thresholds(lengths, int(thresholds)), slots)
        single, floor = single_application_bound(whole_tasks_data, sizes, wait)
        search = BoundSearch(releases, sizes, slots.speed, wait, whole_tasks_data, floor)
        members, threshold = search.run()
        bounds = []
        # exact values take long, and only those of the largest bound are needed
        if not search.value <= floor * (1 - _TIE):
            if threshold is None:
                time = exact_sum(sizes[members]) / exact_sum(machines)
            else:
                time = Fraction(threshold) * slots.exact_lower_end(
                    int(counts[members][lengths[members] >= threshold].sum())
                )
            bounds.append(exact_bound(releases, sizes, members, time, wait, threshold, migration))
        if not bounds or floor > bounds[0].stretch * (1 - _TIE):
            time = Fraction(float(lengths[single])) * slots.exact_lower_end(int(counts[single]))
            member = np.array([single], dtype=np.int64)
            length = float(lengths[single])
            bounds.append(exact_bound(releases, sizes, member, time, wait, length, migration))
        return max(bounds, key=lambda bound: bound.stretch)


def shared_discrete_bound(*columns: Any, migration: bool) -> Bound:
    """Return `discrete_bound`, computed once for consecutive results that have the same columns.

    The results of a comparison have the same applications and machines.
    """
    return _discrete_bound(*(np.asarray(column, np.float64).tobytes() for column in columns), migration)


@lru_cache(maxsize=1)
def _discrete_bound(
    release: bytes, size: bytes, task_size: bytes, tasks: bytes, speeds: bytes, migration: bool
) -> Bound:
    columns = (np.frombuffer(column) for column in (release, size, task_size, tasks, speeds))
    return discrete_bound(*columns, migration=migration)


# -- values of certificates -----------------------------------------------------------------------------


def _exact_end(count: int, speeds: Floats) -> Fraction:
    """Return the exact count-th smallest of {m / s_u}, after skipping values that are certainly smaller."""
    total, machines = exact_sum(speeds), Counter(speeds.tolist())
    end, next_ends = Fraction(0), []
    for speed, machines_of_speed in machines.items():
        exact = Fraction(speed)
        preceding = math.floor(count * exact / total)
        preceding_count = preceding * machines_of_speed
        end = max(end, preceding / exact)
        next_ends.append(((preceding + 1) / exact, exact, machines_of_speed, preceding_count))
    remaining = count - sum(entry[3] for entry in next_ends)
    heap = [entry[:3] for entry in next_ends]
    heapq.heapify(heap)
    while remaining > 0:
        end, exact, machines_of_speed = heap[0]
        remaining -= machines_of_speed
        heapq.heapreplace(heap, (end + 1 / exact, exact, machines_of_speed))
    return end


def exact_bound(
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
        duration, sizes = float(time) + latency, size[members]
        waits = release[first] - release[members]
        values = (waits + duration) / sizes
        errors = 2e-15 * (duration - waits) / sizes  # exceeds all rounding errors of `values`
        candidates = members[~(values - errors > (values + errors).min())].tolist()
        end = Fraction(float(release[first])) + Fraction(latency) + time
        value = min((end - Fraction(float(release[j]))) / Fraction(float(size[j])) for j in candidates)
        stretch = float(value)
    except OverflowError:
        raise ValueError(
            "size and speeds must give a finite time and stretch, got one above 1.8e308"
        ) from None
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
    for i in first_true(counts != np.floor(counts)):
        raise ValueError(f"tasks[{i}] must be a whole number, got {float(counts[i])!r}")
    if not counts.sum() <= 2**53:
        raise ValueError(f"the sum of tasks must be at most 2**53, got {float(counts.sum())!r}")
    for i in first_true(~(size >= counts * lengths * (1 - 1e-9))):
        expected = f"at least tasks * task_size = {float(counts[i] * lengths[i])!r} Mflop"
        raise ValueError(f"size[{i}] must be {expected}, got {float(size[i])!r}")
    return lengths, counts


def _column(name: str, values: Any, unit: str, *, positive: bool = False, rows: int | None = None) -> Floats:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        text = repr(values)
        raise ValueError(f"{name} must be a list of numbers, got {text[:60]}") from None
    if column.ndim != 1 or not len(column):
        raise ValueError(f"{name} must be a list of at least one number, got the shape {column.shape}")
    if rows is not None and len(column) != rows:
        raise ValueError(f"{name} must have {rows} numbers, as release has, got {len(column)}")
    valid = np.isfinite(column) & (column > 0) if positive else np.isfinite(column)
    for i in first_true(~valid):
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
        raise ValueError(f"{name} must have a finite sum, got a maximum of {float(values.max())!r}") from None
