"""Dodoor: schedulers place tasks by cached loads of all servers, which a data store pushes in batches.

W. Da and E. Kalyvianaki, "Dodoor: efficient randomized decentralized scheduling with load caching for
heterogeneous tasks and clusters" (arXiv 2510.12889, 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.probes.sparrow import tasks_at
from gridsim.scheduling.nodes.adapter import (
    IntMap,
    Message,
    NodeProgram,
    NodeScheduler,
    Role,
    SharedArray,
    array,
)
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.program import View
from gridsim.support.parameters import Limits

_Count = Annotated[int, Limits(low=1)]
_Share = Annotated[float, Limits(low=0, high=1)]


class ServerNode(NodeProgram):
    """A machine that runs tasks in the order of arrival, and reports its load to the data store."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.tasks = 0  # waiting and running tasks
        self.work = 0.0  # time that they take, one after another, s; a running task counts in full
        self.completed = 0  # tasks since the start

    def on_start(self, view: View) -> None:
        """Register with the schedulers, and report an empty queue."""
        for scheduler in view.role("scheduler"):
            view.send(scheduler, "register", cores=view.cores, speed=view.speed)
        self.report(view)

    def report(self, view: View) -> None:
        """Send the load of this server to the data store."""
        view.send(view.role("store")[0], "state", tasks=self.tasks, work=self.work)

    def on_task(self, view: View, message: Any) -> None:
        """Queue a task."""
        self.tasks += message.tasks
        self.work += message.tasks * view.application(message.application).task_size / view.speed
        view.enqueue(message.application, message.tasks)

    def on_done(self, view: View, application: Any) -> None:
        """Subtract a task, and report after every `completions` tasks."""
        self.tasks -= 1
        self.work -= application.task_size / view.speed
        if self.tasks == 0:
            self.work = 0.0  # without the rounding errors
        self.completed += 1
        if self.completed % self.parameters.completions == 0:
            self.report(view)


