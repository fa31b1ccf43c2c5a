"""The transport of messages between the machines of a run, which runs the network model on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.engine.engine import DELIVERY, Engine, concatenate
from gridsim.errors import ScenarioError
from gridsim.model.network import Network
from gridsim.results.table import Table
from gridsim.support.arguments import integer
from gridsim.support.arrays import Rows
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.state import check_names, set_attribute

Observer = Callable[[int, str, Rows, tuple[str, ...]], None]
#: The maximum time of a message on an interface (s), which is limited by `Links`.
MAX_TRANSFER_TIME = 2**40 / NS
#: The maximum size of a message, bytes.
MAX_BYTES = 2**31 - 1
#: The maximum number of machine seconds for which the use of interfaces is recorded; they take 4 GiB.
MAX_WINDOWS = 2**29
# Added to the priority of a kind for its lost messages, so that they are handled after delivered ones.
_LOST = 2048


def message(*fields: tuple[str, str]) -> np.dtype[Any]:
    """Return the dtype of a kind of message: receiving node, sending node, then `fields`."""
    return np.dtype([("node", "i8"), ("sender", "i8"), *fields])


@dataclass(slots=True)
class _Kind:
    name: str
    number: int
    dtype: np.dtype[Any]
    nbytes: int
    handler: Any  # a function of rows; None if another source handles them
    priority: int
    deferred: bool
    keep: bool
    opaque: tuple[str, ...]
    about: str
    counted: bool
    outbox: list[Rows] = field(default_factory=list)


class Transport:
    """Transport and accounting of messages between nodes, each of which is on a machine.

    A policy first declares its kinds of messages by `kind`, then the machines of its nodes by `open`; then it
    may send messages.  Messages that are sent in one wave of an instant leave at the end of the wave.  They
    leave in order of kind, then of sending node, then of sending, so that the division of the wave into
    cohorts does not matter.

    Parameters
    ----------
    engine
        The event engine of the run.
    network
        The network model.
    machines
        Number of machines of the run.
    interfaces
        int64[machines], the interface of each machine, by which the accounting counts; None if each machine
        has its own.
    seed
        Seed of the jitter of messages.
    log
        Number of messages to log, from the first one on; 0 for no log.
    logged_nodes
        The nodes whose messages are logged; None for all.

    Attributes
    ----------
    delays
        Kind of message -> delay, s, for the kinds whose delay does not depend on the network.
    """

    def __init__(
        self,
        engine: Engine,
        network: Network,
        machines: int,
        *,
        interfaces: NDArray[np.int64] | None = None,
        seed: int = 0,
        log: int = 0,
        logged_nodes: Sequence[int] | None = None,
    ) -> None:
        self._engine, self.network, self._machines, self._seed = engine, network, machines, seed
        self._interfaces = interfaces
        self._log, self._logged_nodes = log, logged_nodes
        self._application_of: NDArray[np.int64] | None = None
        self.delays: dict[str, float] = {}
        self._kinds: list[_Kind] = []
        self._by_name: dict[str, _Kind] = {}
        self._machine_of: NDArray[np.int64] = np.arange(machines, dtype=np.int64)
        self._level_of: NDArray[np.int64] | None = None
        self._waiting = False
        self._observer: Observer | None = None

    def observe(self, observer: Observer) -> None:
        """Call `observer` for all messages, with the arguments (time in ns, kind, rows, opaque).

        `opaque` are the opaque fields of the kind.
        """
        self._observer = observer

    @property
    def observed(self) -> bool:
        """Whether there is an observer, which kernels must call by `notify_observer`."""
        return self._observer is not None

    def notify_observer(self, now: int, number: int, records: NDArray[np.uint8]) -> None:
        """Call the observer for records of kind `number` that a kernel sends at `now` ns."""
        kind = self._kinds[number]
        self._call_observer(now, kind, records.view(kind.dtype).reshape(-1))

    def _call_observer(self, now: int, kind: _Kind, rows: Rows) -> None:
        assert self._observer is not None
        self._observer(now, kind.name, rows, kind.opaque)

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
        """Declare a kind of message.

        Parameters
        ----------
        name
            The name of the kind.
        dtype
            The type of its rows, which `message` returns.
        nbytes
            The size of one message, bytes.
        handler
            A function of cohorts of rows; None if another source runs the links and handles this kind.
        priority
            The order of handling at one instant; lower numbers go first.
        deferred
            Whether no node acts on such a message on arrival.  Its rows may then reach the handler later, at
            the latest when `drain` is called.
        keep
            Whether dropped rows go to the source that runs the links, instead of `lost`.
        lost
            A function of the rows that were dropped because a machine had failed, called at the instant at
            which they would have arrived; it must not send messages.
        opaque
            The names of fields that refer to objects in memory, so that an observer must ignore their values.
        about
            The name of the field with the number of the application that the message is about.  If it has
            other numbers, such as those of jobs, `open` needs the application of each number.
        counted
            Whether the accounting has a row for this kind.
        delay
            The time from sending to arrival, ns, for a source that runs the links; None if the network
            determines it.

        Raises
        ------
        ScenarioError
            If `nbytes` is not a whole number in 0..`MAX_BYTES`.
        """
        nbytes = integer(f"nbytes of {name!r}", nbytes, high=MAX_BYTES)
        keep = keep or lost is not None
        number = len(self._kinds)
        new = _Kind(name, number, dtype, nbytes, handler, priority, deferred, keep, opaque, about, counted)
        if delay is not None:
            self.delays[name] = delay / NS
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
            int64[nodes], the machine of each node, which may be outside the platform; None if node i is on
            machine i.
        level_of
            int64[nodes], the level of each node, in 0..63, by which messages are also counted; None to count
            them without levels.
        application_of
            The application of each number in the field `about` of messages; None if the field has the number
            of an application itself.
        carried
            Whether another source of the engine runs the links; then `send` must not be called.
        """
        self._application_of = application_of
        if machine_of is not None:
            self._machine_of = np.ascontiguousarray(machine_of, np.int64)
        self._level_of = level_of
        self._kinds.sort(key=lambda kind: kind.priority)
        for number, kind in enumerate(self._kinds):
            kind.number = number
        for kind in self._kinds:
            self.check_transfer(kind.name, kind.nbytes)
        self.__dict__.pop("links", None)  # links cached before all kinds were declared would lack some
        if not carried:
            self._engine.add_source(self)
            self._engine.at_wave_end(self._flush)

    @property
    def kinds(self) -> list[str]:
        """The names of the kinds of messages, in the order of their numbers in `links`."""
        return [kind.name for kind in self._kinds]

    @property
    def machines(self) -> int:
        """The number of machines, including those outside the platform."""
        return max(self._machines, int(self._machine_of.max(initial=-1)) + 1)

    @property
    def machine_of(self) -> NDArray[np.int64]:
        """The machine of each node."""
        return self._machine_of

    @cached_property
    def links(self) -> Links:
        """The kernel that carries the messages; the first access, after all declarations, creates it."""
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
            interfaces=self._padded_interfaces(),
        )
        if self._log:
            nodes = np.arange(len(self._machine_of))
            links.log(
                self._log,
                [offset_of(kind.dtype, kind.about) for kind in self._kinds],
                None if self._logged_nodes is None else np.isin(nodes, self._logged_nodes),
            )
        return links

    def _padded_interfaces(self) -> NDArray[np.int64] | None:
        """Return the interface of each machine, servers included; None if each machine has its own."""
        if self._interfaces is None:
            return None
        servers = np.arange(self.machines - self._machines)
        return np.append(self._interfaces, self._interfaces[-1] + 1 + servers)

    def check_transfer(self, name: str, nbytes: int) -> None:
        """Raise ScenarioError if a message takes longer than `MAX_TRANSFER_TIME` on an interface.

        Parameters
        ----------
        name
            Name of the message in the error.
        nbytes
            Its size, bytes.
        """
        seconds = nbytes / self.network.bandwidth
        if not seconds <= MAX_TRANSFER_TIME:
            raise ScenarioError(
                f"network.bandwidth must transfer each message within {MAX_TRANSFER_TIME:.4g} s, got "
                f"{self.network.bandwidth!r}: a {name} of {nbytes} bytes takes {seconds:g} s"
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
            rows = concatenate(kind.outbox)
            kind.outbox.clear()
            if len(rows) > 1:
                sender = rows["sender"]
                if (sender[1:] < sender[:-1]).any():
                    rows = rows[np.argsort(sender, kind="stable")]
            if self._observer is not None:
                self._call_observer(now, kind, rows)
            records = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
            self.links.send(now, kind.number, records, kind.nbytes)

    # -- as a source of the engine ----------------------------------------------------------------------

    def number(self, name: str) -> tuple[int, int]:
        """Return the number of kind `name` in `links`, and the size of such a message, bytes."""
        kind = self._by_name[name]
        return kind.number, kind.nbytes

    def advance(self, limit: int) -> int:
        """Run the links to `limit` ns; return the time of the first delivery or loss with a handler, ns."""
        return self.links.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """Post the messages that arrive or are lost at `time` ns to the engine."""
        for number, records in self.links.collect(time):
            kind = self._kinds[number]
            engine.post(time, kind.name, records.view(kind.dtype).reshape(-1))
        for number, records in self.links.lost():
            kind = self._kinds[number]
            engine.post(time, f"{kind.name} lost", records.view(kind.dtype).reshape(-1))

    def drain(self) -> None:
        """Pass the deferred messages that have arrived by now to their handlers."""
        for number, records, _ in self.links.drain(self._engine.now):
            kind = self._kinds[number]
            kind.handler(records.view(kind.dtype).reshape(-1))

    # -- failures ---------------------------------------------------------------------------------------

    def fail(self, machines: NDArray[np.int64], *, down: bool = False) -> None:
        """Make `machines` fail now, and drop the messages addressed to them or waiting at them.

        Parameters
        ----------
        down
            Whether they stay down until `restore`; otherwise they recover at once.
        """
        self.links.advance(self._engine.now)
        self.links.fail(machines, self._engine.now, down=down)

    def restore(self, machines: NDArray[np.int64]) -> None:
        """Make `machines` that were down recover now."""
        self.links.restore(machines, self._engine.now)

    # -- checkpoints ------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the state of the links: messages in flight and accounting; call it between waves only."""
        if self._waiting:
            raise RuntimeError(
                "getstate requires that all messages of the wave were sent: call it at the end of a wave"
            )
        return {"links": self.links}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        check_names(self, state, ("links",))
        for kind in self._kinds:
            kind.outbox.clear()
        self._waiting = False
        set_attribute(self, "links", state["links"])

    # -- accounting --------------------------------------------------------------------------------------

    def accounting(self) -> dict[str, NDArray[Any]]:
        """Handle the deferred messages that have arrived, and return the messages counted by kind.

        Returns
        -------
        dict
            The columns kind, sent, delivered, dropped, in_flight (messages) and bytes (sent).
        """
        self.drain()
        links, numbers = self.links, np.array([kind.number for kind in self._kinds if kind.counted], np.int64)
        sent, delivered = links.sent[numbers], links.delivered[numbers]
        dropped = links.dropped[numbers]
        return {
            "kind": np.array([self.kinds[number] for number in numbers], dtype="U"),
            "sent": sent,
            "delivered": delivered,
            "dropped": dropped,
            "in_flight": sent - delivered - dropped,
            "bytes": links.traffic[numbers],
        }

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the arrays in which the links count messages and bytes."""
        links = self.links
        counts = [links.sent, links.delivered, links.dropped, links.traffic, links.bytes_out, links.bytes_in]
        return [*counts, links.by_level, *([] if links.windows is None else [links.windows])]

    def message_log(self, applications: int) -> Table:
        """Return the log of messages, as of the last call of `accounting`, with a row per message."""
        return message_table(self.links, self.kinds, applications, self._application_of)

    def interfaces(self) -> dict[str, NDArray[np.int64]]:
        """Return the bytes that each interface has sent and received, in columns bytes_out and bytes_in."""
        columns = {"bytes_out": self.links.bytes_out, "bytes_in": self.links.bytes_in}
        return {name: self._by_interface(column) for name, column in columns.items()}

    def _by_interface(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of counts of machines for each interface of the platform."""
        counts = counts[: self._machines]
        if self._interfaces is None:
            return counts.copy()
        sums: NDArray[np.int64] = np.add.reduceat(
            counts, np.flatnonzero(np.diff(self._interfaces, prepend=-1)), axis=0
        )
        return sums

    def watch(self, first: int, last: int) -> None:
        """Record the use of interfaces from `first` to `last` ns (at least 1 s), if `record_use` is set.

        Raises
        ------
        ScenarioError
            If there are more than `MAX_WINDOWS` machine seconds.
        """
        if not self.network.record_use:
            return
        last = max(last, first + NS)
        seconds = -(-(last - first) // NS)
        if seconds * self._machines > MAX_WINDOWS:
            raise ScenarioError(
                f"network.record_use must cover at most {MAX_WINDOWS} machine seconds, "
                f"got {self._machines} machines for {seconds} s"
            )
        self.links.watch(first, last, NS)
        self._span = last - first

    def use(self) -> dict[str, NDArray[np.float64]]:
        """Return the used share of each bandwidth, in and out together (at most about 2).

        Returns
        -------
        dict
            The column use_mean, the share over the recorded time, and the columns use_peak_1s and
            use_peak_10s, the shares in the busiest windows of 1 s and 10 s.  A message counts in the window
            in which it begins to cross the interface.  The dict is empty if the use was not recorded.
        """
        if self.links.windows is None:
            return {}
        windows = self._by_interface(self.links.windows)
        tens = np.add.reduceat(windows, np.arange(0, windows.shape[1], 10), axis=1)
        bandwidth = self.network.bandwidth
        return {
            "use_mean": windows.sum(axis=1) / (self._span / NS * bandwidth),
            "use_peak_1s": windows.max(axis=1) / bandwidth,
            "use_peak_10s": tens.max(axis=1) / (10.0 * bandwidth),
        }

    def by_level(self) -> dict[str, NDArray[Any]]:
        """Return the messages sent per kind and level of the sender.

        Returns
        -------
        dict
            The columns kind, level, messages and bytes.
        """
        counts = self.links.by_level
        kind, level = np.nonzero(counts[0])
        names = np.array([entry.name for entry in self._kinds], dtype="U")
        return {
            "kind": names[kind],
            "level": level.astype(np.int64),
            "messages": counts[0, kind, level],
            "bytes": counts[1, kind, level],
        }


#: The number of messages that the log keeps by default.
MESSAGES_LIMIT = 1_000_000
#: The maximum number of messages that the log can keep.
MAX_MESSAGES = 2**31 - 1


def offset_of(dtype: np.dtype[Any], name: str) -> int:
    """Return the offset of the int64 field `name` in a row, in bytes; -1 if there is no such field."""
    fields = dtype.fields
    if fields is None or name not in fields or fields[name][0] != np.int64:
        return -1
    return int(fields[name][1])


def message_table(
    links: Links, kinds: list[str], applications: int, application_of: NDArray[np.int64] | None
) -> Table:
    """Return the log of `links` as a table with one row per message, in order of sending.

    The columns are described in docs/reference/outputs.md.

    Parameters
    ----------
    kinds
        The names of the kinds of messages, by number.
    applications
        The number of applications.
    application_of
        int64[subjects], the application of each subject of a message, such as a job; None if the subjects are
        applications.
    """
    rows = links.logged()
    subject = rows["subject"]
    if application_of is not None:
        known = (subject >= 0) & (subject < len(application_of))
        subject = np.where(known, np.append(application_of, -1)[np.where(known, subject, -1)], -1)
    delivered = rows["delivered"]
    columns = {
        "kind": np.array(kinds, np.str_)[rows["kind"]],
        "sender": rows["sender"],
        "receiver": rows["receiver"],
        "sent": rows["sent"] / NS,
        "delivered": np.where(delivered >= 0, delivered / NS, np.nan),
        "dropped": (delivered == -2).astype(np.int64),
        "bytes": rows["nbytes"],
        "application": np.where((subject >= 0) & (subject < applications), subject, -1),
    }
    return Table(columns)
