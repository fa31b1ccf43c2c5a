"""A node of a decentralized scheduler: what it does, what it can see, and which messages there are."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridsim.engine.transport import message
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Application
from gridsim.scheduling.contract import Run
from gridsim.support.clock import NS
from gridsim.support.state import Stateful


class Message:
    """A kind of message: its size on the wire and its fields.

    nbytes : bytes of one message.
    fields : name -> ``int`` or ``float``.  A field ``application``, which must be ``int``, makes that
        application known to the receiver; the sender must know it.
    moves_tasks : whether it hands over tasks for good: as many as its field ``tasks`` says, of the
        application in its field ``application``.  If such a message is lost because a machine fails, the
        tasks are lost too, and they are submitted again.

    Raises ScenarioError for fields that are not allowed.
    """

    def __init__(self, nbytes: int, *, moves_tasks: bool = False, **fields: type) -> None:
        for name, kind in fields.items():
            if kind not in (int, float) or name in ("node", "sender", "kind"):
                raise ScenarioError(
                    f"message field {name!r} must be int or float, and not be called node, sender or kind"
                )
        if fields.get("application", int) is not int:
            raise ScenarioError("a message field 'application' must be int")
        if moves_tasks and not (fields.get("application") is int and fields.get("tasks") is int):
            raise ScenarioError("a message that moves tasks needs the fields application and tasks, both int")
        self.nbytes, self.moves_tasks, self.fields = nbytes, moves_tasks, dict(fields)
        self.dtype = message(*((name, "i8" if kind is int else "f8") for name, kind in fields.items()))


class LocalPolicy:
    """One node.  Its attributes are its memory, which a failure erases: the node then starts afresh.

    parameters : the scheduler, with its parameters.
    """

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def on_start(self, view: View) -> None:
        """Handle the start of the node, at the beginning of the run or after a failure."""

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Handle `tasks` tasks of `application` that are submitted here: all, or lost ones (`on_lost`).

        The node holds them until it queues them or hands them over.  If it fails before that, they are lost.
        """
        raise SchedulerError(f"{type(self).__name__} does not define on_release")

    def on_message(self, view: View, message: Any) -> None:
        """Handle a message that has arrived: ``message.kind``, ``message.sender`` and its fields."""
        raise SchedulerError(f"{type(self).__name__} does not define on_message")

    def on_timer(self, view: View, name: str) -> None:
        """Handle the timer `name`, set by `View.timer`, which fires now."""

    def on_idle(self, view: View) -> None:
        """Handle that the last task on this machine has ended."""

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Handle the loss of `tasks` tasks of `application`, submitted here; default: release them again."""
        self.on_release(view, application, tasks)


class Surroundings(Protocol):
    """What a view needs from the adapter between nodes and engine; `node` is the number of a machine."""

    run: Run
    parameters: Any
    notes: Notes
    decider: Any

    def queue_of(self, node: int) -> Any: ...
    def work_of(self, node: int) -> float: ...
    def application(self, index: int) -> Application: ...
    def enqueue(self, node: int, application: int, tasks: int) -> None: ...
    def send(self, node: int, to: int, kind: str, fields: dict[str, float]) -> None: ...
    def set_timer(self, node: int, seconds: float, name: str) -> None: ...
    def cancel_timers(self, node: int, name: str) -> None: ...


class View:
    """What a node can see and do: its machine, the clock, its queue, its neighbours' numbers, and messages.

    Its attributes are read-only.
    """

    __slots__ = ("_adapter", "_known", "_neighbours", "_node", "_random")

    def __init__(self, adapter: Surroundings, node: int, neighbours: tuple[int, ...]) -> None:
        self._adapter, self._node, self._neighbours = adapter, node, neighbours
        self._known: dict[int, None] = {}
        self._random: np.random.Generator | None = None

    @property
    def node(self) -> int:
        """The number of this machine."""
        return self._node

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The numbers of the neighbours of this machine."""
        return self._neighbours

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self._adapter.run.engine.now / NS

    @property
    def speed(self) -> float:
        """The speed of this machine, Mflop/s."""
        return float(self._adapter.run.speeds[self._node])

    @property
    def random(self) -> np.random.Generator:
        """The node's own random stream."""
        if self._random is None:
            self._random = self._adapter.run.streams(f"{self._adapter.parameters.name} {self._node}")
        return self._random

    @property
    def waiting(self) -> int:
        """The number of tasks that wait here; a running task does not count."""
        return int(self._adapter.queue_of(self._node)[1].sum())

    @property
    def work(self) -> float:
        """How long this machine needs for its running task and all that wait here, s."""
        return self._adapter.work_of(self._node)

    def application(self, index: int) -> Application:
        """Return an application that this node knows.

        It knows those that were submitted here, and those that came in a message's field ``application``.
        Raises SchedulerError for any other.
        """
        return self._adapter.application(self._heard(index))

    def _heard(self, index: int) -> int:
        """Return `index` as an integer; raises SchedulerError if this node does not know the application."""
        index = as_number(int, index, self._node, "application")
        if index not in self._known:
            raise SchedulerError(f"t = {self.now} s: node {self._node} has not heard of application {index}")
        return index

    def enqueue(self, application: int, tasks: int) -> None:
        """Queue `tasks` tasks of `application` here.  Raises SchedulerError if the node holds fewer."""
        self._adapter.enqueue(
            self._node, self._heard(application), as_number(int, tasks, self._node, "tasks")
        )

    def send(self, to: int, kind: str, **fields: float) -> None:
        """Send a message to machine `to`; it leaves once all events of the current wave have been handled.

        Raises SchedulerError for an unknown kind or machine, for fields other than the declared ones, for
        values of the wrong type, for an application that this node does not know, and for tasks that it does
        not hold.
        """
        self._adapter.send(self._node, to, kind, fields)

    def timer(self, seconds: float, name: str) -> None:
        """Call `LocalPolicy.on_timer` with `name` after `seconds`, unless the machine fails before that."""
        self._adapter.set_timer(self._node, seconds, name)

    def cancel(self, name: str) -> None:
        """Cancel all timers `name` of this node that have not fired."""
        self._adapter.cancel_timers(self._node, name)

    def note(self, table: str, **values: float) -> None:
        """Add a row to a table of the result.  No node can read it, and no failure removes it.

        Raises SchedulerError for a table or columns that the scheduler does not declare, and for values of
        the wrong type.
        """
        self._adapter.notes.add(self._node, table, values)

    def decide(
        self,
        action: str,
        application: int,
        *,
        machine: int = -1,
        task: int = -1,
        tasks: int = 0,
        among: int = -1,
        saw: float = math.nan,
        limit: float = math.nan,
        age: float = math.nan,
    ) -> None:
        """Note a decision for `Result.why`.  Nothing is noted unless decisions are recorded.

        action : one of the scheduler's `decision_words`, which say what the numbers measure.
        application, task, tasks : what it is about: an application, one of its tasks, or a number of tasks.
        machine : the machine that it concerns.  among : the number of alternatives.
        saw : the value on which the decision is based.  limit : the threshold it was compared with.
        age : how old the value was, s.

        Raises SchedulerError for an action without words, and for an application that the node does not know.
        """
        said = {
            "machine": machine, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit,
            "age": age,
        }  # fmt: skip
        self._adapter.decider.note(self._node, action, self._heard(application), said)


