"""The bags of tasks that a fair tree places: applications, and lost tasks as bags of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gridsim.model.applications import Applications
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS
from gridsim.support.state import Stateful


class Bags(Stateful):
    """The columns of `Applications` for each bag, and its application.

    The first bags are the applications, by number.  The further bags are lost tasks of applications; `whose`
    holds the application of each bag.

    Parameters
    ----------
    add
        Function called with the release, size, task size and application of further bags, one array each.
    """

    STATE = ("further",)

    def __init__(
        self, applications: Applications, add: Callable[[Floats, Floats, Floats, Integers], None]
    ) -> None:
        self.applications, self.add = applications, add
        self.whose = np.arange(len(applications))
        self.tasks = applications.tasks
        self.size, self.task_size = applications.size, applications.task_size
        self.data = applications.data
        self.input_bytes, self.output_bytes = applications.input_bytes, applications.output_bytes
        self.memory, self.disk = applications.memory, applications.disk
        #: Rows of further bags: application, tasks, release (ns).
        self.further: Integers = np.zeros((0, 3), np.int64)

    @property
    def release(self) -> Floats:
        """Release of each bag, s: float64[bags]; in a run, releases of applications may follow ends."""
        return np.append(self.applications.release, self.further[:, 2] / NS)

    def add_bags(self, applications: Integers, tasks: Integers, now: int) -> Integers:
        """Add a bag of ``tasks[k]`` tasks of ``applications[k]``, released at `now` ns, for each k.

        Returns int64[k], the numbers of the new bags.
        """
        first = len(self.whose)
        rows = np.stack((applications, tasks, np.full(len(tasks), now)), axis=1)
        self.further = np.concatenate((self.further, rows))
        self._append(rows)
        return np.arange(first, len(self.whose))

    def _append(self, rows: Integers) -> None:
        whose, tasks, now = rows.T.copy()
        release, task_size = now / NS, self.applications.task_size[whose]
        self.whose, self.tasks = np.append(self.whose, whose), np.append(self.tasks, tasks)
        self.size = np.append(self.size, tasks * task_size)
        self.task_size = np.append(self.task_size, task_size)
        for name in ("data", "input_bytes", "output_bytes", "memory", "disk"):
            if (column := getattr(self.applications, name)) is not None:
                setattr(self, name, column[self.whose])
        self.add(release, tasks * task_size, task_size, whose)

    def setstate(self, state: dict[str, Any]) -> None:
        """Restore the bags, before the state of the objects to which `add` adds them.

        Raises
        ------
        ValueError
            If the rows are not valid further bags.
        """
        super().setstate(state)
        rows = self.further
        known = len(self.applications)
        if rows.shape[1:] != (3,) or (rows < (0, 1, 0)).any() or (rows[:, 0] >= known).any():
            raise ValueError(
                f"state['further'] must have rows of an application below {known}, tasks >= 1 and a time "
                f">= 0 ns, got {rows.tolist()}"
            )
        self._append(rows)
