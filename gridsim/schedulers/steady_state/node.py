"""The master and its workers: tasks are sent down a tree to the nodes that request them.

submitter --job--> master --task--> worker --task--> worker
                          <-request-       <-request-

A node with room requests tasks from its parent.  A parent with tasks sends one, which occupies its port for
the transfer time of the input; then it chooses the next one.  The rule chooses the task and its receiver:
`InTurnNode` and `SortedNode` use the reports of their children, `PlannedNode` the linear program.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.schedulers.steady_state.sorted_shares import sorted_shares
from gridsim.scheduling.nodes.program import NodeProgram, View


class MasterTreeNode(NodeProgram, ABC):
    """Base class of workers and of the master, which computes nothing; subclasses choose the next task."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.stock: dict[int, int] = {}  # application -> tasks that are neither enqueued here nor sent
        # child that has sent requests -> bandwidth of its link, and speed of its subtree
        self.links: dict[int, float] = {}
        self.speeds: dict[int, float] = {}
        self.requests: dict[int, int] = {}  # child -> number of requested tasks that have not been sent yet
        self.requested_tasks = 0  # tasks requested from the parent that have not arrived
        self.sending = False  # whether the port is in use

    # -- the rule -----------------------------------------------------------------------------------------

    @abstractmethod
    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """Return the child and the application of the next task, or (-1, -1) for none.

        If this node has room, it is one of `children`.
        """

    def add_application(self, view: View, application: int) -> None:
        """Prepare for an application that has arrived at the master."""

    def remove_application(self, view: View, application: int) -> None:
        """Update the rates when this node has no more tasks of an application."""

    def invalidate_rates(self) -> None:
        """Mark the rates as outdated when a child reports another speed."""

    # -- arrivals of tasks --------------------------------------------------------------------------------

    def on_start(self, view: View) -> None:
        """Request the first tasks."""
        self.request_tasks(view)

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Send the tasks submitted at this node to the master."""
        view.send(view.role("master")[0], "job", application=application.number, tasks=tasks)

    def on_job(self, view: View, message: Any) -> None:
        """Add the tasks of an application to the stock of the master."""
        if message.application not in self.stock:
            self.add_application(view, message.application)
        self.add_tasks(view, message.application, message.tasks)
        self.serve(view)

    def on_task(self, view: View, message: Any) -> None:
        """Add a requested task to the stock of a worker."""
        self.requested_tasks -= 1
        self.add_tasks(view, message.application, message.tasks)
        self.serve(view)
        self.request_tasks(view)

    def on_end(self, view: View) -> None:
        """Request tasks for the room that the ended task has left."""
        self.serve(view)
        self.request_tasks(view)

    # -- tasks to send ------------------------------------------------------------------------------------

    def on_request(self, view: View, message: Any) -> None:
        """Record the request of a child."""
        if self.speeds.get(message.sender) != message.speed:
            self.links[message.sender], self.speeds[message.sender] = message.link, message.speed
            self.invalidate_rates()
        self.requests[message.sender] = self.requests.get(message.sender, 0) + message.tasks
        self.serve(view)
        self.request_tasks(view)

    def request_tasks(self, view: View) -> None:
        """Request tasks for the room of this machine, and a buffer of tasks while children have requests."""
        if view.environment.parent < 0:
            return
        buffer = self.parameters.buffer
        demand = self.capacity(view) + (buffer if any(self.requests.values()) else 0)
        tasks = demand - self.requested_tasks - sum(self.stock.values())
        if tasks > 0:
            self.requested_tasks += tasks
            speed = view.speed + sum(self.speeds.values())
            view.send(
                view.environment.parent, "request", tasks=tasks, link=view.environment.link, speed=speed
            )

    def capacity(self, view: View) -> int:
        """Return the number of tasks for which this machine has room; 0 at the master."""
        if view.environment.parent < 0:
            return 0
        return max(0, int(self.parameters.buffer) - view.tasks)

    def serve(self, view: View) -> None:
        """Enqueue tasks here, and send tasks to children while the port is free."""
        while self.stock:
            children = [] if self.sending else [child for child, tasks in self.requests.items() if tasks]
            if self.capacity(view):
                children.append(view.node)
            receiver, application = self.choose(view, children) if children else (-1, -1)
            if receiver < 0:
                return
            self.remove_task(view, application)
            if receiver == view.node:
                view.enqueue(application, 1)
                continue
            self.requests[receiver] -= 1
            view.decide("sent", application, node=receiver, tasks=1, among=len(children))
            seconds = self.parameters.port_time(
                view.environment.input_bytes[application],
                self.links[receiver],
                view.environment.parent < 0,
            )
            self.sending = seconds > 0
            if self.sending:
                self.receiver, self.application = receiver, application
                view.timer(seconds, "sent")
            else:
                self.send(view, receiver, application)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Deliver the task whose input has been sent, and serve the next request."""
        self.sending = False
        self.send(view, self.receiver, self.application)
        self.serve(view)
        self.request_tasks(view)

    def send(self, view: View, receiver: int, application: int) -> None:
        """Send a task to its receiver."""
        view.send(receiver, "task", application=application, tasks=1)

    def add_tasks(self, view: View, application: int, tasks: int) -> None:
        """Add tasks to the stock."""
        self.stock[application] = self.stock.get(application, 0) + tasks

    def remove_task(self, view: View, application: int) -> None:
        """Remove a task from the stock."""
        self.stock[application] -= 1
        if not self.stock[application]:
            del self.stock[application]
            self.remove_application(view, application)


