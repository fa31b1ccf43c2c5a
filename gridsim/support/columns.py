"""Columns: immutable lists of numbers or strings, stored as read-only arrays, such as those of a workload.

A column takes no more memory than its arrays, and is compared and copied as fast.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gridsim.support.arrays import Integers, is_constant

#: Number of entries that the repr of a column shows.
_REPR_ENTRIES = 3


class ArrayColumn(Sequence[Any]):
    """Immutable sequence of entries of one type, stored as read-only arrays.

    Columns are equal if they have the same type and the same entries.  An entry, and each entry of
    ``tolist()``, is a plain Python value.  ``numpy.array(column)`` is a writable copy.

    Attributes
    ----------
    arrays
        The stored arrays; ``type(column)(*column.arrays)`` is an equal column.
    """

    #: Type hint of an entry, and type of a number or string in an entry.
    hints: ClassVar[tuple[Any, type]]

    arrays: tuple[NDArray[Any], ...]

    @classmethod
    @abstractmethod
    def of(cls, values: Any) -> Self | None:
        """Return an array or a list of plain entries as a column; None for other values."""

    @abstractmethod
    def tolist(self) -> list[Any]:
        """Return the entries as a list of plain Python values."""

    def place(self, k: int) -> tuple[int, ...]:
        """Return the index of the entry with value `k` of ``arrays[0]``; for a row also the index in it."""
        return (k,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The `content_name` of each array."""
        return tuple(map(content_name, self.arrays))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayColumn):
            return NotImplemented
        pairs = zip(self.arrays, other.arrays, strict=False)
        return type(self) is type(other) and all(a is b or np.array_equal(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.arrays

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        entries = ", ".join(map(repr, islice(self, _REPR_ENTRIES)))
        more = f", ...: {len(self)} entries" if len(self) > _REPR_ENTRIES else ""
        return f"{type(self).__name__}([{entries}{more}])"


class FlatColumn(ArrayColumn):
    """Column of single numbers or strings.

    Attributes
    ----------
    array
        The entries.
    """

    dtype: ClassVar[type[np.generic]]
    #: Kinds of dtypes, and Python types, whose values are valid entries as they are.
    _kinds: ClassVar[str]
    _types: ClassVar[frozenset[type]]

    def __init__(self, values: Any) -> None:
        self.array = _read_only(values, self.dtype)
        self.arrays = (self.array,)

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """Return an array or a list of plain entries as a column; None for other values."""
        if isinstance(values, cls):
            return values
        if isinstance(values, FlatColumn):
            values = values.array
        if type(values) in (np.ndarray, np.memmap):
            return cls(values) if values.ndim == 1 and cls._are_plain(values) else None
        if type(values) in (list, tuple) and cls._types.issuperset(map(type, values)):
            try:
                return cls(values)
            except OverflowError:
                return None
        return None

    @classmethod
    def _are_plain(cls, values: NDArray[Any]) -> bool:
        """Return whether all `values` are valid entries, according to their dtype."""
        return values.dtype.kind in cls._kinds

    def tolist(self) -> list[Any]:
        """Return the entries as a list of plain Python values."""
        entries: list[Any] = self.array.tolist()
        return entries

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        return type(self)(self.array[index]) if isinstance(index, slice) else self.array[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)


class FloatColumn(FlatColumn):
    """Column of numbers: float64[n], without -0.0."""

    hints = (float, float)
    dtype = np.float64
    _kinds = "iuf"
    _types = frozenset((float, int, np.float64, np.int64))

    @classmethod
    def _are_plain(cls, values: NDArray[Any]) -> bool:
        return super()._are_plain(values) and values.dtype.itemsize <= 8


class IntColumn(FlatColumn):
    """Column of whole numbers: int64[n]."""

    hints = (int, int)
    dtype = np.int64
    _kinds = "iu"
    _types = frozenset((int, np.int64))

    @classmethod
    def _are_plain(cls, values: NDArray[Any]) -> bool:
        return super()._are_plain(values) and (values.dtype != np.uint64 or values.max(initial=0) < 2**63)


class TextColumn(FlatColumn):
    """Column of strings: str_[n], as wide as the longest string."""

    hints = (str, str)
    dtype = np.str_
    _kinds = "U"
    _types = frozenset((str, np.str_))

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """Return an array or a list of plain entries as a column; None for other values.

        A string that ends with a null character is not plain, since an array would drop that character.
        """
        column = super().of(values)
        if column is not None and type(values) in (list, tuple) and column.tolist() != list(values):
            return None
        return column


class RaggedColumn(ArrayColumn):
    """Column of rows of numbers, such as the sizes of an application's tasks.

    Parameters
    ----------
    values
        The numbers of all rows, one row after another, float64[sum of counts].
    counts
        The number of values in each row, int64[n].

    Raises
    ------
    ValueError
        If the counts do not add up to the number of values.
    """

    hints: ClassVar[tuple[Any, type]] = (tuple[float, ...], float)
    #: Type of the column of all values.
    _flat: ClassVar[type[FlatColumn]] = FloatColumn

    def __init__(self, values: Any, counts: Any) -> None:
        self.values: NDArray[Any] = _read_only(values, self._flat.dtype)
        self.counts: Integers = _read_only(counts, np.int64)
        self.arrays = (self.values, self.counts)
        if len(self.counts) and not 0 <= self.counts.min() <= self.counts.max() <= len(self.values):
            extremes = f"{self.counts.min()} to {self.counts.max()}"
            raise ValueError(f"counts must be in 0..{len(self.values)}, got {extremes}")
        if self.offsets[-1] != len(self.values):
            raise ValueError(f"counts must add up to {len(self.values)}, got {self.offsets[-1]}")

    @cached_property
    def offsets(self) -> Integers:
        """Index of the first value of each row, then the number of values; int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.counts)))

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """Return lists or arrays of plain numbers as a column; None for other values."""
        if isinstance(values, cls):
            return values
        if type(values) is np.ndarray and values.ndim == 2:
            flat = cls._flat.of(values.ravel())
            return None if flat is None else cls(flat, np.full(len(values), values.shape[1]))
        if type(values) not in (list, tuple):
            return None
        types = set(map(type, values))
        if types == {np.ndarray}:
            plain = all(row.ndim == 1 and cls._flat._are_plain(row) for row in values)
            flat = cls._flat(np.concatenate(values, dtype=cls._flat.dtype)) if plain else None
        else:
            flat = cls._flat.of(list(chain.from_iterable(values))) if types <= {list, tuple} else None
        return None if flat is None else cls(flat, np.fromiter(map(len, values), np.int64, len(values)))

    def place(self, k: int) -> tuple[int, ...]:
        """Return the index of the row with value `k` of ``arrays[0]``, and its index within the row."""
        row = int(np.searchsorted(self.offsets, k, side="right")) - 1
        return row, k - int(self.offsets[row])

    def tolist(self) -> list[Any]:
        """Return the rows as lists of plain Python numbers."""
        values, ends = self.values.tolist(), self.offsets.tolist()
        return [values[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            rows = [self[i] for i in range(*index.indices(len(self)))]
            return type(self)(list(chain.from_iterable(rows)), list(map(len, rows)))
        end = int(self.offsets[1:][index])
        return tuple(self.values[end - int(self.counts[index]) : end].tolist())

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class NumbersColumn(RaggedColumn):
    """Column of rows of whole numbers: values int64[sum of counts]; a number stands for a row of one."""

    hints = (tuple[int, ...], int)
    _flat = IntColumn

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """Return lists or arrays of whole numbers as a column; None for other values."""
        if type(values) in (list, tuple):
            values = [[row] if type(row) in IntColumn._types else row for row in values]
            if {*map(type, values)} >= {np.ndarray, list}:
                values = [row.tolist() if type(row) is np.ndarray else row for row in values]
        elif type(values) is np.ndarray and values.ndim == 1:
            values = values.reshape(-1, 1)
        return super().of(values)


class NeighboursColumn(NumbersColumn):
    """Column of the neighbours of each node of a graph: values int64[sum of counts]."""

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """Return rows of whole numbers, a graph of networkx or a sparse matrix as a column; None for others.

        The neighbours of a node of a directed graph are its successors.  Edges that a graph has several times
        count once, and those from a node to itself are left out.  Nodes that are not the numbers from 0 are
        numbered in the order of the graph.
        """
        if isinstance(values, cls):
            return values
        if hasattr(values, "adjacency"):
            return cls._from_edges(len(values), *_edges_of_graph(values))
        if hasattr(values, "tocoo"):
            entries = values.tocoo()
            if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
                return None
            kept = (entries.data != 0) & (entries.data == entries.data)
            return cls._from_edges(entries.shape[0], entries.row[kept], entries.col[kept])
        rows = values if isinstance(values, RaggedColumn) else super().of(values)
        if rows is None or rows.values.dtype.kind != "i":
            return None
        return cls(rows.values, rows.counts)

    @classmethod
    def _from_edges(cls, nodes: int, start: Integers, end: Integers) -> Self:
        others = start != end
        keys = np.sort(start[others].astype(np.int64) * nodes + end[others])  # faster than np.unique
        start, end = np.divmod(keys[np.diff(keys, prepend=-1) != 0], max(nodes, 1))
        return cls(end, np.bincount(start, minlength=nodes))


def _edges_of_graph(graph: Any) -> tuple[Integers, Integers]:
    """Return the numbers of the nodes at the start and at the end of each edge of a graph of networkx."""
    names, rows = zip(*graph.adjacency(), strict=True) if len(graph) else ((), ())
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    ends: Iterator[Any] = chain.from_iterable(rows)
    if (
        set(map(type, names)) <= {int}
        and min(names, default=0) == 0
        and max(names, default=-1) == len(names) - 1
    ):
        numbers = np.fromiter(names, np.int64, len(names))
    else:
        number_of = {name: k for k, name in enumerate(names)}
        numbers, ends = np.arange(len(names)), map(number_of.__getitem__, ends)
    return np.repeat(numbers, counts), np.fromiter(ends, np.int64, int(counts.sum()))


#: All types of columns.
COLUMNS = (FloatColumn, IntColumn, TextColumn, RaggedColumn, NumbersColumn, NeighboursColumn)


def _read_only(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Return `values` as a read-only array, one-dimensional and contiguous, in the machine's byte order.

    A read-only array of this type that owns its memory is not copied, since nothing can write to it.
    """
    constant = is_constant(values) and values.dtype == dtype
    array: NDArray[Any] = values if constant else np.array(values, dtype, order="C")
    if dtype is np.str_:
        longest = int(np.strings.str_len(array).max(initial=1)) if len(array) else 1
        array = array.astype(f"U{max(1, longest)}", copy=False)
    elif dtype is np.float64 and np.signbit(array).any():
        array = array + 0.0  # -0.0 becomes 0.0
    array.flags.writeable = False
    return array


def content_name(array: NDArray[Any]) -> str:
    """Return the SHA-256 (hexadecimal) of the type, length and values of a one-dimensional array."""
    little: Any = array.astype(array.dtype.newbyteorder("<"), copy=False)
    total = hashlib.sha256(f"{little.dtype.str} {len(little)}\n".encode())
    total.update(little)
    return total.hexdigest()


def is_valid_unicode(array: NDArray[np.str_]) -> bool:
    """Return whether an array of strings (contiguous, native byte order) has only valid characters."""
    codes = array.view(np.uint32)
    return codes.max(initial=0) < 0xD800 or not ((codes > 0x10FFFF) | (codes >> 11 == 0x1B)).any()
