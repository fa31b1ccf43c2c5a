"""The style of all charts: figures, files, colours, legends, names and units.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish; series of different
colours also have different markers.  Continuous scales use the colour map cividis.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.model.kinds import PARTS, all_kinds
from gridsim.model.network import Network
from gridsim.scheduling.registry import registered
from gridsim.support.imports import import_extra
from gridsim.support.parameters import limits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours and markers of series, in this order.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Colours of applications and jobs in turn, without black, which marks work that was not completed.
APPLICATION_COLOURS = tuple(colour for colour in COLOURS if colour != "#000000")
#: Line styles; they distinguish series of equal colour if there are more series than colours.
DASHES = ("-", "--", "-.", ":")
#: Colour map of continuous scales.
MAP = "cividis"
#: Neutral colour of totals, reference lines and recorded schedules, distinct from the colours of parts.
TOTAL_COLOUR = "#999999"
#: Formats of figure files: extension of the name -> metadata settings that omit times and versions.
FORMATS: Mapping[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
#: A legend with more entries or lines than this is placed outside the axes.
_MAX_INSIDE = 9
#: A legend outside has at most this many lines per column.
_MAX_COLUMN_LINES = 36
#: Names longer than this are wrapped: at an axis, and in a legend.
_AXIS_WIDTH, _LEGEND_WIDTH = 24, 36
#: Names at the x axis that overlap are wrapped at these widths (letters), or finally slanted (degrees).
_SHORTER_WIDTHS = (16, 12)
_SLANT_ANGLE = 35
#: Column -> its name in charts.
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
    "carbon": "CO2 of the energy used",
    "energy": "energy used",
    "wasted": "share of wasted cycles",
    "migrated": "share of jobs that moved",
    "messages": "messages sent",
    "bytes": "traffic",
    "mean_waiting": "mean waiting time",
    "mean_waiting_by_cores": "mean waiting time by cores",
    "median_waiting": "median waiting time",
    "p95_waiting": "95th percentile of the waiting time",
    "mean_slowdown": "mean bounded slowdown",
    "mean_slowdown_by_cores": "mean bounded slowdown by cores",
    "offered_utilization": "share of the machine time used until the last release",
    "mean_completion": "mean completion time",
    "failed": "rejected jobs",
    "response": "response time",
    "waiting": "waiting time",
    "slowdown": "bounded slowdown",
    "bytes_out": "sent",
    "bytes_in": "received",
    "use_mean": "mean use of the interface",
    "use_peak_1s": "peak use of the interface over 1 s",
    "use_peak_10s": "peak use of the interface over 10 s",
}
#: Key of a scenario file -> a longer name for charts.
_ENTRIES = {
    "faults.up": "mean time to failure",
    "faults.mean": "mean time between failures",
    "faults.down": "mean time until recovery",
}
#: Settings of matplotlib for all charts.
STYLE: Mapping[str, Any] = {
    "pdf.fonttype": 42,  # TrueType, since many submission systems reject Type 3 fonts
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
    """Apply the style of gridsim's charts to other charts: ``with plots.use_style(): ...``.

    The settings are restored at the end of the context.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    settings = import_extra("matplotlib", "plot", "a chart").rcParams
    # unlike rc_context, do not undo the settings of a backend that is loaded in the meantime
    saved_settings = {name: settings[name] for name in STYLE}
    settings.update(STYLE)
    try:
        yield
    finally:
        settings.update(saved_settings)


