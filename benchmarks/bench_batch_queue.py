"""Backfilling: a log of 100,000 jobs on 5,000 machines, and a small one compared with the reference.

    pytest benchmarks/bench_batch_queue.py --benchmark-columns=median,iqr

A quarter of the jobs are serial, most others want a power of two up to 1,024 machines; run times are
lognormal, a median of 18 minutes and 5 days at most; estimates are up to 20 times as long, in steps of 5
minutes, and some too short.  At a load of 1.2 the queue grows without end: thousands wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridcore.rigid_queue.batch_queue import JobQueue
from tests.reference.batch_queue import JobQueue as Reference

NEVER = 2**63 - 1
SECOND = 10**9
LOADS = [0.9, 0.95, 1.2]
MODES = [False, True]
NAMES = ["FCFS", "EASY"]


def log(jobs: int, machines: int, load: float) -> Any:
    """nodes, run, estimate, and when each job is submitted"""
    chance = np.random.default_rng(1)
    powers = 2 ** chance.integers(0, 11, jobs)
    others = np.exp(chance.uniform(0, np.log(1024), jobs)).astype(np.int64)
    nodes = np.where(chance.random(jobs) < 0.75, powers, others)
    nodes = np.minimum(np.where(chance.random(jobs) < 0.25, 1, nodes), machines)
    run = np.clip(chance.lognormal(7, 1.8, jobs), 1, 5 * 86400)
    estimate = run * np.exp(chance.uniform(-0.3, 3.0, jobs))
    span = (nodes * run).sum() / machines / load
    at = np.sort(chance.uniform(0, span, jobs))
    steps = (estimate // 300 + 1) * 300
    return nodes, *((column * SECOND).astype(np.int64) for column in (run, steps, at))


def replayed(kind: Any, machines: int, jobs: Any, easy: bool) -> Any:
    *load, at = jobs
    queue = kind(machines, *load, depth=int(easy))
    queue.submit(np.arange(len(at)), at)
    assert queue.run(NEVER) == len(at)
    return queue


@pytest.mark.parametrize("easy", MODES, ids=NAMES)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.benchmark(group="100,000 jobs, 5,000 machines")
def test_kernel(benchmark: Any, load: float, easy: bool) -> None:
    jobs = log(100_000, 5000, load)
    queue = benchmark.pedantic(lambda: replayed(JobQueue, 5000, jobs, easy), rounds=5)
    begun = np.sort(queue.totals()["start"])
    waiting = np.arange(1, len(begun) + 1) - np.searchsorted(begun, jobs[3], side="right")
    benchmark.extra_info["waiting at most"] = int(waiting.max())


@pytest.mark.parametrize("easy", MODES, ids=NAMES)
@pytest.mark.benchmark(group="100,000 jobs, 100,000 machines")
def test_many_machines(benchmark: Any, easy: bool) -> None:
    jobs = log(100_000, 100_000, 0.95)
    benchmark.pedantic(lambda: replayed(JobQueue, 100_000, jobs, easy), rounds=3)


@pytest.mark.benchmark(group="100,000 jobs, 5,000 machines, submitted one by one")
def test_one_by_one(benchmark: Any) -> None:
    *load, at = log(100_000, 5000, 0.95)
    instants = at.tolist()

    def replay() -> None:
        queue = JobQueue(5000, *load)
        for job, instant in enumerate(instants):
            queue.submit([job], instant)
            queue.run(instant)
        queue.run(NEVER)

    benchmark.pedantic(replay, rounds=1)


@pytest.mark.parametrize("kind", [JobQueue, Reference], ids=["kernel", "reference"])
@pytest.mark.benchmark(group="300 jobs, 200 machines")
def test_beside_the_reference(benchmark: Any, kind: Any) -> None:
    jobs = log(300, 200, 1.2)
    benchmark.pedantic(lambda: replayed(kind, 200, jobs, True), rounds=1)
