"""Checkpoints in the command line; tests/invariants/test_checkpoints.py compares resumed runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.simulation.checkpoint import CheckpointWriter
from gridsim.support.state import pack

pytestmark = pytest.mark.slow

SMALL = ["--nodes", 9, "--applications", 5, "--no-progress"]


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture
def checkpoint_and_answer(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a checkpoint of a completed run, and the JSON answer of the run."""
    file = tmp_path / "run.checkpoint"
    answer = invoke("run", *SMALL, "--checkpoint", file, "--checkpoint-every", 0, "--json")
    assert answer.exit_code == 0, answer.stderr
    return file, json.loads(answer.stdout)


def test_a_resumed_run_prints_the_same_answer(
    checkpoint_and_answer: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    file, message = checkpoint_and_answer
    copy = json.loads(invoke("resume", file, "--out", tmp_path, "--json").stdout)
    differ = {"wall_seconds", "peak_memory", "provenance", "file"}
    assert {key: copy[key] for key in set(copy) - differ} == {
        key: message[key] for key in set(message) - differ
    }
    assert copy["provenance"]["resumed"] == 1
    assert copy["file"] == str(tmp_path / "fair-tree.npz")
    assert gs.Result.load(copy["file"]).digest == message["digest"]
    text = invoke("resume", file)
    assert text.exit_code == 0 and message["digest"] in text.stdout and "max stretch" in text.stdout


def test_the_default_checkpoint_is_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("run", *SMALL, "--checkpoint-every", 0).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["gridsim.checkpoint"]
    # the default interval of 600 s is longer than the run
    assert invoke("run", *SMALL, "--checkpoint", "other").exit_code == 0
    assert not Path("other").exists()


def test_a_checkpoint_of_another_run_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is kept even if its run has ended; a repeated run replaces its own checkpoint."""
    monkeypatch.chdir(tmp_path)
    assert invoke("run", *SMALL, "--checkpoint-every", 0).exit_code == 0
    file = Path("gridsim.checkpoint")
    before = file.read_bytes()
    for other in (
        ["--seed", 2],
        ["--scheduler", "fcfs"],
        ["--set", "fair-tree.bound=2.5"],
        ["--time-limit", 1e9],
    ):
        refused = invoke("run", *SMALL, *other, "--checkpoint-every", 0)
        assert refused.exit_code == 2 and refused.stdout == ""
        message = "checkpoint must not be gridsim.checkpoint, which has another run, of fair-tree after "
        assert message in refused.stderr and "name another file, or remove that one" in refused.stderr
        assert refused.stderr.count("\n") == 1 and file.read_bytes() == before
    assert invoke("run", *SMALL, "--threads", 2, "--checkpoint-every", 0).exit_code == 0
    assert file.read_bytes() != before
    file.write_bytes(before[:1000])  # a damaged checkpoint is replaced
    assert invoke("run", *SMALL, "--seed", 2, "--checkpoint-every", 0).exit_code == 0
    assert invoke("resume", file).exit_code == 0


def test_simultaneous_runs_do_not_share_a_checkpoint(
    checkpoint_and_answer: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another run replaces the file, a warning is written and the run continues."""
    other, _ = checkpoint_and_answer
    content, file = other.read_bytes(), other.parent / "gridsim.checkpoint"
    calls = 0
    original_call = CheckpointWriter.__call__

    def replace_file_at_third_call(writer: CheckpointWriter) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            assert writer.has_run
            other.replace(file)
        original_call(writer)
        assert writer.has_run == (calls < 3)
        if calls == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointWriter, "__call__", replace_file_at_third_call)
    monkeypatch.chdir(other.parent)
    answer = invoke("run", *SMALL, "--seed", 2, "--checkpoint-every", 0)
    assert answer.exit_code == 130 and "the run is saved" not in answer.stderr
    assert (
        "gridsim.checkpoint: no checkpoint could be written (the file has another run, of fair"
        in answer.stderr
    )
    assert file.read_bytes() == content


