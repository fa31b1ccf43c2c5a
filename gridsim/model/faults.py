"""Faults: failures and recoveries of machines, generated from a recipe like platforms and workloads.

A machine is up or down.  After a transient failure the machine recovers at once, with an empty memory (the
fair tree paper's model).  A machine that joins late is down from the beginning; a machine that leaves for
good fails and never recovers.  If machines are reachable, a machine that is down has not failed: its owner
uses it, and it computes nothing for others until the owner leaves.  Faults depend only on the recipe, so all
schedulers of a comparison have the same faults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.constructors import Constructor, FaultsConstructors, constructors
from gridsim.model.fault_events import (
    CLOCK_END,
    LATEST_CHANGE,
    ChangeCounter,
    FaultEvents,
    display_limit,
    drawn_events,
    listed_events,
    nanoseconds,
    no_limit,
    outages,
    periodic_events,
)
from gridsim.model.time_zones import DAY, ZoneFaults, Zones, rotate
from gridsim.support.arguments import normalise, real
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.parameters import FilePath, Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

if TYPE_CHECKING:
    from gridsim.traces import AvailabilityTrace

# -- recipes --------------------------------------------------------------------------------------------


_Mean = Annotated[float, Limits(above=0, unit="s")]
_Shape = Annotated[float, Limits(above=0)]


class FaultsKind(Recipe, frozen=True, kw_only=True):
    """Base class of recipes of faults.

    Parameters
    ----------
    reachable
        If true, a machine that is down is in use by its owner: it computes nothing for others, but keeps
        its memory and stays on the network.
    """

    part: ClassVar[str] = "faults"

    def shift_clock(self, origin: float) -> FaultsKind:
        """Return the faults with times counted from `origin` s.

        Only listed failures and time zones change; drawn failures and those of a trace begin with the clock.
        """
        return self

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        """Return the failures and recoveries of `nodes` machines; each kind defines this method.

        `gridsim.model.fault_events.drawn_events` makes them from draws of up and down times.

        Parameters
        ----------
        count
            Function to call with a number of changes before they are generated.
        """
        raise NotImplementedError

    def mean_up_time(self, nodes: int) -> float:
        """Return the mean up time of one of `nodes` machines, s; inf if it is not known."""
        return math.inf

    @property
    def failure_rate(self) -> float:
        """Mean number of failures of a machine per second; 0 if it is not known, as for a trace or a list."""
        return 0.0


class PoissonFaults(FaultsKind, frozen=True, kw_only=True, tag="poisson"):
    """Transient failures of each machine, one every `mean` s on average (fair tree paper: 14,400 s).

    Parameters
    ----------
    mean
        Mean time between two failures of a machine, s.
    seed
        Seed of the draw.
    """

    mean: _Mean
    seed: Seed = DEFAULT_SEED
    reachable: bool = False

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        return drawn_events(
            self.seed,
            nodes,
            lambda rng, count: rng.exponential(self.mean, count),
            lambda rng, count: np.zeros(count),
            self.mean,
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        return self.mean

    @property
    def failure_rate(self) -> float:
        return 1.0 / self.mean


class ExponentialFaults(FaultsKind, frozen=True, kw_only=True, tag="exponential"):
    """Exponentially distributed up and down times, in turn, of `up` s and `down` s on average.

    Parameters
    ----------
    up
        Mean up time, s.
    down
        Mean down time, s; 0 for transient failures.
    seed
        Seed of the draw.
    """

    up: _Mean
    down: Annotated[float, Limits(low=0, unit="s")]
    seed: Seed = DEFAULT_SEED
    reachable: bool = False

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        return drawn_events(
            self.seed,
            nodes,
            lambda rng, count: rng.exponential(self.up, count),
            lambda rng, count: rng.exponential(self.down, count),
            self.up + self.down,
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        return self.up

    @property
    def failure_rate(self) -> float:
        return 1.0 / (self.up + self.down)


class WeibullFaults(FaultsKind, frozen=True, kw_only=True, tag="weibull"):
    """Up and down times from Weibull distributions.

    Parameters
    ----------
    up_shape
        Shape of the up times; 1 is exponential.
    up_scale
        Scale of the up times, s.
    down_shape
        Shape of the down times; 1 is exponential.
    down_scale
        Scale of the down times, s.
    seed
        Seed of the draw.
    """

    up_shape: _Shape
    up_scale: _Mean
    down_shape: _Shape
    down_scale: _Mean
    seed: Seed = DEFAULT_SEED
    reachable: bool = False

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        return drawn_events(
            self.seed,
            nodes,
            lambda rng, count: self.up_scale * rng.weibull(self.up_shape, count),
            lambda rng, count: self.down_scale * rng.weibull(self.down_shape, count),
            self.up_scale * math.gamma(1 + 1 / min(max(self.up_shape, 0.01), 100.0)),
            count,
        )

    def mean_up_time(self, nodes: int) -> float:
        return _weibull_mean(self.up_shape, self.up_scale)

    @property
    def failure_rate(self) -> float:
        down = _weibull_mean(self.down_shape, self.down_scale)
        return 1.0 / (_weibull_mean(self.up_shape, self.up_scale) + down)


def _weibull_mean(shape: float, scale: float) -> float:
    """Return the mean of a Weibull distribution; inf for shapes whose mean may overflow a float."""
    return scale * math.gamma(1 + 1 / shape) if shape > 0.01 else math.inf


class TraceFaults(FaultsKind, frozen=True, kw_only=True, tag="trace"):
    """Up and down times of the hosts of an availability trace (.avt or FTA tab format).

    Each machine follows one host, drawn without replacement unless `in_order`.

    Parameters
    ----------
    path
        Path of the trace.
    seed
        Seed of the draw of hosts.
    start
        Time in the trace at which the run begins, s.
    repeat
        If true, the trace is repeated from `start` on when it ends; if false, each machine keeps its last
        state.
    never_up
        If true, draw from all hosts, including hosts that are never up in the trace; if false, only from
        hosts that were ever up.
    zones
        Time zones over which the machines are distributed, for hosts recorded in one time zone: each
        machine is as far ahead in the trace as its local time is ahead.  It requires `repeat`; only whole
        days after `start` are used, and `start` should be midnight in the trace.
    in_order
        If true, no host is drawn: machine i follows host i of the trace, which has one host per machine.

    Raises
    ------
    TraceFormatError
        When the trace is read, if it is invalid.
    ScenarioError
        When the trace is read, if it has too few hosts, or with `in_order` another number than machines.
    """

    path: FilePath
    seed: Seed = DEFAULT_SEED
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    repeat: bool = True
    never_up: bool = False
    zones: Zones | None = None
    in_order: bool = False
    reachable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.zones, Zones | None):
            raise ScenarioError(f"faults.zones must be Zones or None, got {self.zones!r}")
        if self.zones is not None and not self.repeat:
            raise ScenarioError("faults.zones of a trace requires faults.repeat = true")

    def course(self, nodes: int, count: ChangeCounter) -> FaultEvents:
        trace = self._read()
        hosts = self._hosts(trace, nodes)
        span = round((trace.horizon - self.start) * NS)
        shifts, latest = None, LATEST_CHANGE
        if self.zones is not None:
            span -= span % DAY  # whole days, so that each round begins at the same hour
            if not span:
                raise ScenarioError(
                    "faults.start must be at least a day before the end of the trace, "
                    f"{trace.horizon:g} s, with faults.zones, got {self.start!r}"
                )
            # cutting a longer round changes no failure, since `rotate` moves only intervals beyond the end of
            # the clock
            span = min(span, (CLOCK_END // DAY + 2) * DAY)
            shifts, latest = self.zones.clock_offsets(np.arange(nodes)).tolist(), span / NS
        time, machine, up = [], [], []
        for u, host in enumerate(hosts.tolist()):
            begin, end = (
                nanoseconds(np.maximum(0.0, times - self.start), latest) for times in trace.intervals(host)
            )
            positive = end > begin  # drop up times that are rounded to 0 ns
            begin, end = begin[positive], end[positive]
            if shifts is not None:
                begin, end = rotate(begin, end, shifts[u] % span, span)
                begin, end = begin[begin < CLOCK_END], end[begin < CLOCK_END]
            if not len(begin) or begin[0] > 0:
                time.append(0)
                machine.append(u)
                up.append(False)
            else:
                begin = begin[1:]
            # a machine that is up when the trace ends stays up
            end = end[end < min(span, CLOCK_END)]
            time += [*begin.tolist(), *end.tolist()]
            machine += [u] * (len(begin) + len(end))
            up += [True] * len(begin) + [False] * len(end)
        if not self.repeat:
            return listed_events(nodes, time, machine, up)
        return periodic_events(nodes, time, machine, up, span, count)

    def _hosts(self, trace: AvailabilityTrace, nodes: int) -> Integers:
        """Return the host that each machine follows, int64[nodes]."""
        count = len(trace.offsets) - 1
        if self.in_order:
            if nodes != count:
                raise ScenarioError(
                    f"faults.path must have {nodes} hosts with faults.in_order, one per machine, got {count} "
                    f"in {self.path}"
                )
            return np.arange(count)
        eligible = np.flatnonzero((np.diff(trace.offsets) > 0) | self.never_up)
        if nodes > len(eligible):
            condition = "" if self.never_up else " that were ever up"
            raise ScenarioError(
                f"faults.path must have {nodes} hosts{condition}, one per machine, got {len(eligible)} in "
                f"{self.path}; the kinds exponential and poisson draw failures of any number of machines"
            )
        hosts: Integers = Streams(self.seed)("faults.hosts").choice(eligible, size=nodes, replace=False)
        return hosts

    def mean_up_time(self, nodes: int) -> float:
        trace = self._read()
        lengths = trace.end - np.maximum(trace.start, self.start)
        lengths = lengths[lengths > 0]
        return float(lengths.mean()) if len(lengths) else math.inf

    def _read(self) -> AvailabilityTrace:
        from gridsim.traces import read_availability

        trace = read_availability(self.path)
        if self.start >= trace.horizon:
            raise ScenarioError(
                f"faults.start must be before the end of the trace, {trace.horizon:g} s, got {self.start!r}"
            )
        return trace


class ListedFaults(FaultsKind, frozen=True, kw_only=True, tag="list"):
    """A list of failures: ``machine[i]`` fails at ``down[i]`` s and recovers at ``up[i]`` s.

    Parameters
    ----------
    machine
        Machine that fails, one entry per failure.
    down
        Time of the failure, s, on the clock of the releases; 0 for a machine that joins later.  One entry
        is of all failures.
    up
        Time of the recovery, s; equal to down for a transient failure, inf for a machine that leaves for
        good.  One entry is of all failures.
    """

    machine: tuple[Annotated[int, Limits(low=0)], ...]
    down: tuple[Annotated[float, Limits(low=0, unit="s")], ...]
    up: tuple[Annotated[float, Limits(low=0, unit="s", finite=False)], ...]
    reachable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.machine)
        if count > 1:
            common = {name: getattr(self, name) for name in ("down", "up")}
            normalise(self, **{name: times * count for name, times in common.items() if len(times) == 1})
        machine, down, up = self.machine, self.down, self.up
        lengths = {name: len(getattr(self, name)) for name in ("machine", "down", "up")}
        if len(set(lengths.values())) > 1:
            raise ScenarioError(f"faults.machine, .down and .up must be equally long, got {lengths}")
        for i, time in enumerate(up):
            real(f"faults.up[{i}]", time, low=down[i], unit="s", finite=False)
        previous_failure: dict[int, int] = {}  # machine -> index of the failure
        begin, end = (nanoseconds(np.array(times, np.float64)) for times in (down, up))
        for i in sorted(range(len(machine)), key=lambda i: (machine[i], down[i])):
            if down[i] > LATEST_CHANGE:
                raise ScenarioError(f"faults.down[{i}] must be at most {LATEST_CHANGE:g} s, got {down[i]!r}")
            if LATEST_CHANGE < up[i] < math.inf:
                raise ScenarioError(
                    f"faults.up[{i}] must be at most {LATEST_CHANGE:g} s, or inf, got {up[i]!r}"
                )
            previous = previous_failure.get(machine[i])
            if previous is not None and begin[i] <= end[previous]:
                raise ScenarioError(
                    f"faults.down[{i}] must be at least 1 ns after the recovery of machine {machine[i]} at "
                    f"{up[previous]:g} s, got {down[i]:g}"
                )
            previous_failure[machine[i]] = i

    def shift_clock(self, origin: float) -> ListedFaults:
        """Return the failures that end after `origin` s, with times counted from then."""
        rows = [
            (machine, max(down - origin, 0.0), up - origin)
            for machine, down, up in zip(self.machine, self.down, self.up, strict=True)
            if up > origin or down == origin
        ]
        machine, down, up = zip(*rows, strict=True) if rows else ((), (), ())
        return ListedFaults(machine=machine, down=down, up=up, reachable=self.reachable)

    def course(self, nodes: int, count: ChangeCounter = no_limit) -> FaultEvents:
        for i, u in enumerate(self.machine):
            if u >= nodes:
                raise ScenarioError(f"faults.machine[{i}] must be in 0..{nodes - 1}, got {u}")
        recovering = [i for i, time in enumerate(self.up) if math.isfinite(time)]
        return listed_events(
            nodes,
            nanoseconds(np.array([*self.down, *(self.up[i] for i in recovering)])),
            [*self.machine, *(self.machine[i] for i in recovering)],
            [False] * len(self.machine) + [True] * len(recovering),
        )

    def mean_up_time(self, nodes: int) -> float:
        events = self.course(nodes)
        begins, ends = [np.zeros(nodes, np.int64)], [events.first]
        for block in events.blocks:
            begins.append(block.time[block.up])
            ends.append(block.until[block.up])
        begin, end = np.concatenate(begins), np.concatenate(ends)
        ended = (begin < end) & (end < NEVER)
        return float((end - begin)[ended].mean()) / NS if ended.any() else math.inf


FaultsRecipe: TypeAlias = (
    PoissonFaults | ExponentialFaults | WeibullFaults | TraceFaults | ListedFaults | ZoneFaults
)


# -- the model ------------------------------------------------------------------------------------------


@constructors(
    poisson=Constructor(PoissonFaults, "mean seed reachable"),
    exponential=Constructor(ExponentialFaults, "up down seed reachable"),
    weibull=Constructor(WeibullFaults, "up_shape up_scale down_shape down_scale seed reachable"),
    trace=Constructor(TraceFaults, "path seed start repeat never_up zones reachable"),
    zones=Constructor(ZoneFaults, "seed zones day_up spell spread reachable"),
    of=Constructor(ListedFaults, "machine down up reachable"),
)
@dataclass(frozen=True)
class Faults(FaultsConstructors):
    """Failures and recoveries of machines.  Objects with equal recipes are equal.

    Parameters
    ----------
    recipe
        Recipe of the faults, from the constructors below.
    origin
        Time of listed failures and of time zones at which the run begins, s; `Scenario` sets it to
        `Workload.origin`.  Drawn failures, and those of a trace, begin with the run.
    """

    recipe: FaultsKind
    origin: float = field(default=0.0, compare=False, repr=False, kw_only=True)

    def sources(self) -> dict[str, tuple[str, ...]]:
        """Return path of the trace -> its files, which for an FTA trace include the table of nodes."""
        from gridsim.traces import availability_files

        if not isinstance(self.recipe, TraceFaults):
            return {}
        return {self.recipe.path: tuple(availability_files(self.recipe.path))}

    def places(self) -> dict[str, tuple[str, ...]]:
        """Return path of the trace -> paths at which its files may be, whether they exist or not."""
        from gridsim.traces import availability_places

        if not isinstance(self.recipe, TraceFaults):
            return {}
        return {self.recipe.path: tuple(availability_places(self.recipe.path))}

    @property
    def reachable(self) -> bool:
        """True if machines that are down keep their memory and stay on the network."""
        return bool(getattr(self.recipe, "reachable", False))  # a kind may lack this field

    @property
    def time_zones(self) -> Zones | None:
        """The time zones of the machines, on the clock of the run, or None if they have none."""
        recipe = self._shifted_recipe
        return recipe.zones if isinstance(recipe, TraceFaults | ZoneFaults) else None

    @cached_property
    def _shifted_recipe(self) -> FaultsKind:
        """The recipe with times counted from the beginning of the run."""
        return self.recipe.shift_clock(self.origin) if self.origin else self.recipe

    def outages(self, nodes: int, until: float) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield each of `nodes` machines that fails, with its times of failure and recovery (arrays, s).

        It is used to display and validate results.

        Parameters
        ----------
        until
            Outages that begin later than this time (s) may be omitted.

        Raises
        ------
        TooManyChanges
            If the faults have too many changes for the display of a result.
        """
        return outages(self.course(nodes, display_limit(nodes)), until)

    def course(self, nodes: int, count: ChangeCounter = no_limit) -> FaultEvents:
        """Return the failures and recoveries of `nodes` machines.

        Parameters
        ----------
        count
            Function that is called with a number of changes before they are generated.  Code that displays a
            result, whose faults are untrusted, must pass ``gridsim.model.fault_events.display_limit(nodes)``.
        """
        return self._shifted_recipe.course(nodes, count)

    def mean_up_time(self, nodes: int) -> float:
        """Return the mean up time of one of `nodes` machines, s; inf if there are no up times.

        For drawn faults it is the mean of the distribution.  For a trace it is the mean length of the up
        intervals of all hosts from `start` on, including intervals that the end of the trace cuts off.  For a
        list it is the mean of the up times that end in a failure, from 0 s on; a machine that is down from
        the beginning has no up time before it first recovers.  With `Faults.zones` it is the mean over nights
        without spread and the spells of the day.
        """
        return self._shifted_recipe.mean_up_time(nodes)

    @property
    def failure_rate(self) -> float:
        """Mean number of failures of a machine per second; 0 if it is not known, as for a trace or a list."""
        return self.recipe.failure_rate
