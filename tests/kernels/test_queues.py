"""Task queues: equality with the twin that steps task by task, and the laws of service."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from exact_oracles import Node, Share, minimum_stretch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridcore import availability, edf, queues
from gridcore.grid import SummaryGrid
from gridcore.reference import queues as twin

QUICK = settings(max_examples=60, deadline=None)
BOTH = pytest.mark.parametrize("module", [queues, twin])
NEVER = queues.NEVER
NS = 10**9
GRID = SummaryGrid([0.25, 0.5, 1.0, 2.0, 4.0, 8.0], [0.5, 2.0, 8.0, 32.0], [0.5, 1.0, 3.0])

quarters = st.integers(1, 24).map(lambda k: k / 4.0)
sizes = st.integers(1, 40).map(float)
speeds = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0])
# Whole seconds and halves meet the ends of tasks; the rest does not.
steps = st.integers(0, 8).map(lambda k: k * NS // 2) | st.integers(0, 5 * NS)


def same(ours, expected):
    """Equal values of equal types."""
    assert type(ours) is type(expected)
    if isinstance(ours, tuple):
        assert len(ours) == len(expected)
        for a, b in zip(ours, expected, strict=True):
            same(a, b)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)
    else:
        assert ours == expected


def totals_of(store):
    return {name: column.tolist() for name, column in store.totals().items()}


def rows_of(completed):
    return list(zip(*(column.tolist() for column in completed), strict=True))


class Program(RuleBasedStateMachine):
    """The kernel and its twin side by side."""

    @initialize(
        speed=st.lists(speeds, min_size=1, max_size=4),
        order=st.sampled_from(["edf", "fifo"]),
        watch=st.sampled_from(["idle", "completion"]),
        log=st.booleans(),
        record=st.booleans(),
    )
    def start(self, speed, order, watch, log, record):
        self.ours = queues.TaskQueues(speed, order=order, watch=watch, log=log, record=record)
        self.twin = twin.TaskQueues(speed, order=order, watch=watch, log=log, record=record)
        self.now = self.applications = self.enqueued = self.lost = 0
        self.machines = len(speed)
        self.log = log
        self.add(0.0, 4.0, 1.0)

    def both(self, call, *arguments, **options):
        ours = getattr(self.ours, call)(*arguments, **options)
        same(ours, getattr(self.twin, call)(*arguments, **options))
        return ours

    def pick(self, data):
        some = st.lists(st.integers(0, self.machines - 1), min_size=1, max_size=6)
        return data.draw(some, label="machines")

    @rule(age=st.integers(0, 40).map(lambda k: k / 4.0), size=sizes, task_size=quarters)
    def add(self, age, size, task_size):
        self.both("add_applications", [self.now / NS - age], [size], [task_size])
        self.applications += 1

    @rule(data=st.data(), order=st.booleans())
    def enqueue(self, data, order):
        machines = self.pick(data)
        k = len(machines)
        which = st.lists(st.integers(0, self.applications - 1), min_size=k, max_size=k)
        count = st.lists(st.integers(1, 7), min_size=k, max_size=k)
        tasks = data.draw(count, label="tasks")
        self.both("enqueue", machines, data.draw(which, label="applications"), tasks, self.now)
        self.enqueued += sum(tasks)
        if order:
            self.both("reschedule", machines, self.now)

    @rule(data=st.data())
    def reschedule(self, data):
        self.both("reschedule", self.pick(data), self.now)

    @rule(data=st.data(), step=steps, some=st.booleans())
    def advance(self, data, step, some):
        self.now += step
        self.both("advance", self.now, self.pick(data) if some else None)

    @rule(step=steps)
    def catch_up(self, step):
        self.now += step
        self.both("catch_up", self.now)

    @rule(data=st.data(), step=steps)
    def fail(self, data, step):
        self.now += step
        _, _, tasks = self.both("fail", self.pick(data), self.now)
        self.lost += int(tasks.sum())

    @rule(step=steps)
    def due(self, step):
        self.now += step
        self.both("due", self.now)
        assert self.ours.next_change() > self.now

    @rule()
    def next(self):
        at = self.ours.next_change()
        if at < NEVER:
            self.now = max(self.now, at)
            assert len(self.both("due", self.now)) > 0

    @rule(data=st.data())
    def ask(self, data):
        machines = self.pick(data)
        self.both("minimum_stretch", machines, self.now)
        self.both("summaries", machines, GRID, self.now, cell=self.now + data.draw(steps))
        new = [data.draw(x) for x in (quarters, sizes, quarters)]
        question = (new[0], self.now / NS, new[1], new[2], self.now)
        some = self.both("available", *question, machines=machines)
        same(some, self.both("available", *question)[machines])

    @invariant()
    def equal(self):
        if not hasattr(self, "ours"):
            return
        totals = totals_of(self.ours)
        assert totals == totals_of(self.twin)
        for kind in ("schedule", "arrivals"):
            rows, theirs = getattr(self.ours, kind)(), getattr(self.twin, kind)()
            assert list(rows) == list(theirs)
            for name, column in rows.items():
                same(column, theirs[name])
        if self.ours.record:
            ran = self.ours.schedule()
            assert self.ours.arrivals()["tasks"].sum() == self.enqueued
            assert ran["completed"].sum() == sum(totals["tasks"])
            assert (ran["end"] > ran["start"]).all()
            same_machine = ran["machine"][1:] == ran["machine"][:-1]
            assert (ran["start"][1:] >= ran["end"][:-1])[same_machine].all()
        assert self.ours.next_change() == self.twin.next_change()
        everyone = list(range(self.machines))
        self.both("is_busy", everyone)
        self.both("summaries", everyone, GRID, self.now)
        waiting = 0
        for u in everyone:
            _, tasks, running, _ = self.both("queue", u)
            waiting += int(tasks.sum()) + (running >= 0)
        totals = totals_of(self.ours)
        assert self.enqueued == sum(totals["completed"]) + self.lost + waiting
        assert sum(totals["completed"]) == sum(totals["tasks"])


Program.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestProgram = Program.TestCase


@pytest.mark.parametrize(("order", "watch"), [("edf", "idle"), ("fifo", "completion")])
def test_a_long_story_equals_twin(order, watch):
    """With failures of running tasks and questions about later instants: longer than Hypothesis goes."""
    random = np.random.default_rng(3)
    stores = [
        module.TaskQueues([0.5, 1.0, 3.0], order=order, watch=watch, log=True, record=True)
        for module in (queues, twin)
    ]
    rows = random.integers(-32, 0, 6) / 4, random.integers(4, 160, 6) / 4, random.integers(1, 12, 6) / 4

    def both(call, *arguments, **options):
        ours, expected = (getattr(store, call)(*arguments, **options) for store in stores)
        same(ours, expected)

    both("add_applications", *rows)
    now = 0
    for _ in range(150):
        now += int(random.integers(0, 4)) * NS // 2
        machines = random.permutation(3)[: random.integers(1, 4)]
        k = len(machines)
        both("enqueue", machines, random.integers(0, 6, k), random.integers(1, 4, k), now)
        both("reschedule", machines, now)
        if random.random() < 0.3:
            now += int(random.integers(0, 4)) * NS // 4
            both("fail", machines, now)
        both("minimum_stretch", [0, 1, 2], now)
        both("summaries", [0, 1, 2], GRID, now, cell=now + int(random.integers(0, 12)) * NS // 2)
        both("summaries", [0, 1, 2], GRID, now)
        both("advance", now)
        both("next_change")
        assert totals_of(stores[0]) == totals_of(stores[1])
    for kind in ("schedule", "arrivals"):
        ours, expected = (getattr(store, kind)() for store in stores)
        assert {name: x.tolist() for name, x in ours.items()} == {
            name: x.tolist() for name, x in expected.items()
        }
    assert [store.enqueued for store in stores] == [stores[0].arrivals()["tasks"].sum()] * 2
    assert [store.tasks_done for store in stores] == [stores[0].totals()["tasks"].sum()] * 2


@BOTH
def test_what_has_ended_counts_before_a_later_instant(module):
    """At 2 s only the second application is left, but the first one will have had a stretch of 3 by then."""
    store = module.TaskQueues([1.0])
    store.add_applications([-2.0, 0.0], [1.0, 100.0], [1.0, 1.0])
    store.enqueue([0, 0], [0, 1], [1, 4], 0)
    grid = SummaryGrid([1.0, 3.0], [100.0], [1.0])
    cells = store.summaries([0], grid, 0, cell=2 * NS)
    assert cells[0, 0, 0, 0] == 0 and cells[0, 1, 0, 0] > 0


@BOTH
def test_a_stretch_that_is_kept_but_for_1e_12(module):
    store = module.TaskQueues([1.0])
    store.add_applications([-4504 * 2.0**-52], [1.0], [1.0])
    store.enqueue([0], [0], [1], 0)
    store.advance(1)
    # the running task ends at 1 s, with a stretch of 1 + 1e-12
    assert store.summaries([0], SummaryGrid([1.0], [8.0], [0.5]), 1).tolist() == [[[[14]]]]


# --- laws of one machine or few -------------------------------------------------------------------


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


def merged(*parts):
    """Completions of several calls as one call would give them."""
    result = {}
    for part in parts:
        for machine, application, tasks, end in rows_of(part):
            count, last = result.get((machine, application), (0, -1))
            result[machine, application] = count + tasks, max(last, end)
    return [(*key, *value) for key, value in sorted(result.items())]


@QUICK
@given(cases(), st.lists(st.tuples(steps, st.booleans()), max_size=4), st.integers(0, 40 * NS))
def test_advancing_twice_is_advancing_once(case, stops, last):
    once, twice = case.store(log=True), case.store(log=True)
    now, parts = 0, []
    for gap, machine, application, tasks in case.arrivals:
        for step, everyone in stops:
            if step < gap:
                parts.append(twice.advance(now + step, None if everyone else [machine]))
        now += gap
        for store in (once, twice):
            store.enqueue([machine], [application], [tasks], now)
            store.reschedule([machine], now)
    for step, _ in stops:
        parts.append(twice.advance(min(now + step, now + last)))
    final = once.advance(now + last)
    parts.append(twice.advance(now + last))
    assert merged(*parts) == merged(final) == rows_of(final)
    assert totals_of(once) == totals_of(twice)
    for u in range(len(case.speed)):
        same(once.queue(u), twice.queue(u))
    assert once.next_change() == twice.next_change()


@QUICK
@given(cases())
def test_everything_ends_and_nothing_overlaps(case):
    store = case.store(log=True, watch="completion")
    now, wanted, ends = 0, {}, {}
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
        wanted[machine, application] = wanted.get((machine, application), 0) + tasks
    run(NEVER - 1)
    done = {}
    for machine, application, tasks, end in rows:
        length = round(case.applications[application][2] / case.speed[machine] * NS)
        assert end - length >= max((e for e in ends[machine] if e < end), default=0)
        done[machine, application] = done.get((machine, application), 0) + tasks
    assert done == wanted
    totals = store.totals()
    assert totals["waiting"].sum() == 0
    for u, end in ends.items():
        assert totals["busy"][u] <= max(end)


@QUICK
@given(cases(), st.integers(0, 20 * NS))
def test_the_watch_gives_exactly_the_next_change(case, until):
    idle, each = case.store(watch="idle"), case.store(watch="completion")
    for _, machine, application, tasks in case.arrivals:
        for store in (idle, each):
            store.enqueue([machine], [application], [tasks], 0)
            store.reschedule([machine], 0)
    for store in (idle, each):
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
        found = store.due(at)
        assert len(found) and (np.diff(found) > 0).all()
        for u in found.tolist():
            if store.watch == "idle":
                assert not store.is_busy([u])[0]
            assert store.totals()["tasks"][u] > before["tasks"][u]
        assert store.next_change() > at


@QUICK
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
        # ends are rounded to ns, once a task
        assert (finish[i] / NS - release[i]) / w <= value * (1 + 1e-9) + 1e-7


@QUICK
@given(cases(machines=1))
def test_fifo_serves_shares_as_they_came(case):
    store = case.store(order="fifo", log=True)
    for _, machine, application, tasks in case.arrivals:
        store.enqueue([machine], [application], [tasks], 0)
        store.reschedule([machine], 0)
    first = list(dict.fromkeys(application for _, _, application, _ in case.arrivals))
    assert store.queue(0)[0].tolist() == first
    rows = rows_of(store.advance(NEVER - 1))
    assert [i for _, i, _, _ in sorted(rows, key=lambda row: row[3])] == first


@QUICK
@given(cases(), steps)
def test_summaries_are_those_of_the_same_queue(case, now):
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
        pinned = {}
        if running >= 0:
            pinned["running_release"], pinned["running_size"], _ = case.applications[running]
        free = max(free_at, now) / 1e9
        queue = (release, size, n * task)
        # for a summary the task that starts at this instant has started
        after, end, begun = n * task, free, dict(pinned)
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
            assert least[u] == edf.optimal_stretch(*queue, speed=case.speed[u], now=free, **pinned)
        assert room[u] == availability.available_tasks(
            1.5, 2.0, 8.0, 0.75, *queue, speed=case.speed[u], free_at=free, **pinned
        )


@QUICK
@given(cases(), st.integers(0, 12 * NS), steps)
def test_a_later_cell_is_the_queue_advanced_to_it(case, now, wait):
    store, later = case.store(), case.store()
    for _, machine, application, tasks in case.arrivals:
        for one in (store, later):
            one.enqueue([machine], [application], [tasks], 0)
            one.reschedule([machine], 0)
    everyone = np.arange(len(case.speed))
    ours = store.summaries(everyone, GRID, now, cell=now + wait)
    least = np.nan_to_num(store.minimum_stretch(everyone, now), posinf=0.0)
    then = later.summaries(everyone, GRID, now + wait)
    for u in everyone.tolist():
        kept = GRID.stretch * (1 + 1e-12) >= least[u]
        np.testing.assert_array_equal(ours[u, kept], then[u, kept])
        assert wait == 0 or not ours[u, ~kept].any()


def test_threads_change_nothing():
    random = np.random.default_rng(3)
    store = queues.TaskQueues(random.uniform(1, 3, 150))
    store.add_applications(-random.uniform(0, 9, 20), random.uniform(1, 20, 20), random.uniform(0.1, 2, 20))
    for _ in range(5):
        store.enqueue(np.arange(150), random.integers(0, 20, 150), random.integers(1, 9, 150), 0)
    store.reschedule(np.arange(150), 0)
    some = random.permutation(150)
    one = store.summaries(some, GRID, NS)
    for threads in (2, 3, 200):
        np.testing.assert_array_equal(store.summaries(some, GRID, NS, threads=threads), one)


# --- single cases -----------------------------------------------------------------------------------


def simple(module, speed=(1.0,), task_size=(1.0, 2.0), **options):
    store = module.TaskQueues(list(speed), **options)
    n = len(task_size)
    store.add_applications([0.0] * n, [4.0 * (i + 1) for i in range(n)], list(task_size))
    return store


@BOTH
def test_a_task_that_could_start_at_the_instant_is_left_open(module):
    store = simple(module, log=True)
    store.enqueue([0], [0], [3], 0)
    assert rows_of(store.advance(2 * NS)) == [(0, 0, 2, 2 * NS)]
    applications, tasks, running, free_at = store.queue(0)
    assert (applications.tolist(), tasks.tolist(), running, free_at) == ([0], [1], -1, 2 * NS)
    # What comes at that very instant may still go before it ...
    store.enqueue([0], [1], [1], 2 * NS)
    store.reschedule([0], 2 * NS)
    store.advance(2 * NS + 1)
    assert store.queue(0)[2] == 0
    # ... but a running task is pinned.
    store.reschedule([0], 2 * NS + 1)
    assert store.queue(0)[2] == 0
    assert store.queue(0)[3] == 3 * NS


@BOTH
def test_totals_of_one_run(module):
    store = simple(module, speed=(1.0, 2.0), log=True)
    store.enqueue([0, 1, 0], [0, 0, 1], [2, 3, 1], NS)
    assert rows_of(store.advance(10 * NS)) == [
        (0, 0, 2, 3 * NS),
        (0, 1, 1, 5 * NS),
        (1, 0, 3, 5 * NS // 2),
    ]
    assert rows_of(store.advance(10 * NS)) == []
    assert totals_of(store) == {
        "first_start": [NS, 3 * NS],
        "finish": [3 * NS, 5 * NS],
        "completed": [5, 1],
        "nodes_used": [2, 1],
        "busy": [4 * NS, 3 * NS // 2],
        "tasks": [3, 3],
        "interrupted": [0, 0],
        "peak_queue": [3, 3],
        "waiting": [0, 0],
    }
    assert (store.enqueued, store.tasks_done) == (6, 6)
    assert len(store.schedule()["tasks"]) == len(store.arrivals()["tasks"]) == 0


@BOTH
def test_a_failure_loses_the_running_task_too(module):
    store = simple(module)
    store.enqueue([0, 0], [0, 1], [3, 2], 0)
    lost = store.fail([0, 0], 3 * NS // 2)
    assert rows_of(lost) == [(0, 0, 2), (0, 1, 2)]
    assert not store.is_busy([0])[0]
    assert store.next_change() == NEVER
    totals = totals_of(store)
    assert totals["busy"] == [3 * NS // 2]
    assert totals["completed"] == [1, 0]
    assert totals["interrupted"] == [1]
    store.fail([0], 3 * NS // 2)  # nothing ran
    assert totals_of(store)["interrupted"] == [1]
    store.enqueue([0], [0], [1], 2 * NS)
    assert store.next_change() == 3 * NS


@BOTH
@pytest.mark.parametrize("watch", ["idle", "completion"])
def test_tasks_shorter_than_a_nanosecond_take_one(module, watch):
    store = simple(module, speed=(4.0,), task_size=(1e-12,), watch=watch)
    store.enqueue([0], [0], [5], 7)
    assert store.next_change() == (12 if watch == "idle" else 8)
    assert store.due(7).tolist() == []
    assert store.due(100).tolist() == [0]
    assert totals_of(store)["finish"] == [12]


@BOTH
def test_nothing_ends_after_the_last_instant(module):
    store = simple(module, task_size=(1.0, 1e9, 1e300))
    with pytest.raises(OverflowError, match="tasks of application 2 on machine 0 end after the last instant"):
        store.enqueue([0], [2], [1], 0)
    with pytest.raises(OverflowError, match="application 1 on machine 0 end after the last instant"):
        store.enqueue([0], [1], [10], 0)
    with pytest.raises(OverflowError, match="application 0 on machine 0 end after the last instant"):
        store.enqueue([0], [0], [1], NEVER - 10)
    assert totals_of(store)["waiting"] == [0]
    with pytest.raises(OverflowError):  # 9.2e18 ns are already too long for a task
        simple(module, task_size=(9.2e9,)).enqueue([0], [0], [1], 0)
    store.enqueue([0], [1], [9], 0)
    assert store.next_change() == 9 * 10**18
    with pytest.raises(OverflowError, match="end after the last instant"):
        store.enqueue([0], [0], [2**31 - 1], 0)
    assert store.next_change() == 9 * 10**18
    assert totals_of(store)["waiting"] == [9]


@BOTH
def test_who_is_refused_has_come_to_the_instant_all_the_same(module):
    """The task of 1 s has ended when the next share is refused: nothing more changes."""
    store = simple(module)
    store.enqueue([0], [0], [1], 0)
    with pytest.raises(OverflowError, match="end after the last instant"):
        store.enqueue([0], [0], [2**31 - 1], NEVER - 10)
    assert store.next_change() == NEVER and store.due(NEVER - 1).tolist() == []
    assert totals_of(store)["waiting"] == [0]


@BOTH
def test_a_share_holds_less_than_two_to_the_31_tasks(module):
    store = simple(module)
    store.enqueue([0], [0], [2**31 - 2], 0)
    store.enqueue([0], [0], [1], 0)
    store = simple(module)
    store.enqueue([0], [0], [2**31 - 1], 0)
    before = totals_of(store)
    with pytest.raises(OverflowError, match="more than 2147483647 tasks of application 0 on machine 0"):
        store.enqueue([0], [0], [1], 0)
    assert totals_of(store) == before
    assert store.next_change() == (2**31 - 1) * NS
    store.enqueue([0], [1], [2**31 - 1], 0)
    assert store.next_change() == 3 * (2**31 - 1) * NS
    assert totals_of(store)["waiting"] == [2 * (2**31 - 1)]


@BOTH
def test_availability_saturates(module):
    store = simple(module)
    assert store.available(1e300, 0.0, 1e5, 1e-5, 0).tolist() == [NEVER]
    assert store.available(0.0, 0.0, 1e5, 1e-5, 0).tolist() == [0]
    assert store.available(2.0**31, 0.0, 2.0**32, 1.0, 0).tolist() == [NEVER]


@BOTH
def test_empty_calls(module):
    store = simple(module, log=True)
    none = np.zeros(0, np.int64)
    store.enqueue([], [], [], 0)
    store.reschedule([], 0)
    same(store.advance(5, []), (none, none, none, none))
    same(store.fail([], 5), (none, none, none))
    same(store.due(5), none)
    same(store.minimum_stretch([], 5), np.zeros(0))
    same(store.is_busy([]), np.zeros(0, np.bool_))
    same(store.summaries([], GRID, 5), np.zeros((0, *GRID.shape), np.uint32))
    nobody = module.TaskQueues([])
    assert nobody.next_change() == NEVER
    assert {column.dtype for column in nobody.totals().values()} == {np.dtype(np.int64)}
    same(nobody.due(5), none)
    same(nobody.available(1.0, 0.0, 1.0, 1.0, 0), none)
    same(store.available(1.0, 0.0, 1.0, 1.0, 5, []), none)
    assert nobody.machines == 0


@BOTH
def test_strided_and_read_only_input(module):
    speed = np.array([1.0, 9.0, 2.0, 9.0])
    speed.flags.writeable = False
    store = module.TaskQueues(speed[::2])
    rows = np.array([[0.0, 4.0, 1.0], [0.0, 8.0, 2.0]])
    rows.flags.writeable = False
    store.add_applications(*rows.T)
    cohort = np.array([[1, 1, 3], [0, 0, 2]], np.int32)
    cohort.flags.writeable = False
    store.enqueue(*cohort.T, 0)
    assert store.queue(1)[1].tolist() == [3]
    assert store.next_change() == 2 * NS
    assert store.machines == 2
    assert (store.order, store.watch, store.log) == ("edf", "idle", False)


REFUSED = [
    (lambda m, s: m.TaskQueues([1.0, math.nan]), ValueError, r"speed\[1\] must be finite and > 0, got nan"),
    (lambda m, s: m.TaskQueues([0.0]), ValueError, r"speed\[0\] must be finite and > 0, got 0.0"),
    (lambda m, s: m.TaskQueues([[1.0]]), ValueError, "speed must have one dimension, got 2"),
    (lambda m, s: m.TaskQueues(["1"]), TypeError, "speed must hold real numbers"),
    (lambda m, s: m.TaskQueues([1.0], order="lifo"), ValueError, "order must be 'edf' or 'fifo', got 'lifo'"),
    (lambda m, s: m.TaskQueues([1.0], watch="x"), ValueError, "watch must be 'idle' or 'completion'"),
    (lambda m, s: s.add_applications([math.inf], [1.0], [1.0]), ValueError, r"release\[0\] must be finite"),
    (lambda m, s: s.add_applications([0.0], [-1.0], [1.0]), ValueError, r"size\[0\] must be finite and > 0"),
    (lambda m, s: s.add_applications([0.0], [1.0], [math.nan]), ValueError, r"task_size\[0\] must be"),
    (lambda m, s: s.add_applications([0.0], [], []), ValueError, "must be equally long, got 1, 0, 0"),
    (lambda m, s: s.add_applications(["0"], [1.0], [1.0]), TypeError, "^release must hold real numbers"),
    (lambda m, s: s.add_applications([0.0], ["1"], [1.0]), TypeError, "^size must hold real numbers"),
    (lambda m, s: s.add_applications([0.0], [1.0], ["1"]), TypeError, "^task_size must hold real numbers"),
    (lambda m, s: s.enqueue([0], [0.5], [1], 0), TypeError, "^applications must hold integers"),
    (lambda m, s: s.enqueue([0], [0], [1.5], 0), TypeError, "^tasks must hold integers"),
    (lambda m, s: s.queue(1), ValueError, r"machine must be in 0\.\.0, got 1"),
    (lambda m, s: s.queue(-1), ValueError, r"machine must be in 0\.\.0, got -1"),
    (lambda m, s: s.is_busy([0, 1]), ValueError, r"machines\[1\] must be in 0\.\.0, got 1"),
    (lambda m, s: s.is_busy([0.5]), TypeError, "machines must hold integers, got dtype float64"),
    (lambda m, s: s.is_busy([[0]]), ValueError, "machines must have one dimension, got 2"),
    (lambda m, s: s.enqueue([0], [2], [1], 0), ValueError, r"applications\[0\] must be in 0\.\.1, got 2"),
    (lambda m, s: s.enqueue([0], [-1], [1], 0), ValueError, r"applications\[0\] must be in 0\.\.1, got -1"),
    (lambda m, s: s.enqueue([0], [0], [0], 0), ValueError, r"tasks\[0\] must be in 1\.\.2147483647, got 0"),
    (lambda m, s: s.enqueue([0], [0], [-3], 0), ValueError, r"tasks\[0\] must be in 1\.\.2147483647, got -3"),
    (lambda m, s: s.enqueue([0], [0], [2**31], 0), ValueError, r"tasks\[0\] must be .*, got 2147483648"),
    (lambda m, s: s.enqueue([0, 0], [0], [1], 0), ValueError, "must be equally long, got 2, 1, 1"),
    (lambda m, s: s.enqueue([0], [0], [1], -1), ValueError, "^now must be >= 0 ns, got -1$"),
    (lambda m, s: s.reschedule([-1], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got -1"),
    (lambda m, s: s.fail([7], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.advance(0, [7]), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.minimum_stretch([7], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.summaries([7], GRID, 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.summaries([0], "grid", 0), TypeError, "grid must be a SummaryGrid, got str"),
    (lambda m, s: s.summaries([0], GRID, 0, threads=0), ValueError, "threads must be >= 1, got 0"),
    (lambda m, s: s.summaries([0], GRID, 5, cell=4), ValueError, "cell must not be before now = 5 ns, got 4"),
    (
        lambda m, s: s.available(math.nan, 0.0, 1.0, 1.0, 0),
        ValueError,
        "stretch must be finite and >= 0, got nan",
    ),
    (lambda m, s: s.available(1.0, math.inf, 1.0, 1.0, 0), ValueError, "release_new must be finite, got inf"),
    (lambda m, s: s.available(1.0, 0.0, 0.0, 1.0, 0), ValueError, "size_new must be finite and > 0, got 0.0"),
    (
        lambda m, s: s.available(1.0, 0.0, 1.0, -1.0, 0),
        ValueError,
        "task_size_new must be finite and > 0, got -1.0",
    ),
    (
        lambda m, s: s.available(1.0, 0.0, 1.0, 1.0, 0, machines=[0, 1]),
        ValueError,
        r"machines\[1\] must be in 0\.\.0, got 1",
    ),
]


@BOTH
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_input_is_refused(module, call, error, message):
    store = simple(module)
    before = totals_of(store)
    with pytest.raises(error, match=message):
        call(module, store)
    assert totals_of(store) == before


@pytest.mark.parametrize("call", [row[0] for row in REFUSED])
def test_refusals_use_the_same_words(call):
    words = []
    for module in (queues, twin):
        with pytest.raises((ValueError, TypeError)) as refused:
            call(module, simple(module))
        words.append(str(refused.value))
    assert words[0] == words[1]


@BOTH
def test_the_last_instant(module):
    store = simple(module)
    for wrong in (-1, NEVER):
        with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{NEVER - 1} ns, got {wrong}$"):
            store.fail([0], wrong)
    store.fail([0], NEVER - 1)


def test_many_shares_on_one_machine():
    # Rows are widened for all machines, and moved to the front where there is room.
    ours, expected = (simple(module, speed=(1.0, 1.0), task_size=(1.0,) * 40) for module in (queues, twin))
    random = np.random.default_rng(1)
    for now in range(0, 60 * NS, NS // 2):
        row = ([0, 1], random.integers(0, 40, 2), random.integers(1, 3, 2), now)
        for store in (ours, expected):
            store.enqueue(*row)
            store.reschedule([now // NS % 2], now)
    for u in (0, 1):
        same(ours.queue(u), expected.queue(u))
    assert totals_of(ours) == totals_of(expected)
