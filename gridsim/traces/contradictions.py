"""What cannot be true in a job log: waits below 0, too many processors in use, a header of another log."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import parse_number
from gridsim.traces.job_lines import PARTS, JobLines, Rows
from gridsim.traces.jobs import JobLog, stated_machines

_DAY, _HOUR = 86_400.0, 3600.0
#: Submissions from this time on (s) may be UNIX times; before, they are times since the start of the log.
_UNIX = 1e8
#: Two times of this difference (s) may be one, in logs that have fractions of seconds.
_ROUNDING = 2e-6
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Sat May 01 00:04:55 JST 2010, or 2010-05-01 00:04:55
_DATE = re.compile(
    r"(?:[A-Za-z]+,?\s+)?([A-Za-z]{3})[a-z]*\s+(\d+)\s+(\d+):(\d+):(\d+)\s+(?:(\S+)\s+)?(\d{4})$"
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)\s*(\S*)$")


@dataclass(frozen=True)
class Contradiction:
    """Something that cannot be true in a job log.

    Parameters
    ----------
    code
        A stable name of its kind.
    text
        Of jobs: what is wrong with them, to be read after their number or "job"; else a whole sentence.
    lines
        int64; the lines of the jobs; empty if it is about the header and the log as a whole.
    """

    code: str
    text: str
    lines: NDArray[np.int64]

    @property
    def message(self) -> str:
        """What is wrong, with the number of jobs."""
        count = len(self.lines)
        return f"{count} job{'' if count == 1 else 's'} {self.text}" if count else self.text


def contradictions(log: JobLog, lines: JobLines, used: Rows) -> list[Contradiction]:
    """Return what cannot be true in the `used` lines of a log, and in its header."""
    jobs, line, header = log.jobs, log.jobs["line"], log.header
    ran = used & lines.ran
    of_jobs: list[tuple[str, str, Rows]] = [
        (
            "negative-wait",
            "with a wait below 0 other than -1",
            used & (jobs["wait"] < 0) & (jobs["wait"] != -1),
        )
    ]
    if (stated := stated_machines(header)) is not None and stated[1] > 0:
        key, most = stated
        wide = ran & (np.maximum(log.procs, jobs["req_procs"]) > most)
        of_jobs.append(("over-max-procs", f"of more processors than the header's {key}, {most}", wide))
        over, first = _over_capacity(log, lines, ran & ~wide, most)
        text = f"started while more processors were in use than the header's {key}, {most}{first}"
        of_jobs.append(("over-capacity", text, over))
    longest, overuse = _number(header, "MaxRuntime"), header.get("AllowOveruse", "").lower()
    if longest is not None and not overuse.startswith(("yes", "true")):
        long = ran & (jobs["run_time"] > longest)
        of_jobs.append(
            ("over-max-runtime", f"of a run time above the header's MaxRuntime, {longest:g} s", long)
        )
    of_log = {**_counts(log), **_times(log, lines)}
    nothing = np.zeros(0, np.int64)
    return [
        *(Contradiction(code, text, line[rows]) for code, text, rows in of_jobs if rows.any()),
        *(Contradiction(code, text, nothing) for code, text in of_log.items()),
    ]


def _over_capacity(log: JobLog, lines: JobLines, rows: Rows, most: int) -> tuple[Rows, str]:
    """Return which jobs among `rows` started while more than `most` processors were in use, and an example.

    Jobs that were swapped out or that share processors in turns are not counted, as nobody knows when they
    ran.  Times of whole seconds may be 1 s off.
    """
    jobs, over = log.jobs, np.zeros(len(log), np.bool_)
    known = rows & (jobs["wait"] >= 0) & (jobs["run_time"] > 0) & ~np.isin(jobs["status"], PARTS)
    if lines.part.any():
        known &= ~np.isin(jobs["job"], jobs["job"][lines.part])
    chosen = np.flatnonzero(known)
    if not len(chosen) or log.header.get("Preemption", "").upper().startswith("TS"):
        return over, ""
    times = [jobs[name][chosen] for name in ("submit", "wait", "run_time")]
    slack = 1.0 if all((each == np.floor(each)).all() for each in times) else _ROUNDING
    start, procs = times[0] + times[1], log.procs[chosen]
    end = start + np.maximum(times[2] - slack, 0.0)
    order = np.argsort(start, kind="stable")
    chosen, start = chosen[order], start[order]
    by_end = np.argsort(end, kind="stable")
    ended = np.concatenate(([0], np.cumsum(procs[by_end])))
    begun = np.cumsum(procs[order])
    in_use = begun - ended[np.searchsorted(end[by_end], start, side="right")]
    # of jobs that start at one instant, only the last one has all of them
    more = np.flatnonzero(in_use > most)
    over[chosen[more]] = True
    if not len(more):
        return over, ""
    return over, f", such as {in_use[more[0]]} at {start[more[0]]:.15g} s"


def _counts(log: JobLog) -> dict[str, str]:
    """Return code -> text, of numbers of lines and jobs that are not those of the header."""
    jobs, found = log.jobs, {}
    part = np.isin(jobs["status"], PARTS)
    count = len(jobs)
    if part.any():
        own = jobs["job"][~part]
        count = len(own) + len(np.setdiff1d(jobs["job"][part], own))
    records, stated = _number(log.header, "MaxRecords"), _number(log.header, "MaxJobs")
    if records is not None and records != len(jobs):
        found["other-record-count"] = f"the header says {records:.15g} records, the file has {len(jobs)}"
    if stated is not None and stated != count and (stated, count) != (records, len(jobs)):
        found["other-job-count"] = f"the header says {stated:.15g} jobs, the file has {count}"
    return found


def _times(log: JobLog, lines: JobLines) -> dict[str, str]:
    """Return code -> text, of dates in the header that do not agree with each other or with submissions.

    Dates are compared as they are written, so that the time zone of this computer does not matter.
    """
    header, found = log.header, {}
    (begin, zone), (end, other) = _date(header.get("StartTime", "")), _date(header.get("EndTime", ""))
    unix = _number(header, "UnixStartTime")
    if unix is not None and abs(unix - begin) > _DAY:  # False for NaN
        found["header-start"] = "the header's UnixStartTime and StartTime are more than a day apart"
    if math.isnan(lines.first):
        return found
    last = float(log.jobs["submit"][~lines.part].max())
    base = begin if unix is None else unix
    absolute = base >= _UNIX and lines.first >= base / 2
    if absolute and lines.first < base - _DAY:
        found["header-begin"] = (
            f"the header's start, {base:.15g}, is after the first submission, {lines.first:.15g}"
        )
    since = last - base if absolute else last
    slack = 1.0 if zone and zone == other and zone.isalpha() else _HOUR if zone == other else _DAY
    late = slack + _DAY if absolute and unix is None else slack
    if end - begin < -slack:
        found["header-end"] = "the header's EndTime is before its StartTime"
    elif since > end - begin + late:
        text = f"the header's EndTime is {end - begin:.15g} s after its StartTime, a job is submitted at"
        found["header-end"] = f"{text} {since:.15g} s"
    return found


def _date(value: str) -> tuple[float, str]:
    """Return a date of a header as s since 1970 in its own zone, and the zone; NaN for what is no date."""
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
