"""What one node of each classic scheduler does; see `gridsim.schedulers.classics.scheduler`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsim.scheduling.nodes.program import NodeProgram

__all__ = ["IdleNode", "PowerNode", "RandomNode", "RoundRobinNode", "StealingNode"]


class PlacingNode(NodeProgram):
    """Base class: places each task on the machine that `choose` returns, and runs what others place here."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks):
            self.place(view, application.number, self.choose(view), view.machines, np.nan)

    def place(self, view: Any, application: int, machine: int, among: int, saw: float) -> None:
        """Run a task on `machine`, chosen from `among`, of which the node saw the load `saw`."""
        view.decide("placed", application, machine=machine, tasks=1, among=among, saw=saw)
        if machine == view.node:
            view.enqueue(application, 1)
        else:
            view.send(machine, "task", application=application, tasks=1)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def choose(self, view: Any) -> int:
        """Return the machine of the next task."""
        return int(view.random.integers(view.machines))


class RandomNode(PlacingNode):
    """Places each task on a random machine."""


class RoundRobinNode(PlacingNode):
    """Places its tasks on one machine after another; each node begins with another machine."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.next = 0

    def on_start(self, view: Any) -> None:
        self.next = view.random.integers(view.machines)

    def choose(self, view: Any) -> int:
        self.next = (self.next + 1) % view.machines
        return self.next


class BoardNode(PlacingNode):
    """Base class: places each task where the board shows the least, on all machines or on some random ones.

    What it places itself at one instant it adds to what the board shows.
    """

    def on_start(self, view: Any) -> None:
        self.publish(view)

    def on_end(self, view: Any) -> None:
        self.publish(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        load = view.board.copy()
        for _ in range(tasks):
            machine, among = self.least(view, load), self.parameters.choices
            self.place(
                view, application.number, machine, among if among > 0 else view.machines, load[machine]
            )
            load[machine] += self.size(view, application)
            if machine == view.node:
                self.publish(view)

    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)
        self.publish(view)

    def publish(self, view: Any) -> None:
        """Put this machine's load on the board."""

    def size(self, view: Any, application: Any) -> float:
        """Return what a task of `application` adds to the load of a machine."""
        return 1.0

    def least(self, view: Any, load: Any) -> int:
        """Return the machine with the least load, a random one of several, among its choices."""
        if self.parameters.choices == 0:
            return int(view.random.choice(np.flatnonzero(load == load.min())))
        best = self.choose(view)
        for _ in range(self.parameters.choices - 1):
            other = self.choose(view)
            if load[other] < load[best]:
                best = other
        return best


class QueueNode(BoardNode):
    """Chooses by the number of tasks of a machine."""

    def publish(self, view: Any) -> None:
        view.publish(view.tasks)


class WorkNode(BoardNode):
    """Chooses by the time that a machine needs for what it has; it expects others to be as fast as itself."""

    def publish(self, view: Any) -> None:
        view.publish(view.work, falling=True)

    def size(self, view: Any, application: Any) -> float:
        return float(application.task_size / view.speed)


