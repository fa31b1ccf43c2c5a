"""Estimates: statistics of values over seeds with bootstrap intervals, never a bare mean."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.results.metrics.formulas import mean
from gridsim.support.arrays import Floats
from gridsim.support.extras import need
from gridsim.support.random_streams import Streams

RESAMPLES = 9999
LEVEL = 0.95
#: A bootstrap interval of fewer seeds than this is too narrow.
FEW = 5


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its confidence interval; a unit is that of the values.

    mean, low, high : low and high are NaN where there is no interval.
    seeds : number of values.  level : confidence of the interval.
    note : empty, or why there is no interval or a degenerate one.
    """

    mean: float
    low: float
    high: float
    seeds: int
    level: float = LEVEL
    note: str = ""

    def format(self, digits: int = 4) -> str:
        """The mean, and the interval and the number of seeds, or the note instead."""
        if math.isnan(self.low):
            return f"{self.mean:.{digits}g} (no interval: {self.note})"
        seeds = f"{self.seeds} seeds" + (f", {self.note}" if self.note else "")
        return f"{self.mean:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}] ({seeds})"

    __str__ = format


def estimate(*samples: Any, statistic: Callable[..., Any] = np.mean, level: float = LEVEL) -> Estimate:
    """`statistic` of paired samples, with a BCa bootstrap interval over the pairs.

    samples : arrays of n values, one value a seed.
    statistic : of as many arrays, and ``axis``; the default is the mean of one sample.

    The resampling has a generator of its own with a fixed seed: the same values give the same interval.
    There is no interval for one seed or for values that are not finite; it is a point if the statistic does
    not vary with the seed; it is too narrow for fewer than `FEW` seeds; where BCa is undefined it is the
    percentile interval.  The note says so.

    Raises ImportError without scipy; ValueError for samples that are empty or of different lengths.
    """
    values = [np.asarray(sample, dtype=np.float64) for sample in samples]
    count = values[0].size
    if not count or any(value.shape != (count,) for value in values):
        raise ValueError(f"samples must be equally long and not empty, got {[v.shape for v in values]}")
    finite = all(np.isfinite(value).all() for value in values)
    with np.errstate(all="ignore"):
        exact = finite and statistic is np.mean
        middle = mean(values[0]) if exact else float(statistic(*values, axis=-1))
    if not finite or not math.isfinite(middle):
        return Estimate(middle, math.nan, math.nan, count, level, "not all values are finite")
    if count == 1:
        return Estimate(middle, math.nan, math.nan, count, level, "one seed")
    if all((value == value[0]).all() for value in values):
        return Estimate(middle, middle, middle, count, level, "all seeds equal")
    bootstrap = need("scipy.stats", "stats", "an interval").bootstrap
    note = "few: the interval is too narrow" if count < FEW else ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what is degenerate is said in the note
        for method in ("BCa", "percentile"):
            found = bootstrap(
                tuple(values),
                statistic,
                n_resamples=RESAMPLES,
                paired=True,
                vectorized=True,
                confidence_level=level,
                method=method,
                rng=Streams(0)("replication.bootstrap"),
            ).confidence_interval
            low, high = float(found.low), float(found.high)
            if math.isfinite(low) and math.isfinite(high):
                return Estimate(middle, low, high, count, level, note)
            note = "; ".join([*filter(None, [note]), "percentile interval, BCa is undefined here"])
    return Estimate(middle, math.nan, math.nan, count, level, "the bootstrap is undefined here")


def ratio_of_means(above: Floats, below: Floats, axis: int = -1) -> Any:
    """Statistic for `estimate`: mean of one sample over mean of the other."""
    return np.mean(above, axis=axis) / np.mean(below, axis=axis)
