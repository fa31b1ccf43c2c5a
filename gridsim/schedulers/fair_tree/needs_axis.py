"""The axis of memory and disk of a summary: the availability of leaves with at least a sample of both.

A sample of the axis is a pair: memory and disk, bytes.  In its slice of a summary, a leaf with at least that
memory and disk counts its tasks, and any other leaf counts none.  An application is looked up at a sample
that has at least the memory and the disk that its tasks need.

Tasks on the cores of a leaf share its memory.  A task with m bytes on a leaf of c cores and M bytes counts as
v(m) = max(1, c m / M) tasks (`gridcore.queues.core_queues`), so in each slice a leaf counts tasks that take
the memory of its sample.

Lemmas.  A leaf's n(S, w, a) does not decrease as S or w grows, and does not increase with a; the same holds
for 0.  As the memory or disk of a sample grows, leaves leave its slice and none enters it; as the memory or
disk of a machine grows, its leaf enters slices and leaves none.  So the count of a slice does not increase
with the memory and disk needed, and does not decrease as machines have more.  The count at a sample that has
at least what an application needs covers only leaves that suit the application, so it is a lower bound.  Sums
over leaves have the same properties.

A parent does not know to which leaves below a child its dispatched tasks go.  In the worst case all of them
go to leaves of one slice, so each slice is debited as if they did, in at most as many shares as the slice has
leaves.  Each debited slice is then a lower bound, whatever the dispatched tasks need.  The bound is loosest
if few leaves have much memory and a large bag went to all leaves: until the next summary arrives, the slice
of these few leaves is debited for the whole bag.  A dispatched task with m bytes takes of a leaf what
v(m) / v(s) tasks with the s bytes of a slice do; the debit uses the largest such ratio of all leaves that
both suit.  These are fractions, whose rounding may cost a task per leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import Application, Applications
from gridsim.scheduling.contract import Run
from gridsim.scheduling.overlays import subtree_sums
from gridsim.support.arrays import Floats

#: Memory and disk, bytes.
Need = tuple[float, float]


class NeedsAxis:
    """The samples of memory and disk, and the computations of nodes with them.

    Parameters
    ----------
    samples
        Pairs of memory and disk, bytes.
    rates
        For each sample of bytes per Mflop, the throughput of each machine for such tasks, float64[machines],
        Mflop/s; the speeds if summaries have no such axis.

    Attributes
    ----------
    suits
        Whether each machine has as much as each sample, bool[samples, machines].
    leaves, speed
        For each sample and each node, the number of leaves below it that have as much, and their speed.
    speeds
        For each sample, each of the `rates` and each node, the total throughput of these leaves, Mflop/s.

    Raises
    ------
    ScenarioError
        If no machine has as much as a sample that serves an application.
    """

    def __init__(self, samples: tuple[Need, ...], rates: list[Floats], run: Run) -> None:
        assert run.attributes is not None
        self.samples = samples
        self.suits = np.stack(
            [run.attributes.suitable_machines(memory, disk=disk) for memory, disk in samples]
        )
        self._capacity = run.attributes.memory if run.cores is not None else None
        self._cores = run.cores
        #: For each sample, the number of tasks as which a task that takes its memory counts on each machine.
        self._widths = [self._width(memory) for memory, _ in samples]
        self._ratios: dict[float, list[float]] = {}
        self.leaves = [subtree_sums(mask) for mask in self.suits]
        self.speed = [subtree_sums(run.speeds * mask) for mask in self.suits]
        self.speeds = [[subtree_sums(rate * mask) for rate in rates] for mask in self.suits]
        self._slices: dict[Need, int] = {}
        wants = run.applications.wants
        for i, (memory, _, disk) in enumerate(wants.rows()):
            if self._slice((memory, disk)) is None:
                sample_texts = ", ".join(f"({memory:g}, {disk:g})" for memory, disk in samples)
                raise ScenarioError(
                    "fair-tree.need_samples must have for each application a sample of memory and disk, "
                    "bytes, of at least what its tasks need and at most what a machine has; got "
                    f"{sample_texts} and application {i}, which needs {wants.describe(i)}"
                )

    def slice_of(self, application: Application) -> int:
        """Return the index of the sample for an application: the sample with the most speed that suffices."""
        need = application.memory, application.disk
        if (index := self._slices.get(need)) is None:
            index = self._slice(need)
            assert index is not None
            self._slices[need] = index
        return index

    def _slice(self, need: Need) -> int | None:
        sufficient = [
            k for k, (memory, disk) in enumerate(self.samples) if memory >= need[0] and disk >= need[1]
        ]
        best = max(sufficient, key=lambda k: (self.speed[k][0], -self._widths[k].sum()), default=None)
        return best if best is not None and self.leaves[best][0] else None

    def _width(self, memory: float) -> Floats:
        """Return as how many tasks a task with `memory` bytes counts on each machine, float64[machines]."""
        if self._capacity is None or self._cores is None or memory == 0.0:
            return np.ones(self.suits.shape[1])
        width: Floats = np.maximum(1.0, self._cores * (memory / np.maximum(self._capacity, 1.0)))
        return width

    def sample(self, machine: int, cells_for: Callable[[int], NDArray[np.uint32]]) -> NDArray[np.uint32]:
        """Return the slices that a leaf reports.

        Parameters
        ----------
        cells_for
            Function that returns how many tasks with so many bytes each the leaf can take.
        """
        memory = [
            math.floor(sample) if width[machine] > 1.0 else 0
            for (sample, _), width in zip(self.samples, self._widths, strict=True)
        ]
        known = {each: cells_for(each) for each in {*memory}}
        slices = np.stack([known[each] for each in memory])
        slices[~self.suits[:, machine]] = 0
        return slices

    def debit(
        self,
        cells: NDArray[np.uint32],
        child: int,
        memory: tuple[float, ...],
        task_size: Floats,
        less: Callable[[NDArray[np.uint32], int, Floats], NDArray[np.uint32]],
    ) -> NDArray[np.uint32]:
        """Return the summary of a child after `less` has debited each slice.

        Parameters
        ----------
        memory, task_size
            Bytes and size (Mflop) of a task of each dispatch to the child.
        less
            Function of the cells of a slice, of its number of leaves below the child, and of the sizes as
            which tasks of the dispatches count in it.
        """
        leaves = [max(1, int(each[child])) for each in self.leaves]
        ratios = np.array([self._ratios_of(each) for each in memory]).T
        return np.stack(
            [
                less(part, count, task_size * ratio)
                for part, count, ratio in zip(cells, leaves, ratios, strict=True)
            ]
        )

    def _ratios_of(self, memory: float) -> list[float]:
        """Return as how many tasks of each slice a task with `memory` bytes counts at most."""
        if (ratios := self._ratios.get(memory)) is None:
            fits = True if self._capacity is None else self._capacity >= memory
            width = self._width(memory)
            ratios = self._ratios[memory] = [
                float((width / sample_width)[mask & fits].max(initial=1.0))
                for sample_width, mask in zip(self._widths, self.suits, strict=True)
            ]
        return ratios


def need_samples(applications: Applications, limit: int) -> tuple[Need, ...]:
    """Return at most `limit` samples of memory and disk, which cover the needs of all applications.

    The needs are sorted by memory and then disk, and cut into `limit` equal parts; a sample has the maximum
    memory and the maximum disk of its part.
    """
    needs = sorted((memory, disk) for memory, _, disk in applications.wants.rows())
    distinct = sorted(set(needs))
    if len(distinct) > limit:
        cuts = [len(needs) * k // limit for k in range(limit + 1)]
        parts = [needs[low:high] for low, high in zip(cuts, cuts[1:], strict=False) if high > low]
        distinct = sorted({(max(m for m, _ in part), max(d for _, d in part)) for part in parts})
    return tuple(distinct)
