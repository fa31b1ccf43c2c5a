"""The fair tree with perfect and fresh information: what is left of its price when messages are free.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids",
with exact availabilities in place of summaries and every request decided at the root (B = 0).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.fair_tree.summaries import split
from gridsim.results.decisions import Words
from gridsim.schedulers.centralized.exact_stretch import BOUND_WORDS, Once
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.support.arrays import Integers


class IdealTree(Scheduler, frozen=True, kw_only=True):
    """The fair tree whose root knows at each release exactly what each leaf could take at any stretch.

    The root finds the smallest stretch S at which all leaves together have room for the request.  From there
    it goes down the tree: each router shares it out to its two children in proportion to their rooms at S,
    never above them, by largest remainder (ties: the left child).  Routers below keep the S of the root.
    Each leaf runs EDF at its own minimum stretch.  Table ``requests`` has the S of each application
    (``promised``, s/Mflop): a later one with a larger S may delay it, but where no machine fails no stretch
    becomes larger than the largest S.

    Where machines fail, what is lost is known at once and goes down from the root like a new request of that
    many tasks, with its first release and size; machines that are away have no room.

    It reads the whole grid, takes no time and sends no message: an ideal, to tell what the information of
    `gridsim.FairTree` costs (docs/background/ladder.md).  ``MinCent(mode="once")`` finds the same S, and
    shares out over all machines at once.
    """

    name: ClassVar[str] = "ideal-tree"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[Words] = BOUND_WORDS

    @property
    def order(self) -> Literal["edf"]:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return "edf"

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Down(run)


class Down(Once):
    """Requests go down the tree, two children at a time."""

    def divide(self, room: Integers, count: int) -> Integers:
        """See `gridsim.schedulers.centralized.exact_stretch.Once.divide`."""
        routers = len(room) - 1
        rooms = np.concatenate((np.zeros(routers, np.int64), room))
        for low, high in _levels_up(routers):
            rooms[low:high] = rooms[2 * low + 1 : 2 * high + 1].reshape(-1, 2).sum(axis=1)
        tasks, todo = np.zeros_like(room), [(0, count)]
        while todo:
            node, share = todo.pop()
            if node >= routers:
                tasks[node - routers] = share
                continue
            shares = split(rooms[2 * node + 1 : 2 * node + 3], share).tolist()
            todo += [(2 * node + 1 + j, part) for j, part in enumerate(shares) if part]
        return tasks


def _levels_up(routers: int) -> list[tuple[int, int]]:
    """The routers of each level of the tree, as ranges, from the deepest to the root."""
    levels = range(routers.bit_length())
    return [(2**d - 1, min(2 ** (d + 1) - 1, routers)) for d in reversed(levels)]
