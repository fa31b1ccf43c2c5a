"""Charts of runs and of replications; data are binned or thinned, so that charts of large runs stay small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gridsim.plots.scales import time_unit
from gridsim.plots.studies import MAX_COLOURS
from gridsim.plots.style import axis_title, key_label
from gridsim.report.figures import (
    POINTS,
    TEXT,
    Chart,
    Figure,
    amount_axis,
    axis,
    colour,
    count_axis,
    dash,
    figure,
    label,
    numbers,
    ratio_axis,
    row_axis,
    row_height,
    symbol,
    value_axis,
    wrapped_label,
)
from gridsim.results.metrics import series
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import UNITS, display_name
from gridsim.results.result import Result
from gridsim.studies.comparison_table import measure_of, ratio_of
from gridsim.studies.replicate import Replicates
from gridsim.studies.sweep_result import SweepResult
from gridsim.support import units
from gridsim.support.arrays import Floats

Results = Mapping[str, Result]

#: Number of bins of the histogram of utilization.
_BINS = 40
#: Maximum number of charts of a sweep: one for each point of its further axes.
MAX_POINTS = 12
_CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


def sample_values(results: Results) -> dict[str, tuple[str, dict[str, Floats]]]:
    """Return the charted values per application or job: quantity -> (unit, run -> values).

    Long times are in h or days.  A run without a quantity is missing from it.  The completion time, by which
    work queues are compared, is included for all runs of bags if one of them has the table ``cycles``.
    """
    has_queues = any("cycles" in result.tables for result in results.values())
    samples_of: dict[str, tuple[str, dict[str, Floats]]] = {}

    def add_sample(quantity: str, unit: str, name: str, values: Any) -> None:
        samples_of.setdefault(quantity, (unit, {}))[1][name] = np.asarray(values, np.float64)

    for name, result in results.items():
        table = result.applications
        if result.rigid:
            add_sample("waiting time", "s", name, table["waiting"])
            add_sample("slowdown", "", name, table["slowdown"])
            continue
        add_sample("stretch", "", name, table["stretch_agg"])
        if "jobs" in result.tables:
            add_sample("turnaround", "s", name, result.tables["jobs"]["turnaround"])
        if has_queues:
            add_sample("completion time", "s", name, table["finish"] - table["release"])
    return {quantity: _convert_times(unit, samples) for quantity, (unit, samples) in samples_of.items()}


def _convert_times(unit: str, samples: dict[str, Floats]) -> tuple[str, dict[str, Floats]]:
    """Convert long times from s to h or days, unless their axis is logarithmic."""
    all_values = np.concatenate(list(samples.values()))
    if unit != "s" or series.is_wide(all_values):
        return unit, samples
    factor, unit = time_unit(float(np.max(all_values, initial=0.0, where=np.isfinite(all_values))))
    return unit, {name: values / factor for name, values in samples.items()}


def comparison(results: Results, baseline: str) -> Chart:
    """Return a bar chart of the metric that compares schedulers, with ratios to the baseline."""
    measure, names = measure_of(results), list(results)
    is_unitless = measure == "max_stretch"  # tables and charts show the stretch without a unit
    values = [
        result.max_stretch_agg if is_unitless else getattr(result, measure) for result in results.values()
    ]
    factor, unit = (1.0, "") if is_unitless else time_unit(max(filter(math.isfinite, values), default=0.0))
    values = [value / factor for value in values]
    ratios = [ratio_of(results, name, baseline) for name in names]
    marker = {"color": [colour(k if len(names) <= MAX_COLOURS else 0) for k in range(len(names))]}
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "x": numbers(values),
        "y": list(range(len(names))),
        "text": [f"{ratio:.3f}" if math.isfinite(ratio) else "" for ratio in ratios],
        "textposition": "auto",
        "marker": marker,
        "customdata": [label(name) for name in names],
        "hovertemplate": "%{customdata}: %{x:.6g}, %{text} of the baseline<extra></extra>",
    }
    caption = f"{_metric_name(measure)} of each scheduler; the number is the ratio to that of {baseline}."
    title = "max stretch" if is_unitless else axis_title(measure, unit)
    x_axis = value_axis(title, [0.0, *values], rangemode="tozero")
    if series.is_wide(values):  # a logarithmic axis has no 0 from which bars could start
        bars |= {"type": "scatter", "mode": "markers+text", "textposition": "middle right"}
        bars |= {"marker": {**marker, "size": 10}}
        x_axis = value_axis(title, values)
    plot = figure([bars], x_axis, row_axis(names))
    return Chart(_metric_name(measure), caption, plot, row_height(names))


def distributions(results: Results) -> Iterator[Chart]:
    """Yield charts of the cumulative distributions of all charted values."""
    for quantity, (unit, samples) in sample_values(results).items():
        traces = []
        for name, values in samples.items():
            x, share = series.distribution(values, POINTS // 2)
            if len(x):
                x, share = np.append(x[:1], x), np.append(0.0, share)
            traces.append(_line(list(results).index(name), name, x, 100.0 * share))
        all_values = np.concatenate(list(samples.values()))
        x_axis = value_axis(_with_unit(quantity, unit), all_values)
        y_axis = axis("share (%)", range=[0, 102])
        items = "jobs" if quantity in ("waiting time", "slowdown", "turnaround") else "applications"
        caption = f"Share of {items} with at most this {quantity}; curves further to the left are better."
        plot = figure(traces, x_axis, y_axis, showlegend=len(results) > 1)
        yield Chart(f"Distribution of the {quantity}", caption, plot)


def over_size(results: Results) -> Chart:
    """Return a chart of the stretch of applications, or the slowdown of rigid jobs, over their size."""
    rigid = measure_of(results) == "mean_waiting"
    metric, column = ("slowdown", "slowdown") if rigid else ("stretch", "stretch_agg")
    traces, sizes, heights = [], [], []
    for number, (name, result) in enumerate(results.items()):
        x, y = series.scatter_points(result.applications["size"], result.applications[column], POINTS)
        sizes.append(x)
        heights.append(y)
        marker = {"color": colour(number), "symbol": symbol(number), "size": 6, "opacity": 0.75}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": wrapped_label(name),
                "x": numbers(x),
                "y": numbers(y),
            }
            | {"marker": marker}
        )
    x_axis = value_axis("size (Mflop)", np.concatenate(sizes))
    y_axis = value_axis(metric, np.concatenate(heights))
    item = "job" if rigid else "application"
    caption = f"The {metric} of each {item} over its size, which shows whether small {item}s suffer."
    if any(len(result.applications) > POINTS for result in results.values()):
        caption += f"  Of more than {POINTS}, only the extremes in each range of sizes are shown."
    return Chart(f"{metric.capitalize()} over size", caption, figure(traces, x_axis, y_axis))


def over_time(results: Results) -> Iterator[Chart]:
    """Yield charts over time of active and waiting applications and busy machines, unless always 0."""
    items = "jobs" if measure_of(results) == "mean_waiting" else "applications"
    kinds: tuple[tuple[series.Quantity, str, str], ...] = (
        ("active", f"Active {items}", f"{items.capitalize()} that are released and not finished."),
        ("waiting", f"Waiting {items}", f"{items.capitalize()} that are released, with no task started."),
        ("busy", "Busy machines", "Machines that are working, for runs with a recorded schedule."),
    )
    for quantity, title, caption in kinds:
        steps = {
            name: series.over_time(result, quantity).downsample(POINTS)
            for name, result in results.items()
            if quantity != "busy" or "schedule" in result.tables
        }
        times = np.concatenate([series_of_run.times for series_of_run in steps.values()] or [np.zeros(0)])
        factor, unit = time_unit(float(np.ptp(times)) if len(times) else 0.0)
        traces = [
            _line(number, name, steps[name].times / factor, np.rint(steps[name].values).astype(np.int64))
            for number, name in enumerate(results)
            if name in steps
        ]
        largest = max((max(trace["y"], default=0) for trace in traces), default=0)
        if largest:
            y_axis = count_axis("machines" if quantity == "busy" else items, largest)
            x_axis = axis(f"time ({unit})", tickformat=",")
            yield Chart(title, caption, figure(traces, x_axis, y_axis, showlegend=len(results) > 1))


def utilization(results: Results) -> Chart | None:
    """Return a histogram of the utilization of machines; None if no run has values."""
    samples = {name: result.machines["utilization"] for name, result in results.items()}
    samples = {name: values for name, column in samples.items() if len(values := column[~np.isnan(column)])}
    if not samples:
        return None
    # a utilization above 1 is an error, which the chart must not hide
    highest = max(1.0, *(float(values.max()) for values in samples.values()))
    edges = np.linspace(0.0, highest, _BINS + 1)
    traces: list[Figure] = []
    largest = 0
    for number, name in enumerate(results):
        if name not in samples:
            continue
        tally = np.histogram(samples[name], edges)[0]
        largest = max(largest, int(tally.max()))
        if len(results) > 1:
            x, y = np.repeat(100.0 * edges, 2)[1:-1], np.repeat(tally, 2)
            traces.append(_line(number, name, x, y) | {"line": _stroke(number)})
        else:
            middle = numbers(100.0 * (edges[:-1] + edges[1:]) / 2)
            traces.append(
                {"type": "bar", "x": middle, "y": numbers(tally), "marker": {"color": colour(number)}}
                | {"hovertemplate": "%{y} machines around %{x} %<extra></extra>"}
            )
    caption = "Machines by the share of time they were busy, between the first release and the last finish."
    x_axis = axis("busy (%)", range=[0, 100.0 * highest])
    plot = figure(traces, x_axis, count_axis("machines", largest), bargap=0.04, showlegend=len(results) > 1)
    return Chart("Utilization of the machines", caption, plot)


def traffic(results: Results) -> Iterator[Chart]:
    """Yield charts of sent bytes by kind of message, and by level of the tree of a tree scheduler."""
    sent = {
        name: dict(zip(table["kind"].tolist(), (table["bytes"] / 1e6).tolist(), strict=True))
        for name, table in ((name, result.messages) for name, result in results.items())
        if len(table) and table["bytes"].any()
    }
    if sent:
        kinds = list(dict.fromkeys(kind for row in sent.values() for kind in row))
        names = list(sent)
        if len(names) == 1:
            values = list(sent[names[0]].values())
            traces = [_stack(0, None, values) | {"marker": {"color": list(map(colour, range(len(kinds))))}}]
            y_axis = row_axis(kinds)
        else:
            traces = [
                _stack(k, kind, [sent[name].get(kind, 0.0) for name in names]) for k, kind in enumerate(kinds)
            ]
            y_axis = row_axis(names)
        x_axis = amount_axis("sent (MB)", [sum(row.values()) for row in sent.values()])
        plot = figure(traces, x_axis, y_axis, barmode="stack")
        height = row_height(kinds if len(names) == 1 else names)
        caption = "Total amount sent between different machines."
        suffix = f", {names[0]}" if len(names) == 1 < len(results) else ""
        yield Chart(f"Messages by kind{suffix}", caption, plot, height)
    for name, result in results.items():
        table = result.tables.get("traffic")
        if table is None or not len(table):
            continue
        levels = np.unique(table["level"])
        positions = np.searchsorted(levels, table["level"])
        bars = []
        for k, kind in enumerate(dict.fromkeys(table["kind"].tolist())):
            mask = table["kind"] == kind
            total = np.bincount(positions[mask], table["bytes"][mask] / 1e6, len(levels))
            bars.append(_stack(k, kind, total.tolist()))
        nodes = [f"level {level}" if level else "root" for level in levels.tolist()]
        x_axis = amount_axis("sent (MB)", np.bincount(positions, table["bytes"] / 1e6))
        plot = figure(bars, x_axis, row_axis(nodes), barmode="stack")
        title = "Messages by level of the tree" + (f", {name}" if len(results) > 1 else "")
        yield Chart(title, "Amount sent by the nodes of each level.", plot, row_height(nodes))


def cycles(results: Results) -> Chart | None:
    """Return a chart of the machines' cycles by use, for runs with the table ``cycles``; None without any."""
    cycle_tables = {
        name: result.tables["cycles"] for name, result in results.items() if "cycles" in result.tables
    }
    if not cycle_tables:
        return None
    sums = np.array([[float(table[part].sum()) for part in _CYCLES] for table in cycle_tables.values()])
    shares = 100.0 * sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300)
    bars = [_stack(k, part, shares[:, k].tolist(), "%") for k, part in enumerate(_CYCLES)]
    plot = figure(
        bars, axis("share of the cycles (%)", range=[0, 100]), row_axis(list(cycle_tables)), barmode="stack"
    )
    caption = (
        "Use of the machines' cycles: useful work, task copies that finished after another copy (redundant), "
        "work lost by failures, checkpoints or moves (overhead), and background load (slowed)."
    )
    return Chart("Cycles", caption, plot, row_height(list(cycle_tables)))


