"""After a failing disk call or a power cut, either the old or the new file is there."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import gridsim as gs
from gridsim.simulation import checkpoint
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.collect import collect
from gridsim.studies.replicate import replication
from gridsim.support import files
from tests._helpers.disk import Disk, Ends, PowerCut

pytestmark = pytest.mark.slow

WORK = gs.Workload.bags(applications=1, tasks_per_node=1, seed=1)
SCENARIO = gs.Scenario(gs.Platform.pareto(2, 1), WORK, seed=1)
OTHER = replication(SCENARIO, 1)
DIGEST = gs.simulate(SCENARIO, gs.Fcfs()).digest


def save_a_result(folder: Path) -> Callable[[], None]:
    gs.simulate(SCENARIO, gs.Fcfs()).save(folder / "r")
    other = gs.simulate(OTHER, gs.Fcfs())
    return lambda: other.save(folder / "r")


def a_result(folder: Path) -> str:
    return "old" if gs.Result.load(folder / "r").digest == DIGEST else "new"


def keep_a_checkpoint(folder: Path) -> Callable[[], None]:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.CheckpointWarning)  # the checkpoint may fail to be written
            gs.simulate(SCENARIO, gs.Fcfs(), checkpoint=folder / "c", checkpoint_every=0.0)

    return run


def a_checkpoint(folder: Path) -> str:
    if not (folder / "c").exists():
        return "old"
    assert gs.resume(folder / "c").digest == DIGEST
    return "new"


def fill_a_store(folder: Path) -> Callable[[], None]:
    collect([Cell(SCENARIO, gs.Fcfs())], store=gs.Store(folder / "s"))
    return lambda: fill(folder)


def fill(folder: Path) -> None:
    cells = [Cell(item, gs.Fcfs()) for item in (SCENARIO, OTHER)]
    assert collect(cells, store=gs.Store(folder / "s"))[0].digest == DIGEST


def a_store(folder: Path) -> str:
    actual = "old" if len(gs.Store(folder / "s")) == 1 else "new"
    fill(folder)
    assert len(gs.Store(folder / "s")) == 2
    return actual


KINDS: dict[str, tuple[Callable[[Path], Callable[[], None]], Callable[[Path], str]]] = {
    "result": (save_a_result, a_result),
    "checkpoint": (keep_a_checkpoint, a_checkpoint),
    "store": (fill_a_store, a_store),
}


@pytest.mark.parametrize("ends", get_args(Ends))
@pytest.mark.parametrize("kind", KINDS)
def test_io_errors_leave_the_old_or_the_new_file(
    kind: str, ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail each call in turn, until a write makes no more calls."""
    begin, look = KINDS[kind]
    seen: set[str] = set()
    for last in itertools.count(1):
        folder = tmp_path / str(last)
        folder.mkdir()
        write, disk, error_name = begin(folder), Disk(last, ends), ""
        with monkeypatch.context() as patched:
            for module in (files, checkpoint):
                patched.setattr(module, "os", disk)
            try:
                write()
            except (OSError, PowerCut) as error:
                error_name = type(error).__name__
        if disk.off:
            disk.restart()
        else:
            assert not list(folder.rglob("*.tmp"))
        actual = look(folder)
        assert actual == "new" or error_name or kind == "checkpoint", "a failed write reported success"
        seen.add(actual)
        if not disk.failed:
            break
    assert last > 5 and seen == {"old", "new"}


class UnsyncedDisk(Disk):
    """A disk without syncs."""

    def fsync(self, descriptor: int) -> None:
        pass


def test_unsynced_data_is_lost_on_the_simulated_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated disk detects missing syncs: without them, half a file has the final name."""
    write, disk = save_a_result(tmp_path), UnsyncedDisk(10**9, "cut, names kept")
    monkeypatch.setattr(files, "os", disk)
    write()
    disk.restart()
    with pytest.raises(gs.GridSimError):
        gs.Result.load(tmp_path / "r")
