"""Matrices of expected times, and the mapping of their tasks to machines by heuristics.

The matrices are those of T. D. Braun, H. J. Siegel, N. Beck and others, "A comparison of eleven static
heuristics for mapping a class of independent tasks onto heterogeneous distributed computing systems", JPDC 61
(2001): ETC[i, j] is the expected time of task i on machine j, in a unit that the caller chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.centralized.mapping import map_batch, map_in_turn
from gridsim.errors import ScenarioError
from gridsim.support.arguments import integer, one_of, real, short_repr
from gridsim.support.arrays import Floats, Integers
from gridsim.support.random_streams import Streams

Consistency = Literal["consistent", "semi-consistent", "inconsistent"]
ImmediateHeuristic = Literal["mct", "met", "olb", "switching", "kpb"]
BatchHeuristic = Literal["min-min", "max-min", "sufferage"]
#: Names of the heuristics of `map_tasks`.
HEURISTICS: tuple[str, ...] = (*get_args(ImmediateHeuristic), *get_args(BatchHeuristic))


class BraunClass(NamedTuple):
    """Arguments of `expected_times` that give a matrix of one of the published classes."""

    consistency: Consistency
    task_range: float
    machine_range: float


#: Published name -> class, for all twelve classes.  In u_x_yyzz, x is c (consistent), s (semi-consistent) or
#: i (inconsistent), and yy and zz are the heterogeneity of tasks and of machines: hi or lo.
BRAUN_CLASSES: dict[str, BraunClass] = {
    f"u_{consistency[0]}_{tasks}{machines}": BraunClass(consistency, task_range, machine_range)
    for consistency in get_args(Consistency)
    for tasks, task_range in (("hi", 3000.0), ("lo", 100.0))
    for machines, machine_range in (("hi", 1000.0), ("lo", 10.0))
}


def expected_times(
    tasks: int = 512,
    machines: int = 16,
    *,
    task_range: float = 3000.0,
    machine_range: float = 1000.0,
    consistency: Consistency = "consistent",
    seed: int = 1,
) -> Floats:
    """Draw a random matrix of expected times by the range-based method of Braun et al.

    ETC[i, j] = B[i] * x[i, j] with B uniform in [1, task_range) and x uniform in [1, machine_range).

    Parameters
    ----------
    tasks, machines
        Numbers of tasks and of machines, >= 1.
    task_range, machine_range
        Upper limits of the factors, > 1; the paper uses 3000 or 100 for tasks, and 1000 or 10 for machines.
    consistency
        ``"consistent"``: each row is sorted, so that machine 0 is the fastest for every task;
        ``"semi-consistent"``: the columns 0, 2, 4, ... of each row are sorted among themselves;
        ``"inconsistent"``: as drawn.
    seed
        Seed, >= 0; the draws depend on it and on the numbers of tasks and machines.

    Returns
    -------
    float64[tasks, machines]
        The matrix.

    Raises
    ------
    ScenarioError
        If an argument is invalid; the error names the argument and its value.
    """
    shape = integer("tasks", tasks, low=1), integer("machines", machines, low=1)
    ranges = {
        name: real(name, value, above=1)
        for name, value in (("task_range", task_range), ("machine_range", machine_range))
    }
    one_of("consistency", consistency, get_args(Consistency))
    stream = Streams(integer("seed", seed))("expected-times")
    baseline = stream.uniform(1.0, ranges["task_range"], (shape[0], 1))
    matrix: Floats = baseline * stream.uniform(1.0, ranges["machine_range"], shape)
    if consistency == "consistent":
        matrix.sort(axis=1)
    elif consistency == "semi-consistent":
        matrix[:, ::2] = np.sort(matrix[:, ::2], axis=1)
    return matrix


@dataclass(frozen=True)
class TaskMapping:
    """A mapping of tasks to machines, with the start and finish of each task.

    Parameters
    ----------
    machine
        int64[tasks], the machine of each task.
    start, finish
        float64[tasks], in the unit of the matrix.
    order
        int64[tasks], the tasks in the order of their mapping, in which a machine also runs its tasks.
    """

    machine: Integers
    start: Floats
    finish: Floats
    order: Integers

    @property
    def makespan(self) -> float:
        """The finish of the last task; 0 if there are no tasks."""
        return float(self.finish.max(initial=0.0))


def _numbers(name: str, values: ArrayLike, shape: str = "") -> NDArray[np.float64]:
    """Return a float64 copy of `values`, or raise ScenarioError naming `name` if they are not numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # the rows differ in length
        array = np.empty(0, object)
    if array.dtype.kind not in "fiu" and (array.size or array.dtype.kind == "O"):
        raise ScenarioError(f"{name} must be numbers{shape}, got {short_repr(values)}")
    return array.astype(np.float64)


def map_tasks(
    etc: ArrayLike,
    heuristic: str,
    *,
    ready: ArrayLike | None = None,
    percent: float = 20.0,
    low: float = 0.6,
    high: float = 0.9,
) -> TaskMapping:
    """Map the tasks of a matrix of expected times to machines by one of the `HEURISTICS`.

    Parameters
    ----------
    etc
        float64[tasks, machines] > 0, the expected times.
    heuristic
        ``"mct"``, ``"met"``, ``"olb"``, ``"switching"`` or ``"kpb"``, which take the tasks in order, or
        ``"min-min"``, ``"max-min"`` or ``"sufferage"``.  `gridcore.centralized.mapping` describes them.
    ready
        float64[machines] >= 0, the time from which each machine can run tasks; 0 by default.
    percent
        Parameter of ``"kpb"``.
    low, high
        Parameters of ``"switching"``.

    Raises
    ------
    ScenarioError
        If an argument is invalid; the error names the argument and its value.
    """
    times = _numbers("etc", etc, " in rows of equal length")
    one_of("heuristic", heuristic, HEURISTICS)
    percent, low, high = (
        real(name, value) for name, value in (("percent", percent), ("low", low), ("high", high))
    )
    if times.ndim != 2:
        raise ScenarioError(f"etc must have two dimensions, tasks and machines, got {times.ndim}")
    tasks, machines = times.shape
    if not machines:
        raise ScenarioError("etc must have at least one machine, got none")
    first_ready = np.zeros(machines) if ready is None else _numbers("ready", ready)
    ones, ready_times = np.ones(tasks, np.int64), first_ready.copy()
    rule: Any = heuristic
    try:
        if heuristic in get_args(ImmediateHeuristic):
            order = np.arange(tasks)
            targets, _ = map_in_turn(times, ones, ready_times, rule, percent=percent, low=low, high=high)
        else:
            order, targets = map_batch(times, ones, ready_times, rule)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    machine = np.empty(tasks, np.int64)
    machine[order] = targets
    start, finish = np.empty(tasks), np.empty(tasks)
    for u in range(machines):
        tasks_of_machine = order[targets == u]
        # Times are added in the same order as by the heuristic, so that rounding errors are equal.
        with np.errstate(over="ignore"):  # an infinite finish is an error below
            ends = np.cumsum(np.concatenate((first_ready[u : u + 1], times[tasks_of_machine, u])))
        start[tasks_of_machine], finish[tasks_of_machine] = ends[:-1], ends[1:]
    if not np.isfinite(finish).all():
        raise ScenarioError("etc must give a finite makespan, got inf")
    return TaskMapping(machine, start, finish, order)
