"""What the nodes of a fair tree know of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridcore.queues.summary_grid import SummaryGrid
from gridsim.schedulers.fair_tree.data_axis import DataAxis
from gridsim.schedulers.fair_tree.needs_axis import NeedsAxis
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Floats
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful


class Tree(Stateful):
    """What all nodes know: the parameters, the grid, and the shape of the tree.

    Parameters
    ----------
    data, needs
        The axes of bytes per Mflop, and of memory and disk; None if there is none.
    parameters
        A `FairTree`.  gap, hold_off, cell : ns.

    Attributes
    ----------
    first_leaf
        The node that is the leaf of machine 0.
    leaves, speed, gone
        For each node, how many leaves are below it, their speed (Mflop/s), and whether it has left the tree.
        They change when nodes leave and return; a router is told those of its children.
    whole
        The number of all machines, and their speed (Mflop/s).
    unknown
        See `unknown_minimum`.
    shape
        Of the cells of a summary.
    whose
        The application of each bag; see `Bags`.
    """

    STATE = ("leaves", "speed", "gone")

    def __init__(
        self,
        parameters: Any,
        grid: SummaryGrid,
        run: Run,
        data: DataAxis | None = None,
        needs: NeedsAxis | None = None,
    ) -> None:
        self.parameters, self.grid, self.run, self.data, self.needs = parameters, grid, run, data, needs
        self.shape: tuple[int, ...] = grid.shape if data is None else data.shape
        if needs is not None:
            self.shape = len(needs.samples), *self.shape
        self.stretch: list[float] = grid.stretch.tolist()
        self.first_leaf = len(run.speeds) - 1
        self.unknown = unknown_minimum(parameters)
        self.idle_minimum: list[float] = idle_minimum(parameters, run.speeds).tolist()
        self.longest_task = float(grid.task_size[-1])
        self.hold_off = nanoseconds(parameters.hold_off)
        self.cell = nanoseconds(parameters.release_cell)
        self.nbytes = parameters.summary_bytes(int(np.prod(self.shape)))
        self.gap = (
            int(np.ceil(self.nbytes / parameters.update_rate * 1e9)) if parameters.update_rate > 0 else 0
        )
        nodes = 2 * self.first_leaf + 1
        self.leaves, self.speed, self.gone = [1] * nodes, [0.0] * nodes, [False] * nodes
        self.speed[self.first_leaf :] = run.speeds.tolist()
        self.whole: tuple[float, float] = float(len(run.speeds)), math.fsum(run.speeds.tolist())
        for node in range(self.first_leaf - 1, -1, -1):
            self._add_up(node)
        self.whose = np.arange(len(run.applications.submitter))

    def submitter(self, application: int) -> int:
        """Return the leaf to which answers about `application`, or about a bag of lost tasks, go."""
        return int(self.run.applications.submitter[self.whose[application]]) + self.first_leaf

    def holds(self, machine: int, application: int) -> bool:
        """Return whether a machine has the memory and disk that the tasks of an application need."""
        suited = self.run.applications.machines_for(application)
        return suited is None or bool(suited[machine])

    def move(self, node: int, *, gone: bool) -> None:
        """Let `node` leave the tree, or return; all above it learn how many leaves are below them."""
        self.gone[node] = gone
        if gone:
            self.leaves[node], self.speed[node] = 0, 0.0
        elif node >= self.first_leaf:
            self.leaves[node], self.speed[node] = 1, float(self.run.speeds[node - self.first_leaf])
        else:
            self._add_up(node)
        while node > 0:
            node = (node - 1) // 2
            if self.gone[node]:
                self.leaves[node], self.speed[node] = 0, 0.0
            else:
                self._add_up(node)

    def _add_up(self, node: int) -> None:
        left, right = 2 * node + 1, 2 * node + 2
        self.leaves[node] = self.leaves[left] + self.leaves[right]
        self.speed[node] = self.speed[left] + self.speed[right]


def unknown_minimum(parameters: Any) -> float:
    """Return as what a minimum stretch counts that a router does not know yet, s/Mflop."""
    return 0.0 if parameters.minimum_of == "all" else math.inf


def idle_minimum(parameters: Any, speeds: Floats) -> Floats:
    """Return the minimum stretch that each leaf reports while it is idle; see `FairTree.minimum_of`."""
    return {
        "busy": np.full(len(speeds), np.inf),
        "all": np.zeros(len(speeds)),
        "inverse-speed": 1.0 / speeds,
    }[parameters.minimum_of]
