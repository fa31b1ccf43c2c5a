"""The axis of bytes per Mflop: lemmas on the reports of leaves, and on debited summaries."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gridcore.queues.data_queues import DataQueues
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.model.applications import Application
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.schedulers.fair_tree.data_axis import DataAxis, data_samples

GRID = SummaryGrid([0.25, 0.5, 1.0, 2.0, 6.0], [2.0, 8.0, 30.0], [0.5, 1.0, 3.0])
SAMPLES = (0.0, 0.5, 2.0)
NOW = 2 * 10**9
few = st.integers(1, 6)
data = st.sampled_from([0.0, 0.25, 0.5, 1.5, 2.0])  # bytes/Mflop; all times are whole ns
shares = st.tuples(
    st.sampled_from([-3.0, 0.0, 1.0]), st.sampled_from([2.0, 6.0, 25.0]), st.sampled_from([0.5, 1.0, 2.0]),
    data, st.booleans(), few,
)  # fmt: skip
machines_ = st.tuples(st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.5, 1.0, 4.0]))
platforms = st.lists(machines_, min_size=1, max_size=3)


class Leaves:
    """A few machines with their queues, and the axis of their reports."""

    def __init__(self, machines, applications):
        self.speeds, self.links = (np.array(column) for column in zip(*machines, strict=True))
        self.rows = applications
        release, size, task_size, moved, sends, _ = (
            list(column) for column in zip(*applications, strict=True)
        )
        fetched = [a * b for a, b in zip(task_size, moved, strict=True)]
        sent = [item * way for item, way in zip(fetched, sends, strict=True)]
        self.queues = DataQueues(self.speeds, bandwidth=self.links)
        self.queues.add_applications(release, size, task_size, input_bytes=fetched, output_bytes=sent)
        moving = Workload.of([0.0], 1, 1.0, input_bytes=1.0, output_bytes=1.0).realize(Platform.equal(1))
        run = SimpleNamespace(applications=moving, bandwidth=self.links, speeds=self.speeds)
        self.axis = DataAxis(GRID, SAMPLES, run)

    def cells(self, u):
        view = SimpleNamespace(machine=u, speed=float(self.speeds[u]))
        view.sample = lambda grid, release: self.queues.summaries([u], grid, release)[0]
        return self.axis.sample(view, NOW)

    def all_cells(self, *, taken=True):
        """Return the sum over leaves; with `taken`, after each leaf has started a task if it can."""
        ask = self.cells if taken else self.cells_before
        return sum(ask(u).astype(np.int64) for u in range(len(self.speeds)))

    def cells_before(self, u):
        view = SimpleNamespace(machine=u, speed=float(self.speeds[u]))

        def sample(grid, release):
            asked = product(grid.stretch, grid.size, grid.task_size)
            actual = [
                self.queues.available(s, release / 1e9, w, a, release, machines=[u])[0] for s, w, a in asked
            ]
            return np.array(actual, np.uint32).reshape(grid.shape)

        view.sample = sample
        return self.axis.sample(view, NOW)


def busy(machines, before, new):
    """Machines to which the first shares came at 0, in turn; `new` is an application that is in no queue."""
    leaves = Leaves(machines, [*before, new])
    for k, row in enumerate(before):
        leaves.queues.enqueue([k % len(machines)], [k], [row[-1]], 0)
    leaves.queues.reschedule(range(len(machines)), 0)
    leaves.queues.advance(NOW)
    return leaves


@settings(max_examples=60, deadline=None)
@given(platforms, st.lists(shares, max_size=4), shares)
def test_availability_is_monotone_in_all_axes(machines, before, new):
    cells = busy(machines, before, new).all_cells()
    samples, stretch, size, task_size = np.diff(cells, axis=0), *(np.diff(cells, axis=k) for k in (1, 2, 3))
    assert (samples <= 0).all() and (task_size <= 0).all()
    assert (stretch >= 0).all() and (size >= 0).all()


@settings(max_examples=60, deadline=None)
@given(platforms, st.lists(shares, max_size=4), shares)
def test_a_leaf_never_reports_more_than_its_room(machines, before, new):
    """A cell of no less bytes per Mflop and task size is never above the room for the application itself.

    A leaf reports as if a task that can be taken now had been: the room may be that of a moment later.
    """
    release = NOW / 1e9
    leaves = busy(machines, before, (release, *new[1:]))
    _, size, task_size, moved, *_ = new
    part = leaves.axis.slice_of(Application(0, 1, task_size, size, release, 0, moved * task_size))
    assert part is not None and SAMPLES[part] >= moved
    j, k = int(np.flatnonzero(GRID.size <= size)[-1]), int(np.flatnonzero(GRID.task_size >= task_size)[0])
    everyone = range(len(machines))
    cells = [leaves.cells(u)[part, :, j, k] for u in everyone]
    capacities = []
    for now in (NOW, NOW + 1):
        leaves.queues.advance(now)
        capacities.append(
            [leaves.queues.capacity_of(s, len(before), now, everyone) for s in GRID.stretch.tolist()]
        )
    maximum = np.max(capacities, axis=0)
    assert (maximum + 1e-6 * maximum >= np.array(cells).T).all()


@settings(max_examples=60, deadline=None)
@given(platforms, st.lists(shares, max_size=3), shares, st.sampled_from(GRID.stretch.tolist()), st.randoms())
def test_a_debited_summary_stays_a_bound(machines, before, new, stretch, random):
    """The bound holds however the child divides the dispatched tasks among leaves with room."""
    release = NOW / 1e9
    leaves = busy(machines, before, (release, *new[1:]))
    everyone = range(len(machines))
    capacity = leaves.queues.capacity_of(stretch, len(before), NOW, everyone)
    parts = [random.randint(0, min(9, int(maximum))) for maximum in capacity]
    given_before = leaves.all_cells(taken=False)
    if not sum(parts):
        return
    for u, part in zip(everyone, parts, strict=True):
        if part:
            leaves.queues.enqueue([u], [len(before)], [part], NOW)
            leaves.queues.reschedule([u], NOW)
    _, size, task_size, moved, *_ = new
    debited = leaves.axis.debit(
        given_before.astype(np.uint32), len(machines), (moved,),
        tasks=(sum(parts),), task_size=(task_size,), size=(size,), stretch=(stretch,), age=[0.0],
    )  # fmt: skip
    assert (debited.astype(np.int64) <= leaves.all_cells(taken=False)).all()


def test_machines_with_infinite_links_report_as_without_data():
    leaves = Leaves([(2.0, np.inf)], [(0.0, 6.0, 1.0, 1.0, True, 1)])
    cells = leaves.cells(0)
    assert (cells == cells[0]).all() and cells.any()


def test_an_application_with_more_data_than_the_last_sample_has_no_slice():
    axis = Leaves([(1.0, 1.0)], [(0.0, 6.0, 1.0, 1.0, True, 1)]).axis
    assert axis.slice_of(Application(0, 1, 1.0, 6.0, 0.0, 0, 2.1)) is None
    assert axis.slice_of(Application(0, 1, 1.0, 6.0, 0.0, 0, 0.0, 0.4)) == 1


def test_data_samples_equal_or_cover_those_of_applications():
    workload = Workload.of([0.0] * 6, 1, 2.0, input_bytes=[0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    applications = workload.realize(Platform.equal(1))
    assert data_samples(applications, 6) == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert data_samples(applications, 2) == (2.0, 5.0)  # half of the applications have at most 2 bytes/Mflop
