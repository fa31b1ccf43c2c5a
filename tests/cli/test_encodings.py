"""Characters that standard output cannot encode are escaped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gridsim as gs

pytestmark = pytest.mark.slow

ROOT = str(Path(gs.__file__).parents[1])
SMALL = ["--nodes", "5", "--applications", "2", "--scheduler", "fcfs", "--no-progress"]
#: A file name that is not valid UTF-8, as decoded by os.fsdecode.
ODD = "r\udcff.npz"


def command_output(encoding: str, *arguments: str, folder: Path) -> str:
    process = subprocess.run(
        [sys.executable, "-m", "gridsim", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert process.returncode == 0 and process.stderr == b"", process
    return process.stdout.decode(encoding.partition(":")[0])


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8")
def test_file_names_may_be_invalid_utf_8(tmp_path: Path) -> None:
    """Standard output is strict in most locales."""
    utf8 = "utf-8:strict"
    assert command_output(utf8, "run", *SMALL, "--record", "--out", ODD, folder=tmp_path).endswith(
        "r\\udcff.npz\n"
    )
    assert command_output(utf8, "validate", ODD, folder=tmp_path).startswith("r\\udcff.npz: ")
    for out, command in {
        "o\udcff.png": ["plot", ODD, "--kind", "distribution", "--figure"],
        "o\udcff.html": ["report", ODD, "--out"],
    }.items():
        assert "o\\udcff." in command_output(utf8, *command, out, folder=tmp_path)
        assert (tmp_path / out).exists()
    answer = command_output(utf8, "validate", ODD, "--json", folder=tmp_path)
    assert json.loads(answer)["file"] == ODD


@pytest.mark.skipif(sys.platform == "win32", reason="how a process gets its arguments")
@pytest.mark.parametrize(
    ("encoding", "name", "shown"),
    [
        ("latin-1", "日本.npz", "\\u65e5\\u672c.npz"),
        ("cp1252", "é日.npz", "é\\u65e5.npz"),
        ("cp1251", "é😀.npz", "\\u00e9\\ud83d\\ude00.npz"),  # JSON has no escapes \x and \U
        ("utf-8", "é日😀.npz", "é日😀.npz"),
    ],
)
def test_characters_missing_in_an_encoding_are_escaped(
    encoding: str, name: str, shown: str, tmp_path: Path
) -> None:
    assert command_output(encoding, "run", *SMALL, "--out", name, folder=tmp_path).endswith(f" {shown}\n")
    answer = command_output(encoding, "run", *SMALL, "--out", name, "--json", folder=tmp_path)
    assert shown in answer and json.loads(answer)["file"] == name
    assert gs.Result.load(tmp_path / name).digest == json.loads(answer)["digest"]


STUDY = """
schedulers = ["fcfs"]
replicates = 1
[scenario]
seed = 1
platform = {kind = "equal", nodes = 3}
workload = {kind = "bags", seed = 1, applications = 2}
[over."λ"]
"→" = {"platform.nodes" = 3}
"""


def test_axis_names_of_a_sweep_are_escaped(tmp_path: Path) -> None:
    """Columns of tables have ASCII names."""
    (tmp_path / "s.toml").write_text(STUDY, encoding="utf-8")
    sweep = ["sweep", "s.toml", "--workers", "1", "--no-progress"]
    text = command_output("latin-1", *sweep, folder=tmp_path)
    assert "\n  \\u03bb  scheduler" in text and "\n  \\u2192  fcfs" in text
    (cell,) = json.loads(command_output("latin-1", *sweep, "--json", folder=tmp_path))["cells"]
    assert cell["_"] == "→"
