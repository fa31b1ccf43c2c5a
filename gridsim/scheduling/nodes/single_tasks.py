"""Single tasks: a workload whose tasks are applications of their own to the nodes of a scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import PER_APPLICATION, Applications
from gridsim.scheduling.contract import SCHEDULE, Outcome
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER


class SingleTasks:
    """The tasks of a workload, each an application of one task (`ProgramScheduler.single_tasks`).

    Parameters
    ----------
    submitted
        The applications as they were submitted.

    Attributes
    ----------
    applications
        An application for each task, of its true size, in the order of the tasks.
    application
        int64[tasks], the submitted application of each task; None if each application is one task, so that
        the numbers are equal.
    """

    def __init__(self, submitted: Applications) -> None:
        self.submitted, self.offsets = submitted, submitted.offsets
        self.application: Integers | None = None
        self.applications = submitted
        has_one_each = not (submitted.tasks > 1).any()
        if has_one_each and submitted.task_sizes is None and submitted.estimate is None:
            return
        if not has_one_each:
            self.application = np.repeat(np.arange(len(submitted)), submitted.tasks)
        columns = {
            name: self.of_each(column)
            for name in PER_APPLICATION
            if (column := getattr(submitted, name)) is not None
        }
        sizes = submitted.sizes()
        changed: dict[str, Any] = {"tasks": np.ones(len(sizes), np.int64), "task_size": sizes, "size": sizes}
        self.applications = replace(submitted, **{**columns, **changed, "task_sizes": None, "estimate": None})

    def of_each(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each task the value of its application."""
        return column if self.application is None else column[self.application]

    @property
    def numbers(self) -> Integers:
        """The submitted application of each task: int64[tasks]."""
        return self.of_each(np.arange(len(self.submitted)))

    def place_of(self, number: int) -> tuple[int, int]:
        """Return the submitted application of a task, and the number of the task in it."""
        application = number if self.application is None else int(self.application[number])
        return application, number - int(self.offsets[application])

    def join(self, outcome: Outcome, machines: int, *, record: bool) -> None:
        """Change an outcome of single tasks into that of the submitted applications.

        Parameters
        ----------
        outcome
            Its arrivals say which machines have received a task.
        machines
            Number of machines.
        record
            Whether the outcome keeps its schedule and arrivals.
        """
        first = self.offsets[:-1]
        if self.application is not None:
            tasks = outcome.applications
            start = np.where(tasks["first_start"] < 0, NEVER, tasks["first_start"])
            start = np.minimum.reduceat(start, first)
            outcome.applications = {
                name: np.add.reduceat(column, first) for name, column in tasks.items()
            } | {
                "first_start": np.where(start == NEVER, -1, start),
                "finish": np.maximum.reduceat(tasks["finish"], first),
                "nodes_used": self._nodes_used(outcome.arrivals, machines),
            }
        outcome.schedule = self._merge_rows(outcome.schedule) if record else {}
        outcome.arrivals = {**outcome.arrivals} if record else {}
        if outcome.arrivals:
            outcome.arrivals["application"] = self.numbers[outcome.arrivals["application"]]

    def _nodes_used(self, arrivals: dict[str, NDArray[Any]], machines: int) -> Integers:
        """Return on how many machines each application has had tasks that were not withdrawn."""
        pair = self.numbers[arrivals["application"]] * machines + arrivals["machine"]
        pairs, places = np.unique(pair, return_inverse=True)
        is_used = np.bincount(places, arrivals["tasks"], len(pairs)) > 0
        return np.bincount(pairs[is_used] // machines, minlength=len(self.submitted))

    def _merge_rows(self, rows: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return a schedule whose rows are tasks of an application that a machine ran without a gap."""
        order = np.lexsort((rows["start"], rows["machine"]))
        machine, number, tasks, start, end, completed = (rows[name][order] for name in SCHEDULE)
        application, is_whole = self.numbers[number], completed == tasks
        follows = (
            (machine[1:] == machine[:-1]) & (application[1:] == application[:-1]) & (start[1:] == end[:-1])
        )
        follows &= is_whole[1:] & is_whole[:-1]
        first = np.flatnonzero(np.append(True, ~follows)[: len(order)])
        last = np.append(first[1:], len(order)) - 1
        tasks, completed = (
            np.add.reduceat(column, first) if len(first) else column for column in (tasks, completed)
        )
        columns = machine[first], application[first], tasks, start[first], end[last[: len(first)]], completed
        return dict(zip(SCHEDULE, columns, strict=True))
