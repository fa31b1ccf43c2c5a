"""How a node gets machines for a rigid job: it claims them, and the job starts once all have agreed.

A claim names the instant of the start, far enough ahead for the claims, the replies and a cancellation to
arrive before it.  A machine that is busy, or gets the claim later than that, refuses.  If one refuses, or a
reply comes after the start, the claimant cancels the others.  A machine has no queue and no schedule: it is
claimed by one job, or free.
"""

from __future__ import annotations

from typing import Any

from gridsim.scheduling.nodes.program import Message, NodeProgram, View
from gridsim.support.clock import NS

#: What becomes of a job.  Broken: it has lost a machine, and the node in charge does not know it yet.
WAITING, CLAIMING, PLACED, BROKEN, DONE, FAILED = range(6)
#: Bytes of a message without lists.
SMALL = 128

#: The kinds of messages of claims, in the order in which those of one instant are handled.
MESSAGES = {
    "cancel": Message(SMALL, application=int, attempt=int),
    "claim": Message(SMALL, application=int, attempt=int, start=int),
    "reply": Message(SMALL, application=int, attempt=int, taken=int),
}
#: Claims of a job may be late so many times before the time that they are given no longer doubles.
_MOST_DOUBLINGS = 20


class Job:
    """What is known of a job by the node that is in charge of it; no failure erases that.

    Parameters
    ----------
    number, submitter
        The job, and the node to which it was submitted.
    tasks
        Machines that it wants.
    lasts
        ns for which it is expected to run.

    Attributes
    ----------
    attempt
        The number of its newest attempt to claim machines.
    nodes, start
        Machines that are claimed or that run it, and from when on (ns).
    taken
        Machines that have agreed.
    missing
        Replies that have not come.
    due
        When the wait for them ends, ns.
    hit
        Whether one of the machines has failed, which the node in charge learns later.
    late
        Attempts that failed because a message came too late.
    conflicts
        All attempts that failed.
    """

    def __init__(self, number: int, submitter: int, tasks: int, lasts: int) -> None:
        self.number, self.submitter, self.tasks, self.lasts = number, submitter, tasks, lasts
        self.phase = WAITING
        self.attempt = self.late = self.conflicts = self.resubmitted = 0
        self.nodes, self.taken = list[int](), list[int]()
        self.start, self.missing, self.due = -1, 0, -1
        self.hit = False


class ClaimingNode(NodeProgram):
    """A node that claims machines for jobs, and that other nodes may claim for theirs.

    Attributes
    ----------
    job, attempt
        The job that has claimed it, in which of its attempts; -1 for none.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.job = self.attempt = -1

    @property
    def grid(self) -> Any:
        """What the nodes share, see `gridsim.schedulers.coallocation.grid.Grid`."""
        return self.parameters.grid

    # -- the claimant ---------------------------------------------------------------------------------------

    def claim(self, view: View, job: Any, nodes: list[int]) -> None:
        """Claim machines for a job, as many as it wants."""
        job.attempt += 1
        job.phase, job.nodes, job.taken, job.hit = CLAIMING, nodes, [], False
        job.missing = len(nodes)
        job.start = view.now_ns + (self.grid.lead(len(nodes)) << min(job.late, _MOST_DOUBLINGS))
        for node in nodes:
            view.send(node, "claim", application=job.number, attempt=job.attempt, start=job.start)
        self.grid.limit_wait(job)

    def on_reply(self, view: View, message: Any) -> None:
        """Start the job if all machines have agreed in time; otherwise cancel those that have."""
        job = self.grid.records[message.application]
        if message.attempt != job.attempt or job.phase != CLAIMING:
            if message.taken:  # in an attempt that was aborted
                view.send(message.sender, "cancel", application=job.number, attempt=message.attempt)
            return
        if message.taken:
            job.taken.append(message.sender)
        job.missing -= 1
        if job.missing:
            return
        late = view.now_ns > job.start
        if late or len(job.taken) < len(job.nodes):
            job.late += late
            job.conflicts += 1
            self.abort(view, job, list(job.taken))
            return
        view.decide("placed", job.number, tasks=job.tasks, saw=job.start / NS)
        self.grid.place(job)

    def abort(self, view: View, job: Any, nodes: list[int]) -> None:
        """Cancel a job at `nodes`, and go on without this attempt."""
        for node in nodes:
            view.send(node, "cancel", application=job.number, attempt=job.attempt)
        job.attempt += 1  # replies that are still to come belong to the old attempt
        job.phase = WAITING
        self.on_refused(view, job)

    def on_refused(self, view: View, job: Any) -> None:
        """Go on after an attempt that failed; ``job.taken`` are the machines that had agreed."""
        raise NotImplementedError

    # -- the machine ----------------------------------------------------------------------------------------

    def on_claim(self, view: View, message: Any) -> None:
        """Agree to a job, or refuse it."""
        taken = self.job < 0 and message.start >= view.now_ns
        if taken:
            self.job, self.attempt = message.application, message.attempt
        answer = {"attempt": message.attempt, "taken": int(taken)}
        view.send(message.sender, "reply", application=message.application, **answer)

    def on_cancel(self, view: View, message: Any) -> None:
        """Stop a job that is cancelled."""
        job, attempt = message.application, message.attempt
        self.grid.stop(job, view.node, attempt)
        if (self.job, self.attempt) == (job, attempt):
            self.job = self.attempt = -1

    def on_over(self, view: View) -> None:
        """Handle that the job here has ended."""
        self.job = self.attempt = -1

    # -- failures -------------------------------------------------------------------------------------------

    def on_missed(self, view: View, job: Any) -> None:
        """Handle that a machine of a job has failed, which is detected now."""
        if job.phase == BROKEN:
            self.grid.withdraw(job)
            job.resubmitted += len(job.nodes)
            view.decide("missed", job.number, tasks=job.tasks)
        elif not (job.phase == CLAIMING and job.hit):
            return
        job.taken = []
        self.abort(view, job, list(job.nodes))

    def on_overdue(self, view: View, job: Any) -> None:
        """Wait no longer for replies that failures have lost."""
        if job.phase == CLAIMING and job.due <= view.now_ns:
            job.conflicts += 1
            job.taken = []
            self.abort(view, job, list(job.nodes))
