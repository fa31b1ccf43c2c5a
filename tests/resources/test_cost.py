"""Before a run, a lack of memory is an error and a long run a warning, both from lower bounds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import OutOfMemory
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import registered
from gridsim.simulation.cost import failure_count, most_tasks

MEASURE = """
import re, sys
import gridsim as gs
from gridsim.scheduling.registry import registered
from gridsim.simulation.simulate import execute
kind, parameters = registered()[sys.argv[1]]

def run(tasks):
    execute(gs.Scenario(gs.Platform.equal(50), gs.Workload.of([0.0], tasks, 1000.0)), kind(**parameters))
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1])

small = run(100)
print(run(50_000) - small)
"""
STORING = [name for name, (kind, _) in registered().items() if kind.task_cost.memory]


def scenario(releases: list[float], tasks: int, faults: gs.Faults | None = None) -> gs.Scenario:
    workload = gs.Workload.of(releases, [tasks] * len(releases), 1000.0)
    return gs.Scenario(gs.Platform.of([10.0] * 4), workload, faults=faults)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize("name", STORING)
def test_a_run_takes_at_least_the_declared_memory_per_task(name: str) -> None:
    """A larger declared memory would refuse runs that fit."""
    answer = subprocess.run([sys.executable, "-c", MEASURE, name], capture_output=True, text=True, check=True)
    assert int(answer.stdout) >= 50_000 * registered()[name][0].task_cost.memory


@pytest.mark.parametrize(("scheduler", "memory"), [(gs.WqrFt(), 48), (gs.Sparrow(), 96)])
def test_tasks_beyond_the_memory_are_rejected_before_the_run(
    scheduler: Scheduler, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridsim.support.memory.memory", lambda: 1000 * memory)
    with pytest.raises(OutOfMemory, match=r"workload.tasks: 1001 unfinished tasks take at least"):
        gs.simulate(scenario([0.0], 1001), scheduler)
    assert gs.simulate(scenario([0.0], 1000), scheduler).machines["tasks"].sum() == 1000


def test_counted_tasks_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fair tree and `Fcfs` count the equal tasks of an application."""
    monkeypatch.setattr("gridsim.support.memory.memory", lambda: 10**6)
    for scheduler in (gs.FairTree(), gs.Fcfs()):
        gs.simulate(scenario([0.0], 10**7), scheduler)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=8), st.integers(1, 40))
def test_no_run_has_fewer_unfinished_tasks_than_the_lower_bound(times: list[int], tasks: int) -> None:
    """FCFS keeps all machines busy, so that it has the fewest unfinished equal tasks at each instant."""
    given_scenario = scenario(sorted(map(float, times)), tasks)
    applications = given_scenario.workload.realize(given_scenario.platform)
    schedule = gs.simulate(given_scenario, gs.Fcfs(), record=True).tables["schedule"]
    rows = zip(schedule["start"], schedule["end"], schedule["tasks"], strict=True)
    ends = np.concatenate([np.linspace(start, end, count + 1)[1:] for start, end, count in rows])
    unfinished = [
        int(applications.tasks[applications.release <= time].sum()) - int((ends < time - 1e-6).sum())
        for time in applications.release
    ]
    assert tasks <= most_tasks(applications, given_scenario) <= max(unfinished)


def test_later_applications_add_to_unfinished_tasks() -> None:
    given_scenario = scenario([0.0, 100.0, 5000.0], 10)  # the machines complete 4 tasks in 100 s
    applications = given_scenario.workload.realize(given_scenario.platform)
    assert most_tasks(applications, given_scenario) == 16


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (gs.Faults.poisson(5.0, seed=1), 4 * 600 / 5),
        (gs.Faults.exponential(5.0, 15.0, seed=1), 4 * 600 / 20),
        (gs.Faults.weibull(1.0, 5.0, 1.0, 15.0, seed=1), 4 * 600 / 20),
        (gs.Faults.of([0], [1.0], [2.0]), 0.0),
        (None, 0.0),
    ],
)
def test_failures_are_counted_over_the_shortest_run(faults: gs.Faults | None, expected: float) -> None:
    for given_scenario in (scenario([0.0, 600.0], 1, faults), scenario([0.0], 24, faults)):
        applications = given_scenario.workload.realize(given_scenario.platform)
        assert failure_count(applications, given_scenario) == pytest.approx(expected)


def test_a_long_run_is_announced_with_its_events_and_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.simulation.cost.APPLICATION_SECONDS", 2.0)
    monkeypatch.setattr("gridsim.simulation.cost.FAILURE_SECONDS", 3600.0)
    releases = [10.0 * k for k in range(50)]
    text = "long run: WQR-FT handles about 50 applications, 100 single tasks, which takes at least about"
    with pytest.warns(gs.ModelWarning, match=f"^{text} 1.7 minutes$"):
        gs.simulate(scenario(releases, 2), gs.WqrFt())
    text = "long run: fcfs handles about 50 applications, 8 failures, which takes at least about 8.4 hours"
    with pytest.warns(gs.ModelWarning, match=f"^{text}$"):
        gs.simulate(scenario(releases, 2, gs.Faults.poisson(1200.0, seed=1)), gs.Fcfs())
