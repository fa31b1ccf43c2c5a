"""Warnings about the lines of a job log that a workload uses."""

from __future__ import annotations

from gridsim.errors import TraceWarning
from gridsim.support.warning_scope import warn
from gridsim.traces._text import warn_remarks
from gridsim.traces.contradictions import contradictions
from gridsim.traces.job_lines import JobLines, Rows, remarks_on, unused_fields
from gridsim.traces.jobs import JobLog


def report(log: JobLog, lines: JobLines, used: Rows, zero_run_time: float, stacklevel: int = 3) -> None:
    """Issue a `TraceWarning`, at the caller's caller, for each kind of remark on the `used` lines.

    The remarks are on repairs that have not been reported, on lines that are left out or reinterpreted, on
    fields that no run uses, and on contradictions.
    """
    jobs = log.jobs
    stacklevel += 1
    warn_remarks(log.path, [remark.restrict(jobs["line"][used]) for remark in log.repairs], stacklevel)
    for remark in remarks_on(jobs, lines, used, zero_run_time):
        warn_remarks(log.path, [remark], stacklevel)
    warn_remarks(log.path, unused_fields(jobs, used & lines.ran).values(), stacklevel)
    faults = contradictions(log, lines, used)
    if faults:
        text = "; ".join(fault.message for fault in faults)
        first = min((int(fault.lines.min()) for fault in faults if len(fault.lines)), default=0)
        message = (
            f"{log.path}:{first}: {text} (the first is at this line)" if first else f"{log.path}: {text}"
        )
        warn(message, TraceWarning, stacklevel - 1)
