"""Listed workloads of two million bags or jobs: made, run, saved, loaded, validated, reported, run again.

``python benchmarks/bench_listed.py [ROWS]`` prints s and us a row of the processor, s of the clock, and peak
memory of each step.  Each has a process of its own, but for the first three; imports are not in the times.
``report, no charts`` is a report whose charts are left out.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gridsim as gs
import gridsim.report.contents as contents
from gridsim.cli.commands.repro import reproduce_result
from gridsim.validation.results import validate_result

#: s in which all is submitted.
SPAN = 1e6
#: Functions of `gridsim.report.charts` that make several charts, and those that make one.
SEVERAL, ONE = ("distributions", "over_time", "traffic"), ("over_size", "utilization", "cycles", "comparison")
STEPS = ("run", "load", "validate", "report, no charts", "report", "repro")


def bags(draw: np.random.Generator, rows: int) -> Any:
    columns = draw.uniform(0.0, SPAN, rows), draw.integers(1, 4, rows), draw.uniform(100.0, 200.0, rows)
    return lambda: gs.Workload.of(*columns), gs.Platform.desktop_grid(50, seed=1), gs.Fcfs(mode="pull")


def tasks(draw: np.random.Generator, rows: int) -> Any:
    release, ends = draw.uniform(0.0, SPAN, rows), np.cumsum(draw.integers(1, 4, rows)).tolist()
    every = draw.uniform(100.0, 200.0, ends[-1]).tolist()
    sizes = [every[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return lambda: gs.Workload.of_tasks(release, sizes), gs.Platform.desktop_grid(50, seed=1), gs.WqrFt()


def jobs(draw: np.random.Generator, rows: int) -> Any:
    columns = draw.uniform(0.0, SPAN, rows), draw.integers(1, 5, rows), draw.uniform(1.0, 2.0, rows)
    return lambda: gs.Workload.jobs_of(*columns, requested=3.0), gs.Platform.equal(20), gs.BatchQueue()


KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {"bags": bags, "tasks": tasks, "jobs": jobs}


def step(kind: str, what: str, rows: int, folder: Path) -> None:
    file = folder / f"{kind}.npz"

    def timed(name: str, call: Callable[[], Any]) -> Any:
        began, clock = time.process_time(), time.perf_counter()
        outcome = call()
        took, lasted = time.process_time() - began, time.perf_counter() - clock
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each = f"{1e6 * took / rows:7.2f} us/row"
        print(f"{kind:6} {name:18} {took:8.2f} s {each} ({lasted:6.2f} s) {peak:6.0f} MB", flush=True)
        return outcome

    if what == "run":
        make, platform, scheduler = KINDS[kind](np.random.default_rng(1), rows)
        scenario = gs.Scenario(platform, timed("make", make))
        result = timed("simulate", lambda: gs.simulate(scenario, scheduler))
        timed("save", lambda: result.save(file))
        print(f"{kind:6} digest {result.digest[:16]}, {file.stat().st_size / 1e6:.1f} MB")
        return
    if what == "load":
        timed(what, lambda: gs.Result.load(file))
        return
    result = gs.Result.load(file, verify=what != "validate")
    if what == "validate":
        assert timed(what, lambda: validate_result(result)) == []
    elif what == "repro":
        assert timed(what, lambda: reproduce_result(result)).difference is None
    else:
        if what == "report, no charts":
            for name in SEVERAL:
                setattr(contents.charts, name, lambda *_: [])
            for name in ONE:
                setattr(contents.charts, name, lambda *_: None)
        one = gs.Scenario(gs.Platform.equal(1), gs.Workload.of([0.0], 1, 1.0))
        gs.write_report(gs.simulate(one, gs.Fcfs()), folder / "first.html")  # imports what a report needs
        timed(what, lambda: gs.write_report(result, folder / "report.html"))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for what in STEPS:
                subprocess.run([sys.executable, __file__, kind, what, str(rows), folder], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        step(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
