from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.dgs.overlay import Views
from gridcore.dgs.slots import SlotSchedules
from gridcore.network.links import Links

__all__ = [
    "ANSWER",
    "BROKEN",
    "CANCEL",
    "COMMIT",
    "COMMITTING",
    "DONE",
    "FAILED",
    "NEW",
    "PLACED",
    "REPLY",
    "REQUEST",
    "SEARCHING",
    "WAITING",
    "JobFlow",
]

ANSWER: np.dtype[Any]
CANCEL: np.dtype[Any]
COMMIT: np.dtype[Any]
REPLY: np.dtype[Any]
REQUEST: np.dtype[Any]
NEW: int
SEARCHING: int
COMMITTING: int
WAITING: int
PLACED: int
BROKEN: int
DONE: int
FAILED: int

@disjoint_base
class JobFlow:
    @property
    def completed(self) -> int: ...
    @property
    def given_up(self) -> int: ...
    @property
    def over(self) -> bool: ...
    @property
    def ending_now(self) -> int: ...
    def __new__(
        cls,
        schedules: SlotSchedules,
        views: Views,
        links: Links,
        *,
        kinds: list[tuple[int, int]],
        jobs: dict[str, NDArray[Any]],
        nodes: dict[str, NDArray[Any]],
        counts: NDArray[np.int64],
        settings: dict[str, Any],
    ) -> JobFlow: ...
    def bind(
        self, jobs: dict[str, NDArray[Any]], nodes: dict[str, NDArray[Any]], counts: NDArray[np.int64]
    ) -> None: ...
    def search(self, jobs: ArrayLike, now: int) -> None: ...
    def flush(self, now: int) -> None: ...
    def finish(self, now: int) -> None: ...
    def end_waits(self, now: int) -> None: ...
    def fail(self, nodes: ArrayLike) -> None: ...
    def hit(self, job: int, node: int, start: int) -> int: ...
    def missed(self, job: int, now: int) -> None: ...
    def stopped(self) -> list[tuple[int, int, int, int]]: ...
    def machines_of(self, job: int) -> NDArray[np.int64]: ...
    def advance(self, limit: int) -> int: ...
    def told(self) -> tuple[list[int], list[tuple[int, bool]]]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
