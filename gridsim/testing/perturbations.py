"""Scenarios with one change: of the applications, the speed or the failures of one machine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.model.applications import JOB_TIMES, Applications
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import nanoseconds

#: Maximum number of applications that are changed, each in its own scenario.
_MAX_CHANGED_APPLICATIONS = 4
#: Number of the busiest machines, whose applications are all changed.
_BUSIEST_MACHINES = 3
#: Mean number of tasks above which the tasks of applications are reduced instead of multiplied.
_MANY_TASKS = 10
#: Time (s) of failures and recoveries that no run reaches.
UNREACHED_TIME = 1e6
#: Argument `turn` of `change_application` that delays the release of an application.
_RELEASE_TURN = 1


def has_only_owner_events(scheduler: Scheduler) -> bool:
    """Return whether `scheduler` supports owner absences but no failures."""
    return scheduler.owners and not scheduler.failures


def release_machines(scheduler: Scheduler, machines: int) -> Integers:
    """Return the machine whose node handles the releases at each machine of a platform, int64[machines]."""
    if not isinstance(scheduler, NodeScheduler):
        return np.arange(machines)
    layout = scheduler.layout(machines)
    return np.asarray(layout.machine_of)[layout.submission_nodes[:machines]]


@dataclass(frozen=True)
class Change:
    """A changed scenario, with a description of the change.

    Parameters
    ----------
    text
        The change in words.
    machine
        The changed machine.
    since
        The time (ns) of the change.
    fails
        Whether the change is a failure of the machine.
    known_by_all
        Whether all machines know of the change at once, but none before.
    down
        A machine that is down throughout; another machine sends messages on its behalf.
    missing
        The omitted applications; later ones have lower numbers.
    """

    scenario: Scenario
    text: str
    machine: int
    since: int
    fails: bool = False
    known_by_all: bool = False
    down: int | None = None
    missing: tuple[int, ...] = ()


def all_changes(
    base_scenario: Scenario, applications: Applications, scheduler: Scheduler
) -> Iterator[Change]:
    """Iterate over changes of one machine each: of early or late applications, or of its speed."""
    releases_at = release_machines(scheduler, base_scenario.platform.nodes)
    for change in _changes_of_submitters(base_scenario, applications, scheduler):
        yield dataclasses.replace(change, machine=int(releases_at[change.machine]))
    if not scheduler.speeds_known:
        yield from _changes_of_speed(base_scenario, applications)


def _changes_of_submitters(
    base_scenario: Scenario, applications: Applications, scheduler: Scheduler
) -> Iterator[Change]:
    count, platform, seed = len(applications), base_scenario.platform, base_scenario.seed
    # the applications that are changed: the first, the last, and some in between
    indices = sorted(
        {k * (count - 1) // (_MAX_CHANGED_APPLICATIONS - 1) for k in range(_MAX_CHANGED_APPLICATIONS)}
    )
    # if nodes know numbers of tasks, another number of tasks would renumber, and so change, all later ones
    has_fixed_tasks = scheduler.numbers_known and applications.requested is None
    for i, turn in [*((i, i + seed) for i in indices), *((i, _RELEASE_TURN) for i in indices[-2:])]:
        v, at = int(applications.submitter[i]), int(applications.release_ns[i])
        workload, text = change_application(applications, i, platform, turn, has_fixed_tasks)
        yield Change(dataclasses.replace(base_scenario, workload=workload), text, v, at)
    if applications.requested is None and not has_fixed_tasks:
        submitters, firsts = np.unique(applications.submitter, return_index=True)
        busiest = np.argsort(-np.bincount(applications.submitter)[submitters], kind="stable")[
            :_BUSIEST_MACHINES
        ]
        for i in sorted({indices[seed % len(indices)], *firsts[busiest].tolist()}):
            yield _with_other_load(applications, i, base_scenario)
    if count > 1 and not scheduler.numbers_known and applications.predecessors is None:
        before_busy = _applications_before_busy(applications, platform)
        for removed in {(indices[(seed + 1) % len(indices)],), (count - 1,), before_busy} - {()}:
            change = _without_applications(applications, removed, base_scenario)
            other_applications = change.scenario.workload.realize(platform)
            # nodes know the axes of summaries before the run, so these must not change
            axes = [(item.moves_data, item.group is None) for item in (applications, other_applications)]
            if axes[0] == axes[1]:
                yield change
    if applications.cancel_at is not None:
        yield _without_cancellation(applications, base_scenario)


def _changes_of_speed(base_scenario: Scenario, applications: Applications) -> Iterator[Change]:
    platform, seed = base_scenario.platform, base_scenario.seed
    names = ("release", "tasks", "task_size")
    workload = changed_workload(
        applications, platform, **{name: getattr(applications, name) for name in names}
    )
    # prefer machines that submit nothing: they may fail to send news of their longer queues
    idle_machines = [u for u in range(platform.nodes) if u not in applications.submitter]
    slowed = idle_machines[:: max(1, len(idle_machines) // 2)] or [int(applications.submitter[-1])]
    for v, factor in [(seed % platform.nodes, 1.5), *((u, 0.1) for u in slowed[:2])]:
        speeds = platform.speeds.copy()
        speeds[v] *= factor
        new_platform = Platform.of(speeds.tolist()).with_attributes(platform.recipe.attributes)
        if platform.bandwidth is not None:
            new_platform = new_platform.linked(platform.bandwidth)
        scenario = dataclasses.replace(base_scenario, platform=new_platform, workload=workload)
        yield Change(scenario, f"machine {v} is {factor:g} times as fast", v, 0)


def _with_other_load(applications: Applications, i: int, base_scenario: Scenario) -> Change:
    """Return the change by which one machine submits far fewer or far more tasks from application i on.

    If its applications have many tasks, they get one task each, else `_MANY_TASKS` times as many.
    """
    v, tasks = int(applications.submitter[i]), applications.tasks.copy()
    rows = np.flatnonzero(applications.submitter == v)
    rows = rows[rows >= i]
    has_many_tasks = tasks[rows].mean() > _MANY_TASKS
    tasks[rows] = 1 if has_many_tasks else tasks[rows] * _MANY_TASKS
    columns = (applications.release, tasks, applications.task_size)
    workload = changed_workload(applications, base_scenario.platform, *columns)
    load = "one task each" if has_many_tasks else f"{_MANY_TASKS} times as many tasks"
    text = f"applications of machine {v} from {i} on have {load}"
    return Change(
        dataclasses.replace(base_scenario, workload=workload), text, v, int(applications.release_ns[i])
    )


def _applications_before_busy(applications: Applications, platform: Platform) -> tuple[int, ...]:
    """Return up to three successive applications of a machine just before one of a busy machine, or ().

    The busy machine has the longest queue of all submitters, and has submitted nothing meanwhile.  A
    scheduler that counts applications of other machines would act differently there.
    """
    longest_wait, candidates, submitter = -math.inf, tuple[int, ...](), applications.submitter.tolist()
    for i in range(1, len(submitter)):
        earlier = [k for k in range(i) if submitter[k] == submitter[i]]
        if not earlier or submitter[i - 1] == submitter[i]:
            continue
        wait = applications.size[earlier].sum() / platform.speeds[submitter[i]] - applications.release[i]
        if wait > longest_wait:
            between = [k for k in range(earlier[-1] + 1, i) if submitter[k] == submitter[i - 1]]
            longest_wait, candidates = wait, tuple(between[-3:])
    return candidates


def _without_applications(
    applications: Applications, removed: tuple[int, ...], base_scenario: Scenario
) -> Change:
    """Return the change by which the applications `removed` of one machine are not submitted."""
    v = int(applications.submitter[removed[0]])
    rows = np.delete(np.arange(len(applications)), removed)
    columns = {name: getattr(applications, name)[rows] for name in ("release", "tasks", "task_size")}
    workload = changed_workload(applications, base_scenario.platform, **columns, rows=rows)
    scenario = dataclasses.replace(base_scenario, workload=workload)
    subject, verb = (
        (f"application {removed[0]}", "is") if len(removed) == 1 else (f"applications {removed}", "are")
    )
    text = f"{subject} of machine {v} {verb} not submitted"
    return Change(scenario, text, v, int(applications.release_ns[removed[0]]), missing=removed)


def _without_cancellation(applications: Applications, base_scenario: Scenario) -> Change:
    """Return the change by which the job with the first or last cancellation is not cancelled."""
    assert applications.cancel_at is not None
    at, cancelled_jobs = applications.cancel_at.copy(), np.flatnonzero(np.isfinite(applications.cancel_at))
    i = int(
        min(cancelled_jobs, key=at.__getitem__)
        if base_scenario.seed % 2
        else max(cancelled_jobs, key=at.__getitem__)
    )
    v, since, at[i] = int(applications.submitter[i]), nanoseconds(float(at[i])), math.inf
    names = ("release", "tasks", "task_size")
    columns = {name: getattr(applications, name) for name in names}
    workload = changed_workload(
        dataclasses.replace(applications, cancel_at=at), base_scenario.platform, **columns
    )
    text = f"the user of job {i} of machine {v} does not cancel it"
    return Change(dataclasses.replace(base_scenario, workload=workload), text, v, since)


def failure(base_scenario: Scenario, machine: int, at: float, reachable: bool) -> tuple[Scenario, Change]:
    """Return the scenario without a failure of `machine`, and the change by which it fails at `at` s.

    The outage lasts 200 s.  Both scenarios have a failure after the end of the run, so that failures are
    enabled.
    """
    never = [UNREACHED_TIME]
    without_failure, with_failure = (
        dataclasses.replace(base_scenario, faults=Faults.of([machine] * len(down), down, up, reachable))
        for down, up in ((never, never), ([at, *never], [at + 200.0, *never]))
    )
    return without_failure, Change(
        with_failure, f"machine {machine} fails at {at:g} s", machine, nanoseconds(at), fails=True
    )


def change_application(
    applications: Applications, i: int, platform: Platform, turn: int, has_fixed_tasks: bool
) -> tuple[Workload, str]:
    """Return the workload with application i changed, and the change in words.

    Parameters
    ----------
    turn
        The kind of change, a number modulo 4.
    has_fixed_tasks
        Whether the number of its tasks must stay the same.
    """
    columns = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    release, tasks, size = columns.values()
    subject = f"application {i} of machine {applications.submitter[i]}"
    latest = release[i + 1] if i + 1 < len(release) else math.inf
    suitable = applications.machines_for(i) if applications.rigid else None
    max_machines = platform.nodes if suitable is None else int(suitable.sum())  # for a rigid job
    if turn % 4 == _RELEASE_TURN and latest > release[i]:  # without changing the order of applications
        delay = min(200.0, (latest - release[i]) / 2)
        release[i] += delay
        text = f"{subject} is released {delay:g} s later"
    elif has_fixed_tasks or turn % 4 == 2 or (applications.rigid and max_machines == 1):
        size[i] *= 1.5
        text = f"{subject} takes 1.5 times as long"
    elif turn % 4 == 3 and applications.requested is None and tasks[i] > 2:
        tasks[i] = 1
        text = f"{subject} has one task instead of {applications.tasks[i]}"
    elif applications.requested is None:
        tasks[i] += 1 + tasks[i] // 2
        text = f"{subject} has {tasks[i]} tasks instead of {applications.tasks[i]}"
    else:
        tasks[i] += 1 if tasks[i] < max_machines else -1
        text = f"{subject} requires {tasks[i]} machines instead of {applications.tasks[i]}"
    return changed_workload(applications, platform, **columns), text


def changed_workload(
    applications: Applications,
    platform: Platform,
    release: Floats,
    tasks: Integers,
    task_size: Floats,
    rows: Integers | None = None,
) -> Workload:
    """Return the workload of `applications` with the given columns.

    Parameters
    ----------
    rows
        Applications that provide the other columns: first all of them if any follows others.  None for all,
        in order.
    """
    source_rows = np.arange(len(applications)) if rows is None else rows
    submitter, dependencies = applications.submitter[source_rows], dict[str, Any]()
    if (offsets := applications.predecessor_offsets) is not None:
        assert applications.predecessors is not None and applications.think_time is not None
        after = np.split(applications.predecessors, offsets[1:-1])
        dependencies = {
            "after": [after[i].tolist() for i in source_rows],
            "think_time": applications.think_time[source_rows],
        }
    if applications.requested is not None:
        run_time = task_size / platform.speeds[0]
        estimates = applications.requested[source_rows] * (task_size / applications.task_size[source_rows])
        attributes = {
            "memory": "memory",
            "disk": "disk",
            "kinds": "kind",
            "user": "user",
            "queue": "queue",
            "priority": "priority",
        }
        values_of = {name: getattr(applications, attribute) for name, attribute in attributes.items()}
        delay = release - applications.release[source_rows]
        job_times = {name: getattr(applications, name) for name in JOB_TIMES}
        times = {
            name: None if values is None else values[source_rows] + delay
            for name, values in job_times.items()
        }
        kept = {name: values if values is None else values[source_rows] for name, values in values_of.items()}
        rest: dict[Any, Any] = {**kept, **times, **dependencies}
        return Workload.jobs_of(release, tasks, run_time, estimates, submitter, **rest, origin=0.0)
    names = ("input_bytes", "output_bytes", "memory", "disk")
    columns = {name: getattr(applications, name) for name in names}
    further_columns = {
        name: column if column is None else column[source_rows] for name, column in columns.items()
    }
    return Workload.of(release, tasks, task_size, submitter, **further_columns, **dependencies, origin=0.0)
