"""Checks of schedules whose tasks may have several copies, each one execution of a task on one machine.

Copies are replicas, restarts of tasks from their newest checkpoint, and continuations of tasks that keep
all they have done when they move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.background_load import LoadProfile
from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import Violation, broken, column, differs, few

_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Copies:
    """Rows of a recorded schedule; times are ns.

    Parameters
    ----------
    task
        Numbers of tasks, counted through all applications.
    begin
        Mflop of the task that were done before.
    place
        Returns the name of a row, for messages.
    late
        Whether machines hear of one another later than at once, as in an emulation.
    """

    machine: Integers
    task: Integers
    start: Integers
    end: Integers
    completed: NDArray[np.bool_]
    begin: Floats
    place: Callable[[int], str]
    late: bool = False


def computed(pace: LoadProfile, machine: Integers, begin: Integers, end: Integers) -> Floats:
    """Return what machines compute under background load from `begin` to `end` ns, in ns at full speed."""
    series, factors = pace.series[machine], pace.factors
    before = np.pad(np.cumsum(factors, axis=1), ((0, 0), (1, 0)))  # sums of the factors before each step
    begin, end = begin + pace.phase, end + pace.phase
    (round_a, a), (round_b, b) = (
        np.divmod(pace.first[machine] + t // pace.period, factors.shape[1]) for t in (begin, end)
    )
    sums = (round_b - round_a) * before[series, -1] + before[series, b] - before[series, a]
    edges = factors[series, b] * (end % pace.period) - factors[series, a] * (begin % pace.period)
    done: Floats = sums * pace.period + edges
    return done


@dataclass(frozen=True)
class Rules:
    """The checkpoints of tasks, and how long tasks take with them.

    Parameters
    ----------
    interval
        ns of computing between two checkpoints; 0 for no checkpoints.
    checkpoint, restore
        ns that it takes to write a checkpoint and to read one.
    local
        Whether checkpoints stay on the machine that wrote them.
    """

    interval: int
    checkpoint: int
    restore: int
    local: bool

    #: Relative tolerance of durations, in addition to the 1 ns to which they are rounded.
    slack: ClassVar[float] = 0.0

    @classmethod
    def of(cls, result: Result) -> Rules | None:
        """Return the rules of the result's scheduler; None if it has no parameters for checkpoints.

        Raises ScenarioError for costs below 0 s.
        """
        said = result.scheduler["parameters"]
        if not {"checkpoint_cost", "restore_cost", "checkpoint_store"} <= set(said):
            return None
        interval, fluctuation = result.facts["checkpoint_interval"], result.scenario.fluctuation
        for name in ("checkpoint_cost", "restore_cost"):
            if not said[name] >= 0:
                raise ScenarioError(f"scheduler.parameters.{name} must be at least 0 s, got {said[name]!r}")
        rules = (
            round(interval * 1e9) if interval is not None and np.isfinite(interval) else 0,
            round(said["checkpoint_cost"] * 1e9),
            round(said["restore_cost"] * 1e9),
            said["checkpoint_store"] == "local",
        )
        if fluctuation is None:
            return Rules(*rules)
        return FluctuatingRules(*rules, fluctuation.realize(result.scenario.platform.nodes))

    def lasts(self, rows: Copies, work: Floats) -> Integers:
        """Return how long copies take for `work` (ns at full speed) with checkpoints: int64[rows], ns."""
        computing = np.maximum(1, np.rint(work)).astype(np.int64)
        marks = (computing - 1) // self.interval if self.interval else 0
        return computing + marks * self.checkpoint + np.where(rows.begin > 0, self.restore, 0)

    def steps(self, rows: Copies) -> Floats:
        """Return how many steps it takes to compute what each copy did: float64[rows]."""
        return np.ones(len(rows.task))

    def saved(self, rows: Copies, k: Integers, at: Integers, work: Floats) -> Floats:
        """Return how much of `work` the newest checkpoints of rows k have at `at` ns, in ns at full speed."""
        if not self.interval:
            return np.zeros(len(k))
        since = np.minimum(at, rows.end[k]) - self.computing_from(rows, k)
        computing = np.maximum(1, np.rint(work[k])).astype(np.int64)
        marks = np.minimum(since // self.each, (computing - 1) // self.interval)
        return (np.maximum(0, marks) * self.interval).astype(np.float64)

    def computing_from(self, rows: Copies, k: Integers) -> Integers:
        """Return when rows k have read their checkpoints and begin to compute, ns."""
        return rows.start[k] + np.where(rows.begin[k] > 0, self.restore, 0)

    @property
    def each(self) -> int:
        """The time from one checkpoint to the next, ns."""
        return self.interval + self.checkpoint


@dataclass(frozen=True)
class FluctuatingRules(Rules):
    """The same rules under background load: the work done is summed up from checkpoint to checkpoint.

    Parameters
    ----------
    pace
        The share of its speed that each machine has at each time.
    """

    pace: LoadProfile

    slack: ClassVar[float] = 1e-9  # rounding of sums of factors

    def lasts(self, rows: Copies, work: Floats) -> Integers:
        """See `Rules.lasts`; work that is left at the end of a copy counts with its time at full speed.

        Raises ScenarioError for too many checkpoints.
        """
        _few(self, self.steps(rows))
        done = self._computed(rows, np.arange(len(work)), rows.end)
        left: Integers = np.rint(work - done).astype(np.int64)
        return rows.end - rows.start + left

    def steps(self, rows: Copies) -> Floats:
        """See `Rules.steps`; each checkpoint adds one."""
        marks = (rows.end - rows.start) // self.each if self.interval else 0
        return super().steps(rows) + marks

    def saved(self, rows: Copies, k: Integers, at: Integers, work: Floats) -> Floats:
        """See `Rules.saved`."""
        if not self.interval:
            return np.zeros(len(k))
        begin = self.computing_from(rows, k)
        marks = (np.minimum(at, rows.end[k]) - begin) // self.each
        return self._computed(rows, k, begin + marks * self.each)

    def _computed(self, rows: Copies, k: Integers, at: Integers) -> Floats:
        """Return how much work rows k have done at `at` ns, in ns at full speed."""
        each = self.each if self.interval else np.iinfo(np.int64).max
        begin, done = self.computing_from(rows, k), np.zeros(len(k))
        for which, mark in _counted(-((begin - at) // each)):
            parts = self._between(rows.machine[k[which]], begin[which] + mark * each, at[which])
            np.add.at(done, which, parts)
        return done

    def _between(self, machine: Integers, begin: Integers, at: Integers) -> Floats:
        """Return what machines do from `begin` to their next checkpoints, or `at` ns, in ns at full speed."""
        ever = np.iinfo(np.int64).max
        return computed(self.pace, machine, begin, begin + np.minimum(self.interval or ever, at - begin))


def overtaken(rows: Copies) -> NDArray[np.bool_]:
    """Return which copies end without completion when another copy completes the task: bool[rows]."""
    done = np.full(int(rows.task.max(initial=-1)) + 1, -1, np.int64)
    done[rows.task[rows.completed]] = rows.end[rows.completed]
    after = rows.end >= done[rows.task] if rows.late else rows.end == done[rows.task]
    result: NDArray[np.bool_] = ~rows.completed & after
    return result


def check_copies(result: Result, given: Applications, rows: Copies) -> list[Violation]:
    """Check the copies of a result whose workload is `given`.

    Each task must be completed once, by the copy that is the first to finish, and each copy must
    begin with the newest checkpoint.
    """
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
        (rows.end > done[rows.task]) & ~(rows.late & ~rows.completed),
        rows.place,
        lambda k: f"a copy ends at {rows.end[k]} ns, its task was completed at {done[rows.task[k]]} ns",
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
    if not found:
        found += _counts(result, given, rows)
    said = result.scheduler["parameters"]
    if {"migration_cost", "on_return"} & set(said) and not found:
        cost, keeps = round(said.get("migration_cost", 0.0) * 1e9), said.get("on_return") != "restart"
        found += _at_a_time(rows, 1) + _moves(result, given, rows, cost, keeps)
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


def _counts(result: Result, given: Applications, rows: Copies) -> list[Violation]:
    """Check the counts of replicas, and of tasks that failures left without a running copy."""
    beaten = overtaken(rows)
    lost = ~rows.completed & ~beaten & (_running(rows, rows.end, "left") <= 0)
    # a task may lose several copies at one instant, and is then left without any only once
    pairs = np.unique(np.stack((rows.task[lost], rows.end[lost])), axis=1)
    left = np.bincount(pairs[0], minlength=int(given.tasks.sum()))
    bag = np.repeat(np.arange(len(given)), given.tasks)
    # of the copies of a task that start at one instant, all except the first are replicas
    others = _running(rows, rows.start, "right") - 1
    starts = np.unique(np.stack((rows.task, rows.start)), axis=1, return_index=True)[1]
    first = np.zeros(len(rows.task), np.bool_)
    first[starts] = True
    here = np.unique(np.stack((rows.task, rows.start)), axis=1, return_inverse=True)[1].ravel()
    alone = first & (others - (np.bincount(here)[here] - 1) <= 0)
    made = {
        "resubmitted": np.bincount(bag, left, len(given)),
        "undisturbed": np.bincount(bag[left == 0], minlength=len(given)),
        "killed": np.bincount(bag[rows.task[beaten]], minlength=len(given)),
        "replicas": np.bincount(bag[rows.task[~alone]], minlength=len(given)),
    }
    found = []
    for name, numbers in made.items():
        if name in result.applications:
            have, want = result.applications[name], numbers.astype(np.int64)
            found += differs(
                "agreement", column(f"applications.{name}"), have != want, have, want, "the schedule makes"
            )
    return found


def _running(rows: Copies, at: Integers, side: Literal["left", "right"]) -> Integers:
    """Return how many copies of the task of each row run at `at` ns: int64[rows].

    They began at or before `at`, and end after it.

    Parameters
    ----------
    side
        "left" leaves out copies that begin exactly at `at`; "right" includes them.
    """
    count = len(rows.task)
    # instants as ranks, which are higher for each next task, so that one sorted array serves all tasks
    time = np.unique(np.r_[rows.start, rows.end, at], return_inverse=True)[1].ravel()
    width = int(time.max(initial=0)) + 1
    begin, end, here = (rows.task * width + time[k * count : (k + 1) * count] for k in range(3))
    begun, ended = np.searchsorted(np.sort(begin), here, side), np.searchsorted(np.sort(end), here, "right")
    running: Integers = begun - ended  # all copies of earlier tasks have begun and ended
    return running


def _at_a_time(rows: Copies, most: int) -> list[Violation]:
    """Check that at most `most` copies of a task run at a time."""
    count, task = len(rows.task), np.r_[rows.task, rows.task]
    change = np.r_[np.ones(count, np.int64), -np.ones(count, np.int64)]
    order = np.lexsort((change, np.r_[rows.start, rows.end], task))
    running = np.cumsum(change[order])  # the sum is back at 0 after each task
    return broken(
        "copies",
        running > most,
        lambda k: rows.place(int(order[k] % max(1, count))),
        lambda k: f"{running[k]} copies of a task run at a time, at most {most} may",
    )


def _moves(result: Result, given: Applications, rows: Copies, cost: int, keeps: bool) -> list[Violation]:
    """Check that tasks continue as they must, and take as long as work and moves need.

    Parameters
    ----------
    cost
        ns that a move takes.
    keeps
        Whether a task keeps all the work it had done, or none.
    """
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
        done += (ran - paid) / 1e9 * speeds[u] if keeps else 0.0
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


def _begins(rows: Copies, rules: Rules, work: Floats, sizes: Floats, speeds: Floats) -> list[Violation]:
    """Check that each copy begins with the work in the newest checkpoint that its machine can read.

    Parameters
    ----------
    work
        float64[rows], ns at full speed, the work of each copy.

    Raises
    ------
    ScenarioError
        If too many copies run at a time to check them all.
    """

    def kept(k: Integers, at: Integers) -> Floats:
        """Return the work in the newest checkpoints of rows k at `at` ns, Mflop."""
        kept: Floats = rows.begin[k] + rules.saved(rows, k, at, work) / 1e9 * speeds[rows.machine[k]]
        return kept

    wanted = np.maximum(0.0, (_lost if rules.local else _newest)(rows, rules, kept))
    return broken(
        "begin",
        np.where(rows.late, rows.begin - wanted, np.abs(rows.begin - wanted)) > 1e-9 * sizes[rows.task],
        rows.place,
        lambda k: f"begins with {rows.begin[k]} Mflop done, the newest checkpoint has {wanted[k]}",
    )


#: Returns the work (Mflop) in the newest checkpoints of given rows at given instants (ns).
_Kept = Callable[[Integers, Integers], Floats]


def _lost(rows: Copies, rules: Rules, kept: _Kept) -> Floats:
    """Return the work in the checkpoint that each copy finds on its machine: float64[rows], Mflop.

    It is that of the last copy that the machine lost, if this was of the same task.
    """
    wanted = np.zeros(len(rows.task))
    order = np.lexsort((rows.start, rows.machine))
    lost = ~(rows.completed | overtaken(rows))[order]
    last = np.maximum.accumulate(np.where(lost, np.arange(len(order)), -1))
    last = np.r_[np.int64(-1), last][:-1]  # the last lost one before each row
    own, before = order[last >= 0], order[last[last >= 0]]
    same = (rows.machine[own] == rows.machine[before]) & (rows.task[own] == rows.task[before])
    own, before = own[same], before[same]
    _few(rules, rules.steps(rows)[before])
    wanted[own] = kept(before, rows.start[own])
    return wanted


def _newest(rows: Copies, rules: Rules, kept: _Kept) -> Floats:
    """Return the work in the newest checkpoint of the task when each copy starts: float64[rows], Mflop.

    Checkpoints of copies that have ended count, and those of copies that still run.
    """
    count = len(rows.task)
    order = np.lexsort((rows.start, rows.task))
    task, position = rows.task[order], np.arange(count)
    # times as ranks, so that an instant of a task is one number
    rank = np.unique(np.r_[rows.start, rows.end], return_inverse=True)[1].ravel()
    start, end = (task * 2 * count + rank[half][order] for half in (slice(count), slice(count, None)))
    # rows from here on, of the same task, start when this one has ended
    ended = np.maximum(np.searchsorted(start, end), position + 1)
    running = ended - position - 1
    steps = rules.steps(rows)[order]
    _few(rules, np.r_[steps, steps * running])
    # the most work that ended copies have saved so far, as ranks that are higher for each next task
    value, at = np.unique(kept(order, rows.end[order]), return_inverse=True)
    best = np.full(count + 1, -1)
    np.maximum.at(best, ended, task * count + at.ravel())
    best = np.maximum.accumulate(best[:-1])
    there, wanted = best >= task * count, np.zeros(count)
    wanted[order[there]] = value[best[there] % count]
    for which, further in _counted(running):
        other = order[which + 1 + further]
        np.maximum.at(wanted, other, kept(order[which], rows.start[other]))
    return wanted


def _few(rules: Rules, steps: Floats) -> None:
    """Raise ScenarioError if `steps`, of checkpoints and copies that run at a time, are too many."""
    of = f"checkpoints of copies that run at a time, each {rules.each} ns one"
    few(float(steps.sum()), "facts.checkpoint_interval", of)


def _counted(count: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield, in parts, arrays of k and of the numbers 0 to count[k] - 1 for each k."""
    until = np.cumsum(np.maximum(0, count))
    first = until - np.maximum(0, count)
    total = int(until[-1]) if len(until) else 0
    for at in range(0, total, _AT_ONCE):
        every = np.arange(at, min(at + _AT_ONCE, total))
        k = np.searchsorted(until, every, side="right")
        yield k, every - first[k]
