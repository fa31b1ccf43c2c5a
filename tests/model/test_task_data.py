"""Task data: fetched at the start of a task, counted separately from messages, without delay."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gridsim as gs

SCHEDULERS = {
    "fair-tree": gs.FairTree(),
    "mincent": gs.MinCent(),
    "once": gs.MinCent(mode="once"),
    "fcfs": gs.Fcfs(),
    "pull": gs.Fcfs(mode="pull"),
}


def scenario(task_data: float, faults: gs.Faults | None = None) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0, 2000.0, 1500.0]),
        gs.Workload.of(release=[0.0, 2.0], tasks=[40, 16], task_size=[1000.0, 3000.0]),
        gs.Network(task_data=task_data),
        faults=faults,
    )


@pytest.mark.parametrize("name", SCHEDULERS)
def test_each_task_fetches_its_data_once(name: str) -> None:
    plain, fetching = (gs.simulate(scenario(size), SCHEDULERS[name]) for size in (0.0, 512e3))
    assert "data_in" not in plain.machines
    assert "data_bytes" not in plain.summary() and "data_ratio" not in plain.summary()
    assert fetching.machines["data_in"].tolist() == (512e3 * fetching.machines["tasks"]).tolist()
    summary = fetching.summary()
    assert summary["data_bytes"] == 56 * 512e3
    if summary["bytes"]:
        assert summary["data_ratio"] == summary["data_bytes"] / summary["bytes"]
        assert f"28.672 MB of task data ({summary['data_ratio']:.4g} x the messages)" in str(
            fetching.format()
        )
    else:
        assert math.isnan(summary["data_ratio"]) and "(no messages)" in fetching.format()
    # fetching delays no task
    assert fetching.applications["finish"].tolist() == plain.applications["finish"].tolist()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_an_interrupted_task_fetches_its_data_again(name: str) -> None:
    # machine 1 is in the middle of a task, of either length, at 3.25 s
    failing = gs.Faults.of(machine=[1], down=[3.25], up=[3.25])
    result = gs.simulate(scenario(100.0, failing), SCHEDULERS[name])
    assert result.machines["interrupted"].tolist() == [0, 1, 0]
    assert result.machines["data_in"].sum() == 57 * 100.0


def test_a_stopped_replica_also_fetches_its_data() -> None:
    """A task of 10 s runs on machine 0, and its replica on machine 1 is stopped at its completion."""
    bag = gs.Workload.of(release=[0.0], tasks=[1], task_size=[10_000.0])
    two = gs.Scenario(gs.Platform.of([1000.0, 1000.0]), bag, gs.Network(task_data=100.0))
    result = gs.simulate(two, gs.WqrFt(max_replicas=2))
    assert result.machines["tasks"].sum() == result.machines["ended"].sum() == 1
    assert result.machines["data_in"].tolist() == [100.0, 100.0]


def test_each_started_replica_fetches_its_data() -> None:
    """Replicas are completed, interrupted or stopped; each is a row of the schedule."""
    failing = gs.Faults.of([0, 1, 2], [3.25, 9.0, 30.0], [5.0, 9.0, 31.0])
    result = gs.simulate(scenario(100.0, failing), gs.WqrFt(max_replicas=2), record=True)
    starts = np.bincount(result.tables["schedule"]["machine"], minlength=3)
    assert result.machines["interrupted"].sum() and result.machines["ended"].sum()
    assert result.machines["data_in"].tolist() == (100.0 * starts).tolist()


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e308])
def test_invalid_sizes_of_task_data_are_rejected(value: float) -> None:
    with pytest.raises(gs.ScenarioError, match="^network.task_data"):
        gs.Network(task_data=value)
