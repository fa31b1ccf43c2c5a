"""Jobs of a log that are released after others: by the log (fields 17 and 18 of SWF), or for each user."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import Remark, warn_remarks
from gridsim.traces.jobs import JobLog
from gridsim.traces.rigid import RigidJobs


class Predecessors(NamedTuple):
    """The job before each job of a workload, in the order of its `RigidJobs`.

    Parameters
    ----------
    job
        int64, the index of the job after which each one is released; -1 for none.
    think_time
        float64, s, the time from its end to the release; 0 for none.
    is_submitted
        bool, whether the submission of the log is the earliest release, since the log states no think time.
    """

    job: NDArray[np.int64]
    think_time: NDArray[np.float64]
    is_submitted: NDArray[np.bool_]


def preceding_jobs(log: JobLog, jobs: RigidJobs) -> Predecessors:
    """Return the preceding jobs (field 17) and think times (field 18) that a log states.

    A preceding job that is not an earlier one of `jobs` is reported by a `TraceWarning`, and has no effect.
    """
    preceding, think = log.jobs["preceding"][jobs.row], log.jobs["think_time"][jobs.row]
    follows = (preceding > 0) | ((preceding == 0) & (jobs.job == 0).any())
    order = np.argsort(jobs.job, kind="stable")
    place = np.searchsorted(jobs.job[order], preceding, side="right") - 1
    earlier = order[np.maximum(place, 0)]
    is_known = follows & (jobs.job[earlier] == preceding) & (earlier < np.arange(len(jobs)))
    unknown = Remark(
        log.jobs["line"][jobs.row][follows & ~is_known],
        "jobs with a preceding job (field 17) that is not before them in the workload, released at their "
        "submissions",
    )
    warn_remarks(log.path, [unknown], 4)
    return Predecessors(
        np.where(is_known, earlier, -1),
        np.where(is_known & (think > 0), think, 0.0),
        ~is_known | (think < 0),
    )


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
    return Predecessors(np.where(is_known, previous, -1), np.where(is_known, think, 0.0), ~is_known)
