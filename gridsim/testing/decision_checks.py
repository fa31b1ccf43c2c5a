"""Checks of recorded decisions against the other tables of a run."""

from __future__ import annotations

from collections import Counter
from string import Formatter
from typing import get_args

import numpy as np

from gridsim.results.decisions import check_action_texts
from gridsim.results.result import Result
from gridsim.scheduling.contract import DecisionVerb, Scheduler
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.support.arguments import hint
from gridsim.support.arrays import Bools, Integers
from gridsim.testing.perturbations import release_machines

#: Verb -> the columns that the sentence of an action with this verb must have.
_VERB_COLUMNS = {"gives": {"tasks", "machine"}, "keeps": {"tasks"}, "mentions": {"tasks"}}
#: Units of the same quantity differ by at least this factor.
_UNIT_RATIO = 5.0


def wrong_verb(scheduler: Scheduler) -> str | None:
    """Return a description of the first wrong entry of `Scheduler.decision_verbs`; None if there is none."""
    words = check_action_texts(scheduler.decision_words)
    for action, verb in scheduler.decision_verbs.items():
        path = f"Scheduler.decision_verbs[{action!r}]"
        if action not in words:
            suggestion = hint(words, action)
            return f"Scheduler.decision_verbs must have actions of decision_words, got {action!r}{suggestion}"
        if verb not in get_args(DecisionVerb):
            return f"{path} must be one of {get_args(DecisionVerb)}, got {verb!r}"
        if missing := sorted(_VERB_COLUMNS[verb] - _columns(words[action][0])):
            return f"{path} = {verb!r} requires {{{missing[0]}}} in its sentence, got {words[action][0]!r}"
    return None


def _columns(sentence: str) -> set[str]:
    """Return the columns of the table ``decisions`` in a sentence of `Scheduler.decision_words`."""
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def _actions(scheduler: Scheduler, verb: DecisionVerb) -> list[str]:
    """Return the actions that `scheduler` declares with `verb`."""
    return [action for action, declared in scheduler.decision_verbs.items() if declared == verb]


def false_decision(result: Result, scheduler: Scheduler) -> str | None:
    """Return a description of the first decision of a run that cannot be true; None if there is none.

    Parameters
    ----------
    result
        Result with the tables ``decisions``, ``message_log``, ``schedule`` and ``arrivals``.
    """
    table, applications, machines = result.tables["decisions"], result.applications, machine_count(result)
    i, time, decider, tasks = (table[name] for name in ("application", "time", "decider", "tasks"))
    release, application_tasks = (applications[name] for name in ("release", "tasks"))
    of_tasks = [
        action
        for action, (sentence, _, _) in scheduler.decision_words.items()
        if "tasks" in _columns(sentence) and scheduler.decision_verbs.get(action) != "mentions"
    ]
    has_count = np.isin(table["action"], of_tasks)
    is_known = (i >= 0) & (i < len(applications))
    for k in np.flatnonzero(~is_known)[:1]:
        return f"decisions[{k}] is about application {i[k]}, but there are {len(applications)}"
    for is_wrong, text in (
        (time < release[i], "before its release"),
        (time > result.provenance["clock_seconds"] + 1e-9, "after the end of the run"),
        (
            has_count & ((tasks < 0) | (tasks > application_tasks[i])),
            "about more tasks than the application has",
        ),
        ((decider < -1) | (decider >= machines), "by a machine that does not exist"),
        ((table["machine"] < -1) | (table["machine"] >= machines), "about a machine that does not exist"),
        ((table["among"] < -1) | (table["among"] > _largest_choice(result)), "among more than there are"),
        ((table["age"] < 0) | (table["age"] > time + 1e-9), "seen before the run, or later than decided"),
    ):
        for k in np.flatnonzero(is_wrong)[:1]:
            return f"decisions[{k}] must not be {text}: {table[k]}"
    first = np.full(len(applications), np.inf)
    np.minimum.at(first, i, time)
    for k in np.flatnonzero(applications["first_start"] < first - 1e-9)[:1]:
        start = applications["first_start"][k]
        return f"application {k} starts at {start} s, but its first decision is at {first[k]} s"
    if unit_error := _unit_error(result):
        return unit_error
    is_informed, has_no_failures = scheduler.informed_by_messages, result.scenario.faults is None
    # actions without a count may be about one task each; those of schedulers that know everything may be
    # about tasks that only wait
    all_have_counts = len(of_tasks if is_informed else _actions(scheduler, "gives")) == len(
        scheduler.decision_words
    )
    problem = None if is_informed else _excess_tasks(result, has_count)
    problem = problem or (_unannounced_tasks(result, has_count) if all_have_counts else None)
    if is_informed:
        release_machine = release_machines(scheduler, len(result.machines))[applications["submitter"]]
        problem = problem or (
            (uninformed_action(result, release_machine) or _too_recent_value(result))
            if has_no_failures
            else _decision_while_down(result)
        )
    return (
        problem
        or (_missing_transfer(result, scheduler) if has_no_failures else None)
        or _keep_on_other_machine(result, scheduler)
    )


