from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.queues.machine_queues import MachineQueues
from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["TaskQueues"]

@disjoint_base
class TaskQueues(MachineQueues):
    @property
    def order(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    def __new__(
        cls,
        speed: ArrayLike,
        *,
        order: Literal["edf", "fifo"] = "edf",
        watch: Literal["idle", "completion"] = "idle",
        log: bool = False,
        record: bool = False,
        tolerance: float = 0.0,
    ) -> TaskQueues: ...
    def reschedule(self, machines: ArrayLike, now: int) -> None: ...
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
