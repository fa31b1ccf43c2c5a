"""The initial knowledge of the nodes of a tree with a master: links, data of tasks, and the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gridsim.optimization.throughput import Throughput, optimal_throughput
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.environment import Environment


class Plan:
    """The rates of the linear program for the applications that are at the master."""

    def __init__(self, scheduler: Any, run: Run, weight: Any) -> None:
        self.scheduler, self.run, self.weight = scheduler, run, weight
        self.parent = scheduler.parents(len(run.speeds))
        self.applications: list[int] = []  # applications with tasks at the master
        self.version = 0
        #: node -> application -> child, or the node itself -> tasks/s > 0; None until `rates` is called
        self._rates: dict[int, dict[int, dict[int, float]]] | None = None

    def change(self, application: int, is_present: bool) -> None:
        """Add an application that has arrived at the master, or remove one that has left it."""
        applications = [k for k in self.applications if k != application]
        if is_present:
            applications = sorted([*applications, application])
        self.set(self.version + 1, applications)

    def set(self, version: int, applications: list[int]) -> None:
        """Set the version and the applications; the rates are computed by the next call of `rates`."""
        self.version, self.applications, self._rates = version, applications, None

    def rates(self, node: int) -> dict[int, dict[int, float]]:
        """Return the rates of a node: application -> child, or the node itself -> tasks/s."""
        if self._rates is None:
            self._rates = self._solve() if self.applications else {}
        return self._rates.get(node, {})

    def _solve(self) -> dict[int, dict[int, dict[int, float]]]:
        numbers, run, machines = np.array(self.applications), self.run, len(self.run.speeds)
        input_bytes, output_bytes = run.applications.moved()
        optimum: Throughput = optimal_throughput(
            run.speeds,
            np.inf if run.bandwidth is None else run.bandwidth,
            run.applications.task_size[numbers],
            input_bytes[numbers],
            output_bytes=output_bytes[numbers],
            weights=self.weight[numbers],
            port=self.scheduler.port,
            master_bandwidth=self.scheduler.master_bandwidth,
            parent=self.parent,
        )
        tolerance = 1e-6 * optimum.level  # smaller rates are rounding errors
        rates: dict[int, dict[int, dict[int, float]]] = {}
        for column, k in enumerate(self.applications):
            for u in range(machines):
                parent = machines if self.parent[u] < 0 else int(self.parent[u])
                for node, rate in ((parent, optimum.received[u, column]), (u, optimum.computed[u, column])):
                    if rate > tolerance:
                        rates.setdefault(node, {}).setdefault(k, {})[u] = float(rate)
        return rates


class MasterTree(Environment):
    """The initial knowledge of the nodes: the tree, its links and the applications.

    Attributes
    ----------
    input_bytes, weight
        Input of a task (bytes), and weight, of each application.
    plan
        The rates of the linear program, which `PlannedNode` follows.
    """

    reason = "links and data of tasks are known, and the linear program knows all machines at no cost"
    STATE = ("plan_state",)
    shared = ("change_plan",)

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        applications = run.applications
        self.input_bytes = applications.moved()[0].tolist()
        weight = applications.tasks if parameters.weights == "tasks" else np.ones(len(applications))
        self.weight = weight.astype(np.float64).tolist()
        self.plan = Plan(parameters, run, np.array(self.weight))
        self.links, self.master = run.bandwidth, len(run.speeds)

    def of_node(self, node: int) -> TreePosition:
        """Return the knowledge of a node."""
        shared_values = self.input_bytes, self.weight, self.plan, self.change
        if node == self.master:
            return TreePosition(-1, math.inf, *shared_values)
        parent = int(self.plan.parent[node])
        link = math.inf if self.links is None else float(self.links[node])
        parent = self.master if parent < 0 else parent
        return TreePosition(parent, link, *shared_values)

    def change(self, application: int, is_present: bool) -> None:
        """Add an application to the plan that has arrived at the master, or remove one that has left it."""
        self.change_plan(application, is_present)
        self.share("change_plan", application, int(is_present))

    def change_plan(self, application: int, is_present: int) -> None:
        """Change the plan; only the master calls this, so plans change in the same order in all processes."""
        self.plan.change(application, bool(is_present))

    @property
    def plan_state(self) -> tuple[int, tuple[int, ...]]:
        """The version and the applications of the plan, which determine its rates."""
        return self.plan.version, tuple(self.plan.applications)

    @plan_state.setter
    def plan_state(self, state: tuple[int, tuple[int, ...]]) -> None:
        self.plan.set(state[0], list(state[1]))


class TreePosition(NamedTuple):
    """The initial knowledge of a node of the tree (`View.environment`).

    Parameters
    ----------
    parent
        Node from which it gets tasks; -1 for the master.
    link
        Bandwidth of the link to the parent, bytes/s.
    input_bytes, weight, plan, change
        The same as in `MasterTree`.
    """

    parent: int
    link: float
    input_bytes: list[float]
    weight: list[float]
    plan: Plan
    change: Callable[[int, bool], None]
