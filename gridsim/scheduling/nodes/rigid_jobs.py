"""Rigid jobs in node programs: what nodes know of jobs, claims of machines, and the adapter that runs jobs.

A job runs on machines that have agreed to it: each has made a claim (`NodeJobs.claim`).  Once all have
agreed, the node in charge of the job starts it (`NodeJobs.start`); its machines run it and are then free
again, without a further message.

The node in charge of a job is the one to which it was submitted; while that is down, the node of the next
machine.  What it knows of the job (`JobRecord`) is kept by the user who submitted it: no failure erases that,
and the next node in charge has it.  So do the timers of jobs, which fire at the node that is then in charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gridcore.dgs.negotiations import BROKEN, COMMITTING, DONE, FAILED, NEW, PLACED
from gridsim.engine.engine import TIMER
from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.errors import SchedulerError
from gridsim.model.applications import run_and_reserved_times
from gridsim.scheduling.contract import FAULT_PRIORITY, NodeForm, Outcome, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, ProgramScheduler
from gridsim.scheduling.nodes.timers import handler_name
from gridsim.scheduling.rigid_runs import Runs
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.state import check_names


class JobRecord:
    """What the node in charge of a job knows of it; no failure erases that.

    Parameters
    ----------
    number, submitter
        The job, and the machine to which it was submitted.
    tasks
        Machines that it wants.
    length
        ns for which it is expected to run.

    Attributes
    ----------
    phase
        One of the constants of `gridcore.dgs.negotiations`; `NEW` at first.
    attempt
        The number of its newest attempt to claim machines.
    nodes, start
        Machines that are claimed or that run it, and from when on (ns).
    has_lost_node
        Whether one of the machines has failed, which the node in charge learns later.
    resubmitted
        Tasks that had to start again.
    timers
        Name -> when the timer fires, or has fired (ns).
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        self.number, self.submitter, self.tasks, self.length = number, submitter, tasks, length
        self.phase, self.attempt, self.nodes, self.start = int(NEW), 0, list[int](), -1
        self.has_lost_node, self.resubmitted = False, 0
        self.timers: dict[str, int] = {}


class JobTimer(NamedTuple):
    """A timer of jobs, which ``on_<name>(view, job)`` of the node in charge handles.

    Parameters
    ----------
    phases
        The phases of a job in which it counts; else it does not fire.
    pause
        The parameter of the scheduler that says after how long (s) it fires again if no machine is up.
    """

    phases: tuple[int, ...]
    pause: str


class RigidNodeScheduler(ProgramScheduler, frozen=True, kw_only=True):
    """Base class of schedulers of rigid jobs that are written as the program of one node.

    Besides the handlers of `NodeProgram`, the programs have ``on_job_end(view, application)``, called on each
    machine of a job that has ended there, ``on_job_lost(view, job)``, called on the node in charge of a job
    that has lost a machine, and those of `job_timers`.

    Attributes
    ----------
    record
        The class of what is known of a job, a subclass of `JobRecord`.
    job_timers
        Name -> `JobTimer`.  The first one also fires ``detection`` s after the release of a job while no
        machine is up.
    columns
        Attributes of the records that become columns of ``result.applications``.
    rejections
        Reasons for `NodeJobs.reject`; the result counts each in ``facts``.
    """

    rigid: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    speeds_known: ClassVar[bool] = True  # all speeds are equal
    local_order = "fifo"
    to_the_end: ClassVar[bool] = True  # or until all jobs are over
    record: ClassVar[type[JobRecord]] = JobRecord
    job_timers: ClassVar[Mapping[str, JobTimer]] = {}
    columns: ClassVar[tuple[str, ...]] = ()
    rejections: ClassVar[tuple[str, ...]] = ()

    @property
    def adapter_handlers(self) -> Mapping[str, tuple[str, ...]]:
        """Handlers that the adapter calls itself -> their parameters after ``self``."""
        timers = {handler_name(name): ("view", "job") for name in self.job_timers}
        return {"on_job_end": ("view", "application"), "on_job_lost": ("view", "job"), **timers}

    def start(self, run: Run) -> Policy:
        """Make the policy that runs the nodes and the jobs."""
        self._check_classes()
        return RigidAdapter(self, run)


