"""Aggregation, lookup, Algorithm 4, shares and debits: never above the truth; errors of the printed rules."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gridcore.fair_tree import summaries
from gridcore.queues import availability
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.testing import grids, queues
from gridsim.testing import summaries as drawn
from tests._helpers.exact_oracles import Node, Share, count, gap, minimum_stretch, node_of, project
from tests.reference import summaries as reference

MOST = 2**32 - 1
quarter = st.integers(1, 48).map(lambda k: k / 4.0)


def sample(case, grid, release):
    return availability.sample_availability(
        grid, release, *case.entries, speed=case.speed, free_at=case.free_at, **case.running
    )


def true_count(node, stretch, release, size, task_size):
    """Return the exact count; where the kernels may round across an integer, the larger one."""
    exact = gap(node, Fraction(stretch), Fraction(release), Fraction(size)) / Fraction(task_size)
    return int(exact + Fraction(1, 10**9))


# --- aggregation ----------------------------------------------------------------------------------


@given(hnp.arrays(np.uint32, st.tuples(*[st.integers(0, 5)] * 4)))
def test_aggregate_equals_reference(children):
    expected = np.minimum(children.astype(np.uint64).sum(axis=0, dtype=np.uint64), MOST).astype(np.uint32)
    np.testing.assert_array_equal(summaries.aggregate(children), expected)
    np.testing.assert_array_equal(reference.aggregate(children), expected)
    assert summaries.aggregate(children).dtype == reference.aggregate(children).dtype == np.uint32
    out = np.ones(children.shape[1:], dtype=np.uint32)
    assert summaries.aggregate_into(out, children) is out
    np.testing.assert_array_equal(out, expected)


def test_aggregate_accepts_long_and_overlapping_arrays():
    rng = np.random.default_rng(2)
    children = rng.integers(0, 2**31 + 2**20, (7, 5001), dtype=np.uint32)
    expected = reference.aggregate(children)
    assert expected.max() == MOST
    np.testing.assert_array_equal(summaries.aggregate(children), expected)
    np.testing.assert_array_equal(summaries.aggregate(list(children)), expected)
    np.testing.assert_array_equal(summaries.aggregate(children[:, ::2]), expected[::2])
    summaries.aggregate_into(children[0], children)
    np.testing.assert_array_equal(children[0], expected)


def test_all_instruction_sets_give_equal_results():
    rng = np.random.default_rng(1)
    grid = SummaryGrid.geometric(stretch=(0.1, 99.0, 9), size=(1.0, 99.0, 7), task_size=(1e-3, 9.0, 16))
    children = rng.integers(0, 2**32, (5, 3, 7, 11), dtype=np.uint32)
    cells = np.sort(rng.integers(0, 10**6, grid.shape, dtype=np.uint32), axis=0)
    sent = {"tasks": [3, 40], "task_size": [0.5, 2.0], "size": [9.0, 30.0], "stretch": [5.0, 50.0]}
    results = []
    try:
        for level in (0, 1):
            summaries._vector_level(level)
            results.append(summaries.aggregate(children))
            results.append(summaries.debit(cells, grid, **sent, leaves=8))
    finally:
        summaries._vector_level(1)
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])
    assert len(np.unique(results[1])) > 50


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(
    "shape", [(5, 3, 1), (4, 8, 1), (3, 19, 1), (1, 1, 1), (4, 3, 5), (3, 4, 8), (3, 2, 21)]
)
def test_debits_are_equal_for_cells_of_either_width(shape: tuple[int, int, int], level: int) -> None:
    """The debit is the sum of all drops, then the closure, by cell; counts need not grow along any axis."""
    rng = np.random.default_rng(list(shape))
    size = np.arange(1.0, shape[1] + 1.0)
    summaries._vector_level(level)
    try:
        for maximum in (40, 2**16) * 10:
            arguments = rng.integers(0, maximum, shape)
            drops = rng.integers(0, rng.choice([maximum // 2, 2 * maximum]), shape[2]).astype(np.uint32)
            limits = rng.integers(0, shape[1] + 1, shape[0]).astype(float)
            limits[rng.random(shape[0]) < 0.5] = np.inf
            kept = np.where((size <= limits[:, None])[..., None], np.maximum(arguments - drops, 0), 0)
            for axis in (0, 1):  # a count is at most the count at a greater stretch or size
                kept = np.maximum.accumulate(kept, axis)
            # and at most the count at a smaller task size
            kept = np.maximum.accumulate(kept[:, :, ::-1], 2)[:, :, ::-1]
            for cells in (np.uint16, np.uint32):
                out = summaries._debit_cells(arguments.astype(cells), size, drops, limits)
                np.testing.assert_array_equal(out, kept)
    finally:
        summaries._vector_level(1)


GRID = SummaryGrid([0.5, 1.0, 2.0, 4.0], [1.0, 4.0, 8.0, 16.0], [0.5, 1.0, 2.0])


def random_cells(random, most=60):
    """Return counts that grow with stretch and size and fall with the task size."""
    cells = np.sort(np.sort(random.integers(0, most, GRID.shape, dtype=np.uint32), axis=0), axis=1)
    return np.ascontiguousarray(np.sort(cells, axis=2)[:, :, ::-1])


# --- look-up --------------------------------------------------------------------------------------


@given(
    st.lists(queues(free_at=4.0, max_entries=3), min_size=1, max_size=4), grids(), quarter, quarter, quarter
)
def test_lookup_is_never_above_the_truth(cases, grid, stretch, size, task_size):
    total = summaries.aggregate([sample(case, grid, 3.0) for case in cases])
    release_options = {"release": 3.0, "cell_release": 3.0}
    actual = summaries.lookup(total, grid, stretch, size, task_size, **release_options)
    assert actual == reference.lookup(total, grid, stretch, size, task_size, **release_options)
    assert actual <= sum(true_count(node_of(case), stretch, 3.0, size, task_size) for case in cases)


@given(
    st.lists(queues(free_at=4.0, max_entries=3, min_entries=1), min_size=1, max_size=3),
    grids(),
    quarter,
    quarter,
    quarter,
    st.integers(16, 64),
    st.integers(16, 64),
    st.booleans(),
)
def test_lookup_at_another_release_is_never_above_the_truth(
    cases, grid, stretch, size, task_size, cell, instant, preemptive
):
    cell_release, release = cell / 4.0, instant / 4.0
    matrices, truth, longest = [], 0, 0.0
    for case in cases:
        node = node_of(case)
        there = project(node, Fraction(cell_release), preemptive)
        cells = np.zeros(grid.shape, dtype=np.uint32)
        minimum = minimum_stretch(node)
        for i, j, k in np.ndindex(grid.shape):
            s, w, a = Fraction(grid.stretch[i]), Fraction(grid.size[j]), Fraction(grid.task_size[k])
            if s >= minimum:  # the protocol reports nothing below the node's own minimum stretch
                cells[i, j, k] = count(there, s, Fraction(cell_release), w, a)
        matrices.append(cells)
        now = project(node, Fraction(release), preemptive)
        truth += true_count(now, stretch, release, size, task_size)
        longest = max([longest, *case.task_size.tolist()])
    total = summaries.aggregate(matrices)
    keywords = {"release": release, "cell_release": cell_release}
    below = {
        "speed": sum(case.speed for case in cases),
        "leaves": len(cases),
        "longest_task": 0.0 if preemptive else longest,
    }
    for extra in ({}, below):
        actual = summaries.lookup(total, grid, stretch, size, task_size, **keywords, **extra)
        assert actual == reference.lookup(total, grid, stretch, size, task_size, **keywords, **extra)
        assert actual <= truth
    if release > cell_release:
        assert summaries.lookup(total, grid, stretch, size, task_size, **keywords) == 0


def test_many_lookups_equal_reference():
    rng = np.random.default_rng(9)
    for _ in range(400):
        new = rng.integers(1, 20, 3) / 4 * [1, 4, 0.5]
        options = {"release": rng.integers(0, 12) / 4, "cell_release": rng.integers(0, 8) / 4}
        if rng.random() < 0.8:
            options |= {"speed": rng.integers(1, 9) / 2, "leaves": int(rng.integers(1, 4))}
            options |= {"longest_task": rng.integers(0, 5) / 2}
        cells = random_cells(rng)
        assert summaries.lookup(cells, GRID, *new, **options) == reference.lookup(
            cells, GRID, *new, **options
        )


# --- Algorithm 4 and shares -----------------------------------------------------------------------


def test_lowest_stretch_is_exact_in_all_small_cases():
    for n in range(5):
        for totals in product(range(6), repeat=n):
            if list(totals) != sorted(totals):
                continue
            for required in range(8):
                expected = next((i for i, total in enumerate(totals) if total >= required), None)
                assert summaries.lowest_stretch(list(totals), required) == expected
                assert reference.lowest_stretch(list(totals), required) == expected


def test_lowest_stretch_accepts_wide_integers():
    totals = np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)
    for m in (summaries, reference):
        assert m.lowest_stretch(totals, 2**63) == 1
        assert m.lowest_stretch(totals, 2**64 - 1) == 2
        assert m.lowest_stretch(totals, 2**64) is None


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), min_size=1, max_size=40),
    st.fractions(0, 1),
)
def test_shares_are_proportional_within_one_task(available, part):
    available = np.array(available, dtype=np.uint64)
    total = sum(available.tolist())
    n_tasks = min(int(total * part), 2**63 - 1)
    share = summaries.split(available, n_tasks)
    np.testing.assert_array_equal(share, reference.split(available, n_tasks))
    assert share.dtype == np.int64 and sum(share.tolist()) == n_tasks
    for given_, capacity in zip(share.tolist(), available.tolist(), strict=True):
        assert 0 <= given_ <= capacity
        if total:
            assert abs(given_ - Fraction(n_tasks * capacity, total)) < 1


# --- debit ----------------------------------------------------------------------------------------


@given(st.data(), grids(), st.integers(1, 9), st.sampled_from(["subtree", "printed"]))
def test_debit_equals_reference(data, grid, leaves, rule):
    cells = data.draw(drawn(grid, max_count=data.draw(st.sampled_from([9, 200, MOST]))))
    n = data.draw(st.integers(0, 3))

    def vector(values):
        return data.draw(st.lists(values, min_size=n, max_size=n))

    arguments = {
        "tasks": np.array(vector(st.integers(0, 60) | st.integers(0, 2**62)), dtype=np.int64),
        "task_size": np.array(vector(quarter)),
        "size": np.array(vector(quarter)),
        "stretch": np.array(vector(quarter)),
        "leaves": leaves,
        "rule": rule,
    }
    result = summaries.debit(cells, grid, **arguments)
    np.testing.assert_array_equal(result, reference.debit(cells, grid, **arguments))
    assert (result <= cells).all()
    if n == 1:
        scalars = {name: value[0] if np.ndim(value) else value for name, value in arguments.items()}
        np.testing.assert_array_equal(result, summaries.debit(cells, grid, **scalars))


@pytest.mark.parametrize("rule", [None, "subtree", "printed"])
def test_many_debits_equal_reference(rule):
    rng, options = np.random.default_rng(10), {} if rule is None else {"rule": rule}
    for _ in range(150):
        n = rng.integers(0, 4)
        sent = {
            "tasks": rng.integers(0, 5, n),
            "task_size": rng.integers(1, 9, n) / 4,
            "size": rng.choice([0.5, 1.0, 4.0, 5.0, 16.0], n),
            "stretch": rng.choice([0.5, 1.0, 1.5, 4.0, 5.0], n),
        }
        # counts that violate the invariants are accepted, too
        cells = random_cells(rng) if rng.random() < 0.7 else rng.integers(0, 60, GRID.shape)
        leaves = int(rng.integers(1, 5))
        actual = summaries.debit(cells, GRID, **sent, leaves=leaves, **options)
        expected = reference.debit(cells, GRID, **sent, leaves=leaves, **options)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("module", [summaries, reference])
def test_debits_of_very_many_tasks_do_not_overflow(module):
    assert module.debit_drop([2**63 - 1], [1.0], 1.0, 1) == 2**63 - 1
    # by the printed rule, the drop exceeds every count if the work does not fit into float64
    grid = SummaryGrid([1.0], [1.0], [1.0, 1e300])
    cells = np.full(grid.shape, MOST, dtype=np.uint32)
    sent = {"tasks": [2**62], "task_size": [2.0], "size": [1.0], "stretch": [1.0], "leaves": 1}
    assert (module.debit(cells, grid, **sent, rule="printed") == 0).all()


@given(st.data(), st.integers(1, 4), st.integers(1, 3), grids(max_samples=3), st.booleans())
def test_debit_is_never_above_the_truth(data, leaves, dispatches, grid, on_grid):
    release = Fraction(4)
    nodes = [node_of(data.draw(queues(free_at=4.0, max_entries=3))) for _ in range(leaves)]
    cells = exact_summary(nodes, grid, release)
    ledger = {"tasks": [], "task_size": [], "size": [], "stretch": []}
    for _ in range(dispatches):
        if on_grid:
            axes = (grid.stretch, grid.size, grid.task_size)
            stretch, size, a = (Fraction(data.draw(st.sampled_from(axis.tolist()))) for axis in axes)
        else:
            stretch, size, a = (Fraction(data.draw(quarter)) for _ in range(3))
        # any split that no leaf must reject is admissible
        shares = []
        for u, node in enumerate(nodes):
            capacity = min(count(node, stretch, release, size, a), 12)
            shares.append(data.draw(st.integers(0, capacity), label=f"share of leaf {u}"))
            if shares[-1]:
                new = Share(release, size, shares[-1] * a)
                nodes[u] = Node((*node.queue, new), node.speed, node.free_at, node.floor)
        ledger["tasks"].append(sum(shares))
        for name, value in (("task_size", a), ("size", size), ("stretch", stretch)):
            ledger[name].append(float(value))
    assume(sum(ledger["tasks"]) > 0)
    debited = summaries.debit(cells, grid, **ledger, leaves=leaves)
    truth = exact_summary(nodes, grid, release)
    assert (debited <= truth).all()


def exact_summary(nodes, grid, release):
    cells = np.zeros(grid.shape, dtype=np.uint32)
    for i, j, k in np.ndindex(grid.shape):
        s, w, a = Fraction(grid.stretch[i]), Fraction(grid.size[j]), Fraction(grid.task_size[k])
        cells[i, j, k] = sum(count(node, s, release, w, a) for node in nodes)
    return cells


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.floats(1e-3, 1e6)), max_size=4),
    st.floats(1e-3, 1e6),
    st.integers(1, 10**6),
)
def test_debit_drop_equals_reference(dispatches, cell, leaves):
    tasks, sizes = np.array([n for n, _ in dispatches], dtype=np.int64), [a for _, a in dispatches]
    assert summaries.debit_drop(tasks, sizes, cell, leaves) == reference.debit_drop(
        tasks, sizes, cell, leaves
    )
