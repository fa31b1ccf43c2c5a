"""Bags with unequal tasks: order, sums, draws, and schedulers that reject them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError, TraceWarning
from gridsim.model.applications import Applications
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.scheduling.registry import scheduler_class
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

GRID = Platform.of([1000.0, 3000.0])
SIZES = st.lists(st.sampled_from((1.0, 2.0, 0.1)) | st.floats(1e-6, 1e9), min_size=1, max_size=5)


def split(found: Applications) -> list[list[float]]:
    """Return the sizes of each application's tasks."""
    return [part.tolist() for part in np.split(found.sizes(), found.offsets[1:-1])]


def differing_columns(one: Applications, other: Applications) -> list[str]:
    """Return the columns in which two workloads differ."""
    return [
        name
        for name in one.__slots__
        if not np.array_equal(getattr(one, name), getattr(other, name)) and getattr(one, name) is not None
    ]


# -- listed -----------------------------------------------------------------------------------------------


def test_task_sizes_are_in_the_order_of_release() -> None:
    workload = Workload.of_tasks([5.0, 1.0, 5.0], [[1.0, 2.0], [10.0], [3.0, 4.0, 5.0]], [0, 1, 1])
    applications = workload.realize(GRID)
    assert applications.unequal and applications.task_sizes is not None
    assert applications.release.tolist() == [0.0, 4.0, 4.0] and applications.submitter.tolist() == [1, 0, 1]
    assert applications.tasks.tolist() == [1, 2, 3] and applications.offsets.tolist() == [0, 1, 3, 6]
    assert applications.offsets.dtype == applications.tasks.dtype == np.int64
    assert (
        applications.task_sizes.tolist() == applications.sizes().tolist() == [10.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert applications.size.tolist() == [10.0, 3.0, 12.0] and applications.task_size.tolist() == [
        10.0,
        1.5,
        4.0,
    ]
    assert [item.tolist() for item in applications.extremes()] == [[10.0, 1.0, 3.0], [10.0, 2.0, 5.0]]
    with pytest.raises(ValueError):
        applications.task_sizes[0] = 1.0


def test_estimates_follow_their_applications() -> None:
    sizes = [[1.0, 2.0], [10.0]]
    workload = Workload.of_tasks([5.0, 1.0], sizes, estimate=[4.0, 0.0])
    applications = workload.realize(GRID)
    assert applications.estimate is not None and applications.estimates().tolist() == [0.0, 4.0]
    scenario = gs.Scenario(GRID, workload)
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    result = gs.simulate(scenario, gs.WqrFt())
    assert result.applications["estimate"].tolist() == [0.0, 4.0] and validate_result(result) == []
    plain = Workload.of_tasks([5.0, 1.0], sizes).realize(GRID)
    assert plain.estimate is None and plain.estimates() is plain.task_size
    with pytest.raises(ScenarioError, match=r"^workload.estimate\[1\]"):
        Workload.of_tasks([5.0, 1.0], sizes, estimate=[4.0, -1.0])


def test_sums_of_task_sizes_are_rounded_once() -> None:
    applications = Workload.of_tasks([0.0], [[1e16, 1.0, 1.0]]).realize(GRID)
    assert applications.size.tolist() == [1e16 + 2]
    sizes = [0.1, 0.2, 0.3] * 7
    applications = Workload.of_tasks([0.0], [sizes]).realize(GRID)
    assert reduce(add, sizes) != applications.size[0] == float(sum(map(Fraction, sizes)))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from((0.0, 1.0, 2.0)), SIZES), min_size=1, max_size=6))
def test_each_application_has_its_sum_and_mean_size(rows: list[tuple[float, list[float]]]) -> None:
    applications = Workload.of_tasks(*zip(*rows, strict=True), origin=0.0).realize(GRID)
    expected = sorted(rows, key=lambda row: row[0])  # the sort is stable
    assert applications.release.tolist() == [release for release, _ in expected]
    assert split(applications) == [sizes for _, sizes in expected]
    assert applications.size.tolist() == [math.fsum(sizes) for _, sizes in expected]
    for (_, sizes), mean in zip(expected, applications.task_size.tolist(), strict=True):
        assert min(sizes) <= mean <= max(sizes) and mean == pytest.approx(math.fsum(sizes) / len(sizes))
    assert applications.unequal == any(len(set(sizes)) > 1 for _, sizes in rows)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 9), st.floats(1e-6, 1e9)), min_size=1, max_size=6))
