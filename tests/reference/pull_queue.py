"""Reference implementation of `gridcore.centralized.pull_queue`: the same results, one task at a time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import doubles, integers

__all__ = ["PullQueue"]


def duration(task_size: float, speed: float) -> int:
    """Return the duration of a task, ns; `NEVER` if it is 9.2e18 ns or more."""
    ns = task_size / speed * 1e9
    return round(ns) if ns < 9.2e18 else NEVER


class PullQueue:
    """Reference implementation of `gridcore.centralized.pull_queue.PullQueue`."""

    def __init__(self, speed: ArrayLike, applications: SupportsIndex, *, log: bool = False) -> None:
        self._speed = doubles(speed)
        self.machines = len(self._speed)
        self.applications = index(applications)
        self.log = log
        self.now = 0
        self._by_rank = sorted(range(self.machines), key=lambda u: (-self._speed[u], u))
        # Free machines are sorted by rank, busy machines by (end, rank).
        self._idle = list(range(self.machines))
        self._heap: list[tuple[int, int]] = []
        self._free = [0] * self.machines
        self._busy = [0] * self.machines
        self._done = [0] * self.machines
        self._interrupted = [0] * self.machines
        self._first_start = [-1] * self.applications
        self._started = [0] * self.applications
        self._nodes: list[set[int]] = [set() for _ in range(self.applications)]
        # Per application, the ends of tasks that were not lost; per machine, the application of its last
        # task.
        self._ends: list[list[int]] = [[] for _ in range(self.applications)]
        self._running = [-1] * self.machines
        self._down: set[int] = set()
        self._log: list[tuple[int, int, int, int]] = []

    @property
    def free_at(self) -> Integers:
        return np.array(self._free, np.int64)

    def backlog(self, now: int) -> float:
        work = 0.0
        for end, speed in zip(self._free, self._speed, strict=True):
            if end > now:
                work += (end - now) / 1e9 * speed
        return work

    def totals(self) -> dict[str, Integers]:
        columns = {
            "first_start": self._first_start,
            "finish": [max([-1, *ends]) for ends in self._ends],
            "completed": self._started,
            "nodes_used": [len(nodes) for nodes in self._nodes],
            "busy": self._busy,
            "tasks": self._done,
            "interrupted": self._interrupted,
        }
        return {name: np.array(column, np.int64) for name, column in columns.items()}

    def starts(self) -> tuple[Integers, Integers, Integers, Integers]:
        machine, application, start, end = np.array(self._log, np.int64).reshape(-1, 4).T.copy()
        return machine, application, start, end

    def run(self, until: int, order: ArrayLike, left: Integers, task_size: ArrayLike) -> int:
        priority = integers(order)
        size = doubles(task_size)
        if until <= self.now:
            return 0
        while self._heap and self._heap[0][0] <= self.now:
            heappush(self._idle, heappop(self._heap)[1])
        count = 0
        for i in priority:
            while left[i] > 0:
                if self._idle:
                    at, rank = self.now, self._idle[0]
                elif self._heap and self._heap[0][0] < until:
                    at, rank = self._heap[0]
                else:
                    break
                end = self._start(i, rank, at, size[i])
                left[i] -= 1
                count += 1
                if not self._idle:
                    heapreplace(self._heap, (end, rank))
                elif end > self.now:
                    heappop(self._idle)
                    heappush(self._heap, (end, rank))
        self.now = until
        return count

    def run_released(
        self,
        until: int,
        released: ArrayLike,
        left: Integers,
        task_size: ArrayLike,
        first: int,
        n_released: int,
        waiting: int,
    ) -> tuple[int, int, int, int]:
        at = integers(released)
        peak = waiting
        if until <= self.now:
            return first, n_released, waiting, peak
        for instant in sorted({instant for instant in at[n_released:] if instant < until}):
            waiting -= self.run(instant, range(first, n_released), left, task_size)
            while n_released < self.applications and at[n_released] == instant:
                waiting += int(left[n_released])
                n_released += 1
            peak = max(peak, waiting)
        waiting -= self.run(until, range(first, n_released), left, task_size)
        while first < self.applications and left[first] == 0:
            first += 1
        return first, n_released, waiting, peak

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers]:
        lost = []
        for u in integers(machines):
            if u not in self._down and self._free[u] > now:
                i = self._running[u]
                lost.append((u, i))
                self._busy[u] -= self._free[u] - now
                self._done[u] -= 1
                self._interrupted[u] += 1
                self._started[i] -= 1
                self._ends[i].remove(self._free[u])
                self._free[u] = now
            self._down.add(u)
        self._heap = [(end, rank) for end, rank in self._heap if self._by_rank[rank] not in self._down]
        self._idle = [rank for rank in self._idle if self._by_rank[rank] not in self._down]
        heapify(self._heap)
        heapify(self._idle)
        machine, application = np.array(lost, np.int64).reshape(-1, 2).T.copy()
        return machine, application

    def restore(self, machines: ArrayLike, now: int) -> None:
        for u in integers(machines):
            if u in self._down:
                self._down.remove(u)
                heappush(self._idle, self._by_rank.index(u))

    def _start(self, i: int, rank: int, at: int, task_size: float) -> int:
        u = self._by_rank[rank]
        length = duration(task_size, self._speed[u])
        end = at + length
        self._free[u] = end
        self._busy[u] += length
        self._done[u] += 1
        if self._first_start[i] < 0:
            self._first_start[i] = at
        self._started[i] += 1
        self._ends[i].append(end)
        self._running[u] = i
        self._nodes[i].add(u)
        if self.log:
            self._log.append((u, i, at, end))
        return end
