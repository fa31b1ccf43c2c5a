"""Decisions recorded by the centralized schedulers of rigid jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference


def decision_rows(result: gs.Result, job: int, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in result.why(job).decisions.rows()]


def test_easy_records_reservations_and_backfilled_jobs() -> None:
    """Five machines: job 0 has three until 100 s by its run time, 300 s by its request; job 1 wants four."""
    jobs = gs.Workload.jobs_of(
        [0.0, 1.0, 2.0, 3.0], [3, 4, 1, 1], [100.0, 50.0, 50.0, 400.0], requested=[300.0, 50.0, 90.0, 400.0]
    )
    scenario = gs.Scenario(gs.Platform.equal(5), jobs, seed=1)
    columns = "time", "action", "among", "saw", "limit", "true"
    result = gs.simulate(scenario, gs.BatchQueue(estimate="requested"), record="decisions")
    assert decision_rows(result, 0, *columns) == [(0.0, "started", 1, 5.0, 3.0, 5.0)]
    reserved, started = decision_rows(result, 1, *columns)
    assert reserved[:4] == (1.0, "reserved", 1, 300.0) and reserved[5] == 100.0
    assert started == (100.0, "started", 1, 4.0, 4.0, 4.0)
    assert decision_rows(result, 2, *columns) == [(2.0, "started-short", 2, 92.0, 300.0, 52.0)]
    # at 300 s the reservation leaves one machine free
    assert decision_rows(result, 3, *columns) == [(3.0, "started-narrow", 2, 1.0, 1.0, 1.0)]
    assert "gave it, now the head of the queue, of 1 job, a reservation" in str(result.why(1))
    result = gs.simulate(scenario, gs.BatchQueue(backfill="none"), record="decisions")
    assert decision_rows(result, 1, *columns) == [
        (1.0, "blocked", 1, 2.0, 4.0, 2.0),
        (100.0, "started", 3, 5.0, 4.0, 5.0),
    ]
    # job 2 waits behind job 1, and job 3 behind both
    assert decision_rows(result, 3, *columns)[0] == (3.0, "queued", 3, 2.0, 1.0, 2.0)
    assert "put it in the queue, now of 3 jobs, behind 2; application 1 was the head" in str(result.why(3))
    result = gs.simulate(scenario, gs.Asap(estimate="run"), record="decisions")
    assert decision_rows(result, 1, "time", "saw", "limit", "true", "among") == [(1.0, 120.0, 60.0, 120.0, 5)]


def scenario(fails: bool) -> gs.Scenario:
    stream = np.random.default_rng(4)
    workload = gs.Workload.jobs_of(
        np.sort(stream.uniform(0, 1800, 80)).round(), stream.integers(1, 21, 80), stream.uniform(60, 900, 80),
        requested=stream.uniform(60, 3000, 80),
    )  # fmt: skip
    faults = gs.Faults.poisson(20_000.0, seed=5) if fails else None
    return gs.Scenario(gs.Platform.equal(40), workload, seed=2, faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "scheduler",
    [
        gs.Asap(),
        gs.BatchQueue(),
        gs.BatchQueue(estimate="run"),
        gs.BatchQueue(backfill="none"),
        gs.Asap(slot=1.0),
    ],
    ids=str,
)
def test_decisions_agree_with_the_schedule(scheduler: gs.Scheduler, fails: bool) -> None:
    setting = scenario(fails)
    plain = gs.simulate(setting, scheduler)
    recorded = gs.simulate(setting, scheduler, record="all")
    assert recorded.digest == plain.digest == gs.simulate(setting, scheduler, record="decisions").digest
    table = recorded.tables["decisions"]
    schedule = recorded.tables["schedule"]
    runs = set(zip(schedule["application"].tolist(), schedule["start"].tolist(), strict=True))
    action = table["action"]
    started = np.isin(action, ["started", "started-short", "started-narrow"]) & (scheduler.name == "backfill")
    if scheduler.name == "backfill":
        decided_runs = zip(
            table["application"][started].tolist(), table["time"][started].tolist(), strict=True
        )
        assert set(decided_runs) == runs and started.sum() == len(runs)
        # the decisions obey the rules of the kernel
        assert (table["saw"] >= table["limit"])[action == "started"].all()
        assert (table["saw"] <= table["limit"])[np.isin(action, ["started-short", "started-narrow"])].all()
        assert (table["saw"] < table["limit"])[action == "blocked"].all()
        reserve = action == "reserved"
        assert (table["true"] > table["time"])[reserve].all()
        # a job may end before its requested time, or outlive it
        wrong = table["saw"] != table["true"]
        assert fails or wrong[reserve].any() == (scheduler == gs.BatchQueue())
        assert (action == "lost").any() == fails
    else:
        placed = action == "placed"
        decided_runs = set(
            zip(table["application"][placed].tolist(), table["saw"][placed].tolist(), strict=True)
        )
        assert decided_runs >= runs and (table["saw"] >= table["limit"])[placed].all()
        assert (action == "extended").any() and (action == "displaced").any()
    limited = gs.simulate(setting, scheduler, record="decisions", decisions_limit=5)
    assert limited.digest == plain.digest and limited.why(0).dropped == len(table) - 5
    if fails:
        assert resume_difference(setting, scheduler, recorded, record="all") is None
