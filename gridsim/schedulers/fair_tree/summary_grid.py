"""The grid on which the fair tree samples its summaries, and the rule that derives it for a run.

All summaries of a run share one geometric grid, so that the matrices of children can be added.  The rule uses
the platform and the workload (n tasks of an application, s the speed of machines):

* Sizes w range from half the smallest application to the largest; the lower end is half, since messages make
  a request late.  Where machines may fail, they begin at 2 % of the smallest, since lost tasks come back with
  an old release, and at a single task (if that is less) where lost tasks come back as bags of their own.
  Both ends are 1 % lower, so that a request that is hardly late finds its sample.
* Task sizes a range from the smallest to the largest.
* Stretches S begin at that of the best served application alone on the platform,
  ``min 1 / min(s_agg, n s_max)``.  They end at twice the largest of three values: the stretch of the worst
  served application alone, ``max 1 / (n s_min)``; the maximum stretch that an on-line scheduler of the
  divisible load on one machine of speed s_agg reaches (replanned by the exact minimum stretch at every
  release); and the delay of a small application by running tasks, which cannot be preempted.  If all N
  machines run one of the longest tasks, ``min(n, N)`` of them are free after about
  ``min(1, n / N) a_max / s_mean`` seconds, which is divided by the size of the application.
* Where lost tasks come back as bags of their own, whose n may be 1, the worst served alone has ten times the
  stretch of a single task, ``10 / s_min``.
* Where not all machines have the memory and disk that the tasks of an application need, it counts for the
  second and third of the three as if it were larger, by what all machines do over what those do that suit.
* Neighbouring stretches differ by at least 5 %; a narrower range is widened at its lower end.
* Where the number of cells is given, and sizes and task sizes are far apart, stretches end higher by the
  square root of the product of both ratios, over 1.3: an application is looked up at the next size and task
  size.

A given number of cells is divided by the same rule for every workload.  Task sizes and sizes first get as
many samples as keep neighbours within a factor of 4 and of 6, but no more than 8 and 9, and leave room for 10
stretches: with fewer, a small application of a job log finds no room anywhere.  Then come stretches, sizes
and task sizes, up to what keeps neighbours within 14 % (stretches) or 30 % (sizes and task sizes).

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
#: The smallest size relative to the smallest application: where lost tasks come back with an old release, and
#: where only messages make requests late.
_LEAST_SIZE_FAILING, _LEAST_SIZE = 0.02, 0.5
#: Factor on both ends of the sizes, so that a request that is a little late finds its sample.
_MARGIN = 0.99
#: Where `samples` is the number of cells: ratios of neighbouring stretches, and of neighbouring sizes and
#: task sizes, that are close enough; the largest ratios of sizes and of task sizes that are good enough; the
#: largest numbers of sizes and task sizes, and the least number of stretches.
_STRETCH_RATIO, _FINE_RATIO = 1.14, 1.3
_SIZE_RATIO, _TASK_SIZE_RATIO = 6.0, 4.0
_SIZES, _TASK_SIZES, _STRETCHES = 9, 8, 10


def derive_grid(
    speeds: NDArray[np.float64],
    applications: Applications,
    samples: int | tuple[int, int, int],
    *,
    failing: bool = False,
    anew: bool = False,
    slowdown: NDArray[np.float64] | None = None,
) -> SummaryGrid:
    """Derive the grid of a run by the rule of this module.

    Parameters
    ----------
    samples
        The largest number of cells, or the numbers of stretch, size and task size samples.
    failing
        Whether machines may fail.
    anew
        Whether lost tasks are then bags of their own.
    slowdown
        For each application, by how much less the platform gets done of it since its tasks move data.

    Raises
    ------
    ScenarioError
        If the speeds are so low that a time is beyond float64.
    """
    tasks, total, longest = applications.tasks, float(speeds.sum()), float(applications.task_size.max())
    lone_stretch = 1.0 / np.minimum(total, tasks * speeds.max())
    blocked = np.minimum(tasks, len(speeds)) * longest / total / applications.size
    work = applications.size if slowdown is None else applications.size * slowdown
    if applications.suited is not None:
        fewer = (total / (applications.suited @ speeds))[applications.group]
        blocked, work = blocked * fewer, work * fewer
    try:
        fluid = fluid_stretch(total, applications, work)
    except OverflowError as error:
        raise ScenarioError(
            f"platform.speed must let tasks of up to {longest:g} Mflop end in a time that float64 has, got "
            f"{total:g} Mflop/s in all"
        ) from error
    fewest, smallest = float(tasks.min()), float(applications.size.min())
    smallest *= _LEAST_SIZE_FAILING if failing else _LEAST_SIZE
    if failing and anew:
        fewest, smallest = 0.1, min(smallest, float(applications.task_size.min()))
    highest = 2.0 * max(fluid, 1.0 / (fewest * float(speeds.min())), float(blocked.max()))
    if slowdown is not None:  # the pipeline of a machine has to be filled, too
        highest *= 1.0 + 2.0 * float((slowdown > 1.0).any())
    ranges = (
        (float(lone_stretch.min()), highest),
        (_MARGIN * smallest, _MARGIN * float(applications.size.max())),
        (float(applications.task_size.min()), longest),
    )
    if isinstance(samples, int):
        stretches, *others = (math.log(high) - math.log(low) for low, high in ranges)
        counts = _shared_out(samples, stretches, *others)
        apart = sum(wide / (count - 1) for wide, count in zip(others, counts[1:], strict=True) if count > 1)
        more = max(0.0, apart / 2.0 - math.log(_FINE_RATIO))
        ranges = ((ranges[0][0], highest * math.exp(more)), *ranges[1:])
        samples = _shared_out(samples, stretches + more, *others)
    axes = [_axis(low, high, count) for (low, high), count in zip(ranges, samples, strict=True)]
    if samples[1] == 1:  # a single size serves all applications if it is the smallest one
        alone_size = _MARGIN * float(applications.size.min())
        axes[1] = (alone_size, alone_size, 1)
    return SummaryGrid.geometric(*axes)


def _shared_out(cells: int, stretches: float, sizes: float, task_sizes: float) -> tuple[int, int, int]:
    """Return the number of samples on each axis of a summary of at most `cells` cells.

    Parameters
    ----------
    stretches, sizes, task_sizes
        The logarithm of the ratio of the ends of each axis.
    """
    room = max(1, cells // _STRETCHES)
    of_task_sizes = min(_TASK_SIZES, _steps(task_sizes, _TASK_SIZE_RATIO) + 1, room)
    of_sizes = min(_SIZES, _steps(sizes, _SIZE_RATIO) + 1, room // of_task_sizes)
    of_stretches = min(_steps(stretches, _STRETCH_RATIO) + 1, cells // (of_sizes * of_task_sizes))
    fine = min(_SIZES, _steps(sizes, _FINE_RATIO) + 1)
    of_sizes = max(of_sizes, min(fine, cells // (of_stretches * of_task_sizes)))
    fine = min(_TASK_SIZES, _steps(task_sizes, _FINE_RATIO) + 1)
    of_task_sizes = max(of_task_sizes, min(fine, cells // (of_stretches * of_sizes)))
    return of_stretches, of_sizes, of_task_sizes


def _steps(wide: float, ratio: float) -> int:
    return math.ceil(wide / math.log(ratio) - 1e-9)


def explicit_grid(grid: Sequence[Sequence[float]]) -> SummaryGrid:
    """Return the grid of given samples (stretch, size, task size).

    Raises ScenarioError if they cannot form a grid.
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
        What each application has of it, Mflop; its size by default.
    """
    work = applications.size if work is None else work
    worst, now = 0.0, 0.0
    active = np.zeros(0, np.int64)
    left = np.zeros(0)
    for i, release in enumerate(applications.release.tolist()):
        done = np.cumsum(left) <= (release - now) * speed
        budget = (release - now) * speed - float(left[done].sum())
        active, left = active[~done], left[~done]
        if len(left):
            left[0] -= budget
        now = release
        active, left = np.append(active, i), np.append(left, work[i])
        r, w = applications.release[active], applications.size[active]
        stretch = optimal_stretch(r, w, left, speed=speed, now=now)
        worst = max(worst, stretch)
        order = np.argsort(r + stretch * w, kind="stable")
        active, left = active[order], left[order]
    return worst


def _axis(low: float, high: float, count: int) -> tuple[float, float, int]:
    if count == 1:
        return high, high, 1
    return min(low, high / _LEAST_RATIO ** (count - 1)), high, count
