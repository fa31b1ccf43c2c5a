"""Charts in the form that plotly.js takes, plain dicts of traces and layout, and what all charts share.

Colours that depend on the light or dark theme are written as `TEXT`, `GRID` and `GROUND`; the page fills them
in.
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
from gridsim.plots.style import wrapped
from gridsim.results.metrics import series

Figure = dict[str, Any]

#: Placeholders for the colours of text, of grid lines and of the background.
TEXT, GRID, GROUND = "@text", "@grid", "@ground"
#: Largest number of points of a trace.
POINTS = 2000
#: Values with a smaller relative difference than this count as equal in a chart.
_EQUAL = 1e-6
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Chart:
    """A chart with its texts.

    Parameters
    ----------
    title
        Its heading.
    about
        What it shows, in a line.
    figure
        ``data`` and ``layout``.
    height
        Px, without the extra height for a legend of many lines.
    """

    title: str
    about: str
    figure: Figure
    height: int = 360

    @property
    def pixels(self) -> int:
        """Height in px, with that of the legend if it is long: then a line of it holds two names."""
        if not self.figure["layout"]["showlegend"]:
            return self.height
        lines = sum(_lines(trace["name"]) for trace in self.figure["data"] if "name" in trace)
        return self.height + (12 * lines if lines > 8 else 0)

    @property
    def holds(self) -> bool:
        """Whether anything is drawn."""
        return any(
            any(value is not None for value in trace["x"]) and any(value is not None for value in trace["y"])
            for trace in self.figure["data"]
        )


def colour(number: int) -> str:
    """Return the colour of series `number`; black is replaced by the colour of text."""
    found = COLOURS[number % len(COLOURS)]
    return TEXT if found == "#000000" else found


def dash(number: int) -> str:
    """Return the dash style of line `number`; lines of the same colour differ in it."""
    return _DASHES[number // len(COLOURS) % len(_DASHES)]


def symbol(number: int) -> str:
    """Return the symbol of points of series `number`."""
    return _SYMBOLS[number % len(_SYMBOLS)]


def label(text: object) -> str:
    """Return text escaped for plotly.js, which would take tags and entities for formatting."""
    return html.escape(str(text))


def folded(text: object, width: int = 24) -> str:
    """Return `label` wrapped over several lines; nothing is left out, so that names stay distinct."""
    return "<br>".join(map(label, wrapped(str(text), width).split("\n")))


def _lines(folded: str) -> int:
    return folded.count("<br>") + 1


def numbers(values: ArrayLike) -> list[Any]:
    """Return values in 7 digits, which is more than a chart shows; None for values that are not finite."""
    column = np.asarray(values)
    if column.dtype.kind in "bui":
        return [int(value) for value in column.tolist()]
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in column.tolist()]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with its title, which has the unit in brackets; `more` are settings of plotly.js."""
    found: dict[str, Any] = {
        "title": {"text": folded(title, 48), "standoff": 8},
        "automargin": True,
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "exponentformat": "power",
    }
    return found | more


def scale(title: str, values: ArrayLike, **more: Any) -> dict[str, Any]:
    """Return an axis for `values`.

    It is logarithmic if they differ widely, includes 0 if they are all equal, and has powers of ten for very
    small or large values.
    """
    given = np.asarray(values, np.float64)
    known = given[np.isfinite(given)]
    if series.wide(known):
        far = known.max() > 100.0 * known.min()
        ticks = {"ticks": "outside", "ticklen": 3, "tickcolor": GRID}
        return axis(title, type="log", dtick=1 if far else "D2", minor=ticks, **more)
    largest = np.abs(known).max(initial=0.0)
    plain: dict[str, Any] = {"tickformat": ","} if largest == 0.0 or 0.01 <= largest < 1e7 else {}
    if len(known) and np.ptp(known) <= _EQUAL * largest:
        middle = float(known[0])
        plain["range"] = [min(0.0, 2.0 * middle), max(0.0, 2.0 * middle)] if middle else [0.0, 1.0]
    return axis(title, **plain, **more)


def ratios(title: str, values: ArrayLike) -> dict[str, Any]:
    """Return a logarithmic axis for ratios, with 1 on it; a linear one if some are not above 0."""
    given = np.asarray(values, np.float64)
    known = given[np.isfinite(given)]
    if not len(known) or known.min() <= 0.0:
        return scale(title, values)
    low, high = min(1.0, float(known.min())), max(1.0, float(known.max()))
    beyond = max(0.06 * math.log10(high / low), 0.0005)
    ends = [math.log10(low) - beyond, math.log10(high) + beyond]
    ticks = {"dtick": "D2"} if high / low > 4.0 else {"nticks": 6}
    return axis(title, type="log", range=ends, **ticks)


def amounts(title: str, values: ArrayLike) -> dict[str, Any]:
    """Return an axis from 0 to the largest of `values`."""
    return scale(title, [0.0, np.asarray(values, np.float64).max(initial=0.0)], rangemode="tozero")


def counts(title: str, largest: float) -> dict[str, Any]:
    """Return an axis from 0 for counts, with ticks only at whole numbers."""
    return axis(title, rangemode="tozero", tickformat=",", **({"dtick": 1} if largest <= 8 else {}))


def figure(traces: Iterable[Figure], x: dict[str, Any], y: dict[str, Any], **layout: Any) -> Figure:
    """Return a figure of traces on two axes, with a legend above if several have names, or as in `layout`."""
    data = list(traces)
    named = sum("name" in trace and trace.get("showlegend", True) for trace in data)
    return {
        "data": data,
        "layout": {
            "xaxis": x,
            "yaxis": y,
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": TEXT},
            "paper_bgcolor": GROUND,
            "plot_bgcolor": GROUND,
            "margin": {"l": 56, "r": 16, "t": 12, "b": 48},
            "showlegend": named > 1,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
            "hoverlabel": {"namelength": -1},
            **layout,
        },
    }


def rows(names: Sequence[str]) -> dict[str, Any]:
    """Return an axis from the top down with a row for each of `names`, at 0, 1, 2, ..."""
    places = list(range(len(names)))
    return axis("", tickvals=places, ticktext=list(map(folded, names))) | {
        "range": [len(names) - 0.4, -0.6],
        "title": {"text": ""},
        "showgrid": False,
        "ticklabelstandoff": 6,
    }


def row_height(names: Sequence[str]) -> int:
    """Return the height of a chart with a row for each of `names`, px."""
    lines = max((_lines(folded(name)) for name in names), default=1)
    return 110 + len(names) * max(30, 12 + 17 * lines)
