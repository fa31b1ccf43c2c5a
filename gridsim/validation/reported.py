"""Checks of the reports of schedulers: bytes, queues, and tables of trees, searches and placements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import (
    NS,
    Violation,
    column_label,
    differences,
    is_declared,
    is_emulated,
    queue_numbers,
    violations_where,
)

#: The time (s) up to which sums of times are exact to 1 ns.
_EXACT_UNTIL = 1e6


def check_reported(result: Result) -> list[Violation]:
    """Check the tables that only the scheduler and the network can fill, and return the violations."""
    violations = _check_bytes(result)
    if "schedule" in result.tables:
        violations += _check_peak_queue(result)
    for table, check in _CHECKS.items():
        if is_declared(result, table):
            violations += check(result)
    return violations


def _check_bytes(result: Result) -> list[Violation]:
    """Check the bytes of each machine against the message log, or their sum if there is no log."""
    machines, log = result.machines, result.tables.get("message_log")
    log_info = result.provenance.get("message_log", {})
    if log is None or log_info.get("left_out"):
        # servers also send and receive, but have no rows in the table
        expected = result.messages["bytes"].sum()
        actual = {name: machines[name].sum() for name in ("bytes_out", "bytes_in")}
        return [
            Violation(
                "messages", 1, f"machines.{name}", f"add up to {total} B, but the messages have {expected} B"
            )
            for name, total in actual.items()
            if total > expected
        ]
    is_delivered, violations = ~np.isnan(log["delivered"]), []
    for name, endpoint, rows in (
        ("bytes_out", log["sender"], slice(None)),
        ("bytes_in", log["receiver"], is_delivered),
    ):
        known = (endpoint[rows] >= 0) & (endpoint[rows] < len(machines))
        log_sums = np.bincount(endpoint[rows][known], log["bytes"][rows][known], len(machines)).astype(
            np.int64
        )
        sums = machines[name]
        violations += differences(
            "messages", column_label(f"machines.{name}"), sums != log_sums, sums, log_sums, "the log has"
        )
    return violations


def _check_peak_queue(result: Result) -> list[Violation]:
    """Check the longest queue of each machine against the arrivals and starts.

    If tasks of a row differ in size or machines change their speed, the starts within a row are unknown, so
    nothing is checked.  A failure empties the queue of a machine; if another event happens at that instant,
    their order is unknown, and the machine is not checked.
    """
    arrivals, schedule = result.tables.get("arrivals"), result.tables["schedule"]
    if arrivals is None or not len(arrivals) or result.scenario.fluctuation is not None:
        return []
    if (
        "bandwidth" in result.machines
        or "largest_task" in result.applications
        or "task" in schedule
        or result.rigid
        or is_emulated(result)
    ):
        return []
    if schedule["end"].max(initial=0.0) > _EXACT_UNTIL:
        return []
    rows = np.repeat(np.arange(len(schedule)), schedule["tasks"])
    position = np.arange(len(rows)) - np.repeat(
        np.cumsum(schedule["tasks"]) - schedule["tasks"], schedule["tasks"]
    )
    begins = (
        schedule["start"][rows] + position * ((schedule["end"] - schedule["start"]) / schedule["tasks"])[rows]
    )
    machine = np.concatenate((arrivals["machine"], schedule["machine"][rows]))
    queue = np.concatenate((queue_numbers(result, "arrivals"), queue_numbers(result, "schedule")[rows]))
    change = np.concatenate((arrivals["tasks"], np.full(len(rows), -1)))
    at = np.rint(np.concatenate((arrivals["time"], begins)) / NS)
    incarnation, unclear = _failure_counts(result, machine, at)
    order = np.lexsort((change, at, incarnation, queue))
    machine, queue, incarnation, change, at = (
        column[order] for column in (machine, queue, incarnation, change, at)
    )
    starts_group = np.append(True, (np.diff(queue) != 0) | (np.diff(incarnation) != 0))
    waiting = np.cumsum(change)
    waiting -= (waiting - change)[np.flatnonzero(starts_group)][np.cumsum(starts_group) - 1]
    last = np.append((np.diff(at) != 0) | starts_group[1:], True)
    lower, upper = (np.zeros(len(result.machines), np.int64) for _ in range(2))
    np.maximum.at(lower, machine[last], waiting[last])
    # a task that arrives at an idle machine may count as waiting first, or start before the next task arrives
    begin = np.flatnonzero(np.append(True, last[:-1]))
    queue_before = np.where(starts_group[begin], 0, np.append(0, waiting)[begin])
    np.maximum.at(upper, machine[begin], queue_before + np.add.reduceat(np.maximum(change, 0), begin))
    actual = result.machines["peak_queue"]
    wrong = ((actual < lower) | (actual > upper)) & ~unclear
    expected = np.where(actual < lower, lower, upper)
    return differences(
        "agreement", column_label("machines.peak_queue"), wrong, actual, expected, "arrivals and starts give"
    )


def _failure_counts(result: Result, machine: Integers, at: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the number of failures before each event, and which machines have an event at a failure.

    Parameters
    ----------
    machine, at
        Machine and time of each event, whole ns.

    Returns
    -------
    incarnation
        int64[events], the number of earlier failures of the event's machine.
    unclear
        bool[machines], whether an event of the machine is at the instant of a failure.
    """
    machines, faults = len(result.machines), result.scenario.faults
    incarnation, unclear = np.zeros(len(at), np.int64), np.zeros(machines, np.bool_)
    if faults is None:
        return incarnation, unclear
    order = np.argsort(machine, kind="stable")
    for u, down, _ in faults.outages(machines, float(at.max()) * NS + 1.0):
        events = order[slice(*np.searchsorted(machine[order], (u, u + 1)))]
        failures = np.rint(down / NS)
        incarnation[events] = np.searchsorted(failures, at[events])
        unclear[u] = np.isin(at[events], failures).any()
    return incarnation, unclear


