"""Types of arrays for annotations, and small functions of arrays."""

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


def apportion(shares: Any, total: int) -> Integers:
    """Return whole numbers that add up to `total`, in proportion to `shares`, by largest remainder.

    The first of equal remainders is served first.

    Parameters
    ----------
    shares
        int64[n], whole numbers >= 0, of which one is positive.
    """
    counts = np.asarray(shares, np.int64)
    numbers, remainders = np.divmod(counts * total, counts.sum())
    numbers[np.argsort(-remainders, kind="stable")[: total - int(numbers.sum())]] += 1
    return numbers


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
