"""Centralized baselines: schedulers that know the whole grid at every instant, without messages.

Decentralized schedulers are compared with them, so they have no costs: information is perfect, decisions take
effect at once, and no message is sent.

A start at the instant of a release or a failure is decided after everything else at that instant.

If machines fail, lost tasks are known at once and run again, and a machine gets no tasks until it has
recovered.  Failures are not known in advance, and all tasks wait while no machine is up.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from gridcore.centralized.pull_queue import PullQueue
from gridcore.queues.edf import optimal_stretch
from gridsim.engine.engine import Engine
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.schedulers.centralized.exact_stretch import BOUND_WORDS, ExactStretch
from gridsim.schedulers.centralized.immediate import READY_TIME_WORDS, EarliestEnd, ImmediateMode
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS

#: Mode of `Fcfs` -> how tasks come to machines.
_MODES = {
    "ect": "each task is bound at its release to the machine that would end it first",
    "pull": "tasks wait in one list, and a machine that becomes free takes its first task",
    "random": "each task is bound at its release to a random machine",
}


class MinCent(Scheduler, frozen=True, kw_only=True):
    """Centralized heuristic for the smallest maximum stretch (Celaya and Marchal), with perfect information.

    It is not a bound: it does not know the future, and binds tasks greedily.

    If machines fail, ``"replan"`` computes S again at each failure and recovery, for the machines that are
    up.  ``"once"`` binds lost tasks like a new application of as many tasks, with the original release and
    size, and adds a row to ``requests``.

    If tasks move data, or need memory or disk that not all machines have, only ``"once"`` is supported.  It
    uses the suitable machines, and adds up the times of transfers and of computing on each machine
    (`gridcore.DataQueues`), so its availabilities are lower bounds.

    A running task is never preempted.  Of several free machines the fastest goes first, then the lowest id.
    Information is perfect, without latency and without messages.

    Parameters
    ----------
    mode
        ``"replan"``: at each release it computes the minimum stretch S at which the platform, taken as one
        machine of its aggregate speed, completes all unstarted tasks after the running ones.  A machine that
        becomes free takes a task of the application with the earliest deadline, release + S * size.  Other
        schedulers are compared with this mode.  On a loaded platform it is within 0.5 % of the lower bound;
        on a mostly idle one a slow free machine may take a task that a fast busy machine would have ended
        earlier.  ``"once"``: at its release an application's tasks are bound to machines permanently, at the
        smallest S at which the exact availabilities of the machines have room for them, in proportion to
        that room; each machine runs EDF at its own minimum stretch.  Table ``requests`` has
        the S of each application (``promised``, s/Mflop).
    """

    name: ClassVar[str] = "mincent"
    dependencies: ClassVar[bool] = True
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[DecisionTexts] = {
        "ordered": (
            "ordered {among} applications by deadline; {tasks} tasks of this one wait",
            "a minimum stretch of",
            "s/Mflop",
        ),
        **BOUND_WORDS,
    }

    mode: Literal["replan", "once"] = "replan"

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, and on when tasks are bound, if that is at their release."""
        once = "; tasks are bound to machines at their release"
        return f"{super().summary.removesuffix('.')}{once if self.mode == 'once' else ''}."

    @property
    def moves_data(self) -> bool:
        return self.mode == "once"

    @property
    def constraints(self) -> bool:  # type: ignore[override]
        return self.mode == "once"

    @property
    def promised_order(self) -> Literal["edf"] | None:
        return "edf" if self.mode == "once" else None

    def start(self, run: Run) -> Policy:
        return Replan(run) if self.mode == "replan" else ExactStretch(run)


