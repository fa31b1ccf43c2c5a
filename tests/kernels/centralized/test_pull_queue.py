"""Pull queue: equality with its reference, invariants, brute force."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridcore.centralized import pull_queue as central
from tests.reference import pull_queue as reference

NEVER = 2**63 - 1
S = 10**9

# Few values, so that ties are frequent; Mflop/s and Mflop such that tasks take nanoseconds up to minutes.
SPEEDS = st.lists(st.sampled_from([1.0, 2.0, 2.0, 3.0, 1000.0, 1234.5]), min_size=1, max_size=7)
SIZES = st.sampled_from([1e-9, 2e-9, 3e-9, 6e-9, 1.0, 10.0])

Plan = list[tuple[int, list[int], list[tuple[int, int]]]]


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[float], list[float], Plan]:
    """Draw speeds, task sizes, and steps (until, order, tasks that arrive before it)."""
    speeds = draw(SPEEDS)
    sizes = draw(st.lists(SIZES, min_size=1, max_size=4))
    indices = st.integers(0, len(sizes) - 1)
    new = list(draw(st.permutations(range(len(sizes)))))
    steps = []
    until = 0
    for _ in range(draw(st.integers(1, 5))):
        until += draw(st.sampled_from([0, 1, 2, 3, 5, 10**9, 10**10]))
        arriving = [(new.pop(), draw(st.integers(0, 12))) for _ in range(draw(st.integers(0, len(new))))]
        steps.append((until, draw(st.lists(indices, max_size=6)), arriving))
    everything = list(draw(st.permutations(range(len(sizes)))))
    steps.append((NEVER, everything, [(i, draw(st.integers(0, 12))) for i in new]))
    return speeds, sizes, steps


def play(kernel: Any, speeds: list[float], sizes: list[float], steps: Plan) -> list[Any]:
    """Return everything visible after each step."""
    queue = kernel.PullQueue(speeds, len(sizes), log=True)
    left = np.zeros(len(sizes), np.int64)
    runs: list[Any] = []
    for until, order, arriving in steps:
        for i, tasks in arriving:
            left[i] = tasks
        runs += [
            queue.run(until, order, left, sizes),
            left.tolist(),
            queue.free_at.tolist(),
            queue.now,
        ]
        runs += [queue.backlog(until // 2), {name: v.tolist() for name, v in queue.totals().items()}]
    runs.append([column.tolist() for column in queue.starts()])
    return runs


# -- pulling --------------------------------------------------------------------------------------------


@given(plans())
def test_pull_queue_equals_reference(plan: tuple[list[float], list[float], Plan]) -> None:
    assert play(central, *plan) == play(reference, *plan)


def test_pull_queue_equals_reference_with_many_machines() -> None:
    """More machines than bits in a word of the set of an application's machines."""
    chance = np.random.default_rng(3)
    speeds = 1000 + 200.0 * chance.integers(0, 11, 150)
    sizes = chance.uniform(500, 5000, 5)
    steps: Plan = [(0, [], [(0, 900), (1, 20)])]
    steps += [
        (at * 10**9, chance.permutation(5).tolist(), [(at // 2 + 1, 400)] if at in (2, 4, 6) else [])
        for at in range(1, 12)
    ]
    steps.append((NEVER, [4, 3, 2, 1, 0], []))
    assert play(central, speeds.tolist(), sizes.tolist(), steps) == play(
        reference, speeds.tolist(), sizes.tolist(), steps
    )


@given(
    SPEEDS,
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 10**9]), st.integers(0, 9), SIZES), max_size=6),
    st.lists(st.tuples(st.sampled_from([0, 1, 3, 10**9]), st.integers(0, 9)), max_size=6),
)
def test_the_method_run_released_equals_reference(
    speeds: list[float], jobs: list[tuple[int, int, float]], stops: list[tuple[int, int]]
) -> None:
    """A machine fails at each stop, and the one that failed before recovers."""

    def runs(kernel: Any) -> list[Any]:
        queue = kernel.PullQueue(speeds, len(jobs), log=True)
        released = np.cumsum([gap for gap, _, _ in jobs] or [0])[: len(jobs)]
        left, sizes = np.array([tasks for _, tasks, _ in jobs], np.int64), [size for _, _, size in jobs]
        first = n_released = waiting = until = 0
        results: list[Any] = []
        for gap, machine in [*stops, (NEVER, 0)]:
            until = min(NEVER, until + gap)
            reached = queue.run_released(until, released, left, sizes, first, n_released, waiting)
            first, n_released, waiting, _ = reached
            results += [*reached, left.tolist(), queue.now]
            if until < NEVER:
                _, lost = queue.fail([machine % len(speeds)], until)
                queue.restore([(machine + 1) % len(speeds)], until)
                np.add.at(left, lost, 1)
                first, waiting = int(lost.min(initial=first)), waiting + len(lost)
        results += [column.tolist() for column in (*queue.starts(), *queue.totals().values())]
        return results

    assert runs(central) == runs(reference)


