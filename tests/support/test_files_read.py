"""Files that a run reads are identified by their content when they were read."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.cli.commands.repro import reproduce_result
from gridsim.errors import FileChanged
from gridsim.plots import gantt
from gridsim.results.formats.perfetto import to_perfetto
from gridsim.simulation import resume as resumption
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.studies.execution.cell import Cell, measure
from gridsim.studies.execution.collect import collect
from gridsim.studies.execution.keys import Keys
from gridsim.support import provenance
from gridsim.support.provenance import file_digests, sha256
from gridsim.validation.results import validate_result


def jobs(path: Path, run_time: int = 100) -> Path:
    line = "{0} {1} 0 {2} 1 -1 -1 1 {2} -1 1 1 1 1 1 1 -1 -1\n"
    path.write_text("".join(line.format(i, 300 * i, run_time) for i in range(1, 5)))
    return path


def scenario_of(log: Path, **options: Any) -> gs.Scenario:
    return gs.Scenario(gs.Platform.desktop_grid(nodes=4, seed=1), gs.Workload.from_log(log), **options)


def hosts(path: Path, gflops: float = 3.0) -> Path:
    path.write_text(f"cpu_model,computers,gflops_core\nA,5,{gflops}\nB,7,2.0\n")
    return path


def desktops(folder: Path) -> Path:
    """Write a trace of the Failure Trace Archive: a folder with the events of eight hosts."""
    folder.mkdir()
    rows = []
    for node in range(8):
        for turn in range(40):
            begin = turn * (300 + 61 * node)
            rows.append((len(rows), 0, node, 0, f"n{node}", 1, begin, begin + 200 + 37 * node, 0))
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    (folder / "event_trace.tab").write_text(text)
    return folder


def add_nodes(folder: Path) -> None:
    """Add a table of nodes with hosts that are never up."""
    (folder / "node.tab").write_text("".join(f"{node}\t0\thost{node}\n" for node in range(30)))


def with_failures(path: Path, nodes: int = 6) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=nodes, seed=1),
        gs.Workload.bags(4, interarrival=200.0, seed=1),
        faults=gs.Faults.trace(path, seed=1, never_up=True),
    )


@pytest.mark.parametrize("name", ["fta", "fta/event_trace.tab"])
def test_results_of_a_trace_record_all_its_files(tmp_path: Path, name: str) -> None:
    folder = desktops(tmp_path / "fta")
    scenario, store = with_failures(tmp_path / name), gs.Store(tmp_path / "store")
    cells = [Cell(scenario, gs.Fcfs())]
    before, result = collect(cells, store=store), gs.simulate(scenario, gs.Fcfs())
    events, table = str(folder / "event_trace.tab"), str(folder / "node.tab")
    assert result.provenance["files"] == {events: sha256(events)}
    add_nodes(folder)
    assert scenario.files == (events, table)
    after = collect(cells, store=store)
    assert before[0].digest == result.digest != after[0].digest and len(store) == 2
    second = reproduce_result(result)
    assert second.digest == after[0].digest
    assert second.changes == {f"file {table}": (None, sha256(table))}


def test_a_checkpoint_records_all_files_of_a_trace(tmp_path: Path) -> None:
    folder = desktops(tmp_path / "fta")
    file = tmp_path / "kept"
    gs.simulate(with_failures(folder), gs.Fcfs(), checkpoint=file, checkpoint_every=0)
    add_nodes(folder)
    with pytest.raises(gs.ScenarioError, match=r"node.tab has changed since the run of .*kept began"):
        gs.resume(file)
    gs.simulate(with_failures(folder), gs.Fcfs(), checkpoint=file, checkpoint_every=0)
    (folder / "node.tab").unlink()
    with pytest.raises(
        gs.ScenarioError,
        match=r"node.tab' must be read by the scenario, as at the start of the run of .*kept",
    ):
        gs.resume(file)
    gs.simulate(with_failures(folder), gs.Fcfs(), checkpoint=file, checkpoint_every=0)
    assert gs.resume(file).digest == gs.simulate(with_failures(folder), gs.Fcfs()).digest


def test_tables_of_nodes_belong_to_traces_in_their_format_only(tmp_path: Path) -> None:
    add_nodes(tmp_path)
    trace = tmp_path / "hosts.avt"
    trace.write_text("".join(f"h{i} 1 0 1000\n" for i in range(8)))
    assert with_failures(trace).files == (str(trace),)
    log = jobs(tmp_path / "log.swf")
    assert scenario_of(log).files == (str(log),)
    with pytest.raises(gs.TraceFormatError, match=r"no event_trace.tab"):
        _ = with_failures(tmp_path).files


def test_a_file_changed_after_it_was_read_keeps_its_digest(tmp_path: Path) -> None:
    """The digest of the content that was read is kept."""
    log = jobs(tmp_path / "log.swf")
    read = sha256(str(log))
    for change in (lambda: jobs(log, 900), log.unlink):
        jobs(log)
        simulation = Simulation(scenario_of(log), gs.Fcfs(), Options())
        change()
        assert simulation.run().provenance["files"] == {str(log): read}


class LogChangeAtStart(gs.Fcfs, frozen=True):
    """Scheduler that overwrites the log `to` when a run starts."""

    name = "changes-log-at-start"
    to: str = ""

    def start(self, run: Any) -> Any:
        jobs(Path(self.to), 900)
        return super().start(run)


def test_a_file_that_changes_while_it_is_read_is_rejected(tmp_path: Path) -> None:
    log = jobs(tmp_path / "log.swf")
    with pytest.raises(gs.ScenarioError, match=r"log.swf must not change while it is read"):
        gs.simulate(scenario_of(log), LogChangeAtStart(to=str(log)))
    actual = measure(Cell(scenario_of(jobs(log)), LogChangeAtStart(to=str(log))))
    assert actual.error and actual.lost  # the changed file is not recorded as a failure of the run itself


def test_a_file_that_changes_before_a_resumed_run_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes after it was checked and before it is read."""
    log, kept = jobs(tmp_path / "log.swf"), tmp_path / "kept"
    gs.simulate(scenario_of(log), gs.Fcfs(), checkpoint=kept, checkpoint_every=0.0)
    check_files = resumption._check_files

    def check_and_change(*arguments: Any) -> None:
        check_files(*arguments)
        jobs(log, 900)

    monkeypatch.setattr(resumption, "_check_files", check_and_change)
    with pytest.raises(gs.ScenarioError, match=r"log.swf has changed since the run of .*kept began"):
        gs.resume(kept)


