"""Centralized baselines: schedulers that know the whole grid at every instant and talk for nothing.

They are what a decentralized scheduler is measured against, so nothing is charged to them: information is
perfect, decisions take effect at once, no message is sent and the traffic ledger stays empty.

A start that falls on the instant of a release or a failure is decided after all of that instant.

Where machines fail, what one of them loses is known at once and done again; until a machine is back, it gets
nothing.  Nothing is decided beyond the next failure, and while nobody is up everything waits.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from gridcore.centralized.pull_queue import PullQueue
from gridcore.queues.edf import optimal_stretch
from gridsim.engine.engine import Engine
from gridsim.results.decisions import Decisions, Words
from gridsim.schedulers.centralized.exact_stretch import BOUND_WORDS, Once
from gridsim.schedulers.centralized.immediate import TIMED_WORDS, Bound, EarliestEnd
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS


class MinCent(Scheduler, frozen=True, kw_only=True):
    """Centralized minimum of the maximum stretch, online: the future is unknown, the present known exactly.

    mode : ``"replan"``: at each release, the minimum stretch S at which the platform, taken as one machine
        of its aggregate speed, completes all tasks that have not started, once it is through with those
        that have; a machine that becomes free takes a task of the application with the earliest deadline
        release + S * size.  The reference that others are measured by: on a loaded platform within 0.5 % of
        the lower bound; on a mostly idle one a slow machine that is free takes a task which a fast one,
        busy for a moment, would have ended earlier.
        ``"once"``: at its release an application's tasks are bound to machines for good, at the smallest S
        at which the machines' exact availabilities have room for them, in proportion to these; each
        machine runs EDF at its own minimum stretch.  Table ``requests`` has the S of each application
        (``promised``, s/Mflop).

    Where machines fail: ``"replan"`` computes S anew at each change, for the machines that are up; ``"once"``
    binds what was lost like a new application of that many tasks, with its first release and size, and has a
    further row in ``requests``.

    A running task is never preempted.  Of several free machines the fastest goes first, then the lowest id.
    Perfect information, no latency, no messages.
    """

    name: ClassVar[str] = "mincent"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[Words] = {
        "ordered": (
            "ordered {among} applications by deadline; {tasks} tasks of this one wait",
            "a minimum stretch of",
            "s/Mflop",
        ),
        **BOUND_WORDS,
    }

    mode: Literal["replan", "once"] = "replan"

    @property
    def order(self) -> Literal["edf"] | None:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return "edf" if self.mode == "once" else None

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Replan(run) if self.mode == "replan" else Once(run)


class Fcfs(Scheduler, frozen=True, kw_only=True):
    """Centralized first come, first served, in order of release and then of index.

    mode : ``"ect"``: at its release each task of an application is bound to the machine that would end it
        first (ties: the lowest id); ``"pull"``: one list for all, of which a machine that becomes free takes
        the head (the fastest of several free machines goes first, then the lowest id); ``"random"``: each
        task is bound to a machine drawn uniformly, from the stream ``fcfs-random``.  Bound tasks run in the
        order in which they were bound.  What was lost goes back into the list, at the place of its
        application, or is bound again at once to machines that are up.

    Perfect information, no latency, no messages.
    """

    name: ClassVar[str] = "fcfs"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[Words] = {
        **TIMED_WORDS,
        "drawn": (
            "bound {tasks} tasks to machines drawn from {among} that are up, most of them to {machine}",
            "",
            "",
        ),
        "listed": (
            "had {tasks} tasks of it in the list, which is of {among} applications",
            "tasks of others ahead:",
            "",
        ),
    }

    mode: Literal["ect", "pull", "random"] = "ect"

    @property
    def order(self) -> Literal["fifo", "list"]:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return "list" if self.mode == "pull" else "fifo"

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        if self.mode == "pull":
            return Pull(run)
        return EarliestEnd(run) if self.mode == "ect" else Uniform(run)


# -- one list, machines pull ----------------------------------------------------------------------------


class Pull(Policy):
    """Unstarted tasks wait in one list, in the order of `order`.

    Machines have no queue of their own (``peak_queue`` is 0); ``facts["peak_waiting"]`` has the most tasks
    that waited in the list at a release or a failure.

    Where machines fail, it is a source of the engine: it starts what is due up to the engine's next instant,
    and ends the run with the last task.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "queue", "lost", "left", "resubmitted", "unreleased", "peak_waiting", "_order"
    )  # fmt: skip

    def __init__(self, run: Run) -> None:
        self.run = run
        self.queue = PullQueue(run.speeds, len(run.applications), log=run.record)
        self.lost: list[tuple[int, int]] = []  # machine, and when it failed, of tasks that were cut off
        self.left = np.zeros(len(run.applications), np.int64)
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.unreleased = len(run.applications)
        self.peak_waiting = 0
        self._order: Integers | None = None
        if run.faults:
            run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Start what was due before now; what is new goes into the list."""
        self._advance(self.run.engine.now)
        self.left[applications] = self.run.applications.tasks[applications]
        self.unreleased -= len(applications)
        self._changed()

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Start what was due before now; what is lost goes into the list again."""
        now = self.run.engine.now
        self._advance(now)
        machines, lost = self.queue.fail(failed, now)
        if self.run.record:
            self.lost += [(u, now) for u in machines.tolist()]
        self.queue.restore(back, now)
        np.add.at(self.left, lost, 1)
        np.add.at(self.resubmitted, lost, 1)
        self._changed()

    def _changed(self) -> None:
        self.peak_waiting = max(self.peak_waiting, int(self.left.sum()))
        self._order = None

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the end of the last task is the end of the run."""
        self._advance(limit)
        if self.unreleased or self.left.any():
            return NEVER
        end = int(self.queue.free_at.max())
        return end if end <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        engine.stop()

    def _advance(self, until: int) -> None:
        if until <= self.queue.now:
            return
        if self._order is None:
            self._order = self.order(np.flatnonzero(self.left))
            if self.run.decisions is not None:
                self.note(self.run.decisions, self._order)
        self.queue.run(until, self._order, self.left, self.run.applications.task_size)

    def order(self, waiting: Integers) -> Integers:
        """The applications `waiting` (ascending) in the order in which they go, from `queue.now` on."""
        return waiting

    def note(self, log: Decisions, order: Integers) -> None:
        """The applications that wait have been brought into this order."""
        before = np.cumsum(self.left[order]) - self.left[order]
        self._note(log, "listed", order, before)

    def _note(self, log: Decisions, action: str, order: Integers, saw: Any) -> None:
        log.note(
            action,
            time=self.queue.now,
            application=order,
            decider=-1,
            tasks=self.left[order],
            among=len(order),
            saw=saw,
            true=saw,
            age=0.0,
        )

    def finish(self) -> Outcome:
        """Start everything that is left, and report."""
        self._advance(NEVER)
        totals, no_queues = self.queue.totals(), np.zeros(len(self.run.speeds), np.int64)
        applications = ("first_start", "finish", "completed", "nodes_used")
        return Outcome(
            applications={**{n: totals[n] for n in applications}, "resubmitted": self.resubmitted},
            machines={**{n: totals[n] for n in ("busy", "tasks", "interrupted")}, "peak_queue": no_queues},
            facts={"peak_waiting": self.peak_waiting},
            schedule=self.schedule(),
        )

    def schedule(self) -> dict[str, Integers]:
        """See `Outcome.schedule`."""
        machine, application, start, end = self.queue.starts()
        order = np.lexsort((start, machine))
        machine, application, start, end = machine[order], application[order], start[order], end[order]
        completed = np.ones_like(machine)
        for u, at in self.lost:
            low, high = np.searchsorted(machine, (u, u + 1))
            k = low + np.searchsorted(start[low:high], at) - 1  # the last that had started
            end[k], completed[k] = at, 0
        columns = machine, application, np.ones_like(machine), start, end, completed
        return dict(zip(SCHEDULE, columns, strict=True))


class Replan(Pull):
    """The list is in order of deadline at the minimum stretch, anew after each release or failure."""

    STATE = (*Pull.STATE, "aggregate_speed")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)  # of who is up
        self.stretch = math.nan  # of the order in hand

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `Pull.on_faults`."""
        super().on_faults(failed, back)
        self.aggregate_speed = math.fsum(self.run.speeds[self.run.up])

    def order(self, waiting: Integers) -> Integers:
        """By deadline at the exact minimum stretch of what has not started; ties by index."""
        if not (len(waiting) and self.aggregate_speed):
            return waiting
        now, applications = self.queue.now, self.run.applications
        release, size = applications.release[waiting], applications.size[waiting]
        stretch = optimal_stretch(
            release,
            size,
            self.left[waiting] * applications.task_size[waiting],
            speed=self.aggregate_speed,
            now=now / NS + self.queue.backlog(now) / self.aggregate_speed,
        )
        self.stretch = stretch
        return waiting[np.argsort(release + stretch * size, kind="stable")]

    def note(self, log: Decisions, order: Integers) -> None:
        """See `Pull.note`."""
        if self.aggregate_speed:
            self._note(log, "ordered", order, self.stretch)


# -- tasks bound at release -----------------------------------------------------------------------------


class Uniform(Bound):
    """Each task goes to any machine that is up with equal chance."""

    STATE = (*Bound.STATE, "chance")
    action = "drawn"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chance = run.streams("fcfs-random")

    def share(self, application: int, count: int, now: int) -> Integers:
        """See `Bound.share`."""
        up = np.flatnonzero(self.run.up)
        drawn = up[self.chance.integers(len(up), size=count)]
        return np.bincount(drawn, minlength=len(self.run.speeds)).astype(np.int64, copy=False)

    def grounds(self, application: int, tasks: Integers, now: int) -> float:
        """See `Bound.grounds`: none."""
        return math.nan
