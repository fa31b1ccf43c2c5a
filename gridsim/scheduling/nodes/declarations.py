"""What is declared of the node programs of a scheduler, with the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.board import Board
from gridcore.nodes.handlers import Handlers
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import Message
from gridsim.support.random_streams import Streams


class Declarations:
    """What an `Adapter` reads of its parameters; `NodeScheduler` explains it.

    Unless the adapter overrides what asks for them, parameters also have ``policy``, ``program``, ``degree``
    and ``detection``.
    """

    __slots__ = ()  # or each `NodeScheduler`, which is a struct, would have a dictionary

    name: ClassVar[str]
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted",)
    messages: ClassVar[Mapping[str, Message]] = {}
    timers: ClassVar[tuple[str, ...]] = ()
    local_order: ClassVar[Literal["edf", "fifo"]] = "edf"
    watch: ClassVar[Literal["idle", "completion"]] = "idle"
    reports: ClassVar[bool] = False
    ticks: ClassVar[Mapping[str, float]] = {}
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    decision_words: ClassVar[DecisionTexts] = {}
    truths: ClassVar[Mapping[str, TruthOf]] = {}
    at_once: ClassVar[bool] = False
    to_the_end: ClassVar[bool] = False

    def layout(self, machines: int) -> Layout:
        """Return on which machine each node sits; by default there is one node a machine."""
        return Layout.one_each(machines)

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        """Return the compiled form that is written by hand; None if these parameters have none."""
        return None

    def make_board(self, up: NDArray[np.bool_], applications: int, streams: Streams) -> Board | None:
        """Return what nodes publish and see (`BoardScheduler`); None if they do not."""
        return None
