"""Time zones of machines, and faults of machines that the grid may use at night."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import ChangeCounter, FaultEvents, Piece, events_of_pieces, nanoseconds
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS
from gridsim.support.parameters import CheckedStruct, Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

HOUR = 3600 * NS
DAY = 24 * HOUR
#: Maximum number of time zones: one per minute of the day.
MAX_ZONES = 1440


class Zones(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time zones: machine u is in zone u mod `zones`; the local time of zone z is z * 24 / `zones` h ahead.

    At time 0 of the releases it is midnight in zone 0.

    Parameters
    ----------
    zones
        Number of time zones, 1..1440.
    night_begin
        Hour of local time at which night begins, from 0 to below 24.
    night_hours
        Length of the night, 1..23 h.
    """

    part: ClassVar[str] = "zones"

    zones: Annotated[int, Limits(low=1, high=MAX_ZONES)] = 24
    night_begin: Annotated[float, Limits(low=0, unit="h")] = 22.0
    night_hours: Annotated[float, Limits(low=1, high=23, unit="h")] = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.night_begin >= 24:
            raise ScenarioError(f"zones.night_begin must be below 24 h, got {self.night_begin!r}")

    def clock_offsets(self, machines: Any) -> Integers:
        """Return the differences of the local times of machines from the time of zone 0: int64, ns."""
        result: Integers = np.asarray(machines, np.int64) % self.zones * DAY // self.zones
        return result

    def shift_clock(self, origin: float) -> Zones:
        """Return the zones with times counted from `origin` s."""
        begin = (self.night_begin - origin % 86400.0 / 3600.0) % 24.0
        return self if begin == self.night_begin else msgspec.structs.replace(self, night_begin=begin)

    def night(self, machines: Any, time: Any) -> NDArray[np.bool_]:
        """Return a mask of the machines with night at `time`, ns (one for all, or one per machine).

        The instant at which night begins belongs to the night; the instant at which it ends does not.
        """
        result: NDArray[np.bool_] = self.night_left(machines, time) > 0
        return result

    def night_left(self, machines: Any, time: Any) -> Integers:
        """Return the time from `time` (ns) to the end of the night at the machines: int64, ns; 0 by day."""
        local_time = np.asarray(time, np.int64) % DAY + self.clock_offsets(machines)
        elapsed = (local_time - round(self.night_begin * HOUR)) % DAY
        result: Integers = np.maximum(round(self.night_hours * HOUR) - elapsed, 0)
        return result


