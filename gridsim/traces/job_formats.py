"""The formats of job logs: how each is recognized and read.

A format that is added to `JOB_FORMATS` is known to detection, `info`, `lint`, `convert` and all readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath
from gridsim.traces import gwf, swf
from gridsim.traces._text import text_lines
from gridsim.traces.batsim import parse_batsim
from gridsim.traces.htcondor import is_htcondor, parse_htcondor
from gridsim.traces.jobs import JOB_FIELDS, JobFormat, JobLog, ParsedJobs, repair
from gridsim.traces.sacct import parse_sacct, table_separator
from gridsim.traces.wta import SUFFIX, parse_wta, wta_files


@dataclass(frozen=True)
class JobLogFormat:
    """A format of job logs.

    Parameters
    ----------
    description
        Description, in one line.
    parse
        Function of a path that returns header and jobs as in the file, without repairs.
    suffixes
        Suffixes of the names of its files; ``.gz`` may follow.
    recognizes
        Function of a path that returns whether the content of a file has this format; None if it is detected
        from its records.
    fields
        Fields that its jobs may have.
    lines
        Function of a path that returns the format of the lines, for formats with one job per line.
    """

    description: str
    parse: Callable[[StrPath], ParsedJobs]
    suffixes: tuple[str, ...] = ()
    recognizes: Callable[[StrPath], bool] | None = None
    fields: tuple[str, ...] = JOB_FIELDS
    lines: Callable[[StrPath], JobFormat] | None = None

    def load(self, path: StrPath) -> JobLog:
        """Return the repaired log, without a warning."""
        return repair(path, self.parse(path))

    def files(self, path: StrPath) -> list[str]:
        """Return the files that are read."""
        return wta_files(path) if self.parse is parse_wta else [os.fspath(path)]


def _is_sacct(path: StrPath) -> bool:
    return table_separator(_first_line(path)) is not None


def _is_batsim(path: StrPath) -> bool:
    return _first_line(path).lstrip().startswith("{")


def _is_wta(path: StrPath) -> bool:
    return Path(path).is_dir() and bool(wta_files(path))


def _first_line(path: StrPath) -> str:
    with closing(text_lines(path)) as lines:
        return next((line for line in lines if line.strip()), "")


JOB_FORMATS = {
    "swf": JobLogFormat(
        "job logs in the Standard Workload Format, also with semicolons between fields",
        swf.parse_swf,
        (".swf",),
        fields=swf.SWF_FIELDS,
        lines=swf.text_format,
    ),
    "gwf": JobLogFormat(
        "job logs in the Grid Workload Format",
        gwf.parse_gwf,
        (".gwf",),
        fields=gwf.GWF_FIELDS,
        lines=lambda path: gwf.GWF,
    ),
    "sacct": JobLogFormat("job logs of Slurm: tables of sacct -P", parse_sacct, recognizes=_is_sacct),
    "htcondor": JobLogFormat(
        "job logs of HTCondor: condor_history -long, -json or -af:h", parse_htcondor, recognizes=is_htcondor
    ),
    "batsim": JobLogFormat("workloads of Batsim (JSON) with delays", parse_batsim, recognizes=_is_batsim),
    "wta": JobLogFormat(
        "workloads of the Workflow Trace Archive (Parquet)", parse_wta, (SUFFIX,), recognizes=_is_wta
    ),
}


def format_of_content(path: StrPath) -> str:
    """Return the format of a job log by its content; "" if the content does not show it."""
    for name, format in JOB_FORMATS.items():
        with suppress(TraceFormatError):  # the reader raises it again
            if format.recognizes is not None and format.recognizes(path):
                return name
    return ""
