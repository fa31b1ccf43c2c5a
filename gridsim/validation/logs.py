"""Schedules of rigid jobs as others write them: Batsim's jobs table, and job logs (SWF)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from gridsim.errors import TraceFormatError
from gridsim.traces import read_jobs
from gridsim.traces._text import LARGEST_COUNT, StrPath, csv_rows, cut, format_error, number_fault
from gridsim.traces.avt import parse_count
from gridsim.validation.common import (
    Floats,
    Integers,
    Violation,
    broken,
    differs,
    few,
    over_capacity,
    overlaps,
)

#: Times in tables of others are rounded as they are written (s).
ROUNDING = 1e-6
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
#: Pieces of intervals that are looked at at once.
_AT_ONCE = 1 << 20
_NUMBERS = ("submission_time", "starting_time", "execution_time", "finish_time")


def validate_batsim(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """What is wrong with a schedule in the columns of Batsim (``..._jobs.csv``); empty if nothing is.

    machines : how many resources there are; without it only those below 0 are unknown.
    job_log : the log (SWF, GWF) of the jobs that were to be run: each must be there once, as submitted.

    Jobs without allocated resources (rejected ones) need not have run.  Raises TraceFormatError with
    file:line for a file that is no such table.
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
    label = jobs["job_id"]
    found = _twice(label, where)
    found += broken(
        "before submission",
        ran & ~(start >= submit - ROUNDING),
        where,
        lambda k: f"job {label[k]} starts at {start[k]} s, submitted at {submit[k]} s",
    )
    found += broken(
        "duration",
        ran & ~((np.abs(start + lasts - finish) <= _slack(finish)) & (lasts >= 0)),
        where,
        lambda k: f"job {label[k]} from {start[k]} s for {lasts[k]} s cannot finish at {finish[k]} s",
    )
    found += broken(
        "size",
        ran & (got != wanted),
        where,
        lambda k: f"job {label[k]} has {got[k]} resources, it requested {wanted[k]}",
    )
    for derived, value in (
        ("waiting_time", start - submit),
        ("turnaround_time", finish - submit),
        ("stretch", (finish - submit) / np.where(lasts > 0, lasts, np.nan)),
    ):
        if derived in jobs:
            have = jobs[derived]
            wrong = ran & np.isfinite(value) & ~(np.abs(have - value) <= _slack(value))
            found += differs("agreement", where, wrong, have, value, "its times make", derived)
    top = math.inf if machines is None else machines
    found += broken(
        "unknown",
        high > top,
        lambda k: where(int(row[k])),
        lambda k: f"job {label[row[k]]} runs on resource {max(low[k], top)} of {machines}",
    )
    times, of_these = 0, None
    for resource, count, earlier, later in _shared(name, row, low, high, start + ROUNDING, finish):
        times += count
        of_these = of_these or (resource, earlier, later)
    if of_these:
        resource, a, b = of_these
        said = f"job {label[b]} starts at {start[b]} s on resource {resource}, "
        said += f"where job {label[a]} runs until {finish[a]} s"
        found.append(Violation("overlap", times, where(b), said))
    if job_log is not None:
        log = read_jobs(job_log)
        found += _workload(
            name,
            {str(job): k for k, job in enumerate(log.jobs["job"].tolist())},
            log.jobs["submit"],
            log.procs,
            [_bare(each) for each in label],
            submit,
            wanted,
            where,
        )
    return found


def validate_swf(
    path: StrPath, *, machines: int | None = None, job_log: StrPath | None = None
) -> list[Violation]:
    """What is wrong with a job log (SWF, GWF) as a schedule; empty if nothing is.

    machines : processors there are; default: ``MaxProcs`` of the header, else not checked.
    job_log : the log of the jobs that were to be run: each of them must be there once, as it was submitted.

    Jobs that did not run (unknown wait or run time) are left out.  Jobs may run for longer than they
    requested if the header says ``AllowOveruse: Yes``.

    Raises TraceFormatError for a file that is no job log.
    """
    log = read_jobs(path)
    jobs, procs, name = log.jobs, log.procs, os.fspath(path)
    submit, wait, lasts = jobs["submit"], jobs["wait"], jobs["run_time"]

    def where(k: int) -> str:
        return f"{name}:{jobs['line'][k]}"

    label = [str(job) for job in jobs["job"].tolist()]
    found = _twice(label, where)
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
        start = (submit + wait)[ran]
        if over := over_capacity(start, start + lasts[ran] - ROUNDING, procs[ran], machines):
            said = f"{over[1]} processors are in use at {over[0]} s, there are {machines}"
            found.append(Violation("overlap", 1, name, said))
    if job_log is not None:
        given = read_jobs(job_log)
        index = {str(job): k for k, job in enumerate(given.jobs["job"].tolist())}
        found += _workload(name, index, given.jobs["submit"], given.procs, label, submit, procs, where)
    return found


