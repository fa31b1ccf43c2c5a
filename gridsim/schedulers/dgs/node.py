"""DGS_ASAP as a node program: the behaviour of one node.

After Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling".  A node has three
roles.  As the *scheduling node* of the jobs that are submitted to it, it runs Figure 2 of the paper.  As a
neighbour that *searches*, it runs the Search Algorithm, Figure 3.  As a *host*, it keeps its own slot
schedule, and commits to jobs or refuses them.  Deadlines, cancellations, jobs that outlive their
reservations, and nodes that suit only some jobs are additions.  docs/background/dgs_asap.md describes the
details that the paper leaves open: conflicts, waiting, failures, and the choice among free nodes.

Times are whole nanoseconds, or slots where the name says so.
"""

from __future__ import annotations

from typing import Any

from gridcore.dgs.negotiations import BROKEN, COMMITTING, PLACED, SEARCHING, WAITING
from gridsim.model.applications import Application
from gridsim.schedulers.dgs.candidates import Candidates
from gridsim.schedulers.dgs.jobs import ANSWER_BYTES, SMALL
from gridsim.scheduling.nodes.program import Message, NodeProgram, View, array
from gridsim.scheduling.nodes.rigid_jobs import JobRecord
from gridsim.support.clock import NS, nanoseconds

#: Message kinds, in the order in which messages of one instant are handled.
MESSAGES = {
    "cancel": Message(SMALL, application=int, attempt=int, start=int),
    "request": Message(
        SMALL,
        application=int,
        search=int,
        submitter=int,
        tasks=int,
        length=int,
        group=int,
        earliest=int,
        latest=int,
    ),
    "answer": Message(ANSWER_BYTES, application=int, search=int, start=int, apart=float, nodes=array(int)),
    "commit": Message(SMALL, application=int, attempt=int, start=int, length=int),
    "reply": Message(SMALL, application=int, attempt=int, start=int, taken=int),
    "displaced": Message(SMALL, application=int, attempt=int),
    "found": Message(None, client=int, application=int, search=int, start=int, apart=float, nodes=array(int)),
}
# Steps that spread waiting times evenly for any order of jobs and searches.
_GOLDEN, _SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1


def pause(parameters: Any, job: int, searches: int) -> int:
    """Return the time for which a job waits before it searches again, ns: 0.5 to 1.5 times `retry`."""
    return nanoseconds(parameters.retry * (0.5 + (job * _GOLDEN + searches * _SILVER) % 1.0))


class DgsRecord(JobRecord):
    """The record of a job at its scheduling node; it survives failures.

    Parameters
    ----------
    length
        Number of slots that it needs.
    group
        Number of the group of jobs with the same requirements of nodes; -1 if all nodes suit it.
    earliest, latest
        The first and the last slot in which it may start.

    Attributes
    ----------
    searches
        Number of its newest search.
    failed_searches
        Number of searches since it was last placed.
    missing
        Number of answers or replies that have not arrived.
    answers
        (start, order, searcher, apart, nodes) of each remaining answer, with `DgsNode.apart`.
    hope
        Whether another search may do better.
    first_late_start
        Start of the first answer that is too late for the deadline; -1 for none.
    start
        First slot of the allocation that is being tried or was confirmed.
    taken
        Nodes that have committed to it.
    """

    def __init__(
        self, number: int, submitter: int, tasks: int, length: int, group: int, earliest: int, latest: int
    ) -> None:
        super().__init__(number, submitter, tasks, length)
        self.group, self.earliest, self.latest = group, earliest, latest
        self.searches = self.failed_searches = self.missing = self.conflicts = self.late = 0
        self.answers: list[tuple[int, int, int, float, Any]] = []
        self.taken = list[int]()
        self.hope = False
        self.first_late_start = -1

    def expect(self, phase: int, missing: int) -> None:
        """Wait for the given number of answers or replies."""
        self.phase, self.missing, self.taken, self.has_lost_node = int(phase), missing, [], False


