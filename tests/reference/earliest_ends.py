"""Reference implementation of `gridcore.centralized.earliest_ends`: the same results, one task at a time."""

from __future__ import annotations

from heapq import heapify, heapreplace
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import writable
from tests.reference.pull_queue import duration, positive

__all__ = ["EarliestEnds", "bind_earliest"]


def bind_earliest(
    free_at: Integers, speed: ArrayLike, task_size: float, n_tasks: SupportsIndex, now: int
) -> Integers:
    """See `gridcore.centralized.earliest_ends.bind_earliest`."""
    writable(free_at, "free_at")
    speeds = positive(speed, "speed")
    if len(free_at) != len(speeds):
        raise ValueError(f"free_at must have as many entries as speed, got {len(free_at)} and {len(speeds)}")
    if not 0.0 < task_size < float("inf"):
        raise ValueError(f"task_size must be finite and > 0, got {task_size!r}")
    count = index(n_tasks)
    if not 0 <= count <= NEVER:
        raise ValueError(f"n_tasks must be >= 0 and < 2**63, got {count}")
    for u, at in enumerate(free_at):
        if at < 0:
            raise ValueError(f"free_at[{u}] must be >= 0, got {at}")
    if now < 0:
        raise ValueError(f"now must be >= 0, got {now}")
    tasks = np.zeros(len(speeds), np.int64)
    if count and not speeds:
        raise ValueError(f"speed must have at least one entry to bind {count} tasks, got none")
    length = [duration(task_size, s) for s in speeds]
    heap = [(max(int(at), now) + length[u], u) for u, at in enumerate(free_at)]
    heapify(heap)
    ends: dict[int, int] = {}
    for _ in range(count):
        end, u = heap[0]
        if end >= NEVER:
            raise OverflowError("a task would end after the last instant, 2**63 - 1 ns")
        tasks[u] += 1
        ends[u] = end
        heapreplace(heap, (end + length[u], u))
    for u, end in ends.items():
        free_at[u] = end
    return tasks


class EarliestEnds:
    """See `gridcore.centralized.earliest_ends.EarliestEnds`: here all machines are examined for each task."""

    def __init__(self, speed: ArrayLike) -> None:
        self.speed = positive(speed, "speed")
        self.machines, self.kinds, self.now = len(self.speed), len(set(self.speed)), 0
        self._up: list[bool] = [False] * self.machines

    def restart(self, free_at: Integers, up: ArrayLike, now: int) -> None:
        """See `gridcore.centralized.earliest_ends.EarliestEnds.restart`."""
        writable(free_at, "free_at")
        is_up = np.asarray(up, np.bool_).tolist()
        for name, values in (("free_at", free_at), ("up", is_up)):
            if len(values) != self.machines:
                raise ValueError(f"{name} must have {self.machines} entries, got {len(values)}")
        if now < 0 or any(at < 0 for at in free_at):
            raise ValueError("now and free_at must be >= 0")
        self.now, self._up = now, is_up

    def bind(self, free_at: Integers, task_size: float, n_tasks: SupportsIndex, now: int) -> Integers:
        """See `gridcore.centralized.earliest_ends.EarliestEnds.bind`."""
        writable(free_at, "free_at")
        count = index(n_tasks)
        if len(free_at) != self.machines or not 0.0 < task_size < float("inf"):
            raise ValueError("free_at must have an entry a machine, and task_size be finite and > 0")
        if not 0 <= count < 2**31 or now < self.now:
            raise ValueError(f"n_tasks must be in 0..2**31 - 1, and now at least {self.now}")
        self.now, machines = now, []
        for _ in range(count):
            ends = [
                (max(int(free_at[u]), now) + duration(task_size, speed), u)
                for u, speed in enumerate(self.speed)
                if self._up[u]
            ]
            if not ends:
                raise ValueError(f"up must be True for at least one machine to bind {count} tasks")
            end, u = min(ends)
            if end >= NEVER:
                raise OverflowError("a task would end after the last instant, 2**63 - 1 ns")
            free_at[u] = end
            machines.append(u)
        return np.array(machines, np.int64)
