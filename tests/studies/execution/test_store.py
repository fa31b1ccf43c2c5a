from __future__ import annotations

import dataclasses
import functools
import os
import time
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.scheduling import description
from gridsim.scheduling.registry import scheduler_from
from gridsim.studies.execution import collect as collecting
from gridsim.studies.execution import shards
from gridsim.studies.execution import store as stores
from gridsim.studies.execution.cell import Cell, RunRecord, measure
from gridsim.studies.execution.collect import collect
from gridsim.studies.execution.shards import Shards
from gridsim.studies.execution.store import Store
from gridsim.studies.replicate import replication


def small_scenario(seed: int = 1) -> gs.Scenario:
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=seed)
    return gs.Scenario(gs.Platform.pareto(6, seed), workload, seed=seed)


def some_cells(count: int) -> list[Cell]:
    return [Cell(replication(small_scenario(), k), gs.Fcfs()) for k in range(count)]


def test_stored_runs_are_not_repeated(tmp_path: Path, run_counts: list[int]) -> None:
    first = collect(some_cells(3), store=Store(tmp_path / "s"))
    second = collect(some_cells(5), store=Store(tmp_path / "s"))  # a larger study reuses the stored runs
    assert run_counts == [3, 2]
    assert str([(m.digest, sorted(m.values.items())) for m in second[:3]]) == str(
        [(m.digest, sorted(m.values.items())) for m in first]
    )
    assert len(Store(tmp_path / "s")) == 5
    collect(some_cells(5), store=Store(tmp_path / "s"))
    assert run_counts == [3, 2, 0]


def test_equal_cells_are_run_once(tmp_path: Path, run_counts: list[int]) -> None:
    cells = [some_cells(1)[0], some_cells(1)[0], some_cells(2)[1]]
    actual = collect(cells, store=Store(tmp_path / "s"))
    assert run_counts == [2] and actual[0] == actual[1] != actual[2]


def test_a_failed_run_is_stored_with_its_error(tmp_path: Path, run_counts: list[int]) -> None:
    cells = [*some_cells(2), Cell(small_scenario(), gs.DgsAsap())]
    store = Store(tmp_path / "s")
    for retry in (False, False, True):
        actual = collect(cells, store=store, retry=retry)
        assert [bool(item.error) for item in actual] == [False, False, True]
        assert "dgs-asap" in actual[2].error and actual[2].error.startswith("ScenarioError: ")
    assert run_counts == [3, 0, 1] and len(store) == 3
    with pytest.raises(gs.GridSimError, match=r"dgs-asap \(seed 1\): ScenarioError: "):
        collect(cells, store=store, fail_fast=True)


def test_a_successful_run_has_precedence_over_a_failed_one(tmp_path: Path) -> None:
    store, (cell,) = Store(tmp_path / "s"), some_cells(1)
    (key,) = store.keys_of([cell])
    store.add([(key, cell, RunRecord(error="the worker was lost", code="c"))])
    assert store.find([key])[key].error
    store.add([(key, cell, RunRecord(values={"makespan": 3.0}, digest="d", code="c"))])
    store.add([(key, cell, RunRecord(error="the worker was lost", code="c"))])
    assert store.find([key])[key].values == {"makespan": 3.0} and len(store) == 1


def patch_shard_order(monkeypatch: pytest.MonkeyPatch, backwards: bool) -> None:
    """Make stores read shards in the order in which they were written, or backwards."""
    ages: list[Path] = []
    write, paths = Shards.write, Shards.paths
    monkeypatch.setattr(Shards, "write", lambda *args: ages.append(write(*args)))
    monkeypatch.setattr(
        Shards, "paths", lambda *args: sorted(paths(*args), key=ages.index, reverse=backwards)
    )


@pytest.mark.parametrize("backwards", [False, True])
def test_a_run_with_only_own_metrics_has_precedence_over_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """The order in which shards are read has no effect."""
    patch_shard_order(monkeypatch, backwards)
    store, (cell,) = Store(tmp_path / "s"), some_cells(1)
    (key,) = store.keys_of([cell])
    store.add([(key, cell, RunRecord(values={"own_metric": 3.0}, digest="d", code="c"))])
    store.add([(key, cell, RunRecord(error="the worker was lost", code="c"))])
    assert store.find([key])[key].values == {"own_metric": 3.0} and not store.find([key])[key].error


@pytest.mark.parametrize("backwards", [False, True])
def test_a_stored_run_without_a_requested_metric_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    patch_shard_order(monkeypatch, backwards)
    store, (cell,) = Store(tmp_path / "s"), some_cells(1)
    (key,) = store.keys_of([cell])
    store.add([(key, cell, RunRecord(values={"makespan": float("nan")}, digest="d", code="c"))])
    assert key in store.find([key], ["makespan"]) and key not in store.find([key], ["gap"])
    store.add([(key, cell, RunRecord(values={"makespan": 1.0, "gap": 2.0}, digest="d", code="c"))])
    store.add([(key, cell, RunRecord(values={"makespan": 1.0}, digest="d", code="c"))])
    assert store.find([key], ["gap"])[key].values["gap"] == 2.0 and len(store) == 1


