"""A policy that binds tasks at release, at the smallest stretch that exact availabilities allow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summaries import split
from gridcore.queues.data_queues import DataQueues
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.immediate import ImmediateMode
from gridsim.scheduling.contract import Outcome, Run
from gridsim.support.arrays import Integers

#: Relative tolerance of the minimum stretch, which is approximated from above.
STRETCH_TOLERANCE = 1e-9
#: Texts of the decisions of `ExactStretch`.
BOUND_WORDS: DecisionTexts = {
    "bound": (
        "bound {tasks} tasks to machines, most of them to {machine}, of {among} that are up",
        "a stretch of",
        "s/Mflop",
    )
}


class ExactStretch(ImmediateMode):
    """Policy that divides tasks among machines at the smallest stretch at which they have room for all.

    Table ``requests`` has this stretch for each application (``promised``, s/Mflop).
    """

    STATE = (*ImmediateMode.STATE, "bound", "promised", "_first", "_kind", "_count")
    local_order = "edf"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)
        # of each request: its application, and the promised stretch (s/Mflop)
        self.bound: list[int] = []
        self.promised: list[float] = []
        suited = run.applications.suited
        columns = [run.speeds, *([] if run.bandwidth is None else [run.bandwidth])]
        columns += [] if suited is None else list(suited.astype(np.float64))
        key: NDArray[Any] = run.speeds
        if len(columns) > 1:
            _, key = np.unique(np.stack(columns), axis=1, return_inverse=True)
        self._group_machines(key.ravel())
        self._speed = self._kind

    def _group_machines(self, key: NDArray[Any]) -> None:
        """Group machines with the same `key` into kinds.

        Machines of a kind are equally fast, suit the same applications, are all up or all down, and have
        received the same tasks since they were empty.  They are in equal states, so room is computed for one
        machine of each kind.  The machine count of a kind that is down is 0.
        """
        _, self._first, self._kind, self._count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        self._count[~self.run.up[self._first]] = 0

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Group machines that failed, recovered or stay down as empty, and bind lost tasks again."""
        empty = ~self.run.up
        empty[failed] = empty[recovered] = True
        self._group_machines(np.where(empty, len(self._first) + 2 * self._speed + self.run.up, self._kind))
        super().on_faults(failed, recovered)

    def share(self, application: int, count: int, now: int) -> Integers:
        stretch, capacity = self._smallest_stretch(application, count, now)
        self.bound.append(application)
        self.promised.append(stretch)
        tasks = self.divide(capacity, count)
        self._group_machines(self._kind * (tasks.max() + 1) + tasks)
        return tasks

    def divide(self, capacity: Integers, count: int) -> Integers:
        """Return how many of `count` tasks each machine gets, in proportion to its `capacity` in tasks."""
        return split(capacity, count)

    def decision_value(self, application: int, machines: Integers, now: int) -> float:
        """Return the stretch of the request, s/Mflop."""
        return self.promised[-1]

    def _smallest_stretch(self, application: int, tasks: int, now: int) -> tuple[float, Integers]:
        """Return the smallest stretch with room for `tasks` of an application, and the room of each machine.

        The room never decreases as the stretch grows, so the room of a kind is known once it is equal at both
        ends of the bracket.  Rounding does not invalidate this: it shifts the stretch at which the room
        changes by a relative 1e-13 or so, and later trials lie inside the bracket by at least half of the
        relative STRETCH_TOLERANCE.
        """
        applications = self.run.applications
        size, task_size = float(applications.size[application]), float(applications.task_size[application])
        # lower bound of the stretch: an empty platform whose machines could run parts of tasks
        low = (1.0 - STRETCH_TOLERANCE) / self.aggregate_speed * (tasks * task_size / size)
        high = max(low, self.promised[-1] if self.promised else 0.0)
        eligible = self.eligible(application)
        counts = self._count * eligible[self._first]
        # of the first machine of each kind: `capacity` at stretch `high`, `low_capacity` at `low` or below
        low_capacity = np.zeros(len(self._first), np.int64)
        capacity = self._capacity(high, application, now, self._first)
        while capacity @ counts < tasks:
            low, low_capacity, high = high, capacity, 2.0 * high
            capacity = self._capacity(high, application, now, self._first)
        while high - low > STRETCH_TOLERANCE * high:
            middle = low + (high - low) / 2.0
            trial, undecided = capacity.copy(), np.flatnonzero(low_capacity != capacity)
            trial[undecided] = self._capacity(middle, application, now, self._first[undecided])
            if trial @ counts >= tasks:
                high, capacity = middle, trial
            else:
                low, low_capacity = middle, trial
        return high, capacity[self._kind] * eligible

    def _capacity(self, stretch: float, application: int, now: int, machines: Integers) -> Integers:
        """Return the number of tasks of `application` that each of `machines` can take at `stretch`."""
        if isinstance(self.queues, DataQueues):
            return self.queues.capacity_of(stretch, application, now, machines)
        applications = self.run.applications
        columns = (applications.release, applications.size, applications.task_size)
        release, size, task_size = (float(column[application]) for column in columns)
        return self.queues.available(stretch, release, size, task_size, now, machines=machines)

    def finish(self) -> Outcome:
        """Run the queues to the end, and return the outcome with table ``requests``."""
        outcome = super().finish()
        outcome.tables["requests"] = {
            "application": np.array(self.bound, np.int64),
            "promised": np.array(self.promised, np.float64),
        }
        return outcome
