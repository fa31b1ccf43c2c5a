"""What machines do with their cycles under WQR-FT: background load, and the record of task copies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.model.fluctuation import Pace
from gridsim.schedulers.wqr.rules import LONGEST, Rules
from gridsim.support.arrays import Floats


class Computing:
    """How fast machines compute: at full speed, or slowed by background load."""

    def __init__(self, speeds: Floats, pace: Pace | None) -> None:
        self.speeds, self.pace = speeds.tolist(), pace

    def time_for(self, machine: int, work: float) -> float:
        """Return how long `work` (Mflop) takes at full speed, ns: a whole number without background load."""
        needed: float = work / self.speeds[machine] * 1e9
        if not needed < LONGEST:
            raise OverflowError("a task ends after the last instant")
        return max(1, round(needed)) if self.pace is None else needed

    def _factor(self, machine: int, step: int) -> float:
        pace = self.pace
        assert pace is not None
        steps = pace.factors.shape[1]
        return float(pace.factors[pace.series[machine], (pace.first[machine] + step) % steps])

    def done(self, machine: int, begin: int, end: int) -> float:
        """Return what `machine` does from `begin` to `end`, in ns at full speed."""
        if self.pace is None:
            return end - begin
        period, done = self.pace.period, 0.0
        while begin < end:
            step = begin // period
            edge = min((step + 1) * period, end)
            done += self._factor(machine, step) * float(edge - begin)
            begin = edge
        return done

    def time_until_done(self, machine: int, begin: int, left: float, limit: int) -> int | None:
        """Return how long `machine` needs from `begin` on for `left` ns at full speed.

        The result is in ns; None for more than `limit` ns.
        """
        if self.pace is None:
            return int(left) if left <= limit else None
        period, at, last = self.pace.period, begin, min(begin + limit, LONGEST)
        while at < last:
            step = at // period
            edge, factor = min((step + 1) * period, last), self._factor(machine, step)
            room = factor * float(edge - at)
            if left <= room + 0.5 * factor:  # half a ns more, for rounding
                return min(at + max(1, round(left / factor)), last) - begin
            left -= room
            at = edge
        if last == LONGEST:
            raise OverflowError("a task ends after the last instant")
        return None


#: How a task copy ends: "killed" if another one has completed the task.
Ending = Literal["completed", "killed", "failed"]


@dataclass(slots=True)
class Copy:
    """A task copy that has ended.

    copy : its number, in the order in which copies began.  start, end : ns.
    begin : Mflop that were done before.  checkpoints : how many it has written.
    """

    copy: int
    machine: int
    application: int
    task: int
    start: int
    end: int
    begin: float
    checkpoints: int
    how: Ending

    @property
    def failed(self) -> bool:
        """Whether it was lost because its machine failed."""
        return self.how == "failed"

    @property
    def completed(self) -> bool:
        """Whether it completed its task."""
        return self.how == "completed"


class Copies:
    """The record of all task copies that have ended, which no node can read."""

    def __init__(self, rules: Rules, computing: Computing) -> None:
        self.rules, self.computing = rules, computing
        self.rows: list[Copy] = []
        self.completed = 0

    def add(self, copy: Copy) -> None:
        """Add a copy that has ended."""
        self.rows.append(copy)
        self.completed += copy.completed

    def in_order(self) -> list[Copy]:
        """Return the copies in order of their ends.

        At one instant those of completed tasks come first, by the machine that completed each task; then
        those that failed, by machine.  Of the copies of one task, the one that began last comes first.
        """
        won = {(c.application, c.task): c.machine for c in self.rows if c.completed}

        def place(c: Copy) -> tuple[int, bool, int, int]:
            return c.end, c.failed, c.machine if c.failed else won[c.application, c.task], -c.copy

        return sorted(self.rows, key=place)

    def spent(self, c: Copy) -> tuple[float, float, float, float]:
        """Return how a copy has spent the cycles of its machine, Mflop at full speed.

        The four values are: computed for its task; the part of this after its newest checkpoint; overhead of
        checkpoints; taken by background load.
        """
        rules, speed = self.rules, self.computing.speeds[c.machine]
        reading = min(c.end - c.start, rules.restore if c.begin > 0.0 else 0)
        windows = [
            c.start + reading + k * (rules.interval + rules.checkpoint) for k in range(c.checkpoints + 1)
        ]
        fresh_time = c.end - windows[-1]
        if rules.interval:
            fresh_time = min(fresh_time, rules.interval)
        fresh = float(self.computing.done(c.machine, windows[-1], windows[-1] + fresh_time))
        done, computing = fresh, fresh_time + c.checkpoints * rules.interval
        if self.computing.pace is None:
            done += float(c.checkpoints * rules.interval)
        else:
            for window in windows[:-1]:
                done += self.computing.done(c.machine, window, window + rules.interval)
        overhead = float(c.end - c.start - computing)
        shares = done, fresh, overhead, float(computing) - done
        computed, after, over, slowed = (share / 1e9 * speed for share in shares)
        return computed, after, over, slowed

    def totals(self, applications: Applications, machines: int) -> dict[str, NDArray[Any]]:
        """Return the totals of bags and machines, named as by `gridcore.work_queue.dispatch.WorkQueue`."""
        bags = len(applications)
        total: dict[str, NDArray[Any]] = {
            **{name: np.full(bags, -1, np.int64) for name in ("first_start", "finish")},
            **{
                name: np.zeros(bags, np.int64)
                for name in ("completed", "nodes_used", "resubmitted", "replicas", "killed", "undisturbed")
            },
            **{name: np.zeros(bags) for name in ("redundant", "lost", "overhead", "slowed")},
            **{name: np.zeros(machines, np.int64) for name in ("busy", "tasks", "interrupted", "ended")},
        }
        column = {"completed": "tasks", "killed": "ended", "failed": "interrupted"}
        self._add_cycles(total)
        for c in self.rows:
            total["busy"][c.machine] += c.end - c.start
            total[column[c.how]][c.machine] += 1
        by_task = sorted(self.rows, key=lambda c: (c.application, c.task, c.copy))
        for i, group in groupby(by_task, key=lambda c: c.application):
            bag = list(group)
            total["first_start"][i] = min(c.start for c in bag)
            total["nodes_used"][i] = len({c.machine for c in bag})
            total["killed"][i] = sum(c.how == "killed" for c in bag)
            for _, copies in groupby(bag, key=lambda c: c.task):
                self._count(total, i, list(copies))
        return total

    @staticmethod
    def _count(total: dict[str, NDArray[Any]], i: int, copies: list[Copy]) -> None:
        """Count the copies of a task of bag i, in the order in which they began.

        A copy that began while none ran is the first one, or resubmits the task after a failure.
        """
        ran_until, alone = 0, 0
        for k, c in enumerate(copies):
            alone += k == 0 or ran_until <= c.start
            ran_until = max(ran_until, c.end)
        completed = [c.end for c in copies if c.completed]
        total["resubmitted"][i] += alone - 1
        total["replicas"][i] += len(copies) - alone
        if completed:
            total["completed"][i] += 1
            total["undisturbed"][i] += alone == 1
            total["finish"][i] = max(total["finish"][i], *completed)

    def _add_cycles(self, total: dict[str, NDArray[Any]]) -> None:
        """Add up how cycles were spent, in the order in which copies ended."""
        spent: dict[tuple[int, int], float] = {}  # by copies of a task that ended without completing it
        for _, group in groupby(self.in_order(), key=lambda c: (c.end, c.failed, c.application, c.task)):
            copies, winner = list(group), None
            for c in copies:
                i, task = c.application, (c.application, c.task)
                computed, fresh, overhead, slowed = self.spent(c)
                total["overhead"][i] += overhead
                total["slowed"][i] += slowed
                if c.completed:
                    winner = c
                else:
                    spent[task] = spent.get(task, 0.0) + (computed - fresh if c.failed else computed)
                if c.failed:
                    total["lost"][i] += fresh
            if winner is not None:
                total["redundant"][i] += max(0.0, spent.get(task, 0.0) - winner.begin)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the copies as columns, named as by `gridcore.work_queue.dispatch.WorkQueue`."""
        names = {"machine": "machine", "bag": "application", "task": "task", "start": "start", "end": "end"}
        columns: dict[str, NDArray[Any]] = {
            name: np.array([getattr(c, source) for c in self.rows], np.int64)
            for name, source in names.items()
        }
        columns["completed"] = np.array([c.completed for c in self.rows], np.int64)
        columns["begin"] = np.array([c.begin for c in self.rows], np.float64)
        return columns
