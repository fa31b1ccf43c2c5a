"""Long lists of a scenario are arrays in results, checkpoints and stores; the scenario names them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.scenario import ArchivedScenario
from gridsim.report.contents import of_results
from gridsim.simulation.checkpoint import Checkpoint, check_replaceable, save
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.collect import collect
from gridsim.studies.execution.store import Store
from gridsim.studies.replicate import replication
from gridsim.support.columns import content_name
from gridsim.validation.results import validate_result
from tests._helpers.checkpoints import edit_checkpoint

COUNT = 300
RELEASE = np.random.default_rng(1).uniform(0.0, 100.0, COUNT)
BAGS = gs.Scenario(
    gs.Platform.desktop_grid(8, seed=1), gs.Workload.of(RELEASE, np.arange(COUNT) % 3 + 1, 500.0), seed=3
)
JOBS = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_of(RELEASE, 2, 1.0 + RELEASE / 50, 9.0))
TASKS = gs.Scenario(
    gs.Platform.of(1000.0 + RELEASE),
    gs.Workload.of_tasks(RELEASE, [[100.0, 1.0 + at] for at in RELEASE.tolist()]),
)
CASES = {"bags": (BAGS, gs.Fcfs()), "jobs": (JOBS, gs.BatchQueue()), "tasks": (TASKS, gs.WqrFt())}


@pytest.fixture(params=CASES)
def result(request: pytest.FixtureRequest) -> gs.Result:
    scenario, scheduler = CASES[request.param]
    return gs.simulate(scenario, scheduler, record=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.npz"
    gs.simulate(BAGS, gs.Fcfs()).save(path)
    return path


def rewrite_archive(
    path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], Any], metadata_member: str
) -> None:
    """Change the JSON and the members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    answers = json.loads(members[metadata_member])
    change(answers, members)
    members[metadata_member] = json.dumps(answers).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_result_keeps_long_lists(result: gs.Result, tmp_path: Path) -> None:
    path, second = tmp_path / "r.npz", tmp_path / "again.npz"
    result.save(path)
    loaded = gs.Result.load(path)
    assert loaded.scenario == result.scenario and loaded.provenance == result.provenance
    assert len(loaded.provenance["scenario"]) < 2000
    with zipfile.ZipFile(path) as archive:
        arrays = [name for name in archive.namelist() if name.startswith("scenario/")]
    with np.load(path) as members:
        assert len(arrays) >= 3 and all(content_name(members[name[:-4]]) in name for name in arrays)
    assert validate_result(loaded) == []
    loaded.save(second)
    assert second.read_bytes() == path.read_bytes()


def convert_to_format_1(metadata: dict[str, Any], members: dict[str, bytes], scenario: gs.Scenario) -> None:
    """Convert a result to format 1, in which the text has all lists."""
    metadata["format"] = 1
    metadata["provenance"]["scenario"] = scenario.to_toml()
    for name in metadata.pop("arrays"):
        del members[f"scenario/{name}.npy"]


def test_a_result_with_all_lists_in_its_text_is_read(result: gs.Result, tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    result.save(path)
    rewrite_archive(path, lambda *archive: convert_to_format_1(*archive, result.scenario), "result.json")
    loaded = gs.Result.load(path)
    assert loaded.scenario == result.scenario and loaded.digest == result.digest
    assert validate_result(loaded) == []
    loaded.save(path)
    assert gs.Result.load(path).provenance["scenario"] == result.scenario.to_toml()


def test_a_report_names_the_arrays_of_long_lists(result: gs.Result) -> None:
    sections = {
        section.name: section for section in of_results({"run": result}, files={"run": "r.npz"}).sections
    }
    assert "Result.scenario.save" in sections["again"].text
    assert "gridsim repro r.npz" in sections["again"].codes[0].text
    assert len(sections["scenario"].codes[0].text) < 2000


def npy(values: Any) -> bytes:
    member = io.BytesIO()
    np.save(member, values, allow_pickle=False)
    return member.getvalue()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (RELEASE[::-1], "must have the SHA-256 that its name states, got "),
        (RELEASE[None], "must be 1-d int64, float64 or str, got 2-d float64"),
        (RELEASE > 5, "must be 1-d .* got 1-d bool"),
        (RELEASE.astype("f4"), "must be 1-d .* got 1-d float32"),
        (RELEASE.astype("M8[s]"), "must be 1-d .* got 1-d datetime64.s."),
        (np.array([2**31], "u4").view("U1"), "must contain only valid Unicode characters"),
    ],
)
def test_an_invalid_array_gives_one_error(file: Path, array: Any, message: str) -> None:
    member = {f"scenario/{content_name(RELEASE)}.npy": npy(array)}
    rewrite_archive(file, lambda metadata_member, members: members.update(member), "result.json")
    with pytest.raises(GridSimError, match=message) as excinfo:
        gs.Result.load(file)
    assert str(excinfo.value).startswith(f"{file}: ")


