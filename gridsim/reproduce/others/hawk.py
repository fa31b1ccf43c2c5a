"""Hawk and Sparrow on two logs: P. Delgado et al., "Hawk: hybrid datacenter scheduling" (USENIX ATC 2015)."""

from __future__ import annotations

from collections.abc import Iterator

from gridsim.reproduce.framework import Report, Row, Run, near
from gridsim.reproduce.others.probes import (
    GOOGLE,
    SAME,
    SEEDS,
    Log,
    compared,
    figure,
    gain,
    measure,
    names,
    report,
)
from gridsim.studies.replicate import Replicates

__all__ = ["CLAIMS", "NAME", "SEEDS", "TITLE", "figure", "run"]

NAME = "hawk"
TITLE = "Hawk, Sparrow and least work left on a .tr log"
SHORT = "on the Google trace at high load Hawk runs short jobs 80 % (p50) and 90 % (p90) faster than Sparrow"
LONG = "there it runs long jobs 35 % (p50) and 10 % (p90) faster than Sparrow"
CLAIMS = (SHORT, LONG, SAME)
#: Percentile -> the claim, and by how much Hawk is faster, %.
FASTER = {
    "short p50": (SHORT, 80.0),
    "short p90": (SHORT, 90.0),
    "long p50": (LONG, 35.0),
    "long p90": (LONG, 10.0),
}


def run(how: Run) -> Report:
    """Run Hawk, Sparrow and LWL."""
    made = dict(measure(how, ("hawk", "sparrow", "lwl")))
    rows = [row for log, each in made.items() for row in (*_faster(log, each), *compared(log, each))]
    return report(how, made, rows, _REMARKS)


def _faster(log: Log, made: Replicates) -> Iterator[Row]:
    """Return by how much Hawk is faster; the claims are judged on the Google log."""
    for metric in names():
        what, measured, there = gain(log, made, "hawk", "sparrow", metric)
        if log.title == GOOGLE and metric in FASTER:
            claim, percent = FASTER[metric]
            yield near(claim, what, percent, measured, unit="%", why=there)
        else:
            yield Row("", what, "", measured, "%", why=there)


_REMARKS = (
    "Negative: Hawk is slower.  The log is a part of the paper's trace, and is run on fewer workers.",
)
