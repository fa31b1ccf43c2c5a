from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

__all__ = ["SlotSchedules"]

@disjoint_base
class SlotSchedules:
    @property
    def nodes(self) -> int: ...
    @property
    def stale(self) -> bool: ...
    def __new__(cls, nodes: SupportsIndex, *, stale: bool = False) -> SlotSchedules: ...
    def reserve(
        self, nodes: ArrayLike, starts: ArrayLike, slots: ArrayLike, jobs: ArrayLike, now: int
    ) -> NDArray[np.bool_]: ...
    def release(
        self,
        nodes: ArrayLike,
        starts: ArrayLike,
        now: int,
        *,
        ends: ArrayLike | None = None,
        jobs: ArrayLike | None = None,
    ) -> NDArray[np.bool_]: ...
    def lose(
        self, nodes: ArrayLike, slot: int, now: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def forget(self, slot: int, before: int) -> None: ...
    def reservations(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def is_free(
        self, nodes: ArrayLike, start: int, slots: int, as_of: ArrayLike | None = None
    ) -> NDArray[np.bool_]: ...
    def earliest_start(
        self,
        candidates: ArrayLike,
        n_nodes: int,
        slots: int,
        not_before: int,
        as_of: ArrayLike | None = None,
    ) -> tuple[int, NDArray[np.int64]] | None: ...
    def search(
        self,
        views: NDArray[np.int32],
        searchers: ArrayLike,
        n_nodes: ArrayLike,
        slots: ArrayLike,
        not_before: ArrayLike,
        *,
        exclude: ArrayLike = -1,
        itself: bool = False,
        hops: int = 2,
        wide: bool = False,
        away: NDArray[np.bool_] | None = None,
        as_of: ArrayLike | None = None,
        every: int = 0,
        until: int = 0,
    ) -> tuple[
        NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]
    ]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
