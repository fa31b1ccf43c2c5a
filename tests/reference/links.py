"""Reference implementation of `gridcore.network.links`: a list of the messages in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["LOGGED", "Links"]

LOGGED = ("kind", "sender", "receiver", "sent", "delivered", "nbytes", "subject", "node")
UNDER_WAY, DROPPED = -1, -2

Bytes = NDArray[np.uint8]


@dataclass(eq=False)
class Message:
    """One message in flight; `end` is known once its head has reached the receiver's interface."""

    sequence: int
    kind: int
    node: int
    source: int
    target: int
    start: int
    length: int
    nbytes: int
    record: Bytes
    end: int | None = None
    lost: bool = False
    latency: int = 0
    passage: dict[str, int] | None = None
    is_counted: bool = True
    is_internal: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the message does not count, because it is local or of a kind that is not counted."""
        return self.is_internal or not self.is_counted


class Links:
    """Reference implementation of `gridcore.network.links.Links`."""

    def __init__(
        self,
        machine_of: ArrayLike,
        machines: int,
        *,
        latency: int,
        bandwidth: float,
        widths: ArrayLike,
        deferred: ArrayLike,
        fifo: bool = True,
        keep: ArrayLike | None = None,
        level_of: ArrayLike | None = None,
        jitter: int = 0,
        seed: int = 0,
        interfaces: ArrayLike | None = None,
    ) -> None:
        self._machine_of = integers(machine_of)
        self._interfaces = integers(np.arange(machines) if interfaces is None else interfaces)
        self._fifo = fifo
        self._jitter, self._seed = jitter, seed
        self._width = integers(widths)
        self._is_deferred = [bool(x) for x in np.asarray(deferred)]
        kinds = len(self._width)
        self.machines, self._latency, self._bandwidth = machines, latency, float(bandwidth)
        self._keep = [bool(x) for x in (np.zeros(kinds) if keep is None else np.asarray(keep))]
        nodes = len(self._machine_of)
        self._level_of = integers(np.zeros(nodes, np.int64) if level_of is None else level_of)
        self.by_level: Integers = np.zeros((2, kinds, 64), np.int64)
        self.windows: Integers | None = None
        self._window = 0, 0
        self._log_rows: list[dict[str, int]] = []
        self._log_limit, self._subjects = 0, [-1] * kinds
        self._logged_nodes: set[int] | None = None
        self.unlogged = 0
        self._missing: list[Message] = []
        self._down = [False] * machines
        self._detached_nodes: set[int] = set()
        self._up_free = [0] * machines
        self._down_free = [0] * machines
        self._flight: list[Message] = []
        self._sequence = 0
        self.sent: Integers = np.zeros(kinds, np.int64)
        self.delivered: Integers = np.zeros(kinds, np.int64)
        self.dropped: Integers = np.zeros(kinds, np.int64)
        self.traffic: Integers = np.zeros(kinds, np.int64)
        self.bytes_out: Integers = np.zeros(machines, np.int64)
        self.bytes_in: Integers = np.zeros(machines, np.int64)

    def send(self, now: int, kind: int, records: NDArray[Any], nbytes: int) -> None:
        """Send uint8[k, width] `records` of `kind` at `now` ns, `nbytes` bytes each on the wire."""
        header = self._headers(records)
        length = self.transmission_time(nbytes)
        for (node, sender), record in zip(header, records, strict=True):
            source, target = self._machine_of[sender], self._machine_of[node]
            m = Message(self._sequence, kind, node, source, target, now, length, nbytes, record.copy())
            m.latency = self._delay(self._sequence)
            m.is_internal = self._interfaces[source] == self._interfaces[target]
            self._sequence += 1
            self._flight.append(m)
            m.lost = self._down[source] or self._down[target]
            if m.is_local:
                m.end = now
                continue
            if self._fifo:
                m.start = max(now, self._up_free[self._interfaces[source]])
                self._up_free[self._interfaces[source]] = m.start + m.length
            else:
                m.end = now + m.latency + m.length
            self._count_sent(m, sender, now)
            if not self._fifo:
                self._count_window(source, now, nbytes)
                self._count_window(target, now + self._latency, nbytes)

    def _count_sent(self, m: Message, sender: int, now: int) -> None:
        m.passage = self._log(m.kind, m.record, now, UNDER_WAY, m.nbytes)
        self.sent[m.kind] += 1
        self.traffic[m.kind] += m.nbytes
        self.bytes_out[m.source] += m.nbytes
        self.by_level[:, m.kind, self._level_of[sender]] += 1, m.nbytes

    def send_directly(
        self,
        now: int,
        kind: int,
        record: NDArray[Any],
        nbytes: int,
        delay: int,
        number: int,
        *,
        is_counted: bool = True,
    ) -> None:
        """Send a message of `kind` that arrives `delay` ns after `now` and does not use interfaces."""
        [(node, sender)] = self._headers(record)
        source, target = self._machine_of[sender], self._machine_of[node]
        m = Message(number, kind, node, source, target, now, 0, nbytes, record[0].copy(), now + delay)
        m.is_counted, m.lost = is_counted, self._down[source] or self._down[target]
        m.is_internal = self._interfaces[source] == self._interfaces[target]
        self._flight.append(m)
        if not m.is_local:
            self._count_sent(m, sender, now)

    def _headers(self, records: NDArray[Any]) -> list[tuple[int, ...]]:
        """Return (receiver, sender) of records."""
        return [tuple(row[:16].copy().view(np.int64).tolist()) for row in records]

    def transmission_time(self, nbytes: int) -> int:
        """Return the transmission time of a message of `nbytes` bytes at an interface, ns."""
        length = nbytes / self._bandwidth * 1e9
        return round(length)

    def machine(self, node: int) -> int:
        """Return the machine of a node."""
        return self._machine_of[node]

    def _delay(self, sequence: int) -> int:
        """Return the latency of a message (ns), drawn by SplitMix64 from its number."""
        if self._jitter == 0:
            return self._latency
        mask = 2**64 - 1
        x = (self._seed + (sequence + 1) * 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        x ^= x >> 31
        return self._latency - self._jitter + x % (2 * self._jitter + 1)

    def advance(self, limit: int) -> int:
        """Run up to `limit` ns; return the first instant <= limit with a delivery, else `NEVER`."""
        while True:
            first = self._first_end()
            heads = [m for m in self._flight if m.end is None]
            m = min(heads, key=lambda m: (m.start + m.latency, m.sequence), default=None)
            if m is None or m.start + m.latency > min(limit, first):
                return first if first <= limit else NEVER
            if m.lost and self._keep[m.kind]:
                m.end = m.start + m.latency
                continue
            if m.lost:
                self._flight.remove(m)
                self.dropped[m.kind] += 1
                self._end(m, DROPPED)
                continue
            self._count_window(m.source, m.start, m.nbytes)
            interface = self._interfaces[m.target]
            begin = max(m.start + m.latency, self._down_free[interface])
            self._count_window(m.target, begin, m.nbytes)
            m.end = self._down_free[interface] = begin + m.length

    def _first_end(self) -> int:
        ends = [m.end for m in self._flight if m.end is not None and not self._is_deferred[m.kind]]
        return min(ends, default=NEVER)

    def collect(self, time: int) -> list[tuple[int, Bytes]]:
        """Return the messages delivered at `time` ns, sorted by (kind, node, sequence)."""
        messages = sorted(self._take(time, is_deferred=False), key=lambda row: (row[1].kind, row[1].node))
        return [
            (kind, np.array([m.record for _, m in messages if m.kind == kind], np.uint8))
            for kind in sorted({m.kind for _, m in messages})
        ]

    def _deliveries(self, kind: int) -> list[tuple[int, int]]:
        """Return (instant, number) of the known deliveries of a kind, which is not deferred."""
        known = [m for m in self._flight if m.kind == kind and m.end is not None]
        return sorted((m.end or 0, m.sequence) for m in known if not self._is_deferred[kind])

    def is_deferred(self, kind: int) -> bool:
        """Return whether a kind is deferred."""
        return self._is_deferred[kind]

    def next_delivery(self, kind: int) -> tuple[int, int]:
        """Return (instant, number) of the next known delivery of a kind."""
        return next(iter(self._deliveries(kind)), (NEVER, -1))

    def take(self, kind: int, until: int) -> Bytes:
        """Return the messages of a kind delivered by `until` ns, by node."""
        messages = [m for _, m in self._take(until, is_deferred=False, kind=kind)]
        messages.sort(key=lambda m: m.node)
        return np.array([m.record for m in messages], np.uint8).reshape(-1, self._width[kind])

    def take_first(self, kind: int) -> Bytes:
        """Return the message of the next delivery of a kind, or none if it is lost."""
        end, number = self.next_delivery(kind)
        messages = self._take(end, is_deferred=False, kind=kind, number=number)
        return np.array([m.record for _, m in messages], np.uint8).reshape(-1, self._width[kind])

    def drain(self, until: int) -> list[tuple[int, Bytes, Integers]]:
        """Return the deferred messages delivered by `until` ns, with times, by (kind, machine, time)."""
        messages = self._take(until, is_deferred=True)
        messages.sort(key=self._mailbox_key)
        return [
            (
                kind,
                np.array([m.record for _, m in messages if m.kind == kind], np.uint8),
                np.array([end for end, m in messages if m.kind == kind], np.int64),
            )
            for kind in sorted({m.kind for _, m in messages})
        ]

    def _mailbox_key(self, row: tuple[int, Message]) -> tuple[int, int, int]:
        """Return the sort key of a deferred message: machine, delivery, and arrival at the interface."""
        end, m = row
        return m.target, end, m.start + m.latency if self._fifo and not m.is_local else -1

    def _take(
        self, until: int, *, is_deferred: bool, kind: int | None = None, number: int | None = None
    ) -> list[tuple[int, Message]]:
        """Remove the messages delivered by `until`; return (end, message) of those not lost, in order."""
        deliveries = [
            (m.end, m)
            for m in self._flight
            if m.end is not None
            and m.end <= until
            and self._is_deferred[m.kind] == is_deferred
            and kind in (None, m.kind)
            and number in (None, m.sequence)
        ]
        for end, m in deliveries:
            self._flight.remove(m)
            m.lost = m.lost or (not is_deferred and m.node in self._detached_nodes)
            if not m.is_local:
                self._end(m, DROPPED if m.lost else end)
                (self.dropped if m.lost else self.delivered)[m.kind] += 1
                self.bytes_in[m.target] += 0 if m.lost else m.nbytes
        dropped = [(m.kind, end, m.sequence, m) for end, m in deliveries if m.lost and self._keep[m.kind]]
        self._missing += [row[-1] for row in sorted(dropped, key=lambda row: row[:3])]
        deliveries = [(end, m) for end, m in deliveries if not m.lost]
        return sorted(deliveries, key=lambda row: (row[0], row[1].sequence))

    def lost(self) -> list[tuple[int, Bytes]]:
        """Return the messages of the kinds to `keep` dropped since the last call, by kind and then time."""
        missing, self._missing = self._missing, []
        return [(m.kind, m.record.reshape(1, -1)) for m in missing]

    def fail(self, machines: ArrayLike, now: int, *, down: bool = False) -> None:
        """Reset `machines` at `now` ns: messages addressed to them, or queued at them unsent, are dropped."""
        failing = integers(machines)
        for u in failing:
            self._down[u] = down
        for u in failing:
            interface = self._interfaces[u]
            self._up_free[interface] = min(self._up_free[interface], now)
            self._down_free[interface] = min(self._down_free[interface], now)
            for m in self._flight:
                # a deferred message that has arrived before waits to be drained, and is not lost
                if m.target == u and (m.end is None or m.end >= now):
                    m.lost = True
                if m.source == u and m.start > now:
                    m.lost = True

    def restore(self, machines: ArrayLike, now: int) -> None:
        """Make `machines` recover at `now` ns."""
        self.fail(machines, now)

    def move(self, nodes: ArrayLike, machines: ArrayLike) -> None:
        """Move `nodes` to `machines`."""
        moving, hosts = integers(nodes), integers(machines)
        for node, host in zip(moving, hosts, strict=True):
            self._machine_of[node] = host
            self._detached_nodes.discard(node)

    def detach(self, nodes: ArrayLike) -> None:
        """Detach `nodes` from their machines until they `move`."""
        self._detached_nodes.update(integers(nodes))

    def watch(self, start: int, end: int, width: int) -> None:
        """Count the bytes that each machine sends and receives in windows of `width` ns."""
        self.windows = np.zeros((self.machines, -(-(end - start) // width)), np.int64)
        self._window = start, width

    def _count_window(self, machine: int, at: int, nbytes: int) -> None:
        if self.windows is not None:
            k = (at - self._window[0]) // self._window[1]
            if 0 <= k < self.windows.shape[1]:
                self.windows[machine, k] += nbytes

    def log(self, limit: int, subjects: ArrayLike, nodes: ArrayLike | None = None) -> None:
        """Log each message between machines that is sent from now on."""
        offsets = integers(subjects)
        self._log_limit, self._subjects = limit, offsets
        self._logged_nodes = None if nodes is None else set(np.flatnonzero(nodes).tolist())

    def _log(self, kind: int, record: Bytes, sent: int, delivered: int, nbytes: int) -> dict[str, int] | None:
        """Add a row to the log and return it; None if the log is full or does not have the sender."""
        node, sender = record[:16].copy().view(np.int64).tolist()
        if self._logged_nodes is not None and sender not in self._logged_nodes:
            return None
        if len(self._log_rows) == self._log_limit:
            self.unlogged += self._log_limit > 0
            return None
        at = self._subjects[kind]
        subject = -1 if at < 0 else int(record[at : at + 8].copy().view(np.int64)[0])
        hosts = self._machine_of[sender], self._machine_of[node]
        row = dict(zip(LOGGED, (kind, *hosts, sent, delivered, nbytes, subject, sender), strict=True))
        self._log_rows.append(row)
        return row

    def _end(self, m: Message, delivered: int) -> None:
        if m.passage is not None:
            m.passage["delivered"] = delivered

    def logged(self) -> dict[str, Integers]:
        """Return the logged messages; delivered is -1 for a message in transit, -2 for a dropped one."""
        return {name: np.array([row[name] for row in self._log_rows], np.int64) for name in LOGGED}

    def in_flight(self) -> Integers:
        """Return the number of messages that are neither delivered nor dropped yet."""
        result: Integers = self.sent - self.delivered - self.dropped
        return result
