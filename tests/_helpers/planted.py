"""Wrong schedulers, each in one way that shows seldom: under load, late, or in another process."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from wrong_schedulers import Shares, SharesPolicy

from gridsim.scheduling.contract import Outcome, Policy, Run


class _Planted(SharesPolicy):
    """Shares go where they should, except where a fault says otherwise."""

    def others(self, submitter: int) -> Any:
        return np.flatnonzero(self.run.up)

    def waiting(self, machine: int) -> int:
        return int(self.queues.queue(machine)[1].sum() + (self.queues.queue(machine)[2] >= 0))

    def shortest(self) -> Any:
        up = np.flatnonzero(self.run.up).tolist()
        return np.array(sorted(up, key=lambda u: (self.waiting(u), u))[:3])


class _PeeksUnderLoad(_Planted):
    """Looks at the queues of others when its own is long."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if self.waiting(submitter) >= 3 else honest


class _PeeksLate(_Planted):
    """Looks at the queues of others after 200 s."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if self.run.engine.now > 200 * 10**9 else honest


class _PeeksPastTheSixth(_Planted):
    """Looks at the queues of others from the seventh application on."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return self.shortest() if application > 5 else honest


class _PeeksAtOneNeighbour(_Planted):
    """Does not send to the next machine while that works."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        neighbour = (submitter + 1) % len(self.run.speeds)
        if self.waiting(neighbour) and (honest != neighbour).any():
            return honest[honest != neighbour]
        return honest


class _PeeksAtSpeedsOfLargeBags(_Planted):
    """Sends large bags to the fastest machine."""

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        up = np.flatnonzero(self.run.up)
        large = self.run.applications.tasks[application] > 2 * len(self.run.speeds)
        return up[np.argsort(-self.run.speeds[up], kind="stable")][:1] if large else honest


class _KnowsTheNextRelease(_Planted):
    """Sends to one machine less if somebody else submits soon."""

    def targets(self, submitter: int, application: int) -> Any:
        honest, release = super().targets(submitter, application), self.run.applications.release
        soon = (release > release[application]) & (release < release[application] + 60.0)
        return honest[: 1 if soon.any() else 3]


class _Remembers(_Planted):
    """Begins with the machine that the last run ended with."""

    last: ClassVar[list[int]] = []

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        if _Remembers.last and self.run.up[_Remembers.last[-1] % len(self.run.up)]:
            honest[:1] = _Remembers.last.pop() % len(self.run.up)
        return np.unique(honest)

    def finish(self) -> Outcome:
        _Remembers.last[:] = [int(self.chance[0].integers(1 << 30))]
        return super().finish()


class _KeepsACache(_Planted):
    """Keeps the first targets of each number of tasks for all runs to come."""

    cache: ClassVar[dict[int, Any]] = {}

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        kept = _KeepsACache.cache.setdefault(int(self.run.applications.tasks[application]), honest)
        kept = kept[kept < len(self.run.up)]
        kept = kept[self.run.up[kept]]
        return kept if len(kept) else honest


class _CountsRuns(_Planted):
    """Sends to one machine less in every seventh run."""

    runs: ClassVar[list[int]] = [0]

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        _CountsRuns.runs[0] += 1
        self.few = _CountsRuns.runs[0] % 7 == 0

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.few else honest


class _ReadsWhoIsUp(_Planted):
    """Chooses among those that are up, which no message has said."""


class _CountsWhoIsUp(_Planted):
    """Sends to one machine only while any is down."""

    def targets(self, submitter: int, application: int) -> Any:
        up = self.run.up
        targets = self.chance[submitter].choice(len(up), size=min(3, len(up)), replace=False)
        targets = targets[up[targets]] if up[targets].any() else np.flatnonzero(up)[:1]
        return targets if up.all() else targets[:1]


class _Thing:
    def __init__(self, machine: int) -> None:
        self.machine = machine


class _TiesById(_Planted):
    """Of machines of equal speed it takes those first whose objects lie first in memory."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.things = [_Thing(u) for u in range(len(run.speeds))]

    def targets(self, submitter: int, application: int) -> Any:
        up = [thing for thing in self.things if self.run.up[thing.machine]]
        return np.array([thing.machine for thing in sorted(up, key=id)][:2])


class _ByTheHour(_Planted):
    """Sends to fewer machines before noon."""

    def hour(self) -> int:
        return time.localtime().tm_hour

    def targets(self, submitter: int, application: int) -> Any:
        honest = super().targets(submitter, application)
        return honest[:1] if self.hour() < 12 else honest


