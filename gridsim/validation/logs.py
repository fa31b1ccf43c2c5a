"""Checks of schedules of rigid jobs from other programs: Batsim's jobs table, and job logs (SWF, GWF)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError
from gridsim.support.arrays import Floats, Integers
from gridsim.support.files import StrPath
from gridsim.traces import JobLog, read_jobs
from gridsim.traces._text import LARGEST_COUNT, csv_rows, format_error, number_fault, truncate
from gridsim.traces.avt import parse_count
from gridsim.traces.job_lines import lines_of
from gridsim.traces.jobs import header_count
from gridsim.validation.common import (
    ROUNDING,
    Violation,
    check_step_count,
    differences,
    over_capacity,
    overlaps,
    violations_where,
)

#: Resolution of numbers in tables of other programs; Batsim writes times (s) with six decimals.
UNIT = 1e-6
#: Columns that the jobs table of Batsim must have.
BATSIM = (
    "job_id",
    "submission_time",
    "requested_number_of_resources",
    "starting_time",
    "execution_time",
    "finish_time",
    "allocated_resources",
)
#: Number of pieces of intervals that are checked in one step.
_BATCH = 1 << 20
_NUMBERS = ("submission_time", "starting_time", "execution_time", "finish_time")


def validate_batsim(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """Check a schedule in the jobs table of Batsim (``..._jobs.csv``), and return its violations.

    Jobs without allocated resources (rejected ones) need not have run, unless the table marks them as run.

    Parameters
    ----------
    machines
        Number of resources; None to skip this check.
    job_log
        The log (SWF, GWF) of the submitted jobs.  The table must have each of them once, with its number
        (without the workload before ``!``), submit time and processors.

    Raises
    ------
    TraceFormatError
        If the file is not such a table; the message has file:line.
    """
    jobs = _read_batsim(path)
    name = os.fspath(path)
    line: Integers = jobs["line"]

    def row_label(k: int) -> str:
        return f"{name}:{line[k]}"

    submit, start, finish = (jobs[c] for c in ("submission_time", "starting_time", "finish_time"))
    run_time, requested_resources = jobs["execution_time"], jobs["requested_number_of_resources"]
    row, low, high = jobs["intervals"]
    allocated = np.zeros(len(line), np.int64)
    np.add.at(allocated, row, high - low)
    has_run = allocated > 0
    label, numbers = jobs["job_id"], [_number_of(job) for job in jobs["job_id"]]
    # a job log has no names of workloads: w0!1 and w1!1 are both its job 1
    violations = _check_duplicates(jobs["key"] if job_log is None else numbers, label, row_label)
    violations += violations_where(
        "size",
        jobs["has_run"] & ~has_run & (requested_resources > 0),
        row_label,
        lambda k: f"job {label[k]} has run, but has no resources; it requested {requested_resources[k]}",
    )
    violations += violations_where(
        "before submission",
        has_run & ~(start >= submit - _slack(2, start, submit)),
        row_label,
        lambda k: f"job {label[k]} starts at {start[k]} s, but was submitted at {submit[k]} s",
    )
    violations += violations_where(
        "duration",
        has_run
        & ~((np.abs(start + run_time - finish) <= _slack(3, start, run_time, finish)) & (run_time >= 0)),
        row_label,
        lambda k: f"job {label[k]} from {start[k]} s for {run_time[k]} s cannot finish at {finish[k]} s",
    )
    violations += violations_where(
        "size",
        has_run & (allocated != requested_resources),
        row_label,
        lambda k: f"job {label[k]} has {allocated[k]} resources, but requested {requested_resources[k]}",
    )
    # stretch is a quotient of rounded numbers; for a job of 0 s it may have any value
    positive_time = np.where(run_time > UNIT, run_time, np.nan)
    stretch = (finish - submit) / positive_time
    stretch_slack = UNIT + _slack(2, finish, submit, run_time) * (1 + np.abs(stretch)) / (
        positive_time - UNIT / 2
    )
    for metric, value, slack in (
        ("waiting_time", start - submit, _slack(3, start, submit)),
        ("turnaround_time", finish - submit, _slack(3, finish, submit)),
        ("stretch", stretch, stretch_slack),
    ):
        if metric in jobs:
            values = jobs[metric]
            is_wrong = has_run & np.isfinite(value) & ~(np.abs(values - value) <= slack)
            violations += differences(
                "agreement", row_label, is_wrong, values, value, "its times give", metric
            )
    resource_count = math.inf if machines is None else machines
    violations += violations_where(
        "unknown",
        high > resource_count,
        lambda k: row_label(int(row[k])),
        lambda k: (
            f"job {label[row[k]]} runs on resource {max(low[k], resource_count)}, but there are {machines}"
        ),
    )
    overlap_count, first_overlap = 0, None
    for resource, count, earlier, later in _shared_resources(
        name, row, low, high, start + _slack(2, start), finish
    ):
        overlap_count += count
        first_overlap = first_overlap or (resource, earlier, later)
    if first_overlap:
        resource, a, b = first_overlap
        message = f"job {label[b]} starts at {start[b]} s on resource {resource}, "
        message += f"where job {label[a]} runs until {finish[a]} s"
        violations.append(Violation("overlap", overlap_count, row_label(b), message))
    if job_log is not None:
        violations += _check_workload(
            name, _jobs_without_parts(job_log)[0], job_log, numbers, submit, requested_resources, row_label
        )
    return violations


def validate_swf(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """Check a job log (SWF, GWF) as a schedule, and return its violations.

    Jobs that did not run (unknown wait or run time) are ignored, and so are parts (status 2 to 4) of a job
    that has its own line.  A job with parts does not count among concurrent jobs.  Jobs
    may run for longer than they requested if the header says ``AllowOveruse: Yes``.

    Parameters
    ----------
    machines
        Number of processors; None for ``MaxProcs`` of the header.  If both are missing, it is not checked.
    job_log
        The log of the submitted jobs.  The log at `path` must have each of them once, with its number, submit
        time and processors, and if it was completed also with its wait and run time.

    Raises
    ------
    TraceFormatError
        If the file is not a job log.
    """
    log, has_parts = _jobs_without_parts(path)
    jobs, procs, name = log.jobs, log.procs, os.fspath(path)
    submit, wait_time, run_time = jobs["submit"], jobs["wait"], jobs["run_time"]

    def row_label(k: int) -> str:
        return f"{name}:{jobs['line'][k]}"

    label = [str(job) for job in jobs["job"].tolist()]
    violations = _check_duplicates(label, label, row_label)
    violations += violations_where(
        "before submission",
        (wait_time < 0) & (wait_time != -1),
        row_label,
        lambda k: f"job {label[k]} starts {-wait_time[k]} s before its submission",
    )
    limit = jobs["req_time"]
    allows_overuse = log.header.get("AllowOveruse", "").lower() in ("yes", "true")
    violations += violations_where(
        "duration",
        (limit > 0) & (run_time > limit) & (jobs["status"] == 1) & (not allows_overuse),
        row_label,
        lambda k: f"job {label[k]} runs for {run_time[k]} s and is completed, but requested {limit[k]} s",
    )
    if machines is None:
        machines = header_count(log.header, "MaxProcs") or None
    has_run = (wait_time >= 0) & (run_time > 0)
    if machines is not None:
        violations += violations_where(
            "unknown",
            has_run & (procs > machines),
            row_label,
            lambda k: f"job {label[k]} runs on {procs[k]} processors, but there are {machines}",
        )
        counts_once = has_run & ~has_parts
        start = (submit + wait_time)[counts_once]
        end = start + run_time[counts_once]
        if excess := over_capacity(start, end - _slack(2, end), procs[counts_once], machines):
            message = f"{excess[1]} processors are in use at {excess[0]} s, but there are {machines}"
            violations.append(Violation("overlap", 1, name, message))
    if job_log is not None:
        violations += violations_where(
            "lost",
            (jobs["status"] == 1) & ((wait_time == -1) | (run_time == -1)),
            row_label,
            lambda k: f"job {label[k]} is completed, but its wait or run time is missing (-1)",
        )
        violations += _check_workload(
            name, _jobs_without_parts(job_log)[0], job_log, label, submit, procs, row_label
        )
    return violations


# -- shared helpers -----------------------------------------------------------------------------------------


def _shared_resources(
    name: str, job: Integers, low: Integers, high: Integers, start: Floats, finish: Floats
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (resource, count, earlier job, later job) for pairs of jobs that overlap on a resource.

    The resources are checked in parts.  For a part with overlaps, the first such resource and the number of
    overlaps are yielded.

    Parameters
    ----------
    job, low, high
        A job and an interval of its resources, low to high - 1.
    name
        The file, for errors.

    Raises
    ------
    TraceFormatError
        If the ends of the intervals divide them into too many pieces.
    """
    # resources between two neighbouring ends of intervals are in the same intervals; they form one piece
    edges = np.unique(np.concatenate((low, high)))
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, high)
    cover = np.bincount(first, minlength=len(edges)) - np.bincount(last, minlength=len(edges))
    cumulative = np.cumsum(np.cumsum(cover))
    total = int(cumulative[-1]) if len(cumulative) else 0
    check_step_count(total, f"{name}: field allocated_resources", "pieces of intervals", TraceFormatError)
    parts = np.searchsorted(cumulative, np.arange(0, total, _BATCH))
    for begin, end in itertools.pairwise(np.unique(np.append(parts, len(edges))).tolist()):
        first_piece = np.maximum(first, begin)
        pieces = np.maximum(0, np.minimum(last, end) - first_piece)
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces - first_piece, pieces)
        job_of_piece = np.repeat(job, pieces)
        earlier, later = overlaps(piece, start[job_of_piece], finish[job_of_piece])
        if len(later):
            piece_of_later = piece[later]
            count = int((edges[piece_of_later + 1] - edges[piece_of_later]).sum())
            yield (
                int(edges[piece_of_later[0]]),
                count,
                int(job_of_piece[earlier[0]]),
                int(job_of_piece[later[0]]),
            )


