"""The Grid Workload Format as OpenDC has it: tasks of workflows, with commas and a line of names.

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
from gridsim.traces._text import LARGEST, LARGEST_COUNT, csv_rows, format_error, number_fault
from gridsim.traces.jobs import JOB_DTYPE

__all__ = ["names_opendc", "parse_opendc"]

#: Its columns -> the field of a job; a workflow is taken for a user, whose jobs make bags.
_FIELDS = {
    "WorkflowID": "user",
    "JobID": "job",
    "SubmitTime": "submit",
    "RunTime": "run_time",
    "NProcs": "used_procs",
    "ReqNProcs": "req_procs",
}
_WAITS_FOR = "Dependencies"


def names_opendc(line: str) -> bool:
    """Return whether a line has the names of its columns."""
    return set(_FIELDS) <= {word.strip() for word in line.split(",")}


def parse_opendc(path: StrPath) -> NDArray[np.void]:
    """Return the tasks as jobs; their preceding job is the first of those that they wait for.

    Raises `TraceFormatError` "FILE:LINE: ..." for a line of too few fields, a field that is not a finite
    number (or has a fraction where only whole numbers make sense), and a file without tasks.
    """
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    preceding: list[int] = []
    with closing(csv_rows(path)) as lines:
        names = [word.strip() for word in next(lines)[1]]
        at = {field: names.index(name) for name, field in _FIELDS.items()}
        waits = names.index(_WAITS_FOR) if _WAITS_FOR in names else None
        for number, words in lines:
            if len(words) <= max(at.values()):
                said = f"{len(words)} fields, expected the {len(names)} of the first line"
                raise format_error(path, number, said)
            for field, k in at.items():
                whole = JOB_DTYPE[field] == np.int64
                most = LARGEST_COUNT if field.endswith("procs") else LARGEST
                if fault := number_fault(names[k], words[k].strip(), whole=whole, most=most):
                    raise format_error(path, number, fault)
            rows.append(tuple(float(words[k]) for k in at.values()))
            numbers.append(number)
            named = words[waits].strip() if waits is not None and waits < len(words) else ""
            first = None if named == "-1" else re.search(r"\d{1,15}", named)
            preceding.append(int(first[0]) if first else -1)
    if not rows:
        raise format_error(path, 1, "no jobs in this log")
    jobs: NDArray[np.void] = np.full(len(rows), -1, dtype=JOB_DTYPE)
    for field, column in zip(at, np.array(rows).T, strict=True):
        jobs[field] = column
    jobs["line"], jobs["preceding"] = numbers, preceding
    return jobs
