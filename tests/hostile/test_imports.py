"""Files never import code: neither scenarios and sweeps nor results and checkpoints."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridcore
import gridsim
import gridsim as gs
from gridsim.cli.commands.repro import reproduce_result
from gridsim.cli.main import cli
from gridsim.support.imports import first_code_name

pytestmark = pytest.mark.slow

GOOD = "def first(tasks):\n    return 0\n"
#: Content of the module when the file is read; importing it creates a file.
TRAP = "open('sprung', 'w').close()\n" + GOOD
SCENARIO = gs.Scenario(
    gs.Platform.desktop_grid(nodes=8, seed=1),
    gs.Workload.bags(3, interarrival=4.0, tasks_per_node=2.0, task_size=3000.0, seed=2),
    seed=3,
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a result and a checkpoint that name a function of the module `trap`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    trap = tmp_path / "trap.py"
    trap.write_text(GOOD)
    SCENARIO.save("scenario.toml")
    scheduler = gs.WqrFt(task_order="trap:first")
    result = gs.simulate(SCENARIO, scheduler, record="all", checkpoint="run.checkpoint", checkpoint_every=0)
    result.save("run.gridsim")
    del sys.modules["trap"]
    trap.write_text(TRAP)
    yield tmp_path
    sys.modules.pop("trap", None)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli, arguments)


def is_unimported(folder: Path) -> bool:
    return not (folder / "sprung").exists() and "trap" not in sys.modules


@pytest.mark.parametrize(
    "command",
    [
        ("repro", "run.gridsim"),
        ("resume", "run.checkpoint"),
        # the flag allows the class, but not the function that its parameter names
        ("repro", "run.gridsim", "--scheduler", "gridsim.schedulers.wqr.scheduler:WqrFt"),
        (
            "resume",
            "run.checkpoint",
            "--scheduler",
            "gridsim.schedulers.wqr.scheduler:WqrFt",
            "--import",
            "trap:other",
        ),
    ],
)
def test_code_named_by_a_run_is_imported_only_with_the_import_flag(
    files: Path, command: tuple[str, ...]
) -> None:
    answer = invoke(*command)
    assert (
        answer.exit_code == 2 and "task_order" in answer.stderr and "add --import trap:first" in answer.stderr
    )
    assert is_unimported(files)
    answer = invoke(*command, "--import", "trap:first")
    assert answer.exit_code == 0, answer.output
    assert not is_unimported(files)


def test_reproduce_and_resume_import_no_named_code(files: Path) -> None:
    with pytest.raises(gs.ScenarioError, match="trap:first.*task_order"):
        reproduce_result(gs.Result.load("run.gridsim"))
    with pytest.raises(gs.ScenarioError, match="trap:first.*task_order"):
        gs.resume("run.checkpoint")
    assert is_unimported(files)


@pytest.mark.parametrize(
    "command",
    [
        ("validate", "run.gridsim"),
        ("why", "run.gridsim", "0"),
        ("report", "run.gridsim", "--out", "report.html"),
        ("export", "run.gridsim", "--format", "batsim", "--out", "jobs.csv"),
    ],
)
def test_commands_that_read_a_result_import_nothing(files: Path, command: tuple[str, ...]) -> None:
    answer = invoke(*command)
    assert answer.exit_code == 0, answer.output
    assert is_unimported(files)


def test_a_report_shows_the_command_that_repeats_the_run(files: Path) -> None:
    invoke("report", "run.gridsim", "--out", "report.html")
    message = (files / "report.html").read_text()
    assert "gridsim repro run.gridsim --import trap:first" in message
    assert "--set WQR-FT.task_order=trap:first" in message


@pytest.mark.parametrize(
    "over",
    [
        '"schedulers.WQR-FT.task_order" = ["small", "trap:first"]',
        '[over.rule.mine]\n"schedulers.WQR-FT.task_order" = "trap:first"',
    ],
)
def test_a_sweep_file_never_imports_code(files: Path, over: str) -> None:
    table = over if over.startswith("[") else f"[over]\n{over}"
    (files / "sweep.toml").write_text(f'scenario = "scenario.toml"\nschedulers = ["WQR-FT"]\n{table}\n')
    answer = invoke("sweep", "sweep.toml", "--out", "runs.csv")
    assert (
        answer.exit_code != 0 and "must not name code that is not allowed, got 'trap:first'" in answer.stderr
    )
    assert is_unimported(files)


@pytest.mark.parametrize(
    "table",
    ['[schedulers."trap:Mine"]\nx = 1', '[schedulers.WQR-FT]\ntask_order = "trap:first"'],
)
@pytest.mark.parametrize("command", ["run", "compare", "ladder"])
def test_a_scenario_never_imports_code(files: Path, table: str, command: str) -> None:
    (files / "scenario.toml").write_text(f"{SCENARIO.to_toml()}\n{table}")
    answer = invoke(command, "scenario.toml")
    assert answer.exit_code != 0 and "a scenario never imports code" in answer.stderr
    assert is_unimported(files)


def test_names_of_code_are_found_at_any_depth() -> None:
    assert first_code_name({"a": [1, "b", ("c", "os:remove")]}) == "os:remove"
    assert first_code_name({"os:remove": 1}) == "os:remove"
    assert first_code_name(["small", 1.0, None, {"x": True}]) is None
    assert first_code_name(["a:b", {"x": ("c:d",)}], ["a:b"]) == "c:d"


# -- in the sources ---------------------------------------------------------------------------------------

#: Functions that turn data into code, or pickles into objects.
_MAKES_CODE = {
    "eval", "exec", "compile", "__import__", "loads", "load", "import_module", "Unpickler", "read_pickle",
    "literal_eval", "system", "popen",
}  # fmt: skip
#: Module and call -> reason why the call is safe.
_ALLOWED = {
    ("imports.py", "importlib.import_module"): "code that the user names in a call or on the command line",
    ("keys.py", "import_module"): "our packages, and the module of a scheduler that the user passes",
    ("registry.py", "importlib.import_module"): "our package of schedulers",
    ("extras.py", "import_module"): "libraries of extras",
    ("progress.py", "import_module"): "tqdm",
    ("__init__.py", "import_module"): "our modules, by the public names in them",
    ("reproduce.py", "import_module"): "our reproductions, by their names",
    ("state.py", "load"): "an array of a checkpoint, by its number",
    ("processes.py", "pickle.loads"): "messages from the parent process to its workers",
}
#: Calls of the same names that never run code.
_PLAIN = {
    "json.loads", "json.load", "tomllib.loads", "tomllib.load", "Result.load", "re.compile",
    "platform.system",
}  # fmt: skip


def _calls() -> set[tuple[str, str]]:
    actual = set()
    for package in (gridsim, gridcore):
        for path in Path(package.__file__).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    if called.rpartition(".")[2] in _MAKES_CODE and called not in _PLAIN:
                        actual.add((path.name, called))
    return actual


def test_only_the_allowed_calls_turn_data_into_code() -> None:
    assert _calls() == set(_ALLOWED)


#: Functions of numpy that read arrays from files, and modules that may call them.
_READS_ARRAYS = {
    "load", "read_array", "open_memmap", "memmap", "fromfile", "fromregex", "genfromtxt", "loadtxt",
    "NpzFile",
}  # fmt: skip
_READERS = {("jobs.py", "np.loadtxt"), ("fta.py", "np.loadtxt")}


def array_readers(source: str) -> dict[str, ast.Call | None]:
    """Return the functions of numpy in a module that read arrays -> the call, or None for other uses."""
    tree = ast.parse(source)
    numpys, actual = {"numpy"}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = (a.asname for a in node.names if a.asname and a.name.split(".")[0] == "numpy")
            numpys.update(names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numpy":
            numpys.update(a.asname or a.name for a in node.names)
            actual.update({f"from numpy {a.name}": None for a in node.names if a.name in _READS_ARRAYS})
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _READS_ARRAYS:
            name = ast.unparse(node)
            if name.split(".")[0] in numpys:
                actual[name] = calls.get(id(node))
    return actual


def test_arrays_are_never_read_from_pickles() -> None:
    """The module `archive` reads arrays in archives itself, from the bytes of plain numbers."""
    read, pickled = set(), []
    for package in (gridsim, gridcore):
        for path in Path(package.__file__).parent.rglob("*.py"):
            source = path.read_text()
            read.update((path.name, name) for name in array_readers(source))
            pickled += [
                (path.name, ast.unparse(node))
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.keyword) and node.arg == "allow_pickle"
                if ast.unparse(node.value) != "False"
            ]
    assert read == _READERS and not pickled


@pytest.mark.parametrize(
    "source",
    [
        "from numpy.lib.format import read_array\nread_array(f, allow_pickle=True)",
        "from numpy.lib.format import read_array as plain",
        "import numpy as x\nx.load(f)",
        "from numpy.lib import format as y\nread = y.read_array",
        "import numpy\nnumpy.fromfile(f, object)",
    ],
)
def test_the_check_detects_a_reader_of_pickles(source: str) -> None:
    assert array_readers(source)


SWEEP = """
scenario = "scenario.toml"
schedulers = ["fcfs"]
replicates = 2
"""
#: Modules that Python imports at the start of a worker, before its search path is set.
EARLY = ("multiprocessing", "pickle", "reprlib", "selectors", "signal", "struct", "threading", "_weakrefset")


@pytest.mark.parametrize(
    "command",
    [
        "compare --nodes 5 --applications 2 --replicates 2 --workers 2",
        "sweep sweep.toml --workers 2",
        "ladder --nodes 5 --applications 2 --replicates 2 --workers 2",
    ],
)
def test_workers_import_nothing_of_the_current_folder(command: str, tmp_path: Path) -> None:
    """Nor does the command itself, which is a script in another folder."""
    script = tmp_path / "bin" / "gridsim"
    script.parent.mkdir()
    script.write_text("from gridsim.__main__ import main\nif __name__ == '__main__':\n    main()\n")
    here = tmp_path / "here"
    here.mkdir()
    SCENARIO.save(here / "scenario.toml")
    (here / "sweep.toml").write_text(SWEEP)
    for name in EARLY:
        (here / f"{name}.py").write_text(f"open({name + '.sprung'!r}, 'w').close()\nraise ImportError\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    # workers load many libraries, so that the memory limit of a test is too small for them
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    process = subprocess.run(
        [sys.executable, script, *command.split()], cwd=here, env=environ, capture_output=True, text=True
    )
    assert not list(here.glob("*.sprung"))
    assert process.returncode == 0, process.stderr
