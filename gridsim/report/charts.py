"""Charts of runs; data are binned or thinned, so that charts of large runs stay small.

Charts that matplotlib draws too are described in `gridsim.plots.charts`; the others are made here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from gridsim.plots.charts import count_chart, distribution_chart, ranked_first, recorded_names
from gridsim.plots.looks import looks
from gridsim.plots.style import TOTAL_COLOUR, quantity_title
from gridsim.report.draw import draw, line_trace
from gridsim.report.figures import (
    BACKGROUND,
    POINTS,
    Figure,
    PlotlyChart,
    amount_axis,
    axis,
    colour,
    count_axis,
    figure,
    label,
    numbers,
    row_axis,
    row_height,
    symbol,
    value_axis,
    wrapped_label,
)
from gridsim.results.metrics import series
from gridsim.results.metrics.registry import display_name
from gridsim.results.result import Result
from gridsim.results.text import waiting_unit
from gridsim.studies.comparison_table import Row, measure_of, names_without_rank, noun_of, ratio_texts
from gridsim.support.arrays import Floats
from gridsim.support.text import time_unit, typical_unit

Results = Mapping[str, Result]

#: Number of bins of the histogram of utilization.
_BINS = 40
_CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


def sample_values(results: Results) -> dict[str, tuple[str, dict[str, Floats]]]:
    """Return the charted values per application or job that counts: quantity -> (unit, run -> values).

    Long times are in h or days.  A run without a quantity is missing from it.  The response time, by which
    work queues are compared, is included for all runs of bags if one of them has the table ``cycles``.
    """
    has_queues = any("cycles" in result.tables for result in results.values())
    samples_of: dict[str, tuple[str, dict[str, Floats]]] = {}

    def add_sample(quantity: str, unit: str, name: str, values: Any) -> None:
        samples_of.setdefault(quantity, (unit, {}))[1][name] = np.asarray(values, np.float64)

    for name, result in results.items():
        table, is_counted = result.applications, result.is_counted
        if result.rigid:
            add_sample("waiting time", "s", name, table["waiting"][is_counted])
            add_sample("slowdown", "", name, table["slowdown"][is_counted])
            continue
        add_sample("stretch", "", name, table["stretch_agg"][is_counted])
        if (jobs := result.tables.get("jobs")) is not None:
            add_sample("turnaround", "s", name, jobs["turnaround"][is_counted[jobs["application"]]])
        if has_queues:
            add_sample("response time", "s", name, (table["finish"] - table["release"])[is_counted])
    units = {"waiting time": waiting_unit(results.values())}
    return {
        quantity: _convert_times(unit, samples, units.get(quantity))
        for quantity, (unit, samples) in samples_of.items()
    }


def _convert_times(
    unit: str, samples: dict[str, Floats], time: tuple[float, str] | None
) -> tuple[str, dict[str, Floats]]:
    """Convert long times from s to h or days, unless their axis is logarithmic.

    Parameters
    ----------
    time
        Length (s) and name of a unit to which all times are converted; None for one that depends on them.
    """
    all_values = np.concatenate(list(samples.values()))
    if unit != "s" or (time is None and series.is_wide(all_values)):
        return unit, samples
    longest = float(np.max(all_values, initial=0.0, where=np.isfinite(all_values)))
    factor, unit = time_unit(longest) if time is None else time
    return unit, {name: values / factor for name, values in samples.items()}


def comparison(results: Results, rows: Sequence[Row], baseline: str) -> PlotlyChart:
    """Return a bar chart of the metric that compares schedulers, with the ratios of the table of `rows`.

    Bars of schedulers that are not ranked are last and hollow.
    """
    exclusions, ratios = names_without_rank(results, rows), ratio_texts(results, rows, baseline)
    results = {name: results[name] for name in ranked_first(results, exclusions)}
    measure, names = measure_of(results), list(results)
    is_unitless = measure == "max_stretch"  # tables and charts show the stretch without a unit
    values = [
        result.max_stretch_agg if is_unitless else getattr(result, measure) for result in results.values()
    ]
    factor, unit = (1.0, "") if is_unitless else typical_unit(values)
    if measure == "mean_waiting":
        factor, unit = waiting_unit(results.values())
    values = [value / factor for value in values]
    log_names, look_of = recorded_names(results), _looks(results)
    colours = [TOTAL_COLOUR if name in log_names else colour(look_of[name]) for name in names]
    faces = [BACKGROUND if name in exclusions else c for name, c in zip(names, colours, strict=True)]
    marker: Figure = {"color": faces, "line": {"color": colours, "width": 2}}
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "x": numbers(values),
        "y": list(range(len(names))),
        "text": [ratios[name] for name in names],
        "textposition": "auto",
        "marker": marker,
        "customdata": [label(name) for name in names],
        "hovertemplate": "%{customdata}: %{x:.6g}, ratio to the baseline: %{text}<extra></extra>",
    }
    caption = f"{_metric_name(measure)} of each scheduler; the number is the ratio to that of {baseline}."
    if log_names:
        caption += "  Grey: the schedule recorded in the log, for reference."
    if exclusions:
        caption += "  Hollow: not ranked."
    title = "max stretch" if is_unitless else quantity_title(measure, unit)
    x_axis = value_axis(title, [0.0, *values], rangemode="tozero")
    if series.is_wide(values):  # a logarithmic axis has no 0 from which bars could start
        bars |= {"type": "scatter", "mode": "markers+text", "textposition": "middle right"}
        symbols = [symbol(look_of.get(name, 0), name in exclusions) for name in names]
        bars |= {"marker": {"color": colours, "symbol": symbols, "size": 10}}
        x_axis = value_axis(title, values)
    plot = figure([bars], x_axis, row_axis(names))
    return PlotlyChart(_metric_name(measure), caption, plot, row_height(names))


def distributions(results: Results, exclusions: Collection[str] = ()) -> Iterator[PlotlyChart]:
    """Yield charts of the cumulative distributions of all charted values; `exclusions` are not ranked."""
    for quantity, (unit, samples) in sample_values(results).items():
        items = "jobs" if quantity in ("waiting time", "slowdown", "turnaround") else "applications"
        log_names = recorded_names(results)
        yield draw(distribution_chart(samples, quantity, unit, items, list(results), log_names, exclusions))


def over_size(results: Results) -> PlotlyChart:
    """Return a chart of the stretch of applications, or the slowdown of rigid jobs, over their size."""
    rigid = measure_of(results) == "mean_waiting"
    metric, column = ("slowdown", "slowdown") if rigid else ("stretch", "stretch_agg")
    noun = noun_of(results)
    traces, sizes, heights, log_names = [], [], [], recorded_names(results)
    look_of = _looks(results)
    for name, result in results.items():
        table, number = result.applications, look_of.get(name, 0)
        size = result.width * table["run_time"] / 3600.0 if rigid else table["size"]
        x, y = series.scatter_points(size[result.is_counted], table[column][result.is_counted], POINTS)
        sizes.append(x)
        heights.append(y)
        is_recorded = name in log_names
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": wrapped_label(f"{name} (recorded)" if is_recorded else name),
                "x": numbers(x),
                "y": numbers(y),
                "marker": {
                    "color": TOTAL_COLOUR if is_recorded else colour(number),
                    "symbol": symbol(number),
                    "size": 6,
                    "opacity": 0.75,
                },
            }
        )
    x_axis = value_axis(f"size ({noun}-hours)" if rigid else "size (Mflop)", np.concatenate(sizes))
    y_axis = value_axis(metric, np.concatenate(heights))
    item = "job" if rigid else "application"
    caption = f"The {metric} of each {item} over its size, which shows whether small {item}s suffer."
    if any(len(result.applications) > POINTS for result in results.values()):
        caption += f"  If there are more than {POINTS}, only the extremes in each range of sizes are shown."
    return PlotlyChart(f"{metric.capitalize()} over size", caption, figure(traces, x_axis, y_axis))


def over_time(results: Results) -> Iterator[PlotlyChart]:
    """Yield charts over time of active and waiting applications and busy machines, unless always 0."""
    for quantity in get_args(series.Quantity):
        runs = {
            name: result
            for name, result in results.items()
            if quantity != "busy" or "schedule" in result.tables
        }
        if runs:
            chart = count_chart(runs, quantity, list(results))
            if np.max(chart.y.values):
                yield draw(chart)


def utilization(results: Results) -> PlotlyChart | None:
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
    look_of = _looks(results)
    for name in results:
        if name not in samples:
            continue
        tally = np.histogram(samples[name], edges)[0]
        largest = max(largest, int(tally.max()))
        if len(results) > 1:
            x, y = np.repeat(100.0 * edges, 2)[1:-1], np.repeat(tally, 2)
            traces.append(line_trace(look_of.get(name), name, x, y))
        else:
            middle = numbers(100.0 * (edges[:-1] + edges[1:]) / 2)
            traces.append(
                {"type": "bar", "x": middle, "y": numbers(tally), "marker": {"color": colour(0)}}
                | {"hovertemplate": "%{y} machines around %{x} %<extra></extra>"}
            )
    caption = "Machines by the share of time they were busy, between the first release and the last finish."
    x_axis = axis("busy (%)", range=[0, 100.0 * highest])
    plot = figure(traces, x_axis, count_axis("machines", largest), bargap=0.04, showlegend=len(results) > 1)
    return PlotlyChart("Utilization of the machines", caption, plot)


def traffic(results: Results) -> Iterator[PlotlyChart]:
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
        yield PlotlyChart(f"Messages by kind{suffix}", caption, plot, height)
    for name, result in results.items():
        if not len(result.tables.get("traffic", ())):
            continue
        amounts = {kind: sent / 1e6 for kind, sent in series.traffic_by_level(result, "bytes").items()}
        totals = np.sum(list(amounts.values()), axis=0)
        bars = [_stack(k, kind, column.tolist()) for k, (kind, column) in enumerate(amounts.items())]
        nodes = [f"level {level}" if level else "root" for level in range(len(totals))]
        x_axis = amount_axis("sent (MB)", totals)
        plot = figure(bars, x_axis, row_axis(nodes), barmode="stack")
        title = "Messages by level of the tree" + (f", {name}" if len(results) > 1 else "")
        yield PlotlyChart(title, "Amount sent by the nodes of each level.", plot, row_height(nodes))


def cycles(results: Results) -> PlotlyChart | None:
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
    return PlotlyChart("Cycles", caption, plot, row_height(list(cycle_tables)))


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


def _looks(results: Results) -> Mapping[str, int]:
    """Return the looks of results, with the same names as in other charts, except those of job logs."""
    log_names = recorded_names(results)
    return looks(name for name in results if name not in log_names)


def _metric_name(metric: str) -> str:
    return display_name(metric).capitalize()
