"""Records the decisions of a work queue and their grounds, for the table ``decisions``."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from gridcore.work_queue.dispatch import WorkQueue
from gridsim.model.fault_events import Events
from gridsim.results.decisions import Decisions, Words
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful

_UP = ("a time until it fails of", "s")
_TO = " to machine {machine} (of {among} free), for {limit:.4g} s"
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: Words = {
    "started": ("gave task {task}, one of {tasks} that had never run," + _TO, *_UP),
    "restarted": ("gave task {task}, the first of {tasks} that failed, again" + _TO, *_UP),
    "replicated": ("gave task {task}, one of {tasks} with as few instances, also" + _TO, *_UP),
    "waited": ("kept task {task} for machine 0, which is not free", "", ""),
}


class QueueNotes(Stateful):
    """Records in `log` each start of a task copy, with the true time until its machine fails, and each wait.

    first : int64[machines], ns, when each machine fails first.
    """

    STATE: ClassVar[tuple[str, ...]] = ("until", "changes")

    def __init__(self, log: Decisions, first: Integers) -> None:
        self.log = log
        self.until = first.copy()
        #: int64[3, k]: recoveries still to come: when (ns), of which machine, and when that fails next (ns)
        self.changes = np.zeros((3, 0), np.int64)

    def feed(self, block: Events) -> None:
        """Take the next block of changes; all changes of the block before have happened."""
        self._go_on(NEVER)
        back = block.up
        self.changes = np.stack((block.time[back], block.machine[back], block.until[back]))

    def _go_on(self, now: int) -> None:
        """Apply the recoveries up to and including `now` ns."""
        count = int(np.searchsorted(self.changes[0], now, side="right"))
        _, machine, until = self.changes[:, :count]
        self.until[machine] = until  # where a machine recovers several times, the last one counts
        self.changes = self.changes[:, count:]

    def decided(self, queue: WorkQueue, application: int, task: int, machine: int) -> None:
        """Record that `task` of an application is to start on `machine` now, or that it waits (-1)."""
        if machine < 0:
            note_decision(self.log, "waited", queue.now, application, task)
            return
        self._go_on(queue.now)
        running, begun, alike, free, until, lasts = queue.weigh(application, task, machine)
        action = "replicated" if running else "restarted" if begun else "started"
        note_decision(
            self.log,
            action,
            queue.now,
            application,
            task,
            machine,
            fails=int(self.until[machine]),
            tasks=alike,
            among=free,
            until=until,
            lasts=lasts,
        )


def note_decision(
    log: Decisions,
    action: str,
    now: int,
    application: int,
    task: int,
    machine: int = -1,
    *,
    fails: int = NEVER,
    tasks: int = 0,
    among: int = -1,
    until: int = NEVER,
    lasts: int = 0,
) -> None:
    """Note in `log` what the server does with a task.

    machine : where a copy starts, -1 if the task waits.  Of a start are also given:
    fails, until : when the machine fails, and when it is predicted to fail, ns.
    tasks : the number of tasks that could be next.  among : the number of free machines.
    lasts : how long the task takes there at full speed, with its checkpoints, ns.
    """
    grounds: dict[str, Any] = {}
    if machine >= 0:
        grounds = {
            "machine": machine,
            "tasks": tasks,
            "among": among,
            "saw": _seconds(until, now),
            "limit": _seconds(lasts, 0),
            "true": _seconds(fails, now),
            "age": 0.0,
        }
    log.note(action, time=now, application=application, task=task, decider=-1, **grounds)


def _seconds(until: int, now: int) -> float:
    return math.inf if until == NEVER else (until - now) / NS
