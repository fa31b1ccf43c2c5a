"""Texts of the table ``decisions`` of a fair tree, which `gridcore.fair_tree.decision_log` completes."""

from __future__ import annotations

from collections.abc import Mapping

from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import DecisionVerb

_STRETCH = ("a stretch of", "s/Mflop")
_ROUTER = "the router of level {level} on machine {decider} "
_ON = _ROUTER + "passed {tasks} tasks on to the one on machine {machine}: "
_ROOT = _ROUTER + "accepted {tasks} tasks for its {among} machines, as the root, "
#: Texts of the decisions of a fair tree (`Scheduler.decision_words`).
WORDS: DecisionTexts = {
    "requested": ("sent a request for {tasks} tasks to the router on machine {machine}", "", ""),
    "requested-again": (
        "sent a request for {tasks} lost tasks to the router on machine {machine}",
        "",
        "",
    ),
    "passed-on": (_ON + "too large a stretch for its {among} machines", *_STRETCH),
    "passed-on-idle": (_ON + "nothing known yet of the rest to compare its {among} machines with", *_STRETCH),
    "passed-on-full": (_ON + "no room on its {among} machines in any sample", *_STRETCH),
    "accepted": (
        _ROUTER + "accepted {tasks} tasks for its {among} machines and promised the stretch",
        *_STRETCH,
    ),
    "accepted-at-root": (_ROOT + "and promised the stretch", *_STRETCH),
    "accepted-full": (_ROOT + "without a promise: no room in any sample", *_STRETCH),
    "gave": (_ROUTER + "gave {tasks} tasks to its child on machine {machine}", "room for", "tasks"),
    "queued": ("queued {tasks} tasks", "a minimum stretch of all it has of", "s/Mflop"),
    "sent-on": ("passed {tasks} tasks on to machine {machine}, as it lacks their memory or disk", "", ""),
}
#: Verbs of these decisions (`Scheduler.decision_verbs`).
VERBS: Mapping[str, DecisionVerb] = {
    "passed-on": "gives",
    "passed-on-idle": "gives",
    "passed-on-full": "gives",
    "gave": "gives",
    "queued": "keeps",
    "sent-on": "gives",
}
