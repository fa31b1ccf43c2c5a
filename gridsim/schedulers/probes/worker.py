"""The node of schedulers with a center: a worker that queues reservations, or the center itself."""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any

import numpy as np

from gridcore.probes.waiting_times import StaleTimes, WaitingTimes
from gridsim.schedulers.probes.sparrow import SparrowNode
from gridsim.scheduling.nodes.adapter import Message
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import View
from gridsim.support.parameters import Limits
from gridsim.support.state import kept_in_checkpoints

for _kernel in (WaitingTimes, StaleTimes):
    kept_in_checkpoints(_kernel)

Cutoff = Annotated[float, Limits(above=0, unit="Mflop", finite=False)]
#: Time that a worker with tasks takes to fetch the next one; it makes the center prefer idle workers.
Fetch = Annotated[float, Limits(low=0, unit="s")]
Share = Annotated[float, Limits(low=0, high=1)]


def _instant_report(**fields: Any) -> Message:
    """Return a kind of report that reaches the center at once and does not count as a message."""
    return Message(0, delay=0.0, counted=False, **fields)


TASK = Message(170, moves_tasks=True, application=int, tasks=int)
COMMON_MESSAGES = {
    "up": _instant_report(speed=float),
    "began": _instant_report(job=int),
    "ended": _instant_report(),
    "job": TASK,
    "probe": Message(72, job=int),
    "fetch": Message(72, job=int),
    "task": TASK,
    "none": Message(64),
}


class WorkerNode(SparrowNode):
    """A machine: the scheduler of the short jobs submitted at it, and a worker with one slot.

    The last node is on an additional machine that runs no tasks.  It is the central scheduler of long jobs,
    and estimates the waiting time of each worker.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.serves_center = False  # whether the reservation in service came from the center
        self.waiting_times: WaitingTimes | StaleTimes | None = None  # only at the center

    def workers(self, view: View) -> int:
        return view.machines - 1

    def center(self, view: View) -> int:
        """Return the number of the central scheduler."""
        return view.machines - 1

    def on_start(self, view: View) -> None:
        """Report this worker to the center."""
        if view.node != self.center(view):
            view.send(self.center(view), "up", speed=view.speed)

    # -- a scheduler --------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Schedule a short job; pass a long one to the center."""
        if self.is_long(application):
            view.send(self.center(view), "job", application=application.number, tasks=tasks)
        else:
            self.schedule(view, application, tasks)

    def is_long(self, application: Any) -> bool:
        """Return whether the estimated task size of a job is above the cutoff."""
        return bool(application.task_size > self.parameters.cutoff)

    def on_job(self, view: View, message: Any) -> None:
        """Schedule a job that a worker has passed to the center."""
        self.schedule(view, view.application(message.application), message.tasks)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return random workers; at the center, the workers with the shortest estimated waiting times."""
        if self.waiting_times is None:
            return super().choose_workers(view, application, tasks)
        assert isinstance(self.waiting_times, WaitingTimes)
        return self.waiting_times.place(
            int(self.is_long(application)), tasks, application.task_size, view.now
        )

    # -- the center ---------------------------------------------------------------------------------------

    def on_up(self, view: View, message: Any) -> None:
        """Record that a worker has started or recovered and is empty."""
        if self.waiting_times is None:
            self.waiting_times = self.initial_waiting_times(view)
        self.waiting_times.forget(message.sender, message.speed)

    def initial_waiting_times(self, view: View) -> WaitingTimes | StaleTimes:
        """Return the initial waiting times, when no worker has a task."""
        return WaitingTimes(
            self.workers(view),
            (0, reserved_count(self.parameters.reserved, self.workers(view))),
            self.parameters.fetch_time,
        )

    def on_began(self, view: View, message: Any) -> None:
        """Record that a worker serves a reservation of the center."""
        assert self.waiting_times is not None
        self.waiting_times.begin(message.sender, view.application(message.job).task_size, view.now)

    def on_ended(self, view: View, message: Any) -> None:
        """Record that a worker has finished a reservation of the center."""
        assert self.waiting_times is not None
        self.waiting_times.end(message.sender, view.now)

    # -- the worker ---------------------------------------------------------------------------------------

    def fetch(self, view: View, job: int, scheduler: int) -> None:
        self.serves_center = scheduler == self.center(view)
        if self.serves_center:
            view.send(scheduler, "began", job=job)
        super().fetch(view, job, scheduler)

    def finish(self, view: View) -> None:
        if self.serves_center:
            view.send(self.center(view), "ended")
        self.serves_center = False
        super().finish(view)


@functools.cache
def reserved_count(share: float, workers: int) -> int:
    """Return the number of workers that run no long tasks; at least one other worker is left."""
    return min(math.floor(share * workers + 1e-9), workers - 1)


def kernel_arguments(parameters: Any, workers: int) -> dict[str, Any]:
    """Return the keyword arguments of `gridcore.probes.workers.ProbeWorker`."""
    return {
        "workers": workers,
        "reserved": reserved_count(parameters.reserved, workers),
        "cutoff": parameters.cutoff,
        "fetch_time": parameters.fetch_time,
        "probe_ratio": getattr(parameters, "probe_ratio", 0.0),
        "patience": parameters.patience,
        "retry": parameters.retry,
    }


def center_layout(machines: int) -> Layout:
    """Return the layout with one node per machine, and the center on an additional machine."""
    nodes = np.arange(machines + 1)
    return Layout(nodes, nodes)
