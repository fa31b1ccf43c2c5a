"""Job logs in the Grid Workload Format (GWF) of the Grid Workloads Archive.

Source: A. Iosup et al., "The Grid Workloads Archive" (FGCS 24, 2008): 29 fields a line, separated by tabs or
other white space, -1 for unknown, comment lines that begin with `#`. The first 16 fields are those of the
Standard Workload Format, but users, groups, executables, queues and partitions may be texts (U12, G3). The
others describe sites, networks, disks, virtual organizations and projects.
"""

from __future__ import annotations

from array import array
from contextlib import closing

import numpy as np

from gridsim.support.files import StrPath
from gridsim.traces._text import number_fault, text_lines
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair
from gridsim.traces.opendc import names_opendc, parse_opendc

GWF_FIELDS = JOB_FIELDS[:16]
_TEXTS = GWF_FIELDS[11:]  # user to partition
# The required fields are those up to the user, of which submission, run time, processors and user are needed
# elsewhere. The rest is often cut or -1.
GWF = JobFormat("#", GWF_FIELDS, required=12, columns=29, texts=_TEXTS)


def read_gwf(path: StrPath) -> JobLog:
    """Read a job log in Grid Workload Format, plain or gzip.

    Columns after the 16th (partition) are ignored. Those after the 12th (user) are missing in some files and
    then count as unknown. A user, group, executable, queue or partition that is not a whole number is
    replaced by one: the texts of a column are numbered in the order of their first appearance in the file,
    from 0 or, if the column has numbers too, from the largest of them + 1. The repairs are those of
    `read_swf`, in one `TraceWarning`.  A file with commas and OpenDC's names of columns is read, too, see
    `gridsim.traces.opendc`.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of fewer than 12 fields, any other field that is
    used and is not a finite number (or has a fraction where only whole numbers make sense), and a file that
    is missing, truncated, binary or without jobs.
    """
    return load_gwf(path).report_repairs()


def load_gwf(path: StrPath) -> JobLog:
    """Read a job log as `read_gwf` does; its repairs are still to be reported."""
    return repair(path, parse_gwf(path))


def parse_gwf(path: StrPath) -> ParsedJobs:
    """Return header and jobs exactly as they are in the file, without any repair (errors as `read_gwf`)."""
    with closing(text_lines(path)) as lines:
        if names_opendc(next(lines, "")):
            return ParsedJobs({}, parse_opendc(path), np.zeros(0, np.int64))
    columns = [_Column() for _ in _TEXTS]
    numbers, last = len(GWF_FIELDS) - len(_TEXTS), len(GWF_FIELDS)

    def plain(line: str) -> str:
        words = line.split(None, last)[:last]
        if len(words) < GWF.required:
            return line  # the parser rejects it
        words += ["-1"] * (last - len(words))
        for at, column in enumerate(columns, numbers):
            words[at] = column.number(words[at])
        return " ".join(words)

    parsed = parse_jobs(path, GWF, plain)
    jobs = parsed.jobs
    for name, column in zip(_TEXTS, columns, strict=True):
        text = np.array(column.text, dtype=np.int64)
        jobs[name] = np.where(text < 0, jobs[name], text + jobs[name].max() + 1)
    return parsed


class _Column:
    """One column of words that may be texts.

    Attributes
    ----------
    text
        For each line the number of its text, or -1 if the word is a whole number.
    """

    def __init__(self) -> None:
        self.text = array("q")
        self._seen: dict[str, int] = {}
        self._texts = 0

    def number(self, word: str) -> str:
        """Add a word to the column; return it if it is a whole number, else -1."""
        text = self._seen.get(word)
        if text is None:
            text = -1
            if number_fault("", word, whole=True):
                text = self._texts
                self._texts += 1
            self._seen[word] = text
        self.text.append(text)
        return word if text < 0 else "-1"
