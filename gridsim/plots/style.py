"""The style of all charts, and what they share: figures, files, colours, legends, names and units.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish; each also has a marker of
its own.  Continuous scales use the colour map cividis.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.model.background_load import FluctuationRecipe
from gridsim.model.faults import FaultsRecipe
from gridsim.model.network import Network
from gridsim.model.platform import PlatformRecipe
from gridsim.model.workload import WorkloadRecipe
from gridsim.scheduling.registry import registered
from gridsim.support.extras import need
from gridsim.support.parameters import limits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours and markers of series, in this order.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Line styles, which distinguish series that have the same colour because there are more series than colours.
DASHES = ("-", "--", "-.", ":")
#: Colour map of continuous scales.
MAP = "cividis"
#: Colour of bars that stand for a whole, next to coloured parts.
WHOLE = "#999999"
#: Formats of figure files: suffix of the name -> metadata settings that leave out times and versions.
FORMATS: Mapping[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
#: A legend with more entries or lines than this is placed outside the axes.
_INSIDE = 9
#: A legend outside has at most this many lines per column.
_COLUMN = 36
#: Names longer than this are wrapped: at an axis, and in a legend.
_LINE, _ENTRY = 24, 36
#: Widths tried next at the x axis if there is too little room; and the angle of slanted names in degrees.
_SHORTER = (16, 12)
_SLANT = 35
#: Column -> a name for charts that says more.
_NAMES = {
    "stretch_agg": "stretch",
    "max_stretch_agg": "max stretch",
    "mean_stretch_agg": "mean stretch",
    "stretch": "stretch per work",
    "max_stretch": "max stretch per work",
    "mean_stretch": "mean stretch per work",
    "min_stretch": "min stretch per work",
    "lower_bound": "lower bound of the max stretch per work",
    "gap": "max stretch over its lower bound",
    "utilization": "share of the time that machines are busy",
    "wasted": "share of wasted cycles",
    "migrated": "share of jobs that moved",
    "messages": "messages sent",
    "bytes": "traffic",
    "mean_waiting": "mean waiting time",
    "mean_waiting_by_cores": "mean waiting time by cores",
    "median_waiting": "median waiting time",
    "mean_slowdown": "mean bounded slowdown",
    "mean_completion": "mean completion time",
    "failed": "rejected jobs",
    "response": "response time",
    "waiting": "waiting time",
    "slowdown": "bounded slowdown",
    "bytes_out": "sent",
    "bytes_in": "received",
    "use_mean": "mean use of the interface",
    "use_peak_1s": "use of the interface, fullest 1 s",
    "use_peak_10s": "use of the interface, fullest 10 s",
}
#: Entry of a scenario file -> a name for charts that says more.
_ENTRIES = {
    "faults.up": "mean time to failure",
    "faults.mean": "mean time between failures",
    "faults.down": "mean time until recovery",
}
#: Table of a scenario file -> the kinds that it can be.
_TABLES: Mapping[str, Sequence[Any]] = {
    "platform": get_args(PlatformRecipe),
    "workload": get_args(WorkloadRecipe),
    "network": (Network,),
    "faults": get_args(FaultsRecipe),
    "fluctuation": get_args(FluctuationRecipe),
}
#: Settings of matplotlib for all charts.
STYLE: Mapping[str, Any] = {
    "pdf.fonttype": 42,  # TrueType: many submission systems refuse Type 3 fonts
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.labelsize": "medium",
    "axes.linewidth": 0.8,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 10.0,
    "grid.alpha": 0.3,
    "image.cmap": MAP,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
}


@contextmanager
def use_style() -> Iterator[None]:
    """Context in which other charts have the style of these: ``with plots.use_style(): ...``.

    The settings are restored at its end.  Raises ImportError without matplotlib.
    """
    settings = need("matplotlib", "plot", "a chart").rcParams
    # not rc_context, which would also undo the settings of a backend that is loaded meanwhile
    before = {name: settings[name] for name in STYLE}
    settings.update(STYLE)
    try:
        yield
    finally:
        settings.update(before)


def figure(
    columns: int = 1, *, rows: int = 1, width: float = 5.0, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `columns` axes side by side in each of `rows`, each `width` x `height` inches.

    It belongs to no window, and pyplot does not know it.  Raises ImportError without matplotlib.
    """
    kind = need("matplotlib.figure", "plot", "a chart").Figure
    with use_style():
        made: Figure = kind(figsize=(width * columns, height * rows), layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False)
    setattr(made, "_repr_png_", partial(_png, made))  # noqa: B010  (notebooks look for it)
    return made, list(axes.flat)


