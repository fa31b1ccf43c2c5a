"""`Bench`, which tests the program of one node without a grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from gridcore.nodes.message_core import NodeCore
from gridcore.nodes.view import View
from gridsim.engine.engine import Engine
from gridsim.engine.transport import Transport
from gridsim.errors import ScenarioError
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import NodeForm, Run, Scheduler
from gridsim.scheduling.nodes.adapter import Adapter
from gridsim.scheduling.nodes.diary import Sent
from gridsim.scheduling.nodes.python_core import PythonCore
from gridsim.scheduling.nodes.roles import nodes_of_roles
from gridsim.simulation.checks import check_nodes
from gridsim.support.arguments import integer, real
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.random_streams import Streams

__all__ = ["Bench", "PendingTimer"]

#: Applications of a bench without a workload: their number, and the tasks of each.
APPLICATIONS, TASKS = 10, 100
#: Speed of the machines of a bench (Mflop/s), and the size of its tasks (Mflop), so that each takes 1 s.
SPEED = 1000.0
#: Maximum number of tasks that a node can enqueue.
MAX_TASKS = 2**31 - 1
#: The last instant, ns; releases of the workload do not happen by themselves.
_NEVER = 2**61 - 1


class PendingTimer(NamedTuple):
    """A timer that a node has set.

    Parameters
    ----------
    time
        The time at which it fires, s.
    name
        Its name.
    fields
        Its fields, which its handler gets, by name.
    """

    time: float
    name: str
    fields: dict[str, float]


class Bench:
    """One node of a scheduler, whose handlers a test calls one by one.

    The node runs in the message core of a simulation, on its machine with its task queue.  The other nodes do
    not exist: what the node sends to them is recorded in `sent` and never arrives, and `deliver` brings
    messages from them.  Time passes only in `advance` and `end_task`.  An error of a handler ends
    these at its instant; the test may go on.

    Parameters
    ----------
    scheduler
        The scheduler with its parameters, a `NodeScheduler`.
    role
        The role of the node, if the scheduler has roles.
    node
        The number of the node, with `role` within the role.
    machines
        The number of machines.
    form
        How the node runs, as the argument ``nodes`` of `gridsim.simulate`; the results are the same.
    workload
        The applications; by default 10 of 100 tasks, which take 1 s each.  Their releases do not happen by
        themselves.
    speed
        The speed of each machine, Mflop/s.
    cores
        The number of cores of each machine, for a scheduler with one queue for them (`Scheduler.cores`).
    seed
        Seed of the random streams of nodes.

    Attributes
    ----------
    sent
        The messages that the node has sent so far, also to itself, as a list of `Sent`; a test may clear it.

    Raises
    ------
    ScenarioError
        If an argument is invalid, or the scheduler does not run node programs.

    Examples
    --------
    A node that enqueues one task and hands the others over to its right neighbour:

    >>> import gridsim as gs
    >>> class Half(gs.NodeProgram):
    ...     def on_release(self, view, application, tasks):
    ...         view.enqueue(application.number, 1)
    ...         view.send(view.node + 1, "task", application=application.number, tasks=tasks - 1)
    >>> class Halving(gs.NodeScheduler, frozen=True, kw_only=True):
    ...     policy = Half
    ...     messages = {"task": gs.Message(100, moves_tasks=True, application=int, tasks=int)}
    >>> bench = Bench(Halving())
    >>> bench.release(0, tasks=3)
    >>> bench.sent
    [Sent(1, 'task', application=0, tasks=2)]
    >>> bench.view.tasks, bench.held
    (1, {})
    """

    def __init__(
        self,
        scheduler: Scheduler,
        role: str | None = None,
        node: int = 0,
        *,
        machines: int = 5,
        form: NodeForm = "interpreted",
        workload: Workload | None = None,
        speed: float = SPEED,
        cores: int = 1,
        seed: int = 0,
    ) -> None:
        integer("machines", machines, low=1)
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"scheduler must be a Scheduler object, got {scheduler!r}")
        check_nodes(scheduler, form)
        platform = Platform.equal(machines, real("speed", speed, above=0, unit="Mflop/s"), cores=cores)
        if platform.cores is not None and scheduler.cores is not True:
            raise ScenarioError(
                f"cores must be 1 for {scheduler.name}, whose nodes do not share the cores of a machine "
                f"(Scheduler.cores), got {cores}"
            )
        if workload is None:
            workload = Workload.of([0.0] * APPLICATIONS, TASKS, SPEED, [0] * APPLICATIONS, origin=0.0)
        self._applications = workload.realize(platform)
        self._engine = Engine()
        self._make = PythonCore if form == "python" else NodeCore
        self._node = node if role is None else _node_of(scheduler, role, node, machines)
        run = Run(
            engine=self._engine,
            network=Transport(self._engine, Network(), machines, seed=seed),
            speeds=platform.speeds,
            cores=platform.cores,
            applications=self._applications,
            streams=Streams(seed),
            nodes="interpreted" if form == "python" else form,
            core=self._make_core,
        )
        self.sent: list[Sent] = []
        policy = scheduler.start(run)
        if not isinstance(policy, Adapter):
            raise ScenarioError(f"scheduler must run node programs (NodeScheduler), got {scheduler!r}")
        self._adapter, self._core = policy, policy.core
        policy.total_tasks = 0  # without tasks to wait for, the core does not check progress
        self._up = np.zeros(len(policy.up), np.bool_)
        self._up[self._node] = True
        policy.up[:] = self._up
        self._has_started = False

    def _make_core(self, *arguments: Any, **options: Any) -> Any:
        """Make the core of the run, in which only this node exists."""
        count = len(options["programs"])
        integer("node", self._node, low=0, high=count - 1)
        # absent nodes do not lose tasks, releases do not happen by themselves, and the run does not end
        options |= {
            "only_node": self._node,
            "report_lost": lambda application, tasks, node: None,
            "release": np.full(len(self._applications), _NEVER),
            "until": "",
        }
        return self._make(*arguments, **options)

    # -- events ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the node (`NodeProgram.on_start`); the first call of any other method also starts it."""
        if not self._has_started:
            self._has_started = True
            self._run_until(0)

    def release(self, application: int, tasks: int | None = None) -> None:
        """Submit `tasks` tasks of `application` at the node now, by default all of them."""
        integer("application", application, low=0, high=len(self._applications) - 1)
        count = int(self._applications.tasks[application]) if tasks is None else tasks
        integer("tasks", count, low=1, high=MAX_TASKS)
        self.start()
        with self._explaining():
            self._core.enter(self._engine.now)
            self._core.give(self._node, application, count)
            self._core.flush()
        self._run_until(self._engine.now)

    def deliver(self, kind: str, sender: int, **fields: Any) -> None:
        """Deliver a message from node `sender`, which does not exist, now.

        The message may be about any application of the workload, and move any of its tasks.  A request may
        have any number ``request``, which its answer has as well.  An answer needs the number of the request
        that the node has sent, which is in `sent`.
        """
        if sender == self._node or not 0 <= sender < len(self._up):
            raise ScenarioError(f"sender must be another node in 0..{len(self._up) - 1}, got {sender}")
        if "application" in fields:
            integer("application", fields["application"], low=0, high=len(self._applications) - 1)
        if "tasks" in fields and kind in self._adapter.kinds and self._adapter.kinds[kind].moves_tasks:
            integer("tasks", fields["tasks"], high=MAX_TASKS)
        self.start()
        with self._explaining():
            self._core.receive(sender, kind, fields, self._engine.now)
        self._run_until(self._engine.now)

    def publish(self, node: int, *values: Any, **columns: Any) -> None:
        """Publish numbers of another node on the board, as its `View.publish` does."""
        integer("node", node, low=0, high=len(self._up) - 1)
        self.start()
        with self._explaining():
            self._view_of(node).publish(*values, **columns)

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`: timers fire, and the machine runs its tasks."""
        real("seconds", seconds, low=0, unit="s")
        self.start()
        self._run_until(self._engine.now + nanoseconds(seconds))

    def end_task(self) -> None:
        """Advance the time until the running task ends.

        Raises
        ------
        ScenarioError
            If the machine runs no task.
        """
        self.start()
        queues = self._adapter.queues
        queues.catch_up(self._engine.now + 1)  # a task starts after all events of an instant
        _, _, running, end = queues.queue(self.view.machine)
        if running < 0 or end <= self._engine.now:
            raise ScenarioError(f"t = {self.now} s: end_task requires a running task at node {self._node}")
        self._run_until(end)

    def restart(self) -> None:
        """Make the machine of the node fail and recover at once: the node restarts, without its tasks."""
        self.start()
        with self._explaining():
            machine = np.array([self.view.machine])
            self._core.enter(self._engine.now)
            self._adapter.on_faults(machine, machine)
            self._adapter.up[:] = self._up
        self._run_until(self._engine.now)

    def _run_until(self, time: int) -> None:
        with self._explaining():
            events = -1
            while events != self._core.events:  # messages sent by the last timers may arrive at this instant
                events = self._core.events
                self._engine.run(time)
                self._core.flush()
            self._core.enter(time)  # the clock of the core is at its last event

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Add the place to errors of the program, and record the messages that it sends."""
        try:
            yield
        except Exception as error:
            self._adapter.explain(error)
            self._engine.now = max(self._engine.now, self._core.now)  # the core may be ahead
            raise
        finally:
            self.sent += [Sent(to, kind, **fields) for to, kind, fields in self._core.sent]
            self._core.sent.clear()

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self._engine.now / NS

    @property
    def node(self) -> int:
        """The number of the node."""
        return self._node

    @property
    def view(self) -> View:
        """The view of the node that its handlers receive."""
        return self._view_of(self._node)

    def _view_of(self, node: int) -> View:
        return self._core.view_of(node)

    @property
    def program(self) -> Any:
        """The program of the node with its memory; for a compiled node a copy of its attributes."""
        return self._adapter.program_of(self._node)

    @property
    def held(self) -> dict[int, int]:
        """The tasks that the node must place, by application."""
        return {index: tasks for index, tasks in self._core.held_by(self._node).items() if tasks}

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        """The waiting tasks of the machine, (application, tasks) pairs in the order of the queue."""
        return self.view.queued

    @property
    def timers(self) -> list[PendingTimer]:
        """The timers that the node has set and that have not fired, by time."""
        timers = [
            PendingTimer(instant / NS, name, fields)
            for _, instant, name, fields in self._core.timers_of(self._node)
        ]
        return sorted(timers, key=lambda timer: timer.time)


def _node_of(scheduler: Scheduler, role: str, number: int, machines: int) -> int:
    """Return the number of a node of a role."""
    nodes = nodes_of_roles(scheduler, machines)
    if role not in nodes:
        raise ScenarioError(f"role must be one of {', '.join(nodes) or 'none'}, got {role!r}")
    return nodes[role][integer("node", number, low=0, high=len(nodes[role]) - 1)]
