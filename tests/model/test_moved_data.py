"""Tasks that move data, and machines with links: recipes and rejected recipes."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError


def test_data_leave_other_columns_of_a_workload_unchanged():
    platform = gs.Platform.pareto(20, seed=3)
    plain = gs.Workload.bags(30, seed=5).realize(platform)
    moving = gs.Workload.bags(30, seed=5, input_bytes=[0.0, 1e6], output_bytes=(10.0, 20.0)).realize(platform)
    for name in ("release", "tasks", "task_size", "submitter"):
        assert np.array_equal(getattr(plain, name), getattr(moving, name))
    fetched, sent = moving.moved()
    assert set(fetched.tolist()) == {0.0, 1e6} and sent.min() >= 10.0 and sent.max() <= 20.0
    assert np.array_equal(moving.bytes_per_mflop, np.maximum(fetched, sent) / moving.task_size)


def test_data_sizes_follow_their_applications():
    moving = gs.Workload.of([5.0, 1.0], 1, 10.0, input_bytes=[7.0, 8.0]).realize(gs.Platform.equal(1))
    assert moving.input_bytes is not None and moving.input_bytes.tolist() == [8.0, 7.0]


@pytest.mark.parametrize("no_data", [0.0, [0.0, 0.0], None])
def test_zero_bytes_count_as_no_data(no_data):
    bags = gs.Workload.of([0.0, 1.0], 1, 10.0, input_bytes=no_data).realize(gs.Platform.equal(1))
    assert bags.input_bytes is None and not bags.moves_data


def test_links_are_drawn_with_the_seed_and_leave_speeds_unchanged():
    one, other = gs.Platform.pareto(500, seed=1), gs.Platform.pareto(500, seed=1).linked((1e4, 1e6))
    assert np.array_equal(one.speeds, other.speeds) and one.bandwidth is None
    links = other.bandwidth
    assert links is not None and links.min() >= 1e4 and links.max() <= 1e6
    # the logarithms are uniform: half of them lie below the geometric mean
    assert 0.4 < (links < 1e5).mean() < 0.6
    second = gs.Platform.pareto(500, seed=1).linked((1e4, 1e6)).bandwidth
    assert second is not None and np.array_equal(links, second)
    assert other.unlinked() == one
    assert other == gs.Platform.pareto(500, seed=1, bandwidth=(1e4, 1e6))
    assert not pickle.loads(pickle.dumps(other)).bandwidth.flags.writeable


@pytest.mark.parametrize("links", [125_000.0, (1e4, 1e6), [1e4, 2e4, 3e4]])
def test_a_scenario_with_data_survives_a_file(links):
    scenario = gs.Scenario(
        platform=gs.Platform.desktop_grid(3, seed=1).linked(links),
        workload=gs.Workload.bags(2, seed=1, input_bytes=[1.0, 2.0], output_bytes=(1.0, 3.0)),
    )
    copy = gs.Scenario.from_toml(scenario.to_toml())
    assert copy == scenario
    assert copy.platform.bandwidth is not None and scenario.platform.bandwidth is not None
    assert np.array_equal(copy.platform.bandwidth, scenario.platform.bandwidth)


def test_data_sizes_with_units_are_read():
    text = '[platform]\nkind = "equal"\nnodes = 2\nbandwidth = "1 Mbit/s"\n'
    text += '[workload]\nkind = "bags"\nseed = 1\ninput_bytes = "1 MB"\n'
    scenario = gs.Scenario.from_toml(text)
    assert scenario.platform.bandwidth is not None and scenario.platform.bandwidth.tolist() == [125_000.0] * 2
    moving = scenario.workload.realize(scenario.platform)
    assert moving.input_bytes is not None and (moving.input_bytes == 1e6).all()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: gs.Platform.equal(3).linked([1.0, 2.0]),
            "platform.bandwidth must have 3 entries",
        ),
        (
            lambda: gs.Platform.equal(3).linked(0.0),
            "platform.bandwidth must be a finite number > 0 bytes/s, got 0",
        ),
        (lambda: gs.Platform.equal(3).linked((5.0, 1.0)), "platform.bandwidth.high must be"),
        (
            lambda: gs.Workload.bags(1, seed=1, input_bytes=-1.0),
            "workload.input_bytes must be a finite number >= 0 bytes",
        ),
        (
            lambda: gs.Workload.bags(1, seed=1, output_bytes=[]),
            "workload.output_bytes must have at least one",
        ),
        (lambda: gs.Workload.bags(1, seed=1, input_bytes=1e16), "workload.input_bytes must be at most 1e"),
        (lambda: gs.Workload.of([0.0], 1, 1.0, output_bytes=-1.0), r"workload.output_bytes\[0\] must be"),
        (lambda: gs.Workload.of([0.0], 1, 1.0, output_bytes=[1.0, 2.0]), "workload.output_bytes must have 1"),
    ],
)
def test_invalid_data_sizes_are_rejected(make, expected):
    with pytest.raises(ScenarioError, match=expected):
        make()


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
        assert re.search(r"28\.67 MB of task data \([\d,.]+ x the messages\)", fetching.format())
    else:
        assert math.isnan(summary["data_ratio"]) and "(no messages)" in fetching.format()
    # fetching delays no task
    assert fetching.applications["finish"].tolist() == plain.applications["finish"].tolist()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_an_interrupted_task_fetches_its_data_again(name: str) -> None:
    # at 3.25 s machine 1 is in the middle of a task, whatever the length of its tasks
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
