from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim
import gridsim as gs
from gridsim.engine import engine
from gridsim.engine.engine import TIMER
from gridsim.errors import InvariantViolation, ScenarioError, SchedulerError
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.simulation.simulate import simulate

SCENARIO = Scenario(Platform.desktop_grid(5, 1), Workload.bags(10, seed=2), seed=3)


def test_a_small_run_is_as_computed_by_hand(toy):
    platform = Platform.of([1000.0, 2000.0])
    workload = Workload.of([1.0, 1.0, 2.0], [2, 4, 1], 1000.0, [0, 1, 0], origin=0.0)
    result = simulate(Scenario(platform, workload), toy())
    assert result.applications["first_start"].tolist() == [1.0, 1.0, 3.0]
    assert result.applications["finish"].tolist() == [3.0, 3.0, 4.0]
    assert result.applications["stretch"].tolist() == [0.001, 0.0005, 0.002]
    assert result.applications["stretch_agg"].tolist() == [3.0, 1.5, 6.0]
    assert result.machines["busy"].tolist() == [3.0, 2.0] and result.machines["tasks"].tolist() == [3, 4]
    assert result.machines["utilization"].tolist() == [1.0, 2 / 3]
    assert result.makespan == 3.0 and result.max_stretch == 0.002
    assert len(result.messages) == 0 and result.facts == {"pause": 0.0}
    assert result.scheduler["name"] == "toy"
    assert result.scheduler["parameters"] == {"pause": 0.0, "flaw": ""}


def test_a_run_has_the_applications_of_its_own_scenario(toy):
    """The last workload is cached; the number of tasks depends on the platform, too."""
    scenarios = [
        Scenario(Platform.desktop_grid(nodes, 1), Workload.bags(3, seed=seed))
        for nodes, seed in ((5, 1), (9, 1), (9, 2), (5, 1))
    ]
    tasks = [simulate(scenario, toy()).applications["tasks"].tolist() for scenario in scenarios]
    assert tasks == [item.workload.realize(item.platform).tasks.tolist() for item in scenarios]


def test_provenance_names_versions_and_options_but_no_host(toy):
    import platform

    outcome = simulate(SCENARIO, toy()).provenance
    assert Scenario.from_toml(outcome["scenario"]) == SCENARIO
    assert outcome["numpy"] == np.__version__ and outcome["seed"] == 3 and outcome["files"] == {}
    assert outcome["wall_seconds"] > 0 and outcome["peak_memory"] > 1e6
    assert (
        platform.node() not in str({key: outcome[key] for key in outcome if key != "scenario"})
        or not platform.node()
    )


# MinCent handles failures one by one, WqrFt in blocks
@pytest.mark.parametrize("scheduler", [gs.MinCent(), gs.WqrFt()], ids=str)
def test_a_result_has_the_availability_of_machines(scheduler):
    faults = gs.Faults.of(machine=[1, 2], down=[0.0, 0.0], up=[5.0, float("inf")])
    job = Workload.of([0.0], 1, 10_000.0, 0)
    result = simulate(Scenario(Platform.equal(3), job, faults=faults), scheduler)
    ended = result.provenance["clock_seconds"]
    assert ended >= 10.0
    mean = pytest.approx(1 - (5 + ended) / (3 * ended))
    assert result.provenance["availability"] == {"at_start": 1, "never": 1, "mean": mean}
    assert result.lines()["up"].startswith(
        "1 of 3 machines are up at the start, 1 never in this run; mean availability 0"
    )


def test_the_digest_depends_only_on_the_events_of_the_run(toy):
    digest = simulate(SCENARIO, toy()).digest
    assert simulate(SCENARIO, toy()).digest == digest
    assert simulate(SCENARIO, toy(), cohort_limit=1).digest == digest
    # a network that no message uses has no effect
    same = Scenario(SCENARIO.platform, SCENARIO.workload, Network(latency=1.0, interfaces="equal"), seed=4)
    assert simulate(same, toy()).digest == digest
    assert simulate(SCENARIO, toy(pause=1.0)).digest != digest


