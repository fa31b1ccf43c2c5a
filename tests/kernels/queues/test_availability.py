"""Gap, task count and sampling: equality with the reference, exactness, and the invariants of the summary."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.queues import availability, edf
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.testing import batches, grids, queues
from tests._helpers.exact_oracles import Node, Share, gap, gap_by_orders, minimum_stretch, node_of
from tests.reference import availability as reference

quarter = st.integers(1, 48).map(lambda k: k / 4.0)


@given(queues(exact=False, max_entries=40) | queues(), quarter, st.floats(-9, 9), quarter, quarter)
def test_gap_and_task_count_equal_reference(case, stretch, release, size, task_size):
    least = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at, **case.running)
    for value in (stretch, least, least * 1.01):
        new = (value, release, size)
        assert availability.gap(*new, *case.entries, **case.machine) == reference.gap(
            *new, *case.entries, **case.machine
        )
        new = (value, release, size, task_size)
        assert availability.available_tasks(*new, *case.entries, **case.machine) == reference.available_tasks(
            *new, *case.entries, **case.machine
        )


@given(queues(max_entries=4), quarter, quarter, quarter, st.integers(0, 32))
def test_gap_equals_the_best_of_all_orders(case, stretch, size, task_size, lead):
    node = node_of(case)
    release = case.free_at - lead / 4.0
    exact = gap_by_orders(node, Fraction(stretch), Fraction(release), Fraction(size))
    assert exact == gap(node, Fraction(stretch), Fraction(release), Fraction(size))
    value = availability.gap(stretch, release, size, *case.entries, **case.machine)
    assert value == pytest.approx(float(exact), rel=1e-9, abs=1e-9)
    ratio = exact / Fraction(task_size)
    if abs(ratio - round(ratio)) > Fraction(1, 10**9):
        new = (stretch, release, size, task_size)
        tasks = availability.available_tasks(*new, *case.entries, **case.machine)
        assert tasks == math.floor(ratio)


@given(queues(exact=False, min_entries=1, max_entries=10, running=False), st.floats(-1e6, 1e6))
def test_a_queue_is_feasible_at_its_own_minimum_stretch(case, shift):
    # a new application with a late enough deadline must find room, whatever the rounding
    release, free_at = case.release + shift, case.free_at + shift
    least = edf.optimal_stretch(release, case.size, case.work, speed=case.speed, now=free_at)
    if least > 0:
        room = availability.gap(
            least, free_at, 1e6 / least, release, case.size, case.work, speed=case.speed, free_at=free_at
        )
        assert room > 0


@given(
    queues(exact=False, max_entries=12) | queues(max_entries=12),  # the first have equal deadlines
    grids(max_samples=6),
    st.floats(-9, 9) | quarter,
    st.sampled_from([0, 1]),
)
def test_sampling_equals_one_call_per_cell(case, grid, release, level):
    availability._vector_level(level)
    try:
        cells = availability.sample_availability(grid, release, *case.entries, **case.machine)
    finally:
        availability._vector_level(1)
    assert cells.dtype == np.uint32 and cells.shape == grid.shape
    np.testing.assert_array_equal(
        cells, reference.sample_availability(grid, release, *case.entries, **case.machine)
    )
    i, j, k = (len(axis) // 2 for axis in (grid.stretch, grid.size, grid.task_size))
    new = (grid.stretch[i], release, grid.size[j], grid.task_size[k])
    assert cells[i, j, k] == availability.available_tasks(*new, *case.entries, **case.machine)


@given(queues(exact=False, max_entries=12), grids(max_samples=8, exact=False), st.floats(-9, 9))
def test_invariants_of_a_summary_hold(case, grid, release):
    cells = availability.sample_availability(grid, release, *case.entries, **case.machine).astype(np.int64)
    # equal in exact arithmetic; neighbours may differ by the rounding of h / a, but no more
    assert (np.diff(cells, axis=0) >= -1).all() and (np.diff(cells, axis=1) >= -1).all()
    assert (np.diff(cells, axis=2) <= 0).all()


@given(queues(max_entries=6), quarter, quarter, quarter, quarter)
def test_gap_grows_with_stretch_and_size(case, stretch, size, more_stretch, more_size):
    release = case.free_at - 1.0
    here = availability.gap(stretch, release, size, *case.entries, **case.machine)
    bigger = availability.gap(stretch, release, size + more_size, *case.entries, **case.machine)
    later = availability.gap(stretch + more_stretch, release, size, *case.entries, **case.machine)
    assert bigger >= here - 1e-9 * max(1.0, here) and later >= here - 1e-9 * max(1.0, here)


def test_gap_is_not_monotone_in_the_release():
    # the published counterexample: (r, w, a, N) = (-1, 10, 1, 4), speed 1, S = 1/2
    def series(size):
        values = []
        for instant in range(6):
            left, free_at, _ = edf.project_queues(
                [0, 1],
                [-1.0],
                [10.0],
                [4.0],
                [1.0],
                speed=[1.0],
                free_at=[0.0],
                until=instant,
                preemptive=True,
            )
            values.append(
                availability.gap(0.5, instant, size, [-1.0], [10.0], left, speed=1.0, free_at=free_at[0])
            )
        return values

    assert series(12.0) == [2, 3, 4, 5, 6, 6]
    assert series(4.0) == [0, 0, 0, 1, 2, 2]
    # the converse: a task that fits now need not fit a second later
    queue = ([-4.0, -1.0], [10.0, 7.0])
    now = availability.gap(2.0, 0.0, 6.0, *queue, [2.0, 3.0], speed=1.0, free_at=0.0)
    left, free_at, _ = edf.project_queues(
        [0, 2], *queue, [2.0, 3.0], [1.0, 1.0], speed=[1.0], free_at=[0.0], until=1.0, preemptive=True
    )
    later = availability.gap(2.0, 1.0, 6.0, *queue, left, speed=1.0, free_at=free_at[0])
    assert (now, later) == (10.0, 9.0)


def test_the_slope_of_the_gap_changes_inside_an_interval():
    # the paper's proof of Proposition 2 claims two slopes; the slopes over S are 4, 10 and 2 here
    queue = ([-1.0, -6.0], [4.0, 10.0], [1.0, 1.0])

    def slope(stretch):
        low, high = (
            availability.gap(s, 0.0, 2.0, *queue, speed=1.0, free_at=0.0) for s in (stretch, stretch + 0.0625)
        )
        return (high - low) / 0.0625

    assert [slope(0.76), slope(0.875), slope(1.5)] == pytest.approx([4.0, 10.0, 2.0])


def test_the_gap_equals_closed_forms():
    # release times relative to the new one; t and E: remaining seconds, singly and cumulated
    speed, stretch, size = 3.0, 2.0, 5.0
    assert availability.gap(stretch, 0.0, size, [], [], [], speed=speed, free_at=0.0) == 30.0
    assert availability.gap(stretch, 0.0, size, [], [], [], speed=speed, free_at=4.0) == 18.0
    running = {"running_release": -1.0, "running_size": 2.5}
    assert availability.gap(2.0, 0.0, 5.0, [], [], [], speed=3.0, free_at=4.0, **running) == 18.0
    assert availability.gap(1.9, 0.0, 5.0, [], [], [], speed=3.0, free_at=4.0, **running) == 0.0
    # after entry i: s (S w - E_i) from w = w_i + r_i / S; plateau at s (S w_i - (E_i - r_i))
    queue = ([-1.0, -2.0], [4.0, 10.0], [3.0, 6.0])
    assert availability.gap(2.0, 0.0, 9.0, *queue, speed=3.0, free_at=0.0) == 3.0 * (2.0 * 9.0 - 3.0)
    assert availability.gap(2.0, 0.0, 8.9, *queue, speed=3.0, free_at=0.0) == 3.0 * (2.0 * 10.0 - (3.0 + 2.0))


def test_a_processor_free_before_the_release_waits_for_it():
    # the paper's Algorithm 3, run at current_time < r_new, uses time before the release of the application
    assert availability.gap(1.0, 0.0, 2.0, [-1.0], [1.0], [1.0], speed=1.0, free_at=-1.0) == 0.0
    empty = availability.gap(1.0, 7.0, 2.0, [], [], [], speed=1.0, free_at=-1.0)
    assert empty == 2.0


def test_task_counts_saturate():
    grid = SummaryGrid([1.0, 2.0], [1e6, 4294967295.0 * 3, 1e300], [1.0, 2.0, 3.0, 1e-3 + 3, 1e9])
    cells = availability.sample_availability(grid, 0.0, [], [], [], speed=1.0, free_at=0.0)
    assert cells.max() == 2**32 - 1 and cells[0, 1, 2] == 2**32 - 1 and 2**31 < cells[0, 1, 3] < 2**32 - 1
    np.testing.assert_array_equal(
        cells, reference.sample_availability(grid, 0.0, [], [], [], speed=1.0, free_at=0.0)
    )


def test_all_instruction_sets_give_equal_results():
    random = np.random.default_rng(1)
    grid = SummaryGrid.geometric(stretch=(0.1, 99.0, 9), size=(1.0, 99.0, 37), task_size=(1e-9, 9.0, 103))
    queue = (random.uniform(-9, 0, 20), random.uniform(1, 50, 20), random.uniform(0, 3, 20))
    results = []
    try:
        for level in (0, 1):
            availability._vector_level(level)
            results.append(availability.sample_availability(grid, 0.0, *queue, speed=7.0, free_at=1.0))
    finally:
        availability._vector_level(1)
    np.testing.assert_array_equal(*results)
    high = results[0][(results[0] > 2**31) & (results[0] < 2**32 - 1)]
    assert high.size > 0


@given(batches(exact=False, max_entries=9), grids(), st.floats(-9, 9), st.integers(1, 3))
def test_a_batch_equals_single_calls(batch, grid, release, threads):
    flat = [batch[name] for name in ("release", "size", "work")]
    nodes = {name: batch[name] for name in ("speed", "free_at", "running_release", "running_size")}
    result = availability.sample_availability_batch(
        grid, release, batch["offsets"], *flat, **nodes, threads=threads
    )
    np.testing.assert_array_equal(
        result, reference.sample_availability_batch(grid, release, batch["offsets"], *flat, **nodes)
    )
    for u, cells in enumerate(result):
        part = slice(batch["offsets"][u], batch["offsets"][u + 1])
        running = {
            name: None if np.isnan(nodes[name][u]) else nodes[name][u]
            for name in ("running_release", "running_size")
        }
        one = availability.sample_availability(
            grid,
            release,
            *(column[part] for column in flat),
            speed=nodes["speed"][u],
            free_at=nodes["free_at"][u],
            **running,
        )
        np.testing.assert_array_equal(cells, one)


@pytest.mark.parametrize("module", [availability, reference])
def test_an_idle_node_takes_tasks_at_every_stretch(module):
    # both are free at 0; the task that the second runs will have a stretch of 1 by then
    grid = SummaryGrid([0.5, 1.0], [4.0], [1.0])
    nodes = {"speed": [1.0, 1.0], "free_at": [0.0, 0.0]}
    running = {"running_release": [np.nan, -2.0], "running_size": [np.nan, 2.0]}
    cells = module.sample_availability_batch(grid, 0.0, [0, 0, 0], [], [], [], **nodes, **running)
    assert cells[:, :, 0, 0].tolist() == [[2, 4], [0, 4]] and cells.dtype == np.uint32
    one = module.sample_availability(grid, 0.0, [], [], [], speed=1.0, free_at=0.0)
    assert one.tolist() == cells[0].tolist() and one.dtype == np.uint32


def test_the_number_of_threads_changes_no_result():
    # enough cells to start threads
    random = np.random.default_rng(4)
    grid = SummaryGrid.geometric(stretch=(0.1, 99.0, 20), size=(1.0, 99.0, 20), task_size=(0.1, 9.0, 20))
    offsets = np.cumsum([0, *random.integers(0, 6, 300)])
    flat = tuple(random.uniform(*bounds, offsets[-1]) for bounds in ((-9, 0), (1, 50), (0, 3)))
    nodes = {"speed": random.uniform(1, 9, 300), "free_at": random.uniform(0, 2, 300)}
    one, four = (
        availability.sample_availability_batch(grid, 0.0, offsets, *flat, **nodes, threads=threads)
        for threads in (1, 4)
    )
    np.testing.assert_array_equal(one, four)
    with pytest.raises(OverflowError):
        availability.sample_availability_batch(
            grid,
            0.0,
            offsets,
            -flat[0] * 1.9e307,
            *flat[1:],
            speed=nodes["speed"],
            free_at=nodes["free_at"] + 1e308,
            threads=4,
        )


@given(queues(max_entries=3), quarter, quarter, quarter)
def test_the_task_count_is_the_number_of_whole_tasks_that_fit(case, stretch, size, task_size):
    # n tasks fit if and only if the queue with n tasks more keeps the stretch; n + 1 do not
    node, s = node_of(case), Fraction(stretch)
    tasks = availability.available_tasks(
        stretch, case.free_at, size, task_size, *case.entries, **case.machine
    )
    tasks = min(tasks, 50)

    def fits(n):
        new = Share(Fraction(case.free_at), Fraction(size), n * Fraction(task_size))
        queue = (*node.queue, new) if n else node.queue
        return minimum_stretch(Node(queue, node.speed, node.free_at, node.floor)) <= s

    exact = gap(node, s, Fraction(case.free_at), Fraction(size)) / Fraction(task_size)
    if exact != round(exact):
        assert tasks == 0 or fits(tasks)
        assert tasks == 50 or not fits(tasks + 1)
