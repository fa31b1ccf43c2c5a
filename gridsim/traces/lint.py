"""Search for suspicious records in a trace file, by class, with counts and first lines."""

from __future__ import annotations

import os
import warnings
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.support.files import StrPath
from gridsim.traces import avt, fta, hosts
from gridsim.traces._text import Remark, text_lines
from gridsim.traces.availability import AvailabilityTrace, RawIntervals, first_line
from gridsim.traces.avt import parse_avt, read_avt
from gridsim.traces.fta import UP, event_file, node_names, parse_fta, read_fta
from gridsim.traces.hosts import parse_host_speeds
from gridsim.traces.info import FORMATS, choose_format, detect_format, info
from gridsim.traces.job_formats import JOB_FORMATS, JobLogFormat
from gridsim.traces.job_lines import PARTS, lines_of, unknown_submissions, unused_fields
from gridsim.traces.job_remarks import contradictions
from gridsim.traces.jobs import JobFormat, JobLog
from gridsim.traces.tr import SAME_TIME_GAP, faulty_lines, parse_tr

__all__ = ["FORMATS", "Finding", "detect_format", "info", "lint"]

Severity = Literal["error", "warning", "note"]
_ORDER = ("error", "warning", "note")
#: Largest status of a job in SWF; -1 is unknown.
_LAST_STATUS = 5
#: Codes of contradictions that are normal in a log that was truncated or cleaned.
_TRUNCATION_CODES = ("other-record-count", "other-job-count")
#: Format other than a job log -> function that yields each faulty line.
_FAULTS: dict[str, Callable[[StrPath], Iterable[tuple[int, str]]]] = {
    "avt": avt.faulty_lines,
    "fta": lambda path: fta.faulty_lines(event_file(path)),
    "hosts": hosts.faulty_lines,
}


@dataclass(frozen=True)
class Finding:
    """A class of suspicious records.

    Parameters
    ----------
    severity
        "error" (the reader rejects the file, or no simulation can use the record), "warning" (the reader
        repairs the record, or a user of the trace should know about it) or "note".
    code
        A stable name of the class.
    message
        A description of the class.
    count
        Number of records.
    first_line
        Line of the first record; 0 if the finding does not refer to a line.
    """

    severity: Severity
    code: str
    message: str
    count: int
    first_line: int


def lint(path: StrPath, *, format: str | None = None) -> list[Finding]:
    """Return all classes of suspicious records in a trace, errors first.

    A file that cannot be read is a finding ("unreadable"), not an exception.

    Parameters
    ----------
    format
        One of `FORMATS`; by default it is detected.

    Raises
    ------
    ScenarioError
        If the format is unknown.
    """
    checks: dict[str, Callable[[StrPath], list[Finding]]] = {
        **{name: partial(_lint_jobs, format=format) for name, format in JOB_FORMATS.items()},
        "tr": _lint_tr,
        "avt": _lint_avt,
        "fta": _lint_fta,
        "hosts": _lint_hosts,
    }
    name = ""
    try:
        name = choose_format(path, format)
        if name not in checks:  # a plugin has a reader but no checks
            info(path, format=name)
            return []
        findings = checks[name](path)
    except TraceFormatError as error:
        faults: list[tuple[int, str]] = []
        with suppress(TraceFormatError):  # the same error is raised if the fault is not in a line
            faults += _FAULTS[name](path) if name in _FAULTS else ()
        if faults:
            message = f"lines that cannot be read; the first: {faults[0][1]}"
            return [Finding("error", "bad-line", message, len(faults), faults[0][0])]
        # the error is FILE:LINE: message, or FILE: message; `path` is FILE or its folder
        place, _, message = str(error).removeprefix(os.fspath(path)).partition(": ")
        line = place.rpartition(":")[2]
        return [Finding("error", "unreadable", message, 1, int(line) if line.isdigit() else 0)]
    present = [finding for finding in findings if finding.count]
    return sorted(present, key=lambda finding: _ORDER.index(finding.severity))


