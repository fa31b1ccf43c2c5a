"""The leaves of the fair tree against a leaf that was written from its page, on machines with several cores.

Given what arrives at a machine, the comparison covers the start and the end of each task there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import gridsim as gs
from gridsim.scheduling.registry import scheduler_of
from gridsim.support.clock import NS
from tests.independent.leaf import Application, Execution, Fifo, Leaf, Share

RUNS = 200


def draw(seed: int, shares_memory: bool = False) -> tuple[gs.Scenario, list[int], dict[int, int]]:
    """Draw up to 8 machines with 1 to 4 cores, and up to 15 bags with ties in time and size.

    With `shares_memory`, each machine has the memory for a task of any bag, but not on all cores.  Returns
    the scenario, the number of cores of each machine, and when which machine fails (ns).
    """
    rng = np.random.default_rng(seed)
    machines, bags = int(rng.integers(1, 9)), int(rng.integers(3, 16))
    speeds = rng.uniform(500, 3000, machines)
    if rng.random() < 0.5:
        speeds = rng.choice([500.0, 1000.0, 2000.0], machines)
    cores = rng.integers(1, 5, machines)
    task_size = rng.choice([5e3, 2e4, 1e5, 3e5], bags)
    tasks = np.ceil(np.exp(rng.uniform(-1, 2.5, bags)) * machines).astype(int)
    gap = (tasks * task_size).mean() / (speeds * cores).sum() * rng.choice([0.2, 0.5, 1.0])
    release = np.cumsum(rng.exponential(gap, bags) * (rng.random(bags) < 0.7))
    network = gs.Network(latency=float(rng.choice([0.0, 0.001, 0.05, 1.0])))
    if rng.random() < 0.3:  # shares arrive when tasks end
        speeds[:], release = 1000.0, np.round(release, -1)
        network = gs.Network(latency=0.0, bandwidth=math.inf)
    submitter = rng.integers(0, machines, bags)
    columns = release.tolist(), tasks.tolist(), task_size.tolist(), submitter.tolist()
    memory = {"memory": rng.choice([0.0, 1e9, 3e9, 6e9, 8e9], bags).tolist()} if shares_memory else {}
    workload = gs.Workload.of(*columns, **memory, origin=0.0)
    failures: dict[int, int] = {}
    faults = None
    if machines > 1 and rng.random() < 0.3:
        failures = {u: int(rng.uniform(0.1, 2 * release[-1] + 1) * NS) for u in range(machines - 1)}
        down = [at / NS for at in failures.values()]
        faults = gs.Faults.of(list(failures), down, [at + float(rng.integers(0, 9)) for at in down])
    capacity = {"memory": rng.choice([8e9, 12e9, 16e9], machines).tolist()} if shares_memory else {}
    platform = gs.Platform.of(speeds.tolist(), cores=cores.tolist(), **capacity)
    return gs.Scenario(platform, workload, network, seed, faults=faults), cores.tolist(), failures


def columns(table: gs.Table, machine: int, *names: str) -> list[list[float]]:
    rows = table["machine"] == machine
    return [table[name][rows].tolist() for name in names]


def executions(result: gs.Result, machine: int) -> list[Execution]:
    """Return the executions of single tasks; a row of the table may have several without a gap."""
    single: list[Execution] = []
    names = ("application", "tasks", "start", "end", "completed")
    for i, n, start, end, completed in zip(*columns(result.tables["schedule"], machine, *names), strict=True):
        first, last, count = round(start * NS), round(end * NS), int(n)
        assert (last - first) % count == 0 and completed in (0, n)
        length = (last - first) // count
        single += [
            (int(i), first + k * length, first + (k + 1) * length, completed > 0) for k in range(count)
        ]
    return sorted(single)


def leaves_of(
    seed: int, scheduler: gs.Scheduler, kind: type[Leaf], shares_memory: bool
) -> Iterator[tuple[Leaf, list[Execution]]]:
    """Yield an independent leaf for each machine of a run, and what the machine executed."""
    scenario, cores, failures = draw(seed, shares_memory)
    result = gs.simulate(scenario, scheduler, record="schedule")
    table, memory = result.applications, [math.inf] * len(cores)
    names = ["release", "task_size", "size"]
    if shares_memory:
        names, memory = [*names, "memory"], result.machines["memory"].tolist()
    sizes = zip(*(table[name].tolist() for name in names), strict=True)
    applications = [Application(round(release * NS), *rest) for release, *rest in sizes]
    for machine, speed in enumerate(scenario.platform.speeds.tolist()):
        leaf = kind(speed, cores[machine], applications, memory[machine])
        rows = zip(*columns(result.tables["arrivals"], machine, "time", "application", "tasks"), strict=True)
        arrivals = [(round(at * NS), Share(int(i), int(n))) for at, i, n in rows]
        leaf.run(arrivals, failures.get(machine))
        yield leaf, executions(result, machine)


@pytest.mark.parametrize("shares_memory", [False, True])
def test_leaves_equal_an_independent_leaf(shares_memory: bool) -> None:
    reordered = interrupted = 0
    for seed in range(RUNS):
        for leaf, executed in leaves_of(seed, gs.FairTree(), Leaf, shares_memory):
            assert executed == sorted(leaf.executions), f"seed {seed}"
            reordered += leaf.reordered
            interrupted += sum(not completed for *_, completed in leaf.executions)
    assert reordered > 20 and interrupted > 20, (reordered, interrupted)


@pytest.mark.parametrize("name", ["random", "join-shortest-queue", "least-work", "dodoor"])
def test_machines_in_order_of_arrival_equal_an_independent_one(name: str) -> None:
    waited = 0
    for seed in range(RUNS // 4):
        for machine, executed in leaves_of(seed, scheduler_of("scheduler", name, {}), Fifo, True):
            assert executed == sorted(machine.executions), f"seed {seed}"
            starts = sorted(start for _, start, _, _ in executed)
            ends = sorted(end for _, _, end, _ in executed)
            # with c cores, start number k + c cannot be before end number k; later ones wait for memory
            waited += sum(start > end for start, end in zip(starts[len(machine.cores) :], ends, strict=False))
    assert waited > 100, waited
