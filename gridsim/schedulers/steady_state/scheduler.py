"""`SteadyState` and `BandwidthCentric`: bags at one master, whose links to its workers are narrow.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.queues.task_queues import TaskQueues
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.results.metrics.throughput import Port, Throughput, optimal_throughput
from gridsim.schedulers.steady_state.node import InTurnNode, Place, PlannedNode, SortedNode, TreeNode
from gridsim.scheduling.contract import NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, Message, NodeProgram, NodeScheduler
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.queues import task_queues
from gridsim.support.arrays import Integers
from gridsim.support.extras import need
from gridsim.support.parameters import Limits


class _FromMaster(NodeScheduler, frozen=True, kw_only=True):
    """What both have: the tree, the port, and what nodes say to each other."""

    failures: ClassVar[bool] = False
    unequal: ClassVar[bool] = False
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    local_order: ClassVar = "fifo"
    watch: ClassVar = "completion"
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
            raise ScenarioError(f"{self.name}.branching must be 0 with port 'many', got {self.branching}")

    @property
    def moves_data(self) -> bool:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return True

    def layout(self, machines: int) -> Layout:
        """See `NodeScheduler`: the master is on a further machine."""
        nodes = np.arange(machines + 1)
        return Layout(nodes, nodes)

    def parents(self, machines: int) -> Integers:
        """Return from whom each machine gets its tasks, -1 for the master."""
        if not self.branching:
            return np.full(machines, -1)
        return np.arange(machines) // self.branching - 1

    @abstractmethod
    def made(self, place: Place) -> TreeNode:
        """Make a node, which follows the rule."""

    def port_time(self, fetched: float, link: float, master: bool) -> float:
        """Return how long a task of `fetched` bytes keeps the port of who sends it over `link`, s."""
        limit = self.master_bandwidth if master else math.inf
        return fetched / (min(link, limit) if self.port == "one" else limit)

    def start(self, run: Run) -> Policy:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return FromMaster(self, run)


class BandwidthCentric(_FromMaster, frozen=True, kw_only=True):
    """Bags at one master by local rules (after Beaumont et al. 2006): who has tasks serves those who ask.

    All tasks are submitted to a master, which computes nothing.  Machines ask their parent for tasks.  A
    machine knows its own link, and what its children say: their links, and the speed of all below them.

    Parameters
    ----------
    rule
        ``"sorted"``: each node works out which rates are best for itself and its children, as if they had
        nobody below: tasks with much data go over fast links; then it serves the pair of child and
        application that lags the most behind.  ``"in-turn"``: the child with the fastest link of those that
        ask, and the application that has got the fewest tasks for its weight.
    port
        ``"one"``: who sends serves one machine at a time, as fast as its link carries; ``"many"``: all at
        once, each over its own link.  ``"sorted"`` is a rule for a port that serves one.
    master_bandwidth
        Bytes/s that the master sends at most.
    branching
        Children of the master and of each machine, in a tree in the order of numbers; 0: all machines are
        children of the master.
    weights
        In which ratio applications are served: ``"equal"``: as many tasks of each; ``"tasks"``: in proportion
        to the tasks that they have.
    buffer
        Tasks that a machine has or has asked for, with the running one; and as many to pass on.
    """

    name: ClassVar[str] = "bandwidth-centric"
    policy: ClassVar[type[NodeProgram]] = TreeNode

    rule: Literal["sorted", "in-turn"] = "sorted"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "sorted" and self.port == "many":
            raise ScenarioError(f"{self.name}.rule must be 'in-turn' with port 'many', got 'sorted'")

    def made(self, place: Place) -> TreeNode:
        """See `_FromMaster`."""
        return SortedNode(place) if self.rule == "sorted" else InTurnNode(place)


class SteadyState(_FromMaster, frozen=True, kw_only=True):
    """Bags at one master by a linear program (Beaumont et al. 2006): the largest throughput in given ratios.

    Whenever an application comes to the master, or its last task leaves it, the program is solved for those
    that have tasks there (`optimal_throughput`; extra ``stats``).  Each node then sends the task that lags
    the most behind its rate.  The program knows all machines and links at once, at no cost.

    If several solutions are optimal, the one that is found may depend on the version of SciPy.

    Parameters
    ----------
    port, master_bandwidth, branching, weights, buffer
        See `BandwidthCentric`.
    """

    name: ClassVar[str] = "steady-state"
    decentralized: ClassVar[bool] = False
    policy: ClassVar[type[NodeProgram]] = TreeNode

    def made(self, place: Place) -> TreeNode:
        """See `_FromMaster`."""
        return PlannedNode(place)

    def start(self, run: Run) -> Policy:
        """See `gridsim.scheduling.contract.Scheduler`."""
        need("scipy.optimize", "stats", self.name)  # rather now than in the midst of the run
        return super().start(run)


class Plan:
    """The rates of the linear program for the applications that are at the master."""

    def __init__(self, of: _FromMaster, run: Run, weight: Any) -> None:
        self.of, self.run, self.weight = of, run, weight
        self.parent = of.parents(len(run.speeds))
        self.present: list[int] = []
        self.version = 0
        #: node -> application -> child, or the node itself -> tasks/s, all > 0
        self._solved: dict[int, dict[int, dict[int, float]]] | None = None

    def change(self, application: int, there: bool) -> None:
        """Add an application that is at the master from now on, or remove one that is there no more."""
        kept = [k for k in self.present if k != application]
        self.set(self.version + 1, sorted([*kept, application]) if there else kept)

    def set(self, version: int, present: list[int]) -> None:
        """Have another plan."""
        self.version, self.present, self._solved = version, present, None

    def rates(self, node: int) -> dict[int, dict[int, float]]:
        """Return where tasks go from a node: application -> child, or the node itself -> tasks/s."""
        if self._solved is None:
            self._solved = self._solve() if self.present else {}
        return self._solved.get(node, {})

    def _solve(self) -> dict[int, dict[int, dict[int, float]]]:
        present, run, machines = np.array(self.present), self.run, len(self.run.speeds)
        fetched, sent = run.applications.moved()
        made: Throughput = optimal_throughput(
            run.speeds,
            np.inf if run.bandwidth is None else run.bandwidth,
            run.applications.task_size[present],
            fetched[present],
            output_bytes=sent[present],
            weights=self.weight[present],
            port=self.of.port,
            master_bandwidth=self.of.master_bandwidth,
            parent=self.parent,
        )
        least = 1e-6 * made.level  # less is an error of rounding
        found: dict[int, dict[int, dict[int, float]]] = {}
        for column, k in enumerate(self.present):
            for u in range(machines):
                above = machines if self.parent[u] < 0 else int(self.parent[u])
                for at, rate in ((above, made.received[u, column]), (u, made.computed[u, column])):
                    if rate > least:
                        found.setdefault(at, {}).setdefault(k, {})[u] = float(rate)
        return found


class FromMaster(Adapter):
    """The policy that runs a node on each machine, and the master."""

    STATE = (*Adapter.STATE, "planned")

    def __init__(self, parameters: _FromMaster, run: Run) -> None:
        applications = run.applications
        self.fetched = applications.moved()[0].tolist()
        weight = applications.tasks if parameters.weights == "tasks" else np.ones(len(applications))
        self.weight = weight.astype(np.float64).tolist()
        self.plan = Plan(parameters, run, np.array(self.weight))
        #: Whether nodes follow the plan.
        self.planning = isinstance(parameters, SteadyState)
        super().__init__(parameters, run)

    def program(self, node: int) -> TreeNode:
        """See `Adapter`."""
        of, machines, links = self.parameters, len(self.run.speeds), self.run.bandwidth
        parent = -1 if node == machines else int(self.plan.parent[node])
        made: TreeNode = of.made(
            Place(
                of=of,
                master=machines,
                parent=machines if node < machines and parent < 0 else parent,
                link=math.inf if links is None or node == machines else float(links[node]),
                fetched=self.fetched,
                weight=self.weight,
                plan=self.plan,
            )
        )
        return made

    def make_queues(self, *, ends: bool) -> TaskQueues:
        """See `Adapter`: with links where tasks move data."""
        parameters, run = self.parameters, self.run
        return task_queues(
            run,
            pad=self.layout.pad,
            order=parameters.local_order,
            watch=parameters.watch,
            record=run.record,
        )

    @property
    def planned(self) -> tuple[int, tuple[int, ...]]:
        """The version of the plan, and for which applications it is: the rest follows."""
        return self.plan.version, tuple(self.plan.present)

    @planned.setter
    def planned(self, given: tuple[int, tuple[int, ...]]) -> None:
        self.plan.set(given[0], list(given[1]))
