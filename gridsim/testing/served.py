"""Checks that a scheduler of rigid jobs runs every job for which there are machines."""

from __future__ import annotations

import math

import numpy as np

from gridsim.model.faults import ListedFaults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Order
from gridsim.support.arrays import Bools, Integers
from gridsim.validation.times import cancelled


def unserved(result: Result, order: Order) -> str | None:
    """Return which rigid job was rejected although enough machines suit it that do not leave; else None.

    All these machines are up at the end, with nothing else to do.  A job with a deadline may be too late, and
    its user may cancel one: such jobs are excused.

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
        rejected &= np.isinf(jobs.deadline)
    for job in np.flatnonzero(rejected & (fit >= jobs.tasks)).tolist():
        wanted = f"job {job}, which wants {jobs.tasks[job]} machines, was rejected"
        return f"{wanted}, and {fit[job]} that suit it are up at the end"
    return None


def _stays(scenario: Scenario) -> Bools:
    """Return which machines are up after the last failure: bool[machines]."""
    stays = np.ones(scenario.platform.nodes, np.bool_)
    if scenario.faults is not None:
        recipe = scenario.faults.recipe
        assert isinstance(recipe, ListedFaults)  # as in all scenarios that are drawn
        stays[[u for u, up in zip(recipe.machine, recipe.up, strict=True) if math.isinf(up)]] = False
    return stays
