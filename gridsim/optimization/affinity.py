"""Linear programming-based affinity scheduling of task classes on heterogeneous machines.

I. Al-Azzoni and D. G. Down, "Linear programming-based affinity scheduling of independent tasks on
heterogeneous computing systems", IEEE TPDS 19 (2008).

A task of class k takes t_ku s on machine u, and a share p_k of all tasks is of class k.  With d_ku for the
share of its time that machine u gives to class k, the program is

    maximize r:   sum over u of d_ku / t_ku >= r p_k,   sum over k of d_ku <= 1,   d >= 0 ,

and no mapping can serve more than r tasks/s.  A solution at a vertex has at most classes + machines - 1
positive d_ku, so that each class is mapped to few machines.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridsim.errors import ScenarioError
from gridsim.optimization.mapping_matrices import TaskMapping
from gridsim.support.arguments import one_of, real, short_repr
from gridsim.support.arrays import Floats
from gridsim.support.imports import import_extra

#: Mapping rules of `map_arrivals`.
Rule = Literal["mct", "met", "olb", "kpb"]
#: Shares of machine time below this are rounding errors.
_MIN_SHARE = 1e-9


class Affinity(NamedTuple):
    """The optimum of the linear program of affinity scheduling.

    Parameters
    ----------
    rate
        The largest total arrival rate that the machines can serve, tasks per unit of time.
    shares
        float64[classes, machines], the share of its time that each machine spends on each class.
    """

    rate: float
    shares: Floats

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Mask of the machines of each class, bool[classes, machines]; an argument of `map_arrivals`."""
        return self.shares > _MIN_SHARE


def affinity(etc: ArrayLike, proportions: ArrayLike) -> Affinity:
    """Return the largest rate at which tasks of given classes can arrive, and the shares of machine time.

    The rate is unique; the shares need not be.

    Parameters
    ----------
    etc
        float64[classes, machines] > 0, the run time of a task of each class on each machine.
    proportions
        float64[classes] > 0, the ratios of the arrival rates of the classes.

    Raises
    ------
    ScenarioError
        If an argument is out of range.
    ImportError
        If scipy is not installed (extra ``stats``).
    """
    times = _positive("etc", etc, 2)
    ratios = _positive("proportions", proportions, 1)
    classes, machines = times.shape
    if len(ratios) != classes:
        raise ScenarioError(
            f"proportions must have one entry for each of {classes} classes, got {len(ratios)}"
        )
    time_unit = float(times.min(axis=1).mean())  # this unit scales the rates to about 1
    portion, columns = ratios / ratios.sum(), classes * machines
    service = np.zeros((classes, columns + 1))
    for k in range(classes):
        service[k, k * machines : (k + 1) * machines] = -time_unit / times[k]
    service[:, -1] = portion
    busy = np.hstack((np.tile(np.eye(machines), classes), np.zeros((machines, 1))))
    gain = np.zeros(columns + 1)
    gain[-1] = -1.0
    solution = import_extra("scipy.optimize", "stats", "affinity").linprog(
        gain, np.vstack((service, busy)), np.repeat([0.0, 1.0], [classes, machines]), method="highs-ds"
    )
    if solution.status:
        raise ArithmeticError(f"the linear program was not solved: {solution.message}")
    shares = np.clip(solution.x[:-1], 0.0, None).reshape(classes, machines)
    return Affinity(float(solution.x[-1] / time_unit), shares)


def map_arrivals(
    etc: ArrayLike,
    kind: ArrayLike,
    arrival: ArrayLike,
    rule: Rule,
    *,
    allowed: ArrayLike | None = None,
    percent: float = 20.0,
) -> TaskMapping:
    """Map each task at its arrival; a machine runs its tasks in the order of arrival.

    Parameters
    ----------
    etc
        float64[classes, machines] > 0, the run time of a task of each class on each machine.
    kind
        int64[tasks], the class of each task.
    arrival
        float64[tasks] >= 0, the arrival times, ascending, in the unit of `etc`.
    rule
        ``"mct"``: the machine with the earliest completion of the task; ``"met"``: with the shortest run
        time; ``"olb"``: that is ready first (first come, first served); ``"kpb"``:
        ``"mct"`` among the machines with the shortest run times.  Ties go to the machine of the lowest
        number.
    allowed
        bool[classes, machines], mask of the machines of each class, at least one; None for all.
        ``affinity(...).allowed`` with ``"mct"`` is linear programming-based affinity scheduling.
    percent
        Share of the allowed machines that ``"kpb"`` considers, %, above 0 and at most 100; the number of
        machines is rounded up.

    Raises
    ------
    ScenarioError
        If an argument is invalid; the error names the argument and its value.
    """
    times = _positive("etc", etc, 2)
    one_of("rule", rule, get_args(Rule))
    classes, machines = times.shape
    kinds, arrivals = np.asarray(kind), np.asarray(arrival, np.float64)
    if kinds.ndim != 1 or kinds.dtype.kind not in "iu" or ((kinds < 0) | (kinds >= classes)).any():
        raise ScenarioError(f"kind must be whole numbers in 0..{classes - 1}, got {short_repr(kind)}")
    if (
        arrivals.shape != kinds.shape
        or not np.isfinite(arrivals).all()
        or (np.diff(arrivals, prepend=0.0) < 0).any()
    ):
        raise ScenarioError(
            f"arrival must be {len(kinds)} finite numbers >= 0, ascending, got {short_repr(arrival)}"
        )
    mask = np.ones(times.shape, np.bool_) if allowed is None else np.asarray(allowed)
    if mask.shape != times.shape or mask.dtype != np.bool_ or not mask.any(axis=1).all():
        raise ScenarioError(
            f"allowed must be bool[{classes}, {machines}] with at least one machine for each class, "
            f"got {short_repr(allowed)}"
        )
    fraction = 0.01 * real("percent", percent, above=0)
    if fraction > 1.0:
        raise ScenarioError(f"percent must be above 0 and at most 100, got {short_repr(percent)}")
    candidates = [_candidates(times[k], np.flatnonzero(mask[k]), rule, fraction) for k in range(classes)]
    ready, machine = np.zeros(machines), np.empty(len(kinds), np.int64)
    start, finish = np.empty(len(kinds)), np.empty(len(kinds))
    for task, (k, time) in enumerate(zip(kinds.tolist(), arrivals.tolist(), strict=True)):
        machines_of_kind = candidates[k]
        begin = np.maximum(ready[machines_of_kind], time)
        best = int(np.argmin(begin if rule == "olb" else begin + times[k, machines_of_kind]))
        u = int(machines_of_kind[best])
        machine[task], start[task] = u, begin[best]
        finish[task] = ready[u] = begin[best] + times[k, u]
    return TaskMapping(machine, start, finish, np.arange(len(kinds)))


def _candidates(times: Floats, machines: NDArray[np.int64], rule: str, fraction: float) -> NDArray[np.int64]:
    """Return the machines that a rule considers for a class, ascending."""
    if rule in ("met", "kpb"):
        count = 1 if rule == "met" else math.ceil(fraction * len(machines) - 1e-9)
        machines = np.sort(machines[np.argsort(times[machines], kind="stable")[:count]])
    return machines


def _positive(name: str, values: Any, dimensions: int) -> Floats:
    """Return positive numbers as a non-empty array with the given number of dimensions."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != dimensions or not array.size or not (np.isfinite(array) & (array > 0)).all():
        shape = "rows of" if dimensions == 2 else ""
        raise ScenarioError(
            f"{name} must be {shape} finite numbers > 0, got {short_repr(values)}".replace("  ", " ")
        )
    return array
