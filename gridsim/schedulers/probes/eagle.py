"""Eagle and DLWL: workers serve the job with the least work left first, and probes avoid long tasks.

P. Delgado, D. Didona, F. Dinu, W. Zwaenepoel, "Job-aware scheduling in Eagle: divide and stick to your
probes" (SoCC 2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.handlers import Handlers
from gridcore.probes import srpt
from gridcore.probes.waiting_times import StaleTimes
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.probes.sparrow import TRUTHS, WORDS, Probing, Seconds, without_losses
from gridsim.schedulers.probes.worker import (
    COMMON,
    Cutoff,
    Fetch,
    Share,
    WorkerNode,
    numbers,
    reserved_of,
    with_center,
)
from gridsim.scheduling.contract import NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, Message, NodeProgram
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import View, array
from gridsim.support.parameters import Limits

#: Rounds of probes: to all workers; to those without long tasks, as far as known; to the reserved ones.
ANYWHERE, AVOIDING, RESERVED = 1, 2, 3


def bits_of(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return flags as whole numbers of 64 bits."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded).view(np.int64)


def flags_of(bits: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return the flags of which `bits_of` made the numbers."""
    return np.unpackbits(bits.view(np.uint8), count=count).astype(np.bool_)


def _with_bits(bits: NDArray[np.int64], **_: Any) -> int:
    """Return the bytes of a message with bits."""
    return 88 + bits.nbytes


class SrptNode(WorkerNode):
    """A worker that serves jobs with less work left first."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # in place of `queue`: job, scheduler, size of a task, and of those that have overtaken it, Mflop
        self.places: list[list[Any]] = []
        self.smallest = math.inf  # Mflop, no task that is queued here is smaller
        self.served: list[Any] = []  # the place that is served

    # -- a scheduler --------------------------------------------------------------------------------------

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        """See `WorkerNode`."""
        self.publish(view, application.number)
        super().schedule(view, application, tasks)

    def on_fetch(self, view: View, message: Any) -> None:
        """See `WorkerNode`."""
        had = view.held(message.job) > 0  # another scheduler may have what was lost of it
        super().on_fetch(view, message)
        if had:
            self.publish(view, message.job)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """See `WorkerNode`; another scheduler of the job may have said that nothing is left of it."""
        if name == "retry" and view.held(int(value)):
            self.publish(view, int(value))
        super().on_timer(view, name, value)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """See `WorkerNode`."""
        for to in self.choose_workers(view, application, tasks):
            view.send(to, "probe", job=application.number, size=application.task_size)

    def publish(self, view: View, job: int) -> None:
        """Let all know how much work of a job has not been given out, Mflop."""
        left = view.held(job)
        view.publish(left * view.application(job).task_size if left else 0.0, application=job)

    # -- the worker ---------------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.add(view, message)

    def add(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.places.append([message.job, message.sender, message.size, 0.0])
        self.smallest = min(self.smallest, message.size)
        if not self.taken:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Turn to the reservation that is to be served next."""
        if not self.choose(view):
            self.on_free(view)
            return
        job, scheduler, _, _ = self.served
        if scheduler == self.center(view):  # it is for one task
            self.leave()
        self.fetch(view, job, scheduler)

    def choose(self, view: View) -> bool:
        """Choose the place to serve next; return whether there is one.

        Those of jobs without work left are thrown away.  A place may be overtaken as long as the tasks that
        have overtaken it sum to at most `srpt_cap` times its own.
        """
        left, cap, places = view.board, self.parameters.srpt_cap, self.places
        visited, best, least, room, smallest = 0, 0, math.inf, math.inf, math.inf
        alive: list[list[Any]] = []
        while visited < len(places) and room >= self.smallest:
            place = places[visited]
            visited += 1
            job, _, size, overtaken = place
            if left[job] <= 0:
                continue
            if left[job] < least and size <= room:
                best, least = len(alive), left[job]
            room, smallest = min(room, cap * size - overtaken), min(smallest, size)
            if not alive and self.goes_first(size):
                room = -math.inf
            alive.append(place)
        if visited == len(places):
            self.smallest = smallest
        places[:visited] = alive
        if not alive:
            return False
        self.served = self.places[best]
        for place in self.places[:best]:
            place[3] += self.served[2]
        return True

    def goes_first(self, size: float) -> bool:
        """Return whether tasks of this size (Mflop) at the head of the queue cannot be overtaken."""
        return False

    def on_none(self, view: View, message: Any) -> None:
        """See `WorkerNode`; the job has no place here any more."""
        self.leave()
        super().on_none(view, message)

    def leave(self) -> None:
        """Remove the place that is served."""
        self.places = [place for place in self.places if place is not self.served]


