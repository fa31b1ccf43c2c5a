"""Plugins add schedulers and trace formats by entry points, without an import in user code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.scheduling.registry import registered

MODULE = '''
import gridsim as gs
from gridsim.traces import JobLog, TraceFormat


class LastNode(gs.NodeProgram):
    def on_release(self, view, application, tasks):
        view.enqueue(application.number, tasks)


class Stay(gs.NodeScheduler, frozen=True, kw_only=True):
    """Stay: tasks run where they are submitted."""

    name = "stay"
    policy = LastNode
    pause: float = 0.0


def read(path):
    with open(path) as lines:
        rows = [line.split(",") for line in lines]
    submit, run_time, user = zip(*rows)
    return JobLog.of(path, submit=submit, run_time=run_time, user=user)


COMMAS = TraceFormat(kind="jobs", read=read, suffixes=(".jobs.csv",), about="jobs with commas")
'''
ENTRIES = """
[gridsim.schedulers]
stay = others_of_gridsim:Stay
mincent = others_of_gridsim:Stay
broken = others_of_gridsim:Missing
odd = others_of_gridsim:read

[gridsim.traces]
commas = others_of_gridsim:COMMAS
"""
SCENARIO = """
seed = 1
[platform]
kind = "equal"
nodes = 3
[workload]
kind = "log"
path = "small.jobs.csv"
seed = 1
[schedulers.stay]
pause = 1.0
"""


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package into a folder on the search path; return a scenario that uses it."""
    site = tmp_path / "site"
    package_info = site / "others_of_gridsim-1.0.dist-info"
    package_info.mkdir(parents=True)
    (site / "others_of_gridsim.py").write_text(MODULE)
    (package_info / "METADATA").write_text("Metadata-Version: 2.1\nName: others-of-gridsim\nVersion: 1.0\n")
    (package_info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "small.jobs.csv").write_text("0,100,1\n5,200,1\n700,50,2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    yield tmp_path
    sys.modules.pop("others_of_gridsim", None)


def test_a_package_adds_a_scheduler_and_a_format(installed_package: Path) -> None:
    with pytest.warns(gs.PluginWarning) as records:
        names = list(registered())
    message = [str(item.message) for item in records]
    whose = "of others-of-gridsim is ignored"
    for line, expected in zip(
        message,
        (
            f"gridsim.schedulers: broken = others_of_gridsim:Missing {whose}: AttributeError: module ",
            f"gridsim.schedulers: mincent = others_of_gridsim:Stay {whose}: the name is taken",
            f"gridsim.schedulers: odd = others_of_gridsim:read {whose}: it must be a subclass of gridsim.Sch",
        ),
        strict=True,
    ):
        assert line.startswith(expected), line
    assert names[-1] == "stay" and registered()["mincent"][0] is gs.MinCent

    def answer(*words: str) -> str:
        cli_result = CliRunner().invoke(cli, list(words))
        assert cli_result.exit_code == 0, cli_result.output
        return cli_result.stdout

    listed = {row["name"]: row for row in json.loads(answer("list", "schedulers", "--json"))}
    assert listed["stay"]["what"] == "Stay: tasks run where they are submitted."
    assert "commas jobs with commas" in " ".join(answer("list", "traces").split())
    assert "pause" in answer("list", "parameters", "stay")
    assert json.loads(answer("trace", "info", "small.jobs.csv", "--json"))["records"] == 3
    assert "no findings" in answer("trace", "lint", "small.jobs.csv")
    message = json.loads(answer("compare", "scenario.toml", "--schedulers", "stay,mincent", "--json"))
    assert [row["name"] for row in message["schedulers"]] == ["stay", "mincent"]
    assert message["schedulers"][0]["parameters"]["pause"] == 1.0 and message["schedulers"][0]["tasks"] == 3
    # a result of a plugin's scheduler is reproduced without naming it, as for a built-in scheduler
    answer("run", "scenario.toml", "--scheduler", "stay", "--out", "r.npz")
    assert "the same digest" in answer("repro", "r.npz")


@pytest.mark.filterwarnings("ignore::gridsim.errors.PluginWarning")  # issued once per process
def test_errors_of_a_reader_become_trace_errors(installed_package: Path) -> None:
    (installed_package / "small.jobs.csv").write_text("0,100\n")
    with pytest.raises(gs.TraceFormatError, match=r"small.jobs.csv: ValueError: not enough values"):
        gs.simulate(gs.Scenario.from_toml(installed_package / "scenario.toml"), "mincent")


def test_a_plugin_scheduler_is_unregistered_with_its_package() -> None:
    assert "stay" not in registered()
