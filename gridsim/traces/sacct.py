"""Job logs of Slurm: tables that ``sacct -P`` prints, with any columns in any order.

Source: https://slurm.schedmd.com/sacct.html.  A job has a line of its own and lines for its steps, whose
numbers have a dot (11.batch).  Tasks of an array are jobs (12_3); those that wait share a line (12_[4-9%2]).
"""

from __future__ import annotations

import math
import re
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import Remark, text_lines
from gridsim.traces.accounting import COMPLETED, Floats, Rows, first_known, make_jobs, run_columns
from gridsim.traces.job_lines import CANCELLED, FAILED
from gridsim.traces.jobs import (
    GPUS_UNUSED,
    NODES_NOTE,
    NOT_ENDED,
    PENDING,
    PENDING_ARRAYS,
    SHARED_NOTE,
    ParsedJobs,
    no_pairs,
)
from gridsim.traces.sacct_dependencies import IDENTITY, STATEMENTS, TASK, slurm_predecessors
from gridsim.traces.tables import AccountingTable, Bytes, InvalidValue, check_columns, read_table
from gridsim.traces.values import (
    has_zone,
    is_unknown,
    number_names,
    parse_counts,
    parse_durations,
    parse_memory,
    parse_numbers,
    parse_times,
    resource_amount,
    whole_numbers,
)

#: The command whose table has everything that gridsim uses, except dependencies of jobs (JobName,SubmitLine).
EXPORT = (
    "sacct -aXP -S START -E END --format=JobIDRaw,JobID,User,Account,Partition,State,Submit,Start,End,"
    "ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqMem"
)
#: Separators of columns that tables may have.
_SEPARATORS = ("|", "\t", ";", ",")
#: The columns by which tables of other batch systems are read.
_COMMON_COLUMNS = "JobID, User, Partition, Submit, Start, End, NCPUS and TimelimitRaw (minutes)"
_JOB_ID = r"\d+(_(\d+|\[[^\]|]*\]?)|\+\d+)*(\.[\w+.]+)?"
_TIME = r"[\d:T+.Z -]*|[A-Za-z]*(/[A-Za-z])?"
_DURATION = r"[\d:.-]*|[A-Za-z_]*"
_NUMBER = r"[\d.]*[KMGTP]?|[A-Za-z_]*"
#: Column, in lower case -> pattern of its values; None for any text without the separator.
_PATTERNS: dict[str, re.Pattern[str] | None] = {
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(_JOB_ID)),
    "state": re.compile(r"[A-Z_]+\+?( by \S+)?"),
    **dict.fromkeys(("submit", "start", "end"), re.compile(_TIME)),
    **dict.fromkeys(("elapsed", "timelimit", "planned", "reserved", "suspended"), re.compile(_DURATION)),
    **dict.fromkeys(("elapsedraw", "timelimitraw"), re.compile(_NUMBER)),
    **dict.fromkeys(
        ("alloccpus", "ncpus", "reqcpus", "allocnodes", "nnodes", "reqnodes"), re.compile(_NUMBER)
    ),
    **dict.fromkeys(("user", "uid", "account", "group", "gid", "partition"), None),
    **dict.fromkeys(("alloctres", "reqtres"), re.compile(r"[\w/:]+=[^|]*|")),
    "reqmem": re.compile(r"[\d.]*[KMGTP]?[Bcn]?"),
    "exclusive": None,
    **dict.fromkeys(STATEMENTS, None),
}
#: Columns, in lower case, that may have separators or newlines in their values.
TEXT_COLUMNS = frozenset(
    ("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra", "container")
    + ("constraints", "reason", "stdin", "stdout", "stderr", "failednode", "licenses")
)
#: Columns that no run uses, in lower case, by which a table of sacct is also known.
_NAMES = frozenset((*_PATTERNS, *TEXT_COLUMNS, "exitcode", "derivedexitcode", "qos", "nodelist", "priority"))
#: Columns of many different values, in lower case.
_NUMBERS = frozenset(
    ("jobid", "jobidraw", "submit", "start", "end", "elapsed", "elapsedraw", "planned", "timelimitraw")
)
#: Lists of resources, in lower case, and the columns that state the same, except GPUs.
_RESOURCES, _SAME_RESOURCES = ("alloctres", "reqtres"), ("ncpus", "nnodes", "reqmem")
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d{1,9})(?=,|$)", re.ASCII)
_NEEDS = {
    "a submit time": ("Submit",),
    "a start or wait": ("Start", "Planned", "Reserved", "End+ElapsedRaw", "End+Elapsed"),
    "a run time": ("ElapsedRaw", "Elapsed", "Start+End"),
    "processors or nodes": (
        *("NCPUS", "AllocCPUS", "ReqCPUS", "AllocTRES", "ReqTRES", "NNodes", "AllocNodes", "ReqNodes"),
    ),
}
#: The columns that tell what jobs had of which nodes, as in `_NEEDS`.
_NODE_NEEDS = {
    "nodes": ("NodeList",),
    "a start": ("Start",),
    "an end or a run time": ("End", "ElapsedRaw", "Elapsed"),
    "processors": ("NCPUS", "AllocCPUS", "AllocTRES"),
}
_WAITING = ("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "REVOKED")
_RUNNING = (
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
)
_ENDED = {
    "COMPLETED": COMPLETED,
    "CANCELLED": CANCELLED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "REQUEUED")
        + ("LAUNCH_FAILED", "RECONFIG_FAIL"),
        FAILED,
    ),
}
#: State -> status in SWF, or -2 for jobs that wait and -3 for jobs that run.
_STATES = {**_ENDED, **dict.fromkeys(_WAITING, -2), **dict.fromkeys(_RUNNING, -3)}