def intervals(replicates: Replicates) -> Iterator[Chart]:
    """Yield charts with confidence intervals: means of the compared metric, and ratios of all metrics."""
    metric, base, names = replicates.measure, replicates.baseline, list(replicates.schedulers)
    count = len(replicates.seeds)
    caption = f"Mean over {count} replications with its confidence interval; each dot is a replication."
    means = {name: replicates.mean(name, metric) for name in names}
    yield Chart(
        _metric_name(metric),
        caption,
        _dots(replicates[metric], means, names, _metric_title(metric)),
        row_height(names),
    )
    compared_names = [name for name in names if name != base]
    if base is None or not compared_names:
        return
    for metric in replicates.values:
        if not replicates[metric][base].all():
            continue
        with np.errstate(all="ignore"):
            pairs = {name: replicates[metric][name] / replicates[metric][base] for name in compared_names}
        estimates = {name: replicates.ratio(name, base, metric) for name in compared_names}
        title = f"{_metric_name(metric)} relative to {base}"
        caption = (
            "Mean of the ratios of paired replications, with its confidence interval.  If the interval "
            "contains 1, the difference is not significant."
        )
        plot = _dots(pairs, estimates, names, f"ratio to {base}")
        plot["layout"]["xaxis"] = ratio_axis(f"ratio to {base}", np.concatenate(list(pairs.values())))
        plot["layout"]["shapes"] = [
            {"type": "line", "xref": "x", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}
            | {"line": {"color": TEXT, "width": 1, "dash": "dot"}}
        ]
        yield Chart(title, caption, plot, row_height(compared_names))


