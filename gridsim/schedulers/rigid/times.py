"""The times that rigid jobs state, as schedulers with slots use them."""

from __future__ import annotations

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.model.applications import Applications
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER


def slots_allowed(applications: Applications, wanted: Integers, slot: int) -> tuple[Integers, Integers]:
    """Return the first and the last slot in which each job may start, int64[jobs] each.

    From the last one on, what it reserves ends by its deadline; it is below the first one if there is none.
    Without a deadline it is about 2**63 / slot.

    Parameters
    ----------
    wanted
        int64[jobs], ns that each job reserves.
    slot
        ns.
    """
    begin, end = (applications.instants(name) for name in ("not_before", "deadline"))
    first = np.zeros(len(wanted), np.int64) if begin is None else -(-begin // slot)
    last = (np.full(len(wanted), NEVER) if end is None else end - wanted) // slot
    return first, last


def set_cancellations(engine: Engine, applications: Applications) -> None:
    """Set a timer "call-off" for each job that its user cancels."""
    if (at := applications.instants("cancel_at")) is not None:
        for job in np.flatnonzero(at < NEVER).tolist():
            engine.at(int(at[job]), "call-off", job)
