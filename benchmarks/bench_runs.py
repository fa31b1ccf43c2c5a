"""Whole runs with seconds and peak memory, each in a process of its own.

``pytest benchmarks/bench_runs.py`` times them with pytest-benchmark; ``python benchmarks/bench_runs.py``
prints a table (add names of runs to choose some).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# The paper's shape: 100 applications of 10 N tasks (+-20 %), a mean gap of 10 s, a = 65536 Mflop.
_CHILD = """
import json, resource, sys, time
import gridsim as gs
nodes, interfaces, name, parameters = json.loads(sys.argv[1])
scenario = gs.Scenario(
    platform=gs.Platform.desktop_grid(nodes=nodes, seed=1),
    workload=gs.Workload.bags(
        applications=100, interarrival=10.0, tasks_per_node=10.0, task_size=65536.0, seed=1
    ),
    network=gs.Network(interfaces=interfaces),
    seed=1,
)
scheduler = getattr(gs, name)(**parameters)
wall, cpu = time.perf_counter(), time.process_time()
result = gs.simulate(scenario, scheduler)
print(json.dumps({
    "wall_s": time.perf_counter() - wall,
    "cpu_s": time.process_time() - cpu,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "stretch_agg": result.max_stretch * result.aggregate_speed,
    "messages": int(result.messages["sent"].sum()),
    "digest": result.digest[:16],
}))
"""

RUNS: dict[str, tuple[int, str, str, dict[str, Any]]] = {
    "fair tree, 1,000 nodes, FIFO": (1_000, "fifo", "FairTree", {"update_on": "change"}),
    "fair tree, 1,000 nodes, FIFO, reports on completion": (1_000, "fifo", "FairTree", {}),
    "fair tree, 10,000 nodes, FIFO": (10_000, "fifo", "FairTree", {"update_on": "change"}),
    "fair tree, 10,000 nodes, FIFO, reports on completion": (10_000, "fifo", "FairTree", {}),
    "fair tree, 1,000 nodes, equal delays": (1_000, "equal", "FairTree", {"update_on": "change"}),
    "fair tree, 10,000 nodes, equal delays": (10_000, "equal", "FairTree", {"update_on": "change"}),
    "fair tree, 100,000 nodes, equal delays": (100_000, "equal", "FairTree", {"update_on": "change"}),
    "MinCent, 1,000 nodes": (1_000, "fifo", "MinCent", {}),
    "MinCent once, 1,000 nodes": (1_000, "fifo", "MinCent", {"mode": "once"}),
    "MinCent, 10,000 nodes": (10_000, "fifo", "MinCent", {}),
    "MinCent once, 10,000 nodes": (10_000, "fifo", "MinCent", {"mode": "once"}),
    "FCFS, 10,000 nodes": (10_000, "fifo", "Fcfs", {}),
}


def run(name: str) -> dict[str, Any]:
    """One run in a fresh process: what it measured of itself."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(RUNS[name])], check=True, capture_output=True, text=True
    )
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


@pytest.mark.parametrize("name", RUNS)
def test_run(benchmark: Any, name: str) -> None:
    """The process as a whole, import included; its own figures are in ``extra_info``."""
    benchmark.group = "whole runs"
    benchmark.extra_info.update(benchmark.pedantic(run, args=(name,), rounds=1, iterations=1))


def main() -> None:
    """Print a table of the named runs, or of all."""
    chosen = sys.argv[1:] or list(RUNS)
    print(
        f"{'run':54s} {'wall s':>8s} {'cpu s':>8s} {'peak MB':>8s} {'S*s_agg':>8s} {'messages':>9s}  digest"
    )
    for name in chosen:
        m = run(name)
        print(
            f"{name:54s} {m['wall_s']:8.2f} {m['cpu_s']:8.2f} {m['peak_mb']:8.0f} {m['stretch_agg']:8.1f}"
            f" {m['messages']:9d}  {m['digest']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
