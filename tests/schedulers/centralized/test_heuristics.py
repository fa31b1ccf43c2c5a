"""Mapping heuristics as schedulers: equality with matrices and FCFS, cases by hand, wrong parameters."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.optimization.mapping_matrices import BRAUN_CLASSES, HEURISTICS
from gridsim.testing.cases import scenarios
from gridsim.validation.results import validate_result

BY_NAME: dict[str, gs.Scheduler] = {
    "mct": gs.Mct(),
    "met": gs.Met(),
    "olb": gs.Olb(),
    "switching": gs.SwitchingAlgorithm(low=0.2, high=0.4),
    "kpb": gs.KPercentBest(percent=50.0),
    "min-min": gs.MinMin(),
    "max-min": gs.MaxMin(),
    "sufferage": gs.Sufferage(),
}


def run(speeds: Any, release: Any, size: Any, scheduler: gs.Scheduler, **options: Any) -> gs.Result:
    """Run applications of one task each."""
    bags = gs.Workload.of(release, [1] * len(release), size, origin=0.0)
    return gs.simulate(gs.Scenario(gs.Platform.of(speeds), bags, **options), scheduler, record=True)


def rows(result: gs.Result) -> list[tuple[int, int, float, float]]:
    """Return application, machine, start and end of each row, by start, then machine."""
    table = result.tables["schedule"]
    columns = (table[name].tolist() for name in ("application", "machine", "start", "end"))
    return sorted(zip(*columns, strict=True), key=lambda row: (row[2], row[1]))


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_simultaneous_tasks_are_mapped_as_by_map_tasks(heuristic: str) -> None:
    """Durations are whole seconds, so all sums are exact."""
    sizes = [6.0, 12.0, 24.0, 6.0, 18.0, 30.0, 12.0, 42.0, 24.0, 6.0, 36.0, 48.0]
    speeds = [1.0, 3.0, 2.0, 6.0, 3.0]
    result = run(speeds, [0.0] * len(sizes), sizes, BY_NAME[heuristic])
    etc = np.outer(sizes, 1 / np.array(speeds)).round()
    mapped = gs.map_tasks(etc, heuristic, percent=50, low=0.2, high=0.4)
    runs = {i: (u, start, end) for i, u, start, end in rows(result)}
    expected = (mapped.machine.tolist(), mapped.start.tolist(), mapped.finish.tolist())
    assert [runs[i] for i in range(len(sizes))] == list(zip(*expected, strict=True))
    assert result.makespan == mapped.makespan


@given(st.booleans().flatmap(lambda fails: scenarios(faults=fails)))
def test_mct_equals_fcfs_by_earliest_end(scenario: gs.Scenario) -> None:
    mct, fcfs = (gs.simulate(scenario, scheduler, record=True) for scheduler in (gs.Mct(), gs.Fcfs()))
    for name in ("applications", "machines", "schedule", "arrivals"):
        for column in list(mct.tables[name].keys()):
            assert np.array_equal(mct.tables[name][column], fcfs.tables[name][column], equal_nan=True)


@given(st.booleans().flatmap(lambda fails: scenarios(faults=fails)))
def test_k_percent_best_equals_mct_and_met_at_its_limits(scenario: gs.Scenario) -> None:
    machines = scenario.platform.nodes
    if scenario.faults is not None and machines > 1:
        machines = 10**6  # so large that the percentage selects one machine, however many are up
    for percent, limit in ((100.0, gs.Mct()), (100.0 / machines, gs.Met())):
        a, b = (gs.simulate(scenario, s) for s in (gs.KPercentBest(percent=percent), limit))
        assert a.applications["finish"].tolist() == b.applications["finish"].tolist()


@pytest.mark.parametrize("scheduler", BY_NAME.values(), ids=lambda item: item.name)
def test_run_fails_if_no_machine_is_ever_up(scheduler: gs.Scheduler) -> None:
    with pytest.raises(gs.ScenarioError, match="faults must leave"):
        run([1.0], [1.0], [1.0], scheduler, faults=gs.Faults.of([0], [0.0], [inf]))


def test_mapping_interval_does_not_prolong_a_run_without_machines() -> None:
    with pytest.raises(gs.ScenarioError, match="faults must leave"):
        run([1.0], [1.0], [9.0], gs.MinMin(interval=0.5), faults=gs.Faults.of([0], [3.0], [inf]))


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", BY_NAME.values(), ids=lambda item: item.name)
def test_thousands_of_single_tasks_are_completed(scheduler: gs.Scheduler) -> None:
    stream = np.random.default_rng(1)
    release = np.cumsum(stream.exponential(1.0, 2000))
    size = stream.uniform(10.0, 100.0, 2000)
    result = run(stream.uniform(1.0, 3.0, 40).tolist(), release.tolist(), size.tolist(), scheduler)
    assert validate_result(result) == []
    assert (result.applications["finish"] > result.applications["release"]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gs.MinMin(interval=-1.0),
            "min-min.interval must be 0 or a number in 1e-06..4e.09 s, got -1.0",
        ),
        (
            lambda: gs.MaxMin(interval=1e-9),
            "max-min.interval must be 0 or a number in 1e-06..4e.09 s, got 1e-09",
        ),
        (
            lambda: gs.Sufferage(interval="x"),
            "sufferage.interval must be 0 or a number in 1e-06..4e.09 s, got 'x'",
        ),
        (
            lambda: gs.KPercentBest(percent=0),
            "k-percent-best.percent must be a number > 0 and at most 100, got 0",
        ),
        (
            lambda: gs.KPercentBest(percent=101),
            "k-percent-best.percent must be a number > 0 and at most 100, got 101",
        ),
        (
            lambda: gs.SwitchingAlgorithm(low=0.9),
            r"switching\.low and \.high must satisfy",
        ),
        (lambda: gs.SwitchingAlgorithm(low=-1), "switching.low must be a finite number >= 0, got -1"),
    ],
)
def test_wrong_parameters_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()


# -- matrices ---------------------------------------------------------------------------------------------


def test_expected_times_have_the_classes_of_braun() -> None:
    assert BRAUN_CLASSES["u_c_lohi"] == ("consistent", 100.0, 1000.0)
    assert BRAUN_CLASSES["u_i_hilo"] == ("inconsistent", 3000.0, 10.0)
    assert len(BRAUN_CLASSES) == 12 and {"u_c_hihi", "u_s_lohi", "u_i_lolo"} <= set(BRAUN_CLASSES)
    times = gs.expected_times(consistency="inconsistent", seed=7)
    assert times.shape == (512, 16)
    sorted_, half = (gs.expected_times(consistency=c, seed=7) for c in ("consistent", "semi-consistent"))
    assert np.array_equal(sorted_, np.sort(times, axis=1)) and not np.array_equal(times, sorted_)
    assert np.array_equal(half[:, ::2], np.sort(times[:, ::2], axis=1))
    assert np.array_equal(half[:, 1::2], times[:, 1::2])
    for task_range, machine_range in ((3000.0, 1000.0), (100.0, 10.0)):
        etc = gs.expected_times(900, 9, task_range=task_range, machine_range=machine_range, seed=1)
        assert etc.min() >= 1.0 and etc.max() < task_range * machine_range
        # within a row only the machine factor x differs; the mean is that of the task factor B times that of
        # x
        assert (etc[:, -1] / etc[:, 0]).max() < machine_range
        assert etc.mean() == pytest.approx((1 + task_range) * (1 + machine_range) / 4, rel=0.1)


def test_mapping_columns_are_consistent() -> None:
    etc = gs.expected_times(60, 7, consistency="inconsistent", seed=3)
    ready = np.arange(7.0) * 1e5
    for heuristic in HEURISTICS:
        mapping = gs.map_tasks(etc, heuristic, ready=ready)
        assert sorted(mapping.order.tolist()) == list(range(60))
        assert mapping.makespan == mapping.finish.max()
        for u in range(7):
            instant = ready[u]
            for k in mapping.order[mapping.machine[mapping.order] == u]:
                assert mapping.start[k] == instant
                instant += etc[k, u]
                assert mapping.finish[k] == instant
    assert gs.map_tasks(np.zeros((0, 3)), "mct").makespan == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.expected_times(0), "tasks must be a whole number >= 1, got 0"),
        (lambda: gs.expected_times(machine_range=1.0), "machine_range must be a finite number > 1, got 1.0"),
        (lambda: gs.expected_times(consistency="half"), "consistency must be one of .*, got 'half'"),
        (lambda: gs.map_tasks([[1.0]], "ga"), "heuristic must be one of .*, got 'ga'"),
        (lambda: gs.map_tasks([1.0], "mct"), "etc must have two dimensions, tasks and machines, got 1"),
        (lambda: gs.map_tasks([[-1.0]], "mct"), r"etc\[0, 0\] must be finite and > 0, got -1.0"),
        (lambda: gs.map_tasks([[1.0]], "min-min", ready=[1.0, 2.0]), "ready must have as many entries as"),
        (
            lambda: gs.map_tasks([[1.0, 2.0], [1.0]], "mct"),
            "etc must be numbers in rows of equal length, got ",
        ),
        (
            lambda: gs.map_tasks(np.array([[1.0 + 2.0j]]), "mct"),
            "etc must be numbers in rows of equal length",
        ),
        (lambda: gs.map_tasks([["1.5"]], "mct"), "etc must be numbers in rows of equal length"),
        (lambda: gs.map_tasks([[True]], "mct"), "etc must be numbers in rows of equal length"),
        (lambda: gs.map_tasks([[1.0]], "mct", ready=[1.0j]), "ready must be numbers, got "),
        (lambda: gs.map_tasks([[1.5e308]] * 2, "mct"), "etc must give a finite makespan"),
        (lambda: gs.map_tasks([[1.0]], "kpb", percent=0.0), "percent must be > 0 and <= 100"),
    ],
)
def test_wrong_matrices_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()
