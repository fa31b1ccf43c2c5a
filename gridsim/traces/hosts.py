"""Speeds of volunteer computers from BOINC's public tables of hosts by processor model.

Source: the CPU tables of SETI@home and Einstein@Home: CSV with a header line cpu_model, computers, avg_cores,
gflops_core, gflops_computer. Model names with commas are quoted. The list of CPUs that BOINC offers for
download (cpu_list.php) is split by tabs and has other names, `BOINC_NAMES`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_COUNT,
    LARGEST_VALUE,
    csv_rows,
    format_error,
    number_fault,
    truncate,
    warn_repairs,
)

_Table = tuple[list[str], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

MFLOPS_PER_GFLOPS = 1000.0
#: Column of the list that can be downloaded from BOINC -> column of a table of hosts.
BOINC_NAMES = {
    "CPU model": "cpu_model",
    "Number of computers": "computers",
    "Avg. cores/computer": "avg_cores",
    "GFLOPS/core": "gflops_core",
    "GFLOPs/computer": "gflops_computer",
}
#: Largest number of computers in a table of hosts, so that drawing one of them fits into int64.
MAX_COMPUTERS = 2**53
#: Column of the mean number of cores of the computers of a model.
CORES = "avg_cores"


@dataclass(frozen=True)
class HostSpeeds:
    """Distribution of host speeds.

    Parameters
    ----------
    path
        The file that was read.
    speed
        float64[m], speed of a host of each model, Mflop/s.
    weight
        int64[m], number of computers of each model.
    model
        The m model names, which may have duplicates.
    cores
        int64[m], number of cores of a host of each model, the mean in the table rounded to at least 1; None
        if the cores were not read.
    """

    path: str
    speed: NDArray[np.float64]
    weight: NDArray[np.int64]
    model: tuple[str, ...]
    cores: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.model)

    def mean(self) -> float:
        """Return the mean speed over all computers, Mflop/s."""
        return float(np.average(self.speed, weights=self.weight))

    def sample(self, nodes: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return speeds of computers drawn uniformly with replacement: float64[nodes], Mflop/s.

        Raises
        ------
        ScenarioError
            If the number of nodes is negative.
        """
        speed: NDArray[np.float64] = self.speed[self.draw(nodes, rng)]
        return speed

    def draw(self, nodes: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the models of computers drawn as by `sample`: int64[nodes]."""
        if nodes < 0:
            raise ScenarioError(f"nodes must be at least 0, got {nodes}")
        total = np.cumsum(self.weight)  # computer k is of the first model with total > k
        return np.searchsorted(total, rng.integers(int(total[-1]), size=nodes), side="right")


def read_host_speeds(path: StrPath, column: str = "gflops_core", *, cores: bool = False) -> HostSpeeds:
    """Read a CSV table of hosts (plain or gzip).

    Rows of 0 Gflop/s or 0 computers are left out; one `TraceWarning` counts them.

    Parameters
    ----------
    column
        The column of the speeds, in Gflop/s: `gflops_core` is the speed of one core (a machine that runs one
        task at a time), `gflops_computer` the speed of all cores.
    cores
        Whether to read the number of cores as well, the column `avg_cores`.

    Raises
    ------
    TraceFormatError
        If a column is missing, a row has another number of fields than the header (a model name with a comma
        must be quoted), a speed or number of computers is negative or not a finite number, the table has more
        than `MAX_COMPUTERS` computers, or the file is missing, truncated, binary or without hosts.  The
        message begins with the file and any faulty line.
    """
    models, speed, weight, line, core_means = parse_host_speeds(path, column, cores=cores)
    empty = np.flatnonzero((speed == 0) | (weight == 0))
    usable = np.flatnonzero((speed > 0) & (weight > 0))
    if not len(usable):
        raise format_error(
            path,
            int(line[-1]) if len(line) else 1,
            "the table must have a host with a speed > 0 and computers > 0, got none",
        )
    first = int(line[empty[0]]) if len(empty) else 0
    warn_repairs(path, [(len(empty), first, "rows without a speed or computers, left out")])
    speed, weight = speed[usable] * MFLOPS_PER_GFLOPS, weight[usable]
    speed.flags.writeable = weight.flags.writeable = False
    counts = np.maximum(np.rint(core_means[usable]), 1).astype(np.int64) if cores else None
    return HostSpeeds(os.fspath(path), speed, weight, tuple(models[row] for row in usable), counts)


def parse_host_speeds(path: StrPath, column: str = "gflops_core", *, cores: bool = False) -> _Table:
    """Return models, Gflop/s, computers, lines of the file and mean numbers of cores of the rows.

    Without `cores`, the last array is empty.  It raises the errors of `read_host_speeds`.
    """
    models: list[str] = []
    speed, weight, lines, core_means = array("d"), array("q"), array("q"), array("d")
    total = 0
    with closing(_rows(path, column, *([CORES] if cores else []))) as rows:
        for number, fault, row in rows:
            if fault:
                raise format_error(path, number, fault)
            models.append(row[0])
            weight.append(int(float(row[1])))
            speed.append(float(row[2]))
            core_means.extend(map(float, row[3:]))
            lines.append(number)
            total += weight[-1]
            if total > MAX_COMPUTERS:
                message = f"field computers must be at most {MAX_COMPUTERS} in total, got {total}"
                raise format_error(path, number, message)
    counts = np.array(weight, dtype=np.int64), np.array(lines, dtype=np.int64)
    return models, np.array(speed), *counts, np.array(core_means)


def has_host_columns(path: StrPath) -> bool:
    """Return whether the header of a CSV file has a column of a table of hosts, or is empty."""
    with closing(csv_rows(path)) as rows:
        _, header = next(rows, (1, []))
    names = {name.strip() for name in header} - {""}
    return not names or not names.isdisjoint({*BOINC_NAMES, *BOINC_NAMES.values()})


def faulty_lines(path: StrPath, column: str = "gflops_core") -> Iterator[tuple[int, str]]:
    """Yield (line number, fault) for each row that cannot be read; raise an error for a faulty header."""
    with closing(_rows(path, column)) as rows:
        for number, fault, _ in rows:
            if fault:
                yield number, fault


def _rows(path: StrPath, *columns: str) -> Generator[tuple[int, str | None, list[str]], None, None]:
    """Yield the line, the fault (or None) and the model, computers and `columns` of each row."""
    with closing(csv_rows(path)) as rows:
        _, header = next(rows, (1, []))
        header = [BOINC_NAMES.get(name.strip(), name.strip()) for name in header]
        for name in ("cpu_model", "computers", *columns):
            if header.count(name) > 1:
                raise format_error(
                    path, 1, f"the header must have column {name} once, got {header.count(name)}"
                )
            if name not in header:
                raise format_error(
                    path,
                    1,
                    f"the header must have column {name}, got {truncate(', '.join(header)) or 'nothing'}",
                )
        places = [header.index(name) for name in ("cpu_model", "computers", *columns)]
        for number, row in rows:
            if len(row) != len(header):
                fault = f"a row must have {len(header)} fields (quoted if they have commas), got {len(row)}"
                yield number, fault, row
                continue
            values = [row[place] for place in places]
            faults = (_fault(name, word) for name, word in zip(columns, values[2:], strict=True))
            yield number, next(filter(None, faults), None) or _fault("computers", values[1]), values


def _fault(field: str, word: str) -> str | None:
    is_count = field == "computers"
    if fault := number_fault(
        field, word, integer=is_count, maximum=LARGEST_COUNT if is_count else LARGEST_VALUE
    ):
        return fault
    return f"field {field} must be at least 0, got {truncate(word)}" if float(word) < 0 else None
