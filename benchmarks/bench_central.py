"""Dispatch kernels and the centralized schedulers: seconds, and tasks per second.

python benchmarks/bench_central.py [--large]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gridcore.centralized.earliest_ends import bind_earliest
from gridcore.centralized.pull_queue import PullQueue
from gridsim.engine.engine import TIMER, Engine
from gridsim.model.applications import Applications
from gridsim.schedulers.centralized.pull import Fcfs, MinCent
from gridsim.scheduling.contract import Run, Scheduler
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams

TASK_SIZE, GAP = 65536.0, 10 * NS


def best_of(repeat: int, action: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return min(seconds)


def report(what: str, machines: int, tasks: int, seconds: float) -> None:
    rate = tasks / seconds / 1e6
    print(f"{what:<18}{machines:>8} machines {tasks:>10} tasks {seconds:8.3f} s {rate:8.1f} M/s")


def kernels(speeds: np.ndarray[Any, Any], count: int, each: int, repeat: int) -> None:
    """`count` applications of `each` tasks."""
    sizes, order = np.full(count, TASK_SIZE), np.arange(count)

    def pull() -> None:
        left = np.full(count, each)
        PullQueue(speeds, count).run(2**63 - 1, order, left, sizes)

    def bind() -> None:
        free = np.zeros(len(speeds), np.int64)
        for i in range(count):
            bind_earliest(free, speeds, TASK_SIZE, each, i * GAP)

    report("PullQueue.run", len(speeds), count * each, best_of(repeat, pull))
    report("bind_earliest", len(speeds), count * each, best_of(repeat, bind))


def scheduler(what: Scheduler, speeds: np.ndarray[Any, Any], count: int, each: int) -> None:
    release = np.arange(count) * GAP
    tasks, sizes = np.full(count, each), np.full(count, TASK_SIZE)
    submitter = np.zeros(count, np.int64)
    applications = Applications(release, release / NS, tasks, sizes, tasks * sizes, submitter)

    def run() -> None:
        engine = Engine()
        network: Any = None
        policy = what.start(Run(engine, network, speeds, applications, Streams(1)))
        engine.on("release", policy.on_release, priority=0, phase=TIMER)
        for i, at in enumerate(release.tolist()):
            engine.at(at, "release", i)
        engine.run()
        policy.finish()

    mode = getattr(what, "mode", "")
    report(f"{what.name} {mode}", len(speeds), count * each, best_of(1, run))


def main() -> None:
    chance = np.random.default_rng(1)
    for machines in (1000, 10_000) if "--large" in sys.argv else (1000,):
        speeds = 1000 + 200.0 * chance.integers(0, 11, machines)
        kernels(speeds, 100, 10 * machines, 3)
        for what in (MinCent(), Fcfs(), Fcfs(mode="pull"), Fcfs(mode="random"), MinCent(mode="once")):
            scheduler(what, speeds, 100, 10 * machines)


if __name__ == "__main__":
    main()
