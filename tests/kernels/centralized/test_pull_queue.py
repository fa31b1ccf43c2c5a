"""Pull queue: equality with its reference, invariants, brute force."""

from __future__ import annotations

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
    rng = np.random.default_rng(3)
    speeds = 1000 + 200.0 * rng.integers(0, 11, 150)
    sizes = rng.uniform(500, 5000, 5)
    steps: Plan = [(0, [], [(0, 900), (1, 20)])]
    steps += [
        (
            instant * 10**9,
            rng.permutation(5).tolist(),
            [(instant // 2 + 1, 400)] if instant in (2, 4, 6) else [],
        )
        for instant in range(1, 12)
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


def test_empty_queues_and_the_longest_tasks_are_accepted() -> None:
    empty_queue = central.PullQueue([], 0)
    columns = [*empty_queue.totals().values(), *empty_queue.starts()]
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    # 9.2e18 ns are beyond the last instant; without a log there are no rows
    queue = central.PullQueue([1.0], 1)
    assert queue.run(1, [0], np.array([1]), [9.2e9]) == 1
    assert queue.free_at.tolist() == [NEVER] and len(queue.starts()[0]) == 0


def running_queue() -> Any:
    """Return a queue of two applications that has run until 9 ns."""
    queue = central.PullQueue([1.0], 2)
    queue.run(9, [0], np.array([1, 1]), [1e-9, 1.0])
    return queue


def run(order: Any = (0,), left: Any = None, task_size: Any = (1.0, 1.0), speed: float = 1.0) -> Any:
    left = np.array([1, 1]) if left is None else left
    return central.PullQueue([speed], 2).run(NEVER, order, left, task_size)


def run_released(released: Any = (0, 0), left: tuple[int, ...] = (1, 1), n_released: int = 0) -> Any:
    return central.PullQueue([1.0], 2).run_released(
        9, released, np.array(left), [1e-9, 1e-9], 0, n_released, 0
    )


def run_late() -> Any:
    late = central.PullQueue([1e-300], 1)
    late.run(1, [0], np.array([1]), [1e-300])
    return late.run(NEVER, [0], np.array([1]), [1e300])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: central.PullQueue([1.0, float("nan")], 1), ValueError, r"^speed\[1\]"),
        (lambda: central.PullQueue([float("inf")], 1), ValueError, r"^speed\[0\]"),
        (lambda: central.PullQueue([1.0], -1), ValueError, "^applications"),
        (lambda: central.PullQueue([1.0], 2**31), ValueError, "^applications"),
        (lambda: central.PullQueue([1.0], 1.5), TypeError, "int"),  # type: ignore[arg-type]
        (lambda: run(order=[0, 2]), ValueError, r"^order\[1\]"),
        (lambda: run([1], left=np.array([0, -1])), ValueError, r"^left\[1\]"),
        (lambda: run(left=np.array([1])), ValueError, "^left"),
        (lambda: run(left=[1, 1]), TypeError, "^left"),
        (lambda: run(left=np.array([1, 0, 1, 0])[::2]), ValueError, "^left"),
        (lambda: run(left=np.array([[1, 1]])), ValueError, "^left"),
        (lambda: run(task_size=[1.0] * 3), ValueError, "^task_size"),
        (lambda: run(task_size=[float("inf"), 1.0]), ValueError, r"^task_size\[0\]"),
        (lambda: run(task_size=[0.0, 1.0]), ValueError, r"^task_size\[0\]"),
        (
            lambda: run(left=np.array([2, 0]), task_size=[9e6, 1.0], speed=1e-3),
            OverflowError,
            "^a task ends after the last instant",
        ),
        (run_late, OverflowError, "^a task ends after the last instant"),
        (
            lambda: run_released([0]),
            ValueError,
            "^released must have as many entries as applications, got 1 and 2$",
        ),
        (
            lambda: run_released([3, 2]),
            ValueError,
            r"^released\[1\] must be >= released\[0\], got 2 and 3$",
        ),
        (lambda: run_released(n_released=3), ValueError, "^n_released"),
        (lambda: run_released(left=(-1, 1)), ValueError, r"^left\[0\]"),
        *(
            (lambda name=name, rest=rest: getattr(running_queue(), name)(*rest), error, message)
            for name in ("fail", "restore")
            for rest, error, message in (
                (([0, 1], 9), ValueError, r"^machines\[1\]"),
                (([-1], 9), ValueError, r"^machines\[0\]"),
                (([0], 8), ValueError, "^now"),
                (([0.0], 9), TypeError, "^machines"),
            )
        ),
    ],
)
def test_invalid_arguments_of_the_pull_queue_are_rejected(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# -- pulling where machines fail ------------------------------------------------------------------------


class PullQueueComparison(RuleBasedStateMachine):
    """Kernel and reference side by side."""

    @initialize(speeds=SPEEDS, sizes=st.lists(SIZES, min_size=1, max_size=4))
    def start(self, speeds: list[float], sizes: list[float]) -> None:
        self.queues = [kernel.PullQueue(speeds, len(sizes), log=True) for kernel in (central, reference)]
        self.speeds, self.sizes, self.now = speeds, sizes, 0
        self.left = np.zeros(len(sizes), np.int64)

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

    @rule(data=st.data(), step=st.sampled_from([1, 1, 2, 3, 5, 10**9, 10**10]))
    def run(self, data: st.DataObject, step: int) -> None:
        order = data.draw(st.permutations(range(len(self.sizes))), label="order")
        other = self.left.copy()
        self.now += step
        count = self.queues[0].run(self.now, order, self.left, self.sizes)
        assert count == self.queues[1].run(self.now, order, other, self.sizes)
        assert self.left.tolist() == other.tolist()

    def lose(self, machines: list[int]) -> None:
        _, lost = self.call_both("fail", machines, self.now)
        np.add.at(self.left, lost, 1)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.lose(self.pick(data))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.call_both("restore", self.pick(data), self.now)

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        machines = self.pick(data)
        self.lose(machines)
        self.call_both("restore", machines, self.now)

    @invariant()
    def check_equality(self) -> None:
        if not hasattr(self, "queues"):
            return
        kernel, other = self.queues
        totals = kernel.totals()
        assert {n: v.tolist() for n, v in totals.items()} == {
            n: v.tolist() for n, v in other.totals().items()
        }
        assert kernel.free_at.tolist() == other.free_at.tolist()
        assert (kernel.now, kernel.backlog(self.now)) == (other.now, other.backlog(self.now))
        self.call_both("starts")


PullQueueComparison.TestCase.settings = settings(stateful_step_count=25, deadline=None)
TestPullQueueComparison = PullQueueComparison.TestCase


def test_pull_queue_equals_reference_with_many_failures() -> None:
    """With many machines the heaps are deep, and machines leave them anywhere."""
    rng = np.random.default_rng(8)
    speeds = 1000 + 200.0 * rng.integers(0, 11, 300)
    sizes = rng.uniform(500, 5000, 3)
    runs = []
    for kernel in (central, reference):
        rng = np.random.default_rng(9)
        queue: Any = kernel.PullQueue(speeds, 3, log=True)
        left = np.array([3000, 2000, 1000])
        for step in range(1, 200):
            now = step * 10**8
            queue.run(now, [step % 3, (step + 1) % 3, (step + 2) % 3], left, sizes)
            machines, lost = queue.fail(rng.choice(300, size=step % 40, replace=False), now)
            np.add.at(left, lost, 1)
            queue.restore(rng.choice(300, size=45, replace=False), now)
            runs.append((kernel is reference, machines.tolist(), lost.tolist()))
        queue.run(NEVER, [0, 1, 2], left, sizes)
        assert left.sum() == 0
        assert queue.totals()["completed"].tolist() == [3000, 2000, 1000]
        runs.append((kernel is reference, [x.tolist() for x in queue.starts()], queue.free_at.tolist()))
    half = len(runs) // 2
    assert [row[1:] for row in runs[:half]] == [row[1:] for row in runs[half:]]


def test_a_machine_continues_after_many_lost_tasks() -> None:
    """The invalid ends of lost tasks are behind a valid one; some of these numbers fill the heap."""
    sizes = [2000.0, 0.5]
    for count in range(50, 80):
        queue, left = central.PullQueue([4.0, 1.0], 2), np.array([count + 1, 3])
        for step in range(1, count + 1):
            queue.run(step * S, [0], left, sizes)
            assert queue.fail([1], step * S)[1].tolist() == [0]
            queue.restore([1], step * S)
        assert queue.run(NEVER, [1], left, sizes) == 3
        assert queue.totals()["finish"].tolist() == [500 * S, count * S + 3 * S // 2]
