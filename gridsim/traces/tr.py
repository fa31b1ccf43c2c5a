"""Job logs with the duration of every task (`.tr`), on which probe-based schedulers were compared.

Source: P. Delgado et al., "Hawk: hybrid datacenter scheduling" (USENIX ATC 2015), whose simulator reads
them: one job a line, fields separated by white space: submit time (s), number of tasks, mean duration of a
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
    LARGEST,
    Remark,
    cut,
    format_error,
    number_fault,
    parse_number,
    text_lines,
    warn_remarks,
)

#: The fields before the durations.
TR_FIELDS = ("submit", "tasks", "mean")
#: Seconds between jobs that have one submit time in the file.
SAME_TIME_GAP = 0.01


@dataclass(frozen=True)
class TaskLog:
    """A job log with the duration of every task, sorted by submission.

    All arrays have one entry per job, except `duration`, which has one per task: the tasks of the first job
    in the order of its line, then those of the next.

    Parameters
    ----------
    path
        The file it was read from.
    submit
        float64, s as in the file.
    tasks
        int64.
    mean
        float64, s; the mean duration of a task as the file states it.
    duration
        float64, s.
    line
        int64; the line in the file.
    repairs
        What was repaired and has not been reported yet, for whoever uses the lines to report.
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
        """The index of the first task of each job, and the number of tasks: int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.tasks)))

    @property
    def release(self) -> NDArray[np.float64]:
        """When each job comes, s since the first: jobs of one submit time come `SAME_TIME_GAP` s apart."""
        first = np.searchsorted(self.submit, self.submit)
        release: NDArray[np.float64] = self.submit - self.submit[0]
        return release + SAME_TIME_GAP * (np.arange(len(self)) - first)

    def take(self, jobs: NDArray[np.int64]) -> TaskLog:
        """Return the log of these jobs (indices), in their order."""
        tasks, begins = self.tasks[jobs], self.offsets[jobs]
        which = np.repeat(begins - np.cumsum(tasks) + tasks, tasks) + np.arange(tasks.sum())
        return replace(
            self,
            submit=self.submit[jobs],
            tasks=tasks,
            mean=self.mean[jobs],
            duration=self.duration[which],
            line=self.line[jobs],
        )


def read_tr(path: StrPath) -> TaskLog:
    """Read a job log with the duration of every task, plain or gzip.

    Submissions out of order are sorted (stably); one `TraceWarning` counts them.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 4 fields, a number of tasks that is
    not that of the durations, a field that is not a finite number, a negative duration or mean, and a file
    that is missing, truncated, binary or without jobs.
    """
    log = load_tr(path)
    warn_remarks(path, log.repairs)
    return replace(log, repairs=())


def load_tr(path: StrPath) -> TaskLog:
    """Read a job log as `read_tr` does; its repairs are still to be reported."""
    log = parse_tr(path)
    late = np.flatnonzero(log.submit < np.maximum.accumulate(log.submit))
    if len(late):
        repairs = (Remark(log.line[late], "submissions out of order, sorted"),)
        log = replace(log.take(np.argsort(log.submit, kind="stable")), repairs=repairs)
    for column in (log.submit, log.tasks, log.mean, log.duration, log.line):
        column.flags.writeable = False
    return log


def parse_tr(path: StrPath) -> TaskLog:
    """Return the jobs exactly as they are in the file, in its order (errors as `read_tr`)."""
    submit, mean, duration = array("d"), array("d"), array("d")
    tasks, lines = array("q"), array("q")
    number = 0
    with closing(_jobs(path)) as jobs:
        for number, line, words in jobs:
            if (found := _values(line, words)) is None:
                raise format_error(path, number, line_fault(words) or "a field is not a number")
            lines.append(number)
            tasks.append(len(words) - len(TR_FIELDS))
            submit.append(found[0])
            mean.append(found[2])
            duration.extend(found[len(TR_FIELDS) :])
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
    """Yield (line number, what is wrong) for each job line that cannot be read."""
    with closing(_jobs(path)) as jobs:
        for number, _, words in jobs:
            if fault := line_fault(words):
                yield number, fault


def line_fault(words: list[str]) -> str | None:
    """Return what is wrong with the words of a job line; None if nothing is."""
    before = len(TR_FIELDS)
    if len(words) <= before:
        return f"expected {before + 1} fields or more, found {len(words)}"
    for place, word in enumerate(words):
        name = TR_FIELDS[place] if place < before else f"duration {place - before + 1}"
        if fault := number_fault(name, word, whole=name == "tasks"):
            return fault
        if place >= 2 and float(word) < 0:
            return f"field {name} is {cut(word)}, expected 0 s or more"
        if name == "tasks" and float(word) != len(words) - before:
            return f"field tasks is {cut(word)}, and {len(words) - before} durations follow"
    return None


def _jobs(path: StrPath) -> Generator[tuple[int, str, list[str]], None, None]:
    """Yield number, text and words of each line that is not empty."""
    with closing(text_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            if words := line.split():
                yield number, line, words


def _values(line: str, words: list[str]) -> list[float] | None:
    """Return the values of a sound job line; None if it has a fault."""
    try:
        found = list(map(float, words))
    except ValueError:
        return None
    if len(found) <= len(TR_FIELDS) or found[1] != len(found) - len(TR_FIELDS):
        return None
    # float() alone would accept 1_000, and digits outside of ASCII
    if ("_" in line or not line.isascii()) and None in map(parse_number, words):
        return None
    column = np.array(found)
    sound = (np.abs(column) <= LARGEST).all() and column[2:].min() >= 0  # False for NaN
    return found if sound else None


def is_record(words: list[str]) -> bool:
    """Return whether the words of a line are a job whose stated mean is that of its durations, within 1 %."""
    if len(words) <= len(TR_FIELDS) or line_fault(words) is not None:
        return False
    mean, durations = float(words[2]), np.array(words[len(TR_FIELDS) :], np.float64)
    return bool(abs(mean - durations.mean()) <= 0.01 * mean)
