from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.errors import ScenarioError, TraceFormatError
from gridsim.model.bag_workloads import LogNormal
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.results.metrics.formulas import offered_load

GRID = Platform.of([1000.0, 3000.0])


def job(number, submit, run_time, procs, user):
    return f"{number} {submit} 0 {run_time} {procs} -1 -1 {procs} -1 -1 1 {user} 1 1 1 1 -1 -1"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    # user 7: a bag of three tasks at 50 s, one of one task at 1000 s; user 8: one task of 30 s at 60 s
    lines = [job(1, 50, 10, 1, 7), job(2, 60, 30, 1, 8), job(3, 100, 40, 2, 7), job(4, 1000, 5, 1, 7)]
    path.write_text("; a log\n" + "\n".join(lines) + "\n")
    return path


def test_bags_have_the_stated_means():
    platform = Platform.desktop_grid(1000, seed=1)
    actual = Workload.bags(applications=20_000, interarrival=10.0, task_size=(100.0, 300.0), seed=5).realize(
        platform
    )
    gaps = np.diff(actual.release, prepend=0.0)
    assert gaps.mean() == pytest.approx(10.0, abs=5 * 10 / math.sqrt(20_000))
    assert gaps.std() == pytest.approx(10.0, rel=0.05)
    assert actual.release[0] > 0
    assert actual.tasks.min() >= 8000 and actual.tasks.max() <= 12_000
    assert actual.tasks.mean() == pytest.approx(10_000, abs=5 * 4001 / math.sqrt(12 * 20_000))
    assert actual.task_size.min() >= 100 and actual.task_size.max() <= 300
    assert actual.task_size.mean() == pytest.approx(200, abs=5 * 200 / math.sqrt(12 * 20_000))
    counts = np.bincount(actual.submitter, minlength=1000)
    assert counts.min() > 0 and counts.max() < 50
    assert np.array_equal(actual.size, actual.tasks * actual.task_size)


def test_random_streams_of_a_workload_are_independent():
    platform = Platform.desktop_grid(50, seed=1)
    one = Workload.bags(applications=30, seed=9).realize(platform)
    other = Workload.bags(applications=30, seed=9, task_size=[1.0, 2.0], variation=0.5).realize(platform)
    assert np.array_equal(one.release, other.release) and np.array_equal(one.submitter, other.submitter)
    assert set(other.task_size) == {1.0, 2.0}
    # a platform with the same seed has other streams, so that more machines leave the arrivals unchanged
    more = Workload.bags(applications=30, seed=9).realize(Platform.desktop_grid(51, seed=1))
    assert np.array_equal(one.release, more.release)


@pytest.mark.parametrize("load", [0.25, 3.0])
def test_releases_are_scaled_to_a_load(load: float, log) -> None:
    """Releases are scaled by one factor; other columns stay the same."""
    sample = {"seed": 2, "spread": LogNormal(deviation=1.0)}
    for plain, scaled in (
        (Workload.bags(9, **sample), Workload.bags(9, **sample, load=load)),
        (Workload.from_log(log), Workload.from_log(log, load=load)),
    ):
        before, after = plain.realize(GRID), scaled.realize(GRID)
        assert offered_load(after, GRID) == pytest.approx(load, rel=1e-6)
        np.testing.assert_allclose(after.release * (before.release[-1] / after.release[-1]), before.release)
        assert (before.tasks == after.tasks).all() and (before.size == after.size).all()
    with pytest.raises(ScenarioError, match="^workload.load"):
        Workload.bags(9, interarrival=0.0, seed=2, load=load).realize(GRID)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 40), st.floats(0, 1), st.floats(0.01, 20), st.integers(1, 30), st.integers(0, 2**63 - 1)
)
def test_numbers_of_tasks_stay_within_their_bounds(applications, variation, tasks_per_node, nodes, seed):
    platform = Platform.pareto(nodes, seed)
    workload = Workload.bags(applications, 1.0, tasks_per_node, variation, seed=seed)
    actual = workload.realize(platform)
    middle = tasks_per_node * nodes
    assert len(actual) == applications
    assert (np.diff(actual.release_ns) >= 0).all()
    assert np.array_equal(actual.release, actual.release_ns / 1e9)
    assert actual.tasks.min() >= 1
    assert actual.tasks.max() <= max(1, round(middle), middle * (1 + variation) * (1 + 1e-9))
    assert actual.tasks.min() >= min(round(middle), middle * (1 - variation) * (1 - 1e-9))
    assert actual.submitter.min() >= 0 and actual.submitter.max() < nodes
    copy = workload.realize(platform)
    assert all(np.array_equal(getattr(actual, c), getattr(copy, c)) for c in ("release_ns", "tasks", "size"))


