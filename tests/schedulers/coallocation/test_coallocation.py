"""Zorilla and the metascheduler: cases computed by hand, comparison with EASY, and random runs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.validation.results import validate_result

#: Messages take 1 s, whatever their size.
NETWORK = gs.Network(latency=1.0, bandwidth=math.inf, interfaces="equal")


def case(machines: int, *jobs: tuple[float, int, float, int], **options: Any) -> gs.Scenario:
    """Return a scenario of jobs given as (release, machines, run time, submitter)."""
    release, nodes, run_time, submitter = (list(column) for column in zip(*jobs, strict=True))
    workload = gs.Workload.jobs_of(release, nodes, run_time, submitter=submitter)
    return gs.Scenario(gs.Platform.equal(machines), workload, NETWORK, 1, **options)


def sent(result: gs.Result) -> dict[str, int]:
    """Return the number of sent messages by kind, without zeros."""
    kinds = zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True)
    return {kind: count for kind, count in kinds if count}


# -- Zorilla ----------------------------------------------------------------------------------------------


def test_a_flooded_job_starts_at_the_time_computed_by_hand() -> None:
    """Adverts arrive at 1 s, offers at 2 s, the claim at 3 s and the reply at 4 s; the job starts at 5 s."""
    scenario = case(3, (0.0, 2, 100.0, 0), (10.0, 2, 50.0, 2))
    result = gs.simulate(scenario, gs.Zorilla(degree=2, first=1, lifetime=2.0), record=True)
    jobs = result.applications
    assert jobs["first_start"].tolist()[0] == 5.0 and jobs["finish"].tolist()[0] == 105.0
    table = result.tables["schedule"]
    assert table["machine"].tolist() == [0, 1]  # its own machine, then the first offer; ties by number
    # the second job finds only its own machine, and is rejected instead of being advertised again
    assert jobs["failed"].tolist() == [0, 1] and jobs["floods"].tolist() == [1, 1]
    assert sent(result) == {"advert": 4, "offer": 2, "claim": 1, "reply": 1}
    assert validate_result(result) == []


def test_a_radius_grows_until_it_reaches_enough_machines() -> None:
    """With two neighbours each, one hop reaches 3 machines, and two hops at most 7."""
    scenario = case(12, (0.0, 6, 10.0, 0))
    growing = gs.simulate(scenario, gs.Zorilla(degree=2, first=1)).applications
    assert growing["failed"].tolist() == [0] and 2 <= growing["floods"][0] <= 5
    # max_hops keeps the job from ever finding enough machines, but its run ends at the end of its lifetime
    fixed = gs.simulate(scenario, gs.Zorilla(degree=2, first=1, max_hops=1, lifetime=2000.0)).applications
    assert fixed["failed"].tolist() == [1] and fixed["floods"][0] > 30


def test_competing_jobs_cancel_and_retry() -> None:
    """Both nodes claim all machines at once; no machine runs two jobs, and both jobs are completed."""
    scenario = case(4, (0.0, 4, 10.0, 0), (0.0, 4, 10.0, 1))
    result = gs.simulate(scenario, gs.Zorilla(degree=3), record=True)
    assert result.failed == 0 and result.applications["conflicts"].sum() >= 2
    assert sent(result)["cancel"] >= 2 and validate_result(result) == []


def test_a_job_that_loses_a_machine_starts_again() -> None:
    """Machine 1 fails at 50 s, detected at 110 s; the work of machine 0 until 105 s is wasted."""
    scenario = case(3, (0.0, 2, 100.0, 0), faults=gs.Faults.of([1], [50.0], [60.0]))
    result = gs.simulate(scenario, gs.Zorilla(degree=2, first=1, detection=60.0), record=True)
    assert result.applications["finish"].tolist() == [215.0]
    assert result.applications["resubmitted"].tolist() == [2]
    assert result.machines["busy"].tolist() == [100.0, 145.0, 100.0]
    assert validate_result(result) == []


# -- the metascheduler --------------------------------------------------------------------------------------


def test_a_job_avoids_a_busy_site_only_if_sent_jobs_are_counted() -> None:
    """A job reaches the metascheduler at 1 s and the site at 2 s; claims arrive at 3 s, replies at 4 s."""
    scenario = case(4, (0.0, 2, 100.0, 0), (0.5, 2, 100.0, 0))
    apart = gs.simulate(scenario, gs.Metascheduler(sites=2), record=True)
    assert apart.applications["first_start"].tolist() == [5.0, 5.5]
    assert apart.applications["site"].tolist() == [0, 1]
    behind = gs.simulate(scenario, gs.Metascheduler(sites=2, count_sent=False), record=True)
    assert behind.applications["first_start"].tolist() == [5.0, 109.0]
    assert sent(behind) == {"submit": 2, "dispatch": 2, "claim": 4, "reply": 4, "over": 4}
    assert validate_result(apart) == validate_result(behind) == []


def test_a_report_shows_machines_taken_by_uncounted_jobs() -> None:
    """The answer to the poll at 10 s arrives at 12 s: site 0 has no idle machine."""
    scenario = case(4, (0.0, 2, 100.0, 0), (12.5, 2, 100.0, 0))
    for period, site in ((10.0, 1), (12.0, 0)):
        scheduler = gs.Metascheduler(sites=2, count_sent=False, period=period)
        assert gs.simulate(scenario, scheduler).applications["site"].tolist() == [0, site]


def test_a_job_wider_than_a_site_is_coallocated_or_rejected() -> None:
    scenario = case(4, (0.0, 3, 10.0, 0), (0.0, 2, 10.0, 1))
    result = gs.simulate(scenario, gs.Metascheduler(sites=2), record=True)
    # the machines are set aside at 2 s and claimed at 3 s
    assert result.applications["first_start"].tolist()[0] == 6.0
    assert result.applications["site"].tolist()[0] == -1 and result.failed == 0
    assert validate_result(result) == []
    rejected = gs.simulate(scenario, gs.Metascheduler(sites=2, wide="reject"))
    assert rejected.applications["failed"].tolist() == [1, 0] and rejected.facts["too_large"] == 1


def test_a_job_that_waits_too_long_moves() -> None:
    """The job waits at sites 0, 1, 0 and 1 for 30 s each, 2 s apart, until the last one becomes free."""
    scenario = case(4, (0.0, 2, 100.0, 0), (0.5, 2, 100.0, 0), (1.0, 2, 10.0, 0))
    result = gs.simulate(scenario, gs.Metascheduler(sites=2, suspension=30.0), record=True)
    table = result.applications
    assert (table["moved"][2], table["site"][2], table["first_start"][2]) == (3, 1, 109.5)
    assert validate_result(result) == []


def test_metascheduler_rejects_failures() -> None:
    scenario = case(2, (0.0, 1, 1.0, 0), faults=gs.Faults.of([1], [50.0], [60.0]))
    with pytest.raises(gs.ScenarioError, match="metascheduler does not support failures"):
        gs.simulate(scenario, gs.Metascheduler())


# -- both ---------------------------------------------------------------------------------------------------


@st.composite
def workloads(draw: st.DrawFn) -> tuple[int, gs.Workload]:
    nodes, count = draw(st.integers(1, 12)), draw(st.integers(1, 15))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    run_time = column(st.sampled_from((1.0, 10.0, 30.0, 60.0, 100.0, 600.0)))
    return nodes, gs.Workload.jobs_of(
        sorted(column(st.integers(0, 200))),
        column(st.integers(1, nodes)),
        run_time,
        requested=[2.0 * item for item in run_time] if draw(st.booleans()) else None,
        submitter=[draw(st.integers(0, nodes - 1))] * count,
    )


THREE_END_AT_ONCE = 4, gs.Workload.jobs_of([0.0] * 5, [1, 1, 1, 2, 1], [1.0] * 4 + [10.0], submitter=[0] * 5)


@given(workloads(), st.sampled_from(("easy", "fcfs")), st.sampled_from(("run", "requested")))
@example(THREE_END_AT_ONCE, "easy", "run")
def test_single_site_equals_the_central_queue(
    sample: tuple[int, gs.Workload], queue: Any, estimate: Any
) -> None:
    """If messages take no time, one site starts each job when `BatchQueue` does, on the same machines."""
    nodes, workload = sample
    network = gs.Network(latency=0.0, bandwidth=math.inf)
    scenario = gs.Scenario(gs.Platform.equal(nodes), workload, network, 1)
    one, other = (
        gs.simulate(scenario, scheduler, record=True)
        for scheduler in (
            gs.Metascheduler(sites=1, queue=queue, estimate=estimate),
            gs.BatchQueue(backfill="easy" if queue == "easy" else "none", estimate=estimate),
        )
    )
    assert (one.applications["first_start"] == other.applications["first_start"]).all()
    rows = [
        sorted(zip(*(table[name].tolist() for name in ("machine", "application", "start")), strict=True))
        for table in (one.tables["schedule"], other.tables["schedule"])
    ]
    assert rows[0] == rows[1]


@given(workloads(), st.integers(1, 5), st.sampled_from((0.0, 0.05, 5.0)), st.sampled_from((2000.0, math.inf)))
def test_random_runs_are_valid(
    sample: tuple[int, gs.Workload], number: int, latency: float, bandwidth: float
) -> None:
    """Each job is run once or rejected, and no machine runs two at a time, even if messages queue."""
    nodes, workload = sample
    network = gs.Network(latency=latency, bandwidth=bandwidth)
    scenario = gs.Scenario(gs.Platform.equal(nodes), workload, network, 1)
    for scheduler in (
        gs.Zorilla(degree=number, lifetime=3000.0),
        gs.Metascheduler(sites=number, period=50.0),
    ):
        result = gs.simulate(scenario, scheduler, record=True)
        assert validate_result(result) == []


def test_job_larger_than_the_grid_is_rejected() -> None:
    for scheduler in (gs.Zorilla(), gs.Metascheduler()):
        with pytest.raises(gs.ScenarioError, match=r"workload.nodes\[0\] must be at most 3"):
            gs.simulate(case(3, (0.0, 4, 1.0, 0)), scheduler)
