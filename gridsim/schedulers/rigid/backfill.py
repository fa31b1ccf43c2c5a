"""Centralized queues of rigid jobs: first come, first served, and EASY backfilling over the whole grid."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.rigid_queue.backfill import BackfillQueue
from gridsim.engine.engine import Engine
from gridsim.errors import ScenarioError
from gridsim.model.applications import reserved
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.rigid.decisions import WORDS, Replay
from gridsim.scheduling.contract import SCHEDULE, Foreseen, Outcome, Policy, Run, Scheduler
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS

#: The last instant at which a job of the kernel may end, ns.
_LAST = 2**62


class Backfill(Scheduler, frozen=True, kw_only=True):
    """EASY backfilling (Lifka 1995) or FCFS: a centralized baseline, one queue for the whole grid.

    Jobs start in the order of their release, at any instant, not in slots.

    Of the machines that are free, those with the lowest ids are taken.  Failures are known at once, and a job
    that has lost a machine goes back to its place in the queue.  The scheduler has perfect information, with
    no latency and no messages.

    Parameters
    ----------
    mode
        ``"easy"``, when the first job of the queue does not fit, it gets a reservation at the earliest
        instant at which it fits according to the estimates, and later jobs that do not delay it start before
        it (EASY, Lifka 1995); ``"fcfs"``, the later jobs wait, too.
    estimate
        What it takes as the run time: ``"requested"``, what the user asked for; ``"run"``, the run time
        itself.  A job that outlives its estimate is expected to end now, at any time.
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
    def foresees(self) -> tuple[Foreseen, ...]:
        """See `gridsim.scheduling.contract.Scheduler`: the run times, if these are the estimates."""
        return ("run times",) if (self.mode, self.estimate) == ("easy", "run") else ()

    def start(self, run: Run) -> Policy:
        one_of(f"{self.name}.mode", self.mode, ("easy", "fcfs"))  # also of a subclass that declares it anew
        return BackfillPolicy(self, run)


class BackfillPolicy(Policy):
    """The policy of `Backfill`; its kernel knows all releases from the beginning.

    Where machines fail, it is a source of the engine, and it ends the run when the last job ends.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queue", "resubmitted", "up")
    takes_releases = True

    def __init__(self, parameters: Backfill, run: Run) -> None:
        self.run = run
        lasts, self.estimate = reserved(run.applications, float(run.speeds[0]), parameters.estimate)
        tasks, easy = run.applications.tasks, parameters.mode == "easy"
        # the log is also needed to find the machines of each run, where machines fail, and what was decided
        log = run.record or run.faults or run.decisions is not None
        self.queue = BackfillQueue(len(run.speeds), tasks, lasts, self.estimate, easy=easy, log=log)
        #: ns -> number of machines that are up from then on, where decisions are recorded.
        self.up: dict[int, int] = {}
        self.queue.submit(np.arange(len(tasks)), run.applications.release_ns)
        self.resubmitted = np.zeros(len(tasks), np.int64)
        if run.faults:
            run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Not called; see `Policy.takes_releases`."""

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Put jobs that have lost a machine back to their places in the queue."""
        now = self.run.engine.now
        if self.run.decisions is not None:
            self.up[now] = int(self.run.up.sum())
        if now > self.queue.now:  # at 0 machines fail before jobs are released
            self._run(now)
        cut = self.queue.fail(failed, now)
        self.resubmitted[cut] += self.run.applications.tasks[cut]
        self.queue.restore(back[self.run.up[back]], now)

    def advance(self, limit: int) -> int:
        """Run the queue; the end of the last job is the end of the run.  See `gridsim.engine.Source`."""
        if self._run(limit) < len(self.resubmitted):
            return NEVER
        return int(self.queue.totals()["finish"].max())

    def collect(self, engine: Engine, time: int) -> None:
        engine.stop()

    def _run(self, until: int) -> int:
        """Run the queue up to `until` ns, and return how many jobs have ended.

        Raises ScenarioError if a job would end after the last instant, because failures cut it off each time
        or because the jobs before it take too long.
        """
        try:
            return self.queue.run(until)
        except OverflowError as error:
            left, jobs = len(self.unfinished()), len(self.resubmitted)
            what, why = "workload", ""
            if self.run.faults:
                tasks, cut = self.run.applications.tasks, self.queue.totals()["cut"].sum()
                again = self.resubmitted // tasks
                worst = int(again.argmax())
                what = "faults"
                why = (
                    f", after failures cut off {cut} runs.  Job {worst}, of {tasks[worst]} machines for "
                    f"{self.estimate[worst] / NS:.4g} s, was begun again {again[worst]} times: so many "
                    "machines hardly ever stay up together for so long.  Leave such jobs out "
                    "(workload.max_nodes), or let machines fail less often"
                )
            raise ScenarioError(
                f"{what} must let all jobs end within {_LAST / NS:.3g} s, got {left} of {jobs} left{why}"
            ) from error

    def unfinished(self) -> Integers:
        return np.flatnonzero(self.queue.totals()["finish"] < 0)

    def finish(self) -> Outcome:
        """Run the remaining jobs, and return the outcome.

        Jobs that still wait then want more machines than will ever be up.
        """
        self._run(NEVER)
        totals = self.queue.totals()
        done = totals["finish"] >= 0
        tasks = self.run.applications.tasks
        columns = self.queue.starts()  # empty if nothing is logged
        machine, job, start, end, completed = columns
        self._note(np.stack((job, start, end, completed)))
        first, used, interrupted = totals["first_start"], np.where(done, tasks, 0), totals["interrupted"]
        if self.run.faults:
            # runs that were cut off at the instant of their start do not count
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

    def _note(self, runs: Integers) -> None:
        """Record what was decided.

        Parameters
        ----------
        runs
            int64[4, k], job, start, end (ns) and completed (0 or 1) of each machine of each run.
        """
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
