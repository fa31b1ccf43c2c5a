"""Checks recorded decisions against what the simulator knows."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.arrays import Bools

#: A sentence of an action that gives tasks to a machine, if messages that move tasks bear it out.
_GIVES = re.compile(r"^(\w+) \{tasks\} tasks? (\w+ )?to (\w+ )*machine \{machine\}")

#: Its verb, if it counts without a message that says that it moves tasks: neither an offer nor a plan.
_GAVE = {
    *("gave", "granted", "handed", "dealt", "sent", "passed", "moved", "pushed", "shipped"),
    *("delivered", "dispatched", "forwarded", "transferred"),
}

#: A sentence of an action of a node that queues tasks itself.
_KEEPS = re.compile(r"^(kept|put|placed|queued) \{tasks\} tasks? (\w+ )*(on|at) machine \{machine\}")

#: Units of one quantity differ at least by this factor.
_UNITS = 5.0


def false_decision(result: Result, scheduler: Scheduler) -> str | None:
    """Return the first decision of a run that cannot be true; None if there is none.

    Parameters
    ----------
    result
        It has the tables ``decisions``, ``message_log``, ``schedule`` and ``arrivals``.
    """
    table, applications, machines = result.tables["decisions"], result.applications, with_servers(result)
    i, time, decider, tasks = (table[name] for name in ("application", "time", "decider", "tasks"))
    release, most = (applications[name] for name in ("release", "tasks"))
    # the sentence of an action says what its numbers mean
    of_tasks = [action for action, (said, _, _) in scheduler.decision_words.items() if "{tasks} task" in said]
    tells = np.isin(table["action"], of_tasks)
    known = (i >= 0) & (i < len(applications))
    for k in np.flatnonzero(~known)[:1]:
        return f"decisions[{k}] is about application {i[k]}, and there are {len(applications)}"
    for wrong, said in (
        (time < release[i], "before its release"),
        (time > result.provenance["clock_seconds"] + 1e-9, "after the end of the run"),
        (tells & ((tasks < 0) | (tasks > most[i])), "about more tasks than the application has"),
        ((decider < -1) | (decider >= machines), "by a machine that does not exist"),
        ((table["machine"] < -1) | (table["machine"] >= machines), "about a machine that does not exist"),
        ((table["age"] < 0) | (table["age"] > time + 1e-9), "seen before the run, or later than decided"),
    ):
        for k in np.flatnonzero(wrong)[:1]:
            return f"decisions[{k}] cannot be: {said}: {table[k]}"
    first = np.full(len(applications), np.inf)
    np.minimum.at(first, i, time)
    for k in np.flatnonzero(applications["first_start"] < first - 1e-9)[:1]:
        started = applications["first_start"][k]
        return (
            f"application {k} starts at {started} s, the first decision on it is said to be at {first[k]} s"
        )
    if other := _other_unit(result):
        return other
    informed, whole = scheduler.informed_by_messages, result.scenario.faults is None
    # others may be about one task each, or, of those who know everything, about tasks that only wait
    all_tell = len(of_tasks if informed else _giving(scheduler)) == len(scheduler.decision_words)
    found = None if informed else _more_than_left(result, tells)
    found = found or (_too_few(result, tells) if all_tell else None)
    if informed:
        found = found or ((unheard(result) or _too_fresh(result)) if whole else _by_the_dead(result))
    return found or (_not_handed_over(result, scheduler) if whole else None) or _kept_here(result, scheduler)


def _other_unit(result: Result) -> str | None:
    """Return the action of which what was seen is a multiple of what is true, each time; else None.

    Values that are out of date differ, too, but not all by the same large factor.  Those of a machine itself
    are the most recent, and may show it where others do not.
    """
    table = result.tables["decisions"]
    positive = (
        (table["saw"] > 0) & (table["true"] > 0) & np.isfinite(table["saw"]) & np.isfinite(table["true"])
    )
    for machines in (positive & (table["decider"] == table["machine"]), positive):
        for action in sorted({*table["action"][machines].tolist()}):
            rows = np.flatnonzero(machines & (table["action"] == action))
            factor, true = table["saw"][rows] / table["true"][rows], table["true"][rows]
            constant = np.ptp(factor) < 1e-9 * factor[0] and np.ptp(true) > 1e-6 * true[0]
            if constant and not 1.0 / _UNITS < factor[0] < _UNITS:
                return f"each decision {action!r} saw {factor[0]:g} times the true value: {table[rows[0]]}"
    return None


def _by_the_dead(result: Result) -> str | None:
    """Return the first decision by a machine that is down, while others are up; else None."""
    faults, table, machines = result.scenario.faults, result.tables["decisions"], len(result.machines)
    assert faults is not None
    until, time = result.provenance["clock_seconds"] + 1.0, table["time"]
    if faults.reachable:
        return None
    away = np.zeros((machines, len(table)), np.bool_)
    for u, down, up in faults.outages(machines, until):
        away[u] = ((down < time[:, None]) & (time[:, None] < up)).any(axis=1)
    rows = np.flatnonzero((table["decider"] >= 0) & (table["decider"] < machines) & ~away.all(axis=0))
    for k in rows[away[table["decider"][rows], rows]][:1]:
        return f"decisions[{k}] cannot be: machine {table['decider'][k]} is down: {table[k]}"
    return None


def _too_fresh(result: Result) -> str | None:
    """Return the first decision by what no message from another machine can have brought yet; else None.

    What is known when the run begins needs no message.  Nor does what a decider saw of itself: it is true.
    """
    table, network = result.tables["decisions"], result.scenario.network
    about = result.provenance["message_log"]
    if "exchanges" in result.tables or about["delays"] or about.get("left_out"):
        return None
    other = (table["machine"] >= 0) & (table["decider"] >= 0) & (table["machine"] != table["decider"])
    own = np.isnan(table["true"]) | np.isclose(table["saw"], table["true"], rtol=1e-9, atol=0.0)
    way = network.latency - network.jitter
    early = table["age"] < np.minimum(way, table["time"]) - 1e-9
    for k in np.flatnonzero(other & ~own & early)[:1]:
        return f"decisions[{k}] cannot be: a message from that machine takes {way:g} s: {table[k]}"
    return None


def _more_than_left(result: Result, tells: Bools) -> str | None:
    """Return the first decision about more tasks than are left to complete at its time; else None.

    Parameters
    ----------
    tells
        Which decisions say how many tasks they are about.
    """
    table, ran, most = result.tables["decisions"], result.tables["schedule"], result.applications["tasks"]
    order = np.argsort(ran["end"], kind="stable")
    of, end, completed = (ran[name][order] for name in ("application", "end", "completed"))
    for i in np.unique(table["application"][tells]):
        rows = np.flatnonzero(tells & (table["application"] == i))
        done = np.concatenate([[0], np.cumsum(completed[of == i])])
        left = most[i] - done[np.searchsorted(end[of == i], table["time"][rows] - 1e-9)]
        for k in np.flatnonzero(table["tasks"][rows] > left)[:1]:
            return f"decisions[{rows[k]}] cannot be: {left[k]} tasks are not completed yet: {table[rows[k]]}"
    return None


def _giving(scheduler: Scheduler) -> dict[str, str]:
    """Return the verbs of the actions that say that tasks went to a machine; any of node programs."""
    said = {action: _GIVES.search(words[0]) for action, words in scheduler.decision_words.items()}
    nodes = isinstance(scheduler, NodeScheduler)
    return {action: found[1] for action, found in said.items() if found and (nodes or found[1] in _GAVE)}


def _not_handed_over(result: Result, scheduler: Scheduler) -> str | None:
    """Return where decisions give a machine more tasks than come to its queue; else None.

    Machines that send tasks of the application on are left out, and those to which a message is on its way.

    Parameters
    ----------
    result
        Of a run without failures.
    """
    whole = "exchanges" not in result.tables and not result.provenance["message_log"].get("left_out")
    if not _giving(scheduler) or not whole or not len(result.tables.get("arrivals", ())):
        return None
    applications, machines = result.applications, len(result.machines)
    came: Counter[tuple[int, int]] = Counter()
    queued = np.zeros(len(applications), np.int64)
    for row in result.tables["arrivals"].rows():
        came[row["application"], row["machine"]] += max(0, row["tasks"])
        queued[row["application"]] += max(0, row["tasks"])
    known = (queued >= applications["tasks"]) & ~np.isnan(applications["finish"])
    elsewhere = _sent_on(result, scheduler)
    for (i, machine), tasks in _given(result, scheduler).items():
        left_out = (i, machine) in elsewhere or (-1, machine) in elsewhere or not 0 <= machine < machines
        if known[i] and tasks > came[i, machine] and not left_out:
            got = came[i, machine]
            return (
                f"decisions give {tasks} tasks of application {i} to machine {machine}, which has got {got}"
            )
    return None


def _kept_here(result: Result, scheduler: Scheduler) -> str | None:
    """Return the first decision to keep tasks that names another machine than the node's own; else None."""
    keeps = [action for action, words in scheduler.decision_words.items() if _KEEPS.search(words[0])]
    if not isinstance(scheduler, NodeScheduler) or not keeps or "arrivals" not in result.tables:
        return None
    table, came = result.tables["decisions"], result.tables["arrivals"]
    names, sent = ("application", "machine", "time"), _handed_over(result, scheduler)
    queued = set(zip(*(came[name].tolist() for name in (*names, "tasks")), strict=True))
    somewhere = set(zip(*(came[name].tolist() for name in names), strict=True))
    for k in np.flatnonzero(np.isin(table["action"], keeps)).tolist():
        i, decider, machine, at, tasks = (
            table[name][k] for name in ("application", "decider", "machine", "time", "tasks")
        )
        elsewhere = (i, machine, at) in somewhere or (i, decider, machine, at) in sent
        if (i, decider, at, tasks) in queued and not elsewhere:
            return f"decisions[{k}] cannot be: machine {decider} has queued these tasks: {table[k]}"
    return None


