"""Checks of the messages of a result: the table ``messages`` and, if recorded, the message log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import (
    NS,
    ROUNDING,
    Violation,
    column_label,
    differences,
    violations_where,
)
from gridsim.validation.schedule import rejected_or_cancelled_jobs

#: A kind counts as carrying tasks if all of its messages carry tasks and there are at least this many.
_MIN_SAMPLE = 5


def check_messages(result: Result) -> list[Violation]:
    """Check the messages of `result`, and return the violations."""
    table = result.messages
    in_flight = table["sent"] - table["delivered"] - table["dropped"]
    counts = np.stack([table[name] for name in ("sent", "delivered", "dropped", "in_flight", "bytes")])
    violations = violations_where(
        "messages",
        (table["in_flight"] != in_flight) | (counts < 0).any(axis=0),
        lambda k: f"messages[{k}] ({table['kind'][k]})",
        lambda k: (
            f"sent must equal delivered + dropped + in_flight, and no count be negative, got {table[k]}"
        ),
    )
    if "message_log" in result.tables:
        violations += _check_log(result)
        if "arrivals" in result.tables and not result.rigid:
            violations += _check_dropped_tasks(result)
    return violations


def _check_log(result: Result) -> list[Violation]:
    table = result.tables["message_log"]
    machines = len(result.machines) + result.servers
    applications = len(result.applications)
    kind, sender, receiver, application = (
        table[name] for name in ("kind", "sender", "receiver", "application")
    )
    sent, delivered, dropped = table["sent"], table["delivered"], table["dropped"]

    def row_label(k: int) -> str:
        return f"message_log[{k}]"

    known = (sender >= 0) & (sender < machines) & (receiver >= 0) & (receiver < machines)
    known &= (sender != receiver) & (application >= -1) & (application < applications)
    known &= np.isin(kind, result.messages["kind"])
    violations = violations_where(
        "unknown",
        ~known,
        row_label,
        lambda k: (
            f"a {kind[k]} from machine {sender[k]} to {receiver[k]} about application {application[k]}: "
            f"there are {machines} machines and {applications} applications, and the table messages lists "
            "all kinds"
        ),
    )
    violations += _check_counts(result)
    is_delivered = ~np.isnan(delivered)
    network = result.scenario.network
    shortest = network.latency - network.jitter + table["bytes"] / network.bandwidth
    for name, delay in result.provenance.get("message_log", {}).get("delays", {}).items():
        shortest[kind == name] = delay
    # each of the three times is rounded to 1 ns
    is_early = is_delivered & ~(delivered >= sent + shortest - 3 * NS - ROUNDING * np.abs(delivered))
    violations += violations_where(
        "message",
        ~(sent >= 0) | is_early | ((dropped != 0) & ((dropped != 1) | is_delivered)),
        row_label,
        lambda k: (
            f"sent at {sent[k]} s, delivered at {delivered[k]} s, dropped {dropped[k]}; delivery takes at "
            f"least {shortest[k]} s, and a dropped message is not delivered"
        ),
    )
    faults = result.scenario.faults
    if faults is not None and not faults.reachable and known.all() and is_delivered.any():
        violations += _check_down_machines(result, is_delivered, sender, receiver, sent, delivered)
    return violations


def _check_dropped_tasks(result: Result) -> list[Violation]:
    """Check that tasks lost with a message were submitted again.

    A kind of message carries tasks if tasks arrive with each delivered message of that kind.  A dropped
    message of such a kind has lost at least one task, which arrives nowhere, whereas tasks
    that machines lose have arrived before.
    """
    log, arrivals, table = result.tables["message_log"], result.tables["arrivals"], result.applications
    if "task" in result.tables["schedule"] or result.provenance.get("message_log", {}).get("left_out"):
        return []
    kind, is_dropped, application, apps = log["kind"], log["dropped"] != 0, log["application"], len(table)
    is_delivered = ~np.isnan(log["delivered"])
    if (application >= apps).any() or (
        (arrivals["application"] < 0) | (arrivals["application"] >= apps)
    ).any():
        return []  # other checks report violations here
    # application, machine and instant as one number
    arrival_keys = arrivals["application"] + apps * arrivals["machine"] + 1j * arrivals["time"]
    message_keys = application + apps * log["receiver"] + 1j * log["delivered"]
    brings_tasks = ~is_delivered | np.isin(message_keys, arrival_keys[arrivals["tasks"] > 0])
    lost = np.zeros(apps, np.int64)
    for name in np.unique(kind[is_dropped & (application >= 0)]):
        is_kind = kind == name
        if (is_delivered & is_kind).sum() >= _MIN_SAMPLE and brings_tasks[is_kind].all():
            # two messages that are sent at the same time may bring the tasks together
            _, rows = np.unique(
                (application + apps * log["receiver"] + 1j * log["sent"])[is_kind & is_dropped],
                return_index=True,
            )
            lost += np.bincount(application[is_kind & is_dropped][rows], minlength=apps)
    minimum = (
        lost + np.bincount(arrivals["application"], arrivals["tasks"], apps).astype(np.int64) - table["tasks"]
    )
    actual = table["resubmitted"]
    return violations_where(
        "agreement",
        (lost > 0) & (actual < minimum) & ~rejected_or_cancelled_jobs(result),
        column_label("applications.resubmitted"),
        lambda k: (
            f"is {actual[k]}, but {minimum[k] - lost[k]} tasks were lost on machines, and {lost[k]} messages "
            "with tasks were dropped"
        ),
    )


def _check_counts(result: Result) -> list[Violation]:
    """Check that the log has as many messages as the table ``messages``; a truncated log may have fewer."""
    log, table = result.tables["message_log"], result.messages
    left_out = result.provenance.get("message_log", {}).get("left_out", 0)
    # messages of unknown kinds are counted in row len(table)
    names, row = np.unique(table["kind"], return_index=True)
    at = np.searchsorted(names, log["kind"]) % max(1, len(names))
    table_row = (
        np.where(names[at] == log["kind"], row[at], len(table))
        if len(names)
        else np.zeros(len(log), np.int64)
    )
    is_delivered = ~np.isnan(log["delivered"])
    violations = []
    for name, values in (
        ("sent", np.ones(len(log), np.int64)),
        ("delivered", is_delivered.astype(np.int64)),
        ("dropped", log["dropped"]),
        ("bytes", log["bytes"]),
    ):
        sums = np.zeros(len(table) + 1, np.int64)
        np.add.at(sums, table_row, values)
        actual = sums[:-1]
        expected = table[name]
        wrong = actual > expected if left_out else actual != expected
        violations += differences(
            "messages", column_label(f"messages.{name}"), wrong, expected, actual, "the log has"
        )
    return violations


def _check_down_machines(
    result: Result,
    is_delivered: NDArray[np.bool_],
    sender: NDArray[np.int64],
    receiver: NDArray[np.int64],
    sent: Floats,
    delivered: Floats,
) -> list[Violation]:
    """Check that machines that are down send nothing, and lose all messages sent to them."""
    rows = np.flatnonzero(is_delivered)
    lost = np.zeros(len(is_delivered), np.bool_)
    faults = result.scenario.faults
    assert faults is not None
    machines, until = len(result.machines), float(delivered[rows].max())
    for endpoint, at_receiver in ((receiver, True), (sender, False)):
        order = rows[np.argsort(endpoint[rows], kind="stable")]
        by_machine = endpoint[order]
        for machine, down, up in faults.outages(machines, until):
            low, high = np.searchsorted(by_machine, (machine, machine + 1))
            rows_of_machine = order[low:high]
            # the first outage that is not over when the message is sent
            first = np.append(down, np.inf)[np.searchsorted(up, sent[rows_of_machine], side="right")]
            # other events at the instant of a failure come before it
            lost[rows_of_machine] |= first < (delivered if at_receiver else sent)[rows_of_machine] - NS
    return violations_where(
        "dead machine",
        lost,
        lambda k: f"message_log[{k}]",
        lambda k: (
            f"sent by machine {sender[k]} at {sent[k]} s and delivered to {receiver[k]} at {delivered[k]} s: "
            "one of them was down meanwhile"
        ),
    )
