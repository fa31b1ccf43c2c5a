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
from gridsim.scheduling.overlays import tree_level
from gridsim.support.arrays import Rows
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
        leaves = self._leaves(router)
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
            true=self._smallest(int(row["application"]), tasks, leaves),
            age=_age(now, since),
        )

    def _divided(
        self, router: int, application: int, out: Rows, sample: int, rooms: Rows, since: list[int]
    ) -> None:
        """Record how a router divided a request among its children."""
        now = self.run.engine.now
        for child, tasks in out[["node", "tasks"]].tolist():
            which = child - 2 * router - 1
            room = self._room(application, float(self.tree.grid.stretch[sample]), self._leaves(child))
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

    # -- true values ----------------------------------------------------------------------------------------

    def _leaves(self, node: int) -> Rows:
        """Return the machines of the leaves below `node` that are up."""
        first, last, found = node, node, [np.zeros(0, np.int64)]
        while first < self.tree.nodes:
            found.append(np.arange(max(first, self.tree.first_leaf), min(last + 1, self.tree.nodes)))
            first, last = 2 * first + 1, 2 * last + 2
        machines: Rows = np.concatenate(found) - self.tree.first_leaf
        return machines[self.run.up[machines]]

    def _room(self, application: int, stretch: float, machines: Rows) -> Rows:
        """Return how many tasks of a bag each of `machines` could take now at `stretch`.

        application : number of the bag.
        """
        bags = self.bags
        release, size, task_size = (
            float(column[application]) for column in (bags.release, bags.size, bags.task_size)
        )
        now = self.run.engine.now
        return self.queues.available(stretch, release, size, task_size, now, machines)

    def _smallest(self, application: int, tasks: int, machines: Rows) -> float:
        """Return the smallest stretch at which `machines` have room for so many tasks of a bag now.

        application : number of the bag.

        The stretch is within a relative `STRETCH_TOLERANCE`; it is inf without machines.
        """
        if not len(machines):
            return np.inf
        bags = self.bags

        def enough(stretch: float) -> bool:
            return bool(self._room(application, stretch, machines).sum(dtype=np.float64) >= tasks)

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
