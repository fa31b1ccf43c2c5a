"""The clock of an emulation, and what is due: in scaled real time, where the engine has simulated time."""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from gridsim.engine.engine import Engine, Handler, Source
from gridsim.support.clock import NEVER, NS

#: What is due at one instant is handled in this order: what ends, what arrives, what acts, timers.
ENDS, ARRIVES, ACTS, FIRES = range(4)
#: Timers of policies come after those of nodes, by their priority.
_POLICY = 16
#: ns of the computer's clock.
_TURN = 1_000_000


class RealTimeEngine(Engine):
    """Handles what is due by the clock of the computer, in order; each handler sees the instant it was due.

    Parameters
    ----------
    speedup
        Simulated seconds in a second.

    Attributes
    ----------
    late
        Of what was due at a known instant: how often, and by how many ns of the computer's clock, it was
        handled late, in all, squared, and at most.
    """

    def __init__(self, speedup: float) -> None:
        super().__init__()
        self.speedup, self.zero = speedup, 0
        self.started, self._moment = False, -1
        self.pending: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = self.handled = 0
        self.kinds: dict[str, tuple[int, Handler]] = {}
        self.periods: dict[str, int] = {}
        self.late = [0, 0.0, 0.0, 0.0]

    def start(self, zero: int) -> None:
        """Let the time begin at `zero`, ns of `time.monotonic_ns`."""
        self.zero, self.started = zero, True

    def clock(self) -> int:
        """Return the time now, simulated ns; never earlier than the event that is being handled."""
        if not self.started:
            return self.now
        return max(self.now, int((time.monotonic_ns() - self.zero) * self.speedup))

    def moment(self) -> int:
        """Return the time now, the same one as long as one event is handled."""
        if self._moment < 0:
            self._moment = self.clock()
        return self._moment

    @property
    def events(self) -> int:
        """How much has been handled here."""
        return self.handled

    def push(self, due: int, order: int, call: Callable[..., None], *args: Any) -> None:
        """Call `call` with `args` at `due` ns."""
        self._count += 1
        heappush(self.pending, (due, order, self._count, call, args))

    def delay(self) -> float | None:
        """Return for how many s of the computer's clock nothing is due; None if nothing is."""
        if not self.pending or not self.started:
            return None
        return max(0.0, (self.pending[0][0] / self.speedup + self.zero - time.monotonic_ns()) / NS)

    def run_due(self) -> None:
        """Handle what is due by now, for about `_TURN` at most: what was sent then leaves."""
        pending, late, until_ns = self.pending, self.late, time.monotonic_ns() + _TURN
        until = int((time.monotonic_ns() - self.zero) * self.speedup)
        while pending and pending[0][0] <= until:
            due, order, _, call, args = heappop(pending)
            if due > self.now:
                self.now = due
            if order != ARRIVES:
                behind = (time.monotonic_ns() - self.zero) - due / self.speedup
                late[0] += 1
                late[1] += behind
                late[2] += behind * behind
                late[3] = max(late[3], behind)
            self._moment = -1
            call(*args)
            self.handled += 1
            if time.monotonic_ns() > until_ns:
                break

    # -- what policies use of an engine ---------------------------------------------------------------------

    def on(self, kind: str, handler: Handler, *, priority: int, phase: int = 0) -> None:
        """See `Engine.on`."""
        self.kinds[kind] = _POLICY + priority, handler

    def at(self, time: int, kind: str, item: int = 0) -> None:
        """See `Engine.at`; what is already past is due now."""
        priority, handler = self.kinds[kind]
        if time < NEVER:
            self.push(max(time, self.now), priority, handler, [item])

    def every(self, period: int, kind: str, *, first: int | None = None) -> None:
        """See `Engine.every`."""
        self.periods[kind] = period
        self.push(period if first is None else first, self.kinds[kind][0], self._again, kind)

    def _again(self, kind: str) -> None:
        priority, handler = self.kinds[kind]
        self.push(self.now + self.periods[kind], priority, self._again, kind)
        handler([0])

    def touch(self, kind: str, items: Any, *, time: int | None = None) -> None:
        """Do nothing: there are no waves at whose ends something could be done."""

    def at_wave_end(self, hook: Callable[[], None]) -> None:
        """Do nothing, see `touch`."""

    def add_source(self, source: Source) -> None:
        """Do nothing: what nodes do is due here."""

    def exhausted(self) -> bool:
        """Whether nothing is left to do."""
        return not self.pending
