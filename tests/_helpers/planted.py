"""Faulty schedulers on cohorts, with faults that occur rarely: under load, late, or in other processes."""

from __future__ import annotations

import datetime
import os
import random
import tempfile
import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import wrong_schedulers
from wrong_schedulers import SHARE, Shares, SharesPolicy

from gridsim.scheduling.contract import Outcome, Policy, Run


class _Planted(SharesPolicy):
    """Sound policy with methods for its faulty subclasses."""

    def others(self, submitter: int) -> Any:
        return np.flatnonzero(self.run.up)

    def waiting(self, machine: int) -> int:
        return int(self.queues.queue(machine)[1].sum() + (self.queues.queue(machine)[2] >= 0))

    def shortest(self) -> Any:
        up = np.flatnonzero(self.run.up).tolist()
        return np.array(sorted(up, key=lambda u: (self.waiting(u), u))[:3])


class _PeekUnderLoad(_Planted):
    """Policy that looks at the queues of others when its own is long."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if self.waiting(submitter) >= 3 else honest


class _LatePeek(_Planted):
    """Policy that looks at the queues of others after 200 s."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if self.run.engine.now > 200 * 10**9 else honest


class _PeekAfterSixApplications(_Planted):
    """Policy that looks at the queues of others from the seventh application on."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if application > 5 else honest


class _PeekAtOneNeighbour(_Planted):
    """Policy that sends nothing to the next machine while that machine is busy."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        neighbour = (submitter + 1) % len(self.run.speeds)
        if self.waiting(neighbour) and (honest != neighbour).any():
            return honest[honest != neighbour]
        return honest


class _PeekAtSpeedsForLargeBags(_Planted):
    """Policy that sends large bags to the fastest machine."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        up = np.flatnonzero(self.run.up)
        large = self.run.applications.tasks[application] > 2 * len(self.run.speeds)
        return up[np.argsort(-self.run.speeds[up], kind="stable")][:1] if large else honest


class _ReleaseForesight(_Planted):
    """Policy that sends to one machine fewer if another machine submits soon."""

    def targets(self, submitter: int, application: int) -> Any:
        honest, release = super().targets(submitter, application), self.run.applications.release
        is_upcoming = (release > release[application]) & (release < release[application] + 60.0)
        return honest[: 1 if is_upcoming.any() else 3]


class _MemoryOfLastRun(_Planted):
    """Policy that starts with the last machine of the previous run."""

    last: ClassVar[list[int]] = []

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        if _MemoryOfLastRun.last and self.run.up[_MemoryOfLastRun.last[-1] % len(self.run.up)]:
            honest[:1] = _MemoryOfLastRun.last.pop() % len(self.run.up)
        return np.unique(honest)

    def finish(self) -> Outcome:
        _MemoryOfLastRun.last[:] = [int(self.chance[0].integers(1 << 30))]
        return super().finish()


class _CacheOfAllRuns(_Planted):
    """Policy that caches the first targets for each number of tasks across runs."""

    cache: ClassVar[dict[int, Any]] = {}

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        kept = _CacheOfAllRuns.cache.setdefault(int(self.run.applications.tasks[application]), honest)
        kept = kept[kept < len(self.run.up)]
        kept = kept[self.run.up[kept]]
        return kept if len(kept) else honest


class _RunCount(_Planted):
    """Policy that sends to one machine fewer in every seventh run."""

    runs: ClassVar[list[int]] = [0]

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        _RunCount.runs[0] += 1
        self.few = _RunCount.runs[0] % 7 == 0

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.few else honest


class _UnreportedUpMachines(_Planted):
    """Policy that chooses among the machines that are up, which no message reports."""


class _UnreportedDownMachine(_Planted):
    """Policy that sends to one machine only while any is down."""

    def targets(self, submitter: int, application: int) -> Any:
        up = self.run.up
        targets = self.chance[submitter].choice(len(up), size=min(3, len(up)), replace=False)
        targets = targets[up[targets]] if up[targets].any() else np.flatnonzero(up)[:1]
        return targets if up.all() else targets[:1]


class _MachineObject:
    def __init__(self, machine: int) -> None:
        self.machine = machine


class _TiesByAddress(_Planted):
    """Policy that orders machines of equal speed by the addresses of their objects."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.objects = [_MachineObject(u) for u in range(len(run.speeds))]

    def targets(self, submitter: int, application: int) -> Any:
        up = [item for item in self.objects if self.run.up[item.machine]]
        return np.array([item.machine for item in sorted(up, key=id)][:2])


