"""Outages: who is up while a run goes on, as its faults have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.courses import Events
from gridsim.engine import TIMER, Engine
from gridsim.faults import Faults
from gridsim.scheduler import FAULT_PRIORITY, Policy
from gridsim.states import check_names
from gridsim.transport import Transport

Integers = NDArray[np.int64]


class Outages:
    """Lets machines fail and come back: tells the network, then the policy.

    up : bool[machines], who is up now.
    failures : int64[machines], how often each has failed so far.
    over_at : ns, when the last machine has gone for good and the run is over; None if there is always one.
    """

    def __init__(self, faults: Faults | None, machines: int, engine: Engine, network: Transport) -> None:
        self.up = np.ones(machines, np.bool_)
        self.failures = np.zeros(machines, np.int64)
        self.over_at: int | None = None
        self._down_since = np.zeros(machines, np.int64)
        self._down = np.zeros(machines, np.int64)
        self._engine, self._network = engine, network
        self._blocks: Iterator[Events] = iter(()) if faults is None else faults.course(machines).blocks
        self._taken = 0  # blocks
        self._block, self._at = Events.none(), 0

    @property
    def now(self) -> int:
        """The engine's time, ns."""
        return self._engine.now

    def begin(self, policy: Policy) -> None:
        """What is down from the beginning is down; the rest follows when it is due."""
        self._policy = policy
        self._engine.on("fault", self._fire, priority=FAULT_PRIORITY, phase=TIMER)
        if self._next() == 0:
            self._fire([])
        else:
            self._wait()

    def _next(self) -> int | None:
        """When the next change is due, ns; None if there are no more."""
        while self._at == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._block, self._at = block, 0
            self._taken += 1
        return int(self._block.time[self._at])

    def _wait(self) -> None:
        if (due := self._next()) is not None:
            self._engine.at(due, "fault")

    def _fire(self, _: list[int]) -> None:
        now = self._engine.now
        failed: list[Integers] = []
        back: list[Integers] = []
        while self._next() == now:
            end = int(np.searchsorted(self._block.time, now, side="right"))
            machine, up = self._block.machine[self._at : end], self._block.up[self._at : end]
            failed.append(machine[~up])
            back.append(machine[up])
            self._at = end
        self._change(np.unique(np.concatenate(failed)), np.unique(np.concatenate(back)))
        self._wait()
        if not self.up.any() and self._next() is None:
            self.over_at = now
            self._engine.stop()

    def _change(self, failed: Integers, back: Integers) -> None:
        now = self._engine.now
        reset = np.intersect1d(failed, back, assume_unique=True)
        gone = np.setdiff1d(failed, reset, assume_unique=True)
        returned = np.setdiff1d(back, reset, assume_unique=True)
        self.failures[failed if now else reset] += 1  # who joins late has not failed
        self._down_since[gone] = now
        self._down[returned] += now - self._down_since[returned]
        self.up[gone], self.up[returned] = False, True
        self._network.fail(reset)
        self._network.fail(gone, down=True)
        self._network.restore(returned)
        self._policy.on_faults(failed, back)

    def getstate(self) -> dict[str, Any]:
        """Who is up, who was down for how long, and how far the faults have come."""
        return {
            "up": self.up,
            "failures": self.failures,
            "over_at": self.over_at,
            "down_since": self._down_since,
            "down": self._down,
            "taken": self._taken,
            "at": self._at,
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """Go on from what `getstate` gave, with the same faults."""
        check_names(self, state, ("up", "failures", "over_at", "down_since", "down", "taken", "at"))
        # others look at these two
        self.up[...], self.failures[...] = state["up"], state["failures"]
        self.over_at, self._down_since, self._down = state["over_at"], state["down_since"], state["down"]
        while self._taken < state["taken"]:
            if len(self._block) and self._block.time[0] > self.now:
                raise ValueError(f"state['taken'] must not lead beyond {self.now} ns, got {state['taken']}")
            self._block = next(self._blocks)
            self._taken += 1
        self._at = state["at"]
        if not 0 <= self._at <= len(self._block):
            raise ValueError(f"state['at'] must be in 0..{len(self._block)}, got {self._at}")

    def down_time(self, until: int) -> Integers:
        """int64[machines]: ns that each machine was down before `until`, which is not before now."""
        result: Integers = self._down + np.where(self.up, 0, until - self._down_since)
        return result
