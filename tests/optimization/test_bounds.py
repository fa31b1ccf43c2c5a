"""Lower bounds of the maximum stretch, checked against independent computations."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gridsim.errors import ScenarioError
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.optimization.bound_search import Slots, WholeTasks, single_application_bound, size_thresholds
from gridsim.optimization.bounds import BOUND_LIMIT, discrete_bound, fluid_bound
from gridsim.results.metrics import formulas as metrics
from gridsim.results.metrics import registry
from gridsim.results.result import Result
from gridsim.schedulers import FairTree, Fcfs, MinCent, Rjss, Wave, WqrFt
from gridsim.simulation.simulate import simulate
from gridsim.studies.compare import compare
from gridsim.studies.replicate import replicate

# -- instances --------------------------------------------------------------------------------------------

INSTANCE = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 12), min_size=n, max_size=n),
        st.lists(st.sampled_from((0.5, 1.0, 1.5, 2.0, 5.0)), min_size=n, max_size=n),
        st.lists(st.integers(1, 6), min_size=n, max_size=n),
        st.lists(st.sampled_from((1.0, 2.0, 3.0, 0.75)), min_size=1, max_size=4),
    )
)


def columns(release, task_size, tasks):
    """Return release, size, task size and number of tasks as arrays."""
    a, n = np.array(task_size, dtype=float), np.array(tasks)
    return np.array(release, dtype=float), a * n, a, n


@functools.cache
def exact_end(count, speeds):
    """Return the count-th smallest of {m / s_u} by sorting all of them."""
    ends = sorted(Fraction(m) / Fraction(s) for s in speeds for m in range(1, count + 1))
    return ends[count - 1]


def subset_bound(release, size, need, latency=Fraction(0)):
    """Return max over J of min over j of (r_J + T(J) - r_j) / w_j; r_J is its earliest release."""
    n, best = len(release), Fraction(0)
    r, w = [Fraction(float(x)) for x in release], [Fraction(float(x)) for x in size]
    for count in range(1, n + 1):
        for selection in itertools.combinations(range(n), count):
            end = min(r[j] for j in selection) + latency + need(selection)
            best = max(best, min((end - r[j]) / w[j] for j in selection))
    return best


# -- every subset -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=75)
@given(INSTANCE, st.sampled_from((0.0, 0.25, 3.0)))
def test_the_fluid_bound_is_the_best_of_all_subsets(instance, latency):
    *given_columns, speeds = instance
    release, size, _, _ = columns(*given_columns)
    total = Fraction(sum(speeds))
    actual = fluid_bound(release, size, float(total), latency=latency)
    work = [Fraction(float(x)) for x in size]
    best = subset_bound(release, size, lambda J: sum(work[j] for j in J) / total, Fraction(latency))
    assert Fraction(actual.stretch) <= best
    assert actual.stretch == pytest.approx(float(best), rel=1e-14)
    assert actual.verify(release, size, speeds) == best == actual.verify(release, size, float(total))


def check_discrete(release, task_size, tasks, speeds, latency, thresholds):
    release, size, a, n = columns(release, task_size, tasks)
    actual = discrete_bound(release, size, a, n, speeds, latency=latency, thresholds=thresholds)
    total, chosen_levels = Fraction(sum(speeds)), size_thresholds(a, thresholds).tolist()

    def need(selection):
        terms = [sum(Fraction(float(size[j])) for j in selection) / total]
        for level in [float(a[selection[0]])] if len(selection) == 1 else chosen_levels:
            if count := sum(int(n[j]) for j in selection if a[j] >= level):
                terms.append(Fraction(level) * exact_end(count, tuple(speeds)))
        return max(terms)

    best = subset_bound(release, size, need, Fraction(latency))
    assert Fraction(actual.stretch) <= best
    assert actual.stretch == pytest.approx(float(best), rel=1e-14)
    assert actual.verify(release, size, speeds, task_size=a, tasks=n) == pytest.approx(best, rel=1e-14)


@settings(deadline=None, max_examples=50)
@given(INSTANCE, st.sampled_from((0.0, 0.25, 3.0)), st.integers(1, 5))
def test_the_discrete_bound_is_the_best_of_all_subsets(instance, latency, thresholds):
    check_discrete(*instance, latency, thresholds)


@pytest.mark.parametrize("slow", [0.0625, 1.0, 16.0])
def test_the_discrete_bound_is_the_best_on_slow_and_on_fast_machines(slow):
    """The estimates of the search are much too low or much too high here, so wrong ones would be detected."""
    rng = np.random.default_rng(11)
    for _ in range(120):
        k = rng.integers(1, 6)
        speeds = (slow * rng.choice([0.75, 1.0, 2.0, 3.0], rng.integers(1, 6))).tolist()
        release = 4.0 + rng.integers(0, 8, k) / slow
        task_size = rng.choice([0.5, 1.0, 1.5, 2.0, 5.0], k)
        latency = float(rng.choice([0.0, 3.0 / slow]))
        check_discrete(release, task_size, rng.integers(1, 6, k), speeds, latency, int(rng.integers(1, 6)))


# -- linear programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "speeds", "stretch"),
    [
        (
            ([0.3, 0.6, 0.8, 0.3, 0.3, 0.8], [0.01, 0.03, 0.0025, 0.0025, 0.01, 0.0025], [4, 10, 9, 2, 2, 7]),
            [0.25, 4.0, 0.5, 0.25],
            5 / 12,
        ),
        (
            (
                [8.4, 13.3, 1.3, 10.1, 18.7, 4.1, 2.7, 8.2, 10.4],
                [5.0, 0.5, 3.0, 2.0, 5.0, 5.0, 0.5, 8.0, 0.25],
                [1, 11, 5, 11, 7, 8, 1, 1, 11],
            ),
            [2.0, 4.0, 1.0],
            5 / 16,
        ),
    ],
)
def test_the_discrete_bound_is_the_best_with_late_releases(instance, speeds, stretch):
    """The estimates of the search are worst for small applications with late releases."""
    check_discrete(*instance, speeds, 0.0, 5)
    release, task_size, tasks = instance
    size = np.array(task_size) * tasks
    assert discrete_bound(release, size, task_size, tasks, speeds).stretch == pytest.approx(
        stretch, rel=1e-12
    )


def meets_deadlines_divisibly(linprog, release, size, speeds, due, whole=False):
    """Return whether divisible work with preemption can meet the deadlines on these machines.

    whole : each row is a task, which is on one machine at a time, and may migrate.
    """
    points = np.unique(np.concatenate([release, due]))
    starts, lengths = points[:-1], np.diff(points)
    tasks = [
        (j, u, t)
        for j in range(len(release))
        for t in range(len(starts))
        if starts[t] >= release[j] and points[t + 1] <= due[j]
        for u in range(len(speeds))
    ]
    # each machine works for at most the length of each interval
    machines = np.zeros((len(speeds) * len(starts), len(tasks)))
    work = np.zeros((len(release), len(tasks)))
    for column, (j, u, t) in enumerate(tasks):
        machines[u * len(starts) + t, column] = 1.0
        work[j, column] = speeds[u]
    limits, maximum = [machines, work], [np.tile(lengths, len(speeds)), size]
    if whole:
        at_once = np.zeros((len(release) * len(starts), len(tasks)))
        for column, (j, _, t) in enumerate(tasks):
            at_once[j * len(starts) + t, column] = 1.0
        limits.append(at_once)
        maximum.append(np.tile(lengths, len(release)))
    actual = linprog(-work.sum(axis=0), A_ub=np.vstack(limits), b_ub=np.concatenate(maximum), method="highs")
    assert actual.status == 0
    return -actual.fun >= size.sum() * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_the_fluid_bound_is_the_optimum_of_divisible_tasks(seed):
    optimize = pytest.importorskip("scipy.optimize", reason="needs the linear programs of scipy")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    release = rng.integers(0, 10, n).astype(float)
    size, speeds = rng.integers(1, 20, n).astype(float), rng.integers(1, 5, rng.integers(1, 4))
    best = least_stretch(
        release,
        size,
        speeds,
        lambda due: meets_deadlines_divisibly(optimize.linprog, release, size, speeds, due),
    )
    assert fluid_bound(release, size, speeds.sum()).stretch == pytest.approx(best, rel=1e-6)


def least_stretch(release, size, speeds, is_feasible):
    """Return the smallest S for which the deadlines r + S w are feasible."""
    low, high = 0.5 / speeds.sum(), (release.max() + size.sum()) / speeds.min() / size.min()
    while high - low > 1e-7 * high:
        middle = math.sqrt(low * high)
        if is_feasible(release + middle * size):
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize("seed", range(24))
def test_no_schedule_with_migration_beats_the_bound(seed):
    """The bound is the optimum for one application; else it lies between the fluid bound and the optimum."""
    optimize = pytest.importorskip("scipy.optimize", reason="needs the linear programs of scipy")
    rng = np.random.default_rng([3, seed])
    n = 1 + seed % 3
    release, tasks = rng.integers(0, 6, n).astype(float), rng.integers(1, 4, n)
    task_size, speeds = rng.integers(1, 9, n).astype(float), rng.integers(1, 5, rng.integers(1, 5))
    size, rows = tasks * task_size, np.repeat(np.arange(n), tasks)

    def is_feasible(due):
        return meets_deadlines_divisibly(
            optimize.linprog, release[rows], task_size[rows], speeds, due[rows], whole=True
        )

    best = least_stretch(release, size, speeds, is_feasible)
    bound = discrete_bound(release, size, task_size, tasks, speeds, migration=True)
    assert fluid_bound(release, size, speeds.sum()).stretch <= bound.stretch * (1 + 1e-12)
    assert bound.stretch <= best * (1 + 1e-6)
    assert bound.stretch <= discrete_bound(release, size, task_size, tasks, speeds).stretch * (1 + 1e-12)
    assert bound.stretch <= bound.verify(release, size, speeds, task_size=task_size, tasks=tasks)
    if n == 1:
        assert bound.stretch == pytest.approx(best, rel=1e-6)


# -- the optimum by brute force ----------------------------------------------------------------------------


def optimum(release, task_size, tasks, speeds):
    """Return the smallest maximum stretch over all assignments and orders of whole tasks, without preemption.

    Each step starts the next task of an application on a machine as early as possible, and all choices are
    tried; they include every schedule in which no task can start earlier.
    """
    count = len(release)
    size = [n * a for n, a in zip(tasks, task_size, strict=True)]
    best = math.inf

    def go(free, left, so_far):
        nonlocal best
        if not any(left):
            best = min(best, so_far)
        for i in range(count):
            if left[i]:
                for u, speed in enumerate(speeds):
                    end = max(free[u], release[i]) + task_size[i] / speed
                    worst = max(so_far, (end - release[i]) / size[i])
                    if worst < best:
                        left[i] -= 1
                        go(free[:u] + (end,) + free[u + 1 :], left, worst)
                        left[i] += 1

    go((Fraction(0),) * len(speeds), list(tasks), Fraction(0))
    return best


def tiny_instance(seed):
    """Return a random instance of 2 machines and at most 5 tasks: release, task_size, tasks, speeds."""
    rng = np.random.default_rng([7, seed])
    applications = int(rng.integers(1, 5))
    tasks = [1] * applications
    for i in rng.integers(0, applications, rng.integers(0, 6 - applications)).tolist():
        tasks[i] += 1
    release = [Fraction(int(r)) for r in rng.integers(0, 6, applications)]
    task_size = [Fraction(int(a)) for a in rng.integers(1, 5, applications)]
    return release, task_size, tasks, [Fraction(int(s)) for s in rng.integers(1, 4, 2)]


def quality(seeds):
    """Return the exact ratios of the bounds of tiny instances to the optimum: [(fluid, discrete)]."""
    ratios = []
    for seed in seeds:
        release, task_size, tasks, speeds = tiny_instance(seed)
        r, w, a, n = columns(release, task_size, tasks)
        machines, best = [float(s) for s in speeds], optimum(release, task_size, tasks, speeds)
        fluid, disc = fluid_bound(r, w, sum(machines)), discrete_bound(r, w, a, n, machines)
        ratios.append((Fraction(fluid.stretch) / best, Fraction(disc.stretch) / best))
    return ratios


@pytest.mark.parametrize("part", range(4))
def test_no_bound_is_above_the_optimum(part):
    ratios = quality(range(100 * part, 100 * part + 100))
    assert all(fluid <= disc <= 1 for fluid, disc in ratios)
    # the bounds are close to the optimum: 0.7 and 0.97 were measured
    assert np.mean([float(fluid) for fluid, _ in ratios]) > 0.6
    assert np.mean([float(disc) for _, disc in ratios]) > 0.93


# -- invariants -----------------------------------------------------------------------------------------

POSITIVE = st.floats(1e-3, 1e6)
REAL_INSTANCE = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0, 1e4), min_size=n, max_size=n),
        st.lists(POSITIVE, min_size=n, max_size=n),
        st.lists(st.integers(1, 1000), min_size=n, max_size=n),
        st.lists(POSITIVE, min_size=1, max_size=9),
    )
)


@settings(deadline=None, max_examples=50)
@given(REAL_INSTANCE, st.integers(1, 6))
@example(([4096.0, 0.0, 0.0], [0.00390625, 1049.0, 0.001953125], [1, 1000, 1], [70.0]), 1)
def test_bounds_of_any_instance_keep_the_invariants(instance, thresholds):
    *given_columns, speeds = instance
    release, size, a, n = columns(*given_columns)
    aggregate = math.fsum(speeds)
    fluid = fluid_bound(release, size, aggregate)
    disc = discrete_bound(release, size, a, n, speeds, thresholds=thresholds)
    # a bound is at most the exact value of its certificate
    assert fluid.stretch <= fluid.verify(release, size, aggregate)
    assert disc.stretch <= disc.verify(release, size, speeds, task_size=a, tasks=n)
    for bound in (fluid, disc):
        assert release[bound.first] == release[bound.applications].min()
    # allows for rounding errors of the search, which subtracts late releases and divides by small sizes
    slack = 1e-15 * (release.max() + math.fsum(size) / aggregate) / size.min()
    # the bounds are ordered
    assert 1 / aggregate * (1 - 1e-12) <= fluid.stretch + slack
    assert fluid.stretch <= disc.stretch * (1 + 1e-12) + slack
    for i in range(len(release)):
        single_application_bound = float(a[i]) * Slots(np.array(speeds)).end(int(n[i])) / size[i]
        assert single_application_bound <= disc.stretch * (1 + 1e-12) + slack
    # more machines or fewer applications never raise a bound
    more = discrete_bound(release, size, a, n, [*speeds, 5.0], thresholds=10**6)
    fewer = discrete_bound(release, size, a, n, speeds, thresholds=10**6)
    assert more.stretch <= fewer.stretch * (1 + 1e-9) + slack
    if len(release) > 1:
        assert fluid_bound(release[1:], size[1:], aggregate).stretch <= fluid.stretch * (1 + 1e-9) + slack


@settings(deadline=None, max_examples=50)
@given(REAL_INSTANCE, st.integers(-8, 8))
def test_bounds_scale_with_units(instance, exponent):
    """The factors are powers of two, so that nothing is rounded."""
    *given_columns, speeds = instance
    release, size, a, n = columns(*given_columns)
    c, s = 2.0**exponent, np.array(speeds)
    for bound in (
        lambda r, w, a, s: fluid_bound(r, w, s.sum()),
        lambda r, w, a, s: discrete_bound(r, w, a, n, s),
    ):
        one = bound(release, size, a, s).stretch
        assert bound(release * c, size, a, s / c).stretch == pytest.approx(c * one, rel=1e-12)
        assert bound(release, size * c, a * c, s * c).stretch == pytest.approx(one / c, rel=1e-12)
        assert bound(np.zeros(len(size)), size, a, s * c).stretch == pytest.approx(
            bound(np.zeros(len(size)), size, a, s).stretch / c, rel=1e-12
        )


@settings(deadline=None, max_examples=30)
@given(REAL_INSTANCE, st.randoms(use_true_random=False), st.floats(0, 100))
def test_bounds_depend_on_neither_order_nor_time_of_day(instance, random, later):
    *given_columns, speeds = instance
    release, size, a, n = columns(*given_columns)
    assume(len(release) > 1)
    order = list(range(len(release)))
    random.shuffle(order)
    one = discrete_bound(release, size, a, n, speeds, thresholds=20)
    other = discrete_bound(release[order], size[order], a[order], n[order], speeds, thresholds=20)
    assert other.stretch == pytest.approx(one.stretch, rel=1e-9)
    assert fluid_bound(release + later, size, 7.0).stretch == pytest.approx(
        fluid_bound(release, size, 7.0).stretch, rel=1e-6
    )


@settings(deadline=None, max_examples=75)
@given(
    st.lists(st.sampled_from((1.0, 1.1, 2.0, 3.0, 1e-3, 1e6)), min_size=1, max_size=12), st.integers(1, 100)
)
def test_ends_of_slots_equal_exact_fractions(speeds, count):
    exact = float(exact_end(count, tuple(speeds)))
    slots = Slots(np.array(speeds))
    assert slots.end(count) == exact and slots.end(count) == exact  # the second call uses the cache
    assert slots.exact_lower_end(count) <= exact_end(count, tuple(speeds))


def test_slots_of_many_tasks_equal_sorted_ends():
    speeds = np.random.default_rng(1).uniform(900, 3000, 50)
    ends = np.sort((np.arange(1, 20_001) / speeds[:, np.newaxis]).ravel())
    slots = Slots(speeds)
    # the sorted ends are complete up to the earliest 20,000th end of a machine
    for count in (1, 2, 49, 50, 51, 1000, 99_999, 300_000):
        assert slots.end(count) == ends[count - 1]
    assert slots.end(2**53) == pytest.approx(2**53 / speeds.sum(), rel=1e-12)


def test_size_thresholds_are_quantiles_of_the_sizes():
    sizes = np.array([3.0, 1.0, 2.0, 2.0])
    assert size_thresholds(sizes, 3).tolist() == [1, 2, 3]
    assert size_thresholds(sizes, 2).tolist() == [1, 2] and size_thresholds(sizes, 1).tolist() == [1]
    actual = size_thresholds(np.random.default_rng(2).uniform(1, 9, 1000), 5)
    assert len(actual) == 5 and actual[0] < 1.1 and actual[-1] < 9


@pytest.mark.parametrize("slow", [0.0625, 1.0, 16.0])
def test_the_bound_by_a_single_application_is_the_largest_of_all(slow):
    rng = np.random.default_rng(13)
    for _ in range(100):
        k = rng.integers(1, 7)
        speeds = (slow * rng.choice([0.75, 1.0, 2.0, 3.0], rng.integers(1, 6))).tolist()
        _, size, a, n = columns([0] * k, rng.choice([0.125, 1.0, 1.5, 20.0], k), rng.integers(1, 9, k))
        latency = float(rng.choice([0.0, 3.0 / slow]))
        each = [
            (a[i] * float(exact_end(int(n[i]), tuple(speeds))) + latency) / size[i] for i in range(len(a))
        ]
        choice, actual = single_application_bound(
            WholeTasks(a, n.astype(float), a, Slots(np.array(speeds))), size, latency
        )
        assert actual == pytest.approx(max(each), rel=1e-14) == each[choice]


def test_the_latency_is_added_to_the_start():
    assert fluid_bound([0.0], [10.0], 5.0, latency=1.0).stretch == pytest.approx(0.3)
    actual = discrete_bound([0.0], [10.0], [5.0], [2], [5.0, 1.0], latency=1.0)
    assert actual.stretch == pytest.approx(0.3) and actual.task_size == 5.0 and actual.latency == 1.0
    assert actual.verify([0.0], [10.0], [5.0, 1.0], task_size=[5.0], tasks=[2]) == Fraction(3, 10)


# -- size and speed ---------------------------------------------------------------------------------------


def test_the_certificate_of_many_applications_is_tight():
    rng = np.random.default_rng(3)
    release, size = np.cumsum(rng.exponential(10.0, 5000)), 65536.0 * rng.integers(8000, 12000, 5000)
    actual = fluid_bound(release, size, 2e6)
    assert actual.stretch <= actual.verify(release, size, 2e6) <= actual.stretch * (1 + 1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_the_bound_stays_exact_near_cancellation(offset):
    """A tiny application is released at the end of a long backlog."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        release = offset + np.array([0.0, 0.0, 1e7]) + rng.uniform(0, 1e-3, 3)
        size = np.array([1e7, 2e7, 1e-4]) * rng.uniform(0.5, 1, 3)
        actual = fluid_bound(release, size, 3.0)
        best = subset_bound(release, size, lambda J, w=size: sum(Fraction(w[j]) for j in J) / 3)
        assert Fraction(actual.stretch) <= best
        assert actual.stretch == pytest.approx(float(best), rel=1e-7)


