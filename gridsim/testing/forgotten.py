"""Checks that a machine that has failed decides by nothing that it knew before."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gridsim.model.applications import Applications
from gridsim.model.faults import Faults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.testing.changes import AFTER_THE_END, another, changed_workload, only_owners
from gridsim.testing.observed import Seen, first_apart, observe
from gridsim.testing.truth import with_servers

#: The most machines that fail with the one that submits the last application.
_MOST_BUSY = 3


def remembering(plain: Scenario, applications: Applications, fixed: Scheduler, ran: Result) -> str | None:
    """Return what a machine does by what it knew before it failed; else None.

    It fails for a second just before the last application, which is submitted there, and before which it has
    submitted nothing; so do some machines that have got tasks by then, but submit nothing.  Whatever was
    changed elsewhere, they then do the same until a message comes to them from one that has not failed.

    ran : the run of `plain`.
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
