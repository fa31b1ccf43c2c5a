"""Reports what is to be known of the lines of a job log that are used."""

from __future__ import annotations

from gridsim.errors import TraceWarning
from gridsim.support.warning_scope import warn
from gridsim.traces._text import warn_remarks
from gridsim.traces.contradictions import contradictions
from gridsim.traces.job_lines import JobLines, Rows, remarks_on, unused_fields
from gridsim.traces.jobs import JobLog


def report(log: JobLog, lines: JobLines, used: Rows, zero_run_time: float, stacklevel: int = 3) -> None:
    """Issue a `TraceWarning`, at the caller's caller, for each kind of `used` lines that need one.

    They are on repairs that have not been reported yet, on lines that are left out or taken for something
    else, on fields that the model does not have, and on what cannot be true.
    """
    jobs = log.jobs
    stacklevel += 1
    warn_remarks(log.path, [each.within(jobs["line"][used]) for each in log.repairs], stacklevel)
    for remark in remarks_on(jobs, lines, used, zero_run_time):
        warn_remarks(log.path, [remark], stacklevel)
    warn_remarks(log.path, unused_fields(jobs, used & lines.ran).values(), stacklevel)
    found = contradictions(log, lines, used)
    if found:
        said = "; ".join(each.message for each in found)
        first = min((int(each.lines.min()) for each in found if len(each.lines)), default=0)
        text = f"{log.path}:{first}: {said} (the first is at this line)" if first else f"{log.path}: {said}"
        warn(text, TraceWarning, stacklevel - 1)
