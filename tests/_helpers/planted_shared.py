"""Faulty schedulers that share the cores, memory and GPUs of machines, or release what follows others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from planted import Fault
from wrong_schedulers import Shares, SharesPolicy

from gridcore.queues.core_queues import CoreQueues
from gridsim.engine.engine import TIMER
from gridsim.model.capacity import MachineCapacity, whole_bytes
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler

#: Priority of an event that follows all others of an instant.
_LAST = 4001


class BagFit(Scheduler, frozen=True, kw_only=True):
    """Scheduler with one list of bags, of which each machine runs as many tasks as it has room for."""

    name: ClassVar[str] = "bag-fit"
    cores: ClassVar[Any] = True
    shares_memory: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True

    def start(self, run: Run) -> Policy:
        return BagFitPolicy(run)


class JobFit(BagFit, frozen=True, kw_only=True):
    """Scheduler that starts rigid jobs as soon as machines have room for them."""

    name: ClassVar[str] = "job-fit"
    rigid: ClassVar[bool] = True

    def start(self, run: Run) -> Policy:
        return JobFitPolicy(run)


class _Fit(Policy):
    """Policy that keeps account of the free cores, bytes and GPUs of machines itself.

    A part of an application is a job, or a task of a bag.  `waiting` has the number of waiting parts of each
    application, and `running` the runs of parts by number: (application, places, start), where places are
    pairs of a machine and a number of tasks.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "waiting", "running", "numbers", "free", "exclusive", "rows", "completed", "finish_ns", "resubmitted",
        "ended",
    )  # fmt: skip

    def __init__(self, run: Run) -> None:
        self.run, self.jobs = run, run.applications
        count, machines = len(self.jobs), len(run.speeds)
        self.capacity = MachineCapacity.of(machines, run.cores, run.attributes, run.gpus)
        self.needs = np.stack([self.cores_of(), self.bytes_of(), self.gpus_of()])
        self.waiting: dict[int, int] = {}
        self.running: dict[int, tuple[int, list[tuple[int, int]], int]] = {}
        self.numbers = 0
        self.free = self.total()
        self.exclusive = np.zeros(machines, np.int64)
        self.rows: list[tuple[int, ...]] = []
        self.completed, self.resubmitted = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.finish_ns = np.full(count, -1, np.int64)
        self.ended = 0
        run.engine.on("end", self.on_end, priority=1, phase=TIMER)
        run.engine.on("dispatch", self.dispatch, priority=_LAST, phase=TIMER)

    # -- what machines have, and what a task takes -------------------------------------------------------

    def total(self) -> Any:
        """Return the cores, bytes and GPUs of empty machines, int64[3, machines]."""
        return np.stack([self.capacity.cores, self.capacity.memory, self.capacity.gpus])

    def cores_of(self) -> Any:
        return np.ones(len(self.jobs), np.int64) if self.jobs.cores is None else self.jobs.cores

    def bytes_of(self) -> Any:
        return whole_bytes(self.jobs.memory, len(self.jobs))

    def gpus_of(self) -> Any:
        return np.zeros(len(self.jobs), np.int64) if self.jobs.gpus is None else self.jobs.gpus

    def amount(self, application: int, tasks: int) -> Any:
        """Return the cores, bytes and GPUs that tasks of an application take on a machine."""
        return self.needs[:, application] * tasks

    def rooms(self, application: int) -> Any:
        """Return the number of tasks for which each machine has room now."""
        needs = self.needs[:, application]
        rooms = np.min([self.free[k] // needs[k] for k in range(3) if needs[k]], axis=0)
        return rooms * (self.run.up & (self.exclusive == 0))

    # -- events ----------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        for i in applications:
            self.waiting[i] = self.parts(i)
        self.wake()

    def wake(self) -> None:
        """Start at this instant what fits."""
        self.run.engine.at(self.run.engine.now, "dispatch", 0)

    def parts(self, application: int) -> int:
        """Return the number of parts of an application that start by themselves."""
        raise NotImplementedError

    def places(self, application: int) -> list[tuple[int, int]]:
        """Return the machines of a part that starts now, and its tasks there; [] if it does not fit."""
        raise NotImplementedError

    def dispatch(self, _: list[int]) -> None:
        for i in sorted(self.waiting):
            while self.waiting[i] and (places := self.places(i)):
                self.waiting[i] -= 1
                self.begin(i, places)
        self.waiting = {i: count for i, count in self.waiting.items() if count}

    def begin(self, application: int, places: list[tuple[int, int]]) -> None:
        now = self.run.engine.now
        for u, tasks in places:
            self.free[:, u] -= self.amount(application, tasks)
        seconds = float(self.jobs.task_size[application] / self.run.speeds[places[0][0]])
        self.running[self.numbers] = application, places, now
        self.run.engine.at(now + max(1, round(seconds * 1e9)), "end", self.numbers)
        self.numbers += 1

    def on_end(self, numbers: list[int]) -> None:
        ended = [self.complete(number) for number in numbers if number in self.running]
        self.report([i for i in ended if i >= 0])
        self.wake()

    def complete(self, number: int) -> int:
        """End a run; return the application if it has ended, else -1."""
        i, places, start = self.running.pop(number)
        now = self.run.engine.now
        for u, tasks in places:
            self.free[:, u] += self.amount(i, tasks)
            self.rows.append((u, i, tasks, start, now, tasks))
            self.completed[i] += tasks
        self.finish_ns[i] = now
        return i if self.completed[i] == self.jobs.tasks[i] else -1

    def report(self, ended: list[int]) -> None:
        """Release what follows the applications that end now."""
        self.ended += len(ended)
        if self.run.releases is not None:
            self.run.releases.end(ended, self.run.engine.now)
        if self.ended == len(self.jobs):
            self.run.engine.stop()

    def on_faults(self, failed: Any, back: Any) -> None:
        for number, (_, places, _) in list(self.running.items()):
            if any(u in failed for u, _ in places):
                self.interrupt(number)
        self.wake()

    def interrupt(self, number: int) -> None:
        """Lose a run, which waits again."""
        i, places, start = self.running.pop(number)
        for u, tasks in places:
            self.free[:, u] += self.amount(i, tasks)
            if start < self.run.engine.now:
                self.rows.append((u, i, tasks, start, self.run.engine.now, 0))
            self.resubmitted[i] += tasks
        self.waiting[i] = self.waiting.get(i, 0) + 1

    def unfinished(self) -> Any:
        return np.flatnonzero(self.completed < self.jobs.tasks)

    def finish(self) -> Outcome:
        machine, job, tasks, start, end, done = np.array(self.rows, np.int64).reshape(-1, 6).T
        count, machines = len(self.jobs), len(self.run.speeds)
        first = np.full(count, 2**62)
        np.minimum.at(first, job, start)
        is_done = self.completed == self.jobs.tasks
        pairs = np.unique(job * machines + machine)
        columns = {
            "first_start": np.where(first == 2**62, -1, first),
            "finish": np.where(is_done, self.finish_ns, -1),
            "completed": self.completed,
            "nodes_used": np.bincount(pairs // machines, minlength=count),
            "resubmitted": self.resubmitted,
        }
        if self.jobs.rigid:
            columns["failed"] = (~is_done).astype(np.int64)
        busy, lost = (end - start) * tasks * self.cores_of()[job], done == 0
        use = {
            "busy": np.bincount(machine, busy, machines).astype(np.int64),
            "tasks": np.bincount(machine, done, machines).astype(np.int64),
            "interrupted": np.bincount(machine[lost], tasks[lost], machines).astype(np.int64),
            "peak_queue": np.zeros(machines, np.int64),
        }
        rows = sorted(self.rows, key=lambda row: (row[3], row[1], row[0]))
        schedule = np.array(rows, np.int64).reshape(-1, 6).T.copy()
        return Outcome(columns, use, schedule=dict(zip(SCHEDULE, schedule, strict=True)))


class BagFitPolicy(_Fit):
    """Policy of `BagFit`: each task takes the first machine with room for it."""

    def parts(self, application: int) -> int:
        return int(self.jobs.tasks[application])

    def places(self, application: int) -> list[tuple[int, int]]:
        return [(u, 1) for u in np.flatnonzero(self.rooms(application) > 0)[:1].tolist()]


class JobFitPolicy(_Fit):
    """Policy of `JobFit`: each job takes the first machines with room for it."""

    def parts(self, application: int) -> int:
        return 1

    def most(self, application: int) -> int:
        """Return the most tasks of a job on a machine."""
        most = self.jobs.tasks_per_machine
        return int(1 if most is None else most[application] or 2**62)

    def is_exclusive(self, application: int) -> bool:
        return self.jobs.exclusive is not None and bool(self.jobs.exclusive[application])

    def places(self, application: int) -> list[tuple[int, int]]:
        left, places = int(self.jobs.tasks[application]), list[tuple[int, int]]()
        rooms = np.minimum(self.rooms(application), self.most(application))
        if self.is_exclusive(application):
            rooms = rooms * (self.free == self.total()).all(axis=0)
        for u in np.flatnonzero(rooms > 0).tolist():
            if left:
                places.append((u, min(left, int(rooms[u]))))
                left -= places[-1][1]
        return [] if left else places

    def begin(self, application: int, places: list[tuple[int, int]]) -> None:
        super().begin(application, places)
        self.exclusive[[u for u, _ in places]] += self.is_exclusive(application)

    def complete(self, number: int) -> int:
        self.leave(number)
        return super().complete(number)

    def interrupt(self, number: int) -> None:
        self.leave(number)
        super().interrupt(number)

    def leave(self, number: int) -> None:
        """End the exclusive use of machines by a run."""
        i, places, _ = self.running[number]
        self.exclusive[[u for u, _ in places]] -= self.is_exclusive(i)


# -- the memory of machines ------------------------------------------------------------------------------


class _MixedUnits(BagFitPolicy):
    """Policy that counts the memory of machines in MB, and that of tasks in MiB."""

    def total(self) -> Any:
        total = super().total()
        total[1] //= 10**6
        return total

    def bytes_of(self) -> Any:
        return super().bytes_of() // 2**20


class _OneByte(BagFitPolicy):
    """Policy that allows tasks one byte more than a machine has."""

    def total(self) -> Any:
        total = super().total()
        total[1] += 1
        return total


class _LeakedMemory(BagFitPolicy):
    """Policy that does not return the memory of tasks that a failure interrupts."""

    def interrupt(self, number: int) -> None:
        i, places, _ = self.running[number]
        super().interrupt(number)
        for u, tasks in places:
            self.free[1, u] -= self.amount(i, tasks)[1]


class _PartOfACore(BagFitPolicy):
    """Policy that runs tasks only where the memory per core suffices."""

    def rooms(self, application: int) -> Any:
        part = self.capacity.memory // self.capacity.cores
        return super().rooms(application) * (part >= self.needs[1, application])


class _LateEnd(BagFitPolicy):
    """Policy that also returns the memory of an interrupted task when the task would have ended."""

    STATE = (*BagFitPolicy.STATE, "lost")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.lost: dict[int, tuple[int, int]] = {}

    def interrupt(self, number: int) -> None:
        i, places, _ = self.running[number]
        self.lost[number] = i, places[0][0]
        super().interrupt(number)

    def on_end(self, numbers: list[int]) -> None:
        for number in numbers:
            if number in self.lost:
                i, u = self.lost.pop(number)
                self.free[1, u] += self.amount(i, 1)[1]
        super().on_end(numbers)


class _ForgottenCore(SharesPolicy):
    """Policy whose queues keep a core of each machine for the system."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        if run.cores is not None:
            bags = run.applications
            self.queues = CoreQueues(
                run.speeds, cores=np.maximum(1, run.cores - 1), order="fifo", watch="idle", record=run.record
            )
            self.queues.add_applications(bags.release, bags.size, bags.task_size)


# -- what rigid jobs share -------------------------------------------------------------------------------


class _StaysExclusive(JobFitPolicy):
    """Policy whose exclusive jobs keep their last machine if a failure interrupts them."""

    def interrupt(self, number: int) -> None:
        i, places, _ = self.running[number]
        super().interrupt(number)
        if self.is_exclusive(i) and len(places) > 1:
            self.exclusive[places[-1][0]] += 1


class _CoresOnce(JobFitPolicy):
    """Policy that counts the cores of one task on each machine of a job."""

    def amount(self, application: int, tasks: int) -> Any:
        amount = super().amount(application, tasks)
        amount[0] = self.needs[0, application]
        return amount


class _GpusOfAJob(JobFitPolicy):
    """Policy that counts the GPUs of a job on its first machine only."""

    def begin(self, application: int, places: list[tuple[int, int]]) -> None:
        super().begin(application, places)
        self.count_gpus(application, places, 1)

    def leave(self, number: int) -> None:
        i, places, _ = self.running[number]
        super().leave(number)
        self.count_gpus(i, places, -1)

    def count_gpus(self, application: int, places: list[tuple[int, int]], sign: int) -> None:
        """Take the GPUs on the other machines as free (1), or as in use again (-1)."""
        for u, tasks in places[1:]:
            self.free[2, u] += sign * self.amount(application, tasks)[2]


class _SameGpu(JobFitPolicy):
    """Policy that gives the same GPUs to all jobs that start at one instant."""

    def dispatch(self, _: list[int]) -> None:
        self.free_gpus = self.free[2].copy()
        super().dispatch(_)

    def rooms(self, application: int) -> Any:
        free, self.free = self.free, np.stack([*self.free[:2], self.free_gpus])
        rooms = super().rooms(application)
        self.free = free
        return rooms


class _WholeGigabytes(JobFitPolicy):
    """Policy that counts memory in whole GB."""

    def total(self) -> Any:
        total = super().total()
        total[1] //= 10**9
        return total

    def bytes_of(self) -> Any:
        return super().bytes_of() // 10**9


class _SharedExclusively(JobFitPolicy):
    """Policy that lets others join an exclusive job on its machines."""

    def rooms(self, application: int) -> Any:
        machines_in_use, self.exclusive = self.exclusive, np.zeros_like(self.exclusive)
        rooms = super().rooms(application)
        self.exclusive = machines_in_use
        return rooms


class _EmptiedMachine(JobFitPolicy):
    """Policy that empties a failed machine, and then returns what its lost jobs had."""

    def on_faults(self, failed: Any, back: Any) -> None:
        self.free[:, failed] = self.total()[:, failed]
        super().on_faults(failed, back)


# -- applications that follow others ---------------------------------------------------------------------


class _EarlyEnd(BagFitPolicy):
    """Policy that reports the end of an application when its last task starts."""

    STATE = (*BagFitPolicy.STATE, "reported")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.reported = np.zeros(len(run.applications), np.int64)

    def dispatch(self, _: list[int]) -> None:
        super().dispatch(_)
        active = [i for i, _, _ in self.running.values() if i not in self.waiting]
        started = sorted({i for i in active if not self.reported[i]})
        if self.run.releases is not None and started:
            self.reported[started] = 1
            self.run.releases.end(started, self.run.engine.now)

    def report(self, ended: list[int]) -> None:
        releases, self.run.releases = self.run.releases, None
        super().report(ended)
        self.run.releases = releases


class _EndByLoss(BagFitPolicy):
    """Policy that counts a lost task as an end of its application."""

    STATE = (*BagFitPolicy.STATE, "over")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.over, self.reported = np.zeros(len(run.applications), np.int64), set[int]()

    def complete(self, number: int) -> int:
        self.over[self.running[number][0]] += 1
        return super().complete(number)

    def interrupt(self, number: int) -> None:
        i = self.running[number][0]
        super().interrupt(number)
        self.over[i] += 1
        if self.over[i] == self.jobs.tasks[i] and self.run.releases is not None:
            self.run.releases.end([i], self.run.engine.now)

    def report(self, ended: list[int]) -> None:
        releases = self.run.releases
        if releases is not None:
            releases.end([i for i in ended if self.over[i] == self.jobs.tasks[i]], self.run.engine.now)
        self.run.releases = None
        super().report(ended)
        self.run.releases = releases


class _EndAtRestart(BagFitPolicy):
    """Policy that reports the end of an application when its last task starts again after a failure."""

    STATE = (*BagFitPolicy.STATE, "interrupted")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.interrupted = set[int]()

    def interrupt(self, number: int) -> None:
        self.interrupted.add(self.running[number][0])
        super().interrupt(number)

    def begin(self, application: int, places: list[tuple[int, int]]) -> None:
        super().begin(application, places)
        is_last = self.completed[application] == self.jobs.tasks[application] - 1
        if is_last and application in self.interrupted and self.run.releases is not None:
            self.interrupted.remove(application)
            self.run.releases.end([application], self.run.engine.now)


class _OneEnd(BagFitPolicy):
    """Policy that reports only one of the applications that end at an instant."""

    def report(self, ended: list[int]) -> None:
        super().report(ended[:1])
        self.ended += len(ended[1:])
        if self.ended == len(self.jobs):
            self.run.engine.stop()


class _StatedReleases(BagFitPolicy):
    """Policy that queues applications at the releases that the workload states."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        run.engine.on("arrive", super().on_release, priority=2, phase=TIMER)
        for i, at in enumerate(run.applications.release_ns.tolist()):
            run.engine.at(at, "arrive", i)

    def on_release(self, applications: list[int]) -> None:
        pass


def _scheduler(policy: type[Policy]) -> type[Scheduler]:
    make_policy: Callable[..., Policy] = policy
    bases: dict[type[Policy], type[Scheduler]] = {
        BagFitPolicy: BagFit,
        JobFitPolicy: JobFit,
        SharesPolicy: Shares,
    }
    base = next(bases[cls] for cls in policy.__mro__ if cls in bases)

    def start(self: Any, run: Run) -> Policy:
        return make_policy(run)

    name = policy.__name__.removeprefix("_")
    body: dict[str, Any] = {"start": start, "__module__": __name__}
    if base is Shares:
        body |= {"cores": True, "__annotations__": {"cores": "ClassVar[Any]"}}
    make: Callable[..., Any] = type(base)
    new_class: type[Scheduler] = make(name, (base,), body, frozen=True, kw_only=True)
    globals()[name] = new_class
    return new_class


_KINDS: dict[tuple[str, str], dict[type[Policy], tuple[str, ...]]] = {
    ("exceeds what machines have", "memory"): {
        _MixedUnits: ("sound",),
        _LateEnd: ("sound", "runs"),
        _OneByte: ("sound",),
    },
    ("leaves room unused", "memory"): {
        _LeakedMemory: ("runs", "foresight"),
        _PartOfACore: ("runs",),
        _ForgottenCore: ("order",),
    },
    ("leaves room unused", "shared machines"): {_StaysExclusive: ("served", "runs", "foresight")},
    ("exceeds what machines have", "shared machines"): {
        _CoresOnce: ("sound", "runs", "foresight"),
        _GpusOfAJob: ("sound",),
        _SameGpu: ("sound",),
        _WholeGigabytes: ("sound",),
        _SharedExclusively: ("sound",),
        _EmptiedMachine: ("sound", "runs", "foresight"),
    },
    ("ignores what must end before", "after"): {
        _EarlyEnd: ("sound", "runs"),
        _EndByLoss: ("sound", "runs"),
        _EndAtRestart: ("sound", "runs"),
        _OneEnd: ("runs", "cohorts"),
        _StatedReleases: ("sound", "runs"),
    },
}

PLANTED_SHARED = {
    policy.__name__.removeprefix("_"): Fault(_scheduler(policy), kind, tier, laws)
    for (kind, tier), policies in _KINDS.items()
    for policy, laws in policies.items()
}
