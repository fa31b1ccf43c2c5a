"""Lower bounds of the maximum stretch where tasks need memory or disk that not all machines have.

Let M be a set of machines, and take only the applications whose tasks suit no others.  They have at most the
speed of M, so a bound of `gridsim.results.metrics.bounds` for them on M alone is a bound of the whole run.
The sets M tried are those of the machines that suit one of the applications.  Where needs are in one order,
as those of memory alone are, no union of such sets says more, since it is one of them; where some
applications need much memory and others much disk, a union might, and is not tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridsim.results.metrics.bounds import Bound
from gridsim.support.arrays import Floats, Integers

#: At most so many sets of machines are tried, from the one of the least speed to that of the most.
_MOST_SETS = 12


@dataclass(frozen=True, eq=False)
class NeedBound(Bound):
    """A lower bound by the machines that suit some applications, with its certificate; see `Bound`.

    Parameters
    ----------
    machines
        M, int64, ascending; no others suit the applications of J.
    """

    machines: Integers | None = None

    def verify(
        self, release: Any, size: Any, speeds: Any, *, task_size: Any = None, tasks: Any = None
    ) -> Fraction:
        """Return the value of the certificate, s/Mflop; see `Bound.verify`.

        Parameters
        ----------
        speeds
            Mflop/s of each machine of the platform.
        """
        assert self.machines is not None
        return super().verify(
            release, size, np.asarray(speeds)[self.machines], task_size=task_size, tasks=tasks
        )


def need_bounds(
    needs: Floats, there: Floats, speeds: Floats, bound: Callable[[Integers, Floats], Bound]
) -> list[NeedBound]:
    """Return the bounds by sets of machines that suit some applications, but are not all machines.

    Parameters
    ----------
    needs
        float64[n, k], bytes, what a task of each application needs of k resources.
    there
        float64[machines, k], bytes, what machines have of them.
    speeds
        float64[machines], Mflop/s.
    bound
        Returns the bound for some of the applications (int64, ascending) on machines of given speeds,
        Mflop/s; the bound names applications by their place among these.
    """
    distinct, whose = np.unique(needs, axis=0, return_inverse=True)
    suited = np.ones((len(distinct), len(speeds)), np.bool_)
    for has, needed in zip(there.T, distinct.T, strict=True):
        suited &= has >= needed[:, None]
    sets = [mask for mask in np.unique(suited, axis=0) if not mask.all()]
    if len(sets) > _MOST_SETS:
        sets.sort(key=lambda mask: float(speeds[mask].sum()))
        sets = [sets[k] for k in np.linspace(0, len(sets) - 1, _MOST_SETS).astype(int).tolist()]
    found = []
    for mask in sets:
        confined = np.flatnonzero(~(suited & ~mask).any(axis=1)[whose.ravel()])
        best = bound(confined, speeds[mask])
        first, members = int(confined[best.first]), confined[best.applications]
        certificate = best.stretch, first, members, best.time, best.task_size, best.latency
        found.append(NeedBound(*certificate, machines=np.flatnonzero(mask)))
    return found