class EagleNode(SrptNode):
    """A worker that refuses short jobs while it has a long task; as a scheduler it avoids such workers."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # which workers have long tasks, as bits, as far as known, and how new that is
        self.version, self.bits = -1, np.zeros(0, np.int64)
        self.refused: list[tuple[int, int]] = []  # job, round: probes that have come back

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """See `WorkerNode`: probes of a long job tell which workers have long tasks."""
        job, size = application.number, application.task_size
        if self.books is None:
            count = max(math.ceil(self.parameters.probe_ratio * tasks), self.parameters.least_probes)
            for to in view.random.integers(self.workers(view), size=count).tolist():
                view.send(to, "probe", job=job, size=size, round=ANYWHERE)
            return
        chosen = self.choose_workers(view, application, tasks)
        self.version += 1
        bits = bits_of(self.books.busy())
        for to in chosen:
            view.send(to, "long", job=job, size=size, version=self.version, bits=bits)

    def goes_first(self, size: float) -> bool:
        """See `SrptNode`: long ones cannot."""
        return bool(size > self.parameters.cutoff)

    def on_long(self, view: View, message: Any) -> None:
        """Queue a reservation for a long task."""
        self.learn(message)
        self.add(view, message)

    def learn(self, message: Any) -> None:
        """Remember where long tasks are, if the message is newer than what is known."""
        if message.version > self.version:
            self.version, self.bits = message.version, message.bits

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation, or refuse it."""
        cutoff = self.parameters.cutoff
        if message.round != RESERVED and (self.booked or any(place[2] > cutoff for place in self.places)):
            view.send(
                message.sender,
                "refusal",
                job=message.job,
                round=message.round,
                version=self.version,
                bits=self.bits,
            )
        else:
            self.add(view, message)

    def on_refusal(self, view: View, message: Any) -> None:
        """Send the probe to another worker, once all refusals of this instant are here."""
        self.learn(message)
        self.refused.append((message.job, message.round))
        view.act()

    def on_act(self, view: View) -> None:
        """Send refused probes to workers without long tasks, as far as known; in the end to reserved ones."""
        workers = self.workers(view)
        reserved = reserved_of(self.parameters.reserved, workers)
        free = np.flatnonzero(~flags_of(self.bits, workers))
        for job, number in self.refused:
            if number == ANYWHERE and len(free):
                to = free[view.random.integers(len(free))]
            else:
                to = view.random.integers(reserved or workers)
            number = min(number + 1, RESERVED) if len(free) else RESERVED
            if view.held(job):
                size = view.application(job).task_size
                view.send(to, "probe", job=job, size=size, round=number)
        self.refused.clear()


