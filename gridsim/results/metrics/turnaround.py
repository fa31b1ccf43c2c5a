"""How the turnaround of jobs goes on during a run: the series of the RJSS paper (section 8), times in s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridsim.results.metrics.formulas import mean, running_mean
from gridsim.results.result import Result
from gridsim.support.arrays import Floats


class Series(NamedTuple):
    """How a run goes on, a row each time that a result is back at its submitter.

    time : s.
    mean_turnaround : s, G^t: of all jobs whose results are back by then.
    observation : s, U^t: the time over the number of jobs submitted so far.  The paper's formula is damaged;
        this is inferred from its axes.
    """

    time: Floats
    mean_turnaround: Floats
    observation: Floats


def series(result: Result) -> Series:
    """G^t and U^t of a result that has the table ``jobs``.  KeyError if it has none."""
    jobs, release = result.tables["jobs"], result.applications["release"]
    returned = release[jobs["application"]] + jobs["turnaround"]
    time, means = running_mean(returned, jobs["turnaround"])
    submitted = np.searchsorted(release[jobs["application"]], time, side="right")
    return Series(time, means, time / submitted)


def mean_until(result: Result, time: float) -> float:
    """G^t at `time` s: mean turnaround of the jobs whose results were back by then; NaN if none was."""
    jobs = result.tables["jobs"]
    returned = result.applications["release"][jobs["application"]] + jobs["turnaround"]
    return mean(jobs["turnaround"][returned <= time])
