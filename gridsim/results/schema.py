"""What tables of results hold, whoever wrote the file: columns, their types, and rows of others they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.results.table import Table

_WHOLE, _FLOAT, _TEXT = "iu", "f", "U"


def _of(**kinds: str) -> dict[str, str]:
    """Column -> kinds of numpy, of names by kind."""
    known = {"whole": _WHOLE, "floats": _FLOAT, "text": _TEXT}
    return {name: known[kind] for kind, names in kinds.items() for name in names.split()}


#: Columns that all results have in these tables.
_ALWAYS = {
    "applications": _of(
        floats="release first_start finish task_size size stretch stretch_agg",
        whole="tasks submitter resubmitted nodes_used",
    ),
    "machines": _of(floats="speed busy utilization"),
    "messages": _of(text="kind", whole="sent delivered dropped in_flight bytes"),
}
#: Those of tables that need not be there.
_THEN = {
    "schedule": _of(whole="machine application tasks completed", floats="start end"),
    "arrivals": _of(whole="machine application tasks", floats="time"),
    "decisions": _of(
        whole="application task decider level machine tasks among",
        text="action",
        floats="time saw limit true age",
    ),
    "message_log": _of(
        text="kind", whole="sender receiver dropped bytes application", floats="sent delivered"
    ),
    "cycles": _of(floats="useful redundant lost overhead slowed"),
    "jobs": _of(whole="application machine", floats="predicted waited turnaround"),
    "traffic": _of(text="kind", whole="level messages bytes"),
}
#: Table -> column -> the table whose rows it names, and the least number; -1 is none.
_NAMED = {
    "applications": {"submitter": ("machines", -1)},
    "schedule": {"machine": ("machines", 0), "application": ("applications", 0)},
    "arrivals": {"machine": ("machines", 0), "application": ("applications", 0)},
    "decisions": {
        "machine": ("machines", -1),
        "decider": ("machines", -1),
        "application": ("applications", 0),
    },
    "message_log": {
        "sender": ("machines", 0),
        "receiver": ("machines", 0),
        "application": ("applications", -1),
    },
    "jobs": {"machine": ("machines", 0), "application": ("applications", 0)},
}
#: What divides.
_POSITIVE = {"applications": ("task_size", "size"), "machines": ("speed",)}
#: Nobody has a tree with so many levels.
_LEVELS = 64


def check_columns(tables: Mapping[str, Table]) -> None:
    """That there is what all results have.  Raises KeyError or ValueError, which name table and column."""
    for name in ("applications", "machines"):
        if not len(tables[name]):
            raise ValueError(f"{name} has no row")
    for name, columns in (_ALWAYS | {name: _THEN[name] for name in _THEN if name in tables}).items():
        for column, kinds in columns.items():
            if (dtype := tables[name][column].dtype).kind not in kinds:
                raise ValueError(f"{name}.{column} is of {dtype}")
    if "cycles" in tables and len(tables["cycles"]) != len(tables["applications"]):
        raise ValueError(f"cycles has {len(tables['cycles'])} rows, not one an application")


def check_rows(tables: Mapping[str, Table]) -> None:
    """That rows are of what there is, as `gridsim validate` says with more words.  Raises ValueError."""
    for name, named in _NAMED.items():
        for column, (other, least) in named.items() if name in tables else ():
            _check_range(f"{name}.{column}", tables[name][column], least, len(tables[other]) - 1)
    if "traffic" in tables:
        _check_range("traffic.level", tables["traffic"]["level"], 0, _LEVELS)
    for name, columns_of in _POSITIVE.items():
        for column in columns_of:
            values: NDArray[Any] = tables[name][column]
            bad = ~(np.isfinite(values) & (values > 0))
            if bad.any():
                row = int(np.argmax(bad))
                raise ValueError(f"{name}.{column}[{row}] must be finite and > 0, got {values[row]}")


def _check_range(what: str, values: NDArray[Any], low: int, high: int) -> None:
    bad = (values < low) | (values > high)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what}[{row}] must be in {low}..{high}, got {values[row]}")


_OF: dict[str, dict[str, str]] = {
    "applications": {
        "s": "release first_start finish run_time requested waiting",
        "Mflop": "task_size size smallest_task largest_task",
        "s/Mflop": "stretch",
        "1": "stretch_agg slowdown",
        "B": "data",
    },
    "machines": {
        "Mflop/s": "speed",
        "s": "busy",
        "B": "bytes_out bytes_in data_in",
        "1": "use_mean use_peak_1s use_peak_10s utilization",
    },
    "messages": {"B": "bytes"},
    "requests": {"s": "release accepted", "Mflop": "size", "s/Mflop": "promised stretch"},
    "traffic": {"B": "bytes"},
    "updates": {"s": "arrived age"},
    "exchanges": {"B": "bytes"},
    "jobs": {"s": "predicted waited turnaround"},
    "searches": {"s": "began ended"},
    "hosts": {"s": "needed found"},
    "cycles": {"Mflop": "useful redundant lost overhead slowed"},
    "schedule": {"s": "start end", "Mflop": "begin"},
    "arrivals": {"s": "time"},
    "decisions": {"s": "time age"},
    "message_log": {"s": "sent delivered", "B": "bytes"},
}
#: Table -> column -> unit.
COLUMN_UNITS = {
    table: {name: unit for unit, names in units.items() for name in names.split()}
    for table, units in _OF.items()
}

#: Units of what `Result.summary` says.
UNITS = {
    "aggregate_speed": "Mflop/s",
    "work": "Mflop",
    "max_stretch": "s/Mflop",
    "mean_stretch": "s/Mflop",
    "min_stretch": "s/Mflop",
    "request_utilization": "1 (nodes * run time / all machine time, first to last release)",
    "mean_waiting": "s",
    "median_waiting": "s",
    "mean_slowdown": "1 (bounded: run times count as at least 10 s)",
    "lower_bound": "s/Mflop",
    "gap": "1 (max stretch / lower bound)",
    "max_stretch_agg": "1 (stretch * aggregate speed)",
    "makespan": "s",
    "mean_completion": "s (from release to finish, mean over applications)",
    "mean_turnaround": "s (from release until the result is back, mean over jobs)",
    "migrated": "1 (jobs that moved / all jobs)",
    "prediction_error": "1 (|predicted - actual wait| / actual, mean over jobs that moved and waited)",
    "prediction_undefined": "jobs (that moved and did not have to wait)",
    "messages_per_job": "1 (messages sent / jobs)",
    "wasted": "1 (redundant, lost and overhead cycles / these and the useful ones)",
    **dict.fromkeys(("useful", "redundant", "lost", "overhead", "slowed"), "Mflop"),
    "undisturbed": "tasks (completed that were never resubmitted)",
    "utilization": "1 (busy machine time / all machine time, first release to last finish)",
    "offered_load": "1 (work / (aggregate speed * first to last release))",
    "bytes": "B",
    "data_bytes": "B (task data)",
    "data_ratio": "1 (task data / bytes of messages)",
    "wall_seconds": "s",
    "peak_memory": "B",
}
