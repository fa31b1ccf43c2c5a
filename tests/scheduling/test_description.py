"""Descriptions of schedulers in results, checkpoints and stores are complete."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.scheduling.description import Description, describe
from gridsim.scheduling.registry import scheduler_from
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.keys import Keys

MODULE = """
import dataclasses, enum
from typing import Any
import msgspec
import gridsim as gs

class Own(gs.Scheduler, frozen=True, kw_only=True):
    name = "own"
    what: Any = None
    limit: float | None = 5.0

    def start(self, run):
        return (gs.Met() if self.limit is None else gs.Mct()).start(run)

class One(msgspec.Struct):
    x: Any = 1

class Two(msgspec.Struct):
    x: Any = 1

@dataclasses.dataclass
class Three:
    x: Any = 1

class Kind(enum.Enum):
    A = "a"
    B = "b"

class Opaque:
    def __repr__(self):
        return "opaque"

def first(run): ...
def second(run): ...
"""
SCENARIO = gs.Scenario(gs.Platform.equal(3), gs.Workload.of([0.0, 1.0], [4, 5], [1000.0, 500.0]), seed=2)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the user."""
    (tmp_path / "own_schedulers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_schedulers", raising=False)
    yield importlib.import_module("own_schedulers")
    sys.modules.pop("own_schedulers", None)


def key(scheduler: gs.Scheduler) -> str:
    return Keys().key(Cell(SCENARIO, scheduler))


def test_different_schedulers_have_different_descriptions(own_module: Any) -> None:
    many = np.zeros(5000)
    other = many.copy()
    other[2500] = 1.0
    values = [
        None, True, 1, 1.5, "1", "a", [1], [[1]], {"x": 1}, {"x": 2}, {"a"}, {"a", "b"},
        gs.Mct(), gs.Met(), gs.FairTree(bound=1.0), [gs.FairTree(bound=3.0)],
        own_module.One(), own_module.One(2), own_module.Two(), own_module.Three(),
        own_module.Three({"x": gs.Olb()}), own_module.Kind.B,
        own_module.first, own_module.second, {"rule": own_module.first}, gs.Fcfs, np.mean,
        many, other, many.reshape(50, 100),
        1j, b"1", range(3), np.dtype("f4"),
    ]  # fmt: skip
    schedulers = [own_module.Own(what=value) for value in values]
    answers = [json.dumps(describe(scheduler)) for scheduler in schedulers]
    assert len(set(answers)) == len(values) == len(set(map(key, schedulers)))
    assert not any(Description(scheduler).opaque_values for scheduler in schedulers)


def test_equal_schedulers_have_equal_descriptions(own_module: Any) -> None:
    for first, second in (
        ((1, 2), [1, 2]),
        (np.arange(3), [0, 1, 2]),
        (np.float64(2.5), 2.5),
        (own_module.One(gs.Mct()), own_module.One(gs.Mct())),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        (Path("x"), "x"),
    ):
        one, two = own_module.Own(what=first), own_module.Own(what=second)
        assert describe(one) == describe(two) and key(one) == key(two)


def test_descriptions_are_equal_in_another_process(own_module: Any) -> None:
    """Descriptions contain neither addresses of objects nor the arbitrary order of sets."""
    code = (
        "import own_schedulers as own; from gridsim.scheduling.description import describe\n"
        "import json; print(json.dumps(describe(own.Own(what=[{'a', 'b', 'c', 'd'}, own.first, own.One]))))"
    )
    description = json.dumps(
        describe(own_module.Own(what=[{"a", "b", "c", "d"}, own_module.first, own_module.One]))
    )
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        process = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert process.stdout.strip() == description, process.stderr


def test_a_store_rejects_values_without_a_complete_description(own_module: Any) -> None:
    def local(run: Any) -> None: ...

    class Local(own_module.One):  # type: ignore[name-defined,misc]
        pass

    for value in (
        lambda run: 0, local, functools.partial(own_module.first, 1), own_module.Opaque(),
        [own_module.Opaque()],
        {"a": own_module.Opaque()}, {1: 2, "1": 3}, Local(), "".join,
        np.array([own_module.Opaque()]), itertools.count(),
    ):  # fmt: skip
        with pytest.raises(ScenarioError, match="^own.what"):
            key(own_module.Own(what=value))


def test_a_text_with_a_colon_need_not_name_code(own_module: Any) -> None:
    """If the part before the colon is a module, its source is in the key, but it is not imported."""
    times = ["22:00", "http://example.org", "a:", ":b", "no_such_module:x", "..:x"]
    assert len({key(own_module.Own(what=text)) for text in times}) == len(times)
    module = Path("module_of_a_text.py")
    module.write_text("raise SystemExit(3)\n")
    before = key(own_module.Own(what="module_of_a_text:function"))
    module.write_text("raise SystemExit(4)\n")
    assert key(own_module.Own(what="module_of_a_text:function")) != before
    assert "module_of_a_text" not in sys.modules


def test_the_key_has_the_sources_of_all_named_code(own_module: Any) -> None:
    Path("others.py").write_text("def rule(run): return 1\n")
    others = importlib.import_module("others")
    try:
        before = key(own_module.Own(what=[{"rule": others.rule}]))
        Path("others.py").write_text("def rule(run): return 20\n")
        del sys.modules["others"]
        others = importlib.import_module("others")
        assert key(own_module.Own(what=[{"rule": others.rule}])) != before
    finally:
        del sys.modules["others"]


def test_a_parameter_of_none_is_restored_from_a_description(own_module: Any) -> None:
    """The default of the parameter is another value."""
    scheduler = own_module.Own(limit=None)
    second = scheduler_from(describe(scheduler), "the run", imported_as="own_schedulers:Own")
    assert second == scheduler and describe(second) == describe(scheduler)
    result = gs.simulate(SCENARIO, scheduler, checkpoint="run.checkpoint", checkpoint_every=0)
    result.save("run.gridsim")
    for command in ("repro run.gridsim", "resume run.checkpoint"):
        words = [sys.executable, "-m", "gridsim", *command.split(), "--scheduler", "own_schedulers:Own"]
        process = subprocess.run(words, capture_output=True, text=True)
        assert process.returncode == 0 and result.digest in process.stdout, process.stderr
