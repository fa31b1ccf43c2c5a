"""Records of what the nodes of a fair tree's node program decide, with the true values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gridsim.schedulers.centralized.exact_stretch import STRETCH_TOLERANCE
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.schedulers.fair_tree.decisions import leaves_below
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.ground_truth import Decider
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS


class Rooms:
    """The true values to record with decisions: how much room there is on the leaves.

    Parameters
    ----------
    available
        `TaskQueues.available` of the leaves, or `DataQueues.room` where tasks move data.
    """

    def __init__(self, run: Run, bags: Bags, available: Callable[..., Integers]) -> None:
        self.run, self.bags, self.available = run, bags, available

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
            return self.available(stretch, application, now, machines)
        bags = self.bags
        release, size, task_size = (
            float(column[application]) for column in (bags.release, bags.size, bags.task_size)
        )
        return self.available(stretch, release, size, task_size, now, machines)

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


class TreeDecider(Decider):
    """Records what the nodes of the node program decide, with the true values.

    Nodes name nodes where the table has machines, and give as ``age`` the ns at which what they saw was
    sampled.
    """

    def __init__(self, grid: Any, bags: Bags) -> None:
        super().__init__(grid)
        self.bags, self.rooms = bags, Rooms(grid.run, bags, self._available)

    def _available(self, *given: Any) -> Integers:
        core = self.grid.core
        room: Integers = (core.available if self.grid.run.bandwidth is None else core.room)(*given)
        return room

    def note(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """See `Decider`."""
        if self.log is None:
            return
        now = self.grid.now
        target, columns["machine"] = columns["machine"], -1
        if target >= 0:
            columns["machine"] = self.machine_of(target, node)
        if action == "queued":
            columns["true"] = columns["saw"]
        elif action == "sent-on":
            columns["age"] = 0.0
        elif action == "gave":
            leaves = self.rooms.leaves(target)
            columns["true"] = self.rooms.room(application, columns.pop("limit"), leaves, now).sum(
                dtype=np.float64
            )
        elif not action.startswith("requested"):
            leaves = self.rooms.leaves(node)
            columns["among"] = len(leaves)
            columns["true"] = self.rooms.smallest(application, columns["tasks"], leaves, now)
        if action in ("requested", "requested-again"):
            columns["level"] = -1
        else:
            columns["age"] = 0.0 if action in ("queued", "sent-on") else _age(now, columns["age"])
            columns["level"] = tree_level(node)
        whose = int(self.bags.whose[application])
        decider = self.machine_of(node, node)
        self.log.record(action, time=now, application=whose, decider=decider, **columns)

    def machine_of(self, node: int, by: int) -> int:
        """Return the machine on which `node` is, as the node `by` knows that."""
        return int(self.grid.core.machine_of(node))


class MemberDecider(TreeDecider):
    """Records what the leaves and routers on machines decide that keep the tree by messages."""

    def note(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """See `Decider`; `node` is the machine, on which one of its nodes decides."""
        self.member = self.grid.program_of(node)
        super().note(self.member.speaking, action, application, columns)

    def machine_of(self, node: int, by: int) -> int:
        """See `TreeDecider`."""
        return int(self.member.host(node))


def _age(now: int, since: int) -> float:
    return np.nan if since == NEVER else (now - since) / NS
