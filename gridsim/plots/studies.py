"""Charts of several runs and of studies: distributions, counts over time, means, ratios and sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gridsim.plots.charts import count_chart, result_chart
from gridsim.plots.draw import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.metrics.series import Quantity
    from gridsim.results.result import Result


def comparison(
    found: Any,
    metric: str | None = None,
    ratio: bool = False,
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a row per scheduler: the mean of a metric over replications, or its paired ratio to the baseline.

    Schedulers that are not ranked, since others reject fewer jobs, are last, with hollow marks and no ratio.

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
    return draw(found.chart(metric, ratio), axes, width)


def swept(
    found: Any,
    metric: str | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    ratio: bool = False,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a metric over one axis of a sweep, a line per scheduler, at one point of the other axes.

    Axes are logarithmic for ratios, and for values that differ by more than a factor of 20.  Points with a
    unit, such as "50 ms", keep it in their labels.  Up to eight lines are labelled at their ends.  Points
    of schedulers that are not ranked are hollow, and have no ratio.

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
    return draw(found.chart(metric, where, ratio), axes, width)


def distribution(
    results: Result | Mapping[str, Result],
    metric: str | None = None,
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the cumulative distribution of a metric over applications: a step line per scheduler.

    The legend states the maximum of each line.  The scale is logarithmic if values differ by more than a
    factor of `series.MAX_LINEAR_RATIO`; around 0 it is linear if some values are not positive.  Rejected
    jobs have no value, but count in the shares, so that the line ends below 1.

    Parameters
    ----------
    results
        A result, or name -> result.
    metric
        A column of ``applications``, or ``"response"``, which is finish - release.  By default the stretch
        without a unit, or the waiting time of rigid jobs.
    """
    return draw(result_chart(results, metric), axes, width)


def series(
    results: Result | Mapping[str, Result],
    quantity: Quantity = "active",
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a count over time, such as active applications: a step line per scheduler.

    If there are more than `gridsim.plots.charts.POINTS` steps, only the smallest and largest value of each
    interval are drawn.

    Parameters
    ----------
    results
        A result, or name -> result.
    quantity
        ``"active"``, ``"waiting"`` or ``"busy"``, as in `gridsim.results.metrics.series.over_time`.
    """
    return draw(count_chart(results, quantity), axes, width)
