"""Checks that machines use no information that no message can have brought them.

The check runs a scenario as it is, and again with one machine changed from some instant on: another
application is submitted there, or the same one later, or the machine has another speed.  A message takes at
least the latency, so that no other machine can know of the change before that time has passed.  Until then
all other machines must send and start the same as in the first run.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np

from gridsim.model.applications import Applications
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS, nanoseconds

#: s, the latency of messages in these runs, so long that others learn late what happens at one machine.
LATENCY = 40.0
#: A cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_ALL = 2**40
#: Events of such a run; one that handles more never ends.
MOST_EVENTS = 200_000


def differing_decision(scenario: Scenario, scheduler: Scheduler) -> str | None:
    """Return the first thing that another machine does differently before it can know of a change; else None.

    The scenario is run without failures and with messages that take `LATENCY`.  What the scheduler derives
    from platform and workload before the run (`Scheduler.explicit`) stays the same.
    """
    if scenario.platform.nodes < 2:
        return None
    least = nanoseconds(LATENCY)
    slow = msgspec.structs.replace(scenario.network, latency=LATENCY, jitter=0.0)
    applications = scenario.workload.realize(scenario.platform)
    fixed = scheduler.explicit(scenario.platform.speeds, applications)
    plain = dataclasses.replace(scenario, network=slow, faults=None)
    first = _observe(plain, fixed)
    for i in range(len(applications)):
        v, at = int(applications.submitter[i]), int(applications.release_ns[i])
        workload, what = _another(applications, i, scenario.platform, i + scenario.seed)
        if said := _differ(
            first, _observe(dataclasses.replace(plain, workload=workload), fixed), v, at, least
        ):
            return f"messages take {LATENCY:g} s, and {what}: {said}"
    if scheduler.speeds_known:
        return None
    v = scenario.seed % scenario.platform.nodes
    speeds = scenario.platform.speeds.copy()
    speeds[v] *= 1.5
    workload = _workload(
        applications,
        scenario.platform,
        **{name: getattr(applications, name) for name in ("release", "tasks", "task_size")},
    )
    other = dataclasses.replace(plain, platform=Platform.of(speeds.tolist()), workload=workload)
    if said := _differ(first, _observe(other, fixed), v, 0, least):
        return f"messages take {LATENCY:g} s, and machine {v} is half as fast again: {said}"
    return None


def _another(applications: Applications, i: int, platform: Platform, turn: int) -> tuple[Workload, str]:
    """Return the workload with application i changed, and the change in words; `turn` selects the change."""
    changed = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    release, tasks, size = changed.values()
    who = f"application {i} of machine {applications.submitter[i]}"
    latest = release[i + 1] if i + 1 < len(release) else math.inf
    if turn % 3 == 1 and latest > release[i]:  # keep the order of the applications
        later = min(30.0, (latest - release[i]) / 2)
        release[i] += later
        said = f"{who} is released {later:g} s later"
    elif turn % 3 == 2 and applications.task_sizes is None:
        size[i] *= 1.5
        said = f"{who} takes half as long again"
    elif applications.requested is None or platform.nodes == 1:
        tasks[i] += 1 + tasks[i] // 2
        said = f"{who} has {tasks[i]} tasks instead of {applications.tasks[i]}"
    else:
        tasks[i] += 1 if tasks[i] < platform.nodes else -1
        said = f"{who} wants {tasks[i]} machines instead of {applications.tasks[i]}"
    return _workload(applications, platform, **changed), said


def _workload(
    applications: Applications, platform: Platform, release: Floats, tasks: Integers, task_size: Floats
) -> Workload:
    """Return the workload of `applications` with these columns in place of theirs.

    Where tasks differ in size and an application has more tasks than before, its sizes repeat in order.
    """
    submitter = applications.submitter
    if applications.requested is not None:
        run_time = task_size / platform.speeds[0]
        requested = applications.requested * (task_size / applications.task_size)
        return Workload.jobs_of(release, tasks, run_time, requested, submitter)
    if applications.task_sizes is None:
        return Workload.of(release, tasks, task_size, submitter)
    parts = np.split(applications.task_sizes, applications.offsets[1:-1])
    sizes = [np.resize(part, count) for part, count in zip(parts, tasks.tolist(), strict=True)]
    return Workload.of_tasks(release, sizes, submitter)


Decisions = tuple[list[tuple[Any, ...]], int]


class _Observed(Scheduler, frozen=True, kw_only=True):
    """A scheduler that runs another one and records its messages.

    inner : the other scheduler.  seen : the decisions; rows are appended to it.
    """

    unequal = fluctuating = True  # the inner scheduler has run the scenario before, so it supports it

    inner: Scheduler
    seen: list[tuple[Any, ...]]

    def start(self, run: Run) -> Policy:
        def look(now: int, name: str, rows: Any, source: Any, opaque: tuple[str, ...]) -> None:
            for row, machine in zip(rows, source.tolist(), strict=True):
                values = {key: row[key].item() for key in rows.dtype.names if key not in opaque}
                self.seen.append((now, machine, f"sends {name}", repr(values)))

        run.network.observe(look)
        return self.inner.start(run)


class _ObservedJobs(_Observed, frozen=True, kw_only=True):
    """The same for a scheduler of rigid jobs."""

    rigid = True


def _observe(scenario: Scenario, scheduler: Scheduler) -> Decisions:
    """Return what each machine sends and starts in a run, by time (ns), and when the run ends (ns)."""
    seen: list[tuple[Any, ...]] = []
    observed = (_ObservedJobs if scheduler.rigid else _Observed)(inner=scheduler, seen=seen)
    result = simulate(scenario, observed, record=True, cohort_limit=_ALL, events_limit=MOST_EVENTS)
    table = result.tables["schedule"]
    start = np.rint(table["start"] * NS).astype(np.int64).tolist()
    for at, machine, application in zip(
        start, table["machine"].tolist(), table["application"].tolist(), strict=True
    ):
        seen.append((at, machine, "starts", f"application {application}"))
    return sorted(seen), nanoseconds(result.provenance["clock_seconds"])


def _differ(one: Decisions, other: Decisions, source: int, since: int, least: int) -> str | None:
    """Return the first decision that differs on a machine other than `source`, before news can reach it.

    since, least : ns, when the change happens and how long a message takes at least.
    """
    end = min(since + least, one[1], other[1])
    here, there = (
        [row for row in rows if row[0] < end and (row[1] != source or row[0] < since)]
        for rows, _ in (one, other)
    )
    for a, b in zip([*here, None], [*there, None], strict=False):
        if a != b:
            row, verb = (a, "not") if b is None or (a is not None and a < b) else (b, "only then")
            assert row is not None
            at, machine, kind, values = row
            return f"machine {machine}, {at / NS} s: {kind} {values}, {verb}; news takes until {end / NS} s"
    return None
