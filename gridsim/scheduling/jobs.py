"""Batch schedulers of rigid jobs that are written in Python.

A `JobPolicy` decides which jobs start; a `JobScheduler` has its parameters.  The policy reads and acts
through its `JobView`.  Machines, ends, failures, kills, checkpoints and decisions are handled by the kernel
`gridcore.rigid_queue.manual_queue.ManualQueue` and by `JobQueuePolicy`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.manual_queue import ManualQueue, StepProfile
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Applications, run_and_reserved_times
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import SCHEDULE, Foreseen, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.nodes.attributes import instance_attributes
from gridsim.support.arguments import real
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import Stateful

__all__ = ["AvailabilityProfile", "Job", "JobPolicy", "JobScheduler", "JobView"]

#: The latest end of a job in the kernels, ns.
_LAST_INSTANT = 2**62
_WORDS: DecisionTexts = {
    "started": ("started it on {tasks} machines; {among} jobs were waiting", "it had waited", "s"),
    "killed": ("killed it on its {tasks} machines", "it had run for", "s"),
    "rejected": ("rejected it, which requests {tasks} machines", "it had waited", "s"),
    "lost": ("lost a machine of it, which waits again for {tasks} machines", "machines failed:", ""),
}
#: Number of decisions in a row without a running job after which a policy counts as stuck.
_PATIENCE = 10_000
#: Past instants are deleted once there are this many.
_MANY = 10_000
#: The place of a job in the order of releases.
_place = attrgetter("submitted", "number")


class Job:
    """A rigid job, as its scheduler knows it.

    Attributes
    ----------
    number
        Its number in order of stated release, from 0 on.
    nodes
        Number of machines that it requests.
    requested
        Time that its user requested, s.
    submitted
        Time of its release, s.
    user, queue
        Numbers of its user and its queue; -1 if unknown.
    priority
        Priority that its user states; 0 if unknown.
    started
        Start of its present run, s; None while it waits.
    """

    __slots__ = (
        "_estimate_ns", "_expected_end", "_start_ns", "_view", "nodes", "number", "priority", "queue",
        "requested", "started", "submitted", "user",
    )  # fmt: skip

    def __init__(self, view: JobView, number: int, jobs: Applications, estimate_ns: int) -> None:
        assert jobs.requested is not None
        self._view, self.number, self.nodes = view, number, int(jobs.tasks[number])
        self.requested, self.submitted = float(jobs.requested[number]), float(jobs.release[number])
        self._estimate_ns, self._start_ns = estimate_ns, -1
        self.user = -1 if jobs.user is None else int(jobs.user[number])
        self.queue = -1 if jobs.queue is None else int(jobs.queue[number])
        self.priority = 0.0 if jobs.priority is None else float(jobs.priority[number])
        self.started: float | None = None
        self._expected_end = math.inf

    @property
    def estimate(self) -> float:
        """The estimated run time, s, by which profiles plan.

        At first it is the requested time, or the run time if the scheduler knows that (``estimate="run"``).
        A policy may set it, as a prediction, while the job waits or runs.
        """
        return self._estimate_ns / NS

    @estimate.setter
    def estimate(self, value: float) -> None:
        self._view._set_estimate(self, value)

    @property
    def waited(self) -> float:
        """The time from its release to its start, or to now while it waits, s."""
        return (self._view.now if self.started is None else self.started) - self.submitted

    @property
    def expected_end(self) -> float:
        """The end of its run by its estimate, s; now if it has run for longer, inf while it waits."""
        return max(self._expected_end, self._view.now)

    def __repr__(self) -> str:
        return f"<job {self.number}: {self.nodes} machines, {self.estimate:g} s>"


class _Instants(Stateful):
    """Instants of a run in s, each with its exact value in ns.

    After some months floats are more than 1 ns apart.  The instants that a policy gets are kept until they
    are past, so that each means the same ns when the policy states it.
    """

    STATE = ("ns_of",)

    def __init__(self) -> None:
        #: Instant (s) -> instant (ns).
        self.ns_of: dict[float, int] = {}
        self._seconds_of: dict[int, float] = {}
        self._limit = _MANY

    def seconds(self, ns: int) -> float:
        """Return an instant in s."""
        if (known := self._seconds_of.get(ns)) is not None:
            return known
        instant = ns / NS
        while self.ns_of.setdefault(instant, ns) != ns:
            instant = math.nextafter(instant, math.inf)
        self._seconds_of[ns] = instant
        return instant

    def ns(self, instant: float) -> int:
        """Return an instant in ns."""
        known = self.ns_of.get(instant)
        return nanoseconds(instant) if known is None else known

    def keep(self, instant: float) -> int:
        """Return an instant in ns, which `seconds` then returns as `instant` again, if it is new."""
        ns = self.ns(instant)
        if ns not in self._seconds_of:
            self._seconds_of[ns] = float(instant)
            self.ns_of[float(instant)] = ns
        return ns

    def forget(self, now: int) -> None:
        """Forget the instants before `now`, ns, if there are many."""
        if len(self.ns_of) > self._limit:
            self._keep({instant: ns for instant, ns in self.ns_of.items() if ns >= now})

    def _keep(self, ns_of: dict[float, int]) -> None:
        self.ns_of = ns_of
        self._seconds_of = {ns: instant for instant, ns in ns_of.items()}
        self._limit = 2 * len(ns_of) + _MANY

    def setstate(self, state: dict[str, Any]) -> None:
        super().setstate(state)
        self._keep(self.ns_of)


class AvailabilityProfile:
    """Number of free machines from now on, from the estimates of running jobs and the reservations.

    A job that has run for longer than its estimate is expected to end at any time: its machines count as free
    directly after now.
    """

    def __init__(self, kernel: StepProfile, instants: _Instants) -> None:
        self._kernel, self._instants = kernel, instants
        #: Job -> begin and duration of its reservation, ns.
        self._reserved: dict[int, tuple[int, int]] = {}

    def earliest(self, job: Job, after: float | None = None) -> float | None:
        """Return the earliest start of `job` among the running jobs and the reservations, s.

        Parameters
        ----------
        after
            Earliest start to consider, s; now by default.

        Returns
        -------
        float or None
            The present instant exactly if the job can start now; None if too few machines are up.
        """
        at = self._kernel.earliest(job.nodes, job._estimate_ns, None if after is None else self._ns(after))
        return None if at is None else self._instants.seconds(at)

    def reserve(self, job: Job, at: float) -> None:
        """Reserve the machines that `job` requests for its estimate, from `at` (s) on.

        Of a reservation that begins before now, only the rest counts.
        """
        if job.number in self._reserved:
            raise SchedulerError(
                f"profile.reserve({job!r}): the job must have no reservation in this profile"
            )
        if at is None:
            raise SchedulerError(
                f"profile.reserve({job!r}, None): at must be a number of s; earliest returns None while too "
                "few machines are up"
            )
        begin = self._instants.ns(at)
        start = max(begin, self._kernel.now)
        duration = begin + job._estimate_ns - start
        if duration > 0:
            self._kernel.reserve(job.nodes, duration, start)
        self._reserved[job.number] = start, duration

    def release(self, job: Job) -> None:
        """Remove the reservation of `job`."""
        if job.number not in self._reserved:
            raise SchedulerError(f"profile.release({job!r}): the job must have a reservation in this profile")
        start, duration = self._reserved.pop(job.number)
        if duration > 0:
            self._kernel.reserve(-job.nodes, duration, start)

    def free(self, at: float) -> int:
        """Return the number of free machines at `at` (s); negative if more are reserved than there are."""
        return self._kernel.free(self._ns(at))

    def steps(self) -> list[tuple[float, int]]:
        """Return the instants (s) at which the number of free machines changes, and that number."""
        instants, free = self._kernel.steps()
        return [
            (self._instants.seconds(at), n) for at, n in zip(instants.tolist(), free.tolist(), strict=True)
        ]

    def _ns(self, at: float) -> int:
        return max(self._kernel.now, self._instants.ns(at))


class JobView:
    """The grid as a `JobPolicy` sees it at an instant, and its actions.

    Attributes
    ----------
    now
        The present instant, s.
    machines, users
        Numbers of all machines, and of all users of the workload (0 if they are unknown).
    released, ended
        The jobs that are released now, and those that have ended now.  Jobs that the policy has killed or
        rejected are not in `ended`; a job that has lost a machine waits again, and is in neither.
    """

    __slots__ = (
        "_adapter", "_instants", "_jobs", "_queue", "_running", "_waiting", "ended", "machines", "now",
        "now_ns", "released", "users",
    )  # fmt: skip

    def __init__(self, adapter: JobAdapter) -> None:
        self._adapter = adapter
        self._queue: ManualQueue = adapter.queue
        self.now, self.now_ns = 0.0, 0
        self._instants = adapter.instants
        self.machines = self._queue.machines
        users = adapter.run.applications.user
        self.users = 0 if users is None else len(np.unique(users))
        self._jobs: dict[int, Job] = {}
        #: The waiting jobs, by number; and the running ones, in order of their starts.
        self._waiting: list[Job] = []
        self._running: dict[int, Job] = {}
        #: Jobs that are released now, and jobs that end now.
        self.released: list[Job] = []
        self.ended: list[Job] = []

    # -- what it sees -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Job]:
        """The jobs that wait, in order of their release."""
        return list(self._waiting)

    @property
    def running(self) -> list[Job]:
        """The jobs that run, in order of their starts."""
        return list(self._running.values())

    @property
    def free(self) -> int:
        """The number of machines that are up and run nothing."""
        return self._queue.free()

    @property
    def free_machines(self) -> Integers:
        """The machines that are up and run nothing, ascending: int64[k]."""
        return self._queue.free_machines()

    @property
    def up(self) -> int:
        """The number of machines that are up."""
        return int(self._adapter.run.up.sum())

    def job(self, number: int) -> Job:
        """Return the waiting or running job with a number.

        Raises
        ------
        SchedulerError
            If no job with this number waits or runs.
        """
        if number not in self._jobs:
            raise self._error(f"job({number})", "the job must be waiting or running")
        return self._jobs[number]

    def machines_of(self, job: Job) -> Integers:
        """Return the machines on which `job` runs, ascending: int64[k]."""
        machines: Integers = self._call("machines_of", job, self._queue.machines_of)
        return machines

    def profile(self) -> AvailabilityProfile:
        """Return the number of free machines from now on, by the estimates of the running jobs."""
        return AvailabilityProfile(self._queue.profile(), self._instants)

    # -- what it can do ---------------------------------------------------------------------------------

    def start(self, job: Job, machines: Iterable[int] | None = None) -> None:
        """Start a waiting job now.

        Parameters
        ----------
        machines
            Its machines, which must be free; by default the free ones with the lowest numbers.

        Raises
        ------
        SchedulerError
            If the job does not wait, or its machines are not free.
        """
        chosen = None if machines is None else np.asarray(list(machines), np.int64)
        self._call("start", job, self._queue.start_job, chosen)
        self._adapter.record("started", job, job.waited)
        self._remove(job)
        self._set_running(job, self.now_ns)

    def reject(self, job: Job) -> None:
        """Reject a waiting job, which will never run.

        Raises
        ------
        SchedulerError
            If the job does not wait.
        """
        self._call("reject", job, self._queue.reject_job)
        self._adapter.record("rejected", job, job.waited)
        self._adapter.rejected[job.number] = 1
        self._remove(job)
        del self._jobs[job.number]

    def kill(self, job: Job) -> None:
        """End a running job now, before its run time is over.

        Raises
        ------
        SchedulerError
            If the job does not run.
        """
        self._call("kill", job, self._queue.kill_job)
        assert job.started is not None
        self._adapter.record("killed", job, self.now - job.started)
        del self._running[job.number], self._jobs[job.number]

    def wake(self, at: float) -> None:
        """Call `JobPolicy.decide` at `at` (s), also if nothing happens then; it must be later than now.

        Then `now` is `at` exactly, unless something else that is known before happens within the same ns.

        If several instants are set, the policy is woken at the first of them only, and must set the others
        again.

        Raises
        ------
        SchedulerError
            If `at` is not later than now.
        """
        try:
            self._queue.wake(self._instants.keep(at))
        except (ValueError, OverflowError) as error:
            raise self._error(f"wake({at!r})", f"at must be > {self.now} s") from error

    # -- of the adapter -----------------------------------------------------------------------------------

    def _call(self, name: str, job: Job, method: Any, *arguments: Any) -> Any:
        if not isinstance(job, Job):
            hint = f": use view.job({job})" if isinstance(job, int) else ""
            raise self._error(f"{name}({job!r})", f"the argument must be a Job{hint}")
        try:
            return method(job.number, *arguments)
        except ValueError as error:
            raise self._error(f"{name}({job!r})", str(error)) from error

    def _error(self, call: str, text: str) -> SchedulerError:
        return SchedulerError(f"t = {self.now} s: {self._adapter.parameters.name}: view.{call}: {text}")

    def _set_running(self, job: Job, start: int) -> None:
        job.started = self._instants.seconds(start)
        job._start_ns = start
        job._expected_end = self._instants.seconds(start + job._estimate_ns)
        self._running[job.number] = job

    def _set_estimate(self, job: Job, value: float) -> None:
        estimate = max(1, nanoseconds(real("estimate", value, low=0, unit="s")))
        self._call("estimate", job, self._queue.estimate_job, estimate)
        job._estimate_ns = estimate
        if job.started is not None:
            job._expected_end = self._instants.seconds(job._start_ns + estimate)

    def _remove(self, job: Job) -> None:
        del self._waiting[bisect_left(self._waiting, _place(job), key=_place)]

    def _wait(self, job: Job) -> None:
        """Add a job to the queue at its place, which need not be the last one among jobs of one instant."""
        self._waiting.insert(bisect_left(self._waiting, _place(job), key=_place), job)

    def _wait_again(self, job: Job) -> None:
        """Return a job that has lost a machine to its place in the queue."""
        del self._running[job.number]
        job.started, job._expected_end = None, math.inf
        self._wait(job)

    def _update(self, changed: list[int]) -> None:
        """Handle the jobs that have ended or were released now."""
        self._set_clock()
        self.released, self.ended = [], []
        for number in changed:
            if number in self._running:
                self.ended.append(self._running.pop(number))
                del self._jobs[number]
            else:
                job = self._jobs[number] = self._adapter.make_job(number)
                self._wait(job)
                self.released.append(job)

    def _set_clock(self) -> None:
        self.now_ns = self._queue.now
        self._instants.forget(self.now_ns)
        self.now = self._instants.seconds(self.now_ns)

    def _restore(self) -> None:
        """Recreate the jobs from the restored state of the kernel."""
        self._set_clock()
        waiting = [self._adapter.make_job(k) for k in self._queue.waiting_jobs().tolist()]
        self._waiting = sorted(waiting, key=_place)
        running = [self._adapter.make_job(k) for k in self._queue.running_jobs().tolist()]
        start, self._running = self._queue.totals()["start"], {}
        for job in running:
            self._set_running(job, int(start[job.number]))
        self._jobs = {job.number: job for job in (*self._waiting, *running)}


class JobPolicy:
    """Program of a batch scheduler: a method for its decisions, and attributes for its memory.

    The attributes are saved in checkpoints.  They may be numbers, text, arrays, and lists, tuples, sets and
    dicts of these; for a job, its number.

    Parameters
    ----------
    parameters
        The `JobScheduler`, whose attributes are its parameters.
    """

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def decide(self, view: JobView) -> None:
        """Decide which of the waiting jobs start now.

        It is called once at each instant at which jobs are released or end, after all of them; again at that
        instant if machines fail or recover, and at the instants for which it asked by `JobView.wake`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define decide(view)")

    def getstate(self) -> dict[str, Any]:
        """Return the attributes by name, without the parameters."""
        return {name: value for name, value in instance_attributes(self).items() if name != "parameters"}

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore the attributes of a checkpoint."""
        for name, value in state.items():
            setattr(self, name, value)


class JobScheduler(Scheduler, frozen=True, kw_only=True):
    """Base class of batch schedulers of rigid jobs that are written in Python.

    A subclass sets `policy`, and may add parameters as annotated fields.  The scheduler has perfect
    information, without latency and without messages.  A job that loses a machine in a failure waits again.

    Parameters
    ----------
    estimate
        Run times that it knows.  ``"requested"``: the times requested by the users; ``"run"``: the true run
        times.
    kill
        ``"at-limit"``: a job is killed when it has run for the requested time; ``"never"``: it runs to its
        end.

    Attributes
    ----------
    policy
        The class of its program, a subclass of `JobPolicy`.

    Raises
    ------
    ScenarioError
        If `policy` is no such class, or a parameter is out of range.
    """

    name: ClassVar[str] = "jobs"
    rigid: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = _WORDS
    policy: ClassVar[type[JobPolicy]]

    estimate: Literal["requested", "run"] = "requested"
    kill: Literal["never", "at-limit"] = "never"

    def __post_init__(self) -> None:
        super().__post_init__()
        policy = getattr(self, "policy", None)
        if not (isinstance(policy, type) and issubclass(policy, JobPolicy)):
            raise ScenarioError(
                f"{type(self).__name__}.policy must be a subclass of JobPolicy, got {policy!r}"
            )
        if policy.decide is JobPolicy.decide:
            raise ScenarioError(f"{policy.__name__} must define decide(view)")

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The run times, if it knows them; else nothing."""
        return ("run times",) if self.estimate == "run" else ()

    def start(self, run: Run) -> Policy:
        return JobAdapter(self, run)


