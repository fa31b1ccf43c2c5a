"""Messages of the nodes of a process, sent to other processes over sockets."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec

from gridcore.common.state import NEVER
from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.network import Counters
from gridsim.emulation.tasks import Parts, TaskSet, count_of
from gridsim.emulation.wire import Kind, Message_
from gridsim.scheduling.nodes.python_mail import Letter, Mail
from gridsim.support.clock import NS

_GOLDEN = 0x9E3779B97F4A7C15
#: Incarnation of the receiver in a record of a lost message.
_LOST = -1
#: A message in flight: its due time (ns), number in this process, receiving node, the incarnation of its
#: machine during which the message must arrive, whether it comes from another machine, and the message.
_Arrival = tuple[int, int, int, int, bool, Any]


class EmulatedMail(Mail):
    """Mail of the nodes of one process.

    With the modelled network, the sender computes when the first byte (head) of a message arrives, and the
    receiver passes the message through its interface.  With a wall clock, messages of deferred kinds are
    drained when they arrive.

    Parameters
    ----------
    core
        The core of the process, a `gridsim.emulation.core.EmulatedCore`.
    kinds
        The kinds of messages, by number.

    Attributes
    ----------
    wire
        Name of a kind -> its wire format.
    lags
        Messages that arrived after their due time: their number, and the sum and maximum of their lateness
        (ns).
    counting
        Whether messages are counted.
    """

    def __init__(self, core: Any, kinds: Sequence[MessageKind]) -> None:
        self.core, self.process, self.engine = core, core.process, core.process.engine
        self.counters: Counters = self.process.network.counters
        super().__init__(self.process.network.links, kinds)
        self.wire = {kind.name: Kind(tag, kind) for tag, kind in enumerate(kinds)}
        self.lags, self.counting = [0, 0, 0], True
        network = self.process.network.network
        self.jitter, self.latency = round(network.jitter * NS), round(network.latency * NS)
        self.has_interfaces = network.interfaces == "fifo"
        level_of = self.process.network.level_of
        self.level_of: list[int] = [0] * len(core.is_local) if level_of is None else level_of.tolist()
        self.seed = self.process.network.seed + self.process.number * _GOLDEN
        self.deferred = [kind for kind in self.through_links if self.links.is_deferred(kind.number)]
        self.through_links = [kind for kind in self.through_links if kind not in self.deferred]
        self._number = self._sent = 0  # numbers of all messages and of those that the network carries
        self._arrivals: dict[str, list[_Arrival]] = {kind.name: [] for kind in kinds}  # heaps
        #: The heaps of kinds that the network carries, including direct messages but not deferred kinds.
        self._carried = [self._arrivals[kind.name] for kind in self.through_links]
        self._handled = [*self._carried, *(self._arrivals[kind.name] for kind in self.direct)]
        #: Heap of heads in flight: arrival time (ns), number, kind, (sending machine, incarnation, departure
        #: time in ns), and the message as an `_Arrival`.
        self._heads: list[tuple[int, int, MessageKind, tuple[int, int, int], _Arrival]] = []
        self._dropped: list[tuple[MessageKind, int, Any]] = []

    # -- sending ----------------------------------------------------------------------------------------

    def send(self, now: int, kind: MessageKind, letters: Sequence[Letter]) -> None:
        """Send messages of one kind, in order."""
        for letter in letters:
            self._send(now, kind, letter)

    def _send(self, now: int, kind: MessageKind, letter: Letter) -> None:
        sender, to = letter.message.sender, letter.to
        sender_machine, receiver_machine, links = (
            self.core.machines[sender],
            self.core.machines[to],
            self.counters,
        )
        is_outside = links.interfaces[sender_machine] != links.interfaces[receiver_machine]
        start = due = now
        self._sent += kind.delay < 0
        if kind.delay > 0:
            due = self.engine.clock() + kind.delay
        elif is_outside and kind.delay < 0:
            start, due = self._departure(sender_machine, letter.nbytes)
        if is_outside and self.counting and kind.is_counted:
            links.count(kind.number, letter.nbytes, self.level_of[sender], sender_machine)
        if self.core.is_local[to] and (kind.delay == 0 or not is_outside):
            incarnation = _LOST if links.down[sender_machine] else links.incarnation(receiver_machine)
            self._add(kind, (due, self._next_number(), to, incarnation, is_outside, letter.message))
            return
        process, move = self.core.process_of[to], 0
        tasks: Parts = ()
        if kind.moves_tasks:
            application = letter.message.application
            tasks = self.core.unqueued_tasks[application].take(letter.message.tasks)
            move = self.process.open(application, tasks, process)
            if not move:  # the process is down
                self.core.unqueued_tasks[application].add(tasks)
                if is_outside and self.counting:
                    links.drop(kind.number)
                self.core.report_lost(application, letter.message.tasks, to)
                return
        incarnation = _LOST if links.down[sender_machine] else links.incarnation(sender_machine)
        packed = self.wire[kind.name].pack(
            to, letter.message, due, start=start, incarnation=incarnation, move=move, tasks=tasks
        )
        self.process.post(kind, packed, process)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _departure(self, machine: int, nbytes: int) -> tuple[int, int]:
        """Return the departure time, and the arrival time of the head, of a message sent now, ns."""
        now, latency, links = self.engine.clock(), self.latency, self.counters
        if not self.process.modelled:
            return now, now
        if self.jitter:
            latency += self._drawn_jitter()
        transmission = links.transmission_time(nbytes)
        if not self.has_interfaces:
            return now, now + latency + transmission
        interface = links.interfaces[machine]
        start = max(now, links.up_free[interface])
        links.up_free[interface] = start + transmission
        return start, start + latency

    def _drawn_jitter(self) -> int:
        """Return the jitter of the latest message, ns, drawn as in `Links` (SplitMix64)."""
        x = (self.seed + self._sent * _GOLDEN) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return int((x ^ x >> 31) % (2 * self.jitter + 1) - self.jitter)

    # -- messages from other processes ------------------------------------------------------------------

    def receive(self, packed: Message_) -> None:
        """Accept a message that arrived over a socket; raises ValidationError if it is malformed."""
        core, node, tasks = self.core, packed.node, packed._tasks
        kind = core.by_name[packed.kind]
        name = kind.name
        if not 0 <= node < core.nodes or not core.is_local[node] or not 0 <= packed.sender < core.nodes:
            raise msgspec.ValidationError(
                f"message {name!r} must go from a node in 0..{core.nodes - 1} to a node of this process, "
                f"got sender {packed.sender} and receiver {node}"
            )
        message = self.wire[name].unpack(packed)
        if kind.application_at >= 0 and not 0 <= message.application < len(core.submitter):
            raise msgspec.ValidationError(
                f"message {name!r} must have a known application, got {message.application}"
            )
        limit = core.tasks[message.application] if kind.moves_tasks else 0
        is_valid = all(0 <= first < end <= limit for first, end in tasks)
        if not is_valid or (kind.moves_tasks and message.tasks != count_of(tasks)):
            raise msgspec.ValidationError(
                f"message {name!r} must have as many valid tasks as it states, got {tasks[:4]}"
            )
        if packed._move:
            self.process.tell("move_arrived", packed._move)
        if tasks:
            core.unqueued_tasks.setdefault(message.application, TaskSet()).add(tasks)
        now, due = self.engine.clock(), packed._due
        sender_machine, receiver_machine = core.machines[message.sender], core.machines[node]
        links = self.counters
        is_outside = links.interfaces[sender_machine] != links.interfaces[receiver_machine]
        is_modelled = is_outside and self.process.modelled
        if due < now and is_modelled and kind.delay != 0:
            self.lags[0] += 1
            self.lags[1] += now - due
            self.lags[2] = max(self.lags[2], now - due)
        number = self._next_number()
        incarnation = _LOST if packed._incarnation == _LOST else links.incarnation(receiver_machine)
        arrival = max(due, now), number, node, incarnation, is_outside, message
        if is_modelled and self.has_interfaces and kind.delay < 0:
            departure = sender_machine, packed._incarnation, packed._start
            heappush(self._heads, (arrival[0], number, kind, departure, arrival))
        else:
            self._add(kind, arrival)

    # -- receiving --------------------------------------------------------------------------------------

    def _add(self, kind: MessageKind, arrival: _Arrival) -> None:
        heappush(self._arrivals[kind.name], arrival)
        if kind in self.deferred and not self.process.is_alone:
            self.core.push(arrival[0], _no_call)  # an external call makes the core drain these messages

    def advance(self, limit: int) -> int:
        """Pass heads up to `limit` ns through the interfaces; return the time of the next arrival, ns.

        This may be the arrival of a head, before the message is complete.
        """
        first = _first(self._handled)
        while self._heads and self._heads[0][0] <= min(limit, first):
            due, _, kind, (source, source_incarnation, start), arrival = heappop(self._heads)
            _, number, node, incarnation, is_outside, message = arrival
            machine, links = self.core.machines[node], self.counters
            if (
                incarnation == _LOST
                or due >= links.end_of_incarnation(machine, incarnation)
                or start > links.end_of_incarnation(source, source_incarnation)
            ):
                incarnation = _LOST  # the loss is reported at the time at which the head would have arrived
            else:
                transmission = links.transmission_time(self.core.size_of(node, kind, message))
                interface = links.interfaces[machine]
                due = links.down_free[interface] = max(due, links.down_free[interface]) + transmission
            self._add(kind, (due, number, node, incarnation, is_outside, message))
            first = min(first, NEVER if kind in self.deferred else due)
        return min(first, self._heads[0][0] if self._heads else NEVER)

    def next_delivery(self) -> int:
        """Return the instant (ns) of the next known delivery of a message that is not direct."""
        return _first(self._carried)

    def take(self, kind: MessageKind, now: int) -> list[tuple[int, Any]]:
        """Return (receiver, message) of the messages of `kind` that have arrived, by receiver and order."""
        arrived = sorted(self._arrived(kind, now), key=lambda arrival: (arrival[2], arrival[1]))
        return [delivery for arrival in arrived for delivery in self._delivered(kind, arrival)]

    def _arrived(self, kind: MessageKind, now: int) -> list[_Arrival]:
        """Return the messages of `kind` that have arrived, in order of time."""
        arrivals, arrived = self._arrivals[kind.name], []
        while arrivals and arrivals[0][0] <= now:
            arrived.append(heappop(arrivals))
        return arrived

    def next_direct(self, now: int, *, instant_only: bool) -> MessageKind | None:
        """Return the kind of the first direct message that has arrived; None if there is none."""
        arrived = [
            (arrivals[0][:2], kind)
            for kind in self.direct
            if (arrivals := self._arrivals[kind.name]) and arrivals[0][0] <= now
            if not (instant_only and kind.delay > 0)
        ]
        return min(arrived, key=lambda entry: entry[0])[1] if arrived else None

    def take_direct(self, kind: MessageKind) -> list[tuple[int, Any]]:
        """Return (receiver, message) of the first direct message of `kind`; [] if it was dropped."""
        return self._delivered(kind, heappop(self._arrivals[kind.name]))

    def _delivered(self, kind: MessageKind, arrival: _Arrival) -> list[tuple[int, Any]]:
        """Return (receiver, message) of an arrived message; an empty list if its receiver has failed."""
        due, _, node, incarnation, is_outside, message = arrival
        machine = self.core.machines[node]
        end = self.counters.end_of_incarnation(machine, incarnation) if incarnation != _LOST else due
        if due >= end or (end == NEVER and not self.core.up[node]):
            self._drop(kind, node, message, is_outside)
            return []
        if is_outside and self.counting and kind.is_counted:
            nbytes = self.core.size_of(node, kind, message)
            self.counters.count_delivered(kind.number, nbytes, machine)
        return [(node, message)]

    def _drop(self, kind: MessageKind, node: int, message: Any, is_outside: bool) -> None:
        if is_outside and self.counting:
            self.counters.drop(kind.number)
        self._dropped.append((kind, node, message))

    def dropped(self) -> list[tuple[MessageKind, int, Any]]:
        """Return (kind, receiver, message) of the messages that have been dropped since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def drain(self, now: int) -> list[tuple[MessageKind, int, Any]]:
        """Return (kind, receiver, message) of deferred messages that have arrived, by machine and time."""
        return [
            (kind, node, message)
            for kind in self.deferred
            for arrival in sorted(self._arrived(kind, now), key=self._drain_order)
            for node, message in self._delivered(kind, arrival)
        ]

    def _drain_order(self, arrival: _Arrival) -> tuple[int, int, bool]:
        """Return the sort key of a deferred message; among equals, messages from an interface come last."""
        due, _, node, _, is_outside, _ = arrival
        return self.core.machines[node], due, is_outside and self.has_interfaces


def _first(heaps: Sequence[list[_Arrival]]) -> int:
    """Return the earliest time of an arrival, ns; `NEVER` if there is none."""
    first: int = NEVER
    for arrivals in heaps:
        if arrivals and arrivals[0][0] < first:
            first = arrivals[0][0]
    return first


def _no_call() -> None:
    """Do nothing."""
