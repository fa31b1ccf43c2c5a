"""What DGS_ASAP does when machines fail, which is beyond the paper.

A machine that fails loses its schedule and the jobs that run on it.  Its neighbours, and the scheduling nodes
of its jobs, detect the failure `detection` s later.  The scheduling nodes then release the other machines of
such a job and search again.  The records of a scheduling node survive; while it is down, the next machine
that is up acts for it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from gridcore.dgs.slots import SlotSchedules
from gridcore.dgs.state import claimant, claimed
from gridsim.engine.engine import TIMER
from gridsim.schedulers.dgs.jobs import Times
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.scheduling.contract import FAULT_PRIORITY, Run
from gridsim.scheduling.rigid_runs import Runs
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful


class Absences(Stateful):
    """When machines failed last, and what the overlay learns of that.

    Attributes
    ----------
    last
        int64[machines], ns when each machine failed last; -1 for never.
    """

    STATE: ClassVar[tuple[str, ...]] = ("last",)

    def __init__(self, run: Run, parameters: Any, overlay: Neighbourhood) -> None:
        self.run, self.engine, self.overlay = run, run.engine, overlay
        self.last = np.full(len(run.speeds), -1, np.int64)
        self.detection = nanoseconds(parameters.detection)
        self.engine.on("absent", self.detect, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Let machines leave the overlay, which their neighbours detect later, and join it."""
        now = self.engine.now
        self.last[failed] = now
        self.overlay.leave(failed)
        returned = recovered[self.run.up[recovered]]
        self.overlay.join(returned)
        for node in failed.tolist():
            self.engine.at(now + self.detection, "absent", node)

    def resume(self) -> None:
        """Set the timers of failures that are not detected yet; see `Environment.resume`."""
        for node in np.flatnonzero(self.last >= 0).tolist():
            if self.last[node] + self.detection > self.engine.now:
                self.engine.at(int(self.last[node]) + self.detection, "absent", node)

    def since(self, now: int, nodes: Any) -> int:
        """Return how many of `nodes` have failed since the failure that is detected now."""
        return int((self.last[nodes] >= now - self.detection).sum())

    def detect(self, nodes: list[int]) -> None:
        """Mark machines as failed for their neighbours, now that this is detected.

        A machine that has recovered is not marked; nor is one that has failed again, which is detected later.
        """
        for node in nodes:
            if not self.run.up[node] and self.last[node] + self.detection == self.engine.now:
                self.overlay.away[node] = True


class FailingRun(Protocol):
    """What `Failures` needs of a run of the compiled protocol."""

    parameters: Any
    run: Run
    schedules: SlotSchedules
    times: Times
    overlay: Neighbourhood
    runs: Runs

    def hit(self, job: int, node: int, attempt: int) -> bool:
        """Handle that `node` has failed, which had reserved slots in this attempt to place a job.

        Returns whether that is news for the scheduling node of the job, which will detect it.
        """

    def search_anew(self, job: int, attempt: int) -> None:
        """Let the scheduling node of a job notice that a machine has displaced it, in this attempt."""

    def start_again(self, job: int) -> None:
        """Let the scheduling node of a job learn that one of its machines has failed."""


class Failures(Stateful):
    """What the compiled protocol needs of failures: what they destroy, and when that is detected.

    Attributes
    ----------
    missed_at
        Job that has lost a machine -> ns at which that is detected.  Of several attempts that lost one, the
        newest counts.
    """

    STATE = ("absences", "missed_at")

    def __init__(self, grid: FailingRun) -> None:
        self.of = grid
        self.engine = grid.run.engine
        self.absences = Absences(grid.run, grid.parameters, grid.overlay)
        self.missed_at: dict[int, int] = {}
        self.detection = self.absences.detection
        self.engine.on("unheard", self.unheard, priority=FAULT_PRIORITY + 3, phase=TIMER)
        self.engine.on("broken", self.broken, priority=FAULT_PRIORITY + 2, phase=TIMER)

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Handle machines that fail and recover now; see `gridsim.scheduling.contract.Policy`."""
        now, of = self.engine.now, self.of
        nodes, claims, *_ = of.schedules.lose(failed, now // of.times.slot, now)
        jobs, attempts = claimant(claims)
        for node, job, attempt in zip(nodes.tolist(), jobs.tolist(), attempts.tolist(), strict=True):
            self.task_lost(job, node, attempt)
        self.absences.on_faults(failed, back)

    def task_lost(self, job: int, node: int, attempt: int) -> None:
        """Handle the failure of `node`, which had reserved slots in this attempt to place a job."""
        of, now = self.of, self.engine.now
        of.runs.stop(job, node, attempt, now)
        if of.hit(job, node, attempt):
            # replaces the loss of an earlier attempt, which the job has abandoned
            self.missed_at[job] = now + self.detection
            self.engine.at(self.missed_at[job], "broken", job)

    def displaced(self, job: int, attempt: int) -> None:
        """Handle that a machine has displaced a job, which its scheduling node hears of, or notices later."""
        if self.of.run.faults:
            later = self.engine.now + nanoseconds(self.of.parameters.patience)
            self.engine.at(later, "unheard", claimed(job, attempt))

    def unheard(self, claims: list[int]) -> None:
        """Let scheduling nodes notice that jobs were displaced, if failures have lost the messages."""
        jobs, attempts = claimant(np.array(claims, np.int64))
        for job, attempt in zip(jobs.tolist(), attempts.tolist(), strict=True):
            self.of.search_anew(job, attempt)

    def broken(self, jobs: list[int]) -> None:
        """Let scheduling nodes start jobs again that are now known to have lost a machine."""
        for job in jobs:
            if self.missed_at.get(job) == self.engine.now:
                del self.missed_at[job]
                self.of.start_again(job)
