"""Exported schedules pass `gridsim validate`, and the schedules of job logs are exported unchanged."""

from __future__ import annotations

import csv
import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.results.formats.job_logs import COLUMNS
from gridsim.validation.logs import validate_batsim, validate_swf
from gridsim.validation.results import validate_result

pytestmark = pytest.mark.filterwarnings("ignore:.*without a requested time:gridsim.TraceWarning")

# six jobs on 30 machines that fail often
JOBS = gs.Scenario(
    gs.Platform.equal(30),
    gs.Workload.jobs_of(
        release=[0.0, 100.0, 200.0, 300.0, 400.0, 550.0],
        nodes=[5, 9, 2, 30, 25, 3],
        run_time=[200.0, 300.0, 100.0, 30.5, 50.0, 400.0],
    ),
    faults=gs.Faults.exponential(up=3000.0, down=300.0, seed=3),
    seed=3,
)
BAGS = gs.Scenario(
    gs.Platform.desktop_grid(9, 1),
    gs.Workload.bags(5, 10.0, 4.0, seed=2),
    faults=gs.Faults.exponential(up=200.0, down=30.0, seed=4),
)


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def log(path: Path, jobs: list[tuple[float, ...]], header: str = "; MaxProcs: 4\n") -> Path:
    """Write a job log; a job is (submit, wait, run time, procs, requested time, status), numbered from 1."""
    lines = [
        f"{k} {submit} {wait} {lasts} {procs} -1 -1 {procs} {limit} -1 {status} 1 1 -1 1 1 -1 -1"
        for k, (submit, wait, lasts, procs, limit, status) in enumerate(jobs, 1)
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


LOG = [(100, 0, 10, 2, 20, 1), (101, 9, 5, 3, 20, 0), (102, 0, 8, 1, 20, 1), (103, 7, 2, 1, -1, 5)]


# -- exported schedules -----------------------------------------------------------------------------------


def test_each_rigid_job_has_a_row(tmp_path: Path) -> None:
    result = gs.simulate(JOBS, gs.DgsAsap(candidates="others"), record=True)
    assert gs.to_batsim(result, tmp_path / "out_jobs.csv") == 6
    assert validate_batsim(tmp_path / "out_jobs.csv", machines=30) == []
    actual, table = rows(tmp_path / "out_jobs.csv"), result.applications
    assert list(actual[0]) == list(COLUMNS["batsim"]) and [row["job_id"] for row in actual] == list("123456")
    assert table["resubmitted"].any() and 0 < result.failed < 6
    for k, row in enumerate(actual):
        failed = bool(table["failed"][k])
        assert row["success"] == str(int(not failed)) and float(row["submission_time"]) == table["release"][k]
        assert row["requested_number_of_resources"] == str(table["tasks"][k]) and row["metadata"] == ""
        if failed:
            assert row["final_state"] == "REJECTED"
            assert not (row["starting_time"] or row["finish_time"] or row["allocated_resources"])
        else:
            assert row["final_state"] == "COMPLETED_SUCCESSFULLY"
            assert float(row["finish_time"]) == table["finish"][k]
            assert float(row["waiting_time"]) == table["waiting"][k]


def test_allocated_resources_are_intervals(tmp_path: Path) -> None:
    """Machine 3 runs another job when a job of five machines starts."""
    workload = gs.Workload.jobs_of(
        release=[0.0, 0.0, 0.0, 1.0], nodes=[3, 1, 4, 5], run_time=[1.0, 5.0, 1.0, 1.0]
    )
    result = gs.simulate(gs.Scenario(gs.Platform.equal(8), workload), gs.BatchQueue(), record=True)
    gs.to_batsim(result, tmp_path / "out.csv")
    assert [row["allocated_resources"] for row in rows(tmp_path / "out.csv")] == [
        "0-2",
        "3",
        "4-7",
        "0-2 4-5",
    ]


@pytest.mark.parametrize("scheduler", [gs.WqrFt(), gs.FairTree(), gs.MinCent()], ids=lambda each: each.name)
def test_bags_have_a_row_for_each_piece_on_a_machine(tmp_path: Path, scheduler: gs.Scheduler) -> None:
    result = gs.simulate(BAGS, scheduler, record=True)
    schedule = result.tables["schedule"]
    assert (
        gs.to_batsim(result, tmp_path / "out.csv") == gs.to_swf(result, tmp_path / "out.swf") == len(schedule)
    )
    assert validate_batsim(tmp_path / "out.csv", machines=9) == [] == validate_swf(tmp_path / "out.swf")
    actual = rows(tmp_path / "out.csv")
    have = sorted(
        (int(r["profile"]) - 1, int(r["allocated_resources"]), float(r["starting_time"])) for r in actual
    )
    names = ("application", "machine", "start")
    assert have == sorted(zip(*(schedule[name].tolist() for name in names), strict=True))
    assert sum(row["success"] == "1" for row in actual) == (schedule["completed"] > 0).sum() < len(actual)
    assert sum(int(row["metadata"].removeprefix("tasks=")) for row in actual) == schedule["tasks"].sum()
    assert {row["final_state"] for row in actual} == {"COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"}


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), share=st.floats(0.3, 2.0))
def test_an_exported_schedule_keeps_the_invariants_and_is_read_back(
    tmp_path_factory: Any, seed: int, share: float
) -> None:
    folder = tmp_path_factory.mktemp("export")
    scenario = gs.Scenario(gs.Platform.equal(20), gs.Workload.jobs(60, utilization=share, seed=seed))
    result = gs.simulate(scenario, gs.BatchQueue(), record=True)
    gs.to_batsim(result, folder / "out_jobs.csv")
    gs.to_swf(result, folder / "out.swf")
    assert validate_swf(folder / "out.swf") == []
    assert validate_batsim(folder / "out_jobs.csv", machines=20, job_log=folder / "out.swf") == []
    back = gs.result_from_log(folder / "out.swf")
    gs.check_same_jobs(back, scenario)
    for name in ("first_start", "finish", "waiting", "slowdown", "requested", "stretch"):
        assert back.applications[name] == pytest.approx(result.applications[name], rel=1e-9, abs=2e-9), name
    assert back.facts["utilization"] == pytest.approx(result.utilization)