class InTurnNode(MasterTreeNode):
    """A node that serves the child with the fastest link, and selects the application with the fewest served
    tasks per weight.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.task_counts: dict[int, int] = {}  # application -> tasks that have left this node's stock

    def add_application(self, view: View, application: int) -> None:
        """Start the count of a new application at the lowest count per weight, to give it no advantage."""
        weight = view.environment.weight
        least = min((self.task_counts[k] / weight[k] for k in self.stock), default=0.0)
        self.task_counts[application] = math.ceil(least * weight[application])

    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """Return this node first, since it needs no link; otherwise the child with the fastest link."""
        node, weight = view.node, view.environment.weight
        receiver = min(children, key=lambda child: (child != node, -self.links.get(child, 0.0), child))
        counts = self.task_counts
        application = min(self.stock, key=lambda k: ((counts.get(k, 0) + 1) / weight[k], k))
        counts[application] = counts.get(application, 0) + 1
        return receiver, application


class RateNode(MasterTreeNode):
    """Base class of nodes that serve the pair of child and application that lags most behind its rate."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # (child, application) -> tasks sent since the rates changed
        self.sent_tasks: dict[tuple[int, int], int] = {}

    @abstractmethod
    def update_rates(self, view: View) -> None:
        """Recompute the rates and clear `sent_tasks`, if the rates may have changed."""

    @abstractmethod
    def rates(self, view: View, application: int) -> Mapping[int, float]:
        """Return the rates of an application: child, or this node -> tasks/s."""

    def choose(self, view: View, children: list[int]) -> tuple[int, int]:
        """Return the pair of child and application that lags most behind its rate.

        If no pair has a rate, a worker serves the pair that was served least, so that its stock does not
        block other tasks, and the master waits.
        """
        self.update_rates(view)
        earliest, pair = math.inf, (-1, -1)
        for k in self.stock:
            rates = self.rates(view, k)
            for child in children:
                if (
                    child in rates
                    and (due := (self.sent_tasks.get((child, k), 0) + 1) / rates[child]) < earliest
                ):
                    earliest, pair = due, (child, k)
        if pair[0] < 0 and view.environment.parent >= 0:
            lowest = min(
                (self.sent_tasks.get((child, k), 0), child, k) for k in self.stock for child in children
            )
            pair = lowest[1:]
        if pair[0] >= 0:
            self.sent_tasks[pair] = self.sent_tasks.get(pair, 0) + 1
        return pair


