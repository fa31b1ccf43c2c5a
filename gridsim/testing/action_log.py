"""Logs of the messages that machines send and the tasks that they start, and the first difference of two."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gridsim.engine.transport import Transport
from gridsim.support.arrays import Bools, Integers, Rows

#: Fields of each message: its receiver and its sender.
_ENDS = ("node", "sender")


class Action(NamedTuple):
    """An action of a machine at a time (ns): a message that it sends, or a task that it starts."""

    time: int
    machine: int
    kind: str
    fields: tuple[tuple[str, Any], ...]


class _ActionKind(NamedTuple):
    """Kind of action, with the names of its fields, and which of them are floats."""

    name: str
    fields: tuple[str, ...] = ()
    is_float: tuple[bool, ...] = ()


_START = _ActionKind("starts", ("application",), (False,))


@dataclass(frozen=True)
class ActionLog:
    """Actions of all machines: first all messages in the order of sending, then all starts of tasks by time.

    Parameters
    ----------
    kinds
        The kinds of actions.
    time, machine, kind
        int64[actions], the time (ns), the machine and the index of the kind of each action.
    values
        int64[actions, fields], the values of fields; floats are encoded by their bits.
    """

    kinds: tuple[_ActionKind, ...]
    time: Integers
    machine: Integers
    kind: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, k: int) -> Action:
        kind = self.kinds[self.kind[k]]
        values = self.values[k, : len(kind.fields)]
        fields = tuple(
            (name, _from_bits(value) if is_float else int(value))
            for name, is_float, value in zip(kind.fields, kind.is_float, values, strict=True)
        )
        return Action(int(self.time[k]), int(self.machine[k]), kind.name, fields)

    def select(self, rows: Bools) -> ActionLog:
        """Return the actions with `rows` true."""
        columns = {name: getattr(self, name)[rows] for name in ("time", "machine", "kind", "values")}
        return replace(self, **columns)

    @property
    def are_starts(self) -> Bools:
        """Which actions are starts of tasks, not messages: bool[actions]."""
        are_starts: Bools = self.kind == self.kinds.index(_START)
        return are_starts

    def since(self, time: int) -> ActionLog:
        """Return the actions at `time` (ns) or later."""
        return self.select(self.time >= time)

    def receivers(self, machine: int, until: int) -> list[tuple[str, Any]]:
        """Return the kinds and receiving nodes of the messages that a machine sent before `until` ns."""
        log = self.select((self.machine == machine) & (self.time < until))
        return [(action.kind, action.fields[0]) for action in map(log.__getitem__, range(len(log)))
                if action.kind != _START.name]  # fmt: skip

    def _with_kinds(self, kinds: tuple[_ActionKind, ...], width: int) -> ActionLog:
        """Return the log with indices in other `kinds`, and with `width` columns of values."""
        places = np.array([kinds.index(kind) for kind in self.kinds], np.int64)
        values = np.zeros((len(self), width), np.int64)
        values[:, : self.values.shape[1]] = self.values
        return replace(self, kinds=kinds, kind=places[self.kind], values=values)


def _from_bits(bits: Any) -> float | None:
    """Return the float with these bits; None for NaN, so that two missing values are equal."""
    value = float(bits.view(np.float64))
    return value if value == value else None


def _to_bits(column: Any) -> Integers:
    """Return a column as int64 with equal numbers for equal values, all NaN included."""
    if column.dtype.kind != "f":
        return np.asarray(column, np.int64)
    values = column.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    bits: Integers = values.view(np.int64)
    return bits


class ActionRecorder:
    """Recorder of the messages of a run; its method `add` is an observer of the transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._times: list[int] = []
        #: Kind of message -> the bytes of its rows, their type, and its opaque fields.
        self._blocks: dict[str, list[bytes]] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._opaque: dict[str, tuple[str, ...]] = {}
        #: The kind and the number of rows of each call.
        self._names: list[str] = []
        self._counts: list[int] = []
        transport.observe(self.add)

    def add(self, now: int, name: str, rows: Rows, opaque: tuple[str, ...]) -> None:
        """Record messages of one kind that leave at `now` ns."""
        if name not in self._blocks:
            self._blocks[name], self._dtypes[name], self._opaque[name] = [], rows.dtype, opaque
        self._blocks[name].append(rows.tobytes())  # joining structured arrays is far slower in numpy
        self._times.append(now)
        self._names.append(name)
        self._counts.append(len(rows))

    def field_counts(self) -> dict[str, int]:
        """Return kind of message -> number of its fields, without references to objects in memory."""
        return {
            name: len({*(dtype.names or ())} - {*_ENDS, *self._opaque[name]})
            for name, dtype in self._dtypes.items()
        }

    def _rows(self, name: str) -> Rows:
        """Return all messages of a kind, in the order of sending."""
        return np.frombuffer(b"".join(self._blocks[name]), self._dtypes[name])

    def _columns(self) -> tuple[list[str], Integers, Integers]:
        """Return the kinds of messages, and for each message its time (ns) and the index of its kind."""
        names = sorted(self._blocks)
        numbers = {name: number for number, name in enumerate(names)}
        kinds = np.array([numbers[name] for name in self._names], np.int64).repeat(self._counts)
        return names, np.array(self._times, np.int64).repeat(self._counts), kinds

    def delayed_messages(self, delays: dict[str, int]) -> Integers:
        """Return the messages between machines of kinds with a delay of their own.

        Parameters
        ----------
        delays
            Kind of message -> delay, ns.

        Returns
        -------
        ndarray
            int64[messages, 4], the time (ns), the machines of sender and receiver, and the delay (ns) of each
            message; in ascending order, without duplicates.
        """
        names, time, kinds = self._columns()
        machine_of, messages = self._transport.machine_of, [np.zeros((0, 4), np.int64)]
        for number, name in enumerate(names):
            if name not in delays:
                continue
            rows, at = self._rows(name), time[kinds == number]
            ends = machine_of[rows["sender"]], machine_of[rows["node"]]
            of_kind = np.column_stack([at, *ends, np.full(len(rows), delays[name])])
            messages.append(of_kind[ends[0] != ends[1]])
        return np.unique(np.concatenate(messages), axis=0)

    def log(self, starts: tuple[Integers, Integers, Integers]) -> ActionLog:
        """Return the log of all messages and of the starts of tasks.

        Parameters
        ----------
        starts
            int64[tasks] each: the time (ns), the machine and the application of the start of each task.
        """
        names, time, number = self._columns()
        rows_of = {name: self._rows(name) for name in names}
        kinds = [_kind_of(name, rows_of[name].dtype, self._opaque[name]) for name in names]
        time = np.concatenate([time, starts[0]])
        machine, width = np.zeros(len(time), np.int64), max(len(kind.fields) for kind in (*kinds, _START))
        values = np.zeros((len(time), width), np.int64)
        for k, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            rows, places = rows_of[name], np.flatnonzero(number == k)
            machine[places] = self._transport.machine_of[rows["sender"]]
            for j, field in enumerate(kind.fields):
                values[places, j] = _to_bits(rows[field])
        count, in_order = len(number), np.lexsort(starts[::-1])
        time[count:], machine[count:], values[count:, 0] = (column[in_order] for column in starts)
        number = np.concatenate([number, np.full(len(starts[0]), len(kinds))])
        return ActionLog((*kinds, _START), time, machine, number, values)


