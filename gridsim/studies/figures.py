"""Figures that commands draw: several charts side by side, of a whole study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridsim.errors import ScenarioError
from gridsim.plots.gantt import gantt, gantt_height
from gridsim.plots.runs import distribution, runs_size, series
from gridsim.plots.studies import Replicated, Swept, comparison, rows_height, swept, waterfall
from gridsim.plots.style import figure, plain, room
from gridsim.plots.trees import traffic, tree
from gridsim.results.metrics.series import chosen_machines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridsim.results.metrics.estimates import Estimate
    from gridsim.results.result import Result

#: Of a figure, at most.
PANELS = 6
#: Charts of results: several in one, or one below the other.
TOGETHER: dict[str, Callable[..., Axes]] = {"distribution": distribution, "series": series}
APART: dict[str, Callable[..., Axes]] = {"gantt": gantt, "traffic": traffic, "tree": tree}


def of_replicates(found: Replicated) -> Figure:
    """What schedulers are compared by, of each its mean and its ratio to the baseline's."""
    names = found.schedulers
    related = found.baseline is not None and len(names) > 1
    made, panels = figure(1 + related, width=4.2 + room(names), height=rows_height(names))
    for axes, ratio in zip(panels, (False, True), strict=False):
        comparison(found, ratio=ratio, axes=axes)
    return made


def of_sweep(found: Swept) -> Figure:
    """The first metric over the first axis, a line a scheduler; a panel for each point of the other axes.

    Raises ScenarioError for more than `PANELS` of these.
    """
    others = [axis for axis, labels in found.axes.items() if len(labels) > 1][1:]
    points = list(dict.fromkeys(tuple(point[other] for other in others) for point in found.points()))
    if len(points) > PANELS:
        raise ScenarioError(f"a figure has at most {PANELS} panels, this sweep needs {len(points)}")
    made, panels = figure(len(points))
    for axes, labels in zip(panels, points, strict=True):
        where = dict(zip(others, labels, strict=True))
        swept(found, where=where, axes=axes)
        point = ", ".join(f"{other} = {label}" for other, label in where.items())
        axes.set_title(plain(point), fontsize="small")
    return made


def of_results(kind: str, results: Mapping[str, Result], **how: Any) -> Figure:
    """A chart of results, by names: of all in one, or where that cannot be, one below the other.

    kind : of `TOGETHER` or `APART`.  how : what that function takes besides.

    Raises ScenarioError for more than `PANELS` charts.
    """
    if kind in TOGETHER:
        width, height = runs_size(list(results))
        made, (axes,) = figure(width=width, height=height)
        TOGETHER[kind](results, axes=axes, **how)
        return made
    if len(results) > PANELS:
        raise ScenarioError(f"a figure has at most {PANELS} panels, {len(results)} results need as many")
    height = 3.6
    if kind == "gantt":
        sizes = [len(chosen_machines(how.get("machines"), len(each.machines))) for each in results.values()]
        height = gantt_height(max(sizes))
    made, panels = figure(rows=len(results), width=8.0 if kind == "traffic" else 9.0, height=height)
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        APART[kind](result, axes=axes, **how)
        if len(results) > 1:
            note = axes.get_title(loc="left")
            axes.set_title(f"{plain(name)}: {note}" if note else plain(name), fontsize="small", loc="left")
    return made


def of_ladder(
    names: Sequence[str], start: Estimate, steps: Sequence[Estimate], end: Estimate, label: str
) -> Figure:
    """The steps of a ladder as a waterfall; what is drawn is called `label`."""
    made, (axes,) = figure(1, width=8.0, height=rows_height(["", *names]))
    waterfall(names, start, steps, end, axes=axes)
    axes.set_xlabel(plain(label))
    return made
