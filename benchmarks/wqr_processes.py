"""The other design of `wqr_simpy`: processes, as SimPy's manual has them.

A process for each machine sleeps until the server wakes it with a copy, lets the time of that pass, and
is interrupted where the machine fails or another completes the task first; one process reads the failures,
one is the server, which is woken whenever something may have become possible.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import Any

import simpy
from numpy.typing import ArrayLike
from wqr_simpy import (
    CHANGES,
    STARTS,
    Failures,
    Late,
    Machine,
    Outcome,
    Rules,
    Server,
    no_collection,
    numbers,
    rows,
)

#: Why a process is interrupted.
FAILURE, KILLED = "failure", "killed"

Steps = Generator[simpy.Event, Any, None]


class Host(Machine):
    """process : its own, which waits for one of two; given : a copy, that takes so many ns; back : the
    machine is up again, until then."""

    __slots__ = ("back", "given", "process")

    process: simpy.Process
    given: simpy.Event
    back: simpy.Event


class Change(simpy.Event):
    """Something may have become possible; comes after all else that happens at its instant."""

    def succeed(self, value: Any = None) -> Change:
        """Trigger it, if it is not."""
        if not self.triggered:
            self._ok, self._value = True, value
            self.env.schedule(self, STARTS)
        return self


class Grid:
    """The simulation.  Arguments: see `wqr_simpy.simulate`."""

    def __init__(
        self,
        speeds: ArrayLike,
        sizes: ArrayLike,
        sequence: ArrayLike,
        first: ArrayLike,
        failures: Failures,
        rules: Rules,
    ) -> None:
        self.env = env = simpy.Environment()
        self.done = env.event()
        self.changed = Change(env)
        self.machines = [Host(*each) for each in zip(count(), numbers(speeds), numbers(first), strict=False)]
        self.server = Server(env, self.machines, sizes, sequence, rules, launch)
        for machine in self.machines:
            machine.process = env.process(self.life(machine))
        env.process(self.failures(failures))
        env.process(self.starts())

    def life(self, machine: Host) -> Steps:
        """A machine runs one copy after another, if nobody interrupts it."""
        env, server = self.env, self.server
        while True:
            try:
                machine.given = env.event()
                duration = yield machine.given
                yield env.timeout(duration)
                self.complete(machine)
            except simpy.Interrupt as interrupt:
                if interrupt.cause == KILLED:
                    server.was_killed(machine)
                else:
                    server.went_down(machine)
                    self.changed.succeed()
                    machine.back = env.event()
                    until = yield machine.back
                    server.came_back(machine, until)
            self.changed.succeed()

    def complete(self, machine: Host) -> None:
        """The other one that runs the task, if there is one, can stop."""
        other = self.server.completed(machine)
        if other is not None:
            other.process.interrupt(KILLED)
        if not self.server.left:
            self.done.succeed()

    def failures(self, failures: Failures) -> Steps:
        """Machines fail and come back."""
        for time, number, up, until in rows(failures):
            yield Late(self.env, CHANGES, time - self.env.now)
            machine = self.machines[number]
            if up and not machine.up:
                machine.back.succeed(until)
            elif machine.up and not up:
                machine.process.interrupt(FAILURE)

    def starts(self) -> Steps:
        """The server starts tasks, after all else that happens at an instant."""
        self.changed.succeed()
        while True:
            yield self.changed
            self.changed = Change(self.env)
            self.server.start_tasks()


def launch(machine: Host, duration: int) -> None:
    machine.given.succeed(duration)


def simulate(*given: Any) -> Outcome:
    """Run all tasks; arguments: see `wqr_simpy.simulate`."""
    grid = Grid(*given)
    with no_collection():
        grid.env.run(until=grid.done)
    return Outcome(grid.env.now, grid.server.interrupted, grid.server.killed)
