"""Reference of `gridcore.random_neighbours`: a call of numpy's `Generator.choice` for each node."""

from __future__ import annotations

import numpy as np

from gridsim.support.arrays import Integers


def random_neighbours(nodes: int, degree: int, stream: np.random.Generator, first: int, end: int) -> Integers:
    """Draw neighbours of each node among the nodes `first` to `end` - 1; int64[nodes, degree], ascending."""
    neighbours = np.zeros((nodes, degree), np.int64)
    for u in range(nodes):
        among = first <= u < end
        numbers = first + stream.choice(end - first - among, size=degree, replace=False)
        neighbours[u] = np.sort(numbers + (among & (numbers >= u)))
    return neighbours
