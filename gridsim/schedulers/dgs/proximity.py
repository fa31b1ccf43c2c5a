"""The proximity overlay of DGS_ACAP: each node also knows nodes that are close to it.

As in Vicinity (Voulgaris and van Steen, "Epidemic-style management of semantic overlays", 2005) and T-Man
(Jelasity and Babaoglu, 2005), a node regularly asks a random neighbour and a near one for their neighbours,
and keeps the nearest.  Places travel with the addresses of nodes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.random_stream import RandomStream
from gridsim.schedulers.dgs.neighbourhood import WARM_UP, Neighbourhood, Parameters
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Floats, Integers

#: Number of places around which `closest` searches for a group.
_CENTRES = 256


class _Near(Parameters, Protocol):
    @property
    def near(self) -> int: ...


class Proximity(Neighbourhood):
    """The overlay of a run with the nearest nodes of each node besides the random neighbours.

    Attributes
    ----------
    near
        int64[machines, k], the nearest known nodes of each node that are not in its random view; -1 for none.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Neighbourhood.STATE, "near", "draws")

    def __init__(self, run: Run, parameters: _Near, latency: int, places: Floats) -> None:
        super().__init__(run, parameters, latency)
        machines = len(run.speeds)
        self.places = places
        self.near = np.full((machines, min(parameters.near, max(0, machines - 1 - self.width))), -1, np.int64)
        # Like the random overlay, it draws from a seed that is drawn once: two numbers per node and cycle.
        self.draws = RandomStream(int(run.streams("dgs.proximity").integers(2**63)), 0)
        for _ in range(WARM_UP):
            self._cycle()
        self.width += self.near.shape[1]

    def known_to(self, nodes: list[int]) -> Integers:
        """Return the neighbours of each of `nodes`, near nodes first; -1 for none and for known failures."""
        near = self.near[nodes]
        near[self.away[near]] = -1
        return np.concatenate((near, super().known_to(nodes)), axis=1)

    def known(self) -> NDArray[Any]:
        """Return the neighbours of each node, near nodes first: integers[machines, k]; -1 for none."""
        return np.concatenate((self.near, self.views.views), axis=1)

    def join(self, nodes: Integers) -> None:
        """Handle the recovery of `nodes`, which may add near nodes to random views."""
        super().join(nodes)
        random = self.views.views
        self.near[(self.near[:, :, None] == random[:, None, :]).any(axis=2)] = -1

    def shuffle(self, _: list[int]) -> None:
        """Run a cycle of both overlays; each new neighbour sends its schedule, which is counted."""
        super().shuffle(_)
        before = self.near
        self._cycle()
        came = (self.near >= 0) & ~(self.near[:, :, None] == before[:, None, :]).any(axis=2)
        self.counts[4] += int(came.sum())

    def _cycle(self) -> None:
        """Run a cycle, in which each node keeps the nearest of the neighbours of two other nodes."""
        random, near = self.views.views.astype(np.int64), self.near
        nodes = np.arange(len(random))
        candidate_lists = [near]
        for known in (random, near):
            asked = _draw_entries(known, self.draws)
            asked[~(self.run.up & self.run.up[asked])] = -1  # a node that is down neither asks nor answers
            neighbour_lists = np.concatenate((asked[:, None], random[asked], near[asked]), axis=1)
            neighbour_lists[asked < 0] = -1
            candidate_lists.append(neighbour_lists)
        candidates = np.concatenate(candidate_lists, axis=1)
        candidates[(candidates == nodes[:, None]) | (candidates < 0) | self.away[candidates]] = -1
        # nodes of the random view are omitted
        candidates[(candidates[:, :, None] == random[:, None, :]).any(axis=2)] = -1
        distances = ((self.places[candidates] - self.places[:, None, :]) ** 2).sum(axis=2)
        distances[candidates < 0] = np.inf
        order = np.lexsort((candidates, distances), axis=1)
        candidates, distances = (
            np.take_along_axis(candidates, order, 1),
            np.take_along_axis(distances, order, 1),
        )
        is_duplicate = np.zeros(candidates.shape, np.bool_)
        is_duplicate[:, 1:] = candidates[:, 1:] == candidates[:, :-1]
        distances[is_duplicate] = np.inf
        candidates[is_duplicate] = -1
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : near.shape[1]]
        self.near = np.take_along_axis(candidates, nearest, 1)


def _draw_entries(views: Integers, draws: RandomStream) -> Integers:
    """Draw an entry that is not -1 from each row; -1 for a row without such entries."""
    known = views >= 0
    positions = (draws.random(len(views)) * known.sum(axis=1)).astype(np.int64)
    place = (np.cumsum(known, axis=1) <= positions[:, None]).sum(axis=1)
    found = np.full(len(views), -1, np.int64)
    some = known.any(axis=1)
    found[some] = views[some, place[some]]
    return found


def closest(places: Floats, count: int) -> Integers:
    """Return the indices of `count` places that are close to one another, int64[count], ascending.

    Each of the first places is the centre of a group of its `count` nearest places.  The group with the
    smallest sum of distances to its centre is returned (ties: the first centre, and the first of places at
    the same distance).

    With at most `_CENTRES` places, the mean distance between its pairs is less than twice the smallest
    possible.  By the triangle inequality it is at most 2 / count times that sum, and in the best group some
    member has a sum of at most count - 1 times the smallest mean.

    Parameters
    ----------
    places
        float64[k, 2].
    """
    centres = places[:_CENTRES]
    apart = np.sqrt(((places[None, :, :] - centres[:, None, :]) ** 2).sum(axis=2))
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :count]
    sums = np.take_along_axis(apart, nearest, 1).sum(axis=1)
    found: Integers = np.sort(nearest[int(np.argmin(sums))])
    return found
