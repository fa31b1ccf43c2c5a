"""The coordinator, which starts the processes of an emulation, releases applications and records events.

It takes no part in the protocol of a scheduler.  It alone tracks which tasks are released, held, moved,
completed and lost, and makes the tables of the result from this record.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.jobs import JobKeeper
from gridsim.emulation.part import COORDINATOR, Part, Setup
from gridsim.emulation.queues import Ledger
from gridsim.emulation.tasks import Parts, TaskSet, count_of
from gridsim.emulation.wire import LOOPBACK, ClosedConnections, Conversation, Greeting, frame, from_plain
from gridsim.emulation.worker import run_worker
from gridsim.errors import GridSimError, ScenarioError, SchedulerError
from gridsim.support.clock import NEVER, NS

#: Time (s) by which processes learn of releases in advance, and time between their start and time 0.
_RELEASE_LEAD, _START_DELAY = 0.03, 0.1
#: Time limit for processes to start, and for them to end, s.
_TIME_LIMIT = 60.0
#: The process number in the numbers of moves that the coordinator makes.
_COORDINATOR_MOVES = 1023


def _has_ended(pid: int) -> bool:
    """Return whether a process that was started here has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # another caller has already waited for it
        return True


class Peer:
    """The coordinator's record of a process."""

    def __init__(self, pid: int, incarnation: int) -> None:
        self.pid, self.incarnation, self.port = pid, incarnation, 0
        self.connection: Conversation | None = None
        self.dead = False
        self.reached = set[int]()
        self.counts: tuple[bytes, dict[str, Any]] = b"", {}
        self.waiting: list[list[Any]] = []  # commands for a process that is being restarted
        self.final: list[Any] | None = None


