"""Reference implementation of `gridcore.queues.availability`: the same operations in the same order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.arguments import (
    doubles,
    integers,
)
from tests.reference.edf import (
    Queue,
    deadlines_at,
    edf_order,
    is_feasible_at,
    make_queue,
)

Summary = npt.NDArray[np.uint32]
TOP = 2**32 - 1


def queue_gap(queue: Queue, stretch: float, release_new: float, size_new: float) -> float:
    start = max(queue.free_at, release_new)
    if not is_feasible_at(queue, start, stretch):
        return 0.0
    deadline = release_new + stretch * size_new
    deadlines = deadlines_at(queue, stretch)
    completed = work_before = 0.0
    capacity = math.inf
    for i in edf_order(deadlines):
        if queue.work[i] > 0.0:
            completed += queue.work[i]
            if deadlines[i] <= deadline:
                work_before = completed
            else:
                capacity = min(capacity, (deadlines[i] - start) * queue.speed - completed)
    return max(0.0, min(capacity, (deadline - start) * queue.speed - work_before))


def gap(
    stretch: float,
    release_new: float,
    size_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> float:
    """Return the work h (Mflop) of a new application that a queue can take at a stretch (Algorithm 3)."""
    queue = make_queue(release, size, work, speed, free_at, running_release, running_size)
    return queue_gap(queue, stretch, release_new, size_new)


def available_tasks(
    stretch: float,
    release_new: float,
    size_new: float,
    task_size_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> int:
    """Return the number of whole tasks of ``task_size_new`` Mflop that fit into the gap: floor(h / a)."""
    queue = make_queue(release, size, work, speed, free_at, running_release, running_size)
    return math.floor(queue_gap(queue, stretch, release_new, size_new) / task_size_new)


def _sample(grid: SummaryGrid, release_new: float, queue: Queue) -> Summary:
    result = np.zeros(grid.shape, dtype=np.uint32)
    for i, stretch in enumerate(grid.stretch.tolist()):
        for j, size in enumerate(grid.size.tolist()):
            capacity = queue_gap(queue, stretch, release_new, size)
            for k, task_size in enumerate(grid.task_size.tolist()):
                ratio = capacity / task_size
                result[i, j, k] = TOP if ratio >= TOP else math.floor(ratio)
    return result


def sample_availability(
    grid: SummaryGrid,
    release_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> Summary:
    """Return the summary of one queue: `available_tasks` at each point of the grid, uint32[nS, nW, nA]."""
    queue = make_queue(release, size, work, speed, free_at, running_release, running_size)
    return _sample(grid, float(release_new), queue)


def sample_availability_batch(
    grid: SummaryGrid,
    release_new: float,
    offsets: npt.ArrayLike,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: npt.ArrayLike,
    free_at: npt.ArrayLike,
    running_release: npt.ArrayLike | None = None,
    running_size: npt.ArrayLike | None = None,
    threads: int = 1,
) -> Summary:
    """Return the summaries of many queues, uint32[nodes, nS, nW, nA]; ``threads`` is not used here."""
    release_new = float(release_new)
    r, w, p = doubles(release), doubles(size), doubles(work)
    s, b = doubles(speed), doubles(free_at)
    off = integers(offsets)
    nodes = len(off) - 1
    rr, rw = [math.nan] * nodes, [math.nan] * nodes
    if running_release is not None or running_size is not None:
        rr, rw = doubles(running_release), doubles(running_size)
    result = np.zeros((nodes, *grid.shape), dtype=np.uint32)
    for u in range(nodes):
        part = slice(off[u], off[u + 1])
        floor = 0.0 if math.isnan(rr[u]) else max(0.0, (b[u] - rr[u]) / rw[u])
        queue = Queue(r[part], w[part], p[part], s[u], b[u], floor)
        result[u] = _sample(grid, release_new, queue)
    return result
