"""The classic mapping heuristics as centralized schedulers: they map tasks in turn, or in batches.

They are from M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen and R. F. Freund, "Dynamic mapping of a class of
independent tasks onto heterogeneous computing systems", JPDC 59 (1999).  The expected time of a task on a
machine is the time that it takes there.  Like the other baselines, they know the whole grid at every instant
and are charged nothing for it; see `gridsim.schedulers.centralized.pull` for what that means, and for
machines that fail.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np

from gridcore.centralized.earliest_ends import bind_earliest
from gridcore.centralized.mapping import map_in_turn
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.batch_mode import BatchMode, lasting, sooner_than_never
from gridsim.schedulers.centralized.immediate import TIMED_WORDS, EarliestEnd, ImmediateMode, Timed
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.parameters import Limits

#: Shortest and longest interval between mapping events, s.
_SHORTEST, _LONGEST = 1e-6, 4e9


class InTurn(Scheduler, frozen=True, kw_only=True):
    """Binds the tasks of an application in turn to machines at its release; each runs them in that order.

    Lost tasks are bound again at once to machines that are up.
    """

    name: ClassVar[str] = "in-turn"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[DecisionTexts] = TIMED_WORDS

    @property
    def order(self) -> Literal["fifo"]:
        return "fifo"


class Mct(InTurn, frozen=True, kw_only=True):
    """Minimum completion time (MCT, Maheswaran et al. 1999): each task goes where it would end first.

    Ties go to the machine with the lowest id.

    Makes the same schedule as ``Fcfs(mode="ect")``.
    """

    name: ClassVar[str] = "mct"

    def start(self, run: Run) -> Policy:
        return EarliestEnd(run)


class Met(InTurn, frozen=True, kw_only=True):
    """Minimum execution time (MET, Maheswaran et al. 1999): each task goes to the machine fastest at it.

    How much work that machine has does not count, so all tasks go to the fastest machine that is up (ties:
    the lowest id).
    """

    name: ClassVar[str] = "met"
    decision_words: ClassVar[DecisionTexts] = {
        "bound": ("bound {tasks} tasks to machine {machine}, of {among} that are up", "a time of", "s a task")
    }

    def start(self, run: Run) -> Policy:
        return ToTheFastest(run)


class Olb(InTurn, frozen=True, kw_only=True):
    """Opportunistic load balancing (OLB, Maheswaran et al. 1999): each task goes to the first machine ready.

    How long the task takes there does not count.  Ties go to the machine with the lowest id.
    """

    name: ClassVar[str] = "olb"

    def start(self, run: Run) -> Policy:
        return ByRule(run, "olb")


class SwitchingAlgorithm(InTurn, frozen=True, kw_only=True):
    """Switching algorithm (Maheswaran et al. 1999): `Mct` until the load is balanced, then `Met` until not.

    The paper uses ready times in place of backlogs.  On the clock of a long run these are all alike, so that
    the balance would be 1.

    Parameters
    ----------
    low, high
        Thresholds of the balance, the smallest over the largest backlog of the machines that are up: the
        scheduler goes over to `Met` at `high` or more, and back to `Mct` at `low` or less.  It begins with
        `Mct`, and looks at the balance before each task.  While no machine has work it does not switch.
    """

    name: ClassVar[str] = "switching"

    low: Annotated[float, Limits(low=0)] = 0.6
    high: Annotated[float, Limits(low=0)] = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high <= 1.0:
            raise ScenarioError(
                f"{self.name}.low and .high must be 0 <= low < high <= 1, got {self.low!r} and {self.high!r}"
            )

    def start(self, run: Run) -> Policy:
        return ByRule(run, "switching", self.low, self.high)


class KPercentBest(InTurn, frozen=True, kw_only=True):
    """K-percent best (Maheswaran et al. 1999): like `Mct`, among the machines that are fastest at a task.

    Parameters
    ----------
    percent
        Share of the machines that are up, in percent, rounded up to whole machines; 100 is `Mct`, 100 /
        machines is `Met`.  Of machines that take the same time, the lowest ids are chosen.
    """

    name: ClassVar[str] = "k-percent-best"

    percent: Annotated[float, Limits(above=0, high=100)] = 20.0

    def start(self, run: Run) -> Policy:
        return AmongTheFastest(run, self.percent)


class Batch(Scheduler, frozen=True, kw_only=True):
    """Maps all tasks that have not started at each mapping event, including tasks mapped before.

    A machine runs its tasks in the order in which they were mapped to it.  Lost tasks wait for the next
    mapping event, and so do tasks that were mapped to a machine that fails.

    Parameters
    ----------
    interval
        S between mapping events.  0: there is one at each release and each change of machines, after
        everything else at that instant; else, 1e-6 to 4e9 s, at its multiples while tasks wait.
    """

    name: ClassVar[str] = "batch"
    decentralized: ClassVar[bool] = False
    decision_words: ClassVar[DecisionTexts] = {
        "mapped": (
            "mapped its {tasks} tasks that wait to machines, the first to {machine}, of {among} that are up",
            "an end of the last one after",
            "s",
        )
    }
    #: See `gridcore.centralized.mapping.map_batch`.
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

    It goes to the machine that completes it first, and so on with the others.  See `Batch` for when tasks are
    mapped.

    Tasks of one size are taken in order of application.  Ties go to the size whose first waiting application
    has the lowest index, and to the machine with the lowest id.
    """

    name: ClassVar[str] = "min-min"
    rule: ClassVar[Literal["min-min"]] = "min-min"


