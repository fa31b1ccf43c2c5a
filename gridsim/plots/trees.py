"""Charts of messages, and of the tree of a `FairTree` run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.scales import log_labels, short_number
from gridsim.plots.style import (
    MAP,
    axis_title,
    check_count,
    colour_bar,
    halo,
    label_x,
    legend,
    series_style,
    small_text,
    styled_axes,
    tiny_text,
)
from gridsim.results.metrics import series
from gridsim.results.schema import COLUMN_UNITS
from gridsim.scheduling.overlays import tree_level, tree_machines, tree_spans
from gridsim.support.arrays import Floats
from gridsim.support.imports import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

Unit = Literal["bytes", "messages"]
#: A level with more nodes than this is drawn as this many cells, each of several adjacent nodes.
CELLS = 1024
#: The scale of colours spans at least this share of the largest value.
_MIN_SPAN = 0.1
#: Nodes of a level are separated by lines if they are so wide that at most this many fit side by side.
_MAX_OUTLINED = 64


def traffic(
    result: Result, unit: Unit = "bytes", *, width: float | None = None, axes: Axes | None = None
) -> Axes:
    """Draw the messages sent by the nodes of each level of the tree as bars, stacked by kind of message.

    For schedulers without a tree there is a bar per kind of message.

    Parameters
    ----------
    unit
        ``"bytes"`` or ``"messages"``.

    Raises
    ------
    ScenarioError
        If the scheduler sends no messages.
    """
    if unit not in (known := get_args(Unit)):
        raise ScenarioError(f"unit must be {' or '.join(known)}, got {unit!r}")
    table = result.tables.get("traffic", result.messages)
    if not len(table):
        raise ScenarioError(f"traffic requires a scheduler with messages, got {result.scheduler['name']}")
    own_width = max(5.0, 2.5 + 0.5 * len(np.unique(table["level"]))) if "level" in table else 5.0
    axes = styled_axes(axes, width, size=(own_width, 3.6), grid="y")
    if "traffic" in result.tables:
        heights, levels = series.traffic_by_level(result, unit), np.arange(int(table["level"].max()) + 1)
        check_count(len(heights))
        stack_heights: Any = np.zeros(len(levels))
        for number, (kind, height) in enumerate(heights.items()):
            axes.bar(
                levels, height, 0.8, bottom=stack_heights, label=kind, color=series_style(number)["color"]
            )
            stack_heights += height
        axes.set_xticks(levels)
        axes.set_xlabel("level of the sender (the root is 0)")
        legend(axes, place="right")
    else:
        stack_heights, levels = table["sent" if unit == "messages" else "bytes"], np.arange(len(table))
        axes.bar(levels, stack_heights, 0.8, color=series_style(0)["color"])
        label_x(axes, levels, table["kind"].tolist())
        axes.set_xlabel("kind of message")
    eng_formatter = import_extra("matplotlib.ticker", "plot", "a chart").EngFormatter
    figure = axes.get_figure()
    assert figure is not None
    bar_space = axes.get_window_extent().width / figure.dpi / len(levels)
    for position, total in zip(levels.tolist(), stack_heights.tolist(), strict=True):
        if bar_space < 0.38:  # inches per bar; with less, the numbers would overlap
            break
        axes.annotate(
            short_number(total),
            (position, total),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=tiny_text(axes),
            path_effects=halo(),
        )
    axes.yaxis.set_major_formatter(eng_formatter(unit="B" if unit == "bytes" else ""))
    axes.set_ylabel(f"{unit} sent")
    return axes


def tree(
    result: Result,
    column: str = "utilization",
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the tree as a heat map: a row per level, with the root on top, and a cell per node.

    A cell is as wide as the subtree of its node.  A level with more than `CELLS` nodes is drawn as `CELLS`
    cells, which show the mean of adjacent nodes, or the largest value of columns with "peak" in their names;
    the label of the colour bar states which.  A line separates routers from leaves, which extend to the
    bottom.  If failures have moved routers, the chart shows the tree at the start, and the title states this.

    Parameters
    ----------
    column
        A column of numbers of the table ``machines``.  A node has the value of its machine (leaf u and router
        u are on machine u), so that a machine with both appears twice.

    Raises
    ------
    ScenarioError
        If the run has no tree, or the column does not exist.
    """
    machines = len(result.machines)
    if not has_tree(result):
        raise ScenarioError(
            f"tree requires a run of a fair tree on several machines, got {_run_text(result)}"
        )
    known = [name for name, values in result.machines.items() if values.dtype.kind in "biuf"]
    if column not in known:
        raise ScenarioError(f"column must be one of {', '.join(known)}, got {column!r}")
    axes = styled_axes(axes, width, size=(9.0, 3.6), grid="")
    values = np.asarray(result.machines[column], np.float64)[tree_machines(machines)]
    level, (first, count) = tree_level(np.arange(2 * machines - 1)), tree_spans(machines)
    depth, routers, largest = int(level[-1]), machines - 1, "peak" in column
    colour_options, white_note = _colours(values)
    max_nodes_per_cell = 1
    mesh: Any = None
    for row in range(depth + 1):
        for leaf in (False, True):
            nodes = np.flatnonzero(level == row)
            nodes = nodes[(nodes >= routers) == leaf]
            if not len(nodes):
                continue
            starts = -(-np.arange(min(len(nodes), CELLS)) * len(nodes) // min(len(nodes), CELLS))
            max_nodes_per_cell = max(max_nodes_per_cell, -(-len(nodes) // len(starts)))
            cells = _cell_values(values[nodes], starts, largest)
            edges = np.append(first[nodes[starts]], first[nodes[-1]] + count[nodes[-1]])
            bottom = depth + 1 if leaf else row + 1
            has_outlines = count[nodes].max() * _MAX_OUTLINED >= machines
            lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4} if has_outlines else {}
            mesh = axes.pcolormesh(
                edges, [row, bottom], cells[None, :], rasterized=True, **colour_options, **lines
            )
    _draw_division(axes, level, first, count, routers)
    label, note = axis_title(column, COLUMN_UNITS["machines"].get(column, "")) + white_note, ""
    if max_nodes_per_cell > 1:
        note = f"{'largest' if largest else 'mean'} of up to {max_nodes_per_cell} nodes per cell"
    bar = colour_bar(axes, mesh, label, note)
    if isinstance(mesh.norm, import_extra("matplotlib.colors", "plot", "a chart").LogNorm):
        log_labels(bar.ax.yaxis)
    axes.set_ylim(depth + 1, 0)
    axes.set_xlim(0, machines)
    axes.set_yticks(np.arange(depth + 1) + 0.5, [str(k) for k in range(depth + 1)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("level")
    axes.set_xlabel("leaves below a node, from left to right")
    has_moved_routers = "failures" in result.machines and bool(result.machines["failures"].any())
    note = "; routers are shown at the start, before failures moved them" if has_moved_routers else ""
    title = f"{machines - 1:,} routers above {machines:,} leaves{note}"
    axes.set_title(title, fontsize=small_text(axes), loc="left")
    return axes


def has_tree(result: Result) -> bool:
    """Return whether the run has a tree: one of a fair tree on several machines."""
    return not {"traffic", "repairs"}.isdisjoint(result.tables) and len(result.machines) > 1


def _run_text(result: Result) -> str:
    return f"{result.scheduler['name']} on {len(result.machines)}"


def _cell_values(values: Floats, starts: Any, largest: bool) -> Floats:
    """Return the mean or largest value of cells, which begin at the nodes `starts`; NaN is ignored."""
    is_known = ~np.isnan(values)
    if largest:
        largest_values: Floats = np.maximum.reduceat(np.where(is_known, values, -np.inf), starts)
        return np.where(np.isinf(largest_values), np.nan, largest_values)
    with np.errstate(invalid="ignore"):
        totals, counts = (
            np.add.reduceat(np.where(is_known, values, 0.0), starts),
            np.add.reduceat(is_known * 1, starts),
        )
        mean: Floats = totals / counts
    return mean


def _colours(values: Floats) -> tuple[dict[str, Any], str]:
    """Return the colour settings of cells, and for a logarithmic scale a note that white cells are 0."""
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) and finite.min() >= 0 and series.is_wide(positive):
        norm = import_extra("matplotlib.colors", "plot", "a chart").LogNorm(positive.min(), positive.max())
        return {"cmap": MAP, "norm": norm}, " (white: 0)" if len(positive) < len(finite) else ""
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    # values that hardly differ have nearly one colour: the scale spans a share of the largest value
    low = min(low, high - _MIN_SPAN * abs(high))
    return {"cmap": MAP, "vmin": low, "vmax": high if high > low else 1.0}, ""


def _draw_division(axes: Axes, level: Any, first: Any, count: Any, routers: int) -> None:
    """Draw the line between routers and leaves."""
    depth, leaf = int(level[-1]), np.arange(routers, len(level))
    last_router = routers - 1
    end = first[last_router] + count[last_router]  # right end of the last level with routers
    top = int(level[leaf[0]])
    if int(level[last_router]) == depth - 1 and top == depth - 1:
        x, y = [0, end, end, routers + 1], [depth, depth, depth - 1, depth - 1]
    else:
        x, y = [0, routers + 1], [depth, depth]
    axes.plot(x, y, color="black", linewidth=1.0)
