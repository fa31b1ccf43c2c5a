"""The readable message core (`gridsim.scheduling.nodes.python_core`) in one process of an emulation.

Its nodes see, do and handle what they do in a simulation, by the same code.  Four things differ: the clock is
that of a `gridsim.emulation.engine.RealTimeEngine`; messages to other machines go over a socket
(`gridsim.emulation.mail`); tasks have numbers (`gridsim.emulation.tasks`); and what nodes of a simulation
share without a message, such as a board, is sent to the other processes as facts, in one order for all.

With one process this is the readable core with a wall clock.  With a virtual clock
(`gridsim.emulation.virtual`) the result has the digest of ``simulate(nodes="python")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.state import NEVER
from gridcore.network.links import Links
from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.engine import RealTimeEngine
from gridsim.emulation.mail import EmulatedMail
from gridsim.emulation.tasks import Parts, TaskSet, count_of
from gridsim.scheduling.nodes.python_core import PythonCore

#: The nodes of a restarted process draw other random numbers than before the restart.
_GOLDEN = 0x9E3779B97F4A7C15
#: The requests of a node are numbered from a multiple of 2**_LIFE on, a new one in each life of its process.
_LIFE = 32


def _within(value: float, limit: Any) -> bool:
    """Return whether a value of a fact is within its limit; see `EmulatedCore.learn`."""
    if limit is float:
        return value == value and type(value) is float
    return type(value) is int and (limit is int or 0 <= value < limit) and -(2**63) <= value < 2**63


class Process(Protocol):
    """The process in which a core runs.

    Attributes
    ----------
    number, life
        Of the process, -1 for the coordinator, and how often it was started before.
    modelled
        Whether messages take the time that the scenario's network says.
    is_alone
        Whether it has all nodes and a virtual clock, so that it ends the run.
    """

    number: int
    life: int
    engine: RealTimeEngine
    modelled: bool
    is_alone: bool
    network: Any

    def place(self, machine_of: Sequence[int]) -> list[int]:
        """Return the process of each node, given its machine."""

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator."""

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node writes."""

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Send a message to a process."""

    def open(self, application: int, tasks: Parts, to: int) -> int:
        """Return the number of a message that moves tasks to a process; 0 if that process is down."""

    def share(self, name: str, *values: float) -> None:
        """Share a fact with the other processes."""

    def after_handler(self, node: int) -> None:
        """Note that a handler of a node has returned."""

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Have the coordinator give a node some of the tasks that no node has."""

    def stop(self) -> None:
        """Note that the run can end."""


class EmulatedCore(PythonCore):
    """Runs the nodes of one process; the other nodes are objects that are never called.

    The coordinator has a core, too, without nodes of its own.

    Parameters
    ----------
    process
        The process.
    given
        The arguments of `PythonCore`.

    Attributes
    ----------
    process_of
        The process of each node.
    is_local
        Whether each node is one of this process.
    machines
        The machine of each node, which may leave for another one.
    hands
        Application -> the tasks of this process that are in no queue: those that its nodes must place, and
        those in messages between them.  Nodes only count them.
    learn
        For each fact about the board that another process may share: what is called with its values, and the
        limits of these: so many numbers from 0 on, or any int or float.
    """

    mail: EmulatedMail
    queues: Any  # `gridsim.emulation.queues.MachineQueues`, with the methods of the compiled ones and more

    def __init__(self, links: Any, queues: Any, *, process: Process, **given: Any) -> None:
        self.process, self.engine, self.machines = process, process.engine, links.machine_of
        self.hands: dict[int, TaskSet] = queues.hands
        self.process_of = process.place(self.machines)
        self.is_local = [number == process.number for number in self.process_of]
        #: Calls from outside: when (ns), their number, the function, and its arguments; a heap.
        self.incoming: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.incoming_count = 0
        super().__init__(links, queues, **given)
        self.released, self.add_note = len(self.release), process.note  # the coordinator releases them
        if not process.is_alone:
            self.until = ""
        self.seed = (self.seed + process.life * _GOLDEN) % 2**64
        self.request_counts = [process.life << _LIFE] * len(self.request_counts)
        self.learn: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        if self.board is not None:
            rows = len(self.submitter) if self.board.is_per_application else self.nodes
            limits = rows, len(self.board.numbers), float, 2
            self.learn["board"] = super().publish_number, limits
            self.learn["addition"] = super().add_number, limits

    def make_mail(
        self, links: Links, kinds: list[MessageKind], observe: Callable[..., None] | None
    ) -> EmulatedMail:
        """Make the carrier of messages, which uses sockets."""
        return EmulatedMail(self, kinds)

    # -- what comes from outside ----------------------------------------------------------------------------

    def push(self, due: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` with `arguments` at `due` ns, or now if that is past, as a release."""
        self.incoming_count += 1
        heappush(self.incoming, (max(due, self.engine.now), self.incoming_count, call, arguments))

    def next_release(self) -> int:
        """Return the instant (ns) of the next call from outside; `NEVER` if there is none."""
        return self.incoming[0][0] if self.incoming else NEVER

    def take_releases(self) -> None:
        """Take the calls that have come from outside."""
        while self.next_release() <= self.now:
            *_, call, arguments = heappop(self.incoming)
            self.events += 1
            call(*arguments)

    def get(self, node: int, application: int, tasks: Parts, handler: str) -> None:
        """Give tasks to a node of this process."""
        self.hands.setdefault(application, TaskSet()).add(tasks)
        if self.up[node]:
            super().hand_over(node, application, count_of(tasks), handler)
        else:
            self.report_lost(application, count_of(tasks), node)

    def hear(self, name: str, values: Sequence[float]) -> None:
        """Take a fact about the board from another process; raises ValidationError if it is malformed."""
        call, limits = self.learn.get(name, (None, ()))
        if call is None or len(limits) != len(values):
            raise msgspec.ValidationError(
                f"a fact {name[:40]!r} with {len(values)} values, which is not expected"
            )
        if not all(map(_within, values, limits)):
            raise msgspec.ValidationError(f"a fact {name!r} whose values are out of range")
        self.push(self.engine.clock(), call, *values)

    def hear_all(self) -> None:
        """Take all facts that have arrived, in a process without nodes."""
        while self.incoming:
            *_, call, arguments = heappop(self.incoming)
            call(*arguments)

    # -- what goes to other processes -----------------------------------------------------------------------

    def hand_over(self, node: int, index: int, tasks: int, handler: str) -> None:
        """Have the coordinator give tasks to a node."""
        self.process.give(node, index, tasks, handler)

    def publish_number(self, row: int, column: int, value: float, falling: bool) -> None:
        """Publish a number, in all processes."""
        super().publish_number(row, column, value, falling)
        self.process.share("board", row, column, value, int(falling))

    def add_number(self, row: int, column: int, delta: float, is_last: bool) -> None:
        """Add to a published number, in all processes."""
        super().add_number(row, column, delta, is_last)
        self.process.share("addition", row, column, delta, int(is_last))

    # -- handlers -------------------------------------------------------------------------------------------

    def call(self, node: int, handler: str, *arguments: Any) -> None:
        """Call a handler."""
        super().call(node, handler, *arguments)
        self.process.after_handler(node)

    def call_of_killed(self, nodes: Iterable[int], handler: str, instant: int) -> None:
        """Call a handler, if they have it, of nodes whose process was killed at `instant` ns."""
        now, self.now = self.now, instant
        for node in nodes:
            if hasattr(self.programs[node], handler):
                super().call(node, handler)
        self.now = now

    # -- calls of the engine --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run."""
        self.process.stop()

    @property
    def awaits_end(self) -> bool:
        """Whether a machine may begin a task at the end of this instant."""
        return bool(self.queues.idle)

    def end_instant(self) -> None:
        """Start the next tasks of idle machines."""
        self.queues.begin_tasks()

    def tick(self, nodes: ArrayLike, name: str, now: int) -> None:
        """Fire a timer on those of `nodes` that are in this process."""
        super().tick(self._local_nodes(nodes), name, now)

    def act(self, nodes: ArrayLike, now: int) -> None:
        """Call `on_act` of those of `nodes` that are in this process."""
        super().act(self._local_nodes(nodes), now)

    def begin(self, nodes: Iterable[int]) -> None:
        """Call `on_start` of those of `nodes` that are in this process."""
        super().begin(self._local_nodes(nodes))

    def _local_nodes(self, nodes: Any) -> list[int]:
        return [node for node in np.asarray(nodes).tolist() if self.is_local[node]]
