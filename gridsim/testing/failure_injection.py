"""Makes machines fail at the instants of events, while jobs run, and while an answer is on its way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.testing.perturbations import changed_workload

#: s that a machine is down, by turns.
_OUTAGES = (0.0, 1.0, 30.0, 700.0)
#: s from the cancellation of a job to the end of an outage that goes on until then.
_AFTER = 1.0


def struck(result: Result) -> Iterator[Scenario]:
    """Iterate over the scenario of a run with one more failure, at the instant of one of the run's events.

    The events are the end of a task, the delivery of a message and the sending of one, on the machine that
    fails; until then the run is the same.  Which ones they are depends on the seed of the scenario and the
    number of events.

    Parameters
    ----------
    result
        Of a run with listed failures that has the tables ``schedule`` and ``message_log``.
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

    Parameters
    ----------
    result
        Of a run with listed failures that has the table ``schedule``; there is none without such jobs.
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


def asked_anew(result: Result) -> Iterator[Scenario]:
    """Iterate over the scenario of a run in which a machine asks again while an old answer is on its way.

    The machine has submitted an application and sent a message, which is answered.  While that is on its way
    it fails, is back at once and has forgotten what it asked; then another application is submitted there.
    By turns that message is the first one of the run, or one about another application after the first
    answer has come.  Which machine it is depends on the seed of the scenario.

    Parameters
    ----------
    result
        As of `struck`.
    """
    scenario, log = result.scenario, result.tables["message_log"]
    listed = scenario.faults.recipe if scenario.faults is not None else None
    applications, found = scenario.workload.realize(scenario.platform), []
    if not isinstance(listed, ListedFaults) or applications.rigid:
        return
    submitters, firsts = np.unique(applications.submitter, return_index=True)
    for u, first in zip(submitters.tolist(), firsts.tolist(), strict=True):
        asked = (log["sender"] == u) & (log["receiver"] != u) & (log["sent"] >= applications.release[first])
        for k in np.flatnonzero(asked & (log["delivered"] > log["sent"])).tolist():
            answers = (log["sender"] == log["receiver"][k]) & (log["receiver"] == u)
            answers &= (log["sent"] >= log["delivered"][k]) & ~np.isnan(log["delivered"])
            if answers.any():
                answered = log["delivered"][answers].min()
                found.append((first, log["sent"][k], log["delivered"][k] - log["sent"][k], answered))
                break
    if not found:
        return
    turn = 7 * scenario.seed + len(log)
    first, sent, way, answered = found[turn % len(found)]
    u, later = int(applications.submitter[first]), [answered + way / 3] if turn // len(found) % 2 else []
    at = sent + way / 3 + (later[0] - applications.release[first] if later else 0.0)
    outages = zip(listed.machine, listed.down, listed.up, strict=True)
    if any(v == u and down <= at + 2e-9 and at <= up + 2e-9 for v, down, up in outages):
        return
    release = np.array([*applications.release, *later, at + way / 3])
    more = len(release) - len(applications)
    rows = np.append(np.arange(len(applications)), more * [first])
    tasks, size = applications.tasks[rows], applications.task_size[rows]
    tasks[-more:] += np.arange(1, more + 1)  # so that no old answer fits
    workload = changed_workload(applications, scenario.platform, release, tasks, size, rows)
    faults = Faults.of((*listed.machine, u), (*listed.down, at), (*listed.up, at), listed.reachable)
    yield dataclasses.replace(scenario, workload=workload, faults=faults)
