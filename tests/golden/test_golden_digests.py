"""Golden digests of runs: results may change only on purpose.

A failure means that the same scenario has another result than before.  If that is a mistake, fix it.  If
it is intended (a corrected protocol, a new column), say so in CHANGELOG.md, and write the digests again in
the commit that changes them::

    python tests/golden/test_golden_digests.py

They are equal for all builds, numbers of threads and processes, and hash seeds.  They may differ with the
floating-point functions (exp, log and pow) of another C library: then tables differ by rounding, and
`first_difference` shows where.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.schedulers import MODES

FILE = Path(__file__).with_name("digests.json")

SCHEDULERS: dict[str, gs.Scheduler] = {
    "fair-tree": gs.FairTree(),
    "fair-tree, on change": gs.FairTree(
        accept="minimum", bound=1.25, update_on="change", samples=(6, 5, 4), heartbeat=300.0
    ),
    "fair-tree, idle is 0": gs.FairTree(
        accept="minimum", detection=0.5, release_cell=30.0, refresh=7.0, heartbeat=300.0
    ),
    "fair-tree, to the end": gs.FairTree(run_on=True, update_rate=0.0, spread="change", hold_off=0.01),
    "fair-tree, accepting early": gs.FairTree(
        accept="minimum",
        bound=2.0,
        minimum_of="busy",
        samples=(10, 9, 8),
        resubmit="new",
        repair=5.0,
        stretch="bisection",
        heartbeat=300.0,
    ),
    "fair-tree, either": gs.FairTree(accept="either", bound=1.06, samples=(10, 9, 8), heartbeat=20.0),
    "mincent": gs.MinCent(),
    "mincent-once": gs.MinCent(mode="once"),
    "fcfs": gs.Fcfs(),
    "fcfs-pull": gs.Fcfs(mode="pull"),
    "fcfs-random": gs.Fcfs(mode="random"),
}
QUEUES: dict[str, gs.Scheduler] = {
    "wqr-ft": gs.WqrFt(),
    "wqr-ft, small, none": gs.WqrFt(task_order="small", checkpoint_interval=5.0, checkpoint_cost=0.5),
    "wqr-ft, small, cpu": gs.WqrFt(task_order="small", machine_choice="cpu", max_replicas=3),
    "wqr-ft, great, avail": gs.WqrFt(task_order="great", machine_choice="avail", prediction_error=0.5),
    "wqr-ft, great, all": gs.WqrFt(
        task_order="great", machine_choice="all", predictor="past", checkpoint_store="local", restore_cost=1.0
    ),
}
MAPPING: dict[str, gs.Scheduler] = {
    "met": gs.Met(),
    "olb": gs.Olb(),
    "switching": gs.SwitchingAlgorithm(),
    "k-percent-best": gs.KPercentBest(percent=30.0),
    "min-min": gs.MinMin(),
    "max-min": gs.MaxMin(interval=30.0),
    "sufferage": gs.Sufferage(),
}
SEARCHES: dict[str, gs.Scheduler] = {
    "expanding-ring": gs.ExpandingRing(),
    "random-walk-search": gs.RandomWalkSearch(walkers=3, steps=5, retry=10.0),
    "advertisement": gs.Advertisement(degree=3, promise=0.1),
    "rendezvous": gs.Rendezvous(share=0.1, refresh=50.0),
    "rendezvous, any": gs.Rendezvous(share=0.1, pick="random"),
}
WALKERS: dict[str, gs.Scheduler] = {
    "rjss": gs.Rjss(k=0.3),
    "rjss, in round trips": gs.Rjss(k=0.3, pick="best", probe_latency="network", rule="at-least-one"),
    "rjss, on an overlay": gs.Rjss(k=0.5, overlay=3, turnaround="printed"),
    "resource-exclusion": gs.ResourceExclusion(k=0.3),
    "resource-exclusion, fastest": gs.ResourceExclusion(k=0.3, reading="fastest"),
    "no-migration": gs.NoMigration(),
}
#: Scenarios with owner absences.
VOLUNTEERS: dict[str, gs.Scheduler] = {
    "rjss": gs.Rjss(k=0.3, probe_latency="network"),
    "rjss, migrating": gs.Rjss(k=0.3, on_return="migrate", predictor="past", state=50_000, retry=5.0),
    "rjss, best": gs.Rjss(k=0.3, pick="best", on_return="home", predictor="exact", prefer="completion"),
    "resource-exclusion": gs.ResourceExclusion(k=0.3, predictor="age", retry=5.0),
}
WAVES: dict[str, gs.Scheduler] = {mode: gs.Wave(mode=mode, linger=10.0, migration_cost=0.5) for mode in MODES}
RIGID: dict[str, gs.Scheduler] = {
    "dgs-asap": gs.DgsAsap(estimate="run", degree=8, slot=10.0),
    "dgs-asap, others": gs.DgsAsap(estimate="run", degree=8, slot=10.0, candidates="others"),
    "dgs-asap, pull": gs.DgsAsap(
        estimate="run", degree=6, policy="pull", overlay="cyclon", cycle=30.0, shuffle=3, slot=10.0
    ),
    "dgs-asap, poll": gs.DgsAsap(degree=6, policy="poll", estimate="requested", slot=7.0, wide="fail"),
    "dgs-asap, wanting": gs.DgsAsap(estimate="run", degree=6, slot=10.0),
    "dgs-acap, wanting": gs.DgsAcap(estimate="run", degree=4, near=4, slot=10.0, tolerance=20.0),
    "asap, wanting": gs.Asap(estimate="run", slot=10.0),
    "dgs-asap, stating": gs.DgsAsap(estimate="run", degree=8, slot=10.0),
    "asap, stating": gs.Asap(estimate="run", slot=10.0),
    "asap": gs.Asap(estimate="run", slot=10.0),
    "backfill": gs.BatchQueue(estimate="run"),
    "backfill-fcfs": gs.BatchQueue(backfill="none", estimate="requested"),
    # a job exceeds its requested time
    "dgs-asap, requested": gs.DgsAsap(degree=8, slot=10.0),
    "dgs-acap, requested, wanting": gs.DgsAcap(degree=4, near=4, slot=10.0, tolerance=20.0),
    "asap, requested": gs.Asap(slot=10.0),
}
NETWORKS = {
    "fifo": gs.Network(),
    "equal": gs.Network(interfaces="equal", record_use=True, task_data=512e3),
    "jitter": gs.Network(jitter=0.02, bandwidth=50_000.0),
    "ideal": gs.Network(latency=0.0, bandwidth=math.inf),
}
#: Scenarios in which tasks move data over links of machines.
MOVING = {
    "fair-tree, data": gs.FairTree(),
    "fair-tree, data ignored": gs.FairTree(data="ignored", update_on="change"),
    "mincent-once, data": gs.MinCent(mode="once"),
    "ideal-tree, data": gs.IdealTree(),
    "bandwidth-centric": gs.BandwidthCentric(branching=3),
    "bandwidth-centric, in turn": gs.BandwidthCentric(rule="in-turn", port="many", master_bandwidth=5e6),
}
#: Scenarios in which tasks need memory or disk that not all machines have.
NEEDING = {
    "fair-tree, needs": gs.FairTree(),
    "fair-tree, needs ignored": gs.FairTree(needs="ignored", update_on="change"),
    "mincent-once, needs": gs.MinCent(mode="once"),
    "ideal-tree, needs": gs.IdealTree(),
    "fcfs-ect, needs": gs.Fcfs(),
}
EVERY = SCHEDULERS | RIGID | QUEUES | MAPPING | SEARCHES | WALKERS | WAVES | MOVING | NEEDING
EVERY |= {f"{name}, volunteers": scheduler for name, scheduler in VOLUNTEERS.items()}
FAULTS = {
    "no failures": None,
    "resets": gs.Faults.poisson(200.0, seed=4),
    "a few resets": gs.Faults.poisson(4000.0, seed=4),
    "outages": gs.Faults.of([0, 3, 3, 7, 30], [0.0, 5.0, 60.0, 20.0, 8.0], [40.0, 5.0, 90.0, math.inf, 8.5]),
    "nights": gs.Faults.zones(4, gs.Zones(zones=5), day_up=0.5, spell=20.0),
    "owners": gs.Faults.exponential(up=60.0, down=40.0, seed=4, reachable=True),
}


def scenario(name: str, network: str, faults: str) -> gs.Scenario:
    if name in RIGID:
        own = gs.DrawnAttributes(memory=(1e9, 4e9), kinds=("a", "b"), side=100.0, seed=5)
        expected: dict[str, Any] = {"memory": [0.0, 0.0, 2e9, 0.0, 0.0, 4e9, 0.0, 2e9, 0.0]}
        expected["kinds"] = ["", "b", "", "a", "", "b", "a", "", ""]
        wants = "wanting" in name
        declared: dict[str, Any] = {"not_before": [0.0, 200.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 0.0]}
        declared["deadline"] = [math.inf, math.inf, 60.0, math.inf, math.inf, 600.0, math.inf, 81.0, 900.0]
        declared["cancel_at"] = [30.0, 150.0, math.inf, 40.0, math.inf, math.inf, 500.0, math.inf, math.inf]
        return gs.Scenario(
            gs.Platform.equal(37, attributes=own if wants else None),
            gs.Workload.jobs_of(
                [0.0, 0.0, 0.0, 3.5, 12.0, 12.0, 12.0, 70.0, 71.0],
                [9, 12, 14, 1, 30, 4, 4, 2, 17],
                [45.0, 33.0, 20.0, 80.5, 12.0, 31.0, 31.0, 8.0, 25.0],
                requested=60.0,
                **(expected if wants else declared if "stating" in name else {}),
            ),
            NETWORKS[network],
            seed=3,
            faults=FAULTS["a few resets" if faults == "resets" else faults],
        )
    if name in WALKERS or faults == "owners":
        streams = gs.Workload.job_streams(300.0, 15.0, 20.0, 20_000.0, seed=2)
        platform = gs.Platform.normal(37, seed=1)
        return gs.Scenario(platform, streams, NETWORKS[network], seed=3, faults=FAULTS[faults])
    platform = gs.Platform.desktop_grid(nodes=37, seed=1)
    moved: dict[str, Any] = {}
    if name in NEEDING:
        own = gs.DrawnAttributes(memory=(1e9, 4e9, 8e9), disk=(1e10, 1e11), seed=5)
        platform = platform.with_attributes(own)
        moved = {"constraints": gs.Constraints(memory=(0.0, 2e9, 6e9), disk=(0.0, 5e10))}
    if name in MOVING:
        platform = platform.linked([1e5 * (1 + k % 7) for k in range(37)])
        moved = {"input_bytes": [0.0, 3e5, 5e6], "output_bytes": [0.0, 1e6]}
    return gs.Scenario(
        platform,
        gs.Workload.bags(
            9,
            interarrival=8.0,
            tasks_per_node=4.0,
            task_size=[4000.0, 9000.0, 65536.0],
            seed=2,
            spread=gs.Normal(0.5) if name in QUEUES | WAVES else None,
            **moved,
        ),
        NETWORKS[network],
        seed=3,
        faults=FAULTS[faults],
    )


CASES = {
    f"{name}; {network}; {faults}": (name, network, faults)
    for name in SCHEDULERS
    for network in NETWORKS
    for faults in FAULTS
    if faults not in ("a few resets", "nights", "owners")
    and (network == "fifo" or (name.startswith("fair-tree") and faults != "resets"))
} | {
    f"{name}; {network}; {faults}": (name, network, faults)
    for name in RIGID
    for network, faults in (
        ("fifo", "no failures"),
        ("fifo", "resets"),
        ("fifo", "outages"),
        ("jitter", "outages"),
    )
    if name.startswith("dgs") or network == "fifo"
}
CASES |= {
    f"{name}; fifo; {faults}": (name, "fifo", faults)
    for name in (*QUEUES, *MAPPING, *SEARCHES)
    for faults in ("no failures", "resets", "outages")
}
CASES |= {
    f"{name}; {network}; no failures": (name, network, "no failures")
    for name in WALKERS
    for network in ("fifo", "jitter")
    if network == "fifo" or name != "no-migration"  # no-migration sends no messages
}
CASES |= {
    f"{name}, volunteers; fifo; owners": (f"{name}, volunteers", "fifo", "owners") for name in VOLUNTEERS
}
CASES |= {f"{name}; fifo; nights": (name, "fifo", "nights") for name in WAVES}
CASES |= {f"{name}; fifo; outages": (name, "fifo", "outages") for name in WAVES if "migration" in name}
CASES |= {f"{name}; fifo; no failures": (name, "fifo", "no failures") for name in (*MOVING, *NEEDING)}


def digest(case: str, threads: int = 1) -> str:
    name, network, faults = CASES[case]
    scheduler = EVERY[name]
    return gs.simulate(scenario(name, network, faults), scheduler, threads=threads).digest


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(FILE.read_text())


def test_each_case_has_its_own_digest(golden: Any) -> None:
    assert list(golden) == list(CASES) and len(set(golden.values())) == len(golden)


@pytest.mark.parametrize("case", CASES)
def test_digest_equals_the_golden_one(case: str, golden: Any) -> None:
    assert digest(case) == golden[case]


#: A case of each scheduler, with fewer of the volunteer schedulers, which take longest.
SOME = list(
    {
        case.partition(";")[0]: case
        for case in reversed(CASES)
        if case.endswith(("; fifo; outages", "; jitter; no failures", "; fifo; owners"))
        and not case.startswith(("rjss, volunteers", "rjss, best, volunteers"))
    }.values()
)


@pytest.mark.parametrize(
    ("hash_seed", "threads"), [pytest.param("0", 1, marks=pytest.mark.slow), ("4242", 3)]
)
def test_other_interpreters_threads_and_processes_give_the_golden_digests(
    hash_seed: str, threads: int, golden: Any
) -> None:
    """The interpreter has another hash seed and a pool of processes with `threads` threads each."""
    process = subprocess.run(
        [sys.executable, __file__, str(threads)],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(Path(gs.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == {case: golden[case] for case in SOME}


if __name__ == "__main__" and len(sys.argv) == 2:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = pool.map(digest, SOME, [int(sys.argv[1])] * len(SOME))
        print(json.dumps(dict(zip(SOME, found, strict=True))))
elif __name__ == "__main__":
    FILE.write_text(json.dumps({case: digest(case) for case in CASES}, indent=1) + "\n")
