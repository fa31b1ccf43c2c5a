"""Where the fair tree samples its summaries: the documented rule for a run's grid.

All summaries of a run share one geometric grid, so that children's matrices can be added.  The rule, from
platform and workload:

* sizes w from the smallest to the largest application, task sizes a from the smallest to the largest;
* stretches S from that of the best served application alone on the platform, ``min 1 / min(s_agg, n s_max)``,
  to twice the largest of: the worst served alone, ``max 1 / (n s_min)``; the maximum stretch that an on-line
  scheduler of the divisible load on one machine of speed s_agg reaches (replanned by the exact minimum
  stretch at every release); and what a running task, which nobody can preempt, does to a small application:
  if all N machines run one of the longest tasks, ``min(n, N)`` of them are free after about
  ``min(1, n / N) a_max / s_mean`` seconds, over the size of the application;
* neighbouring samples differ by 5 % at least: a narrower range is widened at its lower end.

The window is fixed for the run.  How many decisions fell on its lowest sample or above its highest is part
of every result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gridcore.edf import optimal_stretch
from gridcore.grid import SummaryGrid
from gridsim.errors import ScenarioError
from gridsim.model import Applications

_LEAST_RATIO = 1.05


def derive_grid(
    speeds: NDArray[np.float64], applications: Applications, samples: tuple[int, int, int]
) -> SummaryGrid:
    """The grid of a run by the rule of this module, with `samples` counts per axis."""
    tasks, total, longest = applications.tasks, float(speeds.sum()), float(applications.task_size.max())
    alone = 1.0 / np.minimum(total, tasks * speeds.max())
    blocked = np.minimum(tasks, len(speeds)) * longest / total / applications.size
    try:
        fluid = fluid_stretch(total, applications)
    except OverflowError as error:
        raise ScenarioError(
            f"platform.speed must let tasks of up to {longest:g} Mflop end in a time that float64 has, got "
            f"{total:g} Mflop/s in all"
        ) from error
    highest = 2.0 * max(
        fluid,
        float((1.0 / (tasks * speeds.min())).max()),
        float(blocked.max()),
    )
    ranges = (
        (float(alone.min()), highest),
        (float(applications.size.min()), float(applications.size.max())),
        (float(applications.task_size.min()), float(applications.task_size.max())),
    )
    axes = [_axis(low, high, count) for (low, high), count in zip(ranges, samples, strict=True)]
    if samples[1] == 1:  # one size serves all if it is the smallest
        axes[1] = (ranges[1][0], ranges[1][0], 1)
    return SummaryGrid.geometric(*axes)


def explicit_grid(grid: Sequence[Sequence[float]]) -> SummaryGrid:
    """The grid of given samples (stretch, size, task size); ScenarioError if they cannot be one."""
    try:
        return SummaryGrid(*(np.array(axis, np.float64) for axis in grid))
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"fair-tree.grid: {error}") from None


def samples_of(grid: SummaryGrid) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """What `explicit_grid` makes the same grid of."""
    return tuple(grid.stretch.tolist()), tuple(grid.size.tolist()), tuple(grid.task_size.tolist())


def fluid_stretch(speed: float, applications: Applications) -> float:
    """Maximum stretch (s/Mflop) of the divisible load on one machine of `speed` Mflop/s, on line.

    At every release the remaining work is replanned by its exact minimum stretch and then done in EDF order.
    """
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
        active, left = np.append(active, i), np.append(left, applications.size[i])
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