def sweep_curves(result: SweepResult) -> Iterator[Chart]:
    """Yield charts of the first metric of a sweep, over its first axis with several labels.

    There is a chart for each point of the other axes, up to `MAX_POINTS` points.  Charts of the ratios to the
    baseline follow.
    """
    metric, base = result.metrics[0], result.baseline
    varied_axes = [axis for axis, labels in result.axes.items() if len(labels) > 1]
    x_name, other_axes = (varied_axes[0], varied_axes[1:]) if varied_axes else ("", [])
    groups: dict[tuple[Any, ...], dict[Any, Replicates]] = {}
    for point, replicates in result.each():
        groups.setdefault(tuple(point[axis] for axis in other_axes), {})[point.get(x_name, "")] = replicates
    names = list(result.schedulers)
    for ratio in (False, True) if base is not None and len(names) > 1 else (False,):
        for labels, points in list(groups.items())[:MAX_POINTS]:
            point_text = ", ".join(
                f"{axis} = {label}" for axis, label in zip(other_axes, labels, strict=True)
            )
            curve_names = [name for name in names if not ratio or name != base]
            estimates = {
                name: [
                    replicates.ratio(name, str(base), metric) if ratio else replicates.mean(name, metric)
                    for replicates in points.values()
                ]
                for name in curve_names
            }
            plot = _curves(x_name, list(points), estimates, names)
            values = [
                end
                for row in estimates.values()
                for replicates in row
                for end in (replicates.mean, replicates.low, replicates.high)
            ]
            title = (
                _metric_name(metric)
                + (f" relative to {base}" if ratio else "")
                + (f", {point_text}" if point_text else "")
            )
            plot["layout"]["yaxis"] = (
                ratio_axis(f"ratio to {base}", values) if ratio else value_axis(_metric_title(metric), values)
            )
            caption = f"Means over {result.replicates} replications with their confidence intervals"
            yield Chart(title, caption + (", paired by replication." if ratio else "."), plot)


