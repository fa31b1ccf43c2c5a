"""Reference implementation of `gridcore.queues.edf`: the same operations in the same order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gridcore.common.arrays import Floats
from tests.reference.arguments import (
    doubles,
    integers,
)

TOLERANCE = 1e-12
EPSILON = 2.0**-52
SMALLEST = 5e-324


def running_floor(running_release: float | None, running_size: float | None, free_at: float) -> float:
    """Return the least stretch of the pinned running task, which ends at `free_at`; 0 without one."""
    if running_release is None and running_size is None:
        return 0.0
    release, size = float(running_release), float(running_size)
    return max(0.0, (free_at - release) / size)


class Queue(NamedTuple):
    """One node's queue."""

    release: list[float]
    size: list[float]
    work: list[float]
    speed: float
    free_at: float
    floor: float


def make_queue(
    release: Any,
    size: Any,
    work: Any,
    speed: float,
    free_at: float,
    running_release: float | None,
    running_size: float | None,
) -> Queue:
    """Return the queue of these arguments."""
    floor = running_floor(running_release, running_size, free_at)
    return Queue(doubles(release), doubles(size), doubles(work), float(speed), float(free_at), floor)


# --- the algorithms -------------------------------------------------------------------------------


def is_late(end: float, deadline: float) -> bool:
    """Return whether `end` is later than `deadline` by more than 1e-12 relative."""
    return not (end <= deadline or end <= deadline + TOLERANCE * max(abs(end), abs(deadline)))


def deadlines_at(queue: Queue, stretch: float) -> list[float]:
    return [r + stretch * w for r, w in zip(queue.release, queue.size, strict=True)]


def edf_order(deadlines: Sequence[float]) -> list[int]:
    """Return the order of ascending deadlines, ties by index."""
    return sorted(range(len(deadlines)), key=lambda i: (deadlines[i], i))


def value_of(queue: Queue, order: Sequence[int]) -> float:
    """Return the stretch of the queue when served in this order; it is at least the floor."""
    completed, best = 0.0, queue.floor
    for i in order:
        if queue.work[i] > 0.0:
            completed += queue.work[i]
            lag = (queue.free_at + completed / queue.speed) - queue.release[i]
            if lag > best * queue.size[i]:
                best = lag / queue.size[i]
    return best


def is_feasible(queue: Queue, start: float, deadlines: Sequence[float]) -> bool:
    """Return whether EDF from `start` meets the deadlines."""
    completed = 0.0
    for i in edf_order(deadlines):
        if queue.work[i] > 0.0:
            completed += queue.work[i]
            if is_late(start + completed / queue.speed, deadlines[i]):
                return False
    return True


def is_feasible_at(queue: Queue, start: float, stretch: float) -> bool:
    """Return whether the queue and its running task keep the stretch."""
    if stretch + stretch * TOLERANCE < queue.floor:
        return False
    return is_feasible(queue, start, deadlines_at(queue, stretch))


def minimum_stretch(queue: Queue) -> float:
    """Return the minimum stretch by the EDF fixed point."""
    if not queue.release:
        return queue.floor
    stretch = value_of(queue, range(len(queue.release)))
    while True:
        value = value_of(queue, edf_order(deadlines_at(queue, stretch)))
        if not value < stretch:
            break
        stretch = value
    step = EPSILON
    while not is_feasible(queue, queue.free_at, deadlines_at(queue, stretch)):
        stretch += max(stretch * step, SMALLEST)
        step *= 2.0
    return stretch


def bisect(queue: Queue, rtol: float) -> float:
    """Return the result of Algorithm 2 with a relative tolerance, which is feasible."""
    lo = queue.floor
    if is_feasible_at(queue, queue.free_at, lo):
        return lo
    hi = 1.0 if lo < 1.0 else lo
    while not is_feasible_at(queue, queue.free_at, hi):
        lo = hi
        hi *= 2.0
    while hi - lo > rtol * hi:
        mid = lo + (hi - lo) * 0.5
        if not lo < mid < hi:
            break
        if is_feasible_at(queue, queue.free_at, mid):
            hi = mid
        else:
            lo = mid
    return hi


def meets_deadlines(work: npt.ArrayLike, deadlines: npt.ArrayLike, *, speed: float, now: float) -> bool:
    """Return whether every entry of one queue ends by its deadline (Algorithm 1)."""
    p, d = doubles(work), doubles(deadlines)
    speed, now = float(speed), float(now)
    return is_feasible(Queue([], [], p, speed, now, 0.0), now, d)


def optimal_stretch(
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    now: float,
    running_release: float | None = None,
    running_size: float | None = None,
    method: Literal["exact", "bisection"] = "exact",
    rtol: float = 1e-9,
) -> float:
    """Return the minimum stretch (s/Mflop) at which one queue meets all its deadlines."""
    queue = make_queue(release, size, work, speed, now, running_release, running_size)
    if not queue.release:
        return queue.floor
    result = minimum_stretch(queue) if method == "exact" else bisect(queue, float(rtol))
    return result


def project_queues(
    offsets: npt.ArrayLike,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    task_size: npt.ArrayLike,
    *,
    speed: npt.ArrayLike,
    free_at: npt.ArrayLike,
    until: float,
    preemptive: bool = False,
    running_release: npt.ArrayLike | None = None,
    running_size: npt.ArrayLike | None = None,
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return the queues that many nodes will hold at a later instant, if nothing arrives meanwhile."""
    r, w, p = doubles(release), doubles(size), doubles(work)
    a, s, b = doubles(task_size), doubles(speed), doubles(free_at)
    off, until = integers(offsets), float(until)
    nodes = len(off) - 1
    rr, rw = [math.nan] * nodes, [math.nan] * nodes
    if running_release is not None or running_size is not None:
        rr, rw = doubles(running_release), doubles(running_size)

    left, end, running = list(p), [max(x, until) for x in b], [-1] * nodes
    for u in range(nodes):
        entries = slice(off[u], off[u + 1])
        floor = 0.0 if math.isnan(rr[u]) else max(0.0, (b[u] - rr[u]) / rw[u])
        queue = Queue(r[entries], w[entries], p[entries], s[u], b[u], floor)
        if not queue.release or b[u] >= until:
            continue
        stretch = minimum_stretch(queue)
        completed = 0.0
        for k in edf_order(deadlines_at(queue, stretch)):
            at = off[u] + k
            if p[at] <= 0.0:
                continue
            if preemptive:
                available_work = (until - b[u]) * s[u] - completed
                if available_work <= 0.0:
                    break
                if available_work < p[at]:
                    left[at] = p[at] - available_work
                    running[u] = at
                    break
                left[at] = 0.0
                completed += p[at]
                continue
            tasks, m = round(p[at] / a[at]), 0
            while m < tasks and b[u] + (completed + m * a[at]) / s[u] < until:
                m += 1
            if m == 0:
                break
            left[at] = (tasks - m) * a[at]
            completed += m * a[at]
            finish = b[u] + completed / s[u]
            if finish > until:
                end[u], running[u] = finish, at
            if m < tasks:
                break
    return np.array(left, np.float64), np.array(end, np.float64), np.array(running, np.int64)
