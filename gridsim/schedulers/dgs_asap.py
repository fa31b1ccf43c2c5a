"""DGS_ASAP: rigid jobs start as soon as possible on machines found among the neighbours of neighbours.

A job is submitted at some node, the *scheduling node*.  It forwards the request to a few of its neighbours.
Each of these searches the schedules of its own neighbours, and of theirs, for the earliest start.  The
scheduling node takes the best answer and asks the machines in it to commit; where one refuses, since another
job was faster, it releases the others and goes on with the next best answer.

Source: Vasilakos, Sacha and Pierre, "Decentralized as-soon-as-possible grid scheduling" (Figures 2 and 3).
Messages, conflicts and failures are not spelled out there; docs/dgs_asap.md says what they are here.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.slots import SlotSchedules
from gridsim.engine import TIMER, nanoseconds
from gridsim.errors import ScenarioError
from gridsim.model import durations
from gridsim.platform import real, whole
from gridsim.scheduler import Outcome, Policy, Run, Scheduler
from gridsim.schedulers.dgs_failures import Failures
from gridsim.schedulers.dgs_runs import (
    BROKEN,
    COMMITTING,
    DONE,
    FAILED,
    PLACED,
    SEARCHING,
    WAITING,
    Runs,
)
from gridsim.schedulers.dgs_views import Neighbourhood
from gridsim.transport import Rows, message

Integers = NDArray[np.int64]

#: Bytes of a message.
_SMALL, _ANSWER = 128, 1024

REQUEST = message(("application", "i8"), ("search", "i8"))
ANSWER = message(("application", "i8"), ("search", "i8"), ("start", "i8"))
COMMIT = message(("application", "i8"), ("attempt", "i8"), ("start", "i8"))
REPLY = message(("application", "i8"), ("attempt", "i8"), ("start", "i8"), ("taken", "i8"))
CANCEL = message(("application", "i8"), ("start", "i8"))
#: An answer that its searcher has not found yet.
_FOUND = np.dtype([*ANSWER.descr, ("asked", "i8")])

_CHOICES = {
    "policy": ("push", "pull", "poll"),
    "overlay": ("static", "cyclon"),
    "wide": ("widen", "fail"),
    "duration": ("run", "requested"),
}


class DgsAsap(Scheduler, frozen=True, kw_only=True):
    """DGS_ASAP, decentralized co-allocation of rigid jobs over a peer-to-peer overlay.

    forward : neighbours of the scheduling node that search.
    degree : neighbours of each node.
    policy : how a node knows the schedules of its neighbours: ``"push"``: each change is sent to those who
        know the node; ``"pull"``: they are asked for a search; ``"poll"``: every `poll_period` s.
    overlay : ``"static"``, or ``"cyclon"``: shuffled every `cycle` s, `shuffle` entries at a time.
    slot : s; starts are multiples of it, lengths are rounded up to it.
    hops : how far a search goes: 1: neighbours, 2: and their neighbours.
    wide : what a search does when it has reached fewer machines than the job wants: ``"widen"``: go on hop
        by hop, ``"fail"``: nothing, as in the paper's experiments.
    duration : what is reserved: ``"run"``: the run time, which is known; ``"requested"``: what the user
        asked for (or the run time if that is longer), and the rest is released when the job ends.
    rounds : searches in a row when all answers meet conflicts; then the job waits about `retry` s.
    tries : searches after which a job is given up.
    detection : s until a failed machine is missed by its neighbours, and by the scheduling nodes of its jobs.
    patience : s that a scheduling node waits for messages that failures may have lost.
    """

    name: ClassVar[str] = "dgs-asap"
    decentralized: ClassVar[bool] = True
    rigid: ClassVar[bool] = True
    speeds_known: ClassVar[bool] = True  # all are equal

    forward: int = 5
    degree: int = 20
    policy: Literal["push", "pull", "poll"] = "push"
    poll_period: float = 120.0
    overlay: Literal["static", "cyclon"] = "static"
    cycle: float = 600.0
    shuffle: int = 8
    slot: float = 60.0
    hops: int = 2
    wide: Literal["widen", "fail"] = "widen"
    duration: Literal["run", "requested"] = "run"
    rounds: int = 3
    retry: float = 600.0
    tries: int = 100
    detection: float = 60.0
    patience: float = 120.0

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ScenarioError(f"{self.name}.{name} must be one of {known}, got {getattr(self, name)!r}")
        for name, high in (("forward", 2**15), ("degree", 2**15), ("shuffle", 2**15), ("hops", 64)):
            whole(f"{self.name}.{name}", getattr(self, name), low=1, high=high)
        for name in ("rounds", "tries"):
            whole(f"{self.name}.{name}", getattr(self, name), low=1, high=10**6)
        for name in ("poll_period", "cycle", "slot", "retry", "detection", "patience"):
            path, value = f"{self.name}.{name}", getattr(self, name)
            if not 1e-9 <= real(path, value, above=0, unit="s") <= 1e9:
                raise ScenarioError(f"{path} must be in 1e-09..1e+09 s, got {value!r}")

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        return Negotiation(self, run)


def shuffled(seed: int, job: int, search: int, count: int) -> NDArray[np.uint64]:
    """Numbers by which the neighbours are chosen for a search, whatever else happens (SplitMix64)."""
    start = (seed ^ job * 0x9E3779B97F4A7C15 ^ search * 0xD1B54A32D192ED03) & (2**64 - 1)
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Negotiation(Policy):
    """All nodes of a run: those who schedule, those who search, and those who keep their own schedule."""

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
        lasts = durations(jobs, float(run.speeds[0]))
        assert jobs.requested is not None
        wanted = lasts
        if parameters.duration == "requested":
            wanted = np.maximum(lasts, np.rint(jobs.requested * 1e9).astype(np.int64))
        #: Slots that each job reserves.
        self.length = -(-wanted // self.slot)
        # what a message takes: the search counts on it, and refuses what would come too late
        byte = nanoseconds(2.0 / network.network.bandwidth)
        self.one_way = self.latency + byte * _ANSWER + nanoseconds(network.network.jitter)
        self.schedules = SlotSchedules(len(run.speeds), stale=self.latency > 0 or parameters.policy == "poll")
        self.neighbourhood = Neighbourhood(run, parameters, self.latency)
        self.seed = int(run.streams("dgs.forward").integers(2**63))
        self.next_forget = 0
        # of each job
        self.phase = np.zeros(count, np.int8)
        self.attempt, self.searches = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.conflicts, self.late = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.reached, self.resubmitted = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.in_vain = np.zeros(count, np.int64)  # searches since it was last placed
        self.runs = Runs(run, lasts)
        # of those that are being placed: see `_search`
        self.talks: dict[int, SimpleNamespace] = {}
        self.too_large = self.given_up = 0

        network.kind("cancel", CANCEL, _SMALL, self.on_cancels, priority=0)
        network.kind("request", REQUEST, _SMALL, self.on_requests, priority=1)
        network.kind("answer", ANSWER, _ANSWER, self.on_answers, priority=2)
        network.kind("commit", COMMIT, _SMALL, self.on_commits, priority=3)
        network.kind("reply", REPLY, _SMALL, self.on_replies, priority=4)
        network.open()
        engine.on("found", self.on_found, priority=5)
        engine.on("finish", self.on_finish, priority=1, phase=TIMER)
        engine.on("retry", self.on_retry, priority=2, phase=TIMER)
        engine.on("overdue", self.on_overdue, priority=3, phase=TIMER)
        self.failures = Failures(self)

    # -- the scheduling node ------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Jobs are submitted."""
        self._forget()
        for job in applications:
            self.search(job)

    def search(self, job: int) -> None:
        """The scheduling node of `job` asks some of its neighbours to search."""
        home, parameters = self.home(job), self.parameters
        number = int(self.searches[job])
        if self.in_vain[job] >= parameters.tries:
            return self._give_up(job)
        self.searches[job] += 1
        self.in_vain[job] += 1
        self.phase[job] = SEARCHING
        if home < 0:
            return self._wait(job)
        asked = self.neighbourhood.of(home)
        if len(asked) > parameters.forward:
            order = np.argsort(shuffled(self.seed, job, number, len(asked)), kind="stable")
            asked = asked[order[: parameters.forward]]
        # what the scheduling node knows of the search; `found` is what searchers have, which it does not
        # know before their answers come; `hope` that another search may do better
        self.talks[job] = SimpleNamespace(
            missing=len(asked), answers=[], found={}, nodes=None, start=-1, taken=[], hope=False, hit=False,
            due=-1,
        )  # fmt: skip
        if not len(asked):
            return self._choose(job)
        rows = np.zeros(len(asked), REQUEST)
        rows["node"], rows["sender"], rows["application"], rows["search"] = asked, home, job, number + 1
        self.run.network.send("request", rows)
        self._await(job)
        return None

    def on_answers(self, rows: Rows) -> None:
        """Answers come; with the last one the scheduling node chooses."""
        for sender, job, search, start in rows[["sender", "application", "search", "start"]].tolist():
            if self.searches[job] != search or self.phase[job] != SEARCHING:
                continue
            talk = self.talks[job]
            if start >= 0:
                talk.answers.append((start, len(talk.answers), sender))
                talk.hope = True
            talk.missing -= 1
            if talk.missing == 0:
                self._choose(job)

    def _choose(self, job: int) -> None:
        """Ask for the best answer that is left, if there is any."""
        talk = self.talks[job]
        now = self.run.engine.now
        talk.answers.sort()
        while talk.answers:
            start, _, sender = talk.answers.pop(0)
            if start * self.slot < now + self.one_way:
                self.late[job] += 1
                continue
            self.attempt[job] += 1
            self.phase[job] = COMMITTING
            talk.nodes, talk.start, talk.taken, talk.hit = talk.found[sender], start, [], False
            talk.missing = len(talk.nodes)
            rows = np.zeros(len(talk.nodes), COMMIT)
            rows["node"], rows["sender"], rows["application"] = talk.nodes, self.home(job), job
            rows["attempt"], rows["start"] = self.attempt[job], start
            self.run.network.send("commit", rows)
            self._await(job)
            return
        if not talk.hope:
            self._nowhere(job)
        elif self.in_vain[job] % self.parameters.rounds == 0:
            self._wait(job)
        else:
            self.search(job)

    def _nowhere(self, job: int) -> None:
        """Nobody has reached as many machines as the job wants."""
        if self.run.faults and self.parameters.wide == "widen":
            self._wait(job)  # for those that may come back
        else:
            self.too_large += 1
            self._give_up(job)

    def _wait(self, job: int) -> None:
        self.phase[job] = WAITING
        self.talks.pop(job, None)
        chance = int(shuffled(self.seed ^ 1, job, int(self.searches[job]), 1)[0]) / 2**64
        self.run.engine.at(
            self.run.engine.now + nanoseconds(self.parameters.retry * (0.5 + chance)), "retry", job
        )

    def on_retry(self, jobs: list[int]) -> None:
        """Jobs have waited."""
        for job in jobs:
            if self.phase[job] == WAITING:
                self.search(job)

    def _give_up(self, job: int) -> None:
        self.phase[job] = FAILED
        self.talks.pop(job, None)
        self.given_up += 1
        self._over()

    def _over(self) -> None:
        if self.runs.completed + self.given_up == len(self.phase):
            self.run.engine.stop()

    def home(self, job: int) -> int:
        """Who acts for the scheduling node: itself, or the next machine that is up; -1 for nobody."""
        home = int(self.run.applications.submitter[job])
        if self.run.up[home]:
            return home
        up = np.flatnonzero(self.run.up)
        return int(up[np.searchsorted(up, home) % len(up)]) if len(up) else -1

    def _await(self, job: int) -> None:
        """Where machines fail, messages may be lost: it waits for them for so long."""
        if self.run.faults:
            due = self.run.engine.now + nanoseconds(self.parameters.patience)
            self.talks[job].due = due
            self.run.engine.at(due, "overdue", job)

    def on_overdue(self, jobs: list[int]) -> None:
        """What has not come by now will not come."""
        for job in jobs:
            talk = self.talks.get(job)
            if talk is None or talk.due != self.run.engine.now:
                continue
            if self.phase[job] == SEARCHING:
                talk.hope = True
                self._choose(job)
            elif self.phase[job] == COMMITTING:
                self.abort(job)

    def on_replies(self, rows: Rows) -> None:
        """Machines have committed or refused."""
        jobs = rows["application"]
        if (jobs == jobs[0]).all():
            return self._hear(int(jobs[0]), rows)
        for job in np.unique(jobs).tolist():
            self._hear(job, rows[jobs == job])
        return None

    def _hear(self, job: int, rows: Rows) -> None:
        current = (rows["attempt"] == self.attempt[job]) & (self.phase[job] == COMMITTING)
        old = rows[~current & (rows["taken"] == 1)]
        self._cancel(job, old["sender"], old["start"], old["node"])
        rows = rows[current]
        if not len(rows):
            return
        talk = self.talks[job]
        taken = rows["taken"]
        talk.taken += rows["sender"][taken == 1].tolist()
        talk.missing -= len(rows)
        if talk.missing:
            return
        if len(talk.taken) < len(talk.nodes):
            self.abort(job)
            return
        # one that has failed meanwhile is missed later
        self.phase[job] = BROKEN if talk.hit else PLACED
        self.in_vain[job] = 0
        end = self.runs.place(job, talk.nodes, talk.start * self.slot)
        del self.talks[job]
        if not talk.hit:
            self.run.engine.at(max(end, self.run.engine.now), "finish", job)

    def start_again(self, job: int) -> None:
        """The scheduling node hears that a machine of `job` has failed."""
        if self.phase[job] == BROKEN:
            nodes, start = self.runs.placed.pop(job)
            self.resubmitted[job] += len(nodes)
            home = np.full(len(nodes), self.home(job))
            self._cancel(job, nodes, np.full(len(nodes), start // self.slot), home)
            self.search(job)
        elif self.phase[job] == COMMITTING and self.talks[job].hit:
            self.abort(job)

    def abort(self, job: int) -> None:
        """An allocation fails: who has committed is released, and the next answer is tried."""
        talk = self.talks[job]
        self.conflicts[job] += 1
        self.attempt[job] += 1  # replies that still come are to an old one
        nodes = np.array(sorted(talk.taken), np.int64)
        starts = np.full(len(nodes), talk.start)
        self._cancel(job, nodes, starts, np.full(len(nodes), self.home(job)))
        self._choose(job)

    def _cancel(self, job: int, nodes: Integers, starts: Integers, senders: Integers) -> None:
        if len(nodes):
            rows = np.zeros(len(nodes), CANCEL)
            rows["node"], rows["sender"], rows["application"], rows["start"] = nodes, senders, job, starts
            self.run.network.send("cancel", rows)

    # -- those who search ---------------------------------------------------------------------------------

    def on_requests(self, rows: Rows) -> None:
        """Requests come to the neighbours of scheduling nodes: all of a job are answered together."""
        jobs = rows["application"]
        if (jobs == jobs[0]).all():
            return self._search_for(int(jobs[0]), rows)
        for job in np.unique(jobs).tolist():
            self._search_for(job, rows[jobs == job])
        return None

    def _search_for(self, job: int, rows: Rows) -> None:
        run, neighbourhood, now = self.run, self.neighbourhood, self.run.engine.now
        searchers = np.ascontiguousarray(rows["node"])
        starts, nodes, opened, reached = self._look(job, searchers, int(rows["search"][0]))
        takes = neighbourhood.takes(opened)
        neighbourhood.searched(searchers, opened)
        if job in self.talks and self.searches[job] == rows["search"][0]:
            self.talks[job].found.update(zip(searchers.tolist(), nodes, strict=True))
        self.reached[job] = max(int(self.reached[job]), int(reached.max()))
        answers = np.zeros(len(rows), _FOUND)
        answers["node"], answers["sender"], answers["application"] = rows["sender"], searchers, job
        answers["search"], answers["start"], answers["asked"] = rows["search"], starts, now
        for wait in sorted(set(takes.tolist())):
            chosen = answers[takes == wait]
            if wait:
                # the rows wait with the one who searches
                chosen["node"], chosen["sender"] = chosen["sender"].copy(), chosen["node"].copy()
                run.engine.post(now + wait, "found", chosen)
            else:
                self._answer(chosen)

    def _look(self, job: int, searchers: Integers, search: int) -> tuple[Integers, list[Integers], Any, Any]:
        """What searchers find: starts that leave time for all messages, machines, how far they went."""
        now, neighbourhood, parameters = self.run.engine.now, self.neighbourhood, self.parameters
        jobs = self.run.applications
        count = len(searchers)
        starts, opened = np.zeros(count, np.int64), np.zeros(count, np.int64)
        reached, nodes = np.zeros(count, np.int64), [np.zeros(0, np.int64)] * count
        again = np.arange(count)
        # request and answer, commit and reply, release
        earliest = self._slot_at(now + 4 * self.one_way + int(neighbourhood.takes(np.zeros(1, np.int64))[0]))
        while len(again):
            found = self.schedules.search(
                neighbourhood.views.views,
                searchers[again],
                int(jobs.tasks[job]),
                int(self.length[job]),
                earliest,
                exclude=int(jobs.submitter[job]),
                hops=parameters.hops,
                wide=parameters.wide == "widen",
                away=neighbourhood.away if self.run.faults else None,
                **neighbourhood.seen(),
            )
            starts[again], reached[again], opened[again] = found[0], found[3], found[4]
            for k, i in enumerate(again.tolist()):
                nodes[i] = found[2][found[1][k] : found[1][k + 1]]
            # openings take time, too: with many of them another slot may be the first
            ready = now + 4 * self.one_way + neighbourhood.takes(opened)
            again = np.flatnonzero((starts >= 0) & (starts * self.slot < ready))
            if len(again):
                earliest = max(earliest + 1, self._slot_at(int(ready[again].max())))
        return starts, nodes, opened, reached

    def _slot_at(self, time: int) -> int:
        """The first slot that begins at `time` ns or later."""
        return -(-time // self.slot)

    def on_found(self, rows: Rows) -> None:
        """Searches that took their time are over."""
        still = self.run.up[rows["node"]] & (self.failures.last[rows["node"]] < rows["asked"])
        answers = rows[still].copy()
        answers["node"], answers["sender"] = answers["sender"].copy(), answers["node"].copy()
        self._answer(answers)

    def _answer(self, rows: Rows) -> None:
        if len(rows):
            answers = np.zeros(len(rows), ANSWER)
            for name in ANSWER.names or ():
                answers[name] = rows[name]
            self.run.network.send("answer", answers)

    # -- those who run jobs -------------------------------------------------------------------------------

    def on_commits(self, rows: Rows) -> None:
        """Machines are asked to commit: who is free does, if it is not too late."""
        now = self.run.engine.now
        replies = np.zeros(len(rows), REPLY)
        for name in ("application", "attempt", "start"):
            replies[name] = rows[name]
        replies["node"], replies["sender"] = rows["sender"], rows["node"]
        timely = np.flatnonzero(rows["start"] * self.slot >= now)
        chosen = rows if len(timely) == len(rows) else rows[timely]
        nodes, jobs = chosen["node"], chosen["application"]
        taken = self.schedules.reserve(
            nodes.copy(), chosen["start"].copy(), self.length[jobs], jobs.copy(), now
        )
        replies["taken"][timely] = taken
        self.neighbourhood.changed(nodes[taken])
        self.run.network.send("reply", replies)

    def on_cancels(self, rows: Rows) -> None:
        """Machines are told that they are not wanted after all."""
        now = self.run.engine.now
        nodes, jobs, starts = (rows[name].copy() for name in ("node", "application", "start"))
        ends = np.where(starts * self.slot >= now, starts, self._slot_at(now))
        freed = self.schedules.release(nodes, starts, now, ends=ends, jobs=jobs)
        self.neighbourhood.changed(nodes[freed])
        for node, job, start in zip(nodes.tolist(), jobs.tolist(), starts.tolist(), strict=True):
            self.runs.stop(job, node, start * self.slot, now)

    def on_finish(self, jobs: list[int]) -> None:
        """Jobs end on all their machines, which have nothing more to do with them."""
        now = self.run.engine.now
        for job in jobs:
            self.runs.run_out(job, now)
            if self.phase[job] != PLACED or self.runs.end_of(job) > now:
                continue
            nodes, start = self.runs.finish(job)
            self.phase[job] = DONE
            if (start // self.slot + int(self.length[job])) * self.slot - now >= self.slot:
                end = self._slot_at(now)
                starts = np.full(len(nodes), start // self.slot)
                self.schedules.release(nodes, starts, now, ends=np.full(len(nodes), end))
                self.neighbourhood.changed(nodes)
        self._over()

    def _forget(self) -> None:
        now = self.run.engine.now
        if now >= self.next_forget:
            self.schedules.forget(now // self.slot, self.neighbourhood.oldest)
            self.next_forget = now + 3600 * 10**9

    # -- failures, and the end ----------------------------------------------------------------------------

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.schedulers.dgs_failures`."""
        self.failures.on_faults(failed, back)

    def finish(self) -> Outcome:
        """Report."""
        self.runs.settle(self.run.engine.now)
        degrees = self.neighbourhood.views.in_degree()
        exchanges = self.neighbourhood.table()
        failed = self.phase == FAILED
        return Outcome(
            applications={
                **self.runs.applications(),
                "failed": failed.astype(np.int64),
                "resubmitted": self.resubmitted,
                "searches": self.searches,
                "conflicts": self.conflicts,
                "late": self.late,
                "reached": self.reached,
            },
            machines={**self.runs.machines(), "schedules_received": self.neighbourhood.received},
            tables={"exchanges": exchanges},
            facts={
                "too_large": self.too_large,
                "in_degree_min": int(degrees.min()),
                "in_degree_mean": float(degrees.mean()),
                "in_degree_max": int(degrees.max()),
                "in_degree_spread": float(degrees.std()),
            },
            schedule=self.runs.schedule(),
        )
