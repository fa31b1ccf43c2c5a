"""A node of a decentralized scheduler: what it does, what it can see, and which messages there are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import listed
from gridcore.nodes.view import View
from gridsim.engine.transport import MOST_BYTES, Transport, message
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Application
from gridsim.support.arguments import flag
from gridsim.support.clock import NS
from gridsim.support.state import Stateful

__all__ = ["HIGHEST", "LOWEST", "Array", "NodeProgram", "Message", "Notes", "View", "array", "as_number"]


@dataclass(frozen=True)
class Array:
    """The type of a field that is an array; see `array`."""

    kind: type

    def __str__(self) -> str:
        return f"an array of {self.kind.__name__}"


def array(kind: type) -> Array:
    """Return the type of a message field that is an array of ``int`` or ``float``, such as a matrix.

    Each message may have one of another length, of one or two dimensions; a list is taken for one.  The
    receiver gets a copy, which is read-only.

    Raises ScenarioError for another `kind`.
    """
    if kind not in (int, float):
        raise ScenarioError(f"an array must be of int or float, got {kind!r}")
    return Array(kind)


#: The longest `Message` delay, s.
LONGEST_DELAY = 2.0e9


class Message:
    """A kind of message: its size on the wire and its fields.

    Raises ScenarioError for fields that are not allowed.

    Parameters
    ----------
    nbytes
        Bytes of one message; or a function that gets the fields by name, as the receiver will, and returns
        the bytes; or None for a local kind, which a node can only send itself by `View.later`.
    fields
        Name -> ``int``, ``float`` or `array`.  Names begin with a letter, and are not those of what else a
        message has or `View.send` takes: ``node``, ``sender``, ``kind``, ``to``.  A field ``application``,
        which must be ``int``, makes that application known to the receiver; the sender must know it.
    moves_tasks
        Whether it hands over tasks for good: as many as its field ``tasks`` says, of the application in its
        field ``application``.  If such a message is lost because a machine fails, the tasks are lost too, and
        they are submitted again.
    delay
        S from sending to arrival.  Such a message leaves at once and passes the interfaces: it waits for none
        and keeps none waiting.  At one instant they arrive in the order of sending, before releases. One with
        a delay of 0 is handled as soon as the handler that sends it returns, before anything else. None: it
        takes the network's time.
    counted
        False for one with a delay that stands for what a model takes as known, and not for traffic: no
        accounting has it.
    deferred
        Whether its handlers only take notes; to send, enqueue, draw or set a timer there is an error. It may
        then be handled after it has arrived: after the next release on any machine, or at the end of the run.
    """

    def __init__(
        self,
        /,
        nbytes: int | Callable[..., int] | None,
        *,
        moves_tasks: bool = False,
        deferred: bool = False,
        delay: float | Fraction | None = None,
        counted: bool = True,
        **fields: type | Array,
    ) -> None:
        whole = isinstance(nbytes, (int, np.integer)) and not isinstance(nbytes, bool)
        if not (nbytes is None or callable(nbytes) or (whole and 0 <= nbytes <= MOST_BYTES)):
            raise ScenarioError(
                f"nbytes of a message must be a whole number in 0..{MOST_BYTES}, got {nbytes!r}"
            )
        moves_tasks = flag("moves_tasks of a message", moves_tasks)
        deferred, counted = flag("deferred of a message", deferred), flag("counted of a message", counted)
        if delay is None and not counted:
            raise ScenarioError("a message that is not counted must have a delay of its own")
        number = isinstance(delay, Real) and not isinstance(delay, bool)
        if delay is not None and not (number and 0 <= delay <= LONGEST_DELAY):
            raise ScenarioError(
                f"delay of a message must be a number in 0..{LONGEST_DELAY:g} s, got {delay!r}"
            )
        if delay is not None and nbytes is None:
            raise ScenarioError("a local message has no delay of its own: View.later says when it arrives")
        for name, kind in fields.items():
            allowed = kind in (int, float) or isinstance(kind, Array)
            taken = ("node", "sender", "kind", "self", "seconds" if nbytes is None else "to")
            if not allowed or name in taken or name.startswith("_") or not name.isidentifier():
                raise ScenarioError(
                    f"message field {name!r} must be int, float or an array, and have a name that begins "
                    f"with a letter and is none of {', '.join(taken)}; got {kind!r}"
                )
        if fields.get("application", int) is not int:
            raise ScenarioError("a message field 'application' must be int")
        if moves_tasks and nbytes is None:
            raise ScenarioError(
                "a message with nbytes=None is local (a node sends it to itself) and cannot have "
                "moves_tasks=True"
            )
        if moves_tasks and not (fields.get("application") is int and fields.get("tasks") is int):
            raise ScenarioError("a message that moves tasks needs the fields application and tasks, both int")
        self.nbytes, self.moves_tasks, self.fields = nbytes, moves_tasks, dict(fields)
        self.counted, self.deferred = counted, deferred
        #: ns; None if it takes the network's time.
        self.delay = None if delay is None else round(delay * NS)
        plain = isinstance(nbytes, int) and delay is None and not set(fields.values()) - {int, float}
        if deferred and (moves_tasks or not plain):
            raise ScenarioError(
                "a deferred message must move no tasks, and have a fixed size, no delay and no arrays"
            )
        # of an array, the record has the number under which the message core keeps it
        self.arrays = tuple(name for name, kind in fields.items() if isinstance(kind, Array))
        self.dtype = message(*((name, "f8" if kind is float else "i8") for name, kind in fields.items()))

    def declare(self, network: Transport, name: str, *, priority: int) -> None:
        """Declare this kind to the network of a run, under `name`, unless it is local."""
        if self.nbytes is None:
            return
        network.kind(
            name,
            self.dtype,
            0 if callable(self.nbytes) else self.nbytes,
            None,
            priority=priority,
            deferred=self.deferred,
            keep=self.moves_tasks or bool(self.arrays),
            opaque=self.arrays,
            counted=self.counted,
            delay=self.delay,
        )

    def number(self, network: Transport, name: str) -> int:
        """Return the number of this kind in the links, -1 if it is local; the network must be open."""
        return -1 if self.nbytes is None else network.number(name)[0]


class NodeProgram:
    """One node.  Its attributes are its memory, which a failure erases: the node then starts afresh.

    Parameters
    ----------
    parameters
        The scheduler, with its parameters.
    """

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def on_start(self, view: View) -> None:
        """Handle the start of the node, at the beginning of the run or after a failure."""

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Handle `tasks` tasks of `application` that are submitted here: all, or lost ones (`on_lost`).

        The node holds them until it queues them or hands them over.  If it fails before that, they are lost.
        """
        raise SchedulerError(
            f"t = {view.now} s: node {view.node} gets tasks, and {type(self).__name__} does not define "
            "on_release"
        )

    def on_message(self, view: View, message: Any) -> None:
        """Handle a message that has arrived: ``message.kind``, ``message.sender`` and its fields.

        Messages of a kind for which there is a method ``on_<kind>(view, message)`` go there instead (with
        ``_`` for each ``-`` of the name).
        """
        what = f"on_{message.kind} or on_message".replace("-", "_")
        raise SchedulerError(
            f"t = {view.now} s: node {view.node} gets a message {message.kind!r}, and {type(self).__name__} "
            f"does not define {what}"
        )

    def on_timer(self, view: View, name: str) -> None:
        """Handle the timer `name`, set by `View.timer`, which fires now.

        Define it with a third parameter, ``value``, to get the value of the timer as well.  Setting a timer
        raises SchedulerError if no node of the run defines it.
        """

    def on_idle(self, view: View) -> None:
        """Handle that this machine has no work: its last task has ended, or `View.take` took it away."""

    def on_done(self, view: View, application: Application) -> None:
        """Handle that a task of `application` has ended on this machine, before all else at that instant."""

    def on_end(self, view: View) -> None:
        """Handle that tasks on this machine have ended, if the scheduler watches that (``watch``).

        It is called once at an instant, after all that has arrived then.
        """

    def on_act(self, view: View) -> None:
        """Act, as asked for by `View.act`: once at an instant, after all that has arrived then."""

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Handle the loss of `tasks` tasks of `application`, submitted here; default: release them again."""
        self.on_release(view, application, tasks)


#: The range of integer fields and columns.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def as_number(kind: Any, value: Any, node: int, name: str) -> Any:
    """Return `value`, which `node` gives for `name`, as an ``int``, a ``float``, or an array (see `Array`).

    Raises SchedulerError for values that are not such a number, such as text, or a fraction or 2**63 for an
    ``int``.
    """
    if isinstance(kind, Array):
        return _as_array(kind, value, node, name)
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


def _as_array(kind: Array, value: Any, node: int, name: str) -> NDArray[Any]:
    """Return a read-only copy of `value` as an array; raises SchedulerError for what is none of this kind."""
    wanted = np.dtype(np.int64 if kind.kind is int else np.float64)
    try:
        given = np.asarray(value)
        numbers = given.dtype.kind in ("biu" if kind.kind is int else "biuf") or given.size == 0
        if numbers and 1 <= given.ndim <= 2 and not (kind.kind is int and (given > HIGHEST).any()):
            found = np.array(given, wanted, order="C")
            found.flags.writeable = False
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise SchedulerError(
        f"node {node} gives {value!r} for {name}; it must be {kind}, of one or two dimensions"
    ) from None


class Notes(Stateful):
    """Rows of the tables that nodes write for the result; no node can read them.

    Parameters
    ----------
    tables
        Name -> columns, each ``int`` or ``float``.
    """

    STATE = ("rows",)

    def __init__(self, tables: Mapping[str, Mapping[str, type]]) -> None:
        self.declared = tables
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in tables}

    def add(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Add a row of `values` to `table`; raises as `row` does."""
        row = self.row(node, table, values)
        self.rows[table].append(row)

    def row(self, node: int, table: str, values: Mapping[str, float]) -> list[float]:
        """Return `values` as a row of `table`.

        Raises SchedulerError for a table or columns that are not declared, and for values of the wrong type.
        """
        columns = self.declared.get(table)
        if columns is None:
            raise SchedulerError(
                f"node {node} notes {table!r}, which is no table; {listed(self.declared, table)}"
            )
        for name in sorted(values.keys() ^ columns.keys(), key=lambda name: name not in values):
            if name not in values:
                raise SchedulerError(f"node {node} notes {table!r} without its column {name!r}")
            raise SchedulerError(
                f"node {node} notes {table!r}, which has no column {name!r}; {listed(columns, name)}"
            )
        return [as_number(kind, values[name], node, name) for name, kind in columns.items()]

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Return name -> columns of the tables, with rows in the order in which they were written."""
        return {
            table: {
                name: np.array([row[k] for row in self.rows[table]], np.int64 if kind is int else np.float64)
                for k, (name, kind) in enumerate(columns.items())
            }
            for table, columns in self.declared.items()
        }
