"""The times that rigid jobs state, as slots and timers of schedulers."""

from __future__ import annotations

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.model.applications import Applications
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER


def allowed_start_slots(
    applications: Applications, lengths: Integers, slot: int
) -> tuple[Integers, Integers]:
    """Return the first and the last slot in which each job may start, int64[jobs] each.

    The reservation of a job that starts in its last slot ends by its deadline.  If no start is allowed, the
    last slot is less than the first one.  Without a deadline it is about 2**63 / slot.

    Parameters
    ----------
    lengths
        Duration of the reservation of each job, ns, int64[jobs].
    slot
        Duration of a slot, ns.
    """
    begin, end = (applications.instants(name) for name in ("not_before", "deadline"))
    first = np.zeros(len(lengths), np.int64) if begin is None else -(-begin // slot)
    last = (np.full(len(lengths), NEVER) if end is None else end - lengths) // slot
    return first, last


def set_cancellation_timers(engine: Engine, applications: Applications) -> None:
    """Set a timer "call-off" for each job that its user will cancel."""
    if (at := applications.instants("cancel_at")) is not None:
        for job in np.flatnonzero(at < NEVER).tolist():
            engine.at(int(at[job]), "call-off", job)
