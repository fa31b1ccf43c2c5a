"""The parts that all forms of DGS_ASAP share: durations, failures of machines, and the outcome of a run.

What happens when machines fail is beyond the paper.  A machine that fails loses its schedule and the jobs
that run on it.  Its neighbours, and the scheduling nodes of its jobs, detect the failure `detection` s later.
The scheduling nodes then release the other machines of such a job and search again.  The records of a
scheduling node survive; while it is down, the next machine that is up acts for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gridsim.engine.engine import TIMER
from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.model.applications import run_and_reserved_times
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.rigid_runs import allowed_start_slots
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful

#: Bytes of a message: an answer, which has a list of nodes, and any other.
ANSWER_BYTES, SMALL = 1024, 128


class Times:
    """The durations of a run, in whole nanoseconds or slots.

    Attributes
    ----------
    slot, latency
        ns that a slot lasts, and that a message travels.
    one_way
        ns that a message takes at most if it waits for no other; searches allow for it, and answers that
        leave too little time are dropped.
    length
        int64[jobs], slots that each job reserves.
    earliest, latest
        int64[jobs], the first and the last slot in which each job may start.
    outlived
        Whether there are jobs that run longer than what they reserve at first.
    stale
        Whether nodes may see schedules as they were, not as they are.
    """

    def __init__(self, parameters: Any, run: Run) -> None:
        network = run.network.network
        self.latency, self.slot = nanoseconds(network.latency), nanoseconds(parameters.slot)
        run_times, wanted = run_and_reserved_times(
            run.applications, float(run.speeds[0]), parameters.estimate
        )
        self.length: Integers = -(-wanted // self.slot)
        self.outlived = bool((run_times > self.length * self.slot).any())
        self.earliest, self.latest = allowed_start_slots(run.applications, wanted, self.slot)
        byte = nanoseconds(
            min(2.0 / network.bandwidth, MAX_TRANSFER_TIME)
        )  # the transport rejects slower ones
        self.one_way = self.latency + byte * ANSWER_BYTES + nanoseconds(network.jitter)
        self.stale = self.latency > 0 or parameters.policy == "poll"


def add_overlay(outcome: Outcome, overlay: Neighbourhood) -> None:
    """Add what the overlay has counted to the outcome of a run."""
    degrees = overlay.views.in_degree()
    outcome.tables["exchanges"] = overlay.table()
    outcome.machines["schedules_received"] = overlay.received
    outcome.facts |= {
        "in_degree_min": int(degrees.min()),
        "in_degree_mean": float(degrees.mean()),
        "in_degree_max": int(degrees.max()),
        "in_degree_spread": float(degrees.std()),
    }


class Absences(Stateful):
    """The last failures of machines, and what the overlay learns of them.

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
        """Set the timers of failures that have not been detected yet; see `Environment.resume`."""
        for node in np.flatnonzero(self.last >= 0).tolist():
            if self.last[node] + self.detection > self.engine.now:
                self.engine.at(int(self.last[node]) + self.detection, "absent", node)

    def since(self, now: int, nodes: Any) -> int:
        """Return how many of `nodes` have failed since the failure that is being detected."""
        return int((self.last[nodes] >= now - self.detection).sum())

    def detect(self, nodes: list[int]) -> None:
        """Mark machines as failed for their neighbours, now that the failure is detected.

        A machine that has recovered is not marked; nor is one that has failed again, which is detected later.
        """
        for node in nodes:
            if not self.run.up[node] and self.last[node] + self.detection == self.engine.now:
                self.overlay.away[node] = True
