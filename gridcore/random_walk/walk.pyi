from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.network.links import Links

__all__ = ["RECORD", "JobWalks"]

RECORD: np.dtype[Any]

@disjoint_base
class JobWalks:
    @property
    def nodes(self) -> int: ...
    @property
    def count(self) -> int: ...
    def __new__(
        cls,
        links: Links,
        speed: ArrayLike,
        *,
        kinds: ArrayLike,
        release: ArrayLike,
        node: ArrayLike,
        work: ArrayLike,
        data: ArrayLike,
        rate: ArrayLike,
        probes: SupportsIndex,
        pick: str = "first",
        rule: str = "exactly-one",
        local_threshold: float = 0.5,
        remote_threshold: float = 1.0,
        min_speed: float = 0.0,
        printed: bool = False,
        probe_time: SupportsIndex = 0,
        queued: bool = True,
        packet: SupportsIndex = 100,
        seed: SupportsIndex = 0,
        neighbours: NDArray[np.int32] | None = None,
        log: SupportsIndex = 0,
    ) -> JobWalks: ...
    def advance(self, limit: SupportsIndex) -> int: ...
    def settle(self) -> None: ...
    def jobs(self) -> dict[str, NDArray[Any]]: ...
    def looks(self) -> dict[str, NDArray[np.int64]]: ...
    @property
    def unlogged(self) -> int: ...
    def totals(self) -> dict[str, NDArray[np.int64]]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: dict[str, Any]) -> None: ...
