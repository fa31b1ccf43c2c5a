from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli

DAY = 86_400.0
#: Jobs on two machines: release (days), machines, run time (days).
JOBS = [(0, 2, 1.5), (0, 1, 1.0), (1, 2, 2.0), (2, 1, 1.0), (3, 1, 0.5)]


def jobs_scenario() -> gs.Scenario:
    release, width, run_time = (np.array(column) for column in zip(*JOBS, strict=True))
    workload = gs.Workload.jobs_of(release * DAY, width, run_time * DAY, run_time * DAY, user=np.arange(5))
    return gs.Scenario(gs.Platform.equal(2), workload)


def test_jobs_of_the_first_days_run_but_do_not_count() -> None:
    """FCFS starts the jobs on days 0, 1.5, 2.5, 4.5 and 4.5."""
    whole = gs.simulate(jobs_scenario(), gs.BatchQueue(backfill="none"))
    assert (whole.applications["waiting"] / DAY).tolist() == [0, 1.5, 1.5, 2.5, 1.5]
    later = whole.without_first_days(1)
    assert later.mean_waiting == pytest.approx(5.5 / 3 * DAY)
    assert later.mean_waiting_by_cores == pytest.approx((2 * 1.5 + 2.5 + 1.5) / 4 * DAY)
    assert later.mean_slowdown == pytest.approx((3.5 / 2 + 3.5 + 4) / 3)
    assert (later.digest, later.makespan, later.utilization) == (
        whole.digest, whole.makespan, whole.utilization,
    )  # fmt: skip
    # from day 1 to 3: jobs 0 and 1 run for 1 and 1 machine-days, job 2 for 1
    assert later.offered_utilization == pytest.approx((2 * 0.5 + 1 + 2 * 0.5) / 4)
    assert whole.without_first_days(0).summary() == whole.summary()
    assert later.without_first_days(0).mean_waiting == whole.mean_waiting


@pytest.mark.filterwarnings("ignore:.*rejected")
def test_rejected_jobs_of_the_first_days_do_not_count() -> None:
    """Jobs 0 and 2 are wider than the limit."""
    result = gs.simulate(jobs_scenario(), gs.BatchQueue(user_limit=1))
    assert (result.failed, result.without_first_days(0.5).failed) == (2, 1)
    assert "1 of 3 jobs" in result.without_first_days(0.5).lines()["rejected"]
    queues = {"fcfs": gs.BatchQueue(backfill="none"), "limited": gs.BatchQueue(user_limit=1)}
    for days, jobs in ((0, 3), (1, 2)):  # of jobs 1, 3 and 4
        compared = str(gs.compare(jobs_scenario(), queues, skip_days=days))
        assert f"mean waiting time of the {jobs} jobs that each of these ran: fcfs " in compared


def test_cycles_and_moved_jobs_count_if_their_applications_do() -> None:
    bags = gs.Workload.bags(applications=6, interarrival=DAY, tasks_per_node=2, seed=1)
    scenario = gs.Scenario(
        gs.Platform.equal(4), bags, faults=gs.Faults.exponential(up=300.0, down=10.0, seed=1), seed=1
    )
    result = gs.simulate(scenario, gs.WqrFt())
    later = result.without_first_days(1.5)
    known = result.applications["release"] >= result.applications["release"].min() + 1.5 * DAY
    assert 0 < known.sum() < 6 and later.is_counted.tolist() == known.tolist()
    parts = {name: column[known].sum() for name, column in result.tables["cycles"].items()}
    wasted = parts["redundant"] + parts["lost"] + parts["overhead"]
    assert later.wasted == pytest.approx(wasted / (wasted + parts["useful"]))
    assert later.summary()["resubmitted"] == result.applications["resubmitted"][known].sum() > 0
    moving = gs.simulate(gs.Scenario(gs.Platform.equal(4), bags, seed=1), gs.Rjss(k=1.0))
    jobs = moving.tables["jobs"]
    assert moving.without_first_days(1.5).mean_turnaround == pytest.approx(
        jobs["turnaround"][known[jobs["application"]]].mean()
    )