def test_equal_task_sizes_are_not_stored(rows: list[tuple[int, float]]) -> None:
    release = [float(i % 3) for i in range(len(rows))]
    plain = Workload.of(release, *zip(*rows, strict=True)).realize(GRID)
    applications = Workload.of_tasks(release, [[a] * n for n, a in rows]).realize(GRID)
    assert applications.task_sizes is None and differing_columns(plain, applications) == []
    assert np.array_equal(applications.sizes(), np.repeat(plain.task_size, plain.tasks))
    assert applications.extremes()[0] is applications.extremes()[1] is applications.task_size


def test_task_sizes_may_be_arrays() -> None:
    workload = Workload.of_tasks(np.array([0, 1]), np.array([[1, 2], [3, 4]]), np.array([1, 0]))
    assert workload == Workload.of_tasks([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]], [1, 0])
    assert hash(workload) == hash(Workload.of_tasks([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]], [1, 0]))


# -- drawn ------------------------------------------------------------------------------------------------


def factors(spread: gs.Normal | gs.LogUniform, seed: int = 1) -> np.ndarray:
    """Return the factors of about 100,000 tasks."""
    workload = Workload.bags(10, tasks=10_000.0, task_size=500.0, seed=seed, spread=spread)
    return workload.realize(GRID).sizes() / 500.0


def test_normal_factors_have_their_mean_and_deviation() -> None:
    actual = factors(gs.Normal(0.2))
    assert actual.mean() == pytest.approx(1.0, abs=5 * 0.2 / math.sqrt(len(actual)))
    assert actual.std() == pytest.approx(0.2, rel=0.02)
    # the factors come from a stream of the workload
    assert actual == pytest.approx(Streams(1)("workload.spread").normal(1.0, 0.2, len(actual)), rel=1e-12)


@pytest.mark.parametrize("deviation", [0.4, 1.0, 100.0])
def test_small_normal_factors_are_redrawn(deviation: float) -> None:
    actual = factors(gs.Normal(deviation))
    assert actual.min() > 0.01 * (1 - 1e-12) and len(np.unique(actual)) > 0.999 * len(actual)
    minimum = (0.01 - 1.0) / deviation  # lower bound of the truncated normal distribution
    density = math.exp(-(minimum**2) / 2) / math.sqrt(2 * math.pi)
    mean = 1.0 + deviation * density / (0.5 * math.erfc(minimum / math.sqrt(2)))
    assert actual.mean() == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize("ratio", [1.01, 2.0, 50.0])
def test_log_uniform_factors_are_within_the_ratio(ratio: float) -> None:
    actual, width = factors(gs.LogUniform(ratio)), math.log(ratio)
    assert actual.min() >= (1 - 1e-12) / ratio and actual.max() <= (1 + 1e-12) * ratio
    assert np.log(actual).mean() == pytest.approx(0.0, abs=5 * width / math.sqrt(3 * len(actual)))
    assert np.log(actual).std() == pytest.approx(width / math.sqrt(3), rel=0.02)
    assert actual.mean() == pytest.approx((ratio - 1 / ratio) / (2 * width), rel=0.05)


def test_exponential_and_lognormal_factors_have_their_moments() -> None:
    actual = factors(gs.Exponential())
    assert [np.mean(actual**k) for k in (1, 2, 3)] == pytest.approx([1.0, 2.0, 6.0], rel=0.05)
    actual = factors(gs.LogNormal(0.5))
    assert [np.mean(actual**k) for k in (1, 2)] == pytest.approx([1.0, math.exp(0.25)], rel=0.02)
    assert np.log(actual).std() == pytest.approx(0.5, rel=0.02)


def test_applications_of_one_task_have_no_unequal_tasks() -> None:
    workload = Workload.bags(20, tasks=1, variation=0, task_size=500.0, seed=4, spread=gs.Exponential())
    applications = workload.realize(GRID)
    sample = gs.Exponential().factors(Streams(4)("workload.spread"), 20)
    assert not applications.unequal and np.array_equal(applications.size, 500.0 * sample)


@pytest.mark.parametrize("spread", [gs.Normal(0.3), gs.LogUniform(3.0)])
def test_a_spread_changes_only_the_task_sizes(spread: gs.Normal | gs.LogUniform) -> None:
    common = {"applications": 20, "task_size": [100.0, 200.0], "seed": 4}
    plain = Workload.bags(**common).realize(GRID)
    applications = Workload.bags(**common, spread=spread).realize(GRID)
    assert (
        differing_columns(plain, applications) == ["task_size", "size"]
        and applications.unequal
        and not plain.unequal
    )
    assert np.array_equal(applications.sizes(), Workload.bags(**common, spread=spread).realize(GRID).sizes())
    # each task has the size of its application times a factor
    sample = spread.factors(Streams(4)("workload.spread"), int(plain.tasks.sum()))
    assert np.array_equal(applications.sizes(), plain.sizes() * sample)


