"""Transport of messages between the machines of a run: runs the network model on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.engine.engine import DELIVERY, Engine, Source, joined
from gridsim.engine.message_log import message_table, place_of
from gridsim.errors import ScenarioError
from gridsim.model.network import Network
from gridsim.results.table import Table
from gridsim.support.arguments import whole
from gridsim.support.arrays import Rows
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.state import check_names, put

Observer = Callable[[int, str, Rows, NDArray[np.int64], tuple[str, ...]], None]
#: The longest time that a message may take on an interface, s (see `Links`).
LONGEST = 2**40 / NS
#: The most bytes of a message.
MOST_BYTES = 2**31 - 1
#: The most machine seconds for which the use of interfaces is recorded (4 GiB).
MOST_WINDOWS = 2**29
# Added to the priority of a kind for its lost messages, so that they are handled after those that arrived.
_LOST = 2048


def message(*fields: tuple[str, str]) -> np.dtype[Any]:
    """Return the row type of a kind of message: receiving node, sending node, then `fields`."""
    return np.dtype([("node", "i8"), ("sender", "i8"), *fields])


@dataclass(slots=True)
class _Kind:
    name: str
    number: int
    dtype: np.dtype[Any]
    nbytes: int
    handler: Any  # of rows; None where another source handles them
    priority: int
    deferred: bool
    keep: bool
    opaque: tuple[str, ...]
    about: str
    counted: bool
    delay: int | None
    outbox: list[Rows] = field(default_factory=list)


class Transport:
    """Sends messages from node to node, each node being on a machine, and keeps the message accounting.

    A policy first declares its kinds of messages (`kind`), then the machines of its nodes (`open`), then
    sends.  Messages sent while one wave of an instant is handled leave when the wave is over.  They leave in
    the order of kind, sending node, and the sender's own order, so that it does not matter how the cohorts
    of the wave were cut.
    """

    def __init__(
        self, engine: Engine, network: Network, machines: int, *, seed: int = 0, log: int = 0
    ) -> None:
        """`log`: how many messages are logged, the first ones; 0 for no log."""
        self._engine, self.network, self._machines, self._seed = engine, network, machines, seed
        self._log = log
        self._application_of: NDArray[np.int64] | None = None
        self._kinds: list[_Kind] = []
        self._by_name: dict[str, _Kind] = {}
        self._machine_of: NDArray[np.int64] = np.arange(machines, dtype=np.int64)
        self._level_of: NDArray[np.int64] | None = None
        self._inner: Source | None = None
        self._waiting = False
        self._observer: Observer | None = None

    def observe(self, observer: Observer) -> None:
        """Call `observer` for all that is sent: (ns, kind, rows, machines of the senders, opaque fields)."""
        self._observer = observer

    @property
    def observed(self) -> bool:
        """Whether there is an observer, which `tell` must be called for."""
        return self._observer is not None

    def tell(self, now: int, number: int, records: NDArray[np.uint8]) -> None:
        """Tell the observer of records of kind `number` that a kernel sends at `now` ns."""
        kind = self._kinds[number]
        self._show(now, kind, records.view(kind.dtype).reshape(-1))

    def _show(self, now: int, kind: _Kind, rows: Rows) -> None:
        assert self._observer is not None
        self._observer(now, kind.name, rows, self._machine_of[rows["sender"]], kind.opaque)

    def kind(
        self,
        name: str,
        dtype: np.dtype[Any],
        nbytes: int,
        handler: Callable[[Rows], None] | None,
        *,
        priority: int,
        deferred: bool = False,
        keep: bool = False,
        lost: Callable[[Rows], None] | None = None,
        opaque: tuple[str, ...] = (),
        about: str = "application",
        counted: bool = True,
        delay: int | None = None,
    ) -> None:
        """Declare a kind of message of `nbytes` bytes; `handler` gets cohorts of rows of `dtype`.

        The handler is None where another source runs the links (see `open`) and handles this kind.
        `deferred`: no node acts on such a message on arrival, so that its rows may reach the handler later,
        at the latest when `drain` is called.  `lost` gets the rows that were dropped because a machine had
        failed, at the instant at which they would have arrived; it must not send anything.  `keep`: dropped
        rows go to the source that runs the links, not to `lost`.  `opaque` names fields that refer to
        something in memory: their values mean nothing to an observer.  `about` names the field with the
        number of the application that the message is about; if it numbers something else, such as jobs,
        `open` must be given the application of each.  `counted`: whether the accounting has a row for it.
        `delay`: ns that it takes, where the source that runs the links does not let the network say.

        Raises ScenarioError for bytes that are no whole number up to `MOST_BYTES`.
        """
        nbytes = whole(f"nbytes of {name!r}", nbytes, high=MOST_BYTES)
        keep = keep or lost is not None
        number = len(self._kinds)
        new = _Kind(
            name, number, dtype, nbytes, handler, priority, deferred, keep, opaque, about, counted, delay
        )
        self._kinds.append(new)
        self._by_name[name] = new
        if handler is not None:
            self._engine.on(name, lambda rows: new.handler(rows), priority=priority, phase=DELIVERY)
        if lost is not None:
            self._engine.on(f"{name} lost", lost, priority=_LOST + priority, phase=DELIVERY)

    def open(
        self,
        machine_of: NDArray[np.int64] | None = None,
        level_of: NDArray[np.int64] | None = None,
        application_of: NDArray[np.int64] | None = None,
        *,
        carried: bool = False,
    ) -> None:
        """Open the transport once all kinds are declared.

        Parameters
        ----------
        machine_of
            The machine that each node is on; None if node i is on machine i.  There may be further machines
            than those of the platform.
        level_of
            The level of each node, below 64; messages are also counted by level.
        application_of
            The application of each thing that messages are about; None if they name applications.
        carried
            Whether another source of the engine runs the links; then nothing may be sent by `send`.
        """
        self._application_of = application_of
        if machine_of is not None:
            self._machine_of = np.ascontiguousarray(machine_of, np.int64)
        self._level_of = level_of
        self._kinds.sort(key=lambda kind: kind.priority)
        for number, kind in enumerate(self._kinds):
            kind.number = number
        self._check_lengths()
        self.__dict__.pop("links", None)  # made before this, they would have no kinds
        if not carried:
            self._engine.add_source(self)
            self._engine.at_wave_end(self._flush)

    @property
    def kinds(self) -> list[str]:
        """The names of the kinds of messages, in the order of their numbers in `links`."""
        return [kind.name for kind in self._kinds]

    @property
    def machines(self) -> int:
        """The number of machines: of the platform, and further ones."""
        return max(self._machines, int(self._machine_of.max(initial=-1)) + 1)

    @property
    def machine_of(self) -> NDArray[np.int64]:
        """The machine that each node is on."""
        return self._machine_of

    @property
    def delays(self) -> dict[str, float]:
        """How long messages take, s, of each kind that does not take the network's time."""
        return {kind.name: kind.delay / NS for kind in self._kinds if kind.delay is not None}

    @cached_property
    def links(self) -> Links:
        """The kernel that carries the messages; made when it is first used, after the kinds are declared."""
        return self._connect()

    def _connect(self) -> Links:
        links = Links(
            self._machine_of,
            self.machines,
            latency=nanoseconds(self.network.latency),
            jitter=nanoseconds(self.network.jitter),
            seed=self._seed,
            bandwidth=self.network.bandwidth,
            widths=np.array([kind.dtype.itemsize for kind in self._kinds], np.int64),
            deferred=[kind.deferred for kind in self._kinds],
            fifo=self.network.interfaces == "fifo",
            keep=[kind.keep for kind in self._kinds],
            level_of=self._level_of,
        )
        if self._log:
            links.log(self._log, [place_of(kind.dtype, kind.about) for kind in self._kinds])
        return links

    def _check_lengths(self) -> None:
        """Raise ScenarioError for a kind of message whose transfer takes longer than the links can count."""
        for kind in self._kinds:
            seconds = kind.nbytes / self.network.bandwidth
            if not seconds <= LONGEST:
                raise ScenarioError(
                    f"network.bandwidth must let each message through within {LONGEST:.4g} s, got "
                    f"{self.network.bandwidth!r}: a {kind.name} of {kind.nbytes} bytes takes {seconds:g} s"
                )

    def send(self, name: str, rows: Rows) -> None:
        """Send `rows` of kind `name`; they leave at the end of the current wave."""
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
            rows = joined(kind.outbox)
            kind.outbox.clear()
            if len(rows) > 1:
                sender = rows["sender"]
                if (sender[1:] < sender[:-1]).any():
                    rows = rows[np.argsort(sender, kind="stable")]
            if self._observer is not None:
                self._show(now, kind, rows)
            records = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
            self.links.send(now, kind.number, records, kind.nbytes)

    # -- as a source of the engine ----------------------------------------------------------------------

    def number(self, name: str) -> tuple[int, int]:
        """Return the number of kind `name` in `links`, and the size of such a message, bytes."""
        kind = self._by_name[name]
        return kind.number, kind.nbytes

    def run_by(self, inner: Source) -> None:
        """Let `inner` run the links from now on; it is a kernel that handles some kinds itself."""
        self._inner = inner

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        if self._inner is not None:
            return self._inner.advance(limit)
        return self.links.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        for number, records in self.links.collect(time):
            kind = self._kinds[number]
            engine.post(time, kind.name, records.view(kind.dtype).reshape(-1))
        for number, records in self.links.lost():
            kind = self._kinds[number]
            engine.post(time, f"{kind.name} lost", records.view(kind.dtype).reshape(-1))
        if self._inner is not None:
            self._inner.collect(engine, time)

    def drain(self) -> None:
        """Hand over the deferred messages that have arrived by now."""
        for number, records, _ in self.links.drain(self._engine.now):
            kind = self._kinds[number]
            kind.handler(records.view(kind.dtype).reshape(-1))

    # -- failures ---------------------------------------------------------------------------------------

    def fail(self, machines: NDArray[np.int64], *, down: bool = False) -> None:
        """Make `machines` fail now: drop messages addressed to them or waiting at them.  See `Links.fail`."""
        self.links.advance(self._engine.now)
        self.links.fail(machines, self._engine.now, down=down)

    def restore(self, machines: NDArray[np.int64]) -> None:
        """Make `machines` that were down recover now."""
        self.links.restore(machines, self._engine.now)

    # -- checkpoints ------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the state of the links: messages in flight and accounting; valid between waves only."""
        if self._waiting:
            raise RuntimeError("the state of the network can be read at the end of a wave only")
        return {"links": self.links}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from what `getstate` returned."""
        check_names(self, state, ("links",))
        for kind in self._kinds:
            kind.outbox.clear()
        self._waiting = False
        put(self, "links", state["links"])

    # -- accounting --------------------------------------------------------------------------------------

    def accounting(self) -> dict[str, NDArray[Any]]:
        """Count the messages of each kind: columns kind, sent, delivered, dropped, in_flight, bytes (sent).

        Hands over deferred messages first, see `drain`.
        """
        self.drain()
        links, counted = self.links, np.array([kind.number for kind in self._kinds if kind.counted], np.int64)
        sent, delivered, dropped = (each[counted] for each in (links.sent, links.delivered, links.dropped))
        return {
            "kind": np.array([self.kinds[number] for number in counted], dtype="U"),
            "sent": sent,
            "delivered": delivered,
            "dropped": dropped,
            "in_flight": sent - delivered - dropped,
            "bytes": links.traffic[counted],
        }

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the arrays in which the links count messages and bytes."""
        links = self.links
        counts = [links.sent, links.delivered, links.dropped, links.traffic, links.bytes_out, links.bytes_in]
        return [*counts, links.by_level, *([] if links.windows is None else [links.windows])]

    def message_log(self, applications: int) -> Table:
        """Return the log of messages, as of the last call of `accounting`; see `message_table`."""
        return message_table(self.links, self.kinds, applications, self._application_of)

    def interfaces(self) -> dict[str, NDArray[np.int64]]:
        """Return the bytes that each machine has sent and received: columns bytes_out, bytes_in."""
        columns = {"bytes_out": self.links.bytes_out, "bytes_in": self.links.bytes_in}
        return {name: column[: self._machines].copy() for name, column in columns.items()}

    def watch(self, first: int, last: int) -> None:
        """Record the use of interfaces from `first` to `last` ns (at least 1 s) if the network asks for it.

        Raises ScenarioError for more than `MOST_WINDOWS` machine seconds.
        """
        if not self.network.record_use:
            return
        last = max(last, first + NS)
        seconds = -(-(last - first) // NS)
        if seconds * self._machines > MOST_WINDOWS:
            raise ScenarioError(
                f"network.record_use must be for at most {MOST_WINDOWS} machine seconds, "
                f"got {self._machines} machines for {seconds} s"
            )
        self.links.watch(first, last, NS)
        self._span = last - first

    def use(self) -> dict[str, NDArray[np.float64]]:
        """Return the share of the bandwidth that each machine used, in and out together (at most about 2).

        Columns: use_mean is the share over all the time watched; use_peak_1s and use_peak_10s are those in
        the busiest windows of 1 s and 10 s.  A message counts in the window in which it begins to cross the
        interface.  There are no columns if the use was not watched.
        """
        if self.links.windows is None:
            return {}
        windows = self.links.windows[: self._machines]
        tens = np.add.reduceat(windows, np.arange(0, windows.shape[1], 10), axis=1)
        bandwidth = self.network.bandwidth
        return {
            "use_mean": windows.sum(axis=1) / (self._span / NS * bandwidth),
            "use_peak_1s": windows.max(axis=1) / bandwidth,
            "use_peak_10s": tens.max(axis=1) / (10.0 * bandwidth),
        }

    def by_level(self) -> dict[str, NDArray[Any]]:
        """Return the messages sent per kind and level of the sender: columns kind, level, messages, bytes."""
        counts = self.links.by_level
        kind, level = np.nonzero(counts[0])
        names = np.array([each.name for each in self._kinds], dtype="U")
        return {
            "kind": names[kind],
            "level": level.astype(np.int64),
            "messages": counts[0, kind, level],
            "bytes": counts[1, kind, level],
        }
