"""The sequence diagram of recorded nodes: their messages, timers and other events over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.style import escape_math, legend, series_style, styled_axes, tiny_text
from gridsim.support.arguments import real
from gridsim.support.text import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

#: Maximum numbers of nodes and messages of a diagram.
MAX_NODES, MAX_MESSAGES = 40, 1000
#: Maximum numbers of messages, and of other events, that have texts.
_MAX_MESSAGE_TEXTS, _MAX_EVENT_TEXTS = 30, 60
#: Width of a message of a node to itself, as a multiple of the distance between nodes.
_LOOP = 0.3
#: Length of the arrow of a lost message, as a share of the distance.
_LOST_SHARE = 0.5


def sequence(
    result: Result,
    *,
    nodes: Sequence[int] | None = None,
    start: float = 0.0,
    end: float = math.inf,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a sequence diagram: a vertical line per node, with time downwards, and an arrow per message.

    The colour of an arrow is that of the kind of message; messages with equal arrows share one arrow.  The
    arrow of a message that did not arrive ends half way, at a cross; a message of a node to itself is a
    bracket.  Dots on the line of a node are calls of other handlers, such as ``on_release`` and timers, and
    crosses are failures.  If they are few, messages and handlers are named.

    Parameters
    ----------
    nodes
        The nodes to draw, from left to right; all recorded ones by default.
    start, end
        Beginning and end of the drawn part of the run, s.  Messages that are sent in it are drawn.

    Raises
    ------
    ScenarioError
        If the run has no diary, a node was not recorded, or there are more than `MAX_NODES` nodes or
        `MAX_MESSAGES` messages.
    """
    if "diary" not in result.tables:
        raise ScenarioError('a sequence diagram requires a run with record="events" (run --events)')
    start, end = real("start", start, unit="s"), real("end", end, unit="s", finite=False)
    diary = result.tables["diary"]
    recorded_nodes = result.provenance.get("diary", {}).get("nodes") or np.unique(diary["node"]).tolist()
    drawn_nodes = list(recorded_nodes if nodes is None else dict.fromkeys(nodes))
    for k, node in enumerate(drawn_nodes):
        if node not in recorded_nodes:
            known = ", ".join(map(str, recorded_nodes[:MAX_NODES]))
            raise ScenarioError(f"nodes[{k}] must be one of the recorded nodes, {known}, got {node}")
    if len(drawn_nodes) > MAX_NODES:
        raise ScenarioError(f"nodes must be at most {MAX_NODES} nodes, got {len(drawn_nodes)}")
    place = {node: k for k, node in enumerate(drawn_nodes)}
    is_drawn = np.isin(diary["node"], drawn_nodes) & (diary["time"] >= start) & (diary["time"] <= end)
    rows = [{name: column[k].item() for name, column in diary.items()} for k in np.flatnonzero(is_drawn)]
    messages = [
        row for row in rows if row["entry"] == "later" or row["entry"] == "send" and row["peer"] in place
    ]
    if len(messages) > MAX_MESSAGES:
        raise ScenarioError(
            f"a sequence diagram has at most {MAX_MESSAGES} messages, got {len(messages)}: choose nodes, "
            "start and end"
        )
    axes = styled_axes(axes, width, size=(max(4.0, 1.5 + 1.1 * len(drawn_nodes)), 6.0), grid="")
    instants = [row["time"] for row in rows] + [row["due"] for row in messages if row["due"] == row["due"]]
    first = start if start > 0 else min(instants, default=0.0)
    last = end if math.isfinite(end) else max(instants, default=first)
    last = last if last > first else first + 1.0
    factor, unit = time_unit(last - first)
    for k in range(len(drawn_nodes)):
        axes.axvline(k, color="#BBBBBB", linewidth=1.0, zorder=0)
    kinds = list(dict.fromkeys(row["name"] for row in messages))
    arrows: dict[str, list[dict[str, Any]]] = {}
    for row in messages:
        key = repr([row[name] for name in ("entry", "node", "time", "peer", "due")])
        arrows.setdefault(key, []).append(row)
    for row, *others in arrows.values():
        style = series_style(kinds.index(row["name"]))
        names = dict.fromkeys([row["name"], *(other["name"] for other in others)])
        text = ", ".join(names) if len(arrows) <= _MAX_MESSAGE_TEXTS else ""
        _draw_message(axes, row, place, factor, text, color=style["color"], linestyle=style["linestyle"])
    _draw_events(axes, rows, place, factor)
    _label(axes, kinds, drawn_nodes, unit)
    margin = 0.03 * (last - first)
    axes.set_ylim((last + margin) / factor, (first - margin) / factor)
    return axes


