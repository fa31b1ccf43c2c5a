"""Job logs with the duration of every task (`.tr`), as in comparisons of probe-based schedulers.

Source: P. Delgado et al., "Hawk: hybrid datacenter scheduling" (USENIX ATC 2015), whose simulator reads
them: one job per line, fields separated by white space: submit time (s), number of tasks, mean duration of a
task (s), and the duration of each task (s).  There are no comments.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_VALUE,
    Remark,
    format_error,
    number_fault,
    parse_number,
    text_lines,
    truncate,
    warn_remarks,
)

#: The fields before the durations.
TR_FIELDS = ("submit", "tasks", "mean")
#: Time (s) between releases of jobs that have equal submit times in the file.
SAME_TIME_GAP = 0.01


@dataclass(frozen=True)
class TaskLog:
    """A job log with the duration of every task, sorted by submission.

    Arrays have one entry per job, except `duration`, which has one per task: the tasks of the first job in
    the order of its line, then the tasks of the next.

    Parameters
    ----------
    path
        The file that was read.
    submit
        float64, s; submit time as in the file.
    tasks
        int64; number of tasks.
    mean
        float64, s; mean duration of a task as the file states it.
    duration
        float64, s; duration of each task.
    line
        int64; line in the file.
    repairs
        Repairs that have not been reported by a warning.
    """

    path: str
    submit: NDArray[np.float64]
    tasks: NDArray[np.int64]
    mean: NDArray[np.float64]
    duration: NDArray[np.float64]
    line: NDArray[np.int64]
    repairs: tuple[Remark, ...] = ()

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index of the first task of each job, then the number of tasks: int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.tasks)))

    @property
    def release(self) -> NDArray[np.float64]:
        """Release of each job, s since the first; jobs of equal submit times are `SAME_TIME_GAP` s apart."""
        first = np.searchsorted(self.submit, self.submit)
        release: NDArray[np.float64] = self.submit - self.submit[0]
        return release + SAME_TIME_GAP * (np.arange(len(self)) - first)

    def take(self, jobs: NDArray[np.int64]) -> TaskLog:
        """Return the log of the jobs with indices `jobs`, in that order."""
        tasks, starts = self.tasks[jobs], self.offsets[jobs]
        task = np.repeat(starts - np.cumsum(tasks) + tasks, tasks) + np.arange(tasks.sum())
        return replace(
            self,
            submit=self.submit[jobs],
            tasks=tasks,
            mean=self.mean[jobs],
            duration=self.duration[task],
            line=self.line[jobs],
        )


def read_tr(path: StrPath) -> TaskLog:
    """Read a job log with the duration of every task, plain or gzip.

    Submissions out of order are sorted (stably); one `TraceWarning` counts them.

    Raises
    ------
    TraceFormatError
        If a line has fewer than 4 fields, the number of tasks differs from the number of durations, a field
        is not a finite number, a duration or mean is negative, or the file is missing, truncated, binary or
        without jobs.  The message begins with the file and any faulty line.
    """
    log = load_tr(path)
    warn_remarks(path, log.repairs)
    return replace(log, repairs=())


def load_tr(path: StrPath) -> TaskLog:
    """Read a job log as `read_tr` does, without a warning about repairs."""
    log = parse_tr(path)
    unsorted = np.flatnonzero(log.submit < np.maximum.accumulate(log.submit))
    if len(unsorted):
        repairs = (Remark(log.line[unsorted], "submissions out of order, sorted"),)
        log = replace(log.take(np.argsort(log.submit, kind="stable")), repairs=repairs)
    for column in (log.submit, log.tasks, log.mean, log.duration, log.line):
        column.flags.writeable = False
    return log


def parse_tr(path: StrPath) -> TaskLog:
    """Return the jobs as in the file, in its order; raises the errors of `read_tr`."""
    submit, mean, duration = array("d"), array("d"), array("d")
    tasks, lines = array("q"), array("q")
    number = 0
    with closing(_jobs(path)) as jobs:
        for number, line, words in jobs:
            if (values := _values(line, words)) is None:
                raise format_error(path, number, line_fault(words) or "a field must be a number")
            lines.append(number)
            tasks.append(len(words) - len(TR_FIELDS))
            submit.append(values[0])
            mean.append(values[2])
            duration.extend(values[len(TR_FIELDS) :])
    if not lines:
        raise format_error(path, 1, "no jobs in this log")
    return TaskLog(
        os.fspath(path),
        submit=np.array(submit),
        tasks=np.array(tasks, dtype=np.int64),
        mean=np.array(mean),
        duration=np.array(duration),
        line=np.array(lines, dtype=np.int64),
    )


def faulty_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Yield (line number, fault) for each job line that cannot be read."""
    with closing(_jobs(path)) as jobs:
        for number, _, words in jobs:
            if fault := line_fault(words):
                yield number, fault


def line_fault(words: list[str]) -> str | None:
    """Return the fault of the words of a job line; None if there is none."""
    fields = len(TR_FIELDS)
    if len(words) <= fields:
        return f"a line must have {fields + 1} fields or more, got {len(words)}"
    durations = len(words) - fields
    for place, word in enumerate(words):
        name = TR_FIELDS[place] if place < fields else f"duration {place - fields + 1}"
        if fault := number_fault(name, word, integer=name == "tasks"):
            return fault
        if place >= 2 and float(word) < 0:
            return f"field {name} must be at least 0 s, got {truncate(word)}"
        if name == "tasks" and float(word) != durations:
            return (
                f"field tasks must be {durations}, the number of durations of the line, got {truncate(word)}"
            )
    return None


def _jobs(path: StrPath) -> Generator[tuple[int, str, list[str]], None, None]:
    """Yield the number, the text and the words of each line that is not empty."""
    with closing(text_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            if words := line.split():
                yield number, line, words


def _values(line: str, words: list[str]) -> list[float] | None:
    """Return the values of a valid job line; None if it has a fault."""
    try:
        values = list(map(float, words))
    except ValueError:
        return None
    if len(values) <= len(TR_FIELDS) or values[1] != len(values) - len(TR_FIELDS):
        return None
    # float() also accepts 1_000 and digits outside of ASCII
    if ("_" in line or not line.isascii()) and None in map(parse_number, words):
        return None
    column = np.array(values)
    valid = (np.abs(column) <= LARGEST_VALUE).all() and column[2:].min() >= 0  # False for NaN
    return values if valid else None


def is_record(words: list[str]) -> bool:
    """Return whether the words of a line are a job whose stated mean matches its durations within 1 %."""
    if len(words) <= len(TR_FIELDS) or line_fault(words) is not None:
        return False
    mean, durations = float(words[2]), np.array(words[len(TR_FIELDS) :], np.float64)
    return bool(abs(mean - durations.mean()) <= 0.01 * mean)
