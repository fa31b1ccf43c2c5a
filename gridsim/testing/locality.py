"""Checks that machines use only information that messages can have brought.

The main check runs a scenario unchanged, and again with one machine changed from some time on: its
applications, its speed, or a failure.  News of the change spreads only by messages: a machine receives it
with a message from a machine that had it when it sent the message.  Until then, each machine must send the
same messages and start the same tasks in both runs.  `lost_state_use` checks that a machine that fails loses
its memory, and `isolate_nodes` runs each node with its own copy of the scheduler's modules.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from gridsim.model.applications import Applications
from gridsim.model.faults import Faults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.nodes.adapter import ProgramScheduler
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.nodes.program import NodeProgram
from gridsim.scheduling.nodes.roles import Role
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.testing.action_log import first_difference
from gridsim.testing.cases import with_one_core, without_dependencies
from gridsim.testing.decision_checks import machine_count, uninformed_action
from gridsim.testing.introspection import OwnCode
from gridsim.testing.perturbations import (
    UNREACHED_TIME,
    Change,
    all_changes,
    change_application,
    changed_workload,
    failure,
    has_only_owner_events,
    release_machines,
)
from gridsim.testing.run_limits import SLOW_MESSAGES, SLOW_MESSAGES_AND_FAILURE, skip_endless
from gridsim.testing.run_traces import ObservedRun, observe
from gridsim.validation.results import validate_result

#: Latencies (s) of messages, long enough for news to spread slowly; the seed of the scenario selects one.
#: Runs with a failure use the first one, since failures are detected after about a minute.
_LATENCIES = (40.0, 150.0)
#: Horizon (s) from which on messages take that long; with a shorter one they take proportionally less.
_USUAL_HORIZON = 1200.0
#: Maximum number of random streams of a scenario that are changed, one at a time.
_MAX_STREAMS = 2
#: Maximum number of changes that are tried while another machine is down.
_MAX_CHANGES_WHILE_DOWN = 3
#: Maximum number of changes that are tried while a submitting machine is down.
_MAX_CHANGES_OF_SUBSTITUTE = 4


def locality_violation(
    scenario: Scenario, scheduler: Scheduler, can_fail: bool, horizon: float, skipped_variants: set[str]
) -> str | None:
    """Describe the first action that a change alters before the machine can know it; None if none.

    The scenario is run without its failures, on machines of one core, with tasks of equal sizes, and with
    long latencies; and, with failures of one machine, without dependencies of applications.
    Parameters that the scheduler derives from platform and workload before the run (`Scheduler.explicit`)
    stay the same.

    Parameters
    ----------
    can_fail
        Whether machines may fail.
    horizon
        Approximate time that runs may span, s.
    skipped_variants
        The set to which the names of variants are added whose runs reach one of `LIMITS`.
    """
    if scenario.platform.nodes < 2:
        return None
    scenario = with_one_core(scenario)
    applications = scenario.workload.realize(scenario.platform)
    if applications.task_sizes is not None:
        # unequal tasks get their sizes in order of arrival at any machine, although no message tells this
        # order
        columns = (applications.release, applications.tasks, applications.task_size)
        scenario = dataclasses.replace(
            scenario, workload=changed_workload(applications, scenario.platform, *columns)
        )
        applications = scenario.workload.realize(scenario.platform)
    explicit_scheduler = scheduler.explicit(scenario.platform.speeds, applications)
    latencies = [item * min(1.0, horizon / _USUAL_HORIZON) for item in _LATENCIES]
    latency = latencies[scenario.seed % len(latencies)]
    if isinstance(explicit_scheduler, BoardScheduler):
        explicit_scheduler = with_old_board(explicit_scheduler, latencies[0])
    base_scenario = _with_latency(scenario, latency)
    first = observe(base_scenario, explicit_scheduler)
    if first.board_age is not None and len(first.delayed_messages):
        return None  # the scheduler is declared to be free of delays
    difference = (
        first.message_fault
        or uninformed_action(first.result, first.release_machine)
        or _violations_text(first.result)
    )
    if difference:
        return f"messages take {latency:g} s: {difference}"
    for change in all_changes(base_scenario, applications, explicit_scheduler):
        with skip_endless(skipped_variants, SLOW_MESSAGES):
            if difference := _difference(first, observe(change.scenario, explicit_scheduler), change):
                return f"messages take {latency:g} s, and {change.text}: {difference}"
    for k in range(min(_MAX_STREAMS, len(first.streams))):
        name = [*first.streams][(scenario.seed + k * 5) % len(first.streams)]
        with skip_endless(skipped_variants, SLOW_MESSAGES):
            if difference := _difference_by_stream(
                first, observe(base_scenario, explicit_scheduler, name), base_scenario, name
            ):
                return f"messages take {latency:g} s, and {difference}"
    if not can_fail or scenario.platform.bandwidth is not None or applications.group is not None:
        return None
    if applications.predecessors is not None:
        # a substitute of a failed machine gets releases whose instants tell it of other machines
        scenario, base_scenario = without_dependencies(scenario), without_dependencies(base_scenario)
        applications = scenario.workload.realize(scenario.platform)
        first = observe(base_scenario, explicit_scheduler)
    if applications.rigid and latency > latencies[0] and not _runs_jobs(base_scenario, explicit_scheduler):
        latency, base_scenario = latencies[0], _with_latency(scenario, latencies[0])
        first = observe(base_scenario, explicit_scheduler)
    base = base_scenario, applications, explicit_scheduler
    checks_with_failures = [
        partial(_differing_while_down, *base),
        partial(_difference_by_substitute, *base),
        partial(_difference_of_substitute, *base),
        partial(_differing_after_failure, _with_latency(scenario, latencies[0]), *base[1:], first),
        partial(_stream_of_two_machines, *base, first),
    ]
    if first.board_age is None:  # a board gives its information back
        checks_with_failures.append(partial(lost_state_use, *base, first.result))
    for check in checks_with_failures:
        with skip_endless(skipped_variants, SLOW_MESSAGES_AND_FAILURE):
            if difference := check():
                return difference
    return None


def with_old_board(scheduler: BoardScheduler, age: float) -> BoardScheduler:
    """Return the scheduler with a board that shows exactly what was published `age` s ago."""
    return msgspec.structs.replace(scheduler, refresh="continuous", age=age, error=0.0)


def _violations_text(result: Result) -> str | None:
    """Return the violations of a run as text; None if there are none."""
    return "; ".join(map(str, validate_result(result))) or None


def _with_latency(scenario: Scenario, latency: float) -> Scenario:
    """Return the scenario without failures, with messages that take `latency` s."""
    slow = msgspec.structs.replace(scenario.network, latency=latency, jitter=0.0)
    return dataclasses.replace(scenario, network=slow, faults=None)


def _runs_jobs(base_scenario: Scenario, explicit_scheduler: Scheduler) -> bool:
    """Return whether a job starts if machines may fail: then timeouts may be shorter than messages take."""
    never = Faults.of([0], [UNREACHED_TIME], [UNREACHED_TIME], has_only_owner_events(explicit_scheduler))
    run = observe(dataclasses.replace(base_scenario, faults=never), explicit_scheduler)
    return len(run.result.tables["schedule"]) > 0


def _differing_while_down(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler
) -> str | None:
    """Describe an action that differs before news of a change can arrive, with a machine down; else None.

    A machine that submits nothing is down from 0 s until after the end.  Its failure must not reveal
    anything about other machines.
    """
    nodes = base_scenario.platform.nodes
    submitters = {
        *applications.submitter,
        *release_machines(explicit_scheduler, nodes)[applications.submitter],
    }
    for v in [u for u in range(nodes) if u not in submitters][:1]:
        faults = Faults.of([v], [0.0], [UNREACHED_TIME], has_only_owner_events(explicit_scheduler))
        down = dataclasses.replace(base_scenario, faults=faults)
        first, changes = (
            observe(down, explicit_scheduler),
            [*all_changes(down, applications, explicit_scheduler)],
        )
        changes = [change for change in changes if change.machine != v]
        for k in range(min(_MAX_CHANGES_WHILE_DOWN, len(changes))):
            change = changes[
                (base_scenario.seed + k * len(changes) // _MAX_CHANGES_WHILE_DOWN) % len(changes)
            ]
            change = dataclasses.replace(change, down=v)
            if difference := _difference(first, observe(change.scenario, explicit_scheduler), change):
                return f"machine {v} is down, and {change.text}: {difference}"
    return None


def _difference_by_substitute(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler
) -> str | None:
    """Describe a difference if the substitute of a failed machine draws other random numbers; else None.

    A machine is down from 0 s until after its first application, so that it loses no tasks, and recovers
    before it submits the next one.
    """
    release, candidates = applications.release, []
    for v in np.unique(applications.submitter).tolist():
        releases = release[applications.submitter == v]
        if len(later := releases[releases > releases[0]]):
            candidates.append((float(later[0] - releases[0]), v, float(releases[0] + later[0]) / 2))
    if not candidates:
        return None
    _, v, recovery = min(candidates)
    faults = Faults.of([v], [0.0], [recovery], has_only_owner_events(explicit_scheduler))
    scenario = dataclasses.replace(base_scenario, faults=faults)
    first = observe(scenario, explicit_scheduler)
    # the names of a machine's own random streams contain its number
    own_streams = [name for name in first.streams if str(v) in re.findall(r"\d+", name)]
    names = own_streams or [*first.streams]
    for k in range(min(_MAX_STREAMS, len(names))):
        name = names[(base_scenario.seed + k) % len(names)]
        if difference := _difference_by_stream(
            first, observe(scenario, explicit_scheduler, name), scenario, name
        ):
            return f"machine {v} is down until {recovery:g} s, and {difference}"
    return None


def _difference_of_substitute(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler
) -> str | None:
    """Describe a difference by a change that the substitute of a failed machine cannot know; else None.

    The machine whose first application is the last one is down from 0 s until just after that application.
    Others are changed before it.
    """
    submitters, firsts = np.unique(applications.submitter, return_index=True)
    v, first_release = int(submitters[firsts.argmax()]), float(applications.release[firsts.max()])
    faults = Faults.of([v], [0.0], [first_release + 1.0], has_only_owner_events(explicit_scheduler))
    scenario = dataclasses.replace(base_scenario, faults=faults)
    changes = [
        change
        for change in all_changes(scenario, applications, explicit_scheduler)
        if change.machine != v and change.since <= first_release * NS
    ]
    first = observe(scenario, explicit_scheduler) if changes else None
    for change in changes[:: -(-len(changes) // _MAX_CHANGES_OF_SUBSTITUTE)] if changes else []:
        assert first is not None
        change = dataclasses.replace(change, down=v)
        if difference := _difference(first, observe(change.scenario, explicit_scheduler), change):
            return f"machine {v} is down until {first_release + 1.0:g} s, and {change.text}: {difference}"
    return None


def _differing_after_failure(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler, first: ObservedRun
) -> str | None:
    """Describe an action that differs before news of an idle machine's failure can arrive; else None.

    Parameters
    ----------
    base_scenario
        The scenario with the shortest latency.
    first
        A run of the scenario, possibly with another latency.
    """
    latency = base_scenario.network.latency
    if first.result.scenario.network.latency != latency:
        first = observe(base_scenario, explicit_scheduler)
    for v, at in _idle_machines(first, applications, base_scenario.seed):
        without_failure, change = failure(base_scenario, v, at, has_only_owner_events(explicit_scheduler))
        change = dataclasses.replace(change, known_by_all=explicit_scheduler.failures_known)
        if difference := _difference(
            observe(without_failure, explicit_scheduler), observe(change.scenario, explicit_scheduler), change
        ):
            return f"messages take {latency:g} s, and {change.text}: {difference}"
    return None


def _idle_machines(run: ObservedRun, applications: Applications, seed: int) -> Iterator[tuple[int, float]]:
    """Iterate over (machine, time in s) at which a machine that submits nothing is idle.

    The failure of a machine without tasks matters only to machines that exchanged requests with it.
    """
    result, submitters = run.result, np.union1d(applications.submitter, run.release_machine)
    release, count, latency = applications.release, len(applications), result.scenario.network.latency
    schedule, log = result.tables["schedule"], result.tables["message_log"]
    began = np.full(machine_count(result), math.inf)
    np.minimum.at(began, schedule["machine"], schedule["start"])
    began[submitters] = -math.inf
    early, late = float(release[seed % count]), float(release[-1 - seed % count])
    # at the last of these times, the answer to a message that was sent at a release is in flight
    for at in sorted({early + 10.0, max(0.0, late - 1.0), early + 1.5 * latency}):
        yield from [(v, at) for v in range(len(result.machines)) if began[v] > at][:1]
    # another time is when a message from the machine is in flight, preferably to a busy machine
    is_by_nonsubmitter = (log["sender"] < len(result.machines)) & ~np.isin(log["sender"], submitters)
    sent_at, delivered_at = log["sent"], log["sent"] + latency
    messages = np.flatnonzero(is_by_nonsubmitter).tolist()
    messages = [
        k for k in messages if not _is_computing(result, log["sender"][k], sent_at[k], delivered_at[k])
    ]
    messages_to_busy = [
        k for k in messages if _is_computing(result, log["receiver"][k], delivered_at[k], delivered_at[k])
    ]
    if messages := messages_to_busy or messages:
        k = messages[seed % len(messages)]
        yield int(log["sender"][k]), float(sent_at[k]) + latency / 4


def _is_computing(result: Result, machine: int, begin: float, end: float) -> bool:
    """Return whether a machine has a task at any time from `begin` to `end` s."""
    schedule = result.tables["schedule"]
    is_on_machine = schedule["machine"] == machine
    return bool((is_on_machine & (schedule["start"] <= end) & (schedule["end"] >= begin)).any())


def _informed_times(base: ObservedRun, variant: ObservedRun, change: Change) -> Integers:
    """Return the time (ns) from which each machine can know the change: int64[machines + servers]."""
    latency = nanoseconds(base.result.scenario.network.latency)
    informed_at = np.full(max(machine_count(run.result) for run in (base, variant)), NEVER)
    informed_at[slice(None) if change.known_by_all else change.machine] = change.since
    if change.down is not None:
        informed_at[change.down] = 0
    for run in (base, variant):
        if run.board_age is not None:
            np.minimum(informed_at, change.since + run.board_age, out=informed_at)
    for result in (base.result, variant.result):
        if "exchanges" in result.tables:  # exchanges are not logged, and take as long as a message
            np.minimum(informed_at, change.since + latency, out=informed_at)
    if "predecessors" in base.result.applications:  # users who wait for results submit at other times
        release, other_release = (run.result.applications["release"] for run in (base, variant))
        differs = (release != other_release) & ~(np.isnan(release) & np.isnan(other_release))
        news_time = np.rint(np.fmin(release, other_release)[differs] * NS).astype(np.int64)
        np.minimum.at(informed_at, base.release_machine[differs], news_time)
    logs = [run.result.tables["message_log"] for run in (base, variant)]
    log = {name: np.concatenate([table[name] for table in logs]) for name in logs[0]}
    is_lost, is_delivered = log["dropped"] != 0, ~np.isnan(log["delivered"])
    sent = np.rint(log["sent"] * NS).astype(np.int64)
    # when a message to a failed machine would have arrived, its sender detects the loss, as does the
    # submitter of the application in the message; the submitter may even learn of it at the failure
    has_fixed_delay = np.isin(log["kind"], [*base.result.provenance["message_log"]["delays"]])
    detection_time = np.where(has_fixed_delay, sent, sent + latency)
    np.minimum.at(informed_at, log["sender"][is_lost], np.maximum(detection_time[is_lost], change.since))
    # with a missing application, the runs number the later ones differently
    submitter = np.concatenate(
        [run.release_machine[run.result.tables["message_log"]["application"]] for run in (base, variant)]
    )
    is_about_application = is_lost & (log["application"] >= 0)
    submitter_detection = np.where(sent < change.since, change.since, detection_time)
    np.minimum.at(informed_at, submitter[is_about_application], submitter_detection[is_about_application])
    if change.fails:
        # so do submitters whose tasks the machine holds, as it got them in a message before
        has_tasks = (log["receiver"] == change.machine) & (log["delivered"] <= change.since / NS)
        has_tasks &= np.isin(log["kind"], base.task_kinds)
        np.minimum.at(informed_at, submitter[has_tasks], change.since)
        for run in (base, variant):
            result = run.result
            # submitters learn of the failure if their tasks are on the machine, or their jobs have reserved
            # it
            holders = result.tables.get("arrivals", result.tables["schedule"])
            is_on_machine = holders["machine"] == change.machine
            if "arrivals" in result.tables and not result.rigid:
                is_on_machine &= holders["time"] <= change.since / NS
            applications_on_machine = holders["application"][is_on_machine]
            np.minimum.at(informed_at, run.release_machine[applications_on_machine], change.since)
    sent, sender, receiver = (column[is_delivered] for column in (sent, log["sender"], log["receiver"]))
    # a message that waits for a busy interface counts as delivered after the latency
    delivered = np.minimum(np.rint(log["delivered"][is_delivered] * NS).astype(np.int64), sent + latency)
    # messages with a delay of their own may be missing from the log
    delayed = np.concatenate([base.delayed_messages, variant.delayed_messages])
    sent, sender, receiver, delivered = (
        np.concatenate(columns)
        for columns in zip(
            (sent, sender, receiver, delivered),
            (*delayed[:, :3].T, delayed[:, 0] + delayed[:, 3]),
            strict=True,
        )
    )
    previous = informed_at.copy() - 1
    while (previous != informed_at).any():
        previous = informed_at.copy()
        is_informative = sent >= informed_at[sender]
        np.minimum.at(informed_at, receiver[is_informative], delivered[is_informative])
    return informed_at


def _difference(base: ObservedRun, variant: ObservedRun, change: Change) -> str | None:
    """Describe the first action of a machine that differs before news of the change can arrive; else None."""
    end = min(base.end, variant.end)
    informed_at = np.minimum(_informed_times(base, variant, change), end).tolist()
    difference = first_difference(base.actions, variant.actions, informed_at, change.missing)
    if difference is None:
        return None
    (at, machine, kind, values), qualifier = difference
    news_time = informed_at[machine] / NS
    return (
        f"machine {machine} at {at / NS} s: {kind} {dict(values)} {qualifier}, although it has no news until "
        f"{news_time} s"
    )


def _difference_by_stream(
    base: ObservedRun, variant: ObservedRun, base_scenario: Scenario, name: str
) -> str | None:
    """Describe a difference on other machines when one random stream draws other numbers; else None.

    The stream is assumed to belong to the first machine that acts differently.
    """
    if (user := _stream_user(base, variant)) is None:
        return None
    machine, at = user
    text = f"the stream {name!r}, which machine {machine} uses at {at / NS} s, draws other numbers"
    # an overlay with exchanges of entries draws numbers and sends messages before any machine acts
    since = 0 if "exchanges" in base.result.tables else at
    dependence = _difference(base, variant, Change(base_scenario, text, machine, since))
    return None if dependence is None else f"{text}: {dependence}"


def _stream_user(base: ObservedRun, variant: ObservedRun) -> tuple[int, int] | None:
    """Return the first machine that acts differently with another stream, and when (ns); else None."""
    end = [min(base.end, variant.end)] * max(machine_count(run.result) for run in (base, variant))
    if (difference := first_difference(base.actions, variant.actions, end)) is None:
        return None
    (at, machine, *_), _ = difference
    return machine, at


def _stream_of_two_machines(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler, first: ObservedRun
) -> str | None:
    """Describe a random stream that one machine uses, and another one for lost tasks; None if there is none.

    Some machines that have tasks fail for a second.  The streams that then draw other numbers of times are
    changed from the failure on: the first machine that acts differently must be the one that does so if they
    are changed in the run without the failure.

    Parameters
    ----------
    first
        A run of `base_scenario`.
    """
    schedule = first.result.tables["schedule"]
    if has_only_owner_events(explicit_scheduler) or not len(schedule) or "exchanges" in first.result.tables:
        return None
    row = (base_scenario.seed + 1) * len(schedule) // 5 % len(schedule)
    at = float(schedule["start"][row] + schedule["end"][row]) / 2
    failed = _busy_machines(first.result, at, {*applications.submitter.tolist()})
    if not failed:
        return None
    faults = Faults.of(failed, [at] * len(failed), [at + 1.0] * len(failed))
    scenario, since = dataclasses.replace(base_scenario, faults=faults), nanoseconds(at)
    lossy = observe(scenario, explicit_scheduler)
    names = [name for name, state in lossy.streams.items() if first.streams.get(name) != state]
    for k in range(min(_MAX_STREAMS, len(names))):
        name = names[(base_scenario.seed + k) % len(names)]
        owner = _stream_user(first, observe(base_scenario, explicit_scheduler, name))
        user = _stream_user(lossy, observe(scenario, explicit_scheduler, name, change_at=since))
        if owner is not None and user is not None and owner[0] != user[0]:
            return (
                f"messages take {base_scenario.network.latency:g} s, and machines {failed} fail at {at:g} s "
                f"for a second: machine {user[0]} uses the stream {name!r} at {user[1] / NS} s, which is "
                f"that of machine {owner[0]}"
            )
    return None


#: Maximum number of machines that fail together with the submitter of the last application.
_MAX_BUSY = 3


def lost_state_use(
    base_scenario: Scenario, applications: Applications, explicit_scheduler: Scheduler, result: Result
) -> str | None:
    """Describe an action that depends on the memory of a machine from before its failure; else None.

    A machine that submits only the last application fails for a second just before it.  At the same time
    some machines that have tasks and submit nothing fail.  Changes elsewhere must not
    affect their actions until a message arrives from a machine that has not failed.

    Parameters
    ----------
    result
        The result of `base_scenario`.
    """
    scenario = _with_newcomer(base_scenario, applications)
    # if failures are known at once, other machines may restore the memory of a failed machine at once
    if scenario is None or explicit_scheduler.failures_known or has_only_owner_events(explicit_scheduler):
        return None
    applications = scenario.workload.realize(scenario.platform)
    last, newcomer = len(applications) - 1, int(applications.submitter[-1])
    recovery = float(applications.release[-1]) - 1.0
    failed = [newcomer, *_busy_machines(result, recovery - 1.0, {*applications.submitter.tolist()})]
    ends = [*[recovery] * len(failed), UNREACHED_TIME]
    faults = Faults.of([*failed, newcomer], [*[recovery - 1.0] * len(failed), UNREACHED_TIME], ends)
    scenario = dataclasses.replace(scenario, faults=faults)
    since = nanoseconds(recovery - 1.0)
    align_at = since + nanoseconds(0.5)  # while the failed machines are down
    first = observe(scenario, explicit_scheduler, align_at=align_at)
    if "exchanges" in first.result.tables:  # exchanges carry news, but are not logged
        return None
    has_fixed_tasks = explicit_scheduler.numbers_known and applications.requested is None
    for i in sorted({base_scenario.seed % last, last - 1}):
        workload, text = change_application(
            applications, i, scenario.platform, base_scenario.seed, has_fixed_tasks
        )
        second = observe(
            dataclasses.replace(scenario, workload=workload), explicit_scheduler, align_at=align_at
        )
        news_time = [0] * max(machine_count(run.result) for run in (first, second))
        # a node's random generator survives a failure, and its position may depend on the messages sent
        # before
        comparable = [
            v
            for v in failed
            if not first.draws_during_setup
            or first.actions.receivers(v, since) == second.actions.receivers(v, since)
        ]
        next_news = [_next_news(run, comparable, since) for run in (first, second)]
        for v in comparable:
            news_time[v] = min(first.end, second.end, *(news_of_run[v] for news_of_run in next_news))
        base, variant = (run.actions.since(since) for run in (first, second))
        if difference := first_difference(base, variant, news_time):
            (at, v, kind, values), qualifier = difference
            return (
                f"messages take {base_scenario.network.latency:g} s, {text}, and machines {failed} fail at "
                f"{since / NS} s for a second: machine {v} at {at / NS} s: {kind} {dict(values)} "
                f"{qualifier}, "
                f"although it has lost its memory, and has no news until {news_time[v] / NS} s"
            )
    return None


def _busy_machines(result: Result, at: float, submitters: set[int]) -> list[int]:
    """Return machines that submit nothing and run tasks at `at` s, in descending order of their last end.

    At least one machine is omitted, so that it stays up.
    """
    table = result.tables["schedule"]
    rows = (table["start"] < at) & (table["end"] > at)
    machines = [v for v in np.unique(table["machine"][rows]).tolist() if v not in submitters]
    ends = {v: float(table["end"][table["machine"] == v].max()) for v in machines}
    max_machines = min(_MAX_BUSY, result.scenario.platform.nodes - 2)
    return sorted(machines, key=lambda v: (-ends[v], v))[:max_machines]


def _with_newcomer(base_scenario: Scenario, applications: Applications) -> Scenario | None:
    """Return the scenario with the last application on a machine that submits no others; else None.

    The last application is released after news of the previous one has arrived there, and has many tasks
    unless it is a rigid job.
    """
    submitters, nodes = applications.submitter[:-1].tolist(), base_scenario.platform.nodes
    candidates = (
        [v for d in range(nodes) if (v := (submitters[-1] + d) % nodes) not in submitters]
        if submitters
        else []
    )
    if not candidates:
        return None
    columns = {name: getattr(applications, name).copy() for name in ("release", "tasks", "task_size")}
    latencies = (1, 2, 4)[base_scenario.seed // 2 % 3]  # enough for an answer, or for its effects as well
    gap = latencies * base_scenario.network.latency
    columns["release"][-1] = columns["release"][-2] + gap + 10.0
    if not applications.rigid:
        columns["tasks"][-1] = max(columns["tasks"][-1], 3 * nodes)
    submitter = np.array([*submitters, candidates[0]])
    workload = changed_workload(
        dataclasses.replace(applications, submitter=submitter), base_scenario.platform, **columns
    )
    return dataclasses.replace(base_scenario, workload=workload)


def _next_news(run: ObservedRun, failed: list[int], since: int) -> dict[int, int]:
    """Return failed machine -> time (ns) at which it first gets news after `since`.

    News is the detection that the machine's own message was lost, or a message from a machine that has not
    failed, has news, or sent it before the failure.
    """
    log, latency = run.result.tables["message_log"], nanoseconds(run.result.scenario.network.latency)
    sent, delivered = (np.rint(log[name] * NS) for name in ("sent", "delivered"))
    news_time = dict.fromkeys(failed, NEVER)
    for at, u, is_lost in zip(sent.tolist(), log["sender"].tolist(), log["dropped"].tolist(), strict=True):
        if is_lost and u in news_time and at + latency >= since:
            news_time[u] = min(news_time[u], int(at) + latency)
    rows = zip(
        sent.tolist(), log["sender"].tolist(), log["receiver"].tolist(), delivered.tolist(), strict=True
    )
    # delivered messages only; those that wait for a busy interface count as delivered after the latency
    messages = [(at, u, v, min(arrival, at + latency)) for at, u, v, arrival in rows if arrival == arrival]
    messages += [(at, u, v, at + delay) for at, u, v, delay in run.delayed_messages.tolist()]
    for at, u, v, arrival in sorted(
        messages, key=lambda row: row[3]
    ):  # in order of arrival, so that news is forwarded
        if (
            u != v
            and v in news_time
            and arrival >= since
            and (u not in news_time or at < since or at >= news_time[u])
        ):
            news_time[v] = min(news_time[v], int(arrival))
    return news_time


def can_isolate_nodes(scheduler: Scheduler) -> bool:
    """Return whether the scheduler has node programs of a module that can be imported again."""
    kind = type(scheduler)
    if not isinstance(scheduler, ProgramScheduler) or "interpreted" not in scheduler.node_forms:
        return False
    packages = OwnCode(scheduler).roots
    if kind.__module__.partition(".")[0] not in packages or kind.__module__ == "__main__":
        return False
    try:
        return _class_from_copy(scheduler, OwnCode(scheduler)) is not None
    except Exception:  # the module cannot be imported twice
        return False


@contextmanager
def isolate_nodes(scheduler: Scheduler) -> Iterator[None]:
    """Create each node of `scheduler` from a fresh copy of its modules, also after a failure.

    Nodes then share no attributes of classes or variables of modules, and none of these survive a failure.
    """
    kind: Any = type(scheduler)
    own_code = OwnCode(scheduler)

    def program(self: Any, node: int) -> Any:
        scheduler_class = _class_from_copy(self, own_code)
        assert scheduler_class is not None
        if scheduler_class.program is ProgramScheduler.program:
            return scheduler_class.policy(self)
        return scheduler_class.program(self, node)

    def role_from_copy(name: str, role: Role) -> Role:
        class RoleFromCopy(Role):
            def new_program(self, scheduler: Any) -> NodeProgram:
                scheduler_class = _class_from_copy(scheduler, own_code)
                assert scheduler_class is not None
                new_role: Role = scheduler_class.roles[name]
                return new_role.new_program(scheduler)

        return RoleFromCopy(**vars(role))

    changes: dict[str, Any] = {"program": program}
    if kind.roles:
        changes = {"roles": {name: role_from_copy(name, role) for name, role in kind.roles.items()}}
    originals = {name: kind.__dict__[name] for name in changes if name in kind.__dict__}
    for name, value in changes.items():
        setattr(kind, name, value)
    try:
        yield
    finally:
        for name in changes:
            if name in originals:
                setattr(kind, name, originals[name])
            else:
                delattr(kind, name)


def _class_from_copy(scheduler: Scheduler, own_code: OwnCode) -> Any:
    """Return the class of `scheduler` from a fresh copy of its modules; None if it is local to a function."""
    kind = type(scheduler)
    own_modules = {module.__name__: module for module in own_code.modules() if _is_reloaded(module, own_code)}
    for name in own_modules:
        del sys.modules[name]
    try:
        attribute: Any = import_module(kind.__module__)
        for name, module in own_modules.items():
            _share_compiled(module, sys.modules.get(name))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in own_code.roots]:
            if name not in own_modules:
                del sys.modules[name]
        sys.modules.update(own_modules)
    for name_part in kind.__qualname__.split("."):
        attribute = getattr(attribute, name_part, None)
    return attribute


def _is_reloaded(module: ModuleType, own_code: OwnCode) -> bool:
    return module.__name__.partition(".")[0] in own_code.roots


def _share_compiled(module: ModuleType, copy: ModuleType | None) -> None:
    """Share functions compiled by Numba with a copy of their module, to avoid compiling them again."""
    for name, value in vars(module).items() if copy is not None else ():
        if type(value).__module__.startswith("numba."):
            setattr(copy, name, value)
