"""The leaf of a fair tree that is kept by messages: it reports so that submitters notice what is lost."""

from __future__ import annotations

from typing import Any

from gridsim.schedulers.fair_tree.node import Leaf
from gridsim.schedulers.fair_tree.tree import Tree
from gridsim.scheduling.nodes.program import View
from gridsim.support.clock import nanoseconds


class Worker(Leaf):
    """A leaf whose reports to submitters say how many tasks it has left.

    Reports are on all tasks of an application, those in bags of lost tasks with them.

    Parameters
    ----------
    life
        ns, when it began.  left, done : application -> tasks of this life.

    Attributes
    ----------
    reported
        Application -> ns, when its submitter heard of this leaf last, and of which bag that was.
    """

    def __init__(self, tree: Tree, life: int) -> None:
        super().__init__(tree)
        self.life = self.number = life  # numbers grow with time: they are above those of a former life
        self.left: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.reported: dict[int, tuple[int, int]] = {}

    def on_request(self, view: View, message: Any) -> None:
        """See `Leaf`."""
        whose = int(self.tree.whose[message.application])
        self.left[whose] = self.left.get(whose, 0) + message.tasks
        super().on_request(view, message)

    def tell(self, view: View, kind: str, application: int, tasks: int) -> None:
        """Tell a submitter of so many tasks that have arrived or ended, and how many are left here."""
        whose = int(self.tree.whose[application])
        self.reported[whose] = view.now_ns, application
        left, done = self.left.get(whose, 0), self.done.get(whose, 0)
        share = {"application": application, "tasks": tasks, "left": left, "done": done}
        view.send(self.tree.submitter(application), kind, life=self.life, **share)

    def on_end(self, view: View) -> None:
        """Report tasks as soon as they end: what nobody knows of is run again after a failure."""
        self.tell_completed(view)
        if self.tree.parameters.update_on == "completion":
            view.act()

    def tell_completed(self, view: View) -> None:
        """Tell submitters of tasks that have ended."""
        for application, tasks in view.completed():
            self.left[application] = max(0, self.left.get(application, 0) - tasks)
            self.done[application] = self.done.get(application, 0) + tasks
            self.tell(view, "completion", application, tasks)

    def on_timer(self, view: View, name: str) -> None:
        """Show submitters that have not heard of this leaf since the last heartbeat that it is alive."""
        if name != "heartbeat":
            view.act()
            return
        self.tell_completed(view)
        before = view.now_ns - nanoseconds(self.tree.parameters.heartbeat)
        for whose, tasks in self.left.items():
            reported, bag = self.reported[whose]
            if tasks and reported <= before:
                self.tell(view, "completion", bag, 0)
