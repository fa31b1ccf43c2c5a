"""Classification of the lines of a job log: jobs that ran, parts of jobs, and jobs that are left out.

Source: D. Feitelson, the Standard Workload Format, version 2.2.  A job that was swapped out or checkpointed
has a line for the whole job, with its total run time, and may have a line for each part of its run (status 2,
and 3 or 4 for the last part); only the first part states the submission of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import Remark

FAILED, CANCELLED = 0, 5
#: Statuses of parts of jobs: continued later, last part of a completed job, last part of a failed job.
PARTS = (2, 3, 4)

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class JobLines:
    """Classes of the lines of a job log, bool[lines] each; each line is in exactly one of the first five.

    Parameters
    ----------
    ran
        Jobs that ran for a known time after a known submission: the jobs of a workload.
    part
        Parts of a job that has a line for the whole job, which is in `ran`.
    never_ran
        Jobs whose run time is 0 and that were cancelled, or failed without any processors.
    unknown_submission
        Jobs of unknown submission: -1, unless the log has times below -1.
    unknown_run_time
        Jobs of unknown run time.
    lone_part
        Lines of `ran` that are parts of a job without a line for the whole job.
    zero_run_time
        Lines of `ran` whose run time is 0 s, below the resolution of the log.
    known_submission
        Lines of known submission that are not in `part`.
    first
        First known submission of a job, s; NaN if none is known.
    """

    ran: Rows
    part: Rows
    never_ran: Rows
    unknown_submission: Rows
    unknown_run_time: Rows
    lone_part: Rows
    zero_run_time: Rows
    known_submission: Rows
    first: float

    def in_window(self, jobs: NDArray[np.void], window: Rows) -> Rows:
        """Return the lines of the selection `window` and the parts of their jobs: bool[lines].

        A line of unknown submission is included only if the selection has all lines of known submission.
        """
        lines = window & self.known_submission
        has_all = (lines | ~self.known_submission).all()
        if self.part.any():
            lines |= self.part & np.isin(jobs["job"], jobs["job"][lines])
        return lines | (~self.part & ~self.known_submission) if has_all else lines


def lines_of(jobs: NDArray[np.void]) -> JobLines:
    """Classify the lines of a log; the masks have one entry per row of `gridsim.traces.JobLog.jobs`."""
    status, run_time, submit = (column_of(jobs, name) for name in ("status", "run_time", "submit"))
    is_part, unknown = np.isin(status, PARTS), unknown_submissions(submit)
    failed = (status == FAILED) & (jobs["used_procs"] <= 0)
    never_ran = (run_time == 0) & ((status == CANCELLED) | failed)
    complete = ~never_ran & ~unknown & (run_time >= 0)
    part = _parts_of_whole_jobs(jobs, is_part, complete)
    ran = complete & ~part
    rest = ~(part | never_ran)
    known_submission = ~part & ~unknown
    return JobLines(
        ran=ran,
        part=part,
        never_ran=never_ran,
        unknown_submission=rest & unknown,
        unknown_run_time=rest & ~unknown & (run_time < 0),
        lone_part=ran & is_part,
        zero_run_time=ran & (run_time == 0),
        known_submission=known_submission,
        first=float(submit[known_submission].min()) if known_submission.any() else np.nan,
    )


def _parts_of_whole_jobs(jobs: NDArray[np.void], is_part: Rows, complete: Rows) -> Rows:
    """Return which parts belong to a job that has a line for the whole job, which is in `complete`."""
    if not is_part.any():
        return is_part
    numbers = jobs["job"][~is_part & complete]
    return is_part & np.isin(jobs["job"], numbers[numbers >= 0])


def job_count(jobs: NDArray[np.void]) -> int:
    """Return the number of jobs; parts of a job count as one, or with the line for the whole job."""
    part = np.isin(jobs["status"], PARTS)
    if not part.any():
        return len(jobs)  # most logs; the set difference takes long
    whole_jobs = jobs["job"][~part]
    return len(whole_jobs) + len(np.setdiff1d(jobs["job"][part], whole_jobs))


def column_of(jobs: NDArray[np.void], name: str) -> NDArray[Any]:
    """Return a copy of a field of all lines, which is read in much less time than the field itself."""
    return np.ascontiguousarray(jobs[name])


def unknown_submissions(submit: NDArray[np.float64]) -> Rows:
    """Return which lines have no submission time: a time of -1, unless the log has times below -1."""
    rows: Rows = (submit == -1) & (submit.min(initial=-1) >= -1)
    return rows


def place_parts(jobs: NDArray[np.void]) -> NDArray[np.int64]:
    """Set the unknown submissions of parts of jobs without a line for the whole job; return their rows.

    The submission of a part is the end of the previous part of its job.  For the first part of a job it is
    the submission of the line above, or of the first line that has one.

    Parameters
    ----------
    jobs
        Jobs in the order of the file; the array is changed.
    """
    unknown, is_part = unknown_submissions(column_of(jobs, "submit")), np.isin(jobs["status"], PARTS)
    if not (unknown & is_part).any():
        return np.zeros(0, np.int64)
    lone_parts = is_part & ~lines_of(jobs).part
    known, rows = np.flatnonzero(~unknown), np.flatnonzero(lone_parts & unknown)
    if not len(rows):
        return rows
    ends: dict[int, float] = {}
    for row in np.flatnonzero(lone_parts).tolist():
        number = int(jobs["job"][row])
        if jobs["submit"][row] == -1 and number in ends and number >= 0:
            jobs["submit"][row] = ends[number]
        elif jobs["submit"][row] == -1 and len(known):
            line_above = max(0, int(np.searchsorted(known, row)) - 1)
            jobs["submit"][row] = jobs["submit"][known[line_above]]
        duration = max(0.0, float(jobs["wait"][row])) + max(0.0, float(jobs["run_time"][row]))
        ends[number] = float(jobs["submit"][row]) + duration
    return rows


def remarks_on(jobs: NDArray[np.void], lines: JobLines, used: Rows, zero_run_time: float) -> list[Remark]:
    """Return a remark on each kind of `used` lines that are left out or reinterpreted."""
    texts = (
        (lines.part, "parts (status 2 to 4) of jobs that have a line for the whole job, left out"),
        (lines.lone_part, "parts (status 2 to 4) of jobs that have no line for the whole job, taken as jobs"),
        (lines.never_ran, "jobs that never ran (run time 0 s, cancelled or without processors), left out"),
        (lines.unknown_submission, "jobs of unknown submission, left out"),
        (lines.unknown_run_time, "jobs of unknown run time, left out"),
        (lines.zero_run_time, f"jobs of run time 0 s, counted as {zero_run_time:g} s"),
    )
    return [Remark(jobs["line"][rows & used], text) for rows, text in texts]


_UNUSED_PRECEDING = 'which is not used without after = "preceding" (--rigid --after preceding)'


def unused_fields(jobs: NDArray[np.void], rows: Rows) -> dict[str, Remark]:
    """Return field -> remark on the jobs among `rows` that state a field that no run uses.

    A preceding job 0 counts only if the log has a job 0; a think time counts only if it is above 0.
    """
    line, preceding = jobs["line"], jobs["preceding"]
    follows = (preceding > 0) | ((preceding == 0) & (jobs["job"] == 0).any())
    return {
        "preceding": Remark(line[rows & follows], f"jobs with a preceding job, {_UNUSED_PRECEDING}"),
        "think_time": Remark(
            line[rows & (jobs["think_time"] > 0)], "jobs with a think time, which is not used"
        ),
    }