def table_separator(line: str, names: frozenset[str] = _NAMES) -> str | None:
    """Return the separator of a line with the names of columns; None if it does not name two known columns.

    Parameters
    ----------
    names
        Known names, in lower case.
    """
    for separator in _SEPARATORS:
        words = [word.strip().lower() for word in line.split(separator)]
        if len(words) > 1 and len(names.intersection(words)) >= 2:
            return separator
    return None


def parse_sacct(path: StrPath) -> ParsedJobs:
    """Return the jobs of a table of ``sacct -P`` as in the file, in its order.

    Tasks of an array that were submitted at one instant follow each other in the order of their indices.
    Steps, jobs that have not ended, and pending arrays are left out, and columns that no run uses;
    `ParsedJobs.remarks` counts them.  A job that was cancelled or failed before it started is a job that
    never ran.  Processors are CPUs, or nodes if the table has no CPUs or all jobs are exclusive.  Accounts
    are groups, and partitions are queues.  Times without a time zone are read as if clocks never changed.

    Preceding jobs are those of ``--dependency`` in the column SubmitLine (or Dependency), and of "singleton"
    if there is a column JobName.  If an array has a limit for the tasks that run at once, in SubmitLine or in
    the line of its pending tasks, a task follows the one whose end made room for it, or if times do not tell,
    the one as far before it as the limit.

    Raises
    ------
    TraceFormatError
        If a needed column is missing, a line has too few or too many fields, or a value cannot be read.
    """
    separator, names = _head(path)
    renaming = f"rename the columns of another batch system to {_COMMON_COLUMNS}"
    hint = f"{renaming}; export those of Slurm with: {EXPORT}"
    check_columns(path, names, _NEEDS, hint)
    present = {name.lower() for name in names}
    patterns = dict(_PATTERNS)
    if "timelimitraw" in present:
        del patterns["timelimit"]
    if present.intersection(STATEMENTS):
        patterns[IDENTITY] = None
    table = read_table(path, separator, patterns, texts=TEXT_COLUMNS, numbers=_NUMBERS)
    return _jobs(table, "Slurm" if separator == "|" else "")


def _head(path: StrPath) -> tuple[str, list[str]]:
    """Return the separator and the names of the columns of a table."""
    with closing(text_lines(path)) as lines:
        first = next((line for line in lines if line.strip()), "")
    separator = table_separator(first) or next((mark for mark in _SEPARATORS if mark in first), "|")
    return separator, [name.strip() for name in first.split(separator)]


def has_node_lists(path: StrPath) -> bool:
    """Return whether a table has all columns that `read_allocations` needs."""
    names = {name.lower() for name in _head(path)[1]}
    return all(any(set(c.lower().split("+")) <= names for c in columns) for columns in _NODE_NEEDS.values())


class Allocations(NamedTuple):
    """What the jobs of a table had of which nodes.

    Parameters
    ----------
    nodes
        The distinct lists of nodes, as in the table.
    list_of
        int64[jobs], index of the list of each job.
    start, end
        float64[jobs], s; the end of a job that has not ended is inf.
    cpus
        float64[jobs].
    memory
        float64[jobs], KB; NaN is unknown.
    line
        int64[jobs], line in the file.
    """

    nodes: list[str]
    list_of: NDArray[np.int64]
    start: Floats
    end: Floats
    cpus: Floats
    memory: Floats
    line: NDArray[np.int64]


