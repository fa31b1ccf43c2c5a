"""Checks that machines use no information that no message can have brought them.

The check runs a scenario as it is, and again with one machine changed from some instant on: what is submitted
there, its speed, or a failure.  News of the change spreads by messages only: a machine has it as soon as a
message comes from one that had it when it sent the message.  Until then, each machine must send and start the
same in both runs.  A machine that fails loses what it knew.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gridsim.model.applications import JOB_TIMES, Applications
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.random_streams import Streams
from gridsim.testing.patience import MOST_EVENTS
from gridsim.testing.truth import unheard, with_servers
from gridsim.validation.results import validate_result

#: s, the latency of messages in these runs, so long that others learn late what happens at one machine.
#: Which one it is depends on the seed of the scenario.  Failures are detected after a minute or so, whatever
#: messages take: where one is the change, they take the first.
LATENCIES = (40.0, 150.0)
#: A cohort limit above the size of any cohort: cohorts stay whole, but are handled in Python.
_ALL = 2**40
#: The most applications of a scenario that are changed, one at a time.
_CHANGED = 4
#: The most random streams of a scenario that are changed, one at a time.
_STREAMS = 2
#: The most changes that are also tried while a machine is down.
_WHILE_DOWN = 3
#: s, the instant of a failure or recovery that no run reaches.
_AFTER_THE_END = 1e6
#: How many numbers further a changed stream begins.
_FURTHER = 12_345
#: The turn of `_another` at which an application is released later.
_LATER = 1


def only_owners(scheduler: Scheduler) -> bool:
    """Return whether machines must not fail under `scheduler`, but owners may come and go."""
    return scheduler.owners and not scheduler.failures


def differing_decision(scenario: Scenario, scheduler: Scheduler, failing: bool) -> str | None:
    """Return what another machine does differently before it can know of a change, the first; else None.

    The scenario is run without its failures, with tasks of equal sizes, and with messages that take one of
    `LATENCIES`.  What the scheduler derives from platform and workload before the run (`Scheduler.explicit`)
    stays the same.

    failing : whether a change may be that a machine fails.
    """
    if scenario.platform.nodes < 2:
        return None
    applications = scenario.workload.realize(scenario.platform)
    if applications.task_sizes is not None:
        # tasks of own sizes get them in the order in which they come to any machine, which no message tells
        columns = (applications.release, applications.tasks, applications.task_size, applications.submitter)
        scenario = dataclasses.replace(scenario, workload=Workload.of(*columns))
        applications = scenario.workload.realize(scenario.platform)
    fixed = scheduler.explicit(scenario.platform.speeds, applications)
    latency = LATENCIES[scenario.seed % len(LATENCIES)]
    plain = _slow(scenario, latency)
    first = _observe(plain, fixed)
    if said := first.unsound or unheard(first.result) or _invalid(first.result):
        return f"messages take {latency:g} s: {said}"
    for change in _changes(plain, applications, fixed):
        if said := _differ(first, _observe(change.scenario, fixed), change):
            return f"messages take {latency:g} s, and {change.what}: {said}"
    for k in range(min(_STREAMS, len(first.streams))):
        name = first.streams[(scenario.seed + k * 5) % len(first.streams)]
        if said := _another_stream(first, _observe(plain, fixed, name), plain, name):
            return f"messages take {latency:g} s, and {said}"
    if not failing or scenario.platform.bandwidth is not None or applications.group is not None:
        return None
    return (
        _differing_while_down(plain, applications, fixed)
        or _differing_after_failure(scenario, applications, fixed, first)
        or _remembering(plain, applications, fixed)
    )


def _invalid(result: Result) -> str | None:
    """Return what is wrong with a run, which may be so only where messages take long; else None."""
    return "; ".join(map(str, validate_result(result))) or None


def _slow(scenario: Scenario, latency: float) -> Scenario:
    """Return the scenario without failures, with messages that take `latency` s."""
    slow = msgspec.structs.replace(scenario.network, latency=latency, jitter=0.0)
    return dataclasses.replace(scenario, network=slow, faults=None)


def _differing_while_down(plain: Scenario, applications: Applications, fixed: Scheduler) -> str | None:
    """Return what a machine does differently before it can know of a change, while one is down; else None.

    The machine is down from 0 s until after the end, and nothing is submitted there.  So nobody learns from
    its failure, at once or later, what the others have.
    """
    for v in [u for u in range(plain.platform.nodes) if u not in applications.submitter][:1]:
        faults = Faults.of([v], [0.0], [_AFTER_THE_END], only_owners(fixed))
        down = dataclasses.replace(plain, faults=faults)
        first, changes = _observe(down, fixed), [*_changes(down, applications, fixed)]
        changes = [change for change in changes if change.machine != v]
        for k in range(min(_WHILE_DOWN, len(changes))):
            change = changes[(plain.seed + k * len(changes) // _WHILE_DOWN) % len(changes)]
            change = dataclasses.replace(change, down=v)
            if said := _differ(first, _observe(change.scenario, fixed), change):
                return f"machine {v} is down, and {change.what}: {said}"
    return None


def _differing_after_failure(
    scenario: Scenario, applications: Applications, fixed: Scheduler, first: _Seen
) -> str | None:
    """Return what another machine does differently since one fails, before it can know of that; else None."""
    release, count = applications.release, len(applications)
    plain = _slow(scenario, LATENCIES[0])
    if first.result.scenario.network.latency != LATENCIES[0]:
        first = _observe(plain, fixed)
    ran = first.result.tables["schedule"]
    early, late = float(release[scenario.seed % count]), float(release[-1 - scenario.seed % count])
    # the last one while an answer to what was sent at a release is on its way
    for at in sorted({early + 10.0, max(0.0, late - 1.0), early + 1.5 * LATENCIES[0]}):
        # who submits nothing, and is given nothing before it fails, is missed by those only that ask it
        used = [*applications.submitter, *ran["machine"][ran["start"] <= at]]
        for v in [u for u in range(scenario.platform.nodes) if u not in used][:1]:
            calm, change = _failure(plain, v, at, only_owners(fixed))
            change = dataclasses.replace(change, by_all=fixed.failures_known)
            if said := _differ(_observe(calm, fixed), _observe(change.scenario, fixed), change):
                return f"messages take {LATENCIES[0]:g} s, and {change.what}: {said}"
    return None


def _remembering(plain: Scenario, applications: Applications, fixed: Scheduler) -> str | None:
    """Return what a machine does by what it knew before it failed; else None.

    It fails for a second just before the last application, which is submitted there, and before which it has
    submitted nothing.  Whatever was changed elsewhere, it then does the same until a message comes to it.
    """
    calm = _with_newcomer(plain, applications)
    # where failures are known at once, what the machine knew may be restored at once, too
    if calm is None or fixed.failures_known or only_owners(fixed):
        return None
    applications = calm.workload.realize(calm.platform)
    last, v = len(applications) - 1, int(applications.submitter[-1])
    back = float(applications.release[-1]) - 1.0
    faults = Faults.of([v, v], [back - 1.0, _AFTER_THE_END], [back, _AFTER_THE_END])
    calm = dataclasses.replace(calm, faults=faults)
    first, since = _observe(calm, fixed), nanoseconds(back - 1.0)
    if "exchanges" in first.result.tables:  # news that is in no log
        return None
    numbers = fixed.numbers_known and applications.requested is None
    for i in sorted({plain.seed % last, last - 1}):
        workload, what = _another(applications, i, calm.platform, plain.seed, numbers)
        second = _observe(dataclasses.replace(calm, workload=workload), fixed)
        # random streams go on after a failure: where they have come to, what was sent before may say
        if first.streams and _sent_before(first, v, since) != _sent_before(second, v, since):
            continue
        end = min(first.end, second.end, _next_news(first, v, since), _next_news(second, v, since))
        one, other = (
            dataclasses.replace(seen, rows=[row for row in seen.rows if row[1] == v and row[0] >= since])
            for seen in (first, second)
        )
        if found := _first_apart(one, other, [end] * (v + 1)):
            (at, _, kind, values), verb = found
            return (
                f"messages take {plain.network.latency:g} s, {what}, and machine {v} fails at {since / NS} s "
                f"for a second: machine {v}, {at / NS} s: {kind} {dict(values)}, {verb}; it has "
                f"forgotten all, and has no news until {end / NS} s"
            )
    return None


def _with_newcomer(plain: Scenario, applications: Applications) -> Scenario | None:
    """Return the scenario in which the last application is submitted where none was before; else None.

    It comes when news of the one before has come there, and has many tasks, unless it is a rigid job.
    """
    before, nodes = applications.submitter[:-1].tolist(), plain.platform.nodes
    free = [v for d in range(nodes) if (v := (before[-1] + d) % nodes) not in before] if before else []
    if not free:
        return None
    columns = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    waits = (1 + plain.seed // 2 % 2) * plain.network.latency  # for an answer, perhaps
    columns["release"][-1] = columns["release"][-2] + waits + 10.0
    if not applications.rigid:
        columns["tasks"][-1] = max(columns["tasks"][-1], 3 * nodes)
    submitter = np.array([*before, free[0]])
    workload = _workload(dataclasses.replace(applications, submitter=submitter), plain.platform, **columns)
    return dataclasses.replace(plain, workload=workload)


def _sent_before(seen: _Seen, v: int, at: int) -> list[tuple[Any, ...]]:
    """Return the kinds and receivers of what machine v sent before `at` ns, in order."""
    return [(kind, what[:1]) for now, u, kind, what in seen.rows if u == v and now < at and kind != "starts"]


def _next_news(seen: _Seen, v: int, since: int) -> int:
    """Return when a message comes to machine v from another one, or is missed by v, from `since` on (ns)."""
    log = seen.result.tables["message_log"]
    there = (log["receiver"] == v) & (log["sender"] != v) & ~np.isnan(log["delivered"])
    came = np.rint(log["delivered"][there] * NS).astype(np.int64)
    mine = (log["sender"] == v) & (log["dropped"] != 0)
    missed = np.rint(log["sent"][mine] * NS).astype(np.int64) + nanoseconds(
        seen.result.scenario.network.latency
    )
    quick = [at + lasts for at, _, to, lasts in seen.quick if to == v]
    return min((int(at) for at in (*came, *missed, *quick) if at >= since), default=NEVER)


@dataclass(frozen=True)
class _Change:
    """A changed scenario.

    what : the change in words.  machine, since : where, and from when on (ns).
    fails : whether the machine fails then.  by_all : whether all machines know at once, but none before.
    down : the machine that is down throughout; what is sent in its name comes from one that acts for it.
    missing : the applications that are left out, so that later ones have lower numbers.
    """

    scenario: Scenario
    what: str
    machine: int
    since: int
    fails: bool = False
    by_all: bool = False
    down: int | None = None
    missing: tuple[int, ...] = ()


def _changes(plain: Scenario, applications: Applications, scheduler: Scheduler) -> Iterator[_Change]:
    """Iterate over changes of what is submitted at a machine, early and late, and of how fast it is."""
    count, platform, seed = len(applications), plain.platform, plain.seed
    # the first, the last, and some in between
    chosen = sorted({k * (count - 1) // (_CHANGED - 1) for k in range(_CHANGED)})
    # where nodes know the numbers of jobs, they know how many there are before their own
    fixed = scheduler.numbers_known and applications.requested is None
    for i, turn in [*((i, i + seed) for i in chosen), *((i, _LATER) for i in chosen[-2:])]:
        v, at = int(applications.submitter[i]), int(applications.release_ns[i])
        workload, what = _another(applications, i, platform, turn, fixed)
        yield _Change(dataclasses.replace(plain, workload=workload), what, v, at)
    if applications.requested is None and not fixed:
        yield _much_less(applications, chosen[seed % len(chosen)], plain)
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
    workload = _workload(applications, platform, **{name: getattr(applications, name) for name in names})
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
        yield _Change(other, f"machine {v} is {factor:g} times as fast", v, 0)


def _much_less(applications: Applications, i: int, plain: Scenario) -> _Change:
    """Return the change that all applications of one machine have one task each, from application i on."""
    v, tasks = int(applications.submitter[i]), applications.tasks.copy()
    since = np.flatnonzero(applications.submitter == v)
    tasks[since[since >= i]] = 1
    workload = _workload(applications, plain.platform, applications.release, tasks, applications.task_size)
    what = f"applications of machine {v} from {i} on have one task each"
    return _Change(dataclasses.replace(plain, workload=workload), what, v, int(applications.release_ns[i]))


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


def _missing(applications: Applications, gone: tuple[int, ...], plain: Scenario) -> _Change:
    """Return the change that the applications `gone`, of one machine, are never submitted."""
    v = int(applications.submitter[gone[0]])
    columns = {name: getattr(applications, name) for name in ("release", "tasks", "task_size")}
    workload = _workload(applications, plain.platform, **columns, without=gone)
    changed = dataclasses.replace(plain, workload=workload)
    which, verb = (f"application {gone[0]}", "is") if len(gone) == 1 else (f"applications {gone}", "are")
    what = f"{which} of machine {v} {verb} not submitted"
    return _Change(changed, what, v, int(applications.release_ns[gone[0]]), missing=gone)


def _not_cancelled(applications: Applications, plain: Scenario) -> _Change:
    """Return the change that the job which is cancelled first, or last, is not."""
    assert applications.cancel_at is not None
    at, chosen = applications.cancel_at.copy(), np.flatnonzero(np.isfinite(applications.cancel_at))
    i = int(min(chosen, key=at.__getitem__) if plain.seed % 2 else max(chosen, key=at.__getitem__))
    v, since, at[i] = int(applications.submitter[i]), nanoseconds(float(at[i])), math.inf
    names = ("release", "tasks", "task_size")
    columns = {name: getattr(applications, name) for name in names}
    workload = _workload(dataclasses.replace(applications, cancel_at=at), plain.platform, **columns)
    what = f"the user of job {i} of machine {v} does not cancel it"
    return _Change(dataclasses.replace(plain, workload=workload), what, v, since)


def _failure(plain: Scenario, machine: int, at: float, reachable: bool) -> tuple[Scenario, _Change]:
    """Return the scenario with a failure after its end, and with one of `machine` at `at` s for 200 s."""
    never = [_AFTER_THE_END]
    calm, fails = (
        dataclasses.replace(plain, faults=Faults.of([machine] * len(down), down, back, reachable))
        for down, back in ((never, never), ([at, *never], [at + 200.0, *never]))
    )
    return calm, _Change(fails, f"machine {machine} fails at {at:g} s", machine, nanoseconds(at), fails=True)


def _another(
    applications: Applications, i: int, platform: Platform, turn: int, fixed: bool
) -> tuple[Workload, str]:
    """Return the workload with application i changed, and the change in words.

    turn : which change.  fixed : whether the number of its tasks stays as it is.
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
    return _workload(applications, platform, **changed), said


