"""The candidates of a search of DGS_ASAP: the set C of its Figure 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gridcore.dgs.slots import SlotSchedules
from gridsim.support.arrays import Bools


class Candidates:
    """The set C of a search: nodes in the order in which they were reached, and their data.

    Parameters
    ----------
    neighbours
        Function that returns the neighbours of a node, each with the time (ns) of the copy of its schedule
        that is used.
    schedules
        The schedules of all machines.
    length, start
        Number of slots that the job needs, and the first slot in which it may start.
    excluded
        Nodes that are neither candidates nor opened.
    suited
        bool[nodes], whether each node suits the job; None if all do.

    Attributes
    ----------
    nodes, as_of
        The nodes, and the time of the known copy of each schedule, ns.
    reached
        All nodes that were reached, including those that do not suit the job; attributes of nodes come with
        their schedules.
    free
        Number of candidates that are free for `length` slots from slot `start` on.
    opened
        Number of nodes that were asked for their neighbours.
    own
        Number of candidates before any node was opened.
    """

    def __init__(
        self,
        neighbours: Callable[[int], list[tuple[int, int]]],
        schedules: SlotSchedules,
        length: int,
        start: int,
        excluded: set[int],
        suited: Bools | None,
    ) -> None:
        self.neighbours, self.schedules = neighbours, schedules
        self.length, self.start, self.suited = length, start, suited
        self.met = excluded
        self.reached, self.nodes, self.as_of = list[int](), list[int](), list[int]()
        self.free = self.opened = self.own = 0

    def open(self, node: int) -> None:
        """Add the neighbours of a node that was reached."""
        self.opened += 1
        self.extend(node)

    def extend(self, node: int) -> None:
        """Add the neighbours of a node, except excluded and known nodes."""
        new = [row for row in self.neighbours(node) if row[0] not in self.met]
        self.met.update(other for other, _ in new)
        self.reached += [other for other, _ in new]
        if self.suited is not None:
            new = [row for row in new if self.suited[row[0]]]
        if new:
            nodes, as_of = map(list, zip(*new, strict=True))
            self.nodes += nodes
            self.as_of += as_of
            self.own += 0 if self.opened else len(nodes)
            self.free += int(self.are_free(nodes, as_of, self.start).sum())

    def are_free(self, nodes: list[int], as_of: list[int], start: int) -> Bools:
        """Return bool[k]: which of `nodes` are free from slot `start` on."""
        seen = as_of if self.schedules.stale else None
        return self.schedules.is_free(nodes, start, self.length, seen)

    def free_at(self, start: int) -> list[int]:
        """Return the candidates that are free from slot `start` on."""
        free = self.are_free(self.nodes, self.as_of, start)
        return [node for node, is_free in zip(self.nodes, free.tolist(), strict=True) if is_free]

    def earliest(self, tasks: int) -> tuple[int, Any]:
        """Return the first slot from which enough candidates are free, and the first of these candidates."""
        seen = self.as_of if self.schedules.stale else None
        start_and_nodes = self.schedules.earliest_start(self.nodes, tasks, self.length, self.start, seen)
        assert start_and_nodes is not None  # the caller has checked that there are enough candidates
        return int(start_and_nodes[0]), np.asarray(start_and_nodes[1])


class EarlierCandidates(Candidates):
    """The set C of a search for an earlier start of a placed job: its own slots count as free.

    Parameters
    ----------
    machines
        The machines of the job.
    present_start
        Slot in which it starts now.
    """

    def __init__(self, *arguments: Any, machines: set[int], present_start: int) -> None:
        self.machines, self.present_start = machines, present_start
        super().__init__(*arguments)

    def are_free(self, nodes: list[int], as_of: list[int], start: int) -> Bools:
        """Return bool[k]: which of `nodes` are free from slot `start` on, but for the job itself."""
        free = super().are_free(nodes, as_of, start)
        if start < self.present_start < start + self.length:
            rows = [k for k, node in enumerate(nodes) if node in self.machines and not free[k]]
            if rows:
                seen = [as_of[k] for k in rows] if self.schedules.stale else None
                nodes_of_job = [nodes[k] for k in rows]
                free[rows] = self.schedules.is_free(nodes_of_job, start, self.present_start - start, seen)
        return free

    def earliest(self, tasks: int) -> tuple[int, Any]:
        """Return an earlier start and the first of the candidates that are free then; -1 if there is none.

        On machines that the job does not hold it is the earliest; with others, starts at distances of 0, 1,
        3, 7, ... slots from the first possible one are tried.
        """
        exact, nodes = super().earliest(tasks)
        start, step = self.start, 1
        while start < min(exact, self.present_start):
            free = self.free_at(start)
            if len(free) >= tasks:
                return start, np.array(free[:tasks], np.int64)
            start, step = start + step, 2 * step
        return (exact, nodes) if exact < self.present_start else (-1, np.zeros(0, np.int64))