def test_the_exported_schedule_of_a_log_equals_the_log(tmp_path: Path) -> None:
    """Fractions of seconds are kept; cancelled jobs are in neither log."""
    jobs = [*LOG, (103.25, 11.75, 2.125, 1, 3, 1), (104, 30, 0, 2, 5, 5)]
    with pytest.warns(gs.TraceWarning, match="1 jobs that never ran"):
        one = gs.result_from_log(log(tmp_path / "a.swf", jobs))
    gs.to_swf(one, tmp_path / "b.swf")
    other = gs.result_from_log(tmp_path / "b.swf")
    assert len(one.applications) == 5 and one.failed == other.failed == 0 and other.tables == one.tables
    assert one.digest == other.digest


def test_the_error_of_an_export_without_a_schedule_tells_how_to_record_one(tmp_path: Path) -> None:
    bags, jobs = gs.simulate(BAGS, gs.MinCent()), gs.simulate(JOBS, gs.BatchQueue())
    for export, result in ((gs.to_batsim, bags), (gs.to_batsim, jobs), (gs.to_swf, bags)):
        with pytest.raises(
            gs.ScenarioError, match=rf"{export.__name__} requires a recorded schedule.*--record"
        ):
            export(result, tmp_path / "out")
    with pytest.raises(gs.ScenarioError, match="^to_batsim for evalys"):
        gs.to_batsim(bags, tmp_path / "out", dialect="evalys")
    assert gs.to_swf(jobs, tmp_path / "out") == 6  # a log of rigid jobs does not state their machines
    with pytest.raises(gs.ScenarioError, match="^dialect"):
        gs.to_batsim(jobs, tmp_path / "out", dialect="x")  # type: ignore[arg-type]


