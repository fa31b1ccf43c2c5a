"""Outages: who is up while a run goes on, as its faults have it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import Transport
from gridsim.model.fault_events import END, Course, Events
from gridsim.model.faults import Faults
from gridsim.scheduling.contract import FAULT_PRIORITY, Policy
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER
from gridsim.support.state import check_names


class Outages:
    """Lets machines fail and come back, and keeps books of it.

    It tells the network, then the policy, when each change is due; or it is the
    `gridsim.scheduling.contract.Feed` of a policy that takes blocks, and follows when that takes the next
    one, is kept in a checkpoint, or has ended.

    up : bool[machines], who is up now.
    failures : int64[machines], how often each has failed so far.
    over_at : ns, when the last machine had gone for good and the run was over; None if there is always one.
    first : int64[machines], ns, when each fails first; see `gridsim.model.fault_events.Course`.
    """

    def __init__(self, faults: Faults | None, machines: int, engine: Engine, network: Transport) -> None:
        self.up = np.ones(machines, np.bool_)
        self.failures = np.zeros(machines, np.int64)
        self.over_at: int | None = None
        # Summed over its outages, when each machine was back less when it failed; of who is down the end is
        # missing.
        self._down = np.zeros(machines, np.int64)
        self._engine, self._network, self._faults = engine, network, faults
        never = Course(np.full(machines, NEVER, np.int64), iter(()))
        course = never if faults is None else faults.course(machines)
        self.first, self._blocks = course.first, course.blocks
        self._taken = 0  # blocks
        # the block in hand, and how many of its changes have happened
        self._block, self._at = Events.none(), 0

    @property
    def now(self) -> int:
        """The engine's time, ns."""
        return self._engine.now

    def begin(self, policy: Policy) -> None:
        """What is down from the beginning is down; the rest follows when it is due, or taken."""
        self._policy = policy
        if policy.takes_blocks:
            # Without anything pending the engine would let the policy run ahead of a time limit.
            self._engine.on("fault", self._pass, priority=FAULT_PRIORITY, phase=TIMER)
            self._engine.at(END, "fault")
            return
        self._engine.on("fault", self._fire, priority=FAULT_PRIORITY, phase=TIMER)
        if self._next() == 0:
            self._fire([])
        else:
            self._wait()

    def end(self, stopped: bool) -> None:
        """The run has ended; if it was stopped, then before what changes at that instant."""
        self._settle(self.now if stopped else self.now + 1)
        if self._over():
            self.over_at = self.now

    def down_time(self, until: int) -> Integers:
        """int64[machines]: ns that each machine was down before `until`, which is not before now."""
        result: Integers = self._down + np.where(self.up, 0, until)
        return result

    # -- what happens ---------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """When the next change is due, ns; None if there are no more."""
        while self._at == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._block, self._at = block, 0
            self._taken += 1
        return int(self._block.time[self._at])

    def _happen(self, end: int) -> Events:
        """The changes of the block before row `end` have happened; those that had not before."""
        rows = self._block[self._at : end]
        self._at = end
        joins = (rows.time == 0) & (rows.until > 0)  # who joins late has not failed
        np.add.at(self.failures, rows.machine[~rows.up & ~joins], 1)
        np.add.at(self._down, rows.machine, np.where(rows.up, rows.time, -rows.time))
        self.up[rows.machine] = rows.up  # the last assignment holds
        return rows

    def _over(self) -> bool:
        """Whether everybody has gone for good."""
        return not self.up.any() and self._next() is None

    # -- change by change -----------------------------------------------------------------------------

    def _wait(self) -> None:
        if (due := self._next()) is not None:
            self._engine.at(due, "fault")

    def _fire(self, _: list[int]) -> None:
        rows = self._happen(int(np.searchsorted(self._block.time, self.now, side="right")))
        failed, back = rows.machine[~rows.up], rows.machine[rows.up]
        reset = np.intersect1d(failed, back, assume_unique=True)
        self._network.fail(reset)
        self._network.fail(np.setdiff1d(failed, reset, assume_unique=True), down=True)
        self._network.restore(np.setdiff1d(back, reset, assume_unique=True))
        self._policy.on_faults(failed, back)
        self._wait()
        if self._over():
            self._engine.stop()

    # -- block by block -------------------------------------------------------------------------------

    @property
    def mean_up_time(self) -> float:
        """About how long a machine is up, s; see `Faults.mean_up_time`."""
        return math.inf if self._faults is None else self._faults.mean_up_time(len(self.up))

    def take(self) -> Events | None:
        """See `gridsim.scheduling.contract.Feed`."""
        self._happen(len(self._block))
        return None if self._next() is None else self._block

    def _pass(self, _: list[int]) -> None:
        """From here on everybody stays as he is."""

    def _settle(self, until: int) -> None:
        """What changes before `until` ns has happened; that is news only where a policy takes blocks."""
        self._happen(max(self._at, int(np.searchsorted(self._block.time, until))))

    # -- checkpoints ----------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Who is up, who was down for how long, and how far the faults have come."""
        self._settle(self.now)
        return {
            "up": self.up,
            "failures": self.failures,
            "down": self._down,
            "taken": self._taken,
            "at": self._at,
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """Go on from what `getstate` gave, with the same faults."""
        check_names(self, state, ("up", "failures", "down", "taken", "at"))
        # others look at the first two
        self.up[...], self.failures[...], self._down[...] = state["up"], state["failures"], state["down"]
        if state["taken"] < self._taken:
            raise ValueError(f"state['taken'] must be at least {self._taken}, got {state['taken']}")
        while self._taken < state["taken"]:
            # nobody has taken a block before all of the one before had happened
            if len(self._block) and self._block.time[-1] > self.now:
                raise ValueError(f"state['taken'] must not lead beyond {self.now} ns, got {state['taken']}")
            self._block = next(self._blocks)
            self._taken += 1
        self._at = state["at"]
        if not 0 <= self._at <= len(self._block):
            raise ValueError(f"state['at'] must be in 0..{len(self._block)}, got {self._at}")
