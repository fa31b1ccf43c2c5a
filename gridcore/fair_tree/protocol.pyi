from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.fair_tree.summary_tree import SummaryTree
from gridcore.network.links import Links
from gridcore.queues.task_queues import TaskQueues

__all__ = ["SHARE", "TreeFlow"]

SHARE: np.dtype[Any]

@disjoint_base
class TreeFlow:
    @property
    def placed_at(self) -> int: ...
    def __new__(
        cls,
        tree: SummaryTree,
        queues: TaskQueues,
        links: Links,
        *,
        summary: tuple[int, int],
        spread: tuple[int, int],
        request: tuple[int, int],
        accept: tuple[int, int],
        idle_minimum: ArrayLike,
        submitter: ArrayLike,
        goal: int,
        run_on: bool = False,
        spread_on_change: bool = False,
        cell: int = 0,
        log: tuple[NDArray[np.bool_], Callable[[int], float]] | None = None,
        observe: Callable[[int, int, NDArray[np.uint8]], None] | None = None,
        threads: int = 1,
    ) -> TreeFlow: ...
    def advance(self, limit: int) -> int: ...
    def add_submitters(self, nodes: ArrayLike) -> None: ...
    def touch(self, nodes: ArrayLike, now: int) -> None: ...
    def act(self, now: int) -> None: ...
    def noted(self, most: int, now: int) -> tuple[NDArray[Any], int]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
    def arrived(self) -> NDArray[np.int64]: ...
    def decisions(self) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
