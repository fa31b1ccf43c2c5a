"""How long repairs of a fair tree that is kept by messages have taken, from what happened to its routers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.schedulers.fair_tree.member import TAKEN, WHOLE
from gridsim.support.clock import NS


def repairs(
    seats: dict[str, NDArray[Any]], vacated: list[tuple[int, int]], routers: int
) -> dict[str, NDArray[Any]]:
    """Return the table of repairs: a row for each router whose machine failed, by time and router.

    Parameters
    ----------
    seats
        The table that machines have written.
    vacated
        (router, ns) of each failure.
    routers
        How many there are.
    """
    events: list[list[tuple[int, int]]] = [[] for _ in range(routers)]
    machine: dict[tuple[int, int], int] = {}
    columns = (seats[name].tolist() for name in ("router", "time", "what", "machine"))
    for router, time, what, place in zip(*columns, strict=True):
        events[router].append((time, what))
        if what == TAKEN:
            machine[router, time] = place
    rows = []
    for router, failed in sorted(vacated, key=lambda each: (each[1], each[0])):
        taken = _first(events[router], TAKEN, failed)
        whole = np.nan
        if taken is not None:
            own = _first(events[router], WHOLE, taken)
            above = _first(events[(router - 1) // 2], WHOLE, taken) if router else own
            whole = np.nan if own is None or above is None else max(own, above) / NS
        place = -1 if taken is None else machine[router, taken]
        rows.append((router, failed / NS, place, np.nan if taken is None else taken / NS, whole))
    kinds = {"router": int, "failed": float, "machine": int, "taken": float, "whole": float}
    return {name: np.array([row[k] for row in rows], kind) for k, (name, kind) in enumerate(kinds.items())}


def _first(events: list[tuple[int, int]], what: int, since: int) -> int | None:
    """Return when that happened first at or after `since` (ns); None if never."""
    return next((time for time, each in events if each == what and time >= since), None)
