"""What the master and its workers do: tasks go down a tree, to whoever asks for them.

submitter --job--> master --task--> worker --task--> worker
                          <-request-       <-request-

A node that has room asks its parent for tasks.  Who has tasks and is asked sends one, which keeps its port
for as long as the link needs for the input; then it chooses again.  Which task goes to whom is the rule:
`InTurnNode` and `SortedNode` know what their children say, `PlannedNode` follows the linear program.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.schedulers.steady_state.sorted_shares import sorted_shares
from gridsim.scheduling.nodes.program import NodeProgram, View


class Place(NamedTuple):
    """What a node of the tree is given at the beginning; with the parameters of the scheduler.

    Parameters
    ----------
    parent
        The node from which it gets tasks, -1 for the master.
    link
        Its bandwidth, bytes/s.
    fetched, weight
        Of each application, bytes that a task fetches, and the weight.
    plan
        The `Plan` that planned nodes follow; None for others.
    """

    of: Any
    master: int
    parent: int
    link: float
    fetched: Any
    weight: Any
    plan: Any


class TreeNode(NodeProgram, ABC):
    """A worker, or the master, which computes nothing; a subclass has the rule."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.stock: dict[int, int] = {}  # application -> tasks here that are neither computed here nor sent
        # of the children that have asked: the bandwidths of their links, and the speeds of all below
        self.links: dict[int, float] = {}
        self.speeds: dict[int, float] = {}
        self.asked: dict[int, int] = {}  # child -> tasks that it has asked for and not got
        self.coming = 0  # tasks that the parent has been asked for and not sent
        self.sending = False  # whether the port is in use

    # -- the rule -------------------------------------------------------------------------------------------

    @abstractmethod
    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """Return which of `children` gets a task next, and of which application, or (-1, -1) for none.

        If this node has room itself, it is one of them.
        """

    def came(self, application: int) -> None:
        """Note that an application is at the master from now on."""

    def gone(self, application: int) -> None:
        """Note that this node has no more tasks of an application."""

    def heard(self) -> None:
        """Note that what is known of children has changed."""

    # -- tasks come -----------------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """Ask for the first tasks."""
        self.ask(view)

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Hand what is submitted here to the master."""
        view.send(self.parameters.master, "job", application=application.number, tasks=tasks)

    def on_job(self, view: View, message: Any) -> None:
        """Hold the tasks of an application, at the master."""
        if message.application not in self.stock:
            self.came(message.application)
        self.put(message.application, message.tasks)
        self.serve(view)

    def on_task(self, view: View, message: Any) -> None:
        """Hold a task that was asked for, at a worker."""
        self.coming -= 1
        self.put(message.application, message.tasks)
        self.serve(view)
        self.ask(view)

    def on_end(self, view: View) -> None:
        """Go on: there is room for a task here."""
        self.serve(view)
        self.ask(view)

    # -- tasks go -------------------------------------------------------------------------------------------

    def on_request(self, view: View, message: Any) -> None:
        """Note that a child has room."""
        if self.speeds.get(message.sender) != message.speed:
            self.links[message.sender], self.speeds[message.sender] = message.link, message.speed
            self.heard()
        self.asked[message.sender] = self.asked.get(message.sender, 0) + message.tasks
        self.serve(view)
        self.ask(view)

    def ask(self, view: View) -> None:
        """Ask for what this machine has room for, and for as much to pass on while children ask."""
        if view.node == self.parameters.master:
            return
        buffer = self.parameters.of.buffer
        wanted = self.room(view) + (buffer if any(self.asked.values()) else 0)
        more = wanted - self.coming - sum(self.stock.values())
        if more > 0:
            self.coming += more
            below = view.speed + sum(self.speeds.values())
            view.send(self.parameters.parent, "request", tasks=more, link=self.parameters.link, speed=below)

    def room(self, view: View) -> int:
        """Return how many more tasks this machine takes: none at the master."""
        return 0 if view.node == self.parameters.master else max(0, self.parameters.of.buffer - view.tasks)

    def serve(self, view: View) -> None:
        """Compute tasks here and send others, one after another, while the port is free."""
        while self.stock:
            children = [] if self.sending else [child for child, tasks in self.asked.items() if tasks]
            if self.room(view):
                children.append(view.node)
            to, application = self.choose(view, children) if children else (-1, -1)
            if to < 0:
                return
            self.take(application)
            if to == view.node:
                view.enqueue(application, 1)
                continue
            self.asked[to] -= 1
            view.decide("sent", application, machine=to, tasks=1, among=len(children))
            seconds = self.parameters.of.port_time(
                self.parameters.fetched[application], self.links[to], view.node == self.parameters.master
            )
            self.sending = seconds > 0
            if self.sending:
                self.to, self.application = to, application
                view.timer(seconds, "sent")
            else:
                self.send(view, to, application)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Hand over the task whose input has left, and send another one."""
        self.sending = False
        self.send(view, self.to, self.application)
        self.serve(view)
        self.ask(view)

    def send(self, view: View, to: int, application: int) -> None:
        """Hand a task over."""
        view.send(to, "task", application=application, tasks=1)

    def put(self, application: int, tasks: int) -> None:
        """Hold tasks."""
        self.stock[application] = self.stock.get(application, 0) + tasks

    def take(self, application: int) -> None:
        """Hold a task less."""
        self.stock[application] -= 1
        if not self.stock[application]:
            del self.stock[application]
            self.gone(application)


