"""One queue of rigid jobs for the whole grid: first come, first served, or EASY backfilling."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.backfill import BackfillQueue
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.model.applications import run_and_reserved_times
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.rigid.decisions import WORDS, Replay
from gridsim.scheduling.contract import SCHEDULE, Foreseen, Outcome, Policy, Run, Scheduler
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS

#: The latest end of a job in the kernel, ns.
_LAST_INSTANT = 2**62


class Backfill(Scheduler, frozen=True, kw_only=True):
    """EASY backfilling (Lifka 1995) or FCFS: a centralized baseline, one queue for the whole grid.

    Jobs start in order of release, at any instant and not in slots.

    Of the free machines, those with the lowest ids are used.  Failures are known at once, and a job that
    loses a machine returns to its place in the queue.  The scheduler has perfect information, without latency
    and without messages.

    Parameters
    ----------
    mode
        ``"easy"``: if the first job of the queue does not fit, it gets a reservation at the earliest instant
        at which it fits by the estimates, and later jobs that do not delay it start before it (EASY, Lifka
        1995); ``"fcfs"``: the later jobs wait as well.
    estimate
        Estimate of run times: ``"requested"``, the time requested by the user; ``"run"``, the true run time.
        A job that outlives its estimate is expected to end at any time.
    """

    name: ClassVar[str] = "backfill"
    decentralized: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS

    mode: Literal["easy", "fcfs"] = "easy"
    estimate: Literal["requested", "run"] = "requested"

    @property
    def order(self) -> Literal["list"] | None:
        return "list" if self.mode == "fcfs" else None

    @property
    def is_baseline(self) -> bool:
        """See `gridsim.scheduling.contract.Scheduler`: EASY is the queue that sites run."""
        return self.mode == "easy"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The run times, if the estimates are the true run times; else nothing."""
        return ("run times",) if (self.mode, self.estimate) == ("easy", "run") else ()

    def start(self, run: Run) -> Policy:
        one_of(
            f"{self.name}.mode", self.mode, ("easy", "fcfs")
        )  # a subclass may have declared `mode` with another type
        return BackfillPolicy(self, run)


class BackfillPolicy(Policy):
    """The policy of `Backfill`, whose kernel knows all releases from the start.

    If machines fail, the policy itself ends the run with the last job.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queue", "resubmitted", "up")
    takes_releases = True

    def __init__(self, parameters: Backfill, run: Run) -> None:
        self.run = run
        durations, self.estimate = run_and_reserved_times(
            run.applications, float(run.speeds[0]), parameters.estimate
        )
        tasks, easy = run.applications.tasks, parameters.mode == "easy"
        # decisions, and the machines of each run if machines fail, are derived from the log
        log = run.record or run.faults or run.decisions is not None
        self.queue = BackfillQueue(len(run.speeds), tasks, durations, self.estimate, easy=easy, log=log)
        #: Time of a change (ns) -> number of machines that are up after it, if decisions are recorded.
        self.up: dict[int, int] = {}
        self.queue.submit(np.arange(len(tasks)), run.applications.release_ns)
        self.resubmitted = np.zeros(len(tasks), np.int64)
        if run.faults:
            run.engine.add_source(self)

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
        first_rows = np.append(True, (runs[:2, 1:] != runs[:2, :-1]).any(axis=0))[: runs.shape[1]]
        jobs = self.run.applications
        Replay(
            self.run.decisions,
            machines=len(self.run.speeds),
            easy=self.queue.easy,
            release=jobs.release_ns,
            estimate=self.estimate,
            tasks=jobs.tasks,
            runs=runs[:, first_rows],
            up=self.up,
        )
