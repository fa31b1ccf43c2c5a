"""Rigid jobs in node programs: records of jobs, claims of machines, and the adapter that runs jobs.

A job runs on machines that have agreed to it: each has accepted a claim (`NodeJobs.claim`), or has reserved
slots (`View.slots`).  Once all have agreed, the node in charge of the job starts it (`NodeJobs.start`, for
reserved slots with ``until``); its machines run it and are then free again, without a further message.

The node in charge of a job is the one to which it was submitted, or the node of the next machine while that
is down.  Its record of the job (`JobRecord`) is kept by the user who submitted the job: it survives failures
and is passed to the next node in charge.  Timers of jobs also survive, and fire at the node then in charge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gridcore.common.names import listed
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
from gridcore.dgs.state import claimant, claimed
from gridsim.engine.engine import TIMER
from gridsim.engine.transport import MAX_TRANSFER_TIME
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import run_and_reserved_times
from gridsim.scheduling.contract import FAULT_PRIORITY, NodeForm, Outcome, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, ProgramScheduler
from gridsim.scheduling.nodes.timers import handler_name
from gridsim.scheduling.rigid_runs import Runs, set_cancellation_timers
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import check_names


class JobPhase(IntEnum):
    """The phase of a rigid job for the node in charge of it.

    An adapter sets ``PLACED``, ``BROKEN`` (the job has lost a machine, which the node in charge does not know
    yet), ``DONE``, ``FAILED`` (rejected) and ``CANCELLED``; programs set the others.  Of these, the adapter
    interprets only ``COMMITTING``: machines have agreed, or have been asked to.
    """

    NEW = NEW
    SEARCHING = SEARCHING
    COMMITTING = COMMITTING
    WAITING = WAITING
    PLACED = PLACED
    BROKEN = BROKEN
    DONE = DONE
    FAILED = FAILED
    CANCELLED = CANCELLED


class JobRecord:
    """The record of a job at the node in charge of it; it survives failures.

    Parameters
    ----------
    number, submitter
        The job, and the machine to which it was submitted.
    tasks
        Number of machines that it needs.
    length
        Expected run time, ns; on machine 0, if machines differ in speed (`NodeJobs.length_on`).

    Attributes
    ----------
    phase
        The `JobPhase`, ``NEW`` at first.
    attempt
        Number of its newest attempt to claim machines.
    nodes, start
        Machines that are claimed for it or run it, and its start (ns).
    has_lost_node
        Whether one of the machines has failed, which the node in charge learns later.
    resubmitted
        Number of tasks that had to start again.
    timers
        Name -> time at which the timer fires or has fired (ns).
    """

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        self.number, self.submitter, self.tasks, self.length = number, submitter, tasks, length
        self.phase, self.attempt, self.nodes, self.start = int(NEW), 0, list[int](), -1
        self.has_lost_node, self.resubmitted = False, 0
        self.timers: dict[str, int] = {}

    def lose_next(self, attempt: int) -> bool:
        """Handle the failure of a machine that has agreed to an attempt other than the present one.

        Returns
        -------
        bool
            Whether the node in charge will detect it; here, jobs have no such attempts.
        """
        return False


#: The reason why nodes know more about records than real nodes would.
_RECORDS_BECAUSE = (
    "the record of a job is kept by its user and no machine: it survives failures, all nodes that know the "
    "job see and change it at once, and while its machine is down the next one that is up is in charge"
)


class JobTimer(NamedTuple):
    """A timer of jobs, which ``on_<name>(view, job)`` of the node in charge handles.

    Parameters
    ----------
    phases
        The phases of a job in which the timer fires; by default all phases before the end.
    pause
        Name of the scheduler's parameter with the time (s) after which it fires again if no machine is up;
        not used if the scheduler has ``acts_for_failed_nodes``.
    """

    phases: tuple[int, ...] = (NEW, SEARCHING, COMMITTING, WAITING, PLACED, BROKEN)
    pause: str = ""


def _at_first_machine(lengths: Integers, run: Run) -> Integers:
    """Convert requested times at the home sites of jobs to times on machine 0: ns."""
    jobs = run.applications
    assert jobs.site is not None and jobs.machine_site is not None
    first = np.searchsorted(jobs.machine_site, np.maximum(jobs.site, 0))
    ratio = run.speeds[first] / run.speeds[0]
    scaled: Integers = np.maximum(1, np.rint(lengths * ratio)).astype(np.int64)
    return scaled


class RigidNodeScheduler(ProgramScheduler, frozen=True, kw_only=True):
    """Base class of schedulers of rigid jobs that are written as the program of one node.

    Besides the handlers of `NodeProgram`, the programs have ``on_job_end(view, application)``, called on each
    machine of a job that has ended there; ``on_job_outlives(view, application, instant)``, called there if
    the job outlives its reservation, which the handler extends to `instant` (ns); those of the node in
    charge of a job, ``on_job_lost(view, job)``, after it has lost a machine,
    ``on_job_displaced(view, job, attempt)``, some time after another job has displaced it on a machine, and
    ``on_job_cancelled(view, job)``, if its user cancels it; and those of `job_timers`.

    Attributes
    ----------
    record
        The class of the records of jobs, a subclass of `JobRecord`.
    job_timers
        Name -> `JobTimer`.  The first one also fires ``detection`` s after the release of a job while no
        machine is up.
    unequal_speeds
        Whether it supports machines of different speeds, while no machine fails.
    acts_for_failed_nodes
        Whether handlers of jobs are also called while no machine is up, on the node of the submitter, where
        ``view.jobs.home(job)`` then is None.  By default they wait.
    columns
        Attributes of the records that become columns of ``result.applications``.
    rejections
        Reasons for `NodeJobs.reject`; ``facts`` of the result has the number of rejections for each.
    """

    rigid: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    speeds_known: ClassVar[bool] = True  # they are equal within each site
    unequal_speeds: ClassVar[bool] = False
    local_order = "fifo"
    to_the_end: ClassVar[bool] = True  # a run also ends when all jobs are over
    record: ClassVar[type[JobRecord]] = JobRecord
    job_timers: ClassVar[Mapping[str, JobTimer]] = {}
    acts_for_failed_nodes: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ()
    rejections: ClassVar[tuple[str, ...]] = ()

    @property
    def promised_order(self) -> Any:
        """None: machines have no queues of tasks."""
        return None

    @property
    def adapter_handlers(self) -> Mapping[str, tuple[str, ...]]:
        """Handlers that the adapter calls itself -> their parameters after ``self``."""
        timers = {handler_name(name): ("view", "job") for name in self.job_timers}
        return {
            "on_job_end": ("view", "application"),
            "on_job_outlives": ("view", "application", "instant"),
            "on_job_lost": ("view", "job"),
            "on_job_displaced": ("view", "job", "attempt"),
            "on_job_cancelled": ("view", "job"),
            **timers,
        }

    def _check_classes(self) -> None:
        super()._check_classes()
        path = type(self).__name__
        if not (isinstance(self.record, type) and issubclass(self.record, JobRecord)):
            raise ScenarioError(f"{path}.record must be a subclass of JobRecord, got {self.record!r}")
        for name, timer in self.job_timers.items():
            if not isinstance(timer, JobTimer):
                raise ScenarioError(f"{path}.job_timers[{name!r}] must be a JobTimer, got {timer!r}")
            must_wait = self.failures and not self.acts_for_failed_nodes
            if must_wait and timer.pause not in self.__struct_fields__:
                raise ScenarioError(
                    f"{path}.job_timers[{name!r}].pause must be the name of a parameter, since machines may "
                    f"fail, got {timer.pause!r}"
                )

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment: records of jobs are not sent."""
        return [*super().environment_reasons(), ("", _RECORDS_BECAUSE)]

    def rejections_of(self, run: Run) -> tuple[str, ...]:
        """Return the rejections that are possible in a run."""
        return self.rejections

    def new_records(self, run: Run, lengths: Integers) -> list[Any]:
        """Return the records of all jobs, which are expected to run for `lengths` (ns)."""
        columns = run.applications.submitter.tolist(), run.applications.tasks.tolist(), lengths.tolist()
        return [self.record(number, *row) for number, row in enumerate(zip(*columns, strict=True))]

    def start(self, run: Run) -> Policy:
        """Return the policy that runs the nodes and the jobs."""
        return self.start_nodes(run)

    def start_nodes(self, run: Run) -> Policy:
        """Return the policy that runs the node programs, even if a subclass has other forms."""
        self._check_classes()
        return RigidAdapter(self, run)


