"""The grid on which the fair tree samples its summaries, and the rule that derives it for a run.

All summaries of a run share one geometric grid, so that the matrices of children can be added.  The rule uses
the platform and the workload (n tasks of an application, s the speed of machines):

* Sizes w range from half the smallest application to the largest; the lower end is half, since messages delay
  requests.  Where machines may fail, sizes begin at 2 % of the smallest application, since lost tasks return
  with an old release, or at a single task (if that is less) where lost tasks return as bags of their own.
  Both ends are 1 % lower, so that a request with a small delay finds its sample.
* Task sizes a range from the smallest to the largest.
* Stretches S begin at the stretch of the best-served application alone on the platform, ``min 1 / min(s_agg,
  n s_max)``.  They end at twice the largest of three values: the stretch of the
  worst-served application alone, ``max 1 / (n s_min)``; the maximum stretch that an on-line scheduler of the
  divisible load on one machine of speed s_agg reaches (replanned by the exact minimum stretch at every
  release); and the delay of a small application by running tasks, which cannot be preempted.  If all
  N machines run one of the longest tasks, ``min(n, N)`` of them are free after about
  ``min(1, n / N) a_max / s_mean`` seconds, which is divided by the size of the application.
* Where lost tasks return as bags of their own, whose n may be 1, the first of these values is ten times the
  stretch of a single task, ``10 / s_min``.
* Where not all machines have the memory and disk that the tasks of an application need, it counts in the
  second and third of these values as if it were larger by the ratio of the throughput of all machines to
  that of the suitable ones.
* Neighbouring stretches differ by at least 5 %; a narrower range is widened at its lower end.
* Where the number of cells is given, and neighbouring sizes and task sizes are far apart, the upper end of
  the stretches is multiplied by the square root of the product of both ratios, divided by 1.3, since an
  application is looked up at the next size and task size.

A given number of cells is divided by the same rule for every workload.  Task sizes and sizes first get enough
samples to keep neighbours within a factor of 4 and of 6, but at most 8 and 9 samples, and at most as many as
leave room for 10 stretches: with fewer, a small application of a job log would find no room at any sample.
Then stretches, sizes and task sizes get more samples, until neighbours are within 14 % (stretches) or 30 %
(sizes and task sizes).

The window is fixed for the run.  Every result says how many decisions fell on its lowest sample or above its
highest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gridcore.queues.edf import optimal_stretch
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications

_LEAST_RATIO = 1.05
#: The smallest size relative to the smallest application: where lost tasks return with an old release, and
#: where only messages delay requests.
_LEAST_SIZE_FAILING, _LEAST_SIZE = 0.02, 0.5
#: Factor on both ends of the sizes, so that a request with a small delay finds its sample.
_MARGIN = 0.99
#: If `samples` is the number of cells: ratios of neighbouring stretches, and of neighbouring sizes and task
#: sizes, that need no further samples; the largest acceptable ratios of sizes and of task sizes; the maximum
#: numbers of sizes and task sizes, and the minimum number of stretches.
_STRETCH_RATIO, _FINE_RATIO = 1.14, 1.3
_SIZE_RATIO, _TASK_SIZE_RATIO = 6.0, 4.0
_SIZES, _TASK_SIZES, _STRETCHES = 9, 8, 10


def derive_grid(
    speeds: NDArray[np.float64],
    applications: Applications,
    samples: int | tuple[int, int, int],
    *,
    failing: bool = False,
    as_new_bags: bool = False,
    slowdown: NDArray[np.float64] | None = None,
) -> SummaryGrid:
    """Derive the grid of a run by the rule of this module.

    Parameters
    ----------
    samples
        Maximum number of cells, or the numbers of stretch, size and task size samples.
    failing
        Whether machines may fail.
    as_new_bags
        Whether lost tasks are submitted as bags of their own.
    slowdown
        For each application, the factor by which data transfers reduce the throughput of the platform.

    Raises
    ------
    ScenarioError
        If the speeds are so low that a time exceeds float64.
    """
    tasks, total, longest = applications.tasks, float(speeds.sum()), float(applications.task_size.max())
    lone_stretch = 1.0 / np.minimum(total, tasks * speeds.max())
    blocking_delays = np.minimum(tasks, len(speeds)) * longest / total / applications.size
    work = applications.size if slowdown is None else applications.size * slowdown
    if applications.suited is not None:
        fewer = (total / (applications.suited @ speeds))[applications.group]
        blocking_delays, work = blocking_delays * fewer, work * fewer
    try:
        fluid = fluid_stretch(total, applications, work)
    except OverflowError as error:
        raise ScenarioError(
            f"platform.speed must let tasks of up to {longest:g} Mflop end within the range of float64, got "
            f"{total:g} Mflop/s in all"
        ) from error
    fewest, smallest = float(tasks.min()), float(applications.size.min())
    smallest *= _LEAST_SIZE_FAILING if failing else _LEAST_SIZE
    if failing and as_new_bags:
        fewest, smallest = 0.1, min(smallest, float(applications.task_size.min()))
    highest = 2.0 * max(fluid, 1.0 / (fewest * float(speeds.min())), float(blocking_delays.max()))
    if slowdown is not None:  # the time to fill the pipeline of a machine counts as well
        highest *= 1.0 + 2.0 * float((slowdown > 1.0).any())
    ranges = (
        (float(lone_stretch.min()), highest),
        (_MARGIN * smallest, _MARGIN * float(applications.size.max())),
        (float(applications.task_size.min()), longest),
    )
    if isinstance(samples, int):
        stretches, *other_ranges = (math.log(high) - math.log(low) for low, high in ranges)
        counts = _divide_cells(samples, stretches, *other_ranges)
        gap = sum(
            log_range / (count - 1)
            for log_range, count in zip(other_ranges, counts[1:], strict=True)
            if count > 1
        )
        extra = max(0.0, gap / 2.0 - math.log(_FINE_RATIO))
        ranges = ((ranges[0][0], highest * math.exp(extra)), *ranges[1:])
        samples = _divide_cells(samples, stretches + extra, *other_ranges)
    axes = [_axis(low, high, count) for (low, high), count in zip(ranges, samples, strict=True)]
    if samples[1] == 1:  # a single size serves all applications only if it is the smallest one
        alone_size = _MARGIN * float(applications.size.min())
        axes[1] = (alone_size, alone_size, 1)
    return SummaryGrid.geometric(*axes)


def _divide_cells(cells: int, stretches: float, sizes: float, task_sizes: float) -> tuple[int, int, int]:
    """Return the number of samples on each axis of a summary with at most `cells` cells.

    Parameters
    ----------
    stretches, sizes, task_sizes
        The logarithm of the ratio of the ends of each axis.
    """
    max_count = max(1, cells // _STRETCHES)
    task_size_count = min(_TASK_SIZES, _step_count(task_sizes, _TASK_SIZE_RATIO) + 1, max_count)
    size_count = min(_SIZES, _step_count(sizes, _SIZE_RATIO) + 1, max_count // task_size_count)
    stretch_count = min(_step_count(stretches, _STRETCH_RATIO) + 1, cells // (size_count * task_size_count))
    fine_count = min(_SIZES, _step_count(sizes, _FINE_RATIO) + 1)
    size_count = max(size_count, min(fine_count, cells // (stretch_count * task_size_count)))
    fine_count = min(_TASK_SIZES, _step_count(task_sizes, _FINE_RATIO) + 1)
    task_size_count = max(task_size_count, min(fine_count, cells // (stretch_count * size_count)))
    return stretch_count, size_count, task_size_count


def _step_count(log_range: float, ratio: float) -> int:
    return math.ceil(log_range / math.log(ratio) - 1e-9)


def explicit_grid(grid: Sequence[Sequence[float]]) -> SummaryGrid:
    """Return the grid of given samples (stretch, size, task size).

    Raises
    ------
    ScenarioError
        If the samples cannot form a grid.
    """
    try:
        axes = [np.array(axis, np.float64) for axis in grid]
        if len(axes) != 3:
            raise ValueError(f"must be samples of stretch, size and task_size, got {len(axes)} axes")
        return SummaryGrid(*axes)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"fair-tree.grid: {error}") from None


def samples_of(grid: SummaryGrid) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the samples of `grid` from which `explicit_grid` makes the same grid."""
    return tuple(grid.stretch.tolist()), tuple(grid.size.tolist()), tuple(grid.task_size.tolist())