def _workload(
    applications: Applications,
    platform: Platform,
    release: Floats,
    tasks: Integers,
    task_size: Floats,
    without: tuple[int, ...] = (),
) -> Workload:
    """Return the workload of `applications` with these columns in place of theirs.

    without : the applications that are left out.
    """
    kept = np.array([i for i in range(len(release)) if i not in without])
    submitter, release, tasks = applications.submitter[kept], release[kept], tasks[kept]
    if applications.requested is not None:
        run_time = task_size / platform.speeds[0]
        requested = applications.requested * (task_size / applications.task_size)
        memory, kinds, disk = (
            each if each is None else each[kept]
            for each in (applications.memory, applications.kind, applications.disk)
        )
        later = release - applications.release[kept]
        stated = {name: getattr(applications, name) for name in JOB_TIMES}
        times = {name: None if each is None else each[kept] + later for name, each in stated.items()}
        rest: dict[Any, Any] = {"memory": memory, "kinds": kinds, "disk": disk, **times}
        return Workload.jobs_of(release, tasks, run_time[kept], requested[kept], submitter, **rest)
    names = ("input_bytes", "output_bytes", "memory", "disk")
    columns = {name: getattr(applications, name) for name in names}
    further = {name: column if column is None else column[kept] for name, column in columns.items()}
    return Workload.of(release, tasks, task_size[kept], submitter, **further)


