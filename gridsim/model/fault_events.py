"""Fault events: the failures and recoveries ("changes") of each machine, from 0 to the end of the clock.

The recipes of `gridsim.model.faults` describe failures.  This module generates their changes, each with the
time of the next change of the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.random_streams import Streams

#: Latest time of a change (s): the clock counts int64 nanoseconds.
LATEST_CHANGE = 8e9
#: The end of the clock: `LATEST_CHANGE` in ns.
CLOCK_END = round(LATEST_CHANGE * NS)
#: Maximum number of changes that are generated to display a result: the larger of a total, and a number per
#: machine.
MAX_DISPLAYED, MAX_DISPLAYED_PER_MACHINE = 10_000_000, 200
#: A pass over a block counts as at least this many changes, since its overhead takes as long as they do.
_MIN_COUNT = 100


class TooManyChanges(ScenarioError):
    """Error about faults that have too many changes to be displayed with a result."""


#: Function that is called with a number of changes before they are generated; it may raise `TooManyChanges`.
ChangeCounter = Callable[[int], None]


def no_limit(changes: int) -> None:
    """Accept any number of changes, as a run does."""


def display_limit(nodes: int) -> ChangeCounter:
    """Return a counter that limits the changes generated to display a result of `nodes` machines.

    It raises TooManyChanges after `MAX_DISPLAYED` changes, or after `MAX_DISPLAYED_PER_MACHINE` per machine
    if that is more.  The scenario of a result is untrusted, and may have any number of changes.
    """
    limit = max(MAX_DISPLAYED, MAX_DISPLAYED_PER_MACHINE * nodes)
    remaining = limit

    def count(changes: int) -> None:
        nonlocal remaining
        remaining -= max(changes, _MIN_COUNT)
        if remaining < 0:
            raise TooManyChanges(f"faults must have at most {limit} changes to be displayed, got more")

    return count


@dataclass(frozen=True)
class Events:
    """Changes (failures and recoveries), sorted by time, then machine, then down before up.

    Parameters
    ----------
    time
        int64[k], ns.
    machine
        int64[k].
    up
        bool[k], true if the machine recovers, false if it fails.
    until
        int64[k], ns, the time of the next change of the machine.  For a failure it is the time of recovery
        (equal to `time` if transient); for a recovery, the time of the next failure.  It is NEVER if there is
        no further change.
    """

    time: Integers
    machine: Integers
    up: NDArray[np.bool_]
    until: Integers

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: slice | Integers) -> Events:
        return Events(self.time[rows], self.machine[rows], self.up[rows], self.until[rows])

    @classmethod
    def empty(cls) -> Events:
        """Return `Events` without any failure or recovery."""
        column = np.zeros(0, np.int64)
        return cls(column, column, np.zeros(0, np.bool_), column)

    def in_order(self) -> Events:
        """Return the changes, sorted."""
        return self[np.lexsort((self.up, self.machine, self.time))]


@dataclass(frozen=True)
class FaultEvents:
    """The failures and recoveries of n machines, each of which is up until its first change.

    Parameters
    ----------
    first
        int64[n], ns, the first failure of each machine: 0 if it is down from the beginning, NEVER if it never
        fails.
    blocks
        Changes in blocks; changes of one instant are in the same block.  Blocks may continue until the end of
        the clock.  The iterator can be used once.
    """

    first: Integers
    blocks: Iterator[Events]


def nanoseconds(seconds: Floats, latest: float = LATEST_CHANGE) -> Integers:
    """Return `seconds` as int64 ns; times later than `latest` (s) become `latest`."""
    result: Integers = np.rint(np.minimum(seconds, latest) * NS).astype(np.int64)
    return result


def _add_span(time: Any, span: Any) -> Integers:
    """Return `time` + `span` (ns), at most `CLOCK_END`."""
    result: Integers = time + np.minimum(span, CLOCK_END - time)
    return result


def _drop_after_end(time: Integers) -> Integers:
    """Return `time` with NEVER in place of times at `CLOCK_END` or later."""
    return np.where(time < CLOCK_END, time, NEVER)


# -- drawn times -------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], Floats]


def drawn_events(
    seed: int, nodes: int, draw_up: Draw, draw_down: Draw, mean: float, count: ChangeCounter
) -> FaultEvents:
    """Return the changes of machines whose alternating up and down times are drawn independently.

    All machines begin an up time at 0.

    Parameters
    ----------
    draw_up, draw_down
        Functions that draw up times and down times, s.
    mean
        Approximate mean up time of a machine, s; it sets the length of blocks.
    """
    up_stream, down_stream = Streams(seed)("faults.up"), Streams(seed)("faults.down")

    def up_times(count: int) -> Integers:
        # up times of 0 ns could cause endless failures at one instant
        return np.maximum(nanoseconds(draw_up(up_stream, count)), 1)

    def down_times(count: int) -> Integers:
        return nanoseconds(draw_down(down_stream, count))

    # Blocks have about 65536 failures, or fewer if that would be many per machine, since a run starts only
    # after the first block.  Draws depend on the length of blocks, since each round of a block draws machine
    # by machine.
    block_length = max(1, int(min(min(65536.0 / nodes, 2048.0) * mean, LATEST_CHANGE) * NS))
    with np.errstate(over="ignore"):
        failures = up_times(nodes)
    return FaultEvents(
        _drop_after_end(failures), _drawn_blocks(failures, up_times, down_times, block_length, count)
    )


def _drawn_blocks(
    failures: Integers,
    up_times: Callable[[int], Integers],
    down_times: Callable[[int], Integers],
    block_length: int,
    count: ChangeCounter,
) -> Iterator[Events]:
    """Yield blocks of `block_length` ns.

    Parameters
    ----------
    failures
        int64[nodes], ns, the first failure of each machine; a failure at the end of the clock is dropped.
    """
    block_end = 0
    remaining = Events.empty()  # recoveries after the end of the block
    while block_end < CLOCK_END:
        # empty blocks are skipped, since there may be millions before a machine recovers
        next_change = min(int(failures.min()), *remaining.time[:1].tolist(), CLOCK_END)
        blocks = 1 + (next_change - block_end) // block_length
        block_end = min(block_end + block_length * blocks, CLOCK_END)
        count(0)
        # per round: times of failure, machines, times of recovery, and times of the next failure
        rounds: list[tuple[Integers, Integers, Integers, Integers]] = []
        with np.errstate(over="ignore"):  # infinite times lie beyond the end of the clock
            while len(due := (failures < block_end).nonzero()[0]):
                count(2 * len(due))
                failure = failures[due]
                recovery = _add_span(failure, down_times(len(due)))
                next_failure = failures[due] = _add_span(recovery, up_times(len(due)))
                rounds.append((failure, due, recovery, next_failure))
        events = _concatenate([remaining, *_changes(rounds)]).in_order()
        cut = int(np.searchsorted(events.time, block_end))
        remaining = events[cut:]
        yield events[:cut]


def _changes(rounds: list[tuple[Integers, Integers, Integers, Integers]]) -> Iterator[Events]:
    """Yield all failures of the rounds, and then all recoveries."""
    if rounds:
        failure, machine, recovery, next_failure = map(np.concatenate, zip(*rounds, strict=True))
        yield Events(failure, machine, np.zeros(len(failure), np.bool_), _drop_after_end(recovery))
        yield Events(recovery, machine, np.ones(len(recovery), np.bool_), _drop_after_end(next_failure))


def _concatenate(pieces: list[Events]) -> Events:
    time, machine, up, until = zip(*((p.time, p.machine, p.up, p.until) for p in pieces), strict=True)
    return Events(np.concatenate(time), np.concatenate(machine), np.concatenate(up), np.concatenate(until))


# -- times in pieces ------------------------------------------------------------------------------------

#: Changes in any order (time in ns, machine, up), and a time (ns) before which later pieces have no change.
Piece = tuple[Integers, Integers, NDArray[np.bool_], int]


def events_of_pieces(nodes: int, pieces: Iterator[Piece]) -> FaultEvents:
    """Return changes that are generated piece by piece; changes up to time 0 are dropped.

    Parameters
    ----------
    pieces
        Pieces that continue beyond the end of the clock.  Each machine fails and recovers in turn.  A piece
        has changes of every machine, all later than its changes in the previous piece; in the first piece,
        every machine has a change after time 0.
    """
    time, machine, up, edge = next(pieces)
    later = time > 0
    events = _link(time[later], machine[later], up[later])
    # a machine whose first change is a recovery is down from the beginning
    first = _first_changes(events, nodes)
    down_at_0 = events.machine[events.up & (events.time == first[events.machine])]
    events = _link(
        np.r_[np.zeros(len(down_at_0), np.int64), events.time],
        np.r_[down_at_0, events.machine],
        np.r_[np.zeros(len(down_at_0), np.bool_), events.up],
    )
    return FaultEvents(_first_changes(events, nodes), _blocks_of_pieces(nodes, events, edge, pieces))


def _blocks_of_pieces(nodes: int, events: Events, edge: int, pieces: Iterator[Piece]) -> Iterator[Events]:
    """Yield a block per piece, up to its edge: the time before which later pieces have no change.

    A piece is yielded only after the next one has been read: the `until` of each machine's last change is the
    machine's first change in the next piece.
    """
    remaining = Events.empty()
    while True:
        time, machine, up, next_edge = next(pieces)
        next_events = _link(time, machine, up)
        until = np.where(
            events.until == NEVER, _first_changes(next_events, nodes)[events.machine], events.until
        )
        linked_events = Events(events.time, events.machine, events.up, _drop_after_end(until))
        block = _concatenate([remaining, linked_events]).in_order()
        cut = int(np.searchsorted(block.time, min(edge, CLOCK_END)))
        yield block[:cut]
        if edge >= CLOCK_END:
            return
        remaining, events, edge = block[cut:], next_events, next_edge


# -- listed times ---------------------------------------------------------------------------------------


def listed_events(nodes: int, time: Any, machine: Any, up: Any) -> FaultEvents:
    """Return listed changes, which may be in any order.

    Parameters
    ----------
    time
        Time of each change, ns.
    machine
        Machine of each change.
    up
        Whether the machine recovers.  Each machine fails and recovers in turn; its first change is a failure.
    """
    events = _link(time, machine, up)
    return FaultEvents(_first_changes(events, nodes), iter((events,)))


def periodic_events(
    nodes: int, time: Any, machine: Any, up: Any, span: int, count: ChangeCounter
) -> FaultEvents:
    """Return listed changes, all earlier than `span` ns, repeated every `span` ns.

    Each round begins with the same machines up as the first.  The changes are listed as in `listed_events`.
    """
    span = min(span, CLOCK_END)
    first_round = _link(time, machine, up)
    is_down_at_start = np.zeros(nodes, np.bool_)
    is_down_at_start[first_round.machine[(first_round.time == 0) & ~first_round.up]] = True
    is_up_at_end = np.ones(nodes, np.bool_)
    is_up_at_end[first_round.machine] = first_round.up  # later changes overwrite earlier ones
    # machines whose state at the end of a round differs from that at its beginning change between rounds
    change = np.flatnonzero(is_down_at_start == is_up_at_end)
    later = first_round[np.flatnonzero(first_round.time > 0)]
    next_round = _link(
        np.r_[np.zeros(len(change), np.int64), later.time],
        np.r_[change, later.machine],
        np.r_[~is_down_at_start[change], later.up],
    )
    next_change = _add_span(_first_changes(next_round, nodes), span)
    rounds = _rounds(first_round, next_round, span, next_change, count)
    return FaultEvents(_first_changes(first_round, nodes), rounds)


def _rounds(
    first_round: Events, next_round: Events, span: int, next_change: Integers, count: ChangeCounter
) -> Iterator[Events]:
    """Yield `first_round`, then `next_round` until the end of the clock, each shifted by its start.

    Parameters
    ----------
    next_change
        int64[nodes], time from the beginning of a round to each machine's first change in the next round, ns.
    """
    for start in range(0, CLOCK_END, span) if len(next_round) else (0,):
        events = next_round if start else first_round
        count(len(events))
        until = np.where(events.until == NEVER, next_change[events.machine], events.until)
        block = Events(
            _add_span(start, events.time),
            events.machine,
            events.up,
            _drop_after_end(_add_span(start, until)),
        )
        yield block[: int(np.searchsorted(block.time, CLOCK_END))]


def _link(time: Any, machine: Any, up: Any) -> Events:
    """Return sorted changes, each with the time of its machine's next change (NEVER for the last)."""
    last = np.full(len(time), NEVER, np.int64)
    events = Events(
        np.asarray(time, np.int64), np.asarray(machine, np.int64), np.asarray(up, np.bool_), last
    ).in_order()
    rows = np.argsort(events.machine, kind="stable")
    same_machine = np.flatnonzero(np.diff(events.machine[rows]) == 0)
    events.until[rows[same_machine]] = events.time[rows[same_machine + 1]]
    return events


def _first_changes(events: Events, nodes: int) -> Integers:
    """Return the time of each machine's first change, int64[nodes], ns; NEVER if it has none."""
    first = np.full(nodes, NEVER, np.int64)
    np.minimum.at(first, events.machine, events.time)
    return first


def outages(events: FaultEvents, until: float) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield each machine that fails, with its times of failure and recovery (arrays, s; inf for never).

    Parameters
    ----------
    until
        Outages that begin later than this time (s) may be omitted.
    """
    failed_at: dict[int, list[int]] = {}
    recovered_at: dict[int, list[int]] = {}
    until_ns = int(until * NS) + 1
    for block in events.blocks:
        stop = int(np.searchsorted(block.time, until_ns, side="right"))
        rows = (column[:stop].tolist() for column in (block.time, block.machine, block.up))
        for time, machine, up in zip(*rows, strict=True):
            (recovered_at if up else failed_at).setdefault(machine, []).append(time)
        if stop < len(block):
            break
    for machine in sorted(failed_at):
        recoveries: list[float] = [time / NS for time in recovered_at.get(machine, [])]
        failures = np.array(failed_at[machine]) / NS
        count = len(failures)
        yield machine, failures, np.array(recoveries[:count] + [np.inf] * (count - len(recoveries)))