def read_allocations(path: StrPath) -> Allocations:
    """Return the allocations of the jobs of a table that have started; raises errors as `parse_sacct`."""
    separator, names = _head(path)
    check_columns(path, names, _NODE_NEEDS, f"export with: {EXPORT},NodeList,AllocTRES")
    patterns = {**_PATTERNS, "nodelist": re.compile(r"[^|]*")}
    table = read_table(path, separator, patterns, texts=TEXT_COLUMNS, numbers=_NUMBERS)
    start, end = table.numbers(parse_times, "Start"), table.numbers(parse_times, "End")
    assert start is not None
    if end is None:
        end = start + _run_times(table, start, end)
    nodes = first_known(*(table.numbers(parse_counts, name) for name in ("AllocNodes", "NNodes", "ReqNodes")))
    cpus, _ = _processors(table, None, np.zeros(len(table), np.bool_))
    memory = _memory(table, cpus, nodes) * cpus
    if (allocated := table.get("AllocTRES")) is not None:
        stated = allocated.map(lambda value: parse_memory(resource_amount(value, "mem"))[0])
        memory = np.where(np.isnan(stated), memory, stated)
    rows = ~_steps(table) & ~_pending_arrays(table) & ~np.isnan(start) & (cpus > 0)
    column = table.get("NodeList")
    assert column is not None
    texts = column.texts()
    list_of = column.rows(np.arange(len(texts)))[rows]
    ends = np.where(np.isnan(end), np.inf, end)[rows]
    return Allocations(texts, list_of, start[rows], ends, cpus[rows], memory[rows], table.line[rows])


def _jobs(table: AccountingTable, system: str) -> ParsedJobs:
    """Return the jobs of a table of a batch system, whose name is "" if it is not known."""
    line, gpus, stated_memory = table.line, _gpus(table), _resource_memory(table)
    if table.columns.keys() >= set(_SAME_RESOURCES):
        kept = {name: column for name, column in table.columns.items() if name not in _RESOURCES}
        table = replace(table, columns=kept)
    step = _steps(table)
    pending_array = _pending_arrays(table) & ~step
    state = table.numbers(_statuses, "State")
    started = table.numbers(parse_times, "Start")
    ended = table.numbers(parse_times, "End")
    status = np.full(len(line), -1.0) if state is None else state
    if state is None and started is not None:
        # without states, a job that has no start waits, and one that has no end runs
        status[np.isnan(started)] = -2
        if ended is not None:
            status[np.isnan(ended) & ~np.isnan(started)] = -3
    waiting = ~step & ~pending_array & (status == -2)
    running = ~step & ~pending_array & (status == -3)
    rows = ~step & ~pending_array & ~waiting & ~running

    submit, is_local = _submissions(table, rows)
    run_time = _run_times(table, started, ended)
    start = _starts(table, submit, started, ended, run_time)
    end = np.full(len(line), np.nan) if ended is None else ended
    nodes = first_known(*(table.numbers(parse_counts, name) for name in ("AllocNodes", "NNodes", "ReqNodes")))
    procs, procs_are_nodes = _processors(table, nodes, rows)
    users, user_names = number_names(table.get("User", "UID"), rows)
    groups, group_names = number_names(table.get("Account", "Group", "GID"), rows)
    queues, queue_names = number_names(table.get("Partition"), rows)
    numbers, tasks = _numbers(table, rows)
    order = _order(table, rows, submit)
    requested_memory = _memory(table, procs, nodes)
    stated_memory = np.where(stated_memory > 0, stated_memory, requested_memory * procs)
    predecessors = slurm_predecessors(table, numbers, rows, submit, start, end, run_time)
    fields = {
        "job": numbers,
        "submit": submit,
        **run_columns(submit, start, end, run_time, procs, status),
        "req_time": _limits(table),
        "req_memory": np.where(requested_memory > 0, requested_memory, stated_memory / procs),
        "status": status,
        "user": users,
        "group": groups,
        "queue": queues,
        "preceding": predecessors.preceding,
    }
    header = {"Computer": system} if system else {}
    header |= {
        key: names
        for key, names in (("User", user_names), ("Group", group_names), ("Queue", queue_names))
        if names
    }
    if note := _sharing(nodes, procs, rows, procs_are_nodes):
        header["Note"] = note
    clock_changes = _clock_changes(table, rows, started, ended, run_time, is_local)
    has_gpus = rows & (gpus > 0)
    gpu_counts = np.stack((line[has_gpus], gpus[has_gpus].astype(np.int64)), axis=1)
    remarks = (
        Remark(line[step], "job steps, which belong to jobs with lines of their own, left out"),
        Remark(line[pending_array], PENDING_ARRAYS),
        Remark(line[waiting], PENDING),
        Remark(line[running], NOT_ENDED),
        Remark(line[has_gpus], f"numbers of GPUs (gres/gpu, {gpu_counts[:, 1].sum()} in all), {GPUS_UNUSED}"),
        Remark(line[tasks], "JobIDs such as 12_3 or 12+1, replaced by new numbers without JobIDRaw"),
        *predecessors.remarks,
        table.unused({*_PATTERNS, *table.columns}),
    )
    repairs = _contradictions(table, rows & ~clock_changes, started, ended, run_time)
    if clock_changes.any():
        repairs.append(Remark(line[clock_changes], CLOCK_CHANGES))
    selected = {name: column[order] for name, column in fields.items()}
    jobs = make_jobs(table.path, selected, line[order], header=header, is_local=is_local, remarks=remarks)
    node_counts = no_pairs()
    if nodes is not None and not procs_are_nodes:
        is_known = rows & (nodes > 0)
        node_counts = np.stack((line[is_known], nodes[is_known].astype(np.int64)), axis=1)
    return jobs._replace(
        further=predecessors.further,
        repairs=(*repairs, *jobs.repairs),
        node_counts=node_counts,
        gpu_counts=gpu_counts,
    )


