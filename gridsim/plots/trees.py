"""Charts of messages, and of the tree of a `FairTree` run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.scales import log_labels, short
from gridsim.plots.style import MAP, check_count, legend, look, name_x, on, titled
from gridsim.results.metrics import series
from gridsim.results.schema import COLUMN_UNITS
from gridsim.scheduling.overlays import tree_level, tree_machines, tree_spans
from gridsim.support.arrays import Floats
from gridsim.support.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

Unit = Literal["bytes", "messages"]
#: A level with more nodes than this is drawn in this many cells, each of several adjacent nodes.
CELLS = 1024
#: Nodes of a level have lines between them if at most this many of the widest fit side by side.
_LINED = 64


def traffic(result: Result, unit: Unit = "bytes", *, axes: Axes | None = None) -> Axes:
    """Draw what the nodes of each level of the tree sent: a bar per level (0 is the root), stacked by kind.

    For other schedulers, which have no tree, there is a bar per kind of message.  Raises ScenarioError for a
    scheduler that sends no messages.

    Parameters
    ----------
    unit
        ``"bytes"`` or ``"messages"``.
    """
    if unit not in (known := get_args(Unit)):
        raise ScenarioError(f"unit must be {' or '.join(known)}, got {unit!r}")
    table = result.tables.get("traffic", result.messages)
    if not len(table):
        raise ScenarioError(f"traffic needs messages, and {result.scheduler['name']} has none")
    axes = on(
        axes,
        width=max(5.0, 2.5 + 0.5 * len(np.unique(table["level"]))) if "level" in table else 5.0,
        grid="y",
    )
    if "traffic" in result.tables:
        kinds, levels = list(dict.fromkeys(table["kind"].tolist())), np.arange(int(table["level"].max()) + 1)
        check_count(len(kinds))
        below: Any = np.zeros(len(levels))
        for number, kind in enumerate(kinds):
            some = table["kind"] == kind
            height = np.bincount(table["level"][some], table[unit][some], len(levels))
            axes.bar(levels, height, 0.8, bottom=below, label=kind, color=look(number)["color"])
            below += height
        axes.set_xticks(levels)
        axes.set_xlabel("level of the sender (the root is 0)")
        legend(axes, place="right")
    else:
        below, levels = table["sent" if unit == "messages" else "bytes"], np.arange(len(table))
        axes.bar(levels, below, 0.8, color=look(0)["color"])
        name_x(axes, levels, table["kind"].tolist())
        axes.set_xlabel("kind of message")
    engineering = need("matplotlib.ticker", "plot", "a chart").EngFormatter
    figure = axes.get_figure()
    assert figure is not None
    room = axes.get_window_extent().width / figure.dpi / len(levels)
    for place, total in zip(levels.tolist(), below.tolist(), strict=True):
        if room < 0.38:  # inches: the numbers would run into one another
            break
        axes.annotate(
            short(total), (place, total), (0, 2), textcoords="offset points", ha="center", fontsize=7
        )
    axes.yaxis.set_major_formatter(engineering(unit="B" if unit == "bytes" else ""))
    axes.set_ylabel(f"{unit} sent")
    return axes


def tree(result: Result, column: str = "utilization", *, axes: Axes | None = None) -> Axes:
    """Draw the tree as a heat map: a row per level, root on top, a cell per node, as wide as its subtree.

    A level of more than `CELLS` nodes is drawn in `CELLS` cells.  Each shows the mean of adjacent nodes, or
    the largest value if the name of the column has "peak" in it; the colour bar says so.  A line separates
    routers from leaves; leaves reach down to the bottom.  If failures have moved routers, the chart shows the
    tree at the start, and the title says so.

    Raises ScenarioError for a run without a tree, and for a column that does not exist.

    Parameters
    ----------
    column
        A column of numbers of the table ``machines``.  A node has the value of the machine on which it sits
        (leaf u and router u on machine u), so that a machine with both appears twice.
    """
    machines = len(result.machines)
    if {"traffic", "repairs"}.isdisjoint(result.tables) or machines < 2:
        raise ScenarioError(f"tree needs a run of a fair tree on several machines, got {_whose(result)}")
    known = [name for name, values in result.machines.items() if values.dtype.kind in "biuf"]
    if column not in known:
        raise ScenarioError(f"column must be one of {', '.join(known)}, got {column!r}")
    axes = on(axes, width=9.0, height=3.6, grid="")
    values = np.asarray(result.machines[column], np.float64)[tree_machines(machines)]
    level, (first, count) = tree_level(np.arange(2 * machines - 1)), tree_spans(machines)
    depth, routers, largest = int(level[-1]), machines - 1, "peak" in column
    how, empty = _colours(values)
    most = 1
    mesh: Any = None
    for row in range(depth + 1):
        for leaf in (False, True):
            nodes = np.flatnonzero(level == row)
            nodes = nodes[(nodes >= routers) == leaf]
            if not len(nodes):
                continue
            starts = -(-np.arange(min(len(nodes), CELLS)) * len(nodes) // min(len(nodes), CELLS))
            most = max(most, -(-len(nodes) // len(starts)))
            cells = _folded(values[nodes], starts, largest)
            edges = np.append(first[nodes[starts]], first[nodes[-1]] + count[nodes[-1]])
            bottom = depth + 1 if leaf else row + 1
            lined = count[nodes].max() * _LINED >= machines
            lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4} if lined else {}
            mesh = axes.pcolormesh(edges, [row, bottom], cells[None, :], rasterized=True, **how, **lines)
    _divide(axes, level, first, count, routers)
    label = titled(column, COLUMN_UNITS["machines"].get(column, "")) + empty
    if most > 1:
        label += f"\n{'largest' if largest else 'mean'} of up to {most} nodes a cell"
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, ax=axes, label=label, pad=0.01)
    if isinstance(mesh.norm, need("matplotlib.colors", "plot", "a chart").LogNorm):
        log_labels(bar.ax.yaxis)
    axes.set_ylim(depth + 1, 0)
    axes.set_xlim(0, machines)
    axes.set_yticks(np.arange(depth + 1) + 0.5, [str(k) for k in range(depth + 1)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("level")
    axes.set_xlabel("leaves below a node, from left to right")
    moved = "failures" in result.machines and bool(result.machines["failures"].any())
    said = "; routers as at the start, failures moved them" if moved else ""
    axes.set_title(f"{machines - 1:,} routers above {machines:,} leaves{said}", fontsize="small", loc="left")
    return axes


def _whose(result: Result) -> str:
    return f"{result.scheduler['name']} on {len(result.machines)}"


def _folded(values: Floats, starts: Any, largest: bool) -> Floats:
    """Return the mean or largest value of the nodes of each cell, which begin at `starts`; NaN is ignored."""
    known = ~np.isnan(values)
    if largest:
        most: Floats = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
        return np.where(np.isinf(most), np.nan, most)
    with np.errstate(invalid="ignore"):
        total, many = (
            np.add.reduceat(np.where(known, values, 0.0), starts),
            np.add.reduceat(known * 1, starts),
        )
        mean: Floats = total / many
    return mean


def _colours(values: Floats) -> tuple[dict[str, Any], str]:
    """Return the colour settings of cells, and a note on what white cells mean: 0 on a logarithmic scale."""
    known = values[np.isfinite(values)]
    above = known[known > 0]
    if len(above) and known.min() >= 0 and series.wide(above):
        norm = need("matplotlib.colors", "plot", "a chart").LogNorm(above.min(), above.max())
        return {"cmap": MAP, "norm": norm}, " (white: 0)" if len(above) < len(known) else ""
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return {"cmap": MAP, "vmin": low, "vmax": high if high > low else low + 1.0}, ""


def _divide(axes: Axes, level: Any, first: Any, count: Any, routers: int) -> None:
    """Draw the line between routers and leaves."""
    depth, leaf = int(level[-1]), np.arange(routers, len(level))
    last_router = routers - 1
    end = first[last_router] + count[last_router]  # the routers of the last level with routers end here
    top = int(level[leaf[0]])
    if int(level[last_router]) == depth - 1 and top == depth - 1:
        x, y = [0, end, end, routers + 1], [depth, depth, depth - 1, depth - 1]
    else:
        x, y = [0, routers + 1], [depth, depth]
    axes.plot(x, y, color="black", linewidth=1.0)