class PowerNode(PlacingNode):
    """Asks d random machines how many tasks they have, and places the task on the one with the fewest.

    With a memory it also asks the machines that had the fewest at the last decision (Mitzenmacher, Prabhakar
    and Shah 2002).  Request r is kept at r % room.  Without any answer the task stays here.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        room, width = parameters.room, parameters.choices + parameters.memory
        self.next, self.request = room, np.full(room, -1)  # numbers of requests; -1 for a decided one
        self.application, self.answers = np.zeros(room, int), np.zeros(room, int)
        self.machine, self.load = np.zeros((room, width), int), np.zeros((room, width))  # inf: no answer
        self.memory = np.full(parameters.memory + 1, -1)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        room, choices = self.parameters.room, self.parameters.choices
        for number in range(self.next, self.next + tasks):
            self.decide(view, number - room)  # which has not been, if there is no room
            at, self.next = number % room, number + 1
            self.request[at], self.application[at], self.answers[at] = number, application.number, 0
            self.load[at, :], self.machine[at, 0] = np.inf, view.node
            for k in range(-choices, self.parameters.memory):
                known = k >= 0 and self.memory[k] >= 0
                view.send(self.memory[k] if known else self.choose(view), "probe", request=number)
            view.timer(self.parameters.patience, "late", number)

    def on_probe(self, view: Any, message: Any) -> None:
        view.send(message.sender, "answer", request=message.request, load=view.tasks)

    def on_answer(self, view: Any, message: Any) -> None:
        at = message.request % self.parameters.room
        if self.request[at] == message.request:
            k, tie = self.answers[at], 0.5 * view.random.random()
            self.machine[at, k], self.load[at, k], self.answers[at] = (
                message.sender,
                message.load + tie,
                k + 1,
            )
            if self.answers[at] == self.parameters.choices + self.parameters.memory:
                self.decide(view, message.request)

    def on_timer(self, view: Any, name: str, value: float) -> None:  # type: ignore[override]
        self.decide(view, int(value))

    def decide(self, view: Any, number: int) -> None:
        """Place the task of a request by the answers that there are, unless it has been placed."""
        at = number % self.parameters.room
        if self.request[at] == number:
            load, self.request[at] = self.load[at], -1
            best = np.argmin(load)
            self.place(
                view, self.application[at], self.machine[at, best], self.answers[at], np.floor(load[best])
            )
            load[best] += 1.0
            for k in range(min(self.parameters.memory, self.answers[at])):
                best = np.argmin(load)
                self.memory[k], load[best] = self.machine[at, best], np.inf


class IdleNode(PlacingNode):
    """Reports to a random dispatcher when it is idle; places tasks on machines that have reported to it.

    Reports are used in the order in which they come; a task for which there is none goes to a random machine.
    Report r is kept at r % room.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.idle = np.zeros(parameters.room, int)
        self.first, self.beyond = 0, 0  # of the reports that have not been used

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        some = self.parameters.dispatchers
        view.send(view.random.integers(min(some, view.machines) if some > 0 else view.machines), "free")

    def on_free(self, view: Any, message: Any) -> None:
        self.idle[self.beyond % self.parameters.room] = message.sender
        self.beyond += 1
        self.first = max(self.first, self.beyond - self.parameters.room)

    def choose(self, view: Any) -> int:
        if self.first == self.beyond:
            return int(view.random.integers(view.machines))
        self.first += 1
        return int(self.idle[(self.first - 1) % self.parameters.room])


class StealingNode(PlacingNode):
    """Runs what is submitted here; without work it asks random machines for half of what waits there."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # how many machines may be asked before the next pause; when it last had no work and got some
        self.left, self.began = 0, -1.0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.decide("kept", application.number, tasks=tasks)
        self.began = self.began if view.work > 0.0 else view.now
        view.enqueue(application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.began = self.began if view.work > 0.0 else view.now
        view.enqueue(message.application, message.tasks)

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        self.left = self.parameters.attempts
        self.ask(view)

    def ask(self, view: Any) -> None:
        """Ask the next machine, unless there is work by now; after the last one, begin anew after a pause."""
        view.cancel("late")
        if view.work == 0.0 and view.machines > 1:
            if self.left > 0:
                other = view.random.integers(view.machines - 1)
                view.send(other + (other >= view.node), "steal")
            self.left -= 1
            view.timer(self.parameters.patience if self.left >= 0 else self.parameters.pause, "late")

    def on_timer(self, view: Any, name: str) -> None:  # no answer, or the pause is over
        if self.left < 0:
            self.left = self.parameters.attempts
        self.ask(view)

    def on_steal(self, view: Any, message: Any) -> None:
        # a task may wait only because it starts at this instant
        left = (view.waiting - int(self.began == view.now) + 1) // 2
        if left == 0:
            view.send(message.sender, "nothing")
        for application, tasks in view.queued[::-1]:  # what would run last goes first
            if left > 0:
                taken = view.take(application, min(tasks, left))
                view.decide("gave", application, machine=message.sender, tasks=taken, saw=left)
                view.send(message.sender, "task", application=application, tasks=taken)
                left -= taken

    def on_nothing(self, view: Any, message: Any) -> None:
        self.ask(view)
