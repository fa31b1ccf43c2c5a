"""Charts of runs on the same scenario: distributions of metrics, and counts over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridsim.plots.charts import count_chart, result_chart
from gridsim.plots.draw import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.metrics.series import Quantity
    from gridsim.results.result import Result


def distribution(
    results: Result | Mapping[str, Result], metric: str | None = None, *, axes: Axes | None = None
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
    return draw(result_chart(results, metric), axes)


def series(
    results: Result | Mapping[str, Result], quantity: Quantity = "active", *, axes: Axes | None = None
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
    return draw(count_chart(results, quantity), axes)
