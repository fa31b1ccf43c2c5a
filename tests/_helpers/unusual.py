"""Unusual schedulers without a fault, of all tiers, which `check_scheduler` must accept."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dealing import Dealing, DealingNode
from planted_future import EvenPolicy, EvenScheduler
from planted_jobs import FirstFitJobs, FirstFitQueue, Gather
from planted_roles import Choices, Groups, Shortest, ShortestNode, Stealing
from planted_shared import BagFit, BagFitPolicy, JobFit
from wrong_schedulers import Shares, SharesPolicy

import gridsim as gs
from gridsim.scheduling.contract import Policy, Run

# -- node programs ------------------------------------------------------------------------------------------


class RefusingNode(DealingNode):
    """Node that returns half of the shares to their senders, who must keep them."""

    def on_share(self, view: Any, message: Any) -> None:
        if view.random.random() < 0.5:
            view.send(message.sender, "refused", application=message.application, tasks=message.tasks)
        else:
            super().on_share(view, message)

    def on_refused(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class DelayingNode(DealingNode):
    """Node that holds each share for half a minute before it queues it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.shares = gs.IntMap(application=int, tasks=int)
        self.count = 0

    def on_share(self, view: Any, message: Any) -> None:
        self.shares[self.count] = message.application, message.tasks
        view.timer(30.0, "late", share=self.count)
        self.count += 1

    def on_late(self, view: Any, share: int) -> None:
        view.enqueue(*self.shares.pop(share))


class MigratingNode(DealingNode):
    """Node that sends a waiting task to a neighbour every 20 s, for no reason."""

    def on_start(self, view: Any) -> None:
        view.timer(20.0, "move")

    def on_move(self, view: Any) -> None:
        for application, _ in view.queued[-1:]:
            if view.neighbours and view.take(application, 1):
                view.send(view.random.choice(view.neighbours), "share", application=application, tasks=1)
        view.timer(20.0, "move")


class ShufflingNode(DealingNode):
    """Node that takes all waiting tasks out of its queue and queues them again, at random instants."""

    def on_start(self, view: Any) -> None:
        view.timer(view.random.exponential(50.0), "shuffle")

    def on_shuffle(self, view: Any) -> None:
        taken = [(application, view.take(application, tasks)) for application, tasks in view.queued]
        for application, tasks in taken[::-1]:
            if tasks:
                view.enqueue(application, tasks)
        view.timer(view.random.exponential(50.0), "shuffle")


class MovingCoordinatorNode(DealingNode):
    """Node that sends all shares to a coordinator, another machine every 100 s, which deals them."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        place = int(view.now // 100.0) % view.machines
        view.send(place, "application", application=application.number, tasks=tasks)

    def on_application(self, view: Any, message: Any) -> None:
        self.deal(view, range(view.machines), message.application, message.tasks)

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class Refusing(Dealing, frozen=True, kw_only=True):
    policy = RefusingNode
    messages: ClassVar[dict[str, gs.Message]] = {
        **Dealing.messages,
        "refused": gs.Message(170, moves_tasks=True, application=int, tasks=int),
    }


class Delaying(Dealing, frozen=True, kw_only=True):
    policy = DelayingNode


class Migrating(Dealing, frozen=True, kw_only=True):
    policy = MigratingNode


class Shuffling(Dealing, frozen=True, kw_only=True):
    policy = ShufflingNode
    local_order = "fifo"


class MovingCoordinator(Dealing, frozen=True, kw_only=True):
    policy = MovingCoordinatorNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "application": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        **Dealing.messages,
    }


class AddingNode(ShortestNode):
    """Node that adds its shares to the board, which all nodes see at once."""

    def give(self, view: Any, application: int, shares: Any) -> None:
        super().give(view, application, shares)
        for place in np.flatnonzero(shares).tolist():
            view.board.add(place, float(shares[place]))


class Adding(Shortest, frozen=True, kw_only=True):
    policy = AddingNode


# -- cohorts ------------------------------------------------------------------------------------------------


class _OneMachine(EvenPolicy):
    """Policy that uses only the first machine that is up."""

    def choose_machines(self, application: int, now: int) -> Any:
        return super().choose_machines(application, now)[:1]


class OneMachine(EvenScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "one-machine"

    def start(self, run: Run) -> Policy:
        return _OneMachine(run)


class _OwnGenerator(SharesPolicy):
    """Policy with a generator of its own for each machine, seeded by a stream of the run."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chance = [np.random.default_rng(stream.integers(2**63)) for stream in self.chance]


