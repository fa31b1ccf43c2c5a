from __future__ import annotations

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from gridsim.cli.commands import reproduce as command
from gridsim.cli.main import cli
from gridsim.reproduce.framework import Desktops, Run
from gridsim.reproduce.wqr.common import ORDERINGS, OneBag, ordering_rows
from gridsim.reproduce.wqr.information import INFORMATION
from gridsim.reproduce.wqr.multi_bag import MULTI_BAG, RealBags
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.studies.replicate_result import Replicates

pytestmark = pytest.mark.slow


def invoke(*arguments):
    return CliRunner().invoke(cli, ["reproduce", *map(str, arguments)])


def test_the_intended_rules_reproduce_the_printed_tables(tmp_path):
    answer = invoke("wqr-tables", "--seeds", 5, "--json", "--workers", 1, "--out", tmp_path)
    assert answer.exit_code == 0, answer.output
    (report,) = json.loads(answer.stdout)["reproductions"]
    assert len(report["grids"]) == 10
    verdicts = {row["quantity"]: row["verdict"] for row in report["rows"]}
    tables = {name: verdict for name, verdict in verdicts.items() if name.startswith("Table")}
    printed = {name: verdict for name, verdict in tables.items() if "as printed" in name}
    assert list(printed.values()).count("reproduced") == 6
    assert {verdict for name, verdict in tables.items() if name not in printed} == {"reproduced"}
    prose = [verdict for name, verdict in verdicts.items() if name.startswith("prose: ")]
    other_readings = [verdict for name, verdict in verdicts.items() if name.startswith("prose, another")]
    assert prose.count("not reproduced") == 6 and set(other_readings) == {"reproduced"}
    assert "9 of 9 policies have the printed tables; 6 with" in report["remarks"][0]
    assert sorted(os.listdir(tmp_path / "wqr-tables")) == [
        "figure.png",
        "scenarios",
        "table.json",
        "table.md",
    ]


@pytest.fixture
def desktops(tmp_path):
    """Return a trace of eight hosts over three days, and a log of two bags, the second too small."""
    day = 86_400
    lines = [
        f"h{u} 3 {u * 900} {day + u * 500} {day + 9000} {2 * day} {2 * day + 5000} {3 * day}"
        for u in range(8)
    ]
    (tmp_path / "hosts.avt").write_text("\n".join([*lines, "idle 0"]) + "\n")
    (tmp_path / "speeds.csv").write_text(
        "cpu_model,computers,avg_cores,gflops_core,gflops_computer\nfast,5,1,2.0,2.0\nslow,9,1,1.0,1.0\n"
    )
    jobs = [(10 + k, 60 * (k % 7 + 1), 1) for k in range(25)] + [(90_000 + k, 300, 2) for k in range(3)]
    rows = [
        f"{k + 1} {instant} 0 {run} 1 -1 -1 1 -1 -1 1 {user} -1 -1 -1 -1 -1 -1"
        for k, (instant, run, user) in enumerate(jobs)
    ]
    (tmp_path / "jobs.swf").write_text("\n".join(rows) + "\n")
    return Desktops(*(str(tmp_path / name) for name in ("hosts.avt", "speeds.csv", "jobs.swf")))


def files(desktops):
    return "--availability", desktops.availability, "--speeds", desktops.speeds, "--log", desktops.log


def test_a_quick_run_compares_all_policies_on_real_desktops(desktops, tmp_path):
    answer = invoke(
        "wqr-real", "--quick", "--seeds", 2, "--json", "--workers", 1, *files(desktops), "--out", tmp_path
    )
    assert answer.exit_code == 0, answer.output
    (report,) = json.loads(answer.stdout)["reproductions"]
    assert list(report["grids"][-1]["rows"]) == list(POLICIES)
    assert "9 machines" in report["grids"][0]["title"]  # a host that was never up also counts
    assert len(report["rows"]) == len(ORDERINGS) + len(POLICIES)
    assert report["claims"][-1]["verdict"] == "reproduced"


def test_orders_of_bags_are_compared_on_drawn_and_real_machines(desktops):
    sample = MULTI_BAG.run(Run([1], quick=True))
    assert [len(grid.rows) for grid in sample.grids] == [6] * 6
    assert {row.claim for row in sample.rows} == set(MULTI_BAG.claims)
    real = MULTI_BAG.run(Run([1], quick=True, desktops=desktops))
    assert [len(grid.rows) for grid in real.grids] == [5] * 3
    nodes = [RealBags(desktops, load)(1).platform.nodes for load in (0.9, 0.01)]
    assert nodes == [1, 8]  # only eight hosts are ever up
    for report in (sample, real):
        assert MULTI_BAG.draw(report).axes