#: Severity, code, message and records (mask or indices) of a class of records.
RecordClass = tuple[Severity, str, str, NDArray[Any]]


def _findings(classes: list[RecordClass], line: NDArray[np.int64]) -> list[Finding]:
    findings = []
    for severity, code, message, records in classes:
        rows = np.flatnonzero(records) if records.dtype == bool else records
        findings.append(Finding(severity, code, message, len(rows), first_line(line, rows)))
    return findings


def _duplicates(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values also occur earlier in the array."""
    duplicates = np.ones(len(values), dtype=bool)
    duplicates[np.unique(values, return_index=True)[1]] = False
    return duplicates


def _lint_jobs(path: StrPath, format: JobLogFormat) -> list[Finding]:
    try:
        parsed_jobs = format.parse(path)
    except TraceFormatError:
        if format.lines is None:
            raise
        lines_format = format.lines(path)
        faults = list(lines_format.faulty_lines(path))  # raises again for a file that is not text
        if not faults:
            raise
        short = [number for number, fault in faults if not fault.startswith("field")]
        bad = [number for number, fault in faults if fault.startswith("field")]
        short_message = f"line of fewer than {lines_format.min_fields} fields"
        bad_number = "line with a field that is no finite (whole) number"
        return [
            Finding("error", "missing-fields", short_message, len(short), min(short, default=0)),
            Finding("error", "bad-number", bad_number, len(bad), min(bad, default=0)),
        ]
    header, jobs = parsed_jobs.header, parsed_jobs.jobs
    log, lines = JobLog(os.fspath(path), header, jobs), lines_of(jobs)
    submit, run_time = jobs["submit"], jobs["run_time"]
    used_procs, req_procs, req_time = jobs["used_procs"], jobs["req_procs"], jobs["req_time"]
    whole_job, unknown = ~np.isin(jobs["status"], PARTS), unknown_submissions(jobs["submit"])
    job = whole_job & ~lines.never_ran
    duplicates = np.flatnonzero(whole_job)[_duplicates(jobs["job"][whole_job])]
    unused = {
        name: np.isin(jobs["line"], remark.lines) for name, remark in unused_fields(jobs, lines.ran).items()
    }
    unread = np.isin(jobs["line"], parsed_jobs.unread)
    classes: list[RecordClass] = [
        ("error", "negative-submit", "submission before 0", ~lines.part & ~unknown & (submit < 0)),
        (
            "warning",
            "unknown-submit",
            "submission -1 (unknown), left out",
            whole_job & lines.unknown_submission,
        ),
        (
            "warning",
            "unsorted-submit",
            "submission before an earlier line's",
            ~unknown & (submit < np.maximum.accumulate(submit)),
        ),
        ("warning", "duplicate-job", "job number used before", duplicates),
        ("warning", "negative-run-time", "run time below -1", (run_time < 0) & (run_time != -1)),
        ("warning", "unknown-run-time", "run time -1 (unknown)", run_time == -1),
        (
            "warning",
            "unknown-procs",
            "processors unknown, counted as 1",
            job & (used_procs <= 0) & (req_procs <= 0),
        ),
        (
            "note",
            "requested-procs",
            "processors unknown, counted as those requested",
            job & (used_procs <= 0) & (req_procs > 0),
        ),
        ("warning", "unknown-user", "user -1 (unknown)", jobs["user"] < 0),
        (
            "note",
            "unknown-status",
            "status other than -1 to 5, with no meaning in the format",
            (jobs["status"] < -1) | (jobs["status"] > _LAST_STATUS),
        ),
        ("note", "job-part", "part of a job that has a line for the whole job, left out", lines.part),
        (
            "warning",
            "lone-part",
            "part of a job that has no line for the whole job, taken as a job",
            ~whole_job & ~lines.part,
        ),
        (
            "note",
            "never-ran",
            "job that never ran (run time 0 s, cancelled or without processors), left out",
            lines.never_ran,
        ),
        ("note", "zero-run-time", "run time 0 s, below the log's resolution", lines.zero_run_time),
        ("warning", "preceding-job", "preceding job, which is not used", unused["preceding"]),
        ("warning", "think-time", "think time, which is not used", unused["think_time"]),
        (
            "note",
            "over-requested-time",
            "run time above that requested",
            (req_time > 0) & (run_time > req_time),
        ),
        (
            "note",
            "over-requested-procs",
            "more processors than requested",
            (req_procs > 0) & (used_procs > req_procs),
        ),
        ("note", "unread-field", "value that cannot be read in a field that no run uses", unread),
    ]
    findings = _findings(classes, jobs["line"])
    for fault in contradictions(log, lines, np.ones(len(jobs), np.bool_)):
        severity: Severity = "note" if fault.code in _TRUNCATION_CODES else "warning"
        count = len(fault.lines)
        message = f"job {fault.text}" if count else fault.text
        findings.append(Finding(severity, fault.code, message, max(1, count), fault.first_line))
    findings += [_finding("warning", "repaired", remark) for remark in parsed_jobs.repairs]
    findings += [_finding("note", "left-out", remark) for remark in parsed_jobs.remarks]
    if format.lines is not None:
        findings += _columns(path, format.lines(path))
    findings.append(Finding("note", "no-header", "no header comments", int(not header), 1))
    return findings


def _finding(severity: Severity, code: str, remark: Remark) -> Finding:
    return Finding(severity, code, remark.text, len(remark.lines), int(remark.lines.min(initial=2**62)))


def _lint_tr(path: StrPath) -> list[Finding]:
    try:
        log = parse_tr(path)
    except TraceFormatError:
        faults = list(faulty_lines(path))  # raises again for a file that is not text
        if not faults:
            raise
        kinds = {
            "missing-fields": ("line of fewer than 4 fields", "a line must have"),
            "task-count": ("line whose number of tasks is not its number of durations", "field tasks "),
            "bad-number": ("line with a field that is no finite number, or negative", "field "),
        }
        findings = []
        for code, (message, begin) in kinds.items():
            lines = [number for number, fault in faults if fault.startswith(begin)]
            faults = [(number, fault) for number, fault in faults if not fault.startswith(begin)]
            findings.append(Finding("error", code, message, len(lines), min(lines, default=0)))
        return findings
    mean = np.add.reduceat(log.duration, log.offsets[:-1]) / log.tasks
    short = np.minimum.reduceat(log.duration, log.offsets[:-1]) < 1
    unsorted = log.submit < np.maximum.accumulate(log.submit)
    duplicate = f"submission at the time of an earlier line, released {SAME_TIME_GAP:g} s later"
    return _findings(
        [
            ("error", "negative-submit", "submission before 0", log.submit < 0),
            ("warning", "unsorted-submit", "submission before an earlier line's", unsorted),
            (
                "warning",
                "other-mean",
                "mean that differs from that of the durations by over 1 %",
                abs(log.mean - mean) > 0.01 * mean,
            ),
            ("note", "duplicate-submit", duplicate, _duplicates(log.submit)),
            (
                "note",
                "short-tasks",
                "tasks of less than 1 s, which truncation to whole seconds makes 0 s",
                short,
            ),
        ],
        log.line,
    )


def _columns(path: StrPath, format: JobFormat) -> list[Finding]:
    """Return findings for readable job lines with more or fewer columns than the format."""
    wide, short = array("q"), array("q")
    for number, text in enumerate(text_lines(path), 1):
        columns = len(text.split(format.separator, format.columns))
        if columns != format.columns and format.is_job(text):
            (wide if columns > format.columns else short).append(number)
    extra = f"more than {format.columns} columns, further ones ignored"
    missing = f"fewer than {format.columns} columns, missing ones unknown"
    return [
        Finding("note", "extra-columns", extra, len(wide), wide[0] if wide else 0),
        Finding("note", "missing-columns", missing, len(short), short[0] if short else 0),
    ]


def _interval_classes(raw: RawIntervals) -> list[RecordClass]:
    is_unsorted = np.zeros(len(raw.host), dtype=bool)
    is_unsorted[1:] = (raw.host[1:] == raw.host[:-1]) & (raw.start[1:] < raw.start[:-1])
    return [
        ("warning", "overlap", "up interval touching or overlapping another, merged", raw.clashing_rows()),
        ("warning", "empty-interval", "up interval of 0 s, left out", raw.empty_rows()),
        ("note", "unsorted-intervals", "up interval before the one above it", is_unsorted),
    ]


def _lint_avt(path: StrPath) -> list[Finding]:
    _, raw = parse_avt(path)
    negative: RecordClass = ("error", "negative-time", "up interval that begins before 0", raw.start < 0)
    never_up = int((_read_without_warnings(read_avt, path).up_time() == 0).sum())
    return [
        *_findings([*_interval_classes(raw), negative], raw.line),
        Finding("note", "never-up", "host never up", never_up, 0),
    ]


def _lint_fta(path: StrPath) -> list[Finding]:
    file = event_file(path)
    events = parse_fta(file)
    trace = _read_without_warnings(read_fta, file)
    other_components = events.component != events.component.min()
    up = np.flatnonzero((events.kind == UP) & ~other_components)
    raw = RawIntervals(events.node[up], events.start[up], events.stop[up], events.line[up])

    order = np.lexsort((events.stop, events.start, events.node, events.component))
    start, stop = events.start[order], events.stop[order]
    same_node = (np.diff(events.node[order]) == 0) & (np.diff(events.component[order]) == 0)
    overlaps = order[1:][same_node & (start[1:] < stop[:-1])]
    gaps = order[1:][same_node & (start[1:] > stop[:-1])]
    classes: list[RecordClass] = [
        ("warning", "event-overlap", "event that starts before the node's previous one stops", overlaps),
        ("warning", "gap", "event after a time without record, which counts as down", gaps),
        (
            "warning",
            "event-type",
            "type other than 0 and 1, taken as down",
            (events.kind != UP) & (events.kind != 0),
        ),
        ("warning", "components", "event of a component other than the lowest, left out", other_components),
        ("note", "empty-event", "event of 0 s, below the trace's resolution", events.start == events.stop),
    ]
    without_events = len(node_names(file, events)) - len(np.unique(events.node))
    late_joins, never_up = int((trace.first > 0).sum()), int((trace.up_time() == 0).sum())
    return [
        *_findings(_interval_classes(raw), raw.line),
        *_findings(classes, events.line),
        Finding("warning", "no-events", "node without any event", without_events, 0),
        Finding("note", "joins-late", "node that joins after the trace's start", late_joins, 0),
        Finding("note", "never-up", "node never up", never_up, 0),
    ]


def _read_without_warnings(read: Callable[[StrPath], AvailabilityTrace], path: StrPath) -> AvailabilityTrace:
    with warnings.catch_warnings():  # findings report the repairs in more detail
        warnings.simplefilter("ignore", TraceWarning)
        return read(path)


def _lint_hosts(path: StrPath) -> list[Finding]:
    models, speed, weight, line, _ = parse_host_speeds(path)
    useful = (speed > 0) & (weight > 0)
    classes: list[RecordClass] = [
        ("warning", "no-speed", "row of speed 0, left out", speed == 0),
        ("warning", "no-computers", "row of 0 computers, left out", weight == 0),
        (
            "note",
            "duplicate-model",
            "model name used before, kept as a separate row",
            _duplicates(np.array(models)),
        ),
    ]
    no_hosts = Finding("error", "no-hosts", "no row with a speed and computers", int(not useful.any()), 1)
    return [no_hosts, *_findings(classes, line)]
