"""The rules of one run of WQR-FT: its parameters in the units of the clock, and what is predicted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.schedulers.wqr.policies import CHOICES, ORDERS
from gridsim.schedulers.wqr.selections import MachineChoice, TaskOrder, function_named
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import Stateful

#: The longest duration that is computed with, ns.
LONGEST = 9_200_000_000_000_000_000


@dataclass(frozen=True)
class Rules:
    """The parameters of `WqrFt`, which explains them, with times in ns.

    Parameters
    ----------
    bag_order
        Which bag is next.
    order, choice
        The task order and the machine choice, by name or as functions.
    interval
        ns of computing between two checkpoints; 0 for no checkpoints.
    checkpoint, restore
        ns that it takes to write a checkpoint, and to resume from one.
    min_speed
        Mflop/s; slower machines get no task.
    local
        Whether checkpoints stay on their machines.
    """

    bag_order: str
    order: str | TaskOrder
    choice: str | MachineChoice
    max_replicas: int
    min_speed: float
    interval: int
    checkpoint: int
    restore: int
    local: bool
    predictor: str
    as_printed: bool

    @classmethod
    def of(cls, parameters: Any, speeds: Floats, mean_up_time: float, **further: Any) -> Self:
        """Return the rules of a `WqrFt` for machines of these speeds, up for about `mean_up_time` s.

        Parameters
        ----------
        further
            The fields that a subclass adds.
        """
        name, order, choice = parameters.name, parameters.task_order, parameters.machine_choice
        return cls(
            bag_order=parameters.bag_order,
            order=order if order in ORDERS else function_named(f"{name}.task_order", order),
            choice=choice if choice in CHOICES else function_named(f"{name}.machine_choice", choice),
            max_replicas=parameters.max_replicas,
            min_speed=parameters.min_speed(speeds),
            interval=parameters.interval(mean_up_time),
            checkpoint=nanoseconds(parameters.checkpoint_cost),
            restore=nanoseconds(parameters.restore_cost),
            local=parameters.checkpoint_store == "local",
            predictor=parameters.predictor,
            as_printed=parameters.as_printed,
            **further,
        )

    def lasts(self, begin: float, size: float, speed: float) -> int:
        """Return how long a task of which `begin` Mflop are done takes at full speed, with its checkpoints.

        The result is in ns; NEVER if it is too long.
        """
        work = (size - begin) / speed * 1e9
        if not work < LONGEST:
            return NEVER
        computing = max(1, round(work))
        checkpoints = (computing - 1) // self.interval if self.interval else 0
        total = computing + checkpoints * self.checkpoint
        return total + (self.restore if begin > 0.0 else 0) if total + self.restore < LONGEST else NEVER

    @property
    def seconds(self) -> float:
        """The interval in s; inf for no checkpoints."""
        return self.interval / NS if self.interval else math.inf


def uniform(seed: int, number: int) -> float:
    """Return draw `number`, from 1, uniform in [0, 1): SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    mask = 2**64 - 1
    x = (seed + number * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return float((x ^ (x >> 31)) >> 11) * (1.0 / 9007199254740992.0)


class Predictions(Stateful):
    """When machines are predicted to fail: exactly, or with a random error.

    Parameters
    ----------
    error
        See ``prediction_error`` of `WqrFt`.
    chance
        Generator of the errors.
    """

    STATE: ClassVar[tuple[str, ...]] = ("chance",)

    def __init__(self, error: float, chance: np.random.Generator) -> None:
        self.error, self.chance = error, chance

    def of(self, now: int | Integers, until: Integers) -> Integers:
        """Return when machines that come up at `now` and fail at `until` are predicted to fail (all ns)."""
        if not self.error:
            return until
        factor = np.exp(self.error * self.chance.standard_normal(len(until)))
        predicted = now + (until - now) * factor
        far = (until == NEVER) | (predicted >= LONGEST)
        return np.where(far, NEVER, np.where(far, 0.0, predicted).astype(np.int64))


def too_long(parameters: Any, rules: Rules) -> ScenarioError:
    """Return the error to raise for tasks that would end after the last instant of the clock."""
    return ScenarioError(
        f"{parameters.name}.checkpoint_cost must let tasks end within what the clock can hold, got "
        f"{parameters.checkpoint_cost} s each {rules.interval / NS:g} s of computing"
    )