def test_equal_results_do_not_count_as_better():
    values = {name: np.full(6, 2.0) for name in POLICIES}
    replications = Replicates(
        tuple(range(6)), dict.fromkeys(("mean_completion", "wasted", "undisturbed"), values)
    )
    verdicts = {row.quantity: row.verdict for row in ordering_rows("here", replications)}
    alike = {name for name in verdicts if "alike" in name}
    assert {verdicts[name] for name in alike} == {"reproduced"}
    assert {verdict for name, verdict in verdicts.items() if name not in alike} == {"not reproduced"}


def test_bags_of_a_log_are_scaled_to_the_desktops(desktops):
    drawn_scenario = OneBag(6, 4.0, "real", desktops)(3)
    applications = drawn_scenario.workload.realize(drawn_scenario.platform)
    assert applications.tasks.tolist() == [24]  # only this bag is large enough
    assert drawn_scenario == OneBag(6, 4.0, "real", desktops)(3) != OneBag(6, 4.0, "real", desktops)(4)


def test_a_quick_run_on_information_has_positive_values(tmp_path):
    report = INFORMATION.run(Run([1], quick=True))
    assert len(report.grids) == 4 and all(len(grid.rows) == 4 for grid in report.grids)
    for rows in (grid.rows.values() for grid in report.grids):
        assert all(cell.mean > 0 for row in rows for cell in row)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wqr-real"], "wqr-real requires --availability FILE, --speeds FILE and --log FILE"),
        (
            ["wqr-fig5", "--speeds", "x.csv"],
            "--availability and --speeds require each other and --log FILE",
        ),
        (["wqr-fig5", "--log", "x.swf"], "wqr-fig5 does not support --log"),
        (["wqr-fig5", "--availability", "a", "--speeds", "b", "--log", "c"], "a: No such file"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    answer = invoke(*arguments)
    assert answer.exit_code == 2 and message in answer.stderr, answer.output


@pytest.mark.parametrize("name", ["wqr-fig5", "wqr-real"])
def test_a_trace_that_ends_before_its_start_time_is_rejected(desktops, tmp_path, name):
    path = tmp_path / "before.avt"
    path.write_text("x 1 -5 -3\n")
    answer = invoke(name, "--quick", "--seeds", 1, "--workers", 1, *files(desktops), "--availability", path)
    assert answer.exit_code == 2, answer.output
    assert "faults.start must be before the end of the trace, -3 s, got 0.0" in answer.stderr


def test_a_log_without_large_bags_is_rejected(desktops, tmp_path):
    path = tmp_path / "one.swf"
    path.write_text("1 10 0 60 1 -1 -1 1 -1 -1 1 7 -1 -1 -1 -1 -1 -1\n")
    answer = invoke("wqr-fig5", "--quick", "--seeds", 1, "--workers", 1, *files(desktops), "--log", path)
    assert answer.exit_code == 2
    assert "one.swf: the log must have a bag of at least 20 tasks, got none" in answer.stderr


def test_other_experiments_reject_the_flags_of_real_desktops(desktops):
    answer = invoke("celaya-fig4a", *files(desktops))
    assert answer.exit_code == 2
    assert "celaya-fig4a does not support --availability and --speeds" in answer.stderr


def test_the_name_all_reports_the_experiments_that_it_leaves_out(monkeypatch):
    selection = {name: command.EXPERIMENTS[name] for name in ("wqr-tables", "wqr-real")}
    monkeypatch.setattr(command, "EXPERIMENTS", selection)
    cli_result = invoke("all", "--seeds", 1, "--workers", 1, "--no-progress")
    assert cli_result.exit_code == 0 and "# wqr-tables: " in cli_result.stdout
    assert "not run: wqr-real, which requires --availability FILE, --speeds FILE and" in cli_result.stdout
    answer = json.loads(invoke("all", "--seeds", 1, "--workers", 1, "--json").stdout)
    assert [item["name"] for item in answer["reproductions"]] == ["wqr-tables"]
    assert list(answer["left_out"]) == ["wqr-real"]
