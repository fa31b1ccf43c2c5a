"""Descriptions of charts, which `gridsim.plots.draw` draws with matplotlib and `gridsim.report` with plotly.

Each function returns a chart of data: its title and caption, its axes, and the values of its series.  Texts
are plain; both modules escape characters with a special meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.plots.looks import looks
from gridsim.plots.style import check_count, quantity_title, with_unit
from gridsim.results.metrics import series
from gridsim.results.metrics.registry import MESSAGE_METRICS
from gridsim.results.schema import COLUMN_UNITS
from gridsim.results.text import NOT_RANKED, waiting_unit
from gridsim.support.arrays import Floats
from gridsim.support.text import number_text, time_unit

if TYPE_CHECKING:
    from gridsim.results.metrics.estimates import Estimate
    from gridsim.results.result import Result

#: Largest number of points of a series.
POINTS = 2000
#: Quantity over time -> its name in charts, the title of the chart, and a sentence about it.
_QUANTITIES: Mapping[str, tuple[str, str, str]] = {
    "active": (
        "{} released and not finished",
        "Active {}",
        "{} that are released and not finished.",
    ),
    "waiting": ("{} waiting", "Waiting {}", "{} that are released, with no task started."),
    "busy": (
        "busy machines",
        "Busy machines",
        "Machines that are working, for runs with a recorded schedule.",
    ),
}


@dataclass(frozen=True)
class ChartAxis:
    """An axis.

    Parameters
    ----------
    title
        The quantity with its unit.
    values
        Values of the axis, which determine its limits and whether it is logarithmic.
    scale
        ``"fit"``: logarithmic if values differ widely; ``"log"``: logarithmic if all values are above 0;
        ``"ratio"``: 2 and 1/2 are equally far from 1; ``"time"``; ``"count"``: whole numbers from 0;
        ``"share"``: from 0 to 1.
    note
        Additional information in a second line.
    shared
        Whether other charts of a row have this axis too, so that its limits are those of `values`.
    """

    title: str
    values: ArrayLike = ()
    scale: Literal["fit", "log", "ratio", "time", "count", "share"] = "fit"
    note: str = ""
    shared: bool = False

    @property
    def is_log(self) -> bool:
        """Whether the axis of a quantity, not of ratios, is logarithmic."""
        if self.scale == "log":
            return series.is_wide(self.values, 1.0)
        return self.scale == "fit" and series.is_wide(self.values)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart.

    Parameters
    ----------
    title, caption
        Heading of the chart on a page, and a sentence about its values.
    panel
        Heading of the chart as a panel of a figure; may be empty.
    x, y
        The axes; None for an axis with names.
    order
        Names of all series, including those without values; their looks depend on them.
    reference
        Value of a reference line across the axis of values; None for no line.
    log_names
        Names of the series that were recorded in a log, not simulated; they are grey and dashed.
    exclusions
        Names of the series that are not ranked: they have hollow marks and no ratios.
    """

    title: str
    caption: str = ""
    panel: str = ""
    x: ChartAxis
    y: ChartAxis | None = None
    order: Sequence[str] = ()
    reference: float | None = None
    log_names: Collection[str] = ()
    exclusions: Collection[str] = ()

    @cached_property
    def looks(self) -> Mapping[str, int]:
        """Name of each series that was not recorded in a log -> its look."""
        return looks(name for name in self.order if name not in self.log_names)


@dataclass(frozen=True, kw_only=True)
class RowChart(Chart):
    """A row per name: an estimate with its interval, and the values from which it was estimated."""

    estimates: Mapping[str, Estimate]
    samples: Mapping[str, ArrayLike]


@dataclass(frozen=True, kw_only=True)
class CurveChart(Chart):
    """A line per name through estimates with intervals.

    Parameters
    ----------
    positions
        The k positions at the x axis; None if they are names, at equal distances.
    labels
        Labels of the k positions.
    unit
        Unit of the positions; may be empty.
    curves
        Name -> k estimates.
    unranked_points
        Name of a series that is not ranked at some points -> the indices of these points.
    constants
        Names of the series that do not depend on the x axis; they have no marks.
    """

    y: ChartAxis
    positions: Sequence[float] | None
    labels: Sequence[Any]
    unit: str
    curves: Mapping[str, Sequence[Estimate]]
    unranked_points: Mapping[str, Sequence[int]]
    constants: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class StepChart(Chart):
    """A step function per name.

    Parameters
    ----------
    steps
        Name -> positions, and the value from each position on.
    notes
        Name -> note that a legend adds to the name.  The last step is marked if there are notes.
    """

    y: ChartAxis
    steps: Mapping[str, tuple[Floats, Floats]]
    notes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class WaterfallChart(Chart):
    """Signed steps from `start` to `end`, from the top down, with `names` of the start and of the steps."""

    names: Sequence[str]
    start: Estimate
    steps: Sequence[Estimate]
    end: Estimate


def scale_of(metric: str) -> Literal["fit", "log"]:
    """Return the scale of the axis of a metric, the same in all charts; that of messages is logarithmic."""
    return "log" if metric in MESSAGE_METRICS else "fit"


def share_y(charts: Sequence[CurveChart]) -> list[CurveChart]:
    """Return charts of one quantity with the same y axis, if there are several."""
    values = np.concatenate([np.asarray(chart.y.values, np.float64) for chart in charts])
    y = replace(charts[0].y, values=values, shared=len(charts) > 1)
    return [replace(chart, y=y) for chart in charts]