class _HourDependence(_Planted):
    """Policy that sends to fewer machines before noon."""

    def hour(self) -> int:
        return time.localtime().tm_hour

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.hour() < 12 else honest


class _DatetimeDependence(_HourDependence):
    def hour(self) -> int:
        return datetime.datetime.now().hour


class _TimeOfDayDependence(_HourDependence):
    def hour(self) -> int:
        return int(time.time() // 3600 % 24)


class _LateLoss(_Planted):
    """Policy that loses a task of each share that arrives after 1000 s."""

    def on_share(self, rows: Any) -> None:
        if self.run.engine.now > 1000 * 10**9 and rows["tasks"][0] > 1:
            rows = rows.copy()
            rows["tasks"][0] -= 1
            self.total -= 1
        super().on_share(rows)


class _LargeBagLoss(_Planted):
    """Policy that loses a task of each share of more than 100."""

    def on_share(self, rows: Any) -> None:
        rows = rows.copy()
        large = rows["tasks"] > 100
        rows["tasks"][large] -= 1
        self.total -= int(large.sum())
        super().on_share(rows)


class _ReversalAfterSixApplications(_Planted):
    """Policy that queues shares of an instant in reverse order from the seventh application on."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows[::-1] if (rows["application"] > 5).any() else rows)


class _LateStateLoss(_Planted):
    """Policy whose counts after the tenth share are in no checkpoint."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.shared = 0

    def targets(self, submitter: int, application: int) -> Any:
        self.shared += 1
        honest = super().targets(submitter, application)
        return honest[:1] if self.shared > 10 else honest


class _PeekDuringOutage(_Planted):
    """Policy that looks at the queues of others while any machine is down."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest if self.run.up.all() else self.shortest()


class _FailureForesight(_Planted):
    """Policy that sends to one machine only if a machine fails within a minute."""

    def targets(self, submitter: int, application: int) -> Any:
        honest, engine = super().targets(submitter, application), self.run.engine
        if not self.run.faults:
            return honest
        coming = engine._handlers[engine._rank["fault"]].__self__._next_time()  # type: ignore[attr-defined]
        is_upcoming = coming is not None and coming < engine.now + 60 * 10**9
        return honest[:1] if is_upcoming else honest


class _StalePeek(_Planted):
    """Policy that looks at the queues of others as of its own last release."""

    STATE = (*_Planted.STATE, "before")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.before: list[int] = []

    def targets(self, submitter: int, application: int) -> Any:
        honest, before = super().targets(submitter, application), self.before
        self.before = [self.waiting(u) for u in range(len(self.run.speeds))]
        if sum(before) < 5:
            return honest
        up = np.flatnonzero(self.run.up).tolist()
        return np.array(sorted(up, key=lambda u: (before[u], u))[:3])


class _MemoryAfterFailure(_Planted):
    """Policy whose machines use the number of targets in their last share even after a failure."""

    STATE = (*_Planted.STATE, "received")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.received = np.zeros(len(run.speeds), np.int64)

    def on_share(self, rows: Any) -> None:
        self.received[rows["node"]] = rows["tasks"]
        super().on_share(rows)

    def targets(self, submitter: int, application: int) -> Any:
        machines, count = len(self.run.up), 1 + int(self.received[submitter]) % 3
        return self.chance[submitter].choice(machines, size=min(count, machines), replace=False)


class _BacklogAfterFailure(_Planted):
    """Policy whose machines forward the next share after an odd number of tasks, even after a failure."""

    STATE = (*_Planted.STATE, "got")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.got = np.zeros(len(run.speeds), np.int64)

    def on_share(self, rows: Any) -> None:
        for k in range(len(rows)):
            row = rows[k : k + 1].copy()
            node, home = int(row["node"][0]), self.run.applications.submitter[row["application"][0]]
            onward = self.got[node] % 2 == 1 and row["sender"][0] == home != node
            self.got[node] += row["tasks"][0]
            if onward:
                row["sender"], row["node"] = node, (node + 1) % len(self.got)
                self.run.network.send("share", row)
            else:
                super().on_share(row)

    def targets(self, submitter: int, application: int) -> Any:
        machines = len(self.run.up)
        return self.chance[submitter].choice(machines, size=min(3, machines), replace=False)


class _PeekAtTraffic(_Planted):
    """Policy that sends to fewer machines once the run has sent many messages."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.run.network.links.sent.sum() > 20 else honest


class _SharedStream(_Planted):
    """Policy whose submitters draw from one random stream."""

    def targets(self, submitter: int, application: int) -> Any:
        return super().targets(0, application)


class _ForeignStream(_Planted):
    """Policy that draws from the stream of a submitter that is down."""

    def targets(self, submitter: int, application: int) -> Any:
        return super().targets(int(self.run.applications.submitter[application]), application)


class _ForeignStreamForLosses(_Planted):
    """Policy that draws from the stream of the next machine where to send lost tasks."""

    is_retry = False

    def retry(self, numbers: list[int]) -> None:
        self.is_retry = True
        super().retry(numbers)
        self.is_retry = False

    def targets(self, submitter: int, application: int) -> Any:
        return super().targets((submitter + self.is_retry) % len(self.chance), application)


class _Teleport(_Planted):
    """Policy that queues the share of the fastest machine there at once, without a message."""

    def place(self, i: int, tasks: int) -> None:
        fastest = int(np.argmax(self.run.speeds * self.run.up))
        if tasks > 1 and self.run.up[fastest]:
            self.on_share(np.array([(fastest, fastest, i, 1)], SHARE))
            tasks -= 1
        super().place(i, tasks)


class _FalseSender(_Planted):
    """Policy that sends shares of large bags in the name of the next machine."""

    def place(self, i: int, tasks: int) -> None:
        if tasks <= 2 * len(self.run.speeds):
            super().place(i, tasks)
            return
        submitter = self.run.applications.submitter[i]
        targets = self.targets(int(submitter), i)
        rows = np.zeros(len(targets), SHARE)
        rows["node"], rows["application"], rows["tasks"] = targets, i, tasks // len(targets)
        rows["tasks"][0] += tasks % len(targets)
        rows["sender"] = (submitter + 1) % len(self.run.speeds)
        self.note(i, tasks, int(submitter), len(targets))
        self.run.network.send("share", rows[rows["tasks"] > 0])


class _InstantMessage(_Planted):
    """Policy that sends shares to itself on behalf of other machines, which get them without a message."""

    def place(self, i: int, tasks: int) -> None:
        super().place(i, tasks)
        for name, rows in [(k.name, r) for k in self.run.network._kinds for r in k.outbox]:
            if name == "share" and self.run.engine.now > 100 * 10**9:
                rows["sender"] = rows["node"]


class _MessageLoss(_Planted):
    """Policy that loses the tasks in messages to failed machines."""

    def on_lost(self, rows: Any) -> None:
        self.total -= int(rows["tasks"].sum())


class _OneTaskLoss(_Planted):
    """Policy that loses a task of each failure that destroys more than three."""

    def lose(self, applications: Any, tasks: Any) -> None:
        if tasks.sum() > 3:
            tasks = tasks.copy()
            tasks[np.argmax(tasks)] -= 1
            self.total -= 1
        super().lose(applications, tasks)


class _RepeatedTasks(_Planted):
    """Policy that repeats the tasks lost from a long queue."""

    def lose(self, applications: Any, tasks: Any) -> None:
        if tasks.sum() > 3:
            tasks = tasks.copy()
            tasks[0] += 1
            self.total += 1
        super().lose(applications, tasks)


class _QueueAfterFailure(_Planted):
    """Policy whose queues survive transient failures."""

    def on_faults(self, failed: Any, back: Any) -> None:
        super().on_faults(np.setdiff1d(failed, back), back)


class _EnvironmentDependence(_Planted):
    """Policy that sends to one machine if an environment variable is set."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if os.environ.get("SHARES_DEBUG") else honest


class _FolderDependence(_Planted):
    """Policy whose targets depend on the files in the folder."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 + len(os.listdir()) % 3]


class _FileMemory(_Planted):
    """Policy that stores in a file the machines chosen for each number of tasks."""

    def targets(self, submitter: int, application: int) -> Any:
        name = os.path.join(tempfile.gettempdir(), f"planted-{os.getuid()}")
        honest = super().targets(submitter, application)
        if self.run.applications.tasks[application] == 3:
            with open(name, "w") as stream:
                stream.write(str(honest[0]))
        return honest


class _OwnSeed(_Planted):
    """Policy that draws from its own generator, independent of the seed of the scenario."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chance = [np.random.default_rng(u) for u in range(len(run.speeds))]


class _SeededGlobalGenerator(_Planted):
    """Policy that seeds the global generator of the module random, and draws from it."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        random.seed(3)

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 + random.randrange(3)]


