"""Charts of estimates, and of the values of many runs from which they were computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.looks import looks, series_label
from gridsim.plots.scales import label_powers, log_scale, ratio_scale, with_scale
from gridsim.plots.style import (
    COLOURS,
    TOTAL_COLOUR,
    chart_size,
    check_count,
    escape_math,
    halo,
    label_width,
    label_x,
    legend,
    rows_least_height,
    series_style,
    small_text,
    styled_axes,
    tiny_text,
    wrap_name,
)
from gridsim.results.metrics import series
from gridsim.support.text import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.metrics.estimates import Estimate

#: Height (inches) of the text on a page of paper.
_PAGE_HEIGHT = 9.0


def lines(
    x: Sequence[float],
    series: Mapping[str, Sequence[Estimate]],
    *,
    styles: Sequence[str] = (),
    constants: Collection[str] = (),
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a line per series over `x`, with confidence intervals as a band and as error bars.

    Parameters
    ----------
    x
        Positions of the k points.
    series
        Name -> k estimates.  A point without an interval has no error bar.
    styles
        Names whose colours and markers differ, including those of `series`; by default the latter.
    constants
        Names of series that do not depend on `x`, which have no markers and error bars.
    """
    check_count(len(series))
    axes, look_of = styled_axes(axes, width), looks(styles or series)
    for name, points in series.items():
        middle, low, high = _means_and_ends(points)
        style = series_style(look_of[name])
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        is_constant = name in constants
        style |= {"marker": ""} if is_constant else {}
        axes.errorbar(
            x,
            middle,
            yerr=None if is_constant else _error_bars(middle, low, high),
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=name,
            **style,
        )
    label_powers(axes, "y")
    legend(axes)
    return axes


def boxes(samples: Mapping[str, Any], *, width: float | None = None, axes: Axes | None = None) -> Axes:
    """Draw a box per sample, with whiskers to 1.5 times the interquartile range, and each value as a dot.

    Parameters
    ----------
    samples
        Label at the x axis -> values; NaN is ignored.
    """
    axes = styled_axes(axes, width, size=chart_size(list(samples)), grid="y")
    values = [_finite_values(sample) for sample in samples.values()]
    positions = list(range(1, len(values) + 1))
    axes.boxplot(values, positions=positions, widths=0.5, showfliers=False, medianprops={"color": COLOURS[1]})
    for position, sample in zip(positions, values, strict=True):
        axes.plot(
            position + _dot_offsets(len(sample), 0.3),
            sample,
            linestyle="",
            marker="o",
            markersize=3,
            color=COLOURS[0],
            alpha=0.6,
        )
    label_powers(axes, "y")
    label_x(axes, positions, list(samples))
    return axes


