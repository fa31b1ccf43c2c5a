"""The view of a node in a readable message core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.random_stream import RandomStream
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.nodes.python_actions import PythonActions
from gridsim.scheduling.nodes.python_board import PythonBoard

__all__ = ["PythonView"]


class PythonView:
    """The interface of a node program: its machine, queue, clock, neighbours, messages and timers.

    `gridcore.nodes.view.View` has the same properties and methods, with descriptions.  This class converts
    the arguments of a node to the declared types, and passes them to the core.

    Attributes
    ----------
    slots
        The slots that this machine has reserved for rigid jobs; None if the environment has no ``slots``.
    jobs
        The information of this node about rigid jobs, and its actions on them; None for bags.
    environment
        The object of the model's environment for this node; None if there is none.
    """

    __slots__ = ("_core", "_neighbours", "_node", "environment", "jobs", "slots")

    def __init__(self, core: Any, node: int) -> None:
        self._core: PythonActions = core
        self._node = node
        self.slots, self.jobs, self.environment = (
            None if make is None else make(node) for make in (core.slots, core.jobs, core.environment)
        )
        self._neighbours: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        core, node = self._core, self._node
        parts = [f"machine {self.machine}", f"{self.waiting} waiting and {self.running} running tasks"]
        holdings = [f"{tasks} of application {i}" for i, tasks in core.held_by(node).items() if tasks]
        if holdings:
            parts.append(f"tasks to place: {', '.join(holdings)}")
        timers = [f"{name} at {instant / 1e9} s" for _, instant, name, _ in core.timers_of(node)]
        if timers:
            parts.append(f"timers: {', '.join(timers)}")
        return f"<View of node {node}, t = {self.now} s: {'; '.join(parts)}>"

    # -- information of a node --------------------------------------------------------------------------

    @property
    def node(self) -> int:
        """The number of this node."""
        return self._node

    @property
    def machine(self) -> int:
        """The number of the machine on which this node runs."""
        return self._core.machine_of(self._node)

    @property
    def machines(self) -> int:
        """The number of machines, including servers (`Role`), which have the last numbers."""
        return self._core.queues.machines

    def role(self, name: str) -> range:
        """Return the numbers of the nodes with the role `name`."""
        return self._core.nodes_with_role(self._node, name)

    @property
    def rank(self) -> int:
        """The index of this node among the nodes of its role, from 0 on."""
        return self._node - self._core.role_of(self._node).nodes.start

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The numbers of the neighbours of this node."""
        if self._neighbours is None:
            first, end = self._core.neighbour_offsets[self._node : self._node + 2]
            self._neighbours = tuple(self._core.neighbours[first:end].tolist())
        return self._neighbours

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self._core.now / 1e9

    @property
    def now_ns(self) -> int:
        """The simulated time, ns."""
        return self._core.now

    @property
    def speed(self) -> float:
        """The speed of this machine, Mflop/s."""
        return self._core.queues.speed_of(self.machine)

    @property
    def random(self) -> RandomStream:
        """The node's own random stream."""
        self._core.check_may_act(self._node)
        return self._core.stream(self._node)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait here; running tasks do not count."""
        return self._core.waiting_at(self.machine)

    @property
    def tasks(self) -> int:
        """The number of tasks that wait or run here."""
        return self._core.tasks_at(self.machine)

    @property
    def running(self) -> int:
        """The number of tasks that run here."""
        return self._core.running_at(self.machine)

    @property
    def cores(self) -> int:
        """The number of cores of this machine, each of which runs one task at a time."""
        return self._core.queues.cores_of(self.machine)

    @property
    def work(self) -> float:
        """The time (s) that this machine needs for its running and waiting tasks."""
        return self._core.work_of(self.machine)

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        """The waiting tasks: (application, tasks) pairs in the order of the queue."""
        applications, tasks, *_ = self._core.queue(self.machine)
        return tuple(zip(applications.tolist(), tasks.tolist(), strict=True))

    @property
    def minimum_stretch(self) -> float:
        """The smallest stretch (s/Mflop) at which the tasks here meet their deadlines; inf without tasks."""
        return float(self._core.queues.minimum_stretch([self.machine], self._core.now)[0])

    def sample(self, grid: SummaryGrid, release: int | None = None, memory: int = 0) -> NDArray[np.uint32]:
        """Return the numbers of further tasks that this machine could take: uint32[nS, nW, nA] on `grid`."""
        at = self._core.now if release is None else release
        return self._core.availability_of(self.machine, grid, at, memory)

    @property
    def board(self) -> PythonBoard:
        """The numbers that all nodes of a `BoardScheduler` have published, with the delay of the board."""
        return PythonBoard(self._core, self._node)

    def held(self, application: int) -> int:
        """Return the number of tasks of `application` that this node must still place."""
        return self._core.tasks_to_place(self._node, self._convert(int, application, "application"))

    def application(self, index: int) -> Any:
        """Return an application that this node knows."""
        return self._core.application(self._known_application(index))

    # -- actions of a node ------------------------------------------------------------------------------

    def publish(
        self,
        value: float | None = None,
        falling: bool | tuple[str, ...] = False,
        application: int = -1,
        **numbers: float,
    ) -> None:
        """Publish numbers on the board, which replace the previous numbers of this node."""
        self._core.check_may_act(self._node)
        self._core.publish(self._node, application, value, numbers, falling)

    def completed(self) -> list[tuple[int, int]]:
        """Return the (application, tasks) pairs that this machine has completed since the last call."""
        self._core.check_may_act(self._node)
        return self._core.completed(self._node)

    def enqueue(self, application: int, tasks: int) -> None:
        """Enqueue `tasks` tasks of `application` on this machine."""
        self._core.check_may_act(self._node)
        index = self._known_application(application)
        self._core.enqueue(self._node, index, self._convert(int, tasks, "tasks"))

    def take(self, application: int, tasks: int) -> int:
        """Withdraw up to `tasks` waiting tasks of `application` from the queue; return their number."""
        self._core.check_may_act(self._node)
        index = self._known_application(application)
        return self._core.take(self._node, index, self._convert(int, tasks, "tasks"))

    def send(self, to: int, kind: str, **fields: Any) -> None:
        """Send a message to node `to`."""
        self._core.check_may_act(self._node)
        self._core.send(self._node, self._convert(int, to, "the receiver"), kind, fields)

    def request(self, to: int, kind: str, timeout: float, **fields: float) -> int:
        """Send a message of a kind that has an ``answer``, wait for an answer, and return its number."""
        self._core.check_may_act(self._node)
        to = self._convert(int, to, "the receiver")
        timeout = self._convert(float, timeout, f"the timeout of {kind!r}")
        return self._core.request(self._node, to, kind, timeout, fields)

    def reply(self, message: Any, kind: str, **fields: Any) -> None:
        """Send an answer to the sender of `message`, a request that the node has received."""
        self._core.check_reply(self._node, message.kind, kind)
        self.send(message.sender, kind, request=message.request, **fields)

    def later(self, seconds: float, kind: str, **fields: Any) -> None:
        """Send a message of a local kind to this node; it arrives after `seconds`."""
        self._core.check_may_act(self._node)
        self._core.later(self._node, seconds, kind, fields)

    def timer(self, seconds: float, name: str, value: float | None = None, **fields: float) -> None:
        """Call the handler of the timer `name` after `seconds`, unless the machine fails before that."""
        self._core.check_may_act(self._node)
        seconds = self._convert(float, seconds, f"the timer {name!r}")
        self._core.set_timer(self._node, name, seconds, value, fields)

    def at(self, instant: int, name: str, value: float | None = None, **fields: float) -> None:
        """Set a timer for an exact instant in ns (`now_ns`)."""
        self._core.check_may_act(self._node)
        instant = self._convert(int, instant, f"the instant of the timer {name!r}")
        self._core.set_timer_at(self._node, name, instant, value, fields)

    def act(self, seconds: float = 0.0) -> None:
        """Call `NodeProgram.on_act` once after `seconds`."""
        self._core.check_may_act(self._node)
        self._core.act_after(self._node, float(seconds))

    def cancel(self, name: str, **fields: float) -> None:
        """Cancel the timers `name` of this node that have not fired, or only those with these `fields`."""
        self._core.check_may_act(self._node)
        self._core.cancel_timers(self._node, name, fields)

    def note(self, table: str, **values: float) -> None:
        """Add a row to a table of the result."""
        self._core.check_may_note(self._node)
        self._core.add_note(self._node, table, values)

    def decide(
        self,
        action: str,
        application: int,
        *,
        node: int = -1,
        task: int = -1,
        tasks: int = 0,
        among: int = -1,
        saw: float = math.nan,
        limit: float = math.nan,
        age: float = math.nan,
    ) -> None:
        """Record a decision for `Result.why`, if decisions are recorded."""
        self._core.check_may_note(self._node)
        columns: dict[str, float] = {"node": node, "task": task, "tasks": tasks, "among": among}
        columns |= {"saw": saw, "limit": limit, "age": age}
        self._core.record_decision(self._node, action, self._known_application(application), columns)

    # -- arguments --------------------------------------------------------------------------------------

    def _convert(self, kind: Any, value: Any, name: str) -> Any:
        """Convert `value`, an argument called `name`, to an ``int`` or ``float``."""
        return self._core.convert(kind, value, self._node, name)

    def _known_application(self, index: Any) -> int:
        """Return `index` as an integer; raise SchedulerError if this node does not know the application."""
        number: int = self._convert(int, index, "application")
        self._core.check_known(self._node, number)
        return number