@pytest.mark.parametrize(
    ("nodes", "low", "high"), [(10, 80, 120), (7, 56, 84), (3, 24, 36), (1000, 8000, 12000)]
)
def test_whole_bounds_of_the_number_of_tasks_are_reached(nodes, low, high):
    applications = Workload.bags(5000, 1.0, 10.0, 0.2, seed=1, tasks=10.0 * nodes).realize(GRID)
    assert applications.tasks.min() >= low and applications.tasks.max() <= high
    if nodes <= 10:
        assert (applications.tasks.min(), applications.tasks.max()) == (low, high)


def test_listed_applications_are_sorted_stably():
    applications = Workload.of([5.0, 1.0, 5.0], [1, 2, 3], [10.0, 20.0, 30.0], [0, 1, 0]).realize(GRID)
    assert applications.release.tolist() == [0.0, 4.0, 4.0]
    assert applications.tasks.tolist() == [2, 1, 3] and applications.size.tolist() == [40.0, 10.0, 90.0]
    assert Workload.of(range(5), 2, 3).realize(GRID).submitter.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ValueError):
        applications.tasks[0] = 5


def test_offered_load_is_work_over_capacity():
    applications = Workload.of([10.0, 30.0], [4, 4], 10_000.0).realize(GRID)
    # 80,000 Mflop at 4000 Mflop/s take the 20 s between the releases
    assert offered_load(applications, GRID) == 1.0
    assert offered_load(Workload.of([1.0, 1.0], 1, 1).realize(GRID), GRID) == math.inf


def test_releases_are_rounded_to_the_nearest_ns():
    """1.001 s times 1e9 is a little less than 1 001 000 000."""
    assert int(1.001 * 1e9) == 1_000_999_999
    assert Workload.of([1.001], 1, 1.0, origin=0.0).realize(GRID).release_ns.tolist() == [1_001_000_000]


def test_jobs_of_a_log_become_bags(log):
    workload = Workload.from_log(log)
    applications = workload.realize(GRID)
    assert applications.release.tolist() == [0.0, 10.0, 950.0]
    assert applications.tasks.tolist() == [3, 1, 1]
    assert applications.task_size.tolist() == [
        30.0 * 2000,
        30.0 * 2000,
        5.0 * 2000,
    ]  # run times are converted at the mean speed of the platform
    assert applications.submitter[0] == applications.submitter[2]  # a user submits at one machine
    assert Workload.from_log(log, reference_speed=1.0).realize(GRID).task_size.tolist() == [30.0, 30.0, 5.0]
    assert len(Workload.from_log(log, max_applications=2).realize(GRID)) == 2
    assert Workload.from_log(log, gap=0).realize(GRID).tasks.tolist() == [1, 1, 2, 1]
    assert Workload.from_log(log, gap=math.inf, span=math.inf).realize(GRID).tasks.tolist() == [4, 1]


def test_run_times_of_a_log_refer_to_the_mean_speed(tmp_path):
    """A run time of 60 s counts at the mean of 1000, 1000 and 4000 Mflop/s, not at the median."""
    path = tmp_path / "one.swf"
    path.write_text(job(1, 0, 60, 1, 1) + "\n")
    applications = Workload.from_log(path).realize(Platform.of([1000.0, 1000.0, 4000.0]))
    assert applications.task_size.tolist() == [60 * 2000.0]


def test_a_job_larger_than_the_platform_is_rejected(log):
    with pytest.raises(ScenarioError, match=r"log.swf:4: the processors of job 3 must be at most 1"):
        Workload.from_log(log).realize(Platform.of([1.0]))


