"""Reference implementation of `gridcore.rigid_queue.backfill`: the whole queue is examined at each event."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["BackfillQueue"]


class BackfillQueue:
    """See `gridcore.rigid_queue.backfill.BackfillQueue`."""

    def __init__(
        self,
        machines: int,
        nodes: ArrayLike,
        run: ArrayLike,
        estimate: ArrayLike,
        *,
        easy: bool = True,
        log: bool = False,
    ) -> None:
        self.machines, self.easy, self.log = int(machines), easy, log
        self._nodes = integers(nodes)
        self._run = integers(run)
        self._estimate = integers(estimate)
        self.jobs = len(self._nodes)
        self.now = 0
        self._coming: list[tuple[int, int]] = []  # instant and job
        self._last = (0, -1)  # instant and job of the last submission
        self._waiting: set[int] = set()
        self._machines_of: dict[int, list[int]] = {}  # the machines of each running job
        self._down: set[int] = set()
        self._must_examine = False
        self._first_start, self._start, self._finish = ([-1] * self.jobs for _ in range(3))
        self._cut = [0] * self.jobs
        self._busy, self._done, self._interrupted = ([0] * self.machines for _ in range(3))
        self._log: list[tuple[int, int, int, int, int]] = []

    def next_end(self) -> int:
        """See the kernel."""
        return min((self._end(job) for job in self._machines_of), default=NEVER)

    def totals(self) -> dict[str, Integers]:
        """See the kernel."""
        columns = {
            "first_start": self._first_start,
            "start": self._start,
            "finish": self._finish,
            "cut": self._cut,
            "busy": self._busy,
            "tasks": self._done,
            "interrupted": self._interrupted,
        }
        return {name: np.array(column, np.int64) for name, column in columns.items()}

    def starts(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """See the kernel."""
        start, job, machine, end, completed = np.array(sorted(self._log), np.int64).reshape(-1, 5).T.copy()
        return machine, job, start, end, completed

    # -- events -------------------------------------------------------------------------------------------

    def submit(self, jobs: ArrayLike, now: ArrayLike) -> None:
        """See the kernel."""
        ids = integers(jobs)
        at = [int(now)] * len(ids) if isinstance(now, int | np.integer) else integers(now)
        self._coming += zip(at, ids, strict=True)
        self._last = max([self._last, *self._coming])

    def run(self, until: int) -> int:
        """See the kernel."""
        while until >= self.now:
            due = [
                self.next_end(),
                *(at for at, _ in self._coming),
                *([self.now] if self._must_examine else []),
            ]
            if min(due) > until or min(due) == NEVER:
                self.now = until
                break
            self.now = min(due)
            for job in sorted(self._machines_of):
                if self._end(job) == self.now:
                    self._leave(job, 1)
                    self._finish[job] = self.now
            self._waiting.update(job for at, job in self._coming if at == self.now)
            self._coming = [(at, job) for at, job in self._coming if at > self.now]
            self._must_examine = True  # until all have started, also after an error
            self._start_all()
            self._must_examine = False
        return sum(finish >= 0 for finish in self._finish)

    def fail(self, machines: ArrayLike, now: int) -> Integers:
        """See the kernel."""
        failing = set(integers(machines)) - self._down
        cut = [job for job in sorted(self._machines_of) if failing & set(self._machines_of[job])]
        for job in cut:
            for u in self._machines_of[job]:
                self._interrupted[u] += 1
            self._leave(job, 0)
            self._cut[job] += 1
            self._waiting.add(job)
        self._down |= failing
        self._must_examine = self._must_examine or bool(failing)
        return np.array(cut, np.int64)

    def restore(self, machines: ArrayLike, now: int) -> None:
        """See the kernel."""
        recovering = set(integers(machines)) & self._down
        self._down -= recovering
        self._must_examine = self._must_examine or bool(recovering)

    # -- helpers ----------------------------------------------------------------------------------------

    def _free(self) -> list[int]:
        """Return the machines that are free and up, ascending."""
        in_use = self._down.union(*self._machines_of.values())
        return [u for u in range(self.machines) if u not in in_use]

    def _end(self, job: int) -> int:
        return self._start[job] + self._run[job]

    def _start_all(self) -> None:
        """Start the jobs that start now."""
        queue = sorted(self._waiting)
        while queue and self._nodes[queue[0]] <= len(self._free()):
            self._begin(queue.pop(0))
        if not queue or not self.easy:
            return
        shadow, extra = self._reservation(self._nodes[queue[0]])
        for job in queue[1:]:
            if self._nodes[job] > len(self._free()):
                continue
            if self.now + self._estimate[job] <= shadow:
                self._begin(job)
            elif self._nodes[job] <= extra:
                extra -= self._nodes[job]
                self._begin(job)

    def _reservation(self, need: int) -> tuple[float, float]:
        """Return when `need` machines will be free by the estimates, and how many more are then."""
        ends = {job: max(self._start[job] + self._estimate[job], self.now) for job in self._machines_of}
        for instant in sorted(set(ends.values())):
            free = len(self._free()) + sum(
                self._nodes[job] for job in self._machines_of if ends[job] <= instant
            )
            if free >= need:
                return instant, free - need
        return float("inf"), float("inf")

    def _begin(self, job: int) -> None:
        self._waiting.remove(job)
        self._machines_of[job] = self._free()[: self._nodes[job]]
        self._start[job] = self.now
        if self._first_start[job] < 0:
            self._first_start[job] = self.now

    def _leave(self, job: int, completed: int) -> None:
        """Free the machines of a job."""
        for u in self._machines_of.pop(job):
            self._busy[u] += self.now - self._start[job]
            self._done[u] += completed
            if self.log and self.now > self._start[job]:
                self._log.append((self._start[job], job, u, self.now, completed))
