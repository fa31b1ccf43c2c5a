"""Records for the table ``decisions``: what the nodes of a fair tree decided, and on what grounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gridcore.fair_tree.summary_tree import DECISION, REQUEST, SummaryTree
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import joined
from gridsim.results.decisions import Decisions, Words
from gridsim.schedulers.centralized.exact_stretch import STRETCH_TOLERANCE
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.scheduling.contract import Run
from gridsim.scheduling.local.oracle import Decider
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Integers, Rows
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful

_STRETCH = ("a stretch of", "s/Mflop")
_ON = "passed {tasks} tasks on to machine {machine}: "
_ROOT = "accepted {tasks} tasks for its {among} machines, as the root, "
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: Words = {
    "requested": ("sent a request for {tasks} tasks to machine {machine}", "", ""),
    "requested-again": ("sent a request for {tasks} tasks that were lost to machine {machine}", "", ""),
    "passed-on": (_ON + "too large a stretch for its {among} machines", *_STRETCH),
    "passed-on-idle": (_ON + "no busy one known, beside its {among}, to hold it against", *_STRETCH),
    "passed-on-full": (_ON + "no room on its {among} machines in any sample", *_STRETCH),
    "accepted": ("accepted {tasks} tasks for its {among} machines and promised the stretch", *_STRETCH),
    "accepted-at-root": (_ROOT + "and promised the stretch", *_STRETCH),
    "accepted-full": (_ROOT + "without a promise: no room in any sample", *_STRETCH),
    "gave": ("gave {tasks} tasks to its child on machine {machine}", "room for", "tasks"),
    "queued": ("queued {tasks} tasks", "a minimum stretch of all it has of", "s/Mflop"),
}


class TreeNotes(Stateful):
    """Records in `log` what nodes decide, and the true values at that moment.

    bound : B of the fair tree.  host : function from nodes to the machines on which they sit now.

    Requests are routed by the same `SummaryTree.route`, one row at a time.  What a router sees of its
    children rests on samples that leaves took, and its age is that of the oldest sample.  A leaf without news
    sends nothing, so its sample grows old although it is still nearly right.
    """

    STATE: ClassVar[tuple[str, ...]] = ("sampled",)

    def __init__(
        self,
        run: Run,
        log: Decisions,
        tree: SummaryTree,
        queues: TaskQueues,
        bags: Bags,
        bound: float,
        host: Callable[[Any], Any],
    ) -> None:
        self.run, self.log, self.tree, self.queues = run, log, tree, queues
        self.bags, self.bound, self.host = bags, bound, host
        self.rooms = Rooms(run, bags, queues.available)
        #: Payload of a summary that was sent -> ns at which the oldest sample in it was taken.
        self.sampled: dict[int, int] = {}

    def submitted(self, rows: Rows, again: bool) -> None:
        """Record that requests enter the tree.  again : whether they are for lost tasks."""
        self.log.note(
            "requested-again" if again else "requested",
            time=self.run.engine.now,
            application=self.bags.whose[rows["application"]],
            decider=self.host(rows["sender"]),
            machine=self.host(rows["node"]),
            tasks=rows["tasks"],
        )

    def reported(self, rows: Rows) -> None:
        """Remember the age of the samples in summaries that are sent now."""
        for node, payload in zip(rows["sender"].tolist(), rows["payload"].tolist(), strict=True):
            leaf = node >= self.tree.first_leaf
            self.sampled[payload] = self.run.engine.now if leaf else min(self._since(node))

    def _since(self, router: int) -> list[int]:
        """Return for each child of `router` when the oldest sample that `router` holds of it was taken, ns.

        The value is NEVER for a child of which it knows nothing.
        """
        held = self.tree.held([2 * router + 1, 2 * router + 2]).tolist()
        return [self.sampled[payload] if payload >= 0 else NEVER for payload in held]

    # -- routers ------------------------------------------------------------------------------------------

    def route(self, rows: Rows, now: int) -> tuple[Rows, Rows]:
        """Route requests as `SummaryTree.route` does, and record each decision."""
        sent, decisions = [np.zeros(0, REQUEST)], [np.zeros(0, DECISION)]
        for k in range(len(rows)):
            row = rows[k : k + 1]
            router, application = row["node"].item(), row["application"].item()
            rooms, minimum = self.tree.look(router, application, now)
            since = self._since(router)
            out, made = self.tree.route(row, now)
            if row["sequence"][0] < 0:
                self._climbing(row[0], out, made, rooms, minimum, min(since))
            if len(made):
                self._divided(router, application, out, int(made["sample"][0]), rooms, since)
            sent.append(out)
            decisions.append(made)
        return joined(sent), joined(decisions)

    def _climbing(self, row: Any, out: Rows, made: Rows, rooms: Rows, minimum: float, since: int) -> None:
        """Record that a router accepted a climbing request or passed it on."""
        router, tasks = int(row["node"]), int(row["tasks"])
        hosts = np.flatnonzero(rooms.sum(axis=1) >= tasks)
        saw = float(self.tree.grid.stretch[hosts[0]]) if len(hosts) else np.inf
        if len(made):
            action = "accepted" if router else "accepted-at-root"
            if not len(hosts):
                action = "accepted-full"
        elif not len(hosts):
            action = "passed-on-full"
        else:
            action = "passed-on" if np.isfinite(minimum) else "passed-on-idle"
        leaves = self.rooms.leaves(router)
        now = self.run.engine.now
        self.log.note(
            action,
            time=now,
            application=self.bags.whose[row["application"]],
            decider=self.host(router),
            level=tree_level(router),
            machine=-1 if len(made) else self.host(out["node"][0]),
            tasks=tasks,
            among=len(leaves),
            saw=saw,
            limit=self.bound * minimum if router and np.isfinite(minimum) else np.nan,
            true=self.rooms.smallest(int(row["application"]), tasks, leaves, now),
            age=_age(now, since),
        )

    def _divided(
        self, router: int, application: int, out: Rows, sample: int, rooms: Rows, since: list[int]
    ) -> None:
        """Record how a router divided a request among its children."""
        now = self.run.engine.now
        for child, tasks in out[["node", "tasks"]].tolist():
            which = child - 2 * router - 1
            stretch = float(self.tree.grid.stretch[sample])
            room = self.rooms.room(application, stretch, self.rooms.leaves(child), now)
            self.log.note(
                "gave",
                time=now,
                application=self.bags.whose[application],
                decider=self.host(router),
                level=tree_level(router),
                machine=self.host(child),
                tasks=tasks,
                saw=rooms[sample, which],
                true=room.sum(dtype=np.float64),
                age=_age(now, since[which]),
            )

    # -- leaves -------------------------------------------------------------------------------------------

    def enqueue(self, rows: Rows) -> None:
        """Put shares into the queues of their leaves, one at a time, and record each."""
        now = self.run.engine.now
        for node, application, tasks in rows[["node", "application", "tasks"]].tolist():
            machine = node - self.tree.first_leaf
            self.queues.enqueue([machine], [application], [tasks], now)
            stretch = self.queues.minimum_stretch([machine], now)[0]
            self.log.note(
                "queued",
                time=now,
                application=self.bags.whose[application],
                decider=machine,
                level=tree_level(node),
                tasks=tasks,
                saw=stretch,
                true=stretch,
                age=0.0,
            )


class Rooms:
    """The true values to record with decisions: how much room there is on the leaves.

    available : `TaskQueues.available` of the leaves.
    """

    def __init__(self, run: Run, bags: Bags, available: Callable[..., Integers]) -> None:
        self.run, self.bags, self.available = run, bags, available
        self.first_leaf = len(run.speeds) - 1

    def leaves(self, node: int) -> Integers:
        """Return the machines of the leaves below `node` that are up."""
        nodes = 2 * self.first_leaf + 1
        first, last, found = node, node, [np.zeros(0, np.int64)]
        while first < nodes:
            found.append(np.arange(max(first, self.first_leaf), min(last + 1, nodes)))
            first, last = 2 * first + 1, 2 * last + 2
        machines: Integers = np.concatenate(found) - self.first_leaf
        return machines[self.run.up[machines]]

    def room(self, application: int, stretch: float, machines: Integers, now: int) -> Integers:
        """Return how many tasks of a bag each of `machines` could take `now` (ns) at `stretch`.

        application : number of the bag.
        """
        bags = self.bags
        release, size, task_size = (
            float(column[application]) for column in (bags.release, bags.size, bags.task_size)
        )
        return self.available(stretch, release, size, task_size, now, machines)

    def smallest(self, application: int, tasks: int, machines: Integers, now: int) -> float:
        """Return the smallest stretch at which `machines` have room for so many tasks of a bag `now` (ns).

        application : number of the bag.

        The stretch is within a relative `STRETCH_TOLERANCE`; it is inf without machines.
        """
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
        room: Integers = self.grid.core.available(*given)
        return room

    def note(self, node: int, action: str, application: int, said: dict[str, Any]) -> None:
        """See `Decider`."""
        if self.log is None:
            return
        core, now = self.grid.core, self.grid.now
        target, said["machine"] = said["machine"], -1
        if target >= 0:
            said["machine"] = core.machine_of(target)
        if action == "queued":
            said["true"] = said["saw"]
        elif action == "gave":
            leaves = self.rooms.leaves(target)
            said["true"] = self.rooms.room(application, said.pop("limit"), leaves, now).sum(dtype=np.float64)
        elif not action.startswith("requested"):
            leaves = self.rooms.leaves(node)
            said["among"] = len(leaves)
            said["true"] = self.rooms.smallest(application, said["tasks"], leaves, now)
        if action in ("requested", "requested-again"):
            said["level"] = -1
        else:
            said["age"] = _age(now, said["age"]) if action != "queued" else 0.0
            said["level"] = tree_level(node)
        whose = int(self.bags.whose[application])
        self.log.note(action, time=now, application=whose, decider=core.machine_of(node), **said)


def _age(now: int, since: int) -> float:
    return np.nan if since == NEVER else (now - since) / NS
