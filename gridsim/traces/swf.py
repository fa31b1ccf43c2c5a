"""Job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2): 18 white-space separated
fields per line, -1 for unknown, comment lines that begin with `;`.

Some logs have semicolons between their fields, and names of users, groups, executables, queues and
partitions.
"""

from __future__ import annotations

from contextlib import closing

from gridsim.support.files import StrPath
from gridsim.traces._text import text_lines
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, parse_jobs, repair
from gridsim.traces.text_columns import MixedColumn

SWF_FIELDS = JOB_FIELDS
SWF = JobFormat(";", SWF_FIELDS, min_fields=len(SWF_FIELDS), columns=len(SWF_FIELDS))
SwfLog = JobLog
#: Field that may have names -> key of the header lines that list them.
NAME_KEYS = {
    "user": "User",
    "group": "Group",
    "executable": "Application",
    "queue": "Queue",
    "partition": "Partition",
}
#: The format of logs with semicolons between their fields.
_SEMICOLONS = JobFormat(
    ";", SWF_FIELDS, len(SWF_FIELDS), columns=len(SWF_FIELDS) + 1, texts=tuple(NAME_KEYS), separator=";"
)


def read_swf(path: StrPath) -> JobLog:
    """Read a job log in Standard Workload Format, plain or gzip.

    Fields may also be divided by semicolons; names of users, groups, executables, queues and partitions are
    then numbered from 1 in the order of their first appearance, and the header lists them.  Columns after the
    18 standard ones are ignored, and so is a first line with their names.  A value that cannot be read counts
    as unknown if runs do not need its field (such as queue or memory).  One `TraceWarning` counts four
    repairs: submissions out of order are sorted (stably), run times below -1 become -1 (unknown), parts of a
    job without a line for the whole job get the submissions that they do not state, and groups, queues,
    preceding jobs and think times that cannot be read are unknown.

    Raises
    ------
    TraceFormatError
        If a line has fewer than 18 fields, a field that is used is not a finite number (or a whole number if
        it is an identifier or a count), or the file is missing, truncated, binary or without jobs.  The
        message begins with the file and any faulty line.
    """
    return load_swf(path).report_repairs()


def load_swf(path: StrPath) -> JobLog:
    """Read a job log as `read_swf` does, without a warning about repairs."""
    return repair(path, parse_swf(path))


def parse_swf(path: StrPath) -> ParsedJobs:
    """Return header and jobs as in the file, without any repair; raises the errors of `read_swf`."""
    return _parse_semicolons(path) if _has_semicolons(path) else parse_jobs(path, SWF)


def text_format(path: StrPath) -> JobFormat:
    """Return the format of the lines of a log: with white space or with semicolons between fields."""
    return _SEMICOLONS if _has_semicolons(path) else SWF


def is_semicolon_job(line: str) -> bool:
    """Return whether a line looks like a job whose fields are divided by semicolons."""
    return line.count(";") >= len(SWF_FIELDS) - 1 and not line.lstrip().startswith(";")


def _has_semicolons(path: StrPath) -> bool:
    with closing(text_lines(path)) as lines:
        return is_semicolon_job(next((line for line in lines if SWF.is_job(line)), ""))


def _parse_semicolons(path: StrPath) -> ParsedJobs:
    columns = {name: MixedColumn() for name in NAME_KEYS}
    positions = [(SWF_FIELDS.index(name), column) for name, column in columns.items()]

    def plain_line(line: str) -> str:
        words = _SEMICOLONS.words(line)[: len(SWF_FIELDS)]
        if len(words) == len(SWF_FIELDS):
            for k, column in positions:
                words[k] = column.add(words[k])
        # A field with a blank must not become two fields: joined by `_`, it is one that the parser rejects.
        return " ".join(word.replace(" ", "_") for word in words)

    parsed_jobs = parse_jobs(path, _SEMICOLONS, plain_line)
    header = dict(parsed_jobs.header)
    for name, column in columns.items():
        parsed_jobs.jobs[name], names = column.numbers(parsed_jobs.jobs[name], 1)
        if names:
            header[NAME_KEYS[name]] = names
    return parsed_jobs._replace(header=header)
