"""One queue of rigid jobs for the whole grid, as the batch systems of sites have it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.batch_queue import JobQueue
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.model.applications import run_and_reserved_times
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.rigid.decisions import WORDS, Replay, record_starts
from gridsim.scheduling.contract import SCHEDULE, Foreseen, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.parameters import Limits

#: The latest end of a job in the kernel, ns.
_LAST_INSTANT = 2**62
_Weight = Annotated[float, Limits(low=0)]


class BatchQueue(Scheduler, frozen=True, kw_only=True):
    """The queue of a batch system: one for the whole grid, with or without backfilling, in several orders.

    Jobs start at any instant and not in slots.  Of the free machines, those with the lowest numbers are
    used.  Failures are known at once, and a job that loses a machine returns to its place in the queue.  The
    scheduler has perfect information, without latency and without messages.

    Parameters
    ----------
    backfill
        Jobs that may start before their turn.  ``"none"``: no job.  ``"easy"``: if a job does not fit when
        its turn comes, it gets a reservation at the earliest instant at which it fits by the estimates, and
        later jobs that do not delay it start before it (EASY, Lifka 1995).  ``"conservative"``: every job
        gets a reservation when it is submitted, and later ones do not delay it; whenever a job ends before
        its estimate, each waiting job in turn moves to an earlier start if there is one.
    order
        Order of the queue.  ``"fcfs"``: by release; ``"lcfs"``: the last released first; ``"sjf"``: the
        shortest estimate first; ``"saf"``: the smallest area first, which is machines times estimate;
        ``"largest"``: the most machines first; ``"f1"``: the least log10(estimate) * machines + 870 *
        log10(release) first (s; Carastan-Santos and de Camargo 2017); ``"wfp"``: the highest (wait /
        estimate)**3 * machines first; ``"unicef"``: the highest wait / (log2(machines) * estimate) first
        (both Tang et al. 2009); ``"multifactor"``: the highest sum first of what the weights below weight.
    estimate
        Estimate of run times.  ``"requested"``: the time requested by the user; ``"run"``: the true run
        time; ``"predicted"``: the mean run time of the last two jobs of the user that have ended when the job
        is submitted, at most the requested time, which it is before there are two (Tsafrir et al. 2007).  A
        job that outlives its estimate is expected to end at any time.
    depth
        Number of jobs that get a reservation with ``backfill="easy"``, anew whenever the queue is examined.
    reserve
        With ``backfill="easy"``: ``"counts"``, a reservation is of a number of machines; ``"machines"``, of
        those with the lowest numbers that are free at its start, and jobs that would still run then take
        others.
    user_limit
        Number of machines that the jobs of a user may have at once; further jobs are passed over until others
        have ended.  None for no limit.  It is not supported with ``backfill="conservative"``.
    age_weight, max_age
        Weight of the time that a job has waited, as a share of `max_age` (s), at most 1.
    size_weight
        Weight of the share of all machines that a job requests.
    share_weight, half_life
        Weight of the fair share of the user: 2 ** -(use / entitlement).  Use is the share of the user in the
        machine seconds that all have used, which decay with this half-life (s); the entitlement is the same
        for all.
    priority_weight
        Weight of the priority that the user states.
    """

    name: ClassVar[str] = "backfill"
    decentralized: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS

    backfill: Literal["none", "easy", "conservative"] = "easy"
    order: Literal["fcfs", "lcfs", "sjf", "saf", "largest", "f1", "wfp", "unicef", "multifactor"] = "fcfs"
    estimate: Literal["requested", "run", "predicted"] = "requested"
    depth: Annotated[int, Limits(low=1, high=10**6)] = 1
    reserve: Literal["counts", "machines"] = "counts"
    user_limit: Annotated[int, Limits(low=1)] | None = None
    age_weight: _Weight = 1.0
    max_age: Annotated[float, Limits(above=0, unit="s")] = 604_800.0
    size_weight: _Weight = 0.0
    share_weight: _Weight = 1.0
    half_life: Annotated[float, Limits(above=0, unit="s")] = 604_800.0
    priority_weight: _Weight = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backfill != "easy":
            for name, default in (("depth", 1), ("reserve", "counts")):
                if getattr(self, name) != default:
                    value = getattr(self, name)
                    raise ScenarioError(
                        f'{self.name}.{name} must be {default!r} unless backfill is "easy", got {value!r}'
                    )
        if self.reserve == "machines" and self.depth > 1:
            raise ScenarioError(f'{self.name}.depth must be 1 with reserve="machines", got {self.depth}')
        if self.user_limit is not None and self.backfill == "conservative":
            raise ScenarioError(
                f'{self.name}.user_limit must be None with backfill="conservative", got {self.user_limit}'
            )

    @property
    def promised_order(self) -> Literal["list"] | None:
        """The order of starts that a result is checked against."""
        return "list" if (self.backfill, self.order, self.user_limit) == ("none", "fcfs", None) else None

    @property
    def is_baseline(self) -> bool:
        """Whether it serves as a baseline: only EASY, the queue that sites use."""
        return self.backfill == "easy"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The run times, if the estimates are the true run times and matter; else nothing."""
        uses = self.backfill != "none" or self.order not in ("fcfs", "lcfs", "largest", "multifactor")
        return ("run times",) if uses and self.estimate == "run" else ()

    def start(self, run: Run) -> Policy:
        return BatchQueuePolicy(self, run)


