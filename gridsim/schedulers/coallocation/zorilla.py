"""Zorilla: a job floods the overlay around its node with growing radius until enough machines are free.

After N. Drost, R. van Nieuwpoort and H. Bal, "Simple locality-aware co-allocation in peer-to-peer
supercomputing" (CCGrid 2006), and their published program.  docs/background/dgs_asap.md lists what comes from
the paper and what from the program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from gridcore.dgs.negotiations import BROKEN, COMMITTING, NEW, WAITING
from gridsim.model.applications import Application
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.coallocation.claims import MESSAGES, SMALL, ClaimingNode, ClaimRecord
from gridsim.scheduling.contract import DecisionVerb
from gridsim.scheduling.nodes.program import Message, View
from gridsim.scheduling.nodes.rigid_jobs import JobTimer, RigidNodeScheduler
from gridsim.scheduling.overlays import Overlay
from gridsim.support.clock import nanoseconds
from gridsim.support.parameters import AnswerWait, Limits

#: Number of jobs whose advertisements a machine remembers, so that it forwards each only once.
_MEMORY_SIZE = 64
#: Upper limit of time parameters, s, since sums of pauses must fit into int64 nanoseconds.
_LONGEST = 1e8
_Time = Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s")]

WORDS: DecisionTexts = {
    "advertised": ("looked for {tasks} free machines around it", "hops:", ""),
    "placed": ("placed {tasks} tasks: all machines had agreed", "a start at", "s"),
    "missed": ("missed a machine and started all {tasks} tasks again", "", ""),
    "gave-up": ("gave up: {tasks} machines were never free at once", "advertisements:", ""),
}


class FloodRecord(ClaimRecord):
    """The record of a job at the node in charge of it.

    Attributes
    ----------
    submitted
        Time of submission, ns.
    floods
        Number of advertisements so far, which is also the number of the newest one.
    rounds
        Number of advertisements since the job was submitted or last lost.
    offers
        Machines that have offered themselves and are not claimed, in order of arrival.
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        super().__init__(number, submitter, tasks, length)
        self.submitted, self.floods, self.rounds, self.offers = -1, 0, 0, list[int]()


class ZorillaNode(ClaimingNode):
    """A machine that advertises jobs submitted to it, forwards advertisements of other jobs, and runs jobs.

    Attributes
    ----------
    newest_floods
        Job -> number of its newest advertisement that has arrived here.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.newest_floods: dict[int, int] = {}

    # -- the node in charge of a job ------------------------------------------------------------------------

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Record a job that is submitted here, and advertise it."""
        job = view.jobs[application.number]
        job.submitted = view.now_ns
        self.advertise(view, job)

    def advertise(self, view: View, job: Any) -> None:
        """Advertise a job one hop further than before, unless it is too old."""
        parameters = self.parameters
        if view.now_ns - job.submitted >= nanoseconds(parameters.lifetime):
            view.decide("gave-up", job.number, tasks=job.tasks, saw=job.rounds)
            view.jobs.reject(job)
            return
        first = parameters.first or 1 + max(1, round(math.log10(job.tasks)))
        hops = min(first + job.rounds, parameters.max_hops)
        pause = min(parameters.retry * 2.0 ** min(job.rounds, 60), parameters.longest)
        retry_time = view.now_ns + nanoseconds(pause * float(view.random.uniform(0.5, 1.5)))
        job.phase = WAITING
        job.floods += 1
        job.rounds += 1
        view.jobs.at(job, retry_time, "retry")
        view.decide("advertised", job.number, tasks=job.tasks, saw=hops)
        job.offers = [view.node] if view.jobs.claimed < 0 else []
        self.remember(job.number, job.floods)
        fields = {"job": job.number, "flood": job.floods, "home": view.node, "hops": hops - 1}
        for neighbour in view.neighbours:
            view.send(neighbour, "advert", **fields)
        self.claim_offers(view, job)

    def claim_offers(self, view: View, job: Any) -> None:
        """Claim the first machines that offered themselves, if there are enough."""
        if len(job.offers) >= job.tasks:
            nodes, job.offers = job.offers[: job.tasks], job.offers[job.tasks :]
            self.claim(view, job, nodes)
            if view.jobs.can_fail:  # set a timeout, since replies may be lost
                view.jobs.at(job, job.start + nanoseconds(self.parameters.patience), "overdue")

    def on_offer(self, view: View, message: Any) -> None:
        """Record the non-binding offer of a free machine, unless it answers an earlier flood."""
        job = view.jobs[message.job]
        if message.flood == job.floods and job.phase in (WAITING, COMMITTING):
            job.offers.append(message.sender)
            if job.phase == WAITING:
                self.claim_offers(view, job)

    def on_retry(self, view: View, job: Any) -> None:
        """Advertise a job again if it still waits for machines."""
        self.advertise(view, job)

    def try_again(self, view: View, job: Any) -> None:
        """Claim the machines that had agreed and the remaining offers, or advertise the job again."""
        if view.now_ns < job.timers["retry"]:
            job.offers = job.claimed_nodes + job.offers
            self.claim_offers(view, job)
        else:
            self.advertise(view, job)

    # -- failures -------------------------------------------------------------------------------------------

    def on_job_lost(self, view: View, job: Any) -> None:
        """Restart a job that has lost a machine; the search begins with the first radius."""
        job.rounds = 0
        if job.phase == BROKEN:
            view.jobs.withdraw(job)
            job.resubmitted += len(job.nodes)
            view.decide("missed", job.number, tasks=job.tasks)
        elif not (job.phase == COMMITTING and job.has_lost_node):
            return
        job.claimed_nodes = []
        self.abort(view, job, list(job.nodes))

    def on_overdue(self, view: View, job: Any) -> None:
        """Abort an attempt whose replies were lost in failures."""
        job.conflicts += 1
        job.claimed_nodes = []
        self.abort(view, job, list(job.nodes))

    # -- a machine in the neighbourhood ---------------------------------------------------------------------

    def remember(self, job: int, flood: int) -> bool:
        """Store the number of an advertisement, and return whether it is new here."""
        new = self.newest_floods.pop(job, 0) < flood
        self.newest_floods[job] = flood
        if len(self.newest_floods) > _MEMORY_SIZE:
            del self.newest_floods[next(iter(self.newest_floods))]
        return new

    def on_advert(self, view: View, message: Any) -> None:
        """Forward an advertisement, and offer this machine if it is free."""
        job, hops, sender = message.job, message.hops, message.sender
        new = self.newest_floods.get(job, 0) < message.flood
        if not (new or self.parameters.repeats):
            return
        if hops:
            fields = {"job": job, "flood": message.flood, "home": message.home, "hops": hops - 1}
            for neighbour in view.neighbours:
                if neighbour != sender:
                    view.send(neighbour, "advert", **fields)
        if new:
            self.remember(job, message.flood)
            if view.jobs.claimed < 0:
                view.send(message.home, "offer", job=job, flood=message.flood)


