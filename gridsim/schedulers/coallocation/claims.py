"""Claims on machines for a rigid job, which starts if all claimed machines agree.

A claim names the start of the job, far enough ahead for claims, replies and a cancellation to arrive before
it.  A machine refuses a claim if it is busy or if the claim arrives after the start.  If a machine refuses,
or a reply arrives after the start, the claimant cancels the other claims.  A machine has no queue and no
schedule: it is free or claimed by one job.
"""

from __future__ import annotations

from typing import Any

from gridcore.dgs.negotiations import COMMITTING, WAITING
from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.scheduling.nodes.rigid_jobs import JobRecord
from gridsim.support.clock import NS

#: Bytes of a message without lists.
SMALL = 128

#: Message kinds of claims, in the order in which messages of one instant are handled.
MESSAGES = {
    "cancel": Message(SMALL, application=int, attempt=int),
    "claim": Message(SMALL, application=int, attempt=int, start=int),
    "reply": Message(SMALL, application=int, attempt=int, taken=int),
}
#: Maximum number of times that the lead time of a job's claims is doubled.
_MAX_DOUBLINGS = 20


class ClaimRecord(JobRecord):
    """The record of a job that claims machines.

    Attributes
    ----------
    claimed_nodes
        Machines that have agreed.
    missing
        Number of replies that have not arrived.
    late
        Number of attempts that failed because a message arrived too late.
    conflicts
        Number of failed attempts.
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        super().__init__(number, submitter, tasks, length)
        self.claimed_nodes = list[int]()
        self.missing = self.late = self.conflicts = 0


class ClaimingNode(NodeProgram):
    """A node that claims machines for jobs, and whose machine other nodes may claim for their jobs."""

    # -- the claimant ---------------------------------------------------------------------------------------

    def claim(self, view: View, job: Any, nodes: list[int]) -> None:
        """Claim `nodes` for a job, one for each of its tasks."""
        job.attempt += 1
        job.phase, job.nodes, job.claimed_nodes, job.has_lost_node = COMMITTING, nodes, [], False
        job.missing = len(nodes)
        lead = 3 * (view.jobs.latency + (len(nodes) + 1) * view.jobs.transfer_time(SMALL))
        job.start = view.now_ns + (lead << min(job.late, _MAX_DOUBLINGS))
        for node in nodes:
            view.send(node, "claim", application=job.number, attempt=job.attempt, start=job.start)

    def on_reply(self, view: View, message: Any) -> None:
        """Start the job if all machines agree before its start; otherwise cancel their claims."""
        job = view.jobs[message.application]
        if message.attempt != job.attempt or job.phase != COMMITTING:
            if message.taken:  # the reply belongs to an attempt that was aborted
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
        """Abort an attempt: cancel the claims of the job at `nodes`."""
        for node in nodes:
            view.send(node, "cancel", application=job.number, attempt=job.attempt)
        job.attempt += 1  # outstanding replies belong to the aborted attempt
        job.phase = WAITING
        self.try_again(view, job)

    def try_again(self, view: View, job: Any) -> None:
        """Continue after a failed attempt; ``job.claimed_nodes`` are the machines that had agreed."""
        self.claim(view, job, job.nodes)  # a message arrived too late: give the next claims more time

    # -- the machine ----------------------------------------------------------------------------------------

    def on_claim(self, view: View, message: Any) -> None:
        """Agree to a job, or refuse it."""
        job, attempt = message.application, message.attempt
        taken = message.start >= view.now_ns and view.jobs.claim(job, attempt)
        view.send(message.sender, "reply", application=job, attempt=attempt, taken=int(taken))

    def on_cancel(self, view: View, message: Any) -> None:
        """Stop a job that has been cancelled."""
        view.jobs.release(message.application, message.attempt)
