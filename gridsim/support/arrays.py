"""Types of arrays, for annotations, and the search for what is wrong in them."""

from typing import Any

from numpy.typing import NDArray

from gridcore.common.arrays import Bools as Bools
from gridcore.common.arrays import Floats as Floats
from gridcore.common.arrays import Integers as Integers
from gridcore.common.arrays import Rows as Rows


def first_true(where: NDArray[Any]) -> list[int]:
    """Return the first index at which `where`, bool[n], is true, as a list of one; empty if none is."""
    found: list[int] = where.nonzero()[0][:1].tolist()
    return found
