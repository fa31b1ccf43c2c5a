from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["REFRESHES", "Board"]

REFRESHES: tuple[Literal["continuous", "periodic", "individual"], ...]

@final
class Board:
    def __new__(
        cls,
        up: ArrayLike,
        *,
        age: int,
        refresh: str,
        error: float,
        phase: NDArray[Any],
        seed: int,
        of_applications: bool = False,
    ) -> Board: ...
    @property
    def nodes(self) -> int: ...
    @property
    def of_applications(self) -> bool: ...
    def publish(self, node: int, value: float, falling: bool, now: int) -> None: ...
    def read(self, now: int) -> NDArray[np.float64]: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
