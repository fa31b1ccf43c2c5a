"""Reference implementation of `gridcore.queues.core_queues`: every machine steps task by task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import edf
from tests.reference.arguments import integers
from tests.reference.task_queues import TaskQueues

__all__ = ["CoreQueues"]


@dataclass
class Core:
    """A core: its task (an application) or -1, and when the task ends or since when the core is idle, ns.

    Attributes
    ----------
    number
        The task's application and number, if tasks have sizes of their own (`tests.reference.own_sizes`).
    """

    task: int = -1
    end: int = 0
    number: tuple[int, int] = (-1, -1)


class CoreQueues(TaskQueues):
    """Reference implementation of `gridcore.queues.core_queues.CoreQueues`."""

    def __init__(
        self, speed: ArrayLike, *, cores: ArrayLike, memory: ArrayLike | None = None, **options: Any
    ) -> None:
        super().__init__(speed, **options)
        self._cores = [[Core() for _ in range(count)] for count in integers(cores)]
        #: Bytes of each machine, and of a task of each application; a machine without an entry has enough.
        self._memory: dict[int, int] = {} if memory is None else dict(enumerate(integers(memory)))
        self._task_memory: list[int] = []

    def add_applications(
        self,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        whose: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        memory: ArrayLike | None = None,
    ) -> None:
        """Append applications whose running tasks take `memory` bytes, by default none."""
        first = len(self._application)
        super().add_applications(release, size, task_size, whose, sizes=sizes, tasks=tasks)
        for k in range(first, len(self._application)):
            own = 0 if memory is None else integers(memory)[k - first]
            self._task_memory.append(own if self._owner(k) == k else self._task_memory[self._owner(k)])

    def _is_startable(self, u: int) -> bool:
        """Return whether a task waits on `u`, and the free memory suffices for the first one."""
        m = self._machine[u]
        if not m.queue or u not in self._memory:
            return bool(m.queue)
        used = sum(self._task_memory[core.task] for core in self._busy(u))
        return used + self._task_memory[m.queue[0].application] <= self._memory[u]

    def _width(self, u: int, memory: int) -> float:
        if memory == 0 or u not in self._memory:
            return 1.0
        if memory > self._memory[u]:
            return math.inf
        return max(1.0, len(self._cores[u]) * (memory / self._memory[u]))

    def _wider(self, grid: SummaryGrid, u: int, memory: int) -> SummaryGrid:
        width = self._width(u, memory)
        return grid if width == math.inf else SummaryGrid(grid.stretch, grid.size, grid.task_size * width)

    def _busy(self, u: int) -> list[Core]:
        return [core for core in self._cores[u] if core.task >= 0]

    def _core_length(self, u: int, core: Core) -> int:
        """Return the duration of the task of a busy core, ns."""
        return self._duration(u, core.task)

    def _planned_core_end(self, u: int, core: Core) -> int:
        """Return when the task of a core should end by its stated size, or since when it is idle, ns."""
        return core.end

    def _waiting_lengths(self, u: int) -> list[int]:
        """Return the duration of each waiting task, in the order in which they start, ns."""
        queue = self._machine[u].queue
        return [self._duration(u, share.application) for share in queue for _ in range(share.tasks)]

    def _show_running(self, u: int) -> None:
        busy = self._busy(u)
        self._machine[u].running = busy[0].task if busy else -1

    def _advance(self, u: int, until: int) -> None:
        cores = self._cores[u]
        while True:
            busy, starts = self._busy(u), self._is_startable(u)
            first = min(busy, key=lambda core: core.end, default=None)
            idle = min((core for core in cores if core.task < 0), key=lambda core: core.end, default=None)
            if first is not None and (not starts or idle is None or first.end <= idle.end):
                if first.end > until:
                    break
                self._end_on(u, first)
                if u in self._memory:
                    self._let_no_task_start_before(u, first.end)
            elif starts and idle is not None and idle.end < until:
                self._start_on(u, idle)
            else:
                break
        self._show_running(u)

    def _end_on(self, u: int, core: Core) -> None:
        self._machine[u].running = core.task  # its length is that of the completed run
        self._complete(u, core.task, core.end)
        core.task = -1

    def _start_on(self, u: int, core: Core) -> None:
        m = self._machine[u]
        share, length = m.queue[0], self._next_length(u)
        share.tasks -= 1
        if share.tasks == 0:
            m.queue.pop(0)
        i = self._application[self._owner(share.application)]
        i.first_start = core.end if i.first_start < 0 else min(i.first_start, core.end)
        core.task = share.application
        core.end += length
        m.free_at = max(m.free_at, core.end)
        m.busy += length

    def _let_no_task_start_before(self, u: int, now: int) -> None:
        """Count the idle cores of `u` as idle since `now` ns or later."""
        for core in self._cores[u]:
            if core.task < 0:
                core.end = max(core.end, now)

    def _enqueue(self, u: int, application: int, tasks: int, now: int) -> None:
        self._advance(u, now)
        self._let_no_task_start_before(u, now)
        super()._enqueue(u, application, tasks, now)

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        """Withdraw up to `tasks` waiting tasks; the memory may suffice for the next one."""
        self._advance(machine, now)
        if machine in self._memory:
            self._let_no_task_start_before(machine, now)
        return super().withdraw(machine, application, tasks, now)

    def reschedule(self, machines: ArrayLike, now: int) -> None:
        """Sort the queues; the memory may suffice for the task that is then the first."""
        for u in integers(machines):
            self._advance(u, now)
            if u in self._memory and self.order == "edf":
                self._let_no_task_start_before(u, now)
        super().reschedule(machines, now)

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        """Remove all tasks on `machines`, running ones too; return (machines, applications, tasks)."""
        lost = []
        for u in integers(machines):
            self._advance(u, now)
            m = self._machine[u]
            tasks = [(share.application, share.tasks) for share in m.queue]
            for core in self._busy(u):
                tasks.append((core.task, 1))
                m.busy -= core.end - now
                m.interrupted += 1
                if self.record:
                    start = core.end - self._core_length(u, core)
                    self._run_log.append((u, self._owner(core.task), start, now, False))
            left: dict[int, int] = {}
            for application, count in tasks:
                left[self._owner(application)] = left.get(self._owner(application), 0) + count
            lost += [(u, application, left[application]) for application in sorted(left)]
            self._cores[u] = [Core(end=now) for _ in self._cores[u]]
            m.queue, m.running, m.free_at = [], -1, now
        u_lost, i_lost, n_lost = np.array(lost, np.int64).reshape(-1, 3).T.copy()
        return u_lost, i_lost, n_lost

    def running_count(self, machine: int, now: int) -> int:
        """Return the number of tasks that a machine runs after `now` ns."""
        self._advance(machine, now)
        return sum(core.end > now for core in self._busy(machine))

    def cores_of(self, machine: int) -> int:
        """Return the number of cores of a machine."""
        return len(self._cores[machine])

    def work(self, machine: int, now: int) -> float:
        """Return the time (s) that a machine needs for its tasks from `now` ns if cores share them evenly."""
        self._advance(machine, now)
        m = self._machine[machine]
        size = sum(
            self._application[share.application].task_size
            * share.tasks
            * self._share_width(machine, share.application)
            for share in m.queue
        )
        left = sum(
            max(0, self._planned_core_end(machine, core) - now) / 1e9 * self._share_width(machine, core.task)
            for core in self._busy(machine)
        )
        return (left + size / m.speed) / len(self._cores[machine])

    def _change(self, u: int) -> int:
        """Return when `u` runs idle, or the first of its tasks ends, ns."""
        if self._machine[u].idle:
            return NEVER
        cores = [Core(core.task, core.end) for core in self._cores[u]]
        ends = [core.end for core in cores if core.task >= 0]
        waiting = [share.application for share in self._machine[u].queue for _ in range(share.tasks)]
        last_start = 0  # nobody overtakes
        for application, length in zip(waiting, self._waiting_lengths(u), strict=True):
            core = min(cores, key=lambda core: core.end)
            at = max(core.end, last_start)
            if u in self._memory:
                room = self._memory[u] - self._task_memory[application]
                others = [other for other in cores if other.task >= 0]
                at = min(
                    at
                    for at in sorted({at, *(max(at, other.end) for other in others)})
                    if sum(self._task_memory[other.task] for other in others if other.end > at) <= room
                )
            core.task, core.end, last_start = application, at + length, at
            ends.append(core.end)
        return min(ends) if self._sees_each_end else max(ends)

    # -- queries of the scheduler -----------------------------------------------------------------------

    def summaries(
        self,
        machines: ArrayLike,
        grid: SummaryGrid,
        now: int,
        *,
        cell: int | None = None,
        memory: int = 0,
        threads: int = 1,
    ) -> NDArray[np.uint32]:
        """Return the availability of `machines`; a task that one core cannot run in time does not fit."""
        cells = super().summaries(machines, grid, now, cell=cell, memory=memory, threads=threads)
        seconds = grid.stretch[:, None] * grid.size
        for k, u in enumerate(integers(machines)):
            if self._width(u, memory) == math.inf:
                cells[k] = 0
            cells[k][seconds[:, :, None] * self._machine[u].speed < grid.task_size] = 0
        return cells

    def available(
        self,
        stretch: float,
        release_new: float,
        size_new: float,
        task_size_new: float,
        now: int,
        machines: ArrayLike | None = None,
        *,
        memory: int = 0,
    ) -> Integers:
        """Return how many tasks each of `machines` can take; none if one core cannot run a task in time."""
        chosen = list(range(self.machines)) if machines is None else integers(machines)
        counts = super().available(stretch, release_new, size_new, task_size_new, now, chosen, memory=memory)
        seconds = release_new + stretch * size_new - now / 1e9
        for k, u in enumerate(chosen):
            if seconds * self._machine[u].speed < task_size_new:
                counts[k] = 0
        return counts

    def _as_queue(self, u: int, now: int) -> edf.Queue:
        return self._as_processor(u, now, now)

    def _projected_queue(self, u: int, at: int) -> edf.Queue:
        return self._as_processor(u, at, at + 1)

    def _share_width(self, u: int, application: int) -> float:
        """Return how many cores' part of `u` a task of `application` takes."""
        return self._width(u, self._task_memory[application])

    def _first_free(self, u: int, core: Core, at: int) -> int:
        """Return when a core is free for the tasks that wait at `at` ns."""
        if core.task < 0:
            return core.end if self._is_startable(u) else at
        return core.end if self._machine[u].queue else max(core.end, at)

    def _as_processor(self, u: int, at: int, edge: int) -> edf.Queue:
        """Return the queue of `u` at `at` ns as that of one processor that starts tasks before `edge`."""
        m, cores = self._machine[u], self._cores[u]
        count, floor = len(cores), 0.0
        backlog = []
        for core in cores:
            time = float(self._first_free(u, core, at) - at)
            backlog.append(time * self._share_width(u, core.task) if core.task >= 0 and time > 0 else time)
        for core in self._busy(u):
            i, end = self._application[core.task], self._planned_core_end(u, core)
            if end > at:
                floor = max(floor, (end / 1e9 - i.release) / i.size)
        start = at + round(sum(backlog) / count)
        left = [(share.application, share.tasks) for share in m.queue]
        waiting, work = [], []
        for application, tasks in left:
            i = self._application[application]
            width, length = self._share_width(u, application), self._duration(u, application)
            length = max(1, length // count if width == 1.0 else int(length * (width / count)))
            remaining = tasks
            while remaining and start < edge:
                start += length
                remaining -= 1
                if start > at:
                    floor = max(floor, (start / 1e9 - i.release) / i.size)
            if remaining:
                waiting.append((i, remaining))
                work.append(remaining * i.task_size * width)
                if count > 1:
                    floor = max(floor, (at / 1e9 + i.task_size / m.speed - i.release) / i.size)
        return edf.Queue(
            [i.release for i, _ in waiting],
            [i.size for i, _ in waiting],
            work,
            m.speed * count,
            max(start, at) / 1e9,
            floor,
        )
