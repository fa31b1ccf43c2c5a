"""Faulty schedulers that only a variant of a scenario shows: a board, dependencies, or slow messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from dealing import Dealing, DealingNode
from planted import Fault
from planted_jobs import FirstFitJobs, FirstFitQueue
from planted_roles import Shortest, ShortestNode

import gridsim as gs


class Model(gs.Environment):
    """Knowledge of the whole grid, which no node may have."""

    STATE = ("tasks",)
    reason = "the nodes cheat"

    def __init__(self, parameters: Any, run: Any) -> None:
        super().__init__(parameters, run)
        #: Number of tasks that all nodes have been given.
        self.tasks = 0

    def of_node(self, node: int) -> Any:
        return self


class FreshNode(ShortestNode):
    """Node that knows how many tasks the next machine has now, while the board shows old numbers."""

    def seen(self, view: Any) -> Any:
        numbers, other = super().seen(view), (view.node + 1) % view.machines
        numbers[other] = view.environment.adapter.core.waiting_at(other)
        return numbers


class FreshBoard(Shortest, frozen=True, kw_only=True):
    policy = FreshNode
    environment = Model

    age: float = 60.0


class RegisterNode(DealingNode):
    """Node that counts the tasks of all nodes if applications follow others, and deals if they are even."""

    def places(self, view: Any, application: Any, tasks: int) -> Sequence[int]:
        model = view.environment
        model.tasks += tasks
        is_odd = model.run.applications.predecessors is not None and model.tasks % 2
        return [view.node] if is_odd else super().places(view, application, tasks)


class ElevenNode(DealingNode):
    """Node that loses a task of each application of which six are left over by eleven machines."""

    def places(self, view: Any, application: Any, tasks: int) -> Sequence[int]:
        return range(view.machines)

    def share(self, tasks: int, k: int, places: int) -> int:
        return super().share(tasks, k, places) - (k == 5 and places == 11 and tasks % places == 6)


class ImpatientNode(DealingNode):
    """Node that raises an error if a share has travelled for half a minute."""

    def give(self, view: Any, place: int, application: int, tasks: int) -> None:
        if place == view.node:
            view.enqueue(application, tasks)
        else:
            view.send(place, "share", application=application, tasks=tasks, at=view.now)

    def on_share(self, view: Any, message: Any) -> None:
        if view.now - message.at > 30.0:
            raise ValueError("the share is too old")
        super().on_share(view, message)


class Register(Dealing, frozen=True, kw_only=True):
    policy = RegisterNode
    environment = Model
    dependencies = True


class Eleven(Dealing, frozen=True, kw_only=True):
    policy = ElevenNode


class Impatient(Dealing, frozen=True, kw_only=True):
    policy = ImpatientNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int, at=float)
    }


class FollowersJobs(FirstFitJobs):
    """Policy that first starts the jobs that the largest jobs follow, which nobody has submitted yet."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        jobs = view._adapter.run.applications
        if jobs.predecessors is None or jobs.predecessor_offsets is None:
            return view.waiting
        number = np.repeat(np.arange(len(jobs)), np.diff(jobs.predecessor_offsets))
        work = np.bincount(jobs.predecessors, jobs.size[number], len(jobs))
        return sorted(view.waiting, key=lambda job: (-work[job.number], job.number))


class Followers(FirstFitQueue, frozen=True, kw_only=True):
    policy = FollowersJobs


_KINDS: dict[tuple[str, str], dict[type[gs.Scheduler], tuple[str, ...]]] = {
    ("knows without a message", "boards"): {FreshBoard: ("locality",)},
    ("knows without a message", "after"): {Register: ("locality",)},
    ("knows the future", "after"): {Followers: ("foresight",)},
    ("loses or repeats tasks", "nodes"): {Eleven: ("runs",)},
    ("fails on slow messages", "nodes"): {Impatient: ("runs",)},
}

PLANTED_VARIANTS = {
    scheduler.__name__: Fault(scheduler, kind, tier, laws)
    for (kind, tier), schedulers in _KINDS.items()
    for scheduler, laws in schedulers.items()
}
