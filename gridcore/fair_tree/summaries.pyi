from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from gridcore.queues.summary_grid import SummaryGrid

def aggregate(children: npt.ArrayLike | Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]: ...
def aggregate_into(
    out: npt.NDArray[np.uint32], children: npt.ArrayLike | Sequence[npt.NDArray[np.uint32]]
) -> npt.NDArray[np.uint32]: ...
def lookup(
    summary: npt.ArrayLike,
    grid: SummaryGrid,
    stretch: float,
    size: float,
    task_size: float,
    *,
    release: float,
    cell_release: float,
    speed: float | None = None,
    leaves: int | None = None,
    longest_task: float | None = None,
) -> int: ...
def lowest_stretch(totals: npt.ArrayLike, n_tasks: int) -> int | None: ...
def split(available: npt.ArrayLike, n_tasks: int) -> npt.NDArray[np.int64]: ...
def debit_drop(tasks: npt.ArrayLike, task_size: npt.ArrayLike, cell_task_size: float, leaves: int) -> int: ...
def debit(
    summary: npt.ArrayLike,
    grid: SummaryGrid,
    *,
    tasks: npt.ArrayLike,
    task_size: npt.ArrayLike,
    size: npt.ArrayLike,
    stretch: npt.ArrayLike,
    leaves: int,
    age: npt.ArrayLike | None = None,
    rule: Literal["subtree", "printed"] = "subtree",
) -> npt.NDArray[np.uint32]: ...
def _vector_level(most: int) -> int: ...

# What Cython adds to every module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]
