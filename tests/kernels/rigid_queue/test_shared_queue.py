"""Queues of machines that jobs share: equality with the reference, examples by hand, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from gridcore.rigid_queue.shared_queue import SharedQueue
from tests.kernels.rigid_queue.test_batch_queue import TIMES, QueueComparison
from tests.reference.shared_queue import SharedQueue as Reference

NEVER = 2**63 - 1


@st.composite
def loads(draw: st.DrawFn) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Draw machines with cores, memory and GPUs, jobs that fit them, and a discipline."""
    machines, n = draw(st.integers(1, 5)), draw(st.integers(0, 20))
    sizes = [machines]
    if machines > 1 and draw(st.integers(0, 3)) == 0:
        first = draw(st.integers(1, machines - 1))
        sizes = [first, machines - first]

    def each(values: Any, count: int) -> list[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    cores = each(st.sampled_from([1, 2, 3, 4, 8]), machines)
    memory, gpus = each(st.integers(0, 10), machines), each(st.integers(0, 2), machines)
    options: dict[str, Any] = {"memory": memory, "gpus": gpus, "sizes": sizes}
    options["partition"] = partition = each(st.integers(0, len(sizes) - 1), n)
    options["exclusive"] = each(st.integers(0, 7).map(lambda k: k == 0), n)
    options["tasks_per_machine"] = each(st.sampled_from([0, 0, 1, 2]), n)
    needs = [each(st.sampled_from([1, 1, 2, 4]), n), each(st.integers(0, 5), n), each(st.integers(0, 1), n)]
    tasks = each(st.integers(1, 8), n)
    for k in range(n):
        own = range(sum(sizes[: partition[k]]), sum(sizes[: partition[k] + 1]))
        room = 0
        for u in own:
            counts = [
                have[u] // need[k] for have, need in zip((cores, memory, gpus), needs, strict=True) if need[k]
            ]
            room += min([*counts, options["tasks_per_machine"][k] or 8])
        if room == 0:
            needs[0][k], needs[1][k], needs[2][k], room = 1, 0, 0, len(own)
        tasks[k] = min(tasks[k], room)
    options |= dict(zip(("task_cores", "task_memory", "task_gpus"), needs, strict=True))
    options["placement"] = draw(st.sampled_from(["first", "first", "best", "spread"]))
    options["backfill"] = draw(st.integers(0, 3)) > 0
    order = draw(st.sampled_from([None, None, None, "ranks", "sjf", "wfp"]))
    if order == "ranks":
        options["ranks"] = each(st.integers(0, min(3, max(0, n - 1))), n)
    elif order:
        options["order"] = order
    if draw(st.booleans()):
        options |= {"users": each(st.integers(0, 2), n), "limit": draw(st.integers(0, 12))}
    run = each(TIMES, n)
    return (cores, tasks, run, draw(st.one_of(st.just(run), st.just(each(TIMES, n))))), options


class SharedComparison(QueueComparison):
    """Kernel and reference side by side; at times another kernel continues from the state."""

    kernel: Any = SharedQueue

    @initialize(load=loads(), data=st.data())
    def begin(self, load: Any, data: st.DataObject) -> None:
        (self.load, self.options) = load
        self.machines, self.jobs, self.next, self.since = len(self.load[0]), len(self.load[1]), 0, 0
        self.queues = [kind(*self.load, **self.options, log=True) for kind in (SharedQueue, Reference)]


TestSharedComparison = SharedComparison.TestCase
TestSharedComparison.settings = QueueComparison.TestCase.settings


@pytest.mark.parametrize("placement", ["first", "best", "spread"])
@pytest.mark.parametrize("seed", range(3))
def test_many_waiting_jobs_equal_reference(placement: str, seed: int) -> None:
    """Long queues of many shapes, in which most jobs are known not to fit."""
    rng = np.random.default_rng(seed)
    machines, jobs = 12, 150
    cores, memory = rng.choice([4, 8, 16], machines), rng.choice([16, 32], machines)
    options: dict[str, Any] = {
        "memory": memory,
        "task_cores": rng.choice([1, 2, 4], jobs),
        "task_memory": rng.integers(0, 9, jobs),
        "tasks_per_machine": rng.choice([0, 0, 1], jobs),
        "exclusive": rng.random(jobs) < 0.1,
        "placement": placement,
        "log": True,
    }
    tasks, run = rng.choice([1, 1, 2, 4, 8], jobs), rng.integers(1, 100, jobs)
    estimate = np.maximum(1, (run * rng.uniform(0.4, 4.0, jobs)).astype(np.int64))
    queues: list[Any] = [kind(cores, tasks, run, estimate, **options) for kind in (SharedQueue, Reference)]
    at = np.sort(rng.integers(0, 400, jobs))
    for queue in queues:
        queue.submit(range(jobs), at)
    for stop in (100, 101, 300, 700):
        failing = np.flatnonzero(rng.random(machines) < 0.1)
        for queue in queues:
            queue.run(stop)
            queue.fail(failing, stop)
            queue.restore(failing, stop)
    assert queues[0].run(NEVER) == queues[1].run(NEVER) == jobs
    for ours, other in zip(queues[0].starts(), queues[1].starts(), strict=True):
        assert np.array_equal(ours, other)


def test_tasks_of_one_job_share_machines_unless_limited() -> None:
    for most, machines in ((0, [0, 1]), (2, [0, 1, 2])):
        queue = SharedQueue([4, 4, 4], [6], [10], [10], tasks_per_machine=[most], log=True)
        queue.submit([0], 0)
        queue.run(NEVER)
        assert queue.starts()[0].tolist() == machines
        assert queue.totals()["busy"].sum() == 60


def test_serial_jobs_fill_the_cores() -> None:
    """Eight serial jobs of 100 s on 2 machines of 4 cores take 100 s."""
    queue = SharedQueue([4, 4], [1] * 8, [100] * 8, [100] * 8)
    queue.submit(range(8), 0)
    assert queue.run(100) == 8


def test_head_keeps_the_machines_of_its_reservation() -> None:
    """Job 1 needs machine 0 from 10 on: job 2, which lasts longer, takes machine 1, job 3 machine 0."""
    run, cores = [10, 5, 30, 10], [3, 4, 1, 1]
    queue = SharedQueue([4, 2], [1, 1, 1, 1], run, run, task_cores=cores, log=True)
    queue.submit(range(4), 0)
    queue.run(NEVER)
    machine, job, start = (column.tolist() for column in queue.starts()[:3])
    assert list(zip(job, machine, start, strict=True)) == [(0, 0, 0), (2, 1, 0), (3, 0, 0), (1, 0, 10)]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], [], [], []), {}, r"cores must add up to 1..2147483647, got 0"),
        (([2, 0], [1], [1], [1]), {}, r"cores\[1\] must be in 1..2147483647, got 0"),
        (
            ([2], [3], [1], [1]),
            {},
            r"tasks\[0\] must be at most 2, for which .* have room, got 3",
        ),
        (([2], [0], [1], [1]), {}, r"tasks\[0\] must be in 1..2147483647, got 0"),
        (([2], [1], [1], [1]), {"task_cores": [0]}, r"task_cores\[0\] must be in 1..2147483647, got 0"),
        (([2], [1], [1], [1]), {"task_gpus": [1], "gpus": [0]}, r"tasks\[0\] must be at most 0, .* got 1"),
        (([2], [1], [1], [1]), {"memory": [1, 2]}, "memory must have as many entries as cores, got 2 and 1"),
        (
            ([2], [1], [1], [1]),
            {"exclusive": [1, 0]},
            "exclusive must have as many entries as tasks, .*",
        ),
        (
            ([2], [1], [1], [1]),
            {"placement": "worst"},
            "placement must be one of first, best, spread, .*",
        ),
    ],
)
def test_wrong_queues_are_rejected(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        SharedQueue(*arguments, **options)
