"""Job logs, and the shared parts of the readers of their text formats: one job a line, fields in columns."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcore.common.whole_numbers import whole_numbers
from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_COUNT,
    LARGEST_EXACT,
    Remark,
    format_error,
    number_fault,
    parse_number,
    text_blocks,
    text_lines,
    torn_line,
    warn_remarks,
)
from gridsim.traces.job_lines import place_parts, unknown_submissions

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
#: Fields on which no run depends: whatever cannot be read there is unknown.
UNUSED_FIELDS = frozenset(
    ("cpu_time", "used_memory", "req_memory", "group", "executable", "queue", "partition")
    + ("preceding", "think_time")
)
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

    Parameters
    ----------
    path
        The file it was read from.
    header
        The `Key: value` comments; the values of a repeated key are joined by newlines.
    jobs
        Structured array (`JOB_DTYPE`), sorted by submission, of the 18 fields of the Standard Workload Format
        and `line`, the line in the file. Times are s as in the log, memory is KB, -1 is unknown. There is a
        row for each line, also for those that are no jobs that ran (see `gridsim.traces.job_lines`).
    repairs
        What was repaired and has not been reported yet, for whoever uses the lines to report.
    """

    path: str
    header: dict[str, str]
    jobs: NDArray[np.void]
    repairs: tuple[Remark, ...] = ()

    @classmethod
    def of(cls, path: StrPath, *, header: dict[str, str] | None = None, **fields: Any) -> JobLog:
        """Make a log from columns, as a reader of another format does.

        What cannot be kept in a field on which no run depends is unknown.

        Raises TraceFormatError for unknown fields, for what is no column, for columns of different lengths,
        and for none.

        Parameters
        ----------
        path
            The file that they were read from.
        fields
            ``submit`` and ``run_time`` (s) and other fields of `JOB_DTYPE`, one entry per job; what is not
            given is unknown, and ``job`` counts from 1.  They are sorted by submission here.
        """
        name = os.fspath(path)
        columns = {key: np.asarray(values) for key, values in fields.items()}
        for key, column in columns.items():
            if column.ndim != 1:
                raise format_error(name, 0, f"{key} must have one dimension, got {column.ndim}")
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
            if key in UNUSED_FIELDS:
                jobs[key] = _readable_column(key, column)
                continue
            jobs[key] = column
            if (np.abs(np.asarray(column, np.float64)) > LARGEST_EXACT).any():
                raise format_error(name, 0, f"{key} must be at most {LARGEST_EXACT:.16g}")
        if not np.isfinite(jobs["submit"]).all():
            raise format_error(name, 0, "submit must be finite")
        return cls(name, header or {}, jobs[np.argsort(jobs["submit"], kind="stable")])

    def __len__(self) -> int:
        return len(self.jobs)

    def report_repairs(self) -> JobLog:
        """Report the repairs by one `TraceWarning`, at the caller's caller, and return the log without."""
        warn_remarks(self.path, self.repairs, 4)
        return replace(self, repairs=())

    @property
    def procs(self) -> NDArray[np.int64]:
        """The processors of each job: those used if known, else those requested if known, else 1."""
        used, requested = self.jobs["used_procs"], self.jobs["req_procs"]
        procs: NDArray[np.int64] = np.where(used > 0, used, np.where(requested > 0, requested, 1))
        return procs