def _check_traffic(result: Result) -> list[Violation]:
    """Check that the messages of all levels of the tree add up to the table ``messages``."""
    table, messages = result.tables["traffic"], result.messages
    violations = violations_where(
        "unknown",
        (table["level"] < 0) | ~np.isin(table["kind"], messages["kind"]),
        lambda k: f"traffic[{k}]",
        lambda k: f"{table['kind'][k]} messages of level {table['level'][k]}",
    )
    for name, message_column in (("messages", "sent"), ("bytes", "bytes")):
        level_sums = np.array(
            [table[name][table["kind"] == kind].sum() for kind in messages["kind"]], np.int64
        )
        actual = messages[message_column]
        violations += differences(
            "messages",
            lambda k: f"traffic ({messages['kind'][k]})",
            actual != level_sums,
            level_sums,
            actual,
            "messages has",
            name,
        )
    return violations


def _check_updates(result: Result) -> list[Violation]:
    arrived, age = (result.tables["updates"][name] for name in ("arrived", "age"))
    last = result.provenance["clock_seconds"]
    early = np.diff(arrived, prepend=arrived[:1]) < 0
    return violations_where(
        "time",
        ~((age >= 0) & (age <= arrived) & (arrived <= last)) | early,
        lambda k: f"updates[{k}]",
        lambda k: (
            f"arrives at {arrived[k]} s with an age of {age[k]} s; rows must be in order of arrival, and the "
            f"run ends at {last} s"
        ),
    )


