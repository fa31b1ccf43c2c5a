"""The state of a kernel in a checkpoint.

``getstate`` of a kernel returns the changes since its construction: whole numbers, arrays, and iterators over
long lists of arrays.  An array may be the kernel's own memory (`read_only`); it is then read-only, and valid
until the kernel continues.  ``setstate`` restores a state in a kernel constructed with the same arguments,
which then continues as the first one would have, bit for bit.

A state may come from a file that somebody has changed.  A kernel declares its entries: their types, shapes
and limits, and how lengths depend on one another.  `read` checks the declaration, and the kernel computes
whatever follows from the entries, such as links, lists and counts, instead of comparing it.  After that no
state makes it access memory out of bounds or loop forever: each loop counts up to a length, or follows a list
that ends.  A state with wrong numbers gives wrong results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: The latest instant in a state (ns); the sum of two such instants does not overflow.
LATEST = 2**61
#: Instant of an event that never happens (ns), later than all others.
NEVER = 2**63 - 1


def read_only(state: dict[str, Any]) -> dict[str, Any]:
    """Return `state` with read-only arrays, since a kernel does not check them again."""
    return {
        name: _read_only(value) if isinstance(value, np.ndarray) else value for name, value in state.items()
    }


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    memory: Any = array  # the types of NumPy do not declare the buffer protocol
    return np.asarray(memoryview(memory).toreadonly())  # the writeable flag of an array could be set again


Size: TypeAlias = "int | str | None"
#: The smallest valid number, and the smallest one that is too large (None: no limit).  A string is the name
#: of a size that `read` gets.
Limits: TypeAlias = "tuple[float | str | None, float | str | None]"

ANY: Limits = (None, None)
INSTANT: Limits = (0, LATEST + 1)
#: An instant, or -1 if there is none.
INSTANT_OR_NEVER: Limits = (-1, LATEST + 1)
FLAG: Limits = (0, 2)
#: Floats that are finite and not negative.
AMOUNT: Limits = (0.0, float("inf"))


@dataclass(frozen=True)
class NumberEntry:
    """The declaration of a whole number, `low` <= number < `end`."""

    low: int = 0
    end: int | str = 2**63

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> int:
        high = _size(self.end, sizes) - 1
        # subclasses of int, such as bool, are rejected, since they may override comparisons
        if type(value) is not int or not self.low <= value <= high:
            raise ValueError(f"{name} must be a whole number in {self.low}..{high}, got {value!r}")
        return value


@dataclass(frozen=True)
class ArrayEntry:
    """The declaration of an array: its type, its shape (None: any length) and limits of its elements.

    If it has a `total`, its elements are numbers of consecutive rows, of which there are so many in all.  If
    it is `unique`, its elements are different indices.
    """

    dtype: Any
    shape: Sequence[Size] = (None,)
    limits: Limits = ANY
    total: Size = None
    unique: bool = False

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> NDArray[Any]:
        """Return a checked copy of `value`."""
        array = _plain_copy(name, value, self.dtype, [_size(size, sizes) for size in self.shape])
        for index in _first_outside(array, self.limits, sizes):
            raise ValueError(
                f"{name}{index} must be {_range_text(self.limits, sizes)}, got {array[tuple(index)]}"
            )
        if self.total is not None:
            check_total(name, array, _size(self.total, sizes))
        if self.unique and _repeats(array):
            raise ValueError(f"{name} must have each index at most once, got {_first_repeat(array)} twice")
        return array


@dataclass(frozen=True)
class TableEntry:
    """The declaration of a table, with limits by column: int64[length, columns], or structured rows.

    The columns of `unique` have different indices.  The columns of `totals` are numbers of consecutive rows
    of other entries; each has its total.
    """

    columns: Mapping[str, Limits]
    length: Size = None
    dtype: Any = None
    unique: Sequence[str] = ()
    totals: Mapping[str, Size] = field(default_factory=dict)

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> NDArray[Any]:
        """Return a checked copy of `value`."""
        length, plain = _size(self.length, sizes), self.dtype is None
        shape = [length, len(self.columns)] if plain else [length]
        array = _plain_copy(name, value, np.int64 if plain else self.dtype, shape)
        known = {"rows": len(array), **sizes}
        for number, (column, limits) in enumerate(self.columns.items()):
            values = array[:, number] if plain else array[column]
            for index in _first_outside(values, limits, known):
                rule = f"{name}{index} must have {column} {_range_text(limits, known)}"
                raise ValueError(f"{rule}, got {values[tuple(index)]}")
            if column in self.unique and _repeats(values):
                raise ValueError(
                    f"{name} must have each {column} at most once, got {_first_repeat(values)} twice"
                )
            if column in self.totals:
                check_total(f"{name}, column {column},", values, _size(self.totals[column], known))
        return array


@dataclass(frozen=True)
class ArraysEntry:
    """The declaration of an iterable of arrays of one type and shape, which are checked one by one."""

    dtype: Any
    shape: Sequence[Size]

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> Iterator[NDArray[Any]]:
        if not isinstance(value, Iterable) or isinstance(value, np.ndarray):
            raise ValueError(f"{name} must be an iterable of arrays, got {type(value).__name__}")
        entry = ArrayEntry(self.dtype, self.shape)
        return (entry.read(f"{name}[{number}]", array, sizes) for number, array in enumerate(value))


Entry: TypeAlias = "NumberEntry | ArrayEntry | TableEntry | ArraysEntry"


def array_entries(columns: Mapping[str, NDArray[Any]], default: Limits, **limits: Limits) -> dict[str, Entry]:
    """Return declarations with the types and shapes of `columns`, and with limits by name or `default`."""
    return {
        name: ArrayEntry(column.dtype, column.shape, limits.get(name, default))
        for name, column in columns.items()
    }


def read(state: Any, entries: Mapping[str, Entry], **sizes: int) -> dict[str, Any]:
    """Check the entries of a state, and return them by name.

    Parameters
    ----------
    state
        A mapping from names to values.
    entries
        The declaration of each entry.
    sizes
        The sizes that names in shapes and limits stand for.  The name of an earlier entry stands for its
        number, or for the length of its array, and ``rows`` for the length of the table itself.

    Raises
    ------
    ValueError
        If an entry is missing or violates its declaration.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"state must be a mapping, got {type(state).__name__}")
    values: dict[str, Any] = {}
    for name, entry in entries.items():
        if name not in state:
            raise ValueError(f"state must have an entry {name!r}, got {[*state]}")
        values[name] = value = entry.read(f"state[{name!r}]", state[name], sizes)
        if isinstance(value, (int, np.ndarray)):
            sizes.setdefault(name, value if isinstance(value, int) else len(value))
    return values


