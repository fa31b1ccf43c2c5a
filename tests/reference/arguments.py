"""Reference implementation of `gridcore.common.arguments`: the same checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridcore.common.arrays import Integers

FINITE = "must be finite"
NOT_NEGATIVE = "must be finite and >= 0"
POSITIVE = "must be finite and > 0"
NUMBER = "must be a number or +inf"


def refuse(name: str, index: int, rule: str, value: float) -> ValueError:
    """Return the error for a bad value; index -1 means a scalar."""
    where = name if index < 0 else f"{name}[{index}]"
    return ValueError(f"{where} {rule}, got {value!r}")


def violates(value: float, rule: str) -> bool:
    if rule == NUMBER:
        return math.isnan(value) or value == -math.inf
    if not math.isfinite(value):
        return True
    return (rule == NOT_NEGATIVE and value < 0.0) or (rule == POSITIVE and value <= 0.0)


def doubles(values: Any, name: str) -> list[float]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    result: list[float] = array.astype(np.float64).tolist()
    return result


def integers(values: Any, name: str) -> list[int]:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    return [int(value) for value in array.tolist()]


def indices(values: Any, name: str, low: int, high: int) -> list[int]:
    """Return `integers(values)`; raise ValueError unless each is in low..high - 1."""
    numbers = integers(values, name)
    for k, value in enumerate(numbers):
        if not low <= value < high:
            raise ValueError(f"{name}[{k}] must be in {low}..{high - 1}, got {value}")
    return numbers


def check_entry(value: float, name: str, index: int, rule: str) -> None:
    if violates(value, rule):
        raise refuse(name, index, rule, value)


def check_scalar(value: float, name: str, rule: str) -> None:
    check_entry(value, name, -1, rule)


def check_array(values: Sequence[float], name: str, rule: str) -> None:
    for index, value in enumerate(values):
        check_entry(value, name, index, rule)


def check_instant(value: int, name: str, margin: int = 0) -> None:
    last = 2**63 - 2 - margin
    if not 0 <= value <= last:
        raise ValueError(f"{name} must be in 0..{last} ns, got {value}")


def check_lengths(n: int, m: int, first: str, second: str) -> None:
    if n != m:
        raise ValueError(f"{second} must have as many entries as {first}, got {m} and {n}")


def check_offsets(offsets: Sequence[int], entries: int) -> None:
    if not offsets or offsets[0] != 0:
        raise ValueError(f"offsets must start with 0, got {offsets[0] if len(offsets) else 'no entries'}")
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            offset, previous = offsets[i], offsets[i - 1]
            raise ValueError(f"offsets[{i}] must be >= offsets[{i - 1}], got {offset} and {previous}")
    if offsets[-1] != entries:
        raise ValueError(f"offsets must end with {entries}, the number of entries, got {offsets[-1]}")


def writable(values: Integers, name: str) -> None:
    """Check that `values` is an int64 vector that can be written in place."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        got = getattr(values, "dtype", type(values).__name__)
        raise TypeError(f"{name} must be an int64 array, which is changed in place, got {got}")
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {values.ndim}")
    if not values.flags.carray:  # aligned, too
        raise ValueError(f"{name} must be contiguous, aligned and writable, since it is changed in place")