@given(plans())
def test_pull_queue_keeps_its_invariants(plan: tuple[list[float], list[float], Plan]) -> None:
    """Each task runs once, tasks do not overlap, none starts early or late, and the totals add up."""
    speeds, sizes, steps = plan
    queue = central.PullQueue(speeds, len(sizes), log=True)
    left = np.zeros(len(sizes), np.int64)
    arrived = np.zeros(len(sizes), np.int64)
    since = np.zeros(len(sizes), np.int64)
    for until, order, arriving in steps:
        for i, tasks in arriving:
            left[i] = arrived[i] = tasks
            since[i] = queue.now
        reached = queue.now
        before = len(queue.starts()[0])
        count = queue.run(until, order, left, sizes)
        start = queue.starts()[2][before:]
        assert len(start) == count
        assert ((reached <= start) & (start < until)).all()
        assert (np.diff(start) >= 0).all()
    machine, application, start, end = queue.starts()
    totals = queue.totals()
    assert (left == 0).all()
    assert np.bincount(application, minlength=len(sizes)).tolist() == arrived.tolist()
    assert (start >= since[application]).all()
    for u, speed in enumerate(speeds):
        mine = machine == u
        assert all(s >= e for s, e in zip(start[mine][1:], end[mine], strict=False))
        assert (end - start)[mine].tolist() == [round(sizes[i] / speed * 1e9) for i in application[mine]]
        assert totals["busy"][u] == (end - start)[mine].sum()
        assert totals["tasks"][u] == mine.sum()
    for i in range(len(sizes)):
        mine = application == i
        assert totals["first_start"][i] == (start[mine].min() if mine.any() else -1)
        assert totals["finish"][i] == (end[mine].max() if mine.any() else -1)
        assert totals["completed"][i] == mine.sum()
        assert totals["nodes_used"][i] == len(set(machine[mine].tolist()))


@given(plans(), st.lists(st.integers(0, 40), max_size=4))
def test_running_in_pieces_gives_the_same_result(
    plan: tuple[list[float], list[float], Plan], cuts: list[int]
) -> None:
    speeds, sizes, steps = plan
    pieces: Plan = []
    reached = 0
    for until, order, arriving in steps:
        stops = sorted({min(reached + cut, until) for cut in cuts} | {until})
        pieces += [(stop, order, arriving if stop == stops[0] else []) for stop in stops]
        reached = until
    assert play(central, speeds, sizes, pieces)[-3:] == play(central, speeds, sizes, steps)[-3:]


@given(plans())
def test_pull_queue_is_work_conserving_and_follows_the_order(
    plan: tuple[list[float], list[float], Plan],
) -> None:
    """With a constant order, no machine idles while a task waits, and the first application goes first."""
    speeds, sizes, _ = plan
    tasks = np.arange(5, 5 + len(sizes))
    queue = central.PullQueue(speeds, len(sizes), log=True)
    order = list(range(len(sizes)))[::-1]
    queue.run(NEVER, order, tasks.copy(), sizes)
    machine, application, start, end = queue.starts()
    assert application.tolist() == [i for i in order for _ in range(tasks[i])]
    last = start.max()
    for u in range(len(speeds)):
        mine = machine == u
        edges = [0, *end[mine].tolist()]
        # the machine starts its next task at once, and is idle only if there is none
        assert start[mine].tolist() == edges[:-1]
        assert edges[-1] >= last