def test_a_workload_without_spread_has_equal_task_sizes() -> None:
    plain = Workload.bags(20, seed=4).realize(GRID)
    for spread in (None, gs.Normal(0), gs.LogUniform(1)):
        assert differing_columns(plain, Workload.bags(20, seed=4, spread=spread).realize(GRID)) == []
    assert plain.task_sizes is None


# -- from a log -------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    def job(number, submit, run_time, procs, user):
        return f"{number} {submit} 0 {run_time} {procs} -1 -1 {procs} -1 -1 1 {user} 1 1 1 1 -1 -1"

    path = tmp_path / "log.swf"
    # user 7: tasks of 10, 40, 40 s at 50 s and of 0 and 3 s at 1000 s; user 8: one of 30 s at 60 s
    rows = [(50, 10, 1, 7), (60, 30, 1, 8), (100, 40, 2, 7), (1000, 0, 1, 7), (1001, 3, 1, 7)]
    path.write_text("\n".join(job(number, *row) for number, row in enumerate(rows, 1)) + "\n")
    with pytest.warns(TraceWarning, match="1 jobs of run time 0 s, counted as 1 s"):
        yield path


def test_each_task_has_the_run_time_of_its_job(log) -> None:
    applications = Workload.from_log(log, own_sizes=True, reference_speed=2.0).realize(GRID)
    assert split(applications) == [[20.0, 80.0, 80.0], [60.0], [2.0, 6.0]]  # 0 s counts as 1 s
    mean = Workload.from_log(log, reference_speed=2.0).realize(GRID)
    assert differing_columns(mean, applications) == [] and not mean.unequal  # sums and means are the same
    assert Workload.from_log(log, own_sizes=True).realize(GRID).sizes().max() == 40.0 * 2000


def test_bags_are_selected_by_size_and_position(log) -> None:
    applications = Workload.from_log(log, min_tasks=2).realize(GRID)
    assert applications.release.tolist() == [0.0, 950.0] and applications.tasks.tolist() == [3, 2]
    applications = Workload.from_log(log, min_tasks=2, skip=1, own_sizes=True, reference_speed=1.0).realize(
        GRID
    )
    assert applications.release.tolist() == [0.0] and split(applications) == [[1.0, 3.0]]
    everything = Workload.from_log(log).realize(GRID)
    applications = Workload.from_log(log, skip=1, max_applications=1).realize(GRID)
    assert (
        applications.tasks.tolist() == [1]
        and applications.submitter.tolist() == everything.submitter[1:2].tolist()
    )
    with pytest.raises(ScenarioError) as excinfo:
        Workload.from_log(log, min_tasks=2, skip=2).realize(GRID)
    assert str(excinfo.value).endswith(
        "log.swf: the log must have more than 2 bags (workload.skip) of at least 2 tasks "
        "(workload.min_tasks), got 2"
    )


def test_bags_of_a_log_are_scaled_to_the_platform(log) -> None:
    scaled = Workload.from_log(log, tasks_per_node=1000.4).realize(GRID)
    plain = Workload.from_log(log).realize(GRID)
    assert scaled.tasks.tolist() == [2001] * 3 and scaled.task_size.tolist() == plain.task_size.tolist()
    assert Workload.from_log(log, tasks_per_node=0.01).realize(GRID).tasks.tolist() == [1] * 3
    workload = Workload.from_log(log, tasks_per_node=1000.0, own_sizes=True, reference_speed=1.0, seed=3)
    applications = workload.realize(GRID)
    first, second, third = split(applications)
    assert set(first) == {10.0, 40.0} and set(second) == {30.0} and set(third) == {1.0, 3.0}
    # two of three processors ran for 40 s
    assert first.count(40.0) == pytest.approx(2000 * 2 / 3, abs=5 * math.sqrt(2000 * 2 / 9))
    assert np.array_equal(applications.sizes(), workload.realize(GRID).sizes())
    other = Workload.from_log(log, tasks_per_node=1000.0, own_sizes=True, reference_speed=1.0, seed=4)
    assert not np.array_equal(applications.sizes(), other.realize(GRID).sizes())


