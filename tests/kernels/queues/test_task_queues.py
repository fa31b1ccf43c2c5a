"""Task queues: equality with the reference implementation, which proceeds task by task, and some cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridcore.common.release_queue import ReleaseQueue
from gridcore.common.state import NEVER
from gridcore.queues import task_queues as queues
from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.data_queues import DataQueues
from gridcore.queues.summary_grid import SummaryGrid
from tests._helpers.small_queues import (
    BOTH,
    GRID,
    NS,
    TOLERANCES,
    assert_same_values,
    quarters,
    restored,
    simple,
    sizes,
    speeds,
    steps,
    totals_of,
)
from tests.reference import core_queues as core_reference
from tests.reference import data_queues as data_reference
from tests.reference import task_queues as reference
from tests.reference.release_queue import ReleaseQueue as ReferenceReleases


class Program(RuleBasedStateMachine):
    """The kernel and its reference implementation side by side."""

    @initialize(
        speed=st.lists(speeds, min_size=1, max_size=4),
        order=st.sampled_from(["edf", "fifo"]),
        watch=st.sampled_from(["idle", "completion"]),
        log=st.booleans(),
        record=st.booleans(),
        tolerance=TOLERANCES,
    )
    def start(self, speed, order, watch, log, record, tolerance):
        self.options = {"order": order, "watch": watch, "log": log, "record": record, "tolerance": tolerance}
        self.speed = speed
        self.kernel = queues.TaskQueues(speed, **self.options)
        self.reference = reference.TaskQueues(speed, **self.options)
        self.now = self.applications = self.enqueued = self.lost = 0
        self.rows, self.further = [], []
        self.machines = len(speed)
        self.log = log
        self.add(0.0, 4.0, 1.0)

    def call_both(self, call, *arguments, **options):
        actual = getattr(self.kernel, call)(*arguments, **options)
        assert_same_values(actual, getattr(self.reference, call)(*arguments, **options))
        return actual

    def pick(self, data):
        some = st.lists(st.integers(0, self.machines - 1), min_size=1, max_size=6)
        return data.draw(some, label="machines")

    @rule(age=st.integers(0, 40).map(lambda k: k / 4.0), size=sizes, task_size=quarters)
    def add(self, age, size, task_size):
        self.append([self.now / NS - age], [size], [task_size])

    @rule(data=st.data(), age=st.integers(0, 40).map(lambda k: k / 4.0), size=sizes)
    def add_further(self, data, age, size):
        """Add a resubmitted bag, and an application."""
        n, here = self.applications, sorted(set(range(self.applications)) - set(self.further))
        original = data.draw(st.sampled_from(here), label="whose")
        task_size = self.rows[original][2]
        self.append([self.now / NS - age, 0.0], [size, 3.0], [task_size, 2.0], [original, n + 1])
        self.further.append(n)

    def append(self, release, size, task_size, whose=None):
        self.call_both("add_applications", release, size, task_size, whose)
        whose = range(self.applications, self.applications + len(release)) if whose is None else whose
        self.rows += zip(release, size, task_size, whose, strict=True)
        self.applications += len(release)

    @rule()
    def restore(self):
        self.kernel = restored(self.kernel, queues.TaskQueues(self.speed, **self.options), self.rows)

    @rule(data=st.data(), order=st.booleans())
    def enqueue(self, data, order):
        machines = self.pick(data)
        k = len(machines)
        which = st.lists(st.integers(0, self.applications - 1), min_size=k, max_size=k)
        count = st.lists(st.integers(1, 7), min_size=k, max_size=k)
        tasks = data.draw(count, label="tasks")
        self.call_both("enqueue", machines, data.draw(which, label="applications"), tasks, self.now)
        self.enqueued += sum(tasks)
        if order:
            self.call_both("reschedule", machines, self.now)

    @rule(data=st.data())
    def reschedule(self, data):
        self.call_both("reschedule", self.pick(data), self.now)

    @rule(data=st.data(), step=steps, tasks=st.integers(0, 9), order=st.booleans())
    def withdraw(self, data, step, tasks, order):
        self.now += step
        machine = data.draw(st.integers(0, self.machines - 1), label="machine")
        waiting = set(self.kernel.queue(machine)[0].tolist())
        of = st.sampled_from(sorted(waiting)) if waiting else st.nothing()
        application = data.draw(of | st.integers(0, self.applications - 1), label="application")
        self.enqueued -= self.call_both("withdraw", machine, application, tasks, self.now)
        if order:
            self.call_both("reschedule", [machine], self.now)

    @rule(data=st.data(), step=steps, some=st.booleans())
    def advance(self, data, step, some):
        self.now += step
        self.call_both("advance", self.now, self.pick(data) if some else None)

    @rule(data=st.data(), step=steps, some=st.booleans())
    def catch_up(self, data, step, some):
        self.now += step
        self.call_both("catch_up", self.now, self.pick(data) if some else None)

    @rule(data=st.data(), step=steps)
    def fail(self, data, step):
        self.now += step
        _, _, tasks = self.call_both("fail", self.pick(data), self.now)
        self.lost += int(tasks.sum())

    @rule(step=steps)
    def advance_due(self, step):
        self.now += step
        self.call_both("due", self.now)
        assert self.kernel.next_change() > self.now

    @rule()
    def advance_to_next_change(self):
        at = self.kernel.next_change()
        if at < NEVER:
            self.now = max(self.now, at)
            assert len(self.call_both("due", self.now)) > 0

    def check_next_change(self):
        assert self.kernel.next_change() == self.reference.next_change()

    def check_runs(self, ran):
        same_machine = ran["machine"][1:] == ran["machine"][:-1]
        assert (ran["start"][1:] >= ran["end"][:-1])[same_machine].all()

    @rule(data=st.data())
    def ask(self, data):
        machines = self.pick(data)
        self.call_both("minimum_stretch", machines, self.now)
        for machine in machines:
            self.call_both("work", machine, self.now)
            self.call_both("speed_of", machine)
            self.call_both("cores_of", machine)
            self.call_both("running_count", machine, self.now)
        self.call_both("summaries", machines, GRID, self.now, cell=self.now + data.draw(steps))
        new = [data.draw(x) for x in (quarters, sizes, quarters)]
        question = (new[0], self.now / NS, new[1], new[2], self.now)
        some = self.call_both("available", *question, machines=machines)
        assert_same_values(some, self.call_both("available", *question)[machines])

    def running_tasks(self):
        return sum(self.kernel.queue(u)[2] >= 0 for u in range(self.machines))

    @invariant()
    def check_equality(self):
        if not hasattr(self, "kernel"):
            return
        totals = totals_of(self.kernel)
        assert totals == totals_of(self.reference)
        for name, never in (("first_start", -1), ("nodes_used", 0)):
            assert {totals[name][i] for i in self.further} <= {never}
        for kind in ("schedule", "arrivals"):
            rows, theirs = getattr(self.kernel, kind)(), getattr(self.reference, kind)()
            assert list(rows) == list(theirs)
            for name, column in rows.items():
                assert_same_values(column, theirs[name])
        if self.kernel.record:
            ran = self.kernel.schedule()
            assert self.kernel.arrivals()["tasks"].sum() == self.enqueued
            assert ran["completed"].sum() == sum(totals["tasks"])
            assert (ran["end"] > ran["start"]).all()
            self.check_runs(ran)
        self.check_next_change()
        everyone = list(range(self.machines))
        self.call_both("is_busy", everyone)
        self.call_both("summaries", everyone, GRID, self.now)
        waiting = self.running_tasks()
        for u in everyone:
            waiting += int(self.call_both("queue", u)[1].sum())
        totals = totals_of(self.kernel)
        # tasks of a resubmitted bag are counted in the bag and in its application
        completed = sum(n for i, n in enumerate(totals["completed"]) if i not in self.further)
        assert self.enqueued == completed + self.lost + waiting
        assert completed == sum(totals["tasks"])


Program.TestCase.settings = settings(stateful_step_count=25, deadline=None)
TestProgram = Program.TestCase


@pytest.mark.parametrize(("order", "watch"), [("edf", "idle"), ("fifo", "completion")])
def test_long_runs_equal_reference(order, watch):
    """Failures of running tasks and queries about later instants, in runs longer than those of Hypothesis."""
    rng = np.random.default_rng(3)
    stores = [
        module.TaskQueues([0.5, 1.0, 3.0], order=order, watch=watch, log=True, record=True)
        for module in (queues, reference)
    ]
    rows = rng.integers(-32, 0, 6) / 4, rng.integers(4, 160, 6) / 4, rng.integers(1, 12, 6) / 4

    def call_both(call, *arguments, **options):
        actual, expected = (getattr(store, call)(*arguments, **options) for store in stores)
        assert_same_values(actual, expected)

    call_both("add_applications", *rows)
    now = 0
    for _ in range(150):
        now += int(rng.integers(0, 4)) * NS // 2
        machines = rng.permutation(3)[: rng.integers(1, 4)]
        k = len(machines)
        call_both("enqueue", machines, rng.integers(0, 6, k), rng.integers(1, 4, k), now)
        call_both("reschedule", machines, now)
        if rng.random() < 0.3:
            call_both("withdraw", int(machines[0]), int(rng.integers(6)), int(rng.integers(9)), now)
        if rng.random() < 0.3:
            now += int(rng.integers(0, 4)) * NS // 4
            call_both("fail", machines, now)
        call_both("minimum_stretch", [0, 1, 2], now)
        call_both("summaries", [0, 1, 2], GRID, now, cell=now + int(rng.integers(0, 12)) * NS // 2)
        call_both("summaries", [0, 1, 2], GRID, now)
        call_both("advance", now)
        call_both("next_change")
        assert totals_of(stores[0]) == totals_of(stores[1])
    for kind in ("schedule", "arrivals"):
        actual, expected = (getattr(store, kind)() for store in stores)
        assert {name: x.tolist() for name, x in actual.items()} == {
            name: x.tolist() for name, x in expected.items()
        }
    assert [store.enqueued for store in stores] == [stores[0].arrivals()["tasks"].sum()] * 2
    assert [store.tasks_done for store in stores] == [stores[0].totals()["tasks"].sum()] * 2


@BOTH
def test_a_stretch_is_met_within_1e_12(module):
    store = module.TaskQueues([1.0])
    store.add_applications([-4504 * 2.0**-52], [1.0], [1.0])
    store.enqueue([0], [0], [1], 0)
    store.advance(1)
    # the running task ends at 1 s, with a stretch of 1 + 1e-12
    assert store.summaries([0], SummaryGrid([1.0], [8.0], [0.5]), 1).tolist() == [[[[14]]]]


@BOTH
@pytest.mark.parametrize("watch", ["idle", "completion"])
def test_tasks_shorter_than_a_nanosecond_take_one(module, watch):
    store = simple(module, speed=(4.0,), task_size=(1e-12,), watch=watch)
    store.enqueue([0], [0], [5], 7)
    assert store.next_change() == (12 if watch == "idle" else 8)
    assert store.due(7).tolist() == []
    assert store.due(100).tolist() == [0]
    assert totals_of(store)["finish"] == [12]


@pytest.mark.parametrize("kind", ["tasks", "cores", "data"])
@pytest.mark.parametrize("watch", ["idle", "completion"])
@given(data=st.data(), counts=st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_queues_report_the_ends_of_applications(kind, watch, data, counts):
    """An application in a chain is released when all tasks of the one before are completed."""
    machines, n = 2, len(counts)
    classes, options = {
        "tasks": ((queues.TaskQueues, reference.TaskQueues), {}),
        "cores": ((CoreQueues, core_reference.CoreQueues), {"cores": [1, 2]}),
        "data": ((DataQueues, data_reference.DataQueues), {"bandwidth": [2.0, 1.0]}),
    }[kind]
    chain = [0] * n, list(range(n - 1)), [0, *range(n)], [0, *[NS] * (n - 1)]
    followed = [ReleaseQueue(*chain), ReferenceReleases(*chain)]
    pair = [a_class([1.0, 2.0], watch=watch, **options) for a_class in classes]
    moved = {"input_bytes": [1.0] * n, "output_bytes": [2.0] * n} if kind == "data" else {}
    for one, releases in zip(pair, followed, strict=True):
        one.add_applications([0.0] * n, [float(count) for count in counts], [1.0] * n, **moved)
        one.follow(releases, counts)
    released = 0
    while released < n or pair[0].next_change() < NEVER:
        assert pair[0].next_change() == pair[1].next_change()
        assert followed[0].next_release() == followed[1].next_release()
        now = min(pair[0].next_change(), followed[0].next_release())
        assert_same_values(pair[0].due(now), pair[1].due(now))
        taken = [releases.take(now) for releases in followed]
        assert taken[0] == taken[1]
        for i in taken[0]:
            released += 1
            where = data.draw(st.lists(st.integers(0, machines - 1), min_size=counts[i], max_size=counts[i]))
            for one in pair:
                one.release_applications([i])
                one.enqueue(where, [i] * counts[i], [1] * counts[i], now)
                one.reschedule([*range(machines)], now)
    assert followed[0].release.tolist() == followed[1].release.tolist()
    finish = pair[0].totals()["finish"]
    assert followed[0].release.tolist() == [0, *(finish[:-1] + NS).tolist()]
