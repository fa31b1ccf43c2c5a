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
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "tree.npz"
    assert invoke("run", *SMALL, "--decisions", "--out", file).exit_code == 0
    return file


def test_decisions_are_explained(saved: Path) -> None:
    result = gs.Result.load(saved)
    assert "schedule" not in result.tables
    found = invoke("why", saved, 1)
    assert found.exit_code == 0 and found.stdout == f"{result.why(1)}\n"
    assert found.stdout.splitlines()[1].endswith("sent a request for 105 tasks to machine 3")
    told = json.loads(invoke("why", saved, 1, "--task", 0, "--json").stdout)
    assert (told["file"], told["application"], told["task"], told["dropped"]) == (str(saved), 1, 0, 0)
    assert [row["said"] for row in told["decisions"]] == [
        "t = " + line.replace("\n    ", "; ") for line in found.stdout.rstrip().split("\nt = ")[1:]
    ]
    assert told["decisions"][0]["action"] == "requested" and told["decisions"][0]["saw"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3,), "application must be in 0..2, got 3"),
        ((0, "--task", 10**6), "task must be in 0.."),
        ((0, "--task", -1), "task must be in 0.."),
        (("first",), "'first' is not a valid integer"),
    ],
)
def test_invalid_arguments_are_rejected(saved: Path, arguments: tuple[object, ...], said: str) -> None:
    found = invoke("why", saved, *arguments)
    assert found.exit_code == 2 and said in found.stderr and found.stderr.count("\n") == 1


def test_results_without_decisions_are_rejected(tmp_path: Path) -> None:
    compared = ["compare", *SMALL, "--schedulers", "mincent,fcfs"]
    assert invoke(*compared, "--record", "--decisions", "--out", tmp_path / "both").exit_code == 0
    result = gs.Result.load(tmp_path / "both" / "fcfs.npz")
    assert {"schedule", "decisions"} <= set(result.tables)
    assert invoke("why", tmp_path / "both" / "mincent.npz", 0).exit_code == 0
    assert invoke(*compared, "--out", tmp_path / "none").exit_code == 0
    found = invoke("why", tmp_path / "none" / "fcfs.npz", 0)
    assert found.exit_code == 2 and "(--decisions)" in found.stderr


def test_jobs_of_a_log_keep_their_numbers(tmp_path: Path) -> None:
    line = "{} {} -1 50 {} -1 -1 {} 60 -1 1 1 -1 -1 -1 -1 -1 -1"
    jobs = [line.format(*job) for job in ((1007, 0, 3, 3), (9, 10, 4, 4), (30, 20, 2, 2))]
    jobs.append(line.format(8, 30, 1, 1).replace(" 50 ", " -1 "))  # without a run time it is left out
    (tmp_path / "own.swf").write_text("\n".join(jobs))
    saved, out = tmp_path / "backfill.npz", tmp_path / "jobs.csv"
    flags = ["--job-log", tmp_path / "own.swf", "--rigid", "--nodes", 4, "--record", "--decisions"]
    assert invoke("run", *flags, "--scheduler", "backfill", "--out", saved).exit_code == 0
    found = invoke("why", saved, "--job", 9)
    assert found.stdout.startswith("application 1 (job 9 of the log): ")
    assert found.stdout == invoke("why", saved, 1).stdout
    assert "job must be the number of a job in the log, got 8" in invoke("why", saved, "--job", 8).stderr
    assert "exactly one of APPLICATION and --job" in invoke("why", saved).stderr
    told = invoke("export", saved, "--format", "batsim", "--out", out).stdout
    assert told.endswith("jobs have their numbers in the log\n")
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