# -- rejected values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Workload.of_tasks([0, 1], [[1.0], [2.0, 0.0]]),
            "workload.sizes[1][1] must be a finite number > 0 Mflop, got 0.0",
        ),
        (
            lambda: Workload.of_tasks([0], [[math.inf]]),
            "workload.sizes[0][0] must be a finite number > 0 Mflop, got inf",
        ),
        (lambda: Workload.of_tasks([0], [[]]), "workload.sizes[0] must have at least one task, got none"),
        (lambda: Workload.of_tasks([0], [5.0]), "workload.sizes[0] must be a list of numbers, got 5.0"),
        (lambda: Workload.of_tasks([0], 5.0), "workload.sizes must be a list of numbers, got 5.0"),
        (
            lambda: Workload.of_tasks([0, 1], [[1.0]]),
            "workload.sizes must have 2 entries, as workload.release has, got 1",
        ),
        (lambda: Workload.of_tasks([], []), "workload.release must have at least one application, got none"),
        (lambda: Workload.of_tasks([-1], [[1.0]]), "workload.release[0] must be a finite number >= 0 s"),
        (
            lambda: Workload.of_tasks([0], [[1.0]], [2]).realize(GRID),
            "workload.submitter[0] must be a machine in 0..1, got 2",
        ),
        (
            lambda: Workload.of_tasks([1, 0], [[1.0], [1.0, 1.5e308, 1.5e308]]).realize(GRID),
            "workload.sizes[1] must have a finite sum, got sizes of up to 1.5e+308 Mflop",
        ),
        (
            lambda: Workload.bags(2, tasks=50, task_size=1e308, spread=gs.LogUniform(9), seed=1).realize(
                GRID
            ),
            "workload.sizes[0][",
        ),
        (
            lambda: Workload.bags(9, tasks=2.0**30, spread=gs.Normal(1), seed=1).realize(GRID),
            "workload.tasks must be at most 1073741824 in total if tasks differ in size, got ",
        ),
        (
            lambda: Workload.bags(seed=1, spread=0.5),
            "workload.spread must be Normal, LogUniform, Exponential, LogNormal or None, got 0.5",
        ),
        (lambda: gs.Normal(-0.1), "workload.spread.deviation must be a finite number >= 0, got -0.1"),
        (lambda: gs.Normal(math.inf), "workload.spread.deviation must be a finite number >= 0, got inf"),
        (lambda: gs.LogUniform(0.9), "workload.spread.ratio must be a finite number >= 1, got 0.9"),
        (lambda: gs.LogUniform("x"), "workload.spread.ratio must be a finite number >= 1, got 'x'"),
        (
            lambda: Workload.from_log("x", own_sizes=1),
            "workload.own_sizes must be true or false, got 1",
        ),
        (
            lambda: Workload.from_log("x", tasks_per_node=0),
            "workload.tasks_per_node must be a finite number > 0, got 0",
        ),
        (
            lambda: Workload.from_log("x", min_tasks=0),
            "workload.min_tasks must be a whole number >= 1, got 0",
        ),
        (lambda: Workload.from_log("x", skip=-1), "workload.skip must be a whole number >= 0, got -1"),
    ],
)
def test_invalid_task_sizes_are_rejected(make, message) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        make()
    assert str(excinfo.value).startswith(message)


def test_too_many_tasks_of_a_log_are_rejected(log) -> None:
    for count, expected in ((1e300, "be below 2**53 per application, got 2e+300"), (1e9, "be at most 1073")):
        workload = Workload.from_log(log, tasks_per_node=count, own_sizes=True)
        with pytest.raises(ScenarioError) as excinfo:
            workload.realize(GRID)
        assert str(excinfo.value).startswith(f"workload.tasks must {expected}")


UNEQUAL = gs.Scenario(GRID, Workload.of_tasks([0.0, 1.0], [[100.0], [100.0, 4000.0]]))


@pytest.mark.parametrize(
    "scheduler", [gs.FairTree(), gs.MinCent(), gs.MinCent(mode="once"), gs.Fcfs(), gs.Fcfs(mode="pull")]
)
def test_schedulers_without_support_reject_unequal_tasks(scheduler: gs.Scheduler) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        gs.simulate(UNEQUAL, scheduler)
    text, _, names = str(excinfo.value).partition("; schedulers that support them: ")
    assert text == (
        f"{scheduler.name} does not support tasks of different sizes in one application, "
        "got 100 to 4000 Mflop in application 1"
    )
    assert "WQR-FT" in names.split(", ") and all(scheduler_class(name).unequal for name in names.split(", "))
    equal = gs.Scenario(GRID, Workload.of_tasks([0.0, 1.0], [[100.0], [4000.0, 4000.0]]))
    plain = gs.Scenario(GRID, Workload.of([0.0, 1.0], [1, 2], [100.0, 4000.0]))
    assert gs.simulate(equal, scheduler).digest == gs.simulate(plain, scheduler).digest


def test_schedulers_of_rigid_jobs_reject_unequal_tasks() -> None:
    with pytest.raises(ScenarioError, match="backfill requires a workload of rigid jobs, got bags of tasks"):
        gs.simulate(UNEQUAL, gs.BatchQueue())
