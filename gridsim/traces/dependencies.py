"""Jobs of a log that are released after others: those that the log states, or those of the same user."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import Remark, warn_remarks
from gridsim.traces.jobs import JobLog
from gridsim.traces.rigid import RigidJobs


class Predecessors(NamedTuple):
    """The jobs before each job of a workload, in the order of its `RigidJobs`.

    Parameters
    ----------
    predecessors
        int64, the indices of the jobs after which each one is released, job by job.
    predecessor_counts
        int64, the number of these for each job.
    think_time
        float64, s, the time from the last of their ends to the release; 0 for none.
    is_submitted
        bool, whether the submission of the log is the earliest release, since the log states no think time.
    """

    predecessors: NDArray[np.int64]
    predecessor_counts: NDArray[np.int64]
    think_time: NDArray[np.float64]
    is_submitted: NDArray[np.bool_]


def preceding_jobs(log: JobLog, jobs: RigidJobs) -> Predecessors:
    """Return the preceding jobs and think times that a log states.

    A preceding job has no effect if it is not one of `jobs`, was submitted later, or waits for itself; a
    `TraceWarning` has the number of jobs with such a preceding one.
    """
    think, count = log.jobs["think_time"][jobs.row], len(jobs)
    of, preceding = _pairs(log, jobs)
    order = np.argsort(jobs.job, kind="stable")
    place = np.searchsorted(jobs.job[order], preceding, side="right") - 1
    earlier = order[np.maximum(place, 0)]
    is_known = (jobs.job[earlier] == preceding) & (jobs.release[earlier] <= jobs.release[of])
    is_known[is_known] = _can_end(of[is_known], earlier[is_known], count)
    unknown = Remark(
        np.unique(log.jobs["line"][jobs.row][of[~is_known]]),
        "jobs with a preceding job that is not in the workload or submitted later, which has no effect",
    )
    warn_remarks(log.path, [unknown], 4)
    counts = np.bincount(of[is_known], minlength=count)
    follows = counts > 0
    think_time = np.where(follows & (think > 0), think, 0.0)
    return Predecessors(earlier[is_known], counts, think_time, ~follows | (think < 0))


def _can_end(of: NDArray[np.int64], preceding: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return for each pair whether the job `of`, which waits for all jobs `preceding`, can end."""
    if not (preceding >= of).any():
        return np.ones(len(of), np.bool_)
    left = np.bincount(of, minlength=count)
    order = np.argsort(preceding, kind="stable")
    begins, after = np.searchsorted(preceding[order], np.arange(count + 1)), of[order]
    free = np.flatnonzero(left == 0).tolist()
    while free:
        job = free.pop()
        for follower in after[begins[job] : begins[job + 1]].tolist():
            left[follower] -= 1
            if not left[follower]:
                free.append(follower)
    ends: NDArray[np.bool_] = left == 0
    return ends[of]


def _pairs(log: JobLog, jobs: RigidJobs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of a job and the number of a preceding one, for all pairs that a log states."""
    preceding, line = log.jobs["preceding"][jobs.row], log.jobs["line"][jobs.row]
    follows = np.flatnonzero((preceding > 0) | ((preceding == 0) & (jobs.job == 0).any()))
    by_line = np.argsort(line)
    place = np.searchsorted(line[by_line], log.further[:, 0])
    further = by_line[np.minimum(place, len(line) - 1)]
    is_used = line[further] == log.further[:, 0]
    of = np.concatenate((follows, further[is_used]))
    numbers = np.concatenate((preceding[follows], log.further[is_used, 1]))
    order = np.argsort(of, kind="stable")
    return of[order], numbers[order]


def previous_jobs(log: JobLog, jobs: RigidJobs) -> Predecessors:
    """Return for each job the one before of its user, if that had ended when it was submitted.

    The think time is that of the log: from the end of the previous job to the submission.  Jobs of unknown
    users, and those submitted before the previous job of the user had ended, or whose wait is unknown, keep
    their submissions; a `TraceWarning` has their number if the log states no waits.
    """
    count, wait = len(jobs), log.jobs["wait"][jobs.row]
    order = np.lexsort((np.arange(count), jobs.user))
    previous = np.full(count, -1)
    is_next = (jobs.user[order][1:] == jobs.user[order][:-1]) & (jobs.user[order][1:] >= 0)
    previous[order[1:][is_next]] = order[:-1][is_next]
    end = np.where(wait >= 0, jobs.release + wait + jobs.run_time, np.inf)
    think = jobs.release - end[previous]
    is_known = (previous >= 0) & (think >= 0)
    if not (wait >= 0).any():
        remark = Remark(log.jobs["line"][jobs.row], "jobs of unknown wait, released at their submissions")
        warn_remarks(log.path, [remark], 4)
    return Predecessors(
        previous[is_known], is_known.astype(np.int64), np.where(is_known, think, 0.0), ~is_known
    )