@pytest.mark.parametrize("before", [None, b"a checkpoint with which nothing goes on"])
def test_the_first_of_two_runs_keeps_its_checkpoint(
    before: bytes | None, checkpoint_and_answer: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run starts while the first checkpoint is being written."""
    other, _ = checkpoint_and_answer
    content, file = other.read_bytes(), other.parent / "gridsim.checkpoint"
    if before is not None:
        file.write_bytes(before)

    def replace_slowly(entry: Any, put_aside: Any) -> Any:
        file.write_bytes(content)
        return pack(entry, put_aside)

    monkeypatch.setattr("gridsim.simulation.checkpoint.pack", replace_slowly)
    monkeypatch.chdir(other.parent)
    answer = invoke("run", *SMALL, "--seed", 2, "--checkpoint-every", 0)
    assert answer.exit_code == 0
    output = answer.stderr.splitlines()
    assert "no checkpoint could be written (another process has replaced the file)" in output[0]
    assert "has another run" in output[1]
    assert file.read_bytes() == content
    assert sorted(path.name for path in other.parent.iterdir()) == [
        "gridsim.checkpoint",
        other.name,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", *SMALL, "--checkpoint", "a", "--out", "a"],
            "--out and --checkpoint must name different files, got a for both",
        ),
        (["run", *SMALL, "--checkpoint", "none/a"], "none: no such folder"),
        (["run", *SMALL, "--checkpoint", "folder"], "--checkpoint must be a regular file, got folder"),
        (["run", *SMALL, "--checkpoint", ""], "--checkpoint must name a file, got ''"),
        (
            ["run", *SMALL, "--checkpoint-every", "-1"],
            "checkpoint_every must be a finite number >= 0 s, got -1.0",
        ),
        (["run", *SMALL, "--checkpoint-every", "soon"], "'soon' is not a valid float"),
        (["resume", "none"], "none: No such file or directory"),
        (["resume", "folder"], "folder: Is a directory"),
        (["resume", "text"], "text: not a valid checkpoint"),
        (["resume", "result"], "result: not a valid checkpoint"),
        (["resume", "good", "--out", "none/a"], "none: no such folder"),
        (
            ["resume", "good", "--out", "./good"],
            "CHECKPOINT and --out must name different files, got ./good for both",
        ),
        (["resume", "good", "--threads", "0"], "threads must be"),
        (
            ["resume", "good", "--scheduler", "os:system"],
            "--scheduler must be gridsim:",
        ),
    ],
)
def test_errors_of_resume_have_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text").write_text("hello")
    for more in (["--out", "result"], ["--checkpoint", "good", "--checkpoint-every", "0"]):
        assert invoke("run", *SMALL, *more).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    answer = invoke(*arguments)
    assert answer.exit_code == 2 and answer.stdout == "" and answer.stderr.count("\n") == 1
    assert message in answer.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


MINE = """
import gridsim as gs

class Mine(gs.Fcfs, frozen=True, kw_only=True):
    name = "mine"
"""


def test_a_user_scheduler_is_resumed(tmp_path: Path) -> None:
    """The scheduler is imported only if `--scheduler` names it."""
    (tmp_path / "mine.py").write_text(MINE)

    def command(*arguments: object) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "gridsim", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{Path(gs.__file__).parents[1]}{os.pathsep}{tmp_path}"},
            capture_output=True,
            text=True,
        )

    run = command("run", *SMALL, "--scheduler", "mine:Mine", "--checkpoint-every", 0, "--json")
    assert run.returncode == 0, run.stderr
    without = command("resume", "gridsim.checkpoint")
    assert without.returncode == 2 and "add --scheduler mine:Mine to import it" in without.stderr
    named = command("resume", "gridsim.checkpoint", "--scheduler", "mine:Mine", "--json")
    assert json.loads(named.stdout)["digest"] == json.loads(run.stdout)["digest"]


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_interrupted_run_names_its_checkpoint(tmp_path: Path, number: int, code: int, word: str) -> None:
    command = [
        "run",
        "--nodes",
        "2000",
        "--checkpoint",
        "kept",
        "--checkpoint-every",
        "0",
        "--out",
        "r.npz",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "gridsim", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # as in a shell, even if the tests ignore signals
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    # the run writes checkpoints for minutes; when it writes the second, the first is complete
    seen: set[int] = set()
    while len(seen) < 2:
        assert process.poll() is None
        seen |= {path.stat().st_ino for path in tmp_path.glob("kept")}
        time.sleep(0.001)
    process.send_signal(number)
    out, errors = process.communicate()
    assert process.returncode == code and out == ""
    assert errors == f"gridsim: {word}; the run is saved in kept: gridsim resume continues it\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


LOST = """
import os, signal, time

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), {number})

Finalized()
time.sleep(20)
"""


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_in_a_finalizer_is_not_lost(tmp_path: Path, number: int, code: int, word: str) -> None:
    """Python discards exceptions of finalizers, which often run while checkpoints are written."""
    (tmp_path / "mine.py").write_text(LOST.format(number=int(number)))
    process = subprocess.run(
        [sys.executable, "-m", "gridsim", "run", *map(str, SMALL), "--scheduler", "mine:Mine"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(gs.__file__).parents[1]}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (process.returncode, process.stdout, process.stderr) == (code, "", f"gridsim: {word}\n")
