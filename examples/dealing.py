"""A scheduler: each machine deals what is submitted there to itself and its neighbours, in equal parts.

gridsim compare scenario.toml --schedulers dealing:Dealing,fair-tree,mincent
"""

import gridsim as gs


class DealingNode(gs.NodeProgram):
    """What one machine does; it knows of others only what messages say."""

    def on_release(self, view, application, tasks):  # submitted here
        places = [view.node, *view.neighbours]
        for k, place in enumerate(places):
            share = tasks // len(places) + (k < tasks % len(places))
            if share and place == view.node:
                view.enqueue(application.number, share)
            elif share:
                view.send(place, "share", application=application.number, tasks=share)

    def on_message(self, view, message):  # a share has come
        view.enqueue(message.application, message.tasks)


class Dealing(gs.NodeScheduler, frozen=True, kw_only=True):
    """Deals each application to the machine where it is submitted and to its neighbours."""

    name = "dealing"
    policy = DealingNode
    messages = {"share": gs.Message(170, moves_tasks=True, application=int, tasks=int)}  # 170 bytes each
