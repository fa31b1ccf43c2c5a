"""Words of the table ``decisions`` for a fair tree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import DecisionVerb
from gridsim.support.arrays import Integers

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
