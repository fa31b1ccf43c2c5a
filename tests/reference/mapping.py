"""Reference implementation of `gridcore.centralized.mapping`: the same results, one task at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Floats, Integers
from tests.reference.arguments import integers

__all__ = ["map_batch", "map_in_turn"]


def map_in_turn(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: Floats,
    rule: Literal["mct", "met", "olb", "switching", "kpb"],
    *,
    percent: float = 20.0,
    low: float = 0.6,
    high: float = 0.9,
    uses_met: bool = False,
) -> tuple[Integers, bool]:
    rows, count, at, _ = _arguments(etc, counts, ready)
    machines = range(len(at))
    n_fastest = max(1, ceil(percent * len(at) / 100.0 - 1e-9))
    assignments = []
    for e, tasks in zip(rows, count, strict=True):
        for _ in range(tasks):
            if rule == "switching" and max(at) > 0.0:
                balance = min(at) / max(at)
                uses_met = balance > low if uses_met else balance >= high
            if rule == "met" or (rule == "switching" and uses_met):
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
    return np.array(assignments, np.int64), bool(uses_met)


def map_batch(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: Floats,
    rule: Literal["min-min", "max-min", "sufferage"],
    *,
    kind: ArrayLike | None = None,
) -> tuple[Integers, Integers]:
    rows, count, at, column = _arguments(etc, counts, ready, kind)
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


def _arguments(
    etc: ArrayLike, counts: ArrayLike, ready: Floats, kind: ArrayLike | None = None
) -> tuple[list[list[float]], list[int], list[float], list[int]]:
    """Return rows, counts, ready times, and the column of each machine."""
    matrix = np.asarray(etc, np.float64)
    tasks = integers(counts)
    rows, columns = matrix.shape
    column = list(range(columns)) if kind is None else integers(kind)
    return matrix.tolist(), tasks, ready.tolist(), column
