"""The axis of memory and disk of a summary: the availability of leaves with at least so much of both.

A sample of the axis is a pair: memory and disk, bytes.  In its slice of a summary a leaf counts its tasks
if it has at least both, else none.  An application is looked up at a sample with no less of either than its
tasks need.

Lemmas.  A leaf's n(S, w, a) does not fall as S or w grows, nor grow with a, and the same holds for 0.  As
memory or disk of a sample grow, leaves drop out of its slice and none comes in; as those of a machine grow,
it comes into slices and drops out of none.  So the count of a slice does not grow with the memory and disk
needed, and does not fall as machines have more.  What is found at a sample of no less than an application
needs counts only leaves that suit it: a bound from below.  A sum over leaves keeps all this.

Where what has been dispatched to a child is going, its parent does not know.  At worst all of it goes to
leaves of a slice, so each slice is debited as if it did, in at most as many shares as the slice has leaves.
Each debited slice is then a bound from below, whatever the needs of what was dispatched.  That gives away
most where few leaves have much memory and a large bag went to all of them: until the next summary comes, the
slice of these few is debited for the whole bag.
"""

from __future__ import annotations

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
    """The samples of memory and disk, and what nodes compute with them.

    Parameters
    ----------
    samples
        Pairs of memory and disk, bytes.
    rates
        What each machine gets done of tasks of each sample of bytes per Mflop, float64[machines] each,
        Mflop/s; its speed if summaries have no such axis.

    Attributes
    ----------
    leaves, speed
        For each sample and each node, how many leaves below it have as much, and their speed.
    speeds
        For each sample, each of the `rates` and each node, what these leaves get done together, Mflop/s.

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
        self.leaves = [subtree_sums(mask) for mask in self.suits]
        self.speed = [subtree_sums(run.speeds * mask) for mask in self.suits]
        self.speeds = [[subtree_sums(rate * mask) for rate in rates] for mask in self.suits]
        self._slices: dict[Need, int] = {}
        wants = run.applications.wants
        for i, (memory, _, disk) in enumerate(wants.rows()):
            if self._slice((memory, disk)) is None:
                shown = ", ".join(f"({memory:g}, {disk:g})" for memory, disk in samples)
                raise ScenarioError(
                    "fair-tree.need_samples must have for each application a sample of memory and disk, "
                    "bytes, that is no less than its tasks need, and no more than some machine has; got "
                    f"{shown} and application {i}, which needs {wants.describe(i)}"
                )

    def slice_of(self, application: Application) -> int:
        """Return the sample that serves an application: of several, that with the highest total speed."""
        need = application.memory, application.disk
        if (found := self._slices.get(need)) is None:
            found = self._slice(need)
            assert found is not None
            self._slices[need] = found
        return found

    def _slice(self, need: Need) -> int | None:
        serve = [k for k, (memory, disk) in enumerate(self.samples) if memory >= need[0] and disk >= need[1]]
        best = max(serve, key=lambda k: self.speed[k][0], default=None)
        return best if best is not None and self.leaves[best][0] else None

    def sample(self, machine: int, cells: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the slices that a leaf reports: it can take `cells` of each application that suits it."""
        found = np.zeros((len(self.samples), *cells.shape), np.uint32)
        found[self.suits[:, machine]] = cells
        return found

    def debited(
        self,
        cells: NDArray[np.uint32],
        child: int,
        less: Callable[[NDArray[np.uint32], int], NDArray[np.uint32]],
    ) -> NDArray[np.uint32]:
        """Return the summary of a child with each slice reduced by the debts `less`, given its leaves."""
        leaves = [max(1, int(each[child])) for each in self.leaves]
        return np.stack([less(part, count) for part, count in zip(cells, leaves, strict=True)])


def need_samples(applications: Applications, limit: int) -> tuple[Need, ...]:
    """Return at most `limit` samples of memory and disk: the needs of applications, or what covers them.

    The needs are sorted by memory and then disk, and cut into as many equal parts of the applications; a
    sample has the most memory and the most disk of its part.
    """
    needs = sorted((memory, disk) for memory, _, disk in applications.wants.rows())
    distinct = sorted(set(needs))
    if len(distinct) > limit:
        cuts = [len(needs) * k // limit for k in range(limit + 1)]
        parts = [needs[low:high] for low, high in zip(cuts, cuts[1:], strict=False) if high > low]
        distinct = sorted({(max(m for m, _ in part), max(d for _, d in part)) for part in parts})
    return tuple(distinct)
