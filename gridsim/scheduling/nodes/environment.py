"""The environment of node programs: what a model does from outside its nodes.

Some parts of a published system are not carried out by messages between its nodes: a repair that takes no
time, a predictor that knows, an exchange that is only counted.  They are one object a run, which states why,
and which nodes reach through their view (`View.environment`), each by an object of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

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
    #: Whether `on_faults` carries out failures, with queues, programs (`restart`) and which nodes are up.
    carries_out_failures: ClassVar[bool] = False
    #: Whether it decides when lost tasks are submitted again, by `task_lost`.
    detects_losses: ClassVar[bool] = False
    #: When the run ends, as for `NodeCore`; None: as the scheduler declares.
    until: Literal["done", "placed", ""] | None = None
    #: The columns of `Applications` with those that it adds during the run, and ``whose``: the application of
    #: which each is a lost part; None if it adds none.
    bags: Any = None
    #: Function that returns the slot schedule of a node's machine (`View.slots`); None without slots.
    slots: Callable[[int], Any] | None = None

    def __init__(self, parameters: Any, run: Run) -> None:
        self.parameters, self.run = parameters, run

    def attach(self, adapter: Any) -> None:
        """Join the adapter of a run, whose core exists now, and register timers."""
        self.adapter = adapter

    def fire(self, name: str, nodes: Sequence[int] | Integers) -> None:
        """Fire one of the scheduler's ``environment_timers`` at `nodes`, during an event of the engine."""
        self.adapter.core.tick(nodes, name, self.run.engine.now)

    def call(self, handler: str, node: int, *arguments: Any) -> None:
        """Call one of the scheduler's ``environment_handlers`` of a node, during an event of the engine."""
        core = self.adapter.core
        core.enter(self.run.engine.now)
        getattr(core.programs[node], handler)(core.view_of(node), *arguments)

    def of_node(self, node: int) -> Any:
        """Return what a node reaches as ``view.environment``."""
        raise NotImplementedError

    def complete_decision(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """Complete a decision of a node for the record, in `columns`, by what only the model knows."""

    def reservations_of(self, machines: Integers) -> Iterable[tuple[int, int, int]]:
        """Remove the reservations of machines that fail, and return them: (machine, job, attempt)."""
        return ()

    def complete(self, outcome: Outcome) -> None:
        """Add to the outcome of the run."""

    def task_lost(self, application: int, tasks: int, node: int) -> None:
        """Handle lost tasks of a machine, or of a message to `node` (else -1), if it `detects_losses`."""
        raise NotImplementedError

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle failures and recoveries of machines, before their nodes start anew.

        If it `carries_out_failures`, nodes start anew only by `Adapter.renew`.
        """