def test_a_platform_records_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    """The table is read once, so later changes of the file do not matter."""
    table, log = hosts(tmp_path / "hosts.csv"), jobs(tmp_path / "log.swf")
    platform = gs.Platform.from_hosts(table, nodes=9, seed=1)
    read = sha256(str(table))
    hosts(table, 9.0)
    scenario = gs.Scenario(platform, gs.Workload.from_log(log))
    result = gs.simulate(scenario, gs.Fcfs())
    assert result.provenance["files"] == {str(table): read, str(log): sha256(str(log))}
    store = gs.Store(tmp_path / "store")
    with pytest.raises(
        gs.GridSimError, match=r"hosts.csv must be unchanged since the study began, or since its"
    ):
        collect([Cell(scenario, gs.Fcfs())], store=store)
    assert len(store) == 0


class LogChangeAtEnd(gs.Fcfs, frozen=True):
    """Scheduler that overwrites the log `to` when a run ends, so that the second run reads another log."""

    name = "changes-log-at-end"
    to: str = ""

    def start(self, run: Any) -> Any:
        policy = super().start(run)
        finish = policy.finish

        def change_and_finish() -> Any:
            jobs(Path(self.to), 900)
            return finish()

        policy.finish = change_and_finish
        return policy


@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("kept", [True, False])
def test_a_file_that_changes_during_a_study_is_rejected(
    tmp_path: Path, kept: bool, threads: int | None
) -> None:
    """Runs before the change are stored; later ones are not stored under keys of the original file."""
    log = jobs(tmp_path / "log.swf")
    cells = [Cell(scenario_of(log, seed=seed), LogChangeAtEnd(to=str(log))) for seed in (1, 2, 3)]
    store = gs.Store(tmp_path / "store") if kept else None
    pool = ThreadPoolExecutor(1) if threads else None
    with pytest.raises(gs.GridSimError, match=r"log.swf must be unchanged since the study"):
        collect(cells, store=store, executor=pool, batch=None if pool is None else 1)
    if store is not None:
        assert len(store) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_that_changes_between_runs_of_other_files_is_rejected(tmp_path: Path, kept: bool) -> None:
    """Other files that the runs read do not matter."""
    log, table = jobs(tmp_path / "log.swf"), hosts(tmp_path / "hosts.csv")
    first = scenario_of(log)
    other = dataclasses.replace(first, platform=gs.Platform.from_hosts(table, nodes=9, seed=1))
    store = gs.Store(tmp_path / "store") if kept else None
    with pytest.raises(gs.GridSimError, match=r"log.swf must be unchanged since the study"):
        collect([Cell(first, LogChangeAtEnd(to=str(log))), Cell(other, gs.Fcfs())], store=store)


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_that_changes_between_rounds_of_replications_is_rejected(tmp_path: Path, kept: bool) -> None:
    """No interval mixes runs of two traces, whether they are run or read from a store."""
    log = tmp_path / "log.swf"
    store = tmp_path / "store" if kept else None

    def scenario(seed: int) -> gs.Scenario:
        jobs(log, 100 if seed < 10 else 900)
        platform = gs.Platform.desktop_grid(nodes=4, seed=seed)
        return gs.Scenario(platform, gs.Workload.from_log(log))

    schedulers = {"fcfs": gs.Fcfs()}
    if kept:  # later replications are already stored
        gs.replicate(scenario, schedulers, range(10, 20), store=store)
    with pytest.raises(gs.GridSimError, match=r"log.swf must be unchanged since the study"):
        gs.replicate(scenario, schedulers, half_width=1e-9, at_most=20, store=store)


