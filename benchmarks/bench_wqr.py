"""WQR-FT: the compiled scheduler, a SimPy program of the same work, and node programs.

``python benchmarks/bench_wqr.py`` runs 1,000,000 tasks on 100,000 machines that fail, each program in a
process of its own, and prints a table (add names of policies, or parts of them, to choose some); it fails if
what comes out is not the same to the ns.  ``pytest benchmarks/bench_wqr.py`` times small ones with
pytest-benchmark.

"ours" is the whole ``simulate``, which realizes the workload, draws the failures and makes the result.
"simpy", tuned to the limit (see `wqr_simpy`), gets all that as arrays, and so does "kernel", the work queue
without the simulator around it: their seconds are those of the run alone.  Peak memory is the whole process,
inputs included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

import gridsim as gs
from gridcore.work_queue.dispatch import WorkQueue
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.support.clock import NEVER, NS, nanoseconds

HERE = str(Path(__file__).parent)
CHOSEN = ("SmallET-NoInfo", "SmallET-CpuInfo", "GreatET-AvailInfo", "GreatET-AllInfo")
#: Machines and tasks: of the table, of pytest, and of the node programs, which scan.
LARGE, SMALL, TINY = (100_000, 1_000_000), (1_000, 10_000), (200, 2_000)

_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import bench_wqr
print(json.dumps(bench_wqr.measured(*json.loads(sys.argv[2]))))
"""


def scenario(machines: int, tasks: int, up: float = 14400.0, seed: int = 1) -> gs.Scenario:
    """Machines are up for so long, s; sizes of tasks are continuous, so that there are hardly any ties."""
    bag = gs.Workload.bags(
        1, 0.0, tasks=tasks, variation=0, task_size=3.6e6, seed=seed, spread=gs.LogUniform(2.0)
    )
    platform = gs.Platform.desktop_grid(machines, seed, low=1000, high=10000, step=100)
    return gs.Scenario(platform, bag, faults=gs.Faults.exponential(up, 600, seed=seed + 1), seed=seed)


def scheduler(policy: str, **rules: Any) -> gs.WqrFt:
    order, choice = POLICIES[policy]
    return gs.WqrFt(task_order=order, machine_choice=choice, **{"checkpoint_interval": 600.0, **rules})


def inputs(what: gs.Scenario, by: gs.WqrFt, horizon: int) -> tuple[Any, ...]:
    """Speeds, sizes, in what order tasks start, first failures, failures until `horizon` ns: arrays."""
    assert what.faults is not None
    speeds, sizes = what.platform.speeds, what.workload.realize(what.platform).sizes()
    sequence = np.argsort(sizes if by.task_order == "small" else -sizes, kind="stable")
    course, blocks = what.faults.course(len(speeds)), []
    for block in course.blocks:
        rows = block[: int(np.searchsorted(block.time, horizon, side="right"))]
        blocks.append((rows.time, rows.machine, rows.up, rows.until))
        if len(rows) < len(block):
            break
    return speeds, sizes, sequence, course.first, tuple(map(np.concatenate, zip(*blocks, strict=True)))


# -- programs -----------------------------------------------------------------------------------------------
# each makes ready and gives a call that runs, and returns makespan (ns), interrupted and killed copies


def ours(
    what: gs.Scenario, by: gs.WqrFt, nodes: Literal["compiled", "interpreted"] = "compiled"
) -> Callable[[], tuple[int, int, int]]:
    def run() -> tuple[int, int, int]:
        result = gs.simulate(what, by, nodes=nodes)
        machines = result.machines
        return round(result.makespan * NS), int(machines["interrupted"].sum()), int(machines["ended"].sum())

    return run


def by_simpy(what: gs.Scenario, by: gs.WqrFt, horizon: int) -> Callable[[], tuple[int, int, int]]:
    """horizon : ns, our makespan: if theirs is the same, no failure after it counts."""
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    import wqr_simpy  # which needs SimPy

    given = inputs(what, by, horizon)
    rules = wqr_simpy.Rules(by.task_order, by.machine_choice, *_times(what, by), by.max_replicas)

    def run() -> tuple[int, int, int]:
        outcome = wqr_simpy.simulate(*given, rules)
        return outcome.makespan, outcome.interrupted, outcome.killed

    return run


def by_queue(what: gs.Scenario, by: gs.WqrFt, horizon: int) -> Callable[[], tuple[int, int, int]]:
    """The kernel alone."""
    speeds, sizes, sequence, first, failures = inputs(what, by, horizon)
    interval, checkpoint, restore = _times(what, by)

    def run() -> tuple[int, int, int]:
        queue = WorkQueue(
            speeds,
            [len(sizes)],
            sizes,
            first,
            order=by.task_order,
            choice=by.machine_choice,
            max_replicas=by.max_replicas,
            interval=interval,
            checkpoint=checkpoint,
            restore=restore,
            faults=True,
        )
        queue.submit(0, sequence)
        blocks = iter((failures, tuple(column[:0] for column in failures)))
        while queue.run(NEVER) == "blocks":
            queue.feed(*next(blocks))
        totals = queue.totals()
        return int(totals["finish"][0]), int(totals["interrupted"].sum()), int(totals["ended"].sum())

    return run


def _times(what: gs.Scenario, by: gs.WqrFt) -> tuple[int, int, int]:
    """Checkpoint interval, cost and restore cost, ns."""
    assert what.faults is not None
    interval = by.interval(what.faults.mean_up_time(len(what.platform.speeds)))
    return interval, nanoseconds(by.checkpoint_cost), nanoseconds(by.restore_cost)


