"""Recorded decisions of DGS_ASAP: ages and true values computed by hand, and no effect on runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.support.random_streams import Streams
from gridsim.testing.resuming import resume_difference

EQUAL = gs.Network(latency=0.05, bandwidth=math.inf, interfaces="equal")
IDEAL = gs.Network(latency=0.0, bandwidth=math.inf)
Row = dict[str, Any]


def run_with_decisions(
    workload: gs.Workload, nodes: int, network: gs.Network = EQUAL, **parameters: Any
) -> tuple[gs.Result, list[Row]]:
    """Return the result of a run, and its decisions in order of time."""
    faults = parameters.pop("faults", None)
    scenario = gs.Scenario(gs.Platform.equal(nodes), workload, network, seed=1, faults=faults)
    result = gs.simulate(scenario, gs.DgsAsap(**parameters), record="decisions")
    return result, sorted(result.tables["decisions"].rows(), key=lambda row: row["time"])


def decision_columns(rows: list[Row], action: str, job: int, *names: str) -> list[tuple[Any, ...]]:
    """Return columns of a job's decisions of a kind, rounded to microseconds."""
    selection = [row for row in rows if row["action"] == action and row["application"] == job]
    return [tuple(round(row[name], 6) for name in names) for row in selection]


#: Three machines: neighbour 1 of machine 0 can examine only machine 2, and neighbour 2 only machine 1.
THREE: dict[str, Any] = {"nodes": 3, "forward": 2, "degree": 2, "candidates": "others"}


def test_age_of_an_answer_is_the_delay_of_its_messages() -> None:
    """The machine of the first answer commits to job 0 at 0.15 s; it is free again at 180 s."""
    jobs = gs.Workload.jobs_of([0.0, 0.06, 0.12], 1, 100.0, submitter=[0, 0, 0])
    result, rows = run_with_decisions(jobs, **THREE)
    assert decision_columns(rows, "asked", 0, "time", "decider", "machine", "among") == [
        (0.0, 0, 1, 2),
        (0.0, 0, 2, 2),
    ]
    view = ("time", "decider", "saw", "limit", "true", "age", "among")
    # answers leave a latency after the request, and use schedules that were sent a latency before
    assert decision_columns(rows, "answered", 0, *view) == [
        (0.05, 1, 60.0, 60.0, 60.0, 0.05, 1), (0.05, 2, 60.0, 60.0, 60.0, 0.05, 1)
    ]  # fmt: skip
    assert decision_columns(rows, "chose", 0, "machine", *view) == [(1, 0.1, 0, 60.0, 0.15, 60.0, 0.1, 2)]
    assert decision_columns(rows, "placed", 0, "time", "saw", "true") == [(0.2, 60.0, 60.0)]
    # job 1: at 0.11 s no machine was reserved for job 0; at 0.16 s one is, which the scheduling node cannot
    # know
    assert decision_columns(rows, "answered", 1, "time", "true") == [(0.11, 60.0), (0.11, 60.0)]
    assert decision_columns(rows, "chose", 1, "machine", *view) == [
        (1, 0.16, 0, 60.0, 0.21, 180.0, 0.1, 2), (2, 0.26, 0, 60.0, 0.31, 60.0, 0.2, 1)
    ]  # fmt: skip
    assert decision_columns(rows, "refused", 1, "time", "decider", "machine", "saw", "limit") == [
        (0.21, 2, 0, 60.0, 180.0)
    ]
    assert decision_columns(rows, "released", 1, "tasks", "saw", "limit") == [(0, 0.0, 1.0)]
    # job 2: machine 1 sees machine 2 as of 0.12 s, and its answer at 0.17 s is outdated
    assert decision_columns(rows, "answered", 2, "decider", "saw", "true", "age")[:2] == [
        (1, 60.0, 180.0, 0.05), (2, 60.0, 60.0, 0.05)
    ]  # fmt: skip
    assert decision_columns(rows, "searched-again", 2, "saw", "limit") == [(1.0, 3.0)]
    text = " ".join(str(result.why(1)).split())
    assert "machine 2 refused machine 0: another job had the time" in text
    assert "saw a start at 60 s, threshold 180" in text and "0.1 s old; true value 180" in text


def test_ages_of_pulled_and_polled_schedules_are_recorded() -> None:
    jobs = gs.Workload.jobs_of([500.0], 1, 100.0, submitter=[0], origin=0.0)
    _, rows = run_with_decisions(jobs, policy="pull", **THREE)
    # a pull and its answer take 0.1 s in total, and the answer has the schedule as of the time of the pull
    assert decision_columns(rows, "answered", 0, "time", "age") == [(500.15, 0.1), (500.15, 0.1)]
    _, rows = run_with_decisions(jobs, policy="poll", poll_period=100.0, **THREE)
    polls = Streams(1)("dgs.polls").integers(100 * 10**9, size=3) / 1e9
    # a node polls at multiples of 100 s after its first poll, and what it learns is half a round trip old
    ages = [0.05 + (500.0 - polls[u] - 0.05) % 100.0 for u in (1, 2)]
    assert decision_columns(rows, "answered", 0, "age") == [(pytest.approx(age, abs=1e-6),) for age in ages]