def _check_requests(result: Result) -> list[Violation]:
    """Check each request against its application, and the column ``kept``."""
    table, applications = result.tables["requests"], result.applications
    if not len(table):
        return []
    i = table["application"]

    def row_label(k: int) -> str:
        return f"requests[{k}]"

    known = (i >= 0) & (i < len(applications)) & (table["router"] >= 0)
    if violations := violations_where(
        "unknown", ~known, row_label, lambda k: f"application {i[k]}, router {table['router'][k]}"
    ):
        return violations
    # The first request of an application is for all its tasks, later ones are for lost tasks.  If the first
    # request was lost before a node accepted it, the first row is for lost tasks as well.
    first = np.append(True, np.diff(i) != 0)
    first &= (applications["resubmitted"][i] == 0) | (table["release"] == applications["release"][i])
    is_first_request = np.full(len(table), result.scheduler["parameters"].get("resubmit") != "new") | first
    promised, stretch = table["promised"], table["stretch"]
    expectations: list[tuple[str, NDArray[Any], Any]] = [
        ("level", np.full(len(table), True), np.frexp(table["router"] + 1.0)[1] - 1),
        ("release", is_first_request, applications["release"][i]),
        ("size", is_first_request, applications["size"][i]),
        ("guaranteed", np.full(len(table), True), np.isfinite(promised).astype(np.int64)),
        ("kept", np.full(len(table), True), (np.isfinite(promised) & (stretch <= promised)).astype(np.int64)),
    ]
    for name, rows, expected in expectations:
        actual = table[name]
        violations += differences(
            "agreement",
            column_label(f"requests.{name}"),
            rows & (actual != expected),
            actual,
            expected,
            "the table implies",
        )
    expected = applications["stretch"][i]
    wrong = is_first_request & ~(np.abs(stretch - expected) <= 1e-9 * np.abs(expected))
    violations += differences(
        "agreement", column_label("requests.stretch"), wrong, stretch, expected, "its application has"
    )
    early = ~(table["accepted"] >= table["release"]) | (table["steps_up"] < 0) | (table["tasks"] < 1)
    violations += violations_where(
        "time",
        early,
        row_label,
        lambda k: f"must be accepted after its release, with steps_up >= 0 and tasks >= 1: {table[k]}",
    )
    requested_tasks = np.bincount(i, table["tasks"], len(applications))
    max_tasks = applications["tasks"] + applications["resubmitted"]
    return violations + violations_where(
        "agreement",
        (requested_tasks < applications["tasks"]) | (requested_tasks > max_tasks),
        lambda k: f"application {k}",
        lambda k: f"requests are for {requested_tasks[k]:.0f} tasks, but it has {applications['tasks'][k]}",
    )


def _check_time_order(kind: str, table: str, name: str, time: NDArray[Any]) -> list[Violation]:
    """Check that the rows of a table are in order of time."""
    previous = np.append(time[:1], time[:-1])
    return violations_where(
        kind,
        previous > time,
        lambda k: f"{table}[{k}]",
        lambda k: f"{name} at {time[k]} s, after a row at {previous[k]} s; rows must be in order of time",
    )


def _check_searches(result: Result) -> list[Violation]:
    table, last = result.tables["searches"], result.provenance["clock_seconds"]
    began, ended = table["began"], table["ended"]
    is_valid = (table["client"] >= 0) & (table["client"] < len(result.machines)) & (table["wanted"] >= 1)
    is_valid &= (
        (table["found"] >= 0) & (table["rounds"] >= 0) & (began >= 0) & (began <= ended) & (ended <= last)
    )
    violations = violations_where(
        "search",
        ~is_valid,
        lambda k: f"searches[{k}]",
        lambda k: (
            f"must have a client in 0..{len(result.machines) - 1}, wanted >= 1, found and rounds >= 0, and "
            f"0 <= began <= ended <= {last} s: {table[k]}"
        ),
    )
    violations += _check_time_order("search", "searches", "ended", ended)
    if not violations:
        hosts, machines = result.tables["hosts"], len(result.machines)
        is_remote = hosts["client"] != hosts["host"]
        if (cores := result.scenario.platform.cores) is not None:
            is_remote |= cores[hosts["client"]] > 1  # the host may be another core of the client's machine
        remote_hosts = np.bincount(hosts["client"][is_remote], minlength=machines)
        actual = np.bincount(table["client"], table["found"], machines).astype(np.int64)
        source = "the table hosts has"
        violations = differences(
            "search",
            lambda k: f"client {k}",
            actual > remote_hosts,
            actual,
            remote_hosts,
            source,
            "found in all",
        )
    return violations