@pytest.mark.parametrize("threads", [None, 1])
def test_a_file_that_changes_during_a_comparison_is_rejected(tmp_path: Path, threads: int | None) -> None:
    log = jobs(tmp_path / "log.swf")
    pool = ThreadPoolExecutor(1) if threads else None
    schedulers = {"second": LogChangeAtEnd(to=str(log)), "fcfs": gs.Fcfs()}
    with pytest.raises(FileChanged, match=r"log.swf must not change during the comparison, .* for fcfs"):
        gs.compare(scenario_of(log), schedulers, executor=pool)


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
def test_a_key_depends_on_the_format_in_a_file_name(tmp_path: Path) -> None:
    """The same lines may be read as different formats."""
    rows = [
        (number, 3, number % 8, number % 8, 0, 1, begin, begin + 300)
        for number, begin in enumerate(range(0, 40_000, 500))
    ]
    (tmp_path / "fta").mkdir()
    keys, actual = Keys(), []
    for name in ("fta/event_trace.tab", "desktops.avt"):
        path = tmp_path / name
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
        cell = Cell(with_failures(path), gs.Fcfs())
        actual.append((keys.key(cell), gs.simulate(cell.scenario, cell.scheduler).makespan))
    assert actual[0][0] != actual[1][0] and actual[0][1] != actual[1][1]
    # a folder and its file have the same format
    assert keys.key(Cell(with_failures(tmp_path / "fta"), gs.Fcfs())) == actual[0][0]

    store = gs.Store(tmp_path / "store")
    log = tmp_path / "log.swf"
    log.write_text("# JobID\n" + "".join(f"{i} {300 * i} 0 100 1 100 -1 1 100 -1 1 u g\n" for i in range(4)))
    (failed,) = collect([Cell(scenario_of(log), gs.Fcfs())], store=store)
    assert "log.swf:2" in failed.error
    (sound,) = collect([Cell(scenario_of(log.rename(tmp_path / "log.gwf")), gs.Fcfs())], store=store)
    assert not sound.error and len(store) == 2
    (failed,) = collect([Cell(scenario_of(jobs(tmp_path / "plain.swf.gz")), gs.Fcfs())], store=store)
    (sound,) = collect([Cell(scenario_of(jobs(tmp_path / "plain.swf")), gs.Fcfs())], store=store)
    assert "not a valid gzip file" in failed.error and not sound.error


@pytest.mark.parametrize("keep_results", [True, False])
def test_a_run_with_another_file_leaves_no_record(tmp_path: Path, keep_results: bool) -> None:
    """No full result is left either, and the failure is not one of the cell."""
    log = jobs(tmp_path / "log.swf")
    store = gs.Store(tmp_path / "store", keep_results=keep_results)
    for text in (jobs(tmp_path / "other.swf", 900).read_text(), "nothing\n"):
        jobs(log)
        cell = Cell(scenario_of(log), gs.Fcfs())
        (key,) = store.keys_of([cell])
        assert key is not None
        log.write_text(text)
        actual = measure(store.prepare(cell, key))
        assert actual.changed_file == str(log) and actual.lost and not actual.values
        assert not list((tmp_path / "store" / "results").iterdir())
        assert measure(cell).changed_file == ""


