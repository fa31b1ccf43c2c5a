"""Scenarios with added failures: at the instants of events, while jobs run, and while an answer travels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.testing.perturbations import changed_workload

#: Durations of outages (s), one of which is chosen.
_OUTAGES = (0.0, 1.0, 30.0, 700.0)
#: Time (s) by which an outage outlasts the cancellation of a job, if machines recover only after it.
_CANCELLATION_MARGIN = 1.0


def _listed_faults(scenario: Scenario) -> ListedFaults | None:
    """Return the listed failures of a scenario; None if it has none."""
    recipe = None if scenario.faults is None else scenario.faults.recipe
    return recipe if isinstance(recipe, ListedFaults) else None


def failures_at_events(result: Result, horizon: float) -> Iterator[Scenario]:
    """Yield the scenario of a run with one more failure, at the instant of one of the run's events.

    The events are the end of a task and the delivery and sending of a message on the machine that fails;
    until then the run is the same.  The seed of the scenario and the number of events choose the event.

    Parameters
    ----------
    result
        Result of a run with listed failures that has the tables ``schedule`` and ``message_log``.
    horizon
        Maximum duration of an outage, s.
    """
    scenario, schedule, log = result.scenario, result.tables["schedule"], result.tables["message_log"]
    recipe = _listed_faults(scenario)
    if recipe is None:
        return
    down, up = np.array(recipe.down), np.array(recipe.up)
    kinds = (
        (schedule["machine"], schedule["end"]),
        (log["receiver"], log["delivered"]),
        (log["sender"], log["sent"]),
    )
    for machine, time in kinds:
        events = np.flatnonzero((machine >= 0) & (machine < len(result.machines)) & ~np.isnan(time))
        selector = 7 * scenario.seed + len(events)
        for k in events[selector * selector % max(1, len(events)) :][:1]:
            u, at = int(machine[k]), float(time[k])
            recovery = at + min(_OUTAGES[selector % len(_OUTAGES)], horizon)
            is_same_machine = np.array(recipe.machine) == u
            # outages need a gap, since times are rounded to whole ns
            if (is_same_machine & (down <= recovery + 2e-9) & (at <= up + 2e-9)).any():
                continue
            rows = ((*recipe.machine, u), (*recipe.down, at), (*recipe.up, recovery))
            yield dataclasses.replace(scenario, faults=Faults.of(*rows, recipe.reachable))


def failures_during_job(result: Result) -> Iterator[Scenario]:
    """Yield the scenario of a run with a failure of all machines in the middle of a job.

    The job has a deadline, or its user cancels it.  Either the machines recover at once, which may be too
    late for another start of the job, or they recover only after the cancellation.

    Parameters
    ----------
    result
        Result of a run with listed failures that has the table ``schedule``.
    """
    scenario, schedule = result.scenario, result.tables["schedule"]
    recipe = _listed_faults(scenario)
    if recipe is None or not isinstance(scenario.workload.recipe, JobListRecipe):
        return
    jobs = scenario.workload.realize(scenario.platform)
    infinite = np.full(len(jobs), np.inf)
    cancel_at = (infinite if jobs.cancel_at is None else jobs.cancel_at)[schedule["application"]]
    deadline = (infinite if jobs.deadline is None else jobs.deadline)[schedule["application"]]
    has_limit = np.isfinite(np.minimum(cancel_at, deadline))
    rows = np.flatnonzero(has_limit & (schedule["start"] < schedule["end"]))
    if not len(rows):
        return
    selector = 7 * scenario.seed + len(rows)
    k = rows[selector * selector % len(rows)]
    at = 0.5 * float(schedule["start"][k] + schedule["end"][k])
    recovery = (
        float(cancel_at[k]) + _CANCELLATION_MARGIN if selector % 2 and np.isfinite(cancel_at[k]) else at
    )
    earlier_outages = [row for row in zip(recipe.machine, recipe.down, recipe.up, strict=True) if row[1] < at]
    # outages need a gap, since times are rounded to whole ns
    machines_down = {machine for machine, _, up in earlier_outages if at <= up + 2e-9}
    new_outages = [(u, at, recovery) for u in range(scenario.platform.nodes) if u not in machines_down]
    machine, begin, end = zip(*earlier_outages, *new_outages, strict=True)
    yield dataclasses.replace(scenario, faults=Faults.of(machine, begin, end, recipe.reachable))


def failures_beside_jobs(result: Result) -> Iterator[Scenario]:
    """Yield the scenario of a run with a failure of one machine of a job that shares another machine.

    The other machine stays up, with what the interrupted job has left there and with the job that it shared
    the machine with.  The machine that fails recovers at once.

    Parameters
    ----------
    result
        Result of a run with listed failures that has the table ``schedule``.
    """
    scenario, schedule = result.scenario, result.tables["schedule"]
    recipe = _listed_faults(scenario)
    if recipe is None or not result.rigid:
        return
    machine, job, start, end = (schedule[name] for name in ("machine", "application", "start", "end"))
    candidates = []
    for k in range(len(job)):
        is_beside = (machine == machine[k]) & (job != job[k]) & (start < end[k]) & (end > start[k])
        for other in np.flatnonzero(is_beside)[:1].tolist():
            begin, until = max(start[k], start[other]), min(end[k], end[other])
            failing = machine[(job == job[k]) & (start == start[k]) & (machine != machine[k])]
            failing = np.setdiff1d(failing, machine[(job == job[other]) & (start == start[other])])
            candidates += [(u, 0.5 * float(begin + until)) for u in failing[:1].tolist() if begin < until]
    if not candidates:
        return
    yield from _with_brief_failure(
        scenario, recipe, *candidates[(7 * scenario.seed + len(job)) % len(candidates)]
    )


def failures_before_releases(result: Result) -> Iterator[Scenario]:
    """Yield the scenario of a run with a failure during the last task of an application that others follow.

    The machine recovers at once, so that this task is done again, and the releases are later.

    Parameters
    ----------
    result
        Result of a run with listed failures that has the table ``schedule``.
    """
    scenario, schedule = result.scenario, result.tables["schedule"]
    recipe = _listed_faults(scenario)
    applications = scenario.workload.realize(scenario.platform)
    if recipe is None or applications.predecessors is None:
        return
    candidates = []
    for i in np.unique(applications.predecessors).tolist():
        rows = np.flatnonzero((schedule["application"] == i) & (schedule["end"] > schedule["start"]))
        for k in rows[np.argsort(schedule["end"][rows], kind="stable")][-1:].tolist():
            per_task = (schedule["end"][k] - schedule["start"][k]) / max(1, schedule["tasks"][k])
            candidates.append((int(schedule["machine"][k]), float(schedule["end"][k] - 0.5 * per_task)))
    if candidates:
        selector = 7 * scenario.seed + len(schedule)
        yield from _with_brief_failure(scenario, recipe, *candidates[selector % len(candidates)])


def _with_brief_failure(
    scenario: Scenario, recipe: ListedFaults, machine: int, at: float
) -> Iterator[Scenario]:
    """Yield the scenario with a failure of `machine` at `at` s, unless it is down; it recovers at once."""
    outages = zip(recipe.machine, recipe.down, recipe.up, strict=True)
    # outages need a gap, since times are rounded to whole ns
    if not any(v == machine and down <= at + 2e-9 and at <= up + 2e-9 for v, down, up in outages):
        rows = ((*recipe.machine, machine), (*recipe.down, at), (*recipe.up, at))
        yield dataclasses.replace(scenario, faults=Faults.of(*rows, recipe.reachable))


def repeated_requests(result: Result) -> Iterator[Scenario]:
    """Yield the scenario of a run in which a machine repeats a request while an old answer travels.

    The machine has submitted an application and sent a request.  While the request or its answer travels, the
    machine fails, recovers at once without its memory, and submits another application.  Either the request
    is the first one of the run, or it is about another application after the first answer.  The seed of the
    scenario chooses the machine.

    Parameters
    ----------
    result
        Result of a run with listed failures that has the tables ``schedule`` and ``message_log``.
    """
    scenario, log = result.scenario, result.tables["message_log"]
    recipe = _listed_faults(scenario)
    applications, candidates = scenario.workload.realize(scenario.platform), []
    if recipe is None or applications.rigid:
        return
    submitters, firsts = np.unique(applications.submitter, return_index=True)
    for u, first in zip(submitters.tolist(), firsts.tolist(), strict=True):
        is_request = (
            (log["sender"] == u) & (log["receiver"] != u) & (log["sent"] >= applications.release[first])
        )
        for k in np.flatnonzero(is_request & (log["delivered"] > log["sent"])).tolist():
            is_answer = (log["sender"] == log["receiver"][k]) & (log["receiver"] == u)
            is_answer &= (log["sent"] >= log["delivered"][k]) & ~np.isnan(log["delivered"])
            if is_answer.any():
                answer_time = log["delivered"][is_answer].min()
                candidates.append((first, log["sent"][k], log["delivered"][k] - log["sent"][k], answer_time))
                break
    if not candidates:
        return
    selector = 7 * scenario.seed + len(log)
    first, sent, travel_time, answer_time = candidates[selector % len(candidates)]
    u, second_release = (
        int(applications.submitter[first]),
        [answer_time + travel_time / 3] if selector // len(candidates) % 2 else [],
    )
    at = sent + travel_time / 3 + (second_release[0] - applications.release[first] if second_release else 0.0)
    outages = zip(recipe.machine, recipe.down, recipe.up, strict=True)
    if any(v == u and down <= at + 2e-9 and at <= up + 2e-9 for v, down, up in outages):
        return
    release = np.array([*applications.release, *second_release, at + travel_time / 3])
    new_count = len(release) - len(applications)
    rows = np.append(np.arange(len(applications)), new_count * [first])
    tasks, size = applications.tasks[rows], applications.task_size[rows]
    tasks[-new_count:] += np.arange(1, new_count + 1)  # so that an old answer does not match
    workload = changed_workload(applications, scenario.platform, release, tasks, size, rows)
    faults = Faults.of((*recipe.machine, u), (*recipe.down, at), (*recipe.up, at), recipe.reachable)
    yield dataclasses.replace(scenario, workload=workload, faults=faults)