def _given(result: Result, scheduler: Scheduler) -> Counter[tuple[int, int]]:
    """Return how many tasks of each application decisions give each machine.

    They count if a message of a node program that moves tasks to the machine left then; and with the verbs
    `_GAVE` unless a machine may have handed tasks over to itself, as several nodes of a tree do.
    """
    table, verbs, sent = result.tables["decisions"], _giving(scheduler), _handed_over(result, scheduler)
    said: Counter[tuple[int, int]] = Counter()
    for row in table.rows():
        i, decider, machine = row["application"], row["decider"], row["machine"]
        moved_then = (i, decider, machine, row["time"]) in sent
        went = decider != machine and row["level"] < 0 and verbs.get(row["action"]) in _GAVE
        if row["action"] in verbs and (moved_then or went):
            said[i, machine] += row["tasks"]
    return said


def _handed_over(result: Result, scheduler: Scheduler) -> set[tuple[int, int, int, float]]:
    """Return application, sender, receiver and time (s) of the messages of a node program that move tasks."""
    kinds = scheduler.messages if isinstance(scheduler, NodeScheduler) else {}
    log = result.tables["message_log"]
    moved = np.isin(log["kind"], [kind for kind, each in kinds.items() if each.moves_tasks])
    names = ("application", "sender", "receiver", "sent")
    return set(zip(*(log[name][moved].tolist() for name in names), strict=True))


