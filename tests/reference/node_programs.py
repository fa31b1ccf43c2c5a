"""Reference implementation of the message core: node programs as a policy of cohorts, in plain Python.

It calls the same nodes as the core (`gridcore.nodes.message_core`), by the engine's queue and rows of the
transport.  Actions of nodes are not checked, and there are no checkpoints.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridcore.common.state import NEVER
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import ACT, TIMER, Engine
from gridsim.model.applications import Application
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Policy, Run
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS, nanoseconds
from tests.reference.random_stream import RandomStream


class View:
    def __init__(self, grid: Grid, node: int, neighbours: tuple[int, ...]) -> None:
        self.grid, self.node, self.neighbours = grid, node, neighbours
        self.speed = float(grid.run.speeds[node])
        self.random = RandomStream(grid.seed, node)
        self.tasks_to_place: dict[int, int] = {}

    @property
    def now(self) -> float:
        return self.grid.run.engine.now / NS

    def _queue(self) -> Any:
        self.grid.queues.advance(self.grid.run.engine.now, [self.node])
        return self.grid.queues.queue(self.node)

    @property
    def waiting(self) -> int:
        return int(self._queue()[1].sum())

    @property
    def work(self) -> float:
        applications, tasks, running, free_at = self._queue()
        left = max(0, free_at - self.grid.run.engine.now) / NS if running >= 0 else 0.0
        size = 0.0
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            size += float(self.grid.run.applications.task_size[i]) * count
        return left + size / self.speed

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        applications, tasks, _, _ = self._queue()
        return tuple(zip(applications.tolist(), tasks.tolist(), strict=True))

    def application(self, index: int) -> Application:
        return self.grid.application(index)

    def put(self, application: int, tasks: int) -> None:
        self.tasks_to_place[application] = self.tasks_to_place.get(application, 0) + tasks

    def enqueue(self, application: int, tasks: int) -> None:
        self.put(application, -tasks)
        self.grid.queues.enqueue([self.node], [application], [tasks], self.grid.run.engine.now)
        self.grid.run.engine.touch("reorder", [self.node])

    def take(self, application: int, tasks: int) -> int:
        engine, queues = self.grid.run.engine, self.grid.queues
        n_taken = queues.withdraw(self.node, application, tasks, engine.now)
        if n_taken:
            self.put(application, n_taken)
            engine.touch("reorder", [self.node])
            if not queues.is_busy([self.node])[0]:
                engine.touch("idle", [self.node])
        return n_taken

    def send(self, to: int, kind: str, **fields: Any) -> None:
        declared = self.grid.parameters.messages[kind]
        if declared.moves_tasks:
            self.put(fields["application"], -fields["tasks"])
        self.grid.outbox[kind].append((to, self.node, *(fields[name] for name in declared.fields)))

    def timer(self, seconds: float, name: str) -> None:
        self.grid.set_timer(self.node, seconds, name)

    def cancel(self, name: str) -> None:
        self.grid.cancel_timers(self.node, name)


class Grid(Policy):
    """The policy that runs one node on each machine."""

    def __init__(self, parameters: Any, run: Run) -> None:
        self.parameters, self.run = parameters, run
        self.seed = int(run.streams(f"{parameters.name} nodes").integers(2**63))
        machines, bags, engine = len(run.speeds), run.applications, run.engine
        overlay = random_neighbours(machines, parameters.degree, run.streams(f"{parameters.name} overlay"))
        self.views = [View(self, u, tuple(row)) for u, row in enumerate(overlay.tolist())]
        self.nodes = [parameters.policy(parameters) for _ in range(machines)]
        self.queues = TaskQueues(run.speeds, order=parameters.local_order)
        self.queues.add_applications(bags.release, bags.size, bags.task_size)
        self.total = int(bags.tasks.sum())
        self.resubmitted = np.zeros(len(bags), np.int64)
        self.lost: dict[int, dict[int, int]] = {}  # detection time -> application -> tasks
        self.pending: list[dict[tuple[int, int], None]] = [{} for _ in range(machines)]
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

    def application(self, index: int) -> Application:
        bags = self.run.applications
        return Application(
            index,
            int(bags.tasks[index]),
            float(bags.task_size[index]),
            float(bags.size[index]),
            float(bags.release[index]),
        )

    def set_timer(self, node: int, seconds: float, name: str) -> None:
        names, at = self.parameters.timers, self.run.engine.now + nanoseconds(seconds)
        item = node * len(names) + names.index(name)
        if (at, item) not in self.pending[node]:
            self.pending[node][at, item] = None
            self.run.engine.at(at, "timer", item)

    def cancel_timers(self, node: int, name: str) -> None:
        item = node * len(self.parameters.timers) + self.parameters.timers.index(name)
        for at, number in [key for key in self.pending[node] if key[1] == item]:
            self.run.engine.cancel(at, "timer", item)
            del self.pending[node][at, number]

    def post(self) -> None:
        for name, rows in self.outbox.items():
            if rows:
                self.run.network.send(name, np.array(rows, self.parameters.messages[name].dtype))
                rows.clear()

    def begin(self, nodes: list[int]) -> None:
        for u in nodes:
            if self.run.up[u]:
                self.nodes[u].on_start(self.views[u])

    def on_release(self, applications: list[int]) -> None:
        for i in applications:
            self.give(i, int(self.run.applications.tasks[i]), is_lost=False)

    def give(self, application: int, tasks: int, *, is_lost: bool) -> None:
        up = np.flatnonzero(self.run.up)
        if not len(up):
            self.lose(application, tasks)
            return
        submitter = int(self.run.applications.submitter[application])
        node = int(up[np.searchsorted(up, submitter) % len(up)])
        self.views[node].put(application, tasks)
        handler = self.nodes[node].on_lost if is_lost else self.nodes[node].on_release
        handler(self.views[node], self.application(application), tasks)

    def on_message(self, kind: str, rows: Any) -> None:
        names = [name for name in rows.dtype.names if name != "node"]
        for node, *values in rows[["node", *names]].tolist():
            message = SimpleNamespace(kind=kind, **dict(zip(names, values, strict=True)))
            if self.parameters.messages[kind].moves_tasks:
                self.views[node].put(message.application, message.tasks)
            self.nodes[node].on_message(self.views[node], message)

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

    def advance(self, limit: int) -> int:
        at = self.queues.next_change()
        return at if at <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        nodes = self.queues.due(time)
        if self.queues.tasks_done == self.total:
            engine.stop()
        engine.touch("idle", nodes)

    def on_lost(self, rows: Any) -> None:
        for i, tasks in zip(rows["application"].tolist(), rows["tasks"].tolist(), strict=True):
            self.lose(i, tasks)

    def lose(self, application: int, tasks: int) -> None:
        due = self.run.engine.now + nanoseconds(self.parameters.detection)
        if due not in self.lost:
            self.lost[due] = {}
            self.run.engine.at(due, "resubmit")
        self.lost[due][application] = self.lost[due].get(application, 0) + tasks

    def resubmit(self, _: list[int]) -> None:
        if not self.run.up.any():
            return
        now = self.run.engine.now
        for due in sorted(due for due in self.lost if due <= now):
            for i, tasks in sorted(self.lost.pop(due).items()):
                self.resubmitted[i] += tasks
                self.give(i, tasks, is_lost=True)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        engine = self.run.engine
        _, applications, tasks = self.queues.fail(failed, engine.now)
        for i, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.lose(i, count)
        for u in failed.tolist():
            for i, count in self.views[u].tasks_to_place.items():
                if count:
                    self.lose(i, count)
            self.views[u].tasks_to_place.clear()
            self.nodes[u] = self.parameters.policy(self.parameters)
            for at, item in self.pending[u]:
                engine.cancel(at, "timer", item)
            self.pending[u].clear()
        engine.touch("begin", [u for u in np.union1d(failed, recovered).tolist() if self.run.up[u]])
        if len(recovered) and any(due <= engine.now for due in self.lost):
            engine.at(engine.now, "resubmit")

    def finish(self) -> Outcome:
        self.queues.advance(NEVER)
        return Outcome.of(self.queues, self.resubmitted)
