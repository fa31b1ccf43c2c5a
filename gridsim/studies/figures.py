"""Figures of whole studies, as commands draw them: several charts in one figure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridsim.errors import ScenarioError
from gridsim.plots.gantt import gantt, gantt_height
from gridsim.plots.runs import distribution, line_chart_size, series
from gridsim.plots.sequences import sequence
from gridsim.plots.studies import ReplicationData, SweepData, comparison, row_chart_height, swept, waterfall
from gridsim.plots.style import escape_math, figure, label_width
from gridsim.plots.trees import traffic, tree
from gridsim.results.metrics.series import chosen_machines
from gridsim.studies.verdicts import of_points, of_replications
from gridsim.support.arguments import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridsim.results.metrics.estimates import Estimate
    from gridsim.results.result import Result

#: The most panels of a figure.
PANELS = 6
#: Charts of results: those that show several results together, and those that show one result each.
TOGETHER: dict[str, Callable[..., Axes]] = {"distribution": distribution, "series": series}
APART: dict[str, Callable[..., Axes]] = {
    "gantt": gantt,
    "sequence": sequence,
    "traffic": traffic,
    "tree": tree,
}


def of_replicates(found: ReplicationData, headline: bool = True) -> Figure:
    """Draw the mean of the metric of comparison for each scheduler, and its ratio to the baseline's.

    Parameters
    ----------
    headline
        Whether to write above them who is best.
    """
    names = found.schedulers
    related = found.baseline is not None and len(names) > 1
    made, panels = figure(1 + related, width=4.2 + label_width(names), height=row_chart_height(names))
    for axes, ratio in zip(panels, (False, True), strict=False):
        comparison(found, ratio=ratio, axes=axes)
    _head(made, of_replications(found) if headline else "")
    return made


def of_sweep(found: SweepData, headline: bool = True) -> Figure:
    """Draw the first metric over the first axis that has several labels, with one line per scheduler.

    There is one panel per point of the other axes, and, if there is a baseline, one with the ratios to it
    below.

    Raises ScenarioError for more than `PANELS` points.

    Parameters
    ----------
    headline
        Whether to write above them who is best.
    """
    others = [axis for axis, labels in found.axes.items() if len(labels) > 1][1:]
    points = list(dict.fromkeys(tuple(point[other] for other in others) for point in found.points()))
    if len(points) > PANELS:
        raise ScenarioError(f"a figure has at most {PANELS} panels, this sweep needs {len(points)}")
    related = found.baseline is not None and len(found.schedulers) > 1
    made, panels = figure(len(points), rows=1 + related, height=3.6 if not related else 3.0)
    for number, axes in enumerate(panels):
        where = dict(zip(others, points[number % len(points)], strict=True))
        swept(found, where=where, ratio=number >= len(points), axes=axes)
        point = ", ".join(f"{other} = {label}" for other, label in where.items())
        axes.set_title(escape_math(point), fontsize="small")
    _head(made, of_points(found) if headline else "")
    return made


def _head(made: Figure, said: str) -> None:
    """Put a sentence above the panels, wrapped to the width of the figure."""
    if said:
        letters = max(40, int(made.get_figwidth() * 12.5))
        lines = textwrap.wrap(said, letters, break_on_hyphens=False)
        made.suptitle(escape_math("\n".join(lines)), x=0.01, ha="left", fontsize="small")


def of_results(kind: str, results: Mapping[str, Result], **how: Any) -> Figure:
    """Draw `results` (name -> result) in one chart, or in one chart each, one below the other.

    Raises ScenarioError for more than `PANELS` charts.

    Parameters
    ----------
    kind
        A chart of `TOGETHER` or `APART`.
    how
        Further arguments of its function.
    """
    one_of("kind", kind, (*TOGETHER, *APART))
    if kind in TOGETHER:
        width, height = line_chart_size(list(results))
        made, (axes,) = figure(width=width, height=height)
        TOGETHER[kind](results, axes=axes, **how)
        return made
    if len(results) > PANELS:
        raise ScenarioError(f"a figure has at most {PANELS} panels, {len(results)} results need as many")
    height = 6.0 if kind == "sequence" else 3.6
    if kind == "gantt":
        sizes = [len(chosen_machines(how.get("machines"), len(each.machines))) for each in results.values()]
        height = gantt_height(max(sizes))
    made, panels = figure(rows=len(results), width=8.0 if kind == "traffic" else 9.0, height=height)
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        APART[kind](result, axes=axes, **how)
        if len(results) > 1:
            note = axes.get_title(loc="left")
            axes.set_title(
                f"{escape_math(name)}: {note}" if note else escape_math(name), fontsize="small", loc="left"
            )
    return made


def of_ladder(
    names: Sequence[str], start: Estimate, steps: Sequence[Estimate], end: Estimate, label: str
) -> Figure:
    """Draw the steps of a ladder as a waterfall; `label` names the quantity and its unit."""
    made, (axes,) = figure(1, width=8.0, height=row_chart_height(["", *names]))
    waterfall(names, start, steps, end, axes=axes)
    axes.set_xlabel(escape_math(label))
    return made
