"""The Gantt chart of a recorded run: the work of each machine over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.fault_events import TooManyChanges
from gridsim.plots.scales import extent
from gridsim.plots.style import (
    APPLICATION_COLOURS,
    MAP,
    PALE_SHARE,
    colour_bar,
    job_colours,
    legend,
    small_text,
    styled_axes,
)
from gridsim.results.metrics.series import (
    chosen_machines,
    core_lanes,
    down_times,
    machine_cores,
    occupancy,
    positions_in,
    recorded_schedule,
)
from gridsim.support.arrays import Integers
from gridsim.support.imports import import_extra
from gridsim.support.text import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

#: A schedule with more pieces of work than this is drawn as a raster of the machines' utilization.
PIECES = 100_000
#: Largest number of rows and columns of the raster.
RASTER = (500, 1000)
_DOWN, _TRANSIENT = "#CCCCCC", "#777777"
#: Rows lower than this height (points) have no hatches and no gaps.
_LOW_ROW = 5.0
#: A chart is higher for the cores of its machines, up to this number of cores.
_MAX_LANES = 8
#: Pieces narrower than `_NARROW_PIECE` points have no hatches, which would hide their colour; they are
#: darkened with a share `_DARK_SHARE` of black instead.
_NARROW_PIECE, _DARK_SHARE = 6.0, 0.55
#: Width of the outlines of bars in points, or as a share of the row height if that is less than a point.
#: Outlines make bars narrower than a pixel visible, and cover the white gap between bars that meet in a
#: pixel.
_OUTLINE = 0.3


def gantt(
    result: Result,
    *,
    machines: Sequence[int] | slice | None = None,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a schedule: a row per machine, a bar per piece of work, coloured by application.

    The row of a machine with several cores has a lane per core, and a piece is as high as its cores.

    Pieces that were not completed, because of a failure or because another replica was faster, are hatched.
    Narrow ones are dark instead, and in low rows they are black.  Down times of machines are grey; transient
    failures are lines.  Adjacent pieces of equal colour are alternately dark and pale; rigid jobs have one
    tone each.

    With more than `PIECES` pieces the chart is a raster of the machines' utilization, as its title states,
    from `gridsim.results.metrics.series.occupancy`.

    Parameters
    ----------
    machines
        The machines to draw, from the top down; all by default.

    Raises
    ------
    ScenarioError
        If the run has no recorded schedule or an empty one, or a machine does not exist.
    """
    schedule = recorded_schedule(result, "a Gantt chart")
    if not len(schedule["machine"]):
        raise ScenarioError(
            f"a Gantt chart requires recorded tasks, but the run of {result.scheduler['name']} has none: no "
            "task was executed, or the scheduler does not support record=True (its Outcome.schedule is empty)"
        )
    shown_machines = chosen_machines(machines, len(result.machines))
    row_of = positions_in(shown_machines, len(result.machines))
    is_shown = row_of[schedule["machine"]] >= 0
    rows = {name: column[is_shown] for name, column in schedule.items()}
    axes = styled_axes(axes, width, size=(9.0, gantt_height(result, shown_machines)), grid="")
    last = float(rows["end"].max()) if len(rows["end"]) else 0.0
    first = float(rows["start"].min()) if len(rows["start"]) else 0.0
    factor, unit = time_unit(last - first)
    if len(rows["start"]) > PIECES:
        _draw_raster(axes, result, shown_machines, factor, len(rows["start"]))
    else:
        _draw_bars(axes, result, rows, row_of, factor, last)
        axes.set_xlim(first / factor, (last if last > first else first + 1.0) / factor)
    axes.set_ylim(len(shown_machines) - 0.5, -0.5)
    ticker = import_extra("matplotlib.ticker", "plot", "a chart")
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(
        ticker.FuncFormatter(
            lambda at, _: str(shown_machines[round(at)]) if 0 <= round(at) < len(shown_machines) else ""
        )
    )
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("machine")
    return axes


def gantt_height(result: Result, machines: Integers) -> float:
    """Return the height (inches) of a Gantt chart of some machines of a result."""
    lanes = min(int(machine_cores(result)[machines].max()), _MAX_LANES) * len(machines)
    return min(6.0, max(2.4, 1.2 + 0.16 * lanes))


