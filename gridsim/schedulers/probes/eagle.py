"""Eagle and DLWL: workers serve the job with the least work left first, and probes avoid long tasks.

P. Delgado, D. Didona, F. Dinu, W. Zwaenepoel, "Job-aware scheduling in Eagle: divide and stick to your
probes" (SoCC 2016).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.schedulers.probes.worker import (
    LONG,
)

#: Rounds of probes: to all workers; to those without long tasks, as far as known; to the reserved ones.
ANYWHERE, AVOIDING, RESERVED = 1, 2, 3


def bits_of(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return flags as whole numbers of 64 bits."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded).view(np.int64)


def flags_of(bits: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return the flags of which `bits_of` made the numbers."""
    return np.unpackbits(bits.view(np.uint8), count=count).astype(np.bool_)


class Srpt:
    """The queue of a worker that serves jobs with less work left first."""

    def __init__(self, cap: float) -> None:
        self.cap = cap
        self.places: list[list[Any]] = []  # job, scheduler or LONG, estimate (s), s by which it was overtaken

    def choose(self, left: Any) -> list[Any] | None:
        """Return the place to serve next; throw away those of jobs without work left (s, by job).

        A long task at the head is first.  A place may be overtaken as long as the estimates of what has overtaken
        it are at most `cap` times its own.
        """
        self.places = [each for each in self.places if each[1] == LONG or left[each[0]] > 0]
        if not self.places:
            return None
        best, least = 0, math.inf
        for k, (job, scheduler, estimate, overtaken) in enumerate(self.places):
            if scheduler != LONG and left[job] < least:
                best, least = k, left[job]
            if (scheduler == LONG and k == 0) or overtaken > self.cap * estimate:
                break
        for each in self.places[:best]:
            each[3] += self.places[best][2]
        return self.places[best]
