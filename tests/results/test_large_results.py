"""Results whose columns are packed and read on several threads."""

from __future__ import annotations

import zipfile
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import GridSimError
from gridsim.support.threads import parallel_map

ROWS = 150_000


@pytest.fixture(scope="module")
def result() -> gs.Result:
    draw = np.random.default_rng(1)
    columns = np.sort(draw.uniform(0.0, 1e6, ROWS)), draw.integers(1, 4, ROWS), draw.uniform(1.0, 2.0, ROWS)
    scenario = gs.Scenario(gs.Platform.desktop_grid(50, seed=1), gs.Workload.of(*columns))
    return gs.simulate(scenario, gs.Fcfs(mode="pull"))


def test_files_do_not_depend_on_the_number_of_threads(
    result: gs.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for count in (1, 3):
        monkeypatch.setattr("gridsim.results.archive.processors", lambda count=count: count)
        result.save(file := tmp_path / f"{count}.npz")
        contents.append(file.read_bytes())
        loaded = gs.Result.load(file)
        assert loaded.digest == result.digest
        assert not any(column.flags.writeable for _, column in loaded.applications.items())
    assert contents[0] == contents[1]
    with zipfile.ZipFile(file) as archive, archive.open("tables/applications/tasks.npy") as member:
        assert np.array_equal(np.load(member), result.applications["tasks"])
        assert archive.testzip() is None


@pytest.mark.parametrize("column", ["release", "tasks"])  # one is stored, the other deflated
def test_a_damaged_column_is_rejected(result: gs.Result, tmp_path: Path, column: str) -> None:
    result.save(file := tmp_path / "run.npz")
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo(f"tables/applications/{column}.npy")
    content = bytearray(file.read_bytes())
    content[info.header_offset + info.compress_size // 2] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(GridSimError, match=f"^{file}: not a valid result file"):
        gs.Result.load(file)


def test_a_map_without_memory_for_threads_is_computed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = Thread.start, []

    def start_one(thread: Thread, *args: Any) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread, *args)

    monkeypatch.setattr(Thread, "start", start_one)
    assert list(parallel_map(abs, range(-20, 0), 4)) == [*range(20, 0, -1)]
