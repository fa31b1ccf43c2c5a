"""Calls the handlers of the nodes of one process, in real time: it stands for the message core.

It has what policies use of `gridcore.nodes.message_core.NodeCore`.  Of the nodes of other processes it only
has objects that are never called: what is to reach them goes over a socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import msgspec
import numpy as np

from gridcore.common.names import listed
from gridcore.nodes.random_stream import RandomStream
from gridsim.emulation.engine import ACTS, ARRIVES, FIRES, RealTimeEngine
from gridsim.emulation.queues import MachineQueues
from gridsim.emulation.tasks import Parts, TaskSet, count_of
from gridsim.emulation.view import EmulatedView
from gridsim.emulation.wire import Fact, Kind
from gridsim.errors import SchedulerError
from gridsim.scheduling.nodes.python_board import BoardActions
from gridsim.scheduling.nodes.timers import Timer
from gridsim.support.clock import NS

#: Of a restarted process nodes draw other random numbers than in its life before.
_GOLDEN = 0x9E3779B97F4A7C15
#: See `EmulatedCore.counts`.
_LIFE = 20
#: Maximum number of messages without delay that may follow from one event.
_MAX_INSTANT_MESSAGES = 1 << 16


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
    """

    number: int
    life: int
    engine: RealTimeEngine
    modelled: bool
    network: Any

    def place(self, machine_of: Sequence[int]) -> list[int]:
        """Return the process of each node, given its machine."""

    def tell(self, name: str, *values: Any) -> None:
        """Report to the coordinator."""

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """Report a row that a node writes."""

    def post(self, kind: Kind, message: Any, to: int) -> None:
        """Send a message to a process."""

    def open(self, application: int, tasks: Parts, to: int) -> int:
        """Return the number of a message that moves tasks to a process; 0 if that process is down."""

    def share(self, fact: Fact) -> None:
        """Let the other processes know something."""

    def give(self, node: int, application: int, tasks: int, handler: str) -> None:
        """Give tasks to a node, by the coordinator: some of those that nobody has."""


