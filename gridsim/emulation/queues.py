"""Task queues of the machines of a process in an emulation, and a record of the queues of all processes.

They have the methods of `gridcore.queues.task_queues.TaskQueues` that policies use.  A task ends after the
run time of its true size.  The machine detects the end then or later, and only then starts the next task.
Machines plan with the stated task size of an application.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.release_queue import ReleaseQueue
from gridcore.queues.availability import sample_availability
from gridcore.queues.edf import optimal_stretch
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.emulation.engine import RealTimeEngine
from gridsim.emulation.tasks import Parts, TaskSet, count_of
from gridsim.scheduling.contract import ARRIVALS, SCHEDULE
from gridsim.support.clock import NEVER, NS

Rows = NDArray[np.int64]


class _Columns:
    """Columns of applications that machines use."""

    def __init__(self, speed: Any, **options: Any) -> None:
        self.speed: list[float] = np.asarray(speed, float).tolist()
        self.machines = len(self.speed)
        self.release, self.size, self.task_size = list[float](), list[float](), list[float]()
        #: Bytes that a task of each application takes while it runs.
        self.task_memory = list[int]()
        #: True sizes of all tasks, application by application (None if they are the stated ones), and index
        #: of the first task of each application.
        self.sizes: list[float] | None = None
        self.offset: list[int] = []
        self.tasks_done = self.enqueued = 0
        self.log = False
        #: Machines that may begin a task at the end of this instant.
        self.idle = set[int]()
        #: Application -> its tasks that are in no queue; see
        #: `gridsim.emulation.core.EmulatedCore.unqueued_tasks`.
        self.unqueued_tasks: dict[int, TaskSet] = {}
        #: The releases, if some follow ends; else None.
        self.releases: ReleaseQueue | None = None
        #: Application -> the number of tasks that have not ended, and the last end (ns), with `releases`.
        self.open_tasks, self.last_end = list[int](), list[int]()

    def add_applications(
        self,
        release: Any,
        size: Any,
        task_size: Any,
        sizes: Any = None,
        tasks: Any = None,
        memory: Any = None,
        **_: Any,
    ) -> None:
        """Append applications: release (s), size (Mflop), task size (Mflop), and true sizes of tasks.

        A task takes `memory` bytes, by default none.
        """
        self.task_memory += ([0] * len(release)) if memory is None else np.asarray(memory).tolist()
        self.release += np.asarray(release, float).tolist()
        self.size += np.asarray(size, float).tolist()
        self.task_size += np.asarray(task_size, float).tolist()
        if sizes is not None:
            self.sizes = np.asarray(sizes, float).tolist()
            self.offset = [0, *np.cumsum(tasks).tolist()]

    def follow(self, releases: ReleaseQueue, tasks: Any) -> None:
        """Use the releases of `releases`; the coordinator reports to them when all `tasks` have ended."""
        self.releases, self.open_tasks = releases, np.asarray(tasks).tolist()
        self.last_end = [0] * len(self.open_tasks)

    def release_applications(self, applications: list[int]) -> None:
        """Take over the releases of `applications`."""
        if self.releases is not None:
            for application in applications:
                self.release[application] = float(self.releases.release_seconds[application])

    def catch_up(self, until: int, machines: Any = None) -> None:
        """Do nothing: events are handled when they are due."""

    def run_time(self, machine: int, application: int, task: int) -> int:
        """Return the run time of a task, ns."""
        if self.sizes is None:
            return self.planned(machine, application)
        return _nanoseconds(self.sizes[self.offset[application] + task] / self.speed[machine])

    def planned(self, machine: int, application: int) -> int:
        """Return the planned run time of a task, ns, by the stated task size of its application."""
        return _nanoseconds(self.task_size[application] / self.speed[machine])


def _nanoseconds(seconds: float) -> int:
    return max(1, round(seconds * NS))


class Share:
    """Tasks of one application that wait on a machine."""

    __slots__ = ("application", "tasks")

    def __init__(self, application: int) -> None:
        self.application, self.tasks = application, TaskSet()


class Core:
    """One core of a machine, with its running task.

    Attributes
    ----------
    running, task
        Application of the running task (-1 for none), and the number of the task.
    start, end, planned
        Start of the running task, its end, and its planned end by the stated size, ns.
    incarnation
        Number of tasks that have started on the core.
    """

    __slots__ = ("end", "incarnation", "planned", "running", "start", "task")

    def __init__(self) -> None:
        self.running, self.task, self.start, self.end, self.planned, self.incarnation = -1, 0, 0, 0, 0, 0


class Machine:
    """One machine, with its waiting tasks in order, its cores, and its memory in bytes."""

    __slots__ = ("cores", "memory", "queue")

    def __init__(self, cores: int, memory: float) -> None:
        self.queue: list[Share] = []
        self.cores = [Core() for _ in range(cores)]
        self.memory = memory

    @property
    def busy(self) -> list[Core]:
        """The cores that run a task."""
        return [core for core in self.cores if core.running >= 0]


class MachineQueues(_Columns):
    """Queues of the machines of one process, with the methods of `TaskQueues` that cores use.

    Parameters
    ----------
    engine
        Engine of the process, whose clock is used.
    tell
        Function that sends a report to the coordinator.
    cores
        int64[machines], number of cores of each machine; None for one each.
    memory
        int64[machines], bytes that the running tasks of each machine share; None if all have enough.

    Attributes
    ----------
    running
        Number of running tasks.
    """

    def __init__(
        self,
        speed: Any,
        *,
        engine: RealTimeEngine,
        tell: Callable[..., None],
        cores: Any = None,
        memory: Any = None,
        order: str = "edf",
        watch: str = "idle",
        log: bool = False,
        record: bool = False,
        tolerance: float = 0.0,
    ) -> None:
        super().__init__(speed)
        self.engine, self.tell, self.edf, self.log = engine, tell, order == "edf", log
        self.watch, self.tolerance = watch, tolerance
        counts = [1] * self.machines if cores is None else np.asarray(cores).tolist()
        capacity = [math.inf] * self.machines if memory is None else np.asarray(memory).tolist()
        self.of = [Machine(*entry) for entry in zip(counts, capacity, strict=True)]
        self.running = 0
        #: Heap of the ends of tasks: time (ns), machine, core, incarnation of the core.
        self._ends: list[tuple[int, int, int, int]] = []
        self._completions = dict[tuple[int, int], int]()  # machine, application -> tasks

    # -- queries of nodes -----------------------------------------------------------------------------------

    def speed_of(self, machine: int) -> float:
        """Return the speed of a machine, Mflop/s."""
        return self.speed[machine]

    def queue(self, machine: int) -> tuple[Rows, Rows, int, int]:
        """Return (applications, tasks, running application or -1, its end in ns) of a machine."""
        state = self.of[machine]
        rows, busy = np.array(_task_counts(state.queue), np.int64).reshape(-1, 2), state.busy
        running = busy[0].running if busy else -1
        return rows[:, 0], rows[:, 1], running, max(core.end for core in state.cores)

    def cores_of(self, machine: int) -> int:
        """Return the number of cores of a machine."""
        return len(self.of[machine].cores)

    def running_count(self, machine: int, now: int) -> int:
        """Return the number of tasks that a machine runs after `now` ns."""
        return sum(core.end > now for core in self.of[machine].busy)

    def is_busy(self, machines: Any) -> list[bool]:
        """Return whether each of `machines` has tasks."""
        return [bool(self.of[machine].busy or self.of[machine].queue) for machine in machines]

    def work(self, machine: int, now: int) -> float:
        """Return the time that a machine needs for all its tasks, s."""
        state = self.of[machine]
        size = sum(
            self.task_size[share.application] * len(share.tasks) * self._width_of(machine, share.application)
            for share in state.queue
        )
        left = sum(
            max(0, core.planned - now) / NS * self._width_of(machine, core.running) for core in state.busy
        )
        return (left + size / self.speed[machine]) / len(state.cores)

    def _width(self, machine: int, memory: int) -> float:
        """Return how many cores' part of a machine a task with `memory` bytes takes, as `CoreQueues` does."""
        state = self.of[machine]
        if memory == 0:
            return 1.0
        if memory > state.memory:
            return math.inf
        return max(1.0, len(state.cores) * (memory / state.memory))

    def _width_of(self, machine: int, application: int) -> float:
        """Return how many cores' part of a machine a task of `application` takes."""
        return self._width(machine, self.task_memory[application])

    def _fits(self, machine: int, application: int) -> bool:
        """Return whether the free memory of a machine suffices for a task of `application`."""
        state = self.of[machine]
        used = sum(self.task_memory[core.running] for core in state.busy)
        return used + self.task_memory[application] <= state.memory

    def _processor(self, machine: int, at: int, edge: int) -> tuple[dict[str, Any], float, float]:
        """Return the queue of a machine at `at` ns as that of one processor, as `CoreQueues` plans with it.

        Parameters
        ----------
        edge
            Instant (ns) before which tasks have started.

        Returns
        -------
        Its entries and speed, the time from which it is free (s), and the stretch below which it cannot be.
        """
        state, count, floor, busy_time = self.of[machine], len(self.of[machine].cores), 0.0, 0.0

        def stretch(application: int, end: float) -> float:
            return (end - self.release[application]) / self.size[application]

        for core in state.busy:
            if core.planned > at:
                floor = max(floor, stretch(core.running, core.planned / NS))
                busy_time += (core.planned - at) * self._width_of(machine, core.running)
        start, queue = at + round(busy_time / count), []
        for i, tasks in _task_counts(state.queue):
            width, length = self._width_of(machine, i), self.planned(machine, i)
            length = max(1, length // count if width == 1.0 else int(length * (width / count)))
            while tasks and start < edge:
                start += length
                tasks -= 1
                if start > at:
                    floor = max(floor, stretch(i, start / NS))
            if tasks:
                queue.append((i, tasks))
                if count > 1:
                    floor = max(floor, stretch(i, at / NS + self.task_size[i] / self.speed[machine]))
        entries = {
            "release": [self.release[i] for i, _ in queue],
            "size": [self.size[i] for i, _ in queue],
            "work": [tasks * self.task_size[i] * self._width_of(machine, i) for i, tasks in queue],
            "speed": self.speed[machine] * count,
        }
        return entries, max(start, at) / NS, floor

    def minimum_stretch(self, machines: Any, now: int) -> list[float]:
        """Return the minimum stretch of the waiting and running tasks of each machine; inf without tasks."""
        return [self._minimum_stretch(machine, now) for machine in machines]

    def _minimum_stretch(self, machine: int, now: int) -> float:
        if not self.is_busy([machine])[0]:
            return math.inf
        options: dict[str, Any] = {"method": "bisection", "rtol": self.tolerance} if self.tolerance else {}
        entries, free_at, floor = self._processor(machine, now, now)
        return max(floor, float(optimal_stretch(**entries, now=free_at, **options)))

    def summaries(
        self, machines: Any, grid: Any, now: int, *, cell: int, memory: int = 0
    ) -> list[NDArray[np.uint32]]:
        """Return the number of further tasks, released at `cell` ns, that each machine can take.

        A task takes `memory` bytes.
        """
        return [self._sample(machine, grid, now, cell, memory) for machine in machines]

    def _sample(self, machine: int, grid: Any, now: int, release: int, memory: int) -> NDArray[np.uint32]:
        if (width := self._width(machine, memory)) == math.inf:
            return np.zeros(grid.shape, np.uint32)
        wider = grid
        if width > 1.0:
            wider = SummaryGrid(grid.stretch, grid.size, grid.task_size * width)
        # a task that starts exactly at `release` counts as started
        entries, free_at, floor = self._processor(machine, release, release + 1)
        if release > now and self.is_busy([machine])[0]:
            floor = max(floor, self._minimum_stretch(machine, now))
        cells = sample_availability(wider, release / NS, **entries, free_at=free_at)
        cells[grid.stretch * (1 + 1e-12) < floor] = 0
        if self.cores_of(machine) > 1:  # one of them must run each task
            seconds = (grid.stretch[:, None] * grid.size)[:, :, None]
            cells[seconds * self.speed[machine] < grid.task_size] = 0
        return cells

    # -- actions of nodes -----------------------------------------------------------------------------------

    def _share_of(self, machine: int, application: int) -> Share | None:
        queue = self.of[machine].queue
        return next((share for share in queue if share.application == application), None)

    def enqueue(self, machines: Any, applications: Any, tasks: Any, now: int) -> None:
        """Queue tasks of the nodes of this process, which `begin_tasks` starts later."""
        for machine, application, count in zip(machines, applications, tasks, strict=True):
            share = self._share_of(machine, application)
            if share is None:
                share = Share(application)
                self.of[machine].queue.append(share)
            placed = self.unqueued_tasks[application].take(count)
            share.tasks.add(placed)
            self.enqueued += count
            self.idle.add(machine)
            self.tell("queued", machine, application, placed, self.engine.moment())

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        """Withdraw up to `tasks` waiting tasks from a queue, the latest first; return their number."""
        share = self._share_of(machine, application)
        if share is None or tasks <= 0:
            return 0
        self.idle.add(machine)  # the memory may suffice for the task that is then the first
        taken = share.tasks.take_last(min(tasks, len(share.tasks)))
        if not share.tasks:
            self.of[machine].queue.remove(share)
        self._hold(application, taken)
        self.enqueued -= count_of(taken)
        self.tell("withdrawn", machine, application, taken, self.engine.moment())
        return count_of(taken)

    def _hold(self, application: int, tasks: Parts) -> None:
        self.unqueued_tasks.setdefault(application, TaskSet()).add(tasks)

    # -- events ---------------------------------------------------------------------------------------------

    def reschedule(self, machines: Any, now: int) -> None:
        """Restore the order of the queues of machines."""
        for machine in machines if self.edf else ():
            queue = self.of[machine].queue
            self.idle.add(machine)  # the memory may suffice for the task that is then the first
            if len(queue) > 1:
                minimum = self._minimum_stretch(machine, now)
                # ordered by deadline as a float; ties keep their order
                queue.sort(
                    key=lambda share: self.release[share.application] + minimum * self.size[share.application]
                )

    def begin_tasks(self) -> None:
        """Start the first tasks on idle cores, after all tasks of this instant have been queued."""
        for machine in sorted(self.idle):
            queue = self.of[machine].queue
            for number, core in enumerate(self.of[machine].cores):
                if core.running < 0 and queue and self._fits(machine, queue[0].application):
                    self._begin(machine, number, core)
        self.idle.clear()

    def _begin(self, machine: int, number: int, core: Core) -> None:
        """Start the first task of a machine on its idle core `number`."""
        queue = self.of[machine].queue
        first = queue[0]
        ((core.task, _),) = first.tasks.take(1)
        if not first.tasks:
            del queue[0]
        core.running, core.start = first.application, self.engine.moment()
        core.end = core.start + self.run_time(machine, core.running, core.task)
        core.planned = core.start + self.planned(machine, core.running)
        core.incarnation += 1
        self.running += 1
        self.tell("began", machine, core.running, core.task, core.start)
        heappush(self._ends, (core.end, machine, number, core.incarnation))

    def next_change(self) -> int:
        """Return the time of the next end of a task, ns; `NEVER` if no task runs."""
        while self._ends and not self._runs(*self._ends[0]):
            heappop(self._ends)
        return self._ends[0][0] if self._ends else NEVER

    def _runs(self, end: int, machine: int, number: int, incarnation: int) -> bool:
        core = self.of[machine].cores[number]
        return core.running >= 0 and core.incarnation == incarnation

    def due(self, now: int) -> Rows:
        """End the tasks that are due by `now` ns; return their machines, ascending."""
        machines = list[int]()
        while self.next_change() <= now:
            _, machine, number, _ = heappop(self._ends)
            core = self.of[machine].cores[number]
            application, core.running = core.running, -1
            self.running -= 1
            self.tasks_done += 1
            self.idle.add(machine)
            machines.append(machine)
            self.tell("ended", machine, application, core.task, core.end)
            if self.log:
                done = self._completions
                done[machine, application] = done.get((machine, application), 0) + 1
        return np.array(sorted({*machines}), np.int64)

    def finish(self) -> None:
        """Run all tasks to their ends without notifying nodes."""
        self.begin_tasks()
        while (instant := self.next_change()) < NEVER:
            self.engine.move_to(instant)
            self.due(instant)
            self.begin_tasks()

    def advance(self, until: int, machines: Any = None) -> tuple[Rows, Rows, Rows, Rows]:
        """Return (machine, application, tasks, unused) of the tasks that have ended since the last call."""
        rows = [(machine, i, tasks, 0) for (machine, i), tasks in sorted(self._completions.items())]
        self._completions.clear()
        return _columns(rows, 4)

    def fail(self, machines: Any, now: int) -> tuple[Rows, ...]:
        """Lose all tasks of machines; return (machine, application, tasks), see `TaskQueues`."""
        lost = []
        for machine in np.asarray(machines).tolist():
            state = self.of[machine]
            left = dict[int, int]()
            for share in state.queue:
                left[share.application] = len(share.tasks)
                self._hold(share.application, share.tasks.take_all())
            for core in state.busy:
                if core.start < now:
                    self.tell("interrupted", machine, core.running, core.task, now)
                else:  # the task was started before the earlier failure of the machine was known here
                    self.tell("undone", machine, core.running, core.task)
                left[core.running] = left.get(core.running, 0) + 1
                self._hold(core.running, [(core.task, core.task + 1)])
                self.running -= 1
                core.running = -1
            lost += [(machine, i, left[i]) for i in sorted(left)]
            if state.queue:
                self.tell("failed", machine)
            state.queue = []
        return _columns(lost, 3)


def _columns(rows: list[Any], columns: int) -> tuple[Any, ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, columns).T.copy())


