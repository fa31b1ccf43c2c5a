"""The program of one node of a decentralized scheduler, and the kinds of messages that nodes exchange."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import listed
from gridcore.common.scalars import integer, real
from gridcore.nodes.containers import Container, Fifo, Heap, IntMap, IntSet, rebuild
from gridcore.nodes.shared_array import SharedArray
from gridcore.nodes.view import View
from gridsim.engine.transport import MAX_BYTES, Transport, message
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Application
from gridsim.support.arguments import flag
from gridsim.support.clock import NS
from gridsim.support.state import Stateful, keep_in_checkpoints, kept_in_checkpoints

__all__ = [
    "ArrayField",
    "NodeProgram",
    "Message",
    "Notes",
    "View",
    "array",
    "as_number",
    "kinds_of",
]


@dataclass(frozen=True)
class ArrayField:
    """The type of a message field that is an array of numbers.

    Parameters
    ----------
    kind
        The type of the elements: ``int``, ``float`` or a NumPy type of 16 or 32 bits.
    ndim
        The number of dimensions, 1 or 2; None if a message may have either.
    """

    kind: type
    ndim: int | None = None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements of received arrays."""
        return np.dtype({int: np.int64, float: np.float64}.get(self.kind, self.kind))

    @cached_property
    def dimensions(self) -> tuple[int, ...]:
        """The permitted numbers of dimensions."""
        return (1, 2) if self.ndim is None else (self.ndim,)

    def __str__(self) -> str:
        text = {1: "one dimension", 2: "two dimensions", None: "one or two dimensions"}[self.ndim]
        return f"an array of {self.kind.__name__}, of {text}"


#: The types of 16 and 32 bits of the elements of arrays in messages.
_NARROW = (np.int16, np.uint16, np.int32, np.uint32, np.float32)


def array(kind: type, ndim: int | None = None) -> ArrayField:
    """Return the type of a message field that is an array of numbers, such as a vector or a matrix.

    The shape of the array may differ from message to message.  A sender may pass a list; the receiver gets a
    read-only copy.  Elements of 16 or 32 bits take less memory while a message is on its way: a sender may
    pass integers that fit, and floats, which are rounded.

    Parameters
    ----------
    kind
        The type of the elements: ``int`` and ``float`` have 64 bits; others are ``np.int16``, ``np.uint16``,
        ``np.int32``, ``np.uint32`` and ``np.float32``.
    ndim
        The number of dimensions, 1 or 2.  By default a message may have either, which only interpreted nodes
        can use.

    Raises
    ------
    ScenarioError
        If `kind` or `ndim` is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> import gridsim as gs
    >>> summary = gs.Message(100, cells=gs.array(np.uint16, ndim=1), path=gs.array(int, ndim=1))
    """
    if kind not in (int, float, *_NARROW):
        names = ", ".join(f"np.{each.__name__}" for each in _NARROW)
        raise ScenarioError(f"kind of an array must be int, float or one of {names}, got {kind!r}")
    if ndim not in (None, 1, 2) or isinstance(ndim, bool):
        raise ScenarioError(f"ndim of an array must be 1, 2 or None, got {ndim!r}")
    return ArrayField(kind, ndim)


#: Maximum `delay` of a `Message`, s.
MAX_DELAY = 2.0e9


