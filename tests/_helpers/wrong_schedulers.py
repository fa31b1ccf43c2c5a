"""A sound decentralized scheduler, and thirteen variants with one fault each."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from gridcore.common.state import NEVER
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import ACT, TIMER
from gridsim.engine.transport import message
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Policy, Run, Scheduler
from gridsim.support.clock import nanoseconds

SHARE = message(("application", "i8"), ("tasks", "i8"))


class Shares(Scheduler, frozen=True, kw_only=True):
    """Scheduler that sends shares of an application to machines drawn at random by its submitter."""

    name: ClassVar[str] = "shares"
    decentralized: ClassVar[bool] = True
    failures_known: ClassVar[bool] = True  # shares go to machines that are up
    decision_words: ClassVar[DecisionTexts] = {
        "shared": ("shared {tasks} tasks out to {among} machines", "", "")
    }

    @property
    def promised_order(self) -> Literal["fifo"]:
        return "fifo"

    def start(self, run: Run) -> Policy:
        return SharesPolicy(run)


class SharesPolicy(Policy):
    STATE: ClassVar[tuple[str, ...]] = ("chance", "queues", "resubmitted", "lost")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.chance = [run.streams(f"shares {u}") for u in range(len(run.speeds))]
        self.queues = TaskQueues(run.speeds, order="fifo", watch="idle", record=run.record)
        bags = run.applications
        self.queues.add_applications(bags.release, bags.size, bags.task_size)
        self.total, self.resubmitted = int(bags.tasks.sum()), np.zeros(len(bags), np.int64)
        self.lost: dict[int, int] = {}
        run.network.kind("share", SHARE, 170, self.on_share, priority=10, lost=self.on_lost)
        run.engine.on("reorder", self.reorder, priority=10, phase=ACT)
        run.engine.on("again", self.retry, priority=FAULT_PRIORITY + 1, phase=TIMER)
        run.engine.add_source(self)
        run.network.open()

    def on_release(self, applications: list[int]) -> None:
        for i in applications:
            self.place(i, int(self.run.applications.tasks[i]))

    def place(self, i: int, tasks: int) -> None:
        if not self.run.up.any():
            self.wait(i, tasks, 10.0)
            return
        submitter = int(self.run.applications.submitter[i])
        if not self.run.up[submitter]:  # the next machine that is up acts on its behalf
            submitter = int(np.flatnonzero(self.run.up)[0])
        targets = self.targets(submitter, i)
        self.note(i, tasks, submitter, len(targets))
        shares = tasks // len(targets) + (np.arange(len(targets)) < tasks % len(targets))
        rows = np.zeros(len(targets), SHARE)
        rows["node"], rows["sender"], rows["application"], rows["tasks"] = targets, submitter, i, shares
        self.run.network.send("share", rows[shares > 0])

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        if self.run.decisions is not None:
            now = self.run.engine.now
            self.run.decisions.record(
                "shared", time=now, application=i, decider=submitter, tasks=tasks, among=among
            )

    def targets(self, submitter: int, application: int) -> Any:
        up = np.flatnonzero(self.run.up)
        return self.chance[submitter].choice(up, size=min(3, len(up)), replace=False)

    def on_share(self, rows: Any) -> None:
        self.queues.enqueue(rows["node"], rows["application"], rows["tasks"], self.run.engine.now)
        self.run.engine.touch("reorder", rows["node"])

    def reorder(self, machines: list[int]) -> None:
        self.queues.reschedule(machines, self.run.engine.now)

    def on_lost(self, rows: Any) -> None:
        self.lose(rows["application"], rows["tasks"])

    def on_faults(self, failed: Any, back: Any) -> None:
        _, applications, tasks = self.queues.fail(failed, self.run.engine.now)
        self.lose(applications, tasks)

    def lose(self, applications: Any, tasks: Any) -> None:
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.resubmitted[i] += count
            self.wait(i, count, 1.0)

    def wait(self, i: int, tasks: int, seconds: float) -> None:
        self.lost[i] = self.lost.get(i, 0) + tasks
        self.run.engine.at(self.run.engine.now + nanoseconds(seconds), "again")

    def retry(self, _: list[int]) -> None:
        lost, self.lost = self.lost, {}
        for i, count in sorted(lost.items()):
            self.place(i, count)

    def advance(self, limit: int) -> int:
        at = self.queues.next_change()
        return at if at <= limit else NEVER

    def collect(self, engine: Any, time: int) -> None:
        self.queues.due(time)
        if self.queues.tasks_done == self.total:
            engine.stop()

    def finish(self) -> Outcome:
        self.queues.advance(NEVER)
        return Outcome.of(self.queues, self.resubmitted)


class _TaskLoss(SharesPolicy):
    """Policy that loses a task of each failure."""

    def lose(self, applications: Any, tasks: Any) -> None:
        if len(tasks):
            self.total -= 1
            tasks = tasks.copy()
            tasks[0] -= 1
        super().lose(applications, tasks)


class _StateLoss(SharesPolicy):
    """Policy whose lost tasks are in no checkpoint."""

    STATE = ("chance", "queues", "resubmitted")


class _DrawForRecord(SharesPolicy):
    """Policy whose log draws from the stream of its decisions."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, tasks, submitter, among)
        if self.run.decisions is not None:
            self.chance[submitter].random()


