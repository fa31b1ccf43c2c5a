"""EDF kernel: equality with its reference, brute force, published cases, and bounds on its speed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.queues import edf
from gridsim.testing import batches, queues
from tests._helpers.exact_oracles import minimum_stretch, node_of, project, stretch_by_orders
from tests.reference import edf as reference


@given(queues(exact=False, max_entries=40) | queues(max_entries=40), st.sampled_from(["exact", "bisection"]))
def test_optimal_stretch_equals_reference(case, method):
    arguments = {"speed": case.speed, "now": case.free_at, "method": method, **case.running}
    assert edf.optimal_stretch(*case.entries, **arguments) == reference.optimal_stretch(
        *case.entries, **arguments
    )


@given(queues(max_entries=4))
def test_optimal_stretch_equals_the_best_of_all_orders(case):
    exact = stretch_by_orders(node_of(case))
    assert exact == minimum_stretch(node_of(case))
    value = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at, **case.running)
    assert value == pytest.approx(float(exact), rel=1e-12)


@given(queues(exact=False, max_entries=12), st.floats(-1e6, 1e6))
def test_the_optimal_stretch_is_feasible_and_no_lower_one_is(case, shift):
    # far from 0 the deadlines are rounded; the result must still be feasible
    release, now = case.release + shift, case.free_at + shift
    value = edf.optimal_stretch(release, case.size, case.work, speed=case.speed, now=now)
    assert edf.meets_deadlines(case.work, release + value * case.size, speed=case.speed, now=now)
    if value > 1e-3:
        below = release + value * (1 - 1e-4) * case.size
        assert not edf.meets_deadlines(case.work, below, speed=case.speed, now=now)


@given(queues(exact=False, max_entries=12), st.sampled_from([1e-3, 1e-6, 1e-9, 1e-15]))
def test_the_stretch_of_bisection_is_feasible_and_close_to_the_optimum(case, rtol):
    exact = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at)
    value = edf.optimal_stretch(
        *case.entries, speed=case.speed, now=case.free_at, method="bisection", rtol=rtol
    )
    deadlines = case.release + value * case.size
    assert edf.meets_deadlines(case.work, deadlines, speed=case.speed, now=case.free_at)
    assert exact * (1 - 1e-10) <= value <= exact * (1 + rtol) * (1 + 1e-10)


@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(-5, 60) | st.just(math.inf)), max_size=60),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_meets_deadlines_equals_reference(entries, speed):
    work, due = [p for p, _ in entries], [d for _, d in entries]
    expected = reference.meets_deadlines(work, due, speed=speed, now=1.0)
    assert edf.meets_deadlines(work, due, speed=speed, now=1.0) is expected
    assert edf.meets_deadlines(work[::-1], due[::-1], speed=speed, now=1.0) is expected or len(entries) > 1


def test_stretches_equal_those_of_the_authors_later_simulator():
    # speed 1000; 900k (running), 400k and 200k Mflop per task, five tasks per application
    five = 5 * np.array([400e3, 200e3])
    running = {"running_release": 0.0, "running_size": 5 * 900e3}
    value = edf.optimal_stretch([0, 0], five, [400e3, 200e3], speed=1000.0, now=900.0, **running)
    assert value == pytest.approx(0.0011)
    running = {"running_release": 0.0, "running_size": 5 * 200e3}
    one = edf.optimal_stretch([0], [5 * 400e3], [400e3], speed=1000.0, now=200.0, **running)
    assert one == pytest.approx(0.0003)
    two = edf.optimal_stretch(
        [0, 0], 5 * np.array([400e3, 50e3]), [400e3, 50e3], speed=1000.0, now=200.0, **running
    )
    assert two == pytest.approx(0.001)


def test_many_entries_in_any_order_equal_reference():
    # these lists are long and unsorted enough to need more than the insertion sort
    rng = np.random.default_rng(5)
    for n in (24, 33, 64, 100, 257, 1000):
        release, size = rng.uniform(-500, 0, n), rng.lognormal(5, 2, n)
        work = rng.uniform(0, 50, n) * (rng.random(n) > 0.1)
        expected = reference.optimal_stretch(release, size, work, speed=3.0, now=1.0)
        assert edf.optimal_stretch(release, size, work, speed=3.0, now=1.0) == expected
        due = release + expected * size
        for order in (np.arange(n), np.argsort(due), np.argsort(-due), rng.permutation(n)):
            assert edf.meets_deadlines(work[order], due[order], speed=3.0, now=1.0)
            short = np.where(np.arange(n) == n // 2, due - 1e9, due)
            assert not edf.meets_deadlines(work[order] + 1, short[order], speed=3.0, now=1.0)


def test_the_tolerance_of_deadlines_is_relative():
    # a tolerance of 1e-12 is 4504 steps of 2**-52 above 1, and the same share of 2**20
    for unit in (1.0, 2.0**20):
        for steps, kept in ((4504, True), (4506, False)):
            assert edf.meets_deadlines([unit * (1 + steps * 2.0**-52)], [unit], speed=1.0, now=0.0) is kept


def arguments_by_node(batch):
    """Return the arguments of `optimal_stretch` for each node of a batch."""
    for u, (start, end) in enumerate(zip(batch["offsets"][:-1], batch["offsets"][1:], strict=True)):
        running = {name: batch[name][u] for name in ("running_release", "running_size")}
        if math.isnan(running["running_size"]):
            running = {}
        entries = [batch[name][start:end] for name in ("release", "size", "work")]
        yield entries, {"speed": batch["speed"][u], "now": batch["free_at"][u], **running}


def many_queues(seed, nodes):
    """Draw arguments of `project_queues`: quarters, so that ends coincide, some work 0, some nodes busy."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(0, 7, nodes)])
    n, free = offsets[-1], rng.random(nodes) < 0.5
    task_size = rng.integers(1, 9, n) / 4
    return {
        "offsets": offsets,
        "release": rng.integers(-32, 1, n) / 4,
        "size": rng.integers(1, 96, n) / 4,
        "work": task_size * rng.integers(0, 5, n),
        "task_size": task_size,
        "speed": rng.choice([0.5, 1.0, 2.0, 3.0], nodes),
        "free_at": rng.integers(0, 16, nodes) / 4,
        "running_release": np.where(free, np.nan, rng.integers(-32, 1, nodes) / 4),
        "running_size": np.where(free, np.nan, rng.integers(1, 96, nodes) / 4),
    }


