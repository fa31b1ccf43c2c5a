"""A sound scheduler that deals the tasks of an application; others vary it, or add a fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import gridsim as gs


class DealingNode(gs.NodeProgram):
    """Node that deals the tasks of an application to itself and its neighbours."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.deal(view, self.places(view, application, tasks), application.number, tasks)

    def places(self, view: Any, application: Any, tasks: int) -> Sequence[int]:
        """Return the machines among which the tasks are dealt."""
        return [view.node, *view.neighbours]

    def deal(self, view: Any, places: Sequence[int], application: int, tasks: int) -> None:
        """Give each place its share of the tasks."""
        for k, place in enumerate(places):
            share = self.share(tasks, k, len(places))
            if share:
                self.give(view, place, application, share)

    def share(self, tasks: int, k: int, places: int) -> int:
        """Return the number of tasks of the k-th of some places."""
        return tasks // places + (k < tasks % places)

    def give(self, view: Any, place: int, application: int, tasks: int) -> None:
        """Queue tasks here, or send them."""
        if place == view.node:
            view.enqueue(application, tasks)
        else:
            view.send(place, "share", application=application, tasks=tasks)

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class Dealing(gs.NodeScheduler, frozen=True, kw_only=True):
    """Scheduler of `DealingNode`."""

    name = "dealing"
    policy = DealingNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int)
    }

    degree: Annotated[int, gs.Limits(low=1)] = 3
