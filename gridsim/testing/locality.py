"""Checks that machines use only what messages can have told them.

One check runs a scenario as it is, and again with one machine changed from some time on: what is submitted
there, its speed, or a failure.  News of the change spreads by messages only: a machine has it as soon as a
message comes from a machine that had it when it sent the message.  Until then, each machine must send and
start the same in both runs.  A machine that fails loses what it knew, which `remembering` checks.  `isolated`
runs each node with its own copy of the scheduler's modules.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from gridsim.model.applications import Applications
from gridsim.model.faults import Faults
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.testing.decision_checks import unheard, with_servers
from gridsim.testing.introspection import Own
from gridsim.testing.perturbations import (
    AFTER_THE_END,
    Change,
    all_changes,
    another,
    changed_workload,
    failure,
    only_owners,
)
from gridsim.testing.run_traces import Seen, first_apart, observe
from gridsim.validation.results import validate_result

#: s, the latency of messages in these runs, so long that others learn late what happens at one machine.
#: Which one it is depends on the seed of the scenario.  Failures are detected after a minute or so, whatever
#: messages take: where one is the change, they take the first.
LATENCIES = (40.0, 150.0)
#: The most random streams of a scenario that are changed, one at a time.
_STREAMS = 2
#: The most changes that are also tried while a machine is down.
_WHILE_DOWN = 3


def differing_decision(scenario: Scenario, scheduler: Scheduler, failing: bool) -> str | None:
    """Return what another machine does differently before it can know of a change, the first; else None.

    The scenario is run without its failures, with tasks of equal sizes, and with messages that take one of
    `LATENCIES`.  What the scheduler derives from platform and workload before the run (`Scheduler.explicit`)
    stays the same.

    Parameters
    ----------
    failing
        Whether a change may be that a machine fails.
    """
    if scenario.platform.nodes < 2:
        return None
    applications = scenario.workload.realize(scenario.platform)
    if applications.task_sizes is not None:
        # tasks of own sizes get them in the order in which they come to any machine, which no message tells
        columns = (applications.release, applications.tasks, applications.task_size, applications.submitter)
        scenario = dataclasses.replace(scenario, workload=Workload.of(*columns, origin=0.0))
        applications = scenario.workload.realize(scenario.platform)
    fixed = scheduler.explicit(scenario.platform.speeds, applications)
    latency = LATENCIES[scenario.seed % len(LATENCIES)]
    plain = _slow(scenario, latency)
    first = observe(plain, fixed)
    if said := first.unsound or unheard(first.result) or _invalid(first.result):
        return f"messages take {latency:g} s: {said}"
    for change in all_changes(plain, applications, fixed):
        if said := _differ(first, observe(change.scenario, fixed), change):
            return f"messages take {latency:g} s, and {change.what}: {said}"
    for k in range(min(_STREAMS, len(first.streams))):
        name = first.streams[(scenario.seed + k * 5) % len(first.streams)]
        if said := _another_stream(first, observe(plain, fixed, name), plain, name):
            return f"messages take {latency:g} s, and {said}"
    if not failing or scenario.platform.bandwidth is not None or applications.group is not None:
        return None
    return (
        _differing_while_down(plain, applications, fixed)
        or _drawn_for_another(plain, applications, fixed)
        or _differing_after_failure(scenario, applications, fixed, first)
        or remembering(plain, applications, fixed, first.result)
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
        faults = Faults.of([v], [0.0], [AFTER_THE_END], only_owners(fixed))
        down = dataclasses.replace(plain, faults=faults)
        first, changes = observe(down, fixed), [*all_changes(down, applications, fixed)]
        changes = [change for change in changes if change.machine != v]
        for k in range(min(_WHILE_DOWN, len(changes))):
            change = changes[(plain.seed + k * len(changes) // _WHILE_DOWN) % len(changes)]
            change = dataclasses.replace(change, down=v)
            if said := _differ(first, observe(change.scenario, fixed), change):
                return f"machine {v} is down, and {change.what}: {said}"
    return None


def _drawn_for_another(plain: Scenario, applications: Applications, fixed: Scheduler) -> str | None:
    """Return what a machine does otherwise since the one that acts for it draws other numbers; else None.

    A machine is down from 0 s until after its first application, so that it loses no tasks, and back before
    it submits the next one.
    """
    release, waits = applications.release, []
    for v in np.unique(applications.submitter).tolist():
        mine = release[applications.submitter == v]
        if len(later := mine[mine > mine[0]]):
            waits.append((float(later[0] - mine[0]), v, float(mine[0] + later[0]) / 2))
    if not waits:
        return None
    _, v, back = min(waits)
    faults = Faults.of([v], [0.0], [back], only_owners(fixed))
    away = dataclasses.replace(plain, faults=faults)
    first = observe(away, fixed)
    # those with its number in their name, if there are any
    mine = [name for name in first.streams if str(v) in re.findall(r"\d+", name)]
    names = mine or first.streams
    for k in range(min(_STREAMS, len(names))):
        name = names[(plain.seed + k) % len(names)]
        if said := _another_stream(first, observe(away, fixed, name), away, name):
            return f"machine {v} is down until {back:g} s, and {said}"
    return None


def _differing_after_failure(
    scenario: Scenario, applications: Applications, fixed: Scheduler, first: Seen
) -> str | None:
    """Return what another machine does differently since one fails, before it can know of that; else None."""
    plain = _slow(scenario, LATENCIES[0])
    if first.result.scenario.network.latency != LATENCIES[0]:
        first = observe(plain, fixed)
    for v, at in _idle(first.result, applications, scenario.seed):
        calm, change = failure(plain, v, at, only_owners(fixed))
        change = dataclasses.replace(change, by_all=fixed.failures_known)
        if said := _differ(observe(calm, fixed), observe(change.scenario, fixed), change):
            return f"messages take {LATENCIES[0]:g} s, and {change.what}: {said}"
    return None


def _idle(ran: Result, applications: Applications, seed: int) -> Iterator[tuple[int, float]]:
    """Iterate over machines and instants (s): who is idle there and submits nothing.

    Who is given nothing before it fails is missed by those only that ask it, or whom it has asked.
    """
    release, count, latency = applications.release, len(applications), LATENCIES[0]
    schedule, log = ran.tables["schedule"], ran.tables["message_log"]
    began = np.full(with_servers(ran), math.inf)
    np.minimum.at(began, schedule["machine"], schedule["start"])
    began[applications.submitter] = -math.inf
    early, late = float(release[seed % count]), float(release[-1 - seed % count])
    # the last one while an answer to what was sent at a release is on its way
    for at in sorted({early + 10.0, max(0.0, late - 1.0), early + 1.5 * latency}):
        yield from [(v, at) for v in range(len(ran.machines)) if began[v] > at][:1]
    # while a message of its own is on its way, to a machine that has work if there is one
    by_others = (log["sender"] < len(ran.machines)) & ~np.isin(log["sender"], applications.submitter)
    sent, there = log["sent"], log["sent"] + latency
    asks = np.flatnonzero(by_others).tolist()
    asks = [k for k in asks if not _computes(ran, log["sender"][k], sent[k], there[k])]
    to_busy = [k for k in asks if _computes(ran, log["receiver"][k], there[k], there[k])]
    if asks := to_busy or asks:
        k = asks[seed % len(asks)]
        yield int(log["sender"][k]), float(sent[k]) + latency / 4


def _computes(ran: Result, machine: int, begin: float, end: float) -> bool:
    """Return whether a machine has a task at any time from `begin` to `end` s."""
    schedule = ran.tables["schedule"]
    mine = schedule["machine"] == machine
    return bool((mine & (schedule["start"] <= end) & (schedule["end"] >= begin)).any())


def _informed(one: Seen, other: Seen, change: Change) -> Integers:
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


def _differ(one: Seen, other: Seen, change: Change) -> str | None:
    """Return the first decision that differs on a machine before news of the change can reach it."""
    end = min(one.end, other.end)
    known = np.minimum(_informed(one, other, change), end).tolist()
    found = first_apart(one, other, known, change.missing)
    if found is None:
        return None
    (at, machine, kind, values), verb = found
    until = known[machine] / NS
    return f"machine {machine}, {at / NS} s: {kind} {dict(values)}, {verb}; it has no news until {until} s"


def _another_stream(one: Seen, other: Seen, plain: Scenario, name: str) -> str | None:
    """Return what other machines do differently since one random stream draws other numbers.

    The stream is taken for that of the machine that is first to do something else.
    """
    end = min(one.end, other.end)
    found = first_apart(one, other, [end] * max(with_servers(each.result) for each in (one, other)))
    if found is None:
        return None
    (at, machine, *_), _ = found
    what = f"the stream {name!r}, by which machine {machine} decides at {at / NS} s, draws other numbers"
    # an overlay that exchanges entries draws, and tells others, before anybody acts
    since = 0 if "exchanges" in one.result.tables else at
    said = _differ(one, other, Change(plain, what, machine, since))
    return None if said is None else f"{what}: {said}"


#: The most machines that fail with the one that submits the last application.
_MOST_BUSY = 3


def remembering(plain: Scenario, applications: Applications, fixed: Scheduler, ran: Result) -> str | None:
    """Return what a machine does by what it knew before it failed; else None.

    It fails for a second just before the last application, which is submitted there, and before which it has
    submitted nothing; so do some machines that have got tasks by then, but submit nothing.  Whatever was
    changed elsewhere, they then do the same until a message comes to them from one that has not failed.

    Parameters
    ----------
    ran
        The run of `plain`.
    """
    calm = _with_newcomer(plain, applications)
    # where failures are known at once, what the machine knew may be restored at once, too
    if calm is None or fixed.failures_known or only_owners(fixed):
        return None
    applications = calm.workload.realize(calm.platform)
    last, newcomer = len(applications) - 1, int(applications.submitter[-1])
    back = float(applications.release[-1]) - 1.0
    failed = [newcomer, *_busy(ran, back - 1.0, {*applications.submitter.tolist()})]
    ends = [*[back] * len(failed), AFTER_THE_END]
    faults = Faults.of([*failed, newcomer], [*[back - 1.0] * len(failed), AFTER_THE_END], ends)
    calm = dataclasses.replace(calm, faults=faults)
    since = nanoseconds(back - 1.0)
    anew = since + nanoseconds(0.5)  # while they are down
    first = observe(calm, fixed, anew=anew)
    if "exchanges" in first.result.tables:  # news that is in no log
        return None
    numbers = fixed.numbers_known and applications.requested is None
    for i in sorted({plain.seed % last, last - 1}):
        workload, what = another(applications, i, calm.platform, plain.seed, numbers)
        second = observe(dataclasses.replace(calm, workload=workload), fixed, anew=anew)
        known = [0] * max(with_servers(seen.result) for seen in (first, second))
        # a generator of its own goes on after a failure: where it has come to, what was sent may say
        alike = [
            v
            for v in failed
            if not first.seeded or _sent_before(first, v, since) == _sent_before(second, v, since)
        ]
        news = [_next_news(seen, alike, since) for seen in (first, second)]
        for v in alike:
            known[v] = min(first.end, second.end, *(each[v] for each in news))
        one, other = (
            dataclasses.replace(seen, rows=[row for row in seen.rows if row[0] >= since])
            for seen in (first, second)
        )
        if found := first_apart(one, other, known):
            (at, v, kind, values), verb = found
            return (
                f"messages take {plain.network.latency:g} s, {what}, and machines {failed} fail at "
                f"{since / NS} s for a second: machine {v}, {at / NS} s: {kind} {dict(values)}, {verb}; it "
                f"has forgotten all, and has no news until {known[v] / NS} s"
            )
    return None


def _busy(ran: Result, at: float, submitters: set[int]) -> list[int]:
    """Return machines that submit nothing and run tasks at `at` s, those that end last first.

    At least one machine stays up.
    """
    table = ran.tables["schedule"]
    rows = (table["start"] < at) & (table["end"] > at)
    there = [v for v in np.unique(table["machine"][rows]).tolist() if v not in submitters]
    ends = {v: float(table["end"][table["machine"] == v].max()) for v in there}
    most = min(_MOST_BUSY, ran.scenario.platform.nodes - 2)
    return sorted(there, key=lambda v: (-ends[v], v))[:most]


def _with_newcomer(plain: Scenario, applications: Applications) -> Scenario | None:
    """Return the scenario in which the last application is submitted where none was before; else None.

    It comes when news of the one before has come there, and has many tasks, unless it is a rigid job.
    """
    before, nodes = applications.submitter[:-1].tolist(), plain.platform.nodes
    free = [v for d in range(nodes) if (v := (before[-1] + d) % nodes) not in before] if before else []
    if not free:
        return None
    columns = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    waits = (1, 2, 4)[plain.seed // 2 % 3] * plain.network.latency  # for an answer, or for what follows
    columns["release"][-1] = columns["release"][-2] + waits + 10.0
    if not applications.rigid:
        columns["tasks"][-1] = max(columns["tasks"][-1], 3 * nodes)
    submitter = np.array([*before, free[0]])
    workload = changed_workload(
        dataclasses.replace(applications, submitter=submitter), plain.platform, **columns
    )
    return dataclasses.replace(plain, workload=workload)


def _sent_before(seen: Seen, v: int, at: int) -> list[tuple[Any, ...]]:
    """Return the kinds and receivers of what machine v sent before `at` ns, in order."""
    return [(kind, what[:1]) for now, u, kind, what in seen.rows if u == v and now < at and kind != "starts"]


def _next_news(seen: Seen, failed: list[int], since: int) -> dict[int, int]:
    """Return when each of the `failed` machines first has news from `since` on (ns).

    It has when a message comes from one that is not among them, or has news, or has sent it before, and when
    a message of its own is missed.
    """
    log, latency = seen.result.tables["message_log"], nanoseconds(seen.result.scenario.network.latency)
    sent, came = (np.rint(log[name] * NS) for name in ("sent", "delivered"))
    until = dict.fromkeys(failed, NEVER)
    for at, u, lost in zip(sent.tolist(), log["sender"].tolist(), log["dropped"].tolist(), strict=True):
        if lost and u in until and at + latency >= since:
            until[u] = min(until[u], int(at) + latency)
    rows = zip(sent.tolist(), log["sender"].tolist(), log["receiver"].tolist(), came.tolist(), strict=True)
    # those that came; who waits for an interface that one occupies is late
    messages = [(at, u, v, min(there, at + latency)) for at, u, v, there in rows if there == there]
    messages += [(at, u, v, at + lasts) for at, u, v, lasts in seen.quick]
    for at, u, v, there in sorted(messages, key=lambda row: row[3]):  # may be news that is sent on
        if u != v and v in until and there >= since and (u not in until or at < since or at >= until[u]):
            until[v] = min(until[v], int(there))
    return until


def can_be_isolated(scheduler: Scheduler) -> bool:
    """Return whether the scheduler has node programs of a module that can be imported again."""
    kind = type(scheduler)
    if not isinstance(scheduler, NodeScheduler) or "interpreted" not in scheduler.node_forms:
        return False
    roots = Own(scheduler).roots
    if kind.__module__.partition(".")[0] not in roots or kind.__module__ == "__main__":
        return False
    try:
        return _copied(scheduler, Own(scheduler)) is not None
    except Exception:  # the module cannot be imported twice
        return False


@contextmanager
def isolated(scheduler: Scheduler) -> Iterator[None]:
    """Let each node of `scheduler` be made by a fresh copy of its modules, also after a failure.

    So nodes share neither attributes of classes nor variables of modules, and none outlasts a failure.
    """
    kind: Any = type(scheduler)
    own, before = Own(scheduler), kind.__dict__.get("program")

    def program(self: Any, node: int) -> Any:
        made = _copied(self, own)
        assert made is not None
        if made.program is NodeScheduler.program:
            return made.policy(self)
        return made.program(self, node)

    kind.program = program
    try:
        yield
    finally:
        if before is None:
            del kind.program
        else:
            kind.program = before


def _copied(scheduler: Scheduler, own: Own) -> Any:
    """Return the class of `scheduler` from a fresh copy of its modules; None if it is local to a function."""
    kind = type(scheduler)
    mine = {module.__name__: module for module in own.modules() if _reloads(module, own)}
    for name in mine:
        del sys.modules[name]
    try:
        found: Any = import_module(kind.__module__)
        for name, module in mine.items():
            _share_compiled(module, sys.modules.get(name))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in own.roots]:
            if name not in mine:
                del sys.modules[name]
        sys.modules.update(mine)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _reloads(module: ModuleType, own: Own) -> bool:
    return module.__name__.partition(".")[0] in own.roots


def _share_compiled(module: ModuleType, copy: ModuleType | None) -> None:
    """Let a copy of a module use the functions that Numba has compiled, rather than compile them again."""
    for name, value in vars(module).items() if copy is not None else ():
        if type(value).__module__.startswith("numba."):
            setattr(copy, name, value)
