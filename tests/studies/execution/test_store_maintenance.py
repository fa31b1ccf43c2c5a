"""Maintenance of stores: contents, verification, merging, removal, and the adoption of earlier runs."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.studies.execution import adopt as adopting
from gridsim.studies.execution import keys as keys_module
from gridsim.studies.execution import store as stores
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.collect import collect
from gridsim.studies.execution.store import Store
from gridsim.studies.replicate import replication
from gridsim.studies.sweep import Sweep
from gridsim.support.provenance import code_version

OLD = "0.0.1+0123456789abcdef"


def scenario(bags: int = 4) -> gs.Scenario:
    sizes = np.linspace(1000.0, 2000.0, 150)  # long enough for an array of its own
    platform = gs.Platform.of(sizes)
    return gs.Scenario(platform, gs.Workload.bags(bags, tasks_per_node=1, seed=1), seed=1)


def cells(*schedulers: gs.Scheduler, replicates: int = 2) -> list[Cell]:
    return [
        Cell(replication(scenario(), k), scheduler) for k in range(replicates) for scheduler in schedulers
    ]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["store", *map(str, arguments)])


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.npz")}


# -- merge, drop, verify ------------------------------------------------------------------------------------


def test_merged_stores_have_the_runs_scenarios_and_results_of_all(tmp_path: Path) -> None:
    every = cells(gs.MinCent(), gs.Fcfs())
    parts = [Store(tmp_path / name, keep_results=True) for name in "ab"]
    for part, some in zip(parts, (every[:3], every[2:]), strict=True):
        collect(some, store=part)
    target = tmp_path / "all"
    answer = invoke("merge", target, *(part.path for part in parts), "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["added"] == {str(parts[0].path): 3, str(parts[1].path): 1}
    merged = Store(target, keep_results=True)
    assert len(merged) == 4 and merged.verify() == []
    assert names(target) == names(parts[0].path) | names(parts[1].path)
    for key in merged.to_arrow()["key"].to_pylist():
        assert merged.result(key).digest
    assert set(merged.find(merged.keys_of(every))) == set(merged.keys_of(every))
    assert merged.merge(parts[0]) == 0


def test_stores_with_different_digests_of_a_run_are_not_merged(tmp_path: Path) -> None:
    (cell,) = cells(gs.Fcfs(), replicates=1)
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    for store, digest in ((one, "a"), (two, "b")):
        store.add([(store.keys_of([cell])[0] or "", cell, RunRecord(digest=digest, code="c"))])
    with pytest.raises(gs.GridSimError, match=r"two: the digest of run \w+ must be a, as in .*one, got b"):
        one.merge(two)
    assert one.to_arrow()["digest"].to_pylist() == ["a"]
    # a failed run has no digest, and gives way
    three = Store(tmp_path / "three")
    three.add([(three.keys_of([cell])[0] or "", cell, RunRecord(error="failed", code="c"))])
    assert one.merge(three) == 0 and three.merge(one) == 0
    assert three.to_arrow()["digest"].to_pylist() == ["a"]


def test_dropped_runs_leave_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", keep_results=True)
    collect(cells(gs.MinCent(), gs.Fcfs()), store=store)
    other = Cell(gs.Scenario(gs.Platform.of(np.arange(1.0, 202.0)), gs.Workload.bags(2, seed=1)), gs.Olb())
    collect([other, dataclasses.replace(other, time_limit=1e-6)], store=store)
    files = len(names(store.path))
    rows = [(row["scheduler"], row["runs"], row["failed"]) for row in store.contents()]
    assert rows == [("fcfs", 2, 0), ("mincent", 2, 0), ("olb", 2, 1)]
    assert store.drop(failed=True, scheduler="fcfs") == 0
    assert store.drop(failed=True) == 1
    assert (
        invoke("drop", store.path, "--scheduler", "olb").stdout == f"{store.path}: 1 runs dropped, 4 left\n"
    )
    assert len(names(store.path)) == files - 2  # the speeds and the result
    assert store.verify() == [] and store.drop(other_versions=True) == 0
    assert store.drop(code=code_version()) == 4
    assert names(store.path) == set() and len(store) == 0 and not list((store.path / "scenarios").iterdir())
    collect([other], store=store)
    assert store.verify() == []
    answer = invoke("drop", store.path)
    assert answer.exit_code == 2 and "requires at least one of --code, --scheduler" in answer.stderr


def test_verify_finds_each_damaged_or_missing_file(tmp_path: Path) -> None:
    intact = Store(tmp_path / "intact", keep_results=True)
    collect(cells(gs.Fcfs(), replicates=1), store=intact)
    assert invoke("verify", intact.path).stdout == f"{intact.path}: no faults\n"
    for folder, damaged, missing in (
        ("cells", "not a valid shard", ": its runs are missing"),
        ("scenarios", "not a valid shard", "of some runs is missing"),
        ("arrays", "not a valid array", "is missing"),
        ("results", "not a valid result", ""),
    ):
        for fault, change in ((damaged, damage), (missing, Path.unlink)):
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(intact.path, tmp_path / "copy")
            change(next((tmp_path / "copy" / folder).iterdir()))
            answer = invoke("verify", tmp_path / "copy")
            assert answer.exit_code == bool(fault) and fault in answer.stdout, (folder, answer.output)
    other, array = next((intact.path / "results").iterdir()), next((intact.path / "arrays").iterdir())
    gs.simulate(scenario(), gs.MinCent()).save(other)
    array.rename(array.with_stem("0" * 64))
    faults = "\n".join(intact.verify())
    assert "the digest must be" in faults and f"the array {array.stem} is missing" in faults
    assert f"arrays/{'0' * 64}.npz: not a valid array" in faults


def test_verify_counts_the_runs_of_a_lost_shard_whose_scenarios_have_other_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    collect(cells(gs.Fcfs()), store=store)
    first = next((store.path / "cells").iterdir())
    collect(cells(gs.Olb()), store=store)
    merged = Store(tmp_path / "merged")
    merged.merge(Store(tmp_path / "s"))
    first.unlink()
    assert [fault.partition(",")[0] for fault in store.verify()] == [
        "2 runs that studies have added are missing"
    ]
    merged.drop(scheduler="fcfs")
    assert merged.verify() == []  # dropped runs are not lost
    next((merged.path / "cells").iterdir()).unlink()
    assert any(fault.startswith("2 runs that studies") for fault in merged.verify())


@pytest.mark.parametrize("folder", ["cells", "scenarios", "arrays"])
def test_a_later_study_adds_what_is_missing(folder: str, tmp_path: Path) -> None:
    every = cells(gs.Fcfs(), replicates=2)
    collect(every, store=Store(tmp_path / "s"))
    next((tmp_path / "s" / folder).iterdir()).unlink()
    assert Store(tmp_path / "s").verify()
    collect(every, store=Store(tmp_path / "s"))
    assert Store(tmp_path / "s").verify() == []


OWN = """
import gridsim as gs

