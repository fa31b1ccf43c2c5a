"""Reference implementation of `gridcore.centralized.mapping`: the same results, one task at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, isfinite
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Floats, Integers
from tests.reference.arguments import integers

__all__ = ["map_batch", "map_in_turn"]

_IN_TURN = ("mct", "met", "olb", "switching", "kpb")
_BATCH = ("min-min", "max-min", "sufferage")


def map_in_turn(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: Floats,
    rule: Literal["mct", "met", "olb", "switching", "kpb"],
    *,
    percent: float = 20.0,
    low: float = 0.6,
    high: float = 0.9,
    on_met: bool = False,
) -> tuple[Integers, bool]:
    """See `gridcore.centralized.mapping.map_in_turn`."""
    rows, count, at, _ = _check_arguments(etc, counts, ready)
    _check_rule(rule, _IN_TURN)
    if not 0.0 < percent <= 100.0:
        raise ValueError(f"percent must be > 0 and <= 100, got {float(percent)!r}")
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(
            f"low and high must satisfy 0 <= low < high <= 1, got {float(low)!r} and {float(high)!r}"
        )
    machines = range(len(at))
    n_fastest = max(1, ceil(percent * len(at) / 100.0 - 1e-9))
    assignments = []
    for e, tasks in zip(rows, count, strict=True):
        for _ in range(tasks):
            if rule == "switching" and max(at) > 0.0:
                balance = min(at) / max(at)
                on_met = balance > low if on_met else balance >= high
            if rule == "met" or (rule == "switching" and on_met):
                u = min(machines, key=lambda u: e[u])
            elif rule == "olb":
                u = min(machines, key=lambda u: at[u])
            else:
                # sorted() and min() take the first of equals
                eligible = (
                    sorted(sorted(machines, key=lambda u: e[u])[:n_fastest]) if rule == "kpb" else machines
                )
                u = min(eligible, key=lambda u: at[u] + e[u])
            at[u] += e[u]
            assignments.append(u)
    ready[:] = at
    return np.array(assignments, np.int64), bool(on_met)


def map_batch(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: Floats,
    rule: Literal["min-min", "max-min", "sufferage"],
    *,
    kind: ArrayLike | None = None,
) -> tuple[Integers, Integers]:
    """See `gridcore.centralized.mapping.map_batch`."""
    rows, count, at, column = _check_arguments(etc, counts, ready, kind)
    _check_rule(rule, _BATCH)
    waiting = [i for i, tasks in enumerate(count) for _ in range(tasks)]
    assignments: list[tuple[int, int]] = []

    def times(i: int) -> list[float]:
        return [a + rows[i][c] for a, c in zip(at, column, strict=True)]

    def assign(i: int, u: int) -> None:
        at[u] += rows[i][column[u]]
        waiting.remove(i)
        assignments.append((i, u))

    while waiting:
        best = {i: min(times(i)) for i in sorted(set(waiting))}
        if rule == "sufferage":
            for u, i in sorted(_claims(waiting, times, best).items(), key=lambda claim: column[claim[0]]):
                assign(i, u)
        else:
            i = min(best, key=lambda i: best[i]) if rule == "min-min" else max(best, key=lambda i: best[i])
            assign(i, times(i).index(best[i]))
    ready[:] = at
    row, machine = np.array(assignments, np.int64).reshape(-1, 2).T.copy()
    return row, machine


def _claims(
    waiting: list[int], times: Callable[[int], list[float]], best: dict[int, float]
) -> dict[int, int]:
    """Return the row that claims each machine at the end of a pass."""
    suffers = {i: sorted([*times(i), inf])[1] - best[i] for i in best}
    claims: dict[int, int] = {}
    for i in waiting:
        u = times(i).index(best[i])
        if u not in claims or suffers[claims[u]] < suffers[i]:
            claims[u] = i
    return claims


def _check_arguments(
    etc: ArrayLike, counts: ArrayLike, ready: Floats, kind: ArrayLike | None = None
) -> tuple[list[list[float]], list[int], list[float], list[int]]:
    """Return rows, counts, ready times, and the column of each machine, checked."""
    matrix = np.asarray(etc, np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"etc must have two dimensions, got {matrix.ndim}")
    for i, row in enumerate(matrix.tolist()):
        for u, time in enumerate(row):
            if not 0.0 < time < inf:
                raise ValueError(f"etc[{i}, {u}] must be finite and > 0, got {time!r}")
    tasks = integers(counts, "counts")
    for i, count in enumerate(tasks):
        if not 0 <= count < 2**47:
            raise ValueError(f"counts[{i}] must be in 0..{2**47 - 1}, got {count}")
    rows, columns = matrix.shape
    column, like = list(range(columns)), "a row of etc"
    if kind is not None:
        column, like = integers(kind, "kind"), "kind"
        for u, c in enumerate(column):
            if not 0 <= c < columns:
                raise ValueError(f"kind[{u}] must be in 0..{columns - 1}, got {c}")
    if not isinstance(ready, np.ndarray) or ready.dtype != np.float64:
        raise TypeError("ready must be a float64 array that can be changed in place")
    if ready.ndim != 1:
        raise ValueError(f"ready must have one dimension, got {ready.ndim}")
    if not ready.flags.carray:  # aligned, too
        raise ValueError("ready must be contiguous and writable to be changed in place")
    if len(ready) != len(column):
        raise ValueError(f"ready must have as many entries as {like}, got {len(ready)} and {len(column)}")
    for u, at in enumerate(ready.tolist()):
        if not (isfinite(at) and at >= 0.0):
            raise ValueError(f"ready[{u}] must be finite and >= 0, got {at!r}")
    if len(tasks) != rows:
        raise ValueError(f"counts must have as many entries as etc, got {len(tasks)} and {rows}")
    total = 0
    for i, count in enumerate(tasks):
        total += count
        if total >= 2**47:
            raise ValueError(f"the sum of counts must be below 2**47, got {total} up to counts[{i}]")
    if total and not column:
        raise ValueError(f"ready must have at least one entry to map {total} tasks, got none")
    return matrix.tolist(), tasks, ready.tolist(), column


def _check_rule(rule: str, known: tuple[str, ...]) -> None:
    if rule not in known:
        raise ValueError(f"rule must be one of {known}, got {rule!r}")
