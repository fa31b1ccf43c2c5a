"""Courses: what happens to each machine, change by change, from 0 to the end of the clock.

The recipes of `gridsim.model.faults` say where failures come from; here they become changes, each with the
time of its machine's next.
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

#: No change lies later than this (s): the clock counts int64 nanoseconds.
LATEST = 8e9
#: The same in ns.
END = round(LATEST * NS)
#: Changes that are made for who looks at a result, at most: in all, or of each machine if that is more.
MOST_AGAIN, MOST_OF_EACH = 10_000_000, 200
#: As many changes as a block, or a pass over the machines of one, counts at least: it takes about as long.
_PASS = 100


class TooOften(ScenarioError):
    """Machines fail and come back more often than who looks at a result waits for."""


#: Is told of changes before they are made.
Count = Callable[[int], None]


def uncounted(changes: int) -> None:
    """For a run, which somebody wanted: it meets as many changes as there are."""


def looking(nodes: int) -> Count:
    """For who looks at a result, and has not chosen what its scenario makes of `nodes` machines.

    Raises TooOften after `MOST_AGAIN` changes, or `MOST_OF_EACH` a machine.
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
    """Changes in order of time, machine, and down before up.

    time : int64[k], ns; machine : int64[k]; up : bool[k], whether it comes back or fails.
    until : int64[k], ns, when the state that begins so ends.  For who fails, when it is back (at `time`, if
        it is reset); for who is back, when it fails next.  NEVER if it does not end.
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
        """No changes."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros(0, np.bool_), nothing)

    def in_order(self) -> Events:
        """The same, sorted."""
        return self[np.lexsort((self.up, self.machine, self.time))]


@dataclass(frozen=True)
class Course:
    """What happens to n machines, all of which are up until their first change.

    first : int64[n], ns, when each fails first: 0 if it is down from the beginning, NEVER if it never fails.
    blocks : changes, an instant in one block; they may go on for as long as the clock, and can be had once.
    """

    first: Integers
    blocks: Iterator[Events]


def nanoseconds(seconds: Floats, latest: float = LATEST) -> Integers:
    """int64, what is later than `latest` (s) as that."""
    result: Integers = np.rint(np.minimum(seconds, latest) * NS).astype(np.int64)
    return result


def _later(at: Any, span: Any) -> Integers:
    """`at` + `span`, or the end if that is earlier."""
    result: Integers = at + np.minimum(span, END - at)
    return result


def _or_never(time: Integers) -> Integers:
    """What would be at the end is never."""
    return np.where(time < END, time, NEVER)


# -- times that are drawn -------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], Floats]


def drawn(seed: int, nodes: int, draw_up: Draw, draw_down: Draw, mean: float, count: Count) -> Course:
    """Each machine is up and down in turn, for times (s) drawn independently; all are up and new at 0.

    mean : about how long a machine is up, s.
    """
    up_time, down_time = Streams(seed)("faults.up"), Streams(seed)("faults.down")

    def lasting(draw: Draw, chance: np.random.Generator, count: int) -> Integers:
        with np.errstate(over="ignore"):  # what comes out infinite is later than the clock
            return nanoseconds(draw(chance, count))

    def up(count: int) -> Integers:
        # a machine is up for at least a nanosecond, or nothing would ever happen after
        return lasting(draw_up, up_time, count).clip(1)

    def down(count: int) -> Integers:
        return lasting(draw_down, down_time, count)

    # Blocks of about 65536 failures, but of few a machine, as the first must be there before anything can
    # happen.  The draws depend on where they are cut: each round of a block takes the machines in order.
    block = max(1, int(min(min(65536.0 / nodes, 2048.0) * mean, LATEST) * NS))
    fails = up(nodes)
    return Course(_or_never(fails), _drawn_blocks(fails, up, down, block, count))


