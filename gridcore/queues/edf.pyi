from typing import Literal

import numpy as np
import numpy.typing as npt

def meets_deadlines(work: npt.ArrayLike, deadlines: npt.ArrayLike, *, speed: float, now: float) -> bool: ...
def optimal_stretch(
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    now: float,
    running_release: float | None = None,
    running_size: float | None = None,
    method: Literal["exact", "bisection"] = "exact",
    rtol: float = 1e-9,
) -> float: ...
def project_queues(
    offsets: npt.ArrayLike,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    task_size: npt.ArrayLike,
    *,
    speed: npt.ArrayLike,
    free_at: npt.ArrayLike,
    until: float,
    preemptive: bool = False,
    running_release: npt.ArrayLike | None = None,
    running_size: npt.ArrayLike | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...

# What Cython adds to every module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]
