"""`SteadyState` and `BandwidthCentric`: bags at one master, whose links to its workers are narrow.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.results.metrics.throughput import Port, Throughput, optimal_throughput
from gridsim.schedulers.steady_state.node import (
    InTurnNode,
    MasterTreeNode,
    PlannedNode,
    SortedNode,
)
from gridsim.scheduling.contract import NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Message, NodeScheduler
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arrays import Integers
from gridsim.support.extras import import_extra
from gridsim.support.parameters import Limits


class _MasterScheduler(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the schedulers with a master; it defines the tree, the port and the messages."""

    failures: ClassVar[bool] = False
    unequal: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    local_order: ClassVar = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("sent",)
    messages: ClassVar[Mapping[str, Message]] = {
        "job": Message(170, moves_tasks=True, application=int, tasks=int),
        "request": Message(80, tasks=int, link=float, speed=float),
        "task": Message(170, moves_tasks=True, application=int, tasks=int),
    }
    decision_words: ClassVar[DecisionTexts] = {"sent": ("sent a task to machine {machine}", "", "")}

    degree: Annotated[int, Limits(low=0)] = 0
    port: Port = "one"
    master_bandwidth: Annotated[float, Limits(above=0, unit="bytes/s", finite=False)] = math.inf
    branching: Annotated[int, Limits(low=0)] = 0
    weights: Literal["equal", "tasks"] = "equal"
    buffer: Annotated[int, Limits(low=1)] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branching and self.port == "many":
            raise ScenarioError(f"{self.name}.branching requires {self.name}.port = 'one'")

    @property
    def moves_data(self) -> bool:
        return True

    @property
    def roles(self) -> Mapping[str, Role]:  # type: ignore[override]
        """A worker on each machine, and the master on a machine of its own."""
        return {"worker": Role(self.program_class), "master": Role(self.program_class, count=1, server=True)}

    @property
    @abstractmethod
    def program_class(self) -> type[MasterTreeNode]:
        """The class of the nodes, which follow its rule."""

    def make_environment(self, run: Run) -> MasterTree:
        """Return what nodes know of the tree, its links and the applications."""
        return MasterTree(self, run)

    def parents(self, machines: int) -> Integers:
        """Return the parent of each machine, -1 for the master, int64[machines]."""
        if not self.branching:
            return np.full(machines, -1)
        return np.arange(machines) // self.branching - 1

    def port_time(self, input_bytes: float, link: float, master: bool) -> float:
        """Return the time for which a task occupies the port of its sender, s."""
        limit = self.master_bandwidth if master else math.inf
        return input_bytes / (min(link, limit) if self.port == "one" else limit)


class BandwidthCentric(_MasterScheduler, frozen=True, kw_only=True):
    """Local rules for bags at one master (after Beaumont et al. 2006): each node serves its children.

    All tasks are submitted to a master, which computes nothing.  Machines request tasks from their parents.
    A machine knows its own link, and the links and subtree speeds that its children report.

    Parameters
    ----------
    rule
        ``"sorted"``: each node computes the best rates for itself and its children, as if these were leaves:
        tasks with much data go over fast links.  It then serves the pair of child and application that lags
        most behind its rate.  ``"in-turn"``: it serves the child with the fastest link, with the application
        that was served least for its weight.
    port
        ``"one"``: a node sends to one machine at a time, at the bandwidth of its link; ``"many"``: it sends
        to all machines at once, each over its own link, which rule ``"sorted"`` does not support.
    master_bandwidth
        Bandwidth of the master, bytes/s.
    branching
        Number of children of the master and of each machine, in a tree filled in order of machines; 0: all
        machines are children of the master.
    weights
        Ratio in which applications are served: ``"equal"``: equal numbers of tasks; ``"tasks"``: in
        proportion to their numbers of tasks.
    buffer
        Number of tasks that a machine holds or has requested, the running one included; it requests as many
        again if its children have requests.
    """

    name: ClassVar[str] = "bandwidth-centric"

    rule: Literal["sorted", "in-turn"] = "sorted"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "sorted" and self.port == "many":
            raise ScenarioError(f"{self.name}.rule = 'sorted' requires {self.name}.port = 'one'")

    @property
    def program_class(self) -> type[MasterTreeNode]:
        """The class of the nodes."""
        return SortedNode if self.rule == "sorted" else InTurnNode


class SteadyState(_MasterScheduler, frozen=True, kw_only=True):
    """Linear program for bags at one master (Beaumont et al. 2006): the maximum throughput in given ratios.

    Whenever an application arrives at the master, or its last task leaves it, the program is solved for the
    applications with tasks there (`optimal_throughput`; extra ``stats``).  Each node then sends the task that
    lags most behind its rate.  The program knows all machines and links at once, at no cost.

    If several solutions are optimal, the solution may depend on the version of SciPy.

    Parameters
    ----------
    port, master_bandwidth, branching, weights, buffer
        Parameters of `BandwidthCentric`.
    """

    name: ClassVar[str] = "steady-state"
    decentralized: ClassVar[bool] = False

    @property
    def program_class(self) -> type[MasterTreeNode]:
        """The class of the nodes."""
        return PlannedNode

    def start(self, run: Run) -> Policy:
        import_extra("scipy.optimize", "stats", self.name)  # fail before the run instead of during it
        return super().start(run)


class Plan:
    """The rates of the linear program for the applications that are at the master."""

    def __init__(self, scheduler: _MasterScheduler, run: Run, weight: Any) -> None:
        self.scheduler, self.run, self.weight = scheduler, run, weight
        self.parent = scheduler.parents(len(run.speeds))
        self.applications: list[int] = []  # those with tasks at the master
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
    """What nodes know of the tree, its links and the applications from the beginning.

    Attributes
    ----------
    input_bytes, weight
        Input of a task (bytes), and weight, of each application.
    plan
        The rates of the linear program, which `PlannedNode` follows.
    """

    because = "links and data of tasks are known, and the linear program knows all machines at no cost"
    STATE = ("plan_state",)

    def __init__(self, parameters: _MasterScheduler, run: Run) -> None:
        applications = run.applications
        self.input_bytes = applications.moved()[0].tolist()
        weight = applications.tasks if parameters.weights == "tasks" else np.ones(len(applications))
        self.weight = weight.astype(np.float64).tolist()
        self.plan = Plan(parameters, run, np.array(self.weight))
        self.links, self.master = run.bandwidth, len(run.speeds)

    def of_node(self, node: int) -> TreePosition:
        """Return what a node knows."""
        if node == self.master:
            return TreePosition(-1, math.inf, self.input_bytes, self.weight, self.plan)
        parent = int(self.plan.parent[node])
        link = math.inf if self.links is None else float(self.links[node])
        parent = self.master if parent < 0 else parent
        return TreePosition(parent, link, self.input_bytes, self.weight, self.plan)

    @property
    def plan_state(self) -> tuple[int, tuple[int, ...]]:
        """The version and the applications of the plan, which determine its rates."""
        return self.plan.version, tuple(self.plan.applications)

    @plan_state.setter
    def plan_state(self, state: tuple[int, tuple[int, ...]]) -> None:
        self.plan.set(state[0], list(state[1]))


class TreePosition(NamedTuple):
    """What a node of the tree knows from the beginning (`View.environment`).

    Parameters
    ----------
    parent
        Node from which it gets tasks; -1 for the master.
    link
        Bandwidth of the link to the parent, bytes/s.
    input_bytes, weight, plan
        See `MasterTree`.
    """

    parent: int
    link: float
    input_bytes: list[float]
    weight: list[float]
    plan: Plan
