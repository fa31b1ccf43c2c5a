"""Estimates: statistics over seeds, always with a bootstrap interval or the reason why there is none."""

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
#: With fewer seeds than this a bootstrap interval is too narrow.
FEW = 5


@dataclass(frozen=True)
class Estimate:
    """A mean, or another statistic, over seeds with its confidence interval, in the unit of the values.

    Parameters
    ----------
    mean, low, high
        Low and high are NaN if there is no interval.
    seeds
        Number of values.
    level
        Confidence level of the interval.
    note
        Empty, or why the interval is missing, degenerate or unreliable.
    """

    mean: float
    low: float
    high: float
    seeds: int
    level: float = LEVEL
    note: str = ""

    def format(self, digits: int = 4) -> str:
        """Return the mean with the interval and number of values, or with the note if it has none."""
        if math.isnan(self.low):
            return f"{self.mean:.{digits}g} (no interval: {self.note})"
        count = f"n = {self.seeds}" + (f", {self.note}" if self.note else "")
        return f"{self.mean:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}] ({count})"

    __str__ = format


def estimate(*samples: Any, statistic: Callable[..., Any] = np.mean, level: float = LEVEL) -> Estimate:
    """Return `statistic` of paired samples, with a BCa bootstrap interval over the pairs.

    The resampling uses a generator of its own with a fixed seed, so the same values give the same interval.
    There is no interval for one seed or for values that are not finite.  The interval is a point if all seeds
    have equal values.  It is too narrow for fewer than `FEW` seeds.  If BCa is undefined, it is the
    percentile interval.  The note says which of these is the case.

    Raises ImportError without scipy; ValueError if the samples are empty or differ in length.

    Parameters
    ----------
    samples
        Arrays of n values, one value per seed.
    statistic
        A function of as many arrays as there are samples, and of ``axis``; the default is the mean of one
        sample.
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
        return Estimate(middle, math.nan, math.nan, count, level, "n = 1")
    if all((value == value[0]).all() for value in values):
        return Estimate(middle, middle, middle, count, level, "all equal")
    bootstrap = need("scipy.stats", "stats", "an interval").bootstrap
    note = "few: the interval is too narrow" if count < FEW else ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the note tells of degenerate cases
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
    """Return the mean of one sample over the mean of the other; a statistic for `estimate`."""
    return np.mean(above, axis=axis) / np.mean(below, axis=axis)
