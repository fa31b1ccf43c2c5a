"""Jobs of a log that are released after their preceding jobs, or after those of their users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.results.formats import job_logs
from gridsim.traces.conversion import convert
from gridsim.validation.results import validate_result

PLATFORM = gs.Platform.equal(8)


def write(path: Path, *rows: tuple[float, ...]) -> str:
    """Write jobs (number, submission, wait, run time, user, preceding job, think time) of one processor."""
    lines = [
        f"{job} {submit} {wait} {run} 1 -1 -1 1 {run} -1 1 {user} -1 -1 -1 -1 {preceding} {think}"
        for job, submit, wait, run, user, preceding, think in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def applications_of(log: str, after: Any) -> Any:
    return gs.Workload.jobs_from_log(log, after=after).realize(PLATFORM)


def test_preceding_jobs_of_a_log(tmp_path: Path) -> None:
    """Without a think time, the submission is the earliest release."""
    log = write(
        tmp_path / "a.swf",
        (1, 0, 0, 100, 1, -1, -1),
        (2, 120, 5, 10, 1, 1, 7),
        (3, 130, 0, 10, 2, 1, -1),
        (4, 140, 0, 10, 2, 9, -1),
    )
    with pytest.warns(gs.TraceWarning, match="1 job.* preceding job .*submitted later"):
        jobs = applications_of(log, "preceding")
    assert jobs.predecessor_offsets.tolist() == [0, 0, 1, 2, 2]
    assert jobs.predecessors.tolist() == [0, 0]
    assert jobs.think_time.tolist() == [0.0, 7.0, 0.0, 0.0]
    assert jobs.stated_release.tolist() == [0.0, 107.0, 130.0, 140.0]
    scenario = gs.Scenario(PLATFORM, gs.Workload.jobs_from_log(log, after="preceding"))
    with pytest.warns(gs.TraceWarning):
        result = gs.simulate(scenario, "backfill")
    assert result.applications["release"].tolist() == [0.0, 107.0, 130.0, 140.0]


def test_preceding_jobs_have_no_effect_by_default(tmp_path: Path) -> None:
    log = write(tmp_path / "a.swf", (1, 0, 0, 100, 1, -1, -1), (2, 50, 0, 10, 1, 1, 7))
    with pytest.warns(gs.TraceWarning, match="preceding job, which is not used"):
        assert applications_of(log, "none").predecessors is None


def test_users_wait_for_their_previous_jobs(tmp_path: Path) -> None:
    """Job 3 was submitted while job 2 of its user ran, so it is submitted at the same time again."""
    log = write(
        tmp_path / "a.swf",
        (1, 0, 10, 100, 1, -1, -1),
        (2, 130, 0, 50, 1, -1, -1),
        (3, 150, 0, 50, 1, -1, -1),
        (4, 160, 0, 10, 2, -1, -1),
        (5, 200, 0, 10, 1, -1, -1),
    )
    jobs = applications_of(log, "user")
    assert jobs.predecessors.tolist() == [0, 2]
    assert jobs.predecessor_offsets.tolist() == [0, 0, 1, 1, 1, 2]
    assert jobs.think_time.tolist() == [0.0, 20.0, 0.0, 0.0, 0.0]
    assert jobs.stated_release.tolist() == [0.0, 120.0, 150.0, 160.0, 200.0]


@pytest.mark.parametrize("scheduler", ["backfill", "backfill-conservative", "backfill-sjf", "dgs-asap"])
def test_a_log_of_gridsim_comes_back_in_a_closed_loop(scheduler: str, tmp_path: Path) -> None:
    rng, count = np.random.default_rng(5), 150
    workload = gs.Workload.jobs_of(
        np.sort(rng.integers(0, 60_000, count)).astype(float),
        rng.integers(1, 6, count),
        rng.integers(1, 2000, count).astype(float),
        rng.integers(100, 3000, count).astype(float),
        submitter=0,
        user=rng.integers(0, 20, count),
    )
    first = gs.simulate(gs.Scenario(PLATFORM, workload), scheduler)
    log = str(tmp_path / "run.swf")
    job_logs.to_swf(first, log)
    loop = gs.Workload.jobs_from_log(log, after="user")
    second = gs.simulate(gs.Scenario(PLATFORM, loop), scheduler)
    assert (second.applications["predecessors"] > 0).sum() > count / 4
    if scheduler == "dgs-asap":  # jobs are submitted at other machines
        assert validate_result(second) == []
        return
    start = first.applications["first_start"] - first.applications["release"][0]
    assert second.applications["first_start"] == pytest.approx(start, abs=1.0)
    # the log of the replay states the preceding jobs
    job_logs.to_swf(second, log)
    third = gs.simulate(gs.Scenario(PLATFORM, gs.Workload.jobs_from_log(log, after="preceding")), scheduler)
    assert third.applications["first_start"] == pytest.approx(start, abs=1.0)


@pytest.mark.parametrize(("backfill", "cores"), [("easy", None), ("easy", 4), ("conservative", None)])
def test_a_log_of_a_closed_loop_comes_back_to_the_second(
    backfill: Any, cores: int | None, tmp_path: Path
) -> None:
    """The numbers of the log are those of the stated releases, which differ from the order of releases."""
    rng, count = np.random.default_rng(8), 200
    workload = gs.Workload.jobs_of(
        np.append(0.0, np.sort(rng.integers(0, 4000, count - 1))),
        rng.choice([1, 1, 2, 3, 6], count),
        rng.choice([60.0, 100.0, 300.0], count),
        rng.choice([300.0, 600.0], count),
        tasks_per_machine=0,
        user=0,
        after=[[] if i < 5 or i % 3 == 0 else [int(rng.integers(i - 5, i))] for i in range(count)],
        think_time=rng.integers(0, 200, count).astype(float),
        origin=0.0,
    )
    platform = gs.Platform.equal(8) if cores is None else gs.Platform.equal(2, cores=cores)
    schedulers: list[gs.Scheduler] = [gs.Asap(move="forward")]
    for order in get_args(get_type_hints(gs.BatchQueue)["order"]):
        for estimate in ("requested", "predicted"):
            schedulers.append(gs.BatchQueue(backfill=backfill, order=order, estimate=estimate))
    for scheduler in schedulers:
        result = gs.simulate(gs.Scenario(platform, workload), scheduler)
        log = str(tmp_path / "run.swf")
        job_logs.to_swf(result, log)
        loop = gs.Workload.jobs_from_log(log, after="preceding")
        replay = gs.simulate(gs.Scenario(platform, loop), scheduler)
        job = replay.jobs_of_log - 1
        assert np.array_equal(replay.applications["first_start"], result.applications["first_start"][job])


def test_a_faster_grid_lets_users_submit_earlier(tmp_path: Path) -> None:
    log = write(tmp_path / "a.swf", (1, 0, 500, 100, 1, -1, -1), (2, 700, 0, 10, 1, -1, -1))
    result = gs.simulate(gs.Scenario(PLATFORM, gs.Workload.jobs_from_log(log, after="user")), "backfill")
    assert result.applications["release"].tolist() == [0.0, 200.0]


def test_tasks_of_workflows_follow_all_their_dependencies(tmp_path: Path) -> None:
    """Jobs 5 and 6 wait for each other, and job 4 for a job that is submitted later."""
    log = tmp_path / "wf.gwf"
    head = "WorkflowID,JobID,SubmitTime,RunTime,NProcs,ReqNProcs,Dependencies"
    rows = ["0,3,0,10,1,1,1 2", "0,1,0,50,1,1,", "0,2,0,80,1,1,", "0,4,6,10,1,1,3 7"]
    rows += ["0,5,7,10,1,1,6", "0,6,7,10,1,1,5", "0,7,8,10,1,1,"]
    log.write_text("\n".join([head, *rows]) + "\n")
    with pytest.warns(gs.TraceWarning) as caught:
        jobs = applications_of(str(log), "preceding")
    text = "wf.gwf:5: 3 jobs with a preceding job that is not in the workload or submitted later"
    assert any(text in str(warning.message) for warning in caught)
    assert jobs.predecessors.tolist() == [1, 2, 0]
    assert jobs.predecessor_offsets.tolist() == [0, 2, 2, 2, 3, 3, 3, 3]
    dropped = convert(str(log), str(tmp_path / "wf.swf"))["dropped"]
    text = "preceding jobs besides the first of a job, which gridsim uses if it reads wf.gwf itself"
    assert dropped == {text: 2}


def test_jobs_of_workflows_in_plain_gwf_follow_those_of_field_20(tmp_path: Path) -> None:
    """Numbers of bags are no jobs, and structures that are not read are counted at their first line."""
    structures = ["DAG -1", "dag 1", "DAG 1,2", "BoT 1", "UNITARY 1", "DAG a1", "Petri 1", "1 1", "DAG"]
    rows = [f"{i} {i} 0 10 1 -1 -1 1 -1 -1 1 U1 G1 X1 Q1 P1 S S {s}" for i, s in enumerate(structures, 1)]
    log = tmp_path / "a.gwf"
    log.write_text("# Site: x\nJobID SubmitTime\n" + "\n".join(rows) + "\n")
    with pytest.warns(gs.TraceWarning) as caught:
        jobs = applications_of(str(log), "preceding")
    texts = [str(warning.message) for warning in caught]
    assert any(
        "a.gwf:8: 1 jobs of workflows that list no numbers of jobs in field 20" in text for text in texts
    )
    assert any("1 jobs of an unknown structure" in text for text in texts)
    assert jobs.predecessors.tolist() == [0, 0, 1]
    assert jobs.predecessor_offsets.tolist() == [0, 0, 1, 3, *[3] * 6]


def test_arrays_with_a_limit_run_as_many_tasks_at_once(tmp_path: Path) -> None:
    """The line of the pending tasks states the limit; the array without one follows nothing."""
    day = "2024-05-01T"
    tasks = [("12_3", 90), ("12_1", 60), ("12_10", 30), ("12_2", 60), ("13_1", 5), ("13_2", 5)]
    lines = [f"{job}|COMPLETED|{day}08:00:00|{day}08:00:00|{run}|1" for job, run in tasks]
    lines.append(f"12_[11-20%2]|PENDING|{day}08:00:00|Unknown|0|1")
    log = tmp_path / "jobs.txt"
    log.write_text("\n".join(["JobID|State|Submit|Start|ElapsedRaw|NCPUS", *lines]) + "\n")
    with pytest.warns(gs.TraceWarning):
        scenario = gs.Scenario(PLATFORM, gs.Workload.jobs_from_log(str(log), after="preceding"))
        result = gs.simulate(scenario, "backfill")
    # jobs of equal submissions are in the order of their numbers, in which tasks are in order
    assert result.applications["first_start"].tolist() == [0.0, 0.0, 60.0, 60.0, 0.0, 0.0]


@pytest.mark.parametrize("statement", ["line", "command"])
def test_a_limited_array_is_repeated_to_the_second(tmp_path: Path, statement: str) -> None:
    """The place of a short task is free before that of a longer one that began earlier."""
    day, runs, start = "2024-05-01T", [100, 10, 20, 30, 40], [0, 0, 10, 30, 60]
    times = [f"{day}08:{t // 60:02}:{t % 60:02}" for t in start]
    command = "sbatch --array=1-5%2 a.sh" if statement == "command" else ""
    lines = [f"12_{k}|COMPLETED|{day}08:00:00|{times[k - 1]}|{runs[k - 1]}|1|{command}" for k in range(1, 6)]
    if statement == "line":
        lines.append(f"12_[6-9%2]|PENDING|{day}08:00:00|Unknown|0|1|")
    log = tmp_path / "jobs.txt"
    log.write_text("\n".join(["JobID|State|Submit|Start|ElapsedRaw|NCPUS|SubmitLine", *lines]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.TraceWarning)
        workload = gs.Workload.jobs_from_log(str(log), after="preceding")
        result = gs.simulate(gs.Scenario(PLATFORM, workload), "backfill")
    assert result.applications["first_start"].tolist() == start


def test_dependencies_are_those_of_the_commands(tmp_path: Path) -> None:
    day = "2024-05-01T08:00:"
    rows = [  # job, name, options of the command, preceding jobs by their places in this list
        ("100", "a", "", []),
        ("101", "b", "-d afterok:100", [0]),
        ("110_1", "c", "--array=1-2 --dependency=afterany:100:101,afternotok:100", [0, 1]),
        ("110_2", "c", "--array=1-2 --dependency=afterany:100:101,afternotok:100", [0, 1]),
        ("120_1", "d", "--dep aftercorr:110", [2]),
        ("120_2", "d", "--dep aftercorr:110", [3]),
        ("130", "e", "-dafterany:110", [2, 3]),
        ("131", "e", "-d afterany:110_*:101", [1, 2, 3]),
        ("132", "a", "--dependency=singleton", [0]),
        ("133", "a", "--dependency=singleton,afterok:110_2", [3, 8]),
        ("134", "e", "--wrap x | y -d afterok:100 | z", [0]),
        ("135", "e", "-d after:100", []),  # the start of another job
        ("136", "e", "-d afterok:100?afterok:101", []),  # one of two
        ("137", "e", "-d afterok:999", []),  # not in the log
        ("138", "e", "-d debug job.sh afterok:100", []),
    ]
    lines = [
        f"{k + 100}|{job}|{name}|u|COMPLETED|{day}{k:02}|{day}{k:02}|9|1|sbatch {options}"
        for k, (job, name, options, _) in enumerate(rows)
    ]
    log = tmp_path / "jobs.txt"
    head = "JobIDRaw|JobID|JobName|User|State|Submit|Start|ElapsedRaw|NCPUS|SubmitLine"
    log.write_text("\n".join([head, *lines]) + "\n")
    with pytest.warns(gs.TraceWarning) as caught:
        jobs = applications_of(str(log), "preceding")
    texts = [str(warning.message) for warning in caught]
    assert any("2 jobs whose dependency is not on the ends" in text for text in texts)
    assert any("1 jobs with a preceding job that is not in the workload" in text for text in texts)
    assert not any("SubmitLine" in text for text in texts)
    offsets = jobs.predecessor_offsets
    found = [sorted(jobs.predecessors[i:j].tolist()) for i, j in zip(offsets, offsets[1:], strict=False)]
    assert found == [before for *_, before in rows]


def test_users_of_several_logs_wait_for_their_jobs(tmp_path: Path) -> None:
    """The predecessors are those of each log, also if the second log begins before the first."""
    rows = (1, 0, 10, 100, 1, -1, -1), (2, 130, 0, 50, 1, -1, -1)
    logs = [write(tmp_path / "a.swf", *rows), write(tmp_path / "b.swf", rows[0], (2, 120, 0, 50, 1, -1, -1))]
    workload = gs.Workload.jobs_from_logs(logs, after="user")
    jobs = workload.realize(gs.Platform.sites([4, 4]))
    assert jobs.site.tolist() == [0, 1, 1, 0]
    assert jobs.predecessors.tolist() == [1, 0] and jobs.predecessor_offsets.tolist() == [0, 0, 0, 1, 2]
    assert jobs.think_time.tolist() == [0.0, 0.0, 10.0, 20.0]
    with pytest.raises(gs.ScenarioError, match=r"workload\.resample must be None with workload\.after"):
        gs.Workload.jobs_from_logs(logs, after="user", resample="users")


def test_the_shell_releases_jobs_after_those_of_their_users(tmp_path: Path) -> None:
    log = write(tmp_path / "a.swf", (1, 0, 500, 100, 1, -1, -1), (2, 700, 0, 10, 1, -1, -1))
    arguments = ["run", "--job-log", log, "--scheduler", "backfill", "--nodes", "8", "--after", "user"]
    done = CliRunner().invoke(cli, [*arguments, "--rigid", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert gs.Result.load(tmp_path / "run").applications["release"].tolist() == [0.0, 200.0]
    bags = CliRunner().invoke(cli, arguments)
    assert bags.exit_code == 2 and "--after does not apply to a workload of kind" in bags.output


@pytest.mark.parametrize(("name", "value"), [("utilization", 0.5), ("copies", 2), ("resample", "users")])
def test_changed_submissions_do_not_support_predecessors(name: str, value: Any) -> None:
    with pytest.raises(gs.ScenarioError, match=rf"workload\.{name} must be .* with workload\.after = 'user'"):
        gs.Workload.jobs_from_log("a.swf", after="user", **{name: value})
