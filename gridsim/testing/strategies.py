"""Hypothesis strategies for queues, summary grids and summaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from gridcore.queues.summary_grid import SummaryGrid
from gridsim.support.arrays import Floats


@dataclass(frozen=True)
class QueueCase:
    """Queue of one leaf: waiting tasks of each application, and possibly a running task.

    Application i of the queue was released at r_i and has size w_i; at a stretch S it is due at
    r_i + S w_i.  The leaf serves the queue by earliest deadline from `free_at` on.

    Attributes
    ----------
    release
        float64[n], s; release of each application.
    size
        float64[n], Mflop > 0; size of each application, over all machines.
    task_size
        float64[n], Mflop > 0, of one task.
    tasks
        int64[n], at least 1; number of tasks of the application that wait here.
    speed
        Mflop/s.
    free_at
        s; time from which the processor can serve the queue: the end of the running task, or now.
    running_release, running_size
        s and Mflop; release and size of the application of the running task; None if no task runs.
    """

    release: Floats
    size: Floats
    task_size: Floats
    tasks: npt.NDArray[np.int64]
    speed: float
    free_at: float
    running_release: float | None = None
    running_size: float | None = None

    @property
    def work(self) -> Floats:
        """The remaining work of each application: float64[n], Mflop."""
        return self.task_size * self.tasks

    @property
    def entries(self) -> tuple[Floats, Floats, Floats]:
        """The positional arguments of the kernels: (release, size, work)."""
        return self.release, self.size, self.work

    @property
    def running(self) -> dict[str, float | None]:
        """The keyword arguments of the kernels for the running task."""
        return {"running_release": self.running_release, "running_size": self.running_size}

    @property
    def machine(self) -> dict[str, float | None]:
        """The keyword arguments of `gridcore.gap` and `gridcore.available_tasks`, without the entries."""
        return {"speed": self.speed, "free_at": self.free_at, **self.running}


def quarters(low: float, high: float) -> st.SearchStrategy[float]:
    """Draw multiples of 1/4, for arithmetic without rounding.

    Sums and products of a few of them are exact in float64, so properties can be asserted without a
    tolerance, and ties are likely.  Half of the draws are whole numbers, to which examples shrink.

    Parameters
    ----------
    low, high
        Minimum and maximum value, multiples of 1/4 with low <= high.

    Returns
    -------
    A strategy of floats.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(quarters(0.25, 8), lambda size: size > 1.5)
    2.0
    """
    numbers = st.integers(round(low * 4), round(high * 4)).map(lambda k: k / 4.0)
    if math.ceil(low) > math.floor(high):
        return numbers
    return st.integers(math.ceil(low), math.floor(high)).map(float) | numbers


def _numbers(low: float, high: float, exact: bool) -> st.SearchStrategy[float]:
    if exact:
        return quarters(low, high)
    return st.floats(low, high, allow_nan=False, allow_infinity=False, allow_subnormal=False)


@st.composite
def queues(
    draw: st.DrawFn,
    *,
    min_entries: int = 0,
    max_entries: int = 5,
    exact: bool = True,
    running: bool | None = None,
    free_at: float | None = None,
    max_tasks: int = 4,
) -> QueueCase:
    """Draw queues of one leaf at time 0: problem instances of scheduling by earliest deadline.

    Releases are -8..0 s, sizes 0.25..12 Mflop, tasks 0.25..4 Mflop, speeds 0.5..3 Mflop/s.

    Parameters
    ----------
    min_entries, max_entries
        Minimum and maximum number of applications in the queue.
    exact
        Whether to draw multiples of 1/4 (with `quarters`) or any floats in the same ranges.
    running
        Whether there is a running task, which ends at `free_at`; None to draw this.
    free_at
        s; time from which the processor is free; None to draw it from 0..4 s.
    max_tasks
        Maximum number of tasks of one application.

    Returns
    -------
    A strategy of `QueueCase`.  It shrinks towards few applications, released at 0, on a machine of
    1 Mflop/s.

    Examples
    --------
    >>> from hypothesis import find
    >>> case = find(queues(min_entries=1, max_entries=1), lambda case: case.work.sum() > 5.0)
    >>> case.speed, case.release.tolist()
    (1.0, [0.0])
    """
    count = draw(st.integers(min_entries, max_entries))

    def column(low: float, high: float) -> Floats:
        values = draw(st.lists(_numbers(low, high, exact), min_size=count, max_size=count))
        return np.array(values, dtype=np.float64)

    speeds = (1.0, 0.5, 1.5, 2.0, 3.0)
    release, size, task_size = column(-8.0, 0.0), column(0.25, 12.0), column(0.25, 4.0)
    tasks = draw(st.lists(st.integers(1, max_tasks), min_size=count, max_size=count))
    start = draw(_numbers(0.0, 4.0, exact)) if free_at is None else free_at
    has_running_task = draw(st.booleans()) if running is None else running
    return QueueCase(
        release,
        size,
        task_size,
        np.array(tasks, dtype=np.int64),
        draw(st.sampled_from(speeds)),
        start,
        draw(_numbers(-8.0, 0.0, exact)) if has_running_task else None,
        draw(_numbers(0.5, 12.0, exact)) if has_running_task else None,
    )


@st.composite
def batches(draw: st.DrawFn, /, *, max_nodes: int = 5, **options: Any) -> dict[str, Any]:
    """Draw arguments of the batch kernels: up to `max_nodes` queues as flat arrays with offsets.

    NaN means that no task runs.

    Parameters
    ----------
    max_nodes
        Maximum number of queues.
    **options
        Passed to `queues`.
    """
    cases = draw(st.lists(queues(**options), max_size=max_nodes))

    def flat(name: str) -> Floats:
        return np.concatenate([np.zeros(0), *(getattr(case, name) for case in cases)])

    def per_node(name: str) -> Floats:
        values = [getattr(case, name) for case in cases]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    return {
        "offsets": np.cumsum([0, *(len(case.release) for case in cases)], dtype=np.int64),
        **{name: flat(name) for name in ("release", "size", "work", "task_size")},
        **{name: per_node(name) for name in ("speed", "free_at", "running_release", "running_size")},
    }


@st.composite
def grids(draw: st.DrawFn, *, max_samples: int = 4, exact: bool = True) -> SummaryGrid:
    """Draw small summary grids whose samples lie in the ranges of the queues that `queues` draws.

    Parameters
    ----------
    max_samples
        Maximum number of samples of an axis.
    exact
        Whether to draw multiples of 1/4 or any floats in the same ranges.
    """

    def axis(low: float, high: float) -> list[float]:
        values = st.lists(_numbers(low, high, exact), min_size=1, max_size=max_samples, unique=True)
        return sorted(draw(values))

    return SummaryGrid(axis(0.25, 12.0), axis(0.25, 16.0), axis(0.25, 6.0))


@st.composite
def summaries(draw: st.DrawFn, grid: SummaryGrid, *, max_count: int = 2**32 - 1) -> npt.NDArray[np.uint32]:
    """Draw summaries on `grid` that keep the invariants: non-decreasing in S and w, non-increasing in a.

    Parameters
    ----------
    max_count
        Maximum entry.
    """
    counts = st.lists(st.integers(0, max_count), min_size=grid.cells, max_size=grid.cells)
    cells = np.array(draw(counts), dtype=np.uint32).reshape(grid.shape)
    cells = np.maximum.accumulate(cells, axis=0)
    cells = np.maximum.accumulate(cells, axis=1)
    return np.ascontiguousarray(np.maximum.accumulate(cells[:, :, ::-1], axis=2)[:, :, ::-1])
