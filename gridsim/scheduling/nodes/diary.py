"""The recorder of the handler calls of some nodes: the arguments, actions and changes of each call."""

from __future__ import annotations

import inspect
import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.kinds import Received, Request
from gridcore.nodes.node_memory import MemoryObject
from gridsim.model.applications import Application
from gridsim.results.table import Table, frozen
from gridsim.scheduling.nodes.attributes import attributes_of
from gridsim.scheduling.nodes.observe import nodes_of
from gridsim.support.clock import NS
from gridsim.support.state import check_names

__all__ = ["DIARY_LIMIT", "Recorder", "Sent"]

#: Default maximum number of rows of a diary.
DIARY_LIMIT = 100_000
#: Maximum lengths of the text of a row, and of a value in it, characters.
_MAX_TEXT, _MAX_VALUE = 160, 60
#: Maximum number of elements of an array whose changes a row shows.
_MAX_CHANGES = 4
#: Order of the rows of a call; other entries come in the order of the actions, before attributes.
_ORDER = {"call": 0, "send": 1, "later": 2, "timer": 3, "cancel": 4, "act": 5, "attribute": 7}
_COLUMNS = ("time", "node", "call", "handler", "entry", "name", "peer", "machine", "due", "text")
_TEXTS = ("handler", "entry", "name", "text")
_Row = tuple[int, int, int, str, str, str, int, int, int, str]


