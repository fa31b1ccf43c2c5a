"""The style of all charts: figures, files, colours, legends, names and units.

The colours are those of Okabe and Ito without the three that are faint on white, a red of Petroff (2021) and
the ultramarine of IBM's palette.  Colour-blind readers can distinguish them, and each has a contrast of at
least 3:1 on white (WCAG 2.2) and, but for black, on the dark pages of reports.  Series of different colours
also have different markers.  Continuous scales use the colour map cividis.
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
from gridsim.support.arguments import real
from gridsim.support.imports import import_extra
from gridsim.support.parameters import limits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

#: Colours and markers of series, in this order.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E42536", "#785EF0", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Colours of applications and jobs in turn, without black, which marks work that was not completed.
APPLICATION_COLOURS = tuple(colour for colour in COLOURS if colour != "#000000")
#: Share of white in pale tones.
PALE_SHARE = 0.4
#: Line styles; they distinguish series of equal colour if there are more series than colours.
DASHES = ("-", "--", "-.", ":")
#: Number of distinct looks of series.
LOOKS = len(COLOURS) * len(DASHES)
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
    "mean_completion": "mean response time",
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
#: Sizes of text (pt) in charts of 5 inches and more, and in narrow ones; numbers and legends are smaller.
TEXT_SIZE, _NARROW_TEXT_SIZE, _SMALL_SHARE = 10.0, 8.5, 5 / 6
#: Least width and height of charts (inches), and height as a share of the width.
MIN_WIDTH, _MIN_SHAPE = 2.0, 0.62
#: Legends outside of axes in a narrower figure (inches) are above them.
_NARROW = 4.5
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
    "font.size": TEXT_SIZE,
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
    columns: int = 1,
    *,
    rows: int = 1,
    width: float = 5.0,
    height: float = 3.6,
    text_size: float = TEXT_SIZE,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `columns` x `rows` axes of `width` x `height` inches each.

    The figure belongs to no window, and is not registered with pyplot.

    Parameters
    ----------
    text_size
        Size of labels, pt; other text is smaller.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    kind = import_extra("matplotlib.figure", "plot", "a chart").Figure
    with _text_style(text_size):
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
    width: float | None = None,
    *,
    size: tuple[float, float] = (5.0, 3.6),
    least_height: float = 0.0,
    grid: Literal["", "x", "y", "both"] = "both",
) -> Axes:
    """Apply the style of all charts to `axes`, and return them.

    Parameters
    ----------
    axes
        None for new axes, which are created with pyplot.
    width
        Width of a new figure, inches; None for that of `size`.
    size
        Width and height of a new figure, inches, if no width is given.
    least_height
        Least height of a new figure, inches, if a width is given.
    grid
        The axes that have grid lines: ``"x"``, ``"y"``, ``"both"``, or empty for none.

    Raises
    ------
    ScenarioError
        If both `axes` and `width` are given, or `width` is too small.
    """
    if axes is None:
        pyplot = import_extra("matplotlib.pyplot", "plot", "a chart")
        size, text_size = (size, TEXT_SIZE) if width is None else scaled_size(size, width, least_height)
        with _text_style(text_size):
            axes = pyplot.figure(figsize=size, layout="constrained").subplots()
    elif width is not None:
        raise ScenarioError("axes do not support width: they have that of their figure")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(True, alpha=0.3, axis=grid)
    return axes


@contextmanager
def _text_style(size: float) -> Iterator[None]:
    """Apply the style of all charts, with text of this size (pt), in a context."""
    settings = import_extra("matplotlib", "plot", "a chart").rcParams
    with use_style():
        settings["font.size"] = size
        yield


def scaled_size(
    size: tuple[float, float], width: float, least_height: float = 0.0
) -> tuple[tuple[float, float], float]:
    """Return the size of a chart (inches) that is scaled to a width, and the size of its text (pt).

    Text shrinks less than the chart, so that it stays legible, and a chart is never much wider than high.

    Parameters
    ----------
    least_height
        Height that the text of the chart needs, inches.

    Raises
    ------
    ScenarioError
        If the width is too small.
    """
    width = real("width", width, low=MIN_WIDTH, unit="in")
    text_size = min(TEXT_SIZE, max(_NARROW_TEXT_SIZE, 2.0 * width))
    return (width, max(size[1] * width / size[0], _MIN_SHAPE * min(width, size[0]), least_height)), text_size


def rows_least_height(height: float) -> float:
    """Return the least height of a chart with a row per name that has this height if it is wide."""
    return height * _NARROW_TEXT_SIZE / TEXT_SIZE


def legend_least_height(names: Sequence[str], width: float) -> float:
    """Return the least height (inches) of a chart of this width with its legend; 0 if that is inside."""
    entries = [wrap_name(name, _LEGEND_WIDTH) for name in names]
    if width >= _NARROW or not _is_large_legend(entries):
        return 0.0
    size = _NARROW_TEXT_SIZE * _SMALL_SHARE
    lines = sum(entry.count("\n") + 1 for entry in entries) / _legend_columns(entries, width, size)
    return _MIN_SHAPE * width + (lines + 1) * 1.4 * size / 72.0


def small_text(axes: Axes) -> float:
    """Return the size (pt) of small text in `axes`, such as legends: a share of that of labels."""
    return _SMALL_SHARE * float(axes.xaxis.label.get_fontsize())


def tiny_text(axes: Axes) -> float:
    """Return the size (pt) of text that has little room, such as numbers at points; it stays legible."""
    return max(_NARROW_TEXT_SIZE * _SMALL_SHARE, _SMALL_SHARE * small_text(axes))


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
    colour, dash, marker = series_look(number)
    return {"color": COLOURS[colour], "marker": MARKERS[marker], "linestyle": DASHES[dash]}


def series_look(number: int) -> tuple[int, int, int]:
    """Return the numbers of the colour, dashes and marker of series `number`, distinct for `LOOKS` series."""
    dash, colour = divmod(number % LOOKS, len(COLOURS))
    return colour, dash, (colour + dash) % len(MARKERS)


def job_colours() -> list[str]:
    """Return the colours (#rrggbb) of rigid jobs in schedules, the pale tones last."""
    channels = ([int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in APPLICATION_COLOURS)
    pale = [[round((1.0 - PALE_SHARE) * value + 255 * PALE_SHARE) for value in rgb] for rgb in channels]
    return [*APPLICATION_COLOURS, *(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in pale)]


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
    if count > LOOKS:
        raise ScenarioError(f"the number of series must be at most {LOOKS}, got {count}")


def legend(axes: Axes, *, handles: Sequence[Any] | None = None, place: str = "best") -> None:
    """Add a small legend without a frame, unless it would be empty.

    Parameters
    ----------
    handles
        Artists of the entries; by default all that have a label.
    place
        A location within the axes, as in matplotlib, or ``"right"`` or ``"above"`` for outside.  A large
        legend is placed on the right, unless `place` is ``"above"``.  In a narrow figure it is placed
        above instead.
    """
    entries = axes.get_legend_handles_labels()[0] if handles is None else handles
    if not entries:
        return
    names = [escape_math(wrap_name(str(entry.get_label()), _LEGEND_WIDTH)) for entry in entries]
    options: dict[str, Any] = {"loc": place}
    width, size = _figure_width(axes), small_text(axes)
    is_outside = place == "right" or _is_large_legend(names)
    if place == "above" or (is_outside and width < _NARROW):
        options = {
            "loc": "lower right",
            "bbox_to_anchor": (1.0, 1.0),
            "ncols": _legend_columns(names, width, size),
            "borderaxespad": 0.2,
        }
    elif is_outside:
        lines = sum(name.count("\n") + 1 for name in names)
        options = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": -(-lines // _MAX_COLUMN_LINES)}
    if len(names) > _MAX_INSIDE:
        size = tiny_text(axes)
    axes.legend(list(entries), names, frameon=False, fontsize=size, **options)


def _legend_columns(names: Sequence[str], width: float, size: float) -> int:
    """Return the number of columns of a legend in a figure of a width (inches), with text of a size (pt)."""
    letters = 9 + max(len(line) for name in names for line in name.split("\n"))
    return min(len(names), max(1, int(72.0 * width / (0.6 * size * letters))))


def _figure_width(axes: Axes) -> float:
    """Return the width (inches) of the figure of `axes`."""
    figure = axes.get_figure()
    assert figure is not None
    return float(figure.bbox.width / figure.dpi)


def shared_legend(fig: Figure) -> None:
    """Replace the legends of axes with equal series by one legend at the right of the figure."""
    for axes in fig.axes:
        if (axes_legend := axes.get_legend()) is not None:
            axes_legend.remove()
    entries, names = fig.axes[0].get_legend_handles_labels()
    fig.legend(
        entries,
        list(map(escape_math, names)),
        loc="outside right center",
        frameon=False,
        fontsize=small_text(fig.axes[0]),
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


def chart_size(names: Sequence[str]) -> tuple[float, float]:
    """Return the width and height (inches) of a chart with names at its x axis."""
    return max(5.0, 1.0 + 0.3 * len(names)), 3.6


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


def name_x(axes: Axes, name: str, note: str = "") -> None:
    """Label the x axis with a name, wrapped to the width of the axis, and a note on a line of its own."""
    _set_name(axes.set_xlabel(""), name, axes.get_window_extent().width, note)


def name_y(axes: Axes, name: str) -> None:
    """Label the y axis with a name, wrapped to the height of the axis."""
    _set_name(axes.set_ylabel(""), name, axes.get_window_extent().height)


def _set_name(label: Text, name: str, pixels: float, note: str = "") -> None:
    """Set the text of a label, wrapped to a length; the name of a scale stays on one line."""
    figure = label.get_figure()
    assert figure is not None
    letters = int(pixels / figure.dpi * 72.0 / (0.55 * float(label.get_fontsize())))
    text = wrap_name(name.replace("log scale", "log\xa0scale"), max(12, letters)).replace("\xa0", " ")
    label.set_text("\n".join(filter(None, [text, note])))


def colour_bar(axes: Axes, mesh: Any, name: str, note: str = "") -> Any:
    """Add a colour bar of `mesh` beside `axes`, with its name, wrapped to its height, and a note."""
    figure = axes.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, ax=axes, pad=0.01)
    bar.ax.tick_params(labelsize=small_text(axes))
    label = bar.ax.yaxis.label
    label.set_fontsize(axes.yaxis.label.get_fontsize())
    _set_name(label, name, axes.get_window_extent().height, note)
    return bar


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
