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

    In an emulation by several processes each process has an environment, made alike, and so has the
    coordinator, which makes the result.  What follows from the scenario, the parameters, the time and the
    failures is the same in all of them.  The rest is declared:

    - A change by a node that nodes of other processes see is a method in `shared`, which that node's
      environment passes on by `share`.
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
    shared
        Names of the methods that `share` calls in other processes.
    failure_timer
        The one of the scheduler's ``environment_timers`` that fires at nodes that fail; "" for none.  If a
        process is killed, it fires at what the stable storage of its nodes has.
    uses_queues
        Whether machines run tasks from their task queues; else nodes run them.
    """

    because: ClassVar[str]
    shared: ClassVar[tuple[str, ...]] = ()
    failure_timer: ClassVar[str] = ""
    uses_queues: ClassVar[bool] = True
    #: Whether it takes failures in blocks, and carries them out (`gridsim.scheduling.contract.Policy`).
    takes_blocks: ClassVar[bool] = False
    #: Function that returns the slot schedule of a node's machine (`View.slots`); None without slots.
    slots: Callable[[int], Any] | None = None
    #: Function that calls a shared method in the other processes of an emulation; None in a simulation.
    call_elsewhere: Callable[..., None] | None = None

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

    # -- emulations by several processes --------------------------------------------------------------------

    def share(self, method: str, *values: float) -> None:
        """Call one of the `shared` methods in the environments of other processes, soon after."""
        if self.call_elsewhere is not None:
            self.call_elsewhere(method, *values)

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
