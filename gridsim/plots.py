"""Charts of replicated runs, each drawn on a matplotlib Axes that it is given and returns.

Needs the extra ``plot``.  Nothing here chooses a backend or opens a window: `figure` makes a Figure that
belongs to no window and can be saved anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.extras import need
from gridsim.units import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridsim.estimates import Estimate
    from gridsim.replication import Replicates
    from gridsim.sweep_results import SweepResult

#: Okabe and Ito's colours, told apart by colour-blind readers, with a marker each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
#: Values that differ by a larger factor are drawn on a logarithmic scale.
WIDE = 20.0
#: Of a figure of a sweep, at most.
PANELS = 6
#: Of bars that stand for a whole, beside parts in colours.
_WHOLE = "#999999"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def figure(columns: int = 1, *, width: float = 5.0, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` axes side by side, each `width` x `height` inches.

    Raises ImportError without matplotlib.
    """
    made: Figure = need("matplotlib.figure", "plot", "a chart").Figure(
        figsize=(width * columns, height), layout="constrained"
    )
    axes = made.subplots(1, columns, squeeze=False)
    return made, list(axes[0])


def save(made: Figure, stream: IO[bytes], *, dpi: int = 150) -> None:
    """Write a figure as PNG, without a time of writing or a version: equal figures are equal files."""
    made.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})


def lines(axes: Axes, x: Sequence[float], series: Mapping[str, Sequence[Estimate]]) -> Axes:
    """A line per series over `x`, with the confidence interval of each point as a band and error bars.

    x : k numbers.  series : name -> k estimates.  A point without an interval has no bar.
    """
    for number, (name, points) in enumerate(series.items()):
        colour, marker = _style(number)
        middle, low, high = _columns(points)
        bars = np.nan_to_num(np.abs(np.stack([middle - low, high - middle])))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.errorbar(
            x,
            middle,
            yerr=bars,
            color=colour,
            marker=marker,
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=name,
        )
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return axes


def boxes(axes: Axes, samples: Mapping[str, Any]) -> Axes:
    """A box per sample (quartiles, whiskers to 1.5 times their distance) with every value as a dot.

    samples : label on the x axis -> values.
    """
    values = [np.asarray(sample, dtype=np.float64) for sample in samples.values()]
    places = list(range(1, len(values) + 1))
    axes.boxplot(values, positions=places, widths=0.5, showfliers=False, medianprops={"color": COLOURS[1]})
    for place, sample in zip(places, values, strict=True):
        beside = place + (np.arange(len(sample)) / max(1, len(sample) - 1) - 0.5) * 0.3
        axes.plot(beside, sample, linestyle="", marker="o", markersize=3, color=COLOURS[0], alpha=0.6)
    axes.set_xticks(places, list(samples))
    axes.grid(alpha=0.3, axis="y")
    return axes


def bars(
    axes: Axes, labels: Sequence[str], measured: Sequence[Estimate], published: Sequence[float | None]
) -> Axes:
    """Bars of k measured values with error bars beside k published ones (None: no bar)."""
    places = np.arange(len(labels))
    middle, low, high = _columns(measured)
    spread = np.nan_to_num(np.abs(np.stack([middle - low, high - middle])))
    given = np.array([np.nan if value is None else value for value in published], dtype=np.float64)
    axes.bar(places - 0.2, given, 0.4, color=COLOURS[4], label="paper")
    axes.bar(places + 0.2, middle, 0.4, yerr=spread, capsize=3, color=COLOURS[0], label="measured")
    axes.set_xticks(places, list(labels))
    axes.grid(alpha=0.3, axis="y")
    axes.legend(fontsize="small")
    return axes


def intervals(
    axes: Axes, samples: Mapping[str, Any], estimates: Mapping[str, Estimate], styles: Sequence[str] = ()
) -> Axes:
    """A row per name: its estimate with the interval, and each value as a faint dot.

    samples, estimates : name -> values, and what was made of them.  styles : names in the order of their
        colours; default: that of the estimates.
    """
    names = list(estimates)
    for place, name in enumerate(names):
        colour, marker = _style(list(styles or names).index(name))
        values, found = np.asarray(samples[name], dtype=np.float64), estimates[name]
        spread = (np.arange(len(values)) / max(1, len(values) - 1) - 0.5) * 0.4
        axes.plot(
            values, place + spread, linestyle="", marker="o", markersize=2.5, color=COLOURS[6], alpha=0.25
        )
        low, high = (0.0 if np.isnan(e) else abs(found.mean - e) for e in (found.low, found.high))
        axes.errorbar(
            found.mean,
            place,
            xerr=[[low], [high]],
            color=colour,
            marker=marker,
            markersize=6,
            capsize=3,
            linewidth=1.5,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    every = np.concatenate([np.asarray(samples[name], dtype=np.float64) for name in names])
    if (every > 0).all() and every.max() > WIDE * every.min():
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=5)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 5))
    axes.grid(alpha=0.3, axis="x")
    return axes


