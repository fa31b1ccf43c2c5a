"""Overlays: how the nodes of a decentralized scheduler are connected.

The complete balanced binary tree is index arithmetic: with N machines there are routers 0 .. N-2 and
leaves N-1 .. 2N-2; the children of router k are 2k+1 and 2k+2; leaf u (node N-1+u) sits on machine u and
router k on machine k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gridsim.support.arrays import Integers


def tree_machines(machines: int) -> Integers:
    """The machine of each of the 2N-1 nodes: int64[2N-1]."""
    return np.concatenate((np.arange(machines - 1), np.arange(machines))).astype(np.int64)


def tree_level(nodes: ArrayLike) -> Integers:
    """The depth of `nodes`, or of one; the root has level 0."""
    return (np.frexp(np.asarray(nodes, np.float64) + 1)[1] - 1).astype(np.int64)


def tree_parent(nodes: Integers) -> Integers:
    """The parents of `nodes`; -1 for the root."""
    return (np.asarray(nodes, np.int64) + 1) // 2 - 1


def tree_spans(machines: int) -> tuple[Integers, Integers]:
    """Over which leaves, from left to right, the subtree of each of the 2N-1 nodes goes.

    Returns the first of them and how many there are: int64[2N-1] each.
    """
    first, count = np.zeros(2 * machines - 1, np.int64), np.ones(2 * machines - 1, np.int64)
    routers = np.arange(machines - 1)
    levels = [routers[tree_level(routers) == level] for level in range(machines.bit_length())]
    for level in reversed(levels):
        count[level] = count[2 * level + 1] + count[2 * level + 2]
    for level in levels:
        first[2 * level + 1] = first[level]
        first[2 * level + 2] = first[level] + count[2 * level + 1]
    return first, count


def random_neighbours(machines: int, degree: int, chance: np.random.Generator) -> Integers:
    """For each machine others drawn uniformly without replacement, ascending: int64[machines, k].

    k is `degree`, or all others if there are no more.
    """
    count = min(degree, machines - 1)
    made = np.zeros((machines, count), np.int64)
    for u in range(machines):
        drawn = chance.choice(machines - 1, size=count, replace=False)
        made[u] = np.sort(drawn + (drawn >= u))
    return made
