"""The numbers of the nodes of a fair tree, what all know from the beginning, and what each may ask.

Nodes are numbered as a heap: node 0 is the root, and the leaf of machine u is node N - 1 + u of N machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridsim.schedulers.fair_tree.data_axis import DataAxis
from gridsim.schedulers.fair_tree.needs_axis import NeedsAxis
from gridsim.scheduling.contract import Run
from gridsim.support.clock import nanoseconds


@dataclass(frozen=True)
class Tree:
    """What follows from the scenario and from the parameters, which all nodes know.

    Parameters
    ----------
    grid
        The samples of stretch, size and task size.
    data, needs
        The axes of bytes per Mflop, and of memory and disk; None if summaries have none.
    shape
        Of the cells of a summary.
    stretch, smallest, longest
        The samples of the stretch, s/Mflop, the smallest one of sizes, and the longest one of tasks, Mflop.
    first_leaf
        The node that is the leaf of machine 0.
    machines, speed
        The number of all machines, and their speed, Mflop/s.
    gap, hold_off, cell
        ns from a summary to the next one of a node, that a router waits before it reports, and between the
        releases for which leaves sample.
    """

    grid: SummaryGrid
    data: DataAxis | None
    needs: NeedsAxis | None
    shape: tuple[int, ...]
    stretch: tuple[float, ...]
    smallest: float
    longest: float
    first_leaf: int
    machines: int
    speed: float
    gap: int
    hold_off: int
    cell: int

    @classmethod
    def of(cls, parameters: Any, run: Run, summary_bytes: Callable[[int], int]) -> Tree:
        """Return what follows from a `FairTree` in a run.

        Parameters
        ----------
        summary_bytes
            Function that returns the bytes of a summary with so many cells.
        """
        grid, data, needs = parameters.summary_axes(run)
        shape = grid.shape if data is None else data.shape
        if needs is not None:
            shape = len(needs.samples), *shape
        nbytes, rate = summary_bytes(math.prod(shape)), parameters.update_rate
        speeds: list[float] = run.speeds.tolist()
        return cls(
            grid=grid,
            data=data,
            needs=needs,
            shape=shape,
            stretch=tuple(grid.stretch.tolist()),
            smallest=float(grid.size[0]),
            longest=float(grid.task_size[-1]),
            first_leaf=len(speeds) - 1,
            machines=len(speeds),
            speed=math.fsum(speeds),
            gap=int(np.ceil(nbytes / rate * 1e9)) if rate > 0 else 0,
            hold_off=nanoseconds(parameters.hold_off),
            cell=nanoseconds(parameters.release_cell),
        )


class TreeView(Protocol):
    """What a leaf or a router reaches as ``view.environment``.

    Attributes
    ----------
    tree
        What all nodes know.
    """

    tree: Tree

    def submitter(self, application: int) -> int:
        """Return the leaf to which answers about `application`, or about a bag of lost tasks, go."""

    def holds(self, application: int) -> bool:
        """Return whether this machine has the memory and disk that tasks of `application` need."""

    def leaves_below(self, child: int) -> int:
        """Return how many leaves are below a child of this router, 0 if it has left the tree."""

    def speed_below(self, child: int) -> float:
        """Return the speed of these leaves, Mflop/s."""

    def has_left(self, node: int) -> bool:
        """Return whether this router, or a child of it, has left the tree."""


def parent_of(node: int) -> int:
    """Return the parent of a node that is not the root."""
    return (node - 1) // 2


def children_of(router: int) -> tuple[int, int]:
    """Return the children of a router."""
    return 2 * router + 1, 2 * router + 2


def side_of(node: int) -> int:
    """Return which child of its parent a node is: 0 or 1."""
    return (node - 1) % 2


def is_below(node: int, ancestor: int) -> bool:
    """Return whether `node` is a child of `ancestor`, or of one below that."""
    while node > ancestor:
        node = parent_of(node)
        if node == ancestor:
            return True
    return False
