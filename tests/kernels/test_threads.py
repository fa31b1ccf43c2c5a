"""Kernels in many threads: equal results, a released GIL, and one call at a time per object."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gridcore
from tests._helpers import thread_work as work

THREADS = 8
# Classes without a mutable state, which need no protection.
STATELESS = ("SummaryGrid", "RandomStream", "View", "BoardView", "EarliestEnds", "StepProfile")
CLASSES = [
    name for name in gridcore.__all__ if isinstance(getattr(gridcore, name), type) and name not in STATELESS
]
# Methods that handlers and observers of nodes call while the core runs.
HANDLER_METHODS = (
    "wake", "work_of", "waiting_at", "tasks_at", "stop", "view_of", "give", "machine_of", "available",
    "capacity_of", "activity", "failed_call", "held_by", "timers_of", "acts_of", "local_messages_of",
    "outbox_sizes", "sent_since", "sample", "sample_rest", "record_calls", "view", "machine",
    "transmission_time", "is_deferred", "held",
)  # fmt: skip
IN_USE = "this object is in use by another call; make one call at a time, from one thread"


@contextmanager
def switching(seconds: float) -> Iterator[None]:
    """Make a thread release the GIL after `seconds` if another thread waits for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


# -- many threads, each with objects of its own -----------------------------------------------------------


def test_every_kernel_has_a_thread_test() -> None:
    assert set(work.CALLS) - set(work.RUNS) | set(work.WITHIN) == set(gridcore.__all__) - {"NEVER"}
    assert set(work.WITHIN.values()) == set(work.RUNS)