def _size(size: Any, sizes: Mapping[str, int]) -> Any:
    return sizes[size] if isinstance(size, str) else size


def _range_text(limits: Limits, sizes: Mapping[str, int]) -> str:
    low, high = (_size(limit, sizes) for limit in limits)
    if isinstance(low, float):
        return f"a number from {low}, below {high}"
    return f"at least {low}" if high is None else f"in {low}..{high - 1}"


def _first_outside(array: NDArray[Any], limits: Limits, sizes: Mapping[str, int]) -> list[list[int]]:
    """Return a list with the index of the first element outside the limits; it is empty if there is none."""
    low, high = (_size(limit, sizes) for limit in limits)
    if low is None:
        return []
    bad = ~(array >= low) if high is None else ~((array >= low) & (array < high))
    return [np.argwhere(bad)[0].tolist()] if bad.any() else []


def _repeats(indices: NDArray[Any]) -> bool:
    return bool(np.bincount(indices).max(initial=0) > 1)


def _first_repeat(indices: NDArray[Any]) -> int:
    return int((np.bincount(indices) > 1).argmax())


def _plain_copy(name: str, value: Any, dtype: Any, shape: Sequence[int | None]) -> NDArray[Any]:
    target = np.dtype(dtype)
    if isinstance(value, np.ndarray):
        # convert subclasses first: comparisons of a masked array, for example, may be neither true nor false
        value = np.array(value, order="C")
    fits = (
        isinstance(value, np.ndarray)
        and value.dtype == target
        and value.ndim == len(shape)
        and all(length is None or actual == length for actual, length in zip(value.shape, shape, strict=True))
    )
    if not fits:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        actual = f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{name} must be {target}({sizes}), got {actual}")
    result: NDArray[Any] = value
    return result


def refuse(name: str, bad: NDArray[np.bool_], condition: str) -> None:
    """Raise ValueError if `bad` marks a row of entry `name`: the first such row must be `condition`."""
    for k in np.flatnonzero(bad)[:1]:
        raise ValueError(f"state[{name!r}][{k}] must be {condition}")


def check_total(name: str, counts: NDArray[Any], total: int) -> None:
    """Raise ValueError unless `counts` are at least 0 and add up to `total`."""
    # the sum of numbers up to the total does not overflow
    if ((counts < 0) | (counts > total)).any() or int(counts.sum()) != total:
        raise ValueError(
            f"{name} must be >= 0 and add up to {total}, got a minimum of {counts.min(initial=0)} and a sum "
            f"of {sum(counts.tolist())}"
        )


def members_in_order(members: NDArray[np.int64], order: NDArray[Any]) -> NDArray[np.int64]:
    """Return the ascending indices `members` in the order of the list `order`; other members come last."""
    place = np.full(1 + max(members.max(initial=-1), order.max(initial=-1)), len(order), np.int64)
    place[order] = np.arange(len(order))
    ordered_members: NDArray[np.int64] = members[np.argsort(place[members], kind="stable")]
    return ordered_members
