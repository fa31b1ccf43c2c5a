"""The fair tree with perfect information, a baseline that shows the cost of its messages.

J. Celaya and L. Marchal, "A fair decentralized scheduler for bag-of-tasks applications on desktop grids",
with exact availabilities in place of summaries and every request decided at the root (B = 0).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.fair_tree.summaries import split
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.exact_stretch import BOUND_WORDS, ExactStretch
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.support.arrays import Integers


class IdealTree(Scheduler, frozen=True, kw_only=True):
    """The fair tree with an ideal root, which knows the room of each leaf at any stretch.

    The root finds the smallest stretch S at which all leaves together have room for the request.  The request
    then goes down the tree: each router divides it between its two children in proportion to their room at S,
    never above that room, by largest remainder (ties: the left child).  All routers use the S of the root.
    Each leaf runs EDF at its own minimum stretch.  Table ``requests`` has the S of each application
    (``promised``, s/Mflop).  A later application with a larger S may delay an earlier one, but if no machine
    fails, no stretch exceeds the largest S.

    If machines fail, lost tasks are known at once and go down from the root like a new request of as many
    tasks, with the original release and size of their application; failed machines have no room.

    It knows the whole grid, decides in no time and sends no message.  Its difference from
    `gridsim.FairTree` is the cost of information (docs/background/ladder.md).  ``MinCent(mode="once")`` uses
    the same S, but divides tasks among all machines at once.
    """

    name: ClassVar[str] = "ideal-tree"
    decentralized: ClassVar[bool] = False
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = BOUND_WORDS
    constraints: ClassVar[bool] = True

    @property
    def moves_data(self) -> bool:
        return True

    @property
    def promised_order(self) -> Literal["edf"]:
        return "edf"

    def start(self, run: Run) -> Policy:
        return TreeDivision(run)


class TreeDivision(ExactStretch):
    """Policy that divides requests down the tree, between two children at a time."""

    def divide(self, capacity: Integers, count: int) -> Integers:
        routers = len(capacity) - 1
        capacities = np.concatenate((np.zeros(routers, np.int64), capacity))
        for low, high in _router_levels(routers):
            capacities[low:high] = capacities[2 * low + 1 : 2 * high + 1].reshape(-1, 2).sum(axis=1)
        tasks, stack = np.zeros_like(capacity), [(0, count)]
        while stack:
            node, share = stack.pop()
            if node >= routers:
                tasks[node - routers] = share
                continue
            shares = split(capacities[2 * node + 1 : 2 * node + 3], share).tolist()
            stack += [(2 * node + 1 + j, part) for j, part in enumerate(shares) if part]
        return tasks


def _router_levels(routers: int) -> list[tuple[int, int]]:
    """Return the routers of each level of the tree, as ranges, from the deepest level to the root."""
    levels = range(routers.bit_length())
    return [(2**d - 1, min(2 ** (d + 1) - 1, routers)) for d in reversed(levels)]