def _sent_on(result: Result, scheduler: Scheduler) -> set[tuple[int, int]]:
    """Return applications and machines that may have sent tasks on, or back, or do not have all of them yet.

    Application -1 stands for any.  With schedulers on cohorts, a message that names no application may have
    brought tasks of those that its receiver sends on, or gets in its queue, from then on.
    """
    log, arrivals = result.tables["message_log"], result.tables["arrivals"]
    found: set[tuple[int, int]] = set()
    last: dict[tuple[int, int], float] = {}  # application, machine -> s, when it last dealt with it
    first: dict[tuple[int, int], float] = {}  # sender, receiver -> s, of the first message that names none
    names = ("application", "sender", "receiver", "sent", "delivered")
    for i, sender, receiver, at, delivered in zip(*(log[name].tolist() for name in names), strict=True):
        if np.isnan(delivered):
            found.add((i, receiver))
        if i >= 0:
            found.add((i, sender))
            last[i, sender] = max(at, last.get((i, sender), at))
        elif not isinstance(scheduler, NodeScheduler):
            first[sender, receiver] = min(delivered, first.get((sender, receiver), delivered))
    for row in arrivals.rows():
        key = row["application"], row["machine"]
        last[key] = max(row["time"], last.get(key, 0.0))
    named = {*log["application"].tolist()}
    for (sender, receiver), at in first.items():
        for i in range(len(result.applications)):
            if i not in named or last.get((i, receiver), -1.0) >= at:
                found.add((i, sender))
    return found


