"""DgsProtocol equals the node program, and rejects invalid states."""

from __future__ import annotations

import functools
import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
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
def test_compiled_and_interpreted_protocols_have_equal_results(name: str, network: str) -> None:
    this = scenario(NETWORKS[network])
    flow = gs.simulate(this, SCHEDULERS[name], record=True)
    program = gs.simulate(this, SCHEDULERS[name], record=True, nodes="interpreted")
    assert flow.digest == program.digest, first_difference(flow, program)
    assert flow.tables == program.tables
    assert (flow.applications["conflicts"] > 0).any()
    if network != "fifo":
        return
    # a time limit at the end of the last job is sufficient
    last = float(np.nanmax(flow.applications["finish"]))
    assert gs.simulate(this, SCHEDULERS[name], time_limit=last).digest == flow.digest
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
    return Simulation(this, scheduler, Options(record=True, time_limit=5e3 if faults else 1e8))


def kept(scheduler: gs.Scheduler, *waves: int) -> list[tuple[Any, dict[str, Any]]]:
    """Return checkpoints after the given numbers of waves, and the state of the protocol at each."""
    run = started(scheduler)
    seen = 0
    found: list[tuple[Any, dict[str, Any]]] = []

    def look() -> None:
        nonlocal seen
        seen += 1
        if seen in waves:
            policy: Any = run.policy
            kept = snapshot(run)  # the checkpoint consumes iterators of the policy's state
            state = {
                k: v.copy() if isinstance(v, np.ndarray) else v for k, v in policy.flow.getstate().items()
            }
            found.append((kept, state))
        if seen == waves[-1]:
            raise Interrupted

    run.engine.at_wave_end(look)
    with suppress(Interrupted):
        run.run()
    return found


def resumed(scheduler: gs.Scheduler, at: Any) -> Simulation:
    run = started(scheduler)
    text, arrays = at
    copies = [array.copy() for array in arrays]
    state: Any = unpack(json.loads(text), copies.__getitem__)
    run.setstate(state.state)
    return run


# : Scheduler, and numbers of waves after which states are taken.
WAVES = {"push": (2, 20, 50), "pull": (2, 20, 50), "failing": (20, 66, 1310)}
CASES = [(name, wave) for name, waves in WAVES.items() for wave in waves]


@functools.cache
def taken_of(name: str) -> dict[int, tuple[Any, dict[str, Any]]]:
    """Return states shared by all tests, which are made on first use."""
    return dict(zip(WAVES[name], kept(SCHEDULERS[name], *WAVES[name]), strict=True))


def taken(case: tuple[str, int]) -> tuple[Any, dict[str, Any]]:
    return taken_of(case[0])[case[1]]


@functools.cache
def ends_as(name: str) -> str:
    return started(SCHEDULERS[name]).run().digest


def test_saved_states_have_negotiations_in_progress() -> None:
    states = [taken(case)[1] for case in CASES]
    for entry in ("talks", "found", "pool", "ending", "overdue", "thinking"):
        assert any(len(state[entry]) for state in states), entry
    assert any(state["talks"][:, 10].any() for state in states)  # a machine has failed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_restored_state_equals_the_saved_one(case: tuple[str, int]) -> None:
    at, state = taken(case)
    run = resumed(SCHEDULERS[case[0]], at)
    policy: Any = run.policy
    again = policy.flow.getstate()
    assert set(again) == set(state)
    assert all(np.array_equal(again[entry], state[entry]) for entry in state)
    assert run.run().digest == ends_as(case[0])


def test_states_with_unsuccessful_searches_can_be_restored() -> None:
    """Their entries are zeros in the state."""
    scheduler = gs.DgsAsap(degree=4, wide="fail", tries=5)
    ends = started(scheduler).run().digest
    for at, state in kept(scheduler, *range(10, 40, 5)):
        assert ((state["pool"] >= 0) & (state["pool"] < 100)).all()
        assert resumed(scheduler, at).run().digest == ends


NUMBERS = (-(2**63), -2, -1, 0, 1, 2, 5, 50, 99, 100, 2**31, 2**40, 2**61, 2**62, 2**63 - 1)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(CASES)), st.data())
def test_damaged_states_do_no_harm(case: tuple[str, int], data: st.DataObject) -> None:
    """A state with some wrong numbers is rejected, or the run continues to a useless result, in bounds."""
    at, state = taken(case)
    bad = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
    for _ in range(data.draw(st.integers(1, 3))):
        entry = data.draw(st.sampled_from(sorted(bad)))
        if isinstance(bad[entry], int):
            bad[entry] = data.draw(st.sampled_from(NUMBERS))
        elif bad[entry].size:
            if data.draw(st.booleans()):
                flat = bad[entry].reshape(-1)
                flat[data.draw(st.integers(0, flat.size - 1))] = data.draw(st.sampled_from(NUMBERS))
            else:
                bad[entry] = bad[entry][: data.draw(st.integers(0, len(bad[entry]) - 1))]
    run = resumed(SCHEDULERS[case[0]], at)
    policy: Any = run.policy
    try:
        policy.flow.setstate(bad)
        run.run()
    except (ValueError, gs.GridSimError, OverflowError):
        return


def test_a_run_from_a_state_without_messages_ends_with_an_error() -> None:
    """Without the messages, some jobs are never placed, but the run ends."""
    at, state = taken(("pull", 50))
    run = resumed(SCHEDULERS["pull"], at)
    policy: Any = run.policy
    assert len(state["thinking"])
    policy.flow.setstate({**state, "thinking": state["thinking"][:0], "thoughts": state["thoughts"][:0]})
    with pytest.raises(gs.GridSimError, match="tasks must be completed once"):
        run.run()


def test_wrong_states_are_rejected() -> None:
    at, state = taken(("push", 50))
    run = resumed(SCHEDULERS["push"], at)
    policy: Any = run.policy
    for name in state:
        with pytest.raises(ValueError, match=f"state must have an entry '{name}'"):
            policy.flow.setstate({key: value for key, value in state.items() if key != name})
    with pytest.raises(ValueError, match=r"state\['ending'\]"):
        policy.flow.setstate({**state, "ending": state["ending"][:-1]})


def test_wrong_arrays_of_the_policy_are_rejected() -> None:
    run = started(SCHEDULERS["push"])
    policy: Any = run.policy
    shared = policy._shared()
    for part, name in (("jobs", "phase"), ("jobs", "attempt"), ("nodes", "busy")):
        wrong = {**shared, part: {**shared[part], name: shared[part][name][:-1]}}
        with pytest.raises(ValueError, match=f"^{name}"):
            policy.flow.bind(**wrong)
