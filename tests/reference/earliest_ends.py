"""Reference implementation of `gridcore.centralized.earliest_ends`: the same results, one task at a time."""

from __future__ import annotations

from heapq import heapify, heapreplace
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from tests.reference.arguments import doubles
from tests.reference.pull_queue import duration

__all__ = ["EarliestEnds", "bind_earliest"]


def bind_earliest(
    free_at: Integers, speed: ArrayLike, task_size: float, n_tasks: SupportsIndex, now: int
) -> Integers:
    speeds = doubles(speed)
    count = index(n_tasks)
    tasks = np.zeros(len(speeds), np.int64)
    length = [duration(task_size, s) for s in speeds]
    heap = [(max(int(at), now) + length[u], u) for u, at in enumerate(free_at)]
    heapify(heap)
    ends: dict[int, int] = {}
    for _ in range(count):
        end, u = heap[0]
        tasks[u] += 1
        ends[u] = end
        heapreplace(heap, (end + length[u], u))
    for u, end in ends.items():
        free_at[u] = end
    return tasks


class EarliestEnds:
    """Reference implementation of `EarliestEnds`, which examines all machines for each task."""

    def __init__(self, speed: ArrayLike) -> None:
        self.speed = doubles(speed)
        self.machines, self.kinds, self.now = len(self.speed), len(set(self.speed)), 0
        self._up: list[bool] = [False] * self.machines

    def restart(self, free_at: Integers, up: ArrayLike, now: int) -> None:
        is_up = np.asarray(up, np.bool_).tolist()
        self.now, self._up = now, is_up

    def bind(self, free_at: Integers, task_size: float, n_tasks: SupportsIndex, now: int) -> Integers:
        count = index(n_tasks)
        self.now, machines = now, []
        for _ in range(count):
            ends = [
                (max(int(free_at[u]), now) + duration(task_size, speed), u)
                for u, speed in enumerate(self.speed)
                if self._up[u]
            ]
            end, u = min(ends)
            free_at[u] = end
            machines.append(u)
        return np.array(machines, np.int64)
