"""The engine of an emulation, whose simulated time is the scaled time of the computer's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from gridsim.engine.engine import TIMER, Engine
from gridsim.scheduling.contract import FAULT_PRIORITY
from gridsim.support.clock import NEVER, NS

#: Time (ns of the computer's clock) for which events are handled before messages are sent.
_TURN = 1_000_000


class Nodes(Protocol):
    """The part of the run with the events of nodes: a `gridsim.emulation.core.EmulatedCore`."""

    @property
    def awaits_end(self) -> bool:
        """Whether `end_instant` has work to do."""

    def next_instant(self) -> int:
        """Return the instant (ns) of the next event; `NEVER` if there is none."""

    def next_own_instant(self) -> int:
        """Return the instant (ns) of the next event that is not the arrival of a message, else `NEVER`."""

    def end_instant(self) -> None:
        """Perform the actions of nodes after all events of an instant."""


class RealTimeEngine(Engine):
    """Engine that handles the events due by the computer's clock, in the order of `Engine`.

    A handler sees the instant at which its event was due, and runs at that instant or later.

    Parameters
    ----------
    speedup
        Simulated seconds per second; inf for a virtual clock, which is always at the current instant.

    Attributes
    ----------
    nodes
        The part of the run with the events of nodes.
    late
        Lateness of events that were due at a known instant: their number, and the sum, sum of squares and
        maximum of their lateness (ns of the computer's clock).
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
        """Set time 0 to `zero`, an instant of `time.monotonic_ns`."""
        self.zero, self.started = zero, True

    def skip(self) -> None:
        """Join a run in progress: schedule periodic events at the next multiple of their period."""
        now, names = self.clock(), {rank: name for name, rank in self._rank.items()}
        for rank, (period, _) in [*self._periods.items()]:
            self.every(period, names[rank], first=(now // period + 1) * period)
        self._start(now)

    def clock(self) -> int:
        """Return the current simulated time, ns, which is never earlier than the event being handled."""
        if not self.started or self.speedup == inf:
            return self.now
        return max(self.now, self._wall_time())

    def _wall_time(self) -> int:
        """Return the simulated time according to the computer's clock, ns."""
        return int((time.monotonic_ns() - self.zero) * self.speedup)

    def moment(self) -> int:
        """Return the current time, ns, which is constant while an instant is handled."""
        if self._moment < 0:
            self._moment = self.clock()
        return self._moment

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self.ended or self._stopped

    # -- due events -------------------------------------------------------------------------------------

    def at(self, time: int, kind: str, item: int = 0) -> None:
        """Schedule a timer as `Engine.at` does; a timer in the past is due now."""
        super().at(max(time, self.now), kind, item)

    def call_at(self, due: int, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule `call` with `arguments` at `due` ns, after all other events of that instant."""
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
        """Return the time until the next event, s of the computer's clock; None if there is none."""
        due = self.next_instant() if self.started and not self.ended else NEVER
        if due == NEVER:
            return None
        return max(0.0, (due / self.speedup + self.zero - time.monotonic_ns()) / NS)

    def run_due(self) -> None:
        """Handle the events that are due, for at most about `_TURN`."""
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
        """Advance to the instant `instant`, ns, or to the current time if that is later."""
        self._moment = -1
        if instant > self.now:
            self._start(instant)

    def _note_lateness(self, due: int) -> None:
        """Record the lateness of an instant, unless its only events are arrivals of messages."""
        if min(self._next_own_instant(), self.nodes.next_own_instant()) > due:
            return
        late, lateness = self.late, (time.monotonic_ns() - self.zero) - due / self.speedup
        late[0] += 1
        late[1] += lateness
        late[2] += lateness * lateness
        late[3] = max(late[3], lateness)
