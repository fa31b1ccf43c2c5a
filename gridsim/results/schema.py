"""Declarations of the columns of result tables.

Units of frames and charts, checks of files and the reference page of outputs are derived from them.  A
scheduler may report further columns and tables, which are not declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.results.metrics.formulas import SLOWDOWN
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
        Meaning of the column.
    mandatory
        Whether a result file with the table must have the column.
    rows_of
        The table to whose rows the values refer; "" if they are not row numbers.
    minimum
        The smallest value allowed with `rows_of`; -1 if -1 may stand for none.
    servers
        With `rows_of` "machines", whether the values may also be numbers of servers (`Result.servers`).
    positive
        Whether the values must be finite and > 0, since they are divisors.
    """

    name: str
    kind: str
    unit: str
    text: str = ""
    mandatory: bool = False
    rows_of: str = ""
    minimum: int = 0
    servers: bool = False
    positive: bool = False


def _mandatory(name: str, kind: str, unit: str, text: str = "", **options: Any) -> Column:
    return Column(name, kind, unit, text, mandatory=True, **options)


_APPLICATION = _mandatory("application", "int", "application", rows_of="applications")
_MACHINE = _mandatory("machine", "int", "machine", rows_of="machines")

#: Group of columns -> columns.  A group is a table or, if its name is "table, condition", the columns of a
#: table that only some results have.
COLUMNS: dict[str, tuple[Column, ...]] = {
    "applications": (
        _mandatory("release", "float", "s", "time of its submission"),
        _mandatory("first_start", "float", "s", "start of its first task, even if that task was lost"),
        _mandatory("finish", "float", "s", "end of its last task at the machine; later messages do not "
                   "count"),
        _mandatory("tasks", "int", "tasks", "number of tasks, n"),
        _mandatory("task_size", "float", "Mflop", "size of each task, a; the mean if tasks differ",
                   positive=True),
        _mandatory("size", "float", "Mflop", "total size, w = n a; the sum if tasks differ", positive=True),
        _mandatory("submitter", "int", "machine", "machine of its submission", rows_of="machines",
                   minimum=-1),
        _mandatory("stretch", "float", "s/Mflop", "weighted flow, (finish - release) / size; the papers "
                   "call it stretch"),
        _mandatory("stretch_agg", "float", "1", "stretch: the response time over size / aggregate "
                   "speed"),
        _mandatory("resubmitted", "int", "tasks", "tasks that had to be placed again; of a rigid job, "
                   "its machines each time that it is begun again"),
        _mandatory("nodes_used", "int", "machines", "machines that received tasks of it and kept at "
                   "least one; cores, where the scheduler takes cores for machines"),
        Column("level", "int", "level", "fair tree only: depth of the router that accepted it, 0 for the "
               "root, -1 without routers"),
    ),
    "applications, of workloads with data": (
        Column("data", "int", "B", "bytes of the instructions and data of a task, and of its result"),
    ),
    "applications, of tasks that move data": (
        Column("input_bytes", "float", "B", "input of a task, fetched over the link of its machine "
               "before it starts"),
        Column("output_bytes", "float", "B", "output of a task, sent over that link before it ends"),
    ),
    "applications, of workloads with estimates": (
        Column("estimate", "float", "Mflop", "size of each task as the submitter states it"),
    ),
    "applications, of workloads with dependencies": (
        Column("predecessors", "int", "applications", "number of applications that had to end before its "
               "release"),
        Column("stated_release", "float", "s", "earliest release, as stated; `release` is the actual one"),
    ),
    "applications, with constraints": (
        Column("memory", "float", "B", "minimum memory of its machines"),
        Column("disk", "float", "B", "minimum disk of its machines"),
        Column("kind", "text", "", "of rigid jobs: required kind of machine; empty for any"),
    ),
    "applications, of rigid jobs": (
        Column("run_time", "float", "s", "run time of each of its tasks"),
        Column("requested", "float", "s", "run time requested by the user"),
        Column("not_before", "float", "s", "of jobs that state it: earliest start"),
        Column("deadline", "float", "s", "of jobs that state it: latest end; inf for none"),
        Column("cancel_at", "float", "s", "of jobs that state it: time of its cancellation by the user; "
               "inf for never"),
        Column("cores", "int", "cores", "cores that each task takes, if jobs share machines"),
        Column("gpus", "int", "GPUs", "GPUs that each task takes"),
        Column("exclusive", "int", "0 or 1", "1 if its machines run no other job"),
        Column("waiting", "float", "s", "time from the release, or `not_before` if that is later, to the "
               "start of the completed run"),
        Column("slowdown", "float", "1", f"bounded slowdown, {SLOWDOWN}"),
        Column("failed", "int", "0 or 1", "1 if it was rejected"),
        Column("cancelled", "int", "0 or 1", "of jobs with `cancel_at`: 1 if its user cancelled it"),
        Column("terminated", "int", "0 or 1", "if jobs may be killed: 1 if it was killed, for example at the "
               "limit of its requested time; it ends there, and `run_time` is the time for which it ran"),
        Column("searches", "int", "searches", "`dgs-asap`, `dgs-acap`: rounds of requests for it"),
        Column("conflicts", "int", "", "`dgs-asap`, `zorilla`, `metascheduler`: allocations that a "
               "machine refused or that failed; if it is not 0, the first one did"),
        Column("late", "int", "", "`dgs-asap`: answers ignored because their start was too near; "
               "`zorilla`, `metascheduler`: allocations that failed because a message arrived after the "
               "start"),
        Column("floods", "int", "floods", "`zorilla` only: number of its advertisements"),
        Column("site", "int", "site", "`metascheduler` only: the site that ran it; -1 for several sites "
               "or none"),
        Column("moved", "int", "moves", "`metascheduler` only: moves to another site after too long a wait"),
        Column("reached", "int", "machines", "`dgs-asap`, `dgs-acap`: maximum number of candidates that "
               "a search for it reached"),
    ),
    "applications, of work queues": (
        Column("smallest_task", "float", "Mflop", "size of its smallest task"),
        Column("largest_task", "float", "Mflop", "size of its largest task"),
        Column("replicas", "int", "replicas", "replicas started while another one of the task ran"),
        Column("killed", "int", "replicas", "replicas stopped because another one of the task was completed"),
        Column("undisturbed", "int", "tasks", "tasks completed without resubmission; a task that lost "
               "a replica while another one ran is among them"),
    ),
    "applications, of tasks that move": (
        Column("migrated", "int", "moves", "moves of tasks to another host than the previous one"),
        Column("resumed", "int", "tasks", "tasks resumed at the host that they had lost, because they "
               "waited for it or it was chosen again"),
        Column("undisturbed", "int", "tasks", "completed tasks that never lost their host"),
    ),
    "machines": (
        _mandatory("speed", "float", "Mflop/s", "speed of the machine", positive=True),
        _mandatory("busy", "float", "s", "time that its cores spent on tasks"),
        Column("tasks", "int", "tasks", "tasks completed on it"),
        Column("interrupted", "int", "tasks", "tasks that ran on it when it failed; a rigid job that "
               "loses a machine, or is cancelled while it runs, is interrupted on all its machines"),
        Column("peak_queue", "int", "tasks", "maximum number of tasks in its queue, or in that of one of its "
               "cores; 0 if machines have no queue (`mincent`, `fcfs-pull`, `shortest-bag-first`)"),
        Column("bytes_out", "int", "B", "bytes sent to other machines"),
        Column("bytes_in", "int", "B", "bytes delivered from other machines"),
        Column("use_mean", "float", "1", "bytes in and out / bandwidth, from the first to the last "
               "release; at most 2"),
        Column("use_peak_1s", "float", "1", "the same in the busiest window of 1 s"),
        Column("use_peak_10s", "float", "1", "the same in the busiest window of 10 s"),
        Column("data_in", "float", "B", "task data fetched: `network.task_data` for each task that "
               "started on it"),
        _mandatory("utilization", "float", "1", "busy / (last finish - first release) / cores; of a run in "
                   "which jobs were rejected, to its end"),
        Column("failures", "int", "", "failures until the end of the run (`clock_seconds`), which may be "
               "after the last task; absence from the beginning is not a failure"),
    ),
    "machines, with several cores": (
        Column("cores", "int", "cores", "number of cores of the machine"),
        Column("gpus", "int", "GPUs", "number of GPUs of the machine"),
    ),
    "machines, with power": (
        Column("energy", "float", "J", "energy used from the first release to the end, as for `utilization`"),
        Column("carbon", "float", "kg", "CO2 of that energy, if the power has a carbon intensity"),
    ),
    "machines, with attributes": (
        Column("memory", "float", "B", "memory of the machine"),
        Column("disk", "float", "B", "disk of the machine"),
        Column("kind", "text", "", "kind of the machine"),
        Column("x", "float", "", "x coordinate, in the unit of the platform"),
        Column("y", "float", "", "y coordinate, in the unit of the platform"),
    ),
    "machines, of tasks that move data": (
        Column("bandwidth", "float", "B/s", "bandwidth of its link to the data, in each direction"),
    ),
    "machines, of work queues": (
        Column("ended", "int", "replicas", "replicas stopped on it because another one was completed"),
    ),
    "machines, of dgs-asap": (
        Column("schedules_received", "int", "schedules", "schedules of [exchanges](#table-exchanges) "
               "that the machine received, without those of shuffles"),
    ),
    "messages": (
        _mandatory("kind", "text", "", "kind of message"),
        _mandatory("sent", "int", "messages", "messages sent to another machine"),
        _mandatory("delivered", "int", "messages", "messages delivered before the end of the run"),
        _mandatory("dropped", "int", "messages", "messages lost because a machine failed"),
        _mandatory("in_flight", "int", "messages", "sent - delivered - dropped: in transit at the end of "
                   "the run"),
        _mandatory("bytes", "int", "B", "bytes of the messages sent"),
    ),
    "requests": (
        Column("application", "int", "application", "application of the request"),
        Column("tasks", "int", "tasks", "tasks requested"),
        Column("release", "float", "s", "release of the application; with `resubmit=\"new\"` lost tasks "
               "have the time of their resubmission"),
        Column("size", "float", "Mflop", "size of the application, even if only some of its tasks are "
               "requested; with `resubmit=\"new\"` lost tasks have the size of their work"),
        Column("accepted", "float", "s", "time of its acceptance"),
        Column("router", "int", "node", "the accepting router; router k is on machine k"),
        Column("level", "int", "level", "depth of that router; the root has 0"),
        Column("steps_up", "int", "routers", "number of routers that passed it to their parent"),
        Column("promised", "float", "s/Mflop", "stretch sample at which it was accepted; infinite if not "
               "even the last sample could host it"),
        Column("guaranteed", "int", "0 or 1", "1 if a stretch sample of the accepting router hosted all "
               "its tasks, else 0"),
        Column("stretch", "float", "s/Mflop", "its actual weighted flow, by the release and size of the "
               "request"),
        Column("kept", "int", "0 or 1", "1 if guaranteed and stretch <= promised"),
    ),
    "traffic": (
        _mandatory("kind", "text", "", "as in `messages`"),
        _mandatory("level", "int", "level", "depth of the sender in the tree; the root has 0"),
        _mandatory("messages", "int", "messages", "messages sent to another machine"),
        _mandatory("bytes", "int", "B", "bytes of these messages"),
    ),
    "payments": (
        _MACHINE,
        _APPLICATION,
        _mandatory("late", "int", "0 or 1", "1 if the task ended after its deadline"),
        _mandatory("paid", "float", "", "payment to the machine for the task, less the penalty"),
    ),
    "updates": (
        Column("arrived", "float", "s", "arrival at the root"),
        Column("age", "float", "s", "time since the oldest change of a leaf that it reports first"),
    ),
    "repairs": (
        Column("router", "int", "node", "router of the failed machine"),
        Column("failed", "float", "s", "time of the failure"),
        Column("machine", "int", "machine", "machine that took the router over; -1 if none did"),
        Column("taken", "float", "s", "time of the takeover"),
        Column("whole", "float", "s", "time at which the machine had reports of both children, or knew "
               "that they were removed, and the parent had one of the machine"),
    ),
    "exchanges": (
        Column("kind", "text", "", "`push`, `pull`, `poll`, `retrieve` (from a neighbour that is opened, "
               "with push and poll), `shuffle` (of each new neighbour in a view, with every policy)"),
        Column("schedules", "int", "schedules", "schedules sent"),
        Column("bytes", "int", "B", "bytes of these schedules, 1024 each"),
    ),
    "placements": (
        _APPLICATION,
        _mandatory("distance", "float", "", "mean distance of two of its machines, in the unit of the "
                   "platform; 0 for one machine"),
    ),
    "freed": (
        _APPLICATION,
        _MACHINE,
        _mandatory("start", "float", "s", "start of its unused reservation on the machine when it was "
                   "cancelled"),
        _mandatory("end", "float", "s", "end of that reservation"),
    ),
    "jobs": (
        _APPLICATION,
        _mandatory("machine", "int", "machine", "machine that ran it", rows_of="machines"),
        Column("probes", "int", "steps", "steps of its search: nodes asked, and with an overlay also "
               "nodes passed"),
        _mandatory("predicted", "float", "s", "wait at that machine predicted when it was chosen; NaN if "
                   "the job stayed at its submitter"),
        _mandatory("waited", "float", "s", "time from its arrival at the machine to its start"),
        _mandatory("turnaround", "float", "s", "time from its release until the result is back at its "
                   "submitter; with waits for [dispatchers](../background/rjss.md#how-it-works)"),
    ),
    "searches": (
        Column("client", "int", "machine", "machine that searched"),
        Column("wanted", "int", "hosts", "tasks of the client without a host when the search began"),
        Column("found", "int", "hosts", "hosts that offered themselves and got a task; tasks that the "
               "client's own machine took meanwhile are not counted"),
        Column("rounds", "int", "rounds", "rounds in which it asked other nodes"),
        Column("began", "float", "s", "start of the search"),
        Column("ended", "float", "s", "end of the search: no task needed a host, or no node was left to ask"),
    ),
    "hosts": (
        Column("application", "int", "application"),
        Column("client", "int", "machine"),
        Column("host", "int", "machine", "host of the task, which may be the client itself"),
        Column("needed", "float", "s", "time since which the task needed a host: its submission, its "
               "return from a host, or a failure"),
        Column("found", "float", "s", "time at which the client gave the task to the host"),
    ),
    "cycles": (
        _mandatory("useful", "float", "Mflop", "size of the application if it is completed"),
        _mandatory("redundant", "float", "Mflop", "work of replicas that were slower than another one, "
                   "and saved work that was not resumed"),
        _mandatory("lost", "float", "Mflop", "work since the newest checkpoint of a failed replica, and "
                   "of jobs that had to restart"),
        _mandatory("overhead", "float", "Mflop", "work of checkpoints; for wave schedulers, of migrations"),
        _mandatory("slowed", "float", "Mflop", "work that background load on the machines took meanwhile"),
    ),
    "log_jobs": (
        _mandatory("job", "int", "", "number in the log; copies of a job share it"),
    ),
    "schedule": (
        _MACHINE,
        _APPLICATION,
        _mandatory("tasks", "int", "tasks", "tasks run one after another without a gap"),
        _mandatory("start", "float", "s", "start of the first task"),
        _mandatory("end", "float", "s", "end of the last task"),
        _mandatory("completed", "int", "tasks", "completed tasks: all of them, or 0 if a failure "
                   "interrupted one at `end`"),
    ),
    "schedule, of tasks with several replicas": (
        Column("task", "int", "task", "number within the application"),
        Column("begin", "float", "Mflop", "work of the task done before this replica started"),
    ),
    "schedule, of cores with queues of their own": (
        Column("core", "int", "core", "number of the core of the machine"),
    ),
    "arrivals": (
        _MACHINE,
        _APPLICATION,
        _mandatory("tasks", "int", "tasks", "number of tasks; negative if they were withdrawn from the "
                   "queue"),
        _mandatory("time", "float", "s"),
    ),
    "arrivals, of cores with queues of their own": (
        Column("core", "int", "core", "number of the core of the machine"),
    ),
    "decisions": (
        _mandatory("time", "float", "s"),
        _mandatory("application", "int", "application", "application or job", rows_of="applications"),
        _mandatory("task", "int", "task", "task of the application, if the decision was about one"),
        _mandatory("action", "text", "", "the decision; [why](../guides/why.md) lists the actions of "
                   "each scheduler"),
        _mandatory("decider", "int", "machine", "deciding machine; -1 for a centralized scheduler",
                   rows_of="machines", minimum=-1),
        _mandatory("level", "int", "level", "level of the deciding node in a tree"),
        _mandatory("machine", "int", "machine", "machine that got the tasks or the request; -1 for none",
                   rows_of="machines", minimum=-1, servers=True),
        _mandatory("tasks", "int", "tasks", "number of tasks concerned; for work queues, those of which "
                   "`task` is one"),
        _mandatory("among", "int", "machines", "number of candidates, or of machines requested"),
        _mandatory("saw", "float", "by action", "the value on which the decision was based, as known to "
                   "the decider"),
        _mandatory("limit", "float", "by action", "the threshold with which it was compared"),
        _mandatory("true", "float", "by action", "the true value at that time"),
        _mandatory("age", "float", "s", "age of the value seen"),
    ),
    "message_log": (
        _mandatory("kind", "text", "", "as in `messages`"),
        _mandatory("sender", "int", "machine", "machine of the sending node, or a server",
                   rows_of="machines", servers=True),
        _mandatory("receiver", "int", "machine", "machine of the receiving node, or a server",
                   rows_of="machines", servers=True),
        _mandatory("sent", "float", "s", "time at which the sender handed it to its network interface, "
                   "where it may wait"),
        _mandatory("delivered", "float", "s", "time of delivery; NaN if it was dropped, or in transit at "
                   "the end"),
        _mandatory("dropped", "int", "0 or 1", "1 if it was lost because a machine failed"),
        _mandatory("bytes", "int", "B"),
        _mandatory("application", "int", "application", "application or job that it is about; -1 for none",
                   rows_of="applications", minimum=-1),
    ),
    "observed": (
        _mandatory("time", "float", "s", "time of the sample, which shows nodes after all events of its "
                   "instant"),
        _mandatory("node", "int", "node", "node, which is up"),
    ),
    "diary": (
        _mandatory("time", "float", "s", "time of the handler call"),
        _mandatory("node", "int", "node", "node whose handler was called"),
        _mandatory("call", "int", "", "number of the call among those recorded, from 0; -1 for a failure"),
        _mandatory("handler", "text", "", "method that was called, such as `on_release`"),
        _mandatory("entry", "text", "", "the call itself, `call`, or what it did: `send`, `later`, `timer`, "
                   "`cancel`, `act`, `enqueue`, `take`, `publish`, `add`, `note`, `decide`, `attribute`; "
                   "or `fail`, a failure of the machine"),
        _mandatory("name", "text", "", "kind of message, timer, table, action or attribute"),
        _mandatory("peer", "int", "node", "sender of a message that the handler got, or receiver of a "
                   "message that it sent; else -1"),
        _mandatory("due", "float", "s", "when a message that was sent was delivered, or a timer is due; NaN "
                   "for messages that did not arrive, and for other entries"),
        _mandatory("text", "text", "", "fields of the message or timer, arguments, or the change of the "
                   "attribute"),
    ),
}  # fmt: skip


