"""The true values that are recorded with the decisions of a fair tree's nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsim.schedulers.centralized.exact_stretch import STRETCH_TOLERANCE
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.decisions import leaves_below
from gridsim.scheduling.contract import Run
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS


class TrueRooms:
    """How much room there really is on the leaves.

    Parameters
    ----------
    core
        The message core, which knows the queues.
    """

    def __init__(self, run: Run, bags: Bags, core: Any) -> None:
        self.run, self.bags, self.core = run, bags, core

    def complete(
        self, node: int, target: int, action: str, application: int, columns: dict[str, Any], now: int
    ) -> None:
        """Add to the columns of a decision of `node` the level, the true value and its age, s.

        Parameters
        ----------
        target
            The node that the decision is about; -1 for none.
        columns
            ``age`` is the ns at which what the node saw was sampled.
        """
        if action in ("requested", "requested-again"):
            return
        sampled = columns["age"]
        columns["level"] = int(tree_level(node))
        columns["age"] = 0.0 if action in ("queued", "sent-on") else _age(now, sampled)
        if action == "queued":
            columns["true"] = columns["saw"]
        elif action == "gave":
            room = self.room(application, columns.pop("limit"), self.leaves(target), now)
            columns["true"] = float(room.sum(dtype=np.float64))
        elif action != "sent-on":
            leaves = self.leaves(node)
            columns["among"] = len(leaves)
            columns["true"] = float(self.smallest(application, columns["tasks"], leaves, now))

    def leaves(self, node: int) -> Integers:
        """Return the machines of the leaves below `node` that are up."""
        return leaves_below(node, self.run.up)

    def room(self, application: int, stretch: float, machines: Integers, now: int) -> Integers:
        """Return how many tasks of a bag each of `machines` could take `now` (ns) at `stretch`.

        Parameters
        ----------
        application
            Number of the bag.  Machines that lack the memory or disk of its tasks are left out.
        """
        machines = self.suited(application, machines)
        if self.run.bandwidth is not None:
            moved: Integers = self.core.room(stretch, application, now, machines)
            return moved
        bags = self.bags
        release, size, task_size = (
            float(column[application]) for column in (bags.release, bags.size, bags.task_size)
        )
        room: Integers = self.core.available(stretch, release, size, task_size, now, machines)
        return room

    def suited(self, application: int, machines: Integers) -> Integers:
        """Return those of `machines` that have the memory and disk for the tasks of a bag."""
        suits = self.run.applications.machines_for(int(self.bags.whose[application]))
        return machines if suits is None else machines[suits[machines]]

    def smallest(self, application: int, tasks: int, machines: Integers, now: int) -> float:
        """Return the smallest stretch at which `machines` have room for so many tasks of a bag `now` (ns).

        The stretch is within a relative `STRETCH_TOLERANCE`; it is inf without machines that suit.

        Parameters
        ----------
        application
            Number of the bag.
        """
        machines = self.suited(application, machines)
        if not len(machines):
            return np.inf
        bags = self.bags

        def enough(stretch: float) -> bool:
            return bool(self.room(application, stretch, machines, now).sum(dtype=np.float64) >= tasks)

        speed = float(self.run.speeds[machines].sum())
        low, high = 0.0, tasks * float(bags.task_size[application]) / float(bags.size[application]) / speed
        while not enough(high):
            low, high = high, 2.0 * high
        while high - low > STRETCH_TOLERANCE * high:
            middle = low + (high - low) / 2.0
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def _age(now: int, since: int) -> float:
    return np.nan if since == NEVER else (now - since) / NS