def _unit_error(result: Result) -> str | None:
    """Return a description of an action whose seen values are a multiple of the true values; else None.

    Outdated values differ from the true ones, too, but not all by the same large factor.  The values of the
    deciding machine itself are checked first, because they are the most recent ones.
    """
    table = result.tables["decisions"]
    positive = (
        (table["saw"] > 0) & (table["true"] > 0) & np.isfinite(table["saw"]) & np.isfinite(table["true"])
    )
    for is_considered in (positive & (table["decider"] == table["machine"]), positive):
        for action in sorted({*table["action"][is_considered].tolist()}):
            rows = np.flatnonzero(is_considered & (table["action"] == action))
            factor, true = table["saw"][rows] / table["true"][rows], table["true"][rows]
            constant = np.ptp(factor) < 1e-9 * factor[0] and np.ptp(true) > 1e-6 * true[0]
            if constant and not 1.0 / _UNIT_RATIO < factor[0] < _UNIT_RATIO:
                return f"each decision {action!r} saw {factor[0]:g} times the true value: {table[rows[0]]}"
    return None


def _decision_while_down(result: Result) -> str | None:
    """Return a description of the first decision by a machine that is down while others are up; else None."""
    faults, table, machines = result.scenario.faults, result.tables["decisions"], len(result.machines)
    assert faults is not None
    until, time = result.provenance["clock_seconds"] + 1.0, table["time"]
    if faults.reachable:
        return None
    is_down = np.zeros((machines, len(table)), np.bool_)
    for u, down, up in faults.outages(machines, until):
        is_down[u] = ((down < time[:, None]) & (time[:, None] < up)).any(axis=1)
    rows = np.flatnonzero((table["decider"] >= 0) & (table["decider"] < machines) & ~is_down.all(axis=0))
    for k in rows[is_down[table["decider"][rows], rows]][:1]:
        return f"decisions[{k}] is by machine {table['decider'][k]}, which is down: {table[k]}"
    return None


def _too_recent_value(result: Result) -> str | None:
    """Return a description of the first decision with a value more recent than any message; else None.

    Values known at the start of the run need no message.  Nor do true values, which the decider may have
    read from itself.
    """
    table, network = result.tables["decisions"], result.scenario.network
    log_info = result.provenance["message_log"]
    if "exchanges" in result.tables or log_info["delays"] or log_info.get("left_out"):
        return None
    from_other_machine = (
        (table["machine"] >= 0) & (table["decider"] >= 0) & (table["machine"] != table["decider"])
    )
    is_own_value = np.isnan(table["true"]) | np.isclose(table["saw"], table["true"], rtol=1e-9, atol=0.0)
    min_latency = network.latency - network.jitter
    is_early = table["age"] < np.minimum(min_latency, table["time"]) - 1e-9
    for k in np.flatnonzero(from_other_machine & ~is_own_value & is_early)[:1]:
        return f"decisions[{k}] is too early: a message from its machine takes {min_latency:g} s: {table[k]}"
    return None


def _excess_tasks(result: Result, has_count: Bools) -> str | None:
    """Return a description of the first decision about more tasks than are uncompleted then; else None.

    Parameters
    ----------
    has_count
        bool[decisions], whether a decision states a number of tasks.
    """
    table, schedule, totals = (
        result.tables["decisions"],
        result.tables["schedule"],
        result.applications["tasks"],
    )
    order = np.argsort(schedule["end"], kind="stable")
    owner, end, completed = (schedule[name][order] for name in ("application", "end", "completed"))
    for i in np.unique(table["application"][has_count]):
        rows = np.flatnonzero(has_count & (table["application"] == i))
        completed_before = np.concatenate([[0], np.cumsum(completed[owner == i])])
        remaining = totals[i] - completed_before[np.searchsorted(end[owner == i], table["time"][rows] - 1e-9)]
        for k in np.flatnonzero(table["tasks"][rows] > remaining)[:1]:
            row = rows[k]
            return f"decisions[{row}] has too many tasks: only {remaining[k]} are not completed: {table[row]}"
    return None


