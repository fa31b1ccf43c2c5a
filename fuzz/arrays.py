"""Arguments drawn from bytes: well-formed ones, and malformed ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

T = TypeVar("T")


class Source:
    """Source of choices: bytes of the input, followed by zeros."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, n: int) -> int:
        """Return a number in 0..n - 1, for n up to 65536."""
        return (self.byte() if n <= 256 else 256 * self.byte() + self.byte()) % n

    def chance(self, part: int) -> bool:
        """Return true for `part` of 256 bytes."""
        return self.byte() >= 256 - part

    def pick(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def bytes(self, n: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        taken = self.data[self.at : self.at + n]
        self.at += n
        return np.frombuffer(taken.ljust(n, b"\0"), np.uint8)


# -- well-formed values -------------------------------------------------------------------------------------

_plain = np.arange(1, 217) / 8
_tiny = [5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-160, 1e-18, 1e-9, 1e-6, 0.1, 1 / 3]
_large = [
    1e3,
    4194304.0,
    2.0**31,
    2.0**32,
    2.0**52,
    2.0**53,
    1e15,
    2.0**62,
    2.0**63,
    2.0**64,
    1e30,
    1e150,
    1e154,
]
_extreme = [*_tiny, *_large, 1e200, 1e300, 8.9e307, 1.7976931348623157e308]
#: Values by byte; most of them cannot overflow.
POSITIVE = np.resize(np.concatenate([_plain, _extreme]), 256)
NOT_NEGATIVE = np.where(np.arange(256) % 16 == 0, 0.0, POSITIVE)
FINITE = np.where(np.arange(256) % 3 == 0, -NOT_NEGATIVE, NOT_NEGATIVE)
#: Numbers at the edges of types and ranges.
EDGES = (
    *(-1, -2, -(2**31), -(2**31) - 1, -(2**63), -(2**62)),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**52, 2**53, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    *(0, 1, 3, 64, 255, 256, 1024),
)
NOT_NUMBERS = (np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7976931348623157e308, -1.0, 0.5)


class Unconvertible:
    """Object that cannot be converted to an array or number."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no array")

    def __index__(self) -> int:
        raise ValueError("no index")

    def __float__(self) -> float:
        raise ValueError("no float")


class MisreportingArray(np.ndarray[Any, np.dtype[Any]]):
    """Array of a subclass that reports a wrong shape."""

    false_shape: Any = None

    @property
    def shape(self) -> Any:
        return np.ndarray.shape.__get__(self) if self.false_shape is None else self.false_shape

    def reshape(self, *shape: Any, **how: Any) -> Any:
        return np.zeros(1, self.dtype) if self.false_shape else super().reshape(*shape, **how)


HOSTILE_VALUES: tuple[Any, ...] = (
    *EDGES, *NOT_NUMBERS, None, True, "text", "", b"bytes", [], {}, (), [[1], [2, 3]], [None], 1j,
    Unconvertible(), object, 10**30, -(10**30), np.float32(1.5), np.int8(-1), np.uint64(2**64 - 1),
    np.bool_(True),
    np.datetime64("NaT"), np.zeros(0), np.zeros((0, 3)), np.zeros(()), np.array(7), np.zeros((1, 1, 1, 1)),
    np.array(["a", "b"]), np.array([None, 1], object), np.full(3, np.nan), range(3), memoryview(b"abcdefgh"),
    iter(()), np.zeros(3, bool),
    np.broadcast_to(np.int64(1), 2**20), np.ma.masked_array([1.0, 2.0], [0, 1]), np.zeros(2, "M8[s]"), 1.0, 2,
)  # fmt: skip


def with_changed_entries(s: Source, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy with some entries changed."""
    made = np.array(array, order="C")
    flat = (
        made.reshape(-1).view(np.uint8) if made.size and not made.dtype.hasobject else np.zeros(0, np.uint8)
    )
    for _ in range(1 + s.below(3)):
        if not len(flat):
            break
        name = s.pick(made.dtype.names) if made.dtype.names else None
        kind, start = (made.dtype.fields[name][:2] if made.dtype.fields and name else (made.dtype, 0))[:2]
        size = kind.base.itemsize
        at = s.below(made.size) * made.dtype.itemsize + start
        if made.dtype == np.uint8:  # raw structs
            size = s.pick((1, 4, 8))
            at = at // size * size
        if kind.kind == "f" or (made.dtype == np.uint8 and s.chance(64)):
            new = np.float64(s.pick(NOT_NUMBERS)).tobytes() if size == 8 else bytes(size)
        else:
            new = (s.pick(EDGES) % 2 ** (8 * size)).to_bytes(size, "little")
        entry = flat[at : at + size]
        entry[:] = np.frombuffer(new[: len(entry)], np.uint8)
    return made


def _misreporting(s: Source, a: np.ndarray[Any, Any]) -> Any:
    made = a.view(MisreportingArray)
    if s.chance(128):
        made.false_shape = s.pick(((), (1,), (3,), (2**20,), (*a.shape, 1), a.shape[:-1], (0, *a.shape[1:])))
    return made


#: Functions that return the same numbers in another form, or slightly different numbers.
FORMS: tuple[Callable[[Source, np.ndarray[Any, Any]], Any], ...] = (
    with_changed_entries,
    with_changed_entries,
    with_changed_entries,
    with_changed_entries,
    lambda s, a: np.repeat(a, 2, axis=0)[::2],
    lambda s, a: a[::-1],
    lambda s, a: np.asfortranarray(a),
    lambda s, a: a.T,
    lambda s, a: a.astype(s.pick("bBhHiIlLefdg?O")) if a.dtype.kind in "iufb" else a.astype(a.dtype),
    lambda s, a: a.astype(a.dtype.newbyteorder()),
    lambda s, a: a.view(a.dtype.newbyteorder()),
    lambda s, a: a.tolist(),
    lambda s, a: tuple(a.tolist()),
    lambda s, a: a[:-1],
    lambda s, a: np.concatenate([a, a[:1]]) if a.ndim else a,
    lambda s, a: np.concatenate([a] * (2 + s.below(16))) if a.ndim else a,
    lambda s, a: a[..., None],
    lambda s, a: a[None],
    lambda s, a: a[:0],
    lambda s, a: as_strided(a, a.shape, (0,) * a.ndim),
    lambda s, a: as_strided(a, (40, *a.shape[1:]), (0, *a.strides[1:])) if a.ndim and a.size else a,
    lambda s, a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
    _misreporting,
    lambda s, a: np.ma.masked_array(a if s.chance(128) else with_changed_entries(s, a), mask=s.chance(128)),
    lambda s, a: memoryview(np.ascontiguousarray(a)) if a.dtype.kind in "iuf" else a,
)


def corrupted(s: Source, value: Any) -> Any:
    """Return another value in place of `value`."""
    if isinstance(value, np.ndarray) and not s.chance(64):
        try:
            made = s.pick(FORMS)(s, value)
        except (TypeError, ValueError, OverflowError, IndexError):  # the array has no such form
            return None
        if isinstance(made, np.ndarray) and s.chance(32) and made.flags.owndata:
            made.flags.writeable = False
        return made
    if isinstance(value, dict) and not s.chance(64):
        return corrupted_state(s, value)
    return s.pick(HOSTILE_VALUES)


def corrupted_state(s: Source, state: Any) -> Any:
    """Return a state with some entries changed or missing."""
    made = dict(state)
    for _ in range(1 + s.below(3)):
        name = s.pick(sorted(made)) if made else ""
        value = made.get(name)
        if s.chance(16):
            made.pop(name, None)
        elif isinstance(value, np.ndarray) and not s.chance(32):
            made[name] = with_changed_entries(s, value)
        elif isinstance(value, list) and value and isinstance(value[0], np.ndarray) and not s.chance(32):
            made[name] = [with_changed_entries(s, value[0]), *value[1:]]
        elif isinstance(value, int) and not s.chance(32):
            made[name] = s.pick(EDGES)
        else:
            made[name] = corrupted(s, value)
    return made


def deep_copy(value: Any) -> Any:
    """Return a deep copy, with lists in place of iterators."""
    if isinstance(value, np.ndarray):
        return np.array(value, order="K", subok=True)
    if isinstance(value, dict):
        return {name: deep_copy(each) for name, each in value.items()}
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value)
    if hasattr(value, "__next__"):
        return [deep_copy(each) for each in value]
    return value


def is_equal(a: Any, b: Any) -> bool:
    """Return whether two results are equal, including types of arrays; NaN equals NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.names:
            return all(is_equal(a[name], b[name]) for name in a.dtype.names)
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(is_equal(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return bool(a == b or (a != a and b != b))