def test_a_progress_bar_does_not_change_the_digest(toy, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    digest = simulate(SCENARIO, toy(), progress=True).digest
    assert stream.getvalue() == ""  # stderr is not a terminal
    assert simulate(SCENARIO, toy(), progress="force").digest == digest
    assert "10/10" in stream.getvalue()


@pytest.mark.parametrize(
    ("flaw", "error", "message"),
    [
        ("lost", InvariantViolation, r"application 1: each of its \d+ tasks must be completed once"),
        ("early", InvariantViolation, "application 1: started at -1 ns, before its release"),
        ("reversed", InvariantViolation, "application 1: finished at .* before its start"),
        ("uncounted", InvariantViolation, "machines: completed"),
        ("lazy", InvariantViolation, "machines: worked for 0.0 Mflop"),
        ("overworked", InvariantViolation, "machine 0: busy for"),
        ("silent", SchedulerError, "t = .* s: outcome.machines must have the column 'busy'"),
        ("short", SchedulerError, r"outcome.applications\['finish'\] must be 10 whole numbers"),
        ("clash", SchedulerError, "outcome.tables must not have 'machines'"),
        ("ragged", SchedulerError, r"outcome.tables\['extra'\]: columns must be equally long"),
        ("taken", SchedulerError, "outcome.applications must not have 'size'"),
        ("odd", SchedulerError, "outcome.facts: .* is not a plain value"),
    ],
)
def test_violated_invariants_are_reported(toy, flaw, error, message):
    with pytest.raises(error, match=message):
        simulate(SCENARIO, toy(flaw=flaw))


def test_impossible_runs_are_rejected_without_warnings(toy):
    slow = Scenario(Platform.of([1e-6]), Workload.of([0.0], 1, 1e300))
    with pytest.raises(ScenarioError, match="must let the run end within"):
        simulate(slow, toy())
    far = Scenario(SCENARIO.platform, SCENARIO.workload, Network(latency=1e7))
    with pytest.raises(ScenarioError, match="^network.latency"):
        simulate(far, toy())


def test_impossible_runs_are_rejected(toy):
    for size, message in ((1e-9, "at least 1 ns"), (1e25, "must let the run end within")):
        with pytest.raises(ScenarioError, match=message):
            simulate(Scenario(SCENARIO.platform, Workload.of([0.0], 1, size)), toy())
    with pytest.raises(ScenarioError, match="^workload.tasks of application 0"):
        simulate(Scenario(SCENARIO.platform, Workload.of([0.0], 2**31, 1.0)), toy())
    with pytest.raises(ScenarioError, match="^scheduler"):
        simulate(SCENARIO, toy)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.floats(1.0, 1e4), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5), st.floats(0.1, 1e5)), min_size=1, max_size=6),
)
def test_any_workload_keeps_the_invariants(toy, speeds, rows):
    release, tasks, size = zip(*rows, strict=True)
    scenario = Scenario(Platform.of(speeds), Workload.of(release, tasks, size))
    result = simulate(scenario, toy())
    assert result.machines["tasks"].sum() == sum(tasks)
    assert simulate(scenario, toy(), cohort_limit=1).digest == result.digest


def test_all_public_names_can_be_imported():
    assert set(gridsim.__all__) <= set(dir(gridsim))
    assert gridsim.simulate is simulate and gridsim.Platform is Platform
    assert isinstance(gridsim.__version__, str)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gridsim.nothing  # noqa: B018


class EndlessScheduler(gs.Scheduler, frozen=True, kw_only=True):
    name = "restless-cohorts"

    def start(self, run: Any) -> gs.Policy:
        class EndlessPolicy(gs.Policy):
            def on_release(self, applications: list[int]) -> None:
                run.engine.at(run.engine.now, "again")

            def finish(self) -> Any:
                raise AssertionError

        run.engine.on("again", lambda _: run.engine.at(run.engine.now, "again"), priority=1, phase=TIMER)
        return EndlessPolicy()


def test_a_run_that_never_leaves_an_instant_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not advance, so the run never reaches the time limit."""
    monkeypatch.setattr(engine, "MAX_ROUNDS", 10_000)
    workload = gs.Workload.of([5.0], 1, 1000.0, origin=0.0)
    message = r"t = 5.0 s: the clock has not advanced in \d{5} handler calls, .* the last of kind 'again'"
    with pytest.raises(gs.SchedulerError, match=message):
        gs.simulate(gs.Scenario(gs.Platform.of([1000.0]), workload), EndlessScheduler(), time_limit=10.0)
