"""A process of an emulation, which runs its nodes in real time and sends their messages over sockets.

A process that may be killed sends its reports to the coordinator before its messages.  Thus no process
receives information that the coordinator lacks.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.jobs import RemoteJobs
from gridsim.emulation.part import Part, Setup
from gridsim.emulation.tasks import Parts
from gridsim.emulation.wire import (
    LOOPBACK,
    ClosedConnections,
    Control,
    Conversation,
    Greeting,
    Introduction,
    decoder_of,
    frame,
    message_frame,
    to_plain,
)
from gridsim.errors import GridSimError
from gridsim.model.applications import Applications
from gridsim.simulation.releases import Releases
from gridsim.support.clock import NS
from gridsim.support.state import copy_state

#: Time between two reports of counts, s.
_COUNTS_EVERY = 0.25
#: Time for which reports are collected unless the process may be killed, s.
_REPORTS_EVERY = 0.005
_DIE_WITH_PARENT = 1


def run_worker(setup: Setup, number: int, incarnation: int, port: int, coordinator: Part) -> None:
    """Run a process of an emulation until the coordinator ends it or disconnects.

    It starts as a copy of the coordinator's process and closes the inherited files.  A restarted process also
    takes over the coordinator's state.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 16 else 1 << 16)
    # this selector has microsecond resolution; others round up to milliseconds
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    asyncio.set_event_loop(loop)
    worker = Worker(setup, number, incarnation)
    if incarnation:
        worker.take_over(coordinator)
    loop.run_until_complete(worker.main(port))


class KnownReleases(Releases):
    """The releases of a process, which the coordinator determines if some follow the ends of applications.

    Attributes
    ----------
    release_ns, seconds
        int64[applications], ns, and float64[applications], s.
    """

    def __init__(self, applications: Applications) -> None:
        super().__init__(applications)
        self.release_ns, self.seconds = applications.release_ns.copy(), applications.release.copy()
        self.follows, self.queue = self.queue is not None, None

    def actual(self, applications: Applications) -> Applications:
        """Return the applications with releases that change when the coordinator reports them."""
        if not self.follows:
            return applications
        return replace(applications, release=self.seconds, release_ns=self.release_ns)