class DlwlNode(SrptNode):
    """A worker; all jobs go to a center whose books are refreshed at intervals."""

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        """See `WorkerNode`."""
        view.send(self.center(view), "job", application=application.number, tasks=tasks)

    def open_books(self, view: View) -> StaleTimes:
        """See `WorkerNode`."""
        view.timer(self.parameters.heartbeat, "heartbeat")
        reserved = reserved_of(self.parameters.reserved, self.workers(view))
        return StaleTimes(self.workers(view), (0, reserved), self.parameters.fetch_time)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return the workers that wait the least by the books, with up to `spread` random seconds each."""
        if self.books is None:  # no worker has come up yet
            return []
        added = view.random.integers(0, self.parameters.spread + 1, size=self.workers(view))
        assert isinstance(self.books, StaleTimes)
        return self.books.place(int(self.is_long(application)), tasks, application.task_size, view.now, added)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        """See `WorkerNode`."""
        if name == "heartbeat":
            assert isinstance(self.books, StaleTimes)
            self.books.refresh()
            view.timer(self.parameters.heartbeat, "heartbeat")
        else:
            super().on_timer(view, name, value)


class Srpt(BoardScheduler, frozen=True, kw_only=True):
    """Base class of schedulers whose workers serve the job with the least work left first.

    Parameters
    ----------
    cutoff, reserved, fetch_time, patience, retry, degree
        See `Hawk`.
    srpt_cap
        A place in the queue of a worker is overtaken by jobs with less work left only as long as their tasks
        sum to at most this many times its own.
    age, refresh, error
        How workers see how much work jobs have left.
    """

    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    board_of: ClassVar[Literal["nodes", "applications"]] = "applications"
    timers: ClassVar[tuple[str, ...]] = Probing.timers
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS

    degree: Annotated[int, Limits(low=0)] = 0
    patience: Seconds = 5.0
    retry: Seconds = 60.0
    cutoff: Cutoff = 1e6
    reserved: Share = 0.17
    fetch_time: Fetch = 0.001
    srpt_cap: Annotated[float, Limits(low=0)] = 5.0
    age: Annotated[float, Limits(low=0, unit="s")] = 0.001

    def layout(self, machines: int) -> Layout:
        """See `NodeScheduler`."""
        return with_center(machines)

    def start(self, run: Run) -> Policy:
        """See `gridsim.scheduling.contract.Scheduler`."""
        return Adapter(without_losses(self, run), run)


class Eagle(Srpt, frozen=True, kw_only=True):
    """Hawk without stealing; short jobs avoid workers with long tasks, and stick to their places.

    Parameters
    ----------
    probe_ratio
        Probes per task of a short job.
    least_probes
        Probes of a short job, at least.
    """

    name: ClassVar[str] = "eagle"
    decentralized: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = EagleNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON,
        "probe": Message(88, job=int, size=float, round=int),
        "long": Message(_with_bits, job=int, size=float, version=int, bits=array(int)),
        "refusal": Message(_with_bits, job=int, round=int, version=int, bits=array(int)),
    }

    probe_ratio: Annotated[float, Limits(low=1)] = 2.0
    least_probes: Annotated[int, Limits(low=1)] = 20

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        """See `NodeScheduler`."""
        if type(self) is not Eagle:
            return None
        more: dict[str, Any] = {"srpt_cap": self.srpt_cap, "least_probes": self.least_probes}
        return srpt.Eagle(machines + 1, applications, **more, **numbers(self, machines))


class Dlwl(Srpt, frozen=True, kw_only=True):
    """Least work left as in `Lwl`, but the center refreshes the waiting times it knows only at intervals.

    Parameters
    ----------
    heartbeat
        S between two refreshes.
    spread
        A whole number of s up to this is added to each waiting time, at random.
    """

    name: ClassVar[str] = "dlwl"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = DlwlNode
    messages: ClassVar[Mapping[str, Message]] = {**COMMON, "probe": Message(80, job=int, size=float)}
    timers: ClassVar[tuple[str, ...]] = (*Probing.timers, "heartbeat")

    heartbeat: Annotated[float, Limits(above=0, unit="s")] = 8.0
    spread: Annotated[int, Limits(low=0, unit="s")] = 8

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        """See `NodeScheduler`."""
        if type(self) is not Dlwl:
            return None
        more: dict[str, Any] = {
            "srpt_cap": self.srpt_cap,
            "heartbeat": self.heartbeat,
            "spread": self.spread,
        }
        return srpt.Dlwl(machines + 1, applications, **more, **numbers(self, machines))
