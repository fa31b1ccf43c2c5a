"""Labels of axes: units of time, powers of ten, logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from gridsim.support.imports import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: A logarithmic axis with more decades than this has labels only at powers of ten.
_MAX_LABELLED_DECADES = 2.0
#: An axis of ratios over a smaller factor than this has labels at equal distances.
_NARROW_RATIO = 4.0
#: Other axes have labels at these factors times powers of ten, with the first tuple that fits.
_FACTORS = ((1, 2, 5), (1, 3), (1,))
#: Labels on a logarithmic axis within this range are plain numbers, not powers of ten.
_PLAIN_RANGE = (1e-3, 1e5)
#: An axis over a larger factor than this has no room for plain numbers.
_MAX_PLAIN_RATIO = 1e4


def label_powers(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Label a linear axis with multiples of a power of ten if its values are very small or large."""
    if {"x": axes.get_xscale, "y": axes.get_yscale}[axis]() == "linear":
        axes.ticklabel_format(axis=axis, style="sci", scilimits=(-3, 5))


def short_number(value: float) -> str:
    """Return a number with three digits and a prefix for thousands, millions and so on."""
    power = min(4, int(np.log10(value) // 3)) if value >= 1000 else 0
    return f"{value / 1000.0**power:.3g}" + ("", " k", " M", " G", " T")[power]


def with_scale(axes: Axes, axis: Literal["x", "y"], title: str) -> str:
    """Return the title of an axis, which says so if its scale is logarithmic."""
    scale = axes.get_xscale() if axis == "x" else axes.get_yscale()
    return title if scale == "linear" else f"{title}, log scale"


def log_scale(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with the labels of `log_labels`."""
    if axis == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    log_labels(axes.xaxis if axis == "x" else axes.yaxis)


def padded_range(values: ArrayLike, *, is_log: bool, margin: float = 0.05) -> tuple[float, float] | None:
    """Return the limits of an axis for all finite values, which may be logarithmic; None without any."""
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    if is_log:
        factor = (high / low) ** margin
        return low / factor, high * factor
    padding = margin * (high - low) or 1.0
    return low - padding, high + padding


def ratio_scale(axes: Axes, axis: Literal["x", "y"], values: ArrayLike) -> None:
    """Make an axis of ratios logarithmic, so that 2 and 1/2 are equally far from 1; it includes 1.

    The axis stays linear if some of the `values` are not positive.
    """
    ratios = np.asarray(values, np.float64)
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios) or ratios.min() <= 0.0:
        return
    low, high = min(1.0, float(ratios.min())), max(1.0, float(ratios.max()))
    margin = max((high / low) ** 0.06, 1.0005)
    log_scale(axes, axis)
    (axes.set_xlim if axis == "x" else axes.set_ylim)(low / margin, high * margin)
    if high / low < _NARROW_RATIO:  # the range may contain none of 1, 2 and 5 times a power of ten
        ticker = import_extra("matplotlib.ticker", "plot", "a chart")
        shown_axis = axes.xaxis if axis == "x" else axes.yaxis
        shown_axis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        shown_axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.6g}"))
        shown_axis.set_minor_locator(ticker.NullLocator())


def log_labels(axis: Axis) -> None:
    """Label a logarithmic axis without overlaps; labels are chosen for the range at the time of drawing.

    Over more than two decades, powers of ten have labels.  Over fewer decades, 1, 2 and 5 times powers of ten
    have labels, or 1 and 3 times if there is too little room.  Over a part of a decade, as many ticks as fit
    have labels.
    """
    ticker = import_extra("matplotlib.ticker", "plot", "a chart")

    @lru_cache(maxsize=4)
    def labelled_ticks(low: float, high: float, points: float) -> Sequence[float]:
        return _labelled_ticks(axis, low, high, points)

    def label(value: float, _: object = None) -> str:
        low, high = sorted(axis.get_view_interval())
        is_narrow = low > 0.0 and high <= 10.0**_MAX_LABELLED_DECADES * low
        if not is_narrow:
            is_plain = _is_plain(low, high) and high <= _MAX_PLAIN_RATIO * low
            return _number_text(value, is_plain) if _factor_and_power(value)[0] == 1.0 else ""
        return (
            _number_text(value, _is_plain(low, high))
            if value in labelled_ticks(low, high, _length(axis))
            else ""
        )

    def minor_label(value: float, _: object = None) -> str:
        low, high = sorted(axis.get_view_interval())
        return label(value) if high <= 10.0**_MAX_LABELLED_DECADES * low else ""

    axis.set_major_formatter(ticker.FuncFormatter(label))
    axis.set_minor_formatter(ticker.FuncFormatter(minor_label))
    # otherwise a window would format the mouse position with the functions above, which return "" between
    # ticks
    setattr(axis.axes, "fmt_xdata" if _is_x_axis(axis) else "fmt_ydata", "{:.4g}".format)


def _is_x_axis(axis: Axis) -> bool:
    """Return whether an axis is the x axis of its axes."""
    return axis is axis.axes.xaxis


def extent(axes: Axes) -> tuple[float, float]:
    """Return the width and height of `axes` (points)."""
    figure, box = axes.get_figure(), axes.get_window_extent()
    assert figure is not None
    return box.width / figure.dpi * 72.0, box.height / figure.dpi * 72.0


def _length(axis: Axis) -> float:
    """Return the length of an axis (points)."""
    return extent(axis.axes)[0 if _is_x_axis(axis) else 1]


def _is_plain(low: float, high: float) -> bool:
    """Return whether the labels of an axis from `low` to `high` are plain numbers."""
    return _PLAIN_RANGE[0] <= low and high <= _PLAIN_RANGE[1]


def _labelled_ticks(axis: Axis, low: float, high: float, length: float) -> Sequence[float]:
    """Return the ticks with a label on an axis of `length` points from `low` to `high`."""
    ticks = sorted({float(tick) for tick in (*axis.get_majorticklocs(), *axis.get_minorticklocs())})
    ticks = [tick for tick in ticks if low <= tick <= high]
    is_x, is_plain, points = _is_x_axis(axis), _is_plain(low, high), length / math.log10(high / low)

    def has_room(subset: Sequence[float]) -> bool:
        """Return whether labels at these ticks do not overlap."""
        distances = [points * math.log10(b / a) for a, b in zip(subset, subset[1:], strict=False)]
        widths = [_label_width(tick, is_plain) for tick in subset]
        needed = [(a + b) / 2 for a, b in zip(widths, widths[1:], strict=False)]
        gaps = [6.0 * (letters + 1) if is_x else 12.0 for letters in needed]
        return all(distance >= gap for distance, gap in zip(distances, gaps, strict=True))

    for factors in _FACTORS:
        subset = [tick for tick in ticks if _factor_and_power(tick)[0] in factors]
        if len(subset) > 1 and has_room(subset):
            return subset
    subsets = (ticks[::step] for step in range(1, len(ticks) + 1))
    return next((subset for subset in subsets if has_room(subset)), ())


def _factor_and_power(value: float) -> tuple[float, int]:
    """Split a positive number into a factor in 1..10 and an exponent of ten."""
    power = math.floor(math.log10(value) + 1e-9)
    return round(value / 10.0**power, 6), power


def _number_text(value: float, is_plain: bool) -> str:
    factor, power = _factor_and_power(value)
    if is_plain:
        return f"{value:.6g}"
    factor_text = "" if factor == 1.0 else rf"{factor:g}\times"
    return rf"$\mathdefault{{{factor_text}10^{{{power}}}}}$"


def _label_width(value: float, is_plain: bool) -> float:
    """Return the approximate width of a label (letters)."""
    factor, power = _factor_and_power(value)
    if is_plain:
        return len(f"{value:.6g}")
    return 2.0 + 0.7 * len(str(power)) + (0.0 if factor == 1.0 else 1.5 + len(f"{factor:g}"))
