"""The nodes of schedulers with a central scheduler: workers that queue reservations, and the center."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from gridcore.nodes.waiting_times import StaleTimes, WaitingTimes
from gridsim.schedulers.probes.sparrow import ProbingNode, SlotNode, SparrowNode
from gridsim.scheduling.nodes.adapter import Message, NodeProgram
from gridsim.scheduling.nodes.program import View
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.parameters import Limits
from gridsim.support.state import kept_in_checkpoints

for _kernel in (WaitingTimes, StaleTimes):
    kept_in_checkpoints(_kernel)

Cutoff = Annotated[float, Limits(above=0, unit="Mflop", finite=False)]
#: Time that a worker with tasks takes to fetch the next one; with it the center prefers idle workers.
Fetch = Annotated[float, Limits(low=0, unit="s")]
Share = Annotated[float, Limits(low=0, high=1)]


def _instant_report(**fields: Any) -> Message:
    """Return a message kind for reports that reach the center at once and are not counted as messages."""
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


class PartitionedNode(NodeProgram):
    """A node of a scheduler with a center; the workers with the lowest numbers run no long tasks."""

    def workers(self, view: View) -> int:
        """Return the number of workers."""
        return len(view.role("worker"))

    def center(self, view: View) -> int:
        """Return the number of the central scheduler."""
        return view.role("center")[0]

    def reserved(self, view: View) -> int:
        """Return the number of workers that run no long tasks; at least one other worker remains."""
        workers = self.workers(view)
        reserved: float = self.parameters.reserved * workers
        return min(math.floor(reserved + 1e-9), workers - 1)

    def is_long(self, application: Any) -> bool:
        """Return whether the estimated task size of a job is above the cutoff."""
        return bool(application.task_size > self.parameters.cutoff)


class WorkerNode(PartitionedNode, SlotNode):
    """A worker that forwards jobs submitted to it to the center."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.serves_center = False  # whether the reservation in service came from the center

    def on_start(self, view: View) -> None:
        """Report this worker to the center."""
        view.send(self.center(view), "up", speed=view.speed)

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Forward a job to the center."""
        view.send(self.center(view), "job", application=application.number, tasks=tasks)

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


class HybridNode(WorkerNode, SparrowNode):
    """A worker that schedules short jobs submitted to it, and forwards long jobs to the center."""

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        if self.is_long(application):
            super().on_release(view, application, tasks)
        else:
            self.schedule(view, application, tasks)


class CenterNode(PartitionedNode, ProbingNode):
    """The central scheduler on a separate machine, which estimates the waiting time of each worker."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting_times: Any = WaitingTimes(parameters.fetch_time)
        self.has_workers = False  # whether a worker has reported

    def on_job(self, view: View, message: Any) -> None:
        """Schedule a job that a worker has forwarded."""
        self.schedule(view, view.application(message.application), message.tasks)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return the workers with the shortest estimated waiting times."""
        chosen = np.empty(tasks, np.int64)
        first = self.reserved(view) if self.is_long(application) else 0
        self.waiting_times.place(first, application.task_size, view.now, chosen)
        workers: list[int] = chosen.tolist()
        return workers

    def on_up(self, view: View, message: Any) -> None:
        """Record that a worker has started or recovered and is empty."""
        if not self.has_workers:
            self.open(view)
        self.waiting_times.forget(message.sender, message.speed)

    def open(self, view: View) -> None:
        """Create the records of the workers when the first worker reports."""
        self.has_workers = True
        self.waiting_times.open(self.workers(view))

    def on_began(self, view: View, message: Any) -> None:
        """Record that a worker has begun to serve a reservation of the center."""
        self.waiting_times.begin(message.sender, view.application(message.job).task_size, view.now)

    def on_ended(self, view: View, message: Any) -> None:
        """Record that a worker has finished a reservation of the center."""
        self.waiting_times.end(message.sender, view.now)


def roles_of(worker: type[WorkerNode], center: type[CenterNode]) -> dict[str, Role]:
    """Return the roles of a scheduler with a worker on each machine and a center."""
    return {"worker": Role(worker), "center": Role(center, count=1, server=True)}


def kernel_arguments(parameters: Any, workers: int) -> dict[str, Any]:
    """Return the keyword arguments of `gridcore.probes.workers.ProbeWorker`."""
    return {
        "workers": workers,
        "reserved": min(math.floor(parameters.reserved * workers + 1e-9), workers - 1),
        "cutoff": parameters.cutoff,
        "fetch_time": parameters.fetch_time,
        "probe_ratio": getattr(parameters, "probe_ratio", 0.0),
        "patience": parameters.patience,
        "retry": parameters.retry,
    }