def _draw_bars(
    axes: Axes, result: Result, rows: dict[str, Any], row_of: Integers, factor: float, last: float
) -> None:
    """Draw each piece of work as a bar, the down times of machines, and the legend."""
    width, height_points = extent(axes)
    part, lane, count = core_lanes(result, rows)
    rows = {name: column[part] for name, column in rows.items()}
    lanes = machine_cores(result)[rows["machine"]]
    row_height = height_points / max(1, int(row_of.max()) + 1) / int(lanes.max(initial=1))
    is_low = row_height < _LOW_ROW
    scale = 1.0 if is_low and int(lanes.max(initial=1)) == 1 else 0.8
    height = scale * count / lanes
    handles = _draw_down_times(axes, result, row_of, factor, last)
    palette = job_colours() if result.rigid else list(APPLICATION_COLOURS)
    applications = np.unique(rows["application"]).tolist()
    colour_of = _colour_numbers(applications, len(palette))
    colours = _colours(rows, lane, palette, colour_of, has_tones=not result.rigid)
    is_lost = rows["completed"] == 0
    row = row_of[rows["machine"]] + scale * ((lane + count / 2) / lanes - 0.5)
    begin, end = rows["start"] / factor, rows["end"] / factor
    patch = import_extra("matplotlib.patches", "plot", "a chart").Patch
    style: dict[str, Any] = {"linewidth": _OUTLINE * min(1.0, row_height)}
    is_done = ~is_lost
    _draw_boxes(axes, begin[is_done], end[is_done], row[is_done], height[is_done], colours[is_done], **style)
    if is_lost.any():
        span = (last - float(rows["start"].min())) / factor
        is_hatched = is_lost & ((end - begin) * width >= _NARROW_PIECE * span) & (not is_low)
        is_dark = is_lost & ~is_hatched
        if is_dark.any():
            faces = np.zeros((int(is_dark.sum()), 3)) if is_low else _dark_tone(colours[is_dark])
            _draw_boxes(axes, begin[is_dark], end[is_dark], row[is_dark], height[is_dark], faces, **style)
        if is_hatched.any():
            hatching: dict[str, Any] = {"hatch": "/////", "linewidth": 0.5, "edgecolor": "black"}
            _draw_boxes(
                axes,
                begin[is_hatched],
                end[is_hatched],
                row[is_hatched],
                height[is_hatched],
                colours[is_hatched],
                **hatching,
            )
            handles.append(patch(label="not completed", facecolor="white", **hatching))
        if is_low:
            handles.append(patch(label="not completed", facecolor="black"))
        elif is_dark.any():
            handles.append(
                patch(label="not completed, narrow (dark)", facecolor=_dark_tone(APPLICATION_COLOURS[0]))
            )
    if len(applications) <= len(palette):
        item_name = "job" if result.rigid else "bag"
        numbers = result.jobs_of_log
        entries = [
            patch(
                facecolor=palette[colour_of[k]],
                label=f"{item_name} {k if numbers is None else numbers[k]}",
            )
            for k in applications
        ]
        handles = [*entries, *handles]
        note = ""
    else:
        item_name = "jobs" if result.rigid else "bags"
        note = f"{len(applications)} {item_name} in {len(palette)} repeated colours"
    axes.set_title(note, fontsize=small_text(axes), loc="left")
    if handles:
        legend(axes, handles=handles, place="above" if note else "right")


def _colour_numbers(applications: Sequence[int], count: int) -> dict[int, int]:
    """Return application -> number of its colour of `count`: all different if there are not more of them."""
    numbers: dict[int, int] = {}
    for application in applications:
        candidates = [(application + k) % count for k in range(count)]
        free = (number for number in candidates if number not in numbers.values())
        numbers[application] = candidates[0] if len(applications) > count else next(free)
    return numbers


