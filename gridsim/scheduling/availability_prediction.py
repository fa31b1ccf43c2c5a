"""Predictions of how long a machine stays up, from its past up times.

These are the predictors of the information-aware WQR-FT (Arora et al.), except for the exact one.  "past"
predicts an up time of E[X | X > age]: the mean of the past up times that exceed the present one, the age.
"age" predicts that the rest of the up time is as long as the age.  All times are whole ns.
"""

from __future__ import annotations

import numpy as np

from gridsim.support.clock import NEVER

#: Maximum number of recent up times that a machine stores.
MAX_UP_TIMES = 32


def add_up_time(up_times: list[int], number: int, up_time: int) -> None:
    """Add an up time, ns, to the last `MAX_UP_TIMES` up times of a machine.

    It replaces the oldest one in place, so that the order of additions in a mean does not change.

    Parameters
    ----------
    number
        Number of up times added before.
    """
    index = number % MAX_UP_TIMES
    up_times[index : index + 1] = [up_time]


def predicted_end(predictor: str, now: int, since: int, up_times: list[int]) -> int:
    """Return the time, in ns, until which a machine is predicted to stay up; NEVER if it never fails.

    Parameters
    ----------
    predictor
        ``"past"`` or ``"age"``.  If no up time in `up_times` was longer, "past" predicts the same as "age".
    now
        The simulated time, ns.
    since
        The time at which the machine came up, ns.
    up_times
        Its past up times, ns.
    """
    age = now - since
    longer = [float(up_time) for up_time in up_times if up_time > age]
    if predictor == "past" and longer:
        total = float(np.cumsum(longer)[-1])  # np.sum adds in another order and so rounds differently
        mean = total / len(longer)
        return since + round(mean) if mean < 9.2e18 - since else NEVER
    return min(now + age, NEVER)
