"""Records of the decisions of a wave scheduler and of their reasons, for the table ``decisions``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gridsim.model.fault_events import Events
from gridsim.model.time_zones import Zones
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.scheduling.contract import DecisionVerb, FailureFeed
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful

_OWNER_RETURNS, _OWNER_LEAVES = ("its owner back after", "s"), ("its owner gone after", "s")
_PLACED = {
    "started": "gave task {task}, the first of {tasks} waiting, to machine {machine}",
    "moved": "moved task {task}, the first of {tasks} waiting, to machine {machine}",
    "returned": "gave task {task}, the first of {tasks} waiting, back to machine {machine}",
}
_CHOICES = {
    "": " (of {among} free), for {limit:.4g} s",
    "-night": " (of {among} free at night), for {limit:.4g} s",
    "-day": " (of {among} free by day), for {limit:.4g} s",  # it is day at every free host
}
#: Texts of the decisions of wave schedulers.
WORDS: DecisionTexts = {
    **{
        action + sky: (text + choice, *_OWNER_RETURNS)
        for action, text in _PLACED.items()
        for sky, choice in _CHOICES.items()
    },
    "lost": ("took task {task} from machine {machine}, whose owner is back", *_OWNER_LEAVES),
    "waited": (
        "let task {task} wait for machine {machine}, whose owner is back, for {limit:.4g} s at most",
        *_OWNER_LEAVES,
    ),
    "gave-up": ("let task {task} wait for machine {machine} no longer", *_OWNER_LEAVES),
    "went-on": (
        "let task {task} go on at machine {machine}, whose owner is gone, for {limit:.4g} s",
        *_OWNER_RETURNS,
    ),
}
#: Verbs of these decisions (`Scheduler.decision_verbs`).  The number of tasks of a decision counts all
#: waiting tasks, of which the decision places one.
VERBS: Mapping[str, DecisionVerb] = {action + sky: "mentions" for action in _PLACED for sky in _CHOICES}


class HostDecisions(Stateful):
    """Recorder of decisions in `log`, with the true times until which hosts stay up or down.

    Parameters
    ----------
    feed
        Failures and recoveries of hosts; None if there are none.
    zones
        Time zones of the hosts; None if the scheduler does not prefer hosts at night.
    """

    STATE: ClassVar[tuple[str, ...]] = ("until", "block")

    def __init__(self, log: Decisions, hosts: int, feed: FailureFeed | None, zones: Zones | None) -> None:
        self.log, self.zones = log, zones
        #: Per host: the time of its next change, ns; NEVER if there is none.
        self.until = np.full(hosts, NEVER, np.int64) if feed is None else feed.first.copy()
        self.block = self.until[:0]  # per row of the current block: the next change of its host, ns

    def set_block(self, block: Events) -> None:
        """Set the current block of changes; all changes of the previous block must have been applied."""
        self.block = block.until

    def apply_change(self, host: int, row: int) -> None:
        """Set the time of the next change of `host` from a row of the current block."""
        self.until[host] = self.block[row]

    def record(
        self, action: str, now: int, application: int, task: int, host: int, end: int, **columns: int
    ) -> None:
        """Record a decision about a task and a host.

        Parameters
        ----------
        end
            Time until which the task is to run or to wait at the host, ns; NEVER for neither.
        """
        saw, until = math.nan, int(self.until[host])
        if self.zones is not None and action in _PLACED:
            night = int(self.zones.night_left(host, now))
            action, saw = (f"{action}-night", night / NS) if night else (f"{action}-day", math.nan)
        self.log.record(
            action,
            time=now,
            application=application,
            task=task,
            decider=-1,
            machine=host,
            saw=saw,
            limit=math.nan if end == NEVER else (end - now) / NS,
            true=math.inf if until == NEVER else (until - now) / NS,
            age=0.0,
            **columns,
        )
