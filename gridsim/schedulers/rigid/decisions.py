"""Records of the decisions of the central queue, derived from its runs after the end.

The rules are those of `gridcore.rigid_queue.batch_queue`, which names their sources.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from typing import Any

from gridsim.results.decisions import Decisions, DecisionTexts
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

#: Texts of the decisions of `BatchQueue`.
WORDS: DecisionTexts = {
    "queued": (
        "put it in the queue, now of {among} jobs, behind {saw:.0f}; application {limit:.0f} was the head",
        "jobs before it:",
        "",
    ),
    "started": ("started {tasks} tasks from the head of the queue, of {among} jobs", "machines free:", ""),
    "reserved": (
        "gave it, now the head of the queue, of {among} jobs, a reservation, as it did not fit",
        "a start at",
        "s",
    ),
    "blocked": (
        "let it, now the head of the queue, of {among} jobs, and all others wait, as it did not fit",
        "machines free:",
        "",
    ),
    "started-short": (
        "started {tasks} tasks ahead of the head of the queue, of {among} jobs: they end before its turn",
        "an end at",
        "s",
    ),
    "started-narrow": (
        "started {tasks} tasks ahead of the head of the queue, of {among} jobs: its reservation leaves room",
        "machines wanted:",
        "",
    ),
    "started-by-order": (
        "started {tasks} tasks when its turn had come, or ahead of it",
        "it had waited",
        "s",
    ),
    "lost": ("lost a machine of it and put all {tasks} tasks back to their place in the queue", "", ""),
}


def record_starts(decisions: Decisions, release: Integers, tasks: Integers, runs: Integers) -> None:
    """Record the start of each run, for a queue whose order and reservations `Replay` does not know.

    Parameters
    ----------
    release, tasks
        Release (ns) and machines of each job, int64[jobs].
    runs
        Job, start, end (ns) and completed (0 or 1) of each run, sorted by start and job, int64[4, k].
    """
    for job, start, _, _ in runs.T.tolist():
        wait = (start - int(release[job])) / NS
        decisions.record(
            "started-by-order",
            time=start,
            application=job,
            decider=-1,
            tasks=int(tasks[job]),
            saw=wait,
            true=wait,
            age=0.0,
        )


class Replay:
    """A replay of the queue that derives its decisions from the runs and adds them to `decisions`.

    Runs that were interrupted at the instant of their start are left out.

    Parameters
    ----------
    machines
        Number of machines that are up at the start.
    easy
        Whether the queue backfills.
    release, estimate, tasks
        Release (ns), estimated run time (ns) and machines of each job, int64[jobs].
    runs
        Job, start, end (ns) and completed (0 or 1) of each run, sorted by start and job, int64[4, k].
    up
        Time (ns) -> number of machines that are up from then on.
    """

    def __init__(
        self,
        decisions: Decisions,
        *,
        machines: int,
        easy: bool,
        release: Integers,
        estimate: Integers,
        tasks: Integers,
        runs: Integers,
        up: dict[int, int],
    ) -> None:
        self.decisions, self.up, self.easy = decisions, machines, easy
        self.estimate: list[int] = estimate.tolist()
        self.tasks: list[int] = tasks.tolist()
        self.waiting: list[int] = []
        #: Running job -> its estimated and its true end, ns.
        self.running: dict[int, tuple[int, int]] = {}
        self.blocked: set[int] = set()  # jobs that did not fit as the head of the queue
        starts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
        releases: dict[int, list[int]] = defaultdict(list)
        for job, at in enumerate(release.tolist()):
            releases[at].append(job)
        for job, start, end, completed in runs.T.tolist():
            starts[start].append((job, end))
            ends[end].append((job, completed))
        for now in sorted({*releases, *starts, *ends, *up}):
            self.up = up.get(now, self.up)
            for job, completed in ends[now]:
                self._end(job, completed, now)
            for job in releases[now]:
                insort(self.waiting, job)
            self._start(starts[now], now)
            for job in releases[now]:
                if (position := bisect_left(self.waiting, job)) and job not in self.running:
                    self.record("queued", job, now, saw=position, limit=self.waiting[0], true=position)

    def _end(self, job: int, completed: int, now: int) -> None:
        del self.running[job]
        if not completed:
            insort(self.waiting, job)
            self.record("lost", job, now)

    def _start(self, jobs: list[tuple[int, int]], now: int) -> None:
        """Start `jobs` (job, end): first the head of the queue, then the jobs that overtake it."""
        pending = list(jobs)
        while pending and pending[0][0] == self.waiting[0]:
            job, end = pending.pop(0)
            free = self._free()
            self.record("started", job, now, saw=free, limit=self.tasks[job], true=free)
            self._begin(job, end, now)
        if not self.waiting or not (pending or self.waiting[0] not in self.blocked):
            return
        head = self.waiting[0]
        shadow_time, spare_machines = self._reservation(
            head, [max(end, now) for end, _ in self.running.values()]
        )
        if head not in self.blocked:
            self.blocked.add(head)
            self._record_blocking(head, shadow_time, now)
        for job, end in pending:
            expected = now + self.estimate[job]
            if expected <= shadow_time:
                self.record(
                    "started-short", job, now, saw=expected / NS, limit=shadow_time / NS, true=end / NS
                )
            else:
                machines = self.tasks[job]
                self.record("started-narrow", job, now, saw=machines, limit=spare_machines, true=machines)
                spare_machines -= machines
            self._begin(job, end, now)

    def _record_blocking(self, head: int, shadow_time: float, now: int) -> None:
        if self.easy:
            true_start, _ = self._reservation(head, [end for _, end in self.running.values()])
            self.record("reserved", head, now, saw=shadow_time / NS, true=true_start / NS)
        else:
            free = self._free()
            self.record("blocked", head, now, saw=free, limit=self.tasks[head], true=free)

    def _begin(self, job: int, end: int, now: int) -> None:
        self.waiting.remove(job)
        self.running[job] = now + self.estimate[job], end

    def _free(self) -> int:
        return self.up - sum(self.tasks[job] for job in self.running)

    def _reservation(self, head: int, ends: list[int]) -> tuple[float, float]:
        """Return the first instant at which `head` fits, ns, and the number of machines left free then.

        Both are inf if `head` never fits.

        Parameters
        ----------
        ends
            End of each running job, ns.
        """
        free = self._free() - self.tasks[head]
        rows = sorted(zip(ends, self.running, strict=True))
        for k, (end, job) in enumerate(rows):
            free += self.tasks[job]
            if free >= 0 and (k + 1 == len(rows) or rows[k + 1][0] > end):
                return end, free
        return float("inf"), float("inf")

    def record(self, action: str, job: int, now: int, **columns: Any) -> None:
        """Record a decision; its age is 0, since the scheduler sees the state at that instant."""
        self.decisions.record(
            action,
            time=now,
            application=job,
            decider=-1,
            tasks=self.tasks[job],
            among=len(self.waiting),
            age=0.0,
            **columns,
        )
