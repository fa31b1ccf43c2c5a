"""Runs nodes that claim machines for rigid jobs, on the message core and the event engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from gridsim.engine.engine import TIMER
from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.model.applications import run_and_reserved_times
from gridsim.schedulers.coallocation.claims import (
    BROKEN,
    CLAIMING,
    DONE,
    FAILED,
    PLACED,
    SMALL,
    ClaimingNode,
    Job,
)
from gridsim.schedulers.rigid.runs import Runs
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.program import View
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import check_names


class Nodes(Declarations):
    """What is declared of the nodes; subclasses add messages.

    Parameters
    ----------
    of
        The scheduler, with its parameters.
    grid
        What the nodes share.
    """

    local_order = "fifo"
    to_the_end = True  # or until `Grid.over`

    def __init__(self, of: Any, grid: Grid) -> None:
        self.of, self.grid = of, grid


class Grid(Adapter):
    """All nodes of a run, and what they share: the records of jobs, and the accounting of runs.

    Attributes
    ----------
    job_class
        Class of the records.
    declared
        Class of the declarations.
    """

    STATE: ClassVar[tuple[str, ...]] = ("runs", "core", "given_up", "missed_at")
    job_class: ClassVar[type[Job]] = Job
    declared: ClassVar[type[Nodes]] = Nodes

    def __init__(self, of: Any, run: Run, estimate: Any = "run") -> None:
        self.of, self.faults = of, run.faults
        lasts, expected = run_and_reserved_times(run.applications, float(run.speeds[0]), estimate)
        self.runs = Runs(run, lasts)
        jobs = run.applications
        columns = (jobs.submitter.tolist(), jobs.tasks.tolist(), expected.tolist())
        self.records: list[Any] = [
            self.job_class(number, *each) for number, each in enumerate(zip(*columns, strict=True))
        ]
        network = run.network.network
        self.travel = nanoseconds(network.latency) + nanoseconds(network.jitter)
        self.sending = nanoseconds(min(2.0 * SMALL / network.bandwidth, MAX_TRANSFER_TIME))
        self.given_up = 0
        self.missed_at: dict[int, int] = {}  # job that has lost a machine -> ns at which that is detected
        super().__init__(self.declared(of, self), run)

    # -- what nodes ask for ---------------------------------------------------------------------------------

    def lead(self, machines: int) -> int:
        """Return how long before a start its claims must be sent, ns.

        Claims, replies and cancellations leave or arrive one after another, while nothing else does.
        """
        return 3 * (self.travel + (machines + 1) * self.sending)

    def wake(self, time: int, name: str, job: Any) -> None:
        """Let the engine's timer `name` fire for a job."""
        self.run.engine.at(time, name, job.number)
        self.core.wake(time)

    def limit_wait(self, job: Any) -> None:
        """Limit the wait for replies where machines fail, since they may be lost."""
        if self.faults:
            job.due = max(job.start, self.now) + nanoseconds(self.of.patience)
            self.wake(job.due, "overdue", job)

    def place(self, job: Any) -> None:
        """Let a job run on its machines from its start on.  One that has failed since is detected later."""
        job.phase = BROKEN if job.hit else PLACED
        end = self.runs.place(job.number, np.array(job.nodes, np.int64), job.start)
        if not job.hit:
            self.wake(end, "finish", job)

    def withdraw(self, job: Any) -> None:
        """Undo `place`: the job must start again."""
        del self.runs.placed[job.number]

    def reject(self, job: Any) -> None:
        """Give a job up for good."""
        job.phase = FAILED
        self.given_up += 1
        self.over()

    def stop(self, job: int, node: int, attempt: int) -> None:
        """Stop a machine that still works on a lost run of a job."""
        if self.runs.lost_runs:
            self.runs.stop(job, node, attempt, self.now)

    def over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
        if self.runs.completed + self.given_up == len(self.records):
            self.core.stop()
            self.run.engine.stop()

    def in_charge(self, job: Any) -> tuple[ClaimingNode, View] | None:
        """Return the node that is in charge of a job, and its view; None if none is up.

        That is the one to which it was submitted, or the next machine that is up.
        """
        node = job.submitter
        if not self.run.up[node]:
            up = np.flatnonzero(self.run.up)
            if not len(up):
                return None
            node = int(up[np.searchsorted(up, node) % len(up)])
        return self.core.programs[node], self.core.view_of(node, job.number)

    # -- what the adapter asks for --------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register the timers of jobs, and what failures need."""
        engine = self.run.engine
        engine.on("finish", self._finish, priority=1, phase=TIMER)
        engine.on("retry", self._retry, priority=2, phase=TIMER)
        engine.on("overdue", self._overdue, priority=3, phase=TIMER)
        engine.on("broken", self._broken, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Let a job that is submitted while no machine is up wait."""
        self.wake(self.now + nanoseconds(self.of.detection), "retry", self.records[application])

    def _finish(self, jobs: list[int]) -> None:
        """End jobs on all their machines."""
        now = self.run.engine.now
        self.core.enter(now)
        for job in jobs:
            self.runs.end_lost_runs(job, now)
            if self.records[job].phase != PLACED or self.runs.end_of(job) > now:
                continue
            nodes, _ = self.runs.finish(job)
            self.records[job].phase = DONE
            for node in nodes.tolist():
                self.core.programs[node].on_over(self.core.view_of(node, job))
        self.over()

    def _retry(self, jobs: list[int]) -> None:
        self.core.enter(self.run.engine.now)
        for job in jobs:
            self.go_on(self.records[job])

    def go_on(self, job: Any) -> None:
        """Handle the timer of a job that is not placed."""
        raise NotImplementedError

    # -- failures -------------------------------------------------------------------------------------------

    def _overdue(self, jobs: list[int]) -> None:
        self.core.enter(self.run.engine.now)
        for job in jobs:
            record = self.records[job]
            if (found := self.in_charge(record)) is not None:
                found[0].on_overdue(found[1], record)
            elif record.due <= self.now:
                self.limit_wait(record)

    def _broken(self, jobs: list[int]) -> None:
        """Let nodes in charge learn of jobs that have lost a machine."""
        self.core.enter(self.run.engine.now)
        for job in jobs:
            if self.missed_at.get(job) == self.run.engine.now:
                record = self.records[job]
                if (found := self.in_charge(record)) is None:
                    self._detect(record)
                else:
                    del self.missed_at[job]
                    found[0].on_missed(found[1], record)

    def _detect(self, job: Any) -> None:
        """Let the node in charge of a job learn later that the job has lost a machine."""
        self.missed_at[job.number] = self.run.engine.now + nanoseconds(self.of.detection)
        self.wake(self.missed_at[job.number], "broken", job)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Lose the jobs of machines that fail; the nodes in charge detect that `detection` s later."""
        now = self.run.engine.now
        for node in failed.tolist():
            host = self.core.programs[node]
            if host.job < 0:
                continue
            job = self.records[host.job]
            self.runs.stop(host.job, node, host.attempt, now)
            if job.attempt == host.attempt and self._hit(job, node):
                self._detect(job)
        self.up[:] = self.run.up
        self.core.restart(failed, [self.program(node) for node in failed.tolist()], now)

    def _hit(self, job: Any, node: int) -> bool:
        """Handle the failure of a machine of a job; return whether that is news for the node in charge."""
        if job.phase == CLAIMING:
            first, job.hit = not job.hit, True
            return first
        if job.phase == PLACED:
            job.phase = BROKEN
            self.runs.lose(job.number, node, job.attempt, self.run.engine.now)
            return True
        return False

    # -- checkpoints, and the end ---------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        return {**super().getstate(), "records": [SimpleNamespace(**vars(job)) for job in self.records]}

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        check_names(self, state, (*self.STATE, "nodes", "records"))
        records = state.pop("records")
        if len(records) != len(self.records):
            raise ValueError(f"the state must have {len(self.records)} records of jobs, got {len(records)}")
        for job, kept in zip(self.records, records, strict=True):
            check_names(job, vars(kept), vars(job))
            vars(job).update(vars(kept))
        super().setstate(state)

    #: Columns of the applications that are attributes of the records.
    COLUMNS: ClassVar[tuple[str, ...]] = ("resubmitted", "conflicts", "late")

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.runs.settle(self.run.engine.now)
        columns = {
            name: np.array([getattr(job, name) for job in self.records], np.int64) for name in self.COLUMNS
        }
        failed = np.array([job.phase == FAILED for job in self.records], np.int64)
        return self.runs.outcome(failed=failed, **columns)