class MaxMin(Batch, frozen=True, kw_only=True):
    """Max-min (Maheswaran et al. 1999): like `MinMin`, but the last earliest completion goes first."""

    name: ClassVar[str] = "max-min"
    rule: ClassVar[Literal["max-min"]] = "max-min"


class Sufferage(Batch, frozen=True, kw_only=True):
    """Sufferage (Maheswaran et al. 1999): a machine goes to the task that would suffer most without it.

    It works in passes as published; see `gridcore.centralized.mapping.map_batch`.  Otherwise it is like
    `MinMin`.
    """

    name: ClassVar[str] = "sufferage"
    rule: ClassVar[Literal["sufferage"]] = "sufferage"


# -- policies that map tasks in turn ----------------------------------------------------------------------


class ToTheFastest(ImmediateMode):
    """Binds all tasks to the machine that takes the least time for one."""

    def share(self, application: int, count: int, now: int) -> Integers:
        """Give all tasks to the machine that is up and takes the least time for one task."""
        up, tasks = np.flatnonzero(self.run.up), np.zeros(len(self.run.speeds), np.int64)
        lasts = lasting(self.run.applications.task_size[application], self.run.speeds[up])
        tasks[up[np.argmin(lasts)]] = count
        return tasks

    def grounds(self, application: int, machines: Integers, now: int) -> float:
        """See `ImmediateMode.grounds`: the time that a task takes there, s."""
        [speed] = self.run.speeds[machines]
        return float(lasting(self.run.applications.task_size[application], speed)) / NS


class AmongTheFastest(Timed):
    """Binds each task to the machine that would end it first, among those that take the least time."""

    def __init__(self, run: Run, percent: float) -> None:
        super().__init__(run)
        self.percent = percent

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        few = max(1, math.ceil(self.percent * len(speeds) / 100.0 - 1e-9))
        asked = np.sort(np.argsort(lasting(task_size, speeds), kind="stable")[:few])
        tasks, until = np.zeros(len(speeds), np.int64), free_at[asked]
        tasks[asked] = bind_earliest(until, speeds[asked], task_size, count, now)
        free_at[asked] = until
        return tasks


class ByRule(Timed):
    """Binds each task by a rule of `map_in_turn` that looks at the work that machines have left."""

    STATE = (*Timed.STATE, "on_met")

    def __init__(
        self, run: Run, rule: Literal["olb", "switching"], low: float = 0.6, high: float = 0.9
    ) -> None:
        super().__init__(run)
        self.rule, self.low, self.high = rule, low, high
        self.on_met = False

    def bind(self, free_at: Integers, speeds: Floats, task_size: float, count: int, now: int) -> Integers:
        lasts, begin = lasting(task_size, speeds), np.maximum(free_at, now)
        left = (begin - now).astype(np.float64)
        machine, self.on_met = map_in_turn(
            lasts[None], [count], left, self.rule, low=self.low, high=self.high, on_met=self.on_met
        )
        sooner_than_never(left, now)
        tasks = np.bincount(machine, minlength=len(speeds)).astype(np.int64, copy=False)
        np.copyto(free_at, begin + tasks * lasts.astype(np.int64), where=tasks > 0)
        return tasks
