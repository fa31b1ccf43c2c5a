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
from tests._helpers.exact_oracles import gap, gap_by_orders, node_of
from tests.reference import availability as reference

quarter = st.integers(1, 48).map(lambda k: k / 4.0)


@given(queues(exact=False, max_entries=40) | queues(), quarter, st.floats(-9, 9), quarter, quarter)
def test_gap_and_task_count_equal_reference(case, stretch, release, size, task_size):
    minimum = edf.optimal_stretch(*case.entries, speed=case.speed, now=case.free_at, **case.running)
    for value in (stretch, minimum, minimum * 1.01):
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
    minimum = edf.optimal_stretch(release, case.size, case.work, speed=case.speed, now=free_at)
    if minimum > 0:
        capacity = availability.gap(
            minimum, free_at, 1e6 / minimum, release, case.size, case.work, speed=case.speed, free_at=free_at
        )
        assert capacity > 0


@given(
    # queues of the first strategy have equal deadlines
    queues(exact=False, max_entries=12) | queues(max_entries=12),
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


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("n", [3, 63, 64, 65, 131, 400])
@pytest.mark.parametrize("stretches", [4, 90])
def test_queues_are_sorted_anew_from_stretch_to_stretch(n, stretches, level):
    # few stretches far apart reorder whole queues, and sums of such work are rounded by their order
    rng = np.random.default_rng(n)
    grid = SummaryGrid.geometric(
        stretch=(0.05, 5.0, stretches), size=(500.0, 1500.0, 7), task_size=(0.01, 9.0, 2)
    )
    queue = (rng.uniform(-90, 0, n), rng.uniform(800, 1200, n), rng.choice([0.0, 0.1, 1 / 3, 2.7], n))
    machine = {"speed": float(n), "free_at": 1.0}
    availability._vector_level(level)
    try:
        cells = availability.sample_availability(grid, 0.0, *queue, **machine)
    finally:
        availability._vector_level(1)
    assert cells.any()
    np.testing.assert_array_equal(cells, reference.sample_availability(grid, 0.0, *queue, **machine))


def test_a_running_task_keeps_its_stretch_within_1e_12():
    for steps, kept in ((4504, True), (4506, False)):
        running = {"free_at": 1.0 + steps * 2.0**-52, "running_release": 0.0, "running_size": 1.0}
        assert (availability.gap(1.0, 0.0, 9.0, [], [], [], speed=1.0, **running) > 0.0) is kept


def test_task_counts_saturate():
    grid = SummaryGrid([1.0, 2.0], [1e6, 4294967295.0 * 3, 1e300], [1.0, 2.0, 3.0, 1e-3 + 3, 1e9])
    cells = availability.sample_availability(grid, 0.0, [], [], [], speed=1.0, free_at=0.0)
    assert cells.max() == 2**32 - 1 and cells[0, 1, 2] == 2**32 - 1 and 2**31 < cells[0, 1, 3] < 2**32 - 1
    np.testing.assert_array_equal(
        cells, reference.sample_availability(grid, 0.0, [], [], [], speed=1.0, free_at=0.0)
    )


def test_all_instruction_sets_give_equal_results():
    rng = np.random.default_rng(1)
    grid = SummaryGrid.geometric(stretch=(0.1, 99.0, 9), size=(1.0, 99.0, 37), task_size=(1e-9, 9.0, 103))
    queue = (rng.uniform(-9, 0, 20), rng.uniform(1, 50, 20), rng.uniform(0, 3, 20))
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


def test_the_number_of_threads_changes_no_result():
    # the grid has enough cells for the kernel to start threads
    rng = np.random.default_rng(4)
    grid = SummaryGrid.geometric(stretch=(0.1, 99.0, 20), size=(1.0, 99.0, 20), task_size=(0.1, 9.0, 20))
    offsets = np.cumsum([0, *rng.integers(0, 6, 300)])
    flat = tuple(rng.uniform(*bounds, offsets[-1]) for bounds in ((-9, 0), (1, 50), (0, 3)))
    nodes = {"speed": rng.uniform(1, 9, 300), "free_at": rng.uniform(0, 2, 300)}
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
