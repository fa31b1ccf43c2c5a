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
    """Return the table of repairs: a row for each router that a failure took off its machine, by time and router.

    seats : the table that machines have written.  vacated : (router, ns) of each failure.
    `taken` : when a machine took the router over; `whole` : when that had heard from all children, or knew them
    to be gone, and so had the parent from it.  nan where that did not happen before the next failure, or at all.
    """
    events: list[list[tuple[int, int]]] = [[] for _ in range(routers)]
    for router, time, what in zip(*(seats[name].tolist() for name in ("router", "time", "what")), strict=True):
        events[router].append((time, what))
    machine = {
        (router, time): place
        for router, time, what, place in zip(
            *(seats[name].tolist() for name in ("router", "time", "what", "machine")), strict=True
        )
        if what == TAKEN
    }
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
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = (np.int64, np.float64, np.int64, np.float64, np.float64)
    names = ("router", "failed", "machine", "taken", "whole")
    return {name: np.array(of, kind) for name, of, kind in zip(names, columns, kinds, strict=True)}


def _first(events: list[tuple[int, int]], what: int, since: int) -> int | None:
    """Return when that happened first at or after `since` (ns); None if never."""
    return next((time for time, each in events if each == what and time >= since), None)