class NodeJobs:
    """What one node knows of rigid jobs and does with them (`View.jobs`).

    Parameters
    ----------
    adapter
        The adapter of the run.
    node
        The node.
    """

    def __init__(self, adapter: RigidAdapter, node: int) -> None:
        self._adapter, self._node = adapter, node
        self._machine = int(adapter.layout.machine_of[node])

    def __getitem__(self, application: int) -> Any:
        """Return the record of a job of which this node is in charge, or that a message brings here."""
        records = self._adapter.records
        if not 0 <= application < len(records):
            raise SchedulerError(
                f"{self._place} application must be in 0..{len(records) - 1}, got {application}"
            )
        self._adapter.core.view_of(self._node, application)
        return records[application]

    # -- this machine ---------------------------------------------------------------------------------------

    @property
    def claimed(self) -> int:
        """The job that has claimed this machine; -1 for none."""
        return int(self._adapter.claims[self._machine])

    def claim(self, application: int, attempt: int) -> bool:
        """Claim this machine for an attempt to start a job; return False if another job has claimed it."""
        adapter = self._adapter
        if adapter.claims[self._machine] >= 0:
            return False
        adapter.claims[self._machine], adapter.attempts[self._machine] = application, attempt
        return True

    def release(self, application: int, attempt: int) -> None:
        """Give up a claim, if there is one, and stop the job here if it has lost another machine."""
        self._adapter.release(self._machine, application, attempt)

    # -- jobs -----------------------------------------------------------------------------------------------

    def start(self, job: Any) -> None:
        """Run a job on ``job.nodes`` from ``job.start`` (ns) on.

        If one of them has failed since it agreed, the job is lost, which is detected later.

        Raises
        ------
        SchedulerError
            If one of the machines has not agreed to this attempt.
        """
        adapter = self._adapter
        for node in () if job.has_lost_node else job.nodes:
            if (adapter.claims[node], adapter.attempts[node]) != (job.number, job.attempt):
                raise SchedulerError(
                    f"{self._place} job.nodes must be machines that have agreed to attempt {job.attempt} of "
                    f"job {job.number}, got {node}"
                )
        adapter.start_job(job)

    def withdraw(self, job: Any) -> None:
        """Undo `start` of a job that has lost a machine."""
        del self._adapter.runs.placed[job.number]

    def reject(self, job: Any, reason: str = "") -> None:
        """Reject a job for good, for one of the `RigidNodeScheduler.rejections` or another reason."""
        self._adapter.reject(job, reason)

    def timer(self, job: Any, instant: int, name: str) -> None:
        """Set a timer of a job to fire at `instant` (ns), in place of an earlier one of this name."""
        self._adapter.set_timer(job, instant, name)

    # -- what nodes may assume ------------------------------------------------------------------------------

    @property
    def can_fail(self) -> bool:
        """Whether machines may fail in this run."""
        return self._adapter.run.faults

    @property
    def latency(self) -> int:
        """The longest time that a message without size takes, ns."""
        network = self._adapter.run.network.network
        return nanoseconds(network.latency) + nanoseconds(network.jitter)

    def transfer_time(self, nbytes: int) -> int:
        """Return how long the interfaces of sender and receiver need for a message, ns."""
        bandwidth = self._adapter.run.network.network.bandwidth
        return nanoseconds(min(2.0 * nbytes / bandwidth, MAX_TRANSFER_TIME))

    @property
    def _place(self) -> str:
        return f"t = {self._adapter.now / NS} s: node {self._node}:"


