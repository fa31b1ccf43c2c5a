"""A leaf of the fair tree with several cores, written from `fair_tree.md` and `model.md` of `docs/background` alone.

All times are in ns, sizes in Mflop, speeds in Mflop/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridsim.support.clock import NS


@dataclass(frozen=True)
class Application:
    release: int
    task_size: float
    size: float


@dataclass
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


#: Tasks that ran one after another on a core: application, number of tasks, start and end.
Execution = tuple[int, int, int, int]


class Leaf:
    def __init__(self, speed: float, cores: int, applications: list[Application]) -> None:
        self.speed, self.applications = speed, applications
        self.cores = [Core() for _ in range(cores)]
        self.queue: list[Share] = []
        self.executions: list[Execution] = []
        self.last = [-1] * cores
        #: How often an arrival changed the order of what had waited before.
        self.reordered = 0

    def duration(self, application: int) -> int:
        return round(self.applications[application].task_size / self.speed * NS)

    def run(self, arrivals: list[tuple[int, Share]]) -> None:
        for instant in sorted({at for at, _ in arrivals}):
            self.advance(instant)
            waited = [share.application for share in self.queue]
            self.queue += [share for at, share in arrivals if at == instant]
            self.order(instant)
            still = [share.application for share in self.queue if share.application in waited]
            self.reordered += still != waited
        self.advance(None)

    def advance(self, until: int | None) -> None:
        """Start the tasks that start before `until`."""
        while self.queue:
            k = min(range(len(self.cores)), key=lambda k: (self.cores[k].free, k))
            start = self.cores[k].free
            if until is not None and start >= until:
                return
            self.start(k, start)

    def start(self, k: int, now: int) -> None:
        share, core = self.queue[0], self.cores[k]
        end = now + self.duration(share.application)
        row = self.last[k]
        if row >= 0 and core.application == share.application and core.free == now:
            application, tasks, start, _ = self.executions[row]
            self.executions[row] = (application, tasks + 1, start, end)
        else:
            self.last[k] = len(self.executions)
            self.executions.append((share.application, 1, now, end))
        core.free, core.application = end, share.application
        share.tasks -= 1
        if not share.tasks:
            self.queue.pop(0)

    def order(self, now: int) -> None:
        """Order the queue by deadlines at the minimum stretch."""
        for core in self.cores:
            if core.free < now:
                core.free, core.application = now, -1
        bound = self.least_stretch(now)
        stretch, last = bound, -1.0
        while stretch != last:
            self.queue.sort(key=lambda share: (self.deadline(share, stretch), share.application))
            stretch, last = max(bound, self.needed(now)), stretch

    def deadline(self, share: Share, stretch: float) -> float:
        application = self.applications[share.application]
        return application.release / NS + stretch * application.size

    def stretch(self, application: int, end: float) -> float:
        """Return the stretch of an application of which a task ends at `end`, in s."""
        return (end - self.applications[application].release / NS) / self.applications[application].size

    def least_stretch(self, now: int) -> float:
        """Return the stretch that running tasks have, and waiting ones would have on an idle core."""
        bounds = [0.0]
        bounds += [self.stretch(core.application, core.free / NS) for core in self.cores if core.free > now]
        for share in self.queue:
            end = (now + self.duration(share.application)) / NS
            bounds.append(self.stretch(share.application, end))
        return max(bounds)

    def needed(self, now: int) -> float:
        """Return the stretch of the queue in its present order, on one processor of the speed of all cores."""
        end = sum(max(core.free, now) for core in self.cores) / len(self.cores) / NS
        needed = 0.0
        for share in self.queue:
            work = share.tasks * self.applications[share.application].task_size
            end += work / self.speed / len(self.cores)
            needed = max(needed, self.stretch(share.application, end))
        return needed
