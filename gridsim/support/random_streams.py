"""Named random streams: every use of randomness has its own generator, derived from a seed."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

#: The seed where none is stated: in Python, in files, and in the shell.
DEFAULT_SEED = 1
#: Normally distributed factors are drawn again if they are at most this.
LEAST_FACTOR = 0.01


class Streams:
    """Random generators by name.

    A stream depends on the seed and its name alone.  So the draws of one part of a run never shift those of
    another part, and every scheduler of a comparison gets the same random numbers.

    Attributes
    ----------
    used
        Whether there is a stream that somebody has asked for.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.used = seed, False

    def __call__(self, name: str) -> np.random.Generator:
        """Return a new generator for the stream `name`, at its beginning."""
        # the words of SeedSequence(seed, spawn_key=(four words of the digest)), which takes twice as long
        self.used = True
        entropy = self.seed.to_bytes(16, "little") + hashlib.sha256(name.encode()).digest()[:16]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(np.frombuffer(entropy, "<u4"))))


def normal_factors(draw: np.random.Generator, deviation: float, count: int) -> NDArray[np.float64]:
    """Return normally distributed factors of mean 1, float64[count]; those of at most 0.01 are drawn again.

    Drawing again raises the mean: to 1.008 with a deviation of 0.4, to 1.29 with 1.
    """
    found = draw.normal(1.0, deviation, count)
    while len(low := np.flatnonzero(found <= LEAST_FACTOR)):
        found[low] = draw.normal(1.0, deviation, len(low))
    return found
