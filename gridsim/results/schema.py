"""Declarations of the columns of result tables: each column is declared once, here.

Units of frames and charts, checks of files and the reference page of outputs come from these declarations.
A scheduler may report further columns and tables, which are not declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.results.table import Table


class Column(NamedTuple):
    """The declaration of a column of a table.

    Parameters
    ----------
    kind
        "float", "int" or "text".
    unit
        Unit of the values; "" if they have none.
    text
        What the column means.
    needed
        Whether a result file must have the column if it has the table.
    rows_of
        The table whose row numbers the values are; "" if they are none.
    least
        The smallest value allowed with `rows_of`; -1 where that may stand for none.
    servers
        With `rows_of` machines, whether the values may also be numbers of servers (`Result.servers`).
    positive
        Whether the values must be finite and > 0, because something is divided by them.
    """

    name: str
    kind: str
    unit: str
    text: str = ""
    needed: bool = False
    rows_of: str = ""
    least: int = 0
    servers: bool = False
    positive: bool = False


def _needed(name: str, kind: str, unit: str, text: str = "", **further: Any) -> Column:
    return Column(name, kind, unit, text, needed=True, **further)


_APPLICATION = _needed("application", "int", "application", rows_of="applications")
_MACHINE = _needed("machine", "int", "machine", rows_of="machines")

#: Group of columns -> columns.  A group is a table, or the columns that only some results have in a table;
#: the name of the latter is "table, of what".
COLUMNS: dict[str, tuple[Column, ...]] = {
    "applications": (
        _needed("release", "float", "s", "when it was submitted"),
        _needed("first_start", "float", "s", "when its first task started, even one that was lost"),
        _needed("finish", "float", "s", "when its last task ended, at the machine; reports and results that "
                "travel later do not count"),
        _needed("tasks", "int", "tasks", "n"),
        _needed("task_size", "float", "Mflop", "a, of each task; the mean where they differ", positive=True),
        _needed("size", "float", "Mflop", "w = n a; the sum where tasks differ", positive=True),
        _needed("submitter", "int", "machine", "where it was submitted", rows_of="machines", least=-1),
        _needed("stretch", "float", "s/Mflop", "(finish - release) / size, the papers' measure"),
        _needed("stretch_agg", "float", "1", "stretch times the speed of all machines together: the "
                "response time over size / aggregate speed"),
        _needed("resubmitted", "int", "tasks", "tasks that had to be placed again"),
        _needed("nodes_used", "int", "machines", "machines that got a task of it and did not give all of "
                "them away"),
        Column("level", "int", "level", "fair tree only: depth of the router that accepted it, 0 for the "
               "root, -1 without routers"),
    ),
    "applications, of workloads with data": (
        Column("data", "int", "B", "of a task's instructions and data, and of its result"),
    ),
    "applications, of tasks that move data": (
        Column("input_bytes", "float", "B", "that a task fetches over the link of its machine before it is "
               "computed"),
        Column("output_bytes", "float", "B", "that a task sends over that link; it ends when they are there"),
    ),
    "applications, of workloads with estimates": (
        Column("estimate", "float", "Mflop", "of each task, as its submitter states it"),
    ),
    "applications, with constraints": (
        Column("memory", "float", "B", "least memory of each of its machines"),
        Column("disk", "float", "B", "least disk of each of its machines"),
        Column("kind", "text", "", "of rigid jobs: kind of its machines; empty for any"),
    ),
    "applications, of rigid jobs": (
        Column("run_time", "float", "s", "of each of its tasks"),
        Column("requested", "float", "s", "what the user asked for"),
        Column("not_before", "float", "s", "of jobs that state it: before which it must not start"),
        Column("deadline", "float", "s", "of jobs that state it: by which it must have ended; inf for none"),
        Column("cancel_at", "float", "s", "of jobs that state it: when its user cancels it; inf for never"),
        Column("waiting", "float", "s", "from the release, or `not_before` if that is later, to the start of "
               "the run that was completed"),
        Column("slowdown", "float", "1", "(waiting + run_time) / max(run_time, 10 s), at least 1"),
        Column("failed", "int", "0 or 1", "whether it was rejected"),
        Column("cancelled", "int", "0 or 1", "of jobs with `cancel_at`: whether its user cancelled it"),
        Column("searches", "int", "searches", "`dgs-asap`, `dgs-acap`: rounds of requests"),
        Column("conflicts", "int", "", "`dgs-asap`, `zorilla`, `metascheduler`: allocations that a machine "
               "refused or that fell through; the first one did if it is not 0"),
        Column("late", "int", "", "`dgs-asap`: answers left out since their start was too near; `zorilla`, "
               "`metascheduler`: allocations that fell through since a message came after the start"),
        Column("floods", "int", "floods", "`zorilla` only: how often it was advertised"),
        Column("site", "int", "site", "`metascheduler` only: where it ran; -1 for several sites or none"),
        Column("moved", "int", "moves", "`metascheduler` only: to another site, as it had waited too long"),
        Column("reached", "int", "machines", "`dgs-asap`, `dgs-acap`: most candidates that a search of it "
               "reached"),
    ),
    "applications, of work queues": (
        Column("smallest_task", "float", "Mflop"),
        Column("largest_task", "float", "Mflop"),
        Column("replicas", "int", "replicas", "begun while another of the same task ran"),
        Column("killed", "int", "replicas", "stopped since another of the same task was completed"),
        Column("undisturbed", "int", "tasks", "completed that were never resubmitted: never without a "
               "running replica after their first"),
    ),
    "applications, of tasks that move": (
        Column("migrated", "int", "moves", "of a task to another host than the one where it ran before"),
        Column("resumed", "int", "tasks", "that went on at the host that they had lost, because they waited "
               "for it or because it was chosen"),
        Column("undisturbed", "int", "tasks", "completed that never lost their host"),
    ),
    "machines": (
        _needed("speed", "float", "Mflop/s", positive=True),
        _needed("busy", "float", "s", "time spent on tasks"),
        Column("tasks", "int", "tasks", "completed here"),
        Column("interrupted", "int", "tasks", "that ran here when the machine failed; a rigid job that "
               "loses a machine, or is cancelled while it runs, is cut off on all of its own"),
        Column("peak_queue", "int", "tasks", "most tasks that waited here at once; 0 where machines have no "
               "queue (`mincent`, `fcfs-pull`)"),
        Column("bytes_out", "int", "B", "sent to other machines"),
        Column("bytes_in", "int", "B", "delivered from other machines"),
        Column("use_mean", "float", "1", "bytes in and out / bandwidth, from the first to the last release; "
               "so at most 2"),
        Column("use_peak_1s", "float", "1", "the same in the fullest window of 1 s"),
        Column("use_peak_10s", "float", "1", "the same in the fullest window of 10 s"),
        Column("data_in", "float", "B", "task data fetched: `network.task_data` for each task that started "
               "here"),
        _needed("utilization", "float", "1", "busy / (last finish - first release); of a run in which jobs "
                "were rejected, to its end"),
        Column("failures", "int", "", "how often it failed while the run lasted; to be away from the "
               "beginning is not to fail"),
    ),
    "machines, with attributes": (
        Column("memory", "float", "B", "of the machine"),
        Column("disk", "float", "B", "of the machine"),
        Column("kind", "text", "", "of the machine"),
        Column("x", "float", "", "where it is, in the unit of the platform"),
        Column("y", "float", "", "where it is, in the unit of the platform"),
    ),
    "machines, of tasks that move data": (
        Column("bandwidth", "float", "B/s", "of its link to the data, up and down at once"),
    ),
    "machines, of work queues": (
        Column("ended", "int", "replicas", "stopped here since another was completed"),
    ),
    "machines, of dgs-asap": (
        Column("schedules_received", "int", "schedules", "how many of the [exchanges](#table-exchanges) "
               "came to the machine"),
    ),
    "messages": (
        _needed("kind", "text", "", "the name of the kind"),
        _needed("sent", "int", "messages", "between different machines; what stays on its machine is not "
                "counted"),
        _needed("delivered", "int", "messages", "handed to the receiver before the run ended"),
        _needed("dropped", "int", "messages", "lost because a machine failed"),
        _needed("in_flight", "int", "messages", "sent - delivered - dropped: under way when the run ended"),
        _needed("bytes", "int", "B", "of all that were sent"),
    ),
    "requests": (
        Column("application", "int", "application", "index"),
        Column("tasks", "int", "tasks", "that were asked for"),
        Column("release", "float", "s", "of the request: that of its application; with `resubmit=\"new\"` "
               "that of tasks that were lost is when they were submitted again"),
        Column("size", "float", "Mflop", "of the request: that of its application, also where only some of "
               "its tasks are asked for; with `resubmit=\"new\"` that of tasks that were lost is their work"),
        Column("accepted", "float", "s", "when"),
        Column("router", "int", "node", "that accepted it; router k sits on machine k"),
        Column("level", "int", "level", "depth of that router; the root has 0"),
        Column("steps_up", "int", "routers", "how often it was passed to a parent"),
        Column("promised", "float", "s/Mflop", "stretch sample at which it was accepted; infinite if even "
               "the last had no room"),
        Column("guaranteed", "int", "0 or 1", "1 if at the accepting router a stretch sample hosted all its "
               "tasks, 0 if none did"),
        Column("stretch", "float", "s/Mflop", "what it got, by its own release and size"),
        Column("kept", "int", "0 or 1", "1 if guaranteed and stretch <= promised"),
    ),
    "traffic": (
        _needed("kind", "text", "", "as in `messages`"),
        _needed("level", "int", "level", "depth of the sender in the tree; the root has 0"),
        _needed("messages", "int", "messages", "sent to another machine"),
        _needed("bytes", "int", "B", "of these"),
    ),
    "payments": (
        _MACHINE,
        _APPLICATION,
        _needed("late", "int", "0 or 1", "whether the task ended after its deadline"),
        _needed("paid", "float", "", "what the machine got for it, less the penalty"),
    ),
    "updates": (
        Column("arrived", "float", "s", "when the root had it"),
        Column("age", "float", "s", "since the oldest change of a leaf that it was the first to report"),
    ),
    "repairs": (
        Column("router", "int", "node", "whose machine failed"),
        Column("failed", "float", "s", "when"),
        Column("machine", "int", "machine", "that took it over; -1 if none did"),
        Column("taken", "float", "s", "when"),
        Column("whole", "float", "s", "when that machine had heard from both children, or knew them to be "
               "gone, and the parent from it"),
    ),
    "exchanges": (
        Column("kind", "text", "", "`push`, `pull`, `poll`, `retrieve` (from a neighbour that is opened, "
               "with push and poll), `shuffle`"),
        Column("schedules", "int", "schedules", "sent"),
        Column("bytes", "int", "B", "of these, 1024 each"),
    ),
    "placements": (
        _APPLICATION,
        _needed("distance", "float", "", "mean between two of its machines, in the unit of the platform; 0 "
                "of one machine"),
    ),
    "freed": (
        _APPLICATION,
        _MACHINE,
        _needed("start", "float", "s", "of what it had reserved there and not used when it was "
                "cancelled"),
        _needed("end", "float", "s", "of that"),
    ),
    "jobs": (
        _APPLICATION,
        _needed("machine", "int", "machine", "where it ran", rows_of="machines"),
        Column("probes", "int", "steps", "of its search: nodes asked, and with an overlay those that were "
               "only passed"),
        _needed("predicted", "float", "s", "wait at that machine when it was chosen; NaN if the job stayed "
                "at its submitter's"),
        _needed("waited", "float", "s", "from its arrival there to its start"),
        _needed("turnaround", "float", "s", "from its release until the result is back at its submitter; "
                "with waits for [dispatchers](../background/rjss.md#how-it-works)"),
    ),
    "searches": (
        Column("client", "int", "machine", "that searched"),
        Column("wanted", "int", "hosts", "when the search began: tasks that had none, of all its "
               "applications"),
        Column("found", "int", "hosts", "that offered themselves and got a task; what its own machine took "
               "meanwhile is not among them"),
        Column("rounds", "int", "rounds", "in which it asked somebody"),
        Column("began", "float", "s"),
        Column("ended", "float", "s", "when no task needed a host any more, or there was nobody more to ask"),
    ),
    "hosts": (
        Column("application", "int", "application"),
        Column("client", "int", "machine"),
        Column("host", "int", "machine", "the client itself if its own machine took the task"),
        Column("needed", "float", "s", "since when the task needed a host: submitted, back from a host, or "
               "given again after a failure"),
        Column("found", "float", "s", "when the client gave it to the host"),
    ),
    "cycles": (
        _needed("useful", "float", "Mflop", "its size, once it is completed"),
        _needed("redundant", "float", "Mflop", "done by replicas that another was faster than, or saved and "
                "not taken up"),
        _needed("lost", "float", "Mflop", "since the newest checkpoint of a replica that failed; by a job "
                "that had to begin anew"),
        _needed("overhead", "float", "Mflop", "writing and reading checkpoints; of wave schedulers, moving"),
        _needed("slowed", "float", "Mflop", "what other load on the machines had meanwhile"),
    ),
    "log_jobs": (
        _needed("job", "int", "", "the number in the log; copies of a job have the same"),
    ),
    "schedule": (
        _MACHINE,
        _APPLICATION,
        _needed("tasks", "int", "tasks", "one after another without a gap"),
        _needed("start", "float", "s", "of the first"),
        _needed("end", "float", "s", "of the last"),
        _needed("completed", "int", "tasks", "all of them; 0 of a task that a failure cut off at `end`"),
    ),
    "schedule, of tasks with several replicas": (
        Column("task", "int", "task", "within the application"),
        Column("begin", "float", "Mflop", "of the task, done before this replica began"),
    ),
    "arrivals": (
        _MACHINE,
        _APPLICATION,
        _needed("tasks", "int", "tasks", "negative where they were withdrawn from the queue again"),
        _needed("time", "float", "s"),
    ),
    "decisions": (
        _needed("time", "float", "s"),
        _needed("application", "int", "application", "or job", rows_of="applications"),
        _needed("task", "int", "task", "of it, where it was about one"),
        _needed("action", "text", "", "what was decided; [why](../guides/why.md) has those of each "
                "scheduler"),
        _needed("decider", "int", "machine", "who decided; -1 for a centralized scheduler",
                rows_of="machines", least=-1),
        _needed("level", "int", "level", "of the one who decided, in a tree"),
        _needed("machine", "int", "machine", "to which the tasks went, or the question; -1 for none",
                rows_of="machines", least=-1, servers=True),
        _needed("tasks", "int", "tasks", "it was about so many; of work queues, those of which `task` was "
                "one"),
        _needed("among", "int", "machines", "so many were to choose from, or were asked for"),
        _needed("saw", "float", "by action", "the value on which it was decided, as far as was known"),
        _needed("limit", "float", "by action", "the threshold that it was compared with"),
        _needed("true", "float", "by action", "the true value at that moment"),
        _needed("age", "float", "s", "of what was seen"),
    ),
    "message_log": (
        _needed("kind", "text", "", "as in `messages`"),
        _needed("sender", "int", "machine", "that of the node that sent it, or a server", rows_of="machines",
                servers=True),
        _needed("receiver", "int", "machine", "that of the node that it was for, or a server",
                rows_of="machines", servers=True),
        _needed("sent", "float", "s", "when it was handed to the interface of its sender, where it may have "
                "waited"),
        _needed("delivered", "float", "s", "NaN if it was dropped, or under way when the run ended"),
        _needed("dropped", "int", "0 or 1", "whether it was lost because a machine failed"),
        _needed("bytes", "int", "B"),
        _needed("application", "int", "application", "or job that it is about; -1 of none",
                rows_of="applications", least=-1),
    ),
}  # fmt: skip


def _by_table() -> dict[str, dict[str, Column]]:
    tables: dict[str, dict[str, Column]] = {}
    for group, columns in COLUMNS.items():
        tables.setdefault(group.partition(",")[0], {}).update({each.name: each for each in columns})
    return tables


#: Table -> column -> its declaration.
TABLES = _by_table()
_MEASURES = ("s", "Mflop", "Mflop/s", "s/Mflop", "B", "1")
#: Table -> column -> unit, for columns that measure something; those that count are left out.
COLUMN_UNITS = {
    table: {name: each.unit for name, each in columns.items() if each.unit in _MEASURES}
    for table, columns in TABLES.items()
}
#: Tables that every result has.
CORE_TABLES = ("applications", "machines", "messages")
#: Table -> the columns that it must have, and those whose values are limited.
_NEEDED, _LIMITED = (
    {table: tuple(filter(chosen, columns.values())) for table, columns in TABLES.items()}
    for chosen in (lambda each: each.needed, lambda each: each.rows_of or each.positive)
)
_KINDS = {"float": "f", "int": "iu", "text": "U"}
#: Largest level that is accepted; no tree has as many.
_LEVELS = 64


def check_columns(tables: Mapping[str, Table]) -> None:
    """Check that needed columns exist and have the right kind, and that applications and machines have rows.

    Raises ValueError naming the table and column.
    """
    for name in CORE_TABLES:
        if name not in tables:
            raise ValueError(f"there is no table {name!r}")
    for name in ("applications", "machines"):
        if not len(tables[name]):
            raise ValueError(f"{name} has no row")
    for name, table in tables.items():
        for each in _NEEDED.get(name, ()):
            if each.name not in table:
                raise ValueError(f"{name} must have a column {each.name!r}")
            if (dtype := table[each.name].dtype).kind not in _KINDS[each.kind]:
                raise ValueError(f"{name}.{each.name} must be {each.kind}, got {dtype}")
    for name in {"cycles", "log_jobs"} & set(tables):
        if len(tables[name]) != len(tables["applications"]):
            raise ValueError(f"{name} has {len(tables[name])} rows, not one an application")


def check_rows(tables: Mapping[str, Table], servers: int) -> None:
    """Check that row numbers refer to rows that exist, and that positive columns are positive.

    `gridsim validate` checks the same with more detailed messages.  Raises ValueError.

    Parameters
    ----------
    servers
        How many servers the run had; their numbers follow those of the machines.
    """
    for name, table in tables.items():
        for each in _LIMITED.get(name, ()):
            values = table[each.name]
            if each.rows_of:
                end = len(tables[each.rows_of]) + (servers if each.servers else 0)
                _check_range(f"{name}.{each.name}", values, each.least, end - 1)
            if each.positive:
                _check_positive(f"{name}.{each.name}", values)
    if "traffic" in tables:
        _check_range("traffic.level", tables["traffic"]["level"], 0, _LEVELS)


def _check_range(what: str, values: NDArray[Any], low: int, high: int) -> None:
    if len(values) and not low <= values.min() <= values.max() <= high:
        row = int(np.argmax((values < low) | (values > high)))
        raise ValueError(f"{what}[{row}] must be in {low}..{high}, got {values[row]}")


def _check_positive(what: str, values: NDArray[Any]) -> None:
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what}[{row}] must be finite and > 0, got {values[row]}")
