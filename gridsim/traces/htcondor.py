"""Job logs of HTCondor: what ``condor_history -long``, ``-json`` and ``-af:h`` print.

Source: https://htcondor.readthedocs.io/en/latest/classad-attributes/job-classad-attributes.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import Remark, format_error, text_lines
from gridsim.traces.accounting import (
    COMPLETED,
    Floats,
    Rows,
    first_known,
    make_jobs,
    run_columns,
    unique_numbers,
)
from gridsim.traces.job_lines import CANCELLED, FAILED
from gridsim.traces.jobs import NOT_ENDED, ParsedJobs
from gridsim.traces.json_text import JsonText
from gridsim.traces.sacct import table_separator
from gridsim.traces.tables import AccountingTable, Bytes, InvalidValue, check_columns, read_table
from gridsim.traces.values import number_names, parse_numbers

#: The command whose table has everything that gridsim uses.
EXPORT = (
    "condor_history -af:h ClusterId ProcId Owner QDate JobStartDate JobCurrentStartDate CompletionDate "
    "RemoteWallClockTime RequestCpus RequestMemory JobStatus JobUniverse NumJobStarts"
)
_COLUMNS = (
    *("clusterid", "procid", "owner", "user", "acctgroup", "accountinggroup", "qdate", "jobstartdate"),
    *("jobcurrentstartdate", "completiondate", "enteredcurrentstatus", "remotewallclocktime"),
    *(
        "lastremotewallclocktime",
        "requestcpus",
        "cpusprovisioned",
        "machinecount",
        "maxhosts",
        "requestmemory",
    ),
    *("jobstatus", "jobuniverse", "numjobstarts", "exitcode"),
)
_NEEDS = {
    "a submit time": ("QDate",),
    "a start": ("JobCurrentStartDate", "JobStartDate"),
    "a run time": ("RemoteWallClockTime", "LastRemoteWallClockTime", "CompletionDate"),
    "processors": ("RequestCpus", "CpusProvisioned"),
}
_ATTRIBUTE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s?(.*)", re.ASCII)
_REMOVED, _COMPLETED = 3, 4
#: Universes whose jobs run at the machine of their submission.
_LOCAL_UNIVERSES = (7, 12)
#: Number of lines from which a list of attributes is detected.
_HEAD_LINES = 50


def is_htcondor(path: StrPath) -> bool:
    """Return whether a file begins like a history of HTCondor."""
    with closing(text_lines(path)) as lines:
        head = [line for line in islice(lines, _HEAD_LINES) if line.strip()]
    if not head:
        return False
    first = head[0].lstrip()
    if first.startswith(("[", "{")):
        text = "\n".join(head)
        return '"profiles"' not in text and any(
            f'"{name}"' in text for name in ("ClusterId", "QDate", "JobStatus")
        )
    names = {match[1].lower() for line in head if (match := _ATTRIBUTE.fullmatch(line))}
    return len(names.intersection(_COLUMNS)) >= 2 or _separator(head[0]) is not None


def parse_htcondor(path: StrPath) -> ParsedJobs:
    """Return the jobs of a history of HTCondor, as in the file, in its order.

    A job that was removed has status 5 (cancelled), one with an exit code above 0 has status 0 (failed).  Of
    a job that ran more than once, the last run is used.  Jobs that have not ended, and jobs that run where
    they are submitted, take no machine and are left out; `ParsedJobs.remarks` counts them.  Accounting groups
    are groups; jobs are numbered by cluster, or in the order of (cluster, process) if a cluster has several.

    Raises
    ------
    TraceFormatError
        If a needed attribute is missing everywhere, or a value cannot be read.
    """
    with closing(text_lines(path)) as lines:
        first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith(("[", "{")):
        table = AccountingTable.of_rows(path, _json_rows(path), _COLUMNS)
    elif (separator := _separator(first)) is not None:
        table = read_table(path, separator, dict.fromkeys(_COLUMNS))
    else:
        table = AccountingTable.of_rows(path, _classads(path), _COLUMNS)
    check_columns(path, table.names, _NEEDS, f"export with: {EXPORT}")
    return _jobs(table)


def _separator(line: str) -> str | None:
    """Return the separator of a line with names of attributes; None if it has none."""
    if separator := table_separator(line, frozenset(_COLUMNS)):
        return separator
    words = [word.lower() for word in line.split()]
    return " " if len(set(words).intersection(_COLUMNS)) >= 2 and "=" not in words else None


def _classads(path: StrPath) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the attributes of each job of a list of ``Name = value``, divided by empty lines."""
    job: dict[str, str] = {}
    start = number = 0
    with closing(text_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("***"):  # a history file has *** between jobs
                if job:
                    yield start, job
                job = {}
            elif match := _ATTRIBUTE.fullmatch(line.rstrip()):
                if not job:
                    start = number
                job[match[1]] = _plain(match[2])
            else:
                raise format_error(path, number, f"a line must be Name = value, got {line[:60]!r}")
    if job:
        yield start, job


def _json_rows(path: StrPath) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the attributes of each job of a list of objects, or of objects one after another."""
    text = JsonText(path)
    if text.peek() == "[":
        for line in text.items():
            yield line, _texts(path, line, text.value())
    else:
        while text.peek():
            line = text.line
            yield line, _texts(path, line, text.value())


def _texts(path: StrPath, line: int, job: Any) -> dict[str, str]:
    if not isinstance(job, dict):
        raise format_error(path, line, f"a job must be an object, got {type(job).__name__}")
    return {str(name): "" if value is None else str(value) for name, value in job.items()}


def _plain(value: str) -> str:
    text = value.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _times(values: Bytes) -> Floats:
    """Return UNIX times; 0 stands for an event that has not occurred."""
    seconds = parse_numbers(values)
    return np.where(seconds > 0, seconds, np.nan)


def _statuses(values: Bytes) -> Floats:
    """Return the codes of states: 1 idle, 2 running, 3 removed, 4 completed, 5 held, 6 transfer, 7 suspended.

    Raises `InvalidValue` for other codes.
    """
    statuses = parse_numbers(values)
    for k in np.flatnonzero(~np.isnan(statuses) & ~np.isin(statuses, range(1, 8)))[:1].tolist():
        raise InvalidValue(k, "a status of HTCondor, 1 to 7")
    return statuses


def _jobs(table: AccountingTable) -> ParsedJobs:
    line = table.line
    unknown = np.full(len(line), np.nan)

    def numbers(*names: str) -> Floats:
        values = table.numbers(parse_numbers, *names)
        return unknown if values is None else values

    def times(name: str) -> Floats:
        values = table.numbers(_times, name)
        return unknown if values is None else values

    state = table.numbers(_statuses, "JobStatus")
    completion, state_change = times("CompletionDate"), times("EnteredCurrentStatus")
    if state is None:  # without statuses, a job has ended if it has a completion date
        state = np.where(np.isnan(completion), 1.0, _COMPLETED) if table.get("CompletionDate") else unknown
    local = np.isin(numbers("JobUniverse"), _LOCAL_UNIVERSES)
    active = ~local & ~np.isnan(state) & ~np.isin(state, (_REMOVED, _COMPLETED))
    rows: Rows = ~local & ~active

    start = first_known(times("JobCurrentStartDate"), times("JobStartDate"))
    assert start is not None
    last_run = numbers("LastRemoteWallClockTime")
    run_time = np.where(last_run > 0, last_run, completion - start)
    run_time = np.where(np.isnan(run_time), numbers("RemoteWallClockTime"), run_time)
    status = np.full(len(line), -1.0)
    status[state == _COMPLETED] = COMPLETED
    status[(state == _COMPLETED) & (numbers("ExitCode") > 0)] = FAILED
    status[state == _REMOVED] = CANCELLED
    hosts = first_known(numbers("MachineCount"), numbers("MaxHosts"))
    cpus = first_known(numbers("CpusProvisioned"), numbers("RequestCpus"))
    assert hosts is not None and cpus is not None
    procs = np.ceil(cpus * np.where(hosts > 0, hosts, 1))
    procs = np.where(procs > 0, procs, np.nan)
    users, user_names = number_names(table.get("Owner", "User"), rows)
    groups, group_names = number_names(table.get("AcctGroup", "AccountingGroup"), rows)
    submit = times("QDate")
    end = np.where(np.isnan(completion), state_change, completion)
    fields: dict[str, Floats | NDArray[np.int64]] = {
        "submit": submit,
        **run_columns(submit, start, end, run_time, procs, status),
        "req_memory": numbers("RequestMemory") * 1024 / procs,
        "status": status,
        "user": users,
        "group": groups,
    }
    number = unique_numbers(numbers("ClusterId")[rows], numbers("ProcId")[rows])
    order = np.argsort(number, kind="stable")  # condor_history lists the last job first
    used = np.flatnonzero(rows)[order]
    job_fields = {"job": number[order], **{name: column[used] for name, column in fields.items()}}
    header = {"Computer": "HTCondor"}
    header |= {key: names for key, names in (("User", user_names), ("Group", group_names)) if names}
    several = rows & (numbers("NumJobStarts") > 1)
    remarks = (
        Remark(line[local], "jobs of the local and scheduler universes, which take no machine, left out"),
        Remark(line[active], NOT_ENDED),
        Remark(line[several], "jobs that ran more than once, of which the last run is used"),
        table.unused(_COLUMNS),
    )
    return make_jobs(table.path, job_fields, line[used], header=header, is_local=False, remarks=remarks)
