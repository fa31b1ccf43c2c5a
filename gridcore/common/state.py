"""The state of a kernel, as it is kept in a checkpoint.

``getstate`` of a kernel returns what has changed since it was made: whole numbers, arrays, and iterators of
arrays where there are many.  The arrays may be the kernel's own memory (`shown`): they are read-only, and
good until it goes on.  ``setstate`` puts such a state into a kernel made with the same arguments, which then
goes on as the first would have, bit for bit.  A state may come from a file, so what serves as an index is
checked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: No state has a later instant (ns): what is added to one cannot overflow.
LATEST = 2**61
#: An instant (ns) that never comes.
NEVER = 2**63 - 1


def shown(state: dict[str, Any]) -> dict[str, Any]:
    """`state` with arrays that are read-only: what a kernel has checked, nobody is to change."""
    return {name: _shown(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}


def _shown(array: NDArray[Any]) -> NDArray[Any]:
    memory: Any = array  # of which numpy's types do not know that it is a buffer
    return np.asarray(memoryview(memory).toreadonly())  # a flag could be set again


class State:
    """Reads the entries of a state; each raises ValueError naming the entry and what was expected."""

    def __init__(self, state: Any) -> None:
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping, got {type(state).__name__}")
        self._state = state

    def _get(self, name: str) -> Any:
        if name not in self._state:
            raise ValueError(f"state has no entry {name!r}")
        return self._state[name]

    def whole(self, name: str, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number in low..high."""
        value = self._get(name)
        # no subclass, which may compare as it likes, nor bool, which is one
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"state[{name!r}] must be a whole number in {low}..{high}, got {value!r}")
        return value

    def array(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int | None, ...],
        low: int | None = None,
        high: int | None = None,
    ) -> NDArray[Any]:
        """A copy of an array of this type and shape (None: any length), its elements in low..high."""
        return _checked(f"state[{name!r}]", self._get(name), dtype, shape, low, high)

    def arrays(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> Iterator[NDArray[Any]]:
        """The arrays of an iterator."""
        given = self._get(name)
        if not isinstance(given, Iterable) or isinstance(given, np.ndarray):
            raise ValueError(f"state[{name!r}] must be arrays, got {type(given).__name__}")
        for number, each in enumerate(given):
            yield _checked(f"state[{name!r}][{number}]", each, dtype, shape, None, None)


def _checked(
    what: str, value: Any, dtype: Any, shape: tuple[int | None, ...], low: int | None, high: int | None
) -> NDArray[Any]:
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
        raise ValueError(f"{what} must be {wanted}({sizes}), got {got}")
    for bad in ((value < low) if low is not None else None, (value > high) if high is not None else None):
        if bad is not None and bad.any():
            first = tuple(int(k) for k in np.argwhere(bad)[0])
            raise ValueError(f"{what}{list(first)} must be in {low}..{high}, got {value[first]}")
    result: NDArray[Any] = value
    return result
