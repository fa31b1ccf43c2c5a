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
from gridsim.traces._text import LARGEST_COUNT, csv_rows, cut, format_error, number_fault
from gridsim.traces.avt import parse_count
from gridsim.traces.job_lines import lines_of
from gridsim.validation.common import ROUNDING, Violation, broken, differs, few, over_capacity, overlaps

#: Numbers in tables of other programs are rounded to multiples of this: Batsim writes six decimals (s).
UNIT = 1e-6
#: Columns that a jobs table of Batsim must have.
BATSIM = (
    "job_id",
    "submission_time",
    "requested_number_of_resources",
    "starting_time",
    "execution_time",
    "finish_time",
    "allocated_resources",
)
#: Pieces of intervals that are checked in one step.
_AT_ONCE = 1 << 20
_NUMBERS = ("submission_time", "starting_time", "execution_time", "finish_time")


def validate_batsim(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """Return what is wrong with a schedule in the columns of Batsim (``..._jobs.csv``); empty if nothing is.

    Jobs without allocated resources (rejected ones) need not have run, unless the table says that they did.
    Raises TraceFormatError with file:line for a file that is not such a table.

    Parameters
    ----------
    machines
        The number of resources; default: not checked.
    job_log
        The log (SWF, GWF) of the jobs that were to be run.  The table must have each of them once, with its
        number (the workload before ``!`` does not matter), submit time and processors.
    """
    jobs = _read_batsim(path)
    name = os.fspath(path)
    line: Integers = jobs["line"]

    def where(k: int) -> str:
        return f"{name}:{line[k]}"

    submit, start, finish = (jobs[c] for c in ("submission_time", "starting_time", "finish_time"))
    lasts, wanted = jobs["execution_time"], jobs["requested_number_of_resources"]
    row, low, high = jobs["intervals"]
    got = np.zeros(len(line), np.int64)
    np.add.at(got, row, high - low)
    ran = got > 0
    label, bare = jobs["job_id"], [_bare(each) for each in jobs["job_id"]]
    # a log has no workloads: both w0!1 and w1!1 are its job 1
    found = _twice(jobs["key"] if job_log is None else bare, label, where)
    found += broken(
        "size",
        jobs["said"] & ~ran & (wanted > 0),
        where,
        lambda k: (
            f"job {label[k]} has run, as the table says, and has no resources, it requested {wanted[k]}"
        ),
    )
    found += broken(
        "before submission",
        ran & ~(start >= submit - _slack(2, start, submit)),
        where,
        lambda k: f"job {label[k]} starts at {start[k]} s, submitted at {submit[k]} s",
    )
    found += broken(
        "duration",
        ran & ~((np.abs(start + lasts - finish) <= _slack(3, start, lasts, finish)) & (lasts >= 0)),
        where,
        lambda k: f"job {label[k]} from {start[k]} s for {lasts[k]} s cannot finish at {finish[k]} s",
    )
    found += broken(
        "size",
        ran & (got != wanted),
        where,
        lambda k: f"job {label[k]} has {got[k]} resources, it requested {wanted[k]}",
    )
    # a quotient of rounded numbers, which could have any value for a job of no length
    long = np.where(lasts > UNIT, lasts, np.nan)
    stretch = (finish - submit) / long
    of_stretch = UNIT + _slack(2, finish, submit, lasts) * (1 + np.abs(stretch)) / (long - UNIT / 2)
    for derived, value, slack in (
        ("waiting_time", start - submit, _slack(3, start, submit)),
        ("turnaround_time", finish - submit, _slack(3, finish, submit)),
        ("stretch", stretch, of_stretch),
    ):
        if derived in jobs:
            have = jobs[derived]
            wrong = ran & np.isfinite(value) & ~(np.abs(have - value) <= slack)
            found += differs("agreement", where, wrong, have, value, "its times make", derived)
    top = math.inf if machines is None else machines
    found += broken(
        "unknown",
        high > top,
        lambda k: where(int(row[k])),
        lambda k: f"job {label[row[k]]} runs on resource {max(low[k], top)} of {machines}",
    )
    times, of_these = 0, None
    for resource, count, earlier, later in _shared(name, row, low, high, start + _slack(2, start), finish):
        times += count
        of_these = of_these or (resource, earlier, later)
    if of_these:
        resource, a, b = of_these
        said = f"job {label[b]} starts at {start[b]} s on resource {resource}, "
        said += f"where job {label[a]} runs until {finish[a]} s"
        found.append(Violation("overlap", times, where(b), said))
    if job_log is not None:
        found += _workload(name, _whole_jobs(job_log)[0], job_log, bare, submit, wanted, where)
    return found


def validate_swf(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """Return what is wrong with a job log (SWF, GWF) as a schedule; empty if nothing is.

    Jobs that did not run (unknown wait or run time) are left out, and so are parts (status 2 to 4) of a job
    that has a line of its own; such a job is not counted among those that run at one time.  Jobs may run for
    longer than they requested if the header says ``AllowOveruse: Yes``.

    Raises TraceFormatError for a file that is not a job log.

    Parameters
    ----------
    machines
        The number of processors; default: ``MaxProcs`` of the header, else not checked.
    job_log
        The log of the jobs that were to be run.  The log at `path` must have each of them once, with its
        number, submit time and processors, and also with its wait and run time if it was completed.
    """
    log, swapped = _whole_jobs(path)
    jobs, procs, name = log.jobs, log.procs, os.fspath(path)
    submit, wait, lasts = jobs["submit"], jobs["wait"], jobs["run_time"]

    def where(k: int) -> str:
        return f"{name}:{jobs['line'][k]}"

    label = [str(job) for job in jobs["job"].tolist()]
    found = _twice(label, label, where)
    found += broken(
        "before submission",
        (wait < 0) & (wait != -1),
        where,
        lambda k: f"job {label[k]} waits for {wait[k]} s",
    )
    limit = jobs["req_time"]
    overuse = log.header.get("AllowOveruse", "").lower() in ("yes", "true")
    found += broken(
        "duration",
        (limit > 0) & (lasts > limit) & (jobs["status"] == 1) & (not overuse),
        where,
        lambda k: f"job {label[k]} runs for {lasts[k]} s and is completed, it requested {limit[k]} s",
    )
    if machines is None and (stated := log.header.get("MaxProcs", "").split()):
        machines = parse_count(stated[0])
    ran = (wait >= 0) & (lasts > 0)
    if machines is not None:
        found += broken(
            "unknown",
            ran & (procs > machines),
            where,
            lambda k: f"job {label[k]} runs on {procs[k]} of {machines} processors",
        )
        alone = ran & ~swapped
        start = (submit + wait)[alone]
        end = start + lasts[alone]
        if over := over_capacity(start, end - _slack(2, end), procs[alone], machines):
            said = f"{over[1]} processors are in use at {over[0]} s, there are {machines}"
            found.append(Violation("overlap", 1, name, said))
    if job_log is not None:
        found += broken(
            "lost",
            (jobs["status"] == 1) & ((wait == -1) | (lasts == -1)),
            where,
            lambda k: f"job {label[k]} is completed, and when it ran is not there (wait or run time -1)",
        )
        found += _workload(name, _whole_jobs(job_log)[0], job_log, label, submit, procs, where)
    return found


# -- shared helpers -----------------------------------------------------------------------------------------


def _shared(
    name: str, job: Integers, low: Integers, high: Integers, start: Floats, finish: Floats
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (resource, count, earlier job, later job) for two jobs that run on a resource at the same time.

    The resources are checked in parts.  Each part where jobs overlap yields its first such resource, and the
    number of resources with overlaps, counted once for each later job.

    Parameters
    ----------
    job, low, high
        A job and an interval of its resources, low to high - 1.
    name
        The file, for errors.

    Raises
    ------
    TraceFormatError
        If the intervals cut each other into too many pieces.
    """
    # resources between two neighbouring ends of intervals are in the same intervals, and form one piece
    edges = np.unique(np.concatenate((low, high)))
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, high)
    cover = np.bincount(first, minlength=len(edges)) - np.bincount(last, minlength=len(edges))
    until = np.cumsum(np.cumsum(cover))
    total = int(until[-1]) if len(until) else 0
    few(total, f"{name}: field allocated_resources", "pieces of intervals", TraceFormatError)
    parts = np.searchsorted(until, np.arange(0, total, _AT_ONCE))
    for begin, end in itertools.pairwise(np.unique(np.append(parts, len(edges))).tolist()):
        here = np.maximum(first, begin)
        pieces = np.maximum(0, np.minimum(last, end) - here)
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces - here, pieces)
        of = np.repeat(job, pieces)
        earlier, later = overlaps(piece, start[of], finish[of])
        if len(later):
            at = piece[later]
            count = int((edges[at + 1] - edges[at]).sum())
            yield int(edges[at[0]]), count, int(of[earlier[0]]), int(of[later[0]])


def _whole_jobs(path: StrPath) -> tuple[JobLog, NDArray[np.bool_]]:
    """Return a log without parts of jobs that have a line of their own, and which jobs have such parts."""
    log = read_jobs(path)
    part = lines_of(log.jobs).part
    whole = log.jobs[~part]
    return replace(log, jobs=whole), np.isin(whole["job"], log.jobs["job"][part])


def _slack(numbers: int, *times: Floats) -> Floats:
    """Return the error of a sum of so many `numbers` of a table: half a `UNIT` each, and float rounding."""
    largest = np.maximum.reduce([np.abs(each) for each in times])
    slack: Floats = numbers * UNIT / 2 + ROUNDING * largest
    return slack


def _twice(key: list[str], label: list[str], where: Callable[[int], str]) -> list[Violation]:
    """Check that each `key` is there once; `label` has the names of the jobs for messages."""
    first = _before(key)
    return broken(
        "done twice",
        first >= 0,
        where,
        lambda k: f"job {label[k]} is at {where(int(first[k]))} already",
    )


def _before(key: list[str]) -> Integers:
    """Return the first row with the same key, -1 if it is the row itself: int64[rows]."""
    seen: dict[str, int] = {}
    first = np.array([seen.setdefault(each, k) for k, each in enumerate(key)], np.int64)
    return np.where(first < np.arange(len(key)), first, -1)


def _workload(
    name: str,
    log: JobLog,
    log_path: StrPath,
    label: list[str],
    have_submit: Floats,
    have_size: Integers,
    where: Callable[[int], str],
) -> list[Violation]:
    """Check that every job of the log is there, as it was submitted.

    A number that the log has twice is a violation, because it does not tell which of the two jobs is meant.
    """
    number, submit, size = [str(job) for job in log.jobs["job"].tolist()], log.jobs["submit"], log.procs
    line, first = log.jobs["line"], _before(number)
    found = broken(
        "workload",
        first >= 0,
        lambda k: f"{os.fspath(log_path)}:{line[k]}",
        lambda k: f"job {number[k]} of the workload is at line {line[first[k]]} already",
    )
    index: dict[str, int] = {}
    for k, each in enumerate(number):
        index.setdefault(each, k)
    at = np.array([index.get(each, -1) for each in label], np.int64)
    found += broken("unknown", at < 0, where, lambda k: f"job {label[k]} is not in the workload")
    there = np.zeros(len(submit), np.bool_)
    there[at[at >= 0]] = True
    missing = [each for each, k in index.items() if not there[k]]
    if missing:
        found.append(Violation("lost", len(missing), name, f"job {missing[0]} of the workload is not there"))
    for what, have, want, slack in (
        ("submission", have_submit, submit[at], _slack(2, have_submit)),
        ("size", have_size, size[at], 0),
    ):
        # NaN equals no submit time
        wrong = (at >= 0) & ~(np.abs(have - want) <= slack)
        found += differs("workload", where, wrong, have, want, "the workload has", what)
    return found


def _bare(job: str) -> str:
    """Return the job without its workload: ``7`` for ``w0!7``."""
    return job.rpartition("!")[2]


def _key(row: dict[str, str]) -> str:
    """Return a job as ``WORKLOAD!NUMBER``; the workload may be in front of the number or in a column."""
    workload = row.get("workload_name")
    return row["job_id"] if "!" in row["job_id"] or not workload else f"{workload}!{row['job_id']}"


def _read_batsim(path: StrPath) -> dict[str, Any]:
    with closing(csv_rows(path)) as rows:
        return _batsim(path, rows)


def _batsim(path: StrPath, rows: Iterator[tuple[int, list[str]]]) -> dict[str, Any]:
    _, head = next(rows, (1, []))
    missing = [name for name in BATSIM if name not in head]
    if missing:
        raise format_error(path, 1, f"no jobs table of Batsim: there is no column {', '.join(missing)}")
    kept: dict[str, list[Any]] = {name: [] for name in (*BATSIM, "line", "key", "said")}
    further = [name for name in ("waiting_time", "turnaround_time", "stretch") if name in head]
    kept |= {name: [] for name in further}
    intervals: list[tuple[int, int, int]] = []
    for number, words in rows:
        if len(words) != len(head):
            raise format_error(path, number, f"expected {len(head)} fields, found {len(words)}")
        row = dict(zip(head, words, strict=True))
        kept["line"].append(number)
        kept["job_id"].append(row["job_id"])
        kept["key"].append(_key(row))
        here = _interval_set(path, number, row["allocated_resources"])
        intervals += [(len(kept["line"]) - 1, *each) for each in here]
        wanted = row["requested_number_of_resources"]
        if fault := number_fault(
            "requested_number_of_resources", wanted, integer=True, maximum=LARGEST_COUNT
        ):
            raise format_error(path, number, fault)
        kept["requested_number_of_resources"].append(int(float(wanted)))
        for name in (*_NUMBERS, *further):
            # a rejected job has no times
            fault = number_fault(name, row[name])
            if fault and here:
                raise format_error(path, number, fault)
            kept[name].append(math.nan if fault else float(row[name]))
        kept["said"].append(
            row.get("success", "").strip() == "1"
            or row.get("final_state", "").strip().startswith("COMPLETED")
            or kept["execution_time"][-1] > 0
        )
    if not kept["line"]:
        raise format_error(path, 1, "no jobs in this table")
    floats = (*_NUMBERS, *further)
    return {
        "line": np.array(kept["line"], np.int64),
        "job_id": kept["job_id"],
        "key": kept["key"],
        "said": np.array(kept["said"], np.bool_),
        "intervals": np.array(intervals, np.int64).reshape(-1, 3).T,
        "requested_number_of_resources": np.array(kept["requested_number_of_resources"], np.int64),
        **{name: np.array(kept[name], np.float64) for name in floats},
    }


def _interval_set(path: StrPath, number: int, text: str) -> list[tuple[int, int]]:
    """Return a set of intervals: [(0, 4), (7, 8)] for ``0-3 7``.  Raises TraceFormatError for other text."""
    made = []
    for part in text.replace(",", " ").split():
        low, dash, high = part.partition("-")
        first = parse_count(low)
        last = parse_count(high) if dash else first
        if first is None or last is None:
            raise format_error(
                path, number, f"field allocated_resources has {cut(part)!r}, expected a resource or LOW-HIGH"
            )
        if last < first:
            raise format_error(
                path, number, f"field allocated_resources has {cut(part)!r}, which is no interval"
            )
        if last > LARGEST_COUNT:
            raise format_error(
                path, number, f"field allocated_resources has {cut(part)!r}, expected at most {LARGEST_COUNT}"
            )
        made.append((first, last + 1))
    return made
