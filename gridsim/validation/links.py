"""Checks of a recorded schedule whose tasks move data over the links of machines.

A task that is computed second on a machine fetches its input while the first is computed, at the earliest
from then on.  It leaves the processor when the output of the first has left the machine, and its own output
follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import NS, Violation, broken


def moves_data(result: Result, given: Applications) -> bool:
    """Return whether tasks of the result's workload `given` take time to move data."""
    return given.moves_data and result.scenario.platform.bandwidth is not None


def check_links(
    result: Result,
    given: Applications,
    u: NDArray[np.int64],
    i: NDArray[np.int64],
    n: NDArray[np.int64],
    start: Floats,
    end: Floats,
    place: Callable[[int], str],
) -> tuple[list[Violation], Floats]:
    """Return what is wrong with the rows, and when the output of the last task of each is there, s."""
    bandwidth = result.scenario.platform.bandwidth
    assert bandwidth is not None
    fetch, send = (np.rint(column[i] / bandwidth[u] * 1e9) * NS for column in given.moved())
    lasts = (end - start) / n
    there, early, blocked = end.copy(), np.zeros(len(u), np.bool_), np.zeros(len(u), np.bool_)
    order = np.lexsort((start, u))
    last, before, free, sent = -1, 0.0, 0.0, 0.0
    for k in order.tolist():
        if u[k] != last:
            last, before, free, sent = int(u[k]), 0.0, 0.0, 0.0
        slack = 4 * NS + 4 * np.spacing(end[k])
        release = float(given.release[i[k]])
        for task in range(int(n[k])):
            begins = start[k] + task * lasts[k]
            if fetch[k] and begins + slack < max(before, release) + fetch[k]:
                early[k] = True
            blocked[k] |= begins + slack < free
            before, free = begins, begins + lasts[k]
            there[k] = free
            if send[k]:
                free = max(free, sent)
                there[k] = sent = free + send[k]
    found = broken("input", early, place, lambda k: f"starts at {start[k]} s, before its input can be there")
    found += broken(
        "output", blocked, place, lambda k: f"starts at {start[k]} s, while output waits on the processor"
    )
    return found, there
