"""Runs on machines with several cores: all forms of nodes, exact cases, and what is refused."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.bag_workloads import Normal
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.validation.test_jobs import with_columns

NAMES = ("fair-tree", "random", "round-robin", "power-of-d", "join-shortest-queue", "least-work")


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    """Draw bags on machines of which some have several cores."""
    machines, count = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    cores = draw(st.lists(st.integers(1, 4), min_size=machines, max_size=machines))
    speeds = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=machines, max_size=machines))
    bags = gs.Workload.of(
        sorted(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 10.0]), **numbers))),
        draw(st.lists(st.integers(1, 20), **numbers)),
        draw(st.lists(st.sampled_from([1.0, 6.0, 10.0]), **numbers)),
        submitter=draw(st.lists(st.integers(0, machines - 1), **numbers)),
    )
    network = gs.Network(latency=draw(st.sampled_from([0.0, 0.05, 1.0])))
    faults = None
    if machines > 1 and draw(st.booleans()):
        faults = gs.Faults.of(*zip(*((u, 3.0 + u, 9.0 + 2 * u) for u in range(machines - 1)), strict=True))
    return gs.Scenario(
        gs.Platform.of(speeds, cores=cores), bags, network, draw(st.integers(0, 9)), faults=faults
    )


@settings(max_examples=60, deadline=None)
@given(scenario=scenarios(), name=st.sampled_from(NAMES))
def test_all_forms_of_nodes_have_equal_and_valid_runs(scenario: gs.Scenario, name: str) -> None:
    forms: tuple[Any, ...] = ("interpreted", "python")
    if name == "fair-tree" or find_spec("numba") is not None:  # its nodes are compiled without Numba
        forms += ("compiled",)
    results = [gs.simulate(scenario, name, nodes=form, record="schedule") for form in forms]
    assert len({result.digest for result in results}) == 1
    assert validate_result(results[0]) == []
    cores = scenario.platform.cores
    assert ("cores" in results[0].machines) == (cores is not None)
    assert results[0].max_stretch >= results[0].bound().stretch * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), cores=st.integers(1, 5))
def test_one_machine_of_c_cores_equals_c_machines_that_pull(seed: int, cores: int) -> None:
    """Where messages take no time, the queue of one machine is the central list of the others."""
    draw = np.random.default_rng(seed)
    release = np.cumsum(draw.exponential(1.0, 40))
    release -= release[0]
    columns = release, np.ones(40, int), draw.exponential(0.8 * cores, 40) + 0.01
    jobs = gs.Workload.of(*columns, submitter=np.zeros(40, int))
    network = gs.Network(latency=0.0)
    shared = gs.simulate(gs.Scenario(gs.Platform.equal(1, 1.0, cores=cores), jobs, network), "random")
    pulled = gs.simulate(gs.Scenario(gs.Platform.equal(cores, 1.0), jobs, network), gs.Fcfs(mode="pull"))
    for name in ("first_start", "finish"):
        assert (shared.applications[name] == pulled.applications[name]).all()
    assert shared.machines["busy"][0] == pytest.approx(pulled.machines["busy"].sum())


def bags(**arguments: Any) -> gs.Scenario:
    workload = gs.Workload.of([0.0, 1.0], [16, 4], [4.0, 4.0])
    return gs.Scenario(gs.Platform.equal(2, 1.0, cores=4), workload, gs.Network(latency=0.0), **arguments)


def test_cores_share_the_tasks_of_a_machine() -> None:
    result = gs.simulate(bags(), "join-shortest-queue", record="schedule")
    assert result.makespan == pytest.approx(12.0, rel=1e-3)
    assert result.utilization == pytest.approx(80 / (2 * 4 * 12.0), rel=1e-3)
    assert result.machines["cores"].tolist() == [4, 4] and result.aggregate_speed == 8.0


def test_tasks_beyond_the_cores_are_found() -> None:
    result = gs.simulate(bags(), "random", record="schedule")
    start = result.tables["schedule"]["start"].copy()
    row = int(np.argmax(start))
    start[row] = start[start > 0].min() / 2
    violations = validate_result(with_columns(result, schedule={"start": start}))
    assert "overlap" in {violation.law for violation in violations}


def test_failure_of_a_machine_loses_the_tasks_of_all_cores() -> None:
    faults = gs.Faults.of([0], [2.0], [50.0])
    result = gs.simulate(bags(faults=faults), "round-robin", record="schedule")
    assert result.machines["interrupted"].tolist() == [4, 0] and validate_result(result) == []


def test_resumed_run_equals_the_whole_run() -> None:
    options: dict[str, Any] = {"record": "schedule"}
    result = gs.simulate(bags(), gs.FairTree(), **options)
    assert resume_difference(bags(), gs.FairTree(), result, **options) is None


def test_runs_without_support_are_refused() -> None:
    message = (
        "^platform.cores must be 1 under WQR-FT, got up to 4; schedulers that support several cores: fair"
    )
    with pytest.raises(ScenarioError, match=message):
        gs.simulate(bags(), "WQR-FT")
    unequal = gs.Workload.bags(3, 1.0, 2.0, 0.0, 10.0, spread=Normal(0.5))
    with pytest.raises(ScenarioError, match="^platform.cores must be 1 with tasks of different sizes, got"):
        gs.simulate(gs.Scenario(gs.Platform.equal(2, cores=4), unequal), "random")


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        (0, "platform.cores must be a whole number in 1..65536, got 0"),
        ([1, 2, 3], "platform.cores must have 2 entries, one per machine, got 3"),
        ([1, 0], r"platform.cores\[1\] must be"),
        (1.5, "platform.cores must be"),
    ],
)
def test_invalid_numbers_of_cores_are_rejected(cores: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        gs.Platform.equal(2, cores=cores)


def test_cores_are_in_scenario_files() -> None:
    for cores in (4, (1, 3)):
        scenario = gs.Scenario(gs.Platform.equal(2, cores=cores), gs.Workload.of([0.0], [1], [1.0]))
        assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    assert "cores" not in gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], [1], [1.0])).to_toml()
