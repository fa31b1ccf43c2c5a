"""The numbers of the nodes of a fair tree, and the common knowledge of all nodes from the beginning.

Nodes are numbered as a heap: node 0 is the root, and the leaf of machine u is node N - 1 + u of N machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summaries import debit
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.data_axis import DataAxis
from gridsim.schedulers.fair_tree.needs_axis import NeedsAxis
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.program import View
from gridsim.support.clock import nanoseconds

#: The cells of a summary: number of tasks that fit, for each sample of stretch, size and task size.
Cells = NDArray[np.uint32]


@dataclass(frozen=True)
class Tree:
    """Values known to all nodes, derived from the scenario and the parameters.

    Parameters
    ----------
    grid
        The samples of stretch, size and task size.
    data, needs
        The axes of bytes per Mflop, and of memory and disk; None if summaries have none.
    shape
        Shape of the cells of a summary.
    stretch, smallest, longest
        The samples of the stretch (s/Mflop), the smallest sample of sizes (Mflop), and the largest sample of
        task sizes (Mflop).
    first_leaf
        The node that is the leaf of machine 0.
    machines, speed
        The number of machines, and their total speed, Mflop/s.
    gap, hold_off, cell
        Minimum time between two summaries of a node, time that a router waits before it reports, and time
        between the releases for which leaves sample, ns.
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
        """Return the values that follow from a `FairTree` in a run.

        Parameters
        ----------
        summary_bytes
            Function that returns the bytes of a summary with a given number of cells.
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

    # -- methods that depend on further axes of summaries
    # -----------------------------------------------------

    def sample(self, view: View, release: int) -> Cells:
        """Return the numbers of tasks that a leaf can take of an application released at `release` (ns)."""
        if self.data is None and self.needs is None:
            return view.sample(self.grid, release)

        def cells_for(memory: int) -> Cells:
            if self.data is not None:
                return self.data.sample(view, release)
            return view.sample(self.grid, release, memory)

        return cells_for(0) if self.needs is None else self.needs.sample(view.machine, cells_for)

    def debit(
        self,
        cells: Cells,
        child: int,
        leaves: int,
        data: tuple[float, ...],
        memory: tuple[float, ...],
        *,
        task_size: tuple[float, ...],
        **dispatched: Any,
    ) -> Cells:
        """Return the summary of a child with `leaves` leaves, minus the tasks dispatched to it since.

        Parameters
        ----------
        data
            Data of each dispatch, bytes/Mflop.
        memory
            Bytes that a task of each dispatch takes.
        task_size
            Size of a task of each dispatch, Mflop.
        **dispatched
            Further arguments of `gridcore.debit`.
        """

        def less(part: Cells, leaves: int, sizes: Any) -> Cells:
            if self.data is not None:
                return self.data.debit(part, leaves, data, task_size=sizes, **dispatched)
            return debit(part, self.grid, leaves=leaves, task_size=sizes, **dispatched)

        if self.needs is not None:
            return self.needs.debit(cells, child, memory, np.asarray(task_size), less)
        return less(cells, max(1, leaves), task_size)

    def slice_of(
        self, application: Application, cells: Cells, node: int | None, leaves: float, speed: float
    ) -> tuple[Cells, float, float] | None:
        """Return the cells of a summary for an application, and the number and speed of their leaves.

        Returns None if the summary has no cells for the application.

        Parameters
        ----------
        node, leaves, speed
            Node above the leaves of the summary (None for all leaves), their number, and their speed.
        """
        if self.needs is not None:
            need, top = self.needs.slice_of(application), node or 0
            cells = cells[need]
            if not self.needs.suits[need].all():  # else machines may fail, and the number of leaves changes
                leaves, speed = self.needs.leaves[need][top], self.needs.speed[need][top]
        if self.data is not None:
            if (part := self.data.slice_of(application)) is None:
                return None
            cells = np.ascontiguousarray(cells[part])
        return cells, leaves, speed

    def rates(self, application: Application) -> list[float] | None:
        """Return the throughput of the leaves below each node for an application, Mflop/s.

        Returns None if it is the speed of all leaves below that are in the tree.
        """
        if self.data is None and self.needs is None:
            return None
        known = None if self.data is None else self.data.slice_of(application)
        moved = -1 if known is None else known  # beyond the last sample, use the last one
        if self.needs is not None:
            need = self.needs.slice_of(application)
            return (
                None if self.data is None and self.needs.suits[need].all() else self.needs.speeds[need][moved]
            )
        assert self.data is not None
        return self.data.speeds[moved]


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
    """Return whether `node` is a descendant of `ancestor`."""
    while node > ancestor:
        node = parent_of(node)
        if node == ancestor:
            return True
    return False
