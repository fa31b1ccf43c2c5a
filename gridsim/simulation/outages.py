"""The outages of machines during a run, according to the faults of its scenario."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import Transport
from gridsim.model.fault_events import CLOCK_END, Events
from gridsim.model.faults import Faults
from gridsim.scheduling.contract import FAULT_PRIORITY, Policy
from gridsim.simulation.machines import RunMachines
from gridsim.support.arrays import Integers
from gridsim.support.state import check_names


class Outages:
    """Outages of machines during a run, with the numbers of failures and the down times.

    The object makes machines fail and recover.  It notifies the network, then the policy, when each change
    is due.  A policy may instead take the changes in blocks, from this object as its
    `gridsim.scheduling.contract.FailureFeed`.  The attributes are then updated only when the policy takes the
    next block, is saved in a checkpoint, or has ended.

    Attributes
    ----------
    up
        bool[machines], which machines are up now.
    all_failed_at
        Time in ns at which the run ended because the last machine had failed for good; None if a machine is
        up or will recover.
    first
        int64[machines], the time of each machine's first failure, ns; 0 if it is down from the beginning,
        NEVER if it never fails.
    changes
        The changes that happened last, in order, unless the policy takes them in blocks.
    """

    def __init__(
        self, faults: Faults | None, machines: RunMachines, engine: Engine, network: Transport
    ) -> None:
        count, self._machines = machines.count, machines
        self.up = np.ones(count, np.bool_)
        self._failures = np.zeros(count, np.int64)
        self.all_failed_at: int | None = None
        # Per machine: the sum over its outages of (time of recovery - time of failure), ns.  During an
        # outage, only the time of failure has been subtracted.
        self._down = np.zeros(count, np.int64)
        # A buffer of `_handle_changes`; between its calls all entries are False.
        self._is_recovered = np.zeros(count, np.bool_)
        self._engine, self._network, self._faults = engine, network, faults
        fault_events = machines.fault_events(faults)
        self.first, self._blocks = fault_events.first, fault_events.blocks
        self._block_count = 0
        # `_position` is the number of changes of the current block that have happened.
        self._block, self._position = Events.empty(), 0
        self.changes = self._block

    @property
    def failures(self) -> Integers:
        """The number of failures of each machine of the platform so far: int64[nodes]."""
        return self._machines.of_platform(self._failures)

    @property
    def now(self) -> int:
        """The engine's current time, ns."""
        return self._engine.now

    def begin(self, policy: Policy) -> None:
        """Start the faults for `policy`.

        Unless the policy takes changes in blocks, those at time 0 are applied, and the next one is scheduled.
        """
        self._policy = policy
        if policy.takes_blocks:
            # Without any pending event, the engine would run the policy beyond a time limit.
            self._engine.on("fault", self._ignore, priority=FAULT_PRIORITY, phase=TIMER)
            self._engine.at(CLOCK_END, "fault")
            return
        self._engine.on("fault", self._handle_changes, priority=FAULT_PRIORITY, phase=TIMER)
        if self._next_time() == 0:
            self._handle_changes([])
        else:
            self._schedule_next()

    def end(self, stopped: bool) -> None:
        """Complete the records at the end of the run.

        Parameters
        ----------
        stopped
            Whether the run was stopped; then changes at the current instant do not count.
        """
        self._apply_before(self.now if stopped else self.now + 1)
        if self._is_over():
            self.all_failed_at = self.now

    def down_time(self, until: int) -> Integers:
        """Return the time that each machine of the platform was down before `until`: int64[nodes], ns.

        Parameters
        ----------
        until
            A time, ns; at least `now`.
        """
        return self._machines.of_platform(self._down + np.where(self.up, 0, until))

    def availability(self) -> dict[str, Any] | None:
        """Return the availability of machines so far; None if the scenario has no faults.

        Returns
        -------
        dict
            ``at_start`` (number of machines up at time 0), ``never`` (number of machines that have never been
            up) and ``mean`` (mean share of the time that machines were up).
        """
        if self._faults is None:
            return None
        now = max(1, self.now)
        down = self.down_time(now)
        return {
            "at_start": int((self._machines.of_platform(self.first) > 0).sum()),
            "never": int((down >= now).sum()),
            "mean": float(1.0 - down.mean() / now),
        }

    # -- changes --------------------------------------------------------------------------------------

    def _next_time(self) -> int | None:
        """Return the time of the next change, ns, and fetch its block; None if there are no more changes."""
        while self._position == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._block, self._position = block, 0
            self._block_count += 1
        return int(self._block.time[self._position])

    def _apply(self, end: int) -> Events:
        """Apply the remaining changes of the current block before row `end`, and return them."""
        rows = self._block[self._position : end]
        self._position = end
        joins = (rows.time == 0) & (rows.until > 0)  # a machine that joins late has not failed
        np.add.at(self._failures, rows.machine[~rows.up & ~joins], 1)
        np.add.at(self._down, rows.machine, np.where(rows.up, rows.time, -rows.time))
        self.up[rows.machine] = rows.up  # the last change of a machine counts
        return rows

    def _is_over(self) -> bool:
        """Return whether all machines are down and none will recover."""
        return not self.up.any() and self._next_time() is None

    # -- change by change -----------------------------------------------------------------------------

    def _schedule_next(self) -> None:
        if (due := self._next_time()) is not None:
            self._engine.at(due, "fault")

    def _handle_changes(self, _: list[int]) -> None:
        rows = self.changes = self._apply(int(np.searchsorted(self._block.time, self.now, side="right")))
        failed, recovered = rows.machine[~rows.up], rows.machine[rows.up]
        # Marking machines in a buffer is faster than sorting: calls are many, with one or two machines each.
        self._is_recovered[recovered] = True
        is_transient = self._is_recovered[failed]
        self._is_recovered[failed] = False  # the machines of transient failures are in `is_transient`
        restored = recovered[self._is_recovered[recovered]]
        self._is_recovered[recovered] = False
        self._network.fail(failed[is_transient])
        self._network.fail(failed[~is_transient], down=True)
        self._network.restore(restored)
        self._policy.on_faults(failed, recovered)
        self._schedule_next()
        if self._is_over():
            self._engine.stop()

    # -- block by block -------------------------------------------------------------------------------

    @property
    def mean_up_time(self) -> float:
        """The approximate mean time that a machine is up between failures, s."""
        return math.inf if self._faults is None else self._faults.mean_up_time(self._machines.nodes)

    def take(self) -> Events | None:
        """Record all changes of the current block; return the next block, None if there is none."""
        self._apply(len(self._block))
        return None if self._next_time() is None else self._block

    def _ignore(self, _: list[int]) -> None:
        """Do nothing; this timer only marks the end of the clock, after which no machine changes."""

    def _apply_before(self, until: int) -> None:
        """Apply the changes of the current block before `until` ns, unless they are already applied."""
        if self._position < (end := int(np.searchsorted(self._block.time, until))):
            self._apply(end)

    # -- checkpoints ----------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the states, failures and down times of machines, and the position in the faults."""
        self._apply_before(self.now)
        return {
            "up": self.up,
            "failures": self._failures,
            "down": self._down,
            "taken": self._block_count,
            "at": self._position,
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned, with the same faults.

        Raises
        ------
        ValueError
            If the state does not fit the faults.
        """
        check_names(self, state, ("up", "failures", "down", "taken", "at"))
        # Arrays are written in place, because other objects refer to the first two.
        self.up[...], self._failures[...], self._down[...] = state["up"], state["failures"], state["down"]
        if state["taken"] < self._block_count:
            raise ValueError(f"state['taken'] must be at least {self._block_count}, got {state['taken']}")
        while self._block_count < state["taken"]:
            # A block is taken only when all changes of the previous block have happened.
            if len(self._block) and self._block.time[-1] > self.now:
                raise ValueError(
                    f"state['taken'] must be at most {self._block_count}, the number of blocks up to "
                    f"{self.now} ns, got {state['taken']}"
                )
            self._block = next(self._blocks)
            self._block_count += 1
        self._position = state["at"]
        if not 0 <= self._position <= len(self._block):
            raise ValueError(f"state['at'] must be in 0..{len(self._block)}, got {self._position}")
