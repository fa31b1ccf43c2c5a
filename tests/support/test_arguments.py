"""What Python hands over: numbers and texts of numpy, whole numbers for real ones, and what is neither."""

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


def others(value: Any) -> Iterator[Any]:
    """What is the same as `value`, and of another type."""
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


def same(usual: Any, changed: Any) -> None:
    """Both are the same down to the types, so that all that is written of them is the same."""
    assert repr(changed) == repr(usual)
    assert msgspec.json.encode(changed) == msgspec.json.encode(usual)


@pytest.mark.parametrize("kind", SCHEDULERS, ids=lambda kind: kind.name)
def test_a_parameter_has_its_value_in_any_numeric_type(kind: type[gs.Scheduler]) -> None:
    """``FairTree(bound=2)`` and ``FairTree(bound=np.float64(2))`` have the digest and the key of 2.0."""
    usual = kind()
    for field in kind.__struct_fields__:
        for value in others(getattr(usual, field)):
            changed = kind(**{field: value})
            same(usual, changed)
            assert json.dumps(describe(changed)) == json.dumps(describe(usual))
            assert Keys().key(Cell(scenario(), changed)) == Keys().key(Cell(scenario(), usual))


@pytest.mark.parametrize("field", gs.Network.__struct_fields__)
def test_a_network_has_its_values_in_any_numeric_type(field: str) -> None:
    for value in others(getattr(NETWORK, field)):
        changed = msgspec.structs.replace(NETWORK, **{field: value})
        same(NETWORK, changed)
        assert scenario(network=changed).to_toml() == scenario(network=NETWORK).to_toml()


def test_samples_of_a_grid_may_be_arrays() -> None:
    axes = ((0.1, 1.0), (10.0, 100.0, 1000.0), (5.0,))
    usual = gs.FairTree(grid=axes)
    same(usual, gs.FairTree(grid=[np.array(axis) for axis in axes]))
    same(usual, gs.FairTree(grid=[list(axis) for axis in axes]))
    assert describe(usual)["parameters"]["grid"] == [list(axis) for axis in axes]


def test_parameters_in_a_scenario_can_be_written() -> None:
    given = {
        "fair-tree": {"bound": np.float32(2.0), "samples": (np.int64(3), 2, 1), "entry": np.str_("parent")}
    }
    made = scenario(schedulers=given)
    assert gs.Scenario.from_toml(made.to_toml()).schedulers == {
        "fair-tree": {"bound": 2.0, "samples": [3, 2, 1], "entry": "parent"}
    }
    assert type(made.schedulers["fair-tree"]["bound"]) is float


class Own(gs.Fcfs, frozen=True, kw_only=True):
    """A scheduler of a user, without checks of its own."""

    name = "own"

    weight: Any = 1.0
    weights: Any = ()


def test_a_record_has_numpy_numbers_as_numbers() -> None:
    made = Own(weight=np.float64(2.5), weights=[np.int64(3), np.arange(2)])
    parameters = describe(made)["parameters"]
    assert (parameters["weight"], parameters["weights"]) == (2.5, [3, [0, 1]])
    assert describe(Own(weight=1j))["parameters"]["weight"] == "1j"


def test_a_checkpoint_resumes_with_numpy_numbers(tmp_path: Path) -> None:
    jobs = gs.Workload.jobs(jobs=30, seed=1)
    what = gs.Scenario(gs.Platform.equal(100), jobs, gs.Network(latency=np.float64(0.1)), seed=2)
    method = gs.DgsAsap(forward=np.int64(3), slot=np.float32(60.0), policy=np.str_("pull"))
    file = tmp_path / "run.checkpoint"
    whole = gs.simulate(what, method, checkpoint=file, checkpoint_every=0)
    assert gs.resume(file).digest == whole.digest
    assert whole.digest == gs.simulate(what, gs.DgsAsap(forward=3, policy="pull")).digest


TWO = {"a": gs.Fcfs(), "b": gs.MinCent()}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: gs.simulate("s.toml", gs.Fcfs()), "scenario must be a Scenario, got 's.toml'"),
        (lambda: gs.compare(None, TWO), "scenario must be a Scenario, got None"),
        (lambda: gs.compare("s.toml", TWO, replicates=2), "scenario must be a Scenario, got 's.toml'"),
        (lambda: gs.replicate(None, TWO, [1, 2]), "scenario must be a Scenario, got None"),
        (lambda: gs.replication(None, 1), "scenario must be a Scenario, got None"),
        (lambda: gs.ladder(None), "scenario must be a Scenario, got None"),
        (lambda: gs.sweep(None, TWO, {"seed": [1]}), "scenario must be a Scenario, got None"),
        (lambda: gs.replicate(scenario(), TWO, seeds=5), "seeds must be a list of numbers, got 5"),
        (lambda: gs.replication(scenario(), 1, hold=None), "hold must be several of platform, .*, got None"),
        (lambda: gs.replication(scenario(), 1, hold="platform"), "hold must be several of .*, got 'pla"),
        (lambda: gs.compare(scenario(), {1: gs.Fcfs()}), "schedulers: a name must be a non-empty"),
        (lambda: gs.simulate({}, gs.Fcfs()), "scenario must be a Scenario, got {}"),
        (lambda: gs.sweep(scenario(), TWO, {"platform.nodes": np.array(3)}), "over.platform.nodes must be"),
        (lambda: gs.Network(latency=None), "network.latency must be a finite number >= 0 s, got None"),
        (lambda: gs.Network(latency="1"), "network.latency must be a finite number >= 0 s, got '1'"),
        (lambda: gs.Network(latency=True), "network.latency must be a finite number >= 0 s, got True"),
        (lambda: gs.Network(jitter=10**400), "network.jitter must be a finite number >= 0 s, got 10"),
        (lambda: gs.Network(interfaces=None), r"network.interfaces must be one of \('fifo', 'equal'\), got"),
        (lambda: gs.Network(record_use=1), "network.record_use must be true or false, got 1"),
        (lambda: gs.Rendezvous(share=None), "rendezvous.share must be a number in 0..1, got None"),
        (lambda: gs.Rendezvous(retry="1"), "rendezvous.retry must be a finite number > 0 s, got '1'"),
        (lambda: gs.Rendezvous(detection=None), "rendezvous.detection must be a finite number >= 0 s, got"),
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
def test_invalid_values_are_named(make: Any, said: str) -> None:
    with pytest.raises(gs.ScenarioError, match=f"^{said}"):
        make()


@pytest.mark.parametrize("kind", [np.asarray, memoryview])
def test_arrays_of_two_dimensions_are_lists_of_lists(kind: Any) -> None:
    assert sequence("x", kind(np.ones((2, 2)))) == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(gs.ScenarioError, match=r"^platform.speeds\[0\]"):
        gs.Platform.of(kind(np.ones((2, 2))))