class Coordinator(Part):
    """The process that runs an emulation, from which `emulate` makes a result.

    Parameters
    ----------
    time_limit
        Simulated time after which the run is stopped, s; None for no limit.
    """

    ledger: Ledger

    def __init__(self, setup: Setup, time_limit: float | None) -> None:
        self.peers: dict[int, Peer] = {}
        self.killed_pids: list[int] = []  # processes that must still be waited for
        self.incarnations = [0] * setup.processes
        super().__init__(setup, COORDINATOR)
        policy: Any = self.policy
        #: The keeper of rigid jobs; None if there are no such jobs, or if the only process keeps them.
        self.jobs = JobKeeper(self, policy) if policy.keeps_jobs and not self.is_alone else None
        self.adapter = policy  # keeps the rigid jobs
        self.ledger = policy.queues
        self.limit = time_limit
        self.failure: BaseException | None = None
        self.closing = self.quiet = False
        self.unchanging = False  # whether no further failure or recovery is due
        self.pending_greetings: dict[Conversation, None] = {}
        self.closed_connections = ClosedConnections()
        self.changed = asyncio.Event()
        self.server: asyncio.Server | None = None
        self.sent = 0
        #: Time (ns) by which processes learn of releases in advance, and the next release that is scheduled.
        self.lead, self.next_release = 0, NEVER
        #: Tasks that no node has, by application: tasks not released yet, and lost tasks.
        self.free_tasks = [TaskSet([(0, tasks)]) for tasks in self.core.tasks]
        #: (process, application) -> 1 for each task that nodes of the process hold.  Reports of different
        #: processes may arrive in any order, so a number may temporarily be -1 or 2.
        self.held_tasks: dict[tuple[int, int], NDArray[np.int8]] = {}
        self.open_moves: dict[
            int, tuple[int, Parts, int, int]
        ] = {}  # move -> application, tasks, source, target
        self.early_arrivals: set[int] = set()  # moves whose arrival was reported before their sending
        self.waiting: dict[int, set[int]] = {}  # killed process -> processes that may still receive its data
        self.killed_processes: dict[int, tuple[int, int]] = {}  # process -> failed machine, time
        self.closed_processes: set[int] = set()  # killed processes whose connection has ended
        self.outages: Any = self.outages
        self.down_times: list[tuple[int, int, int]] = []  # machine, begin and end (ns) of outages
        self.row_sources: dict[str, list[tuple[int, int]]] = {}  # table -> (time, node) of each row
        self.kills, self.seconds = 0, 0.0
        self.counted: list[tuple[bytes, dict[str, Any]]] = []
        self.records = {
            name.removeprefix("on_"): getattr(self, name) for name in dir(self) if name.startswith("on_")
        }
        self.final: list[list[Any]] = []
        #: Processes with servers, which never fail.
        self.servers = {
            p
            for p, u in zip(self.core.process_of, self.core.machines, strict=True)
            if u >= len(policy.run.speeds)
        }
        self.process_of_machine = self.place(range(len(policy.run.speeds)))
        self.machines_of = [
            [u for u, process in enumerate(self.process_of_machine) if process == p]
            for p in range(setup.processes)
        ]

    # -- processes ------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Run the emulation to its end; no process outlives it, even after an error."""
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._main())
        finally:
            for peer in self.peers.values():
                self._kill(peer)
            for pid in self.killed_pids:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if self.server is not None:
                self.server.close()
            for peer in self.peers.values():
                if peer.connection is not None:
                    peer.connection.transport.abort()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.sleep(0))  # run the callbacks of closed connections
            loop.close()
            self.closed_connections.report()

    def _kill(self, peer: Peer) -> None:
        if not peer.dead:
            with suppress(ProcessLookupError):
                os.kill(peer.pid, signal.SIGKILL)
            peer.dead = True
            self.killed_pids.append(peer.pid)

    def _reap(self) -> None:
        """Remove ended processes; fail the run if a process has ended before it connected."""
        self.killed_pids = [pid for pid in self.killed_pids if not _has_ended(pid)]
        for number, peer in self.peers.items():
            if peer.connection is None and not peer.dead and _has_ended(peer.pid):
                peer.dead = True
                self.failure = self.failure or GridSimError(
                    f"process {number} of the emulation ended before it had connected"
                )

    def _fork(self, number: int) -> Peer:
        if self.incarnations[number]:
            self.core.receive_facts()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # a warning about threads, which the copy lacks
            pid = os.fork()
        if not pid:
            try:
                run_worker(self.setup, number, self.incarnations[number], self.port, self)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        peer = self.peers[number] = Peer(pid, self.incarnations[number])
        if peer.incarnation:
            # the copy contains the present state; later events are sent once it is connected
            up, incarnations = self.policy.run.up.tolist(), self.network.counters.incarnations()
            peer.waiting.append(["start", self.engine.zero, up, incarnations])
            if self.quiet:
                peer.waiting.append(["quiet"])
        return peer

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self._accept, LOOPBACK, 0)
        self.port = self.server.sockets[0].getsockname()[1]
        for number in range(self.setup.processes):
            self._fork(number)
        await self._wait_for(
            lambda: all(peer.connection for peer in self.peers.values()), _TIME_LIMIT, "start"
        )
        ports = [[q, peer.port, peer.incarnation] for q, peer in self.peers.items()]
        self._all("peers", ports)
        all_processes = set(self.peers)
        await self._wait_for(
            lambda: all(peer.reached == all_processes for peer in self.peers.values()),
            _TIME_LIMIT,
            "connect to one another",
        )
        zero = time.monotonic_ns() + int(_START_DELAY * NS)
        self.engine.start(zero)
        self._all("start", zero, self.policy.run.up.tolist(), self.network.counters.incarnations())
        self._schedule()
        while not self._is_finished():
            self._reap()
            self.engine.run_due()
            if self.engine.ended:
                self._settle()
            self._release_due()
            delay = self.engine.delay()
            with suppress(asyncio.TimeoutError):
                self.changed.clear()
                await asyncio.wait_for(self.changed.wait(), 0.05 if delay is None else min(delay, 0.05))
            self.check_limit(self.engine.clock())
        self.engine.now = self.engine.clock()
        self.seconds = (time.monotonic_ns() - zero) / NS
        self.closing = True
        self._all("end")
        survivors = [peer for peer in self.peers.values() if not peer.dead]
        await self._wait_for(lambda: all(peer.final for peer in survivors), _TIME_LIMIT, "end")
        if self.setup.kill:  # task copies run until their processes learn of the end
            self.engine.now = self.engine.clock()
        self.counted += [peer.counts for peer in survivors]
        self.final = [peer.final for peer in survivors if peer.final]
        self.down_times += [
            (u, since, NEVER) for p, (_, since) in self.killed_processes.items() for u in self.machines_of[p]
        ]
        self._all("bye")

    def check_limit(self, now: int) -> None:
        """Raise ScenarioError if `now` (ns) is beyond the time limit."""
        if self.limit is not None and now > self.limit * NS:
            completed, total, unit = self.ledger.tasks_done, self.core.total, "tasks"
            if self.adapter.keeps_jobs:
                completed, total, unit = self.adapter.runs.completed, len(self.adapter.records), "jobs"
            raise ScenarioError(
                f"the run has not finished at the time limit of {self.limit:,.10g} s: {completed} of {total} "
                f"{unit} are completed"
            )

    def _is_finished(self) -> bool:
        if self.failure is not None:
            raise self.failure
        for number, (machine, _) in self.killed_processes.items():
            # the process is being restarted, or some of its reports are missing
            if machine < 0 or self.peers[number].connection is not None or number in self.waiting:
                return False
        if self.policy.is_over() or self.engine.stopping:
            return True
        if self.unchanging and len(self.killed_processes) == len(self.peers):
            raise ScenarioError(
                f"faults must leave a process up until the run ends; at {self.engine.clock() / NS:g} s all "
                f"are down for good, with {self.core.total - self.ledger.tasks_done} tasks left"
            )
        return False

    async def _wait_for(self, condition: Any, seconds: float, action: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self._reap()
            if self.failure is not None:
                raise self.failure
            if time.monotonic() > deadline:
                raise GridSimError(f"the processes of the emulation did not {action} within {seconds:g} s")
            with suppress(asyncio.TimeoutError):
                self.changed.clear()
                await asyncio.wait_for(self.changed.wait(), 0.05)

    def _accept(self) -> Conversation:
        return Conversation(
            self._handle_reports,
            self._closed,
            decoder=msgspec.msgpack.Decoder(list[list[Any]]),
            secret=self.setup.secret,
            greet=self._greet,
            pending_greetings=self.pending_greetings,
            closed_connections=self.closed_connections,
        )

    def _greet(self, connection: Conversation, greeting: Greeting) -> None:
        peer = self.peers.get(greeting.process)
        if peer is None or peer.connection is not None or peer.incarnation != greeting.incarnation:
            raise msgspec.ValidationError(f"no connection is expected from process {greeting.process}")
        peer.connection, peer.port = connection, greeting.port
        self.changed.set()
        if peer.incarnation:
            others = [
                [q, other.port, other.incarnation]
                for q, other in self._connected_peers()
                if q != greeting.process
            ]
            for command in peer.waiting:
                self._send(greeting.process, *command)
            self._send(
                greeting.process, "peers", [*others, [greeting.process, greeting.port, greeting.incarnation]]
            )

    def _connected_peers(self) -> list[tuple[int, Peer]]:
        """Return the running processes, including those that are not connected to all others yet."""
        return [(q, peer) for q, peer in self.peers.items() if peer.connection is not None and not peer.dead]

    def _send(self, to: int, name: str, *values: Any) -> None:
        connection = self.peers[to].connection
        if connection is not None:
            connection.transport.write(frame([[name, *values]]))

    def _all(self, name: str, *values: Any) -> None:
        for q, _ in self._connected_peers():
            self._send(q, name, *values)

    def _inform(self, processes: Iterable[int], name: str, *values: Any) -> None:
        """Send a command to processes; a restarting process receives it after it has connected."""
        for q in processes:
            peer = self.peers[q]
            if peer.connection is None and not peer.dead:
                peer.waiting.append([name, *values])
            elif not peer.dead:
                self._send(q, name, *values)

    def _closed(self, connection: Conversation) -> None:
        """Handle the end of a process after all its reports have arrived."""
        self.changed.set()
        if self.closing or self.failure is not None:
            return
        number = connection.process
        if number in self.killed_processes and self.peers[number].incarnation == connection.incarnation:
            self.closed_processes.add(number)
            self.engine.call_at(self.engine.clock(), self._drop_process, number)
        elif self.peers[number].incarnation == connection.incarnation:
            self.failure = GridSimError(f"process {number} of the emulation has ended unexpectedly")

    def _handle_reports(self, connection: Conversation, records: list[list[Any]]) -> None:
        try:
            if self.engine.started and not self.closing:
                self.engine.run_due()  # events that are due now precede those that the reports cause
            for name, *values in records:
                self.records[name](connection.process, *values)
        except Exception as error:  # the waiting coroutine raises it
            self.failure = error
        self.changed.set()

    # -- releases and failures ------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Schedule the releases of applications and the kills of processes."""
        self.lead = int(_RELEASE_LEAD * NS * self.setup.speedup)
        for index, at in enumerate(self.core.release if self.released.queue is None else ()):
            self.engine.call_at(max(0, at - self.lead), self._release, index, at)
        if self.setup.kill:
            assert self.scenario.faults is not None
            blocks = self.machines.fault_events(self.scenario.faults).blocks
            self._changes = (
                row
                for block in blocks
                for row in zip(block.time.tolist(), block.machine.tolist(), block.up.tolist(), strict=True)
            )
            self._next_change()

    def _release_due(self) -> None:
        """Release what is due, and schedule the next release, if some follow the ends of applications."""
        if (queue := self.released.queue) is None or self.engine.ended:
            return
        for index in queue.take(self.engine.clock() + self.lead):
            at = int(queue.release[index])
            self._inform(self.peers, "released", index, at)
            self._release(index, at)
        if (due := queue.next_release()) < min(NEVER, self.next_release):
            self.engine.call_at(max(0, due - self.lead), self._reach_release)
            self.next_release = due

    def _reach_release(self) -> None:
        self.next_release = NEVER
        self._release_due()

    def _release(self, index: int, at: int) -> None:
        self._due = at
        self.core.submit(index, self.core.tasks[index], "on_release")

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Give tasks that no node holds to a node."""
        parts = self.free_tasks[application].take(tasks)
        due, self._due = max(self.engine.now, self._due), 0
        to, move = self.core.process_of[node], 0
        if self.setup.kill:
            self.sent += 1
            move = (_COORDINATOR_MOVES << 32) + self.sent
            self.on_move_sent(_COORDINATOR_MOVES, move, application, parts, to)
        self._send(to, "give", node, application, parts, handler, due, move)

    _due = 0

    def _next_change(self) -> None:
        row = next(self._changes, None)
        self.unchanging = row is None
        if row is not None:
            at, machine, up = row
            call = self._revive if up else self._fail
            self.engine.call_at(at, call, machine)

    def _fail(self, machine: int) -> None:
        """Kill the process of a machine that fails."""
        number = self.process_of_machine[machine]
        if number not in self.killed_processes and number not in self.servers:
            self._kill(self.peers[number])
            self.kills += 1
            since = self.engine.clock()  # until then, the process may have acted
            self.killed_processes[number] = machine, since
            self.waiting[number] = {q for q, _ in self._connected_peers()}
            self.engine.call_at(since, self._fail_machines, number)
        self._next_change()

    def _fail_machines(self, number: int) -> None:
        """Mark the machines of a killed process as failed."""
        self._change(self.machines_of[number], [])
        for other in [*self.killed_processes]:
            self._join(other)

    def _revive(self, machine: int) -> None:
        """Restart the process of a machine that is up again."""
        number = self.process_of_machine[machine]
        if number in self.killed_processes and self.killed_processes[number][0] == machine:
            self.killed_processes[number] = -1, self.killed_processes[number][1]
            self._restart(number)
        self._next_change()

    def _change(self, failed: list[int], back: list[int]) -> None:
        """Apply failures and recoveries of machines in all processes."""
        self.outages.up[failed], self.outages.up[back] = False, True
        self.network.fail(np.array(failed, np.int64), down=True)
        self.network.restore(np.array(back, np.int64))
        self.policy.on_faults(np.array(failed, np.int64), np.array(back, np.int64))
        self._inform(self.peers, "faults", failed, back, self.engine.now)

    def _drop_process(self, number: int) -> None:
        """Record the tasks on a killed process as lost, after all its reports have arrived."""
        _, since = self.killed_processes[number]
        self.closed_processes.remove(number)
        for application, tasks in sorted(self.ledger.drop(self.machines_of[number], since).items()):
            self.task_lost(application, tasks.take_all())
        for process, application in sorted(key for key in self.held_tasks if key[0] == number):
            held = np.flatnonzero(self.held_tasks.pop((process, application)) > 0)
            if len(held):
                self.task_lost(application, [(task, task + 1) for task in held.tolist()])
        environment = self.policy.environment
        if environment is not None:
            environment.on_kill(self.policy.layout.on(np.array(self.machines_of[number])), since)
        if self.jobs is not None:
            self.jobs.lose(number)
        self.counted.append(self.peers[number].counts)
        self.peers[number].connection = None
        for q in self.waiting[number]:
            self._send(q, "forget", number, self.peers[number].incarnation)
        for killed, others in list(self.waiting.items()):
            others.discard(number)  # the process receives nothing more
            self._lose_moves(killed)

    def _lose_moves(self, number: int) -> None:
        """Record tasks moving from or to a killed process as lost, once no message of it is in flight."""
        if self.waiting.get(number) or self.peers[number].connection is not None:
            return
        self.waiting.pop(number, None)
        for move, (application, tasks, source, target) in sorted(self.open_moves.items()):
            if number in (source, target):
                del self.open_moves[move]
                self.task_lost(application, tasks)
        self._restart(number)

    def _settle(self) -> None:
        """Handle killed and joining processes after the run, when the engine handles no more events."""
        for number in sorted(self.closed_processes):
            self._drop_process(number)
        for number in [*self.killed_processes]:
            self._join(number)

    def _restart(self, number: int) -> None:
        if (
            self.killed_processes[number][0] < 0
            and number not in self.waiting
            and self.peers[number].connection is None
        ):
            self.incarnations[number] += 1
            self._fork(number)

    def task_lost(self, application: int, tasks: Parts, node: int = -1) -> None:
        policy: Any = self.policy
        self.free_tasks[application].add(tasks)
        policy.task_lost(application, count_of(tasks), node)

    # -- reports of processes -------------------------------------------------------------------------------

    def _record_held(self, process: int, application: int, tasks: Parts, change: int) -> None:
        """Record that nodes of a process hold tasks (change 1) or no longer hold them (-1)."""
        if not self.setup.kill:  # only runs with kills need the record
            return
        key = process, application
        if key not in self.held_tasks:
            self.held_tasks[key] = np.zeros(self.core.tasks[application], np.int8)
        for first, end in tasks:
            self.held_tasks[key][first:end] += change

    def on_reached(self, process: int, to: int, incarnation: int) -> None:
        """Record that a process is connected to another process."""
        self.peers[process].reached.add(to)
        self._join(process)

    def on_left(self, process: int, to: int, incarnation: int) -> None:
        """Record that a process has lost its connection to another process, which may have been killed."""
        peer = self.peers[to]
        if peer.incarnation == incarnation and not peer.dead and not self.closing:
            self.failure = GridSimError(
                f"process {to} of the emulation has closed its connection to process {process}"
            )

    def _join(self, process: int) -> None:
        """Mark the machines of a restarted process as up once it is connected to the running processes."""
        peer = self.peers[process]
        if process not in self.killed_processes or peer.dead or peer.connection is None:
            return
        if peer.reached >= {
            process,
            *(q for q, _ in self._connected_peers() if q not in self.killed_processes),
        }:
            for q, _ in self._connected_peers():
                if q != process:
                    self._send(q, "peers", [[process, peer.port, peer.incarnation]])
            _, since = self.killed_processes.pop(process)
            now = self.engine.clock()
            self.down_times += [(u, since, now) for u in self.machines_of[process]]
            self._change([], self.machines_of[process])

    def on_queued(self, process: int, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Record that tasks were queued on a machine."""
        self.ledger.record_queued(machine, application, tasks, time)
        self._record_held(process, application, tasks, -1)
        if self.core.placed_at < 0 and self.ledger.enqueued >= self.core.total:
            self.core.placed_at = self.ledger.last_placed
            if self.policy.until == "placed" and not self.quiet:
                self.quiet = True  # messages are no longer counted
                self._inform(self.peers, "quiet")

    def on_withdrawn(self, process: int, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Record that tasks were withdrawn from a queue."""
        self.ledger.record_withdrawn(machine, application, tasks, time)
        self._record_held(process, application, tasks, 1)

    def on_began(self, process: int, machine: int, application: int, task: int, start: int) -> None:
        """Record that a task has started."""
        self.ledger.record_start(machine, application, task, start)

    def on_ended(self, process: int, machine: int, application: int, task: int, end: int) -> None:
        """Record that a task is completed."""
        self.ledger.record_end(machine, application, task, end)

    def on_interrupted(self, process: int, machine: int, application: int, task: int, now: int) -> None:
        """Record that a failure has interrupted a task."""
        self.ledger.record_interruption(machine, application, task, now)
        self._record_held(process, application, [(task, task + 1)], 1)

    def on_undone(self, process: int, machine: int, application: int, task: int) -> None:
        """Record that the reported start of a task was cancelled by an earlier failure."""
        self.ledger.record_cancelled_start(machine, application, task)
        self._record_held(process, application, [(task, task + 1)], 1)

    def on_failed(self, process: int, machine: int) -> None:
        """Record that the tasks waiting on a machine are lost."""
        for application, tasks in self.ledger.record_failure(machine).items():
            self._record_held(process, application, tasks, 1)

    def on_lost(self, process: int, application: int, tasks: Parts, node: int, now: int) -> None:
        """Handle lost tasks."""
        self._record_held(process, application, tasks, -1)
        self.task_lost(application, tasks, node)

    def on_move_sent(self, process: int, move: int, application: int, tasks: Parts, to: int) -> None:
        """Record that a message moves tasks to another process."""
        if process != _COORDINATOR_MOVES:
            self._record_held(process, application, tasks, -1)
        if move in self.early_arrivals:
            self.early_arrivals.remove(move)
            self._record_held(to, application, tasks, 1)
        else:
            self.open_moves[move] = application, tasks, process, to

    def on_move_arrived(self, process: int, move: int) -> None:
        """Record that a message that moves tasks has arrived."""
        if move in self.open_moves:
            application, tasks, _, _ = self.open_moves.pop(move)
            self._record_held(process, application, tasks, 1)
        else:
            self.early_arrivals.add(move)

    def on_give(self, process: int, node: int, application: int, tasks: int, handler: str) -> None:
        """Give tasks to a node, on behalf of a process."""
        self._due = 0
        self.give(node, application, tasks, handler)

    def on_note(self, process: int, now: int, node: int, table: str, row: list[float]) -> None:
        """Record a row that a node has written to a table."""
        self.policy.note(node, table, dict(zip(self.policy.notes.columns[table], row, strict=True)))
        self.row_sources.setdefault(table, []).append((now, node))

    def on_share(self, process: int, name: str, values: list[float]) -> None:
        """Forward a fact that a process shares; all processes receive such facts in the same order."""
        environment = self.policy.environment
        if environment is not None and name in environment.shared:
            getattr(environment, name)(*values)
        else:
            self.core.receive_fact(name, values)
        self._inform([q for q in self.peers if q != process], "fact", name, values)

    def on_central(self, process: int, method: str, *values: float) -> None:
        """Apply a node's change to the part of the environment that only the coordinator has."""
        environment = self.policy.environment
        if environment is None or method not in environment.central:
            raise msgspec.ValidationError(f"the environment has no shared method {method[:40]!r}")
        getattr(environment, method)(*values)

    def on_stored(self, process: int, node: int, storage: dict[str, Any]) -> None:
        """Record the changed stable storage of a node."""
        program = self.core.programs[node]
        for name in program.stable_storage:
            setattr(program, name, from_plain(storage[name]))

    def on_ask(self, process: int, question: str, *values: Any) -> None:
        """Answer a question of a handler after all earlier reports of all processes."""
        asyncio.get_running_loop().call_soon(self._answer, process, question, values)

    def _answer(self, process: int, question: str, values: Any) -> None:
        try:
            if question != "record" or self.jobs is None:
                raise msgspec.ValidationError(
                    f"question must be 'record' in a run of rigid jobs, got {question[:40]!r}"
                )
            self._send(process, "answer", self.jobs.record(*values))
        except Exception as error:  # the waiting coroutine raises it
            self.failure = error
            self.changed.set()

    def on_record(self, process: int, number: int, changes: dict[str, Any], instant: int) -> None:
        """Apply a handler's changes to the record of a rigid job."""
        if self.jobs is not None:
            self.jobs.change(number, changes, instant)

    def on_job(self, process: int, method: str, *arguments: Any) -> None:
        """Carry out a handler's action on a rigid job."""
        if self.jobs is not None:
            self.jobs.do(method, *arguments)

    def call(
        self, process: int, count: int, node: int, handler: str, job: int, arguments: tuple[int, ...]
    ) -> None:
        """Request a call of a node's handler from its process, for `JobKeeper`."""
        self._send(process, "call", count, node, handler, job, arguments)

    def on_called(self, process: int, count: int, is_done: bool) -> None:
        """Record that a process has called a handler, or that its node is down."""
        if self.jobs is not None:
            self.jobs.confirm_call(process, count, is_done)

    def on_counts(self, process: int, packed: bytes, counts: dict[str, Any]) -> None:
        """Store the latest counts of messages and of the environment of a process."""
        self.peers[process].counts = packed, counts

    def on_sent(self, process: int, *values: int) -> None:
        """Count a message that a process which may be killed has sent."""
        self.network.counters.count(*values)

    def on_delivered(self, process: int, *values: int) -> None:
        """Count a message that was delivered in a process which may be killed."""
        self.network.counters.count_delivered(*values)

    def on_dropped(self, process: int, kind: int) -> None:
        """Count a message that was dropped in a process which may be killed."""
        self.network.counters.drop(kind)

    def on_drained(self, process: int, killed: int, incarnation: int) -> None:
        """Record that all messages of a killed process to another process have arrived."""
        if killed in self.waiting:
            self.waiting[killed].discard(process)
            self._lose_moves(killed)

    def on_error(self, process: int, kind: str, text: str, is_complete: bool) -> None:
        """Handle an error that a handler has raised."""
        self.failure = SchedulerError(text if is_complete else f"process {process}: {kind}: {text}")

    def on_final(self, process: int, *values: Any) -> None:
        """Store the final report of a process."""
        self.peers[process].final = list(values)

    def tell(self, name: str, *values: Any) -> None:
        """Do nothing: the coordinator has no nodes."""

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Record a row of a node whose process was killed."""
        row = self.policy.checked_row(node, table, values)
        self.on_note(COORDINATOR, self.core.now, node, table, row)

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Do nothing: messages of a killed process are lost."""
