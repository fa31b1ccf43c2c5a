"""Node programs of the schedulers in `gridsim.schedulers.classics.scheduler`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridcore.nodes.containers import Fifo, IntMap
from gridsim.scheduling.nodes.program import NodeProgram

__all__ = ["IdleNode", "PowerNode", "RandomNode", "RoundRobinNode", "StealingNode"]


class PlacingNode(NodeProgram):
    """Base class of nodes that place each task on the machine from `choose`, and run arriving tasks."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks):
            self.place(view, application.number, self.choose(view), view.machines, np.nan)

    def place(self, view: Any, application: int, machine: int, among: int, saw: float) -> None:
        """Place a task on `machine`, one of `among` candidates; `saw` is its observed load."""
        view.decide("placed", application, node=machine, tasks=1, among=among, saw=saw)
        if machine == view.node:
            view.enqueue(application, 1)
        else:
            view.send(machine, "task", application=application, tasks=1)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def choose(self, view: Any) -> int:
        """Return the machine for the next task."""
        return int(view.random.integers(view.machines))


class RandomNode(PlacingNode):
    """A node that places each task on a random machine."""


class RoundRobinNode(PlacingNode):
    """A node that places tasks on one machine after another, starting at a random one."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last_machine = 0

    def on_start(self, view: Any) -> None:
        self.last_machine = view.random.integers(view.machines)

    def choose(self, view: Any) -> int:
        self.last_machine = (self.last_machine + 1) % view.machines
        return self.last_machine


class BoardNode(PlacingNode):
    """Base class of nodes that place each task on the least loaded of all or some machines on the board.

    A node adds the tasks that it has placed at the same instant to the loads on the board.
    """

    def on_start(self, view: Any) -> None:
        self.publish(view)

    def on_end(self, view: Any) -> None:
        self.publish(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        load = view.board.values.copy()
        for _ in range(tasks):
            machine, among = self.least_loaded(view, load), view.machines
            if self.parameters.choices > 0:
                among = min(among, self.parameters.choices)  # one may be drawn twice
            self.place(view, application.number, machine, among, load[machine])
            load[machine] += self.size(view, application)
            if self.parameters.refresh == "decisions":
                view.board.add(machine, self.size(view, application))
                load[:] = view.board.values
            if machine == view.node:
                self.publish(view)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)
        self.publish(view)

    def publish(self, view: Any) -> None:
        """Publish the load of this machine on the board."""

    def size(self, view: Any, application: Any) -> float:
        """Return the load that a task of `application` adds to a machine."""
        return 1.0

    def least_loaded(self, view: Any, load: Any) -> int:
        """Return the machine with the least load among the choices; ties are broken at random."""
        if self.parameters.choices == 0:
            return int(view.random.choice(np.flatnonzero(load == load.min())))
        best = self.choose(view)
        for _ in range(self.parameters.choices - 1):
            machine = self.choose(view)
            if load[machine] < load[best]:
                best = machine
        return best


class QueueNode(BoardNode):
    """A node whose load is its number of tasks."""

    def publish(self, view: Any) -> None:
        view.publish(view.tasks)


class WorkNode(BoardNode):
    """A node whose load is the time needed for its tasks; it assumes that other machines are as fast."""

    def publish(self, view: Any) -> None:
        view.publish(view.work, falling=True)

    def size(self, view: Any, application: Any) -> float:
        return float(application.task_size / view.speed)


class PowerNode(PlacingNode):
    """A node that asks d random machines how many tasks they have, and picks the one with the fewest.

    With a memory it also probes the machines that had the fewest tasks at the last decision (Mitzenmacher,
    Prabhakar and Shah 2002).  At most `window` requests are undecided at once, so that the probes for a large
    bag do not hold up their own answers at the interface.  Without answers a task goes to a random machine.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.width, self.next_request = parameters.choices + parameters.memory, 0
        self.waiting = Fifo(application=int)
        self.requests = IntMap(application=int, answers=int)  # the undecided ones
        self.answers = IntMap(machine=int, load=float)  # answer k to request r has the key r x width + k
        self.memory = np.full(parameters.memory + 1, -1)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks):
            self.waiting.push(application.number)
        self.probe(view)

    def probe(self, view: Any) -> None:
        """Probe machines for the waiting tasks, as far as the window allows."""
        while self.waiting and len(self.requests) < self.parameters.window:
            self.requests[self.next_request] = (self.waiting.pop(), 0)
            for k in range(-self.parameters.choices, self.parameters.memory):
                machine = self.memory[k] if k >= 0 and self.memory[k] >= 0 else self.choose(view)
                view.send(machine, "probe", request=self.next_request)
            view.timer(self.parameters.patience, "late", self.next_request)
            self.next_request += 1

    def on_probe(self, view: Any, message: Any) -> None:
        view.send(message.sender, "answer", request=message.request, load=view.tasks)

    def on_answer(self, view: Any, message: Any) -> None:
        if message.request in self.requests:
            application, answers = self.requests[message.request]
            load = message.load + 0.5 * view.random.random()
            self.answers[message.request * self.width + answers] = (message.sender, load)
            self.requests[message.request] = (application, answers + 1)
            if answers + 1 == self.width:
                self.decide(view, message.request)

    def on_timer(self, view: Any, name: str, value: float) -> None:  # type: ignore[override]
        self.decide(view, int(value))

    def decide(self, view: Any, number: int) -> None:
        """Place the task of a request by the answers received so far, unless it has been placed."""
        if number in self.requests:
            application, answers = self.requests.pop(number)
            machine, load = np.full(self.width, -1), np.full(self.width, np.inf)
            for k in range(answers):
                machine[k], load[k] = self.answers.pop(number * self.width + k)
            if answers == 0:
                machine[0] = self.choose(view)
            best, among = np.argmin(load), min(answers, view.machines)
            self.place(view, application, machine[best], among, np.floor(load[best]))
            load[best] += 1.0
            least = np.argsort(load)[: min(self.parameters.memory, answers)]
            self.memory[: len(least)] = machine[least]
            self.probe(view)