class _GlobalGenerator(_Planted):
    """Policy that draws from the global generator for large bags."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 + random.randrange(3)] if self.run.applications.tasks[application] > 5 else honest


class _ThreadDependence(_Planted):
    """Policy that sends to as many machines as it has threads."""

    def targets(self, submitter: int, application: int) -> Any:
        return super().targets(submitter, application)[: self.run.threads]


class _RecordingDependence(_Planted):
    """Policy that sends large bags to more machines if the schedule is recorded."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        large = self.run.applications.tasks[application] > 5
        return honest[:1] if large and not self.run.record else honest


class _ElapsedTimeDependence(_Planted):
    """Policy that sends to fewer machines after some wall time."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.began = time.perf_counter()

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if time.perf_counter() - self.began > 0.5 else honest


class _SetOrderSum(_Planted):
    """Policy that adds up floats in the order of a set, and decides by the last digit."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        total = 0.0
        for name in {f"machine {u}" for u in np.flatnonzero(self.run.up)}:
            total += 1.0 / (3.0 + int(name.split()[1]))
        return honest[: 1 + int(total * 2.0**52) % 2]


class _CohortSum(_Planted):
    """Policy that adds up floats cohort by cohort, and decides by the last digit."""

    STATE = (*_Planted.STATE, "received")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.received = 0.1

    def on_share(self, rows: Any) -> None:
        self.received += float((rows["tasks"] / 7.0).sum())
        super().on_share(rows)

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[: 1 + int(self.received * 2.0**48) % 2]


