"""Lower bounds of the maximum stretch where tasks fetch and send data over links of machines.

In a time T, machine u computes at most s_u T Mflop and fetches at most c_u T bytes.  Let x_iu be the Mflop of
application i that it has done by then, each of which took b_i bytes.  For every number b* > 0,

    sum over i of x_iu min(1, b_i / b*)  <=  min(sum x_iu, sum b_i x_iu / b*)  <=  T min(s_u, c_u / b*) ,

so the tasks of a set J take at least

    T(J) = (sum over i in J of w_i min(1, b_i / b*)) / (sum over u of min(s_u, c_u / b*)) .

That is the bound by work of `gridsim.results.metrics.bounds` with other weights, and its search serves here.
b* -> 0 gives that bound itself, b* -> inf the bytes of J over those that all links carry, and where all
tasks have the same b, b* = b is exact for work that can be cut at will.  As a function of 1 / b* the sum
over J is concave and linear between the values 1 / b_i, and the sum over machines is concave, so T(J) is
largest at 0, inf or one of the b_i.  What tasks send takes as long, and has bounds of its own.

Whole tasks: m tasks of one application take a machine at least f + p + g + (m - 1) max(f, p, g), where f, p
and g are the times in which it fetches, computes and sends one.  So n tasks are over at the earliest when as
many fit in on all machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridsim.results.metrics.bound_search import Search
from gridsim.results.metrics.bounds import Bound, certified
from gridsim.support.arrays import Floats

#: At most so many values of b* between 0 and inf are tried, quantiles of those of the applications.
_MOST_VALUES = 12
#: T(J) is computed in floats, and lowered by this fraction, which is more than all rounding.
_SAFE = 1.0 - 1e-11


@dataclass(frozen=True, eq=False)
class DataBound(Bound):
    """A lower bound by what links carry, with its certificate; see `Bound`.

    Parameters
    ----------
    way
        ``"input"`` or ``"output"``; ``"tasks"`` for whole tasks of one application.
    value
        B*, bytes/Mflop; nan for whole tasks.
    """

    way: str = "input"
    value: float = math.nan

    def verify(
        self, release: Any, size: Any, speeds: Any, *, task_size: Any = None, tasks: Any = None, **data: Any
    ) -> Fraction:
        """Return the value of the certificate, s/Mflop, computed anew without the search.

        Parameters
        ----------
        **data
            ``bandwidth`` (bytes/s), ``input_bytes`` and ``output_bytes``, from which the bound was computed.

        Raises
        ------
        ValueError
            If that is not `stretch` (1e-9 relative).
        """
        members = self.applications
        machines, links = np.asarray(speeds), np.asarray(data["bandwidth"])
        columns = {"input": np.asarray(data["input_bytes"]), "output": np.asarray(data["output_bytes"])}
        if self.way == "tasks":
            (i,) = members.tolist()
            each = np.stack([task_size[i] / machines, *(column[i] / links for column in columns.values())])
            time = _whole(each, int(tasks[i]))
        else:
            moved = columns[self.way] / np.asarray(task_size)
            weights = np.asarray(size) * _weights(moved, self.value)
            time = float(weights[members].sum()) / _rate(machines, links, self.value)
        ends = float(np.asarray(release)[members].min()) + time
        value = float(((ends - np.asarray(release)[members]) / np.asarray(size)[members]).min())
        if not math.isclose(value, self.stretch, rel_tol=1e-9):
            raise ValueError(f"stretch is {self.stretch!r}, but its certificate has {value!r}")
        return Fraction(value)


def link_bound(
    release: Floats, size: Floats, moved: Floats, speeds: Floats, bandwidth: Floats, way: str
) -> DataBound:
    """Return the largest bound by what links carry one way, over all b* > 0.

    release (s), size (Mflop), moved (bytes/Mflop) : float64[n], of applications, some of which move data.
    speeds (Mflop/s), bandwidth (bytes/s) : float64[machines].
    """
    distinct = np.unique(moved[moved > 0.0])
    if len(distinct) > _MOST_VALUES:
        distinct = distinct[np.linspace(0, len(distinct) - 1, _MOST_VALUES).astype(int)]
    best: DataBound | None = None
    for value in [*distinct.tolist(), math.inf]:
        work, speed = size * _weights(moved, value), _rate(speeds, bandwidth, value)
        members, _ = Search(release, size, speed, 0.0, work=work).run()
        time = Fraction(float(work[members].sum()) / speed * _SAFE)
        found = certified(release, size, members, time, 0.0)
        if best is None or found.stretch > best.stretch:
            best = _as_data(found, way, value)
    assert best is not None
    return best


def whole_tasks_bound(
    release: Floats,
    size: Floats,
    task_size: Floats,
    tasks: Any,
    input_bytes: Floats,
    output_bytes: Floats,
    speeds: Floats,
    bandwidth: Floats,
) -> DataBound:
    """Return the largest stretch that an application has alone on the platform, with whole tasks."""
    best: DataBound | None = None
    for i in range(len(size)):
        each = np.stack([task_size[i] / speeds, input_bytes[i] / bandwidth, output_bytes[i] / bandwidth])
        time = Fraction(_whole(each, int(tasks[i])) * _SAFE)
        found = certified(release, size, np.array([i]), time, 0.0)
        if best is None or found.stretch > best.stretch:
            best = _as_data(found, "tasks", math.nan)
    assert best is not None
    return best


def _as_data(found: Bound, way: str, value: float) -> DataBound:
    return DataBound(found.stretch, found.first, found.applications, found.time, way=way, value=value)


def _weights(moved: Floats, value: float) -> Floats:
    """Return by how much a Mflop of each application counts: for b* = inf, in bytes."""
    return moved if value == math.inf else np.minimum(1.0, moved / value)


def _rate(speeds: Floats, bandwidth: Floats, value: float) -> float:
    """Return what all machines can do of what counts, per s."""
    each = bandwidth if value == math.inf else np.minimum(speeds, bandwidth / value)
    return math.fsum(each.tolist())


def _whole(each: Floats, tasks: int) -> float:
    """Return a time, s, before which not so many tasks are over, whose stages take `each` (s) on machines."""
    alone, longest = each.sum(axis=0), each.max(axis=0)
    low, high = 0.0, float((alone + (tasks - 1) * longest).min())
    for _ in range(60):
        middle = low + (high - low) / 2.0
        fit = np.maximum(0.0, np.floor((middle - alone) / longest) + 1.0).sum()
        low, high = (low, middle) if fit >= tasks else (middle, high)
    return low
