"""Reference implementation of `gridcore.centralized.pull_queue`: the same results, one task at a time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["EarliestEnds", "PullQueue", "bind_earliest"]


def duration(task_size: float, speed: float) -> int:
    """ns of a task; the last instant if it is longer than that."""
    ns = task_size / speed * 1e9
    return round(ns) if ns < 9.2e18 else NEVER


class PullQueue:
    """See `gridcore.centralized.pull_queue.PullQueue`."""

    def __init__(self, speed: ArrayLike, applications: SupportsIndex, *, log: bool = False) -> None:
        self._speed = _positive(speed, "speed")
        self.machines = len(self._speed)
        self.applications = index(applications)
        if not 0 <= self.applications < 2**31:
            raise ValueError(f"applications must be in 0..{2**31 - 1}, got {applications}")
        self.log = log
        self.now = 0
        self._by_rank = sorted(range(self.machines), key=lambda u: (-self._speed[u], u))
        # Free machines by rank, and the others by (end, rank).
        self._idle = list(range(self.machines))
        self._heap: list[tuple[int, int]] = []
        self._free = [0] * self.machines
        self._busy = [0] * self.machines
        self._done = [0] * self.machines
        self._interrupted = [0] * self.machines
        self._first_start = [-1] * self.applications
        self._started = [0] * self.applications
        self._nodes: list[set[int]] = [set() for _ in range(self.applications)]
        # Ends of tasks that were not lost, and the application of each machine's last task.
        self._ends: list[list[int]] = [[] for _ in range(self.applications)]
        self._running = [-1] * self.machines
        self._away: set[int] = set()
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

    def run(
        self, until: int, order: ArrayLike, left: Integers, task_size: ArrayLike, more: bool = False
    ) -> int:
        wanted = [int(i) for i in np.asarray(order)]
        size = [float(a) for a in np.asarray(task_size)]
        _writable(left, "left")
        for name, count in ("left", len(left)), ("task_size", len(size)):
            if count != self.applications:
                raise ValueError(
                    f"{name} must have as many entries as applications, got {count} and {self.applications}"
                )
        for k, i in enumerate(wanted):
            if not 0 <= i < self.applications:
                raise ValueError(f"order[{k}] must be in 0..{self.applications - 1}, got {i}")
            if left[i] < 0:
                raise ValueError(f"left[{i}] must be >= 0, got {left[i]}")
            if not 0.0 < size[i] < float("inf"):
                raise ValueError(f"task_size[{i}] must be finite and > 0, got {size[i]!r}")
        if until <= self.now:
            return 0
        while self._heap and self._heap[0][0] <= self.now:
            heappush(self._idle, heappop(self._heap)[1])
        count = 0
        for i in wanted:
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
        if not more or any(left[i] for i in wanted):
            self.now = until
        return count

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers]:
        lost = []
        for u in self._machines(machines, now):
            if u not in self._away and self._free[u] > now:
                i = self._running[u]
                lost.append((u, i))
                self._busy[u] -= self._free[u] - now
                self._done[u] -= 1
                self._interrupted[u] += 1
                self._started[i] -= 1
                self._ends[i].remove(self._free[u])
                self._free[u] = now
            self._away.add(u)
        self._heap = [(end, rank) for end, rank in self._heap if self._by_rank[rank] not in self._away]
        self._idle = [rank for rank in self._idle if self._by_rank[rank] not in self._away]
        heapify(self._heap)
        heapify(self._idle)
        machine, application = np.array(lost, np.int64).reshape(-1, 2).T.copy()
        return machine, application

    def restore(self, machines: ArrayLike, now: int) -> None:
        for u in self._machines(machines, now):
            if u in self._away:
                self._away.remove(u)
                heappush(self._idle, self._by_rank.index(u))

    def _machines(self, machines: ArrayLike, now: int) -> list[int]:
        wanted = integers(machines, "machines")
        if now != self.now:
            raise ValueError(f"now must be the instant reached, {self.now} ns, got {now}")
        for k, u in enumerate(wanted):
            if not 0 <= u < self.machines:
                raise ValueError(f"machines[{k}] must be in 0..{self.machines - 1}, got {u}")
        return wanted

    def _start(self, i: int, rank: int, at: int, task_size: float) -> int:
        u = self._by_rank[rank]
        length = duration(task_size, self._speed[u])
        end = at + length
        if end > NEVER:
            raise OverflowError("a task ends after the last instant")
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


def bind_earliest(
    free_at: Integers, speed: ArrayLike, task_size: float, n_tasks: SupportsIndex, now: int
) -> Integers:
    """See `gridcore.centralized.pull_queue.bind_earliest`."""
    _writable(free_at, "free_at")
    speeds = _positive(speed, "speed")
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
        raise ValueError(f"speed must have an entry, there are {count} tasks to bind")
    length = [duration(task_size, s) for s in speeds]
    heap = [(max(int(at), now) + length[u], u) for u, at in enumerate(free_at)]
    heapify(heap)
    ends: dict[int, int] = {}
    for _ in range(count):
        end, u = heap[0]
        if end >= NEVER:
            raise OverflowError("a task ends after the last instant")
        tasks[u] += 1
        ends[u] = end
        heapreplace(heap, (end + length[u], u))
    for u, end in ends.items():
        free_at[u] = end
    return tasks


class EarliestEnds:
    """See `gridcore.centralized.pull_queue.EarliestEnds`: here all machines are looked at for each task."""

    def __init__(self, speed: ArrayLike) -> None:
        self.speed = _positive(speed, "speed")
        self.machines, self.kinds, self.now = len(self.speed), len(set(self.speed)), 0
        self._up: list[bool] = [False] * self.machines

    def restart(self, free_at: Integers, up: ArrayLike, now: int) -> None:
        """See `gridcore.centralized.pull_queue.EarliestEnds.restart`."""
        _writable(free_at, "free_at")
        on = np.asarray(up, np.bool_).tolist()
        for name, given in (("free_at", free_at), ("up", on)):
            if len(given) != self.machines:
                raise ValueError(f"{name} must have {self.machines} entries, got {len(given)}")
        if now < 0 or any(at < 0 for at in free_at):
            raise ValueError("now and free_at must be >= 0")
        self.now, self._up = now, on

    def bind(self, free_at: Integers, task_size: float, n_tasks: SupportsIndex, now: int) -> Integers:
        """See `gridcore.centralized.pull_queue.EarliestEnds.bind`."""
        _writable(free_at, "free_at")
        count = index(n_tasks)
        if len(free_at) != self.machines or not 0.0 < task_size < float("inf"):
            raise ValueError("free_at must have an entry a machine, and task_size be finite and > 0")
        if not 0 <= count < 2**31 or now < self.now:
            raise ValueError(f"n_tasks must be in 0..2**31 - 1, and now at least {self.now}")
        self.now, found = now, []
        for _ in range(count):
            ends = [
                (max(int(free_at[u]), now) + duration(task_size, speed), u)
                for u, speed in enumerate(self.speed)
                if self._up[u]
            ]
            if not ends:
                raise ValueError(f"up must have a machine, there are {count} tasks to bind")
            end, u = min(ends)
            if end >= NEVER:
                raise OverflowError("a task ends after the last instant")
            free_at[u] = end
            found.append(u)
        return np.array(found, np.int64)


def _positive(values: ArrayLike, name: str) -> list[float]:
    numbers = [float(x) for x in np.asarray(values)]
    for k, x in enumerate(numbers):
        if not 0.0 < x < float("inf"):
            raise ValueError(f"{name}[{k}] must be finite and > 0, got {x!r}")
    return numbers


def _writable(values: Integers, name: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise TypeError(f"{name} must be an int64 array, it is changed in place")
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {values.ndim}")
    if not values.flags.carray:  # aligned, too
        raise ValueError(f"{name} must be contiguous and writable, it is changed in place")
