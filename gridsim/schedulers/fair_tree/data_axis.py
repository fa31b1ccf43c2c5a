"""The axis of bytes per Mflop of a summary: tasks whose data a leaf can transfer and compute by a deadline.

A task of a Mflop that fetches and sends b bytes per Mflop takes p = a / s to be computed on a machine of
speed s, and at most f = a b / c for each direction of a link of bandwidth c.  n such tasks alone take at most
f + p + f + (n - 1) max(f, p); the queued shares of the machine count with the same bound
(`gridcore.queues.data_queues`).  With x = b s / c, the stages take p and x p.  Let h be the paper's available
work (Mflop), in which a queued share counts as s times the time that it takes alone.  Then

    n(S, w, a, b) = floor(h(S, w) / (a max(1, x)) - k(x)),   k(x) = (1 + m x) / max(1, x) - 1,

where the workload uses m of the two directions.

Lemmas.  h does not fall as S or w grows (the paper, with the work of a share as any constant), so neither
does n. Nor does n grow with a or b: a max(1, x) and a k(x) max(1, x) = a (1 + m x - max(1, x)) grow with
both.  So a request may be looked up at the next smaller S and w and the next larger a and b, which yields a
lower bound.  Sums over leaves have the same properties.

Suppose that N tasks of a' Mflop and b' bytes per Mflop have been dispatched to a leaf.  They take at most the
time of N + m such tasks one after another, each of which takes as long as r a' / a tasks of the slice b, with

    r = max(1, b' s / c) / max(1, b s / c),

which increases with s / c if b' > b and otherwise decreases.  So the slice b is debited like a summary
without data for N + m min(N, leaves) tasks of r a' Mflop, where r has the largest s / c of the platform if b'
> b, and otherwise the smallest.  This is a bound until the machine takes the first of these tasks.  From then
on, the rest of the share counts as if it had to fill the stages again.  So for a while a leaf may report up
to a k(x) max(1, x) Mflop too little, or a missed stretch of that share that it will in fact meet.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summaries import debit
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.model.applications import Application, Applications
from gridsim.scheduling.contract import Run
from gridsim.scheduling.overlays import subtree_sums
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from gridsim.scheduling.nodes.program import View

#: Fractions of a task in which debts are subtracted; a power of two, so that nothing is rounded.
_PARTS = 1024


class DataAxis:
    """The samples of bytes per Mflop, and the computations of nodes with them.

    Parameters
    ----------
    grid
        The samples of stretch, size and task size.
    samples
        Samples in ascending order, bytes/Mflop.

    Attributes
    ----------
    ways
        Number of the two directions of links that the workload uses.
    rates
        For each sample, the throughput of each machine, float64[machines], Mflop/s.
    speeds
        For each sample and each node, the total throughput of the leaves below it, Mflop/s.
    """

    def __init__(self, grid: SummaryGrid, samples: tuple[float, ...], run: Run) -> None:
        assert run.bandwidth is not None
        moved = run.applications.moved()
        self.grid, self.samples, self.bandwidth = grid, samples, run.bandwidth
        self.ways = sum(bool(column.any()) for column in moved)
        self.shape = (len(samples), *grid.shape)
        ratio = run.speeds / run.bandwidth
        self.extremes = float(ratio.min()), float(ratio.max())
        self.rates = [throughput(run.speeds, run.bandwidth, each) for each in samples]
        self.speeds = [subtree_sums(each) for each in self.rates]
        self._grids: dict[tuple[float, float], list[tuple[SummaryGrid, int]]] = {}

    def slice_of(self, application: Application) -> int | None:
        """Return the index of the smallest sample >= the application's bytes per Mflop, or None."""
        index = int(np.searchsorted(self.samples, application.bytes_per_mflop * (1.0 - 1e-12)))
        return index if index < len(self.samples) else None

    def sample(self, view: View, release: int) -> NDArray[np.uint32]:
        """Return the numbers of tasks that a leaf can take, uint32[samples, stretch, size, task size]."""
        speed, bandwidth = view.speed, float(self.bandwidth[view.machine])
        if (grids := self._grids.get((speed, bandwidth))) is None:
            grids = self._grids[speed, bandwidth] = [
                self._grid(each * speed / bandwidth) for each in self.samples
            ]
        cells = np.empty(self.shape, np.uint32)
        for k, (grid, alone) in enumerate(grids):
            task_counts = view.sample(grid, release)
            cells[k] = (
                task_counts if alone < 0 else np.maximum(task_counts, np.uint32(alone)) - np.uint32(alone)
            )
            if alone >= 0:
                cells[k] //= _PARTS
        return cells

    def _grid(self, x: float) -> tuple[SummaryGrid, int]:
        """Return the sampling grid of a slice, and the fractions of a task to subtract (-1 for none)."""
        grid, stages = self.grid, 1.0 + self.ways * x
        if x == 0.0:
            return grid, -1
        longest = max(1.0, x)
        alone = math.ceil(_PARTS * (stages / longest - 1.0) * (1.0 + 1e-12))
        return SummaryGrid(grid.stretch, grid.size, grid.task_size * (longest / _PARTS)), alone

    def debit(
        self, cells: NDArray[np.uint32], leaves: int, bytes_per_mflop: tuple[float, ...], **dispatches: Any
    ) -> NDArray[np.uint32]:
        """Return the summary of a child minus the tasks dispatched to it since.

        Parameters
        ----------
        bytes_per_mflop
            Data of each dispatch, bytes/Mflop.
        **dispatches
            Further arguments of `gridcore.debit`.
        """
        tasks, task_size = (np.asarray(dispatches.pop(name)) for name in ("tasks", "task_size"))
        data = np.asarray(bytes_per_mflop)
        task_counts = tasks + self.ways * np.minimum(tasks, leaves) * (data > 0.0)
        least, most = self.extremes
        result = np.empty_like(cells)
        for k, sample in enumerate(self.samples):
            x = np.where(data > sample, most, least)
            ratio = np.maximum(1.0, data * x) / np.maximum(1.0, sample * x)
            rule: dict[str, Any] = {"tasks": task_counts, "task_size": task_size * ratio, "leaves": leaves}
            result[k] = debit(np.ascontiguousarray(cells[k]), self.grid, **rule, **dispatches)
        return result


def data_samples(applications: Applications, limit: int) -> tuple[float, ...]:
    """Return at most `limit` samples of bytes per Mflop: the values of applications, or their quantiles."""
    distinct = np.unique(applications.bytes_per_mflop)
    if len(distinct) > limit:
        # each sample serves the values up to it, so it is the maximum of one of `limit` equal parts
        order = np.sort(applications.bytes_per_mflop)
        distinct = np.unique(order[[len(order) * (k + 1) // limit - 1 for k in range(limit)]])
    return tuple(distinct.tolist())


def throughput(speeds: Floats, bandwidth: Floats, data: float) -> Floats:
    """Return the long-run throughput of each machine, Mflop/s, for tasks with `data` bytes/Mflop."""
    return np.minimum(speeds, bandwidth / data) if data > 0.0 else speeds