def _too_few(result: Result, tells: Bools) -> str | None:
    """Return the first completed application of which not all tasks are in a decision; else None.

    Parameters
    ----------
    tells
        Which decisions say how many tasks they are about.
    """
    table, applications = result.tables["decisions"], result.applications
    said = np.zeros(len(applications), np.int64)
    np.add.at(said, table["application"][tells], table["tasks"][tells])
    about = np.bincount(table["application"][tells], minlength=len(applications)) > 0
    few = about & (said < applications["tasks"]) & ~np.isnan(applications["finish"])
    for i in np.flatnonzero(few)[:1]:
        return (
            f"all decisions on application {i} are about {said[i]} tasks, it has {applications['tasks'][i]}"
        )
    return None


def with_servers(result: Result) -> int:
    """Return the number of machines of a result, with servers."""
    return len(result.machines) + result.servers


def unheard(result: Result) -> str | None:
    """Return the first act of a machine on an application of which it cannot have heard; else None.

    Acts are decisions, messages about the application, and starts of its tasks.  A machine has heard of an
    application once it was submitted there, or a message has come from one that had heard of it.

    Parameters
    ----------
    result
        Of a run without failures that has the table ``message_log``.
    """
    log, applications = result.tables["message_log"], result.applications
    about = result.provenance["message_log"]
    # the log does not have all that machines learn, or names something else than applications
    if (
        "exchanges" in result.tables
        or about["delays"]
        or about.get("left_out")
        or result.scenario.faults is not None
    ):
        return None
    came = ~np.isnan(log["delivered"])
    sent, delivered, sender, receiver = (
        log[name][came] for name in ("sent", "delivered", "sender", "receiver")
    )
    acts = [("sends a message about", log["application"], log["sender"], log["sent"])]
    for table, verb, who, when in (
        ("decisions", "decides on", "decider", "time"),
        ("schedule", "starts a task of", "machine", "start"),
    ):
        if table in result.tables:
            of = result.tables[table]
            acts.append((verb, of["application"], of[who], of[when]))
    for i in range(len(applications)):
        heard = np.full(with_servers(result), np.inf)
        heard[applications["submitter"][i]] = applications["release"][i]
        before = heard - 1
        while (before != heard).any():
            before = heard.copy()
            told = sent >= heard[sender] - 1e-9
            np.minimum.at(heard, receiver[told], delivered[told])
        for verb, application, machine, time in acts:
            rows = np.flatnonzero((application == i) & (machine >= 0) & (machine < len(heard)))
            early = rows[time[rows] < heard[machine[rows]] - 1e-9]
            for k in early[:1]:
                since = f"and cannot have heard of it before {heard[machine[k]]} s"
                return f"machine {machine[k]} {verb} application {i} at {time[k]} s, {since}"
    return None
