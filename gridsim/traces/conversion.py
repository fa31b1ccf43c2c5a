"""Conversion of job logs of any format to the Standard Workload Format."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import closest
from gridsim.errors import ScenarioError, one_line
from gridsim.support.arguments import integer
from gridsim.support.files import StrPath, atomic_file
from gridsim.traces._text import Remark
from gridsim.traces.info import choose_format, load_format
from gridsim.traces.job_lines import job_count, lines_of
from gridsim.traces.job_remarks import contradictions
from gridsim.traces.jobs import COUNT_KEYS, GPUS_UNUSED, JOB_FIELDS, JobLog, header_count, stated_machines
from gridsim.traces.partitions import find_partitions
from gridsim.traces.sacct import CLOCK_CHANGES
from gridsim.traces.swf import NAME_KEYS
from gridsim.traces.values import in_zone

_SUFFIX = ".swf"
#: Largest number of names of a field that the header lists.
_MAX_NAMES = 20_000
#: Number of lines that are written at once.
_ROWS = 1 << 16
#: Keys of header lines that describe the file that is converted, and not the one that is written.
_OWN_KEYS = ("Version", "MaxJobs", "MaxRecords", "Conversion")


def convert(
    path: StrPath,
    output: StrPath,
    *,
    format: str | None = None,
    max_procs: int | None = None,
    zone: str | None = None,
) -> dict[str, Any]:
    """Write a job log in Standard Workload Format, and return a summary of the conversion.

    The jobs are those that the reader of the format returns, sorted by submission; reading the written log
    gives equal jobs.  Jobs that never ran are kept, and readers leave them out.  The header lists the names
    of users, groups and queues.  The file is complete or not written at all.

    Parameters
    ----------
    output
        The file to write, whose name ends in ``.swf``.
    format
        Format of the log; by default it is detected.
    max_procs
        Number of processors of the machine, for the header; by default that of the log.
    zone
        Time zone of times that have none, such as ``"Europe/Berlin"``; by default they are read as if clocks
        never changed.

    Returns
    -------
    dict
        The keys format, file, jobs (number of lines), never_ran (number of these that never ran), repairs and
        dropped, which count what was repaired and left out, contradictions (list of the statements of the
        written log that cannot be true), names (number of names of users, groups and queues), note (what the
        log shows of the sharing of nodes), and command (a command that compares schedulers on the written
        log; "" if no job ran).

    Raises
    ------
    TraceFormatError
        If the log is invalid, or the file is no job log.
    ScenarioError
        If the name of `output` has another ending, or an argument is invalid.
    OSError
        If the file cannot be written.
    """
    name = os.fspath(output)
    if not name.endswith(_SUFFIX):
        raise ScenarioError(f"output must end in {_SUFFIX}, got {name!r}")
    procs = None if max_procs is None else integer("max_procs", max_procs, low=1)
    kind = choose_format(path, format)
    log = load_format(path, kind)
    kept = [each for each in log.remarks if not each.text.endswith(GPUS_UNUSED)]
    log = replace(log, remarks=(*kept, *_only_in(log)))
    if zone is not None:
        log = _in_zone(log, zone)
    counts = {key: len(value.split("\n")) for key, value in log.header.items() if key in NAME_KEYS.values()}
    if procs is not None:
        log = replace(log, header={**log.header, "MaxProcs": str(procs)})
    own = {key: value for key, value in log.header.items() if key not in _OWN_KEYS}
    rows = np.ones(len(log), np.bool_)
    faults = contradictions(replace(log, header=own), lines_of(log.jobs), rows)
    header = _header(log, own, kind)
    with atomic_file(output) as stream:
        stream.write("".join(f"; {line}\n" for line in header).encode())
        for lines in _lines(log.jobs):
            stream.write(lines.encode())
    return {
        "format": kind,
        "file": name,
        "jobs": len(log),
        "never_ran": int(lines_of(log.jobs).never_ran.sum()),
        "repairs": {remark.text: len(remark.lines) for remark in log.repairs},
        "dropped": {remark.text.removesuffix(", left out"): len(remark.lines) for remark in log.remarks},
        "contradictions": [fault.message for fault in faults],
        "names": counts,
        "note": log.header.get("Note", ""),
        "command": _command(log, name),
    }


def _only_in(log: JobLog) -> Iterator[Remark]:
    """Yield remarks on what runs use of a log, and what SWF has no field for."""
    hint = f"which gridsim uses if it reads {one_line(os.path.basename(log.path))} itself, left out"
    if len(log.further):
        yield Remark(log.further[:, 0], f"preceding jobs besides the first of a job, {hint}")
    if log.has_shared_nodes and len(log.node_counts):
        yield Remark(log.node_counts[:, 0], f"numbers of nodes of jobs (NNodes; for --shared), {hint}")
    if len(log.gpu_counts):
        yield Remark(log.gpu_counts[:, 0], f"numbers of GPUs (gres/gpu; for --gpus-per-node), {hint}")


def _command(log: JobLog, output: str) -> str:
    """Return a command that compares schedulers on the written log; "" if no job ran."""
    if not lines_of(log.jobs).ran.any():
        return ""
    words = ["gridsim", "compare", "--job-log", output, "--rigid", *log.node_flags]
    words += ["--schedulers", "backfill,backfill-fcfs"]
    partitions = find_partitions(log.path)
    if partitions is not None and len(partitions.nodes) > 1:
        flags, nodes = log.node_flags, sum(partitions.nodes.values())
        cores = int(flags[1]) if flags else 1
        stated = stated_machines(log.header, cores)
        words += partitions.settings(nodes if stated is None else stated[1])
        if stated is None:
            words += ["--nodes", str(nodes)]
    return shlex.join(words)


def _in_zone(log: JobLog, zone: str) -> JobLog:
    """Return a log of local times on the clock of a time zone; run times are unchanged."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(zone)
    except (OSError, KeyError, ValueError) as error:
        hint = closest(available_timezones(), zone).rstrip()
        message = f"zone must be the name of a time zone such as Europe/Berlin, got {zone!r}"
        raise ScenarioError(f"{message}; {hint}" if hint else message) from error
    try:
        origin = float(np.datetime64(log.header["StartTime"], "s").astype(np.int64))
    except (KeyError, ValueError) as error:
        raise ScenarioError(
            "zone requires a log with local times: the times of this one are on the clock of UTC, or the log "
            "states none; leave out the zone"
        ) from error
    jobs = log.jobs.copy()
    # unknown submissions and waits stay -1
    known = jobs["submit"] >= 0
    has_wait = known & (jobs["wait"] >= 0)
    submit, no_submit = in_zone(origin + jobs["submit"][known], zone)
    start, no_start = in_zone(origin + (jobs["submit"] + jobs["wait"])[has_wait], zone)
    missing = np.union1d(jobs["line"][known][no_submit], jobs["line"][has_wait][no_start])
    text = f"jobs with times that do not exist in {zone}, so that it may not be their time zone"
    repairs = (Remark(missing, text),) if len(missing) else ()
    first = float(np.floor(submit.min(initial=origin)))
    jobs["submit"][known] = submit - first
    # a start in the hour that occurs twice is not before the submission
    wait = start - first - jobs["submit"][has_wait]
    jobs["wait"][has_wait] = np.where(wait < 0, wait + 3600, wait)
    order = np.argsort(jobs["submit"], kind="stable")
    header = {key: value for key, value in log.header.items() if key != "StartTime"}
    header = {"UnixStartTime": str(int(first)), "TimeZoneString": zone, **header}
    remaining = [remark for remark in log.repairs if remark.text != CLOCK_CHANGES]
    return replace(log, header=header, jobs=jobs[order], repairs=(*remaining, *repairs))


