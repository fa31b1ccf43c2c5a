"""The axis of memory and disk: lemmas on the reports of leaves, on look-ups, and on debits."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridcore.fair_tree.summaries import debit
from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.model.applications import Application
from gridsim.model.attributes import Attributes, ListedAttributes, Requirements
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.schedulers.fair_tree.needs_axis import NeedsAxis, need_samples

GRID = SummaryGrid([0.25, 0.5, 1.0, 2.0, 6.0], [2.0, 8.0, 30.0], [0.5, 1.0, 3.0])
SAMPLES = ((0.0, 0.0), (2.0, 0.0), (2.0, 5.0), (4.0, 5.0))
NOW = 2 * 10**9
NONE = Requirements()
memories, disks = st.sampled_from([1.0, 2.0, 3.0, 4.0]), st.sampled_from([0.0, 5.0, 9.0])
shares = st.tuples(
    st.sampled_from([-3.0, 0.0, 1.0]), st.sampled_from([2.0, 6.0, 25.0]), st.sampled_from([0.5, 1.0, 2.0]),
    st.integers(1, 6),
)  # fmt: skip
machines_ = st.tuples(st.sampled_from([0.5, 1.0, 2.0]), memories, disks)
platforms = st.lists(machines_, min_size=2, max_size=4)


def axis_of(machines, samples=SAMPLES, wants=NONE):
    speeds, memory, disk = (np.array(column) for column in zip(*machines, strict=True))
    run = SimpleNamespace(
        speeds=speeds,
        attributes=Attributes(memory, disk=disk),
        applications=SimpleNamespace(wants=wants),
        cores=None,
    )
    return NeedsAxis(samples, [speeds], run)


class Leaves:
    """A few machines, each with the next of the shares that came at 0; `new` is in no queue."""

    def __init__(self, machines, before, new):
        self.machines, self.axis = machines, axis_of(machines)
        self.queues = TaskQueues(np.array([speed for speed, *_ in machines]))
        release, size, task_size, _ = zip(*before, new, strict=True)
        self.queues.add_applications(list(release), list(size), list(task_size))
        for k, row in enumerate(before):
            self.queues.enqueue([k % len(machines)], [k], [row[-1]], 0)
        self.queues.reschedule(range(len(machines)), 0)
        self.queues.advance(NOW)

    def available(self, stretch, size, task_size):
        everyone = range(len(self.machines))
        return self.queues.available(stretch, NOW / 1e9, size, task_size, NOW, machines=everyone)

    def cells(self, axis=None):
        """The summary of a router above all leaves, uint32[samples, stretch, size, task size]."""
        actual = [self.available(*at) for at in product(GRID.stretch, GRID.size, GRID.task_size)]
        of_leaves = np.array(actual, np.uint32).T.reshape(len(self.machines), *GRID.shape)
        axis = axis or self.axis
        return sum(axis.sample(u, lambda _, cells=cells: cells) for u, cells in enumerate(of_leaves))


@settings(max_examples=30, deadline=None)
@given(platforms, st.lists(shares, max_size=4), shares, st.data())
def test_availability_is_monotone_in_needs_and_in_what_machines_have(machines, before, new, data):
    leaves = Leaves(machines, before, new)
    cells = leaves.cells().astype(np.int64)
    for (k, one), (j, other) in product(enumerate(SAMPLES), repeat=2):
        if one[0] <= other[0] and one[1] <= other[1]:
            assert (cells[k] >= cells[j]).all()
    larger = [
        (speed, memory + data.draw(memories), disk + data.draw(disks)) for speed, memory, disk in machines
    ]
    assert (leaves.cells(axis_of(larger)) >= cells).all()
    assert (np.diff(cells, axis=1) >= 0).all() and (np.diff(cells, axis=3) <= 0).all()


@settings(max_examples=30, deadline=None)
@given(platforms, st.lists(shares, max_size=4), shares, memories, disks)
def test_cells_are_lower_bounds(machines, before, new, memory, disk):
    """No cell exceeds the room of the machines with so much memory and disk."""
    leaves = Leaves(machines, before, new)
    if not any(m >= 4.0 and d >= 5.0 for _, m, d in machines) or disk > 5.0:
        return  # no sample serves all such applications
    part = leaves.axis.slice_of(Application(0, 1, 1.0, 2.0, 0.0, memory=memory, disk=disk))
    suits = np.array([m >= memory and d >= disk for _, m, d in machines])
    points = list(product(GRID.stretch, GRID.size, GRID.task_size))
    capacities = np.array([leaves.available(*item)[suits].sum() for item in points]).reshape(GRID.shape)
    assert (leaves.cells()[part] <= capacities).all()


@settings(max_examples=40, deadline=None)
@given(
    platforms, st.lists(shares, max_size=3), shares, memories, disks,
    st.sampled_from(GRID.stretch.tolist()), st.randoms(),
)  # fmt: skip
def test_every_slice_of_a_debited_summary_stays_a_bound(machines, before, new, memory, disk, stretch, random):
    """The bound holds however the child divides tasks with any needs among suitable leaves."""
    leaves = Leaves(machines, before, new)
    release, size, task_size, _ = NOW / 1e9, *new[1:]
    leaves.queues.add_applications([release], [size], [task_size])
    capacity = leaves.available(stretch, size, task_size)
    parts = [
        random.randint(0, min(9, int(maximum))) if m >= memory and d >= disk else 0
        for maximum, (_, m, d) in zip(capacity, machines, strict=True)
    ]
    cells_before = leaves.cells()
    if not sum(parts):
        return
    for u, part in enumerate(parts):
        if part:
            leaves.queues.enqueue([u], [len(before) + 1], [part], NOW)
            leaves.queues.reschedule([u], NOW)
    dispatched = {
        "tasks": [sum(parts)], "size": [size], "stretch": [stretch], "age": [0.0]
    }  # fmt: skip

    def debited_cells(cells, count, task_size):
        return debit(cells, GRID, leaves=count, task_size=task_size, **dispatched)

    debited = leaves.axis.debit(cells_before, 0, (memory,), np.array([task_size]), debited_cells)
    assert (debited <= leaves.cells()).all()
    everything = debit(cells_before[0], GRID, leaves=len(machines), task_size=[task_size], **dispatched)
    assert (
        debited[0] == everything
    ).all()  # an application without needs sees the same as in a tree without needs


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 4), st.sampled_from([4, 6, 10])),
        min_size=1, max_size=3,
    ),
    st.lists(st.tuples(shares, st.sampled_from([0, 1, 3, 4])), max_size=3), shares,
    st.sampled_from([0, 1, 3, 4, 6]), st.sampled_from(GRID.stretch.tolist()), st.randoms(),
)  # fmt: skip
def test_debits_count_the_memory_that_cores_share(machines, before, new, need, stretch, random):
    """A leaf that takes dispatched tasks has room for as many others as the debit leaves, or one fewer.

    Memory makes fractions of tasks of tasks, so rounding may take one of each leaf.
    """
    speeds, cores, memory = (np.array(column) for column in zip(*machines, strict=True))
    everyone, samples = range(len(machines)), ((1.0, 0.0), (3.0, 0.0), (6.0, 0.0))
    run = SimpleNamespace(
        speeds=speeds,
        attributes=Attributes(memory.astype(float)),
        applications=SimpleNamespace(wants=NONE),
        cores=cores,
    )
    axis, queues = NeedsAxis(samples, [speeds], run), CoreQueues(speeds, cores=cores, memory=memory)
    rows = [*(row for row, _ in before), (NOW / 1e9, *new[1:])]
    release, size, task_size, tasks = (list(column) for column in zip(*rows, strict=True))
    queues.add_applications(release, size, task_size, memory=[*(each for _, each in before), need])
    for k, count in enumerate(tasks[:-1]):
        queues.enqueue([k % len(machines)], [k], [count], 0)
    queues.reschedule(everyone, 0)
    queues.advance(NOW)

    def cells():
        def leaf(u):
            return axis.sample(u, lambda each: queues.summaries([u], GRID, NOW, memory=each)[0])

        return sum(leaf(u).astype(np.int64) for u in everyone)

    room = queues.available(stretch, release[-1], size[-1], task_size[-1], NOW, memory=need)
    parts = [random.randint(0, min(9, int(most))) for most in room]
    cells_before = cells().astype(np.uint32)
    if not sum(parts):
        return
    for u, part in enumerate(parts):
        if part:
            queues.enqueue([u], [len(before)], [part], NOW)
            queues.reschedule([u], NOW)

    def less(part, count, sizes):
        dispatched = {"tasks": [sum(parts)], "size": [size[-1]], "stretch": [stretch], "age": [0.0]}
        return debit(part, GRID, leaves=count, task_size=sizes, **dispatched)

    debited = axis.debit(cells_before, 0, (float(need),), np.array([task_size[-1]]), less)
    assert (debited <= cells() + len(machines)).all()


def test_an_application_is_looked_up_where_most_machines_serve_it():
    axis = axis_of([(1.0, 4.0, 0.0), (1.0, 4.0, 0.0), (1.5, 2.0, 9.0)], ((4.0, 0.0), (2.0, 5.0)))
    assert axis.slice_of(Application(0, 1, 1.0, 1.0, 0.0, memory=1.0)) == 0
    assert axis.slice_of(Application(0, 1, 1.0, 1.0, 0.0, memory=1.0, disk=1.0)) == 1
    assert axis.leaves[0] == [2.0, 1.0, 1.0, 1.0, 0.0] and axis.speed[1][0] == 1.5


@pytest.mark.parametrize("samples", [((2.0, 0.0),), ((8.0, 0.0), (2.0, 0.0)), ((4.0, 9.0), (2.0, 0.0))])
def test_samples_that_serve_no_machine_of_an_application_are_rejected(samples):
    wants = Requirements(np.array([1.0, 4.0]))
    with pytest.raises(ScenarioError, match=r"application 1, which needs at least 4 bytes"):
        axis_of([(1.0, 4.0, 0.0), (1.0, 4.0, 0.0)], samples, wants)


def test_need_samples_equal_or_cover_the_needs():
    platform = Platform.of([1.0]).with_attributes(ListedAttributes(memory=(9.0,), disk=(9.0,)))
    memory, disk = [3.0, 1.0, 2.0, 1.0], [0.0, 5.0, 1.0, 5.0]
    workload = Workload.of([0.0] * 4, 1, 1.0, memory=memory, disk=disk).realize(platform)
    assert need_samples(workload, 3) == ((1.0, 5.0), (2.0, 1.0), (3.0, 0.0))
    assert need_samples(workload, 2) == ((1.0, 5.0), (3.0, 1.0))
    assert need_samples(workload, 1) == ((3.0, 5.0),)
