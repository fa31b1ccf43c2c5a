"""Decentralized schedulers written from the point of view of one node: the second tier of the contract.

A `NodeProgram` is one node.  It gets the applications that are submitted there and the messages that arrive,
and it acts through its `View`, which gives access to nothing else.  `NodeScheduler` has the parameters and
declares the messages.  The `Adapter` makes a `Policy` of them: it sets up the message core, which calls the
handlers (`gridcore.nodes.message_core.NodeCore`), and does itself what is rare, such as failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.nodes.handlers import Handlers
from gridcore.nodes.message_core import NodeCore
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.errors import CompileError, ScenarioError, SchedulerError
from gridsim.model.applications import Application, Applications
from gridsim.scheduling.contract import FAULT_PRIORITY, NodeForm, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.nodes.compiled import Compiled, compiled
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.ground_truth import Decider
from gridsim.scheduling.nodes.handlers import check_declared, check_handlers, defined, handler_of
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import Message, NodeProgram, Notes, View, array, as_number
from gridsim.scheduling.nodes.source import CorePolicy
from gridsim.scheduling.overlays import random_neighbours
from gridsim.scheduling.queues import moved_bytes
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.parameters import Limits
from gridsim.support.state import check_names

__all__ = ["NodeProgram", "NodeScheduler", "Message", "View", "array"]


class NodeScheduler(Scheduler, Declarations, frozen=True, kw_only=True):
    """Parameters of a scheduler whose nodes are `policy` objects.

    Class variables:

    Raises ScenarioError for parameters that are out of range, for class variables that are not what they must
    be, and for a ``policy`` with methods ``on_...`` that nothing calls, or that cannot be called.

    Parameters
    ----------
    degree
        Number of neighbours of each node: other machines, drawn at random once.
    detection
        S from the loss of tasks in a failure until their submitter learns of it.

    Attributes
    ----------
    policy
        A subclass of `NodeProgram`.
    messages
        Name -> `Message`, in the order in which kinds are handled at one instant.
    timers
        Names of timers.
    ticks
        Name -> s: timers that fire on all nodes at each multiple of that time.
    local_order
        ``"edf"`` or ``"fifo"``, the order in which a machine runs its tasks.
    watch
        ``"completion"`` if nodes handle the end of each task (`NodeProgram.on_end`).
    reports
        True if nodes call `View.completed`.
    tables
        Name -> {column: ``int`` or ``float``}, for the rows that nodes write (`View.note`).
    truths
        Action -> function that returns the true value at that decision; nodes cannot see it.
    at_once
        True: messages leave when a handler sends them, in that order; False: at the end of the wave, sorted
        by kind and sender.
    to_the_end
        True: after the last task, the run goes on until no message or timer is left.
    """

    decentralized: ClassVar[bool] = True
    unequal: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted", "compiled")
    policy: ClassVar[type[NodeProgram]]

    degree: Annotated[int, Limits(low=1)] = 8
    detection: Annotated[float, Limits(low=0, unit="s")] = 1.0

    def __post_init__(self) -> None:
        self._check_classes()
        super().__post_init__()

    def program(self, node: int) -> NodeProgram:
        """Make the object of a node; by default a ``policy``."""
        return self.policy(self)

    @property
    def order(self) -> Literal["edf", "fifo"]:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return self.local_order

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        self._check_classes()  # again, since a subclass may override __post_init__ without it
        return Adapter(self, run)

    def _check_classes(self) -> None:
        check_declared(self)
        check_handlers(self.policy, tuple(self.messages))


#: Events, in all, for each node and for each task, for which nothing has to be queued or run before a run
#: counts as endless.
PATIENCE, PATIENCE_A_NODE, PATIENCE_A_TASK = 500_000, 1_000, 10
#: Mflop, what a size that is stated as 0 counts as.
LEAST_SIZE = 1e-3


def _check_one_program(scheduler: Any) -> None:
    """Raise CompileError for nodes that are not of one class, one on each machine."""
    for name in ("layout", "program"):
        if getattr(type(scheduler), name) is not getattr(NodeScheduler, name):
            raise CompileError(
                f"{scheduler.policy.__name__}: nodes of schedulers that define {name} run interpreted only"
            )


class Adapter(CorePolicy):
    """A `Policy` that runs a `NodeProgram` for each node of the layout."""

    takes_releases = True

    #: When the run is over, see `NodeCore`.
    until = "done"
    #: Makes the slot schedule of a node's machine (`View.slots`); None where there are none.
    slots: Callable[[int], Any] | None = None

    def __init__(self, parameters: Any, run: Run) -> None:
        """`parameters` : a `NodeScheduler`, or other `Declarations`."""
        self.parameters, self.run = parameters, run
        bags, engine, network = run.applications, run.engine, run.network
        self.compiled = self._compile()
        self.layout = layout = parameters.layout(len(run.speeds))
        if not isinstance(layout, Layout):
            raise ScenarioError(f"{parameters.name}: layout() must return a Layout, got {layout!r}")
        layout.check(len(run.speeds))
        self.up = layout.of_nodes(run.up)
        programs = self.new_programs(range(layout.nodes))
        policies = list(dict.fromkeys(map(type, programs)))
        if self.compiled is not None:
            policies = [parameters.policy]
        if isinstance(parameters, NodeScheduler):  # others may call methods of nodes themselves
            for policy in policies:
                check_handlers(policy, tuple(parameters.messages))
        handlers = defined(policies)
        if parameters.ticks and "on_timer" not in handlers:
            raise ScenarioError(f"{policies[0].__name__} must define on_timer, which ticks call")
        self.queues = self.make_queues(ends="on_done" in handlers)
        self.task_size, self.size = stated_sizes(bags)
        # stated sizes are not the true ones, also where all tasks of an application are equal
        stated = bags.unequal or bags.estimate is not None
        own = {"sizes": bags.sizes(), "tasks": bags.tasks} if stated else moved_bytes(run)
        self.queues.add_applications(bags.release, self.size, self.task_size, **own)
        self.resubmitted = np.zeros(len(bags), np.int64)
        self.notes = Notes(parameters.tables)
        self.decider = self.make_decider()
        self.lost: dict[int, dict[int, int]] = {}  # detection time -> application -> tasks
        for number, (name, kind) in enumerate(parameters.messages.items()):
            kind.declare(network, name, priority=10 + number)
        network.open(layout.machine_of, layout.level_of, carried=True, application_of=self.application_of())
        self.core = (run.core or NodeCore)(
            network.links,
            self.queues,
            programs=programs,
            kinds=[
                (
                    name,
                    kind.number(network, name),
                    kind.nbytes,
                    kind.fields,
                    kind.moves_tasks,
                    handler_of(policies, name),
                    -1 if kind.delay is None else kind.delay,
                    kind.counted,
                )
                for name, kind in parameters.messages.items()
            ],
            timers=parameters.timers,
            handlers=handlers,
            neighbours=self.neighbours(),
            up=self.up,
            release=bags.release_ns,
            submitter=bags.submitter,
            tasks=bags.tasks,
            application=self.application,
            seed=int(run.streams(f"{parameters.name} nodes").integers(2**63)),
            lost=self.task_lost,
            noted=self._noted,
            decided=None if self.compiled and run.decisions is None else self._decided,
            checked=self._checked,
            error=SchedulerError,
            compiled=self.compiled,
            observe=network.tell if network.observed else None,
            at_once=parameters.at_once,
            home=layout.home,
            until="" if parameters.to_the_end else self.until,
            slots=self.slots,
            board=parameters.make_board(self.up, len(bags), run.streams),
        )
        engine.on("pause", self._pause, priority=10, phase=ACT)
        self.register_failure_timers()
        for number, (name, period) in enumerate(parameters.ticks.items()):
            engine.on(name, partial(self.tick, name), priority=20 + number, phase=TIMER)
            engine.every(nanoseconds(period), name)
        engine.at_wave_end(self.core.flush)
        engine.add_source(self)
        # for `_check_progress`, which is for programs that place tasks in queues
        self.wanted = int(bags.tasks.sum()) if isinstance(parameters, NodeScheduler) else 0
        # all tasks may be submitted, and asked for, at one instant
        self.patience = PATIENCE + PATIENCE_A_NODE * self.layout.nodes + PATIENCE_A_TASK * self.wanted
        self.placed, self.placed_at, self.outages = (0, 0), 0, 0

    @property
    def nodes(self) -> list[NodeProgram]:
        """The programs of the nodes; compiled ones are records with the attributes of their states.

        Where the compiled form is written by hand there are none.
        """
        programs = self.core.programs
        records = isinstance(self.compiled, Compiled)
        found: list[NodeProgram] = programs.view(np.recarray) if records else programs
        return found

    def _compile(self) -> Compiled | Handlers | None:
        """Return the compiled form of the program, if the run asks for it."""
        parameters, run, nodes = self.parameters, self.run, self.run.nodes
        if (nodes or parameters.node_forms[0]) != "compiled":
            return None
        written: Handlers | None = parameters.hand_compiled(len(run.speeds), len(run.applications))
        if written is not None:
            return written
        if type(parameters).hand_compiled is not Declarations.hand_compiled:  # for other parameters
            if nodes is None:
                return None
            raise CompileError(
                f"{parameters!r} runs interpreted only: its compiled form is written by hand, for "
                f"{parameters.policy.__name__} and other parameters"
            )
        _check_one_program(parameters)
        return compiled(parameters)

    def new_programs(self, nodes: Sequence[int]) -> Any:
        """Return the programs of `nodes` that have not started."""
        if isinstance(self.compiled, Compiled):
            return np.repeat(self.compiled.fresh, len(nodes))
        if self.compiled is not None:
            return [None] * len(nodes)
        return [self.program(node) for node in nodes]

    @property
    def now(self) -> int:
        """The simulated time, ns: the core runs ahead of the engine, up to its next event."""
        return max(self.core.now, self.run.engine.now)

    def _checked(self, kind: Any, value: Any, node: int, name: str) -> Any:
        """See `as_number`; its errors begin with the simulated time."""
        try:
            return as_number(kind, value, node, name)
        except SchedulerError as error:
            raise self._now(error) from None

    def _decided(self, node: int, action: str, application: int, said: dict[str, Any]) -> None:
        try:
            self.decider.note(node, action, application, said)
        except SchedulerError as error:
            raise self._now(error) from None

    def _noted(self, node: int, table: str, values: Mapping[str, float]) -> None:
        try:
            self.note(node, table, values)
        except SchedulerError as error:
            raise self._now(error) from None

    def checked_row(self, node: int, table: str, values: Mapping[str, float]) -> list[float]:
        """Return a row that a node writes, as `Notes.row`; its errors begin with the simulated time."""
        try:
            return self.notes.row(node, table, values)
        except SchedulerError as error:
            raise self._now(error) from None

    def _now(self, error: SchedulerError) -> SchedulerError:
        return SchedulerError(f"t = {self.now / NS} s: {error}")

    def make_queues(self, *, ends: bool) -> TaskQueues:
        """Make the task queues of the machines; `ends`: whether nodes hear of the end of each task."""
        parameters, run = self.parameters, self.run
        if ends and parameters.reports:
            raise ScenarioError(f"{parameters.name}: nodes with on_done cannot ask for reports, too")
        queues: TaskQueues = (run.queues or TaskQueues)(
            self.layout.padded(run.speeds),
            order=parameters.local_order,
            watch="completion" if ends else parameters.watch,
            log=ends or parameters.reports,
            record=run.record,
        )
        return queues

    def make_decider(self) -> Decider:
        """Make what records the decisions of nodes."""
        return Decider(self)

    def note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Add a row to a table of the result; see `View.note`."""
        self.notes.add(node, table, values)

    def neighbours(self) -> Integers:
        """Return the neighbours of each node: int64[nodes, degree]."""
        if self.parameters.degree == 0:
            return np.zeros((self.layout.nodes, 0), np.int64)
        parameters, overlay = self.parameters, self.run.streams(f"{self.parameters.name} overlay")
        return random_neighbours(self.layout.nodes, parameters.degree, overlay)

    def program(self, node: int) -> NodeProgram:
        """Make the program of `node`, at the beginning and after it has failed."""
        program: NodeProgram = self.parameters.program(node)
        return program

    def tick(self, name: str, _: list[int]) -> None:
        """Let the timer `name` fire on all nodes that are up."""
        self.core.tick(np.flatnonzero(self.up), name, self.run.engine.now)
        self._check_progress()

    def collect(self, engine: Engine, time: int) -> None:
        """See `CorePolicy`."""
        super().collect(engine, time)
        self._check_progress()

    def _check_progress(self) -> None:
        """Raise SchedulerError if nodes seem never to place the tasks that they hold."""
        events, placed = self.core.events + self.outages, (self.queues.enqueued, self.queues.tasks_done)
        all_done = placed[1] >= self.wanted
        more_to_come = self.now < self.run.applications.release_ns[-1]
        if placed != self.placed or placed[0] > placed[1] or all_done or more_to_come:
            self.placed, self.placed_at = placed, events
        elif events - self.placed_at > self.patience:
            left = self.unplaced() or "the tasks that are left are in messages, or lost"
            raise SchedulerError(
                f"t = {self.now / NS} s: {self.parameters.name} seems never to end: for "
                f"{events - self.placed_at} events no task has been queued or run; {left}"
            )

    def unplaced(self) -> str:
        """See `gridsim.scheduling.contract.Policy`."""
        if not self.wanted:  # its nodes do not place tasks in queues
            return ""
        held = self.core.held()
        held = held[held[:, 2] > 0]
        if not len(held):
            return ""
        node, application, tasks = held[0].tolist()
        what = f"{tasks} task{'s' if tasks > 1 else ''} of application {application}"
        others = len(held) - 1
        more = f"; {others} more such, {int(held[1:, 2].sum())} tasks" if others else ""
        return f"node {node} holds {what}, not placed{more}"

    def application_of(self) -> Integers | None:
        """Return the application of each number in a field ``application``; None if they are the same."""
        return None

    def application(self, index: int) -> Application:
        """Return an application as nodes see it: with the sizes that its submitter states."""
        found = Application.of(self.run.applications, index)
        return found._replace(task_size=float(self.task_size[index]), size=float(self.size[index]))

    def on_release(self, applications: list[int]) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        raise AssertionError("the core reads releases itself")

    def _pause(self, _: list[int]) -> None:
        """Do nothing: after it the engine calls what waits for the end of a wave."""

    # -- failures -------------------------------------------------------------------------------------------

    def register_failure_timers(self) -> None:
        """Register the timers that failures need."""
        self.run.engine.on("resubmit", self._resubmit, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Have tasks submitted again that are lost, on their way to `node` if that is not -1."""
        due = self.now + nanoseconds(self.parameters.detection)
        if due not in self.lost:
            self.lost[due] = {}
            self.run.engine.at(due, "resubmit")
            self.core.wake(due)
        self.lost[due][application] = self.lost[due].get(application, 0) + tasks

    def _resubmit(self, _: list[int]) -> None:
        """Submit the lost tasks that are due again, unless all machines are down."""
        if not self.run.up.any():
            return
        now = self.run.engine.now
        due = [self.lost.pop(at) for at in sorted(self.lost) if at <= now]
        lost = np.array([each for tasks in due for each in sorted(tasks.items())], np.int64).reshape(-1, 2)
        np.add.at(self.resubmitted, lost[:, 0], lost[:, 1])
        self.core.resubmit(lost[:, 0], lost[:, 1], now)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        now = self.run.engine.now
        self.outages += len(failed)
        _, applications, tasks = self.queues.fail(failed, now)
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.task_lost(i, count)
        self.up[:] = self.layout.of_nodes(self.run.up)
        nodes = self.layout.on(failed)
        for i, count in self.core.restart(nodes, self.new_programs(nodes.tolist()), now):
            self.task_lost(i, count)
        begin = self.layout.on(np.union1d(failed, back))
        self.core.begin(begin[self.up[begin]])
        if len(back) and any(due <= now for due in self.lost):
            self.run.engine.at(now, "resubmit")
        self._check_progress()

    # -- checkpoints ----------------------------------------------------------------------------------------

    STATE: ClassVar[tuple[str, ...]] = ("queues", "resubmitted", "lost", "core", "notes")

    def getstate(self) -> dict[str, Any]:
        """Return the state of the adapter and its nodes; attributes of nodes must be plain values."""
        if isinstance(self.compiled, Handlers):
            return {**super().getstate(), "nodes": dict(self.compiled.getstate())}
        if self.compiled is not None:
            states = self.core.programs
            return {**super().getstate(), "nodes": {name: states[name].copy() for name in states.dtype.names}}
        nodes = [
            {name: value for name, value in _attributes(node).items() if name != "parameters"}
            for node in self.nodes
        ]
        return {**super().getstate(), "nodes": nodes}

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        check_names(self, state, (*(self.STATE or ()), "nodes"))
        if isinstance(self.compiled, Handlers):
            self.compiled.setstate(state.pop("nodes"))
        elif self.compiled is not None:
            self._set_states(state.pop("nodes"))
        else:
            self._set_nodes(state.pop("nodes"))
        super().setstate(state)
        self.up[:] = self.layout.of_nodes(self.run.up)

    def _set_nodes(self, nodes: Any) -> None:
        self.nodes[:] = self.new_programs(range(self.layout.nodes))
        for node, attributes in zip(self.nodes, nodes, strict=True):
            for name, value in attributes.items():
                setattr(node, name, value)

    def _set_states(self, columns: Any) -> None:
        states = self.core.programs
        if not isinstance(columns, dict) or columns.keys() != set(states.dtype.names):
            raise ValueError(f"state['nodes'] must have the attributes {list(states.dtype.names)}")
        for name, values in columns.items():
            of = states[name]
            if not isinstance(values, np.ndarray) or values.dtype != of.dtype or values.shape != of.shape:
                raise ValueError(f"state['nodes'][{name!r}] must be {of.dtype}{list(of.shape)}")
            of[:] = values

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.core.drain(self.now)
        self.queues.advance(NEVER)
        outcome = Outcome.of(self.queues, self.resubmitted)
        machines = len(self.run.speeds)
        for extra in np.flatnonzero(outcome.machines["tasks"][machines:])[:1] + machines:
            raise SchedulerError(
                f"{self.parameters.name}: tasks must be queued on machines 0..{machines - 1}, got "
                f"{outcome.machines['tasks'][extra]} on machine {extra}, that of a server, which runs none"
            )
        outcome.machines = {name: of[:machines] for name, of in outcome.machines.items()}
        if outcome.arrivals:  # what a server has queued is withdrawn again
            rows = outcome.arrivals["machine"] < machines
            outcome.arrivals = {name: of[rows] for name, of in outcome.arrivals.items()}
        outcome.tables = self.notes.tables()
        return outcome


def stated_sizes(bags: Applications) -> tuple[Floats, Floats]:
    """Return the size of a task, and of all of them, as submitters state it: float64[applications], Mflop."""
    if bags.estimate is None:
        return bags.task_size, bags.size
    # a stated size of 0 is below what is measured; queues plan with sizes above 0
    task_size = np.maximum(bags.estimate, LEAST_SIZE)
    return task_size, task_size * bags.tasks


def _attributes(node: NodeProgram) -> dict[str, Any]:
    """Return the attributes of a node, including those in slots."""
    state = object.__getstate__(node)
    plain, slots = state if isinstance(state, tuple) else (state, None)
    return {**(plain or {}), **(slots or {})}
