"""`SteadyState` and `BandwidthCentric`: bags at one master, whose links to its workers are narrow.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.optimization.throughput import Port
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.steady_state.environment import MasterTree
from gridsim.schedulers.steady_state.node import (
    InTurnNode,
    MasterTreeNode,
    PlannedNode,
    SortedNode,
)
from gridsim.scheduling.contract import NodeForm, Policy, Run, TaskCost
from gridsim.scheduling.nodes.adapter import Message, NodeScheduler
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arrays import Integers
from gridsim.support.imports import import_extra
from gridsim.support.parameters import Limits


class _MasterScheduler(NodeScheduler, frozen=True, kw_only=True):
    """Base class of the schedulers with a master; it defines the tree, the port and the messages."""

    task_cost: ClassVar[TaskCost] = TaskCost(time=2e-5)
    failures: ClassVar[bool] = False
    unequal: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    local_order: ClassVar = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("sent",)
    environment = MasterTree
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
        """A worker on each machine, and the master on a separate machine."""
        return {"worker": Role(self.program_class), "master": Role(self.program_class, count=1, server=True)}

    @property
    @abstractmethod
    def program_class(self) -> type[MasterTreeNode]:
        """The class of the nodes, which follow its rule."""

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
    """Linear program for bags at one master (Beaumont et al. 2006): maximum throughput in given ratios.

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
        import_extra("scipy.optimize", "stats", self.name)  # report a missing package before the run
        return super().start(run)