class BatchQueuePolicy(Policy):
    """The policy of `BatchQueue`, whose kernel knows all releases from the start.

    If machines fail, the policy itself ends the run with the last job.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queue", "resubmitted", "up")
    takes_releases = True

    def __init__(self, parameters: BatchQueue, run: Run) -> None:
        self.run = run
        self.parameters = parameters
        estimate: Literal["run", "requested"] = "run" if parameters.estimate == "run" else "requested"
        durations, self.estimate = run_and_reserved_times(run.applications, float(run.speeds[0]), estimate)
        tasks = run.applications.tasks
        # decisions, and the machines of each run if machines fail, are derived from the log
        log = run.record or run.faults or run.decisions is not None
        self.queue = JobQueue(len(run.speeds), tasks, durations, self.estimate, **self._discipline(), log=log)
        #: Time of a change (ns) -> number of machines that are up after it, if decisions are recorded.
        self.up: dict[int, int] = {}
        self.queue.submit(np.arange(len(tasks)), run.applications.release_ns)
        self.resubmitted = np.zeros(len(tasks), np.int64)
        if run.faults:
            run.engine.add_source(self)

    def _discipline(self) -> dict[str, Any]:
        """Return the arguments of the kernel that say which jobs start, and in which order."""
        parameters, jobs = self.parameters, self.run.applications
        arguments: dict[str, Any] = {
            "depth": 0 if parameters.backfill == "none" else parameters.depth,
            "conservative": parameters.backfill == "conservative",
            "concrete": parameters.reserve == "machines",
            "predicted": parameters.estimate == "predicted",
            "limit": parameters.user_limit or 0,
        }
        if arguments["predicted"] or arguments["limit"] or parameters.order == "multifactor":
            if jobs.user is None:
                raise ScenarioError(
                    f"workload.user must be known for predictions, limits and shares of users "
                    f"({parameters.name}), got a workload without users"
                )
            arguments["users"] = np.unique(jobs.user, return_inverse=True)[1]
        is_predicted = parameters.estimate == "predicted" and parameters.order in ("sjf", "saf")
        if parameters.order in ("wfp", "unicef", "multifactor") or is_predicted:
            arguments["order"] = parameters.order
        elif parameters.order != "fcfs":
            keys = self._static_keys()
            arguments["ranks"] = np.empty(len(keys), np.int64)
            arguments["ranks"][np.lexsort((np.arange(len(keys)), keys))] = np.arange(len(keys))
        if parameters.order == "multifactor":
            priority = np.zeros(len(jobs)) if jobs.priority is None else jobs.priority
            arguments["weights"] = {
                "age": parameters.age_weight,
                "size": parameters.size_weight,
                "share": parameters.share_weight,
                "age_limit": parameters.max_age,
                "half_life": parameters.half_life,
                "base": parameters.priority_weight * priority,
            }
        return arguments

    def _static_keys(self) -> Floats:
        """Return the keys of the jobs by a static order, those of the lowest first: float64[jobs]."""
        jobs, seconds = self.run.applications, self.estimate / NS
        nodes = jobs.tasks.astype(np.float64)
        keys: dict[str, Floats] = {
            "lcfs": -np.arange(len(jobs), dtype=np.float64),
            "sjf": seconds,
            "saf": nodes * seconds,
            "largest": -nodes,
            "f1": np.log10(seconds) * nodes + 870.0 * np.log10(np.maximum(1.0, jobs.release)),
        }
        return keys[self.parameters.order]

    def on_release(self, applications: list[int]) -> None:
        """Do nothing: the kernel knows all releases (`Policy.takes_releases`)."""

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Return jobs that have lost a machine to their places in the queue."""
        now = self.run.engine.now
        if self.run.decisions is not None:
            self.up[now] = int(self.run.up.sum())
        if now > self.queue.now:  # at time 0, machines fail before jobs are released
            self._run(now)
        lost = self.queue.fail(failed, now)
        self.resubmitted[lost] += self.run.applications.tasks[lost]
        self.queue.restore(recovered[self.run.up[recovered]], now)

    def advance(self, limit: int) -> int:
        """Run the queue up to `limit`, ns, and return the end of the last job; NEVER if jobs remain."""
        if self._run(limit) < len(self.resubmitted):
            return NEVER
        return int(self.queue.totals()["finish"].max())

    def collect(self, engine: Engine, time: int) -> None:
        engine.stop()

    def _run(self, until: int) -> int:
        """Run the queue up to `until`, ns, and return the number of ended jobs.

        Raises
        ------
        ScenarioError
            If a job would end after the latest possible time, because failures interrupt it each time or
            the jobs before it take too long.
        """
        try:
            return self.queue.run(until)
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

    def finish(self) -> Outcome:
        """Run the remaining jobs, and return the outcome.

        Jobs that wait at the end need more machines than are ever up at once.
        """
        self._run(NEVER)
        totals = self.queue.totals()
        done = totals["finish"] >= 0
        tasks = self.run.applications.tasks
        columns = self.queue.starts()  # empty without a log
        machine, job, start, end, completed = columns
        self._record_decisions(np.stack((job, start, end, completed)))
        first, used, interrupted = totals["first_start"], np.where(done, tasks, 0), totals["interrupted"]
        if self.run.faults:
            # runs interrupted at the instant of their start do not count
            first, used = np.full(len(tasks), NEVER), np.zeros(len(tasks), np.int64)
            np.minimum.at(first, job, start)
            first[first == NEVER] = -1
            pairs = np.unique(job * len(interrupted) + machine)
            used = np.bincount(pairs // len(interrupted), minlength=len(tasks))
            interrupted = np.bincount(machine[completed == 0], minlength=len(interrupted))
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
                zip(SCHEDULE, (machine, job, np.ones_like(machine), start, end, completed), strict=True)
            ),
        )

    def _record_decisions(self, runs: Integers) -> None:
        """Record the decisions that follow from the runs.

        Parameters
        ----------
        runs
            Job, start, end (ns) and completed (0 or 1) of each machine of each run, int64[4, k].
        """
        if self.run.decisions is None:
            return
        parameters = self.parameters
        first_rows = np.append(True, (runs[:2, 1:] != runs[:2, :-1]).any(axis=0))[: runs.shape[1]]
        jobs = self.run.applications
        runs = runs[:, first_rows]
        is_replayed = (parameters.order, parameters.reserve, parameters.depth) == ("fcfs", "counts", 1)
        is_replayed &= parameters.backfill != "conservative" and parameters.user_limit is None
        if not is_replayed or parameters.estimate == "predicted":
            record_starts(self.run.decisions, jobs.release_ns, jobs.tasks, runs)
            return
        Replay(
            self.run.decisions,
            machines=len(self.run.speeds),
            easy=parameters.backfill == "easy",
            release=jobs.release_ns,
            estimate=self.estimate,
            tasks=jobs.tasks,
            runs=runs,
            up=self.up,
        )
