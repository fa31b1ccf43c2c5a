"""Node programs of the schedulers in `gridsim.schedulers.classics.scheduler`."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    Prabhakar and Shah 2002).  Request r is stored in slot r % room.  Without answers the task stays here.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        room, width = parameters.room, parameters.choices + parameters.memory
        # for each slot: the number of its undecided request (`request`), or -1
        self.next_request, self.request = room, np.full(room, -1)
        self.application, self.answers = np.zeros(room, int), np.zeros(room, int)
        self.machine, self.load = np.zeros((room, width), int), np.zeros((room, width))  # inf: no answer
        self.memory = np.full(parameters.memory + 1, -1)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        room, choices = self.parameters.room, self.parameters.choices
        for number in range(self.next_request, self.next_request + tasks):
            self.decide(view, number - room)  # free the slot of the oldest request
            slot, self.next_request = number % room, number + 1
            self.request[slot], self.application[slot], self.answers[slot] = number, application.number, 0
            self.load[slot, :], self.machine[slot, 0] = np.inf, view.node
            for k in range(-choices, self.parameters.memory):
                is_known = k >= 0 and self.memory[k] >= 0
                view.send(self.memory[k] if is_known else self.choose(view), "probe", request=number)
            view.timer(self.parameters.patience, "late", number)

    def on_probe(self, view: Any, message: Any) -> None:
        view.send(message.sender, "answer", request=message.request, load=view.tasks)

    def on_answer(self, view: Any, message: Any) -> None:
        slot = message.request % self.parameters.room
        if self.request[slot] == message.request:
            k, tie = self.answers[slot], 0.5 * view.random.random()
            self.machine[slot, k], self.load[slot, k], self.answers[slot] = (
                message.sender,
                message.load + tie,
                k + 1,
            )
            if self.answers[slot] == self.parameters.choices + self.parameters.memory:
                self.decide(view, message.request)

    def on_timer(self, view: Any, name: str, value: float) -> None:  # type: ignore[override]
        self.decide(view, int(value))

    def decide(self, view: Any, number: int) -> None:
        """Place the task of a request by the answers received so far, unless it has been placed."""
        slot = number % self.parameters.room
        if self.request[slot] == number:
            load, self.request[slot] = self.load[slot], -1
            best = np.argmin(load)
            self.place(
                view,
                self.application[slot],
                self.machine[slot, best],
                self.answers[slot],
                np.floor(load[best]),
            )
            load[best] += 1.0
            for k in range(min(self.parameters.memory, self.answers[slot])):
                best = np.argmin(load)
                self.memory[k], load[best] = self.machine[slot, best], np.inf


class IdleNode(PlacingNode):
    """A node that reports to a random dispatcher when idle, and places tasks on machines that reported to it.

    Reports are used in order of arrival; without a report, a task goes to a random machine.  Report r is
    stored in slot r % room.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.idle_machines = np.zeros(parameters.room, int)
        self.first, self.end = 0, 0  # range of the unused reports

    def on_start(self, view: Any) -> None:
        self.on_idle(view)

    def on_idle(self, view: Any) -> None:
        count = self.parameters.dispatchers
        view.send(view.random.integers(min(count, view.machines) if count > 0 else view.machines), "free")

    def on_free(self, view: Any, message: Any) -> None:
        self.idle_machines[self.end % self.parameters.room] = message.sender
        self.end += 1
        self.first = max(self.first, self.end - self.parameters.room)

    def choose(self, view: Any) -> int:
        if self.first == self.end:
            return int(view.random.integers(view.machines))
        self.first += 1
        return int(self.idle_machines[(self.first - 1) % self.parameters.room])


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