def _check_placements(result: Result) -> list[Violation]:
    """Check the mean distance between two machines of each completed job."""
    attributes, table = result.scenario.platform.attributes, result.tables.get("schedule")
    if table is None or attributes is None or attributes.places is None:
        return []
    done = table["completed"] > 0
    job, machine = table["application"][done], table["machine"][done]
    order = np.argsort(job, kind="stable")
    jobs, begins = np.unique(job[order], return_index=True)
    expected = np.array(
        [_mean_distance(attributes.places[item]) for item in np.split(machine[order], begins[1:])]
    )
    actual = result.tables["placements"]
    if not np.array_equal(actual["application"], jobs):
        return [Violation("agreement", 1, "placements.application", "must list the completed jobs")]
    distance = actual["distance"]
    wrong = ~(np.abs(distance - expected[: len(jobs)]) <= 1e-9 * (1.0 + expected[: len(jobs)]))
    return differences(
        "agreement", column_label("placements.distance"), wrong, distance, expected, "the schedule gives"
    )


def _mean_distance(places: Floats) -> float:
    """Return the mean distance between two of `places`, float64[k, 2]; 0 for a single place."""
    pairs = np.triu_indices(len(places), 1)
    x, y = (places[pairs[0]] - places[pairs[1]]).T
    return float(np.hypot(x, y).mean()) if len(places) > 1 else 0.0


def _check_hosts(result: Result) -> list[Violation]:
    """Check the table ``hosts``: valid rows in order of time, and at least one host per task."""
    table, count, machines = result.tables["hosts"], len(result.applications), len(result.machines)
    i, client, host, needed, found_at = (
        table[name] for name in ("application", "client", "host", "needed", "found")
    )
    known = (i >= 0) & (i < count) & (client >= 0) & (client < machines) & (host >= 0) & (host < machines)
    release = result.applications["release"][np.where(known, i, 0)]
    is_valid = known & (needed >= release) & (needed <= found_at)
    if result.scenario.faults is None:
        is_valid &= client == result.applications["submitter"][np.where(known, i, 0)]
    violations = violations_where(
        "host",
        ~is_valid,
        lambda k: f"hosts[{k}]",
        lambda k: (
            "must name an application, its client (without failures, the submitter) and a host, with "
            f"{release[k]} s <= needed <= found: {table[k]}"
        ),
    )
    violations += _check_time_order("host", "hosts", "found", found_at)
    host_counts = np.bincount(i[known], minlength=count)
    short = host_counts < result.applications["tasks"]
    violations += violations_where(
        "host",
        short,
        lambda k: f"application {k}",
        lambda k: f"has only {host_counts[k]} hosts for its tasks",
    )
    if "schedule" in result.tables:
        schedule = result.tables["schedule"]
        assigned_tasks = np.bincount((i * machines + host)[known], minlength=count * machines)
        used = np.bincount(
            schedule["application"] * machines + schedule["machine"], schedule["tasks"], count * machines
        )
        violations += violations_where(
            "host",
            used > assigned_tasks,
            lambda k: f"application {k // machines} on machine {k % machines}",
            lambda k: f"{used[k]:.0f} tasks run there, but {assigned_tasks[k]} were assigned to it",
        )
    return violations


def _check_hosts_and_searches(result: Result) -> list[Violation]:
    """Check the table ``hosts``, and if it is valid, the searches for them."""
    violations = _check_hosts(result)
    return violations or (_check_searches(result) if is_declared(result, "searches") else [])


#: Table -> its check, for a result that has the table.
_CHECKS: dict[str, Callable[[Result], list[Violation]]] = {
    "traffic": _check_traffic,
    "updates": _check_updates,
    "requests": _check_requests,
    "hosts": _check_hosts_and_searches,
    "placements": _check_placements,
}