@pytest.mark.parametrize("largest", [1e-3, 30.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_uses_the_exact_minimum_of_nearly_equal_applications(seed, largest):
    """All applications have the same value up to rounding, so floats cannot determine the smallest."""
    size = np.random.default_rng(seed).uniform(3e-4, 1.0, 40) * largest
    end = size.sum() / 3.0
    release = end - end / size.max() * size
    actual = fluid_bound(release, size, 3.0)
    value = actual.verify(release, size, 3.0)
    assert len(actual.applications) > 30
    assert Fraction(actual.stretch) <= value < Fraction(math.nextafter(actual.stretch, math.inf))


def test_bounds_are_finite_if_releases_are_too_far_apart_for_floats():
    """The difference of the releases overflows, but the bound does not."""
    release, ones = [-1e308, 1e308], [1.0, 1.0]
    assert fluid_bound(release, ones, 1.0).stretch == 1.0
    assert discrete_bound(release, ones, ones, [1, 1], [1.0]).stretch == 1.0


def test_the_bound_of_two_to_the_53_tasks_is_exact():
    assert discrete_bound([0.0], [2.0**53], [1.0], [2**53], [1.0]).stretch == 1.0


def test_exact_values_are_not_rounded_and_the_first_of_equal_bounds_is_taken():
    assert fluid_bound([0.0], [4.0], 2.0).stretch == 0.5
    actual = discrete_bound([0.0], [8.0], [2.0], [4], [4.0, 4.0])
    assert (actual.stretch, actual.time, actual.task_size) == (0.125, 1.0, None)
    # each of the two equal machines ends one task at 1/4 and one at 1/2
    full_run = dataclasses.replace(actual, task_size=2.0)
    assert full_run.verify([0.0], [8.0], [4.0, 4.0], task_size=[2.0], tasks=[4]) == Fraction(1, 8)


def test_five_thresholds_are_the_default():
    a, ones = np.array([2.0, 6.0, 17.0, 26.0, 32.0, 34.0, 37.0]), np.ones(7)
    one, five, six = (
        discrete_bound(0 * a, a, a, ones, ones[:3], **options).stretch
        for options in ({}, {"thresholds": 5}, {"thresholds": 6})
    )
    assert one == five < six


# -- certificates -----------------------------------------------------------------------------------------


def test_invalid_certificates_are_rejected():
    release, size, speeds = [0.0, 1.0, 9.0], [4.0, 2.0, 2.0], [1.0, 1.0]
    actual = fluid_bound(release, size, 2.0)
    actual.verify(release, size, speeds)
    for change, message in (
        ({"stretch": actual.stretch * 1.001}, "stretch must be that of its certificate"),
        ({"stretch": math.nan}, "stretch must be finite, got nan"),
        ({"applications": np.array([], dtype=int)}, "applications must be in 0..2"),
        ({"applications": np.array([0, 3])}, "applications must be in 0..2"),
        ({"first": 2}, "applications must be in 0..2 and contain 2"),
        (
            {"first": 1, "applications": np.array([0, 1])},
            "first must be an application with the earliest release, got 1",
        ),
        ({"task_size": 1.0}, "^a bound by task size requires task_size and tasks$"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(actual, **change).verify(release, size, speeds)
    for half in ({"task_size": [1.0] * 3}, {"tasks": [4, 2, 2]}):
        with pytest.raises(ValueError, match="requires task_size and tasks"):
            dataclasses.replace(actual, task_size=1.0).verify(release, size, speeds, **half)
    # the tolerance is 1e-9 of 10**9, which is 1
    near = dataclasses.replace(actual, stretch=1e9 - 1, applications=np.array([0]), latency=1e9 - 1)
    assert near.verify([0.0], [1.0], 1.0) == 10**9
    with pytest.raises(ValueError, match="of its certificate, 1000000000.0"):
        dataclasses.replace(near, stretch=1e9 - 1.25).verify([0.0], [1.0], 1.0)
    with pytest.raises(ValueError, match="of its certificate"):
        actual.verify(release, size, 1.9)


GOOD = {"release": [0.0, 1.0], "size": [4.0, 6.0], "task_size": [2.0, 3.0], "tasks": [2, 2], "speeds": [1.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"release": [0.0, math.nan]}, r"release\[1\] must be a finite number s, got nan"),
        ({"release": [0.0, "x"]}, r"release must be a list of numbers, got \[0.0, 'x'\]"),
        ({"release": []}, r"release must be a list of at least one number, got the shape \(0,\)"),
        ({"release": 3.0}, r"release must be a list of at least one number, got the shape \(\)"),
        ({"size": [4.0]}, "size must have 2 numbers, as release has, got 1"),
        ({"size": [4.0, 0.0]}, r"size\[1\] must be a finite number > 0 Mflop, got 0.0"),
        ({"size": [1e308, 1e308]}, "size must have a finite sum, got a maximum of 1e[+]308"),
        ({"size": [4.0, 5.9]}, r"size\[1\] must be at least tasks \* task_size = 6.0 Mflop, got 5.9"),
        ({"task_size": [2.0, -3.0]}, r"task_size\[1\] must be a finite number > 0 Mflop, got -3.0"),
        ({"size": [4.0, 5.99999]}, r"size\[1\] must be at least tasks \* task_size = 6.0 Mflop, got 5.99999"),
        (
            {"size": [4.0, 1e-10], "task_size": [2.0, 1e-10]},
            r"size\[1\] must be at least tasks \* task_size = 2e-10 Mflop, got 1e-10",
        ),
        ({"task_size": [2.0]}, "task_size must have 2 numbers, as release has, got 1"),
        ({"tasks": [2]}, "tasks must have 2 numbers, as release has, got 1"),
        ({"tasks": [2, 0]}, r"tasks\[1\] must be a finite number > 0 tasks, got 0.0"),
        ({"release": ["x" * 99, 1.0]}, r"release must be a list of numbers, got \['x{58}"),
        ({"speeds": [1e308, 1e308]}, "speeds must have a finite sum, got a maximum of 1e[+]308"),
        ({"thresholds": True}, "thresholds must be a whole number >= 1, got True"),
        ({"thresholds": 1.5}, "thresholds must be a whole number >= 1, got 1.5"),
        ({"tasks": [2, 1.5]}, r"tasks\[1\] must be a whole number, got 1.5"),
        ({"tasks": [2**53, 2]}, r"the sum of tasks must be at most 2\*\*53, got 9007199254740994.0"),
        ({"speeds": [1.0, math.inf]}, r"speeds\[1\] must be a finite number > 0 Mflop/s, got inf"),
        ({"speeds": [1e-320]}, "speeds must process 2 Mflop in finite time, got a sum of 1e-320"),
        ({"thresholds": 0}, "thresholds must be a whole number >= 1, got 0"),
        ({"latency": -1.0}, "latency must be a finite number >= 0 s, got -1.0"),
    ],
)
def test_wrong_arguments_are_reported(change, message):
    arguments = {**GOOD, **change}
    with pytest.raises(ValueError, match=f"^{message}$"):
        discrete_bound(**arguments)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, "fast", None])