def _curves(
    x_name: str, labels: list[Any], estimates: Mapping[str, list[Estimate]], names: list[str]
) -> Figure:
    """Return a figure with a line per scheduler over the labels of an axis, with confidence intervals."""
    axis_name, unit = key_label(x_name)
    positions = [units.number(entry, unit) if isinstance(entry, str) else entry for entry in labels]
    is_numeric = all(isinstance(place, (int, float)) for place in positions)
    x = numbers(np.array(positions, np.float64)) if is_numeric else [label(entry) for entry in labels]
    traces = []
    for name, row in estimates.items():
        number = names.index(name)
        middle = np.array([estimate.mean for estimate in row])
        ends = np.array([[estimate.low, estimate.high] for estimate in row])
        spread = np.nan_to_num(np.abs(ends - middle[:, None]))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": wrapped_label(name),
                "x": x,
                "y": numbers(middle),
                "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4}
                | {"array": numbers(spread[:, 1]), "arrayminus": numbers(spread[:, 0])},
                "line": {"color": colour(number), "dash": dash(number)},
                "marker": {"symbol": symbol(number), "size": 7},
            }
        )
    title = f"{axis_name} ({unit})" if unit and is_numeric else axis_name
    x_axis = value_axis(title, x) if is_numeric else axis(title, type="category")
    return figure(traces, x_axis, axis(""))


