"""Charts as data of plotly.js (dicts of traces and layout), and the axes, colours and labels they share.

`TEXT`, `GRID` and `BACKGROUND` are placeholders for colours that depend on the light or dark theme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridsim.plots import COLOURS
from gridsim.plots.style import series_look, wrap_name
from gridsim.results.metrics import series
from gridsim.support.text import number_text

Figure = dict[str, Any]

#: Placeholders for the colours of text, of grid lines and of the background.
TEXT, GRID, BACKGROUND = "@text", "@grid", "@background"
#: Largest number of points of a trace.
POINTS = 2000
#: Values with a smaller relative difference than this count as equal in a chart.
_EQUALITY_TOLERANCE = 1e-6
_DASHES = ("solid", "dash", "dashdot", "dot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class PlotlyChart:
    """A chart with its title and caption.

    Parameters
    ----------
    title
        Heading of the chart.
    caption
        Sentence on the values that the chart shows.
    figure
        Data and layout for plotly.js.
    height
        Height (px) without the extra height for a legend of many lines.
    """

    title: str
    caption: str
    figure: Figure
    height: int = 360

    @property
    def pixels(self) -> int:
        """Height (px), including a legend of more than eight lines, for which 12 px per line are added."""
        if not self.figure["layout"]["showlegend"]:
            return self.height
        lines = sum(_line_count(trace["name"]) for trace in self.figure["data"] if "name" in trace)
        return self.height + (12 * lines if lines > 8 else 0)

    @property
    def has_data(self) -> bool:
        """Whether any trace has a point."""
        return any(
            any(value is not None for value in trace["x"]) and any(value is not None for value in trace["y"])
            for trace in self.figure["data"]
        )


def colour(number: int) -> str:
    """Return the colour of series `number`; black is replaced by the text colour of the theme."""
    entry = COLOURS[series_look(number)[0]]
    return TEXT if entry == "#000000" else entry


def dash(number: int) -> str:
    """Return the dash style of line `number`; lines of equal colour have different dash styles."""
    return _DASHES[series_look(number)[1]]


def symbol(number: int, hollow: bool = False) -> str:
    """Return the marker symbol of series `number`; that of a scheduler that is not ranked is hollow."""
    return _SYMBOLS[series_look(number)[2]] + "-open" * hollow


def label(text: object) -> str:
    """Return text escaped for plotly.js, which interprets tags and entities as formatting."""
    return html.escape(str(text))


def wrapped_label(text: object, width: int = 24) -> str:
    """Return `label` wrapped over several lines; it is not shortened, so that names stay distinct."""
    return "<br>".join(map(label, wrap_name(str(text), width).split("\n")))


def _line_count(text: str) -> int:
    return text.count("<br>") + 1


def numbers(values: ArrayLike) -> list[Any]:
    """Return values rounded to 7 digits, enough for a chart; None for values that are not finite."""
    column = np.asarray(values)
    if column.dtype.kind in "bui":
        return [int(value) for value in column.tolist()]
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in column.tolist()]


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """Return an axis with a title, such as "time (s)"; `settings` are further properties of plotly.js."""
    entries: dict[str, Any] = {
        "title": {"text": wrapped_label(title, 40), "standoff": 8},
        "automargin": True,
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "exponentformat": "power",
    }
    return entries | settings


def value_axis(
    title: str, values: ArrayLike, *, is_log: bool | None = None, **settings: Any
) -> dict[str, Any]:
    """Return an axis for `values`.

    The axis is logarithmic if `is_log`, by default if the values differ widely, and includes 0 if they are
    all equal.  Very small or large values have ticks in powers of ten.
    """
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    if series.is_wide(finite) if is_log is None else is_log:
        minor = {"ticks": "outside", "ticklen": 3, "tickcolor": GRID, "dtick": "D1"}
        return _log_axis(title, float(finite.min()), float(finite.max()), minor=minor, **settings)
    largest = np.abs(finite).max(initial=0.0)
    options: dict[str, Any] = {"tickformat": ","} if largest == 0.0 or 0.01 <= largest < 1e7 else {}
    if len(finite) and np.ptp(finite) <= _EQUALITY_TOLERANCE * largest:
        middle = float(finite[0])
        options["range"] = [min(0.0, 2.0 * middle), max(0.0, 2.0 * middle)] if middle else [0.0, 1.0]
    return axis(title, **options, **settings)


def ratio_axis(title: str, values: ArrayLike) -> dict[str, Any]:
    """Return a logarithmic axis for ratios that includes 1; a linear one if some ratios are not positive."""
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    if not len(finite) or finite.min() <= 0.0:
        return value_axis(title, values)
    low, high = min(1.0, float(finite.min())), max(1.0, float(finite.max()))
    margin = max(0.06 * math.log10(high / low), 0.0005)
    ends = [math.log10(low) - margin, math.log10(high) + margin]
    return _log_axis(title, low, high, range=ends)


def _log_axis(title: str, low: float, high: float, **settings: Any) -> dict[str, Any]:
    """Return a logarithmic axis with ticks at 1, 2 and 5 times powers of ten, or over 100 times at these.

    plotly would label 20 and 50 by "2" and "5".  Over a factor of up to 4, it labels equal distances.
    """
    ticks: dict[str, Any] = {"nticks": 6}
    if high > 100.0 * low:
        ticks = {"dtick": 1}
    elif high > 4.0 * low:
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        values = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
        ticks = {"tickvals": values, "ticktext": list(map(number_text, values))}
    return axis(f"{title}, log scale", type="log", **ticks, **settings)


def amount_axis(title: str, values: ArrayLike) -> dict[str, Any]:
    """Return an axis from 0 to the largest of `values`."""
    return value_axis(title, [0.0, np.asarray(values, np.float64).max(initial=0.0)], rangemode="tozero")


def count_axis(title: str, largest: float) -> dict[str, Any]:
    """Return an axis for counts that starts at 0, with ticks at whole numbers."""
    return axis(title, rangemode="tozero", tickformat=",", **({"dtick": 1} if largest <= 8 else {}))


def figure(traces: Iterable[Figure], x: dict[str, Any], y: dict[str, Any], **layout: Any) -> Figure:
    """Return a figure of traces on two axes; it has a legend if several traces have names."""
    data = list(traces)
    legend_entries = sum("name" in trace and trace.get("showlegend", True) for trace in data)
    return {
        "data": data,
        "layout": {
            "xaxis": x,
            "yaxis": y,
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": TEXT},
            "paper_bgcolor": BACKGROUND,
            "plot_bgcolor": BACKGROUND,
            "margin": {"l": 56, "r": 16, "t": 12, "b": 48},
            "showlegend": legend_entries > 1,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
            "hoverlabel": {"namelength": -1},
            **layout,
        },
    }


def row_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return a downward axis with a row for each name, at positions 0, 1, 2, ..."""
    positions = list(range(len(names)))
    return axis("", tickvals=positions, ticktext=list(map(wrapped_label, names))) | {
        "range": [len(names) - 0.4, -0.6],
        "title": {"text": ""},
        "showgrid": False,
        "ticklabelstandoff": 6,
    }


def row_height(names: Sequence[str]) -> int:
    """Return the height (px) of a chart with a row for each name."""
    lines = max((_line_count(wrapped_label(name)) for name in names), default=1)
    return 110 + len(names) * max(30, 12 + 17 * lines)
