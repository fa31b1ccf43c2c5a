"""DGS_ASAP as a node program: what one node does.

After Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling".  A node has three
roles.  As the *scheduling node* of the jobs that are submitted to it, it runs Figure 2 of the paper.  As a
neighbour that *searches*, it runs the Search Algorithm, Figure 3.  As a *host*, it keeps its own slot
schedule, and commits to jobs or refuses them.  What the paper does not specify (conflicts, waiting, failures)
is described in docs/background/dgs_asap.md.

Times are whole nanoseconds, or slots where the name says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.dgs.negotiations import (
    BROKEN,
    CANCELLED,
    COMMITTING,
    DONE,
    FAILED,
    NEW,
    PLACED,
    SEARCHING,
    WAITING,
)
from gridcore.dgs.slots import SlotSchedules
from gridsim.model.applications import Application
from gridsim.schedulers.dgs.jobs import ANSWER_BYTES, SMALL, Jobs
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.nodes.program import Message, NodeProgram, View, array
from gridsim.support.arrays import Bools
from gridsim.support.clock import NS, nanoseconds

#: The kinds of messages, in the order in which those of one instant are handled.
MESSAGES = {
    "cancel": Message(SMALL, application=int, attempt=int, start=int),
    "request": Message(
        SMALL,
        application=int,
        search=int,
        home=int,
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
#: The instant of which a cache has schedules before it has got any: it takes them to be empty.
NOT_YET = -(2**62)
# Steps that spread waiting times evenly, whatever the order of jobs and searches.
_GOLDEN, _SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1


def pause(parameters: Any, job: int, searches: int) -> int:
    """Return how long a job waits before it searches again, ns: 0.5 to 1.5 times `retry`."""
    return nanoseconds(parameters.retry * (0.5 + (job * _GOLDEN + searches * _SILVER) % 1.0))


class Job:
    """What the scheduling node of a job knows of it; no failure erases that.

    Parameters
    ----------
    number, submitter
        The job, and the node to which it was submitted.
    tasks, length
        Nodes and slots that it wants.
    group
        What it wants of each node, as the number of its group of jobs; -1 if all nodes suit it.
    earliest, latest
        The first and the last slot in which it may start.

    Attributes
    ----------
    searches, attempt
        Numbers of its newest search and of its newest attempt to allocate nodes.
    in_vain
        Searches since it was last placed.
    missing
        How many answers or replies have not come.
    due
        When the wait for them ends; -1 for never.
    answers
        (start, order, searcher, apart, nodes) of each answer that is left, apart as `DgsNode.apart`.
    hope
        Whether another search may do better.
    tardy
        The first start of an answer that comes too late for the deadline; -1 for none.
    start, nodes
        The allocation that is tried or was confirmed.
    taken
        Nodes that have committed to it.
    hit
        Whether one of the nodes has failed, which the scheduling node learns later.
    looked
        What answers rest on, for the record of decisions; the scheduling node does not know it.
    """

    def __init__(
        self, number: int, submitter: int, tasks: int, length: int, group: int, earliest: int, latest: int
    ) -> None:
        self.number, self.submitter, self.tasks, self.length = number, submitter, tasks, length
        self.group, self.earliest, self.latest = group, earliest, latest
        self.phase = int(NEW)
        self.searches = self.attempt = self.in_vain = 0
        self.conflicts = self.late = self.resubmitted = 0
        self.missing, self.due = 0, -1
        self.answers: list[tuple[int, int, int, float, Any]] = []
        self.start, self.nodes, self.taken = -1, list[int](), list[int]()
        self.hope = self.hit = False
        self.tardy = -1
        self.looked: dict[int, Any] = {}

    def expect(self, phase: int, missing: int) -> None:
        """Wait for so many answers or replies."""
        self.phase, self.missing, self.taken, self.hit = int(phase), missing, [], False


class DgsNode(NodeProgram):
    """One node of DGS_ASAP.

    Parameters
    ----------
    jobs
        See `Jobs`.
    overlay
        The views of CYCLON, and the caches of schedules.
    log
        What records decisions; it changes nothing.
    """

    def __init__(self, parameters: Any, jobs: Jobs, overlay: Neighbourhood, log: Any) -> None:
        super().__init__(parameters)
        self.jobs, self.overlay, self.log, self.times = jobs, overlay, log, jobs.times

    def slot_at(self, time: int) -> int:
        """Return the first slot that begins at `time` or later."""
        return -(-time // self.times.slot)

    # -- the scheduling node: Figure 2 ----------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Schedule a job that is submitted here."""
        self.search(self.jobs.records[application.number])

    def search(self, job: Job) -> None:
        """Step 1: forward the request to some random neighbours, each of which searches."""
        home = self.jobs.home(job)
        if (first := max(job.earliest, self.slot_at(self.jobs.now))) > job.latest:
            return self.miss(job, first)
        if job.in_vain >= self.parameters.tries:
            self.log.in_vain("gave-up", job, self.parameters.tries)
            return self.jobs.reject(job)
        if home is None:
            return self.wait(job, "waited-for-machines")
        job.searches += 1
        job.in_vain += 1
        asked = self.overlay.draw(home.node, job.number, job.searches, self.parameters.forward)
        job.answers, job.hope, job.tardy, job.looked = [], False, -1, {}
        job.expect(SEARCHING, len(asked))
        self.limit_wait(job)
        wanted = {"home": job.submitter, "tasks": job.tasks, "length": job.length, "group": job.group}
        wanted |= {"earliest": job.earliest, "latest": job.latest}
        for neighbour in asked:
            self.log.asks(job, home.node, neighbour)
            home.send(neighbour, "request", application=job.number, search=job.searches, **wanted)
        if not asked:
            self.choose(job)

    def on_answer(self, view: View, message: Any) -> None:
        """Step 2: receive the allocations that the neighbours have found."""
        job = self.jobs.records[message.application]
        if message.search != job.searches or job.phase != SEARCHING:
            return
        if message.start > job.latest:
            job.tardy = message.start if job.tardy < 0 else min(job.tardy, message.start)
        elif message.start >= 0:
            order = len(job.answers)
            job.answers.append((message.start, order, message.sender, message.apart, message.nodes))
            job.hope = True
        job.missing -= 1
        if job.missing == 0:
            self.choose(job)

    def choose(self, job: Job) -> None:
        """Step 3: confirm the allocation with the lowest waiting time; without one search again, or wait."""
        home = self.jobs.home(job)
        if home is None:
            return self.wait(job, "waited-for-machines")
        job.answers.sort()
        while job.answers and job.answers[0][0] * self.times.slot < self.jobs.now + self.times.one_way:
            self.log.chooses("dropped", job)  # a commit would come too late
            job.late += 1
            del job.answers[0]
        if job.answers:
            self.prefer(job)
            self.log.chooses("chose", job)
            job.start, *_, nodes = job.answers.pop(0)
            self.confirm(home, job, nodes.tolist())
        elif not job.hope and job.tardy >= 0:
            self.miss(job, job.tardy)
        elif not job.hope and self.jobs.faults and self.parameters.wide == "widen":
            self.wait(job, "waited-for-room")  # machines may recover
        elif not job.hope:
            self.log.too_large(job)
            self.jobs.reject(job, "too_large")
        elif job.in_vain % self.parameters.rounds == 0:
            self.wait(job)
        else:
            self.log.in_vain("searched-again", job, self.parameters.rounds)
            self.search(job)

    def miss(self, job: Job, start: int) -> None:
        """Reject a job whose first possible `start` is too late for its deadline."""
        self.log.too_late(job, start)
        self.jobs.reject(job, "too_late")

    def prefer(self, job: Job) -> None:
        """Move the answer that is to be confirmed to the front; here it is there, as answers are sorted."""

    def confirm(self, home: View, job: Job, nodes: list[int]) -> None:
        """Ask the nodes of an allocation to commit to the job."""
        job.attempt += 1
        job.nodes = nodes
        job.expect(COMMITTING, len(nodes))
        self.limit_wait(job)
        asked = {"attempt": job.attempt, "start": job.start, "length": job.length}
        for node in nodes:
            home.send(node, "commit", application=job.number, **asked)

    def on_reply(self, view: View, message: Any) -> None:
        """Place the job if all nodes have committed to it; if one has refused, release the others."""
        job = self.jobs.records[message.application]
        if message.attempt != job.attempt or job.phase != COMMITTING:
            if message.taken:  # to an attempt that was aborted
                undone = {"attempt": message.attempt, "start": message.start}
                view.send(message.sender, "cancel", application=job.number, **undone)
            return
        if message.taken:
            job.taken.append(message.sender)
        job.missing -= 1
        if job.missing:
            return
        if len(job.taken) < len(job.nodes):
            self.abort(job)
        else:
            self.log.places(job)
            job.in_vain = 0
            self.jobs.place(job)

    def abort(self, job: Job) -> None:
        """Release the nodes that have committed, and try the next best allocation."""
        self.log.releases(job)
        job.conflicts += 1
        self.release(job, sorted(job.taken))
        job.attempt += 1  # replies that are still to come belong to the old attempt
        self.choose(job)

    def release(self, job: Job, nodes: list[int]) -> None:
        """Cancel the job at `nodes`.  If no node is up, nobody does: nodes that are down have lost it."""
        home = self.jobs.home(job)
        if home is not None:
            for node in nodes:
                home.send(node, "cancel", application=job.number, attempt=job.attempt, start=job.start)

    def wait(self, job: Job, why: str = "waited") -> None:
        """Search again after a while, which differs between jobs that compete for nodes."""
        job.phase = int(WAITING)
        until = self.jobs.now + pause(self.parameters, job.number, job.searches)
        self.log.waits(why, job, until)
        self.jobs.wake(until, "retry", job)

    def on_retry(self, job: Job) -> None:
        """Search again, now that the wait is over."""
        if job.phase == WAITING:
            self.search(job)

    def on_displaced(self, view: View, message: Any) -> None:
        """Search anew for a job that a machine has displaced, for one that outlives its reservation there."""
        self.move(self.jobs.records[message.application], message.attempt)

    def move(self, job: Job, attempt: int) -> None:
        """Search anew for a job that is displaced in this attempt to place it, unless it is over."""
        if attempt != job.attempt:
            return
        if job.phase in (PLACED, BROKEN):
            self.jobs.count("displaced")
            self.log.moves(job)
            self.start_again(job)
        elif job.phase == COMMITTING:
            self.abort(job)

    def start_again(self, job: Job) -> None:
        """Release the nodes of a job that was placed, and search anew."""
        self.jobs.withdraw(job)
        self.release(job, job.nodes)
        self.search(job)

    def limit_wait(self, job: Job) -> None:
        """Limit the wait for answers or replies where machines fail, since they may be lost."""
        if self.jobs.faults:
            job.due = self.jobs.now + nanoseconds(self.parameters.patience)
            self.jobs.wake(job.due, "overdue", job)

    def on_overdue(self, job: Job) -> None:
        """Wait no longer for answers or replies that have not come in time."""
        if job.due <= self.jobs.now and job.phase in (SEARCHING, COMMITTING):
            self.log.overdue(job)
            if job.phase == SEARCHING:
                job.hope = True
                self.choose(job)
            else:
                self.abort(job)

    def on_missed(self, job: Job) -> None:
        """Handle that a node of the job has failed, which is detected now: start it again on other nodes."""
        if job.phase == BROKEN:
            job.resubmitted += len(job.nodes)
            self.log.misses(job)
            self.start_again(job)
        elif job.phase == COMMITTING and job.hit:
            self.abort(job)

    def on_call_off(self, job: Job) -> None:
        """Cancel a job, as its user wants, unless it is over: its nodes release what is left of its slots."""
        if job.phase in (DONE, FAILED, CANCELLED):
            return
        holding = job.taken if job.phase == COMMITTING else job.nodes if job.phase in (PLACED, BROKEN) else []
        self.log.calls_off(job, len(holding))
        self.release(job, sorted(holding))
        self.jobs.cancel(job)

    # -- a neighbour that searches: Figure 3 ----------------------------------------------------------------

    def on_request(self, view: View, message: Any) -> None:
        """Search, and answer once the search has taken its time.

        Four messages must fit before the start: answer, commit, reply, and a cancellation that may follow.
        Opening nodes takes time, too: after many of them the first possible slot may be a later one.
        """
        ready = view.now_ns + 4 * self.times.one_way
        t = max(message.earliest, self.slot_at(ready + self.overlay.at_least))
        while True:
            start, nodes, candidates = self.look(view, message, t)
            takes = self.overlay.at_least + candidates.opened * self.overlay.opening
            if start < 0 or start * self.times.slot >= ready + takes:
                break
            t = max(start + 1, self.slot_at(ready + takes))
        self.overlay.count_search(view.node, candidates.opened)
        self.jobs.reach(message.application, len(candidates.nodes))
        self.log.looks(view.node, message, candidates, t, self.slot_at(ready + takes))
        found = {"search": message.search, "start": start, "nodes": nodes, "apart": self.apart(nodes)}
        if takes:
            client, job = message.sender, message.application
            view.later(takes / NS, "found", client=client, application=job, **found)
        else:
            self.answer(view, message.sender, message.application, **found)

    def look(self, view: View, job: Any, t: int) -> tuple[int, Any, Candidates]:
        """Run the Search Algorithm from slot `t` on; return <t', N>, t' being -1 for none, and C."""
        hops, widen = self.parameters.hops, self.parameters.wide == "widen"
        excluded = {view.node, job.home} if self.parameters.candidates == "others" else set[int]()
        candidates = Candidates(self.jobs.schedules, job.length, t, excluded, self.jobs.suited(job.group))
        self.extend(candidates, view, view.node)  # steps 1 to 3
        hop = done = 0
        while candidates.free < job.tasks and done < len(candidates.reached):
            hop += 1
            if hop >= hops and not (widen and len(candidates.nodes) < job.tasks):
                break
            for m in candidates.reached[done:]:  # step 4
                done += 1
                if m != view.node and candidates.free < job.tasks:
                    candidates.opened += 1
                    self.extend(candidates, view, m)
        if len(candidates.nodes) < job.tasks:
            return -1, [], candidates
        return *self.allocate(candidates, job), candidates  # steps 5 to 8

    def allocate(self, candidates: Candidates, job: Any) -> tuple[int, Any]:
        """Return the first slot from which enough candidates are free, and the first of these."""
        return candidates.earliest(job.tasks)

    def apart(self, nodes: Any) -> float:
        """Return how far apart the nodes of an answer are, where that counts."""
        return 0.0

    def extend(self, candidates: Candidates, view: View, m: int) -> None:
        """Add the neighbours of `m` with their schedules in its cache; the own schedule is as it is now."""
        as_of = self.cached(m, view.now_ns)
        candidates.add(
            [(node, view.now_ns if node == view.node else as_of) for node in self.overlay.known_to(m)]
        )

    def cached(self, m: int, now: int) -> int:
        """Return the instant of which the cache of `m` has the schedules of its neighbours (section III-C).

        Push: they send each change.  Pull: each search asks for them when it begins.  Poll: `m` asks for them
        periodically.
        """
        if self.parameters.policy == "pull":
            return now
        arrived = now - self.times.latency
        if self.parameters.policy == "push":
            return arrived
        first, period = int(self.overlay.first[m]), self.overlay.period
        return first + (arrived - first) // period * period if first <= arrived else NOT_YET

    def on_found(self, view: View, message: Any) -> None:
        """Answer, now that the search has taken its time."""
        found = {name: getattr(message, name) for name in ("search", "start", "nodes", "apart")}
        self.answer(view, message.client, message.application, **found)

    def answer(self, view: View, client: int, job: int, **found: Any) -> None:
        """Send the scheduling node the allocation that was found."""
        self.log.answers(view.node, client, job, found["search"], found["start"])
        view.send(client, "answer", application=job, **found)

    # -- a host ---------------------------------------------------------------------------------------------

    def on_commit(self, view: View, message: Any) -> None:
        """Commit to a job if its start is not past and its slots are free; else refuse."""
        job, start = message.application, message.start
        timely = start * self.times.slot >= view.now_ns
        taken = timely and view.slots.reserve(job, message.attempt, start, message.length)
        if taken:
            self.overlay.push(view.node)
        else:
            self.log.refuses("refused" if timely else "refused-late", view.node, message)
        answer = {"attempt": message.attempt, "start": start, "taken": int(taken)}
        view.send(message.sender, "reply", application=job, **answer)

    def on_cancel(self, view: View, message: Any) -> None:
        """Release the slots of a job that its scheduling node cancels."""
        self.on_over(view, message.application, message.attempt, message.start)

    def on_over(self, view: View, job: int, attempt: int, start: int) -> None:
        """Release what is left of the slots of a job that has ended here."""
        if view.slots.release(job, attempt, start, max(start, self.slot_at(view.now_ns))):
            self.overlay.push(view.node)

    def on_outlived(self, view: View, job: int, attempt: int, start: int, end: int) -> None:
        """Extend the slots of a job that goes on here to slot `end`; tell whom this displaces."""
        displaced = view.slots.extend(job, attempt, start, end)
        if displaced is None:
            return
        self.log.extends(view.node, job, end, len(displaced))
        self.jobs.count("extended")
        for other, of_attempt in displaced:
            home = self.jobs.home(self.jobs.records[other])
            assert home is not None  # this node is up
            view.send(home.node, "displaced", application=other, attempt=of_attempt)
            self.jobs.displace(other, view.node, of_attempt)
        self.overlay.push(view.node)