def _jobs_without_parts(path: StrPath) -> tuple[JobLog, NDArray[np.bool_]]:
    """Return a log without the parts of jobs that have their own line, and which jobs have such parts."""
    log = read_jobs(path)
    is_part = lines_of(log.jobs).part
    jobs = log.jobs[~is_part]
    return replace(log, jobs=jobs), np.isin(jobs["job"], log.jobs["job"][is_part])


def _slack(count: int, *times: Floats) -> Floats:
    """Return the rounding error of a sum of `count` entries: half a `UNIT` each, plus float rounding."""
    largest = np.maximum.reduce([np.abs(values) for values in times])
    slack: Floats = count * UNIT / 2 + ROUNDING * largest
    return slack


def _check_duplicates(key: list[str], label: list[str], row_label: Callable[[int], str]) -> list[Violation]:
    """Check that each key occurs once; `label` has the names of the jobs for messages."""
    first = _first_occurrence(key)
    return violations_where(
        "done twice",
        first >= 0,
        row_label,
        lambda k: f"job {label[k]} is already at {row_label(int(first[k]))}",
    )


def _first_occurrence(key: list[str]) -> Integers:
    """Return for each row the first row with its key, or -1 if that is the row itself: int64[rows]."""
    rows: dict[str, int] = {}
    first = np.array([rows.setdefault(job, k) for k, job in enumerate(key)], np.int64)
    return np.where(first < np.arange(len(key)), first, -1)


