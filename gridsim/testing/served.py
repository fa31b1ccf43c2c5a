"""Checks that a scheduler of rigid jobs runs every job for which there are machines."""

from __future__ import annotations

import math

import numpy as np

from gridsim.model.applications import Applications, durations
from gridsim.model.faults import ListedFaults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Order
from gridsim.support.arrays import Bools, Integers
from gridsim.support.clock import NS
from gridsim.validation.times import cancelled

#: s that any scheduler needs at most to find machines, if all are free.
_SEARCH = 400.0


def unserved(result: Result, order: Order) -> str | None:
    """Return which rigid job was rejected although enough machines suit it that do not leave; else None.

    All these machines are up at the end, with nothing else to do.  A job with a deadline may be too late,
    unless that is far off and the job has the grid for itself; its user may cancel one: such jobs are
    excused.

    order : that the scheduler promises; where that is "list", one job that never fits holds up all later
        ones, which are excused, too.
    """
    scenario = result.scenario
    jobs = scenario.workload.realize(scenario.platform)
    stays = _stays(scenario)
    suited = [jobs.machines_for(job) for job in range(len(jobs))]
    fit: Integers = np.array([int((stays if these is None else stays & these).sum()) for these in suited])
    rejected = (result.applications["failed"] != 0) & ~cancelled(result)
    if order == "list":
        stuck = rejected & (fit < jobs.tasks)
        rejected &= ~np.maximum.accumulate(stuck)
    if jobs.deadline is not None:
        rejected &= np.isinf(jobs.deadline) | _alone(result, jobs)
    for job in np.flatnonzero(rejected & (fit >= jobs.tasks)).tolist():
        wanted = f"job {job}, which wants {jobs.tasks[job]} machines, was rejected"
        return f"{wanted}, and {fit[job]} that suit it are up at the end"
    return None


def _alone(result: Result, jobs: Applications) -> Bools:
    """Return which jobs have long enough to their deadlines, and the grid for themselves: bool[jobs].

    Until then no machine fails, and no other job is there that is not over.
    """
    assert jobs.deadline is not None and jobs.requested is not None
    if result.scenario.faults is not None:
        return np.zeros(len(jobs), np.bool_)
    finish, begin = result.applications["finish"], jobs.ready
    over = np.where(np.isnan(finish), np.inf, finish)
    among = (jobs.release[None, :] <= jobs.deadline[:, None]) & (over[None, :] >= begin[:, None])
    among &= ~np.eye(len(jobs), dtype=np.bool_)
    lasts = durations(jobs, float(result.scenario.platform.speeds[0])) / NS
    ample = jobs.deadline - begin >= 2.0 * np.maximum(lasts, jobs.requested) + _SEARCH
    alone: Bools = ample & ~among.any(axis=1)
    return alone


def _stays(scenario: Scenario) -> Bools:
    """Return which machines are up after the last failure: bool[machines]."""
    stays = np.ones(scenario.platform.nodes, np.bool_)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        assert isinstance(recipe, ListedFaults)  # as in all scenarios that are drawn
        stays[[u for u, up in zip(recipe.machine, recipe.up, strict=True) if math.isinf(up)]] = False
    return stays