def _columns_by_table() -> dict[str, dict[str, Column]]:
    tables: dict[str, dict[str, Column]] = {}
    for group, columns in COLUMNS.items():
        tables.setdefault(group.partition(",")[0], {}).update({column.name: column for column in columns})
    return tables


#: Table -> column -> its declaration.
TABLES = _columns_by_table()
_MEASUREMENT_UNITS = ("s", "Mflop", "Mflop/s", "s/Mflop", "B", "J", "kg", "1")
#: Table -> column -> unit, for columns with a unit of measurement; columns of counts are left out.
COLUMN_UNITS = {
    table: {name: column.unit for name, column in columns.items() if column.unit in _MEASUREMENT_UNITS}
    for table, columns in TABLES.items()
}
#: Tables that every result has.
CORE_TABLES = ("applications", "machines", "messages")
#: Table -> its mandatory columns, and table -> its columns with restricted values.
_MANDATORY_COLUMNS, _CHECKED_COLUMNS = (
    {table: tuple(filter(condition, columns.values())) for table, columns in TABLES.items()}
    for condition in (lambda column: column.mandatory, lambda column: column.rows_of or column.positive)
)
_KINDS = {"float": "f", "int": "iu", "text": "U"}
#: Maximum level of a tree in a result; trees of simulated platforms have fewer levels.
_MAX_LEVEL = 64


