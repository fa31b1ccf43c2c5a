"""RJSS and resource exclusion with owner absences: runs computed by hand, and rejected input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.result import Result
from gridsim.scheduling.availability_prediction import MAX_UP_TIMES, add_up_time, predicted_end
from gridsim.support.clock import NEVER
from gridsim.validation.results import validate_result
from tests.schedulers.rjss.test_scheduler import one_second_network, rows, small_scenario, streams

NS = 10**9
#: The owner of the fastest node is back at 3.1 s.
BACK = gs.Faults.of([1], [3.1], [100.0], reachable=True)


def run_recorded(scenario: gs.Scenario, faults: gs.Faults, scheduler: gs.Scheduler) -> Result:
    """Run with all records, and check the result."""
    with_owners = gs.Scenario(
        scenario.platform, scenario.workload, scenario.network, scenario.seed, faults=faults
    )
    result = gs.simulate(with_owners, scheduler, record="all")
    assert validate_result(result) == []
    return result


def stays_of(result: Result) -> list[tuple[Any, ...]]:
    """Return (machine, start, end, completed, Mflop done before) of each run of a job."""
    return [
        (machine, pytest.approx(start), pytest.approx(end), completed, pytest.approx(begin))
        for machine, start, end, completed, begin in sorted(
            rows(result, "schedule", "machine", "start", "end", "completed", "begin"), key=lambda row: row[1]
        )
    ]


# -- what happens to a job when the owner is back -------------------------------------------------------


@pytest.mark.parametrize(
    ("on_return", "last", "back"),
    [
        # the message arrives at home at 4.2 s; the job takes 6.67 s on the third node and 1.1 s each way
        ("restart", (2, 5.3, 5.3 + 1000 / 150, 1, 0.0), 6.4 + 1000 / 150),
        # the job, with 400 Mflop done and a state of 900 bytes, is at home at 5.1 s; there it takes 6 s more,
        # but 2 s + 4 s + 1.1 s on the third node
        ("home", (0, 5.1, 11.1, 1, 400.0), 11.1),
        # the job is at the third node at 5.1 s
        ("migrate", (2, 5.1, 9.1, 1, 400.0), 10.2),
    ],
)
def test_job_leaves_when_the_owner_returns(on_return: Any, last: tuple[Any, ...], back: float) -> None:
    scheduler = gs.Rjss(k=1.0, pick="best", on_return=on_return, state=900)
    result = run_recorded(small_scenario([100.0, 200.0, 150.0]), BACK, scheduler)
    first = (1, 1.1, 3.1, 0, 0.0)
    assert stays_of(result) == [first, last]
    assert result.tables["jobs"]["turnaround"].tolist() == [pytest.approx(back)]
    lost = 400.0 if on_return == "restart" else 0.0
    assert result.tables["cycles"]["lost"].tolist() == [pytest.approx(lost)]
    assert rows(result, "applications", "resubmitted", "migrated", "undisturbed") == [(1, 1, 0)]
    kinds = dict(rows(result, "messages", "kind", "sent"))
    assert kinds["evicted"] == (on_return != "migrate") and kinds["job"] == 1 + (last[0] == 2)


def test_waiting_jobs_leave_when_the_owner_returns() -> None:
    """The second job waits at the fast node; both return home, and run there one after the other."""
    scenario = small_scenario([100.0, 400.0], tasks=2)
    result = run_recorded(scenario, BACK, gs.Rjss(k=1.0, remote_threshold=np.inf, on_return="home"))
    # the first job runs at the fast node from 1.1 s to 3.1 s, which completes 800 Mflop; the second has not
    # begun
    assert stays_of(result) == [(1, 1.1, 3.1, 0, 0.0), (0, 4.2, 6.2, 1, 800.0), (0, 6.2, 16.2, 1, 0.0)]
    assert result.machines["peak_queue"].tolist() == [1, 1]


def test_the_jobs_of_all_cores_leave_when_the_owner_returns() -> None:
    """Two of three jobs run at the fast node, whose two cores complete 400 Mflop of each; one waits."""
    scenario = small_scenario([100.0, 200.0], tasks=3)
    scenario = replace(scenario, platform=gs.Platform.of([100.0, 200.0], cores=[3, 2]))
    scheduler = gs.ResourceExclusion(k=1.0, reading="fastest", on_return="home")
    result = run_recorded(scenario, BACK, scheduler)
    back = 4.2
    assert stays_of(result) == [
        *[(1, 1.1, 3.1, 0, 0.0)] * 2,
        *[(0, back, back + 6.0, 1, 400.0)] * 2,
        (0, back, back + 10.0, 1, 0.0),
    ]
    assert result.machines["peak_queue"].tolist() == [0, 1]
    assert result.machines["busy"].tolist() == [pytest.approx(22.0), pytest.approx(4.0)]


def test_a_job_that_arrives_after_the_owner_goes_back_home() -> None:
    """The owner returns while the job is in transit: the job goes back, and nothing is lost."""
    faults = gs.Faults.of([1], [0.5], [100.0], reachable=True)
    result = run_recorded(small_scenario([100.0, 200.0]), faults, gs.Rjss(k=1.0))
    assert stays_of(result) == [(0, 2.2, 12.2, 1, 0.0)]
    assert result.applications["resubmitted"].tolist() == [0]


@pytest.mark.parametrize(("home", "begins", "machine", "probes"), [(80.0, 61.1, 1, 3), (20.0, 20.0, 0, 2)])
def test_job_without_a_free_node_waits(home: float, begins: float, machine: int, probes: int) -> None:
    """The search is repeated every 30 s, and when the owner of its node leaves."""
    faults = gs.Faults.of([0, 1], [0.0, 0.0], [home, 50.0], reachable=True)
    result = run_recorded(small_scenario([100.0, 200.0]), faults, gs.Rjss(k=1.0, retry=30.0))
    assert rows(result, "jobs", "machine", "probes") == [(machine, probes)]
    assert result.applications["first_start"].tolist() == [pytest.approx(begins)]


def test_failed_search_admits_slow_nodes() -> None:
    faults = gs.Faults.of([0], [0.0], [900.0], reachable=True)
    scheduler = gs.ResourceExclusion(k=1.0, min_speed=1000.0, retry=30.0)
    result = run_recorded(small_scenario([100.0, 200.0]), faults, scheduler)
    assert rows(result, "jobs", "machine", "probes") == [(1, 2)]


def test_a_node_counts_the_way_back_of_jobs_of_others() -> None:
    """At 10 s, with 400 Mflop done, it would be back after 4.1 s, or after 3.7 s from the third node."""
    faults = gs.Faults.of([1, 0, 2], [3.1, 3.0, 0.0], [10.0, 100.0, 9.5], reachable=True)
    result = run_recorded(small_scenario([100.0, 200.0, 400.0]), faults, gs.Rjss(k=1.0, on_return="migrate"))
    assert stays_of(result) == [(1, 1.1, 3.1, 0, 0.0), (2, 11.1, 12.6, 1, 400.0)]
    assert result.tables["jobs"]["turnaround"].tolist() == [pytest.approx(13.7)]


def test_a_job_that_has_found_a_place_admits_no_slow_nodes_any_more() -> None:
    """The job waits until 5 s, runs at home until 8 s, and waits again until the owner leaves at 12 s."""
    faults = gs.Faults.of([0, 0], [0.0, 8.0], [5.0, 12.0], reachable=True)
    result = run_recorded(
        small_scenario([100.0, 50.0]), faults, gs.ResourceExclusion(k=1.0, min_speed=80.0, retry=30.0)
    )
    assert stays_of(result) == [(0, 5.0, 8.0, 0, 0.0), (0, 12.0, 22.0, 1, 0.0)]


# -- predictions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefer", "on_return", "state", "machine"),
    [
        ("stay", "migrate", 0, 2),
        # the job is back after 7.2 s plus a move, which takes 1 s and the time for its state; from the third
        # node it is back after 8.87 s
        ("completion", "migrate", 0, 1),
        ("completion", "migrate", 900, 2),
        # 3.1 s of work are lost
        ("completion", "restart", 0, 2),
    ],
)
def test_exact_predictions_change_the_chosen_node(
    prefer: Any, on_return: Any, state: int, machine: int
) -> None:
    scheduler = gs.Rjss(
        k=1.0, pick="best", predictor="exact", prefer=prefer, on_return=on_return, state=state
    )
    result = run_recorded(small_scenario([100.0, 200.0, 150.0]), BACK, scheduler)
    assert stays_of(result)[0][0] == machine
    assert result.undisturbed == (machine == 2)


def test_the_age_in_a_decision_is_that_of_the_answer_of_the_chosen_node() -> None:
    """Both nodes are asked, for 1 s each; the job goes to the one asked first, then to the one asked last."""
    for speeds, selection, age in (([100.0, 150.0, 200.0], 2, 1.5), ([100.0, 200.0, 150.0], 1, 0.5)):
        result = run_recorded(small_scenario(speeds), BACK, gs.Rjss(k=1.0, pick="best", probe_latency=1.0))
        assert rows(result, "decisions", "machine", "time", "age")[0] == (selection, 2.0, age)


def test_node_predicts_from_its_own_past() -> None:
    """The owner of node 1 was away for 10 s twice, and left at 40 s: a job fits at 42 s, but not at 46 s."""
    faults = gs.Faults.of([1, 1], [10.0, 30.0], [20.0, 40.0], reachable=True)
    machines = [
        int(
            run_recorded(scenario, faults, gs.Rjss(k=1.0, pick="best", predictor="past")).tables["jobs"][
                "machine"
            ][0]
        )
        for scenario in (
            small_scenario([100.0, 200.0, 150.0], release=(instant,)) for instant in (42.0, 46.0)
        )
    ]
    assert machines == [1, 2]


def test_predictors_return_expected_ends() -> None:
    stays: list[int] = []
    for number in range(MAX_UP_TIMES + 2):
        add_up_time(stays, number, number)
    assert sorted(stays) == list(range(2, MAX_UP_TIMES + 2)) and stays[:2] == [MAX_UP_TIMES, MAX_UP_TIMES + 1]
    # the up time of 10 is already exceeded
    assert predicted_end("past", now=120, since=100, up_times=[10, 30, 50]) == 140
    # no recorded up time was as long
    assert predicted_end("past", now=160, since=100, up_times=[10, 30, 50]) == 220
    assert predicted_end("age", now=120, since=100, up_times=[10, 30, 50]) == 140
    assert predicted_end("past", now=0, since=0, up_times=[NEVER] * 3) == NEVER


# -- as without owners ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheduler",
    [
        gs.Rjss(),
        gs.Rjss(k=0.3, pick="best", rule="at-least-one", probe_latency="network"),
        gs.Rjss(k=0.3, probe_latency=2.0),
        gs.ResourceExclusion(k=0.3),
        gs.ResourceExclusion(k=0.3, reading="fastest"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "workload", [{}, {"cores": [1, 2, 3, 2] * 5, "interarrival": 9.0}], ids=["one core", "cores"]
)
def test_absent_owners_do_not_change_the_result(scheduler: gs.Scheduler, workload: dict[str, Any]) -> None:
    """The result is that of the compiled protocol, which has no owners."""
    scenario = streams(20, horizon=200.0, **workload)
    alone = gs.simulate(scenario, scheduler)
    owned = run_recorded(scenario, gs.Faults.of([0], [1e6], [2e6], reachable=True), scheduler)
    assert owned.tables["jobs"] == alone.tables["jobs"]
    for name in ("first_start", "finish", "nodes_used"):
        np.testing.assert_array_equal(owned.applications[name], alone.applications[name])
    sent = dict(rows(alone, "messages", "kind", "sent"))
    assert {kind: n for kind, n in rows(owned, "messages", "kind", "sent") if n} == sent


# -- what is refused, and found -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (gs.Rjss(overlay=3), "rjss.overlay must be None in runs with owner absences, got 3"),
        (gs.Rjss(turnaround="printed"), "turnaround must be 'complete' in runs with owner absences"),
        (gs.ResourceExclusion(k=0.0), "k must be > 0 in runs with owner absences, got 0.0"),
        (gs.NoMigration(), "no-migration does not support faults.reachable"),
        (gs.FairTree(), "fair-tree does not support faults.reachable"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_unsupported_combinations_are_rejected(scheduler: gs.Scheduler, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        run_recorded(small_scenario([100.0, 200.0]), BACK, scheduler)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (2**31 - 1, "^rjss.state must be at most 2147483547 bytes with jobs of up to 100 bytes, got 2"),
        (
            2 * 10**6,
            "^network.bandwidth must transfer each message .*: a job with its state of 2000100 bytes",
        ),
    ],
)
def test_states_that_no_message_can_carry_are_rejected(state: int, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        run_recorded(small_scenario([100.0, 200.0]), BACK, gs.Rjss(k=1.0, on_return="home", state=state))
    run_recorded(
        small_scenario([100.0, 200.0]), BACK, gs.Rjss(k=1.0, on_return="restart", state=state)
    )  # this state is not sent


def test_wave_schedulers_support_the_same_owners() -> None:
    """They treat absences as outages, since they send no messages that could be lost."""
    scenario = small_scenario([100.0, 200.0], one_second_network(), tasks=3)
    down = gs.Faults.of([1], [3.1], [100.0])
    digests = {
        run_recorded(scenario, faults, gs.Wave(mode="migration-immediate")).digest for faults in (BACK, down)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("table", "column", "value", "law"),
    [
        ("jobs", "turnaround", 5.0, "jobs"),
        ("jobs", "machine", 0, "jobs"),
        ("applications", "migrated", 0, "agreement"),
    ],
)
def test_validation_detects_wrong_results(table: str, column: str, value: float, law: str) -> None:
    result = run_recorded(
        small_scenario([100.0, 200.0, 150.0]), BACK, gs.Rjss(k=1.0, pick="best", on_return="migrate")
    )
    columns = dict(result.tables[table].items())
    columns[column] = np.full_like(columns[column], value)
    wrong = Result(
        tables={**result.tables, table: type(result.tables[table])(columns)},
        facts=result.facts,
        scheduler=result.scheduler,
        provenance=result.provenance,
        scenario=result.scenario,
    )
    assert law in {violation.law for violation in validate_result(wrong)}