class _ByTheHourOfDatetime(_ByTheHour):
    def hour(self) -> int:
        return datetime.datetime.now().hour


class _ByTimeOfDay(_ByTheHour):
    def hour(self) -> int:
        return int(time.time() // 3600 % 24)


class _LosesLate(_Planted):
    """Forgets a task of what comes after 1000 s."""

    def on_share(self, rows: Any) -> None:
        if self.run.engine.now > 1000 * 10**9 and rows["tasks"][0] > 1:
            rows = rows.copy()
            rows["tasks"][0] -= 1
            self.total -= 1
        super().on_share(rows)


class _LosesOfLargeBags(_Planted):
    """Forgets a task of shares of more than 100."""

    def on_share(self, rows: Any) -> None:
        rows = rows.copy()
        large = rows["tasks"] > 100
        rows["tasks"][large] -= 1
        self.total -= int(large.sum())
        super().on_share(rows)


class _ReversesPastTheSixth(_Planted):
    """Queues shares that arrive together from the last on, if one is of the seventh application or later."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows[::-1] if (rows["application"] > 5).any() else rows)


class _ForgetsLateState(_Planted):
    """What it counts after the tenth share is in no checkpoint."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.shared = 0

    def targets(self, submitter: int, application: int) -> Any:
        self.shared += 1
        honest = super().targets(submitter, application)
        return honest[:1] if self.shared > 10 else honest


class _MisreportsPeak(_Planted):
    """Says that one task more has waited on the fullest machine."""

    def finish(self) -> Outcome:
        outcome = super().finish()
        peak = outcome.machines["peak_queue"]
        peak[np.argmax(peak)] += 2
        return outcome


class _ReportsNoPeak(_Planted):
    def finish(self) -> Outcome:
        outcome = super().finish()
        outcome.machines["peak_queue"][:] = 0
        return outcome


class _NotesTooMany(_Planted):
    """Says that it shared out twice as many tasks."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, 2 * tasks, submitter, among)


class _NotesSomebodyElse(_Planted):
    """Says that the next machine decided."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, tasks, (submitter + 1) % len(self.run.speeds), among)


class _NotesAnotherApplication(_Planted):
    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(max(i - 1, 0), tasks, submitter, among)


def _scheduler(policy: type[SharesPolicy]) -> type[Shares]:
    def start(self: Shares, run: Run) -> Policy:
        return policy(run)

    name = policy.__name__.removeprefix("_")
    knows = policy not in (_ReadsWhoIsUp, _CountsWhoIsUp)
    body = {"name": name.lower(), "start": start, "failures_known": knows, "__module__": __name__}
    body["__annotations__"] = {"name": "ClassVar[str]", "failures_known": "ClassVar[bool]"}
    make: Callable[..., Any] = type(Shares)
    made: type[Shares] = make(name, (Shares,), body, frozen=True, kw_only=True)
    globals()[name] = made
    return made


#: Name -> (scheduler, invariants of which one is found to be broken).
PLANTED = {
    policy.__name__.removeprefix("_"): (_scheduler(policy), laws)
    for policy, laws in {
        _PeeksUnderLoad: ("locality",),
        _PeeksLate: ("locality",),
        _PeeksPastTheSixth: ("locality",),
        _PeeksAtOneNeighbour: ("locality",),
        _PeeksAtSpeedsOfLargeBags: ("locality",),
        _KnowsTheNextRelease: ("locality",),
        _Remembers: ("repeatable", "hash seed"),
        _KeepsACache: ("repeatable", "hash seed"),
        _CountsRuns: ("repeatable", "hash seed"),
        _ReadsWhoIsUp: ("locality",),
        _CountsWhoIsUp: ("locality",),
        _TiesById: ("repeatable", "hash seed"),
        _ByTheHour: ("hash seed",),
        _ByTheHourOfDatetime: ("hash seed",),
        _ByTimeOfDay: ("hash seed",),
        _LosesLate: ("runs",),
        _LosesOfLargeBags: ("runs",),
        _ReversesPastTheSixth: ("cohorts",),
        _ForgetsLateState: ("resumed",),
        _MisreportsPeak: ("sound",),
        _ReportsNoPeak: ("sound",),
        _NotesTooMany: ("decisions",),
        _NotesSomebodyElse: ("decisions",),
        _NotesAnotherApplication: ("decisions",),
    }.items()
}
