"""Resampling of job logs, so that confidence intervals over seeds hold for the workload, not for one log.

Blocks keep what makes jobs of a log depend on one another: the days of a week and the sessions of a user.

References
----------
D. G. Feitelson, "Resampling with feedback: a new paradigm of using workload data for performance evaluation",
Euro-Par 2016.  N. Zakay and D. G. Feitelson, "Workload resampling for performance evaluation of parallel job
schedulers", Concurrency and Computation: Practice and Experience 26 (2014).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.support.arrays import Floats, Integers

#: The blocks that are drawn.
Blocks = Literal["weeks", "users"]
#: Duration of a week, s.
WEEK = 604_800.0


class Sample(NamedTuple):
    """Jobs that were drawn with replacement, in order of release.

    Parameters
    ----------
    job
        Index of each drawn job: int64[n].
    release
        Its release, s: float64[n].
    user
        The user who submits it, int64[n]: the original one, unless users are drawn; then each drawn user has
        a number of its own.
    """

    job: Integers
    release: Floats
    user: Integers


def resample(blocks: Blocks, release: Floats, user: Integers, random: np.random.Generator) -> Sample:
    """Draw jobs of a log with replacement, in blocks.

    Parameters
    ----------
    blocks
        ``"weeks"``: as many weeks as the log has, of its weeks from the first release on, which are put one
        after another; what is left after the last whole week is left out.  ``"users"``: as many users as the
        log has, with all their jobs; if a user is drawn again, the jobs are shifted by a drawn number of
        whole weeks, and those that pass the last whole week begin again in the first one.
    release
        Release of each job, s.
    user
        User of each job; -1 if unknown, which counts as one user.
    random
        Generator of the draw.

    Raises
    ------
    ScenarioError
        If the log has fewer than two of the blocks.
    """
    since = release - release.min()
    weeks = int(since.max() // WEEK)
    if blocks == "weeks":
        if weeks < 2:
            raise ScenarioError(
                'workload.resample = "weeks" requires a log of at least 2 weeks, got '
                f'{np.floor(since.max() / WEEK * 100) / 100:g} weeks; "users" has no such limit'
            )
        return _draw_weeks(since, user, weeks, random)
    if len(np.unique(user)) < 2:
        raise ScenarioError('workload.resample = "users" requires a log of at least 2 users, got 1')
    return _draw_users(since, user, weeks, random)


def _draw_weeks(since: Floats, user: Integers, weeks: int, random: np.random.Generator) -> Sample:
    week = (since // WEEK).astype(np.int64)
    of_week = _members(week, weeks)
    blocks = random.integers(weeks, size=weeks).tolist()
    job = np.concatenate([of_week[block] for block in blocks])
    shift = np.concatenate(
        [np.full(len(of_week[block]), (place - block) * WEEK) for place, block in enumerate(blocks)]
    )
    return _in_order(job, since[job] + shift, user[job])


def _draw_users(since: Floats, user: Integers, weeks: int, random: np.random.Generator) -> Sample:
    numbers, of_job = np.unique(user, return_inverse=True)
    of_user = _members(of_job, len(numbers))
    blocks = random.integers(len(numbers), size=len(numbers)).tolist()
    shifts = random.integers(max(1, weeks), size=len(numbers))
    is_again = np.ones(len(blocks), np.bool_)
    is_again[np.unique(blocks, return_index=True)[1]] = False
    shifts = np.where(is_again, shifts, 0).tolist()
    job = np.concatenate([of_user[block] for block in blocks])
    release = np.concatenate(
        [_shift_weeks(since[of_user[block]], by, weeks) for block, by in zip(blocks, shifts, strict=True)]
    )
    new_user = np.concatenate([np.full(len(of_user[block]), place) for place, block in enumerate(blocks)])
    return _in_order(job, release, new_user)


def _shift_weeks(since: Floats, by: int, weeks: int) -> Floats:
    """Return releases shifted cyclically by whole weeks; releases after the last whole week are unchanged."""
    week = since // WEEK
    releases: Floats = np.where(week < weeks, since + ((week + by) % max(1, weeks) - week) * WEEK, since)
    return releases


def _members(block: Integers, count: int) -> list[Integers]:
    """Return the jobs of each block, in order."""
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(count + 1))
    return [order[ends[k] : ends[k + 1]] for k in range(count)]


def _in_order(job: Integers, release: Floats, user: Integers) -> Sample:
    order = np.argsort(release, kind="stable")
    return Sample(job[order], release[order], user[order])
