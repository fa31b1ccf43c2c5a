"""The environment of node programs: the part of the model outside the nodes.

Some parts of a published system are not messages between its nodes: a repair that takes no time, exact
predictions, an exchange that is only counted.  They form one object per run, which states the reason.  Each
node accesses it through an object of its own in its view (`View.environment`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from gridsim.model.applications import Application
from gridsim.scheduling.contract import Outcome, Run
from gridsim.support.arrays import Integers
from gridsim.support.state import Stateful


class Environment(Stateful):
    """Base class of environments, of which a scheduler declares one as its class variable ``environment``.

    A subclass sets `reason` and defines `of_node`.  All other attributes and methods have defaults; their
    documentation states when a model needs another definition.  Attributes that change during a run are
    declared in ``STATE``.

    In an emulation by several processes, each process and the coordinator, which creates the result, has an
    equal environment.  Data that follow from the scenario, the parameters, the time and the failures are the
    same in all of them.  Other data need declarations:

    - A change by a node that nodes of other processes see is a method in `shared`, which the environment of
      that node forwards by `share`.
    - Data that only the model knows are stored in the coordinator; nodes change them by the methods in
      `central`, through `tell`.
    - Counts for the result are returned by `counts`, and added up by `merge`.
    - `is_over` informs the coordinator of the end of the run, and `end` informs the nodes.

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
        The reason why this is not a part of the node programs, in one sentence.  Each environment needs it.
    failure_model
        Effect of a failure of a machine on its nodes.  ``"crash"``: they lose their memory and their tasks,
        and start anew once the machine is up.  ``"own"``: `on_faults` changes queues, programs
        (`Adapter.renew`) and the set of nodes that are up; needed by a model with a repair of its own.
        ``"reachable"``: no effect; `on_faults` is not called, and the environment reads the changes from
        ``run.feed``; needed for owner absences, during which messages reach machines.
    uses_queues
        Whether machines run tasks from their task queues.  False is needed if nodes run tasks themselves by
        timers, since an emulation then has nothing to compute during tasks (``work="spin"``).
    shared, central
        Names of the methods that `share` calls in other processes, and `tell` in the coordinator.  Needed to
        emulate a model whose nodes change data that other nodes see.
    """

    reason: ClassVar[str]
    failure_model: ClassVar[Literal["crash", "own", "reachable"]] = "crash"
    uses_queues: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ()
    central: ClassVar[tuple[str, ...]] = ()
    #: The process of an emulation to which this environment belongs; None in a simulation and the
    #: coordinator.
    process: Any = None

    def __init__(self, parameters: Any, run: Run) -> None:
        self.parameters, self.run = parameters, run

    def attach(self, adapter: Any) -> None:
        """Attach the environment to an adapter with its core; needed to register timers of the engine."""
        self.adapter = adapter

    # -- nodes ----------------------------------------------------------------------------------------------

    def of_node(self, node: int) -> Any:
        """Return the object ``view.environment`` of a node; each environment needs it."""
        raise NotImplementedError

    def slots(self, node: int) -> Any:
        """Return the object ``view.slots`` of a node; needed if machines have slot schedules."""
        return None

    def fire(self, name: str, nodes: Sequence[int] | Integers) -> None:
        """Fire one of the scheduler's ``environment_timers`` at `nodes`, during an event of the engine."""
        self.adapter.core.tick(nodes, name, self.run.engine.now)

    def call(self, handler: str, node: int, *arguments: Any) -> None:
        """Call one of the scheduler's ``environment_handlers`` of a node, during an event of the engine."""
        core = self.adapter.core
        core.enter(self.run.engine.now)
        if self.adapter.is_local(node):
            getattr(core.programs[node], handler)(core.view_of(node), *arguments)

    # -- failures -------------------------------------------------------------------------------------------

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle failures and recoveries of machines, before their nodes restart.

        Needed if the environment stores which machines are up, or applies failures itself (`failure_model`).
        """

    def task_lost(self, application: int, tasks: int, node: int) -> None:
        """Handle tasks lost in a message to `node`, or on a machine (-1).

        By default they are submitted again ``detection`` s later.  A model that decides when to do so needs
        another method, which calls ``adapter.core.resubmit``.
        """
        self.adapter.submit_later(application, tasks)

    def reservations_of(self, machines: Integers) -> Iterable[tuple[int, int, int]]:
        """Remove the reservations of machines that fail, and return them: (machine, job, attempt).

        Needed if rigid jobs reserve machines for later.
        """
        return ()

    # -- results --------------------------------------------------------------------------------------------

    def added_application(self, number: int) -> Application:
        """Return an application that the environment has added; needed if lost tasks become new ones."""
        raise NotImplementedError

    def original_of(self, application: int) -> int:
        """Return the application to which the lost tasks of an added application belong."""
        return application

    def complete_decision(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """Complete the record of a decision: `columns`, initially the arguments of `View.decide`.

        Needed if only the model knows a column, such as a true value, or ``machine`` if that is not the
        machine of ``node``.
        """

    def complete(self, outcome: Outcome) -> None:
        """Add to the outcome of the run; needed for facts and columns that no node can report."""

    # -- emulations by several processes --------------------------------------------------------------------

    def share(self, method: str, *values: float) -> None:
        """Call one of the `shared` methods in the environments of other processes, after a short delay."""
        if self.process is not None:
            self.process.share(method, *values)

    def tell(self, method: str, *values: float) -> None:
        """Call one of the `central` methods, here or after a short delay in the coordinator's environment."""
        if self.process is None:
            getattr(self, method)(*values)
        else:
            self.process.tell("central", method, *values)

    def check_emulation(self) -> None:
        """Raise ScenarioError if this run cannot be emulated; needed if not all runs can."""

    def is_over(self) -> bool:
        """Return whether the run is over, according to the rows that nodes have written.

        By default it is over when queues have completed all tasks.  Another method is needed if nodes run
        tasks themselves, or act after the last task.
        """
        return bool(self.adapter.queues.tasks_done == self.run.applications.tasks.sum())

    def end(self) -> None:
        """Finish the work of nodes at the end of the run; needed if they write rows about it."""

    def on_kill(self, nodes: Integers, since: int) -> None:
        """Handle the kill at `since` ns of the process of `nodes`; only called for the coordinator.

        Needed if nodes write rows about activities that a failure ends.  `adapter.nodes` have their stable
        storage.
        """

    def counts(self) -> dict[str, Any]:
        """Return the counts made here for the nodes of this process: numbers, or arrays."""
        return {}

    def merge(self, counts: dict[str, Any]) -> None:
        """Add the counts that `counts` returned in another process; needed if there are any."""

    def resume(self) -> None:
        """Set the pending timers in a restarted process; needed if there are any."""
