"""Job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2): 18 white-space separated
fields a line, -1 for unknown, comment lines that begin with `;`.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import warn_repairs
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, parse_jobs, repair

SWF_FIELDS = JOB_FIELDS
SWF = JobFormat(";", SWF_FIELDS, required=len(SWF_FIELDS), columns=len(SWF_FIELDS))
SwfLog = JobLog


def read_swf(path: StrPath) -> JobLog:
    """Read a job log in Standard Workload Format, plain or gzip.

    Columns after the 18 standard ones are ignored, and so is a first line that names them. Two things are
    repaired, and one `TraceWarning` counts them: submissions out of order are sorted (stably), and run times
    below -1 become -1 (unknown).

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 18 fields, a field that is not a
    finite number (or has a fraction where only whole numbers make sense), and a file that is missing,
    truncated, binary or without jobs.
    """
    header, jobs = parse_swf(path)
    jobs, repairs = repair(jobs)
    warn_repairs(path, repairs)
    return JobLog(os.fspath(path), header, jobs)


def parse_swf(path: StrPath) -> tuple[dict[str, str], NDArray[np.void]]:
    """Return header and jobs exactly as they are in the file, without any repair (errors as `read_swf`)."""
    return parse_jobs(path, SWF)
