"""Lower bounds of the maximum stretch if tasks need memory or disk that not all machines have.

Let M be a set of machines, and consider only the applications whose tasks suit no other machines.  They have
at most the speed of M, so a bound of `gridsim.optimization.bounds` for them on M is a bound for the run.
Each set M that is tried has the machines that suit one application.  If needs are totally ordered, such as
those of memory only, unions of such sets give no better bound, since they are among these sets.  If some
applications need much memory and others much disk, a union might give a better bound, but is not tried.

Cores of a machine share its memory.  A machine with M bytes and c cores runs at most k = min(c, floor(M / m))
tasks at once that take m bytes each, and no more if others of J take m' with min(c, floor(M / m')) <= k:
k + 1 tasks would need more cores or more than M bytes.  So a set may also have some of the cores of a
machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridsim.optimization.bounds import Bound
from gridsim.support.arrays import Floats, Integers

#: Maximum number of sets of machines that are tried; they are chosen evenly by their speeds.
_MAX_SETS = 12


@dataclass(frozen=True, eq=False)
class NeedBound(Bound):
    """A lower bound by the machines that suit some applications, with its certificate.

    Parameters
    ----------
    machines
        The set M, int64, ascending; no other machines suit the applications of J.  It has a machine as often
        as that can run tasks of J at once.
    """

    machines: Integers | None = None

    def verify(
        self, release: Any, size: Any, speeds: Any, *, task_size: Any = None, tasks: Any = None
    ) -> Fraction:
        """Return the value of the certificate, s/Mflop, recomputed as by `Bound.verify`.

        Parameters
        ----------
        speeds
            Speed of each machine of the platform, Mflop/s.
        """
        assert self.machines is not None
        return super().verify(
            release, size, np.asarray(speeds)[self.machines], task_size=task_size, tasks=tasks
        )


def need_bounds(
    needs: Floats,
    capacity: Floats,
    speeds: Floats,
    bound: Callable[[Integers, Floats], Bound],
    *,
    cores: Integers | None = None,
    shared: int | None = None,
) -> list[NeedBound]:
    """Return a bound for each set of machines to which needs restrict applications; `_MAX_SETS` at most.

    Parameters
    ----------
    needs
        float64[n, k], bytes of k resources that a task of each application needs.
    capacity
        float64[machines, k], bytes of these resources that each machine has.
    speeds
        float64[machines], Mflop/s of each core.
    bound
        Function of some applications (int64, ascending) and of speeds, Mflop/s, that returns their bound; the
        bound numbers applications by their positions in the first argument.
    cores
        int64[machines], the number of cores of each machine; None for one each.
    shared
        The resource that tasks on the cores of a machine share, its number in 0..k - 1; None for none.
    """
    distinct, groups = np.unique(needs, axis=0, return_inverse=True)
    counts = np.ones(len(speeds), np.int64) if cores is None else cores
    #: For each need and machine, the most tasks that it can run at once.
    at_once = np.tile(counts, (len(distinct), 1))
    for k, (available, required) in enumerate(zip(capacity.T, distinct.T, strict=True)):
        at_once[~(available >= required[:, None])] = 0
        if k == shared:  # in whole bytes
            each, room = np.floor(required)[:, None], np.floor(available)
            at_once = np.where(each > 0, np.minimum(at_once, room // np.maximum(each, 1.0)), at_once)
    at_once = at_once.astype(np.int64)
    sets = [slots for slots in np.unique(at_once, axis=0) if (slots < counts).any()]
    if len(sets) > _MAX_SETS:
        sets.sort(key=lambda slots: float((speeds * slots).sum()))
        sets = [sets[k] for k in np.linspace(0, len(sets) - 1, _MAX_SETS).astype(int).tolist()]
    bounds = []
    for slots in sets:
        subset = np.flatnonzero(~(at_once > slots).any(axis=1)[groups.ravel()])
        machines = np.repeat(np.arange(len(speeds)), slots)
        best = bound(subset, speeds[machines])
        first, members = int(subset[best.first]), subset[best.applications]
        certificate = best.stretch, first, members, best.time, best.task_size, best.latency
        bounds.append(NeedBound(*certificate, machines=machines))
    return bounds
