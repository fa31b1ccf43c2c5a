"""The node of schedulers with a center: a worker that queues reservations; or the center, with books."""

from __future__ import annotations

import functools
import math
from collections import deque
from typing import Annotated, Any

import numpy as np

from gridsim.schedulers.probes.waiting_times import WaitingTimes
from gridsim.scheduling.local.adapter import LocalPolicy, Message
from gridsim.scheduling.local.layout import Layout
from gridsim.scheduling.local.policy import View
from gridsim.support.parameters import Limits

Cutoff = Annotated[float, Limits(above=0, unit="Mflop", finite=False)]
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


class WorkerNode(LocalPolicy):
    """A machine: the scheduler of the short jobs that are submitted here, and a worker with one slot.

    The last node is on a further machine, runs nothing and is the central scheduler of long jobs, with books.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.queue: deque[tuple[int, int]] = deque()  # reservations: job, its scheduler
        self.taken = False  # whether the slot runs a task or waits for one
        self.booked = False  # whether that is in the books of the center
        self.books: Any = None  # of the center

    def on_start(self, view: View) -> None:
        """Get into the books."""
        if view.node != self.center(view):
            view.send(self.center(view), "up", speed=view.speed)

    def center(self, view: View) -> int:
        """Return the node that keeps the books."""
        return view.machines - 1

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

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        """Reserve places for a job, and again later if some get lost."""
        self.reserve(view, application, tasks)
        if self.parameters.retry < math.inf:
            view.timer(self.parameters.retry, "retry", application.number)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send probes to workers: at the center to those that the books say, else to random ones."""
        for to in self.choose_workers(view, application, tasks):
            view.send(to, "probe", job=application.number)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return to which workers the probes of a job go."""
        found: list[int]
        if self.books is not None:
            found = self.books.place(int(self.is_long(application)), tasks, application.task_size, view.now)
        else:
            count = math.ceil(self.parameters.probe_ratio * tasks)
            found = view.random.integers(view.machines - 1, size=count).tolist()
        return found

    def on_fetch(self, view: View, message: Any) -> None:
        """Bind the next task of a job to the worker that asks, if any is left."""
        if view.held(message.job) > 0:
            view.decide("bound", message.job, machine=message.sender, tasks=1, saw=0.0)
            view.send(message.sender, "task", application=message.job, tasks=1)
        else:
            view.send(message.sender, "none")

    # -- the books ----------------------------------------------------------------------------------------

    def on_up(self, view: View, message: Any) -> None:
        """A worker has come up, and has nothing."""
        if self.books is None:
            self.books = self.open_books(view)
        self.books.forget(message.sender, message.speed)

    def open_books(self, view: View) -> Any:
        """Return the books of the center."""
        workers = view.machines - 1
        return WaitingTimes.of(workers, (0, reserved_of(self.parameters.reserved, workers)))

    def on_began(self, view: View, message: Any) -> None:
        """A worker has turned to a reservation that was sent from here."""
        self.books.begin(message.sender, view.application(message.job).task_size, view.now)

    def on_ended(self, view: View, message: Any) -> None:
        """A worker has finished with it."""
        self.books.end(message.sender, view.now)

    # -- the worker ---------------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.queue.append((message.job, message.sender))
        if not self.taken:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Turn to the first reservation."""
        if not self.queue:
            self.on_free(view)
            return
        self.fetch(view, *self.queue.popleft())

    def fetch(self, view: View, job: int, scheduler: int) -> None:
        """Ask for a task of a job."""
        self.taken, self.booked = True, scheduler == self.center(view)
        if self.booked:
            view.send(scheduler, "began", job=job)
        view.send(scheduler, "fetch", job=job)
        if self.parameters.patience < math.inf:
            view.timer(self.parameters.patience, "unanswered")

    def on_free(self, view: View) -> None:
        """Handle that the slot is free, and the queue empty."""

    def on_task(self, view: View, message: Any) -> None:
        """Run a task."""
        view.cancel("unanswered")
        view.enqueue(message.application, message.tasks)

    def on_none(self, view: View, message: Any) -> None:
        """All tasks of the job have gone to others."""
        view.cancel("unanswered")
        self.finish(view)

    def on_idle(self, view: View) -> None:
        """See `LocalPolicy`."""
        self.finish(view)

    def finish(self, view: View) -> None:
        """Turn to the next reservation."""
        if self.booked:
            view.send(self.center(view), "ended")
        self.taken = self.booked = False
        self.serve(view)

    # -- failures -----------------------------------------------------------------------------------------

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Go on without an answer that is lost; or replace lost reservations, if a job still has tasks."""
        if name == "unanswered":
            self.finish(view)
            return
        job = int(value)
        left = view.held(job)
        if left > 0:
            application = view.application(job)
            self.reserve(view, application, left)
            view.timer(max(self.parameters.retry, view.now - application.release), "retry", job)


@functools.cache
def reserved_of(share: float, workers: int) -> int:
    """Return how many of so many workers run no long tasks; at least one runs them."""
    return min(math.floor(share * workers + 1e-9), workers - 1)


def with_center(machines: int) -> Layout:
    """Return the layout of a node a machine, and the central scheduler on a further machine."""
    nodes = np.arange(machines + 1)
    return Layout(nodes, nodes)
