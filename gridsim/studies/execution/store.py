"""Store: a folder with the records of runs, under keys that cover all data on which a record depends.

``cells/*.parquet`` has one row per run, ``scenarios/*.parquet`` has the scenarios of the runs,
``arrays/*.npz`` has the long lists of these, and ``results/*.npz`` has whole results if they are kept.  Files
are written completely or not at all and are never changed, so a process may be killed at any time, and
several processes may use one store.  The name of a Parquet file is the SHA-256 of its content, which is
checked whenever it is read.  A store needs the extra ``data``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, TraceFormatError
from gridsim.model.scenario import ArchivedScenario, Scenario
from gridsim.results.archive import Reader, Writer
from gridsim.results.metrics.registry import METRICS
from gridsim.results.result import Result
from gridsim.results.table import ArrowStream
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.description import describe
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.keys import Keys
from gridsim.support.files import atomic_file, open_regular, temporary_names
from gridsim.support.imports import import_extra
from gridsim.support.memory import memory, size_of
from gridsim.support.references import Arrays
from gridsim.support.text import plain

StorePath = str | os.PathLike[str]

#: Version of the layout.
FORMAT = 1
_HEADER = "store.json"
#: Maximum number of bytes of `_HEADER` that are read.
_LONGEST = 1 << 16
#: Folder -> pattern of the names of its files.
_SHARD = r"[0-9a-f]{32}(?:[0-9a-f]{32})?\.parquet"  # earlier versions of gridsim used 32 random digits
_SHA256 = "[0-9a-f]{64}"
_FOLDERS = {
    "cells": _SHARD,
    "scenarios": _SHARD,
    "arrays": rf"{_SHA256}\.npz",
    "results": rf"{_SHA256}\.npz",
}
#: Number of shards from which on `Store.tidy` merges them into one.
_MERGE_COUNT = 64
#: Age after which an unfinished file counts as a leftover of a killed process, s.
_LEFTOVER_AGE = 3600.0

#: Columns of a row besides the metrics: name -> type of pyarrow.
_COLUMNS = {
    "key": "string",
    "error": "string",
    "digest": "string",
    "code": "string",
    "scheduler": "string",
    "class": "string",
    "parameters": "string",
    "scenario": "string",
    "seed": "int64",
    "time_limit": "double",
    "wall_seconds": "double",
    "peak_memory": "int64",
}
#: Types of numbers: pyarrow -> numpy.
_NUMPY = {"int64": np.int64, "double": np.float64}
#: Folder -> types of the columns of its tables; metrics of the user are numbers as well.
_TYPES = {
    "cells": _COLUMNS | dict.fromkeys(METRICS, "double"),
    "scenarios": {"scenario": "string", "toml": "string"},
}
#: Columns that may be empty: not every system reports memory, and not every run has all metrics.
_OPTIONAL = ("peak_memory", *METRICS)


class Store(ArrowStream):
    """The store in the folder `path`, which is created if it does not exist.

    Parameters
    ----------
    keep_results
        Whether whole results are also saved, for `result`; the processes that execute the runs must have
        access to the folder.

    Raises
    ------
    ScenarioError
        If the folder is not a store.
    OSError
        If the folder cannot be created or written.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep_results: bool = False) -> None:
        self._arrow = import_extra("pyarrow", "data", "a store")
        self._parquet = import_extra("pyarrow.parquet", "data", "a store")
        self.path, self.keep_results = Path(path), keep_results
        header = self.path / _HEADER
        for part in (header, *(self.path / folder for folder in _FOLDERS)):
            _no_link(part)
        if not header.exists():
            if self.path.exists() and not (
                self.path.is_dir() and all(map(_can_be_in_new_store, self.path.iterdir()))
            ):
                raise ScenarioError(f"store must be a store of gridsim or a new folder, got {self.path}")
            self.path.mkdir(exist_ok=True)
            with atomic_file(header) as stream:
                stream.write(json.dumps({"gridsim store": FORMAT}).encode())
        try:
            with open_regular(header) as stream:
                version = json.loads(stream.read(_LONGEST))["gridsim store"]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise GridSimError(f"{header} must be the header of a store ({error})") from error
        if type(version) is not int or version != FORMAT:  # True is 1, too
            raise GridSimError(f"{header}: format of a store must be {FORMAT}, got {version!r}")
        for folder, name in _FOLDERS.items():
            if folder != "arrays":  # this folder is created only if needed
                (self.path / folder).mkdir(exist_ok=True)
            unfinished = temporary_names(name)
            for file in (self.path / folder).glob(".*.tmp"):
                with suppress(FileNotFoundError):
                    if unfinished.fullmatch(file.name) and time.time() - file.stat().st_mtime > _LEFTOVER_AGE:
                        file.unlink()
        self._keys = Keys()
        #: Names (SHA-256) of the scenarios that this object has written.
        self._saved_scenarios: set[str] = set()

    # -- runs -----------------------------------------------------------------------------------------

    def keys_of(self, cells: Sequence[Cell]) -> list[str | None]:
        """Return the key of each run, from `gridsim.studies.execution.keys.Keys.key`.

        The key is None for a run whose files cannot be read."""
        for cell in cells:
            for name, metric in cell.metrics.items():
                if name in _COLUMNS or (metric is not None and name in METRICS):
                    raise ScenarioError(f"metrics: a function must not have the name {name!r} in a store")
        self._keys = Keys()  # files and modules may have changed since they were read
        return [self._key(cell) for cell in cells]

    def _key(self, cell: Cell) -> str | None:
        try:
            return self._keys.key(cell)
        except (OSError, TraceFormatError):
            return None

    def prepare(self, cell: Cell, key: str) -> Cell:
        """Return `cell` with the SHA-256 of its files, and the file of its result if results are kept."""
        keep = str(self.result_file(key).absolute()) if self.keep_results else None
        return dataclasses.replace(cell, keep=keep, files=self.files(cell.scenario))

    def files(self, scenario: Scenario) -> Mapping[str, str]:
        """Return the SHA-256 that each file of a scenario had when `keys_of` computed the keys."""
        return self._keys.files(scenario)

    def result_file(self, key: str) -> Path:
        """Return the path of the whole result of a run, which may not exist.

        Raises
        ------
        GridSimError
            If the key is invalid.
        """
        if not re.fullmatch(_SHA256, key):
            raise GridSimError(f"store: a key must be the SHA-256 of a run, got {key!r}")
        return _no_link(self.path / "results" / f"{key}.npz")

    def find(self, keys: Iterable[str], metrics: Iterable[str] = ()) -> dict[str, RunRecord]:
        """Return key -> record for the `keys` that are in the store as failed or with all of `metrics`."""
        key_set, metric_names = set(keys), set(metrics)
        table, _ = self._read(key_set)
        records = {}
        for row in table.to_pylist():
            values = {name: row[name] for name in row if name not in _COLUMNS and row[name] is not None}
            complete = metric_names <= set(values) and (
                not self.keep_results or self.result_file(row["key"]).exists()
            )
            if row["error"] or complete:
                records[row["key"]] = RunRecord(
                    values=values,
                    digest=row["digest"],
                    error=row["error"],
                    wall_seconds=row["wall_seconds"],
                    peak_memory=row["peak_memory"],
                    code=row["code"],
                )
        return records

    def add(self, rows: Sequence[tuple[str, Cell, RunRecord]]) -> None:
        """Add records of runs under their keys in a new shard, and new scenarios in another shard."""
        schedulers_by_id = {id(cell.scheduler): cell.scheduler for _, cell, _ in rows}
        schedulers = {number: _scheduler_columns(scheduler) for number, scheduler in schedulers_by_id.items()}
        scenarios = [self._keys.scenario(cell.scenario) for _, cell, _ in rows]
        names = [hashlib.sha256(archive.toml.encode()).hexdigest() for archive in scenarios]
        new = {
            name: record
            for name, record in zip(names, scenarios, strict=True)
            if name not in self._saved_scenarios
        }
        if new:
            for archive in new.values():
                self._keep_arrays(archive.arrays)
            table = {"scenario": [*new], "toml": [archive.toml for archive in new.values()]}
            self._write("scenarios", self._columns("scenarios", table))
            self._saved_scenarios |= set(new)
        columns: dict[str, list[Any]] = {
            "key": [key for key, _, _ in rows],
            **{
                name: [getattr(record, name) for _, _, record in rows] for name in ("error", "digest", "code")
            },
            **{
                name: [schedulers[id(cell.scheduler)][name] for _, cell, _ in rows]
                for name in ("scheduler", "class", "parameters")
            },
            "scenario": names,
            "seed": [cell.scenario.seed for _, cell, _ in rows],
            "time_limit": [math.inf if cell.time_limit is None else cell.time_limit for _, cell, _ in rows],
            **{
                name: [getattr(record, name) for _, _, record in rows]
                for name in ("wall_seconds", "peak_memory")
            },
        }
        user_metrics = sorted({name for _, _, record in rows for name in record.values} - set(METRICS))
        columns |= {
            name: [record.values.get(name) for _, _, record in rows] for name in (*METRICS, *user_metrics)
        }
        self._write("cells", self._columns("cells", columns))

    def _keep_arrays(self, arrays: Arrays) -> None:
        """Write each array of a scenario to a file, unless it exists."""
        for name, array in arrays.items():
            file = _no_link(self.path / "arrays" / f"{name}.npz")
            if not file.exists():
                file.parent.mkdir(exist_ok=True)
                with atomic_file(file) as stream, Writer(stream) as archive:
                    archive.arrays({name: array})

    def _columns(self, folder: str, columns: Mapping[str, Sequence[Any]]) -> Any:
        """Return a table for `folder` from columns of plain values; None is a missing number."""
        known = _TYPES[folder]
        arrays = [self._column(values, known.get(name, "double")) for name, values in columns.items()]
        return self._arrow.Table.from_arrays(arrays, names=[*columns])

    def _column(self, values: Sequence[Any], kind: str) -> Any:
        """Return values as an array of pyarrow.

        Its buffers are created here because ``pyarrow.array`` imports pandas, which takes long.
        """
        arrow = self._arrow
        if kind == "string":
            texts = [value.encode() for value in values]
            ends = np.array([*accumulate(map(len, texts), initial=0)], np.int32)
            buffers = [None, arrow.py_buffer(ends), arrow.py_buffer(b"".join(texts))]
            return arrow.Array.from_buffers(arrow.string(), len(texts), buffers)
        validity = np.packbits(np.array([value is not None for value in values], np.bool_), bitorder="little")
        numbers = np.array([0 if value is None else value for value in values], _NUMPY[kind])
        buffers = [arrow.py_buffer(validity), arrow.py_buffer(numbers)]
        return arrow.Array.from_buffers(arrow.type_for_alias(kind), len(values), buffers)

    # -- shards ---------------------------------------------------------------------------------------

    def _shards(self, folder: str) -> list[Path]:
        return sorted(map(_no_link, (self.path / folder).glob("*.parquet")))

    def _write(self, folder: str, table: Any) -> Path:
        """Write a table as a shard, whose name is the SHA-256 of its content, and return its path."""
        content = self._arrow.BufferOutputStream()
        self._parquet.write_table(table, content)
        shard = self.path / folder / f"{hashlib.sha256(buffer := content.getvalue()).hexdigest()}.parquet"
        with atomic_file(shard) as stream:
            stream.write(buffer)
        return shard

    def _load(self, folder: str, column: str, values: set[str] | None = None) -> tuple[Any, list[Path]]:
        """Return the rows of all shards in a folder, and the paths of the shards.

        Parameters
        ----------
        values
            Return only rows whose `column` is among these; None for all rows.
        """
        shards, tables = self._shards(folder), []
        types = _TYPES[folder]
        for shard in shards:
            try:
                with open_regular(shard) as stream:
                    if len(shard.stem) == 64:
                        content = hashlib.file_digest(stream, "sha256").hexdigest()
                        if content != shard.stem:
                            raise ValueError(
                                f"its name must be the SHA-256 of its content, got content {content}"
                            )
                    table = self._table(stream, types)
            except MemoryError:
                raise
            except FileNotFoundError:  # another process has just merged this shard with others
                return self._load(folder, column, values)
            except Exception as error:  # a damaged file may cause any exception of Parquet
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # an error of the disk: the file may be intact
                raise GridSimError(
                    f"{shard}: not a valid shard of a store ({error}); remove it to execute its runs again"
                ) from error
            if values is not None:
                compute = import_extra("pyarrow.compute", "data", "a store")
                value_set = self._column(sorted(values), "string")
                table = table.filter(compute.is_in(table[column], value_set))
            tables.append(table)
        empty = self._arrow.Table.from_batches([], self._arrow.schema([*types.items()]))
        return self._arrow.concat_tables([empty, *tables], promote_options="default"), shards

    def _table(self, stream: IO[bytes], known: Mapping[str, str]) -> Any:
        """Read the table of a shard, whose columns have the types `known`; all others must be numbers.

        Raises
        ------
        ValueError
            If a column has another type, a row lacks a required value, or the table would take more than a
            quarter of the memory; a few bytes may state that many rows have the same long text.
        """
        compute = import_extra("pyarrow.compute", "data", "a store")
        file, limit = self._parquet.ParquetFile(stream), memory() // 4
        for field in file.schema_arrow:
            if str(field.type) != (expected := known.get(field.name, "double")):
                raise ValueError(f"{field.name} must be of type {expected}, got {field.type}")
        if len(set(file.schema_arrow.names)) < len(file.schema_arrow.names):
            raise ValueError("two columns have the same name")
        metadata = file.metadata
        shared = [name for name in file.schema_arrow.names if known.get(name) == "string"]
        # the metadata of columns in a group is not used, since pyarrow 26 aborts the process if it is damaged
        groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
        # a file states its number of rows several times; in a damaged file they may differ or be < 0
        stated = sum(abs(group.total_byte_size) for group in groups)
        rows = max(abs(metadata.num_rows), sum(abs(group.num_rows) for group in groups))
        _check_size(max(stated, 8 * rows * metadata.num_columns), limit)
        stream.seek(0)
        table = self._parquet.ParquetFile(stream, read_dictionary=shared).read()
        table.validate(full=True)  # detects invalid texts
        for k, name in enumerate(table.column_names):
            column = table.column(k)
            if self._arrow.types.is_dictionary(column.type):
                lengths = (
                    compute.sum(compute.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
                    for chunk in column.chunks
                )
                _check_size(sum(lengths), limit)
                table = table.set_column(k, name, column.cast(column.type.value_type))
        for name in known:
            if name not in _OPTIONAL and (name not in table.column_names or table[name].null_count):
                raise ValueError(f"each row must have {name}, got rows without {name}")
        return table

    def _read(self, keys: set[str] | None = None) -> tuple[Any, list[Path]]:
        """Return the rows of `keys`, or all rows, each key once, and the paths of the shards that were read.

        Of several rows with one key, the first choice is one that did not fail, then one with more metrics.
        """
        rows, shards = self._load("cells", "key", keys)
        if not shards:
            return rows, shards
        compute = import_extra("pyarrow.compute", "data", "a store")
        rows = rows.take(compute.sort_indices(rows["key"]))
        if self._first(rows["key"]) is None:
            return rows, shards
        nulls = (compute.is_null(rows[name]).cast("int64") for name in METRICS)
        missing = functools.reduce(compute.add, nulls)
        order = rows.select(["key", "error"]).append_column("missing", missing)
        rows = rows.take(
            compute.sort_indices(order, sort_keys=[(name, "ascending") for name in order.column_names])
        )
        return rows.filter(self._first(rows["key"])), shards

    def _first(self, values: Any) -> Any:
        """Return a mask of the first of equal values in a sorted column; None if all values are different."""
        compute = import_extra("pyarrow.compute", "data", "a store")
        column = values.combine_chunks()
        is_different = compute.not_equal(column[1:], column[:-1])
        if compute.all(is_different).as_py() is not False:
            return None
        return self._arrow.concat_arrays([self._arrow.repeat(True, 1), is_different])

    def tidy(self) -> None:
        """Merge the shards of runs, and of scenarios, into one if there are `_MERGE_COUNT` or more."""
        if len(self._shards("cells")) >= _MERGE_COUNT:
            self._replace("cells", *self._read())
        if len(self._shards("scenarios")) >= _MERGE_COUNT:
            rows, shards = self._load("scenarios", "scenario")
            compute = import_extra("pyarrow.compute", "data", "a store")
            rows = rows.take(compute.sort_indices(rows["scenario"]))
            first = self._first(rows["scenario"])
            self._replace("scenarios", rows if first is None else rows.filter(first), shards)

    def _replace(self, folder: str, table: Any, shards: list[Path]) -> None:
        written = self._write(folder, table)
        for shard in shards:
            if shard != written:  # the same rows may have been merged before
                shard.unlink(missing_ok=True)

    # -- the whole store ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._read()[0].num_rows)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table with one row per run, ordered by key (docs/guides/experiments.md)."""
        return self._read()[0]

    def to_pandas(self) -> Any:
        """Return `to_arrow` as a pandas DataFrame."""
        import_extra("pandas", "data", "to_pandas")
        return self.to_arrow().to_pandas()

    def scenario(self, name: str) -> Scenario:
        """Return scenario `name` of the column ``scenario``, with SHA-256 in place of the paths of its files.

        Raises
        ------
        GridSimError
            If there is no scenario with this name, or one of its arrays is damaged.
        """
        rows, _ = self._load("scenarios", "scenario", {name})
        if not rows.num_rows:
            raise GridSimError(f"store: there is no scenario {name}")
        return Scenario.from_archive(ArchivedScenario(rows["toml"][0].as_py(), _Arrays(self.path / "arrays")))

    def result(self, key: str) -> Result:
        """Return the whole result of a run; raise GridSimError if it was not kept or has another digest."""
        file = self.result_file(key)
        if not file.exists():
            raise GridSimError(f"store: there is no result of {key}; use keep_results=True to keep results")
        result = Result.load(file)
        for digest in self._read({key})[0]["digest"].to_pylist():
            if digest and digest != result.digest:
                raise GridSimError(
                    f"{file}: the digest must be {digest}, as in the store, got {result.digest}"
                )
        return result

    def __repr__(self) -> str:
        return f"<Store {self.path}: {len(self)} runs>"


class _Arrays(Mapping[str, NDArray[Any]]):
    """The arrays in a folder of a store by name; an array is read from its file at the access.

    Raises
    ------
    GridSimError
        If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> NDArray[Any]:
        if not re.fullmatch(_SHA256, name):
            raise KeyError(name)
        file = _no_link(self._folder / f"{name}.npz")
        try:
            with open_regular(file) as stream, Reader(stream) as archive:
                return archive.arrays([name])[name]
        except FileNotFoundError:
            raise KeyError(name) from None
        except MemoryError:
            raise
        except Exception as error:  # a damaged file may cause any exception of zip
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk: the file may be intact
            raise GridSimError(f"{file}: not a valid array of a store ({error})") from error

    def __iter__(self) -> Iterator[str]:
        return (file.stem for file in self._folder.glob("*.npz"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _scheduler_columns(scheduler: Scheduler) -> dict[str, str]:
    """Return the columns that identify a scheduler."""
    description = describe(scheduler)
    parameters = json.dumps(plain(description["parameters"]), sort_keys=True)
    return {"scheduler": description["name"], "class": description["class"], "parameters": parameters}


def _no_link(path: Path) -> Path:
    """Return `path` of a file in a store; raise GridSimError if it is a symbolic link.

    Through a link, files outside the store would be read, written and removed."""
    if path.is_symlink():
        raise GridSimError(f"{path}: must be in the store itself, got a symbolic link")
    return path


def _check_size(nbytes: int, limit: int) -> None:
    if nbytes > limit:
        raise ValueError(f"its unpacked size is {size_of(nbytes)}, above the limit of {size_of(limit)}")


def _can_be_in_new_store(path: Path) -> bool:
    """Return whether `path` may be in a store that is being created, or whose creation was interrupted."""
    if (name := _FOLDERS.get(path.name)) is not None:
        return path.is_dir() and all(_has_name(file, name) for file in path.iterdir())
    return _has_name(path, re.escape(_HEADER))


def _has_name(path: Path, pattern: str) -> bool:
    """Return whether the name of `path`, or of an unfinished file of that name, matches `pattern`."""
    return bool(re.fullmatch(pattern, path.name) or temporary_names(pattern).fullmatch(path.name))


def store_of(store: Store | StorePath | None) -> Store | None:
    """Return `store` itself if it is a `Store` or None, otherwise the store at that path."""
    return store if store is None or isinstance(store, Store) else Store(store)
