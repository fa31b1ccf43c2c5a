"""The event engine: a clock, a queue, and cohorts of rows.

**Cohorts.**  All events of one *kind* that are due at one instant form a cohort, which one handler call
handles.  The call must have the same effect as handling the rows one by one.  With
``Engine(cohort_limit=1)`` a call gets one row, and results must not change (an invariant that the tests
check).

**Order.**  Events have a total order: (time, phase, wave, priority of the kind, receiver, sequence).  An
instant has three phases: *deliveries*, then *acts* (every node that was touched acts once), then *timers*.
A delivery that is posted while its own instant is being handled belongs to the next wave.  The engine handles
it before anything else, so that no node acts before all messages have arrived.  Acts are a wave of their own,
and so are timers.  After each wave the hooks run: the network sends the messages that the wave's handlers
posted, in an order that does not depend on the division into cohorts.

**Time** is int64 nanoseconds, so that messages with equal delays arrive in one cohort.

**Plain data.**  Handlers are registered by the name of their kind; pending events are integers and arrays,
never closures.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Protocol

import numpy as np

from gridsim.engine.calendar_queue import Calendar
from gridsim.errors import SchedulerError
from gridsim.support.arrays import Rows
from gridsim.support.clock import NEVER, NS

DELIVERY, ACT, TIMER = 0, 1, 2

# The rank of an entry within its instant is an integer with the bits phase | wave | priority.
_PRIORITY_BITS, _WAVE_BITS = 12, 40
_PHASE_AT = _PRIORITY_BITS + _WAVE_BITS
_PRIORITIES = (1 << _PRIORITY_BITS) - 1
#: The maximum number of steps at one instant; a run with more is taken for an endless loop.
MAX_ROUNDS = 1_000_000
_ACT_AT, _TIMER_AT = ACT << _PHASE_AT, TIMER << _PHASE_AT

Handler = Callable[[Any], None]


class Source(Protocol):
    """A kernel that runs its own events between two instants at which Python must act."""

    def advance(self, limit: int) -> int:
        """Run the source's own events up to `limit` ns.

        Returns
        -------
        int
            The first instant <= `limit` that needs a handler of the engine, ns; NEVER if there is none.
        """

    def collect(self, engine: Engine, time: int) -> None:
        """Post the events that are due at `time` ns to the engine."""


class Engine:
    """Event loop that handles events of several kinds in a total order.

    Parameters
    ----------
    cohort_limit
        The maximum number of rows in one handler call; None for no limit, so that a call gets a whole cohort,
        all events of one kind and instant.
    """

    def __init__(self, *, cohort_limit: int | None = None) -> None:
        if cohort_limit is not None and cohort_limit < 1:
            raise ValueError(f"cohort_limit must be at least 1, got {cohort_limit}")
        self.now = 0
        self._rows_handled = 0
        # Number of rows after the first row of each call.  It is subtracted from the number of rows to obtain
        # the number of calls, so frequent calls with one row update only one counter.
        self._rows_beyond_first = 0
        self._limit = cohort_limit
        # Entries are (time, rank, item) for timers, and (time, rank, (sequence, rows)) for other events.
        # Timers of one kind and instant need no sequence, since they are handled in order of their items.
        self._queue = Calendar()
        self._sequence = 0
        self._rank: dict[str, int] = {}
        self._handlers: dict[int, Handler] = {}
        # Rank of each periodic kind (`every`) -> its period and next instant.
        self._periods: dict[int, tuple[int, int]] = {}
        # The last wave of `now` whose deliveries have begun.
        self._wave = -1
        self._stopped = False
        # True if the last run stopped within a wave, so that the hooks of this wave have not been called.
        self._is_wave_cut = False
        self._hooks: list[Callable[[], None]] = []
        self._sources: list[Source] = []

    @property
    def events(self) -> int:
        """The number of rows handled so far, plus the ``events`` that sources have handled themselves."""
        return self._rows_handled + sum(getattr(source, "events", 0) for source in self._sources)

    @property
    def calls(self) -> int:
        """The number of handler calls so far; a call handles one or more `events`."""
        return self.events - self._rows_beyond_first

    def is_exhausted(self) -> bool:
        """Return whether no event is pending.

        Sources that do not define ``is_exhausted`` run ahead to determine it, so this may only be called at
        the end of a run.
        """
        return not len(self._queue) and all(
            source.is_exhausted() if hasattr(source, "is_exhausted") else source.advance(NEVER) == NEVER
            for source in self._sources
        )

    @property
    def whole_cohorts(self) -> bool:
        """Whether handlers get whole cohorts; False if a limit cuts them into pieces."""
        return self._limit is None

    # -- registration ---------------------------------------------------------------------------------

    def on(self, kind: str, handler: Handler, *, priority: int, phase: int = DELIVERY) -> None:
        """Register `handler` for `kind`; within a phase and wave, lower priorities go first.

        A *delivery* handler gets a structured array sorted by its field ``node``, with rows of one node in
        the order of posting.  *Act* and *timer* handlers get a sorted list of integers; acts have each
        integer once.

        Raises
        ------
        ValueError
            If the kind, or its combination of phase and priority, is registered already.
        """
        if phase not in (DELIVERY, ACT, TIMER):
            raise ValueError(f"phase of {kind!r} must be DELIVERY, ACT or TIMER, got {phase}")
        if not 0 <= priority <= _PRIORITIES:
            raise ValueError(f"priority of {kind!r} must be in 0..{_PRIORITIES}, got {priority}")
        rank = phase << _PHASE_AT | priority
        if kind in self._rank:
            raise ValueError(f"kind {kind!r} is already registered")
        if rank in self._handlers:
            raise ValueError(f"priority of {kind!r} must be unique in phase {phase}, got {priority}")
        self._rank[kind] = rank
        self._handlers[rank] = handler

    def at_wave_end(self, hook: Callable[[], None]) -> None:
        """Call `hook` after every wave, before anything later is handled."""
        self._hooks.append(hook)

    def add_source(self, source: Source) -> None:
        """Add `source`, which runs its own events between those of the engine."""
        self._sources.append(source)

    # -- posting --------------------------------------------------------------------------------------

    def post(self, time: int, kind: str, rows: Rows) -> None:
        """Add `rows` (structured, with an integer field ``node``) to the delivery of `kind` at `time` ns."""
        if len(rows):
            rank = self._rank[kind]
            if time == self.now:
                rank |= (self._wave + 1) << _PRIORITY_BITS
            self._post(time, kind, rank, rows)

    def touch(self, kind: str, items: Iterable[int], *, time: int | None = None) -> None:
        """Schedule one act of each item at `time` ns (default: now), after all deliveries at that time."""
        items = items.tolist() if isinstance(items, np.ndarray) else list(items)
        if items:
            self._post(self.now if time is None else time, kind, self._rank[kind], items)

    def at(self, time: int, kind: str, item: int = 0) -> None:
        """Schedule timer `kind` with the integer `item` at `time` ns."""
        # This is `Calendar.add`, inlined because a call would take a tenth of the time of an event.  The
        # horizon is later than now, so only entries before the horizon can be in the past.
        queue = self._queue
        if time < queue.horizon:
            if time < self.now:
                raise self._past(time, kind)
            front = queue.front
            insort(front, (time, self._rank[kind], item))
            if len(front) > queue.front_limit:
                queue.spill()
        else:
            queue.add_to_page((time, self._rank[kind], item))

    def every(self, period: int, kind: str, *, first: int | None = None) -> None:
        """Schedule timer `kind` every `period` ns, first at `first` ns (default: one period from now).

        A further call for the same kind replaces its period.
        """
        if period <= 0:
            raise ValueError(f"period of {kind!r} must be positive, got {period} ns")
        rank, due = self._rank[kind], self.now + period if first is None else first
        self.at(due, kind)
        if rank in self._periods:
            self._queue.remove((self._periods[rank][1], rank, 0))
        self._periods[rank] = period, due

    def cancel(self, time: int, kind: str, item: int = 0) -> bool:
        """Cancel one timer; return False if it has fired or was cancelled already."""
        return self._queue.remove((time, self._rank[kind], item))

    def _post(self, time: int, kind: str, rank: int, content: Any) -> None:
        if time < self.now:
            raise self._past(time, kind)
        self._sequence += 1
        self._queue.add((time, rank, (self._sequence, content)))

    def _past(self, time: int, kind: str) -> SchedulerError:
        return SchedulerError(
            f"t = {self.now / NS} s: {kind!r} must be posted for this instant or later, got {time / NS} s"
        )

    # -- checkpoints ----------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the clock and all pending events as plain values and arrays.

        It may be called in a hook (see `at_wave_end`).  Timers are rows (time, rank, item).  Acts are rows
        (time, rank, sequence, number of items); the items of all acts are in one array, ``items``.
        Deliveries are (time, rank, sequence, rows).
        """
        timers, acts, items, deliveries = [], [], [], []
        for time, rank, content in sorted(self._queue, key=lambda entry: entry[:2]):
            if rank >= _TIMER_AT:
                timers.append((time, rank, content))
            elif rank >= _ACT_AT:
                acts.append((time, rank, content[0], len(content[1])))
                items += content[1]
            else:
                deliveries.append((time, rank, *content))
        return {
            "kinds": dict(self._rank),
            "now": self.now,
            "events": self._rows_handled,
            "together": self._rows_beyond_first,
            "sequence": self._sequence,
            "wave": self._wave,
            "periods": dict(self._periods),
            "timers": np.array(timers, np.int64).reshape(-1, 3),
            "acts": np.array(acts, np.int64).reshape(-1, 4),
            "items": np.array(items, np.int64),
            "deliveries": deliveries,
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` of an engine with the same kinds returned.

        Raises
        ------
        ValueError
            If the state is invalid, or comes from an engine with other kinds.
        """
        if state["kinds"] != self._rank:
            raise ValueError(
                f"state['kinds'] must be the kinds and ranks of the run, {self._rank}, got {state['kinds']}"
            )
        known = set(self._rank.values())
        for name, width in (("timers", 3), ("acts", 4), ("items", None)):
            rows = state[name]
            shape = (len(rows), width) if width else (len(rows),)
            if rows.dtype != np.int64 or rows.shape != shape:
                raise ValueError(f"state[{name!r}] must be int64{list(shape)}, got {rows.dtype}{rows.shape}")
            if not width:
                continue
            if (rows[:, 0] < state["now"]).any() or not known.issuperset(rows[:, 1].tolist()):
                raise ValueError(
                    f"state[{name!r}] must have times >= {state['now']} ns and ranks of kinds of the run, "
                    f"got times {rows[:, 0].tolist()} and ranks {rows[:, 1].tolist()}"
                )
        if int(state["acts"][:, 3].sum()) != len(state["items"]) or (state["acts"][:, 3] < 1).any():
            raise ValueError(
                f"state['items'] must have as many entries as state['acts'] counts, got {len(state['items'])}"
            )
        for rank, (period, _) in state["periods"].items():
            if rank not in known or not 0 < period < NEVER:
                raise ValueError(
                    f"state['periods'] must have known ranks and periods > 0, got {period} ns for rank {rank}"
                )
        self.now, self._rows_handled, self._rows_beyond_first = (
            state["now"],
            state["events"],
            state["together"],
        )
        self._sequence, self._wave, self._periods = state["sequence"], state["wave"], state["periods"]
        self._queue = queue = Calendar()
        items, start = state["items"].tolist(), 0
        for time, rank, sequence, count in state["acts"].tolist():
            queue.add((time, rank, (sequence, items[start : start + count])))
            start += count
        for time, rank, sequence, rows in state["deliveries"]:
            queue.add((time, rank, (sequence, rows)))
        for entry in state["timers"].tolist():
            queue.add(tuple(entry))

    # -- running --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` after the current handler call; outside `run`, end the next `run` at once."""
        self._stopped = True

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called, so that `run` or `leave` is about to end."""
        return self._stopped

    def leave(self) -> None:
        """Call the hooks of the wave that `stop` interrupted, if `run` will not be called again.

        They send the messages of the handlers that were called; other events of the wave stay pending.
        """
        if self._is_wave_cut:
            self._is_wave_cut, self._stopped = False, True
            for hook in self._hooks:
                hook()
            self._stopped = False

    def run(self, until: int = NEVER) -> bool:
        """Handle all events that are due up to and including `until` ns, or until `stop` is called.

        Returns
        -------
        bool
            Whether `stop` ended the run.
        """
        queue, handlers, periods = self._queue, self._handlers, self._periods
        front, sources, hooks = queue.front, self._sources, self._hooks
        instant, rounds, rank = -1, 0, 0
        self._is_wave_cut = False
        while not self._stopped:
            rounds += 1
            if self.now != instant:
                instant, rounds = self.now, 0
            elif rounds > MAX_ROUNDS:
                rank &= ~(((1 << _WAVE_BITS) - 1) << _PRIORITY_BITS)  # without the wave
                kind = next((kind for kind, number in self._rank.items() if number == rank), "")
                raise SchedulerError(
                    f"t = {self.now / NS} s: the clock has not advanced in {MAX_ROUNDS} handler calls, and "
                    f"further events are due at this instant, the last of kind {kind!r}; check for handlers "
                    "that send messages or set timers without delay"
                )
            if sources and self._poll(until):
                continue
            if not front and not queue.fill_front():
                break
            time, rank, content = front[0]
            if time > until:
                break
            if time != self.now:
                self.now = time
                self._wave = -1
            # The calendar never splits an instant, so all entries of this instant are in `front`.
            if len(front) > 1 and front[1][1] == rank and front[1][0] == time:
                end = bisect_left(front, (time, rank + 1))
                cohort = [entry[2] for entry in front[:end]]
                del front[:end]
            else:
                cohort = [content]
                del front[0]
            if rank >= _TIMER_AT:
                try:
                    if len(cohort) == 1:
                        # A fast path without `_call`, since a single timer is the most frequent case.
                        self._rows_handled += 1
                        handlers[rank](cohort)
                    else:
                        self._call(cohort, handlers[rank])
                finally:  # a `Bench` continues after an error
                    if rank in periods and periods[rank][1] == time:
                        period = periods[rank][0]
                        periods[rank] = period, time + period
                        queue.add((time + period, rank, 0))
            elif rank >= _ACT_AT:
                items = set(chain.from_iterable(items for _, items in cohort))
                self._call(sorted(items), handlers[rank])
            else:
                self._wave = rank >> _PRIORITY_BITS
                self._call(_sorted_by_node([rows for _, rows in cohort]), handlers[rank & _PRIORITIES])
            if hooks:
                wave = rank >> _PRIORITY_BITS
                if not front or front[0][0] != time or front[0][1] >> _PRIORITY_BITS != wave:
                    for hook in hooks:
                        hook()
                elif self._stopped:
                    self._is_wave_cut = True
        stopped, self._stopped = self._stopped, False
        if not stopped and self.now < until < NEVER:
            self._start(until)
        return stopped

    def _start(self, time: int) -> None:
        self.now = time
        self._wave = -1

    def _poll(self, until: int) -> bool:
        """Run the sources up to the next pending instant; return whether one of them posted events."""
        limit = until
        if self._queue.front or self._queue.fill_front():
            limit = min(limit, self._queue.front[0][0])
        first = NEVER
        for source in self._sources:
            due = source.advance(limit)
            if due < first:
                first, chosen_source, limit = due, source, due
        if first == NEVER:
            return False
        if first != self.now:
            # No wave of this instant has begun, so the events of the source belong to its first wave.
            self._start(first)
        chosen_source.collect(self, first)
        return True

    def _call(self, cohort: Any, handler: Handler) -> None:
        count = len(cohort)
        limit = self._limit or count
        for i in range(0, count, limit):
            piece = cohort if limit >= count else cohort[i : i + limit]
            self._rows_handled += len(piece)
            self._rows_beyond_first += len(piece) - 1
            handler(piece)


def concatenate(pieces: list[Rows]) -> Rows:
    """Return the rows of all pieces, which have the same type, in order."""
    if len(pieces) == 1:
        return pieces[0]
    # Arrays are concatenated as bytes, since NumPy would otherwise determine the common type of each field.
    return np.concatenate([np.ascontiguousarray(rows).view(np.uint8) for rows in pieces]).view(
        pieces[0].dtype
    )


def _sorted_by_node(pieces: list[Rows]) -> Rows:
    rows = concatenate(pieces)
    if len(rows) > 1:
        node = rows["node"]
        if (node[1:] < node[:-1]).any():
            rows = rows[np.argsort(node, kind="stable")]
    return rows
