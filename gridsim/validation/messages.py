"""Checks of the messages of a result: the table `messages` and, if recorded, the message log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, ROUNDING, Violation, broken, column, differs
from gridsim.validation.jobs import WALKERS
from gridsim.validation.schedule import given_up

#: Kinds of messages of `WALKERS` whose duration the scheduler sets, and not the network.
_ASKING = ("probe", "load")
#: After how many messages of a kind, each with tasks, all of that kind are taken to have some.
_ENOUGH = 5


def check_messages(result: Result) -> list[Violation]:
    """Return what is wrong with the messages of `result`; empty if nothing is."""
    table = result.messages
    flight = table["sent"] - table["delivered"] - table["dropped"]
    counts = np.stack([table[name] for name in ("sent", "delivered", "dropped", "in_flight", "bytes")])
    found = broken(
        "messages",
        (table["in_flight"] != flight) | (counts < 0).any(axis=0),
        lambda k: f"messages[{k}] ({table['kind'][k]})",
        lambda k: f"{table[k]}: sent must be delivered + dropped + in flight",
    )
    if "message_log" in result.tables:
        found += _log(result)
        if "arrivals" in result.tables and not result.rigid:
            found += _dropped_tasks(result)
    return found


def _log(result: Result) -> list[Violation]:
    table = result.tables["message_log"]
    machines = len(result.machines) + result.servers
    applications = len(result.applications)
    kind, sender, receiver, about = (table[name] for name in ("kind", "sender", "receiver", "application"))
    sent, delivered, dropped = table["sent"], table["delivered"], table["dropped"]

    def where(k: int) -> str:
        return f"message_log[{k}]"

    known = (sender >= 0) & (sender < machines) & (receiver >= 0) & (receiver < machines)
    known &= (sender != receiver) & (about >= -1) & (about < applications)
    known &= np.isin(kind, result.messages["kind"])
    found = broken(
        "unknown",
        ~known,
        where,
        lambda k: (
            f"a {kind[k]} from machine {sender[k]} to {receiver[k]} about application {about[k]}: there are "
            f"{machines} and {applications}, and the kinds of the table messages"
        ),
    )
    found += _counts(result)
    told = ~np.isnan(delivered)
    network = result.scenario.network
    takes = network.latency - network.jitter + table["bytes"] / network.bandwidth
    for name, delay in result.provenance.get("message_log", {}).get("delays", {}).items():
        takes[kind == name] = delay
    if result.scheduler.get("class") in WALKERS:
        takes[np.isin(kind, _ASKING)] = 0.0
    # each of the three times is rounded to 1 ns
    early = told & ~(delivered >= sent + takes - 3 * NS - ROUNDING * np.abs(delivered))
    found += broken(
        "message",
        ~(sent >= 0) | early | ((dropped != 0) & ((dropped != 1) | told)),
        where,
        lambda k: (
            f"sent at {sent[k]} s, delivered at {delivered[k]} s, dropped {dropped[k]}; it takes at least "
            f"{takes[k]} s, and what was dropped is not delivered"
        ),
    )
    faults = result.scenario.faults
    if faults is not None and not faults.reachable and known.all() and told.any():
        found += _to_the_dead(result, told, sender, receiver, sent, delivered)
    return found


def _dropped_tasks(result: Result) -> list[Violation]:
    """Check that tasks which were lost with a message were submitted again.

    A kind of message brings tasks if some come with each one that is delivered.  One that is dropped has
    then lost at least one task, which comes to no machine; what machines have lost has come to them before.
    """
    log, came, table = result.tables["message_log"], result.tables["arrivals"], result.applications
    if "task" in result.tables["schedule"] or result.provenance.get("message_log", {}).get("left_out"):
        return []
    kind, gone, about, apps = log["kind"], log["dropped"] != 0, log["application"], len(table)
    arrived = ~np.isnan(log["delivered"])
    if (about >= apps).any() or ((came["application"] < 0) | (came["application"] >= apps)).any():
        return []  # which other checks say
    # application, machine and instant as one number
    there = came["application"] + apps * came["machine"] + 1j * came["time"]
    come = about + apps * log["receiver"] + 1j * log["delivered"]
    brings = ~arrived | np.isin(come, there[came["tasks"] > 0])
    lost = np.zeros(apps, np.int64)
    for name in np.unique(kind[gone & (about >= 0)]):
        mine = kind == name
        if (arrived & mine).sum() >= _ENOUGH and brings[mine].all():
            # two messages that always go together may bring the tasks together
            _, rows = np.unique(
                (about + apps * log["receiver"] + 1j * log["sent"])[mine & gone], return_index=True
            )
            lost += np.bincount(about[mine & gone][rows], minlength=apps)
    least = lost + np.bincount(came["application"], came["tasks"], apps).astype(np.int64) - table["tasks"]
    have = table["resubmitted"]
    return broken(
        "agreement",
        (lost > 0) & (have < least) & ~given_up(result),
        column("applications.resubmitted"),
        lambda k: (
            f"is {have[k]}; {least[k] - lost[k]} tasks were lost on machines, and {lost[k]} messages with "
            "tasks were dropped"
        ),
    )


def _counts(result: Result) -> list[Violation]:
    """Check that the log has as many messages as the table `messages`; a log that was full may have fewer."""
    log, table = result.tables["message_log"], result.messages
    left_out = result.provenance.get("message_log", {}).get("left_out", 0)
    # row len(table) collects messages of unknown kinds
    names, row = np.unique(table["kind"], return_index=True)
    at = np.searchsorted(names, log["kind"]) % max(1, len(names))
    of = (
        np.where(names[at] == log["kind"], row[at], len(table))
        if len(names)
        else np.zeros(len(log), np.int64)
    )
    told = ~np.isnan(log["delivered"])
    found = []
    for name, values in (
        ("sent", np.ones(len(log), np.int64)),
        ("delivered", told.astype(np.int64)),
        ("dropped", log["dropped"]),
        ("bytes", log["bytes"]),
    ):
        sums = np.zeros(len(table) + 1, np.int64)
        np.add.at(sums, of, values)
        have = sums[:-1]
        want = table[name]
        wrong = have > want if left_out else have != want
        found += differs("messages", column(f"messages.{name}"), wrong, want, have, "the log has")
    return found


def _to_the_dead(
    result: Result,
    told: NDArray[np.bool_],
    sender: NDArray[np.int64],
    receiver: NDArray[np.int64],
    sent: Floats,
    delivered: Floats,
) -> list[Violation]:
    """Check that machines that are down send nothing, and lose what was sent to them before they recover."""
    rows = np.flatnonzero(told)
    lost = np.zeros(len(told), np.bool_)
    faults = result.scenario.faults
    assert faults is not None
    machines, until = len(result.machines), float(delivered[rows].max())
    for ends, at_receiver in ((receiver, True), (sender, False)):
        order = rows[np.argsort(ends[rows], kind="stable")]
        by_machine = ends[order]
        for machine, down, up in faults.outages(machines, until):
            low, high = np.searchsorted(by_machine, (machine, machine + 1))
            mine = order[low:high]
            # the first outage that is not over when the message is sent
            first = np.append(down, np.inf)[np.searchsorted(up, sent[mine], side="right")]
            # at the instant of a failure everything else happens first
            lost[mine] |= first < (delivered if at_receiver else sent)[mine] - NS
    return broken(
        "dead machine",
        lost,
        lambda k: f"message_log[{k}]",
        lambda k: (
            f"sent by machine {sender[k]} at {sent[k]} s and delivered to {receiver[k]} at {delivered[k]} s: "
            "one of them was down meanwhile"
        ),
    )
