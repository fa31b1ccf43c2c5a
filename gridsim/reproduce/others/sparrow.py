"""Sparrow on two logs, compared with the authors' simulator of Hawk and Eagle, and with least work left.

K. Ousterhout et al., "Sparrow: distributed, low latency scheduling" (SOSP 2013); see `probes`.
"""

from __future__ import annotations

from gridsim.reproduce.framework import Report, Run
from gridsim.reproduce.others.probes import SAME, SEEDS, compared, figure, measure, report

__all__ = ["CLAIMS", "NAME", "SEEDS", "TITLE", "figure", "run"]

NAME = "sparrow"
TITLE = "Sparrow and least work left on a .tr log"
CLAIMS = (SAME,)


def run(how: Run) -> Report:
    """Run Sparrow and LWL."""
    made = dict(measure(how, ("sparrow", "lwl")))
    rows = [row for log, each in made.items() for row in compared(log, each)]
    return report(how, made, rows)
