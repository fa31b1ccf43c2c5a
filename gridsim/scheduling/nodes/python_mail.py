"""The messages in transit between the nodes of a readable message core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridcore.common.state import NEVER
from gridcore.network.links import Links
from gridcore.nodes.kinds import MessageKind
from gridcore.nodes.payloads import Payloads
from gridsim.support.arrays import Rows

__all__ = ["Letter", "Mail"]


class Letter(NamedTuple):
    """A message that a node has sent.

    Parameters
    ----------
    to
        The receiving node.
    message
        The object that the receiver gets, with the sender and the fields.
    nbytes
        Its size on the wire.
    """

    to: int
    message: Any
    nbytes: int


class Mail:
    """The messages in transit, which `links` transports as records of numbers.

    A *direct* message has a kind with its own delay; it bypasses the network interfaces.

    Parameters
    ----------
    kinds
        The kinds by their number in `links`.
    observe
        Function of (ns, number of a kind, records) that is called for all sent messages, or None.
    """

    def __init__(
        self, links: Links, kinds: Sequence[MessageKind], observe: Callable[..., None] | None = None
    ) -> None:
        self.links, self.kinds, self.observe = links, kinds, observe
        self.direct = [kind for kind in kinds if kind.delay >= 0]
        self.through_links = [kind for kind in kinds if kind.delay < 0]
        self.payloads = Payloads()  # the arrays in messages, whose numbers are in the records
        self.n_direct = 0  # number of direct messages so far
        self._dtypes = {kind.name: np.dtype([*_HEADER, *_columns(kind)]) for kind in kinds}

    # -- sending ----------------------------------------------------------------------------------------

    def send(self, now: int, kind: MessageKind, letters: Sequence[Letter]) -> None:
        """Send messages of one kind, in order."""
        records = self._pack(now, kind, letters)
        for k, letter in enumerate(letters):
            record = records[k : k + 1]
            if kind.delay < 0:
                self.links.send(now, kind.number, record, letter.nbytes)
                continue
            self.links.send_directly(
                now,
                kind.number,
                record,
                letter.nbytes,
                kind.delay,
                self.n_direct,
                is_counted=kind.is_counted,
            )
            self.n_direct += 1

    def _pack(self, now: int, kind: MessageKind, letters: Sequence[Letter]) -> Rows:
        """Return the records of messages, uint8[k, width]."""
        rows = [(letter.to, letter.message.sender, *self._values(kind, letter)) for letter in letters]
        records = np.array(rows, self._dtypes[kind.name]).view(np.uint8).reshape(len(rows), -1)
        if self.observe is not None:
            self.observe(now, kind.number, records)
        return records

    def _values(self, kind: MessageKind, letter: Letter) -> Iterator[float]:
        """Yield the fields of a message as numbers; an array has its number in `payloads`."""
        for name, code in zip(kind.fields, kind.type_codes, strict=True):
            value = getattr(letter.message, name)
            yield self.payloads.store(value) if code == 2 else value

    # -- receiving --------------------------------------------------------------------------------------

    def advance(self, limit: int) -> int:
        """Run the network up to `limit` ns; return the first instant with a delivery, or `NEVER`."""
        return self.links.advance(limit)

    def next_delivery(self) -> int:
        """Return the instant (ns) of the next known delivery that is not direct."""
        return min((self.links.next_delivery(kind.number)[0] for kind in self.through_links), default=NEVER)

    def take(self, kind: MessageKind, now: int) -> list[tuple[int, Any]]:
        """Return (receiver, message) of the messages of `kind` that have arrived, by receiver and order."""
        return [*self._unpack(kind, self.links.take(kind.number, now))]

    def next_direct(self, now: int, *, instant_only: bool) -> MessageKind | None:
        """Return the kind of the first direct message that has arrived; None if there is none.

        Parameters
        ----------
        instant_only
            Whether to omit kinds with a delay above 0.
        """
        arrived = []
        for kind in self.direct:
            at, number = self.links.next_delivery(kind.number)
            if at <= now and not (instant_only and kind.delay > 0):
                arrived.append((at, number, kind))
        return min(arrived)[2] if arrived else None  # the numbers differ, so that kinds are not compared

    def take_direct(self, kind: MessageKind) -> list[tuple[int, Any]]:
        """Return (receiver, message) of the first direct message of `kind`, or nothing if it was dropped."""
        return [*self._unpack(kind, self.links.take_first(kind.number))]

    def drain(self, now: int) -> list[tuple[MessageKind, int, Any]]:
        """Return (kind, receiver, message) of the deferred messages that have arrived."""
        return [
            (kind, node, message)
            for number, records, _ in self.links.drain(now)
            for kind in (self.kinds[number],)
            for node, message in self._unpack(kind, records)
        ]

    def dropped(self) -> list[tuple[MessageKind, int, Any]]:
        """Return (kind, receiver, message) of the messages with tasks or arrays that have been dropped."""
        return [
            (kind, node, message)
            for number, records in self.links.lost()
            for kind in (self.kinds[number],)
            for node, message in self._unpack(kind, records)
        ]

    def _unpack(self, kind: MessageKind, records: Rows) -> Iterator[tuple[int, Any]]:
        rows = records.view(self._dtypes[kind.name]).reshape(-1)
        for node, sender, *values in rows.tolist():
            coded = zip(kind.type_codes, values, strict=True)
            yield (
                node,
                kind.message(sender, (self.payloads.fetch(v) if code == 2 else v for code, v in coded)),
            )


_HEADER = (("node", "i8"), ("sender", "i8"))


def _columns(kind: MessageKind) -> list[tuple[str, str]]:
    return [
        (name, "f8" if code == 1 else "i8") for name, code in zip(kind.fields, kind.type_codes, strict=True)
    ]
