"""The command `gridsim why`, and the decisions that `run` and `compare` save for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli

SMALL = ["--nodes", 9, "--applications", 3, "--no-progress"]


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture
def result_file(tmp_path: Path) -> Path:
    file = tmp_path / "tree.npz"
    assert invoke("run", *SMALL, "--decisions", "--out", file).exit_code == 0
    return file


def test_decisions_are_explained(result_file: Path) -> None:
    result = gs.Result.load(result_file)
    assert "schedule" not in result.tables
    answer = invoke("why", result_file, 1)
    assert answer.exit_code == 0 and answer.stdout == f"{result.why(1)}\n"
    assert answer.stdout.splitlines()[1].endswith("sent a request for 105 tasks to the router on machine 3")
    output = json.loads(invoke("why", result_file, 1, "--task", 0, "--json").stdout)
    assert (output["file"], output["application"], output["task"], output["dropped"]) == (
        str(result_file),
        1,
        0,
        0,
    )
    assert [row["said"] for row in output["decisions"]] == [
        "t = " + line.replace("\n    ", "; ") for line in answer.stdout.rstrip().split("\nt = ")[1:]
    ]
    assert output["decisions"][0]["action"] == "requested" and output["decisions"][0]["saw"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "application must be in 0..2, got 3"),
        ((0, "--task", 10**6), "task must be in 0.."),
        ((0, "--task", -1), "task must be in 0.."),
        (("first",), "'first' is not a valid integer"),
    ],
)
def test_invalid_arguments_are_rejected(
    result_file: Path, arguments: tuple[object, ...], message: str
) -> None:
    answer = invoke("why", result_file, *arguments)
    assert answer.exit_code == 2 and message in answer.stderr and answer.stderr.count("\n") == 1


def test_results_without_decisions_are_rejected(tmp_path: Path) -> None:
    compared = ["compare", *SMALL, "--schedulers", "mincent,fcfs"]
    assert invoke(*compared, "--record", "--decisions", "--out", tmp_path / "both").exit_code == 0
    result = gs.Result.load(tmp_path / "both" / "fcfs.npz")
    assert {"schedule", "decisions"} <= set(result.tables)
    assert invoke("why", tmp_path / "both" / "mincent.npz", 0).exit_code == 0
    assert invoke(*compared, "--out", tmp_path / "none").exit_code == 0
    answer = invoke("why", tmp_path / "none" / "fcfs.npz", 0)
    assert answer.exit_code == 2 and "(--decisions)" in answer.stderr


def test_jobs_of_a_log_keep_their_numbers(tmp_path: Path) -> None:
    line = "{} {} -1 50 {} -1 -1 {} 60 -1 1 1 -1 -1 -1 -1 -1 -1"
    jobs = [line.format(*job) for job in ((1007, 0, 3, 3), (9, 10, 4, 4), (30, 20, 2, 2))]
    jobs.append(line.format(8, 30, 1, 1).replace(" 50 ", " -1 "))  # a job without a run time is omitted
    (tmp_path / "own.swf").write_text("\n".join(jobs))
    result_file, out = tmp_path / "backfill.npz", tmp_path / "jobs.csv"
    flags = ["--job-log", tmp_path / "own.swf", "--rigid", "--nodes", 4, "--record", "--decisions"]
    assert invoke("run", *flags, "--scheduler", "backfill", "--out", result_file).exit_code == 0
    answer = invoke("why", result_file, "--job", 9)
    assert answer.stdout.startswith("application 1 (job 9 of the log): ")
    assert answer.stdout == invoke("why", result_file, 1).stdout
    assert (
        "job must be the number of a job in the log, got 8" in invoke("why", result_file, "--job", 8).stderr
    )
    assert "exactly one of APPLICATION and --job" in invoke("why", result_file).stderr
    output = invoke("export", result_file, "--format", "batsim", "--out", out).stdout
    assert output.endswith("jobs have their numbers in the log\n")
    assert [row.split(",")[0] for row in out.read_text().splitlines()[1:]] == ["1007", "9", "30"]
    assert (
        invoke("validate", out, "--job-log", tmp_path / "own.swf").exit_code == 1
    )  # the log has job 8, the table lacks it
    copies = gs.Workload.jobs_from_log(tmp_path / "own.swf", copies=2, seed=1)
    with pytest.warns(gs.TraceWarning, match="unknown run time"):
        result = gs.simulate(gs.Scenario(gs.Platform.equal(4), copies), "backfill")
    gs.to_swf(result, out)
    assert [row.split()[0] for row in out.read_text().splitlines() if row[0] != ";"] == list("123456")
    with pytest.raises(gs.ScenarioError, match="job 9 of the log has several applications"):
        result.row_of_job(9)
