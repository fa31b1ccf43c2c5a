"""How long a machine is likely to stay up, predicted from its own past.

The predictors of the information-aware WQR-FT (Arora et al.), apart from the exact one: "past" is the mean
of the up times so far that were longer than the present one is already, E[X | X > age]; "age" is as long
again as the machine has been up.  All times are whole ns.
"""

from __future__ import annotations

import numpy as np

from gridsim.support.clock import NEVER

#: How many of its last up times a machine remembers.
KEPT = 32


def remember(stays: list[int], number: int, stay: int) -> None:
    """Add an up time to the last `KEPT` of a machine, of which there have been `number` before.

    It takes the place of the oldest, so that up times are added up in the same order each time.
    """
    place = number % KEPT
    stays[place : place + 1] = [stay]


def likely_until(predictor: str, now: int, since: int, stays: list[int]) -> int:
    """Return until when a machine that has been up since `since` is predicted to stay up; NEVER for ever.

    Parameters
    ----------
    predictor
        "past", or "age", which also holds where no up time in `stays` was longer.
    """
    age = now - since
    longer = [float(stay) for stay in stays if stay > age]
    if predictor == "past" and longer:
        mean = float(np.cumsum(longer)[-1]) / len(longer)  # added up in this order
        return since + round(mean) if mean < 9.2e18 - since else NEVER
    return min(now + age, NEVER)