def test_wrong_speeds_are_reported(speed):
    with pytest.raises(ValueError, match="^aggregate_speed"):
        fluid_bound([0.0], [1.0], speed)
    with pytest.raises(ValueError, match="^latency"):
        fluid_bound([0.0], [1.0], 1.0, latency=-1.0)


def test_values_beyond_the_range_of_floats_are_rejected():
    with pytest.raises(ValueError, match="^size and speeds"):
        fluid_bound([0.0], [1e300], 1e-300)
    with pytest.raises(ValueError, match="must give a finite time and stretch"):
        fluid_bound([0.0, 0.0], [1e-300, 1e-300], 1e-310)


# -- schedulers -------------------------------------------------------------------------------------------

SCHEDULERS = {
    "fair tree": FairTree(),
    "replan": MinCent(),
    "once": MinCent(mode="once"),
    "ect": Fcfs(),
    "pull": Fcfs(mode="pull"),
    "random": Fcfs(mode="random"),
}


@st.composite
def scenarios(draw):
    nodes, count = draw(st.integers(1, 12)), draw(st.integers(1, 6))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    return Scenario(
        Platform.of(draw(st.lists(st.floats(500.0, 3000.0), min_size=nodes, max_size=nodes))),
        Workload.of(
            release=column(st.sampled_from((0.0, 1.0)) | st.floats(0.0, 50.0)),
            tasks=column(st.integers(1, 3 * nodes)),
            task_size=column(st.sampled_from((1000.0, 65536.0)) | st.floats(100.0, 1e5)),
        ),
        seed=draw(st.integers(0, 3)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULERS)
@settings(deadline=None, max_examples=25)
@given(scenario=scenarios())
def test_no_scheduler_beats_the_bounds(name, scenario):
    """The speeds are raised to make up for durations that are rounded down to whole ns."""
    result = simulate(scenario, SCHEDULERS[name])
    table, speeds = result.applications, result.machines["speed"]
    shortest = (table["task_size"].min() / speeds.max()) * 1e9
    speeds = speeds * (1 + 0.51 / (shortest - 0.51))
    given_columns = table["release"], table["size"]
    fluid = fluid_bound(*given_columns, math.fsum(speeds))
    disc = discrete_bound(*given_columns, table["task_size"], table["tasks"], speeds)
    assert fluid.stretch <= disc.stretch * (1 + 1e-12) <= result.max_stretch * (1 + 2e-12)


# -- results ----------------------------------------------------------------------------------------------

SCENARIO = Scenario(Platform.pareto(8, 1), Workload.bags(12, seed=2), seed=3)


def test_a_result_has_its_gap(tmp_path):
    result = simulate(SCENARIO, MinCent())
    digest, table = result.digest, result.applications
    bound = result.bound("fluid")
    assert bound.stretch == fluid_bound(table["release"], table["size"], result.aggregate_speed).stretch
    assert result.bound("fluid") is bound  # computed once
    assert 1 <= result.gap() < result.gap("fluid") == result.max_stretch / bound.stretch < 1.2
    assert result.bound() is result.bound("discrete")
    summary = result.summary()
    assert (summary["lower_bound_kind"], summary["lower_bound"]) == ("discrete", result.bound().stretch)
    assert summary["gap"] == result.gap()
    assert result.summary("fluid")["lower_bound"] == bound.stretch
    assert f"{result.gap():.3f} (max stretch over the discrete bound" in result.format()
    loose = f"over the fluid bound, {bound.stretch:.4g} s/Mflop; it cuts tasks at will"
    assert loose in result.format(bound="fluid", width=1000)
    result.bound("discrete").verify(
        table["release"],
        table["size"],
        result.machines["speed"],
        task_size=table["task_size"],
        tasks=table["tasks"],
    )
    assert result.digest == digest == simulate(SCENARIO, MinCent()).digest
    result.save(tmp_path / "r")
    assert Result.load(tmp_path / "r").gap("discrete") == result.gap("discrete")
    with pytest.raises(ScenarioError, match="^bound"):
        result.bound("tight")


def test_a_comparison_shows_the_gap():
    actual = compare(SCENARIO, {"mincent": MinCent(), "fcfs": Fcfs()}, bound="discrete")
    assert [row["gap"] for row in actual.table()] == [actual[name].gap("discrete") for name in actual.results]
    lines = str(actual).splitlines()
    (head,) = (k for k, line in enumerate(lines) if " over " in line)
    assert "discrete" in lines[head + 1]
    assert f"{actual['fcfs'].gap('discrete'):.3f}" in lines[head + 3]
    assert actual.to_dict()["units"]["gap"] == "1 (max stretch / lower bound)"
    with pytest.raises(ScenarioError, match="^bound"):
        compare(SCENARIO, {"fcfs": Fcfs()}, bound="tight")


def test_many_applications_have_a_gap_only_on_request():
    count = BOUND_LIMIT + 1
    scenario = Scenario(Platform.of([1000.0] * 4), Workload.of(np.arange(count) * 2.0, 1, 1000.0))
    comparison = compare(scenario, {"fcfs": Fcfs()})
    result = comparison["fcfs"]
    summary = result.summary()
    assert (summary["lower_bound"], summary["gap"]) == (None, None)
    assert "computed for up to 5000 applications" in result.format() and " - " in str(comparison)
    assert "no lower bound: it is computed for up to 5000 applications" in str(comparison)
    # each task of 1 s runs on one of four machines, which are idle at its release
    assert metrics.mean(result.applications["stretch"]) == pytest.approx(1e-3)
    assert result.gap("fluid") == pytest.approx(4.0) and result.gap() == pytest.approx(1.0)


@pytest.mark.parametrize("machines", [399, 401])
def test_a_bound_that_may_be_loose_is_marked(machines, monkeypatch):
    """The best bound is the discrete one as long as that is affordable."""
    monkeypatch.setattr(registry, "DISCRETE_LIMIT", 800)
    scenario = Scenario(Platform.equal(machines, 1000.0), Workload.of([0.0, 1.0], 1, 1000.0))
    comparison = compare(scenario, {"fcfs": Fcfs()})
    loose = machines > 400
    assert comparison["fcfs"].kind_of_bound() == ("preemptive" if loose else "discrete")
    assert ("the bound is the preemptive one: it lets tasks migrate" in str(comparison)) == loose
    assert comparison["fcfs"].gap() == pytest.approx(1.0) and comparison["fcfs"].gap("fluid") == machines


def test_the_gap_uses_the_preemptive_bound_if_tasks_differ_in_size():
    scenario = Scenario(Platform.equal(2, 1000.0), Workload.of_tasks([0.0], [[1000.0, 3000.0]]))
    result = simulate(scenario, WqrFt(max_replicas=1))
    assert (result.summary()["lower_bound_kind"], result.gap()) == ("preemptive", pytest.approx(1.0))
    assert result.gap("fluid") == pytest.approx(1.5)
    with pytest.raises(ScenarioError, match='must not be "discrete" if tasks of an application differ'):
        result.bound("discrete")


def test_a_schedule_with_migration_requires_a_bound_with_migration():
    """Three tasks of 2 s on two machines end after 3 s with migration, and after 4 s without."""
    workload = Workload.of([0.0], 3, 2000.0)
    scenario = Scenario(Platform.equal(2, 1000.0), workload)
    assert simulate(scenario, Fcfs()).kind_of_bound() == "discrete"
    migrating = simulate(scenario, WqrFt())
    assert migrating.kind_of_bound() == "preemptive" and migrating.bound().stretch == pytest.approx(
        3.0 / 6000.0
    )
    with pytest.raises(ScenarioError, match='must not be "discrete" if tasks may migrate'):
        migrating.bound("discrete")
    # all schedulers of a comparison get the same bound, that of the schedule with migration
    actual = compare(scenario, {"fcfs": Fcfs(), "wqr-ft": WqrFt()})
    assert {row["lower_bound"] for row in actual.table()} == {migrating.bound().stretch}
    studied = replicate(
        scenario, {"fcfs": Fcfs(), "wqr-ft": WqrFt()}, metrics=["lower_bound", "gap"], replicates=2
    )
    assert len(set(np.concatenate([*studied["lower_bound"].values()]).tolist())) == 1
    assert not WqrFt(checkpoint_store="local").migrates and Wave().migrates and not Rjss().migrates
