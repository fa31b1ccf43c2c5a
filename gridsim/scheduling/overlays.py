"""Overlays: how the nodes of a decentralized scheduler are connected.

The complete balanced binary tree is pure index arithmetic.  With N machines there are routers 0 .. N-2 and
leaves N-1 .. 2N-2.  The children of router k are the nodes 2k+1 and 2k+2.  Leaf u (node N-1+u) runs on
machine u, and router k on machine k.  (The CYCLON overlay of DGS_ASAP, which changes all the time, is in
`gridcore.dgs.overlay`.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gridsim.support.arrays import Integers


def tree_machines(machines: int) -> Integers:
    """Return the machine of each of the 2N-1 nodes of the tree: int64[2N-1]."""
    return np.concatenate((np.arange(machines - 1), np.arange(machines))).astype(np.int64)


def tree_level(nodes: ArrayLike) -> Integers:
    """Return the level of each of `nodes`, or of one, in the binary tree; the root, node 0, has level 0."""
    return (np.frexp(np.asarray(nodes, np.float64) + 1)[1] - 1).astype(np.int64)


def tree_spans(machines: int) -> tuple[Integers, Integers]:
    """Return which leaves, counted from left to right, the subtree of each of the 2N-1 nodes has.

    Returns the first of them and their number: int64[2N-1] each.
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


def added_up(leaves: ArrayLike) -> list[float]:
    """Return for each node the sum of the values of the `leaves` below it, which are in order of machine."""
    values: list[float] = np.asarray(leaves, np.float64).tolist()
    first_leaf = len(values) - 1
    found = [0.0] * first_leaf + values
    for node in range(first_leaf - 1, -1, -1):
        found[node] = found[2 * node + 1] + found[2 * node + 2]
    return found


def tree_parts(machines: int, parts: int) -> Integers:
    """Divide the machines of the tree into equal parts with few edges between them.

    Returns the part of each machine: int64[machines].  Machine u has leaf u and router u, which lie far apart
    in the tree, so subtrees are no parts.  From any division, machines of two parts change places while that
    leaves fewer edges between parts (as in Kernighan & Lin 1970, but many at a time).  With two parts one
    edge in ten is left.
    """
    each, part = np.arange(machines), np.arange(machines) * parts // machines
    node, of = np.arange(1, 2 * machines - 1), tree_machines(machines)
    one, other = of[node], of[(node - 1) // 2]
    ends, others = np.concatenate((one, other)), np.concatenate((other, one))
    for turn in range(1, min(60 * (parts - 1), 400) if machines > parts else 0):
        # neighbours in each part; how many more of them in the part to change with, equal gains in any order
        around = np.bincount(ends * parts + part[others], minlength=machines * parts).reshape(-1, parts)
        gain = around[each, (turn - part) % parts] - around[each, part] + each * (turn * 0.6180339887) % 1.0
        for low in range(parts):
            if low < (high := (turn - low) % parts):
                pair = [np.flatnonzero((part == which) & (gain >= 0.0)) for which in (low, high)]
                here, there = (mine[np.argsort(-gain[mine], kind="stable")] for mine in pair)
                count = min(len(here), len(there)) // 2  # half: neighbours that move together gain nothing
                part[here[:count]], part[there[:count]] = high, low
    return part


def random_neighbours(machines: int, degree: int, chance: np.random.Generator) -> Integers:
    """Draw neighbours for each machine uniformly without replacement: int64[machines, k], rows ascending.

    k is `degree`, or the number of other machines if that is smaller.
    """
    count = min(degree, machines - 1)
    made = np.zeros((machines, count), np.int64)
    for u in range(machines):
        drawn = chance.choice(machines - 1, size=count, replace=False)
        made[u] = np.sort(drawn + (drawn >= u))
    return made
