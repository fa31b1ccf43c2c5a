"""Eagle and DLWL: workers serve the job with the least remaining work first; Eagle's probes avoid long tasks.

P. Delgado, D. Didona, F. Dinu, W. Zwaenepoel, "Job-aware scheduling in Eagle: divide and stick to your
probes" (SoCC 2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.nodes.handlers import Handlers
from gridcore.nodes.shared_array import SharedArray
from gridcore.nodes.waiting_times import StaleTimes, count_idle, idle_worker
from gridcore.probes import srpt
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.probes.sparrow import (
    TRUTHS,
    WORDS,
    Patience,
    Probing,
    ProbingNode,
    Seconds,
    run_parameters,
)
from gridsim.schedulers.probes.worker import (
    COMMON_MESSAGES,
    CenterNode,
    Cutoff,
    Fetch,
    HybridNode,
    Share,
    WorkerNode,
    kernel_arguments,
    roles_of,
)
from gridsim.scheduling.contract import NodeForm, Policy, Run, TaskCost
from gridsim.scheduling.nodes.adapter import Adapter, Fifo, Message, Role
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.ground_truth import TruthOf
from gridsim.scheduling.nodes.program import View, array
from gridsim.support.parameters import Limits

#: Rounds of a probe, named after the workers that may receive it: all workers, workers without known long
#: tasks, or reserved workers.
ANY_WORKER, SHORT_WORKER, RESERVED_WORKER = 1, 2, 3


class SrptSchedulingNode(ProbingNode):
    """A node that schedules jobs, and publishes the work of their unbound tasks on the board."""

    def schedule(self, view: View, application: Any, tasks: int) -> None:
        self.publish(view, application.number)
        super().schedule(view, application, tasks)

    def on_fetch(self, view: View, message: Any) -> None:
        # a scheduler without tasks must not publish: another one may hold lost tasks of the job
        has_tasks = view.held(message.job) > 0
        super().on_fetch(view, message)
        if has_tasks:
            self.publish(view, message.job)

    def retry(self, view: View, job: int) -> None:
        # another scheduler of the job may have published that no work is left
        if view.held(job) > 0:
            self.publish(view, job)
        super().retry(view, job)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        for worker in self.choose_workers(view, application, tasks):
            view.send(worker, "probe", job=application.number, size=application.task_size)

    def publish(self, view: View, job: int) -> None:
        """Publish the work of the unbound tasks of a job, Mflop."""
        tasks = view.held(job)
        view.publish(tasks * view.application(job).task_size if tasks else 0.0, application=job)


class SrptNode(WorkerNode):
    """A worker that serves the job with the least remaining work first."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # a reservation also has its task size and the total size of the tasks that overtook it (Mflop)
        self.queue = Fifo(job=int, scheduler=int, size=float, overtaken=float)
        self.smallest = math.inf  # a lower bound of the task sizes in the queue, Mflop
        self.in_service = -1  # index of the reservation in service
        self.priorities = 0  # number of reservations that cannot be overtaken at the head of the queue

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation."""
        self.add_reservation(view, message)

    def add_reservation(self, view: View, message: Any) -> None:
        """Add a reservation to the queue, and serve it if the slot is free."""
        self.queue.push(message.job, message.sender, message.size, 0.0)
        self.smallest = min(self.smallest, message.size)
        self.priorities += int(self.has_priority(message.size))
        if not self.busy:
            self.serve(view)

    def serve(self, view: View) -> None:
        """Serve the reservation that `choose` selects."""
        if not self.choose(view):
            self.on_free(view)
            return
        job, scheduler, _, _ = self.queue[self.in_service]
        if scheduler == self.center(view):  # a reservation of the central scheduler is for one task
            self.remove_reservation_in_service()
        self.fetch(view, job, scheduler)

    def choose(self, view: View) -> bool:
        """Choose the reservation to serve next, and return whether there is one.

        Reservations of jobs without work left are dropped.  A reservation may be overtaken while the sizes of
        the tasks that have overtaken it sum to at most `srpt_cap` times its own task size.
        """
        queue, cap, self.in_service = self.queue, self.parameters.srpt_cap, -1
        if not queue:
            self.smallest = math.inf
            return False
        work_left = view.board.values
        visited, best, least, allowance, smallest = 0, 0, math.inf, math.inf, math.inf
        while visited < len(queue) and allowance >= self.smallest:
            job, _, size, overtaken = queue[visited]
            work = work_left[job]
            if work <= 0:
                self.remove(visited)
                continue
            if work < least and size <= allowance:
                best, least = visited, work
            allowance, smallest = min(allowance, cap * size - overtaken), min(smallest, size)
            if visited == 0 and self.has_priority(size):
                allowance = -math.inf
            visited += 1
        if visited == len(queue):
            self.smallest = smallest
        if visited == 0:
            return False
        self.in_service = best
        best_size = queue[best][2]
        for k in range(best):
            job, scheduler, size, overtaken = queue[k]
            queue[k] = (job, scheduler, size, overtaken + best_size)
        return True

    def has_priority(self, size: float) -> bool:
        """Return whether tasks of this size, Mflop, cannot be overtaken at the head of the queue."""
        return False

    def on_none(self, view: View, message: Any) -> None:
        """Remove the reservation in service, whose job has no tasks left."""
        self.remove_reservation_in_service()
        super().on_none(view, message)

    def remove_reservation_in_service(self) -> None:
        """Remove the reservation in service from the queue, if it is still there."""
        if self.in_service >= 0:
            self.remove(self.in_service)
            self.in_service = -1

    def remove(self, index: int) -> None:
        """Remove a reservation from the queue."""
        self.priorities -= int(self.has_priority(self.queue[index][2]))
        del self.queue[index]


class EagleNode(SrptSchedulingNode, SrptNode, HybridNode):
    """A worker that refuses short jobs while it has a long task, and avoids such workers as a scheduler."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        # the newest known bits of the workers that have long tasks, and their version
        self.version, self.bits = -1, SharedArray(np.zeros(0, np.int64))
        self.refusals = Fifo(job=int, round=int)

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send the probes of a short job to random workers."""
        job, size = application.number, application.task_size
        count = max(math.ceil(self.parameters.probe_ratio * tasks), self.parameters.least_probes)
        for worker in view.random.integers(self.workers(view), size=count).tolist():
            view.send(worker, "probe", job=job, size=size, round=ANY_WORKER)

    def has_priority(self, size: float) -> bool:
        """Return whether tasks of this size, Mflop, are long and so cannot be overtaken."""
        is_long: bool = size > self.parameters.cutoff
        return is_long

    def on_long(self, view: View, message: Any) -> None:
        """Queue a reservation of a long job."""
        self.update_bits(message)
        self.add_reservation(view, message)

    def update_bits(self, message: Any) -> None:
        """Store the bits of workers with long tasks, if the message has a newer version."""
        if message.version > self.version:
            self.version = message.version
            self.bits.set(message.bits)

    def on_probe(self, view: View, message: Any) -> None:
        """Queue a reservation; refuse it if this worker has a long task, except in the last round."""
        if message.round != RESERVED_WORKER and (self.serves_center or self.priorities > 0):
            view.send(
                message.sender,
                "refusal",
                job=message.job,
                round=message.round,
                version=self.version,
                bits=self.bits.values,
            )
        else:
            self.add_reservation(view, message)

    def on_refusal(self, view: View, message: Any) -> None:
        """Store a refusal; the probe is sent again once all refusals of this instant have arrived."""
        self.update_bits(message)
        self.refusals.push(message.job, message.round)
        view.act()

    def on_act(self, view: View) -> None:
        """Resend refused probes, first to workers believed to have no long task, then to reserved workers."""
        workers, reserved, bits = self.workers(view), self.reserved(view), self.bits.values
        short_workers = count_idle(bits, workers)
        while self.refusals:
            job, probe_round = self.refusals.pop()
            if probe_round == ANY_WORKER and short_workers:
                worker = idle_worker(bits, view.random.integers(short_workers))
            else:
                worker = view.random.integers(reserved or workers)
            probe_round = min(probe_round + 1, RESERVED_WORKER) if short_workers else RESERVED_WORKER
            if view.held(job):
                size = view.application(job).task_size
                view.send(worker, "probe", job=job, size=size, round=probe_round)


class EagleCenter(SrptSchedulingNode, CenterNode):
    """The central scheduler of long jobs, whose reservations carry the bits of workers with long tasks."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.version = -1  # version of the last bits that were sent

    def reserve(self, view: View, application: Any, tasks: int) -> None:
        """Send the probes of a long job, with the bits of the workers that have long tasks."""
        workers = self.choose_workers(view, application, tasks)
        self.version += 1
        bits = np.empty((self.workers(view) + 63) // 64, np.int64)
        self.waiting_times.busy(bits)
        job, size = application.number, application.task_size
        for worker in workers:
            view.send(worker, "long", job=job, size=size, version=self.version, bits=bits)


class DlwlCenter(SrptSchedulingNode, CenterNode):
    """The central scheduler of all jobs, which refreshes its estimated waiting times at intervals."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting_times = StaleTimes(parameters.fetch_time)

    def open(self, view: View) -> None:
        super().open(view)
        view.timer(self.parameters.heartbeat, "heartbeat")

    def choose_workers(self, view: View, application: Any, tasks: int) -> list[int]:
        """Return the workers with the shortest waiting times plus random times of up to `spread` s."""
        delays = view.random.integers(0, self.parameters.spread + 1, size=self.workers(view))
        chosen = np.empty(tasks, np.int64)
        first = self.reserved(view) if self.is_long(application) else 0
        self.waiting_times.place(first, application.task_size, view.now, delays, chosen)
        workers: list[int] = chosen.tolist()
        return workers

    def on_timer(self, view: View, name: str, value: float = 0.0) -> None:
        if name == "heartbeat":
            self.waiting_times.refresh()
            view.timer(self.parameters.heartbeat, "heartbeat")
        else:
            self.retry(view, int(value))


class Srpt(BoardScheduler, frozen=True, kw_only=True):
    """Base class of schedulers whose workers serve the job with the least remaining work first.

    Parameters
    ----------
    degree
        Number of neighbours of each node; these schedulers do not use them.
    patience
        Time, in s, after which a worker stops waiting for the answer of a scheduler, which may have failed.
    retry
        Time, in s, after which a job with tasks left probes again, since failed workers lose reservations.
        The pause doubles with each repetition, up to 100 times `retry`.
    cutoff
        Estimated task size above which a job is long, Mflop.
    reserved
        Share of the workers that run no long tasks: those with the lowest numbers.
    fetch_time
        Time, in s, that the central scheduler adds to the waiting time of a worker with tasks, which has to
        fetch the next one.
    srpt_cap
        A reservation in the queue of a worker is overtaken by jobs with less remaining work while the sizes
        of their tasks sum to at most `srpt_cap` times its own task size.
    age, refresh, error
        Delay, refresh interval and error of the remaining work of jobs, as workers see it on the board.
    batch
        Not used, since nodes do not increment values on the board.
    """

    task_cost: ClassVar[TaskCost] = TaskCost(memory=96, time=5e-6)
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    board_of: ClassVar[Literal["nodes", "applications"]] = "applications"
    timers: ClassVar[tuple[str, ...]] = Probing.timers
    decision_words: ClassVar[DecisionTexts] = WORDS
    truths: ClassVar[Mapping[str, TruthOf]] = TRUTHS

    degree: Annotated[int, Limits(low=0)] = 0
    patience: Patience = 5.0
    retry: Seconds = 60.0
    cutoff: Cutoff = 1e6
    reserved: Share = 0.17
    fetch_time: Fetch = 0.001
    srpt_cap: Annotated[float, Limits(low=0)] = 5.0
    age: Annotated[float, Limits(low=0, unit="s")] = 0.001
    refresh: Literal["continuous", "periodic", "individual"] = "continuous"

    def start(self, run: Run) -> Policy:
        return Adapter(run_parameters(self, run), run)


class Eagle(Srpt, frozen=True, kw_only=True):
    """Hawk without stealing: the probes of short jobs avoid workers with long tasks.

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
    roles: ClassVar[Mapping[str, Role]] = roles_of(EagleNode, EagleCenter)
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "probe": Message(88, job=int, size=float, round=int),
        "long": Message(
            lambda job, size, version, bits: 88 + 8 * bits.size,
            job=int,
            size=float,
            version=int,
            bits=array(int, ndim=1),
        ),
        "refusal": Message(
            lambda job, round, version, bits: 88 + 8 * bits.size,
            job=int,
            round=int,
            version=int,
            bits=array(int, ndim=1),
        ),
    }

    probe_ratio: Annotated[float, Limits(low=1)] = 2.0
    least_probes: Annotated[int, Limits(low=1)] = 20

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        if type(self) is not Eagle:
            return None
        options: dict[str, Any] = {"srpt_cap": self.srpt_cap, "least_probes": self.least_probes}
        return srpt.Eagle(machines + 1, applications, **options, **kernel_arguments(self, machines))


class Dlwl(Srpt, frozen=True, kw_only=True):
    """Least work left as in `Lwl`, but the central scheduler refreshes its waiting times only at intervals.

    Parameters
    ----------
    heartbeat
        Interval between two refreshes, s.
    spread
        A random integer from 0 to `spread`, in s, is added to each waiting time.
    """

    name: ClassVar[str] = "dlwl"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    roles: ClassVar[Mapping[str, Role]] = roles_of(SrptNode, DlwlCenter)
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