class StoreNode(NodeProgram):
    """The data store: it holds the loads of all servers, and pushes them to the schedulers."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.loads = IntMap(tasks=int, work=float)  # server -> its load
        self.decisions = 0  # decisions that schedulers have reported

    def on_state(self, view: View, message: Any) -> None:
        """Replace the load of a server."""
        self.loads[message.sender] = (message.tasks, message.work)

    def on_placed(self, view: View, message: Any) -> None:
        """Add the tasks that a scheduler has placed, and push all loads at the end of a batch."""
        before = self.decisions
        for k in range(len(message.servers)):
            server = int(message.servers[k])
            tasks, work = self.loads.get(server, (0, 0.0))
            self.loads[server] = (tasks + int(message.tasks[k]), work + float(message.work[k]))
            self.decisions += int(message.tasks[k])
        if before // self.parameters.batch != self.decisions // self.parameters.batch:
            self.push(view)

    def push(self, view: View) -> None:
        """Send the loads of all servers to each scheduler."""
        servers = len(view.role("server"))
        tasks, work = np.zeros(servers, np.int64), np.zeros(servers)
        for server, (server_tasks, server_work) in self.loads.items():
            tasks[server], work[server] = server_tasks, server_work
        for scheduler in view.role("scheduler"):
            view.send(scheduler, "snapshot", tasks=tasks, work=work)


class SchedulerNode(NodeProgram):
    """A scheduler, which places each task by the loads that the data store pushed last."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.servers = IntMap(cores=int, speed=float)  # server -> its number of cores, and speed, Mflop/s
        # the cached load of each server; empty before the first snapshot
        self.tasks, self.work = SharedArray(np.zeros(0, np.int64)), SharedArray(np.zeros(0))
        self.decisions = 0
        self.placed = IntMap(tasks=int, work=float)  # server -> load placed there, not yet reported

    def on_register(self, view: View, message: Any) -> None:
        """Store the capacity of a server."""
        self.servers[message.sender] = (message.cores, message.speed)

    def on_snapshot(self, view: View, message: Any) -> None:
        """Replace the cached loads."""
        self.tasks.set(message.tasks)
        self.work.set(message.work)

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Place the tasks one by one, and report after every `decisions` decisions."""
        number, size, before = application.number, application.task_size, self.decisions
        for _ in range(tasks):
            server = self.choose(view, size)
            view.decide("placed", number, node=server, tasks=1, saw=float(self.cached_tasks(server)))
            view.send(server, "task", application=number, tasks=1)
            placed_tasks, work = self.placed.get(server, (0, 0.0))
            _, speed = self.servers.get(server, (1, np.inf))
            self.placed[server] = (placed_tasks + 1, work + size / speed)
        self.decisions += tasks
        if before // self.parameters.decisions != self.decisions // self.parameters.decisions:
            self.report(view)

    def choose(self, view: View, size: float) -> int:
        """Return the better of two random servers, or with probability 1 - `beta` a random one."""
        servers = len(view.role("server"))
        first = int(view.random.integers(servers))
        if self.parameters.beta < 1.0 and view.random.random() >= self.parameters.beta:
            return first
        second = int(view.random.integers(servers))
        return second if self.is_better(second, first, size) else first

    def is_better(self, server: int, other: int, size: float) -> bool:
        """Return whether `server` has a lower score than `other` for a task of `size` Mflop.

        It has not if either server has not registered yet.
        """
        if server not in self.servers or other not in self.servers:
            return False
        anti_affinity, other_anti_affinity = self.anti_affinity(server), self.anti_affinity(other)
        duration, other_duration = self.duration(server, size), self.duration(other, size)
        weight = self.parameters.duration_weight
        gain = weight * (other_duration - duration) / (duration + other_duration)
        if anti_affinity + other_anti_affinity > 0.0:
            difference = other_anti_affinity - anti_affinity
            gain += (1.0 - weight) * difference / (anti_affinity + other_anti_affinity)
        return bool(gain > 0.0)

    def anti_affinity(self, server: int) -> float:
        """Return r L / C^2 of a task that requests r = 1 of C cores, of which L are requested already."""
        cores, _ = self.servers[server]
        return float(self.cached_tasks(server) / (cores * cores))

    def duration(self, server: int, size: float) -> float:
        """Return the time that a server takes for its tasks, on all cores, and then for one of `size`, s."""
        cores, speed = self.servers[server]
        work = self.work.values[server] if server < len(self.work.values) else 0.0
        return float(work / cores + size / speed)

    def cached_tasks(self, server: int) -> int:
        """Return the cached number of tasks of a server, 0 before the first snapshot."""
        return int(self.tasks.values[server]) if server < len(self.tasks.values) else 0

    def report(self, view: View) -> None:
        """Report what was placed to the data store."""
        servers = np.array([server for server in self.placed])
        tasks, work = np.zeros(len(servers), np.int64), np.zeros(len(servers))
        for row in range(len(servers)):
            tasks[row], work[row] = self.placed[int(servers[row])]
        self.placed.clear()
        view.send(view.role("store")[0], "placed", servers=servers, tasks=tasks, work=work)


class Dodoor(NodeScheduler, frozen=True, kw_only=True):
    """Dodoor (Da and Kalyvianaki 2025): two choices by cached loads, which a data store pushes in batches.

    Schedulers on machines of their own place each task on the better of two random servers.  The data store,
    on a further machine, holds the loads of all servers and pushes them to the schedulers.

    Parameters
    ----------
    degree
        Number of neighbours of each node; this scheduler does not use them.
    schedulers
        Number of schedulers; applications submitted at machine m go to scheduler m % `schedulers`.
    batch
        Number of decisions of all schedulers after which the data store pushes the loads of all servers.
    beta
        Probability with which two servers are compared; otherwise a task goes to a random one.
    duration_weight
        Share of the score that depends on the pending duration of a server; the rest depends on its
        requested cores.
    completions
        Number of tasks that a server completes between two of its reports to the data store.
    decisions
        Number of decisions of a scheduler between two of its reports to the data store.
    """

    name: ClassVar[str] = "dodoor"
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    cores: ClassVar[bool | Literal["separate"]] = True
    roles: ClassVar[Mapping[str, Role]] = {
        "server": Role(ServerNode),  # the first, so that the number of a server is that of its machine
        "scheduler": Role(SchedulerNode, count=lambda own, _: own.schedulers, server=True, releases=True),
        "store": Role(StoreNode, count=1, server=True),
    }
    messages: ClassVar[Mapping[str, Message]] = {
        "register": Message(80, cores=int, speed=float),
        "state": Message(80, tasks=int, work=float),
        "placed": Message(
            lambda servers, **rest: 64 + 24 * servers.size,
            servers=array(int, ndim=1),
            tasks=array(int, ndim=1),
            work=array(float, ndim=1),
        ),
        "snapshot": Message(
            lambda tasks, **rest: 64 + 16 * tasks.size, tasks=array(int, ndim=1), work=array(float, ndim=1)
        ),
        "task": Message(170, moves_tasks=True, application=int, tasks=int),
    }
    decision_words: ClassVar[DecisionTexts] = {
        "placed": ("put a task on machine {machine}", "tasks there:", "")
    }
    truths: ClassVar[Mapping[str, TruthOf]] = {"placed": tasks_at}

    degree: Annotated[int, Limits(low=0)] = 0
    schedulers: _Count = 5
    batch: _Count = 50
    beta: _Share = 1.0
    duration_weight: _Share = 0.5
    completions: _Count = 1
    decisions: _Count = 8
