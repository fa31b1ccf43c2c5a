"""Errors found by fuzzing the kernels: invalid calls are rejected and change nothing.

Each of these calls once crashed the process, never returned, or wrote to memory outside of its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridcore import (
    JobWalks,
    Links,
    PullQueue,
    RandomStream,
    SlotSchedules,
    SummaryGrid,
    SummaryTree,
    TaskQueues,
    Views,
    WorkQueue,
    aggregate_into,
    bind_earliest,
    sample_availability,
)
from gridcore.queues import edf
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from tests._helpers import thread_work as work
from tests.kernels.test_states import policy_in_progress

pytestmark = pytest.mark.slow

LAST = 2**63 - 1
GRID = SummaryGrid([1.0], [4.0], [1.0])


def links(widths: Any = (16, 24), nodes: int = 3, **changes: Any) -> Any:
    """Return links between nodes, one per machine, without latency or transmission time."""
    settings: dict[str, Any] = {
        "machines": nodes,
        "latency": 0,
        "bandwidth": np.inf,
        "deferred": [False] * len(widths),
    }
    return Links(np.arange(nodes), widths=list(widths), **{**settings, **changes})


def tree() -> SummaryTree:
    return SummaryTree(GRID, np.ones(2), release=[0.0], size=[4.0], task_size=[1.0], nbytes=10)


FACTORIES: dict[Any, Callable[[], Any]] = {
    Links: links,
    TaskQueues: lambda: TaskQueues([1.0]),
    SummaryTree: tree,
    Views: lambda: Views(3, 2, shuffle=1),
}


@pytest.mark.parametrize("cls", FACTORIES)
def test_kernels_require_arguments_and_ignore_a_second_init(cls: Any) -> None:
    """A kernel cannot be created without arguments, and a second `__init__` keeps its state."""
    with pytest.raises(TypeError):
        cls.__new__(cls)
    kernel = FACTORIES[cls]()
    before = kernel.getstate()
    kernel.__init__()
    assert set(kernel.getstate()) == set(before)


def test_walks_without_links_are_rejected() -> None:
    none: Any = None
    with pytest.raises(TypeError, match="links"):
        JobWalks(none, [], kinds=[], release=[], node=[], work=[], data=[], rate=[], probes=0)


def tree_run() -> Simulation:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([9.0], [4], 1.0, [0]))
    return Simulation(scenario, gs.FairTree(samples=(1, 1, 1)), Options())


def send(run: Simulation, kind: str, count: int = 1, **fields: int) -> None:
    """Put messages of compiled nodes from node 1 to the root of a tree into the links."""
    policy: Any = run.policy
    rows = np.zeros(count, policy.kinds[kind].dtype)
    for name, value in {"sender": 1, **fields}.items():
        rows[name] = value
    run.network.links.send(0, run.network.number(kind)[0], rows.view(np.uint8).reshape(count, -1), 10)


@pytest.mark.parametrize("payload", [-2, 0, 512, 2**31, LAST])
def test_a_summary_with_an_unknown_payload_is_rejected(payload: int) -> None:
    """The cells of such a summary would be read from arbitrary memory."""
    run = tree_run()
    send(run, "summary", payload=payload)
    with pytest.raises(ValueError, match=f"payload {payload} from node 1 to 0"):
        run.run()


# some of six requests are prefetched
@pytest.mark.parametrize(("requests", "application"), [(1, 1), (6, 2**40)])
def test_a_request_for_an_unknown_application_is_rejected(requests: int, application: int) -> None:
    run = tree_run()
    send(run, "request", requests, application=application, tasks=1)
    with pytest.raises(ValueError, match=f"got 1 tasks of application {application}"):
        run.run()


@pytest.mark.parametrize("kind", ["request", "spread"])
def test_a_copy_of_the_root_that_does_not_exist_is_rejected(kind: str) -> None:
    run = tree_run()
    send(run, kind, copy=512, **({"tasks": 1} if kind == "request" else {}))
    with pytest.raises(
        ValueError, match=r"copy must be an existing copy of the root's summary, or -1, got 512"
    ):
        run.run()


def test_sizes_and_instants_of_links_out_of_range_are_rejected() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"widths": (16, 2**56)}, r"widths\[1\] must be in 16..1048576 bytes, got"),
        ({"latency": LAST}, "latency must be in 0.."),
        ({"machines": 2**31}, "machines must be in 0.."),
        ({"machines": -1, "nodes": 0}, "machines must be in 0.."),
    ]
    for changes, expected in wrong:
        with pytest.raises(ValueError, match=expected):
            links(**changes)
    it = links(fifo=False)
    for now in (-1, LAST):
        with pytest.raises(ValueError, match="^now"):
            it.send(now, 0, np.zeros((1, 16), np.uint8), 1)
        with pytest.raises(ValueError, match="^now"):
            it.fail([0], now)
    assert it.sent.tolist() == [0, 0]


def test_a_rejected_recording_of_link_use_records_nothing() -> None:
    it = links()
    it.watch(0, 100, 10)
    with pytest.raises((MemoryError, ValueError)):
        it.watch(0, LAST, 1)
    # regression test: this message was recorded behind the windows
    it.send(150, 0, np.array([[1, 0]]).view(np.uint8), 7)
    it.advance(200)
    assert it.windows.shape == (3, 10) and not it.windows.any()


def test_walks_reject_messages_of_other_senders() -> None:
    over = links([24] * 4)
    it = JobWalks(
        over, np.ones(3), kinds=range(4), release=[0], node=[0], work=[1.0], data=[1], probes=1,
        rate=np.full(3, np.nan),
    )  # fmt: skip
    over.send(5, 1, np.array([[1, 0, 0]]).view(np.uint8), 1)
    with pytest.raises(ValueError, match="links must carry only messages of this object"):
        it.advance(10**12)


def test_too_many_steps_of_a_join_are_rejected() -> None:
    it = Views(3, 2, shuffle=1)
    it.leave([0])
    with pytest.raises(ValueError, match="^steps"):
        it.join(0, 1, steps=2**62)
    it.join(0, 1)


def test_instants_of_queues_out_of_range_are_rejected() -> None:
    it = TaskQueues([1.0, 1.0])
    it.add_applications([0.0], [4.0], [1.0])
    for now in (-(2**63), -1, LAST):
        with pytest.raises(ValueError, match="^now"):
            it.fail([0], now)
    with pytest.raises(ValueError, match="^now"):
        it.enqueue([0], [0], [1], -1)
    assert it.due(LAST).tolist() == []  # regression test: idle machines were always due
    it.enqueue([0], [0], [1], 0)
    assert it.due(LAST).tolist() == [0]


def test_a_huge_number_of_threads_gives_equal_summaries() -> None:
    it = TaskQueues(np.ones(70))
    one = it.summaries(np.arange(70), GRID, 0)
    assert (it.summaries(np.arange(70), GRID, 0, threads=2**31 - 1) == one).all()


def test_a_rejected_state_of_queues_changes_nothing() -> None:
    it = TaskQueues([1.0])
    it.add_applications([0.0], [1e10], [1e9])
    it.enqueue([0], [0], [2], 0)
    bad = dict(it.getstate())
    bad["shares"] = np.array([[0, 2**31 - 1]])
    with pytest.raises(ValueError, match=r"^state\['shares'\]"):
        it.setstate(bad)
    assert it.next_change() == 2 * 10**18 and it.queue(0)[1].tolist() == [2]


def test_a_search_with_an_interval_requires_a_time() -> None:
    with pytest.raises(ValueError, match="^poll_period"):
        SlotSchedules(2, stale=True).search(np.array([[1], [0]], np.int32), [0], 1, 1, 0, poll_period=7)


def test_binding_too_many_tasks_raises_an_error_at_once() -> None:
    """The tasks were once bound one by one, even if they take no time on a machine."""
    free, speed = np.zeros(3, np.int64), [1.0, 2.0, 3.0]
    with pytest.raises(OverflowError, match="a task ends after the last instant"):
        bind_earliest(free, speed, 1.0, 2**62, 0)
    assert not free.any()
    assert bind_earliest(free, speed, 1e-3, 2**40, 0).sum() == 2**40
    free = np.array([0, 10**12])
    assert bind_earliest(free, [1e9, 1e19], 1.0, 2**50, 0).sum() == 2**50


def test_a_queue_may_have_no_machines() -> None:
    assert PullQueue([], 2).free_at.tolist() == []


def test_a_rejected_start_counts_no_machine() -> None:
    it = WorkQueue([1.0], [1], [1e300], [LAST], order="ask", choice="ask", max_replicas=1)
    it.submit(0, [0])
    with pytest.raises(OverflowError):
        it.assign(0, 0, 0)
    assert it.totals()["nodes_used"].tolist() == [0]


def test_unaligned_arrays_are_copied_or_rejected() -> None:
    """Some processors cannot read numbers at addresses that are no multiples of their size."""

    def unaligned_copy(values: Any) -> Any:
        array = np.array(values)
        return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype)

    free_times = np.zeros(2, np.int64)
    assert bind_earliest(free_times, unaligned_copy([1.0, 2.0]), 1.0, 3, 0).tolist() == [1, 2]
    assert TaskQueues(unaligned_copy([1.0, 2.0])).is_busy(unaligned_copy([0, 1])).tolist() == [False, False]
    free_at = np.zeros(17, np.uint8)[1:].view(np.int64)
    with pytest.raises(ValueError, match="^free_at"):
        bind_earliest(free_at, [1.0, 2.0], 1.0, 3, 0)


def test_calls_with_a_completed_task_are_rejected() -> None:
    it = WorkQueue([1.0], [1], [1.0], [LAST], order="random", choice="none", max_replicas=1, interval=10**8)
    it.submit(0, [0])
    assert it.run(LAST) == "done"
    for call in (lambda: it.lasts(0, 0, [0]), lambda: it.pick_machine(0, 0), lambda: it.weigh(0, 0, 0)):
        with pytest.raises(ValueError, match="task must not be completed, got 0 of bag 0"):
            call()


def test_the_minimum_stretch_of_tiny_work_is_found() -> None:
    """The search multiplied a stretch that had been rounded to 0, without end."""
    queue = {"release": [0.0], "size": [26.5], "work": [5e-324], "speed": 0.125, "now": 0.0}
    assert 0.0 <= edf.optimal_stretch(**queue) < 1e-320


class FalseShapeArray(np.ndarray):
    """Array with a false value of `shape`."""

    false_shape: Any = None

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return np.ndarray.shape.__get__(self) if self.false_shape is None else self.false_shape

    def reshape(self, *_: Any, **__: Any) -> Any:
        return np.zeros((4, 1), self.dtype)


def with_false_shape(values: Any, shape: tuple[int, ...]) -> Any:
    array = np.array(values).view(FalseShapeArray)
    array.false_shape = shape
    return array


def test_arrays_that_misstate_their_shape_are_rejected() -> None:
    views, schedules, many = Views(10_000, 8, seed=1), SlotSchedules(10_000), (10_000,)
    with pytest.raises(ValueError, match="^up"):
        views.cycle(with_false_shape([True], many))
    with pytest.raises(ValueError, match="^known_down"):
        schedules.search(views.views, [0], 3, 1, 0, hops=2, known_down=with_false_shape([False], many))
    with pytest.raises(ValueError, match="^out"):
        aggregate_into(with_false_shape(np.zeros(1, np.uint32), many), np.ones((3, *many), np.uint32))
    out = with_false_shape(np.zeros(many, np.uint32), many)  # the kernel uses the real shape of the array
    assert (
        aggregate_into(out, np.ones((3, *many), np.uint32)) is out
        and np.asarray(out).tolist() == [3] * 10_000
    )


class FalseGrid(SummaryGrid):
    shape = property(lambda self: (1, 1, 1))  # type: ignore[assignment]


def test_subclasses_of_a_summary_grid_are_rejected() -> None:
    """Kernels rely on the shape of a grid."""
    grid = FalseGrid(*(np.arange(1.0, 101.0),) * 3)
    for call in (
        lambda: sample_availability(grid, 0.0, [0.0], [1e5], [1e5], speed=1.0, free_at=0.0),
        lambda: TaskQueues([1.0]).summaries([0], grid, 0),
        lambda: SummaryTree(grid, [1.0], release=[0.0], size=[1.0], task_size=[1.0], nbytes=1),
    ):
        with pytest.raises(TypeError, match="^grid"):
            call()
    plain = SummaryGrid([1.0, 2.0], [4.0], [1.0])
    with pytest.raises(TypeError, match="initialised twice"):
        plain.__init__([1.0], [1.0], [1.0])  # type: ignore[misc]
    with pytest.raises(ValueError, match="WRITEABLE"):
        plain.stretch.flags.writeable = True
    assert plain.shape == (2, 1, 1)


class FalseNumber(int):
    """Number that compares as within every range."""

    __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True  # type: ignore[assignment]


def test_a_number_with_overridden_comparisons_is_checked_by_its_value() -> None:
    walks = JobWalks(
        links([24] * 4, fifo=False), np.ones(3), kinds=range(4), release=[0], node=[0], work=[1.0],
        data=[1], probes=1, rate=np.zeros(3),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^state\['next'\]"):
        walks.setstate({**walks.getstate(), "next": FalseNumber(-(10**7))})


def test_objects_of_another_run_and_lists_of_another_length_are_rejected() -> None:
    """Each of these calls read or wrote outside of an array."""
    other = policy_in_progress(work.bags(), gs.ExpandingRing()).core
    dgs = policy_in_progress(work.rigid(), gs.DgsAsap(degree=8, slot=10.0))
    bags = work.bags()
    tree = policy_in_progress(bags, gs.FairTree(samples=(4, 3, 3)))
    with pytest.raises(ValueError, match="^core must be the message core of these nodes"):
        dgs.compiled.on_release(other, 0, 0, 1)
    with pytest.raises(ValueError, match="^node"):
        dgs.compiled.on_job_outlives(dgs.core, dgs.core.nodes, 0, 1)
    with pytest.raises(ValueError, match="^sizes must have"):
        other.sent_since([])
    with pytest.raises(ValueError, match=r"^sizes\[0\] must be in"):
        other.sent_since([-1] * len(other.outbox_sizes()))
    with pytest.raises(ValueError, match="^is_recorded must have the shape"):
        other.record_calls(None, np.ones(3, bool))
    applications = len(bags.workload.realize(bags.platform))
    tree.core.add_applications([0])
    with pytest.raises(ValueError, match=f"^application must be in 0..{applications - 1}"):
        tree.core.give(0, applications, 1)


def test_a_choice_among_more_numbers_than_an_array_can_have_is_rejected() -> None:
    """Numpy returned an empty array of so many numbers, behind which the kernel wrote."""
    for call in (
        lambda: RandomStream(1, 0).choice(LAST, 2, replace=False),
        lambda: RandomStream(1, 0).permutation(LAST),
    ):
        with pytest.raises(ValueError, match="^a must fit into memory, got 9223372036854775807"):
            call()


def test_a_state_cannot_keep_a_shared_queue_at_an_instant() -> None:
    """The queue was examined at the instant of the state without end."""
    queue = work.shared_queue(6)
    queue.setstate({**queue.getstate(), "wake_at": 1})
    queue.run(2)
    assert queue.now == 2