@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.claims)])
def test_concurrent_results_equal_sequential_results(rounds: int) -> None:
    """Results agree bit for bit, although all threads read the same arrays."""
    alone = {name: call() for name, call in work.CALLS.items()}
    names = list(work.CALLS)
    barrier = threading.Barrier(THREADS)

    def call_kernels(number: int) -> None:
        for round in range(rounds):
            # threads begin at different kernels, so that all pairs of calls coincide; two threads each make
            # the same calls
            first = (number // 2 * 5 + round) % len(names)
            barrier.wait(600)
            for name in names[first:] + names[:first]:
                np.testing.assert_equal(work.CALLS[name](), alone[name], err_msg=name)

    with switching(1e-5), ThreadPoolExecutor(THREADS) as pool:
        for item in [pool.submit(call_kernels, number) for number in range(THREADS)]:
            try:
                item.result()
            except BaseException:
                barrier.abort()
                raise


# -- the GIL ----------------------------------------------------------------------------------------------


def runs_concurrently(call: Callable[[], Any], concurrent: Callable[[], Any], times: int = 1) -> bool:
    """Return whether another thread runs during `call`, which must release the GIL by itself."""
    go, completed = threading.Event(), threading.Event()

    def run_concurrent() -> None:
        go.wait()
        concurrent()
        completed.set()

    with switching(1000.0):
        thread = threading.Thread(target=run_concurrent)
        thread.start()
        go.set()
        for _ in range(times):
            call()
            actual = completed.is_set()
            if actual:
                break
    thread.join()
    return actual


def release(kind: str) -> tuple[Callable[[], Any], Any]:
    """Return a long call and its object; with few integers, since NumPy releases the GIL to copy many."""
    size, maximum = 60_000, 10**15
    rng = np.random.default_rng(9)
    start, large = np.sort(rng.uniform(0.0, 1e3, size)), rng.uniform(1e3, 1e5, size)
    if kind == "BatchQueue":
        backfill = work.backfill(6000)
        return lambda: backfill.run(maximum), backfill
    if kind == "WorkQueue":
        queue = work.work_queue(60_000)
        return lambda: queue.run(gridcore.NEVER), queue
    if kind == "PullQueue":
        pull, options = work.pull(tasks=4000)
        return lambda: pull.run(*options), pull
    if kind == "TaskQueues":
        queues = work.task_queues(10_000)
        return lambda: queues.catch_up(maximum), queues
    if kind == "SlotSchedules":
        slots, views = work.schedules(3000)
        location = views.views
        return lambda: slots.search(location, np.arange(100), 2000, 30, 0, hops=4), slots
    if kind == "Views":
        many = gridcore.Views(30_000, 20, seed=3)
        return many.cycle, many
    if kind == "aggregate":
        cells = np.zeros((20_000, 300), np.uint32)
        return lambda: gridcore.aggregate(cells), None
    if kind == "gap":
        return lambda: gridcore.gap(1.0, 9.0, 1e4, start, large, large, speed=1.0, free_at=0.0), None
    if kind == "optimal_stretch":
        return lambda: gridcore.optimal_stretch(start, large, large, speed=1.0, now=0.0), None
    if kind == "map_in_turn":
        etc, ready = rng.uniform(1.0, 9.0, (200, 300)), np.zeros(300)
        return lambda: gridcore.map_in_turn(etc, [400] * 200, ready, "mct"), None
    # this call keeps the GIL, so the other thread must wait; otherwise the test would prove nothing
    return lambda: sum(range(3_000_000)), None


@pytest.mark.parametrize(
    "kind",
    [
        "BatchQueue", "WorkQueue", "PullQueue", "TaskQueues", "SlotSchedules", "Views", "aggregate", "gap",
        "optimal_stretch", "map_in_turn",
    ],
)  # fmt: skip
def test_long_calls_release_the_gil(kind: str) -> None:
    """A concurrent call on the object is rejected, and the first call continues."""

    def turn() -> bool:
        call, of = release(kind)
        refusals: list[str] = []

        def concurrent() -> None:
            try:
                if of is not None:
                    of.getstate()
            except RuntimeError as error:
                refusals.append(str(error))

        # a short call ends before the other thread wakes up; calls of functions can be repeated
        came = runs_concurrently(call, concurrent, times=1 if of is not None else 300)
        if of is None:
            return came
        assert refusals in ([], [IN_USE])  # a call while NumPy copies the arguments is not rejected
        assert of.getstate()
        return bool(refusals)

    assert any(turn() for _ in range(40))


def test_a_call_that_holds_the_gil_is_not_interrupted() -> None:
    assert not runs_concurrently(release("Python")[0], lambda: None, times=5)


# -- one object -------------------------------------------------------------------------------------------


class ReentrantState(Mapping[str, Any]):
    """A state that makes a call when an entry is read."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def __getitem__(self, name: str) -> Any:
        self.call()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def arguments(method: str, parameters: list[inspect.Parameter]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of the declared types, with arbitrary values."""
    inputs: dict[str, Any] = {
        "records": np.zeros((1, 1), np.uint8), "views": np.zeros((1, 1), np.int32),
        "record": np.zeros((1, 1), np.uint8), "fields": {},
    }  # fmt: skip
    if method == "bind":
        inputs |= {"jobs": {}, "nodes": {}}
    expected = [p for p in parameters if p.default is p.empty and p.name != "self"]
    named = {p.name: inputs.get(p.name, 0) for p in expected if p.kind is p.KEYWORD_ONLY}
    return [inputs.get(p.name, 0) for p in expected if p.kind is not p.KEYWORD_ONLY], named


def methods(kernel: Any) -> list[str]:
    of = {name: item for base in type(kernel).__mro__[:-1] for name, item in vars(base).items()}
    names = [name for name in of if not name.startswith("_") and name not in HANDLER_METHODS]
    return [name for name in names if inspect.ismethoddescriptor(of[name])]


@pytest.mark.parametrize("name", CLASSES)
def test_a_call_on_an_object_in_use_is_rejected(name: str) -> None:
    """A callback calls all public methods, so that timing is irrelevant."""
    kernels = work.objects()
    own_kernels = {
        kernel_name: item
        for kernel_name, item in kernels.items()
        if kernel_name == name or kernel_name.startswith(f"{name}: ")
    }
    refused: set[tuple[str, str]] = set()

    def call_all_methods() -> None:
        for kernel_name, kernel in own_kernels.items():
            for method in methods(kernel):
                parameters = list(inspect.signature(getattr(kernel, method)).parameters.values())
                positional, named = arguments(method, parameters)
                with pytest.raises(RuntimeError, match=IN_USE):
                    getattr(kernel, method)(*positional, **named)
                refused.add((kernel_name, method))

    with pytest.raises(ValueError, match="state must have an entry"):
        kernels[name].setstate(ReentrantState(call_all_methods))
    assert {(name, "getstate"), (name, "setstate")} <= refused
    assert len({kernel_name for kernel_name, _ in refused}) == len(own_kernels)
    for kernel in own_kernels.values():
        assert kernel.getstate()  # the object is free again


# -- arrays that change -----------------------------------------------------------------------------------


class MutatingArgument:
    """An argument that changes another one when it is read, as another thread might."""

    def __init__(self, values: list[int], change: Callable[[], None]) -> None:
        self.values, self.change = values, change

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.change()
        return np.array(self.values)


def test_kernels_use_their_own_copies_of_checked_indices() -> None:
    """The caller cannot change them during the call, nor later if the kernel keeps them."""
    far = 2**40
    queues = gridcore.TaskQueues([1.0, 2.0])
    queues.add_applications([0.0], [1.0], [1.0])
    machines = np.array([0, 1])
    queues.enqueue(machines, MutatingArgument([0, 0], lambda: machines.fill(far)), [3, 4], 0)
    assert queues.totals()["waiting"].tolist() == [3, 4]

    kept = {name: np.array([0, 1]) for name in ("time", "machine", "until")}
    queue = gridcore.WorkQueue(
        [1.0, 2.0], [2], [5.0, 5.0], [9, 9], order="small", choice="none", max_replicas=1, faults=True
    )
    queue.submit(0, [0, 1])
    queue.feed(kept["time"], kept["machine"], [False, False], kept["until"])
    for array in kept.values():
        array.fill(far)
    # both machines have failed, and no memory beyond the two machines was accessed
    assert queue.run(5) == "blocks"

    offsets = np.array([0, 1, 2])
    ones = [1.0, 1.0]
    rest: dict[str, Any] = {"speed": ones, "free_at": ones, "until": 3.0, "running_size": ones}
    late = MutatingArgument([0, 0], lambda: offsets.fill(far))
    changed = gridcore.project_queues(offsets, ones, ones, ones, ones, **rest, running_release=late)
    expected = gridcore.project_queues([0, 1, 2], ones, ones, ones, ones, **rest, running_release=[0.0, 0.0])
    assert offsets.tolist() == [far] * 3
    assert [column.tolist() for column in changed] == [column.tolist() for column in expected]


def test_objects_keep_copies_of_their_arguments() -> None:
    """The caller may change its arrays after they were checked."""
    ones, kinds, neighbours = np.ones(2), np.arange(4), np.array([1, 0])
    release, node, nodes = np.array([0, 1]), np.array([0, 1]), np.array([1, 2])
    grid = gridcore.SummaryGrid([1.0], [1.0], [1.0])
    inputs = (ones, kinds, neighbours, release, node, nodes)
    before = [sys.getrefcount(array) for array in inputs]
    links = gridcore.Links(
        node, 2, latency=1, bandwidth=1e6, widths=[24] * 4, deferred=[False] * 4, fifo=False
    )
    walks = gridcore.JobWalks(
        links, ones, kinds=kinds, release=release, node=node, work=ones, data=node, rate=ones, probes=1,
        neighbours=neighbours, neighbour_offsets=[0, 1, 2],
    )  # fmt: skip
    queues = gridcore.TaskQueues(ones)
    tree = gridcore.SummaryTree(grid, ones, size=ones, task_size=ones, release=ones, nbytes=0)
    lists = gridcore.PullQueue(ones, 2), gridcore.JobQueue(2, nodes, nodes, nodes)
    assert [sys.getrefcount(array) for array in inputs] == before, (walks, queues, tree, lists)
