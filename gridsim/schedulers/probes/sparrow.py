"""Sparrow: a job reserves places at random machines; those that reach their reservation first get its tasks.

K. Ousterhout, P. Wendell, M. Zaharia, I. Stoica, "Sparrow: distributed, low latency scheduling" (SOSP 2013).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np

from gridsim.results.decisions import Words
from gridsim.scheduling.contract import Policy, Run
from gridsim.scheduling.local.adapter import Adapter, LocalPolicy, LocalScheduler, Message
from gridsim.scheduling.local.oracle import Truth, TruthOf
from gridsim.scheduling.local.policy import View
from gridsim.support.parameters import Limits

Seconds = Annotated[float, Limits(above=0, unit="s", finite=False)]


class SparrowNode(LocalPolicy):
    """A machine: the scheduler of the jobs that are submitted here, and a worker with one slot."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # the reservations of the worker, a ring: of which job, and who schedules it
        self.job, self.scheduler = np.zeros(parameters.room, np.int64), np.zeros(parameters.room, np.int64)
        self.first = self.count = 0
        self.returned = 0  # probes that found no room
        self.taken = False  # whether the slot runs a task or waits for an answer

    # -- the scheduler ------------------------------------------------------------------------------------

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """Reserve places for a job."""
        self.probe(view, application.number, tasks)
        if self.parameters.retry < math.inf:
            view.timer(self.parameters.retry, "retry", application.number)

    def probe(self, view: View, job: int, tasks: int) -> None:
        """Send probes for tasks of a job to random machines."""
        for _ in range(math.ceil(self.parameters.probe_ratio * tasks)):
            view.send(view.random.integers(view.machines), "probe", job=job, scheduler=view.node)

    def on_fetch(self, view: View, message: Any) -> None:
        """Bind the next task of a job to the worker that asks, if any is left."""
        if view.held(message.job) > 0:
            view.decide("bound", message.job, machine=message.sender, tasks=1, saw=0.0)
            view.send(message.sender, "task", application=message.job, tasks=1)
        else:
            view.send(message.sender, "none")

    def on_full(self, view: View, message: Any) -> None:
        """Send a probe that found no room to another machine, later: by then some queue may be shorter."""
        if view.held(message.job) > 0:
            self.returned += 1
            # after ever longer pauses, and 1 ns apart, since equal timers are one
            pause = max(self.parameters.pause, view.now - view.application(message.job).release)
            view.timer(pause + 1e-9 * self.returned, "again", message.job)

    # -- the worker ---------------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation, or send it back if there is no room."""
        if self.count == self.parameters.room:
            view.send(message.scheduler, "full", job=message.job)
            return
        at = (self.first + self.count) % self.parameters.room
        self.job[at], self.scheduler[at] = message.job, message.scheduler
        self.count += 1
        if not self.taken:
            self.fetch(view)

    def fetch(self, view: View) -> None:
        """Ask for a task of the first reservation."""
        self.taken = self.count > 0
        if self.taken:
            at = self.first
            self.first, self.count = (at + 1) % self.parameters.room, self.count - 1
            view.send(self.scheduler[at], "fetch", job=self.job[at])
            if self.parameters.patience < math.inf:
                view.timer(self.parameters.patience, "unanswered")

    def on_task(self, view: View, message: Any) -> None:
        """Run a task."""
        view.cancel("unanswered")
        view.enqueue(message.application, message.tasks)

    def on_none(self, view: View, message: Any) -> None:
        """All tasks of the job have gone to others."""
        view.cancel("unanswered")
        self.fetch(view)

    def on_idle(self, view: View) -> None:
        """See `LocalPolicy`."""
        self.fetch(view)

    # -- failures -----------------------------------------------------------------------------------------

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """Go on without an answer that is lost; or replace lost reservations, if a job still has tasks."""
        if name == "unanswered":
            self.fetch(view)
            return
        job = int(value)
        left = view.held(job)
        if name == "again":
            if left > 0:
                view.send(view.random.integers(view.machines), "probe", job=job, scheduler=view.node)
        elif left > 0:
            self.probe(view, job, left)
            # after ever longer pauses, since most reservations wait, and are not lost
            view.timer(max(self.parameters.retry, view.now - view.application(job).release), "retry", job)


def without_losses(parameters: Any, run: Run) -> Any:
    """Return the parameters of a run; where no machine fails, nothing need be asked again."""
    return (
        parameters if run.faults else msgspec.structs.replace(parameters, patience=math.inf, retry=math.inf)
    )


def work_of(truth: Truth, node: int, machine: int) -> float:
    """Return the work of a machine, s."""
    return truth.work(machine)


#: See `gridsim.scheduling.contract.Scheduler.decision_words`.
WORDS: Words = {"bound": ("gave a task to machine {machine}, whose slot was free", "work there:", "s")}
TRUTHS: dict[str, TruthOf] = {"bound": work_of}


class Probing(LocalScheduler, frozen=True, kw_only=True):
    """Base class of schedulers that probe workers, with their common parameters.

    degree : neighbours of a node, of which it makes no use.
    probe_ratio : probes per task.
    patience : s after which a worker goes on without the answer of a scheduler that may have failed.
    retry : s after which a job that has tasks left probes again, since reservations may be lost with failed
        workers; then again after pauses twice as long each.

    Where no machine can fail nothing is lost: `patience` and `retry` are then without effect.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    timers: ClassVar[tuple[str, ...]] = ("unanswered", "retry")
    decision_words: ClassVar[Words] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS

    degree: Annotated[int, Limits(low=0)] = 0
    probe_ratio: Annotated[float, Limits(above=0)] = 2.0
    patience: Seconds = 5.0
    retry: Seconds = 60.0

    def start(self, run: Run) -> Policy:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return Adapter(without_losses(self, run), run)


class Sparrow(Probing, frozen=True, kw_only=True):
    """Batch sampling with late binding: tasks go to the workers that first reach a reservation of their job.

    room : reservations that a worker can queue; it sends further ones back.
    pause : s until a probe that was sent back goes to another random machine; then pauses twice as long each.
    """

    name: ClassVar[str] = "sparrow"
    policy: ClassVar[type[LocalPolicy]] = SparrowNode
    messages: ClassVar[Mapping[str, Message]] = {
        "probe": Message(80, job=int, scheduler=int),
        "fetch": Message(72, job=int),
        "task": Message(170, moves_tasks=True, application=int, tasks=int),
        "none": Message(64),
        "full": Message(72, job=int),
    }
    timers: ClassVar[tuple[str, ...]] = (*Probing.timers, "again")

    room: Annotated[int, Limits(low=1)] = 256
    pause: Seconds = 1.0
