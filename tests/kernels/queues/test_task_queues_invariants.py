"""Invariants of task queues on one or a few machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.common.state import NEVER
from gridcore.queues import task_queues as queues
from tests._helpers.exact_oracles import Node, Share, minimum_stretch
from tests._helpers.small_queues import (
    GRID,
    NS,
    TOLERANCES,
    quarters,
    sizes,
    speeds,
    steps,
)


@dataclass(frozen=True)
class Case:
    """Shares that arrive at machines over time: (gap ns, machine, application, tasks)."""

    speed: list[float]
    applications: list[tuple[float, float, float]]
    arrivals: list[tuple[int, int, int, int]]
    options: dict[str, object] = field(default_factory=dict)

    def store(self, module=queues, **options):
        store = module.TaskQueues(self.speed, **{**self.options, **options})
        store.add_applications(*([row[k] for row in self.applications] for k in range(3)))
        return store


@st.composite
def cases(draw, machines=3, max_arrivals=6):
    speed = draw(st.lists(speeds, min_size=1, max_size=machines))
    rows = st.tuples(quarters.map(lambda x: -x), sizes, quarters)
    applications = draw(st.lists(rows, min_size=1, max_size=4))
    arrival = st.tuples(
        steps, st.integers(0, len(speed) - 1), st.integers(0, len(applications) - 1), st.integers(1, 6)
    )
    options = {"order": draw(st.sampled_from(["edf", "fifo"]))}
    return Case(speed, applications, draw(st.lists(arrival, max_size=max_arrivals)), options)


@given(st.lists(st.tuples(quarters, quarters, quarters, st.integers(1, 5)), min_size=1, max_size=6), speeds)
def test_edf_runs_at_the_exact_minimum_stretch(entries, speed):
    store = queues.TaskQueues([speed], log=True)
    release = [-row[0] for row in entries]
    store.add_applications(release, [row[1] for row in entries], [row[2] for row in entries])
    for i, row in enumerate(entries):
        store.enqueue([0], [i], [row[3]], 0)
    store.reschedule([0], 0)
    shares = [Share(Fraction(-r), Fraction(w), Fraction(a) * n, Fraction(a)) for r, w, a, n in entries]
    exact = minimum_stretch(Node(tuple(shares), Fraction(speed), Fraction(0)))
    value = store.minimum_stretch([0], 0)[0]
    assert value == pytest.approx(float(exact), rel=1e-12)
    order, _, running, _ = store.queue(0)
    due = np.array(release) + value * np.array([row[1] for row in entries])
    assert running == -1
    assert (np.diff(due[order]) >= 0).all()
    assert order.tolist() == sorted(range(len(entries)), key=lambda i: (due[i], i))
    store.advance(NEVER - 1)
    finish = store.totals()["finish"]
    for i, (_, w, _, _) in enumerate(entries):
        # ends are rounded to ns, once per task
        assert (finish[i] / NS - release[i]) / w <= value * (1 + 1e-9) + 1e-7


@given(cases(machines=1), TOLERANCES.filter(bool), steps)
def test_a_tolerance_bounds_the_error_of_the_minimum_stretch(case, tolerance, wait):
    """With a running task, or only that, too; the queue is in EDF order at the returned stretch."""
    store, exact = case.store(order="edf", tolerance=tolerance), case.store(order="edf")
    for _, _, application, tasks in case.arrivals:
        for one in (store, exact):
            one.enqueue([0], [application], [tasks], 0)
    store.advance(wait)
    exact.advance(wait)
    minimum = exact.minimum_stretch([0], wait)[0]
    store.reschedule([0], wait)
    value = store.minimum_stretch([0], wait)[0]
    if not store.is_busy([0])[0]:
        assert value == minimum == math.inf
        return
    # a deadline counts as met within 1e-12 relative, for instants below 1000 s and sizes of at least 1
    assert minimum - 1e-9 <= value <= minimum / (1.0 - tolerance) + 1e-9
    order = store.queue(0)[0]
    assert sorted(order) == sorted(exact.queue(0)[0])
    due = [(case.applications[i][0] + value * case.applications[i][1], i) for i in order]
    assert all(a[0] <= b[0] for a, b in pairwise(due))


def test_the_number_of_threads_changes_no_summary():
    rng = np.random.default_rng(3)
    store = queues.TaskQueues(rng.uniform(1, 3, 150))
    store.add_applications(-rng.uniform(0, 9, 20), rng.uniform(1, 20, 20), rng.uniform(0.1, 2, 20))
    for _ in range(5):
        store.enqueue(np.arange(150), rng.integers(0, 20, 150), rng.integers(1, 9, 150), 0)
    store.reschedule(np.arange(150), 0)
    machines = rng.permutation(150)
    one = store.summaries(machines, GRID, NS)
    for threads in (2, 3, 200):
        np.testing.assert_array_equal(store.summaries(machines, GRID, NS, threads=threads), one)
