"""Charts of schedules: a bar for each piece of work on each machine, or a raster of utilization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gridsim.errors import GridSimError
from gridsim.model.fault_events import TooManyChanges
from gridsim.plots.style import APPLICATION_COLOURS, job_colours
from gridsim.report.figures import BACKGROUND, Figure, PlotlyChart, axis, colour, figure, numbers
from gridsim.results.metrics import series
from gridsim.results.result import Result
from gridsim.support.text import time_unit

#: A schedule with more than `PIECES` pieces or `MACHINES` machines is a raster of `RASTER` rows and columns.
PIECES, MACHINES, RASTER = 2000, 100, (100, 200)
_DOWN = "#8a9199"


def schedules(results: Mapping[str, Result]) -> Iterator[PlotlyChart]:
    """Yield charts of schedules, one for each run with a recorded schedule."""
    for name, result in results.items():
        if len(result.tables.get("schedule", ())) == 0:
            continue
        title = "Schedule" + (f" of {name}" if len(results) > 1 else "")
        table = result.tables["schedule"]
        pieces, machines = len(table), len(result.machines)
        factor, unit = time_unit(float(table["end"].max() - table["start"].min()))
        x_axis = axis(f"time ({unit})", tickformat=",")
        if pieces <= PIECES and machines <= MACHINES:
            down_bars, note = _down_bars(result, factor, unit)
            item_name = "jobs" if result.rigid else "applications"
            caption = (
                f"Work of each machine over time; {len(_palette(result))} colours repeat over the "
                f"{item_name}, hatched: not completed{note}."
            )
            plot = figure(
                [*down_bars, _piece_bars(result, factor, unit)],
                x_axis,
                _machine_axis(machines),
                barmode="overlay",
                hovermode="closest",
            )
            yield PlotlyChart(title, caption, plot, max(320, min(700, 110 + 9 * machines)))
        else:
            parts = "job parts" if result.rigid else "parts"
            caption = f"Utilization of the machines over time ({pieces:,} {parts} on {machines:,} machines)."
            yield PlotlyChart(title, caption, _raster_figure(result, factor, unit, x_axis), 420)


def _machine_axis(count: int) -> dict[str, Any]:
    """Return a downward axis of `count` machines, with ticks at whole numbers."""
    ticks = {"dtick": 1} if count <= 10 else {}
    return axis("machine", range=[count - 0.5, -0.5], showgrid=False, tickformat=",", **ticks)


def _palette(result: Result) -> list[str]:
    """Return the colours of jobs or applications, those of `gridsim.plots.gantt`."""
    return job_colours() if result.rigid else list(APPLICATION_COLOURS)


def _piece_bars(result: Result, factor: float, unit: str) -> Figure:
    schedule = dict(result.tables["schedule"].items())
    part, core, count = series.core_lanes(result, schedule)
    table = {name: column[part] for name, column in schedule.items()}
    machine = table["machine"]
    cores = series.machine_cores(result)[machine]
    application, is_completed = table["application"], table["completed"] > 0
    item_name, noun = ("job", "machine") if result.rigid else ("application", "task")
    numbers_in_log = application if result.jobs_of_log is None else result.jobs_of_log[application]
    texts = [
        f"machine {u}: {item_name} {a}, {n} {noun}{'' if n == 1 else 's'}"
        for u, a, n in zip(machine.tolist(), numbers_in_log.tolist(), table["tasks"].tolist(), strict=True)
    ]
    palette = _palette(result)
    marker: Figure = {
        "color": [palette[number % len(palette)] for number in application.tolist()],
        "line": {"width": 0.5, "color": BACKGROUND},
    }
    if not is_completed.all():  # hatched as by `gridsim.plots.gantt`
        shapes = np.where(is_completed, "", "/").tolist()
        marker["pattern"] = {
            "shape": shapes,
            "fillmode": "overlay",
            "size": 5,
            "solidity": 0.4,
        }
    return {
        "type": "bar",
        "orientation": "h",
        "base": numbers(table["start"] / factor),
        "x": numbers((table["end"] - table["start"]) / factor),
        "y": numbers(machine + 0.9 * ((core + count / 2) / cores - 0.5)),
        "width": numbers(0.9 * count / cores),
        "marker": marker,
        "text": texts,
        "textposition": "none",
        "hovertemplate": f"%{{text}}<br>%{{base}} {unit}, for %{{x}} {unit}<extra></extra>",
    }


def _down_bars(result: Result, factor: float, unit: str) -> tuple[list[Figure], str]:
    """Return bars of down times and transient failures during the schedule, and a note for the caption."""
    table = result.tables["schedule"]
    first, last = float(table["start"].min()), float(table["end"].max())
    if "scenario" not in result.provenance:
        return [], ""
    try:
        result.check_faults()
        machine, begin, end = series.down_times(result, last)
    except TooManyChanges:
        return [], "; machines were down too often to draw"
    except (GridSimError, OSError):  # the scenario names a trace that is missing or unreadable
        return [], "; down times are not drawn, since their trace is missing"
    is_visible = (end >= first) & (begin <= last)
    machine, begin, end = machine[is_visible], begin[is_visible], end[is_visible]
    if len(machine) == 0:
        return [], ""
    if len(machine) > PIECES:
        return [], f"; machines were down too often to draw ({len(machine):,} times)"
    texts = [
        f"transient failure at {a:.7g} {unit}"
        if a == b
        else f"down from {a:.7g} {unit} {f'to {b:.7g} {unit}' if b < np.inf else 'on'}"
        for a, b in zip((begin / factor).tolist(), (end / factor).tolist(), strict=True)
    ]
    low, high = np.maximum(begin, first), np.minimum(end, last)
    # the outline keeps bars of width 0 visible: a transient failure takes no time
    bars = {
        "type": "bar",
        "orientation": "h",
        "base": numbers(low / factor),
        "x": numbers((high - low) / factor),
        "y": numbers(machine),
        "width": 1.0,
        "marker": {"color": _DOWN, "opacity": 0.5, "line": {"width": 1, "color": _DOWN}},
        "text": texts,
        "textposition": "none",
        "hovertemplate": "machine %{y}: %{text}<extra></extra>",
    }
    kinds = [
        word for word, mask in (("down", begin < end), ("transient failure", begin == end)) if mask.any()
    ]
    return [bars], f", grey: {' or '.join(kinds)}"


def _raster_figure(result: Result, factor: float, unit: str, x_axis: dict[str, Any]) -> Figure:
    row_edges, time_edges, share = series.occupancy(result, *RASTER)
    heat = {
        "type": "heatmap",
        "x": numbers(time_edges / factor),
        "y": numbers(row_edges - 0.5),
        "z": [numbers(np.rint(row).astype(np.int64)) for row in 100.0 * share],
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, BACKGROUND], [1, colour(0)]],
        "colorbar": {"title": {"text": "busy (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": f"machines around %{{y:.0f}}, at %{{x:,.6g}} {unit}: %{{z}} % busy<extra></extra>",
    }
    return figure([heat], x_axis | {"showgrid": False}, _machine_axis(len(result.machines)))
