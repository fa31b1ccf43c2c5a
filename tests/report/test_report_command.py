"""`gridsim report`, and `--report` of `gridsim run` and `gridsim compare`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.result_args import named_files
from tests._helpers.report_pages import read

SMALL = ["--nodes", "12", "--applications", "4", "--no-progress"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comparison: gs.Comparison) -> Path:
    """Return a working folder with results, a copy of one result, a text file and an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name, result in comparison.results.items():
        (tmp_path / "results").mkdir(exist_ok=True)
        result.save(tmp_path / "results" / f"{name}.npz")
    (tmp_path / "more").mkdir()
    comparison["fcfs"].save(tmp_path / "more" / "fcfs.gridsim")
    (tmp_path / "text.npz").write_text("none")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_folder_of_results_is_compared(folder: Path) -> None:
    answer = invoke("report", "results", "--out", "r.html", "--title", "Three of them")
    assert (answer.exit_code, answer.stdout) == (0, "saved r.html: fair-tree, fcfs, mincent\n"), answer.output
    actual = read(folder / "r.html")
    assert "Three of them" in actual.text and "gridsim repro results/fair-tree.npz" in actual.text
    assert [row[0] for row in actual.tables["Schedulers compared"]][1:] == ["fair-tree", "fcfs", "mincent"]


def test_results_with_equal_names_are_distinguished(folder: Path, comparison: gs.Comparison) -> None:
    answer = invoke("report", "results", "more/fcfs.gridsim", "--out", "r.html", "--json")
    output = json.loads(answer.stdout)
    assert list(output["files"]) == ["results/fair-tree", "results/fcfs", "results/mincent", "more/fcfs"]
    assert output["digests"]["more/fcfs"] == output["digests"]["results/fcfs"] == comparison["fcfs"].digest
    assert output["out"] == "r.html" and (folder / "r.html").is_file()
    comparison["fcfs"].save("more/fcfs.npz")
    answer = invoke("report", "more", "--out", "r.html", "--json")
    assert list(json.loads(answer.stdout)["files"]) == ["more/fcfs.gridsim", "more/fcfs.npz"]


def test_run_and_compare_write_reports(folder: Path) -> None:
    answer = invoke("run", *SMALL, "--scheduler", "fcfs-pull", "--report", "run.html", "--bound", "discrete")
    assert answer.exit_code == 0 and answer.stdout.endswith("\nreport        run.html\n"), answer.output
    actual = read(folder / "run.html")
    assert "fcfs-pull on 12 machines" in actual.text and "over the discrete bound" in actual.text
    assert "--set fcfs.mode=pull" in actual.text
    answer = invoke("compare", *SMALL, "--report", "c.html", "--json", "--out", "kept")
    assert json.loads(answer.stdout)["report"] == "c.html"
    rows = read(folder / "c.html").tables["Schedulers compared"]
    assert [row[0] for row in rows[1:]] == ["fair-tree", "fair-tree-root", "mincent", "fcfs"]
    flags = ["--replicates", 3, "--workers", 1, "--set", "fair-tree.bound=1.5"]
    answer = invoke("compare", *SMALL, *flags, "--report", "r.html")
    assert answer.exit_code == 0 and answer.stdout.endswith("saved r.html\n"), answer.output
    actual = read(folder / "r.html")
    # the scenario in the report has the parameters, so that its command repeats the runs
    assert "bound = 1.5" in actual.text
    assert (
        "--schedulers fair-tree,fair-tree-root,mincent,fcfs --baseline mincent --replicates 3" in actual.text
    )


@pytest.mark.slow
def test_the_command_in_a_report_repeats_the_replications(folder: Path) -> None:
    flags = ["--schedulers", "fcfs,mincent", "--replicates", 2, "--hold", "platform", "--metrics", "makespan"]
    first = invoke("compare", *SMALL, *flags, "--time-limit", "1e9", "--report", "r.html", "--json")
    (command,) = re.findall(r"gridsim (compare scenario.toml [^<\n]*)", read(folder / "r.html").html)
    assert invoke("compare", *SMALL, "--save-scenario", "scenario.toml").exit_code == 0
    second = invoke(*shlex.split(command), "--json")
    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    answers, same = (json.loads(answer.stdout) | {"report": None} for answer in (first, second))
    assert answers == same and "--hold platform" in command and "--time-limit" in command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("report", "Missing argument 'PATH...'."),
        ("report results", "Missing option '--out'."),
        ("report nothing --out r.html", "nothing: No such file or directory"),
        ("report text.npz --out r.html", "text.npz: not a valid result file"),
        (
            "report empty --out r.html",
            "must be a result or a folder with results (.npz or .gridsim), got empty, a folder with none",
        ),
        (
            "report results results/fcfs.npz --out r.html",
            "PATH must name each file once, got results/fcfs.npz twice",
        ),
        ("report results --out r.pdf", "--out must end in .html, got 'r.pdf'"),
        ("report results --out none/r.html", "none: no such folder"),
        ("report results --out r.html --title ", "--title must not be empty, got ''"),
        (
            "report link.html --out link.html",
            "PATH link.html and --out must name different files, got link.html for both",
        ),
        (
            "report real.html --out link.html",
            "PATH real.html and --out must name different files, got link.html for both",
        ),
        (
            "report link.html --out real.html",
            "PATH link.html and --out must name different files, got real.html for both",
        ),
        ("run --report r.txt", "--report must end in .html, got 'r.txt'"),
        (
            "run --report r.html --out r.html",
            "--out and --report must name different files, got r.html for both",
        ),
        (
            "run --report empty/../r.html --save-scenario r.html",
            "--save-scenario and --report must name different files",
        ),
        ("compare --report r.htm", "--report must end in .html"),
        (
            "compare --save-scenario s.html --report s.html",
            "--save-scenario and --report must name different files",
        ),
        ("compare --replicates 2 --report x", "--report must end in .html"),
    ],
)
def test_invalid_input_is_rejected(folder: Path, arguments: str, message: str) -> None:
    (folder / "real.html").write_bytes((folder / "results" / "fcfs.npz").read_bytes())
    (folder / "link.html").symlink_to(folder / "real.html")
    before = sorted(folder.iterdir())
    answer = invoke(*arguments.split(" "))
    assert (answer.exit_code, answer.stdout) == (2, "") and message in answer.stderr, answer.output
    assert len(answer.stderr.splitlines()) == 1 and sorted(folder.iterdir()) == before


def test_links_within_a_folder_are_skipped(folder: Path) -> None:
    """Links to other folders are read."""
    first, *_ = (folder / "results").glob("*.npz")
    elsewhere = folder / "other.npz"
    elsewhere.write_bytes(first.read_bytes())
    (folder / "results" / "latest.npz").symlink_to(first.name)
    (folder / "results" / "more.npz").symlink_to(elsewhere)
    files = named_files([str(folder / "results")])
    assert "latest" not in files and files["more"] == str(folder / "results" / "more.npz")
    assert len(files) == len(list((folder / "results").glob("*.npz"))) - 1
