"""Words of the table ``decisions`` for a fair tree, and what its compiled protocol records there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.decision_log import ACTIONS
from gridcore.fair_tree.protocol import FairTreeProtocol
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.scheduling.contract import DecisionVerb, Run
from gridsim.support.arrays import Integers, Rows

_STRETCH = ("a stretch of", "s/Mflop")
_ON = "passed {tasks} tasks on to machine {machine}: "
_ROOT = "accepted {tasks} tasks for its {among} machines, as the root, "
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: DecisionTexts = {
    "requested": ("sent a request for {tasks} tasks to machine {machine}", "", ""),
    "requested-again": ("sent a request for {tasks} tasks that were lost to machine {machine}", "", ""),
    "passed-on": (_ON + "too large a stretch for its {among} machines", *_STRETCH),
    "passed-on-idle": (_ON + "nothing known yet of the rest to compare its {among} machines with", *_STRETCH),
    "passed-on-full": (_ON + "no room on its {among} machines in any sample", *_STRETCH),
    "accepted": ("accepted {tasks} tasks for its {among} machines and promised the stretch", *_STRETCH),
    "accepted-at-root": (_ROOT + "and promised the stretch", *_STRETCH),
    "accepted-full": (_ROOT + "without a promise: no room in any sample", *_STRETCH),
    "gave": ("gave {tasks} tasks to its child on machine {machine}", "room for", "tasks"),
    "queued": ("queued {tasks} tasks", "a minimum stretch of all it has of", "s/Mflop"),
    "sent-on": ("passed {tasks} tasks on to machine {machine}, as it lacks their memory or disk", "", ""),
}
#: See `gridsim.scheduling.contract.Scheduler.decision_verbs`.
VERBS: Mapping[str, DecisionVerb] = {
    "passed-on": "gives",
    "passed-on-idle": "gives",
    "passed-on-full": "gives",
    "gave": "gives",
    "queued": "keeps",
    "sent-on": "gives",
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

    def submitted(self, flow: FairTreeProtocol, rows: Rows, machines: Any, again: bool) -> None:
        """Record that requests enter the tree at nodes on `machines`; `again`: they are for lost tasks."""
        self.read(flow)
        self.log.record(
            "requested-again" if again else "requested",
            time=self.run.engine.now,
            application=self.bags.whose[rows["application"]],
            decider=rows["sender"] - self.first_leaf,
            machine=machines,
            tasks=rows["tasks"],
        )
        self.read(flow)  # which has room for fewer rows now

    def read(self, flow: FairTreeProtocol) -> None:
        """Record what `flow` has logged since the last call."""
        rows, left_out = flow.read_log(self.log.limit - self.log.kept, self.run.engine.now)
        rows["action"] = _CODES[rows["action"]]
        self.log.add(rows, left_out)


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