class OwnGenerator(Shares, frozen=True, kw_only=True):
    name: ClassVar[str] = "own-generator"

    def start(self, run: Run) -> Policy:
        return _OwnGenerator(run)


class _NewestFirst(BagFitPolicy):
    """Policy that starts tasks of the last released bags first."""

    def places(self, application: int) -> list[tuple[int, int]]:
        newer = [i for i, count in self.waiting.items() if i > application and count]
        return [] if any(super(_NewestFirst, self).places(i) for i in newer) else super().places(application)

    def dispatch(self, _: list[int]) -> None:
        for _k in range(len(self.waiting)):
            super().dispatch(_)


class NewestFirst(BagFit, frozen=True, kw_only=True):
    name: ClassVar[str] = "newest-first"

    def start(self, run: Run) -> Policy:
        return _NewestFirst(run)


# -- jobs ---------------------------------------------------------------------------------------------------


class HourlyJobs(FirstFitJobs):
    """Policy that starts jobs once an hour."""

    def decide(self, view: gs.JobView) -> None:
        hour = 3600 * 10**9
        if view.now_ns % hour == 0:
            super().decide(view)
        if any(job.nodes <= view.free for job in view.waiting):  # machines may be down for ages
            view.wake((view.now_ns // hour + 1) * 3600.0)


class LastFirstJobs(FirstFitJobs):
    """Policy that starts the last released job first."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        return view.waiting[::-1]


class PickyJobs(FirstFitJobs):
    """Policy that rejects each third job and kills jobs that run for longer than requested."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.released:
            if job.number % 3 == 2:
                view.reject(job)
        for job in view.running:
            if job.started is not None and view.now > job.started + job.requested:
                view.kill(job)
        super().decide(view)


class LearningJobs(FirstFitJobs):
    """Policy that predicts run times by the mean of those that have ended, and starts short jobs first."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.times: list[float] = []

    def decide(self, view: gs.JobView) -> None:
        self.times += [view.now - job.started for job in view.ended if job.started is not None]
        for job in view.waiting if self.times else ():
            job.estimate = min(job.requested, sum(self.times) / len(self.times))
        super().decide(view)

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        return sorted(view.waiting, key=lambda job: (job.estimate, job.number))


class Hourly(FirstFitQueue, frozen=True, kw_only=True):
    policy = HourlyJobs


class LastFirst(FirstFitQueue, frozen=True, kw_only=True):
    policy = LastFirstJobs


class Picky(FirstFitQueue, frozen=True, kw_only=True):
    policy = PickyJobs
    may_reject = True


class Learning(FirstFitQueue, frozen=True, kw_only=True):
    policy = LearningJobs


#: Name -> scheduler.
UNUSUAL: dict[str, gs.Scheduler] = {
    "refuses shares at random": Refusing(),
    "delays all shares": Delaying(),
    "migrates for no reason": Migrating(),
    "queues tasks again": Shuffling(),
    "moves its coordinator": MovingCoordinator(),
    "has roles": Groups(),
    "asks before it gives": Choices(),
    "steals by requests": Stealing(),
    "reads an old board": Shortest(age=20.0, refresh="individual", error=0.3),
    "adds to its board": Adding(refresh="decisions", batch=3),
    "uses one machine": OneMachine(),
    "has generators of its own": OwnGenerator(),
    "shares memory by its own account": BagFit(),
    "runs the newest bags first": NewestFirst(),
    "shares machines by its own account": JobFit(),
    "starts jobs once an hour": Hourly(),
    "starts the last job first": LastFirst(),
    "rejects and kills jobs": Picky(),
    "predicts run times": Learning(),
    "asks machines to agree to jobs": Gather(),
}
