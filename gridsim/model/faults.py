"""Faults: when machines fail and come back, made from a recipe as platforms and workloads are.

A machine is up or down.  A *reset* is a failure whose machine is back at once, with nothing in memory (the
fair tree paper's model); a machine that joins late is down from the beginning, one that leaves for good
goes down and stays.  What happens depends on the recipe alone, so that every scheduler of a comparison
meets the same failures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.fault_events import (
    END,
    LATEST,
    Count,
    Course,
    drawn,
    given,
    nanoseconds,
    repeated,
    uncounted,
)
from gridsim.model.time_zones import DAY, ZoneFaults, Zones, turned
from gridsim.support.arguments import real, sequence, text
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.parameters import Limits, Recipe, Seed, Text
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from gridsim.traces import AvailabilityTrace

# -- recipes --------------------------------------------------------------------------------------------


_Mean = Annotated[float, Limits(above=0, unit="s")]
_Shape = Annotated[float, Limits(above=0)]


class _Faults(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "faults"


class PoissonFaults(_Faults, frozen=True, kw_only=True, tag="poisson"):
    """Resets at a constant rate: one every `mean` s a machine, on average."""

    mean: _Mean
    seed: Seed

    def course(self, nodes: int, count: Count) -> Course:
        return drawn(
            self.seed,
            nodes,
            lambda chance, count: chance.exponential(self.mean, count),
            lambda chance, count: np.zeros(count),
            self.mean,
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        return self.mean


class ExponentialFaults(_Faults, frozen=True, kw_only=True, tag="exponential"):
    """Up for `up` s and down for `down` s on average, exponentially distributed."""

    up: _Mean
    down: Annotated[float, Limits(low=0, unit="s")]
    seed: Seed

    def course(self, nodes: int, count: Count) -> Course:
        return drawn(
            self.seed,
            nodes,
            lambda chance, count: chance.exponential(self.up, count),
            lambda chance, count: chance.exponential(self.down, count),
            self.up + self.down,
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        return self.up


class WeibullFaults(_Faults, frozen=True, kw_only=True, tag="weibull"):
    """Up and down times with Weibull distributions of these shapes and scales (s); shape 1 is exponential."""

    up_shape: _Shape
    up_scale: _Mean
    down_shape: _Shape
    down_scale: _Mean
    seed: Seed

    def course(self, nodes: int, count: Count) -> Course:
        return drawn(
            self.seed,
            nodes,
            lambda chance, count: self.up_scale * chance.weibull(self.up_shape, count),
            lambda chance, count: self.down_scale * chance.weibull(self.down_shape, count),
            self.up_scale * math.gamma(1 + 1 / min(max(self.up_shape, 0.01), 100.0)),
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        # smaller shapes have means beyond any clock, and soon beyond any float
        return self.up_scale * math.gamma(1 + 1 / self.up_shape) if self.up_shape > 0.01 else math.inf


class TraceFaults(_Faults, frozen=True, kw_only=True, tag="trace"):
    """Ups and downs of real hosts; the meaning of each field is told by `Faults.trace`."""

    path: Text
    seed: Seed
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    repeat: bool = True
    never_up: bool = False
    zones: Zones | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.zones, Zones | None):
            raise ScenarioError(f"faults.zones must be Zones or None, got {self.zones!r}")
        if self.zones is not None and not self.repeat:
            raise ScenarioError("faults.repeat must be true where a trace has zones, got False")

    def course(self, nodes: int, count: Count) -> Course:
        trace = self._read()
        known = np.flatnonzero((np.diff(trace.offsets) > 0) | self.never_up)
        if nodes > len(known):
            ever = "" if self.never_up else " that were ever up"
            raise ScenarioError(
                f"faults.path must have {nodes} hosts{ever}, one a machine; {self.path} has {len(known)}"
            )
        hosts = Streams(self.seed)("faults.hosts").choice(known, size=nodes, replace=False)
        span = round((trace.horizon - self.start) * NS)
        ahead, latest = None, LATEST
        if self.zones is not None:
            span -= span % DAY  # hours stay what they are from one round to the next
            if not span:
                raise ScenarioError(
                    "faults.start must lie a day before the end of a trace with zones, "
                    f"{trace.horizon:g} s, got {self.start!r}"
                )
            # what is turned to the end of a longer one lies beyond the clock, and so may the end be
            span = min(span, (END // DAY + 2) * DAY)
            ahead, latest = self.zones.ahead(np.arange(nodes)).tolist(), span / NS
        time, machine, up = [], [], []
        for u, host in enumerate(hosts.tolist()):
            begin, end = (
                nanoseconds(np.maximum(0.0, at - self.start), latest) for at in trace.intervals(host)
            )
            inside = end > begin  # nobody is up for less than a nanosecond
            begin, end = begin[inside], end[inside]
            if ahead is not None:
                begin, end = turned(begin, end, ahead[u] % span, span)
                begin, end = begin[begin < END], end[begin < END]
            if not len(begin) or begin[0] > 0:
                time.append(0)
                machine.append(u)
                up.append(False)
            else:
                begin = begin[1:]
            # who is up when the trace ends stays up
            end = end[end < min(span, END)]
            time += [*begin.tolist(), *end.tolist()]
            machine += [u] * (len(begin) + len(end))
            up += [True] * len(begin) + [False] * len(end)
        if not self.repeat:
            return given(nodes, time, machine, up)
        return repeated(nodes, time, machine, up, span, count)

    def mean_up_time(self, nodes: int) -> float:
        trace = self._read()
        lasts = trace.end - np.maximum(trace.start, self.start)
        lasts = lasts[lasts > 0]
        return float(lasts.mean()) if len(lasts) else math.inf

    def _read(self) -> AvailabilityTrace:
        from gridsim.traces import read_availability

        trace = read_availability(self.path)
        if self.start >= trace.horizon:
            raise ScenarioError(
                f"faults.start must lie before the end of the trace, {trace.horizon:g} s, got {self.start!r}"
            )
        return trace


class ListedFaults(_Faults, frozen=True, kw_only=True, tag="list"):
    """The failures themselves; the meaning of each field is told by `Faults.of`."""

    machine: tuple[Annotated[int, Limits(low=0)], ...]
    down: tuple[Annotated[float, Limits(low=0, unit="s")], ...]
    up: tuple[Annotated[float, Limits(low=0, unit="s", finite=False)], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        machine, down, up = self.machine, self.down, self.up
        lengths = {name: len(getattr(self, name)) for name in ("machine", "down", "up")}
        if len(set(lengths.values())) > 1:
            raise ScenarioError(f"faults.machine, .down and .up must be equally long, got {lengths}")
        for i, at in enumerate(up):
            real(f"faults.up[{i}]", at, low=down[i], unit="s", finite=False)
        last: dict[int, int] = {}  # by machine, the one before
        begin, end = (nanoseconds(np.array(times, np.float64)) for times in (down, up))
        for i in sorted(range(len(machine)), key=lambda i: (machine[i], down[i])):
            if down[i] > LATEST:
                raise ScenarioError(f"faults.down[{i}] must be at most {LATEST:g} s, got {down[i]!r}")
            if LATEST < up[i] < math.inf:
                raise ScenarioError(f"faults.up[{i}] must be at most {LATEST:g} s, or inf, got {up[i]!r}")
            before = last.get(machine[i])
            if before is not None and begin[i] <= end[before]:
                raise ScenarioError(
                    f"faults.down[{i}] must be a nanosecond or more after machine {machine[i]} is up again, "
                    f"at {up[before]:g} s, got {down[i]:g}"
                )
            last[machine[i]] = i

    def course(self, nodes: int, count: Count = uncounted) -> Course:
        for i, u in enumerate(self.machine):
            if u >= nodes:
                raise ScenarioError(f"faults.machine[{i}] must be in 0..{nodes - 1}, got {u}")
        back = [i for i, at in enumerate(self.up) if math.isfinite(at)]
        return given(
            nodes,
            nanoseconds(np.array([*self.down, *(self.up[i] for i in back)])),
            [*self.machine, *(self.machine[i] for i in back)],
            [False] * len(self.machine) + [True] * len(back),
        )

    def mean_up_time(self, nodes: int) -> float:
        course = self.course(nodes)
        begins, ends = [np.zeros(nodes, np.int64)], [course.first]
        for block in course.blocks:
            begins.append(block.time[block.up])
            ends.append(block.until[block.up])
        begin, end = np.concatenate(begins), np.concatenate(ends)
        ended = (begin < end) & (end < NEVER)
        return float((end - begin)[ended].mean()) / NS if ended.any() else math.inf


FaultsRecipe = PoissonFaults | ExponentialFaults | WeibullFaults | TraceFaults | ListedFaults | ZoneFaults


# -- the model ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faults:
    """When machines fail and come back.  Two are equal when their recipes are.

    recipe : how it was made; use the constructors below.
    """

    recipe: FaultsRecipe

    @classmethod
    def poisson(cls, mean: float, seed: int) -> Faults:
        """Each machine is reset once in `mean` s on average (the fair tree paper: 14,400 s).

        mean : s between two failures of a machine, on average.
        seed : of the draw.
        """
        return cls(PoissonFaults(mean=mean, seed=seed))

    @classmethod
    def exponential(cls, up: float, down: float, seed: int) -> Faults:
        """Up for `up` s, then down for `down` s, both exponential with these means.

        up : s, mean.
        down : s, mean; 0 for resets.
        seed : of the draw.
        """
        return cls(ExponentialFaults(up=up, down=down, seed=seed))

    @classmethod
    def weibull(
        cls, up_shape: float, up_scale: float, down_shape: float, down_scale: float, seed: int
    ) -> Faults:
        """Weibull up and down times (scales in s).

        up_shape : of the times up; 1 is exponential.
        up_scale : s, of the times up.
        down_shape : of the times down.
        down_scale : s, of the times down.
        seed : of the draw.
        """
        return cls(
            WeibullFaults(
                up_shape=up_shape, up_scale=up_scale, down_shape=down_shape, down_scale=down_scale, seed=seed
            )
        )

    @classmethod
    def trace(
        cls,
        path: str | os.PathLike[str],
        seed: int,
        start: float = 0.0,
        repeat: bool = True,
        never_up: bool = False,
        zones: Zones | None = None,
    ) -> Faults:
        """The ups and downs of hosts of an availability trace (.avt or FTA tab format).

        Each machine is one host, drawn without replacement.

        path : the trace.
        seed : of the draw of hosts.
        start : s of the trace at which the run begins.
        repeat : when the trace ends it begins again at `start`; else everybody stays as he is.
        never_up : draw among all hosts, of which some then never do anything, and not only among those that
            were ever up.
        zones : hosts of one place stand around the world: each machine is as far into the trace as its clock
            is ahead, and the trace is as many whole days as there are from `start`, which should be midnight
            there.  It must repeat.

        Raises TraceFormatError for a bad trace, ScenarioError for one with too few hosts.
        """
        recipe = TraceFaults(
            path=text("faults.path", path),
            seed=seed,
            start=start,
            repeat=repeat,
            never_up=never_up,
            zones=zones,
        )
        return cls(recipe)

    @classmethod
    def zones(
        cls,
        seed: int,
        zones: Zones = Zones(),  # noqa: B008  (frozen)
        day_up: float = 0.1,
        spell: float = 1800.0,
        spread: float = 1800.0,
    ) -> Faults:
        """Each machine is up in its night, as `zones` have it, and for some spells of the day.

        A day begins with the owner back; then he is away for spells and there in between, both exponential.

        seed : of nights, spells and times in between, three streams.
        zones : how many time zones there are, and when it is night.
        day_up : share of the day in which a machine is up, but for its beginning; 0: never.
        spell : s for which it is up then, on average.
        spread : s by which nights begin and end earlier or later, at most; drawn uniformly for each machine
            and day.  At most a quarter of the night and of the day.
        """
        return cls(ZoneFaults(seed=seed, zones=zones, day_up=day_up, spell=spell, spread=spread))

    @classmethod
    def of(
        cls, machine: Iterable[int] | Integers, down: Iterable[float] | Floats, up: Iterable[float] | Floats
    ) -> Faults:
        """Exactly these: ``machine[i]`` fails at ``down[i]`` s and is back at ``up[i]`` s.

        machine : which, one entry a failure.
        down : s at which it fails; 0 for one that joins later.
        up : s at which it is back; the same for a reset, inf for one that leaves for good.
        """
        columns = (sequence(f"faults.{n}", v) for n, v in (("machine", machine), ("down", down), ("up", up)))
        return cls(ListedFaults(**dict(zip(("machine", "down", "up"), map(tuple, columns), strict=True))))

    def sources(self) -> dict[str, tuple[str, ...]]:
        """The files that are read for the trace, by its path: of an FTA trace the nodes beside it, too."""
        from gridsim.traces import availability_files

        if not isinstance(self.recipe, TraceFaults):
            return {}
        return {self.recipe.path: tuple(availability_files(self.recipe.path))}

    def places(self) -> dict[str, tuple[str, ...]]:
        """Where `sources` looks for files, by the path of the trace."""
        from gridsim.traces import availability_places

        if not isinstance(self.recipe, TraceFaults):
            return {}
        return {self.recipe.path: tuple(availability_places(self.recipe.path))}

    @property
    def time_zones(self) -> Zones | None:
        """Where machines have day and night, if they have."""
        return self.recipe.zones if isinstance(self.recipe, TraceFaults | ZoneFaults) else None

    def course(self, nodes: int, count: Count = uncounted) -> Course:
        """What happens to `nodes` machines.

        count : ``gridsim.model.fault_events.looking(nodes)`` for who has not chosen these faults, but looks
            at a result.
        """
        return self.recipe.course(nodes, count)

    def mean_up_time(self, nodes: int) -> float:
        """How long one of `nodes` machines is up, s: the mean of the distribution, if there is one.

        Of a trace, the mean length of its hosts' intervals from `start` on, of all hosts, those that the end
        of the trace cuts off as they are.  Of a list, that of the up times that end in a failure, from 0 on;
        who is down from the beginning has not been up.  With zones, of nights without spread and the spells
        of the day.  inf if there are none.
        """
        return self.recipe.mean_up_time(nodes)
