"""Base class of policies whose message core is a source of the engine."""

from __future__ import annotations

from gridcore.nodes.message_core import NodeCore
from gridsim.engine.engine import Engine
from gridsim.scheduling.contract import Policy

__all__ = ["CorePolicy"]


class CorePolicy(Policy):
    """Base class of policies that run node programs in a message core.

    A subclass must register an act ``pause`` with the engine.
    """

    core: NodeCore

    def advance(self, limit: int) -> int:
        """Run the core up to `limit` ns; return the first instant that needs the engine, ns."""
        return self.core.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """Stop the engine if the core has finished; otherwise end the current wave at `time` ns."""
        if self.core.finished:
            engine.stop()
        else:
            engine.touch("pause", [0])

    @property
    def events(self) -> int:
        """The number of handler calls plus the number of reorderings of queues."""
        return self.core.events

    def is_exhausted(self) -> bool:
        """Return whether the core has no pending events."""
        return self.core.is_exhausted