class RigidAdapter(Adapter):
    """Runs the nodes of a `RigidNodeScheduler`, and the rigid jobs on their machines.

    It is an adapter of its own since jobs do not wait in task queues: they run on several machines at once,
    and end there without a message.

    Attributes
    ----------
    records
        The records of all jobs.
    claims, attempts
        int64[machines], the job that has claimed each machine (-1 for none), and in which attempt.
    lost_at
        Job that has lost a machine -> when that is detected, ns.
    rejected
        Reason -> number of jobs rejected for it.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "runs", "core", "notes", "claims", "attempts", "lost_at", "rejected",
    )  # fmt: skip

    def __init__(self, parameters: RigidNodeScheduler, run: Run) -> None:
        jobs, machines = run.applications, len(run.speeds)
        estimate: Any = getattr(parameters, "estimate", "run")
        durations, lengths = run_and_reserved_times(jobs, float(run.speeds[0]), estimate)
        self.runs = Runs(run, durations)
        columns = jobs.submitter.tolist(), jobs.tasks.tolist(), lengths.tolist()
        self.records = [
            parameters.record(number, *row) for number, row in enumerate(zip(*columns, strict=True))
        ]
        self.claims, self.attempts = np.full(machines, -1, np.int64), np.zeros(machines, np.int64)
        self.lost_at: dict[int, int] = {}
        self.rejected = dict.fromkeys(("", *parameters.rejections), 0)
        self.detection = nanoseconds(getattr(parameters, "detection", 0.0))
        super().__init__(parameters, run)

    def node_jobs(self, node: int) -> NodeJobs:
        """Return what `View.jobs` of a node is."""
        return NodeJobs(self, node)

    # -- jobs -----------------------------------------------------------------------------------------------

    def in_charge(self, job: Any) -> int:
        """Return the node that is in charge of a job; -1 if no machine is up."""
        machines = len(self.run.speeds)
        nodes = self.layout.release_nodes[(job.submitter + np.arange(machines)) % machines]
        up = np.flatnonzero(self.up[nodes])
        return int(nodes[up[0]]) if len(up) else -1

    def call(self, handler: str, node: int, application: int, argument: Any) -> None:
        """Call a handler of a node about a job, which the node then knows."""
        view = self.core.view_of(node, application)
        method = getattr(self.core.programs[node], handler, None)
        if method is not None:
            method(view, argument)

    def set_timer(self, job: Any, instant: int, name: str) -> None:
        """Let a timer of a job fire at `instant`, ns."""
        job.timers[name] = instant
        self.wake(instant, name, job)

    def wake(self, instant: int, name: str, job: Any) -> None:
        """Let the engine's timer `name` fire for a job at `instant`, ns."""
        self.run.engine.at(instant, name, job.number)
        self.core.wake(instant)

    def start_job(self, job: Any) -> None:
        """Run a job on its machines."""
        job.phase = int(BROKEN if job.has_lost_node else PLACED)
        end = self.runs.place(job.number, np.array(job.nodes, np.int64), job.start)
        if job.phase == PLACED:
            self.wake(end, "finish", job)

    def reject(self, job: Any, reason: str) -> None:
        """Reject a job for good."""
        if reason not in self.rejected:
            raise SchedulerError(
                f"{self.parameters.name}: the reason of a rejection must be one of "
                f"{', '.join(self.parameters.rejections)}, got {reason!r}"
            )
        job.phase = int(FAILED)
        self.rejected[reason] += 1
        self._end_if_over()

    def release(self, machine: int, application: int, attempt: int) -> None:
        """End a claim of a machine, and stop the job there if it has lost another machine."""
        if self.runs.lost_runs:
            self.runs.stop(application, machine, attempt, self.now)
        if (self.claims[machine], self.attempts[machine]) == (application, attempt):
            self.claims[machine] = -1

    def _end_if_over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
        if self.runs.completed + sum(self.rejected.values()) == len(self.records):
            self.core.stop()
            self.run.engine.stop()

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Let the first timer of a job that is submitted while no machine is up fire `detection` s later."""
        name = next(iter(self.parameters.job_timers))
        self.set_timer(self.records[application], self.now + self.detection, name)

    # -- events of the engine -------------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register the timers of jobs, and what failures need."""
        engine = self.run.engine
        engine.on("finish", self._finish, priority=1, phase=TIMER)
        for number, name in enumerate(self.parameters.job_timers):
            engine.on(name, partial(self._fire, name), priority=2 + number, phase=TIMER)
        engine.on("broken", self._detect, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def _finish(self, jobs: list[int]) -> None:
        """End jobs on all their machines."""
        now = self.run.engine.now
        self.core.enter(now)
        for number in jobs:
            self.runs.end_lost_runs(number, now)
            job = self.records[number]
            if job.phase != PLACED or self.runs.end_of(number) > now:
                continue
            nodes, _ = self.runs.finish(number)
            job.phase = int(DONE)
            for node in nodes.tolist():
                self.claims[node] = -1
                self.call("on_job_end", node, number, self.application(number))
        self._end_if_over()

    def _fire(self, name: str, jobs: list[int]) -> None:
        """Fire a timer of jobs, later if no machine is up."""
        now = self.run.engine.now
        self.core.enter(now)
        phases, pause = self.parameters.job_timers[name]
        for number in jobs:
            job = self.records[number]
            if job.timers[name] > now or job.phase not in phases:
                continue
            if (node := self.in_charge(job)) >= 0:
                self.call(handler_name(name), node, number, job)
            else:
                self.set_timer(job, now + nanoseconds(getattr(self.parameters, pause)), name)

    def _detect(self, jobs: list[int]) -> None:
        """Let nodes in charge learn of jobs that have lost a machine, later if no machine is up."""
        now = self.run.engine.now
        self.core.enter(now)
        for number in jobs:
            job = self.records[number]
            if self.lost_at.get(number) != now:
                continue
            if (node := self.in_charge(job)) < 0:
                self._detect_later(job)
                continue
            del self.lost_at[number]
            self.call("on_job_lost", node, number, job)

    def _detect_later(self, job: Any) -> None:
        self.lost_at[job.number] = self.run.engine.now + self.detection
        self.wake(self.lost_at[job.number], "broken", job)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Lose the jobs of machines that fail; the nodes in charge detect that `detection` s later."""
        now = self.run.engine.now
        for machine in failed.tolist():
            number, attempt = int(self.claims[machine]), int(self.attempts[machine])
            self.claims[machine] = -1
            if number < 0:
                continue
            self.runs.stop(number, machine, attempt, now)
            if self._lose(self.records[number], machine, attempt):
                self._detect_later(self.records[number])
        self.up[:] = self.layout.of_nodes(self.run.up)
        nodes = self.layout.on(failed)
        self.core.restart(nodes, self.new_programs(nodes.tolist()), now)
        begin = self.layout.on(np.union1d(failed, recovered))
        self.core.begin(begin[self.up[begin]])

    def _lose(self, job: Any, machine: int, attempt: int) -> bool:
        """Handle the failure of a machine of a job; return whether the node in charge will detect it."""
        if job.attempt != attempt or job.phase not in (COMMITTING, PLACED):
            return False
        if job.phase == COMMITTING:
            is_new, job.has_lost_node = not job.has_lost_node, True
            return is_new
        job.phase = int(BROKEN)
        self.runs.lose(job.number, machine, attempt, self.run.engine.now)
        return True

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

    def finish(self) -> Outcome:
        """Return the outcome of all jobs."""
        self.runs.settle(self.run.engine.now)
        names = "resubmitted", *self.parameters.columns
        columns = {name: np.array([getattr(job, name) for job in self.records], np.int64) for name in names}
        failed = np.array([job.phase == FAILED for job in self.records], np.int64)
        outcome = self.runs.outcome(failed=failed, **columns)
        outcome.facts |= {reason: count for reason, count in self.rejected.items() if reason}
        outcome.tables |= self.notes.tables()
        return outcome
