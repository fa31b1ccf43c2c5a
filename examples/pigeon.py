"""A scheduler with roles: Pigeon (Wang et al., SoCC 2019), with distributors, group masters and workers.

gridsim compare scenario.toml --schedulers pigeon:Pigeon,sparrow,fair-tree
"""

from typing import Annotated

import gridsim as gs


class Distributor(gs.NodeProgram):
    """A node that spreads the tasks of each application evenly over the masters."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.next = 0  # the master that gets the next task

    def on_release(self, view, application, tasks):
        masters = view.role("master")
        short = int(application.task_size <= self.parameters.cutoff)
        for k in range(min(tasks, len(masters))):
            share = tasks // len(masters) + int(k < tasks % len(masters))
            master = masters[(self.next + k) % len(masters)]
            view.send(master, "share", application=application.number, tasks=share, short=short)
        self.next = (self.next + tasks) % len(masters)


class Master(gs.NodeProgram):
    """A node that gives the tasks of two weighted queues to the idle workers of its group."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.short, self.long = gs.Fifo(application=int), gs.Fifo(application=int)
        self.idle, self.reserved = gs.IntSet(), gs.IntSet()  # workers; the latter run short tasks only
        self.served = 0  # short tasks since the last long one
        self.last_free = 0.0  # when a worker was idle last, s
        self.watching = False  # whether the timer is set

    def group(self, view):
        """Return the workers of this master."""
        first = view.rank * self.parameters.size
        return view.role("worker")[first : first + self.parameters.size]

    def on_start(self, view):
        for worker in self.group(view):
            self.add(view, worker)

    def on_share(self, view, message):
        for _ in range(message.tasks):
            if message.short:
                self.short.push(message.application)
            else:
                self.long.push(message.application)
        self.serve(view)

    def on_free(self, view, message):
        self.last_free = view.now
        self.add(view, message.sender)
        self.serve(view)

    def on_timer(self, view, name):
        """Hand over the tasks of a group without a worker that becomes idle: all may have failed.

        A reserved worker that is idle runs a long task then: only the others may have failed.
        """
        self.watching = False
        is_stuck = view.now - self.last_free >= self.parameters.patience
        if is_stuck and self.reserved:
            self.idle.add(self.reserved.pop())
        elif is_stuck:
            masters = view.role("master")
            master = masters[(view.rank + 1) % len(masters)]
            while self.short:
                view.send(master, "share", application=self.short.pop(), tasks=1, short=1)
            while self.long:
                view.send(master, "share", application=self.long.pop(), tasks=1, short=0)
        self.serve(view)

    def add(self, view, worker):
        """Add an idle worker; the first ones of a group are reserved for short tasks."""
        group = self.group(view)
        if worker - group[0] < min(self.parameters.reserved, len(group) - 1):
            self.reserved.add(worker)
        else:
            self.idle.add(worker)

    def serve(self, view):
        """Give tasks to idle workers, a long one after `weight` short ones or if no short one waits."""
        while True:
            if self.idle and self.long and (not self.short or self.served >= self.parameters.weight):
                self.served = 0
                view.send(self.idle.pop(), "task", application=self.long.pop(), tasks=1)
            elif self.short and (self.idle or self.reserved):
                self.served += 1
                worker = self.idle.pop() if self.idle else self.reserved.pop()
                view.send(worker, "task", application=self.short.pop(), tasks=1)
            else:
                break
        if (self.short or self.long) and not self.watching:
            self.watching = True
            view.timer(self.parameters.patience, "patience")


class Worker(gs.NodeProgram):
    """A node that runs one task at a time, and reports to its master when it is idle."""

    def on_start(self, view):
        if view.now > 0:  # after a failure; at first, masters know that all workers are idle
            self.on_idle(view)

    def on_task(self, view, message):
        view.enqueue(message.application, message.tasks)

    def on_idle(self, view):
        view.send(view.role("master")[view.rank // self.parameters.size], "free")


class Pigeon(gs.NodeScheduler, frozen=True, kw_only=True):
    """Distributors spread tasks over masters, which give them to the idle workers of their groups.

    Parameters
    ----------
    size
        Workers of a group.
    cutoff
        Task size up to which tasks are short, Mflop.
    weight
        Number of short tasks that a master serves for each long one.
    reserved
        Workers of each group that run short tasks only; another one is always left.
    patience
        Time in s without an idle worker after which a master hands its tasks to the next master.  It is not
        in the paper, and matters if all workers of a group fail.
    """

    name = "pigeon"
    local_order = "fifo"
    roles = {
        "distributor": gs.Role(Distributor, count=4, server=True, releases=True),
        "master": gs.Role(Master, count=lambda pigeon, machines: -(-machines // pigeon.size), server=True),
        "worker": gs.Role(Worker),  # one on each machine
    }
    messages = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int, short=int),
        "task": gs.Message(170, moves_tasks=True, application=int, tasks=int),
        "free": gs.Message(64),
    }
    timers = ("patience",)

    degree: Annotated[int, gs.Limits(low=0)] = 0  # no node has neighbours
    size: Annotated[int, gs.Limits(low=1, unit="machines")] = 25
    cutoff: Annotated[float, gs.Limits(low=0, unit="Mflop")] = 1e6
    weight: Annotated[int, gs.Limits(low=1)] = 10
    reserved: Annotated[int, gs.Limits(low=0, unit="machines")] = 1
    patience: Annotated[float, gs.Limits(above=0, unit="s")] = 3600.0
