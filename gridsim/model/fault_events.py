"""Fault events: the failures and recoveries ("changes") of each machine, from 0 to the end of the clock.

The recipes of `gridsim.model.faults` say where failures come from.  This module turns them into changes, each
with the time of the next change of the same machine.
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
LATEST = 8e9
#: The end of the clock: `LATEST` in ns.
END = round(LATEST * NS)
#: Largest number of changes made again to show a result: in all, or per machine if that allows more.
MOST_AGAIN, MOST_OF_EACH = 10_000_000, 200
#: A block, or a pass over its machines, counts as at least this many changes: it takes about as long.
_PASS = 100


class TooOften(ScenarioError):
    """Raised if machines fail and recover too often for the changes to be made just to show a result."""


#: A function that is called with a number of changes before they are made; it may raise `TooOften`.
Count = Callable[[int], None]


def uncounted(changes: int) -> None:
    """Accept any number of changes; used for a run, which its user asked for."""


def looking(nodes: int) -> Count:
    """Return a `Count` for showing a result of `nodes` machines whose scenario the reader did not choose.

    The function raises TooOften after `MOST_AGAIN` changes, or `MOST_OF_EACH` per machine if that is more.
    """
    left = most = max(MOST_AGAIN, MOST_OF_EACH * nodes)

    def count(changes: int) -> None:
        nonlocal left
        left -= max(changes, _PASS)
        if left < 0:
            raise TooOften(f"faults must make at most {most} changes for who looks at a result, got more")

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
        int64[k], ns, when the state that begins with the change ends.  For a failure it is the time of
        recovery (equal to `time` if transient); for a recovery, the time of the next failure.  It is NEVER if
        the state does not end.
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
    def none(cls) -> Events:
        """Return an object without changes."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros(0, np.bool_), nothing)

    def in_order(self) -> Events:
        """Return the same changes, sorted."""
        return self[np.lexsort((self.up, self.machine, self.time))]


@dataclass(frozen=True)
class Course:
    """The failures and recoveries of n machines, each of which is up until its first change.

    Parameters
    ----------
    first
        int64[n], ns, the first failure of each machine: 0 if it is down from the beginning, NEVER if it never
        fails.
    blocks
        Changes in blocks; those of one instant are in the same block.  They may go on until the end of the
        clock, and the iterator can be used once.
    """

    first: Integers
    blocks: Iterator[Events]


def nanoseconds(seconds: Floats, latest: float = LATEST) -> Integers:
    """Return `seconds` as int64 ns; times later than `latest` (s) become `latest`."""
    result: Integers = np.rint(np.minimum(seconds, latest) * NS).astype(np.int64)
    return result


def _later(at: Any, span: Any) -> Integers:
    """Return `at` + `span`, or `END` if that is earlier (ns)."""
    result: Integers = at + np.minimum(span, END - at)
    return result


def _or_never(time: Integers) -> Integers:
    """Return `time` with NEVER in place of times at `END` or later."""
    return np.where(time < END, time, NEVER)


# -- times that are drawn -------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], Floats]


def drawn(seed: int, nodes: int, draw_up: Draw, draw_down: Draw, mean: float, count: Count) -> Course:
    """Return the changes of machines that are up and down in turn, for times (s) drawn independently.

    Parameters
    ----------
    mean
        About how long a machine is up, s.  All machines begin an up time at 0.
    """
    up_time, down_time = Streams(seed)("faults.up"), Streams(seed)("faults.down")

    def lasting(draw: Draw, chance: np.random.Generator, count: int) -> Integers:
        return nanoseconds(draw(chance, count))

    def up(count: int) -> Integers:
        # a machine is up for at least a nanosecond, as otherwise time would stand still
        return np.maximum(lasting(draw_up, up_time, count), 1)

    def down(count: int) -> Integers:
        return lasting(draw_down, down_time, count)

    # Blocks of about 65536 failures, but only some of each machine, as the first block must be made before
    # anything can happen.  The draws depend on where blocks are cut: each round of a block takes the machines
    # in order.
    block = max(1, int(min(min(65536.0 / nodes, 2048.0) * mean, LATEST) * NS))
    with np.errstate(over="ignore"):
        fails = up(nodes)
    return Course(_or_never(fails), _drawn_blocks(fails, up, down, block, count))


