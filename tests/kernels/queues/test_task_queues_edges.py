"""Edges of task queues: rejected input, input at its limits, and the last instants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridcore.common.state import NEVER
from gridcore.queues import task_queues as queues
from tests._helpers.small_queues import GRID, NS, assert_same_values, simple, totals_of
from tests.reference import task_queues as reference


def test_no_task_ends_after_the_last_instant():
    store = simple(queues, task_size=(1.0, 1e9, 1e300))
    with pytest.raises(OverflowError, match="tasks of application 2 on machine 0 must end before "):
        store.enqueue([0], [2], [1], 0)
    with pytest.raises(OverflowError, match="application 1 on machine 0 must end before "):
        store.enqueue([0], [1], [10], 0)
    with pytest.raises(OverflowError, match="application 0 on machine 0 must end before "):
        store.enqueue([0], [0], [1], NEVER - 10)
    assert totals_of(store)["waiting"] == [0]
    with pytest.raises(OverflowError):  # 9.2e18 ns are already too long for a task
        simple(queues, task_size=(9.2e9,)).enqueue([0], [0], [1], 0)
    store.enqueue([0], [1], [9], 0)
    assert store.next_change() == 9 * 10**18
    with pytest.raises(OverflowError, match="must end before "):
        store.enqueue([0], [0], [2**31 - 1], 0)
    assert store.next_change() == 9 * 10**18
    assert totals_of(store)["waiting"] == [9]


def test_a_rejected_share_only_advances_its_machine():
    """The task of 1 s has ended when the next share is rejected; nothing else changes."""
    store = simple(queues)
    store.enqueue([0], [0], [1], 0)
    with pytest.raises(OverflowError, match="must end before "):
        store.enqueue([0], [0], [2**31 - 1], NEVER - 10)
    assert store.next_change() == NEVER and store.due(NEVER - 1).tolist() == []
    assert totals_of(store)["waiting"] == [0]


def test_a_share_holds_fewer_than_two_to_the_31_tasks():
    store = simple(queues)
    store.enqueue([0], [0], [2**31 - 2], 0)
    store.enqueue([0], [0], [1], 0)
    store = simple(queues)
    store.enqueue([0], [0], [2**31 - 1], 0)
    before = totals_of(store)
    with pytest.raises(OverflowError, match="machine 0 must have at most 2147483647 tasks of application 0"):
        store.enqueue([0], [0], [1], 0)
    assert totals_of(store) == before
    assert store.next_change() == (2**31 - 1) * NS
    store.enqueue([0], [1], [2**31 - 1], 0)
    assert store.next_change() == 3 * (2**31 - 1) * NS
    assert totals_of(store)["waiting"] == [2 * (2**31 - 1)]


def test_availability_saturates():
    store = simple(queues)
    assert store.available(1e300, 0.0, 1e5, 1e-5, 0).tolist() == [NEVER]
    assert store.available(0.0, 0.0, 1e5, 1e-5, 0).tolist() == [0]
    assert store.available(2.0**31, 0.0, 2.0**32, 1.0, 0).tolist() == [NEVER]


def test_empty_calls_are_accepted():
    store = simple(queues, log=True)
    none = np.zeros(0, np.int64)
    store.enqueue([], [], [], 0)
    store.reschedule([], 0)
    assert_same_values(store.advance(5, []), (none, none, none, none))
    assert_same_values(store.fail([], 5), (none, none, none))
    assert_same_values(store.due(5), none)
    assert_same_values(store.minimum_stretch([], 5), np.zeros(0))
    assert_same_values(store.is_busy([]), np.zeros(0, np.bool_))
    assert_same_values(store.summaries([], GRID, 5), np.zeros((0, *GRID.shape), np.uint32))
    empty_queues = queues.TaskQueues([])
    assert empty_queues.next_change() == NEVER
    assert {column.dtype for column in empty_queues.totals().values()} == {np.dtype(np.int64)}
    assert_same_values(empty_queues.due(5), none)
    assert_same_values(empty_queues.available(1.0, 0.0, 1.0, 1.0, 0), none)
    assert_same_values(store.available(1.0, 0.0, 1.0, 1.0, 5, []), none)
    assert empty_queues.machines == 0


def test_strided_and_read_only_input_is_accepted():
    speed = np.array([1.0, 9.0, 2.0, 9.0])
    speed.flags.writeable = False
    store = queues.TaskQueues(speed[::2])
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


ERRORS = [
    (lambda m, s: m.TaskQueues([1.0, math.nan]), ValueError, r"speed\[1\] must be finite and > 0, got nan"),
    (lambda m, s: m.TaskQueues([0.0]), ValueError, r"speed\[0\] must be finite and > 0, got 0.0"),
    (lambda m, s: m.TaskQueues([[1.0]]), ValueError, "speed must have one dimension, got 2"),
    (lambda m, s: m.TaskQueues(["1"]), TypeError, "speed must hold real numbers"),
    (lambda m, s: m.TaskQueues([1.0], order="lifo"), ValueError, "order must be 'edf' or 'fifo', got 'lifo'"),
    (lambda m, s: m.TaskQueues([1.0], watch="x"), ValueError, "watch must be 'idle' or 'completion'"),
    (
        lambda m, s: m.TaskQueues([1.0], tolerance=1.0),
        ValueError,
        r"tolerance must be >= 0 and < 1, got 1\.0",
    ),
    (lambda m, s: m.TaskQueues([1.0], tolerance=-1e-9), ValueError, r"tolerance must be .*, got -1e-09"),
    (lambda m, s: m.TaskQueues([1.0], tolerance=math.nan), ValueError, r"tolerance must be .*, got nan"),
    (lambda m, s: m.TaskQueues([1.0], tolerance=math.inf), ValueError, r"tolerance must be .*, got inf"),
    (
        lambda m, s: s.add_applications([0.0], [1.0], [1.0], [3]),
        ValueError,
        r"whose\[0\] must be 2, its own index, or an application below 2 that is not a resubmitted bag, "
        "got 3",
    ),
    (lambda m, s: s.add_applications([0.0], [1.0], [1.0], [-1]), ValueError, r"whose\[0\] .*, got -1"),
    (
        # bags appended in the same call do not count as earlier applications, either
        lambda m, s: s.add_applications([0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2, 2]),
        ValueError,
        r"whose\[1\] must be 3, its own index, .*, got 2",
    ),
    (
        lambda m, s: s.add_applications([0.0], [1.0], [1.0], [1]),
        ValueError,
        r"task_size\[0\] must be 2\.0, the task size of application 1, got 1\.0",
    ),
    (
        lambda m, s: s.add_applications([0.0], [1.0], [1.0], [0, 0]),
        ValueError,
        "whose must have as many entries as release, got 2 and 1",
    ),
    (lambda m, s: s.add_applications([0.0], [1.0], [1.0], [0.0]), TypeError, "^whose must hold integers"),
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
    (lambda m, s: s.withdraw(1, 0, 1, 0), ValueError, r"machine must be in 0\.\.0, got 1"),
    (lambda m, s: s.withdraw(-1, 0, 1, 0), ValueError, r"machine must be in 0\.\.0, got -1"),
    (lambda m, s: s.withdraw(0, 2, 1, 0), ValueError, r"application must be in 0\.\.1, got 2"),
    (lambda m, s: s.withdraw(0, -1, 1, 0), ValueError, r"application must be in 0\.\.1, got -1"),
    (lambda m, s: s.withdraw(0, 0, -1, 0), ValueError, "tasks must be >= 0, got -1"),
    (lambda m, s: s.withdraw(0, 0, 1, -1), ValueError, r"now must be in 0\.\..* ns, got -1"),
    (lambda m, s: s.reschedule([-1], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got -1"),
    (lambda m, s: s.fail([7], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.advance(0, [7]), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.minimum_stretch([7], 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.summaries([7], GRID, 0), ValueError, r"machines\[0\] must be in 0\.\.0, got 7"),
    (lambda m, s: s.summaries([0], "grid", 0), TypeError, "grid must be a SummaryGrid, got str"),
    (lambda m, s: s.summaries([0], GRID, 0, threads=0), ValueError, "threads must be >= 1, got 0"),
    (lambda m, s: s.summaries([0], GRID, 5, cell=4), ValueError, "cell must be at least now, 5 ns, got 4"),
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


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_bad_input_is_rejected(call, error, message):
    store = simple(queues)
    before = totals_of(store)
    with pytest.raises(error, match=message):
        call(queues, store)
    assert totals_of(store) == before


def test_failures_after_the_last_instant_are_rejected():
    store = simple(queues)
    for wrong in (-1, NEVER):
        with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{NEVER - 1} ns, got {wrong}$"):
            store.fail([0], wrong)
    store.fail([0], NEVER - 1)


def test_many_shares_on_one_machine_equal_reference():
    # rows are widened for all machines at once, and moved to the front of the memory if there is room
    actual, expected = (
        simple(module, speed=(1.0, 1.0), task_size=(1.0,) * 40) for module in (queues, reference)
    )
    rng = np.random.default_rng(1)
    for now in range(0, 60 * NS, NS // 2):
        row = ([0, 1], rng.integers(0, 40, 2), rng.integers(1, 3, 2), now)
        for store in (actual, expected):
            store.enqueue(*row)
            store.reschedule([now // NS % 2], now)
        if now % (5 * NS) == 0:
            assert_same_values(*(store.withdraw(0, int(row[1][0]), 2, now) for store in (actual, expected)))
    for u in (0, 1):
        assert_same_values(actual.queue(u), expected.queue(u))
    assert totals_of(actual) == totals_of(expected)


def test_machines_of_very_many_applications_are_counted():
    """With too many applications for a bit per machine, totals are the same, even after a restart."""
    machines, few, many = 4096, 6, 2**17 + 8

    def new_queues(count):
        kernel = queues.TaskQueues(np.ones(machines), order="fifo")
        kernel.add_applications(np.zeros(count), np.full(count, 4.0), np.full(count, 2.0))
        return kernel

    results = []
    for count, numbers in ((few, np.arange(few)), (many, np.arange(few) * (many // few))):
        store, rng = new_queues(count), np.random.default_rng(2)
        for now in range(0, 40 * NS, NS):
            u = np.unique(rng.integers(0, 8, 3))
            store.enqueue(u, numbers[rng.integers(0, few, len(u))], np.full(len(u), 2), now)
            if now == 20 * NS:
                store.fail(np.array([3]), now)
                restored = new_queues(count)
                restored.setstate(store.getstate())
                store = restored
        results.append((store.totals()["nodes_used"][numbers].tolist(), store.getstate()["used"].nbytes))
    assert results[0][0] == results[1][0] and min(results[0][0]) > 1
    assert results[0][1] > 0 == results[1][1]
