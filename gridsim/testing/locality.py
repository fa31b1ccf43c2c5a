"""Does a machine know what nobody can have told it?

One machine is changed from some instant on: what is submitted there is something else, or comes later, or
the speed of the machine is another one.  A message takes the latency at least, so that until then no other
machine can behave differently: what it sends and what it starts must be the same.
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
from gridsim.simulation.simulate import simulate
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS, nanoseconds

#: s, of a message in these runs: what happens at one machine is long unknown to the others.
LATENCY = 40.0
#: More rows than any cohort has: whole cohorts, handed over in Python.
_ALL = 2**40


def differing_decision(scenario: Scenario, scheduler: Scheduler) -> str | None:
    """The first thing that another machine does differently before it can know; None if there is none.

    The scenario is run without failures, with messages that take `LATENCY`.  What a scheduler derives from
    platform and workload before the run (`Scheduler.explicit`) stays the same.
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
    """The workload in which application i is another one, and what that is; by `turn` in other ways."""
    changed = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    release, tasks, size = changed.values()
    who = f"application {i} of machine {applications.submitter[i]}"
    latest = release[i + 1] if i + 1 < len(release) else math.inf
    if turn % 3 == 1 and latest > release[i]:  # the applications stay in their order
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
    """These applications, but so; tasks that differ in size come again from the first one on."""
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
    """A scheduler whose messages are written down."""

    unequal = fluctuating = True  # as far as that scheduler can, which has run the scenario already

    inner: Scheduler
    seen: list[tuple[Any, ...]]

    def start(self, run: Run) -> Policy:
        def look(name: str, rows: Any, source: Any, opaque: tuple[str, ...]) -> None:
            for row, machine in zip(rows, source.tolist(), strict=True):
                values = {key: row[key].item() for key in rows.dtype.names if key not in opaque}
                self.seen.append((run.engine.now, machine, f"sends {name}", repr(values)))

        run.network.observe(look)
        return self.inner.start(run)


class _ObservedJobs(_Observed, frozen=True, kw_only=True):
    """The same for rigid jobs."""

    rigid = True


def _observe(scenario: Scenario, scheduler: Scheduler) -> Decisions:
    """What each machine sends and starts, by time (ns); and when the run ends."""
    seen: list[tuple[Any, ...]] = []
    observed = (_ObservedJobs if scheduler.rigid else _Observed)(inner=scheduler, seen=seen)
    result = simulate(scenario, observed, record=True, cohort_limit=_ALL)
    table = result.tables["schedule"]
    start = np.rint(table["start"] * NS).astype(np.int64).tolist()
    for at, machine, application in zip(
        start, table["machine"].tolist(), table["application"].tolist(), strict=True
    ):
        seen.append((at, machine, "starts", f"application {application}"))
    return sorted(seen), nanoseconds(result.provenance["clock_seconds"])


def _differ(one: Decisions, other: Decisions, source: int, since: int, least: int) -> str | None:
    """The first decision of another machine than `source` that differs, before news can have reached it."""
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
