import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.links import Links
from gridcore.queues import TaskQueues
from gridcore.tree import SummaryTree

__all__ = ["NEVER", "SummaryFlow"]

NEVER: int

@disjoint_base
class SummaryFlow:
    def __init__(
        self,
        tree: SummaryTree,
        queues: TaskQueues,
        links: Links,
        kind: int,
        nbytes: int,
        idle_minimum: ArrayLike,
        *,
        cell: int = 0,
    ) -> None: ...
    def advance(self, limit: int) -> int: ...
    def take_turns(self, now: int) -> NDArray[np.int64]: ...
    def wait(self, nodes: NDArray[np.int64], until: NDArray[np.int64]) -> None: ...
    def arrived(self) -> NDArray[np.int64]: ...
