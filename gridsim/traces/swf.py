"""Job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2): 18 white-space separated
fields per line, -1 for unknown, comment lines that begin with `;`.
"""

from __future__ import annotations

from gridsim.support.files import StrPath
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair

SWF_FIELDS = JOB_FIELDS
SWF = JobFormat(";", SWF_FIELDS, min_fields=len(SWF_FIELDS), columns=len(SWF_FIELDS))
SwfLog = JobLog


def read_swf(path: StrPath) -> JobLog:
    """Read a job log in Standard Workload Format, plain or gzip.

    Columns after the 18 standard ones are ignored, and so is a first line with their names.  A value that
    cannot be read counts as unknown if no run depends on its field (such as queue or memory).  One
    `TraceWarning` counts three repairs: submissions out of order are sorted (stably), run times below -1
    become -1 (unknown), and parts of a job without a line for the whole job get the submissions that they do
    not state.

    Raises
    ------
    TraceFormatError
        If a line has fewer than 18 fields, a field that is used is not a finite number (or a whole number if
        it is an identifier or a count), or the file is missing, truncated, binary or without jobs.  The
        message begins with the file and any faulty line.
    """
    return load_swf(path).report_repairs()


def load_swf(path: StrPath) -> JobLog:
    """Read a job log as `read_swf` does, without a warning about repairs."""
    return repair(path, parse_swf(path))


def parse_swf(path: StrPath) -> ParsedJobs:
    """Return header and jobs as in the file, without any repair; raises the errors of `read_swf`."""
    return parse_jobs(path, SWF)