def test_columns_equal_those_that_pyarrow_makes(tmp_path: Path) -> None:
    """The store makes them from buffers, without ``pyarrow.array``."""
    arrow, store = pytest.importorskip("pyarrow"), Store(tmp_path / "s")
    values = {
        "string": ["", "two", "dr\u00fc\u03b2en", "\U0001f600"],
        "int64": [0, -(2**63), None, 2**63 - 1, *range(9)],
        "double": [None, -0.0, float("inf"), 5e-324, 3, *([None] * 9), 1.5],
    }
    for kind, column in values.items():
        for count in (0, len(column)):
            array = store._cells._column(column[:count], kind)
            array.validate(full=True)
            assert array.equals(arrow.array(column[:count], kind)) and array.null_count == column[
                :count
            ].count(None)


def test_whole_results_are_stored_on_request(tmp_path: Path, run_counts: list[int]) -> None:
    store = Store(tmp_path / "s")
    collect(some_cells(2), store=store)
    keys = store.keys_of(some_cells(2))
    with pytest.raises(gs.GridSimError, match="there is no result of"):
        store.result(keys[0])
    result_store = Store(tmp_path / "s", keep_results=True)
    # these runs are executed again once, to store their results
    actual = collect(some_cells(2), store=result_store)
    collect(some_cells(2), store=result_store)
    assert run_counts == [2, 2, 0] and len(store) == 2
    assert [result_store.result(key).digest for key in keys] == [item.digest for item in actual]