def test_many_stretches_equal_reference():
    for entries, options in arguments_by_node(many_queues(6, 250)):
        for more in ({}, {"method": "bisection"}, {"method": "bisection", "rtol": 0.25}):
            result = edf.optimal_stretch(*entries, **options, **more)
            assert result == reference.optimal_stretch(*entries, **options, **more)


def test_a_stretch_that_is_too_small_by_rounding_is_corrected():
    # deadlines are small differences of large numbers: S w - 1e9, which is rounded to 1e-7
    rng = np.random.default_rng(7)
    for _ in range(60):
        n = rng.integers(1, 6)
        entries = -1e9 - rng.uniform(0, 1, n), rng.uniform(1, 9, n), rng.uniform(0.1, 2, n)
        result = edf.optimal_stretch(*entries, speed=1.0, now=0.0)
        assert result == reference.optimal_stretch(*entries, speed=1.0, now=0.0)
        assert edf.meets_deadlines(entries[2], entries[0] + result * entries[1], speed=1.0, now=0.0)
    # the second step of the repair is twice as long as the first
    slow = [-10000.0], [7.8], [3.0]
    assert edf.optimal_stretch(*slow, speed=7.0, now=0.0) == reference.optimal_stretch(
        *slow, speed=7.0, now=0.0
    )


def test_the_first_of_equal_stretches_is_returned():
    # 9 / 20 = 0.45, and 0.45 * 13 = 5.8500000000000005, which divided by 13 is above 0.45 by rounding
    queue = [-8.0, -3.8500000000000005], [20.0, 13.0], [1.0, 1.0]
    assert edf.optimal_stretch(*queue, speed=1.0, now=0.0) == 0.45