class NodeJobs:
    """The information of one node about rigid jobs, and its actions on them (`View.jobs`).

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
        """Return the record of a job of which this node is in charge, or which it knows from a message.

        All these nodes share the record, and see changes by other nodes without a message.

        Raises
        ------
        SchedulerError
            If the node does not know the job.
        """
        adapter = self._adapter
        if not 0 <= application < len(adapter.records):
            raise SchedulerError(
                f"{self._place} application must be in 0..{len(adapter.records) - 1}, got {application}"
            )
        if adapter.in_charge(adapter.records[application]) == self._node:
            adapter.core.view_of(self._node, application)  # the node knows the job even if it was down
        else:
            adapter.core.view_of(self._node).application(application)
        return adapter.keeper.record(application)

    # -- this machine ---------------------------------------------------------------------------------------

    @property
    def claimed(self) -> int:
        """The job that has claimed this machine; -1 for none."""
        return int(self._adapter.claims[self._machine])

    def claim(self, application: int, attempt: int) -> bool:
        """Claim this machine for an attempt to start a job; return False if another job has claimed it."""
        if self.claimed >= 0:
            return False
        self._adapter.keeper.claim(application, self._machine, attempt)
        return True

    def release(self, application: int, attempt: int) -> None:
        """End a claim, if there is one, and stop the job here if it has lost another machine."""
        self._adapter.keeper.release(application, self._machine, attempt)

    # -- jobs -----------------------------------------------------------------------------------------------

    def home(self, job: Any) -> Any:
        """Return the view of the node that is in charge of a job; None if no machine is up."""
        node = self._adapter.in_charge(job)
        return None if node < 0 else self._adapter.core.view_of(node, job.number)

    def start(self, job: Any, instant: int | None = None, until: int = NEVER) -> None:
        """Run a job on ``job.nodes`` from `instant` (ns) on, by default from now on.

        If one of these machines has failed since it agreed, the job is lost, which is detected later.

        Parameters
        ----------
        until
            End of the reservation of the machines, ns; by default they are claimed until the job ends.

        Raises
        ------
        SchedulerError
            If one of the machines has not agreed to this attempt, unless the job has a reservation.
        """
        adapter = self._adapter
        is_known = adapter.keeper is adapter and not job.has_lost_node and until == NEVER
        for node in job.nodes if is_known else ():
            if (adapter.claims[node], adapter.attempts[node]) != (job.number, job.attempt):
                raise SchedulerError(
                    f"{self._place} job.nodes must be machines that have agreed to attempt {job.attempt} of "
                    f"job {job.number}, got {node}"
                )
        adapter.keeper.start_job(job.number, adapter.now if instant is None else instant, until)

    def withdraw(self, job: Any) -> None:
        """Undo `start` of a job that has lost a machine."""
        self._adapter.keeper.withdraw(job.number)

    def reject(self, job: Any, reason: str = "") -> None:
        """Reject a job permanently, with one of the reasons in `RigidNodeScheduler.rejections`."""
        if reason not in self._adapter.rejected:
            raise SchedulerError(
                f"{self._adapter.parameters.name}: the reason of a rejection must be one of "
                f"{', '.join(self._adapter.parameters.rejections)}, got {reason!r}"
            )
        self._adapter.keeper.reject(job.number, reason)

    def cancel(self, job: Any) -> None:
        """Cancel a job on behalf of its user; its machines, if any, do not know this yet."""
        self._adapter.keeper.cancel_job(job.number)

    def displace(self, application: int, attempt: int) -> None:
        """Record that this machine no longer has room for an attempt to start a job.

        The node in charge learns this from a message, or later if the message may be lost in failures.
        """
        self._adapter.keeper.displace(application, self._machine, attempt)

    def count(self, name: Literal["extended", "displaced", "moves"]) -> None:
        """Count an extended reservation, or a job that was displaced or moved."""
        self._adapter.keeper.count(name)

    def timer(self, job: Any, seconds: float, name: str) -> None:
        """Set a timer of a job to fire in `seconds`; it replaces an earlier one with this name."""
        self.at(job, self._adapter.now + nanoseconds(seconds), name)

    def at(self, job: Any, instant: int, name: str) -> None:
        """Set a timer of a job to fire at `instant` (ns); it replaces an earlier one with this name.

        Raises
        ------
        SchedulerError
            If the scheduler does not declare the timer.
        """
        timers = self._adapter.parameters.job_timers
        if name not in timers:
            raise SchedulerError(
                f"{self._place} name of a timer must be in job_timers, got {name!r}; {listed(timers, name)}"
            )
        job.timers[name] = instant
        self._adapter.keeper.set_timer(job.number, instant, name)

    # -- properties of the run -----------------------------------------------------------------------------

    def length_on(self, length: int, machine: int) -> int:
        """Return for how long a job of this `JobRecord.length` is expected to run on a machine, ns."""
        speeds = self._adapter.run.speeds
        if speeds[machine] == speeds[0]:
            return length
        return max(1, round(length * float(speeds[0]) / float(speeds[machine])))

    @property
    def can_fail(self) -> bool:
        """True if machines may fail in this run."""
        return self._adapter.run.faults

    @property
    def latency(self) -> int:
        """Maximum time of a message of size 0, ns."""
        network = self._adapter.run.network.network
        return nanoseconds(network.latency) + nanoseconds(network.jitter)

    def transfer_time(self, nbytes: int) -> int:
        """Return the time that the interfaces of sender and receiver need for a message, ns."""
        bandwidth = self._adapter.run.network.network.bandwidth
        return nanoseconds(min(2.0 * nbytes / bandwidth, MAX_TRANSFER_TIME))

    @property
    def _place(self) -> str:
        return f"t = {self._adapter.now / NS} s: node {self._node}:"


class RigidAdapter(Adapter):
    """The adapter of a `RigidNodeScheduler`, which runs the nodes and the rigid jobs on their machines.

    It differs from other adapters since jobs do not wait in task queues: they run on several machines at
    once, and end there without a message.

    In an emulation by several processes the coordinator keeps the records, runs and timers of all jobs.  In
    the other processes `keeper` represents it: a handler gets the coordinator's record at its first access,
    and its changes of the record and its calls of `shared` methods are sent to the coordinator when the
    handler returns.  Claims are kept by the process of each machine, and by the coordinator, whose `caller`
    represents the nodes.

    Attributes
    ----------
    keeper
        The object that keeps the jobs, with the methods in `shared`: this adapter, or in a process of an
        emulation an object that forwards calls to the coordinator.
    caller
        The object that calls the handlers of nodes about jobs, with the methods `call` and `note_failures`:
        this adapter, or in the coordinator an object that forwards calls to the processes.
    shared
        Methods of the keeper that nodes call.
    records
        The records of all jobs.
    claims, attempts
        int64[machines], the job that has claimed each machine (-1 for none), and the attempt.
    lost_at
        Job that has lost a machine -> time at which the loss is detected, ns.
    rejected
        Reason -> number of jobs rejected for it.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "runs", "core", "notes", "claims", "attempts", "lost_at", "rejected", "cancelled",
    )  # fmt: skip
    keeps_jobs = True
    shared: ClassVar[tuple[str, ...]] = (
        "claim", "release", "start_job", "withdraw", "reject", "cancel_job", "displace", "count", "set_timer",
        "stop",
    )  # fmt: skip

    def __init__(self, parameters: RigidNodeScheduler, run: Run) -> None:
        self.keeper: Any = self
        self.caller: Any = self
        jobs, machines = run.applications, len(run.speeds)
        estimate: Any = getattr(parameters, "estimate", "run")
        durations, lengths = run_and_reserved_times(jobs, float(run.speeds[0]), estimate)
        if estimate == "requested" and run.speeds.min() != run.speeds.max():
            lengths = _at_first_machine(lengths, run)
        self.runs = Runs(run, durations)
        self.records = self.new_records(parameters, run, lengths)
        self.claims, self.attempts = np.full(machines, -1, np.int64), np.zeros(machines, np.int64)
        self.lost_at: dict[int, int] = {}
        self.rejected = dict.fromkeys(("", *parameters.rejections_of(run)), 0)
        self.cancelled = 0
        self.detection = nanoseconds(getattr(parameters, "detection", 0.0))
        super().__init__(parameters, run)

    def new_records(self, parameters: RigidNodeScheduler, run: Run, lengths: Integers) -> Sequence[Any]:
        """Return the records of all jobs, which are expected to run for `lengths` (ns)."""
        records = parameters.new_records(run, lengths)
        for name in parameters.columns:
            if not all(hasattr(record, name) for record in records[:1]):
                raise ScenarioError(
                    f"{type(parameters).__name__}.columns must be attributes of "
                    f"{parameters.record.__name__}, got {name!r}"
                )
        return records

    def queue_applications(self) -> None:
        """Do nothing, since rigid jobs do not wait in task queues."""

    def node_jobs(self, node: int) -> NodeJobs:
        """Return the object `View.jobs` of a node."""
        return NodeJobs(self, node)

    # -- jobs -----------------------------------------------------------------------------------------------

    def in_charge(self, job: Any) -> int:
        """Return the node that is in charge of a job; -1 if no machine is up."""
        machines = len(self.run.speeds)
        node = int(self.layout.submission_nodes[job.submitter])
        if self.up[node]:
            return node
        nodes = self.layout.submission_nodes[(job.submitter + np.arange(machines)) % machines]
        up = np.flatnonzero(self.up[nodes])
        return int(nodes[up[0]]) if len(up) else -1

    def call(self, handler: str, node: int, number: int, *arguments: int) -> None:
        """Call a handler of a node about a job, which the node then knows; its end frees the node."""
        if handler == "on_job_end":
            self.end_claim(node, number)
        view = self.core.view_of(node, number)
        method = getattr(self.core.programs[node], handler, None)
        if method is not None:
            is_of_machine = handler in ("on_release", "on_job_end", "on_job_outlives")
            method(
                view, self.application(number) if is_of_machine else self.keeper.record(number), *arguments
            )

    def end_claim(self, node: int, number: int) -> None:
        """End the claim of a machine by a job, if there is one."""
        if self.claims[node] == number:
            self.claims[node] = -1

    def call_in_charge(self, handler: str, job: Any, *arguments: int) -> bool:
        """Call a handler of the node in charge of a job; return False if the call must wait for a machine."""
        node = self.in_charge(job)
        if node < 0:
            if not self.parameters.acts_for_failed_nodes:
                return False
            node = int(self.layout.submission_nodes[job.submitter])
        self.caller.call(handler, node, job.number, *arguments)
        return True

    def record(self, number: int) -> Any:
        """Return the record of a job."""
        return self.records[number]

    def set_timer(self, number: int, instant: int, name: str) -> None:
        """Set a timer of a job to fire at `instant`, ns."""
        job = self.records[number]
        job.timers[name] = instant
        self.wake(instant, name, job)

    def wake(self, instant: int, name: str, job: Any) -> None:
        """Set the engine's timer `name` to fire for a job at `instant`, ns."""
        self.run.engine.at(instant, name, job.number)
        self.core.wake(instant)

    def claim(self, number: int, machine: int, attempt: int) -> None:
        """Claim a machine for an attempt to start a job."""
        self.claims[machine], self.attempts[machine] = number, attempt

    def start_job(self, number: int, instant: int, until: int) -> None:
        """Run a job on its machines."""
        job = self.records[number]
        job.phase = int(BROKEN if job.has_lost_node else PLACED)
        end = self.runs.place(job.number, np.array(job.nodes, np.int64), instant, until)
        if job.phase == PLACED:
            self.wake(max(end, self.now), "finish", job)
            self._watch_reservation(job)

    def _watch_reservation(self, job: Any) -> None:
        """Set the timer for the end of the reservation of a job that outlives it."""
        if not self.runs.outlives(job.number):
            return
        until = int(self.runs.until[job.number])
        if until >= self.now:
            self.wake(until, "outlived", job)
            return
        # The last reply arrived after the reserved end, so the machines could not extend the reservation.
        job.phase = int(BROKEN)
        self.run.engine.at(self.now, "unheard", claimed(job.number, job.attempt))
        self.core.wake(self.now)

    def withdraw(self, number: int) -> None:
        """Undo the start of a job that has lost a machine."""
        del self.runs.placed[number]

    def count(self, name: str) -> None:
        """Count an extended reservation, or a job that was displaced or moved."""
        setattr(self.runs, name, getattr(self.runs, name) + 1)

    def cancel_job(self, number: int) -> None:
        """Cancel a job on behalf of its user."""
        job = self.records[number]
        if job.phase == PLACED:
            nodes, start = self.runs.placed[job.number]
            until = int(self.runs.until[job.number])
            self.runs.cancel(job.number, nodes, start, until, job.attempt, self.now)
        self.runs.placed.pop(job.number, None)
        job.phase = int(CANCELLED)
        job.attempt += 1  # outstanding replies belong to the aborted attempt
        self.cancelled += 1
        self.end_if_over()

    def displace(self, number: int, machine: int, attempt: int) -> None:
        """Record that a machine has no room for an attempt to start a job, unless that has ended since."""
        self.stop(number, machine, attempt)
        if self._lose(self.records[number], machine, attempt) and self.run.faults:
            later = self.now + nanoseconds(self.parameters.patience)
            self.run.engine.at(later, "unheard", claimed(number, attempt))

    def reject(self, number: int, reason: str) -> None:
        """Reject a job permanently."""
        self.records[number].phase = int(FAILED)
        self.rejected[reason] += 1
        self.runs.report_end(number, self.now)
        self.end_if_over()

    def stop(self, number: int, machine: int, attempt: int) -> None:
        """Stop a lost run of a job on a machine, if there is one."""
        if self.runs.lost_runs:
            self.runs.stop(number, machine, attempt, self.now)

    def release(self, number: int, machine: int, attempt: int) -> None:
        """End a claim of a machine, and stop the job there if it has lost another machine."""
        self.stop(number, machine, attempt)
        if (self.claims[machine], self.attempts[machine]) == (number, attempt):
            self.claims[machine] = -1

    def end_if_over(self) -> None:
        """End the run if all jobs are done or have been rejected."""
        ended = self.runs.completed + sum(self.rejected.values()) + self.cancelled
        if ended == len(self.records):
            self.core.stop()
            self.run.engine.stop()

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Set the first timer of a job that no node has received, to fire `detection` s later."""
        if self.records[application].phase != NEW:
            return
        if self.parameters.acts_for_failed_nodes:
            self.call_in_charge("on_release", self.records[application], tasks)
            return
        self.set_timer(application, self.now + self.detection, next(iter(self.parameters.job_timers)))

    # -- events of the engine -------------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register the timers of jobs and of failures."""
        engine = self.run.engine
        engine.on("finish", self._finish, priority=1, phase=TIMER)
        for number, name in enumerate(self.parameters.job_timers):
            priority = (2 if number < 2 else 8) + number  # priorities 4 to 7 belong to other timers
            engine.on(name, partial(self._fire, name), priority=priority, phase=TIMER)
        engine.on("call-off", self._cancel, priority=5, phase=TIMER)
        engine.on("outlived", self._extend, priority=6, phase=TIMER)
        engine.on("broken", self._detect, priority=FAULT_PRIORITY + 2, phase=TIMER)
        engine.on("unheard", self._detect_displacement, priority=FAULT_PRIORITY + 3, phase=TIMER)
        set_cancellation_timers(engine, self.run.applications)

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
                self.caller.call("on_job_end", node, number)
        self.end_if_over()

    def _extend(self, jobs: list[int]) -> None:
        """Call the machines that extend the reservations of jobs that outlive them."""
        now, slot = self.run.engine.now, nanoseconds(self.parameters.slot)
        self.core.enter(now)
        for number in sorted({*jobs}):
            job = self.records[number]
            if job.phase != PLACED or self.runs.until[number] != now or not self.runs.outlives(number):
                continue  # the timer belongs to a reservation that was lost
            end = self.runs.extend(number, slot)
            for node in job.nodes:
                self.caller.call("on_job_outlives", node, number, end)
            self._watch_reservation(job)

    def _cancel(self, jobs: list[int]) -> None:
        """Cancel jobs on behalf of their users, unless they are over."""
        self.core.enter(self.run.engine.now)
        for number in jobs if self.keeper is self else ():
            job = self.records[number]
            if job.phase not in (DONE, FAILED, CANCELLED):
                self.call_in_charge("on_job_cancelled", job)

    def _fire(self, name: str, jobs: list[int]) -> None:
        """Fire a timer of jobs, or postpone it if no machine is up."""
        now = self.run.engine.now
        self.core.enter(now)
        phases, pause = self.parameters.job_timers[name]
        for number in jobs:
            job = self.records[number]
            if job.timers[name] > now or job.phase not in phases:
                continue
            if not self.call_in_charge(handler_name(name), job):
                self.set_timer(number, now + nanoseconds(getattr(self.parameters, pause)), name)

    def _detect(self, jobs: list[int]) -> None:
        """Notify nodes in charge of jobs that have lost a machine, or postpone that if no machine is up."""
        now = self.run.engine.now
        self.core.enter(now)
        for number in jobs:
            job = self.records[number]
            if self.lost_at.get(number) != now:
                continue
            del self.lost_at[number]
            if not self.call_in_charge("on_job_lost", job):
                self._detect_later(job)

    def _detect_displacement(self, claims: list[int]) -> None:
        """Notify nodes in charge of displaced jobs, in case the messages were lost in failures."""
        self.core.enter(self.run.engine.now)
        for number, attempt in zip(*(row.tolist() for row in claimant(np.array(claims))), strict=True):
            job = self.records[number]
            self.call_in_charge("on_job_displaced", job, attempt)

    def _detect_later(self, job: Any) -> None:
        self.lost_at[job.number] = self.run.engine.now + self.detection
        self.wake(self.lost_at[job.number], "broken", job)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Record the loss of jobs of machines that fail, which nodes in charge detect `detection` s later."""
        now = self.run.engine.now
        self.caller.note_failures(failed)
        for machine, number, attempt in self.claims_of(failed):
            if self.keeper is not self:  # the keeper records the loss of the jobs
                continue
            self.runs.stop(number, machine, attempt, now)
            if self._lose(self.records[number], machine, attempt):
                self._detect_later(self.records[number])
        self.claims[failed] = -1
        self.outside.on_faults(failed, recovered)
        self.restart(failed, recovered)

    def note_failures(self, failed: Integers) -> None:
        """Record the machines that fail, before their jobs are lost; nothing to do if calls take no time."""

    def claims_of(self, machines: Integers) -> Iterator[tuple[int, int, int]]:
        """Iterate over the claims of some machines: (machine, job, attempt)."""
        yield from self.outside.reservations_of(machines)
        for machine in machines[self.claims[machines] >= 0].tolist():
            yield machine, int(self.claims[machine]), int(self.attempts[machine])

    def _lose(self, job: Any, machine: int, attempt: int) -> bool:
        """Handle the failure of a machine of a job; return whether the node in charge will detect it."""
        if job.attempt != attempt or job.phase not in (COMMITTING, PLACED):
            return isinstance(job, JobRecord) and job.lose_next(attempt)
        if job.phase == COMMITTING:
            is_new, job.has_lost_node = not job.has_lost_node, True
            return is_new
        job.phase = int(BROKEN)
        self.runs.lose(job.number, machine, attempt, self.run.engine.now)
        return True

    # -- checkpoints, and the end ---------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the state with the records of all jobs."""
        return {**super().getstate(), "records": self.records_state()}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        self.set_records(state.pop("records", []))
        super().setstate(state)

    def records_state(self) -> Any:
        """Return the records as they are saved in a checkpoint."""
        return [SimpleNamespace(**{**vars(job), "phase": int(job.phase)}) for job in self.records]

    def set_records(self, records: Any) -> None:
        """Restore the records from the result of `records_state`."""
        if len(records) != len(self.records):
            raise ValueError(f"the state must have {len(self.records)} records of jobs, got {len(records)}")
        for job, kept in zip(self.records, records, strict=True):
            check_names(job, vars(kept), vars(job))
            vars(job).update(vars(kept))

    def column(self, name: str) -> Integers:
        """Return an attribute of all records, int64[jobs]."""
        return np.array([getattr(job, name) for job in self.records], np.int64)

    def finish(self) -> Outcome:
        """Return the outcome of all jobs."""
        self.runs.settle(self.run.engine.now)
        phase = self.column("phase")
        if self.runs.cancelled is not None:
            self.runs.cancelled[:] = phase == CANCELLED
        columns = {name: self.column(name) for name in ("resubmitted", *self.parameters.columns)}
        outcome = self.runs.outcome(failed=(phase == FAILED).astype(np.int64), **columns)
        outcome.facts |= {reason: count for reason, count in self.rejected.items() if reason}
        outcome.tables |= self.notes.tables()
        self.outside.complete(outcome)
        return outcome
