"""Runs of bags whose tasks differ in size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.scheduling.contract import SCHEDULE
from gridsim.support.clock import nanoseconds
from gridsim.testing import ConformanceError, check_scheduler, scenarios
from gridsim.validation.results import validate_result


class LocalScheduler(gs.Scheduler, frozen=True, kw_only=True):
    """Scheduler that runs tasks where they are submitted; if `blind`, as if all had the first one's size."""

    name: ClassVar[str] = "one-by-one"
    decentralized: ClassVar[bool] = True
    unequal: ClassVar[bool] = True

    blind: bool = False

    def start(self, run: gs.Run) -> LocalPolicy:
        return LocalPolicy(run, self.blind)


class LocalPolicy(gs.Policy):
    def __init__(self, run: gs.Run, blind: bool) -> None:
        self.run, self.blind = run, blind
        self.sizes, self.offsets = run.applications.sizes(), run.applications.offsets
        self.free = [0] * len(run.speeds)
        self.rows: list[tuple[int, ...]] = []

    def on_release(self, applications: list[int]) -> None:
        for i in applications:
            u = int(self.run.applications.submitter[i])
            sizes = self.sizes[self.offsets[i] : self.offsets[i + 1]]
            for a in sizes.tolist():
                start = max(self.run.engine.now, self.free[u])
                duration = nanoseconds((sizes[0] if self.blind else a) / self.run.speeds[u])
                self.free[u] = start + duration
                self.rows.append((u, i, 1, start, start + duration, 1))

    def finish(self) -> gs.Outcome:
        table = dict(zip(SCHEDULE, np.array(self.rows, np.int64).T, strict=True))
        u, i, count = table["machine"], table["application"], len(self.run.applications)
        first, finish = np.full(count, 2**62), np.full(count, -1)
        np.minimum.at(first, i, table["start"])
        np.maximum.at(finish, i, table["end"])
        machines = len(self.run.speeds)
        busy = np.zeros(machines, np.int64)
        np.add.at(busy, u, table["end"] - table["start"])
        tasks = np.bincount(u, minlength=machines)
        return gs.Outcome(
            applications={
                "first_start": first,
                "finish": finish,
                "completed": np.bincount(i, minlength=count),
                "resubmitted": np.zeros(count, np.int64),
                "nodes_used": np.ones(count, np.int64),
            },
            machines={"busy": busy, "tasks": tasks, "peak_queue": tasks},
            schedule=table,
        )


def scenario(*sizes: list[float]) -> gs.Scenario:
    workload = gs.Workload.of_tasks([float(i) for i in range(len(sizes))], sizes)
    return gs.Scenario(gs.Platform.of([1000.0, 2000.0]), workload)


def test_results_have_mean_and_total_sizes() -> None:
    result = gs.simulate(scenario([1000.0, 3000.0], [100.0]), LocalScheduler(), record=True)
    table = result.applications
    assert table["task_size"].tolist() == [2000.0, 100.0] and table["size"].tolist() == [4000.0, 100.0]
    assert table["finish"].tolist() == [4.0, 1.05] and table["stretch"].tolist() == [0.001, 0.0005]
    assert validate_result(result) == []


def test_work_is_the_sum_of_task_sizes() -> None:
    """A scheduler that ignores the sizes does not do all the work."""
    with pytest.raises(gs.InvariantViolation, match="machines: worked for"):
        gs.simulate(scenario([1000.0, 3000.0]), LocalScheduler(blind=True))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1000.0, 1e-9], r"workload.sizes of application 1 must take at least 1 ns on the fastest machine"),
        ([1000.0, 1e18], r"workload.sizes must let the run end within .* got at least"),
    ],
)
def test_task_sizes_out_of_range_are_rejected(sizes: list[float], message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        gs.simulate(scenario([5.0], sizes), LocalScheduler())


@settings(deadline=None, max_examples=30)
@given(scenarios(max_nodes=6, unequal=True))
def test_runs_of_unequal_tasks_are_sound(scenario: gs.Scenario) -> None:
    result = gs.simulate(scenario, LocalScheduler(), record=True)
    assert validate_result(result) == []
    assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


def is_unequal(scenario: gs.Scenario) -> bool:
    return scenario.workload.realize(scenario.platform).unequal


@settings(deadline=None, max_examples=30)
@given(scenarios(max_nodes=6))
def test_generated_scenarios_have_equal_tasks_by_default(scenario: gs.Scenario) -> None:
    assert not is_unequal(scenario)


@pytest.mark.parametrize("expected", [True, False])
def test_generated_scenarios_may_have_unequal_tasks(expected: bool) -> None:
    generation = settings(max_examples=200, phases=(Phase.generate,), database=None)
    actual: Any = find(
        scenarios(max_nodes=3, unequal=True), lambda each: is_unequal(each) == expected, settings=generation
    )
    assert is_unequal(actual) == expected


def test_a_scheduler_with_support_for_unequal_tasks_passes(tmp_path: Path) -> None:
    report = check_scheduler(LocalScheduler(), examples=12, hash_seeds=False, folder=tmp_path)
    assert report.examples >= 12 and "locality" not in report.left_out


@pytest.mark.slow
def test_a_scheduler_that_ignores_unequal_sizes_is_detected(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match="runs") as excinfo:
        check_scheduler(st.just(LocalScheduler(blind=True)), examples=60, hash_seeds=False, folder=tmp_path)
    assert is_unequal(excinfo.value.scenario)