def _check_workload(
    name: str,
    log: JobLog,
    log_path: StrPath,
    label: list[str],
    schedule_submit: Floats,
    schedule_size: Integers,
    row_label: Callable[[int], str],
) -> list[Violation]:
    """Check that the schedule has every job of the log, as it was submitted.

    A number that occurs twice in the log is a violation, since it does not identify a job.
    """
    number, submit, size = [str(job) for job in log.jobs["job"].tolist()], log.jobs["submit"], log.procs
    line, first = log.jobs["line"], _first_occurrence(number)
    violations = violations_where(
        "workload",
        first >= 0,
        lambda k: f"{os.fspath(log_path)}:{line[k]}",
        lambda k: f"job {number[k]} of the workload is already at line {line[first[k]]}",
    )
    index: dict[str, int] = {}
    for k, job in enumerate(number):
        index.setdefault(job, k)
    log_row = np.array([index.get(job, -1) for job in label], np.int64)
    violations += violations_where(
        "unknown", log_row < 0, row_label, lambda k: f"job {label[k]} is not in the workload"
    )
    is_present = np.zeros(len(submit), np.bool_)
    is_present[log_row[log_row >= 0]] = True
    missing = [job for job, k in index.items() if not is_present[k]]
    if missing:
        violations.append(
            Violation("lost", len(missing), name, f"job {missing[0]} of the workload is missing")
        )
    for quantity, actual, expected, slack in (
        ("submission", schedule_submit, submit[log_row], _slack(2, schedule_submit)),
        ("size", schedule_size, size[log_row], 0),
    ):
        # the submit time may be NaN, which differs from any number
        is_wrong = (log_row >= 0) & ~(np.abs(actual - expected) <= slack)
        violations += differences(
            "workload", row_label, is_wrong, actual, expected, "the workload has", quantity
        )
    return violations


