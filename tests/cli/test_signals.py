"""SIGINT and SIGTERM give one line and an exit code, at any time and in any number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gridsim as gs

ROOT = str(Path(gs.__file__).parents[1])
SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
each_signal = pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def python(
    *arguments: str, folder: Path, handled: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with default handlers of both signals, or with both ignored."""

    def set_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL if handled else signal.SIG_IGN)

    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=set_signals,
    )


RUN = ["-m", "gridsim", "run", "--nodes", "9", "--applications", "5", "--scheduler", "mine:Mine"]

MANY = """
import atexit, os

def send():
    os.kill(os.getpid(), {number})

atexit.register(send)  # runs after the command has ended
try:
    send()
finally:  # while the command ends
    try:
        send()
        send()
    except BaseException:
        os._exit(7)
"""


@each_signal
def test_only_the_first_signal_raises(tmp_path: Path, number: int, code: int, word: str) -> None:
    (tmp_path / "mine.py").write_text(MANY.format(number=int(number)))
    answer = python(*RUN, folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", f"gridsim: {word}\n")


@each_signal
def test_a_signal_within_exec_ends_the_command(tmp_path: Path, number: int, code: int, word: str) -> None:
    """Python itself would end with SIGINT after a plain KeyboardInterrupt in an ``exec``."""
    (tmp_path / "mine.py").write_text(f"exec('import os; os.kill(os.getpid(), {int(number)})')")
    answer = python(*RUN, folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", f"gridsim: {word}\n")


LAST = """
import atexit, os, signal, sys
from gridsim.cli.signals import install_handlers
atexit.register(os.kill, os.getpid(), {number})  # runs after the functions of gridsim
install_handlers()
"""


@each_signal
def test_a_signal_at_exit_has_no_effect(tmp_path: Path, number: int, code: int, word: str) -> None:
    """At exit Python restores the default action of signals."""
    answer = python("-c", LAST.format(number=int(number)), folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


HANGS = """
import os, time
from gridsim.cli import signals

def send():
    os.kill(os.getpid(), {number})

try:
    send()
finally:
    send()
    assert signals.PATIENCE > 1
    signals.PATIENCE = 0.0
    time.sleep(0.01)
    send()
    time.sleep(60)
"""


@each_signal
def test_a_late_second_signal_ends_the_process(tmp_path: Path, number: int, code: int, word: str) -> None:
    (tmp_path / "mine.py").write_text(HANGS.format(number=int(number)))
    answer = python(*RUN, folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", f"gridsim: {word}\n")


#: A replacement of a module that is imported early.
IMPORTED = """
import os
try:
    os.kill(os.getpid(), {number})
except BaseException:  # as in some modules around their imports
    pass
raise ImportError("by halves")
"""


@each_signal
def test_a_signal_during_imports_ends_the_process(tmp_path: Path, number: int, code: int, word: str) -> None:
    (tmp_path / "click.py").write_text(IMPORTED.format(number=int(number)))
    answer = python(*RUN, folder=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", f"gridsim: {word}\n")


SENT = """
import os, gridsim as gs
os.kill(os.getpid(), {number})

class Mine(gs.Fcfs, frozen=True, kw_only=True):
    name = "mine"
"""


@each_signal
def test_ignored_signals_stay_ignored(tmp_path: Path, number: int, code: int, word: str) -> None:
    """Signals are ignored under nohup, and in the background of a shell."""
    (tmp_path / "mine.py").write_text(SENT.format(number=int(number)))
    answer = python(*RUN, folder=tmp_path, handled=False)
    assert (answer.returncode, answer.stderr) == (0, "") and "digest" in answer.stdout