@dataclass(frozen=True)
class _Seen:
    """What each machine sends and starts in a run, by time (ns), until when (ns), and the run's result.

    quick : (ns, sender, receiver, ns that it takes) of messages with their own delay.
    streams : names of the random streams that the scheduler uses.
    unsound : a message that is faster than the network, or has fewer bytes than fields; None: there is none.
    """

    rows: list[tuple[Any, ...]]
    end: int
    result: Result
    quick: list[tuple[int, int, int, int]]
    streams: list[str]
    unsound: str | None


class _Tapped(Streams):
    """Streams that are recorded, one of which goes on elsewhere once the run has begun."""

    def __init__(self, streams: Streams, names: list[str], other: str | None) -> None:
        super().__init__(streams.seed)
        self.names, self.other = names, other
        self.made: list[Any] = []
        self.begun = False

    def __call__(self, name: str) -> np.random.Generator:
        """Return the generator; see `Streams`."""
        if name not in self.names:
            self.names.append(name)
        found = super().__call__(name)
        if name == self.other:
            self.made.append(found.bit_generator)
            if self.begun:
                self.made[-1].advance(_FURTHER)
        return found

    def begin(self) -> None:
        """Let the changed stream go on elsewhere: what was drawn to set up the run stays the same."""
        self.begun = True
        for each in self.made:
            each.advance(_FURTHER)


