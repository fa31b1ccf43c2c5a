"""Tasks that may have several instances: replicas, tasks begun again from their newest checkpoint, and tasks
that keep what they have done, wherever they go."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.fluctuation import Pace
from gridsim.model import Applications
from gridsim.results import Result
from gridsim.validation.common import Floats, Violation, broken, column, differs

Integers = NDArray[np.int64]
#: Checkpoints that are gone through where machines fluctuate, at most, and how many of them at a time.
MOST_MARKS, _AT_A_TIME = 10_000_000, 1 << 16


@dataclass(frozen=True)
class Instances:
    """Rows of a recorded schedule: `task` counts through all applications, times are ns.

    place : says where a row is.
    """

    machine: Integers
    task: Integers
    start: Integers
    end: Integers
    completed: NDArray[np.bool_]
    begin: Floats
    place: Callable[[int], str]


@dataclass(frozen=True)
class Rules:
    """ns of computing between two checkpoints (0: none), of writing one and of reading one.

    local : whether they stay on their machine.
    """

    interval: int
    checkpoint: int
    restore: int
    local: bool

    #: By how much durations may differ, relatively, besides the 1 ns to which they are rounded.
    slack: ClassVar[float] = 0.0

    @classmethod
    def of(cls, result: Result) -> Rules | None:
        """Those of the result's scheduler; None if it does not tell them."""
        said = result.scheduler["parameters"]
        if not {"checkpoint_cost", "restore_cost", "checkpoint_store"} <= set(said):
            return None
        interval, fluctuation = result.facts["checkpoint_interval"], result.scenario.fluctuation
        rules = (
            round(interval * 1e9) if interval is not None and np.isfinite(interval) else 0,
            round(said["checkpoint_cost"] * 1e9),
            round(said["restore_cost"] * 1e9),
            said["checkpoint_store"] == "local",
        )
        if fluctuation is None:
            return Rules(*rules)
        return FluctuatingRules(*rules, fluctuation.realize(result.scenario.platform.nodes))

    def lasts(self, rows: Instances, work: Floats) -> Integers:
        """ns that the instances take for `work`, ns at whole speed."""
        computing = np.maximum(1, np.rint(work)).astype(np.int64)
        marks = (computing - 1) // self.interval if self.interval else 0
        return computing + marks * self.checkpoint + np.where(rows.begin > 0, self.restore, 0)

    def saved(self, rows: Instances, k: int, at: int, work: float) -> float:
        """ns at whole speed of the `work` of row k that are in its newest checkpoint at `at` ns."""
        since = min(at, int(rows.end[k])) - self.computing_from(rows, k)
        if not self.interval or since <= 0:
            return 0.0
        computing = max(1, round(work))
        marks = min(since // (self.interval + self.checkpoint), (computing - 1) // self.interval)
        return float(marks * self.interval)

    def computing_from(self, rows: Instances, k: int) -> int:
        """When row k has read its checkpoint, ns."""
        return int(rows.start[k]) + (self.restore if rows.begin[k] > 0 else 0)


@dataclass(frozen=True)
class FluctuatingRules(Rules):
    """The same where machines fluctuate: what they computed is added up, from one checkpoint to the next."""

    pace: Pace

    slack: ClassVar[float] = 1e-9  # factors are summed up

    def lasts(self, rows: Instances, work: Floats) -> Integers:
        """See `Rules.lasts`; what is left to do at the end counts as it takes at whole speed.

        Raises ScenarioError for more than `MOST_MARKS` checkpoints.
        """
        if self.interval:
            each = self.interval + self.checkpoint
            marks = float(((rows.end - rows.start) // each).sum(dtype=np.float64)) if each > 0 else math.inf
            if marks > MOST_MARKS:
                raise ScenarioError(
                    f"facts.checkpoint_interval makes {marks:g} checkpoints, each {each} ns one, at most "
                    f"{MOST_MARKS} are gone through"
                )
        done = np.array([self._computed(rows, k, end) for k, end in enumerate(rows.end.tolist())])
        left: Integers = np.rint(work - done).astype(np.int64)
        return rows.end - rows.start + left

    def saved(self, rows: Instances, k: int, at: int, work: float) -> float:
        """See `Rules.saved`."""
        begin, each = self.computing_from(rows, k), self.interval + self.checkpoint
        marks = (min(at, int(rows.end[k])) - begin) // each if self.interval else 0
        return self._computed(rows, k, begin + marks * each)

    def _computed(self, rows: Instances, k: int, at: int) -> float:
        """ns at whole speed that row k has done at `at` ns."""
        ever = np.iinfo(np.int64).max
        each = self.interval + self.checkpoint if self.interval else ever
        parts = range(self.computing_from(rows, k), at, each * _AT_A_TIME)
        return sum(
            self._between(rows.machine[k], np.arange(first, min(at, first + each * _AT_A_TIME), each), at)
            for first in parts
        )

    def _between(self, u: np.int64, begin: Integers, at: int) -> float:
        """ns at whole speed that machine `u` does from `begin` on until the next checkpoints, or `at` ns."""
        pace, ever = self.pace, np.iinfo(np.int64).max
        end = begin + np.minimum(self.interval or ever, at - begin)
        factors, before = pace.factors[pace.series[u]], self._before[pace.series[u]]
        (round_a, a), (round_b, b) = (
            np.divmod(pace.first[u] + t // pace.period, len(factors)) for t in (begin, end)
        )
        periods = (round_b - round_a) * before[-1] + before[b] - before[a]
        edges = factors[b] * (end % pace.period) - factors[a] * (begin % pace.period)
        return float((periods * pace.period + edges).sum())

    @cached_property
    def _before(self) -> Floats:
        """float64[rows, steps + 1]: sums of the factors before each step."""
        return np.pad(np.cumsum(self.pace.factors, axis=1), ((0, 0), (1, 0)))


def overtaken(rows: Instances) -> NDArray[np.bool_]:
    """bool[rows]: who ends, not completed, when another instance of its task is."""
    done = np.full(int(rows.task.max(initial=-1)) + 1, -1, np.int64)
    done[rows.task[rows.completed]] = rows.end[rows.completed]
    result: NDArray[np.bool_] = ~rows.completed & (rows.end == done[rows.task])
    return result


def check_instances(result: Result, given: Applications, rows: Instances) -> list[Violation]:
    """Each task is completed once, by the first of its instances, which begin with the newest checkpoint."""
    sizes, speeds = given.sizes(), result.scenario.platform.speeds
    size, speed = sizes[rows.task], speeds[rows.machine]
    completed = np.bincount(rows.task[rows.completed], minlength=len(sizes))
    found = broken(
        "done twice" if (completed > 1).any() else "lost",
        completed != 1,
        lambda k: f"task {k - given.offsets[_bag(given, k)]} of application {_bag(given, k)}",
        lambda k: f"was completed {completed[k]} times",
    )
    done = np.full(len(sizes), np.iinfo(np.int64).max)
    done[rows.task[rows.completed]] = rows.end[rows.completed]
    found += broken(
        "after its end",
        rows.end > done[rows.task],
        rows.place,
        lambda k: f"an instance ends at {rows.end[k]} ns, its task was completed at {done[rows.task[k]]} ns",
    )
    found += broken(
        "begin",
        ~((rows.begin >= 0) & (rows.begin < size)),
        rows.place,
        lambda k: f"begins with {rows.begin[k]} Mflop done of {size[k]}",
    )
    worked = math.fsum(((rows.end - rows.start) / 1e9 * speed).tolist())
    told = math.fsum(x for _, column in result.tables["cycles"].items() for x in column.tolist())
    if abs(told - worked) > 1e-9 * worked + speeds.max() * len(rows.task) * 1e-9:
        said = f"add up to {told!r} Mflop, the schedule has {worked!r} Mflop"
        found.append(Violation("cycles", 1, "cycles", said))
    most = result.scheduler["parameters"].get("max_replicas")
    if most is not None:
        found += _at_a_time(rows, int(most))
    if "migration_cost" in result.scheduler["parameters"] and not found:
        found += _at_a_time(rows, 1) + _moves(result, given, rows)
    rules = Rules.of(result)
    if rules is not None and not found:
        work = (size - rows.begin) / speed * 1e9
        lasts, ran = rules.lasts(rows, work), rows.end - rows.start
        slack = 1 + rules.slack * ran
        found += broken(
            "duration",
            np.where(rows.completed, np.abs(ran - lasts) > slack, ran > lasts + slack),
            rows.place,
            lambda k: (
                f"runs for {ran[k]} ns on machine {rows.machine[k]}, the rest of the task takes {lasts[k]}"
            ),
        )
        found += _begins(rows, rules, work, sizes, speeds)
    return found


def _bag(given: Applications, task: int) -> int:
    return int(np.searchsorted(given.offsets, task, side="right")) - 1


def _at_a_time(rows: Instances, most: int) -> list[Violation]:
    """At most so many instances of a task run at a time."""
    count, task = len(rows.task), np.r_[rows.task, rows.task]
    change = np.r_[np.ones(count, np.int64), -np.ones(count, np.int64)]
    order = np.lexsort((change, np.r_[rows.start, rows.end], task))
    running = np.cumsum(change[order])  # every task ends with 0
    return broken(
        "instances",
        running > most,
        lambda k: rows.place(int(order[k] % max(1, count))),
        lambda k: f"{running[k]} instances of a task run at a time, at most {most} may",
    )


def _moves(result: Result, given: Applications, rows: Instances) -> list[Violation]:
    """Tasks go on with all that they had done, and take as long as they must, moves to other machines too."""
    cost = round(result.scheduler["parameters"]["migration_cost"] * 1e9)
    speeds, sizes = result.scenario.platform.speeds.tolist(), given.sizes().tolist()
    wanted, lasts = np.zeros(len(rows.task)), np.zeros(len(rows.task), np.int64)
    moved, overhead = np.zeros(len(rows.task), np.bool_), np.zeros(len(given))
    again = moved.copy()
    task, done, owed, host = -1, 0.0, 0, -1
    for k in np.lexsort((rows.start, rows.task)).tolist():
        u = int(rows.machine[k])
        if rows.task[k] != task:
            task, done, owed, host = int(rows.task[k]), 0.0, 0, u
        else:
            again[k] = True
        if u != host:
            host, owed, moved[k] = u, cost, True
        wanted[k] = done
        lasts[k] = owed + max(1, round((sizes[task] - done) / speeds[u] * 1e9))
        ran = int(rows.end[k] - rows.start[k])
        paid = min(owed, ran)
        owed -= paid
        overhead[_bag(given, task)] += paid / 1e9 * speeds[u]
        done += (ran - paid) / 1e9 * speeds[u]
    size, ran_for = np.array(sizes)[rows.task], rows.end - rows.start
    found = broken(
        "begin",
        np.abs(rows.begin - wanted) > 1e-9 * size,
        rows.place,
        lambda k: f"begins with {rows.begin[k]} Mflop done, {wanted[k]} were done before",
    )
    found += broken(
        "duration",
        np.where(rows.completed, np.abs(ran_for - lasts) > 1, ran_for > lasts + 1),
        rows.place,
        lambda k: (
            f"runs for {ran_for[k]} ns on machine {rows.machine[k]}, moving and the rest of the task take "
            f"{lasts[k]}"
        ),
    )
    bag = np.searchsorted(given.offsets, rows.task, side="right") - 1
    for name, which in (("migrated", moved), ("resumed", again & ~moved), ("resubmitted", again)):
        have, want = result.applications[name], np.bincount(bag[which], minlength=len(given))
        found += differs(
            "agreement", column(f"applications.{name}"), have != want, have, want, "the schedule makes"
        )
    told = result.tables["cycles"]["overhead"]
    return found + differs(
        "cycles",
        column("cycles.overhead"),
        np.abs(told - overhead) > 1e-9 * (given.size + overhead),
        told,
        overhead,
        "the schedule makes",
    )


def _begins(rows: Instances, rules: Rules, work: Floats, sizes: Floats, speeds: Floats) -> list[Violation]:
    """Each instance begins with what was in the newest checkpoint that its machine can read.

    work : of each, ns at whole speed.
    """
    wanted, beaten = np.zeros(len(rows.task)), overtaken(rows)
    key = rows.machine if rules.local else rows.task
    order = np.lexsort((rows.start, key))
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for group in np.split(order, edges):
        for position, k in enumerate(group.tolist()):
            before = group[:position].tolist()
            if rules.local:
                # the last instance that the machine lost, if it was of this task
                before = [j for j in before if not (rows.completed[j] or beaten[j])][-1:]
                before = [j for j in before if rows.task[j] == rows.task[k]]
            for j in before:
                saved = rules.saved(rows, j, int(rows.start[k]), float(work[j]))
                wanted[k] = max(wanted[k], float(rows.begin[j]) + saved / 1e9 * speeds[rows.machine[j]])
    return broken(
        "begin",
        np.abs(rows.begin - wanted) > 1e-9 * sizes[rows.task],
        rows.place,
        lambda k: f"begins with {rows.begin[k]} Mflop done, the newest checkpoint has {wanted[k]}",
    )
