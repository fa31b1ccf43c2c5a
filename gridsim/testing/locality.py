"""Checks that machines use no information that no message can have brought them.

The check runs a scenario as it is, and again with one machine changed from some instant on: what is submitted
there, its speed, or a failure.  News of the change spreads by messages only: a machine has it as soon as a
message comes from one that had it when it sent the message.  Until then, each machine must send and start the
same in both runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gridsim.model.applications import Applications
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.testing.truth import with_servers

#: s, the latency of messages in these runs, so long that others learn late what happens at one machine.
LATENCY = 40.0
#: A cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_ALL = 2**40
#: Events of such a run; one that handles more never ends.
MOST_EVENTS = 200_000
#: The most applications of a scenario that are changed, one at a time.
_CHANGED = 4
#: The turn of `_another` at which an application is released later.
_LATER = 1


def differing_decision(scenario: Scenario, scheduler: Scheduler, failing: bool) -> str | None:
    """Return the first thing that another machine does differently before it can know of a change; else None.

    The scenario is run without its failures and with messages that take `LATENCY`.  What the scheduler
    derives from platform and workload before the run (`Scheduler.explicit`) stays the same.

    failing : whether a change may be that a machine fails.
    """
    if scenario.platform.nodes < 2:
        return None
    slow = msgspec.structs.replace(scenario.network, latency=LATENCY, jitter=0.0)
    applications = scenario.workload.realize(scenario.platform)
    fixed = scheduler.explicit(scenario.platform.speeds, applications)
    plain = dataclasses.replace(scenario, network=slow, faults=None)
    first = _observe(plain, fixed)
    for change in _changes(plain, applications, fixed):
        if said := _differ(first, _observe(change.scenario, fixed), change):
            return f"messages take {LATENCY:g} s, and {change.what}: {said}"
    if not failing or scheduler.failures_known or scenario.platform.bandwidth is not None:
        return None
    if applications.task_sizes is not None:
        return None  # tasks of own sizes get them in the order in which they come to any machine
    at = float(applications.release[scenario.seed % len(applications)]) + 10.0
    # who submits nothing, and is given nothing before it fails, is missed by those only that ask it
    table = first.result.tables["schedule"]
    used = [*applications.submitter, *table["machine"][table["start"] <= at]]
    for v in [u for u in range(scenario.platform.nodes) if u not in used][:1]:
        calm, change = _failure(plain, v, at)
        if said := _differ(_observe(calm, fixed), _observe(change.scenario, fixed), change):
            return f"messages take {LATENCY:g} s, and {change.what}: {said}"
    return None


@dataclass(frozen=True)
class _Change:
    """A changed scenario.

    what : the change in words.  machine, since : where, and from when on (ns).
    fails : whether the machine fails then.
    """

    scenario: Scenario
    what: str
    machine: int
    since: int
    fails: bool = False


def _changes(plain: Scenario, applications: Applications, scheduler: Scheduler) -> Iterator[_Change]:
    """Iterate over changes of what is submitted at a machine, early and late, and of how fast it is."""
    count, platform, seed = len(applications), plain.platform, plain.seed
    # the first, the last, and some in between
    chosen = sorted({k * (count - 1) // (_CHANGED - 1) for k in range(_CHANGED)})
    for i, turn in [*((i, i + seed) for i in chosen), *((i, _LATER) for i in chosen[-2:])]:
        v, at = int(applications.submitter[i]), int(applications.release_ns[i])
        workload, what = _another(applications, i, platform, turn)
        yield _Change(dataclasses.replace(plain, workload=workload), what, v, at)
    if scheduler.speeds_known:
        return
    names = ("release", "tasks", "task_size")
    workload = _workload(applications, platform, **{name: getattr(applications, name) for name in names})
    # where nothing is submitted, a longer queue is news that may never be sent
    quiet = [u for u in range(platform.nodes) if u not in applications.submitter]
    slowed = quiet[:: max(1, len(quiet) // 2)] or [int(applications.submitter[-1])]
    for v, factor in [(seed % platform.nodes, 1.5), *((u, 0.1) for u in slowed[:2])]:
        speeds = platform.speeds.copy()
        speeds[v] *= factor
        made = Platform.of(speeds.tolist())
        if platform.bandwidth is not None:
            made = made.linked(platform.bandwidth)
        other = dataclasses.replace(plain, platform=made, workload=workload)
        yield _Change(other, f"machine {v} is {factor:g} times as fast", v, 0)


def _failure(plain: Scenario, machine: int, at: float) -> tuple[Scenario, _Change]:
    """Return the scenario with a failure after its end, and with one of `machine` at `at` s for 200 s."""
    never = [1e6]
    calm = dataclasses.replace(plain, faults=Faults.of([machine], never, never))
    fails = dataclasses.replace(plain, faults=Faults.of([machine] * 2, [at, *never], [at + 200.0, *never]))
    return calm, _Change(fails, f"machine {machine} fails at {at:g} s", machine, nanoseconds(at), fails=True)


def _another(applications: Applications, i: int, platform: Platform, turn: int) -> tuple[Workload, str]:
    """Return the workload with application i changed, and the change in words; `turn` selects the change."""
    changed = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    release, tasks, size = changed.values()
    who = f"application {i} of machine {applications.submitter[i]}"
    latest = release[i + 1] if i + 1 < len(release) else math.inf
    if turn % 3 == _LATER and latest > release[i]:  # keep the order of the applications
        later = min(200.0, (latest - release[i]) / 2)
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
        moved = {name: getattr(applications, name) for name in ("input_bytes", "output_bytes")}
        return Workload.of(release, tasks, task_size, submitter, **moved)
    parts = np.split(applications.task_sizes, applications.offsets[1:-1])
    sizes = [np.resize(part, count) for part, count in zip(parts, tasks.tolist(), strict=True)]
    return Workload.of_tasks(release, sizes, submitter)


@dataclass(frozen=True)
class _Seen:
    """What each machine sends and starts in a run, by time (ns), until when (ns), and the run's result."""

    rows: list[tuple[Any, ...]]
    end: int
    result: Result


