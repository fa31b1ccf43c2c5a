"""If the disk is full or fails, the error has one line, and the old file is unchanged."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.support import files as records

pytestmark = pytest.mark.slow

RUN = ["run", "--nodes", "30", "--applications", "6"]
COMPARE = ["compare", "--nodes", "20", "--applications", "4", "--schedulers", "fcfs,met", "--workers", "1"]
REPLICAS = [*COMPARE, "--replicates", "2"]
#: Commands that write to the file FILE; RESULT is a recorded result, SWEEP a sweep.
WRITERS = {
    "result": [*RUN, "--out", "FILE"],
    "scenario": [*RUN, "--save-scenario", "FILE"],
    "report": [*RUN, "--report", "FILE.html"],
    "results": [*COMPARE, "--out", "FILE.d"],
    "store": [*REPLICAS, "--store", "FILE.d"],
    "figure, png": [*REPLICAS, "--figure", "FILE.png"],
    "figure, svg": [*REPLICAS, "--figure", "FILE.svg"],
    "table, csv": ["sweep", "SWEEP", "--store", "STORE", "--workers", "1", "--out", "FILE.csv"],
    "table, parquet": ["sweep", "SWEEP", "--store", "STORE", "--workers", "1", "--out", "FILE.parquet"],
    "schema": ["schema", "--out", "FILE"],
    "swf": ["export", "RESULT", "--format", "swf", "--out", "FILE"],
    "perfetto": ["export", "RESULT", "--format", "perfetto", "--out", "FILE"],
    "report of a result": ["report", "RESULT", "--out", "FILE.html"],
}


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments))


def environment(unbuffered: str) -> dict[str, str]:
    """Return the environment of a command, with buffered output ("", the default) or not ("1")."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": unbuffered}


