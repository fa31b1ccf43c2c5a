"""Job logs in the Grid Workload Format (GWF) of the Grid Workloads Archive.

Source: A. Iosup et al., "The Grid Workloads Archive" (FGCS 24, 2008): 29 fields per line, separated by white
space, -1 for unknown, comment lines that begin with `#`. The first 16 fields are those of the
Standard Workload Format, but users, groups, executables, queues and partitions may be texts (U12, G3).
Fields 19 and 20 are the structure of the job and its parameters.  The logs of the archive have jobs of their
own (UNITARY) and bags (BoT, with the number of the bag); jobs of workflows (DAG) are read with the numbers of
the jobs that they follow.  The others describe sites, networks, disks, virtual organizations and projects.
"""

from __future__ import annotations

import re
from contextlib import closing

import numpy as np

from gridsim.support.files import StrPath
from gridsim.traces._text import Remark, text_lines
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair
from gridsim.traces.opendc import is_opendc_header, parse_opendc
from gridsim.traces.text_columns import MixedColumn

GWF_FIELDS = JOB_FIELDS[:16]
_TEXTS = GWF_FIELDS[11:]  # user to partition
# Fields up to the user are required, since runs depend on submission, run time, processors and user; later
# fields are missing or -1 in many logs.
GWF = JobFormat("#", GWF_FIELDS, min_fields=12, columns=29, texts=_TEXTS)

#: Indices of the fields of the structure of a job and its parameters.
_STRUCTURE, _PARAMETERS = 18, 19
#: Structures, in lower case, of jobs without predecessors, and of jobs of workflows.
_INDEPENDENT, _WORKFLOW = frozenset(("unitary", "bot")), frozenset(("dag", "workflow"))
_NUMBERS = re.compile(r"\d{1,15}([,;]\d{1,15})*")


def read_gwf(path: StrPath) -> JobLog:
    """Read a job log in Grid Workload Format, plain or gzip.

    Of the columns after the 16th (partition) only the structure of jobs (19) and its parameters (20) are
    used: a job of the structure DAG follows the jobs whose numbers its parameters list, as 3 or 3,7.  Columns
    after the 12th (user) may be missing, which counts as unknown.  A user, group, executable, queue or
    partition that is not a whole number is replaced by a number: the texts of a column are numbered in the
    order of their first appearance in the file, from 0 or, if the column has numbers too, from the largest of
    them + 1.  The repairs are those of `read_swf`, in one `TraceWarning`.  CSV files with OpenDC's column
    names (`gridsim.traces.opendc`) are read, too.

    Raises
    ------
    TraceFormatError
        If a line has fewer than 12 fields, another field that is used is not a finite number (or a whole
        number if it is an identifier or a count), or the file is missing, truncated, binary or without jobs.
        The message begins with the file and any faulty line.
    """
    return load_gwf(path).report_repairs()


def load_gwf(path: StrPath) -> JobLog:
    """Read a job log as `read_gwf` does, without a warning about repairs."""
    return repair(path, parse_gwf(path))


def parse_gwf(path: StrPath) -> ParsedJobs:
    """Return header and jobs as they are in the file, without repairs; raises the errors of `read_gwf`."""
    with closing(text_lines(path)) as lines:
        if is_opendc_header(next(lines, "")):
            return parse_opendc(path)
    columns = [MixedColumn() for _ in _TEXTS]
    numbers, last = len(GWF_FIELDS) - len(_TEXTS), len(GWF_FIELDS)
    structures: dict[int, tuple[str, str]] = {}  # row -> structure and parameters
    row = -1

    def plain_line(line: str) -> str:
        nonlocal row
        row += 1
        words = line.split(None, _PARAMETERS + 1)
        if len(words) < GWF.min_fields:
            return line  # the parser rejects the line
        structure = words[_STRUCTURE].lower() if len(words) > _STRUCTURE else ""
        if structure[:1].isalpha() and structure not in _INDEPENDENT:
            structures[row] = structure, words[_PARAMETERS] if len(words) > _PARAMETERS else "-1"
        del words[last:]
        words += ["-1"] * (last - len(words))
        for k, column in enumerate(columns, numbers):
            words[k] = column.add(words[k])
        return " ".join(words)

    parsed_jobs = parse_jobs(path, GWF, plain_line)
    jobs = parsed_jobs.jobs
    for name, column in zip(_TEXTS, columns, strict=True):
        jobs[name], _ = column.numbers(jobs[name])
    return _with_predecessors(parsed_jobs, structures)


def _with_predecessors(parsed_jobs: ParsedJobs, structures: dict[int, tuple[str, str]]) -> ParsedJobs:
    """Return the jobs with the preceding ones that their structures state; remarks count other structures."""
    jobs = parsed_jobs.jobs
    further: list[tuple[int, int]] = []
    unread: list[int] = []
    unknown: list[int] = []
    for row, (structure, parameters) in structures.items():
        line = jobs["line"].item(row)
        if structure not in _WORKFLOW:
            unknown.append(line)
        elif _NUMBERS.fullmatch(parameters):
            jobs["preceding"][row], *others = map(int, re.split("[,;]", parameters))
            further += [(line, other) for other in others]
        elif parameters != "-1":
            unread.append(line)
    remarks = (
        Remark(
            np.array(unread, np.int64),
            "jobs of workflows that list no numbers of jobs in field 20, read alone",
        ),
        Remark(np.array(unknown, np.int64), "jobs of an unknown structure (field 19), read alone"),
    )
    return parsed_jobs._replace(
        further=np.array(further, np.int64).reshape(-1, 2),
        remarks=tuple(remark for remark in remarks if len(remark.lines)),
    )
