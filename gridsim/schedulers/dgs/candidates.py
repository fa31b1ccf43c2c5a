"""The candidates of a search of DGS_ASAP: the set C of its Figure 3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gridcore.dgs.slots import SlotSchedules
from gridsim.support.arrays import Bools, Integers


class Candidates:
    """The set C of a search: nodes in the order in which they were reached, and their data.

    Parameters
    ----------
    neighbours
        Function that returns the neighbours of each of k nodes, int64[k, degree], -1 for none, and the time
        of the copy of the schedule of each of them that is used, int64[k, degree] ns.
    schedules
        The schedules of all machines.
    length, start
        Number of slots that the job needs, and the first slot in which it may start.
    excluded
        Nodes that are neither candidates nor opened.
    suited
        bool[nodes], whether each node suits the job; None if all do.
    own_job
        Claim of the job whose reservations count as free; None for no claim.

    Attributes
    ----------
    nodes, as_of
        int64[k], the nodes, and the time of the known copy of each schedule, ns.
    reached
        All nodes that were reached, including those that do not suit the job; attributes of nodes come with
        their schedules.
    free
        Number of candidates that are free for `length` slots from slot `start` on.
    opened
        Number of nodes that were asked for their neighbours.
    own_count
        Number of candidates before any node was opened.
    """

    def __init__(
        self,
        neighbours: Callable[[list[int]], tuple[Integers, Integers]],
        schedules: SlotSchedules,
        length: int,
        start: int,
        excluded: set[int],
        suited: Bools | None,
        own_job: int | None = None,
    ) -> None:
        self.neighbours, self.schedules, self.own_job = neighbours, schedules, own_job
        self.length, self.start, self.suited = length, start, suited
        self.met = np.zeros(schedules.nodes, np.bool_)
        self.met[[*excluded]] = True
        self.reached = list[int]()
        self.nodes = self.as_of = np.zeros(0, np.int64)
        self.free = self.opened = self.own_count = 0

    def start_at(self, searcher: int) -> None:
        """Add the neighbours of the node that searches."""
        _, nodes, as_of, free = self._new_neighbours([searcher])
        self._add(nodes, as_of, free)
        self.own_count = len(self.nodes)

    def open(self, openers: list[int], tasks: int) -> None:
        """Add the neighbours of one node after the other until `tasks` candidates are free."""
        which, nodes, as_of, free = self._new_neighbours(openers)
        free_counts, count = np.cumsum(free), len(openers)
        if len(free_counts) and free_counts[-1] >= tasks - self.free:
            count = int(which[np.searchsorted(free_counts, tasks - self.free)]) + 1
        self.opened += count
        is_reached = which < count
        self._add(nodes[is_reached], as_of[is_reached], free[is_reached])

    def _new_neighbours(self, openers: list[int]) -> tuple[Integers, Integers, Integers, Bools]:
        """Return the neighbours of nodes, except excluded and known ones, in the order of `openers`.

        Returns
        -------
        which, nodes, as_of, free
            int64[k], the index of the first node that knows each neighbour, the neighbour, and the time of
            the copy of its schedule, ns; bool[k], whether it suits the job and is free.
        """
        rows, times = self.neighbours(openers)
        nodes = rows.ravel()
        index = np.flatnonzero((nodes >= 0) & ~self.met[nodes])
        _, first = np.unique(nodes[index], return_index=True)
        index = index[np.sort(first)]
        nodes, as_of = nodes[index], times.ravel()[index]
        free = np.ones(len(nodes), np.bool_) if self.suited is None else self.suited[nodes]
        free[free] = self.are_free(nodes[free], as_of[free], self.start)
        return index // max(1, rows.shape[1]), nodes, as_of, free

    def _add(self, nodes: Integers, as_of: Integers, free: Bools) -> None:
        """Add nodes that were reached; those that suit the job become candidates."""
        self.met[nodes] = True
        self.reached += nodes.tolist()
        if self.suited is not None:
            nodes, as_of = nodes[self.suited[nodes]], as_of[self.suited[nodes]]
        self.nodes, self.as_of = np.append(self.nodes, nodes), np.append(self.as_of, as_of)
        self.free += int(np.count_nonzero(free))

    def are_free(self, nodes: Integers, as_of: Integers, start: int) -> Bools:
        """Return bool[k]: which of `nodes` are free from slot `start` on."""
        seen = as_of if self.schedules.stale else None
        return self.schedules.is_free(nodes, start, self.length, seen, own_job=self.own_job)

    def free_at(self, start: int) -> Integers:
        """Return the candidates that are free from slot `start` on."""
        return self.nodes[self.are_free(self.nodes, self.as_of, start)]

    def earliest(self, tasks: int) -> tuple[int, Integers]:
        """Return the first slot from which enough candidates are free, and the first of these candidates."""
        seen = self.as_of if self.schedules.stale else None
        start_and_nodes = self.schedules.earliest_start(
            self.nodes, tasks, self.length, self.start, seen, own_job=self.own_job
        )
        assert start_and_nodes is not None  # the caller has checked that there are enough candidates
        return start_and_nodes