def _kind_of(name: str, dtype: np.dtype[Any], opaque: Sequence[str]) -> _ActionKind:
    fields = tuple(field for field in dtype.names or () if field not in opaque)
    return _ActionKind(f"sends {name}", fields, tuple(dtype[field].kind == "f" for field in fields))


def _is_renumbered(a: Action, b: Action, missing: tuple[int, ...]) -> bool:
    """Return whether two actions are the same if the applications after the `missing` ones are renumbered."""
    if not missing or a[:3] != b[:3]:
        return a == b
    return all(
        value == renumbered
        or (name == column and renumbered == value - bisect_left(missing, value) and value not in missing)
        for (name, value), (column, renumbered) in zip(a.fields, b.fields, strict=True)
    )


def first_difference(
    base: ActionLog, variant: ActionLog, until: Sequence[int], missing: tuple[int, ...] = ()
) -> tuple[Action, str] | None:
    """Return the first action that only one log has, before `until` (ns) of its machine; else None.

    The text returned with it says whether the action is only in the run without the change, or with it.

    Parameters
    ----------
    until
        The time (ns) of each machine until which its actions are compared.
    missing
        The applications that only `base` has; the later ones have lower numbers in `variant`.
    """
    ends: Integers = np.asarray(until, np.int64)
    logs = [log.select(log.time < ends[log.machine]) for log in (base, variant)]
    kinds = tuple(sorted({*base.kinds, *variant.kinds}))
    width = max(log.values.shape[1] for log in logs)
    logs = [log._with_kinds(kinds, width) for log in logs]
    differences = []
    for are_starts in (False, True):
        first, second = (log.select(log.are_starts == are_starts) for log in logs)
        differences.append(_first_difference(first, second, missing))
    return min(filter(None, differences), key=lambda difference: difference[0].time, default=None)


def _first_difference(
    first: ActionLog, second: ActionLog, missing: tuple[int, ...]
) -> tuple[Action, str] | None:
    """Compare two logs in order of time, and return the same as `first_difference`."""
    common = min(len(first), len(second))
    differs = (first.values[:common] != second.values[:common]).any(axis=1)
    for name in ("time", "machine", "kind"):
        differs |= getattr(first, name)[:common] != getattr(second, name)[:common]
    places = (k for k in np.flatnonzero(differs).tolist() if not _is_renumbered(first[k], second[k], missing))
    if (k := next(places, common)) == len(first) == len(second):
        return None
    a = first[k] if k < len(first) else None
    b = second[k] if k < len(second) else None
    if a is not None and (b is None or a[:3] <= b[:3]):
        return a, "only without the change"
    assert b is not None
    return b, "only with the change"