@pytest.mark.parametrize("kernel", [central, reference])
def test_a_machine_is_free_when_its_task_ends(kernel: Any) -> None:
    """The faster machine ends at 1 s, when a task arrives: it precedes the other machine, which is idle."""
    queue = kernel.PullQueue([2.0, 1.0], 1, log=True)
    for until in (10**9, 2 * 10**9):
        queue.run(until, [0], np.array([1]), [2.0])
    assert queue.starts()[0].tolist() == [0, 0]


@pytest.mark.parametrize("kernel", [central, reference])
def test_empty_queues_and_the_longest_tasks_are_accepted(kernel: Any) -> None:
    nothing = kernel.PullQueue([], 0)
    columns = [*nothing.totals().values(), *nothing.starts()]
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    # 9.2e18 ns are beyond the last instant; without a log there are no rows
    queue = kernel.PullQueue([1.0], 1)
    assert queue.run(1, [0], np.array([1]), [9.2e9]) == 1
    assert queue.free_at.tolist() == [NEVER] and len(queue.starts()[0]) == 0


def test_tasks_go_to_the_fastest_machine_then_to_the_lowest_id() -> None:
    queue = central.PullQueue([1.0, 3.0, 2.0, 3.0], 1, log=True)
    left = np.array([3])
    queue.run(1, [0], left, [10.0])
    assert queue.starts()[0].tolist() == [1, 3, 2]


def test_no_task_starts_at_the_end_of_a_run() -> None:
    queue = central.PullQueue([1.0], 2, log=True)
    left = np.array([3, 0])
    assert queue.run(10**9, [0], left, [1.0, 1.0]) == 1
    left[1] = 1
    assert queue.run(10**9, [1, 0], left, [1.0, 1.0]) == 0
    assert queue.run(3 * 10**9, [1, 0], left, [1.0, 1.0]) == 2
    assert queue.starts()[1].tolist() == [0, 1, 0]
    assert queue.backlog(5 * 10**8 + 2 * 10**9) == 0.5


def test_machines_wait_until_tasks_arrive() -> None:
    queue = central.PullQueue([2.0, 1.0], 1)
    left = np.zeros(1, np.int64)
    assert queue.run(5 * 10**9, [0], left, [2.0]) == 0
    left[0] = 3
    queue.run(NEVER, [0], left, [2.0])
    assert queue.free_at.tolist() == [7 * 10**9, 7 * 10**9]
    assert queue.totals()["first_start"].tolist() == [5 * 10**9]


def test_the_number_of_used_nodes_is_exact_if_applications_alternate() -> None:
    queue = central.PullQueue([1.0, 1.0], 2)
    left = np.array([10, 10])
    for second in range(1, 10):
        queue.run(second * 10**9, [second % 2, 1 - second % 2], left, [1.0, 1.0])
    assert queue.totals()["nodes_used"].tolist() == [2, 2]


