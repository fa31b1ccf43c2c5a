"""Lower bounds by the bandwidth of links: no small schedule beats them; they are tight for many tasks."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.optimization.bounds import fluid_bound
from gridsim.optimization.data_bound import DataBound, link_bound, whole_tasks_bound

amounts = st.sampled_from([0.0, 0.5, 1.0, 3.0, 8.0])
bags = st.tuples(
    st.sampled_from([0.0, 0.0, 2.0]), st.integers(1, 2), st.sampled_from([1.0, 2.0, 5.0]), amounts, amounts
)


def optimum(rows, speeds, links):
    """Return the smallest maximum stretch over all assignments and orders, with unlimited prefetch."""
    tasks = [i for i, row in enumerate(rows) for _ in range(row[1])]
    best = np.inf
    for places in product(range(len(speeds)), repeat=len(tasks)):
        ends = np.zeros(len(rows))
        options = []
        for u in range(len(speeds)):
            mine = [task for task, place in zip(tasks, places, strict=True) if place == u]
            options.append(sorted(set(permutations(mine))))
        for orders in product(*options):
            ends[:] = 0.0
            for u, order in enumerate(orders):
                fetched = free = sent = 0.0
                for i in order:
                    release, _, size, into, out = rows[i]
                    fetched = max(fetched, release) + into / links[u]
                    free = max(free, fetched) + size / speeds[u]
                    sent = max(sent, free) + out / links[u]
                    ends[i] = max(ends[i], sent)
            best = min(
                best, max((end - row[0]) / (row[1] * row[2]) for end, row in zip(ends, rows, strict=True))
            )
    return best


@settings(max_examples=40, deadline=None)
@given(
    st.lists(bags, min_size=1, max_size=2), st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=4, max_size=4)
)
def test_no_schedule_of_a_small_case_beats_the_bounds(rows, numbers):
    speeds, links = np.array(numbers[:2]), np.array(numbers[2:])
    release, tasks, task_size, into, out = (np.array(column) for column in zip(*rows, strict=True))
    size, best = tasks * task_size, optimum(rows, speeds.tolist(), links.tolist())
    for way, moved in (("input", into), ("output", out)):
        if moved.any():
            assert link_bound(release, size, moved / task_size, speeds, links, way).stretch <= best * (
                1 + 1e-9
            )
    full_run = whole_tasks_bound(release, size, task_size, tasks, into, out, speeds, links)
    assert full_run.stretch <= best * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(bags, min_size=2, max_size=6), st.sampled_from([0.5, 1.0, 3.0]))
def test_the_bound_by_links_is_the_largest_over_many_values(rows, value):
    """No other b* than those that are tried gives a larger bound."""
    release, tasks, task_size, into, _ = (np.array(column) for column in zip(*rows, strict=True))
    if not into.any():
        return
    speeds, links = np.array([1.0, 2.0, 0.5]), np.array([2.0, 0.5, 1.0])
    size, moved = tasks * task_size, into / task_size
    best = max(
        fluid_bound(release, size, speeds.sum()).stretch,
        link_bound(release, size, moved, speeds, links, "input").stretch,
    )
    # sets of one application, and the set of all
    for members in [*np.eye(len(rows), dtype=bool), np.ones(len(rows), bool)]:
        work = float((size * np.minimum(1.0, moved / value))[members].sum())
        time = release[members].min() + work / np.minimum(speeds, links / value).sum()
        assert ((time - release) / size)[members].min() <= best * (1 + 1e-9)


def test_the_bound_is_tight_for_many_tasks_of_one_kind():
    scenario = gs.Scenario(
        platform=gs.Platform.of([1000.0, 2000.0]).linked([500.0, 5000.0]),
        workload=gs.Workload.of([0.0], 4000, 1000.0, input_bytes=1000.0),
    )
    result = gs.simulate(scenario, gs.MinCent(mode="once"))
    bound = result.bound("fluid")
    assert isinstance(bound, DataBound) and bound.kind == "input" and bound.value == 1.0
    # the narrow link limits the first machine to 500 Mflop/s; the other computes 2000 Mflop/s
    assert bound.stretch == pytest.approx(1 / 2500)
    assert 1.0 <= result.gap() < 1.001


def test_a_certificate_is_checked_and_a_wrong_one_rejected():
    speeds, links = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    given_ = {"task_size": np.array([1.0]), "tasks": np.array([4])}
    data = {"bandwidth": links, "input_bytes": np.array([3.0]), "output_bytes": np.array([0.0])}
    release, size = np.array([0.0]), np.array([4.0])
    for bound in (
        link_bound(release, size, np.array([3.0]), speeds, links, "input"),
        whole_tasks_bound(
            release, size, *given_.values(), data["input_bytes"], data["output_bytes"], speeds, links
        ),
    ):
        assert float(bound.verify(release, size, speeds, **given_, **data)) == pytest.approx(bound.stretch)
        with pytest.raises(ValueError, match="of its certificate"):
            bound.verify(release, size, 2.0 * speeds, **given_, **(data | {"bandwidth": 2.0 * links}))