def test_a_store_is_read_as_tables(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    cells = [*some_cells(2), Cell(small_scenario(), gs.FairTree(bound=1.5), {"own_metric": own_metric})]
    collect(cells, store=store)
    table = store.to_arrow()
    assert table.num_rows == 3 and table.schema.names[:3] == ["key", "error", "digest"]
    frame = store.to_pandas()
    assert sorted(frame["key"]) == sorted(store.keys_of(cells))
    tree = frame[frame["scheduler"] == "fair-tree"].iloc[0]
    assert tree["own_metric"] == 42.0 and '"bound": 1.5' in tree["parameters"]
    assert frame["own_metric"].isna().sum() == 2
    assert store.scenario(tree["scenario"]) == small_scenario() and tree["seed"] == small_scenario().seed
    with pytest.raises(gs.GridSimError, match="there is no scenario x"):
        store.scenario("x")
    assert repr(store) == f"<Store {tmp_path / 's'}: 3 runs>"


def own_metric(result: gs.Result) -> float:
    return 42.0


def test_metrics_without_a_unique_name_are_rejected(tmp_path: Path) -> None:
    """Two closures, or a lambda with another default, have the same name and source."""
    store = Store(tmp_path / "s")

    def share(q: float) -> Any:
        return lambda result: q

    for metric in (share(0.1), lambda result: 1.0, functools.partial(own_metric)):
        with pytest.raises(gs.ScenarioError, match=r"^metrics\['own_metric'\]"):
            store.keys_of([dataclasses.replace(some_cells(1)[0], metrics={"own_metric": metric})])
    assert store.keys_of([dataclasses.replace(some_cells(1)[0], metrics={"own_metric": own_metric})])


def test_a_changed_file_causes_a_new_run(tmp_path: Path) -> None:
    """The same store object detects the change, as in a notebook."""
    store, log = Store(tmp_path / "s"), tmp_path / "jobs.swf"
    spans = []
    for run_time in (100, 900):
        log.write_text(f"1 0 0 {run_time} 1 -1 -1 1 {run_time} -1 1 1 1 1 1 1 -1 -1\n")
        scenario = dataclasses.replace(small_scenario(), workload=gs.Workload.from_log(log))
        (actual,) = collect([Cell(scenario, gs.Fcfs())], store=store)
        spans.append(actual.values["makespan"])
    assert spans[0] != spans[1]


def test_a_run_lost_with_its_worker_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, cells = Store(tmp_path / "s"), some_cells(2)

    def run_cells(todo, report, **options) -> None:
        report([(0, RunRecord(error="the worker was lost", lost=True)), (1, RunRecord(error="x", code="c"))])

    with monkeypatch.context() as patch:
        patch.setattr(collecting, "run_cells", run_cells)
        assert [item.error for item in collect(cells, store=store)] == ["the worker was lost", "x"]
    first, second = collect(cells, store=store)
    assert first.digest and second.error == "x (in the store: retry runs it again)"


def test_a_partly_created_store_can_be_opened(tmp_path: Path) -> None:
    """Another process is creating the store, or was killed meanwhile."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ".store.json.0123456789ab.tmp").write_bytes(b"")
    (tmp_path / "s" / "cells").mkdir()
    assert len(Store(tmp_path / "s")) == 0


def test_many_shards_are_merged_into_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MERGE_COUNT", 3)
    store = Store(tmp_path / "s")
    for k in range(1, 4):
        collect(some_cells(k), store=store)
    assert [len(list((tmp_path / "s" / folder).iterdir())) for folder in ("cells", "scenarios")] == [1, 1]
    assert len(store) == 3
    for row in store.to_arrow().to_pylist():
        assert store.scenario(row["scenario"]).seed == row["seed"]
    # if the merge is interrupted, the old shards remain and nothing changes
    before = store.to_arrow()
    store._cells.write(before)
    tables = (table.sort_by("key").to_pandas() for table in (store.to_arrow(), before))
    assert next(tables).equals(next(tables))


def test_new_shards_are_merged_without_reading_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "s")
    cells = some_cells(8)
    keys = store.keys_of(cells)
    rows = [(key, cell, measure(cell)) for key, cell in zip(keys, cells, strict=True)]
    with monkeypatch.context() as patch:
        patch.setattr(stores, "_MERGE_COUNT", 3)
        patch.setattr(Shards, "read_shard", lambda *_: pytest.fail("a shard was read"))
        for row in rows[:7]:
            store.add([row])
    assert [len(list((tmp_path / "s" / folder).iterdir())) for folder in ("cells", "scenarios")] == [3, 3]
    store.drop(scheduler=cells[0].scheduler.name)
    monkeypatch.setattr(stores, "_MERGE_COUNT", 2)
    store.add(rows[7:])
    store.add(rows[7:])
    assert {*store.find(key for key, _, _ in rows)} == {rows[7][0]}


def test_a_failed_merge_of_shards_loses_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old shards remain if the process is killed or the disk is full."""
    store = Store(tmp_path / "s")
    for k in range(1, 4):
        collect(some_cells(k), store=store)
    with monkeypatch.context() as patch:
        patch.setattr(stores, "_MERGE_COUNT", 3)

        def raise_disk_full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(Shards, "write", raise_disk_full)
        with pytest.raises(OSError, match="No space left"):
            store.tidy()
    assert len(Store(tmp_path / "s")) == 3


def test_runs_merged_by_another_process_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shards are merged after they are listed and before they are opened."""
    store, other = Store(tmp_path / "s"), Store(tmp_path / "s")
    for k in range(1, 4):
        collect(some_cells(k), store=store)
    monkeypatch.setattr(stores, "_MERGE_COUNT", 3)
    opened, tidied = shards.open_regular, []

    def tidy_other(path: Any) -> Any:
        if not tidied:
            tidied.append(path)
            other.tidy()
        return opened(path)

    monkeypatch.setattr(shards, "open_regular", tidy_other)
    assert len(store) == 3 and tidied


def test_old_unfinished_files_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    shards, results = tmp_path / "s" / "cells", tmp_path / "s" / "results"
    shard, result = f".{'a' * 32}.parquet", f".{'b' * 64}.npz"
    old = [shards / f"{shard}.{'1' * 12}.tmp", results / f"{result}.{'2' * 12}.tmp"]
    new = shards / f"{shard}.{'3' * 12}.tmp"
    # files whose names gridsim never generates
    others = [shards / f"{result}.{'4' * 12}.tmp", results / ".thesis.tmp", results / f"{result}.x.tmp"]
    for file in (*old, new, *others):
        file.write_bytes(b"half")
    for file in (*old, *others):
        os.utime(file, (time.time() - 7200,) * 2)
    assert len(Store(tmp_path / "s")) == len(store) == 0
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in (new, *others))  # another process may still be writing the new file


@pytest.mark.parametrize("folder", ["cells", "scenarios", "results"])
@pytest.mark.parametrize("name", [".thesis.tmp", "data.parquet", ".x.npz.0123456789ab.tmp", "folder/x"])
def test_other_folders_with_names_of_a_store_are_rejected(tmp_path: Path, folder: str, name: str) -> None:
    theirs = tmp_path / "mine" / folder / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    os.utime(theirs, (time.time() - 7200,) * 2)
    with pytest.raises(gs.ScenarioError, match="store must be a store of gridsim or a new folder"):
        Store(tmp_path / "mine")
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [theirs]


def test_a_store_that_another_process_is_creating_can_be_opened(tmp_path: Path) -> None:
    """Its files may exist before the file that identifies a store."""
    for name in ("cells", "scenarios", "results"):
        (tmp_path / "s" / name).mkdir(parents=True)
    for name in (f"cells/.{'a' * 32}.parquet.{'1' * 12}.tmp", f"results/{'b' * 64}.npz"):
        (tmp_path / "s" / name).write_bytes(b"")
    (tmp_path / "s" / f".store.json.{'1' * 12}.tmp").write_bytes(b"")
    assert len(Store(tmp_path / "s")) == 0
    for other in ("cells", ".store.json.mine"):
        (tmp_path / "t").mkdir(exist_ok=True)
        (tmp_path / "t" / other).write_text("precious")  # a file
        with pytest.raises(gs.ScenarioError, match="store must be a store of gridsim or a new folder"):
            Store(tmp_path / "t")
        (tmp_path / "t" / other).unlink()


def test_a_damaged_shard_is_reported(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    collect(some_cells(1), store=store)
    (shard,) = (tmp_path / "s" / "cells").iterdir()
    shard.write_bytes(shard.read_bytes()[:-40])
    with pytest.raises(
        gs.GridSimError, match=f"{shard}: not a valid shard of a store .* studies add its rows again"
    ):
        len(store)


def test_a_shard_with_a_flipped_bit_is_rejected(tmp_path: Path) -> None:
    """Parquet itself notices few of them: it would return exchanged columns, NaN, or other digits."""
    store = Store(tmp_path / "s")
    collect(some_cells(1), store=store)
    (shard,) = (tmp_path / "s" / "cells").iterdir()
    content = shard.read_bytes()
    for position in range(0, len(content), len(content) // 50):
        shard.write_bytes(
            content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :]
        )
        with pytest.raises(gs.GridSimError, match=f"{shard}: not a valid shard of a store"):
            len(store)
    shard.rename(shard.with_name(f"{'a' * 32}.parquet"))  # names of earlier versions of gridsim
    shard.with_name(f"{'a' * 32}.parquet").write_bytes(content)
    assert len(store) == 1


def test_shards_that_were_merged_but_not_removed_are_merged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed before it removed them: the new shard has the name of one of the old ones."""
    monkeypatch.setattr(stores, "_MERGE_COUNT", 3)
    store = Store(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "tidy", lambda _: None)
        for k in range(1, 3):
            collect(some_cells(k), store=store)
    store._cells.write(store.to_arrow())
    store.tidy()
    assert len(list((tmp_path / "s" / "cells").iterdir())) == 1 and len(store) == 2


def test_paths_that_are_no_store_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for wrong in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(gs.ScenarioError, match="store must be a store of gridsim or a new folder"):
            Store(wrong)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]
    with pytest.raises(FileNotFoundError):
        Store(tmp_path / "no" / "such")
    store = Store(tmp_path / "s")
    (store.path / "store.json").write_text('{"gridsim store": 99}')
    with pytest.raises(gs.GridSimError, match="format of a store must be 1, got 99"):
        Store(store.path)
    with pytest.raises(gs.ScenarioError, match="a function must not have the name 'digest' in a store"):
        store.keys_of([dataclasses.replace(some_cells(1)[0], metrics={"digest": own_metric})])


