"""Charts of runs and of replications; data are binned or thinned, so that charts of large runs are small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gridsim.plots.scales import clock
from gridsim.plots.studies import COLOURED
from gridsim.plots.style import spoken, titled
from gridsim.report.figures import (
    POINTS,
    TEXT,
    Chart,
    Figure,
    amounts,
    axis,
    colour,
    counts,
    dash,
    figure,
    folded,
    label,
    numbers,
    ratios,
    row_height,
    rows,
    scale,
    symbol,
)
from gridsim.results.metrics import series
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import UNITS, words
from gridsim.results.result import Result
from gridsim.studies.comparison_table import measure_of, ratio_of
from gridsim.studies.replicate import Replicates
from gridsim.studies.sweep_result import SweepResult
from gridsim.support import units
from gridsim.support.arrays import Floats

Results = Mapping[str, Result]

_BINS = 40
#: Charts of a sweep show at most this many points of the axes that are not drawn over.
MOST_POINTS = 12
_CYCLES = ("useful", "redundant", "lost", "overhead", "slowed")


def distributed(results: Results) -> dict[str, tuple[str, dict[str, Floats]]]:
    """Return the values per application or job that are charted: name -> (unit, run -> values).

    Long times are in h or days.

    A run without a value is left out of it.  The completion time, by which work queues are judged, is
    included for all runs of bags if one of the runs has the table ``cycles``.
    """
    queues = any("cycles" in result.tables for result in results.values())
    found: dict[str, tuple[str, dict[str, Floats]]] = {}

    def put(what: str, unit: str, name: str, values: Any) -> None:
        found.setdefault(what, (unit, {}))[1][name] = np.asarray(values, np.float64)

    for name, result in results.items():
        table = result.applications
        if result.rigid:
            put("waiting time", "s", name, table["waiting"])
            put("slowdown", "", name, table["slowdown"])
            continue
        put("stretch", "", name, table["stretch_agg"])
        if "jobs" in result.tables:
            put("turnaround", "s", name, result.tables["jobs"]["turnaround"])
        if queues:
            put("completion time", "s", name, table["finish"] - table["release"])
    return {what: _in_clock(unit, samples) for what, (unit, samples) in found.items()}


def _in_clock(unit: str, samples: dict[str, Floats]) -> tuple[str, dict[str, Floats]]:
    """Return samples of long times in h or days, unless their axis is logarithmic; others as they are."""
    every = np.concatenate(list(samples.values()))
    if unit != "s" or series.wide(every):
        return unit, samples
    factor, unit = clock(float(np.max(every, initial=0.0, where=np.isfinite(every))))
    return unit, {name: values / factor for name, values in samples.items()}


def compared(results: Results, baseline: str) -> Chart:
    """Return bars of the metric by which schedulers are compared, with the ratio to the baseline."""
    measure, names = measure_of(results), list(results)
    unitless = measure == "max_stretch"  # the stretch as tables show it, without a unit
    values = [result.max_stretch_agg if unitless else getattr(result, measure) for result in results.values()]
    factor, unit = (1.0, "") if unitless else clock(max(filter(math.isfinite, values), default=0.0))
    values = [value / factor for value in values]
    ratios = [ratio_of(results, name, baseline) for name in names]
    marker = {"color": [colour(k if len(names) <= COLOURED else 0) for k in range(len(names))]}
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "x": numbers(values),
        "y": list(range(len(names))),
        "text": [f"{ratio:.3f}" if math.isfinite(ratio) else "" for ratio in ratios],
        "textposition": "auto",
        "marker": marker,
        "customdata": [label(name) for name in names],
        "hovertemplate": "%{customdata}: %{x:.6g}, %{text} of the baseline's<extra></extra>",
    }
    about = f"{_words(measure)} of each scheduler; the number is the ratio to that of {baseline}."
    title = "max stretch" if unitless else titled(measure, unit)
    across = scale(title, [0.0, *values], rangemode="tozero")
    if series.wide(values):  # bars have no beginning on a logarithmic axis
        bars |= {"type": "scatter", "mode": "markers+text", "textposition": "middle right"}
        bars |= {"marker": {**marker, "size": 10}}
        across = scale(title, values)
    made = figure([bars], across, rows(names))
    return Chart(_words(measure), about, made, row_height(names))


def distributions(results: Results) -> Iterator[Chart]:
    """Iterate over charts of the cumulative distributions of stretch, waiting time and so on."""
    for what, (unit, samples) in distributed(results).items():
        traces = []
        for name, values in samples.items():
            x, share = series.distribution(values, POINTS // 2)
            if len(x):
                x, share = np.append(x[:1], x), np.append(0.0, share)
            traces.append(_line(list(results).index(name), name, x, 100.0 * share))
        every = np.concatenate(list(samples.values()))
        across = scale(_with_unit(what, unit), every)
        up = axis("share (%)", range=[0, 102])
        of = "jobs" if what in ("waiting time", "slowdown", "turnaround") else "applications"
        about = f"Share of the {of} whose {what} was at most so large: the further to the left, the better."
        made = figure(traces, across, up, showlegend=len(results) > 1)
        yield Chart(f"Distribution of the {what}", about, made)


def over_size(results: Results) -> Chart:
    """Return a chart of the stretch of applications, or the slowdown of rigid jobs, over their size."""
    rigid = measure_of(results) == "mean_waiting"
    what, column = ("slowdown", "slowdown") if rigid else ("stretch", "stretch_agg")
    traces, sizes, heights = [], [], []
    for number, (name, result) in enumerate(results.items()):
        x, y = series.scattered(result.applications["size"], result.applications[column], POINTS)
        sizes.append(x)
        heights.append(y)
        marker = {"color": colour(number), "symbol": symbol(number), "size": 6, "opacity": 0.75}
        traces.append(
            {"type": "scatter", "mode": "markers", "name": folded(name), "x": numbers(x), "y": numbers(y)}
            | {"marker": marker}
        )
    across = scale("size (Mflop)", np.concatenate(sizes))
    up = scale(what, np.concatenate(heights))
    one = "job" if rigid else "application"
    about = f"Each {one} by its size: whether small ones pay for large ones."
    if any(len(result.applications) > POINTS for result in results.values()):
        about += f"  Of more than {POINTS} the extremes in each range of sizes."
    return Chart(f"{what.capitalize()} over size", about, figure(traces, across, up))


def over_time(results: Results) -> Iterator[Chart]:
    """Iterate over charts of active, waiting and busy over time; those that are always 0 are left out."""
    what = "jobs" if measure_of(results) == "mean_waiting" else "applications"
    kinds: tuple[tuple[series.Quantity, str, str], ...] = (
        ("active", f"Active {what}", f"{what.capitalize()} that were released and not finished."),
        ("waiting", f"Waiting {what}", f"{what.capitalize()} of which nothing had started yet."),
        ("busy", "Busy machines", "Machines that worked, of the runs whose schedule was recorded."),
    )
    for quantity, title, about in kinds:
        steps = {
            name: series.over_time(result, quantity).thinned(POINTS)
            for name, result in results.items()
            if quantity != "busy" or "schedule" in result.tables
        }
        times = np.concatenate([each.times for each in steps.values()] or [np.zeros(0)])
        factor, unit = clock(float(np.ptp(times)) if len(times) else 0.0)
        traces = [
            _line(number, name, steps[name].times / factor, np.rint(steps[name].values).astype(np.int64))
            for number, name in enumerate(results)
            if name in steps
        ]
        largest = max((max(trace["y"], default=0) for trace in traces), default=0)
        if largest:
            up = counts("machines" if quantity == "busy" else what, largest)
            across = axis(f"time ({unit})", tickformat=",")
            yield Chart(title, about, figure(traces, across, up, showlegend=len(results) > 1))


def utilization(results: Results) -> Chart | None:
    """Return a histogram of the utilization of machines, or None if no run has it."""
    known = {name: result.machines["utilization"] for name, result in results.items()}
    known = {name: told for name, each in known.items() if len(told := each[~np.isnan(each)])}
    if not known:
        return None
    # a value above 1 is wrong, and must be visible
    most = max(1.0, *(float(told.max()) for told in known.values()))
    edges = np.linspace(0.0, most, _BINS + 1)
    traces: list[Figure] = []
    largest = 0
    for number, name in enumerate(results):
        if name not in known:
            continue
        tally = np.histogram(known[name], edges)[0]
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
    about = (
        "How many machines were busy for which share of the time from the first release to the last finish."
    )
    across = axis("busy (%)", range=[0, 100.0 * most])
    made = figure(traces, across, counts("machines", largest), bargap=0.04, showlegend=len(results) > 1)
    return Chart("Utilization of the machines", about, made)


def traffic(results: Results) -> Iterator[Chart]:
    """Iterate over charts of bytes by kind of message, and by level of the tree if a scheduler has one."""
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
            up = rows(kinds)
        else:
            traces = [
                _stack(k, kind, [sent[name].get(kind, 0.0) for name in names]) for k, kind in enumerate(kinds)
            ]
            up = rows(names)
        across = amounts("sent (MB)", [sum(row.values()) for row in sent.values()])
        made = figure(traces, across, up, barmode="stack")
        height = row_height(kinds if len(names) == 1 else names)
        about = "What was sent between machines, in all; what stays on its machine does not count."
        whose = f", {names[0]}" if len(names) == 1 < len(results) else ""
        yield Chart(f"Messages by kind{whose}", about, made, height)
    for name, result in results.items():
        table = result.tables.get("traffic")
        if table is None or not len(table):
            continue
        levels = np.unique(table["level"])
        places = np.searchsorted(levels, table["level"])
        bars = []
        for k, kind in enumerate(dict.fromkeys(table["kind"].tolist())):
            which = table["kind"] == kind
            total = np.bincount(places[which], table["bytes"][which] / 1e6, len(levels))
            bars.append(_stack(k, kind, total.tolist()))
        nodes = [f"level {level}" if level else "root" for level in levels.tolist()]
        across = amounts("sent (MB)", np.bincount(places, table["bytes"] / 1e6))
        made = figure(bars, across, rows(nodes), barmode="stack")
        title = "Messages by level of the tree" + (f", {name}" if len(results) > 1 else "")
        yield Chart(title, "What the nodes of each level sent.", made, row_height(nodes))


def cycles(results: Results) -> Chart | None:
    """Return a chart of what machines spent their cycles on, for runs with the table ``cycles``."""
    told = {name: result.tables["cycles"] for name, result in results.items() if "cycles" in result.tables}
    if not told:
        return None
    sums = np.array([[float(table[part].sum()) for part in _CYCLES] for table in told.values()])
    shares = 100.0 * sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300)
    bars = [_stack(k, part, shares[:, k].tolist(), "%") for k, part in enumerate(_CYCLES)]
    made = figure(bars, axis("share of the cycles (%)", range=[0, 100]), rows(list(told)), barmode="stack")
    about = (
        "What machines were busy with: useful work, task copies that another was faster than (redundant), "
        "work lost by failures, checkpoints or moves (overhead), and what other load took (slowed)."
    )
    return Chart("Cycles", about, made, row_height(list(told)))


def intervals(found: Replicates) -> Iterator[Chart]:
    """Iterate over charts with intervals: the mean of the compared metric, then ratios to the baseline."""
    metric, base, names = found.measure, found.baseline, list(found.schedulers)
    about = f"Mean over {len(found.seeds)} replications with its interval; each dot is a replication."
    means = {name: found.mean(name, metric) for name in names}
    yield Chart(_words(metric), about, _dots(found[metric], means, names, _title(metric)), row_height(names))
    others = [name for name in names if name != base]
    if base is None or not others:
        return
    for metric in found.values:
        if not found[metric][base].all():
            continue
        with np.errstate(all="ignore"):
            pairs = {name: found[metric][name] / found[metric][base] for name in others}
        found_ratios = {name: found.ratio(name, base, metric) for name in others}
        title = f"{_words(metric)} relative to {base}"
        about = (
            "Mean of the ratios, replication by replication, with its interval.  If the interval contains "
            "1, the difference may be due to chance."
        )
        made = _dots(pairs, found_ratios, names, f"ratio to {base}")
        made["layout"]["xaxis"] = ratios(f"ratio to {base}", np.concatenate(list(pairs.values())))
        made["layout"]["shapes"] = [
            {"type": "line", "xref": "x", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}
            | {"line": {"color": TEXT, "width": 1, "dash": "dot"}}
        ]
        yield Chart(title, about, made, row_height(others))


def swept(found: SweepResult) -> Iterator[Chart]:
    """Iterate over charts of the first metric of a sweep over its first axis with several labels.

    There is one per point of the other axes, up to `MOST_POINTS` of them; then those of the ratios to the
    baseline.
    """
    metric, base = found.metrics[0], found.baseline
    wide = [axis for axis, labels in found.axes.items() if len(labels) > 1]
    over, others = (wide[0], wide[1:]) if wide else ("", [])
    groups: dict[tuple[Any, ...], dict[Any, Replicates]] = {}
    for point, one in found.each():
        groups.setdefault(tuple(point[axis] for axis in others), {})[point.get(over, "")] = one
    names = list(found.schedulers)
    for ratio in (False, True) if base is not None and len(names) > 1 else (False,):
        for labels, points in list(groups.items())[:MOST_POINTS]:
            where = ", ".join(f"{axis} = {label}" for axis, label in zip(others, labels, strict=True))
            shown = [name for name in names if not ratio or name != base]
            estimates = {
                name: [
                    one.ratio(name, str(base), metric) if ratio else one.mean(name, metric)
                    for one in points.values()
                ]
                for name in shown
            }
            made = _curves(over, list(points), estimates, names)
            every = [
                end for row in estimates.values() for one in row for end in (one.mean, one.low, one.high)
            ]
            title = (
                _words(metric) + (f" relative to {base}" if ratio else "") + (f", {where}" if where else "")
            )
            made["layout"]["yaxis"] = (
                ratios(f"ratio to {base}", every) if ratio else scale(_title(metric), every)
            )
            about = f"Means over {found.replicates} replications with their intervals"
            yield Chart(title, about + (", paired by replication." if ratio else "."), made)


def _curves(over: str, labels: list[Any], found: Mapping[str, list[Estimate]], names: list[str]) -> Figure:
    """Return a figure with a line per scheduler over the labels of an axis, with intervals."""
    words, unit = spoken(over)
    places = [units.number(each, unit) if isinstance(each, str) else each for each in labels]
    numeric = all(isinstance(place, (int, float)) for place in places)
    x = numbers(np.array(places, np.float64)) if numeric else [label(each) for each in labels]
    traces = []
    for name, row in found.items():
        number = names.index(name)
        middle = np.array([one.mean for one in row])
        ends = np.array([[one.low, one.high] for one in row])
        spread = np.nan_to_num(np.abs(ends - middle[:, None]))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": folded(name),
                "x": x,
                "y": numbers(middle),
                "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4}
                | {"array": numbers(spread[:, 1]), "arrayminus": numbers(spread[:, 0])},
                "line": {"color": colour(number), "dash": dash(number)},
                "marker": {"symbol": symbol(number), "size": 7},
            }
        )
    title = f"{words} ({unit})" if unit and numeric else words
    across = scale(title, x) if numeric else axis(title, type="category")
    return figure(traces, across, axis(""))


def _dots(
    samples: Mapping[str, Floats], found: Mapping[str, Estimate], names: list[str], title: str
) -> Figure:
    """Return a figure with a row per estimate and its interval, and each value as a faint dot next to it."""
    traces: list[Figure] = []
    for place, (name, one) in enumerate(found.items()):
        values, number = samples[name], names.index(name) if len(names) <= COLOURED else 0
        spread = (np.arange(len(values)) / max(1, len(values) - 1) - 0.5) * 0.4
        dots = {"color": colour(number), "size": 4, "opacity": 0.35}
        traces.append(
            {"type": "scatter", "mode": "markers", "x": numbers(values), "y": numbers(place + spread)}
            | {"marker": dots, "hovertemplate": "%{x:.5g}<extra></extra>"}
        )
        high, low = (0.0 if math.isnan(end) else abs(end - one.mean) for end in (one.high, one.low))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": numbers([one.mean]),
                "y": [place],
                "error_x": {"type": "data", "symmetric": False, "array": [high], "arrayminus": [low]}
                | {"color": colour(number), "thickness": 2, "width": 5},
                "marker": {"color": colour(number), "symbol": symbol(number), "size": 10},
                "hovertemplate": f"{label(name)}: {label(one.format())}<extra></extra>",
            }
        )
    every = np.concatenate([samples[name] for name in found])
    across = scale(title, every)
    return figure(traces, across, rows(list(found)), showlegend=False, hovermode="closest")


def _line(number: int, name: str, x: Any, y: Any) -> Figure:
    """Return the trace of a step function, series `number` of the figure."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": folded(name),
        "x": numbers(x),
        "y": numbers(y),
        "line": {**_stroke(number), "shape": "hv"},
    }


def _stroke(number: int) -> dict[str, Any]:
    return {"color": colour(number), "dash": dash(number), "width": 2}


def _stack(number: int, kind: str | None, values: list[float], unit: str = "MB") -> Figure:
    """Return the bars of a kind in stacked rows at 0, 1, 2, ...; None as kind if there is no other trace."""
    named = {} if kind is None else {"name": label(kind)}
    said = "" if kind is None else f"{label(kind)}: "
    return {
        "type": "bar",
        "orientation": "h",
        **named,
        "x": numbers(values),
        "y": list(range(len(values))),
        "marker": {"color": colour(number)},
        "hovertemplate": f"{said}%{{x:.4g}} {unit}<extra></extra>",
    }


def _words(metric: str) -> str:
    return words(metric).capitalize()


def _title(metric: str) -> str:
    return titled(metric, UNITS.get(metric, ""))


def _with_unit(what: str, unit: str) -> str:
    return f"{what} ({unit})" if unit not in ("", "1") else what
