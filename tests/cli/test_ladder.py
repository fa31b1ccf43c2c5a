from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli

pytestmark = pytest.mark.slow

SMALL = ("--nodes", 12, "--applications", 4, "--tasks-per-node", 2, "--replicates", 2, "--workers", 1)


def invoke(*arguments):
    return CliRunner().invoke(cli, ["ladder", *map(str, arguments)])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_default_is_the_ladder_of_the_fair_tree():
    answer = invoke(*SMALL, "--figure", "steps.png")
    assert answer.exit_code == 0, answer.output
    assert "means over 2 replications" in answer.stdout.splitlines()[0]
    assert "tree, perfect information" in answer.stdout
    assert answer.stdout.endswith("saved steps.png, which shows max_stretch\n")
    assert Path("steps.png").read_bytes().startswith(b"\x89PNG")


def test_flags_change_scenario_parameters_and_failures():
    settings = ("--set", "fair-tree.bound=1.25", "--set", "fair-tree.samples=4,3,2", "--failures", 5000)
    cli_result = invoke(*SMALL, *settings, "--latency", 0.2, "--seed", 5, "--json")
    answer = json.loads(cli_result.stdout)
    assert answer["figure"] is None and answer["replicates"] == 2
    steps = {step["name"]: step for step in answer["steps"]}
    parameters = steps["early acceptance"]["scheduler"]["parameters"]
    assert (parameters["bound"], parameters["samples"]) == (1.25, [4, 3, 2])
    assert steps["failures"]["faults"] == {
        "kind": "poisson",
        "mean": 5000.0,
        "seed": 5,
        "reachable": False,
    }
    assert steps["messages take time"]["network"]["latency"] == 0.2
    assert steps["tree, summaries"]["network"]["latency"] == 0.0
    assert gs.Scenario.from_toml(answer["scenario"]).seed == 5


def test_ages_may_have_units():
    done = invoke(*SMALL, "--scheduler", "least-work", "--ages", "500 ms, 1 min", "--json")
    names = [step["name"] for step in json.loads(done.stdout)["steps"]]
    assert [name for name in names if name.startswith("views")] == ["views 0.5 s old", "views 60 s old"]


def test_the_command_in_a_report_repeats_the_ladder():
    flags = ("--set", "fair-tree.bound=1.25", "--failures", 5000, "--replicates", 2)
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(12, 1), gs.Workload.bags(applications=4, tasks_per_node=2, seed=1), seed=2
    )
    scenario.save("scenario.toml")
    answer = invoke("scenario.toml", *flags, "--workers", 1, "--report", "r.html")
    assert answer.exit_code == 0 and answer.stdout.endswith("saved r.html\n"), answer.output
    page = html.unescape(Path("r.html").read_text(encoding="utf-8"))
    (command,) = re.findall(r"gridsim ladder scenario.toml .*?(?=</code>)", page)
    second = invoke(*shlex.split(command)[2:], "--workers", 1)
    assert answer.stdout.removesuffix("saved r.html\n") == second.stdout
    assert "B = 1.25" in second.stdout and "once in 5000 s" in second.stdout


def test_rigid_jobs_get_the_ladder_of_dgs_asap():
    workload = gs.Workload.jobs(jobs=10, utilization=0.9, max_nodes=5, seed=1)
    gs.Scenario(gs.Platform.equal(nodes=15), workload, schedulers={"dgs-asap": {"degree": 4}}).save("j.toml")
    answer = invoke("j.toml", "--replicates", 2, "--workers", 2)
    assert answer.exit_code == 0, answer.output
    assert "4 each" in answer.stdout and "stale views" in answer.stdout and "failures" not in answer.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--replicates", 0), "replicates must be a whole number"),
        (("--workers", 0), "--workers must be"),
        (("--set", "dgs-asap.hops=1"), "the scheduler must be one of fair-tree, got 'dgs-asap'"),
        (("--set", "fair-tree.bound=-1"), "fair-tree.bound must be a finite number >= 0, got -1"),
        (("--failures", 0), "--failures must be"),
        (("--ages", "1,x"), "--ages must be times, such as '1,10 s,1 min', got '1,x'"),
        (("--figure", "none/x.png"), "no such folder"),
        (("--report", "x.pdf"), "--report must end in .html, got 'x.pdf'"),
        (("--figure", "x.png", "--report", "none/x.html"), "no such folder"),
        (("absent.toml",), "absent.toml: No such file"),
    ],
)
def test_invalid_flags_are_rejected(flags, message):
    answer = invoke(*flags)
    assert answer.exit_code == 2 and message in answer.stderr and answer.stderr.count("\n") == 1


def test_the_figure_is_not_written_over_the_scenario():
    gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.bags(applications=2, seed=1)).save("s.png")
    answer = invoke("s.png", "--figure", "./s.png")
    assert answer.exit_code == 2 and "SCENARIO and --figure must name different files" in answer.stderr