def fluid_stretch(speed: float, applications: Applications, work: NDArray[np.float64] | None = None) -> float:
    """Return the maximum stretch (s/Mflop) of an on-line schedule of the divisible load on one machine.

    At every release the remaining work is replanned by its exact minimum stretch and then done in EDF order.

    Parameters
    ----------
    speed
        Mflop/s of the machine.
    work
        Remaining work of each application, Mflop; its size by default.
    """
    work = applications.size if work is None else work
    worst, now = 0.0, 0.0
    active = np.zeros(0, np.int64)
    remaining_work = np.zeros(0)
    for i, release in enumerate(applications.release.tolist()):
        done = np.cumsum(remaining_work) <= (release - now) * speed
        budget = (release - now) * speed - float(remaining_work[done].sum())
        active, remaining_work = active[~done], remaining_work[~done]
        if len(remaining_work):
            remaining_work[0] -= budget
        now = release
        active, remaining_work = np.append(active, i), np.append(remaining_work, work[i])
        r, w = applications.release[active], applications.size[active]
        stretch = optimal_stretch(r, w, remaining_work, speed=speed, now=now)
        worst = max(worst, stretch)
        order = np.argsort(r + stretch * w, kind="stable")
        active, remaining_work = active[order], remaining_work[order]
    return worst


def _axis(low: float, high: float, count: int) -> tuple[float, float, int]:
    if count == 1:
        return high, high, 1
    return min(low, high / _LEAST_RATIO ** (count - 1)), high, count
