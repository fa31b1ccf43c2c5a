"""How time and memory of a run grow with its length, 1, 10 and 100 times the applications, by scheduler.

The load stays the same, with and without failures of machines.  What takes more than twelve times as long for
ten times the work is marked.  Times are of the processor, of this process, without setting up the scenario.

With `--memory` each run has a process of its own (Linux only).  The table has the most memory that it held in
addition to what it had when the run began, the bytes of the result's tables, and by how many bytes the first
grows for each byte of the second, between the last two lengths.

    python benchmarks/bench_growth.py [--memory] [--times 1,10,100] [--schedulers A,B] [--budget 60]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings

import gridsim as gs
from gridsim.scheduling.registry import named_scheduler, registered

#: More than so many times as long for ten times the work is too much.
MOST = 12.0
MACHINES, BAGS, JOBS = 50, 40, 60


def scenario(times: int, kind: str, failing: bool) -> gs.Scenario:
    """Return a scenario of `times` the length, at a load of about 0.6."""
    platform, faults = gs.Platform.desktop_grid(MACHINES, seed=1), None
    if kind == "rigid":
        platform = gs.Platform.equal(
            MACHINES, attributes=gs.DrawnAttributes(side=1.0)
        )  # places, for DGS_ACAP
        workload = gs.Workload.jobs(jobs=JOBS * times, utilization=0.6, max_nodes=16, seed=2)
    elif kind == "streams":
        workload = gs.Workload.job_streams(horizon=200.0 * times, seed=2)
    else:
        workload = gs.Workload.bags(BAGS * times, tasks_per_node=1.0, load=0.6, seed=2)
    if failing:
        up = 20_000_000.0 if kind == "rigid" else 5_000.0
        faults = gs.Faults.exponential(up=up, down=200.0, seed=3)
    return gs.Scenario(platform, workload, faults=faults, seed=4)


def kind_of(scheduler: gs.Scheduler) -> str:
    """Return the kind of workload that a scheduler is for."""
    if scheduler.rigid:
        return "rigid"
    return "streams" if isinstance(scheduler, gs.Rjss | gs.ResourceExclusion | gs.NoMigration) else "bags"


def seconds(name: str, times: int, failing: bool) -> float | None:
    """Return how long a run takes; None if the scheduler cannot run it."""
    scheduler = named_scheduler(name, {})
    given = scenario(times, kind_of(scheduler), failing)
    given.workload.realize(given.platform)
    start = time.process_time()
    try:
        gs.simulate(given, scheduler)
    except gs.ScenarioError as error:
        print(f"# {name}: {error}"[:150])
        return None
    return time.process_time() - start


def status(name: str) -> int:
    """Return an entry of the memory of this process, bytes: VmRSS is what it has, VmHWM the most it had."""
    with open("/proc/self/status") as lines:
        [kilobytes] = [line.split()[1] for line in lines if line.startswith(name)]
    return 1024 * int(kilobytes)


def measured(name: str, times: int, failing: bool) -> dict[str, float]:
    """Run once, and return the most memory that it took, the bytes of its tables, and s."""
    scheduler = named_scheduler(name, {})
    given = scenario(times, kind_of(scheduler), failing)
    given.workload.realize(given.platform)
    with open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")  # the most that it had is what it has now
    before, start = status("VmRSS"), time.process_time()
    result = gs.simulate(given, scheduler)
    took, most = time.process_time() - start, status("VmHWM")
    tables = sum(column.nbytes for table in result.tables.values() for _, column in table.items())
    return {"memory": most - before, "tables": tables, "seconds": took}


def in_a_process(name: str, times: int, failing: bool) -> dict[str, float] | None:
    """Return what `measured` does, in a copy of this process; None if the scheduler cannot run it."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            found = json.dumps(measured(name, times, failing))
        except gs.ScenarioError as error:
            found = json.dumps({"error": str(error)})
        with os.fdopen(writing, "w") as stream:
            stream.write(found)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = stream.read()
    os.wait()
    said = json.loads(found)
    if "error" in said:
        print(f"# {name}: {said['error']}"[:150])
        return None
    return dict(said)


def memory(names: list[str], steps: list[int], budget: float) -> None:
    """Print a row of memory for each scheduler, with and without failures."""
    heads = "".join(f"{f'x{step}, MB':>11}{'tables':>9}" for step in steps)
    print(f"{'scheduler':<28}{'failures':>9}{heads}   bytes a byte of the tables")
    in_a_process("fcfs", 1, False)
    for name in names:
        for failing in (False, True):
            rows: list[dict[str, float]] = []
            for step in steps:
                if rows and rows[-1]["seconds"] * (step / steps[len(rows) - 1]) > budget:
                    break
                if (row := in_a_process(name, step, failing)) is None:
                    break
                rows.append(row)
            if not rows:
                continue
            cells = "".join(f"{row['memory'] / 1e6:>11.2f}{row['tables'] / 1e6:>9.3f}" for row in rows)
            growth = ""
            if len(rows) > 1:
                more, tables = (rows[-1][key] - rows[-2][key] for key in ("memory", "tables"))
                growth = f"{more / tables:.1f}"
            empty = " " * 20 * (len(steps) - len(rows))
            print(f"{name:<28}{'yes' if failing else 'no':>9}{cells}{empty}   {growth}", flush=True)


def main() -> int:
    """Print a row for each scheduler, with and without failures; return 1 if one grew too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", default="1,10,100")
    parser.add_argument("--schedulers", default=",".join(registered()))
    parser.add_argument(
        "--budget", type=float, default=60.0, help="s; no run is tried that is expected to take longer"
    )
    parser.add_argument("--memory", action="store_true", help="measure memory, not time")
    given = parser.parse_args()
    steps = [int(each) for each in given.times.split(",")]
    warnings.simplefilter("ignore")
    if given.memory:
        memory(given.schedulers.split(","), steps, given.budget)
        return 0
    status = 0
    heads = "".join(f"{f'x{step}, s':>10}" for step in steps)
    print(f"{'scheduler':<28}{'failures':>9}{heads}   growth")
    for name in given.schedulers.split(","):
        for failing in (False, True):
            took: list[float] = []
            for step in steps:
                if took and took[-1] * step / steps[len(took) - 1] > given.budget:
                    break
                if (one := seconds(name, step, failing)) is None:
                    break
                took.append(one)
            if not took:
                continue
            ratios = [b / a for a, b in zip(took, took[1:], strict=False)]
            bad = any(r > MOST * (y / x) / 10.0 for r, x, y in zip(ratios, steps, steps[1:], strict=False))
            status |= bad
            cells = "".join(f"{each:>10.3f}" for each in took) + " " * 10 * (len(steps) - len(took))
            print(
                f"{name:<28}{'yes' if failing else 'no':>9}{cells}   "
                + ", ".join(f"{r:.1f}" for r in ratios)
                + (" <- too much" if bad else ""),
                flush=True,
            )
    return status


if __name__ == "__main__":
    sys.exit(main())
