"""Checks recorded decisions against what the simulator knows."""

from __future__ import annotations

import numpy as np

from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler


def false_decision(result: Result, scheduler: Scheduler) -> str | None:
    """Return the first decision of a run that cannot be true; None if there is none.

    result : it has the tables ``decisions`` and ``message_log``.
    """
    table, applications, machines = result.tables["decisions"], result.applications, len(result.machines)
    i, time, decider, tasks = (table[name] for name in ("application", "time", "decider", "tasks"))
    release, most = (applications[name] for name in ("release", "tasks"))
    # the sentence of an action says what its numbers mean
    of_tasks = [action for action, (said, _, _) in scheduler.decision_words.items() if "{tasks} task" in said]
    tells = np.isin(table["action"], of_tasks) & scheduler.informed_by_messages
    known = (i >= 0) & (i < len(applications))
    for k in np.flatnonzero(~known)[:1]:
        return f"decisions[{k}] is about application {i[k]}, and there are {len(applications)}"
    for wrong, said in (
        (time < release[i], "before its release"),
        (time > result.provenance["clock_seconds"] + 1e-9, "after the end of the run"),
        (tells & ((tasks < 0) | (tasks > most[i])), "about more tasks than the application has"),
        ((decider < -1) | (decider > machines), "by a machine that does not exist"),
        ((table["machine"] < -1) | (table["machine"] > machines), "about a machine that does not exist"),
        ((table["age"] < 0) | (table["age"] > time + 1e-9), "seen before the run, or later than decided"),
    ):
        for k in np.flatnonzero(wrong)[:1]:
            return f"decisions[{k}] cannot be: {said}: {table[k]}"
    if scheduler.informed_by_messages and result.scenario.faults is None:
        return _not_known(result)
    return None


def with_servers(result: Result) -> int:
    """Return the number of machines of a result whose messages were recorded, with servers, at least one."""
    log = result.tables["message_log"]
    last = max(int(log[name].max(initial=0)) for name in ("sender", "receiver"))
    return max(len(result.machines), last) + 1


def _not_known(result: Result) -> str | None:
    """Return the first decision on an application of which its decider cannot have heard."""
    table, log = result.tables["decisions"], result.tables["message_log"]
    delays = result.provenance["message_log"]["delays"]
    if "exchanges" in result.tables or delays:  # the log does not have all that machines learn
        return None
    came = ~np.isnan(log["delivered"])
    sent, delivered, sender, receiver = (
        log[name][came] for name in ("sent", "delivered", "sender", "receiver")
    )
    for i in np.unique(table["application"]).tolist():
        heard = np.full(with_servers(result), np.inf)
        heard[result.applications["submitter"][i]] = result.applications["release"][i]
        before = heard - 1
        while (before != heard).any():
            before = heard.copy()
            told = sent >= heard[sender] - 1e-9
            np.minimum.at(heard, receiver[told], delivered[told])
        rows = np.flatnonzero((table["application"] == i) & (table["decider"] >= 0))
        early = rows[table["time"][rows] < heard[table["decider"][rows]] - 1e-9]
        for k in early[:1]:
            return (
                f"decisions[{k}]: machine {table['decider'][k]} decides on application {i} at "
                f"{table['time'][k]} s, and cannot have heard of it before {heard[table['decider'][k]]} s"
            )
    return None
