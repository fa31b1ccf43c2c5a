"""Checks of schedules in which a task may have several copies, each an execution on one machine.

Copies are replicas, restarts from the most advanced checkpoint, and continuations of tasks that keep their
work when they migrate.
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
from gridsim.validation.common import Violation, check_step_count, column_label, differences, violations_where

#: Number of entries that are processed in one step, to limit memory.
_BATCH = 1 << 16


@dataclass(frozen=True)
class Copies:
    """Rows of a recorded schedule, one per copy; times are ns.

    Parameters
    ----------
    queue
        The machine or, if the run has its cores as machines, the core, which keeps local checkpoints.
    task
        Task numbers, consecutive over all applications.
    begin
        Work of the task done before the row began (Mflop).
    row_label
        Function that returns the label of a row for messages.
    has_late_notification
        Whether machines learn of completions with a delay, as in an emulation.
    """

    machine: Integers
    queue: Integers
    task: Integers
    start: Integers
    end: Integers
    completed: NDArray[np.bool_]
    begin: Floats
    row_label: Callable[[int], str]
    has_late_notification: bool = False


def computed_work(pace: LoadProfile, machine: Integers, begin: Integers, end: Integers) -> Floats:
    """Return the work of machines under background load from `begin` to `end` ns, in ns at full speed."""
    series, factors = pace.series[machine], pace.factors
    prefix_sums = np.pad(np.cumsum(factors, axis=1), ((0, 0), (1, 0)))  # sums of the factors before each step
    begin, end = begin + pace.phase, end + pace.phase
    (round_a, a), (round_b, b) = (
        np.divmod(pace.first[machine] + t // pace.period, factors.shape[1]) for t in (begin, end)
    )
    sums = (round_b - round_a) * prefix_sums[series, -1] + prefix_sums[series, b] - prefix_sums[series, a]
    edges = factors[series, b] * (end % pace.period) - factors[series, a] * (begin % pace.period)
    work: Floats = sums * pace.period + edges
    return work


@dataclass(frozen=True)
class CheckpointRules:
    """Costs of checkpoints, and durations of tasks that write them.

    Parameters
    ----------
    interval
        Computing time between two checkpoints (ns); 0 for no checkpoints.
    checkpoint, restore
        Time to write a checkpoint, and to read one (ns).
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
    def of(cls, result: Result) -> CheckpointRules | None:
        """Return the rules of the result's scheduler; None if it has no parameters for checkpoints.

        Raises
        ------
        ScenarioError
            If a cost is below 0 s.
        """
        parameters = result.scheduler["parameters"]
        if not {"checkpoint_cost", "restore_cost", "checkpoint_store"} <= set(parameters):
            return None
        interval, fluctuation = result.facts["checkpoint_interval"], result.scenario.fluctuation
        for name in ("checkpoint_cost", "restore_cost"):
            if not parameters[name] >= 0:
                raise ScenarioError(
                    f"scheduler.parameters.{name} must be at least 0 s, got {parameters[name]!r}"
                )
        rules = (
            round(interval * 1e9) if interval is not None and np.isfinite(interval) else 0,
            round(parameters["checkpoint_cost"] * 1e9),
            round(parameters["restore_cost"] * 1e9),
            parameters["checkpoint_store"] == "local",
        )
        if fluctuation is None:
            return CheckpointRules(*rules)
        return BackgroundLoadRules(*rules, fluctuation.realize(result.scenario.platform.nodes))

    def durations(self, rows: Copies, work: Floats) -> Integers:
        """Return the durations of copies that do `work` (ns at full speed) and write checkpoints.

        Returns
        -------
        int64[rows], ns.
        """
        computing = np.maximum(1, np.rint(work)).astype(np.int64)
        marks = (computing - 1) // self.interval if self.interval else 0
        return computing + marks * self.checkpoint + np.where(rows.begin > 0, self.restore, 0)

    def step_counts(self, rows: Copies) -> Floats:
        """Return the number of steps needed to compute the work of each copy: float64[rows]."""
        return np.ones(len(rows.task))

    def checkpointed_work(self, rows: Copies, k: Integers, at: Integers, work: Floats) -> Floats:
        """Return the part of `work` in the newest checkpoints of rows k at `at` ns, in ns at full speed."""
        if not self.interval:
            return np.zeros(len(k))
        elapsed = np.minimum(at, rows.end[k]) - self.computing_start(rows, k)
        computing = np.maximum(1, np.rint(work[k])).astype(np.int64)
        marks = np.minimum(elapsed // self.cycle, (computing - 1) // self.interval)
        return (np.maximum(0, marks) * self.interval).astype(np.float64)

    def computing_start(self, rows: Copies, k: Integers) -> Integers:
        """Return the instants (ns) at which rows k have read their checkpoints and begin to compute."""
        return rows.start[k] + np.where(rows.begin[k] > 0, self.restore, 0)

    @property
    def cycle(self) -> int:
        """The time from one checkpoint to the next, ns."""
        return self.interval + self.checkpoint


@dataclass(frozen=True)
class BackgroundLoadRules(CheckpointRules):
    """Checkpoint rules under background load.

    The work done is summed from checkpoint to checkpoint, since the speed changes in between.

    Parameters
    ----------
    pace
        Share of its full speed that each machine has at each time.
    """

    pace: LoadProfile

    slack: ClassVar[float] = 1e-9  # rounding of sums of factors

    def durations(self, rows: Copies, work: Floats) -> Integers:
        """Return the durations (ns) of copies; work left at the end counts at full speed.

        Raises
        ------
        ScenarioError
            If checking takes too many steps.
        """
        _check_step_count(self, self.step_counts(rows))
        work_done = self._work_until(rows, np.arange(len(work)), rows.end)
        remaining_time: Integers = np.rint(work - work_done).astype(np.int64)
        return rows.end - rows.start + remaining_time

    def step_counts(self, rows: Copies) -> Floats:
        """Return the number of steps for each copy: one, and one per checkpoint."""
        marks = (rows.end - rows.start) // self.cycle if self.interval else 0
        return super().step_counts(rows) + marks

    def checkpointed_work(self, rows: Copies, k: Integers, at: Integers, work: Floats) -> Floats:
        """Return the work in the newest checkpoints of rows k at `at` ns, in ns at full speed."""
        if not self.interval:
            return np.zeros(len(k))
        begin = self.computing_start(rows, k)
        marks = (np.minimum(at, rows.end[k]) - begin) // self.cycle
        return self._work_until(rows, k, begin + marks * self.cycle)

    def _work_until(self, rows: Copies, k: Integers, at: Integers) -> Floats:
        """Return the work that rows k have done by `at` ns, in ns at full speed."""
        cycle = self.cycle if self.interval else np.iinfo(np.int64).max
        begin, total = self.computing_start(rows, k), np.zeros(len(k))
        for positions, checkpoint in _numbered_batches(-((begin - at) // cycle)):
            work = self._work_to_checkpoint(
                rows.machine[k[positions]], begin[positions] + checkpoint * cycle, at[positions]
            )
            np.add.at(total, positions, work)
        return total

    def _work_to_checkpoint(self, machine: Integers, begin: Integers, at: Integers) -> Floats:
        """Return the work from `begin` to the next checkpoint or `at` ns, in ns at full speed."""
        unlimited = np.iinfo(np.int64).max
        return computed_work(
            self.pace, machine, begin, begin + np.minimum(self.interval or unlimited, at - begin)
        )


def overtaken_copies(rows: Copies) -> NDArray[np.bool_]:
    """Return which copies end without completion because another copy completes the task: bool[rows]."""
    completion = np.full(int(rows.task.max(initial=-1)) + 1, -1, np.int64)
    completion[rows.task[rows.completed]] = rows.end[rows.completed]
    is_ended_later = (
        rows.end >= completion[rows.task] if rows.has_late_notification else rows.end == completion[rows.task]
    )
    is_overtaken: NDArray[np.bool_] = ~rows.completed & is_ended_later
    return is_overtaken


def check_copies(result: Result, workload: Applications, rows: Copies) -> list[Violation]:
    """Check the copies of the tasks of `workload`.

    Each task must be completed once, by the copy that finishes first, and each copy must begin with the
    most advanced checkpoint.
    """
    sizes, speeds = workload.sizes(), result.scenario.platform.speeds
    size, speed = sizes[rows.task], speeds[rows.machine]
    completed = np.bincount(rows.task[rows.completed], minlength=len(sizes))
    violations = violations_where(
        "done twice" if (completed > 1).any() else "lost",
        completed != 1,
        lambda k: (
            f"task {k - workload.offsets[_application_of(workload, k)]} of application "
            f"{_application_of(workload, k)}"
        ),
        lambda k: f"was completed {completed[k]} times",
    )
    completion = np.full(len(sizes), np.iinfo(np.int64).max)
    completion[rows.task[rows.completed]] = rows.end[rows.completed]
    violations += violations_where(
        "after its end",
        (rows.end > completion[rows.task]) & ~(rows.has_late_notification & ~rows.completed),
        rows.row_label,
        lambda k: (
            f"a copy ends at {rows.end[k]} ns, but its task was completed at {completion[rows.task[k]]} ns"
        ),
    )
    violations += violations_where(
        "begin",
        ~((rows.begin >= 0) & (rows.begin < size)),
        rows.row_label,
        lambda k: (
            f"begins with {rows.begin[k]} Mflop done, but must begin with 0 or more, and less than {size[k]}"
        ),
    )
    schedule_work = math.fsum(((rows.end - rows.start) / 1e9 * speed).tolist())
    reported = math.fsum(x for _, column in result.tables["cycles"].items() for x in column.tolist())
    if abs(reported - schedule_work) > 1e-9 * schedule_work + speeds.max() * len(rows.task) * 1e-9:
        message = f"add up to {reported!r} Mflop, but the schedule has {schedule_work!r} Mflop"
        violations.append(Violation("cycles", 1, "cycles", message))
    max_replicas = result.scheduler["parameters"].get("max_replicas")
    if max_replicas is not None:
        violations += _check_concurrency(rows, int(max_replicas))
    if not violations:
        violations += _check_counts(result, workload, rows)
    parameters = result.scheduler["parameters"]
    if {"migration_cost", "on_return"} & set(parameters) and not violations:
        cost, keeps_work = (
            round(parameters.get("migration_cost", 0.0) * 1e9),
            parameters.get("on_return") != "restart",
        )
        violations += _check_concurrency(rows, 1) + _check_moves(result, workload, rows, cost, keeps_work)
    rules = CheckpointRules.of(result)
    if rules is not None and not violations:
        work = (size - rows.begin) / speed * 1e9
        durations, run_times = rules.durations(rows, work), rows.end - rows.start
        slack = 1 + rules.slack * run_times
        violations += violations_where(
            "duration",
            np.where(rows.completed, np.abs(run_times - durations) > slack, run_times > durations + slack),
            rows.row_label,
            lambda k: (
                f"runs for {run_times[k]} ns on machine {rows.machine[k]}, but the rest of the task takes "
                f"{durations[k]} ns"
            ),
        )
        violations += _check_begins(rows, rules, work, sizes, speeds)
    return violations


def _application_of(workload: Applications, task: int) -> int:
    return int(np.searchsorted(workload.offsets, task, side="right")) - 1


def _check_counts(result: Result, workload: Applications, rows: Copies) -> list[Violation]:
    """Check the counts of replicas, of killed copies, and of tasks that lost all their running copies."""
    is_overtaken = overtaken_copies(rows)
    lost = ~rows.completed & ~is_overtaken & (_running_copies(rows, rows.end, "left") <= 0)
    # a task that loses several copies at one instant is resubmitted once
    pairs = np.unique(np.stack((rows.task[lost], rows.end[lost])), axis=1)
    losses = np.bincount(pairs[0], minlength=int(workload.tasks.sum()))
    owners = np.repeat(np.arange(len(workload)), workload.tasks)
    # of the copies of a task that start at one instant, all except the first are replicas
    running_before = _running_copies(rows, rows.start, "right") - 1
    starts = np.unique(np.stack((rows.task, rows.start)), axis=1, return_index=True)[1]
    first = np.zeros(len(rows.task), np.bool_)
    first[starts] = True
    start_groups = np.unique(np.stack((rows.task, rows.start)), axis=1, return_inverse=True)[1].ravel()
    is_first_copy = first & (running_before - (np.bincount(start_groups)[start_groups] - 1) <= 0)
    counts = {
        "resubmitted": np.bincount(owners, losses, len(workload)),
        "undisturbed": np.bincount(owners[losses == 0], minlength=len(workload)),
        "killed": np.bincount(owners[rows.task[is_overtaken]], minlength=len(workload)),
        "replicas": np.bincount(owners[rows.task[~is_first_copy]], minlength=len(workload)),
    }
    violations = []
    for name, numbers in counts.items():
        if name in result.applications:
            actual, expected = result.applications[name], numbers.astype(np.int64)
            violations += differences(
                "agreement",
                column_label(f"applications.{name}"),
                actual != expected,
                actual,
                expected,
                "the schedule gives",
            )
    return violations


def _running_copies(rows: Copies, at: Integers, side: Literal["left", "right"]) -> Integers:
    """Return the number of copies of each row's task that run at `at` ns: int64[rows].

    A copy counts if it begins at or before `at` and ends after it.

    Parameters
    ----------
    side
        "left" excludes copies that begin exactly at `at`; "right" includes them.
    """
    count = len(rows.task)
    # ranks of instants increase from task to task, so that one sorted array serves all tasks
    time = np.unique(np.r_[rows.start, rows.end, at], return_inverse=True)[1].ravel()
    width = int(time.max(initial=0)) + 1
    begin, end, instants = (rows.task * width + time[k * count : (k + 1) * count] for k in range(3))
    begin_count, end_count = (
        np.searchsorted(np.sort(begin), instants, side),
        np.searchsorted(np.sort(end), instants, "right"),
    )
    running: Integers = begin_count - end_count  # all copies of earlier tasks have begun and ended
    return running


def _check_concurrency(rows: Copies, max_copies: int) -> list[Violation]:
    """Check that at most `max_copies` copies of a task run at a time."""
    count, task = len(rows.task), np.r_[rows.task, rows.task]
    change = np.r_[np.ones(count, np.int64), -np.ones(count, np.int64)]
    order = np.lexsort((change, np.r_[rows.start, rows.end], task))
    running = np.cumsum(change[order])  # the sum is back at 0 after each task
    return violations_where(
        "copies",
        running > max_copies,
        lambda k: rows.row_label(int(order[k] % max(1, count))),
        lambda k: f"{running[k]} copies of a task run at a time, but at most {max_copies} may",
    )


def _check_moves(
    result: Result, workload: Applications, rows: Copies, cost: int, keeps_work: bool
) -> list[Violation]:
    """Check that interrupted tasks resume with the correct work, and that durations include moves.

    Parameters
    ----------
    cost
        Duration of a move (ns).
    keeps_work
        Whether an interrupted task keeps all its work; otherwise it keeps none.
    """
    speeds, sizes = result.scenario.platform.speeds.tolist(), workload.sizes().tolist()
    done_before, durations = np.zeros(len(rows.task)), np.zeros(len(rows.task), np.int64)
    is_move, overhead = np.zeros(len(rows.task), np.bool_), np.zeros(len(workload))
    is_continuation = is_move.copy()
    task, work_done, cost_left, host = -1, 0.0, 0, -1
    for k in np.lexsort((rows.start, rows.task)).tolist():
        u, queue = int(rows.machine[k]), int(rows.queue[k])
        if rows.task[k] != task:
            task, work_done, cost_left, host = int(rows.task[k]), 0.0, 0, queue
        else:
            is_continuation[k] = True
        if queue != host:
            host, cost_left, is_move[k] = queue, cost, True
        done_before[k] = work_done
        durations[k] = cost_left + max(1, round((sizes[task] - work_done) / speeds[u] * 1e9))
        run_time = int(rows.end[k] - rows.start[k])
        cost_part = min(cost_left, run_time)
        cost_left -= cost_part
        overhead[_application_of(workload, task)] += cost_part / 1e9 * speeds[u]
        work_done += (run_time - cost_part) / 1e9 * speeds[u] if keeps_work else 0.0
    size, row_durations = np.array(sizes)[rows.task], rows.end - rows.start
    violations = violations_where(
        "begin",
        np.abs(rows.begin - done_before) > 1e-9 * size,
        rows.row_label,
        lambda k: f"begins with {rows.begin[k]} Mflop done, but {done_before[k]} were done before",
    )
    violations += violations_where(
        "duration",
        np.where(rows.completed, np.abs(row_durations - durations) > 1, row_durations > durations + 1),
        rows.row_label,
        lambda k: (
            f"runs for {row_durations[k]} ns on machine {rows.machine[k]}, but moving and the rest of the "
            f"task take {durations[k]} ns"
        ),
    )
    owners = np.searchsorted(workload.offsets, rows.task, side="right") - 1
    for name, rows_counted in (
        ("migrated", is_move),
        ("resumed", is_continuation & ~is_move),
        ("resubmitted", is_continuation),
    ):
        actual, expected = (
            result.applications[name],
            np.bincount(owners[rows_counted], minlength=len(workload)),
        )
        violations += differences(
            "agreement",
            column_label(f"applications.{name}"),
            actual != expected,
            actual,
            expected,
            "the schedule gives",
        )
    reported = result.tables["cycles"]["overhead"]
    return violations + differences(
        "cycles",
        column_label("cycles.overhead"),
        np.abs(reported - overhead) > 1e-9 * (workload.size + overhead),
        reported,
        overhead,
        "the schedule gives",
    )


def _check_begins(
    rows: Copies, rules: CheckpointRules, work: Floats, sizes: Floats, speeds: Floats
) -> list[Violation]:
    """Check that each copy begins with the work in the most advanced checkpoint that its machine can read.

    Parameters
    ----------
    work
        float64[rows], ns at full speed, the work of each copy.

    Raises
    ------
    ScenarioError
        If checking takes too many steps.
    """

    def work_at(k: Integers, at: Integers) -> Floats:
        """Return the work (Mflop) in the newest checkpoints of rows k at `at` ns."""
        work_at: Floats = (
            rows.begin[k] + rules.checkpointed_work(rows, k, at, work) / 1e9 * speeds[rows.machine[k]]
        )
        return work_at

    available = np.maximum(
        0.0, (_local_checkpoint_work if rules.local else _shared_checkpoint_work)(rows, rules, work_at)
    )
    return violations_where(
        "begin",
        np.where(rows.has_late_notification, rows.begin - available, np.abs(rows.begin - available))
        > 1e-9 * sizes[rows.task],
        rows.row_label,
        lambda k: f"begins with {rows.begin[k]} Mflop done, but the best checkpoint has {available[k]}",
    )


#: Function of rows and instants (ns) that returns the work (Mflop) in each row's newest checkpoint.
_CheckpointedWork = Callable[[Integers, Integers], Floats]


def _local_checkpoint_work(rows: Copies, rules: CheckpointRules, work_at: _CheckpointedWork) -> Floats:
    """Return the work in the checkpoint on the machine of each copy: float64[rows], Mflop.

    It is the checkpoint of the last copy that the machine lost, if that was a copy of the same task.
    """
    available = np.zeros(len(rows.task))
    order = np.lexsort((rows.start, rows.queue))
    lost = ~(rows.completed | overtaken_copies(rows))[order]
    last = np.maximum.accumulate(np.where(lost, np.arange(len(order)), -1))
    last = np.r_[np.int64(-1), last][:-1]  # the last lost row before each row
    rows_with_loss, lost_rows = order[last >= 0], order[last[last >= 0]]
    same = (rows.queue[rows_with_loss] == rows.queue[lost_rows]) & (
        rows.task[rows_with_loss] == rows.task[lost_rows]
    )
    rows_with_loss, lost_rows = rows_with_loss[same], lost_rows[same]
    _check_step_count(rules, rules.step_counts(rows)[lost_rows])
    available[rows_with_loss] = work_at(lost_rows, rows.start[rows_with_loss])
    return available


def _shared_checkpoint_work(rows: Copies, rules: CheckpointRules, work_at: _CheckpointedWork) -> Floats:
    """Return the work in the most advanced checkpoint of a task as each copy starts: float64[rows], Mflop.

    Checkpoints of copies that have ended count, and those of copies that still run.
    """
    count = len(rows.task)
    order = np.lexsort((rows.start, rows.task))
    task, position = rows.task[order], np.arange(count)
    # with ranks in place of times, a task and an instant fit into one number
    rank = np.unique(np.r_[rows.start, rows.end], return_inverse=True)[1].ravel()
    start, end = (task * 2 * count + rank[half][order] for half in (slice(count), slice(count, None)))
    # per row: the first row of the same task that starts at or after its end
    next_row = np.maximum(np.searchsorted(start, end), position + 1)
    running = next_row - position - 1
    step_counts = rules.step_counts(rows)[order]
    _check_step_count(rules, np.r_[step_counts, step_counts * running])
    # the largest work so far in checkpoints of ended copies, as ranks that increase from task to task
    value, at = np.unique(work_at(order, rows.end[order]), return_inverse=True)
    best = np.full(count + 1, -1)
    np.maximum.at(best, next_row, task * count + at.ravel())
    best = np.maximum.accumulate(best[:-1])
    has_checkpoint, available = best >= task * count, np.zeros(count)
    available[order[has_checkpoint]] = value[best[has_checkpoint] % count]
    for positions, distance in _numbered_batches(running):
        later_rows = order[positions + 1 + distance]
        np.maximum.at(available, later_rows, work_at(order[positions], rows.start[later_rows]))
    return available


def _check_step_count(rules: CheckpointRules, step_counts: Floats) -> None:
    """Raise ScenarioError if checkpoints and concurrent copies need too many steps."""
    step_kind = f"checkpoints (every {rules.cycle} ns) of concurrent copies"
    check_step_count(float(step_counts.sum()), "facts.checkpoint_interval", step_kind)


def _numbered_batches(count: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield all pairs (k, number) with number in 0..count[k] - 1, in batches of two arrays."""
    until = np.cumsum(np.maximum(0, count))
    first = until - np.maximum(0, count)
    total = int(until[-1]) if len(until) else 0
    for at in range(0, total, _BATCH):
        numbers = np.arange(at, min(at + _BATCH, total))
        k = np.searchsorted(until, numbers, side="right")
        yield k, numbers - first[k]