def _missing_transfer(result: Result, scheduler: Scheduler) -> str | None:
    """Return a description of decisions that give a machine more tasks than arrive there; else None.

    Machines that may have forwarded tasks of the application are left out, and so are receivers of messages
    that were not delivered.

    Parameters
    ----------
    result
        Result of a run without failures.
    """
    has_full_log = "exchanges" not in result.tables and not result.provenance["message_log"].get("left_out")
    if not _actions(scheduler, "gives") or not has_full_log or not len(result.tables.get("arrivals", ())):
        return None
    applications, machines = result.applications, len(result.machines)
    arrival_counts: Counter[tuple[int, int]] = Counter()
    queued = np.zeros(len(applications), np.int64)
    for row in result.tables["arrivals"].rows():
        arrival_counts[row["application"], row["machine"]] += max(0, row["tasks"])
        queued[row["application"]] += max(0, row["tasks"])
    is_known = (queued >= applications["tasks"]) & ~np.isnan(applications["finish"])
    forwarders = _possible_forwarders(result, scheduler)
    for (i, machine), tasks in _announced_transfers(result, scheduler).items():
        is_excluded = (i, machine) in forwarders or (-1, machine) in forwarders or not 0 <= machine < machines
        if is_known[i] and tasks > arrival_counts[i, machine] and not is_excluded:
            received = arrival_counts[i, machine]
            return (
                f"decisions give {tasks} tasks of application {i} to machine {machine}, which has received "
                f"{received}"
            )
    return None


def _keep_on_other_machine(result: Result, scheduler: Scheduler) -> str | None:
    """Return a description of the first decision to keep tasks that names another machine; else None."""
    keep_actions = [
        action
        for action in _actions(scheduler, "keeps")
        if "machine" in _columns(scheduler.decision_words[action][0])
    ]
    if not isinstance(scheduler, NodeScheduler) or not keep_actions or "arrivals" not in result.tables:
        return None
    table, arrivals = result.tables["decisions"], result.tables["arrivals"]
    names, transfers = ("application", "machine", "time"), _transfer_messages(result, scheduler)
    queued = set(zip(*(arrivals[name].tolist() for name in (*names, "tasks")), strict=True))
    arrival_places = set(zip(*(arrivals[name].tolist() for name in names), strict=True))
    for k in np.flatnonzero(np.isin(table["action"], keep_actions)).tolist():
        i, decider, machine, at, tasks = (
            table[name][k] for name in ("application", "decider", "machine", "time", "tasks")
        )
        is_elsewhere = (i, machine, at) in arrival_places or (i, decider, machine, at) in transfers
        if (i, decider, at, tasks) in queued and not is_elsewhere:
            return (
                f"decisions[{k}] has the wrong machine: machine {decider} has queued these tasks: {table[k]}"
            )
    return None


def _announced_transfers(result: Result, scheduler: Scheduler) -> Counter[tuple[int, int]]:
    """Return (application, machine) -> number of tasks that decisions give to the machine.

    A decision counts unless the machine may have given the tasks to itself, as several nodes of a tree on one
    machine do.  It counts in any case if a message of a node program moves tasks to the machine at that time.
    """
    table, transfers = result.tables["decisions"], _transfer_messages(result, scheduler)
    give_actions = _actions(scheduler, "gives")
    counts: Counter[tuple[int, int]] = Counter()
    for row in table.rows():
        i, decider, machine = row["application"], row["decider"], row["machine"]
        has_message = (i, decider, machine, row["time"]) in transfers
        is_to_other_machine = decider != machine and row["level"] < 0
        if row["action"] in give_actions and (has_message or is_to_other_machine):
            counts[i, machine] += row["tasks"]
    return counts


def _transfer_messages(result: Result, scheduler: Scheduler) -> set[tuple[int, int, int, float]]:
    """Return application, sender, receiver and time (s) of messages of a node program that move tasks."""
    kinds = scheduler.messages if isinstance(scheduler, NodeScheduler) else {}
    log = result.tables["message_log"]
    is_transfer = np.isin(log["kind"], [kind for kind, message in kinds.items() if message.moves_tasks])
    names = ("application", "sender", "receiver", "sent")
    return set(zip(*(log[name][is_transfer].tolist() for name in names), strict=True))