class Fcfs(Scheduler, frozen=True, kw_only=True):
    """First come, first served: a centralized baseline, in order of release and then of index.

    If tasks need memory or disk that not all machines have, ``"pull"`` is not supported, and the other modes
    bind them to suitable machines.

    Information is perfect, without latency and without messages.

    Parameters
    ----------
    mode
        ``"ect"``: at its release each task of an application is bound to the machine that would end it first
        (ties: the lowest id); ``"pull"``: tasks wait in one list, and a machine that becomes free takes its
        first task (the fastest of several free machines first, then the lowest id); ``"random"``: each task
        is bound to a machine drawn uniformly, from the random stream ``fcfs-random``.  Bound tasks run in the
        order in which they were bound.  Lost tasks return to the list, at the place of their application, or
        are bound again at once to machines that are up.
    """

    name: ClassVar[str] = "fcfs"
    dependencies: ClassVar[bool] = True
    decentralized: ClassVar[bool] = False
    shares_memory: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = {
        **READY_TIME_WORDS,
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
    def summary(self) -> str:
        """A sentence on the order and on how tasks come to machines."""
        return f"First come, first served, a centralized baseline: {_MODES[self.mode]}."

    @property
    def promised_order(self) -> Literal["fifo", "list"]:
        return "list" if self.mode == "pull" else "fifo"

    @property
    def cores(self) -> bool | Literal["separate"]:  # type: ignore[override]
        """How machines with several cores run; ``"random"`` binds tasks to the queue of a machine."""
        return True if self.mode == "random" else "separate"

    @property
    def constraints(self) -> bool:  # type: ignore[override]
        """Whether tasks may need memory or disk; the list of ``"pull"`` does not support this."""
        return self.mode != "pull"

    def start(self, run: Run) -> Policy:
        if self.mode == "pull":
            return Pull(run)
        return EarliestEnd(run) if self.mode == "ect" else RandomMode(run)


class ShortestBagFirst(Scheduler, frozen=True, kw_only=True):
    """Shortest bag first: a centralized baseline, in order of size and then of release.

    Tasks wait in one list, and a machine that becomes free takes a task of the smallest application in it
    (the fastest of several free machines first, then the lowest id).  Running tasks are not preempted, and a
    large application waits as long as smaller ones arrive.  Lost tasks return to the list.

    Information is perfect, without latency and without messages.
    """

    name: ClassVar[str] = "shortest-bag-first"
    dependencies: ClassVar[bool] = True
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[DecisionTexts] = {
        "sorted": (
            "sorted {among} applications by size; {tasks} tasks of this one wait",
            "tasks of others ahead:",
            "",
        ),
    }

    def start(self, run: Run) -> Policy:
        return SizeOrder(run)


# -- one list from which machines pull ------------------------------------------------------------------


class Pull(Policy):
    """Policy with one list of unstarted tasks, in order of release, from which machines take tasks.

    Machines have no queues (``peak_queue`` is 0); ``facts["peak_waiting"]`` is the largest number of tasks in
    the list at a release or a failure.

    In order of release it acts at a release only if decisions are recorded; otherwise the kernel handles all
    releases.

    If machines fail, the policy starts the tasks that are due up to the engine's next instant, and ends the
    run with the last task.  If applications follow others, it stops at each end of an application: until
    then no further application can end, since it starts tasks only up to the earliest possible end.
    """

    #: How decisions on the order are recorded.
    action = "listed"

    STATE: ClassVar[tuple[str, ...]] = (
        "queue", "lost", "unstarted_tasks", "released", "waiting", "resubmitted", "peak_waiting", "_first",
        "_order", "is_released", "has_ended",
    )  # fmt: skip

    def __init__(self, run: Run) -> None:
        self.run = run
        self.takes_releases = run.decisions is None and run.releases is None
        self.queue = PullQueue(run.speeds, len(run.applications), log=run.record)
        self.lost: list[tuple[int, int]] = []  # machine and time (ns) of each failure that interrupted a task
        self.unstarted_tasks = run.applications.tasks.copy()
        self.released = 0  # number of released applications
        self.waiting = 0  # number of tasks in the list
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.peak_waiting = 0
        self._first = 0  # all earlier applications have no task in the list
        self._order: Integers | None = None
        # whether each application is released, and has ended, if some follow others
        self.is_released, self.has_ended = np.zeros((2, len(run.applications)), np.bool_)
        if run.faults or run.releases is not None:
            run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Start the tasks that were due before now, and add the new tasks to the list."""
        self._advance(self.run.engine.now)
        if self.run.releases is None:
            self._release(applications[-1] + 1)
            return
        self.is_released[applications] = True
        self._count_waiting(int(self.unstarted_tasks[applications].sum()))

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Start the tasks that were due before now, and return lost tasks to the list."""
        now = self.run.engine.now
        self._advance(now)
        if self.run.releases is None:
            self._release(int(np.searchsorted(self.run.applications.release_ns, now, side="right")))
        machines, lost = self.queue.fail(failed, now)
        if self.run.record:
            self.lost += [(u, now) for u in machines.tolist()]
        self.queue.restore(recovered, now)
        np.add.at(self.unstarted_tasks, lost, 1)
        np.add.at(self.resubmitted, lost, 1)
        self._first = int(lost.min(initial=self._first))
        self._count_waiting(len(lost))

    def _release(self, count: int) -> None:
        """Add the tasks of the first `count` applications to the list, except tasks already released."""
        if count > self.released:
            self._count_waiting(int(self.unstarted_tasks[self.released : count].sum()))
            self.released = count

    def _count_waiting(self, tasks: int) -> None:
        """Count `tasks` new tasks in the list, and invalidate its order."""
        self.waiting += tasks
        self.peak_waiting = max(self.peak_waiting, self.waiting)
        self._order = None

    def advance(self, limit: int) -> int:
        """Return the end of the last task, ns, if it is known and not after `limit`; otherwise NEVER.

        If applications follow others, return the next end of an application.
        """
        if self.run.releases is not None:
            return self._advance_to_end(min(limit, self.run.releases.next_release()))
        self._advance(limit)
        if self.released < len(self.unstarted_tasks) or self.waiting:
            return NEVER
        end = int(self.queue.free_at.max())
        return end if end <= limit else NEVER

    def _advance_to_end(self, limit: int) -> int:
        """Start tasks until an application ends; return when (ns), or NEVER if it is after `limit`."""
        while True:
            end = int(self._known_ends().min())
            until = min(limit, end, self._earliest_end())
            if until == NEVER:
                return NEVER
            self._advance(until)
            if until == end:
                return end
            if until == limit:
                return NEVER

    def _known_ends(self) -> Integers:
        """Return the ends of applications whose tasks have all started, ns; NEVER for all others."""
        is_known = self.is_released & ~self.has_ended & (self.unstarted_tasks == 0)
        return np.where(is_known, self.queue.totals()["finish"], NEVER)

    def _earliest_end(self) -> int:
        """Return a time (ns) before which no task ends that has not started yet."""
        waiting, up = self._waiting(), self.run.up
        if not (len(waiting) and up.any()):
            return NEVER
        seconds = float(self.run.applications.task_size[waiting].min() / self.run.speeds[up].max())
        start = max(self.queue.now, int(self.queue.free_at[up].min()))
        return start + max(1, math.floor(seconds * NS) - 1)

    def collect(self, engine: Engine, time: int) -> None:
        """Report the applications that end now, and end the run with the last one."""
        if self.run.releases is not None:
            ended = np.flatnonzero(self._known_ends() <= time)
            self.has_ended[ended] = True
            self.run.releases.end(ended, time)
            if not self.has_ended.all():
                return
        engine.stop()

    def _advance(self, until: int) -> None:
        if until <= self.queue.now:
            return
        if self._order is None and self.run.decisions is not None:
            self._order = self.order(self._waiting())
            self.record_order(self.run.decisions, self._order)
        self._start(until)

    def _waiting(self) -> Integers:
        """Return the applications in the list, ascending."""
        if self.run.releases is not None:
            return np.flatnonzero(self.is_released & (self.unstarted_tasks > 0))
        return np.flatnonzero(self.unstarted_tasks[: self.released])

    def _start(self, until: int) -> None:
        """Release applications and start the tasks due before `until`, ns, in order of release."""
        applications = self.run.applications
        if self.run.releases is not None:
            self._start_in_order(until)
            return
        self._first, self.released, self.waiting, peak = self.queue.run_released(
            until,
            applications.release_ns,
            self.unstarted_tasks,
            applications.task_size,
            self._first,
            self.released,
            self.waiting,
        )
        self.peak_waiting = max(self.peak_waiting, peak)

    def _start_in_order(self, until: int) -> None:
        """Start the tasks of released applications that are due before `until`, ns, in their `order`."""
        if self._order is None:
            self._order = self.order(self._waiting())
        self.waiting -= self.queue.run(
            until, self._order, self.unstarted_tasks, self.run.applications.task_size
        )

    def order(self, waiting: Integers) -> Integers:
        """Return the applications `waiting` (ascending) in the order in which their tasks start."""
        return waiting[np.argsort(self.run.applications.release_ns[waiting], kind="stable")]

    def record_order(self, log: Decisions, order: Integers) -> None:
        """Record the order of the waiting applications."""
        tasks_ahead = np.cumsum(self.unstarted_tasks[order]) - self.unstarted_tasks[order]
        self._record(log, self.action, order, tasks_ahead)

    def _record(self, log: Decisions, action: str, order: Integers, saw: Any) -> None:
        log.record(
            action,
            time=self.queue.now,
            application=order,
            decider=-1,
            tasks=self.unstarted_tasks[order],
            among=len(order),
            saw=saw,
            true=saw,
            age=0.0,
        )

    def finish(self) -> Outcome:
        """Start all remaining tasks, and return the outcome."""
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
        machine, application, start, end = self.queue.starts()
        order = np.lexsort((start, machine))
        machine, application, start, end = machine[order], application[order], start[order], end[order]
        completed = np.ones_like(machine)
        for u, at in self.lost:
            low, high = np.searchsorted(machine, (u, u + 1))
            k = low + np.searchsorted(start[low:high], at) - 1  # the last task started before the failure
            end[k], completed[k] = at, 0
        columns = machine, application, np.ones_like(machine), start, end, completed
        return dict(zip(SCHEDULE, columns, strict=True))


class Sorted(Pull):
    """Policy whose list has another order, which it computes after each release or failure."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.takes_releases = False

    def _start(self, until: int) -> None:
        """Start the tasks due before `until`, ns, in the order of the list."""
        self._start_in_order(until)


class SizeOrder(Sorted):
    """Policy that orders the list by the sizes of applications."""

    action = "sorted"

    def order(self, waiting: Integers) -> Integers:
        """Return `waiting` in order of size; ties in order of release."""
        applications = self.run.applications
        return waiting[np.lexsort((applications.release_ns[waiting], applications.size[waiting]))]


class Replan(Sorted):
    """Policy that orders the list by deadline at the minimum stretch."""

    STATE = (*Pull.STATE, "aggregate_speed")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)  # total of the machines that are up
        self.stretch = math.nan  # stretch of the current order

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        super().on_faults(failed, recovered)
        self.aggregate_speed = math.fsum(self.run.speeds[self.run.up])

    def order(self, waiting: Integers) -> Integers:
        """Return `waiting` sorted by deadline at the minimum stretch of unstarted tasks; ties by index."""
        if not (len(waiting) and self.aggregate_speed):
            return waiting
        now, applications = self.queue.now, self.run.applications
        release, size = applications.release[waiting], applications.size[waiting]
        stretch = optimal_stretch(
            release,
            size,
            self.unstarted_tasks[waiting] * applications.task_size[waiting],
            speed=self.aggregate_speed,
            now=now / NS + self.queue.backlog(now) / self.aggregate_speed,
        )
        self.stretch = stretch
        return waiting[np.argsort(release + stretch * size, kind="stable")]

    def record_order(self, log: Decisions, order: Integers) -> None:
        if self.aggregate_speed:
            self._record(log, "ordered", order, self.stretch)


# -- tasks bound at release -----------------------------------------------------------------------------


class RandomMode(ImmediateMode):
    """Policy that binds each task to a machine drawn uniformly from the suitable machines that are up."""

    STATE = (*ImmediateMode.STATE, "stream")
    action = "drawn"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.stream = run.streams("fcfs-random")

    def share(self, application: int, count: int, now: int) -> Integers:
        machines = np.flatnonzero(self.eligible(application))
        draws = machines[self.stream.integers(len(machines), size=count)]
        return np.bincount(draws, minlength=len(self.run.speeds)).astype(np.int64, copy=False)

    def decision_value(self, application: int, machines: Integers, now: int) -> float:
        """Return NaN, since a random choice is based on no value."""
        return math.nan
