"""Policies that bind tasks to machines when their application is released."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from gridcore.centralized.earliest_ends import EarliestEnds, bind_earliest
from gridsim.engine.engine import Engine
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.scheduling.queues import task_bytes, task_queues
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.clock import NEVER, NS

#: Texts of the decisions of `ReadyTimeMode`.
READY_TIME_WORDS: DecisionTexts = {
    "bound": (
        "bound {tasks} tasks to machines, most of them to {machine}, of {among} that are up",
        "an end of the last one after",
        "s",
    )
}


class ImmediateMode(Policy):
    """Base class of policies that bind tasks to the queues of machines at release, by `share`.

    If machines fail, lost tasks are bound again at once, and the policy itself ends the run with the last
    task.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queues", "unbound", "resubmitted")
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    #: Action of its decisions in table ``decisions``.
    action: ClassVar[str] = "bound"

    def __init__(self, run: Run) -> None:
        self.run = run
        applications = run.applications
        self.queues = task_queues(run, order=self.local_order, record=run.record)
        columns = applications.release, applications.size, applications.task_size
        self.queues.add_applications(*columns, **task_bytes(run))
        self.total = int(applications.tasks.sum())
        # application -> number of unbound tasks, which wait while no machine is up
        self.unbound: dict[int, int] = {}
        self.resubmitted = np.zeros(len(applications), np.int64)
        if run.releases is not None:
            self.queues.follow(run.releases, applications.tasks)
        if run.faults or run.releases is not None:
            run.engine.add_source(self)

    def eligible(self, application: int) -> Bools:
        """Return whether each machine is up and suits `application`, bool[machines]; at least one does."""
        suited = self.run.applications.machines_for(application)
        return self.run.up if suited is None else self.run.up & suited

    @abstractmethod
    def share(self, application: int, count: int, now: int) -> Integers:
        """Return how many of the `count` tasks of `application` each machine gets at `now` ns.

        Only `eligible` machines get tasks.
        """

    def allocation(self, application: int, count: int, now: int) -> tuple[Integers, Integers]:
        """Return the machines to which `share` gives tasks, ascending, and their numbers of tasks."""
        tasks = self.share(application, count, now)
        machines = np.flatnonzero(tasks)
        return machines, tasks[machines]

    @abstractmethod
    def decision_value(self, application: int, machines: Integers, now: int) -> float:
        """Return the value on which the choice of `machines` is based, as recorded with `action`."""

    def on_release(self, applications: list[int]) -> None:
        """Bind the tasks of `applications`, one application after another."""
        if self.run.releases is not None:
            self.queues.release_applications(applications)
        for i in applications:
            self.unbound[i] = int(self.run.applications.tasks[i])
        self._bind()

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Bind lost tasks, and tasks that waited while no machine was up."""
        _, applications, tasks = self.queues.fail(failed, self.run.engine.now)
        np.add.at(self.resubmitted, applications, tasks)
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.unbound[i] = self.unbound.get(i, 0) + count
        self._bind()

    def _bind(self) -> None:
        if not self.run.up.any():
            return
        now = self.run.engine.now
        for i, count in sorted(self.unbound.items()):
            machines, tasks = self.allocation(i, count, now)
            if self.run.decisions is not None:
                saw = self.decision_value(i, machines, now)
                self.run.decisions.record(
                    self.action,
                    time=now,
                    application=i,
                    decider=-1,
                    machine=machines[tasks.argmax()],
                    tasks=count,
                    among=self.eligible(i).sum(),
                    saw=saw,
                    true=saw,
                    age=0.0,
                )
            self.queues.enqueue(machines, np.full(len(machines), i), tasks, now)
            self.queues.reschedule(machines, now)
        self.unbound.clear()

    def advance(self, limit: int) -> int:
        """Return the next time at which a machine ends a task, ns; NEVER if it is after `limit`."""
        at = self.queues.next_change()
        return at if at <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        self.queues.due(time)
        if self.queues.tasks_done == self.total:
            engine.stop()

    def finish(self) -> Outcome:
        """Run the queues to the end, and return the outcome."""
        self.queues.advance(NEVER)
        return Outcome.of(self.queues, self.resubmitted)


class ReadyTimeMode(ImmediateMode):
    """Base class of policies that bind tasks by the ready times of machines.

    Attributes
    ----------
    free_at
        Time at which each machine completes its bound tasks, ns, int64[machines].
    """

    STATE = (*ImmediateMode.STATE, "free_at")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.free_at = np.zeros(len(run.speeds), np.int64)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Set the ready times of failed machines to now, and bind lost tasks again."""
        self.free_at[failed] = self.run.engine.now
        super().on_faults(failed, recovered)

    def decision_value(self, application: int, machines: Integers, now: int) -> float:
        """Return the time until the last of the tasks ends, s."""
        return int(self.free_at[machines].max() - now) / NS

    @abstractmethod
    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        """Return how many of `count` tasks each machine (`speeds`, Mflop/s) gets, and update `free_at`."""

    def share(self, application: int, count: int, now: int) -> Integers:
        machines, tasks = np.flatnonzero(self.eligible(application)), np.zeros(len(self.free_at), np.int64)
        free_at, task_size = self.free_at[machines], float(self.run.applications.task_size[application])
        tasks[machines] = self.bind(free_at, self.run.speeds[machines], task_size, count, now)
        self.free_at[machines] = free_at
        return tasks


class EarliestEnd(ReadyTimeMode):
    """Policy that binds each task to the machine that would end it first."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        #: Whether `ends` agrees with `free_at` and with the machines that are up.
        self.has_valid_ends = False

    @cached_property
    def ends(self) -> EarliestEnds:
        """The machines by the time at which they would end one more task; for applications with few tasks."""
        return EarliestEnds(self.run.speeds)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        self.has_valid_ends = False
        super().on_faults(failed, recovered)

    def allocation(self, application: int, count: int, now: int) -> tuple[Integers, Integers]:
        """Return the machines that get tasks, ascending, and their numbers of tasks."""
        machines, unconstrained = len(self.free_at), self.run.applications.machines_for(application) is None
        if not unconstrained or count > machines or count * self.ends.kinds > machines:
            self.has_valid_ends = False
            return super().allocation(application, count, now)
        if not self.has_valid_ends:
            self.ends.restart(self.free_at, self.run.up, now)
            self.has_valid_ends = True
        chosen_machines = self.ends.bind(
            self.free_at, float(self.run.applications.task_size[application]), count, now
        )
        if count > 1:
            return np.unique(chosen_machines, return_counts=True)
        return chosen_machines, np.ones(1, np.int64)

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        return bind_earliest(free_at, speeds, task_size, count, now)
