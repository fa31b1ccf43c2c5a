"""Runs of node programs in other orders of the messages and timers that reach a node at about one instant.

A run has one order of events, but real machines do not keep it: messages that arrive at one instant, and
timers that are due then, may be handled in any order; and with a jitter, a message or a timer may be so much
later that it swaps places with the next events of its node.  `explore_orders` runs a small scenario in these
orders, those first that differ least from the usual one.  The order of events on different nodes is not
changed, since nodes learn of each other by messages only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gridcore.nodes.kinds import MessageKind
from gridsim.errors import text_of
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.python_actions import fields_of
from gridsim.scheduling.nodes.python_core import Phase, PythonCore
from gridsim.scheduling.nodes.python_timers import NodeTimer, Timers
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.clock import nanoseconds
from gridsim.testing.run_limits import LIMITS
from gridsim.testing.violation import ConformanceError
from gridsim.validation.results import validate_result

__all__ = ["explore_orders", "run_in_order"]

_T = TypeVar("_T")


class Choices:
    """The choices of one run: those of `order`, and then 0, which is the usual order.

    Parameters
    ----------
    jitter
        Time by which a message or a timer may be late, ns.

    Attributes
    ----------
    counts
        The number of alternatives of each choice so far.
    """

    def __init__(self, order: Sequence[int] = (), jitter: int = 0) -> None:
        self.order, self.counts, self.jitter = tuple(order), list[int](), jitter
        #: Node -> time (ns) of each event that was not late, and the place of this choice.
        self._punctual: dict[int, list[tuple[int, int]]] = {}

    def choose(self, count: int) -> int:
        """Return the number of one of `count` alternatives."""
        place = len(self.counts)
        self.counts.append(count)
        return min(self.order[place], count - 1) if place < len(self.order) else 0

    def is_late(self, node: int, now: int) -> bool:
        """Return whether an event of `node` at `now` ns is late, by the jitter.

        If it is not, it could be only if another event of the node follows within the jitter (`follow`).
        """
        if not self.jitter:
            return False
        if self.choose(2):
            return True
        self.counts[-1] = 1
        self._punctual.setdefault(node, []).append((now, len(self.counts) - 1))
        return False

    def follow(self, node: int, now: int) -> None:
        """Make the events of `node` that were shortly before `now` ns alternatives to late ones."""
        recent = [row for row in self._punctual.pop(node, ()) if now - row[0] <= self.jitter]
        for at, place in recent:
            if at < now:
                self.counts[place] = 2
        if rest := [row for row in recent if row[0] == now]:
            self._punctual[node] = rest

    def arrange(
        self, events: Sequence[_T], node_of: Callable[[_T], int], key_of: Callable[[_T], Hashable]
    ) -> list[_T]:
        """Return `events` with those of each node in a chosen order.

        Parameters
        ----------
        node_of
            Function that returns the node of an event.
        key_of
            Function that returns what equal events have in common; they are one alternative.
        """
        places: dict[int, list[int]] = {}
        for place, event in enumerate(events):
            places.setdefault(node_of(event), []).append(place)
        sequence = [*events]
        for own_places in places.values():
            left = [events[place] for place in own_places]
            for place in own_places:
                keys = [key_of(event) for event in left]
                alternatives = [k for k, key in enumerate(keys) if key not in keys[:k]]
                has_choice = len(alternatives) > 1
                sequence[place] = left.pop(alternatives[self.choose(len(alternatives)) if has_choice else 0])
        return sequence


class _OrderedTimers(Timers):
    """Timers of which those of a node and instant fire in a chosen order."""

    def __init__(self, nodes: int, choices: Choices) -> None:
        super().__init__(nodes)
        self.choices = choices

    def due(self, now: int) -> list[NodeTimer]:
        return self.choices.arrange(
            super().due(now), lambda timer: timer.node, lambda timer: (timer.name, timer.fields)
        )


#: A message that has arrived: its kind, the receiving node, the message, and whether it is local.
_Arrival = tuple[MessageKind, int, Any, bool]


class OrderedCore(PythonCore):
    """Readable core that handles the messages and timers of a node in a chosen order."""

    def __init__(self, links: Any, queues: Any, *, choices: Choices, **arguments: Any) -> None:
        super().__init__(links, queues, **arguments)
        self.choices, self.timers = choices, _OrderedTimers(self.nodes, choices)
        #: Late messages: a heap of (time in ns, number, message).
        self.late_messages: list[tuple[int, int, _Arrival]] = []
        self.late_timers = set[NodeTimer]()
        #: Whether timers stand for the ends of tasks, which are never late (`Environment.uses_queues`).
        self.times_work = not getattr(getattr(self.environment, "__self__", None), "uses_queues", True)

    def next_own_instant(self) -> int:
        instant = super().next_own_instant()
        return min(instant, self.late_messages[0][0]) if self.late_messages else instant

    def _due_phase(self) -> Phase:
        is_due = bool(self.late_messages) and self.late_messages[0][0] <= self.now
        return Phase.DELIVERIES if is_due else super()._due_phase()

    def _handle_wave(self) -> None:
        arrivals: list[_Arrival] = []
        while self.late_messages and self.late_messages[0][0] <= self.now:
            arrivals.append(heappop(self.late_messages)[2])
        for kind in self.mail.through_links:
            for node, message in self.mail.take(kind, self.now):
                arrival = kind, node, message, False
                is_from_another = self.machine_of(message.sender) != self.machine_of(node)
                if is_from_another and self.choices.is_late(node, self.now):
                    number = len(self.choices.counts)
                    heappush(self.late_messages, (self.now + self.choices.jitter, number, arrival))
                else:
                    arrivals.append(arrival)
        arrivals += [(kind, node, message, True) for _, _, node, kind, message in self.local.take(self.now)]
        for node in sorted({node for _, node, _, _ in arrivals}):
            due = [timer for timer in self.timers.of(node) if timer.time <= self.now]
            if due and self.choices.choose(2):
                for timer in sorted(due, key=lambda timer: (timer.name, timer.number)):
                    self._fire_now(timer)
        for kind, node, message, is_local in self.choices.arrange(arrivals, _node_of, _key_of):
            self._count(kind.name, node)
            if is_local:
                self._handle_message(kind, node, message)
            else:
                self._deliver(kind, node, message)
        self._handle_dropped()
        self.flush()

    def _fire_now(self, timer: NodeTimer) -> None:
        self._count(timer.name, timer.node)
        if self.timers.fire(timer):
            self._fire(timer)

    def _fire(self, timer: NodeTimer) -> None:
        if timer in self.late_timers or not self._postpone(timer):
            super()._fire(timer)

    def _postpone(self, timer: NodeTimer) -> bool:
        """Set a timer again if it is late; return whether it is."""
        if self.times_work or not self.choices.is_late(timer.node, self.now):
            return False
        late_timer = self.timers.set(self.now + self.choices.jitter, *timer[2:])
        self.late_timers.add(late_timer)
        if timer.name == self.request_timer:
            self.pending_requests[int(timer.fields[0])] = late_timer
        return True

    def call(self, node: int, handler: str, *arguments: Any) -> None:
        self.choices.follow(node, self.now)
        super().call(node, handler, *arguments)

    def restart(self, nodes: ArrayLike, programs: Sequence[Any], now: int) -> list[tuple[int, int]]:
        lost_tasks, failing = super().restart(nodes, programs, now), {*np.asarray(nodes).tolist()}
        for node in failing:
            self.choices.follow(node, now)
        for _, _, (kind, node, message, _) in self.late_messages:
            if node in failing and kind.moves_tasks:
                lost_tasks.append((message.application, message.tasks))
        self.late_messages = sorted(row for row in self.late_messages if row[2][1] not in failing)
        return lost_tasks


def _node_of(arrival: _Arrival) -> int:
    return arrival[1]


def _key_of(arrival: _Arrival) -> Hashable:
    kind, _, message, _ = arrival
    return kind.name, message.sender, *map(repr, fields_of(message).values())


class _OrderedSimulation(Simulation):
    """Simulation whose nodes run on an `OrderedCore`."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler, options: Options, choices: Choices) -> None:
        self.choices = choices
        super().__init__(scenario, scheduler, options)

    def kernel_factories(self) -> dict[str, Any]:
        """Return the core that makes the choices, as an argument of `Run`."""
        return {"core": partial(OrderedCore, choices=self.choices)}


