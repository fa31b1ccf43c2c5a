"""`DgsAsap(move="forward")`: placed jobs move to earlier starts by messages."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.schedulers.dgs.test_node import failures, run, schedulers
from tests.schedulers.dgs.test_times import timed_scenarios

OPTIONS: dict[str, Any] = {"record": ("schedule", "decisions")}


def moving(**parameters: Any) -> gs.DgsAsap:
    return gs.DgsAsap(move="forward", move_period=60.0, slot=10.0, **parameters)


def simulate(machines: int, jobs: gs.Workload, scheduler: gs.DgsAsap, **network: Any) -> gs.Result:
    """Run jobs, and check the result."""
    own = gs.ListedAttributes(x=tuple(map(float, range(machines))), y=(0.0,) * machines)
    platform = gs.Platform.equal(machines, attributes=own)
    scenario = gs.Scenario(platform, jobs, gs.Network(**{"latency": 0.0, "bandwidth": math.inf} | network))
    result = gs.simulate(scenario, scheduler, **OPTIONS)
    assert validate_result(result) == []
    return result


def sent(result: gs.Result) -> dict[str, int]:
    return dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))


def test_placed_jobs_move_forward_when_a_job_ends_early() -> None:
    """Job 0 ends at 30 s; jobs 1 and 2 search at 61 s and 62 s, and job 1 keeps its machines."""
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0], [2, 2, 1], [30.0, 50.0, 50.0], requested=[120.0, 60.0, 60.0])
    paper = simulate(2, jobs, gs.DgsAsap(slot=10.0))
    assert paper.applications["first_start"].tolist() == [0.0, 120.0, 180.0] and "moved" not in sent(paper)
    result = simulate(2, jobs, moving())
    assert result.applications["first_start"].tolist() == [0.0, 70.0, 130.0]
    assert result.facts["moves"] == 2 and sent(result)["earlier"] >= 2
    moves = result.why(1).decisions
    assert moves["saw"][moves["action"] == "moved"].tolist() == [70.0]


def test_job_stays_if_a_machine_refuses_to_commit() -> None:
    """Jobs 1 and 2 search at one time for the machine of job 0, which ended early."""
    jobs = gs.Workload.jobs_of(
        [0.0, 0.0, 1.0, 1.0], [1, 1, 1, 1], [30.0, 600.0, 50.0, 50.0], requested=[400.0, 600.0, 60.0, 60.0]
    )
    result = simulate(2, jobs, moving(), latency=1.0)
    assert result.applications["first_start"].max() < 460.0
    refused = result.why(2).decisions["action"].tolist() + result.why(3).decisions["action"].tolist()
    assert "refused" in refused and result.facts["moves"] >= 1


def test_cancelled_job_releases_machines_that_commit_to_a_move() -> None:
    """The user cancels job 1 while machines commit to its move; job 2 gets their slots."""
    jobs = gs.Workload.jobs_of(
        [0.0, 40.0, 200.0],
        [2, 2, 2],
        [30.0, 50.0, 50.0],
        requested=[600.0, 60.0, 60.0],
        cancel_at=[math.inf, 157.0, math.inf],
    )
    result = simulate(2, jobs, moving(), latency=5.0)
    assert result.applications["cancelled"].tolist() == [0, 1, 0]
    assert sent(result)["move"] and "moves" not in result.facts
    assert result.applications["first_start"][2] <= 250.0


@st.composite
def dense_scenarios(draw: st.DrawFn, *, fails: bool) -> gs.Scenario:
    """Draw scenarios in which jobs queue and end long before the time that they have requested."""
    machines, count = draw(st.integers(2, 6)), draw(st.integers(4, 10))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    run_time = draw(st.lists(st.sampled_from([30.0, 60.0, 100.0, 300.0]), **numbers))
    factors = draw(st.lists(st.sampled_from([1.0, 4.0, 10.0]), **numbers))
    jobs = gs.Workload.jobs_of(
        sorted(draw(st.lists(st.integers(0, 60), **numbers))),
        draw(st.lists(st.integers(1, machines), **numbers)),
        run_time,
        requested=[time * factor for time, factor in zip(run_time, factors, strict=True)],
        submitter=draw(st.lists(st.integers(0, machines - 1), **numbers)),
    )
    latency = draw(st.sampled_from([0.0, 0.05, 1.0]))
    network = gs.Network(latency=latency, jitter=draw(st.sampled_from([0.0, latency / 2])))
    faults = draw(failures(machines)) if fails else None
    return gs.Scenario(gs.Platform.equal(machines), jobs, network, draw(st.integers(0, 99)), faults=faults)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    is_dense=st.booleans(),
    fails=st.booleans(),
    scheduler=schedulers(),
    period=st.sampled_from([5.0, 60.0]),
)
def test_runs_are_valid_and_jobs_move_to_earlier_starts_only(
    data: st.DataObject, is_dense: bool, fails: bool, scheduler: gs.DgsAsap, period: float
) -> None:
    changes: dict[str, Any] = {"move": "forward", "move_period": period}
    if is_dense:  # jobs move only if nodes know other nodes and slots are released
        changes |= {"estimate": "requested", "early": "release", "degree": 6}
    scenario = data.draw(dense_scenarios(fails=fails) if is_dense else timed_scenarios(fails=fails))
    result = run(scenario, msgspec.structs.replace(scheduler, **changes), **OPTIONS)
    if isinstance(result, str):
        assert fails
        return
    assert validate_result(result) == []
    for job in range(len(result.applications)):
        decisions = result.why(job).decisions
        moved = decisions["action"] == "moved"
        assert (decisions["saw"][moved] < decisions["limit"][moved]).all()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", [gs.DgsAsap, gs.DgsAcap])
def test_resumed_run_equals_the_whole_run(kind: Any, fails: bool) -> None:
    faults = gs.Faults.exponential(up=3000.0, down=200.0, seed=1) if fails else None
    run_time = np.array([100.0, 300.0, 60.0, 30.0, 200.0, 90.0])
    jobs = gs.Workload.jobs_of(
        [0.0, 1.0, 2.0, 2.0, 50.0, 300.0], [3, 5, 4, 8, 1, 6], run_time, requested=4 * run_time
    )
    own = gs.DrawnAttributes(side=1.0)
    network = gs.Network(latency=0.5, jitter=0.1)
    scenario = gs.Scenario(gs.Platform.equal(8, attributes=own), jobs, network, seed=2, faults=faults)
    scheduler = kind(degree=3, overlay="cyclon", cycle=20.0, slot=10.0, move="forward", move_period=30.0)
    result = gs.simulate(scenario, scheduler, **OPTIONS)
    assert result.facts["moves"] and validate_result(result) == []
    assert resume_difference(scenario, scheduler, result, **OPTIONS) is None


def test_compiled_nodes_do_not_move_jobs() -> None:
    jobs = gs.Workload.jobs_of([0.0], [1], [30.0])
    with pytest.raises(ScenarioError, match="^dgs-asap does not support nodes='compiled'"):
        gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), moving(), nodes="compiled")