# -- what they share ----------------------------------------------------------------------------------------


def _shared(
    name: str, job: Integers, low: Integers, high: Integers, start: Floats, finish: Floats
) -> Iterator[tuple[int, int, int, int]]:
    """Two jobs that run on a resource at the same time, the first one, and on how many there are two.

    job, low, high : intervals of resources (without `high`) and whose they are.  Parts of the resources are
        looked at in turn.

    Raises TraceFormatError where these intervals cut each other into too many pieces.
    """
    # resources between two ends of intervals are in the same ones: one piece
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


def _slack(value: Floats) -> Floats:
    slack: Floats = ROUNDING * np.maximum(1.0, np.abs(value))
    return slack


def _twice(label: Any, where: Callable[[int], str]) -> list[Violation]:
    seen: dict[str, int] = {}
    again = np.zeros(len(label), np.bool_)
    for k, each in enumerate(label):
        again[k] = seen.setdefault(each, k) != k
    return broken(
        "done twice", again, where, lambda k: f"job {label[k]} is at {where(seen[label[k]])} already"
    )


def _workload(
    name: str,
    index: dict[str, int],
    submit: Floats,
    size: Integers,
    label: list[str],
    have_submit: Floats,
    have_size: Integers,
    where: Callable[[int], str],
) -> list[Violation]:
    """Every job of the log is there, as it was submitted."""
    at = np.array([index.get(each, -1) for each in label], np.int64)
    found = broken("unknown", at < 0, where, lambda k: f"job {label[k]} is not in the workload")
    there = np.zeros(len(submit), np.bool_)
    there[at[at >= 0]] = True
    missing = [each for each, k in index.items() if not there[k]]
    if missing:
        found.append(Violation("lost", len(missing), name, f"job {missing[0]} of the workload is not there"))
    for what, have, want, slack in (
        ("submission", have_submit, submit, ROUNDING),
        ("size", have_size, size, 0),
    ):
        wrong = (at >= 0) & (np.abs(have - want[at]) > slack)
        found += differs("workload", where, wrong, have, want[at], "the workload has", what)
    return found


def _bare(job: str) -> str:
    """The job without its workload: ``w0!7`` is job 7."""
    return job.rpartition("!")[2]


def _read_batsim(path: StrPath) -> dict[str, Any]:
    with closing(csv_rows(path)) as rows:
        return _batsim(path, rows)


def _batsim(path: StrPath, rows: Iterator[tuple[int, list[str]]]) -> dict[str, Any]:
    _, head = next(rows, (1, []))
    missing = [name for name in BATSIM if name not in head]
    if missing:
        raise format_error(path, 1, f"no jobs table of Batsim: there is no column {', '.join(missing)}")
    kept: dict[str, list[Any]] = {name: [] for name in (*BATSIM, "line")}
    further = [name for name in ("waiting_time", "turnaround_time", "stretch") if name in head]
    kept |= {name: [] for name in further}
    intervals: list[tuple[int, int, int]] = []
    for number, words in rows:
        if len(words) != len(head):
            raise format_error(path, number, f"expected {len(head)} fields, found {len(words)}")
        row = dict(zip(head, words, strict=True))
        kept["line"].append(number)
        kept["job_id"].append(row["job_id"])
        here = _interval_set(path, number, row["allocated_resources"])
        intervals += [(len(kept["line"]) - 1, *each) for each in here]
        wanted = row["requested_number_of_resources"]
        if fault := number_fault("requested_number_of_resources", wanted, whole=True, most=LARGEST_COUNT):
            raise format_error(path, number, fault)
        kept["requested_number_of_resources"].append(int(float(wanted)))
        for name in (*_NUMBERS, *further):
            # a job that was rejected has no times
            fault = number_fault(name, row[name])
            if fault and here:
                raise format_error(path, number, fault)
            kept[name].append(math.nan if fault else float(row[name]))
    if not kept["line"]:
        raise format_error(path, 1, "no jobs in this table")
    floats = (*_NUMBERS, *further)
    return {
        "line": np.array(kept["line"], np.int64),
        "job_id": kept["job_id"],
        "intervals": np.array(intervals, np.int64).reshape(-1, 3).T,
        "requested_number_of_resources": np.array(kept["requested_number_of_resources"], np.int64),
        **{name: np.array(kept[name], np.float64) for name in floats},
    }


def _interval_set(path: StrPath, number: int, text: str) -> list[tuple[int, int]]:
    """``0-3 7`` as [(0, 4), (7, 8)]."""
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
