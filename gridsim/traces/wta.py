"""Workloads of the Workflow Trace Archive (WTA): tables of tasks in Parquet files.

Source: L. Versluis et al., "The Workflow Trace Archive: Open-Access Data from Public and Private Computing
Infrastructures" (TPDS 31, 2020).  A workload is a folder ``tasks/schema-1.0`` with one or more files; times
are ms, memory is KB.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath, open_regular
from gridsim.support.imports import import_extra
from gridsim.traces._text import format_error
from gridsim.traces.accounting import make_jobs, unique_numbers
from gridsim.traces.jobs import ParsedJobs
from gridsim.traces.tables import AccountingTable, check_columns

SUFFIX = ".parquet"
#: Folders of the tasks, within the folder of a workload.
_FOLDERS = ("tasks/schema-1.0", "schema-1.0", ".")
_COLUMNS = (
    *("id", "ts_submit", "runtime", "wait_time", "resource_amount_requested", "memory_requested"),
    *("user_id", "group_id", "workflow_id", "parents"),
)
_NEEDS = {
    "a submit time": ("ts_submit",),
    "a run time": ("runtime",),
    "processors": ("resource_amount_requested",),
}


def wta_files(path: StrPath) -> list[str]:
    """Return the files of a workload: the file, or the sorted files of its folder of tasks."""
    if not os.path.isdir(path):
        return [os.fspath(path)]
    for folder in _FOLDERS:
        if files := sorted(map(os.fspath, Path(path, folder).glob(f"*{SUFFIX}"))):
            return files
    return []


def parse_wta(path: StrPath) -> ParsedJobs:
    """Return the tasks of a workload as jobs; the line of a job is its row.

    A task needs its amount of resources, rounded up, as processors.  Its parents are its preceding jobs.
    Workflows are users if no user is known.

    Raises
    ------
    TraceFormatError
        If a file is not such a table, or a value is out of range.
    MissingExtra
        If pyarrow is not installed.
    """
    parquet = import_extra("pyarrow.parquet", "data", "reading workloads of the Workflow Trace Archive")
    parts = [_columns(parquet, file) for file in wta_files(path)]
    if not parts:
        raise format_error(path, 0, f"no {SUFFIX} file in this folder")
    names = parts[0][0]
    columns = {
        name: np.concatenate([part[name] for _, part, _ in parts])
        for name in _COLUMNS
        if all(name in part for _, part, _ in parts)
    }
    count = len(columns["ts_submit"])
    unknown = np.full(count, np.nan)

    def known(name: str, low: float = 0.0) -> NDArray[np.float64]:
        values = columns.get(name, unknown)
        return np.where(values >= low, values, np.nan)

    number = known("id")
    if len(np.unique(number)) != count:
        number = unknown
    procs = np.ceil(known("resource_amount_requested"))
    procs = np.where(procs > 0, procs, np.nan)
    users = known("user_id")
    fields = {
        "job": unique_numbers(number),
        "submit": columns["ts_submit"] / 1000.0,
        "wait": known("wait_time") / 1000.0,
        "run_time": known("runtime") / 1000.0,
        "used_procs": procs,
        "req_procs": procs,
        "req_memory": known("memory_requested") / procs,
        "user": known("workflow_id") if np.isnan(users).all() else users,
        "group": known("group_id"),
        "preceding": known("parents") if number is not unknown else unknown,
    }
    line = np.arange(1, count + 1)
    extra = AccountingTable(os.fspath(path), tuple(names), {}, line).unused(_COLUMNS)
    header = {"Computer": "Workflow Trace Archive"}
    parsed = make_jobs(path, fields, line, header=header, is_local=None, remarks=(extra,))
    first_rows = np.cumsum([1, *(len(part["ts_submit"]) for _, part, _ in parts[:-1])])
    further = np.concatenate([pairs + [row, 0] for (*_, pairs), row in zip(parts, first_rows, strict=True)])
    return parsed._replace(further=further if number is not unknown else further[:0])


def _columns(parquet: Any, file: str) -> tuple[list[str], dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Return the names of all columns, the columns that are kept, and the parents besides the first ones.

    These are pairs of a row and a parent, int64[n, 2].
    """
    try:
        stream = open_regular(file)
    except OSError as error:
        raise format_error(file, 0, error.strerror or str(error)) from error
    with stream:
        try:
            table = parquet.ParquetFile(stream)
            names = list(table.schema_arrow.names)
            check_columns(file, names, _NEEDS, "it must be the table of tasks of a workload")
            kept = [name for name in _COLUMNS if name in names]
            values = {name: table.read([name]).column(0) for name in kept}
            parents = values.pop("parents").to_pylist() if "parents" in values else []
            columns = {name: _numbers(file, name, column) for name, column in values.items()}
            if parents:
                firsts = [float(entry[0]) if entry else np.nan for entry in parents]
                columns["parents"] = np.array(firsts)
            pairs = [(row, parent) for row, entry in enumerate(parents) for parent in (entry or ())[1:]]
        except TraceFormatError:
            raise
        except Exception as error:  # Arrow has errors of many classes
            raise format_error(file, 0, f"not a Parquet file that can be read ({error})") from error
    return names, columns, np.array(pairs, np.int64).reshape(-1, 2)


def _numbers(file: str, name: str, column: Any) -> NDArray[np.float64]:
    """Return a column as numbers, NaN for missing values."""
    try:
        return np.array(column.to_numpy(), np.float64)
    except (TypeError, ValueError) as error:
        raise format_error(file, 0, f"column {name} must have numbers, got {column.type}") from error
