"""Selections of the next task and of its machine (Arora et al.), as small functions.

`WqrFt` runs a selection that is given by name with compiled indices.  A selection that is given as a
function, one of these or your own, is called for each decision with all the candidates.  This is slower, but
has the same outcome (which the tests check).

A task order takes `Tasks` and a machine choice `Machines`; both return the position of what they choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError, SchedulerError, text_of
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.imports import import_object


@dataclass(frozen=True, slots=True)
class Tasks:
    """Candidate tasks of one application, which have equal numbers of running copies.

    Parameters
    ----------
    number
        int64[k], the numbers of the tasks within the application, ascending.
    residual
        float64[k], work left after the most advanced checkpoint, Mflop.
    application
        Number of the application.
    now
        Current time, s.
    chance
        Random generator for random orders.
    """

    number: Integers
    residual: Floats
    application: int
    now: float
    chance: np.random.Generator


@dataclass(frozen=True, slots=True)
class Machines:
    """Candidate machines, which are free.

    Parameters
    ----------
    number
        int64[k], ids, ascending.
    power
        float64[k], speeds, Mflop/s.
    up_time
        float64[k], predicted time for which each machine stays up, s; inf for forever.
    lasts
        float64[k], time of the task on each machine at full speed, with checkpoints, s.
    now
        Current time, s.
    """

    number: Integers
    power: Floats
    up_time: Floats
    lasts: Floats
    now: float


TaskOrder = Callable[[Tasks], int]
MachineChoice = Callable[[Machines], int]


def function_named(path: str, name: str) -> Any:
    """Return the function with the name ``module:function``.

    Raises
    ------
    ScenarioError
        If it cannot be imported.
    """
    try:
        function = import_object(name)
    except (Exception, SystemExit) as error:  # the module may raise any exception
        raise ScenarioError(
            f"{path} must be a function that can be imported, got {name!r}: {text_of(error)}"
        ) from error
    if not callable(function):
        raise ScenarioError(f"{path} must be a function, got {name!r}, a {type(function).__name__}")
    return function


def sequence(order: str | TaskOrder, sizes: Floats, chance: np.random.Generator) -> Integers:
    """Return the order in which tasks with these sizes are first started."""
    if order == "random":
        return chance.permutation(len(sizes))
    if order in ("small", "great"):
        return np.argsort(sizes if order == "small" else -sizes, kind="stable")
    return np.arange(len(sizes))


def chosen_task(
    order: TaskOrder, number: Any, residual: Any, application: int, now: int, chance: np.random.Generator
) -> int:
    """Return the number of the task that a user function chooses.

    The arguments are those of `Tasks`, but `now` is in ns.

    Raises
    ------
    SchedulerError
        If the function does not choose a task.
    """
    tasks = Tasks(np.asarray(number), np.asarray(residual), application, now / NS, chance)
    return int(number[_chosen_position("task_order", order, tasks)])


def chosen_machine(choice: MachineChoice, now: int, number: Any, power: Any, until: Any, lasts: Any) -> int:
    """Return the number of the machine that a user function chooses.

    The arguments are those of `Machines`, but all times are in ns, and `until` has the predicted times of
    failures.

    Raises
    ------
    SchedulerError
        If the function does not choose a machine.
    """
    ends, takes = np.asarray(until), np.asarray(lasts) / NS
    up_time = np.where(ends == NEVER, np.inf, (ends - now) / NS)
    machines = Machines(np.asarray(number), np.asarray(power), up_time, takes, now / NS)
    return int(number[_chosen_position("machine_choice", choice, machines)])


def _chosen_position(path: str, function: Callable[..., Any], choices: Tasks | Machines) -> int:
    """Return the position that a user function chooses.

    Raises
    ------
    SchedulerError
        If the function fails or does not return a position.
    """
    time_prefix, count = f"t = {choices.now} s:", len(choices.number)
    try:
        position = function(choices)
    except Exception as error:
        raise SchedulerError(f"{time_prefix} {path}: {type(error).__name__}: {text_of(error)}") from error
    if isinstance(position, (int, np.integer)) and 0 <= position < count:
        return int(position)
    raise SchedulerError(f"{time_prefix} {path} must return a position in 0..{count - 1}, got {position!r}")


# -- task orders ------------------------------------------------------------------------------------------


def random(tasks: Tasks) -> int:
    """Choose a random task (plain WQR-FT); the name ``"random"`` draws from another random stream."""
    return int(tasks.chance.integers(len(tasks.number)))


def small(tasks: Tasks) -> int:
    """SmallET: choose the task with the smallest residual work."""
    return int(np.argmin(tasks.residual))


def great(tasks: Tasks) -> int:
    """GreatET: choose the task with the greatest residual work."""
    return int(np.argmax(tasks.residual))


# -- machine choices --------------------------------------------------------------------------------------


def none(machines: Machines) -> int:
    """NoInfo: choose the first machine (Figure 1)."""
    return 0


def cpu(machines: Machines) -> int:
    """CpuInfo: choose the fastest machine (Figure 2)."""
    return int(np.argmax(machines.power))


def avail(machines: Machines) -> int:
    """AvailInfo: choose the machine that is predicted to stay up the longest (Figure 3)."""
    return int(np.argmax(machines.up_time))


def all(machines: Machines) -> int:
    """AllInfo (Figure 4): choose the fastest machine that will be up until the task ends, or as CpuInfo."""
    enough = machines.up_time >= machines.lasts
    return int(np.argmax(np.where(enough, machines.power, 0.0))) if enough.any() else cpu(machines)