def test_the_dialect_evalys_has_its_columns(tmp_path: Path) -> None:
    gs.to_batsim(gs.simulate(BAGS, gs.MinCent(), record=True), tmp_path / "out.csv", dialect="evalys")
    actual = rows(tmp_path / "out.csv")
    expected = """jobID workload_name submission_time requested_number_of_resources requested_time success
        starting_time execution_time finish_time waiting_time turnaround_time stretch allocated_resources"""
    assert set(expected.split()) <= set(actual[0])  # the `JobSet.columns` of evalys
    assert "job_id" not in actual[0] and actual[0]["jobID"] == "1_1"


def test_the_command_exports_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell = CliRunner()
    gs.simulate(JOBS, gs.BatchQueue(), record=True).save("r.gridsim")
    for kind in ("batsim", "swf"):
        answer = shell.invoke(cli, ["export", "r.gridsim", "--format", kind, "--out", f"out.{kind}"])
        numbered = "job k is application k - 1 of gridsim why"
        assert (answer.exit_code, answer.stdout) == (0, f"saved out.{kind}: 6 rows\n{numbered}\n")
        assert shell.invoke(cli, ["validate", f"out.{kind}", "--nodes", "30"]).exit_code == 0
    answer = shell.invoke(cli, ["export", "r.gridsim", "--format", "evalys", "--out", "e.csv", "--json"])
    assert json.loads(answer.stdout) == {"file": "r.gridsim", "format": "evalys", "rows": 6, "out": "e.csv"}
    gs.simulate(BAGS, gs.MinCent()).save("bare.gridsim")
    for arguments, message in (
        (
            ["bare.gridsim", "--format", "swf", "--out", "x"],
            "gridsim: bare.gridsim: to_swf requires a recorded schedule",
        ),
        (
            ["r.gridsim", "--format", "swf", "--out", "r.gridsim"],
            "gridsim: RESULT and --out must name different files",
        ),
        (["r.gridsim", "--format", "swf", "--out", "no/x"], "gridsim: no: no such folder"),
        (["r.gridsim", "--format", "xls", "--out", "x"], "gridsim: Invalid value for '--format'"),
    ):
        answer = shell.invoke(cli, ["export", *arguments])
        assert answer.exit_code == 2 and answer.stderr.startswith(message) and answer.stderr.count("\n") == 1


# -- machines with several cores --------------------------------------------------------------------------


def jobs_with_cores(seed: int) -> gs.Scenario:
    """Return jobs of tasks of 1 to 3 cores that share machines of 2 to 8 cores."""
    rng, count = np.random.default_rng(seed), 60
    workload = gs.Workload.jobs_of(
        np.append(0.0, np.sort(rng.integers(0, 300, count - 1))),
        rng.choice([1, 2, 3], count),
        rng.integers(1, 60, count).astype(float),
        rng.integers(10, 60, count).astype(float),
        cores=rng.choice([1, 2, 3], count),
        tasks_per_machine=rng.choice([0, 1], count),
        exclusive=rng.choice([0, 0, 0, 1], count),
    )
    return gs.Scenario(gs.Platform.equal(4, cores=[4, 2, 8, 4]), workload)


def one_core_tasks(seed: int) -> gs.Scenario:
    """Return jobs of tasks of one core, on machines of 2 to 8 cores."""
    rng, count = np.random.default_rng(seed), 40
    workload = gs.Workload.jobs_of(
        np.sort(rng.integers(0, 9000, count)).astype(float),
        rng.integers(1, 9, count),
        rng.integers(60, 3000, count).astype(float),
        tasks_per_machine=0,
    )
    return gs.Scenario(gs.Platform.equal(4, cores=[4, 2, 8, 4]), workload)


