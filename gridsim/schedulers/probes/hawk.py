"""Hawk: a central scheduler places long jobs and probes place short ones.  LWL: it places all jobs.

P. Delgado, F. Dinu, A.-M. Kermarrec, W. Zwaenepoel, "Hawk: hybrid datacenter scheduling" (USENIX ATC 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gridcore.nodes.handlers import Handlers
from gridcore.probes import workers
from gridsim.schedulers.probes.sparrow import Probing
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
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.adapter import Message, Role
from gridsim.scheduling.nodes.program import View, array
from gridsim.support.parameters import Limits


class HawkNode(HybridNode):
    """A worker that steals reservations when it has none."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.attempts = 0  # attempts to steal since the slot became free

    def on_free(self, view: View) -> None:
        self.attempts = 0
        self.steal(view)

    def steal(self, view: View) -> None:
        """Ask a random worker of the general partition for reservations behind a long task."""
        if self.attempts < self.parameters.steal_attempts:
            self.attempts += 1
            view.send(view.random.integers(self.reserved(view), self.workers(view)), "steal")

    def on_steal(self, view: View, message: Any) -> None:
        """Send the thief the first consecutive reservations of short jobs behind a long task."""
        queue, begin, center = self.queue, 0, self.center(view)
        if not self.serves_center:
            while begin < len(queue) and queue[begin][1] != center:
                begin += 1
        while begin < len(queue) and queue[begin][1] == center:
            begin += 1
        end = begin
        while end < len(queue) and queue[end][1] != center:
            end += 1
        if begin == end:
            view.send(message.sender, "nothing")
            return
        loot = np.empty((end - begin, 2), np.int64)
        for k in range(end - begin):
            job, scheduler = queue[begin]
            loot[k, 0], loot[k, 1] = job, scheduler
            del queue[begin]
        view.send(message.sender, "loot", loot=loot)

    def on_loot(self, view: View, message: Any) -> None:
        """Queue the stolen reservations."""
        loot = message.loot
        for k in range(len(loot)):
            self.queue.push(int(loot[k, 0]), int(loot[k, 1]))
        if not self.busy:
            self.serve(view)

    def on_nothing(self, view: View, message: Any) -> None:
        """Try to steal from another worker, if the slot is still free."""
        if not self.busy:
            self.steal(view)


class Hawk(Probing, frozen=True, kw_only=True):
    """Hybrid scheduler: a central scheduler places long jobs on a part of the workers, and probes short jobs.

    Idle workers steal reservations.

    Parameters
    ----------
    cutoff
        Estimated task size above which a job is long, Mflop.
    reserved
        Share of the workers that run no long tasks: those with the lowest numbers.
    steal_attempts
        Number of workers from which an idle worker tries to steal, one after another; 0 for no stealing.
    fetch_time
        Time, in s, that the central scheduler adds to the waiting time of a worker with tasks, which has to
        fetch the next one.
    """

    name: ClassVar[str] = "hawk"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    roles: ClassVar[Mapping[str, Role]] = roles_of(HawkNode, CenterNode)
    messages: ClassVar[Mapping[str, Message]] = {
        **COMMON_MESSAGES,
        "steal": Message(64),
        "nothing": Message(64),
        "loot": Message(lambda loot: 64 + 8 * loot.size, loot=array(int, ndim=2)),
    }

    cutoff: Cutoff = 1e6
    reserved: Share = 0.17
    fetch_time: Fetch = 0.001
    steal_attempts: Annotated[int, Limits(low=0)] = 10

    @property
    def informed_by_messages(self) -> bool:
        """False: the center is assumed to know at once which tasks workers begin and end."""
        return False

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        if type(self) is not Hawk:
            return None
        return workers.Hawk(
            machines + 1, applications, steal_attempts=self.steal_attempts, **kernel_arguments(self, machines)
        )


class Lwl(Probing, frozen=True, kw_only=True):
    """Least work left: a central scheduler sends each task to the worker with the shortest waiting time.

    Parameters
    ----------
    cutoff
        Estimated task size above which a job is long, Mflop.
    reserved
        Share of the workers that run no long tasks: those with the lowest numbers.
    fetch_time
        Time, in s, that the central scheduler adds to the waiting time of a worker with tasks, which has to
        fetch the next one.
    """

    name: ClassVar[str] = "lwl"
    local_order: ClassVar[Literal["edf", "fifo"]] = "fifo"
    node_forms: ClassVar[tuple[NodeForm, ...]] = ("compiled", "interpreted")
    roles: ClassVar[Mapping[str, Role]] = roles_of(WorkerNode, CenterNode)
    messages: ClassVar[Mapping[str, Message]] = COMMON_MESSAGES

    cutoff: Cutoff = 1e6
    reserved: Share = 0.17
    fetch_time: Fetch = 0.001

    @property
    def informed_by_messages(self) -> bool:
        """False: the center is assumed to know at once which tasks workers begin and end."""
        return False

    def hand_compiled(self, machines: int, applications: int) -> Handlers | None:
        if type(self) is not Lwl:
            return None
        return workers.Lwl(machines + 1, applications, **kernel_arguments(self, machines))