def _dots(
    samples: Mapping[str, Floats], estimates: Mapping[str, Estimate], names: list[str], title: str
) -> Figure:
    """Return a figure with a row per estimate: its confidence interval, and its samples as faint dots."""
    traces: list[Figure] = []
    for row, (name, estimate) in enumerate(estimates.items()):
        values, number = samples[name], names.index(name) if len(names) <= MAX_COLOURS else 0
        spread = (np.arange(len(values)) / max(1, len(values) - 1) - 0.5) * 0.4
        dots = {"color": colour(number), "size": 4, "opacity": 0.35}
        traces.append(
            {"type": "scatter", "mode": "markers", "x": numbers(values), "y": numbers(row + spread)}
            | {"marker": dots, "hovertemplate": "%{x:.5g}<extra></extra>"}
        )
        high, low = (
            0.0 if math.isnan(end) else abs(end - estimate.mean) for end in (estimate.high, estimate.low)
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": numbers([estimate.mean]),
                "y": [row],
                "error_x": {"type": "data", "symmetric": False, "array": [high], "arrayminus": [low]}
                | {"color": colour(number), "thickness": 2, "width": 5},
                "marker": {"color": colour(number), "symbol": symbol(number), "size": 10},
                "hovertemplate": f"{label(name)}: {label(estimate.format())}<extra></extra>",
            }
        )
    values = np.concatenate([samples[name] for name in estimates])
    x_axis = value_axis(title, values)
    return figure(traces, x_axis, row_axis(list(estimates)), showlegend=False, hovermode="closest")


def _line(number: int, name: str, x: Any, y: Any) -> Figure:
    """Return the trace of a step function in the style of series `number`."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": wrapped_label(name),
        "x": numbers(x),
        "y": numbers(y),
        "line": {**_stroke(number), "shape": "hv"},
    }


def _stroke(number: int) -> dict[str, Any]:
    return {"color": colour(number), "dash": dash(number), "width": 2}


def _stack(number: int, kind: str | None, values: list[float], unit: str = "MB") -> Figure:
    """Return the trace of a kind in stacked bars, in rows 0, 1, 2, ...; without a name if `kind` is None."""
    name_entry = {} if kind is None else {"name": label(kind)}
    prefix = "" if kind is None else f"{label(kind)}: "
    return {
        "type": "bar",
        "orientation": "h",
        **name_entry,
        "x": numbers(values),
        "y": list(range(len(values))),
        "marker": {"color": colour(number)},
        "hovertemplate": f"{prefix}%{{x:.4g}} {unit}<extra></extra>",
    }


def _metric_name(metric: str) -> str:
    return display_name(metric).capitalize()


def _metric_title(metric: str) -> str:
    return axis_title(metric, UNITS.get(metric, ""))


def _with_unit(quantity: str, unit: str) -> str:
    return f"{quantity} ({unit})" if unit not in ("", "1") else quantity
