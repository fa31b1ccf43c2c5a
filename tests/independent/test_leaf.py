"""The leaves of the fair tree against a leaf that was written from their page, on machines with several cores."""

from __future__ import annotations

import numpy as np

import gridsim as gs
from gridsim.support.clock import NS
from tests.independent.leaf import Application, Execution, Leaf, Share

RUNS = 200


def draw(seed: int) -> gs.Scenario:
    """Draw up to 8 machines with 1 to 4 cores, and up to 15 bags, some of which are released together."""
    rng = np.random.default_rng(seed)
    machines, bags = int(rng.integers(1, 9)), int(rng.integers(3, 16))
    speeds = rng.choice([500.0, 1000.0, 2000.0], machines) if rng.random() < 0.5 else rng.uniform(500, 3000, machines)
    cores = rng.integers(1, 5, machines)
    task_size = rng.choice([5e3, 2e4, 1e5, 3e5], bags)
    tasks = np.ceil(np.exp(rng.uniform(-1, 2.5, bags)) * machines).astype(int)
    gap = (tasks * task_size).mean() / (speeds * cores).sum() * rng.choice([0.2, 0.5, 1.0])
    release = np.cumsum(rng.exponential(gap, bags) * (rng.random(bags) < 0.7))
    workload = gs.Workload.of(
        release.tolist(), tasks.tolist(), task_size.tolist(), rng.integers(0, machines, bags).tolist(), origin=0.0
    )
    latency = float(rng.choice([0.0, 0.001, 0.05, 1.0]))
    platform = gs.Platform.of(speeds.tolist(), cores=cores.tolist())
    return gs.Scenario(platform, workload, gs.Network(latency=latency), seed)


def test_leaves_equal_an_independent_leaf() -> None:
    reordered = bad = 0
    for seed in range(RUNS):
        scenario = draw(seed)
        result = gs.simulate(scenario, gs.FairTree(), record="schedule")
        table = result.applications
        applications = [
            Application(round(release * NS), task_size, size)
            for release, task_size, size in zip(table["release"], table["task_size"], table["size"], strict=True)
        ]
        arrivals, schedule = result.tables["arrivals"], result.tables["schedule"]
        cores = scenario.platform.cores if scenario.platform.cores is not None else [1] * scenario.platform.nodes
        for machine, speed in enumerate(scenario.platform.speeds):
            mine = arrivals["machine"] == machine
            shares = [
                (round(at * NS), Share(int(i), int(n)))
                for at, i, n in zip(*(arrivals[name][mine] for name in ("time", "application", "tasks")), strict=True)
            ]
            leaf = Leaf(float(speed), int(cores[machine]), applications)
            leaf.run(shares)
            mine = schedule["machine"] == machine
            rows: list[Execution] = [
                (int(i), int(n), round(start * NS), round(end * NS))
                for i, n, start, end in zip(
                    *(schedule[name][mine] for name in ("application", "tasks", "start", "end")), strict=True
                )
            ]
            rows=[(i,1,a+k*(b-a)//n,a+(k+1)*(b-a)//n) for i,n,a,b in rows for k in range(n)]
            leaf.executions=[(i,1,a+k*(b-a)//n,a+(k+1)*(b-a)//n) for i,n,a,b in leaf.executions for k in range(n)]
            if sorted(rows) != sorted(leaf.executions):
                bad += 1
                a,b=set(rows),set(leaf.executions)
                print(seed, machine, cores[machine], speed, len(rows), len(leaf.executions), min(a-b,key=lambda r:r[2],default=None), min(b-a,key=lambda r:r[2],default=None))
            reordered += leaf.reordered
    print(reordered, bad)
