"""Metrics of rigid jobs: pure functions on arrays.  Times are seconds; jobs that never ran have NaN."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.results.metrics.formulas import mean
from gridsim.support.arrays import Floats, Integers

# -- utilization over time ------------------------------------------------------------------------------


def intervals(start: float, end: float, length: float) -> Floats:
    """Return the edges of intervals of `length` s from `start` on; `end` lies within the last one.

    Raises ValueError if `length` is not positive and finite, or `end` lies before `start` or is infinite.
    """
    if not (0 < length < math.inf and start <= end < math.inf):
        raise ValueError(f"no intervals of {length} s from {start} to {end} s")
    edges: Floats = start + length * np.arange(math.floor((end - start) / length) + 2, dtype=np.float64)
    while edges[-1] <= end:  # because of rounding
        edges = np.append(edges, start + length * len(edges))
    return edges


def request_series(
    edges: Floats, release: Floats, nodes: Integers, run_time: Floats, machines: int
) -> Floats:
    """Return RU of each interval: node seconds that the jobs released in it want, over those of all machines.

    Parameters
    ----------
    edges
        Edges of the intervals, s.
    machines
        Number of machines.
    """
    which = np.searchsorted(edges, release, side="right") - 1
    kept = (which >= 0) & (which < len(edges) - 1)
    wanted = np.bincount(which[kept], (nodes * run_time)[kept], minlength=len(edges) - 1)
    made: Floats = wanted / (machines * np.diff(edges))
    return made


def effective_series(
    edges: Floats, first_start: Floats, finish: Floats, nodes: Integers, machines: int
) -> Floats:
    """Return EU of each interval: the share of the node seconds of all machines in which they run jobs.

    Parameters
    ----------
    edges
        Edges of the intervals, s.
    machines
        Number of machines.
    first_start, finish
        Start and end of the run of each job, s; NaN for jobs that never ran.
    """
    ran = ~(np.isnan(first_start) | np.isnan(finish))
    start, end, width = first_start[ran], finish[ran], nodes[ran]
    busy = [
        float(width @ np.maximum(np.minimum(end, high) - np.maximum(start, low), 0.0))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    made: Floats = np.array(busy) / (machines * np.diff(edges))
    return made


# -- waiting by classes of jobs -------------------------------------------------------------------------


def equal_counts(values: Floats, count: int) -> Floats:
    """Return the edges of at most `count` bins of about equally many values; equal ones share a bin."""
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, count + 1)))


def log_bins(values: Floats, count: int) -> Floats:
    """Return the edges of `count` classes from the smallest to the largest value, equally wide in log scale.

    Raises ValueError for values that are not positive.
    """
    low, high = float(values.min()), float(values.max())
    if not low > 0:
        raise ValueError(f"no logarithm of {low}")
    edges = np.geomspace(low, high, count + 1)
    edges[0], edges[-1] = low, high  # exact, geomspace may have rounded them
    return np.unique(edges)


class Classes(NamedTuple):
    """Classes of jobs by a value, and the waiting times of each class.

    Parameters
    ----------
    low, high
        A class has the values from low to below high, the last class also those equal to high.
    jobs
        How many jobs of the class ran.  mean, median : waiting time, s; NaN if none of its jobs ran.
    """

    low: Floats
    high: Floats
    jobs: Integers
    mean: Floats
    median: Floats


def waiting_by(values: Floats, waiting: Floats, edges: Floats) -> Classes:
    """Return waiting times by classes of `values`, such as nodes, run times, or their products (areas).

    Parameters
    ----------
    waiting
        s; NaN for jobs that never ran.
    edges
        Increasing, as `equal_counts` or `log_bins` make them; jobs with values outside are left out.
    """
    if len(edges) == 1:  # all values are equal
        edges = edges.repeat(2)
    which = np.searchsorted(edges, values, side="right") - 1
    which[values == edges[-1]] = len(edges) - 2
    which[np.isnan(waiting)] = -1
    of = [waiting[which == k] for k in range(len(edges) - 1)]
    return Classes(
        edges[:-1],
        edges[1:],
        np.array([len(each) for each in of], np.int64),
        np.array([mean(each) for each in of]),
        np.array([float(np.median(each)) if len(each) else math.nan for each in of]),
    )


def largest(values: Floats, share: float) -> NDArray[np.bool_]:
    """Return a mask of the `share` of jobs with the largest values: at least one job, and all ties."""
    count = max(1, round(share * len(values)))
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    made: NDArray[np.bool_] = values >= threshold
    return made


def prompt_share(waiting: Floats, within: float) -> float:
    """Return the share of jobs that wait at most `within` s; NaN if there are no jobs.

    Jobs that never ran count as jobs that wait longer.
    """
    return float(np.mean(waiting <= within)) if len(waiting) else math.nan


def rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; ties have their mean rank; NaN if all values of one are equal."""
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else math.nan


def _ranks(values: Floats) -> Floats:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    made: Floats = middle[which]
    return made