def test_reasons_to_search_further_are_recorded() -> None:
    """A searcher knows at most two machines at first, and the job needs three."""
    jobs = gs.Workload.jobs_of([0.0], 3, 60.0, submitter=[0])
    _, rows = run_with_decisions(jobs, 9, forward=1, degree=2, slot=10.0)
    ((searcher, opened, own, saw, limit, true),) = decision_columns(
        rows, "opened", 0, "decider", "tasks", "among", "saw", "limit", "true"
    )
    assert saw == true == own <= 2 and limit == 3.0 and opened >= 1
    ((answering, reached, start, late),) = decision_columns(
        rows, "answered", 0, "decider", "among", "saw", "time"
    )
    assert answering == searcher and reached >= 3 and start == 10.0
    assert late == pytest.approx(0.05 + 0.1 * opened)


def test_rejections_are_recorded() -> None:
    jobs = gs.Workload.jobs_of([0.0], 60, 60.0)
    result, rows = run_with_decisions(jobs, 200, IDEAL, degree=4, wide="fail")
    reached = int(result.applications["reached"][0])
    assert (
        decision_columns(rows, "gave-up-too-large", 0, "saw", "limit") == [(reached, 60.0)] and reached < 60
    )
    assert max(decision_columns(rows, "unreached", 0, "saw")) == (reached,)
    # three jobs of two tasks on two machines: the third one finds a conflict at each of 2 tries
    jobs = gs.Workload.jobs_of([0.0] * 3, 1, 60.0, submitter=[0] * 3)
    result, rows = run_with_decisions(jobs, **THREE, tries=1)
    assert result.applications["failed"].tolist() == [0, 0, 1]
    assert decision_columns(rows, "gave-up", 2, "saw", "limit") == [(1.0, 1.0)]


def test_decisions_on_failures_are_recorded() -> None:
    jobs = gs.Workload.jobs_of([0.0], 2, 300.0, submitter=[0])
    calm = gs.simulate(
        gs.Scenario(gs.Platform.equal(12), jobs, EQUAL, seed=1), gs.DgsAsap(degree=6), record=True
    )
    had = sorted(calm.tables["schedule"]["machine"].tolist())
    faults = gs.Faults.of([had[0], had[1]], [100.0, 110.0], [math.inf, math.inf])
    _, rows = run_with_decisions(jobs, 12, degree=6, faults=faults, detection=30.0)
    assert decision_columns(rows, "missed", 0, "time", "decider", "tasks", "saw", "true", "age") == [
        (130.0, 0, 2, 1.0, 2.0, 30.0)
    ]
    # the other machine's failure is detected at 140 s; until then it is asked to commit, and does not reply
    assert decision_columns(rows, "overdue", 0, "time", "saw") == [(pytest.approx(250.1, abs=0.2), 1.0)]
    assert decision_columns(rows, "asked", 0, "time")[5:10] == [(130.0,)] * 5


def failing() -> gs.Scenario:
    rng = np.random.default_rng(4)
    workload = gs.Workload.jobs_of(
        np.sort(rng.uniform(0, 1800, 30)).round(),
        rng.integers(1, 9, 30),
        rng.uniform(60, 900, 30),
        origin=0.0,
    )
    return gs.Scenario(gs.Platform.equal(40), workload, seed=2, faults=gs.Faults.poisson(10_000.0, seed=5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        gs.DgsAsap(policy="push", degree=8, slot=5.0),
        gs.DgsAsap(policy="pull", degree=8, overlay="cyclon", cycle=50.0),
        gs.DgsAsap(policy="poll", degree=6, overlay="cyclon", wide="fail", estimate="requested"),
        gs.DgsAsap(policy="pull", degree=2, hops=5),  # searchers that reach themselves continue
    ],
    ids=lambda each: f"{each.policy}-{each.degree}",
)
@pytest.mark.parametrize("fails", [True, False])
def test_recording_decisions_does_not_change_the_result(scheduler: gs.DgsAsap, fails: bool) -> None:
    scenario = failing()
    if not fails:
        scenario = gs.Scenario(scenario.platform, scenario.workload, EQUAL, seed=2)
    plain = gs.simulate(scenario, scheduler)
    noted = gs.simulate(scenario, scheduler, record="decisions")
    by_nodes = gs.simulate(scenario, scheduler, record="decisions", nodes="interpreted")
    assert by_nodes.digest == noted.digest and by_nodes.tables == noted.tables
    cut = gs.simulate(scenario, scheduler, record="decisions", cohort_limit=1)
    assert noted.digest == plain.digest == cut.digest and "decisions" not in plain.tables
    table = noted.tables["decisions"]
    # fresh values are true values, and no answer names a start before the first remaining slot
    fresh = (table["age"] == 0) & ~np.isnan(table["true"])
    assert (table["saw"] == table["true"])[fresh].all()
    answers = table["action"] == "answered"
    for column in ("saw", "true"):
        assert (table[column] >= table["limit"])[answers].all()
    assert (table["true"] >= table["saw"])[table["action"] == "chose"].all()
    other = cut.tables["decisions"]
    for column in ("saw", "true", "age"):
        assert np.array_equal(np.sort(other[column]), np.sort(table[column]), equal_nan=True)
    if not fails:
        among = np.zeros(len(plain.applications), np.int64)
        np.maximum.at(among, table["application"][answers], table["among"][answers])
        assert (among == plain.applications["reached"]).all()
    few = gs.simulate(scenario, scheduler, record="decisions", decisions_limit=5)
    assert few.digest == plain.digest and len(few.tables["decisions"]) == 5
    assert few.why(0).dropped == len(table) - 5
    if fails:
        assert resume_difference(scenario, scheduler, noted, record="decisions") is None
