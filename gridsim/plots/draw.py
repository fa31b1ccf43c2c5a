"""The function `draw`, which draws the description of a chart with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.plots.charts import Chart, CurveChart, RowChart, StepChart, WaterfallChart
from gridsim.plots.estimates import MAX_COLOURS, intervals, lines, row_chart_height, waterfall
from gridsim.plots.scales import extent, fit_scale, label_powers, log_scale, ratio_scale, with_scale
from gridsim.plots.style import (
    COLOURS,
    TOTAL_COLOUR,
    check_count,
    escape_math,
    label_width,
    label_x,
    label_y,
    legend,
    legend_size,
    series_style,
    styled_axes,
    wrap_name,
)
from gridsim.results.metrics import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Style of reference lines.
_REFERENCE: Mapping[str, Any] = {"color": COLOURS[6], "linewidth": 0.8, "linestyle": "--"}


@singledispatch
def draw(chart: Chart, axes: Axes | None = None) -> Axes:
    """Draw a chart on `axes`, or on new axes of pyplot, and return them."""
    raise TypeError(f"chart must be a chart that matplotlib draws, got {type(chart).__name__}")


@singledispatch
def panel_size(chart: Chart) -> tuple[float, float]:
    """Return the width and height (inches) of a chart as a panel of a figure."""
    return 5.0, 3.6


@draw.register(RowChart)
def _draw_rows(chart: RowChart, axes: Axes | None = None) -> Axes:
    axes = intervals(chart.samples, chart.estimates, chart.order, ratio=chart.x.scale == "ratio", axes=axes)
    if chart.reference is not None:
        axes.axvline(chart.reference, **_REFERENCE)
    title = escape_math(with_scale(axes, "x", chart.x.title))
    axes.set_xlabel(f"{wrap_name(title, 48)}\n{chart.x.note}" if chart.x.note else title)
    return axes


@panel_size.register(RowChart)
def _row_size(chart: RowChart) -> tuple[float, float]:
    return 4.2 + label_width(chart.order), row_chart_height(chart.order)


@draw.register(CurveChart)
def _draw_curves(chart: CurveChart, axes: Axes | None = None) -> Axes:
    x: Sequence[float] = range(len(chart.labels)) if chart.positions is None else chart.positions
    axes = lines(x, chart.curves, styles=chart.order, axes=axes)
    if chart.positions is not None and series.is_wide(x):
        log_scale(axes, "x")
    are_texts = bool(chart.labels) and all(isinstance(label, str) for label in chart.labels)
    if are_texts or chart.positions is None:
        label_x(axes, x, [str(label) for label in chart.labels])
        axes.xaxis.set_minor_formatter("")
        axes.tick_params(axis="x", which="minor", length=0)
    shows_unit = chart.unit and chart.positions is not None and not are_texts
    x_title = f"{chart.x.title}{f' ({chart.unit})' if shows_unit else ''}"
    axes.set_xlabel(escape_math(with_scale(axes, "x", x_title)))
    if chart.reference is not None:
        ratio_scale(axes, "y", chart.y.values)
        axes.axhline(chart.reference, **_REFERENCE)
    else:
        fit_scale(axes, "y", chart.y.values)
    label_y(axes, escape_math(with_scale(axes, "y", chart.y.title)))
    if len(chart.curves) <= MAX_COLOURS:
        _label_ends(axes, {name: line[-1].mean for name, line in chart.curves.items()}, chart.order)
    return axes


@draw.register(StepChart)
def _draw_steps(chart: StepChart, axes: Axes | None = None) -> Axes:
    check_count(len(chart.steps))
    width, height = panel_size(chart)
    axes = styled_axes(axes, width=width, height=height)
    for name, (x, y) in chart.steps.items():
        style, label = series_style(list(chart.order).index(name)), name
        if name in chart.log_names:
            style = {"color": TOTAL_COLOUR, "marker": "", "linestyle": "--"}
            label = f"{name} (recorded)"
        if chart.notes:
            label = f"{name} ({chart.notes[name]})"
            style |= {"markersize": 5, "markevery": [len(x) - 1] if len(x) else None}
        else:
            style["marker"] = None
        axes.step(x, y, where="post", label=label, linewidth=1.4 if chart.notes else 1.2, **style)
    if chart.x.scale == "fit":
        _fit_x_scale(axes, np.asarray(chart.x.values, np.float64))
    axes.set_ylim(0.0, 1.03 if chart.y.scale == "share" else None)
    axes.set_xlabel(escape_math(with_scale(axes, "x", chart.x.title)))
    axes.set_ylabel(escape_math(chart.y.title))
    if chart.notes or len(chart.steps) > 1:
        legend(axes)
    return axes


@panel_size.register(StepChart)
def _step_size(chart: StepChart) -> tuple[float, float]:
    legend_width, legend_height = legend_size(list(chart.order), extra_letters=12)
    return 5.5 + legend_width, max(3.6, legend_height)


@draw.register(WaterfallChart)
def _draw_waterfall(chart: WaterfallChart, axes: Axes | None = None) -> Axes:
    axes = waterfall(chart.names, chart.start, chart.steps, chart.end, axes=axes)
    label = escape_math(chart.x.title)
    axes.set_xlabel(f"{label}\n{chart.x.note}" if chart.x.note else label)
    return axes


@panel_size.register(WaterfallChart)
def _waterfall_size(chart: WaterfallChart) -> tuple[float, float]:
    return 8.0, row_chart_height(["", *chart.names])


def _label_ends(axes: Axes, ends: Mapping[str, float], order: Sequence[str]) -> None:
    """Replace the legend by names at the ends of the lines, at distances that avoid overlaps."""
    finite_ends = {name: value for name, value in ends.items() if np.isfinite(value)}
    if len(finite_ends) < len(ends) or not finite_ends:
        return
    if (axes_legend := axes.get_legend()) is not None:
        axes_legend.remove()
    points = axes.transScale.transform([(axes.get_xlim()[1], value) for value in finite_ends.values()])
    heights = dict(zip(finite_ends, axes.transLimits.transform(points)[:, 1].tolist(), strict=True))
    min_distance, last = 14.0 / max(extent(axes)[1], 1.0), -np.inf
    names = sorted(heights, key=heights.__getitem__)
    for name in names:
        last = heights[name] = max(heights[name], last + min_distance)
    excess = max(0.0, last - 1.0)
    for name in names:
        axes.annotate(
            escape_math(wrap_name(name)),
            (1.0, heights[name] - excess),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=series_style(list(order).index(name))["color"],
        )


def _fit_x_scale(axes: Axes, values: Any) -> None:
    """Make the x axis logarithmic if values differ widely, but linear around 0 if some are not positive."""
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not series.is_wide(magnitudes):
        axes.locator_params(axis="x", nbins=6)
        label_powers(axes, "x")
    elif np.nanmin(values) > 0:
        log_scale(axes, "x")
    else:
        smallest = max(float(magnitudes.min()), 1e-5 * float(magnitudes.max()))
        axes.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(smallest)), linscale=0.5)
        if np.nanmin(values) >= 0:
            axes.set_xlim(left=0.0)
