"""The coordinator: starts the processes of an emulation, releases applications and records events.

It takes no part in the protocol of a scheduler.  It is the one place that knows which tasks have been
released, held, moved, completed and lost, from which the tables of the result are made.
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
from gridsim.emulation.wire import LOOPBACK, Conversation, Greeting, frame, from_plain
from gridsim.emulation.worker import run_worker
from gridsim.errors import GridSimError, ScenarioError, SchedulerError
from gridsim.support.clock import NEVER, NS

#: Seconds by which processes are told of releases in advance, and between their start and time 0.
_AHEAD, _BEFORE = 0.03, 0.1
#: Time limits, s, for processes to begin, and to end.
_PATIENCE = 60.0
#: The process number of moves that the coordinator makes.
_OWN = 1023


def _ended(pid: int) -> bool:
    """Return whether a process that was started here has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # someone else has waited for it
        return True


class Peer:
    """A process, as the coordinator knows it."""

    def __init__(self, pid: int, life: int) -> None:
        self.pid, self.life, self.port = pid, life, 0
        self.talk: Conversation | None = None
        self.dead = False
        self.reached = set[int]()
        self.counts: tuple[bytes, dict[str, Any]] = b"", {}
        self.waiting: list[list[Any]] = []  # commands for a process that is being started again
        self.final: list[Any] | None = None


