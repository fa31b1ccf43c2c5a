"""The state of a kernel, as it is kept in a checkpoint.

``getstate`` of a kernel returns what has changed since it was made: whole numbers, arrays, and iterators of
arrays where there are many.  The arrays may be the kernel's own memory (`read_only`): they are read-only, and
good until it goes on.  ``setstate`` puts such a state into a kernel made with the same arguments, which then
goes on as the first would have, bit for bit.

A state may come from a file, so what serves as an index is checked first.  A kernel declares its entries,
each with its type, shape and limits, and `read` checks them; what must hold between entries is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: No state has a later instant (ns): what is added to one cannot overflow.
LATEST = 2**61
#: An instant (ns) that never comes.
NEVER = 2**63 - 1


def read_only(state: dict[str, Any]) -> dict[str, Any]:
    """`state` with arrays that are read-only: what a kernel has checked, nobody is to change."""
    return {
        name: _read_only(value) if isinstance(value, np.ndarray) else value for name, value in state.items()
    }


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    memory: Any = array  # of which numpy's types do not know that it is a buffer
    return np.asarray(memoryview(memory).toreadonly())  # a flag could be set again


Size: TypeAlias = "int | str | None"
#: The least number, and the first that is too large (None: none is); a name stands for a size, see `read`.
Limits: TypeAlias = "tuple[float | str | None, float | str | None]"

ANY: Limits = (None, None)
INSTANT: Limits = (0, LATEST + 1)
OR_NEVER: Limits = (-1, LATEST + 1)
FLAG: Limits = (0, 2)
#: Floats that are finite and not negative.
AMOUNT: Limits = (0.0, float("inf"))


@dataclass(frozen=True)
class Number:
    """A whole number."""

    low: int = 0
    below: int | str = 2**63

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> int:
        high = _size(self.below, sizes) - 1
        # no subclass, which may compare as it likes, nor bool, which is one
        if type(value) is not int or not self.low <= value <= high:
            raise ValueError(f"{name} must be a whole number in {self.low}..{high}, got {value!r}")
        return value


@dataclass(frozen=True)
class Array:
    """An array of a type and a shape (None: any length), whose elements are within limits."""

    dtype: Any
    shape: Sequence[Size] = (None,)
    limits: Limits = ANY

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> NDArray[Any]:
        """Return a copy."""
        array = _copied(name, value, self.dtype, [_size(size, sizes) for size in self.shape])
        for where in _outside(array, self.limits, sizes):
            raise ValueError(
                f"{name}{where} must be {_within(self.limits, sizes)}, got {array[tuple(where)]}"
            )
        return array


@dataclass(frozen=True)
class Rows:
    """A table: int64[length, columns], or rows of a structured type; some of its columns have limits."""

    columns: Mapping[str, Limits]
    length: Size = None
    dtype: Any = None

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> NDArray[Any]:
        """Return a copy."""
        length, plain = _size(self.length, sizes), self.dtype is None
        shape = [length, len(self.columns)] if plain else [length]
        array = _copied(name, value, np.int64 if plain else self.dtype, shape)
        known = {"rows": len(array), **sizes}
        for number, (column, limits) in enumerate(self.columns.items()):
            given = array[:, number] if plain else array[column]
            for where in _outside(given, limits, known):
                what = f"{name}{where} must have {column} {_within(limits, known)}"
                raise ValueError(f"{what}, got {given[tuple(where)]}")
        return array


@dataclass(frozen=True)
class Arrays:
    """Arrays of a type and a shape, checked one after the other."""

    dtype: Any
    shape: Sequence[Size]

    def read(self, name: str, value: Any, sizes: Mapping[str, int]) -> Iterator[NDArray[Any]]:
        if not isinstance(value, Iterable) or isinstance(value, np.ndarray):
            raise ValueError(f"{name} must be arrays, got {type(value).__name__}")
        one = Array(self.dtype, self.shape)
        return (one.read(f"{name}[{number}]", each, sizes) for number, each in enumerate(value))


Entry: TypeAlias = "Number | Array | Rows | Arrays"


def like(columns: Mapping[str, NDArray[Any]], default: Limits, **limits: Limits) -> dict[str, Entry]:
    """Return entries of the types and shapes of arrays that a kernel has, with the limits of each."""
    return {name: Array(it.dtype, it.shape, limits.get(name, default)) for name, it in columns.items()}


def read(state: Any, entries: Mapping[str, Entry], **sizes: int) -> dict[str, Any]:
    """Return the entries of a state, checked.

    Raises ValueError naming the entry and what was expected.

    Parameters
    ----------
    sizes
        What names in shapes and limits stand for.  The name of an entry that comes before stands for the
        number, or for the length of the array, and ``rows`` for the length of the table itself.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"state must be a mapping, got {type(state).__name__}")
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        if name not in state:
            raise ValueError(f"state has no entry {name!r}")
        found[name] = value = entry.read(f"state[{name!r}]", state[name], sizes)
        if isinstance(value, (int, np.ndarray)):
            sizes.setdefault(name, value if isinstance(value, int) else len(value))
    return found


def _size(size: Any, sizes: Mapping[str, int]) -> Any:
    return sizes[size] if isinstance(size, str) else size


def _within(limits: Limits, sizes: Mapping[str, int]) -> str:
    low, below = (_size(limit, sizes) for limit in limits)
    if isinstance(low, float):
        return f"a number from {low}, below {below}"
    return f"at least {low}" if below is None else f"in {low}..{below - 1}"


def _outside(array: NDArray[Any], limits: Limits, sizes: Mapping[str, int]) -> list[list[int]]:
    """Return where the first element is that is not within limits; nan never is."""
    low, below = (_size(limit, sizes) for limit in limits)
    if low is None:
        return []
    bad = ~(array >= low) if below is None else ~((array >= low) & (array < below))
    return [np.argwhere(bad)[0].tolist()] if bad.any() else []


def _copied(name: str, value: Any, dtype: Any, shape: Sequence[int | None]) -> NDArray[Any]:
    wanted = np.dtype(dtype)
    if isinstance(value, np.ndarray):
        # a plain one, before anything is checked: masked numbers, say, are in no range, and are there
        value = np.array(value, order="C")
    fits = (
        isinstance(value, np.ndarray)
        and value.dtype == wanted
        and value.ndim == len(shape)
        and all(want is None or got == want for got, want in zip(value.shape, shape, strict=True))
    )
    if not fits:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        got = f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"{name} must be {wanted}({sizes}), got {got}")
    result: NDArray[Any] = value
    return result


def refuse(name: str, bad: NDArray[np.bool_], what: str) -> None:
    """Raise ValueError for the first row of an entry that is `bad`; `what` rows must be."""
    for k in np.flatnonzero(bad)[:1]:
        raise ValueError(f"state[{name!r}][{k}] must be {what}")