def test_a_failed_run_of_an_outdated_platform_is_not_stored(tmp_path: Path) -> None:
    """The run would differ from a run with the current table."""
    table, store = hosts(tmp_path / "hosts.csv"), gs.Store(tmp_path / "store")
    log = jobs(tmp_path / "log.swf")

    def cell() -> Cell:
        platform = gs.Platform.from_hosts(table, nodes=9, seed=1)
        return Cell(gs.Scenario(platform, gs.Workload.jobs_from_log(log)), gs.BatchQueue())

    before = cell()
    hosts(table, 2.0)
    with pytest.raises(
        gs.GridSimError, match=r"hosts.csv must be unchanged since the study began, or since its"
    ):
        collect([before], store=store)
    (actual,) = collect([cell()], store=store)
    assert not actual.error and len(store) == 1


def test_a_failure_after_a_new_table_of_nodes_counts_as_lost(tmp_path: Path) -> None:
    folder = desktops(tmp_path / "fta")
    store, cell = gs.Store(tmp_path / "store"), Cell(with_failures(folder), gs.Fcfs())
    (key,) = store.keys_of([cell])
    assert key is not None
    (folder / "node.tab").write_text("nothing\n")
    actual = measure(store.prepare(cell, key))
    assert actual.error and actual.lost and actual.changed_file == str(folder / "node.tab")


def test_the_digest_covers_all_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "long"
    for content in (b"x" * (2 * provenance._CHUNK + 7), b"x" * (2 * provenance._CHUNK + 6) + b"y"):
        file.write_bytes(content)
        assert sha256(str(file)) == hashlib.sha256(content).hexdigest()


def overwrite(file: Path) -> None:
    file.write_text("another")


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("b")
    os.replace(other, file)