def checkpoint(path: Path, scenario: gs.Scenario = BAGS) -> Simulation:
    """Write a checkpoint of a run that is half done."""
    simulation = Simulation(scenario, gs.Fcfs(), Options())
    simulation.engine.run(50 * 10**9)
    save(path, simulation, simulation.checkpoint_header(600.0))
    return simulation


def test_a_checkpoint_keeps_long_lists(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    simulation = checkpoint(path)
    with Checkpoint(path) as kept:
        assert len(kept.header.scenario) < 2000 and len(kept.header.arrays) == 3
    assert gs.resume(path).digest == gs.simulate(BAGS, gs.Fcfs()).digest
    checkpoint(path)
    check_replaceable(path, simulation.checkpoint_header(600.0))
    other = dataclasses.replace(BAGS, workload=gs.Workload.of(RELEASE + 1e-9, 1, 500.0))
    with pytest.raises(ScenarioError, match="has another run, of fcfs"):
        check_replaceable(path, Simulation(other, gs.Fcfs(), Options()).checkpoint_header(600.0))


def test_a_checkpoint_with_all_lists_in_its_text_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint(path)

    def change(document: Any) -> None:
        document["about"]["scenario"] = BAGS.to_toml()
        document["about"].pop("arrays")

    edit_checkpoint(path, change)
    assert gs.resume(path).digest == gs.simulate(BAGS, gs.Fcfs()).digest


def test_a_changed_array_of_a_checkpoint_gives_one_error(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    checkpoint(path)

    def change(document: Any) -> None:
        document["about"]["arrays"][content_name(RELEASE)] = document["more"][0]

    edit_checkpoint(path, change, more=(RELEASE[1:],))
    with pytest.raises(
        GridSimError, match="not a valid checkpoint .*must have the SHA-256 that its name states"
    ):
        gs.resume(path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    pytest.importorskip("pyarrow")
    kept = Store(tmp_path / "store")
    collect([Cell(replication(BAGS, k), gs.Fcfs()) for k in range(3)], store=kept)
    return kept


def test_a_store_keeps_long_lists_once(store: Store) -> None:
    rows = store.to_arrow().to_pylist()
    replicas = {scenario.seed: scenario for scenario in (replication(BAGS, k) for k in range(3))}
    assert len({row["scenario"] for row in rows}) == 3
    for row in rows:
        assert store.scenario(row["scenario"]) == replicas[row["seed"]]
    assert len(list((store.path / "arrays").iterdir())) == 3  # one array for each replication


def test_missing_or_damaged_arrays_of_a_store_give_one_error(store: Store) -> None:
    name, file = (
        store.to_arrow()["scenario"][0].as_py(),
        store.path / "arrays" / f"{content_name(RELEASE)}.npz",
    )
    content = file.read_bytes()
    for damaged in (content[:-30], content.replace(content[-9:], b"x" * 9), b""):
        file.write_bytes(damaged)
        with pytest.raises(GridSimError, match=f"^{file}: not a valid array of a store"):
            store.scenario(name)
    file.unlink()
    with pytest.raises(ScenarioError, match="^workload.release"):
        store.scenario(name)
    file.symlink_to(store.path / "store.json")
    with pytest.raises(GridSimError, match="must be in the store itself, got a symbolic link"):
        store.scenario(name)


def test_a_store_with_all_lists_in_its_texts_is_read(store: Store) -> None:
    for file in (store.path / "arrays").iterdir():
        file.unlink()
    (store.path / "arrays").rmdir()
    toml = BAGS.to_toml()
    name = hashlib.sha256(toml.encode()).hexdigest()
    store._scenarios.write(store._scenarios.table({"scenario": [name], "toml": [toml]}))
    assert Store(store.path).scenario(name) == BAGS


def test_arrays_that_a_store_has_are_not_written_again(store: Store) -> None:
    written = {file: file.stat().st_mtime_ns for file in (store.path / "arrays").iterdir()}
    collect([Cell(replication(BAGS, 7), gs.Fcfs())], store=Store(store.path))
    assert written == {file: file.stat().st_mtime_ns for file in (store.path / "arrays").iterdir()}


def test_arrays_of_an_archived_scenario_are_named_by_content() -> None:
    toml, arrays = BAGS.to_archive()
    assert all(content_name(array) == name and name in toml for name, array in arrays.items())
    assert gs.Scenario.from_archive(ArchivedScenario(toml, arrays)) == BAGS
