"""Job logs in the Grid Workload Format (GWF) of the Grid Workloads Archive.

Source: A. Iosup et al., "The Grid Workloads Archive" (FGCS 24, 2008): 29 fields per line, separated by white
space, -1 for unknown, comment lines that begin with `#`. The first 16 fields are those of the
Standard Workload Format, but users, groups, executables, queues and partitions may be texts (U12, G3). The
others describe sites, networks, disks, virtual organizations and projects.
"""

from __future__ import annotations

from contextlib import closing

from gridsim.support.files import StrPath
from gridsim.traces._text import text_lines
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair
from gridsim.traces.opendc import is_opendc_header, parse_opendc
from gridsim.traces.text_columns import MixedColumn

GWF_FIELDS = JOB_FIELDS[:16]
_TEXTS = GWF_FIELDS[11:]  # user to partition
# Fields up to the user are required, since runs depend on submission, run time, processors and user; later
# fields are missing or -1 in many logs.
GWF = JobFormat("#", GWF_FIELDS, min_fields=12, columns=29, texts=_TEXTS)


def read_gwf(path: StrPath) -> JobLog:
    """Read a job log in Grid Workload Format, plain or gzip.

    Columns after the 16th (partition) are ignored.  Columns after the 12th (user) may be missing, which
    counts as unknown.  A user, group, executable, queue or partition that is not a whole number is replaced
    by a number: the texts of a column are numbered in the order of their first appearance in the file, from 0
    or, if the column has numbers too, from the largest of them + 1.  The repairs are those of `read_swf`, in
    one `TraceWarning`.  CSV files with OpenDC's column names (`gridsim.traces.opendc`) are read, too.

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

    def plain_line(line: str) -> str:
        words = line.split(None, last)[:last]
        if len(words) < GWF.min_fields:
            return line  # the parser rejects the line
        words += ["-1"] * (last - len(words))
        for k, column in enumerate(columns, numbers):
            words[k] = column.add(words[k])
        return " ".join(words)

    parsed_jobs = parse_jobs(path, GWF, plain_line)
    jobs = parsed_jobs.jobs
    for name, column in zip(_TEXTS, columns, strict=True):
        jobs[name], _ = column.numbers(jobs[name])
    return parsed_jobs
