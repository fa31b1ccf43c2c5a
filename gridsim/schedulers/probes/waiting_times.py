"""The books of a central scheduler: how long a task would wait at each worker, by the estimates of tasks."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gridsim.support.state import kept_in_checkpoints


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Worker:
    """What was sent to a worker and has not ended."""

    speed: float = 1.0  # Mflop/s
    tasks: int = 0
    total: float = 0.0  # s, the sum of their estimates
    began: float = math.nan  # when one of them began; NaN if none runs
    running: float = 0.0  # s, its estimate

    def add(self, size: float) -> None:
        """Note that a task of `size` Mflop was sent."""
        self.tasks += 1
        self.total += size / self.speed

    def begin(self, size: float, now: float) -> None:
        """Note that a task of `size` Mflop runs from `now` on."""
        self.began, self.running = now, size / self.speed

    def end(self) -> None:
        """Note that it has ended."""
        self.tasks -= 1
        self.total = self.total - self.running if self.tasks else 0.0
        self.began, self.running = math.nan, 0.0


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class Queue:
    """The workers from number `first` on, in order of their waiting times.

    The waiting time of a worker that runs falls with the clock until the estimate of its task is used up, and
    all others stay as they are.  So each kind has a heap.  An entry is outdated once its worker has another
    version.
    """

    first: int
    falling: list[tuple[float, int, int]] = field(default_factory=list)  # waiting time + now, worker, version
    constant: list[tuple[float, int, int]] = field(default_factory=list)  # waiting time, worker, version
    idle: list[int] = field(default_factory=list)  # numbers of workers; some have got a task since
    n_idle: int = 0


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class WaitingTimes:
    """The books on workers; made by `of`.

    The waiting time of a worker is the sum of the estimates of what was sent there and has not ended, less
    the time for which the running task has run, at most its estimate.
    """

    workers: list[Worker]
    version: list[int]
    queues: list[Queue]

    @classmethod
    def of(cls, workers: int, firsts: tuple[int, ...]) -> WaitingTimes:
        """Return the books on `workers` workers; `firsts`: from which numbers on they are asked for."""
        queues = []
        for first in firsts:
            numbers = list(range(first, workers))
            queues.append(Queue(first, [], [(0.0, u, 0) for u in numbers], numbers, len(numbers)))
        return cls([Worker() for _ in range(workers)], [0] * workers, queues)

    def forget(self, u: int, speed: float) -> None:
        """Note that worker `u` has nothing, and its speed (Mflop/s)."""
        worker = self.workers[u]
        if worker.tasks:
            self._becomes_idle(u)
        self.workers[u] = Worker(speed)
        self._changed(u, math.nan)

    def begin(self, u: int, size: float, now: float) -> None:
        """Note that worker `u` begins a task of `size` Mflop."""
        self.workers[u].begin(size, now)
        self._changed(u, now)

    def end(self, u: int, now: float) -> None:
        """Note that worker `u` has ended its task."""
        worker = self.workers[u]
        worker.end()
        if not worker.tasks:
            self._becomes_idle(u)
        self._changed(u, now)

    def place(self, which: int, tasks: int, size: float, now: float) -> list[int]:
        """Choose workers of queue `which` for tasks of `size` Mflop each, and note them in the books.

        Idle workers are first, in order of number, if there are enough; else one task after another goes to
        the worker with the least waiting time, the lower number first.
        """
        queue = self.queues[which]
        found: list[int] = []
        if queue.n_idle >= tasks:
            while len(found) < tasks:
                u = heapq.heappop(queue.idle)
                if not self.workers[u].tasks and (not found or found[-1] != u):
                    found.append(u)
            for u in found:
                self._send(u, size, now)
            return found
        for _ in range(tasks):
            u = self._least(queue, now)
            self._send(u, size, now)
            found.append(u)
        return found

    def _send(self, u: int, size: float, now: float) -> None:
        worker = self.workers[u]
        if not worker.tasks:
            for queue in self.queues:
                queue.n_idle -= u >= queue.first
        worker.add(size)
        self._changed(u, now)

    def _becomes_idle(self, u: int) -> None:
        for queue in self.queues:
            if u >= queue.first:
                queue.n_idle += 1
                heapq.heappush(queue.idle, u)

    def _changed(self, u: int, now: float) -> None:
        """Put worker `u` where it belongs."""
        worker = self.workers[u]
        self.version[u] = version = self.version[u] + 1
        runs = worker.began + worker.running > now  # False for NaN
        for queue in self.queues:
            if u < queue.first:
                continue
            if runs:
                heapq.heappush(queue.falling, (worker.began + worker.total, u, version))
            else:
                heapq.heappush(queue.constant, (self._constant(worker), u, version))

    @staticmethod
    def _constant(worker: Worker) -> float:
        """Return the waiting time of a worker that does not run, or whose task has used up its estimate."""
        return worker.total - worker.running

    def _least(self, queue: Queue, now: float) -> int:
        """Return the worker of least waiting time."""
        falling, constant, version = queue.falling, queue.constant, self.version
        while falling:
            _, u, number = falling[0]
            worker = self.workers[u]
            if number != version[u]:
                heapq.heappop(falling)
            elif worker.began + worker.running <= now:
                heapq.heappop(falling)
                heapq.heappush(constant, (self._constant(worker), u, number))
            else:
                break
        while constant and constant[0][2] != version[constant[0][1]]:
            heapq.heappop(constant)
        if not falling or (
            constant and (constant[0][0], constant[0][1]) < (falling[0][0] - now, falling[0][1])
        ):
            return constant[0][1]
        return falling[0][1]


@kept_in_checkpoints
@dataclass(eq=False, slots=True)
class StaleTimes:
    """Books of which the sums are as old as the last `refresh`; what runs is seen as it is.

    workers : what is true.  seen : float64[workers], s, the sums at the last refresh.  began, first : when
        each worker began its task, NaN where none runs, and the estimate of that, s.  firsts : from which
        numbers on workers are asked for.
    """

    workers: list[Worker]
    seen: NDArray[np.float64]
    began: NDArray[np.float64]
    first: NDArray[np.float64]
    firsts: tuple[int, ...]

    @classmethod
    def of(cls, workers: int, firsts: tuple[int, ...]) -> StaleTimes:
        """Return the books on `workers` workers; see `WaitingTimes.of`."""
        nothing = np.zeros(workers)
        return cls([Worker() for _ in range(workers)], nothing, nothing + np.nan, nothing.copy(), firsts)

    def refresh(self) -> None:
        """Take over the sums."""
        self.seen = np.array([worker.total for worker in self.workers])

    def forget(self, u: int, speed: float) -> None:
        """See `WaitingTimes`."""
        self.workers[u], self.began[u] = Worker(speed), np.nan

    def begin(self, u: int, size: float, now: float) -> None:
        """See `WaitingTimes`."""
        self.workers[u].begin(size, now)
        self.began[u], self.first[u] = now, self.workers[u].running

    def end(self, u: int, now: float) -> None:
        """See `WaitingTimes`."""
        self.workers[u].end()
        self.began[u] = np.nan

    def place(self, which: int, tasks: int, size: float, now: float, added: NDArray[np.int64]) -> list[int]:
        """Choose a worker for each of the tasks of `size` Mflop, one after another; see `WaitingTimes.place`.

        added : int64[workers], s, to be added to each waiting time.
        """
        begin = self.firsts[which]
        ran = np.where(np.isnan(self.began), 0.0, np.minimum(now - self.began, self.first))
        idle = begin + np.flatnonzero(self.seen[begin:] <= 0)
        if len(idle) >= tasks:
            chosen: list[int] = idle[:tasks].tolist()
            for u in chosen:
                self.workers[u].add(size)
            return chosen
        times = (self.seen - ran + added)[begin:]
        least = np.argsort(times, kind="stable")[:tasks]  # no other can get one
        heap = list(zip(times[least].tolist(), (begin + least).tolist(), strict=True))  # in order, so a heap
        found = []
        for _ in range(tasks):
            time, u = heap[0]
            worker = self.workers[u]
            heapq.heapreplace(heap, (time + size / worker.speed, u))
            worker.add(size)
            found.append(u)
        return found
