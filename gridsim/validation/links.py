"""Checks of a recorded schedule whose tasks move data over the links of machines.

A machine fetches the input of a task at the earliest while it computes the previous task.  A task occupies
the processor until the output of the previous task has left the machine; then its own output is sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, Violation, violations_where


def moves_data(result: Result, workload: Applications) -> bool:
    """Return whether tasks of the workload take time to move data."""
    return workload.moves_data and result.scenario.platform.bandwidth is not None


def check_links(
    result: Result,
    workload: Applications,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    end: Floats,
    row_label: Callable[[int], str],
) -> tuple[list[Violation], Floats]:
    """Check that tasks start after their input has arrived, and not while output occupies the processor.

    Parameters
    ----------
    u, i, n
        Machine, application and number of tasks of each row.
    start, end
        Times of the rows (s).

    Returns
    -------
    The violations, and the time (s) at which the output of the last task of each row has arrived.
    """
    bandwidth = result.scenario.platform.bandwidth
    assert bandwidth is not None
    fetch, send = (np.rint(column[i] / bandwidth[u] * 1e9) * NS for column in workload.moved())
    task_time = (end - start) / n
    output_time, is_early, is_blocked = end.copy(), np.zeros(len(u), np.bool_), np.zeros(len(u), np.bool_)
    order = np.lexsort((start, u))
    previous_machine, previous_begin, free, last_sent = -1, 0.0, 0.0, 0.0
    for k in order.tolist():
        if u[k] != previous_machine:
            previous_machine, previous_begin, free, last_sent = int(u[k]), 0.0, 0.0, 0.0
        slack = 4 * NS + 4 * np.spacing(end[k])
        release = float(workload.release[i[k]])
        for task in range(int(n[k])):
            begins = start[k] + task * task_time[k]
            if fetch[k] and begins + slack < max(previous_begin, release) + fetch[k]:
                is_early[k] = True
            is_blocked[k] |= begins + slack < free
            previous_begin, free = begins, begins + task_time[k]
            output_time[k] = free
            if send[k]:
                free = max(free, last_sent)
                output_time[k] = last_sent = free + send[k]
    violations = violations_where(
        "input", is_early, row_label, lambda k: f"starts at {start[k]} s, before its input can have arrived"
    )
    violations += violations_where(
        "output",
        is_blocked,
        row_label,
        lambda k: f"starts at {start[k]} s, while output still occupies the processor",
    )
    return violations, output_time
