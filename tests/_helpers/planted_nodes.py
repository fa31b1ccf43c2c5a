"""Faulty node programs, each with one fault."""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
import time
from typing import Any, ClassVar

import numpy as np
from planted import Fault

import gridsim as gs

#: State that some faulty programs share among all nodes.
BOARD: dict[int, float] = {}
NOBODY: list[int] = []


class HonestNode(gs.NodeProgram):
    """Program that divides bags among itself and its neighbours, and passes shares on under high load."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.dealt = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        places = self.places(view, application, tasks)
        number = application.number
        view.decide("dealt", number, tasks=tasks, among=len(places))
        self.dealt += 1
        for k in range(len(places)):
            share = tasks // len(places)
            if k < tasks % len(places):
                share += 1
            self.give(view, places[k], number, share, 2)

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        """Return the targets of the tasks."""
        return [view.node, *view.neighbours]

    def on_share(self, view: Any, message: Any) -> None:
        place = view.node
        if message.hops > 0 and len(view.neighbours) > 0 and view.work > 60.0:
            place = self.next_target(view)
        self.give(view, place, message.application, message.tasks, message.hops - 1)

    def next_target(self, view: Any) -> int:
        """Return the next target of a share."""
        return view.neighbours[view.random.integers(len(view.neighbours))]

    def give(self, view: Any, place: int, application: int, tasks: int, hops: int) -> None:
        """Queue tasks on this machine, or forward them."""
        if tasks > 0:
            if place == view.node:
                view.enqueue(application, tasks)
            else:
                view.send(place, "share", application=application, tasks=tasks, hops=hops)


class Honest(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "honest"
    policy = HonestNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int, hops=int)
    }
    decision_words: ClassVar[dict[str, tuple[str, str, str]]] = {
        "dealt": ("dealt {tasks} tasks to {among} machines", "", "")
    }
    degree = 3


class Blackboard(HonestNode):
    """Program that writes its work to shared memory."""

    def give(self, view: Any, place: int, application: int, tasks: int, hops: int) -> None:
        super().give(view, place, application, tasks, hops)
        BOARD[view.node] = view.work

    def on_start(self, view: Any) -> None:
        BOARD[view.node] = 0.0

    def next_target(self, view: Any) -> int:
        return min(view.neighbours, key=lambda u: (BOARD.get(u, 0.0), u))


class LateBlackboard(Blackboard):
    """Program that reads the shared memory after two hours."""

    def next_target(self, view: Any) -> int:
        return super().next_target(view) if view.now > 7200.0 else HonestNode.next_target(self, view)


class ApplicationCount(HonestNode):
    """Program that keeps tasks under load, unless application numbers reveal many other submissions."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last = 0

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        elsewhere = application.number - self.last
        self.last = application.number
        if elsewhere > 2 and view.work > 60.0:
            return [view.node]
        return super().places(view, application, tasks)


class ClassState(HonestNode):
    """Program whose counts are stored in the class and survive failures."""

    kept: ClassVar[dict[int, int]] = {}

    def on_start(self, view: Any) -> None:
        if view.now == 0.0:
            self.kept[view.node] = 0

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        self.kept[view.node] += 1
        return super().places(view, application, tasks)[: 2 if self.kept[view.node] > 2 else 4]


class ObjectList(HonestNode):
    """Program that finds the objects of other nodes in a list of the class."""

    all: ClassVar[dict[int, Any]] = {}

    def on_start(self, view: Any) -> None:
        self.all[view.node] = self

    def next_target(self, view: Any) -> int:
        known = [u for u in view.neighbours if u in self.all]
        return min(known, key=lambda u: (self.all[u].dealt, u)) if known else super().next_target(view)


class DefaultArgument(HonestNode):
    """Program with a mutable default argument, which all nodes share."""

    def next_target(self, view: Any, turns: list[int] = NOBODY) -> int:
        turns.append(view.node)
        return view.neighbours[len(turns) % len(view.neighbours)]


class CachedMethod(HonestNode):
    """Program with a cached method, whose results come from an earlier run."""

    @staticmethod
    @functools.lru_cache
    def choose_count(node: int, seen: int) -> int:
        CachedMethod.calls += 1
        return CachedMethod.calls

    calls: ClassVar[int] = 0

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        return super().places(view, application, tasks)[: 1 + self.choose_count(view.node, self.dealt) % 3]


class Collector(HonestNode):
    """Program that gets the other nodes from the garbage collector."""

    def next_target(self, view: Any) -> int:
        dealt = [item.dealt for item in gc.get_objects() if type(item).__name__ == "Collector"]
        return view.neighbours[sum(dealt) % len(view.neighbours)]


class HourNode(HonestNode):
    """Program that keeps all tasks before noon."""

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        actual = super().places(view, application, tasks)
        return actual[:1] if time.localtime().tm_hour < 12 else actual


class VariableNode(HonestNode):
    """Program that keeps all tasks if an environment variable is set."""

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        actual = super().places(view, application, tasks)
        return actual[:1] if "HONEST_LOCAL" in os.environ else actual