class Message:
    """A kind of message: its size on the wire and its fields.

    Parameters
    ----------
    nbytes
        Size of one message in bytes.  It may be a function that takes the fields by name, as the receiver
        gets them, and returns the size; ``**rest`` takes those that it does not need.  None declares a local
        kind, which a node can only send to itself by `View.later`.
    fields
        Name -> ``int``, ``float`` or `array`.  A name must begin with a letter and must not be ``node``,
        ``sender``, ``kind`` or ``to``, which every message has or `View.send` takes.  A field
        ``application`` must be ``int``; it makes that application known to the receiver, and the sender must
        know it already.
    moves_tasks
        Whether the message hands tasks over to the receiver for good.  Its fields ``application`` and
        ``tasks`` give the application and the number of tasks.  If a failure drops the message, its tasks
        are lost and submitted again.
    delay
        Time from sending to arrival in s; None if the network determines it.  A message with a delay does
        not use the network interfaces: it neither waits for other messages nor makes them wait.  At one
        instant such messages arrive in the order of sending, before releases.  With a delay of 0, the
        message is handled as soon as the handler that sends it returns, before anything else.
    counted
        Whether the accounting of messages includes this kind.  False requires a delay; it is meant for
        messages that stand for knowledge that a model assumes, not for traffic.
    deferred
        Whether its handlers only update attributes of the node; in them it is an error to send, enqueue,
        draw or set a timer.  Such a message may be handled later than it arrives: after the next release on
        any machine, or at the end of the run.
    answer
        The kinds of messages that answer a request of this kind: a name, or several.  A node sends such a
        request by `View.request`, and the receiver answers by `View.reply`.  Requests have only ``int`` and
        ``float`` fields.  Requests and answers get a further field ``request``, the number of the request,
        which is 0 if `View.send` sends the message.

    Raises
    ------
    ScenarioError
        If a field or a combination of arguments is not allowed.
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
        answer: str | Iterable[str] = (),
        **fields: type | ArrayField,
    ) -> None:
        is_whole = isinstance(nbytes, (int, np.integer)) and not isinstance(nbytes, bool)
        if not (nbytes is None or callable(nbytes) or (is_whole and 0 <= nbytes <= MAX_BYTES)):
            raise ScenarioError(
                f"nbytes of a message must be None, a function or a whole number in 0..{MAX_BYTES}, got "
                f"{nbytes!r}"
            )
        if callable(nbytes):
            _check_size_function(nbytes, fields)
        moves_tasks = flag("moves_tasks of a message", moves_tasks)
        deferred, counted = flag("deferred of a message", deferred), flag("counted of a message", counted)
        if delay is None and not counted:
            raise ScenarioError("a message with counted=False requires a delay")
        is_number = isinstance(delay, Real) and not isinstance(delay, bool)
        if delay is not None and not (is_number and 0 <= delay <= MAX_DELAY):
            raise ScenarioError(f"delay of a message must be a number in 0..{MAX_DELAY:g} s, got {delay!r}")
        if delay is not None and nbytes is None:
            raise ScenarioError(
                "a message with nbytes=None does not support delay: View.later sets the time of arrival"
            )
        reserved = ("node", "sender", "kind", "self", "seconds" if nbytes is None else "to")
        for name, kind in fields.items():
            if name in reserved or name.startswith("_") or not name.isidentifier():
                raise ScenarioError(
                    f"the name of a message field must begin with a letter and must not be "
                    f"{', '.join(reserved[:-1])} or {reserved[-1]}, got {name!r}"
                )
            if kind not in (int, float) and not isinstance(kind, ArrayField):
                raise ScenarioError(
                    f"message field {name!r} must be int, float or gs.array(...), got {kind!r}"
                )
        if fields.get("application", int) is not int:
            raise ScenarioError(f"message field 'application' must be int, got {fields['application']!r}")
        if moves_tasks and nbytes is None:
            raise ScenarioError(
                "a message with nbytes=None does not support moves_tasks=True: a node sends it to itself"
            )
        if moves_tasks and not (fields.get("application") is int and fields.get("tasks") is int):
            raise ScenarioError(
                "a message with moves_tasks=True requires the fields application and tasks, both int"
            )
        self.nbytes, self.moves_tasks, self.fields = nbytes, moves_tasks, dict(fields)
        self.counted, self.deferred = counted, deferred
        #: Time from sending to arrival, ns; None if the network determines it.
        self.delay = None if delay is None else round(delay * NS)
        is_plain = isinstance(nbytes, int) and delay is None and not set(fields.values()) - {int, float}
        if deferred and (moves_tasks or not is_plain):
            raise ScenarioError(
                "a message with deferred=True requires a fixed size, and does not support moves_tasks, "
                "delay or arrays"
            )
        self.arrays = tuple(name for name, kind in fields.items() if isinstance(kind, ArrayField))
        #: Fields that hold a handle (number) of data stored elsewhere: arrays, or data of handlers in Cython.
        self.opaque = self.arrays
        self.answers = (answer,) if isinstance(answer, str) else tuple(answer)
        if not all(isinstance(name, str) for name in self.answers):
            raise ScenarioError(f"answer of a message must be a kind of message or several, got {answer!r}")
        if self.answers and (nbytes is None or deferred or self.arrays):
            raise ScenarioError(
                "a message with an answer does not support nbytes=None, deferred=True or arrays as fields"
            )
        if self.answers and (names := {"number", "timeout"} & fields.keys()):
            raise ScenarioError(
                f"message field {min(names)!r} must have another name in a message with an answer, since "
                "number and timeout are names of arguments of requests"
            )
        #: Whether messages of this kind answer requests; `kinds_of` sets it.
        self.is_answer = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a record of the fields; an array is represented by its number in the core."""
        return message(*((name, "f8" if kind is float else "i8") for name, kind in self.fields.items()))

    def declare(self, network: Transport, name: str, *, priority: int) -> None:
        """Declare this kind as `name` to the network of a run; a local kind needs no declaration."""
        if self.nbytes is None:
            return
        network.kind(
            name,
            self.dtype,
            0 if callable(self.nbytes) else self.nbytes,
            None,
            priority=priority,
            deferred=self.deferred,
            keep=self.moves_tasks or bool(self.opaque),
            opaque=self.opaque,
            counted=self.counted,
            delay=self.delay,
        )

    def number(self, network: Transport, name: str) -> int:
        """Return the number of this kind in the links of an open network; -1 if the kind is local."""
        return -1 if self.nbytes is None else network.number(name)[0]