def _png(made: Figure) -> bytes:
    """Return a figure as notebooks show it where pyplot, which otherwise tells them how, is not loaded."""
    stream = io.BytesIO()
    save(made, stream)
    return stream.getvalue()


def on(
    axes: Axes | None,
    *,
    width: float = 5.0,
    height: float = 3.6,
    grid: Literal["", "x", "y", "both"] = "both",
) -> Axes:
    """Return `axes` in the style of all charts; if None, new ones of pyplot, `width` x `height` inches.

    Parameters
    ----------
    grid
        The axes that have grid lines: ``"x"``, ``"y"``, ``"both"``, or empty for none.
    """
    if axes is None:
        pyplot = need("matplotlib.pyplot", "plot", "a chart")
        with use_style():
            axes = pyplot.figure(figsize=(width, height), layout="constrained").subplots()
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(True, alpha=0.3, axis=grid)
    return axes


def save(
    made: Figure, stream: IO[bytes], *, format: Literal["png", "svg", "pdf"] = "png", dpi: int = 150
) -> None:
    """Write a figure, without the time of writing or versions, so that equal figures give equal files.

    Parameters
    ----------
    format
        One of `FORMATS`.
    dpi
        Resolution of PNG, and of rasterized parts in the other formats.
    """
    if format not in FORMATS:
        raise ScenarioError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    context = need("matplotlib", "plot", "a chart").rc_context
    with context({"svg.hashsalt": "gridsim", "pdf.fonttype": 42}):
        made.savefig(stream, format=format, dpi=dpi, metadata=FORMATS[format])


def look(number: int) -> dict[str, Any]:
    """Return colour, marker and line style of series `number`, as matplotlib settings."""
    turn, place = divmod(number, len(COLOURS))
    return {
        "color": COLOURS[place],
        "marker": MARKERS[(place + turn) % len(MARKERS)],
        "linestyle": DASHES[turn % len(DASHES)],
    }


def check_count(count: int) -> None:
    """Check that this many series can be distinguished.  Raises ScenarioError."""
    if count > (most := len(COLOURS) * len(DASHES)):
        raise ScenarioError(f"a chart has at most {most} series, got {count}")


def legend(axes: Axes, *, handles: Sequence[Any] | None = None, place: str = "best") -> None:
    """Add a small legend without a frame, if there are entries for it.

    Parameters
    ----------
    handles
        The artists in it, named by their labels; by default all that have a label.
    place
        A place within the axes, as in matplotlib, or ``"right"`` or ``"above"`` for outside.  A legend that
        takes much room is placed on the right, unless it is above.
    """
    entries = axes.get_legend_handles_labels()[0] if handles is None else handles
    if not entries:
        return
    names = [plain(wrapped(str(entry.get_label()), _ENTRY)) for entry in entries]
    where: dict[str, Any] = {"loc": place}
    if place == "above":
        where = {
            "loc": "lower right",
            "bbox_to_anchor": (1.0, 1.0),
            "ncols": len(names),
            "borderaxespad": 0.2,
        }
    elif place == "right" or _much(names):
        lines = sum(name.count("\n") + 1 for name in names)
        where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": -(-lines // _COLUMN)}
    size = "small" if len(names) <= _INSIDE else "x-small"
    axes.legend(list(entries), names, frameon=False, fontsize=size, **where)


def shared_legend(made: Figure) -> None:
    """Replace the legends of axes that all show the same series by one at the right of the figure."""
    for axes in made.axes:
        if (own := axes.get_legend()) is not None:
            own.remove()
    entries, names = made.axes[0].get_legend_handles_labels()
    made.legend(entries, list(map(plain, names)), loc="outside right center", frameon=False, fontsize="small")


