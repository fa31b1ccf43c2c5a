"""What DGS_ASAP does when machines fail, which is beyond the paper.

A machine that fails loses its schedule and the jobs that run on it.  Its neighbours, and the scheduling nodes
of its jobs, detect the failure `detection` s later.  The scheduling nodes then release the other machines of
such a job and search again.  The records of a scheduling node survive; while it is down, the next machine
that is up acts for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gridsim.engine.engine import TIMER
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.contract import FAULT_PRIORITY, Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful


class Absences(Stateful):
    """When machines failed last, and what the overlay learns of that.

    Attributes
    ----------
    last
        int64[machines], ns when each machine failed last; -1 for never.
    """

    STATE: ClassVar[tuple[str, ...]] = ("last",)

    def __init__(self, run: Run, parameters: Any, overlay: Neighbourhood) -> None:
        self.run, self.engine, self.overlay = run, run.engine, overlay
        self.last = np.full(len(run.speeds), -1, np.int64)
        self.detection = nanoseconds(parameters.detection)
        self.engine.on("absent", self.detect, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Let machines leave the overlay, which their neighbours detect later, and join it."""
        now = self.engine.now
        self.last[failed] = now
        self.overlay.leave(failed)
        returned = recovered[self.run.up[recovered]]
        self.overlay.join(returned)
        for node in failed.tolist():
            self.engine.at(now + self.detection, "absent", node)

    def resume(self) -> None:
        """Set the timers of failures that are not detected yet; see `Environment.resume`."""
        for node in np.flatnonzero(self.last >= 0).tolist():
            if self.last[node] + self.detection > self.engine.now:
                self.engine.at(int(self.last[node]) + self.detection, "absent", node)

    def since(self, now: int, nodes: Any) -> int:
        """Return how many of `nodes` have failed since the failure that is detected now."""
        return int((self.last[nodes] >= now - self.detection).sum())

    def detect(self, nodes: list[int]) -> None:
        """Mark machines as failed for their neighbours, now that this is detected.

        A machine that has recovered is not marked; nor is one that has failed again, which is detected later.
        """
        for node in nodes:
            if not self.run.up[node] and self.last[node] + self.detection == self.engine.now:
                self.overlay.away[node] = True
