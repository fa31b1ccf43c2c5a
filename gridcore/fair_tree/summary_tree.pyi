from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["DECISION", "REQUEST", "SPREAD", "SUMMARY", "SummaryTree"]

REQUEST: np.dtype[np.void]
SUMMARY: np.dtype[np.void]
SPREAD: np.dtype[np.void]
DECISION: np.dtype[np.void]

@disjoint_base
class SummaryTree:
    @property
    def leaves(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def first_leaf(self) -> int: ...
    @property
    def grid(self) -> SummaryGrid: ...
    @property
    def below_window(self) -> int: ...
    @property
    def above_window(self) -> int: ...
    @property
    def payloads_in_use(self) -> int: ...
    def __new__(
        cls,
        grid: SummaryGrid,
        speed: ArrayLike,
        *,
        release: ArrayLike,
        size: ArrayLike,
        task_size: ArrayLike,
        nbytes: int,
        rate: float = 0.0,
        hold_off: int = 0,
        bound: float = 2.0,
        celled: bool = False,
    ) -> SummaryTree: ...
    def add_applications(self, release: ArrayLike, size: ArrayLike, task_size: ArrayLike) -> None: ...
    def reset(self, nodes: ArrayLike) -> None: ...
    def silence(self, nodes: ArrayLike) -> None: ...
    def leave(self, nodes: ArrayLike) -> None: ...
    def spread(self) -> NDArray[Any]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