def concatenation(samples: Mapping[str, ArrayLike]) -> Floats:
    """Return the values of all samples."""
    return np.concatenate([np.asarray(values, np.float64) for values in samples.values()] or [np.zeros(0)])


def distribution_chart(
    samples: Mapping[str, ArrayLike],
    quantity: str,
    unit: str,
    items: str,
    order: Sequence[str] = (),
    log_names: Collection[str] = (),
    exclusions: Collection[str] = (),
) -> StepChart:
    """Return the cumulative distributions of a quantity.

    Parameters
    ----------
    samples
        Name -> values; NaN of rejected jobs counts in the shares.
    quantity, unit
        Name of the quantity, and its unit, which may be empty.
    items
        The items that have the quantity: jobs or applications.
    order
        The same as in `Chart`; by default the names of `samples`.
    log_names, exclusions
        The same as in `Chart`.
    """
    steps, notes = {}, {}
    for name in ranked_first(samples, exclusions):
        sample = samples[name]
        x, share = series.distribution(sample)
        rejected = int(np.isnan(np.asarray(sample)).sum())
        known = ["recorded"] if name in log_names else [NOT_RANKED] if name in exclusions else []
        known += [f"max {number_text(x[-1], 3)}"] if len(x) else []
        missing = f"{rejected} {'unknown' if name in log_names else 'rejected'}"
        notes[name] = ", ".join([*known, missing] if rejected else known)
        steps[name] = np.append(x[:1], x), np.append(np.zeros(min(1, len(x))), share)
    return StepChart(
        title=f"Distribution of the {quantity}",
        caption=f"Share of {items} with at most this {quantity}; curves further to the left are better.",
        x=ChartAxis(with_unit(quantity, unit), concatenation(samples)),
        y=ChartAxis(f"share of {items}", scale="share"),
        order=list(order or samples),
        log_names=log_names,
        exclusions=exclusions,
        steps=steps,
        notes=notes,
    )


def ranked_first(names: Iterable[str], exclusions: Collection[str]) -> list[str]:
    """Return the names of the series of a chart in their order, those that are not ranked last."""
    return sorted(names, key=lambda name: name in exclusions)


def result_chart(
    results: Result | Mapping[str, Result], metric: str | None = None, exclusions: Collection[str] = ()
) -> StepChart:
    """Return the distributions of a metric, with the parameters of `gridsim.plots.distribution`."""
    runs = _by_name(results)
    if metric is None:
        rigid = all(result.rigid for result in runs.values())
        metric = "waiting" if rigid else "stretch_agg"
        if not all(metric in result.applications for result in runs.values()):
            metric = "stretch"
    samples = {
        name: series.per_application(result, metric)[result.is_counted] for name, result in runs.items()
    }
    unit = "s" if metric == "response" else COLUMN_UNITS["applications"].get(metric, "")
    if metric == "waiting":
        length, unit = waiting_unit(runs.values())
        samples = {name: values / length for name, values in samples.items()}
    title = quantity_title(metric, "")
    return distribution_chart(
        samples, title, unit, item_name(runs), log_names=recorded_names(runs), exclusions=exclusions
    )


def count_chart(
    results: Result | Mapping[str, Result], quantity: series.Quantity = "active", order: Sequence[str] = ()
) -> StepChart:
    """Return a count over time of results, with the parameters and errors of `gridsim.plots.series`."""
    runs = _by_name(results)
    counts = {name: series.over_time(result, quantity) for name, result in runs.items()}
    factor, unit = time_unit(_span(runs))
    lines = {name: curve.downsample(POINTS) for name, curve in counts.items()}
    items = item_name(runs)
    label, title, caption = (text.format(items) for text in _QUANTITIES[quantity])
    if items == "jobs":
        caption = caption.replace("released, with no task started", "released and have not started")
    return StepChart(
        title=title,
        caption=caption[:1].upper() + caption[1:],
        x=ChartAxis(f"time ({unit})", scale="time"),
        y=ChartAxis(label, [curve.values.max(initial=0.0) for curve in lines.values()], "count"),
        order=list(order or runs),
        log_names=recorded_names(runs),
        steps={name: (curve.times / factor, curve.values) for name, curve in lines.items()},
        notes={},
    )


def _span(results: Mapping[str, Result]) -> float:
    """Return the time (s) from the first release to the last finish of all results; 0 without a finish."""
    tables = [result.applications for result in results.values()]
    finishes = concatenation({name: result.applications["finish"] for name, result in results.items()})
    finishes = finishes[np.isfinite(finishes)]
    if not len(finishes):
        return 0.0
    return float(finishes.max() - min(table["release"].min() for table in tables if len(table)))


def _by_name(results: Result | Mapping[str, Result]) -> Mapping[str, Result]:
    """Return results by name; a single result has the name of its scheduler."""
    runs = results if isinstance(results, Mapping) else {str(results.scheduler["name"]): results}
    if not runs:
        raise ScenarioError("results must contain at least one result, got none")
    check_count(len(runs))
    return runs


def recorded_names(results: Mapping[str, Result]) -> list[str]:
    """Return the names of schedules of job logs among results of schedulers; none without the latter."""
    names = [name for name, result in results.items() if result.of_log]
    return names if len(names) < len(results) else []


def item_name(results: Mapping[str, Result]) -> str:
    """Return the subject of the results: jobs or applications."""
    return "jobs" if all(result.rigid for result in results.values()) else "applications"