def _drawn_blocks(
    fails: Integers, up: Callable[[int], Integers], down: Callable[[int], Integers], block: int, count: Count
) -> Iterator[Events]:
    """Blocks of `block` ns.

    fails : int64[nodes], ns, when each fails first; who would at the end of the clock does not.
    """
    until = 0
    late = Events.none()
    while until < END:
        # blocks in which nothing happens are passed over: there may be millions before a machine is back
        soonest = min(int(fails.min()), *late.time[:1].tolist(), END)
        until = min(until + block * (1 + (soonest - until) // block), END)
        pieces = [late]
        count(0)
        while len(due := np.flatnonzero(fails < until)):
            count(2 * len(due))
            gone = fails[due]
            back = _later(gone, down(len(due)))
            again = fails[due] = _later(back, up(len(due)))
            pieces.append(Events(gone, due, np.zeros(len(due), np.bool_), _or_never(back)))
            pieces.append(Events(back, due, np.ones(len(due), np.bool_), _or_never(again)))
        whole_block = _joined(pieces).in_order()
        cut = int(np.searchsorted(whole_block.time, until))
        late = whole_block[cut:]
        yield whole_block[:cut]


def _joined(pieces: list[Events]) -> Events:
    time, machine, up, until = zip(*((p.time, p.machine, p.up, p.until) for p in pieces), strict=True)
    return Events(np.concatenate(time), np.concatenate(machine), np.concatenate(up), np.concatenate(until))


# -- times that come in pieces --------------------------------------------------------------------------

#: Changes, in any order: time (ns), machine, up; and the time before which no later piece has any (ns).
Piece = tuple[Integers, Integers, NDArray[np.bool_], int]


def streamed(nodes: int, pieces: Iterator[Piece]) -> Course:
    """Changes that come piece by piece, for longer than the clock lasts; what lies before 0 is over.

    Each machine goes down and up in turn.  Each piece has changes of all machines, the first some after 0;
    those of one machine are later than those of the piece before.
    """
    time, machine, up, edge = next(pieces)
    later = time > 0
    events = _chained(time[later], machine[later], up[later])
    # whose first change is to come back is down from the beginning
    first = _first(events, nodes)
    absent = events.machine[events.up & (events.time == first[events.machine])]
    events = _chained(
        np.r_[np.zeros(len(absent), np.int64), events.time],
        np.r_[absent, events.machine],
        np.r_[np.zeros(len(absent), np.bool_), events.up],
    )
    return Course(_first(events, nodes), _streamed_blocks(nodes, events, edge, pieces))


def _streamed_blocks(nodes: int, events: Events, edge: int, pieces: Iterator[Piece]) -> Iterator[Events]:
    """Blocks; in each, what was late in the piece before.  Machines' last changes wait for the next piece."""
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
    """These changes, in any order, and no others.

    time : ns; machine; up : bool.  Each machine goes down and up in turn, beginning with down.
    """
    events = _chained(time, machine, up)
    return Course(_first(events, nodes), iter((events,)))


def repeated(nodes: int, time: Any, machine: Any, up: Any, span: int, count: Count) -> Course:
    """These changes, as in `given`, and again every `span` ns; all of them are earlier than that.

    Each round begins with who was up at the beginning of the first.
    """
    span = min(span, END)
    once = _chained(time, machine, up)
    down_at_first = np.zeros(nodes, np.bool_)
    down_at_first[once.machine[(once.time == 0) & ~once.up]] = True
    up_at_last = np.ones(nodes, np.bool_)
    up_at_last[once.machine] = once.up  # the last assignment holds
    # who does not end a round as he begins the next changes where they meet
    change = np.flatnonzero(down_at_first == up_at_last)
    later = once[np.flatnonzero(once.time > 0)]
    turn = _chained(
        np.r_[np.zeros(len(change), np.int64), later.time],
        np.r_[change, later.machine],
        np.r_[~down_at_first[change], later.up],
    )
    return Course(_first(once, nodes), _rounds(once, turn, span, _later(_first(turn, nodes), span), count))


def _rounds(once: Events, turn: Events, span: int, ahead: Integers, count: Count) -> Iterator[Events]:
    """`once`, and `turn` again and again.

    ahead : int64[nodes], ns from the beginning of a round to each machine's first change in the next.
    """
    for start in range(0, END, span) if len(turn) else (0,):
        events = turn if start else once
        count(len(events))
        until = np.where(events.until == NEVER, ahead[events.machine], events.until)
        block = Events(_later(start, events.time), events.machine, events.up, _or_never(_later(start, until)))
        yield block[: int(np.searchsorted(block.time, END))]


def _chained(time: Any, machine: Any, up: Any) -> Events:
    """Changes in order, each until the next one of its machine; NEVER for the last."""
    last = np.full(len(time), NEVER, np.int64)
    events = Events(
        np.asarray(time, np.int64), np.asarray(machine, np.int64), np.asarray(up, np.bool_), last
    ).in_order()
    rows = np.argsort(events.machine, kind="stable")
    same = np.flatnonzero(np.diff(events.machine[rows]) == 0)
    events.until[rows[same]] = events.time[rows[same + 1]]
    return events


def _first(events: Events, nodes: int) -> Integers:
    """int64[nodes], ns: when each changes first; NEVER for who does not."""
    first = np.full(nodes, NEVER, np.int64)
    np.minimum.at(first, events.machine, events.time)
    return first


def outages(course: Course, until: float) -> Iterator[tuple[int, Floats, Floats]]:
    """Machine by machine, when it goes down, and when it is up again (s; inf for never), of those that do.

    until : s; what begins later need not be told.
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
