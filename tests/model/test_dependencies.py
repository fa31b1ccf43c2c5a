"""Applications that are released after others: their lists, files and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.support.columns import NumbersColumn

PLATFORM = gs.Platform.equal(2)


def workload_of(**columns: Any) -> gs.Workload:
    return gs.Workload.of([5.0, 0.0, 3.0], tasks=1, task_size=10.0, **columns)


def test_predecessors_are_numbered_in_order_of_release() -> None:
    """Users number applications in the order of their lists, runs in order of release."""
    workload = workload_of(after=[[1], [], [0, 1]], think_time=[0.0, 5.0, 2.5])
    applications = workload.realize(PLATFORM)
    assert applications.predecessors is not None and applications.predecessor_offsets is not None
    assert applications.think_time is not None and applications.stated_release is not None
    assert applications.release.tolist() == [0.0, 3.0, 5.0]
    assert applications.predecessor_offsets.tolist() == [0, 0, 2, 3]
    assert applications.predecessors.tolist() == [2, 0, 0]
    assert applications.think_time.tolist() == [5.0, 2.5, 0.0]
    assert applications.stated_release.tolist() == [0.0, 3.0, 5.0]


def test_a_number_stands_for_a_list_of_one() -> None:
    lists = workload_of(after=[[1], [], [0, 1]])
    assert lists == workload_of(after=[1, [], np.array([0, 1])])
    assert workload_of(after=[[1], [], [1]]) == workload_of(after=[1, (), 1])
    assert NumbersColumn.of(np.array([2, 1])) == NumbersColumn.of([[2], [1]])


def test_empty_lists_change_nothing() -> None:
    applications = workload_of(after=[[], [], []], think_time=1.0).realize(PLATFORM)
    assert applications.predecessors is None and applications.think_time is None


@pytest.mark.parametrize("count", [3, 300])
def test_scenario_files_keep_predecessors(count: int, tmp_path: Path) -> None:
    """Long lists are arrays beside the table in an archive."""
    after = [[], *([i, 0] for i in range(count - 1))]
    workload = gs.Workload.jobs_of(np.arange(count), 1, 10.0, after=after, think_time=np.arange(count))
    scenario = gs.Scenario(PLATFORM, workload)
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    file = tmp_path / "result.npz"
    gs.simulate(scenario, "backfill").save(file)
    assert gs.Result.load(file).scenario == scenario


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([[1], [2], [0]], "no circle, got 3 that wait for each other: 0 after 1 after 2 after 0"),
        ([[], [2], [1, 0]], "no circle, got 2 that wait for each other: 1 after 2 after 1"),
        ([[3], [], []], r"after\[0\]\[0\] must be a number in 0..2, got 3"),
        ([[], [0, 1], []], r"after\[1\]\[1\] must be a number in 0..2 other than its own, got 1"),
        ([[-1], [], []], r"after\[0\]\[0\] must be a whole number >= 0, got -1"),
        ([[0.5], [], []], r"after\[0\]\[0\] must be a whole number >= 0, got 0.5"),
        ([[], []], "after must have 3 entries"),
        (7, "after must be a list"),
    ],
)
def test_bad_predecessors_raise_an_error(after: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=rf"workload\.{message}|workload\.after must have {message}"):
        workload_of(after=after)


def test_bad_think_times_raise_an_error() -> None:
    with pytest.raises(gs.ScenarioError, match=r"workload\.think_time requires workload\.after"):
        workload_of(think_time=1.0)
    with pytest.raises(gs.ScenarioError, match=r"workload\.think_time\[1\] must be a number in 0\.\."):
        workload_of(after=[[], [0], []], think_time=[0.0, -1.0, 0.0])
