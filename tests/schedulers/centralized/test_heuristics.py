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


def run(speeds: Any, release: Any, size: Any, scheduler: gs.Scheduler, **more: Any) -> gs.Result:
    """Run applications of one task each."""
    bags = gs.Workload.of(release, [1] * len(release), size, origin=0.0)
    return gs.simulate(gs.Scenario(gs.Platform.of(speeds), bags, **more), scheduler, record=True)


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
        machines = 10**6  # one machine of those that are up, however many these are
    for percent, limit in ((100.0, gs.Mct()), (100.0 / machines, gs.Met())):
        a, b = (gs.simulate(scenario, s) for s in (gs.KPercentBest(percent=percent), limit))
        assert a.applications["finish"].tolist() == b.applications["finish"].tolist()


def test_unstarted_tasks_are_mapped_again() -> None:
    """A long task waits on the fast machine at the release of a short one, which min-min maps first."""
    speeds, release, size = [1.0, 0.1], [0.0, 0.0, 5.0], [10.0, 20.0, 2.0]
    at_once = run(speeds, release, size, gs.MinMin())
    assert rows(at_once) == [(0, 0, 0.0, 10.0), (2, 0, 10.0, 12.0), (1, 0, 12.0, 32.0)]
    assert run(speeds, release, size, gs.Mct()).applications["finish"].tolist() == [10.0, 30.0, 25.0]
    assert at_once.facts == {"peak_waiting": 2}
    # max-min maps the longest first, so the short one goes to the slow machine
    late = rows(run(speeds, release, size, gs.MaxMin()))
    assert late == [(1, 0, 0.0, 20.0), (2, 1, 5.0, 25.0), (0, 0, 20.0, 30.0)]


def test_mapping_events_are_at_multiples_of_the_interval() -> None:
    # the task released at 5 s is mapped at 8 s, the one at 16 s at once
    result = run([1.0, 1.0], [5.0, 16.0], [1.0, 1.0], gs.Sufferage(interval=8.0))
    assert rows(result) == [(0, 0, 8.0, 9.0), (1, 0, 16.0, 17.0)]


def test_lost_tasks_wait_for_the_next_mapping_event() -> None:
    """Machine 0 fails at 3 s and recovers at 5 s; with an interval of 4 s, tasks are mapped at 4 and 8 s."""
    given_faults: dict[str, Any] = {"faults": gs.Faults.of([0], [3.0], [5.0])}
    at_once = run([2.0, 1.0], [0.0, 0.0], [8.0, 8.0], gs.MinMin(), **given_faults)
    # both go to machine 0, which has the lower number; at 3 s to machine 1; at 5 s one of them returns
    assert rows(at_once) == [(0, 0, 0.0, 3.0), (0, 1, 3.0, 11.0), (1, 0, 5.0, 9.0)]
    assert at_once.applications["resubmitted"].tolist() == [1, 0]
    later = run([2.0, 1.0], [0.0, 0.0], [8.0, 8.0], gs.MinMin(interval=4.0), **given_faults)
    assert rows(later) == [(0, 0, 0.0, 3.0), (0, 1, 4.0, 12.0), (1, 0, 8.0, 12.0)]


def test_tasks_mapped_to_a_failed_machine_wait_for_the_next_mapping_event() -> None:
    """Machine 0 was to run application 1 from 4 s on.  It fails at 3 s; the next mapping event is at 10 s."""
    faults = gs.Faults.of([0], [3.0], [5.0])
    result = run([2.0, 1.0], [0.0, 0.0], [8.0, 8.0], gs.MinMin(interval=10.0), faults=faults)
    assert rows(result) == [(0, 0, 0.0, 3.0), (0, 0, 10.0, 14.0), (1, 0, 14.0, 18.0)]
    assert result.applications["resubmitted"].tolist() == [1, 0] and validate_result(result) == []


def test_machine_is_free_after_a_transient_failure() -> None:
    result = run([1.0], [0.0], [10.0], gs.MinMin(), faults=gs.Faults.of([0], [3.0], [3.0]))
    assert rows(result) == [(0, 0, 0.0, 3.0), (0, 0, 3.0, 13.0)]


def test_peak_waiting_counts_lost_tasks() -> None:
    """Two tasks wait at 0 s; at 6 s the third one and the two lost ones; at 16 s two."""
    faults = gs.Faults.of([0, 1, 1], [6.0, 6.0, 16.0], [7.0, 7.0, 16.0])
    result = run([1.0, 1.0], [0.0, 0.0, 5.0], [10.0] * 3, gs.MinMin(), faults=faults)
    assert result.applications["resubmitted"].sum() == 3 and result.facts == {"peak_waiting": 3}


@pytest.mark.parametrize("scheduler", [gs.Olb(), gs.SwitchingAlgorithm()], ids=lambda item: item.name)
def test_ready_time_of_an_idle_machine_starts_at_the_mapping(scheduler: gs.Scheduler) -> None:
    """Machine 0 is idle from 10 to 100 s; at 101 s it has 19 s of work left."""
    result = run([1.0, 1.0], [0.0, 100.0, 101.0], [10.0, 20.0, 30.0], scheduler)
    assert rows(result) == [(0, 0, 0.0, 10.0), (1, 0, 100.0, 120.0), (2, 1, 101.0, 131.0)]


def test_ties_of_sufferage_go_to_the_first_application() -> None:
    """Both sufferages are 0, and application 1 is the smaller."""
    result = run([1.0, 1.0], [0.0, 0.0], [20.0, 10.0], gs.Sufferage())
    assert rows(result) == [(0, 0, 0.0, 20.0), (1, 1, 0.0, 10.0)]


def test_met_breaks_ties_by_the_lowest_id() -> None:
    assert rows(run([1.0, 2.0, 2.0], [0.0], [20.0], gs.Met())) == [(0, 1, 0.0, 10.0)]


def test_met_records_the_duration_of_a_task() -> None:
    """The fast machine is down."""
    bags = gs.Workload.of([1.0], [1], [20.0], origin=0.0)
    faults = gs.Faults.of([1], [0.0], [inf])
    scenario = gs.Scenario(gs.Platform.of([1.0, 4.0]), bags, faults=faults)
    assert gs.simulate(scenario, gs.Met(), record="decisions").tables["decisions"]["saw"].tolist() == [20.0]


def test_tasks_that_start_at_a_mapping_event_count_as_waiting() -> None:
    """Two tasks start at 0 s, and the third one waits."""
    result = run([1.0, 1.0], [0.0] * 3, [10.0] * 3, gs.MinMin())
    assert result.facts == {"peak_waiting": 3}


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
        # within a row only x differs; the mean is that of B times that of x
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
            at = ready[u]
            for k in mapping.order[mapping.machine[mapping.order] == u]:
                assert mapping.start[k] == at
                at += etc[k, u]
                assert mapping.finish[k] == at
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
