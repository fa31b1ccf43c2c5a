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
from tests.reference.arguments import NOT_NEGATIVE, check_array, check_lengths, check_scalar, doubles
from tests.reference.task_queues import TaskQueues

__all__ = ["DataQueues"]


class Taken(NamedTuple):
    """A task that has been taken out of the queue: ns when it begins and ends to be computed, and is over."""

    application: int
    start: int
    end: int
    there: int


class Stages:
    """One machine: when the next input may be fetched, and the processor and the link are free, ns."""

    def __init__(self) -> None:
        self.fetching = self.free = self.sent = 0
        self.taken: list[Taken] = []


class DataQueues(TaskQueues):
    """See `gridcore.queues.data_queues.DataQueues`."""

    def __init__(self, speed: ArrayLike, *, bandwidth: ArrayLike, aware: bool = True, **more: Any) -> None:
        super().__init__(speed, **more)
        self.bandwidth, self.aware = doubles(bandwidth, "bandwidth"), bool(aware)
        check_lengths(self.machines, len(self.bandwidth), "speed", "bandwidth")
        for u, width in enumerate(self.bandwidth):
            if not width > 0.0:
                raise ValueError(f"bandwidth[{u}] must be a number > 0, got {width!r}")
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
        if sizes is not None or tasks is not None:
            raise ValueError("sizes and tasks must be None: tasks that move data are equal in an application")
        k = len(doubles(release, "release"))
        columns = []
        for name, given in (("input_bytes", input_bytes), ("output_bytes", output_bytes)):
            columns.append([0.0] * k if given is None else doubles(given, name))
        for name, column in zip(("input_bytes", "output_bytes"), columns, strict=True):
            check_lengths(k, len(column), "release", name)
            check_array(column, name, NOT_NEGATIVE)
        n = len(self._application)
        super().add_applications(release, size, task_size, whose)
        for i, own in zip(range(n, n + k), zip(*columns, strict=True), strict=True):
            self._data.append(own if self._whose(i) == i else self._data[self._whose(i)])

    # -- the stages ---------------------------------------------------------------------------------

    def _times(self, u: int, application: int) -> tuple[int, int, int]:
        """ns that the stages of a task take."""
        fetched, sent = (
            round(ns) if (ns := each / self.bandwidth[u] * 1e9) < 9.2e18 else NEVER
            for each in self._data[application]
        )
        return fetched, self._duration(u, application), sent

    def _taken_at(self, u: int, application: int) -> int:
        stages = self._stages[u]
        return stages.fetching if self._times(u, application)[0] else stages.free

    def _start(self, u: int) -> None:
        """Take the first task that waits."""
        m, stages = self._machine[u], self._stages[u]
        first = m.queue[0]
        fetch, run, send = self._times(u, first.application)
        start = max(stages.free, stages.fetching + fetch) if fetch else stages.free
        stages.fetching, end = start, start + run
        stages.free = max(end, stages.sent) if send else end
        there = stages.free + send
        if send:
            stages.sent = there
        stages.taken.append(Taken(first.application, start, end, there))
        whose = self._application[self._whose(first.application)]
        whose.first_start = start if whose.first_start < 0 else min(whose.first_start, start)
        m.busy += run
        first.tasks -= 1
        if first.tasks == 0:
            m.queue.pop(0)
        m.running, m.free_at = first.application, max(m.free_at, there)

    def _advance(self, u: int, until: int) -> None:
        m, stages = self._machine[u], self._stages[u]
        while True:
            for task in sorted(stages.taken, key=lambda task: task.there):
                if task.there <= until:
                    self._over(u, task)
                    stages.taken.remove(task)
            if not stages.taken:
                m.running = -1
            if not m.queue or self._taken_at(u, m.queue[0].application) >= until:
                return
            self._start(u)

    def _over(self, u: int, task: Taken) -> None:
        ran = self.record
        self.record = False  # what the computing took is not until the output is there
        self._complete(u, task.application, task.there)
        self.record = ran
        if ran:
            self._ran.append((u, self._whose(task.application), task.start, task.end, True))

    # -- changes ------------------------------------------------------------------------------------

    def _enqueue(self, u: int, application: int, tasks: int, now: int) -> None:
        self._changed(u, now)
        super()._enqueue(u, application, tasks, now)

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        """See `TaskQueues`."""
        if 0 <= machine < self.machines:
            self._changed(machine, now)
        return super().withdraw(machine, application, tasks, now)

    def reschedule(self, machines: ArrayLike, now: int) -> None:
        """See `TaskQueues`."""
        for u in self._machines(machines):
            if self.order == "edf":
                self._changed(u, now)
        super().reschedule(machines, now)

    def _changed(self, u: int, now: int) -> None:
        """Another task may be the next: a stage that stood still cannot begin earlier than now."""
        self._advance(u, now)
        stages = self._stages[u]
        stages.fetching, stages.free = max(stages.fetching, now), max(stages.free, now)

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        """Lose everything on `machines`, in all stages."""
        lost = []
        for u in self._machines(machines):
            self._advance(u, now)
            m, stages = self._machine[u], self._stages[u]
            left: dict[int, int] = {}
            held = [(share.application, share.tasks) for share in m.queue]
            for task in stages.taken:
                held.append((task.application, 1))
                end = min(task.end, max(task.start, now))
                m.busy -= task.end - end
                if task.start < now:
                    m.interrupted += 1
                    if self.record:
                        self._ran.append((u, self._whose(task.application), task.start, end, False))
            for application, tasks in held:
                left[self._whose(application)] = left.get(self._whose(application), 0) + tasks
            lost += [(u, application, left[application]) for application in sorted(left)]
            m.queue, m.running, m.free_at = [], -1, now
            self._stages[u] = fresh = Stages()
            fresh.fetching = fresh.free = fresh.sent = now
        u_lost, i_lost, n_lost = np.array(lost, np.int64).reshape(-1, 3).T.copy()
        return u_lost, i_lost, n_lost

    # -- what is asked ------------------------------------------------------------------------------

    def _later(self, u: int) -> DataQueues:
        """A copy whose machine `u` may be advanced."""
        later = DataQueues([m.speed for m in self._machine], bandwidth=self.bandwidth, order=self.order)
        later._machine, later._application = deepcopy(self._machine), deepcopy(self._application)
        later._data, later._stages, later.aware = self._data, deepcopy(self._stages), self.aware
        return later

    def _change(self, u: int) -> int:
        later, ends = self._later(u), list[int]()
        while later._machine[u].queue:
            later._start(u)
        ends = [task.there for task in later._stages[u].taken]
        if not ends:
            return NEVER
        return min(ends) if self.watch == "completion" else max(ends)

    def _projected(self, u: int, at: int) -> edf.Queue:
        """The queue that `u` will hold at `at` ns; a task that can be taken then has been."""
        later = self._later(u)
        later._advance(u, at)
        queue = later._machine[u].queue
        while queue and later._taken_at(u, queue[0].application) <= at:
            later._start(u)
        return later._as_queue(u, at)

    def _as_queue(self, u: int, now: int) -> edf.Queue:
        m, free_at, floor = self._machine[u], now, 0.0
        for task in self._stages[u].taken:
            end = task.there if self.aware else task.end
            if end > now:
                i = self._application[task.application]
                free_at, floor = max(free_at, end), max(floor, (end / 1e9 - i.release) / i.size)
        work = []
        for share in m.queue:
            fetch, run, send = self._times(u, share.application)
            if self.aware and (fetch or send):
                work.append(self._alone(u, share.application, share.tasks) / 1e9 * m.speed)
            else:
                work.append(share.tasks * self._application[share.application].task_size)
        of = [self._application[share.application] for share in m.queue]
        return edf.Queue([i.release for i in of], [i.size for i in of], work, m.speed, free_at / 1e9, floor)

    def _alone(self, u: int, application: int, tasks: int) -> float:
        """ns that so many tasks take on an idle machine."""
        times = self._times(u, application)
        return float(sum(times)) + (tasks - 1.0) * max(times)

    def room(self, stretch: float, application: int, now: int, machines: ArrayLike) -> Integers:
        """How many more tasks of `application` each of `machines` can surely take at `stretch`."""
        check_scalar(float(stretch), "stretch", NOT_NEGATIVE)
        if not 0 <= application < len(self._application):
            last = len(self._application) - 1
            raise ValueError(f"application must be in 0..{last}, got {application}")
        result, of = [], self._application[application]
        for u in self._machines(machines):
            self._advance(u, now)
            gap = availability.queue_gap(self._as_queue(u, now), stretch, of.release, of.size)
            fetch, run, send = self._times(u, application)
            if self.aware and (fetch or send):
                each = float(max(fetch, run, send))
                gap = (gap / self._machine[u].speed * 1e9 - self._alone(u, application, 1)) / each + 1.0
            else:
                gap /= of.task_size
            result.append(max(0, math.floor(gap)) if gap < 2.0**63 else NEVER)
        return np.array(result, np.int64)
