"""Series, distributions and rasters of a result, checked against direct counts."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.fault_events import Events
from gridsim.results.metrics import series
from gridsim.support.clock import NS

TIMES = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def result():
    bags = gs.Workload.bags(applications=12, tasks_per_node=4.0, task_size=65536.0, seed=2)
    return gs.simulate(
        gs.Scenario(gs.Platform.desktop_grid(23, seed=1), bags, seed=3), gs.Fcfs(), record=True
    )


@given(TIMES)
@settings(deadline=None)
def test_step_functions_count_objects_between_begin_and_end(rows):
    begin, lasts = np.array(rows).T
    steps = series.active_count(begin, begin + lasts)
    assert (np.diff(steps.times) > 0).all()
    for instant, value in zip(steps.times, steps.values, strict=True):
        assert value == ((begin <= instant) & (instant < begin + lasts)).sum()


def test_objects_without_an_end_are_left_out_and_weights_count():
    steps = series.active_count([0.0, 1.0, np.nan], [5.0, np.nan, 2.0], [3.0, 1.0, 1.0])
    assert steps.times.tolist() == [0.0, 5.0] and steps.values.tolist() == [3.0, 0.0]


@given(st.lists(st.integers(-50, 50), min_size=30, max_size=400), st.integers(4, 29))
@settings(deadline=None)
def test_downsampling_keeps_extremes_and_ends(values, points):
    steps = series.StepFunction(np.arange(len(values), dtype=float), np.array(values, float))
    thin = steps.downsample(points)
    assert len(thin.times) <= points and (np.diff(thin.times) >= 0).all()
    assert (thin.values.min(), thin.values.max()) == (min(values), max(values))
    assert thin.times[0] == 0 and thin.times[-1] == len(values) - 1 and thin.values[-1] == values[-1]


def test_downsampled_functions_rise_and_fall_like_the_original():
    up = np.arange(50.0)
    assert (np.diff(series.StepFunction(up, up).downsample(12).values) >= 0).all()
    assert (np.diff(series.StepFunction(up, -up).downsample(12).values) <= 0).all()
    # points are spread evenly over time, and a short function keeps all of its points
    assert np.diff(series.StepFunction(up, up).downsample(12).times).max() <= 10
    few = series.StepFunction(up[:12], up[:12])
    assert few.downsample(12) is few
    # an interval of time without values has no points
    late = np.append(up[:49], 1000.0)
    assert series.StepFunction(late, late).downsample(12).times.tolist() == [
        0.0,
        24.0,
        1000.0,
        1000.0,
        1000.0,
    ]
    # an interval counts as rising if its last value is above its first one, or equal to it
    for values, sample in (([1, 0, 0, 0, 2], [0, 2, 2]), ([1, 0, 2, 0, 1], [0, 2, 1])):
        assert series.StepFunction(up[:5], np.array(values, float)).downsample(4).values.tolist() == sample


def test_active_and_waiting_times_integrate_to_those_of_applications(result):
    table = result.applications
    for quantity, until in (("active", "finish"), ("waiting", "first_start")):
        steps = series.over_time(result, quantity)
        area = (steps.values[:-1] * np.diff(steps.times)).sum()
        assert area == pytest.approx((table[until] - table["release"]).sum())


def test_shares_of_a_distribution_end_at_one():
    values, share = series.distribution([7.0])
    assert (values.tolist(), share.tolist()) == ([7.0], [1.0])
    values, share = series.distribution(np.arange(1001.0))
    assert len(values) == 1000 and (values[-1], share[-1]) == (1000.0, 1.0)
    across, up = series.scatter_points(np.arange(2001.0), np.arange(2001.0))
    assert len(across) == 2000 and up[0] == 0.0


def test_series_of_a_run_end_at_zero(result):
    for quantity, maximum in (("active", 12), ("waiting", 12), ("busy", 23)):
        steps = series.over_time(result, quantity)
        assert steps.values[-1] == 0 and steps.values.min() >= 0 and 0 < steps.values.max() <= maximum
    busy = series.over_time(result, "busy")
    assert (busy.values[:-1] * np.diff(busy.times)).sum() == pytest.approx(result.machines["busy"].sum())


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 40), (23, 3), (500, 100)])
def test_a_raster_has_the_busy_time_of_machines(result, rows, columns):
    rims, edges, share = series.occupancy(result, rows, columns)
    schedule = result.tables["schedule"]
    counted = np.zeros(share.shape)
    for machine, start, end in zip(*(schedule[name] for name in ("machine", "start", "end")), strict=True):
        row = np.searchsorted(rims, machine, side="right") - 1
        counted[row] += np.clip(np.minimum(end, edges[1:]) - np.maximum(start, edges[:-1]), 0, None)
    assert share.shape == (min(rows, 23), columns) and rims[-1] == 23
    assert np.allclose(share, counted / (np.diff(edges) * np.diff(rims)[:, None]), atol=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), max_size=300), st.integers(2, 50))
@settings(deadline=None)
def test_a_distribution_ends_at_the_largest_value(values, points):
    x, share = series.distribution([*values, np.nan], points)
    assert len(x) <= points or len(values) <= points
    if values:
        assert x[0] == min(values) and x[-1] == max(values)
        assert share[-1] == len(values) / (len(values) + 1)
        assert share.tolist() == [np.mean(np.append(values, np.nan) <= value) for value in x]
    else:
        assert len(x) == 0


def test_invalid_arguments_are_reported(result):
    plain = gs.Result(tables={n: t for n, t in result.tables.items() if n != "schedule"}, facts={},
                      scheduler=result.scheduler, provenance=result.provenance)  # fmt: skip
    must = "requires a recorded run"
    with pytest.raises(ScenarioError, match=f"^the number of busy machines {must}"):
        series.over_time(plain, "busy")
    with pytest.raises(ScenarioError, match=f"^a chart of the schedule {must}"):
        series.occupancy(plain, 3, 3)
    with pytest.raises(ScenarioError, match="^quantity"):
        series.over_time(result, "idle")
    for name, size in (("rows", (0, 1)), ("columns", (1, 0))):
        with pytest.raises(ScenarioError, match=f"^{name}"):
            series.occupancy(result, *size)
    with pytest.raises(ValueError, match="at least 4"):
        series.over_time(result).downsample(3)


def test_machines_of_a_raster_are_in_the_requested_order(result):
    every, subset = series.occupancy(result, 23, 9), series.occupancy(result, 9, 9, machines=[20, 3])
    busy = result.machines["busy"][[20, 3]]
    assert subset[0].tolist() == [0, 1, 2] and (subset[2] * np.diff(subset[1])).sum(axis=1) == pytest.approx(
        busy
    )
    assert every[2].shape == (23, 9)


def raster(start, end, columns):
    """Return the edges of the columns and the shares of a raster with machine 0 of two in one row."""
    schedule = {"machine": np.zeros(len(start), np.int64), "start": np.array(start), "end": np.array(end)}
    run = SimpleNamespace(tables={"schedule": schedule}, machines=[0, 1], rigid=False)
    return series.occupancy(run, 1, columns, machines=[0])[1:]


def test_rasters_of_short_and_empty_schedules_are_valid():
    edges, share = raster([0.25, 0.5], [0.375, 0.75], 4)
    assert edges.tolist() == [0.25, 0.375, 0.5, 0.625, 0.75] and share.tolist() == [[1.0, 0.0, 1.0, 1.0]]
    edges, share = raster([5.0], [5.0], 2)
    assert edges[0] == 5.0 and (np.diff(edges) > 0).all() and share.tolist() == [[0.0, 0.0]]
    edges, share = raster([], [], 2)
    assert edges.tolist() == [0.0, 0.5, 1.0] and share.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("seed", [1, 4])
def test_shares_of_a_raster_lie_between_0_and_1(seed):
    """The sums of many pieces are rounded to values slightly outside this range."""
    cuts, kept = np.sort(np.random.default_rng(seed).uniform(0, 10, 60)), np.arange(59) % 10 != 9
    share = raster(cuts[:-1][kept], cuts[1:][kept], 300)[1]
    assert share.min() == 0.0 and share.max() == 1.0


def test_machines_are_chosen_by_slices_and_numbers():
    for machines, meant in (
        (None, [0, 1, 2, 3, 4]),
        (slice(1, 5, 2), [1, 3]),
        (range(5), [0, 1, 2, 3, 4]),
        ([4, 0], [4, 0]),
        (np.array([3], np.uint8), [3]),
    ):
        selection = series.chosen_machines(machines, 5)
        assert selection.tolist() == meant and selection.dtype == np.int64
    for wrong in (3, [5], [-1], [1, 1], [0.5], [[0, 1]], ["0"], range(10**15)):
        with pytest.raises(ScenarioError) as refused:
            series.chosen_machines(wrong, 5)
        message = f"machines must be a slice, or distinct numbers in 0..4, got {wrong!r}"
        assert str(refused.value) == message
    for none in ([], slice(5, None)):
        with pytest.raises(ScenarioError) as refused:
            series.chosen_machines(none, 5)
        assert str(refused.value) == f"machines must select at least one of 5 machines, got {none!r}"
    assert series.positions_in(np.array([2, 0]), 4).tolist() == [1, -1, 0, -1]


def test_nothing_runs_while_a_machine_is_down():
    bags = gs.Workload.bags(2, tasks_per_node=4.0, task_size=7.2e6, seed=2)
    failing = gs.Faults.exponential(up=9_000.0, down=3_600.0, seed=4)
    scenario = gs.Scenario(gs.Platform.desktop_grid(9, seed=1), bags, faults=failing, seed=3)
    result = gs.simulate(scenario, gs.WqrFt(), record=True)
    schedule = result.tables["schedule"]
    until = float(schedule["end"].max())
    machine, begin, end = series.down_times(result, until)
    assert len(machine) > 20 and (begin <= until).all() and (end > begin).all()
    assert np.bincount(machine[begin < until], minlength=9).sum() >= result.machines["failures"].sum()
    for u, since, back in zip(machine, begin, end, strict=True):
        here = schedule["machine"] == u
        assert not (here & (schedule["start"] < back - 1e-6) & (schedule["end"] > since + 1e-6)).any()
    lost = (schedule["completed"] == 0) & ~np.isin(
        schedule["end"], schedule["end"][schedule["completed"] > 0]
    )
    # rows that were cut off end at the beginning of an outage
    assert lost.any() and np.isin(schedule["end"][lost], begin).all()


def test_down_times_end_as_faults_do(result):
    assert [len(column) for column in series.down_times(result, 100.0)] == [0, 0, 0]
    faults = gs.Faults.of([1, 0, 2], [5.0, 7.0, 50.0], [5.0, math.inf, 60.0])
    case = dataclasses.replace(result.scenario, faults=faults)
    actual = series.down_times(SimpleNamespace(scenario=case, machines=result.machines), 10.0)
    assert [column.tolist() for column in actual] == [[1, 0], [5.0, 7.0], [5.0, math.inf]]


def test_down_times_are_generated_only_until_the_given_time():
    """A block may end at that time; no block after it is generated."""

    def block(*seconds):
        times = np.array(seconds, np.int64) * NS
        return Events(times, np.arange(len(times)), np.zeros(len(times), np.bool_), times + NS)

    def blocks():
        yield from (block(1, 2, 3), block(3, 3, 4))
        raise AssertionError("nobody needs what comes later")

    faults = SimpleNamespace(course=lambda machines, count: SimpleNamespace(blocks=blocks()))
    run = SimpleNamespace(scenario=SimpleNamespace(faults=faults), machines=[0, 1, 2])
    machine, begin, end = series.down_times(run, 3.0)
    assert machine.tolist() == [0, 1, 2, 0, 1] and begin.tolist() == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert (end - begin == 1.0).all()


def test_values_of_applications_are_their_columns_as_floats(result):
    table = result.applications
    tasks = series.per_application(result, "tasks")
    assert np.array_equal(tasks, table["tasks"]) and tasks.dtype == np.float64
    assert np.array_equal(series.per_application(result, "response"), table["finish"] - table["release"])
    with pytest.raises(ScenarioError, match="^metric"):
        series.per_application(result, "kind")


POINTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200)


@given(POINTS, st.integers(2, 60))
@settings(deadline=None)
def test_scatter_points_keep_the_extremes(pairs, points):
    x, y = np.array(pairs, np.float64).T
    across, up = series.scatter_points([*x, np.nan], [*y, 1.0], points)
    assert len(across) <= max(2, points) and (np.diff(across) >= 0).all()
    assert set(zip(across, up, strict=True)) <= set(zip(x, y, strict=True))
    assert (up.min(), up.max()) == (y.min(), y.max())
    if len(pairs) <= points:
        assert sorted(zip(across, up, strict=True)) == sorted(zip(x, y, strict=True))


def test_scatter_points_are_in_the_expected_order():
    """Points of equal `x` keep their order, equal extremes are two points, and numbers are floats."""
    x, y = np.arange(400) % 2, np.arange(400)
    across, up = series.scatter_points(x, y)
    assert up.tolist() == [*range(0, 400, 2), *range(1, 400, 2)] and across.dtype == up.dtype == np.float64
    assert series.scatter_points([0, 1], [5, 5], 2)[1].tolist() == [5.0, 5.0]
    assert series.distribution([3, 1])[0].dtype == np.float64


def test_wide_values_need_a_logarithmic_axis():
    assert series.is_wide([0.5, 11.0])
    assert series.is_wide([1.0, 20.1, np.nan, np.inf]) and not series.is_wide([1.0, 20.0])
    assert series.is_wide([1e-300, 1.7e308]) and not series.is_wide([1.7e308, 1.7e308])
    assert not series.is_wide([0.0, 1000.0]) and not series.is_wide([np.nan]) and not series.is_wide([])
