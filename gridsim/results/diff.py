"""The first difference between two results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.result import Result
from gridsim.results.table import Table

#: Tables with a row per event -> column with its time; other tables have a row per thing, such as a machine,
#: as have tables of these names without that column.
EVENTS = {
    "schedule": "start",
    "arrivals": "time",
    "requests": "accepted",
    "updates": "arrived",
    "message_log": "sent",
}
#: Columns of other tables that hold the time of something that happened to the thing of a row.
_INSTANTS = ("first_start", "finish")


def first_difference(a: Result, b: Result) -> str | None:
    """Describe the earliest event that only one of two results has, or return None if they are equal.

    Tables that only one of them has, because they were recorded on request, are not compared.  If nothing
    that has a time differs, the first value that differs is described.
    """
    found = sorted(_differences(a, b), key=lambda entry: entry[0])
    if found:
        return found[0][1]
    return None if a.facts == b.facts else _facts(a.facts, b.facts)


def _differences(a: Result, b: Result) -> Iterator[tuple[float, str]]:
    """Iterate over the first difference of each table as (time in s, description).

    The time is inf for values without a time, and -inf for tables of different length.
    """
    for name in a.tables:
        if name not in b.tables:
            continue
        one, other = a.tables[name], b.tables[name]
        if list(one) != list(other):
            yield math.inf, f"{name} has columns {', '.join(one)}, and {', '.join(other)}"
        elif EVENTS.get(name) in one:
            yield from _events(name, one, other)
        else:
            yield from _rows(name, one, other)


def _events(name: str, one: Table, other: Table) -> Iterator[tuple[float, str]]:
    time = EVENTS[name]
    columns = [time, *(column for column in one if column != time)]
    here, there = (_sorted([table[column] for column in columns]) for table in (one, other))
    least = min(len(one), len(other))
    same = np.ones(least, np.bool_)
    for x, y in zip(here, there, strict=True):
        same &= _equal(x[:least], y[:least])
    k = int(np.argmin(same)) if not same.all() else least
    rows = [
        dict(zip(columns, (x[k].item() for x in side), strict=True)) if k < len(side[0]) else None
        for side in (here, there)
    ]
    if rows == [None, None]:
        return
    at = min(row[time] for row in rows if row is not None)
    yield at, f"t = {at:.9g} s: {name}: {_say(rows[0])}, and {_say(rows[1])}"


def _rows(name: str, one: Table, other: Table) -> Iterator[tuple[float, str]]:
    if len(one) != len(other):
        yield -math.inf, f"{name} has {len(one)} rows, and {len(other)}"
        return
    for column in one:
        x, y = one[column], other[column]
        differs = np.flatnonzero(~_equal(x, y))
        if not len(differs):
            continue
        timed = column in _INSTANTS
        times = np.fmin(x[differs], y[differs]) if timed else np.full(len(differs), math.inf)
        k = int(differs[np.argmin(times)])
        at = float(times.min())
        when = f"t = {at:.9g} s: " if timed else ""
        yield at, f"{when}{name}.{column}[{k}] is {x[k].item()!r}, and {y[k].item()!r}"


def _equal(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = x == y
    if x.dtype.kind == "f" and y.dtype.kind == "f":
        same |= np.isnan(x) & np.isnan(y)
    return same


def _sorted(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def _say(row: dict[str, Any] | None) -> str:
    return "nothing" if row is None else ", ".join(f"{key} {value!r}" for key, value in row.items())


def _facts(a: dict[str, Any], b: dict[str, Any]) -> str:
    for key in [*a, *(key for key in b if key not in a)]:
        if a.get(key) != b.get(key):
            return f"facts[{key!r}] is {a.get(key)!r}, and {b.get(key)!r}"
    return "facts differ"
