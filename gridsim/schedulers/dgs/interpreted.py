"""Runs the node program of DGS_ASAP on each machine, on the message core and the event engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np

from gridcore.dgs.negotiations import BROKEN, CANCELLED, COMMITTING, DONE, FAILED, PLACED
from gridcore.dgs.slots import SlotSchedules
from gridsim.engine.engine import TIMER
from gridsim.schedulers.dgs.decisions import DecisionLog
from gridsim.schedulers.dgs.failures import Failures
from gridsim.schedulers.dgs.jobs import Times, outcome
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.dgs.node import MESSAGES, DgsNode, Job
from gridsim.schedulers.rigid.times import set_cancellation_timers
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.program import View
from gridsim.scheduling.nodes.slots import MachineSlots
from gridsim.scheduling.rigid_runs import Runs
from gridsim.support.arrays import Bools, Integers
from gridsim.support.state import check_names


class Silent:
    """Stands for the record of decisions where they are not recorded."""

    def __getattr__(self, name: str) -> Any:
        return self._nothing

    @staticmethod
    def _nothing(*_: Any) -> None:
        pass


class Nodes(Declarations):
    """The declarations of the node program; `DecisionLog` has the words for decisions.

    Attributes
    ----------
    detection, patience
        See `gridsim.schedulers.dgs.scheduler.DgsAsap`.
    """

    name = "dgs-asap"
    messages = {name: kind for name, kind in MESSAGES.items() if name != "displaced"}
    local_order = "fifo"
    to_the_end = True  # or until `Interpreted.over`

    def __init__(self, of: Any) -> None:
        self.detection, self.patience = of.detection, of.patience


class DisplacingNodes(Nodes):
    """The same where jobs may outlive what they have reserved, and displace others; see `Times.outlived`."""

    messages = MESSAGES


class Interpreted(Adapter):
    """All nodes of a run, and what they share: jobs, the overlay, and the accounting of runs.

    It is `gridsim.schedulers.dgs.node.Jobs` for the nodes.
    """

    STATE = (
        "schedules", "overlay", "runs", "failures", "core", "reached", "why", "given_up", "next_forget",
    )  # fmt: skip

    def __init__(self, parameters: Any, run: Run) -> None:
        self.of, self.faults = parameters, run.faults
        jobs, machines = run.applications, len(run.speeds)
        self.times = times = Times(parameters, run)
        self.schedules = SlotSchedules(machines, stale=times.stale)
        self.overlay = self.make_overlay(run)
        self.runs = Runs(run, times.lasts)
        group = np.full(len(jobs), -1) if jobs.group is None else jobs.group
        wanted = jobs.submitter, jobs.tasks, times.length, group, times.earliest, times.latest
        columns = [each.tolist() for each in wanted]
        self.records = [Job(number, *each) for number, each in enumerate(zip(*columns, strict=True))]
        self.reached = np.zeros(len(jobs), np.int64)
        self.given_up = self.next_forget = 0
        #: How many jobs were rejected for each reason, see `Jobs.reject`.
        self.why = dict.fromkeys(("", "too_large", "too_late"), 0)
        self.log: Any = Silent() if run.decisions is None else DecisionLog(self, run.decisions)
        super().__init__((DisplacingNodes if times.outlived else Nodes)(parameters), run)

    def make_overlay(self, run: Run) -> Neighbourhood:
        """Make the overlay of the nodes."""
        return Neighbourhood(run, self.of, self.times.latency)

    # -- what the adapter asks for ------------------------------------------------------------------------

    def program(self, node: int) -> DgsNode:
        """See `Adapter`."""
        return DgsNode(self.of, self, self.overlay, self.log)

    def neighbours(self) -> Integers:
        """Return no neighbours: nodes know them by the overlay, which changes."""
        return np.zeros((self.layout.nodes, 0), np.int64)

    def slots(self, node: int) -> MachineSlots:
        """Return the slot schedule of a machine, for its node."""
        return MachineSlots(self.schedules, node, lambda: self.now, self._stop)

    def register_failure_timers(self) -> None:
        """Register the timers of jobs, and what failures need."""
        engine = self.run.engine
        engine.on("finish", self._finish, priority=1, phase=TIMER)
        engine.on("retry", self._retry, priority=2, phase=TIMER)
        engine.on("overdue", self._overdue, priority=3, phase=TIMER)
        engine.on("call-off", self._call_off, priority=5, phase=TIMER)
        engine.on("outlived", self._outlived, priority=6, phase=TIMER)
        set_cancellation_timers(engine, self.run.applications)
        self.failures = Failures(cast(Any, self))  # it has what they use of `Shared`

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Let a job that is submitted while no machine is up wait."""
        self._anybody.search(self.records[application])

    @property
    def _anybody(self) -> DgsNode:
        """A node for what does not depend on which one it is: `Jobs.home` says who acts for a job."""
        return next(node for node in self.core.programs if isinstance(node, DgsNode))

    # -- what nodes are given, see `gridsim.schedulers.dgs.node.Jobs` -----------------------------------

    def home(self, job: Job) -> View | None:
        """See `Jobs`."""
        node = job.submitter
        if not self.run.up[node]:
            up = np.flatnonzero(self.run.up)
            if not len(up):
                return None
            node = int(up[np.searchsorted(up, node) % len(up)])
        return self.core.view_of(node, job.number)

    def wake(self, time: int, name: str, job: Job) -> None:
        """See `Jobs`."""
        self.run.engine.at(time, name, job.number)
        self.core.wake(time)

    def suited(self, group: int) -> Bools | None:
        """See `Jobs`."""
        suited = self.run.applications.suited
        return None if suited is None else suited[group]

    def place(self, job: Job) -> None:
        """See `Jobs`.  A machine that has failed since is detected later."""
        job.phase = int(BROKEN if job.hit else PLACED)
        nodes, slot = np.array(job.nodes, np.int64), self.times.slot
        end = self.runs.place(job.number, nodes, job.start * slot, (job.start + job.length) * slot)
        if not job.hit:
            self.wake(max(end, self.now), "finish", job)
            self._watch(job)

    def _watch(self, job: Job) -> None:
        """Look at a job again when what it has reserved ends, if it goes on then."""
        if self.runs.outlives(job.number):
            self.wake(int(self.runs.until[job.number]), "outlived", job)

    def withdraw(self, job: Job) -> None:
        """See `Jobs`."""
        del self.runs.placed[job.number]

    def reject(self, job: Job, why: str = "") -> None:
        """See `Jobs`."""
        job.phase = int(FAILED)
        self.given_up += 1
        self.why[why] += 1
        self.over()

    def cancel(self, job: Job) -> None:
        """See `Jobs`."""
        if job.phase == PLACED:
            start, until = job.start * self.times.slot, int(self.runs.until[job.number])
            self.runs.cancel(job.number, np.array(job.nodes, np.int64), start, until, job.attempt, self.now)
        self.runs.placed.pop(job.number, None)
        job.phase = int(CANCELLED)
        job.attempt += 1  # replies that are still to come belong to the old attempt
        self.given_up += 1
        self.over()

    def count(self, what: Literal["extended", "displaced"]) -> None:
        """See `Jobs`."""
        setattr(self.runs, what, getattr(self.runs, what) + 1)

    def reach(self, job: int, nodes: int) -> None:
        """See `Jobs`."""
        self.reached[job] = max(self.reached[job], nodes)

    def over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
        if self.runs.completed + self.given_up == len(self.records):
            self.core.stop()
            self.run.engine.stop()

    def _stop(self, job: int, node: int, attempt: int) -> None:
        """Stop a machine that still works on a lost run of a job."""
        if self.runs.lost_runs:
            self.runs.stop(job, node, attempt, self.now)

    # -- events of the engine ---------------------------------------------------------------------------

    def _finish(self, jobs: list[int]) -> None:
        """End jobs on all their machines."""
        now = self.run.engine.now
        self.core.enter(now)
        for job in jobs:
            self.runs.end_lost_runs(job, now)
            if self.records[job].phase != PLACED or self.runs.end_of(job) > now:
                continue
            nodes, start = self.runs.finish(job)
            self.records[job].phase = int(DONE)
            for node in nodes.tolist() if self.of.early == "release" else ():
                program: DgsNode = self.core.programs[node]
                view, attempt = self.core.view_of(node, job), self.records[job].attempt
                program.on_over(view, job, attempt, start // self.times.slot)
        if now >= self.next_forget:
            # what ends now may still be extended
            self.schedules.forget(max(0, now // self.times.slot - 1), self.overlay.oldest)
            self.next_forget = now + 3600 * 10**9
        self.over()

    def _outlived(self, jobs: list[int]) -> None:
        """Let jobs that go on after what they have reserved extend it on all their machines."""
        now = self.run.engine.now
        self.core.enter(now)
        for number in sorted({*jobs}):
            job = self.records[number]
            if job.phase != PLACED or self.runs.until[number] != now or not self.runs.outlives(number):
                continue  # the timer belongs to a reservation that was lost
            end = self.runs.extend(number, self.times.slot) // self.times.slot
            for node in job.nodes:
                program: DgsNode = self.core.programs[node]
                program.on_outlived(self.core.view_of(node, number), number, job.attempt, job.start, end)
            self._watch(job)

    def _retry(self, jobs: list[int]) -> None:
        self.core.enter(self.run.engine.now)
        for job in jobs:
            self._anybody.on_retry(self.records[job])

    def _overdue(self, jobs: list[int]) -> None:
        self.core.enter(self.run.engine.now)
        for job in jobs:
            self._anybody.on_overdue(self.records[job])

    def _call_off(self, jobs: list[int]) -> None:
        self.core.enter(self.run.engine.now)
        for job in jobs:
            self._anybody.on_call_off(self.records[job])

    # -- failures ---------------------------------------------------------------------------------------

    def displace(self, job: int, node: int, attempt: int) -> None:
        """See `Jobs`."""
        if self.hit(job, node, attempt):
            self.failures.displaced(job, attempt)

    def hit(self, number: int, node: int, attempt: int) -> bool:
        """See `gridsim.schedulers.dgs.failures.Grid`."""
        job = self.records[number]
        if job.phase == COMMITTING and job.attempt == attempt:
            first, job.hit = not job.hit, True
            return first
        if job.phase == PLACED and job.attempt == attempt:
            job.phase = int(BROKEN)
            self.runs.lose(number, node, attempt, self.now)
            return True
        return False

    def search_anew(self, job: int, attempt: int) -> None:
        """See `gridsim.schedulers.dgs.failures.Grid`."""
        self.core.enter(self.run.engine.now)
        self._anybody.move(self.records[job], attempt)

    def start_again(self, job: int) -> None:
        """See `gridsim.schedulers.dgs.failures.Grid`."""
        self.core.enter(self.run.engine.now)
        self._anybody.on_missed(self.records[job])

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.schedulers.dgs.failures`."""
        self.failures.on_faults(failed, back)
        self.up[:] = self.run.up
        self.core.restart(failed, [self.program(node) for node in failed.tolist()], self.run.engine.now)

    # -- checkpoints, and the end -----------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        return {
            **super(Adapter, self).getstate(),
            "records": [SimpleNamespace(**vars(job)) for job in self.records],
        }

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        check_names(self, state, (*self.STATE, "records"))
        records = state.pop("records")
        if len(records) != len(self.records):
            raise ValueError(f"the state must have {len(self.records)} records of jobs, got {len(records)}")
        for job, kept in zip(self.records, records, strict=True):
            check_names(job, vars(kept), vars(job))
            vars(job).update(vars(kept))
        super(Adapter, self).setstate(state)
        self.up[:] = self.run.up

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.runs.settle(self.run.engine.now)
        if self.runs.cancelled is not None:
            self.runs.cancelled[:] = [job.phase == CANCELLED for job in self.records]
        columns = ("resubmitted", "searches", "conflicts", "late")
        return outcome(
            self.runs,
            self.overlay,
            self.why["too_large"],
            None if self.run.applications.deadline is None else self.why["too_late"],
            failed=np.array([job.phase == FAILED for job in self.records], np.int64),
            **{name: np.array([getattr(job, name) for job in self.records], np.int64) for name in columns},
            reached=self.reached,
        )
