"""Charts as plotly.js takes them: plain dicts of traces and layout, and what all of them have in common.

Colours that depend on light or dark stand as `TEXT`, `GRID` and `GROUND`; the page puts them in.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridsim.plots import COLOURS
from gridsim.plots.style import wrapped
from gridsim.results.metrics import series

Figure = dict[str, Any]

#: Of text, of grid lines, and of what charts are drawn on.
TEXT, GRID, GROUND = "@text", "@grid", "@ground"
#: Points of a trace, at most.
POINTS = 2000
#: Values that differ by no more than this part of them are one value to a chart.
_EQUAL = 1e-6
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True)
class Chart:
    """A chart with its words.

    title : its heading.  about : what it shows, in a line.  figure : ``data`` and ``layout``.
    height : px, without a legend of many lines.
    """

    title: str
    about: str
    figure: Figure
    height: int = 360

    @property
    def pixels(self) -> int:
        """Its height with the legend, which of many names has two in a line."""
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
    """That of the `number`-th of something; black is as light or dark as the text."""
    found = COLOURS[number % len(COLOURS)]
    return TEXT if found == "#000000" else found


def dash(number: int) -> str:
    """Of a line: tells those apart that have the same colour."""
    return _DASHES[number // len(COLOURS) % len(_DASHES)]


def symbol(number: int) -> str:
    """Of a point."""
    return _SYMBOLS[number % len(_SYMBOLS)]


def label(text: object) -> str:
    """Text as plotly.js shows it as it is: it takes tags and entities for formatting."""
    return html.escape(str(text))


def folded(text: object, width: int = 24) -> str:
    """`label`, of long texts over several lines; nothing is left out, so that no two names become one."""
    return "<br>".join(map(label, wrapped(str(text), width).split("\n")))


def _lines(folded: str) -> int:
    return folded.count("<br>") + 1


def numbers(values: ArrayLike) -> list[Any]:
    """Values in 7 digits, which is more than a chart shows; what is not finite as None."""
    column = np.asarray(values)
    if column.dtype.kind in "bui":
        return [int(value) for value in column.tolist()]
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in column.tolist()]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title, which has the unit in brackets."""
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
    """An axis for `values`: logarithmic if they are wide apart, with 0 if they are all the same, and with
    powers of ten if they need them."""
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


def amounts(title: str, values: ArrayLike) -> dict[str, Any]:
    """An axis from 0 to the largest of `values`."""
    return scale(title, [0.0, np.asarray(values, np.float64).max(initial=0.0)], rangemode="tozero")


def counts(title: str, largest: float) -> dict[str, Any]:
    """An axis from 0 for what is counted, without halves."""
    return axis(title, rangemode="tozero", tickformat=",", **({"dtick": 1} if largest <= 8 else {}))


def figure(traces: Iterable[Figure], x: dict[str, Any], y: dict[str, Any], **layout: Any) -> Figure:
    """Traces on two axes; a legend above them if there are several to tell apart, or as `layout` says."""
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
    """An axis from the top down with a row for each of `names`, at 0, 1, 2, ..."""
    places = list(range(len(names)))
    return axis("", tickvals=places, ticktext=list(map(folded, names))) | {
        "range": [len(names) - 0.4, -0.6],
        "title": {"text": ""},
        "showgrid": False,
        "ticklabelstandoff": 6,
    }


def row_height(names: Sequence[str]) -> int:
    """Of a chart with a row for each of `names`, px."""
    lines = max((_lines(folded(name)) for name in names), default=1)
    return 110 + len(names) * max(30, 12 + 17 * lines)
