"""Job logs, and the shared parts of the readers of their text formats: one job a line, fields in columns."""

from __future__ import annotations

import os
import re
import warnings
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST,
    LARGEST_COUNT,
    format_error,
    number_fault,
    parse_number,
    text_blocks,
    text_lines,
    torn_line,
)

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
JOB_FIELDS: tuple[str, ...] = tuple(_KINDS)
_COUNTS = ("used_procs", "req_procs")
#: The most comment lines of a log: they are kept in memory until its end.
_MOST_COMMENTS = 100_000
#: Largest number of machines accepted from the header of a log: a header can claim any number.
MOST_MACHINES = 1 << 20
JOB_DTYPE: np.dtype[np.void] = np.dtype([*_KINDS.items(), ("line", np.int64)])

_HEADER = re.compile(r"\s*([A-Za-z]\w*)\s*:(?:\s+(.*))?$")  # blank after the colon: http://... is no key
_CONTINUED = re.compile(r"\s{2,}\S")  # indented deeper than a key: more of the value above


@dataclass(frozen=True)
class JobLog:
    """A job log.

    path : the file it was read from.
    header : the `Key: value` comments; the values of a repeated key are joined by newlines.
    jobs : structured array (`JOB_DTYPE`), sorted by submission, of the 18 fields of the Standard Workload
        Format and `line`, the line in the file. Times are s as in the log, memory is KB, -1 is unknown.
    """

    path: str
    header: dict[str, str]
    jobs: NDArray[np.void]

    @classmethod
    def of(cls, path: StrPath, *, header: dict[str, str] | None = None, **fields: Any) -> JobLog:
        """Make a log from columns, as a reader of another format does.

        path : the file that they were read from.
        fields : ``submit`` and ``run_time`` (s) and other fields of `JOB_DTYPE`, one entry per job; what is
            not given is unknown, and ``job`` counts from 1.  They are sorted by submission here.

        Raises TraceFormatError for unknown fields, for columns of different lengths, and for none.
        """
        name = os.fspath(path)
        columns = {key: np.asarray(values) for key, values in fields.items()}
        lengths = {key: len(column) for key, column in columns.items()}
        if not {"submit", "run_time"} <= set(columns) or not set(columns) <= set(JOB_FIELDS):
            known = ", ".join(JOB_FIELDS)
            raise format_error(name, 0, f"must have submit and run_time, and fields of {known}")
        count = lengths["submit"]
        if set(lengths.values()) != {count} or not count:
            raise format_error(name, 0, f"columns must be equally long and have a job, got {lengths}")
        jobs: NDArray[np.void] = np.full(count, -1, dtype=JOB_DTYPE)
        jobs["job"] = jobs["line"] = np.arange(1, count + 1)
        for key, column in columns.items():
            jobs[key] = column
        if not np.isfinite(jobs["submit"]).all():
            raise format_error(name, 0, "submit must be finite")
        return cls(name, header or {}, jobs[np.argsort(jobs["submit"], kind="stable")])

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def procs(self) -> NDArray[np.int64]:
        """The processors of each job: those used if known, else those requested if known, else 1."""
        used, requested = self.jobs["used_procs"], self.jobs["req_procs"]
        procs: NDArray[np.int64] = np.where(used > 0, used, np.where(requested > 0, requested, 1))
        return procs


@dataclass(frozen=True)
class JobFormat:
    """A text format of job logs; its lines begin with the fields of `JOB_FIELDS`, in that order.

    comment : the text with which a comment line begins.
    fields : the fields of `JOB_FIELDS` that a line may have.
    required : how many of them a line must have.
    columns : the columns of a line, including those that are not in `fields`.
    texts : the fields that may be any word.
    """

    comment: str
    fields: tuple[str, ...]
    required: int
    columns: int
    texts: tuple[str, ...] = ()

    def is_job(self, text: str) -> bool:
        """Return whether a line is neither empty nor a comment."""
        bare = text.lstrip()
        return bool(bare) and not bare.startswith(self.comment)

    def line_fault(self, text: str) -> str | None:
        """Return what is wrong with one job line; None if nothing is."""
        words = text.split()
        if len(words) < self.required:
            more = " or more" if self.required < self.columns else ""
            return f"expected {self.required} fields{more}, found {len(words)}"
        for name, word in zip(self.fields, words, strict=False):
            if name in self.texts:
                continue
            most = LARGEST_COUNT if name in _COUNTS else LARGEST
            if fault := number_fault(name, word, whole=_KINDS[name] is np.int64, most=most):
                return fault
        return None

    def faulty_lines(self, path: StrPath) -> Iterator[tuple[int, str]]:
        """Yield (line number, what is wrong) for each job line that cannot be read."""
        first = True
        for number, line in enumerate(text_lines(path), 1):
            if self.is_job(line):
                if not (first and names_columns(line)) and (fault := self.line_fault(line)):
                    yield number, fault
                first = False


