"""Types of arrays for annotations, and a search in arrays of booleans."""

from typing import Any

from numpy.typing import NDArray

from gridcore.common.arrays import Bools as Bools
from gridcore.common.arrays import Floats as Floats
from gridcore.common.arrays import Integers as Integers
from gridcore.common.arrays import Rows as Rows


def first_true(mask: NDArray[Any]) -> list[int]:
    """Return a list with the first index at which `mask`, bool[n], is true; [] if there is none."""
    indices: list[int] = mask.nonzero()[0][:1].tolist()
    return indices
