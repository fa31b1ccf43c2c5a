"""Contradictions between the fields of a job log, and warnings about the lines that a workload uses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceWarning, warn
from gridsim.traces._text import parse_number, warn_remarks
from gridsim.traces.job_lines import PARTS, JobLines, Rows, job_count, remarks_on, unused_fields
from gridsim.traces.jobs import (
    GPUS_UNUSED,
    JobLog,
    date_at,
    header_count,
    header_fault_texts,
    header_faults,
    header_line,
    stated_machines,
)


def report(
    log: JobLog,
    lines: JobLines,
    used: Rows,
    zero_run_time: float,
    stacklevel: int = 3,
    *,
    uses_preceding: bool = False,
    uses_gpus: bool = False,
) -> None:
    """Issue a `TraceWarning`, at the caller's caller, for each kind of remark on the `used` lines.

    The remarks are on what the reader left out and on repairs, unless they have been reported, on lines that
    are left out or reinterpreted, on fields that the run does not use, and on contradictions.

    Parameters
    ----------
    uses_preceding
        Whether the run uses preceding jobs and think times.
    uses_gpus
        Whether the run uses GPUs of jobs.
    """
    jobs = log.jobs
    stacklevel += 1
    left_out = [each for each in log.remarks if not (uses_gpus and each.text.endswith(GPUS_UNUSED))]
    warn_remarks(log.path, left_out, stacklevel)
    warn_remarks(log.path, [remark.restrict(jobs["line"][used]) for remark in log.repairs], stacklevel)
    for remark in remarks_on(jobs, lines, used, zero_run_time):
        warn_remarks(log.path, [remark], stacklevel)
    if not uses_preceding:
        warn_remarks(log.path, unused_fields(jobs, used & lines.ran).values(), stacklevel)
    faults = contradictions(log, lines, used)
    if faults:
        text = "; ".join(fault.message for fault in faults)
        first = min((fault.first_line for fault in faults if fault.first_line), default=0)
        message = (
            f"{log.path}:{first}: {text} (the first is at this line)" if first else f"{log.path}: {text}"
        )
        warn(message, TraceWarning, stacklevel - 1)


_DAY, _HOUR = 86_400.0, 3600.0
#: Smallest submit time (s) that counts as a UNIX time; smaller ones are times since the start of the log.
_MIN_UNIX_TIME = 1e8
#: Largest difference (s) of times that count as equal, in logs with fractions of seconds.
_ROUNDING_ERROR = 2e-6
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Dates such as Sat May 01 00:04:55 JST 2010, and ISO dates such as 2010-05-01 00:04:55.
_DATE = re.compile(
    r"(?:[A-Za-z]+,?\s+)?([A-Za-z]{3})[a-z]*\s+(\d+)\s+(\d+):(\d+):(\d+)\s+(?:(\S+)\s+)?(\d{4})$"
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)\s*(\S*)$")


@dataclass(frozen=True)
class Contradiction:
    """Statement of a job log that cannot be true.

    Parameters
    ----------
    code
        Stable name of the kind of contradiction.
    text
        For jobs, the end of a phrase that begins with their number or "job"; else a sentence.
    lines
        int64; lines of the jobs; empty if the contradiction is in the header.
    header_line
        Line of the header, if it is one line that is at fault; 0 otherwise.
    """

    code: str
    text: str
    lines: NDArray[np.int64]
    header_line: int = 0

    @property
    def first_line(self) -> int:
        """First line of the contradiction; 0 if it is in no particular line."""
        return int(self.lines.min(initial=2**62)) if len(self.lines) else self.header_line

    @property
    def message(self) -> str:
        """Description of the contradiction, with the number of jobs."""
        count = len(self.lines)
        return f"{count} job{'' if count == 1 else 's'} {self.text}" if count else self.text


def contradictions(log: JobLog, lines: JobLines, used: Rows) -> list[Contradiction]:
    """Return the contradictions in the `used` lines of a log, and in its header."""
    jobs, line, header = log.jobs, log.jobs["line"], log.header
    ran = used & lines.ran
    job_contradictions: list[tuple[str, str, Rows]] = [
        (
            "negative-wait",
            "with a wait below 0 other than -1",
            used & (jobs["wait"] < 0) & (jobs["wait"] != -1),
        )
    ]
    if (header_machines := stated_machines(header)) is not None:
        key, limit = header_machines
        wide = ran & (np.maximum(log.procs, jobs["req_procs"]) > limit)
        job_contradictions.append(
            ("over-max-procs", f"of more processors than the header's {key}, {limit}", wide)
        )
        over_capacity, example = _over_capacity(log, lines, ran & ~wide, limit)
        text = f"started while more processors were in use than the header's {key}, {limit}{example}"
        job_contradictions.append(("over-capacity", text, over_capacity))
    longest, overuse = _number(header, "MaxRuntime"), header.get("AllowOveruse", "").lower()
    if longest is not None and not overuse.startswith(("yes", "true")):
        long = ran & (jobs["run_time"] > longest)
        job_contradictions.append(
            ("over-max-runtime", f"of a run time above the header's MaxRuntime, {longest:g} s", long)
        )
    log_contradictions = {**_count_contradictions(log), **_time_contradictions(log, lines)}
    no_lines = np.zeros(0, np.int64)
    return [
        *(
            Contradiction("header-number", text, no_lines, header_line(log.path, key))
            for key in header_faults(header)
            for text in header_fault_texts(header, key)
        ),
        *(Contradiction(code, text, line[rows]) for code, text, rows in job_contradictions if rows.any()),
        *(Contradiction(code, text, no_lines) for code, text in log_contradictions.items()),
    ]


def _over_capacity(log: JobLog, lines: JobLines, rows: Rows, limit: int) -> tuple[Rows, str]:
    """Return which jobs among `rows` started while more than `limit` processors were in use, and an example.

    Jobs that were swapped out or that share processors in turns are not counted, as the log does not state
    the times at which they ran.  Times of whole seconds may be 1 s off.
    """
    jobs, over_capacity = log.jobs, np.zeros(len(log), np.bool_)
    known = rows & (jobs["wait"] >= 0) & (jobs["run_time"] > 0) & ~np.isin(jobs["status"], PARTS)
    if lines.part.any():
        known &= ~np.isin(jobs["job"], jobs["job"][lines.part])
    indices = np.flatnonzero(known)
    if not len(indices) or log.header.get("Preemption", "").upper().startswith("TS"):
        return over_capacity, ""
    times = [jobs[name][indices] for name in ("submit", "wait", "run_time")]
    slack = 1.0 if all((column == np.floor(column)).all() for column in times) else _ROUNDING_ERROR
    start, procs = times[0] + times[1], log.procs[indices]
    end = start + np.maximum(times[2] - slack, 0.0)
    order = np.argsort(start, kind="stable")
    indices, start = indices[order], start[order]
    by_end = np.argsort(end, kind="stable")
    released = np.concatenate(([0], np.cumsum(procs[by_end])))
    occupied = np.cumsum(procs[order])
    in_use = occupied - released[np.searchsorted(end[by_end], start, side="right")]
    # of jobs that start at one instant, only the sum at the last one includes all of them
    excess = np.flatnonzero(in_use > limit)
    over_capacity[indices[excess]] = True
    if not len(excess):
        return over_capacity, ""
    at = float(start[excess[0]])
    date = "" if (known_date := date_at(log.header, at)) is None else f" ({known_date:%Y-%m-%d %H:%M:%S})"
    return over_capacity, f", such as {in_use[excess[0]]} at {at:.15g} s{date}"


def _count_contradictions(log: JobLog) -> dict[str, str]:
    """Return code -> text of contradictions between the header and the numbers of lines and jobs."""
    jobs, texts = log.jobs, {}
    count = job_count(jobs)
    records, max_jobs = header_count(log.header, "MaxRecords"), header_count(log.header, "MaxJobs")
    if records and records != len(jobs):
        texts["other-record-count"] = f"the header says {records} records, but the file has {len(jobs)}"
    if max_jobs and max_jobs != count and (max_jobs, count) != (records, len(jobs)):
        texts["other-job-count"] = f"the header says {max_jobs} jobs, but the file has {count}"
    return texts


def _time_contradictions(log: JobLog, lines: JobLines) -> dict[str, str]:
    """Return code -> text of contradictions between dates in the header, or between them and submissions.

    Dates are compared as written, without the time zone of this computer.
    """
    header, texts = log.header, {}
    (begin, zone), (end, end_zone) = _date(header.get("StartTime", "")), _date(header.get("EndTime", ""))
    unix = header_count(header, "UnixStartTime") or None
    if unix is not None and abs(unix - begin) > _DAY:  # False for NaN
        texts["header-start"] = "the header's UnixStartTime and StartTime are more than a day apart"
    if math.isnan(lines.first):
        return texts
    last = float(log.jobs["submit"][~lines.part].max())
    base = begin if unix is None else unix
    absolute = base >= _MIN_UNIX_TIME and lines.first >= base / 2
    if absolute and lines.first < base - _DAY:
        texts["header-begin"] = (
            f"the header's start, {base:.15g}, is after the first submission, {lines.first:.15g}"
        )
    submission_span = last - base if absolute else last
    slack = 1.0 if zone and zone == end_zone and zone.isalpha() else _HOUR if zone == end_zone else _DAY
    end_slack = slack + _DAY if absolute and unix is None else slack
    if end - begin < -slack:
        texts["header-end"] = "the header's EndTime is before its StartTime"
    elif submission_span > end - begin + end_slack:
        text = f"the header's EndTime is {end - begin:.15g} s after its StartTime, but a job is submitted at"
        texts["header-end"] = f"{text} {submission_span:.15g} s"
    return texts


def _date(value: str) -> tuple[float, str]:
    """Return a date of a header as s since 1970 in its time zone, and the zone; NaN if it is no date."""
    text = value.partition("\n")[0].strip()
    if match := _DATE.match(text):
        month, day, hour, minute, second, zone, year = match.groups()
        number = _MONTHS.index(month.lower()) + 1 if month.lower() in _MONTHS else 0
        fields = (int(year), number, int(day), int(hour), int(minute), int(second))
    elif match := _ISO.match(text):
        *numbers, zone = match.groups()
        fields = tuple(map(int, numbers))  # type: ignore[assignment]
    else:
        return math.nan, ""
    try:
        return datetime(*fields, tzinfo=UTC).timestamp(), zone or ""
    except ValueError:
        return math.nan, ""


def _number(header: dict[str, str], key: str) -> float | None:
    value = parse_number(header.get(key, "").partition("\n")[0])
    return value if value is not None and math.isfinite(value) and value > 0 else None
