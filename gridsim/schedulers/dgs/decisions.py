"""Records of the decisions of DGS_ASAP: requests, searches, choices, refusals, and the true values then.

This module is used only where decisions are recorded.  Nothing here changes what nodes do: it only
reads schedules, and takes the true values from the schedules as they are now.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from gridcore.dgs.negotiations import COMMITTING, SEARCHING
from gridcore.dgs.slots import SlotSchedules
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.schedulers.dgs.failures import Absences
from gridsim.schedulers.dgs.jobs import Times
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

_START = "a start at", "s"
#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: DecisionTexts = {
    "asked": ("asked machine {machine} to search, of {among} that it knew", "", ""),
    "opened": (
        "opened {tasks} of its neighbours one by one: too few of {among} were free in the first slot left",
        "machines free:",
        "",
    ),
    "answered": ("answered machine {machine} on {tasks} tasks, after a look at {among} machines", *_START),
    "unreached": ("answered machine {machine} that it had reached too few", "machines reached:", ""),
    "dropped": ("dropped the answer of machine {machine}: a commit would have come too late", *_START),
    "chose": ("chose the answer of machine {machine}, of {among}, and asked its machines to commit", *_START),
    "refused": ("refused machine {machine}: another job had the time", *_START),
    "refused-late": ("refused machine {machine}: the start was past", *_START),
    "released": ("released the {tasks} machines that had committed, as not all did", "commits:", ""),
    "placed": ("placed {tasks} tasks: all machines had committed", *_START),
    "searched-again": ("searched again at once: no answer was left", "searches in a row:", ""),
    "waited": ("waited before the next search: no answer was left", "the time for it:", "s"),
    "waited-for-room": ("waited before the next search: too few were reached", "the time for it:", "s"),
    "waited-for-machines": ("waited before the next search: no machine was up", "the time for it:", "s"),
    "gave-up-too-large": ("gave up: no search had reached enough machines", "machines reached:", ""),
    "gave-up": ("gave up: all searches were in vain", "searches in a row:", ""),
    "overdue": ("waited no longer for what had not come", "messages missing:", ""),
    "missed": ("missed a machine and started all {tasks} tasks again", "machines lost:", ""),
    "gave-up-too-late": ("gave up: no start was left that meets the deadline", *_START),
    "called-off": ("cancelled it, as its user wanted", "machines that held it:", ""),
    "extended": ("extended its slots, which it outlives: {among} other jobs must move", "an end at", "s"),
    "displaced": (
        "searched anew for {tasks} machines: one keeps a job that outlives its slots",
        "machines lost:",
        "",
    ),
}


class DgsRun(Protocol):
    """What `DecisionLog` reads of all nodes of a run."""

    schedules: SlotSchedules
    overlay: Neighbourhood
    absences: Absences
    times: Times
    reach_counts: Integers

    @property
    def now(self) -> int: ...
    @property
    def records(self) -> list[Any]: ...
    def in_charge(self, job: Any) -> int: ...


class DecisionLog:
    """Records what the nodes decide, see `gridsim.schedulers.dgs.node`.

    What this class must remember is in the records of jobs, which are part of the state of a run.

    Parameters
    ----------
    grid
        All nodes of a run.
    log
        The records to which decisions are added.
    """

    def __init__(self, grid: DgsRun, log: Decisions) -> None:
        self.grid, self.log = grid, log

    def note(self, action: str, job: int, decider: int, **said: Any) -> None:
        """Record what `decider` decides on `job` now; see `gridsim.results.decisions.Decisions.note`."""
        self.log.record(action, time=self.grid.now, application=job, decider=decider, **said)

    def of_home(self, action: str, job: Any, **said: Any) -> None:
        """Record what the scheduling node of `job`, or the machine that acts for it, decides now."""
        self.note(action, job.number, self.grid.in_charge(job), **said)

    def seconds(self, slots: int) -> float:
        """Return when a slot begins, s."""
        return float(slots * self.grid.times.slot) / NS

    def earliest(self, nodes: Any, tasks: int, length: int, start: int) -> float:
        """Return the true first start, s, from slot `start` on, of `tasks` tasks on some of `nodes`."""
        found = self.grid.schedules.earliest_start(nodes, tasks, length, start)
        assert found is not None  # there are as many machines as the job wants
        return self.seconds(found[0])

    def age(self, as_of: int) -> float:
        """Return the age of what was known as of an instant, s; before the time 0 nothing has changed."""
        return float(self.grid.now - max(as_of, 0)) / NS

    # -- the scheduling node ------------------------------------------------------------------------------

    def asks(self, job: Any, home: int, neighbours: list[int]) -> None:
        """Record that a scheduling node asks neighbours to search."""
        among = len(self.grid.overlay.known_to(home))
        self.note("asked", job.number, home, machine=np.array(neighbours, np.int64), among=among)

    def chooses(self, action: str, job: Any) -> None:
        """Record that the first answer left is chosen (`action` ``"chose"``) or dropped (``"dropped"``).

        The true value is the first start, from that of the answer on, at which its machines really are free
        together.  If that is past, it is the first one from now on: nobody knows what was reserved before.
        """
        start, _, searcher, _, nodes = job.answers[0]
        now = -(-self.grid.now // self.grid.times.slot)
        self.of_home(
            action,
            job,
            machine=searcher,
            tasks=len(nodes),
            among=len(job.answers),
            saw=self.seconds(start),
            limit=float(self.grid.now + self.grid.times.one_way) / NS,
            true=self.earliest(nodes, len(nodes), job.length, max(start, now)),
            age=self.age(job.search_log[searcher].oldest),
        )

    def waits(self, action: str, job: Any, until: int) -> None:
        """Record that the job waits until `until` ns."""
        self.of_home(action, job, saw=float(until) / NS, age=0.0)

    def overdue(self, job: Any) -> None:
        """Record that messages have not arrived in time, and how many."""
        self.of_home("overdue", job, saw=job.missing, true=job.missing, age=0.0)

    def in_vain(self, action: str, job: Any, limit: int) -> None:
        """Record how many searches in a row were in vain, and the `limit` for that number."""
        self.of_home(action, job, saw=job.in_vain, limit=limit, true=job.in_vain, age=0.0)

    def too_large(self, job: Any) -> None:
        """Record that `job` is rejected because no searcher reached enough machines."""
        self.of_home("gave-up-too-large", job, saw=int(self.grid.reach_counts[job.number]), limit=job.tasks)

    def too_late(self, job: Any, start: int) -> None:
        """Record that `job` is rejected because its first possible `start` is too late for its deadline."""
        self.of_home("gave-up-too-late", job, saw=self.seconds(start), limit=self.seconds(job.latest))

    def calls_off(self, job: Any, holding: int) -> None:
        """Record that the user of `job` cancels it, and how many machines held slots for it."""
        self.of_home("called-off", job, tasks=holding, saw=holding)

    def releases(self, job: Any) -> None:
        """Record that an allocation failed and its machines are released."""
        taken = len(job.taken)
        self.of_home("released", job, tasks=taken, saw=taken, limit=len(job.nodes))

    def places(self, job: Any) -> None:
        """Record that all machines have committed, and the start that they agreed on.

        If one of them has failed since then, nobody knows that yet, and the true value is NaN.
        """
        start = self.seconds(job.start)
        true = np.nan if job.has_lost_node else start
        self.of_home("placed", job, tasks=len(job.nodes), saw=start, true=true)
        job.search_log = {}

    def misses(self, job: Any) -> None:
        """Record that the failure of a machine of `job` is detected and its tasks are started again.

        The true value is how many of its machines have failed since that failure, including it.
        """
        absences = self.grid.absences
        failed = absences.since(self.grid.now, job.nodes)
        self.of_home(
            "missed", job, tasks=len(job.nodes), saw=1, true=failed, age=float(absences.detection) / NS
        )

    def moves(self, job: Any) -> None:
        """Record that a machine has displaced `job`, whose tasks are started again."""
        self.of_home("displaced", job, tasks=len(job.nodes), saw=1)

    def _awaited(self, job: Any, search: int) -> bool:
        """Return whether the scheduling node still has a use for answers of this search."""
        return job.searches == search and job.phase in (SEARCHING, COMMITTING)

    # -- searchers ----------------------------------------------------------------------------------------

    def looks(self, searcher: int, message: Any, candidates: Any, first: int, left: int) -> None:
        """Remember what the answer of a searcher rests on, and record that it has opened neighbours.

        Parameters
        ----------
        candidates
            Its ``nodes``, ``as_of``, ``own`` and ``opened``, as in
            `gridsim.schedulers.dgs.candidates.Candidates`.
        first
            Slot from which on it looked for starts.
        left
            The first slot that leaves time for all messages after these openings.
        """
        job, own, schedules = self.grid.records[message.application], candidates.own, self.grid.schedules
        if not self._awaited(job, message.search):
            return
        if candidates.opened:
            nodes, as_of = candidates.nodes[:own], candidates.as_of[:own]
            seen = as_of if schedules.stale else None
            self.note(
                "opened",
                job.number,
                searcher,
                machine=message.sender,
                tasks=candidates.opened,
                among=own,
                saw=int(schedules.is_free(nodes, first, job.length, seen).sum()),
                limit=job.tasks,
                true=int(schedules.is_free(nodes, first, job.length).sum()),
                age=self.age(int(np.min(as_of, initial=self.grid.now))),
            )
        job.search_log[searcher] = SimpleNamespace(
            candidates=np.array(candidates.nodes, np.int64),
            oldest=int(np.min(candidates.as_of, initial=self.grid.now)),
            slot=max(left, first),
        )

    def answers(self, searcher: int, home: int, job_number: int, search: int, start: int) -> None:
        """Record that a searcher answers; the true value is the first start of its candidates now."""
        job = self.grid.records[job_number]
        if not self._awaited(job, search):
            return
        record, said = job.search_log[searcher], {"machine": home, "tasks": job.tasks}
        candidates, record.candidates = record.candidates, None
        reached, age = len(candidates), self.age(record.oldest)
        if start < 0:
            self.note(
                "unreached", job.number, searcher, saw=reached, limit=job.tasks, true=reached, age=age, **said
            )
            return
        self.note(
            "answered",
            job.number,
            searcher,
            among=reached,
            saw=self.seconds(start),
            limit=self.seconds(record.slot),
            true=self.earliest(candidates, job.tasks, job.length, record.slot),
            age=age,
            **said,
        )

    # -- machines that run jobs ---------------------------------------------------------------------------

    def extends(self, node: int, job: int, end: int, displaced: int) -> None:
        """Record that a machine extends the slots of a job to slot `end`, for which others must move."""
        until = self.seconds(end)
        self.note("extended", job, node, among=displaced, saw=until, true=until, age=0.0)

    def refuses(self, action: str, node: int, commit: Any) -> None:
        """Record that a machine refuses to commit.

        Parameters
        ----------
        action
            ``"refused"``, where the threshold is its first free start; or ``"refused-late"``, where it is the
            present time.
        """
        limit = float(self.grid.now) / NS
        if action == "refused":
            limit = self.earliest([node], 1, commit.length, commit.start)
        saw = self.seconds(commit.start)
        self.note(action, commit.application, node, machine=commit.sender, saw=saw, limit=limit, age=0.0)