class InTurnNode(TreeNode):
    """Serves the child with the fastest link, with the application that has got the least for its weight."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.served: dict[int, int] = {}  # application -> tasks that have left this node's stock

    def came(self, application: int) -> None:
        """See `TreeNode`: it begins level with the one that has got the least, and does not catch up."""
        weight = self.parameters.weight
        least = min((self.served[k] / weight[k] for k in self.stock), default=0.0)
        self.served[application] = math.ceil(least * weight[application])

    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """See `TreeNode`: what is computed here needs no link, and so goes first."""
        own, weight = view.node, self.parameters.weight
        to = min(children, key=lambda child: (child != own, -self.links.get(child, 0.0), child))
        served = self.served
        application = min(self.stock, key=lambda k: ((served.get(k, 0) + 1) / weight[k], k))
        served[application] = served.get(application, 0) + 1
        return to, application


class PlanningNode(TreeNode):
    """Serves the pair of child and application that lags the most behind its rate."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.given: dict[tuple[int, int], int] = {}  # (child, application) -> tasks, since the rates changed

    @abstractmethod
    def renew(self, view: View) -> None:
        """Compute the rates again if they may have changed, and then forget `given`."""

    @abstractmethod
    def rates(self, view: View, application: int) -> Mapping[int, float]:
        """Return where tasks of an application go from here: child, or this node -> tasks/s."""

    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """See `TreeNode`: of those that have a rate.

        If none has, a worker serves the one that has got the least, so that what it has does not keep out
        what others want; the master waits.
        """
        self.renew(view)
        best, found = math.inf, (-1, -1)
        for k in self.stock:
            of = self.rates(view, k)
            for child in children:
                if child in of and (due := (self.given.get((child, k), 0) + 1) / of[child]) < best:
                    best, found = due, (child, k)
        if found[0] < 0 and self.parameters.parent >= 0:
            found = min((self.given.get((child, k), 0), child, k) for k in self.stock for child in children)[
                1:
            ]
        if found[0] >= 0:
            self.given[found] = self.given.get(found, 0) + 1
        return found


class SortedNode(PlanningNode):
    """Computes the rates itself, of what children say: those with fast links get tasks with much data.

    A worker counts what it has got of each application, also after its end, and has a rate for each.  Both
    are in arrays, sorted by application: a run has an entry for each application on each machine.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        # of the applications that a worker has got tasks of, how many of each, and in all
        self.numbers = np.zeros(0, np.int32)
        self.got = np.zeros(0, np.int32)
        self.total = 0
        self.seen = 0  # of these, when the rates were computed
        # the rates: `rate[i]` tasks/s of application `rated[i]` go to `to_whom[i]`
        self.rated = np.zeros(0, np.int32)
        self.to_whom = np.zeros(0, np.int32)
        self.rate = np.zeros(0)
        self.stale = True

    def came(self, application: int) -> None:
        self.stale = True

    def gone(self, application: int) -> None:
        self.stale |= self.parameters.parent < 0

    def heard(self) -> None:
        self.stale = True

    def put(self, application: int, tasks: int) -> None:
        super().put(application, tasks)
        if self.parameters.parent < 0:
            return
        at = bisect_left(self.numbers, application)
        if at == len(self.numbers) or self.numbers[at] != application:
            self.numbers = _inserted(self.numbers, at, application)
            self.got = _inserted(self.got, at, 0)
        self.got[at] += tasks
        self.total += tasks

    def renew(self, view: View) -> None:
        """See `PlanningNode`: a worker takes the ratio of what it has got for that of what will come."""
        place = self.parameters
        worker = place.parent >= 0
        if not (self.stale or (worker and self.total > 1.25 * self.seen)):
            return
        children = {child: (self.speeds[child], link) for child, link in self.links.items()}
        if worker:
            children[view.node] = (view.speed, math.inf)
            ratio = dict(zip(self.numbers.tolist(), self.got.tolist(), strict=True))
        else:
            ratio = {k: place.weight[k] for k in sorted(self.stock)}
        applications = {
            k: (view.application(k).task_size, place.fetched[k], float(of)) for k, of in ratio.items()
        }
        _, shares = sorted_shares(children, applications, math.inf if worker else place.of.master_bandwidth)
        rows = [(k, child, rate) for k, of in shares.items() for child, rate in of.items()]
        self.rated = np.array([k for k, _, _ in rows], np.int32)
        self.to_whom = np.array([child for _, child, _ in rows], np.int32)
        self.rate = np.array([rate for *_, rate in rows], np.float64)
        self.given, self.stale, self.seen = {}, False, self.total

    def rates(self, view: View, application: int) -> Mapping[int, float]:
        first, end = bisect_left(self.rated, application), bisect_right(self.rated, application)
        return dict(zip(self.to_whom[first:end].tolist(), self.rate[first:end].tolist(), strict=True))


def _inserted(array: NDArray[np.int32], at: int, value: int) -> NDArray[np.int32]:
    """Return `array` with a further entry; `np.insert` takes much longer."""
    made = np.empty(len(array) + 1, array.dtype)
    made[:at], made[at], made[at + 1 :] = array[:at], value, array[at:]
    return made


class PlannedNode(PlanningNode):
    """Follows the rates of the linear program for the whole tree."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.version = 0  # of the plan that `given` counts for

    def came(self, application: int) -> None:
        self.parameters.plan.change(application, True)

    def gone(self, application: int) -> None:
        if self.parameters.parent < 0:
            self.parameters.plan.change(application, False)

    def renew(self, view: View) -> None:
        plan = self.parameters.plan
        if plan.version != self.version:
            self.version, self.given = plan.version, {}

    def rates(self, view: View, application: int) -> Mapping[int, float]:
        of: Mapping[int, float] = self.parameters.plan.rates(view.node).get(application, {})
        return of
