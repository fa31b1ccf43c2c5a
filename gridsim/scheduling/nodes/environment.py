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

    In an emulation by several processes each process has an environment, made alike, and so has the
    coordinator, which makes the result.  What follows from the scenario, the parameters, the time and the
    failures is the same in all of them.  The rest is declared:

    - A change by a node that nodes of other processes see is a method in `shared`, which that node's
      environment passes on by `share`.
    - What only the model knows is kept by the coordinator: nodes change it by the methods in `central`, by
      way of `tell`.
    - What is only counted for the result is returned by `counts`, and added up by `merge`.
    - `is_over` tells the coordinator when the run is over, `end` the nodes.

    A process that is started again after a failure has the state (``STATE``) of the coordinator's
    environment; `resume` sets the timers that this state implies.

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
    shared, central
        Names of the methods that `share` calls in other processes, and `tell` in the coordinator.
    failure_timer
        The one of the scheduler's ``environment_timers`` that fires at nodes that fail; "" for none.  If a
        process is killed, it fires at what the stable storage of its nodes has.
    uses_queues
        Whether machines run tasks from their task queues; else nodes run them.
    """

    because: ClassVar[str]
    shared: ClassVar[tuple[str, ...]] = ()
    central: ClassVar[tuple[str, ...]] = ()
    failure_timer: ClassVar[str] = ""
    uses_queues: ClassVar[bool] = True
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
    #: The process of an emulation that has this environment; None in a simulation, and in the coordinator.
    process: Any = None

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
        if self.adapter.is_local(node):
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

    # -- emulations by several processes --------------------------------------------------------------------

    def share(self, method: str, *values: float) -> None:
        """Call one of the `shared` methods in the environments of other processes, soon after."""
        if self.process is not None:
            self.process.share(method, *values)

    def tell(self, method: str, *values: float) -> None:
        """Call one of the `central` methods: here, or soon after in the coordinator's environment."""
        if self.process is None:
            getattr(self, method)(*values)
        else:
            self.process.tell("central", method, *values)

    def check_emulation(self) -> None:
        """Raise ScenarioError if this run cannot be emulated."""

    def is_over(self) -> bool:
        """Return whether the run is over, as far as the rows tell that nodes have written."""
        return bool(self.adapter.queues.tasks_done == self.run.applications.tasks.sum())

    def end(self) -> None:
        """Let nodes end what they do, since the run is over."""

    def counts(self) -> dict[str, Any]:
        """Return what the nodes of this process have made this environment count: numbers, or arrays."""
        return {}

    def merge(self, counts: dict[str, Any]) -> None:
        """Add what `counts` returned in another process."""

    def resume(self) -> None:
        """Set the timers that are pending, in a process that is started again."""
