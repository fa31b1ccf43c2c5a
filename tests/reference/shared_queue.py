"""Reference implementation of `gridcore.rigid_queue.shared_queue`; it examines the whole queue each time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from tests.reference.arguments import integers
from tests.reference.batch_queue import LAST, JobQueue

__all__ = ["SharedQueue"]

#: Free cores, bytes of memory and GPUs of each machine.
Amounts = list[list[int]]


class SharedQueue(JobQueue):
    """Reference implementation of `gridcore.rigid_queue.shared_queue.SharedQueue`.

    `_machines_of` has a machine of a job once for each of its tasks there.
    """

    def __init__(
        self,
        cores: ArrayLike,
        tasks: ArrayLike,
        run: ArrayLike,
        estimate: ArrayLike,
        *,
        memory: ArrayLike | None = None,
        gpus: ArrayLike | None = None,
        task_cores: ArrayLike | None = None,
        task_memory: ArrayLike | None = None,
        task_gpus: ArrayLike | None = None,
        tasks_per_machine: ArrayLike | None = None,
        exclusive: ArrayLike | None = None,
        placement: str = "first",
        backfill: bool = True,
        ranks: ArrayLike | None = None,
        order: str | None = None,
        weights: Any = None,
        predicted: bool = False,
        users: ArrayLike | None = None,
        limit: int = 0,
        queues: ArrayLike | None = None,
        queue_limits: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        partition: ArrayLike | None = None,
        releases: Any = None,
        log: bool = False,
    ) -> None:
        counts, machines = integers(tasks), integers(cores)
        many = [2**53] * len(machines)
        self._task_cores = [1] * len(counts) if task_cores is None else integers(task_cores)
        widths = [n * c for n, c in zip(counts, self._task_cores, strict=True)]
        super().__init__(
            len(machines),
            widths,
            run,
            estimate,
            depth=int(backfill),
            ranks=ranks,
            order=order,
            weights=weights,
            predicted=predicted,
            users=users,
            limit=limit,
            queues=queues,
            queue_limits=queue_limits,
            sizes=sizes,
            partition=partition,
            releases=releases,
            log=log,
        )
        self._tasks, self._placement = counts, placement
        self._capacity = [
            list(each)
            for each in zip(
                machines,
                many if memory is None else integers(memory),
                many if gpus is None else integers(gpus),
                strict=True,
            )
        ]
        zeros = [0] * len(counts)
        self._needs = [
            list(each)
            for each in zip(
                self._task_cores,
                zeros if task_memory is None else integers(task_memory),
                zeros if task_gpus is None else integers(task_gpus),
                strict=True,
            )
        ]
        self._most = zeros if tasks_per_machine is None else integers(tasks_per_machine)
        self._exclusive = zeros if exclusive is None else integers(exclusive)
        self._rows: list[tuple[int, ...]] = []

    def starts(self) -> tuple[Integers, ...]:  # type: ignore[override]
        start, job, machine, end, completed, tasks = (
            np.array(sorted(self._rows), np.int64).reshape(-1, 6).T.copy()
        )
        return machine, job, start, end, completed, tasks

    # -- machines -----------------------------------------------------------------------------------------

    def _free(self, jobs: Any) -> Amounts:
        """Return what is free on each machine if `jobs` run."""
        free = [[0, 0, 0] if u in self._down else list(self._capacity[u]) for u in range(self.machines)]
        for job in jobs:
            self._use(free, job, self._machines_of[job])
        return free

    def _use(self, free: Amounts, job: int, machines: list[int]) -> None:
        for u in machines:
            if self._exclusive[job]:
                free[u] = [0, 0, 0]
            else:
                free[u] = [have - need for have, need in zip(free[u], self._needs[job], strict=True)]

    def _room(self, free: Amounts, job: int, u: int) -> int:
        if self._exclusive[job] and free[u] != self._capacity[u]:
            return 0
        counts = [have // need for have, need in zip(free[u], self._needs[job], strict=True) if need]
        return min([*counts, self._most[job] or counts[0]])

    def _choose(self, job: int, free: Amounts, *others: Amounts) -> list[int] | None:
        """Return the machines of a job, once for each task, that have room in `free` and `others`."""
        own = [u for u in self._own_machines() if u not in self._down]
        if self._placement != "first":
            sign = 1 if self._placement == "best" else -1
            own.sort(key=lambda u: (sign * free[u][0], u))
        chosen = []
        for u in own:
            chosen += [u] * min(self._room(each, job, u) for each in (free, *others))
        return chosen[: self._tasks[job]] if len(chosen) >= self._tasks[job] else None

    # -- starts -------------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        queue = self._queue()
        left: list[int] = []
        while queue:
            job = queue.pop(0)
            if self._is_limited(job):
                continue
            chosen = self._choose(job, self._free(self._machines_of))
            if chosen is None:
                left = [job, *queue]
                break
            self._begin(job, chosen)
        if not left or not self.depth:
            return
        shadow, later = self._reserve(left[0])
        for job in left[1:]:
            if self._is_limited(job):
                continue
            free = self._free(self._machines_of)
            if self.now + self._estimate[job] <= shadow:
                chosen = self._choose(job, free)
            else:
                chosen = self._choose(job, free, later)
            if chosen is None:
                continue
            if self.now + self._estimate[job] > shadow:
                self._use(later, job, chosen)
            self._begin(job, chosen)

    def _reserve(self, head: int) -> tuple[float, Amounts]:
        """Return the shadow time of the head, and what its reservation leaves free then."""
        running = self._running()
        ends = {job: max(self._start[job] + self._estimate[job], self.now) for job in running}
        for instant in sorted(set(ends.values())):
            free = self._free([job for job in self._machines_of if job not in ends or ends[job] > instant])
            chosen = self._choose(head, free)
            if chosen is not None:
                self._use(free, head, chosen)
                return instant, free
        return math.inf, []

    def _begin(self, job: int, free: list[int] | None = None) -> None:
        assert free is not None
        if self.now + self._run[job] > LAST:
            raise OverflowError("jobs must end by 2**62 ns")
        self._waiting.remove(job)
        self._machines_of[job] = free
        self._start[job] = self.now
        if self._first_start[job] < 0:
            self._first_start[job] = self.now

    def _leave(self, job: int, completed: int) -> None:
        for u, tasks in Counter(self._machines_of.pop(job)).items():
            self._busy[u] += tasks * self._task_cores[job] * (self.now - self._start[job])
            self._done[u] += completed * tasks
            if self.log and self.now > self._start[job]:
                self._rows.append((self._start[job], job, u, self.now, completed, tasks))
