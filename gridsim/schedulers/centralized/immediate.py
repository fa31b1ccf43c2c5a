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
from gridsim.scheduling.queues import moved_bytes, task_queues
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.clock import NEVER, NS

#: Words of schedulers whose policy is `Timed`; see `gridsim.scheduling.contract.Scheduler.decision_words`.
TIMED_WORDS: DecisionTexts = {
    "bound": (
        "bound {tasks} tasks to machines, most of them to {machine}, of {among} that are up",
        "an end of the last one after",
        "s",
    )
}


class ImmediateMode(Policy):
    """Binds tasks to machines at their application's release, by `share`; each machine has a queue.

    Where machines fail, lost tasks are bound again at once, and the policy is a source of the engine that
    ends the run with the last task.
    """

    STATE: ClassVar[tuple[str, ...]] = ("queues", "unbound", "resubmitted")
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    #: Name of the action of binding tasks in the table ``decisions``.
    action: ClassVar[str] = "bound"

    def __init__(self, run: Run) -> None:
        self.run = run
        applications = run.applications
        self.queues = task_queues(run, order=self.local_order, record=run.record)
        columns = applications.release, applications.size, applications.task_size
        self.queues.add_applications(*columns, **moved_bytes(run))
        self.total = int(applications.tasks.sum())
        # application -> tasks that are to be bound; they stay here while no machine is up
        self.unbound: dict[int, int] = {}
        self.resubmitted = np.zeros(len(applications), np.int64)
        if run.faults:
            run.engine.add_source(self)

    def open(self, application: int) -> Bools:
        """Return which machines are up and suit `application`, bool[machines]; at least one does."""
        suited = self.run.applications.machines_for(application)
        return self.run.up if suited is None else self.run.up & suited

    @abstractmethod
    def share(self, application: int, count: int, now: int) -> Integers:
        """Return how many of `count` tasks of `application` each machine gets, bound at `now` ns.

        Only machines that are `open` to it get any.
        """

    def placed(self, application: int, count: int, now: int) -> tuple[Integers, Integers]:
        """Return the machines that get tasks, ascending, and how many each; as `share`, which see."""
        tasks = self.share(application, count, now)
        machines = np.flatnonzero(tasks)
        return machines, tasks[machines]

    @abstractmethod
    def grounds(self, application: int, machines: Integers, now: int) -> float:
        """Return the value by which `machines` have got tasks, in the unit of the words of `action`."""

    def on_release(self, applications: list[int]) -> None:
        """Bind the tasks of `applications`, one application after the other."""
        for i in applications:
            self.unbound[i] = int(self.run.applications.tasks[i])
        self._bind()

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Bind lost tasks, and tasks that waited for a machine to be up."""
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
            machines, tasks = self.placed(i, count, now)
            if self.run.decisions is not None:
                saw = self.grounds(i, machines, now)
                self.run.decisions.record(
                    self.action,
                    time=now,
                    application=i,
                    decider=-1,
                    machine=machines[tasks.argmax()],
                    tasks=count,
                    among=self.open(i).sum(),
                    saw=saw,
                    true=saw,
                    age=0.0,
                )
            self.queues.enqueue(machines, np.full(len(machines), i), tasks, now)
            self.queues.reschedule(machines, now)
        self.unbound.clear()

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the run ends when the last machine runs out of work."""
        at = self.queues.next_change()
        return at if at <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        self.queues.due(time)
        if self.queues.tasks_done == self.total:
            engine.stop()

    def finish(self) -> Outcome:
        """Let the machines complete their tasks, and return the outcome."""
        self.queues.advance(NEVER)
        return Outcome.of(self.queues, self.resubmitted)


class Timed(ImmediateMode):
    """Binds tasks by the work that machines have left, and so keeps track of when each one is free.

    Attributes
    ----------
    free_at
        int64[machines], ns, when each machine completes what is bound to it.
    """

    STATE = (*ImmediateMode.STATE, "free_at")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.free_at = np.zeros(len(run.speeds), np.int64)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `ImmediateMode.on_faults`; a machine that failed has no work left."""
        self.free_at[failed] = self.run.engine.now
        super().on_faults(failed, back)

    def grounds(self, application: int, machines: Integers, now: int) -> float:
        """See `ImmediateMode.grounds`: the time until the last of the tasks ends, s."""
        return int(self.free_at[machines].max() - now) / NS

    @abstractmethod
    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        """Return how many of `count` tasks each machine (`speeds`, Mflop/s) gets at `now`; set `free_at`."""

    def share(self, application: int, count: int, now: int) -> Integers:
        those, tasks = np.flatnonzero(self.open(application)), np.zeros(len(self.free_at), np.int64)
        free_at, task_size = self.free_at[those], float(self.run.applications.task_size[application])
        tasks[those] = self.bind(free_at, self.run.speeds[those], task_size, count, now)
        self.free_at[those] = free_at
        return tasks


class EarliestEnd(Timed):
    """Binds each task to the machine that would end it first."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        #: Whether `ends` has seen `free_at` and which machines are up.
        self.known = False

    @cached_property
    def ends(self) -> EarliestEnds:
        """The machines by the end of a task, which only applications of few tasks need."""
        return EarliestEnds(self.run.speeds)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        self.known = False
        super().on_faults(failed, back)

    def placed(self, application: int, count: int, now: int) -> tuple[Integers, Integers]:
        """See `ImmediateMode.placed`; where tasks are few, not every machine is looked at."""
        machines, alike = len(self.free_at), self.run.applications.machines_for(application) is None
        if not alike or count > machines or count * self.ends.kinds > machines:
            self.known = False
            return super().placed(application, count, now)
        if not self.known:
            self.ends.restart(self.free_at, self.run.up, now)
            self.known = True
        found = self.ends.bind(self.free_at, float(self.run.applications.task_size[application]), count, now)
        return np.unique(found, return_counts=True) if count > 1 else (found, np.ones(1, np.int64))

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        return bind_earliest(free_at, speeds, task_size, count, now)
