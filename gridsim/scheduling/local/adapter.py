"""Decentralized schedulers written from the point of view of one node: the second tier of the contract.

A `LocalPolicy` is one node.  It gets the applications that are submitted there and the messages that arrive,
and it acts through its `View`, which gives access to nothing else.  `LocalScheduler` has the parameters and
declares the messages.  The `Adapter` makes a `Policy` of them.  It calls the nodes once for each row of a
cohort, so that this tier is slower than the first; it is fast enough for 10,000 machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.queues.task_queues import NEVER, TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.model.applications import Application
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.local.oracle import Decider, TruthOf
from gridsim.scheduling.local.policy import (
    HIGHEST,
    LOWEST,
    Hands,
    LocalPolicy,
    Message,
    Notes,
    View,
    as_number,
)
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.parameters import Limits
from gridsim.support.state import check_names

__all__ = ["LocalPolicy", "LocalScheduler", "Message", "View"]


class LocalScheduler(Scheduler, frozen=True, kw_only=True):
    """Parameters of a scheduler whose nodes are `policy` objects.

    degree : number of neighbours of each node: other machines, drawn at random once.
    detection : s from the loss of tasks in a failure until their submitter learns of it.

    Class variables: ``policy``, a subclass of `LocalPolicy`; ``messages``, name -> `Message`, in the order in
    which kinds are handled at one instant; ``timers``, their names; ``local_order``, ``"edf"`` or ``"fifo"``,
    the order in which a machine runs its tasks; ``tables``, name -> columns, ``int`` or ``float``, of the
    rows that nodes write for the result (`View.note`); ``truths``, action -> function that returns the true
    value when a node takes that decision (`View.decide`), which no node can see.

    Raises ScenarioError for parameters that are out of range, and for a class without a ``policy``.
    """

    decentralized: ClassVar[bool] = True
    policy: ClassVar[type[LocalPolicy]]
    messages: ClassVar[Mapping[str, Message]] = {}
    timers: ClassVar[tuple[str, ...]] = ()
    local_order: ClassVar[Literal["edf", "fifo"]] = "edf"
    tables: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    truths: ClassVar[Mapping[str, TruthOf]] = {}

    degree: Annotated[int, Limits(low=1)] = 8
    detection: Annotated[float, Limits(low=0, unit="s")] = 1.0

    def __post_init__(self) -> None:
        self._check_policy()
        super().__post_init__()

    @property
    def order(self) -> Literal["edf", "fifo"]:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return self.local_order

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        self._check_policy()  # again, since a subclass may override __post_init__ without it
        return Adapter(self, run)

    def _check_policy(self) -> None:
        policy = getattr(self, "policy", None)
        if not (isinstance(policy, type) and issubclass(policy, LocalPolicy)):
            raise ScenarioError(
                f"{type(self).__name__}.policy must be a subclass of LocalPolicy, got {policy!r}"
            )


#: s: longer than any simulation can last.  Timers that are set for longer than this are set for this.
_NO_INSTANT = 1e10


class Adapter(Policy):
    """A `Policy` that runs one `LocalPolicy` on each machine."""

    def __init__(self, parameters: LocalScheduler, run: Run) -> None:
        self.parameters, self.run = parameters, run
        machines, bags, engine = len(run.speeds), run.applications, run.engine
        overlay = random_neighbours(machines, parameters.degree, run.streams(f"{parameters.name} overlay"))
        self.views = [View(self, u, tuple(row)) for u, row in enumerate(overlay.tolist())]
        self.nodes: list[LocalPolicy] = [parameters.policy(parameters) for _ in range(machines)]
        self.queues = TaskQueues(run.speeds, order=parameters.local_order, record=run.record)
        self.queues.add_applications(bags.release, bags.size, bags.task_size)
        self.total = int(bags.tasks.sum())
        self.resubmitted = np.zeros(len(bags), np.int64)
        self.hands, self.notes = Hands(machines), Notes(parameters.tables)
        self.decider = Decider(self)
        self.lost: dict[int, dict[int, int]] = {}  # detection time -> application -> tasks
        self.pending: list[dict[tuple[int, int], None]] = [
            {} for _ in range(machines)
        ]  # timers: (time, item)
        self.outbox: dict[str, list[tuple[Any, ...]]] = {name: [] for name in parameters.messages}
        for number, (name, kind) in enumerate(parameters.messages.items()):
            run.network.kind(
                name,
                kind.dtype,
                kind.nbytes,
                partial(self.on_message, name),
                priority=10 + number,
                lost=self.on_lost if kind.moves_tasks else None,
            )
        engine.on("reorder", self.reorder, priority=10, phase=ACT)
        engine.on("begin", self.begin, priority=11, phase=ACT)
        engine.on("idle", self.on_idle, priority=12, phase=ACT)
        engine.on("timer", self.on_timer, priority=10, phase=TIMER)
        engine.on("resubmit", self.resubmit, priority=FAULT_PRIORITY + 1, phase=TIMER)
        engine.at_wave_end(self.post)
        engine.add_source(self)
        run.network.open()
        engine.touch("begin", range(machines))

    # -- what nodes do ------------------------------------------------------------------------------------

    def application(self, index: int) -> Application:
        bags = self.run.applications
        return Application(
            index,
            int(bags.tasks[index]),
            float(bags.task_size[index]),
            float(bags.size[index]),
            float(bags.release[index]),
        )

    def queue_of(self, node: int) -> Any:
        self.queues.advance(self.run.engine.now, [node])
        return self.queues.queue(node)

    def work_of(self, node: int) -> float:
        applications, tasks, running, free_at = self.queue_of(node)
        left = max(0, free_at - self.run.engine.now) / NS if running >= 0 else 0.0
        sizes = self.run.applications.task_size[applications]
        return left + float((sizes * tasks).sum() / self.run.speeds[node])

    def enqueue(self, node: int, application: int, tasks: int) -> None:
        self.hands.take(node, application, tasks)
        self.queues.enqueue([node], [application], [tasks], self.run.engine.now)
        self.run.engine.touch("reorder", [node])

    def send(self, node: int, to: int, kind: str, fields: dict[str, float]) -> None:
        declared = self.parameters.messages.get(kind)
        if type(to) is not int:
            to = as_number(int, to, node, "the machine it sends to")
        if declared is None or fields.keys() != declared.fields.keys() or not 0 <= to < len(self.nodes):
            known = {name: list(each.fields) for name, each in self.parameters.messages.items()}
            raise SchedulerError(
                f"t = {self.run.engine.now / NS} s: node {node} sends {kind!r} with {sorted(fields)} to "
                f"machine {to}; there are {known} and machines 0..{len(self.nodes) - 1}"
            )
        row: list[float] = [to, node]
        for name, each in declared.fields.items():
            value = fields[name]
            if type(value) is not each or (each is int and not LOWEST <= value <= HIGHEST):
                value = fields[name] = as_number(each, value, node, name)
            row.append(value)
        if "application" in fields and fields["application"] not in self.views[node]._known:
            raise SchedulerError(
                f"t = {self.run.engine.now / NS} s: node {node} sends {kind!r} with application "
                f"{fields['application']}, of which it has not heard"
            )
        if declared.moves_tasks:
            self.hands.take(node, int(fields["application"]), int(fields["tasks"]))
        self.outbox[kind].append(tuple(row))

    def set_timer(self, node: int, seconds: float, name: str) -> None:
        names, seconds = self.parameters.timers, as_number(float, seconds, node, f"the timer {name!r}")
        if name not in names or not 0 <= seconds < math.inf:
            raise SchedulerError(
                f"t = {self.run.engine.now / NS} s: node {node} sets the timer {name!r} in {seconds!r} s; "
                f"it must be one of {', '.join(names) or 'none'}, in 0 s or more"
            )
        at = self.run.engine.now + nanoseconds(min(seconds, _NO_INSTANT))
        item = node * len(names) + names.index(name)
        if (at, item) not in self.pending[node]:
            self.pending[node][at, item] = None
            self.run.engine.at(at, "timer", item)

    def cancel_timers(self, node: int, name: str) -> None:
        names = self.parameters.timers
        if name not in names:
            raise SchedulerError(
                f"node {node} cancels the timer {name!r}; there are {', '.join(names) or 'none'}"
            )
        item = node * len(names) + names.index(name)
        for at, each in [key for key in self.pending[node] if key[1] == item]:
            self.run.engine.cancel(at, "timer", item)
            del self.pending[node][at, each]

    def post(self) -> None:
        """Pass the messages that nodes have sent in this wave to the network."""
        for name, rows in self.outbox.items():
            if rows:
                self.run.network.send(name, np.array(rows, self.parameters.messages[name].dtype))
                rows.clear()

    # -- what happens to them -------------------------------------------------------------------------------

    def begin(self, nodes: list[int]) -> None:
        for u in nodes:
            if self.run.up[u]:
                self.nodes[u].on_start(self.views[u])

    def on_release(self, applications: list[int]) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        for i in applications:
            self._give(i, int(self.run.applications.tasks[i]), again=False)

    def _give(self, application: int, tasks: int, *, again: bool) -> None:
        """Give tasks to the submitter of the application, or to the next machine that is up in its place."""
        up = np.flatnonzero(self.run.up)
        if not len(up):
            self._lose(application, tasks)
            return
        submitter = int(self.run.applications.submitter[application])
        node = int(up[np.searchsorted(up, submitter) % len(up)])
        view = self.views[node]
        view._known[application] = None
        self.hands.put(node, application, tasks)
        told = self.nodes[node].on_lost if again else self.nodes[node].on_release
        told(view, self.application(application), tasks)

    def on_message(self, kind: str, rows: Any) -> None:
        names = [name for name in rows.dtype.names if name != "node"]
        tells, moves = "application" in names, self.parameters.messages[kind].moves_tasks
        for node, *values in rows[["node", *names]].tolist():
            come = SimpleNamespace(kind=kind, **dict(zip(names, values, strict=True)))
            if tells:
                self.views[node]._known[come.application] = None
            if moves:
                self.hands.put(node, come.application, come.tasks)
            self.nodes[node].on_message(self.views[node], come)

    def on_timer(self, items: list[int]) -> None:
        names, now = self.parameters.timers, self.run.engine.now
        for item in items:
            node, number = divmod(item, len(names))
            if self.pending[node].pop((now, item), False) is None:
                self.nodes[node].on_timer(self.views[node], names[number])

    def reorder(self, nodes: list[int]) -> None:
        self.queues.reschedule(nodes, self.run.engine.now)

    def on_idle(self, nodes: list[int]) -> None:
        for u in nodes:
            if self.run.up[u] and not self.queues.is_busy([u])[0]:
                self.nodes[u].on_idle(self.views[u])

    # -- time, and the end --------------------------------------------------------------------------------

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        at = self.queues.next_change()
        return at if at <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        nodes = self.queues.due(time)
        if self.queues.tasks_done == self.total:
            engine.stop()
        engine.touch("idle", nodes)

    # -- failures -----------------------------------------------------------------------------------------

    def on_lost(self, rows: Any) -> None:
        for i, tasks in zip(rows["application"].tolist(), rows["tasks"].tolist(), strict=True):
            self._lose(i, tasks)

    def _lose(self, application: int, tasks: int) -> None:
        due = self.run.engine.now + nanoseconds(self.parameters.detection)
        if due not in self.lost:
            self.lost[due] = {}
            self.run.engine.at(due, "resubmit")
        self.lost[due][application] = self.lost[due].get(application, 0) + tasks

    def resubmit(self, _: list[int]) -> None:
        """Submit the lost tasks that are due again, unless all machines are down."""
        if not self.run.up.any():
            return
        now = self.run.engine.now
        for due in sorted(due for due in self.lost if due <= now):
            for i, tasks in sorted(self.lost.pop(due).items()):
                self.resubmitted[i] += tasks
                self._give(i, tasks, again=True)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.scheduling.contract.Policy`."""
        engine = self.run.engine
        _, applications, tasks = self.queues.fail(failed, engine.now)
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self._lose(i, count)
        for u in failed.tolist():
            for i, count in self.hands.drop(u):
                self._lose(i, count)
            self.nodes[u] = self.parameters.policy(self.parameters)
            self.views[u]._known.clear()
            for at, item in self.pending[u]:
                engine.cancel(at, "timer", item)
            self.pending[u].clear()
        engine.touch("begin", [u for u in np.union1d(failed, back).tolist() if self.run.up[u]])
        if len(back) and any(due <= engine.now for due in self.lost):
            engine.at(engine.now, "resubmit")

    # -- checkpoints ----------------------------------------------------------------------------------------

    STATE = ("queues", "resubmitted", "lost", "pending", "hands", "notes")

    def getstate(self) -> dict[str, Any]:
        """Return the state of the adapter, its nodes and views; attributes of nodes must be plain values."""
        nodes = [
            {name: value for name, value in _attributes(node).items() if name != "parameters"}
            for node in self.nodes
        ]
        views = [(list(view._known), view._random) for view in self.views]
        return {**super().getstate(), "nodes": nodes, "views": views}

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        check_names(self, state, (*(self.STATE or ()), "views", "nodes"))
        for view, (known, random) in zip(self.views, state.pop("views"), strict=True):
            view._known, view._random = dict.fromkeys(known), random
        self.nodes = [self.parameters.policy(self.parameters) for _ in self.views]
        for node, attributes in zip(self.nodes, state.pop("nodes"), strict=True):
            for name, value in attributes.items():
                setattr(node, name, value)
        super().setstate(state)

    # -- the end --------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self.queues.advance(NEVER)
        outcome = Outcome.of(self.queues, self.resubmitted)
        outcome.tables = self.notes.tables()
        return outcome


def _attributes(node: LocalPolicy) -> dict[str, Any]:
    """Return the attributes of a node, including those in slots."""
    state = object.__getstate__(node)
    plain, slots = state if isinstance(state, tuple) else (state, None)
    return {**(plain or {}), **(slots or {})}
