"""The sdist has the same bytes wherever and whenever it is built from the same files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / ".git").exists():
    pytest.skip("the copy is not a checkout of git", allow_module_level=True)
for module, version in (("Cython", "3.2.1"), ("setuptools", "77")):
    pytest.importorskip(
        module, version, reason=f"{module} >= {version}, which builds gridsim, is not installed"
    )


def sdist_of_copy(folder: Path, *, umask: int, time: int) -> bytes:
    """Copy the files of git, changed at `time`, and return the sdist that is built there."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in (each for each in names.stdout.split("\0") if (ROOT / each).is_file()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
        os.utime(folder / name, (time, time))
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "sdist"],
        cwd=folder,
        env=environment,
        umask=umask,
        check=True,
        capture_output=True,
    )
    (file,) = (folder / "dist").iterdir()
    return file.read_bytes()


def test_an_sdist_depends_on_its_files_alone(tmp_path: Path) -> None:
    first = sdist_of_copy(tmp_path / "one", umask=0o022, time=1_600_000_000)
    second = sdist_of_copy(tmp_path / "another" / "folder", umask=0o077, time=1_700_000_000)
    assert first == second
