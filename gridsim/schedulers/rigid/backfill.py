"""Centralized queues of rigid jobs: first come, first served, and EASY backfilling over the whole grid."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.backfill import BackfillQueue
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.model.applications import reserved
from gridsim.results.decisions import Words
from gridsim.schedulers.rigid.decisions import WORDS, Replay
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS

#: ns; no job of the kernel ends later.
_LAST = 2**62


class Backfill(Scheduler, frozen=True, kw_only=True):
    """One queue for the whole grid, in the order of release; machines start jobs at once, not in slots.

    mode : ``"easy"``: when the first job of the queue does not fit, it gets a reservation at the earliest
        instant at which it will by the estimates, and later jobs that do not delay it start before it
        (EASY, Lifka 1995); ``"fcfs"``: the others wait, too.
    duration : what is estimated: ``"run"``: the run time, ``"requested"``: what the user asked for (or the
        run time if that is longer).

    Of the machines that are free the lowest ids are taken.  Where machines fail that is known at once, and a
    job that has lost one goes back to its place in the queue.  Perfect information, no latency, no messages.
    """

    name: ClassVar[str] = "backfill"
    decentralized: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    decision_words: ClassVar[Words] = WORDS

    mode: Literal["easy", "fcfs"] = "easy"
    duration: Literal["run", "requested"] = "run"

    @property
    def order(self) -> Literal["list"] | None:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return "list" if self.mode == "fcfs" else None

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Queue(self, run)


class Queue(Policy):
    """The queue.  Where machines fail, it is a source of the engine and ends the run with the last job."""

    STATE: ClassVar[tuple[str, ...]] = ("queue", "unreleased", "resubmitted", "up")

    def __init__(self, parameters: Backfill, run: Run) -> None:
        self.run = run
        lasts, self.estimate = reserved(run.applications, float(run.speeds[0]), parameters.duration)
        tasks, easy = run.applications.tasks, parameters.mode == "easy"
        # where machines fail, what jobs have run on is told from the log; and so is what was decided
        log = run.record or run.faults or run.decisions is not None
        self.queue = BackfillQueue(len(run.speeds), tasks, lasts, self.estimate, easy=easy, log=log)
        #: ns -> machines that are up from then on, where decisions are noted.
        self.up: dict[int, int] = {}
        self.unreleased = len(tasks)
        self.resubmitted = np.zeros(len(tasks), np.int64)
        if run.faults:
            run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Jobs join the queue."""
        self.queue.submit(np.array(applications, np.int64), self.run.engine.now)
        self.unreleased -= len(applications)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Jobs that have lost a machine go back to their places."""
        now = self.run.engine.now
        if self.run.decisions is not None:
            self.up[now] = int(self.run.up.sum())
        self._run(now)
        cut = self.queue.fail(failed, now)
        self.resubmitted[cut] += self.run.applications.tasks[cut]
        self.queue.restore(back[self.run.up[back]], now)

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the end of the last job is the end of the run."""
        ended = self._run(limit)
        if self.unreleased or ended < len(self.resubmitted):
            return NEVER
        return int(self.queue.totals()["finish"].max())

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        engine.stop()

    def _run(self, until: int) -> int:
        """Run what is due up to `until` ns; how many jobs have ended.

        ScenarioError where a job would end after the last instant: failures never let it through, or those
        before it take too long.
        """
        try:
            return self.queue.run(until)
        except OverflowError as error:
            totals = self.queue.totals()
            left, jobs = int((totals["finish"] < 0).sum()), len(self.resubmitted)
            what, why = "workload", ""
            if self.run.faults:
                what, why = "faults", f", after failures cut off {totals['cut'].sum()} runs"
            raise ScenarioError(
                f"{what} must let all jobs end within {_LAST / NS:.3g} s, got {left} of {jobs} left{why}"
            ) from error

    def finish(self) -> Outcome:
        """Run what is left, and report; what still waits wants more machines than will ever be up."""
        self._run(NEVER)
        totals = self.queue.totals()
        done = totals["finish"] >= 0
        tasks = self.run.applications.tasks
        columns = self.queue.starts()  # empty where nobody wants to know
        machine, job, start, end, completed = columns
        self._note(np.stack((job, start, end, completed)))
        first, used, interrupted = totals["first_start"], np.where(done, tasks, 0), totals["interrupted"]
        if self.run.faults:
            # runs that were cut off at the instant of their start have not been
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
                "peak_queue": np.zeros_like(totals["busy"]),  # one queue for all
            },
            schedule=dict(
                zip(SCHEDULE, (machine, job, np.ones_like(machine), start, end, completed), strict=True)
            ),
        )

    def _note(self, runs: Integers) -> None:
        """What was decided, from job, start, end and completed of each machine of each run."""
        if self.run.decisions is None:
            return
        each = np.append(True, (runs[:2, 1:] != runs[:2, :-1]).any(axis=0))[: runs.shape[1]]
        jobs = self.run.applications
        Replay(
            self.run.decisions,
            machines=len(self.run.speeds),
            easy=self.queue.easy,
            release=jobs.release_ns,
            estimate=self.estimate,
            tasks=jobs.tasks,
            runs=runs[:, each],
            up=self.up,
        )
