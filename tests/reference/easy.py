"""Textbook EASY backfilling and first come, first served on identical machines.

Lifka 1995; Mu'alem and Feitelson 2001.  When a job is submitted or ends, jobs start from the
head of the queue while they fit.  A head that does not fit gets a reservation: its shadow time is when enough
running jobs are expected to have ended.  A later job starts if it fits, and is expected to end by the shadow
time or requires no more machines than are left over then.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["starts"]

#: Release, machines, run time and estimate of a job, in any whole unit of time.
Job = tuple[int, int, int, int]


def starts(machines: int, jobs: Sequence[Job], *, backfill: bool = True) -> list[int]:
    """Return when each of `jobs` starts, which are in order of release."""
    start: dict[int, int] = {}
    queue: list[int] = []
    for now in _instants(jobs, start):
        running = [j for j in start if start[j] + jobs[j][2] > now]
        free = machines - sum(jobs[j][1] for j in running)
        queue += [j for j in range(len(jobs)) if jobs[j][0] <= now and j not in start and j not in queue]
        while queue and jobs[queue[0]][1] <= free:
            free -= jobs[queue[0]][1]
            start[queue[0]] = now
            running.append(queue.pop(0))
        if not (queue and backfill):
            continue
        # a job that has outlived its estimate is expected to end now
        ends = sorted((max(now, start[j] + jobs[j][3]), jobs[j][1]) for j in running)
        shadow = next(
            at for at, _ in ends if free + sum(n for end, n in ends if end <= at) >= jobs[queue[0]][1]
        )
        extra = free + sum(n for end, n in ends if end <= shadow) - jobs[queue[0]][1]
        for j in queue[1:]:
            _, n_machines, _, estimate = jobs[j]
            in_time = now + estimate <= shadow
            if n_machines <= free and (in_time or n_machines <= extra):
                free -= n_machines
                extra -= 0 if in_time else n_machines
                start[j] = now
        queue = [j for j in queue if j not in start]
    return [start[j] for j in range(len(jobs))]


def _instants(jobs, start):  # type: ignore[no-untyped-def]
    """Iterate over the instants at which jobs are submitted or end, until all have started."""
    now = -1
    while len(start) < len(jobs):
        instants = [job[0] for job in jobs] + [start[j] + jobs[j][2] for j in start]
        yield (now := min(at for at in instants if at > now))
