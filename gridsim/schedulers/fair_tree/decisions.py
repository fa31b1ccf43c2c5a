"""Records for the table ``decisions``: what the nodes of a fair tree decided, and on what grounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.decision_log import ACTIONS
from gridcore.fair_tree.protocol import TreeFlow
from gridsim.results.decisions import Decisions, Words
from gridsim.schedulers.centralized.exact_stretch import STRETCH_TOLERANCE
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.scheduling.contract import Run
from gridsim.scheduling.local.oracle import Decider
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Integers, Rows
from gridsim.support.clock import NEVER, NS

_STRETCH = ("a stretch of", "s/Mflop")
_ON = "passed {tasks} tasks on to machine {machine}: "
_ROOT = "accepted {tasks} tasks for its {among} machines, as the root, "
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: Words = {
    "requested": ("sent a request for {tasks} tasks to machine {machine}", "", ""),
    "requested-again": ("sent a request for {tasks} tasks that were lost to machine {machine}", "", ""),
    "passed-on": (_ON + "too large a stretch for its {among} machines", *_STRETCH),
    "passed-on-idle": (_ON + "no busy one known, besides its {among}, to compare it with", *_STRETCH),
    "passed-on-full": (_ON + "no room on its {among} machines in any sample", *_STRETCH),
    "accepted": ("accepted {tasks} tasks for its {among} machines and promised the stretch", *_STRETCH),
    "accepted-at-root": (_ROOT + "and promised the stretch", *_STRETCH),
    "accepted-full": (_ROOT + "without a promise: no room in any sample", *_STRETCH),
    "gave": ("gave {tasks} tasks to its child on machine {machine}", "room for", "tasks"),
    "queued": ("queued {tasks} tasks", "a minimum stretch of all it has of", "s/Mflop"),
    "sent-on": ("passed {tasks} tasks on to machine {machine}, as it lacks their memory or disk", "", ""),
}
#: The position among the words of each action that the compiled protocol logs.
_CODES = np.array([list(WORDS).index(action) for action in ACTIONS], np.int16)


class TreeLog:
    """Moves what the compiled protocol has logged to `log`, in order with the requests of submitters."""

    def __init__(self, run: Run, log: Decisions, bags: Bags) -> None:
        self.run, self.log, self.bags = run, log, bags
        self.first_leaf = len(run.speeds) - 1
        #: Node -> total speed of the leaves below it that are up, as long as these are the same.
        self._speed: dict[int, float] = {}

    def speed_below(self, node: int) -> float:
        """Return the total speed (Mflop/s) of the leaves below `node` that are up."""
        if node not in self._speed:
            machines = leaves_below(node, self.run.up)
            self._speed[node] = float(self.run.speeds[machines].sum())
        return self._speed[node]

    def forget(self) -> None:
        """Forget the speeds below nodes, since machines have failed or recovered."""
        self._speed.clear()

    def submitted(self, flow: TreeFlow, rows: Rows, machines: Any, again: bool) -> None:
        """Record that requests enter the tree at nodes on `machines`; `again`: they are for lost tasks."""
        self.read(flow)
        self.log.note(
            "requested-again" if again else "requested",
            time=self.run.engine.now,
            application=self.bags.whose[rows["application"]],
            decider=rows["sender"] - self.first_leaf,
            machine=machines,
            tasks=rows["tasks"],
        )
        self.read(flow)  # which has room for fewer rows now

    def read(self, flow: TreeFlow) -> None:
        """Record what `flow` has logged since the last call."""
        rows, left_out = flow.noted(self.log.limit - self.log.kept, self.run.engine.now)
        rows["action"] = _CODES[rows["action"]]
        self.log.add(rows, left_out)


class Rooms:
    """The true values to record with decisions: how much room there is on the leaves.

    available : `TaskQueues.available` of the leaves, or `DataQueues.room` where tasks move data.
    """

    def __init__(self, run: Run, bags: Bags, available: Callable[..., Integers]) -> None:
        self.run, self.bags, self.available = run, bags, available

    def leaves(self, node: int) -> Integers:
        """Return the machines of the leaves below `node` that are up."""
        return leaves_below(node, self.run.up)

    def room(self, application: int, stretch: float, machines: Integers, now: int) -> Integers:
        """Return how many tasks of a bag each of `machines` could take `now` (ns) at `stretch`.

        application : number of the bag.  Machines that lack the memory or disk of its tasks are left out.
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

        application : number of the bag.

        The stretch is within a relative `STRETCH_TOLERANCE`; it is inf without machines that suit.
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
        self.log.note(action, time=now, application=whose, decider=decider, **columns)

    def machine_of(self, node: int, by: int) -> int:
        """Return the machine on which `node` is, as the node `by` knows that."""
        return int(self.grid.core.machine_of(node))


class MemberDecider(TreeDecider):
    """Records what the leaves and routers on machines decide that keep the tree by messages."""

    def note(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """See `Decider`; `node` is the machine, on which one of its nodes decides."""
        nodes: Any = self.grid.nodes
        self.member = nodes[node]
        super().note(self.member.speaking, action, application, columns)

    def machine_of(self, node: int, by: int) -> int:
        """See `TreeDecider`."""
        return int(self.member.host(node))


def leaves_below(node: int, up: NDArray[np.bool_]) -> Integers:
    """Return the machines of the leaves below `node` that are up."""
    first_leaf = len(up) - 1
    nodes = 2 * first_leaf + 1
    first, last, found = node, node, [np.zeros(0, np.int64)]
    while first < nodes:
        found.append(np.arange(max(first, first_leaf), min(last + 1, nodes)))
        first, last = 2 * first + 1, 2 * last + 2
    machines: Integers = np.concatenate(found) - first_leaf
    return machines[up[machines]]


def _age(now: int, since: int) -> float:
    return np.nan if since == NEVER else (now - since) / NS
