"""The window of metrics: the applications that are released after the first days of a run.

A run begins on empty machines, so the first applications wait less than later ones.  They are simulated, but
do not count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arguments import real
from gridsim.support.arrays import Floats
from gridsim.support.text import time_text

#: Length of a day, s.
_DAY = 86_400.0


def checked_days(skip_days: Any) -> float:
    """Return the number of days that are left out; a string has a unit of time, such as "36 h".

    Raises ScenarioError if it is no number >= 0.
    """
    if isinstance(skip_days, str):
        return real("skip_days", skip_days, low=0.0, unit="s") / _DAY
    return real("skip_days", skip_days, low=0.0)


def counted_applications(release: Floats, skip_days: float | str) -> NDArray[np.bool_]:
    """Return whether each application counts: if it is released `skip_days` days after the first, or later.

    Raises
    ------
    ScenarioError
        If none counts, or `skip_days` is not a number >= 0.
    """
    skip_days, days = checked_days(skip_days), (release - release.min()) / _DAY
    if skip_days > days.max():
        raise ScenarioError(
            f"skip_days must be at most {days.max():.4g}, the days from the first to the last release, got "
            f"{skip_days:g}"
        )
    is_counted: NDArray[np.bool_] = days >= skip_days
    return is_counted


def window_lines(release: Floats, skip_days: float, rigid: bool) -> dict[str, str]:
    """Return the line on the window of metrics; none without one.  It raises as `counted_applications`."""
    if not skip_days:
        return {}
    items, count = "jobs" if rigid else "applications", int(counted_applications(release, skip_days).sum())
    days = "day" if skip_days == 1 else f"{skip_days:g} days"
    if skip_days < 1:
        days = time_text(skip_days * _DAY)
    return {
        "measured": f"{count:,} of {len(release):,} {items}, without those released in the first {days}; the "
        "run has all of them"
    }
