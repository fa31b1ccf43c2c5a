"""Columnar tables and their digest."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import one_line
from gridsim.support import html
from gridsim.support.arguments import short_repr, unknown_name_error
from gridsim.support.arrays import is_constant
from gridsim.support.columns import is_valid_unicode
from gridsim.support.imports import import_extra
from gridsim.support.text import align, check_name, plain

Column = NDArray[Any]

#: Number of rows of a column that are hashed at once; they stay in the cache of a processor.
_PART = 1 << 14
_REPR_ROWS = 10  # number of rows in the repr of a table


def frozen(column: Column) -> Column:
    """Return `column` after making it read-only, so that a `Table` does not copy it."""
    column.flags.writeable = False
    return column


def _column(name: str, values: Any) -> Column:
    """Return `values` as a column of a `Table`: read-only, contiguous, in the machine's byte order."""
    column = values if is_constant(values) else np.array(values)
    kind = column.dtype.kind
    if kind in "OT":
        for value in column.tolist():
            if not isinstance(value, str):
                raise ValueError(
                    f"column {name!r} must contain numbers or text, got a value of {type(value).__name__}"
                )
        column, kind = np.array(column.tolist(), dtype=np.str_), "U"
    if kind == "U":
        # use the shortest dtype, so that equal texts have equal dtypes
        longest = int(np.strings.str_len(column).max(initial=1))
        column = column.astype(f"U{longest}", copy=False)
        if not is_valid_unicode(column):
            raise ValueError(f"column {name!r} must be valid Unicode text, got invalid characters")
    if kind not in "biufU" or column.ndim != 1:
        raise ValueError(
            f"column {name!r} must be one-dimensional and contain numbers or text, got "
            f"{column.ndim} dimensions and dtype kind {kind!r}"
        )
    if not (column.dtype.isnative and column.flags.c_contiguous):
        column = np.ascontiguousarray(column.astype(column.dtype.newbyteorder("="), copy=False))
    column.setflags(write=False)
    return column


