"""DGS_ASAP: rigid jobs start as soon as possible on machines found among the neighbours of neighbours.

A job is submitted at some node, the *scheduling node*.  It forwards the request to a few of its neighbours.
Each of these searches the schedules of its own neighbours, and of theirs, for the earliest start.  The
scheduling node takes the best answer and asks the machines in it to commit.  If one refuses, since another
job was faster, the scheduling node releases the others and tries the next best answer.

Source: Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling" (Figures 2 and 3).
The paper does not specify messages, conflicts and failures; docs/background/dgs_asap.md describes how they
are modelled here.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.dgs.protocol import (
    ANSWER,
    BROKEN,
    CANCEL,
    COMMIT,
    COMMITTING,
    DONE,
    FAILED,
    PLACED,
    REPLY,
    REQUEST,
    SEARCHING,
    WAITING,
    JobFlow,
)
from gridcore.dgs.slots import SlotSchedules
from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import LONGEST
from gridsim.model.applications import reserved
from gridsim.results.decisions import Words
from gridsim.schedulers.dgs.decisions import WORDS, DgsNotes
from gridsim.schedulers.dgs.failures import Failures
from gridsim.schedulers.dgs.hosting import Hosts
from gridsim.schedulers.dgs.interpreted import Interpreted
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.dgs.searching import Searchers
from gridsim.schedulers.rigid.runs import Runs
from gridsim.scheduling.contract import NodeForm, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers, Rows
from gridsim.support.clock import nanoseconds
from gridsim.support.parameters import Limits

#: The longest time, s (three years): many slots and polls are added up in int64 nanoseconds.
_LONGEST = 1e8
_Time = Annotated[float, Limits(low=1e-9, high=_LONGEST, unit="s")]


class DgsAsap(Scheduler, frozen=True, kw_only=True):
    """DGS_ASAP, decentralized co-allocation of rigid jobs over a peer-to-peer overlay.

    forward : neighbours of the scheduling node that search.
    degree : neighbours of each node.
    policy : how a node learns the schedules of its neighbours: ``"push"``, each change is sent to the nodes
        that know the changed node; ``"pull"``, each search asks for them; ``"poll"``, each node asks for them
        at regular times.
    poll_period : s between two polls of a node.
    overlay : ``"static"``, neighbours stay the same; or ``"cyclon"``, they are shuffled periodically.
    cycle : s between two shuffles of a node.
    shuffle : entries of its view that a node exchanges in one shuffle.
    slot : s; starts are multiples of it, and lengths are rounded up to it.
    hops : how far a search goes: 1 for neighbours, 2 for neighbours and their neighbours.
    candidates : machines that a search may choose: ``"all"``, any among the neighbours that it looks at, as
        in the paper's Figure 3; ``"others"``, the same without the searcher and the scheduling node.
    wide : what a search does when it has reached fewer machines than the job wants: ``"widen"``, it goes on
        hop by hop; ``"fail"``, it stops, as in the paper's experiments.
    duration : time that is reserved: ``"run"``, the run time, which is known; ``"requested"``, what the user
        asked for (or the run time if that is longer), and the rest is released when the job ends.
    rounds : searches in a row after which a job waits, if all answers met conflicts.
    retry : s that a job waits before it searches again, approximately.
    tries : searches in a row without success after which a job is rejected.
    detection : s until the failure of a machine is detected by its neighbours and by the scheduling nodes of
        its jobs.
    patience : s that a scheduling node waits for messages that failures may have lost.
    """

    name: ClassVar[str] = "dgs-asap"
    decentralized: ClassVar[bool] = True
    rigid: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = True  # all speeds are equal
    decision_words: ClassVar[Words] = WORDS
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")

    forward: Annotated[int, Limits(low=1, high=2**15)] = 5
    degree: Annotated[int, Limits(low=1, high=2**15)] = 20
    policy: Literal["push", "pull", "poll"] = "push"
    poll_period: _Time = 120.0
    overlay: Literal["static", "cyclon"] = "static"
    cycle: _Time = 600.0
    shuffle: Annotated[int, Limits(low=1, high=2**15)] = 8
    slot: _Time = 60.0
    hops: Annotated[int, Limits(low=1, high=64)] = 2
    candidates: Literal["all", "others"] = "all"
    wide: Literal["widen", "fail"] = "widen"
    duration: Literal["run", "requested"] = "run"
    rounds: Annotated[int, Limits(low=1, high=10**6)] = 3
    retry: _Time = 600.0
    tries: Annotated[int, Limits(low=1, high=10**6)] = 100
    detection: _Time = 60.0
    patience: _Time = 120.0

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Interpreted(self, run) if run.nodes == "interpreted" else Negotiation(self, run)


# Steps that spread waiting times evenly, whatever the order of jobs and searches.
_GOLDEN, _SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1


#: Bytes of a message.
_SMALL, _ANSWER = 128, 1024


class Negotiation(Policy):
    """The protocol of all nodes of a run: they schedule jobs, search, and keep their own schedules."""

    STATE: ClassVar[tuple[str, ...]] = (
        "schedules", "neighbourhood", "runs", "phase", "attempt", "searches", "conflicts", "late",
        "reached", "resubmitted", "in_vain", "talks", "failures", "next_forget", "too_large", "given_up",
    )  # fmt: skip

    def __init__(self, parameters: DgsAsap, run: Run) -> None:
        self.parameters, self.run = parameters, run
        jobs, engine, network = run.applications, run.engine, run.network
        count = len(jobs)
        self.latency = nanoseconds(network.network.latency)
        self.slot = nanoseconds(parameters.slot)
        lasts, wanted = reserved(jobs, float(run.speeds[0]), parameters.duration)
        #: Slots that each job reserves.
        self.length = -(-wanted // self.slot)
        # the time that a message takes: searches allow for it, and answers that leave too little are dropped
        byte = nanoseconds(min(2.0 / network.network.bandwidth, LONGEST))  # slower ones are rejected below
        self.one_way = self.latency + byte * _ANSWER + nanoseconds(network.network.jitter)
        self.schedules = SlotSchedules(len(run.speeds), stale=self.latency > 0 or parameters.policy == "poll")
        self.neighbourhood = Neighbourhood(run, parameters, self.latency)
        self.next_forget = 0
        # one value for each job
        self.phase = np.zeros(count, np.int8)
        self.attempt, self.searches = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.conflicts, self.late = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.reached, self.resubmitted = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.in_vain = np.zeros(count, np.int64)  # searches since it was last placed
        self.runs = Runs(run, lasts)
        # state of the jobs that are being placed; see `search`
        self.talks: dict[int, SimpleNamespace] = {}
        self.too_large = self.given_up = 0

        searchers, hosts = Searchers(self), Hosts(self)
        network.kind("cancel", CANCEL, _SMALL, hosts.on_cancels, priority=0)
        network.kind("request", REQUEST, _SMALL, searchers.on_requests, priority=1)
        network.kind("answer", ANSWER, _ANSWER, self.on_answers, priority=2)
        network.kind("commit", COMMIT, _SMALL, hosts.on_commits, priority=3)
        network.kind("reply", REPLY, _SMALL, self.on_replies, priority=4)
        network.open()
        engine.on("found", searchers.on_found, priority=5)
        engine.on("finish", hosts.on_finish, priority=1, phase=TIMER)
        engine.on("retry", self.on_retry, priority=2, phase=TIMER)
        engine.on("overdue", self.on_overdue, priority=3, phase=TIMER)
        self.failures = Failures(self)
        self.log = None if run.decisions is None else DgsNotes(self, run.decisions)
        #: The compiled protocol, which replaces the handlers where no machine fails and nothing is recorded.
        self.flow: JobFlow | None = None
        if engine.whole_cohorts and not run.faults and self.log is None:
            self.flow = JobFlow(
                self.schedules, self.neighbourhood.views, network.links, **self._for_the_flow()
            )
            network.run_by(self)
            engine.at_wave_end(self._flush)

    def _for_the_flow(self) -> dict[str, Any]:
        """Return the arguments of `gridcore.dgs.protocol.JobFlow`."""
        run, parameters, neighbourhood = self.run, self.parameters, self.neighbourhood
        kinds = ("cancel", "request", "answer", "commit", "reply")
        return {
            "kinds": [run.network.number(kind) for kind in kinds],
            "settings": {
                "slot": self.slot,
                "one_way": self.one_way,
                "latency": self.latency,
                "at_least": neighbourhood.at_least,
                "opening": neighbourhood.opening,
                "period": neighbourhood.period,
                "width": neighbourhood.width,
                "seed": neighbourhood.seed,
                **{name: getattr(parameters, name) for name in ("forward", "hops", "rounds", "tries")},
                "wide": parameters.wide == "widen",
                "others": parameters.candidates == "others",
                **{policy: parameters.policy == policy for policy in ("push", "pull", "poll")},
                "stale": self.schedules.stale,
                "record": run.record,
            },
            **self._shared(),
        }

    def _shared(self) -> dict[str, Any]:
        """Return the arrays that the compiled protocol shares with this policy."""
        jobs, neighbourhood, runs = self.run.applications, self.neighbourhood, self.runs
        own = ("phase", "attempt", "searches", "in_vain", "conflicts", "late", "reached", "length")
        return {
            "jobs": {
                **{name: getattr(self, name) for name in own},
                **{name: getattr(runs, name) for name in ("lasts", "first_start", "end", "done")},
                "tasks": jobs.tasks,
                "submitter": jobs.submitter,
            },
            "nodes": {
                "received": neighbourhood.received,
                "changes": neighbourhood.changes,
                "first": neighbourhood.first,
                "busy": runs.busy,
                "tasks": runs.tasks,
            },
            "counts": neighbourhood.counts,
        }

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        state = super().getstate()
        return state if self.flow is None else {**state, "flow": self.flow}

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`.

        Raises ValueError if just one of this policy and `state` has a compiled protocol.
        """
        own = dict(state)
        kept = own.pop("flow", None)
        super().setstate(own)
        if (self.flow is None) != (kept is None):
            raise ValueError("the state of Negotiation must have a flow if machines do not fail")
        if self.flow is not None and kept is not None:
            self.flow.bind(**self._shared())
            self.flow.setstate(kept.state)

    # -- as a source of the engine, behind the network ----------------------------------------------------

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        assert self.flow is not None
        return self.flow.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        assert self.flow is not None
        self._heed()
        if self.flow.ending_now == time and not self.flow.over:
            engine.at(time, "finish")  # handled in its order among the events of this instant

    def _heed(self) -> None:
        """Do what the compiled protocol leaves to Python: let jobs wait, count rejected ones, end the run."""
        assert self.flow is not None
        waiting, given_up = self.flow.told()
        for job in waiting:
            self._wait(job)
        self.too_large += sum(too_large for _, too_large in given_up)
        if self.flow.over:
            self.run.engine.stop()

    def _flush(self) -> None:
        assert self.flow is not None
        self.flow.flush(self.run.engine.now)

    # -- the scheduling node ------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Search for machines for jobs that are submitted now."""
        self._forget()
        self.search(applications)

    def search(self, jobs: list[int]) -> None:
        """Let the scheduling nodes of `jobs` ask some of their neighbours to search."""
        if self.flow is not None:
            self.flow.search(np.array(jobs, np.int64), self.run.engine.now)
            self._heed()
            return
        asking, homes = [], []
        for job in jobs:
            if self.in_vain[job] >= self.parameters.tries:
                if self.log is not None:
                    self.log.in_vain("gave-up", job, self.parameters.tries)
                self._give_up(job)
            elif (home := self.home(job)) < 0:
                self._wait(job, "waited-for-machines")
            else:
                asking.append(job)
                homes.append(home)
        who, home_of = np.array(asking, np.int64), np.array(homes, np.int64)
        self.searches[who] += 1
        self.in_vain[who] += 1
        self.phase[who] = SEARCHING
        numbers = self.searches[who]
        offsets, asked = self.neighbourhood.pick(home_of, who, numbers, self.parameters.forward)
        counts = np.diff(offsets)
        for job, count in zip(asking, counts.tolist(), strict=True):
            # What the scheduling node knows of the search.  `found` is what searchers have found, which it
            # does not know before their answers arrive.  `looked` is what answers rest on, if that is
            # recorded.  `hope` is whether another search may do better.
            self.talks[job] = SimpleNamespace(
                missing=count, answers=[], found={}, looked={}, nodes=None, start=-1, taken=[], hope=False,
                hit=False, due=-1,
            )  # fmt: skip
            self._await(job)
        rows = np.empty(len(asked), REQUEST)
        rows["node"], rows["sender"] = asked, home_of.repeat(counts)
        rows["application"], rows["search"] = who.repeat(counts), numbers.repeat(counts)
        if self.log is not None:
            self.log.asks(rows)
        self.run.network.send("request", rows)
        if not counts.all():
            self._choose([job for job in asking if not self.talks[job].missing])

    def on_answers(self, rows: Rows) -> None:
        """Collect answers; with the last one of a search its scheduling node chooses."""
        complete = []
        for _, sender, job, search, start in rows.tolist():
            if self.searches[job] != search or self.phase[job] != SEARCHING:
                continue
            talk = self.talks[job]
            if start >= 0:
                talk.answers.append((start, len(talk.answers), sender))
                talk.hope = True
            talk.missing -= 1
            if talk.missing == 0:
                complete.append(job)
        if complete:
            self._choose(complete)

    def _choose(self, jobs: list[int]) -> None:
        """Ask the machines of the best answers that are left to commit.

        A job without an answer searches again, waits or is rejected.
        """
        soonest = self.run.engine.now + self.one_way
        asking, again = [], []
        for job in jobs:
            if self.home(job) < 0:
                self._wait(job, "waited-for-machines")
                continue
            talk = self.talks[job]
            talk.answers.sort()
            while talk.answers and talk.answers[0][0] * self.slot < soonest:
                self.late[job] += 1
                if self.log is not None:
                    self.log.chooses("dropped", job, talk)
                del talk.answers[0]
            if talk.answers:
                if self.log is not None:
                    self.log.chooses("chose", job, talk)
                talk.start, _, sender = talk.answers.pop(0)
                talk.nodes, talk.taken, talk.hit = talk.found[sender], [], False
                talk.missing = len(talk.nodes)
                asking.append(job)
                self._await(job)
            elif not talk.hope:
                self._nowhere(job)
            elif self.in_vain[job] % self.parameters.rounds == 0:
                self._wait(job)
            else:
                if self.log is not None:
                    self.log.in_vain("searched-again", job, self.parameters.rounds)
                again.append(job)
        if asking:
            self._ask(asking)
        if again:
            self.search(again)

    def _ask(self, jobs: list[int]) -> None:
        """Ask the machines in the chosen answers to commit to `jobs`."""
        talks = [self.talks[job] for job in jobs]
        who = np.array(jobs, np.int64)
        self.attempt[who] += 1
        self.phase[who] = COMMITTING
        counts = [talk.missing for talk in talks]
        rows = np.empty(sum(counts), COMMIT)
        rows["node"] = np.concatenate([talk.nodes for talk in talks])
        rows["sender"] = np.repeat([self.home(job) for job in jobs], counts)
        rows["application"], rows["attempt"] = who.repeat(counts), self.attempt[who].repeat(counts)
        rows["start"] = np.repeat([talk.start for talk in talks], counts)
        self.run.network.send("commit", rows)

    def _nowhere(self, job: int) -> None:
        """Reject `job`, as no searcher reached enough machines, or let it wait if machines may recover."""
        if self.run.faults and self.parameters.wide == "widen":
            self._wait(job, "waited-for-room")  # for machines that may recover
        else:
            if self.log is not None:
                self.log.too_large(job)
            self.too_large += 1
            self._give_up(job)

    def _wait(self, job: int, action: str = "waited") -> None:
        """Let `job` search again after a while, which differs between jobs that compete for machines.

        action : how the decision is recorded.
        """
        self.phase[job] = WAITING
        self.talks.pop(job, None)
        share = 0.5 + (job * _GOLDEN + int(self.searches[job]) * _SILVER) % 1.0
        until = self.run.engine.now + nanoseconds(self.parameters.retry * share)
        if self.log is not None:
            self.log.waits(action, job, until)
        self.run.engine.at(until, "retry", job)

    def on_retry(self, jobs: list[int]) -> None:
        """Search again for jobs whose wait is over."""
        self.search([job for job in jobs if self.phase[job] == WAITING])

    def _give_up(self, job: int) -> None:
        self.phase[job] = FAILED
        self.talks.pop(job, None)
        self.given_up += 1
        self.over()

    def over(self) -> None:
        if self.runs.completed + self.given_up == len(self.phase):
            self.run.engine.stop()

    def home(self, job: int) -> int:
        """Return the scheduling node of `job` if it is up, else the next machine that is; -1 if none is."""
        home = int(self.run.applications.submitter[job])
        if self.run.up[home]:
            return home
        up = np.flatnonzero(self.run.up)
        return int(up[np.searchsorted(up, home) % len(up)]) if len(up) else -1

    def _await(self, job: int) -> None:
        """Limit the wait for the messages of `job` where machines fail, since these messages may be lost."""
        if self.run.faults:
            due = self.run.engine.now + nanoseconds(self.parameters.patience)
            self.talks[job].due = due
            self.run.engine.at(due, "overdue", job)

    def on_overdue(self, jobs: list[int]) -> None:
        """Stop waiting for messages that have not arrived in time: choose, or abort the allocation."""
        for job in jobs:
            talk = self.talks.get(job)
            if talk is None or talk.due != self.run.engine.now:
                continue
            if self.log is not None:
                self.log.overdue(job, talk)
            if self.phase[job] == SEARCHING:
                talk.hope = True
                self._choose([job])
            elif self.phase[job] == COMMITTING:
                self.abort(job)

    def on_replies(self, rows: Rows) -> None:
        """Handle replies of machines that have committed or refused."""
        for home, machine, job, attempt, start, taken in rows.tolist():
            if attempt != self.attempt[job] or self.phase[job] != COMMITTING:
                if taken:  # a commit to an attempt that has been aborted
                    self._cancel(job, *(np.array([value]) for value in (machine, start, home)))
                continue
            talk = self.talks[job]
            if taken:
                talk.taken.append(machine)
            talk.missing -= 1
            if talk.missing:
                continue
            if len(talk.taken) < len(talk.nodes):
                self.abort(job)
            else:
                self._place(job)

    def _place(self, job: int) -> None:
        """Place `job`, now that all its machines have committed."""
        talk = self.talks.pop(job)
        if self.log is not None:
            self.log.places(job, talk)
        # a machine that has failed since is detected later
        self.phase[job] = BROKEN if talk.hit else PLACED
        self.in_vain[job] = 0
        end = self.runs.place(job, talk.nodes, talk.start * self.slot)
        if not talk.hit:
            self.run.engine.at(max(end, self.run.engine.now), "finish", job)

    def start_again(self, job: int) -> None:
        """Let the scheduling node react to the failure of a machine of `job`, which is detected now."""
        if self.phase[job] == BROKEN:
            nodes, start = self.runs.placed.pop(job)
            self.resubmitted[job] += len(nodes)
            if self.log is not None:
                self.log.misses(job, nodes)
            self._release(job, nodes, start // self.slot)
            self.search([job])
        elif self.phase[job] == COMMITTING and self.talks[job].hit:
            self.abort(job)

    def abort(self, job: int) -> None:
        """Abort an allocation: release the machines that have committed, and try the next answer."""
        talk = self.talks[job]
        if self.log is not None:
            self.log.releases(job, talk)
        self.conflicts[job] += 1
        self.attempt[job] += 1  # replies that are still to come belong to the old attempt
        self._release(job, np.array(sorted(talk.taken), np.int64), talk.start)
        self._choose([job])

    def _release(self, job: int, nodes: Integers, start: int) -> None:
        """Let the node that acts for the scheduling node cancel `job` at `nodes`.

        If no machine is up, nothing is sent: machines that are down have lost the job.
        """
        home = self.home(job)
        if home >= 0:
            self._cancel(job, nodes, np.full(len(nodes), start), np.full(len(nodes), home))

    def _cancel(self, job: int, nodes: Integers, starts: Integers, senders: Integers) -> None:
        if len(nodes):
            rows = np.zeros(len(nodes), CANCEL)
            rows["node"], rows["sender"], rows["application"], rows["start"] = nodes, senders, job, starts
            self.run.network.send("cancel", rows)

    def slot_at(self, time: Any) -> Any:
        """Return the first slot that begins at `time` ns or later."""
        return -(-time // self.slot)

    def _forget(self) -> None:
        now = self.run.engine.now
        if now >= self.next_forget:
            self.schedules.forget(now // self.slot, self.neighbourhood.oldest)
            self.next_forget = now + 3600 * 10**9

    # -- failures, and the end ----------------------------------------------------------------------------

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.schedulers.dgs.failures`."""
        self.failures.on_faults(failed, back)

    def finish(self) -> Outcome:
        """Settle lost runs and return the outcome."""
        self.runs.settle(self.run.engine.now)
        if self.flow is not None and self.run.record:
            for job in np.flatnonzero(self.phase == DONE).tolist():
                self.runs.note(job, self.flow.machines_of(job))
        degrees = self.neighbourhood.views.in_degree()
        exchanges = self.neighbourhood.table()
        outcome = self.runs.outcome(
            failed=(self.phase == FAILED).astype(np.int64),
            resubmitted=self.resubmitted,
            searches=self.searches,
            conflicts=self.conflicts,
            late=self.late,
            reached=self.reached,
        )
        outcome.machines["schedules_received"] = self.neighbourhood.received
        outcome.tables["exchanges"] = exchanges
        outcome.facts = {
            "too_large": self.too_large,
            "in_degree_min": int(degrees.min()),
            "in_degree_mean": float(degrees.mean()),
            "in_degree_max": int(degrees.max()),
            "in_degree_spread": float(degrees.std()),
        }
        return outcome
