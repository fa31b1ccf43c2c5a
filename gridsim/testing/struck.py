"""Makes machines fail at the very instants at which something happens to them, and while jobs run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result

#: s that a machine is down, by turns.
_OUTAGES = (0.0, 1.0, 30.0, 700.0)
#: s from the cancellation of a job to the end of an outage that goes on until then.
_AFTER = 1.0


def struck(result: Result) -> Iterator[Scenario]:
    """Iterate over the scenario of a run with one more failure, at the instant of one of the run's events.

    The events are the end of a task, the delivery of a message and the sending of one, on the machine that
    fails; until then the run is the same.  Which ones they are depends on the seed of the scenario and the
    number of events.

    result : of a run with listed failures that has the tables ``schedule`` and ``message_log``.
    """
    scenario, ran, log = result.scenario, result.tables["schedule"], result.tables["message_log"]
    recipe = scenario.faults.recipe if scenario.faults is not None else None
    if not isinstance(recipe, ListedFaults):
        return
    down, up = np.array(recipe.down), np.array(recipe.up)
    kinds = (ran["machine"], ran["end"]), (log["receiver"], log["delivered"]), (log["sender"], log["sent"])
    for machine, time in kinds:
        events = np.flatnonzero((machine >= 0) & (machine < len(result.machines)) & ~np.isnan(time))
        turn = 7 * scenario.seed + len(events)
        for k in events[turn * turn % max(1, len(events)) :][:1]:
            u, at = int(machine[k]), float(time[k])
            last = at + _OUTAGES[turn % len(_OUTAGES)]
            mine = np.array(recipe.machine) == u
            if (mine & (down <= last + 2e-9) & (at <= up + 2e-9)).any():  # times are rounded to whole ns
                continue
            rows = ((*recipe.machine, u), (*recipe.down, at), (*recipe.up, last))
            yield dataclasses.replace(scenario, faults=Faults.of(*rows, recipe.reachable))


def cut_off(result: Result) -> Iterator[Scenario]:
    """Iterate over the scenario of a run in which all machines fail in the middle of what a job runs.

    The job has a deadline, or its user cancels it.  By turns the machines are back at once, when it may be
    too late for another start, or only after that cancellation, for which the job then waits.

    result : of a run with listed failures that has the table ``schedule``; there is none without such jobs.
    """
    scenario, ran = result.scenario, result.tables["schedule"]
    listed = scenario.faults.recipe if scenario.faults is not None else None
    if not isinstance(listed, ListedFaults) or not isinstance(scenario.workload.recipe, JobListRecipe):
        return
    jobs = scenario.workload.realize(scenario.platform)
    never = np.full(len(jobs), np.inf)
    cancel_at = (never if jobs.cancel_at is None else jobs.cancel_at)[ran["application"]]
    deadline = (never if jobs.deadline is None else jobs.deadline)[ran["application"]]
    states = np.isfinite(np.minimum(cancel_at, deadline))
    rows = np.flatnonzero(states & (ran["start"] < ran["end"]))
    if not len(rows):
        return
    turn = 7 * scenario.seed + len(rows)
    k = rows[turn * turn % len(rows)]
    at = 0.5 * float(ran["start"][k] + ran["end"][k])
    back = float(cancel_at[k]) + _AFTER if turn % 2 and np.isfinite(cancel_at[k]) else at
    before = [row for row in zip(listed.machine, listed.down, listed.up, strict=True) if row[1] < at]
    down = {machine for machine, _, up in before if at <= up + 2e-9}  # times are rounded to whole ns
    struck_now = [(u, at, back) for u in range(scenario.platform.nodes) if u not in down]
    machine, begin, end = zip(*before, *struck_now, strict=True)
    yield dataclasses.replace(scenario, faults=Faults.of(machine, begin, end, listed.reachable))
