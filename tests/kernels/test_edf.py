"""EDF kernel: equality with its twin, exactness against brute force, the published cases, speed of light."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_oracles import minimum_stretch, node_of, project, stretch_by_orders
from hypothesis import given, settings
from hypothesis import strategies as st

from gridcore import edf
from gridcore.reference import edf as twin
from gridsim.testing import batches, queues

QUICK = settings(max_examples=80, deadline=None)


@QUICK
@given(queues(exact=False, max_entries=40) | queues(max_entries=40), st.sampled_from(["exact", "bisection"]))
def test_stretch_equals_twin(case, method):
    arguments = {"speed": case.speed, "now": case.free_at, "method": method, **case.running}
    assert edf.optimal_stretch(*case.entries, **arguments) == twin.optimal_stretch(*case.entries, **arguments)


@QUICK
@given(queues(max_entries=4))
def test_stretch_is_the_best_of_all_orders(case):
    exact = stretch_by_orders(node_of(case))
    assert exact == minimum_stretch(node_of(case))
    value = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at, **case.running)
    assert value == pytest.approx(float(exact), rel=1e-12)


@QUICK
@given(queues(exact=False, max_entries=12), st.floats(-1e6, 1e6))
def test_the_minimum_is_feasible_and_nothing_below_it_is(case, shift):
    # With instants far from 0 the deadlines round; the result must be feasible all the same.
    release, now = case.release + shift, case.free_at + shift
    value = edf.optimal_stretch(release, case.size, case.work, speed=case.speed, now=now)
    assert edf.meets_deadlines(case.work, release + value * case.size, speed=case.speed, now=now)
    if value > 1e-3:
        below = release + value * (1 - 1e-4) * case.size
        assert not edf.meets_deadlines(case.work, below, speed=case.speed, now=now)


@QUICK
@given(queues(exact=False, max_entries=12), st.sampled_from([1e-3, 1e-6, 1e-9, 1e-15]))
def test_bisection_is_feasible_and_close(case, rtol):
    exact = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at)
    value = edf.optimal_stretch(
        *case.entries, speed=case.speed, now=case.free_at, method="bisection", rtol=rtol
    )
    deadlines = case.release + value * case.size
    assert edf.meets_deadlines(case.work, deadlines, speed=case.speed, now=case.free_at)
    assert exact * (1 - 1e-10) <= value <= exact * (1 + rtol) * (1 + 1e-10)


def test_bisection_works_at_the_scale_of_real_stretches():
    # An absolute tolerance of 1e-3 answers 9.77e-4 here, and 1e-21 never ends.
    arguments = ([0.0], [1e6], [2.2e5])
    for rtol in (1e-3, 1e-9, 5e-324):
        value = edf.optimal_stretch(*arguments, speed=2000.0, now=0.0, method="bisection", rtol=rtol)
        assert value == pytest.approx(1.1e-4, rel=max(rtol, 1e-11))


@QUICK
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(-5, 60) | st.just(math.inf)), max_size=60),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_meets_deadlines_equals_twin(entries, speed):
    work, due = [p for p, _ in entries], [d for _, d in entries]
    expected = twin.meets_deadlines(work, due, speed=speed, now=1.0)
    assert edf.meets_deadlines(work, due, speed=speed, now=1.0) is expected
    assert edf.meets_deadlines(work[::-1], due[::-1], speed=speed, now=1.0) is expected or len(entries) > 1


def test_a_deadline_is_met_within_a_millionth_of_a_millionth():
    assert edf.meets_deadlines([2000.0], [1.0], speed=2000.0, now=0.0)
    assert edf.meets_deadlines([2000.0], [1.0 - 5e-13], speed=2000.0, now=0.0)
    assert not edf.meets_deadlines([2000.0], [1.0 - 5e-12], speed=2000.0, now=0.0)


def test_entries_without_work_are_ignored():
    assert edf.meets_deadlines([0.0, 1.0], [-100.0, 1.0], speed=1.0, now=0.0)
    with_idle = edf.optimal_stretch([-1e9, 0.0], [1.0, 4.0], [0.0, 2.0], speed=1.0, now=0.0)
    assert with_idle == edf.optimal_stretch([0.0], [4.0], [2.0], speed=1.0, now=0.0) == 0.5


@pytest.mark.parametrize("module", [edf, twin])
def test_empty_queue(module):
    assert module.meets_deadlines([], [], speed=1.0, now=0.0) is True
    assert module.optimal_stretch([], [], [], speed=1.0, now=5.0) == 0.0
    running = {"running_release": 1.0, "running_size": 8.0}
    assert module.optimal_stretch([], [], [], speed=1.0, now=5.0, **running) == 0.5
    # An application released after the processor is free again has nothing to fear.
    assert module.optimal_stretch([9.0], [1.0], [1.0], speed=1.0, now=0.0) == 0.0


def test_cases_of_the_authors_later_simulator():
    # Speed 1000; per task 900k (running), 400k and 200k Mflop, five tasks an application.
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


def test_many_entries_in_any_order():
    # Long and unsorted enough to leave the insertion sort.
    random = np.random.default_rng(5)
    for n in (24, 33, 64, 100, 257, 1000):
        release, size = random.uniform(-500, 0, n), random.lognormal(5, 2, n)
        work = random.uniform(0, 50, n) * (random.random(n) > 0.1)
        expected = twin.optimal_stretch(release, size, work, speed=3.0, now=1.0)
        assert edf.optimal_stretch(release, size, work, speed=3.0, now=1.0) == expected
        due = release + expected * size
        for order in (np.arange(n), np.argsort(due), np.argsort(-due), random.permutation(n)):
            assert edf.meets_deadlines(work[order], due[order], speed=3.0, now=1.0)
            short = np.where(np.arange(n) == n // 2, due - 1e9, due)
            assert not edf.meets_deadlines(work[order] + 1, short[order], speed=3.0, now=1.0)


# --- projection -----------------------------------------------------------------------------------


def split_batch(batch):
    return {name: batch[name] for name in ("offsets", "release", "size", "work", "task_size")}, {
        name: batch[name] for name in ("speed", "free_at", "running_release", "running_size")
    }


@QUICK
@given(batches(exact=False) | batches(), st.floats(-2, 40), st.booleans())
def test_projection_equals_twin(batch, until, preemptive):
    flat, nodes = split_batch(batch)
    ours = edf.project_queues(*flat.values(), **nodes, until=until, preemptive=preemptive)
    expected = twin.project_queues(*flat.values(), **nodes, until=until, preemptive=preemptive)
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@QUICK
@given(queues(min_entries=1), st.integers(0, 160), st.booleans())
def test_projection_is_service_step_by_step(case, quarter, preemptive):
    # Quarters divided by speeds 0.5, 1 and 2 are exact in float64; 1.5 and 3 agree to rounding.
    until = quarter / 4.0
    expected = project(node_of(case), Fraction(until), preemptive)
    running = [math.nan if value is None else value for value in case.running.values()]
    left, end, at = edf.project_queues(
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
        return  # a task starts at `until` but for rounding
    assert end[0] == pytest.approx(float(expected.free_at), rel=1e-12)
    works = sorted(float(share.work) for share in expected.queue)
    np.testing.assert_allclose(sorted(left[left > 1e-12]), works, rtol=1e-9)
    if not preemptive and case.free_at < until:
        assert (at[0] >= 0) == (expected.free_at > until)
    if at[0] >= 0 and not preemptive:
        floor = (end[0] - case.release[at[0]]) / case.size[at[0]]
        assert floor == pytest.approx(float(expected.floor))


def test_projecting_twice_is_projecting_once():
    case = ([0, 2], [0.0, 0.0], [4.0, 9.0], [4.0, 6.0], [1.0, 2.0])
    once = edf.project_queues(*case, speed=[1.0], free_at=[0.0], until=7.0)
    left, end, at = edf.project_queues(*case, speed=[1.0], free_at=[0.0], until=2.5)
    assert (end[0], at[0]) == (3.0, 0)
    again = edf.project_queues(
        [0, 2],
        [0.0, 0.0],
        [4.0, 9.0],
        left,
        [1.0, 2.0],
        speed=[1.0],
        free_at=end,
        until=7.0,
        running_release=[0.0],
        running_size=[4.0],
    )
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_task_that_would_start_at_the_instant_has_not_started():
    left, end, at = edf.project_queues(
        [0, 1], [0.0], [4.0], [4.0], [1.0], speed=[1.0], free_at=[0.0], until=2.0
    )
    assert (left[0], end[0], at[0]) == (2.0, 2.0, -1)
    left, end, at = edf.project_queues(
        [0, 1], [0.0], [4.0], [4.0], [1.0], speed=[1.0], free_at=[0.0], until=2.5
    )
    assert (left[0], end[0], at[0]) == (1.0, 3.0, 0)
    left, end, at = edf.project_queues(
        [0, 1], [0.0], [4.0], [4.0], [1.0], speed=[1.0], free_at=[0.0], until=2.5, preemptive=True
    )
    assert (left[0], end[0], at[0]) == (1.5, 2.5, 0)
