"""Types of arrays for annotations, a search in arrays of booleans, and distinct values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.arrays import Bools as Bools
from gridcore.common.arrays import Floats as Floats
from gridcore.common.arrays import Integers as Integers
from gridcore.common.arrays import Rows as Rows


def first_true(mask: NDArray[Any]) -> list[int]:
    """Return a list with the first index at which `mask`, bool[n], is true; [] if there is none."""
    indices: list[int] = mask.nonzero()[0][:1].tolist()
    return indices


def distinct_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values of an array without NaN, in ascending order.

    `numpy.unique` would import `numpy.ma`, which takes longer than a small run.
    """
    ordered: NDArray[Any] = np.sort(values, axis=None)
    distinct: NDArray[Any] = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return distinct


def is_constant(values: Any) -> bool:
    """Return whether `values` is an array that nothing can write to, so that it need not be copied.

    It is contiguous and read-only, and owns its memory or has that of `bytes`.
    """
    if type(values) is not np.ndarray:
        return False
    flags, memory = values.flags, values.base
    has_own_memory = flags.owndata or isinstance(memory, bytes)
    return has_own_memory and flags.c_contiguous and flags.aligned and not flags.writeable