class Recorder:
    """The diary of a run, which a message core writes (`NodeEvents.record_calls`).

    A core calls `begin` before a handler of a recorded node and `end` after it.  Between these it calls
    `sent` for each message that leaves at once, and `add` for each action on the queue and the board.  The
    recorder detects all other changes by comparing the node before and after the call.

    Parameters
    ----------
    nodes
        The recorded nodes, ascending; None for all.
    limit
        Maximum number of rows.
    """

    reads_programs = True

    def __init__(self, nodes: tuple[int, ...] | None, limit: int) -> None:
        self.nodes, self.limit = nodes, limit
        self.rows: list[_Row] = []
        #: The number of calls so far, and the number of calls that did not fit into the diary.
        self.calls = self.left_out = 0
        self._entries: list[tuple[str, str, int, int, int, str]] = []
        self._open = False
        self._adapter: Any = None

    @property
    def is_attached(self) -> bool:
        """Whether the run has nodes that can be recorded."""
        return self._adapter is not None

    def attach(self, adapter: Any) -> None:
        """Record nodes of `adapter`, an `Adapter`, from now on.

        Raises
        ------
        ScenarioError
            If a node does not exist.
        """
        self._adapter, self._core = adapter, adapter.core
        is_recorded = np.zeros(adapter.layout.nodes, np.bool_)
        is_recorded[nodes_of("record_nodes", self.nodes, adapter.layout.nodes)] = True
        self._kinds = {name: (k, kind) for k, (name, kind) in enumerate(adapter.kinds.items())}
        adapter.core.record_calls(self, is_recorded)

    # -- calls of the core ------------------------------------------------------------------------------

    def begin(self, node: int, handler: str, arguments: Sequence[Any]) -> None:
        """Begin the record of a call of `handler`, which gets `arguments` after the view."""
        self._open = len(self.rows) < self.limit
        if not self._open:
            return
        core, program = self._core, self._adapter.program_of(node)
        name, peer, fields = _arguments(type(program), handler, arguments)
        self._node, self._handler = node, handler
        self._entries = [("call", name, peer, -1, -1, _texts(fields))]
        self._attributes = {key: _snapshot(value) for key, value in attributes_of(program).items()}
        self._sizes = core.outbox_sizes()
        self._timers, self._acts = core.timers_of(node), core.acts_of(node)
        self._local = core.local_messages_of(node)

    def sent(self, kind: str, to: int, fields: Mapping[str, Any], delay: int = -1) -> None:
        """Record a message that leaves now, with its own delay in ns, or -1 for the delay of the network."""
        if not self._open:
            return
        machine_of, declaration = self._core.machine_of, self._kinds[kind][1]
        machine, due = machine_of(to), -1 if delay < 0 else self._core.now + delay
        if machine == machine_of(self._node):  # the message waits only for the end of the wave
            machine, due = -1, max(due, self._core.now)
        elif delay >= 0 and not declaration.counted:
            machine = -1  # the log of messages does not have this message
        self._entries.append(("send", kind, to, machine, due, _texts(fields)))

    def add(self, entry: str, fields: Mapping[str, Any], name: str = "") -> None:
        """Record an action of the node: enqueue, take, publish, note or decide."""
        if self._open:
            self._entries.append((entry, name, -1, -1, -1, _texts(fields)))

    def end(self) -> None:
        """End the record of a call."""
        self.calls += 1
        if not self._open:
            self.left_out += 1
            return
        core, node = self._core, self._node
        for kind, to, fields in core.sent_since(self._sizes):
            self.sent(kind, to, fields)
        for _, due, message in core.local_messages_of(node)[len(self._local) :]:
            self._entries.append(("later", message.kind, -1, -1, due, _texts(_fields(message))))
        timers, acts = core.timers_of(node), core.acts_of(node)
        for entry, pending, others in (("timer", timers, self._timers), ("cancel", self._timers, timers)):
            old_numbers = {timer[0] for timer in others}
            for number, due, name, fields in pending:
                if number not in old_numbers:
                    self._entries.append((entry, name, -1, -1, due, _texts(fields)))
        old_numbers = {number for number, _ in self._acts}
        self._entries += [("act", "", -1, -1, due, "") for number, due in acts if number not in old_numbers]
        self._add_changes(attributes_of(self._adapter.program_of(node)))
        self._entries.sort(key=self._rank)
        self._write(self.calls - 1)
        self._open = False

    def failed(self, node: int) -> None:
        """Record that the machine of a node fails, which erases the memory of the node."""
        if len(self.rows) < self.limit:
            self.rows.append((self._core.now, node, -1, "", "fail", "", -1, -1, -1, ""))

    def _rank(self, entry: tuple[Any, ...]) -> tuple[int, int]:
        return _ORDER.get(entry[0], 6), self._kinds[entry[1]][0] if entry[0] == "send" else 0

    def _add_changes(self, attributes: Mapping[str, Any]) -> None:
        """Record the attributes that have changed since the beginning of the call."""
        for name in sorted(attributes.keys() | self._attributes.keys()):
            old = self._attributes.get(name, _UNSET)
            new = _snapshot(attributes[name]) if name in attributes else _UNSET
            if not _is_same(old, new):
                self._entries.append(("attribute", name, -1, -1, -1, _change(old, new)))

    def _write(self, call: int) -> None:
        capacity = self.limit - len(self.rows)
        head = self._core.now, self._node, call, self._handler
        self.rows += [(*head, *entry) for entry in self._entries[:capacity]]
        self.left_out += max(0, len(self._entries) - capacity)
        self._entries = []

    # -- checkpoints, and the end -----------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the rows so far."""
        return {"calls": self.calls, "left_out": self.left_out, "rows": list(self._columns().values())}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        check_names(self, state, ("calls", "left_out", "rows"))
        self.calls, self.left_out = state["calls"], state["left_out"]
        self.rows = list(zip(*(column.tolist() for column in state["rows"]), strict=True))

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(_COLUMNS)
        return {
            name: np.array(column, np.str_ if name in _TEXTS else np.int64)
            for name, column in zip(_COLUMNS, columns, strict=True)
        }

    def table(self, log: Mapping[str, NDArray[np.int64]], kinds: Sequence[str]) -> Table:
        """Return the diary as a table, with times in s; a message is due at its delivery.

        Parameters
        ----------
        log
            The messages that the recorded nodes sent to other machines (`Links.logged`).
        kinds
            The names of the kinds of messages, by number.
        """
        columns = self._columns()
        columns["due"] = self._due(columns, log, kinds)
        del columns["machine"]
        return Table(
            {name: frozen(column) for name, column in (columns | {"time": columns["time"] / NS}).items()}
        )

    def _due(
        self, columns: Mapping[str, NDArray[Any]], log: Mapping[str, NDArray[np.int64]], kinds: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return when messages were delivered and timers fire, s; NaN for messages that did not arrive."""
        delivered: dict[tuple[Any, ...], deque[int]] = defaultdict(deque)
        keys = zip(*(log[name].tolist() for name in ("sent", "node", "kind", "receiver")), strict=True)
        for (sent, node, kind, receiver), at in zip(keys, log["delivered"].tolist(), strict=True):
            # messages with the same key leave in the order in which their node sends them, as in the diary
            delivered[sent, node, kinds[kind], receiver].append(at)
        due = columns["due"].tolist()
        for k in np.flatnonzero(columns["machine"] >= 0).tolist():
            key = tuple(columns[name][k].item() for name in ("time", "node", "name", "machine"))
            due[k] = delivered[key].popleft() if delivered[key] else -1
        instants = np.array(due, np.int64)
        return np.where(instants < 0, math.nan, instants / NS)


class _Unset:
    """A placeholder for an attribute that does not exist."""

    def __repr__(self) -> str:
        return "nothing"


_UNSET = _Unset()


def _arguments(policy: type, handler: str, arguments: Sequence[Any]) -> tuple[str, int, dict[str, Any]]:
    """Return the kind of the message or name of the timer, the sender (-1: none), and the other arguments."""
    if arguments and isinstance(arguments[0], Received):
        return arguments[0].kind, arguments[0].sender, _fields(arguments[0])
    if arguments and isinstance(arguments[0], Request):
        return arguments[0].kind, arguments[0].to, _fields(arguments[0], "to")
    fields = dict(zip(_parameters(getattr(policy, handler)), arguments, strict=False))
    return (fields.pop("name", "") if handler == "on_timer" else ""), -1, fields


@cache
def _parameters(handler: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of a handler after the view."""
    return tuple(inspect.signature(handler).parameters)[2:]


def _fields(message: Any, peer: str = "sender") -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__slots__ if name != peer}


