"""Centralized baselines: schedulers that know the whole grid at every instant, without messages.

Decentralized schedulers are compared with them, so nothing is charged to them: information is perfect,
decisions take effect at once, no message is sent and the traffic accounting stays empty.

A start that falls on the instant of a release or a failure is decided after everything else at that instant.

Where machines fail, lost tasks are known at once and done again, and a machine gets nothing until it has
recovered.  Nothing is decided beyond the next failure, and while no machine is up all tasks wait.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from gridcore.centralized.pull_queue import PullQueue
from gridcore.queues.edf import optimal_stretch
from gridsim.engine.engine import Engine
from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.schedulers.centralized.exact_stretch import BOUND_WORDS, Once
from gridsim.schedulers.centralized.immediate import TIMED_WORDS, EarliestEnd, ImmediateMode
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS


class MinCent(Scheduler, frozen=True, kw_only=True):
    """Centralized heuristic for the smallest maximum stretch (Celaya and Marchal), which knows the present.

    It is no bound: it does not know the future, and binds tasks greedily.

    Where machines fail, ``"replan"`` computes S anew at each change, for the machines that are up.
    ``"once"`` binds lost tasks like a new application of that many tasks, with the first release and size,
    and adds a row to ``requests``.

    Where tasks need memory or disk that not all machines have, or move data, only ``"once"`` runs.  It asks
    the machines that suit, and counts how long each machine fetches, computes and sends
    (`gridcore.DataQueues`), so its availabilities are bounds from below.

    A running task is never preempted.  Of several free machines the fastest goes first, then the lowest id.
    Information is perfect, and there are no latency and no messages.

    Parameters
    ----------
    mode
        ``"replan"``: at each release it computes the minimum stretch S at which the platform, taken as one
        machine of its aggregate speed, completes all tasks that have not started after those that have.  A
        machine that becomes free takes a task of the application with the earliest deadline release + S *
        size.  Other schedulers are compared with this mode.  On a loaded platform it is within 0.5 % of the
        lower bound; on a mostly idle one a slow machine that is free takes a task which a fast one, busy for
        a moment, would have ended earlier. ``"once"``: at its release an application's tasks are bound to
        machines for good, at the smallest S at which the machines' exact availabilities have room for them,
        in proportion to that room; each machine runs EDF at its own minimum stretch.  Table ``requests`` has
        the S of each application (``promised``, s/Mflop).
    """

    name: ClassVar[str] = "mincent"
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
    def moves_data(self) -> bool:
        return self.mode == "once"

    @property
    def constraints(self) -> bool:  # type: ignore[override]
        return self.mode == "once"

    @property
    def order(self) -> Literal["edf"] | None:
        return "edf" if self.mode == "once" else None

    def start(self, run: Run) -> Policy:
        return Replan(run) if self.mode == "replan" else Once(run)


class Fcfs(Scheduler, frozen=True, kw_only=True):
    """First come, first served: a centralized baseline, in order of release and then of index.

    Where tasks need memory or disk that not all machines have, ``"pull"`` does not run, and the others bind
    them to machines that suit.

    Information is perfect, and there are no latency and no messages.

    Parameters
    ----------
    mode
        ``"ect"``: at its release each task of an application is bound to the machine that would end it first
        (ties: the lowest id); ``"pull"``: tasks wait in one list, and a machine that becomes free takes its
        head (the fastest of several free machines goes first, then the lowest id); ``"random"``: each task is
        bound to a machine drawn uniformly, from the random stream ``fcfs-random``.  Bound tasks run in the
        order in which they were bound.  Lost tasks go back into the list, at the place of their application,
        or are bound again at once to machines that are up.
    """

    name: ClassVar[str] = "fcfs"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[DecisionTexts] = {
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
        return "list" if self.mode == "pull" else "fifo"

    @property
    def constraints(self) -> bool:  # type: ignore[override]
        """See `gridsim.scheduling.contract.Scheduler`: a list in which tasks wait has no word for them."""
        return self.mode != "pull"

    def start(self, run: Run) -> Policy:
        if self.mode == "pull":
            return Pull(run)
        return EarliestEnd(run) if self.mode == "ect" else Uniform(run)


# -- one list, from which machines pull -----------------------------------------------------------------


class Pull(Policy):
    """Keeps unstarted tasks in one list, in order of application.

    Machines have no queue of their own (``peak_queue`` is 0); ``facts["peak_waiting"]`` has the most tasks
    that waited in the list at a release or a failure.

    It acts at a release only where decisions are recorded; otherwise the kernel knows all releases.

    Where machines fail, the policy is a source of the engine: it starts the tasks that are due up to the
    engine's next instant, and ends the run with the last task.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "queue", "lost", "left", "released", "waiting", "resubmitted", "peak_waiting", "_first", "_order"
    )  # fmt: skip

    def __init__(self, run: Run) -> None:
        self.run = run
        self.takes_releases = run.decisions is None
        self.queue = PullQueue(run.speeds, len(run.applications), log=run.record)
        self.lost: list[tuple[int, int]] = []  # machine and ns of each failure that cut off a task
        self.left = run.applications.tasks.copy()
        self.released = 0  # applications
        self.waiting = 0  # tasks in the list
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.peak_waiting = 0
        self._first = 0  # no application before it waits
        self._order: Integers | None = None
        if run.faults:
            run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        """Start the tasks that were due before now, and put the new ones into the list."""
        self._advance(self.run.engine.now)
        self._release(applications[-1] + 1)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Start the tasks that were due before now, and put lost ones back into the list."""
        now = self.run.engine.now
        self._advance(now)
        self._release(int(np.searchsorted(self.run.applications.release_ns, now, side="right")))
        machines, lost = self.queue.fail(failed, now)
        if self.run.record:
            self.lost += [(u, now) for u in machines.tolist()]
        self.queue.restore(back, now)
        np.add.at(self.left, lost, 1)
        np.add.at(self.resubmitted, lost, 1)
        self._first = int(lost.min(initial=self._first))
        self._enter(len(lost))

    def _release(self, count: int) -> None:
        """Put the tasks of the applications up to `count` into the list, if a failure has not done so."""
        if count > self.released:
            self._enter(int(self.left[self.released : count].sum()))
            self.released = count

    def _enter(self, tasks: int) -> None:
        """Note that so many tasks have come into the list."""
        self.waiting += tasks
        self.peak_waiting = max(self.peak_waiting, self.waiting)
        self._order = None

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the run ends when the last task ends."""
        self._advance(limit)
        if self.released < len(self.left) or self.waiting:
            return NEVER
        end = int(self.queue.free_at.max())
        return end if end <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        engine.stop()

    def _advance(self, until: int) -> None:
        if until <= self.queue.now:
            return
        if self._order is None and self.run.decisions is not None:
            self._order = self.order(self._waiting())
            self.note(self.run.decisions, self._order)
        self._start(until)

    def _waiting(self) -> Integers:
        """Return the applications in the list, ascending."""
        return np.flatnonzero(self.left[: self.released])

    def _start(self, until: int) -> None:
        """Start what is due before `until` ns, in order of application, also of those that come meanwhile."""
        applications = self.run.applications
        self._first, self.released, self.waiting, peak = self.queue.run_released(
            until,
            applications.release_ns,
            self.left,
            applications.task_size,
            self._first,
            self.released,
            self.waiting,
        )
        self.peak_waiting = max(self.peak_waiting, peak)

    def order(self, waiting: Integers) -> Integers:
        """Return the applications `waiting` (ascending) in the order in which they go from `queue.now` on."""
        return waiting

    def note(self, log: Decisions, order: Integers) -> None:
        """Record that the waiting applications have been brought into this order."""
        before = np.cumsum(self.left[order]) - self.left[order]
        self._note(log, "listed", order, before)

    def _note(self, log: Decisions, action: str, order: Integers, saw: Any) -> None:
        log.record(
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
        """Start all tasks that are left, and return the outcome."""
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
            k = low + np.searchsorted(start[low:high], at) - 1  # the last task that had started
            end[k], completed[k] = at, 0
        columns = machine, application, np.ones_like(machine), start, end, completed
        return dict(zip(SCHEDULE, columns, strict=True))


class Replan(Pull):
    """Orders the list by deadline at the minimum stretch, anew after each release or failure."""

    STATE = (*Pull.STATE, "aggregate_speed")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.takes_releases = False
        self.aggregate_speed = math.fsum(run.speeds)  # of the machines that are up
        self.stretch = math.nan  # of the current order

    def on_faults(self, failed: Integers, back: Integers) -> None:
        super().on_faults(failed, back)
        self.aggregate_speed = math.fsum(self.run.speeds[self.run.up])

    def _start(self, until: int) -> None:
        """See `Pull._start`: in the order of deadlines."""
        if self._order is None:
            self._order = self.order(self._waiting())
        self.waiting -= self.queue.run(until, self._order, self.left, self.run.applications.task_size)

    def order(self, waiting: Integers) -> Integers:
        """Return them by deadline at the exact minimum stretch of unstarted tasks; ties by index."""
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
        if self.aggregate_speed:
            self._note(log, "ordered", order, self.stretch)


# -- tasks bound at release -----------------------------------------------------------------------------


class Uniform(ImmediateMode):
    """Binds each task to a machine drawn uniformly from those that are up and suit it."""

    STATE = (*ImmediateMode.STATE, "chance")
    action = "drawn"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chance = run.streams("fcfs-random")

    def share(self, application: int, count: int, now: int) -> Integers:
        those = np.flatnonzero(self.open(application))
        drawn = those[self.chance.integers(len(those), size=count)]
        return np.bincount(drawn, minlength=len(self.run.speeds)).astype(np.int64, copy=False)

    def grounds(self, application: int, machines: Integers, now: int) -> float:
        """See `ImmediateMode.grounds`: nan, as there is no such value."""
        return math.nan
