"""Results, checkpoints and stores in which somebody changed what no digest covers: one error, and no harm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from archives import changed
from click.testing import CliRunner

import gridsim as gs
from gridsim.checkpoint import Checkpoint
from gridsim.cli import cli
from gridsim.errors import GridSimError
from gridsim.store import Store

COMMANDS = (
    ["repro"], ["validate"], ["plot", "--kind", "gantt", "--figure", "x.png"], ["report", "--out", "x.html"],
    ["export", "--format", "perfetto", "--out", "x.json"], ["why"],
)  # fmt: skip


@pytest.fixture
def noted(scenario: gs.Scenario, tmp_path: Path) -> Path:
    """A result in which all is recorded."""
    gs.simulate(scenario, gs.MinCent(), record="all").save(tmp_path / "noted.npz")
    return tmp_path / "noted.npz"


@pytest.mark.parametrize(
    "change",
    [
        {"scenario": 7}, {"scenario": [1]}, {"files": []}, {"files": {"a": 1}}, {"message_log": []},
        {"message_log": {"left_out": "x"}}, {"decisions": 5}, {"decisions": {"words": 5}},
        {"decisions": {"dropped": None}}, {"wall_seconds": "x"}, {"peak_memory": "x"}, {"clock_seconds": []},
        {"gridcore": 1}, {"numpy": None}, {"seed": "x"}, {"resumed": 0.5},
    ],
)  # fmt: skip
def test_provenance_of_other_types(noted: Path, change: Any) -> None:
    key = next(iter(change))
    changed(noted, about=lambda told: told["provenance"].update(change))
    with pytest.raises(GridSimError, match=rf"noted.npz: not a sound result file \(Expected .*\$\.{key}"):
        gs.Result.load(noted)


def test_a_result_without_provenance(noted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be said without it is said."""
    monkeypatch.chdir(tmp_path)
    changed(noted, about=lambda told: told.update(provenance={}))
    for command in COMMANDS:
        done = CliRunner().invoke(cli, [*command, "noted.npz", *["0"] * (command == ["why"])])
        assert done.exit_code in (0, 2), (command, done.exception)
        if done.exit_code:
            assert done.stderr.startswith("gridsim: ") and done.stderr.count("\n") == 1
    assert CliRunner().invoke(cli, ["repro", "noted.npz"]).stderr == (
        "gridsim: the result does not say of what scenario it is\n"
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "{tasks:0300000000}", "{tasks:.99999999}", "{tasks:{machine}}", "{tasks.__class__}", "{tasks[0]}",
        "{tasks!r}", "{}", "{0}", "{nothing}", "{", "{tasks:999,}", "{tasks:>99}",
    ],
)  # fmt: skip
def test_sentences_of_a_result_are_of_columns_and_digits_alone(noted: Path, sentence: str) -> None:
    def words(told: Any) -> None:
        every = told["provenance"]["decisions"]["words"]
        every |= {action: [sentence, "", ""] for action in every}

    done = CliRunner().invoke(cli, ["why", str(changed(noted, about=words)), "0"])
    assert done.exit_code == 2 and done.stderr.startswith("gridsim: decision_words[")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("part", "value"), [("faults", True), ("updates", None), ("updates", [1]), ("list", [1]), ("sizes", {})]
)
def test_a_checkpoint_of_no_run_that_can_be(
    scenario: gs.Scenario, tmp_path: Path, part: str, value: Any
) -> None:
    """Whatever of its state is of another type, wherever that shows."""
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)

    def put(state: Any) -> None:
        for key in state if isinstance(state, dict) else range(len(state)) if isinstance(state, list) else ():
            if key == part:
                state[key] = value
            else:
                put(state[key])

    changed(file, about=lambda told: put(told["state"]), name="checkpoint.json")
    try:
        gs.resume(file)
    except GridSimError as error:
        assert "not a sound checkpoint" in str(error)


def test_an_assertion_of_a_run_that_goes_on(
    scenario: gs.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)

    def fails(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("gridsim.simulation.Simulation.run", fails)
    with pytest.raises(GridSimError, match=r"run: not a sound checkpoint \(AssertionError: \)"):
        gs.resume(file)
    monkeypatch.setattr("gridsim.simulation.Simulation.keep", fails)
    with pytest.raises(GridSimError, match=r"run: not a sound checkpoint \(AssertionError: \)"):
        gs.resume(file)
    with Checkpoint(file) as kept:
        assert kept.about.scheduler.name == "fair-tree"


def test_keys_of_a_store_lead_nowhere(noted: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    shutil.copy(noted, tmp_path / "outside.npz")
    for key in ("../../outside", str(tmp_path / "outside"), "", "x", "A" * 64, "a" * 63):
        with pytest.raises(GridSimError, match="store: a key must be the SHA-256 of a cell"):
            store.result(key)
    with pytest.raises(GridSimError, match="there is no result of aaa"):
        store.result("a" * 64)


def test_errors_in_a_store_stay_in_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = gs.Scenario(gs.Platform.of([1.0]), gs.Workload.of([0.0], [1], [1.0]))

    def fails(*_: Any, **__: Any) -> Any:
        raise GridSimError("x")

    store = Store(tmp_path / "store")
    monkeypatch.setattr("gridsim.cells.simulate", fails)
    monkeypatch.setattr("gridsim.cells._said", lambda *_: "evil\nline\x1b[31m", raising=False)
    gs.sweep(scenario, {"fcfs": gs.Fcfs()}, {}, replicates=1, store=store)
    said = str(gs.sweep(scenario, {"fcfs": gs.Fcfs()}, {}, replicates=1, store=store))
    assert [line for line in said.splitlines() if line.startswith("failed: ")] == [said.splitlines()[-1]]


def test_a_scenario_that_is_no_text(tmp_path: Path) -> None:
    log = tmp_path / "n\udcff.swf"
    log.write_text("1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n")
    scenario = gs.Scenario(gs.Platform.of([1.0]), gs.Workload.from_log(log))
    with pytest.raises(gs.ScenarioError, match=r"a scenario file must be UTF-8, got the text '\\udcff'"):
        scenario.save(tmp_path / "s.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n\udcff.swf"]


def test_studies_of_too_many_runs() -> None:
    done = CliRunner().invoke(cli, ["compare", "--nodes", "5", "--replicates", "30000000"])
    assert done.exit_code == 2 and "replicates must be" in done.stderr and "10000000" in done.stderr