def bars(
    labels: Sequence[str],
    measured: Sequence[Estimate],
    published: Sequence[float | None] | None = None,
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw bars of k measured values with error bars, next to bars of published values.

    Parameters
    ----------
    labels
        Names of the k bars at the x axis.
    measured
        Estimates of the k measured values.
    published
        The k published values; None for a missing one.
    """
    axes = styled_axes(axes, width, size=chart_size(labels), grid="y")
    positions = np.arange(len(labels))
    middle, low, high = _means_and_ends(measured)
    has_published = published is not None and any(value is not None for value in published)
    if published is not None and has_published:
        published_values = np.array(
            [np.nan if value is None else value for value in published], dtype=np.float64
        )
        axes.bar(positions - 0.2, published_values, 0.4, color=COLOURS[4], label="paper")
    bar_positions, bar_width = (positions + 0.2, 0.4) if has_published else (positions, 0.6)
    spread = _error_bars(middle, low, high)
    axes.bar(bar_positions, middle, bar_width, yerr=spread, capsize=3, color=COLOURS[0], label="measured")
    label_powers(axes, "y")
    label_x(axes, positions, labels)
    if has_published:
        legend(axes)
    return axes


def intervals(
    samples: Mapping[str, Any],
    estimates: Mapping[str, Estimate],
    styles: Sequence[str] = (),
    *,
    ratio: bool = False,
    log: bool | None = None,
    exclusions: Collection[str] = (),
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a row per name: its estimate with the confidence interval, and each value as a faint dot.

    The mean is written above each estimate that has values.

    Parameters
    ----------
    samples
        Name -> values.
    estimates
        Name -> the estimate from the values.
    styles
        Names whose colours and markers differ, including those of `estimates`; by default the latter.
    ratio
        Whether the values are ratios, so that 2 and 1/2 are drawn equally far from 1.
    log
        Whether the axis of other values is logarithmic; None if they differ widely.
    exclusions
        Names whose marks are hollow, since they are not ranked.
    """
    names, look_of = list(estimates), looks(styles or estimates)
    size = 4.0 + label_width(names), row_chart_height(names)
    axes = styled_axes(axes, width, size=size, least_height=rows_least_height(size[1]), grid="x")
    value_arrays = []
    for row, name in enumerate(names):
        style = series_style(look_of[name])
        values, estimate = _finite_values(samples[name]), estimates[name]
        value_arrays.append(values)
        axes.plot(
            values,
            row
            + 0.25
            + _dot_offsets(
                len(values), 0.3
            ),  # the dots are below the row, since the mean is written above it
            linestyle="",
            marker="o",
            markersize=2.5,
            color=COLOURS[6],
            alpha=0.25,
        )
        low, high = (0.0 if np.isnan(e) else abs(estimate.mean - e) for e in (estimate.low, estimate.high))
        axes.errorbar(
            estimate.mean,
            row,
            xerr=[[low], [high]],
            markersize=6,
            capsize=3,
            linewidth=1.5,
            color=style["color"],
            marker=style["marker"],
            markerfacecolor="white" if name in exclusions else style["color"],
        )
        if len(values) and np.isfinite(estimate.mean):
            axes.annotate(
                number_text(estimate.mean),
                (estimate.mean, row),
                (0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=tiny_text(axes),
                path_effects=halo(),
            )
    labels = [escape_math(wrap_name(series_label(name, exclusions))) for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.45, -0.55)
    all_values = np.concatenate(value_arrays) if value_arrays else np.zeros(0)
    if ratio:
        ratio_scale(axes, "x", all_values)
    elif series.is_wide(all_values) if log is None else log:
        log_scale(axes, "x")
    else:
        axes.locator_params(axis="x", nbins=5)
        label_powers(axes, "x")
    return axes


def waterfall(
    labels: Sequence[str],
    start: Estimate,
    steps: Sequence[Estimate],
    end: Estimate,
    *,
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw signed steps from `start` to `end` as bars, from the top down, with error bars.

    Increases and decreases have different colours.  Each step is labelled with its share of the start.

    Parameters
    ----------
    labels
        Names of the start and of the k steps.
    start, end
        Values before the first step and after the last one.
    steps
        The k differences.
    """
    height = row_chart_height([*labels, ""])
    axes = styled_axes(axes, width, size=(8.0, height), least_height=rows_least_height(height), grid="x")
    rows = np.arange(len(steps) + 2)
    middle, low, high = _means_and_ends([start, *steps, end])
    offsets = np.concatenate(([0.0, start.mean], start.mean + np.cumsum(middle[1:-1])))[:-1]
    left = np.concatenate((offsets, [0.0]))
    colours = [COLOURS[1] if step.mean > 0 else COLOURS[0] for step in steps]
    axes.barh(rows, middle, 0.6, left=left, color=[TOTAL_COLOUR, *colours, TOTAL_COLOUR])
    spread = _error_bars(middle, low, high)
    axes.errorbar(left + middle, rows, xerr=spread, fmt="none", ecolor="black", elinewidth=1, capsize=3)
    for row, end_of_step in enumerate(left[1:-1] + middle[1:-1], 1):
        axes.plot([end_of_step, end_of_step], [row, row + 1], color="black", linewidth=0.6, linestyle=":")
    for row, step in enumerate(steps, 1):
        end_of_step = max(left[row], left[row] + max(middle[row], np.nan_to_num(high[row])))
        axes.annotate(
            _share_text(step.mean, start.mean),
            (end_of_step, row),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=small_text(axes),
            path_effects=halo(),
        )
    axes.set_yticks(rows, [*(escape_math(wrap_name(label)) for label in labels), "all together"])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlim(left=min(0.0, float((left + middle).min())))
    return axes


def scaling(
    sizes: Sequence[float],
    measured: Mapping[str, Sequence[Estimate | float | None]],
    *,
    unit: str = "s",
    width: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw measurements over sizes on logarithmic scales, with confidence intervals of estimates.

    Faint lines through the first value have the slopes of n and n log n.

    Parameters
    ----------
    sizes
        The k sizes n, which must be positive.
    measured
        Name -> k positive values in `unit`; None or NaN for a missing one.
    unit
        Unit of the values, for the y axis.

    Raises
    ------
    ScenarioError
        If a size or value is not positive, or a series does not have k values.
    """
    size_array = np.asarray(sizes, np.float64)
    if not (size_array > 0).all():
        raise ScenarioError(f"sizes must be > 0, got {list(sizes)}")
    check_count(len(measured))
    axes, look_of = styled_axes(axes, width), looks(measured)
    first_point: tuple[float, float] | None = None
    for name, series_values in measured.items():
        if len(series_values) != len(size_array):
            raise ScenarioError(
                f"measured[{name!r}] must have {len(size_array)} values, one per size, "
                f"got {len(series_values)}"
            )
        middle, low, high = _values_and_ends(series_values)
        if (middle <= 0).any():
            raise ScenarioError(f"measured[{name!r}] must be > 0 {unit}, got {middle[middle <= 0][0]:g}")
        is_known = ~np.isnan(middle)
        if first_point is None and is_known.any():
            first_point = float(size_array[is_known][0]), float(middle[is_known][0])
        spread = None if np.isnan(low).all() else _error_bars(middle[is_known], low[is_known], high[is_known])
        axes.errorbar(
            size_array[is_known],
            middle[is_known],
            yerr=spread,
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=name,
            **series_style(look_of[name]),
        )
    log_scale(axes, "x")
    log_scale(axes, "y")
    if first_point is not None and size_array.max() > first_point[0] > 1.0:
        _draw_slopes(axes, np.geomspace(first_point[0], size_array.max(), 50), first_point[1])
    axes.set_xlabel(with_scale(axes, "x", "n"))
    axes.set_ylabel(with_scale(axes, "y", escape_math(unit)))
    legend(axes, place="upper left")
    return axes


def _draw_slopes(axes: Axes, n: Any, start: float) -> None:
    """Draw faint lines with the slopes of n and n log n, starting at `start`."""
    for name, growth in (("n", n), ("n log n", n * np.log(n))):
        line = start * growth / growth[0]
        axes.plot(n, line, color=TOTAL_COLOUR, linewidth=0.8, linestyle=":", zorder=1)
        axes.annotate(
            name,
            (n[-1], line[-1]),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=small_text(axes),
            color=TOTAL_COLOUR,
        )


def _values_and_ends(estimates: Sequence[Estimate | float | None]) -> tuple[Any, Any, Any]:
    """Return values, and the low and high ends of their intervals; NaN if there are none."""
    values = [
        estimate if isinstance(estimate, (int, float)) else np.nan if estimate is None else estimate.mean
        for estimate in estimates
    ]
    ends = [[float(getattr(estimate, name, np.nan)) for estimate in estimates] for name in ("low", "high")]
    return np.array(values, np.float64), np.array(ends[0]), np.array(ends[1])


def row_chart_height(names: Sequence[str]) -> float:
    """Return the height (inches) of a chart with a row per name: up to a page, as long as lines fit."""
    breaks = sum(wrap_name(name).count("\n") for name in names)
    height, least = 1.2 + 0.4 * len(names) + 0.12 * breaks, 1.2 + 0.17 * (len(names) + breaks)
    return min(height, max(_PAGE_HEIGHT, least))


def _share_text(step: float, start: float) -> str:
    """Return a signed step as text: its share of the start, or its value if the start is 0."""
    if not start:
        return f"{step:+.3g}"
    share = round(100.0 * step / start, 2) + 0.0  # adding 0.0 turns -0.0 into 0.0
    return f"{share:+.2f} %" if abs(share) < 10.0 else f"{share:+.0f} %"


def _dot_offsets(count: int, width: float) -> Any:
    """Return `count` positions at equal distances, centred at 0, over a range of `width`."""
    return (np.arange(count) / max(1, count - 1) - 0.5) * width


def _finite_values(sample: Any) -> Any:
    values = np.asarray(sample, dtype=np.float64)
    return values[np.isfinite(values)]


def _means_and_ends(points: Sequence[Estimate]) -> tuple[Any, Any, Any]:
    middle, low, high = (np.array([getattr(p, name) for p in points]) for name in ("mean", "low", "high"))
    return middle, low, high


def _error_bars(middle: Any, low: Any, high: Any) -> Any:
    """Return the lengths of error bars on both sides of the means; 0 if there is no interval."""
    return np.nan_to_num(np.abs(np.stack([middle - low, high - middle])))