class Coordinator(Part):
    """Runs an emulation; `emulate` makes a result of it.

    Parameters
    ----------
    time_limit
        Simulated s after which the run is stopped; None for no limit.
    """

    ledger: Ledger

    def __init__(self, setup: Setup, time_limit: float | None) -> None:
        self.peers: dict[int, Peer] = {}
        self.gone: list[int] = []  # processes to wait for
        self.lives = [0] * setup.processes
        super().__init__(setup, COORDINATOR)
        policy: Any = self.policy
        #: The keeper of rigid jobs; None if there are none, or if the only process keeps them.
        self.jobs = JobKeeper(self, policy) if policy.keeps_jobs and not self.is_alone else None
        self.adapter = policy  # it keeps rigid jobs
        self.ledger = policy.queues
        self.limit = time_limit
        self.failure: BaseException | None = None
        self.closing = self.quiet = False
        self.unchanging = False  # whether no machine fails or recovers any more
        self.strangers: dict[Conversation, None] = {}
        self.changed = asyncio.Event()
        self.server: asyncio.Server | None = None
        self.sent = 0
        #: Tasks that no node has, by application: tasks not released yet, and lost tasks.
        self.free = [TaskSet([(0, tasks)]) for tasks in self.core.tasks]
        #: Process, application -> 1 for each task in the hands of its nodes.  Reports of several processes
        #: may come in any order: until all are there, a number may also be -1 or 2.
        self.hand: dict[tuple[int, int], NDArray[np.int8]] = {}
        self.moving: dict[int, tuple[int, Parts, int, int]] = {}  # number -> application, tasks, from, to
        self.early: set[int] = set()  # numbers of moves that have arrived before they were reported
        self.waiting: dict[int, set[int]] = {}  # killed process -> processes that may have data of it
        self.out: dict[int, tuple[int, int]] = {}  # killed process -> machine that failed, and when
        self.burials: set[int] = set()  # killed processes whose connection has ended
        self.outages: Any = self.outages
        self.down: list[tuple[int, int, int]] = []  # machine, from, until ns, of killed processes
        self.noted: dict[str, list[tuple[int, int]]] = {}  # table -> time and node of each row
        self.kills, self.seconds = 0, 0.0
        self.counted: list[tuple[bytes, dict[str, Any]]] = []
        self.records = {
            name.removeprefix("on_"): getattr(self, name) for name in dir(self) if name.startswith("on_")
        }
        self.final: list[list[Any]] = []
        #: Processes that have servers, which never fail.
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
            for pid in self.gone:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if self.server is not None:
                self.server.close()
            for peer in self.peers.values():
                if peer.talk is not None:
                    peer.talk.transport.abort()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.sleep(0))  # the protocols of closed connections are called
            loop.close()

    def _kill(self, peer: Peer) -> None:
        if not peer.dead:
            with suppress(ProcessLookupError):
                os.kill(peer.pid, signal.SIGKILL)
            peer.dead = True
            self.gone.append(peer.pid)

    def _reap(self) -> None:
        """Forget processes that have ended; a process that ends before it has begun ends the run."""
        self.gone = [pid for pid in self.gone if not _ended(pid)]
        for number, peer in self.peers.items():
            if peer.talk is None and not peer.dead and _ended(peer.pid):
                peer.dead = True
                self.failure = self.failure or GridSimError(
                    f"process {number} of the emulation ended before it had begun"
                )

    def _fork(self, number: int) -> Peer:
        if self.lives[number]:
            self.core.hear_all()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that the copy lacks
            pid = os.fork()
        if not pid:
            try:
                run_worker(self.setup, number, self.lives[number], self.port, self)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        peer = self.peers[number] = Peer(pid, self.lives[number])
        if peer.life:
            # the copy has the present state; later events are sent once it is connected
            up, lives = self.policy.run.up.tolist(), self.network.counters.lives()
            peer.waiting.append(["start", self.engine.zero, up, lives])
            if self.quiet:
                peer.waiting.append(["quiet"])
        return peer

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self._accept, LOOPBACK, 0)
        self.port = self.server.sockets[0].getsockname()[1]
        for number in range(self.setup.processes):
            self._fork(number)
        await self._until(lambda: all(peer.talk for peer in self.peers.values()), _PATIENCE, "begin")
        ports = [[q, peer.port, peer.life] for q, peer in self.peers.items()]
        self._all("peers", ports)
        everybody = set(self.peers)
        await self._until(
            lambda: all(peer.reached == everybody for peer in self.peers.values()), _PATIENCE, "meet"
        )
        zero = time.monotonic_ns() + int(_BEFORE * NS)
        self.engine.start(zero)
        self._all("start", zero, self.policy.run.up.tolist(), self.network.counters.lives())
        self._schedule()
        while not self._over():
            self._reap()
            self.engine.run_due()
            if self.engine.ended:
                self._settle()
            delay = self.engine.delay()
            with suppress(asyncio.TimeoutError):
                self.changed.clear()
                await asyncio.wait_for(self.changed.wait(), 0.05 if delay is None else min(delay, 0.05))
            self.check_limit(self.engine.clock())
        self.engine.now = self.engine.clock()
        self.seconds = (time.monotonic_ns() - zero) / NS
        self.closing = True
        self._all("end")
        there = [peer for peer in self.peers.values() if not peer.dead]
        await self._until(lambda: all(peer.final for peer in there), _PATIENCE, "end")
        if self.setup.kill:  # copies run until their processes learn of the end
            self.engine.now = self.engine.clock()
        self.counted += [peer.counts for peer in there]
        self.final = [peer.final for peer in there if peer.final]
        self.down += [(u, since, NEVER) for p, (_, since) in self.out.items() for u in self.machines_of[p]]
        self._all("bye")

    def check_limit(self, now: int) -> None:
        """Raise ScenarioError if `now` (ns) is beyond the time limit."""
        if self.limit is not None and now > self.limit * NS:
            completed, total, unit = self.ledger.tasks_done, self.core.total, "tasks"
            if self.adapter.keeps_jobs:
                completed, total, unit = self.adapter.runs.completed, len(self.adapter.records), "jobs"
            raise ScenarioError(
                f"the run had not finished at the time limit of {self.limit:,.10g} s: {completed} of {total} "
                f"{unit} are completed"
            )

    def _over(self) -> bool:
        if self.failure is not None:
            raise self.failure
        for number, (machine, _) in self.out.items():
            # it begins again, or not all is known of what it had
            if machine < 0 or self.peers[number].talk is not None or number in self.waiting:
                return False
        if self.policy.is_over() or self.engine.stopping:
            return True
        if self.unchanging and len(self.out) == len(self.peers):
            raise ScenarioError(
                f"faults must leave a process up until all is done; at {self.engine.clock() / NS:g} s all "
                f"are down for good, with {self.core.total - self.ledger.tasks_done} tasks left"
            )
        return False

    async def _until(self, true: Any, seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not true():
            self._reap()
            if self.failure is not None:
                raise self.failure
            if time.monotonic() > until:
                raise GridSimError(f"the processes of the emulation did not {what} within {seconds:g} s")
            with suppress(asyncio.TimeoutError):
                self.changed.clear()
                await asyncio.wait_for(self.changed.wait(), 0.05)

    def _accept(self) -> Conversation:
        return Conversation(
            self._reported,
            self._closed,
            decoder=msgspec.msgpack.Decoder(list[list[Any]]),
            token=self.setup.token,
            greet=self._met,
            strangers=self.strangers,
        )

    def _met(self, talk: Conversation, greeting: Greeting) -> None:
        peer = self.peers.get(greeting.process)
        if peer is None or peer.talk is not None or peer.life != greeting.life:
            raise msgspec.ValidationError(f"process {greeting.process}, which is not expected")
        peer.talk, peer.port = talk, greeting.port
        self.changed.set()
        if peer.life:
            others = [[q, other.port, other.life] for q, other in self._talking() if q != greeting.process]
            for command in peer.waiting:
                self._send(greeting.process, *command)
            self._send(greeting.process, "peers", [*others, [greeting.process, greeting.port, greeting.life]])

    def _talking(self) -> list[tuple[int, Peer]]:
        """Return the running processes, including those that are not connected to all others yet."""
        return [(q, peer) for q, peer in self.peers.items() if peer.talk is not None and not peer.dead]

    def _send(self, to: int, name: str, *values: Any) -> None:
        talk = self.peers[to].talk
        if talk is not None:
            talk.transport.write(frame([[name, *values]]))

    def _all(self, name: str, *values: Any) -> None:
        for q, _ in self._talking():
            self._send(q, name, *values)

    def _inform(self, processes: Iterable[int], name: str, *values: Any) -> None:
        """Send a command to processes; a process that is being restarted gets it once it is connected."""
        for q in processes:
            peer = self.peers[q]
            if peer.talk is None and not peer.dead:
                peer.waiting.append([name, *values])
            elif not peer.dead:
                self._send(q, name, *values)

    def _closed(self, talk: Conversation) -> None:
        """Handle the end of a process, all of whose reports have arrived."""
        self.changed.set()
        if self.closing or self.failure is not None:
            return
        number = talk.process
        if number in self.out and self.peers[number].life == talk.life:
            self.burials.add(number)
            self.engine.call_at(self.engine.clock(), self._bury, number)
        elif self.peers[number].life == talk.life:
            self.failure = GridSimError(f"process {number} of the emulation has ended")

    def _reported(self, talk: Conversation, records: list[list[Any]]) -> None:
        try:
            if self.engine.started and not self.closing:
                self.engine.run_due()  # events due now come before those that follow from the reports
            for name, *values in records:
                self.records[name](talk.process, *values)
        except Exception as error:  # raised where the run waits
            self.failure = error
        self.changed.set()

    # -- releases and failures ------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Release applications, and have processes killed."""
        ahead = int(_AHEAD * NS * self.setup.speedup)
        for index, at in enumerate(self.core.release):
            self.engine.call_at(max(0, at - ahead), self._release, index, at)
        if self.setup.kill:
            assert self.scenario.faults is not None
            blocks = self.scenario.faults.course(len(self.policy.run.speeds)).blocks
            self._changes = (
                row
                for block in blocks
                for row in zip(block.time.tolist(), block.machine.tolist(), block.up.tolist(), strict=True)
            )
            self._next_change()

    def _release(self, index: int, at: int) -> None:
        self._due = at
        self.core.submit(index, self.core.tasks[index], "on_release")

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Give a node some of the tasks that no node has."""
        given = self.free[application].take(tasks)
        due, self._due = max(self.engine.now, self._due), 0
        to, move = self.core.process_of[node], 0
        if self.setup.kill:
            self.sent += 1
            move = (_OWN << 32) + self.sent
            self.on_open(_OWN, move, application, given, to)
        self._send(to, "give", node, application, given, handler, due, move)

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
        if number not in self.out and number not in self.servers:
            self._kill(self.peers[number])
            self.kills += 1
            since = self.engine.clock()  # the process may have acted until then
            self.out[number] = machine, since
            self.waiting[number] = {q for q, _ in self._talking()}
            self.engine.call_at(since, self._lose, number)
        self._next_change()

    def _lose(self, number: int) -> None:
        """Make the machines of a process that was just killed fail."""
        self._change(self.machines_of[number], [])
        for other in [*self.out]:
            self._join(other)

    def _revive(self, machine: int) -> None:
        """Start a process again whose machine is up."""
        number = self.process_of_machine[machine]
        if number in self.out and self.out[number][0] == machine:
            self.out[number] = -1, self.out[number][1]
            self._restart(number)
        self._next_change()

    def _change(self, failed: list[int], back: list[int]) -> None:
        """Make machines fail or recover, in all processes."""
        self.outages.up[failed], self.outages.up[back] = False, True
        self.network.fail(np.array(failed, np.int64), down=True)
        self.network.restore(np.array(back, np.int64))
        self.policy.on_faults(np.array(failed, np.int64), np.array(back, np.int64))
        self._inform(self.peers, "faults", failed, back, self.engine.now)

    def _bury(self, number: int) -> None:
        """Lose what the machines of a killed process had, once all its reports are here."""
        _, since = self.out[number]
        self.burials.remove(number)
        for application, tasks in sorted(self.ledger.drop(self.machines_of[number], since).items()):
            self.task_lost(application, tasks.take_all())
        for process, application in sorted(key for key in self.hand if key[0] == number):
            held = np.flatnonzero(self.hand.pop((process, application)) > 0)
            if len(held):
                self.task_lost(application, [(task, task + 1) for task in held.tolist()])
        environment = self.policy.environment
        if environment is not None:
            environment.on_kill(self.policy.layout.on(np.array(self.machines_of[number])), since)
        if self.jobs is not None:
            self.jobs.lose(number)
        self.counted.append(self.peers[number].counts)
        self.peers[number].talk = None
        for q in self.waiting[number]:
            self._send(q, "forget", number, self.peers[number].life)
        for killed, others in list(self.waiting.items()):
            others.discard(number)  # the process has nothing left
            self._forgotten(killed)

    def _forgotten(self, number: int) -> None:
        """Lose what a killed process had sent or was to receive, once no process has any of it left."""
        if self.waiting.get(number) or self.peers[number].talk is not None:
            return
        self.waiting.pop(number, None)
        for move, (application, tasks, source, target) in sorted(self.moving.items()):
            if number in (source, target):
                del self.moving[move]
                self.task_lost(application, tasks)
        self._restart(number)

    def _settle(self) -> None:
        """Handle killed and joining processes after the end of the run, as the engine does not do it."""
        for number in sorted(self.burials):
            self._bury(number)
        for number in [*self.out]:
            self._join(number)

    def _restart(self, number: int) -> None:
        if self.out[number][0] < 0 and number not in self.waiting and self.peers[number].talk is None:
            self.lives[number] += 1
            self._fork(number)

    def task_lost(self, application: int, tasks: Parts, node: int = -1) -> None:
        policy: Any = self.policy
        self.free[application].add(tasks)
        policy.task_lost(application, count_of(tasks), node)

    # -- what processes report ------------------------------------------------------------------------------

    def _hand(self, process: int, application: int, tasks: Parts, change: int) -> None:
        """Note that nodes of a process have tasks (1) or no longer have them (-1)."""
        if not self.setup.kill:  # only kills need the record
            return
        key = process, application
        if key not in self.hand:
            self.hand[key] = np.zeros(self.core.tasks[application], np.int8)
        for first, end in tasks:
            self.hand[key][first:end] += change

    def on_reached(self, process: int, to: int, life: int) -> None:
        """Note that a process is connected to another one."""
        self.peers[process].reached.add(to)
        self._join(process)

    def on_left(self, process: int, to: int, life: int) -> None:
        """Note that a process has lost its connection to another one, for example because that was killed."""
        peer = self.peers[to]
        if peer.life == life and not peer.dead and not self.closing:
            self.failure = GridSimError(
                f"process {to} of the emulation has closed its connection to {process}"
            )

    def _join(self, process: int) -> None:
        """Mark the machines of a restarted process as up once it is connected to the running processes."""
        peer = self.peers[process]
        if process not in self.out or peer.dead or peer.talk is None:
            return
        if peer.reached >= {process, *(q for q, _ in self._talking() if q not in self.out)}:
            for q, _ in self._talking():
                if q != process:
                    self._send(q, "peers", [[process, peer.port, peer.life]])
            _, since = self.out.pop(process)
            now = self.engine.clock()
            self.down += [(u, since, now) for u in self.machines_of[process]]
            self._change([], self.machines_of[process])

    def on_came(self, process: int, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Note that tasks have come to a queue."""
        self.ledger.placed(machine, application, tasks, time)
        self._hand(process, application, tasks, -1)
        if self.core.placed_at < 0 and self.ledger.enqueued >= self.core.total:
            self.core.placed_at = self.ledger.last_placed
            if self.policy.until == "placed" and not self.quiet:
                self.quiet = True  # the accounting of messages ends
                self._inform(self.peers, "quiet")

    def on_taken(self, process: int, machine: int, application: int, tasks: Parts, time: int) -> None:
        """Note that tasks were taken out of a queue again."""
        self.ledger.taken(machine, application, tasks, time)
        self._hand(process, application, tasks, 1)

    def on_began(self, process: int, machine: int, application: int, task: int, start: int) -> None:
        """Note that a task has begun."""
        self.ledger.began(machine, application, task, start)

    def on_ended(self, process: int, machine: int, application: int, task: int, end: int) -> None:
        """Note that a task is completed."""
        self.ledger.ended(machine, application, end)

    def on_cut(self, process: int, machine: int, application: int, task: int, now: int) -> None:
        """Note that a failure has cut off a task."""
        self.ledger.cut(machine, application, now)
        self._hand(process, application, [(task, task + 1)], 1)

    def on_undone(self, process: int, machine: int, application: int, task: int) -> None:
        """Note that a task has not begun after all."""
        self.ledger.undone(machine, application)
        self._hand(process, application, [(task, task + 1)], 1)

    def on_failed(self, process: int, machine: int) -> None:
        """Note that the tasks waiting on a machine are lost."""
        for application, tasks in self.ledger.failed(machine).items():
            self._hand(process, application, tasks, 1)

    def on_lost(self, process: int, application: int, tasks: Parts, node: int, now: int) -> None:
        """Handle lost tasks."""
        self._hand(process, application, tasks, -1)
        self.task_lost(application, tasks, node)

    def on_open(self, process: int, move: int, application: int, tasks: Parts, to: int) -> None:
        """Note that a message moves tasks to another process."""
        if process != _OWN:
            self._hand(process, application, tasks, -1)
        if move in self.early:
            self.early.remove(move)
            self._hand(to, application, tasks, 1)
        else:
            self.moving[move] = application, tasks, process, to

    def on_shut(self, process: int, move: int) -> None:
        """Note that a message that moves tasks has arrived."""
        if move in self.moving:
            application, tasks, _, _ = self.moving.pop(move)
            self._hand(process, application, tasks, 1)
        else:
            self.early.add(move)

    def on_give(self, process: int, node: int, application: int, tasks: int, handler: str) -> None:
        """Note that a process gives tasks to a node of another one."""
        self._due = 0
        self.give(node, application, tasks, handler)

    def on_note(self, process: int, now: int, node: int, table: str, row: list[float]) -> None:
        """Record a row that a node writes to a table."""
        self.policy.note(node, table, dict(zip(self.policy.notes.columns[table], row, strict=True)))
        self.noted.setdefault(table, []).append((now, node))

    def on_share(self, process: int, name: str, values: list[float]) -> None:
        """Pass on a fact that a process shares; all processes learn such facts in the same order."""
        environment = self.policy.environment
        if environment is not None and name in environment.shared:
            getattr(environment, name)(*values)
        else:
            self.core.hear(name, values)
        self._inform([q for q in self.peers if q != process], "fact", name, values)

    def on_central(self, process: int, method: str, *values: float) -> None:
        """Apply a node's change of what only the model knows."""
        environment = self.policy.environment
        if environment is None or method not in environment.central:
            raise msgspec.ValidationError(f"a method {method[:40]!r} of the environment")
        getattr(environment, method)(*values)

    def on_stored(self, process: int, node: int, storage: dict[str, Any]) -> None:
        """Note that the stable storage of a node has changed."""
        program = self.core.programs[node]
        for name in program.stable_storage:
            setattr(program, name, from_plain(storage[name]))

    def on_ask(self, process: int, question: str, *values: Any) -> None:
        """Answer a question of a handler after all earlier reports, which may be from other processes."""
        asyncio.get_running_loop().call_soon(self._answer, process, question, values)

    def _answer(self, process: int, question: str, values: Any) -> None:
        try:
            if question != "record" or self.jobs is None:
                raise msgspec.ValidationError(f"a question {question[:40]!r}")
            self._send(process, "answer", self.jobs.record(*values))
        except Exception as error:  # raised where the run waits
            self.failure = error
            self.changed.set()

    def on_record(self, process: int, number: int, changes: dict[str, Any], instant: int) -> None:
        """Note that a handler has changed the record of a rigid job."""
        if self.jobs is not None:
            self.jobs.change(number, changes, instant)

    def on_job(self, process: int, method: str, *arguments: Any) -> None:
        """Carry out what a handler does with a rigid job."""
        if self.jobs is not None:
            self.jobs.do(method, *arguments)

    def call(
        self, process: int, count: int, node: int, handler: str, job: int, arguments: tuple[int, ...]
    ) -> None:
        """Have a handler of a node called, for `JobKeeper`."""
        self._send(process, "call", count, node, handler, job, arguments)

    def on_called(self, process: int, count: int, is_done: bool) -> None:
        """Note that a process has called a handler, or that its node is down."""
        if self.jobs is not None:
            self.jobs.confirm_call(process, count, is_done)

    def on_counts(self, process: int, packed: bytes, counts: dict[str, Any]) -> None:
        """Take the counts of a process so far: of messages, and of its environment."""
        self.peers[process].counts = packed, counts

    def on_sent(self, process: int, *values: int) -> None:
        """Count a message that was sent in a process that may be killed."""
        self.network.counters.count(*values)

    def on_got(self, process: int, *values: int) -> None:
        """Count a message that was delivered in such a process."""
        self.network.counters.got(*values)

    def on_dropped(self, process: int, kind: int) -> None:
        """Count a message that was dropped in such a process."""
        self.network.counters.drop(kind)

    def on_forgot(self, process: int, killed: int, life: int) -> None:
        """Note that everything a killed process had sent to a process has arrived."""
        if killed in self.waiting:
            self.waiting[killed].discard(process)
            self._forgotten(killed)

    def on_error(self, process: int, kind: str, said: str, ours: bool) -> None:
        """Handle an error that a handler has raised."""
        self.failure = SchedulerError(said if ours else f"process {process}: {kind}: {said}")

    def on_final(self, process: int, *values: Any) -> None:
        """Note that a process has reported everything."""
        self.peers[process].final = list(values)

    def tell(self, name: str, *values: Any) -> None:
        """Do nothing: the coordinator has no nodes."""

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Write a row of a node whose process was killed."""
        row = self.policy.checked_row(node, table, values)
        self.on_note(COORDINATOR, self.core.now, node, table, row)

    def post(self, kind: MessageKind, message: Any, to: int) -> None:
        """Do nothing: what a killed process sends is lost."""
