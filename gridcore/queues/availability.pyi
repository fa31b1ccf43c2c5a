import numpy as np
import numpy.typing as npt

from gridcore.queues.summary_grid import SummaryGrid

def gap(
    stretch: float,
    release_new: float,
    size_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> float: ...
def available_tasks(
    stretch: float,
    release_new: float,
    size_new: float,
    task_size_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> int: ...
def sample_availability(
    grid: SummaryGrid,
    release_new: float,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: float,
    free_at: float,
    running_release: float | None = None,
    running_size: float | None = None,
) -> npt.NDArray[np.uint32]: ...
def sample_availability_batch(
    grid: SummaryGrid,
    release_new: float,
    offsets: npt.ArrayLike,
    release: npt.ArrayLike,
    size: npt.ArrayLike,
    work: npt.ArrayLike,
    *,
    speed: npt.ArrayLike,
    free_at: npt.ArrayLike,
    running_release: npt.ArrayLike | None = None,
    running_size: npt.ArrayLike | None = None,
    threads: int = 1,
) -> npt.NDArray[np.uint32]: ...
def _vector_level(most: int) -> int: ...

# What Cython adds to every module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]
