"""Messages between the machines of a run: the network model at work on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.links import Links
from gridsim.engine import DELIVERY, NS, Engine, Source, nanoseconds
from gridsim.errors import ScenarioError
from gridsim.network import Network

Rows = NDArray[Any]
#: What a message on a FIFO interface must take less than (s): `Links` counts its ns in 32 bits.
LONGEST = (2**31 - 1) / NS


def message(*fields: tuple[str, str]) -> np.dtype[Any]:
    """The row type of a kind of message: receiving and sending node, then `fields`."""
    return np.dtype([("node", "i8"), ("sender", "i8"), *fields])


@dataclass(slots=True)
class _Kind:
    name: str
    number: int
    dtype: np.dtype[Any]
    nbytes: int
    handler: Callable[[Rows], None]
    priority: int
    deferred: bool
    outbox: list[Rows] = field(default_factory=list)


class Transport:
    """Sends rows from node to node, each node sitting on a machine, and keeps the ledger.

    A policy declares its kinds (`kind`), then where its nodes sit (`open`), then sends.  What is sent
    while one wave of an instant is handled leaves when the wave is over, in the order of kind, sending
    node, and the sender's own order: so it does not matter how the wave's cohorts were cut.
    """

    def __init__(self, engine: Engine, network: Network, machines: int) -> None:
        self._engine, self.network, self._machines = engine, network, machines
        self._kinds: list[_Kind] = []
        self._by_name: dict[str, _Kind] = {}
        self._machine_of: NDArray[np.int64] = np.arange(machines, dtype=np.int64)
        self._links: Links | None = None
        self._inner: Source | None = None
        self._waiting = False
        self._counts = np.zeros((3, 0), np.int64)
        self._interface = np.zeros((2, machines), np.int64)

    def kind(
        self,
        name: str,
        dtype: np.dtype[Any],
        nbytes: int,
        handler: Callable[[Rows], None],
        *,
        priority: int,
        deferred: bool = False,
    ) -> None:
        """Declare a kind of message of `nbytes` bytes; `handler` gets cohorts of rows of `dtype`.

        `deferred`: nobody acts on it at once; its rows are handed over by `drain` or earlier.
        """
        new = _Kind(name, len(self._kinds), dtype, nbytes, handler, priority, deferred)
        self._kinds.append(new)
        self._by_name[name] = new
        self._engine.on(name, lambda rows: self._deliver(new, rows), priority=priority, phase=DELIVERY)

    def open(self, machine_of: NDArray[np.int64] | None = None) -> None:
        """All kinds are declared; node i sits on machine ``machine_of[i]`` (default: node = machine)."""
        if machine_of is not None:
            self._machine_of = np.ascontiguousarray(machine_of, np.int64)
        self._kinds.sort(key=lambda kind: kind.priority)
        for number, kind in enumerate(self._kinds):
            kind.number = number
        self._counts = np.zeros((3, len(self._kinds)), np.int64)
        if self.network.interfaces == "fifo":
            self._check_lengths()
            self._links = Links(
                self._machine_of,
                self._machines,
                latency=nanoseconds(self.network.latency),
                bandwidth=self.network.bandwidth,
                widths=np.array([kind.dtype.itemsize for kind in self._kinds], np.int64),
                deferred=[kind.deferred for kind in self._kinds],
            )
            self._engine.add_source(self)
        self._engine.at_wave_end(self._flush)

    def _check_lengths(self) -> None:
        """Raise ScenarioError for a kind of message that takes longer than the links can count."""
        for kind in self._kinds:
            seconds = kind.nbytes / self.network.bandwidth
            if not seconds < LONGEST:
                raise ScenarioError(
                    f"network.bandwidth must let each message through in less than {LONGEST:.4g} s, got "
                    f"{self.network.bandwidth!r}: a {kind.name} of {kind.nbytes} bytes takes {seconds:g} s"
                )

    def send(self, name: str, rows: Rows) -> None:
        """Send `rows` of kind `name`; they leave at the end of the present wave."""
        if len(rows):
            self._by_name[name].outbox.append(rows)
            self._waiting = True

    def _flush(self) -> None:
        if not self._waiting:
            return
        self._waiting = False
        now = self._engine.now
        for kind in self._kinds:
            if not kind.outbox:
                continue
            rows = kind.outbox[0] if len(kind.outbox) == 1 else np.concatenate(kind.outbox)
            kind.outbox.clear()
            if len(rows) > 1:
                sender = rows["sender"]
                if (sender[1:] < sender[:-1]).any():
                    rows = rows[np.argsort(sender, kind="stable")]
            if self._links is not None:
                records = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
                self._links.send(now, kind.number, records, kind.nbytes)
            else:
                self._send_equal(kind, rows, now)

    def _send_equal(self, kind: _Kind, rows: Rows, now: int) -> None:
        source, target = self._machine_of[rows["sender"]], self._machine_of[rows["node"]]
        away = source != target
        if not away.all():
            # what stays on its machine arrives at once; delivering is not counted either
            self._engine.post(now, kind.name, rows[~away])
            rows, source, target = rows[away], source[away], target[away]
        self._counts[0, kind.number] += len(rows)
        self._counts[2, kind.number] += len(rows) * kind.nbytes
        np.add.at(self._interface[0], source, kind.nbytes)
        delay = nanoseconds(self.network.latency + kind.nbytes / self.network.bandwidth)
        self._engine.post(now + delay, kind.name, rows)

    def _deliver(self, kind: _Kind, rows: Rows) -> None:
        if self._links is None:
            target = self._machine_of[rows["node"]]
            away = self._machine_of[rows["sender"]] != target
            self._counts[1, kind.number] += int(away.sum())
            np.add.at(self._interface[1], target[away], kind.nbytes)
        kind.handler(rows)

    # -- as a source of the engine ----------------------------------------------------------------------

    def links(self, name: str) -> tuple[Links, int]:
        """The kernel that carries messages, where interfaces are queues, and the number of kind `name`."""
        assert self._links is not None
        return self._links, self._by_name[name].number

    def run_by(self, inner: Source) -> None:
        """Let `inner`, a kernel that handles some kinds by itself, run the links from now on."""
        self._inner = inner

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        if self._inner is not None:
            return self._inner.advance(limit)
        assert self._links is not None
        return self._links.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        assert self._links is not None
        for number, records in self._links.collect(time):
            kind = self._kinds[number]
            engine.post(time, kind.name, records.view(kind.dtype).reshape(-1))
        if self._inner is not None:
            self._inner.collect(engine, time)

    def drain(self) -> None:
        """Hand over the deferred messages that have arrived by now."""
        if self._links is not None:
            for number, records, _ in self._links.drain(self._engine.now):
                kind = self._kinds[number]
                kind.handler(records.view(kind.dtype).reshape(-1))

    # -- the ledger -------------------------------------------------------------------------------------

    def ledger(self) -> dict[str, NDArray[Any]]:
        """Messages per kind: columns kind, sent, delivered, dropped, in_flight, bytes (sent)."""
        self.drain()
        if self._links is not None:
            sent, delivered, dropped = self._links.sent, self._links.delivered, self._links.dropped
            traffic = self._links.traffic
        else:
            sent, delivered, traffic = self._counts
            dropped = np.zeros_like(sent)
        return {
            "kind": np.array([kind.name for kind in self._kinds], dtype="U"),
            "sent": sent.copy(),
            "delivered": delivered.copy(),
            "dropped": dropped.copy(),
            "in_flight": sent - delivered - dropped,
            "bytes": traffic.copy(),
        }

    def interfaces(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each machine has sent and received: columns bytes_out, bytes_in."""
        if self._links is not None:
            return {"bytes_out": self._links.bytes_out.copy(), "bytes_in": self._links.bytes_in.copy()}
        return {"bytes_out": self._interface[0].copy(), "bytes_in": self._interface[1].copy()}
