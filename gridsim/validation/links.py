"""Checks of a recorded schedule whose tasks move data over the links of machines.

A task fetches its input at the earliest while the task before it on the machine is computed.  It occupies
the processor until the output of the task before it has left the machine; then its own output follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, Violation, broken


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
    place: Callable[[int], str],
) -> tuple[list[Violation], Floats]:
    """Check that tasks start after their input, and not while output blocks the processor.

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
    last, previous_begin, free, last_sent = -1, 0.0, 0.0, 0.0
    for k in order.tolist():
        if u[k] != last:
            last, previous_begin, free, last_sent = int(u[k]), 0.0, 0.0, 0.0
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
    violations = broken(
        "input", is_early, place, lambda k: f"starts at {start[k]} s, before its input can be there"
    )
    violations += broken(
        "output", is_blocked, place, lambda k: f"starts at {start[k]} s, while output waits on the processor"
    )
    return violations, output_time
