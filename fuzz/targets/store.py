"""Folders of sweeps: what says that they are, and shards (Parquet)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from files import FOLDER, refused
from samples import BAGS, scheduler

from gridsim.cells import Cell, measure
from gridsim.errors import GridSimError
from gridsim.store import Store

DICTIONARY = [b'"gridsim store"', b"{", b"PAR1"]


@cache
def shards() -> dict[str, bytes]:
    """Of a store of one cell."""
    folder = Path(FOLDER, "seed-store")
    store = Store(folder)
    cell = Cell(BAGS, scheduler("mincent"), {"makespan": None})
    store.add([(store.keys_of([cell])[0], cell, measure(cell))])
    found = {name: next((folder / name).glob("*.parquet")).read_bytes() for name in ("cells", "scenarios")}
    shutil.rmtree(folder)
    return found


def seeds() -> Iterator[bytes]:
    yield b'j{"gridsim store": 1}'
    for name, content in shards().items():
        yield name[:1].encode() + content


def one(data: bytes) -> None:
    folder = Path(FOLDER, "store")
    for name in ("cells", "scenarios", "results"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    kind, content = data[:1], data[1:]
    (folder / "store.json").write_bytes(content if kind == b"j" else b'{"gridsim store": 1}')
    for name in ("cells", "scenarios"):
        (folder / name / "a.parquet").write_bytes(content if kind == name[:1].encode() else shards()[name])
    with refused(GridSimError, naming=str(folder)):
        store = Store(folder)
        keys = store.to_arrow()["key"].to_pylist()
        store.find(keys, ["makespan"])
        store._load("scenarios", "scenario", set())
