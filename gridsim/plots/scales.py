"""Labels of axes: units of time, powers of ten, logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from gridsim.results.metrics import series
from gridsim.support.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: A logarithmic axis of more decades than this has labels only at powers of ten.
_DECADES = 2.0
#: Ratios that differ by less than this factor have labels at equal distances.
_NARROW = 4.0
#: On other axes, labels are at these factors times powers of ten; the first tuple that has room is used.
_FACTORS = ((1, 2, 5), (1, 3), (1,))
#: There, numbers in this range are written out.
_PLAIN = (1e-3, 1e5)
#: Over a larger factor, there is no room for that.
_FEW = 1e4


def clock(span: float) -> tuple[float, str]:
    """Return the unit of time for an axis of `span` s: its length in s, and its name."""
    if span < 2 * 3600.0:
        return 1.0, "s"
    return (3600.0, "h") if span < 3 * 86_400.0 else (86_400.0, "days")


def powers(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Label a linear axis with multiples of a power of ten if its numbers are very small or large."""
    if {"x": axes.get_xscale, "y": axes.get_yscale}[axis]() == "linear":
        axes.ticklabel_format(axis=axis, style="sci", scilimits=(-3, 5))


def short(value: float) -> str:
    """Return a number in three digits with a letter for thousands, millions and so on."""
    power = min(4, int(np.log10(value) // 3)) if value >= 1000 else 0
    return f"{value / 1000.0**power:.3g}" + ("", " k", " M", " G", " T")[power]


def log_scale(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with the labels of `log_labels`."""
    if axis == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    log_labels(axes.xaxis if axis == "x" else axes.yaxis)


def fit_scale(axes: Axes, axis: Literal["x", "y"], values: ArrayLike) -> None:
    """Make an axis logarithmic if `values` are above 0 and differ widely, else label it with `powers`."""
    if series.wide(values):
        log_scale(axes, axis)
    else:
        powers(axes, axis)


def ratio_scale(axes: Axes, axis: Literal["x", "y"], values: ArrayLike) -> None:
    """Make an axis for ratios logarithmic, so that 2 and 1/2 are equally far from 1, which is on the axis.

    It stays linear if some of the `values` are not above 0.
    """
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if not len(known) or known.min() <= 0.0:
        return
    least, most = min(1.0, float(known.min())), max(1.0, float(known.max()))
    beyond = max((most / least) ** 0.06, 1.0005)
    log_scale(axes, axis)
    (axes.set_xlim if axis == "x" else axes.set_ylim)(least / beyond, most * beyond)
    if most / least < _NARROW:  # too little of a decade for labels at 1, 2, 5
        ticker = need("matplotlib.ticker", "plot", "a chart")
        which = axes.xaxis if axis == "x" else axes.yaxis
        which.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        which.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.6g}"))
        which.set_minor_locator(ticker.NullLocator())


def log_labels(axis: Axis) -> None:
    """Label a logarithmic axis without overlaps; labels are chosen when it is drawn, for the range it shows.

    Over more than two decades, powers of ten have labels.  Over fewer, 1, 2 and 5 times these have, or 1 and
    3 times if there is too little room.  Over a part of a decade, as many ticks have labels as there is room
    for.
    """
    ticker = need("matplotlib.ticker", "plot", "a chart")

    @lru_cache(maxsize=4)
    def chosen(low: float, high: float, points: float) -> Sequence[float]:
        return _chosen(axis, low, high, points)

    def label(value: float, _: object = None) -> str:
        low, high = sorted(axis.get_view_interval())
        narrow = low > 0.0 and high <= 10.0**_DECADES * low
        if not narrow:
            plain = _plain(low, high) and high <= _FEW * low
            return _written(value, plain) if _parts(value)[0] == 1.0 else ""
        return _written(value, _plain(low, high)) if value in chosen(low, high, _length(axis)) else ""

    def between(value: float, _: object = None) -> str:
        low, high = sorted(axis.get_view_interval())
        return label(value) if high <= 10.0**_DECADES * low else ""

    axis.set_major_formatter(ticker.FuncFormatter(label))
    axis.set_minor_formatter(ticker.FuncFormatter(between))
    # windows show the position of the mouse by a format of their own, not by these formatters
    setattr(axis.axes, "fmt_xdata" if _level(axis) else "fmt_ydata", "{:.4g}".format)


def _level(axis: Axis) -> bool:
    """Whether it is an x axis."""
    return axis is axis.axes.xaxis


def extent(axes: Axes) -> tuple[float, float]:
    """Return width and height of `axes`, points."""
    figure, box = axes.get_figure(), axes.get_window_extent()
    assert figure is not None
    return box.width / figure.dpi * 72.0, box.height / figure.dpi * 72.0


def _length(axis: Axis) -> float:
    """Return the length of an axis, points."""
    return extent(axis.axes)[0 if _level(axis) else 1]


def _plain(low: float, high: float) -> bool:
    """Whether the numbers of an axis from `low` to `high` are written out."""
    return _PLAIN[0] <= low and high <= _PLAIN[1]


def _chosen(axis: Axis, low: float, high: float, length: float) -> Sequence[float]:
    """Return the ticks that get a label, for an axis of `length` points from `low` to `high`."""
    ticks = sorted({float(at) for at in (*axis.get_majorticklocs(), *axis.get_minorticklocs())})
    ticks = [at for at in ticks if low <= at <= high]
    level, plain, points = _level(axis), _plain(low, high), length / math.log10(high / low)

    def fit(some: Sequence[float]) -> bool:
        """Whether labels at these ticks do not overlap."""
        room = [points * math.log10(b / a) for a, b in zip(some, some[1:], strict=False)]
        wide = [_letters(at, plain) for at in some]
        letters = [(a + b) / 2 for a, b in zip(wide, wide[1:], strict=False)]
        return all(has >= (6.0 * (n + 1) if level else 12.0) for has, n in zip(room, letters, strict=True))

    for factors in _FACTORS:
        some = [at for at in ticks if _parts(at)[0] in factors]
        if len(some) > 1 and fit(some):
            return some
    every = (ticks[::step] for step in range(1, len(ticks) + 1))
    return next((some for some in every if fit(some)), ())


def _parts(value: float) -> tuple[float, int]:
    """Split a number above 0 into a factor in 1..10 and an exponent of ten."""
    power = math.floor(math.log10(value) + 1e-9)
    return round(value / 10.0**power, 6), power


def _written(value: float, plain: bool) -> str:
    factor, power = _parts(value)
    if plain:
        return f"{value:.6g}"
    times = "" if factor == 1.0 else rf"{factor:g}\times"
    return rf"$\mathdefault{{{times}10^{{{power}}}}}$"


def _letters(value: float, plain: bool) -> float:
    """Return the approximate width of a label, in letters."""
    factor, power = _parts(value)
    if plain:
        return len(f"{value:.6g}")
    return 2.0 + 0.7 * len(str(power)) + (0.0 if factor == 1.0 else 1.5 + len(f"{factor:g}"))
