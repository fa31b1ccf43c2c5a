"""Outages: which machines are up during a run, according to the faults of its scenario."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import Transport
from gridsim.model.fault_events import END, Events, FaultEvents
from gridsim.model.faults import Faults
from gridsim.scheduling.contract import FAULT_PRIORITY, Policy
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER
from gridsim.support.state import check_names


class Outages:
    """Makes machines fail and recover, and records their failures and down times.

    It notifies the network, then the policy, when each change is due.  For a policy that takes blocks it is
    the `gridsim.scheduling.contract.FailureFeed`; then its records are updated only when the policy takes
    the next block, is saved in a checkpoint, or has ended.

    Attributes
    ----------
    up
        bool[machines], which machines are up now.
    failures
        int64[machines], how often each machine has failed so far.
    over_at
        ns at which the run was over because the last machine had failed for good; None if that never
        happened.
    first
        int64[machines], ns at which each machine fails first; see `gridsim.model.fault_events.FaultEvents`.
    """

    def __init__(self, faults: Faults | None, machines: int, engine: Engine, network: Transport) -> None:
        self.up = np.ones(machines, np.bool_)
        self.failures = np.zeros(machines, np.int64)
        self.over_at: int | None = None
        # For each machine the sum over its outages of (time of recovery - time of failure), ns; of the outage
        # of a machine that is down the recovery is not yet added.
        self._down = np.zeros(machines, np.int64)
        self._back = np.zeros(machines, np.bool_)  # used within `_fire` only
        self._engine, self._network, self._faults = engine, network, faults
        never = FaultEvents(np.full(machines, NEVER, np.int64), iter(()))
        course = never if faults is None else faults.course(machines)
        self.first, self._blocks = course.first, course.blocks
        self._taken = 0  # number of blocks taken so far
        # the current block, and how many of its changes have happened
        self._block, self._at = Events.empty(), 0

    @property
    def now(self) -> int:
        """The engine's current time, ns."""
        return self._engine.now

    def begin(self, policy: Policy) -> None:
        """Start the faults for `policy`.

        Unless the policy takes blocks, the changes at time 0 happen now, and the next one is scheduled.
        """
        self._policy = policy
        if policy.takes_blocks:
            # If nothing were pending, the engine would let the policy run beyond a time limit.
            self._engine.on("fault", self._pass, priority=FAULT_PRIORITY, phase=TIMER)
            self._engine.at(END, "fault")
            return
        self._engine.on("fault", self._fire, priority=FAULT_PRIORITY, phase=TIMER)
        if self._next() == 0:
            self._fire([])
        else:
            self._wait()

    def end(self, stopped: bool) -> None:
        """Complete the records at the end of the run.

        Parameters
        ----------
        stopped
            Whether the run was stopped; then changes at this very instant do not count.
        """
        self._settle(self.now if stopped else self.now + 1)
        if self._over():
            self.over_at = self.now

    def down_time(self, until: int) -> Integers:
        """Return int64[machines], ns that each machine was down before `until`, which is not before now."""
        result: Integers = self._down + np.where(self.up, 0, until)
        return result

    def about(self) -> dict[str, Any] | None:
        """Return how many machines were up at time 0, how many never, and their mean availability so far.

        None without faults.
        """
        if self._faults is None:
            return None
        now = max(1, self.now)
        down = self.down_time(now)
        return {
            "at_start": int((self.first > 0).sum()),
            "never": int((down >= now).sum()),
            "mean": float(1.0 - down.mean() / now),
        }

    # -- what happens ---------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """Return the time of the next change, ns, or None if there are no more; fetch blocks as needed."""
        while self._at == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._block, self._at = block, 0
            self._taken += 1
        return int(self._block.time[self._at])

    def _happen(self, end: int) -> Events:
        """Apply the changes of the current block up to row `end`; return those that are new."""
        rows = self._block[self._at : end]
        self._at = end
        joins = (rows.time == 0) & (rows.until > 0)  # a machine that joins late has not failed
        np.add.at(self.failures, rows.machine[~rows.up & ~joins], 1)
        np.add.at(self._down, rows.machine, np.where(rows.up, rows.time, -rows.time))
        self.up[rows.machine] = rows.up  # of several assignments to one machine the last one counts
        return rows

    def _over(self) -> bool:
        """Whether all machines are down and none will recover."""
        return not self.up.any() and self._next() is None

    # -- change by change -----------------------------------------------------------------------------

    def _wait(self) -> None:
        if (due := self._next()) is not None:
            self._engine.at(due, "fault")

    def _fire(self, _: list[int]) -> None:
        rows = self._happen(int(np.searchsorted(self._block.time, self.now, side="right")))
        failed, back = rows.machine[~rows.up], rows.machine[rows.up]
        # by marks, and not by sorting: there are thousands of changes, of one or two machines each
        self._back[back] = True
        reset = self._back[failed]
        self._back[failed] = False  # what is left of `back`
        returned = back[self._back[back]]
        self._back[back] = False
        self._network.fail(failed[reset])
        self._network.fail(failed[~reset], down=True)
        self._network.restore(returned)
        self._policy.on_faults(failed, back)
        self._wait()
        if self._over():
            self._engine.stop()

    # -- block by block -------------------------------------------------------------------------------

    @property
    def mean_up_time(self) -> float:
        """About how long a machine is up between failures, s; see `Faults.mean_up_time`."""
        return math.inf if self._faults is None else self._faults.mean_up_time(len(self.up))

    def take(self) -> Events | None:
        """See `gridsim.scheduling.contract.FailureFeed`."""
        self._happen(len(self._block))
        return None if self._next() is None else self._block

    def _pass(self, _: list[int]) -> None:
        """Do nothing: this timer only marks the end of the clock, after which no machine changes."""

    def _settle(self, until: int) -> None:
        """Apply all changes before `until` ns; there can be new ones only where a policy takes blocks."""
        if self._at < (end := int(np.searchsorted(self._block.time, until))):
            self._happen(end)

    # -- checkpoints ----------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return which machines are up, their failures and down times, and the position in the faults."""
        self._settle(self.now)
        return {
            "up": self.up,
            "failures": self.failures,
            "down": self._down,
            "taken": self._taken,
            "at": self._at,
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from what `getstate` returned, with the same faults.

        Raises ValueError for a state of something else, or one that does not fit these faults.
        """
        check_names(self, state, ("up", "failures", "down", "taken", "at"))
        # written in place: other objects hold references to the first two
        self.up[...], self.failures[...], self._down[...] = state["up"], state["failures"], state["down"]
        if state["taken"] < self._taken:
            raise ValueError(f"state['taken'] must be at least {self._taken}, got {state['taken']}")
        while self._taken < state["taken"]:
            # a block is taken only when all changes of the block before it have happened
            if len(self._block) and self._block.time[-1] > self.now:
                raise ValueError(f"state['taken'] must not lead beyond {self.now} ns, got {state['taken']}")
            self._block = next(self._blocks)
            self._taken += 1
        self._at = state["at"]
        if not 0 <= self._at <= len(self._block):
            raise ValueError(f"state['at'] must be in 0..{len(self._block)}, got {self._at}")
