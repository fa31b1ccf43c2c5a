"""Charts of studies: means and paired ratios over replications, and a metric over an axis of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gridsim.plots.draw import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def comparison(
    found: Any, metric: str | None = None, ratio: bool = False, *, axes: Axes | None = None
) -> Axes:
    """Draw a row per scheduler: the mean of a metric over replications, or its paired ratio to the baseline.

    Parameters
    ----------
    found
        The replications, `gridsim.Replicates`.
    metric
        The metric to draw; by default the one that compares the schedulers.
    ratio
        Draw ratios to the value of the baseline in the same replication.

    Raises
    ------
    ScenarioError
        If the metric was not measured, or for ratios without a baseline.
    """
    return draw(found.chart(metric, ratio), axes)


def swept(
    found: Any,
    metric: str | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    ratio: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw a metric over one axis of a sweep, a line per scheduler, at one point of the other axes.

    Axes are logarithmic for ratios, and for values that differ by more than a factor of 20.  Points with a
    unit, such as "50 ms", keep it in their labels.  Up to `MAX_COLOURS` lines are labelled at their ends.

    Parameters
    ----------
    found
        The results of a sweep, `gridsim.SweepResult`.
    metric
        The metric to draw; by default the first one.
    where
        Axis -> label: the point on the other axes.  It must name every axis with several labels except the
        one to draw over.  `SweepResult.figure` has a panel for each point.
    ratio
        Draw ratios to the value of the baseline in the same replication.

    Raises
    ------
    ScenarioError
        If the metric or a label does not exist, more than one axis is left to draw over, or for ratios
        without a baseline.
    """
    return draw(found.chart(metric, where, ratio), axes)
