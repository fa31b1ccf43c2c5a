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
    """Tasks of one application, one of which is to be chosen; all have equally many running copies.

    Parameters
    ----------
    number
        int64[k], the numbers of the tasks within the application, ascending.
    residual
        float64[k], Mflop left after the most advanced checkpoint.
    application
        Number of the application.
    now
        s.
    chance
        Generator for orders that draw.
    """

    number: Integers
    residual: Floats
    application: int
    now: float
    chance: np.random.Generator


@dataclass(frozen=True, slots=True)
class Machines:
    """The free machines, one of which is to be chosen.

    Parameters
    ----------
    number
        int64[k], ids, ascending.
    power
        float64[k], Mflop/s.
    up_time
        float64[k], s for which each machine is predicted to stay up; inf for ever.
    lasts
        float64[k], s that the task takes there at full speed, with its checkpoints.
    now
        s.
    """

    number: Integers
    power: Floats
    up_time: Floats
    lasts: Floats
    now: float


TaskOrder = Callable[[Tasks], int]
MachineChoice = Callable[[Machines], int]


def function_named(path: str, name: str) -> Any:
    """Import the function that is named ``module:function``; raise ScenarioError if there is none."""
    try:
        found = import_object(name)
    except (Exception, SystemExit) as error:  # the module may fail in any way
        raise ScenarioError(
            f"{path} must be a function that can be imported, got {name!r}: {text_of(error)}"
        ) from error
    if not callable(found):
        raise ScenarioError(f"{path} must be a function, got {name!r}, a {type(found).__name__}")
    return found


def sequence(order: str | TaskOrder, sizes: Floats, chance: np.random.Generator) -> Integers:
    """Return the order in which tasks of these sizes are started for the first time."""
    if order == "random":
        return chance.permutation(len(sizes))
    if order in ("small", "great"):
        return np.argsort(sizes if order == "small" else -sizes, kind="stable")
    return np.arange(len(sizes))


def asked_task(
    order: TaskOrder, number: Any, residual: Any, application: int, now: int, chance: np.random.Generator
) -> int:
    """Return the number of the task that a function chooses; raise SchedulerError if it chooses none.

    The arguments are as in `Tasks`, but `now` is in ns.
    """
    tasks = Tasks(np.asarray(number), np.asarray(residual), application, now / NS, chance)
    return int(number[_asked("task_order", order, tasks)])


def asked_machine(choice: MachineChoice, now: int, number: Any, power: Any, until: Any, lasts: Any) -> int:
    """Return the number of the machine that a function chooses; raise SchedulerError if it chooses none.

    The arguments are as in `Machines`, but all times are ns, and `until` has when machines are predicted to
    fail.
    """
    ends, takes = np.asarray(until), np.asarray(lasts) / NS
    up_time = np.where(ends == NEVER, np.inf, (ends - now) / NS)
    machines = Machines(np.asarray(number), np.asarray(power), up_time, takes, now / NS)
    return int(number[_asked("machine_choice", choice, machines)])


def _asked(what: str, function: Callable[..., Any], choices: Tasks | Machines) -> int:
    """Return the position that a function of the user chooses; raise SchedulerError if it chooses none."""
    when, count = f"t = {choices.now} s:", len(choices.number)
    try:
        which = function(choices)
    except Exception as error:
        raise SchedulerError(f"{when} {what}: {type(error).__name__}: {text_of(error)}") from error
    if isinstance(which, (int, np.integer)) and 0 <= which < count:
        return int(which)
    raise SchedulerError(f"{when} {what} must return a position in 0..{count - 1}, got {which!r}")


# -- task orders ------------------------------------------------------------------------------------------


def random(tasks: Tasks) -> int:
    """Choose any task at random (plain WQR-FT); the name ``"random"`` draws from another random stream."""
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
    """AllInfo: the fastest machine predicted to be up until the task is done, else as CpuInfo (Figure 4)."""
    enough = machines.up_time >= machines.lasts
    return int(np.argmax(np.where(enough, machines.power, 0.0))) if enough.any() else cpu(machines)