def _draw_message(
    axes: Axes, row: dict[str, Any], place: dict[int, int], factor: float, text: str, **style: Any
) -> None:
    """Draw the arrow of a message, with a text in the middle."""
    x, y = float(place[row["node"]]), row["time"] / factor
    end = x if row["entry"] == "later" else float(place[row["peer"]])
    if math.isnan(row["due"]):
        until, end = y, x + _LOST_SHARE * ((end - x) or 2 * _LOOP)
        axes.plot([x, end], [y, y], linewidth=1.0, **style)
        axes.plot([end], [y], marker="x", markersize=6, color=style["color"])
    else:
        until = row["due"] / factor
        if end == x:
            axes.plot([x, x + _LOOP, x + _LOOP], [y, y, until], linewidth=1.0, **style)
            x, y = x + _LOOP, until
        arrow = {"arrowstyle": "->", "shrinkA": 0.0, "shrinkB": 0.0, "linewidth": 1.0, **style}
        axes.annotate("", xy=(end, until), xytext=(x, y), arrowprops=arrow, annotation_clip=False)
    place_of_text = (x + end) / 2, (y + until) / 2
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    _add_text(axes, text, place_of_text, ha="center", va="center", color=style["color"], bbox=box)


def _draw_events(axes: Axes, rows: list[dict[str, Any]], place: dict[int, int], factor: float) -> None:
    """Draw the handler calls that are not messages, and the failures of machines."""
    calls = [row for row in rows if row["entry"] == "call" and row["peer"] < 0]
    failures = [row for row in rows if row["entry"] == "fail"]
    for marked_rows, marker, size, label in ((calls, ".", 7, "handler call"), (failures, "X", 8, "failure")):
        if marked_rows:
            axes.plot(
                [place[row["node"]] for row in marked_rows],
                [row["time"] / factor for row in marked_rows],
                linestyle="",
                marker=marker,
                color="black",
                markersize=size,
                label=label,
            )
    for row in calls if len(calls) <= _MAX_EVENT_TEXTS else ():
        at = float(place[row["node"]]), row["time"] / factor
        name = row["name"] or row["handler"].removeprefix("on_")
        _add_text(axes, name, at, offset=(-4, 0), ha="right", va="center")


def _add_text(
    axes: Axes, text: str, at: tuple[float, float], *, offset: tuple[int, int] = (0, 0), **style: Any
) -> None:
    """Write a small text at an offset in points."""
    if text:
        axes.annotate(
            escape_math(text),
            at,
            xytext=offset,
            textcoords="offset points",
            fontsize=tiny_text(axes),
            **style,
        )


def _label(axes: Axes, kinds: list[str], nodes: list[int], unit: str) -> None:
    """Label the axes, and add an entry of the legend for each kind of message."""
    for k, kind in enumerate(kinds):
        style = series_style(k)
        axes.plot([], [], color=style["color"], linestyle=style["linestyle"], linewidth=1.0, label=kind)
    axes.set_xticks(range(len(nodes)), [str(node) for node in nodes])
    axes.set_xlim(-0.5, max(0.5, len(nodes) - 0.5))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("node")
    axes.set_ylabel(f"time ({unit})")
    legend(axes, place="right")
