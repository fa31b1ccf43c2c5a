from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.grid import SummaryGrid

__all__ = ["DECISION", "NEVER", "REQUEST", "SPREAD", "SUMMARY", "SummaryTree"]

NEVER: int
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
    def __init__(
        self,
        grid: SummaryGrid,
        speed: ArrayLike,
        *,
        size: ArrayLike,
        task_size: ArrayLike,
        release: ArrayLike | None = None,
        nbytes: int,
        rate: float = 0.0,
        hold_off: int = 0,
        bound: float = 2.0,
    ) -> None: ...
    def route(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def acknowledge(self, rows: NDArray[Any]) -> None: ...
    def receive(self, rows: NDArray[Any]) -> None: ...
    def ready(
        self, nodes: ArrayLike, now: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def report(
        self,
        nodes: ArrayLike,
        now: int,
        summaries: NDArray[np.uint32],
        minimum: ArrayLike,
        *,
        cell: float = 0.0,
    ) -> NDArray[Any]: ...
    def take_spread(self, rows: NDArray[Any]) -> None: ...
    def spread(self, nodes: ArrayLike, always: bool = False) -> NDArray[Any]: ...
    def known(self, node: int) -> NDArray[np.uint32]: ...
    def owed(self, node: int) -> int: ...