@pytest.fixture(scope="module")
def stored_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make a result, a sweep and its store."""
    folder = tmp_path_factory.mktemp("stored_files")
    result, scenario, sweep = (str(folder / name) for name in ("r.npz", "s.toml", "sweep.toml"))
    assert invoke(*RUN, "--record", "--out", result, "--save-scenario", scenario).exit_code == 0
    Path(sweep).write_text(
        'scenario = "s.toml"\nschedulers = ["fcfs", "met"]\nreplicates = 2\n'
        '[over]\n"workload.interarrival" = [1.0, 10.0]\n'
    )
    store = str(folder / "store")
    assert invoke("sweep", sweep, "--store", store, "--workers", "1").exit_code == 0
    return {"RESULT": result, "SWEEP": sweep, "STORE": store}


@pytest.fixture
def full_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a small file system, which `fill` fills with a file ``filler``."""
    folder = tmp_path / "full"
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    (folder / "filler").write_bytes(b"")
    with pytest.raises(OSError, match="No space left"), open(folder / "filler", "ab", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def check_failed_write(command: list[str], folder: Path, stored_files: dict[str, str], reason: str) -> None:
    """Assert that a writer fails with one line, and leaves an old file alone."""
    target = [word for word in command if word.startswith("FILE")][0].replace("FILE", str(folder / "file"))
    before = sorted(folder.rglob("*"))
    words = [stored_files.get(word, word.replace("FILE", str(folder / "file"))) for word in command]
    answer = invoke(*words)
    assert answer.exit_code == 2, answer.output
    assert answer.stderr.count("\n") == 1 and answer.stderr.startswith(f"gridsim: {target}")
    assert answer.stderr.rstrip().endswith(reason)
    left = [path for path in sorted(folder.rglob("*")) if path not in before]
    assert [path for path in left if not path.is_dir()] == []


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_old_file(what: str, full_folder: Path, stored_files: dict[str, str]) -> None:
    for old in ("file", "file.html", "file.png", "file.svg", "file.csv", "file.parquet"):
        (full_folder / old).write_text("old")
    fill(full_folder)
    check_failed_write(WRITERS[what], full_folder, stored_files, "No space left on device")
    assert (
        (full_folder / "file").read_text()
        == (full_folder / "file.html").read_text()
        == (full_folder / "file.csv").read_text()
        == "old"
    )


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(
    call: str, number: int, tmp_path: Path, stored_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system call that writes the content or the file name to the disk fails."""

    def fails(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(records.os, call, fails)
    for what in ("result", "schema", "swf"):
        check_failed_write(WRITERS[what], tmp_path, stored_files, os.strerror(number))
    assert (tmp_path / "file").read_text() == "old"


def test_the_first_error_is_raised_if_cleaning_up_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error during clean-up must not replace the first error."""

    def failing(number: int) -> Callable[..., None]:
        def fails(*_: Any) -> None:
            raise OSError(number, os.strerror(number))

        return fails

    monkeypatch.setattr(records.os, "fsync", failing(errno.EIO))
    monkeypatch.setattr(records.os, "unlink", failing(errno.EROFS))
    with pytest.raises(OSError, match="Input/output error"), records.atomic_file(tmp_path / "file") as stream:
        stream.write(b"new")


@pytest.mark.skipif(sys.platform == "win32", reason="has no RLIMIT_FSIZE")
def test_a_limit_of_file_size_leaves_the_old_file(tmp_path: Path, stored_files: dict[str, str]) -> None:
    import resource

    (tmp_path / "file").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        for what in ("result", "schema", "perfetto"):
            check_failed_write(WRITERS[what], tmp_path, stored_files, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="has no RLIMIT_NOFILE")
def test_too_many_open_files_are_an_error_and_leave_no_file(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with (
            pytest.raises(OSError, match="Too many open files.*file"),
            records.atomic_file(tmp_path / "file"),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_files_with_the_longest_names_are_written(tmp_path: Path) -> None:
    """Temporary names must not exceed the longest possible name."""
    for name in ("a" * 255, "\N{GREEK SMALL LETTER ALPHA}" * 127, "a" * 230):
        with records.atomic_file(tmp_path / name) as stream:
            stream.write(b"all")
        assert (tmp_path / name).read_bytes() == b"all"
        leftover = tmp_path / f".{records._short_name(name)}.0123456789ab.tmp"
        leftover.write_bytes(b"half")
        records.remove_leftovers(tmp_path / name)
        assert not leftover.exists()
    with pytest.raises(OSError, match="too long"), records.atomic_file(tmp_path / ("a" * 256)):
        pass


def test_the_error_of_a_removed_folder_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FileNotFoundError) as actual, records.atomic_file(folder / "file") as stream:
        for entry in folder.iterdir():
            entry.unlink()
        folder.rmdir()
        stream.write(b"new")
    assert actual.value.filename == str(folder / "file")


def test_a_run_continues_if_the_disk_has_no_room_for_its_checkpoint(full_folder: Path) -> None:
    fill(full_folder)
    file = str(full_folder / "file")
    answer = invoke(*RUN, "--checkpoint", file, "--checkpoint-every", "0")
    assert answer.exit_code == 0 and sorted(os.listdir(full_folder)) == ["filler"]
    message = f"{file}: no checkpoint could be written (No space left on device); the run continues"
    assert answer.stderr == f"gridsim: warning: {message}\n"


@pytest.mark.parametrize("keep", [[], ["--keep-results"]])
def test_a_sweep_continues_when_the_disk_has_room_again(
    keep: list[str], full_folder: Path, stored_files: dict[str, str]
) -> None:
    """Wherever the disk was full, the stored runs are valid, and all are there at the end."""
    command = ["sweep", stored_files["SWEEP"], "--store", str(full_folder / "st"), "--workers", "1", *keep]
    for free in (20, 32, 44):
        fill(full_folder)
        os.truncate(full_folder / "filler", (64 - free) << 10)
        answer = invoke(*command)
        assert answer.exit_code in (0, 1, 2) and "Traceback" not in answer.output
        assert not [path for path in full_folder.rglob("*") if path.name.endswith(".tmp")]
        subprocess.run(["mount", "-o", "remount,size=1m", full_folder], check=True)
        before = len(gs.Store(full_folder / "st"))
        assert invoke(*command).exit_code == 0
        after = gs.Store(full_folder / "st")
        assert len(after) == 8 >= before and not any(after.to_arrow()["error"].to_pylist())
        shutil.rmtree(full_folder / "st")
        os.truncate(full_folder / "filler", 0)
        subprocess.run(["mount", "-o", "remount,size=64k", full_folder], check=True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.parametrize("command", [["--version"], ["--help"], ["schema"], ["run", "--help"], RUN])
@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_unwritable_output_ends_a_command_with_code_2(
    command: list[str], tells: bool, unbuffered: str, tmp_path: Path
) -> None:
    """The exit code is 2, with a line if standard error is writable."""
    with open("/dev/full", "w") as nowhere:
        process = subprocess.run(
            [sys.executable, "-m", "gridsim", *command],
            stdout=nowhere,
            stderr=subprocess.PIPE if tells else nowhere,
            env=environment(unbuffered),
            cwd=tmp_path,
            text=True,
        )
    assert process.returncode == 2
    assert not tells or process.stderr == "gridsim: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_run_continues_if_progress_cannot_be_written(unbuffered: str, tmp_path: Path) -> None:
    with open("/dev/full", "w") as nowhere:
        process = subprocess.run(
            [sys.executable, "-m", "gridsim", *RUN, "--progress"],
            stdout=subprocess.PIPE,
            stderr=nowhere,
            env=environment(unbuffered),
            cwd=tmp_path,
            text=True,
        )
    assert process.returncode == 0 and "digest" in process.stdout