class _Observed(Scheduler, frozen=True, kw_only=True):
    """A scheduler that runs another one and records its messages.

    inner : the other scheduler.  seen : the decisions; rows are appended to it.
    quick, streams : see `_Seen`.  other : the random stream that is changed.
    fields : kind of message -> how many fields it has.
    """

    # the inner scheduler has run the scenario, so it supports it
    unequal = fluctuating = owners = constraints = moves_data = True
    job_times = JOB_TIMES

    inner: Scheduler
    seen: list[tuple[Any, ...]]
    quick: list[tuple[int, int, int, int]]
    streams: list[str]
    fields: dict[str, int]
    other: str | None

    def start(self, run: Run) -> Policy:
        network = run.network
        delays: dict[str, int] = {}

        def look(now: int, name: str, rows: Any, source: Any, opaque: tuple[str, ...]) -> None:
            for row, machine in zip(rows, source.tolist(), strict=True):
                values = {key: row[key].item() for key in rows.dtype.names if key not in opaque}
                told = tuple((key, each if each == each else None) for key, each in values.items())  # NaN
                self.seen.append((now, machine, f"sends {name}", told))
            self.fields[name] = len(
                [key for key in rows.dtype.names if key not in ("node", "sender", *opaque)]
            )
            if name in delays:
                target = network.machine_of[rows["node"]].tolist()
                self.quick.extend(
                    (now, u, v, delays[name]) for u, v in zip(source.tolist(), target, strict=True) if u != v
                )

        network.observe(look)
        run.streams = tapped = _Tapped(run.streams, self.streams, self.other)
        policy = self.inner.start(run)
        delays.update({name: nanoseconds(delay) for name, delay in network.delays.items()})
        tapped.begin()
        return policy


