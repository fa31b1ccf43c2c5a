"""Overlays, which connect the nodes of a decentralized scheduler: a binary tree and a random graph.

The nodes of the complete balanced binary tree over N machines are the routers 0 .. N-2 and the leaves
N-1 .. 2N-2.  The children of router k are the nodes 2k+1 and 2k+2.  Leaf u (node N-1+u) runs on machine u,
and router k on machine k.  The CYCLON overlay of DGS_ASAP, which changes during a run, is in
`gridcore.dgs.overlay`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

import gridcore
from gridsim.errors import ScenarioError
from gridsim.support.arrays import Integers, first_true
from gridsim.support.columns import NeighboursColumn
from gridsim.support.parameters import Limits

if TYPE_CHECKING:
    Overlay = Any
else:
    #: Type of a field for an overlay: rows of numbers, a graph of networkx or a sparse matrix of scipy.
    Overlay = Annotated[NeighboursColumn, Limits(low=0)]


def tree_machines(machines: int) -> Integers:
    """Return the machine of each of the 2N-1 nodes of the tree: int64[2N-1]."""
    return np.concatenate((np.arange(machines - 1), np.arange(machines))).astype(np.int64)


def tree_level(nodes: ArrayLike) -> Integers:
    """Return the level of a node, or of each of `nodes`, in the binary tree; the root has level 0."""
    return (np.frexp(np.asarray(nodes, np.float64) + 1)[1] - 1).astype(np.int64)


def tree_spans(machines: int) -> tuple[Integers, Integers]:
    """Return the leaves in the subtree of each of the 2N-1 nodes, with leaves counted from left to right.

    Returns
    -------
    first, count
        int64[2N-1] each, the first leaf and the number of leaves.
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


def subtree_sums(leaves: ArrayLike) -> list[float]:
    """Return for each node of the tree the sum over the leaves in its subtree.

    Parameters
    ----------
    leaves
        float64[N], the value of each leaf, in order of machine.
    """
    values: list[float] = np.asarray(leaves, np.float64).tolist()
    first_leaf = len(values) - 1
    sums = [0.0] * first_leaf + values
    for node in range(first_leaf - 1, -1, -1):
        sums[node] = sums[2 * node + 1] + sums[2 * node + 2]
    return sums


def tree_parts(machines: int, parts: int) -> Integers:
    """Divide the machines of the tree into equal parts with few edges between them.

    Machine u has leaf u and router u, which are far apart in the tree, so subtrees cannot be the parts.
    Instead, machines of two parts are swapped as long as this reduces the number of edges between parts (as
    in Kernighan & Lin 1970, but many machines at a time).  With two parts, about one edge in ten remains
    between them.

    Returns
    -------
    int64[machines]
        The part of each machine.
    """
    machine, part = np.arange(machines), np.arange(machines) * parts // machines
    node, machine_of = np.arange(1, 2 * machines - 1), tree_machines(machines)
    child, parent = machine_of[node], machine_of[(node - 1) // 2]
    start, end = np.concatenate((child, parent)), np.concatenate((parent, child))
    for step in range(1, min(60 * (parts - 1), 400) if machines > parts else 0):
        # The gain of a swap is the number of neighbours in the new part minus that in the old part; a
        # fraction breaks ties.
        neighbours = np.bincount(start * parts + part[end], minlength=machines * parts).reshape(-1, parts)
        gain = neighbours[machine, (step - part) % parts] - neighbours[machine, part]
        gain = gain + machine * (step * 0.6180339887) % 1.0
        for low in range(parts):
            if low < (high := (step - low) % parts):
                candidates = [np.flatnonzero((part == number) & (gain >= 0.0)) for number in (low, high)]
                from_low, from_high = (rows[np.argsort(-gain[rows], kind="stable")] for rows in candidates)
                # Only half of the machines move, since neighbours that move together gain nothing.
                count = min(len(from_low), len(from_high)) // 2
                part[from_low[:count]], part[from_high[:count]] = high, low
    return part


def overlay_of_nodes(graph: NeighboursColumn, nodes: int, among: range, path: str) -> NeighboursColumn:
    """Return the neighbours of each of `nodes` nodes, ascending, if a graph connects those `among`.

    Parameters
    ----------
    graph
        The neighbours of each node `among`, numbered from 0.
    path
        Configuration path of the graph, for errors.

    Raises
    ------
    ScenarioError
        If the graph has the wrong number of nodes, or if a node has itself, a node that does not exist or
        the same node twice among its neighbours.
    """
    if len(graph) != len(among):
        raise ScenarioError(f"{path} must have {len(among)} nodes, got {len(graph)}")
    row = np.repeat(np.arange(len(graph)), graph.counts)
    values = graph.values[np.lexsort((graph.values, row))]
    for k in first_true((values >= len(among)) | (values == row)):
        last = len(among) - 1
        raise ScenarioError(f"{path}[{row[k]}] must be other nodes in 0..{last}, got {values[k]}")
    for k in first_true((np.diff(values) == 0) & (np.diff(row) == 0)):
        raise ScenarioError(f"{path}[{row[k]}] must be different nodes, got {values[k]} twice")
    counts = np.zeros(nodes, np.int64)
    counts[among.start : among.stop] = graph.counts
    return NeighboursColumn(values + among.start, counts)


def random_neighbours(
    nodes: int, degree: int, stream: np.random.Generator, among: range | None = None
) -> Integers:
    """Draw neighbours for each node, uniformly without replacement.

    Parameters
    ----------
    degree
        Number of neighbours of each node, at most the number of other nodes.
    among
        The nodes that can be neighbours; by default all.

    Returns
    -------
    int64[nodes, degree]
        The neighbours of each node, ascending.
    """
    among = range(nodes) if among is None else among
    degree = min(degree, len(among) - 1)
    return gridcore.random_neighbours(nodes, degree, stream, among.start, among.stop)
