"""Lower bounds of the maximum stretch if tasks fetch and send data over links of machines.

In a time T, machine u computes at most s_u T Mflop and fetches at most c_u T bytes.  Let x_iu be the Mflop of
application i that it has done by then, each of which took b_i bytes.  For every number b* > 0,

    sum over i of x_iu min(1, b_i / b*)  <=  min(sum x_iu, sum b_i x_iu / b*)  <=  T min(s_u, c_u / b*) ,

so that the tasks of a set J take at least

    T(J) = (sum over i in J of w_i min(1, b_i / b*)) / (sum over u of min(s_u, c_u / b*)) .

This is the bound by work of `gridsim.optimization.bounds` with other weights, found by the same search.
b* -> 0 gives the bound by work, and b* -> inf the bytes of J over the bandwidth of all links.  If all tasks
have the same b, b* = b is exact for divisible work.  As a function of 1 / b*, the sum over J is concave and
linear between the values 1 / b_i, and the sum over machines is concave, so T(J) is largest at 0, inf or one
of the b_i.  Output has bounds of the same form.

Whole tasks: m tasks of one application take a machine at least f + p + g + (m - 1) max(f, p, g), where f, p
and g are the times in which it fetches, computes and sends one.  So n tasks end no earlier than the time in
which all machines together can process n tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridsim.optimization.bound_search import BoundSearch
from gridsim.optimization.bounds import Bound, exact_bound
from gridsim.support.arrays import Floats

#: Maximum number of values of b* between 0 and inf that are tried: quantiles of the applications' values.
_MAX_VALUES = 12
#: Factor that lowers T(J) by more than all rounding errors of its computation.
_ROUNDING_FACTOR = 1.0 - 1e-11


@dataclass(frozen=True, eq=False)
class DataBound(Bound):
    """A lower bound by the bandwidth of links, with its certificate.

    Parameters
    ----------
    kind
        ``"input"`` or ``"output"``, the bytes that limit it, or ``"tasks"``: whole tasks of one application.
    value
        The parameter b*, bytes/Mflop; NaN for whole tasks.
    """

    kind: str = "input"
    value: float = math.nan

    def verify(
        self, release: Any, size: Any, speeds: Any, *, task_size: Any = None, tasks: Any = None, **data: Any
    ) -> Fraction:
        """Return the value of the certificate, s/Mflop, recomputed without the search.

        Parameters
        ----------
        **data
            ``bandwidth`` (bytes/s), ``input_bytes`` and ``output_bytes``, from which the bound was computed.

        Raises
        ------
        ValueError
            If the value is not `stretch` (1e-9 relative).
        """
        members = self.applications
        machines, links = np.asarray(speeds), np.asarray(data["bandwidth"])
        columns = {"input": np.asarray(data["input_bytes"]), "output": np.asarray(data["output_bytes"])}
        if self.kind == "tasks":
            (i,) = members.tolist()
            stages = np.stack([task_size[i] / machines, *(column[i] / links for column in columns.values())])
            time = _whole_tasks_time(stages, int(tasks[i]))
        else:
            bytes_per_work = columns[self.kind] / np.asarray(task_size)
            weights = np.asarray(size) * _weights(bytes_per_work, self.value)
            time = float(weights[members].sum()) / _total_rate(machines, links, self.value)
        end = float(np.asarray(release)[members].min()) + time
        value = float(((end - np.asarray(release)[members]) / np.asarray(size)[members]).min())
        if not math.isclose(value, self.stretch, rel_tol=1e-9):
            raise ValueError(f"stretch must be that of its certificate, {value!r}, got {self.stretch!r}")
        return Fraction(value)


def link_bound(
    release: Floats, size: Floats, bytes_per_work: Floats, speeds: Floats, bandwidth: Floats, direction: str
) -> DataBound:
    """Return the largest bound by the bandwidth of links in one direction, over all b* > 0.

    Parameters
    ----------
    release, size
        float64[n], releases (s) and sizes (Mflop) of applications.
    bytes_per_work
        float64[n], bytes/Mflop that each application moves in this direction; some are positive.
    speeds, bandwidth
        float64[machines], Mflop/s and bytes/s.
    direction
        ``"input"`` or ``"output"``.
    """
    distinct = np.unique(bytes_per_work[bytes_per_work > 0.0])
    if len(distinct) > _MAX_VALUES:
        distinct = distinct[np.linspace(0, len(distinct) - 1, _MAX_VALUES).astype(int)]
    best: DataBound | None = None
    for value in [*distinct.tolist(), math.inf]:
        work, speed = size * _weights(bytes_per_work, value), _total_rate(speeds, bandwidth, value)
        members, _ = BoundSearch(release, size, speed, 0.0, work=work).run()
        time = Fraction(float(work[members].sum()) / speed * _ROUNDING_FACTOR)
        bound = exact_bound(release, size, members, time, 0.0)
        if best is None or bound.stretch > best.stretch:
            best = _data_bound(bound, direction, value)
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
    """Return the largest bound by the whole tasks of a single application on the idle platform."""
    best: DataBound | None = None
    for i in range(len(size)):
        stages = np.stack([task_size[i] / speeds, input_bytes[i] / bandwidth, output_bytes[i] / bandwidth])
        time = Fraction(_whole_tasks_time(stages, int(tasks[i])) * _ROUNDING_FACTOR)
        bound = exact_bound(release, size, np.array([i]), time, 0.0)
        if best is None or bound.stretch > best.stretch:
            best = _data_bound(bound, "tasks", math.nan)
    assert best is not None
    return best


def _data_bound(bound: Bound, kind: str, value: float) -> DataBound:
    return DataBound(bound.stretch, bound.first, bound.applications, bound.time, kind=kind, value=value)


def _weights(bytes_per_work: Floats, value: float) -> Floats:
    """Return the weight of one Mflop of each application at b* = `value`; its bytes if that is inf."""
    return bytes_per_work if value == math.inf else np.minimum(1.0, bytes_per_work / value)


def _total_rate(speeds: Floats, bandwidth: Floats, value: float) -> float:
    """Return the weighted work per s of all machines at b* = `value`; their bytes/s if that is inf."""
    rates = bandwidth if value == math.inf else np.minimum(speeds, bandwidth / value)
    return math.fsum(rates.tolist())


def _whole_tasks_time(stages: Floats, tasks: int) -> float:
    """Return a lower bound of the time for `tasks` tasks, s, from the times of their stages per machine."""
    first, longest = stages.sum(axis=0), stages.max(axis=0)
    low, high = 0.0, float((first + (tasks - 1) * longest).min())
    for _ in range(60):
        middle = low + (high - low) / 2.0
        count = np.maximum(0.0, np.floor((middle - first) / longest) + 1.0).sum()
        low, high = (low, middle) if count >= tasks else (middle, high)
    return low