def test_the_bound_of_later_bags_is_that_of_a_run_without_the_first() -> None:
    """Only one machine has the memory that the first bag needs."""

    def run(first: int) -> gs.Result:
        columns = [0.0, DAY, 2 * DAY], [4, 2, 3], [1e6, 2e6, 3e6]
        workload = gs.Workload.of(*(column[first:] for column in columns), memory=[8e9, 2e9, 2e9][first:])
        platform = gs.Platform.equal(2, speed=1000.0).with_attributes(gs.ListedAttributes(memory=(8e9, 2e9)))
        return gs.simulate(gs.Scenario(platform, workload), gs.Fcfs())

    later, alone = run(0).without_first_days(0.5), run(1)
    assert later.bound().stretch == pytest.approx(alone.bound().stretch) and later.gap() >= 1
    assert later.gap() == pytest.approx(alone.gap())


def test_a_warm_up_may_have_another_unit() -> None:
    result = gs.simulate(jobs_scenario(), gs.BatchQueue())
    assert result.without_first_days("24 h").mean_waiting == result.without_first_days(1).mean_waiting
    compared = gs.compare(jobs_scenario(), ["backfill"], skip_days="12 h")
    assert "without those released in the first 12 h;" in compared.overview().facts["measured"]
    words = "run", "--scheduler", "mincent", "--nodes", "5", "--applications", "3", "--json", "--skip-days"
    answers = [CliRunner().invoke(cli, [*words, days]).stdout for days in ("10 s", f"{10 / 86_400}")]
    values = [json.loads(answer) for answer in answers]
    assert values[0]["counted"] == values[1]["counted"] < 3


@pytest.mark.parametrize("days", [-1, float("nan"), 3.5, "x"])
def test_days_that_leave_no_job_are_rejected_before_a_run(days: Any) -> None:
    match = "^skip_days must be (at most 3, the days from|a finite number >= 0)"
    with pytest.raises(gs.ScenarioError, match=match):
        gs.compare(jobs_scenario(), ["backfill"], skip_days=days)
    with pytest.raises(gs.ScenarioError, match=match):
        gs.replicate(jobs_scenario(), ["backfill"], replicates=2, metrics=None, skip_days=days)
    with pytest.raises(gs.ScenarioError, match=match):
        gs.simulate(jobs_scenario(), gs.BatchQueue()).without_first_days(days)


def test_studies_and_stores_know_which_days_count(tmp_path: Path) -> None:
    queue = {"fcfs": gs.BatchQueue(backfill="none")}
    means = []
    for days in (1, 0, 1):
        found = gs.replicate(
            jobs_scenario(),
            queue,
            replicates=1,
            metrics=["mean_waiting"],
            skip_days=days,
            store=tmp_path / "store",
        )
        means.append(found["mean_waiting"]["fcfs"][0] / DAY)
    assert means == pytest.approx([5.5 / 3, 7 / 5, 5.5 / 3])
    compared = gs.compare(jobs_scenario(), queue, skip_days=1)
    assert compared["fcfs"].mean_waiting == pytest.approx(5.5 / 3 * DAY)
    line = "3 of 5 jobs, without those released in the first day; the run has all of them"
    assert compared.overview().facts["measured"] == line
    swept = gs.sweep(jobs_scenario(), queue, {}, replicates=1, metrics=["mean_waiting"], skip_days=1)
    assert swept.at()["mean_waiting"]["fcfs"][0] == pytest.approx(5.5 / 3 * DAY)


def test_commands_leave_out_the_first_days(tmp_path: Path) -> None:
    def invoke(*arguments: object) -> Any:
        return CliRunner().invoke(cli, [str(argument) for argument in arguments])

    scenario, saved, page = (tmp_path / name for name in ("scenario.toml", "fcfs.npz", "report.html"))
    jobs_scenario().save(scenario)
    run = invoke("run", scenario, "--scheduler", "backfill-fcfs", "--skip-days", 1, "--json", "--out", saved)
    assert json.loads(run.stdout)["mean_waiting"] == pytest.approx(5.5 / 3 * DAY)
    plan = invoke("run", scenario, "--scheduler", "backfill-fcfs", "--skip-days", 1).stdout
    assert (
        plan.index("measured      3 of 5 jobs") < plan.index("scheduler     ") and plan.count("measured") == 1
    )
    assert invoke("report", saved, "--skip-days", 1, "--out", page).exit_code == 0
    assert "3 of 5 jobs, without those released in the first day" in page.read_text()
    late = invoke("run", scenario, "--scheduler", "backfill-fcfs", "--skip-days", 4, "--json")
    assert late.exit_code == 2 and late.stderr.startswith("gridsim: --skip-days must be at most 3, the days")