class EmulatedCore(BoardActions):
    """Runs the nodes of one process; arguments as of `NodeCore`."""

    def __init__(self, links: Any, queues: Any, *, process: Process, **given: Any) -> None:
        self.process, self.engine, self.links = process, process.engine, links
        self.queues: MachineQueues = queues  # or, at the coordinator, a `Ledger`
        self.programs: list[Any] = given["programs"]
        nodes = self.nodes = len(self.programs)
        #: The process of each node.
        self.process_of: list[int] = process.place(links.machine_of)
        self.local = [number == process.number for number in self.process_of]
        self.kinds: list[Kind] = []
        self.by_name: dict[str, Kind] = {}
        for tag, said in enumerate(given["kinds"]):
            self.kinds.append(Kind(tag, *said))
            self.by_name[said[0]] = self.kinds[-1]
        #: Per role: its name, its class, the number after its last node, and the handlers of its nodes.
        self.roles: list[tuple[str, str, int, Sequence[str]]] = []
        self.role_nodes: dict[str, range] = {}
        first = 0
        for name, program, count, handlers in given["roles"]:
            self.roles.append((name, program, first + count, handlers))
            self.role_nodes |= {name: range(first, first + count)} if name else {}
            first += count
        #: Per role: its timers by name.
        self.timers_by_role: list[dict[str, Timer]] = [
            {timer.name: timer for timer in given["timers"] if timer.role in (-1, number)}
            for number in range(len(self.roles))
        ]
        self.neighbours, self.up, self.seed = given["neighbours"], given["up"], given["seed"]
        self.release, self.tasks = given["release"].tolist(), given["tasks"].tolist()
        self.submitter: list[int] = given["submitter"].tolist()
        home = given["home"]
        self.home: list[int] = list(range(queues.machines)) if home is None else home.tolist()
        releases = given["releases"]
        self.release_nodes: list[int] = self.home if releases is None else releases.tolist()
        self.make_application, self.lost, self.noted = (
            given["application"],
            given["report_lost"],
            given["add_note"],
        )
        self.decided, self.checked, self.slots = given["record_decision"], given["convert"], given["slots"]
        self.convert, self.board = self.checked, given["board"]
        self.total = int(sum(self.tasks))
        self.placed_at, self.finished = -1, False
        self.machines: list[int] = links.machine_of  # which nodes may leave for another
        self.views: list[EmulatedView | None] = [None] * nodes
        self.streams: list[RandomStream | None] = [None] * nodes
        self.applications: dict[int, Any] = {}
        self.held: list[dict[int, TaskSet]] = [{} for _ in range(nodes)]  # what nodes know of, and hold
        #: Tasks that are lost here, until the coordinator hears of it.
        self.missing: dict[int, TaskSet] = queues.missing
        #: Of each node, the pending timers: name, instant and fields.
        self.timers: list[dict[tuple[str, int, tuple[float, ...]], None]] = [{} for _ in range(nodes)]
        #: Of each node, the requests without an answer by number, and how many it has sent: from a multiple
        #: of 2**_LIFE on, the next one after each failure.
        self.requests: list[dict[int, Any]] = [{} for _ in range(nodes)]
        self.counts = [process.life << 2 * _LIFE] * nodes
        self.turns: list[set[int]] = [set() for _ in range(nodes)]
        self.starting: set[int] = set()
        self.lives = [0] * nodes
        self.direct: deque[tuple[Kind, Any]] = deque()
        self.touched: dict[int, None] = {}
        self.idle: dict[int, None] = {}
        self.busy = False
        machines = queues.machines
        network = process.network.network
        self.latency, self.jitter = round(network.latency * NS), round(network.jitter * NS)
        self.bandwidth, self.fifo = network.bandwidth, network.interfaces == "fifo"
        self.up_free, self.down_free = [0] * machines, [0] * machines
        level = process.network.level_of
        self.level_of: list[int] = [0] * nodes if level is None else level.tolist()
        self.chance = RandomStream(self.seed ^ 0x6A09E667F3BCC908, max(0, process.number))
        self.counting = True
        #: Messages that came after they were due, by how many ns in all, and at most.
        self.behind = [0, 0, 0]
        #: For each fact that another process may share: what is called with its values, and the limits of
        #: these: so many numbers from 0 on, or any int or float.
        self.learn: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        if self.board is not None:
            rows = len(self.submitter) if self.board.is_per_application else nodes
            columns = len(self.board.numbers)
            self.learn["board"] = super().publish_number, (rows, columns, float, 2)
            self.learn["addition"] = super().add_number, (rows, columns, float, 2)
        if process.number >= 0:
            queues.ended = self._ended

    # -- what policies use ----------------------------------------------------------------------------------

    @property
    def now(self) -> int:  # type: ignore[override]
        """The instant of what is handled, ns."""
        return self.engine.now

    @property
    def events(self) -> int:
        """How much was handled."""
        return self.engine.events

    def role_of(self, node: int) -> int:
        """Return the number of the role of a node."""
        return next(k for k, (_, _, end, _) in enumerate(self.roles) if node < end)

    def handles(self, node: int, name: str) -> bool:
        """Return whether a node has a handler of an event."""
        return name in self.roles[self.role_of(node)][3]

    def _missing_handler(self, node: int, kind: str | None) -> SchedulerError:
        """Return the error of a node without a handler of a kind of message; None: of releases."""
        role, program, _, _ = self.roles[self.role_of(node)]
        what, methods = "tasks were submitted", "on_release"
        if kind is not None:
            what, methods = f"a message {kind!r} arrived", f"on_{kind} or on_message".replace("-", "_")
        return SchedulerError(
            f"t = {self.now / NS} s: {what} at node {node}{f', a {role}' if role else ''}, but {program} "
            f"does not define {methods}"
        )

    def machine_of(self, node: int) -> int:
        """Return the machine on which a node sits now."""
        return self.machines[node]

    def wake(self, time: int) -> None:
        """Do nothing: the engine sees what is posted."""

    def enter(self, now: int) -> None:
        """Do nothing: handlers can be called at any time."""

    def flush(self) -> None:
        """Do nothing: messages leave when they are sent."""

    def drain(self, now: int) -> None:
        """Do nothing: messages are handled when they come."""

    def stop(self) -> None:
        """End the run."""
        self.finished = True

    def view_of(self, node: int, application: int) -> Any:
        """See `NodeCore`."""
        self.know(node, application)
        return self.view(node)

    def resubmit(self, applications: Any, tasks: Any, now: int) -> None:
        """See `NodeCore`."""
        for index, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.submit(index, count, "on_lost")

    def give(self, node: int, application: int, tasks: int) -> None:
        """See `NodeCore`."""
        self.give_to(node, application, tasks, "on_release")

    def submit(self, index: int, tasks: int, handler: str) -> None:
        """Give tasks to the node for releases at their submitter, or to that of the next machine."""
        machines, machine = len(self.release_nodes), self.submitter[index]
        for k in range(machines):
            node = self.release_nodes[(machine + k) % machines]
            if self.up[node]:
                self.give_to(node, index, tasks, handler)
                return
        self.lost(index, tasks, -1)

    def give_to(self, node: int, index: int, tasks: int, handler: str) -> None:
        """Give tasks to a node."""
        self.process.give(node, index, tasks, handler)

    def get(self, node: int, index: int, tasks: Parts, handler: str) -> None:
        """Let a node of this process have tasks that it is given."""
        if not self.up[node]:
            self.task_lost(index, tasks, node)
        else:
            self._hold(node, index, tasks)
            if not self.handles(node, handler):
                raise self._missing_handler(node, None)
            self.call(node, handler, self.application(index), count_of(tasks))

    def task_lost(self, application: int, tasks: Parts, node: int) -> None:
        """Lose tasks on their way to a node."""
        self.missing.setdefault(application, TaskSet()).add(tasks)
        self.lost(application, count_of(tasks), node)

    def tick(self, nodes: Any, name: str, now: int) -> None:
        """See `NodeCore`; nodes of other processes are ticked there."""
        for node in np.asarray(nodes).tolist():
            timer = self.timers_by_role[self.role_of(node)].get(name, Timer(name))
            if self.local[node] and (timer.handler != "on_timer" or self.handles(node, "on_timer")):
                self._call_timer(node, timer, (0.0,) if timer.handler == "on_timer" else ())

    def act(self, nodes: Any, now: int) -> None:
        """See `NodeCore`."""
        for node in np.asarray(nodes).tolist():
            if self.local[node]:
                self.turn(node, now)

    def with_completions(self, now: int) -> list[int]:
        """See `NodeCore`."""
        found: list[int] = self.queues.with_completions()
        return found

    def restart(self, nodes: Any, programs: Sequence[Any], now: int) -> list[tuple[int, int]]:
        """See `NodeCore`."""
        lost = []
        for node, program in zip(np.asarray(nodes).tolist(), programs, strict=True):
            self.programs[node] = program
            self.timers[node].clear()
            self.requests[node].clear()
            self.counts[node] = ((self.counts[node] >> _LIFE) + 1) << _LIFE
            for application, held in self.held[node].items():
                if tasks := len(held):
                    self.missing.setdefault(application, TaskSet()).add(held.take_all())
                    lost.append((application, tasks))
            self.held[node].clear()
            self.lives[node] += 1
            if self.board is not None and not self.board.is_per_application:
                self.board.fail(node, now)
        return lost

    def begin(self, nodes: Any) -> None:
        """See `NodeCore`."""
        for node in np.asarray(nodes).tolist():
            if self.local[node] and self.handles(node, "on_start") and node not in self.starting:
                self.starting.add(node)
                self.engine.push(self.now, ACTS, self._start, node)

    def _start(self, node: int) -> None:
        self.starting.discard(node)
        if self.up[node]:
            self.call(node, "on_start")

    # -- what nodes do --------------------------------------------------------------------------------------

    def application(self, index: int) -> Any:
        """Return an application as nodes see it."""
        found = self.applications.get(index)
        if found is None:
            found = self.applications[index] = self.make_application(index)
        return found

    def stream(self, node: int) -> RandomStream:
        """Return the random stream of a node."""
        found = self.streams[node]
        if found is None:
            seed = (self.seed + self.process.life * _GOLDEN) % 2**64
            found = self.streams[node] = RandomStream(seed, node)
        return found

    def view(self, node: int) -> EmulatedView:
        """Return the view of a node."""
        found = self.views[node]
        if found is None:
            slots = None if self.slots is None else self.slots(node)
            found = self.views[node] = EmulatedView(self, node, slots)
        return found

    def know(self, node: int, application: int) -> None:
        """Let a node know of an application."""
        self.held[node].setdefault(application, TaskSet())

    def _hold(self, node: int, application: int, tasks: Parts) -> None:
        self.held[node].setdefault(application, TaskSet()).add(tasks)

    def holds(self, node: int, application: int) -> int:
        """Return how many tasks of an application a node holds."""
        held = self.held[node].get(application)
        return 0 if held is None else len(held)

    def _place(self, node: int, application: int, tasks: int) -> Parts:
        """Take tasks out of the hands of a node."""
        held = self.holds(node, application)
        if not 0 <= tasks <= held:
            raise self._error(node, f"places {tasks} tasks of application {application}, and has {held}")
        return self.held[node][application].take(tasks) if tasks else ()

    def enqueue(self, node: int, application: int, tasks: int) -> None:
        """See `View`."""
        placed = self._place(node, application, tasks)
        if tasks < 1:
            raise self._error(
                node, f"enqueues {tasks} tasks of application {application}, it must be 1 or more"
            )
        self.queues.enqueue(self.machines[node], application, placed)
        self.touched[self.machines[node]] = None

    def take(self, node: int, application: int, tasks: int) -> int:
        """See `View`."""
        machine = self.machines[node]
        taken = self.queues.withdraw(machine, application, tasks)
        if taken:
            self._hold(node, application, taken)
            self.touched[machine] = None
            self.idle[machine] = None
        return count_of(taken)

    def error(self, node: int, text: str) -> SchedulerError:
        """Return an error that a node causes now."""
        return self._error(node, text)

    def publish_number(self, row: int, column: int, value: float, falling: bool) -> None:
        """See `BoardActions`."""
        super().publish_number(row, column, value, falling)
        self.process.share(Fact("board", [row, column, value, int(falling)]))

    def add_number(self, row: int, column: int, delta: float, is_last: bool) -> None:
        """See `BoardActions`."""
        super().add_number(row, column, delta, is_last)
        self.process.share(Fact("addition", [row, column, delta, int(is_last)]))

    def note(self, node: int, table: str, values: Mapping[str, Any]) -> None:
        """See `View`."""
        self.process.note(node, table, values)

    def _known_timer(self, node: int, action: str, name: str) -> Timer:
        """Return a timer that a node sets or cancels."""
        timers = self.timers_by_role[self.role_of(node)]
        timer = timers.get(name)
        if timer is None or timer.handler == "on_timer" and not self.handles(node, "on_timer"):
            raise self._error(
                node,
                f"{action} the timer {name!r}, which has no handler and is not in the scheduler's timers; "
                f"{listed(timers, name)}",
            )
        return timer

    def _timer_fields(
        self, node: int, timer: Timer, fields: Mapping[str, Any], types: Mapping[str, type]
    ) -> dict[str, float]:
        """Return `fields` of a timer as numbers of their types."""
        for each in fields:
            if each not in types:
                raise self._error(
                    node, f"gives the timer {timer.name!r} a field {each!r}; {listed(types, each)}"
                )
        return {each: self.checked(types[each], value, node, each) for each, value in fields.items()}

    def set_timer(self, node: int, due: int, name: str, fields: Mapping[str, Any]) -> None:
        """Set a timer, unless the same one is set."""
        timer = self._known_timer(node, "sets", name)
        types = {"value": float} if timer.handler == "on_timer" else timer.fields
        fields = {**timer.defaults, **self._timer_fields(node, timer, fields, types)}
        if missing := [each for each in timer.fields if each not in fields]:
            raise self._error(node, f"sets the timer {name!r} without {', '.join(missing)}")
        key = name, due, tuple(fields[each] for each in timer.fields) or (fields.get("value", 0.0),)
        if key not in self.timers[node]:
            self.timers[node][key] = None
            self.engine.push(due, FIRES, self._fire, node, key, self.lives[node])

    def cancel(self, node: int, name: str, fields: Mapping[str, Any]) -> None:
        """Cancel the timers with these fields."""
        timer = self._known_timer(node, "cancels", name)
        wanted = self._timer_fields(node, timer, fields, timer.fields)
        for key in [key for key in self.timers[node] if key[0] == name]:
            given = dict(zip(timer.fields, key[2], strict=False))
            if all(given[each] == value for each, value in wanted.items()):
                del self.timers[node][key]

    def _fire(self, node: int, key: tuple[str, int, tuple[float, ...]], life: int) -> None:
        if self.lives[node] == life and self.timers[node].pop(key, self) is None:
            self._call_timer(node, self.timers_by_role[self.role_of(node)][key[0]], key[2])

    def _call_timer(self, node: int, timer: Timer, fields: tuple[float, ...]) -> None:
        if timer.handler != "on_timer":
            self.call(node, timer.handler, *fields[: len(timer.fields)])
        else:
            self.call(node, "on_timer", timer.name, *(fields if self.handles(node, "value") else ()))

    def turn(self, node: int, due: int) -> None:
        """Let a node act at `due` ns."""
        if due not in self.turns[node]:
            self.turns[node].add(due)
            self.engine.push(due, ACTS, self._turn, node, due)

    def _turn(self, node: int, due: int) -> None:
        self.turns[node].discard(due)
        if self.up[node]:
            self.call(node, "on_act")

    def _fields(self, node: int, name: str, fields: Mapping[str, Any], *, local: bool) -> tuple[Kind, Any]:
        kind = self.by_name.get(name)
        if kind is None or (kind.number < 0) != local or fields.keys() != kind.fields.keys():
            known = listed(self.by_name if kind is None else kind.fields, name)
            raise self._error(
                node, f"sends {name!r} with {', '.join(fields)}, which is not declared; {known}"
            )
        given = {}
        for each, wanted in kind.fields.items():
            value = fields[each]
            given[each] = value if type(value) is wanted else self.checked(wanted, value, node, each)
        if kind.about and given["application"] not in self.held[node]:
            raise self._error(node, f"sends {name!r} with an application of which it has not heard")
        return kind, given

    def send(self, node: int, to: int, name: str, fields: Mapping[str, Any]) -> None:
        """See `View`."""
        kind, given = self._fields(node, name, fields, local=False)
        if not 0 <= to < self.nodes:
            raise self._error(node, f"sends {name!r} to node {to}; it must be in 0..{self.nodes - 1}")
        nbytes = kind.nbytes_of(given)
        tasks: Parts = ()
        if kind.moves:
            tasks = self._place(node, given["application"], given["tasks"])
        here, there = self.machines[node], self.machines[to]
        outside = here != there
        due = self.now
        if kind.delay > 0:
            due = self.engine.clock() + kind.delay
        elif outside and kind.delay < 0:
            due = self._leaves(here, nbytes) if self.process.modelled else self.engine.clock()
        if outside and self.counting:
            self.links.count(kind.number, nbytes, self.level_of[node], here, there)
        if self.local[to] and (kind.delay == 0 or not outside):
            message = kind.type(node=to, sender=node, _due=due, _move=0, _tasks=tasks, **given)
            if kind.delay == 0:
                self.direct.append((kind, message))
            else:
                self.engine.push(due, ARRIVES, self._deliver, kind, message, self.lives[to], outside)
            return
        packed = kind.pack(given) if kind.arrays else given
        there, move = self.process_of[to], 0
        if kind.moves and not (move := self.process.open(given["application"], tasks, there)):
            if outside and self.counting:
                self.links.drop(kind.number)
            self.task_lost(given["application"], tasks, to)
            return
        message = kind.type(node=to, sender=node, _due=due, _move=move, _tasks=tasks, **packed)
        self.process.post(kind, message, there)

    def _leaves(self, machine: int, nbytes: int) -> int:
        """Return when the head of a message arrives that is sent now."""
        now, latency = self.engine.clock(), self.latency
        if self.jitter:
            latency += int(self.chance.integers(-self.jitter, self.jitter + 1))
        if not self.fifo:
            return int(now + latency + round(nbytes / self.bandwidth * NS))
        start = max(now, self.up_free[machine])
        self.up_free[machine] = start + round(nbytes / self.bandwidth * NS)
        return int(start + latency)

    def request(self, node: int, to: int, name: str, after: int, fields: Mapping[str, Any]) -> int:
        """See `View`."""
        kind = self.by_name.get(name)
        if kind is None or not kind.answers or "request" in fields or not self.handles(node, "on_timeout"):
            raise self._error(
                node, f"requests {name!r}, which has no answer, or without on_timeout, or with its number"
            )
        number = self.counts[node] * self.nodes + node + 1
        self.send(node, to, name, {**fields, "request": number})
        self.counts[node] += 1
        sent = {each: self.checked(kind.fields[each], value, node, each) for each, value in fields.items()}
        self.requests[node][number] = SimpleNamespace(kind=name, number=number, to=to, **sent)
        self.engine.push(self.now + after, FIRES, self._time_out, node, number)
        return number

    def _time_out(self, node: int, number: int) -> None:
        request = self.requests[node].pop(number, None)
        if request is not None:
            self.call(node, "on_timeout", request)

    def later(self, node: int, after: int, name: str, fields: Mapping[str, Any]) -> None:
        """See `View`."""
        kind, given = self._fields(node, name, fields, local=True)
        message = kind.type(node=node, sender=node, _due=self.now + after, _move=0, _tasks=(), **given)
        self.engine.push(self.now + after, ARRIVES, self._deliver, kind, message, self.lives[node], False)

    def _error(self, node: int, what: str) -> SchedulerError:
        return SchedulerError(f"t = {self.now / NS} s: node {node} {what}")

    # -- what happens to nodes ------------------------------------------------------------------------------

    def come(self, message: Any) -> None:
        """Take what has come from another process; raises ValidationError for what cannot be."""
        if type(message) is Fact:
            call, limits = self.learn.get(message.name, (None, ()))
            if call is None or len(limits) != len(message.values):
                raise msgspec.ValidationError(f"a fact {message.name[:40]!r} of {len(message.values)} values")
            if not all(map(_within, message.values, limits)):
                raise msgspec.ValidationError(f"a fact {message.name!r} of other values")
            self.engine.push(self.engine.clock(), ARRIVES, call, *message.values)
            return
        kind, node = self.by_name[message.kind], message.node
        known = 0 <= node < self.nodes and self.local[node] and 0 <= message.sender < self.nodes
        if not known or kind.number < 0:
            raise msgspec.ValidationError(f"a message {kind.name!r} from {message.sender} to node {node}")
        if kind.about and not 0 <= message.application < len(self.submitter):
            raise msgspec.ValidationError(f"a message {kind.name!r} of application {message.application}")
        most = self.tasks[message.application] if kind.moves else 0
        known = all(0 <= first < end <= most for first, end in message._tasks)
        if not known or (kind.moves and message.tasks != count_of(message._tasks)):
            raise msgspec.ValidationError(f"a message {kind.name!r} with tasks {message._tasks[:4]}")
        kind.unpack(message)
        if message._move:
            self.process.tell("shut", message._move)
        here, due = self.engine.clock(), message._due
        outside = self.machines[node] != self.machines[message.sender]
        if due < here:
            if outside and self.process.modelled and kind.delay != 0:
                self.behind[0] += 1
                self.behind[1] += here - due
                self.behind[2] = max(self.behind[2], here - due)
            due = here
        waits = outside and self.process.modelled and self.fifo and kind.delay < 0
        call = self._head if waits else self._deliver
        self.engine.push(due, ARRIVES, call, kind, message, self.lives[node], outside)

    def _head(self, kind: Kind, message: Any, life: int, outside: bool) -> None:
        """Let the receiver's interface take a message whose head has come."""
        machine, now = self.machines[message.node], self.now
        nbytes = kind.nbytes_of({name: getattr(message, name) for name in kind.fields})
        free = max(now, self.down_free[machine]) + round(nbytes / self.bandwidth * NS)
        self.down_free[machine] = free
        if free == now:
            self._deliver(kind, message, life, outside)
        else:
            self.engine.push(free, ARRIVES, self._deliver, kind, message, life, outside)

    def _deliver(self, kind: Kind, message: Any, life: int, outside: bool) -> None:
        node = message.node
        if not self.up[node] or self.lives[node] != life:
            if outside and self.counting:
                self.links.drop(kind.number)
            if kind.moves:
                self.task_lost(message.application, message._tasks, node)
            return
        if outside and self.counting:
            self.links.got(kind.number)
        if kind.is_answer and message.request and self.requests[node].pop(message.request, None) is None:
            if not kind.moves:  # a late answer is dropped, but not the tasks in it
                return
            message.request = 0
        if kind.about:
            self._hold(node, message.application, message._tasks)
        handler = kind.handlers[self.role_of(node)]
        if handler is None:
            raise self._missing_handler(node, kind.name)
        self.call(node, handler, message)

    def _ended(self, machine: int, application: int) -> None:
        """A task has ended on a machine."""
        node = self.home[machine]
        if self.up[node]:
            if self.handles(node, "on_done"):
                self.know(node, application)
                self.call(node, "on_done", self.application(application), settle=False)
            if self.handles(node, "on_end") and self.queues.watch == "completion":
                self.call(node, "on_end", settle=False)
        self.touched[machine] = None
        self.idle[machine] = None
        self.settle()

    def call(self, node: int, name: str, *given: Any, settle: bool = True) -> None:
        """Call a handler, and then what follows from it."""
        getattr(self.programs[node], name)(self.view(node), *given)
        if settle and not self.busy:
            self.settle()

    def settle(self) -> None:
        """Handle messages that take no time, let machines begin tasks, and tell those that are idle."""
        if self.busy:
            return
        self.busy, most = True, _MAX_INSTANT_MESSAGES
        try:
            while True:
                if self.direct:
                    kind, message = self.direct.popleft()
                    outside = self.machines[message.node] != self.machines[message.sender]
                    self._deliver(kind, message, self.lives[message.node], outside)
                elif self.touched:
                    machine, _ = self.touched.popitem()
                    self.queues.settle(machine)
                elif self.idle:
                    machine, _ = self.idle.popitem()
                    node = self.home[machine]
                    if self.handles(node, "on_idle") and self.up[node] and not self.queues.tasks(machine):
                        self.call(node, "on_idle", settle=False)
                else:
                    return
                most -= 1
                if not most:
                    raise SchedulerError(f"t = {self.now / NS} s: nodes act at one instant for ever")
        finally:
            self.busy = False
