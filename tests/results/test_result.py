from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim.support.files
from gridsim.errors import GridSimError
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.simulation.simulate import simulate

SCENARIO = Scenario(Platform.pareto(8, 1), Workload.bags(12, seed=2), seed=3)


@pytest.fixture
def result(toy):
    return simulate(SCENARIO, toy())


def test_a_result_has_a_summary_and_a_text(result):
    applications = result.applications
    stretch = (applications["finish"] - applications["release"]) / applications["size"]
    assert applications["stretch"] == pytest.approx(stretch, rel=1e-12)
    assert applications["stretch_agg"] == pytest.approx(
        stretch * SCENARIO.platform.aggregate_speed, rel=1e-12
    )
    assert result.max_stretch == applications["stretch"].max()
    assert result.min_stretch == applications["stretch"].min()
    assert result.mean_stretch == pytest.approx(stretch.mean())
    assert result.makespan == applications["finish"].max() - applications["release"][0]
    assert result.utilization == pytest.approx(result.machines["busy"].mean() / result.makespan)
    summary = result.summary()
    assert summary["digest"] == result.digest and summary["tasks"] == applications["tasks"].sum()
    assert result.scenario is SCENARIO
    for text in ("max stretch", "s/Mflop", "digest", result.digest[:16], "load"):
        assert text in result.format()
    assert "12 applications on 8 machines" in repr(result)


def test_a_saved_result_is_loaded_unchanged(result, tmp_path):
    path = tmp_path / "r.npz"
    result.save(path)
    loaded = Result.load(path)
    assert loaded.digest == result.digest and loaded.tables == result.tables
    assert loaded.facts == result.facts and loaded.provenance == result.provenance
    assert loaded.scenario == SCENARIO and loaded.scheduler == result.scheduler
    assert loaded.summary() == result.summary()
    assert os.listdir(tmp_path) == ["r.npz"]
    with np.load(path) as members:
        assert np.array_equal(members["tables/applications/stretch"], result.applications["stretch"])
    second = tmp_path / "again.npz"
    loaded.save(second)
    assert second.read_bytes() == path.read_bytes()


def test_large_columns_are_deflated_if_that_shrinks_them(result, tmp_path):
    """Other columns are stored; gridsim and NumPy read both."""
    noise, zeros = np.random.default_rng(1).random(1 << 17), np.zeros((1 << 17) + 1)
    tables = {"noise": Table({"x": noise}), "zeros": Table({"x": zeros})}
    large = Result(
        tables={**result.tables, **tables}, facts={}, scheduler=result.scheduler, provenance=result.provenance
    )
    large.save(tmp_path / "r.npz")
    with zipfile.ZipFile(tmp_path / "r.npz") as archive:
        methods = {info.filename: info.compress_type for info in archive.infolist()}
    assert methods.pop("tables/noise/x.npy") == zipfile.ZIP_STORED
    assert set(methods.values()) == {zipfile.ZIP_DEFLATED}
    loaded = Result.load(tmp_path / "r.npz")
    assert loaded.tables == large.tables and not loaded.applications["finish"].flags.writeable
    with np.load(tmp_path / "r.npz") as members:
        assert np.array_equal(members["tables/noise/x"], noise)


def test_a_result_survives_the_loss_of_its_traces(toy, tmp_path):
    table = tmp_path / "hosts.csv"
    table.write_text("cpu_model,computers,gflops_core\nA,1,1.5\n")
    scenario = Scenario(Platform.from_hosts(table, 3, 1), Workload.bags(3, seed=1))
    result = simulate(scenario, toy())
    assert list(result.provenance["files"]) == [str(table)]
    result.save(tmp_path / "r.npz")
    table.unlink()
    assert Result.load(tmp_path / "r.npz").digest == result.digest


def test_a_failed_save_leaves_no_file(result, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gridsim.support.files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        result.save(tmp_path / "r.npz")
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory, toy):
    """Return the bytes of a saved result."""
    path = tmp_path_factory.mktemp("sound") / "r.npz"
    simulate(SCENARIO, toy()).save(path)
    return path.read_bytes()


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_damaged_file_gives_one_error(saved_bytes, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    content = bytearray(saved_bytes)
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[position:]
    else:
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        loaded = Result.load(path)
    except GridSimError as error:
        assert str(error).startswith(f"{path}: ")
    else:  # no reader uses the changed byte, which may be part of a time stamp
        (path.parent / "sound.npz").write_bytes(saved_bytes)
        assert loaded.tables == Result.load(path.parent / "sound.npz").tables


def rewrite(path, change):
    """Change the metadata of a file, with valid checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    metadata = json.loads(members["result.json"])
    change(metadata, members)
    members["result.json"] = json.dumps(metadata).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda metadata, members: metadata["facts"].update(pause=7.0), "the file states digest"),
        (
            lambda metadata, members: metadata.update(digest="0"),
            "the file states digest '0', but its tables have",
        ),
        (lambda metadata, members: metadata.update(format=9), "format of a result must be 1 or 2, got 9"),
        (lambda metadata, members: metadata.update(format=True), "must be 1 or 2, got True"),
        (lambda metadata, members: metadata.update(format=2.0), "must be 1 or 2, got 2.0"),
        (lambda metadata, members: metadata.pop("tables"), "not a valid result file"),
        (lambda metadata, members: metadata["tables"].pop("machines"), "not a valid result file"),
        (lambda metadata, members: metadata["tables"].update(x=["y"]), "not a valid result file"),
        (
            lambda metadata, members: members.update({"tables/machines/busy.npy": b"no"}),
            "not a valid result file",
        ),
    ],
)
def test_a_changed_file_is_rejected(result, tmp_path, change, message):
    path = tmp_path / "r.npz"
    result.save(path)
    rewrite(path, change)
    with pytest.raises(GridSimError, match=message) as excinfo:
        Result.load(path)
    assert str(excinfo.value).startswith(str(path))


def test_pickles_are_never_read(result, tmp_path):
    path = tmp_path / "r.npz"
    result.save(path)

    def change(metadata, members):
        import io

        member = io.BytesIO()
        np.save(member, np.array([print], dtype=object), allow_pickle=True)
        members["tables/machines/busy.npy"] = member.getvalue()

    rewrite(path, change)
    with pytest.raises(GridSimError, match="plain values, got objects"):
        Result.load(path)


def test_files_without_a_result_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "absent")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(GridSimError, match="empty: not a valid result file"):
        Result.load(tmp_path / "empty")
