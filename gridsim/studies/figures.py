"""Figures of whole studies, as commands draw them: several charts in one figure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridsim.errors import ScenarioError
from gridsim.plots.charts import Chart, StepChart, count_chart, result_chart
from gridsim.plots.draw import draw, least_height, panel_size
from gridsim.plots.gantt_chart import gantt, gantt_height
from gridsim.plots.sequences import sequence
from gridsim.plots.style import TEXT_SIZE, escape_math, figure, scaled_size, small_text
from gridsim.plots.trees import traffic, tree
from gridsim.results.metrics.series import chosen_machines
from gridsim.support.arguments import one_of, real

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridsim.results.result import Result

#: The most panels of a figure.
PANELS = 6
#: Least width of a panel in a figure of a given width, inches.
_MIN_PANEL = 2.75
#: Charts of results: those that show several results together, and those that show one result each.
SHARED_CHARTS: dict[str, Callable[..., StepChart]] = {"distribution": result_chart, "series": count_chart}
SEPARATE_CHARTS: dict[str, Callable[..., Axes]] = {
    "gantt": gantt,
    "sequence": sequence,
    "traffic": traffic,
    "tree": tree,
}


def figure_of(rows: Sequence[Sequence[Chart]], headline: str = "", width: float | None = None) -> Figure:
    """Draw charts in one figure; all panels have the same size.

    Raises ScenarioError for more than `PANELS` panels in a row, or if the width is too small.

    Parameters
    ----------
    rows
        The charts of each row.
    headline
        A sentence above the charts; may be empty.
    width
        Width of the figure, inches; rows are divided if it is too small for their panels.  None for the width
        that the panels need.
    """
    if (longest := max(map(len, rows))) > PANELS:
        raise ScenarioError(f"a figure must have at most {PANELS} panels in a row, got {longest}")
    max_width, height = map(max, zip(*map(panel_size, itertools.chain(*rows)), strict=True))
    size, text_size = (max_width, height * (1.0 if len(rows) == 1 else 5 / 6)), TEXT_SIZE
    if width is not None:
        width = real("width", width, unit="in")
        longest = max(1, min(longest, int(width / _MIN_PANEL)))
        rows = [row[k : k + longest] for row in rows for k in range(0, len(row), longest)]
        text_height = max(least_height(chart, width / longest) for row in rows for chart in row)
        size, text_size = scaled_size(size, width / longest, text_height)
    fig, panels = figure(longest, rows=len(rows), width=size[0], height=size[1], text_size=text_size)
    for k, axes in enumerate(panels):
        row, column = divmod(k, longest)
        if column >= len(rows[row]):
            axes.set_visible(False)
            continue
        chart = rows[row][column]
        draw(chart, axes)
        axes.set_title(escape_math(chart.panel), fontsize=small_text(axes))
        if column and chart.y is not None and chart.y.shared and chart.y is rows[row][column - 1].y:
            axes.set_ylabel("")
            axes.tick_params(axis="y", which="both", labelleft=False)
    _head(fig, headline)
    return fig


def _head(fig: Figure, headline: str) -> None:
    """Put a sentence above the panels, wrapped to the width of the figure."""
    if headline:
        size = small_text(fig.axes[0])
        lines = textwrap.wrap(headline, int(fig.get_figwidth() * 104 / size), break_on_hyphens=False)
        fig.suptitle(escape_math("\n".join(lines)), x=0.01, ha="left", fontsize=size)


def of_results(
    kind: str,
    results: Mapping[str, Result],
    *,
    width: float | None = None,
    **options: Any,
) -> Figure:
    """Draw `results` (name -> result) in one chart, or in one chart each, one below the other.

    Raises ScenarioError for more than `PANELS` charts.

    Parameters
    ----------
    kind
        A chart of `SHARED_CHARTS` or `SEPARATE_CHARTS`.
    width
        Width of the figure, inches; None for that of the chart.
    options
        Further arguments of its function.
    """
    one_of("kind", kind, (*SHARED_CHARTS, *SEPARATE_CHARTS))
    if kind in SHARED_CHARTS:
        return figure_of([[SHARED_CHARTS[kind](results, **options)]], width=width)
    if len(results) > PANELS:
        raise ScenarioError(f"a figure must have at most {PANELS} panels, one per result, got {len(results)}")
    height = 6.0 if kind == "sequence" else 3.6
    if kind == "gantt":
        height = max(
            gantt_height(each, chosen_machines(options.get("machines"), len(each.machines)))
            for each in results.values()
        )
    size, text_size = (8.0 if kind == "traffic" else 9.0, height), TEXT_SIZE
    if width is not None:
        size, text_size = scaled_size(size, width)
    fig, panels = figure(rows=len(results), width=size[0], height=size[1], text_size=text_size)
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        SEPARATE_CHARTS[kind](result, axes=axes, **options)
        if len(results) > 1:
            note = axes.get_title(loc="left")
            axes.set_title(
                f"{escape_math(name)}: {note}" if note else escape_math(name),
                fontsize=small_text(axes),
                loc="left",
            )
    return fig
