"""Jobs that look for a node: kernel and limit of probes that find nobody, and runs of RJSS.

``python benchmarks/bench_walk.py`` prints two tables (add names of runs, or parts of them, to choose some, or
``probes`` for the first table alone); ``pytest benchmarks/bench_walk.py`` times the small ones with
pytest-benchmark.

Probes: all nodes are equal and idle, so that a job stays at home after it has asked the tenth part of the
others in vain.  The limit is a C program that does nothing but draw nodes, of 16 bytes, and test whether a
job would go there: one after the other, or 64 drawn and fetched before the first is tested.  The kernel also
sees to it that a job asks a node once only, and counts messages; its nodes have 32 bytes.

Whole runs: each in a process of its own, from the draws of the workload to the result; a load of 0.8.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gridcore.common.state import NEVER
from gridcore.network.links import Links
from gridcore.random_walk.walk import RECORD, JobWalks
from gridsim.support.clock import NS

SIZES = (10_000, 100_000, 1_000_000)
#: In a call of the kernel or the limit.
PROBES = 20_000_000
ROUNDS = 15

LIMIT = """
#include <stdint.h>
typedef struct { float free, rate, inverse_speed, remote; } node;
static uint64_t a = 0x9E3779B97F4A7C15u, b = 0xD1B54A32D192ED03u;
static inline uint32_t drawn(uint32_t n)
{
    uint64_t s = a, t = b;
    a = t, s ^= s << 23, b = s ^ t ^ (s >> 17) ^ (t >> 26);
    return (uint32_t) (((b + t) >> 32) * n >> 32);
}
static inline int fits(const node *u, float now, float latency, float work, float bound)
{
    float wait = u->free > now ? u->free - now : 0;
    return (wait + latency + work * u->inverse_speed < bound) & (u->rate * u->remote < 1);
}
uint64_t in_turn(const node *nodes, uint32_t n, uint64_t probes)
{
    uint64_t found = 0;
    for (uint64_t k = 0; k < probes; k++)
        found += fits(&nodes[drawn(n)], 1000, 0.1f, 50, 30);
    return found;
}
uint64_t by_64(const node *nodes, uint32_t n, uint64_t probes)
{
    uint64_t found = 0;
    uint32_t u[64];
    for (uint64_t k = 0; k < probes; k += 64) {
        for (int i = 0; i < 64; i++)
            u[i] = drawn(n), __builtin_prefetch(&nodes[u[i]]);
        for (int i = 0; i < 64; i++)
            found += fits(&nodes[u[i]], 1000, 0.1f, 50, 30);
    }
    return found;
}
"""
LIMITS = ("in_turn", "by_64")

_CHILD = """
import json, resource, sys, time
import gridsim as gs
nodes, parameters = json.loads(sys.argv[1])
jobs = gs.Workload.job_streams(1000, interarrival=25.0, processing_time=20.0, seed=1)
scenario = gs.Scenario(gs.Platform.normal(nodes, 1), jobs, gs.Network.star(), seed=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
wall, cpu = time.perf_counter(), time.process_time()
result = gs.simulate(scenario, gs.Rjss(**parameters))
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
jobs, probes = len(result.applications), int(result.tables["jobs"]["probes"].sum())
print(json.dumps({
    "jobs": jobs,
    "wall_s": wall,
    "cpu_s": cpu,
    "job_us": wall / jobs * 1e6,
    "probes": probes / jobs,
    "mprobes_s": probes / wall / 1e6,
    "peak_mb": peak / 2**20,
    "job_bytes": (peak - before) / jobs,
    "turnaround_s": result.mean_turnaround,
    "digest": result.digest[:16],
}))
"""

#: name -> nodes, parameters of RJSS
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    **{f"{nodes:,} nodes": (nodes, {}) for nodes in (1_000, 10_000, 100_000)},
    **{
        f"{nodes:,} nodes, {how}": (nodes, parameters)
        for how, parameters in (
            ("network", {"probe_latency": "network"}),
            ("overlay", {"overlay": 20}),
            ("network, overlay", {"probe_latency": "network", "overlay": 20}),
        )
        for nodes in (1_000, 10_000)
    },
}
#: What a whole run may need, s and MB.
MOST_SECONDS, MOST_MB = 300.0, 2048.0


# -- probes -------------------------------------------------------------------------------------------------


def walks(nodes: int) -> JobWalks:
    """Return jobs that find nobody, ready to run: one a second, at idle nodes."""
    jobs = PROBES // (nodes // 10)
    homes = np.random.default_rng(1).permutation(nodes)
    links = Links(
        np.arange(nodes),
        nodes,
        latency=100_500_000,
        bandwidth=125_000.0,
        widths=[RECORD.itemsize] * 4,
        deferred=[False] * 4,
        fifo=False,
    )
    return JobWalks(
        links,
        np.full(nodes, 200.0),
        kinds=[0, 1, 2, 3],
        release=np.arange(jobs) * NS,
        node=homes[np.arange(jobs) % nodes],
        work=np.full(jobs, 4000.0),
        data=np.full(jobs, 5000),
        rate=np.full(nodes, 0.03),
        probes=nodes // 10,
    )


def seconds_of(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def probe_ns(nodes: int) -> float:
    jobs = walks(nodes)
    seconds = seconds_of(lambda: jobs.advance(NEVER))
    assert jobs.jobs()["probes"].sum() == PROBES
    return seconds / PROBES * 1e9


def compiled(folder: Path) -> Any:
    """The limit, compiled for this processor; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (folder / "limit.c").write_text(LIMIT)
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", "limit.so", "limit.c"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "limit.so"))
    for name in LIMITS:
        function = getattr(library, name)
        function.restype = ctypes.c_uint64
        function.argtypes = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    return library


def limit_nodes(nodes: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """float32[nodes, 4]: most are busy for long, or far too slow."""
    chance = np.random.default_rng(1)
    low, span = np.array([1000, 0.03, 0.5, 0]), np.array([400, 0.02, 1.0, 60])
    return (low + span * chance.random((nodes, 4))).astype(np.float32)


def compare_probes() -> None:
    """Kernel and limits in turn, medians."""
    with tempfile.TemporaryDirectory() as folder:
        limit = compiled(Path(folder))
        if limit is None:
            print("no C compiler: nothing to compare with")
        print(f"ns a probe, medians of {ROUNDS} rounds in turn; x: median of the paired ratios, kernel / C")
        print(f"{'nodes':>10s}{'kernel':>10s}{'C, in turn':>12s}{'x':>7s}{'C, by 64':>12s}{'x':>7s}")
        for nodes in SIZES:
            rounds: dict[str, list[float]] = {"kernel": [], **{name: [] for name in LIMITS}}
            array = limit_nodes(nodes)
            for _ in range(ROUNDS):
                rounds["kernel"].append(probe_ns(nodes))
                for name in LIMITS if limit is not None else ():
                    function = getattr(limit, name)
                    took = seconds_of(lambda: function(array.ctypes.data, nodes, PROBES))  # noqa: B023
                    rounds[name].append(took / PROBES * 1e9)
            line = f"{nodes:10,d}{statistics.median(rounds['kernel']):10.2f}"
            for name in LIMITS if limit is not None else ():
                pairs = zip(rounds["kernel"], rounds[name], strict=True)
                ratio = statistics.median(ours / theirs for ours, theirs in pairs)
                line += f"{statistics.median(rounds[name]):12.2f}{ratio:7.2f}"
            print(line, flush=True)


# -- whole runs ---------------------------------------------------------------------------------------------


def run(name: str) -> dict[str, Any]:
    """One run in a fresh process: what it measured of itself."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(RUNS[name])], check=True, capture_output=True, text=True
    )
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


def compare_runs(names: list[str]) -> bool:
    """A line each; whether none needs more than it may."""
    columns = ("wall s", "cpu s", "us/job", "probes/job", "M probes/s", "peak MB", "bytes/job", "mean s")
    print(f"\n{'run':32s}{'jobs':>10s}" + "".join(f"{column:>11s}" for column in columns) + "  digest")
    fine = True
    for name in names:
        m = run(name)
        fine &= m["wall_s"] < MOST_SECONDS and m["peak_mb"] < MOST_MB
        print(
            f"{name:32s}{m['jobs']:10d}{m['wall_s']:11.2f}{m['cpu_s']:11.2f}{m['job_us']:11.2f}"
            f"{m['probes']:11.2f}{m['mprobes_s']:11.2f}{m['peak_mb']:11.0f}{m['job_bytes']:11.0f}"
            f"{m['turnaround_s']:11.3f}  {m['digest']}",
            flush=True,
        )
    return fine


# -- pytest -------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: Any) -> None:
    """So that the tables need no pytest."""
    for name, values in (
        ("nodes", SIZES),
        ("limit", LIMITS),
        ("run_name", [name for name, (nodes, _) in RUNS.items() if nodes <= 1_000]),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values)


def test_probes(benchmark: Any, nodes: int) -> None:
    benchmark.group = f"probes, {nodes} nodes"
    benchmark.extra_info["probes"] = PROBES
    benchmark.pedantic(lambda jobs: jobs.advance(NEVER), setup=lambda: ((walks(nodes),), {}), rounds=3)


def test_limit(benchmark: Any, nodes: int, limit: str, tmp_path: Path) -> None:
    library = compiled(tmp_path)
    if library is None:
        import pytest

        pytest.skip("no C compiler")
    function, array = getattr(library, limit), limit_nodes(nodes)
    benchmark.group = f"probes, {nodes} nodes"
    benchmark.extra_info["probes"] = PROBES
    benchmark.pedantic(lambda: function(array.ctypes.data, nodes, PROBES), rounds=3)


def test_run(benchmark: Any, run_name: str) -> None:
    """The process as a whole, import included; its own figures are in ``extra_info``."""
    benchmark.group = "whole runs of RJSS"
    benchmark.extra_info.update(benchmark.pedantic(run, args=(run_name,), rounds=1, iterations=1))


def main() -> int:
    """Print the tables; of the runs those whose names contain one of the words, or all."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of names, or 'probes'")
    words = parser.parse_args().words
    if not words or "probes" in words:
        compare_probes()
    names = [name for name in RUNS if not words or any(word in name for word in words)]
    return 0 if not names or compare_runs(names) else 1


if __name__ == "__main__":
    sys.exit(main())
