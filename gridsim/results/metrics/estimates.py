"""Estimates: statistics over seeds with a bootstrap interval, or with the reason why there is none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridsim.results.metrics.formulas import mean
from gridsim.support.arrays import Floats
from gridsim.support.imports import import_extra
from gridsim.support.random_streams import Streams
from gridsim.support.text import DIGITS, number_text

RESAMPLES = 9999
LEVEL = 0.95
#: The minimum number of seeds.  Limits lie between the least and the largest value, so that of 4 seeds at
#: most 87.5 % of the intervals contain the centre of a symmetric distribution.
MIN_SEEDS = 5
#: Note of an estimate from equal values.
_ALL_EQUAL = "all equal"
#: Note of an interval of few seeds.
_SMALL_SAMPLE = "few: the interval is too narrow"
#: Note of a ratio that does not exist.
_NOT_POSITIVE = "a value is not above 0"


@dataclass(frozen=True)
class Estimate:
    """A mean or another statistic over seeds with its confidence interval, in the unit of the values.

    Parameters
    ----------
    mean, low, high
        The statistic, and the limits of the interval, which are NaN if there is none.
    seeds
        Number of seeds.
    level
        Confidence level of the interval.
    note
        Reason why the interval is missing, degenerate or unreliable; "" if it is sound.
    """

    mean: float
    low: float
    high: float
    seeds: int
    level: float = LEVEL
    note: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether all seeds have equal values, so that the interval says nothing of other values."""
        return self.note == _ALL_EQUAL

    def scale(self, factor: float) -> Estimate:
        """Return this estimate in another unit: all values times `factor`."""
        return replace(self, mean=factor * self.mean, low=factor * self.low, high=factor * self.high)

    def format(self, digits: int = DIGITS, *, seeds: int | None = None, decimals: int | None = None) -> str:
        """Return the mean with the interval, the number of seeds and the note, as text.

        Parameters
        ----------
        seeds
            The number of seeds that is stated elsewhere, and that it is small if it is; it is left out here.
        decimals
            The number of decimals of all estimates in a column; None for `digits` of each number.
        """
        mean, low, high = (number_text(value, digits, decimals) for value in (self.mean, self.low, self.high))
        if math.isnan(self.low):
            return f"{mean} (no interval: {self.note})"
        text = mean if self.is_constant else f"{mean} [{low}, {high}]"
        note = "" if seeds is not None and self.note == _SMALL_SAMPLE else self.note
        parts = [*([] if seeds == self.seeds else [f"n = {self.seeds}"]), *([note] if note else [])]
        return f"{text} ({', '.join(parts)})" if parts else text

    __str__ = format


def estimate(*samples: Any, statistic: Callable[..., Any] = np.mean, level: float = LEVEL) -> Estimate:
    """Return `statistic` of paired samples, with an expanded BCa bootstrap interval over the pairs.

    BCa alone is too narrow for few seeds: resamples vary by sqrt((n - 1) / n) times the standard error, and
    its levels are normal ones.  So its levels are expanded, as Hesterberg does those of percentiles ("What
    Teachers Should Know About the Bootstrap", The American Statistician 69, 2015): each tail is
    Phi(-sqrt(n / (n - 1)) t), where t is the quantile of Student's t with n - 1 degrees of freedom; but not
    below the share of one resample.  For normal values the interval is then about as wide as Student's t.  It
    suits any statistic, and for 8 and more skewed values contains the mean more often than t.  The
    bootstrap-t does so still more often, but is twice as wide for 5 of them, and its limits may be values
    that the statistic cannot have.

    The random stream of the resampling has a fixed seed, so that equal values give equal intervals.  There is
    no interval for one seed or for values that are not finite.  The interval is a point if all seeds have
    equal values, and too narrow for fewer than `MIN_SEEDS` seeds.  If BCa is undefined, the percentile
    interval is returned.  The note states which of these cases applies.

    Parameters
    ----------
    samples
        Arrays of n values, one value per seed.
    statistic
        Function of one array per sample and of ``axis``; by default the mean of one sample.
    level
        Nominal confidence level of the interval, before it is expanded.

    Raises
    ------
    ImportError
        If scipy is not installed.
    ValueError
        If the samples are empty or differ in length.
    """
    values = [np.asarray(sample, dtype=np.float64) for sample in samples]
    count = values[0].size
    if not count or any(value.shape != (count,) for value in values):
        raise ValueError(f"samples must be equally long and not empty, got {[v.shape for v in values]}")
    finite = all(np.isfinite(value).all() for value in values)
    with np.errstate(all="ignore"):
        is_mean = finite and statistic is np.mean
        center = mean(values[0]) if is_mean else float(statistic(*values, axis=-1))
    if not finite or not math.isfinite(center):
        return Estimate(center, math.nan, math.nan, count, level, "not all values are finite")
    if count == 1:
        return Estimate(center, math.nan, math.nan, count, level, "n = 1")
    if all((value == value[0]).all() for value in values):
        return Estimate(center, center, center, count, level, _ALL_EQUAL)
    stats = import_extra("scipy.stats", "stats", "an interval")
    quantile = stats.t.ppf((1 + level) / 2, count - 1)
    tail = max(stats.norm.cdf(-math.sqrt(count / (count - 1)) * quantile), 1 / RESAMPLES)
    note = _SMALL_SAMPLE if count < MIN_SEEDS else ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the note reports degenerate cases
        for method in ("BCa", "percentile"):
            interval = stats.bootstrap(
                tuple(values),
                statistic,
                n_resamples=RESAMPLES,
                paired=True,
                vectorized=True,
                confidence_level=1 - 2 * tail,
                method=method,
                rng=Streams(0)("replication.bootstrap"),
            ).confidence_interval
            low, high = float(interval.low), float(interval.high)
            if math.isfinite(low) and math.isfinite(high):
                return Estimate(center, low, high, count, level, note)
            note = "; ".join([*filter(None, [note]), "percentile interval, BCa is undefined here"])
    return Estimate(center, math.nan, math.nan, count, level, "the bootstrap is undefined here")


def paired_ratio(numerator: Floats, denominator: Floats) -> Estimate:
    """Return the geometric mean of the ratios of two paired samples, with its interval.

    It is the ratio of the geometric means, and the interval is that of the mean of log(numerator /
    denominator).  So the ratio of b to a is 1 over that of a to b, and so are the limits of its interval.
    There is no ratio, as the note says, if a value is 0 or less.

    Parameters
    ----------
    numerator, denominator
        Arrays of n values, one value per seed.
    """
    if (np.minimum(numerator, denominator) <= 0.0).any():
        return Estimate(math.nan, math.nan, math.nan, numerator.size, note=_NOT_POSITIVE)
    logarithm = estimate(np.log(numerator) - np.log(denominator))
    center, low, high = np.exp([logarithm.mean, logarithm.low, logarithm.high]).tolist()
    return replace(logarithm, mean=center, low=low, high=high)


def ratio_of_means(numerator: Floats, denominator: Floats, axis: int = -1) -> Any:
    """Return the ratio of the means of two samples, a statistic for `estimate`."""
    return np.mean(numerator, axis=axis) / np.mean(denominator, axis=axis)
