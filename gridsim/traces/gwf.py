"""Job logs in the Grid Workload Format (GWF) of the Grid Workloads Archive.

Source: A. Iosup et al., "The Grid Workloads Archive" (FGCS 24, 2008): 29 fields a line, separated by tabs or
other white space, -1 for unknown, comments from `#`. The first 16 are those of the Standard Workload Format,
but users, groups, executables, queues and partitions may be texts (U12, G3). The others tell sites, networks,
disks, virtual organizations and projects.
"""

from __future__ import annotations

import os
from array import array

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import number_fault, warn_repairs
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, parse_jobs, repair

GWF_FIELDS = JOB_FIELDS[:16]
_TEXTS = GWF_FIELDS[11:]  # user to partition
# What other readers need at most: submission, run time, processors, user. The rest is often cut or -1.
GWF = JobFormat("#", GWF_FIELDS, required=12, columns=29, texts=_TEXTS)


def read_gwf(path: StrPath) -> JobLog:
    """Read a job log in Grid Workload Format, plain or gzip, as `read_swf` reads its own.

    Columns after the 16th (partition) are ignored; of those after the 12th (user), which some files do not
    have, missing ones are unknown. A user, group, executable, queue or partition that is no whole number
    stands for one: the texts of a column are numbered in the order of their first appearance in the file,
    from 0 or, where the column has numbers too, from above the largest of them. Repairs as `read_swf`, in
    one `TraceWarning`.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 12 fields, another field that is no
    finite number (or has a fraction where only whole numbers make sense), and a file that is missing,
    truncated, binary or without jobs.
    """
    header, jobs = parse_gwf(path)
    jobs, repairs = repair(jobs)
    warn_repairs(path, repairs)
    return JobLog(os.fspath(path), header, jobs)


def parse_gwf(path: StrPath) -> tuple[dict[str, str], NDArray[np.void]]:
    """Header and jobs exactly as they stand in the file, without any repair (errors as `read_gwf`)."""
    columns = [_Column() for _ in _TEXTS]
    numbers, last = len(GWF_FIELDS) - len(_TEXTS), len(GWF_FIELDS)

    def plain(line: str) -> str:
        words = line.split(None, last)[:last]
        if len(words) < GWF.required:
            return line  # for the parser to refuse
        words += ["-1"] * (last - len(words))
        for at, column in enumerate(columns, numbers):
            words[at] = column.number(words[at])
        return " ".join(words)

    header, jobs = parse_jobs(path, GWF, plain)
    for name, column in zip(_TEXTS, columns, strict=True):
        text = np.array(column.text, dtype=np.int64)
        jobs[name] = np.where(text < 0, jobs[name], text + jobs[name].max() + 1)
    return header, jobs


class _Column:
    """One column of words that may be texts; `text` is, for each line, the number of its text, else -1."""

    def __init__(self) -> None:
        self.text = array("q")
        self._seen: dict[str, int] = {}
        self._texts = 0

    def number(self, word: str) -> str:
        """The word if it is a whole number, else -1."""
        text = self._seen.get(word)
        if text is None:
            text = -1
            if number_fault("", word, whole=True):
                text = self._texts
                self._texts += 1
            self._seen[word] = text
        self.text.append(text)
        return word if text < 0 else "-1"
