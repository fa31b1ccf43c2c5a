"""The states of kernels: values of other types or shapes are rejected, and arrays of a state are read-only.

A kernel with a restored state continues as before: that is an invariant of whole runs (`check_scheduler`, and
tests/invariants/test_checkpoints.py).  What kernels do with wrong numbers is in `test_damaged_states`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridcore.common.state import ArrayEntry, TableEntry, members_in_order, read
from gridcore.network.links import Links
from gridcore.random_walk.walk import JobWalks
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from tests._helpers import thread_work as work


def walks() -> tuple[Links, JobWalks]:
    """Return links, and walks of jobs with probes in progress."""
    rng, nodes, jobs = np.random.default_rng(3), 9, 120
    links = Links(
        np.arange(nodes), nodes, latency=10**8, bandwidth=1000.0, widths=[24] * 4, deferred=[False] * 4
    )
    links.log(500, [16] * 4)
    walks = JobWalks(
        links,
        rng.uniform(1.0, 3.0, nodes),
        kinds=[0, 1, 2, 3],
        release=np.sort(rng.integers(0, 2 * 10**10, jobs)),
        node=rng.integers(0, 4, jobs),
        work=rng.uniform(1.0, 6.0, jobs),
        data=rng.integers(0, 500, jobs),
        rate=np.full(nodes, np.nan),
        probes=4,
        pick="best",
        probe_time=3 * 10**8,
        log=1000,
    )
    walks.advance(5 * 10**9)
    return links, walks


def advanced_queue(queue: Any, *more: Any) -> Any:
    """Return a queue that has run for 20 s."""
    queue.run(20 * work.SECOND, *more)
    return queue


def manual_queue() -> Any:
    queue = work.manual_queue(60)
    work.start_in_order(queue, 20 * work.SECOND)
    return queue


def pull_queue() -> Any:
    queue, options = work.pull()
    return advanced_queue(queue, *options[1:])


def policy_in_progress(scenario: gs.Scenario, scheduler: gs.Scheduler) -> Any:
    """Return the policy of a run with messages, searches and so on in progress."""
    run = Simulation(scenario, scheduler, Options(record=True))
    waves = 0

    def look() -> None:
        nonlocal waves
        waves += 1
        if waves == 12:
            run.engine.stop()

    run.engine.at_wave_end(look)
    run.engine.run()
    return run.policy


#: Kernels with a state, in the middle of their work.
KERNELS: dict[str, Callable[[], Any]] = {
    "JobQueue": lambda: advanced_queue(work.backfill(60)), "ReleaseQueue": lambda: work.releases(60),
    "SharedQueue": lambda: advanced_queue(work.shared_queue(60)),
    "WorkQueue": lambda: advanced_queue(work.work_queue(60)),
    "ManualQueue": manual_queue, "PullQueue": pull_queue, "TaskQueues": lambda: work.task_queues(30),
    "DataQueues": lambda: work.data_queues(30), "CoreQueues": lambda: work.core_queues(30),
    "SlotSchedules": lambda: work.schedules(50)[0], "Views": lambda: work.schedules(50)[1],
    "JobWalks": lambda: walks()[1], "Links": lambda: walks()[0],
    "SummaryTree": lambda: policy_in_progress(work.bags(), gs.FairTree(samples=(4, 3, 3))).tree,
    "FairTreeNodes": lambda: policy_in_progress(work.bags(), gs.FairTree(samples=(4, 3, 3))).compiled,
    "NodeCore": lambda: policy_in_progress(work.bags(), gs.ExpandingRing()).core,
    "DgsNodes": lambda: policy_in_progress(
        work.rigid(), gs.DgsAsap(degree=8, slot=10.0, overlay="cyclon", cycle=2.0)
    ).compiled,
}  # fmt: skip


def deep_copy(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with copies of arrays, and lists instead of iterators."""
    return {
        name: value
        if isinstance(value, int)
        else np.array(value)
        if isinstance(value, np.ndarray)
        else [np.array(item) for item in value]
        for name, value in state.items()
    }


