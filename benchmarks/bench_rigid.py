"""Whole runs of rigid jobs with seconds and peak memory, each in a process of its own.

``python benchmarks/bench_rigid.py`` prints a table (add names of runs, or parts of them, to choose some);
``pytest benchmarks/bench_rigid.py`` times the small ones with pytest-benchmark.

Drawn jobs: 30 a node at a request utilization of 0.24, of at most 200 nodes, so that 1,000 nodes get the same
ones.  Jobs of a log: those of RICC 2010, whole, as often as it takes for the same load of a node; they need
the environment variable GRIDSIM_TRACES.  Jobs of a file: 100,000 drawn ones that were written to a log, so
that the time includes reading it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_CHILD = """
import json, os, resource, sys, tempfile, time
import gridsim as gs
import numpy as np
nodes, log, name, parameters = json.loads(sys.argv[1])
if log == "drawn":
    drawn = gs.Workload.jobs(100_000, "ricc2010", 0.9, 1000, seed=1).realize(gs.Platform.equal(nodes))
    columns = drawn.release, drawn.task_size / 1000.0, drawn.tasks, drawn.requested
    log = os.path.join(tempfile.mkdtemp(), "drawn.swf")
    with open(log, "w") as file:
        for job, row in enumerate(zip(*(np.ceil(c).astype(int).tolist() for c in columns)), 1):
            at, run_time, procs, requested = row
            said = f"{job} {at} -1 {run_time} {procs} -1 -1 {procs} {requested} -1 1 {job % 300}"
            file.write(said + 6 * " -1" + "\\n")
    jobs = gs.Workload.jobs_from_log(log)
elif log:
    jobs = gs.Workload.jobs_from_log(log, cores_per_node=8, copies=nodes // 5000)
else:
    jobs = gs.Workload.jobs(30 * nodes, "ricc2010", 0.24, 200, seed=1)
scenario = gs.Scenario(gs.Platform.equal(nodes), jobs, gs.Network(interfaces="equal"), seed=3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
wall, cpu = time.perf_counter(), time.process_time()
result = gs.simulate(scenario, getattr(gs, name)(**parameters))
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
exchanges = result.tables.get("exchanges")
print(json.dumps({
    "wall_s": wall,
    "cpu_s": cpu,
    "jobs": len(result.applications),
    "job_us": wall / len(result.applications) * 1e6,
    "peak_mb": peak / 2**20,
    "node_kb": (peak - before) / nodes / 1024,
    "messages": float(result.messages["sent"].sum()) / nodes,
    "schedules": 0.0 if exchanges is None else float(exchanges["schedules"].sum()) / nodes,
    "waiting": result.mean_waiting,
    "failed": result.failed,
    "digest": result.digest[:16],
}))
"""

LOG = "ricc2010-a/RICC-2010-2-a.swf.gz"

#: name -> nodes, whether the jobs are those of the log ("drawn": of a file of drawn jobs), scheduler, its
#: parameters
RUNS: dict[str, tuple[int, bool | str, str, dict[str, Any]]] = {
    **{
        f"drawn jobs, {nodes:,} nodes, push": (nodes, False, "DgsAsap", {})
        for nodes in (1_000, 5_000, 20_000, 100_000)
    },
    **{f"log, {nodes:,} nodes, push": (nodes, True, "DgsAsap", {}) for nodes in (5_000, 20_000, 100_000)},
    "log, 5,000 nodes, pull": (5_000, True, "DgsAsap", {"policy": "pull"}),
    "log, 5,000 nodes, poll": (5_000, True, "DgsAsap", {"policy": "poll"}),
    "log, 5,000 nodes, push, CYCLON": (5_000, True, "DgsAsap", {"overlay": "cyclon"}),
    "log, 5,000 nodes, Asap": (5_000, True, "Asap", {}),
    "log, 5,000 nodes, EASY": (5_000, True, "BatchQueue", {}),
    "log, 5,000 nodes, FCFS": (5_000, True, "BatchQueue", {"backfill": "none"}),
    "file of 100,000 jobs, 5,000 nodes, EASY": (5_000, "drawn", "BatchQueue", {}),
}
#: Those that take minutes, and gigabytes, run when they are named.
LARGE = {name for name, (nodes, *_) in RUNS.items() if nodes > 20_000}


def log() -> str | None:
    """The file of the log, if there is one."""
    folder = os.environ.get("GRIDSIM_TRACES")
    return str(Path(folder, LOG)) if folder else None


def run(name: str) -> dict[str, Any]:
    """One run in a fresh process: what it measured of itself."""
    nodes, logged, *scheduler = RUNS[name]
    given = json.dumps([nodes, log() if logged is True else logged, *scheduler])
    child = subprocess.run([sys.executable, "-c", _CHILD, given], check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


def pytest_generate_tests(metafunc: Any) -> None:
    """So that the table needs no pytest."""
    metafunc.parametrize("name", [name for name in RUNS if name not in LARGE])


def test_run(benchmark: Any, name: str) -> None:
    """The process as a whole, import included; its own figures are in ``extra_info``."""
    if RUNS[name][1] is True and log() is None:
        import pytest

        pytest.skip("GRIDSIM_TRACES is not set")
    benchmark.group = "whole runs of rigid jobs"
    benchmark.extra_info.update(benchmark.pedantic(run, args=(name,), rounds=1, iterations=1))


def main() -> None:
    """Print a table of the runs whose names contain one of the words, or of those that are not large."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of names")
    words = parser.parse_args().words
    chosen = [name for name in RUNS if (any(word in name for word in words) if words else name not in LARGE)]
    columns = ("wall s", "cpu s", "us/job", "peak MB", "KB/node", "msgs/node", "schedules/node", "waiting s")
    print(f"{'run':40s} {'jobs':>9s} " + " ".join(f"{column:>9s}" for column in columns) + "  digest")
    for name in chosen:
        if RUNS[name][1] is True and log() is None:
            print(f"{name:40s} left out: GRIDSIM_TRACES is not set")
            continue
        m = run(name)
        print(
            f"{name:40s} {m['jobs']:9d} {m['wall_s']:9.2f} {m['cpu_s']:9.2f} {m['job_us']:9.1f}"
            f" {m['peak_mb']:9.0f} {m['node_kb']:9.1f} {m['messages']:9.1f} {m['schedules']:14.0f}"
            f" {m['waiting']:9.1f}  {m['digest']}" + (f"  {m['failed']} rejected" if m["failed"] else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
