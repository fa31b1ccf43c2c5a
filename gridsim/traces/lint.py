"""Finds suspicious records in a trace file: each class of them with its count and first line."""

from __future__ import annotations

import os
import warnings
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.support.files import StrPath
from gridsim.traces import avt, fta, hosts
from gridsim.traces._text import text_lines
from gridsim.traces.availability import AvailabilityTrace, RawIntervals, first_line
from gridsim.traces.avt import parse_avt, read_avt
from gridsim.traces.contradictions import contradictions
from gridsim.traces.fta import UP, event_file, node_names, parse_fta, read_fta
from gridsim.traces.gwf import GWF, parse_gwf
from gridsim.traces.hosts import parse_host_speeds
from gridsim.traces.info import FORMATS, choose_format, detect_format, info
from gridsim.traces.job_lines import PARTS, lines_of, unknown_submissions, unused_fields
from gridsim.traces.jobs import JobFormat, JobLog, ParsedJobs
from gridsim.traces.swf import SWF, parse_swf
from gridsim.traces.tr import SAME_TIME_GAP, faulty_lines, parse_tr

__all__ = ["FORMATS", "Finding", "detect_format", "info", "lint"]

Severity = Literal["error", "warning", "note"]
_ORDER = ("error", "warning", "note")
#: What also is in the header of a log that was cut or cleaned afterwards.
_OF_CUT_LOGS = ("other-record-count", "other-job-count")
#: Format -> function that yields each faulty line; job logs have their own classes of these.
_FAULTS: dict[str, Callable[[StrPath], Iterable[tuple[int, str]]]] = {
    "avt": avt.faulty_lines,
    "fta": lambda path: fta.faulty_lines(event_file(path)),
    "hosts": hosts.faulty_lines,
}


@dataclass(frozen=True)
class Finding:
    """One class of suspicious records.

    Parameters
    ----------
    severity
        "error" (the reader rejects the file, or no simulation can use the record), "warning" (the reader
        repairs the record, or users of the trace should know of it) or "note".
    code
        A stable name of the class.
    message
        A description of the class.
    count
        Number of records.
    first_line
        Line of the first one; 0 if the finding does not refer to a line.
    """

    severity: Severity
    code: str
    message: str
    count: int
    first_line: int


def lint(path: StrPath, *, format: str | None = None) -> list[Finding]:
    """Return all classes of suspicious records in a trace, errors first; empty if there are none.

    A file that cannot be read gives a finding ("unreadable"), not an exception. Raises `ScenarioError` for an
    unknown `format`.

    Parameters
    ----------
    format
        One of `FORMATS`; default: detected.
    """
    checks: dict[str, Callable[[StrPath], list[Finding]]] = {
        "swf": lambda path: _lint_jobs(path, SWF, parse_swf),
        "gwf": lambda path: _lint_jobs(path, GWF, parse_gwf),
        "tr": _lint_tr,
        "avt": _lint_avt,
        "fta": _lint_fta,
        "hosts": _lint_hosts,
    }
    chosen = ""
    try:
        chosen = choose_format(path, format)
        if chosen not in checks:  # of another package: what its reader accepts is all that is known
            info(path, format=chosen)
            return []
        findings = checks[chosen](path)
    except TraceFormatError as error:
        faults: list[tuple[int, str]] = []
        with suppress(TraceFormatError):  # again, if it is not a line that is wrong
            faults += _FAULTS[chosen](path) if chosen in _FAULTS else ()
        if faults:
            said = f"lines that cannot be read; the first: {faults[0][1]}"
            return [Finding("error", "bad-line", said, len(faults), faults[0][0])]
        # FILE:LINE: message, or FILE: message; FILE begins with `path`, which may be its folder
        said = str(error).removeprefix(os.fspath(path))
        place, _, message = said.partition(": ")
        line = place.rpartition(":")[2]
        return [Finding("error", "unreadable", message, 1, int(line) if line.isdigit() else 0)]
    present = [finding for finding in findings if finding.count]
    return sorted(present, key=lambda finding: _ORDER.index(finding.severity))


Class = tuple[Severity, str, str, NDArray[Any]]  # severity, code, message, the records (mask or indices)


def _findings(classes: list[Class], line: NDArray[np.int64]) -> list[Finding]:
    found = []
    for severity, code, message, records in classes:
        rows = np.flatnonzero(records) if records.dtype == bool else records
        found.append(Finding(severity, code, message, len(rows), first_line(line, rows)))
    return found