def _number_of(job: str) -> str:
    """Return the job without its workload: ``7`` for ``w0!7``."""
    return job.rpartition("!")[2]


def _qualified_number(row: dict[str, str]) -> str:
    """Return a job as ``WORKLOAD!NUMBER``; the workload may be in front of the number or in a column."""
    workload = row.get("workload_name")
    return row["job_id"] if "!" in row["job_id"] or not workload else f"{workload}!{row['job_id']}"


def _read_batsim(path: StrPath) -> dict[str, Any]:
    with closing(csv_rows(path)) as rows:
        return _parse_batsim(path, rows)


def _parse_batsim(path: StrPath, rows: Iterator[tuple[int, list[str]]]) -> dict[str, Any]:
    _, header = next(rows, (1, []))
    missing = [name for name in BATSIM if name not in header]
    if missing:
        raise format_error(path, 1, f"a jobs table of Batsim must have the columns {', '.join(missing)}")
    columns: dict[str, list[Any]] = {name: [] for name in (*BATSIM, "line", "key", "has_run")}
    metrics = [name for name in ("waiting_time", "turnaround_time", "stretch") if name in header]
    columns |= {name: [] for name in metrics}
    intervals: list[tuple[int, int, int]] = []
    for number, words in rows:
        if len(words) != len(header):
            raise format_error(path, number, f"a line must have {len(header)} fields, got {len(words)}")
        row = dict(zip(header, words, strict=True))
        columns["line"].append(number)
        columns["job_id"].append(row["job_id"])
        columns["key"].append(_qualified_number(row))
        resources = _interval_set(path, number, row["allocated_resources"])
        intervals += [(len(columns["line"]) - 1, *interval) for interval in resources]
        requested = row["requested_number_of_resources"]
        if fault := number_fault(
            "requested_number_of_resources", requested, integer=True, maximum=LARGEST_COUNT
        ):
            raise format_error(path, number, fault)
        columns["requested_number_of_resources"].append(int(float(requested)))
        for name in (*_NUMBERS, *metrics):
            # a rejected job has no resources, and need not have times
            fault = number_fault(name, row[name])
            if fault and resources:
                raise format_error(path, number, fault)
            columns[name].append(math.nan if fault else float(row[name]))
        columns["has_run"].append(
            row.get("success", "").strip() == "1"
            or row.get("final_state", "").strip().startswith("COMPLETED")
            or columns["execution_time"][-1] > 0
        )
    if not columns["line"]:
        raise format_error(path, 1, "the table must have at least one job")
    floats = (*_NUMBERS, *metrics)
    return {
        "line": np.array(columns["line"], np.int64),
        "job_id": columns["job_id"],
        "key": columns["key"],
        "has_run": np.array(columns["has_run"], np.bool_),
        "intervals": np.array(intervals, np.int64).reshape(-1, 3).T,
        "requested_number_of_resources": np.array(columns["requested_number_of_resources"], np.int64),
        **{name: np.array(columns[name], np.float64) for name in floats},
    }


def _interval_set(path: StrPath, number: int, text: str) -> list[tuple[int, int]]:
    """Parse a set of intervals; ``0-3 7`` gives [(0, 4), (7, 8)].

    Raises
    ------
    TraceFormatError
        If the text is no set of intervals.
    """
    intervals = []
    for part in text.replace(",", " ").split():
        low, dash, high = part.partition("-")
        first = parse_count(low)
        last = parse_count(high) if dash else first
        if first is None or last is None:
            raise format_error(
                path,
                number,
                f"field allocated_resources must have resources or LOW-HIGH, got {truncate(part)!r}",
            )
        if last < first:
            raise format_error(
                path, number, f"field allocated_resources must have LOW <= HIGH, got {truncate(part)!r}"
            )
        if last > LARGEST_COUNT:
            raise format_error(
                path,
                number,
                f"field allocated_resources must be at most {LARGEST_COUNT}, got {truncate(part)!r}",
            )
        intervals.append((first, last + 1))
    return intervals
