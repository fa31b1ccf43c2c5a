"""Centralized baselines: schedulers that know the whole grid at every instant and talk for nothing.

They are what a decentralized scheduler is measured against, so nothing is charged to them: information is
perfect, decisions take effect at once, no message is sent and the traffic ledger stays empty.

A start that falls on the instant of a release is decided after all releases of that instant.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.dispatch import PullQueue, bind_earliest
from gridcore.edf import optimal_stretch
from gridcore.queues import TaskQueues
from gridcore.summaries import split
from gridsim.engine import NEVER, NS
from gridsim.errors import ScenarioError
from gridsim.scheduler import Integers, Outcome, Policy, Run, Scheduler

#: How closely the smallest stretch of ``MinCent(mode="once")`` is found, relative and from above.
STRETCH_TOLERANCE = 1e-9


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

    A running task is never preempted.  Of several free machines the fastest goes first, then the lowest id.
    Perfect information, no latency, no messages.
    """

    name: ClassVar[str] = "mincent"
    decentralized: ClassVar[bool] = False

    mode: Literal["replan", "once"] = "replan"

    def __post_init__(self) -> None:
        _check_mode(self.name, self.mode, ("replan", "once"))

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        return Replan(run) if self.mode == "replan" else Once(run)


class Fcfs(Scheduler, frozen=True, kw_only=True):
    """Centralized first come, first served, in order of release and then of index.

    mode : ``"ect"``: at its release each task of an application is bound to the machine that would end it
        first (ties: the lowest id); ``"pull"``: one list for all, of which a machine that becomes free takes
        the head (the fastest of several free machines goes first, then the lowest id); ``"random"``: each
        task is bound to a machine drawn uniformly, from the stream ``fcfs-random``.  Bound tasks run in the
        order in which they were bound.

    Perfect information, no latency, no messages.
    """

    name: ClassVar[str] = "fcfs"
    decentralized: ClassVar[bool] = False

    mode: Literal["ect", "pull", "random"] = "ect"

    def __post_init__(self) -> None:
        _check_mode(self.name, self.mode, ("ect", "pull", "random"))

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduler.Scheduler`."""
        if self.mode == "pull":
            return Pull(run)
        return EarliestEnd(run) if self.mode == "ect" else Uniform(run)


def _check_mode(name: str, mode: str, known: tuple[str, ...]) -> None:
    if mode not in known:
        raise ScenarioError(f"{name}.mode must be one of {known}, got {mode!r}")


def _outcome(totals: Mapping[str, Integers], **facts: int) -> Outcome:
    """The report on what a kernel's `totals` say; no machine fails, so nothing is submitted again."""
    found = {**totals, "resubmitted": np.zeros_like(totals["finish"])}
    applications = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
    return Outcome(
        applications={name: found[name] for name in applications},
        machines={name: found[name] for name in ("busy", "tasks", "peak_queue")},
        facts=facts,
    )


# -- one list, machines pull ----------------------------------------------------------------------------


class Pull(Policy):
    """Unstarted tasks wait in one list, in the order of `order`.

    Machines have no queue of their own (``peak_queue`` is 0); ``facts["peak_waiting"]`` has the most tasks
    that waited in the list at a release.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.queue = PullQueue(run.speeds, len(run.applications))
        self.left = np.zeros(len(run.applications), np.int64)
        self.peak_waiting = 0
        self._order: Integers | None = None

    def on_release(self, applications: list[int]) -> None:
        """Start what was due before now; what is new goes into the list."""
        self._advance(self.run.engine.now)
        self.left[applications] = self.run.applications.tasks[applications]
        self.peak_waiting = max(self.peak_waiting, int(self.left.sum()))
        self._order = None

    def _advance(self, until: int) -> None:
        if until <= self.queue.now:
            return
        if self._order is None:
            self._order = self.order(np.flatnonzero(self.left))
        self.queue.run(until, self._order, self.left, self.run.applications.task_size)

    def order(self, waiting: Integers) -> Integers:
        """The applications `waiting` (ascending) in the order in which they go, from `queue.now` on."""
        return waiting

    def finish(self) -> Outcome:
        """Start everything that is left, and report."""
        self._advance(NEVER)
        no_queues = np.zeros(len(self.run.speeds), np.int64)
        return _outcome({**self.queue.totals(), "peak_queue": no_queues}, peak_waiting=self.peak_waiting)


class Replan(Pull):
    """The list is in order of deadline at the minimum stretch, which is computed anew after each release."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)

    def order(self, waiting: Integers) -> Integers:
        """By deadline at the exact minimum stretch of what has not started; ties by index."""
        now, applications = self.queue.now, self.run.applications
        release, size = applications.release[waiting], applications.size[waiting]
        stretch = optimal_stretch(
            release,
            size,
            self.left[waiting] * applications.task_size[waiting],
            speed=self.aggregate_speed,
            now=now / NS + self.queue.backlog(now) / self.aggregate_speed,
        )
        return waiting[np.argsort(release + stretch * size, kind="stable")]


# -- tasks bound at release -----------------------------------------------------------------------------


class Bound(Policy):
    """Each task is bound to a machine at its application's release, by `share`; machines have queues."""

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"

    def __init__(self, run: Run) -> None:
        self.run = run
        applications = run.applications
        self.queues = TaskQueues(run.speeds, order=self.local_order)
        self.queues.add_applications(applications.release, applications.size, applications.task_size)
        self.nodes_used = np.zeros(len(applications), np.int64)

    @abstractmethod
    def share(self, application: int, now: int) -> Integers:
        """How many tasks of `application` each machine gets, bound at `now` ns."""

    def on_release(self, applications: list[int]) -> None:
        """Bind the tasks of `applications`, one application after the other."""
        now = self.run.engine.now
        for i in applications:
            tasks = self.share(i, now)
            machines = np.flatnonzero(tasks)
            self.queues.enqueue(machines, np.full(len(machines), i), tasks[machines], now)
            self.queues.reschedule(machines, now)
            self.nodes_used[i] = len(machines)

    def finish(self) -> Outcome:
        """Let the machines complete what they have, and report."""
        self.queues.advance(NEVER)
        return _outcome({**self.queues.totals(), "nodes_used": self.nodes_used})


class EarliestEnd(Bound):
    """Each task goes to the machine that would end it first."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.free_at = np.zeros(len(run.speeds), np.int64)

    def share(self, application: int, now: int) -> Integers:
        """See `Bound.share`."""
        applications = self.run.applications
        task_size, tasks = applications.task_size[application], applications.tasks[application]
        return bind_earliest(self.free_at, self.run.speeds, task_size, tasks, now)


class Uniform(Bound):
    """Each task goes to any machine with equal chance."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chance = run.streams("fcfs-random")

    def share(self, application: int, now: int) -> Integers:
        """See `Bound.share`."""
        machines = len(self.run.speeds)
        drawn = self.chance.integers(machines, size=self.run.applications.tasks[application])
        return np.bincount(drawn, minlength=machines).astype(np.int64, copy=False)


class Once(Bound):
    """Tasks are shared out in proportion to availability at the smallest stretch that has room for them."""

    local_order = "edf"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)
        self.promised = np.zeros(len(run.applications))
        self._bound: list[int] = []
        self._sort_out(run.speeds)

    def _sort_out(self, key: NDArray[Any]) -> None:
        """Machines with the same `key` are of one kind: equally fast, and given the same tasks all along.

        They are in the same state, so only the first of each kind is asked how many tasks it can take.
        """
        _, self._first, self._kind, self._count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )

    def share(self, application: int, now: int) -> Integers:
        """See `Bound.share`."""
        stretch, room = self._smallest(application, now)
        self.promised[application] = stretch
        self._bound.append(application)
        tasks = split(room, int(self.run.applications.tasks[application]))
        self._sort_out(self._kind * (tasks.max() + 1) + tasks)
        return tasks

    def _smallest(self, application: int, now: int) -> tuple[float, Integers]:
        """The smallest stretch with room for the application, and the room of each machine at it.

        Room does not fall as the stretch grows, so a kind that has the same at both ends of the bracket is
        settled.  Rounding does not change that: it moves the stretch at which a count steps by some 1e-13 of
        it, and what is tried later lies inside of these ends by at least half of STRETCH_TOLERANCE.
        """
        applications = self.run.applications
        tasks = int(applications.tasks[application])
        new = (
            float(applications.release[application]),
            float(applications.size[application]),
            float(applications.task_size[application]),
            now,
        )
        # Nothing ends earlier than on an empty platform whose machines could do parts of tasks.
        low = (1.0 - STRETCH_TOLERANCE) / self.aggregate_speed
        high = max(low, self.promised[self._bound[-1]] if self._bound else 0.0)
        # the room of the first of each kind at high, and at low or below
        fewest = np.zeros(len(self._first), np.int64)
        room = self.queues.available(high, *new, machines=self._first)
        while room @ self._count < tasks:
            low, fewest, high = high, room, 2.0 * high
            room = self.queues.available(high, *new, machines=self._first)
        while high - low > STRETCH_TOLERANCE * high:
            middle = low + (high - low) / 2.0
            attempt, open_ = room.copy(), np.flatnonzero(fewest != room)
            attempt[open_] = self.queues.available(middle, *new, machines=self._first[open_])
            if attempt @ self._count >= tasks:
                high, room = middle, attempt
            else:
                low, fewest = middle, attempt
        return high, room[self._kind]

    def finish(self) -> Outcome:
        """Let the machines complete what they have, and report."""
        outcome = super().finish()
        bound = np.array(self._bound, np.int64)
        outcome.tables["requests"] = {"application": bound, "promised": self.promised[bound]}
        return outcome
