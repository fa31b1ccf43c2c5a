"""Reference implementation of task queues with a size for each task: each machine has a list of its tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.state import NEVER
from tests.reference.core_queues import Core, CoreQueues
from tests.reference.task_queues import Integers, TaskQueues


class OwnSizes(TaskQueues):
    """Reference implementation of `gridcore.queues.task_queues.TaskQueues`, with ``sizes`` and ``tasks``."""

    def __init__(self, speed: ArrayLike, **options: Any) -> None:
        super().__init__(speed, **options)
        self._size: list[list[float]] = []  # application -> size of each task
        self._fresh: list[int] = []  # application -> number of tasks that were queued at least once
        self._lost_tasks: list[list[int]] = []  # application -> tasks that left a queue unstarted, in order
        self._tasks: list[list[tuple[int, int]]] = [[] for _ in self._machine]
        # (application, task) that runs on each machine
        self._run: list[tuple[int, int]] = [(-1, -1)] * self.machines

    def add(
        self,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        sizes: list[list[float]],
        **columns: Any,
    ) -> None:
        """Append applications whose tasks have these sizes."""
        super().add_applications(release, size, task_size, **columns)
        self._size += sizes
        self._fresh += [0] * len(sizes)
        self._lost_tasks += [[] for _ in sizes]

    def free(self, application: int) -> int:
        """Return the number of tasks that are in no queue."""
        return len(self._size[application]) - self._fresh[application] + len(self._lost_tasks[application])

    def schedule(self) -> dict[str, Integers]:
        """Return a row for each run of a task."""
        rows = [(u, i, 1, start, end, int(completed)) for u, i, start, end, completed in self._run_log]
        rows.sort(key=lambda row: (row[0], row[3]))
        names = ("machine", "application", "tasks", "start", "end", "completed")
        return dict(zip(names, np.array(rows, np.int64).reshape(-1, 6).T.copy(), strict=True))

    def _enqueue(self, u: int, application: int, tasks: int, now: int) -> None:
        super()._enqueue(u, application, tasks, now)
        for _ in range(tasks):
            if self._lost_tasks[application]:
                number = self._lost_tasks[application].pop()
            else:
                number = self._fresh[application]
                self._fresh[application] += 1
            self._tasks[u].append((application, number))

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        n_taken = super().withdraw(machine, application, tasks, now)
        for _ in range(n_taken):
            last = max(k for k, task in enumerate(self._tasks[machine]) if task[0] == application)
            self._lost_tasks[application].append(self._tasks[machine].pop(last)[1])
        return n_taken

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        lost = super().fail(machines, now)
        for u in np.asarray(machines).tolist():
            for application, number in [self._run[u], *self._tasks[u]]:
                if application >= 0:
                    self._lost_tasks[application].append(number)
            self._run[u], self._tasks[u] = (-1, -1), []
        return lost

    def _start(self, u: int) -> None:
        task = self._next_task(u)
        super()._start(u)
        self._tasks[u].remove(task)
        self._run[u] = task

    def _complete(self, u: int, application: int, end: int) -> None:
        super()._complete(u, application, end)
        self._run[u] = (-1, -1)

    def _next_task(self, u: int) -> tuple[int, int]:
        """Return the task that starts next."""
        application = self._machine[u].queue[0].application
        return next(task for task in self._tasks[u] if task[0] == application)

    def _length(self, u: int, task: tuple[int, int]) -> int:
        ns = self._size[task[0]][task[1]] / self._machine[u].speed * 1e9
        return max(1, round(ns)) if ns < 9.2e18 else NEVER

    def _running_length(self, u: int) -> int:
        return self._length(u, self._run[u])

    def _next_length(self, u: int) -> int:
        return self._length(u, self._next_task(u))

    def _waiting_length(self, u: int) -> int:
        return sum(self._length(u, task) for task in self._tasks[u])

    def _planned_end(self, u: int) -> int:
        m = self._machine[u]
        if m.running < 0:
            return m.free_at
        return m.free_at - self._running_length(u) + self._duration(u, m.running)


class CoreOwnSizes(OwnSizes, CoreQueues):
    """Reference implementation of `gridcore.queues.core_queues.CoreQueues`, with ``sizes`` and ``tasks``."""

    def _start_on(self, u: int, core: Core) -> None:
        task = self._next_task(u)
        super()._start_on(u, core)
        self._tasks[u].remove(task)
        core.number = task

    def _end_on(self, u: int, core: Core) -> None:
        self._run[u] = core.number
        super()._end_on(u, core)

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        running = {}
        for u in np.asarray(machines).tolist():
            self._advance(u, now)
            running[u] = [core.number for core in self._busy(u)]
        lost = CoreQueues.fail(self, machines, now)
        for u, tasks in running.items():
            for application, number in [*tasks, *self._tasks[u]]:
                self._lost_tasks[application].append(number)
            self._tasks[u] = []
        return lost

    def _core_length(self, u: int, core: Core) -> int:
        return self._length(u, core.number)

    def _planned_core_end(self, u: int, core: Core) -> int:
        if core.task < 0:
            return core.end
        return core.end - self._core_length(u, core) + self._duration(u, core.task)

    def _first_free(self, u: int, core: Core, at: int) -> int:
        if core.task < 0:
            return super()._first_free(u, core, at)
        return max(at, self._planned_core_end(u, core))

    def _waiting_lengths(self, u: int) -> list[int]:
        tasks = [*self._tasks[u]]
        lengths = []
        for share in self._machine[u].queue:
            own = [task for task in tasks if task[0] == share.application]
            lengths += [self._length(u, task) for task in own]
        return lengths
