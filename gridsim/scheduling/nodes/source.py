"""A policy whose nodes a message core runs, as a source of the engine."""

from __future__ import annotations

from gridcore.nodes.message_core import NodeCore
from gridsim.engine.engine import Engine
from gridsim.scheduling.contract import Policy

__all__ = ["CorePolicy"]


class CorePolicy(Policy):
    """Base class of policies that run node programs; it needs an act of the engine called ``pause``."""

    core: NodeCore

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        return self.core.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        if self.core.finished:
            engine.stop()
        else:
            engine.touch("pause", [0])

    @property
    def events(self) -> int:
        """How many handlers of nodes have been called, and machines reordered."""
        return self.core.events

    def exhausted(self) -> bool:
        """See `gridsim.engine.Source`."""
        return self.core.exhausted
