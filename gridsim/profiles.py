"""Quantiles of job logs, for rigid jobs like theirs where the logs are not to be had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The shares at which the quantiles are given.
SHARES = np.array([0, 1, 2, 5, *range(10, 95, 5), 95, 98, 99, 99.5, 99.9, 100]) / 100


@dataclass(frozen=True)
class Profile:
    """What jobs of a log are like, one after another.

    nodes, run_time (s), gap (s, to the next submission), overestimate (requested over run time): quantiles at
    `SHARES`.
    serial : rank correlations of nodes, run times and gaps with those of the job before.
    together : rank correlation of nodes and run times.
    """

    nodes: tuple[float, ...]
    run_time: tuple[float, ...]
    gap: tuple[float, ...]
    overestimate: tuple[float, ...]
    serial: tuple[float, float, float]
    together: float

    def draw(self, count: int, chance: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """Nodes (whole), run times (s), gaps (s) before each job, and requested times (s) of `count` jobs.

        Each column has the quantiles of the log; a Gaussian copula has its rank correlations.
        """
        of_nodes, of_run, of_gap = self.serial
        normal = chance.standard_normal((3, count))
        # correlations of normal variables with these rank correlations (Pearson 1907)
        rho = 2 * np.sin(np.pi / 6 * self.together)
        normal[1] = rho * normal[0] + np.sqrt(1 - rho**2) * normal[1]
        nodes, run, gap = (
            _series(each, 2 * np.sin(np.pi / 6 * serial))
            for each, serial in zip(normal, (of_nodes, of_run, of_gap), strict=True)
        )
        run_time = _values(run, self.run_time)
        over = _values(chance.standard_normal(count), self.overestimate)
        # nobody asks for more than the longest run there is
        requested = np.clip(np.rint(run_time * over), 1.0, self.run_time[-1])
        return (
            np.rint(_values(nodes, self.nodes)),
            np.rint(run_time),
            np.rint(_values(gap, self.gap)),
            requested,
        )


def _series(shocks: Floats, correlation: float) -> Floats:
    """A stationary autoregressive series of first order."""
    values, last, new = shocks.tolist(), 0.0, np.sqrt(1 - correlation**2)
    made = []
    for k, shock in enumerate(values):
        last = shock if k == 0 else correlation * last + new * shock
        made.append(last)
    return np.array(made)


def _values(latent: Floats, quantiles: tuple[float, ...]) -> Floats:
    """The quantiles at the ranks of `latent`, between two of them on a logarithmic scale."""
    rank = np.empty(len(latent))
    rank[np.argsort(latent, kind="stable")] = (np.arange(len(latent)) + 0.5) / max(1, len(latent))
    values: Floats = np.expm1(np.interp(rank, SHARES, np.log1p(np.array(quantiles))))
    return values


#: Names are those of the Parallel Workloads Archive; RICC's nodes have 8 processors.
PROFILES = {
    "wagap2013": Profile(
        nodes=(
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 6, 6, 8, 12, 20, 32, 32, 64, 64, 80, 80, 256,
        ),
        run_time=(
            1, 1, 1, 1, 3, 17, 152.4, 303, 388.1, 764.9, 1081.8, 1714, 2370.5, 3127.1, 6978.4, 14433, 22702.4,
            32807.5, 53920, 71855.5, 117778.7, 333551.2, 499572.8, 604820, 693845.3, 1209628.3, 5356972,
        ),
        gap=(
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 17, 59, 131, 296, 720.6, 1953.6, 5061.7, 8796,
            13511.3, 30019.1, 53919,
        ),
        overestimate=(
            0.111, 0.999, 1, 1.099, 1.562, 2.101, 2.574, 2.902, 3.298, 4.091, 5.247, 7.537, 13.544, 22.086,
            32.354, 51.247, 105.045, 227.444, 488.799, 1952.356, 7200, 86400, 356400, 1188000, 1209600,
            1209600, 5356800,
        ),
        serial=(0.843, 0.714, 0.574),
        together=0.244,
    ),
    "ricc2010": Profile(
        nodes=(
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 4, 16, 32, 32, 64, 256, 1000,
        ),
        run_time=(
            1, 3, 4, 5, 6, 9, 18, 28, 81, 202, 356, 361, 370, 738, 1367, 2186, 4027, 6602.5, 14240, 26896,
            51096, 97293, 220398, 259203, 259205, 259220, 283610,
        ),
        gap=(
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 3, 8, 105, 417, 898, 1757.1, 5473.3,
            44744,
        ),
        overestimate=(
            0.001, 0.999, 1, 1.239, 1.871, 2.958, 5.672, 11.165, 19.468, 19.945, 20.225, 29.173, 45, 67.925,
            112.5, 171.429, 232.258, 428.43, 600, 1183.562, 2880, 10800, 28800, 57600, 64800, 86400, 216000,
        ),
        serial=(0.892, 0.893, 0.404),
        together=0.173,
    ),
}  # fmt: skip
