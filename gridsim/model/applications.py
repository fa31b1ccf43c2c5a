"""What a workload comes to: the applications of a run, and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arrays import Floats, Integers
from gridsim.support.parameters import Limits, Recipe
from gridsim.support.state import kept_in_checkpoints

#: Bytes of a task's instructions and data, at most: they go as one message.
MOST_DATA = 2**31 - 1

#: A field that names a machine.
Machine = Annotated[int, Limits(low=0)]


class Columns(NamedTuple):
    """What a recipe makes, of length n, in any order: release (s), tasks, task_size (Mflop), submitter
    (machine); and of rigid jobs requested (s).

    Where tasks of an application may differ, sizes (Mflop) are those of every task, application after
    application, and stand in place of task_size.

    data (bytes) of each of its tasks; rates (jobs/s) of each machine, not of length n.
    """

    release: Floats
    tasks: Integers
    task_size: Floats
    submitter: Integers
    requested: Floats | None = None
    sizes: Floats | None = None
    data: Integers | None = None
    rates: Floats | None = None


def check_columns(recipe: Recipe, what: str) -> None:
    """That all columns of a recipe have an entry for each application or job, of which there are some."""
    count = len(recipe.release)  # type: ignore[attr-defined]
    if not count:
        raise ScenarioError(f"workload.release must name at least one {what}, got none")
    for name in recipe.__struct_fields__:
        if (column := getattr(recipe, name)) is not None and len(column) != count:
            raise ScenarioError(
                f"workload.{name} must have {count} entries as workload.release has, got {len(column)}"
            )


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns of length n, in order of release; index = application.

    release_ns int64 (ns); release float64 (s, exactly release_ns / 1e9); tasks int64; task_size float64
    (Mflop); size float64 (Mflop, tasks * task_size); submitter int64 (machine).

    Where tasks of one application differ in size, task_sizes float64 (Mflop) are those of all tasks: of
    application i from offsets[i] to offsets[i + 1].  Then task_size is their mean and size their sum, rounded
    once.  None where all tasks of each application are equal.

    Rigid jobs are applications whose tasks must start together, one on each of as many machines of one speed:
    requested float64 (s), what the user said that a task takes; None for bags of tasks.

    data int64 (bytes): the instructions and data that a task of each application takes along when it goes
    from its submitter to another machine, and its result when that comes back; None if they have none. rates
    float64 of each machine (applications/s): how many are submitted there on average, where the workload says
    so, else None.
    """

    release_ns: Integers
    release: Floats
    tasks: Integers
    task_size: Floats
    size: Floats
    submitter: Integers
    requested: Floats | None = None
    task_sizes: Floats | None = None
    data: Integers | None = None
    rates: Floats | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def rigid(self) -> bool:
        """Whether they are rigid jobs."""
        return self.requested is not None

    @property
    def unequal(self) -> bool:
        """Whether tasks of one application differ in size."""
        return self.task_sizes is not None

    @property
    def offsets(self) -> Integers:
        """int64[n + 1]: where the tasks of each application begin among those of all."""
        return np.concatenate(([0], np.cumsum(self.tasks)))

    def sizes(self) -> Floats:
        """float64 (Mflop) of every task, application after application, whether they differ or not."""
        return np.repeat(self.task_size, self.tasks) if self.task_sizes is None else self.task_sizes

    def extremes(self) -> tuple[Floats, Floats]:
        """float64[n] each, Mflop: the smallest and the largest task of each application."""
        if self.task_sizes is None:
            return self.task_size, self.task_size
        begins = self.offsets[:-1]
        return np.minimum.reduceat(self.task_sizes, begins), np.maximum.reduceat(self.task_sizes, begins)


def durations(applications: Applications, speed: float) -> Integers:
    """int64 ns that a task of each application takes on a machine of `speed` Mflop/s, at least 1."""
    return np.maximum(1, np.rint(applications.task_size / speed * 1e9)).astype(np.int64)


def reserved(
    applications: Applications, speed: float, duration: Literal["run", "requested"]
) -> tuple[Integers, Integers]:
    """int64 ns: how long rigid jobs run on machines of `speed` Mflop/s, and how long they are taken to run.

    duration : ``"run"``: that is known; ``"requested"``: as requested, or longer if they run longer.
    """
    assert applications.requested is not None
    lasts = durations(applications, speed)
    if duration == "run":
        return lasts, lasts
    return lasts, np.maximum(lasts, np.rint(applications.requested * 1e9).astype(np.int64))


@kept_in_checkpoints
class Application(NamedTuple):
    """What a node knows of an application that was submitted there, or that it was told of."""

    number: int
    tasks: int
    task_size: float  # Mflop
    size: float  # Mflop
    release: float  # s
