"""Job logs, and the common parts of the readers of their text formats, with one job per line."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from gridcore.common.decimal_numbers import decimal_numbers
from gridsim.errors import TraceFormatError
from gridsim.support.arrays import first_true
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_COUNT,
    LARGEST_EXACT,
    Remark,
    carriage_return_fault,
    format_error,
    number_fault,
    parse_number,
    text_blocks,
    text_lines,
    truncate,
    warn_remarks,
)
from gridsim.traces.job_lines import column_of, place_parts, unknown_submissions

# times and memory have fractions in some logs; identifiers and counts must be whole numbers
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
#: Fields on which no run depends.
_UNUSED_FIELDS = frozenset(("cpu_time", "used_memory", "req_memory", "executable", "partition"))
#: Fields whose values count as unknown if they cannot be read.
_OPTIONAL_FIELDS = _UNUSED_FIELDS | {"group", "queue", "preceding", "think_time"}
_COUNTS = ("used_procs", "req_procs")
#: Largest number of comment lines of a log; they are kept in memory until its end.
_MAX_COMMENTS = 100_000
#: Share of the jobs so far, one of this many, for which a reader has spare memory.
_SPARE_ROWS = 16
#: Number of lines among which a field of the header is searched for.
_HEAD_LINES = 1000
#: Largest number of machines that is accepted from the header of a log, which may state any number.
MAX_MACHINES = 1 << 20
JOB_DTYPE: np.dtype[np.void] = np.dtype([*_KINDS.items(), ("line", np.int64)])

_HEADER = re.compile(r"\s*([A-Za-z]\w*)\s*:(?:\s+(.*))?$")  # a blank after the colon excludes http://...
_CONTINUATION = re.compile(r"\s{2,}\S")  # a line of the value above is indented deeper than a key


def no_pairs() -> NDArray[np.int64]:
    """Return an empty table of pairs."""
    return np.zeros((0, 2), np.int64)


@dataclass(frozen=True)
class JobLog:
    """A job log.

    Parameters
    ----------
    path
        The file that was read.
    header
        The `Key: value` comments; values of a repeated key are joined by newlines.
    jobs
        Structured array (`JOB_DTYPE`), sorted by submission, of the 18 fields of the Standard Workload Format
        and `line`, the line in the file.  Times are s as in the log, memory is KB, -1 is unknown.  There is a
        row for each line of a job or of a part of a job (`gridsim.traces.job_lines`).
    repairs
        Repairs that have not been reported by a warning.
    remarks
        What the reader left out of the log, such as steps of jobs and columns that no run uses, unless it has
        been reported by a warning.
    further
        int64[n, 2], the line of a job and the number of another preceding job, besides that in its row.
    node_counts
        int64[n, 2], the line of a job and its number of nodes, if the log states both nodes and processors.
    gpu_counts
        int64[n, 2], the line of a job and its number of GPUs, of all its nodes, if it has any.
    """

    path: str
    header: dict[str, str]
    jobs: NDArray[np.void]
    repairs: tuple[Remark, ...] = ()
    remarks: tuple[Remark, ...] = ()
    further: NDArray[np.int64] = field(default_factory=no_pairs)
    node_counts: NDArray[np.int64] = field(default_factory=no_pairs)
    gpu_counts: NDArray[np.int64] = field(default_factory=no_pairs)

    @classmethod
    def of(cls, path: StrPath, *, header: dict[str, str] | None = None, **fields: Any) -> JobLog:
        """Make a log from columns, for readers of other formats; it is sorted by submission.

        A value that cannot be read counts as unknown if runs do not need its field, such as memory or queue;
        the repairs of the log count those that a run may use.

        Parameters
        ----------
        path
            The file that was read.
        header
            The `Key: value` comments of the file.
        fields
            Columns ``submit`` and ``run_time`` (s) and other fields of `JOB_DTYPE`, one entry per job.
            Missing fields are unknown; a missing ``job`` counts from 1.

        Raises
        ------
        TraceFormatError
            If a field is unknown or not one-dimensional, if columns are empty or of different lengths, or if
            a value is out of range.
        """
        name = os.fspath(path)
        columns = {key: np.asarray(values) for key, values in fields.items()}
        for key, column in columns.items():
            if column.ndim != 1:
                raise format_error(name, 0, f"{key} must have one dimension, got {column.ndim}")
        lengths = {key: len(column) for key, column in columns.items()}
        if not {"submit", "run_time"} <= set(columns) or not set(columns) <= set(JOB_FIELDS):
            names = ", ".join(JOB_FIELDS)
            message = (
                f"fields must include submit and run_time, and be among {names}, got {', '.join(columns)}"
            )
            raise format_error(name, 0, message)
        count = lengths["submit"]
        if set(lengths.values()) != {count} or not count:
            raise format_error(name, 0, f"columns must be equally long and not empty, got {lengths}")
        jobs: NDArray[np.void] = np.full(count, -1, dtype=JOB_DTYPE)
        jobs["job"] = jobs["line"] = np.arange(1, count + 1)
        unread: dict[str, list[int]] = defaultdict(list)
        for key, column in columns.items():
            if key in _OPTIONAL_FIELDS:
                jobs[key], wrong = _readable_column(key, column)
                unread[key] += jobs["line"][wrong].tolist()
                continue
            jobs[key] = column
            magnitude = np.abs(np.asarray(column, np.float64))
            for row in first_true(magnitude > LARGEST_EXACT):
                message = f"{key}[{row}] must be at most {LARGEST_EXACT:.16g}, got {column[row]}"
                raise format_error(name, 0, message)
        for row in first_true(~np.isfinite(jobs["submit"])):
            raise format_error(name, 0, f"submit[{row}] must be finite, got {columns['submit'][row]}")
        jobs = jobs[np.argsort(jobs["submit"], kind="stable")]
        return cls(name, header or {}, jobs, _unread_remarks(unread))

    def __len__(self) -> int:
        return len(self.jobs)

    def report_repairs(self) -> JobLog:
        """Report repairs and remarks at the caller's caller; return the log without them.

        Both are one `TraceWarning`.
        """
        warn_remarks(self.path, self.remarks, 4)
        warn_remarks(self.path, self.repairs, 4)
        return replace(self, repairs=(), remarks=())

    @property
    def unfinished_jobs(self) -> dict[str, int]:
        """The jobs that are left out since they had not ended when the log was written: kind -> number.

        They are counted by the reader, or by notes in the header of a converted log.
        """
        counts = {remark.text: len(remark.lines) for remark in self.remarks}
        for note in self.header.get("Note", "").split("\n"):
            count, _, text = note.partition(" ")
            if count.isdecimal():
                counts[text] = int(count)
        texts = [text for text in (PENDING, PENDING_ARRAYS, NOT_ENDED) if counts.get(text)]
        return {text.removesuffix(", left out"): counts[text] for text in texts}

    @property
    def has_shared_nodes(self) -> bool:
        """Whether the log is known to have jobs that share nodes."""
        return SHARED_NOTE in self.header.get("Note", "")

    @property
    def node_flags(self) -> list[str]:
        """The flags of a command for machines that are the nodes of the log, as its header notes them."""
        match = _NODE_FLAGS.search(self.header.get("Note", ""))
        return [] if match is None else match[1].split()

    @property
    def has_nodes_only(self) -> bool:
        """Whether the header notes that the processors of jobs are nodes."""
        return NODES_NOTE in self.header.get("Note", "").split("\n")

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Number of nodes of each job, if the log states both nodes and processors; else 0."""
        return self._counts(self.node_counts)

    @property
    def gpus(self) -> NDArray[np.int64]:
        """Number of GPUs of each job; 0 if the log states none."""
        return self._counts(self.gpu_counts)

    def _counts(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each job in pairs of a line and a number; 0 for other jobs."""
        line, counts = self.jobs["line"], np.zeros(len(self), np.int64)
        order = np.argsort(line)
        counts[order[np.searchsorted(line[order], pairs[:, 0])]] = pairs[:, 1]
        return counts

    @property
    def memory(self) -> NDArray[np.float64]:
        """Memory that each job requested, of all its processors, whole bytes; 0 if unknown."""
        kilobytes = np.maximum(self.jobs["req_memory"], 0.0) * self.procs
        memory: NDArray[np.float64] = np.rint(kilobytes * 1024.0)
        return memory

    @property
    def procs(self) -> NDArray[np.int64]:
        """Processors of each job: the number used if known, else the number requested if known, else 1."""
        used_procs, requested_procs = self.jobs["used_procs"], self.jobs["req_procs"]
        procs: NDArray[np.int64] = np.where(
            used_procs > 0, used_procs, np.where(requested_procs > 0, requested_procs, 1)
        )
        return procs


@dataclass(frozen=True)
class JobFormat:
    """A text format of job logs, whose lines begin with the fields of `JOB_FIELDS`, in that order.

    Parameters
    ----------
    comment
        Text with which a comment line begins.
    fields
        Fields of `JOB_FIELDS` that a line may have.
    min_fields
        Number of these fields that a line must have.
    columns
        Number of columns of a line, including columns that are not in `fields`.
    texts
        Fields that may be any word.
    separator
        Text between two fields; None for white space.
    """

    comment: str
    fields: tuple[str, ...]
    min_fields: int
    columns: int
    texts: tuple[str, ...] = ()
    separator: str | None = None

    def words(self, text: str) -> list[str]:
        """Return the fields of a line; an empty one, between two separators, is -1 (unknown)."""
        if self.separator is None:
            return text.split()
        return [word.strip() or "-1" for word in text.split(self.separator)]

    def is_job(self, text: str) -> bool:
        """Return whether a line is neither empty nor a comment."""
        bare = text.lstrip()
        return bool(bare) and not bare.startswith(self.comment)

    def line_fault(self, text: str) -> str | None:
        """Return the fault of a job line; None if there is none."""
        words = self.words(text)
        if len(words) < self.min_fields:
            suffix = " or more" if self.min_fields < self.columns else ""
            return f"a line must have {self.min_fields} fields{suffix}, got {len(words)}"
        for name, word in zip(self.fields, words, strict=False):
            if name in self.texts or name in _OPTIONAL_FIELDS:
                continue
            if fault := _word_fault(name, word):
                return fault
        return None

    def readable_line(self, text: str) -> str:
        """Return a job line with -1 in place of words of `_OPTIONAL_FIELDS` that cannot be read."""
        words = text.split()
        if len(words) < self.min_fields or "\r" in text:
            return text
        for k, (name, word) in enumerate(zip(self.fields, words, strict=False)):
            if name in _OPTIONAL_FIELDS and _word_fault(name, word):
                words[k] = "-1"
        return " ".join(words)

    def faulty_lines(self, path: StrPath) -> Iterator[tuple[int, str]]:
        """Yield (line number, fault) for each job line that cannot be read."""
        first = True
        for number, line in enumerate(text_lines(path), 1):
            if self.is_job(line):
                if not (first and is_column_header(self.words(line))) and (fault := self.line_fault(line)):
                    yield number, fault
                first = False


@lru_cache(maxsize=4096)
def _word_fault(name: str, word: str) -> str | None:
    maximum = LARGEST_COUNT if name in _COUNTS else LARGEST_EXACT
    return number_fault(name, word, integer=_KINDS[name] is np.int64, maximum=maximum)


#: Remarks on jobs that had not ended when a log was written; `convert` notes them in the header.
PENDING, PENDING_ARRAYS = "pending jobs, left out", "arrays of pending jobs, left out"
NOT_ENDED = "jobs that have not ended, left out"
#: End of the remark on the GPUs of jobs, which only some runs use.
GPUS_UNUSED = "which only platform.gpus (--shared --gpus-per-node) uses, left out"
#: Note in the header of a log of numbers of nodes, not of processors.
NODES_NOTE = "the log has numbers of nodes: each processor is a node"
#: Beginning of a note in the header of a log whose jobs share nodes.
SHARED_NOTE = "jobs share nodes"
#: Keys of header lines with the number of machines, in the order in which they are used.
MACHINE_KEYS = "MaxProcs", "MaxNodes"
#: Key of a header line with a whole number -> its least value.
COUNT_KEYS = {**dict.fromkeys((*MACHINE_KEYS, "MaxJobs", "MaxRecords"), 1), "UnixStartTime": 0}
_COUNT = re.compile(r"([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\s*\(.*)?")
_UNKNOWN_COUNTS = frozenset(("", "-1", "unknown"))
_NODE_FLAGS = re.compile(r"\((--cores-per-node \d+( --shared)?)\)")


def header_count(header: Mapping[str, str], key: str) -> int | None:
    """Return the whole number of at least 0 that a header states under `key`; None if it states none.

    It may have thousands separators (16,384), and a text in parentheses may follow, as the format allows.
    """
    match = _COUNT.fullmatch(header.get(key, "").partition("\n")[0].strip())
    return None if match is None else int(match[1].replace(",", ""))


def header_faults(header: Mapping[str, str]) -> dict[str, str]:
    """Return key -> value of the numbers in a header that cannot be used; unknown values are left out."""
    first_lines = {key: header.get(key, "").partition("\n")[0].strip() for key in COUNT_KEYS}
    faults = {}
    for key, low in COUNT_KEYS.items():
        count = header_count(header, key)
        if (count is None or count < low) and first_lines[key].lower() not in _UNKNOWN_COUNTS:
            faults[key] = first_lines[key]
    return faults


def header_fault_texts(header: Mapping[str, str], *keys: str) -> list[str]:
    """Return a sentence on each number in a header that cannot be used, of `keys` or, by default, of all."""
    return [
        f"the header's {key} must be a whole number of at least {COUNT_KEYS[key]} and is not used, got "
        f"{truncate(value)!r}"
        for key, value in header_faults(header).items()
        if not keys or key in keys
    ]


def header_line(path: StrPath, key: str) -> int:
    """Return the line of a log with the header field `key`; 0 if there is none among the first lines."""
    field = re.compile(rf"\s*[;#]\s*{key}\s*:")
    with suppress(TraceFormatError), closing(text_lines(path)) as lines:
        numbers = (number for number, line in enumerate(islice(lines, _HEAD_LINES), 1) if field.match(line))
        return next(numbers, 0)
    return 0


def stated_machines(header: Mapping[str, str], cores_per_node: int = 1) -> tuple[str, int] | None:
    """Return the key and the number of machines that a header states; None if it states none.

    The key is MaxProcs, whose value is divided by `cores_per_node` and rounded up, else MaxNodes.
    """
    for key in MACHINE_KEYS:
        if count := header_count(header, key):
            return key, -(-count // cores_per_node) if key == "MaxProcs" else count
    return None


def listed_names(header: Mapping[str, str], key: str) -> dict[int, str]:
    """Return number -> name for the names that a header lists under `key`, such as "User" or "Queue"."""
    entries = re.findall(r"^([0-9]{1,6})[ \t]+(\S.*?)[ \t\r]*$", header.get(key, ""), re.MULTILINE)
    return {int(number): name for number, name in entries}


def unix_start(header: Mapping[str, str]) -> float:
    """Return the UNIX time of submissions at 0 s that a header states, s; NaN if it states none."""
    begin = header_count(header, "UnixStartTime")
    return math.nan if begin is None else float(begin)


def date_at(header: Mapping[str, str], time: float) -> datetime | None:
    """Return the date of a time of a log, s, by its clock; None if the header states no start.

    It is in the time zone of the header (TimeZoneString), else in UTC; without a UNIX time, it counts from a
    local StartTime, as the readers of accounting tables state it.
    """
    begin, name = unix_start(header), header.get("TimeZoneString", "").strip()
    try:
        if math.isnan(begin):
            return datetime.fromisoformat(header.get("StartTime", "").strip()) + timedelta(seconds=time)
        return datetime.fromtimestamp(begin + time, _zone(name))
    except (OverflowError, ValueError, OSError):
        return None


def _zone(name: str) -> tzinfo:
    """Return the time zone of a name; UTC if it is empty or unknown."""
    try:
        return ZoneInfo(name) if name else UTC
    except (OSError, KeyError, ValueError):
        return UTC


def is_column_header(words: list[str]) -> bool:
    """Return whether the words of the first non-comment line are column names: none is a number."""
    return all(parse_number(word) is None for word in words)


class ParsedJobs(NamedTuple):
    """Header and jobs as they are in a file, in its order, with -1 for unused values that cannot be read.

    Parameters
    ----------
    unread
        int64; the lines with a value of a field that no run uses that cannot be read, sorted.
    remarks
        Remarks on records and columns of the file that are left out.
    further, node_counts, gpu_counts
        As in `JobLog`.
    repairs
        Remarks on values that are taken otherwise than the file states them.
    """

    header: dict[str, str]
    jobs: NDArray[np.void]
    unread: NDArray[np.int64]
    remarks: tuple[Remark, ...] = ()
    further: NDArray[np.int64] = no_pairs()
    repairs: tuple[Remark, ...] = ()
    node_counts: NDArray[np.int64] = no_pairs()
    gpu_counts: NDArray[np.int64] = no_pairs()


def parse_jobs(path: StrPath, format: JobFormat, plain: Callable[[str], str] | None = None) -> ParsedJobs:
    """Return header and jobs as they are in the file, with -1 for the fields that the format lacks.

    Parameters
    ----------
    plain
        Function that replaces the fields of a job line by plain numbers; it is called once for each line.
        None if lines have plain numbers.

    Raises
    ------
    TraceFormatError
        If a line has too few fields, a field that is used is not a finite number (or a whole number if it is
        an identifier or a count), or the file is missing, truncated, binary or without jobs.  The message
        begins with the file and any faulty line.
    """
    reader = _JobReader(path, format, plain)
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            reader.read(block)
    return reader.parsed_jobs()


def _unread_remarks(unread: Mapping[str, Iterable[int]]) -> tuple[Remark, ...]:
    """Return a remark on each field that a run may use, with the lines whose values cannot be read."""
    return tuple(
        Remark(np.array(sorted(lines), np.int64), f"values of {name} that cannot be read, taken as unknown")
        for name, lines in unread.items()
        if lines and name not in _UNUSED_FIELDS
    )


def _readable_column(name: str, column: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column of `_OPTIONAL_FIELDS`, -1 if they cannot be read.

    The mask has the values that cannot be read; None and NaN, which are unknown, are not among them.
    """
    if column.dtype.kind in "iuf":
        numbers = column.astype(np.float64)
        wrong = _replace_unreadable(numbers[:, None], (name,)).get(name, np.zeros(len(numbers), np.bool_))
        return numbers, wrong & ~np.isnan(column)
    words = [str(value) for value in column.tolist()]
    faulty = [_word_fault(name, word) is not None for word in words]
    numbers = np.array([-1.0 if fault else float(word) for word, fault in zip(words, faulty, strict=True)])
    return numbers, np.array(faulty) & ~np.isin(words, ("None", "nan", ""))


def _replace_unreadable(table: NDArray[Any], fields: tuple[str, ...]) -> dict[str, NDArray[np.bool_]]:
    """Replace invalid numbers in `_OPTIONAL_FIELDS` by -1, and return field -> their rows: bool[rows]."""
    rows: dict[str, NDArray[np.bool_]] = {}
    for k, name in enumerate(fields):
        if name not in _OPTIONAL_FIELDS:
            continue
        column = table[:, k]
        wrong = ~(np.abs(column) <= LARGEST_EXACT)  # True for NaN
        if table.dtype.kind == "f" and _KINDS[name] is np.int64:
            wrong |= column != np.floor(column)
        if wrong.any():
            column[wrong] = -1
            rows[name] = wrong
    return rows


class _JobReader:
    """Reader of a log in blocks, which parses the lines of jobs and keeps the comments.

    A block takes several times the memory of its jobs until it is parsed; of the blocks before, only the jobs
    and the comments are in memory.
    """

    def __init__(self, path: StrPath, format: JobFormat, plain: Callable[[str], str] | None) -> None:
        self._path, self._format, self._plain = path, format, plain
        self._comments: list[str] = []
        self._unread: dict[str, list[int]] = defaultdict(list)
        self._jobs: NDArray[np.void] = np.empty(0, JOB_DTYPE)
        self._count = 0  # of the jobs so far; `_jobs` has more rows
        self._at_start, self._last_line = True, 0
        self._is_integer = np.array([_KINDS[name] is np.int64 for name in format.fields])
        counts = [LARGEST_COUNT if name in _COUNTS else LARGEST_EXACT for name in format.fields]
        self._limits = np.array(counts, np.float64)

    def read(self, block: str) -> None:
        """Read the next block of lines."""
        columns = len(self._format.fields)
        if self._plain is None and (table := decimal_numbers(block, columns)) is not None:
            first = self._last_line + 1
            self._at_start, self._last_line = False, self._last_line + len(table)
            self._add(table, np.arange(first, first + len(table)))
            return
        lines, line_numbers = self._job_lines(block)
        if not lines:
            return
        if self._plain is not None:
            lines = [*map(self._plain, lines)]
        if (table := decimal_numbers("\n".join(lines), columns)) is None:
            try:
                table = _floats(lines, self._format)
            except ValueError:
                table = self._readable_floats(lines, line_numbers)
        self._add(table, np.array(line_numbers, np.int64))

    def parsed_jobs(self) -> ParsedJobs:
        """Return the jobs of all blocks, or raise TraceFormatError if there are none."""
        if not self._count:
            raise format_error(self._path, max(1, len(self._comments)), "no jobs in this log")
        self._jobs.resize(self._count, refcheck=False)
        unused = [number for name in _UNUSED_FIELDS for number in self._unread.get(name, ())]
        unread_lines = np.unique(np.array(unused, np.int64))
        return ParsedJobs(
            header_of(self._comments), self._jobs, unread_lines, repairs=_unread_remarks(self._unread)
        )

    def _job_lines(self, block: str) -> tuple[list[str], list[int]]:
        """Return the lines of jobs of a block, stripped of blanks, with their numbers; keep its comments."""
        jobs, numbers, comment = [], [], self._format.comment
        for number, line in enumerate(block.split("\n"), self._last_line + 1):
            self._last_line = number
            text = line.strip()
            if text.startswith(comment):
                self._comments.append(line.lstrip().removeprefix(comment))
                if len(self._comments) > _MAX_COMMENTS:
                    message = f"a log must have at most {_MAX_COMMENTS} lines of comments, got more"
                    raise format_error(self._path, number, message)
            elif text:
                if not (self._at_start and is_column_header(self._format.words(text))):
                    numbers.append(number)
                    jobs.append(text)
                self._at_start = False
        return jobs, numbers

    def _readable_floats(self, lines: list[str], line_numbers: list[int]) -> NDArray[np.float64]:
        """Return the fields of lines, with -1 for words of `_OPTIONAL_FIELDS` that are not numbers."""
        readable = [*map(self._format.readable_line, lines)]
        try:
            table = _floats(readable, self._format)
        except ValueError as error:
            raise _first_fault(self._path, self._format, str(error)) from error
        for number, line, text in zip(line_numbers, lines, readable, strict=True):
            words = zip(self._format.fields, line.split(), text.split(), strict=False)
            for name, word, readable_word in words:
                if word != readable_word:
                    self._unread[name].append(number)
        return table

    def _add(self, table: NDArray[np.float64], line: NDArray[np.int64]) -> None:
        """Add jobs with these fields and lines."""
        fields = self._format.fields
        if not self._is_valid(table):
            for name, rows in _replace_unreadable(table, fields).items():
                self._unread[name] += line[rows].tolist()
            if not self._is_valid(table):
                raise _first_fault(self._path, self._format, "a field must be a finite (whole) number")
        first, self._count = self._count, self._count + len(table)
        if self._count > len(self._jobs):
            # in place, as a copy would take the memory of all jobs so far; no view of the array is in use
            self._jobs.resize(self._count + self._count // _SPARE_ROWS, refcheck=False)
        jobs = self._jobs[first : self._count]
        for k, name in enumerate(fields):
            jobs[name] = table[:, k]
        for name in JOB_FIELDS[len(fields) :]:
            jobs[name] = -1
        jobs["line"] = line

    def _is_valid(self, table: NDArray[np.float64]) -> bool:
        """Return whether all fields are in range, and whole numbers if they have to be."""
        size, whole = np.abs(table), table == np.floor(table)
        # most tables have no value beyond the least of the limits, and only whole numbers
        in_range = size.max() <= self._limits.min() or (size.max(axis=0) <= self._limits).all()  # not for NaN
        return bool(in_range and (whole.all() or whole.all(axis=0)[self._is_integer].all()))


def _floats(lines: list[str], format: JobFormat) -> NDArray[np.float64]:
    table: NDArray[np.float64] = np.loadtxt(lines, comments=None, usecols=range(len(format.fields)), ndmin=2)
    return table


def repair(path: StrPath, parsed_jobs: ParsedJobs) -> JobLog:
    """Return the log of parsed jobs, stably sorted by submission, with run times below -1 as unknown.

    Parts of a job without a line for the whole job get the submission that the format implies: the end of the
    previous part or, for the first part, the submission of the line above.  The array of the parsed jobs may
    be changed; that of the log is read-only.
    """
    header, jobs = parsed_jobs.header, parsed_jobs.jobs
    submit, run_time, line = column_of(jobs, "submit"), column_of(jobs, "run_time"), jobs["line"]
    wrong = (run_time < 0) & (run_time != -1)
    jobs["run_time"][wrong] = -1
    unsorted = ~unknown_submissions(submit) & (submit < np.maximum.accumulate(submit))
    placed = place_parts(jobs)
    repairs = (
        *parsed_jobs.repairs,
        Remark(line[unsorted], "submissions out of order, sorted"),
        Remark(line[wrong], "run times below -1, taken as unknown"),
        Remark(line[placed], "parts of unknown submission, taken as submitted after the part or line above"),
    )
    if len(placed):
        submit = column_of(jobs, "submit")
    if (submit[1:] < submit[:-1]).any():
        order = np.argsort(submit, kind="stable")
        moved = np.flatnonzero(order != np.arange(len(order)))
        jobs[moved] = jobs[order[moved]]  # in most logs few jobs move, so that this takes little memory
    jobs.flags.writeable = False
    return JobLog(
        os.fspath(path),
        header,
        jobs,
        tuple(remark for remark in repairs if len(remark.lines)),
        parsed_jobs.remarks,
        parsed_jobs.further,
        parsed_jobs.node_counts,
        parsed_jobs.gpu_counts,
    )


def _first_fault(path: StrPath, format: JobFormat, default: str) -> TraceFormatError:
    # the fast parser only detects that some line is faulty; this second, slow pass finds the line and the
    # fault
    fault = next(format.faulty_lines(path), None)
    return format_error(path, *(carriage_return_fault(path, default) if fault is None else fault))


def header_of(comments: Iterable[str]) -> dict[str, str]:
    """Return the `Key: value` lines of `comments`, which lack their comment mark, as in `JobLog.header`."""
    header: dict[str, list[str]] = {}
    key = ""
    for comment in comments:
        if match := _HEADER.match(comment.rstrip()):
            key = match[1]
            header.setdefault(key, []).append((match[2] or "").strip())
        elif key and _CONTINUATION.match(comment):
            header[key].append(comment.strip())
        else:
            key = ""
    return {name: "\n".join(values) for name, values in header.items()}
