"""Fluctuation: how fast machines are while others use them too, made from a recipe as platforms are.

Each machine has a series of factors, one a period, which repeats over and over.  A factor is the share of the
machine's speed that the grid gets.  Factors depend on the recipe alone, so that every scheduler of a
comparison meets the same load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arguments import normalise, real, sequence, shown, whole
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams

#: Periods are at most so long (s), so that the one in which the clock ends has an end in int64 ns as well.
LONGEST = 1e7
#: Factors that are drawn, at most: 1 GB of them.
MOST_FACTORS = 2**27


@dataclass(frozen=True, eq=False)
class Pace:
    """What machines have of their speed: ``factors[series[u], (first[u] + t // period) % steps]`` at t ns.

    period : ns.
    factors : float64[rows, steps], in (0, 1]; series : int64[machines], the row of each; first :
        int64[machines], its step at time 0.  All are read-only.
    """

    period: int
    factors: Floats
    series: Integers
    first: Integers

    def __post_init__(self) -> None:
        for column in (self.factors, self.series, self.first):
            column.flags.writeable = False


# -- recipes --------------------------------------------------------------------------------------------


class UniformFluctuation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="uniform"
):
    """Factors drawn uniformly; the meaning of each field is told by `Fluctuation.uniform`."""

    low: float
    high: float
    period: float
    seed: int
    series: int = 64
    steps: int = 1024

    def __post_init__(self) -> None:
        low, high = _factor("fluctuation.low", self.low), _factor("fluctuation.high", self.high)
        if high < low:
            raise ScenarioError(f"fluctuation.high must be at least low, {low:g}, got {high!r}")
        series = whole("fluctuation.series", self.series, low=1, high=MOST_FACTORS)
        steps = whole("fluctuation.steps", self.steps, low=1, high=MOST_FACTORS)
        if series * steps > MOST_FACTORS:
            raise ScenarioError(
                f"fluctuation.steps must be at most {MOST_FACTORS // series} in each of {series} series, "
                f"got {steps}"
            )
        normalise(
            self,
            low=low,
            high=high,
            period=_period(self.period),
            seed=whole("fluctuation.seed", self.seed),
            series=series,
            steps=steps,
        )

    def realize(self, nodes: int) -> Pace:
        streams = Streams(self.seed)
        factors = streams("fluctuation.factors").random((self.series, self.steps))
        factors *= self.high - self.low
        factors += self.low
        np.minimum(factors, self.high, out=factors)  # which rounding may exceed
        # machine by machine: further ones change nothing for those before
        drawn = streams("fluctuation.machines").integers((self.series, self.steps), size=(nodes, 2))
        return Pace(_nanoseconds(self.period), factors, drawn[:, 0].copy(), drawn[:, 1].copy())


class ListedFluctuation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="list"
):
    """The factors themselves; the meaning of each field is told by `Fluctuation.of`."""

    factors: tuple[tuple[float, ...], ...]
    period: float
    series: tuple[int, ...] | None = None
    first: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        rows: list[tuple[float, ...]] = []
        for k, given in enumerate(sequence("fluctuation.factors", self.factors)):
            row = sequence(f"fluctuation.factors[{k}]", given)
            if not row or (rows and len(row) != len(rows[0])):
                wanted = f"{len(rows[0])}, as many as the first row" if rows else "at least one factor"
                raise ScenarioError(f"fluctuation.factors[{k}] must have {wanted}, got {len(row)}")
            rows.append(tuple(_factor(f"fluctuation.factors[{k}][{j}]", x) for j, x in enumerate(row)))
        if not rows:
            raise ScenarioError("fluctuation.factors must have at least one row, got none")
        normalise(
            self,
            factors=tuple(rows),
            period=_period(self.period),
            series=_positions("series", self.series, len(rows)),
            first=_positions("first", self.first, len(rows[0])),
        )

    def realize(self, nodes: int) -> Pace:
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
        return Pace(_nanoseconds(self.period), np.array(self.factors, np.float64), **columns)


def _factor(path: str, value: Any) -> float:
    factor = real(path, value, above=0)
    if factor > 1:
        raise ScenarioError(f"{path} must be at most 1, got {shown(value)}")
    return factor


def _period(value: Any) -> float:
    period = real("fluctuation.period", value, low=1e-9, unit="s")
    if period > LONGEST:
        raise ScenarioError(f"fluctuation.period must be at most {LONGEST:g} s, got {period!r}")
    return period


def _positions(name: str, values: Any, count: int) -> tuple[int, ...] | None:
    if values is None:
        return None
    path = f"fluctuation.{name}"
    return tuple(whole(f"{path}[{u}]", k, high=count - 1) for u, k in enumerate(sequence(path, values)))


def _nanoseconds(period: float) -> int:
    return round(period * NS)


FluctuationRecipe = UniformFluctuation | ListedFluctuation


# -- the model ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fluctuation:
    """How the performance of machines fluctuates with other load.  Two are equal when their recipes are.

    recipe : how it was made; use the constructors below.
    """

    recipe: FluctuationRecipe

    @classmethod
    def uniform(
        cls, low: float, high: float, period: float, seed: int, series: int = 64, steps: int = 1024
    ) -> Fluctuation:
        """Factors drawn uniformly from low to high, anew each period.

        Each machine has one of the rows of factors from one of its steps on, both drawn; rows repeat over and
        over.

        low, high : smallest and largest factor, 0 < low <= high <= 1.
        period : s that a factor lasts, 1e-9 to 1e7.
        seed : of factors and machines, two streams.
        series : how many different rows there are.
        steps : factors of a row.
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
        """Exactly these: ``factors[k][j]`` in row k, step j.

        factors : in (0, 1], a list a row, all of one length.
        period : s that a step lasts, 1e-9 to 1e7.
        series : the row of each machine; without it machine u has row u modulo their number.
        first : the step of each machine at time 0; without it 0.
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
        """The series of `nodes` machines.  Raises ScenarioError where the recipe is for another number."""
        return self.recipe.realize(nodes)
