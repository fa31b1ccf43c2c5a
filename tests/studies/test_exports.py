"""Tables of studies for papers: LaTeX, Markdown and CSV have the values of the study."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.results.metrics.estimates import Estimate
from gridsim.studies.exports import estimate_cells, text_rows, to_latex
from gridsim.studies.replicate_result import Replicates
from gridsim.support.text import number_text

VALUES = {
    "fair_tree & co": np.array([2.0, 3.0, 4.0, 5.0, 6.0]),
    "central": np.array([1.0, 2.0, 2.0, 4.0, 5.0]),
}


@pytest.fixture
def study() -> Replicates:
    return Replicates(
        tuple(range(5)), {"makespan": VALUES}, {"makespan": "s"}, baseline="central", measure="makespan"
    )


def rows_of_latex(text: str) -> list[list[str]]:
    """Return the cells between the rules, without the escapes of LaTeX."""
    body = text.split("\\midrule")[1].split("\\bottomrule")[0]
    rows = [line.removesuffix("\\\\").split(" & ") for line in body.strip().splitlines()]
    return [[re.sub(r"\\([&%$#_{}])", r"\1", cell).strip() for cell in row] for row in rows]


def test_latex_has_the_estimates_of_the_study(study: Replicates) -> None:
    text = study.to_latex()
    assert text.count("\\toprule") == text.count("\\begin{table}") == text.count("\\end{table}") == 1
    assert "[95\\% interval]; ratios are geometric means" in text
    labels = re.findall(r"\\caption\{.*\}\n\\label\{(.*)\}\n", to_latex([*study.paper_tables()] * 2))
    assert labels == ["tab:makespan", "tab:makespan-2"]
    escaped = text.replace("fair\\_tree \\& co", "tree")
    tree, central = rows_of_latex(escaped)
    ratio, mean = study.ratio("fair_tree & co", "central"), study.mean("fair_tree & co")
    assert tree == [
        "tree", "5", "4.0", f"[{mean.low:.1f}, {mean.high:.1f}]",
        number_text(ratio.mean), f"[{ratio.low:.3f}, {ratio.high:.3f}]",
    ]  # fmt: skip
    assert central[:3] == ["central", "5", "2.8"]


def test_markdown_has_the_cells_of_latex(study: Replicates) -> None:
    lines = [line for line in study.to_markdown().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    expected = rows_of_latex(study.to_latex().replace("fair\\_tree \\& co", "tree"))
    assert [row[1:] for row in cells] == [row[1:] for row in expected]
    assert cells[0][0] == "fair\\_tree & co"


def test_tables_for_papers_have_the_names_of_charts() -> None:
    scenario = gs.Scenario(gs.Platform.desktop_grid(4, 1), gs.Workload.bags(4, 10.0, 2.0, seed=1))
    over = {"workload.interarrival": [5.0, 10.0], "network.latency": ["50 ms"]}
    (table,) = gs.sweep(scenario, ["fcfs"], over, replicates=2, metrics=["response"]).paper_tables()
    assert table.caption.startswith("mean response time (s), ")
    assert table.head[:3] == [("interarrival", "s"), ("latency", ""), ("scheduler", "")]


def test_csv_is_not_rounded(study: Replicates) -> None:
    tree, central = csv.DictReader(study.to_csv().splitlines())
    ratio = study.ratio("fair_tree & co", "central")
    assert [float(tree[name]) for name in ("ratio", "ratio_low", "ratio_high")] == [
        ratio.mean, ratio.low, ratio.high,
    ]  # fmt: skip
    assert tree["scheduler"] == "fair_tree & co" and float(central["mean"]) == 2.8


@pytest.mark.parametrize(
    ("name", "method"), [("a.tex", "to_latex"), ("a.md", "to_markdown"), ("a.csv", "to_csv")]
)
def test_the_command_writes_the_table(name: str, method: str, tmp_path: Path) -> None:
    scenario = gs.Scenario(gs.Platform.desktop_grid(8, 1), gs.Workload.bags(4, 10.0, 2.0, seed=1))
    scenario.save(tmp_path / "scenario.toml")
    arguments: list[Any] = ["compare", tmp_path / "scenario.toml", "--schedulers", "fcfs,mincent"]
    arguments += ["--replicates", 5, "--baseline", "mincent", "--metrics", "stretch"]
    answer = CliRunner().invoke(cli, [*map(str, arguments), "--table", str(tmp_path / name)])
    assert answer.exit_code == 0, answer.output
    study = gs.compare(scenario, ["fcfs", "mincent"], replicates=5, baseline="mincent", metrics=["stretch"])
    assert (tmp_path / name).read_text() == getattr(study, method)()


def test_a_table_of_an_unknown_format_is_refused_before_runs(tmp_path: Path) -> None:
    answer = CliRunner().invoke(cli, ["compare", "--nodes", "8", "--table", str(tmp_path / "means.doc")])
    assert answer.exit_code == 2 and "--table must" in answer.stderr and ".tex" in answer.stderr


def test_the_estimates_of_a_column_have_one_number_of_decimals() -> None:
    def rows(*means: float) -> list[list[str]]:
        estimates = [[Estimate(mean, mean - 0.25, mean + 0.5, 9)] for mean in means]
        return text_rows(estimates, estimate_cells)

    assert rows(8.5, 10.8931) == [["8.50", "[8.25, 9.00]"], ["10.89", "[10.64, 11.39]"]]
    assert rows(2.0, 3.0) == [["2.00", "[1.75, 2.50]"], ["3.00", "[2.75, 3.50]"]]
    assert [row[0] for row in rows(123_456.0, 99_876.5)] == ["123,500", "99,900"]
    assert [row[0] for row in rows(123_456.0, 0.25)] == ["123,500", "0.25"]  # no number suits both
    counts = [[Estimate(count, count, count, 9, note="all equal")] for count in (2.0, 13.0)]
    assert text_rows(counts, estimate_cells) == [["2", "all equal"], ["13", "all equal"]]
