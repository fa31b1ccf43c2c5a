"""Short runs and calls in which all kernels allocate, for the tests of memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pkgutil import walk_packages
from typing import Any

import numpy as np

import gridcore
import gridsim as gs
from gridcore.centralized import earliest_ends, mapping, pull_queue
from gridcore.fair_tree import summaries
from gridcore.queues import availability, edf
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot

#: All compiled modules, since some free memory that others allocated.
MODULES = [
    module
    for _, name, _ in walk_packages(gridcore.__path__, "gridcore.")
    for module in [import_module(name)]
    if str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES))
]

#: Time limit that no correct run reaches, s.
LONGEST = 1e6

RIGID = ("dgs-asap", "dgs-acap", "asap", "backfill", "backfill-fcfs", "zorilla", "metascheduler")
WALKERS = ("rjss", "rjss-best", "resource-exclusion", "resource-exclusion-fastest", "no-migration")
STEADY = ("steady-state", "bandwidth-centric")
WAVES = ("wave", "migration-immediate", "wave-immediate", "migration-linger", "wave-linger")


def scenario(name: str, times: int = 1, apart: float = 1.0) -> gs.Scenario:
    """Return a short scenario on 37 machines, with failures if the scheduler supports them, `times` as long.

    apart : 1.0 for an overload of the machines, 12.0 for a load of about half.
    """
    network = gs.Network(jitter=0.02, bandwidth=50_000.0)
    faults = gs.Faults.poisson(4000.0, seed=4)
    if name in RIGID:
        jobs = 9 * times
        return gs.Scenario(
            gs.Platform.equal(37, attributes=gs.DrawnAttributes(side=1.0)),
            gs.Workload.jobs_of(
                [8.0 * apart * k for k in range(jobs)],
                [1 + 7 * k % 17 for k in range(jobs)],
                [10.0 + 13.0 * k % 71.0 for k in range(jobs)],
                requested=80.0,
            ),
            network,
            seed=3,
            faults=None if name == "metascheduler" else faults,
        )
    if name == "few":
        work = gs.Workload.bags(3, interarrival=8.0, tasks_per_node=3.0, task_size=[4000.0, 65536.0], seed=2)
        return gs.Scenario(gs.Platform.desktop_grid(nodes=7, seed=1), work, network, seed=3, faults=faults)
    if name == "data":
        moved = {"input_bytes": [0.0, 2e6], "output_bytes": 1e5}
        work = gs.Workload.bags(4, interarrival=8.0, tasks_per_node=3.0, task_size=9000.0, seed=2, **moved)
        return gs.Scenario(
            gs.Platform.desktop_grid(nodes=7, seed=1).linked((1e5, 1e6)), work, network, seed=3
        )
    if name in WALKERS:
        streams = gs.Workload.job_streams(300.0 * apart * times, 15.0 * apart, 20.0, 20_000.0, seed=2)
        return gs.Scenario(gs.Platform.normal(37, seed=1), streams, network, seed=3)
    work = gs.Workload.bags(
        9 * times,
        interarrival=8.0 * apart,
        tasks_per_node=2.0,
        task_size=[4000.0, 9000.0, 65536.0],
        seed=2,
        spread=gs.Normal(0.5) if name in WAVES or name.endswith("Info") else None,
    )
    if name in WAVES:
        faults = gs.Faults.zones(4, gs.Zones(zones=5), day_up=0.5, spell=20.0)
    if name in STEADY:
        faults = None
    return gs.Scenario(gs.Platform.desktop_grid(nodes=37, seed=1), work, network, seed=3, faults=faults)


def run(made: gs.Scenario, scheduler: gs.Scheduler) -> None:
    """Record a run that continues from a checkpoint at a wave after half of the releases."""
    options = Options(record="all", time_limit=LONGEST)
    first: Any = Simulation(made, scheduler, options)
    kept: list[Any] = []
    half = made.workload.realize(made.platform).release_ns[-1] // 2

    def keep() -> None:
        if first.engine.now >= half and not first.engine.stopping:
            kept.append(snapshot(first))
            first.engine.stop()

    first.engine.at_wave_end(keep)
    first.engine.run()
    [(text, arrays)] = kept
    first = None
    second = Simulation(made, scheduler, options)
    state: Any = unpack(json.loads(text), lambda k: arrays[k].copy())
    second.setstate(state.state)
    second.run()


def run_kernel_only(name: str, scheduler: gs.Scheduler) -> None:
    """Run `scheduler` in its kernel only, without failures and records."""
    actual = dataclasses.replace(scenario(name), faults=None, network=gs.Network())
    gs.simulate(actual, scheduler, threads=2, time_limit=LONGEST)


def schedulers() -> dict[str, gs.Scheduler]:
    """Return all registered schedulers, and some in other modes."""
    actual = {name: make_scheduler(name) for name in registered()}
    return actual | {
        "dgs-asap; pull": gs.DgsAsap(
            degree=6, policy="pull", overlay="cyclon", cycle=30.0, shuffle=3, slot=10.0
        ),
        "dgs-asap; poll": gs.DgsAsap(degree=6, policy="poll", estimate="requested", slot=7.0, wide="fail"),
        "rjss; round trips": gs.Rjss(
            k=0.5, overlay=3, pick="best", probe_latency="network", rule="at-least-one"
        ),
        "fair-tree; on change": gs.FairTree(
            update_on="change", bound=1.25, samples=(6, 5, 4), spread="change"
        ),
        "min-min; at times": gs.MinMin(interval=30.0),
    }


def functions() -> None:
    """Call the kernel functions outside of classes."""
    queue = [0.0, 1.0, 2.0], [4000.0, 8000.0, 500.0], [2000.0, 900.0, 500.0]
    machine = {"speed": 1000.0, "free_at": 3.0, "running_release": 0.5, "running_size": 700.0}
    grid = SummaryGrid.geometric((1e-3, 1.0, 4), (1e3, 1e5, 3), (1e3, 1e5, 3))
    availability.gap(0.01, 3.0, 5000.0, *queue, **machine)
    availability.sample_availability(grid, 3.0, *queue, **machine)
    machines = {"speed": [1000.0, 2000.0], "free_at": [3.0, 3.0]}
    cells = availability.sample_availability_batch(grid, 3.0, [0, 2, 3], *queue, **machines)
    for method in ("exact", "bisection"):
        edf.optimal_stretch(*queue, speed=1000.0, now=3.0, method=method)
    sizes = [100.0, 100.0, 100.0]
    edf.project_queues([0, 2, 3], *queue, sizes, **machines, until=9.0, preemptive=True)
    edf.project_queues([0, 2, 3], *queue, sizes, **machines, until=9.0)
    summaries.aggregate(cells)
    summaries.split([3, 4, 5], 7)
    debts = {"tasks": [1, 2], "task_size": [1e3, 2e3], "size": [4e3, 4e3], "stretch": [0.1, 0.2]}
    summaries.debit(cells[0], grid, **debts, leaves=2)
    etc = np.array([[3.0, 1.0, 2.0], [2.0, 5.0, 4.0]])
    for rule in ("min-min", "max-min", "sufferage"):
        mapping.map_batch(etc, [3, 2], np.zeros(3), rule)
    for one in ("mct", "met", "olb", "switching", "kpb"):
        mapping.map_in_turn(etc, [3, 2], np.zeros(3), one)
    free = np.zeros(3, np.int64)
    earliest_ends.bind_earliest(free, [1.0, 2.0, 3.0], 5.0, 40, 0)
    ends = earliest_ends.EarliestEnds([1.0, 2.0, 3.0])
    ends.restart(free, [True] * 3, 0)
    ends.bind(free, 5.0, 2, 0)
    queue = pull_queue.PullQueue([1.0, 2.0], 3, log=True)
    queue.run_released(9, [0, 1, 2], np.array([2, 1, 1]), [1e-9] * 3, 0, 0, 0)


#: A run of each kernel that keeps memory of its own, small enough for every day.
QUICK = ("functions", "flow", "jobflow", "backfill", "rjss; round trips", "WQR-FT; few")

CASES: dict[str, Callable[[], Any]] = {
    name: partial(run, scenario(name.partition(";")[0]), scheduler)
    for name, scheduler in schedulers().items()
} | {
    "functions": functions,
    "flow": partial(run_kernel_only, "few", gs.FairTree(samples=(3, 3, 3))),
    "jobflow": partial(run_kernel_only, "dgs-asap", gs.DgsAsap(degree=6, slot=10.0)),
    "few": partial(run, scenario("few"), gs.FairTree(samples=(3, 3, 3))),
    "data": partial(run, scenario("data"), gs.MinCent(mode="once")),
    "data; fair-tree": partial(run, scenario("data"), gs.FairTree(samples=(3, 3, 3))),
    "rendezvous; few": partial(run, scenario("few"), gs.Rendezvous(share=0.3)),
    "WQR-FT; few": partial(run, scenario("few"), gs.WqrFt(task_order="small", max_replicas=3)),
}
