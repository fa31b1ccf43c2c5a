"""`Asap(move="forward")`: placed jobs move to earlier starts, as in conservative backfilling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.schedulers.dgs.test_times import run, timed_scenarios


def start_times(result: gs.Result) -> list[float]:
    starts: list[float] = result.applications["first_start"].tolist()
    return starts


@pytest.mark.parametrize(
    ("move", "starts"), [("never", [0.0, 120.0, 180.0]), ("forward", [0.0, 60.0, 120.0])]
)
def test_placed_jobs_move_forward_when_a_job_ends_early(move: Any, starts: list[float]) -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0], [2, 2, 1], [30.0, 50.0, 50.0], requested=[120.0, 60.0, 60.0])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), gs.Asap(move=move), record=True)
    assert start_times(result) == starts and validate_result(result) == []
    assert result.facts.get("moves", 0) == (2 if move == "forward" else 0)


def test_placed_job_moves_forward_when_a_job_is_cancelled() -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0], [2, 2], [90.0, 50.0], cancel_at=[10.0, 1e6])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), gs.Asap(move="forward"), record=True)
    assert result.applications["first_start"][1] == 60.0 and validate_result(result) == []


def test_jobs_change_machines_to_make_room() -> None:
    """Job 2 fits beside job 3 only if job 3 takes the machine of job 1."""
    jobs = gs.Workload.jobs_of(
        [0.0, 2.0, 2.0, 2.0], [1] * 4, [5.0, 5.0, 9.0, 8.0], requested=[14.0, 5.0, 15.0, 18.0]
    )
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs), gs.Asap(slot=1.0, move="forward"))
    assert start_times(result) == [0.0, 2.0, 5.0, 7.0]


@st.composite
def queues(draw: st.DrawFn) -> gs.Scenario:
    """Draw jobs with whole seconds, of which many end at once, and estimates of at least their run times."""
    machines, count = draw(st.integers(1, 6)), draw(st.integers(1, 14))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    times = st.integers(1, 6) | st.sampled_from([10, 20, 60])
    run_times = draw(st.lists(times, **numbers))
    excess = draw(st.lists(st.just(0) | times, **numbers))
    jobs = gs.Workload.jobs_of(
        [float(at) for at in sorted(draw(st.lists(st.integers(0, 60), **numbers)))],
        draw(st.lists(st.integers(1, machines), **numbers)),
        [float(time) for time in run_times],
        requested=[float(a + b) for a, b in zip(run_times, excess, strict=True)],
    )
    return gs.Scenario(gs.Platform.equal(machines), jobs)


@settings(max_examples=50, deadline=None)
@given(queues())
def test_starts_equal_those_of_conservative_backfilling(scenario: gs.Scenario) -> None:
    asap = gs.simulate(scenario, gs.Asap(slot=1.0, move="forward"))
    queue = gs.simulate(scenario, gs.BatchQueue(backfill="conservative"))
    assert start_times(asap) == start_times(queue)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), fails=st.booleans(), slot=st.sampled_from([1.0, 60.0]))
def test_runs_are_valid_and_can_be_resumed(data: st.DataObject, fails: bool, slot: float) -> None:
    scenario = data.draw(timed_scenarios(fails=fails))
    scheduler: Any = gs.Asap(slot=slot, move="forward")
    options: dict[str, Any] = {"record": ("schedule", "decisions")}
    result = run(scenario, scheduler, **options)
    if isinstance(result, str):
        assert fails
        return
    assert validate_result(result) == []
    decisions = result.tables["decisions"]
    moved = decisions["action"] == "moved"
    assert (decisions["saw"][moved] < decisions["limit"][moved]).all()  # jobs move only to earlier starts
    assert resume_difference(scenario, scheduler, result, time_limit=1e5, **options) is None
