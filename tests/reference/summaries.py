"""Reference implementation of `gridcore.fair_tree.summaries`: the same operations in the same order."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.arguments import (
    doubles,
    integers,
)
from tests.reference.availability import TOP, Summary

# --- aggregation and look-up ----------------------------------------------------------------------


def aggregate(children: npt.ArrayLike | Sequence[Summary]) -> Summary:
    """Return the sum of summaries over the first axis, saturating at 2**32 - 1."""
    array = np.asarray(children, np.uint32)
    total = np.zeros(array.shape[1:], dtype=np.uint64)
    for child in array:
        total = np.minimum(total + child, np.uint64(TOP))
    return total.astype(np.uint32)


def aggregate_into(out: Summary, children: npt.ArrayLike | Sequence[Summary]) -> Summary:
    """Write `aggregate` into ``out`` (writable, C-contiguous uint32) and return it."""
    total = aggregate(children)
    out[...] = total
    return out


def _quotient_up(value: float, by: float) -> float:
    """Return ceil(value / by), exact below 2**53, since the remainder is exact."""
    if math.isinf(value):
        return value
    rest = math.fmod(value, by)
    whole = (value - rest) / by
    return whole if math.isinf(whole) else float(round(whole)) + (1.0 if rest > 0.0 else 0.0)


def lookup(
    summary: npt.ArrayLike,
    grid: SummaryGrid,
    stretch: float,
    size: float,
    task_size: float,
    *,
    release: float,
    cell_release: float,
    speed: float | None = None,
    leaves: int | None = None,
    longest_task: float | None = None,
) -> int:
    """Return the number of tasks that the summary guarantees for an application, never more than fit."""
    cells = np.asarray(summary, np.uint32)
    stretch, size, task_size = float(stretch), float(size), float(task_size)
    release, cell_release = float(release), float(cell_release)
    i = bisect_right(grid.stretch.tolist(), stretch) - 1
    k = bisect_left(grid.task_size.tolist(), task_size)
    if i < 0 or k == len(grid.task_size):
        return 0
    shift = release - cell_release
    j = bisect_right(grid.size.tolist(), size + shift / stretch) - 1
    if j < 0:
        return 0
    count = int(cells[i, j, k])
    if shift <= 0.0 or count == 0:
        return count
    if speed is None or leaves is None or longest_task is None:
        return 0
    volume = float(speed) * shift + float(leaves) * float(longest_task)
    lost = _quotient_up(volume, float(grid.task_size[k])) + (float(leaves) - 1.0)
    return 0 if lost >= count else count - int(lost)


# --- Algorithm 4 and shares -----------------------------------------------------------------------


def lowest_stretch(totals: npt.ArrayLike, n_tasks: int) -> int | None:
    """Return the index of the lowest stretch that guarantees ``n_tasks``, or None (Algorithm 4)."""
    counts = integers(totals)
    if not counts or counts[-1] < n_tasks:
        return None
    lo, hi = 0, len(counts) - 1
    while lo < hi:
        mid = (lo + hi) // 2
        if counts[mid] >= n_tasks:
            hi = mid
        else:
            lo = mid + 1
    return lo


def split(available: npt.ArrayLike, n_tasks: int) -> npt.NDArray[np.int64]:
    """Split ``n_tasks`` in proportion to ``available`` by largest remainder."""
    capacity = integers(available)
    everything = sum(capacity)
    if n_tasks == 0:
        return np.zeros(len(capacity), dtype=np.int64)
    share = [n_tasks * count // everything for count in capacity]
    remainder = [n_tasks * count % everything for count in capacity]
    missing = n_tasks - sum(share)
    for i in sorted(range(len(capacity)), key=lambda i: (-remainder[i], i))[:missing]:
        share[i] += 1
    return np.array(share, dtype=np.int64)


# --- debit ----------------------------------------------------------------------------------------


def _debts(tasks: Any, task_size: Any) -> tuple[list[int], list[float]]:
    return integers(np.atleast_1d(tasks)), doubles(np.atleast_1d(task_size))


def _drop(counts: Sequence[int], sizes: Sequence[float], cell: float, leaves: int) -> int:
    each, volume = 0, 0.0
    for count, size in zip(counts, sizes, strict=True):
        up = _quotient_up(size, cell)
        each += count * int(up)
        volume += float(count) * size
    up = _quotient_up(volume, cell)
    return min(each, int(up) + min(sum(counts), leaves) - 1) if sum(counts) else 0


def debit_drop(tasks: npt.ArrayLike, task_size: npt.ArrayLike, cell_task_size: float, leaves: int) -> int:
    """Return the maximum number of tasks of ``cell_task_size`` that dispatches to a subtree can displace."""
    counts, sizes = _debts(tasks, task_size)
    return _drop(counts, sizes, float(cell_task_size), leaves)


def _paper_count(count: int, task_size: float, cell: float) -> int:
    """Return the paper's ceil(N*a/a_B)."""
    if cell == task_size:
        return count
    up = _quotient_up(float(count) * cell, task_size)
    return int(up) if math.isfinite(up) else TOP


def debit(
    summary: npt.ArrayLike,
    grid: SummaryGrid,
    *,
    tasks: npt.ArrayLike,
    task_size: npt.ArrayLike,
    size: npt.ArrayLike,
    stretch: npt.ArrayLike,
    leaves: int,
    age: npt.ArrayLike | None = None,
    rule: Literal["subtree", "printed"] = "subtree",
) -> Summary:
    """Return a child's summary after tasks were dispatched to it, still a lower bound."""
    cells = np.asarray(summary, np.uint32)
    counts, sizes = _debts(tasks, task_size)
    w = doubles(np.atleast_1d(size))
    s = doubles(np.atleast_1d(stretch))
    ages = [0.0] * len(counts) if age is None else doubles(np.atleast_1d(age))
    drops = []
    for cell in grid.task_size.tolist():
        if rule == "printed":
            drops.append(sum(_paper_count(count, a, cell) for count, a in zip(counts, sizes, strict=True)))
        else:
            drops.append(_drop(counts, sizes, cell, leaves))
    left = np.maximum(0, cells.astype(np.int64) - [min(drop, TOP) for drop in drops])
    return left.astype(np.uint32) if rule == "printed" else closed_cells(left, grid, counts, w, s, ages)


def closed_cells(
    result: npt.NDArray[np.int64],
    grid: SummaryGrid,
    counts: Sequence[int],
    w: Sequence[float],
    s: Sequence[float],
    ages: Sequence[float],
) -> Summary:
    """Return the cells behind tasks of sizes w, stretches s and ages (s): at least 0, and as much as in any
    cell that requires more."""
    for i, cell_stretch in enumerate(grid.stretch.tolist()):
        for j, cell_size in enumerate(grid.size.tolist()):
            for count, w_b, s_b, age in zip(counts, w, s, ages, strict=True):
                if count > 0 and cell_stretch < s_b and cell_size > w_b - age / cell_stretch:
                    result[i, j, :] = 0
    result = np.maximum.accumulate(result, axis=0)
    result = np.maximum.accumulate(result, axis=1)
    result = np.maximum.accumulate(result[:, :, ::-1], axis=2)[:, :, ::-1]
    return np.ascontiguousarray(result.astype(np.uint32))
