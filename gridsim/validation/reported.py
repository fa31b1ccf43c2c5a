"""Checks of what schedulers report: bytes, queues, and tables of the fair tree and of searches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import NS, Violation, broken, column, differs, emulated

#: s, up to which sums of times are exact to 1 ns.
_EXACT = 1e6
#: Schedulers whose tables have the meaning that is checked here; another one may give a name another meaning.
_SEARCHES = {
    f"gridsim:{name}" for name in ("ExpandingRing", "RandomWalkSearch", "Advertisement", "Rendezvous")
}
#: Schedulers of rigid jobs that report how far apart the machines of a job are.
_PLACING = {f"gridsim:{name}" for name in ("Asap", "DgsAcap", "DgsAsap")}


def check_reported(result: Result) -> list[Violation]:
    """Return what is wrong with what only the scheduler and the network can know; empty if nothing is."""
    found = _bytes(result)
    if "schedule" in result.tables:
        found += _peak_queue(result)
    if result.scheduler.get("class") == "gridsim:FairTree":
        levels = "traffic" in result.tables  # not where nodes are machines
        found += (_traffic(result) if levels else []) + _updates(result) + _requests(result)
    if result.scheduler.get("class") in _SEARCHES:
        found += _hosts(result) or _searches(result)
    if result.scheduler.get("class") in _PLACING and "schedule" in result.tables:
        found += _placements(result)
    return found


def _bytes(result: Result) -> list[Violation]:
    """Check the bytes of machines: one by one against the message log, else their sum."""
    machines, log = result.machines, result.tables.get("message_log")
    about = result.provenance.get("message_log", {})
    if log is None or about.get("left_out"):
        # what a server sends and receives is in no row of the machines
        want = result.messages["bytes"].sum()
        have = {name: machines[name].sum() for name in ("bytes_out", "bytes_in")}
        return [
            Violation("messages", 1, f"machines.{name}", f"all have {total} B, the messages have {want} B")
            for name, total in have.items()
            if total > want
        ]
    came, found = ~np.isnan(log["delivered"]), []
    for name, ends, rows in (("bytes_out", log["sender"], slice(None)), ("bytes_in", log["receiver"], came)):
        known = (ends[rows] >= 0) & (ends[rows] < len(machines))
        made = np.bincount(ends[rows][known], log["bytes"][rows][known], len(machines)).astype(np.int64)
        have = machines[name]
        found += differs("messages", column(f"machines.{name}"), have != made, have, made, "the log has")
    return found


def _peak_queue(result: Result) -> list[Violation]:
    """Check the longest queues of machines against the arrivals and starts, where these tell them.

    Where tasks of a row differ in size or machines change their speed, the starts within a row are unknown.
    A failure takes all that waits on a machine; where something else happens at that very instant, the order
    is not known, and the machine is not checked.
    """
    came, ran = result.tables.get("arrivals"), result.tables["schedule"]
    if came is None or not len(came) or result.scenario.fluctuation is not None:
        return []
    if (
        "bandwidth" in result.machines
        or "largest_task" in result.applications
        or "task" in ran
        or result.rigid
        or emulated(result)
    ):
        return []
    if ran["end"].max(initial=0.0) > _EXACT:
        return []
    rows = np.repeat(np.arange(len(ran)), ran["tasks"])
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(ran["tasks"]) - ran["tasks"], ran["tasks"])
    begins = ran["start"][rows] + nth * ((ran["end"] - ran["start"]) / ran["tasks"])[rows]
    machine = np.concatenate((came["machine"], ran["machine"][rows]))
    change = np.concatenate((came["tasks"], np.full(len(rows), -1)))
    at = np.rint(np.concatenate((came["time"], begins)) / NS)
    life, unclear = _lives(result, machine, at)
    order = np.lexsort((change, at, life, machine))
    machine, life, change, at = machine[order], life[order], change[order], at[order]
    afresh = np.append(True, (np.diff(machine) != 0) | (np.diff(life) != 0))
    waiting = np.cumsum(change)
    waiting -= (waiting - change)[np.flatnonzero(afresh)][np.cumsum(afresh) - 1]
    last = np.append((np.diff(at) != 0) | afresh[1:], True)
    least, most = (np.zeros(len(result.machines), np.int64) for _ in range(2))
    np.maximum.at(least, machine[last], waiting[last])
    # a task that finds a machine idle may count before it starts, or start before the next one comes
    begin = np.flatnonzero(np.append(True, last[:-1]))
    before = np.where(afresh[begin], 0, np.append(0, waiting)[begin])
    np.maximum.at(most, machine[begin], before + np.add.reduceat(np.maximum(change, 0), begin))
    have = result.machines["peak_queue"]
    wrong = ((have < least) | (have > most)) & ~unclear
    want = np.where(have < least, least, most)
    return differs("agreement", column("machines.peak_queue"), wrong, have, want, "arrivals and starts make")


def _lives(result: Result, machine: Integers, at: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """Return after how many failures of its machine each event is, and which are at the instant of one.

    Parameters
    ----------
    machine, at
        Machine and time of each event, whole ns.

    Returns
    -------
    life
        int64[events].
    unclear
        bool[machines].
    """
    machines, faults = len(result.machines), result.scenario.faults
    life, unclear = np.zeros(len(at), np.int64), np.zeros(machines, np.bool_)
    if faults is None:
        return life, unclear
    order = np.argsort(machine, kind="stable")
    for u, down, _ in faults.outages(machines, float(at.max()) * NS + 1.0):
        mine = order[slice(*np.searchsorted(machine[order], (u, u + 1)))]
        failures = np.rint(down / NS)
        life[mine] = np.searchsorted(failures, at[mine])
        unclear[u] = np.isin(at[mine], failures).any()
    return life, unclear


def _traffic(result: Result) -> list[Violation]:
    """Check that the levels of the tree have sent all messages that the kinds have."""
    table, messages = result.tables["traffic"], result.messages
    found = broken(
        "unknown",
        (table["level"] < 0) | ~np.isin(table["kind"], messages["kind"]),
        lambda k: f"traffic[{k}]",
        lambda k: f"messages {table['kind'][k]} of level {table['level'][k]}",
    )
    for name, of in (("messages", "sent"), ("bytes", "bytes")):
        made = np.array([table[name][table["kind"] == kind].sum() for kind in messages["kind"]], np.int64)
        have = messages[of]
        found += differs(
            "messages",
            lambda k: f"traffic ({messages['kind'][k]})",
            have != made,
            made,
            have,
            "messages has",
            name,
        )
    return found


def _updates(result: Result) -> list[Violation]:
    arrived, age = (result.tables["updates"][name] for name in ("arrived", "age"))
    last = result.provenance["clock_seconds"]
    early = np.diff(arrived, prepend=arrived[:1]) < 0
    return broken(
        "time",
        ~((age >= 0) & (age <= arrived) & (arrived <= last)) | early,
        lambda k: f"updates[{k}]",
        lambda k: (
            f"arrives at {arrived[k]} s with an age of {age[k]} s, in the order of arrival until {last} s"
        ),
    )


def _requests(result: Result) -> list[Violation]:
    """Check each request against its application, and which promises were kept."""
    table, applications = result.tables["requests"], result.applications
    if not len(table):
        return []
    i = table["application"]

    def where(k: int) -> str:
        return f"requests[{k}]"

    known = (i >= 0) & (i < len(applications)) & (table["router"] >= 0)
    if found := broken(
        "unknown", ~known, where, lambda k: f"application {i[k]}, router {table['router'][k]}"
    ):
        return found
    # Of an application the first is its own, the others are for tasks that were lost.  If its own was lost
    # on its way, before anybody accepted it, the first is for these tasks, too.
    first = np.append(True, np.diff(i) != 0)
    first &= (applications["resubmitted"][i] == 0) | (table["release"] == applications["release"][i])
    own = np.full(len(table), result.scheduler["parameters"].get("resubmit") != "new") | first
    promised, stretch = table["promised"], table["stretch"]
    wants: list[tuple[str, NDArray[Any], Any]] = [
        ("level", np.full(len(table), True), np.frexp(table["router"] + 1.0)[1] - 1),
        ("release", own, applications["release"][i]),
        ("size", own, applications["size"][i]),
        ("guaranteed", np.full(len(table), True), np.isfinite(promised).astype(np.int64)),
        ("kept", np.full(len(table), True), (np.isfinite(promised) & (stretch <= promised)).astype(np.int64)),
    ]
    for name, rows, want in wants:
        have = table[name]
        found += differs(
            "agreement", column(f"requests.{name}"), rows & (have != want), have, want, "it must be"
        )
    want = applications["stretch"][i]
    wrong = own & ~(np.abs(stretch - want) <= 1e-9 * np.abs(want))
    found += differs("agreement", column("requests.stretch"), wrong, stretch, want, "its application has")
    early = ~(table["accepted"] >= table["release"]) | (table["steps_up"] < 0) | (table["tasks"] < 1)
    found += broken("time", early, where, lambda k: f"accepted at {table['accepted'][k]} s: {table[k]}")
    wanted = np.bincount(i, table["tasks"], len(applications))
    most = applications["tasks"] + applications["resubmitted"]
    return found + broken(
        "agreement",
        (wanted < applications["tasks"]) | (wanted > most),
        lambda k: f"application {k}",
        lambda k: f"requests ask for {wanted[k]:.0f} tasks, it has {applications['tasks'][k]}",
    )


def _in_order(kind: str, table: str, name: str, time: NDArray[Any]) -> list[Violation]:
    """Check that the rows of a table are in order of time."""
    before = np.append(time[:1], time[:-1])
    return broken(
        kind,
        before > time,
        lambda k: f"{table}[{k}]",
        lambda k: f"{name} at {time[k]} s, the row before it at {before[k]} s: rows must be in order of time",
    )


def _searches(result: Result) -> list[Violation]:
    table, last = result.tables["searches"], result.provenance["clock_seconds"]
    began, ended = table["began"], table["ended"]
    sound = (table["client"] >= 0) & (table["client"] < len(result.machines)) & (table["wanted"] >= 1)
    sound &= (
        (table["found"] >= 0) & (table["rounds"] >= 0) & (began >= 0) & (began <= ended) & (ended <= last)
    )
    found = broken(
        "search", ~sound, lambda k: f"searches[{k}]", lambda k: f"{table[k]} in a run until {last} s"
    )
    found += _in_order("search", "searches", "ended", ended)
    if not found:
        hosts, machines = result.tables["hosts"], len(result.machines)
        others = np.bincount(hosts["client"][hosts["client"] != hosts["host"]], minlength=machines)
        have = np.bincount(table["client"], table["found"], machines).astype(np.int64)
        said = "the table hosts has"
        found = differs("search", lambda k: f"client {k}", have > others, have, others, said, "found in all")
    return found


def _placements(result: Result) -> list[Violation]:
    """Check that each job that was completed has the mean distance between two of its machines."""
    attributes, table = result.scenario.platform.attributes, result.tables["schedule"]
    if attributes is None or attributes.places is None:
        return []
    done = table["completed"] > 0
    job, machine = table["application"][done], table["machine"][done]
    order = np.argsort(job, kind="stable")
    jobs, begins = np.unique(job[order], return_index=True)
    want = np.array([_apart(attributes.places[each]) for each in np.split(machine[order], begins[1:])])
    have = result.tables["placements"]
    if not np.array_equal(have["application"], jobs):
        return [Violation("agreement", 1, "placements.application", "must be the jobs that were completed")]
    distance = have["distance"]
    wrong = ~(np.abs(distance - want[: len(jobs)]) <= 1e-9 * (1.0 + want[: len(jobs)]))
    return differs("agreement", column("placements.distance"), wrong, distance, want, "the schedule makes")


def _apart(places: Floats) -> float:
    """Return the mean distance between two of `places`, float64[k, 2]; 0 for a single one."""
    pairs = np.triu_indices(len(places), 1)
    x, y = (places[pairs[0]] - places[pairs[1]]).T
    return float(np.hypot(x, y).mean()) if len(places) > 1 else 0.0


def _hosts(result: Result) -> list[Violation]:
    """Check that hosts were found in order of time, as many as tasks came to each of them."""
    table, count, machines = result.tables["hosts"], len(result.applications), len(result.machines)
    i, client, host, needed, when = (
        table[name] for name in ("application", "client", "host", "needed", "found")
    )
    known = (i >= 0) & (i < count) & (client >= 0) & (client < machines) & (host >= 0) & (host < machines)
    release = result.applications["release"][np.where(known, i, 0)]
    sound = known & (needed >= release) & (needed <= when)
    if result.scenario.faults is None:
        sound &= client == result.applications["submitter"][np.where(known, i, 0)]
    found = broken(
        "host", ~sound, lambda k: f"hosts[{k}]", lambda k: f"{table[k]}, released at {release[k]} s"
    )
    found += _in_order("host", "hosts", "found", when)
    given = np.bincount(i[known], minlength=count)
    short = given < result.applications["tasks"]
    found += broken(
        "host", short, lambda k: f"application {k}", lambda k: f"only {given[k]} hosts for its tasks"
    )
    if "schedule" in result.tables:
        ran = result.tables["schedule"]
        had = np.bincount((i * machines + host)[known], minlength=count * machines)
        used = np.bincount(ran["application"] * machines + ran["machine"], ran["tasks"], count * machines)
        found += broken(
            "host",
            used > had,
            lambda k: f"application {k // machines} on machine {k % machines}",
            lambda k: f"{used[k]:.0f} tasks run there, {had[k]} were given to it",
        )
    return found
