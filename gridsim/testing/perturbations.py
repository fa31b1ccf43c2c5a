"""Scenarios with one change: of what one machine submits, how fast it is, or whether it fails."""

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
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import nanoseconds

#: The most applications of a scenario that are changed, one at a time.
_CHANGED = 4
#: The most machines of which all applications are changed, those that submit the most.
_BUSIEST = 3
#: How many tasks an application has if it has many.
_MANY = 10
#: s, the instant of a failure or recovery that no run reaches.
AFTER_THE_END = 1e6
#: The turn of `another` at which an application is released later.
_LATER = 1


def only_owners(scheduler: Scheduler) -> bool:
    """Return whether machines must not fail under `scheduler`, but owners may come and go."""
    return scheduler.owners and not scheduler.failures


@dataclass(frozen=True)
class Change:
    """A changed scenario.

    Parameters
    ----------
    what
        The change in words.  machine, since : where, and from when on (ns).
    fails
        Whether the machine fails then.
    by_all
        Whether all machines know at once, but none before.
    down
        The machine that is down throughout; what is sent in its name comes from one that acts for it.
    missing
        The applications that are left out, so that later ones have lower numbers.
    """

    scenario: Scenario
    what: str
    machine: int
    since: int
    fails: bool = False
    by_all: bool = False
    down: int | None = None
    missing: tuple[int, ...] = ()


