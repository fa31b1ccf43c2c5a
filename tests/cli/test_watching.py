"""Observed attributes and diaries of nodes on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli

PROGRAM = """
import gridsim as gs

class Counting(gs.NodeProgram):
    def __init__(self, parameters):
        super().__init__(parameters)
        self.count = 0

    def on_release(self, view, application, tasks):
        self.count += 1
        view.enqueue(application.number, tasks)

class Counts(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = Counting
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs counts:Counts in a folder of its own, with further flags."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "counts.py").write_text(PROGRAM)
    small = ["--scheduler", "counts:Counts", "--nodes", "3", "--applications", "3", "--no-progress"]
    return lambda *flags: CliRunner().invoke(cli, ["run", *small, *map(str, flags)])


def test_attributes_of_nodes_are_observed(run: Any) -> None:
    flags = ("--observe", "count,load=view.work", "--observe-every", "10 min", "--observe-nodes", "0,2")
    cli_result = run(*flags, "--json")
    answer = json.loads(cli_result.stdout)
    assert list(answer["observed"]) == ["time", "node", "count", "load"], cli_result.output
    assert answer["observed"]["time"][:4] == [0.0, 0.0, 600.0, 600.0]
    assert (
        answer["observed"]["node"][:2] == [0, 2]
        and answer["digest"] == json.loads(run("--json").stdout)["digest"]
    )
    assert "time  node  count" in run(*flags).stdout


def test_events_of_nodes_are_recorded(run: Any, tmp_path: Path) -> None:
    answer = run("--events", "--record-nodes", "0,1", "--diary-limit", 1000, "--out", "run.npz")
    assert answer.exit_code == 0, answer.output
    result = gs.Result.load("run.npz")
    assert result.provenance["diary"]["nodes"] == [0, 1] and result.provenance["diary"]["limit"] == 1000
    node = int(result.tables["diary"]["node"][0])
    answer = CliRunner().invoke(cli, ["diary", "run.npz", str(node), "--start", "0.1", "--end", "2 min"])
    assert answer.stdout == result.diary(node, 0.1, 120.0).format() + "\n"
    answer = CliRunner().invoke(cli, ["diary", "run.npz", str(node), "--json"])
    assert json.loads(answer.stdout)["rows"][0]["handler"] == "on_release"
    flags = ["--kind", "sequence", "--figure", "chart.png", "--nodes", "1,0", "--end", "60"]
    answer = CliRunner().invoke(cli, ["plot", "run.npz", *flags])
    assert answer.exit_code == 0 and (tmp_path / "chart.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--observe", "cuont", "--observe-every", 1),
            "got 'cuont'; did you mean count? known: count, parameters",
        ),
        (("--observe", "count"), "--observe requires --observe-every"),
        (("--observe-every", 5), "--observe-every requires --observe"),
        (("--observe-nodes", "1"), "--observe-nodes requires --observe"),
        (
            ("--observe", "count", "--observe-every", 5, "--observe-nodes", "1;2"),
            "must be numbers A,B,C, got '1;2'",
        ),
        (("--record-nodes", "1"), "--record-nodes requires --events"),
        (("--diary-limit", "9"), "--diary-limit requires --events"),
        (("--events",), "--events requires --out"),
    ],
)
def test_wrong_flags_are_refused(run: Any, flags: Any, message: str) -> None:
    answer = run(*flags)
    assert answer.exit_code == 2 and message in answer.stderr