@pytest.mark.parametrize("name", KERNELS)
def test_values_that_are_not_states_are_rejected(name: str) -> None:
    kernel = KERNELS[name]()
    good = deep_copy(kernel.getstate())
    bad: Any
    for bad in (None, [], 3):
        with pytest.raises(ValueError, match="^state"):
            kernel.setstate(bad)
    for entry, value in good.items():
        others: list[Any] = ["text"]
        if isinstance(value, int):
            others += [-1, 1.5, True, None, 2**63]
        elif isinstance(value, np.ndarray):
            others += [3, value[..., None], np.zeros(value.shape, np.float32), value.tolist()]
        else:
            no_text = np.array([2**31], np.uint32).view("U1")
            others += [[*value, np.zeros(3, np.uint8)], [np.zeros(1)], no_text]
        for other in others:
            with pytest.raises(ValueError, match=rf"state\['{entry}'\]"):
                kernel.setstate({**good, entry: other})
        with pytest.raises(ValueError, match=f"state must have an entry '{entry}'"):
            kernel.setstate({key: item for key, item in good.items() if key != entry})
    # the rejected states have changed no kernel except the tree, which documents it
    if name != "SummaryTree":
        kernel.setstate(good)


def test_relations_between_entries_are_checked() -> None:
    """Totals must be the lengths of other entries, and some columns must not repeat values."""
    rows = {"rows": ArrayEntry(np.int64)}
    counts = rows | {"counts": ArrayEntry(np.int64, total="rows")}
    for numbers in ([2, 1], [3, 0], [0, 0, 3]):
        read({"rows": np.zeros(3, np.int64), "counts": np.array(numbers)}, counts)
    for numbers in ([2, 2], [], [4, -1], [2**62, 2**62, 2**62, 2**62, 3]):
        with pytest.raises(ValueError, match=r"^state\['counts'\] must be >= 0 and add up to 3"):
            read({"rows": np.zeros(3, np.int64), "counts": np.array(numbers, np.int64)}, counts)
    table = rows | {
        "jobs": TableEntry({"job": (0, 9), "rows": (0, None)}, unique=("job",), totals={"rows": "rows"})
    }
    read({"rows": np.zeros(3, np.int64), "jobs": np.array([[4, 1], [2, 2]])}, table)
    for jobs, message in (
        ([[4, 1], [4, 2]], "must have each job at most once, got 4 twice"),
        ([[4, 1], [2, 1]], "add up to 3"),
    ):
        with pytest.raises(ValueError, match=rf"^state\['jobs'\].* {message}"):
            read({"rows": np.zeros(3, np.int64), "jobs": np.array(jobs)}, table)


def test_members_are_sorted_by_a_list_that_may_have_other_entries() -> None:
    members = np.array([1, 3, 5, 8])
    assert members_in_order(members, np.array([8, 2, 3, 9, 8])).tolist() == [3, 8, 1, 5]
    assert members_in_order(members[:0], np.array([7])).tolist() == []


def test_masked_elements_are_checked() -> None:
    """A mask hides numbers from comparisons only."""
    masked = np.ma.array([5, 10**6], mask=[False, True])
    with pytest.raises(ValueError, match=r"^state\['x'\]\[1\]"):
        read({"x": masked}, {"x": ArrayEntry(np.int64, (2,), (0, 10))})
    assert type(read({"x": masked}, {"x": ArrayEntry(np.int64, (2,))})["x"]) is np.ndarray


def test_a_state_is_read_only_and_outlives_its_kernel() -> None:
    states = {kind: one.getstate() for kind, one in work.objects().items() if hasattr(one, "getstate")}
    of_each = [(f"{kind}: {name}", value) for kind, state in states.items() for name, value in state.items()]
    arrays = {name: value for name, value in of_each if isinstance(value, np.ndarray)}
    for array in arrays.values():
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            array.flags.writeable = True
    before = deep_copy(arrays)
    chunks = {name: list(value) for name, value in of_each if not isinstance(value, int | np.ndarray)}
    answers = deep_copy(chunks)
    del states, of_each
    gc.collect()
    _ = [np.full(size, 255, np.uint8) for size in range(1000, 100_000, 1000)]  # overwrite the freed memory
    for those, then in ((arrays, before), (chunks, answers)):
        for name, value in those.items():
            assert np.array_equal(value, then[name]), name


def test_summaries_of_a_state_end_if_the_state_is_replaced() -> None:
    tree = KERNELS["SummaryTree"]()
    summaries = tree.getstate()["narrow"]
    assert len(next(summaries))
    empty = Simulation(work.bags(), gs.FairTree(samples=(4, 3, 3)), Options()).policy.tree  # type: ignore[attr-defined]
    tree.setstate(empty.getstate())
    assert not list(summaries)
