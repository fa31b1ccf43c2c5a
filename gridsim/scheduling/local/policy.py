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
    """A kind of message: its bytes on the wire, and its fields.

    nbytes : bytes.
    fields : name -> ``int`` or ``float``.  One called ``application``, an ``int``, tells the receiver of the
        application, which the sender must know.
    moves_tasks : that it hands over ``tasks`` of ``application``, two of its fields, for good.  Where such a
        message is lost because a machine fails, so are the tasks, and they are submitted again.
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
    """One node.  Its attributes are its memory: a failure takes them, and it begins anew.

    `parameters` are those of its scheduler.
    """

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def on_start(self, view: View) -> None:
        """The node is up: at the beginning of the run, or after a failure."""

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """`tasks` of `application` are submitted here: all of them, or those that were lost (`on_lost`).

        The node has them in hand until it queues them or hands them over; a failure takes these, too.
        """
        raise SchedulerError(f"{type(self).__name__} does not define on_release")

    def on_message(self, view: View, message: Any) -> None:
        """A message has come: ``message.kind``, ``message.sender`` and its fields."""
        raise SchedulerError(f"{type(self).__name__} does not define on_message")

    def on_timer(self, view: View, name: str) -> None:
        """The timer `name` that `View.timer` has set fires."""

    def on_idle(self, view: View) -> None:
        """The last task here has ended."""

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """`tasks` of an application that was submitted here were lost; by default they are released again."""
        self.on_release(view, application, tasks)


class Surroundings(Protocol):
    """What a view needs of what stands between nodes and the engine; `node` is the number of a machine."""

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
    """What a node can see and do: itself, the clock, its queue, its neighbours' names, and messages.

    Nothing of it can be written.
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
        """Their numbers."""
        return self._neighbours

    @property
    def now(self) -> float:
        """s."""
        return self._adapter.run.engine.now / NS

    @property
    def speed(self) -> float:
        """Mflop/s of this machine."""
        return float(self._adapter.run.speeds[self._node])

    @property
    def random(self) -> np.random.Generator:
        """This node's own chance."""
        if self._random is None:
            self._random = self._adapter.run.streams(f"{self._adapter.parameters.name} {self._node}")
        return self._random

    @property
    def waiting(self) -> int:
        """Tasks that wait here; one that runs does not count."""
        return int(self._adapter.queue_of(self._node)[1].sum())

    @property
    def work(self) -> float:
        """s until everything here is done, the task that runs included."""
        return self._adapter.work_of(self._node)

    def application(self, index: int) -> Application:
        """An application that was submitted here, or that a message with a field ``application`` told of.

        Raises SchedulerError for one that this node cannot know.
        """
        return self._adapter.application(self._heard(index))

    def _heard(self, index: int) -> int:
        """The number of an application that this node knows."""
        index = as_number(int, index, self._node, "application")
        if index not in self._known:
            raise SchedulerError(f"t = {self.now} s: node {self._node} has not heard of application {index}")
        return index

    def enqueue(self, application: int, tasks: int) -> None:
        """Run `tasks` of an application here.  Raises SchedulerError if the node does not have so many."""
        self._adapter.enqueue(
            self._node, self._heard(application), as_number(int, tasks, self._node, "tasks")
        )

    def send(self, to: int, kind: str, **fields: float) -> None:
        """Send a message to a machine; it leaves when all that has come at this instant has been handled.

        Raises SchedulerError for an unknown kind or machine, other fields than those declared, values that
        they do not take, an application that this node cannot know, or tasks that it does not have.
        """
        self._adapter.send(self._node, to, kind, fields)

    def timer(self, seconds: float, name: str) -> None:
        """Call `LocalPolicy.on_timer` in so many seconds, unless the machine fails before."""
        self._adapter.set_timer(self._node, seconds, name)

    def cancel(self, name: str) -> None:
        """Take back every timer `name` that has not fired."""
        self._adapter.cancel_timers(self._node, name)

    def note(self, table: str, **values: float) -> None:
        """Write a row of a table of the result, which no node reads and no failure takes.

        Raises SchedulerError for a table or columns that the scheduler does not declare, and for values
        that they do not take.
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
        """Note a decision, for `Result.why`; it does nothing unless decisions are recorded.

        action : one of the scheduler's `decision_words`, which say what the numbers are.
        application, task, tasks : on what.  machine : to which it is.  among : so many were to choose from.
        saw : on which value it decided; limit : the threshold it was compared with; age : of what it saw,
            s.

        Raises SchedulerError for an action without words, and for an application that this node cannot know.
        """
        said = {
            "machine": machine, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit,
            "age": age,
        }  # fmt: skip
        self._adapter.decider.note(self._node, action, self._heard(application), said)


#: What fields and columns of whole numbers take.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def as_number(kind: type, value: Any, node: int, name: str) -> Any:
    """`value`, which `node` gives for `name`, as an ``int`` or a ``float``.

    Raises SchedulerError for what is none: text, and a fraction or 2**63 for an ``int``.
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
    """Tasks that a node has been given and neither queued nor handed over: a failure takes them, too."""

    STATE = ("tasks",)

    def __init__(self, machines: int) -> None:
        self.tasks: list[dict[int, int]] = [{} for _ in range(machines)]  # by application

    def put(self, node: int, application: int, tasks: int) -> None:
        """`tasks` of an application come to `node`."""
        held = self.tasks[node]
        held[application] = held.get(application, 0) + tasks

    def take(self, node: int, application: int, tasks: int) -> None:
        """They leave it.  Raises SchedulerError if it does not have so many."""
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
        """All that `node` had: (application, tasks)."""
        held, self.tasks[node] = self.tasks[node], {}
        return list(held.items())


class Notes(Stateful):
    """Rows of tables that nodes write and nobody reads.

    tables : name -> columns, each ``int`` or ``float``.
    """

    STATE = ("rows",)

    def __init__(self, tables: Mapping[str, Mapping[str, type]]) -> None:
        self.declared = tables
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in tables}

    def add(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Raises SchedulerError for a table or columns that are not declared, and values of another kind."""
        columns = self.declared.get(table)
        if columns is None or values.keys() != columns.keys():
            known = {name: list(each) for name, each in self.declared.items()}
            raise SchedulerError(f"node {node} notes {table!r} with {sorted(values)}; there are {known}")
        self.rows[table].append([as_number(kind, values[name], node, name) for name, kind in columns.items()])

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Name -> columns, in the order in which they were written."""
        return {
            table: {
                name: np.array([row[k] for row in self.rows[table]], np.int64 if kind is int else np.float64)
                for k, (name, kind) in enumerate(columns.items())
            }
            for table, columns in self.declared.items()
        }
