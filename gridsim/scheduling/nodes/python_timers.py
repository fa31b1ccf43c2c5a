"""The timers of nodes, and their messages to themselves, in a readable message core."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from gridcore.common.state import NEVER
from gridcore.nodes.kinds import MessageKind
from gridcore.nodes.payloads import Payloads
from gridcore.nodes.state import LocalMessage, local_entries, read_local

__all__ = ["LocalMail", "Timer", "Timers"]


class Timer(NamedTuple):
    """A timer that is set.

    Parameters
    ----------
    time
        When it fires, ns.
    number
        Its position in the order of setting.
    name
        The number of its name, in the order of declaration.
    """

    time: int
    number: int
    node: int
    name: int
    value: float

    @property
    def key(self) -> tuple[int, int, float]:
        """What distinguishes it from other timers of its node."""
        return self.time, self.name, self.value


class Timers:
    """The timers of all nodes."""

    def __init__(self, nodes: int) -> None:
        self.number = 0  # number of timers set so far
        self._set: list[dict[tuple[int, int, float], Timer]] = [{} for _ in range(nodes)]
        self._queue: list[Timer] = []  # a heap; it may have cancelled timers

    def set(self, time: int, node: int, name: int = 0, value: float = 0.0) -> None:
        """Set a timer, unless the node has the same one (name, instant and value) already."""
        timer = Timer(time, self.number, node, name, value)
        if timer.key not in self._set[node]:
            self.number += 1
            self._set[node][timer.key] = timer
            heappush(self._queue, timer)

    def cancel(self, node: int, name: int) -> None:
        """Cancel the timers `name` of `node`."""
        for timer in [timer for timer in self._set[node].values() if timer.name == name]:
            del self._set[node][timer.key]

    def cancel_all(self, node: int) -> None:
        """Cancel all timers of `node`."""
        self._set[node].clear()

    def is_set(self, timer: Timer) -> bool:
        """Return whether a timer has neither fired nor been cancelled."""
        return self._set[timer.node].get(timer.key) is timer

    def first(self) -> int:
        """Return when the next timer fires, ns; `NEVER` if there is none."""
        while self._queue and not self.is_set(self._queue[0]):
            heappop(self._queue)
        return self._queue[0].time if self._queue else NEVER

    def due(self, now: int) -> list[Timer]:
        """Return the timers that fire by `now` ns, by node, name and order of setting.

        They remain set until `fire`, so that one that fires first may still cancel another one.
        """
        due = []
        while self.first() <= now:
            due.append(heappop(self._queue))
        return sorted(due, key=lambda timer: (timer.node, timer.name, timer.number))

    def fire(self, timer: Timer) -> bool:
        """Remove a timer; return False if it has been cancelled."""
        is_set = self.is_set(timer)
        if is_set:
            del self._set[timer.node][timer.key]
        return is_set

    def pending(self) -> list[Timer]:
        """Return the timers that are set, in the order of setting."""
        timers = [timer for of_node in self._set for timer in of_node.values()]
        return sorted(timers, key=lambda timer: timer.number)

    def restore(self, timers: Sequence[Timer], number: int) -> None:
        """Have the timers of a saved state, in the order of setting."""
        self.__init__(len(self._set))  # type: ignore[misc]
        for timer in timers:
            self.number = timer.number
            self.set(timer.time, timer.node, timer.name, timer.value)
        self.number = number


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
        """Return when the next message arrives, ns; `NEVER` if there is none."""
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

    def entries(self, payloads: Payloads) -> tuple[dict[str, Any], list[Any]]:
        """Return the entries of a state, and all arrays in messages, those of `payloads` first."""
        return local_entries(self._queue, self.number, self.kinds, payloads.arrays)

    def read(self, state: Any, payloads: Payloads) -> None:
        """Have the messages of a saved state, whose arrays are in `payloads`."""
        messages, self.number = read_local(state, self.kinds, self.nodes, payloads)
        self._queue = sorted(messages)