def _check_size_function(function: Callable[..., int], fields: Mapping[str, object]) -> None:
    """Raise ScenarioError if the function of the size of a message does not take `fields` by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some C functions have no signature
        return
    try:
        signature.bind(**fields)
    except TypeError as error:
        raise ScenarioError(
            f"nbytes of a message must be a function that takes its fields ({', '.join(fields)}) by name, "
            f"got {signature}: {error}; **rest takes the fields that it does not need"
        ) from None


def kinds_of(messages: Mapping[str, Message]) -> Mapping[str, Message]:
    """Return kinds of messages with all their fields: requests and answers have the field ``request``.

    Raises
    ------
    ScenarioError
        If an answer is not a kind of message, or is a kind that cannot be an answer.
    """
    answers = {answer: name for name, kind in messages.items() for answer in kind.answers}
    if not answers:
        return messages
    for answer, name in answers.items():
        known = messages.get(answer)
        path = f"answer {answer!r} of the message {name!r}"
        if known is None:
            raise ScenarioError(f"{path} must be a kind of message; {listed(messages, answer)}")
        if known.nbytes is None or known.deferred or known.answers:
            raise ScenarioError(f"{path} must not be local, deferred or a request, got {known!r}")
    kinds = dict(messages)
    for name, kind in messages.items():
        if not (kind.answers or name in answers):
            continue
        if "request" in kind.fields:
            raise ScenarioError(
                f"message {name!r} must not declare a field 'request', which requests and answers always have"
            )
        if name in answers and "message" in kind.fields:
            raise ScenarioError(
                f"message {name!r} must not have a field 'message', which is an argument of View.reply"
            )
        kinds[name] = copy(kind)
        kinds[name].fields, kinds[name].is_answer = {**kind.fields, "request": int}, name in answers
    return kinds


class NodeProgram:
    """The program of one node: its handlers and, in its attributes, its memory.

    A failure of the machine erases the memory: a new program, made at once, takes the place of this one.  It
    starts when the machine recovers.

    Parameters
    ----------
    parameters
        The scheduler, whose attributes are its parameters.

    Attributes
    ----------
    stable_storage
        Names of the attributes that are on the disk of the machine: they survive its failures.
    """

    stable_storage: ClassVar[tuple[str, ...]] = ()

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def hosted_programs(self) -> Iterable[NodeProgram]:
        """Iterate over the programs that this program holds in memory and runs on its machine.

        Checkpoints need ``gridsim.support.state.keep_attributes(cls, "parameters")`` for each class of them.
        """
        return ()

    def on_start(self, view: View) -> None:
        """Handle the start of the node: at the beginning of the run, or when its machine recovers."""

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Handle the submission of `tasks` tasks of `application` at this node.

        At the release these are all tasks of the application.  By default they are also the lost tasks that
        are submitted again (`on_lost`).  The node holds the tasks until it enqueues them or hands them over
        to another node.  If it fails before that, they are lost.
        """
        raise SchedulerError(
            f"t = {view.now} s: tasks were submitted at node {view.node}, but {type(self).__name__} does not "
            "define on_release"
        )

    def on_message(self, view: View, message: Any) -> None:
        """Handle a message that has arrived; it has ``kind``, ``sender`` and the fields of its kind.

        If the class has a method ``on_<kind>(view, message)``, that method gets the messages of this kind
        instead.  Each ``-`` in the name of the kind becomes a ``_`` in the name of the method.
        """
        handlers = f"on_{message.kind} or on_message".replace("-", "_")
        raise SchedulerError(
            f"t = {view.now} s: a message {message.kind!r} arrived at node {view.node}, but "
            f"{type(self).__name__} does not define {handlers}"
        )

    def on_timer(self, view: View, name: str) -> None:
        """Handle the timer `name`, which `View.timer` set and which fires now.

        These are the timers in ``timers`` of the scheduler.  A definition with a third parameter, ``value``,
        gets the value of the timer as well.  A timer with a method of its own, ``on_<name>(view, ...)``, can
        have several fields, and is not declared.  If the machine fails at the instant at which a timer is
        due, the timer fires first (`gridsim.scheduling.contract.FAULT_PRIORITY`).
        """

    def on_timeout(self, view: View, request: Any) -> None:
        """Handle a request that got no answer in time.

        The request has ``kind``, ``number``, the receiver ``to``, and the fields that were sent.  A class
        whose nodes call `View.request` must define it.
        """

    def on_idle(self, view: View) -> None:
        """Handle the event that this machine becomes idle: its last task ends or is withdrawn."""

    def on_done(self, view: View, application: Application) -> None:
        """Handle the end of a task of `application` on this machine.

        It is called before all other handlers of that instant.
        """

    def on_end(self, view: View) -> None:
        """Handle the end of tasks on this machine.

        It is called once per instant, after all messages of that instant.  It is not called if the scheduler
        has ``watch = "idle"``, unless a class of nodes defines `on_done`.
        """

    def on_act(self, view: View) -> None:
        """Act after a call of `View.act`: once per instant, after all messages of that instant."""

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Handle the loss of `tasks` tasks of `application` that were submitted at this node.

        By default it calls `on_release` with them.
        """
        self.on_release(view, application, tasks)


def _container_to_plain(container: Container) -> list[Any]:
    columns = zip(container.columns.names, container.columns.kinds, strict=True)
    return [[[name, kind.__name__] for name, kind in columns], container.rows().tolist()]


def _container_from_plain(cls: type[Container], parts: Any) -> Container:
    columns, rows = parts
    kinds = {"int": int, "float": float}
    table = np.array(rows, np.int64).reshape(len(rows), -1) if rows else None
    return rebuild(cls, {name: kinds[kind] for name, kind in columns}, table)


for _cls in (Fifo, Heap, IntMap, IntSet):
    keep_in_checkpoints(_cls, _container_to_plain, partial(_container_from_plain, _cls))
kept_in_checkpoints(SharedArray)


def as_number(kind: Any, value: Any, node: int, name: str) -> Any:
    """Return `value`, which `node` passed as `name`, as an ``int``, a ``float``, or a NumPy array.

    Parameters
    ----------
    kind
        ``int``, ``float`` or an `ArrayField`.

    Raises
    ------
    SchedulerError
        If `value` has another type or, for an ``int``, has a fraction or needs more than 64 bits.
    """
    try:
        if kind is int:
            return integer(value, name)
        if kind is float:
            return value if type(value) is float else real(value, name)
    except (TypeError, OverflowError) as error:
        raise SchedulerError(f"node {node}: {error}") from None
    return _as_array(kind, value, node, name)


def _as_array(kind: ArrayField, value: Any, node: int, name: str) -> NDArray[Any]:
    """Return a read-only copy of `value` as an array; raise SchedulerError if it does not fit `kind`."""
    try:
        values = np.asarray(value)
        result = _copy_with_type(values, kind.dtype) if values.ndim in kind.dimensions else None
    except (TypeError, ValueError, OverflowError):
        result = None
    if result is None:
        raise SchedulerError(f"node {node}: {name} must be {kind}, got {value!r}")
    result.flags.writeable = False
    return result


def _copy_with_type(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return a copy of an array with elements of another type; None if they are not numbers that fit."""
    if values.dtype == dtype:
        return values.copy()
    is_whole, source = dtype.kind in "iu", values.dtype.kind
    if source not in ("biu" if is_whole else "biuf") and values.size:
        return None
    if source == "f" and values.itemsize > dtype.itemsize:
        with np.errstate(over="ignore"):  # checked last, since it takes the longest
            return np.array(values, dtype, order="C")
    result = np.array(values, dtype, order="C")
    return result if not is_whole or (result == values).all() else None


