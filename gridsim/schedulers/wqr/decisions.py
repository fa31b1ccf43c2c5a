"""Records of the decisions of a work queue and of their reasons, for the table ``decisions``."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from gridcore.work_queue.dispatch import WorkQueue
from gridsim.model.fault_events import Events
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful

_UP = ("a time until it fails of", "s")
_TO = " to machine {machine} (of {among} free), for {limit:.4g} s"
#: Texts of the decisions (`Scheduler.decision_words`).
WORDS: DecisionTexts = {
    "started": ("gave task {task}, one of {tasks} that had never run," + _TO, *_UP),
    "restarted": ("gave task {task}, the first of {tasks} that failed, again" + _TO, *_UP),
    "replicated": ("gave task {task}, one of {tasks} with as few copies, also" + _TO, *_UP),
    "waited": ("kept task {task} for machine 0, which is not free", "", ""),
}


class QueueNotes(Stateful):
    """Recorder in `log` of starts of task copies, with the true times until failures, and of waits.

    Parameters
    ----------
    first
        int64[machines], time of the first failure of each machine, ns.
    """

    STATE: ClassVar[tuple[str, ...]] = ("until", "changes")

    def __init__(self, log: Decisions, first: Integers) -> None:
        self.log = log
        self.until = first.copy()
        #: int64[3, k], the next recoveries: time (ns), machine, and time of its next failure (ns)
        self.changes = np.zeros((3, 0), np.int64)

    def feed(self, block: Events) -> None:
        """Set the next block of changes, after all changes of the previous block have been applied."""
        self._apply_recoveries(NEVER)
        back = block.up
        self.changes = np.stack((block.time[back], block.machine[back], block.until[back]))

    def _apply_recoveries(self, now: int) -> None:
        """Apply the recoveries up to and including `now` ns."""
        count = int(np.searchsorted(self.changes[0], now, side="right"))
        _, machine, until = self.changes[:, :count]
        self.until[machine] = until  # if a machine recovers several times, the last recovery counts
        self.changes = self.changes[:, count:]

    def decided(self, queue: WorkQueue, application: int, task: int, machine: int) -> None:
        """Record the decision to start `task` of an application on `machine` now, or to let it wait (-1)."""
        now, action, grounds = queue.now, "waited", {}
        if machine >= 0:
            self._apply_recoveries(now)
            running, begun, alike, free, until, lasts = queue.weigh(application, task, machine)
            action = "replicated" if running else "restarted" if begun else "started"
            grounds = {
                "machine": machine,
                "tasks": alike,
                "among": free,
                "saw": seconds(until, now),
                "limit": seconds(lasts, 0),
                "true": seconds(int(self.until[machine]), now),
                "age": 0.0,
            }
        self.log.record(action, time=now, application=application, task=task, decider=-1, **grounds)


def seconds(until: int, now: int) -> float:
    """Return the time from `now` until `until` (ns), s."""
    return math.inf if until == NEVER else (until - now) / NS
