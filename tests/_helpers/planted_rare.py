"""Faulty schedulers with faults that small or even runs do not show, and the tiers of node programs."""

from __future__ import annotations

import datetime
import time
from typing import Any, ClassVar

import numpy as np
import planted
from planted import Fault, _MachineObject, _Planted
from planted import scheduler_of as cohort_scheduler
from planted_nodes import HonestNode, _scheduler
from planted_rigid import _scheduler as rigid_scheduler

import gridsim as gs
from gridsim.schedulers.rigid.asap import Asap, _AsapPolicy
from gridsim.scheduling.contract import Run

# -- on cohorts --------------------------------------------------------------------------------------------


class _PeekingSubstitute(_Planted):
    """Policy in which the up machine with the shortest queue acts for a submitter that is down."""

    def place(self, i: int, tasks: int) -> None:
        submitter, up = int(self.run.applications.submitter[i]), self.run.up
        if not up.any() or up[submitter]:
            super().place(i, tasks)
            return
        substitute = int(self.shortest()[0])
        targets = self.targets(substitute, i)
        self.note(i, tasks, substitute, len(targets))
        shares = tasks // len(targets) + (np.arange(len(targets)) < tasks % len(targets))
        rows = np.zeros(len(targets), planted.SHARE)
        rows["node"], rows["sender"], rows["application"], rows["tasks"] = targets, substitute, i, shares
        self.run.network.send("share", rows[shares > 0])


class _StateLossWhileAllAreDown(_Planted):
    """Policy that forgets lost tasks in a checkpoint while all machines are down."""

    def getstate(self) -> Any:
        state = super().getstate()
        return state if self.run.up.any() else {**state, "lost": {}}


class _PeekInLargeGrids(_Planted):
    """Policy that looks at the queues of others in grids of more than 24 machines."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if len(self.run.speeds) > 24 else honest


class _DecisionAmongTooMany(_Planted):
    """Policy that records shares among more machines than there are, for large bags only."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, tasks, submitter, among if tasks < 3 * len(self.run.speeds) else among + 1000)


class _LastInFirstOut(_Planted):
    """Policy that queues the tasks of a waiting application again behind a new one, under load."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows)
        now = self.run.engine.now
        for machine in np.unique(rows["node"]).tolist():
            applications, tasks, _ = self.queues.queue(machine)[:3]
            if len(applications) > 2 and tasks[0]:
                first, count = int(applications[0]), int(tasks[0])
                self.queues.withdraw(machine, first, count, now)
                self.queues.enqueue([machine], [first], [count], now)


class _OddTime(_Planted):
    """Policy that sends to one machine fewer at odd times of a unit."""

    field: ClassVar[str]

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 if getattr(time.localtime(), self.field) % 2 else 3]


class _OddHour(_OddTime):
    """Policy that depends on whether the hour is odd."""

    field = "tm_hour"


class _OddMinute(_OddTime):
    """Policy that depends on whether the minute is odd."""

    field = "tm_min"


class _OddSecond(_OddTime):
    """Policy that depends on whether the second is odd."""

    field = "tm_sec"


class _OddDatetimeSecond(_Planted):
    """Policy that depends on whether the second of a `datetime` is odd."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 if datetime.datetime.now().second % 2 else 3]


class _TiesByAddressOfArrays(_Planted):
    """Policy that breaks ties by the address of an array for each machine."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        places = [np.zeros(40) for _ in honest]
        return honest[sorted(range(len(honest)), key=lambda k: id(places[k]))[:2]]


class _TiesByAddressUnderLoad(_Planted):
    """Policy that breaks ties between equally loaded machines by the addresses of their objects."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        if application < 4:
            return honest
        places = [_MachineObject(int(u)) for u in honest]
        return honest[sorted(range(len(honest)), key=lambda k: id(places[k]))[:2]]


_COHORTS: dict[str, dict[type[Any], tuple[str, ...]]] = {
    "knows without a message": {
        _PeekingSubstitute: ("locality",),
        _PeekInLargeGrids: ("locality",),
    },
    "depends on its surroundings": {
        **dict.fromkeys((_OddHour, _OddMinute), ("hash seed",)),
        # runs within one process may be in different seconds
        **dict.fromkeys((_OddSecond, _OddDatetimeSecond), ("hash seed", "repeatable")),
        **dict.fromkeys((_TiesByAddressOfArrays, _TiesByAddressUnderLoad), ("repeatable", "hash seed")),
    },
    "depends on an order": {_LastInFirstOut: ("order",)},
    "forgets in a checkpoint": {_StateLossWhileAllAreDown: ("resumed",)},
    "false decisions": {_DecisionAmongTooMany: ("decisions",)},
}

# -- node programs -----------------------------------------------------------------------------------------


class SmallLargeShares(HonestNode):
    """Program whose messages have hardly any bytes if they move many tasks."""


class _LastSlotRejection(_AsapPolicy):
    """Policy that rejects jobs that can only start in their last possible slot."""

    def __init__(self, parameters: Asap, run: Run) -> None:
        super().__init__(parameters, run)
        self.last_slots = self.last_slots - 1


PLANTED_RARE = {
    policy.__name__.removeprefix("_"): Fault(cohort_scheduler(policy, globals()), kind, "cohorts", laws)
    for kind, policies in _COHORTS.items()
    for policy, laws in policies.items()
}


def _share_size(tasks: int, **rest: int) -> int:
    return 24 if tasks < 5000 else 1


PLANTED_RARE["LastSlotRejection"] = Fault(
    rigid_scheduler(_LastSlotRejection), "breaks the times that jobs state", "rigid", ("served",)
)
PLANTED_RARE["SmallLargeShares"] = Fault(
    _scheduler(
        SmallLargeShares,
        messages={"share": gs.Message(_share_size, moves_tasks=True, application=int, tasks=int, hops=int)},
    ),
    "misreports",
    "nodes",
    ("locality",),
)
