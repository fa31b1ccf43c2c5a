from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.fair_tree.summary_tree import SummaryTree
from gridcore.network.links import Links
from gridcore.queues.task_queues import TaskQueues

__all__ = ["NEVER", "SHARE", "TreeFlow"]

NEVER: int
SHARE: np.dtype[Any]

@disjoint_base
class TreeFlow:
    goal: int
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
        spread_on_change: bool = False,
        cell: int = 0,
        threads: int = 1,
    ) -> TreeFlow: ...
    def advance(self, limit: int) -> int: ...
    def add_submitters(self, nodes: ArrayLike) -> None: ...
    def report(self, nodes: ArrayLike, now: int) -> None: ...
    def take_turns(self, now: int) -> NDArray[np.int64]: ...
    def take_orders(self) -> NDArray[np.int64]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
    def arrived(self) -> NDArray[np.int64]: ...
    def decisions(self) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
