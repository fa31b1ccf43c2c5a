"""The environment of node programs: what a model does from outside its nodes.

Some parts of a published system are not carried out by messages between its nodes: a repair that takes no
time, a predictor that knows, an exchange that is only counted.  They are one object a run, which states why,
and which nodes reach through their view (`View.environment`), each by an object of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from gridsim.scheduling.contract import Outcome, Run
from gridsim.support.arrays import Integers
from gridsim.support.state import Stateful


class Environment(Stateful):
    """Base class of environments, of which a scheduler declares one as its class variable ``environment``.

    Parameters
    ----------
    parameters
        The scheduler.
    run
        The run.

    Attributes
    ----------
    because
        Why this is not a part of the node programs, in one sentence.
    """

    because: ClassVar[str]
    #: Whether it takes failures in blocks, and carries them out (`gridsim.scheduling.contract.Policy`).
    takes_blocks: ClassVar[bool] = False
    #: Whether it has the neighbours of nodes; ``view.neighbours`` is then empty.
    has_overlay: ClassVar[bool] = False
    #: Function that returns the slot schedule of a node's machine (`View.slots`); None without slots.
    slots: Callable[[int], Any] | None = None

    def __init__(self, parameters: Any, run: Run) -> None:
        self.parameters, self.run = parameters, run

    def attach(self, adapter: Any) -> None:
        """Join the adapter of a run, whose core exists now, and register timers."""
        self.adapter = adapter

    def fire(self, name: str, nodes: Sequence[int]) -> None:
        """Fire one of the scheduler's ``environment_timers`` at `nodes`, during an event of the engine."""
        self.adapter.core.tick(nodes, name, self.run.engine.now)

    def of_node(self, node: int) -> Any:
        """Return what a node reaches as ``view.environment``."""
        raise NotImplementedError

    def reservations_of(self, machines: Integers) -> Iterable[tuple[int, int, int]]:
        """Remove the reservations of machines that fail, and return them: (machine, job, attempt)."""
        return ()

    def complete(self, outcome: Outcome) -> None:
        """Add to the outcome of the run."""

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle failures and recoveries of machines, before their nodes start anew."""
