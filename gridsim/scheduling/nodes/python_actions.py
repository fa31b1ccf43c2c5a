"""The state of a readable message core, and the actions of its nodes.

`PythonView` calls the actions; `gridsim.scheduling.nodes.python_core` has the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from gridsim.scheduling.nodes.python_timers import LocalMail, Timers
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

__all__ = ["NodeRole", "PythonActions"]

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
    """The state and the actions of nodes; the parameters are those of `gridcore.nodes.message_core.NodeCore`.

    Attributes
    ----------
    now
        The simulated time, ns.
    held_tasks
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
        timers: Sequence[str],
        neighbours: NDArray[np.int64],
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
    ) -> None:
        self.links, self.queues, self.nodes, self.neighbours = links, queues, nodes, neighbours
        self.timer_names = tuple(timers)
        self.roles = _numbered_roles(roles)
        self.role_nodes = {role.name: role.nodes for role in self.roles if role.name}
        self.handlers = frozenset[str]().union(*(role.handlers for role in self.roles))  # of any node
        self.make_application, self.seed, self.board = application, seed, board
        self.add_note, self.record_decision = add_note, record_decision
        self.convert, self.error_type, self.at_once = convert, error_type, at_once
        self.now = 0
        self.kinds = [MessageKind(*kind) for kind in kinds]
        self.by_name = {kind.name: kind for kind in self.kinds}
        self.local = LocalMail([kind for kind in self.kinds if kind.number < 0], nodes)
        numbered = sorted((kind for kind in self.kinds if kind.number >= 0), key=lambda kind: kind.number)
        self.mail = Mail(links, numbered, observe)
        self.outbox: dict[str, list[Letter]] = {kind.name: [] for kind in numbered}
        self.deferred_kind: MessageKind | None = None  # of the deferred message that is being handled
        self.applications: dict[int, Any] = {}
        self.held_tasks: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.streams: dict[int, RandomStream] = {}
        self.timers, self.turns = Timers(nodes), Timers(nodes)  # `turns` has the instants of `on_act`
        self.acting: dict[str, set[int]] = {"reorder": set(), "start": set(), "end": set(), "idle": set()}
        #: Machine -> application -> completed tasks that no node has read.
        self.unread_completions: dict[int, dict[int, int]] = {}

    def error(self, node: int, text: str) -> Exception:
        """Return an error that `node` causes now."""
        return self.error_type(f"t = {self.now / NS} s: node {node} {text}")

    def check_may_act(self, node: int) -> None:
        """Raise an error in handlers of deferred messages, whose time of call depends on unrelated events."""
        if self.deferred_kind is not None:
            raise self.error(
                node,
                f"acts in a handler of {self.deferred_kind.name!r}, but handlers of deferred messages may "
                "only read and note; leave out deferred=True",
            )

    def later_by(self, seconds: float) -> int:
        """Return the instant (ns) that is `seconds` >= 0 from now."""
        return self.now + (round(seconds * NS) if seconds < _LONGEST_DURATION else LATEST)

    # -- what nodes know --------------------------------------------------------------------------------

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
        """Return the nodes that have the role `name`, of which `node` makes use."""
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
        held = self.held_tasks[node]
        held[application] = held.get(application, 0) + tasks

    def check_known(self, node: int, application: int) -> None:
        """Raise an error if `node` does not know the application."""
        if application not in self.held_tasks[node]:
            raise self.error(node, f"does not know application {application}")

    def tasks_to_place(self, node: int, application: int) -> int:
        """Return the number of tasks of the application that `node` must place."""
        return self.held_tasks[node].get(application, 0)

    def place(self, node: int, application: int, tasks: int) -> None:
        """Subtract placed tasks from those that `node` must place."""
        held = self.tasks_to_place(node, application)
        if not 0 <= tasks <= held:
            raise self.error(
                node, f"places {tasks} tasks of application {application}, but has {held} to place"
            )
        if tasks:
            self.held_tasks[node][application] = held - tasks

    # -- machines ---------------------------------------------------------------------------------------

    def queue(self, machine: int) -> tuple[Integers, Integers, int, int]:
        """Return (applications, tasks, running application or -1, its end in ns) of a machine."""
        self.queues.catch_up(self.now, [machine])
        return self.queues.queue(machine)

    def waiting_at(self, machine: int) -> int:
        """Return the number of tasks that wait at `machine`; a running task does not count."""
        _, tasks, _, _ = self.queue(machine)
        return int(tasks.sum())

    def tasks_at(self, machine: int) -> int:
        """Return the number of tasks that wait or run at `machine`."""
        _, tasks, running, end = self.queue(machine)
        # even an idle machine starts a task only at the end of the instant at which it is enqueued
        return int(tasks.sum()) + (running >= 0 and end > self.now)

    def work_of(self, machine: int) -> float:
        """Return the time (s) that `machine` needs for its running and waiting tasks."""
        return self.queues.work(machine, self.now)

    def sample(self, machine: int, grid: SummaryGrid, release: int) -> NDArray[np.uint32]:
        """Return how many more tasks `machine` could take of an application released at `release` ns."""
        if not self.now <= release <= LATEST:
            raise ValueError(f"release must be in {self.now}..{LATEST} ns, got {release}")
        sample: NDArray[np.uint32] = self.queues.summaries([machine], grid, self.now, cell=release)[0]
        return sample

    def available(
        self, stretch: float, release: float, size: float, task_size: float, now: int, machines: ArrayLike
    ) -> Integers:
        """Call `TaskQueues.available`."""
        return self.queues.available(stretch, release, size, task_size, now, machines)

    def room(self, stretch: float, application: int, now: int, machines: Any) -> Integers:
        """Call `DataQueues.room`."""
        queues: Any = self.queues
        room: Integers = queues.room(stretch, application, now, machines)
        return room

    def completed(self, node: int) -> list[tuple[int, int]]:
        """Return the (application, tasks) pairs completed on the machine of `node` that it has not read."""
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
        self.place(node, application, tasks)
        if not 1 <= tasks < 2**31:
            raise self.error(
                node,
                f"enqueues tasks of application {application}: tasks must be in 1..{2**31 - 1}, got {tasks}",
            )
        machine = self.machine_of(node)
        self.queues.enqueue([machine], [application], [tasks], self.now)
        self.acting["reorder"].add(machine)

    def take(self, node: int, application: int, tasks: int) -> int:
        """Withdraw up to `tasks` waiting tasks from the machine of `node`, which must place them."""
        machine = self.machine_of(node)
        if tasks < 0:
            raise self.error(
                node, f"takes tasks of application {application}: tasks must be at least 0, got {tasks}"
            )
        taken = self.queues.withdraw(machine, application, tasks, self.now)
        if taken:
            self.hold(node, application, taken)
            self.acting["reorder"].add(machine)
            if "on_idle" in self.handlers and not self.queues.is_busy([machine])[0]:
                self.acting["idle"].add(machine)
        return taken

    # -- timers -----------------------------------------------------------------------------------------

    def set_timer(self, node: int, name: str, seconds: float, value: float) -> None:
        """Set a timer that fires `seconds` from now."""
        self._check_timer(node, name, seconds, is_possible=0 <= seconds < inf)
        self.timers.set(self.later_by(seconds), node, self.timer_names.index(name), value)

    def set_timer_at(self, node: int, name: str, instant: int, value: float) -> None:
        """Set a timer that fires at `instant` ns."""
        seconds = (instant - self.now) / NS
        self._check_timer(node, name, seconds, is_possible=self.now <= instant <= LATEST)
        self.timers.set(instant, node, self.timer_names.index(name), value)

    def _check_timer(self, node: int, name: str, seconds: float, *, is_possible: bool) -> None:
        text = f"sets the timer {name!r}"
        if name not in self.timer_names:
            known = listed(self.timer_names, name)
            raise self.error(node, f"{text}, which the scheduler does not declare; {known}")
        if not self.handles(node, "on_timer"):
            raise self.error(node, f"{text}, which requires the method on_timer")
        if not is_possible:
            raise self.error(node, f"{text}: the time until then must be finite and >= 0 s, got {seconds!r}")

    def cancel_timers(self, node: int, name: str) -> None:
        """Cancel the timers `name` of `node`."""
        if name not in self.timer_names:
            known = listed(self.timer_names, name)
            raise self.error(
                node, f"cancels the timer {name!r}, which the scheduler does not declare; {known}"
            )
        self.timers.cancel(node, self.timer_names.index(name))

    def act_after(self, node: int, seconds: float) -> None:
        """Call `on_act` of `node` once, `seconds` from now."""
        if not self.handles(node, "on_act"):
            raise self.error(node, "calls act, which requires the method on_act")
        if not 0 <= seconds < inf:
            raise self.error(node, f"calls act: seconds must be finite and >= 0, got {seconds!r}")
        self.turns.set(self.later_by(seconds), node)

    # -- messages ---------------------------------------------------------------------------------------

    def send(self, node: int, to: int, name: str, fields: dict[str, Any]) -> None:
        """Send a message: at the end of the wave, or at once."""
        kind = self._declared_kind(node, to, name, fields, is_local=False)
        message = self._message(node, kind, fields)
        nbytes = kind.nbytes if kind.size is None else self._size_of(node, kind, message)
        if kind.application_at >= 0 and message.application not in self.held_tasks[node]:
            raise self.error(
                node, f"sends {name!r} with application {message.application}, which it does not know"
            )
        if kind.moves_tasks:
            self.place(node, message.application, message.tasks)
        letter = Letter(to, message, nbytes)
        if kind.delay < 0 and not self.at_once:
            self.outbox[name].append(letter)
        else:
            self.mail.send(self.now, kind, [letter])

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
        message = kind.type()
        message.sender = node
        for name, declared in zip(kind.fields, kind.types, strict=True):
            setattr(message, name, self.convert(declared, fields[name], node, name))
        return message

    def _size_of(self, node: int, kind: MessageKind, message: Any) -> int:
        """Return the bytes of a message whose size depends on its fields."""
        fields = {name: getattr(message, name) for name in kind.fields}
        nbytes: int = self.convert(int, kind.size(**fields), node, f"the size of {kind.name!r} in bytes")
        if not 0 <= nbytes < 2**31:
            raise self.error(
                node, f"sends {kind.name!r}: its size must be in 0..{2**31 - 1} bytes, got {nbytes}"
            )
        self.links.transmission_time(nbytes)  # raises an error if it takes too long
        return nbytes

    @property
    def has_unsent(self) -> bool:
        """Whether sent messages wait for the end of the wave."""
        return any(self.outbox.values())

    def flush(self) -> None:
        """Send the messages of the wave, by kind, sender and order of sending."""
        for kind in self.mail.kinds:
            letters = sorted(self.outbox[kind.name], key=lambda letter: letter.message.sender)
            self.outbox[kind.name].clear()
            if letters:
                self.mail.send(self.now, kind, letters)


def _numbered_roles(roles: Iterable[tuple[str, str, int, Iterable[str]]]) -> list[NodeRole]:
    """Return roles with the numbers of their nodes, which are numbered role by role."""
    numbered: list[NodeRole] = []
    for name, program, count, handlers in roles:
        first = numbered[-1].nodes.stop if numbered else 0
        numbered.append(NodeRole(name, program, range(first, first + count), frozenset(handlers)))
    return numbered
