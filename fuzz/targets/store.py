"""Folders of sweeps: their header, and shards (Parquet)."""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from files import FOLDER, check_refusal
from samples import BAGS, scheduler
from zips import default_mutation

from gridsim.errors import GridSimError
from gridsim.studies.execution.cell import Cell, measure
from gridsim.studies.execution.store import Store
from gridsim.studies.sweep_result import SweepResult

DICTIONARY = [b'"gridsim store"', b"{", b"PAR1"]


@cache
def shards() -> dict[str, bytes]:
    """Return the shards of a store of one cell, by kind."""
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
        for number in range(8):
            yield name[:1].encode() + with_odd_column(content, random.Random(number))


def with_odd_column(content: bytes, draw: random.Random) -> bytes:
    """Return a valid shard with a duplicate column, or with a column of nulls."""
    table = pq.read_table(io.BytesIO(content))
    at = draw.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    if draw.random() < 0.5:
        table = table.append_column(name, column)
    else:
        table = table.set_column(at, name, pa.nulls(len(table), column.type))
    made = io.BytesIO()
    pq.write_table(table, made)
    return made.getvalue()


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return a shard with some bytes changed, mostly in its footer, whose length is kept."""
    draw = random.Random(seed)
    if data[:1] not in (b"c", b"s") or len(data) < 20 or draw.random() < 0.1:
        return default_mutation(data, max_size)
    if draw.random() < 0.1:
        name = "cells" if data[:1] == b"c" else "scenarios"
        return (data[:1] + with_odd_column(shards()[name], draw))[:max_size]
    content, end = bytearray(data), len(data) - 8
    length = int.from_bytes(data[end : end + 4], "little")
    first = end - length if 0 < length < end and draw.random() < 0.7 else 1
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(first, end)
        old = content[at]
        content[at] = draw.choice((0, 127, 128, 255, old ^ 1 << draw.randrange(8), draw.randrange(256)))
    return bytes(content)


def execute(data: bytes) -> None:
    folder = Path(FOLDER, "store")
    for name in ("cells", "scenarios", "results"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    kind, content = data[:1], data[1:]
    (folder / "store.json").write_bytes(content if kind == b"j" else b'{"gridsim store": 1}')
    for name in ("cells", "scenarios"):
        (folder / name / "a.parquet").write_bytes(content if kind == name[:1].encode() else shards()[name])
    found = {}
    with check_refusal(GridSimError, naming=str(folder)):
        store = Store(folder)
        keys = store.to_arrow()["key"].to_pylist()
        found = store.find(keys, ["makespan"])
        store._scenarios.read(set())
    with check_refusal(GridSimError, naming=str(folder)):
        Store(folder).verify()
    if found:
        measured = list(found.values())
        SweepResult({}, ("mincent",), len(measured), ("makespan",), None, measured, ("makespan",)).to_arrow()
