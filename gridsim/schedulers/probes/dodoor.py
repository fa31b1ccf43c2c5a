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
from gridsim.scheduling.contract import Run, TaskCost
from gridsim.scheduling.nodes.adapter import (
    IntMap,
    Message,
    NodeProgram,
    NodeScheduler,
    Role,
    SharedArray,
    array,
)
from gridsim.scheduling.nodes.environment import Environment
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
        self.memory = 0.0  # that they request, bytes
        self.work = 0.0  # time that they take, one after another, s; a running task counts in full
        self.completed = 0  # tasks since the start

    def on_start(self, view: View) -> None:
        """Register with the schedulers, and report an empty queue."""
        for scheduler in view.role("scheduler"):
            view.send(scheduler, "register", cores=view.cores, speed=view.speed, memory=self.capacity(view))
        self.report(view)

    def capacity(self, view: View) -> float:
        """Return the memory of this machine, bytes; 0 if it does not count."""
        return 0.0

    def demand(self, application: Any) -> float:
        """Return the memory that a task requests, bytes; 0 if it does not count."""
        return 0.0

    def report(self, view: View) -> None:
        """Send the load of this server to the data store."""
        view.send(view.role("store")[0], "state", tasks=self.tasks, memory=self.memory, work=self.work)

    def on_task(self, view: View, message: Any) -> None:
        """Queue a task."""
        application = view.application(message.application)
        self.tasks += message.tasks
        self.memory += message.tasks * self.demand(application)
        self.work += message.tasks * application.task_size / view.speed
        view.enqueue(message.application, message.tasks)

    def on_done(self, view: View, application: Any) -> None:
        """Subtract a task, and report after every `completions` tasks."""
        self.tasks -= 1
        self.memory -= self.demand(application)
        self.work -= application.task_size / view.speed
        if self.tasks == 0:
            self.work = 0.0  # without the rounding errors
        self.completed += 1
        if self.completed % self.parameters.completions == 0:
            self.report(view)


class MemoryServerNode(ServerNode):
    """A server whose load includes the memory that tasks request."""

    def capacity(self, view: View) -> float:
        return float(view.environment)

    def demand(self, application: Any) -> float:
        return float(application.memory)


