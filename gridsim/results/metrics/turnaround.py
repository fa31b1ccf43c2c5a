"""The turnaround of jobs over the course of a run: the series of the RJSS paper (section 8), times in s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridsim.results.metrics.formulas import mean, running_mean
from gridsim.results.result import Result
from gridsim.support.arrays import Floats


class Series(NamedTuple):
    """Columns with a value for each time at which a result is back at its submitter.

    Parameters
    ----------
    time
        s.
    mean_turnaround
        s, G^t: mean over all jobs whose results are back by then.
    observation
        s, U^t: the time over the number of jobs submitted so far.  The formula is damaged in the paper; this
        one is inferred from the axes of its plot.
    """

    time: Floats
    mean_turnaround: Floats
    observation: Floats


def series(result: Result) -> Series:
    """Return G^t and U^t of a result with the table ``jobs``.  Raises KeyError if it has no such table."""
    jobs, release = result.tables["jobs"], result.applications["release"]
    returned = release[jobs["application"]] + jobs["turnaround"]
    time, means = running_mean(returned, jobs["turnaround"])
    submitted = np.searchsorted(release[jobs["application"]], time, side="right")
    return Series(time, means, time / submitted)


def mean_until(result: Result, time: float) -> float:
    """Return G^t at `time` s: mean turnaround of the jobs whose results were back; NaN if none was."""
    jobs = result.tables["jobs"]
    returned = result.applications["release"][jobs["application"]] + jobs["turnaround"]
    return mean(jobs["turnaround"][returned <= time])
