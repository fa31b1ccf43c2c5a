"""Stated starts, deadlines and cancellations in DGS_ASAP, DGS_ACAP and ASAP."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.results.diff import first_difference
from gridsim.results.table import Table
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.schedulers.dgs.test_node import run, scenarios, schedulers

FORMS: tuple[Any, ...] = ("interpreted", "compiled")
IDEAL = gs.Network(latency=0.0, bandwidth=math.inf)


@st.composite
def timed_scenarios(draw: st.DrawFn, *, fails: bool) -> gs.Scenario:
    """Draw scenarios whose jobs state times, at which other events may happen, too."""
    actual = draw(scenarios(fails=fails))
    recipe: Any = actual.workload.recipe
    later = st.sampled_from([1.0, 30.0, 60.0, 61.0, 100.0, 400.0])

    def column(of: st.SearchStrategy[float]) -> tuple[float, ...]:
        return tuple(release + draw(of) for release in recipe.release)

    changed = msgspec.structs.replace(
        recipe,
        not_before=column(st.just(0.0) | later),
        deadline=column(st.just(math.inf) | later | st.just(1500.0)),
        cancel_at=column(st.just(math.inf) | later),
    )
    return dataclasses.replace(actual, workload=gs.Workload(changed))


@given(data=st.data(), fails=st.sampled_from([False, False, True]), scheduler=schedulers())
def test_both_forms_of_nodes_have_equal_and_valid_runs(
    data: st.DataObject, fails: bool, scheduler: gs.DgsAsap
) -> None:
    scenario = data.draw(timed_scenarios(fails=fails))
    one, other = (run(scenario, scheduler, record=("schedule", "decisions"), nodes=form) for form in FORMS)
    if isinstance(one, str) or isinstance(other, str):
        assert one == other and fails
        return
    assert one.digest == other.digest, first_difference(one, other)
    assert one.tables == other.tables and one.facts == other.facts
    assert validate_result(one) == []


@pytest.mark.parametrize("cancel_at", [2.0, 2.5])
def test_cancellation_at_the_last_event_is_sent(cancel_at: float) -> None:
    """One cancellation is at 2 s, in the wave in which the other job ends the run."""
    jobs = gs.Workload.jobs_of([0.0, 0.0], [1, 1], [30.0, 1.0], cancel_at=[cancel_at, math.inf])
    scenario = gs.Scenario(gs.Platform.equal(7), jobs, gs.Network(latency=0.0, bandwidth=1e6))
    one, other = (gs.simulate(scenario, gs.DgsAsap(slot=1.0), nodes=form) for form in FORMS)
    for result in one, other:
        assert result.applications["finish"][1] == 2.0 and result.applications["cancelled"].tolist() == [1, 0]
        assert result.messages["sent"][result.messages["kind"].tolist().index("cancel")] == 1
    assert one.digest == other.digest, first_difference(one, other)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), fails=st.booleans())
def test_asap_runs_with_stated_times_are_valid(data: st.DataObject, fails: bool) -> None:
    result = run(data.draw(timed_scenarios(fails=fails)), gs.Asap(slot=10.0), record=True)  # type: ignore[arg-type]
    assert isinstance(result, str) or validate_result(result) == []


def workload(**times: Any) -> gs.Workload:
    """Return two jobs of 100 s on both machines, and one on one machine."""
    return gs.Workload.jobs_of([0.0, 10.0, 20.0], [2, 2, 1], [100.0, 100.0, 50.0], **times)


def starts(result: gs.Result) -> list[float]:
    return [
        None if math.isnan(instant) else instant for instant in result.applications["first_start"].tolist()
    ]


SCHEDULERS: dict[str, tuple[gs.Scheduler, dict[str, Any]]] = {
    "asap": (gs.Asap(slot=10.0), {}),
    "interpreted": (gs.DgsAsap(slot=10.0), {"nodes": "interpreted"}),
    "compiled": (gs.DgsAsap(slot=10.0), {"nodes": "compiled"}),
    "close": (gs.DgsAcap(slot=10.0, tolerance=1000.0), {}),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize(
    ("times", "begin", "failed", "cancelled"),
    [
        ({"not_before": [0.0, 0.0, 300.0]}, [0.0, 100.0, 300.0], [0, 0, 0], None),
        # the gap of 100 s before the reservation of the first job is used
        ({"not_before": [110.0, 0.0, 0.0]}, [110.0, 10.0, 210.0], [0, 0, 0], None),
        ({"deadline": [math.inf, 199.0, 250.0]}, [0.0, None, 100.0], [0, 1, 0], None),
        ({"deadline": [99.0, 200.0, 250.0]}, [None, 10.0, 110.0], [1, 0, 0], None),
        # the second job is cancelled before it starts, so the next job uses its slots
        ({"cancel_at": [math.inf, 15.0, math.inf]}, [0.0, None, 100.0], [0, 0, 0], [0, 1, 0]),
        ({"cancel_at": [15.0, math.inf, math.inf]}, [0.0, 100.0, 20.0], [0, 0, 0], [1, 0, 0]),
        # a job that has ended at the time of its cancellation is not cancelled
        ({"cancel_at": [100.0, math.inf, math.inf]}, [0.0, 100.0, 200.0], [0, 0, 0], [0, 0, 0]),
    ],
)
def test_jobs_start_fail_or_are_cancelled_at_the_stated_times(
    name: str, times: Any, begin: list[float], failed: list[int], cancelled: list[int] | None
) -> None:
    own = gs.ListedAttributes(x=(0.0, 1.0), y=(0.0, 0.0))
    scheduler, options = SCHEDULERS[name]
    scenario = gs.Scenario(gs.Platform.equal(2, attributes=own), workload(**times), IDEAL)
    result = gs.simulate(scenario, scheduler, record=True, **options)
    assert starts(result) == begin
    assert result.applications["failed"].tolist() == failed
    assert ("cancelled" in result.applications) == (cancelled is not None)
    if cancelled is not None:
        assert result.applications["cancelled"].tolist() == cancelled
        assert len(result.tables["freed"]) == 2 * sum(cancelled)
    assert validate_result(result) == []


@pytest.mark.parametrize("fails", [False, True])
def test_resumed_run_equals_the_whole_run(fails: bool) -> None:
    faults = gs.Faults.exponential(up=3000.0, down=200.0, seed=1) if fails else None
    jobs = gs.Workload.jobs_of(
        [0.0, 1.0, 2.0, 2.0, 50.0, 400.0],
        [3, 5, 4, 8, 1, 6],
        [100.0, 300.0, 60.0, 30.0, 200.0, 90.0],
        not_before=[0.0, 400.0, 0.0, 0.0, 90.0, 0.0],
        deadline=[math.inf, math.inf, 200.0, 90.0, math.inf, 900.0],
        cancel_at=[60.0, 390.0, math.inf, math.inf, 95.0, math.inf],
    )
    network = gs.Network(latency=0.5, jitter=0.1)
    scenario = gs.Scenario(gs.Platform.equal(12), jobs, network, seed=2, faults=faults)
    scheduler = gs.DgsAsap(degree=3, slot=10.0)
    for form in FORMS:
        options: dict[str, Any] = {"record": ("schedule", "decisions"), "nodes": form}
        result = gs.simulate(scenario, scheduler, **options)
        assert resume_difference(scenario, scheduler, result, **options) is None


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "message"),
    [
        ("applications", "first_start", 2, 250.0, "not before: applications.first_start[2]"),
        ("applications", "finish", 1, 900.0, "deadline: applications.finish[1]"),
        ("applications", "cancelled", 1, 1, "cancelled: applications.cancelled[1]"),
        ("freed", "start", 0, 1.0, "cancelled: freed[0]"),
        ("schedule", "end", 0, 99.0, "cancelled: schedule[0]"),
    ],
)
def test_validation_detects_violated_times(
    table: str, column: str, row: int, value: float, message: str
) -> None:
    jobs = workload(
        not_before=[0.0, 0.0, 300.0],
        deadline=[math.inf, 250.0, math.inf],
        cancel_at=[15.0, math.inf, math.inf],
    )
    result = gs.simulate(gs.Scenario(gs.Platform.equal(2), jobs, IDEAL), gs.DgsAsap(slot=10.0), record=True)
    assert validate_result(result) == []
    columns = {name: result.tables[table][name].copy() for name in result.tables[table]}
    columns[column][row] = value
    changed = gs.Result(
        tables={**result.tables, table: Table(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
    )
    violations = [f"{item.law}: {item.where}" for item in validate_result(changed)]
    assert message in violations


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"not_before": -1.0}, "workload.not_before[0] must be a number in 0..4e+09 s, got -1.0"),
        ({"deadline": 0.0}, "workload.deadline[0] must be a number > 0 s, got 0.0"),
        ({"deadline": 1e10}, "workload.deadline[0] must be at most 4e+09 s, or inf, got 10000000000.0"),
        (
            {"cancel_at": [1.0, 10.0, 30.0]},
            "workload.cancel_at[1] must be after workload.release[1], 10.0 s, got 10.0",
        ),
        ({"deadline": [1.0, 5.0, 30.0]}, "workload.deadline[1] must be after workload.release[1], 10.0 s"),
        ({"deadline": [1.0]}, "workload.deadline must have 3 entries, as workload.release has, got 1"),
    ],
)
def test_invalid_times_are_rejected(times: Any, message: str) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        workload(**times)
    assert str(excinfo.value).startswith(message)


@pytest.mark.parametrize("name", ["backfill", "zorilla", "metascheduler"])
def test_schedulers_without_support_reject_times(name: str) -> None:
    with pytest.raises(ScenarioError) as excinfo:
        gs.simulate(gs.Scenario(gs.Platform.equal(2), workload(deadline=500.0)), name)
    assert str(excinfo.value).startswith(f"{name} does not support workload.deadline")


def test_starts_beyond_the_clock_are_rejected() -> None:
    with pytest.raises(
        ScenarioError, match="^workload.not_before must let the run end within .* got at least 3e.09 s"
    ):
        gs.simulate(gs.Scenario(gs.Platform.equal(2), workload(not_before=3e9)), gs.DgsAsap())


def test_times_are_saved_with_the_scenario() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), workload(deadline=[100.0, math.inf, 25.0], cancel_at=500.0))
    copy = gs.Scenario.from_text(scenario.to_toml())
    assert copy == scenario
    jobs = copy.workload.realize(copy.platform)
    assert jobs.not_before is None and np.isinf(jobs.deadline[1])  # type: ignore[index]
