"""Dispatch kernels and the centralized schedulers: seconds of a processor, and tasks per second.

python benchmarks/bench_central.py [--large]

"Applications of one task" have ten a machine, of sizes of their own, released at once (the kernel) or at a
load of 0.9 (the whole `simulate`).  Compared with the kernel is its limit, a C program that keeps machines in
a heap by the end of their task, and does nothing else.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gridsim as gs
from gridcore.centralized.earliest_ends import bind_earliest
from gridcore.centralized.pull_queue import PullQueue
from gridsim.engine.engine import TIMER, Engine
from gridsim.model.applications import Applications
from gridsim.schedulers.centralized.pull import Fcfs, MinCent
from gridsim.scheduling.contract import Run, Scheduler
from gridsim.support.clock import NS
from gridsim.support.random_streams import Streams

TASK_SIZE, GAP = 65536.0, 10 * NS
LIMIT = """
#include <stdint.h>
typedef struct { double at; int64_t machine; } Entry;
static void settle(Entry *heap, int64_t n, int64_t i, Entry moved) {
    for (;;) {
        int64_t least = 4 * i + 1, last = least + 4 < n ? least + 4 : n;
        if (least >= n) break;
        for (int64_t k = least + 1; k < last; k++) if (heap[k].at < heap[least].at) least = k;
        if (heap[least].at >= moved.at) break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = moved;
}
double pull(const double *speed, int64_t machines, const double *size, int64_t tasks, Entry *heap) {
    double last = 0.0;
    for (int64_t u = 0; u < machines; u++) heap[u] = (Entry){0.0, u};
    for (int64_t i = 0; i < tasks; i++) {
        Entry first = heap[0];
        first.at += size[i] / speed[first.machine];
        if (first.at > last) last = first.at;
        settle(heap, machines, 0, first);
    }
    return last;
}
"""


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


def limit(folder: Path) -> Any:
    """The C program as a function; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    (folder / "limit.c").write_text(LIMIT)
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", "limit.so", "limit.c"]
    subprocess.run(command, cwd=folder, check=True)
    pull = ctypes.CDLL(str(folder / "limit.so")).pull
    pull.restype = ctypes.c_double
    return pull


def singles(machines: int) -> None:
    """Applications of one task, each of a size of its own."""
    chance, tasks = np.random.default_rng(1), 10 * machines
    speeds, sizes = chance.uniform(1000.0, 10_000.0, machines), chance.uniform(0.5, 1.5, tasks) * TASK_SIZE
    order, heap = np.arange(tasks), np.zeros(2 * machines)

    def pull() -> None:
        PullQueue(speeds, tasks).run(2**63 - 1, order, np.ones(tasks, np.int64), sizes)

    def address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    report("PullQueue.run", machines, tasks, best_of(3, pull))
    with tempfile.TemporaryDirectory() as folder:
        if (in_c := limit(Path(folder))) is not None:
            given = address(speeds), machines, address(sizes), ctypes.c_int64(tasks), address(heap)
            report("limit in C", machines, tasks, best_of(3, lambda: in_c(*given)))
    gap = TASK_SIZE / 0.9 / float(speeds.sum())
    workload = gs.Workload.bags(
        tasks, gap, tasks=1, variation=0.0, task_size=(0.5 * TASK_SIZE, 1.5 * TASK_SIZE), seed=1
    )
    scenario = gs.Scenario(gs.Platform.of(speeds), workload)
    report("fcfs pull, whole", machines, tasks, best_of(1, lambda: gs.simulate(scenario, Fcfs(mode="pull"))))


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
    print("applications of one task")
    for machines in (1000, 100_000) if "--large" in sys.argv else (1000, 10_000):
        singles(machines)


if __name__ == "__main__":
    main()
