"""Charts of runs: the artists are compared with the tables of results."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gridsim as gs
from gridsim import plots
from gridsim.errors import ScenarioError
from gridsim.plots import trees
from gridsim.results.metrics import series
from gridsim.scheduling.overlays import tree_level, tree_spans
from gridsim.studies import figures

NAN = float("nan")


def axes_of():
    return plots.figure()[1][0]


def saved(axes) -> bytes:
    stream = io.BytesIO()
    plots.save(axes.get_figure(), stream, dpi=60)
    return stream.getvalue()


def invented_result(
    applications: dict, schedule: dict | None = None, machines: int = 3, **options
) -> gs.Result:
    count = len(next(iter(applications.values())))
    columns = {"release": np.zeros(count), "first_start": np.zeros(count), "finish": np.ones(count)}
    columns |= {"stretch": np.ones(count)} | applications
    tables = {
        "applications": gs.Table(columns),
        "machines": gs.Table({"speed": np.ones(machines), "busy": np.zeros(machines)}),
        "messages": gs.Table({"kind": ["ask", "tell"], "sent": [3, 1500], "bytes": [300, 2_500_000]}),
    }
    if schedule is not None:
        tables["schedule"] = gs.Table(schedule)
    scenario = gs.Scenario(
        gs.Platform.equal(machines),
        gs.Workload.of([0.0], [1], [1.0]),
        seed=1,
        faults=options.pop("faults", None),
    )
    return gs.Result(
        tables=tables | options,
        facts={},
        scheduler={"name": "made-up", "class": "x", "parameters": {}},
        provenance={},
        scenario=scenario,
    )


PIECES = {
    "machine": [0, 0, 1, 2, 2],
    "application": [0, 0, 1, 7, 0],
    "tasks": [1, 1, 1, 1, 1],
    "start": [0.0, 10.0, 5.0, 0.0, 30.0],
    "end": [10.0, 20.0, 25.0, 15.0, 30.0],
    "completed": [1, 1, 0, 1, 1],
}


@pytest.fixture(scope="module")
def tree() -> gs.Result:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(11, seed=1), gs.Workload.bags(6, tasks_per_node=4.0, seed=2), seed=3
    )
    return gs.simulate(scenario, gs.FairTree(), record=True)


# -- distributions and series -----------------------------------------------------------------------------


def test_distribution_shows_the_shares_of_a_column(tree) -> None:
    axes = axes_of()
    other = invented_result({"stretch": [1e-6, NAN, 3e-6, 1e-6]})
    assert plots.distribution({"a": tree, "b": other}, axes=axes) is axes
    one, two = axes.lines
    values = np.sort(tree.applications["stretch"])
    assert one.get_xdata()[1:].tolist() == values.tolist() and one.get_ydata()[0] == 0
    assert one.get_ydata()[1:].tolist() == pytest.approx(np.arange(1, 7) / 6)
    assert two.get_xdata().tolist() == [1e-6, 1e-6, 3e-6] and two.get_ydata().tolist() == [0, 0.5, 0.75]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [f"a (max {values[-1]:.3g})", "b (max 3e-06, 1 rejected)"]
    assert axes.get_xlabel() == "stretch per work (s/Mflop), log scale"
    assert axes.get_ylabel() == "share of applications"


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 5.0], "linear"), ([1.0, 50.0], "log"), ([0.0, 1.0, 50.0], "symlog"), ([0.0, 0.0], "linear")]
    + [([2.0], "linear"), ([NAN, NAN], "linear"), ([7.0] * 5, "linear")],
)
def test_scales_fit_the_values(values, scale) -> None:
    axes = plots.distribution(invented_result({"stretch": values}), axes=axes_of())
    assert axes.get_xscale() == scale and saved(axes)


def test_distribution_supports_response_and_rejects_unknown_metrics(tree) -> None:
    axes = plots.distribution(tree, "response", axes=axes_of())
    response = tree.applications["finish"] - tree.applications["release"]
    assert axes.lines[0].get_xdata()[-1] == response.max() and axes.get_xlabel() == "response time (s)"
    with pytest.raises(ScenarioError, match="^metric"):
        plots.distribution(tree, "speed", axes=axes_of())
    with pytest.raises(ScenarioError, match="^results"):
        plots.distribution({}, axes=axes_of())


def test_series_have_a_fitting_unit_of_time(tree) -> None:
    axes = plots.series({"a": tree, "b": tree}, "busy", axes=axes_of())
    steps = series.over_time(tree, "busy")
    assert axes.lines[0].get_ydata().tolist() == steps.values.tolist()
    factor = {"time (s)": 1.0, "time (h)": 3600.0}[axes.get_xlabel()]
    assert axes.lines[1].get_xdata() * factor == pytest.approx(steps.times)
    count = 10_000
    long = invented_result({"release": np.arange(count) * 60.0, "finish": np.arange(count) * 60.0 + 90.0})
    axes = plots.series(long, axes=axes_of())
    assert len(axes.lines[0].get_xdata()) <= 2000 and axes.get_xlabel() == "time (days)"


# -- the Gantt chart --------------------------------------------------------------------------------------


def bars_of(axes):
    return [
        (round(low), path[:, 0].min(), path[:, 0].max(), tuple(colour[:3]))
        for instance in axes.collections
        if type(instance).__name__ == "PolyCollection"
        for path, colour in zip(
            [p.vertices for p in instance.get_paths()],
            np.resize(instance.get_facecolor(), (len(instance.get_paths()), 4)),
            strict=True,
        )
        for low in [path[:, 1].mean()]
    ]


def test_gantt_chart_draws_all_pieces() -> None:
    axes = axes_of()
    faults = gs.Faults.of([1, 2], [25.0, 16.0], [28.0, 16.0])
    result = invented_result({"release": np.zeros(8)}, PIECES, faults=faults)
    assert plots.gantt(result, axes=axes) is axes
    bars = bars_of(axes)
    assert [bar[:3] for bar in bars] == [
        (1, 25.0, 28.0),  # the machine is down
        (0, 0.0, 10.0), (0, 10.0, 20.0), (2, 0.0, 15.0),
        (1, 5.0, 25.0),  # this piece was not completed
    ]  # fmt: skip
    first, second, wrapped = (bar[3] for bar in bars[1:4])
    assert len({first, second, wrapped}) == 3  # three applications have three colours
    hatched = [instance for instance in axes.collections if instance.get_hatch()]
    assert len(hatched) == 1 and len(hatched[0].get_paths()) == 1
    lines = [instance for instance in axes.collections if type(instance).__name__ == "LineCollection"]
    positions = sorted(segment[0].tolist()[0] for instance in lines for segment in instance.get_segments())
    assert positions == [16.0, 30.0]  # a transient failure, and a piece without length
    message = [text.get_text() for text in axes.get_legend().get_texts()]
    assert message == [
        "bag 0",
        "bag 1",
        "bag 7",
        "down",
        "transient failure",
        "not completed",
    ]
    assert saved(axes)


def test_gantt_chart_draws_the_selected_machines() -> None:
    result = invented_result({"release": np.zeros(8)}, PIECES)
    axes = plots.gantt(result, machines=[2, 0], axes=axes_of())
    assert sorted(bar[:3] for bar in bars_of(axes)) == [(0, 0.0, 15.0), (1, 0.0, 10.0), (1, 10.0, 20.0)]
    assert axes.yaxis.get_major_formatter()(0, None) == "2"
    assert [bar[0] for bar in bars_of(plots.gantt(result, machines=slice(1, 2), axes=axes_of()))] == [0]
    for machines, message in (
        ([3], r"machines must be a slice, or distinct numbers in 0..2, got \[3\]"),
        ([1, 1], "or distinct numbers"),
        ([], "must select at least one of 3"),
        (["a"], "or distinct numbers"),
    ):
        with pytest.raises(ScenarioError, match=message):
            plots.gantt(result, machines=machines, axes=axes_of())
    with pytest.raises(ScenarioError, match="record=True"):
        plots.gantt(invented_result({"release": [0.0]}), axes=axes_of())
    no_pieces = {name: np.asarray(column)[:0] for name, column in PIECES.items()}
    with pytest.raises(ScenarioError, match="requires recorded tasks, but the run of .* has none"):
        plots.gantt(invented_result({"release": [0.0]}, no_pieces), axes=axes_of())


def test_uncompleted_pieces_in_low_rows_are_black() -> None:
    pieces = {name: np.repeat(column, 100) for name, column in PIECES.items()}
    pieces["machine"] = np.arange(500)
    axes = plots.gantt(invented_result({"release": np.zeros(8)}, pieces, machines=500), axes=axes_of())
    black = [bar for bar in bars_of(axes) if bar[3] == (0.0, 0.0, 0.0)]
    assert sorted(bar[0] for bar in black) == list(range(200, 300))
    assert not any(instance.get_hatch() for instance in axes.collections)


def test_narrow_pieces_that_were_not_completed_are_dark() -> None:
    pieces = {name: list(column) for name, column in PIECES.items()}
    for name, value in (("machine", 1), ("application", 1), ("start", 26.0), ("end", 26.2), ("completed", 0)):
        pieces[name].append(value)
    pieces["tasks"].append(1)
    axes = plots.gantt(invented_result({"release": np.zeros(8)}, pieces), axes=axes_of())
    hatched = [instance for instance in axes.collections if instance.get_hatch()]
    assert [instance.get_paths()[0].vertices[:, 0].max() for instance in hatched] == [25.0]
    (narrow,) = [bar for bar in bars_of(axes) if bar[1:3] == (26.0, 26.2)]
    (wide,) = [bar for bar in bars_of(axes) if bar[1:3] == (5.0, 25.0)]
    assert 0 < sum(narrow[3]) < sum(wide[3])
    message = [text.get_text() for text in axes.get_legend().get_texts()]
    assert message[-2:] == ["not completed", "not completed, narrow (dark)"]
    (short,) = [bar for bar in bars_of(plots.gantt(invented_result({"release": np.zeros(8)}, pieces),
                machines=[1], axes=plots.figure(width=60.0)[1][0])) if bar[1:3] == (26.0, 26.2)]  # fmt: skip
    assert sum(short[3]) > sum(narrow[3])  # the chart is wide enough for a hatch


def test_too_many_pieces_are_drawn_as_a_labelled_raster(tree, monkeypatch) -> None:
    monkeypatch.setattr(__import__("sys").modules["gridsim.plots.gantt_chart"], "PIECES", 20)
    axes = plots.gantt(tree, machines=[3, 8, 1], axes=axes_of())
    (mesh,) = axes.collections
    _, edges, share = series.occupancy(tree, 500, 1000, machines=[3, 8, 1])
    assert np.array_equal(mesh.get_array().reshape(share.shape), share)
    busy = (share * np.diff(edges)).sum(axis=1)
    assert busy == pytest.approx(tree.machines["busy"][[3, 8, 1]])
    assert "pieces: too many for bars; one machine per row" in axes.get_title(loc="left")


# -- traffic and the tree ---------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["bytes", "messages"])
def test_traffic_bars_have_the_totals_of_levels(tree, unit) -> None:
    axes = plots.traffic(tree, unit, axes=axes_of())
    table = tree.tables["traffic"]
    by_level = np.bincount(table["level"], table[unit])
    tops = {}
    for bar in axes.patches:
        level = round(bar.get_x() + bar.get_width() / 2)
        tops[level] = max(tops.get(level, 0.0), bar.get_y() + bar.get_height())
    assert [tops[k] for k in sorted(tops)] == pytest.approx(by_level.tolist())


def test_traffic_without_a_tree_is_drawn_by_kind(tree) -> None:
    axes = plots.traffic(invented_result({"release": [0.0]}), "messages", axes=axes_of())
    assert [bar.get_height() for bar in axes.patches] == [3, 1500]
    assert [text.get_text() for text in axes.texts] == ["3", "1.5 k"]
    none = gs.simulate(tree.scenario, gs.MinCent())
    with pytest.raises(ScenarioError, match="^traffic"):
        plots.traffic(none, axes=axes_of())
    with pytest.raises(ScenarioError, match="^unit"):
        plots.traffic(tree, "B", axes=axes_of())


@pytest.mark.parametrize("machines", [1, 2, 3, 8, 11, 1000])
def test_spans_of_a_tree_contain_its_leaves(machines) -> None:
    first, count = tree_spans(machines)
    nodes, level = np.arange(2 * machines - 1), tree_level(np.arange(2 * machines - 1))
    assert (count[machines - 1 :] == 1).all() and (first[0], count[0]) == (0, machines)
    assert sorted(first[machines - 1 :]) == list(range(machines))
    for row in range(int(level[-1])):
        subset = nodes[level == row]
        assert (np.diff(first[subset]) == count[subset][:-1]).all()  # nodes of a level are side by side
    routers = nodes[: machines - 1]
    assert (first[2 * routers + 1] == first[routers]).all()
    assert (count[2 * routers + 1] + count[2 * routers + 2] == count[routers]).all()


def cells_of(axes):
    """Return (left, right, level) -> value of each cell."""
    return {
        (x0, x1, instance.get_coordinates()[0, 0, 1]): value
        for instance in axes.collections
        for x0, x1, value in zip(
            instance.get_coordinates()[0, :-1, 0],
            instance.get_coordinates()[0, 1:, 0],
            np.ma.filled(instance.get_array(), NAN).ravel(),
            strict=True,
        )
    }


def test_tree_chart_draws_every_node_over_its_leaves(tree) -> None:
    axes = plots.tree(tree, "bytes_out", axes=axes_of())
    first, count = tree_spans(11)
    sent = tree.machines["bytes_out"]
    cells = cells_of(axes)
    assert len(cells) == 21
    for node in range(21):
        level = int(tree_level(node))
        value = sent[node if node < 10 else node - 10]
        assert cells[first[node], first[node] + count[node], level] == value
    assert axes.get_title(loc="left") == "10 routers above 11 leaves"
    assert saved(axes)


def test_colour_bar_of_a_logarithmic_scale_has_few_labels(tree) -> None:
    columns = {**tree.tables["machines"], "bytes_out": np.geomspace(1.9e-6, 8e-5, 11)}
    other = gs.Result(
        tables={**tree.tables, "machines": gs.Table(columns)},
        facts=tree.facts,
        scheduler=tree.scheduler,
        provenance=tree.provenance,
        scenario=tree.scenario,
    )
    axes = plots.tree(other, "bytes_out", axes=axes_of())
    axes.get_figure().draw_without_rendering()
    bar = axes.get_figure().axes[1].yaxis
    message = [text.get_text() for text in (*bar.get_ticklabels(), *bar.get_ticklabels(minor=True))]
    assert [text for text in message if text.startswith(r"$\mathdefault{3") or "4" in text[:16]] == []
    assert len([text for text in message if text]) == 5


def test_large_levels_are_drawn_in_labelled_cells(tree, monkeypatch) -> None:
    monkeypatch.setattr(trees, "CELLS", 4)
    axes = plots.tree(tree, axes=axes_of())
    cells = cells_of(axes)
    used = tree.machines["utilization"]
    rows = [value for (_, _, level), value in sorted(cells.items()) if level == 2]
    assert rows == pytest.approx(used[3:7].tolist())
    leaves = [value for (x0, _, level), value in sorted(cells.items()) if level == 4]
    assert leaves == pytest.approx([used[5:7].mean(), used[7:8].mean(), used[8:10].mean(), used[10]])
    assert len(leaves) == 4 and "mean of up to 2 nodes per cell" in axes.get_figure().axes[1].get_ylabel()
    axes = plots.tree(tree, "peak_queue", axes=axes_of())
    assert max(cells_of(axes).values()) == tree.machines["peak_queue"].max()
    assert "largest of up to 2" in axes.get_figure().axes[1].get_ylabel()


def test_cells_ignore_missing_values() -> None:
    """Means and maxima are those of known values."""
    values, starts = np.array([1.0, NAN, 3.0, 5.0]), [0, 2]
    assert trees._cell_values(values, starts, largest=False).tolist() == [1.0, 4.0]
    assert trees._cell_values(values, starts, largest=True).tolist() == [1.0, 5.0]


def test_moved_routers_are_stated_and_missing_trees_rejected(tree) -> None:
    import dataclasses

    failing = dataclasses.replace(tree.scenario, faults=gs.Faults.poisson(300.0, 1))
    for scheduler in (gs.FairTree(), gs.FairTree(samples=(4, 3, 2), maintenance="messages")):
        axes = plots.tree(gs.simulate(failing, scheduler), axes=axes_of())
        assert axes.get_title(loc="left").endswith("shown at the start, before failures moved them")
    with pytest.raises(
        ScenarioError, match="requires a run of a fair tree on several machines, got made-up on 3"
    ):
        plots.tree(invented_result({"release": [0.0]}), axes=axes_of())
    with pytest.raises(ScenarioError, match="^column"):
        plots.tree(tree, "heat", axes=axes_of())


def test_results_are_drawn_together_or_in_at_most_six_panels(tree) -> None:
    both = {"a": tree, "b": tree}
    assert len(figures.of_results("series", both).axes) == 1
    figure = figures.of_results("gantt", both, machines=slice(0, 3))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a", "b"]
    with pytest.raises(ScenarioError, match="at most 6 panels, one per result, got 7"):
        figures.of_results("gantt", {str(k): tree for k in range(7)})


def test_pieces_of_a_machine_do_not_overlap_on_its_cores() -> None:
    scenario = gs.Scenario(
        gs.Platform.equal(5, cores=(1, 2, 4, 8, 3)),
        gs.Workload.jobs(60, utilization=0.9, max_nodes=6, seed=2),
        seed=3,
    )
    result = gs.simulate(scenario, gs.BatchQueue(), record=True)
    boxes = [
        path.vertices[:4]
        for instance in plots.gantt(result, axes=axes_of()).collections
        if type(instance).__name__ == "PolyCollection"
        for path in instance.get_paths()
    ]
    cores = result.machines["cores"].tolist()
    for u in range(5):
        corners = np.array([[*box.min(axis=0), *box.max(axis=0)] for box in boxes])
        rows = corners[(corners[:, 1] > u - 0.5) & (corners[:, 3] < u + 0.5)]
        assert len(rows) and (rows[:, 3] - rows[:, 1] > 0.99 * 0.8 / cores[u]).all()
        for k, (left, low, right, high) in enumerate(rows):
            later = rows[k + 1 :]
            meets = (later[:, 0] < right - 1e-9) & (later[:, 2] > left + 1e-9)
            assert not (meets & (later[:, 1] < high - 1e-9) & (later[:, 3] > low + 1e-9)).any()
