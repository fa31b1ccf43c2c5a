"""Fluctuation: the background load of machines, made from a recipe, as platforms are.

Each machine has a series of factors, one per period, which repeats over and over.  A factor is the share of
the machine's speed that the grid gets.  Factors depend on the recipe alone, so that every scheduler of a
comparison meets the same background load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arguments import sequence, suggest_arguments, whole
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS
from gridsim.support.parameters import Limits, Recipe, Seed
from gridsim.support.random_streams import Streams

#: Longest period (s).  The period in which the clock ends must itself end within int64 ns.
LONGEST = 1e7
#: Largest number of factors that are drawn: 1 GB.
MOST_FACTORS = 2**27


@dataclass(frozen=True, eq=False)
class Pace:
    """The share of its speed that each machine u gives the grid at t ns.

    It is ``factors[series[u], (first[u] + (t + phase) // period) % steps]``.

    The arrays are read-only.

    Parameters
    ----------
    period
        ns.
    phase
        ns since the step of each machine at time 0 began, below `period`.
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
_Period = Annotated[float, Limits(low=1e-9, high=LONGEST, unit="s")]


class _Factors(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "fluctuation"


class UniformFluctuation(_Factors, frozen=True, kw_only=True, tag="uniform"):
    """Factors drawn uniformly; `Fluctuation.uniform` explains each field."""

    low: _Factor
    high: _Factor
    period: _Period
    seed: Seed
    series: Annotated[int, Limits(low=1, high=MOST_FACTORS)] = 64
    steps: Annotated[int, Limits(low=1, high=MOST_FACTORS)] = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high < self.low:
            raise ScenarioError(f"fluctuation.high must be at least low, {self.low:g}, got {self.high!r}")
        if self.series * self.steps > MOST_FACTORS:
            raise ScenarioError(
                f"fluctuation.steps must be at most {MOST_FACTORS // self.series} in each of {self.series} "
                f"series, got {self.steps}"
            )

    def realize(self, nodes: int, origin: float) -> Pace:
        streams = Streams(self.seed)
        factors = streams("fluctuation.factors").random((self.series, self.steps))
        factors *= self.high - self.low
        factors += self.low
        np.minimum(factors, self.high, out=factors)  # rounding may exceed it
        # drawn machine by machine, so that more machines change nothing for the first ones
        drawn = streams("fluctuation.machines").integers((self.series, self.steps), size=(nodes, 2))
        return Pace(_nanoseconds(self.period), factors, drawn[:, 0].copy(), drawn[:, 1].copy())


class ListedFluctuation(_Factors, frozen=True, kw_only=True, tag="list"):
    """A list of factors; `Fluctuation.of` explains each field."""

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
                wanted = f"{len(rows[0])}, as many as the first row" if k else "at least one factor"
                raise ScenarioError(f"fluctuation.factors[{k}] must have {wanted}, got {len(row)}")
        for name, given, count in (("series", self.series, len(rows)), ("first", self.first, len(rows[0]))):
            for u, position in enumerate(given or ()):
                whole(f"fluctuation.{name}[{u}]", position, high=count - 1)

    def realize(self, nodes: int, origin: float) -> Pace:
        columns = {}
        for name, given, usual in (
            ("series", self.series, np.arange(nodes) % len(self.factors)),
            ("first", self.first, np.zeros(nodes)),
        ):
            if given is not None and len(given) != nodes:
                raise ScenarioError(
                    f"fluctuation.{name} must have {nodes} entries, one a machine, got {len(given)}"
                )
            columns[name] = np.array(usual if given is None else given, np.int64)
        period = _nanoseconds(self.period)
        steps, phase = divmod(_nanoseconds(origin), period)
        columns["first"] = (columns["first"] + steps) % len(self.factors[0])
        return Pace(period, np.array(self.factors, np.float64), **columns, phase=phase)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NS)


FluctuationRecipe = UniformFluctuation | ListedFluctuation


# -- the model ------------------------------------------------------------------------------------------


@suggest_arguments
@dataclass(frozen=True)
class Fluctuation:
    """How background load changes the speed of machines.  Two objects are equal when their recipes are.

    Parameters
    ----------
    recipe
        How the fluctuation was made; use the constructors below.
    origin
        s, the time of a list of factors at which the run begins; `Scenario` sets it to `Workload.origin`.
        Drawn factors begin with the run.
    """

    recipe: FluctuationRecipe
    origin: float = field(default=0.0, compare=False, repr=False, kw_only=True)

    @classmethod
    def uniform(
        cls, low: float, high: float, period: float, seed: int, series: int = 64, steps: int = 1024
    ) -> Fluctuation:
        """Factors drawn uniformly from low to high, a new one each period.

        Each machine follows one row of factors, beginning at one of its steps; row and step are drawn.  Rows
        repeat over and over.

        Parameters
        ----------
        low, high
            Smallest and largest factor, 0 < low <= high <= 1.
        period
            s that a factor lasts, 1e-9 to 1e7.
        seed
            Seed of the factors and of the machines' rows and steps, which have two random streams.
        series
            Number of different rows.
        steps
            Number of factors in a row.
        """
        return cls(
            UniformFluctuation(low=low, high=high, period=period, seed=seed, series=series, steps=steps)
        )

    @classmethod
    def of(
        cls,
        factors: Iterable[Sequence[float] | Floats] | Floats,
        period: float,
        series: Iterable[int] | Integers | None = None,
        first: Iterable[int] | Integers | None = None,
    ) -> Fluctuation:
        """Exactly the given factors: ``factors[k][j]`` in row k, step j.

        Parameters
        ----------
        factors
            Factors in (0, 1], one list per row, all of the same length.
        period
            s that a step lasts, 1e-9 to 1e7.
        series
            The row of each machine; without it machine u has row u modulo the number of rows.
        first
            The step of each machine at time 0, on the clock of the releases; without it all begin at step 0.
        """
        return cls(
            ListedFluctuation(
                factors=tuple(sequence("fluctuation.factors", factors)),
                period=period,
                series=None if series is None else tuple(sequence("fluctuation.series", series)),
                first=None if first is None else tuple(sequence("fluctuation.first", first)),
            )
        )

    def realize(self, nodes: int) -> Pace:
        """Return the factors of `nodes` machines.  Raises ScenarioError if the recipe fits another number."""
        return self.recipe.realize(nodes, self.origin)
