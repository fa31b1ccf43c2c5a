"""Types of arrays, for annotations, and arrays of structs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
#: A structured array, such as one with a row per message.
Rows: TypeAlias = NDArray[Any]


def zeros_on_lines(n: int, dtype: np.dtype[Any]) -> Rows:
    """Return `n` structs of zeros; the first begins with a cache line (64 bytes)."""
    block = np.zeros(n * dtype.itemsize + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + n * dtype.itemsize].view(dtype)
