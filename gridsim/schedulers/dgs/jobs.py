"""The parts that all forms of DGS_ASAP share: durations, failures of machines, and the outcome of a run.

The behaviour in failures is an addition to the paper.  A machine that fails loses its schedule and the jobs
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

#: Sizes of messages, bytes: of an answer, which has a list of nodes, and of any other message.
ANSWER_BYTES, SMALL = 1024, 128


class Times:
    """The durations of a run, in whole nanoseconds or slots.

    Attributes
    ----------
    slot, latency
        Duration of a slot, and latency of a message, ns.
    one_way
        Maximum time of a message that waits for no other message, ns; searches allow for it, and answers that
        leave too little time are dropped.
    length
        int64[jobs], number of slots that each job reserves.
    earliest, latest
        int64[jobs], the first and the last slot in which each job may start.
    has_overruns
        Whether some jobs run longer than their initial reservations.
    stale
        Whether nodes may see outdated schedules.
    """

    def __init__(self, parameters: Any, run: Run) -> None:
        network = run.network.network
        self.latency, self.slot = nanoseconds(network.latency), nanoseconds(parameters.slot)
        run_times, reserved_times = run_and_reserved_times(
            run.applications, float(run.speeds[0]), parameters.estimate
        )
        self.length: Integers = -(-reserved_times // self.slot)
        self.has_overruns = bool((run_times > self.length * self.slot).any())
        self.earliest, self.latest = allowed_start_slots(run.applications, reserved_times, self.slot)
        byte = nanoseconds(
            min(2.0 / network.bandwidth, MAX_TRANSFER_TIME)
        )  # the transport rejects larger latencies
        self.one_way = self.latency + byte * ANSWER_BYTES + nanoseconds(network.jitter)
        self.stale = self.latency > 0 or parameters.policy == "poll"


def add_overlay(outcome: Outcome, overlay: Neighbourhood) -> None:
    """Add the counts of the overlay to the outcome of a run."""
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
    """The last failures of machines, and their detection by the overlay.

    Attributes
    ----------
    last
        int64[machines], time of the last failure of each machine, ns; -1 for none.
    """

    STATE: ClassVar[tuple[str, ...]] = ("last",)

    def __init__(self, run: Run, parameters: Any, overlay: Neighbourhood) -> None:
        self.run, self.engine, self.overlay = run, run.engine, overlay
        self.last = np.full(len(run.speeds), -1, np.int64)
        self.detection = nanoseconds(parameters.detection)
        self.engine.on("absent", self.detect, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Remove failed machines from the overlay, to be detected later, and add recovered machines."""
        now = self.engine.now
        self.last[failed] = now
        self.overlay.leave(failed)
        returned = recovered[self.run.up[recovered]]
        self.overlay.join(returned)
        for node in failed.tolist():
            self.engine.at(now + self.detection, "absent", node)

    def resume(self) -> None:
        """Set the timers of failures that have not been detected yet."""
        for node in np.flatnonzero(self.last >= 0).tolist():
            if self.last[node] + self.detection > self.engine.now:
                self.engine.at(int(self.last[node]) + self.detection, "absent", node)

    def since(self, now: int, nodes: Any) -> int:
        """Return the number of `nodes` that have failed since the failure that is being detected."""
        return int((self.last[nodes] >= now - self.detection).sum())

    def detect(self, nodes: list[int]) -> None:
        """Mark machines whose failure is detected now as failed for their neighbours.

        Machines that have recovered are not marked, nor those that have failed again and are detected later.
        """
        for node in nodes:
            if not self.run.up[node] and self.last[node] + self.detection == self.engine.now:
                self.overlay.away[node] = True