class Own(gs.Fcfs, frozen=True, kw_only=True):
    name = "own"
    limit: float = {}

def double(result):
    return 2.0 * result.makespan
"""


def test_versions_of_the_users_code_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    store = Store(tmp_path / "s")
    codes: list[str] = []
    for limit in (1, 2):
        (tmp_path / "own_of_store.py").write_text(OWN.format(limit))
        monkeypatch.delitem(sys.modules, "own_of_store", raising=False)
        importlib.invalidate_caches()
        own = importlib.import_module("own_of_store")
        collect(cells(gs.Fcfs(), own.Own()), store=store)
        codes += {row["user_code"] for row in store.contents()} - {"", *codes}
    assert len(codes) == 2
    rows = [(row["scheduler"], row["user_code"], row["runs"]) for row in store.contents()]
    assert rows == [("fcfs", "", 2), *(("own", code, 2) for code in sorted(codes))]
    (measured,) = cells(gs.Fcfs(), replicates=1)
    collect([dataclasses.replace(measured, metrics={"double": own.double})], store=store)
    assert len({row["user_code"] for row in store.contents()}) == 4  # the code of the metric counts as well
    answer = invoke("list", store.path)
    assert all(code in answer.stdout for code in codes)
    assert invoke("drop", store.path, "--user-code", codes[0], "--scheduler", "own").exit_code == 0
    assert {row["user_code"] for row in store.contents() if row["scheduler"] == "own"} == {codes[1]}
    for flag, value in (("--user-code", codes[0]), ("--scheduler", "owm"), ("--code", "0")):
        answer = invoke("drop", store.path, flag, value)
        assert answer.exit_code == 2 and f"gridsim: {flag} must be one of " in answer.stderr, answer.output
    assert "did you mean own?" in invoke("drop", store.path, "--scheduler", "owm").stderr


def test_rows_without_a_version_of_the_users_code_are_kept(tmp_path: Path) -> None:
    """Stores of earlier versions have no such column."""
    store = Store(tmp_path / "s")
    collect(cells(gs.Fcfs()), store=store)
    rows, shards = store._cells.read()
    store._cells.replace(rows.drop_columns(["user_code"]), shards)
    collect(cells(gs.MinCent()), store=store)
    assert [(row["user_code"], row["runs"]) for row in store.contents()] == [("", 2), ("", 2)]
    assert store.drop(user_code="", scheduler="mincent") == 2 and len(store) == 2


def test_a_refused_merge_creates_no_store(tmp_path: Path) -> None:
    (cell,) = cells(gs.Fcfs(), replicates=1)
    parts = [Store(tmp_path / name) for name in "ab"]
    for part in parts:
        part.add([(part.keys_of([cell])[0] or "", cell, RunRecord(digest=part.path.name, code="c"))])
    answer = invoke("merge", tmp_path / "all", *(part.path for part in parts))
    assert answer.exit_code == 2 and "b: the digest of run" in answer.stderr
    damage(next((parts[0].path / "scenarios").iterdir()))
    answer = invoke("merge", tmp_path / "all", parts[0].path)
    assert answer.exit_code == 2 and "not a valid shard" in answer.stderr
    assert not (tmp_path / "all").exists()


def test_values_that_are_missing_are_null_in_stores_and_studies(tmp_path: Path) -> None:
    """The waiting time does not apply to bags, and the last run fails."""
    metrics = ["makespan", "mean_waiting"]
    study = gs.replicate(
        scenario(),
        [gs.Fcfs(), gs.DgsAsap()],
        replicates=2,
        errors="record",
        metrics=metrics,
        store=tmp_path / "s",
    )
    kept = Store(tmp_path / "s").to_arrow()
    for name, count in (("makespan", 2), ("mean_waiting", 4)):
        assert kept[name].null_count == study.to_arrow()[name].null_count == count
        assert np.isnan(study.runs()[name]).sum() == count


@pytest.mark.parametrize("path", [3, "", None, Store])
def test_a_store_must_be_a_path(path: Any) -> None:
    with pytest.raises(gs.ScenarioError, match="^store must be a Store or the path of a folder, got "):
        Store(path)


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content[: len(content) - 9])


def test_commands_reject_what_is_no_store(tmp_path: Path) -> None:
    for command in ("list", "verify", "drop", "merge"):
        answer = invoke(command, tmp_path / "none", *(["x"] if command == "merge" else []))
        assert answer.exit_code == 2 and "must be a store" in answer.stderr
    assert not (tmp_path / "none").exists()


def test_an_exported_table_does_not_depend_on_the_shards(tmp_path: Path) -> None:
    every = cells(gs.Fcfs(), gs.MinCent())
    tables = []
    for name, order in (("a", every), ("b", every[::-1])):
        store = Store(tmp_path / name)
        for cell in order:
            collect([cell], store=store)
        assert invoke("export", store.path, "--out", tmp_path / f"{name}.csv").exit_code == 0
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        tables.append([line.split(",")[:3] for line in lines])
    assert tables[0] == tables[1] and len(tables[0]) == 5


# -- adoption -----------------------------------------------------------------------------------------------


@pytest.fixture
def old_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with runs of another version of gridsim."""
    store = Store(tmp_path / "s", keep_results=True)
    with monkeypatch.context() as patch:
        patch.setattr(keys_module, "code_version", lambda: OLD)
        patch.setattr("gridsim.studies.execution.cell.code_version", lambda: OLD)
        collect(cells(gs.Fcfs(), gs.MinCent(), replicates=5), store=store)
    return store


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The runs that are executed for comparison."""
    runs: list[Cell] = []

    def measure(cell: Cell) -> RunRecord:
        runs.append(cell)
        return actual(cell)

    actual = adopting.measure
    monkeypatch.setattr(adopting, "measure", measure)
    return runs


def test_runs_with_equal_outcomes_are_adopted(
    old_store: Store, executed: list[Cell], run_counts: list[int]
) -> None:
    store = Store(old_store.path, keep_results=True, adopt=2)
    every = cells(gs.Fcfs(), gs.MinCent(), replicates=6)
    records = collect(every, store=store)
    assert len(executed) == 2 * 2 and run_counts == [2]
    assert [record.adopted_from for record in records] == [OLD] * 10 + [""] * 2
    assert {record.code for record in records} == {code_version()}
    assert [record.digest for record in records] == [record.digest for record in collect(every)]
    assert {row["code"]: row["runs"] for row in store.contents()} == {OLD: 5, code_version(): 6}
    assert store.result((store.keys_of(every)[0]) or "").digest == records[0].digest
    store.drop(other_versions=True)
    assert store.verify() == [] and len(store) == 12


def test_runs_with_other_outcomes_are_executed_again(
    old_store: Store, monkeypatch: pytest.MonkeyPatch, run_counts: list[int]
) -> None:
    """A metric counts as well, and the runs of another scheduler are adopted all the same."""

    def measure(cell: Cell) -> RunRecord:
        record = actual(cell)
        if isinstance(cell.scheduler, gs.Fcfs):
            return dataclasses.replace(record, values={**record.values, "makespan": 1.0})
        return record

    actual = adopting.measure
    monkeypatch.setattr(adopting, "measure", measure)
    store = Store(old_store.path, keep_results=True, adopt=1)
    with pytest.warns(gs.SchedulerWarning, match=rf"fcfs: runs of version {OLD[:5]}.* makespan .*, got 1$"):
        records = collect(cells(gs.Fcfs(), gs.MinCent(), replicates=5), store=store)
    assert run_counts == [5] and {record.adopted_from for record in records[::2]} == {""}


def test_failed_runs_are_not_adopted(tmp_path: Path, executed: list[Cell]) -> None:
    store = Store(tmp_path / "s", adopt=1)
    (cell,) = cells(gs.Fcfs(), replicates=1)
    store.keys_of([cell])
    store.add([(store.key(cell, OLD), cell, RunRecord(error="failed", code=OLD))])
    (record,) = collect([cell], store=store)
    assert not record.error and not executed


@pytest.mark.parametrize("value", [-1, 0.5, "2"])
def test_the_number_of_runs_to_compare_is_checked(tmp_path: Path, value: Any) -> None:
    with pytest.raises((gs.ScenarioError, TypeError), match="^adopt"):
        Store(tmp_path / "s", adopt=value)
    assert not (tmp_path / "s").exists()


# -- parts --------------------------------------------------------------------------------------------------


def test_parts_of_a_sweep_have_each_run_once(tmp_path: Path) -> None:
    """The bound of the tree has no effect on the other scheduler, whose runs are in one part only."""
    sweep = Sweep(
        scenario=scenario(),
        schedulers={"tree": gs.FairTree(), "fcfs": gs.Fcfs()},
        over={"schedulers.tree.bound": [1.0, 2.0], "network.latency": [0.1, 0.2]},
        replicates=2,
    )
    for count in (1, 3, 20):
        parts = [sweep.part(k, count) for k in range(1, count + 1)]
        runs = [(id(cell.scenario), id(cell.scheduler)) for part in parts for cell in part]
        assert len(runs) == len(set(runs)) == 12
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    store = Store(tmp_path / "s")
    for k in range(1, 4):
        assert len(sweep.run_part(k, 3, store=store)) == 4
    assert stores.is_store(store.path) and len(store) == 12
    for number, count in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(gs.ScenarioError):
            sweep.part(number, count)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--part", "4/3"], "'--part': must be K/N with 1 <= K <= N, such as 3/40, got '4/3'"),
        (["--part", "0/3"], "got '0/3'"),
        (["--part", "1"], "got '1'"),
        (["--part", "1/2", "--out", "x.csv"], "--out does not support --part"),
        (["--part", "1/2", "--figure", "x.png"], "--figure does not support --part"),
        (["--wait", "3"], "--wait requires --scheduler-file"),
        (["--scheduler-file", "x", "--wait", "-1"], "--wait must be a finite number >= 0 s, got -1"),
        (["--scheduler-file", "x", "--workers", "2"], "--scheduler-file and --workers exclude each other"),
        (["--scheduler-file", "x", "--dask", "h:1"], "--scheduler-file and --dask exclude each other"),
        (["--scheduler-file", "x", "--wait", "0"], "got x (it does not exist)"),
        (["--scheduler-file", "empty.json", "--wait", "0.2"], "within 0.2 s, got empty.json"),
        (["--scheduler-file", "other.json", "--wait", "0"], "got other.json (it has no address)"),
        (["--adopt", "-1"], "--adopt must be a whole number >= 0, got -1"),
    ],
)
def test_wrong_flags_of_sweeps_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario().save("scenario.toml")
    Path("study.toml").write_text('scenario = "scenario.toml"\nschedulers = ["fcfs"]\nreplicates = 1\n')
    Path("empty.json").write_text("")
    Path("other.json").write_text("[1]")
    answer = CliRunner().invoke(cli, ["sweep", "study.toml", *flags])
    assert answer.exit_code == 2 and message in answer.stderr, answer.output
    assert not Path("study.store").exists()
