"""The engine of an emulation: the simulated time is that of the computer's clock, scaled."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from gridsim.engine.engine import TIMER, Engine
from gridsim.scheduling.contract import FAULT_PRIORITY
from gridsim.support.clock import NEVER, NS

#: Events are handled for this long (ns of the computer's clock), then messages leave.
_TURN = 1_000_000


class Nodes(Protocol):
    """The part of the run that has the events of nodes, see `gridsim.emulation.core.EmulatedCore`."""

    @property
    def awaits_end(self) -> bool:
        """Whether `end_instant` has work to do."""

    def next_instant(self) -> int:
        """Return the instant (ns) of the next event; `NEVER` if there is none."""

    def next_own_instant(self) -> int:
        """Return the instant (ns) of the next event that is not the arrival of a message, else `NEVER`."""

    def end_instant(self) -> None:
        """Do what nodes do once all events of an instant are handled."""


class RealTimeEngine(Engine):
    """Handles instant by instant what is due by the clock of the computer, in the order of `Engine`.

    Each handler sees the instant at which its event was due.  It is handled then or later, never earlier.

    Parameters
    ----------
    speedup
        Simulated seconds in a second; inf for a virtual clock, which is at the instant that is handled.

    Attributes
    ----------
    nodes
        What has the events of the nodes.
    late
        Of what was due at a known instant: how often, and by how many ns of the computer's clock, it was
        handled late, in all, squared, and at most.
    ended
        Whether `stop` has ended the run.
    """

    nodes: Nodes

    def __init__(self, speedup: float) -> None:
        super().__init__()
        self.speedup, self.zero = speedup, 0
        self.started, self.ended, self._moment = False, False, -1
        self.late = [0, 0.0, 0.0, 0.0]
        self._calls: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self._call_count = 0
        self.on("call", self._run_calls, priority=FAULT_PRIORITY + 90, phase=TIMER)

    # -- the clock --------------------------------------------------------------------------------------

    def start(self, zero: int) -> None:
        """Start the time at `zero`, ns of `time.monotonic_ns`."""
        self.zero, self.started = zero, True

    def skip(self) -> None:
        """Start now, in the middle of a run: periodic events are next due at a multiple of their period."""
        now, names = self.clock(), {rank: name for name, rank in self._rank.items()}
        for rank, (period, _) in [*self._periods.items()]:
            self.every(period, names[rank], first=(now // period + 1) * period)
        self._start(now)

    def clock(self) -> int:
        """Return the time now, simulated ns; never earlier than the event that is being handled."""
        if not self.started or self.speedup == inf:
            return self.now
        return max(self.now, self._wall_time())

    def _wall_time(self) -> int:
        """Return the time by the clock of the computer, simulated ns."""
        return int((time.monotonic_ns() - self.zero) * self.speedup)

    def moment(self) -> int:
        """Return the present time, which stays the same while an instant is handled."""
        if self._moment < 0:
            self._moment = self.clock()
        return self._moment

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self.ended or self._stopped

    # -- what is due ------------------------------------------------------------------------------------

    def at(self, time: int, kind: str, item: int = 0) -> None:
        """Schedule a timer as `Engine.at` does; what is already past is due now."""
        super().at(max(time, self.now), kind, item)

    def call_at(self, due: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` with `arguments` at `due` ns, after all other events of this instant."""
        self._call_count += 1
        self._calls[self._call_count] = call, arguments
        self.at(due, "call", self._call_count)

    def _run_calls(self, numbers: list[int]) -> None:
        for number in numbers:
            call, arguments = self._calls.pop(number)
            call(*arguments)

    def _next_own_instant(self) -> int:
        """Return the instant (ns) of the next event of the engine itself; `NEVER` if there is none."""
        queue = self._queue
        instant: int = queue.front[0][0] if queue.front or queue.fill_front() else NEVER
        return instant

    def next_instant(self) -> int:
        """Return the instant (ns) of the next event; `NEVER` if there is none."""
        return min(self._next_own_instant(), self.nodes.next_instant())

    def delay(self) -> float | None:
        """Return the time until something is due, s of the computer's clock; None if nothing is."""
        due = self.next_instant() if self.started and not self.ended else NEVER
        if due == NEVER:
            return None
        return max(0.0, (due / self.speedup + self.zero - time.monotonic_ns()) / NS)

    def run_due(self) -> None:
        """Handle what is due by now, for about `_TURN` at most; then messages leave."""
        now, turn_ends = self._wall_time(), time.monotonic_ns() + _TURN
        while not self.ended and (due := self.next_instant()) <= now:
            self._note_lateness(due)
            self.handle(due)
            if time.monotonic_ns() > turn_ends:
                return
        if now > self.now:
            self._start(now)

    def handle(self, due: int) -> None:
        """Handle all events of the instant `due`, the next one."""
        self.move_to(due)
        if self.run(self.now):
            self.ended = True
            self.leave()
        for hook in () if self.ended else self._hooks:
            hook()
        if self.nodes.awaits_end and self.next_instant() > self.now:
            self.nodes.end_instant()

    def move_to(self, instant: int) -> None:
        """Begin to handle the instant `instant`, ns, or the present one if that is later."""
        self._moment = -1
        if instant > self.now:
            self._start(instant)

    def _note_lateness(self, due: int) -> None:
        """Record how late an instant is handled, unless only messages arrive then."""
        if min(self._next_own_instant(), self.nodes.next_own_instant()) > due:
            return
        late, by = self.late, (time.monotonic_ns() - self.zero) - due / self.speedup
        late[0] += 1
        late[1] += by
        late[2] += by * by
        late[3] = max(late[3], by)
