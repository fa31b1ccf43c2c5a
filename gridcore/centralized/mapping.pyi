from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["map_batch", "map_in_turn"]

def map_in_turn(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: NDArray[np.float64],
    rule: Literal["mct", "met", "olb", "switching", "kpb"],
    *,
    percent: float = 20.0,
    low: float = 0.6,
    high: float = 0.9,
    on_met: bool = False,
) -> tuple[NDArray[np.int64], bool]: ...
def map_batch(
    etc: ArrayLike,
    counts: ArrayLike,
    ready: NDArray[np.float64],
    rule: Literal["min-min", "max-min", "sufferage"],
    *,
    kind: ArrayLike | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