class _Observed(Scheduler, frozen=True, kw_only=True):
    """A scheduler that runs another one and records its messages.

    inner : the other scheduler.  seen : the decisions; rows are appended to it.
    """

    unequal = fluctuating = moves_data = (
        True  # the inner scheduler has run the scenario before, so it supports it
    )

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


def _observe(scenario: Scenario, scheduler: Scheduler) -> _Seen:
    seen: list[tuple[Any, ...]] = []
    observed = (_ObservedJobs if scheduler.rigid else _Observed)(inner=scheduler, seen=seen)
    result = simulate(
        scenario,
        observed,
        record=("schedule", "messages"),
        cohort_limit=_ALL,
        events_limit=MOST_EVENTS,
        time_limit=1e7,
    )
    table = result.tables["schedule"]
    start = np.rint(table["start"] * NS).astype(np.int64).tolist()
    for at, machine, application in zip(
        start, table["machine"].tolist(), table["application"].tolist(), strict=True
    ):
        seen.append((at, machine, "starts", f"application {application}"))
    came = result.tables.get("arrivals")
    # when all tasks are where they will run, a run may end without the rest of its messages
    end = came["time"].max() if came is not None and len(came) else result.provenance["clock_seconds"]
    return _Seen(sorted(seen), nanoseconds(float(end)), result)


def _informed(one: _Seen, other: _Seen, change: _Change) -> Integers:
    """Return when each machine, servers after the others, can first know of the change: int64, ns."""
    known = np.full(max(with_servers(each.result) for each in (one, other)), NEVER)
    known[change.machine] = change.since
    for result in (one.result, other.result):
        # exchanges are in no log, and take as long as a message; tasks of own sizes get them in the order in
        # which they come to any machine
        if "exchanges" in result.tables or "largest_task" in result.applications:
            np.minimum(known, change.since + nanoseconds(LATENCY), out=known)
    logs = [each.result.tables["message_log"] for each in (one, other)]
    log = {name: np.concatenate([each[name] for each in logs]) for name in logs[0]}
    lost, came = log["dropped"] != 0, ~np.isnan(log["delivered"])
    sent = np.rint(log["sent"] * NS).astype(np.int64)
    # who sends to a machine that has failed is told of what is lost, and so is who submitted it
    np.minimum.at(known, log["sender"][lost], np.maximum(sent[lost], change.since))
    submitter = one.result.applications["submitter"]
    with_tasks = lost & (log["application"] >= 0)
    whose = submitter[log["application"][with_tasks]]
    np.minimum.at(known, whose, np.maximum(sent[with_tasks], change.since))
    if change.fails:
        for result in (one.result, other.result):
            came_to = result.tables.get("arrivals", result.tables["schedule"])
            there = came_to["application"][came_to["machine"] == change.machine]
            known[submitter[there]] = np.minimum(known[submitter[there]], change.since)
    sent, sender, receiver = (column[came] for column in (sent, log["sender"], log["receiver"]))
    delivered = np.rint(log["delivered"][came] * NS).astype(np.int64)
    # kinds with a delay of their own may be in no log: as if they went to all
    delays = {
        f"sends {kind}": nanoseconds(delay)
        for kind, delay in one.result.provenance["message_log"]["delays"].items()
    }
    rows = {
        (at, machine, delays[what])
        for seen in (one, other)
        for at, machine, what, _ in seen.rows
        if what in delays
    }
    quick = sorted(rows)
    before = known.copy() - 1
    while (before != known).any():
        before = known.copy()
        told = sent >= known[sender]
        np.minimum.at(known, receiver[told], delivered[told])
        for at, machine, lasts in quick:
            if at >= known[machine]:
                np.minimum(known, at + lasts, out=known)
    return known


def _differ(one: _Seen, other: _Seen, change: _Change) -> str | None:
    """Return the first decision that differs on a machine before news of the change can reach it."""
    end = min(one.end, other.end)
    known = np.minimum(_informed(one, other, change), end).tolist()
    here, there = ([row for row in seen.rows if row[0] < known[row[1]]] for seen in (one, other))
    for a, b in zip([*here, None], [*there, None], strict=False):
        if a != b:
            row, verb = (a, "not") if b is None or (a is not None and a < b) else (b, "only then")
            assert row is not None
            at, machine, kind, values = row
            until = known[machine] / NS
            return f"machine {machine}, {at / NS} s: {kind} {values}, {verb}; it has no news until {until} s"
    return None
