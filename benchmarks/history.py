"""A history of speeds: how long runs take at each commit, and what has become slower by more than a tenth.

``python benchmarks/history.py`` measures the runs below (names, or parts of names, choose some), adds a
line to ``benchmarks/history.jsonl``, and compares it with the line before of this machine, or with that of
``--since``. ``--against COMMIT`` builds that commit in a folder of its own and runs both in turn, which is
to be preferred: medians of two sessions differ by what else the machine did.

Each run is in a process of its own; seconds of a processor, without imports and what makes the scenario.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "benchmarks" / "history.jsonl"
#: What counts as slower.
SLOWER = 1.1
_BAGS = """
scenario = gs.Scenario(
    gs.Platform.desktop_grid(nodes={nodes}, seed=1),
    gs.Workload.bags(applications={applications}, interarrival=10.0, tasks_per_node=10.0, seed=1),
    gs.Network({network}),
    seed=1,
)
"""
_JOBS = """
workload = gs.Workload.jobs({nodes} * 10, utilization=0.5, max_nodes={nodes}, seed=1)
scenario = gs.Scenario(gs.Platform.equal({nodes}), workload, seed=1)
"""
_STREAMS = """
workload = gs.Workload.job_streams(1000.0, interarrival=25.0, seed=1)
scenario = gs.Scenario(gs.Platform.normal(1000, seed=1), workload, seed=1)
"""


def _bags(
    scheduler: str, nodes: int, applications: int, network: str = "", form: str = ""
) -> tuple[str, str]:
    setup = _BAGS.format(nodes=nodes, applications=applications, network=network)
    return setup, f"gs.simulate(scenario, {scheduler!r}{form})"


#: Name -> what makes `scenario`, and the expression that is measured.
RUNS = {
    "1,000 least runs": (
        _BAGS.format(nodes=3, applications=2, network=""),
        "[gs.simulate(scenario, 'fcfs') for _ in range(1000)]",
    ),
    "fair tree, FIFO": _bags("fair-tree", 2000, 20),
    "fair tree, equal delays": _bags("fair-tree", 5000, 20, "interfaces='equal'"),
    "MinCent": _bags("mincent", 2000, 50),
    "mct": _bags("mct", 2000, 50),
    "WQR-FT": _bags("GreatET-AllInfo", 2000, 20),
    "Sparrow": _bags("sparrow", 1000, 20),
    "node program": _bags("power-of-d", 300, 10, form=", nodes='interpreted'"),
    "DGS_ASAP": (_JOBS.format(nodes=300), "gs.simulate(scenario, 'dgs-asap')"),
    "EASY": (_JOBS.format(nodes=3000), "gs.simulate(scenario, 'backfill')"),
    "RJSS": (_STREAMS, "gs.simulate(scenario, 'rjss')"),
}
_CHILD = """
import time
import gridsim as gs
{setup}
{run}  # imports what it needs
begin = time.process_time()
{run}
print(time.process_time() - begin)
"""


def seconds(name: str, folder: Path = ROOT) -> float:
    """Run `name` with the library in `folder`; return seconds of a processor."""
    setup, run = RUNS[name]
    child = subprocess.run(
        [sys.executable, "-c", _CHILD.format(setup=setup, run=run)],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )
    return float(child.stdout)


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


def machine() -> str:
    """Return what tells this machine from others in the history."""
    return f"{platform.node()} {platform.machine()} {os.cpu_count()} {platform.python_version()}"


@contextmanager
def built(commit: str) -> Iterator[Path]:
    """Provide a folder with the library as of `commit`, its kernels built in place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        git("worktree", "add", "--detach", str(path), commit)
        try:
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, check=True, capture_output=True, cwd=path)
            yield path
        finally:
            git("worktree", "remove", "--force", str(path))


def in_turn(names: list[str], commit: str, rounds: int) -> bool:
    """Print paired ratios of this tree and `commit`; return whether something is slower."""
    slower = False
    with built(commit) as folder:
        for name in names:
            pairs = [(seconds(name), seconds(name, folder)) for _ in range(rounds)]
            ratio = statistics.median(now / before for now, before in pairs)
            now, before = (statistics.median(each) for each in zip(*pairs, strict=True))
            slower |= ratio > SLOWER
            print(f"{name:26} {before:8.4f} -> {now:8.4f} s  {ratio:5.2f}{'  slower' * (ratio > SLOWER)}")
    return slower


def lines() -> list[dict[str, Any]]:
    """Return the history of this machine, the oldest first."""
    if not FILE.exists():
        return []
    found = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [line for line in found if line["machine"] == machine()]


def main() -> int:
    parser = argparse.ArgumentParser(description="How long runs take at each commit.")
    parser.add_argument("names", nargs="*", help="parts of the names of runs; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--since", metavar="COMMIT", help="compare with the measurements of that commit")
    parser.add_argument("--against", metavar="COMMIT", help="build that commit and run both in turn")
    given = parser.parse_args()
    names = [name for name in RUNS if not given.names or any(part in name for part in given.names)]
    if given.against:
        return in_turn(names, given.against, given.rounds)
    since = git("rev-parse", given.since) if given.since else None
    before = [line for line in lines() if since in (None, line["commit"])]
    if since and not before:
        sys.exit(f"{FILE} has no line of {since} on this machine; --against builds it")
    medians = {name: statistics.median(seconds(name) for _ in range(given.rounds)) for name in names}
    entry = {
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--short")),
        "machine": machine(),
    }
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**entry, "seconds": medians}) + "\n")
    slower = False
    for name, now in medians.items():
        last = before[-1]["seconds"].get(name) if before else None
        ratio = now / last if last else 1.0
        slower |= ratio > SLOWER
        was = "" if last is None else f"  {last:8.4f} s before, {ratio:5.2f}{'  slower' * (ratio > SLOWER)}"
        print(f"{name:26} {now:8.4f} s{was}")
    return slower


if __name__ == "__main__":
    sys.exit(main())