def test_a_log_with_a_faulty_line_is_rejected(log):
    log.write_text(job(1, 0, 5, 1, 1) + "\n" + job(2, 0, 5, 1, 1).rpartition(" ")[0] + "\n")
    with pytest.raises(TraceFormatError, match=r"log.swf:2: a line must have 18 fields, got 17"):
        Workload.from_log(log).realize(GRID)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Workload.of([0, 1, 2, 3], [1, 1, 1, 0], 5),
            "workload.tasks[3] must be a whole number in 1..",
        ),
        (lambda: Workload.of([0], 1.5, 5), "workload.tasks[0] must be a whole number in 1.."),
        (
            lambda: Workload.of([0], 1, math.nan),
            "workload.task_size[0] must be a finite number > 0 Mflop, got nan",
        ),
        (lambda: Workload.of([-1.0], 1, 1), "workload.release[0] must be a finite number >= 0 s, got -1.0"),
        (lambda: Workload.of([], 1, 1), "workload.release must have at least one application, got none"),
        # sets have no order, and dicts are no lists
        (lambda: Workload.of({1.0, 0.0}, 1, 1), "workload.release must be a list of numbers, got {"),
        (lambda: Workload.of([0.0], {2: 3}, 1), "workload.tasks must be a list of numbers, got {2: 3}"),
        (
            lambda: Workload.of([1, 2], [1], 1),
            "workload.tasks must have 2 entries, as workload.release has, got 1",
        ),
        (lambda: Workload.of([0], 1, 1, [-1]), "workload.submitter[0] must be a whole number >= 0, got -1"),
        (
            lambda: Workload.of([0], 1, 1, [2]).realize(GRID),
            "workload.submitter[0] must be a machine in 0..1, got 2",
        ),
        (
            lambda: Workload.of([0, 5e9], 1, 1).realize(GRID),
            "workload.release[1] must be at most 4e+09 s, got",
        ),
        (
            lambda: Workload.of([1e10, 2e10], 1, 1).realize(GRID),
            "workload.release[1] must be at most 4e+09 s after 10000000000.0 s, got 20000000000.0",
        ),
        (
            lambda: Workload.of([7.0, 5.0], 1, 1, origin=6.0),
            "workload.origin must be at most the first release, 5.0 s, got 6.0",
        ),
        (
            lambda: Workload.of([0], 2, 1e308).realize(GRID),
            "workload.task_size[0] must keep tasks * size finite",
        ),
        (lambda: Workload.bags(0, seed=1), "workload.applications must be a whole number >= 1, got 0"),
        (lambda: Workload.bags(seed=1, variation=2), "workload.variation must be a number in 0..1, got 2"),
        (
            lambda: Workload.bags(seed=1, interarrival=-1),
            "workload.interarrival must be a finite number >= 0 s",
        ),
        (
            lambda: Workload.bags(seed=1, task_size=[]),
            "workload.task_size must have at least one size, got an empty list",
        ),
        (
            lambda: Workload.bags(seed=1, task_size=(5.0, 1.0)),
            "workload.task_size.high must be a finite number >= 5",
        ),
        (
            lambda: Workload.bags(seed=1, task_size=(1.0, 2.0, 3.0)),
            "workload.task_size must be a number, a tuple (low, ",
        ),
        (
            lambda: Workload.bags(seed=1, task_size="x"),
            "workload.task_size must be a finite number > 0 Mflop, got 'x' (a string requires a unit: flop, ",
        ),
        (lambda: Workload.bags(seed=1, tasks=0), "workload.tasks must be a finite number >= 1, got 0"),
        (lambda: Workload.bags(seed=1, tasks=1e300).realize(GRID), "workload.tasks must be below 2**53"),
        (lambda: Workload.from_log("x", gap=math.nan), "workload.gap must be a number >= 0 s, got nan"),
        (
            lambda: Workload.from_log("x", max_applications=0),
            "workload.max_applications must be a whole number >= 1",
        ),
    ],
)
def test_invalid_workloads_are_rejected(make, message):
    with pytest.raises(ScenarioError) as excinfo:
        make()
    assert str(excinfo.value).startswith(message)