def test_runs_finished_before_an_interrupt_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = some_cells(4)
    store = Store(tmp_path / "s")
    measure = __import__("gridsim.studies.execution.run_cells", fromlist=["measure"]).measure
    completed: list[Cell] = []

    def interrupt_third_run(cell: Cell) -> RunRecord:
        if len(completed) == 2:
            raise KeyboardInterrupt
        completed.append(cell)
        return measure(cell)

    monkeypatch.setattr("gridsim.studies.execution.run_cells.measure", interrupt_third_run)
    with pytest.raises(KeyboardInterrupt, match="2 of 4 runs are done, which are in"):
        collect(cells, store=store)
    assert set(store.find(store.keys_of(cells))) == set(store.keys_of(cells[:2]))


@pytest.mark.parametrize("is_stated", [True, False])
def test_runs_with_an_overlay_are_stored(
    is_stated: bool, tmp_path: Path, run_counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long overlay is identified by its content; a short one is stated, and can be made again."""
    if not is_stated:
        monkeypatch.setattr(description, "MAX_NUMBERS", 10)
    scenario, ring = small_scenario(), [[(k - 1) % 6, (k + 1) % 6] for k in range(6)]
    for overlay in (ring, ring, [row[1:] for row in ring]):
        collect([Cell(scenario, gs.Rjss(overlay=overlay))], store=Store(tmp_path / "s"))
    assert run_counts == [1, 0, 1]
    found = gs.simulate(scenario, gs.Rjss(overlay=ring)).scheduler
    stated = found["parameters"]["overlay"]
    assert (stated == ring) == is_stated and ("sha256" in stated) != is_stated
    if is_stated:
        assert scheduler_from(found, "the result") == gs.Rjss(overlay=ring)
    else:
        with pytest.raises(gs.ScenarioError, match="^the result has only the SHA-256 of rjss.overlay, since"):
            scheduler_from(found, "the result")
