"""Whole runs with seconds and peak memory, each in a process of its own.

``python benchmarks/bench_runs.py`` prints a table (add names of runs, or parts of them, to choose some);
``pytest benchmarks/bench_runs.py`` times those of up to 10,000 nodes with pytest-benchmark.

For the fair tree the table has us per leaf update: processor time over the shares that leaves took, each of
which changes a queue and makes a summary that climbs the tree.  Beside it is what the kernels alone take,
measured in the same process on the queues that a leaf holds half-way: for each summary that a leaf sent one
is sampled, for each that a router sent two are added, with 16 bits a cell and in a row, so without waiting
for memory.  There are no messages, debts or decisions.  ``--rounds`` prints medians, each figure by itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

# The paper's shape: 100 applications of 10 N tasks (+-20 %), a mean gap of 10 s, a = 65536 Mflop.
_CHILD = """
import json, resource, sys, time
import gridsim as gs
import numpy as np
from gridcore import SummaryGrid, sample_availability_batch
nodes, network, name, parameters, threads = json.loads(sys.argv[1])
scenario = gs.Scenario(
    platform=gs.Platform.desktop_grid(nodes=nodes, seed=1),
    workload=gs.Workload.bags(
        applications=100, interarrival=10.0, tasks_per_node=10.0, task_size=65536.0, seed=1
    ),
    network=gs.Network(**network),
    seed=1,
)
scheduler = getattr(gs, name)(**parameters)
wall, cpu = time.perf_counter(), time.process_time()
result = gs.simulate(scenario, scheduler, threads=threads)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
updates, alone = None, None
if name == "FairTree":
    updates = int(result.applications["nodes_used"].sum())
    grid = SummaryGrid(*(np.array(axis) for axis in result.facts["grid"].values()))
    length, leaves = max(1, updates // nodes // 2), min(nodes, 20_000)
    # what leaves and routers sent: at a level with both, as many of each as there are nodes
    traffic = result.tables["traffic"]
    level, sent = (traffic[name][traffic["kind"] == "summary"] for name in ("level", "messages"))
    first = 2.0**level - 1.0
    routers = np.clip(nodes - 1.0 - first, 0.0, 2.0**level)
    routers /= np.minimum(2.0**level, 2.0 * nodes - 1.0 - first)
    sums, samples = (float((sent * part).sum()) / updates for part in (routers, 1.0 - routers))
    applications = result.applications
    each = np.arange(length) * (len(applications) // 2 // length)
    release, size = (np.tile(applications[column][each], leaves) for column in ("release", "size"))
    node = {"speed": scenario.platform.speeds[:leaves], "free_at": np.full(leaves, release.max() + 20.0)}
    queues = np.arange(leaves + 1) * length, release, size, size / nodes
    narrow, half = np.empty((leaves, *grid.shape), np.uint16), leaves // 2
    offsets, *entries = queues
    timed = []
    for _ in range(5):
        begin = time.process_time()
        for k in range(0, leaves, 256):  # few at a time, so that they stay in cache
            low, high = k * length, min(k + 256, leaves) * length
            few = offsets[: (high - low) // length + 1], *(entry[low:high] for entry in entries)
            of_few = {what: value[k : k + 256] for what, value in node.items()}
            narrow[k : k + 256] = sample_availability_batch(grid, float(release.max()), *few, **of_few)
        between = time.process_time()
        for _ in range(2):  # an addition a leaf
            np.add(narrow[:half], narrow[half : 2 * half], out=narrow[:half])
        added = time.process_time() - between
        timed.append((samples * (between - begin) + sums * added) / leaves * 1e6)
    alone = sorted(timed)[2]
print(json.dumps({
    "wall_s": wall,
    "cpu_s": cpu,
    "peak_mb": peak,
    "leaf_update_us": cpu / updates * 1e6 if updates else None,
    "kernels_alone_us": alone,
    "gap": result.gap(),
    "stretch_agg": result.max_stretch * result.aggregate_speed,
    "messages": int(result.messages["sent"].sum()),
    "digest": result.digest[:16],
}))
"""

FIFO: dict[str, Any] = {"interfaces": "fifo"}
EQUAL: dict[str, Any] = {"interfaces": "equal"}
JITTER: dict[str, Any] = {"interfaces": "equal", "jitter": 0.02}  # 30 to 70 ms
CHANGE: dict[str, Any] = {"update_on": "change"}

#: name -> nodes, network, scheduler, its parameters, threads
RUNS: dict[str, tuple[int, dict[str, Any], str, dict[str, Any], int]] = {
    **{
        f"fair tree, {nodes:,} nodes, {how}": (nodes, network, "FairTree", CHANGE, 1)
        for how, network in (("equal delays", EQUAL), ("FIFO", FIFO), ("delays of 30 to 70 ms", JITTER))
        for nodes in (1_000, 10_000, 100_000, 1_000_000)
    },
    "fair tree, 10,000 nodes, equal delays, 2 threads": (10_000, EQUAL, "FairTree", CHANGE, 2),
    "fair tree, 100,000 nodes, equal delays, 2 threads": (100_000, EQUAL, "FairTree", CHANGE, 2),
    "fair tree, 1,000 nodes, FIFO, reports on completion": (1_000, FIFO, "FairTree", {}, 1),
    "fair tree, 10,000 nodes, FIFO, reports on completion": (10_000, FIFO, "FairTree", {}, 1),
    "fair tree, 10,000 nodes, FIFO, bisection": (10_000, FIFO, "FairTree", {"stretch": "bisection"}, 1),
    # the root decides, so that cells hardly change the messages: what differs is what the cells cost
    **{
        f"fair tree, 10,000 nodes, {how}, decided at the root{cells}": (
            10_000,
            network,
            "FairTree",
            {"bound": 0.0, **samples},
            1,
        )
        for how, network in (("equal delays", EQUAL), ("FIFO", FIFO))
        for cells, samples in (("", {}), (", 2 cells", {"samples": [2, 1, 1]}))
    },
    "MinCent, 1,000 nodes": (1_000, FIFO, "MinCent", {}, 1),
    "MinCent once, 1,000 nodes": (1_000, FIFO, "MinCent", {"mode": "once"}, 1),
    "MinCent, 10,000 nodes": (10_000, FIFO, "MinCent", {}, 1),
    "MinCent once, 10,000 nodes": (10_000, FIFO, "MinCent", {"mode": "once"}, 1),
    "FCFS, 10,000 nodes": (10_000, FIFO, "Fcfs", {}, 1),
}
#: Those that take minutes, and gigabytes, run when they are named.
LARGE = {name for name, (nodes, *_) in RUNS.items() if nodes > 10_000}


def run(name: str) -> dict[str, Any]:
    """One run in a fresh process: what it measured of itself."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(RUNS[name])], check=True, capture_output=True, text=True
    )
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


def pytest_generate_tests(metafunc: Any) -> None:
    """So that the table needs no pytest."""
    metafunc.parametrize("name", [name for name in RUNS if name not in LARGE])


def test_run(benchmark: Any, name: str) -> None:
    """The process as a whole, import included; its own figures are in ``extra_info``."""
    benchmark.group = "whole runs"
    benchmark.extra_info.update(benchmark.pedantic(run, args=(name,), rounds=1, iterations=1))


def main() -> None:
    """Print a table of the runs whose names contain one of the words, or of those that are not large."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of names")
    parser.add_argument("--save", metavar="FILE", help="add what was measured to this JSON file, by name")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each, of which medians are printed")
    given = parser.parse_args()
    chosen = [
        name
        for name in RUNS
        if (any(word in name for word in given.words) if given.words else name not in LARGE)
    ]
    columns = ("wall s", "cpu s", "peak MB", "S*s_agg", "gap", "us/update", "alone us", "messages")
    print(f"{'run':54s} " + " ".join(f"{column:>9s}" for column in columns) + "  digest")
    for name in chosen:
        rounds = [run(name) for _ in range(given.rounds)]
        if len({each["digest"] for each in rounds}) > 1:
            sys.exit(f"{name} has several digests")
        m = {
            key: statistics.median(each[key] for each in rounds) if isinstance(value, float) else value
            for key, value in rounds[0].items()
        }
        per, alone = (
            f"{m[key]:9.2f}" if m[key] else f"{'-':>9s}" for key in ("leaf_update_us", "kernels_alone_us")
        )
        print(
            f"{name:54s} {m['wall_s']:9.2f} {m['cpu_s']:9.2f} {m['peak_mb']:9.0f} {m['stretch_agg']:9.1f}"
            f" {m['gap']:9.3f} {per} {alone} {m['messages']:9d}  {m['digest']}",
            flush=True,
        )
        if given.save:
            path = Path(given.save)
            saved = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**saved, name: m}, indent=1) + "\n")


if __name__ == "__main__":
    main()