class JobQueuePolicy(Policy):
    """Base of policies whose kernel runs rigid jobs: failures, kills at the limit, and the outcome.

    The kernel knows all releases from the start.

    Parameters
    ----------
    parameters
        The scheduler, which has ``estimate`` and ``kill``.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queue", "resubmitted", "up")
    takes_releases = True
    queue: Any  # the kernel that runs the jobs

    def __init__(self, parameters: Any, run: Run) -> None:
        self.run, self.parameters = run, parameters
        jobs = run.applications
        assert jobs.requested is not None
        known: Literal["run", "requested"] = "run" if parameters.estimate == "run" else "requested"
        self.full_durations, self.estimate = run_and_reserved_times(jobs, float(run.speeds[0]), known)
        #: Time for which each job runs, ns, if no failure interrupts it.
        self.durations = self.full_durations
        if parameters.kill == "at-limit":
            limits = np.maximum(1, np.rint(jobs.requested * 1e9).astype(np.int64))
            self.durations = np.minimum(self.full_durations, limits)
            self.estimate = np.minimum(self.estimate, limits)
        # decisions, and the machines of each run if machines fail, are derived from the log
        self.needs_log = run.record or run.faults or run.decisions is not None
        #: Time of a change (ns) -> number of machines that are up after it, if decisions are recorded.
        self.up: dict[int, int] = {}
        self.resubmitted = np.zeros(len(jobs.tasks), np.int64)

    def on_release(self, applications: list[int]) -> None:
        """Do nothing: the kernel knows all releases (`Policy.takes_releases`)."""

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Return jobs that have lost a machine to their places in the queue."""
        now = self.run.engine.now
        if self.run.decisions is not None:
            self.up[now] = int(self.run.up.sum())
        if now > self.queue.now:  # at time 0, machines fail before jobs are released
            self.advance_queue(now)
        lost = self.queue.fail(failed, now)
        self.resubmitted[lost] += self.run.applications.tasks[lost]
        self.on_lost(lost.tolist(), len(failed))
        self.queue.restore(recovered[self.run.up[recovered]], now)

    def on_lost(self, jobs: list[int], failures: int) -> None:
        """Handle the loss of machines by `jobs` now; `failures` is the number of failed machines."""

    def advance_queue(self, until: int) -> int:
        """Run the kernel up to `until`, ns, and return the number of ended jobs."""
        raise NotImplementedError

    def advance(self, limit: int) -> int:
        """Run the queue up to `limit`, ns, and return the end of the last job; NEVER if jobs remain."""
        if self.guarded(limit) < len(self.resubmitted):
            return NEVER
        return self.last_instant()

    def last_instant(self) -> int:
        """Return the instant at which the last job has ended, ns."""
        return int(self.queue.totals()["finish"].max())

    def collect(self, engine: Engine, time: int) -> None:
        engine.stop()

    def guarded(self, until: int) -> int:
        """Run the kernel up to `until`, ns, and return the number of ended jobs.

        Raises
        ------
        ScenarioError
            If a job would end after the latest possible time, because failures interrupt it each time or
            the jobs before it take too long.
        """
        try:
            return self.advance_queue(until)
        except OverflowError as error:
            left, jobs = len(self.unfinished()), len(self.resubmitted)
            table, details = "workload", ""
            if self.run.faults:
                tasks, interruptions = self.run.applications.tasks, self.queue.totals()["cut"].sum()
                restarts = self.resubmitted // tasks
                worst = int(restarts.argmax())
                table = "faults"
                details = (
                    f" after {interruptions} interrupted runs; job {worst}, of {tasks[worst]} machines for "
                    f"{self.estimate[worst] / NS:.4g} s, was restarted {restarts[worst]} times: limit the "
                    "machines of jobs (workload.max_nodes) or use less frequent failures"
                )
            raise ScenarioError(
                f"{table} must let all jobs end within {_LAST_INSTANT / NS:.3g} s, got {left} of {jobs} "
                f"unfinished{details}"
            ) from error

    def unfinished(self) -> Integers:
        return np.flatnonzero(self.queue.totals()["finish"] < 0)

    def run_times(self, totals: dict[str, Integers]) -> Integers | None:
        """Return the times for which the jobs ran, int64[jobs], ns, or None if no job could be killed."""
        return None if self.parameters.kill == "never" else self.durations

    def finish(self) -> Outcome:
        """Run the remaining jobs, and return the outcome.

        Jobs that wait at the end need more machines than are ever up at once.
        """
        self.guarded(NEVER)
        totals = self.queue.totals()
        done = totals["finish"] >= 0
        tasks = self.run.applications.tasks
        # empty without a log; jobs that share machines may have several tasks on one
        machine, job, start, end, completed, *shares = self.queue.starts()
        machine_tasks = shares[0] if shares else np.ones_like(machine)
        if self.run.decisions is not None:
            self.record_runs(np.stack((job, start, end, completed)))
        first, used, interrupted = totals["first_start"], np.where(done, tasks, 0), totals["interrupted"]
        if self.run.faults or shares:
            # runs interrupted at the instant of their start do not count
            first, used = np.full(len(tasks), NEVER), np.zeros(len(tasks), np.int64)
            np.minimum.at(first, job, start)
            first[first == NEVER] = -1
            pairs = np.unique(job * len(interrupted) + machine)
            used = np.bincount(pairs // len(interrupted), minlength=len(tasks))
            lost = completed == 0
            interrupted = np.bincount(machine[lost], machine_tasks[lost], len(interrupted)).astype(np.int64)
        return Outcome(
            applications={
                "first_start": first,
                "finish": totals["finish"],
                "completed": np.where(done, tasks, 0),
                "nodes_used": used,
                "failed": (~done).astype(np.int64),
                "resubmitted": self.resubmitted,
            },
            machines={
                "busy": totals["busy"],
                "tasks": totals["tasks"],
                "interrupted": interrupted,
                "peak_queue": np.zeros_like(totals["busy"]),  # there is one queue for all machines
            },
            schedule=dict(
                zip(
                    SCHEDULE,
                    (machine, job, machine_tasks, start, end, completed * machine_tasks),
                    strict=True,
                )
            ),
            run_times=self.run_times(totals),
        )

    def record_runs(self, runs: Integers) -> None:
        """Record the decisions that follow from the runs, if decisions are recorded.

        Parameters
        ----------
        runs
            Job, start, end (ns) and completed (0 or 1) of each machine of each run, int64[4, k].
        """


class JobAdapter(JobQueuePolicy):
    """The policy of a `JobScheduler`, which calls its program."""

    STATE: ClassVar[tuple[str, ...]] = (
        "queue",
        "resubmitted",
        "up",
        "policy",
        "rejected",
        "instants",
        "idle_decisions",
    )

    def __init__(self, parameters: JobScheduler, run: Run) -> None:
        super().__init__(parameters, run)
        jobs = run.applications
        self.queue = ManualQueue(
            len(run.speeds),
            jobs.tasks,
            self.durations,
            self.estimate,
            releases=run.releases,
            log=self.needs_log,
        )
        if run.releases is None:
            self.queue.submit(np.arange(len(jobs)), jobs.release_ns)
        self.policy = type(parameters).policy(parameters)
        self.rejected = np.zeros(len(jobs), np.int64)
        self.instants = _Instants()
        self.view = JobView(self)
        self.is_deciding = False
        #: Number of decisions in a row without a running job, a release or an end.
        self.idle_decisions = 0
        run.engine.add_source(self)

    def make_job(self, number: int) -> Job:
        """Return a new `Job`."""
        return Job(self.view, number, self.run.applications, self.queue.estimate_of(number))

    def advance_queue(self, until: int) -> int:
        view, queue, decide = self.view, self.queue, self.policy.decide
        while (changed := queue.advance(until)) is not None:
            view._update(changed)
            self.is_deciding = True  # stays True if `decide` raises an error
            decide(view)
            self.is_deciding = False
            self.idle_decisions = 0 if changed or view._running else self.idle_decisions + 1
            if self.idle_decisions > _PATIENCE:
                self._check_waiting("no start in many decisions")
            if queue.ended == len(self.resubmitted):  # a program may ask to be woken again and again
                break
        return int(queue.ended)

    def is_exhausted(self) -> bool:
        """Return whether no job runs or is to be released; the program may still ask to be woken."""
        releases, jobs = self.run.releases, self.run.applications
        if self.view._running:
            return False
        if releases is not None:
            return int(releases.next_release()) == NEVER
        return int(jobs.release_ns.max(initial=0)) <= self.run.engine.now

    def _check_waiting(self, reason: str) -> None:
        """Raise SchedulerError if a job waits that fits the free machines."""
        free = self.queue.free()
        for job in self.view._waiting:
            if job.nodes <= free:
                raise SchedulerError(
                    f"t = {self.view.now} s: {self.parameters.name} must start or reject all jobs, got "
                    f"{job!r} waiting with {free} machines free and {reason}"
                )

    def on_lost(self, jobs: list[int], failures: int) -> None:
        """Let jobs that have lost a machine wait again."""
        for number in jobs:
            job = self.view._running[number]
            self.view._wait_again(job)
            self.record("lost", job, failures)

    def record(self, action: str, job: Job, saw: float) -> None:
        """Record a decision with a true value, if decisions are recorded."""
        if self.run.decisions is not None:
            self.run.decisions.record(
                action,
                time=self.queue.now,
                application=job.number,
                decider=-1,
                tasks=job.nodes,
                among=len(self.view._waiting),
                saw=saw,
                true=saw,
                age=0.0,
            )

    def explain(self, error: BaseException) -> None:
        if self.is_deciding:
            error.add_note(f"in {type(self.policy).__name__}.decide at t = {self.view.now} s")

    def last_instant(self) -> int:
        return max(super().last_instant(), self.view.now_ns)

    def unfinished(self) -> Integers:
        return np.flatnonzero((self.queue.totals()["finish"] < 0) & (self.rejected == 0))

    def run_times(self, totals: dict[str, Integers]) -> Integers | None:
        ran = np.where(totals["finish"] >= 0, totals["finish"] - totals["start"], self.full_durations)
        if self.parameters.kill == "never" and (ran == self.full_durations).all():
            return None
        return ran

    def finish(self) -> Outcome:
        """Return the outcome.

        Raises
        ------
        SchedulerError
            If a job that fits the free machines still waits, since nothing will happen any more.
        """
        self.guarded(NEVER)
        self._check_waiting("no event to come")
        return super().finish()

    def setstate(self, state: dict[str, Any]) -> None:
        super().setstate(state)
        self.view._restore()