def figure(
    columns: int = 1, *, rows: int = 1, width: float = 5.0, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `columns` x `rows` axes of `width` x `height` inches each.

    The figure belongs to no window, and is not registered with pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    kind = import_extra("matplotlib.figure", "plot", "a chart").Figure
    with use_style():
        figure: Figure = kind(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010  (notebooks look for it)
    return figure, list(axes.flat)


def _png(figure: Figure) -> bytes:
    """Return a figure as PNG, for notebooks in which pyplot is not loaded."""
    stream = io.BytesIO()
    save(figure, stream)
    return stream.getvalue()


def styled_axes(
    axes: Axes | None,
    *,
    width: float = 5.0,
    height: float = 3.6,
    grid: Literal["", "x", "y", "both"] = "both",
) -> Axes:
    """Apply the style of all charts to `axes`, and return them.

    If `axes` is None, new axes of `width` x `height` inches are created with pyplot.

    Parameters
    ----------
    grid
        The axes that have grid lines: ``"x"``, ``"y"``, ``"both"``, or empty for none.
    """
    if axes is None:
        pyplot = import_extra("matplotlib.pyplot", "plot", "a chart")
        with use_style():
            axes = pyplot.figure(figsize=(width, height), layout="constrained").subplots()
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(True, alpha=0.3, axis=grid)
    return axes


def save(
    fig: Figure, stream: IO[bytes], *, format: Literal["png", "svg", "pdf"] = "png", dpi: int = 150
) -> None:
    """Write a figure without times or versions, so that equal figures give equal files.

    Parameters
    ----------
    format
        One of `FORMATS`.
    dpi
        Resolution of PNG, and of rasterized parts in the other formats.
    """
    if format not in FORMATS:
        raise ScenarioError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    context = import_extra("matplotlib", "plot", "a chart").rc_context
    with context({"svg.hashsalt": "gridsim", "pdf.fonttype": 42}):
        fig.savefig(stream, format=format, dpi=dpi, metadata=FORMATS[format])


def series_style(number: int) -> dict[str, Any]:
    """Return the colour, marker and line style of series `number` as settings of matplotlib."""
    cycle, position = divmod(number, len(COLOURS))
    return {
        "color": COLOURS[position],
        "marker": MARKERS[(position + cycle) % len(MARKERS)],
        "linestyle": DASHES[cycle % len(DASHES)],
    }


def text_colour(background: str) -> str:
    """Return the colour of text on a background (#rrggbb): black or white."""
    red, green, blue = (int(background[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "#000000" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.55 else "#ffffff"


def check_count(count: int) -> None:
    """Check that `count` series can be distinguished in a chart.

    Raises
    ------
    ScenarioError
        If there are more series than combinations of colours and line styles.
    """
    if count > (max_count := len(COLOURS) * len(DASHES)):
        raise ScenarioError(f"the number of series must be at most {max_count}, got {count}")


def legend(axes: Axes, *, handles: Sequence[Any] | None = None, place: str = "best") -> None:
    """Add a small legend without a frame, unless it would be empty.

    Parameters
    ----------
    handles
        Artists of the entries; by default all that have a label.
    place
        A location within the axes, as in matplotlib, or ``"right"`` or ``"above"`` for outside.  A large
        legend is placed on the right, unless `place` is ``"above"``.
    """
    entries = axes.get_legend_handles_labels()[0] if handles is None else handles
    if not entries:
        return
    names = [escape_math(wrap_name(str(entry.get_label()), _LEGEND_WIDTH)) for entry in entries]
    options: dict[str, Any] = {"loc": place}
    if place == "above":
        options = {
            "loc": "lower right",
            "bbox_to_anchor": (1.0, 1.0),
            "ncols": len(names),
            "borderaxespad": 0.2,
        }
    elif place == "right" or _is_large_legend(names):
        lines = sum(name.count("\n") + 1 for name in names)
        options = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": -(-lines // _MAX_COLUMN_LINES)}
    size = "small" if len(names) <= _MAX_INSIDE else "x-small"
    axes.legend(list(entries), names, frameon=False, fontsize=size, **options)


def shared_legend(fig: Figure) -> None:
    """Replace the legends of axes with equal series by one legend at the right of the figure."""
    for axes in fig.axes:
        if (axes_legend := axes.get_legend()) is not None:
            axes_legend.remove()
    entries, names = fig.axes[0].get_legend_handles_labels()
    fig.legend(
        entries, list(map(escape_math, names)), loc="outside right center", frameon=False, fontsize="small"
    )


def legend_size(names: Sequence[str], extra_letters: int = 0) -> tuple[float, float]:
    """Return the width and height (inches) of a legend outside the axes; 0 if it is placed inside.

    Parameters
    ----------
    extra_letters
        Number of letters in an entry besides its name.
    """
    entries = [wrap_name(name + "x" * extra_letters, _LEGEND_WIDTH) for name in names]
    if not _is_large_legend(entries):
        return 0.0, 0.0
    lines = sum(entry.count("\n") + 1 for entry in entries)
    columns, letter = -(-lines // _MAX_COLUMN_LINES), 0.075 if len(names) <= _MAX_INSIDE else 0.06
    longest = max(len(line) for entry in entries for line in entry.split("\n"))
    return columns * (0.5 + letter * longest), 0.8 + (lines / columns + 1) * 2.4 * letter


def _is_large_legend(names: Sequence[str]) -> bool:
    """Return whether a legend is too large to be placed inside the axes."""
    return len(names) > _MAX_INSIDE or sum(name.count("\n") + 1 for name in names) > _MAX_INSIDE


def escape_math(name: str) -> str:
    """Return a name escaped for matplotlib, so that text between dollar signs is not set as mathematics."""
    return name.replace("$", r"\$")


def wrap_name(name: str, width: int = _AXIS_WIDTH) -> str:
    """Return a name, wrapped over several lines if it is long; it is not shortened."""
    return "\n".join(textwrap.wrap(name, width)) or name


def halo() -> list[Any]:
    """Return the path effects of a text that lines must not strike through: a white outline."""
    effects = import_extra("matplotlib.patheffects", "plot", "a chart")
    return [effects.withStroke(linewidth=2.5, foreground="white")]


def label_width(names: Sequence[str]) -> float:
    """Return the width (inches) of wrapped names next to an axis."""
    return 0.08 * max((len(line) for name in names for line in wrap_name(name).split("\n")), default=0)


def chart_width(names: Sequence[str]) -> float:
    """Return the width (inches) of a chart with names at its x axis."""
    return max(5.0, 1.0 + 0.3 * len(names))


def label_x(axes: Axes, places: ArrayLike, names: Sequence[str]) -> None:
    """Write names at positions of the x axis, whose limits must be final.

    Long names are wrapped.  Names that would overlap are wrapped to up to three lines.  If they still
    overlap, they are slanted, or finally vertical and, if necessary, smaller.
    """
    positions = np.asarray(places, np.float64)
    texts = [escape_math(wrap_name(name)) for name in names]
    axes.set_xticks(positions, texts)
    labels, figure = axes.get_xticklabels(), axes.get_figure()
    if len(positions) < 2 or figure is None:
        return
    low, high = sorted(axes.get_xlim())
    if axes.get_xscale() == "log":
        positions, low, high = np.log(positions), np.log(low), np.log(high)
    spacing = float(np.diff(np.sort(positions)).min()) * axes.get_window_extent().width / (high - low)
    size = float(labels[0].get_fontsize())
    gap = 0.5 * size * figure.dpi / 72.0
    for width in (_AXIS_WIDTH, *_SHORTER_WIDTHS):
        lines = [textwrap.wrap(name, width, break_long_words=False) for name in names]
        axes.set_xticklabels([escape_math("\n".join(name_lines)) for name_lines in lines])
        fits = max(label.get_window_extent().width for label in labels) + gap <= spacing
        if fits and max(map(len, lines)) <= 3:
            return
    axes.set_xticklabels(texts)
    highest = max(label.get_window_extent().height for label in labels)
    if highest <= spacing * np.sin(np.radians(_SLANT_ANGLE)):
        options: dict[str, Any] = {"rotation": _SLANT_ANGLE, "rotation_mode": "anchor", "ha": "right"}
    else:
        options = {"rotation": 90, "fontsize": size * min(1.0, 0.95 * spacing / highest)}
    for label in labels:
        label.set(**options)


def label_y(axes: Axes, name: str) -> None:
    """Label the y axis with a name, wrapped to the height of the axis."""
    figure = axes.get_figure()
    assert figure is not None
    label = axes.set_ylabel("")
    letters = axes.get_window_extent().height / figure.dpi * 72.0 / (0.55 * float(label.get_fontsize()))
    label.set_text(wrap_name(name, max(12, int(letters))))


def axis_title(name: str, unit: str) -> str:
    """Return `quantity_title`, escaped for matplotlib."""
    return escape_math(quantity_title(name, unit))


def quantity_title(name: str, unit: str) -> str:
    """Return the name of a column in charts, `with_unit`."""
    return with_unit(_NAMES.get(name, name.replace("_", " ")), unit)


def with_unit(name: str, unit: str) -> str:
    """Return the title of an axis: the name of a quantity with its unit.

    Parameters
    ----------
    unit
        Unit as in `gridsim.results.schema`, or empty; a note in brackets after it is omitted.
    """
    unit = unit.partition(" (")[0]
    return f"{name}{f' ({unit})' if unit not in ('', '1', *name.split()) else ''}"


def entry_title(entry: str) -> tuple[str, str]:
    """Return the label in charts, and the unit, of a key of a scenario file, such as ``network.latency``.

    The unit is empty if the key has none, or does not exist.
    """
    *tables, last = entry.split(".")
    words, unit = _ENTRIES.get(entry, last.replace("_", " ")), ""
    if tables and tables[0] == "schedulers":
        registration = registered().get(".".join(tables[1:]))
        kinds: Sequence[Any] = [] if registration is None else [registration[0]]
        words = f"{words} of {'.'.join(tables[1:])}"
    else:
        kinds = _kinds(tables[0]) if tables else ()
        words = f"{words} of {tables[0]}" if last in ("seed", "kind", "path") and tables else words
    for kind in kinds:
        limits = limits_of(kind)
        if last in limits:
            unit = limits[last].unit
            break
    return words, unit


def _kinds(table: str) -> Sequence[Any]:
    """Return the classes of the kinds of a table of a scenario file."""
    if table == "network":
        return (Network,)
    return tuple(all_kinds(table).values()) if table in PARTS else ()
