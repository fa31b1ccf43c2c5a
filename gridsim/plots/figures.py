"""Figures that commands draw: several charts side by side, of a whole study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridsim.errors import ScenarioError
from gridsim.plots.studies import comparison, rows_height, swept, waterfall
from gridsim.plots.style import figure, room

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridsim.estimates import Estimate
    from gridsim.replication import Replicates
    from gridsim.sweep_results import SweepResult

#: Of a figure of a sweep, at most.
PANELS = 6


def of_replicates(found: Replicates) -> Figure:
    """What schedulers are compared by, of each its mean and its ratio to the baseline's."""
    names = found.schedulers
    related = found.baseline is not None and len(names) > 1
    made, panels = figure(1 + related, width=4.2 + room(names), height=rows_height(names))
    for axes, ratio in zip(panels, (False, True), strict=False):
        comparison(found, ratio=ratio, axes=axes)
    return made


def of_sweep(found: SweepResult) -> Figure:
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
        axes.set_title(", ".join(f"{other} = {label}" for other, label in where.items()), fontsize="small")
    return made


def of_ladder(
    names: Sequence[str], start: Estimate, steps: Sequence[Estimate], end: Estimate, label: str
) -> Figure:
    """The steps of a ladder as a waterfall; what is drawn is called `label`."""
    made, (axes,) = figure(1, width=8.0, height=rows_height(["", *names]))
    waterfall(names, start, steps, end, axes=axes)
    axes.set_xlabel(label)
    return made
