"""A scheduler: a machine divides each submitted application equally among itself and its neighbours.

gridsim compare scenario.toml --schedulers dealing:Dealing,fair-tree,mincent
"""

import gridsim as gs


class DealingNode(gs.NodeProgram):
    """The program of a machine, which knows other machines only from messages."""

    def on_release(self, view, application, tasks):  # an application was submitted to this machine
        machines = [view.node, *view.neighbours]
        for k, machine in enumerate(machines):
            share = tasks // len(machines) + (k < tasks % len(machines))
            if share and machine == view.node:
                view.enqueue(application.number, share)
            elif share:
                view.send(machine, "share", application=application.number, tasks=share)

    def on_message(self, view, message):  # a share arrived
        view.enqueue(message.application, message.tasks)


class Dealing(gs.NodeScheduler, frozen=True, kw_only=True):
    """A scheduler that divides each application among a machine and its neighbours."""

    name = "dealing"
    policy = DealingNode
    messages = {"share": gs.Message(170, moves_tasks=True, application=int, tasks=int)}  # 170 bytes each
