"""Ground truth of recorded decisions, compared with a bisection that examines all machines in each step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gridcore.fair_tree.decision_log import TreeDecisionLog
from gridcore.queues.data_queues import DataQueues
from gridcore.queues.task_queues import TaskQueues
from gridsim.schedulers.centralized.exact_stretch import STRETCH_TOLERANCE
from gridsim.support.arrays import Integers

MACHINES, APPLICATIONS = 9, 6
NOW = 7_000_000_000
BANDWIDTH = np.array([1e4, 1e6, 1e5] * 3)


class Case:
    """Queues with drawn tasks, some machines down, and some that do not suit some applications."""

    def __init__(self, seed: int, moves_data: bool) -> None:
        rng = np.random.default_rng(seed)
        speed = rng.choice([500.0, 1000.0, 1400.0], MACHINES)
        self.tasks = rng.integers(1, 60, APPLICATIONS)
        self.task_size = rng.choice([100.0, 900.0, 4000.0], APPLICATIONS)
        self.release = np.sort(rng.uniform(0.0, 7.0, APPLICATIONS))
        self.size = self.tasks * self.task_size
        options: dict[str, Any] = {"input_bytes": rng.choice([0.0, 1e4, 1e5], APPLICATIONS)}
        self.queues = DataQueues(speed, bandwidth=BANDWIDTH) if moves_data else TaskQueues(speed)
        self.queues.add_applications(
            self.release, self.size, self.task_size, **(options if moves_data else {})
        )
        for application, release in enumerate((self.release * 1e9).astype(np.int64).tolist()):
            chosen = np.flatnonzero(rng.random(MACHINES) < 0.6)
            shares = rng.integers(1, 9, len(chosen))
            self.queues.enqueue(chosen, np.full(len(chosen), application), shares, release)
            self.queues.reschedule(chosen, release)
        self.up = rng.random(MACHINES) < 0.8
        self.group = rng.integers(0, 2, APPLICATIONS)
        self.suited = rng.random((2, MACHINES)) < 0.8
        self.speed = speed
        self.random = rng

    def leaves(self, node: int, application: int) -> tuple[int, Integers]:
        """Return how many leaves below `node` are up, and the machines of those that suit."""
        nodes, below = [node], list[int]()
        for at in nodes:  # the list grows during the loop, level by level
            if at >= MACHINES - 1:
                below.append(at - (MACHINES - 1))
            else:
                nodes += [2 * at + 1, 2 * at + 2]
        machines = np.array([u for u in below if self.up[u]], np.int64)
        return len(machines), machines[self.suited[self.group[application]][machines]]

    def capacity(self, stretch: float, application: int, machines: Integers) -> float:
        if isinstance(self.queues, DataQueues):
            capacities: NDArray[Any] = self.queues.capacity_of(stretch, application, NOW, machines)
        else:
            bag = (float(column[application]) for column in (self.release, self.size, self.task_size))
            capacities = self.queues.available(stretch, *bag, NOW, machines)
        return float(capacities.sum())

    def least_stretch(self, tasks: int, application: int, machines: Integers) -> float:
        if not len(machines):
            return np.inf
        low, high = 0.0, tasks * self.task_size[application] / self.size[application]
        high /= float(self.speed[machines].sum())
        while self.capacity(high, application, machines) < tasks:
            low, high = high, 2.0 * high
        while high - low > STRETCH_TOLERANCE * high:
            middle = low + (high - low) / 2.0
            low, high = (
                (low, middle) if self.capacity(middle, application, machines) >= tasks else (middle, high)
            )
        return high


@pytest.mark.parametrize("moves_data", [False, True])
def test_true_values_are_those_of_the_machines_that_are_up_and_suit(moves_data: bool) -> None:
    for seed in range(60):
        case = Case(seed, moves_data)
        log = TreeDecisionLog(case.queues, case.up, SimpleNamespace(group=case.group, suited=case.suited))
        for node in range(2 * MACHINES - 1):
            application, tasks = int(case.random.integers(APPLICATIONS)), int(case.random.integers(1, 90))
            up, machines = case.leaves(node, application)
            truth = case.least_stretch(tasks, application, machines)
            # what routers see is near the true value, or far from it, or they see no room
            for saw in (truth * case.random.choice([0.3, 0.999, 1.0, 1.2]), np.inf):
                columns = {"tasks": tasks, "among": -1, "saw": saw, "limit": 0.5, "age": NOW - 5}
                log.complete(node, -1, "passed-on", application, columns, NOW)
                assert (columns["true"], columns["among"], columns["limit"]) == (truth, up, 0.5)
            stretch = float(case.random.uniform(0.5, 2.0)) * (truth if truth < np.inf else 1.0)
            columns = {"tasks": tasks, "among": -1, "saw": 3.0, "limit": stretch, "age": NOW - 5}
            log.complete(0, node, "gave", application, columns, NOW)
            assert columns["true"] == case.capacity(stretch, application, machines)
            assert (columns["among"], columns["age"], columns["level"]) == (-1, 5e-9, 0)
            assert np.isnan(columns["limit"])
