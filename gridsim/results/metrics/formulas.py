"""Formulas of metrics: pure functions of arrays.  Times are in s, work is in Mflop, speeds are in Mflop/s."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.model.platform import Platform
from gridsim.support.arrays import Floats

#: Definition of the bounded slowdown of a rigid job, `job_slowdown`.
SLOWDOWN = "max(1, (waiting time + run time) / max(run time, 10 s))"
#: Number of values that are converted to Python floats in one step; as floats they take four times the
#: memory.
_BLOCK = 1 << 16


def total(values: NDArray[Any]) -> float:
    """Return the sum, rounded only once, so that it is the same on every processor.

    Raises
    ------
    OverflowError
        If the sum is too large for float64.
    """
    if len(values) <= _BLOCK:
        return math.fsum(values.tolist())
    blocks = (values[k : k + _BLOCK].tolist() for k in range(0, len(values), _BLOCK))
    return math.fsum(chain.from_iterable(blocks))


def stretch(release: Floats, finish: Floats, size: Floats) -> Floats:
    """Return the stretch of each application, (finish - release) / size, s/Mflop."""
    return (finish - release) / size


def bounded_slowdown(
    release: Floats, finish: Floats, size: Floats, aggregate_speed: float, threshold: float = 10.0
) -> Floats:
    """Return the time in the system over the time on the idle platform, at least 1.

    The divisor is at least `threshold` s, so that tiny applications do not dominate the result.
    """
    time_alone = np.maximum(size / aggregate_speed, threshold)
    return np.maximum((finish - release) / time_alone, 1.0)


def job_slowdown(waiting: Floats, run_time: Floats, threshold: float = 10.0) -> Floats:
    """Return the bounded slowdown of rigid jobs, `SLOWDOWN` (Feitelson et al. 1997)."""
    return np.maximum((waiting + run_time) / np.maximum(run_time, threshold), 1.0)


def request_utilization(release: Floats, nodes: Floats, run_time: Floats, machines: int) -> float:
    """Return the node time of rigid jobs over that of `machines` nodes from the first to the last release.

    It is infinite if all jobs are released at once.  It is the RU of the DGS_ASAP paper, for a whole log.
    """
    span = float(release.max() - release.min())
    return total(nodes * run_time) / (machines * span) if span > 0 else math.inf


def utilization_within(
    start: Floats, finish: Floats, nodes: NDArray[Any], period: tuple[float, float], machines: int
) -> float:
    """Return the share of the time of `machines` within a period in which jobs ran; NaN for an empty period.

    Parameters
    ----------
    start, finish
        Start and end of each job, s.
    nodes
        Number of machines of each job.
    period
        Begin and end, s.
    """
    begin, end = period
    inside = np.maximum(np.minimum(finish, end) - np.maximum(start, begin), 0.0)
    return total(nodes * inside) / (machines * (end - begin)) if end > begin else math.nan


def makespan(release: Floats, finish: Floats) -> float:
    """Return the time from the first release to the last finish, s; a finish of NaN is ignored."""
    return float(np.fmax.reduce(finish) - release.min())


def utilization(busy: Floats, span: float) -> Floats:
    """Return the share of `span` s in which each machine was busy; 0 for an empty span."""
    return busy / span if span > 0 else np.zeros_like(busy)


def mean(values: Floats) -> float:
    """Return the arithmetic mean, summed exactly (the same on every processor); NaN without values."""
    try:
        return total(values) / len(values) if len(values) else math.nan
    except OverflowError:  # the sum may be too large for float64, the mean never is
        scale = 0.5 ** len(values).bit_length()
        return total(values * scale) / len(values) / scale


def weighted_mean(values: Floats, weights: NDArray[Any]) -> float:
    """Return the mean of `values` with `weights` (> 0); NaN without values."""
    return total(values * weights) / total(weights) if len(values) else math.nan


def load_of(release: Floats, size: Floats, aggregate_speed: float) -> float:
    """Return the load: work over the capacity of the platform from the first to the last release.

    It is infinite if all work is released at once.  Above 1 the queues grow while applications arrive.
    """
    span = float(release.max() - release.min())
    return total(size) / (aggregate_speed * span) if span > 0 else math.inf


def wasted_share(cycles: Mapping[str, Floats]) -> float:
    """Return the share of redundant, lost and overhead cycles among these and useful cycles.

    Cycles taken by background load (``slowed``) are not counted.  The result is NaN if the sum is 0.

    Parameters
    ----------
    cycles
        Kind of cycles -> Mflop of each application.
    """
    wasted = total(np.concatenate([cycles[name] for name in ("redundant", "lost", "overhead")]))
    cycles_done = wasted + total(cycles["useful"])
    return wasted / cycles_done if cycles_done > 0 else math.nan


def quantiles(values: Floats, shares: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)) -> Floats:
    """Return the quantiles at `shares` (in 0..1), interpolated linearly."""
    result: Floats = np.quantile(values, np.asarray(shares, dtype=np.float64))
    return result


def running_mean(return_time: Floats, turnaround: Floats) -> tuple[Floats, Floats]:
    """Return the times at which results return, ascending, and the mean turnaround of all jobs so far."""
    order = np.argsort(return_time, kind="stable")
    means: Floats = np.cumsum(turnaround[order]) / np.arange(1, len(order) + 1)
    return return_time[order], means


def prediction_errors(predicted: Floats, actual: Floats) -> Floats:
    """Return abs(predicted - actual) / actual for each job that moved and had to wait.

    Parameters
    ----------
    predicted
        Predicted wait at the chosen node when it was chosen, s; NaN for jobs that stayed.
    actual
        Actual wait, s; the error is undefined for a wait of 0.
    """
    is_defined = ~np.isnan(predicted) & (actual > 0)
    errors: Floats = np.abs(predicted[is_defined] - actual[is_defined]) / actual[is_defined]
    return errors


def offered_load(applications: Applications, platform: Platform) -> float:
    """Return the load of applications on a platform: sum w / (s_agg * span), with the span of the releases.

    It is infinite if all applications are released at once.  Above 1 queues grow while applications arrive.
    """
    return load_of(applications.release, applications.size, platform.aggregate_speed)


def load_of_whole_machines(applications: Applications, platform: Platform) -> float:
    """Return the load of rigid jobs that have machines of equal cores to themselves; NaN for others.

    A job takes the fewest machines on which its cores fit.
    """
    if platform.cores is None or np.ptp(platform.cores) or not platform.has_equal_speeds:
        return math.nan
    cores = int(platform.cores[0])
    per_machine = cores // (1 if applications.cores is None else applications.cores)
    limit = 1 if applications.tasks_per_machine is None else applications.tasks_per_machine
    per_machine = np.where(limit == 0, per_machine, np.minimum(limit, per_machine))
    machines = -(-applications.tasks // np.maximum(per_machine, 1))
    return load_of(applications.release, machines * cores * applications.task_size, platform.aggregate_speed)
