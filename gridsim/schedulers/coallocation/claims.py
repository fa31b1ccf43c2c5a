"""How a node gets machines for a rigid job: it claims them, and the job starts once all have agreed.

A claim names the instant of the start, far enough ahead for the claims, the replies and a cancellation to
arrive before it.  A machine that is busy, or gets the claim later than that, refuses.  If one refuses, or a
reply comes after the start, the claimant cancels the others.  A machine has no queue and no schedule: it is
claimed by one job, or free.
"""

from __future__ import annotations

from typing import Any

from gridcore.dgs.negotiations import COMMITTING, WAITING
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.scheduling.nodes.rigid_jobs import JobRecord
from gridsim.support.clock import NS

#: Bytes of a message without lists.
SMALL = 128

#: The kinds of messages of claims, in the order in which those of one instant are handled.
MESSAGES = {
    "cancel": Message(SMALL, application=int, attempt=int),
    "claim": Message(SMALL, application=int, attempt=int, start=int),
    "reply": Message(SMALL, application=int, attempt=int, taken=int),
}
#: Largest number of times that the time given to late claims of a job is doubled.
_MOST_DOUBLINGS = 20


class ClaimRecord(JobRecord):
    """The record of a job that claims machines.

    Attributes
    ----------
    claimed_nodes
        Machines that have agreed.
    missing
        Replies that have not come.
    late
        Attempts that failed because a message came too late.
    conflicts
        All attempts that failed.
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        super().__init__(number, submitter, tasks, length)
        self.claimed_nodes = list[int]()
        self.missing = self.late = self.conflicts = 0


class ClaimingNode(NodeProgram):
    """A node that claims machines for jobs, and whose machine other nodes may claim for their jobs."""

    # -- the claimant ---------------------------------------------------------------------------------------

    def claim(self, view: View, job: Any, nodes: list[int]) -> None:
        """Claim machines for a job, as many as it wants.

        Claims, replies and cancellations leave or arrive one after another, while nothing else does.
        """
        job.attempt += 1
        job.phase, job.nodes, job.claimed_nodes, job.has_lost_node = COMMITTING, nodes, [], False
        job.missing = len(nodes)
        lead = 3 * (view.jobs.latency + (len(nodes) + 1) * view.jobs.transfer_time(SMALL))
        job.start = view.now_ns + (lead << min(job.late, _MOST_DOUBLINGS))
        for node in nodes:
            view.send(node, "claim", application=job.number, attempt=job.attempt, start=job.start)

    def on_reply(self, view: View, message: Any) -> None:
        """Start the job if all machines have agreed in time; otherwise cancel those that have."""
        job = view.jobs[message.application]
        if message.attempt != job.attempt or job.phase != COMMITTING:
            if message.taken:  # in an attempt that was aborted
                view.send(message.sender, "cancel", application=job.number, attempt=message.attempt)
            return
        if message.taken:
            job.claimed_nodes.append(message.sender)
        job.missing -= 1
        if job.missing:
            return
        is_late = view.now_ns > job.start
        if is_late or len(job.claimed_nodes) < len(job.nodes):
            job.late += is_late
            job.conflicts += 1
            self.abort(view, job, list(job.claimed_nodes))
            return
        view.decide("placed", job.number, tasks=job.tasks, saw=job.start / NS)
        view.jobs.start(job, job.start)

    def abort(self, view: View, job: Any, nodes: list[int]) -> None:
        """Cancel a job at `nodes`, and go on without this attempt."""
        for node in nodes:
            view.send(node, "cancel", application=job.number, attempt=job.attempt)
        job.attempt += 1  # replies that are still to come belong to the old attempt
        job.phase = WAITING
        self.try_again(view, job)

    def try_again(self, view: View, job: Any) -> None:
        """Go on after a failed attempt; ``job.claimed_nodes`` are the machines that had agreed."""
        self.claim(view, job, job.nodes)  # a message came too late, and the next ones get more time

    # -- the machine ----------------------------------------------------------------------------------------

    def on_claim(self, view: View, message: Any) -> None:
        """Agree to a job, or refuse it."""
        job, attempt = message.application, message.attempt
        taken = message.start >= view.now_ns and view.jobs.claim(job, attempt)
        view.send(message.sender, "reply", application=job, attempt=attempt, taken=int(taken))

    def on_cancel(self, view: View, message: Any) -> None:
        """Stop a job that has been cancelled."""
        view.jobs.release(message.application, message.attempt)
