"""The function `draw`, which draws the description of a chart with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.plots.charts import Chart, CurveChart, RowChart, StepChart, WaterfallChart
from gridsim.plots.estimates import intervals, lines, row_chart_height, waterfall
from gridsim.plots.looks import series_label
from gridsim.plots.scales import (
    extent,
    label_powers,
    log_scale,
    padded_range,
    ratio_scale,
    with_scale,
)
from gridsim.plots.style import (
    COLOURS,
    TOTAL_COLOUR,
    check_count,
    escape_math,
    label_width,
    label_x,
    legend,
    legend_least_height,
    legend_size,
    name_x,
    name_y,
    rows_least_height,
    series_style,
    small_text,
    styled_axes,
    wrap_name,
)
from gridsim.results.metrics import series
from gridsim.support.arguments import real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Maximum number of lines that are labelled at their ends.
MAX_LABELS = 8
#: Style of reference lines.
_REFERENCE: Mapping[str, Any] = {"color": COLOURS[6], "linewidth": 0.8, "linestyle": "--"}


@singledispatch
def draw(chart: Chart, axes: Axes | None = None, width: float | None = None) -> Axes:
    """Draw a chart on `axes`, or on new axes of pyplot of this width (inches), and return the axes."""
    raise TypeError(f"chart must be a chart that matplotlib draws, got {type(chart).__name__}")


@singledispatch
def panel_size(chart: Chart) -> tuple[float, float]:
    """Return the width and height (inches) of a chart as a panel of a figure."""
    return 5.0, 3.6


@singledispatch
def least_height(chart: Chart, width: float) -> float:
    """Return the height (inches) that the text of a chart of this width (inches) needs; 0 if it is little."""
    return 0.0


@draw.register(RowChart)
def _draw_rows(chart: RowChart, axes: Axes | None = None, width: float | None = None) -> Axes:
    axes = intervals(
        chart.samples,
        chart.estimates,
        chart.order,
        ratio=chart.x.scale == "ratio",
        log=chart.x.is_log,
        exclusions=chart.exclusions,
        width=width,
        axes=axes,
    )
    if chart.reference is not None:
        axes.axvline(chart.reference, **_REFERENCE)
    name_x(axes, escape_math(with_scale(axes, "x", chart.x.title)), chart.x.note)
    return axes


@panel_size.register(RowChart)
def _row_size(chart: RowChart) -> tuple[float, float]:
    labels = [series_label(name, chart.exclusions) for name in chart.order]
    return 4.2 + label_width(labels), row_chart_height(labels)


@least_height.register(RowChart)
@least_height.register(WaterfallChart)
def _rows_least_height(chart: RowChart | WaterfallChart, width: float) -> float:
    return rows_least_height(panel_size(chart)[1])


@draw.register(CurveChart)
def _draw_curves(chart: CurveChart, axes: Axes | None = None, width: float | None = None) -> Axes:
    x: Sequence[float] = range(len(chart.labels)) if chart.positions is None else chart.positions
    axes = lines(x, chart.curves, styles=chart.order, constants=chart.constants, width=width, axes=axes)
    if chart.positions is not None and series.is_wide(x):
        log_scale(axes, "x")
    are_texts = bool(chart.labels) and all(isinstance(label, str) for label in chart.labels)
    if are_texts or chart.positions is None:
        label_x(axes, x, [str(label) for label in chart.labels])
        axes.xaxis.set_minor_formatter("")
        axes.tick_params(axis="x", which="minor", length=0)
    shows_unit = chart.unit and chart.positions is not None and not are_texts
    x_title = f"{chart.x.title}{f' ({chart.unit})' if shows_unit else ''}"
    name_x(axes, escape_math(with_scale(axes, "x", x_title)))
    if chart.reference is not None:
        ratio_scale(axes, "y", chart.y.values)
        axes.axhline(chart.reference, **_REFERENCE)
    else:
        (log_scale if chart.y.is_log else label_powers)(axes, "y")
        limits = padded_range(chart.y.values, is_log=chart.y.is_log) if chart.y.shared else None
        if limits is not None:
            axes.set_ylim(limits)
    name_y(axes, escape_math(with_scale(axes, "y", chart.y.title)))
    for name, points in chart.unranked_points.items():
        axes.plot(
            [x[k] for k in points],
            [chart.curves[name][k].mean for k in points],
            markersize=4,
            markerfacecolor="white",
            zorder=3,
            **series_style(chart.looks[name]) | {"linestyle": ""},
        )
    if len(chart.curves) <= MAX_LABELS:
        _label_ends(axes, chart)
    return axes


@draw.register(StepChart)
def _draw_steps(chart: StepChart, axes: Axes | None = None, width: float | None = None) -> Axes:
    check_count(len(chart.steps))
    text_height = 0.0 if width is None else least_height(chart, real("width", width, unit="in"))
    axes = styled_axes(axes, width, size=panel_size(chart), least_height=text_height)
    for name, (x, y) in chart.steps.items():
        if name in chart.log_names:
            style: dict[str, Any] = {"color": TOTAL_COLOUR, "marker": "", "linestyle": "--"}
            label = f"{name} (recorded)"
        else:
            style, label = series_style(chart.looks[name]), name
        if chart.notes:
            label = f"{name} ({chart.notes[name]})"
            style |= {"markersize": 5, "markevery": [len(x) - 1] if len(x) else None}
            style |= {"markerfacecolor": "white"} if name in chart.exclusions else {}
        else:
            style["marker"] = None
        axes.step(x, y, where="post", label=label, linewidth=1.4 if chart.notes else 1.2, **style)
    if chart.x.scale == "fit":
        _fit_x_scale(axes, np.asarray(chart.x.values, np.float64))
    axes.set_ylim(0.0, 1.03 if chart.y.scale == "share" else None)
    name_x(axes, escape_math(with_scale(axes, "x", chart.x.title)))
    name_y(axes, escape_math(chart.y.title))
    if chart.notes or len(chart.steps) > 1:
        legend(axes)
    return axes


@panel_size.register(StepChart)
def _step_size(chart: StepChart) -> tuple[float, float]:
    legend_width, legend_height = legend_size(list(chart.order), extra_letters=12)
    return 5.5 + legend_width, max(3.6, legend_height)


@least_height.register(StepChart)
def _steps_least_height(chart: StepChart, width: float) -> float:
    return legend_least_height([f"{name} (max 0.0001)" for name in chart.order], width)


@draw.register(WaterfallChart)
def _draw_waterfall(chart: WaterfallChart, axes: Axes | None = None, width: float | None = None) -> Axes:
    axes = waterfall(chart.names, chart.start, chart.steps, chart.end, width=width, axes=axes)
    name_x(axes, escape_math(chart.x.title), chart.x.note)
    return axes


@panel_size.register(WaterfallChart)
def _waterfall_size(chart: WaterfallChart) -> tuple[float, float]:
    return 8.0, row_chart_height(["", *chart.names])


def _label_ends(axes: Axes, chart: CurveChart) -> None:
    """Replace the legend by names at the ends of the lines, at distances that avoid overlaps."""
    values = {name: line[-1].mean for name, line in chart.curves.items()}
    finite_ends = {name: value for name, value in values.items() if np.isfinite(value)}
    if len(finite_ends) < len(values) or not finite_ends:
        return
    if (axes_legend := axes.get_legend()) is not None:
        axes_legend.remove()
    points = axes.transScale.transform([(axes.get_xlim()[1], value) for value in finite_ends.values()])
    heights = dict(zip(finite_ends, axes.transLimits.transform(points)[:, 1].tolist(), strict=True))
    min_distance = 1.7 * small_text(axes) / max(extent(axes)[1], 1.0)
    names = sorted(heights, key=heights.__getitem__)
    places = _spread([heights[name] for name in names], min_distance)
    are_moved = any(
        abs(place - heights[name]) > 0.3 * min_distance for name, place in zip(names, places, strict=True)
    )
    indent = 0.045 if are_moved else 0.0
    for name, place in zip(names, places, strict=True):
        colour = series_style(chart.looks[name])["color"]
        if are_moved:  # a thin line leads to each name
            ends = [1.0, 1.0 + indent], [heights[name], place]
            axes.plot(*ends, transform=axes.transAxes, clip_on=False, color=colour, linewidth=0.7)
        axes.annotate(
            escape_math(wrap_name(series_label(name, chart.exclusions))),
            (1.0 + indent, place),
            (2 if are_moved else 6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=small_text(axes),
            color=colour,
        )


def _spread(heights: Sequence[float], distance: float) -> list[float]:
    """Return ascending heights, moved little, to be `distance` apart; within 0..1 if they fit."""
    groups: list[list[float]] = []  # heights less the distances below them; a group has their mean
    for k, height in enumerate(heights):
        groups.append([height - k * distance])
        while len(groups) > 1 and np.mean(groups[-2]) >= np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    bases = [float(np.mean(group)) for group in groups for _ in group]
    highest = max(0.0, 1.0 - (len(bases) - 1) * distance)
    return [min(max(base, 0.0), highest) + k * distance for k, base in enumerate(bases)]


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
