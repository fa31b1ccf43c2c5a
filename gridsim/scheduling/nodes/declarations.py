"""The declarations of a scheduler of node programs, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.board import Board
from gridcore.nodes.handlers import Handlers
from gridsim.errors import ScenarioError
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import NodeForm, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import Message, NodeProgram
from gridsim.scheduling.nodes.roles import Role, layout_of_roles
from gridsim.scheduling.overlays import overlay_of_nodes, random_neighbours
from gridsim.support.arrays import Integers
from gridsim.support.columns import NeighboursColumn
from gridsim.support.random_streams import Streams


class Declarations:
    """The class variables and methods that an `Adapter` reads from its parameters.

    The docstring of `NodeScheduler` describes the class variables, and that of `BoardScheduler` describes
    ``numbers``.  Parameters also need ``policy``, ``program``, ``degree`` and ``detection``, unless the
    adapter overrides the methods that read these.
    """

    __slots__ = ()  # otherwise each `NodeScheduler`, which is a struct, would have a dictionary

    name: ClassVar[str]
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    roles: ClassVar[Mapping[str, Role]] = {}
    messages: ClassVar[Mapping[str, Message]] = {}
    timers: ClassVar[tuple[str, ...]] = ()
    local_order: ClassVar[Literal["edf", "fifo"]] = "edf"
    watch: ClassVar[Literal["idle", "completion"] | None] = None
    reports: ClassVar[bool] = False
    ticks: ClassVar[Mapping[str, float]] = {}
    environment_timers: ClassVar[tuple[str, ...]] = ()
    environment_handlers: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    single_tasks: ClassVar[bool] = False
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    decision_words: ClassVar[DecisionTexts] = {}
    truths: ClassVar[Mapping[str, TruthOf]] = {}
    at_once: ClassVar[bool] = False
    to_the_end: ClassVar[bool] = False
    numbers: ClassVar[tuple[str, ...]] = ()
    environment: ClassVar[type[Environment] | None] = None
    #: Further options of the machines' task queues (`gridsim.scheduling.queues.task_queues`); needed if
    #: machines estimate by another rule how much work they can accept.
    queue_options: ClassVar[Mapping[str, Any]] = {}

    @property
    def adapter_handlers(self) -> Mapping[str, tuple[str, ...]]:
        """Handlers that the adapter calls itself -> their parameters after ``self``."""
        return {}

    def new_program(self, run: Run, node: int) -> NodeProgram:
        """Return a new program of `node` in a run, by default from ``program``; not called with roles."""
        parameters: Any = self
        program: NodeProgram = parameters.program(node)
        return program

    def messages_of(self, run: Run) -> Mapping[str, Message]:
        """Return the messages that nodes may send in a run."""
        return self.messages

    def make_environment(self, run: Run) -> Environment | None:
        """Return the environment of the nodes in a run; None if there is none."""
        return None if self.environment is None else self.environment(self, run)

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        """Return the reasons for an environment, as pairs of a condition and a reason.

        A condition refers to parameters or the scenario; "" for all runs.  A class whose `make_environment`
        chooses among environments returns the reason of each.
        """
        return [] if cls.environment is None else [("", cls.environment.reason)]

    def layout(self, machines: int) -> Layout:
        """Return the layout, with the nodes of the roles or by default one node on each machine."""
        return layout_of_roles(self, machines) if self.roles else Layout.one_each(machines)

    def draw_neighbours(self, run: Run, nodes: int, among: range) -> Integers | NeighboursColumn:
        """Return the neighbours of each node: int64[nodes, k], or a column of rows of different lengths.

        By default they are those of ``overlay``, or without one ``degree`` others, drawn at random.

        Parameters
        ----------
        among
            The nodes that may be neighbours: those of the role that handles the events of machines.

        Raises
        ------
        ScenarioError
            If ``overlay`` does not fit the nodes, or if the nodes of this scheduler have no neighbours.
        """
        degree, overlay = getattr(self, "degree", None), getattr(self, "overlay", None)
        if degree is not None and isinstance(overlay, NeighboursColumn):
            if degree == 0:
                raise ScenarioError(
                    f"{self.name}.overlay must be None, since its nodes have no neighbours (degree 0)"
                )
            return overlay_of_nodes(overlay, nodes, among, f"{self.name}.overlay")
        if not degree:
            return np.zeros((nodes, 0), np.int64)
        return random_neighbours(nodes, degree, run.streams(f"{self.name} overlay"), among)

    def run_until(self, run: Run) -> Literal["done", "placed", ""]:
        """Return the condition that ends a run: "done" for the last task; "" with `to_the_end`."""
        return "" if self.to_the_end else "done"

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        """Return compiled handlers that are written by hand; None if these parameters have none."""
        return None

    def make_board(self, up: NDArray[np.bool_], applications: int, streams: Streams) -> Board | None:
        """Return the board on which nodes publish numbers (`BoardScheduler`); None for no board."""
        return None
