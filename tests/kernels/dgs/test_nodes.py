"""The compiled nodes of DGS_ASAP equal the node program, and reject invalid states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.diff import first_difference
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation

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


def scenario(network: gs.Network, jobs: int = 80) -> gs.Scenario:
    workload = gs.Workload.jobs(jobs, utilization=0.95, max_nodes=50, profile="ricc2010", seed=1)
    return gs.Scenario(gs.Platform.equal(100), workload, network, seed=3)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_compiled_and_interpreted_nodes_have_equal_results(name: str, network: str) -> None:
    run_scenario = scenario(NETWORKS[network])
    compiled = gs.simulate(run_scenario, SCHEDULERS[name], record=True)
    program = gs.simulate(run_scenario, SCHEDULERS[name], record=True, nodes="interpreted")
    assert compiled.digest == program.digest, first_difference(compiled, program)
    assert compiled.tables == program.tables
    assert (compiled.applications["conflicts"] > 0).any()
    if network != "fifo":
        return
    # a time limit at the end of the last job is sufficient
    last = float(np.nanmax(compiled.applications["finish"]))
    assert gs.simulate(run_scenario, SCHEDULERS[name], time_limit=last).digest == compiled.digest
    with pytest.raises(gs.ScenarioError, match="did not end within time_limit"):
        gs.simulate(run_scenario, SCHEDULERS[name], time_limit=last - 1e-6)


# -- shared arrays ------------------------------------------------------------------------------------------


def new_policy() -> Any:
    jobs = gs.Workload.jobs_of(np.arange(60) * 0.04, 1 + np.arange(60) % 29, 60.0)
    run_scenario = gs.Scenario(gs.Platform.equal(100), jobs, NETWORKS["fifo"], seed=3)
    return Simulation(run_scenario, SCHEDULERS["push"], Options()).policy


@pytest.mark.parametrize(("part", "name"), [("jobs", "end"), ("nodes", "busy"), ("nodes", "up")])
def test_wrong_shared_arrays_are_rejected(part: str, name: str) -> None:
    policy = new_policy()
    shared = policy.shared_arrays()
    wrong = {**shared, part: {**shared[part], name: shared[part][name][:-1]}}
    with pytest.raises(ValueError, match=rf"^{part}\['{name}'\] must have the shape \(\d+,\), got \(\d+,\)$"):
        policy.compiled.share(**wrong)


@pytest.mark.parametrize("name", ["tasks", "length", "submitter", "earliest"])
def test_wrong_jobs_are_rejected(name: str) -> None:
    policy = new_policy()
    for value in (-1, 2**62):
        jobs = policy.job_columns()
        jobs[name] = jobs[name].copy()
        jobs[name][3] = value
        with pytest.raises(ValueError, match=rf"jobs\['{name}'\] must have 60 entries"):
            policy.new_nodes(jobs)