def _task_counts(queue: list[Share]) -> list[list[int]]:
    """Return the waiting tasks as [application, number of tasks] pairs."""
    return [[share.application, len(share.tasks)] for share in queue]


class Ledger(_Columns):
    """Record of the queues and schedules of all machines, made from the reports of processes."""

    def __init__(self, speed: Any, **options: Any) -> None:
        super().__init__(speed)
        self.options = options
        self.arrival_rows: list[tuple[int, int, int, int]] = []
        self.schedule_rows: list[tuple[int, int, int, int, int, int]] = []
        self.running: dict[tuple[int, int, int], int] = {}  # machine, application, task -> start
        self.waits: dict[tuple[int, int], TaskSet] = {}  # machine, application -> tasks
        n = self.machines
        self.waiting, self.peak = [0] * n, [0] * n
        self.last_placed = -1

    def record_queued(self, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Record that tasks were queued on a machine."""
        self._add_arrival(machine, application, count_of(tasks), time)
        self.waits.setdefault((machine, application), TaskSet()).add(tasks)
        self.waiting[machine] += count_of(tasks)
        self.peak[machine] = max(self.peak[machine], self.waiting[machine])

    def record_withdrawn(self, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Record that tasks were withdrawn from a queue."""
        self._add_arrival(machine, application, -count_of(tasks), time)
        self._remove_waiting(machine, application, tasks)

    def _add_arrival(self, machine: int, application: int, tasks: int, time: int) -> None:
        self.arrival_rows.append((machine, application, tasks, time))
        self.enqueued += tasks
        self.last_placed = max(self.last_placed, time)

    def _remove_waiting(self, machine: int, application: int, tasks: Parts) -> None:
        self.waits[machine, application].remove(tasks)
        self.waiting[machine] -= count_of(tasks)

    def record_start(self, machine: int, application: int, task: int, start: int) -> None:
        """Record that a task has started."""
        self.running[machine, application, task] = start
        self._remove_waiting(machine, application, [(task, task + 1)])

    def record_end(self, machine: int, application: int, task: int, end: int) -> None:
        """Record that a task is completed."""
        start = self.running.pop((machine, application, task))
        self.schedule_rows.append((machine, application, 1, start, end, 1))
        self.tasks_done += 1
        if self.releases is not None:
            self.open_tasks[application] -= 1
            self.last_end[application] = max(self.last_end[application], end)
            if not self.open_tasks[application]:
                self.releases.end([application], self.last_end[application])

    def record_interruption(self, machine: int, application: int, task: int, now: int) -> None:
        """Record that a failure has interrupted a task."""
        start = self.running.pop((machine, application, task))
        self.schedule_rows.append((machine, application, 1, start, now, 0))

    def record_cancelled_start(self, machine: int, application: int, task: int) -> None:
        """Record that the reported start of a task was cancelled by an earlier failure."""
        del self.running[machine, application, task]

    def next_change(self) -> int:
        """Return `NEVER`: the coordinator has no machines."""
        return NEVER

    def begin_tasks(self) -> None:
        """Do nothing: the coordinator has no machines."""

    def fail(self, machines: Any, now: int) -> tuple[Rows, ...]:
        """Return empty columns: processes report the losses of their machines."""
        return _columns([], 3)

    def drop(self, machines: list[int], now: int) -> dict[int, TaskSet]:
        """Record all tasks of killed machines as lost; return application -> tasks."""
        lost = dict[int, TaskSet]()
        for machine in machines:
            for application, tasks in self.record_failure(machine).items():
                lost.setdefault(application, TaskSet()).add(tasks)
            for _, application, task in [key for key in self.running if key[0] == machine]:
                start = self.running[machine, application, task]
                end = start + self.run_time(machine, application, task)
                if end <= now:  # the task had ended before the kill
                    self.record_end(machine, application, task, end)
                    continue
                if start < now:
                    self.record_interruption(machine, application, task, now)
                else:
                    self.record_cancelled_start(machine, application, task)
                lost.setdefault(application, TaskSet()).add([(task, task + 1)])
        return lost

    def record_failure(self, machine: int) -> dict[int, Parts]:
        """Record that the tasks waiting on a machine are lost; return application -> tasks."""
        keys = [key for key in self.waits if key[0] == machine]
        lost: dict[int, Parts] = {key[1]: tasks.take_all() for key in keys if (tasks := self.waits.pop(key))}
        self.waiting[machine] = 0
        return lost

    # -- results, as in `TaskQueues` ------------------------------------------------------------------------

    def advance(self, until: int = NEVER, machines: Any = None) -> tuple[Rows, ...]:
        """Return empty columns: nodes request only the completions of their own machines."""
        return _columns([], 4)

    def schedule(self) -> dict[str, Rows]:
        """Return the columns of the schedule, ordered by machine and start."""
        rows = (
            np.array(sorted(self.schedule_rows, key=lambda row: (row[0], row[3])), np.int64)
            .reshape(-1, 6)
            .T.copy()
        )
        return dict(zip(SCHEDULE, rows, strict=True))

    def arrivals(self) -> dict[str, Rows]:
        """Return the columns of the arrivals of tasks, ordered by time."""
        rows = np.array(sorted(self.arrival_rows, key=lambda row: row[3]), np.int64).reshape(-1, 4).T.copy()
        return dict(zip(ARRIVALS, rows, strict=True))

    def totals(self) -> dict[str, Rows]:
        """Return the totals of applications and machines."""
        count, n = len(self.release), self.machines
        u, i, _, start, end, done = np.array(self.schedule_rows, np.int64).reshape(-1, 6).T
        first, finish = np.full(count, NEVER), np.full(count, -1)
        np.minimum.at(first, i, start)
        np.maximum.at(finish, i[done > 0], end[done > 0])
        v, j, tasks, _ = np.array(self.arrival_rows, np.int64).reshape(-1, 4).T
        pairs, pair_index = np.unique(v * count + j, return_inverse=True)
        used = pairs[np.bincount(pair_index, tasks, len(pairs)) > 0] % count
        return {
            "first_start": np.where(first == NEVER, -1, first),
            "finish": finish,
            "completed": np.bincount(i, done, count).astype(np.int64),
            "nodes_used": np.bincount(used, minlength=count),
            "busy": np.bincount(u, end - start, n).astype(np.int64),
            "tasks": np.bincount(u, done, n).astype(np.int64),
            "interrupted": np.bincount(u[done == 0], minlength=n),
            "peak_queue": np.array(self.peak, np.int64),
        }