class StoreNode(NodeProgram):
    """The data store: it holds the loads of all servers, and pushes them to the schedulers."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.loads = IntMap(tasks=int, memory=float, work=float)  # server -> its load
        self.decisions = 0  # decisions that schedulers have reported

    def on_state(self, view: View, message: Any) -> None:
        """Replace the load of a server."""
        self.loads[message.sender] = (message.tasks, message.memory, message.work)

    def on_placed(self, view: View, message: Any) -> None:
        """Add the tasks that a scheduler has placed, and push all loads at the end of a batch."""
        old_count = self.decisions
        for k in range(len(message.servers)):
            server = int(message.servers[k])
            tasks, memory, work = self.loads.get(server, (0, 0.0, 0.0))
            self.loads[server] = (
                tasks + int(message.tasks[k]),
                memory + float(message.memory[k]),
                work + float(message.work[k]),
            )
            self.decisions += int(message.tasks[k])
        if old_count // self.parameters.batch != self.decisions // self.parameters.batch:
            self.push(view)

    def push(self, view: View) -> None:
        """Send the loads of all servers to each scheduler."""
        servers = len(view.role("server"))
        tasks, memory, work = np.zeros(servers, np.int64), np.zeros(servers), np.zeros(servers)
        for server in self.loads:
            tasks[server], memory[server], work[server] = self.loads[server]
        for scheduler in view.role("scheduler"):
            view.send(scheduler, "snapshot", tasks=tasks, memory=memory, work=work)


class SchedulerNode(NodeProgram):
    """A scheduler, which places each task by the loads that the data store pushed last."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # server -> its number of cores, speed (Mflop/s) and memory (bytes)
        self.servers = IntMap(cores=int, speed=float, memory=float)
        # the cached load of each server; empty before the first snapshot
        self.tasks = SharedArray(np.zeros(0, np.int64))
        self.memory, self.work = SharedArray(np.zeros(0)), SharedArray(np.zeros(0))
        self.decisions = 0
        # server -> load placed there and not yet reported
        self.placed = IntMap(tasks=int, memory=float, work=float)

    def on_register(self, view: View, message: Any) -> None:
        """Store the capacity of a server."""
        self.servers[message.sender] = (message.cores, message.speed, message.memory)

    def on_snapshot(self, view: View, message: Any) -> None:
        """Replace the cached loads."""
        self.tasks.set(message.tasks)
        self.memory.set(message.memory)
        self.work.set(message.work)

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Place the tasks one by one, and report after every `decisions` decisions."""
        number, size, old_count = application.number, application.task_size, self.decisions
        demand = self.demand(application)
        for _ in range(tasks):
            server = self.choose(view, size, demand)
            view.decide("placed", number, node=server, tasks=1, saw=float(self.cached_tasks(server)))
            view.send(server, "task", application=number, tasks=1)
            placed, memory, work = self.placed.get(server, (0, 0.0, 0.0))
            _, speed, _ = self.servers.get(server, (1, np.inf, 0.0))
            self.placed[server] = (placed + 1, memory + demand, work + size / speed)
        self.decisions += tasks
        if old_count // self.parameters.decisions != self.decisions // self.parameters.decisions:
            self.report(view)

    def demand(self, application: Any) -> float:
        """Return the memory that a task requests, bytes; 0 if it does not count."""
        return 0.0

    def choose(self, view: View, size: float, demand: float) -> int:
        """Return the better of two random servers, or with probability 1 - `beta` a random one."""
        servers = len(view.role("server"))
        first = int(view.random.integers(servers))
        if self.parameters.beta < 1.0 and view.random.random() >= self.parameters.beta:
            return first
        second = int(view.random.integers(servers))
        return second if self.is_better(second, first, size, demand) else first

    def is_better(self, server: int, rival: int, size: float, demand: float) -> bool:
        """Return whether `server` has a lower score than `rival` for a task of `size` Mflop.

        It has not if either server has not registered yet.

        Parameters
        ----------
        demand
            Memory that the task requests, bytes.
        """
        if server not in self.servers or rival not in self.servers:
            return False
        anti_affinity = self.anti_affinity(server, demand)
        rival_anti_affinity = self.anti_affinity(rival, demand)
        duration, rival_duration = self.duration(server, size), self.duration(rival, size)
        weight = self.parameters.duration_weight
        gain = weight * (rival_duration - duration) / (duration + rival_duration)
        if anti_affinity + rival_anti_affinity > 0.0:
            difference = rival_anti_affinity - anti_affinity
            gain += (1.0 - weight) * difference / (anti_affinity + rival_anti_affinity)
        return bool(gain > 0.0)

    def anti_affinity(self, server: int, demand: float) -> float:
        """Return the sum of r L / C^2 over cores and memory for a task that requests one core and `demand`.

        A server has the capacity C, of which L is requested by its tasks already.
        """
        cores, _, capacity = self.servers[server]
        score = self.cached_tasks(server) / (cores * cores)
        if capacity > 0.0 and server < len(self.memory.values):
            memory_load = self.memory.values[server] / capacity
            score += self.parameters.memory_weight * (demand / capacity) * memory_load
        return float(score)

    def duration(self, server: int, size: float) -> float:
        """Return the time that a server takes for its tasks, on all cores, and then for one of `size`, s."""
        cores, speed, _ = self.servers[server]
        work = self.work.values[server] if server < len(self.work.values) else 0.0
        return float(work / cores + size / speed)

    def cached_tasks(self, server: int) -> int:
        """Return the cached number of tasks of a server, 0 before the first snapshot."""
        return int(self.tasks.values[server]) if server < len(self.tasks.values) else 0

    def report(self, view: View) -> None:
        """Report what was placed to the data store."""
        servers = np.array([server for server in self.placed])
        count = len(servers)
        tasks, memory, work = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
        for row in range(count):
            tasks[row], memory[row], work[row] = self.placed[int(servers[row])]
        self.placed.clear()
        view.send(view.role("store")[0], "placed", servers=servers, tasks=tasks, memory=memory, work=work)


class MemorySchedulerNode(SchedulerNode):
    """A scheduler that counts the memory that tasks request."""

    def demand(self, application: Any) -> float:
        return float(application.memory)


class ServerMemory(Environment):
    """The memory of the machines, which a server cannot see in its view."""

    reason = "each server knows the memory of its machine"
    STATE = ()

    def of_node(self, node: int) -> float:
        """Return the memory of the machine of a server, bytes; 0 if machines do not state it."""
        attributes = self.run.attributes
        if attributes is None or attributes.memory is None or node >= len(attributes.memory):
            return 0.0
        return float(attributes.memory[node])


#: Fields of the loads of several servers.
_LOADS: dict[str, Any] = {
    "tasks": array(int, ndim=1),
    "memory": array(float, ndim=1),
    "work": array(float, ndim=1),
}


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
        Share of the score that depends on the pending duration of a server; the rest depends on the cores
        and the memory that its tasks request.
    memory_weight
        Weight of memory relative to that of cores.  With 0 memory does not count; above 0 the nodes run
        interpreted only.
    completions
        Number of tasks that a server completes between two of its reports to the data store.
    decisions
        Number of decisions of a scheduler between two of its reports to the data store.
    """

    name: ClassVar[str] = "dodoor"
    task_cost: ClassVar[TaskCost] = TaskCost(memory=128, time=5e-6)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    cores: ClassVar[bool | Literal["separate"]] = True
    messages: ClassVar[Mapping[str, Message]] = {
        "register": Message(88, cores=int, speed=float, memory=float),
        "state": Message(88, tasks=int, memory=float, work=float),
        "placed": Message(
            lambda servers, **rest: 64 + 32 * servers.size, servers=array(int, ndim=1), **_LOADS
        ),
        "snapshot": Message(lambda tasks, **rest: 64 + 24 * tasks.size, **_LOADS),
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
    memory_weight: Annotated[float, Limits(low=0)] = 0.0
    completions: _Count = 1
    decisions: _Count = 8

    @property
    def roles(self) -> Mapping[str, Role]:  # type: ignore[override]
        """A server on each machine, and the schedulers and the data store on machines of their own.

        Servers are the first role, so that the number of a server is that of its machine.
        """
        counts_memory = self.memory_weight > 0.0
        return {
            "server": Role(MemoryServerNode if counts_memory else ServerNode),
            "scheduler": Role(
                MemorySchedulerNode if counts_memory else SchedulerNode,
                count=self.schedulers,
                server=True,
                releases=True,
            ),
            "store": Role(StoreNode, count=1, server=True),
        }

    def make_environment(self, run: Run) -> Environment | None:
        return ServerMemory(self, run) if self.memory_weight > 0.0 else None

    @classmethod
    def environment_reasons(cls) -> list[tuple[str, str]]:
        return [("memory_weight > 0", ServerMemory.reason)]
