"""Job logs made from the columns of an accounting table, in the units and conventions of `JobLog`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import LARGEST_COUNT, LARGEST_EXACT, Remark, format_error
from gridsim.traces.job_lines import CANCELLED
from gridsim.traces.jobs import JOB_DTYPE, ParsedJobs

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]

COMPLETED = 1
#: Remark on jobs whose wait is -1 s, which stands for an unknown one.
_EARLY_START_REMARK = "jobs that start 1 s before their submission, whose wait is taken as unknown"


def first_known(*columns: Floats | None) -> Floats | None:
    """Return, for each row, the first number that is known and above 0; None if there is no column."""
    numbers = [column for column in columns if column is not None]
    if not numbers:
        return None
    result = numbers[0]
    for column in numbers[1:]:
        result = np.where(result > 0, result, column)  # False for NaN
    return result


def run_columns(
    submit: Floats, start: Floats, end: Floats, run_time: Floats, procs: Floats, status: Floats
) -> dict[str, Floats]:
    """Return the fields ``wait``, ``run_time``, ``used_procs`` and ``req_procs`` of jobs that have ended.

    A job without a start never ran: its run time is 0 s, it has no processors, and it waited until its end.
    A job that was cancelled with a run time of 0 s was cancelled while it waited.

    Parameters
    ----------
    submit, start, end, run_time
        Times, s; NaN is unknown.
    procs
        Processors that the job had or requested; NaN is unknown.
    status
        Status as in SWF.
    """
    never_ran = np.isnan(start) & ~(run_time > 0)
    waited_only = never_ran | ((status == CANCELLED) & (run_time == 0))
    return {
        "wait": np.where(never_ran, end, start) - submit,
        "run_time": np.where(never_ran, 0.0, run_time),
        "used_procs": np.where(waited_only, np.nan, procs),
        "req_procs": procs,
    }


def make_jobs(
    path: StrPath,
    fields: Mapping[str, NDArray[np.float64] | NDArray[np.int64]],
    line: NDArray[np.int64],
    *,
    header: Mapping[str, str],
    is_local: bool | None,
    remarks: tuple[Remark, ...],
) -> ParsedJobs:
    """Return the jobs of a log, with submission times relative to the first submission.

    Parameters
    ----------
    fields
        Field of a job -> its values; NaN is unknown, and a field that is missing is unknown.
    line
        Line of each job in the file.
    header
        ``Key: value`` comments; the time of the first submission is added.
    is_local
        Whether submissions are times since 1970 without a time zone; None if they count from another time.
    remarks
        Remarks on what is left out.

    Raises
    ------
    TraceFormatError
        If there are no jobs, or a value is out of range.
    """
    if not len(line):
        texts = "".join(f"; {len(remark.lines)} {remark.text}" for remark in remarks if len(remark.lines))
        raise format_error(path, 0, f"no jobs in this log{texts}")
    jobs: NDArray[np.void] = np.full(len(line), -1, dtype=JOB_DTYPE)
    jobs["job"], jobs["line"] = np.arange(1, len(line) + 1), line
    for name, column in fields.items():
        numbers = np.where(np.isnan(column), -1, column)
        limit = LARGEST_COUNT if name.endswith("_procs") else LARGEST_EXACT
        for row in np.flatnonzero(np.abs(numbers) > limit)[:1]:
            message = f"field {name} must be at most {limit:.16g}, got {column[row]:.17g}"
            raise format_error(path, int(line[row]), message)
        jobs[name] = numbers
    full_header = dict(header)
    submit = jobs["submit"]
    known = ~np.isnan(fields["submit"])
    if is_local is not None and known.any():
        origin = float(np.floor(submit[known].min()))
        submit[known] -= origin
        key, value = (
            ("StartTime", datetime.fromtimestamp(origin, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
            if is_local
            else ("UnixStartTime", str(int(origin)))
        )
        full_header = {key: value, **full_header}
    present = tuple(remark for remark in remarks if len(remark.lines))
    early = np.flatnonzero(fields["wait"] == -1) if "wait" in fields else line[:0]
    repairs = (Remark(line[early], _EARLY_START_REMARK),) if len(early) else ()
    return ParsedJobs(full_header, jobs, np.zeros(0, np.int64), present, repairs=repairs)


def unique_numbers(major: Floats, minor: Floats | None = None) -> NDArray[np.int64]:
    """Return the numbers of jobs: `major`, or ranks if numbers are missing or not unique without `minor`.

    The rank counts from 1 in the order of (major, minor).
    """
    if minor is None or not (minor > 0).any():
        if not np.isnan(major).any():
            return major.astype(np.int64)
        return np.arange(1, len(major) + 1)
    numbers = np.empty(len(major), np.int64)
    numbers[np.lexsort((minor, major))] = np.arange(1, len(major) + 1)
    return numbers
