"""Single tasks: a workload whose tasks are applications of their own to the nodes of a scheduler."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
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
    application
        int64[tasks], the submitted application of each task; None if each application is one task, so that
        the numbers are equal.
    """

    def __init__(self, submitted: Applications) -> None:
        self.submitted = submitted
        self.application: Integers | None = None
        if (submitted.tasks > 1).any():
            self.application = np.repeat(np.arange(len(submitted)), submitted.tasks)

    @cached_property
    def applications(self) -> Applications:
        """An application for each task, of its true size, in the order of the tasks."""
        submitted = self.submitted
        if self.application is None and submitted.task_sizes is None and submitted.estimate is None:
            return submitted
        columns = {
            name: self.of_each(column)
            for name in PER_APPLICATION
            if (column := getattr(submitted, name)) is not None
        }
        sizes = submitted.sizes()
        changed: dict[str, Any] = {"tasks": np.ones(len(sizes), np.int64), "task_size": sizes, "size": sizes}
        return replace(submitted, **{**columns, **changed, "task_sizes": None, "estimate": None})

    @cached_property
    def offsets(self) -> Integers:
        """The first task of each submitted application, and the number of tasks: int64[applications + 1]."""
        return self.submitted.offsets

    def of_each(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each task the value of its application."""
        return column if self.application is None else column[self.application]

    @property
    def numbers(self) -> Integers:
        """The submitted application of each task: int64[tasks]."""
        return np.arange(len(self.submitted)) if self.application is None else self.application

    def place_of(self, number: int) -> tuple[int, int]:
        """Return the submitted application of a task, and the number of the task in it."""
        application = number if self.application is None else int(self.application[number])
        return application, number - int(self.offsets[application])

    def join(self, outcome: Outcome, machines: int) -> None:
        """Change the columns of single tasks into those of the submitted applications.

        Parameters
        ----------
        outcome
            The outcome of the single tasks; its arrivals are the machines that have received each task.
        machines
            Number of machines.
        """
        if self.application is not None:
            tasks, first = outcome.applications, self.offsets[:-1]
            start = np.where(tasks["first_start"] < 0, NEVER, tasks["first_start"])
            start = np.minimum.reduceat(start, first)
            outcome.applications = {
                name: np.add.reduceat(column, first) for name, column in tasks.items()
            } | {
                "first_start": np.where(start == NEVER, -1, start),
                "finish": np.maximum.reduceat(tasks["finish"], first),
                "nodes_used": self._nodes_used(outcome.arrivals, machines),
            }

    def join_rows(self, outcome: Outcome, merges: bool) -> None:
        """Change schedule and arrivals of single tasks into those of the submitted applications.

        Parameters
        ----------
        merges
            Whether all tasks of an application that a machine ran without a gap get one row.
        """
        outcome.schedule = self._sort_rows(outcome.schedule, merges)
        application = self.numbers[outcome.arrivals["application"]]
        outcome.arrivals = {**outcome.arrivals, "application": application}

    def _nodes_used(self, arrivals: dict[str, NDArray[Any]], machines: int) -> Integers:
        """Return the number of machines on which each application had tasks that were not withdrawn."""
        pair = self.numbers[arrivals["application"]] * machines + arrivals["machine"]
        pairs, places = np.unique(pair, return_inverse=True)
        is_used = np.bincount(places, arrivals["tasks"], len(pairs)) > 0
        return np.bincount(pairs[is_used] // machines, minlength=len(self.submitted))

    def _sort_rows(self, rows: dict[str, NDArray[Any]], merges: bool) -> dict[str, NDArray[Any]]:
        """Return a schedule by machine, start and task, with rows merged as in `join_rows`."""
        order = np.lexsort((rows["application"], rows["start"], rows["machine"]))
        machine, number, tasks, start, end, completed = (rows[name][order] for name in SCHEDULE)
        application, is_whole = self.numbers[number], completed == tasks
        follows = (
            (machine[1:] == machine[:-1]) & (application[1:] == application[:-1]) & (start[1:] == end[:-1])
        )
        follows &= is_whole[1:] & is_whole[:-1] & merges
        first = np.flatnonzero(np.append(True, ~follows)[: len(order)])
        last = np.append(first[1:], len(order)) - 1
        tasks, completed = (
            np.add.reduceat(column, first) if len(first) else column for column in (tasks, completed)
        )
        columns = machine[first], application[first], tasks, start[first], end[last[: len(first)]], completed
        return dict(zip(SCHEDULE, columns, strict=True))
