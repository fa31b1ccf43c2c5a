"""A leaf of the fair tree with several cores, written from its page and `docs/background/model.md` alone.

Times are in ns, sizes in Mflop, speeds in Mflop/s, memory in bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridsim.support.clock import NS


@dataclass(frozen=True)
class Application:
    release: int
    task_size: float
    size: float
    #: What a task takes while it runs.
    memory: float = 0.0


@dataclass(eq=False)
class Share:
    """Tasks of an application that wait."""

    application: int
    tasks: int


@dataclass
class Core:
    #: When its last task ends.
    free: int = 0
    #: The application of that task.
    application: int = -1


#: An execution of a task: application, start, end, and whether it was completed.
Execution = tuple[int, int, int, bool]


class Leaf:
    def __init__(
        self, speed: float, cores: int, applications: list[Application], memory: float = math.inf
    ) -> None:
        self.speed, self.applications, self.memory = speed, applications, memory
        self.last_start = self.now = 0
        self.cores = [Core() for _ in range(cores)]
        self.queue: list[Share] = []
        self.executions: list[Execution] = []
        #: How often an arrival changed the order of what had waited before.
        self.reordered = 0

    def run(self, arrivals: list[tuple[int, Share]], failure: int | None = None) -> None:
        instants = {at for at, _ in arrivals} | ({failure} if failure is not None else set())
        for instant in sorted(instants):
            self.start_tasks(instant)
            waited = list(self.queue)
            if arrived := [share for at, share in arrivals if at == instant]:
                self.queue += arrived
                self.order(instant)
                self.reordered += [share for share in self.queue if share in waited] != waited
            if instant == failure:
                self.fail(instant)
        self.start_tasks(None)

    def start_tasks(self, until: int | None) -> None:
        """Start the tasks that start before `until`, in the order of the queue."""
        while self.queue:
            core, share = min(self.cores, key=lambda core: core.free), self.queue[0]
            start = self.first_start(share.application, core)
            if until is not None and start >= until:
                return
            core.free = start + round(self.run_time(share.application) * NS)
            core.application, self.last_start = share.application, start
            self.executions.append((share.application, start, core.free, True))
            share.tasks -= 1
            if not share.tasks:
                self.queue.pop(0)

    def first_start(self, application: int, core: Core) -> int:
        """Return when the memory suffices for a task that starts on `core` after all earlier ones."""
        start, need = max(core.free, self.last_start), self.applications[application].memory
        ends = sorted(other.free for other in self.cores if other.free > start)
        for at in [start, *ends]:
            running = [other.application for other in self.cores if other.free > at]
            if need + sum(self.applications[i].memory for i in running) <= self.memory:
                return at
        raise AssertionError

    def fail(self, now: int) -> None:
        self.queue.clear()
        for core in self.cores:
            core.free = now
        rows = [row if row[2] <= now else (row[0], row[1], now, False) for row in self.executions]
        self.executions = rows

    def order(self, now: int) -> None:
        """Order the queue by deadlines at the minimum stretch."""
        for core in self.cores:
            core.free = max(core.free, now)
        self.now = now
        bound = self.least_stretch(now)
        stretch, last = bound, -1.0
        while stretch != last:
            self.queue.sort(key=lambda share: self.deadline(share, stretch))
            stretch, last = max(bound, self.needed_stretch()), stretch

    def run_time(self, application: int) -> float:
        """Return the run time of a task, in s."""
        return self.applications[application].task_size / self.speed

    def deadline(self, share: Share, stretch: float) -> float:
        application = self.applications[share.application]
        return application.release / NS + stretch * application.size

    def stretch(self, application: int, end: float) -> float:
        """Return the stretch of an application of which a task ends at `end`, in s."""
        return (end - self.applications[application].release / NS) / self.applications[application].size

    def least_stretch(self, now: int) -> float:
        """Return the largest stretch that a running task has, or a waiting one would have on an idle core."""
        running = [self.stretch(core.application, core.free / NS) for core in self.cores if core.free > now]
        waiting = (share.application for share in self.queue)
        return max(0.0, *running, *(self.stretch(i, now / NS + self.run_time(i)) for i in waiting))

    def needed_stretch(self) -> float:
        """Return the stretch of the queue in its order, on one processor of the speed of all cores."""
        backlog = sum((core.free - self.now) * self.part(core.application) for core in self.cores)
        end, needed = (self.now + backlog) / NS, 0.0
        for share in self.queue:
            end += share.tasks * self.run_time(share.application) * self.part(share.application)
            needed = max(needed, self.stretch(share.application, end))
        return needed

    def part(self, application: int) -> float:
        """Return the part of the machine that a task takes: the larger one of those of cores and memory."""
        memory = self.applications[application].memory if application >= 0 else 0.0
        return max(1 / len(self.cores), memory / self.memory)


class Fifo(Leaf):
    """A machine that keeps the order of arrival; a task joins those of its application that wait."""

    def order(self, now: int) -> None:
        for core in self.cores:
            core.free = max(core.free, now)
        first: dict[int, Share] = {}
        for share in self.queue:
            if first.setdefault(share.application, share) is not share:
                first[share.application].tasks += share.tasks
        self.queue = list(first.values())