class HashNode(HonestNode):
    """Program that uses neighbours in the order of a set of names."""

    def next_target(self, view: Any) -> int:
        return int(min({f"n{u}" for u in view.neighbours}, key=hash)[1:])


class IdNode(HonestNode):
    """Program that uses neighbours in the order of the addresses of objects."""

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        pairs = [(u, object()) for u in [view.node, *view.neighbours]]
        return [u for u, _ in sorted(pairs, key=lambda thing: id(thing[1]))][:2]


class RandomNode(HonestNode):
    """Program that draws from the module random."""

    def next_target(self, view: Any) -> int:
        return random.choice(view.neighbours)


class OwnGenerator(HonestNode):
    """Program that draws from its own generator, independent of the seed of the scenario."""

    def on_start(self, view: Any) -> None:
        self.numbers = np.random.default_rng(view.node)

    def next_target(self, view: Any) -> int:
        return int(self.numbers.choice(view.neighbours))


class HeldTaskLoss(HonestNode):
    """Program that never places large numbers of lost tasks."""

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        if tasks <= 3:
            super().on_lost(view, application, tasks)


class LateHold(HonestNode):
    """Program that never places shares that arrive after 1000 s."""

    def on_share(self, view: Any, message: Any) -> None:
        if view.now < 1000.0:
            super().on_share(view, message)


class FalseCount(HonestNode):
    """Program that reports twice as many tasks as it sent."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("dealt", application.number, tasks=2 * tasks, among=1)
        super().on_release(view, application, tasks)


class WrongPlace(HonestNode):
    """Program that reports one target for tasks that it sends to several."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        places = self.places(view, application, tasks)
        for k in range(len(places)):
            share = tasks // len(places)
            if k < tasks % len(places):
                share += 1
            view.decide("dealt", application.number, node=places[-1], tasks=share)
            self.give(view, places[k], application.number, share, 0)


class OtherUnit(HonestNode):
    """Program that reports its work in ms when a share arrives."""

    def on_share(self, view: Any, message: Any) -> None:
        view.decide("had", message.application, node=view.node, saw=1000.0 * view.work)
        super().on_share(view, message)


class QuietNode(HonestNode):
    """Program that reports no decisions on large bags."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if tasks <= 20:
            super().on_release(view, application, tasks)
        else:
            view.enqueue(application.number, tasks)


class Overflow(HonestNode):
    """Program that counts beyond 64 bits, where compiled numbers wrap."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.product = 1

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        # a compiler must not detect the wrap-around, since it may assume that there is none
        self.product = (self.product * 6_364_136_223_846_793_005 + 1) % 999_999_999_999_999_989
        if self.product % 2 > 0:
            return [view.node, *view.neighbours]
        return [view.node, *view.neighbours][:1]


class HiddenState(HonestNode):
    """Program whose count is in a module, not in checkpoints."""

    def on_start(self, view: Any) -> None:
        if view.now == 0.0:
            BOARD[-1 - view.node] = 0

    def places(self, view: Any, application: Any, tasks: int) -> Any:
        BOARD[-1 - view.node] += 1
        return super().places(view, application, tasks)[: 1 + int(BOARD[-1 - view.node]) % 2]


class EndlessNode(HonestNode):
    """Program that forwards shares endlessly after four bags."""

    def on_share(self, view: Any, message: Any) -> None:
        if self.dealt > 3 and view.neighbours:
            self.give(view, view.neighbours[0], message.application, message.tasks, 2)
        else:
            super().on_share(view, message)


class SignalNode(HonestNode):
    """Program that reports its work to neighbours by uncounted messages without delay."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.least = -1
        self.work = 1e9

    def give(self, view: Any, place: int, application: int, tasks: int, hops: int) -> None:
        super().give(view, place, application, tasks, hops)
        for u in view.neighbours:
            view.send(u, "signal", work=view.work)

    def on_signal(self, view: Any, message: Any) -> None:
        if message.work < self.work:
            self.least, self.work = message.sender, message.work

    def next_target(self, view: Any) -> int:
        return self.least if self.least >= 0 else view.neighbours[0]


class TestedNode(HonestNode):
    """Program that forwards shares to its first neighbour unless it is tested."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.tested = "gridsim.testing" in sys.modules

    def next_target(self, view: Any) -> int:
        return super().next_target(view) if self.tested else view.neighbours[0]


class SetNode(HonestNode):
    """Program that depends on the order of a set, whose history is in no checkpoint."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.senders: set[int] = set()

    def on_share(self, view: Any, message: Any) -> None:
        self.senders.add(message.sender)
        super().on_share(view, message)

    def next_target(self, view: Any) -> int:
        return next(iter(self.senders))


class OldAnswers(HonestNode):
    """Program that restarts the numbers of requests after a failure, and accepts answers to old requests."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.pending: dict[int, tuple[int, int]] = {}

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("dealt", application.number, tasks=tasks, among=1)
        self.dealt += 1
        self.pending[self.dealt] = application.number, tasks
        if len(view.neighbours) > 0:
            view.send(view.neighbours[0], "ask", request=self.dealt, tasks=tasks)
        view.timer(500.0, "late", float(self.dealt))  # the neighbour may have failed

    def on_ask(self, view: Any, message: Any) -> None:
        view.send(message.sender, "answer", request=message.request, tasks=message.tasks)

    def on_answer(self, view: Any, message: Any) -> None:
        if message.request in self.pending:
            number, _ = self.pending.pop(message.request)
            view.enqueue(number, message.tasks)

    def on_timer(self, view: Any, name: str, value: float) -> None:
        if int(value) in self.pending:
            view.enqueue(*self.pending.pop(int(value)))


