"""Charts of studies, and their style: the artists are compared with the data."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from gridsim import plots
from gridsim.errors import ScenarioError
from gridsim.plots.charts import distribution_chart
from gridsim.plots.draw import draw
from gridsim.plots.looks import ORDERS
from gridsim.plots.scales import log_scale, short_number
from gridsim.plots.style import STYLE, legend_size, quantity_title, wrap_name
from gridsim.reproduce.framework import Measurements, Run
from gridsim.reproduce.others import waves
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import display_name
from gridsim.schedulers import MODES
from gridsim.scheduling.registry import registered
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.replicate_result import Replicates
from gridsim.studies.sweep_result import SweepResult
from gridsim.support.text import time_unit

pytestmark = pytest.mark.slow

NAN = float("nan")
POINTS = [Estimate(1.0, 0.9, 1.2, 5), Estimate(2.0, 1.5, 2.5, 5), Estimate(3.0, NAN, NAN, 1)]
FOUND = Replicates(
    seeds=(0, 1, 2),
    values={"max_stretch": {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.0, 2.0, 9.0])}},
    baseline="a",
)


def axes_of():
    return plots.figure()[1][0]


def chart_axes(kind: str = "png") -> bytes:
    instance, (left, middle, right) = plots.figure(3)
    assert plots.lines([50, 100, 200], {"a": POINTS, "b": POINTS[::-1]}, axes=left) is left
    assert plots.boxes({"50": [1.0, 2.0, 4.0, NAN], "100": [3.0]}, axes=middle) is middle
    assert plots.bars(["x", "y", "z"], POINTS, [1.1, None, 2.9], axes=right) is right
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["a", "b"]
    assert [text.get_text() for text in middle.get_xticklabels()] == ["50", "100"]
    assert [bar.get_height() for bar in right.patches[3:]] == [1.0, 2.0, 3.0]
    assert sorted(middle.lines[-2].get_ydata()) == [1.0, 2.0, 4.0]
    stream = io.BytesIO()
    plots.save(instance, stream, format=kind)
    return stream.getvalue()


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_equal_charts_give_equal_files(kind: str, begin: bytes) -> None:
    assert chart_axes(kind).startswith(begin) and chart_axes(kind) == chart_axes(kind)


def test_series_have_distinct_styles() -> None:
    assert len(set(plots.COLOURS)) == len(plots.COLOURS) < len(set(plots.MARKERS)) == len(plots.MARKERS)
    axes = plots.lines([1, 2, 3], {f"s{k}": POINTS for k in range(28)}, axes=axes_of())
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len({look for look in looks if look[2] not in ("|", "_", "None")}) == 28
    with pytest.raises(ScenarioError, match="at most 28, got 29"):
        plots.lines([1, 2, 3], {f"s{k}": POINTS for k in range(29)}, axes=axes_of())


def test_colours_have_a_contrast_of_3_to_1() -> None:
    def luminance(colour: str) -> float:
        channels = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark_page = luminance("#14171c")  # black is replaced by the colour of text there
    for colour in plots.COLOURS:
        assert 1.05 / (luminance(colour) + 0.05) >= 3.0, colour
        assert colour == "#000000" or (luminance(colour) + 0.05) / (dark_page + 0.05) >= 3.0, colour


def test_charts_have_one_name_for_the_response_time() -> None:
    names = {"response": "response time", "mean_completion": "mean response time"}
    assert {name: quantity_title(name, "") for name in names} == names
    assert display_name("mean_completion") == names["mean_completion"]


def test_the_style_applies_only_within_its_context() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    chart_axes()
    assert dict(matplotlib.rcParams) == before
    with plots.use_style():
        assert not matplotlib.rcParams["axes.spines.top"]
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(plots.COLOURS)
    assert dict(matplotlib.rcParams) == before and set(STYLE) <= set(before)


def test_given_axes_do_not_load_pyplot() -> None:
    code = (
        "import sys; from gridsim import plots; axes = plots.figure()[1][0]\n"
        "plots.scaling([1, 10], {'a': [1.0, 2.0]}, axes=axes)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert plots.scaling([1, 10], {'a': [1.0, 2.0]}).get_figure().number == 1"
    )
    process = subprocess.run([sys.executable, "-c", code], env={**os.environ, "MPLBACKEND": "Agg"})
    assert process.returncode == 0


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "gridsched\[plot\]"'):
        plots.figure()


def test_comparison_draws_means_and_paired_ratios() -> None:
    axes = plots.comparison(FOUND, axes=axes_of())
    middles = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1 and line.get_marker()]
    assert {2.0, 13.0 / 3} <= {float(x) for x in middles}
    assert axes.get_xlabel() == "max stretch per work"
    figure = FOUND.figure()
    right = figure.axes[1]
    assert [label.get_text() for label in right.get_yticklabels()] == ["a", "b"]
    assert figure.axes[0].get_ylim() == right.get_ylim()  # rows of both panels are at the same heights
    assert [1.0, 2.0, 3.0] in [sorted(line.get_xdata()) for line in right.lines]  # the paired ratios b / a
    assert right.get_xlabel() == "max stretch per work, relative to a,\nlog scale\n(3 paired replications)"
    assert len(figure.axes) == 2
    alone = Replicates(FOUND.seeds, FOUND.values)
    assert len(alone.figure().axes) == 1
    with pytest.raises(ScenarioError, match="ratio requires replicates"):
        plots.comparison(alone, ratio=True, axes=axes_of())
    with pytest.raises(ScenarioError, match="^metric"):
        plots.comparison(FOUND, "speed", axes=axes_of())


def test_a_sweep_is_drawn_over_its_free_axis() -> None:
    records = [RunRecord({"max_stretch": 10.0 * k + s}) for k in range(6) for _ in range(2) for s in (0, 1)]
    labels = {"size": (1, 2, 4), "load": ("low", "high")}
    actual = SweepResult(labels, ("a", "b"), 2, ("max_stretch",), None, records, ("max_stretch",))
    axes = plots.swept(actual, where={"load": "high"}, axes=axes_of())
    displayed = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.lines[::3]]
    assert displayed == [([1, 2, 4], [10.0, 30.0, 50.0]), ([1, 2, 4], [11.0, 31.0, 51.0])]
    axes = plots.swept(actual, where={"size": 2}, axes=axes_of())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["low", "high"]
    assert [axes.get_title() for axes in actual.figure().axes] == ["load = low", "load = high"]
    with pytest.raises(ScenarioError, match="^where"):
        plots.swept(actual, axes=axes_of())
    with pytest.raises(ScenarioError, match="got load = 'mid'"):
        plots.swept(actual, where={"load": "mid"}, axes=axes_of())
    with pytest.raises(ScenarioError, match="^metric"):
        plots.swept(actual, "speed", axes=axes_of())


def test_a_sweep_over_three_axes_is_drawn_at_one_point_of_the_others() -> None:
    labels = {"a": (1, 2), "b": (1, 2), "c": (10, 20)}
    records = [RunRecord({"max_stretch": float(k)}) for k in range(8)]
    actual = SweepResult(labels, ("x",), 1, ("max_stretch",), None, records, ("max_stretch",))
    axes = plots.swept(actual, where={"b": 1, "c": 10}, axes=axes_of())
    expected = [actual.at(a=a, b=1, c=10).mean("x", "max_stretch").mean for a in (1, 2)]
    assert axes.lines[0].get_ydata().tolist() == expected == [0.0, 4.0]


def test_waterfall_bars_begin_at_the_end_of_the_previous_bar() -> None:
    start, end, *steps = (Estimate(mean, NAN, NAN, 1) for mean in (10.0, 10.0, 2.0, -3.0, 1.0))
    axes = plots.waterfall(["start", "x", "y", "z"], start, steps, end, axes=axes_of())
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0.0, 10.0), (10.0, 2.0), (12.0, -3.0), (9.0, 1.0), (0.0, 10.0)]


def test_scaling_draws_values_and_slopes() -> None:
    arguments = {"a": [2.0, None, 300.0], "b": [Estimate(1.0, 0.5, 2.0, 5), 20.0, NAN]}
    axes = plots.scaling([10, 100, 1000], arguments, axes=axes_of())
    lines = {c.get_label(): c.lines[0] for c in axes.containers}
    assert lines["a"].get_xdata().tolist() == [10, 1000] and lines["a"].get_ydata().tolist() == [2, 300]
    assert lines["b"].get_ydata().tolist() == [1, 20]
    (bar,) = axes.containers[1].lines[2]
    assert bar.get_segments()[0][:, 1].tolist() == [0.5, 2.0]
    slopes = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[-1] / 2.0 for line in slopes] == pytest.approx([100.0, 300.0])
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_ylabel() == "s, log scale"
    plots.scaling([7], {"a": [1.0]}, axes=axes_of()).get_figure().canvas.draw()


@pytest.mark.parametrize(
    ("sizes", "measured", "message"),
    [
        ([0, 1], {"a": [1.0, 2.0]}, r"sizes must be > 0, got \[0, 1\]"),
        ([1, 2], {"a": [1.0]}, r"measured\['a'\] must have 2 values, one per size, got 1"),
        ([1, 2], {"a": [1.0, 0.0]}, r"measured\['a'\] must be > 0 s, got 0"),
    ],
)
def test_invalid_sizes_are_rejected(sizes, measured, message) -> None:
    with pytest.raises(ScenarioError, match=message):
        plots.scaling(sizes, measured, axes=axes_of())


def labels_of(axis):
    """Return text -> bounding box of the visible labels of an axis."""
    axis.axes.get_figure().draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    displayed = [tick.label1 for tick in ticks if tick.label1.get_text() and low <= tick.get_loc() <= high]
    displayed += [tick.label2 for tick in ticks if tick.label2.get_text() and low <= tick.get_loc() <= high]
    return {item.get_text(): item.get_window_extent() for item in displayed if item.get_visible()}


def overlapping_labels(axis) -> list[tuple[str, str]]:
    actual = list(labels_of(axis).items())
    return [(a, b) for k, (a, one) in enumerate(actual) for b, two in actual[:k] if one.overlaps(two)]


@pytest.mark.parametrize("width", [1.6, 5.0])
@pytest.mark.parametrize("span", [1.3, 20.0, 1e8])
def test_labels_of_logarithmic_axes_do_not_overlap(width, span) -> None:
    _, (axes,) = plots.figure(width=width, height=2.6)
    for name in ("x", "y"):
        log_scale(axes, name)
    for low in (1.8e-6, 250.0):
        axes.set(xlim=(low, low * span), ylim=(low, low * span))
        assert overlapping_labels(axes.xaxis) == overlapping_labels(axes.yaxis) == []
        assert labels_of(axes.xaxis) and len(labels_of(axes.yaxis)) > 1


def test_labels_of_logarithmic_axes_fit_the_range() -> None:
    axes = axes_of()
    log_scale(axes, "x")
    axes.set_xlim(1.8e-6, 8e-5)  # the range is set after the scale, so labels must follow it
    text = [rf"$\mathdefault{{{factor}10^{{{power}}}}}$" for factor, power in
            ((r"2\times", -6), (r"5\times", -6), ("", -5), (r"2\times", -5), (r"5\times", -5))]  # fmt: skip
    assert set(labels_of(axes.xaxis)) == set(text)
    axes.set_xlim(0.8, 50.0)
    assert set(labels_of(axes.xaxis)) == {"1", "2", "5", "10", "20", "50"}
    axes.set_xlim(1.0, 1e3)
    assert set(labels_of(axes.xaxis)) == {"1", "10", "100", "1000"}
    axes.set_xlim(1e6, 1e9)
    assert set(labels_of(axes.xaxis)) == {rf"$\mathdefault{{10^{{{k}}}}}$" for k in range(6, 10)}
    assert axes.format_xdata(3.3333333) == "3.333"


def test_charts_with_logarithmic_axes_have_labels_without_overlaps() -> None:
    samples = {"a": [1e-6, 7e-6, 4e-5], "b": [2e-6, 3e-6]}
    estimates = {name: Estimate(values[0], NAN, NAN, 1) for name, values in samples.items()}
    instance, (left, right) = plots.figure(2, width=3.0)
    plots.intervals(samples, estimates, axes=left)
    plots.scaling([1000, 30_000], {"a": [2e-6, 4e-5]}, axes=right)
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        assert (
            axis.axes.get_figure() is instance and overlapping_labels(axis) == [] and len(labels_of(axis)) > 1
        )


@pytest.mark.parametrize("count", [6, 14, 30])
@pytest.mark.parametrize("name", ["short", "of middle length", "expanding-ring-search, any host of the grid"])
@pytest.mark.parametrize("draw", [plots.bars, plots.boxes])
def test_names_at_the_x_axis_do_not_overlap(count, name, draw) -> None:
    names = [f"{name} {k}" for k in range(count)]
    _, (axes,) = plots.figure(width=4.0)
    if draw is plots.bars:
        plots.bars(names, [POINTS[0]] * count, axes=axes)
    else:
        plots.boxes(dict.fromkeys(names, [1.0, 2.0]), axes=axes)
    axes.get_figure().draw_without_rendering()
    labels = axes.get_xticklabels()
    assert [item.get_text().replace("\n", " ") for item in labels] == names
    (turned,) = {item.get_rotation() for item in labels}
    boxes = [item.get_window_extent() for item in labels]
    if turned in (0, 90):
        assert all(one.x1 <= two.x0 for one, two in zip(boxes, boxes[1:], strict=False))
    else:  # the distance of slanted lines is their spacing times the sine of the angle
        places = axes.transData.transform([(instant, 0.0) for instant in axes.get_xticks()])[:, 0]
        for item in labels:
            item.set_rotation(0)
        highest = max(item.get_window_extent().height for item in labels)
        assert highest <= np.diff(places).min() * np.sin(np.radians(turned))
    assert (turned == 0) == (name == "short" and count < 10)


def test_ratios_of_waves_are_drawn_as_points_around_1() -> None:
    run = Run(range(5))
    places = [f"up {share} % of the day, {load}" for share in (10, 40) for load in ("light", "heavy")]
    means = {mode: np.full(5, 1.0 + 0.1 * k) for k, mode in enumerate(MODES)}
    values = Replicates(tuple(range(5)), {"turnaround": means})
    lingering = {
        f"{mode} {instant:g}": np.ones(5) for mode in waves.LINGERING for instant in waves.LINGER_TIMES
    }
    lingers = {places[0]: Replicates(tuple(range(5)), {"turnaround": lingering})}
    of_places, of_lingers = Measurements(run, dict.fromkeys(places, values)), Measurements(run, lingers)
    figure = waves.WAVES.figure(waves.WaveRuns(of_places, Measurements(run, {}), of_lingers))
    left = figure.axes[0]
    assert not left.patches
    chart_axes = {item.get_label(): item.lines[0].get_ydata().tolist() for item in left.containers}
    expected = {mode: [means[mode][0] / means[waves.BASE][0]] * 4 for mode in MODES if mode != waves.BASE}
    assert chart_axes == {mode: pytest.approx(ratios) for mode, ratios in expected.items()}
    assert left.lines[0].get_label() == waves.BASE and left.lines[0].get_ydata() == [1.0, 1.0]


def test_large_legends_are_outside_the_axes() -> None:
    long = [f"a-scheduler-with-a-very-long-name-no-{k:02}" for k in range(30)]
    assert legend_size(["a", "b"]) == (0.0, 0.0)
    assert legend_size(long)[0] > 2.0 and legend_size(long[:9])[0] > 0
    assert "".join(wrap_name(long[0]).split("\n")) == long[0] and wrap_name("") == ""
    instance, (axes,) = plots.figure(width=5 + legend_size(long)[0], height=legend_size(long)[1])
    plots.lines([1, 2, 3], dict.fromkeys(long, POINTS), axes=axes)
    stream = io.BytesIO()
    plots.save(instance, stream, dpi=100)  # pytest turns a warning of matplotlib into an error
    box = axes.get_legend().get_window_extent()
    assert box.x0 >= axes.get_window_extent().x1 - 1 and box.x1 <= instance.bbox.x1 + 1 and box.y0 >= -1
    assert [text.get_text().replace("\n", "") for text in axes.get_legend().get_texts()] == long


def test_unit_of_time_fits_the_span() -> None:
    assert [time_unit(span) for span in (100.0, 10_000.0, 1e6)] == [
        (1.0, "s"),
        (3600.0, "h"),
        (86_400.0, "days"),
    ]
    assert [short_number(x) for x in (0, 66, 999, 1000, 10_300, 219_600_000, 1e17)] == [
        "0", "66", "999", "1 k", "10.3 k", "220 M", "1e+05 T",
    ]  # fmt: skip


def test_unknown_formats_are_rejected() -> None:
    with pytest.raises(ScenarioError, match="^format"):
        plots.save(plots.figure()[0], io.BytesIO(), format="jpg")


def test_ratios_of_a_sweep_are_around_1_on_a_logarithmic_axis() -> None:
    """The title names the best scheduler, lines are labelled at their ends; labels with units are numbers."""
    values = [[1.0, 2.0], [30.0, 15.0], [2.0, 1.0]]
    records = [
        RunRecord({"max_stretch": v * (1 + 0.01 * k)}) for pair in values for k in range(5) for v in pair
    ]
    labels = {"network.latency": ("50 ms", "1 s", "100 s")}
    actual = SweepResult(labels, ("a", "b"), 5, ("max_stretch",), "b", records, ("max_stretch",))
    figure = actual.figure()
    means, ratios = figure.axes
    assert (means.get_yscale(), means.get_xscale(), means.get_xlabel()) == (
        "log",
        "log",
        "latency, log scale",
    )
    assert [text.get_text() for text in means.get_xticklabels()] == ["50 ms", "1 s", "100 s"]
    assert ratios.get_yscale() == "log" and ratios.get_ylim()[0] < 0.5 < 1.0 < 2.0 < ratios.get_ylim()[1]
    assert ratios.lines[0].get_ydata().tolist() == pytest.approx([0.5, 2.0, 2.0])
    assert means.lines[0].get_xdata().tolist() == [0.05, 1.0, 100.0]
    assert means.get_legend() is None and {text.get_text() for text in means.texts} == {"a", "b"}
    message = (
        "b has the lowest mean max stretch at 2 of 3 points (closest at network.latency = 1 s: a 2 [2, 2] "
        "times that), a at 1 (network.latency = 50 ms: b 2 [2, 2] times that)."
    )
    assert (
        " ".join(figure.get_suptitle().split()) == message == actual.verdict()
        and not actual.figure(headline=False).get_suptitle()
    )
    with pytest.raises(ScenarioError, match="^ratio"):
        plots.swept(replace(actual, baseline=None), ratio=True)


def test_looks_depend_on_names_not_on_their_order() -> None:
    names = ["easy", "fair-tree", "variant", "mincent", "random", "b", "a"]
    first = plots.styles(names)
    assert plots.styles(names[::-1]) == first
    assert len({style["color"] for style in first.values()}) == len(names)  # colours first, then line styles
    own = plots.styles(["fair tree"])["fair tree"]
    assert own == first["fair-tree"] == plots.styles(["FAIR_TREE", "x"])["FAIR_TREE"]
    assert plots.styles(["old/fair-tree", "mincent"])["old/fair-tree"] == own  # results of a folder
    lines = plots.lines([1, 2, 3], {"x": POINTS, "fair-tree": POINTS}, axes=axes_of()).lines
    rows = plots.intervals({"fair-tree": [1.0, 2.0]}, {"fair-tree": POINTS[0]}, axes=axes_of()).lines
    assert {own["color"]} < {line.get_color() for line in lines}
    assert own["color"] in {line.get_color() for line in rows}


def test_charts_of_a_given_width_have_legible_text() -> None:
    for function, data in ((plots.comparison, FOUND), (plots.boxes, {"50": [1.0, 2.0]})):
        axes = function(data, width="84 mm")
        figure = axes.get_figure()
        assert figure.get_figwidth() == pytest.approx(84 / 25.4)
        texts = [text for text in figure.findobj(Text) if text.get_text()]
        assert texts and all(7.0 <= text.get_fontsize() <= 9.0 for text in texts)
    figure = FOUND.figure(width=3.3)
    assert figure.get_figwidth() == pytest.approx(3.3)
    assert figure.axes[0].get_position().x0 == pytest.approx(figure.axes[1].get_position().x0)  # in a column
    with pytest.raises(ScenarioError, match="axes do not support width"):
        plots.comparison(FOUND, width=3.3, axes=axes_of())
    with pytest.raises(ScenarioError, match="^width must be a finite number >= 2 in, got 1"):
        plots.comparison(FOUND, width=1)


def test_narrow_charts_have_room_besides_their_legend() -> None:
    chart = distribution_chart({f"scheduler {k}": [1.0, 2.0] for k in range(14)}, "stretch", "", "jobs")
    axes = draw(chart, width=3.3)
    axes.figure.draw_without_rendering()
    assert axes.get_window_extent().height / axes.figure.dpi > 1.0  # inches
    assert axes.get_legend().get_window_extent().y1 <= axes.figure.bbox.y1


def test_panels_of_a_sweep_share_the_axis_of_their_metric() -> None:
    values = [{"makespan": 10.0 * k + s, "messages": 1000.0 * k} for k in range(4) for s in (1, 2)]
    labels = {"size": (1, 2), "load": ("low", "high")}
    metrics = ("makespan", "messages")
    actual = SweepResult(labels, ("a", "b"), 1, metrics, None, [*map(RunRecord, values)], metrics)
    first, second, third, fourth = actual.figure().axes
    assert first.get_ylim() == second.get_ylim() != third.get_ylim() == fourth.get_ylim()
    assert first.get_ylim()[0] < 1.0 and first.get_ylim()[1] > 32.0
    names = [axes.get_ylabel() for axes in (first, second, third)]
    assert names == ["makespan (s), log scale", "", "messages sent"]


def test_a_chart_with_many_rows_fits_on_a_page() -> None:
    estimates = {f"scheduler {k}": POINTS[0] for k in range(45)}
    axes = plots.intervals({name: [0.9, 1.2] for name in estimates}, estimates)
    axes.figure.canvas.draw()
    assert axes.figure.get_figheight() <= 9.0
    boxes = sorted((text.get_window_extent() for text in axes.get_yticklabels()), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1.0 for low, high in zip(boxes, boxes[1:], strict=False))


def test_rows_may_be_more_than_looks() -> None:
    names = [f"s{k}" for k in range(40)]
    estimates = {name: Estimate(1.0, 0.9, 1.1, 5) for name in names}
    axes = plots.intervals(dict.fromkeys(names, [1.0]), estimates, axes=axes_of())
    assert len(axes.get_yticks()) == 40


def test_every_registered_scheduler_has_its_own_look() -> None:
    """Names that are not listed have looks by checksums, which are more often equal."""
    orders = [order.split() for order in ORDERS]
    assert sorted(name.lower() for name in registered()) == sorted(sum(orders, []))


def test_the_colours_of_a_tree_do_not_magnify_small_differences() -> None:
    from gridsim.plots.trees import _colours

    for values, limits in (([0.98, 1.0], (0.9, 1.0)), ([0.2, 1.0], (0.2, 1.0)), ([0.0, 0.0], (0.0, 1.0))):
        options, _ = _colours(np.array(values))
        assert (options["vmin"], options["vmax"]) == pytest.approx(limits)