def _drawn_blocks(
    fails: Integers, up: Callable[[int], Integers], down: Callable[[int], Integers], block: int, count: Count
) -> Iterator[Events]:
    """Yield blocks of `block` ns.

    Parameters
    ----------
    fails
        int64[nodes], ns, the first failure of each machine; one at the end of the clock does not happen.
    """
    until = 0
    late = Events.none()
    while until < END:
        # empty blocks are skipped: there may be millions before a machine recovers
        soonest = min(int(fails.min()), *late.time[:1].tolist(), END)
        until = min(until + block * (1 + (soonest - until) // block), END)
        count(0)
        # of each round: who fails when, is back when, and fails again when
        rounds: list[tuple[Integers, Integers, Integers, Integers]] = []
        with np.errstate(over="ignore"):  # infinite times lie beyond the end of the clock
            while len(due := (fails < until).nonzero()[0]):
                count(2 * len(due))
                gone = fails[due]
                back = _later(gone, down(len(due)))
                again = fails[due] = _later(back, up(len(due)))
                rounds.append((gone, due, back, again))
        whole_block = _joined([late, *_turns(rounds)]).in_order()
        cut = int(np.searchsorted(whole_block.time, until))
        late = whole_block[cut:]
        yield whole_block[:cut]


def _turns(rounds: list[tuple[Integers, Integers, Integers, Integers]]) -> Iterator[Events]:
    """Return the failures and the recoveries of these rounds: in few rows each, but thousands of rounds."""
    if rounds:
        gone, machine, back, again = (np.concatenate(column) for column in zip(*rounds, strict=True))
        yield Events(gone, machine, np.zeros(len(gone), np.bool_), _or_never(back))
        yield Events(back, machine, np.ones(len(back), np.bool_), _or_never(again))


def _joined(pieces: list[Events]) -> Events:
    time, machine, up, until = zip(*((p.time, p.machine, p.up, p.until) for p in pieces), strict=True)
    return Events(np.concatenate(time), np.concatenate(machine), np.concatenate(up), np.concatenate(until))


# -- times that come in pieces --------------------------------------------------------------------------

#: Changes in any order: time (ns), machine, up; and a time (ns) before which no later piece has any change.
Piece = tuple[Integers, Integers, NDArray[np.bool_], int]


def streamed(nodes: int, pieces: Iterator[Piece]) -> Course:
    """Return changes made piece by piece, for longer than the clock lasts; those up to 0 are dropped.

    Each machine goes down and up in turn.  Each piece has changes of all machines; the first has some of each
    after 0.  The changes of a machine in a piece are later than all of them in the piece before.
    """
    time, machine, up, edge = next(pieces)
    later = time > 0
    events = _chained(time[later], machine[later], up[later])
    # a machine whose first change is a recovery is down from the beginning
    first = _first(events, nodes)
    absent = events.machine[events.up & (events.time == first[events.machine])]
    events = _chained(
        np.r_[np.zeros(len(absent), np.int64), events.time],
        np.r_[absent, events.machine],
        np.r_[np.zeros(len(absent), np.bool_), events.up],
    )
    return Course(_first(events, nodes), _streamed_blocks(nodes, events, edge, pieces))


def _streamed_blocks(nodes: int, events: Events, edge: int, pieces: Iterator[Piece]) -> Iterator[Events]:
    """Yield the pieces as blocks.  Changes beyond the edge of a piece go to the next block.

    The next piece must be read first: it tells when the state after each machine's last change ends.
    """
    late = Events.none()
    while True:
        time, machine, up, next_edge = next(pieces)
        following = _chained(time, machine, up)
        until = np.where(events.until == NEVER, _first(following, nodes)[events.machine], events.until)
        known = Events(events.time, events.machine, events.up, _or_never(until))
        block = _joined([late, known]).in_order()
        cut = int(np.searchsorted(block.time, min(edge, END)))
        yield block[:cut]
        if edge >= END:
            return
        late, events, edge = block[cut:], following, next_edge


# -- times that are given -------------------------------------------------------------------------------


def given(nodes: int, time: Any, machine: Any, up: Any) -> Course:
    """Return exactly the given changes, which may be in any order.

    Parameters
    ----------
    time
        ns.
    machine
        index.
    up
        bool.  Each machine goes down and up in turn, beginning with down.
    """
    events = _chained(time, machine, up)
    return Course(_first(events, nodes), iter((events,)))


def repeated(nodes: int, time: Any, machine: Any, up: Any, span: int, count: Count) -> Course:
    """Return the given changes, all earlier than `span` ns, repeated every `span` ns; else as `given`.

    Each round begins with the same machines up as the first.
    """
    span = min(span, END)
    once = _chained(time, machine, up)
    down_at_first = np.zeros(nodes, np.bool_)
    down_at_first[once.machine[(once.time == 0) & ~once.up]] = True
    up_at_last = np.ones(nodes, np.bool_)
    up_at_last[once.machine] = once.up  # the last assignment holds
    # a machine that ends a round in another state than it begins the next changes where they meet
    change = np.flatnonzero(down_at_first == up_at_last)
    later = once[np.flatnonzero(once.time > 0)]
    turn = _chained(
        np.r_[np.zeros(len(change), np.int64), later.time],
        np.r_[change, later.machine],
        np.r_[~down_at_first[change], later.up],
    )
    return Course(_first(once, nodes), _rounds(once, turn, span, _later(_first(turn, nodes), span), count))


def _rounds(once: Events, turn: Events, span: int, ahead: Integers, count: Count) -> Iterator[Events]:
    """Yield `once`, the first round, then `turn` again and again.

    Parameters
    ----------
    ahead
        int64[nodes], ns from the beginning of a round to each machine's first change in the next round.
    """
    for start in range(0, END, span) if len(turn) else (0,):
        events = turn if start else once
        count(len(events))
        until = np.where(events.until == NEVER, ahead[events.machine], events.until)
        block = Events(_later(start, events.time), events.machine, events.up, _or_never(_later(start, until)))
        yield block[: int(np.searchsorted(block.time, END))]


def _chained(time: Any, machine: Any, up: Any) -> Events:
    """Return the changes in order, each `until` the next change of its machine; NEVER for the last."""
    last = np.full(len(time), NEVER, np.int64)
    events = Events(
        np.asarray(time, np.int64), np.asarray(machine, np.int64), np.asarray(up, np.bool_), last
    ).in_order()
    rows = np.argsort(events.machine, kind="stable")
    same = np.flatnonzero(np.diff(events.machine[rows]) == 0)
    events.until[rows[same]] = events.time[rows[same + 1]]
    return events


def _first(events: Events, nodes: int) -> Integers:
    """Return the time of each machine's first change, int64[nodes], ns; NEVER if it has none."""
    first = np.full(nodes, NEVER, np.int64)
    np.minimum.at(first, events.machine, events.time)
    return first


def outages(course: Course, until: float) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield each machine that fails, when it fails and when it recovers (arrays, s; inf for never).

    Parameters
    ----------
    until
        s; outages that begin later may be left out.
    """
    downs: dict[int, list[int]] = {}
    ups: dict[int, list[int]] = {}
    until_ns = int(until * NS) + 1
    for block in course.blocks:
        near = int(np.searchsorted(block.time, until_ns, side="right"))
        rows = (each[:near].tolist() for each in (block.time, block.machine, block.up))
        for at, machine, up in zip(*rows, strict=True):
            (ups if up else downs).setdefault(machine, []).append(at)
        if near < len(block):
            break
    for machine in sorted(downs):
        back: list[float] = [at / NS for at in ups.get(machine, [])]
        away = np.array(downs[machine]) / NS
        yield machine, away, np.array(back[: len(away)] + [np.inf] * (len(away) - len(back)))