FAULTS = gs.Faults.of([0, 2], [40.0, 90.0], [70.0, 150.0])


@pytest.mark.parametrize(
    ("scenario", "scheduler", "faults"),
    [
        (jobs_with_cores(1), "backfill", None),
        (jobs_with_cores(2), "backfill-sjf", FAULTS),
        (jobs_with_cores(3), gs.BatchQueue(kill="at-limit", placement="spread"), None),
        (one_core_tasks(4), "asap", FAULTS),
        (one_core_tasks(5), "backfill-conservative", None),
    ],
)
def test_jobs_of_several_cores_are_exported_as_they_ran(
    tmp_path: Path, scenario: gs.Scenario, scheduler: Any, faults: Any
) -> None:
    result = gs.simulate(replace(scenario, faults=faults), scheduler, record=True)
    gs.to_swf(result, tmp_path / "out.swf")
    gs.to_batsim(result, tmp_path / "out_jobs.csv")
    assert validate_swf(tmp_path / "out.swf") == []
    assert validate_batsim(tmp_path / "out_jobs.csv", machines=18, job_log=tmp_path / "out.swf") == []
    assert "; MaxNodes: 4\n; MaxProcs: 18\n" in (tmp_path / "out.swf").read_text()
    back = gs.result_from_log(tmp_path / "out.swf", machines=4, cores=[4, 2, 8, 4])
    table, jobs = result.applications, scenario.workload.realize(scenario.platform)
    assert back.applications["tasks"].tolist() == jobs.width.tolist()
    for name in ("release", "finish"):
        assert back.applications[name] == pytest.approx(table[name] - table["release"][0], abs=1e-8)
    assert back.core_hours == pytest.approx(result.core_hours)
    # of each machine a job has as many cores as its tasks there take
    schedule = result.tables["schedule"]
    taken = np.zeros((len(jobs), 4), np.int64)
    is_done = schedule["completed"] > 0
    cores = np.ones(len(jobs), np.int64) if jobs.cores is None else jobs.cores
    rows_of_jobs = schedule["application"][is_done]
    np.add.at(
        taken, (rows_of_jobs, schedule["machine"][is_done]), schedule["tasks"][is_done] * cores[rows_of_jobs]
    )
    machine_of = np.repeat(range(4), [4, 2, 8, 4])
    for i, row in enumerate(rows(tmp_path / "out_jobs.csv")):
        resources = [
            k
            for part in row["allocated_resources"].split()
            for k in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
        ]
        assert np.bincount(machine_of[resources], minlength=4).tolist() == taken[i].tolist()


def test_the_log_of_shared_machines_is_replayed_on_them(tmp_path: Path) -> None:
    """Tasks of one core may run anywhere, as processors of a log do, so jobs start at the same times."""
    scenario = one_core_tasks(6)
    result = gs.simulate(scenario, "backfill")
    gs.to_swf(result, tmp_path / "out.swf")
    replay = replace(scenario, workload=gs.Workload.jobs_from_log(tmp_path / "out.swf"))
    table = gs.simulate(replay, "backfill").applications
    start = result.applications["first_start"] - result.applications["release"][0]
    assert table["first_start"].tolist() == start.tolist() and table["waiting"].any()
    shell, arguments = CliRunner(), ["--job-log", str(tmp_path / "out.swf"), "--rigid", "--json"]
    for further, machines in ([], 18), (["--cores-per-node", "6", "--shared"], 3):
        answer = shell.invoke(cli, ["compare", *arguments, *further, "--schedulers", "backfill"])
        assert answer.exit_code == 0, answer.stderr
        assert json.loads(answer.stdout)["schedulers"][0]["machines"] == machines


