"""OpenDC's variant of the Grid Workload Format: tasks of workflows, with commas and a line of names.

The columns are ``WorkflowID, JobID, SubmitTime, RunTime, NProcs, ReqNProcs, Dependencies``, times in s.

Source: F. Mastenbroek et al., "OpenDC 2.0: Convenient Modeling and Simulation of Emerging Technologies in
Cloud Datacenters" (CCGrid 2021).
"""

from __future__ import annotations

import re
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import LARGEST_COUNT, LARGEST_VALUE, csv_rows, format_error, number_fault
from gridsim.traces.jobs import JOB_DTYPE, ParsedJobs

__all__ = ["is_opendc_header", "parse_opendc"]

#: Column -> field of a job; a workflow is read as a user, whose jobs form bags.
_FIELDS = {
    "WorkflowID": "user",
    "JobID": "job",
    "SubmitTime": "submit",
    "RunTime": "run_time",
    "NProcs": "used_procs",
    "ReqNProcs": "req_procs",
}
_DEPENDENCIES = "Dependencies"


def is_opendc_header(line: str) -> bool:
    """Return whether a line consists of OpenDC's column names."""
    return set(_FIELDS) <= {word.strip() for word in line.split(",")}


def parse_opendc(path: StrPath) -> ParsedJobs:
    """Return the tasks as jobs, with their dependencies as preceding jobs.

    Raises
    ------
    TraceFormatError
        If a line has too few fields, a field is not a finite number (or a whole number if it is an identifier
        or a count), or the file has no tasks.  The message begins with the file and any faulty line.
    """
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    preceding: list[int] = []
    further: list[tuple[int, int]] = []
    with closing(csv_rows(path)) as lines:
        names = [word.strip() for word in next(lines)[1]]
        positions = {field: names.index(name) for name, field in _FIELDS.items()}
        column = names.index(_DEPENDENCIES) if _DEPENDENCIES in names else None
        for number, words in lines:
            if len(words) <= max(positions.values()):
                message = f"a line must have {len(names)} fields, as many as the first, got {len(words)}"
                raise format_error(path, number, message)
            for field, k in positions.items():
                integer = JOB_DTYPE[field] == np.int64
                maximum = LARGEST_COUNT if field.endswith("procs") else LARGEST_VALUE
                if fault := number_fault(names[k], words[k].strip(), integer=integer, maximum=maximum):
                    raise format_error(path, number, fault)
            rows.append(tuple(float(words[k]) for k in positions.values()))
            numbers.append(number)
            word = words[column].strip() if column is not None and column < len(words) else ""
            first, *others = [-1] if word == "-1" else [*map(int, re.findall(r"\d{1,15}", word))] or [-1]
            preceding.append(first)
            further += [(number, other) for other in others]
    if not rows:
        raise format_error(path, 1, "no jobs in this log")
    jobs: NDArray[np.void] = np.full(len(rows), -1, dtype=JOB_DTYPE)
    for field, values in zip(positions, np.array(rows).T, strict=True):
        jobs[field] = values
    jobs["line"], jobs["preceding"] = numbers, preceding
    return ParsedJobs({}, jobs, np.zeros(0, np.int64), further=np.array(further, np.int64).reshape(-1, 2))
