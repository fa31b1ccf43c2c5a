"""What the forms of DGS_ASAP share: how long things take, and the outcome of a run."""

from __future__ import annotations

from typing import Any

from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.model.applications import run_and_reserved_times
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.rigid_runs import allowed_start_slots
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds

#: Bytes of a message: an answer, which has a list of nodes, and any other.
ANSWER_BYTES, SMALL = 1024, 128


class Times:
    """How long things take in a run, in whole nanoseconds or slots.

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
