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
from gridcore.queues import availability, edf
from gridcore.queues import task_queues as queues
from tests._helpers.exact_oracles import Node, Share, minimum_stretch
from tests._helpers.small_queues import (
    GRID,
    NS,
    TOLERANCES,
    quarters,
    rows_of,
    same,
    sizes,
    speeds,
    steps,
    totals_of,
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


def merge(*parts):
    """Merge the completions of several calls as one call would return them."""
    result = {}
    for part in parts:
        for machine, application, tasks, end in rows_of(part):
            count, last = result.get((machine, application), (0, -1))
            result[machine, application] = count + tasks, max(last, end)
    return [(*key, *value) for key, value in sorted(result.items())]


@given(cases(), st.lists(st.tuples(steps, st.booleans()), max_size=4), st.integers(0, 40 * NS))
def test_advancing_twice_equals_advancing_once(case, stops, last):
    single, twice = case.store(log=True), case.store(log=True)
    now, parts = 0, []
    for gap, machine, application, tasks in case.arrivals:
        for step, everyone in stops:
            if step < gap:
                parts.append(twice.advance(now + step, None if everyone else [machine]))
        now += gap
        for store in (single, twice):
            store.enqueue([machine], [application], [tasks], now)
            store.reschedule([machine], now)
    for step, _ in stops:
        parts.append(twice.advance(min(now + step, now + last)))
    final = single.advance(now + last)
    parts.append(twice.advance(now + last))
    assert merge(*parts) == merge(final) == rows_of(final)
    assert totals_of(single) == totals_of(twice)
    for u in range(len(case.speed)):
        same(single.queue(u), twice.queue(u))
    assert single.next_change() == twice.next_change()


@given(cases())
def test_all_tasks_end_and_no_two_overlap(case):
    store = case.store(log=True, watch="completion")
    now, enqueued_tasks, ends = 0, {}, {}
    rows = []

    def run(until):
        while store.next_change() <= until:
            at = store.next_change()
            store.due(at)
            for machine, _, tasks, end in (new := rows_of(store.advance(at))):
                assert end == at
                assert tasks == 1
                ends.setdefault(machine, []).append(end)
            rows.extend(new)
            assert new

    for gap, machine, application, tasks in case.arrivals:
        run(now + gap)
        now += gap
        store.enqueue([machine], [application], [tasks], now)
        store.reschedule([machine], now)
        enqueued_tasks[machine, application] = enqueued_tasks.get((machine, application), 0) + tasks
    run(NEVER - 1)
    done = {}
    for machine, application, tasks, end in rows:
        length = round(case.applications[application][2] / case.speed[machine] * NS)
        assert end - length >= max((e for e in ends[machine] if e < end), default=0)
        done[machine, application] = done.get((machine, application), 0) + tasks
    assert done == enqueued_tasks
    totals = store.totals()
    assert totals["waiting"].sum() == 0
    for u, end in ends.items():
        assert totals["busy"][u] <= max(end)


@given(cases(), st.integers(0, 20 * NS))
def test_next_change_is_exact(case, until):
    idle, completing = case.store(watch="idle"), case.store(watch="completion")
    for _, machine, application, tasks in case.arrivals:
        for store in (idle, completing):
            store.enqueue([machine], [application], [tasks], 0)
            store.reschedule([machine], 0)
    for store in (idle, completing):
        at = store.next_change()
        if at == NEVER:
            assert not store.is_busy(range(len(case.speed))).any()
            continue
        before = totals_of(store)
        busy = store.is_busy(range(len(case.speed)))
        store.advance(at - 1)
        assert store.next_change() == at
        if store.watch == "completion":
            assert totals_of(store)["completed"] == before["completed"]
        assert (store.is_busy(range(len(case.speed))) == busy).all()
        due = store.due(at)
        assert len(due) and (np.diff(due) > 0).all()
        for u in due.tolist():
            if store.watch == "idle":
                assert not store.is_busy([u])[0]
            assert store.totals()["tasks"][u] > before["tasks"][u]
        assert store.next_change() > at


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
    least = exact.minimum_stretch([0], wait)[0]
    store.reschedule([0], wait)
    value = store.minimum_stretch([0], wait)[0]
    if not store.is_busy([0])[0]:
        assert value == least == math.inf
        return
    # a deadline counts as met within 1e-12 relative, for instants below 1000 s and sizes of at least 1
    assert least - 1e-9 <= value <= least / (1.0 - tolerance) + 1e-9
    order = store.queue(0)[0]
    assert sorted(order) == sorted(exact.queue(0)[0])
    due = [(case.applications[i][0] + value * case.applications[i][1], i) for i in order]
    assert all(a[0] <= b[0] for a, b in pairwise(due))


@given(cases(machines=1))
def test_fifo_serves_shares_in_order_of_arrival(case):
    store = case.store(order="fifo", log=True)
    for _, machine, application, tasks in case.arrivals:
        store.enqueue([machine], [application], [tasks], 0)
        store.reschedule([machine], 0)
    first = list(dict.fromkeys(application for _, _, application, _ in case.arrivals))
    assert store.queue(0)[0].tolist() == first
    rows = rows_of(store.advance(NEVER - 1))
    assert [i for _, i, _, _ in sorted(rows, key=lambda row: row[3])] == first


@given(cases(), steps)
def test_summaries_equal_samples_of_the_queue(case, now):
    store = case.store()
    for _, machine, application, tasks in case.arrivals:
        store.enqueue([machine], [application], [tasks], 0)
        store.reschedule([machine], 0)
    everyone = np.arange(len(case.speed))
    summaries = store.summaries(everyone, GRID, now)
    assert summaries.dtype == np.uint32 and summaries.shape == (len(everyone), *GRID.shape)
    least = store.minimum_stretch(everyone, now)
    room = store.available(1.5, 2.0, 8.0, 0.75, now)
    for u in everyone.tolist():
        i, n, running, free_at = store.queue(u)
        table = case.applications
        release, size, task = (np.array([table[k][c] for k in i]) for c in range(3))
        running_task = {}
        if running >= 0:
            running_task["running_release"], running_task["running_size"], _ = case.applications[running]
        free = max(free_at, now) / 1e9
        queue = (release, size, n * task)
        # for a summary, a task that starts at this instant has started
        after, end, begun = n * task, free, dict(running_task)
        if running < 0 and len(i):
            after[0] = (n[0] - 1) * task[0]
            end = (now + round(task[0] / case.speed[u] * NS)) / 1e9
            begun["running_release"], begun["running_size"], _ = table[i[0]]
        expected = availability.sample_availability(
            GRID, now / 1e9, release, size, after, speed=case.speed[u], free_at=end, **begun
        )
        np.testing.assert_array_equal(summaries[u], expected)
        if len(i) == 0 and running < 0:
            assert least[u] == math.inf
        else:
            assert least[u] == edf.optimal_stretch(*queue, speed=case.speed[u], now=free, **running_task)
        assert room[u] == availability.available_tasks(
            1.5, 2.0, 8.0, 0.75, *queue, speed=case.speed[u], free_at=free, **running_task
        )


@given(cases(), st.integers(0, 12 * NS), steps)
def test_later_cells_equal_those_of_the_advanced_queue(case, now, wait):
    store, later = case.store(), case.store()
    for _, machine, application, tasks in case.arrivals:
        for one in (store, later):
            one.enqueue([machine], [application], [tasks], 0)
            one.reschedule([machine], 0)
    everyone = np.arange(len(case.speed))
    actual = store.summaries(everyone, GRID, now, cell=now + wait)
    least = np.nan_to_num(store.minimum_stretch(everyone, now), posinf=0.0)
    then = later.summaries(everyone, GRID, now + wait)
    for u in everyone.tolist():
        kept = GRID.stretch * (1 + 1e-12) >= least[u]
        np.testing.assert_array_equal(actual[u, kept], then[u, kept])
        assert wait == 0 or not actual[u, ~kept].any()


def test_the_number_of_threads_changes_no_summary():
    random = np.random.default_rng(3)
    store = queues.TaskQueues(random.uniform(1, 3, 150))
    store.add_applications(-random.uniform(0, 9, 20), random.uniform(1, 20, 20), random.uniform(0.1, 2, 20))
    for _ in range(5):
        store.enqueue(np.arange(150), random.integers(0, 20, 150), random.integers(1, 9, 150), 0)
    store.reschedule(np.arange(150), 0)
    machines = random.permutation(150)
    one = store.summaries(machines, GRID, NS)
    for threads in (2, 3, 200):
        np.testing.assert_array_equal(store.summaries(machines, GRID, NS, threads=threads), one)
