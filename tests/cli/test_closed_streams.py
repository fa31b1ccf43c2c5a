"""Commands whose standard streams were closed before Python started: files are written, losses reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gridsim as gs
from gridsim.support.progress import bar

ROOT = str(Path(gs.__file__).parents[1])
SMALL = ["--nodes", "5", "--applications", "2"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="how a shell closes them")


def command(closed: str, *arguments: str, folder: Path) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a command."""
    process = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "gridsim", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
    )
    return process.returncode, process.stdout, process.stderr


@pytest.mark.slow
def test_commands_work_without_standard_error(tmp_path: Path) -> None:
    run = ["run", *SMALL, "--checkpoint", "kept", "--checkpoint-every", "0"]
    for arguments in (
        [*run, "--out", "run.npz", "--progress"],
        ["resume", "kept", "--out", "resumed.npz"],
        ["compare", *SMALL, "--schedulers", "fcfs,met", "--out", "both"],
        [
            "compare",
            *SMALL,
            "--schedulers",
            "fcfs,met",
            "--replicates",
            "2",
            "--workers",
            "2",
            "--store",
            "st",
        ],
    ):
        code, out, _ = command("2>&-", *arguments, folder=tmp_path)
        assert code == 0 and out
    digests = {gs.Result.load(tmp_path / name).digest for name in ("run.npz", "resumed.npz")}
    assert len(digests) == 1 and len([*(tmp_path / "both").iterdir()]) == 2


def test_a_closed_standard_output_is_an_error(tmp_path: Path) -> None:
    """The command is executed nevertheless, and its files are written."""
    output = "gridsim: standard output: Bad file descriptor\n"
    assert command(">&-", "run", *SMALL, "--out", "run.npz", folder=tmp_path) == (2, "", output)
    assert command("<&- >&- 2>&-", "run", *SMALL, "--out", "other.npz", folder=tmp_path) == (2, "", "")
    assert gs.Result.load(tmp_path / "run.npz").digest == gs.Result.load(tmp_path / "other.npz").digest
    assert command(">&-", "--version", folder=tmp_path) == (2, "", output)


def test_progress_bar_is_omitted_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert bar(True, 3, "runs") is None and bar("force", 3, "runs") is None
