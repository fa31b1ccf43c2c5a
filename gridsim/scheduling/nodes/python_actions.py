"""The state of a readable message core, and the actions of its nodes.

`PythonView` calls the actions; `gridsim.scheduling.nodes.python_core` has the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import listed
from gridcore.common.state import LATEST
from gridcore.network.links import Links
from gridcore.nodes.board import Board
from gridcore.nodes.kinds import MessageKind
from gridcore.nodes.random_stream import RandomStream
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.scheduling.nodes.python_board import BoardActions
from gridsim.scheduling.nodes.python_mail import Letter, Mail
from gridsim.scheduling.nodes.python_timers import LocalMail, NodeTimer, Timers
from gridsim.scheduling.nodes.timers import Timer
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

__all__ = ["NodeRole", "PythonActions", "fields_of"]

#: Number of fields of the timer of a request before those of its message.
_REQUEST_FIELDS = 3
#: Numbers of requests of a node begin at multiples of 2**_REQUEST_BITS, at the next one after each failure.
_REQUEST_BITS = 24
#: Durations of this many seconds or more count as `LATEST` ns.
_LONGEST_DURATION = 2e9


class NodeRole(NamedTuple):
    """A role of nodes.

    Parameters
    ----------
    name
        Its name; "" if the scheduler declares no roles.
    program
        The name of the class of its nodes.
    nodes
        The numbers of its nodes.
    handlers
        The handlers of events that its nodes have.
    """

    name: str
    program: str
    nodes: range
    handlers: frozenset[str]


class PythonActions(BoardActions):
    """The state and the actions of nodes, with the parameters of `gridcore.nodes.message_core.NodeCore`.

    Attributes
    ----------
    now
        The simulated time, ns.
    holdings
        For each node, application -> number of tasks that the node must place.  A node knows exactly the
        applications that it has here.
    outbox
        For each kind, the messages that leave at the end of the wave.
    acting
        Name of an act -> the nodes or machines for which it is due at this instant.
    """

    def __init__(
        self,
        links: Links,
        queues: TaskQueues,
        *,
        kinds: Iterable[tuple[Any, ...]],
        roles: Iterable[tuple[str, str, int, Iterable[str]]],
        timers: Iterable[tuple[Any, ...]],
        neighbours: NDArray[np.int64],
        neighbour_offsets: NDArray[np.int64],
        nodes: int,
        application: Callable[[int], Any],
        seed: int,
        add_note: Callable[..., None],
        record_decision: Callable[..., None],
        convert: Callable[..., Any],
        error_type: type[Exception],
        observe: Callable[..., None] | None,
        at_once: bool,
        board: Board | None,
        only_node: int,
    ) -> None:
        self.links, self.queues, self.nodes = links, queues, nodes
        self.neighbours, self.neighbour_offsets = neighbours, neighbour_offsets
        self.roles = _numbered_roles(roles)
        self.role_nodes = {role.name: role.nodes for role in self.roles if role.name}
        self.handlers = frozenset[str]().union(*(role.handlers for role in self.roles))
        self.make_application, self.seed, self.board = application, seed, board
        self.add_note, self.record_decision = add_note, record_decision
        self.convert, self.error_type, self.at_once = convert, error_type, at_once
        self.now = 0
        self.only_node = only_node
        # messages sent by the only node: (receiver, kind, fields)
        self.sent: list[tuple[int, str, dict[str, Any]]] = []
        self.received: list[Letter] = []  # messages received by the only node
        self.kinds = [MessageKind(*kind) for kind in kinds]
        self.by_name = {kind.name: kind for kind in self.kinds}
        self.local = LocalMail([kind for kind in self.kinds if kind.number < 0], nodes)
        numbered = sorted((kind for kind in self.kinds if kind.number >= 0), key=lambda kind: kind.number)
        self.mail = self.make_mail(links, numbered, observe)
        self.outbox: dict[str, list[Letter]] = {kind.name: [] for kind in numbered}
        self.read_only_reason = ""  # why nodes cannot act now
        self.is_observed = False  # whether a column of `Observe` reads nodes
        self.recorder: Any = None  # recorder of the current handler call, if its node is recorded
        self.applications: dict[int, Any] = {}
        self.holdings: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.streams: dict[int, RandomStream] = {}
        self.timer_kinds = [Timer(*entry) for entry in timers]
        self._number_requests()
        self.timers, self.turns = Timers(nodes), Timers(nodes)  # `turns` has the instants of `on_act`
        self.acting: dict[str, set[int]] = {"reorder": set(), "start": set(), "end": set(), "idle": set()}
        #: Machine -> application -> completed tasks that no node has read.
        self.unread_completions: dict[int, dict[int, int]] = {}

    def make_mail(self, links: Links, kinds: list[MessageKind], observe: Callable[..., None] | None) -> Mail:
        """Create the mail for messages of `kinds`, which are in the order of their numbers."""
        return Mail(links, kinds, observe)

    def error(self, node: int, text: str) -> Exception:
        """Return an error caused by `node` at the current time."""
        return self.error_type(f"t = {self.now / NS} s: node {node} {text}")

    def check_may_act(self, node: int) -> None:
        """Raise an error in handlers of deferred messages, and in columns of `Observe`."""
        if self.read_only_reason:
            raise self.error(node, f"acts in {self.read_only_reason}")

    def check_may_note(self, node: int) -> None:
        """Raise an error in columns of `Observe`."""
        if self.is_observed:
            self.check_may_act(node)

    def later_by(self, seconds: float) -> int:
        """Return the instant `seconds` >= 0 from now, ns."""
        return self.now + (round(seconds * NS) if seconds < _LONGEST_DURATION else LATEST)

    # -- knowledge of nodes ----------------------------------------------------------------------------

    def role_number(self, node: int) -> int:
        """Return the index of the role of `node`."""
        return next(k for k, role in enumerate(self.roles) if node in role.nodes)

    def role_of(self, node: int) -> NodeRole:
        """Return the role of `node`."""
        return self.roles[self.role_number(node)]

    def handles(self, node: int, event: str) -> bool:
        """Return whether `node` has the handler `event`, such as ``on_idle``."""
        return event in self.role_of(node).handlers

    def nodes_with_role(self, node: int, name: str) -> range:
        """Return the nodes with the role `name`; raise an error of `node` if there is no such role."""
        if name not in self.role_nodes:
            known = listed(self.role_nodes, name)
            raise self.error(node, f"uses the role {name!r}, which the scheduler does not declare; {known}")
        return self.role_nodes[name]

    def machine_of(self, node: int) -> int:
        """Return the machine on which `node` runs now."""
        return self.links.machine(node)

    def application(self, index: int) -> Any:
        """Return an application as nodes see it."""
        if index not in self.applications:
            self.applications[index] = self.make_application(index)
        return self.applications[index]

    def stream(self, node: int) -> RandomStream:
        """Return the random stream of `node`."""
        if node not in self.streams:
            self.streams[node] = RandomStream(self.seed, node)
        return self.streams[node]

    def hold(self, node: int, application: int, tasks: int = 0) -> None:
        """Make an application known to `node`, and add tasks of it that the node must place."""
        holdings = self.holdings[node]
        holdings[application] = holdings.get(application, 0) + tasks

    def check_known(self, node: int, application: int) -> None:
        """Raise an error if `node` does not know the application."""
        if application not in self.holdings[node]:
            raise self.error(
                node,
                f"does not know application {application}; it knows those released here, and those in the "
                "field application of its messages",
            )

    def tasks_to_place(self, node: int, application: int) -> int:
        """Return the number of tasks of the application that `node` must place."""
        return self.holdings[node].get(application, 0)

    def mark_placed(self, node: int, application: int, tasks: int) -> None:
        """Subtract tasks from the tasks that `node` must place."""
        count = self.tasks_to_place(node, application)
        if not 0 <= tasks <= count:
            raise self.error(
                node,
                f"places {tasks} tasks of application {application}, but has {count} to place; "
                f"{self._holders(node, application)}",
            )
        if tasks:
            self.holdings[node][application] = count - tasks

    def _holders(self, node: int, application: int) -> str:
        """Return a text that names another node with tasks of the application to place."""
        for other in range(self.nodes):
            if other != node and (tasks := self.tasks_to_place(other, application)):
                return f"node {other} has {tasks} of its tasks to place"
        return "no other node has any: each task is placed once, or moved to another node"

    # -- the board --------------------------------------------------------------------------------------

    def publish_number(self, row: int, column: int, value: float, falling: bool) -> None:
        """Publish a number of a node or an application."""
        board = self.board
        assert board is not None
        name = board.numbers[column]
        about = {"application": row} if board.is_per_application else {}
        self._record("publish", {**about, "value" if name == "values" else name: value})
        super().publish_number(row, column, value, falling)

    def add_number(self, row: int, column: int, delta: float, is_last: bool) -> None:
        """Add `delta` to a published number; `is_last` marks the last number of an addition."""
        assert self.board is not None
        self._record("add", {"node": row, "delta": delta}, self.board.numbers[column])
        super().add_number(row, column, delta, is_last)

    # -- machines ---------------------------------------------------------------------------------------

    def queue(self, machine: int) -> tuple[Integers, Integers, int, int]:
        """Return (applications, tasks, running application or -1, its end in ns) of a machine."""
        self.queues.catch_up(self.now, [machine])
        return self.queues.queue(machine)

    def waiting_at(self, machine: int) -> int:
        """Return the number of tasks that wait at `machine`; running tasks do not count."""
        _, tasks, _, _ = self.queue(machine)
        return int(tasks.sum())

    def tasks_at(self, machine: int) -> int:
        """Return the number of tasks that wait or run at `machine`."""
        return self.waiting_at(machine) + self.running_at(machine)

    def running_at(self, machine: int) -> int:
        """Return the number of tasks that `machine` runs."""
        # even an idle machine starts a task only at the end of the instant at which the task is enqueued
        return self.queues.running_count(machine, self.now)

    def work_of(self, machine: int) -> float:
        """Return the time (s) that `machine` needs for its running and waiting tasks."""
        return self.queues.work(machine, self.now)

    def availability_of(
        self, machine: int, grid: SummaryGrid, release: int, memory: int
    ) -> NDArray[np.uint32]:
        """Return the numbers of further tasks that `machine` could take if released at `release` ns.

        Each of them takes `memory` bytes.
        """
        if not self.now <= release <= LATEST:
            raise ValueError(f"release must be in {self.now}..{LATEST} ns, got {release}")
        if memory < 0:
            raise ValueError(f"memory must be >= 0 bytes, got {memory}")
        samples = self.queues.summaries([machine], grid, self.now, cell=release, memory=memory)
        sample: NDArray[np.uint32] = samples[0]
        return sample

    def completed(self, node: int) -> list[tuple[int, int]]:
        """Return the (application, tasks) pairs completed on the machine of `node` and not read yet."""
        if not self.queues.log or "on_done" in self.handlers:
            raise self.error(
                node,
                "calls view.completed, which requires reports = True in the class of the scheduler, and "
                "nodes without on_done",
            )
        machine = self.machine_of(node)
        self.queues.catch_up(self.now, [machine])
        self.read_completions()
        done = sorted(self.unread_completions.pop(machine, {}).items())
        for application, _ in done:
            self.hold(node, application)
        return done

    def read_completions(self) -> None:
        """Move the logged completions of the queues to `unread_completions`."""
        for machine, application, tasks in self.logged_completions():
            done = self.unread_completions.setdefault(machine, {})
            done[application] = done.get(application, 0) + tasks

    def logged_completions(self) -> list[tuple[int, int, int]]:
        """Return the completions that the queues have logged: (machine, application, tasks)."""
        machines, applications, tasks, _ = self.queues.advance(self.now, np.zeros(0, np.int64))
        return [*zip(machines.tolist(), applications.tolist(), tasks.tolist(), strict=True)]

    def enqueue(self, node: int, application: int, tasks: int) -> None:
        """Enqueue tasks that `node` must place on its machine."""
        self.mark_placed(node, application, tasks)
        if not 1 <= tasks < 2**31:
            raise self.error(
                node,
                f"enqueues tasks of application {application}: tasks must be in 1..{2**31 - 1}, got {tasks}",
            )
        machine = self.machine_of(node)
        self.queues.enqueue([machine], [application], [tasks], self.now)
        self.acting["reorder"].add(machine)
        self._record("enqueue", {"application": application, "tasks": tasks})

    def take(self, node: int, application: int, tasks: int) -> int:
        """Withdraw up to `tasks` waiting tasks from the machine of `node`, which must place them."""
        machine = self.machine_of(node)
        if tasks < 0:
            raise self.error(
                node, f"takes tasks of application {application}: tasks must be at least 0, got {tasks}"
            )
        count = self.queues.withdraw(machine, application, tasks, self.now)
        if count:
            self.hold(node, application, count)
            self.acting["reorder"].add(machine)
            if "on_idle" in self.handlers and not self.queues.is_busy([machine])[0]:
                self.acting["idle"].add(machine)
            self._record("take", {"application": application, "tasks": count})
        return count

    def _record(self, entry: str, fields: Mapping[str, float], name: str = "") -> None:
        """Report an action of a recorded node."""
        if self.recorder is not None:
            self.recorder.add(entry, fields, name)

    # -- timers -----------------------------------------------------------------------------------------

    def timers_for(self, node: int) -> dict[str, int]:
        """Return name -> number of the timers that `node` may set."""
        role = self.role_number(node)
        return {kind.name: k for k, kind in enumerate(self.timer_kinds) if kind.role in (-1, role)}

    def set_timer(
        self, node: int, name: str, seconds: float, value: float | None, fields: dict[str, float]
    ) -> None:
        """Set a timer that fires `seconds` from now."""
        number, values = self._checked_timer(node, name, value, fields)
        self._check_timer_time(node, number, seconds, is_possible=0 <= seconds < inf)
        self.timers.set(self.later_by(seconds), node, number, values)

    def set_timer_at(
        self, node: int, name: str, instant: int, value: float | None, fields: dict[str, float]
    ) -> None:
        """Set a timer that fires at `instant` ns."""
        number, values = self._checked_timer(node, name, value, fields)
        seconds = (instant - self.now) / NS
        self._check_timer_time(node, number, seconds, is_possible=self.now <= instant <= LATEST)
        self.timers.set(instant, node, number, values)

    def _checked_timer(
        self, node: int, name: str, value: float | None, fields: dict[str, float]
    ) -> tuple[int, tuple[float, ...]]:
        """Return the number of the timer `name`, and its fields."""
        numbers = self.timers_for(node)
        if name not in numbers and name in self.by_name:
            raise self.error(node, f"sets the timer {name!r}, which is a kind of message; rename the timer")
        if name not in numbers:
            raise self.error(
                node,
                f"sets the timer {name!r}, which has no handler and is not in the scheduler's timers; define "
                f"on_{name} in {self.role_of(node).program}; {listed(numbers, name)}",
            )
        kind = self.timer_kinds[numbers[name]]
        if kind.handler == "on_timer":
            if fields:
                raise self._timer_field_error(node, kind, "sets", fields)
            value = 0.0 if value is None else value
            return numbers[name], (self.convert(float, value, node, f"the value of the timer {name!r}"),)
        fields = {**kind.defaults, **fields, **({} if value is None else {"value": value})}
        if fields.keys() != kind.fields.keys():
            raise self._timer_field_error(node, kind, "sets", fields)
        return numbers[name], tuple(self._timer_fields(node, kind, fields).values())

    def _timer_fields(self, node: int, kind: Timer, fields: Mapping[str, float]) -> dict[int, float]:
        """Return fields of a timer by their position."""
        return {
            k: self.convert(declared, fields[name], node, f"{name} of the timer {kind.name!r}")
            for k, (name, declared) in enumerate(kind.fields.items())
            if name in fields
        }

    def _timer_field_error(
        self, node: int, kind: Timer, action: str, fields: Mapping[str, float]
    ) -> Exception:
        """Return the error for unknown or missing fields of a timer."""
        text = f"{action} the timer {kind.name!r}"
        for name in fields:
            if kind.handler == "on_timer":
                return self.error(
                    node,
                    f"{text} with {name!r}, but a timer that on_timer handles has only a value; define "
                    f"on_{kind.name} for a timer with fields",
                )
            if name not in kind.fields:
                return self.error(node, f"{text}, which has no field {name!r}; {listed(kind.fields, name)}")
        missing = [name for name in kind.fields if name not in fields]
        known = ", ".join(kind.fields)
        return self.error(node, f"{text} without {', '.join(missing)}; its fields are {known}")

    def _check_timer_time(self, node: int, number: int, seconds: float, *, is_possible: bool) -> None:
        kind = self.timer_kinds[number]
        text = f"sets the timer {kind.name!r}"
        if kind.handler == "on_timer" and not self.handles(node, "on_timer"):
            raise self.error(node, f"{text}, which requires the method on_timer")
        if not is_possible:
            raise self.error(node, f"{text}: the time until then must be finite and >= 0 s, got {seconds!r}")

    def cancel_timers(self, node: int, name: str, fields: dict[str, float]) -> None:
        """Cancel the timers `name` of `node` that have the given `fields`."""
        known = self.timers_for(node)
        if name not in known:
            raise self.error(
                node,
                f"cancels the timer {name!r}, which has no handler and is not in the scheduler's timers; "
                f"{listed(known, name)}",
            )
        kind = self.timer_kinds[known[name]]
        if not fields.keys() <= kind.fields.keys():
            raise self._timer_field_error(node, kind, "cancels", fields)
        self.timers.cancel(node, known[name], self._timer_fields(node, kind, fields))

    def act_after(self, node: int, seconds: float) -> None:
        """Schedule a call of `on_act` of `node`, `seconds` from now."""
        if not self.handles(node, "on_act"):
            raise self.error(node, "calls act, which requires the method on_act")
        if not 0 <= seconds < inf:
            raise self.error(node, f"calls act: seconds must be finite and >= 0, got {seconds!r}")
        self.turns.set(self.later_by(seconds), node)

    # -- requests: a pending request is a timer with its number, receiver, kind and fields -------------------

    def _number_requests(self) -> None:
        """Create the counters of requests, if there are kinds with answers."""
        kinds = [kind for kind in self.mail.kinds if kind.answers]
        self.request_timer = len(self.timer_kinds) if kinds else -1
        self.request_counts = [0] * self.nodes if kinds else []
        #: Number of a request -> its timer.
        self.pending_requests: dict[int, NodeTimer] = {}
        if kinds:
            words = _REQUEST_FIELDS + max(kind.n - 1 for kind in kinds)
            fields: dict[str, type] = {str(k): int for k in range(words)}
            self.timer_kinds.append(Timer("timeout", "on_timeout", fields, {}, -2))

    def request(self, node: int, to: int, name: str, seconds: float, fields: dict[str, Any]) -> int:
        """Send a request, which waits `seconds` for an answer, and return its number.

        The number is unique in the run.  It depends on the failures of the node, and on its requests since
        the last one.
        """
        self._check_request(node, name, seconds)
        number = self.request_counts[node] * self.nodes + node + 1
        kind, letter = self._letter(node, to, name, {**fields, "request": number})
        self.request_counts[node] += 1
        values = [getattr(letter.message, field) for field in kind.fields[:-1]]
        timer = self.timers.set(
            self.later_by(seconds), node, self.request_timer, (number, to, kind.number, *values)
        )
        self.pending_requests[number] = timer
        self._leave(kind, letter)
        return number

    def _check_request(self, node: int, name: str, seconds: float) -> None:
        kind, text = self.by_name.get(name), f"requests {name!r}"
        if kind is None:
            raise self.error(
                node, f"sends {name!r}, which is not a kind of message; {listed(self.by_name, name)}"
            )
        if not kind.answers:
            raise self.error(node, f"{text}, which has no answer: declare it as Message(..., answer=...)")
        if not self.handles(node, "on_timeout"):
            program = self.role_of(node).program
            raise self.error(node, f"{text}, which requires the method on_timeout in {program}")
        if not 0 <= seconds < inf:
            raise self.error(node, f"{text}: timeout must be finite and >= 0 s, got {seconds!r}")
        if self.request_counts[node] >= LATEST // self.nodes:
            raise self.error(node, f"{text}, but its machine has failed too often to number its requests")

    def check_reply(self, node: int, request: str, name: str) -> None:
        """Raise an error unless messages `name` answer requests of the kind `request`."""
        answers = self.by_name[request].answers if request in self.by_name else ()
        if name not in answers:
            raise self.error(
                node,
                f"replies to {request!r} with {name!r}, which is not its answer; {listed(answers, name)}",
            )

    def end_request(self, node: int, number: int) -> bool:
        """End the wait of `node` for an answer; return False if it no longer waits for it."""
        timer = self.pending_requests.get(number)
        if timer is None or timer.node != node:
            return False
        del self.pending_requests[number]
        return self.timers.fire(timer)

    def forget_requests(self, node: int) -> None:
        """Delete the requests of a node that fails, whose timers are cancelled afterwards."""
        for timer in self.timers.of(node):
            if timer.name == self.request_timer:
                del self.pending_requests[int(timer.fields[0])]
        if self.request_counts:
            # numbers that differ from those of earlier incarnations, to which answers may still arrive
            self.request_counts[node] = ((self.request_counts[node] >> _REQUEST_BITS) + 1) << _REQUEST_BITS

    def _request_of(self, timer: NodeTimer) -> Any:
        """Return the request of a timer, for `on_timeout`."""
        number, to, kind_number, *values = timer.fields
        kind = self.mail.kinds[int(kind_number)]
        return kind.request(int(number), int(to), values)

    # -- messages ---------------------------------------------------------------------------------------

    def send(self, node: int, to: int, name: str, fields: dict[str, Any]) -> None:
        """Send a message: at the end of the wave, or at once."""
        if name in self.by_name and self.by_name[name].request_at >= 0:
            is_absent = self.only_node not in (-1, node)  # a test delivers a message from this node
            if self.by_name[name].answers and "request" in fields and not is_absent:
                raise self.error(node, f"sends {name!r} with a number of a request; view.request numbers it")
            fields = {"request": 0, **fields}
        self._leave(*self._letter(node, to, name, fields))

    def _letter(self, node: int, to: int, name: str, fields: dict[str, Any]) -> tuple[MessageKind, Letter]:
        """Create a message, and remove its tasks from `node`; return the kind and the letter."""
        kind = self._declared_kind(node, to, name, fields, is_local=False)
        message = self._message(node, kind, fields)
        nbytes = self.size_of(node, kind, message)
        if kind.application_at >= 0 and message.application not in self.holdings[node]:
            raise self.error(
                node, f"sends {name!r} with application {message.application}, which it does not know"
            )
        if kind.moves_tasks:
            self.mark_placed(node, message.application, message.tasks)
        return kind, Letter(to, message, nbytes)

    def _leave(self, kind: MessageKind, letter: Letter) -> None:
        """Send a message now, or at the end of the wave."""
        if kind.delay < 0 and not self.at_once:
            self.outbox[kind.name].append(letter)
            return
        if self.recorder is not None:
            self.recorder.sent(kind.name, letter.to, fields_of(letter.message), kind.delay)
        self._send(kind, [letter])

    def _send(self, kind: MessageKind, letters: list[Letter]) -> None:
        """Send messages; if only one node exists, record its messages to and from other nodes instead."""
        if self.only_node >= 0:
            letters = [letter for letter in letters if not self._ends_here(kind, letter)]
        if letters:
            self.mail.send(self.now, kind, letters)

    def _ends_here(self, kind: MessageKind, letter: Letter) -> bool:
        """Record a message if only one node exists; return whether its receiver or sender does not exist."""
        if letter.message.sender != self.only_node:
            self.received.append(letter)
            return True
        self.sent.append((letter.to, kind.name, fields_of(letter.message)))
        return letter.to != self.only_node

    def later(self, node: int, seconds: float, name: str, fields: dict[str, Any]) -> None:
        """Send a message of a local kind to `node` itself."""
        kind = self._declared_kind(node, node, name, fields, is_local=True)
        seconds = self.convert(float, seconds, node, f"the time until {name!r}")
        if not 0 <= seconds < inf:
            raise self.error(
                node, f"sends {name!r} to itself: seconds must be finite and >= 0, got {seconds!r}"
            )
        message = self._message(node, kind, fields)
        if kind.application_at >= 0:
            self.check_known(node, message.application)
        self.local.add(self.later_by(seconds), node, kind, message)

    def _declared_kind(
        self, node: int, to: int, name: str, fields: Mapping[str, Any], *, is_local: bool
    ) -> MessageKind:
        """Return the kind `name`; raise an error unless it has these fields, and `to` is a node."""
        text, kind = f"sends {name!r}", self.by_name.get(name)
        if kind is None:
            raise self.error(node, f"{text}, which is not a kind of message; {listed(self.by_name, name)}")
        for field in sorted(fields.keys() - {*kind.fields}):
            known = listed(kind.fields, field)
            raise self.error(node, f"{text}, which has no field {field!r}; {known}")
        if missing := [field for field in kind.fields if field not in fields]:
            known = ", ".join(kind.fields)
            raise self.error(node, f"{text} without {', '.join(missing)}; its fields are {known}")
        if not 0 <= to < self.nodes:
            raise self.error(node, f"{text}: its receiver must be in 0..{self.nodes - 1}, got {to}")
        if (kind.number < 0) != is_local:
            raise self.error(
                node,
                f"{text}, which is {'' if kind.number < 0 else 'not '}a local kind: "
                "use view.later for local kinds, view.send for others",
            )
        return kind

    def _message(self, node: int, kind: MessageKind, fields: Mapping[str, Any]) -> Any:
        """Return the message that the receiver gets."""
        declared = zip(kind.fields, kind.types, strict=True)
        return kind.message(node, (self.convert(of, fields[name], node, name) for name, of in declared))

    def size_of(self, node: int, kind: MessageKind, message: Any) -> int:
        """Return the size of a message of `node`, bytes."""
        if kind.size is None:
            return kind.nbytes
        names = kind.fields[: kind.request_at] if kind.request_at >= 0 else kind.fields
        fields = {name: getattr(message, name) for name in names}
        try:
            size = kind.size(**fields)
        except Exception as error:
            raise self.error(node, kind.unsized_text(error)) from error
        nbytes: int = self.convert(int, size, node, f"the size of {kind.name!r} in bytes")
        if not 0 <= nbytes < 2**31:
            raise self.error(
                node, f"sends {kind.name!r}: its size must be in 0..{2**31 - 1} bytes, got {nbytes}"
            )
        try:
            self.links.transmission_time(nbytes)
        except ValueError as error:
            raise self.error(node, f"sends {kind.name!r}: {error}") from None
        return nbytes

    # -- state of a node, for records and errors ------------------------------------------------------------

    def held_by(self, node: int) -> dict[int, int]:
        """Return application -> tasks to place, for the applications that a node knows, ascending."""
        return dict(sorted(self.holdings[node].items()))

    def timers_of(self, node: int) -> list[tuple[int, int, str, dict[str, float]]]:
        """Return (number, instant in ns, name, fields) of the timers of a node, in the order of setting."""
        timers = []
        for timer in self.timers.of(node):
            kind = self.timer_kinds[timer.name]
            if timer.name == self.request_timer:
                request = vars(self._request_of(timer))
                timers.append((timer.number, timer.time, kind.name, dict(request)))
                continue
            names = ["value"] if self.handles(node, "value") else []
            names = names if kind.handler == "on_timer" else [*kind.fields]
            fields = dict(zip(names, timer.fields, strict=False))
            timers.append((timer.number, timer.time, kind.name, fields))
        return timers

    def acts_of(self, node: int) -> list[tuple[int, int]]:
        """Return (number, instant in ns) of the pending calls of `on_act`, in the order of `View.act`."""
        return [(timer.number, timer.time) for timer in self.turns.of(node)]

    def local_messages_of(self, node: int) -> list[tuple[int, int, Any]]:
        """Return (number, instant in ns, message) of the local messages of a node, by order of sending."""
        return [(number, time, message) for time, number, _, _, message in self.local.of(node)]

    def outbox_sizes(self) -> list[int]:
        """Return the number of messages of each kind that wait for the end of the wave."""
        return [len(letters) for letters in self.outbox.values()]

    def sent_since(self, sizes: Sequence[int]) -> list[tuple[str, int, dict[str, Any]]]:
        """Return (kind, receiver, fields) of the messages in the outbox beyond `sizes` of each kind."""
        return [
            (name, letter.to, fields_of(letter.message))
            for size, (name, letters) in zip(sizes, self.outbox.items(), strict=True)
            for letter in letters[size:]
        ]

    # -- the end of a wave ------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """True if sent messages wait for the end of the wave."""
        return any(self.outbox.values())

    def flush(self) -> None:
        """Send the messages of the wave, by kind, sender and order of sending."""
        for kind in self.mail.kinds:
            if letters := self.outbox[kind.name]:
                ordered = sorted(letters, key=lambda letter: letter.message.sender)
                letters.clear()
                self._send(kind, ordered)


def _numbered_roles(roles: Iterable[tuple[str, str, int, Iterable[str]]]) -> list[NodeRole]:
    """Return roles with the numbers of their nodes, which are numbered role by role."""
    numbered: list[NodeRole] = []
    for name, program, count, handlers in roles:
        first = numbered[-1].nodes.stop if numbered else 0
        numbered.append(NodeRole(name, program, range(first, first + count), frozenset(handlers)))
    return numbered


def fields_of(message: Any) -> dict[str, Any]:
    """Return the fields of a message by name."""
    return {name: value for name, value in vars(message).items() if name not in ("kind", "sender")}