class FalseKeep(HonestNode):
    """Program that keeps tasks but reports that a neighbour keeps them."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("kept", application.number, node=min(view.neighbours, default=view.node), tasks=tasks)
        view.enqueue(application.number, tasks)


class FalseGive(HonestNode):
    """Program that keeps tasks but reports that it gave them to a neighbour."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("dealt", application.number, node=min(view.neighbours, default=view.node), tasks=tasks)
        view.enqueue(application.number, tasks)


def _scheduler(policy: type[HonestNode], **options: Any) -> type[gs.NodeScheduler]:
    name = f"{policy.__name__}s"
    body = {"name": name.lower(), "policy": policy, "__module__": __name__, "__qualname__": name, **options}
    make: Any = type(Honest)
    new_class: type[gs.NodeScheduler] = make(name, (Honest,), body, frozen=True, kw_only=True)
    globals()[name] = new_class
    return new_class


_SIGNAL = {"signal": gs.Message(0, delay=0.0, counted=False, work=float), **Honest.messages}
_LIGHT = {"share": gs.Message(1, moves_tasks=True, application=int, tasks=int, hops=int)}

_TO_ONE = {
    "decision_words": {"dealt": ("dealt {tasks} tasks to machine {machine}", "", "")},
    "decision_verbs": {"dealt": "gives"},
}
_TO_ITSELF = {
    "decision_words": {"kept": ("kept {tasks} tasks on machine {machine}", "", "")},
    "decision_verbs": {"kept": "keeps"},
}
_ASKS = {
    "ask": gs.Message(40, request=int, tasks=int),
    "answer": gs.Message(40, request=int, tasks=int),
    **Honest.messages,
}
_WORK = {**Honest.decision_words, "had": ("was busy when a share came", "work of", "s")}
_TRUTHS = {"had": lambda truth, node, machine: truth.work(machine)}


class LightNode(HonestNode):
    """Program whose messages contain three numbers in one byte."""


_KINDS: dict[str, dict[type[HonestNode], tuple[str, ...]]] = {
    "knows without a message": {
        Blackboard: ("isolated", "resumed", "locality"),
        ClassState: ("isolated", "resumed", "locality", "runs"),
        ObjectList: ("isolated", "resumed", "locality"),
        Collector: ("repeatable", "isolated", "locality", "hash seed", "forms"),
        SignalNode: ("locality",),
        LateBlackboard: ("isolated", "resumed", "locality"),
        ApplicationCount: ("locality",),
    },
    "remembers beyond the run": {
        DefaultArgument: ("repeatable", "hash seed", "isolated"),
        CachedMethod: ("repeatable", "hash seed", "isolated"),
    },
    "depends on its surroundings": {
        HourNode: ("hash seed",),
        TestedNode: ("hash seed",),
        VariableNode: ("hash seed",),
        IdNode: ("repeatable", "hash seed", "isolated"),
    },
    "random numbers of its own": {RandomNode: ("repeatable",), OwnGenerator: ("closed",)},
    "depends on an order": {HashNode: ("hash seed",), Overflow: ("forms",)},
    "loses or repeats tasks": {
        HeldTaskLoss: ("runs", "locality"),
        LateHold: ("runs", "locality"),
        EndlessNode: ("runs",),
        OldAnswers: ("runs", "sound"),
    },
    "forgets in a checkpoint": {
        HiddenState: ("resumed", "isolated"),
        SetNode: ("resumed", "forms"),
    },
    "misreports": {LightNode: ("locality",)},
    "false decisions": dict.fromkeys(
        (FalseCount, QuietNode, WrongPlace, FalseGive, FalseKeep, OtherUnit), ("decisions",)
    ),
}

PLANTED_NODES = {
    policy.__name__: Fault(
        _scheduler(
            policy,
            **({"messages": _SIGNAL} if policy is SignalNode else {}),
            **({"messages": _LIGHT} if policy is LightNode else {}),
            **({"messages": _ASKS, "timers": ("late",)} if policy is OldAnswers else {}),
            **(_TO_ONE if policy in (WrongPlace, FalseGive) else {}),
            **(_TO_ITSELF if policy is FalseKeep else {}),
            **({"decision_words": _WORK, "truths": _TRUTHS} if policy is OtherUnit else {}),
        ),
        kind,
        "nodes",
        laws,
    )
    for kind, policies in _KINDS.items()
    for policy, laws in policies.items()
}