class _ObservedJobs(_Observed, frozen=True, kw_only=True):
    """The same for a scheduler of rigid jobs."""

    rigid = True


def _observe(scenario: Scenario, scheduler: Scheduler, stream: str | None = None) -> _Seen:
    """Run `scenario`; `stream` : the random stream that draws other numbers."""
    seen: list[tuple[Any, ...]] = []
    quick: list[tuple[int, int, int, int]] = []
    streams: list[str] = []
    fields: dict[str, int] = {}
    kind = _ObservedJobs if scheduler.rigid else _Observed
    observed = kind(inner=scheduler, seen=seen, quick=quick, streams=streams, fields=fields, other=stream)
    result = simulate(
        scenario,
        observed,
        record=("schedule", "messages"),
        cohort_limit=_ALL,
        events_limit=MOST_EVENTS,
        time_limit=1e7,
    )
    table = result.tables["schedule"]
    start, end = (np.rint(table[name] * NS).astype(np.int64) for name in ("start", "end"))
    # tasks that run one after another may be one row or several, which no machine decides
    count = table["tasks"] if scenario.fluctuation is None else np.ones(len(table), np.int64)
    rows = zip(*(each.tolist() for each in (start, (end - start) // count, count)), strict=True)
    for (at, lasts, tasks), machine, application in zip(
        rows, table["machine"].tolist(), table["application"].tolist(), strict=True
    ):
        for k in range(tasks):
            seen.append((at + k * lasts, machine, "starts", (("application", application),)))
    came = result.tables.get("arrivals")
    # when all tasks are where they will run, a run may end without the rest of its messages
    last = came["time"].max() if came is not None and len(came) else result.provenance["clock_seconds"]
    unsound = _faster(quick, nanoseconds(scenario.network.latency)) or _thin(result, fields)
    return _Seen(seen, nanoseconds(float(last)), result, sorted(set(quick)), streams, unsound)


def _faster(quick: list[tuple[int, int, int, int]], latency: int) -> str | None:
    """Return the first message to another machine that takes less than `latency` ns."""
    for at, u, v, lasts in quick:
        if lasts < latency:
            return (
                f"machine {u} reaches machine {v} in {lasts / NS} s at {at / NS} s, faster than the network"
            )
    return None


def _thin(result: Result, fields: dict[str, int]) -> str | None:
    """Return a kind of message that is too small for what it carries, a byte for each of `fields`."""
    log = result.tables["message_log"]
    for kind, count in fields.items():
        mine = log["bytes"][log["kind"] == kind]
        if len(mine) and mine.min() < count and kind not in result.provenance["message_log"]["delays"]:
            return f"a {kind} of {mine.min()} bytes carries {count} numbers"
    return None


def _informed(one: _Seen, other: _Seen, change: _Change) -> Integers:
    """Return when each machine, servers after the others, can first know of the change: int64, ns."""
    latency = nanoseconds(one.result.scenario.network.latency)
    known = np.full(max(with_servers(each.result) for each in (one, other)), NEVER)
    known[slice(None) if change.by_all else change.machine] = change.since
    if change.down is not None:
        known[change.down] = 0
    for result in (one.result, other.result):
        if "exchanges" in result.tables:  # which are in no log, and take as long as a message
            np.minimum(known, change.since + latency, out=known)
    logs = [each.result.tables["message_log"] for each in (one, other)]
    log = {name: np.concatenate([each[name] for each in logs]) for name in logs[0]}
    lost, came = log["dropped"] != 0, ~np.isnan(log["delivered"])
    sent = np.rint(log["sent"] * NS).astype(np.int64)
    # a message to a machine that has failed is missed when it would have arrived: by who sent it, and if it
    # is about an application, by who submitted that, who may also learn of it at the failure
    at_once = np.isin(log["kind"], [*one.result.provenance["message_log"]["delays"]])
    missed = np.where(at_once, sent, sent + latency)
    np.minimum.at(known, log["sender"][lost], np.maximum(missed[lost], change.since))
    submitter = one.result.applications["submitter"]
    about = lost & (log["application"] >= 0)
    caught = np.where(sent < change.since, change.since, missed)
    np.minimum.at(known, submitter[log["application"][about]], caught[about])
    if change.fails:
        for result in (one.result, other.result):
            # whose tasks are there; a job may lose a machine that it has only reserved
            came_to = result.tables.get("arrivals", result.tables["schedule"])
            mine = came_to["machine"] == change.machine
            if "arrivals" in result.tables and not result.rigid:
                mine &= came_to["time"] <= change.since / NS
            there = came_to["application"][mine]
            known[submitter[there]] = np.minimum(known[submitter[there]], change.since)
    sent, sender, receiver = (column[came] for column in (sent, log["sender"], log["receiver"]))
    # who waits for an interface that a message occupies is late, and so is who hears from it
    delivered = np.minimum(np.rint(log["delivered"][came] * NS).astype(np.int64), sent + latency)
    # kinds with a delay of their own may be in no log
    quick = sorted({*one.quick, *other.quick})
    before = known.copy() - 1
    while (before != known).any():
        before = known.copy()
        told = sent >= known[sender]
        np.minimum.at(known, receiver[told], delivered[told])
        for at, machine, to, lasts in quick:
            if at >= known[machine]:
                known[to] = min(known[to], at + lasts)
    return known


def _differ(one: _Seen, other: _Seen, change: _Change) -> str | None:
    """Return the first decision that differs on a machine before news of the change can reach it."""
    end = min(one.end, other.end)
    known = np.minimum(_informed(one, other, change), end).tolist()
    found = _first_apart(one, other, known, change.missing)
    if found is None:
        return None
    (at, machine, kind, values), verb = found
    until = known[machine] / NS
    return f"machine {machine}, {at / NS} s: {kind} {dict(values)}, {verb}; it has no news until {until} s"


def _alike(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None, missing: tuple[int, ...]) -> bool:
    """Return whether two rows are the same, except for numbers of applications after the `missing` ones."""
    if a is None or b is None or not missing or a[:3] != b[:3]:
        return a == b
    return all(
        one == other or (name == of and other == one - bisect_left(missing, one) and one not in missing)
        for (name, one), (of, other) in zip(a[3], b[3], strict=True)
    )


def _first_apart(
    one: _Seen, other: _Seen, known: list[int], missing: tuple[int, ...] = ()
) -> tuple[tuple[Any, ...], str] | None:
    """Return the first row that only one run has, of those before `known` (ns) of their machine."""
    here, there = ([row for row in seen.rows if row[0] < known[row[1]]] for seen in (one, other))
    for a, b in zip([*here, None], [*there, None], strict=False):
        if not _alike(a, b, missing):
            row, verb = (a, "not") if b is None or (a is not None and a[:3] <= b[:3]) else (b, "only then")
            assert row is not None
            return row, verb
    return None


def _another_stream(one: _Seen, other: _Seen, plain: Scenario, name: str) -> str | None:
    """Return what other machines do differently since one random stream draws other numbers.

    The stream is taken for that of the machine that is first to do something else.
    """
    end = min(one.end, other.end)
    found = _first_apart(one, other, [end] * with_servers(one.result))
    if found is None:
        return None
    (at, machine, *_), _ = found
    what = f"the stream {name!r}, by which machine {machine} decides at {at / NS} s, draws other numbers"
    # an overlay that exchanges entries draws, and tells others, before anybody acts
    since = 0 if "exchanges" in one.result.tables else at
    said = _differ(one, other, _Change(plain, what, machine, since))
    return None if said is None else f"{what}: {said}"