def all_changes(plain: Scenario, applications: Applications, scheduler: Scheduler) -> Iterator[Change]:
    """Iterate over changes of what is submitted at a machine, early and late, and of how fast it is."""
    count, platform, seed = len(applications), plain.platform, plain.seed
    # the first, the last, and some in between
    chosen = sorted({k * (count - 1) // (_CHANGED - 1) for k in range(_CHANGED)})
    # where nodes know the numbers of jobs, they know how many there are before their own
    fixed = scheduler.numbers_known and applications.requested is None
    for i, turn in [*((i, i + seed) for i in chosen), *((i, _LATER) for i in chosen[-2:])]:
        v, at = int(applications.submitter[i]), int(applications.release_ns[i])
        workload, what = another(applications, i, platform, turn, fixed)
        yield Change(dataclasses.replace(plain, workload=workload), what, v, at)
    if applications.requested is None and not fixed:
        submitters, firsts = np.unique(applications.submitter, return_index=True)
        busiest = np.argsort(-np.bincount(applications.submitter)[submitters], kind="stable")[:_BUSIEST]
        for i in sorted({chosen[seed % len(chosen)], *firsts[busiest].tolist()}):
            yield _much_other(applications, i, plain)
    if count > 1 and not scheduler.numbers_known:
        several = _before_a_busy_one(applications, platform)
        for gone in {(chosen[(seed + 1) % len(chosen)],), (count - 1,), several} - {()}:
            change = _missing(applications, gone, plain)
            others = change.scenario.workload.realize(platform)
            # what summaries have axes for is known before the run
            axes = [(each.moves_data, each.group is None) for each in (applications, others)]
            if axes[0] == axes[1]:
                yield change
    if applications.cancel_at is not None:
        yield _not_cancelled(applications, plain)
    if scheduler.speeds_known:
        return
    names = ("release", "tasks", "task_size")
    workload = changed_workload(
        applications, platform, **{name: getattr(applications, name) for name in names}
    )
    # where nothing is submitted, a longer queue is news that may never be sent
    quiet = [u for u in range(platform.nodes) if u not in applications.submitter]
    slowed = quiet[:: max(1, len(quiet) // 2)] or [int(applications.submitter[-1])]
    for v, factor in [(seed % platform.nodes, 1.5), *((u, 0.1) for u in slowed[:2])]:
        speeds = platform.speeds.copy()
        speeds[v] *= factor
        made = Platform.of(speeds.tolist()).with_attributes(platform.recipe.attributes)
        if platform.bandwidth is not None:
            made = made.linked(platform.bandwidth)
        other = dataclasses.replace(plain, platform=made, workload=workload)
        yield Change(other, f"machine {v} is {factor:g} times as fast", v, 0)


def _much_other(applications: Applications, i: int, plain: Scenario) -> Change:
    """Return the change that one machine submits much less, or much more, from application i on.

    The applications have one task each, if they had many, else so many times as many.
    """
    v, tasks = int(applications.submitter[i]), applications.tasks.copy()
    mine = np.flatnonzero(applications.submitter == v)
    mine = mine[mine >= i]
    many = tasks[mine].mean() > _MANY
    tasks[mine] = 1 if many else tasks[mine] * _MANY
    columns = (applications.release, tasks, applications.task_size)
    workload = changed_workload(applications, plain.platform, *columns)
    said = "one task each" if many else f"{_MANY} times as many tasks"
    what = f"applications of machine {v} from {i} on have {said}"
    return Change(dataclasses.replace(plain, workload=workload), what, v, int(applications.release_ns[i]))


def _before_a_busy_one(applications: Applications, platform: Platform) -> tuple[int, ...]:
    """Return up to three applications of one machine just before one of a busy machine comes; () for none.

    The busy machine has submitted the most work until then, and nothing since they came: it may count them.
    """
    busiest, found, submitter = -math.inf, tuple[int, ...](), applications.submitter.tolist()
    for i in range(1, len(submitter)):
        mine = [k for k in range(i) if submitter[k] == submitter[i]]
        if not mine or submitter[i - 1] == submitter[i]:
            continue
        waits = applications.size[mine].sum() / platform.speeds[submitter[i]] - applications.release[i]
        if waits > busiest:
            between = [k for k in range(mine[-1] + 1, i) if submitter[k] == submitter[i - 1]]
            busiest, found = waits, tuple(between[-3:])
    return found


def _missing(applications: Applications, gone: tuple[int, ...], plain: Scenario) -> Change:
    """Return the change that the applications `gone`, of one machine, are never submitted."""
    v = int(applications.submitter[gone[0]])
    rows = np.delete(np.arange(len(applications)), gone)
    columns = {name: getattr(applications, name)[rows] for name in ("release", "tasks", "task_size")}
    workload = changed_workload(applications, plain.platform, **columns, rows=rows)
    changed = dataclasses.replace(plain, workload=workload)
    which, verb = (f"application {gone[0]}", "is") if len(gone) == 1 else (f"applications {gone}", "are")
    what = f"{which} of machine {v} {verb} not submitted"
    return Change(changed, what, v, int(applications.release_ns[gone[0]]), missing=gone)


def _not_cancelled(applications: Applications, plain: Scenario) -> Change:
    """Return the change that the job which is cancelled first, or last, is not."""
    assert applications.cancel_at is not None
    at, chosen = applications.cancel_at.copy(), np.flatnonzero(np.isfinite(applications.cancel_at))
    i = int(min(chosen, key=at.__getitem__) if plain.seed % 2 else max(chosen, key=at.__getitem__))
    v, since, at[i] = int(applications.submitter[i]), nanoseconds(float(at[i])), math.inf
    names = ("release", "tasks", "task_size")
    columns = {name: getattr(applications, name) for name in names}
    workload = changed_workload(dataclasses.replace(applications, cancel_at=at), plain.platform, **columns)
    what = f"the user of job {i} of machine {v} does not cancel it"
    return Change(dataclasses.replace(plain, workload=workload), what, v, since)


def failure(plain: Scenario, machine: int, at: float, reachable: bool) -> tuple[Scenario, Change]:
    """Return the scenario with a failure after its end, and with one of `machine` at `at` s for 200 s."""
    never = [AFTER_THE_END]
    calm, fails = (
        dataclasses.replace(plain, faults=Faults.of([machine] * len(down), down, back, reachable))
        for down, back in ((never, never), ([at, *never], [at + 200.0, *never]))
    )
    return calm, Change(fails, f"machine {machine} fails at {at:g} s", machine, nanoseconds(at), fails=True)


def another(
    applications: Applications, i: int, platform: Platform, turn: int, fixed: bool
) -> tuple[Workload, str]:
    """Return the workload with application i changed, and the change in words.

    Parameters
    ----------
    turn
        Which change.
    fixed
        Whether the number of its tasks stays as it is.
    """
    changed = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    release, tasks, size = changed.values()
    who = f"application {i} of machine {applications.submitter[i]}"
    latest = release[i + 1] if i + 1 < len(release) else math.inf
    suited = applications.machines_for(i) if applications.rigid else None
    most = platform.nodes if suited is None else int(suited.sum())  # for a rigid job
    if turn % 4 == _LATER and latest > release[i]:  # keep the order of the applications
        later = min(200.0, (latest - release[i]) / 2)
        release[i] += later
        said = f"{who} is released {later:g} s later"
    elif fixed or turn % 4 == 2 or (applications.rigid and most == 1):
        size[i] *= 1.5
        said = f"{who} takes half as long again"
    elif turn % 4 == 3 and applications.requested is None and tasks[i] > 2:
        tasks[i] = 1
        said = f"{who} has one task instead of {applications.tasks[i]}"
    elif applications.requested is None:
        tasks[i] += 1 + tasks[i] // 2
        said = f"{who} has {tasks[i]} tasks instead of {applications.tasks[i]}"
    else:
        tasks[i] += 1 if tasks[i] < most else -1
        said = f"{who} wants {tasks[i]} machines instead of {applications.tasks[i]}"
    return changed_workload(applications, platform, **changed), said


def changed_workload(
    applications: Applications,
    platform: Platform,
    release: Floats,
    tasks: Integers,
    task_size: Floats,
    rows: Integers | None = None,
) -> Workload:
    """Return the workload of `applications` with these columns in place of theirs.

    Parameters
    ----------
    rows
        Whose other columns each application has; by default its own.
    """
    kept = np.arange(len(applications)) if rows is None else rows
    submitter = applications.submitter[kept]
    if applications.requested is not None:
        run_time = task_size / platform.speeds[0]
        requested = applications.requested[kept] * (task_size / applications.task_size[kept])
        memory, kinds, disk = (
            each if each is None else each[kept]
            for each in (applications.memory, applications.kind, applications.disk)
        )
        later = release - applications.release[kept]
        stated = {name: getattr(applications, name) for name in JOB_TIMES}
        times = {name: None if each is None else each[kept] + later for name, each in stated.items()}
        rest: dict[Any, Any] = {"memory": memory, "kinds": kinds, "disk": disk, **times}
        return Workload.jobs_of(release, tasks, run_time, requested, submitter, **rest, origin=0.0)
    names = ("input_bytes", "output_bytes", "memory", "disk")
    columns = {name: getattr(applications, name) for name in names}
    further = {name: column if column is None else column[kept] for name, column in columns.items()}
    return Workload.of(release, tasks, task_size, submitter, **further, origin=0.0)
