"""The timers of nodes, and their messages to themselves, in a readable message core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gridcore.common.state import NEVER, read
from gridcore.nodes.kinds import MessageKind
from gridcore.nodes.payloads import Payloads
from gridcore.nodes.state import LOCAL

__all__ = ["LocalMail", "NodeTimer", "Timers", "from_word", "to_word"]


class NodeTimer(NamedTuple):
    """A timer that is set.

    Parameters
    ----------
    time
        Time at which it fires, ns.
    number
        Its position in the order of setting.
    name
        The number of its name, in the order of declaration.
    fields
        The arguments of its handler; for `NodeProgram.on_timer`, the value of the timer.
    """

    time: int
    number: int
    node: int
    name: int
    fields: tuple[float, ...]

    @property
    def key(self) -> tuple[int, int, tuple[float, ...]]:
        """The values that identify the timer among the timers of its node."""
        return self.time, self.name, self.fields


class Timers:
    """The timers of all nodes."""

    def __init__(self, nodes: int) -> None:
        self.number = 0  # number of timers set so far
        self._set: list[dict[tuple[int, int, tuple[float, ...]], NodeTimer]] = [{} for _ in range(nodes)]
        self._queue: list[NodeTimer] = []  # a heap, which may contain cancelled timers

    def set(self, time: int, node: int, name: int = 0, fields: tuple[float, ...] = ()) -> NodeTimer:
        """Set a timer, unless the node has the same one (name, instant and fields) already; return it."""
        timer = NodeTimer(time, self.number, node, name, fields)
        if timer.key not in self._set[node]:
            self.number += 1
            self._set[node][timer.key] = timer
            heappush(self._queue, timer)
        return self._set[node][timer.key]

    def cancel(self, node: int, name: int, fields: Mapping[int, float]) -> None:
        """Cancel the timers `name` of `node` that have `fields`, by their position."""
        for timer in self.of(node):
            if timer.name == name and all(timer.fields[k] == value for k, value in fields.items()):
                del self._set[node][timer.key]

    def cancel_all(self, node: int) -> None:
        """Cancel all timers of `node`."""
        self._set[node].clear()

    def is_set(self, timer: NodeTimer) -> bool:
        """Return whether a timer has neither fired nor been cancelled."""
        return self._set[timer.node].get(timer.key) is timer

    def of(self, node: int) -> list[NodeTimer]:
        """Return the timers of `node`, in the order of setting."""
        return list(self._set[node].values())

    def first(self) -> int:
        """Return the time at which the next timer fires, ns; `NEVER` if there is none."""
        while self._queue and not self.is_set(self._queue[0]):
            heappop(self._queue)
        return self._queue[0].time if self._queue else NEVER

    def due(self, now: int) -> list[NodeTimer]:
        """Return the timers that fire by `now` ns, by node, number of the name and order of setting.

        They remain set until `fire`, so that a timer may still cancel later ones.
        """
        due = []
        while self.first() <= now:
            due.append(heappop(self._queue))
        return sorted(due, key=lambda timer: (timer.node, timer.name, timer.number))

    def fire(self, timer: NodeTimer) -> bool:
        """Remove a timer; return False if it has been cancelled."""
        is_set = self.is_set(timer)
        if is_set:
            del self._set[timer.node][timer.key]
        return is_set

    def pending(self) -> list[NodeTimer]:
        """Return the timers that are set, in the order of setting."""
        timers = [timer for node in range(len(self._set)) for timer in self.of(node)]
        return sorted(timers, key=lambda timer: timer.number)

    def restore(self, timers: Sequence[NodeTimer], number: int) -> None:
        """Restore the timers of a saved state, and the number of timers set so far."""
        self.__init__(len(self._set))  # type: ignore[misc]
        for timer in sorted(timers, key=lambda timer: timer.number):
            self.number = timer.number
            self.set(timer.time, timer.node, timer.name, timer.fields)
        self.number = number


def to_word(kind: Any, value: float) -> int:
    """Return a field of type ``int`` or ``float`` as a 64-bit word of a state."""
    return int(np.float64(value).view(np.int64)) if kind is float else int(value)


def from_word(kind: Any, word: int) -> float:
    """Return the field of type ``int`` or ``float`` from its 64-bit word."""
    return float(np.int64(word).view(np.float64)) if kind is float else int(word)


#: A local message: its time (ns), its number in the order of sending, its node, its kind, and the message.
LocalMessage: TypeAlias = tuple[int, int, int, MessageKind, Any]


class LocalMail:
    """The local messages, which nodes send to themselves by `View.later`."""

    def __init__(self, kinds: list[MessageKind], nodes: int) -> None:
        self.kinds, self.nodes = kinds, nodes
        self.number = 0  # number of local messages so far
        self._queue: list[LocalMessage] = []  # a heap

    def add(self, time: int, node: int, kind: MessageKind, message: Any) -> None:
        """Add a message that arrives at `time` ns."""
        heappush(self._queue, (time, self.number, node, kind, message))
        self.number += 1

    def first(self) -> int:
        """Return the time at which the next message arrives, ns; `NEVER` if there is none."""
        return self._queue[0][0] if self._queue else NEVER

    def take(self, now: int) -> list[LocalMessage]:
        """Return the messages that have arrived, by receiver and order of sending."""
        due = []
        while self.first() <= now:
            due.append(heappop(self._queue))
        return sorted(due, key=lambda entry: (entry[2], entry[1]))

    def drop(self, node: int) -> None:
        """Drop the messages of a node that fails."""
        self._queue = sorted(entry for entry in self._queue if entry[2] != node)

    def of(self, node: int) -> list[LocalMessage]:
        """Return the messages in transit to `node`, in the order of sending."""
        return sorted((entry for entry in self._queue if entry[2] == node), key=lambda entry: entry[1])

    def entries(self, payloads: Payloads) -> tuple[dict[str, Any], list[Any]]:
        """Return the entries of a state, and all arrays in messages, beginning with `payloads`.

        ``local`` has the columns time, number, node and number of the kind; ``local_fields`` has the fields
        of all messages, 64 bits each; the field of an array is its number.
        """
        arrays, rows, words = list(payloads.arrays), [], []
        for time, number, node, kind, message in sorted(self._queue, key=lambda entry: entry[1]):
            rows.append((time, number, node, self.kinds.index(kind)))
            for name, declared, code in zip(kind.fields, kind.types, kind.type_codes, strict=True):
                value = getattr(message, name)
                if code == 2:
                    arrays.append(value)
                    value = len(arrays) - 1
                words.append(to_word(declared, value))
        local = np.array(rows, np.int64).reshape(-1, 4)
        words_array = np.array(words, np.int64)
        return {"local": local, "local_fields": words_array, "local_number": self.number}, arrays

    def read(self, state: Any, payloads: Payloads) -> None:
        """Restore the messages of a saved state, whose arrays are removed from `payloads`.

        Raises
        ------
        ValueError
            If the entries are invalid.
        """
        entries = read(state, LOCAL, nodes=self.nodes, kinds=len(self.kinds))
        words, self._queue, self.number = iter(entries["local_fields"].tolist()), [], entries["local_number"]
        for time, number, node, index in entries["local"].tolist():
            kind = self.kinds[index]
            values = []
            for declared, code in zip(kind.types, kind.type_codes, strict=True):
                word = next(words, None)
                if word is None:
                    count = len(entries["local_fields"])
                    raise ValueError(f"state['local_fields'] must have all fields, got {count} numbers")
                values.append(payloads.fetch(word) if code == 2 else from_word(declared, word))
            self._queue.append((time, number, node, kind, kind.message(node, values)))
        self._queue.sort()
