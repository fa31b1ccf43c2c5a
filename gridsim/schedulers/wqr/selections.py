"""Which task is next, and which machine it goes to: the selections of Arora et al. as small functions.

`WqrFt` runs those that have names by compiled indices.  Given as functions, these or your own, they are
called for each decision, with everything there is to choose from: slower, with the same outcome
(which the tests check).

A task order takes `Tasks` and a machine choice `Machines`; both return the position of what they choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gridsim.support.arrays import Floats, Integers

ORDERS = ("random", "small", "great")
CHOICES = ("none", "cpu", "avail", "all")

#: The nine policies of the paper: task order, machine choice.
POLICIES: dict[str, tuple[str, str]] = {
    "WQR-FT": ("random", "none"),
    **{
        f"{order.capitalize()}ET-{choice.capitalize()}Info".replace("None", "No"): (order, choice)
        for choice in CHOICES
        for order in ("small", "great")
    },
}


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of one application, of which one is next: they have equally many instances.

    number : int64[k], ascending, within the application.  residual : float64[k], Mflop left after the newest
    checkpoint.  application : its number.  now : s.  chance : for orders that draw.
    """

    number: Integers
    residual: Floats
    application: int
    now: float
    chance: np.random.Generator


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines that are free.

    number : int64[k], ascending.  power : float64[k], Mflop/s.  up_time : float64[k], s, for how long each is
    predicted to stay up; inf for ever.  lasts : float64[k], s that the task takes there at full speed, with
    its checkpoints.  now : s.
    """

    number: Integers
    power: Floats
    up_time: Floats
    lasts: Floats
    now: float


TaskOrder = Callable[[Tasks], int]
MachineChoice = Callable[[Machines], int]


# -- task orders ------------------------------------------------------------------------------------------


def random(tasks: Tasks) -> int:
    """Any (plain WQR-FT); by name it draws from another stream."""
    return int(tasks.chance.integers(len(tasks.number)))


def small(tasks: Tasks) -> int:
    """SmallET: the smallest residual."""
    return int(np.argmin(tasks.residual))


def great(tasks: Tasks) -> int:
    """GreatET: the greatest residual."""
    return int(np.argmax(tasks.residual))


# -- machine choices --------------------------------------------------------------------------------------


def none(machines: Machines) -> int:
    """NoInfo: the first (Figure 1)."""
    return 0


def cpu(machines: Machines) -> int:
    """CpuInfo: the fastest (Figure 2)."""
    return int(np.argmax(machines.power))


def avail(machines: Machines) -> int:
    """AvailInfo: the one that is predicted to stay up the longest (Figure 3)."""
    return int(np.argmax(machines.up_time))


def all(machines: Machines) -> int:
    """AllInfo: the fastest of those predicted to be up until the task is done, else as CpuInfo (Figure 4)."""
    enough = machines.up_time >= machines.lasts
    return int(np.argmax(np.where(enough, machines.power, 0.0))) if enough.any() else cpu(machines)