@pytest.mark.parametrize("change", [overwrite, replace])
def test_a_changed_file_with_its_old_modification_time_is_rejected(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Copies may keep the modification time, so other file attributes are compared as well."""
    file = tmp_path / "log.swf"
    file.write_text("a")
    os.utime(file, (0, 0))
    with (
        pytest.raises(FileChanged, match=r"log.swf must not change while it is read"),
        file_digests([str(file)]),
    ):
        change(file)
        os.utime(file, (0, 0))


def test_a_file_that_changes_while_it_is_hashed_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.swf"
    file.write_text("a")

    def change_after_hashing(path: str) -> str:
        actual = sha256(path)
        file.write_text("another")
        return actual

    monkeypatch.setattr(provenance, "current_digest", change_after_hashing)
    with (
        pytest.raises(FileChanged, match=r"log.swf must not change while it is read"),
        file_digests([str(file)]),
    ):
        pass


def test_a_file_with_only_a_new_modification_time_is_accepted(tmp_path: Path) -> None:
    log = jobs(tmp_path / "log.swf")

    class TouchScheduler(LogChangeAtStart, frozen=True):
        def start(self, run: Any) -> Any:
            os.utime(self.to, (0, 0))
            return gs.Fcfs().start(run)

    assert gs.simulate(scenario_of(log), TouchScheduler(to=str(log))).provenance["files"] == {
        str(log): sha256(str(log))
    }


def test_a_missing_file_fails_only_its_own_cell(tmp_path: Path) -> None:
    """The other cells are run, with or without a store."""
    log = jobs(tmp_path / "log.swf")
    cells = [Cell(scenario_of(path), gs.Fcfs()) for path in (log, tmp_path / "missing.swf", tmp_path)]
    store = gs.Store(tmp_path / "store")
    for actual in (collect(cells), collect(cells, store=store), collect(cells, store=store)):
        assert not actual[0].error
        assert "missing.swf" in actual[1].error and actual[2].error
    assert len(store) == 1


def test_a_table_of_nodes_added_during_a_run_is_rejected(tmp_path: Path) -> None:
    folder = desktops(tmp_path / "fta")

    class NodeTableScheduler(gs.Fcfs, frozen=True):
        name = "adding"

        def start(self, run: Any) -> Any:
            add_nodes(folder)
            return super().start(run)

    with pytest.raises(FileChanged, match=r"fta must not change while it is read"):
        gs.simulate(with_failures(folder), NodeTableScheduler())


def changing_scheduler(change: Callable[[], None]) -> gs.Scheduler:
    """Return a scheduler that calls `change` when its run ends."""

    class ChangeScheduler(gs.Fcfs, frozen=True):
        name = "changing"

        def start(self, run: Any) -> Any:
            policy = super().start(run)
            finish = policy.finish

            def change_and_finish() -> Any:
                change()
                return finish()

            policy.finish = change_and_finish  # type: ignore[method-assign]
            return policy

    return ChangeScheduler()


@pytest.mark.parametrize("name", ["fta", "fta/event_trace.tab"])
def test_a_table_of_nodes_added_during_a_study_is_rejected(tmp_path: Path, name: str) -> None:
    folder = desktops(tmp_path / "fta")
    cells = [
        Cell(with_failures(tmp_path / name), changing_scheduler(lambda: add_nodes(folder))) for _ in range(2)
    ]
    with pytest.raises(gs.GridSimError, match=r"node.tab must be unchanged since the study began"):
        collect(cells)


@pytest.mark.parametrize("name", ["fta", "fta/event_trace.tab"])
@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("appears", [True, False])
def test_a_table_of_nodes_that_changes_during_a_comparison_is_rejected(
    tmp_path: Path, appears: bool, threads: int | None, name: str
) -> None:
    folder = desktops(tmp_path / "fta")
    if not appears:
        add_nodes(folder)
    change = changing_scheduler((lambda: add_nodes(folder)) if appears else (folder / "node.tab").unlink)
    pool = ThreadPoolExecutor(1) if threads else None
    with pytest.raises(FileChanged, match=r"node.tab must not change during the comparison, .* for fcfs"):
        gs.compare(with_failures(tmp_path / name), {"then": change, "fcfs": gs.Fcfs()}, executor=pool)


def test_each_trace_of_a_folder_reads_its_own_files(tmp_path: Path) -> None:
    """A table of nodes belongs to traces of its format only."""
    folder = desktops(tmp_path / "fta")
    add_nodes(folder)
    (folder / "hosts.avt").write_text("".join(f"h{i} 1 0 100000\n" for i in range(8)))
    cells = [Cell(with_failures(folder / name), gs.Fcfs()) for name in ("hosts.avt", "event_trace.tab")]
    assert [actual.error for actual in collect([*cells, *cells])] == [""] * 4


@pytest.mark.parametrize("before", [True, False])
def test_failures_are_generated_again_only_from_the_same_trace(tmp_path: Path, before: bool) -> None:
    """Exports and checks fail, and charts omit down times, if the table of nodes appears or disappears."""
    folder = desktops(tmp_path / "fta")
    if before:
        add_nodes(folder)
    result = gs.simulate(with_failures(folder), gs.Fcfs(), record=True)
    uses: tuple[Callable[[gs.Result], Any], ...] = (
        validate_result,
        gs.Result.check_faults,
        lambda result: to_perfetto(result, tmp_path / "trace.json"),
    )
    for use in uses:
        use(result)
    if before:
        (folder / "node.tab").unlink()
    else:
        add_nodes(folder)
    for use in uses:
        with pytest.raises(FileChanged, match=r"node.tab must have the SHA-256 "):
            use(result)
    assert "down: trace not found" in [text.get_text() for text in gantt(result).get_legend().get_texts()]
    gs.write_report({"run": result}, tmp_path / "report.html")
    assert "down times are not drawn, since their trace is missing" in (tmp_path / "report.html").read_text()


def test_files_of_the_same_name_are_distinguished_by_path(tmp_path: Path) -> None:
    """Reports name a changed file by its path."""
    for folder in ("w", "f"):
        (tmp_path / folder).mkdir()
    log = jobs(tmp_path / "w" / "trace.txt")
    ups = tmp_path / "f" / "trace.txt"
    ups.write_text("".join(f"h{i} 1 0 100000\n" for i in range(8)))
    scenario = scenario_of(log, faults=gs.Faults.trace(ups, seed=1))
    result = gs.simulate(scenario, gs.Fcfs(), record=True)
    assert reproduce_result(result).changes == {}
    result.check_faults()  # only files of the faults are checked, not the log
    original = sha256(str(log))
    jobs(log, 900)
    assert reproduce_result(result).changes == {f"file {log}": (original, sha256(str(log)))}


def test_a_result_is_not_compared_with_another_trace(tmp_path: Path) -> None:
    log = jobs(tmp_path / "log.swf")
    result = gs.simulate(scenario_of(log), gs.Fcfs(), record=True)
    assert validate_result(result) == []
    jobs(log, 900)
    with pytest.raises(gs.ScenarioError, match=r"log.swf must have the SHA-256"):
        validate_result(result)
