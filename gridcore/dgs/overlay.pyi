from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

__all__ = ["Views"]

def _vector_level(most: int) -> int: ...

@disjoint_base
class Views:
    @property
    def nodes(self) -> int: ...
    @property
    def degree(self) -> int: ...
    @property
    def shuffle(self) -> int: ...
    @property
    def views(self) -> NDArray[np.int32]: ...
    @property
    def ages(self) -> NDArray[np.uint8]: ...
    def __new__(
        cls,
        nodes: SupportsIndex,
        degree: SupportsIndex,
        *,
        shuffle: SupportsIndex = 8,
        seed: SupportsIndex = 0,
    ) -> Views: ...
    def in_degree(self) -> NDArray[np.int64]: ...
    def pick(
        self,
        nodes: ArrayLike,
        first: ArrayLike,
        second: ArrayLike,
        count: int,
        *,
        seed: int = 0,
        away: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def cycle(self, up: NDArray[np.bool_] | None = None) -> tuple[int, int, int]: ...
    def leave(self, nodes: ArrayLike) -> None: ...
    def join(
        self, node: int, introducer: int, *, steps: int = 5, up: NDArray[np.bool_] | None = None
    ) -> None: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