class ZoneFaults(Recipe, frozen=True, kw_only=True, tag="zones"):
    """Machines that are up in the nights of their time zones, and in some spells of the day.

    At the beginning of the day the owner returns and the machine goes down.  Later the owner is away for
    spells, during which the machine is up.  Spells and the times between them are exponential.

    Parameters
    ----------
    seed
        Seed of three random streams: nights, spells, and times between spells.
    zones
        Number of time zones, and hours of the night.
    day_up
        Share of the day in which a machine is up, apart from the beginning of the day; 0 for machines
        that are never up by day.
    spell
        Mean length of a spell, s.
    spread
        Largest deviation of the beginning and the end of a night, s, drawn uniformly for each machine and
        day; at most a quarter of the shorter of night and day.
    reachable
        If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
        its memory and stays on the network.
    """

    part: ClassVar[str] = "faults"

    seed: Seed = DEFAULT_SEED
    zones: Zones = Zones()
    day_up: Annotated[float, Limits(low=0, high=0.99)] = 0.1
    spell: Annotated[float, Limits(low=1, unit="s")] = 1800.0
    spread: Annotated[float, Limits(low=0, unit="s")] = 1800.0
    reachable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.zones, Zones):
            raise ScenarioError(f"faults.zones must be Zones, got {self.zones!r}")
        limit = 900.0 * min(self.zones.night_hours, 24.0 - self.zones.night_hours)
        if self.spread > limit:
            raise ScenarioError(
                f"faults.spread must be at most a quarter of the shorter of night and day, {limit:g} s for "
                f"night_hours = {self.zones.night_hours:g}, got {self.spread!r}"
            )

    def shift_clock(self, origin: float) -> ZoneFaults:
        """Return the faults with times counted from `origin` s."""
        return msgspec.structs.replace(self, zones=self.zones.shift_clock(origin))

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        return events_of_pieces(nodes, self._days(nodes, count))

    def mean_up_time(self, nodes: int) -> float:
        """Return the expected up time of a day over its expected number of up times, s, for spread 0."""
        night = 3600.0 * self.zones.night_hours
        if not self.day_up:
            return night
        # during the day, a machine is a Markov chain with two states that begins in the state "down"
        day, rate = 86400.0 - night, 1 / self.spell + 1 / self._gap
        up_decay = -math.expm1(-rate * day)
        up = self.day_up * (day - up_decay / rate)
        spells = (day - up) / self._gap
        return (night + up) / (1 + spells - self.day_up * up_decay)

    @property
    def failure_rate(self) -> float:
        """Minimum mean number of failures of a machine per second: one at the end of each night."""
        return 1.0 / 86_400.0

    @property
    def _gap(self) -> float:
        """Mean time between two spells, s; defined only if there are spells (`day_up` > 0)."""
        return self.spell * (1 - self.day_up) / self.day_up

    def _days(self, nodes: int, count_changes: ChangeCounter) -> Iterator[Piece]:
        """Yield the changes of all machines in pieces of a few days, each from dawn to dusk."""
        streams = Streams(self.seed)
        nights, spells, gaps = (streams(f"faults.{name}") for name in ("nights", "spells", "gaps"))
        begin, night = round(self.zones.night_begin * HOUR), round(self.zones.night_hours * HOUR)
        machines = np.arange(nodes)
        offsets = self.zones.clock_offsets(machines)
        # about 65536 changes per piece, or fewer if that is many per machine; draws depend on the length of
        # pieces
        changes = 2.0 + (2 * 86400.0 / (self.spell + self._gap) if self.day_up else 0.0)
        count = max(4, int(min(65536.0 / nodes, 2048.0) / changes))
        first = -2  # early enough, so that each machine has an evening before time 0
        while True:
            day = np.arange(first, first + count)[:, None] * DAY + begin - offsets
            shift = nanoseconds(nights.uniform(0.0, 2 * self.spread, (2, count, nodes))) - round(
                self.spread * NS
            )
            dawn, dusk = (day + night + shift[0]).ravel(), (day + DAY + shift[1]).ravel()
            machine = np.tile(machines, count)
            pieces = [(dawn, machine, False)]
            count_changes(len(dawn))
            rows, times, up = np.arange(len(dawn)), dawn, False
            down_at_dusk = np.ones(len(dawn), np.bool_)
            while self.day_up and len(rows):
                draw, mean = (spells, self.spell) if up else (gaps, self._gap)
                count_changes(len(rows))
                # cut to a day, which always lasts beyond dusk; longer spells might overflow int64
                times = times + nanoseconds(draw.exponential(mean, len(rows))).clip(1, DAY)
                by_day = times < dusk[rows]
                rows, times, up = rows[by_day], times[by_day], not up
                down_at_dusk[rows] = not up
                pieces.append((times, machine[rows], up))
            pieces.append((dusk[down_at_dusk], machine[down_at_dusk], True))
            first += count
            yield (
                np.concatenate([time for time, _, _ in pieces]),
                np.concatenate([column for _, column, _ in pieces]),
                np.concatenate([np.full(len(time), state) for time, _, state in pieces]),
                int(first * DAY + begin + night - offsets.max() - round(self.spread * NS)),
            )


def rotate(begin: Integers, end: Integers, shift: int, span: int) -> tuple[Integers, Integers]:
    """Return up intervals of a round of `span` ns, rotated so that its first `shift` ns move to the end.

    An up interval at the end of the round is joined with an interval at its beginning.

    Parameters
    ----------
    begin, end
        Beginning and end of each interval, ns, sorted, disjoint.  Parts beyond the round are cut off.
    """
    end = np.minimum(end, span)
    nonempty = begin < end
    begin, end = begin[nonempty], end[nonempty]
    later, earlier, rest = end > shift, begin < shift, span - shift
    begin, end = (
        np.r_[begin[later].clip(shift) - shift, begin[earlier] + rest],
        np.r_[end[later] - shift, end[earlier].clip(max=shift) + rest],
    )
    disjoint = begin[1:] > end[:-1]
    return begin[np.r_[True, disjoint][: len(begin)]], end[np.r_[disjoint, True][: len(end)]]
