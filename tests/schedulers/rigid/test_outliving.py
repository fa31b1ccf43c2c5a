"""Slot schedulers extend the reservation of a job that outlives it, and displace conflicting jobs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.reference.easy import Job, starts

IDEAL = gs.Network(latency=0.0, bandwidth=math.inf)
SLOTS = pytest.mark.parametrize(
    ("scheduler", "form"),
    [(gs.Asap(), None), (gs.DgsAsap(degree=2), "compiled"), (gs.DgsAsap(degree=2), "interpreted")],
    ids=["asap", "compiled", "interpreted"],
)


def run(machines: int, jobs: list[tuple[float, ...]], scheduler: Any, form: Any, **states: Any) -> gs.Result:
    """Run jobs given as (release, machines, run time, requested time), and check the schedule."""
    workload = gs.Workload.jobs_of(*(list(column) for column in zip(*jobs, strict=True)), **states)
    scenario = gs.Scenario(gs.Platform.equal(machines), workload, IDEAL, seed=1)
    result = gs.simulate(scenario, scheduler, record=("schedule", "decisions"), nodes=form)
    assert validate_result(result) == []
    return result


@SLOTS
def test_extended_reservations_displace_jobs(scheduler: gs.Scheduler, form: Any) -> None:
    """Job 0 reserves until 60 s, 120 s and 240 s, and ends at 200 s; job 1 needs one of its machines."""
    result = run(3, [(0.0, 2, 200.0, 60.0), (0.0, 3, 50.0, 60.0), (0.0, 1, 50.0, 60.0)], scheduler, form)
    table = result.applications
    assert table["first_start"].tolist() == [0.0, 240.0, 0.0]
    assert table["finish"].tolist() == [200.0, 290.0, 50.0] and (table["resubmitted"] == 0).all()
    # two machines extend twice; job 1 was to start at 60 s, at 120 s, and at 240 s
    assert (result.facts["extended"], result.facts["displaced"]) == (4, 2)
    moved = result.why(1).decisions
    assert [t for t, action in zip(moved["time"], moved["action"], strict=True) if action == "displaced"] == [
        60.0,
        120.0,
    ]


@SLOTS
def test_job_without_conflict_keeps_its_start(scheduler: gs.Scheduler, form: Any) -> None:
    """Job 0 extends its reservations until 240 s, where those of job 1 begin."""
    jobs = [(0.0, 2, 170.0, 60.0), (0.0, 2, 50.0, 60.0)]
    result = run(2, jobs, scheduler, form, not_before=[0.0, 240.0])
    assert result.applications["first_start"].tolist() == [0.0, 240.0]
    assert (result.facts["extended"], result.facts["displaced"]) == (4, 0)


@SLOTS
def test_displaced_job_is_rejected_if_it_misses_its_deadline(scheduler: gs.Scheduler, form: Any) -> None:
    """Job 1 is rejected, as its new reservation would end too late; job 0 runs beyond its deadline."""
    jobs = [(0.0, 2, 100.0, 60.0), (0.0, 2, 50.0, 60.0)]
    result = run(2, jobs, scheduler, form, deadline=[60.0, 150.0])
    assert result.applications["failed"].tolist() == [0, 1]
    assert result.applications["finish"][0] == 100.0


@SLOTS
def test_cancelled_job_is_not_extended(scheduler: gs.Scheduler, form: Any) -> None:
    result = run(
        2, [(0.0, 2, 500.0, 60.0), (1.0, 2, 50.0, 60.0)], scheduler, form, cancel_at=[100.0, math.inf]
    )
    assert result.applications["first_start"].tolist() == [0.0, 120.0]
    assert result.facts["extended"] == 2 and result.machines["busy"].tolist() == [150.0, 150.0]


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    nodes, count = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    lasts = st.lists(st.sampled_from([1.0, 30.0, 60.0, 100.0, 600.0]), **numbers)
    jobs = gs.Workload.jobs_of(
        sorted(draw(st.lists(st.integers(0, 200), **numbers))),
        draw(st.lists(st.integers(1, nodes), **numbers)),
        draw(lasts),
        requested=draw(lasts),
    )
    faults = gs.Faults.exponential(up=2000.0, down=200.0, seed=draw(st.integers(0, 99)))
    fails = draw(st.booleans())
    return gs.Scenario(gs.Platform.equal(nodes), jobs, IDEAL, seed=1, faults=faults if fails else None)


@given(scenarios(), st.sampled_from([1.0, 60.0]))
def test_schedules_of_asap_are_valid(scenario: gs.Scenario, slot: float) -> None:
    try:
        result = gs.simulate(scenario, gs.Asap(slot=slot), record=True, time_limit=1e5)
    except gs.ScenarioError:
        assert scenario.faults is not None  # some jobs are too long to end between failures
        return
    assert validate_result(result) == [] and result.failed == 0
    assert resume_difference(scenario, gs.Asap(slot=slot), result, record=True, time_limit=1e5) is None


def test_displacements_do_not_depend_on_the_cohort_limit() -> None:
    """A displaced job is not placed where another job is extended at the same instant."""
    workload = gs.Workload.jobs_of([0.0] * 5, [1, 1, 2, 2, 1], [61.0, 130.0, 61.0, 1.0, 61.0], [1.0] * 5)
    scenario = gs.Scenario(gs.Platform.equal(3), workload)
    results = [gs.simulate(scenario, gs.Asap(slot=60.0), cohort_limit=limit) for limit in (None, 1)]
    assert results[0].digest == results[1].digest
    assert [result.facts["displaced"] for result in results] == [3, 3]


MODES = pytest.mark.parametrize("mode", ["easy", "none"])
#: Short and long times, with many coinciding ends.
times = st.integers(1, 6) | st.sampled_from((10, 20, 60, 100))
OUTLIVES = 4, [(0, 3, 100, 10), (1, 4, 10, 10), (2, 1, 5, 5), (20, 1, 5, 5), (21, 1, 60, 60)]


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, list[Job]]:
    machines = draw(st.integers(1, 8))
    job = st.tuples(st.integers(0, 60), st.integers(1, machines), times, times)
    return machines, sorted(draw(st.lists(job, min_size=1, max_size=14)))


def start_times(machines: int, jobs: list[Job], **parameters: Any) -> list[int]:
    release, nodes, run_time, requested = (list(column) for column in zip(*jobs, strict=True))
    workload = gs.Workload.jobs_of(release, nodes, run_time, requested, origin=0.0)
    result = gs.simulate(gs.Scenario(gs.Platform.equal(machines), workload), gs.BatchQueue(**parameters))
    times: list[int] = result.applications["first_start"].astype(int).tolist()
    return times


@MODES
@given(queues())
@example(OUTLIVES)
def test_starts_equal_those_of_the_textbook(mode: Any, queue: tuple[int, list[Job]]) -> None:
    machines, jobs = queue
    assert start_times(machines, jobs, backfill=mode) == starts(machines, jobs, backfill=mode == "easy")
    exact = [(*job[:3], job[2]) for job in jobs]
    known = start_times(machines, jobs, backfill=mode, estimate="run")
    assert known == starts(machines, exact, backfill=mode == "easy")


def test_overdue_job_is_expected_to_end_now() -> None:
    """While it runs the head may start at any time, so no job may overtake the head."""
    machines, jobs = OUTLIVES
    # the third job ends by the estimate of the first; the other jobs would end after now
    assert start_times(machines, jobs) == [0, 100, 2, 110, 110]
    # the true end of the first job is known, and the other jobs end before it
    assert start_times(machines, jobs, estimate="run") == [0, 100, 2, 20, 25]


def test_failure_does_not_let_a_job_overtake_one_that_waits_for_an_overdue_job() -> None:
    """Job 0 outlives its estimate when an idle machine fails, and jobs 1 and 2 get new reservations."""
    jobs = gs.Workload.jobs_of([0, 1, 2], [2, 4, 4], [10, 10, 60], [2, 10, 60])
    scenario = gs.Scenario(gs.Platform.equal(5), jobs, faults=gs.Faults.of([4], [5.0], [math.inf]))
    result = gs.simulate(scenario, gs.BatchQueue(backfill="conservative"))
    assert result.applications["first_start"].tolist() == [0.0, 10.0, 20.0]
