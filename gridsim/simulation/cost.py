"""Estimates of the memory and the time of a run before it begins."""

from __future__ import annotations

import numpy as np

from gridsim.errors import ModelWarning, warn
from gridsim.model.applications import Applications
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler
from gridsim.support.memory import check_fits

#: Wall-clock time from which a run counts as long, s.
LONG_RUN = 60.0
#: Lower bounds of the wall-clock time per application and per failure with its recovery, s (measured: 18e-6
#: to 1,100e-6, and 6e-6 to 320e-6).
APPLICATION_SECONDS, FAILURE_SECONDS = 2e-5, 5e-6


def check_memory(applications: Applications, scheduler: Scheduler, scenario: Scenario) -> None:
    """Raise OutOfMemory if the tasks that wait or run at the same time cannot fit into memory."""
    if per_task := scheduler.task_cost.memory:
        check_fits("workload.tasks", most_tasks(applications, scenario), "unfinished tasks", per_task)


def most_tasks(applications: Applications, scenario: Scenario) -> int:
    """Return a lower bound of the maximum number of tasks that are submitted and not yet completed."""
    if applications.predecessors is not None:
        return int(applications.tasks.max())  # the others may be released only after it has ended
    smallest, _ = applications.extremes()
    per_second = scenario.platform.aggregate_speed / float(smallest.min())
    completed = (applications.release - applications.release[0]) * per_second
    return int(max(applications.tasks.max(), (np.cumsum(applications.tasks) - completed).max()))


def warn_of_long_run(applications: Applications, scheduler: Scheduler, scenario: Scenario) -> None:
    """Issue a `ModelWarning` with numbers of events and the time of a run longer than `LONG_RUN`."""
    tasks = float(applications.tasks.sum()) if scheduler.task_cost.time else 0.0
    failures = failure_count(applications, scenario)
    seconds = len(applications) * APPLICATION_SECONDS
    seconds += tasks * scheduler.task_cost.time + failures * FAILURE_SECONDS
    if seconds < LONG_RUN:
        return
    counts = (len(applications), "applications"), (tasks, "single tasks"), (failures, "failures")
    text = ", ".join(f"{_two_digits(count)} {items}" for count, items in counts if count >= 1)
    warn(
        f"long run: {scheduler.name} handles about {text}, which takes at least about {_duration(seconds)}",
        ModelWarning,
        stacklevel=2,
    )


def failure_count(applications: Applications, scenario: Scenario) -> float:
    """Return the approximate number of failures of all machines in the shortest possible run.

    It lasts from the first to the last release, or as long as all machines take for the work if that is
    longer.  The failures of a trace or a list do not count.
    """
    platform, faults = scenario.platform, scenario.faults
    if faults is None:
        return 0.0
    span = float(applications.release[-1] - applications.release[0])
    span = max(span, float(applications.size.sum()) / platform.aggregate_speed)
    return platform.nodes * span * faults.failure_rate


def _two_digits(count: float) -> str:
    """Return a number with two significant digits, so that replications get the same text."""
    return f"{float(f'{count:.2g}'):,.0f}" if count < 1e12 else f"{count:.2g}"


def _duration(seconds: float) -> str:
    """Return a time of at least a minute with a unit and two significant digits."""
    units = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0))
    unit, length = next(entry for entry in units if seconds >= 2 * entry[1] or entry is units[-1])
    return f"{seconds / length:.2g} {unit}"
