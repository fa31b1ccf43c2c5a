"""Decentralized schedulers as programs of single nodes, and the policy that runs them.

A `NodeProgram` is the program of one node.  Its handlers get the applications that are submitted at the node
and the messages that arrive there.  It acts through its `View`, which gives access to nothing else.
A `NodeScheduler` has the parameters and declares the messages.

An `Adapter` is the `Policy` that runs these programs.  It sets up the message core
(`gridcore.nodes.message_core.NodeCore`), which calls the handlers.  It handles rare events, such as
failures, itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from gridcore.common.state import LATEST
from gridcore.nodes.containers import Fifo, Heap, IntMap, IntSet
from gridcore.nodes.handlers import Handlers
from gridcore.nodes.message_core import NodeCore
from gridcore.nodes.records import NodeRecords
from gridcore.nodes.shared_array import SharedArray
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.errors import CompileError, ScenarioError, SchedulerError
from gridsim.model.applications import Application, Applications
from gridsim.scheduling.contract import FAULT_PRIORITY, NodeForm, Order, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.nodes.attributes import instance_attributes
from gridsim.scheduling.nodes.compiled import CompiledPrograms, compile_programs
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.ground_truth import Decider
from gridsim.scheduling.nodes.handler_errors import (
    class_text,
    location_note,
    name_known_attributes,
    shorten_traceback,
)
from gridsim.scheduling.nodes.handlers import (
    check_class_variables,
    check_constructor,
    check_handlers,
    defined_handlers,
    handler_of,
    timers_of,
)
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import (
    Message,
    NodeProgram,
    Notes,
    View,
    array,
    as_number,
    kinds_of,
)
from gridsim.scheduling.nodes.progress_checks import ProgressChecks, event_text
from gridsim.scheduling.nodes.roles import Role, nodes_of_roles, role_classes
from gridsim.scheduling.nodes.single_tasks import SingleTasks
from gridsim.scheduling.nodes.source import CorePolicy
from gridsim.scheduling.nodes.timers import Timer, handler_name
from gridsim.scheduling.overlays import Overlay
from gridsim.scheduling.queues import task_bytes, task_queues
from gridsim.support.arguments import short_repr
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.columns import NumbersColumn
from gridsim.support.parameters import Limits
from gridsim.support.state import check_names, set_attribute

__all__ = [
    "Fifo",
    "Heap",
    "IntMap",
    "IntSet",
    "Layout",
    "Message",
    "NodeProgram",
    "NodeScheduler",
    "Role",
    "SharedArray",
    "View",
    "array",
]


class ProgramScheduler(Scheduler, Declarations, frozen=True, kw_only=True):
    """Base class of schedulers that are programs of nodes, for bags of tasks or for rigid jobs.

    The docstring of `NodeScheduler` describes the class variables.  Without a parameter ``degree`` nodes have
    no neighbours.
    """

    decentralized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_classes()

    def program(self, node: int) -> NodeProgram:
        """Return a new program of `node`, by default an object of ``policy``; not called with roles."""
        return role_classes(self)[""](self)

    @property
    def promised_order(self) -> Order:
        """The order in which a machine runs its tasks, ``local_order`` unless the nodes take single tasks."""
        if self.single_tasks:
            return "fcfs" if self.local_order == "fifo" else None
        return self.local_order

    @property
    def shares_memory(self) -> bool:  # type: ignore[override]
        """True if tasks wait in the queues of machines, unless the nodes take single tasks and run them."""
        return not self.single_tasks

    def _check_classes(self) -> None:
        check_class_variables(self)
        cls = type(self)
        if self.roles and cls.program is not ProgramScheduler.program:
            raise ScenarioError(f"{cls.__name__}.roles does not support program(): a role has a class")
        for policy in role_classes(self).values():
            check_handlers(policy, self)
            if (cls.program, cls.new_program) == (ProgramScheduler.program, Declarations.new_program):
                check_constructor(policy)


class NodeScheduler(ProgramScheduler, frozen=True, kw_only=True):
    """Base class of schedulers that are written as the program of one node.

    A subclass sets class variables, listed below as attributes, and may add parameters as annotated fields.

    Parameters
    ----------
    degree
        Number of neighbours of each node.  They are other machines, drawn uniformly when the run begins.
    overlay
        The neighbours of each node, instead of drawn ones: a list of numbers per node (int[nodes, k] or
        lists of different lengths), a graph of networkx, or a sparse matrix of scipy.
    detection
        Time in s from the loss of tasks in a failure until they are submitted again at their submitter.

    Attributes
    ----------
    policy
        The class of the nodes, a subclass of `NodeProgram`, of which each machine has one.
    roles
        Instead of `policy`: name -> `Role`, such as masters and workers, each with a class of its own.
        Nodes are numbered role by role, in this order.  Neighbours are drawn among the nodes of the role
        that handles the events of machines.
    messages
        Name -> `Message`, in the order in which messages of one instant are handled.
    environment
        The class of the `Environment`, the part of the model outside the nodes; None for none.
    environment_timers
        Names of the timers that the `Environment` fires and nodes do not set.  ``on_<name>(view)`` handles
        them.
    environment_handlers
        Handler that the `Environment` calls -> its parameters after ``self``, of which the first is ``view``.
    timers
        Names of the timers that `NodeProgram.on_timer` handles.  A timer with a method ``on_<name>`` of its
        own is not declared; its fields are the parameters of the method after ``view``, which are annotated
        with ``int`` or ``float``.
    ticks
        Name -> period in s of timers that fire on all nodes at each multiple of the period.
    single_tasks
        Whether each task is an application of its own to the nodes, which then know its true size.  They
        number the tasks of all applications in turn; the result is about the applications as submitted.
    local_order
        Order in which a machine runs its tasks: ``"edf"`` (earliest deadline first) or ``"fifo"``.
    watch
        ``"completion"`` if `NodeProgram.on_end` is called at the end of each task; ``"idle"`` if it is not,
        which takes less time.  By default it is called if the class of the nodes defines it.  If the class
        defines `NodeProgram.on_done`, ``"idle"`` counts as ``"completion"``.
    reports
        Whether nodes call `View.completed`.
    tables
        Name -> {column: ``int`` or ``float``} of the tables to which nodes add rows by `View.note`.
    decision_words, decision_verbs
        Sentences that describe decisions, and the verbs for their tasks, as in `Scheduler`.
    truths
        Action -> function that computes the true value at that decision; nodes cannot see it.
    at_once
        Whether messages leave as soon as a handler sends them.  By default they leave at the end of the
        wave, sorted by kind and sender.
    to_the_end
        Whether the run continues after the last task until no message or timer is pending.

    Raises
    ------
    ScenarioError
        If a parameter is out of range, a class variable has the wrong type, or ``policy`` has a method
        ``on_...`` that is not a handler or has the wrong parameters.
    """

    policy: ClassVar[type[NodeProgram]]
    unequal: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("interpreted", "compiled")

    degree: Annotated[int, Limits(low=1)] = 8
    overlay: Overlay | None = None
    detection: Annotated[float, Limits(low=0, high=2e9, unit="s")] = 1.0

    @property
    def dependencies(self) -> bool:  # type: ignore[override]
        """Whether applications may follow the ends of others: if they wait in task queues, as submitted."""
        return not self.single_tasks and (self.environment is None or self.environment.uses_queues)

    def start(self, run: Run) -> Policy:
        """Return the policy that runs the nodes."""
        self._check_classes()  # a subclass may override __post_init__ without this check
        return Adapter(self, run)


#: Number of tasks and machines from which on programs are compiled by default: smaller runs take less time
#: than the import of Numba and the first compilation of the program.
COMPILED_FROM = 300_000
#: Size (Mflop) that replaces an estimated size of 0.
MIN_ESTIMATED_SIZE = 1e-3


def _check_classes_known(scheduler: Any) -> None:
    """Raise CompileError unless the class of each node is declared."""
    if type(scheduler).program is not NodeScheduler.program:
        name = type(scheduler).__name__
        raise CompileError(
            f"{name} does not support nodes='compiled': {name} defines program(); declare the classes of its "
            "nodes as roles"
        )


class Adapter(CorePolicy):
    """A `Policy` that runs a `NodeProgram` for each node of the layout.

    Parameters
    ----------
    parameters
        A `NodeScheduler`, or other `Declarations`.
    run
        The run in which the nodes take part.
    """

    takes_releases = True

    #: Function that returns the information of a node about rigid jobs (`View.jobs`); None without rigid
    #: jobs.
    node_jobs: Callable[[int], Any] | None = None
    #: The part of the model outside the nodes; None if there is none.
    environment: Environment | None = None
    #: Whether this process runs each node; None: it runs all.
    local_nodes: Sequence[bool] | None = None
    #: Whether the adapter keeps jobs and their runs instead of task queues.
    keeps_jobs = False

    def __init__(self, parameters: Any, run: Run) -> None:
        self.environment = self.make_environment(parameters, run)
        #: The environment, or one that does nothing.
        self.outside = Environment(parameters, run) if self.environment is None else self.environment
        self.single_tasks, self.is_recorded = None, run.record
        if parameters.single_tasks:
            self.single_tasks = SingleTasks(run.applications)
            run = replace(run, applications=self.single_tasks.applications, record=True)
        self.parameters, self.run = parameters, run
        #: The handler of lost tasks; in a process of an emulation, it reports them to the coordinator.
        self.report_lost: Callable[[int, int, int], None] = self.task_lost
        bags, engine, network = run.applications, run.engine, run.network
        self.compiled = self._compile()
        self.roles = nodes_of_roles(parameters, len(run.speeds))
        self.layout = layout = parameters.layout(len(run.speeds))
        if not isinstance(layout, Layout):
            raise ScenarioError(f"{parameters.name}: layout() must return a Layout, got {layout!r}")
        layout.check(len(run.speeds))
        if self.roles and layout.nodes != (count := sum(map(len, self.roles.values()))):
            raise ScenarioError(
                f"{parameters.name}: layout() must have {count} nodes, those of the roles, got {layout.nodes}"
            )
        self.up = layout.of_nodes(run.up)
        programs = self._first_programs()
        classes = self._classes(programs)
        handlers = {name: defined_handlers(policies) for name, policies in classes.items()}
        all_handlers = set().union(*handlers.values())
        timers = [Timer(name) for name in parameters.timers]
        if isinstance(parameters, ProgramScheduler):  # adapters with other declarations call methods directly
            timers = timers_of(parameters, classes.values())
        own_handlers = {timer.name for timer in timers if timer.handler != "on_timer"}
        for tick in parameters.ticks:
            if tick not in own_handlers and "on_timer" not in all_handlers:
                wanted = f"{next(iter(classes.values()))[0].__name__}.on_timer or {handler_name(tick)}"
                raise ScenarioError(f"{parameters.name}.ticks requires {wanted}")
        watch: Literal["idle", "completion"] = "completion" if "on_end" in all_handlers else "idle"
        self.watch = parameters.watch or watch
        self.queues = self.make_queues(ends="on_done" in all_handlers)
        self.task_size, self.size = estimated_sizes(bags)
        self.queue_applications()
        self.resubmitted = np.zeros(len(bags), np.int64)
        self.notes = Notes(parameters.tables)
        self.decider = Decider(self)
        self.until = parameters.run_until(run)
        self.lost: dict[int, dict[int, int]] = {}  # detection time -> application -> tasks
        self.kinds = kinds_of(self.messages(parameters, run))
        for number, (name, kind) in enumerate(self.kinds.items()):
            kind.declare(network, name, priority=10 + number)
        network.open(layout.machine_of, layout.level_of, carried=True, application_of=self.application_of())
        # 0 for programs that do not put tasks into queues; their progress is not checked
        self.total_tasks = int(bags.tasks.sum()) if isinstance(parameters, NodeScheduler) else 0
        self.progress_checks = ProgressChecks(self)
        neighbours = self._neighbours()
        self.core = (run.core or NodeCore)(
            network.links,
            self.queues,
            programs=programs,
            roles=[
                (name, class_text(policies[0]), len(self.roles.get(name, programs)), handlers[name])  # type: ignore[arg-type]
                for name, policies in classes.items()
            ],
            kinds=[
                (
                    name,
                    kind.number(network, name),
                    kind.nbytes,
                    kind.fields,
                    kind.moves_tasks,
                    tuple(handler_of(policies, name) for policies in classes.values()),
                    -1 if kind.delay is None else kind.delay,
                    kind.counted,
                    kind.answers,
                    kind.is_answer,
                )
                for name, kind in self.kinds.items()
            ],
            timers=timers,
            neighbours=neighbours.values,
            neighbour_offsets=neighbours.offsets,
            up=self.up,
            release=bags.release_ns,
            submitter=bags.submitter,
            tasks=bags.tasks,
            application=self.application,
            seed=self.seed(),
            report_lost=self.report_lost,
            add_note=self._add_note,
            record_decision=(
                None
                if self.compiled and run.decisions is None and run.recorder is None
                else self._record_decision
            ),
            convert=self._as_number,
            error_type=SchedulerError,
            compiled_form=self.compiled,
            observe=network.notify_observer if network.observed else None,
            at_once=parameters.at_once,
            home=layout.home,
            releases=layout.releases,
            release_queue=run.releases,
            until=self.until,
            slots=None if self.environment is None else self.environment.slots,
            jobs=self.node_jobs,
            environment=None if self.environment is None else self.environment.of_node,
            board=parameters.make_board(self.up, len(bags), run.streams),
            report_endless=self.progress_checks.endless_error,
            threads=run.threads,
        )
        self.outside.attach(self)
        engine.on("pause", self._pause, priority=10, phase=ACT)
        self.register_failure_timers()
        for number, (name, period) in enumerate(parameters.ticks.items()):
            engine.on(name, partial(self.tick, name), priority=20 + number, phase=TIMER)
            engine.every(nanoseconds(period), name)
        engine.at_wave_end(self.core.flush)
        engine.add_source(self)
        for watcher in run.watchers:
            watcher.attach(self)

    def make_environment(self, parameters: Any, run: Run) -> Environment | None:
        """Return the environment of the nodes; None if there is none."""
        environment: Environment | None = parameters.make_environment(run)
        return environment

    def messages(self, parameters: Any, run: Run) -> Mapping[str, Message]:
        """Return the kinds of messages of the run."""
        kinds: Mapping[str, Message] = parameters.messages_of(run)
        return kinds

    @property
    def takes_blocks(self) -> bool:  # type: ignore[override]
        """True if the environment reads failures in blocks."""
        return self.outside.failure_model == "reachable"

    @property
    def nodes(self) -> MutableSequence[NodeProgram]:
        """The program of each node.

        A compiled program is a record with the attributes of its node.  If the compiled form is written by
        hand, each entry is None.
        """
        return cast(MutableSequence[NodeProgram], self.core.programs)

    def role_of(self, node: int) -> str:
        """Return the role of a node; "" without roles."""
        return next((name for name, nodes in self.roles.items() if node in nodes), "")

    def _classes(self, programs: Sequence[Any]) -> dict[str, list[type[NodeProgram]]]:
        """Return the classes of the nodes of each role; the only role is "" if none are declared."""
        parameters = self.parameters
        if self.roles or self.compiled is not None:
            return {name: [policy] for name, policy in role_classes(parameters).items()}
        policies = list(dict.fromkeys(map(type, programs)))
        if isinstance(parameters, ProgramScheduler):  # adapters with other declarations call methods directly
            for policy in policies:
                check_handlers(policy, parameters)
        return {"": policies}

    def program_of(self, node: int) -> Any:
        """Return the program of `node`, which must not be changed.

        The program of a compiled node is built from its record; if the compiled form is written by hand, it
        is None.
        """
        record = self.core.programs[node]
        if not isinstance(self.compiled, CompiledPrograms):
            return record
        role = self.role_of(node)
        policy = role_classes(self.parameters)[role]
        program: Any = policy.__new__(policy)
        program.parameters = self.parameters
        for name in record.dtype.names or ():
            value = record[name]
            setattr(program, name, value.copy() if isinstance(value, np.ndarray) else value.item())
        _, memory, names = self._role(role)
        for k, name in enumerate(names):
            first = self.roles[role].start if self.roles else 0
            setattr(program, name, memory.copy_of(k, node - first))
        return program

    @property
    def node_form(self) -> NodeForm:  # type: ignore[override]
        """The form in which the nodes run."""
        if self.compiled is not None:
            return "compiled"
        return "interpreted" if isinstance(self.core, NodeCore) else "python"

    def _compile(self) -> CompiledPrograms | Handlers | None:
        """Return the compiled form of the programs; None if the run uses interpreted nodes."""
        parameters, run, nodes = self.parameters, self.run, self.run.nodes
        is_wanted = (nodes or parameters.node_forms[0]) == "compiled"
        if is_wanted and not any(watcher.reads_programs for watcher in run.watchers):
            handlers: Handlers | None = parameters.hand_compiled(len(run.speeds), len(run.applications))
            if handlers is not None:
                return handlers
        if nodes is None and not isinstance(parameters, NodeScheduler):
            return None  # the compiled form, if there is one, is itself a policy
        if nodes is None and self._pays_to_compile():
            with suppress(CompileError):
                return compile_programs(parameters)
        # by default, features that only handlers written by hand support do not require Numba
        has_handlers = type(parameters).hand_compiled is not Declarations.hand_compiled
        if not is_wanted or (nodes is None and has_handlers):
            return None
        _check_classes_known(parameters)
        return compile_programs(parameters)

    def _pays_to_compile(self) -> bool:
        """Return whether to compile programs by default."""
        parameters, run = self.parameters, self.run
        return (
            "compiled" in parameters.node_forms
            and int(run.applications.tasks.sum()) + len(run.speeds) >= COMPILED_FROM
            and run.core is None
            and run.observations is None
            and run.recorder is None
            and type(parameters).program is NodeScheduler.program
            and find_spec("numba") is not None
        )

    def new_programs(self, nodes: Sequence[int]) -> list[Any]:
        """Return new programs for `nodes`, which have not started yet."""
        if isinstance(self.compiled, CompiledPrograms):
            programs = self.compiled.by_role
            return [programs[self.role_of(node)].initial_state[0] for node in nodes]
        if self.compiled is not None:
            return [None] * len(nodes)
        return [self.program(node) for node in nodes]

    def _first_programs(self) -> Any:
        """Create the programs of all nodes."""
        if not isinstance(self.compiled, CompiledPrograms):
            return self.new_programs(range(self.layout.nodes))
        all_nodes = range(self.layout.nodes)
        return NodeRecords(
            np.repeat(program.initial_state, len(self.roles.get(name, all_nodes)))
            for name, program in self.compiled.by_role.items()
        )

    @property
    def now(self) -> int:
        """The simulated time, ns: the maximum of the clocks of the core and the engine.

        The core runs ahead of the engine, up to the engine's next event.
        """
        return max(self.core.now, self.run.engine.now)

    def _as_number(self, kind: Any, value: Any, node: int, name: str) -> Any:
        """Return `value` as `as_number` does; an error begins with the simulated time."""
        try:
            return as_number(kind, value, node, name)
        except SchedulerError as error:
            raise self._with_time(error) from None

    def _record_decision(self, node: int, action: str, application: int, arguments: dict[str, Any]) -> None:
        try:
            self.decider.note(node, action, application, arguments)
        except SchedulerError as error:
            raise self._with_time(error) from None
        if self.run.recorder is not None:
            used = {name: value for name, value in arguments.items() if value == value and value != -1}
            self.run.recorder.add("decide", {"application": application, **used}, action)

    def _add_note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        try:
            self.note(node, table, values)
        except SchedulerError as error:
            raise self._with_time(error) from None
        if self.run.recorder is not None:
            self.run.recorder.add("note", values, table)

    def checked_row(self, node: int, table: str, values: Mapping[str, float]) -> list[float]:
        """Return `values` as `Notes.row` does; an error begins with the simulated time."""
        try:
            return self.notes.row(node, table, values)
        except SchedulerError as error:
            raise self._with_time(error) from None

    def _with_time(self, error: SchedulerError) -> SchedulerError:
        return SchedulerError(f"t = {self.now / NS} s: {error}")

    def make_queues(self, *, ends: bool) -> TaskQueues:
        """Create the task queues of the machines.

        Parameters
        ----------
        ends
            Whether nodes handle the end of each task by `NodeProgram.on_done`.
        """
        parameters, run = self.parameters, self.run
        if ends and parameters.reports:
            raise ScenarioError(f"{parameters.name}: on_done does not support reports=True")
        return task_queues(
            run,
            pad=self.layout.pad,
            order=parameters.local_order,
            watch="completion" if ends else self.watch,
            log=ends or parameters.reports,
            record=run.record,
            **parameters.queue_options,
        )

    def queue_applications(self) -> None:
        """Add the applications to the task queues."""
        bags = self.run.applications
        # With estimates, true sizes are passed even if all tasks are equal, since queues plan with the
        # estimates.
        has_sizes = bags.unequal or bags.estimate is not None
        columns = task_bytes(self.run)
        if has_sizes:
            columns |= {"sizes": bags.sizes(), "tasks": bags.tasks}
        self.queues.add_applications(bags.release, self.size, self.task_size, **columns)
        if self.run.releases is not None:
            self.queues.follow(self.run.releases, bags.tasks)

    def note(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Add `values`, which `node` passed to `View.note`, to `table` of the result."""
        self.notes.add(node, table, values)

    def _neighbours(self) -> NumbersColumn:
        """Return the neighbours of each node."""
        drawn = self.parameters.draw_neighbours(self.run, self.layout.nodes, self._peers())
        neighbours = drawn if isinstance(drawn, NumbersColumn) else NumbersColumn.of(drawn)
        if neighbours is None or len(neighbours) != self.layout.nodes:
            raise ScenarioError(
                f"{self.parameters.name}: draw_neighbours() must return {self.layout.nodes} rows of whole "
                f"numbers, got {short_repr(drawn)}"
            )
        return neighbours

    def _peers(self) -> range:
        """Return the possible neighbours: the nodes of one role, or all nodes without roles."""
        return self.roles.get(self.role_of(int(self.layout.home[0])), range(self.layout.nodes))

    def program(self, node: int) -> NodeProgram:
        """Return a new program of `node`, at the beginning of the run and after each failure."""
        parameters: Any = self.parameters
        if self.roles:
            role: Role = parameters.roles[self.role_of(node)]
            return role.new_program(parameters)
        program: NodeProgram = parameters.new_program(self.run, node)
        return program

    def tick(self, name: str, _: list[int]) -> None:
        """Fire the timer `name` on all nodes that are up."""
        self.core.tick(np.flatnonzero(self.up), name, self.run.engine.now)
        self.progress_checks.check()

    def collect(self, engine: Engine, time: int) -> None:
        """End the current wave or the run at `time` ns, and check that the run makes progress."""
        super().collect(engine, time)
        self.progress_checks.check()

    def class_of(self, node: int) -> type:
        """Return the class of the program of `node`."""
        if self.compiled is None:
            return type(self.core.programs[node])
        return role_classes(self.parameters)[self.role_of(node)]

    def explain(self, error: BaseException) -> None:
        """Add the time, the node, the handler, the file and the line to an error of a node program."""
        if isinstance(error, AttributeError):
            name_known_attributes(error)
        failed_call = getattr(self.core, "failed_call", lambda: None)()
        if failed_call is not None:
            node, handler, place = failed_call
            failed_call = node, self.class_of(node), handler, place
        if note := location_note(error, self.now / NS, failed_call):
            error.add_note(note)
        shorten_traceback(error)

    def activity(self) -> dict[str, int]:
        """Return the number of events that nodes have handled so far, by sort, in words."""
        rows = self.core.activity() if hasattr(self.core, "activity") else []
        return {event_text(sort, name): count for sort, name, _, count, _ in rows}

    def unplaced(self) -> str:
        """Return a text that names the nodes with tasks that they have not placed; "" if there are none.

        If the machines have nothing to do, the unfinished tasks that no node holds are in messages, or lost.
        """
        if not self.total_tasks:  # such programs do not place tasks in queues
            return ""
        rows = self.core.held()
        rows = rows[rows[:, 2] > 0]
        if not len(rows):
            bags = self.run.applications
            released = int(bags.tasks[bags.release_ns <= self.now].sum())
            is_idle = self.queues.enqueued == self.queues.tasks_done < released
            return "the remaining tasks are in messages or lost" if is_idle else ""
        node, application, tasks = rows[0].tolist()
        quantity = f"{tasks} task{'s' if tasks > 1 else ''} of application {application}"
        count = len(rows) - 1
        rest = f" ({count} more such cases, with {int(rows[1:, 2].sum())} tasks)" if count else ""
        return f"node {node} holds {quantity} that it has not placed{rest}"

    def application_of(self) -> Integers | None:
        """Return the application for each value of a message field ``application``.

        None means that the value itself is the number of the application.
        """
        return None if self.single_tasks is None else self.single_tasks.application

    def application(self, index: int) -> Application:
        """Return an application as nodes see it, with the sizes that its submitter estimates."""
        if index >= len(self.task_size):
            return self.outside.added_application(index)
        application = Application.of(self.run.applications, index)
        return application._replace(task_size=float(self.task_size[index]), size=float(self.size[index]))

    def on_release(self, applications: list[int]) -> None:
        """Raise AssertionError, since the core reads releases itself."""
        raise AssertionError("on_release must not be called: the core reads releases itself")

    def _pause(self, _: list[int]) -> None:
        """Do nothing; the call only makes the engine end a wave and call its hooks."""

    # -- failures -------------------------------------------------------------------------------------------

    def seed(self) -> int:
        """Draw the seed of the random streams of the nodes."""
        return int(self.run.streams(f"{self.parameters.name} nodes").integers(2**63))

    def register_failure_timers(self) -> None:
        """Register the timer that submits lost tasks again."""
        if type(self.outside).task_lost is Environment.task_lost:  # otherwise the environment submits them
            self.run.engine.on("resubmit", self._resubmit, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def task_lost(self, application: int, tasks: int, node: int = -1) -> None:
        """Pass lost tasks to the environment, which submits them again.

        Parameters
        ----------
        node
            The receiver, if the tasks were lost in a message; otherwise -1.
        """
        self.outside.task_lost(application, tasks, node)

    def submit_later(self, application: int, tasks: int) -> None:
        """Submit `tasks` lost tasks of `application` again, `detection` s from now."""
        due = self.now + nanoseconds(self.parameters.detection)
        if due not in self.lost:
            self.lost[due] = {}
            self.run.engine.at(due, "resubmit")
            self.core.wake(due)
        self.lost[due][application] = self.lost[due].get(application, 0) + tasks

    def _resubmit(self, _: list[int]) -> None:
        """Submit the lost tasks whose detection time has passed, unless no machine is up to handle them."""
        if not (self.run.up.any() and self.up[self.layout.submission_nodes].any()):
            return
        now = self.run.engine.now
        due = [self.lost.pop(at) for at in sorted(self.lost) if at <= now]
        lost = np.array([item for tasks in due for item in sorted(tasks.items())], np.int64).reshape(-1, 2)
        np.add.at(self.resubmitted, lost[:, 0], lost[:, 1])
        self.core.resubmit(lost[:, 0], lost[:, 1], now)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle failures and recoveries of machines.

        Tasks and messages on `failed` machines are lost.  Their nodes get new programs, which start when the
        machines are up again.
        """
        if self.outside.failure_model == "own":
            self.outside.on_faults(failed, recovered)
            return
        now = self.run.engine.now
        if now > LATEST:
            raise OverflowError(
                f"failures and recoveries must be before {LATEST / NS:g} s, got one at {now / NS:g} s"
            )
        self.progress_checks.failure_count += len(failed)
        _, applications, tasks = self.queues.fail(failed, now)
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.report_lost(i, count, -1)
        self.outside.on_faults(failed, recovered)
        for i, count in self.restart(failed, recovered):
            self.report_lost(i, count, -1)
        if len(recovered) and any(due <= now for due in self.lost):
            self.run.engine.at(now, "resubmit")
        self.progress_checks.check()

    def restart(self, failed: Integers, recovered: Integers) -> list[tuple[int, int]]:
        """Restart the nodes of machines that fail or recover, with the content of their stable storage.

        Returns
        -------
        list
            Pairs (application, tasks) of the tasks that the nodes had not placed.
        """
        changed = self.layout.on(np.concatenate((failed, recovered)))
        self.up[changed] = self.run.up[self.layout.machine_of[changed]]
        unplaced = self.renew(self.layout.on(failed).tolist())
        self.core.begin(changed[self.up[changed]])
        return unplaced

    def renew(self, nodes: Sequence[int]) -> list[tuple[int, int]]:
        """Replace the programs of `nodes` by new programs with the content of their stable storage.

        Returns
        -------
        list
            Pairs (application, tasks) of the tasks that the nodes had not placed.
        """
        programs = self.new_programs(nodes)
        for node, program in zip(nodes, programs, strict=True):
            for name in getattr(program, "stable_storage", ()):  # records of compiled nodes have none
                setattr(program, name, getattr(self.nodes[node], name))
        return self.core.restart(np.array(nodes, np.int64), programs, self.run.engine.now)

    # -- emulations -----------------------------------------------------------------------------------------

    def is_local(self, node: int) -> bool:
        """Return whether this process runs `node`, in an emulation by several processes."""
        return self.local_nodes is None or self.local_nodes[node]

    def is_over(self) -> bool:
        """Return whether an emulation is over, according to the reports of processes."""
        if self.environment is not None:
            return self.environment.is_over()
        return bool(self.queues.tasks_done == self.run.applications.tasks.sum())

    # -- checkpoints ----------------------------------------------------------------------------------------

    STATE: ClassVar[tuple[str, ...]] = ("queues", "resubmitted", "lost", "core", "notes")

    def getstate(self) -> dict[str, Any]:
        """Return the state of the adapter and its nodes, whose attributes must be plain values."""
        state = super().getstate()
        if self.environment is not None:
            state["environment"] = self.environment
        if isinstance(self.compiled, Handlers):
            return {**state, "nodes": dict(self.compiled.getstate())}
        if isinstance(self.compiled, CompiledPrograms):
            states = {role: self._role_state(role) for role in self.compiled.by_role}
            return {**state, "nodes": states}
        nodes = [
            {name: value for name, value in instance_attributes(node).items() if name != "parameters"}
            for node in self.nodes
        ]
        return {**state, "nodes": nodes}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        environment = () if self.environment is None else ("environment",)
        check_names(self, state, (*(self.STATE or ()), "nodes", *environment))
        if environment:
            set_attribute(self, "environment", state.pop("environment"))
        if isinstance(self.compiled, Handlers):
            self.compiled.setstate(state.pop("nodes"))
        elif self.compiled is not None:
            states = state.pop("nodes")
            check_names(self, states, self.compiled.by_role)
            for role, columns in states.items():
                self._set_role_state(role, columns)
        else:
            self._set_nodes(state.pop("nodes"))
        super().setstate(state)
        if self.outside.failure_model == "crash":
            self.up[:] = self.layout.of_nodes(self.run.up)

    def _set_nodes(self, nodes: Any) -> None:
        self.nodes[:] = self.new_programs(range(self.layout.nodes))
        for node, attributes in zip(self.nodes, nodes, strict=True):
            for name, value in attributes.items():
                setattr(node, name, value)
            for program in node.hosted_programs():
                program.parameters = node.parameters

    def _role(self, role: str) -> tuple[Any, Any, list[str]]:
        """Return the compiled states and the objects of a role, and the names of these."""
        assert isinstance(self.compiled, CompiledPrograms)
        index = list(self.compiled.by_role).index(role)
        states = self.core.programs.arrays[index]
        offsets = {field[1]: name for name, field in (states.dtype.fields or {}).items()}
        names = [offsets[offset] for offset, _ in self.compiled.by_role[role].objects]
        return states, self.core.memory[index], names

    def _role_state(self, role: str) -> dict[str, Any]:
        states, memory, names = self._role(role)
        columns: dict[str, Any] = {name: np.array(states[name]) for name in states.dtype.names or ()}
        return {**columns, **{name: memory.getstate(k) for k, name in enumerate(names)}}

    def _set_role_state(self, role: str, columns: Any) -> None:
        states, memory, names = self._role(role)
        if not isinstance(columns, dict) or columns.keys() != set(states.dtype.names or ()):
            raise ValueError(
                f"state['nodes'][{role!r}] must have the attributes {list(states.dtype.names)}, got {columns}"
            )
        for k, name in enumerate(names):
            memory.setstate(k, columns.pop(name))
        for name, values in columns.items():
            column = states[name]
            if (
                not isinstance(values, np.ndarray)
                or values.dtype != column.dtype
                or values.shape != column.shape
            ):
                raise ValueError(
                    f"state['nodes'][{role!r}][{name!r}] must be {column.dtype}{list(column.shape)}, "
                    f"got {values!r}"
                )
            column[:] = values

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Handle the deferred messages, run the queues to their end, and return the outcome."""
        self.core.drain(self.now)
        self.queues.log = False  # completions need not be reported anymore
        self.queues.advance(NEVER)
        outcome = Outcome.of(self.queues, self.resubmitted)
        machines = len(self.run.speeds)
        for server in np.flatnonzero(outcome.machines["tasks"][machines:])[:1] + machines:
            raise SchedulerError(
                f"{self.parameters.name}: tasks must be queued on machines 0..{machines - 1}, got "
                f"{outcome.machines['tasks'][server]} tasks on machine {server}, a server; send them to a "
                "node on a machine of the platform, which enqueues them"
            )
        outcome.machines = {name: column[:machines] for name, column in outcome.machines.items()}
        if outcome.arrivals:  # a server has withdrawn all its queued tasks, so its rows cancel out
            rows = outcome.arrivals["machine"] < machines
            outcome.arrivals = {name: column[rows] for name, column in outcome.arrivals.items()}
        outcome.tables = self.notes.tables()
        if self.single_tasks is not None:
            self.single_tasks.join(outcome, machines)
            if self.is_recorded:
                self.single_tasks.join_rows(outcome, merges=self.run.cores is None)
            else:
                outcome.schedule, outcome.arrivals = {}, {}
        self.outside.complete(outcome)
        return outcome


def estimated_sizes(bags: Applications) -> tuple[Floats, Floats]:
    """Return the estimated size of a task, and of all tasks, of each application, Mflop."""
    if bags.estimate is None:
        return bags.task_size, bags.size
    # Queues require positive sizes; an estimate of 0 stands for one below the resolution of the log.
    task_size = np.maximum(bags.estimate, MIN_ESTIMATED_SIZE)
    return task_size, task_size * bags.tasks