class _ChangedSpeeds(_Planted):
    """Policy that slows down a machine with much work."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows)
        if rows["tasks"].max() > 10:
            speeds = self.run.speeds
            speeds.flags.writeable = True
            speeds[rows["node"][0]] *= 0.5


class _ChangedApplications(_Planted):
    """Policy that makes tasks of a large bag smaller."""

    def on_release(self, applications: list[int]) -> None:
        for i in applications:
            if self.run.applications.tasks[i] > 10:
                sizes = self.run.applications.task_size
                sizes.flags.writeable = True
                sizes[i] *= 0.5
        super().on_release(applications)


class _IncompleteState(_Planted):
    """Policy whose few tasks lost between two releases are in no checkpoint."""

    def getstate(self) -> dict[str, Any]:
        state = super().getstate()
        return {**state, "lost": {i: count for i, count in self.lost.items() if count > 1}}


class _CallCount(_Planted):
    """Policy that sends to one machine fewer in every seventh call."""

    STATE = (*_Planted.STATE, "calls")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.calls = 0

    def on_share(self, rows: Any) -> None:
        self.calls += 1
        super().on_share(rows)

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.calls % 7 == 6 else honest


class _EndlessTimer(_Planted):
    """Policy that does not stop after an application of more than 100 tasks: its timer is set forever."""

    def retry(self, _: list[int]) -> None:
        super().retry(_)
        self.run.engine.at(self.run.engine.now + 10**9, "again")

    def collect(self, engine: Any, time: int) -> None:
        if (self.run.applications.tasks <= 100).all():
            super().collect(engine, time)
            return
        self.queues.due(time)
        if self.queues.tasks_done == self.total:
            self.run.engine.at(self.run.engine.now + 10**9, "again")


def scheduler_of(policy: type[SharesPolicy], module: dict[str, Any]) -> type[Shares]:
    """Create the scheduler of a policy, and add it to `module` so that other interpreters find it."""

    def start(self: Shares, run: Run) -> Policy:
        return policy(run)

    name = policy.__name__.removeprefix("_")
    knows = policy not in (
        _UnreportedUpMachines,
        _UnreportedDownMachine,
        _MemoryAfterFailure,
        _BacklogAfterFailure,
    )
    body = {"name": name.lower(), "start": start, "failures_known": knows, "__module__": module["__name__"]}
    body["__annotations__"] = {"name": "ClassVar[str]", "failures_known": "ClassVar[bool]"}
    make: Callable[..., Any] = type(Shares)
    new_class: type[Shares] = make(name, (Shares,), body, frozen=True, kw_only=True)
    module[name] = new_class
    return new_class


class Fault(NamedTuple):
    """A faulty scheduler.

    kind : kind of the fault.  tier : tier of the scheduler, such as cohorts, nodes or roles.
    laws : invariants, one of which is reported as broken.
    """

    scheduler: type[Any]
    kind: str
    tier: str
    laws: tuple[str, ...]


_KINDS: dict[str, dict[type[SharesPolicy], tuple[str, ...]]] = {
    "knows without a message": {
        _PeekUnderLoad: ("locality",),
        _LatePeek: ("locality",),
        _PeekAfterSixApplications: ("locality",),
        _PeekAtOneNeighbour: ("locality",),
        _PeekAtSpeedsForLargeBags: ("locality",),
        _StalePeek: ("locality",),
        _PeekAtTraffic: ("locality",),
        _PeekDuringOutage: ("locality",),
        _FailureForesight: ("locality",),
        _ReleaseForesight: ("locality",),
        _UnreportedUpMachines: ("locality",),
        _UnreportedDownMachine: ("locality",),
        _SharedStream: ("locality",),
        _ForeignStream: ("locality",),
        _ForeignStreamForLosses: ("locality",),
        _MemoryAfterFailure: ("locality",),
        _BacklogAfterFailure: ("locality",),
        _Teleport: ("locality", "decisions"),
        _FalseSender: ("locality", "decisions"),
        _InstantMessage: ("sound", "runs", "locality", "decisions"),
    },
    "remembers beyond the run": {
        _MemoryOfLastRun: ("repeatable", "hash seed"),
        _CacheOfAllRuns: ("repeatable", "hash seed"),
        _RunCount: ("repeatable", "hash seed"),
        _FileMemory: ("closed",),
    },
    "depends on its surroundings": {
        _TiesByAddress: ("repeatable", "hash seed"),
        _HourDependence: ("hash seed",),
        _DatetimeDependence: ("hash seed",),
        _TimeOfDayDependence: ("hash seed",),
        _ElapsedTimeDependence: ("hash seed",),
        _EnvironmentDependence: ("hash seed",),
        _FolderDependence: ("hash seed",),
        _ThreadDependence: ("repeatable",),
        _RecordingDependence: ("repeatable",),
    },
    "random numbers of its own": {
        _OwnSeed: ("closed",),
        _SeededGlobalGenerator: ("closed",),
        _GlobalGenerator: ("repeatable",),
    },
    "depends on an order": {
        _ReversalAfterSixApplications: ("cohorts",),
        _SetOrderSum: ("hash seed",),
        _CohortSum: ("cohorts", "locality"),
        _CallCount: ("cohorts", "locality"),
    },
    "loses or repeats tasks": {
        _LateLoss: ("runs", "cohorts", "locality"),
        _LargeBagLoss: ("runs",),
        _MessageLoss: ("runs", "locality"),
        _OneTaskLoss: ("runs", "locality"),
        _RepeatedTasks: ("runs", "locality"),
        _QueueAfterFailure: ("runs", "sound"),
        _EndlessTimer: ("runs",),
    },
    "forgets in a checkpoint": {_LateStateLoss: ("resumed",), _IncompleteState: ("resumed",)},
    "changes what it is given": {
        _ChangedSpeeds: ("runs", "sound", "repeatable", "locality"),
        _ChangedApplications: ("runs", "sound", "repeatable"),
    },
}

#: Faults of `wrong_schedulers` by kind, which occur often.
_PLAIN: dict[str, dict[str, tuple[str, ...]]] = {
    "knows without a message": dict.fromkeys(("QueuePeek", "SpeedPeek", "FutureKnowledge"), ("locality",)),
    "remembers beyond the run": {"Alternation": ("repeatable",)},
    "depends on an order": {"ReverseOrder": ("cohorts",), "SetOrderDependence": ("hash seed",)},
    "loses or repeats tasks": dict.fromkeys(
        ("TaskLoss", "DoubleBooking", "DroppedShares"), ("runs", "sound", "order", "repeatable", "locality")
    ),
    "acts for machines that are down": {"FailedMachineUse": ("sound", "runs")},
    "forgets in a checkpoint": {"StateLoss": ("resumed",)},
}

#: Name of the fault -> fault.
PLANTED = {
    policy.__name__.removeprefix("_"): Fault(scheduler_of(policy, globals()), kind, "cohorts", laws)
    for kind, policies in _KINDS.items()
    for policy, laws in policies.items()
} | {
    name: Fault(getattr(wrong_schedulers, name), kind, "cohorts", laws)
    for kind, names in _PLAIN.items()
    for name, laws in names.items()
}


class IgnoredLoad(Shares, frozen=True, kw_only=True):
    """Scheduler that declares support of background load but ignores it."""

    name: ClassVar[str] = "ignores-load"
    fluctuating: ClassVar[bool] = True

    def start(self, run: Run) -> Policy:
        return _Planted(run)


PLANTED["IgnoredLoad"] = Fault(IgnoredLoad, "ignores what it says it knows", "cohorts", ("sound",))
