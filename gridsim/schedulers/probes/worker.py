"""The node of schedulers with a center: a worker that queues reservations; or the center, with books."""

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

for _books in (WaitingTimes, StaleTimes):
    kept_in_checkpoints(_books)

Cutoff = Annotated[float, Limits(above=0, unit="Mflop", finite=False)]
#: What a worker with tasks needs to fetch one; with it, one without tasks comes first.
Fetch = Annotated[float, Limits(low=0, unit="s")]
Share = Annotated[float, Limits(low=0, high=1)]


def _known(**fields: Any) -> Message:
    """What the books are assumed to know at once, without a message."""
    return Message(0, delay=0.0, counted=False, **fields)


TASK = Message(170, moves_tasks=True, application=int, tasks=int)
COMMON = {
    "up": _known(speed=float),
    "began": _known(job=int),
    "ended": _known(),
    "job": TASK,
    "probe": Message(72, job=int),
    "fetch": Message(72, job=int),
    "task": TASK,
    "none": Message(64),
}


class WorkerNode(SparrowNode):
    """A machine: the scheduler of the short jobs that are submitted here, and a worker with one slot.

    The last node is on a further machine, runs nothing and is the central scheduler of long jobs, with books.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.booked = False  # whether what the slot is taken for is in the books of the center
        self.books: WaitingTimes | StaleTimes | None = None  # of the center

    def workers(self, view: View) -> int:
        """See `SparrowNode`."""
        return view.machines - 1

    def center(self, view: View) -> int:
        """Return the node that keeps the books."""
        return view.machines - 1

    def on_start(self, view: View) -> None:
        """Get into the books."""
        if view.node != self.center(view):
            view.send(self.center(view), "up", speed=view.speed)

    # -- a scheduler --------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Schedule a short job; pass a long one on."""
        if self.is_long(application):
            view.send(self.center(view), "job", application=application.number, tasks=tasks)
        else:
            self.schedule(view, application, tasks)

    def is_long(self, application: Any) -> bool:
        """Return whether a job is long."""
        return bool(application.task_size > self.parameters.cutoff)

    def on_job(self, view: View, message: Any) -> None:
        """Schedule a job that another node has passed on to the center."""
        self.schedule(view, view.application(message.application), message.tasks)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """See `SparrowNode`: the center chooses those that the books say."""
        if self.books is None:
            return super().choose_workers(view, application, tasks)
        assert isinstance(self.books, WaitingTimes)
        return self.books.place(int(self.is_long(application)), tasks, application.task_size, view.now)

    # -- the books ----------------------------------------------------------------------------------------

    def on_up(self, view: View, message: Any) -> None:
        """A worker has come up, and has nothing."""
        if self.books is None:
            self.books = self.open_books(view)
        self.books.forget(message.sender, message.speed)

    def open_books(self, view: View) -> WaitingTimes | StaleTimes:
        """Return the books of the center."""
        return WaitingTimes(
            self.workers(view),
            (0, reserved_of(self.parameters.reserved, self.workers(view))),
            self.parameters.fetch_time,
        )

    def on_began(self, view: View, message: Any) -> None:
        """A worker has turned to a reservation that was sent from here."""
        assert self.books is not None
        self.books.begin(message.sender, view.application(message.job).task_size, view.now)

    def on_ended(self, view: View, message: Any) -> None:
        """A worker has finished with it."""
        assert self.books is not None
        self.books.end(message.sender, view.now)

    # -- the worker ---------------------------------------------------------------------------------------

    def fetch(self, view: View, job: int, scheduler: int) -> None:
        """See `SparrowNode`."""
        self.booked = scheduler == self.center(view)
        if self.booked:
            view.send(scheduler, "began", job=job)
        super().fetch(view, job, scheduler)

    def finish(self, view: View) -> None:
        """See `SparrowNode`."""
        if self.booked:
            view.send(self.center(view), "ended")
        self.booked = False
        super().finish(view)


@functools.cache
def reserved_of(share: float, workers: int) -> int:
    """Return how many of so many workers run no long tasks; at least one runs them."""
    return min(math.floor(share * workers + 1e-9), workers - 1)


def numbers(parameters: Any, workers: int) -> dict[str, Any]:
    """Return the parameters of the compiled form of a worker; see `gridcore.probes.workers.ProbeWorker`."""
    return {
        "workers": workers,
        "reserved": reserved_of(parameters.reserved, workers),
        "cutoff": parameters.cutoff,
        "fetch_time": parameters.fetch_time,
        "probe_ratio": getattr(parameters, "probe_ratio", 0.0),
        "patience": parameters.patience,
        "retry": parameters.retry,
    }


def with_center(machines: int) -> Layout:
    """Return the layout of a node a machine, and the central scheduler on a further machine."""
    nodes = np.arange(machines + 1)
    return Layout(nodes, nodes)
