"""Units of the columns of results, where they have one that is no count; docs/outputs.md has all of them."""

from __future__ import annotations

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
    "requests": {"s": "accepted", "s/Mflop": "promised stretch"},
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
}
#: Table -> column -> unit.
COLUMN_UNITS = {
    table: {name: unit for unit, names in units.items() for name in names.split()}
    for table, units in _OF.items()
}
