from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.grid import SummaryGrid

__all__ = ["NEVER", "TaskQueues"]

NEVER: int

@disjoint_base
class TaskQueues:
    log: bool
    @property
    def machines(self) -> int: ...
    @property
    def enqueued(self) -> int: ...
    @property
    def tasks_done(self) -> int: ...
    @property
    def order(self) -> str: ...
    @property
    def watch(self) -> str: ...
    def __init__(
        self,
        speed: ArrayLike,
        *,
        order: Literal["edf", "fifo"] = "edf",
        watch: Literal["idle", "completion"] = "idle",
        log: bool = False,
    ) -> None: ...
    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike) -> None: ...
    def totals(self) -> dict[str, NDArray[np.int64]]: ...
    def queue(self, machine: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]: ...
    def is_busy(self, machines: ArrayLike) -> NDArray[np.bool_]: ...
    def enqueue(self, machines: ArrayLike, applications: ArrayLike, tasks: ArrayLike, now: int) -> None: ...
    def reschedule(self, machines: ArrayLike, now: int) -> None: ...
    def fail(
        self, machines: ArrayLike, now: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def advance(
        self, until: int, machines: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def next_change(self) -> int: ...
    def due(self, now: int) -> NDArray[np.int64]: ...
    def minimum_stretch(self, machines: ArrayLike, now: int) -> NDArray[np.float64]: ...
    def summaries(
        self,
        machines: ArrayLike,
        grid: SummaryGrid,
        now: int,
        *,
        cell: int | None = None,
        threads: int = 1,
    ) -> NDArray[np.uint32]: ...
    def available(
        self,
        stretch: float,
        release_new: float,
        size_new: float,
        task_size_new: float,
        now: int,
        machines: ArrayLike | None = None,
    ) -> NDArray[np.int64]: ...
