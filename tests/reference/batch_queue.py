"""Reference implementation of `gridcore.rigid_queue.batch_queue`; it examines the whole queue each time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["JobQueue"]

LAST = 2**62
#: By how much a prediction that a job outlives grows, ns: one after the other, then by the last.
INCREMENTS = [60 * minutes * 10**9 for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)]


class JobQueue:
    """Reference implementation of `gridcore.rigid_queue.batch_queue.JobQueue`."""

    def __init__(
        self,
        machines: int,
        nodes: ArrayLike,
        run: ArrayLike,
        estimate: ArrayLike,
        *,
        depth: int = 1,
        conservative: bool = False,
        concrete: bool = False,
        ranks: ArrayLike | None = None,
        order: str | None = None,
        weights: Any = None,
        predicted: bool = False,
        users: ArrayLike | None = None,
        limit: int = 0,
        queues: ArrayLike | None = None,
        queue_limits: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        partition: ArrayLike | None = None,
        releases: Any = None,
        log: bool = False,
    ) -> None:
        self.machines, self.depth, self.log = int(machines), depth, log
        self._conservative, self._concrete, self._order, self._limit = conservative, concrete, order, limit
        self._nodes = integers(nodes)
        self._run = integers(run)
        self._estimate = integers(estimate)
        self.jobs = len(self._nodes)
        self._stated, self._predicted, self._weights = list(self._estimate), predicted, weights
        self._ranks = [0] * self.jobs if ranks is None else integers(ranks)
        self._releases = releases
        self._user = [0] * self.jobs if users is None else integers(users)
        self._queue_of = [0] * self.jobs if queues is None else integers(queues)
        self._queue_limits = None if queue_limits is None else integers(queue_limits)
        self._sizes = [self.machines] if sizes is None else integers(sizes)
        self._partition = [0] * self.jobs if partition is None else integers(partition)
        self._examined = 0  # the partition that is examined
        self._used, self._used_at = [0.0] * (max(self._user, default=-1) + 1), 0
        self._ended: dict[int, list[int]] = {}  # the run times of the jobs of each user that have ended
        self._corrections = [0] * self.jobs
        self._submitted: dict[int, int] = {}
        # reserved starts, and jobs that wait for jobs that exceed their estimates
        self._reserved: dict[int, int] = {}
        self._waits_for_end: set[int] = set()
        self._early: set[int] = set()  # the partitions in which a job has ended early
        self.now = 0
        self._coming: list[tuple[int, int]] = []  # (instant, job) of submissions that are still to come
        self._last = (0, -1)  # instant and job of the last submission
        self._waiting: set[int] = set()
        self._machines_of: dict[int, list[int]] = {}  # the machines of each running job
        self._down: set[int] = set()
        self._must_examine = self._must_examine_all = False
        self._first_start, self._start, self._finish = ([-1] * self.jobs for _ in range(3))
        self._cut = [0] * self.jobs
        self._busy, self._done, self._interrupted = ([0] * self.machines for _ in range(3))
        self._log: list[tuple[int, int, int, int, int]] = []

    def next_end(self) -> int:
        return min((self._end(job) for job in self._machines_of), default=NEVER)

    def totals(self) -> dict[str, Integers]:
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
        start, job, machine, end, completed = np.array(sorted(self._log), np.int64).reshape(-1, 5).T.copy()
        return machine, job, start, end, completed

    # -- events -------------------------------------------------------------------------------------------

    def submit(self, jobs: ArrayLike, now: ArrayLike) -> None:
        ids = integers(jobs)
        at = [int(now)] * len(ids) if isinstance(now, int | np.integer) else integers(now)
        self._coming += zip(at, ids, strict=True)
        self._last = max([self._last, *self._coming])

    def run(self, until: int) -> int:
        while until >= self.now:
            due = [
                self.next_end(),
                *(at for at, _ in self._coming),
                *([] if self._releases is None else [self._releases.next_release()]),
                *([self.now] if self._must_examine else []),
                *(start for job, start in self._reserved.items() if job not in self._waits_for_end),
                *(self._start[job] + self._estimate[job] for job in self._correctable()),
            ]
            if min(due) > until or min(due) == NEVER:
                self.now = until
                break
            self.now = min(due)
            for job in sorted(self._machines_of, key=lambda job: (self._submitted[job], job)):
                if self._end(job) == self.now:
                    self._leave(job, 1)
                    self._finish[job] = self.now
                    self._ended.setdefault(self._user[job], []).append(self._run[job])
                    if self._run[job] < self._estimate[job]:
                        self._early.add(self._partition[job])
                    if self._releases is not None:
                        self._releases.end([job], self.now)
            self._correct()
            if self._releases is not None:
                self._coming = [(self.now, job) for job in self._releases.take(self.now)]
            for job in (job for at, job in self._coming if at == self.now):
                self._waiting.add(job)
                self._submitted[job] = self.now
                last = self._ended.get(self._user[job], [])[-2:]
                if self._predicted and len(last) == 2:
                    self._estimate[job] = max(1, min(self._stated[job], sum(last) // 2))
            self._coming = [(at, job) for at, job in self._coming if at > self.now]
            # stays set until all jobs of this instant have started
            self._must_examine_all, self._must_examine = self._must_examine, True
            if self._conservative and self._must_examine_all:
                self._reserved.clear()
            for partition in range(len(self._sizes)):
                self._examined = partition
                self._start_all()
            self._must_examine = False
        return sum(finish >= 0 for finish in self._finish)

    def _correctable(self) -> list[int]:
        """Return the running jobs whose predictions may still grow."""
        return [job for job in self._machines_of if self._estimate[job] < self._stated[job]]

    def _correct(self) -> None:
        """Let the predictions grow that are over."""
        for job in self._correctable():
            if self._start[job] + self._estimate[job] <= self.now:
                increment = INCREMENTS[min(self._corrections[job], len(INCREMENTS) - 1)]
                self._corrections[job] += 1
                self._estimate[job] = min(self._estimate[job] + increment, self._stated[job])
                for other in self._waiting:
                    if self._partition[other] == self._partition[job]:
                        self._reserved.pop(other, None)

    def fail(self, machines: ArrayLike, now: int) -> Integers:
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
        recovering = set(integers(machines)) & self._down
        self._down -= recovering
        self._must_examine = self._must_examine or bool(recovering)

    # -- helpers ----------------------------------------------------------------------------------------

    def _free_machines(self) -> list[int]:
        """Return the machines of the partition that are free and up, ascending."""
        in_use = self._down.union(*self._machines_of.values())
        return [u for u in self._own_machines() if u not in in_use]

    def _own_machines(self) -> range:
        """Return the machines of the partition."""
        first = sum(self._sizes[: self._examined])
        return range(first, first + self._sizes[self._examined])

    def _running(self) -> dict[int, list[int]]:
        """Return the running jobs of the partition, with their machines."""
        return {
            job: held for job, held in self._machines_of.items() if self._partition[job] == self._examined
        }

    def _end(self, job: int) -> int:
        return self._start[job] + self._run[job]

    def _queue(self) -> list[int]:
        """Return the waiting jobs of the partition in their order."""
        waiting = (job for job in self._waiting if self._partition[job] == self._examined)
        places = {job: (self._ranks[job], place) for place, job in enumerate(self._submitted)}
        if self._order == "lcfs":
            return sorted(waiting, key=places.__getitem__, reverse=True)
        return sorted(waiting, key=lambda job: (-self._key(job), places[job]))

    def _key(self, job: int) -> float:
        wait, nodes = self.now - self._submitted[job], self._nodes[job]
        if self._order in ("sjf", "saf"):
            return -float(self._estimate[job]) * (nodes if self._order == "saf" else 1)
        if self._order == "f1":
            submitted = max(1.0, self._submitted[job] / 1e9)
            return -(math.log10(self._estimate[job] / 1e9) * nodes + 870.0 * math.log10(submitted))
        if self._order == "wfp":
            return float((wait / self._estimate[job]) ** 3 * nodes)
        if self._order == "unicef":
            return math.inf if nodes == 1 else float(wait / (math.log2(nodes) * self._estimate[job]))
        return 0.0

    def _is_limited(self, job: int) -> bool:
        queue, running = self._queue_of[job], self._machines_of
        if self._queue_limits is not None and self._queue_limits[queue]:
            of_queue = sum(self._nodes[other] for other in running if self._queue_of[other] == queue)
            if of_queue + self._nodes[job] > self._queue_limits[queue]:
                return True
        n_used = sum(self._nodes[j] for j in self._machines_of if self._user[j] == self._user[job])
        return bool(self._limit) and n_used + self._nodes[job] > self._limit

    def _start_all(self) -> None:
        """Start the jobs that start now."""
        if self._conservative:
            self._place_all()
            return
        queue = self._queue()
        left = []
        while queue:
            job = queue.pop(0)
            if self._is_limited(job):
                continue
            if self._nodes[job] > len(self._free_machines()):
                left = [job, *queue]
                break
            self._begin(job)
        if not left or not self.depth:
            return
        if self.depth > 1:
            self._start_by_profile(left)
            return
        shadow, extra = self._reservation(self._nodes[left[0]])
        kept = self._reserved_machines(left[0], shadow) if self._concrete else []
        for job in left[1:]:
            if self._nodes[job] > len(self._free_machines()) or self._is_limited(job):
                continue
            outside = [u for u in self._free_machines() if u not in kept]
            if self.now + self._estimate[job] <= shadow:
                self._begin(job)
            elif self._concrete:
                if self._nodes[job] <= len(outside):
                    self._begin(job, outside)
            elif self._nodes[job] <= extra:
                extra -= self._nodes[job]
                self._begin(job)

    def _reserved_machines(self, head: int, shadow: float) -> list[int]:
        """Return the machines of a concrete reservation."""
        if shadow == math.inf:
            return []
        ends = {job: max(self._start[job] + self._estimate[job], self.now) for job in self._running()}
        free = [
            *self._free_machines(),
            *(u for job, held in self._running().items() if ends[job] <= shadow for u in held),
        ]
        return sorted(free)[: self._nodes[head]]

    def _start_by_profile(self, queue: list[int]) -> None:
        """Reserve machines for the first jobs that do not fit; start other jobs that delay no reservation."""
        self._reserved.clear()
        reservations = 0
        for job in queue:
            if self._is_limited(job):
                continue
            start = self._earliest(job)
            if start == self.now:
                self._begin(job)
            elif reservations < self.depth and start is not None:
                reservations += 1
                self._reserved[job] = start
        self._reserved.clear()

    def _count_used(self, instant: int, left_out: int) -> int:
        """Return the number of machines that are used, reserved or down at an instant, by the estimates."""
        return (
            len(self._down.intersection(self._own_machines()))
            + sum(
                self._nodes[job]
                for job in self._running()
                if instant < max(self._start[job] + self._estimate[job], self.now)
            )
            + sum(
                self._nodes[job]
                for job, start in self._reserved.items()
                if job != left_out
                and self._partition[job] == self._examined
                and start <= instant < start + self._estimate[job]
            )
        )

    def _earliest(self, job: int) -> int | None:
        """Return the earliest start of a job among the running jobs and the reservations of others."""
        self._waits_for_end.discard(job)
        ends = [self._start[other] + self._estimate[other] for other in self._running()]
        reserved = [
            (start, other)
            for other, start in self._reserved.items()
            if other != job and self._partition[other] == self._examined
        ]
        ends += [start + self._estimate[other] for start, other in reserved]
        starts = [start for start, _ in reserved]
        for instant in sorted({self.now, self.now + 1, *(end for end in ends if end > self.now)}):
            last = instant + self._estimate[job]
            instants = [instant, *(each for each in starts if instant < each < last)]
            if any(
                self._count_used(each, job) + self._nodes[job] > self._sizes[self._examined]
                for each in instants
            ):
                continue
            if instant > self.now or self._nodes[job] <= len(self._free_machines()):
                return instant
            if self._conservative:
                fits_next = (
                    self._count_used(self.now + 1, job) + self._nodes[job] <= self._sizes[self._examined]
                )
                is_clear = all(
                    not self.now + 1 < each < self.now + 1 + self._estimate[job] for each in starts
                )
                if fits_next and (is_clear or self._fits(job, self.now + 1, starts)):
                    self._waits_for_end.add(job)
        return None

    def _fits(self, job: int, instant: int, starts: list[int]) -> bool:
        instants = [instant, *(each for each in starts if instant < each < instant + self._estimate[job])]
        return all(
            self._count_used(each, job) + self._nodes[job] <= self._sizes[self._examined] for each in instants
        )

    def _place_all(self) -> None:
        """Make and move reservations, and start the jobs whose reserved start has come."""
        while True:
            compresses = self._examined in self._early
            self._early.discard(self._examined)
            for job in self._queue():
                start = self._reserved.get(job)
                is_moved = (
                    start is not None and start <= self.now and self._nodes[job] > len(self._free_machines())
                )
                if start is None or is_moved or (compresses and start > self.now):
                    waits, sooner = job in self._waits_for_end, self._earliest(job)
                    if start is None or is_moved or sooner is not None and sooner < start:
                        start = sooner
                    elif waits:
                        self._waits_for_end.add(job)
                    else:
                        self._waits_for_end.discard(job)
                    if is_moved:
                        self._early.add(self._examined)
                    self._reserved.pop(job, None)
                    if start is not None:
                        self._reserved[job] = start
                if start is not None and start <= self.now:
                    self._reserved.pop(job, None)
                    self._begin(job)
            if self._examined not in self._early:
                return

    def _reservation(self, need: int) -> tuple[float, float]:
        """Return when `need` machines will be free by the estimates, and how many more are then."""
        ends = {job: max(self._start[job] + self._estimate[job], self.now) for job in self._running()}
        for instant in sorted(set(ends.values())):
            free = len(self._free_machines()) + sum(
                self._nodes[job] for job in self._running() if ends[job] <= instant
            )
            if free >= need:
                return instant, free - need
        return float("inf"), float("inf")

    def _begin(self, job: int, free: list[int] | None = None) -> None:
        if self.now + self._run[job] > LAST:
            raise OverflowError("jobs must end by 2**62 ns")
        self._waiting.remove(job)
        self._machines_of[job] = (self._free_machines() if free is None else free)[: self._nodes[job]]
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
