"""Description of trace files: format, size and shape as plain values."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gridsim.errors import ScenarioError, TraceFormatError, text_of
from gridsim.support.files import StrPath
from gridsim.support.provenance import sha256
from gridsim.traces._text import format_error, parse_number, text_lines
from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.avt import parse_count, read_avt
from gridsim.traces.bags import Bags, bags_of_durations, bags_of_jobs, report_bags
from gridsim.traces.formats import BUILT_IN, TraceFormat, format_descriptions, plugin_formats
from gridsim.traces.fta import EVENT_FILES, NODE_TABLES, event_file, node_table, read_fta
from gridsim.traces.gwf import GWF
from gridsim.traces.hosts import has_host_columns, read_host_speeds
from gridsim.traces.job_formats import JOB_FORMATS, format_of_content
from gridsim.traces.job_lines import lines_of, unused_fields
from gridsim.traces.job_remarks import contradictions
from gridsim.traces.jobs import JOB_FIELDS, JobLog, header_of
from gridsim.traces.nodes import read_nodes
from gridsim.traces.sacct import has_node_lists
from gridsim.traces.swf import SWF, is_semicolon_job
from gridsim.traces.tr import TaskLog, is_record, load_tr, read_tr

FORMATS = tuple(BUILT_IN)

_SUFFIXES = {
    **{suffix: name for name, format in JOB_FORMATS.items() for suffix in format.suffixes},
    ".tr": "tr",
    ".avt": "avt",
    ".csv": "hosts",
}
_MAX_HEADER_LINES = 1000  # number of lines from which a format is detected; headers are shorter


def availability_files(path: StrPath) -> list[str]:
    """Return the files that `read_availability` reads for `path`.

    An FTA trace may be a folder, and may have a table of its nodes in the folder of its events.
    """
    file = event_file(path)
    table = node_table(file)
    if table is None or detect_format(path) != "fta":
        return [os.fspath(file)]
    return [os.fspath(file), os.fspath(table)]


def availability_places(path: StrPath) -> list[str]:
    """Return the paths that `availability_files` looks at, whether they exist or not."""
    names = [*EVENT_FILES, *NODE_TABLES]
    return [os.fspath(Path(path)), *(os.fspath(Path(path, name)) for name in names)] + [
        os.fspath(Path(path).parent / name) for name in NODE_TABLES
    ]


def format_of_name(path: StrPath) -> str:
    """Return the format of a trace by its name; "" if the name does not determine it."""
    for name, format in plugin_formats().items():
        if format.names(path):
            return name
    name = Path(path).name.removesuffix(".gz")
    if Path(path).is_dir() or name == "event_trace.tab":
        return "fta"
    return _SUFFIXES.get(Path(name).suffix, "")


def detect_format(path: StrPath) -> str:
    """Return the format of a trace, one of `FORMATS`, from its name or else from its first lines.

    Raises
    ------
    TraceFormatError
        If neither determines the format, or the file cannot be read.
    """
    name = format_of_name(path)
    # tables of host speeds and of jobs may both be CSV files, and FTA and WTA traces may be folders
    if name in ("", "hosts") or Path(path).is_dir():
        name = format_of_content(path) or name
    if name == "hosts" and not has_host_columns(path):
        return "sacct"  # another table, whose reader says which columns jobs need
    if name:
        return name
    has_comments, is_empty = False, True
    for line in islice(text_lines(path), _MAX_HEADER_LINES):
        words = line.split()
        if not words:
            continue
        is_empty = False
        if words[0].startswith(";"):
            return "swf"
        if "event_start_time" in words:
            return "fta"
        if "cpu_model" in line.split(",") or "CPU model" in line.split("\t"):
            return "hosts"
        if words[0].startswith("#"):
            if "JobID" in line:
                return "gwf"
            has_comments = True
            continue
        if record := _format_of_record(words, has_comments):
            return record
        break
    if is_empty:
        raise format_error(path, 1, "the trace must have records, got an empty file")
    raise format_error(
        path,
        1,
        f"the format must be one of {', '.join(FORMATS)}, got an unknown format (tables of sacct need -P, "
        "and a first line with the names of columns); gridsim trace lint --format FORMAT shows faults",
    )


def _format_of_record(words: list[str], has_comments: bool) -> str | None:
    """Return the format of a file's first record; None if the format is unknown.

    Parameters
    ----------
    has_comments
        Whether the file begins with comment lines with #.
    """
    count = parse_count(words[1]) if len(words) > 1 else None
    if is_semicolon_job(" ".join(words)):
        return "swf"
    if is_record(words):
        return "tr"
    # nearly every line of a job log has a -1; lines of up intervals have none
    if count is not None and len(words) == 2 + 2 * count and "-1" not in words:
        return "avt"
    numbers = sum(1 for _ in takewhile(lambda word: parse_number(word) is not None, words))
    excludes_swf = has_comments or len(words) == GWF.columns
    if numbers >= SWF.min_fields and not excludes_swf:
        return "swf"
    # the user and later fields may be texts; 12 to 17 numbers may be a truncated SWF line
    user = GWF.min_fields - 1
    if len(words) > user <= numbers and (excludes_swf or numbers < min(len(words), len(GWF.fields))):
        return "gwf"
    return None


def read_header(path: StrPath) -> dict[str, str] | None:
    """Return the header of a job log, as in `JobLog.header`, without its jobs; None for other traces."""
    job_log = JOB_FORMATS.get(detect_format(path))
    if job_log is None:
        return None
    if job_log.lines is None:
        return job_log.parse(path).header
    format = job_log.lines(path)
    with closing(text_lines(path)) as lines:
        first = takewhile(lambda line: not format.is_job(line), islice(lines, _MAX_HEADER_LINES))
        return header_of(line.lstrip().removeprefix(format.comment) for line in first)


def choose_format(path: StrPath, format: str | None) -> str:
    """Return `format`, or the detected format if it is None.

    Raises
    ------
    ScenarioError
        If the format is unknown.
    """
    if format is None:
        return detect_format(path)
    if format not in (formats := format_descriptions()):
        raise ScenarioError(f"format must be one of {', '.join(formats)}, got {format!r}")
    return format


def info(path: StrPath, *, format: str | None = None) -> dict[str, Any]:
    """Return size and shape of a trace as plain values, with units in the names of the keys (_s, _mflops).

    The keys format, file, bytes, sha256 and records (number of lines of jobs, of hosts or of models) are
    always there.  For a job log, the numbers describe the jobs that ran, after the reader's repairs, which a
    `TraceWarning` reports.  left_out counts the other jobs, not_used the jobs with fields that no run uses,
    and contradictions lists the statements of the log that cannot be true.  dropped, if the reader drops
    something, counts the records that are no jobs, and the columns that no run uses.  nodes, of a table of
    sacct with a column NodeList, has the sizes of nodes that `gridsim.traces.read_nodes` derives.

    Parameters
    ----------
    format
        One of `FORMATS`; by default it is detected.

    Raises
    ------
    TraceFormatError
        If the reader of the format rejects the file.
    ScenarioError
        If the format is unknown.
    """
    format = choose_format(path, format)
    file = event_file(path) if format == "fta" else Path(path)
    facts_of: dict[str, Callable[[StrPath], dict[str, Any]]] = {
        "tr": lambda file: _task_facts(read_tr(file)),
        "avt": lambda file: _availability_facts(read_avt(file)),
        "fta": lambda file: _availability_facts(read_fta(file)),
        "hosts": _host_facts,
    }
    files = [os.fspath(file)]
    if job_log := JOB_FORMATS.get(format):
        files = job_log.files(path)
        facts = _job_facts(job_log.load(path), job_log.fields)
        if format == "sacct" and has_node_lists(path):
            facts["nodes"] = read_nodes(path).facts()
    elif format in facts_of:
        facts = facts_of[format](file)
    else:
        facts = _plugin_facts(plugin_formats()[format].read(file))
    digests = [sha256(name) for name in files]
    # of several files, the digest is that of their digests
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    size = sum(os.stat(name).st_size for name in files)
    return {"format": format, "file": os.fspath(file), "bytes": size, "sha256": digest, **facts}


def _plugin_facts(trace: JobLog | AvailabilityTrace) -> dict[str, Any]:
    return _job_facts(trace, JOB_FIELDS) if isinstance(trace, JobLog) else _availability_facts(trace)


def _job_facts(log: JobLog, fields: tuple[str, ...]) -> dict[str, Any]:
    dropped = {remark.text.removesuffix(", left out"): len(remark.lines) for remark in log.remarks}
    log = log.report_repairs()
    lines = lines_of(log.jobs)
    jobs, procs = log.jobs[lines.ran], log.procs[lines.ran]
    submit, run_time = jobs["submit"], jobs["run_time"]
    left_out = {
        "parts": lines.part,
        "never_ran": lines.never_ran,
        "unknown_submission": lines.unknown_submission,
        "unknown_run_time": lines.unknown_run_time,
    }
    all_rows = np.ones(len(log), np.bool_)
    unknown = {name: int((log.jobs[name] == -1).sum()) for name in fields}
    unused = {name: len(remark.lines) for name, remark in unused_fields(log.jobs, lines.ran).items()}
    return {
        "records": len(log),
        "jobs": len(jobs),
        "left_out": {name: int(rows.sum()) for name, rows in left_out.items() if rows.any()},
        "users": len(np.unique(jobs["user"][jobs["user"] >= 0])),
        "first_submit_s": float(submit[0]) if len(jobs) else None,
        "span_s": float(submit[-1] - submit[0]) if len(jobs) else 0.0,
        "tasks": int(procs.sum(dtype=np.float64)),  # may exceed int64
        "cpu_s": float(procs @ run_time),
        "largest_job_procs": int(procs.max(initial=0)),
        "max_run_time_s": float(run_time.max(initial=0.0)),
        "unknown": {name: count for name, count in unknown.items() if count},
        "not_used": {name: count for name, count in unused.items() if count},
        "contradictions": [contradiction.message for contradiction in contradictions(log, lines, all_rows)],
        **({"dropped": dropped} if dropped else {}),
        "header": log.header,
    }


def _task_facts(log: TaskLog) -> dict[str, Any]:
    return {
        "records": len(log),
        "first_submit_s": float(log.submit[0]),
        "span_s": float(log.submit[-1] - log.submit[0]),
        "tasks": len(log.duration),
        "cpu_s": float(log.duration.sum()),
        "max_tasks": int(log.tasks.max()),
        "max_run_time_s": float(log.duration.max()),
        "max_mean_s": float(log.mean.max()),
    }


def _availability_facts(trace: AvailabilityTrace) -> dict[str, Any]:
    availability, up = trace.availability(), trace.up_time()
    return {
        "records": len(trace),
        "intervals": len(trace.start),
        "span_s": trace.horizon,
        "origin_s": trace.origin,
        "up_s": float(up.sum()),
        "observed_s": float((trace.horizon - trace.first).sum()),
        "availability_mean": float(availability.mean()),
        "availability_median": float(np.median(availability)),
        "never_up": int((up == 0).sum()),
        "joined_after_start": int((trace.first > 0).sum()),
        "longest_up_s": float((trace.end - trace.start).max(initial=0.0)),
    }


def _host_facts(path: StrPath) -> dict[str, Any]:
    hosts = read_host_speeds(path)
    return {
        "records": len(hosts),
        "computers": int(hosts.weight.sum()),
        "speed_mean_mflops": hosts.mean(),
        "speed_min_mflops": float(hosts.speed.min()),
        "speed_max_mflops": float(hosts.speed.max()),
    }


def read_jobs(path: StrPath) -> JobLog:
    """Read a job log in a format of `gridsim.traces.job_formats.JOB_FORMATS` or of a plugin.

    One `TraceWarning` counts what the reader left out, and one the repairs of `read_swf`.

    Raises
    ------
    TraceFormatError
        If the log is invalid, or the file has another format.
    """
    return load_jobs(path).report_repairs()


def load_jobs(path: StrPath) -> JobLog:
    """Read a job log as `read_jobs` does, without a warning about repairs."""
    format = detect_format(path)
    if format == "fta" and Path(path).is_dir():
        format = "swf"  # whose reader raises an error that says that a folder is no job log
    return load_format(path, format)


def load_format(path: StrPath, format: str) -> JobLog:
    """Read a job log of a format as `load_jobs` does; other traces raise TraceFormatError."""
    if (plugin := plugin_formats().get(format)) is not None and plugin.kind == "jobs":
        return _read(plugin, path, JobLog)
    if format not in JOB_FORMATS:
        known = f"{', '.join(list(JOB_FORMATS)[:-1])} or {list(JOB_FORMATS)[-1]}"
        raise format_error(path, 1, f"the file must be a job log, {known}, got {format}")
    return JOB_FORMATS[format].load(path)


def read_bags(path: StrPath, *, gap: float, span: float, whole_seconds: bool) -> Bags:
    """Read the bags of a job log, as `derive_bags` (SWF, GWF) or `bags_of_tasks` (.tr) derives them.

    Parameters
    ----------
    gap, span
        Longest time between two jobs, and from the first to the last job, of a bag of an SWF or GWF log, s.
    whole_seconds
        Whether durations of a .tr log are truncated to whole seconds.

    Raises
    ------
    TraceFormatError
        If the log is invalid, or the file has another format.
    """
    log, bags = load_bags(path, gap=gap, span=span, whole_seconds=whole_seconds)
    report_bags(log, bags)
    return bags


def load_bags(
    path: StrPath, *, gap: float, span: float, whole_seconds: bool
) -> tuple[JobLog | TaskLog, Bags]:
    """Return a log and its bags as `read_bags` does, without the warnings of `report_bags`."""
    if not Path(path).is_dir() and detect_format(path) == "tr":
        tasks = load_tr(path)
        return tasks, bags_of_durations(tasks, whole_seconds=whole_seconds)
    jobs = load_jobs(path)
    return jobs, bags_of_jobs(jobs, gap=gap, span=span)


def read_availability(path: StrPath) -> AvailabilityTrace:
    """Read an availability trace, .avt or FTA, with `read_avt` or `read_fta`.

    Raises
    ------
    TraceFormatError
        If the trace is invalid, or the file has another format.
    """
    format = detect_format(path)
    if (plugin := plugin_formats().get(format)) is not None and plugin.kind == "availability":
        return _read(plugin, path, AvailabilityTrace)
    if format not in ("avt", "fta"):
        raise format_error(path, 1, f"the file must be an availability trace, avt or fta, got {format}")
    return read_avt(path) if format == "avt" else read_fta(path)


_Trace = TypeVar("_Trace", JobLog, AvailabilityTrace)


def _read(format: TraceFormat, path: StrPath, kind: type[_Trace]) -> _Trace:
    """Read a trace of a format of a plugin; turn errors of its reader into a TraceFormatError."""
    try:
        trace = format.read(path)
    except TraceFormatError:
        raise
    except Exception as error:
        raise format_error(path, 0, f"{type(error).__name__}: {text_of(error)}") from error
    if not isinstance(trace, kind):
        raise format_error(
            path, 0, f"the reader of the format must return a {kind.__name__}, got {type(trace).__name__}"
        )
    return trace
