"""The compiled nodes of DGS_ASAP equal the node program, and reject invalid states."""

from __future__ import annotations

import functools
import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridcore.dgs.negotiations import PLACED
from gridsim.engine.engine import TIMER
from gridsim.results.diff import first_difference
from gridsim.simulation.simulate import Options, Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot
from tests.invariants.test_checkpoints import Interrupted

NETWORKS = {
    "equal": gs.Network(interfaces="equal"),
    "fifo": gs.Network(bandwidth=50_000.0),
    "ideal": gs.Network(latency=0.0, bandwidth=math.inf),
    "jitter": gs.Network(jitter=0.02),
}
SCHEDULERS = {
    "push": gs.DgsAsap(degree=6),
    "pull": gs.DgsAsap(degree=6, policy="pull", rounds=1, tries=3, retry=60.0, slot=7.0),
    "poll": gs.DgsAsap(degree=6, policy="poll", estimate="requested", wide="fail"),
    "others": gs.DgsAsap(degree=6, candidates="others"),
    "cyclon": gs.DgsAsap(degree=6, overlay="cyclon", cycle=7000.0, estimate="requested"),
}


# : The scheduler of runs with failures.
FAILING = gs.DgsAsap(degree=6, policy="pull", detection=5.0, patience=5.0, retry=30.0, slot=7.0)
SCHEDULERS["failing"] = FAILING


def scenario(network: gs.Network, jobs: int = 80) -> gs.Scenario:
    workload = gs.Workload.jobs(jobs, utilization=0.95, max_nodes=50, profile="ricc2010", seed=1)
    return gs.Scenario(gs.Platform.equal(100), workload, network, seed=3)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", sorted({*SCHEDULERS} - {"failing"}))
def test_compiled_and_interpreted_nodes_have_equal_results(name: str, network: str) -> None:
    this = scenario(NETWORKS[network])
    compiled = gs.simulate(this, SCHEDULERS[name], record=True)
    program = gs.simulate(this, SCHEDULERS[name], record=True, nodes="interpreted")
    assert compiled.digest == program.digest, first_difference(compiled, program)
    assert compiled.tables == program.tables
    assert (compiled.applications["conflicts"] > 0).any()
    if network != "fifo":
        return
    # a time limit at the end of the last job is sufficient
    last = float(np.nanmax(compiled.applications["finish"]))
    assert gs.simulate(this, SCHEDULERS[name], time_limit=last).digest == compiled.digest
    with pytest.raises(gs.ScenarioError, match="did not end within time_limit"):
        gs.simulate(this, SCHEDULERS[name], time_limit=last - 1e-6)


# -- states -------------------------------------------------------------------------------------------------


def started(scheduler: gs.Scheduler) -> Simulation:
    """Return a run in which jobs arrive while others are being placed, so that negotiations overlap."""
    chance = np.random.default_rng(2)
    release, nodes, run_time = np.arange(60) * 0.04, chance.integers(1, 30, 60), chance.uniform(5.0, 90.0, 60)
    jobs = gs.Workload.jobs_of(release, nodes, run_time)
    faults = gs.Faults.exponential(up=600.0, down=60.0, seed=1) if scheduler == FAILING else None
    this = gs.Scenario(gs.Platform.equal(100), jobs, NETWORKS["fifo"], seed=3, faults=faults)
    # failures continue for ever, even if a damaged state leaves jobs over
    run = Simulation(this, scheduler, Options(record=True, time_limit=1e4 if faults else 1e8))
    run.engine.on("look", lambda _: None, priority=4095, phase=TIMER)
    return run


def copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


def kept(scheduler: gs.Scheduler, time: float) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a checkpoint after `time` s, and the states of nodes and core in it."""
    run, found = started(scheduler), []
    policy: Any = run.policy
    run.engine.at(int(time * 1e9), "look")

    def look() -> None:
        if run.engine.now >= time * 1e9:
            # the checkpoint consumes iterators of the policy's state
            states = copied(policy.compiled.getstate()), copied(policy.core.getstate())
            found.append((snapshot(run), *states))
            raise Interrupted

    run.engine.at_wave_end(look)
    with suppress(Interrupted):
        run.run()
    return found[0]


def resumed(scheduler: gs.Scheduler, at: Any) -> Simulation:
    run = started(scheduler)
    text, arrays = at
    copies = [array.copy() for array in arrays]
    state: Any = unpack(json.loads(text), copies.__getitem__)
    run.setstate(state.state)
    return run


# : Scheduler, and times (s) at which states are taken.
TIMES = {"push": (0.1, 0.8, 2.0), "pull": (0.1, 0.8, 2.0), "failing": (1.0, 6.7, 51.0)}
CASES = [(name, time) for name, times in TIMES.items() for time in times]


@functools.cache
def taken(case: tuple[str, float]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    return kept(SCHEDULERS[case[0]], case[1])


@functools.cache
def ends_as(name: str) -> str:
    return started(SCHEDULERS[name]).run().digest


def test_saved_states_have_negotiations_in_progress() -> None:
    states = [taken(case) for case in CASES]
    for entry in ("negotiations", "answers", "members"):
        assert any(len(nodes[entry]) for _, nodes, _ in states), entry
    assert any(nodes["has_lost_node"].any() for _, nodes, _ in states)
    assert any((nodes["phase"] == PLACED).any() for _, nodes, _ in states)
    for entry in ("application_timers", "local", "payloads"):
        assert any(len(core[entry]) for _, _, core in states), entry


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_restored_state_equals_the_saved_one(case: tuple[str, float]) -> None:
    at, nodes, core = taken(case)
    run = resumed(SCHEDULERS[case[0]], at)
    policy: Any = run.policy
    for state, again in ((nodes, policy.compiled.getstate()), (core, policy.core.getstate())):
        assert set(again) == set(state)
        for entry in state:
            assert np.array_equal(*(np.sort(np.atleast_1d(values[entry]), 0) for values in (again, state)))
    assert run.run().digest == ends_as(case[0])


@pytest.mark.parametrize(("part", "name"), [("jobs", "end"), ("nodes", "busy"), ("nodes", "up")])
def test_wrong_shared_arrays_are_rejected(part: str, name: str) -> None:
    policy: Any = started(SCHEDULERS["push"]).policy
    shared = policy.shared_arrays()
    wrong = {**shared, part: {**shared[part], name: shared[part][name][:-1]}}
    with pytest.raises(ValueError, match="shared arrays must have"):
        policy.compiled.share(**wrong)


@pytest.mark.parametrize("name", ["tasks", "length", "submitter", "earliest"])
def test_wrong_jobs_are_rejected(name: str) -> None:
    policy: Any = started(SCHEDULERS["push"]).policy
    for value in (-1, 2**62):
        jobs = policy.job_columns()
        jobs[name] = jobs[name].copy()
        jobs[name][3] = value
        with pytest.raises(ValueError, match=rf"jobs\['{name}'\] must have 60 entries"):
            policy.new_nodes(jobs)
