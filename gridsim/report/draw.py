"""draw(): draws the description of a chart with plotly; the counterpart of `gridsim.plots.draw`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from gridsim.plots.charts import Chart, ChartAxis, CurveChart, RowChart, StepChart, WaterfallChart
from gridsim.plots.looks import series_label
from gridsim.plots.scales import padded_range
from gridsim.plots.style import COLOURS, TOTAL_COLOUR
from gridsim.report.figures import (
    TEXT,
    Figure,
    PlotlyChart,
    axis,
    colour,
    count_axis,
    dash,
    figure,
    label,
    numbers,
    ratio_axis,
    row_axis,
    row_height,
    symbol,
    value_axis,
    wrapped_label,
)
from gridsim.results.metrics.estimates import Estimate


@singledispatch
def draw(chart: Chart) -> PlotlyChart:
    """Return a chart as data of plotly.js."""
    raise TypeError(f"chart must be a chart that plotly draws, got {type(chart).__name__}")


@draw.register(RowChart)
def _draw_rows(chart: RowChart) -> PlotlyChart:
    """Draw a row per estimate: its confidence interval, and its samples as faint dots."""
    traces: list[Figure] = []
    for row, (name, estimate) in enumerate(chart.estimates.items()):
        values = np.asarray(chart.samples[name], np.float64)
        number = chart.looks[name]
        spread = (np.arange(len(values)) / max(1, len(values) - 1) - 0.5) * 0.4
        dots = {"color": colour(number), "size": 4, "opacity": 0.35}
        traces.append(
            {"type": "scatter", "mode": "markers", "x": numbers(values), "y": numbers(row + spread)}
            | {"marker": dots, "hovertemplate": "%{x:.5g}<extra></extra>"}
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": numbers([estimate.mean]),
                "y": [row],
                "error_x": _error_bars([estimate], thickness=2, width=5, color=colour(number)),
                "marker": {"color": colour(number), "size": 10}
                | {"symbol": symbol(number, name in chart.exclusions)},
                "hovertemplate": f"{label(name)}: {label(estimate.format())}<extra></extra>",
            }
        )
    names = [series_label(name, chart.exclusions) for name in chart.estimates]
    plot = figure(traces, _axis(chart.x), row_axis(names), showlegend=False, hovermode="closest")
    if chart.reference is not None:
        plot["layout"]["shapes"] = [
            {"type": "line", "xref": "x", "x0": chart.reference, "x1": chart.reference}
            | {"yref": "paper", "y0": 0, "y1": 1, "line": {"color": TEXT, "width": 1, "dash": "dot"}}
        ]
    return PlotlyChart(chart.title, chart.caption, plot, row_height(names))


@draw.register(CurveChart)
def _draw_curves(chart: CurveChart) -> PlotlyChart:
    """Draw a line per name, with confidence intervals."""
    is_numeric = chart.positions is not None
    x = (
        numbers(np.array(chart.positions, np.float64))
        if is_numeric
        else [label(each) for each in chart.labels]
    )
    traces = []
    for name, row in chart.curves.items():
        number, hollow = chart.looks[name], chart.unranked_points.get(name, ())
        symbols = [symbol(number, k in hollow) for k in range(len(row))]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines" if name in chart.constants else "lines+markers",
                "name": wrapped_label(series_label(name, chart.exclusions)),
                "x": x,
                "y": numbers([estimate.mean for estimate in row]),
                "error_y": {} if name in chart.constants else _error_bars(row, thickness=1.5, width=4),
                "line": {"color": colour(number), "dash": dash(number)},
                "marker": {"symbol": symbols if hollow else symbol(number), "size": 7},
            }
        )
    title = f"{chart.x.title} ({chart.unit})" if chart.unit and is_numeric else chart.x.title
    x_axis = value_axis(title, x) if is_numeric else axis(title, type="category")
    return PlotlyChart(chart.title, chart.caption, figure(traces, x_axis, _axis(chart.y)))


@draw.register(StepChart)
def _draw_steps(chart: StepChart) -> PlotlyChart:
    traces = []
    for name, (x, y) in chart.steps.items():
        heights = np.rint(y).astype(np.int64) if chart.y.scale == "count" else 100.0 * y
        label_text = f"{name} (recorded)" if name in chart.log_names else series_label(name, chart.exclusions)
        traces.append(line_trace(chart.looks.get(name), label_text, x, heights))
    plot = figure(traces, _axis(chart.x), _axis(chart.y), showlegend=len(chart.order) > 1)
    return PlotlyChart(chart.title, chart.caption, plot)


@draw.register(WaterfallChart)
def _draw_waterfall(chart: WaterfallChart) -> PlotlyChart:
    estimates = [chart.start, *chart.steps, chart.end]
    widths = np.array([estimate.mean for estimate in estimates])
    offsets = np.concatenate(([0.0], np.cumsum(widths[:-2]), [0.0]))
    steps = [COLOURS[1] if step.mean > 0 else COLOURS[0] for step in chart.steps]
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "base": numbers(offsets),
        "x": numbers(widths),
        "y": list(range(len(estimates))),
        "error_x": _error_bars(estimates, thickness=1.5, width=4, color=TEXT),
        "marker": {"color": [TOTAL_COLOUR, *steps, TOTAL_COLOUR]},
        "text": [label(estimate.format()) for estimate in estimates],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }
    names = [*chart.names, "all together"]
    plot = figure([bars], axis(chart.x.title), row_axis(names), showlegend=False, hovermode="closest")
    return PlotlyChart(chart.title, chart.caption, plot, row_height(names))


def line_trace(number: int | None, name: str, x: Any, y: Any) -> Figure:
    """Return the trace of a step function in the style of series `number`; None is grey, for a job log."""
    style = {"color": TOTAL_COLOUR, "dash": "dash"}
    if number is not None:
        style = {"color": colour(number), "dash": dash(number)}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": wrapped_label(name),
        "x": numbers(x),
        "y": numbers(y),
        "line": {**style, "width": 2, "shape": "hv"},
    }


def _error_bars(estimates: Sequence[Estimate], **style: Any) -> Figure:
    """Return error bars from the means to the ends of the intervals; of length 0 if there is none."""
    high, low = (
        [0.0 if math.isnan(end) else abs(end - each.mean) for each, end in zip(estimates, ends, strict=True)]
        for ends in ([each.high for each in estimates], [each.low for each in estimates])
    )
    return style | {"type": "data", "symmetric": False, "array": numbers(high), "arrayminus": numbers(low)}


def _axis(description: ChartAxis) -> dict[str, Any]:
    """Return the axis with a scale that fits its values."""
    title, values = description.title, description.values
    if description.scale == "ratio":
        return ratio_axis(title, values)
    if description.scale == "time":
        return axis(title, tickformat=",")
    if description.scale == "count":
        return count_axis(title, float(np.max(values, initial=0.0)))
    if description.scale == "share":
        return axis(f"{title} (%)", range=[0, 102])
    is_log = description.is_log
    limits = padded_range(values, is_log=is_log) if description.shared else None
    if limits is None:
        return value_axis(title, values, is_log=is_log)
    return value_axis(
        title, values, is_log=is_log, range=[math.log10(end) for end in limits] if is_log else [*limits]
    )
