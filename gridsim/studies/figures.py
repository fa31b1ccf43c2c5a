"""Figures of whole studies, as commands draw them: several charts in one figure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridsim.errors import ScenarioError
from gridsim.plots.charts import Chart, StepChart, count_chart, result_chart
from gridsim.plots.draw import draw, panel_size
from gridsim.plots.gantt_chart import gantt, gantt_height
from gridsim.plots.sequences import sequence
from gridsim.plots.style import escape_math, figure
from gridsim.plots.trees import traffic, tree
from gridsim.results.metrics.series import chosen_machines
from gridsim.support.arguments import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridsim.results.result import Result

#: The most panels of a figure.
PANELS = 6
#: Charts of results: those that show several results together, and those that show one result each.
SHARED_CHARTS: dict[str, Callable[..., StepChart]] = {"distribution": result_chart, "series": count_chart}
SEPARATE_CHARTS: dict[str, Callable[..., Axes]] = {
    "gantt": gantt,
    "sequence": sequence,
    "traffic": traffic,
    "tree": tree,
}


def figure_of(rows: Sequence[Sequence[Chart]], headline: str = "") -> Figure:
    """Draw charts in one figure; all panels have the same size.

    Raises ScenarioError for more than `PANELS` panels in a row.

    Parameters
    ----------
    rows
        The charts of each row, equally many.
    headline
        A sentence above the charts; may be empty.
    """
    if len(rows[0]) > PANELS:
        raise ScenarioError(f"a figure must have at most {PANELS} panels in a row, got {len(rows[0])}")
    charts = [chart for row in rows for chart in row]
    width, height = map(max, zip(*map(panel_size, charts), strict=True))
    fig, panels = figure(
        len(rows[0]), rows=len(rows), width=width, height=height * (1.0 if len(rows) == 1 else 5 / 6)
    )
    for axes, chart in zip(panels, charts, strict=True):
        draw(chart, axes)
        axes.set_title(escape_math(chart.panel), fontsize="small")
    _head(fig, headline)
    return fig


def _head(fig: Figure, headline: str) -> None:
    """Put a sentence above the panels, wrapped to the width of the figure."""
    if headline:
        letters = max(40, int(fig.get_figwidth() * 12.5))
        lines = textwrap.wrap(headline, letters, break_on_hyphens=False)
        fig.suptitle(escape_math("\n".join(lines)), x=0.01, ha="left", fontsize="small")


def of_results(kind: str, results: Mapping[str, Result], **options: Any) -> Figure:
    """Draw `results` (name -> result) in one chart, or in one chart each, one below the other.

    Raises ScenarioError for more than `PANELS` charts.

    Parameters
    ----------
    kind
        A chart of `SHARED_CHARTS` or `SEPARATE_CHARTS`.
    options
        Further arguments of its function.
    """
    one_of("kind", kind, (*SHARED_CHARTS, *SEPARATE_CHARTS))
    if kind in SHARED_CHARTS:
        return figure_of([[SHARED_CHARTS[kind](results, **options)]])
    if len(results) > PANELS:
        raise ScenarioError(f"a figure must have at most {PANELS} panels, one per result, got {len(results)}")
    height = 6.0 if kind == "sequence" else 3.6
    if kind == "gantt":
        height = max(
            gantt_height(each, chosen_machines(options.get("machines"), len(each.machines)))
            for each in results.values()
        )
    fig, panels = figure(rows=len(results), width=8.0 if kind == "traffic" else 9.0, height=height)
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        SEPARATE_CHARTS[kind](result, axes=axes, **options)
        if len(results) > 1:
            note = axes.get_title(loc="left")
            axes.set_title(
                f"{escape_math(name)}: {note}" if note else escape_math(name), fontsize="small", loc="left"
            )
    return fig
