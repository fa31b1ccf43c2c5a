"""Arguments of other types: numpy numbers and strings, integers for floats, and invalid values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import gridsim as gs
from gridsim.scheduling.description import describe
from gridsim.scheduling.registry import registered
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.keys import Keys
from gridsim.support.arguments import sequence

SCHEDULERS = sorted({kind for kind, _ in registered().values()}, key=lambda kind: kind.name)
NETWORK = gs.Network(latency=1.0, jitter=0.5, bandwidth=2.0, task_data=4.0)


def scenario(**changes: Any) -> gs.Scenario:
    platform = gs.Platform.of([1000.0, 2000.0, 3000.0])
    bags = gs.Workload.of(release=[0.0, 1.0], tasks=[4, 5], task_size=[1000.0, 500.0])
    return gs.Scenario(platform, bags, **changes)


def equal_values(value: Any) -> Iterator[Any]:
    """Yield values of other types that equal `value`."""
    if isinstance(value, bool):
        yield np.bool_(value)
    elif isinstance(value, str):
        yield np.str_(value)
    elif isinstance(value, int):
        yield np.int64(value)
        yield np.array([value])[0]
    elif isinstance(value, float):
        yield np.float64(value)
        if math.isfinite(value) and value == round(value):
            yield int(value)
            yield np.float32(value)
            yield np.int32(value)
    elif isinstance(value, tuple):
        yield list(value)
        yield np.array(value)
        yield tuple(np.array(value))


def assert_identical(usual: Any, changed: Any) -> None:
    """Check that two objects have equal fields of equal types, so that files contain the same text."""
    assert repr(changed) == repr(usual)
    assert msgspec.json.encode(changed) == msgspec.json.encode(usual)


@pytest.mark.parametrize("kind", SCHEDULERS, ids=lambda kind: kind.name)
def test_the_numeric_type_of_a_parameter_does_not_change_its_value(kind: type[gs.Scheduler]) -> None:
    """``FairTree(bound=2)`` and ``FairTree(bound=np.float64(2))`` have the digest and the key of 2.0."""
    usual = kind()
    for field in kind.__struct_fields__:
        for value in equal_values(getattr(usual, field)):
            changed = kind(**{field: value})
            assert_identical(usual, changed)
            assert json.dumps(describe(changed)) == json.dumps(describe(usual))
            assert Keys().key(Cell(scenario(), changed)) == Keys().key(Cell(scenario(), usual))


@pytest.mark.parametrize("field", gs.Network.__struct_fields__)
def test_the_numeric_type_of_a_network_field_does_not_change_its_value(field: str) -> None:
    for value in equal_values(getattr(NETWORK, field)):
        changed = msgspec.structs.replace(NETWORK, **{field: value})
        assert_identical(NETWORK, changed)
        assert scenario(network=changed).to_toml() == scenario(network=NETWORK).to_toml()


def test_samples_of_a_grid_may_be_arrays() -> None:
    axes = ((0.1, 1.0), (10.0, 100.0, 1000.0), (5.0,))
    usual = gs.FairTree(grid=axes)
    assert_identical(usual, gs.FairTree(grid=[np.array(axis) for axis in axes]))
    assert_identical(usual, gs.FairTree(grid=[list(axis) for axis in axes]))
    assert describe(usual)["parameters"]["grid"] == [list(axis) for axis in axes]


def test_scenarios_with_numpy_parameters_can_be_written() -> None:
    parameters = {
        "fair-tree": {"bound": np.float32(2.0), "samples": (np.int64(3), 2, 1), "entry": np.str_("parent")}
    }
    with_parameters = scenario(schedulers=parameters)
    assert gs.Scenario.from_toml(with_parameters.to_toml()).schedulers == {
        "fair-tree": {"bound": 2.0, "samples": [3, 2, 1], "entry": "parent"}
    }
    assert type(with_parameters.schedulers["fair-tree"]["bound"]) is float


class UserScheduler(gs.Fcfs, frozen=True, kw_only=True):
    """User scheduler without checks of its own."""

    name = "own"

    weight: Any = 1.0
    weights: Any = ()


def test_descriptions_contain_numpy_numbers_as_plain_numbers() -> None:
    user_scheduler = UserScheduler(weight=np.float64(2.5), weights=[np.int64(3), np.arange(2)])
    parameters = describe(user_scheduler)["parameters"]
    assert (parameters["weight"], parameters["weights"]) == (2.5, [3, [0, 1]])
    assert describe(UserScheduler(weight=1j))["parameters"]["weight"] == "1j"


def test_a_checkpoint_resumes_with_numpy_numbers(tmp_path: Path) -> None:
    jobs = gs.Workload.jobs(jobs=30, seed=1)
    scenario = gs.Scenario(gs.Platform.equal(100), jobs, gs.Network(latency=np.float64(0.1)), seed=2)
    scheduler = gs.DgsAsap(forward=np.int64(3), slot=np.float32(60.0), policy=np.str_("pull"))
    file = tmp_path / "run.checkpoint"
    uninterrupted = gs.simulate(scenario, scheduler, checkpoint=file, checkpoint_every=0)
    assert gs.resume(file).digest == uninterrupted.digest
    assert uninterrupted.digest == gs.simulate(scenario, gs.DgsAsap(forward=3, policy="pull")).digest


TWO = {"a": gs.Fcfs(), "b": gs.MinCent()}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gs.simulate("s.toml", gs.Fcfs()),
            "scenario must be a Scenario, got 's.toml'; write Scenario.from_toml",
        ),
        (lambda: gs.Fcfs("pull"), r"Fcfs must get its parameters by name \(mode\), got 'pull'"),
        (lambda: gs.compare(None, TWO), "scenario must be a Scenario, got None"),
        (lambda: gs.compare("s.toml", TWO, replicates=2), "scenario must be a Scenario, got 's.toml'"),
        (lambda: gs.replicate(None, TWO, [1, 2]), "scenario must be a Scenario, got None"),
        (lambda: gs.replication(None, 1), "scenario must be a Scenario, got None"),
        (lambda: gs.ladder(None), "scenario must be a Scenario, got None"),
        (lambda: gs.sweep(None, TWO, {"seed": [1]}), "scenario must be a Scenario, got None"),
        (lambda: gs.replicate(scenario(), TWO, seeds=5), "seeds must be a list of numbers, got 5"),
        (lambda: gs.replication(scenario(), 1, hold=None), "hold must be a list of parts .*, got None"),
        (lambda: gs.replication(scenario(), 1, hold="platform"), "hold must be a list of parts .*, got 'pla"),
        (lambda: gs.compare(scenario(), {1: gs.Fcfs()}), "schedulers: a name must be a non-empty"),
        (lambda: gs.simulate({}, gs.Fcfs()), "scenario must be a Scenario, got {}"),
        (lambda: gs.sweep(scenario(), TWO, {"platform.nodes": np.array(3)}), "over.platform.nodes must be"),
        (lambda: gs.Network(latency=None), "network.latency must be a finite number >= 0 s, got None"),
        (lambda: gs.Network(latency="1"), "network.latency must be a finite number >= 0 s, got '1'"),
        (lambda: gs.Network(latency=True), "network.latency must be a finite number >= 0 s, got True"),
        (lambda: gs.Network(jitter=10**400), "network.jitter must be a finite number >= 0 s, got 10"),
        (lambda: gs.Network(interfaces=None), r"network.interfaces must be one of fifo, equal, got"),
        (lambda: gs.Network(record_use=1), "network.record_use must be true or false, got 1"),
        (lambda: gs.Rendezvous(share=None), "rendezvous.share must be a number in 0..1, got None"),
        (lambda: gs.Rendezvous(retry="1"), "rendezvous.retry must be a finite number > 0 s, got '1'"),
        (lambda: gs.Rendezvous(detection=None), "rendezvous.detection must be a number in 0..2e.09 s, got"),
        (lambda: gs.Rendezvous(degree=True), "rendezvous.degree must be a whole number >= 1, got True"),
        (lambda: gs.FairTree(run_on=0), "fair-tree.run_on must be true or false, got 0"),
        (lambda: gs.FairTree(bound=10**400), "fair-tree.bound must be a finite number >= 0, got 10"),
        (lambda: gs.FairTree(entry=np.zeros(2)), "fair-tree.entry must be one of .*, got array"),
        (lambda: gs.Workload.bags(seed=1, task_size=10**400), "workload.task_size must be a finite number"),
        (lambda: gs.Workload.bags(seed=1, task_size=True), "workload.task_size must be a finite number > 0"),
        (lambda: gs.map_tasks([[1.0]], "kpb", percent=None), "percent must be a finite number, got None"),
        (lambda: gs.map_tasks([[1.0]], np.zeros(2)), "heuristic must be one of .*, got array"),
    ],
)  # fmt: skip
def test_errors_name_the_invalid_argument(call: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("kind", [np.asarray, memoryview])
def test_two_dimensional_arrays_are_read_as_lists_of_lists(kind: Any) -> None:
    assert sequence("x", kind(np.ones((2, 2)))) == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(gs.ScenarioError, match=r"^platform.speeds\[0\]"):
        gs.Platform.of(kind(np.ones((2, 2))))
    for argument, call in (
        ("workload.tasks.0.", lambda values: gs.Workload.of([0.0, 1.0], values, 1.0)),
        ("record", lambda values: gs.simulate(scenario(), gs.FairTree(), record=values)),
        ("record_nodes.0.", lambda values: gs.simulate(scenario(), gs.FairTree(), record_nodes=values)),
        ("schedulers", lambda values: gs.compare(scenario(), values)),
        ("metrics", lambda values: gs.replicate(scenario(), TWO, replicates=2, metrics=values)),
    ):
        with pytest.raises(gs.ScenarioError, match=f"^{argument}.* must "):
            call(kind(np.ones((2, 2))))


def test_a_buffer_is_read_as_a_column_of_its_entries() -> None:
    workload = gs.Workload.of([0.0, 1.0], memoryview(np.array([1, 2])), 1.0)
    assert workload == gs.Workload.of([0.0, 1.0], [1, 2], 1.0)
