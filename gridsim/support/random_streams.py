"""Named random streams: every use of randomness has its own generator, derived from a seed."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

#: Default seed in Python, in files and in the shell.
DEFAULT_SEED = 1
#: Normally distributed factors up to this value are drawn again.
MIN_FACTOR = 0.01


class Streams:
    """Random generators by name.

    A stream depends only on the seed and its name.  Draws of one part of a run therefore never affect those
    of another part, and all schedulers of a comparison get the same random numbers.

    Attributes
    ----------
    used
        Whether any stream has been created.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.used = seed, False

    def __call__(self, name: str) -> np.random.Generator:
        """Return a new generator at the beginning of the stream `name`."""
        # the entropy is that of SeedSequence(seed, spawn_key=(four words of the digest)), in half the time
        self.used = True
        entropy = self.seed.to_bytes(16, "little") + hashlib.sha256(name.encode()).digest()[:16]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(np.frombuffer(entropy, "<u4"))))


def normal_factors(draw: np.random.Generator, deviation: float, count: int) -> NDArray[np.float64]:
    """Return normally distributed factors of mean 1, float64[count]; factors up to 0.01 are redrawn.

    The redraws raise the mean: to 1.008 with a deviation of 0.4, to 1.29 with a deviation of 1.
    """
    factors = draw.normal(1.0, deviation, count)
    while len(small := np.flatnonzero(factors <= MIN_FACTOR)):
        factors[small] = draw.normal(1.0, deviation, len(small))
    return factors