class DgsNode(NodeProgram):
    """One node of DGS_ASAP."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.slot = nanoseconds(parameters.slot)

    def slot_at(self, time: int) -> int:
        """Return the first slot that begins at `time` or later."""
        return -(-time // self.slot)

    # -- the scheduling node: Figure 2 ----------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Schedule a job that is submitted here."""
        self.search(view, view.jobs[application.number])

    def search(self, view: View, job: Any) -> None:
        """Forward the request to random neighbours, each of which searches (step 1)."""
        home = view.jobs.home(job)
        if (first := max(job.earliest, self.slot_at(view.now_ns))) > job.latest:
            return self.miss(view, job, first)
        if job.failed_searches >= self.parameters.tries:
            view.environment.log.failed_searches("gave-up", job, self.parameters.tries)
            view.jobs.reject(job)
            return None
        if home is None:
            return self.wait(view, job, "waited-for-machines")
        job.searches += 1
        job.failed_searches += 1
        searchers = home.environment.draw(job.number, job.searches, self.parameters.forward)
        job.answers, job.hope, job.first_late_start = [], False, -1
        job.expect(SEARCHING, len(searchers))
        self.limit_wait(view, job)
        requirements = {
            "submitter": job.submitter,
            "tasks": job.tasks,
            "length": job.length,
            "group": job.group,
        }
        requirements |= {"earliest": job.earliest, "latest": job.latest}
        view.environment.log.asks(job, home.node, searchers)
        for neighbour in searchers:
            home.send(neighbour, "request", application=job.number, search=job.searches, **requirements)
        if not searchers:
            self.choose(view, job)

    def on_answer(self, view: View, message: Any) -> None:
        """Step 2: receive the allocations that the neighbours have found."""
        job = view.jobs[message.application]
        if message.search != job.searches or job.phase != SEARCHING:
            return
        if message.start > job.latest:
            job.first_late_start = (
                message.start if job.first_late_start < 0 else min(job.first_late_start, message.start)
            )
        elif message.start >= 0:
            order = len(job.answers)
            job.answers.append((message.start, order, message.sender, message.apart, message.nodes))
            job.hope = True
        job.missing -= 1
        if job.missing == 0:
            self.choose(view, job)

    def choose(self, view: View, job: Any) -> None:
        """Step 3: confirm the allocation with the lowest waiting time; without one, search again or wait.

        After slow answers or failed attempts, only the commit must still arrive before the start.  Machines
        that have committed start in their slot by themselves; their work until a cancellation is not counted.
        """
        home = view.jobs.home(job)
        if home is None:
            return self.wait(view, job, "waited-for-machines")
        job.answers.sort()
        while job.answers and job.answers[0][0] * self.slot < view.now_ns + view.environment.times.one_way:
            view.environment.log.chooses("dropped", job)  # a commit would arrive too late
            job.late += 1
            del job.answers[0]
        if job.answers:
            self.prefer(view, job)
            view.environment.log.chooses("chose", job)
            job.start, *_, nodes = job.answers.pop(0)
            self.confirm(home, job, nodes.tolist())
        elif not job.hope and job.first_late_start >= 0:
            self.miss(view, job, job.first_late_start)
        elif not job.hope and view.jobs.can_fail and self.parameters.wide == "widen":
            self.wait(view, job, "waited-for-room")  # wait, since machines may recover
        elif not job.hope:
            view.environment.log.too_large(job)
            view.jobs.reject(job, "too_large")
        elif job.failed_searches % self.parameters.rounds == 0:
            self.wait(view, job)
        else:
            view.environment.log.failed_searches("searched-again", job, self.parameters.rounds)
            self.search(view, job)

    def miss(self, view: View, job: Any, start: int) -> None:
        """Reject a job whose first possible `start` is too late for its deadline."""
        view.environment.log.too_late(job, start)
        view.jobs.reject(job, "too_late")

    def prefer(self, view: View, job: Any) -> None:
        """Move the preferred answer to the front; by default the first answer."""

    def confirm(self, home: View, job: Any, nodes: list[int]) -> None:
        """Ask the nodes of an allocation to commit to the job."""
        job.attempt += 1
        job.nodes = nodes
        job.expect(COMMITTING, len(nodes))
        self.limit_wait(home, job)
        asked = {"attempt": job.attempt, "start": job.start, "length": job.length}
        for node in nodes:
            home.send(node, "commit", application=job.number, **asked)

    def on_reply(self, view: View, message: Any) -> None:
        """Place the job if all nodes have committed to it; if one has refused, release the others."""
        job = view.jobs[message.application]
        if message.attempt != job.attempt or job.phase != COMMITTING:
            if message.taken:  # the reply belongs to an aborted attempt
                undone = {"attempt": message.attempt, "start": message.start}
                view.send(message.sender, "cancel", application=job.number, **undone)
            return
        if message.taken:
            job.taken.append(message.sender)
        job.missing -= 1
        if job.missing:
            return
        if len(job.taken) < len(job.nodes):
            self.abort(view, job)
        else:
            view.environment.log.places(job)
            job.failed_searches = 0
            view.jobs.start(job, job.start * self.slot, (job.start + job.length) * self.slot)

    def abort(self, view: View, job: Any) -> None:
        """Release the nodes that have committed, and try the next best allocation."""
        view.environment.log.releases(job)
        job.conflicts += 1
        self.release(view, job, self.holders(view, job))
        job.attempt += 1  # outstanding replies belong to the aborted attempt
        self.choose(view, job)

    def holders(self, view: View, job: Any) -> list[int]:
        """Return the nodes that may hold slots for an attempt, including those whose replies may be lost."""
        return sorted(job.nodes if job.missing and view.jobs.can_fail else job.taken)

    def release(self, view: View, job: Any, nodes: list[int]) -> None:
        """Cancel the job at `nodes`, unless no node is up; failed nodes have lost it anyway."""
        home = view.jobs.home(job)
        if home is not None:
            for node in nodes:
                home.send(node, "cancel", application=job.number, attempt=job.attempt, start=job.start)

    def wait(self, view: View, job: Any, why: str = "waited") -> None:
        """Search again after a delay, which differs between jobs that compete for nodes."""
        job.phase = int(WAITING)
        until = view.now_ns + pause(self.parameters, job.number, job.searches)
        view.environment.log.waits(why, job, until)
        view.jobs.at(job, until, "retry")

    def on_retry(self, view: View, job: Any) -> None:
        """Search again after a wait."""
        self.search(view, job)

    def on_displaced(self, view: View, message: Any) -> None:
        """Search again for a job that was displaced from a machine by one that outlives its reservation."""
        self.on_job_displaced(view, view.jobs[message.application], message.attempt)

    def on_job_displaced(self, view: View, job: Any, attempt: int) -> None:
        """Search again for a job that is displaced in its current attempt, unless the job is over."""
        if attempt != job.attempt:
            return
        # after a new search the phase differs, so that messages about the old placement are ignored
        if job.phase == BROKEN:
            view.jobs.count("displaced")
            view.environment.log.moves(job)
            self.start_again(view, job)
        elif job.phase == COMMITTING:
            self.abort(view, job)

    def start_again(self, view: View, job: Any) -> None:
        """Release the nodes of a job that was placed, and search again."""
        view.jobs.withdraw(job)
        self.release(view, job, job.nodes)
        self.search(view, job)

    def limit_wait(self, view: View, job: Any) -> None:
        """Limit the wait for answers or replies where machines fail, since they may be lost."""
        if view.jobs.can_fail:
            view.jobs.at(job, view.now_ns + nanoseconds(self.parameters.patience), "overdue")

    def on_overdue(self, view: View, job: Any) -> None:
        """Stop waiting for answers or replies that are overdue."""
        view.environment.log.overdue(job)
        if job.phase == SEARCHING:
            job.hope = True
            self.choose(view, job)
        else:
            self.abort(view, job)

    def on_job_lost(self, view: View, job: Any) -> None:
        """Handle the detected failure of a node of the job: restart the job on other nodes."""
        if job.phase == BROKEN:
            job.resubmitted += len(job.nodes)
            view.environment.log.misses(job)
            self.start_again(view, job)
        elif job.phase == COMMITTING and job.has_lost_node:
            self.abort(view, job)

    def on_job_cancelled(self, view: View, job: Any) -> None:
        """Cancel a job on behalf of its user; its nodes release the rest of its slots."""
        if job.phase == COMMITTING:
            holding = self.holders(view, job)
        else:
            holding = sorted(job.nodes) if job.phase in (PLACED, BROKEN) else []
        view.environment.log.cancels(job, len(holding))
        self.release(view, job, holding)
        view.jobs.cancel(job)

    # -- a neighbour that searches: Figure 3 ----------------------------------------------------------------

    def on_request(self, view: View, message: Any) -> None:
        """Search, and answer after the duration of the search."""
        self.answer_request(view, message)

    def answer_request(self, view: View, message: Any) -> None:
        """Search, and answer after the duration of the search.

        Four messages must fit before the start: answer, commit, reply, and a possible cancellation.  Opening
        nodes also takes time: if the start that was found is then too near, another pass searches from a
        later slot on.  It opens nodes in the same order, so openings of earlier passes are not counted again.
        """
        seen = view.environment
        ready = view.now_ns + 4 * seen.times.one_way
        t = max(message.earliest, self.slot_at(ready + seen.search_time(0)))
        while True:
            start, nodes, candidates = self.look(view, message, t)
            takes = seen.search_time(candidates.opened)
            if start < 0 or start * self.slot >= ready + takes:
                break
            t = self.slot_at(ready + takes)
        seen.count_search(message.application, candidates)
        view.environment.log.opens(view.node, message, candidates, t, self.slot_at(ready + takes))
        allocation = {
            "search": message.search,
            "start": start,
            "nodes": nodes,
            "apart": self.apart(view, nodes),
        }
        if takes:
            client, job = message.sender, message.application
            view.later(takes / NS, "found", client=client, application=job, **allocation)
        else:
            self.answer(view, message.sender, message.application, **allocation)

    def look(self, view: View, request: Any, t: int) -> tuple[int, Any, Candidates]:
        """Run the Search Algorithm from slot `t` on; return <t', N>, with t' = -1 for none, and C."""
        hops, widen = self.parameters.hops, self.parameters.wide == "widen"
        excluded = {view.node, request.submitter} if self.parameters.candidates == "others" else set[int]()
        candidates = self.candidates(view, request, t, excluded)  # steps 1 to 3 (to be continued)
        hop = done = 0
        while candidates.free < request.tasks and done < len(candidates.reached):
            hop += 1
            if hop >= hops and not (widen and len(candidates.nodes) < request.tasks):
                break
            last, done = candidates.reached[done:], len(candidates.reached)
            candidates.open([m for m in last if m != view.node], request.tasks)  # step 4
        if len(candidates.nodes) < request.tasks:
            return -1, [], candidates
        # the end of steps 3 and 4, or steps 5 to 8
        return *self.allocate(view, candidates, request), candidates

    def candidates(self, view: View, request: Any, t: int, exclusions: set[int]) -> Candidates:
        """Return the first candidates of a search from slot `t` on."""
        first: Candidates = view.environment.candidates(request, t, exclusions)
        return first

    def allocate(self, view: View, candidates: Candidates, request: Any) -> tuple[int, Any]:
        """Return the first slot from which enough candidates are free, and the first such candidates."""
        return candidates.earliest(request.tasks)

    def apart(self, view: View, nodes: Any) -> float:
        """Return the mean distance of the nodes of an answer; 0 if distances do not matter."""
        return 0.0

    def on_found(self, view: View, message: Any) -> None:
        """Send the answer when the search has ended."""
        found = {name: getattr(message, name) for name in ("search", "start", "nodes", "apart")}
        self.answer(view, message.client, message.application, **found)

    def answer(self, view: View, client: int, job: int, **found: Any) -> None:
        """Send the allocation that was found to the scheduling node."""
        view.environment.log.answers(view.node, client, job, found["search"], found["start"])
        view.send(client, "answer", application=job, **found)

    # -- a host ---------------------------------------------------------------------------------------------

    def on_commit(self, view: View, message: Any) -> None:
        """Commit to a job if its start is not past and its slots are free; otherwise refuse."""
        job, start = message.application, message.start
        is_timely = start * self.slot >= view.now_ns
        taken = is_timely and view.slots.reserve(job, message.attempt, start, message.length)
        if taken:
            view.environment.publish()
        else:
            view.environment.log.refuses("refused" if is_timely else "refused-late", view.node, message)
        answer = {"attempt": message.attempt, "start": start, "taken": int(taken)}
        view.send(message.sender, "reply", application=job, **answer)

    def on_cancel(self, view: View, message: Any) -> None:
        """Release the slots of a job that its scheduling node cancels."""
        self.release_slots(view, message.application, message.attempt, message.start)

    def on_job_end(self, view: View, application: Application) -> None:
        """Release the rest of the slots of a job that has ended here."""
        if self.parameters.early == "release":
            job = view.jobs[application.number]
            self.release_slots(view, job.number, job.attempt, job.start)

    def release_slots(self, view: View, job: int, attempt: int, start: int) -> None:
        """Release the rest of the slots of a job that starts in slot `start`."""
        if view.slots.release(job, attempt, start, max(start, self.slot_at(view.now_ns))):
            view.environment.publish()

    def on_job_outlives(self, view: View, application: Application, instant: int) -> None:
        """Extend the slots of a job that continues here until `instant`, and notify displaced jobs."""
        job, end = view.jobs[application.number], instant // self.slot
        displaced = view.slots.extend(job.number, job.attempt, job.start, end)
        if displaced is None:  # in an emulation the reservation may have been released in the meantime
            return
        view.environment.log.extends(view.node, job.number, end, len(displaced))
        view.jobs.count("extended")
        for other, attempt in displaced:
            home = view.jobs.home(view.jobs[other])
            view.send(home.node, "displaced", application=other, attempt=attempt)
            view.jobs.displace(other, attempt)
        view.environment.publish()
