"""Classes of tasks that arrive at machines which are good at different ones: the largest rate, and mapping.

I. Al-Azzoni and D. G. Down, "Linear programming-based affinity scheduling of independent tasks on
heterogeneous computing systems", IEEE TPDS 19 (2008).

A task of class k takes t_ku s on machine u, and a share p_k of all tasks is of class k.  With d_ku for the
share of its time that machine u gives to class k, the program is

    maximize r:   sum over u of d_ku / t_ku >= r p_k,   sum over k of d_ku <= 1,   d >= 0 ,

and no mapping keeps up with more than r tasks/s.  A solution at a vertex has at most classes + machines - 1
of the d_ku above 0: machines that have to look at few classes, and classes that have to look at few machines.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridsim.errors import ScenarioError
from gridsim.results.metrics.mapping_matrices import TaskMapping
from gridsim.support.arguments import one_of, real, short_repr
from gridsim.support.arrays import Floats
from gridsim.support.extras import need

#: Rules of `map_arrivals`.
Rule = Literal["mct", "met", "olb", "kpb"]
#: A share of a machine's time below this is an error of rounding.
_LEAST = 1e-9


class Affinity(NamedTuple):
    """The optimum of the linear program.

    Parameters
    ----------
    rate
        The largest rate of all arrivals that machines can keep up with, tasks a unit of time.
    shares
        float64[classes, machines], the share of its time that each machine gives to each class.
    """

    rate: float
    shares: Floats

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which machines a class goes to, bool[classes, machines]; for `map_arrivals`."""
        return self.shares > _LEAST


def affinity(etc: ArrayLike, proportions: ArrayLike) -> Affinity:
    """Return the largest rate at which tasks of these classes can arrive, and how machines share their time.

    The rate is unique, the shares need not be.

    Raises ScenarioError for arguments out of range, and ImportError without scipy (extra ``stats``).

    Parameters
    ----------
    etc
        float64[classes, machines] > 0, how long a task of each class takes on each machine.
    proportions
        float64[classes] > 0, in which ratio tasks of the classes arrive.
    """
    times = _positive("etc", etc, 2)
    given = _positive("proportions", proportions, 1)
    classes, machines = times.shape
    if len(given) != classes:
        raise ScenarioError(
            f"proportions must have one entry for each of {classes} classes, got {len(given)}"
        )
    unit = float(times.min(axis=1).mean())  # rates are about 1 then
    portion, columns = given / given.sum(), classes * machines
    served = np.zeros((classes, columns + 1))
    for k in range(classes):
        served[k, k * machines : (k + 1) * machines] = -unit / times[k]
    served[:, -1] = portion
    busy = np.hstack((np.tile(np.eye(machines), classes), np.zeros((machines, 1))))
    gain = np.zeros(columns + 1)
    gain[-1] = -1.0
    made = need("scipy.optimize", "stats", "affinity").linprog(
        gain, np.vstack((served, busy)), np.repeat([0.0, 1.0], [classes, machines]), method="highs-ds"
    )
    if made.status:
        raise ArithmeticError(f"the linear program was not solved: {made.message}")
    shares = np.clip(made.x[:-1], 0.0, None).reshape(classes, machines)
    return Affinity(float(made.x[-1] / unit), shares)


def map_arrivals(
    etc: ArrayLike,
    kind: ArrayLike,
    arrival: ArrayLike,
    rule: Rule,
    *,
    allowed: ArrayLike | None = None,
    percent: float = 20.0,
) -> TaskMapping:
    """Map each task when it arrives; a machine runs its tasks in that order, for as long as the matrix says.

    Raises ScenarioError naming the argument and its value.

    Parameters
    ----------
    etc
        float64[classes, machines] > 0, how long a task of each class takes on each machine.
    kind
        int64[tasks], the class of each task.
    arrival
        float64[tasks] >= 0, when each arrives, ascending, in the unit of `etc`.
    rule
        ``"mct"``: the machine that would end it first; ``"met"``: that takes the least time for it;
        ``"olb"``: that is ready first, which is first come, first served from one list; ``"kpb"``: ``"mct"``
        among the machines that take the least time for it.  Ties go to the lowest machine.
    allowed
        bool[classes, machines], which machines a class may go to, one at least; None: all.
        ``affinity(...).allowed`` with ``"mct"`` is linear programming-based affinity scheduling.
    percent
        Above 0, at most 100; the share of the allowed machines that ``"kpb"`` looks at, rounded up.
    """
    times = _positive("etc", etc, 2)
    one_of("rule", rule, get_args(Rule))
    classes, machines = times.shape
    of, at = np.asarray(kind), np.asarray(arrival, np.float64)
    if of.ndim != 1 or of.dtype.kind not in "iu" or ((of < 0) | (of >= classes)).any():
        raise ScenarioError(f"kind must be whole numbers in 0..{classes - 1}, got {short_repr(kind)}")
    if at.shape != of.shape or not np.isfinite(at).all() or (np.diff(at, prepend=0.0) < 0).any():
        raise ScenarioError(
            f"arrival must be {len(of)} finite numbers >= 0, ascending, got {short_repr(arrival)}"
        )
    permitted = np.ones(times.shape, np.bool_) if allowed is None else np.asarray(allowed)
    if permitted.shape != times.shape or permitted.dtype != np.bool_ or not permitted.any(axis=1).all():
        raise ScenarioError(f"allowed must be bool, {classes} by {machines}, with a machine for each class")
    part = 0.01 * real("percent", percent, above=0)
    if part > 1.0:
        raise ScenarioError(f"percent must be above 0 and at most 100, got {short_repr(percent)}")
    candidates = [_candidates(times[k], np.flatnonzero(permitted[k]), rule, part) for k in range(classes)]
    ready, machine = np.zeros(machines), np.empty(len(of), np.int64)
    start, finish = np.empty(len(of)), np.empty(len(of))
    for task, (k, now) in enumerate(zip(of.tolist(), at.tolist(), strict=True)):
        among = candidates[k]
        begin = np.maximum(ready[among], now)
        best = int(np.argmin(begin if rule == "olb" else begin + times[k, among]))
        u = int(among[best])
        machine[task], start[task] = u, begin[best]
        finish[task] = ready[u] = begin[best] + times[k, u]
    return TaskMapping(machine, start, finish, np.arange(len(of)))


def _candidates(times: Floats, permitted: NDArray[np.int64], rule: str, part: float) -> NDArray[np.int64]:
    """Return the machines that a rule looks at for a class, ascending."""
    if rule in ("met", "kpb"):
        count = 1 if rule == "met" else math.ceil(part * len(permitted) - 1e-9)
        permitted = np.sort(permitted[np.argsort(times[permitted], kind="stable")[:count]])
    return permitted


def _positive(name: str, given: Any, dimensions: int) -> Floats:
    """Return numbers > 0 as an array of so many dimensions, not empty."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != dimensions or not found.size or not (np.isfinite(found) & (found > 0)).all():
        shape = "rows of" if dimensions == 2 else ""
        raise ScenarioError(
            f"{name} must be {shape} finite numbers > 0, got {short_repr(given)}".replace("  ", " ")
        )
    return found