class Candidates:
    """The set C of a search: nodes in the order in which they were reached, with what is known of them.

    Attributes
    ----------
    nodes, as_of
        The nodes, and as of when the schedule of each is known.
    reached
        All nodes that were reached, also those that do not suit the job; the attributes of a node come with
        its schedule.
    free
        How many are free from the first slot `t` on for `length` slots.
    opened
        How many nodes were asked for their neighbours.
    own
        How many there were before any node was opened.
    """

    def __init__(
        self, schedules: SlotSchedules, length: int, t: int, excluded: set[int], suited: Bools | None
    ) -> None:
        self.schedules, self.length, self.t, self.suited = schedules, length, t, suited
        self.met = excluded
        self.reached, self.nodes, self.as_of = list[int](), list[int](), list[int]()
        self.free = self.opened = self.own = 0

    def add(self, known: list[tuple[int, int]]) -> None:
        """Add nodes, each known as of an instant; those that are excluded, or there already, are left out."""
        new = [each for each in known if each[0] not in self.met]
        self.met.update(node for node, _ in new)
        self.reached += [node for node, _ in new]
        if self.suited is not None:
            new = [each for each in new if self.suited[each[0]]]
        if new:
            nodes, as_of = map(list, zip(*new, strict=True))
            self.nodes += nodes
            self.as_of += as_of
            self.own += 0 if self.opened else len(nodes)
            seen = as_of if self.schedules.stale else None
            self.free += int(self.schedules.is_free(nodes, self.t, self.length, seen).sum())

    def free_at(self, start: int) -> list[int]:
        """Return those that are free from slot `start` on."""
        seen = self.as_of if self.schedules.stale else None
        free = self.schedules.is_free(self.nodes, start, self.length, seen)
        return [node for node, is_free in zip(self.nodes, free.tolist(), strict=True) if is_free]

    def earliest(self, tasks: int) -> tuple[int, Any]:
        """Return the first slot from `t` on from which enough of them are free, and the first of these."""
        seen = self.as_of if self.schedules.stale else None
        found = self.schedules.earliest_start(self.nodes, tasks, self.length, self.t, seen)
        assert found is not None  # there are as many candidates as the job wants
        return int(found[0]), np.asarray(found[1])