def beside(names: Sequence[str], more: int = 0) -> tuple[float, float]:
    """Return width and height that a legend takes outside the axes, inches; 0 if it is placed inside.

    Parameters
    ----------
    more
        Number of letters that an entry has besides its name.
    """
    entries = [wrapped(name + "x" * more, _ENTRY) for name in names]
    if not _much(entries):
        return 0.0, 0.0
    lines = sum(entry.count("\n") + 1 for entry in entries)
    columns, letter = -(-lines // _COLUMN), 0.075 if len(names) <= _INSIDE else 0.06
    longest = max(len(line) for entry in entries for line in entry.split("\n"))
    return columns * (0.5 + letter * longest), 0.8 + (lines / columns + 1) * 2.4 * letter


def _much(names: Sequence[str]) -> bool:
    """Whether a legend takes too much room to be placed inside the axes."""
    return len(names) > _INSIDE or sum(name.count("\n") + 1 for name in names) > _INSIDE


def plain(name: str) -> str:
    """Return a name escaped for matplotlib, so that text between dollar signs is not set as mathematics."""
    return name.replace("$", r"\$")


def wrapped(name: str, width: int = _LINE) -> str:
    """Return a name wrapped over several lines if it is long; nothing of it is left out."""
    return "\n".join(textwrap.wrap(name, width)) or name


def room(names: Sequence[str]) -> float:
    """Return the width of the longest line of these names next to an axis, inches."""
    return 0.08 * max((len(line) for name in names for line in wrapped(name).split("\n")), default=0)


def names_width(names: Sequence[str]) -> float:
    """Return the width of a chart with these names at its x axis, inches."""
    return max(5.0, 1.0 + 0.3 * len(names))


def name_x(axes: Axes, places: ArrayLike, names: Sequence[str]) -> None:
    """Write names at places of the x axis; call this when the limits of the axis are known.

    Long names are wrapped.  Names that would overlap are wrapped further, up to three lines; if that is not
    enough they are slanted, or else vertical and, if necessary, smaller.
    """
    at = np.asarray(places, np.float64)
    texts = [plain(wrapped(name)) for name in names]
    axes.set_xticks(at, texts)
    labels, figure = axes.get_xticklabels(), axes.get_figure()
    if len(at) < 2 or figure is None:
        return
    low, high = sorted(axes.get_xlim())
    if axes.get_xscale() == "log":
        at, low, high = np.log(at), np.log(low), np.log(high)
    between = float(np.diff(np.sort(at)).min()) * axes.get_window_extent().width / (high - low)
    size = float(labels[0].get_fontsize())
    gap = 0.5 * size * figure.dpi / 72.0
    for width in (_LINE, *_SHORTER):
        lines = [textwrap.wrap(name, width, break_long_words=False) for name in names]
        axes.set_xticklabels([plain("\n".join(each)) for each in lines])
        level = max(label.get_window_extent().width for label in labels) + gap <= between
        if level and max(map(len, lines)) <= 3:
            return
    axes.set_xticklabels(texts)
    highest = max(label.get_window_extent().height for label in labels)
    if highest <= between * np.sin(np.radians(_SLANT)):
        how: dict[str, Any] = {"rotation": _SLANT, "rotation_mode": "anchor", "ha": "right"}
    else:
        how = {"rotation": 90, "fontsize": size * min(1.0, 0.95 * between / highest)}
    for label in labels:
        label.set(**how)


def name_y(axes: Axes, name: str) -> None:
    """Write a name at the y axis, wrapped to the height of the axis."""
    figure = axes.get_figure()
    assert figure is not None
    label = axes.set_ylabel("")
    letters = axes.get_window_extent().height / figure.dpi * 72.0 / (0.55 * float(label.get_fontsize()))
    label.set_text(wrapped(name, max(12, int(letters))))


def titled(name: str, unit: str) -> str:
    """Return a title of an axis: the name with its unit, if it has one.

    Parameters
    ----------
    unit
        As in `gridsim.results.schema`; a note in brackets after it is left out.
    """
    unit = unit.partition(" (")[0]
    name = _NAMES.get(name, plain(name.replace("_", " ")))
    return f"{name}{f' ({unit})' if unit not in ('', '1', *name.split()) else ''}"


def spoken(entry: str) -> tuple[str, str]:
    """Return the words for an entry of a scenario file, such as ``network.latency``, and its unit.

    The unit is empty for an entry without one, or that no kind of table has.
    """
    *tables, last = entry.split(".")
    words, unit = _ENTRIES.get(entry, last.replace("_", " ")), ""
    if tables and tables[0] == "schedulers":
        known = registered().get(".".join(tables[1:]))
        kinds: Sequence[Any] = [] if known is None else [known[0]]
        words = f"{words} of {'.'.join(tables[1:])}"
    else:
        kinds = _TABLES.get(tables[0], ()) if tables else ()
        words = f"{words} of {tables[0]}" if last in ("seed", "kind", "path") and tables else words
    for kind in kinds:
        limits = limits_of(kind)
        if last in limits:
            unit = limits[last].unit
            break
    return plain(words), unit