def _steps(table: AccountingTable) -> Rows:
    """Return which rows are job steps: their job IDs have a dot, or else they have no user."""
    if (number := table.get("JobID", "JobIDRaw")) is not None:
        return number.has(".")
    if (user := table.get("User", "UID", "Partition")) is not None:
        rows = user.map(is_unknown, np.bool_)
        return rows
    return np.zeros(len(table), np.bool_)


def _pending_arrays(table: AccountingTable) -> Rows:
    number = table.get("JobID")
    return np.zeros(len(table), np.bool_) if number is None else number.has("[")


def _numbers(table: AccountingTable, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of jobs: JobIDRaw, else JobID; tasks of arrays get higher numbers.

    The second array has the rows of these tasks.
    """
    raw, number = table.get("JobIDRaw"), table.get("JobID")
    if raw is None and number is None:
        return np.cumsum(rows), np.zeros(0, np.int64)
    column = raw if raw is not None else number
    assert column is not None
    numbers = np.full(len(table), -1, np.int64)
    tasks: list[tuple[tuple[int, ...], int]] = []
    values, whole = map(column.rows, whole_numbers(column.bytes()))
    numbers[whole] = values[whole]
    for row in np.flatnonzero(rows & ~whole).tolist():
        match = TASK.fullmatch(column.bytes()[column.index(row)].decode(errors="replace"))
        if match is None:
            raise table.error(
                column, InvalidValue(column.index(row), "the number of a job such as 12, 12_3 or 12+1")
            )
        tasks.append((tuple(int(part) for part in match.groups() if part is not None), row))
    following = int(numbers[rows].max(initial=0)) + 1
    for number_of_task, (_, row) in enumerate(sorted(tasks), following):
        numbers[row] = number_of_task
    return numbers, np.array(sorted(row for _, row in tasks), np.int64)


def _order(table: AccountingTable, rows: Rows, submit: Floats) -> NDArray[np.int64]:
    """Return the indices of `rows` in the order of the file, but tasks of an array in their own order.

    Tasks submitted at one instant follow the first of them, since the last task of an array has its lowest
    number and may have its first line.
    """
    place, task = np.arange(len(table)), np.zeros(len(table), np.int64)
    column = table.get("JobID", "JobIDRaw")
    if column is None:
        return np.flatnonzero(rows)
    values, first = column.bytes(), dict[tuple[str, float], int]()
    for row in np.flatnonzero(rows & column.has("_")).tolist():
        match = TASK.fullmatch(values[column.index(row)].decode(errors="replace"))
        if match is not None and match[2] is not None:
            place[row] = first.setdefault((match[1], submit.item(row)), row)
            task[row] = int(match[2])
    order = np.lexsort((task, place))
    return order[rows[order]]


def _statuses(values: Bytes) -> Floats:
    statuses = np.full(len(values), -1.0)
    for k, value in enumerate(values.tolist()):
        words = value.decode(errors="replace").split()
        state = words[0].upper() if words else ""
        if state.endswith("+"):  # cut off to the width of the column
            state = next((name for name in _STATES if name.startswith(state[:-1])), state)
        if state in _STATES:
            statuses[k] = _STATES[state]
        elif not is_unknown(state):
            raise InvalidValue(k, f"a state of Slurm, such as {', '.join(_ENDED)}", _STATES)
    return statuses


def _submissions(table: AccountingTable, rows: Rows) -> tuple[Floats, bool]:
    """Return the submission times (s, NaN if unknown), and whether they are local, without a time zone."""
    column = table.get("Submit")
    assert column is not None
    seconds = table.numbers(parse_times, "Submit")
    assert seconds is not None
    local = ~column.rows(has_zone(column.bytes()))
    used = np.flatnonzero(rows & ~np.isnan(seconds))
    is_local = bool(len(used) and local[used[0]])
    for row in used[local[used] != is_local][:1].tolist():
        condition = f"a time {'without' if is_local else 'with'} a time zone, as in the first job"
        raise table.error(column, InvalidValue(column.index(row), condition))
    return seconds, is_local


def _run_times(table: AccountingTable, start: Floats | None, end: Floats | None) -> Floats:
    run_time = table.numbers(parse_numbers, "ElapsedRaw")
    if run_time is None:
        run_time = table.numbers(parse_durations, "Elapsed")
    if run_time is None:
        assert start is not None and end is not None
        run_time = end - start
    return run_time


def _contradictions(
    table: AccountingTable, rows: Rows, start: Floats | None, end: Floats | None, run_time: Floats
) -> list[Remark]:
    """Return remarks on the jobs among `rows` whose columns contradict each other.

    A run time may be shorter than from start to end, as the job may have been suspended, but not longer.
    """
    raw, duration = table.numbers(parse_numbers, "ElapsedRaw"), table.numbers(parse_durations, "Elapsed")
    name = "Elapsed" if raw is None else "ElapsedRaw"
    is_stated = raw is not None or duration is not None
    faults: list[tuple[str, Rows]] = []
    if start is not None and end is not None:  # comparisons with NaN are false
        use = f"with {name} as run time" if is_stated else "with an unknown run time"
        faults.append((f"jobs whose End is before their Start, {use}", end < start))
        longer = (end >= start) & (run_time > end - start + 1)
        faults.append((f"jobs whose {name} is above the time from Start to End, {use}", longer))
    if raw is not None and duration is not None:
        text = "jobs whose Elapsed differs from ElapsedRaw, with ElapsedRaw as run time"
        faults.append((text, np.abs(raw - duration) >= 1))
    allocated, cpus = table.numbers(parse_counts, "AllocCPUS"), table.numbers(parse_counts, "NCPUS")
    if allocated is not None and cpus is not None:
        different = (allocated > 0) & (cpus > 0) & (allocated != cpus)
        faults.append(("jobs whose NCPUS differs from AllocCPUS, of which AllocCPUS counts", different))
    return [Remark(table.line[rows & of], text) for text, of in faults if (rows & of).any()]


def _gpus(table: AccountingTable) -> Floats:
    """Return the GPUs of each job: those it had, or else requested."""
    columns = [column.map(_gpu_count) for name in _RESOURCES if (column := table.get(name)) is not None]
    gpus = first_known(*columns)
    return np.zeros(len(table)) if gpus is None else gpus


def _gpu_count(resources: str) -> float:
    """Return the GPUs in a list such as cpu=4,gres/gpu=2,gres/gpu:a100=2, whose types may have no total."""
    if "gres/gpu" not in resources:
        return 0.0
    counts = [(kind, int(count)) for kind, count in _GPUS.findall(resources)]
    total = sum(count for kind, count in counts if not kind)
    return float(total or sum(count for _, count in counts))


def _starts(
    table: AccountingTable, submit: Floats, start: Floats | None, end: Floats | None, run_time: Floats
) -> Floats:
    if start is not None:
        return start
    if (wait := table.numbers(parse_durations, "Planned", "Reserved")) is not None:
        return submit + wait
    assert end is not None
    return np.where(run_time > 0, end - run_time, np.nan)


def _processors(table: AccountingTable, nodes: Floats | None, rows: Rows) -> tuple[Floats, bool]:
    """Return the processors of each job, and whether they are nodes.

    They are its CPUs, or its nodes if the table has no CPUs or all jobs are exclusive.
    """
    columns = [table.numbers(parse_counts, name) for name in ("AllocCPUS", "NCPUS")]
    columns += [_resource(table, "AllocTRES", "cpu"), table.numbers(parse_counts, "ReqCPUS")]
    columns += [_resource(table, "ReqTRES", "cpu")]
    cpus = first_known(*columns)
    if nodes is None:
        nodes = first_known(_resource(table, "AllocTRES", "node"), _resource(table, "ReqTRES", "node"))
    exclusive = table.get("Exclusive")
    whole_nodes = exclusive is not None and bool(exclusive.map(_is_exclusive, np.bool_)[rows].all())
    has_cpus = cpus is not None and not (whole_nodes and nodes is not None)
    procs = cpus if has_cpus else nodes
    assert procs is not None
    return np.where(procs > 0, procs, np.nan), not has_cpus


def _is_exclusive(value: str) -> bool:
    return value.strip().lower() in ("1", "yes", "true", "exclusive")


def _resource(table: AccountingTable, column: str, resource: str) -> Floats | None:
    if (texts := table.get(column)) is None:
        return None
    amounts = [resource_amount(text, resource) for text in texts.texts()]
    return table.with_texts(texts, amounts).numbers(parse_counts, column)


def _limits(table: AccountingTable) -> Floats:
    if (minutes := table.numbers(parse_numbers, "TimelimitRaw")) is not None:
        return minutes * 60.0
    limits = table.numbers(parse_durations, "Timelimit")
    return np.full(len(table), np.nan) if limits is None else limits


def _memory(table: AccountingTable, procs: Floats, nodes: Floats | None) -> Floats:
    """Return the memory that a job requested, KB per processor."""
    if (column := table.get("ReqMem")) is not None:
        amounts = [parse_memory(value) for value in column.texts()]
        total = column.rows(np.array([amount for amount, _ in amounts]))
        unit = column.rows(np.array([unit for _, unit in amounts]))
        if nodes is not None:
            total = np.where(unit == "n", total * nodes, total)
        per_processor: Floats = np.where(unit == "c", total, total / procs)
        return per_processor
    return _resource_memory(table) / procs


def _resource_memory(table: AccountingTable) -> Floats:
    """Return the memory in lists of resources: what a job requested, or else had, KB; NaN is unknown."""
    columns = [column for name in ("ReqTRES", "AllocTRES") if (column := table.get(name)) is not None]
    memory = [column.map(lambda value: parse_memory(resource_amount(value, "mem"))[0]) for column in columns]
    known = first_known(*memory)
    return np.full(len(table), np.nan) if known is None else known


def _sharing(nodes: Floats | None, procs: Floats, rows: Rows, procs_are_nodes: bool) -> str:
    """Return a sentence that says whether jobs share nodes; "" if the table does not show it."""
    if procs_are_nodes:
        return NODES_NOTE
    if nodes is None:
        return ""
    ratio = (procs / np.where(nodes > 0, nodes, np.nan))[rows]
    ratio = ratio[~np.isnan(ratio)]
    if not len(ratio):
        return ""
    low, high = float(ratio.min()), float(ratio.max())
    if low == high == 1:
        return "each processor is a node, or each job has one processor on each of its nodes"
    if low == high and low == int(low):
        text = f"each job has {low:g} processors on each of its nodes"
        return f"{text}, so a node may be a machine (--cores-per-node {low:g})"
    flags = f"--cores-per-node {math.ceil(high)} --shared"
    return f"{SHARED_NOTE}: they have {low:g} to {high:g} processors on a node ({flags})"


#: Remark on the jobs during which clocks changed, unless the time zone is known.
CLOCK_CHANGES = (
    "jobs whose end is an hour off their start and run time, as clocks changed; times with a time zone or "
    "UNIX times (SLURM_TIME_FORMAT=%s) avoid this"
)


def _clock_changes(
    table: AccountingTable,
    rows: Rows,
    start: Floats | None,
    end: Floats | None,
    run_time: Floats,
    is_local: bool,
) -> Rows:
    """Return the jobs during which the clocks of the cluster changed, which local times do not show."""
    if start is None or end is None or not is_local:
        return np.zeros(len(rows), np.bool_)
    suspended = table.numbers(parse_durations, "Suspended")
    difference = np.abs(end - start - run_time)
    changes: Rows = rows & (np.abs(difference - 3600) <= 1)
    return changes if suspended is None else changes & ~(suspended > 0)
