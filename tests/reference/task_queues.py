"""Reference implementation of `gridcore.queues.task_queues`: every machine steps task by task."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import availability, edf
from tests.reference.arguments import (
    doubles,
    integers,
)

__all__ = ["TaskQueues"]


@dataclass
class Share:
    """Waiting tasks of one application at a machine."""

    application: int
    tasks: int


@dataclass
class Machine:
    """One machine: its waiting shares in order, and the running task, which ends at `free_at`."""

    speed: float
    queue: list[Share] = field(default_factory=list)
    running: int = -1
    free_at: int = 0
    peak: int = 0
    busy: int = 0
    done: int = 0
    interrupted: int = 0

    @property
    def idle(self) -> bool:
        return self.running < 0 and not self.queue

    @property
    def waiting(self) -> int:
        return sum(share.tasks for share in self.queue)


@dataclass
class Application:
    """An application and its totals."""

    release: float
    size: float
    task_size: float
    owner: int  # the application to which a resubmitted bag belongs, else its own index
    first_start: int = -1
    finish: int = -1
    completed: int = 0
    arrivals_at: dict[int, int] = field(default_factory=dict)  # machine -> tasks enqueued and not withdrawn


class TaskQueues:
    """Reference implementation of `gridcore.queues.task_queues.TaskQueues`."""

    def __init__(
        self,
        speed: ArrayLike,
        *,
        order: Literal["edf", "fifo"] = "edf",
        watch: Literal["idle", "completion"] = "idle",
        log: bool = False,
        record: bool = False,
        tolerance: float = 0.0,
        **data: Any,
    ) -> None:
        self.tolerance = float(tolerance)
        speeds = doubles(speed)
        self._machine = [Machine(s) for s in speeds]
        self._application: list[Application] = []
        self._log: list[tuple[int, int, int]] = []
        self.machines, self.enqueued, self.tasks_done = len(speeds), 0, 0
        self.order, self.watch, self.log, self.record = order, watch, log, record
        self._releases: Any = None
        self._task_counts: list[int] = []
        self._run_log: list[tuple[int, int, int, int, bool]] = []
        self._arrival_log: list[tuple[int, int, int, int]] = []

    # -- applications and queues ----------------------------------------------------------------------

    def add_applications(
        self,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        whose: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Append applications, with consecutive indices; `whose` has the application of each resubmitted bag.

        Tasks with `sizes` of their own are those of `tests.reference.own_sizes`.
        """
        assert sizes is None and tasks is None
        r, w, a = doubles(release), doubles(size), doubles(task_size)
        applications, n = self._application, len(self._application)
        owners = list(range(n, n + len(r))) if whose is None else integers(whose)
        applications += [Application(*row) for row in zip(r, w, a, owners, strict=True)]

    def follow(self, releases: Any, tasks: ArrayLike) -> None:
        """Report the end of each application to `releases` when its `tasks` are completed."""
        self._releases, self._task_counts = releases, integers(tasks)

    @property
    def _sees_each_end(self) -> bool:
        return self.watch == "completion" or self._releases is not None

    def release_applications(self, applications: ArrayLike) -> None:
        """Take over the releases of `applications`."""
        for i in integers(applications):
            self._application[i].release = self._releases.release[i] / 1e9

    def totals(self) -> dict[str, Integers]:
        """Return the totals so far."""
        columns = {
            "first_start": [i.first_start for i in self._application],
            "finish": [i.finish for i in self._application],
            "completed": [i.completed for i in self._application],
            "nodes_used": [sum(n > 0 for n in i.arrivals_at.values()) for i in self._application],
            "busy": [m.busy for m in self._machine],
            "tasks": [m.done for m in self._machine],
            "interrupted": [m.interrupted for m in self._machine],
            "peak_queue": [m.peak for m in self._machine],
            "waiting": [m.waiting for m in self._machine],
        }
        return {name: np.array(column, np.int64) for name, column in columns.items()}

    def queue(self, machine: int) -> tuple[Integers, Integers, int, int]:
        """Return (applications, tasks, running application or -1, free_at ns) of a machine."""
        m = self._machine[machine]
        applications = np.array([share.application for share in m.queue], np.int64)
        tasks = np.array([share.tasks for share in m.queue], np.int64)
        return applications, tasks, m.running, m.free_at

    def running_count(self, machine: int, now: int) -> int:
        """Return the number of tasks that a machine runs after `now` ns."""
        self._advance(machine, now)
        m = self._machine[machine]
        return int(m.running >= 0 and m.free_at > now)

    def speed_of(self, machine: int) -> float:
        """Return the speed of a machine, Mflop/s."""
        return self._machine[machine].speed

    def cores_of(self, machine: int) -> int:
        """Return the number of cores of a machine."""
        return 1

    def work(self, machine: int, now: int) -> float:
        """Return the time that a machine needs for all its tasks from `now` ns, by their stated sizes, s."""
        self._advance(machine, now)
        m = self._machine[machine]
        size = sum(self._application[share.application].task_size * share.tasks for share in m.queue)
        left = max(0, self._planned_end(machine) - now) / 1e9 if m.running >= 0 else 0.0
        return left + size / m.speed

    def schedule(self) -> dict[str, Integers]:
        """Return the runs so far, in order of machine and start; empty without ``record``."""
        rows: list[list[int]] = []
        for u, i, start, end, completed in sorted(self._run_log, key=lambda row: (row[0], row[2])):
            last = rows[-1] if rows else None
            is_single = self.cores_of(u) == 1
            if is_single and completed and last and last[5] and last[:2] == [u, i] and last[4] == start:
                last[2], last[4], last[5] = last[2] + 1, end, last[5] + 1
            else:
                rows.append([u, i, 1, start, end, int(completed)])
        names = ("machine", "application", "tasks", "start", "end", "completed")
        return dict(zip(names, np.array(rows, np.int64).reshape(-1, 6).T.copy(), strict=True))

    def arrivals(self) -> dict[str, Integers]:
        """Return the arrivals so far, in order; withdrawn tasks are negative."""
        columns = np.array(self._arrival_log, np.int64).reshape(-1, 4).T.copy()
        return dict(zip(("machine", "application", "tasks", "time"), columns, strict=True))

    def is_busy(self, machines: ArrayLike) -> NDArray[np.bool_]:
        """Return which of `machines` run a task or have tasks waiting."""
        return np.array([not self._machine[u].idle for u in integers(machines)], np.bool_)

    # -- changes ------------------------------------------------------------------------------------

    def enqueue(self, machines: ArrayLike, applications: ArrayLike, tasks: ArrayLike, now: int) -> None:
        """Add a cohort of shares at `now` ns."""
        for row in zip(integers(machines), integers(applications), integers(tasks), strict=True):
            self._enqueue(*row, now)

    def _enqueue(self, u: int, application: int, tasks: int, now: int) -> None:
        self._advance(u, now)
        m = self._machine[u]
        start = max(m.free_at, now) if m.idle else m.free_at
        waiting = {share.application: share for share in m.queue}
        self.enqueued += tasks
        if self.record:
            self._arrival_log.append((u, self._owner(application), tasks, now))
        if application in waiting:
            waiting[application].tasks += tasks
        else:
            m.queue.append(Share(application, tasks))
        arrivals_at = self._application[self._owner(application)].arrivals_at
        arrivals_at[u] = arrivals_at.get(u, 0) + tasks
        m.free_at = start
        m.peak = max(m.peak, m.waiting)

    def withdraw(self, machine: int, application: int, tasks: int, now: int) -> int:
        """Withdraw up to `tasks` waiting tasks from the queue of `machine`; return their number."""
        self._advance(machine, now)
        m, owner = self._machine[machine], self._owner(application)
        n_taken = 0
        for share in m.queue:
            if share.application == application:
                n_taken = min(tasks, share.tasks)
                share.tasks -= n_taken
        m.queue = [share for share in m.queue if share.tasks]
        if n_taken:
            self.enqueued -= n_taken
            self._application[owner].arrivals_at[machine] -= n_taken
            if self.record:
                self._arrival_log.append((machine, owner, -n_taken, now))
        return n_taken

    def reschedule(self, machines: ArrayLike, now: int) -> None:
        """Sort the queues of `machines` into EDF order at their minimum stretch."""
        for u in integers(machines):
            if self.order == "edf":
                self._advance(u, now)
                queue = self._as_queue(u, now)
                due = edf.deadlines_at(queue, self._minimum(queue))
                shares = self._machine[u].queue
                self._machine[u].queue = [shares[k] for k in edf.edf_order(due)]

    def fail(self, machines: ArrayLike, now: int) -> tuple[Integers, Integers, Integers]:
        """Remove all tasks on `machines`, running ones too; return (machines, applications, tasks)."""
        lost = []
        failing = integers(machines)
        for u in failing:
            self._advance(u, now)
            m = self._machine[u]
            shares = [(share.application, share.tasks) for share in m.queue]
            if m.running >= 0:
                shares.append((m.running, 1))
                m.busy -= m.free_at - now
                m.interrupted += 1
                if self.record:
                    start = m.free_at - self._running_length(u)
                    self._run_log.append((u, self._owner(m.running), start, now, False))
            left: dict[int, int] = {}
            for application, tasks in shares:
                left[self._owner(application)] = left.get(self._owner(application), 0) + tasks
            lost += [(u, application, left[application]) for application in sorted(left)]
            m.queue, m.running, m.free_at = [], -1, now
        u_lost, i_lost, n_lost = np.array(lost, np.int64).reshape(-1, 3).T.copy()
        return u_lost, i_lost, n_lost

    # -- time -----------------------------------------------------------------------------------------

    def advance(
        self, until: int, machines: ArrayLike | None = None
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Advance `machines` (default: all) to `until`; return (machine, application, tasks, end)."""
        for u in range(self.machines) if machines is None else integers(machines):
            self._advance(u, until)
        tasks: dict[tuple[int, int], int] = {}
        last: dict[tuple[int, int], int] = {}
        for u, application, end in self._log:
            key = u, application
            tasks[key] = tasks.get(key, 0) + 1
            last[key] = max(last.get(key, end), end)
        self._log = []
        rows = [(*key, tasks[key], last[key]) for key in sorted(tasks)]
        machine, application_, count, end_ = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        return machine, application_, count, end_

    def catch_up(self, until: int, machines: ArrayLike | None = None) -> None:
        """Let machines work up to `until` ns; the next `advance` returns what they complete."""
        for u in range(self.machines) if machines is None else integers(machines):
            self._advance(u, until)

    def _duration(self, u: int, application: int) -> int:
        """Return the duration of a task, at least 1 ns; the last instant if it is longer than that."""
        ns = self._application[application].task_size / self._machine[u].speed * 1e9
        return max(1, round(ns)) if ns < 9.2e18 else NEVER

    def _running_length(self, u: int) -> int:
        """Return the duration of the running task, ns."""
        return self._duration(u, self._machine[u].running)

    def _next_length(self, u: int) -> int:
        """Return the duration of the task that starts next, ns."""
        return self._duration(u, self._machine[u].queue[0].application)

    def _waiting_length(self, u: int) -> int:
        """Return the duration of all waiting tasks, ns."""
        return sum(share.tasks * self._duration(u, share.application) for share in self._machine[u].queue)

    def _planned_end(self, u: int) -> int:
        """Return when the running task ends by its stated size, ns."""
        return self._machine[u].free_at

    def _owner(self, application: int) -> int:
        """Return the application to which a resubmitted bag belongs, else `application` itself."""
        return self._application[application].owner

    def _advance(self, u: int, until: int) -> None:
        m = self._machine[u]
        while True:
            if m.running >= 0:
                if m.free_at > until:
                    return
                self._complete(u, m.running, m.free_at)
                m.running = -1
            if not m.queue or m.free_at >= until:
                return
            self._start(u)

    def _start(self, u: int) -> None:
        """Start the first task that waits."""
        m = self._machine[u]
        first, length = m.queue[0], self._next_length(u)
        first.tasks -= 1
        if first.tasks == 0:
            m.queue.pop(0)
        i = self._application[self._owner(first.application)]
        i.first_start = m.free_at if i.first_start < 0 else min(i.first_start, m.free_at)
        m.running = first.application
        m.busy += length
        m.free_at += length

    def _complete(self, u: int, application: int, end: int) -> None:
        for i in {application, self._owner(application)}:
            self._application[i].completed += 1
            self._application[i].finish = max(self._application[i].finish, end)
        application = self._owner(application)
        self._machine[u].done += 1
        self.tasks_done += 1
        total, row = dict(enumerate(self._task_counts)).get(application), self._application[application]
        if total == row.completed:
            self._releases.end([application], row.finish)
        if self.log:
            self._log.append((u, application, end))
        if self.record:
            self._run_log.append((u, application, end - self._running_length(u), end, True))

    def _change(self, u: int) -> int:
        """Return when `u` runs idle, or ends a task, ns."""
        m = self._machine[u]
        if m.idle:
            return NEVER
        if self._sees_each_end:
            return m.free_at if m.running >= 0 else m.free_at + self._next_length(u)
        return m.free_at + self._waiting_length(u)

    def next_change(self) -> int:
        """Return the first instant (ns) at which a machine runs idle (or ends a task), else `NEVER`."""
        return min((self._change(u) for u in range(self.machines)), default=NEVER)

    def due(self, now: int) -> Integers:
        """Return the machines whose next change is due by `now` ns, ascending, advanced to `now`."""
        due_machines = [
            u for u in range(self.machines) if self._change(u) <= now and not self._machine[u].idle
        ]
        for u in due_machines:
            self._advance(u, now)
        if self.watch == "idle":
            due_machines = [u for u in due_machines if self._machine[u].idle]
        return np.array(due_machines, np.int64)

    # -- queries of the scheduler -----------------------------------------------------------------------

    def minimum_stretch(self, machines: ArrayLike, now: int) -> NDArray[np.float64]:
        """Return the minimum stretch of the tasks that wait or run; inf for an idle machine."""
        result = []
        for u in integers(machines):
            self._advance(u, now)
            idle = self._machine[u].idle
            result.append(math.inf if idle else self._minimum(self._as_queue(u, now)))
        return np.array(result, np.float64)

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
        """Return the availability of `machines` for an application released at `cell` ns (default `now`).

        A task that starts at exactly `cell` counts as started.
        """
        numbers = integers(machines)
        at = now if cell is None else cell
        result = np.empty((len(numbers), *grid.shape), np.uint32)
        for k, u in enumerate(numbers):
            self._advance(u, now)
            minimum = self._minimum(self._as_queue(u, now))
            queue = self._projected_queue(u, at)
            cells = availability.sample_availability(
                self._wider(grid, u, memory),
                at / 1e9,
                queue.release,
                queue.size,
                queue.work,
                speed=queue.speed,
                free_at=queue.free_at,
            )
            # samples below the stretch of the running task have no room; at a later instant, neither have
            # samples below the stretch of the present queue
            floor = max(queue.floor, minimum) if at > now else queue.floor
            cells[grid.stretch + grid.stretch * edf.TOLERANCE < floor] = 0
            result[k] = cells
        return result

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
        """Return the number of tasks that each of `machines` (default: all) can take at `stretch`."""
        result = []
        for u in range(self.machines) if machines is None else integers(machines):
            self._advance(u, now)
            capacity = availability.queue_gap(self._as_queue(u, now), stretch, release_new, size_new)
            ratio = capacity / (task_size_new * self._width(u, memory))
            result.append(math.floor(ratio) if ratio < 2.0**63 else NEVER)
        return np.array(result, np.int64)

    def _width(self, u: int, memory: int) -> float:
        """Return how many cores' part of `u` a task with `memory` bytes takes."""
        return 1.0

    def _wider(self, grid: SummaryGrid, u: int, memory: int) -> SummaryGrid:
        """Return the grid with the sizes as which tasks with `memory` bytes count on `u`."""
        return grid

    def _projected_queue(self, u: int, at: int) -> edf.Queue:
        """Return the queue that `u` will hold at `at` ns if nothing arrives, without a task starting then."""
        later = TaskQueues([m.speed for m in self._machine], order=self.order)
        later._machine, later._application = deepcopy(self._machine), deepcopy(self._application)
        later._advance(u, at)
        m = later._machine[u]
        if m.running < 0 and m.queue and m.free_at <= at:
            later._start(u)
        return later._as_queue(u, at)

    def _minimum(self, queue: edf.Queue) -> float:
        """Return the minimum stretch of `queue` within the tolerance."""
        return edf.bisect(queue, self.tolerance) if self.tolerance > 0.0 else edf.minimum_stretch(queue)

    def _as_queue(self, u: int, now: int) -> edf.Queue:
        m = self._machine[u]
        i = [self._application[share.application] for share in m.queue]
        free_at, floor = max(self._planned_end(u), now) / 1e9, 0.0
        if m.running >= 0 and self._planned_end(u) > now:
            running = self._application[m.running]
            floor = max(0.0, (free_at - running.release) / running.size)
        work = [share.tasks * x.task_size for share, x in zip(m.queue, i, strict=True)]
        return edf.Queue([x.release for x in i], [x.size for x in i], work, m.speed, free_at, floor)