@pytest.mark.parametrize("scheduler", ["fcfs", "fcfs-random", "fair-tree", "WQR-FT"])
def test_tasks_on_cores_of_a_machine_are_exported_side_by_side(tmp_path: Path, scheduler: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([1.0, 2.0, 1.0], cores=[4, 1, 3]),
        gs.Workload.of([0.0, 1.0, 1.0], [6, 5, 9], 7.0, [0, 1, 2]),
        faults=gs.Faults.of([0, 2], [3.0, 8.0], [5.0, 10.0]),
    )
    result = gs.simulate(scenario, scheduler, record=True)
    gs.to_swf(result, tmp_path / "out.swf")
    gs.to_batsim(result, tmp_path / "out.csv")
    assert validate_swf(tmp_path / "out.swf") == [] == validate_batsim(tmp_path / "out.csv", machines=8)
    schedule, machine_of = result.tables["schedule"], np.repeat(range(3), [4, 1, 3])
    order = np.lexsort((schedule["machine"], schedule["start"], schedule["application"]))
    resources = np.array([int(row["allocated_resources"]) for row in rows(tmp_path / "out.csv")])
    assert machine_of[resources].tolist() == schedule["machine"][order].tolist()
    if "core" in schedule:
        cores = resources - np.array([0, 4, 5])[machine_of[resources]]
        assert cores.tolist() == schedule["core"][order].tolist()


def test_a_schedule_with_more_tasks_than_cores_is_not_exported(tmp_path: Path) -> None:
    scenario = gs.Scenario(gs.Platform.equal(1, cores=2), gs.Workload.of([0.0], [4], 1000.0))
    result = gs.simulate(scenario, "fcfs-random", record=True)
    table = {name: column.copy() for name, column in result.tables["schedule"].items()}
    table["start"][:] = 0.0
    result.tables["schedule"] = gs.Table(table)
    with pytest.raises(gs.ScenarioError, match="at most the 2 cores of machine 0 at a time, got more at 0"):
        gs.to_batsim(result, tmp_path / "out.csv")


# -- job logs as results ----------------------------------------------------------------------------------


def test_the_schedule_of_a_log_is_as_computed_by_hand(tmp_path: Path) -> None:
    path = log(tmp_path / "own.swf", LOG)
    result = gs.result_from_log(path, name="maui")
    table = result.applications
    assert table["release"].tolist() == [0, 1, 2, 3] and table["first_start"].tolist() == [0, 10, 2, 10]
    assert table["finish"].tolist() == [10, 15, 10, 12] and table["waiting"].tolist() == [0, 9, 0, 7]
    # a job that failed or was cancelled ran for its run time
    assert table["failed"].tolist() == [0, 0, 0, 0] and table["requested"].tolist() == [20, 20, 20, 2]
    assert table["slowdown"].tolist() == [1, 1.4, 1, 1] and table["stretch"][1] == 14 / 15_000
    assert len(result.machines) == 4 and np.isnan(result.machines["busy"]).all() and result.makespan == 15
    assert result.facts == {"unknown_waits": 0, "killed": 0, "utilization": 45 / 60}
    assert result.utilization == 0.75
    assert result.mean_waiting == 4 and result.rigid and table["submitter"].tolist() == [-1] * 4
    summary = result.summary()
    assert summary["scheduler"] == "maui" and summary["aggregate_speed"] == 4000
    assert math.isnan(summary["messages"]) and math.isnan(summary["bytes"])
    text = result.format(verbose=True)
    assert "messages" not in text and "digest" not in text and "75.0 % until the last end" in text
    assert "rejected" not in text and "nan" not in text
    result.save(tmp_path / "log.gridsim")
    loaded = gs.Result.load(tmp_path / "log.gridsim")
    assert loaded.digest == result.digest and loaded.tables == result.tables
    gs.check_same_jobs(result, loaded.scenario)
    with pytest.raises(gs.ScenarioError, match="^result must be that of a run"):
        validate_result(result)


