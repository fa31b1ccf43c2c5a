"""The states of compiled nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NodeRecords"]


class NodeRecords(Sequence[Any]):
    """The state of each node, a record with its attributes.

    Parameters
    ----------
    arrays
        For each role, the record array of its nodes, which are numbered role by role.
    """

    def __init__(self, arrays: Iterable[NDArray[Any]]) -> None:
        self.arrays: list[Any] = [array.view(np.recarray) for array in arrays]
        self._first = [0, *accumulate(map(len, self.arrays))]

    def __len__(self) -> int:
        return self._first[-1]

    def __getitem__(self, node: Any) -> Any:
        array, row = self._place(node)
        return array[row]

    def __setitem__(self, node: int, record: Any) -> None:
        array, row = self._place(node)
        array[row] = record

    def _place(self, node: int) -> tuple[Any, int]:
        """Return the array that has the record of a node, and its row there."""
        if not 0 <= node < len(self):
            raise IndexError(f"node must be in 0..{len(self) - 1}, got {node}")
        role = bisect_right(self._first, node) - 1
        return self.arrays[role], node - self._first[role]
