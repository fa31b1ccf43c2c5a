"""Faulty EASY queues of jobs that share machines, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from planted import Fault

import gridsim as gs
from gridsim.schedulers.rigid.batch_queue import BatchQueuePolicy
from gridsim.scheduling.contract import Policy, Run
from tests.reference.shared_queue import Amounts, SharedQueue


class EasyFit(SharedQueue):
    """The queue of a `BatchQueue`, which can be saved in checkpoints."""

    def getstate(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_releases"}

    def setstate(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class SameRoom(EasyFit):
    """Queue in which all long jobs that are backfilled at one instant get the same room."""

    def _use(self, free: Amounts, job: int, machines: list[int]) -> None:
        if job in self._machines_of or job == self._queue()[0]:
            super()._use(free, job, machines)


class UnreservedGpus(EasyFit):
    """Queue whose reservations are of cores and memory only."""

    def _reserve(self, head: int) -> tuple[float, Amounts]:
        shadow, later = super()._reserve(head)
        return shadow, [[*amounts[:2], 2**53] for amounts in later]


class LastCore(EasyFit):
    """Queue that does not share the last core of a machine with the jobs of another user."""

    def _room(self, free: Amounts, job: int, u: int) -> int:
        users = {self._user[other] for other, held in self._machines_of.items() if u in held}
        if free[u][0] == 1 and users and self._user[job] not in users:
            return 0
        return super()._room(free, job, u)


class Worn(EasyFit):
    """Queue in which a machine that has failed twice runs one job at a time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._failed: list[int] = []

    def fail(self, machines: Any, now: int) -> Any:
        self._failed += np.asarray(machines).tolist()
        return super().fail(machines, now)

    def _room(self, free: Amounts, job: int, u: int) -> int:
        is_shared = free[u] != self._capacity[u]
        return 0 if is_shared and self._failed.count(u) >= 2 else super()._room(free, job, u)


class EasyFitPolicy(BatchQueuePolicy):
    """Policy whose queue is in Python if jobs share machines."""

    def __init__(self, kind: Callable[..., Any], parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        if self.capacity is None:
            return
        jobs = run.applications
        users = None if jobs.user is None else np.maximum(jobs.user, 0)
        times = jobs.tasks, self.durations, self.estimate
        options = self._discipline() | {"users": users, "releases": run.releases}
        self.queue = kind(self.capacity.cores, *times, **options, log=True)
        if run.releases is None:
            self.queue.submit(np.arange(len(jobs)), jobs.release_ns)


class EasyFitQueue(gs.BatchQueue, frozen=True, kw_only=True):
    """EASY with `EasyFit`."""

    name: ClassVar[str] = "easy-fit"
    queue: ClassVar[type[EasyFit]] = EasyFit

    def start(self, run: Run) -> Policy:
        return EasyFitPolicy(self.queue, self, run)


class SameRoomQueue(EasyFitQueue, frozen=True, kw_only=True):
    queue = SameRoom


class UnreservedGpusQueue(EasyFitQueue, frozen=True, kw_only=True):
    queue = UnreservedGpus


class LastCoreQueue(EasyFitQueue, frozen=True, kw_only=True):
    queue = LastCore


class WornQueue(EasyFitQueue, frozen=True, kw_only=True):
    queue = Worn


PLANTED_EASY = {
    scheduler.queue.__name__: Fault(scheduler, kind, "shared machines", laws)
    for kind, schedulers in {
        "breaks its promise": {SameRoomQueue: ("order",), UnreservedGpusQueue: ("order",)},
        "leaves room unused": {LastCoreQueue: ("order",), WornQueue: ("order",)},
    }.items()
    for scheduler, laws in schedulers.items()
}
