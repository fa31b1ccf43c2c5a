"""Metrics of rigid jobs: pure functions of arrays.  Times are in s; those of jobs that never ran are NaN."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.results.metrics.formulas import mean
from gridsim.support.arrays import Floats, Integers

# -- utilization over time ------------------------------------------------------------------------------


def intervals(start: float, end: float, length: float) -> Floats:
    """Return the edges of intervals of `length` s from `start` on, the last of which contains `end`.

    Raises
    ------
    ValueError
        If `length` is not positive and finite, or `end` is before `start` or infinite.
    """
    if not (0 < length < math.inf and start <= end < math.inf):
        raise ValueError(
            f"length must be > 0 and start <= end, all finite, got length {length}, start {start} and "
            f"end {end} s"
        )
    edges: Floats = start + length * np.arange(math.floor((end - start) / length) + 2, dtype=np.float64)
    while edges[-1] <= end:  # rounding may leave `end` outside the last interval
        edges = np.append(edges, start + length * len(edges))
    return edges


def request_series(
    edges: Floats, release: Floats, nodes: Integers, run_time: Floats, machines: int
) -> Floats:
    """Return the request utilization RU of each interval.

    It is the node seconds of the jobs released in the interval / the node seconds of all machines.

    Parameters
    ----------
    edges
        Edges of the intervals, s.
    machines
        Number of machines.
    """
    interval = np.searchsorted(edges, release, side="right") - 1
    inside = (interval >= 0) & (interval < len(edges) - 1)
    requested = np.bincount(interval[inside], (nodes * run_time)[inside], minlength=len(edges) - 1)
    utilization: Floats = requested / (machines * np.diff(edges))
    return utilization


def effective_series(
    edges: Floats, first_start: Floats, finish: Floats, nodes: Integers, machines: int
) -> Floats:
    """Return the effective utilization EU of each interval.

    It is the node seconds in which jobs run / the node seconds of all machines.

    Parameters
    ----------
    edges
        Edges of the intervals, s.
    machines
        Number of machines.
    first_start, finish
        Start and end of the run of each job, s; NaN for jobs that never ran.
    """
    has_run = ~(np.isnan(first_start) | np.isnan(finish))
    start, end, width = first_start[has_run], finish[has_run], nodes[has_run]
    busy = [
        float(width @ np.maximum(np.minimum(end, high) - np.maximum(start, low), 0.0))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    utilization: Floats = np.array(busy) / (machines * np.diff(edges))
    return utilization


# -- waiting by classes of jobs -------------------------------------------------------------------------


def quantile_bins(values: Floats, count: int) -> Floats:
    """Return the edges of at most `count` classes of about equal size; equal values share a class."""
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, count + 1)))


def log_bins(values: Floats, count: int) -> Floats:
    """Return the edges of `count` classes that cover all values and are equally wide on a log scale.

    Raises
    ------
    ValueError
        If a value is not positive.
    """
    low, high = float(values.min()), float(values.max())
    if not low > 0:
        raise ValueError(f"values must be > 0, got {low}")
    edges = np.geomspace(low, high, count + 1)
    edges[0], edges[-1] = low, high  # geomspace may round the limits
    return np.unique(edges)


class WaitingByClass(NamedTuple):
    """Waiting times of jobs, grouped into classes by a property such as the number of nodes.

    Parameters
    ----------
    low, high
        Limits of each class: its values are at least low and below high; the last class also includes high.
    jobs
        Number of jobs of each class that ran.
    mean, median
        Waiting time of each class, s; NaN if none of its jobs ran.
    """

    low: Floats
    high: Floats
    jobs: Integers
    mean: Floats
    median: Floats


def waiting_by_class(values: Floats, waiting: Floats, edges: Floats) -> WaitingByClass:
    """Return the waiting times by class of `values`, such as nodes, run times, or their products (areas).

    Parameters
    ----------
    waiting
        Waiting times, s; NaN for jobs that never ran.
    edges
        Increasing limits of the classes, such as those of `quantile_bins` or `log_bins`; jobs with other
        values are left out.
    """
    if len(edges) == 1:  # all values are equal
        edges = edges.repeat(2)
    class_of_job = np.searchsorted(edges, values, side="right") - 1
    class_of_job[values == edges[-1]] = len(edges) - 2
    class_of_job[np.isnan(waiting)] = -1
    waits = [waiting[class_of_job == k] for k in range(len(edges) - 1)]
    return WaitingByClass(
        edges[:-1],
        edges[1:],
        np.array([len(sample) for sample in waits], np.int64),
        np.array([mean(sample) for sample in waits]),
        np.array([float(np.median(sample)) if len(sample) else math.nan for sample in waits]),
    )


def largest(values: Floats, share: float) -> NDArray[np.bool_]:
    """Return a mask of the `share` of jobs with the largest values: at least one job, with all ties."""
    count = max(1, round(share * len(values)))
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    mask: NDArray[np.bool_] = values >= threshold
    return mask


def prompt_share(waiting: Floats, limit: float) -> float:
    """Return the share of jobs that wait at most `limit` s; NaN without jobs.

    Jobs that never ran count as jobs with longer waits.
    """
    return float(np.mean(waiting <= limit)) if len(waiting) else math.nan


def rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation with mean ranks of ties; NaN if all values of x or y are equal."""
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else math.nan


def _ranks(values: Floats) -> Floats:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    ranks: Floats = mean_ranks[index]
    return ranks