def test_the_schedule_of_a_log_cannot_be_run_again(tmp_path: Path) -> None:
    gs.result_from_log(log(tmp_path / "own.swf", LOG), name="fcfs").save(tmp_path / "log.gridsim")
    for further in ([], ["--json"], ["--scheduler", "gridsim.results.formats.job_logs:result_from_log"]):
        answer = CliRunner().invoke(cli, ["repro", str(tmp_path / "log.gridsim"), *further])
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert answer.stderr == (
            "gridsim: the result must come from a run, got the schedule in the log own.swf, which cannot be "
            "repeated\n"
        )


def test_jobs_that_never_ran_are_left_out_and_unknown_waits_fail(tmp_path: Path) -> None:
    jobs = [*LOG, (104, 30, 0, 2, 5, 5), (105, -1, 4, 1, 5, 1), (106, 1, -1, 1, 5, 1), (107, 2, 0, 1, 5, 1)]
    with pytest.warns(gs.TraceWarning) as answers:
        result = gs.result_from_log(log(tmp_path / "x.swf", jobs))
    message = " ".join(str(item.message) for item in answers)
    assert "x.swf:7: 1 jobs of unknown wait count as failed" in message
    assert "1 jobs of unknown run time, left out" in message and "1 jobs of run time 0 s" in message
    assert "x.swf:6: 1 jobs that never ran" in message
    table = result.applications
    assert table["failed"].tolist() == [0, 0, 0, 0, 1, 0] and result.failed == 1
    assert np.isnan(table["finish"]).tolist() == [False] * 4 + [True, False]
    assert result.facts["unknown_waits"] == 1 and "unknown for 1 jobs" in result.format()
    assert table["nodes_used"].tolist() == [2, 3, 1, 1, 0, 1] and table["waiting"][-1] == 2
    with pytest.warns(gs.TraceWarning):  # reading the scenario of the result also issues the warning
        gs.check_same_jobs(result, result.scenario)


def test_jobs_keep_their_waits_if_a_log_is_not_sorted(tmp_path: Path) -> None:
    """Job 2, which waited 5 s, precedes job 1 in the file, which was submitted earlier and waited 7 s."""
    lines = [
        f"{number} {submit} {wait} 10 1 -1 -1 1 10 -1 1 1 1 -1 1 1 -1 -1\n"
        for number, submit, wait in ((2, 3, 5), (1, 0, 7))
    ]
    (tmp_path / "x.swf").write_text("; MaxProcs: 4\n" + "".join(lines))
    with pytest.warns(gs.TraceWarning, match="out of order"):
        result = gs.result_from_log(tmp_path / "x.swf")
    assert result.applications["waiting"].tolist() == [7, 5]


def test_jobs_of_unknown_wait_do_not_count_as_work(tmp_path: Path) -> None:
    """One of two jobs ran for 10 s on one of two machines."""
    path = log(tmp_path / "x.swf", [(0, 0, 10, 1, 10, 1), (0, -1, 10, 1, 10, 1)], "; MaxProcs: 2\n")
    with pytest.warns(gs.TraceWarning, match="1 jobs of unknown wait"):
        result = gs.result_from_log(path)
    assert result.facts["utilization"] == 10 / (2 * 10)