def _simulate(scenario: Scenario, scheduler: Scheduler, choices: Choices) -> Result:
    options = Options(record=("schedule", "messages"), nodes="python", **LIMITS)
    return _OrderedSimulation(scenario, scheduler, options, choices).run()


def run_in_order(
    scenario: Scenario, scheduler: Scheduler, order: Sequence[int] = (), jitter: float = 0.0
) -> Result:
    """Run node programs in plain Python with their messages and timers in another order.

    It repeats a run of ``check_scheduler(explore=...)``, for a debugger.

    Parameters
    ----------
    order
        The choices among the events that reach a node at one instant, in order of time: for each event except
        the last one, its place among those that are left in the usual order; and 1 if timers come before
        messages.  With a jitter, there is one more choice for each message from another machine and each
        timer, 1 if it is late.  Choices that are missing are 0.  `ConformanceError.order` has those of a
        violation.
    jitter
        Time by which late messages and timers are late, s.

    Returns
    -------
    The result of the run, with its schedule and its messages.
    """
    return _simulate(scenario, scheduler, Choices(order, nanoseconds(jitter)))


def explore_orders(
    scenario: Scenario, scheduler: Scheduler, runs: int, jitter: float = 0.0
) -> tuple[int, int]:
    """Run a scenario in up to `runs` orders, those first that differ in the fewest choices.

    Parameters
    ----------
    jitter
        Time by which messages and timers may be late, s.

    Returns
    -------
    The number of runs, and the number of orders that are known but were not run.

    Raises
    ------
    ConformanceError
        If a run raises an error, or is not sound.
    """
    pending, run_count = deque[tuple[int, ...]]([()]), 0
    while pending and run_count < runs:
        order = pending.popleft()
        choices = Choices(order, nanoseconds(jitter))
        try:
            text = "; ".join(map(str, validate_result(_simulate(scenario, scheduler, choices))))
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {text_of(error)}"
        if text:
            raise ConformanceError("orders", text, scenario, scheduler, order=order, jitter=jitter)
        run_count += 1
        for place in range(len(order), len(choices.counts)):
            usual = order + (0,) * (place - len(order))
            pending.extend((*usual, choice) for choice in range(1, choices.counts[place]))
    return run_count, len(pending)
