"""Hypothesis strategies for queues, summary grids and summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from gridcore.grid import SummaryGrid

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class QueueCase:
    """One node's queue: whole tasks of each application, and perhaps a pinned running task."""

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
        """Mflop left of each application."""
        return self.task_size * self.tasks

    @property
    def entries(self) -> tuple[Floats, Floats, Floats]:
        """(release, size, work), the positional arguments of the kernels."""
        return self.release, self.size, self.work

    @property
    def running(self) -> dict[str, float | None]:
        """The keyword arguments of the running task."""
        return {"running_release": self.running_release, "running_size": self.running_size}


def quarters(low: float, high: float) -> st.SearchStrategy[float]:
    """Multiples of 1/4, exact in float64 and in its sums, which makes ties likely."""
    return st.integers(round(low * 4), round(high * 4)).map(lambda k: k / 4.0)


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
    """A queue with applications released around 0.

    ``exact`` draws multiples of 1/4, else any float in the same range. ``running`` asks for a pinned
    running task or for none (None: either).
    """
    count = draw(st.integers(min_entries, max_entries))

    def column(low: float, high: float) -> Floats:
        values = draw(st.lists(_numbers(low, high, exact), min_size=count, max_size=count))
        return np.array(values, dtype=np.float64)

    speeds = (0.5, 1.0, 1.5, 2.0, 3.0)
    release, size, task_size = column(-8.0, 0.0), column(0.25, 12.0), column(0.25, 4.0)
    tasks = draw(st.lists(st.integers(1, max_tasks), min_size=count, max_size=count))
    start = draw(_numbers(0.0, 4.0, exact)) if free_at is None else free_at
    pinned = draw(st.booleans()) if running is None else running
    return QueueCase(
        release,
        size,
        task_size,
        np.array(tasks, dtype=np.int64),
        draw(st.sampled_from(speeds)),
        start,
        draw(_numbers(-8.0, 0.0, exact)) if pinned else None,
        draw(_numbers(0.5, 12.0, exact)) if pinned else None,
    )


@st.composite
def batches(draw: st.DrawFn, /, *, max_nodes: int = 5, **options: Any) -> dict[str, Any]:
    """The arguments of the batch kernels: many queues, flat, with offsets; NaN for no running task."""
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
    """A small summary grid whose samples lie where `queues` puts its stretches and sizes."""

    def axis(low: float, high: float) -> list[float]:
        values = st.lists(_numbers(low, high, exact), min_size=1, max_size=max_samples, unique=True)
        return sorted(draw(values))

    return SummaryGrid(axis(0.25, 12.0), axis(0.25, 16.0), axis(0.25, 6.0))


@st.composite
def summaries(draw: st.DrawFn, grid: SummaryGrid, *, max_count: int = 2**32 - 1) -> npt.NDArray[np.uint32]:
    """Any summary on a grid that obeys the laws: non-decreasing in S and w, non-increasing in a."""
    counts = st.lists(st.integers(0, max_count), min_size=grid.cells, max_size=grid.cells)
    cells = np.array(draw(counts), dtype=np.uint32).reshape(grid.shape)
    cells = np.maximum.accumulate(cells, axis=0)
    cells = np.maximum.accumulate(cells, axis=1)
    return np.ascontiguousarray(np.maximum.accumulate(cells[:, :, ::-1], axis=2)[:, :, ::-1])