def check_columns(tables: Mapping[str, Table]) -> None:
    """Check that mandatory columns exist and have the right kind, and that the number of rows is valid.

    Raises
    ------
    ValueError
        If a table is missing or invalid; the error names the table and column.
    """
    for name in CORE_TABLES:
        if name not in tables:
            raise ValueError(f"the table {name!r} is missing")
    for name in ("applications", "machines"):
        if not len(tables[name]):
            raise ValueError(f"{name} must have at least one row, got none")
    for name, table in tables.items():
        for column in _MANDATORY_COLUMNS.get(name, ()):
            if column.name not in table:
                raise ValueError(
                    f"{name} must have a column {column.name!r}, got {', '.join(table) or 'none'}"
                )
            if (dtype := table[column.name].dtype).kind not in _KINDS[column.kind]:
                raise ValueError(f"{name}.{column.name} must be {column.kind}, got {dtype}")
    for name in {"cycles", "log_jobs"} & set(tables):
        if len(tables[name]) != len(tables["applications"]):
            raise ValueError(f"{name} must have one row per application, got {len(tables[name])} rows")


def check_rows(tables: Mapping[str, Table], servers: int) -> None:
    """Check that row numbers refer to existing rows, and that positive columns are positive.

    `gridsim validate` makes the same checks with more detailed messages.

    Parameters
    ----------
    servers
        Number of servers of the run; their numbers follow those of the machines.

    Raises
    ------
    ValueError
        If a value is out of range.
    """
    for name, table in tables.items():
        for column in _CHECKED_COLUMNS.get(name, ()):
            values = table[column.name]
            if column.rows_of:
                end = len(tables[column.rows_of]) + (servers if column.servers else 0)
                _check_range(f"{name}.{column.name}", values, column.minimum, end - 1)
            if column.positive:
                _check_positive(f"{name}.{column.name}", values)
    if "traffic" in tables:
        _check_range("traffic.level", tables["traffic"]["level"], 0, _MAX_LEVEL)


def _check_range(path: str, values: NDArray[Any], low: int, high: int) -> None:
    if len(values) and not low <= values.min() <= values.max() <= high:
        row = int(np.argmax((values < low) | (values > high)))
        raise ValueError(f"{path}[{row}] must be in {low}..{high}, got {values[row]}")


def _check_positive(path: str, values: NDArray[Any]) -> None:
    invalid = ~(np.isfinite(values) & (values > 0))
    if invalid.any():
        row = int(np.argmax(invalid))
        raise ValueError(f"{path}[{row}] must be finite and > 0, got {values[row]}")
