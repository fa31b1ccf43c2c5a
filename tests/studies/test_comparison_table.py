"""The table of a comparison: its cells agree with the values of its rows."""

from __future__ import annotations

import pytest

import gridsim as gs
from gridsim.studies.compare import compare, default_baseline
from gridsim.studies.comparison_table import comparison_table, rows_of
from gridsim.studies.verdicts import by_cores
from tests.reference.easy import starts


def test_shares_are_in_per_cent() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], 1, 1000.0))
    results = {"a": gs.simulate(scenario, gs.Fcfs())}
    (row,) = rows_of(results, "a", "fluid")
    row |= {"utilization": 0.5, "wasted": 0.25, "mean_completion": 1.0}
    row |= {"migrated": 0.5, "mean_turnaround": 1.0}
    table = comparison_table(results, [row], "a", "fluid", verbose=True)
    cells = {title: (unit, cell) for (title, unit), cell in zip(table.head, table.rows[0], strict=True)}
    assert cells["busy"] == ("%", "50.0") and cells["wasted"] == ("%", "25")
    assert cells["migrated"] == ("%", "50")


def test_mean_waits_weighted_by_cores_may_rank_schedulers_differently() -> None:
    """With EASY, a job that exceeds its estimate delays the wide job, and narrow jobs do not wait."""
    jobs = [(0, 3, 100, 100), (1, 6, 50, 50), (2, 1, 300, 60), *((3 + k, 1, 20, 20) for k in range(6))]
    columns = [list(column) for column in zip(*jobs, strict=True)]
    given = gs.Scenario(gs.Platform.equal(6), gs.Workload.jobs_of(*columns))
    found = compare(given, ["backfill-fcfs", "backfill"])
    by_jobs, cores = {}, {}
    for row in found.table():
        at = starts(6, jobs, backfill=row["name"] == "backfill")
        waits = [start - job[0] for start, job in zip(at, jobs, strict=True)]
        wide = sum(wait * job[1] for wait, job in zip(waits, jobs, strict=True)) / sum(columns[1])
        by_jobs[row["name"]], cores[row["name"]] = sum(waits) / len(jobs), wide
        assert row["mean_waiting"] == pytest.approx(sum(waits) / len(jobs))
        assert row["mean_waiting_by_cores"] == pytest.approx(wide)
    assert by_jobs["backfill"] < by_jobs["backfill-fcfs"] and cores["backfill"] > cores["backfill-fcfs"]
    text = " ".join(found.format().split())
    assert "In this run, backfill has the lowest mean waiting time" in text
    assert "Weighted by cores the order differs: backfill-fcfs has the lowest mean waiting time" in text
    assert by_cores(by_jobs, by_jobs) == "" == by_cores({"a": 1.0}, {"a": 2.0})


def test_the_baseline_of_rigid_jobs_is_easy() -> None:
    rigid = {"asap": gs.Asap(), "queue": gs.Backfill(mode="fcfs"), "easy": gs.Backfill(), "dgs": gs.DgsAsap()}
    assert default_baseline(rigid) == "easy"
    del rigid["easy"]
    assert default_baseline(rigid) == "asap"
