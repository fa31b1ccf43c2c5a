"""Metrics of jobs that may move before they run: pure functions on arrays, times in s; and series of a
result.

G^t, U^t and the prediction error are those of the RJSS paper (sections 6.2 and 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.metrics import mean

if TYPE_CHECKING:
    from gridsim.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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


def running_mean(returned: Floats, turnaround: Floats) -> tuple[Floats, Floats]:
    """When results are back, ascending, and the mean turnaround of all until then."""
    order = np.argsort(returned, kind="stable")
    means: Floats = np.cumsum(turnaround[order]) / np.arange(1, len(order) + 1)
    return returned[order], means


def prediction_errors(predicted: Floats, actual: Floats) -> Floats:
    """|predicted - actual| / actual of each job that found a queue; where it found none, that is undefined.

    predicted : wait at the chosen node when it was chosen, s; NaN for jobs that stayed.  actual : the wait
        that was.
    """
    found = ~np.isnan(predicted) & (actual > 0)
    errors: Floats = np.abs(predicted[found] - actual[found]) / actual[found]
    return errors


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
