"""Units of what results have: columns that are no counts, and summaries; see docs/reference/outputs.md."""

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