def test_bisection_ends_at_its_tolerance():
    def stretch(work, **more):
        return edf.optimal_stretch([0.0], [1.0], [work], speed=1.0, now=0.0, method="bisection", **more)

    # between 1/2 and 1 the difference is half of the upper end, which is within the tolerance
    assert stretch(0.75, rtol=0.5) == 1.0
    # there is no float between the ends any more
    for work in (0.1, 0.3, 0.6, 0.7, 0.9, 1.1, 1.3):
        assert stretch(work, rtol=1e-300) == pytest.approx(work, rel=2e-12)
    case = {"speed": 1.0, "now": 0.0, "method": "bisection"}
    assert edf.optimal_stretch([9.0], [1.0], [1.0], **case) == 0.0


# --- projection -----------------------------------------------------------------------------------


def split_batch(batch):
    return {name: batch[name] for name in ("offsets", "release", "size", "work", "task_size")}, {
        name: batch[name] for name in ("speed", "free_at", "running_release", "running_size")
    }


@given(batches(exact=False) | batches(), st.floats(-2, 40), st.booleans())
def test_projection_equals_reference(batch, until, preemptive):
    flat, nodes = split_batch(batch)
    actual = edf.project_queues(*flat.values(), **nodes, until=until, preemptive=preemptive)
    expected = reference.project_queues(*flat.values(), **nodes, until=until, preemptive=preemptive)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("preemptive", [None, False, True])
def test_many_projections_equal_reference(preemptive):
    batch = many_queues(8, 300)
    options = {} if preemptive is None else {"preemptive": preemptive}
    for until in (-1.0, 0.0, 0.5, 2.0, 3.75, 8.0, 24.0):
        actual = edf.project_queues(**batch, until=until, **options)
        expected = reference.project_queues(**batch, until=until, **options)
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_work_must_be_whole_tasks():
    def project(work, task_size, free_at=4.0):
        node = {"speed": [1.0], "free_at": [free_at], "until": 4.0}
        return edf.project_queues([0, 1], [0.0], [4.0], [work], [task_size], **node)[0][0]

    # as many tasks as float64 can count, and a deviation of 1e-9 of a task
    assert project(2.0**53, 1.0) == 2.0**53 and project(1000.0, 1.0) == 1000.0
    assert project(4.0 + 3e-9, 4.0) == 4.0 + 3e-9 and project(1e-9, 1.0) == 1e-9
    for work, task_size in ((2.0**53 + 2, 1.0), (2.0**54, 1.0), (0.25 + 3e-9, 0.25)):
        with pytest.raises(ValueError, match="must be a whole number of tasks"):
            project(work, task_size)


def test_a_waiting_queue_may_take_longer_than_float64_can_represent():
    queue = [0, 2], [0.0, 0.0], [1.0, 1.0], [1e308, 1e308], [1e308, 1e308]
    left, end, instant = edf.project_queues(*queue, speed=[1.0], free_at=[3.0], until=3.0)
    assert (left.tolist(), end.tolist(), instant.tolist()) == ([1e308, 1e308], [3.0], [-1])


@given(queues(min_entries=1), st.integers(0, 160), st.booleans())
def test_projection_equals_service_step_by_step(case, quarter, preemptive):
    # quarters divided by speeds 0.5, 1 and 2 are exact in float64; 1.5 and 3 agree up to rounding
    until = quarter / 4.0
    expected = project(node_of(case), Fraction(until), preemptive)
    running = [math.nan if value is None else value for value in case.running.values()]
    left, end, instant = edf.project_queues(
        [0, len(case.release)],
        *case.entries,
        case.task_size,
        speed=[case.speed],
        free_at=[case.free_at],
        until=until,
        preemptive=preemptive,
        running_release=running[:1],
        running_size=running[1:],
    )
    if case.speed in (1.5, 3.0) and abs(end[0] - float(expected.free_at)) > 1e-9:
        return  # a task would start at `until`, but for rounding
    assert end[0] == pytest.approx(float(expected.free_at), rel=1e-12)
    works = sorted(float(share.work) for share in expected.queue)
    np.testing.assert_allclose(sorted(left[left > 1e-12]), works, rtol=1e-9)
    if not preemptive and case.free_at < until:
        assert (instant[0] >= 0) == (expected.free_at > until)
    if instant[0] >= 0 and not preemptive:
        floor = (end[0] - case.release[instant[0]]) / case.size[instant[0]]
        assert floor == pytest.approx(float(expected.floor))