class Notes(Stateful):
    """The rows that nodes write to tables of the result; nodes cannot read them.

    Parameters
    ----------
    tables
        Name -> columns, each ``int`` or ``float``.
    """

    STATE = ("rows",)

    def __init__(self, tables: Mapping[str, Mapping[str, type]]) -> None:
        self.columns = tables
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in tables}

    def add(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Add a row of `values` to `table`.

        Raises
        ------
        SchedulerError
            If `row` does not accept the values.
        """
        row = self.row(node, table, values)
        self.rows[table].append(tuple(row))  # tuples of numbers are not tracked by the garbage collector

    def row(self, node: int, table: str, values: Mapping[str, float]) -> list[float]:
        """Return `values` as a row of `table`.

        Raises
        ------
        SchedulerError
            If the table or a column is not declared, a column is missing, or a value has the wrong type.
        """
        columns = self.columns.get(table)
        if columns is None:
            raise SchedulerError(
                f"node {node}: table of View.note must be a table of the scheduler, got {table!r}; "
                f"{listed(self.columns, table)}"
            )
        if values.keys() != columns.keys():
            for name in [name for name in values if name not in columns]:
                raise SchedulerError(
                    f"node {node}: View.note of {table!r} has no column {name!r}; {listed(columns, name)}"
                )
            name = next(name for name in columns if name not in values)
            raise SchedulerError(f"node {node}: View.note of {table!r} requires the column {name!r}")
        return [as_number(kind, values[name], node, name) for name, kind in columns.items()]

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Return the tables by name, each as columns by name; rows are in the order of writing."""
        return {
            table: {
                name: np.array([row[k] for row in self.rows[table]], np.int64 if kind is int else np.float64)
                for k, (name, kind) in enumerate(columns.items())
            }
            for table, columns in self.columns.items()
        }