def test_windows_and_nodes_select_the_jobs_of_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "x.swf.gz"
    text = log(tmp_path / "x.swf", LOG, "; MaxProcs: 9 (of 12)\n").read_text()
    path.write_bytes(gzip.compress(text.encode()))
    result = gs.result_from_log(path, cores_per_node=2, start=1.0, end=3.0, speed=500.0)
    assert len(result.machines) == 5 and result.applications["tasks"].tolist() == [2, 1]
    jobs = gs.Workload.jobs_from_log(path, cores_per_node=2, start=1.0, end=3.0)
    gs.check_same_jobs(result, gs.Scenario(gs.Platform.equal(5, 500.0), jobs, seed=9))
    for scenario, message in (
        (
            gs.Scenario(gs.Platform.equal(6, 500.0), jobs),
            "machines of the result, 5 of 500 to 500 Mflop/s, got 6 of",
        ),
        (gs.Scenario(gs.Platform.equal(5), jobs), "got 5 of 1000 to 1000 Mflop/s"),
        (
            gs.Scenario(gs.Platform.equal(5, 500.0), gs.Workload.jobs_from_log(path, cores_per_node=2)),
            "the 2 jobs of the result, got 4",
        ),
        (
            gs.Scenario(gs.Platform.equal(5, 500.0), gs.Workload.jobs_from_log(path, start=1.0, end=3.0)),
            "nodes of job 0 is 2 nodes, got 3 nodes",
        ),
        (
            gs.Scenario(gs.Platform.equal(5, 500.0), gs.Workload.jobs_from_log(path, 2, 0.5, 1.0, 3.0)),
            "release of job 1 is 1 s, got",
        ),
    ):
        with pytest.raises(gs.ScenarioError, match=message):
            gs.check_same_jobs(result, scenario)


@pytest.mark.parametrize(("key", "count"), [("MaxProcs", 3), ("MaxNodes", 10)])
def test_only_a_number_of_processors_is_divided_by_cores_per_node(
    tmp_path: Path, key: str, count: int
) -> None:
    path = log(tmp_path / "x.swf", LOG, f"; {key}: 10\n")
    assert len(gs.result_from_log(path, cores_per_node=4).machines) == count


def test_jobs_with_other_run_times_are_reported_as_a_difference(tmp_path: Path) -> None:
    result = gs.result_from_log(log(tmp_path / "x.swf", [(0, 0, 10, 1, 30, 1)]))
    other = gs.Workload.jobs_of(release=[0.0], nodes=1, run_time=[20.0], requested=30.0)
    with pytest.raises(gs.ScenarioError, match="where run time of job 0 is 10 s, got 20 s"):
        gs.check_same_jobs(result, gs.Scenario(gs.Platform.equal(4), other))


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
@pytest.mark.parametrize(
    ("header", "jobs", "arguments", "message"),
    [
        ("", LOG, {}, "machines is required: the header of .*x.swf has neither MaxProcs nor MaxNodes"),
        ("; MaxNodes: 2\n", LOG, {}, "machines must be at least 3, as job 2 of .*x.swf requires, got 2"),
        ("", LOG, {"machines": 0}, "machines must be"),
        ("", LOG, {"machines": 4, "speed": 0.0}, "speed must be a finite number > 0 Mflop/s"),
        ("", LOG, {"machines": 4, "name": ""}, "name must"),
        ("", LOG, {"machines": 4, "start": 50.0}, "no job in the window has a known run time"),
        (
            "",
            [(0, -1, 5, 1, 5, 1)],
            {"machines": 4},
            "no job has a known wait, so the log contains no schedule",
        ),
    ],
)
def test_invalid_logs_are_rejected(
    tmp_path: Path, header: str, jobs: Any, arguments: Any, message: str
) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        gs.result_from_log(log(tmp_path / "x.swf", jobs, header), **arguments)


def test_the_result_of_a_log_joins_a_comparison(tmp_path: Path) -> None:
    path = log(tmp_path / "own.swf", LOG)
    scenario = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(path))
    ours = gs.compare(scenario, {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")})
    own = gs.result_from_log(path)
    gs.check_same_jobs(own, scenario)
    both = gs.Comparison(scenario, {**ours.results, "log": own}, "log")
    assert both.ratio("easy") == ours["easy"].mean_waiting / 4 and both.ratio("log") == 1
    row = next(line.split() for line in both.format().splitlines() if line.startswith("log "))
    assert (
        row[-1] == "75.0"
        and "nan" not in both.format(verbose=True)
        and json.loads(both.to_json())["schedulers"][-1]["name"] == "log"
    )
