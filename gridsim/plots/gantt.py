"""The Gantt chart of a recorded run: what ran on which machine, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import GridSimError
from gridsim.model.fault_events import TooManyChanges
from gridsim.plots.scales import clock, extent
from gridsim.plots.style import COLOURS, MAP, legend, on
from gridsim.results.metrics.series import (
    chosen_machines,
    down_times,
    occupancy,
    places_of,
    recorded_schedule,
)
from gridsim.support.arrays import Integers
from gridsim.support.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

#: With more pieces than this, a raster of how busy machines were is drawn instead of the pieces.
PIECES = 100_000
#: Largest number of rows and columns of that raster.
RASTER = (500, 1000)
#: Colours of applications in turn; black is for what was not completed.
_TURN = tuple(colour for colour in COLOURS if colour != "#000000")
#: Share of white in every second one of adjacent pieces of the same colour.
_PALE = 0.4
_DOWN, _RESET = "#CCCCCC", "#777777"
#: Rows lower than this (points) have no hatches and no gaps between them.
_LOW = 5.0
#: Pieces narrower than `_NARROW` points have no hatches either, since nothing else of them would be visible;
#: instead they are darkened with this share of black, `_DARK`.
_NARROW, _DARK = 6.0, 0.55
#: Bars have outlines of their own colour, of this width in points, or this part of a row lower than a point.
#: So bars shorter than a pixel are visible, and there is little white where two bars meet within a pixel.
_RIM = 0.3


def gantt(result: Result, *, machines: Sequence[int] | slice | None = None, axes: Axes | None = None) -> Axes:
    """Draw what ran where: a row per machine, a bar per piece of the schedule, coloured by application.

    Pieces that were not completed, because of a failure or because another replica was faster, are hatched.
    If they are narrow they have a dark tone instead, and if rows are low they are black.  Times in which a
    machine was down are grey; transient failures are lines.  Adjacent pieces of one colour are alternately
    dark and pale.

    With more than `PIECES` pieces the chart is a raster of the share of the time in which machines were busy,
    and its title says so; see `gridsim.results.metrics.series.occupancy`.

    Raises ScenarioError for a run that was not recorded, and for machines that do not exist.

    Parameters
    ----------
    machines
        The machines to draw, from the top down; all by default.
    """
    schedule = recorded_schedule(result, "a Gantt chart")
    chosen = chosen_machines(machines, len(result.machines))
    place = places_of(chosen, len(result.machines))
    drawn = place[schedule["machine"]] >= 0
    rows = {name: column[drawn] for name, column in schedule.items()}
    axes = on(axes, width=9.0, height=gantt_height(len(chosen)), grid="")
    last = float(rows["end"].max()) if len(rows["end"]) else 0.0
    first = float(rows["start"].min()) if len(rows["start"]) else 0.0
    factor, unit = clock(last - first)
    if len(rows["start"]) > PIECES:
        _raster(axes, result, chosen, factor, len(rows["start"]))
    else:
        _bars(axes, result, rows, place, factor, last)
        axes.set_xlim(first / factor, (last if last > first else first + 1.0) / factor)
    axes.set_ylim(len(chosen) - 0.5, -0.5)
    ticker = need("matplotlib.ticker", "plot", "a chart")
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(
        ticker.FuncFormatter(lambda at, _: str(chosen[round(at)]) if 0 <= round(at) < len(chosen) else "")
    )
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("machine")
    return axes


def gantt_height(machines: int) -> float:
    """Return the height of a chart of the given number of machines, inches."""
    return min(6.0, max(2.4, 1.2 + 0.16 * machines))


def _bars(
    axes: Axes, result: Result, rows: dict[str, Any], place: Integers, factor: float, last: float
) -> None:
    """Draw each piece as a bar, the times in which machines were down, and the legend."""
    wide, high = extent(axes)
    points = high / max(1, int(place.max()) + 1)
    low = points < _LOW
    height = 1.0 if low else 0.8
    handles = _down(axes, result, place, factor, last)
    colours, applications = _colours(rows)
    lost = rows["completed"] == 0
    at = place[rows["machine"]]
    begin, end = rows["start"] / factor, rows["end"] / factor
    patch = need("matplotlib.patches", "plot", "a chart").Patch
    rim: dict[str, Any] = {"linewidth": _RIM * min(1.0, points)}
    _rectangles(axes, begin[~lost], end[~lost], at[~lost], height, colours[~lost], **rim)
    if lost.any():
        span = (last - float(rows["start"].min())) / factor
        hatched = lost & ((end - begin) * wide >= _NARROW * span) & (not low)
        dark = lost & ~hatched
        if dark.any():
            faces = np.zeros((int(dark.sum()), 3)) if low else _dark(colours[dark])
            _rectangles(axes, begin[dark], end[dark], at[dark], height, faces, **rim)
        if hatched.any():
            style: dict[str, Any] = {"hatch": "/////", "linewidth": 0.5, "edgecolor": "black"}
            _rectangles(axes, begin[hatched], end[hatched], at[hatched], height, colours[hatched], **style)
            handles.append(patch(label="not completed", facecolor="white", **style))
        if low:
            handles.append(patch(label="not completed", facecolor="black"))
        elif dark.any():
            handles.append(patch(label="not completed, narrow (dark)", facecolor=_dark(_TURN[0])))
    if len(applications) <= len(_TURN):
        what = "job" if result.rigid else "application"
        numbers = result.jobs_of_log
        named = [
            patch(facecolor=_TURN[k % len(_TURN)], label=f"{what} {k if numbers is None else numbers[k]}")
            for k in applications
        ]
        handles = [*named, *handles]
        note = ""
    else:
        what = "jobs" if result.rigid else "applications"
        note = f"{len(applications)} {what} in {len(_TURN)} colours, by turns"
    axes.set_title(note, fontsize="small", loc="left")
    if handles:
        legend(axes, handles=handles, place="above" if note else "right")


def _colours(rows: dict[str, Any]) -> tuple[Any, list[int]]:
    """Return the colour of each piece, float[n, 3], and the numbers of the applications of the pieces.

    Every second one of adjacent pieces on a machine that have the same colour is pale.
    """
    order = np.lexsort((rows["start"], rows["machine"]))
    turn = rows["application"] % len(_TURN)
    sorted_turn, sorted_machine = turn[order], rows["machine"][order]
    anew = np.ones(len(order), np.bool_)
    anew[1:] = (sorted_turn[1:] != sorted_turn[:-1]) | (sorted_machine[1:] != sorted_machine[:-1])
    begun = np.flatnonzero(anew)
    since = np.arange(len(order)) - np.repeat(begun, np.diff(np.append(begun, len(order))))
    pale = np.zeros(len(order), np.bool_)
    pale[order] = since % 2 == 1
    rgb = need("matplotlib.colors", "plot", "a chart").to_rgba_array(list(_TURN))[:, :3]
    colours = rgb[turn]
    colours[pale] = (1.0 - _PALE) * colours[pale] + _PALE
    return colours, np.unique(rows["application"]).tolist()


def _dark(colours: Any) -> Any:
    """Return the dark tones of narrow pieces that were not completed, float[n, 3]."""
    return (1.0 - _DARK) * need("matplotlib.colors", "plot", "a chart").to_rgba_array(colours)[:, :3]


def _down(axes: Axes, result: Result, place: Integers, factor: float, last: float) -> list[Any]:
    """Draw down times in grey and transient failures as lines; return their entries for the legend."""
    patch = need("matplotlib.patches", "plot", "a chart").Patch
    often = [patch(fill=False, label="down: too often to draw")]
    try:
        result.check_faults()
        machine, begin, end = down_times(result, last)
    except TooManyChanges:
        return often
    except (GridSimError, OSError):  # the scenario names a trace that is not here
        return [patch(fill=False, label="down: trace not found")]
    shown = place[machine] >= 0
    row, begin, end = place[machine[shown]], begin[shown], np.minimum(end[shown], last)
    if len(row) > PIECES:
        return often
    handles = []
    for some, label, colour in ((end > begin, "down", _DOWN), (end == begin, "reset", _RESET)):
        if some.any():
            _rectangles(axes, begin[some] / factor, end[some] / factor, row[some], 1.0, colour)
            handles.append(patch(facecolor=colour, label=label))
    return handles


def _rectangles(
    axes: Axes,
    begin: Any,
    end: Any,
    row: Any,
    height: float,
    colours: Any,
    linewidth: float = _RIM,
    edgecolor: str = "face",
    **style: Any,
) -> None:
    """Draw the bars as one collection; those of no length are drawn as lines."""
    collections = need("matplotlib.collections", "plot", "a chart")
    low, high = row - height / 2, row + height / 2
    corners = np.stack(
        (
            np.stack((begin, begin, end, end), axis=1),
            np.stack((low, high, high, low), axis=1),
        ),
        axis=2,
    )
    short = end <= begin
    every = isinstance(colours, str)
    if not short.all():
        long = colours if every else colours[~short]
        # snap=False: if bars were moved to whole pixels, some of many machines would not be visible
        made = collections.PolyCollection(
            corners[~short],
            facecolors=long,
            edgecolors=edgecolor,
            linewidths=linewidth,
            snap=False,
            rasterized=len(begin) > 5000,
            **style,
        )
        axes.add_collection(made, autolim=False)
    if short.any():
        thin = colours if every else colours[short]
        axes.add_collection(
            collections.LineCollection(corners[short][:, :2], colors=thin, linewidths=0.8), autolim=False
        )


def _raster(axes: Axes, result: Result, chosen: Integers, factor: float, pieces: int) -> None:
    """Draw how busy machines were, as an image with a colour bar."""
    rims, edges, share = occupancy(result, *RASTER, machines=chosen)
    mesh = axes.pcolormesh(edges / factor, rims - 0.5, share, cmap=MAP, vmin=0.0, vmax=1.0, rasterized=True)
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(mesh, ax=axes, label="share of the time busy", pad=0.01)
    each = len(chosen) / len(share)
    rows = "a machine a row" if each == 1 else f"rows of {each:.3g} machines"
    axes.set_title(f"{pieces:,} pieces: too many for bars; {rows}", fontsize="small", loc="left")
