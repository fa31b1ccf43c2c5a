"""What the forms of DGS_ASAP share, and what the node program is given besides its view."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from gridcore.dgs.slots import SlotSchedules
from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.model.applications import run_and_reserved_times
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.rigid.times import allowed_start_slots
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.program import View
from gridsim.scheduling.rigid_runs import Runs
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import nanoseconds

#: `gridsim.schedulers.dgs.node.Job`, which imports this module.
Job = Any


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
    lasts, length
        int64[jobs], ns that each job runs, and slots that it reserves.
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
        self.lasts, wanted = run_and_reserved_times(
            run.applications, float(run.speeds[0]), parameters.estimate
        )
        self.length: Integers = -(-wanted // self.slot)
        self.outlived = bool((self.lasts > self.length * self.slot).any())
        self.earliest, self.latest = allowed_start_slots(run.applications, wanted, self.slot)
        byte = nanoseconds(
            min(2.0 / network.bandwidth, MAX_TRANSFER_TIME)
        )  # the transport rejects slower ones
        self.one_way = self.latency + byte * ANSWER_BYTES + nanoseconds(network.jitter)
        self.stale = self.latency > 0 or parameters.policy == "poll"


def outcome(
    runs: Runs, overlay: Neighbourhood, too_large: int, too_late: int | None, **columns: Integers
) -> Outcome:
    """Return the outcome of a run; `columns` are those of the applications that `Runs` does not have.

    Parameters
    ----------
    too_large, too_late
        Jobs rejected since too few machines were reached, and since no start would have met the deadline;
        None without deadlines.
    """
    degrees = overlay.views.in_degree()
    exchanges = overlay.table()
    found = runs.outcome(**columns)
    found.machines["schedules_received"] = overlay.received
    found.tables["exchanges"] = exchanges
    found.facts = {
        **found.facts,
        "too_large": too_large,
        **({} if too_late is None else {"too_late": too_late}),
        "in_degree_min": int(degrees.min()),
        "in_degree_mean": float(degrees.mean()),
        "in_degree_max": int(degrees.max()),
        "in_degree_spread": float(degrees.std()),
    }
    return found


class Jobs(Protocol):
    """What a node program of rigid jobs is given besides its view.

    Attributes
    ----------
    records
        The jobs by number.
    faults
        Whether machines may fail.
    """

    records: list[Job]
    schedules: SlotSchedules
    times: Times
    faults: bool

    @property
    def now(self) -> int:
        """The time, also when no machine is up."""

    def home(self, job: Job) -> View | None:
        """Return the view of the node that acts for the scheduling node of `job`; None if no node is up.

        That is the scheduling node itself, or the next one that is up.
        """

    def wake(self, time: int, name: str, job: Job) -> None:
        """Call ``on_<name>(job)`` of the node that acts for the scheduling node at `time`."""

    def suited(self, group: int) -> Bools | None:
        """Return which nodes suit the jobs of a group, bool[nodes]; None if all do."""

    def place(self, job: Job) -> None:
        """Let the job run on its nodes from its start on, which they do without a further message."""

    def withdraw(self, job: Job) -> None:
        """Undo `place`: the job must start again."""

    def reject(self, job: Job, why: str = "") -> None:
        """Give the job up for good.

        Parameters
        ----------
        why
            "too_large" or "too_late", see `outcome`; empty if all its searches were in vain.
        """

    def displace(self, job: int, node: int, attempt: int) -> None:
        """Handle that `node` no longer has slots for this attempt to place a job, which cannot start there.

        The scheduling node of the job learns it from a message, or later if that is lost where machines fail.
        """

    def count(self, what: Literal["extended", "displaced"]) -> None:
        """Count a reservation that was extended, or a job that was displaced and is searched for anew."""

    def cancel(self, job: Job) -> None:
        """Give the job up, as its user wants; its machines, if it has any, have still to learn that."""

    def reach(self, job: int, nodes: int) -> None:
        """Record how many nodes a search for a job has reached."""