#: The range of integer fields and columns.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def as_number(kind: type, value: Any, node: int, name: str) -> Any:
    """Return `value`, which `node` gives for `name`, as an ``int`` or a ``float``.

    Raises SchedulerError for values that are not such a number, such as text, or a fraction or 2**63 for an
    ``int``.
    """
    try:
        if kind is int:
            value_of = int(value) if isinstance(value, np.bool_) else operator.index(value)
            if LOWEST <= value_of <= HIGHEST:
                return value_of
        elif isinstance(value, (Real, np.bool_)):
            return float(value)
    except (TypeError, OverflowError):
        pass
    expected = "a whole number of 64 bits" if kind is int else "a number that a float can be"
    raise SchedulerError(f"node {node} gives {value!r} for {name}; it must be {expected}") from None


class Hands(Stateful):
    """Tasks that nodes have received and neither queued nor handed over yet; a failure loses them, too."""

    STATE = ("tasks",)

    def __init__(self, machines: int) -> None:
        self.tasks: list[dict[int, int]] = [{} for _ in range(machines)]  # by application

    def put(self, node: int, application: int, tasks: int) -> None:
        """Give `tasks` tasks of `application` to `node`."""
        held = self.tasks[node]
        held[application] = held.get(application, 0) + tasks

    def take(self, node: int, application: int, tasks: int) -> None:
        """Take `tasks` tasks of `application` from `node`; raises SchedulerError if it holds fewer."""
        held = self.tasks[node]
        left = held.get(application, 0) - tasks
        if left < 0 or tasks < 0:
            raise SchedulerError(
                f"node {node} places {tasks} tasks of application {application}, "
                f"and has {held.get(application, 0)} of it to place"
            )
        if left:
            held[application] = left
        else:
            held.pop(application, None)

    def drop(self, node: int) -> list[tuple[int, int]]:
        """Remove and return all that `node` holds: (application, tasks) pairs."""
        held, self.tasks[node] = self.tasks[node], {}
        return list(held.items())


class Notes(Stateful):
    """Rows of the tables that nodes write for the result; no node can read them.

    tables : name -> columns, each ``int`` or ``float``.
    """

    STATE = ("rows",)

    def __init__(self, tables: Mapping[str, Mapping[str, type]]) -> None:
        self.declared = tables
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in tables}

    def add(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Add a row of `values` to `table`.

        Raises SchedulerError for a table or columns that are not declared, and for values of the wrong type.
        """
        columns = self.declared.get(table)
        if columns is None or values.keys() != columns.keys():
            known = {name: list(each) for name, each in self.declared.items()}
            raise SchedulerError(f"node {node} notes {table!r} with {sorted(values)}; there are {known}")
        self.rows[table].append([as_number(kind, values[name], node, name) for name, kind in columns.items()])

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Return name -> columns of the tables, with rows in the order in which they were written."""
        return {
            table: {
                name: np.array([row[k] for row in self.rows[table]], np.int64 if kind is int else np.float64)
                for k, (name, kind) in enumerate(columns.items())
            }
            for table, columns in self.declared.items()
        }
