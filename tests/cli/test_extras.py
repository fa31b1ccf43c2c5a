"""Errors on missing extras, and progress bars."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import gridsim as gs
from gridsim.cli.output import progress_of
from gridsim.support import progress
from gridsim.support.imports import MissingExtra, import_extra

pytestmark = pytest.mark.slow

ROOT = str(Path(gs.__file__).parent.parent)


def run_without_module(module, code, folder):
    """Run `code` in a process in which `module` is not installed."""
    hidden = f"import sys; sys.modules[{module!r}] = None\n{code}"
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, env=environment, cwd=folder
    )


TABLE = "from gridsim import Table; Table({'x': [1]})"


@pytest.mark.parametrize(
    ("module", "extra", "code"),
    [
        ("pandas", "data", f"{TABLE}.to_pandas()"),
        ("pyarrow", "data", f"{TABLE}.to_arrow()"),
        ("xarray", "data", f"{TABLE}.to_xarray()"),
        ("scipy", "stats", "from gridsim.results.metrics.estimates import estimate; estimate([1.0, 2.0])"),
        ("matplotlib", "plot", "from gridsim.plots import figure; figure()"),
        ("plotly", "report", "from gridsim import write_report; write_report({}, 'x.html')"),
        ("jinja2", "report", "from gridsim import write_report; write_report({}, 'x.html')"),
        ("hypothesis", "testing", "from gridsim.testing import queues"),
        ("matplotlib", "plot", "from gridsim import plots; plots.scaling([1, 2], {'a': [1.0, 2.0]})"),
    ],
)
def test_a_missing_extra_is_named_in_the_error(module, extra, code, tmp_path):
    answer = run_without_module(module, code, tmp_path)
    last = answer.stderr.splitlines()[-1]
    assert answer.returncode == 1
    assert last.endswith(f' needs {module}: pip install "gridsched[{extra}]"') and "MissingExtra: " in last


REPRODUCE = "reproduce celaya-fig4b --out x"


@pytest.mark.parametrize(
    ("module", "arguments", "line"),
    [
        ("scipy", REPRODUCE, 'reproduce needs scipy: pip install "gridsched[stats]"\n'),
        (
            "matplotlib",
            REPRODUCE,
            'reproduce --out needs matplotlib: pip install "gridsched[plot]"\n',
        ),
        ("plotly", "run --report x.html", '--report needs plotly: pip install "gridsched[report]"\n'),
        ("jinja2", "report x --out x.html", '--out needs jinja2: pip install "gridsched[report]"\n'),
    ],
)
def test_a_missing_extra_is_one_line_on_stderr(module, arguments, line, tmp_path):
    code = f"from gridsim.cli.main import main; sys.argv[1:] = {arguments.split()}; main()"
    answer = run_without_module(module, code, tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", f"gridsim: {line}")


def test_a_broken_module_is_not_reported_as_a_missing_extra(monkeypatch, tmp_path):
    (tmp_path / "broken_module.py").write_text("import a_module_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has") as excinfo:
        import_extra("broken_module", "data", "x")
    assert not isinstance(excinfo.value, MissingExtra)
    assert import_extra("os.path", "data", "x") is os.path


# -- progress ---------------------------------------------------------------------------------------------


class Stream(io.StringIO):
    """A standard error stream that may be a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def stderr(monkeypatch):
    def become(terminal):
        stream = Stream(terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    return become


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that is set by hand: ``clock.now = 5.0``."""
    fake_clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: fake_clock.now)
    return fake_clock


def test_terminal_shows_a_progress_bar(stderr, clock):
    for expected in (True, "force"):
        stream = stderr(terminal=True)
        with progress.bar(expected, 3, "runs", "title") as bar:
            clock.now += 1
            bar.move(1, lambda: "a note")
            bar.move(2, lambda: pytest.fail("too soon for a look"))
            bar.move(3)
        displayed = stream.getvalue().split("\r")
        assert "title:" in displayed[1] and any("1/3" in item and "a note" in item for item in displayed)
        assert "3/3" in displayed[-1] and not any("2/3" in item for item in displayed)
    stream = stderr(terminal=True)
    assert progress.bar(False, 3, "runs") is None and stream.getvalue() == ""


def test_progress_in_a_log_has_a_line_per_ten_seconds_and_a_last_one(stderr, clock):
    stream = stderr(terminal=False)
    assert progress.bar(True, 3, "runs") is None
    with progress.bar("force", 9, "runs", "title") as bar:
        for completed, clock.now in ((1, 9.0), (2, 11.0), (3, 12.0), (4, 20.9), (5, 21.0), (6, 22.0)):
            bar.move(completed, lambda: "a note")
        clock.now = 23.0
    assert stream.getvalue() == (
        "title: 2/9 runs after 11 s, a note\n"
        "title: 5/9 runs after 21 s, a note\n"
        "title: 6/9 runs after 23 s, a note\n"
    )


@pytest.mark.parametrize("widgets", [True, False])
def test_notebook_shows_its_own_progress_bar(stderr, monkeypatch, widgets):
    stream, updates = stderr(terminal=False), []
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "ipywidgets", ModuleType("ipywidgets") if widgets else None)
    sample = SimpleNamespace(
        n=0, update=updates.append, refresh=lambda: None, close=lambda: updates.append("end")
    )
    monkeypatch.setitem(sys.modules, "tqdm.notebook", SimpleNamespace(tqdm=lambda **_: sample))
    assert list(progress.with_progress("ab", True, 2, "runs")) == ["a", "b"]
    assert updates[-1:] == (["end"] if widgets else [])
    assert ("2/2" in stream.getvalue()) == (not widgets)
    shell.config = {}  # IPython in a shell has no such configuration
    assert progress.bar(True, 2, "runs") is None


def test_progress_bar_yields_its_entries_unchanged(stderr):
    stream = stderr(terminal=False)
    assert list(progress.with_progress([5, 6], "force", 2, "runs")) == [5, 6]
    assert stream.getvalue() == "2/2 runs after 0 s\n"
    assert (
        list(progress.with_progress([5, 6], True, 2, "runs")) == [5, 6] and stream.getvalue().count("\n") == 1
    )


def test_invalid_progress_is_rejected():
    with pytest.raises(gs.ScenarioError, match="^progress"):
        progress.bar("yes", 1, "runs")


@pytest.mark.parametrize(
    ("expected", "as_json", "arguments"),
    [
        (None, False, True),
        (None, True, False),
        (True, False, "force"),
        (True, True, "force"),
        (False, False, False),
        (False, True, False),
    ],
)
def test_json_output_hides_progress_by_default(expected, as_json, arguments):
    assert progress_of(expected, as_json) == arguments


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("flags", [(), ("--json",), ("--json", "--progress")])
def test_commands_show_a_progress_bar_on_a_terminal(flags, tmp_path):
    import pty
    import termios

    mine, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [sys.executable, "-m", "gridsim", "run", "--nodes", "5", "--applications", "3", *flags]
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "PYTHONPATH": ROOT}, cwd=tmp_path
    )
    os.close(theirs)
    displayed = b""
    with suppress(OSError):  # raised at the end, since no process has the terminal open
        while more := os.read(mine, 4096):
            displayed += more
    os.close(mine)
    assert process.returncode == 0 and (flags == ("--json",)) == (b"3/3" not in displayed)
    if flags:
        json.loads(process.stdout)
