"""Code of users that is sent to other processes: modules, scripts and notebooks."""

from __future__ import annotations

import importlib
import linecache
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.scheduling import registry
from gridsim.studies.execution.keys import Keys
from gridsim.studies.execution.packing import SHARED_BYTES, Packer, Parcel, WorkerMismatch, call
from gridsim.studies.execution.user_code import UserCode
from gridsim.support.processes import Processes


def apply(function: Callable[[], Any]) -> Any:
    return function()


def packed(function: Any) -> tuple[Parcel, dict[str, Any]]:
    """Return the call of a user's function with the modules that it needs."""
    code = UserCode()
    code.add_metric("value", function)
    return Packer(code).pack(apply, function), code.modules


def result_of(parcel: Parcel, modules: dict[str, Any]) -> Any:
    assert pickle.loads(parcel.code) == modules
    return call(parcel).result()


def imported(folder: Path, files: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write modules and import the one of this name, again if it was imported before."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(folder)
    forget(files)
    return importlib.import_module(name)


def forget(files: dict[str, str]) -> None:
    for file in files:
        sys.modules.pop(file.removesuffix("/__init__.py").removesuffix(".py").replace("/", "."), None)
    importlib.invalidate_caches()


# -- modules ------------------------------------------------------------------------------------------------


def test_versions_of_a_module_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call runs the code with which it was packed, whatever the process imports under that name."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size would be stale
    parcels = []
    for value in (1, 2):
        files = {"versioned.py": f"def value():\n    return {value}\n"}
        parcels.append(packed(imported(tmp_path, files, "versioned", monkeypatch).value))
    monkeypatch.setitem(sys.modules, "versioned", types.ModuleType("versioned"))
    assert [result_of(*parcel) for parcel in (*parcels, *parcels)] == [1, 2, 1, 2]


def test_a_module_that_registers_its_scheduler_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is registered in this process already, and stays that of the original class."""
    text = (
        "import gridsim as gs\n"
        "class Own(gs.Fcfs, frozen=True, kw_only=True):\n"
        "    name = 'registered-once'\n"
        "gs.register(Own.name, Own)\n"
        "def value():\n"
        "    return Own().name\n"
    )
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    own = imported(tmp_path, {"registering.py": text}, "registering", monkeypatch)
    assert result_of(*packed(own.value)) == "registered-once"
    assert registry.scheduler_class("registered-once") is own.Own


PACKAGE = {
    "sent_package/__init__.py": "import sent_helper\n",
    "sent_package/deep/__init__.py": "from ..parts import PART\n",
    "sent_package/deep/module.py": (
        "import sent_helper as aliased, sent_package.parts\n"
        "from . import PART\n"
        "from sent_package import parts\n"
        "def value():\n"
        "    from sent_late import LATE\n"
        "    import sent_package.deep as deep\n"
        "    assert sent_package.parts is parts\n"
        "    return [__name__.rpartition('.')[2], aliased.HELP, PART, parts.PART, LATE, deep.PART]\n"
    ),
    "sent_package/parts.py": "PART = 'part'\n",
    "sent_helper.py": "HELP = 'help'\n",
    "sent_late.py": "LATE = 'late'\n",
}


def test_modules_are_sent_with_all_that_they_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(tmp_path, PACKAGE, "sent_package.deep.module", monkeypatch)
    parcel = packed(module.value)
    assert set(parcel[1]) == {
        "sent_package",
        "sent_package.deep",
        "sent_package.deep.module",
        "sent_package.parts",
        "sent_helper",
        "sent_late",
    }
    forget(PACKAGE)
    for file in PACKAGE:  # other copies, which must not be used
        (tmp_path / file).write_text("raise AssertionError\n")
    assert result_of(*parcel) == ["module", "help", "part", "part", "late", "part"]


def test_modules_imported_by_calls_with_literal_names_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "literal_names.py": (
            "import importlib\n"
            "ONE, TWO = importlib.import_module('literal_one').ONE, __import__('literal_two').TWO\n"
            "def value():\n"
            "    return ONE + TWO\n"
        ),
        "literal_one.py": "ONE = 1\n",
        "literal_two.py": "TWO = 2\n",
    }
    _, modules = packed(imported(tmp_path, files, "literal_names", monkeypatch).value)
    assert set(modules) == {"literal_names", "literal_one", "literal_two"}


def test_installed_modules_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some-1.0.dist-info").mkdir()
    files = {"installed_metric.py": "def value():\n    return 1\n"}
    parcel, modules = packed(imported(tmp_path, files, "installed_metric", monkeypatch).value)
    assert modules["installed_metric"].text is None
    assert result_of(parcel, modules) == 1
    (tmp_path / "installed_metric.py").write_text("def value():\n    return 20\n")
    importlib.import_module("gridsim.studies.execution.packing")._check_same.cache_clear()
    with pytest.raises(WorkerMismatch, match="^workers must have the same installed_metric"):
        result_of(parcel, modules)


def test_functions_that_parameters_name_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"named_order.py": "def order(tasks):\n    return 'sent'\n"}
    imported(tmp_path, files, "named_order", monkeypatch)
    scheduler, code = gs.WqrFt(task_order="named_order:order"), UserCode()
    code.add_scheduler(scheduler)
    parcel = Packer(code).pack(named_order_of, scheduler)
    forget(files)
    (tmp_path / "named_order.py").write_text("def order(tasks):\n    return 'another copy'\n")
    assert result_of(parcel, code.modules) == "sent"


def named_order_of(scheduler: Any) -> Any:
    from gridsim.support.imports import import_object

    return import_object(scheduler.task_order)([])


FAILING = """
import gridsim as gs

class OwnError(Exception):
    pass

class Failing(gs.Scheduler, frozen=True, kw_only=True):
    name = "failing"

    def start(self, run):
        raise OwnError("as intended")
"""


def test_errors_of_users_classes_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = imported(tmp_path, {"failing_scheduler.py": FAILING}, "failing_scheduler", monkeypatch)
    with Processes(1) as pool, pytest.raises(own.OwnError, match="as intended"):
        gs.compare(scenario(), {"failing": own.Failing()}, executor=pool)


def test_results_name_the_original_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import gridsim as gs\nclass Own(gs.Fcfs, frozen=True, kw_only=True):\n    name = 'own'\n"
    own = imported(tmp_path, {"plain_scheduler.py": text}, "plain_scheduler", monkeypatch)
    with Processes(1) as pool:
        remote = gs.compare(scenario(), {"own": own.Own()}, executor=pool)["own"]
    local = gs.simulate(scenario(), own.Own())
    assert (remote.scheduler, remote.digest) == (local.scheduler, local.digest)


def scenario() -> gs.Scenario:
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
    return gs.Scenario(gs.Platform.pareto(6, 1), workload, seed=1)


def test_a_large_array_is_packed_once() -> None:
    speeds = [1000.0 + k for k in range(SHARED_BYTES)]
    platform, packer = gs.Platform.of(speeds), Packer(UserCode())
    parcels = [packer.pack(len, [platform, number]) for number in range(3)]
    assert all(len(parcel.data) < 5_000 and parcel.arrays == parcels[0].arrays for parcel in parcels)
    arrays = [pickle.loads(pickle.dumps(packer.arrays[name])) for name in parcels[0].arrays]
    assert call(Packer(UserCode()).pack(len, [1])).result() == 1
    parcel = packer.pack(list, (platform,))
    [received] = call(parcel, *arrays).result()
    assert received == platform and not received.speeds.flags.writeable


# -- scripts and notebooks ----------------------------------------------------------------------------------

MAIN = """
import os.path
import threading
from math import sqrt as root
import numpy as np

FACTOR, TABLE, LOCK = 3, {"a": np.arange(3)}, threading.Lock()
double = lambda x: 2 * x

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n > 0 and even(n - 1)

if FACTOR > 2:
    class Base:
        def factor(self):
            return FACTOR
else:
    class Base:
        pass

def decorated(cls):
    cls.text = os.path.join("a", "b")
    return cls

@decorated
class Own(Base):
    size: int = 4

    def value(self):
        LOCK = 1  # a local variable
        return [self.factor(), root(self.size), even(10), double(2), self.text, TABLE["a"].tolist()]

def value():
    return Own().value()

def locked():
    return LOCK.locked()
"""


def main_module(monkeypatch: pytest.MonkeyPatch, cells: list[str], file: str) -> Any:
    """Return a module that is ``__main__`` for the test, a script or the cells of a notebook."""
    main: Any = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main._ih = cells
    for number, text in enumerate(cells):
        name = f"<{file}-{number}>"
        monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
        exec(compile(text, name, "exec"), vars(main))
    return main


EXPECTED = [3, 2.0, True, 4, "a/b", [0, 1, 2]]


@pytest.mark.skipif(sys.platform == "win32", reason="a path with another separator")
@pytest.mark.parametrize("split", ["\0", "\n\n"], ids=["script", "notebook"])
def test_definitions_of_the_main_module_are_sent(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = MAIN.replace("\n\n    def", "\n    def").split(split)
    main = main_module(monkeypatch, cells, "cell")
    parcel, modules = packed(main.value)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    assert result_of(parcel, modules) == EXPECTED
    assert "LOCK =" not in modules["__main__"].text.replace("LOCK = 1", "")


def test_a_value_that_cannot_be_sent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_module(monkeypatch, [MAIN], "cell")
    message = (
        r"^metrics\['value'\] must be defined in a module .*: LOCK of the script or notebook cannot be sent"
    )
    with pytest.raises(gs.ScenarioError, match=message):
        packed(main.locked)


def test_a_definition_without_source_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_module(monkeypatch, [MAIN], "cell")
    monkeypatch.delitem(linecache.cache, "<cell-0>")
    with pytest.raises(gs.ScenarioError, match="value of the script or notebook .*its source is not known"):
        packed(main.value)


CELL = """
import gridsim as gs

class Own(gs.Fcfs, frozen=True, kw_only=True):
    name = "own"
    limit: float = {}
"""


def test_an_object_of_a_redefined_class_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_module(monkeypatch, [CELL.format(1)], "first")
    old = main.Own()
    code = UserCode()
    code.add_scheduler(old)
    exec(compile(CELL.format(2), "<second>", "exec"), vars(main))
    main._ih.append(CELL.format(2))
    with pytest.raises(gs.ScenarioError, match="^own must be defined and created again, since Own of"):
        UserCode().add_scheduler(old)
    new = UserCode()
    new.add_scheduler(main.Own())
    assert "limit: float = 2" in new.modules["__main__"].text and new.digest != code.digest


def test_a_key_depends_on_the_definitions_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsim.studies.execution.cell import Cell

    keys = []
    for value, comment in ((1, ""), (1, "\nprint()\n"), (2, "")):
        text = f"USED = {value}\nUNUSED = {comment!r}\ndef metric(result):\n    return USED\n"
        main = main_module(monkeypatch, [text], f"keys{len(keys)}")
        keys.append(Keys().key(Cell(scenario(), gs.Fcfs(), {"m": main.metric})))
    assert keys[0] == keys[1] != keys[2]


SCRIPT = """
import gridsim as gs
from gridsim.support.processes import Processes

OFFSET = 1.0

class Own(gs.Fcfs, frozen=True, kw_only=True):
    name = "own"

    def start(self, run):
        assert OFFSET == 1.0
        return super().start(run)

def metric(result):
    return result.makespan + OFFSET

if __name__ == "__main__":
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
    scenario = gs.Scenario(gs.Platform.pareto(6, 1), workload, seed=1)
    study = {"over": {"platform.nodes": [5, 6]}, "replicates": 2, "metrics": {"m": metric}}
    serial = gs.sweep(scenario, [Own()], **study).table()
    with Processes(1) as pool:
        rows = gs.sweep(scenario, [Own()], **study, executor=pool, store="runs").table()
    assert list(rows["digest"]) == list(serial["digest"]) and list(rows["m"]) == list(serial["m"])
    print(sorted(set(rows["error"])))
"""


def test_a_scheduler_of_a_script_runs_in_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.strip(), done.stderr) in (("['']", ""), ("[np.str_('')]", ""))