class Worker(Part):
    """The run in one process that has nodes."""

    def __init__(self, setup: Setup, number: int, incarnation: int) -> None:
        self.pending_reports: list[Any] = []
        self.over: asyncio.Future[None] | None = None
        self.jobs: RemoteJobs | None = None
        self.released: KnownReleases
        self.reported_storage: dict[int, Any] = {}  # node -> last reported stable storage
        super().__init__(setup, number, incarnation)
        self.policy.report_lost = self.core.report_lost = self._report_lost
        if not self.is_alone:
            if self.policy.keeps_jobs:
                self.jobs = self.policy.keeper = RemoteJobs(self, self.policy)
            if self.policy.environment is not None:
                self.policy.environment.process = self
        #: Whether reports must be sent before messages.
        self.reports_first = setup.kill or self.jobs is not None
        self.has_facts = False  # whether the pending reports contain facts
        self.outbox: dict[int, bytearray] = {}
        self.peers: dict[int, Conversation] = {}
        self.forgotten: set[tuple[int, int]] = set()
        self.incoming: dict[tuple[int, int], Conversation] = {}
        self.pending_greetings: dict[Conversation, None] = {}
        self.closed_connections = ClosedConnections()
        self.decoder = decoder_of(self.core.mail.wire.values())
        self.moves = 0
        self.is_pump_scheduled = False
        self.reporting: asyncio.TimerHandle | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.commands = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    def take_over(self, coordinator: Part) -> None:
        """Restore stable storage, the board and the environment from the coordinator's state."""
        policy = coordinator.policy
        if coordinator.released.queue is not None:
            for application, at in enumerate(coordinator.released.queue.release.tolist()):
                self.do_released(application, at)
        if policy.environment is not None:
            copy_state(policy.environment, self.policy.environment)
        board, coordinator_board = self.core.board, coordinator.core.board
        if board is not None and coordinator_board is not None:
            board.setstate(coordinator_board.getstate())
        for node, program in enumerate(self.core.programs):
            for name in program.stable_storage:
                setattr(program, name, getattr(coordinator.core.programs[node], name))

    def make_releases(self, applications: Applications) -> Releases:
        """Return the releases that the coordinator reports."""
        return KnownReleases(applications)

    # -- interface of the core (`gridsim.emulation.core.Process`) -------------------------------------------

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator."""
        self.pending_reports.append((name, *values))

    def ask(self, name: str, *values: Any) -> Any:
        """Report to the coordinator, and return its answer to a question."""
        self.tell("ask", name, *values)
        return self.control.ask(self._reports())

    def after_handler(self, node: int) -> None:
        """Report a handler's changes to records of jobs and to the stable storage of its node."""
        if self.jobs is not None:
            self.jobs.forget()
        program = self.core.programs[node]
        if self.setup.kill and program.stable_storage:
            storage = {name: to_plain(getattr(program, name)) for name in program.stable_storage}
            if storage != self.reported_storage.get(node):
                self.reported_storage[node] = storage
                self.tell("stored", node, storage)

    def _report_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Report lost tasks to the coordinator, which submits them again unless it only records."""
        lost = self.core.unqueued_tasks[application].take(tasks)
        self.tell("lost", application, lost, node, self.core.now)
        if self.is_alone:
            self.policy.task_lost(application, tasks, node)

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node has written, with the number types of the table."""
        row = self.policy.checked_row(node, table, values)
        self.tell("note", self.core.now, node, table, row)

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Send a message to a process; it is dropped if the process is not connected."""
        if to in self.outbox:
            self.outbox[to] += message_frame(message)
        else:
            self.network.counters.drop(kind.number)

    def open(self, application: int, tasks: Parts, to: int) -> int:
        """Return a number for a message that moves tasks, and report it."""
        if to not in self.outbox:
            return 0
        self.moves += 1
        move = ((self.incarnation * 1024 + self.number) << 32) + self.moves
        self.tell("move_sent", move, application, tasks, to)
        return move

    def share(self, name: str, *values: float) -> None:
        """Share a fact with the other processes by way of the coordinator."""
        self.tell("share", name, values)
        self.has_facts = True

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Make the coordinator give tasks to a node."""
        self.tell("give", node, application, tasks, handler)

    # -- the loop -------------------------------------------------------------------------------------------

    async def main(self, port: int) -> None:
        """Run the process until the coordinator ends it."""
        loop = asyncio.get_running_loop()
        self.over = loop.create_future()
        server = await loop.create_server(self._accept, LOOPBACK, 0)
        own = server.sockets[0].getsockname()[1]
        self.control = Control(port, self._command, self._introduction(own))
        await self.over
        self.closed_connections.report()
        server.close()

    def _introduction(self, port: int = 0) -> Introduction:
        return Introduction(self.setup.secret, self.number, self.incarnation, port)

    def _accept(self) -> Conversation:
        return Conversation(
            self._message,
            self._closed,
            decoder=self.decoder,
            secret=self.setup.secret,
            greet=self._greet,
            pending_greetings=self.pending_greetings,
            closed_connections=self.closed_connections,
        )

    def _greet(self, connection: Conversation, greeting: Greeting) -> None:
        process_incarnation = greeting.process, greeting.incarnation
        if not 0 <= greeting.process < self.setup.processes or process_incarnation in self.incoming:
            raise msgspec.ValidationError(f"no connection is expected from process {greeting.process}")
        if process_incarnation in self.forgotten:
            connection.transport.abort()  # all its messages are known to have arrived
            return
        self.incoming[process_incarnation] = connection

    def _message(self, connection: Conversation, message: Any) -> None:
        self.core.mail.receive(message)
        self.wake()

    def _closed(self, connection: Conversation) -> None:
        """Report that all messages of a killed process have arrived."""
        if (
            self.incoming.pop((connection.process, connection.incarnation), None)
            and (connection.process, connection.incarnation) in self.forgotten
        ):
            self.tell("drained", connection.process, connection.incarnation)
            self.wake()

    def wake(self) -> None:
        """Schedule the handling of due events."""
        if not self.is_pump_scheduled:
            self.is_pump_scheduled = True
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            asyncio.get_running_loop().call_soon(self.pump)

    def pump(self) -> None:
        """Handle due events, then send reports and messages."""
        self.is_pump_scheduled, self.timer = False, None
        try:
            if self.engine.started:
                self.engine.run_due()
        except Exception as error:
            self._fail(error)
        try:
            self.flush()
        except Exception as error:
            self._fail(error)
            self.report()
        delay = self.engine.delay()
        if delay == 0.0:
            self.wake()
        elif delay is not None and not self.is_pump_scheduled:
            self.timer = asyncio.get_running_loop().call_later(delay, self.pump)

    def _fail(self, error: Exception) -> None:
        """Report an error, which ends the run."""
        try:
            self.policy.explain(error)
            text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        except Exception:
            text = "the error has no text"
        text = text.encode(errors="backslashreplace").decode()  # an unpaired surrogate cannot be encoded
        self.tell("error", type(error).__name__, text, isinstance(error, GridSimError))
        self.engine.started = False

    def flush(self) -> None:
        """Send reports, then messages."""
        if self.reports_first or self.has_facts or not self.engine.started:
            self.report()
        elif self.pending_reports and self.reporting is None:
            self.reporting = asyncio.get_running_loop().call_later(_REPORTS_EVERY, self.report)
        for to, waiting in self.outbox.items():
            if waiting and to in self.peers:
                if not self.peers[
                    to
                ].transport.is_closing():  # a closing connection is that of a killed process
                    self.peers[to].transport.write(bytes(waiting))
                waiting.clear()

    def report(self) -> None:
        """Send the pending reports."""
        if self.pending_reports:
            self.control.write(self._reports())
        self.reporting, self.has_facts = None, False

    def _reports(self) -> bytes:
        """Return the pending reports as a frame."""
        log, self.pending_reports = self.pending_reports, []
        try:
            return frame(log)
        except Exception as error:  # the reports cannot be encoded
            self._fail(error)
            log, self.pending_reports = self.pending_reports, []
            return frame(log)

    # -- commands of the coordinator ------------------------------------------------------------------------

    def _command(self, commands: list[Any]) -> None:
        try:
            for name, *values in commands:
                self.commands[name](*values)
        except Exception as error:
            self._fail(error)
        self.wake()

    def do_peers(self, peers: list[Any]) -> None:
        """Connect to processes."""
        for to, port, incarnation in peers:
            if to in self.outbox:  # processes that start simultaneously are announced twice
                continue
            self.outbox[to] = bytearray()
            asyncio.get_running_loop().create_task(self._reach(to, port, incarnation))

    async def _reach(self, to: int, port: int, incarnation: int) -> None:
        def conversation() -> Conversation:
            return Conversation(
                lambda *_: None,
                self._left,
                decoder=self.decoder,
                secret=self.setup.secret,
                introduction=self._introduction(),
                closed_connections=self.closed_connections,
            )

        try:
            _, connection = await asyncio.get_running_loop().create_connection(conversation, LOOPBACK, port)
        except OSError:  # the process was killed in the meantime
            return
        if not await connection.handshake:  # the coordinator knows whether it was killed
            self.tell("left", to, incarnation)
            self.wake()
            return
        connection.process, connection.incarnation = to, incarnation
        if to not in self.outbox:  # the coordinator has announced its end in the meantime
            connection.transport.abort()
            return
        self.peers[to] = connection
        self.tell("left" if connection.transport.is_closing() else "reached", to, incarnation)
        self.wake()

    def _left(self, connection: Conversation) -> None:
        """Report that a process has closed its connection; the coordinator knows whether it was killed."""
        if self.peers.get(connection.process) is connection:
            self.tell("left", connection.process, connection.incarnation)
            self.wake()

    def do_forget(self, process: int, incarnation: int) -> None:
        """Disconnect from a killed process; report when all its messages have arrived."""
        self.outbox.pop(process, None)
        if (connection := self.peers.pop(process, None)) is not None:
            connection.transport.abort()
        self.forgotten.add((process, incarnation))
        if (process, incarnation) not in self.incoming:
            self.tell("drained", process, incarnation)

    def do_start(self, zero: int, up: list[bool], incarnations: list[Any]) -> None:
        """Start the clock at `zero`, with the machines that are `up` and the incarnations of machines."""
        policy: Any = self.policy
        self.engine.start(zero)
        self.outages.up[:] = up
        self.network.counters.set_incarnations(incarnations)
        policy.up[:] = policy.layout.of_nodes(policy.run.up)
        if self.incarnation:
            self.engine.skip()
            if policy.environment is not None:
                policy.environment.resume()
        self._report_counts()
        if self.setup.spin:
            threading.Thread(target=self._spin, daemon=True).start()

    def do_give(self, node: int, application: int, tasks: Parts, handler: str, due: int, move: int) -> None:
        """Give tasks to a node."""
        if move:
            self.tell("move_arrived", move)
        self.core.push(due, self.core.get, node, application, tasks, handler)

    def do_released(self, application: int, at: int) -> None:
        """Take over the release (ns) of an application that follows others."""
        self.released.release_ns[application], self.released.seconds[application] = at, at / NS
        if self.core.queues.release:  # rigid jobs are in no queues
            self.core.queues.release[application] = at / NS

    def do_fact(self, name: str, values: list[float]) -> None:
        """Apply a fact that another process shares."""
        environment: Any = self.policy.environment
        if environment is not None and name in environment.shared:
            getattr(environment, name)(*values)
        else:
            self.core.receive_fact(name, values)

    def do_call(self, count: int, node: int, handler: str, job: int, arguments: list[int]) -> None:
        """Schedule the call of a node's handler about a rigid job."""
        self.core.push(self.engine.clock(), self._call, count, node, handler, job, arguments)

    def _call(self, count: int, node: int, handler: str, job: int, arguments: list[int]) -> None:
        is_up = bool(self.core.up[node])
        if is_up:
            self.policy.call(handler, node, job, *arguments)
            self.after_handler(node)
        self.tell("called", count, is_up)

    def do_faults(self, failed: list[int], back: list[int], due: int) -> None:
        """Schedule failures and recoveries of machines."""
        self.engine.call_at(due, self._faults, failed, back)

    def _faults(self, failed: list[int], back: list[int]) -> None:
        self.outages.up[failed], self.outages.up[back] = False, True
        self.network.fail(np.array(failed, np.int64), down=True)
        self.network.restore(np.array(back, np.int64))
        self.policy.on_faults(np.array(failed, np.int64), np.array(back, np.int64))

    def do_quiet(self) -> None:
        """Stop counting messages."""
        self.core.mail.counting = False

    def do_end(self) -> None:
        """Send the final report, and stop handling events."""
        late, lags = [float(item) for item in self.engine.late], self.core.mail.lags
        self.end_nodes()
        self._send_counts()
        self.engine.started = False
        self.tell("final", late, lags, self.engine.events, time.process_time())
        self.flush()

    def end_nodes(self) -> None:
        """End the activities of the nodes at the current time."""
        self.engine.move_to(self.engine.clock())
        if self.policy.environment is not None:
            self.policy.environment.end()

    def do_bye(self) -> None:
        """End the process."""
        assert self.over is not None
        self.over.set_result(None)

    def _send_counts(self) -> None:
        """Report the counts so far."""
        environment = self.policy.environment
        counts = {} if environment is None else environment.counts()
        plain = {name: to_plain(value) for name, value in counts.items()}
        self.tell("counts", self.network.counters.packed(), plain)

    def _report_counts(self) -> None:
        if self.engine.started:
            self._send_counts()
            asyncio.get_running_loop().call_later(_COUNTS_EVERY, self._report_counts)
            self.wake()

    def _spin(self) -> None:
        """Keep the processor busy while a task runs in this process."""
        queues: Any = self.core.queues
        block = bytes(1 << 16)
        while True:
            if queues.running:
                hashlib.sha256(block)
            else:
                time.sleep(0.001)
