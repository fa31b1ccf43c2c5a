"""Lower bounds by the machines that have enough memory and disk: no schedule of small cases beats them."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.optimization.bounds import discrete_bound, fluid_bound
from gridsim.optimization.need_bound import NeedBound, need_bounds

amounts = st.sampled_from([0.0, 2.0, 4.0])
bags = st.tuples(
    st.sampled_from([0.0, 0.0, 2.0]), st.integers(1, 2), st.sampled_from([1.0, 2.0, 5.0]), amounts, amounts
)
machines_ = st.tuples(st.sampled_from([0.5, 1.0, 2.0]), amounts, amounts)


def optimum(rows, machines):
    """Return the smallest maximum stretch over all assignments to suitable machines and all orders."""
    tasks = [i for i, row in enumerate(rows) for _ in range(row[1])]
    suited = [
        [u for u, (_, memory, disk) in enumerate(machines) if memory >= rows[i][3] and disk >= rows[i][4]]
        for i in tasks
    ]
    best = np.inf
    for places, order in product(product(*suited), set(permutations(range(len(tasks))))):
        free, worst = [0.0] * len(machines), 0.0
        for k in order:
            (release, count, size, *_), u = rows[tasks[k]], places[k]
            free[u] = max(free[u], release) + size / machines[u][0]
            worst = max(worst, (free[u] - release) / (count * size))
        best = min(best, worst)
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(bags, min_size=1, max_size=2), st.lists(machines_, min_size=1, max_size=2))
def test_no_schedule_of_a_small_case_beats_the_bounds(rows, others):
    machines = [(1.0, 4.0, 4.0), *others]  # the first machine suits all bags
    speeds, *capacities = (np.array(column) for column in zip(*machines, strict=True))
    release, tasks, task_size, *needs = (np.array(column) for column in zip(*rows, strict=True))
    size, best = tasks * task_size, optimum(rows, machines)

    def fluid(selection, subset):
        return fluid_bound(release[selection], size[selection], subset.sum())

    def discrete(selection, subset):
        return discrete_bound(
            release[selection], size[selection], task_size[selection], tasks[selection], subset
        )

    for bound in (fluid, discrete):
        for actual in need_bounds(np.stack(needs, axis=1), np.stack(capacities, axis=1), speeds, bound):
            assert actual.stretch <= best * (1 + 1e-9)
            columns = {"task_size": task_size, "tasks": tasks} if actual.task_size is not None else {}
            actual.verify(release, size, speeds, **columns)  # its certificate holds for the whole workload


def test_a_result_has_the_bound_of_the_machines_that_can_hold_an_application():
    """Only one of four machines suits the second application, which takes 4 * 2 s on it."""
    own = gs.ListedAttributes(memory=(1.0, 1.0, 1.0, 8.0))
    case = gs.Scenario(
        gs.Platform.of([1000.0] * 4).with_attributes(own),
        gs.Workload.of([0.0, 0.0], 4, [1000.0, 2000.0], memory=[0.0, 8.0]),
    )
    result = gs.simulate(case, gs.MinCent(mode="once"))
    for kind in ("fluid", "discrete"):
        bound = result.bound(kind)
        assert isinstance(bound, NeedBound) and bound.machines is not None
        assert bound.stretch == pytest.approx(8.0 / 8000.0) and bound.machines.tolist() == [3]
        assert bound.applications.tolist() == [1] and bound.first == 1


def test_only_some_of_many_sets_of_machines_are_tried():
    """The smallest and the largest set are among them."""
    needs = np.arange(1.0, 41.0)[:, None]

    def bound(selection, subset):
        return fluid_bound(np.zeros(len(selection)), np.ones(len(selection)), subset.sum())

    actual = need_bounds(needs, needs, np.ones(40), bound)
    assert len(actual) == 12 and actual[0].machines.tolist() == [39] and len(actual[-1].machines) == 39


def shared_optimum(rows, cores, memory):
    """The smallest maximum stretch on a machine of 1 Mflop/s, of all orders in which tasks start early."""
    tasks = [(release, size, count * size, need) for release, count, size, need in rows for _ in range(count)]
    best = np.inf
    for order in set(permutations(tasks)):
        placed: list[tuple[float, float, float]] = []
        worst = 0.0
        for release, size, total, need in order:
            for start in sorted({release, *(end for _, end, _ in placed if end > release)}):
                # of what runs at some instant of the task, the most is at its start or at one of later starts
                instants = [start, *(other for other, _, _ in placed if start < other < start + size)]
                running = [[row for row in placed if row[0] <= at < row[1]] for at in instants]
                if all(
                    len(others) < cores and need + sum(row[2] for row in others) <= memory
                    for others in running
                ):
                    break
            placed.append((start, start + size, need))
            worst = max(worst, (start + size - release) / total)
        best = min(best, worst)
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0]), st.integers(1, 2), st.sampled_from([1.0, 2.0, 3.0]),
            st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0]),
        ),
        min_size=1, max_size=2,
    ),
    st.integers(1, 3), st.sampled_from([0.0, 5.0, 6.0]),
)  # fmt: skip
def test_no_schedule_of_tasks_that_share_memory_beats_the_bounds(rows, cores, memory):
    rows = [(*row, min(need, memory)) for *row, need in rows]
    release, tasks, size, need = (np.array(column) for column in zip(*rows, strict=True))
    best = shared_optimum(rows, cores, memory)

    def bound(selection, subset):
        total = tasks[selection] * size[selection]
        return discrete_bound(release[selection], total, size[selection], tasks[selection], subset)

    capacity = np.array([[memory]])
    options = {"cores": np.array([cores]), "shared": 0}
    for actual in need_bounds(need[:, None], capacity, np.ones(1), bound, **options):
        assert actual.stretch <= best * (1 + 1e-9)
        assert 0 < len(actual.machines) < cores
        actual.verify(release, tasks * size, np.ones(1), task_size=size, tasks=tasks)
