"""DGS_ASAP with placed jobs that move to earlier starts; this is not in the paper.

A job keeps its reservation while its scheduling node searches for an earlier start and asks the machines of
the best answer to commit.  The reservation is released only once all of them have committed.
"""

from __future__ import annotations

import math
from typing import Any

from gridcore.dgs.negotiations import BROKEN, COMMITTING, DONE, PLACED, SEARCHING
from gridsim.schedulers.dgs.acap import AcapNode
from gridsim.schedulers.dgs.candidates import Candidates
from gridsim.schedulers.dgs.jobs import SMALL
from gridsim.schedulers.dgs.node import DgsNode, DgsRecord
from gridsim.scheduling.nodes.program import Message, View
from gridsim.support.clock import NS, nanoseconds

#: Kinds of messages in addition to those of `gridsim.schedulers.dgs.node.MESSAGES`.
MOVE_MESSAGES = {
    "earlier": Message(
        SMALL,
        application=int,
        search=int,
        submitter=int,
        tasks=int,
        length=int,
        group=int,
        earliest=int,
        latest=int,
        attempt=int,
    ),
    "move": Message(SMALL, application=int, attempt=int, start=int, length=int, previous=int, held=int),
    "moved": Message(SMALL, application=int, attempt=int, start=int, length=int, previous=int, held=int),
}

#: A placed job waits for this part of the time until its start before it searches again.
SEARCHES_PER_WAIT = 200


class MovingRecord(DgsRecord):
    """The record of a job that may move.

    Attributes
    ----------
    moving
        ``SEARCHING`` or ``COMMITTING`` while a placed job tries to move; else 0.
    next_attempt, next_start, next_nodes
        Number, start (slot) and machines of the newest attempt to move.
    has_lost_next
        Whether one of these machines has failed, which the scheduling node learns later.
    """

    def __init__(self, *columns: int) -> None:
        super().__init__(*columns)
        self.moving = self.next_attempt = 0
        self.next_start, self.next_nodes, self.has_lost_next = -1, list[int](), False

    def lose_next(self, attempt: int) -> bool:
        """Handle the failure of a machine that has committed to a move."""
        if self.moving != COMMITTING or attempt != self.next_attempt:
            return False
        is_new, self.has_lost_next = not self.has_lost_next, True
        return is_new