def _again(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values also occur earlier in the array."""
    again = np.ones(len(values), dtype=bool)
    again[np.unique(values, return_index=True)[1]] = False
    return again


Parse = Callable[[StrPath], ParsedJobs]


def _lint_jobs(path: StrPath, format: JobFormat, parse: Parse) -> list[Finding]:
    try:
        parsed = parse(path)
    except TraceFormatError:
        faults = list(format.faulty_lines(path))  # raises again for a file that is not text
        if not faults:
            raise
        short = [number for number, fault in faults if not fault.startswith("field")]
        wrong = [number for number, fault in faults if fault.startswith("field")]
        too_few = f"line of fewer than {format.required} fields"
        bad_number = "line with a field that is no finite (whole) number"
        return [
            Finding("error", "missing-fields", too_few, len(short), min(short, default=0)),
            Finding("error", "bad-number", bad_number, len(wrong), min(wrong, default=0)),
        ]
    header, jobs = parsed.header, parsed.jobs
    log, lines = JobLog(os.fspath(path), header, jobs), lines_of(jobs)
    submit, run_time = jobs["submit"], jobs["run_time"]
    used, requested, req_time = jobs["used_procs"], jobs["req_procs"], jobs["req_time"]
    whole, unplaced = ~np.isin(jobs["status"], PARTS), unknown_submissions(jobs)
    job = whole & ~lines.never_ran
    again = np.flatnonzero(whole)[_again(jobs["job"][whole])]
    unused = {
        name: np.isin(jobs["line"], each.lines) for name, each in unused_fields(jobs, lines.ran).items()
    }
    unread = np.isin(jobs["line"], parsed.unread)
    classes: list[Class] = [
        ("error", "negative-submit", "submission before 0", ~lines.part & ~unplaced & (submit < 0)),
        ("warning", "unknown-submit", "submission -1 (unknown), left out", whole & lines.unknown_submission),
        (
            "warning",
            "unsorted-submit",
            "submission before an earlier line's",
            ~unplaced & (submit < np.maximum.accumulate(submit)),
        ),
        ("warning", "duplicate-job", "job number used before", again),
        ("warning", "negative-run-time", "run time below -1", (run_time < 0) & (run_time != -1)),
        ("warning", "unknown-run-time", "run time -1 (unknown)", run_time == -1),
        (
            "warning",
            "unknown-procs",
            "processors unknown, counted as 1",
            job & (used <= 0) & (requested <= 0),
        ),
        (
            "note",
            "requested-procs",
            "processors unknown, counted as those requested",
            job & (used <= 0) & (requested > 0),
        ),
        ("warning", "unknown-user", "user -1 (unknown)", jobs["user"] < 0),
        ("note", "job-part", "part of a job that has a line of its own, left out", lines.part),
        (
            "warning",
            "lone-part",
            "part of a job that has no line of its own, taken as a job",
            ~whole & ~lines.part,
        ),
        (
            "note",
            "never-ran",
            "job that never ran (run time 0 s, cancelled or without processors), left out",
            lines.never_ran,
        ),
        ("note", "zero-run-time", "run time 0 s, below the log's resolution", lines.zero_run_time),
        ("warning", "preceding-job", "preceding job (field 17), which is not used", unused["preceding"]),
        ("warning", "think-time", "think time (field 18), which is not used", unused["think_time"]),
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
            (requested > 0) & (used > requested),
        ),
        ("note", "unread-field", "value that cannot be read in a field that no run uses", unread),
    ]
    found = _findings(classes, jobs["line"])
    for each in contradictions(log, lines, np.ones(len(jobs), np.bool_)):
        severity: Severity = "note" if each.code in _OF_CUT_LOGS else "warning"
        count, first = len(each.lines), int(each.lines.min(initial=2**62))
        message = f"job {each.text}" if count else each.text
        found.append(Finding(severity, each.code, message, max(1, count), first if count else 0))
    found += _columns(path, format)
    found.append(Finding("note", "no-header", "no header comments", int(not header), 1))
    return found


def _lint_tr(path: StrPath) -> list[Finding]:
    try:
        log = parse_tr(path)
    except TraceFormatError:
        faults = list(faulty_lines(path))  # raises again for a file that is not text
        if not faults:
            raise
        kinds = {
            "missing-fields": ("line of fewer than 4 fields", "expected"),
            "task-count": ("line whose durations are not as many as their tasks", "field tasks is "),
            "bad-number": ("line with a field that is no finite number, or negative", "field "),
        }
        found = []
        for code, (message, begin) in kinds.items():
            lines = [number for number, fault in faults if fault.startswith(begin)]
            faults = [each for each in faults if not each[1].startswith(begin)]
            found.append(Finding("error", code, message, len(lines), min(lines, default=0)))
        return found
    mean = np.add.reduceat(log.duration, log.offsets[:-1]) / log.tasks
    short = np.minimum.reduceat(log.duration, log.offsets[:-1]) < 1
    late = log.submit < np.maximum.accumulate(log.submit)
    again = f"submitted when an earlier line was, comes {SAME_TIME_GAP:g} s later"
    return _findings(
        [
            ("error", "negative-submit", "submission before 0", log.submit < 0),
            ("warning", "unsorted-submit", "submission before an earlier line's", late),
            (
                "warning",
                "other-mean",
                "mean off that of the durations by over 1 %",
                abs(log.mean - mean) > 0.01 * mean,
            ),
            ("note", "duplicate-submit", again, _again(log.submit)),
            ("note", "short-tasks", "with tasks of less than 1 s, which whole seconds cut to 0", short),
        ],
        log.line,
    )


def _columns(path: StrPath, format: JobFormat) -> list[Finding]:
    """Return findings for job lines that can be read but have more or fewer columns than the format."""
    wide, short = array("q"), array("q")
    for number, text in enumerate(text_lines(path), 1):
        columns = len(text.split(None, format.columns))
        if columns != format.columns and format.is_job(text):
            (wide if columns > format.columns else short).append(number)
    extra = f"columns after the {format.columns}, ignored"
    cut = f"fewer than {format.columns} columns, the others unknown"
    return [
        Finding("note", "extra-columns", extra, len(wide), wide[0] if wide else 0),
        Finding("note", "missing-columns", cut, len(short), short[0] if short else 0),
    ]


def _interval_classes(raw: RawIntervals) -> list[Class]:
    unsorted = np.zeros(len(raw.host), dtype=bool)
    unsorted[1:] = (raw.host[1:] == raw.host[:-1]) & (raw.start[1:] < raw.start[:-1])
    return [
        ("warning", "overlap", "up interval touching or overlapping another, merged", raw.clashing_rows()),
        ("warning", "empty-interval", "up interval of 0 s, left out", raw.empty_rows()),
        ("note", "unsorted-intervals", "up interval before the one above it", unsorted),
    ]


def _lint_avt(path: StrPath) -> list[Finding]:
    _, raw = parse_avt(path)
    negative: Class = ("error", "negative-time", "up interval from before 0", raw.start < 0)
    never = int((_quietly(read_avt, path).up_time() == 0).sum())
    return [
        *_findings([*_interval_classes(raw), negative], raw.line),
        Finding("note", "never-up", "host never up", never, 0),
    ]


def _lint_fta(path: StrPath) -> list[Finding]:
    file = event_file(path)
    events = parse_fta(file)
    trace = _quietly(read_fta, file)
    further = events.component != events.component.min()
    up = np.flatnonzero((events.kind == UP) & ~further)
    raw = RawIntervals(events.node[up], events.start[up], events.stop[up], events.line[up])

    order = np.lexsort((events.stop, events.start, events.node, events.component))
    start, stop = events.start[order], events.stop[order]
    same = (np.diff(events.node[order]) == 0) & (np.diff(events.component[order]) == 0)
    overlaps = order[1:][same & (start[1:] < stop[:-1])]
    gaps = order[1:][same & (start[1:] > stop[:-1])]
    classes: list[Class] = [
        ("warning", "event-overlap", "event that starts before the node's previous one stops", overlaps),
        ("warning", "gap", "event after a time without record, which counts as down", gaps),
        (
            "warning",
            "event-type",
            "type other than 0 and 1, taken as down",
            (events.kind != UP) & (events.kind != 0),
        ),
        ("warning", "components", "event of a component other than the lowest, left out", further),
        ("note", "empty-event", "event of 0 s, below the trace's resolution", events.start == events.stop),
    ]
    silent = len(node_names(file, events)) - len(np.unique(events.node))
    late, never = int((trace.first > 0).sum()), int((trace.up_time() == 0).sum())
    return [
        *_findings(_interval_classes(raw), raw.line),
        *_findings(classes, events.line),
        Finding("warning", "no-events", "node without any event", silent, 0),
        Finding("note", "joins-late", "node that joins after the trace's start", late, 0),
        Finding("note", "never-up", "node never up", never, 0),
    ]


def _quietly(read: Callable[[StrPath], AvailabilityTrace], path: StrPath) -> AvailabilityTrace:
    with warnings.catch_warnings():  # the findings report the repairs in more detail
        warnings.simplefilter("ignore", TraceWarning)
        return read(path)


def _lint_hosts(path: StrPath) -> list[Finding]:
    models, speed, weight, line = parse_host_speeds(path)
    useful = (speed > 0) & (weight > 0)
    classes: list[Class] = [
        ("warning", "no-speed", "row of speed 0, left out", speed == 0),
        ("warning", "no-computers", "row of 0 computers, left out", weight == 0),
        (
            "note",
            "duplicate-model",
            "model name used before, kept as a row of its own",
            _again(np.array(models)),
        ),
    ]
    none = Finding("error", "no-hosts", "no row with a speed and computers", int(not useful.any()), 1)
    return [none, *_findings(classes, line)]