def waterfall(
    axes: Axes, labels: Sequence[str], start: Estimate, steps: Sequence[Estimate], end: Estimate
) -> Axes:
    """From `start` by signed steps, which add up to `end`: a bar each, from the top down, with error bars.

    labels : of the start and of the k steps.  start, end : values.  steps : k differences.
    Bars that go up and down have different colours and the sign beside them, as a share of the start.
    """
    places = np.arange(len(steps) + 2)
    middle, low, high = _columns([start, *steps, end])
    before = np.concatenate(([0.0, start.mean], start.mean + np.cumsum(middle[1:-1])))[:-1]
    left = np.concatenate((before, [0.0]))
    spread = np.nan_to_num(np.abs(np.stack([middle - low, high - middle])))
    colours = [COLOURS[1] if step.mean > 0 else COLOURS[0] for step in steps]
    axes.barh(places, middle, 0.6, left=left, color=[_WHOLE, *colours, _WHOLE])
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
    axes.set_yticks(places, [*labels, "all together"])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlim(left=min(0.0, float((left + middle).min())))
    axes.grid(alpha=0.3, axis="x")
    return axes


def comparison(found: Replicates) -> Figure:
    """What schedulers are compared by, of each its mean and its ratio to the baseline's."""
    metric, base = found.measure, found.baseline
    made, axes = figure(1 if base is None else 2, height=1.2 + 0.3 * len(found.schedulers))
    intervals(axes[0], found[metric], {name: found.mean(name, metric) for name in found.schedulers})
    axes[0].set_xlabel(_title(metric))
    if base is not None:
        others = [name for name in found.schedulers if name != base]
        with np.errstate(all="ignore"):
            ratios = {name: found[metric][name] / found[metric][base] for name in others}
        estimates = {name: found.ratio(name, base, metric) for name in others}
        intervals(axes[1], ratios, estimates, found.schedulers)
        axes[1].axvline(1.0, color=COLOURS[6], linewidth=0.8, linestyle="--")
        axes[1].set_xlabel(f"relative to {base}, {len(found.seeds)} replicas in pairs")
    return made


def swept(found: SweepResult) -> Figure:
    """The first metric over the first axis, a line a scheduler; a panel for each point of the other axes.

    Raises ScenarioError for more than `PANELS` of these.
    """
    axis, *others = [axis for axis, labels in found.axes.items() if len(labels) > 1] or [""]
    panels: dict[str, dict[Any, Replicates]] = {}
    for labels, replicates in found.each():
        title = ", ".join(f"{other} = {labels[other]}" for other in others)
        panels.setdefault(title, {})[labels.get(axis, "")] = replicates
    if len(panels) > PANELS:
        raise ScenarioError(f"a figure has at most {PANELS} panels, this sweep needs {len(panels)}")
    metric = found.metrics[0]
    made, every = figure(len(panels))
    for axes, (title, points) in zip(every, panels.items(), strict=True):
        numbers = all(isinstance(label, (int, float)) for label in points)
        x = list(points) if numbers else list(range(len(points)))
        lines(axes, x, {n: [at.mean(n, metric) for at in points.values()] for n in found.schedulers})
        if not numbers:
            axes.set_xticks(x, [str(label) for label in points])
        axes.set_title(title, fontsize="small")
        axes.set_xlabel(axis)
        axes.set_ylabel(_title(metric))
    return made


def _title(metric: str) -> str:
    """A metric with its unit, if it has one."""
    unit = UNITS.get(metric, "").partition(" (")[0]
    return f"{metric.replace('_', ' ')}{f' ({unit})' if unit not in ('', '1') else ''}"


def _share(step: float, start: float) -> str:
    """A signed step as a share of the start, if there is one."""
    if not start:
        return f"{step:+.3g}"
    share = round(100.0 * step / start, 2) + 0.0  # 0 without a sign of its own
    return f"{share:+.2f} %" if abs(share) < 10.0 else f"{share:+.0f} %"


def _style(number: int) -> tuple[str, str]:
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]


def _columns(points: Sequence[Estimate]) -> tuple[Any, Any, Any]:
    return tuple(np.array([getattr(p, name) for p in points]) for name in ("mean", "low", "high"))  # type: ignore[return-value]