def _texts(fields: Mapping[str, Any]) -> str:
    return _short(", ".join(f"{name}={_value_text(value)}" for name, value in fields.items()), _MAX_TEXT)


def _value_text(value: Any) -> str:
    """Return a value as text: an application by its number, an array as a list, 3.0 as 3."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.size <= _MAX_VALUE else value.reshape(-1)[:_MAX_VALUE].tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, Application):
        value = value.number
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(
            value
        )  # an attribute of a compiled node may be a float where that of an interpreted one is an int
    return _short(value if isinstance(value, _Text) else repr(value), _MAX_VALUE)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


# -- attributes before and after a call ------------------------------------------------------------------


class _Text(str):
    """The text of a value that may change in place."""


def _snapshot(value: Any) -> Any:
    """Return an independent copy of a number, a text or an array, or the text of any other value."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy()
    if isinstance(value, MemoryObject):
        return _Text(repr(value))
    with np.printoptions(threshold=2**31):  # otherwise changes within long arrays would not show
        return _Text(repr(value))


def _is_same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return old.dtype == new.dtype and np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
    if (
        isinstance(old, np.ndarray)
        or isinstance(new, np.ndarray)
        or isinstance(old, str) != isinstance(new, str)
    ):
        return False
    return bool(old == new or old != old and new != new)


def _change(old: Any, new: Any) -> str:
    """Return the text of a change; for an array, the elements that differ, if they are few."""
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and old.shape == new.shape:
        differs = np.argwhere((old != new) & ~((old != old) & (new != new)))
        if 0 < len(differs) <= _MAX_CHANGES:
            parts = [
                f"[{', '.join(map(str, at))}] {_change(old[tuple(at)], new[tuple(at)])}"
                for at in differs.tolist()
            ]
            return _short(", ".join(parts), _MAX_TEXT)
    return f"{_value_text(old)} -> {_value_text(new)}"


class Sent:
    """A message that a node has sent: its receiver, its kind and its fields.

    Two messages are equal if all of these are equal; arrays are compared by their elements.

    Parameters
    ----------
    to
        The node that receives the message.
    kind
        The kind of the message.
    **fields
        The fields of the message.  Requests and answers have ``request``, the number of the request.

    Examples
    --------
    >>> Sent(2, "task", application=0, tasks=1)
    Sent(2, 'task', application=0, tasks=1)
    """

    __slots__ = ("fields", "kind", "to")

    def __init__(self, to: int, kind: str, /, **fields: Any) -> None:
        self.to, self.kind, self.fields = to, kind, fields

    def __repr__(self) -> str:
        fields = "".join(f", {name}={value!r}" for name, value in self.fields.items())
        return f"Sent({self.to}, {self.kind!r}{fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sent):
            return NotImplemented
        return (
            (self.to, self.kind) == (other.to, other.kind)
            and self.fields.keys() == other.fields.keys()
            and all(_are_equal(value, other.fields[name]) for name, value in self.fields.items())
        )

    def __hash__(self) -> int:
        return hash((self.to, self.kind))


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
