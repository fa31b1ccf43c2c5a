"""The rules of one run of WQR-FT: its parameters in the units of the clock, and its predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.schedulers.wqr.policies import CHOICES, ORDERS
from gridsim.schedulers.wqr.selections import MachineChoice, TaskOrder, function_named
from gridsim.scheduling.contract import Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import Stateful

#: Maximum duration in computations, ns.
LONGEST = 9_200_000_000_000_000_000


@dataclass(frozen=True)
class Rules:
    """Values derived from the parameters of `WqrFt` in a run, with times in ns.

    Parameters
    ----------
    order, choice
        The task order and the machine choice, by name or as functions.
    min_speed
        Minimum speed of machines that get tasks, Mflop/s.
    interval
        Computing time between two checkpoints, ns; 0 for no checkpoints.
    checkpoint, restore
        Time to write a checkpoint, and time to resume from one, ns.
    """

    order: str | TaskOrder
    choice: str | MachineChoice
    min_speed: float
    interval: int
    checkpoint: int
    restore: int

    @classmethod
    def of(cls, parameters: Any, run: Run) -> Rules:
        """Return the rules of a `WqrFt` in a run."""
        name, order, choice = parameters.name, parameters.task_order, parameters.machine_choice
        return cls(
            order=order if order in ORDERS else function_named(f"{name}.task_order", order),
            choice=choice if choice in CHOICES else function_named(f"{name}.machine_choice", choice),
            min_speed=parameters.min_speed(run.speeds),
            interval=parameters.interval(math.inf if run.feed is None else run.feed.mean_up_time),
            checkpoint=nanoseconds(parameters.checkpoint_cost),
            restore=nanoseconds(parameters.restore_cost),
        )

    def lasts(self, begin: float, size: float, speed: float) -> int:
        """Return the remaining time at full speed, with checkpoints, of a task with `begin` Mflop done, ns.

        The result is NEVER if the time is too long.
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
        """The checkpoint interval, s; inf for no checkpoints."""
        return self.interval / NS if self.interval else math.inf


class Predictions(Stateful):
    """Predictions of the failures of machines, exact or with a random error.

    Parameters
    ----------
    error
        The parameter ``prediction_error`` of `WqrFt`.
    chance
        Generator of the errors.
    """

    STATE: ClassVar[tuple[str, ...]] = ("chance",)

    def __init__(self, error: float, chance: np.random.Generator) -> None:
        self.error, self.chance = error, chance

    def of(self, now: int | Integers, until: Integers) -> Integers:
        """Return the predicted failure times of machines that come up at `now` and fail at `until`, ns."""
        if not self.error:
            return until
        factor = np.exp(self.error * self.chance.standard_normal(len(until)))
        predicted = now + (until - now) * factor
        far = (until == NEVER) | (predicted >= LONGEST)
        return np.where(far, NEVER, np.where(far, 0.0, predicted).astype(np.int64))


def too_long(parameters: Any, rules: Rules) -> ScenarioError:
    """Return the error to raise for tasks that would end after the last instant of the clock."""
    return ScenarioError(
        f"{parameters.name}.checkpoint_cost must let tasks end before the last instant of the clock, got "
        f"{parameters.checkpoint_cost} s each {rules.interval / NS:g} s of computing"
    )
