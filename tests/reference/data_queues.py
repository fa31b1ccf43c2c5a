"""Reference implementation of `gridcore.queues.data_queues`: every machine steps task by task."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference import availability, edf
from tests.reference.arguments import doubles, integers
from tests.reference.task_queues import TaskQueues

__all__ = ["DataQueues"]


class ActiveTask(NamedTuple):
    """A task that has left the queue: when its computing starts and ends and its output arrives, ns."""

    application: int
    start: int
    end: int
    arrival: int


class Stages:
    """The stages of a machine: when the next fetch may start, and the processor and the link are free, ns."""

    def __init__(self) -> None:
        self.fetching = self.free = self.sent = 0
        self.active: list[ActiveTask] = []


class DataQueues(TaskQueues):
    """Reference implementation of `gridcore.queues.data_queues.DataQueues`."""

    def __init__(self, speed: ArrayLike, *, bandwidth: ArrayLike, aware: bool = True, **options: Any) -> None:
        super().__init__(speed, **options)
        self.bandwidth, self.aware = doubles(bandwidth), bool(aware)
        self._data: list[tuple[float, float]] = []
        self._stages = [Stages() for _ in range(self.machines)]

    def add_applications(
        self,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        whose: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        input_bytes: ArrayLike | None = None,
        output_bytes: ArrayLike | None = None,
    ) -> None:
        """Append applications, with the bytes that a task of each fetches and sends."""
        k = len(doubles(release))
        columns = []
        for values in (input_bytes, output_bytes):
            columns.append([0.0] * k if values is None else doubles(values))
        n = len(self._application)
        super().add_applications(release, size, task_size, whose)
        for i, amounts in zip(range(n, n + k), zip(*columns, strict=True), strict=True):
            self._data.append(amounts if self._owner(i) == i else self._data[self._owner(i)])

    # -- the stages ---------------------------------------------------------------------------------

    def _times(self, u: int, application: int) -> tuple[int, int, int]:
        """Return the durations of the stages of a task, ns."""
        fetch, send = (
            round(ns) if (ns := amount / self.bandwidth[u] * 1e9) < 9.2e18 else NEVER
            for amount in self._data[application]
        )
        return fetch, self._duration(u, application), send

    def _tasks_taken_at(self, u: int, application: int) -> int:
        stages = self._stages[u]
        return stages.fetching if self._times(u, application)[0] else stages.free

    def _start(self, u: int) -> None:
        """Start the first waiting task."""
        m, stages = self._machine[u], self._stages[u]
        first = m.queue[0]
        fetch, run, send = self._times(u, first.application)
        start = max(stages.free, stages.fetching + fetch) if fetch else stages.free
        stages.fetching, end = start, start + run
        stages.free = max(end, stages.sent) if send else end
        arrival = stages.free + send
        if send:
            stages.sent = arrival
        stages.active.append(ActiveTask(first.application, start, end, arrival))
        owner = self._application[self._owner(first.application)]
        owner.first_start = start if owner.first_start < 0 else min(owner.first_start, start)
        m.busy += run
        first.tasks -= 1
        if first.tasks == 0:
            m.queue.pop(0)
        m.running, m.free_at = first.application, max(m.free_at, arrival)

    def _advance(self, u: int, until: int) -> None:
        m, stages = self._machine[u], self._stages[u]
        while True:
            for task in sorted(stages.active, key=lambda task: task.arrival):
                if task.arrival <= until:
                    self._end_task(u, task)
                    stages.active.remove(task)
            if not stages.active:
                m.running = -1
            if not m.queue or self._tasks_taken_at(u, m.queue[0].application) >= until:
                return
            self._start(u)

    def _end_task(self, u: int, task: ActiveTask) -> None:
        record = self.record
        self.record = False  # the run is recorded below, where the end of the computation is known
        self._complete(u, task.application, task.arrival)
        self.record = record
        if record:
            self._run_log.append((u, self._owner(task.application), task.start, task.end, True))

    # -- changes ------------------------------------------------------------------------------------

    def _enqueue(self, u: int, application: int, tasks: int, now: int) -> None:
        self._stop_idle_stages(u, now)
        super()._enqueue(u, application, tasks, now)

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        if 0 <= machine < self.machines:
            self._stop_idle_stages(machine, now)
        return super().withdraw(machine, application, tasks, now)

    def reschedule(self, machines: ArrayLike, now: int) -> None:
        for u in integers(machines):
            if self.order == "edf":
                self._stop_idle_stages(u, now)
        super().reschedule(machines, now)

    def _stop_idle_stages(self, u: int, now: int) -> None:
        """Prevent idle stages from starting before `now`, since the next task may change."""
        self._advance(u, now)
        stages = self._stages[u]
        stages.fetching, stages.free = max(stages.fetching, now), max(stages.free, now)

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        """Lose everything on `machines`, in all stages."""
        lost = []
        for u in integers(machines):
            self._advance(u, now)
            m, stages = self._machine[u], self._stages[u]
            left: dict[int, int] = {}
            shares = [(share.application, share.tasks) for share in m.queue]
            for task in stages.active:
                shares.append((task.application, 1))
                end = min(task.end, max(task.start, now))
                m.busy -= task.end - end
                if task.start < now:
                    m.interrupted += 1
                    if self.record:
                        self._run_log.append((u, self._owner(task.application), task.start, end, False))
            for application, tasks in shares:
                left[self._owner(application)] = left.get(self._owner(application), 0) + tasks
            lost += [(u, application, left[application]) for application in sorted(left)]
            m.queue, m.running, m.free_at = [], -1, now
            self._stages[u] = fresh = Stages()
            fresh.fetching = fresh.free = fresh.sent = now
        u_lost, i_lost, n_lost = np.array(lost, np.int64).reshape(-1, 3).T.copy()
        return u_lost, i_lost, n_lost

    # -- queries --------------------------------------------------------------------------------------

    def _advanced_copy(self, u: int) -> DataQueues:
        """Return a copy in which machine `u` may be advanced."""
        later = DataQueues([m.speed for m in self._machine], bandwidth=self.bandwidth, order=self.order)
        later._machine, later._application = deepcopy(self._machine), deepcopy(self._application)
        later._data, later._stages, later.aware = self._data, deepcopy(self._stages), self.aware
        return later

    def _change(self, u: int) -> int:
        later, ends = self._advanced_copy(u), list[int]()
        while later._machine[u].queue:
            later._start(u)
        ends = [task.arrival for task in later._stages[u].active]
        if not ends:
            return NEVER
        return min(ends) if self._sees_each_end else max(ends)

    def _projected_queue(self, u: int, at: int) -> edf.Queue:
        """Return the queue that `u` will hold at `at` ns, without a task that can be taken then."""
        later = self._advanced_copy(u)
        later._advance(u, at)
        queue = later._machine[u].queue
        while queue and later._tasks_taken_at(u, queue[0].application) <= at:
            later._start(u)
        return later._as_queue(u, at)

    def _as_queue(self, u: int, now: int) -> edf.Queue:
        m, free_at, floor = self._machine[u], now, 0.0
        for task in self._stages[u].active:
            end = task.arrival if self.aware else task.end
            if end > now:
                i = self._application[task.application]
                free_at, floor = max(free_at, end), max(floor, (end / 1e9 - i.release) / i.size)
        work = []
        for share in m.queue:
            fetch, run, send = self._times(u, share.application)
            if self.aware and (fetch or send):
                work.append(self._makespan(u, share.application, share.tasks) / 1e9 * m.speed)
            else:
                work.append(share.tasks * self._application[share.application].task_size)
        applications = [self._application[share.application] for share in m.queue]
        return edf.Queue(
            [i.release for i in applications],
            [i.size for i in applications],
            work,
            m.speed,
            free_at / 1e9,
            floor,
        )

    def _makespan(self, u: int, application: int, tasks: int) -> float:
        """Return the makespan of `tasks` tasks on an idle machine, ns."""
        times = self._times(u, application)
        return float(sum(times)) + (tasks - 1.0) * max(times)

    def capacity_of(self, stretch: float, application: int, now: int, machines: ArrayLike) -> Integers:
        """Return a lower bound of the further tasks that each machine can take at `stretch`."""
        result, new = [], self._application[application]
        for u in integers(machines):
            self._advance(u, now)
            gap = availability.queue_gap(self._as_queue(u, now), stretch, new.release, new.size)
            fetch, run, send = self._times(u, application)
            if self.aware and (fetch or send):
                longest = float(max(fetch, run, send))
                gap = (gap / self._machine[u].speed * 1e9 - self._makespan(u, application, 1)) / longest + 1.0
            else:
                gap /= new.task_size
            result.append(max(0, math.floor(gap)) if gap < 2.0**63 else NEVER)
        return np.array(result, np.int64)
