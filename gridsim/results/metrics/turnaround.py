"""Time series of the turnaround of jobs in a run, as in the RJSS paper (section 8); times are in s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridsim.results.metrics.formulas import mean, running_mean
from gridsim.results.result import Result
from gridsim.support.arrays import Floats


class Series(NamedTuple):
    """Time series with a value for each time at which a result returns to its submitter.

    Parameters
    ----------
    time
        Times, s.
    mean_turnaround
        G^t, s: mean turnaround of the jobs whose results have returned by that time.
    observation
        U^t, s: the time over the number of jobs submitted so far.  The formula is illegible in the paper;
        this one is inferred from the axes of its plot.
    """

    time: Floats
    mean_turnaround: Floats
    observation: Floats


def series(result: Result) -> Series:
    """Return G^t and U^t of a result.  Raises KeyError if it has no table ``jobs``."""
    jobs, release = result.tables["jobs"], result.applications["release"]
    return_time = release[jobs["application"]] + jobs["turnaround"]
    time, means = running_mean(return_time, jobs["turnaround"])
    submitted = np.searchsorted(release[jobs["application"]], time, side="right")
    return Series(time, means, time / submitted)


def mean_until(result: Result, time: float) -> float:
    """Return G^t at `time` s: the mean turnaround of the jobs whose results have returned; NaN if none."""
    jobs = result.tables["jobs"]
    return_time = result.applications["release"][jobs["application"]] + jobs["turnaround"]
    return mean(jobs["turnaround"][return_time <= time])