@dataclass(frozen=True)
class JobFormat:
    """A text format of job logs; its lines begin with the fields of `JOB_FIELDS`, in that order.

    Parameters
    ----------
    comment
        The text with which a comment line begins.
    fields
        The fields of `JOB_FIELDS` that a line may have.
    required
        How many of them a line must have.
    columns
        The columns of a line, including those that are not in `fields`.
    texts
        The fields that may be any word.
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
            if name in self.texts or name in UNUSED_FIELDS:
                continue
            if fault := _word_fault(name, word):
                return fault
        return None

    def readable(self, text: str) -> str:
        """Return a job line with -1 in place of what cannot be read in `UNUSED_FIELDS`."""
        words = text.split()
        if len(words) < self.required or "\r" in text:
            return text
        for k, (name, word) in enumerate(zip(self.fields, words, strict=False)):
            if name in UNUSED_FIELDS and _word_fault(name, word):
                words[k] = "-1"
        return " ".join(words)

    def faulty_lines(self, path: StrPath) -> Iterator[tuple[int, str]]:
        """Yield (line number, what is wrong) for each job line that cannot be read."""
        first = True
        for number, line in enumerate(text_lines(path), 1):
            if self.is_job(line):
                if not (first and names_columns(line)) and (fault := self.line_fault(line)):
                    yield number, fault
                first = False


@lru_cache(maxsize=4096)
def _word_fault(name: str, word: str) -> str | None:
    most = LARGEST_COUNT if name in _COUNTS else LARGEST_EXACT
    return number_fault(name, word, whole=_KINDS[name] is np.int64, most=most)


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


class ParsedJobs(NamedTuple):
    """Header and jobs exactly as they are in a file, in its order; -1 for what cannot be read and is unused.

    Parameters
    ----------
    unread
        int64; the lines with a value in `UNUSED_FIELDS` that cannot be read, sorted.
    """

    header: dict[str, str]
    jobs: NDArray[np.void]
    unread: NDArray[np.int64]


def parse_jobs(path: StrPath, format: JobFormat, plain: Callable[[str], str] | None = None) -> ParsedJobs:
    """Return header and jobs exactly as they are in the file; -1 for the fields that the format lacks.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of too few fields, a field that is used and is not a
    finite number (or has a fraction where only whole numbers make sense), and a file that is missing,
    truncated, binary or without jobs.

    Parameters
    ----------
    plain
        Returns a job line with plain numbers for its fields; it is called once for each line.  None for lines
        as they are.
    """
    unread: list[int] = []
    try:
        comments, numbers, table = _columns(path, format, plain, unread)
    except TraceFormatError:
        raise
    except ValueError as error:
        raise _first_fault(path, format, str(error)) from error
    line = np.frombuffer(numbers, np.int64)
    unread += line[_settle(table, format.fields)].tolist()
    whole = [_KINDS[name] is np.int64 for name in format.fields]
    most = np.array([LARGEST_COUNT if name in _COUNTS else LARGEST_EXACT for name in format.fields])
    within = ((-most <= table.min(axis=0)) & (table.max(axis=0) <= most)).all()  # False for NaN
    fractions = table.dtype.kind == "f" and (table[:, whole] != np.floor(table[:, whole])).any()
    if not within or fractions:
        raise _first_fault(path, format, "a field is not a finite (whole) number")

    jobs: NDArray[np.void] = np.empty(len(table), dtype=JOB_DTYPE)
    # all at once, which is right for fields of the table's kind: each field has 8 bytes
    jobs.view(table.dtype).reshape(len(table), -1)[:, : len(format.fields)] = table
    for k, name in enumerate(format.fields):
        if JOB_DTYPE[name] != table.dtype:
            jobs[name] = table[:, k]
    for name in JOB_FIELDS[len(format.fields) :]:
        jobs[name] = -1
    jobs["line"] = line
    return ParsedJobs(header_of(comments), jobs, np.unique(np.array(unread, np.int64)))


def _readable_column(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers of a column of `UNUSED_FIELDS`; -1 for what is none that can be kept."""
    if column.dtype.kind not in "iuf":
        words = [str(each) for each in column.tolist()]
        return np.array([-1.0 if _word_fault(name, word) else float(word) for word in words])
    found = column.astype(np.float64)
    _settle(found[:, None], (name,))
    return found


def _settle(table: NDArray[Any], fields: tuple[str, ...]) -> NDArray[np.bool_]:
    """Replace what is no (whole) number that can be kept in `UNUSED_FIELDS` by -1; return the rows of it."""
    rows = np.zeros(len(table), np.bool_)
    for k, name in enumerate(fields):
        if name not in UNUSED_FIELDS:
            continue
        column = table[:, k]
        wrong = ~(np.abs(column) <= LARGEST_EXACT)  # True for NaN
        if table.dtype.kind == "f" and _KINDS[name] is np.int64:
            wrong |= column != np.floor(column)
        if wrong.any():
            column[wrong] = -1
            rows |= wrong
    return rows