class SortedNode(RateNode):
    """A node that computes rates from reports: children with fast links get tasks with much data.

    A worker stores the number of tasks received, and the rates, of each application, even after its end.
    To save memory, both are arrays, sorted by application.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # applications of the tasks that a worker has received, the number of tasks of each, and the total
        self.applications = np.zeros(0, np.int32)
        self.task_counts = np.zeros(0, np.int32)
        self.total = 0
        self.rates_total = 0  # the total when the rates were computed
        # rates: `rate_values[i]` tasks/s of application `rate_applications[i]` go to node `rate_receivers[i]`
        self.rate_applications = np.zeros(0, np.int32)
        self.rate_receivers = np.zeros(0, np.int32)
        self.rate_values = np.zeros(0)
        self.stale = True  # whether the rates may have changed

    def add_application(self, view: View, application: int) -> None:
        self.stale = True

    def remove_application(self, view: View, application: int) -> None:
        self.stale |= view.environment.parent < 0

    def invalidate_rates(self) -> None:
        self.stale = True

    def add_tasks(self, view: View, application: int, tasks: int) -> None:
        super().add_tasks(view, application, tasks)
        if view.environment.parent < 0:
            return
        index = bisect_left(self.applications, application)
        if index == len(self.applications) or self.applications[index] != application:
            self.applications = _insert(self.applications, index, application)
            self.task_counts = _insert(self.task_counts, index, 0)
        self.task_counts[index] += tasks
        self.total += tasks

    def update_rates(self, view: View) -> None:
        """Compute the rates; a worker expects tasks of applications in the ratio received so far."""
        environment = view.environment
        is_worker = environment.parent >= 0
        if not (self.stale or (is_worker and self.total > 1.25 * self.rates_total)):
            return
        children = {child: (self.speeds[child], link) for child, link in self.links.items()}
        if is_worker:
            children[view.node] = (view.speed, math.inf)
            ratio = dict(zip(self.applications.tolist(), self.task_counts.tolist(), strict=True))
        else:
            ratio = {k: environment.weight[k] for k in sorted(self.stock)}
        applications = {
            k: (view.application(k).task_size, environment.input_bytes[k], float(part))
            for k, part in ratio.items()
        }
        _, shares = sorted_shares(
            children, applications, math.inf if is_worker else self.parameters.master_bandwidth
        )
        rows = [(k, child, rate) for k, rates in shares.items() for child, rate in rates.items()]
        self.rate_applications = np.array([k for k, _, _ in rows], np.int32)
        self.rate_receivers = np.array([child for _, child, _ in rows], np.int32)
        self.rate_values = np.array([rate for *_, rate in rows], np.float64)
        self.sent_tasks, self.stale, self.rates_total = {}, False, self.total

    def rates(self, view: View, application: int) -> Mapping[int, float]:
        first = bisect_left(self.rate_applications, application)
        end = bisect_right(self.rate_applications, application)
        receivers, values = self.rate_receivers[first:end], self.rate_values[first:end]
        return dict(zip(receivers.tolist(), values.tolist(), strict=True))


def _insert(array: NDArray[np.int32], index: int, value: int) -> NDArray[np.int32]:
    """Return `array` with `value` inserted at `index`; `np.insert` takes much longer."""
    longer = np.empty(len(array) + 1, array.dtype)
    longer[:index], longer[index], longer[index + 1 :] = array[:index], value, array[index:]
    return longer


class PlannedNode(RateNode):
    """A node that follows the rates of the linear program for the whole tree."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.version = 0  # version of the plan to which `sent_tasks` belongs

    def add_application(self, view: View, application: int) -> None:
        view.environment.change(application, True)

    def remove_application(self, view: View, application: int) -> None:
        if view.environment.parent < 0:
            view.environment.change(application, False)

    def update_rates(self, view: View) -> None:
        plan = view.environment.plan
        if plan.version != self.version:
            self.version, self.sent_tasks = plan.version, {}

    def rates(self, view: View, application: int) -> Mapping[int, float]:
        rates: Mapping[int, float] = view.environment.plan.rates(view.node).get(application, {})
        return rates
