"""Background load of machines (`Fluctuation`), generated from a recipe like platforms.

Each machine has a series of factors, one per period, which is repeated for the whole run.  A factor is the
share of the machine's speed that is available to the grid.  Factors depend only on the recipe, so all
schedulers of a comparison have the same background load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.constructors import Constructor, FluctuationConstructors, constructors
from gridsim.support.arguments import integer
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS
from gridsim.support.parameters import Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

#: Maximum period (s), so that the end of the last period fits into int64 ns.
MAX_PERIOD = 1e7
#: Maximum number of factors that are drawn; they take 1 GB of memory.
MAX_FACTORS = 2**27


@dataclass(frozen=True, eq=False)
class LoadProfile:
    """The share of each machine's speed that is available to the grid, as a function of time.

    The share of machine u at t ns is ``factors[series[u], (first[u] + (t + phase) // period) % steps]``.  The
    arrays are read-only.

    Parameters
    ----------
    period
        Length of a step, ns.
    phase
        Time since the beginning of the current step at time 0, ns, below `period`.
    factors
        float64[rows, steps], in (0, 1].
    series
        int64[machines], the row of each machine.
    first
        int64[machines], the step of each machine at time 0.
    """

    period: int
    factors: Floats
    series: Integers
    first: Integers
    phase: int = 0

    def __post_init__(self) -> None:
        for column in (self.factors, self.series, self.first):
            column.flags.writeable = False


# -- recipes --------------------------------------------------------------------------------------------


_Factor = Annotated[float, Limits(above=0, high=1)]
_Period = Annotated[float, Limits(low=1e-9, high=MAX_PERIOD, unit="s")]


class FluctuationKind(Recipe, frozen=True, kw_only=True):
    """Base class of the kinds of background load."""

    part: ClassVar[str] = "fluctuation"

    def realize(self, nodes: int, origin: float) -> LoadProfile:
        """Return the load profile of `nodes` machines; each kind defines this method.

        Parameters
        ----------
        origin
            Time of a list of factors at which the run begins, s.
        """
        raise NotImplementedError


class UniformFluctuation(FluctuationKind, frozen=True, kw_only=True, tag="uniform"):
    """Factors drawn uniformly from low to high, one per period.

    Each machine follows a drawn row of factors, from a drawn step on.  At the end of the row it continues
    at the beginning.

    Parameters
    ----------
    low, high
        Smallest and largest factor, 0 < low <= high <= 1.
    period
        Time that a factor lasts, s, 1e-9 to 1e7.
    seed
        Seed of two random streams: the factors, and the machines' rows and steps.
    series
        Number of different rows.
    steps
        Number of factors in a row.
    """

    low: _Factor
    high: _Factor
    period: _Period
    seed: Seed = DEFAULT_SEED
    series: Annotated[int, Limits(low=1, high=MAX_FACTORS)] = 64
    steps: Annotated[int, Limits(low=1, high=MAX_FACTORS)] = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high < self.low:
            raise ScenarioError(f"fluctuation.high must be at least low, {self.low:g}, got {self.high!r}")
        if self.series * self.steps > MAX_FACTORS:
            raise ScenarioError(
                f"fluctuation.steps must be at most {MAX_FACTORS // self.series} in each of {self.series} "
                f"series, got {self.steps}"
            )

    def realize(self, nodes: int, origin: float) -> LoadProfile:
        streams = Streams(self.seed)
        factors = streams("fluctuation.factors").random((self.series, self.steps))
        factors *= self.high - self.low
        factors += self.low
        np.minimum(factors, self.high, out=factors)  # rounding may give a factor above `high`
        # positions are drawn machine by machine, so that further machines do not change the first draws
        positions = streams("fluctuation.machines").integers((self.series, self.steps), size=(nodes, 2))
        return LoadProfile(_nanoseconds(self.period), factors, positions[:, 0].copy(), positions[:, 1].copy())


class ListedFluctuation(FluctuationKind, frozen=True, kw_only=True, tag="list"):
    """A list of factors: ``factors[k][j]`` in row k, step j.

    Parameters
    ----------
    factors
        Factors in (0, 1], one list per row, all of the same length.
    period
        Time that a step lasts, s, 1e-9 to 1e7.
    series
        The row of each machine; by default machine u has row u modulo the number of rows.
    first
        The step of each machine at time 0, on the clock of the releases; by default step 0.
    """

    factors: tuple[tuple[_Factor, ...], ...]
    period: _Period
    series: tuple[Annotated[int, Limits(low=0)], ...] | None = None
    first: tuple[Annotated[int, Limits(low=0)], ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.factors
        if not rows:
            raise ScenarioError("fluctuation.factors must have at least one row, got none")
        for k, row in enumerate(rows):
            if not row or len(row) != len(rows[0]):
                condition = f"{len(rows[0])} factors, as many as row 0" if k else "at least one factor"
                raise ScenarioError(f"fluctuation.factors[{k}] must have {condition}, got {len(row)}")
        for name, column, count in (("series", self.series, len(rows)), ("first", self.first, len(rows[0]))):
            for u, position in enumerate(column or ()):
                integer(f"fluctuation.{name}[{u}]", position, high=count - 1)

    def realize(self, nodes: int, origin: float) -> LoadProfile:
        columns = {}
        for name, column, default in (
            ("series", self.series, np.arange(nodes) % len(self.factors)),
            ("first", self.first, np.zeros(nodes)),
        ):
            if column is not None and len(column) != nodes:
                raise ScenarioError(
                    f"fluctuation.{name} must have {nodes} entries, one per machine, got {len(column)}"
                )
            columns[name] = np.array(default if column is None else column, np.int64)
        period = _nanoseconds(self.period)
        steps, phase = divmod(_nanoseconds(origin), period)
        columns["first"] = (columns["first"] + steps) % len(self.factors[0])
        return LoadProfile(period, np.array(self.factors, np.float64), **columns, phase=phase)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NS)


FluctuationRecipe: TypeAlias = UniformFluctuation | ListedFluctuation


# -- the model ------------------------------------------------------------------------------------------


@constructors(
    uniform=Constructor(UniformFluctuation, "low high period seed series steps"),
    of=Constructor(ListedFluctuation, "factors period series first"),
)
@dataclass(frozen=True)
class Fluctuation(FluctuationConstructors):
    """Background load, which changes the speed of machines.  Objects with equal recipes are equal.

    Parameters
    ----------
    recipe
        Recipe of the background load, from the constructors below.
    origin
        Time of a list of factors at which the run begins, s; `Scenario` sets it to `Workload.origin`.
        Drawn factors begin with the run.
    """

    recipe: FluctuationKind
    origin: float = field(default=0.0, compare=False, repr=False, kw_only=True)

    def realize(self, nodes: int) -> LoadProfile:
        """Return the load profile of `nodes` machines.

        Raises
        ------
        ScenarioError
            If a list of the recipe does not have one entry per machine.
        """
        return self.recipe.realize(nodes, self.origin)
