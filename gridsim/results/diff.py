"""The first difference between two results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.results.table import Table

#: Table with a row per event -> column with the time of the event.  All other tables, and these tables if the
#: column is missing, have a row per object, such as a machine.
_EVENT_TIMES = {
    "schedule": "start",
    "arrivals": "time",
    "requests": "accepted",
    "updates": "arrived",
    "message_log": "sent",
    "observed": "time",
    "diary": "time",
}
#: Columns with times of events, in tables with a row per object.
_TIME_COLUMNS = ("first_start", "finish")


def first_difference(a: Result, b: Result) -> str | None:
    """Return a description of the earliest event in which two results differ; None if they are equal.

    Tables that only one result has, since they are recorded on request, are not compared.  If the results
    differ in no event, the first different value is described.
    """
    differences = sorted(_differences(a, b), key=lambda entry: entry[0])
    if differences:
        return differences[0][1]
    return None if a.facts == b.facts else _first_fact(a.facts, b.facts)


def _differences(a: Result, b: Result) -> Iterator[tuple[float, str]]:
    """Yield the first difference of each table as (time in s, description).

    The time is infinite for a value without a time, and -inf for tables of different length.
    """
    for name in a.tables:
        if name not in b.tables:
            continue
        first, second = a.tables[name], b.tables[name]
        if list(first) != list(second):
            yield math.inf, f"{name} has columns {', '.join(first)}, versus {', '.join(second)}"
        elif _EVENT_TIMES.get(name) in first:
            yield from _events(name, first, second)
        else:
            yield from _rows(name, first, second)


def _events(name: str, first: Table, second: Table) -> Iterator[tuple[float, str]]:
    time = _EVENT_TIMES[name]
    columns = [time, *(column for column in first if column != time)]
    first_rows, second_rows = (
        _sorted_rows([table[column] for column in columns]) for table in (first, second)
    )
    length = min(len(first), len(second))
    equal = np.ones(length, np.bool_)
    for x, y in zip(first_rows, second_rows, strict=True):
        equal &= _equal(x[:length], y[:length])
    k = int(np.argmin(equal)) if not equal.all() else length
    rows = [
        dict(zip(columns, (x[k].item() for x in side), strict=True)) if k < len(side[0]) else None
        for side in (first_rows, second_rows)
    ]
    if rows == [None, None]:
        return
    instant = min(row[time] for row in rows if row is not None)
    yield instant, f"t = {instant:.9g} s: {name}: {_row_text(rows[0])}, versus {_row_text(rows[1])}"


def _rows(name: str, first: Table, second: Table) -> Iterator[tuple[float, str]]:
    if len(first) != len(second):
        yield -math.inf, f"{name} has {len(first)} rows, versus {len(second)}"
        return
    for column in first:
        x, y = first[column], second[column]
        differs = np.flatnonzero(~_equal(x, y))
        if not len(differs):
            continue
        is_instant = column in _TIME_COLUMNS
        times = np.fmin(x[differs], y[differs]) if is_instant else np.full(len(differs), math.inf)
        k = int(differs[np.argmin(times)])
        instant = float(times.min())
        prefix = f"t = {instant:.9g} s: " if is_instant else ""
        yield instant, f"{prefix}{name}.{column}[{k}] is {x[k].item()!r}, versus {y[k].item()!r}"


def _equal(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = x == y
    if x.dtype.kind == "f" and y.dtype.kind == "f":
        same |= np.isnan(x) & np.isnan(y)
    return same


def _sorted_rows(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def _row_text(row: dict[str, Any] | None) -> str:
    return "nothing" if row is None else ", ".join(f"{key} {value!r}" for key, value in row.items())


def _first_fact(a: dict[str, Any], b: dict[str, Any]) -> str:
    for key in [*a, *(key for key in b if key not in a)]:
        if a.get(key) != b.get(key):
            return f"facts[{key!r}] is {a.get(key)!r}, versus {b.get(key)!r}"
    return "facts differ"
