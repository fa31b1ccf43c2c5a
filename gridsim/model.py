"""What a workload comes to: the applications of a run, and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Columns(NamedTuple):
    """What a recipe makes, of length n, in any order: release (s), tasks, task_size (Mflop), submitter
    (machine); and of rigid jobs requested (s)."""

    release: Floats
    tasks: Integers
    task_size: Floats
    submitter: Integers
    requested: Floats | None = None


@dataclass(frozen=True, slots=True)
class Applications:
    """The workload as a scheduler sees it: columns of length n, in order of release; index = application.

    release_ns int64 (ns); release float64 (s, exactly release_ns / 1e9); tasks int64; task_size float64
    (Mflop); size float64 (Mflop, tasks * task_size); submitter int64 (machine).

    Rigid jobs are applications whose tasks must start together, one on each of as many machines of one speed:
    requested float64 (s), what the user said that a task takes; None for bags of tasks.
    """

    release_ns: Integers
    release: Floats
    tasks: Integers
    task_size: Floats
    size: Floats
    submitter: Integers
    requested: Floats | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def rigid(self) -> bool:
        """Whether they are rigid jobs."""
        return self.requested is not None


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


class Application(NamedTuple):
    """What a node knows of an application that was submitted there, or that it was told of."""

    number: int
    tasks: int
    task_size: float  # Mflop
    size: float  # Mflop
    release: float  # s
