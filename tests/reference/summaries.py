"""Reference implementation of `gridcore.fair_tree.summaries`: the same operations in the same order."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gridcore.queues.summary_grid import SummaryGrid
from tests.reference.arguments import (
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    check_array,
    check_lengths,
    check_scalar,
    doubles,
    integers,
)
from tests.reference.availability import TOP, Summary, check_grid

BIG = 2**63 - 1


# --- checks ---------------------------------------------------------------------------------------


def _as_cells(values: Any, name: str) -> Summary:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.size and (array.min() < 0 or array.max() > TOP):
        worst = array.min() if array.min() < 0 else array.max()
        where = ", ".join(str(i) for i in np.argwhere(array == worst)[0].tolist())
        raise ValueError(f"{name}[{where}] must lie between 0 and {TOP}, got {worst}")
    return array.astype(np.uint32)


def _as_summary(summary: Any, grid: SummaryGrid) -> Summary:
    array = _as_cells(summary, "summary")
    if array.shape != check_grid(grid).shape:
        raise ValueError(f"summary must have the shape of its grid {grid.shape}, got {array.shape}")
    return array


def _as_counts(values: Any, name: str) -> list[int]:
    counts = integers(values, name)
    for where, value in enumerate(counts):
        if value < 0:
            raise ValueError(f"{name}[{where}] must be >= 0, got {value}")
    return counts


def _whole(value: Any, name: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


# --- aggregation and look-up ----------------------------------------------------------------------


def aggregate(children: npt.ArrayLike | Sequence[Summary]) -> Summary:
    """Return the sum of summaries over the first axis, saturating at 2**32 - 1."""
    array = _as_cells(children, "children")
    if array.ndim < 2:
        raise ValueError(f"children must have at least two dimensions, got {array.ndim}")
    total = np.zeros(array.shape[1:], dtype=np.uint64)
    for child in array:
        total = np.minimum(total + child, np.uint64(TOP))
    return total.astype(np.uint32)


def aggregate_into(out: Summary, children: npt.ArrayLike | Sequence[Summary]) -> Summary:
    """Write `aggregate` into ``out`` (writable, C-contiguous uint32) and return it."""
    total = aggregate(children)
    if not isinstance(out, np.ndarray) or out.dtype != np.uint32:
        raise TypeError("out must be a uint32 array")
    if out.shape != total.shape:
        raise ValueError(f"out must have the shape of one child {total.shape}, got {out.shape}")
    if not out.flags.carray:  # aligned, too
        raise ValueError("out must be C-contiguous and writable")
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
    """Return how many tasks the summary guarantees for an application, never more than fit."""
    cells = _as_summary(summary, grid)
    stretch, size, task_size = float(stretch), float(size), float(task_size)
    release, cell_release = float(release), float(cell_release)
    check_scalar(stretch, "stretch", NOT_NEGATIVE)
    check_scalar(size, "size", POSITIVE)
    check_scalar(task_size, "task_size", POSITIVE)
    check_scalar(release, "release", FINITE)
    check_scalar(cell_release, "cell_release", FINITE)
    if speed is not None:
        check_scalar(float(speed), "speed", POSITIVE)
    if leaves is not None:
        leaves = _whole(leaves, "leaves")
        if leaves < 1:
            raise ValueError(f"leaves must be >= 1, got {leaves}")
    if longest_task is not None:
        check_scalar(float(longest_task), "longest_task", NOT_NEGATIVE)
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
    counts = _as_counts(totals, "totals")
    n_tasks = _whole(n_tasks, "n_tasks")
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    for i in range(1, len(counts)):
        if counts[i] < counts[i - 1]:
            raise ValueError(f"totals must not decrease, got totals[{i}] = {counts[i]} after {counts[i - 1]}")
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
    room = _as_counts(available, "available")
    n_tasks = _whole(n_tasks, "n_tasks")
    if n_tasks < 0:
        raise ValueError(f"n_tasks must be >= 0, got {n_tasks}")
    everything = sum(room)
    if n_tasks > everything:
        raise ValueError(f"n_tasks must be <= the sum of available {everything}, got {n_tasks}")
    if n_tasks > BIG:
        raise ValueError(f"n_tasks must be < 2**63, got {n_tasks}")
    if n_tasks == 0:
        return np.zeros(len(room), dtype=np.int64)
    share = [n_tasks * count // everything for count in room]
    remainder = [n_tasks * count % everything for count in room]
    missing = n_tasks - sum(share)
    for i in sorted(range(len(room)), key=lambda i: (-remainder[i], i))[:missing]:
        share[i] += 1
    return np.array(share, dtype=np.int64)


# --- debit ----------------------------------------------------------------------------------------


def _debts(tasks: Any, task_size: Any, leaves: Any) -> tuple[list[int], list[float], int]:
    given = np.atleast_1d(np.asarray(tasks))
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"tasks must hold integers, got dtype {given.dtype}")
    if given.ndim != 1:
        raise ValueError(f"tasks must be a number or have one dimension, got {given.ndim}")
    counts: list[int] = given.tolist()
    for i, value in enumerate(counts):
        if not 0 <= value <= BIG:
            raise ValueError(f"tasks[{i}] must be >= 0 and < 2**63, got {value}")
    sizes = doubles(np.atleast_1d(np.asarray(task_size)), "task_size")
    check_lengths(len(counts), len(sizes), "tasks", "task_size")
    check_array(sizes, "task_size", POSITIVE)
    leaves = _whole(leaves, "leaves")
    if leaves < 1:
        raise ValueError(f"leaves must be >= 1, got {leaves}")
    return counts, sizes, leaves


def _drop(counts: Sequence[int], sizes: Sequence[float], cell: float, leaves: int) -> int:
    each, volume = 0, 0.0
    for count, size in zip(counts, sizes, strict=True):
        up = _quotient_up(size, cell)
        if not math.isfinite(up):
            raise OverflowError("task_size is too large for the task size of a cell")
        each += count * int(up)
        volume += float(count) * size
    up = _quotient_up(volume, cell)
    if not math.isfinite(up):
        raise OverflowError("task_size is too large for the task size of a cell")
    return min(each, int(up) + min(sum(counts), leaves) - 1) if sum(counts) else 0


def owed_drop(counts: Sequence[int], sizes: Sequence[float], cell: float, leaves: int) -> int:
    """Return the tasks that debts displace; `TOP` if the number is greater."""
    each = sum(count * _quotient_up(size, cell) for count, size in zip(counts, sizes, strict=True))
    volume = sum(count * size for count, size in zip(counts, sizes, strict=True))
    return int(min(float(TOP), each, _quotient_up(volume, cell) + min(sum(counts), leaves) - 1))


def debit_drop(tasks: npt.ArrayLike, task_size: npt.ArrayLike, cell_task_size: float, leaves: int) -> int:
    """Return the most tasks of ``cell_task_size`` that dispatches to a subtree can displace."""
    counts, sizes, leaves = _debts(tasks, task_size, leaves)
    check_scalar(float(cell_task_size), "cell_task_size", POSITIVE)
    return _drop(counts, sizes, float(cell_task_size), leaves)


def _printed(count: int, task_size: float, cell: float) -> int:
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
    cells = _as_summary(summary, grid)
    counts, sizes, leaves = _debts(tasks, task_size, leaves)
    w = doubles(np.atleast_1d(np.asarray(size)), "size")
    s = doubles(np.atleast_1d(np.asarray(stretch)), "stretch")
    check_lengths(len(counts), len(w), "tasks", "size")
    check_lengths(len(counts), len(s), "tasks", "stretch")
    ages = [0.0] * len(counts) if age is None else doubles(np.atleast_1d(np.asarray(age)), "age")
    check_lengths(len(counts), len(ages), "tasks", "age")
    check_array(ages, "age", NOT_NEGATIVE)
    check_array(w, "size", POSITIVE)
    check_array(s, "stretch", NOT_NEGATIVE)
    if rule not in ("subtree", "printed"):
        raise ValueError(f"rule must be 'subtree' or 'printed', got {rule!r}")
    drops = []
    for cell in grid.task_size.tolist():
        if rule == "printed":
            drops.append(sum(_printed(count, a, cell) for count, a in zip(counts, sizes, strict=True)))
        else:
            drops.append(_drop(counts, sizes, cell, leaves))
    left = np.maximum(0, cells.astype(np.int64) - [min(drop, TOP) for drop in drops])
    return left.astype(np.uint32) if rule == "printed" else closed(left, grid, counts, w, s, ages)


def closed(
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