def stated_machines(header: dict[str, str], procs_per_node: int = 1) -> tuple[str, int] | None:
    """Return the key and the number of machines that a header states; None if it states none.

    The key is MaxProcs, of which a machine has `procs_per_node`, else MaxNodes.
    """
    for key in ("MaxProcs", "MaxNodes"):
        if stated := re.match(r"[0-9]{1,15}(?![0-9])", header.get(key, "")):
            count = int(stated[0])
            return key, -(-count // procs_per_node) if key == "MaxProcs" else count
    return None


def names_columns(line: str) -> bool:
    """Return whether a line, the first that is no comment, names the columns: it has words and no number."""
    return all(parse_number(word) is None for word in line.split())


def parse_jobs(
    path: StrPath, format: JobFormat, plain: Callable[[str], str] | None = None
) -> tuple[dict[str, str], NDArray[np.void]]:
    """Return header and jobs exactly as they are in the file; -1 for the fields that the format lacks.

    plain : returns a job line with plain numbers for its fields; it is called once for each line.  None for
        lines as they are.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of too few fields, a field that is not a finite
    number (or has a fraction where only whole numbers make sense), and a file that is missing, truncated,
    binary or without jobs.
    """
    try:
        comments, numbers, table = _columns(path, format, plain)
    except TraceFormatError:
        raise
    except ValueError as error:
        raise _first_fault(path, format, str(error)) from error
    whole = [_KINDS[name] is np.int64 for name in format.fields]
    most = np.array([LARGEST_COUNT if name in _COUNTS else LARGEST for name in format.fields])
    most[whole] = np.minimum(most[whole], 2**53 - 1)
    within = ((-most <= table.min(axis=0)) & (table.max(axis=0) <= most)).all()  # False for NaN
    fractions = table.dtype.kind == "f" and (table[:, whole] != np.floor(table[:, whole])).any()
    if not within or fractions:
        raise _first_fault(path, format, "a field is not a finite (whole) number")

    jobs: NDArray[np.void] = np.empty(len(table), dtype=JOB_DTYPE)
    for name in JOB_FIELDS:
        jobs[name] = table[:, format.fields.index(name)] if name in format.fields else -1
    jobs["line"] = numbers
    return header_of(comments), jobs


def _columns(
    path: StrPath, format: JobFormat, plain: Callable[[str], str] | None
) -> tuple[list[str], array[int], NDArray[Any]]:
    """Return the comments, the line of each job, and the fields; ValueError if these are no numbers."""
    if plain is None:  # most logs have whole numbers only, which are read in a fifth of the time
        with warnings.catch_warnings(), suppress(ValueError, DeprecationWarning):
            warnings.simplefilter("error", DeprecationWarning)  # some numpys cut fractions off and warn
            return _read(path, format, plain, np.int64)
    return _read(path, format, plain, np.float64)


def _read(
    path: StrPath,
    format: JobFormat,
    plain: Callable[[str], str] | None,
    kind: type[np.int64] | type[np.float64],
) -> tuple[list[str], array[int], NDArray[Any]]:
    """Read as `_columns` does, numbers of a `kind`."""
    comments: list[str] = []
    numbers = array("q")

    def job_blocks() -> Generator[list[str], None, None]:
        first, reached = True, 0
        for block in text_blocks(path):
            lines, before = block.split("\n"), reached
            reached += len(lines)
            if not first and plain is None and format.comment not in block and all(map(str.strip, lines)):
                numbers.extend(range(before + 1, reached + 1))
                yield lines  # no need to look at each
                continue
            found = []
            for number, line in enumerate(lines, before + 1):
                text = line.lstrip()
                if text.startswith(format.comment):
                    comments.append(text.removeprefix(format.comment))
                    if len(comments) > _MOST_COMMENTS:
                        raise format_error(path, number, f"more than {_MOST_COMMENTS} lines of comments")
                elif text:
                    if not (first and names_columns(text)):
                        numbers.append(number)
                        found.append(text if plain is None else plain(text))
                    first = False
            if found:
                yield found

    with closing(job_blocks()) as blocks:
        first = next(blocks, None)
        if first is None:
            raise format_error(path, max(1, len(comments)), "no jobs in this log")
        count = len(format.fields)
        # without usecols loadtxt is faster; lines with other columns than the first are an error then
        alike = kind is np.int64 and len(first[0].split()) == count
        table = np.loadtxt(
            chain(first, chain.from_iterable(blocks)),
            dtype=kind,
            comments=None,
            usecols=None if alike else range(count),
            ndmin=2,
        )
    return comments, numbers, table


def repair(jobs: NDArray[np.void]) -> tuple[NDArray[np.void], list[tuple[int, int, str]]]:
    """Return jobs sorted (stably) by submission, with run times below -1 as unknown, and the repairs made.

    The repairs are for `warn_repairs`. The array `jobs` may be changed; the returned one is read-only.
    """
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
    jobs.flags.writeable = False
    return jobs, repairs


def warn_jobs(log: JobLog, rows: NDArray[np.bool_], what: str) -> None:
    """Issue one `TraceWarning` at the caller's caller: how many jobs of a log, `what`, and the first line.

    rows : bool[jobs], the jobs in question.  what : what is wrong with them and what was done.
    """
    line = int(log.jobs["line"][rows].min())
    text = f"{log.path}:{line}: {int(rows.sum())} {what} (the first is at this line)"
    warnings.warn(text, TraceWarning, stacklevel=3)


def _first_fault(path: StrPath, format: JobFormat, otherwise: str) -> TraceFormatError:
    # The bulk parser says that a line is bad; only this second, slow pass can say which one and why.
    fault = next(format.faulty_lines(path), None)
    return format_error(path, *(torn_line(path, otherwise) if fault is None else fault))


def _first_line(jobs: NDArray[np.void], chosen: NDArray[Any]) -> int:
    return int(jobs["line"][chosen[0]]) if len(chosen) else 0


def header_of(comments: Iterable[str]) -> dict[str, str]:
    """Return the `Key: value` lines of comments, without what begins a comment; see `JobLog.header`."""
    header: dict[str, list[str]] = {}
    key = ""
    for comment in comments:
        if match := _HEADER.match(comment.rstrip()):
            key = match[1]
            header.setdefault(key, []).append((match[2] or "").strip())
        elif key and _CONTINUED.match(comment):
            header[key].append(comment.strip())
        else:
            key = ""
    return {name: "\n".join(values) for name, values in header.items()}