class MovingNode(DgsNode):
    """One node of DGS_ASAP with ``move="forward"``."""

    # -- the scheduling node --------------------------------------------------------------------------------

    def plan_search(self, view: View, job: Any) -> None:
        """End an attempt to move, and set a timer for the next attempt unless the job starts before."""
        job.moving = 0
        remaining = job.start * self.slot - view.now_ns
        due = view.now_ns + max(nanoseconds(self.parameters.move_period), remaining // SEARCHES_PER_WAIT)
        if job.phase in (PLACED, BROKEN) and due < job.start * self.slot:
            view.jobs.at(job, due, "move-due")

    def on_move_due(self, view: View, job: Any) -> None:
        """Search for an earlier start, or stop waiting for messages that failures have lost."""
        if job.moving == COMMITTING:
            self.stay(view, job)
        elif job.moving == SEARCHING:
            self.choose_move(view, job)
        elif job.phase in (PLACED, BROKEN) and view.now_ns < job.start * self.slot:
            self.search_move(view, job)

    def search_move(self, view: View, job: Any) -> None:
        """Ask a random neighbour, another at each call, to search for an earlier start of a placed job."""
        home = view.jobs.home(job)
        if home is None:
            return self.plan_search(view, job)
        job.searches += 1
        neighbours = home.environment.draw(job.number, job.searches, 1)
        job.answers, job.moving, job.missing = [], int(SEARCHING), len(neighbours)
        self.limit_move(view, job)
        terms = {"submitter": job.submitter, "tasks": job.tasks, "length": job.length, "group": job.group}
        terms |= {"earliest": job.earliest, "latest": min(job.latest, job.start - 1), "attempt": job.attempt}
        for neighbour in neighbours:
            home.send(neighbour, "earlier", application=job.number, search=job.searches, **terms)
        if not neighbours:
            self.choose_move(view, job)
        return None

    def limit_move(self, view: View, job: Any) -> None:
        """Limit the wait for answers or replies where machines fail, since they may be lost."""
        if view.jobs.can_fail:
            view.jobs.at(job, view.now_ns + nanoseconds(self.parameters.patience), "move-due")

    def on_answer(self, view: View, message: Any) -> None:
        """Receive the allocations that the neighbours have found for a job, placed or not."""
        job = view.jobs[message.application]
        if job.moving != SEARCHING or message.search != job.searches:
            return super().on_answer(view, message)
        if message.start >= 0:
            row = message.start, len(job.answers), message.sender, message.apart, message.nodes
            job.answers.append(row)
        job.missing -= 1
        if job.missing == 0:
            self.choose_move(view, job)
        return None

    def choose_move(self, view: View, job: Any) -> None:
        """Ask the machines of the best answer to commit to an earlier start, if there is one.

        Three messages must still arrive before that: the commit, the reply, and what is sent after it.
        """
        home, one_way = view.jobs.home(job), view.environment.times.one_way
        least = view.now_ns + 3 * one_way
        is_placed = job.phase in (PLACED, BROKEN)
        job.answers = sorted(row for row in job.answers if least <= row[0] * self.slot and row[0] < job.start)
        if home is None or not is_placed or not job.answers:
            return self.plan_search(view, job)
        self.prefer(view, job)
        job.next_start, *_, nodes = job.answers[0]
        job.next_nodes, job.answers = nodes.tolist(), []
        job.next_attempt = max(job.attempt, job.next_attempt) + 1
        job.moving, job.missing = int(COMMITTING), len(job.next_nodes)
        job.has_lost_next = False
        job.taken.clear()
        self.limit_move(view, job)
        terms = {"attempt": job.next_attempt, "start": job.next_start, "length": job.length}
        for node in job.next_nodes:
            home.send(node, "move", application=job.number, previous=job.attempt, held=job.start, **terms)
        return None

    def on_reply(self, view: View, message: Any) -> None:
        """Place or move the job if all nodes have committed to it."""
        job = view.jobs[message.application]
        if job.moving != COMMITTING or message.attempt != job.next_attempt:
            was_committing = job.phase == COMMITTING
            super().on_reply(view, message)
            if was_committing and job.phase in (PLACED, BROKEN):
                self.plan_search(view, job)
            return
        if message.taken:
            job.taken.append(message.sender)
        job.missing -= 1
        if job.missing:
            return
        # a release must still arrive before the present start
        last = min(job.next_start * self.slot, job.start * self.slot - view.environment.times.one_way)
        has_all = len(job.taken) == len(job.next_nodes) and job.phase in (PLACED, BROKEN)
        if has_all and view.now_ns <= last:
            self.move(view, job)
        else:
            self.stay(view, job)

    def move(self, view: View, job: Any) -> None:
        """Move a job to machines that have all committed, and release its other machines."""
        reservation = {"previous": job.attempt, "held": job.start}
        former, seconds = sorted(job.nodes), self.slot / NS
        view.environment.log.note(
            "moved",
            job.number,
            view.node,
            tasks=len(job.next_nodes),
            saw=job.next_start * seconds,
            limit=job.start * seconds,
            true=math.nan if job.has_lost_next else job.next_start * seconds,
        )
        job.attempt, job.start, job.nodes = job.next_attempt, job.next_start, job.next_nodes
        job.has_lost_node = job.has_lost_next
        view.jobs.count("moves")
        view.jobs.start(job, job.start * self.slot, (job.start + job.length) * self.slot)
        home, now = view.jobs.home(job), {"attempt": job.attempt, "start": job.start, "length": job.length}
        for node in former if home is not None else ():
            if node in job.nodes:
                home.send(node, "moved", application=job.number, **now, **reservation)
            else:
                undone = {"attempt": reservation["previous"], "start": reservation["held"]}
                home.send(node, "cancel", application=job.number, **undone)
        self.plan_search(view, job)

    def stay(self, view: View, job: Any) -> None:
        """Give up an attempt to move: the machines that have committed are released."""
        home = view.jobs.home(job)
        if job.moving == COMMITTING and home is not None:
            holders = job.next_nodes if job.missing and view.jobs.can_fail else job.taken
            for node in sorted(holders):
                undone = {"attempt": job.next_attempt, "start": job.next_start}
                home.send(node, "cancel", application=job.number, **undone)
        self.plan_search(view, job)

    # -- other events of a job that tries to move -----------------------------------------------------------

    def confirm(self, home: View, job: Any, nodes: list[int]) -> None:
        """Ask the nodes of an allocation to commit to the job, in an attempt with a new number."""
        job.attempt = max(job.attempt, job.next_attempt)
        super().confirm(home, job, nodes)

    def start_again(self, view: View, job: Any) -> None:
        """Release all nodes of a placed job, including the nodes of a move, and search again."""
        self.stay(view, job)
        super().start_again(view, job)

    def on_job_cancelled(self, view: View, job: Any) -> None:
        """Cancel a job, as its user wants: its nodes release the rest of its slots."""
        self.stay(view, job)
        super().on_job_cancelled(view, job)

    def on_job_displaced(self, view: View, job: Any, attempt: int) -> None:
        """Search again for a job that is displaced, or give up a move of which a machine is displaced."""
        if job.moving == COMMITTING and attempt == job.next_attempt:
            self.stay(view, job)
        else:
            super().on_job_displaced(view, job, attempt)

    def on_job_lost(self, view: View, job: Any) -> None:
        """Handle the detected failure of a node of the job, or of its move."""
        if job.moving == COMMITTING and job.has_lost_next and job.phase != BROKEN:
            self.stay(view, job)
        else:
            super().on_job_lost(view, job)

    # -- a neighbour that searches --------------------------------------------------------------------------

    def on_earlier(self, view: View, message: Any) -> None:
        """Search for an earlier start of a placed job, and answer after the time that the search takes."""
        self.answer_request(view, message)

    def candidates(self, view: View, request: Any, t: int, exclusions: set[int]) -> Candidates:
        """Return the candidates; slots that the job itself has reserved count as free."""
        if request.kind != "earlier":
            return super().candidates(view, request, t, exclusions)
        own_claim = request.application, request.attempt
        earlier: Candidates = view.environment.candidates(request, t, exclusions, own_claim=own_claim)
        return earlier

    # -- a host ---------------------------------------------------------------------------------------------

    def on_move(self, view: View, message: Any) -> None:
        """Commit to an earlier start of a job, or refuse.

        If this machine holds the job and its present slots overlap the new ones, only those before are
        reserved now, and the others once the job has moved.
        """
        job, start, length = message.application, message.start, message.length
        is_timely = start * self.slot >= view.now_ns
        commits = is_timely and view.slots.reserve(job, message.attempt, start, length)
        if is_timely and not commits and start < message.held < start + length:
            holds = view.slots.holds(job, message.previous, message.held)
            commits = holds and view.slots.reserve(job, message.attempt, start, message.held - start)
        if commits:
            view.environment.publish()
        else:
            view.environment.log.refuses("refused" if is_timely else "refused-late", view.node, message)
        answer = {"attempt": message.attempt, "start": start, "taken": int(commits)}
        view.send(message.sender, "reply", application=job, **answer)

    def on_moved(self, view: View, message: Any) -> None:
        """Release the former slots of a job that has moved, except slots that it still uses."""
        job = view.jobs[message.application]
        self.release_slots(view, job.number, message.previous, message.held)
        if job.phase != DONE:
            view.slots.extend(job.number, message.attempt, message.start, message.start + message.length)


class MovingAcapNode(MovingNode, AcapNode):
    """One node of DGS_ACAP with ``move="forward"``."""