def _colours(
    rows: dict[str, Any], lane: Integers, palette: list[str], colour_of: dict[int, int], has_tones: bool
) -> Any:
    """Return the colour of each piece, float[n, 3]; `colour_of` has the numbers of applications in `palette`.

    With tones, every second one of adjacent pieces of equal colour on a core is pale.
    """
    applications, position = np.unique(rows["application"], return_inverse=True)
    number = np.array([colour_of[k] for k in applications.tolist()], np.int64)[position]
    rgb = import_extra("matplotlib.colors", "plot", "a chart").to_rgba_array(palette)[:, :3]
    colours = rgb[number]
    if has_tones:
        order = np.lexsort((rows["start"], lane, rows["machine"]))
        starts_run = np.ones(len(order), np.bool_)
        starts_run[1:] = np.any(
            [np.diff(column[order]) != 0 for column in (number, rows["machine"], lane)], axis=0
        )
        run_starts = np.flatnonzero(starts_run)
        lengths = np.diff(np.append(run_starts, len(order)))
        is_pale = np.zeros(len(order), np.bool_)
        is_pale[order] = (np.arange(len(order)) - np.repeat(run_starts, lengths)) % 2 == 1
        colours[is_pale] = (1.0 - PALE_SHARE) * colours[is_pale] + PALE_SHARE
    return colours


def _dark_tone(colours: Any) -> Any:
    """Return the dark tones of narrow pieces that were not completed, float[n, 3]."""
    return (1.0 - _DARK_SHARE) * import_extra("matplotlib.colors", "plot", "a chart").to_rgba_array(colours)[
        :, :3
    ]


def _draw_down_times(axes: Axes, result: Result, row_of: Integers, factor: float, last: float) -> list[Any]:
    """Draw down times in grey and transient failures as lines; return their entries for the legend."""
    patch = import_extra("matplotlib.patches", "plot", "a chart").Patch
    omission_note = [patch(fill=False, label="down: too often to draw")]
    try:
        result.check_faults()
        machine, begin, end = down_times(result, last)
    except TooManyChanges:
        return omission_note
    except (GridSimError, OSError):  # the trace of the scenario is missing or unreadable
        return [patch(fill=False, label="down: trace not found")]
    is_shown = row_of[machine] >= 0
    row, begin, end = row_of[machine[is_shown]], begin[is_shown], np.minimum(end[is_shown], last)
    if len(row) > PIECES:
        return omission_note
    handles = []
    for mask, label, colour in (
        (end > begin, "down", _DOWN),
        (end == begin, "transient failure", _TRANSIENT),
    ):
        if mask.any():
            _draw_boxes(axes, begin[mask] / factor, end[mask] / factor, row[mask], 1.0, colour)
            handles.append(patch(facecolor=colour, label=label))
    return handles


def _draw_boxes(
    axes: Axes,
    begin: Any,
    end: Any,
    row: Any,
    height: Any,
    colours: Any,
    linewidth: float = _OUTLINE,
    edgecolor: str = "face",
    **style: Any,
) -> None:
    """Draw bars as one collection; bars of no length are drawn as lines."""
    collections = import_extra("matplotlib.collections", "plot", "a chart")
    low, high = row - height / 2, row + height / 2
    corners = np.stack(
        (
            np.stack((begin, begin, end, end), axis=1),
            np.stack((low, high, high, low), axis=1),
        ),
        axis=2,
    )
    is_line = end <= begin
    is_one_colour = isinstance(colours, str)
    if not is_line.all():
        bar_colours = colours if is_one_colour else colours[~is_line]
        # no snapping to whole pixels, by which rows would vanish if there are more machines than pixels
        collection = collections.PolyCollection(
            corners[~is_line],
            facecolors=bar_colours,
            edgecolors=edgecolor,
            linewidths=linewidth,
            snap=False,
            rasterized=len(begin) > 5000,
            **style,
        )
        axes.add_collection(collection, autolim=False)
    if is_line.any():
        line_colours = colours if is_one_colour else colours[is_line]
        axes.add_collection(
            collections.LineCollection(corners[is_line][:, :2], colors=line_colours, linewidths=0.8),
            autolim=False,
        )


def _draw_raster(axes: Axes, result: Result, shown_machines: Integers, factor: float, pieces: int) -> None:
    """Draw the machines' utilization over time as an image with a colour bar."""
    row_edges, time_edges, share = occupancy(result, *RASTER, machines=shown_machines)
    mesh = axes.pcolormesh(
        time_edges / factor, row_edges - 0.5, share, cmap=MAP, vmin=0.0, vmax=1.0, rasterized=True
    )
    colour_bar(axes, mesh, "share of the time busy")
    machines_per_row = len(shown_machines) / len(share)
    rows = "one machine per row" if machines_per_row == 1 else f"rows of {machines_per_row:.3g} machines"
    axes.set_title(f"{pieces:,} pieces: too many for bars; {rows}", fontsize=small_text(axes), loc="left")
