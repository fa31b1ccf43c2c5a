"""The accounting of messages in an emulation, which replaces the kernel that carries simulated messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.engine.transport import Transport
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS

#: Maximum number of levels of nodes.
_LEVELS = 64


class Counters:
    """Counters of messages, with the attributes of `gridcore.network.links.Links` that `Transport` reads.

    Parameters
    ----------
    machine_of
        The machine of each node; a node may move.
    deferred
        Whether each kind is deferred.
    bandwidth
        Bandwidth of the interfaces, bytes/s.
    interfaces
        The interface of each machine.
    """

    windows = None
    unlogged = 0

    def __init__(
        self,
        machine_of: Integers,
        machines: int,
        deferred: Sequence[bool],
        bandwidth: float,
        interfaces: Sequence[int],
    ) -> None:
        self.interfaces = interfaces
        self.machines, self.machine_of, self.bandwidth = machines, machine_of.tolist(), bandwidth
        self.deferred, kinds = deferred, len(deferred)
        self.sent, self.delivered, self.dropped, self.traffic = np.zeros((4, kinds), np.int64)
        self.bytes_out, self.bytes_in = np.zeros((2, machines), np.int64)
        self.by_level = np.zeros((2, kinds, _LEVELS), np.int64)
        #: Times at which each interface is free to send, and to receive, ns.
        self.up_free, self.down_free = [0] * machines, [0] * machines
        #: Times at which the incarnations of each machine ended, ns, and whether it is down.
        self.ends: list[list[int]] = [[] for _ in range(machines)]
        self.down = [False] * machines

    def machine(self, node: int) -> int:
        """Return the current machine of `node`."""
        machine: int = self.machine_of[node]
        return machine

    def is_deferred(self, kind: int) -> bool:
        """Return whether a kind is deferred."""
        return self.deferred[kind]

    def transmission_time(self, nbytes: int) -> int:
        """Return the transmission time of a message at an interface, ns."""
        return round(nbytes / self.bandwidth * NS)

    def count(self, kind: int, nbytes: int, level: int, machine: int) -> None:
        """Count a message that a machine sends."""
        self.sent[kind] += 1
        self.traffic[kind] += nbytes
        self.bytes_out[machine] += nbytes
        self.by_level[0, kind, level] += 1
        self.by_level[1, kind, level] += nbytes

    def count_delivered(self, kind: int, nbytes: int, machine: int) -> None:
        """Count a message that was delivered to a machine."""
        self.delivered[kind] += 1
        self.bytes_in[machine] += nbytes

    def drop(self, kind: int) -> None:
        """Count a message that was dropped."""
        self.dropped[kind] += 1

    def packed(self) -> bytes:
        """Return all counts as bytes."""
        return b"".join(item.tobytes() for item in self._all())

    def add(self, packed: bytes) -> None:
        """Add the counts of another process."""
        counts, at = np.frombuffer(packed, np.int64), 0
        for item in self._all():
            item += counts[at : at + item.size].reshape(item.shape)
            at += item.size

    def _all(self) -> list[NDArray[np.int64]]:
        return [
            self.sent, self.delivered, self.dropped, self.traffic, self.bytes_out, self.bytes_in,
            self.by_level,
        ]  # fmt: skip

    def move(self, nodes: Any, machines: Any) -> None:
        """Move `nodes` to other machines."""
        for node, machine in zip(np.asarray(nodes).tolist(), np.asarray(machines).tolist(), strict=True):
            self.machine_of[node] = machine

    def fail(self, machines: Any, now: int, *, down: bool = False) -> None:
        """End the incarnations of machines, with their messages; if `down`, they are down until `restore`."""
        for machine in np.asarray(machines).tolist():
            ends = self.ends[machine]
            ends.append(ends[-1] if self.down[machine] else now)
            self.down[machine] = down
            for free in (self.up_free, self.down_free):
                interface = self.interfaces[machine]
                free[interface] = min(free[interface], now)

    def restore(self, machines: Any, now: int) -> None:
        """Mark machines as up again."""
        self.fail(machines, now)

    def incarnations(self) -> list[tuple[bool, list[int]]]:
        """Return whether each machine is down, and the times at which its incarnations ended, ns."""
        return [(down, [*ends]) for down, ends in zip(self.down, self.ends, strict=True)]

    def set_incarnations(self, incarnations: list[tuple[bool, list[int]]]) -> None:
        """Restore the state that `incarnations` has returned in another process."""
        self.down, self.ends = map(list, zip(*incarnations, strict=True))

    def incarnation(self, machine: int) -> int:
        """Return the number of the current incarnation of a machine."""
        return len(self.ends[machine])

    def end_of_incarnation(self, machine: int, incarnation: int) -> int:
        """Return the end of an incarnation, ns: `NEVER` if it lasts, its start if the machine is down."""
        ends = self.ends[machine]
        if incarnation < len(ends):
            return ends[incarnation]
        return ends[-1] if self.down[machine] else NEVER

    def detach(self, nodes: Any) -> None:
        """Do nothing: messages to nodes that are down are dropped."""

    def advance(self, limit: int) -> int:
        """Do nothing: nodes handle messages when they arrive."""
        return limit

    def drain(self, until: int) -> list[Any]:
        """Return an empty list: messages to nodes that are down are dropped on arrival."""
        return []


class ReportingCounters(Counters):
    """Counters of a process that may be killed, which reports each message instead of counting it."""

    tell: Callable[..., None]

    def count(self, *values: int) -> None:
        """Report a sent message."""
        self.tell("sent", *values)

    def count_delivered(self, *values: int) -> None:
        """Report a delivered message."""
        self.tell("delivered", *values)

    def drop(self, kind: int) -> None:
        """Report a dropped message."""
        self.tell("dropped", kind)


class EmulatedTransport(Transport):
    """Transport that declares kinds of messages and keeps their accounting, but carries no messages.

    Attributes
    ----------
    reports
        Function that reports each counted message to the coordinator; None to count messages here.
    """

    reports: Callable[..., None] | None = None

    def _connect(self) -> Links:
        interfaces = self._padded_interfaces()
        counters = (Counters if self.reports is None else ReportingCounters)(
            self._machine_of,
            self.machines,
            [kind.deferred for kind in self._kinds],
            self.network.bandwidth,
            range(self.machines) if interfaces is None else interfaces.tolist(),
        )
        if isinstance(counters, ReportingCounters) and self.reports is not None:
            counters.tell = self.reports
        return cast(Links, counters)

    @property
    def seed(self) -> int:
        """The seed of the jitter of messages."""
        return self._seed

    @property
    def level_of(self) -> Integers | None:
        """The level of each node."""
        return self._level_of

    @property
    def counters(self) -> Counters:
        """The counts of this process, or of all processes at the coordinator."""
        return cast(Counters, self.links)

    def watch(self, first: int, last: int) -> None:
        """Do nothing: the utilization of interfaces is not recorded."""
