"""Job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2): 18 white-space separated
fields a line, -1 for unknown, comment lines that begin with `;`.
"""

from __future__ import annotations

from gridsim.support.files import StrPath
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair

SWF_FIELDS = JOB_FIELDS
SWF = JobFormat(";", SWF_FIELDS, required=len(SWF_FIELDS), columns=len(SWF_FIELDS))
SwfLog = JobLog


def read_swf(path: StrPath) -> JobLog:
    """Read a job log in Standard Workload Format, plain or gzip.

    Columns after the 18 standard ones are ignored, and so is a first line that names them. What cannot be
    read in a field on which no run depends (such as queue or memory) counts as unknown. Three things are
    repaired, and one `TraceWarning` counts them: submissions out of order are sorted (stably), run times
    below -1 become -1 (unknown), and parts of a job that has no line of its own get the submissions that they
    do not state.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 18 fields, a field that is used and is
    not a finite number (or has a fraction where only whole numbers make sense), and a file that is missing,
    truncated, binary or without jobs.
    """
    return load_swf(path).report_repairs()


def load_swf(path: StrPath) -> JobLog:
    """Read a job log as `read_swf` does; its repairs are still to be reported."""
    return repair(path, parse_swf(path))


def parse_swf(path: StrPath) -> ParsedJobs:
    """Return header and jobs exactly as they are in the file, without any repair (errors as `read_swf`)."""
    return parse_jobs(path, SWF)
