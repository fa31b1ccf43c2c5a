"""What each line of a job log is: a job that ran, a part of one, or a job that no workload has.

Source: D. Feitelson, the Standard Workload Format, version 2.2.  A job that was swapped out or checkpointed
has a line of its own, with its whole run time, and may have a line for each part of its run (status 2, and 3
or 4 for the last one); only the first part states when the job was submitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import Remark

FAILED, CANCELLED = 0, 5
#: Status of a part of a job: to be continued, the last one of a completed job, the last one of a failed job.
PARTS = (2, 3, 4)

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class JobLines:
    """What each line of a job log is; bool[lines] each.  A line is exactly one of the first five.

    Parameters
    ----------
    ran
        A job that ran for a known time after a known submission: these are the jobs of a workload.
    part
        A part of a job that has a line of its own, which is a job that ran.
    never_ran
        A job whose run time is 0 and that was cancelled, or failed without any processors.
    unknown_submission
        A job of unknown submission (-1, unless the log has times below it).
    unknown_run_time
        A job of unknown run time.
    lone_part
        Of `ran`, a part of a job that has no line of its own.
    zero_run_time
        Of `ran`, a job whose run time is 0 s, below the resolution of the log.
    known_submission
        A job, no part of one, of known submission.
    first
        The first submission of a job, s; NaN if none is known.
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

    def within(self, jobs: NDArray[np.void], window: Rows) -> Rows:
        """Return which lines belong to a window: its own ones, and the parts of its jobs.

        A line of unknown submission belongs only to a window that has all other lines.
        """
        lines = window & self.known_submission
        whole = (lines | ~self.known_submission).all()
        if self.part.any():
            lines |= self.part & np.isin(jobs["job"], jobs["job"][lines])
        return lines | (~self.part & ~self.known_submission) if whole else lines


def lines_of(jobs: NDArray[np.void]) -> JobLines:
    """Return what each line of a log is, by the rows of `gridsim.traces.JobLog.jobs`."""
    status, run_time, submit = jobs["status"], jobs["run_time"], jobs["submit"]
    is_part, unplaced = np.isin(status, PARTS), unknown_submissions(jobs)
    failed = (status == FAILED) & (jobs["used_procs"] <= 0)
    never_ran = (run_time == 0) & ((status == CANCELLED) | failed)
    complete = ~never_ran & ~unplaced & (run_time >= 0)
    part = _of_jobs_with_a_line(jobs, is_part, complete)
    ran = complete & ~part
    rest = ~(part | never_ran)
    known_submission = ~part & ~unplaced
    return JobLines(
        ran=ran,
        part=part,
        never_ran=never_ran,
        unknown_submission=rest & unplaced,
        unknown_run_time=rest & ~unplaced & (run_time < 0),
        lone_part=ran & is_part,
        zero_run_time=ran & (run_time == 0),
        known_submission=known_submission,
        first=float(submit[known_submission].min()) if known_submission.any() else np.nan,
    )


def _of_jobs_with_a_line(jobs: NDArray[np.void], is_part: Rows, complete: Rows) -> Rows:
    """Return which parts are of a job that has a line of its own, which is `complete`."""
    if not is_part.any():
        return is_part
    numbers = jobs["job"][~is_part & complete]
    return is_part & np.isin(jobs["job"], numbers[numbers >= 0])


def unknown_submissions(jobs: NDArray[np.void]) -> Rows:
    """Return which lines do not state a submission: those of -1, unless the log has times below it."""
    submit = jobs["submit"]
    rows: Rows = (submit == -1) & (submit.min(initial=-1) >= -1)
    return rows


def place_parts(jobs: NDArray[np.void]) -> NDArray[np.int64]:
    """Set the submissions that parts without another line of their job do not state; return their rows.

    Parameters
    ----------
    jobs
        In the order of the file, which is changed.  A part is submitted when the part above of its job ends;
        the first part of a job when the line above is, or else the first line that states a time.
    """
    lines = lines_of(jobs)
    alone = np.isin(jobs["status"], PARTS) & ~lines.part
    stated = np.flatnonzero(~unknown_submissions(jobs))
    rows = np.flatnonzero(alone & unknown_submissions(jobs))
    if not len(rows):
        return rows
    ends: dict[int, float] = {}
    for row in np.flatnonzero(alone).tolist():
        number = int(jobs["job"][row])
        if jobs["submit"][row] == -1 and number in ends and number >= 0:
            jobs["submit"][row] = ends[number]
        elif jobs["submit"][row] == -1 and len(stated):
            above = max(0, int(np.searchsorted(stated, row)) - 1)
            jobs["submit"][row] = jobs["submit"][stated[above]]
        lasts = max(0.0, float(jobs["wait"][row])) + max(0.0, float(jobs["run_time"][row]))
        ends[number] = float(jobs["submit"][row]) + lasts
    return rows


def remarks_on(jobs: NDArray[np.void], lines: JobLines, used: Rows, zero_run_time: float) -> list[Remark]:
    """Return a remark on each kind of `used` lines that is left out, or taken for something else."""
    texts = (
        (lines.part, "parts (status 2 to 4) of jobs that have a line of their own, left out"),
        (lines.lone_part, "parts (status 2 to 4) of jobs that have no line of their own, taken as jobs"),
        (lines.never_ran, "jobs that never ran (run time 0 s, cancelled or without processors), left out"),
        (lines.unknown_submission, "jobs of unknown submission, left out"),
        (lines.unknown_run_time, "jobs of unknown run time, left out"),
        (lines.zero_run_time, f"jobs of run time 0 s, counted as {zero_run_time:g} s"),
    )
    return [Remark(jobs["line"][rows & used], text) for rows, text in texts]


def unused_fields(jobs: NDArray[np.void], rows: Rows) -> dict[str, Remark]:
    """Return field -> the jobs among `rows` that state what the model does not have.

    A preceding job 0 counts only if the log has a job 0, and a think time only above 0.
    """
    line, preceding = jobs["line"], jobs["preceding"]
    follows = (preceding > 0) | ((preceding == 0) & (jobs["job"] == 0).any())
    return {
        "preceding": Remark(line[rows & follows], "jobs with a preceding job (field 17), which is not used"),
        "think_time": Remark(
            line[rows & (jobs["think_time"] > 0)], "jobs with a think time (field 18), which is not used"
        ),
    }
