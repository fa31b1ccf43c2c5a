"""The classic mapping heuristics as centralized schedulers, in immediate mode and in batch mode.

They are from M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen and R. F. Freund, "Dynamic mapping of a class of
independent tasks onto heterogeneous computing systems", JPDC 59 (1999).  The expected time of a task on a
machine is its true time.  Like the other baselines, they know the whole grid at every instant, at no cost;
`gridsim.schedulers.centralized.pull` describes the rules for information and for failures.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np

from gridcore.centralized.earliest_ends import bind_earliest
from gridcore.centralized.mapping import map_in_turn
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.batch_mode import BatchMode, check_ends, durations
from gridsim.schedulers.centralized.immediate import (
    READY_TIME_WORDS,
    EarliestEnd,
    ImmediateMode,
    ReadyTimeMode,
)
from gridsim.scheduling.contract import Policy, Run, Scheduler, TaskCost
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.parameters import Limits

#: Minimum and maximum interval between mapping events, s.
_SHORTEST, _LONGEST = 1e-6, 4e9


class ImmediateHeuristic(Scheduler, frozen=True, kw_only=True):
    """Base class of schedulers that bind tasks one by one at release; machines run them in that order.

    Lost tasks are bound again at once to machines that are up.
    """

    name: ClassVar[str] = "in-turn"
    decentralized: ClassVar[bool] = False
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = READY_TIME_WORDS

    @property
    def promised_order(self) -> Literal["fifo"]:
        return "fifo"


class Mct(ImmediateHeuristic, frozen=True, kw_only=True):
    """Minimum completion time (MCT, Maheswaran et al. 1999): each task goes where it would end first.

    Ties go to the machine with the lowest id.  The schedule equals that of ``Fcfs(mode="ect")``.
    """

    name: ClassVar[str] = "mct"

    def start(self, run: Run) -> Policy:
        return EarliestEnd(run)


class Met(ImmediateHeuristic, frozen=True, kw_only=True):
    """Minimum execution time (MET, Maheswaran et al. 1999): each task goes to the fastest machine.

    Ready times are ignored, so all tasks go to the fastest machine that is up (ties: the lowest id).
    """

    name: ClassVar[str] = "met"
    decision_words: ClassVar[DecisionTexts] = {
        "bound": ("bound {tasks} tasks to machine {machine}, of {among} that are up", "a time of", "s a task")
    }

    def start(self, run: Run) -> Policy:
        return MetMode(run)


class Olb(ImmediateHeuristic, frozen=True, kw_only=True):
    """Opportunistic load balancing (OLB, Maheswaran et al. 1999): each task goes to the machine ready first.

    Execution times are ignored.  Ties go to the machine with the lowest id.
    """

    name: ClassVar[str] = "olb"

    def start(self, run: Run) -> Policy:
        return InTurnMode(run, "olb")


class SwitchingAlgorithm(ImmediateHeuristic, frozen=True, kw_only=True):
    """Switching algorithm (Maheswaran et al. 1999): `Mct` until the load is balanced, then `Met`.

    The paper computes the balance from ready times.  Backlogs replace them here, since in a long run all
    ready times are nearly equal, and the balance would be about 1.

    Parameters
    ----------
    low, high
        Thresholds of the balance, which is the smallest backlog divided by the largest, of the machines that
        are up: the scheduler switches to `Met` at `high` or more, and to `Mct` at `low` or less.  It starts
        with `Mct` and computes the balance before each task.  While no machine has work it does not switch.
    """

    name: ClassVar[str] = "switching"

    low: Annotated[float, Limits(low=0)] = 0.6
    high: Annotated[float, Limits(low=0)] = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high <= 1.0:
            raise ScenarioError(
                f"{self.name}.low and .high must satisfy 0 <= low < high <= 1, got {self.low!r} "
                f"and {self.high!r}"
            )

    def start(self, run: Run) -> Policy:
        return InTurnMode(run, "switching", self.low, self.high)


class KPercentBest(ImmediateHeuristic, frozen=True, kw_only=True):
    """K-percent best (Maheswaran et al. 1999): `Mct` restricted to the fastest machines.

    Parameters
    ----------
    percent
        Percentage of the machines that are up, rounded up to whole machines; 100 equals `Mct`, 100 / machines
        equals `Met`.  Of equally fast machines, those with the lowest ids are used.
    """

    name: ClassVar[str] = "k-percent-best"

    percent: Annotated[float, Limits(above=0, high=100)] = 20.0

    def start(self, run: Run) -> Policy:
        return KPercentBestMode(run, self.percent)


class Batch(Scheduler, frozen=True, kw_only=True):
    """Base class of schedulers that map all unstarted tasks at each mapping event.

    A machine runs its tasks in the order in which they were mapped to it.  If a machine fails, its running
    task and the tasks mapped to it wait for the next mapping event.

    Parameters
    ----------
    interval
        Time between mapping events, s, from 1e-6 to 4e9; while tasks wait, they occur at its multiples.  0
        for a mapping event at each release, failure and recovery, after everything else at that instant.
    """

    name: ClassVar[str] = "batch"
    task_cost: ClassVar[TaskCost] = TaskCost(memory=96, time=1e-6)
    decentralized: ClassVar[bool] = False
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = {
        "mapped": (
            "mapped its {tasks} tasks that wait to machines, the first to {machine}, of {among} that are up",
            "an end of the last one after",
            "s",
        )
    }
    #: Rule of `gridcore.centralized.mapping.map_batch`.
    rule: ClassVar[Literal["min-min", "max-min", "sufferage"]]

    interval: Annotated[float, Limits(low=_SHORTEST, high=_LONGEST, unit="s", or_zero=True)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self, "rule"):
            raise ScenarioError(f"{type(self).__name__}.rule must be set by a subclass, got none")

    def start(self, run: Run) -> Policy:
        return BatchMode(run, self.rule, nanoseconds(self.interval))


class MinMin(Batch, frozen=True, kw_only=True):
    """Min-min (Maheswaran et al. 1999): the task that can be completed first is mapped first.

    It goes to the machine that completes it first; this is repeated for the remaining tasks.  Mapping events
    are those of `Batch`.

    Tasks of equal size are taken in order of release, those of one instant in order of application.  Ties go
    to the size whose first waiting application comes first in this order, and to the machine with the lowest
    id.
    """

    name: ClassVar[str] = "min-min"
    rule: ClassVar[Literal["min-min"]] = "min-min"


class MaxMin(Batch, frozen=True, kw_only=True):
    """Max-min (Maheswaran et al. 1999): the task whose earliest completion is latest is mapped first."""

    name: ClassVar[str] = "max-min"
    rule: ClassVar[Literal["max-min"]] = "max-min"


class Sufferage(Batch, frozen=True, kw_only=True):
    """Sufferage (Maheswaran et al. 1999): a machine goes to the task that would suffer most without it.

    It maps tasks in passes as published, by `gridcore.centralized.mapping.map_batch`.  Mapping events and
    ties are those of `MinMin`.
    """

    name: ClassVar[str] = "sufferage"
    rule: ClassVar[Literal["sufferage"]] = "sufferage"


# -- policies of the immediate mode -----------------------------------------------------------------------


class MetMode(ImmediateMode):
    """Policy that binds all tasks to the fastest machine."""

    def share(self, application: int, count: int, now: int) -> Integers:
        """Return all tasks for the fastest machine that is up."""
        up, tasks = np.flatnonzero(self.run.up), np.zeros(len(self.run.speeds), np.int64)
        times = durations(self.run.applications.task_size[application], self.run.speeds[up])
        tasks[up[np.argmin(times)]] = count
        return tasks

    def decision_value(self, application: int, machines: Integers, now: int) -> float:
        """Return the duration of a task on the machine, s."""
        [speed] = self.run.speeds[machines]
        return float(durations(self.run.applications.task_size[application], speed)) / NS


class KPercentBestMode(ReadyTimeMode):
    """Policy that binds each task to whichever of the fastest machines would end it first."""

    def __init__(self, run: Run, percent: float) -> None:
        super().__init__(run)
        self.percent = percent

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        count_of_fastest = max(1, math.ceil(self.percent * len(speeds) / 100.0 - 1e-9))
        fastest = np.sort(np.argsort(durations(task_size, speeds), kind="stable")[:count_of_fastest])
        tasks, ready = np.zeros(len(speeds), np.int64), free_at[fastest]
        tasks[fastest] = bind_earliest(ready, speeds[fastest], task_size, count, now)
        free_at[fastest] = ready
        return tasks


class InTurnMode(ReadyTimeMode):
    """Policy that binds each task by a rule of `map_in_turn` that uses the backlogs of machines."""

    STATE = (*ReadyTimeMode.STATE, "uses_met")

    def __init__(
        self, run: Run, rule: Literal["olb", "switching"], low: float = 0.6, high: float = 0.9
    ) -> None:
        super().__init__(run)
        self.rule, self.low, self.high = rule, low, high
        self.uses_met = False

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        times, begin = durations(task_size, speeds), np.maximum(free_at, now)
        left = (begin - now).astype(np.float64)
        machine, self.uses_met = map_in_turn(
            times[None], [count], left, self.rule, low=self.low, high=self.high, uses_met=self.uses_met
        )
        check_ends(left, now)
        tasks = np.bincount(machine, minlength=len(speeds)).astype(np.int64, copy=False)
        np.copyto(free_at, begin + tasks * times.astype(np.int64), where=tasks > 0)
        return tasks