class Zorilla(RigidNodeScheduler, frozen=True, kw_only=True):
    """Zorilla (Drost, van Nieuwpoort and Bal): jobs are advertised within a growing radius.

    The node of a job advertises it to all machines within a number of hops.  Free machines offer themselves.
    As soon as there are enough offers, the node claims the first ones, and the job starts when all of them
    have agreed.  Otherwise the node pauses and advertises the job one hop further.  No machine has a queue or
    a schedule.

    Parameters
    ----------
    degree
        Number of neighbours of each node, drawn at random.
    overlay
        The neighbours of each node instead of drawn ones, as in `NodeScheduler`.
    first
        Number of hops of the first advertisement; None for 1 + log10 of the number of machines that the job
        needs, rounded, and at least 2, as in the published program.
    max_hops
        Maximum number of hops of an advertisement.
    repeats
        Whether a machine forwards each copy of an advertisement that it receives, as the published program
        does, instead of only the first one.
    retry
        First pause, s, multiplied by a random factor in 0.5..1.5; each further pause is twice as long.
    longest
        Maximum pause, s.
    lifetime
        Time after the submission of a job, s, after which the job is rejected instead of advertised again.
    detection
        Time until the nodes in charge of the jobs of a failed machine detect the failure, s.
    patience
        Time that a claiming node waits for replies, s, which may be lost in failures.
    """

    name: ClassVar[str] = "zorilla"
    may_reject: ClassVar[bool] = True  # jobs older than `lifetime` are rejected
    unequal_speeds: ClassVar[bool] = True
    policy = ZorillaNode
    record = FloodRecord
    job_timers: ClassVar[Mapping[str, JobTimer]] = {
        "retry": JobTimer((NEW, WAITING), "retry"),
        "overdue": JobTimer((COMMITTING,), "patience"),
    }
    columns = ("conflicts", "late", "floods")
    messages: ClassVar[dict[str, Message]] = {
        **MESSAGES,
        "advert": Message(SMALL, job=int, flood=int, home=int, hops=int),
        "offer": Message(SMALL, job=int, flood=int),
    }
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {"advertised": "mentions", "gave-up": "mentions"}

    degree: Annotated[int, Limits(low=1, high=2**15)] = 8
    overlay: Overlay | None = None
    first: Annotated[int, Limits(low=1, high=64)] | None = None
    max_hops: Annotated[int, Limits(low=1, high=64)] = 15
    repeats: bool = False
    retry: _Time = 5.0
    longest: _Time = 60.0
    lifetime: _Time = 28_800.0
    detection: _Time = 60.0
    patience: Annotated[_Time, AnswerWait("claims end before machines reply", only_failures=True)] = 120.0
