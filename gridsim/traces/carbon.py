"""Carbon intensity of electricity: a CSV table with the columns time_s and g_per_kwh."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import csv_rows, format_error, number_fault, truncate

_COLUMNS = ("time_s", "g_per_kwh")
#: Largest time (s) and carbon intensity (g/kWh) in a table.
_MAXIMA = (2.0**53, 1e9)


def read_carbon(path: StrPath) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read the carbon intensity of electricity from a CSV table, plain or gzip.

    Returns
    -------
    time
        float64[k], ascending times from which the values hold, s.
    value
        float64[k], g of CO2 per kWh.

    Raises
    ------
    TraceFormatError
        If a column is missing, a number is negative or too large, times do not ascend, or there is no row.
    """
    steps: list[tuple[float, float]] = []
    with closing(csv_rows(path)) as rows:
        _, header = next(rows, (1, []))
        names = [name.strip() for name in header]
        for name in _COLUMNS:
            if names.count(name) != 1:
                got = truncate(", ".join(header)) or "nothing"
                raise format_error(path, 1, f"the header must have column {name} once, got {got}")
        places = [names.index(name) for name in _COLUMNS]
        for line, row in rows:
            if len(row) != len(header):
                raise format_error(path, line, f"a row must have {len(header)} fields, got {len(row)}")
            for name, k, maximum in zip(_COLUMNS, places, _MAXIMA, strict=True):
                if fault := number_fault(name, row[k], maximum=maximum):
                    raise format_error(path, line, fault)
                if float(row[k]) < 0:
                    raise format_error(path, line, f"field {name} must be at least 0, got {truncate(row[k])}")
            time, value = (float(row[k]) for k in places)
            if steps and time <= steps[-1][0]:
                message = f"field time_s must be > {steps[-1][0]:.16g}, the time before, got {time:.16g}"
                raise format_error(path, line, message)
            steps.append((time, value))
    if not steps:
        raise format_error(path, 1, "the table must have at least one step, got none")
    columns = np.array(steps)
    return columns[:, 0].copy(), columns[:, 1].copy()