# -- the table ----------------------------------------------------------------------------------------------


def measured(program: str, policy: str, machines: int, tasks: int, horizon: int) -> dict[str, Any]:
    """What this process needs for a run."""
    import resource

    what, by = scenario(machines, tasks), scheduler(policy)
    if program == "ours":
        run = ours(what, by)
    else:
        run = (by_simpy if program == "simpy" else by_queue)(what, by, horizon)
    start = time.perf_counter()
    outcome = run()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "outcome": outcome}


def in_child(*arguments: Any) -> dict[str, Any]:
    """`measured` in a fresh process."""
    command = [sys.executable, "-c", _CHILD, HERE, json.dumps(arguments)]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(child.stdout)
    return result


def compare(policies: list[str], machines: int, tasks: int) -> bool:
    """Ours, that of SimPy, the kernel alone, and ours again; whether all came to the same."""
    print(f"{tasks:,} tasks on {machines:,} machines; x: seconds over the mean of both runs of ours")
    columns = f"{'seconds':>10s}{'x':>8s}{'peak MB':>9s}{'makespan (s)':>20s}{'cut off':>10s}{'killed':>10s}"
    print(f"{'policy':19s}{'program':10s}{columns}")
    fine = True
    for policy in policies:
        results: list[tuple[str, dict[str, Any]]] = []
        expected = [0]
        for program in ("ours", "simpy", "kernel", "ours"):
            results.append((program, in_child(program, policy, machines, tasks, expected[0])))
            expected = results[0][1]["outcome"]
        seconds = (results[0][1]["seconds"] + results[-1][1]["seconds"]) / 2
        for program, result in results:
            makespan, interrupted, killed = result["outcome"]
            equal = result["outcome"] == expected
            fine &= equal
            print(
                f"{policy:19s}{program:10s}{result['seconds']:10.2f}{result['seconds'] / seconds:8.2f}"
                f"{result['peak_mb']:9.0f}{makespan / NS:20.9f}{interrupted:10d}{killed:10d}"
                f"  {verdict(equal)}",
                flush=True,
            )
    return fine


def verdict(equal: bool) -> str:
    return "equal" if equal else "NOT EQUAL"


def compare_nodes(policies: list[str]) -> bool:
    """The kernel and the node programs, in whole runs; whether all makespans are equal."""
    machines, tasks = TINY
    print(f"\n{tasks:,} tasks on {machines:,} machines; x: node programs over the kernel")
    print(f"{'policy':18s}{'kernel ms':>11s}{'nodes ms':>11s}{'x':>9s}   makespan (s)")
    fine = True
    for policy in policies:
        what, by = scenario(machines, tasks), scheduler(policy)
        seconds, outcomes = {}, set()
        for nodes, rounds in (("compiled", 5), ("interpreted", 1)):
            run = ours(what, by, nodes)  # type: ignore[arg-type]
            seconds[nodes] = np.inf
            for _ in range(rounds):
                start = time.perf_counter()
                outcomes.add(run())
                seconds[nodes] = min(seconds[nodes], time.perf_counter() - start)
        fine &= len(outcomes) == 1
        print(
            f"{policy:18s}{seconds['compiled'] * 1e3:11.2f}{seconds['interpreted'] * 1e3:11.1f}"
            f"{seconds['interpreted'] / seconds['compiled']:9.0f}   {min(outcomes)[0] / NS:.9f}"
            f", {verdict(len(outcomes) == 1)}",
            flush=True,
        )
    return fine


# -- pytest -------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: Any) -> None:
    """So that the table needs no pytest."""
    metafunc.parametrize("policy", CHOSEN)
    if "nodes" in metafunc.fixturenames:
        metafunc.parametrize("nodes", ("compiled", "interpreted"))
    else:
        metafunc.parametrize("program", ("ours", "simpy"))


def test_whole_run(benchmark: Any, policy: str, program: str) -> None:
    what, by = scenario(*SMALL), scheduler(policy)
    run = ours(what, by)
    expected = run()
    if program == "simpy":
        import pytest

        pytest.importorskip("simpy", reason="SimPy is not installed: nothing to compare with")
        run = by_simpy(what, by, expected[0])
    benchmark.group = f"whole run, {policy}"
    assert benchmark.pedantic(run, rounds=3, warmup_rounds=1) == expected


def test_nodes(benchmark: Any, policy: str, nodes: Any) -> None:
    what, by = scenario(*TINY), scheduler(policy)
    expected = by_queue(what, by, ours(what, by)()[0])()
    benchmark.group = f"kernel and node programs, {policy}"
    assert benchmark.pedantic(ours(what, by, nodes), rounds=3 if nodes == "compiled" else 1) == expected


def main() -> int:
    """Print the tables of the policies whose names contain one of the words, or of all."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of policies")
    parser.add_argument("--machines", type=int, default=LARGE[0])
    parser.add_argument("--tasks", type=int, default=LARGE[1])
    given = parser.parse_args()
    policies = [name for name in CHOSEN if any(word in name for word in given.words or [""])]
    if not policies:
        parser.error(f"no name contains one of {given.words}; there are {', '.join(CHOSEN)}")
    if importlib.util.find_spec("simpy") is None:
        parser.error("SimPy is not installed: nothing to compare with")
    fine = compare(policies, given.machines, given.tasks)
    fine &= compare_nodes(policies)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
