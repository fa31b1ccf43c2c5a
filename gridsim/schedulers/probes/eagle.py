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
from gridsim.schedulers.probes.sparrow import TRUTHS, WORDS, Probing, Seconds, run_parameters
from gridsim.schedulers.probes.worker import (
    COMMON_MESSAGES,
    Cutoff,
    Fetch,
    Share,
    WorkerNode,
    center_layout,
    kernel_arguments,
    reserved_count,
)
from gridsim.scheduling.contract import NodeForm, Policy, Run
from gridsim.scheduling.nodes.adapter import Adapter, Message, NodeProgram
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import View, array
from gridsim.support.parameters import Limits

#: Rounds of a probe, by the workers that it may go to: all; those without known long tasks; reserved ones.
ANY_WORKER, SHORT_WORKER, RESERVED_WORKER = 1, 2, 3


def pack_flags(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return flags as bits of 64-bit integers."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded).view(np.int64)


def unpack_flags(bits: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return the first `count` flags of integers from `pack_flags`."""
    return np.unpackbits(bits.view(np.uint8), count=count).astype(np.bool_)


def _bits_message_size(bits: NDArray[np.int64], **_: Any) -> int:
    """Return the size of a message that carries bits, bytes."""
    return 88 + bits.nbytes


class SrptNode(WorkerNode):
    """A worker that serves the job with the least remaining work first."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # replaces `queue`: job, scheduler, task size, and total size of the tasks that overtook it (Mflop)
        self.reservations: list[list[Any]] = []
        self.smallest = math.inf  # a lower bound of the task sizes in the queue, Mflop
        self.current_reservation: list[Any] = []  # the reservation in service

    # -- a scheduler --------------------------------------------------------------------------------------

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        self.publish(view, application.number)
        super().schedule(view, application, tasks)

    def on_fetch(self, view: View, message: Any) -> None:
        # a scheduler without tasks must not publish: another one may hold lost tasks of the job
        has_tasks = view.held(message.job) > 0
        super().on_fetch(view, message)
        if has_tasks:
            self.publish(view, message.job)

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        # another scheduler of the job may have published that no work is left
        if name == "retry" and view.held(int(value)):
            self.publish(view, int(value))
        super().on_timer(view, name, value)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        for worker in self.choose_workers(view, application, tasks):
            view.send(worker, "probe", job=application.number, size=application.task_size)

    def publish(self, view: View, job: int) -> None:
        """Publish the work of the unbound tasks of a job, Mflop."""
        tasks = view.held(job)
        view.publish(tasks * view.application(job).task_size if tasks else 0.0, application=job)

    # -- the worker ---------------------------------------------------------------------------------------

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.add_reservation(view, message)

    def add_reservation(self, view: View, message: Any) -> None:
        """Add a reservation to the queue, and serve it if the slot is free."""
        self.reservations.append([message.job, message.sender, message.size, 0.0])
        self.smallest = min(self.smallest, message.size)
        if not self.busy:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Serve the reservation that `choose` selects."""
        if not self.choose(view):
            self.on_free(view)
            return
        job, scheduler, _, _ = self.current_reservation
        if scheduler == self.center(view):  # a reservation of the center is for one task
            self.remove_current_reservation()
        self.fetch(view, job, scheduler)

    def choose(self, view: View) -> bool:
        """Choose the reservation to serve next, and return whether there is one.

        Reservations of jobs without work left are dropped.  A reservation may be overtaken while the sizes of
        the tasks that have overtaken it sum to at most `srpt_cap` times its own task size.
        """
        work_left, cap, queue = view.board.values, self.parameters.srpt_cap, self.reservations
        visited, best, least, allowance, smallest = 0, 0, math.inf, math.inf, math.inf
        remaining: list[list[Any]] = []
        while visited < len(queue) and allowance >= self.smallest:
            reservation = queue[visited]
            visited += 1
            job, _, size, overtaken = reservation
            if work_left[job] <= 0:
                continue
            if work_left[job] < least and size <= allowance:
                best, least = len(remaining), work_left[job]
            allowance, smallest = min(allowance, cap * size - overtaken), min(smallest, size)
            if not remaining and self.has_priority(size):
                allowance = -math.inf
            remaining.append(reservation)
        if visited == len(queue):
            self.smallest = smallest
        queue[:visited] = remaining
        if not remaining:
            return False
        self.current_reservation = queue[best]
        for reservation in queue[:best]:
            reservation[3] += self.current_reservation[2]
        return True

    def has_priority(self, size: float) -> bool:
        """Return whether tasks of this size, Mflop, cannot be overtaken at the head of the queue."""
        return False

    def on_none(self, view: View, message: Any) -> None:
        """Remove the reservation in service, whose job has no tasks left."""
        self.remove_current_reservation()
        super().on_none(view, message)

    def remove_current_reservation(self) -> None:
        """Remove the reservation in service from the queue."""
        self.reservations = [entry for entry in self.reservations if entry is not self.current_reservation]


class EagleNode(SrptNode):
    """A worker that refuses short jobs while it has a long task, and avoids such workers as a scheduler."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # the newest known bits of the workers that have long tasks, and their version
        self.version, self.bits = -1, np.zeros(0, np.int64)
        self.refusals: list[tuple[int, int]] = []  # job and round of each refused probe

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send the probes of a job; those of a long job carry the bits of workers with long tasks."""
        job, size = application.number, application.task_size
        if self.waiting_times is None:
            count = max(math.ceil(self.parameters.probe_ratio * tasks), self.parameters.least_probes)
            for worker in view.random.integers(self.workers(view), size=count).tolist():
                view.send(worker, "probe", job=job, size=size, round=ANY_WORKER)
            return
        workers = self.choose_workers(view, application, tasks)
        self.version += 1
        bits = pack_flags(self.waiting_times.busy())
        for worker in workers:
            view.send(worker, "long", job=job, size=size, version=self.version, bits=bits)

    def has_priority(self, size: float) -> bool:
        """Return whether tasks of this size, Mflop, are long: these cannot be overtaken."""
        return bool(size > self.parameters.cutoff)

    def on_long(self, view: View, message: Any) -> None:
        """Queue a reservation of a long job."""
        self.update_bits(message)
        self.add_reservation(view, message)

    def update_bits(self, message: Any) -> None:
        """Store the bits of workers with long tasks, if the message has a newer version."""
        if message.version > self.version:
            self.version, self.bits = message.version, message.bits

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation; refuse it if this worker has a long task, except in the last round."""
        cutoff = self.parameters.cutoff
        if message.round != RESERVED_WORKER and (
            self.serves_center or any(entry[2] > cutoff for entry in self.reservations)
        ):
            view.send(
                message.sender,
                "refusal",
                job=message.job,
                round=message.round,
                version=self.version,
                bits=self.bits,
            )
        else:
            self.add_reservation(view, message)

    def on_refusal(self, view: View, message: Any) -> None:
        """Store a refusal; the probe is sent again once all refusals of this instant have arrived."""
        self.update_bits(message)
        self.refusals.append((message.job, message.round))
        view.act()

    def on_act(self, view: View) -> None:
        """Resend refused probes, first to workers believed to have no long task, then to reserved ones."""
        workers = self.workers(view)
        reserved = reserved_count(self.parameters.reserved, workers)
        short_workers = np.flatnonzero(~unpack_flags(self.bits, workers))
        for job, probe_round in self.refusals:
            if probe_round == ANY_WORKER and len(short_workers):
                worker = short_workers[view.random.integers(len(short_workers))]
            else:
                worker = view.random.integers(reserved or workers)
            probe_round = min(probe_round + 1, RESERVED_WORKER) if len(short_workers) else RESERVED_WORKER
            if view.held(job):
                size = view.application(job).task_size
                view.send(worker, "probe", job=job, size=size, round=probe_round)
        self.refusals.clear()


class DlwlNode(SrptNode):
    """A worker that passes all jobs to a center, which refreshes its waiting times at intervals."""

    def on_release(self, view: View, application: Any, tasks: int) -> None:
        view.send(self.center(view), "job", application=application.number, tasks=tasks)

    def initial_waiting_times(self, view: View) -> StaleTimes:
        view.timer(self.parameters.heartbeat, "heartbeat")
        reserved = reserved_count(self.parameters.reserved, self.workers(view))
        return StaleTimes(self.workers(view), (0, reserved), self.parameters.fetch_time)

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return the workers with the shortest waiting times plus random times of up to `spread` s."""
        if self.waiting_times is None:  # no worker has reported yet
            return []
        delays = view.random.integers(0, self.parameters.spread + 1, size=self.workers(view))
        assert isinstance(self.waiting_times, StaleTimes)
        return self.waiting_times.place(
            int(self.is_long(application)), tasks, application.task_size, view.now, delays
        )

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        if name == "heartbeat":
            assert isinstance(self.waiting_times, StaleTimes)
            self.waiting_times.refresh()
            view.timer(self.parameters.heartbeat, "heartbeat")
        else:
            super().on_timer(view, name, value)


class Srpt(BoardScheduler, frozen=True, kw_only=True):
    """Base class of schedulers whose workers serve the job with the least remaining work first.

    Parameters
    ----------
    cutoff, reserved, fetch_time, patience, retry, degree
        Parameters of `Hawk`.
    srpt_cap
        A reservation in the queue of a worker is overtaken by jobs with less remaining work while the sizes
        of their tasks sum to at most `srpt_cap` times its own task size.
    age, refresh, error
        Delay, refresh interval and error of the remaining work of jobs, as workers see it on the board.
    batch
        Not used, since nodes do not add to numbers on the board.
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
    refresh: Literal["continuous", "periodic", "individual"] = "continuous"

    def layout(self, machines: int) -> Layout:
        return center_layout(machines)

    def start(self, run: Run) -> Policy:
        return Adapter(run_parameters(self, run), run)


class Eagle(Srpt, frozen=True, kw_only=True):
    """Hawk without stealing: short jobs avoid workers with long tasks, and stick to their probes.

    Parameters
    ----------
    probe_ratio
        Probes per task of a short job.
    least_probes
        Minimum number of probes of a short job.
    """

    name: ClassVar[str] = "eagle"
    decentralized: ClassVar[bool] = True
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = EagleNode
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "probe": Message(88, job=int, size=float, round=int),
        "long": Message(_bits_message_size, job=int, size=float, version=int, bits=array(int)),
        "refusal": Message(_bits_message_size, job=int, round=int, version=int, bits=array(int)),
    }

    probe_ratio: Annotated[float, Limits(low=1)] = 2.0
    least_probes: Annotated[int, Limits(low=1)] = 20

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        if type(self) is not Eagle:
            return None
        options: dict[str, Any] = {"srpt_cap": self.srpt_cap, "least_probes": self.least_probes}
        return srpt.Eagle(machines + 1, applications, **options, **kernel_arguments(self, machines))


class Dlwl(Srpt, frozen=True, kw_only=True):
    """Least work left as in `Lwl`, but the center refreshes its waiting times only at intervals.

    Parameters
    ----------
    heartbeat
        Interval between two refreshes, s.
    spread
        A random integer from 0 to `spread`, in s, is added to each waiting time.
    """

    name: ClassVar[str] = "dlwl"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    policy: ClassVar[type[NodeProgram]] = DlwlNode
    messages: ClassVar[Mapping[str, Message]] = {**COMMON_MESSAGES, "probe": Message(80, job=int, size=float)}
    timers: ClassVar[tuple[str, ...]] = (*Probing.timers, "heartbeat")

    heartbeat: Annotated[float, Limits(above=0, unit="s")] = 8.0
    spread: Annotated[int, Limits(low=0, unit="s")] = 8

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        if type(self) is not Dlwl:
            return None
        options: dict[str, Any] = {
            "srpt_cap": self.srpt_cap,
            "heartbeat": self.heartbeat,
            "spread": self.spread,
        }
        return srpt.Dlwl(machines + 1, applications, **options, **kernel_arguments(self, machines))
