"""The command `gridsim plot`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def result_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with fair-tree.npz and fcfs.npz, results of recorded runs."""
    folder = tmp_path_factory.mktemp("results")
    small = ["--nodes", 9, "--applications", 3, "--no-progress"]
    answer = invoke("compare", *small, "--schedulers", "fair-tree,fcfs", "--record", "--out", folder)
    assert answer.exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("kind", "flags", "begin"),
    [
        ("gantt", ("--machines", "2:5"), b"\x89PNG"),
        ("distribution", ("--metric", "response"), b"<?xml"),
        ("series", ("--quantity", "busy"), b"%PDF"),
    ],
)
def test_two_results_are_drawn(
    result_files: Path, tmp_path: Path, kind: str, flags: tuple, begin: bytes
) -> None:
    ending = {b"\x89PNG": "png", b"<?xml": "SVG", b"%PDF": "pdf"}[begin]
    file = tmp_path / f"chart.{ending}"
    both = result_files / "fair-tree.npz", result_files / "fcfs.npz"
    answer = invoke("plot", *both, "--kind", kind, "--figure", file, *flags)
    assert (answer.exit_code, answer.stdout) == (0, f"saved {file}\n"), answer.output
    assert file.read_bytes().startswith(begin)


def test_runs_are_animated(result_files: Path, tmp_path: Path) -> None:
    result, page, gif = result_files / "fair-tree.npz", tmp_path / "a.html", tmp_path / "b.gif"
    answer = invoke("plot", result, "--kind", "animation", "--figure", page)
    note = 'messages are not drawn: they require record="messages" (run --messages)'
    assert (answer.exit_code, answer.stdout) == (0, f"saved {page}\n{note}\n"), answer.output
    assert "fair-tree on 9 machines" in page.read_text(encoding="utf-8")
    small = ["--nodes", 3, "--applications", 2, "--no-progress"]
    answer = invoke("run", *small, "--scheduler", "mincent", "--animate", gif, "--json")
    assert json.loads(answer.stdout)["animation"] == str(gif) and gif.read_bytes().startswith(b"GIF89a")
    answer = invoke("run", *small, "--animate", page)
    assert (
        '"kinds":["accept"' in page.read_text(encoding="utf-8") and f"animation     {page}" in answer.stdout
    )


@pytest.mark.parametrize(
    ("kind", "flags"), [("traffic", ("--unit", "messages")), ("tree", ("--column", "busy"))]
)
def test_tree_charts_are_drawn(result_files: Path, tmp_path: Path, kind: str, flags: tuple[str, ...]) -> None:
    file, result = tmp_path / "chart.png", result_files / "fair-tree.npz"
    answer = invoke("plot", result, "--kind", kind, "--figure", file, *flags, "--json")
    assert json.loads(answer.stdout) == {
        "files": {"fair-tree": str(result)},
        "kind": kind,
        "figure": str(file),
        "notes": [],
    }
    assert file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--kind", "tree", "--figure", "x.gif"),
            "--figure must end in one of .png, .svg, .pdf, got 'x.gif'",
        ),
        (
            ("--kind", "tree", "--figure", "x.png", "--unit", "bytes"),
            "--unit requires --kind traffic, got --kind tree",
        ),
        (
            ("--kind", "gantt", "--figure", "x.png", "--machines", "a"),
            "--machines must be FIRST:END or numbers",
        ),
        (("--kind", "gantt", "--figure", "x.png", "--machines", "99"), "distinct numbers in 0..8, got [99]"),
        (("--kind", "pie", "--figure", "x.png"), "'pie' is not one of"),
        (
            ("--kind", "tree", "--figure", "x.png"),
            "tree requires a run of a fair tree on several machines, got fcfs",
        ),
    ],
)
def test_invalid_arguments_are_rejected(
    result_files: Path, tmp_path: Path, monkeypatch, arguments: tuple, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = invoke("plot", result_files / "fcfs.npz", *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "") and message in answer.stderr, answer.output
    assert answer.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


def test_repeated_results_are_rejected(result_files: Path) -> None:
    file = result_files / "fcfs.npz"
    answer = invoke("plot", file, file, "--kind", "series", "--figure", result_files / "x.png")
    assert answer.exit_code == 2 and f"PATH must name each file once, got {file} twice" in answer.stderr
