"""Shards: the Parquet files of a folder of a store, each of which is a part of one table.

A shard is written completely or not at all and never changed, and its name is the SHA-256 of its content, so
several processes may use the folder at the same time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np

from gridsim.errors import GridSimError
from gridsim.support.files import atomic_file, open_regular
from gridsim.support.imports import import_extra
from gridsim.support.memory import memory, size_of

#: Types of numbers: pyarrow -> numpy.
_NUMPY = {"int64": np.int64, "double": np.float64}


class Shards:
    """The shards of a table.

    Parameters
    ----------
    folder
        The folder of the shards.
    key
        The column by which a row is identified.
    types
        Column -> its type of pyarrow; all other columns are numbers.
    optional
        The columns of `types` that may be empty.
    """

    def __init__(
        self, folder: Path, key: str, types: Mapping[str, str], optional: Sequence[str] = ()
    ) -> None:
        self._arrow = import_extra("pyarrow", "data", "a store")
        self._parquet = import_extra("pyarrow.parquet", "data", "a store")
        self.folder, self.key, self.types, self._optional = folder, key, types, optional
        #: The last shards that `append` has written, with their tables.
        self._recent: list[tuple[Path, Any]] = []

    def paths(self) -> list[Path]:
        """Return the paths of the shards."""
        return sorted(map(no_link, self.folder.glob("*.parquet")))

    def table(self, columns: Mapping[str, Sequence[Any]]) -> Any:
        """Return a table of pyarrow from columns of plain values; None is a missing number."""
        arrays = [self._column(values, self.types.get(name, "double")) for name, values in columns.items()]
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

    def write(self, table: Any) -> Path:
        """Write a table as a shard and return its path."""
        content = self._arrow.BufferOutputStream()
        self._parquet.write_table(table, content)
        shard = self.folder / f"{hashlib.sha256(buffer := content.getvalue()).hexdigest()}.parquet"
        with atomic_file(shard) as stream:
            stream.write(buffer)
        return shard

    def append(self, table: Any, count: int) -> None:
        """Write a table as a shard; each time that there are `count` new shards, replace them by one.

        Their rows are still in memory, so none of them is read again.
        """
        self._recent.append((self.write(table), table))
        if len(self._recent) >= count:
            shards, tables = zip(*self._recent, strict=True)
            self.replace(self.concatenate(tables), shards)

    def replace(self, table: Any, shards: Sequence[Path]) -> None:
        """Write a table as a shard, in place of `shards`."""
        self._recent.clear()
        written = self.write(table) if table.num_rows else None
        for shard in shards:
            if shard != written:  # the same rows may have been merged before
                shard.unlink(missing_ok=True)

    def read(
        self, keys: set[str] | None = None, *, columns: Sequence[str] | None = None
    ) -> tuple[Any, list[Path]]:
        """Return the rows of all shards, in which a key may occur several times, and the paths of the shards.

        Parameters
        ----------
        keys
            Return only the rows of these keys; None for all rows.
        columns
            Read only these columns, which must contain the key; None for all.

        Raises
        ------
        GridSimError
            If a shard is damaged.
        """
        shards, tables = self.paths(), []
        compute = import_extra("pyarrow.compute", "data", "a store")
        key_column = None if keys is None else self._column([*keys], "string")
        for shard in shards:
            try:
                table = self.read_shard(shard, columns)
            except FileNotFoundError:  # another process has just merged this shard with others
                return self.read(keys, columns=columns)
            if key_column is not None:
                table = table.filter(compute.is_in(table[self.key], key_column))
            tables.append(table)
        return self.concatenate(tables, columns), shards

    def concatenate(self, tables: Sequence[Any], columns: Sequence[str] | None = None) -> Any:
        """Return the rows of several tables with these columns, None for all."""
        types = {name: kind for name, kind in self.types.items() if columns is None or name in columns}
        empty = self._arrow.Table.from_batches([], self._arrow.schema([*types.items()]))
        return self._arrow.concat_tables([empty, *tables], promote_options="default")

    def read_shard(self, shard: Path, columns: Sequence[str] | None = None) -> Any:
        """Return the table of a shard.

        Raises
        ------
        GridSimError
            If it is damaged.
        FileNotFoundError
            If it does not exist.
        """
        try:
            with open_regular(shard) as stream:
                if len(shard.stem) == 64:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
                    if content != shard.stem:
                        raise ValueError(
                            f"its name must be the SHA-256 of its content, got content {content}"
                        )
                return self._parse(stream, columns)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file may cause any exception of Parquet
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk: the file may be intact
            raise GridSimError(
                f"{shard}: not a valid shard of a store ({error}); remove it, and studies add its rows again"
            ) from error

    def _parse(self, stream: IO[bytes], columns: Sequence[str] | None) -> Any:
        """Read the table of a shard, whose columns must have their types; others must be numbers.

        Raises
        ------
        ValueError
            If a column has another type, a row lacks a required value, or the table would take more than a
            quarter of the memory; a few bytes may state that many rows have the same long text.
        """
        compute = import_extra("pyarrow.compute", "data", "a store")
        known = self.types
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
        table = self._parquet.ParquetFile(stream, read_dictionary=shared).read(columns)
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
        for name in known if columns is None else columns:
            if name not in self._optional and (name not in table.column_names or table[name].null_count):
                raise ValueError(f"each row must have {name}, got rows without {name}")
        return table

    def distinct(self, rows: Any, preferences: Any = None) -> Any:
        """Return rows with each key once.

        Parameters
        ----------
        preferences
            A table of the same rows that begins with the key; of several rows with one key, the first in the
            ascending order of this table is chosen.  None for any of them.
        """
        compute = import_extra("pyarrow.compute", "data", "a store")
        # rows are sorted only if there are equal keys: a sort of a million rows takes seconds
        if compute.count_distinct(rows[self.key]).as_py() == rows.num_rows:
            return rows
        order = rows.select([self.key]) if preferences is None else preferences
        indices = compute.sort_indices(order, sort_keys=[(name, "ascending") for name in order.column_names])
        keys = rows[self.key].take(indices).combine_chunks()
        is_first = [self._arrow.repeat(True, 1), compute.not_equal(keys[1:], keys[:-1])]
        return rows.take(indices.filter(self._arrow.concat_arrays(is_first)))


def no_link(path: Path) -> Path:
    """Return `path` of a file in a store; raise GridSimError if it is a symbolic link.

    Through a link, files outside the store would be read, written and removed."""
    if path.is_symlink():
        raise GridSimError(f"{path}: must be in the store itself, got a symbolic link")
    return path


def _check_size(nbytes: int, limit: int) -> None:
    if nbytes > limit:
        raise ValueError(f"its unpacked size is {size_of(nbytes)}, above the limit of {size_of(limit)}")