class _MissingDecisions(SharesPolicy):
    """Policy that logs only repeated decisions."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        if self.resubmitted[i]:
            super().note(i, tasks, submitter, among)


class _FailedMachineUse(SharesPolicy):
    """Policy whose machines ignore failures."""

    def on_faults(self, failed: Any, back: Any) -> None:
        pass


class _QueuePeek(SharesPolicy):
    """Policy that sends shares to the machines with the shortest queues."""

    def targets(self, submitter: int, application: int) -> Any:
        machines = range(len(self.run.speeds))
        waiting = [int(self.queues.queue(u)[1].sum() + (self.queues.queue(u)[2] >= 0)) for u in machines]
        up = [u for u in machines if self.run.up[u]]
        return np.array(sorted(up, key=lambda u: (waiting[u], u))[:3])


class _SpeedPeek(SharesPolicy):
    """Policy that sends shares to the fastest machines."""

    def targets(self, submitter: int, application: int) -> Any:
        up = np.flatnonzero(self.run.up)
        return up[np.argsort(-self.run.speeds[up], kind="stable")][:3]


class _FutureKnowledge(SharesPolicy):
    """Policy whose targets depend on later releases at other machines."""

    def targets(self, submitter: int, application: int) -> Any:
        up = np.flatnonzero(self.run.up)
        return np.roll(up, int(self.run.applications.release[application + 1 :].sum()))[:1]


class _Alternation(SharesPolicy):
    """Policy that reverses the order of machines in every other run."""

    runs = 0

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        _Alternation.runs += 1
        self.step = 1 if _Alternation.runs % 2 else -1

    def targets(self, submitter: int, application: int) -> Any:
        return np.flatnonzero(self.run.up)[:: self.step][:1]


class _ReverseOrder(SharesPolicy):
    """Policy that queues the shares of an instant in reverse order."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows[::-1])


class _SetOrderDependence(SharesPolicy):
    """Policy that uses the first machines of a set of names."""

    def targets(self, submitter: int, application: int) -> Any:
        names = {f"machine {u}" for u in np.flatnonzero(self.run.up)}
        return np.array([int(name.split()[1]) for name in list(names)[:3]])


class _DoubleBooking(SharesPolicy):
    """Policy whose machines serve two queues at once."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.second = TaskQueues(run.speeds, order="fifo", record=run.record)
        bags = run.applications
        self.second.add_applications(bags.release, bags.size, bags.task_size)

    def on_share(self, rows: Any) -> None:
        odd = rows["application"] % 2 == 1
        super().on_share(rows[~odd])
        self.second.enqueue(
            rows["node"][odd], rows["application"][odd], rows["tasks"][odd], self.run.engine.now
        )
        self.total -= int(rows["tasks"][odd].sum())

    def on_faults(self, failed: Any, back: Any) -> None:
        super().on_faults(failed, back)
        now = self.run.engine.now
        _, applications, tasks = self.second.fail(failed, now)
        self.total += int(tasks.sum())
        self.lose(applications, tasks)

    def finish(self) -> Outcome:
        one = super().finish()
        self.second.advance(NEVER)
        totals = self.second.totals()
        for name, column in one.applications.items():
            if name != "resubmitted":
                odd = np.arange(len(column)) % 2 == 1
                column[odd] = totals[name][odd]
        for name in ("busy", "tasks", "interrupted"):
            one.machines[name] = one.machines[name] + totals[name]
        for mine, theirs in ((one.schedule, self.second.schedule()), (one.arrivals, self.second.arrivals())):
            for name in mine:
                mine[name] = np.concatenate((mine[name], theirs[name]))
        return one


class _DroppedShares(SharesPolicy):
    """Policy that drops all except the first share of an instant."""

    def on_share(self, rows: Any) -> None:
        super().on_share(rows[:1])
        self.total -= int(rows["tasks"][1:].sum())


class TaskLoss(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "loses"

    def start(self, run: Run) -> Policy:
        return _TaskLoss(run)


class FailedMachineUse(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "runs-on-the-dead"

    def start(self, run: Run) -> Policy:
        return _FailedMachineUse(run)


class QueuePeek(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "peeks"

    def start(self, run: Run) -> Policy:
        return _QueuePeek(run)


class SpeedPeek(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "peeks-at-speeds"

    def start(self, run: Run) -> Policy:
        return _SpeedPeek(run)


class FutureKnowledge(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "knows-the-future"

    def start(self, run: Run) -> Policy:
        return _FutureKnowledge(run)


class Alternation(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "alternates"

    def start(self, run: Run) -> Policy:
        return _Alternation(run)


class ReverseOrder(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "takes-the-last-first"

    @property
    def promised_order(self) -> Any:
        return None

    def start(self, run: Run) -> Policy:
        return _ReverseOrder(run)


class SetOrderDependence(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "depends-on-set-order"

    def start(self, run: Run) -> Policy:
        return _SetOrderDependence(run)


class DoubleBooking(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "double-books"

    def start(self, run: Run) -> Policy:
        return _DoubleBooking(run)


class DroppedShares(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "forgets-a-message"

    def start(self, run: Run) -> Policy:
        return _DroppedShares(run)


class StateLoss(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "forgets-state"

    def start(self, run: Run) -> Policy:
        return _StateLoss(run)


class DrawForRecord(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "draws-to-note"

    def start(self, run: Run) -> Policy:
        return _DrawForRecord(run)


class MissingDecisions(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "keeps-quiet"

    def start(self, run: Run) -> Policy:
        return _MissingDecisions(run)
