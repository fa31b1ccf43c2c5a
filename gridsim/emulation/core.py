"""The readable message core (`gridsim.scheduling.nodes.python_core`) in one process of an emulation.

Its nodes run the same code as in a simulation.  There are four differences: the clock is that of a
`gridsim.emulation.engine.RealTimeEngine`; messages to other machines go over a socket
(`gridsim.emulation.mail`); tasks have numbers (`gridsim.emulation.tasks`); and data that nodes of a
simulation share without messages, such as a board, are sent to the other processes as facts, in the same
order for all.

With one process, this is the readable core with a wall clock.  With a virtual clock
(`gridsim.emulation.virtual`), the result has the digest of ``simulate(nodes="python")``.
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

#: Offset of the seed per incarnation, so that nodes of a restarted process draw new random numbers.
_GOLDEN = 0x9E3779B97F4A7C15
#: In its k-th incarnation a process numbers the requests of a node from k * 2**_REQUEST_BITS on.
_REQUEST_BITS = 32


def _within(value: float, limit: Any) -> bool:
    """Return whether a value of a fact is within its limit, as in `EmulatedCore.fact_handlers`."""
    if limit is float:
        return value == value and type(value) is float
    return type(value) is int and (limit is int or 0 <= value < limit) and -(2**63) <= value < 2**63


class Process(Protocol):
    """The process in which a core runs.

    Attributes
    ----------
    number, incarnation
        Number of the process (-1 for the coordinator), and number of its earlier starts.
    modelled
        Whether messages take the time of the scenario's network.
    is_alone
        Whether the process has all nodes and a virtual clock, so that it ends the run.
    """

    number: int
    incarnation: int
    engine: RealTimeEngine
    modelled: bool
    is_alone: bool
    network: Any

    def place(self, machine_of: Sequence[int]) -> list[int]:
        """Return the process of each node, from the machine of each node."""

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator."""

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node has written to a table."""

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Send a message to a process."""

    def open(self, application: int, tasks: Parts, to: int) -> int:
        """Return the number of a message that moves tasks to a process; 0 if that process is down."""

    def share(self, name: str, *values: float) -> None:
        """Share a fact with the other processes."""

    def after_handler(self, node: int) -> None:
        """Report the changes that a handler of a node has made."""

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Make the coordinator give a node some of the tasks that no node holds."""

    def release(self, application: int) -> None:
        """Release an application, in a process that is alone."""

    def stop(self) -> None:
        """End the run at the next opportunity."""


class EmulatedCore(PythonCore):
    """Core that runs the nodes of one process; it never calls its objects of the other nodes.

    The coordinator also has a core, without own nodes.

    Parameters
    ----------
    process
        The process.
    arguments
        The arguments of `PythonCore`.

    Attributes
    ----------
    process_of
        The process of each node.
    is_local
        Whether each node belongs to this process.
    machines
        The machine of each node; a node may move to another one.
    hands
        Application -> the tasks of this process that are in no queue: those that its nodes must place, and
        those in messages between its nodes.  Nodes only count tasks.
    learn
        Fact about the board that another process may share -> the function that handles its values, and a
        limit for each value: n for an int in 0..n - 1, or any ``int`` or ``float``.
    """

    mail: EmulatedMail
    queues: Any  # `gridsim.emulation.queues.MachineQueues`, with the methods of the compiled ones and more

    def __init__(self, links: Any, queues: Any, *, process: Process, **arguments: Any) -> None:
        self.process, self.engine, self.machines = process, process.engine, links.machine_of
        self.unqueued_tasks: dict[int, TaskSet] = queues.unqueued_tasks
        self.process_of = process.place(self.machines)
        self.is_local = [number == process.number for number in self.process_of]
        #: Heap of external calls: time (ns), number of the call, function, and its arguments.
        self.incoming: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.incoming_count = 0
        super().__init__(links, queues, **arguments)
        self.released = len(self.release)  # the coordinator releases applications
        if not process.is_alone or not any(self.is_local):
            self.release_queue = None  # the coordinator of one process has no nodes either
        self.add_note = process.note
        if not process.is_alone:
            self.until = ""
        self.seed = (self.seed + process.incarnation * _GOLDEN) % 2**64
        self.request_counts = [process.incarnation << _REQUEST_BITS] * len(self.request_counts)
        self.fact_handlers: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        if self.board is not None:
            rows = len(self.submitter) if self.board.is_per_application else self.nodes
            limits = rows, len(self.board.numbers), float, 2
            self.fact_handlers["board"] = super().publish_number, limits
            self.fact_handlers["addition"] = super().add_number, limits

    def make_mail(
        self, links: Links, kinds: list[MessageKind], observe: Callable[..., None] | None
    ) -> EmulatedMail:
        """Create the mail, which sends messages over sockets."""
        return EmulatedMail(self, kinds)

    # -- input from other processes -------------------------------------------------------------------------

    def push(self, due: int, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule `call` with `arguments` at `due` ns, or now if that is past, in the order of releases."""
        self.incoming_count += 1
        heappush(self.incoming, (max(due, self.engine.now), self.incoming_count, call, arguments))

    def next_release(self) -> int:
        """Return the instant (ns) of the next external call or release; `NEVER` if there is none."""
        instant = self.incoming[0][0] if self.incoming else NEVER
        return instant if self.release_queue is None else min(instant, self.release_queue.next_release())

    def take_releases(self) -> None:
        """Make the external calls and the releases that are due."""
        if self.release_queue is not None:
            for application in self.release_queue.take(self.now):
                self.queues.release_applications([application])
                self.push(self.now, self.process.release, application)
        while self.next_release() <= self.now:
            *_, call, arguments = heappop(self.incoming)
            self.events += 1
            call(*arguments)

    def get(self, node: int, application: int, tasks: Parts, handler: str) -> None:
        """Give tasks to a node of this process."""
        self.unqueued_tasks.setdefault(application, TaskSet()).add(tasks)
        if self.up[node]:
            super().hand_over(node, application, count_of(tasks), handler)
        else:
            self.report_lost(application, count_of(tasks), node)

    def receive_fact(self, name: str, values: Sequence[float]) -> None:
        """Schedule the update of the board by another process; raises ValidationError if it is malformed."""
        call, limits = self.fact_handlers.get(name, (None, ()))
        if call is None or len(limits) != len(values):
            raise msgspec.ValidationError(
                f"fact {name[:40]!r} must be known and have {len(limits)} values, got {len(values)}"
            )
        if not all(map(_within, values, limits)):
            raise msgspec.ValidationError(f"the values of fact {name!r} must be in range, got {values}")
        self.push(self.engine.clock(), call, *values)

    def receive_facts(self) -> None:
        """Apply all facts that have arrived, in a process without nodes."""
        while self.incoming:
            *_, call, arguments = heappop(self.incoming)
            call(*arguments)

    # -- output to other processes --------------------------------------------------------------------------

    def hand_over(self, node: int, index: int, tasks: int, handler: str) -> None:
        """Make the coordinator give tasks to a node."""
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
        """Call a handler of a node, and report the changes that it has made."""
        super().call(node, handler, *arguments)
        self.process.after_handler(node)

    def call_of_killed(self, nodes: Iterable[int], handler: str, instant: int) -> None:
        """Call a handler, if defined, of nodes whose process was killed at `instant` ns."""
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
        """Fire a timer on the `nodes` of this process."""
        super().tick(self._local_nodes(nodes), name, now)

    def act(self, nodes: ArrayLike, now: int) -> None:
        """Call `on_act` of the `nodes` of this process."""
        super().act(self._local_nodes(nodes), now)

    def begin(self, nodes: Iterable[int]) -> None:
        """Call `on_start` of the `nodes` of this process."""
        super().begin(self._local_nodes(nodes))

    def _local_nodes(self, nodes: Any) -> list[int]:
        return [node for node in np.asarray(nodes).tolist() if self.is_local[node]]
