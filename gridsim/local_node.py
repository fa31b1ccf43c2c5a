"""A node of a decentralized scheduler: what it does, what it can see, and which messages there are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.engine import NS
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.local_books import as_number
from gridsim.model import Application
from gridsim.transport import message

if TYPE_CHECKING:
    from gridsim.local_adapter import Adapter


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


class View:
    """What a node can see and do: itself, the clock, its queue, its neighbours' names, and messages.

    Nothing of it can be written.
    """

    __slots__ = ("_adapter", "_known", "_neighbours", "_node", "_random")

    def __init__(self, adapter: Adapter, node: int, neighbours: tuple[int, ...]) -> None:
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
        saw : on which value it decided; limit : what that was held against; age : of what it saw, s.

        Raises SchedulerError for an action without words, and for an application that this node cannot know.
        """
        said = {
            "machine": machine, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit,
            "age": age,
        }  # fmt: skip
        self._adapter.decider.note(self._node, action, self._heard(application), said)
