"""Time zones: when each machine has night, and faults of machines that the grid may use at night."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import Count, Course, Piece, nanoseconds, streamed
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS
from gridsim.support.parameters import CheckedStruct, Limits, Recipe, Seed
from gridsim.support.random_streams import Streams

HOUR = 3600 * NS
DAY = 24 * HOUR
#: Largest number of time zones: one per minute.
MOST_ZONES = 1440


class Zones(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machine u lies in time zone u mod `zones`; the clock of zone z is z * 24 / `zones` hours ahead.

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

    zones: Annotated[int, Limits(low=1, high=MOST_ZONES)] = 24
    night_begin: Annotated[float, Limits(low=0, unit="h")] = 22.0
    night_hours: Annotated[float, Limits(low=1, high=23, unit="h")] = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.night_begin >= 24:
            raise ScenarioError(f"zones.night_begin must be below 24 h, got {self.night_begin!r}")

    def ahead(self, machines: Any) -> Integers:
        """Return by how many ns the clocks of these machines are ahead of the clock of zone 0, int64."""
        result: Integers = np.asarray(machines, np.int64) % self.zones * DAY // self.zones
        return result

    def since(self, origin: float) -> Zones:
        """Return the zones as a clock sees them that begins `origin` s later."""
        begin = (self.night_begin - origin % 86400.0 / 3600.0) % 24.0
        return self if begin == self.night_begin else msgspec.structs.replace(self, night_begin=begin)

    def night(self, machines: Any, time: Any) -> NDArray[np.bool_]:
        """Return whether these machines have night at `time`, ns: one time for all, or one per machine.

        The instant at which night begins belongs to the night; the instant at which it ends does not.
        """
        result: NDArray[np.bool_] = self.night_left(machines, time) > 0
        return result

    def night_left(self, machines: Any, time: Any) -> Integers:
        """Return how much of the night is left for these machines at `time` (ns), int64 ns; 0 by day."""
        since = np.asarray(time, np.int64) % DAY + self.ahead(machines) - round(self.night_begin * HOUR)
        result: Integers = np.maximum(round(self.night_hours * HOUR) - since % DAY, 0)
        return result


class ZoneFaults(Recipe, frozen=True, kw_only=True, tag="zones"):
    """Machines that are up at night and for spells of the day; see `gridsim.model.faults.Faults.zones`."""

    part: ClassVar[str] = "faults"

    seed: Seed
    zones: Zones = Zones()
    day_up: Annotated[float, Limits(low=0, high=0.99)] = 0.1
    spell: Annotated[float, Limits(low=1, unit="s")] = 1800.0
    spread: Annotated[float, Limits(low=0, unit="s")] = 1800.0
    reachable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.zones, Zones):
            raise ScenarioError(f"faults.zones must be Zones, got {self.zones!r}")
        most = 900.0 * min(self.zones.night_hours, 24.0 - self.zones.night_hours)
        if self.spread > most:
            raise ScenarioError(
                f"faults.spread must be at most a quarter of the night and of the day, {most:g} s with "
                f"night_hours = {self.zones.night_hours:g}, got {self.spread!r}"
            )

    def since(self, origin: float) -> ZoneFaults:
        """Return the faults as a clock sees them that begins `origin` s later."""
        return msgspec.structs.replace(self, zones=self.zones.since(origin))

    def course(self, nodes: int, count: Count) -> Course:
        return streamed(nodes, self._days(nodes, count))

    def mean_up_time(self, nodes: int) -> float:
        """Return a day's expected up time over its expected number of up times, with spread 0."""
        night = 3600.0 * self.zones.night_hours
        if not self.day_up:
            return night
        # by day a machine is a Markov chain with two states, which begins in the state down
        day, rate = 86400.0 - night, 1 / self.spell + 1 / self._gap
        settling = -math.expm1(-rate * day)
        up = self.day_up * (day - settling / rate)
        spells = (day - up) / self._gap
        return (night + up) / (1 + spells - self.day_up * settling)

    @property
    def _gap(self) -> float:
        """Mean time between two spells, s; defined only if there are spells (`day_up` > 0)."""
        return self.spell * (1 - self.day_up) / self.day_up

    def _days(self, nodes: int, tell: Count) -> Iterator[Piece]:
        """Yield pieces of a few days of each machine, from the end of a night to the beginning of another."""
        streams = Streams(self.seed)
        nights, spells, gaps = (streams(f"faults.{name}") for name in ("nights", "spells", "gaps"))
        begin, night = round(self.zones.night_begin * HOUR), round(self.zones.night_hours * HOUR)
        machines = np.arange(nodes)
        ahead = self.zones.ahead(machines)
        # about 65536 changes a piece, but only some of each machine; the draws depend on where pieces are cut
        changes = 2.0 + (2 * 86400.0 / (self.spell + self._gap) if self.day_up else 0.0)
        count = max(4, int(min(65536.0 / nodes, 2048.0) / changes))
        first = -2  # the first day, early enough for each machine to have an evening before time 0
        while True:
            day = np.arange(first, first + count)[:, None] * DAY + begin - ahead
            shift = nanoseconds(nights.uniform(0.0, 2 * self.spread, (2, count, nodes))) - round(
                self.spread * NS
            )
            dawn, dusk = (day + night + shift[0]).ravel(), (day + DAY + shift[1]).ravel()
            machine = np.tile(machines, count)
            pieces = [(dawn, machine, False)]
            tell(len(dawn))
            rows, at, up = np.arange(len(dawn)), dawn, False
            waking = np.ones(len(dawn), np.bool_)  # which machines are down at dusk
            while self.day_up and len(rows):
                draw, mean = (spells, self.spell) if up else (gaps, self._gap)
                tell(len(rows))
                # no day lasts longer than DAY
                at = at + nanoseconds(draw.exponential(mean, len(rows))).clip(1, DAY)
                soon = at < dusk[rows]
                rows, at, up = rows[soon], at[soon], not up
                waking[rows] = not up
                pieces.append((at, machine[rows], up))
            pieces.append((dusk[waking], machine[waking], True))
            first += count
            yield (
                np.concatenate([time for time, _, _ in pieces]),
                np.concatenate([who for _, who, _ in pieces]),
                np.concatenate([np.full(len(time), state) for time, _, state in pieces]),
                int(first * DAY + begin + night - ahead.max() - round(self.spread * NS)),
            )


def turned(begin: Integers, end: Integers, by: int, span: int) -> tuple[Integers, Integers]:
    """Return up intervals of a round of `span` ns turned by `by` ns: its first `by` ns move to the end.

    Parameters
    ----------
    begin, end
        ns, sorted, disjoint.  Parts beyond the round are cut off.  An up interval that ends where the round
        ends is joined with one that begins where it begins.
    """
    end = np.minimum(end, span)
    inside = begin < end
    begin, end = begin[inside], end[inside]
    late, early, rest = end > by, begin < by, span - by
    begin, end = (
        np.r_[begin[late].clip(by) - by, begin[early] + rest],
        np.r_[end[late] - by, end[early].clip(max=by) + rest],
    )
    apart = begin[1:] > end[:-1]
    return begin[np.r_[True, apart][: len(begin)]], end[np.r_[apart, True][: len(end)]]
