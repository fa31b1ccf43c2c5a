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

#: Largest number of levels of nodes.
_LEVELS = 64


class Counters:
    """What `Transport` reads of `gridcore.network.links.Links`, and where nodes sit.

    Parameters
    ----------
    machine_of
        The machine of each node, which moves with it.
    deferred
        Which kinds are deferred.
    bandwidth
        Of the interfaces, bytes/s.
    """

    windows = None
    unlogged = 0

    def __init__(
        self, machine_of: Integers, machines: int, deferred: Sequence[bool], bandwidth: float
    ) -> None:
        self.machines, self.machine_of, self.bandwidth = machines, machine_of.tolist(), bandwidth
        self.deferred, kinds = deferred, len(deferred)
        self.sent, self.delivered, self.dropped, self.traffic = np.zeros((4, kinds), np.int64)
        self.bytes_out, self.bytes_in = np.zeros((2, machines), np.int64)
        self.by_level = np.zeros((2, kinds, _LEVELS), np.int64)
        #: Times at which the interfaces of each machine are free to send, and to receive, ns.
        self.up_free, self.down_free = [0] * machines, [0] * machines
        #: When the lives of each machine have ended, ns, and whether it is down.
        self.ends: list[list[int]] = [[] for _ in range(machines)]
        self.down = [False] * machines

    def machine(self, node: int) -> int:
        """Return the machine on which `node` runs now."""
        machine: int = self.machine_of[node]
        return machine

    def is_deferred(self, kind: int) -> bool:
        """Return whether a kind is deferred."""
        return self.deferred[kind]

    def transmission_time(self, nbytes: int) -> int:
        """Return the time (ns) that a message takes at an interface."""
        return round(nbytes / self.bandwidth * NS)

    def count(self, kind: int, nbytes: int, level: int, machine: int) -> None:
        """Count a message that a machine sends."""
        self.sent[kind] += 1
        self.traffic[kind] += nbytes
        self.bytes_out[machine] += nbytes
        self.by_level[0, kind, level] += 1
        self.by_level[1, kind, level] += nbytes

    def got(self, kind: int, nbytes: int, machine: int) -> None:
        """Count a message that is delivered to a machine."""
        self.delivered[kind] += 1
        self.bytes_in[machine] += nbytes

    def drop(self, kind: int) -> None:
        """Count a message that is dropped."""
        self.dropped[kind] += 1

    def packed(self) -> bytes:
        """Return all counts."""
        return b"".join(each.tobytes() for each in self._all())

    def add(self, packed: bytes) -> None:
        """Add the counts of another process."""
        counts, at = np.frombuffer(packed, np.int64), 0
        for each in self._all():
            each += counts[at : at + each.size].reshape(each.shape)
            at += each.size

    def _all(self) -> list[NDArray[np.int64]]:
        return [
            self.sent, self.delivered, self.dropped, self.traffic, self.bytes_out, self.bytes_in,
            self.by_level,
        ]  # fmt: skip

    def move(self, nodes: Any, machines: Any) -> None:
        """Move `nodes` to other machines from now on."""
        for node, machine in zip(np.asarray(nodes).tolist(), np.asarray(machines).tolist(), strict=True):
            self.machine_of[node] = machine

    def fail(self, machines: Any, now: int, *, down: bool = False) -> None:
        """End the lives of machines and lose their messages; with `down`, they are down until `restore`."""
        for machine in np.asarray(machines).tolist():
            ends = self.ends[machine]
            ends.append(ends[-1] if self.down[machine] else now)
            self.down[machine] = down
            for free in (self.up_free, self.down_free):
                free[machine] = min(free[machine], now)

    def restore(self, machines: Any, now: int) -> None:
        """Mark machines as up again."""
        self.fail(machines, now)

    def lives(self) -> list[tuple[bool, list[int]]]:
        """Return for each machine whether it is down, and when its lives have ended, ns."""
        return [(down, [*ends]) for down, ends in zip(self.down, self.ends, strict=True)]

    def set_lives(self, lives: list[tuple[bool, list[int]]]) -> None:
        """Adopt what `lives` has returned in another process."""
        self.down, self.ends = map(list, zip(*lives, strict=True))

    def life(self, machine: int) -> int:
        """Return the number of the present life of a machine."""
        return len(self.ends[machine])

    def end_of_life(self, machine: int, life: int) -> int:
        """Return when a life of a machine ended, ns; `NEVER` if it lasts, its start while it is down."""
        ends = self.ends[machine]
        if life < len(ends):
            return ends[life]
        return ends[-1] if self.down[machine] else NEVER

    def detach(self, nodes: Any) -> None:
        """Do nothing: messages to nodes that are down are dropped."""

    def advance(self, limit: int) -> int:
        """Do nothing, as in the methods below: nodes handle messages when they arrive."""
        return limit

    def drain(self, until: int) -> list[Any]:
        """Return nothing: messages to nodes that are down are dropped on arrival."""
        return []


class ToldCounters(Counters):
    """Counters of a process that may be killed: it reports each message instead of counting it."""

    tell: Callable[..., None]

    def count(self, *values: int) -> None:
        """Report a sent message."""
        self.tell("sent", *values)

    def got(self, *values: int) -> None:
        """Report a delivered message."""
        self.tell("got", *values)

    def drop(self, kind: int) -> None:
        """Report a dropped message."""
        self.tell("dropped", kind)


class EmulatedTransport(Transport):
    """Declares kinds of messages and keeps their accounting, but carries no messages.

    Attributes
    ----------
    reports
        What reports to the coordinator each message that is counted; None to count them here.
    """

    reports: Callable[..., None] | None = None

    def _connect(self) -> Links:
        made = (Counters if self.reports is None else ToldCounters)(
            self._machine_of, self.machines, [kind.deferred for kind in self._kinds], self.network.bandwidth
        )
        if isinstance(made, ToldCounters) and self.reports is not None:
            made.tell = self.reports
        return cast(Links, made)

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
        """The counts of this process, or of all."""
        return cast(Counters, self.links)

    def watch(self, first: int, last: int) -> None:
        """Do nothing: the use of interfaces is not recorded."""
