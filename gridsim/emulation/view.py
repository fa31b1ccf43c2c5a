"""What a node of an emulation sees and does: the members of `gridcore.nodes.view.View`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import listed
from gridcore.nodes.random_stream import RandomStream
from gridsim.errors import SchedulerError
from gridsim.scheduling.nodes.python_board import PythonBoard
from gridsim.support.clock import NS, nanoseconds


class EmulatedView:
    """See `gridcore.nodes.view.View`; `core` is a `gridsim.emulation.core.EmulatedCore`."""

    def __init__(self, core: Any, node: int, slots: Any) -> None:
        self._core, self._node, self._slots = core, node, slots
        self._neighbours: tuple[int, ...] | None = None

    @property
    def node(self) -> int:
        return self._node

    @property
    def slots(self) -> Any:
        return self._slots

    @property
    def machine(self) -> int:
        return int(self._core.machine_of(self._node))

    @property
    def machines(self) -> int:
        return int(self._core.queues.machines)

    def role(self, name: str) -> range:
        nodes: range | None = self._core.role_nodes.get(name)
        if nodes is None:
            known = listed(self._core.role_nodes, name)
            raise self._error(f"uses the role {name!r}, which the scheduler does not declare; {known}")
        return nodes

    @property
    def rank(self) -> int:
        role = self._core.roles[self._core.role_of(self._node)][0]
        return self._node - (self._core.role_nodes[role].start if role else 0)

    @property
    def neighbours(self) -> tuple[int, ...]:
        if self._neighbours is None:
            self._neighbours = tuple(self._core.neighbours[self._node].tolist())
        return self._neighbours

    @property
    def now(self) -> float:
        return float(self._core.now / NS)

    @property
    def now_ns(self) -> int:
        return int(self._core.now)

    @property
    def speed(self) -> float:
        return float(self._core.queues.speed[self.machine])

    @property
    def random(self) -> RandomStream:
        stream: RandomStream = self._core.stream(self._node)
        return stream

    @property
    def waiting(self) -> int:
        return int(self._core.queues.waiting(self.machine))

    @property
    def tasks(self) -> int:
        return int(self._core.queues.tasks(self.machine))

    @property
    def work(self) -> float:
        return float(self._core.queues.work(self.machine))

    @property
    def board(self) -> PythonBoard:
        return PythonBoard(self._core, self._node)

    def publish(
        self,
        value: float | None = None,
        falling: bool | tuple[str, ...] = False,
        application: int = -1,
        **numbers: float,
    ) -> None:
        self._core.publish(self._node, application, value, numbers, falling)

    @property
    def minimum_stretch(self) -> float:
        return float(self._core.queues.minimum_stretch(self.machine))

    def sample(self, grid: Any, release: int | None = None) -> NDArray[np.uint32]:
        at = self._core.now if release is None else release
        room: NDArray[np.uint32] = self._core.queues.sample(self.machine, grid, at)
        return room

    def completed(self) -> list[tuple[int, int]]:
        done: list[tuple[int, int]] = self._core.queues.completed(self.machine)
        for application, _ in done:
            self._core.know(self._node, application)
        return done

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        waiting: tuple[tuple[int, int], ...] = self._core.queues.queued(self.machine)
        return waiting

    def held(self, application: int) -> int:
        return int(self._core.holds(self._node, self._number(int, application, "application")))

    def application(self, index: int) -> Any:
        return self._core.application(self._heard(index))

    def enqueue(self, application: int, tasks: int) -> None:
        index, tasks = self._heard(application), self._number(int, tasks, "tasks")
        self._core.enqueue(self._node, index, tasks)

    def take(self, application: int, tasks: int) -> int:
        return int(self._core.take(self._node, self._heard(application), self._number(int, tasks, "tasks")))

    def send(self, to: int, kind: str, **fields: Any) -> None:
        known = self._core.by_name.get(kind)
        if known is not None and (known.is_answer or known.answers):
            if known.answers and "request" in fields:
                raise self._error(f"sends {kind!r} with a number of a request; view.request numbers it")
            fields.setdefault("request", 0)
        self._core.send(self._node, self._number(int, to, "the node it sends to"), kind, fields)

    def request(self, to: int, kind: str, timeout: float, **fields: float) -> int:
        after, to = self._seconds(timeout, f"the timeout of {kind!r}"), self._number(int, to, "the receiver")
        return int(self._core.request(self._node, to, kind, after, fields))

    def reply(self, message: Any, kind: str, **fields: Any) -> None:
        known = self._core.by_name.get(message.kind)
        if known is None or kind not in known.answers:
            raise self._error(f"replies to {message.kind!r} with {kind!r}, which is not its answer")
        self.send(message.sender, kind, request=message.request, **fields)

    def later(self, seconds: float, kind: str, **fields: Any) -> None:
        self._core.later(self._node, self._seconds(seconds, repr(kind)), kind, fields)

    def timer(self, seconds: float, name: str, value: float | None = None, **fields: float) -> None:
        self._set(self._core.now + self._seconds(seconds, f"the timer {name!r}"), name, value, fields)

    def at(self, instant: int, name: str, value: float | None = None, **fields: float) -> None:
        if instant < self._core.now:
            raise self._error(f"sets the timer {name!r} for the past, {instant} ns")
        self._set(instant, name, value, fields)

    def _set(self, due: int, name: str, value: float | None, fields: dict[str, float]) -> None:
        self._core.set_timer(self._node, due, name, fields if value is None else {**fields, "value": value})

    def act(self, seconds: float = 0.0) -> None:
        self._core.turn(self._node, self._core.now + self._seconds(seconds, "its act"))

    def cancel(self, name: str, **fields: float) -> None:
        self._core.cancel(self._node, name, fields)

    def note(self, table: str, **values: float) -> None:
        self._core.note(self._node, table, values)

    def decide(self, action: str, application: int, **said: Any) -> None:
        about: dict[str, float] = {"machine": -1, "task": -1, "tasks": 0, "among": -1}
        about |= dict.fromkeys(("saw", "limit", "age"), math.nan)
        self._core.decided(self._node, action, self._heard(application), {**about, **said})

    def _error(self, what: str) -> SchedulerError:
        return SchedulerError(f"t = {self.now} s: node {self._node} {what}")

    def _number(self, kind: type, value: Any, name: str) -> Any:
        return value if type(value) is kind else self._core.checked(kind, value, self._node, name)

    def _seconds(self, seconds: float, what: str) -> int:
        if not 0 <= (seconds := self._number(float, seconds, what)) < math.inf:
            raise self._error(f"gives {seconds!r} s for {what}; it must be 0 s or more")
        return nanoseconds(min(seconds, 4e9))

    def _heard(self, index: int) -> int:
        index = self._number(int, index, "application")
        if index not in self._core.held[self._node]:
            raise self._error(f"has not heard of application {index}")
        return index
