"""Columnar tables and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import ItemsView, Iterator, KeysView, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import one_line
from gridsim.support import html
from gridsim.support.arguments import unknown
from gridsim.support.columns import is_text
from gridsim.support.extras import need
from gridsim.support.text import align, check_name, plain

Column = NDArray[Any]

_SHOWN = 10  # rows that the repr of a table shows


def frozen(column: Column) -> Column:
    """Make `column` read-only and return it, so that a `Table` does not copy it."""
    column.flags.writeable = False
    return column


def _column(name: str, values: Any) -> Column:
    """Return `values` as a column of a `Table`: read-only, contiguous, in the machine's byte order."""
    flags = values.flags if type(values) is np.ndarray else None
    column = values if flags and flags.owndata and not flags.writeable else np.array(values)
    kind = column.dtype.kind
    if kind in "OT":
        if not all(isinstance(value, str) for value in column.tolist()):
            raise ValueError(f"column {name!r} must hold numbers or text")
        column, kind = np.array(column.tolist(), dtype=np.str_), "U"
    if kind == "U":
        # the shortest type that holds them, so that equal texts have equal types
        column = column.astype(f"U{max(1, max(map(len, column.tolist()), default=1))}")
        if not is_text(column):
            raise ValueError(f"column {name!r} must hold text, got what is no character")
    if kind not in "biufU" or column.ndim != 1:
        raise ValueError(f"column {name!r} must be one-dimensional numbers or text")
    if not (column.dtype.isnative and column.flags.c_contiguous):
        column = np.ascontiguousarray(column.astype(column.dtype.newbyteorder("="), copy=False))
    column.setflags(write=False)
    return column


class Table:
    """A table of read-only numpy columns of equal length.

    ``len(table)`` is the number of rows, ``table["name"]`` a column, ``table[3]`` a row as a dict.
    Columns are booleans, integers, floats or text, in the machine's byte order.  They are copied, except for
    arrays that are read-only and own their memory: nothing writes to these, and they may be large.

    Raises ValueError for columns of different lengths, of other than one dimension, or of other types.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {check_name(name): _column(name, values) for name, values in columns.items()}
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            said = {name: len(column) for name, column in self._columns.items()}
            raise ValueError(f"columns must be equally long, got {said}")
        self._rows = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            try:
                return self._columns[key]
            except KeyError:
                raise unknown("column", key, self._columns) from None
        if not -self._rows <= key < self._rows:
            raise IndexError(f"row {key} of a table of {self._rows}")
        return {name: column[key].item() for name, column in self._columns.items()}

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
        """Pickle by way of the constructor, so that columns from another process are read-only too."""
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
        """Return the table as a pandas DataFrame, a copy that may be written to.

        Raises ImportError when pandas is not installed.
        """
        return need("pandas", "data", "to_pandas").DataFrame(dict(self._columns))

    def to_arrow(self) -> Any:
        """Return the table as a pyarrow Table, which shares the numbers with this one; text is copied.

        Raises ImportError when pyarrow is not installed.
        """
        arrow = need("pyarrow", "data", "to_arrow")
        return arrow.table({name: arrow.array(column) for name, column in self._columns.items()})

    def to_xarray(self, dimension: str = "row") -> Any:
        """Return the table as an xarray Dataset: its columns along `dimension`, labelled by row number.

        The Dataset shares the columns, which are read-only; to write, use its ``copy(deep=True)``.

        Raises ImportError when xarray is not installed, ValueError if `dimension` is the name of a column.
        """
        xarray = need("xarray", "data", "to_xarray")
        if dimension in self._columns:
            raise ValueError(f"dimension must not be the name of a column, got {dimension!r}")
        columns = {name: (dimension, column) for name, column in self._columns.items()}
        return xarray.Dataset(columns, coords={dimension: np.arange(self._rows)})

    def __repr__(self) -> str:
        columns, gap = self._shown()
        lines = align(columns)
        if gap:
            lines.insert(1 + gap, "...")
        return "\n".join([*lines, self._size])

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        columns, gap = self._shown()
        if gap:
            columns = [[*column[: 1 + gap], "...", *column[1 + gap :]] for column in columns]
        return html.table(columns) + html.text(self._size)

    @property
    def _size(self) -> str:
        return f"[{self._rows} rows x {len(self._columns)} columns]"

    def _shown(self) -> tuple[list[list[str]], int]:
        """Return columns of text of the rows that are shown, and after how many of them rows are left out."""
        half = _SHOWN // 2
        whole = self._rows <= _SHOWN
        shown = list(range(self._rows)) if whole else [*range(half), *range(self._rows - half, self._rows)]
        columns = [["", *map(str, shown)]]
        for name, column in self._columns.items():
            cells = (column[row].item() for row in shown)
            columns.append([name, *(f"{c:.6g}" if isinstance(c, float) else one_line(str(c)) for c in cells)])
        return columns, 0 if whole else half


def digest(tables: Mapping[str, Table], facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hexadecimal) of the outcome of a run.

    It covers the tables, sorted by name: for each its name and number of rows, then its columns, sorted by
    name: name, little-endian type, and values in that type (text as UTF-32, every NaN as the same NaN, -0.0
    as 0.0).  The facts follow as JSON with sorted keys.  Wall time, paths and versions are not covered.
    """
    total = hashlib.sha256(b"gridsim 1\n")
    for name in sorted(tables):
        table = tables[name]
        total.update(f"table {name} {len(table)}\n".encode())
        for key in sorted(table.keys()):
            column = table[key]
            if column.dtype.kind == "f":
                column = column + 0.0  # -0.0 becomes 0.0
                column[np.isnan(column)] = np.nan
            column = column.astype(column.dtype.newbyteorder("<"), copy=False)
            total.update(f"column {key} {column.dtype.str}\n".encode())
            total.update(column)
    total.update(b"facts " + json.dumps(plain(facts), sort_keys=True).encode())
    return total.hexdigest()