def _header(log: JobLog, fields: Mapping[str, str], format: str) -> Iterator[str]:
    """Yield the header lines of the written log, with the `fields` that it keeps."""
    yield "Version: 2.2"
    yield one_line(f"Conversion: from {os.path.basename(log.path)} ({format}) by gridsim")
    yield f"MaxJobs: {job_count(log.jobs)}"
    yield f"MaxRecords: {len(log)}"
    for key, value in fields.items():
        lines = (_plain_count(key, value) if key in COUNT_KEYS else value).split("\n")
        for line in lines[:_MAX_NAMES]:
            yield f"{key}: {one_line(line)}"
        if len(lines) > _MAX_NAMES:
            yield f"Note: {len(lines) - _MAX_NAMES} more lines {key} are left out"
    for remark in log.remarks:
        yield f"Note: {len(remark.lines)} {one_line(remark.text)}"


def _plain_count(key: str, value: str) -> str:
    """Return the value of a header field without the thousands separators of a count."""
    count, first = header_count({key: value}, key), value.split("\n")[0].split("(")[0].strip()
    return value if count is None or "," not in first else value.replace(first, str(count), 1)


def _lines(jobs: NDArray[np.void]) -> Iterator[str]:
    """Yield the lines of jobs, in parts."""
    for first in range(0, len(jobs), _ROWS):
        part = jobs[first : first + _ROWS]
        columns = [_texts(part[name]) for name in JOB_FIELDS]
        yield "".join(f"{line}\n" for line in map(" ".join, zip(*columns, strict=True)))


def _texts(column: NDArray[Any]) -> list[str]:
    """Return numbers as the shortest texts that are read as the same numbers."""
    if column.dtype.kind == "f" and (column == np.floor(column)).all():
        column = column.astype(np.int64)
    if column.dtype.kind == "i" and (column == column[0]).all():
        return [str(int(column[0]))] * len(column)
    return [repr(value).removesuffix(".0") for value in column.tolist()]