def _columns(
    path: StrPath, format: JobFormat, plain: Callable[[str], str] | None, unread: list[int]
) -> tuple[list[str], array[int], NDArray[Any]]:
    """Return the comments, the line of each job, and the fields; ValueError if these are no numbers.

    Lines in which words of `UNUSED_FIELDS` are no numbers are added to `unread`.
    """
    if plain is None and (whole := _whole(path, format)) is not None:
        return whole
    found, tables = _Lines(path, format), []
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            lines = found.jobs(block)
            if lines:
                if plain is not None:
                    lines = [*map(plain, lines)]
                try:
                    tables.append(_floats(lines, format))
                except ValueError:
                    readable = [*map(format.readable, lines)]
                    tables.append(_floats(readable, format))
                    numbers = found.numbers[-len(lines) :]
                    pairs = zip(numbers, lines, readable, strict=True)
                    unread += [at for at, line, other in pairs if line.split() != other.split()]
    return found.comments, found.numbers, found.joined(tables)


def _floats(lines: list[str], format: JobFormat) -> NDArray[np.float64]:
    table: NDArray[np.float64] = np.loadtxt(lines, comments=None, usecols=range(len(format.fields)), ndmin=2)
    return table


def _whole(path: StrPath, format: JobFormat) -> tuple[list[str], array[int], NDArray[np.int64]] | None:
    """Return what `_columns` does of a log of whole numbers, as most are, soon; else None."""
    found, tables = _Lines(path, format), []
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            table = whole_numbers(block, len(format.fields))
            if table is not None:
                found.all_jobs(len(table))
            elif lines := found.jobs(block):
                table = whole_numbers("\n".join(lines), len(format.fields))
                if table is None:
                    return None
            if table is not None:
                tables.append(table)
    return found.comments, found.numbers, found.joined(tables)


class _Lines:
    """Tells the lines of jobs from the others of a log, which is read in blocks.

    Attributes
    ----------
    comments
        The comments so far.
    numbers
        The line of each job so far.
    """

    def __init__(self, path: StrPath, format: JobFormat) -> None:
        self.comments: list[str] = []
        self.numbers = array("q")
        self._path, self._format = path, format
        self._first, self._reached = True, 0

    def jobs(self, block: str) -> list[str]:
        """Return the lines of the next block that are jobs, without blanks around them."""
        found, comment = [], self._format.comment
        for number, line in enumerate(block.split("\n"), self._reached + 1):
            self._reached = number
            text = line.strip()
            if text.startswith(comment):
                self.comments.append(line.lstrip().removeprefix(comment))
                if len(self.comments) > _MOST_COMMENTS:
                    message = f"more than {_MOST_COMMENTS} lines of comments"
                    raise format_error(self._path, number, message)
            elif text:
                if not (self._first and names_columns(text)):
                    self.numbers.append(number)
                    found.append(text)
                self._first = False
        return found

    def all_jobs(self, count: int) -> None:
        """Take all `count` lines of the next block as jobs."""
        self.numbers.frombytes(np.arange(self._reached + 1, self._reached + count + 1).tobytes())
        self._first, self._reached = False, self._reached + count

    def joined(self, tables: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the fields of all blocks, of which there must be some."""
        if not tables:
            raise format_error(self._path, max(1, len(self.comments)), "no jobs in this log")
        return np.concatenate(tables)


def repair(path: StrPath, parsed: ParsedJobs) -> JobLog:
    """Return the log of parsed jobs: sorted (stably) by submission, with run times below -1 as unknown.

    Parts of a job that has no line of its own and that state no submission get the one that the format means:
    the end of the part above or, for the first part, the submission of the line above.  The array of the jobs
    may be changed; that of the log is read-only.
    """
    header, jobs, _ = parsed
    submit, run_time, line = jobs["submit"], jobs["run_time"], jobs["line"]
    wrong = (run_time < 0) & (run_time != -1)
    run_time[wrong] = -1
    late = ~unknown_submissions(jobs) & (submit < np.maximum.accumulate(submit))
    placed = place_parts(jobs)
    repairs = (
        Remark(line[late], "submissions out of order, sorted"),
        Remark(line[wrong], "run times below -1, taken as unknown"),
        Remark(line[placed], "parts of unknown submission, taken as submitted after the part or line above"),
    )
    if (np.diff(submit) < 0).any():
        jobs = jobs[np.argsort(submit, kind="stable")]
    jobs.flags.writeable = False
    return JobLog(os.fspath(path), header, jobs, tuple(each for each in repairs if len(each.lines)))


def _first_fault(path: StrPath, format: JobFormat, otherwise: str) -> TraceFormatError:
    # The bulk parser says that a line is bad; only this second, slow pass can say which one and why.
    fault = next(format.faulty_lines(path), None)
    return format_error(path, *(torn_line(path, otherwise) if fault is None else fault))


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
