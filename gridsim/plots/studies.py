"""Charts of studies: values of many runs, and estimates made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.plots.scales import extent, fit_scale, log_scale, powers, ratio_scale
from gridsim.plots.style import (
    COLOURS,
    WHOLE,
    check_count,
    legend,
    look,
    name_x,
    name_y,
    names_width,
    on,
    plain,
    room,
    spoken,
    titled,
    wrapped,
)
from gridsim.results.metrics import series
from gridsim.results.metrics.registry import ALIASES, UNITS
from gridsim.support import units

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.metrics.estimates import Estimate


#: With more names, colours do not tell them apart.
COLOURED = 8


def lines(
    x: Sequence[float],
    series: Mapping[str, Sequence[Estimate]],
    *,
    styles: Sequence[str] = (),
    axes: Axes | None = None,
) -> Axes:
    """Draw a line per series over `x`, with the confidence interval of each point as a band and error bars.

    Parameters
    ----------
    x
        K numbers.
    series
        Name -> k estimates.  A point without an interval has no bar.
    styles
        Names in the order in which they get colours; default: the order of the series.
    """
    check_count(len(series))
    axes = on(axes)
    for number, (name, points) in enumerate(series.items()):
        middle, low, high = _columns(points)
        style = look(list(styles).index(name) if styles else number)
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.errorbar(
            x,
            middle,
            yerr=_bars(middle, low, high),
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=name,
            **style,
        )
    powers(axes, "y")
    legend(axes)
    return axes


def boxes(samples: Mapping[str, Any], *, axes: Axes | None = None) -> Axes:
    """Draw a box per sample (quartiles, whiskers to 1.5 times their distance) with each value as a dot.

    Parameters
    ----------
    samples
        Label on the x axis -> values; NaN is left out.
    """
    axes = on(axes, width=names_width(list(samples)), grid="y")
    values = [_finite(sample) for sample in samples.values()]
    places = list(range(1, len(values) + 1))
    axes.boxplot(values, positions=places, widths=0.5, showfliers=False, medianprops={"color": COLOURS[1]})
    for place, sample in zip(places, values, strict=True):
        axes.plot(
            place + _beside(len(sample), 0.3),
            sample,
            linestyle="",
            marker="o",
            markersize=3,
            color=COLOURS[0],
            alpha=0.6,
        )
    powers(axes, "y")
    name_x(axes, places, list(samples))
    return axes


def bars(
    labels: Sequence[str],
    measured: Sequence[Estimate],
    published: Sequence[float | None] | None = None,
    *,
    axes: Axes | None = None,
) -> Axes:
    """Draw bars of k measured values with error bars, next to bars of published values if there are any.

    Parameters
    ----------
    labels
        K names on the x axis.
    measured
        K estimates.
    published
        K values; None for no bar.
    """
    axes = on(axes, width=names_width(labels), grid="y")
    places = np.arange(len(labels))
    middle, low, high = _columns(measured)
    beside = published is not None and any(value is not None for value in published)
    if published is not None and beside:
        given = np.array([np.nan if value is None else value for value in published], dtype=np.float64)
        axes.bar(places - 0.2, given, 0.4, color=COLOURS[4], label="paper")
    at, width = (places + 0.2, 0.4) if beside else (places, 0.6)
    spread = _bars(middle, low, high)
    axes.bar(at, middle, width, yerr=spread, capsize=3, color=COLOURS[0], label="measured")
    powers(axes, "y")
    name_x(axes, places, labels)
    if beside:
        legend(axes)
    return axes


def intervals(
    samples: Mapping[str, Any],
    estimates: Mapping[str, Estimate],
    styles: Sequence[str] = (),
    *,
    ratio: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw a row per name: its estimate with the interval, and each value as a faint dot.

    The mean is written above each estimate.

    Parameters
    ----------
    samples
        Name -> values.
    estimates
        Name -> the estimate made from the values.
    styles
        Names in the order in which they get colours; default: the order of the estimates.  Beyond `COLOURED`
        names, all rows have the same colour, as names tell them apart.
    ratio
        Whether the values are ratios, for an axis on which 2 and 1/2 are equally far from 1.
    """
    names = list(estimates)
    axes = on(axes, width=4.0 + room(names), height=rows_height(names), grid="x")
    every = []
    for place, name in enumerate(names):
        style = look(list(styles or names).index(name) if len(styles or names) <= COLOURED else 0)
        values, found = _finite(samples[name]), estimates[name]
        every.append(values)
        axes.plot(
            values,
            place + 0.25 + _beside(len(values), 0.3),  # below, as the number is above
            linestyle="",
            marker="o",
            markersize=2.5,
            color=COLOURS[6],
            alpha=0.25,
        )
        low, high = (0.0 if np.isnan(e) else abs(found.mean - e) for e in (found.low, found.high))
        axes.errorbar(
            found.mean,
            place,
            xerr=[[low], [high]],
            markersize=6,
            capsize=3,
            linewidth=1.5,
            color=style["color"],
            marker=style["marker"],
        )
        if np.isfinite(found.mean):
            axes.annotate(
                f"{found.mean:.4g}",
                (found.mean, place),
                (0, 7),
                textcoords="offset points",
                ha="center",
                fontsize="x-small",
            )
    axes.set_yticks(range(len(names)), [plain(wrapped(name)) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    known = np.concatenate(every) if every else np.zeros(0)
    if ratio:
        ratio_scale(axes, "x", known)
    elif series.wide(known):
        log_scale(axes, "x")
    else:
        axes.locator_params(axis="x", nbins=5)
        powers(axes, "x")
    return axes


def waterfall(
    labels: Sequence[str],
    start: Estimate,
    steps: Sequence[Estimate],
    end: Estimate,
    *,
    axes: Axes | None = None,
) -> Axes:
    """Draw how signed steps lead from `start` to `end`: a bar each, from the top down, with error bars.

    Bars that go up and bars that go down differ in colour, and have the signed share of the start next to
    them.

    Parameters
    ----------
    labels
        Names of the start and of the k steps.  start, end : values.
    steps
        K differences.
    """
    axes = on(axes, width=8.0, height=rows_height([*labels, ""]), grid="x")
    places = np.arange(len(steps) + 2)
    middle, low, high = _columns([start, *steps, end])
    before = np.concatenate(([0.0, start.mean], start.mean + np.cumsum(middle[1:-1])))[:-1]
    left = np.concatenate((before, [0.0]))
    colours = [COLOURS[1] if step.mean > 0 else COLOURS[0] for step in steps]
    axes.barh(places, middle, 0.6, left=left, color=[WHOLE, *colours, WHOLE])
    spread = _bars(middle, low, high)
    axes.errorbar(left + middle, places, xerr=spread, fmt="none", ecolor="black", elinewidth=1, capsize=3)
    for place, at in enumerate(left[1:-1] + middle[1:-1], 1):
        axes.plot([at, at], [place, place + 1], color="black", linewidth=0.6, linestyle=":")
    for place, step in enumerate(steps, 1):
        at = max(left[place], left[place] + max(middle[place], np.nan_to_num(high[place])))
        axes.annotate(
            _share(step.mean, start.mean),
            (at, place),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    axes.set_yticks(places, [*(plain(wrapped(label)) for label in labels), "all together"])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlim(left=min(0.0, float((left + middle).min())))
    return axes


class Replicated(Protocol):
    """The interface that `comparison` draws; `gridsim.Replicates` has it."""

    @property
    def schedulers(self) -> tuple[str, ...]: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...
    @property
    def values(self) -> Mapping[str, Mapping[str, NDArray[np.float64]]]: ...
    @property
    def baseline(self) -> str | None: ...
    @property
    def measure(self) -> str: ...
    def __getitem__(self, metric: str) -> Mapping[str, NDArray[np.float64]]: ...
    def mean(self, name: str, metric: str = ...) -> Estimate: ...
    def ratio(self, a: str, b: str, metric: str = ...) -> Estimate: ...


class Swept(Protocol):
    """The interface that `swept` draws; `gridsim.SweepResult` has it."""

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...]]: ...
    @property
    def schedulers(self) -> tuple[str, ...]: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def baseline(self) -> str | None: ...
    def points(self) -> Iterable[Mapping[str, Any]]: ...
    def each(self) -> Iterable[tuple[Mapping[str, Any], Replicated]]: ...


def comparison(
    found: Replicated, metric: str | None = None, ratio: bool = False, *, axes: Axes | None = None
) -> Axes:
    """Draw a row per scheduler: the mean of a metric over replications, or its paired ratio to the baseline.

    Raises ScenarioError for a metric that was not measured, and for ratios without a baseline.

    Parameters
    ----------
    metric
        By default the metric by which schedulers are compared.
    ratio
        Draw, replication by replication, the ratio to the value of the baseline, whose own is 1.
    """
    metric, base = found.measure if metric is None else ALIASES.get(metric, metric), found.baseline
    if metric not in found.values:
        raise ScenarioError(f"metric must be one of {', '.join(found.values)}, got {metric!r}")
    if not ratio:
        estimates = {name: found.mean(name, metric) for name in found.schedulers}
        axes = intervals(found[metric], estimates, axes=axes)
        axes.set_xlabel(titled(metric, UNITS.get(metric, "")))
        return axes
    if base is None:
        raise ScenarioError("ratios need replicates with a baseline")
    with np.errstate(all="ignore"):
        ratios = {name: found[metric][name] / found[metric][base] for name in found.schedulers}
    estimates = {name: found.ratio(name, base, metric) for name in found.schedulers}
    axes = intervals(ratios | {base: ()}, estimates, found.schedulers, ratio=True, axes=axes)
    axes.axvline(1.0, color=COLOURS[6], linewidth=0.8, linestyle="--")
    relative = f"{titled(metric, '')}, relative to {plain(base)}"
    axes.set_xlabel(f"{wrapped(relative, 40)}\n({len(found.seeds)} paired replications)")
    return axes


def swept(
    found: Swept,
    metric: str | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    ratio: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw a metric over one axis of a sweep, a line per scheduler, at one point of the other axes.

    Axes are logarithmic where values differ by more than a factor of 20, and for ratios.  Points that were
    written with a unit, such as "50 ms", are labelled so.  Lines are labelled at their ends, if there are at
    most `COLOURED`.

    Raises ScenarioError for another metric or label, if more than one axis is left to draw over, and for
    ratios without a baseline.

    Parameters
    ----------
    metric
        By default the first one.
    ratio
        Draw, replication by replication, the ratio to the value of the baseline.
    where
        Axis -> label, the point on the other axes.  It must name every axis with several labels except the
        one to draw over.  `SweepResult.figure` has a panel for each point.
    """
    metric = found.metrics[0] if metric is None else ALIASES.get(metric, metric)
    where = dict(where or {})
    if metric not in found.metrics:
        raise ScenarioError(f"metric must be one of {', '.join(found.metrics)}, got {metric!r}")
    for name, label in where.items():
        if label not in found.axes.get(name, ()):
            raise ScenarioError(f"where: no point with {name} = {label!r}")
    left = [name for name, labels in found.axes.items() if len(labels) > 1 and name not in where]
    if len(left) > 1:
        raise ScenarioError(f"where must leave one axis to draw over, not {', '.join(left)}")
    over = left[0] if left else ""
    points = {
        labels.get(over, ""): replicates
        for labels, replicates in found.each()
        if all(labels[name] == label for name, label in where.items())
    }
    words, unit = spoken(over)
    places = [_place(each, unit) if isinstance(each, str) else each for each in points]
    written = bool(points) and all(isinstance(each, str) for each in points)
    numbers = all(isinstance(place, (int, float)) for place in places)
    x: list[Any] = places if numbers else list(range(len(points)))
    base = found.baseline
    if ratio and base is None:
        raise ScenarioError("ratios need a sweep with a baseline")
    names = [name for name in found.schedulers if not ratio or name != base]
    drawn = {
        name: [
            at.ratio(name, str(base), metric) if ratio else at.mean(name, metric) for at in points.values()
        ]
        for name in names
    }
    axes = lines(x, drawn, styles=found.schedulers, axes=axes)
    if numbers and series.wide(x):
        log_scale(axes, "x")
    if written or not numbers:
        name_x(axes, x, [str(label) for label in points])
        axes.xaxis.set_minor_formatter("")
        axes.tick_params(axis="x", which="minor", length=0)
    every = [end for line in drawn.values() for one in line for end in (one.mean, one.low, one.high)]
    axes.set_xlabel(f"{words}{f' ({unit})' if unit and numbers and not written else ''}")
    if ratio:
        ratio_scale(axes, "y", every)
        axes.axhline(1.0, color=COLOURS[6], linewidth=0.8, linestyle="--")
        name_y(axes, f"{titled(metric, '')}, relative to {plain(str(base))}")
    else:
        fit_scale(axes, "y", every)
        name_y(axes, titled(metric, UNITS.get(metric, "")))
    if len(names) <= COLOURED:
        _label_ends(axes, {name: line[-1].mean for name, line in drawn.items()}, found.schedulers)
    return axes


def _place(label: str, unit: str) -> float | None:
    """Return the number that a label stands for, such as "50 ms" or "0.9"; None if it is none."""
    try:
        return float(label) if label.isascii() else None
    except ValueError:
        return units.number(label, unit)


def _label_ends(axes: Axes, ends: Mapping[str, float], styles: Sequence[str]) -> None:
    """Replace the legend by the names at the ends of the lines, as far apart as their letters need."""
    known = {name: value for name, value in ends.items() if np.isfinite(value)}
    if len(known) < len(ends) or not known:
        return
    if (own := axes.get_legend()) is not None:
        own.remove()
    points = axes.transScale.transform([(axes.get_xlim()[1], value) for value in known.values()])
    heights = dict(zip(known, axes.transLimits.transform(points)[:, 1].tolist(), strict=True))
    apart, last = 14.0 / max(extent(axes)[1], 1.0), -np.inf
    order = sorted(heights, key=heights.__getitem__)
    for name in order:
        last = heights[name] = max(heights[name], last + apart)
    excess = max(0.0, last - 1.0)
    for name in order:
        axes.annotate(
            plain(wrapped(name)),
            (1.0, heights[name] - excess),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=look(list(styles).index(name))["color"],
        )


def scaling(
    sizes: Sequence[float],
    measured: Mapping[str, Sequence[Estimate | float | None]],
    *,
    unit: str = "s",
    axes: Axes | None = None,
) -> Axes:
    """Draw measurements over sizes, both on logarithmic scales, with intervals if there are any.

    Faint lines have the slopes of n and n log n, from the first value on.  Raises ScenarioError for values
    that are not above 0, and for series whose number of values is not k.

    Parameters
    ----------
    sizes
        K numbers above 0.
    measured
        Name -> k values in `unit`, above 0; None or NaN for a size that was not measured.
    """
    at = np.asarray(sizes, np.float64)
    if not (at > 0).all():
        raise ScenarioError(f"sizes must be > 0, got {list(sizes)}")
    check_count(len(measured))
    axes = on(axes)
    slopes: tuple[float, float] | None = None
    for number, (name, given) in enumerate(measured.items()):
        if len(given) != len(at):
            raise ScenarioError(f"measured[{name!r}] must be {len(at)} values, one a size, got {len(given)}")
        middle, low, high = _either(given)
        if (middle <= 0).any():
            raise ScenarioError(f"measured[{name!r}] must be > 0 {unit}, got {middle[middle <= 0][0]:g}")
        known = ~np.isnan(middle)
        if slopes is None and known.any():
            slopes = float(at[known][0]), float(middle[known][0])
        spread = None if np.isnan(low).all() else _bars(middle[known], low[known], high[known])
        axes.errorbar(
            at[known],
            middle[known],
            yerr=spread,
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=name,
            **look(number),
        )
    log_scale(axes, "x")
    log_scale(axes, "y")
    if slopes is not None and at.max() > slopes[0] > 1.0:
        _slopes(axes, np.geomspace(slopes[0], at.max(), 50), slopes[1])
    axes.set_xlabel("n")
    axes.set_ylabel(plain(unit))
    legend(axes, place="upper left")
    return axes


def _slopes(axes: Axes, n: Any, start: float) -> None:
    """Draw faint lines of n and n log n, which begin at `start`."""
    for said, growth in (("n", n), ("n log n", n * np.log(n))):
        line = start * growth / growth[0]
        axes.plot(n, line, color=WHOLE, linewidth=0.8, linestyle=":", zorder=1)
        axes.annotate(
            said,
            (n[-1], line[-1]),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=WHOLE,
        )


def _either(given: Sequence[Estimate | float | None]) -> tuple[Any, Any, Any]:
    """Return values with the low and high ends of their intervals; NaN where there are none."""
    values = [
        each if isinstance(each, (int, float)) else np.nan if each is None else each.mean for each in given
    ]
    ends = [[float(getattr(each, name, np.nan)) for each in given] for name in ("low", "high")]
    return np.array(values, np.float64), np.array(ends[0]), np.array(ends[1])


def rows_height(names: Sequence[str]) -> float:
    """Return the height of a chart with a row per name, inches."""
    return 1.2 + 0.4 * len(names) + 0.12 * sum(wrapped(name).count("\n") for name in names)


def _share(step: float, start: float) -> str:
    """Return a signed step as text: as a share of the start, or its value if the start is 0."""
    if not start:
        return f"{step:+.3g}"
    share = round(100.0 * step / start, 2) + 0.0  # no -0
    return f"{share:+.2f} %" if abs(share) < 10.0 else f"{share:+.0f} %"


def _beside(count: int, width: float) -> Any:
    """Return the places of `count` dots side by side, around 0, over a distance of `width`."""
    return (np.arange(count) / max(1, count - 1) - 0.5) * width


def _finite(sample: Any) -> Any:
    values = np.asarray(sample, dtype=np.float64)
    return values[np.isfinite(values)]


def _columns(points: Sequence[Estimate]) -> tuple[Any, Any, Any]:
    middle, low, high = (np.array([getattr(p, name) for p in points]) for name in ("mean", "low", "high"))
    return middle, low, high


def _bars(middle: Any, low: Any, high: Any) -> Any:
    """Return the lengths of error bars on both sides; 0 if there is no interval."""
    return np.nan_to_num(np.abs(np.stack([middle - low, high - middle])))
