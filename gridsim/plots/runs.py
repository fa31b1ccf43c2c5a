"""Charts of runs on the same scenario: distributions of metrics, and counts over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.scales import label_powers, log_scale, time_unit
from gridsim.plots.style import axis_title, check_count, legend, legend_size, series_style, styled_axes
from gridsim.results.metrics import series as data
from gridsim.results.schema import COLUMN_UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

#: Largest number of points of a series.
POINTS = 2000
#: Quantity of `series` -> its label on the y axis.
_QUANTITIES = {"active": "released and not finished", "waiting": "waiting", "busy": "busy machines"}


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
    runs = _results_by_name(results)
    if metric is None:
        rigid = all(result.rigid for result in runs.values())
        metric = "waiting" if rigid else "stretch_agg"
        if not all(metric in result.applications for result in runs.values()):
            metric = "stretch"
    values = {name: data.per_application(result, metric) for name, result in runs.items()}
    width, height = line_chart_size(list(runs))
    axes = styled_axes(axes, width=width, height=height)
    for number, (name, column) in enumerate(values.items()):
        x, share = data.distribution(column)
        rejected = int(np.isnan(column).sum())
        notes = [f"max {x[-1]:.3g}"] if len(x) else []
        notes += [f"{rejected} rejected"] if rejected else []
        style = series_style(number)
        axes.step(
            np.concatenate((x[:1], x)),
            np.concatenate((np.zeros(min(1, len(x))), share)),
            where="post",
            label=f"{name} ({', '.join(notes)})",
            linewidth=1.4,
            markersize=5,
            markevery=[len(x)] if len(x) else None,
            **style,
        )
    _fit_x_scale(axes, np.concatenate(list(values.values())))
    axes.set_ylim(0.0, 1.03)
    axes.set_xlabel(
        axis_title(metric, "s" if metric == "response" else COLUMN_UNITS["applications"].get(metric, ""))
    )
    axes.set_ylabel(f"share of {_item_name(runs)}")
    legend(axes)
    return axes


def series(
    results: Result | Mapping[str, Result], quantity: data.Quantity = "active", *, axes: Axes | None = None
) -> Axes:
    """Draw a count over time, such as active applications: a step line per scheduler.

    If there are more than `POINTS` steps, only the smallest and largest value of each interval are drawn.

    Parameters
    ----------
    results
        A result, or name -> result.
    quantity
        ``"active"``, ``"waiting"`` or ``"busy"``, as in `gridsim.results.metrics.series.over_time`.
    """
    runs = _results_by_name(results)
    steps = {name: data.over_time(result, quantity) for name, result in runs.items()}
    width, height = line_chart_size(list(runs))
    axes = styled_axes(axes, width=width, height=height)
    first = min((float(s.times[0]) for s in steps.values() if len(s.times)), default=0.0)
    last = max((float(s.times[-1]) for s in steps.values() if len(s.times)), default=0.0)
    factor, unit = time_unit(last - first)
    for number, (name, line) in enumerate(steps.items()):
        thinned = line.downsample(POINTS)
        style = series_style(number)
        axes.step(
            thinned.times / factor,
            thinned.values,
            where="post",
            label=name,
            linewidth=1.2,
            color=style["color"],
            linestyle=style["linestyle"],
        )
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(f"time ({unit})")
    description = _QUANTITIES[quantity]
    axes.set_ylabel(description if quantity == "busy" else f"{_item_name(runs)} {description}")
    if len(runs) > 1:
        legend(axes)
    return axes


def line_chart_size(names: Sequence[str]) -> tuple[float, float]:
    """Return the width and height (inches) of a chart with a line per name."""
    legend_width, legend_height = legend_size(names, extra_letters=12)
    return 5.5 + legend_width, max(3.6, legend_height)


def _results_by_name(results: Result | Mapping[str, Result]) -> Mapping[str, Result]:
    """Return results by name; a single result has the name of its scheduler."""
    runs = results if isinstance(results, Mapping) else {str(results.scheduler["name"]): results}
    if not runs:
        raise ScenarioError("results must contain at least one result, got none")
    check_count(len(runs))
    return runs


def _item_name(runs: Mapping[str, Result]) -> str:
    rigid = all(result.rigid for result in runs.values())
    return "jobs" if rigid else "applications"


def _fit_x_scale(axes: Axes, values: Any) -> None:
    """Make the x axis logarithmic if values differ widely, but linear around 0 if some are not positive."""
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not data.is_wide(magnitudes):
        axes.locator_params(axis="x", nbins=6)
        label_powers(axes, "x")
    elif np.nanmin(values) > 0:
        log_scale(axes, "x")
    else:
        smallest = max(float(magnitudes.min()), 1e-5 * float(magnitudes.max()))
        axes.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(smallest)), linscale=0.5)
        if np.nanmin(values) >= 0:
            axes.set_xlim(left=0.0)