@pytest.mark.parametrize("kernel", [central, reference])
def test_invalid_arguments_of_the_pull_queue_are_rejected(kernel: Any) -> None:
    with pytest.raises(ValueError, match=r"^speed\[1\]"):
        kernel.PullQueue([1.0, float("nan")], 1)
    with pytest.raises(ValueError, match="^applications"):
        kernel.PullQueue([1.0], -1)
    with pytest.raises(ValueError, match="^applications"):
        kernel.PullQueue([1.0], 2**31)
    assert kernel.PullQueue([1.0], 100).applications == 100
    with pytest.raises(TypeError):
        kernel.PullQueue([1.0], 1.5)
    queue = kernel.PullQueue([1.0], 2)
    left = np.array([1, 1])
    with pytest.raises(ValueError, match=r"^order\[1\]"):
        queue.run(9, [0, 2], left, [1.0, 1.0])
    with pytest.raises(ValueError, match=r"^left\[1\]"):
        queue.run(9, [1], np.array([0, -1]), [1.0, 1.0])
    with pytest.raises(ValueError, match="^left"):
        queue.run(9, [0], np.array([1]), [1.0, 1.0])
    with pytest.raises(ValueError, match="^task_size"):
        queue.run(9, [0], left, [1.0] * 3)
    with pytest.raises(ValueError, match=r"^task_size\[0\]"):
        queue.run(9, [0], left, [float("inf"), 1.0])
    with pytest.raises(TypeError, match="^left"):
        queue.run(9, [0], [1, 1], [1.0, 1.0])
    with pytest.raises(ValueError, match="^left"):
        queue.run(9, [0], np.array([1, 0, 1, 0])[::2], [1.0, 1.0])
    with pytest.raises(OverflowError, match="^tasks must end before "):
        kernel.PullQueue([1e-3], 1).run(NEVER, [0], np.array([2]), [9e6])
    with pytest.raises(OverflowError, match="^tasks must end before "):
        late = kernel.PullQueue([1e-300], 1)
        late.run(1, [0], np.array([1]), [1e-300])
        late.run(NEVER, [0], np.array([1]), [1e300])
    with pytest.raises(ValueError, match=r"^speed\[0\]"):
        kernel.PullQueue([float("inf")], 1)
    with pytest.raises(ValueError, match=r"^task_size\[0\]"):
        queue.run(9, [0], left, [0.0, 1.0])
    with pytest.raises(ValueError, match="^left"):
        queue.run(9, [0], left.reshape(1, 2), [1.0, 1.0])
    assert left.tolist() == [1, 1]
    for released, message in (
        ([0], "^released must have as many entries as applications, got 1 and 2$"),
        ([3, 2], r"^released\[1\] must be >= released\[0\], got 2 and 3$"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel.PullQueue([1.0], 2).run_released(9, released, left.copy(), [1e-9, 1e-9], 0, 0, 0)
    with pytest.raises(ValueError, match="^n_released"):
        queue.run_released(9, [0, 0], left, [1.0, 1.0], 0, 3, 0)
    with pytest.raises(ValueError, match=r"^left\[0\]"):
        kernel.PullQueue([1.0], 2).run_released(9, [0, 0], np.array([-1, 1]), [1.0, 1.0], 0, 0, 0)
    queue.run(9, [0], left, [1e-9, 1.0])
    for call in queue.fail, queue.restore:
        with pytest.raises(ValueError, match=r"^machines\[1\]"):
            call([0, 1], 9)
        with pytest.raises(ValueError, match=r"^machines\[0\]"):
            call([-1], 9)
        with pytest.raises(ValueError, match="^now"):
            call([0], 8)
        with pytest.raises(TypeError, match="^machines"):
            call([0.0], 9)


# -- pulling where machines fail ------------------------------------------------------------------------


class Pulling(RuleBasedStateMachine):
    """Kernel and reference side by side; the tasks of machines are recomputed from the log and the losses."""

    @initialize(speeds=SPEEDS, sizes=st.lists(SIZES, min_size=1, max_size=4))
    def start(self, speeds: list[float], sizes: list[float]) -> None:
        self.queues = [kernel.PullQueue(speeds, len(sizes), log=True) for kernel in (central, reference)]
        self.speeds, self.sizes, self.now = speeds, sizes, 0
        self.left = np.zeros(len(sizes), np.int64)
        self.arrived = np.zeros(len(sizes), np.int64)
        self.lost: list[tuple[int, int, int]] = []  # machine, application, instant
        self.down: dict[int, int] = {}  # machine -> number of logged tasks when it failed

    def call_both(self, call: str, *arguments: Any) -> Any:
        kernel, other = (getattr(queue, call)(*arguments) for queue in self.queues)
        assert [x.tolist() for x in kernel or ()] == [x.tolist() for x in other or ()]
        return kernel

    def pick(self, data: st.DataObject) -> list[int]:
        everyone = st.just(list(range(len(self.speeds))))
        some = st.lists(st.integers(0, len(self.speeds) - 1), max_size=4)
        return list(data.draw(some | everyone, label="machines"))

    @rule(data=st.data(), tasks=st.integers(1, 12))
    def arrive(self, data: st.DataObject, tasks: int) -> None:
        i = data.draw(st.integers(0, len(self.sizes) - 1), label="application")
        self.left[i] += tasks
        self.arrived[i] += tasks

    @rule(data=st.data(), step=st.sampled_from([1, 1, 2, 3, 5, 10**9, 10**10]))
    def run(self, data: st.DataObject, step: int) -> None:
        order = data.draw(st.permutations(range(len(self.sizes))), label="order")
        other = self.left.copy()
        self.now += step
        count = self.queues[0].run(self.now, order, self.left, self.sizes)
        assert count == self.queues[1].run(self.now, order, other, self.sizes)
        assert self.left.tolist() == other.tolist()

    def lose(self, machines: list[int]) -> None:
        started = len(self.queues[0].starts()[0])
        lost = self.call_both("fail", machines, self.now)
        np.add.at(self.left, lost[1], 1)
        self.lost += [(u, i, self.now) for u, i in zip(*(x.tolist() for x in lost), strict=True)]
        for u in machines:
            self.down.setdefault(u, started)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.lose(self.pick(data))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.bring_back(self.pick(data))

    def bring_back(self, machines: list[int]) -> None:
        self.call_both("restore", machines, self.now)
        for u in machines:
            self.down.pop(u, None)

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        machines = self.pick(data)
        self.lose(machines)
        self.bring_back(machines)

    @invariant()
    def equal(self) -> None:
        if not hasattr(self, "queues"):
            return
        kernel, other = self.queues
        totals = kernel.totals()
        assert {n: v.tolist() for n, v in totals.items()} == {
            n: v.tolist() for n, v in other.totals().items()
        }
        assert kernel.free_at.tolist() == other.free_at.tolist()
        assert (kernel.now, kernel.backlog(self.now)) == (other.now, other.backlog(self.now))
        rows = self.call_both("starts")
        assert all(u not in rows[0][since:] for u, since in self.down.items())
        open_ = set(self.lost)
        runs = []
        for u, i, begin, end in zip(*(x.tolist() for x in rows), strict=True):
            # the loss is within this run; a later loss belongs to a later task
            at = min((at for v, j, at in self.lost if (v, j) == (u, i) and begin < at < end), default=end)
            open_.discard((u, i, at))
            runs.append((u, i, begin, at, at < end))
        assert not open_ and sum(row[4] for row in runs) == len(self.lost)
        assert (self.arrived == self.left + totals["completed"]).all()
        for u in range(len(self.speeds)):
            mine = [(begin, end) for v, _, begin, end, _ in runs if v == u]
            assert all(end <= begin for (_, end), (begin, _) in pairwise(mine))
            assert totals["busy"][u] == sum(end - begin for begin, end in mine)
            assert totals["tasks"][u] == sum(v == u and not gone for v, _, _, _, gone in runs)
        for i in range(len(self.sizes)):
            mine = [row for row in runs if row[1] == i]
            assert totals["first_start"][i] == min((row[2] for row in mine), default=-1)
            assert totals["finish"][i] == max((row[3] for row in mine if not row[4]), default=-1)
            assert totals["completed"][i] == sum(not row[4] for row in mine)
            assert totals["nodes_used"][i] == len({row[0] for row in mine})


Pulling.TestCase.settings = settings(stateful_step_count=25, deadline=None)
TestPulling = Pulling.TestCase


def test_pull_queue_equals_reference_with_many_failures() -> None:
    """With many machines the heaps are deep, and machines leave them anywhere."""
    chance = np.random.default_rng(8)
    speeds = 1000 + 200.0 * chance.integers(0, 11, 300)
    sizes = chance.uniform(500, 5000, 3)
    runs = []
    for kernel in (central, reference):
        chance = np.random.default_rng(9)
        queue: Any = kernel.PullQueue(speeds, 3, log=True)
        left = np.array([3000, 2000, 1000])
        for step in range(1, 200):
            now = step * 10**8
            queue.run(now, [step % 3, (step + 1) % 3, (step + 2) % 3], left, sizes)
            machines, lost = queue.fail(chance.choice(300, size=step % 40, replace=False), now)
            np.add.at(left, lost, 1)
            queue.restore(chance.choice(300, size=45, replace=False), now)
            runs.append((kernel is reference, machines.tolist(), lost.tolist()))
        queue.run(NEVER, [0, 1, 2], left, sizes)
        assert left.sum() == 0
        assert queue.totals()["completed"].tolist() == [3000, 2000, 1000]
        runs.append((kernel is reference, [x.tolist() for x in queue.starts()], queue.free_at.tolist()))
    half = len(runs) // 2
    assert [row[1:] for row in runs[:half]] == [row[1:] for row in runs[half:]]


@pytest.mark.parametrize("kernel", [central, reference])
def test_a_machine_continues_after_many_lost_tasks(kernel: Any) -> None:
    """The invalid ends of lost tasks are behind a valid one; some of these numbers fill the heap."""
    sizes = [2000.0, 0.5]
    for count in range(50, 80):
        queue, left = kernel.PullQueue([4.0, 1.0], 2), np.array([count + 1, 3])
        for step in range(1, count + 1):
            queue.run(step * S, [0], left, sizes)
            assert queue.fail([1], step * S)[1].tolist() == [0]
            queue.restore([1], step * S)
        assert queue.run(NEVER, [1], left, sizes) == 3
        assert queue.totals()["finish"].tolist() == [500 * S, count * S + 3 * S // 2]


@pytest.mark.parametrize("kernel", [central, reference])
def test_a_failure_loses_the_running_task(kernel: Any) -> None:
    second = 10**9
    queue = kernel.PullQueue([1.0, 1.0, 1.0], 2)
    left = np.array([4, 0])
    queue.run(5 * second, [0], left, [3.0, 1.0])
    assert queue.totals()["finish"].tolist() == [6 * second, -1]
    # machine 0 runs its second task, machine 1 has ended its only one
    machines, lost = queue.fail([1, 0, 0], 5 * second)
    assert (machines.tolist(), lost.tolist()) == ([0], [0])
    totals = {name: column.tolist() for name, column in queue.totals().items()}
    assert totals == {
        "first_start": [0, -1],
        "finish": [3 * second, -1],
        "completed": [3, 0],
        "nodes_used": [3, 0],
        "busy": [5 * second, 3 * second, 3 * second],
        "tasks": [1, 1, 1],
        "interrupted": [1, 0, 0],
    }
    left[0] = 3  # the lost task, and more tasks of an application that had none left
    queue.restore([1], 5 * second)
    queue.run(2**63 - 1, [0], left, [3.0, 1.0])
    assert queue.totals()["tasks"].tolist() == [1, 3, 2]
    assert queue.totals()["finish"].tolist() == [11 * second, -1]
    assert queue.totals()["nodes_used"].tolist() == [3, 0]


@pytest.mark.parametrize("kernel", [central, reference])
def test_a_task_that_ends_as_its_machine_fails_is_completed(kernel: Any) -> None:
    queue = kernel.PullQueue([1.0], 1)
    left = np.array([2])
    queue.run(10**9, [0], left, [1.0])
    assert [x.tolist() for x in queue.fail([0], 10**9)] == [[], []]
    assert queue.run(10**10, [0], left, [1.0]) == 0
    queue.restore([0, 0], 10**10)
    queue.run(NEVER, [0], left, [1.0])
    assert queue.totals()["finish"].tolist() == [11 * 10**9]
    assert queue.totals()["busy"].tolist() == [2 * 10**9]


# -- binding --------------------------------------------------------------------------------------------
