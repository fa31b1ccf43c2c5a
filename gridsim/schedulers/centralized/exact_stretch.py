"""A policy that binds tasks at release, at the smallest stretch that exact availabilities have room for."""

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

#: Relative tolerance of the smallest stretch, which is found from above.
STRETCH_TOLERANCE = 1e-9
#: Words of schedulers whose policy is `Once`; see `gridsim.scheduling.contract.Scheduler.decision_words`.
BOUND_WORDS: DecisionTexts = {
    "bound": (
        "bound {tasks} tasks to machines, most of them to {machine}, of {among} that are up",
        "a stretch of",
        "s/Mflop",
    )
}


class Once(ImmediateMode):
    """Shares tasks out, by `divide`, at the smallest stretch at which the machines have room for them.

    Table ``requests`` has that stretch for each application (``promised``, s/Mflop).
    """

    STATE = (*ImmediateMode.STATE, "bound", "promised", "_first", "_kind", "_count")
    local_order = "edf"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.aggregate_speed = math.fsum(run.speeds)
        # one entry for each time that tasks are bound
        self.bound: list[int] = []
        self.promised: list[float] = []
        suited = run.applications.suited
        alike = [run.speeds, *([] if run.bandwidth is None else [run.bandwidth])]
        alike += [] if suited is None else list(suited.astype(np.float64))
        key: NDArray[Any] = run.speeds
        if len(alike) > 1:
            _, key = np.unique(np.stack(alike), axis=1, return_inverse=True)
        self._sort_out(key.ravel())
        self._speed = self._kind

    def _sort_out(self, key: NDArray[Any]) -> None:
        """Group machines with the same `key` into kinds.

        Machines of a kind are equally fast, suit the same applications, are all up or all down, and have got
        the same tasks since they were empty.  They are in the same state, so only the first of each kind is
        asked how many tasks it can take.  For kinds that are down the answer does not count.
        """
        _, self._first, self._kind, self._count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        self._count[~self.run.up[self._first]] = 0

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `ImmediateMode.on_faults`; machines that fail, recover or are still down are empty."""
        empty = ~self.run.up
        empty[failed] = empty[back] = True
        self._sort_out(np.where(empty, len(self._first) + 2 * self._speed + self.run.up, self._kind))
        super().on_faults(failed, back)

    def share(self, application: int, count: int, now: int) -> Integers:
        stretch, room = self._smallest(application, count, now)
        self.bound.append(application)
        self.promised.append(stretch)
        tasks = self.divide(room, count)
        self._sort_out(self._kind * (tasks.max() + 1) + tasks)
        return tasks

    def divide(self, room: Integers, count: int) -> Integers:
        """Return how many of `count` tasks each machine gets, in proportion to its `room` in tasks."""
        return split(room, count)

    def grounds(self, application: int, machines: Integers, now: int) -> float:
        """See `ImmediateMode.grounds`: the stretch, s/Mflop."""
        return self.promised[-1]

    def _smallest(self, application: int, tasks: int, now: int) -> tuple[float, Integers]:
        """Return the smallest stretch with room for `tasks` of an application, and each machine's room at it.

        Room does not fall as the stretch grows, so the room of a kind is known once it is the same at both
        ends of the bracket.  Rounding does not change that: it moves the stretch at which a count steps by a
        relative 1e-13 or so, and later trials lie inside the bracket by at least half of STRETCH_TOLERANCE.
        """
        applications = self.run.applications
        size, task_size = float(applications.size[application]), float(applications.task_size[application])
        # No schedule ends earlier than one on an empty platform whose machines could do parts of tasks.
        low = (1.0 - STRETCH_TOLERANCE) / self.aggregate_speed * (tasks * task_size / size)
        high = max(low, self.promised[-1] if self.promised else 0.0)
        open_ = self.open(application)
        counts = self._count * open_[self._first]
        # room of the first machine of each kind: `room` at high, `fewest` at low or below
        fewest = np.zeros(len(self._first), np.int64)
        room = self._room(high, application, now, self._first)
        while room @ counts < tasks:
            low, fewest, high = high, room, 2.0 * high
            room = self._room(high, application, now, self._first)
        while high - low > STRETCH_TOLERANCE * high:
            middle = low + (high - low) / 2.0
            attempt, unsure = room.copy(), np.flatnonzero(fewest != room)
            attempt[unsure] = self._room(middle, application, now, self._first[unsure])
            if attempt @ counts >= tasks:
                high, room = middle, attempt
            else:
                low, fewest = middle, attempt
        return high, room[self._kind] * open_

    def _room(self, stretch: float, application: int, now: int, machines: Integers) -> Integers:
        """Return how many tasks of `application` each of `machines` can take at `stretch`."""
        if isinstance(self.queues, DataQueues):
            return self.queues.room(stretch, application, now, machines)
        applications = self.run.applications
        columns = (applications.release, applications.size, applications.task_size)
        release, size, task_size = (float(column[application]) for column in columns)
        return self.queues.available(stretch, release, size, task_size, now, machines=machines)

    def finish(self) -> Outcome:
        """Let the machines complete their tasks, and return the outcome."""
        outcome = super().finish()
        outcome.tables["requests"] = {
            "application": np.array(self.bound, np.int64),
            "promised": np.array(self.promised, np.float64),
        }
        return outcome