class IdleNode(PlacingNode):
    """A node that reports to a random dispatcher when idle, and places tasks on machines that reported to it.

    Reports are used in order of arrival; without a report, a task goes to a random machine.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.idle_machines = Fifo(machine=int)

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        count = self.parameters.dispatchers
        view.send(view.random.integers(min(count, view.machines) if count > 0 else view.machines), "free")

    def on_free(self, view: Any, message: Any) -> None:
        self.idle_machines.push(message.sender)

    def choose(self, view: Any) -> int:
        return self.idle_machines.pop() if self.idle_machines else int(view.random.integers(view.machines))


class StealingNode(PlacingNode):
    """A node that runs the tasks submitted at it, and steals half of a machine's waiting tasks when idle."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # number of machines to ask before the next pause; last time at which this machine received work while
        # it had none
        self.attempts, self.work_began = 0, -1.0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("kept", application.number, tasks=tasks)
        self.work_began = self.work_began if view.work > 0.0 else view.now
        view.enqueue(application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.work_began = self.work_began if view.work > 0.0 else view.now
        view.enqueue(message.application, message.tasks)

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        self.attempts = self.parameters.attempts
        self.ask(view)

    def ask(self, view: Any) -> None:
        """Ask the next machine if there is still no work; after the last attempt, pause and start over."""
        view.cancel("late")
        if view.work == 0.0 and view.machines > 1:
            if self.attempts > 0:
                victim = view.random.integers(view.machines - 1)
                view.send(victim + (victim >= view.node), "steal")
            self.attempts -= 1
            view.timer(self.parameters.patience if self.attempts >= 0 else self.parameters.pause, "late")

    def on_timer(self, view: Any, name: str) -> None:  # no answer, or the pause is over
        if self.attempts < 0:
            self.attempts = self.parameters.attempts
        self.ask(view)

    def on_steal(self, view: Any, message: Any) -> None:
        # a task that starts at this instant still counts as waiting
        left = (view.waiting - int(self.work_began == view.now) + 1) // 2
        if left == 0:
            view.send(message.sender, "nothing")
        for application, tasks in view.queued[::-1]:  # tasks at the end of the queue are stolen first
            if left > 0:
                count = view.take(application, min(tasks, left))
                view.decide("gave", application, node=message.sender, tasks=count, saw=left)
                view.send(message.sender, "task", application=application, tasks=count)
                left -= count

    def on_nothing(self, view: Any, message: Any) -> None:
        self.ask(view)