def _possible_forwarders(result: Result, scheduler: Scheduler) -> set[tuple[int, int]]:
    """Return (application, machine) of machines that may have forwarded tasks, or may still receive tasks.

    Application -1 stands for any.  With schedulers on cohorts, a message without an application may have
    brought tasks of any application that its receiver sends or queues from then on.
    """
    log, arrivals = result.tables["message_log"], result.tables["arrivals"]
    forwarders: set[tuple[int, int]] = set()
    # application, machine -> time (s) of the last message or arrival
    last_contact: dict[tuple[int, int], float] = {}
    # sender, receiver -> time (s) of the first message without an application
    first_without_application: dict[tuple[int, int], float] = {}
    names = ("application", "sender", "receiver", "sent", "delivered")
    for i, sender, receiver, at, delivered in zip(*(log[name].tolist() for name in names), strict=True):
        if np.isnan(delivered):
            forwarders.add((i, receiver))
        if i >= 0:
            forwarders.add((i, sender))
            last_contact[i, sender] = max(at, last_contact.get((i, sender), at))
        elif not isinstance(scheduler, NodeScheduler):
            first_without_application[sender, receiver] = min(
                delivered, first_without_application.get((sender, receiver), delivered)
            )
    for row in arrivals.rows():
        key = row["application"], row["machine"]
        last_contact[key] = max(row["time"], last_contact.get(key, 0.0))
    logged_applications = {*log["application"].tolist()}
    for (sender, receiver), at in first_without_application.items():
        for i in range(len(result.applications)):
            if i not in logged_applications or last_contact.get((i, receiver), -1.0) >= at:
                forwarders.add((i, sender))
    return forwarders


def _unannounced_tasks(result: Result, has_count: Bools) -> str | None:
    """Return a description of the first completed application with tasks that are in no decision; else None.

    Parameters
    ----------
    has_count
        bool[decisions], whether a decision states a number of tasks.
    """
    table, applications = result.tables["decisions"], result.applications
    decision_tasks = np.zeros(len(applications), np.int64)
    np.add.at(decision_tasks, table["application"][has_count], table["tasks"][has_count])
    has_decision = np.bincount(table["application"][has_count], minlength=len(applications)) > 0
    is_missing = has_decision & (decision_tasks < applications["tasks"]) & ~np.isnan(applications["finish"])
    for i in np.flatnonzero(is_missing)[:1]:
        return (
            f"all decisions on application {i} are about {decision_tasks[i]} tasks, but it has "
            f"{applications['tasks'][i]}"
        )
    return None


def _largest_choice(result: Result) -> int:
    """Return the largest number of things that a decision can count: cores and servers, or applications."""
    return max(result.scenario.platform.core_count + result.servers, len(result.applications))


def machine_count(result: Result) -> int:
    """Return the number of machines of a result, including servers."""
    return len(result.machines) + result.servers


def uninformed_action(result: Result, release_machine: Integers) -> str | None:
    """Return a description of the first action on an application unknown to the machine; else None.

    Actions are decisions, messages about the application, and starts of its tasks.  A machine knows an
    application once it was submitted there, or once a message arrives from a machine that knew it.

    Parameters
    ----------
    result
        Result of a run without failures that has the table ``message_log``.
    release_machine
        int64[applications], the machine at which each application becomes known.
    """
    log, applications = result.tables["message_log"], result.applications
    log_info = result.provenance["message_log"]
    # the log may lack exchanges, messages with fixed delays, and messages that failures prevented
    if (
        "exchanges" in result.tables
        or log_info["delays"]
        or log_info.get("left_out")
        or result.scenario.faults is not None
    ):
        return None
    is_delivered = ~np.isnan(log["delivered"])
    sent, delivered, sender, receiver = (
        log[name][is_delivered] for name in ("sent", "delivered", "sender", "receiver")
    )
    acts = [("sends a message about", log["application"], log["sender"], log["sent"])]
    for table, verb, machine_column, time_column in (
        ("decisions", "decides on", "decider", "time"),
        ("schedule", "starts a task of", "machine", "start"),
    ):
        if table in result.tables:
            rows_table = result.tables[table]
            acts.append(
                (verb, rows_table["application"], rows_table[machine_column], rows_table[time_column])
            )
    for i in range(len(applications)):
        informed_at = np.full(machine_count(result), np.inf)
        informed_at[release_machine[i]] = applications["release"][i]
        previous = informed_at - 1
        while (previous != informed_at).any():
            previous = informed_at.copy()
            is_informative = sent >= informed_at[sender] - 1e-9
            np.minimum.at(informed_at, receiver[is_informative], delivered[is_informative])
        for verb, application, machine, time in acts:
            rows = np.flatnonzero((application == i) & (machine >= 0) & (machine < len(informed_at)))
            uninformed_rows = rows[time[rows] < informed_at[machine[rows]] - 1e-9]
            for k in uninformed_rows[:1]:
                reason = f"and no message can tell it of that before {informed_at[machine[k]]} s"
                return f"machine {machine[k]} {verb} application {i} at {time[k]} s, {reason}"
    return None