class ArrowStream:
    """What libraries of tables take as it is (polars, DuckDB, pyarrow): the Arrow PyCapsule interface."""

    def to_arrow(self) -> Any:
        """Return a pyarrow Table.  Raises ImportError without pyarrow."""
        raise NotImplementedError(f"{type(self).__name__} must define to_arrow()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return `to_arrow` as a capsule with an ``ArrowArrayStream``; ImportError without pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Table(ArrowStream):
    """A table of read-only numpy columns of equal length.

    ``len(table)`` is the number of rows, ``table["name"]`` a column, ``table[3]`` a row as a dict, and
    ``table[2:5]``, ``table[[0, 4]]`` or ``table[table["tasks"] > 1]`` a table of some rows.  Columns are
    booleans, integers, floats or text, in the machine's byte order.  They are copied, except for read-only
    arrays that own their memory, which cannot change.

    With the extra ``data`` other libraries take it as it is: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``, ``narwhals.from_arrow(table,
    backend="polars")``, and the variable's name in a query of DuckDB.

    Raises
    ------
    ValueError
        If columns differ in length, are not one-dimensional, or have another type.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {check_name(name): _column(name, values) for name, values in columns.items()}
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            lengths_by_name = {name: len(column) for name, column in self._columns.items()}
            raise ValueError(f"columns must be equally long, got {lengths_by_name}")
        self._rows = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | Column) -> Table: ...
    def __getitem__(self, key: Any) -> Column | Table | dict[str, Any]:
        if isinstance(key, str):
            try:
                return self._columns[key]
            except KeyError:
                raise unknown_name_error("column", key, self._columns) from None
        if isinstance(key, (slice, list, np.ndarray)):
            rows = key if isinstance(key, slice) else self._rows_of(key)
            return Table({name: column[rows] for name, column in self._columns.items()})
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)):
            raise self._index_error(key)
        if not -self._rows <= key < self._rows:
            raise IndexError(f"row must be in {-self._rows}..{self._rows - 1}, got {key}")
        return {name: column[key].item() for name, column in self._columns.items()}

    def _rows_of(self, key: list[int] | Column) -> Column:
        """Return the numbers of the rows that a list or an array selects: numbers, or a mask of all rows."""
        try:
            rows = np.asarray(key) if len(key) else np.zeros(0, np.int64)
        except ValueError as error:  # lists of different lengths
            raise self._index_error(key) from error
        if rows.ndim != 1 or rows.dtype.kind not in "biu":
            raise self._index_error(key)
        if rows.dtype.kind == "b":
            if len(rows) != self._rows:
                raise IndexError(f"a mask must have {self._rows} entries, one per row, got {len(rows)}")
            return np.flatnonzero(rows)
        outside = rows[(rows < -self._rows) | (rows >= self._rows)]
        if len(outside):
            raise IndexError(f"rows must be in {-self._rows}..{self._rows - 1}, got {outside[0]}")
        return rows

    @staticmethod
    def _index_error(key: object) -> TypeError:
        return TypeError(
            "the index of a table must be the name of a column, or a number, a slice, a list or a mask of "
            f"rows, got {short_repr(key)}"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Column:
        """Refuse, since ``pandas.DataFrame(table)`` would be a frame of one column."""
        raise TypeError(
            'a Table is not an array: use a column (table["name"]), table.to_pandas() or table.to_arrow()'
        )

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return list(self) == list(other) and all(
            a.dtype == other._columns[name].dtype
            and np.array_equal(a, other._columns[name], equal_nan=a.dtype.kind == "f")
            for name, a in self._columns.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Table], tuple[dict[str, Column]]]:
        """Pickle through the constructor, so that columns from another process are also read-only."""
        return Table, (self._columns,)

    def keys(self) -> KeysView[str]:
        """Return the column names."""
        return self._columns.keys()

    def items(self) -> ItemsView[str, Column]:
        """Return (name, column) pairs."""
        return self._columns.items()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dicts of plain Python values."""
        plain = [column.tolist() for column in self._columns.values()]
        for row in zip(*plain, strict=True):
            yield dict(zip(self._columns, row, strict=True))

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame, a writable copy.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return import_extra("pandas", "data", "to_pandas").DataFrame(dict(self._columns))

    def to_arrow(self) -> Any:
        """Return the table as a pyarrow Table, with shared columns of numbers and copied columns of text.

        NaN becomes null, since a value is missing.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        """
        arrow = import_extra("pyarrow", "data", "to_arrow")
        return arrow.table(
            {name: arrow.array(column, from_pandas=True) for name, column in self._columns.items()}
        )

    def to_xarray(self, dimension: str = "row") -> Any:
        """Return the table as an xarray Dataset: its columns along `dimension`, labelled by row number.

        The Dataset shares the read-only columns; ``copy(deep=True)`` makes it writable.

        Raises
        ------
        ImportError
            If xarray is not installed.
        ValueError
            If `dimension` is the name of a column.
        """
        xarray = import_extra("xarray", "data", "to_xarray")
        if dimension in self._columns:
            raise ValueError(f"dimension must not be the name of a column, got {dimension!r}")
        columns = {name: (dimension, column) for name, column in self._columns.items()}
        return xarray.Dataset(columns, coords={dimension: np.arange(self._rows)})

    def __repr__(self) -> str:
        columns, gap = self._repr_columns()
        lines = align(columns)
        if gap:
            lines.insert(1 + gap, "...")
        return "\n".join([*lines, self._size_text])

    def _repr_html_(self) -> str:
        """Return an HTML table of the first and the last rows."""
        columns, gap = self._repr_columns()
        if gap:
            columns = [[*column[: 1 + gap], "...", *column[1 + gap :]] for column in columns]
        return html.table(columns) + html.text(self._size_text)

    @property
    def _size_text(self) -> str:
        return f"[{self._rows} rows x {len(self._columns)} columns]"

    def _repr_columns(self) -> tuple[list[list[str]], int]:
        """Return text columns of the displayed rows, and the number of rows before omitted rows, or 0."""
        half = _REPR_ROWS // 2
        is_complete = self._rows <= _REPR_ROWS
        rows = (
            list(range(self._rows)) if is_complete else [*range(half), *range(self._rows - half, self._rows)]
        )
        columns = [["", *map(str, rows)]]
        for name, column in self._columns.items():
            cells = (column[row].item() for row in rows)
            columns.append([name, *(f"{c:.6g}" if isinstance(c, float) else one_line(str(c)) for c in cells)])
        return columns, 0 if is_complete else half


def digest(tables: Mapping[str, Table], facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hexadecimal) of the outcome of a run.

    The digest covers the tables, sorted by name, and then the facts as JSON with sorted keys.  A table
    contributes its name, its number of rows, and its columns, sorted by name.  A column contributes its name,
    its little-endian dtype and its values (text as UTF-32, every NaN as the same NaN, -0.0 as 0.0).  Wall
    time, paths and versions are not covered.
    """
    digest_state = hashlib.sha256(b"gridsim 1\n")
    for name in sorted(tables):
        table = tables[name]
        digest_state.update(f"table {name} {len(table)}\n".encode())
        for key, column in sorted(table.items()):
            little = column.dtype if sys.byteorder == "little" else column.dtype.newbyteorder("<")
            digest_state.update(f"column {key} {little.str}\n".encode())
            for first in range(0, len(column), _PART):
                part = column[first : first + _PART]
                if part.dtype.kind == "f":
                    part = part + 0.0  # -0.0 becomes 0.0
                    part[np.isnan(part)] = np.nan
                digest_state.update(part.astype(little, copy=False).data)
    digest_state.update(b"facts " + json.dumps(plain(facts), sort_keys=True).encode())
    return digest_state.hexdigest()
