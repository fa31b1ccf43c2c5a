"""Job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2): 18 white-space separated
fields a line, -1 for unknown, comments from `;`.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError
from gridsim.traces._text import StrPath, format_error, number_fault, text_lines, warn_repairs

# Times and memory may carry fractions in some logs; identifiers and counts may not.
_KINDS: dict[str, type[np.int64] | type[np.float64]] = {
    "job": np.int64,
    "submit": np.float64,  # s
    "wait": np.float64,  # s
    "run_time": np.float64,  # s
    "used_procs": np.int64,
    "cpu_time": np.float64,  # s, mean per processor
    "used_memory": np.float64,  # KB per processor
    "req_procs": np.int64,
    "req_time": np.float64,  # s
    "req_memory": np.float64,  # KB per processor
    "status": np.int64,
    "user": np.int64,
    "group": np.int64,
    "executable": np.int64,
    "queue": np.int64,
    "partition": np.int64,
    "preceding": np.int64,
    "think_time": np.float64,  # s
}
SWF_FIELDS: tuple[str, ...] = tuple(_KINDS)
JOB_DTYPE: np.dtype[np.void] = np.dtype([*_KINDS.items(), ("line", np.int64)])

_HEADER = re.compile(r";\s*([A-Za-z]\w*)\s*:(?:\s+(.*))?$")  # blank after the colon: http://... is no key
_CONTINUED = re.compile(r";\s{2,}\S")  # indented deeper than a key: more of the value above


@dataclass(frozen=True)
class SwfLog:
    """A job log.

    Attributes:
        path: the file it was read from.
        header: the `; Key: value` comments; the values of a repeated key are joined by newlines.
        jobs: structured array (`JOB_DTYPE`) of the 18 standard fields and `line`, the line in the file,
            sorted by submission. Times in s as in the log, memory in KB, -1 for unknown.
    """

    path: str
    header: dict[str, str]
    jobs: NDArray[np.void]

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def procs(self) -> NDArray[np.int64]:
        """Processors of each job: those used if known, else those requested, else 1."""
        used, requested = self.jobs["used_procs"], self.jobs["req_procs"]
        procs: NDArray[np.int64] = np.where(used > 0, used, np.where(requested > 0, requested, 1))
        return procs


def read_swf(path: StrPath) -> SwfLog:
    """Read a job log in Standard Workload Format, plain or gzip.

    Columns after the 18 standard ones are ignored. Two things are repaired, counted in one `TraceWarning`:
    submissions out of order are sorted (stably), run times below -1 become -1 (unknown).

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 18 fields, a field that is no finite
    number (or has a fraction where only whole numbers make sense), and a file that is missing, truncated,
    binary or without jobs.
    """
    header, jobs = parse_swf(path)
    submit, run_time = jobs["submit"], jobs["run_time"]
    late = np.flatnonzero(submit < np.maximum.accumulate(submit))
    wrong = np.flatnonzero((run_time < 0) & (run_time != -1))
    repairs = [
        (len(late), _first_line(jobs, late), "submissions out of order, sorted"),
        (len(wrong), _first_line(jobs, wrong), "run times below -1, taken as unknown"),
    ]
    run_time[wrong] = -1
    if len(late):
        jobs = jobs[np.argsort(submit, kind="stable")]
    warn_repairs(path, repairs)
    jobs.flags.writeable = False
    return SwfLog(os.fspath(path), header, jobs)


def parse_swf(path: StrPath) -> tuple[dict[str, str], NDArray[np.void]]:
    """Header and jobs exactly as they stand in the file, without any repair (errors as `read_swf`)."""
    comments: list[str] = []
    numbers = array("q")

    def job_lines() -> Iterator[str]:
        for number, line in enumerate(text_lines(path), 1):
            text = line.lstrip()
            if text.startswith(";"):
                comments.append(text)
            elif text:
                numbers.append(number)
                yield text

    lines = job_lines()
    first = next(lines, None)
    if first is None:
        raise format_error(path, max(1, len(comments)), "no jobs in this log")
    try:
        table: NDArray[np.float64] = np.loadtxt(
            chain([first], lines), dtype=np.float64, comments=None, usecols=range(len(SWF_FIELDS)), ndmin=2
        )
    except TraceFormatError:
        raise
    except ValueError as error:
        raise _first_fault(path, str(error)) from error
    whole = table[:, [kind is np.int64 for kind in _KINDS.values()]]
    if not np.isfinite(table).all() or (whole != np.floor(whole)).any() or (np.abs(whole) > 2**53).any():
        raise _first_fault(path, "a field is not a finite (whole) number")

    jobs: NDArray[np.void] = np.empty(len(table), dtype=JOB_DTYPE)
    for column, name in enumerate(SWF_FIELDS):
        jobs[name] = table[:, column]
    jobs["line"] = numbers
    return _header(comments), jobs


def line_fault(text: str) -> str | None:
    """What is wrong with one job line; None when nothing is."""
    words = text.split()
    if len(words) < len(SWF_FIELDS):
        return f"expected {len(SWF_FIELDS)} fields, found {len(words)}"
    for (name, kind), word in zip(_KINDS.items(), words, strict=False):
        if fault := number_fault(name, word, whole=kind is np.int64):
            return fault
    return None


def faulty_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """(line number, what is wrong) of each job line that cannot be read."""
    for number, line in enumerate(text_lines(path), 1):
        text = line.strip()
        if text and not text.startswith(";") and (fault := line_fault(text)):
            yield number, fault


def _first_fault(path: StrPath, otherwise: str) -> TraceFormatError:
    # The bulk parser says that a line is bad; only this second, slow pass can say which one and why.
    number, fault = next(faulty_lines(path), (1, otherwise))
    return format_error(path, number, fault)


def _first_line(jobs: NDArray[np.void], chosen: NDArray[Any]) -> int:
    return int(jobs["line"][chosen[0]]) if len(chosen) else 0


def _header(comments: Iterable[str]) -> dict[str, str]:
    header: dict[str, list[str]] = {}
    key = ""
    for comment in comments:
        if match := _HEADER.match(comment.rstrip()):
            key = match[1]
            header.setdefault(key, []).append((match[2] or "").strip())
        elif key and _CONTINUED.match(comment):
            header[key].append(comment.lstrip("; \t").rstrip())
        else:
            key = ""
    return {name: "\n".join(values) for name, values in header.items()}
