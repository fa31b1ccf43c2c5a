"""Eagle, Hawk and DLWL on two logs: P. Delgado et al., "Job-aware scheduling in Eagle: divide and stick to
your probes" (SoCC 2016)."""

from __future__ import annotations

import math

from gridsim.reproduce.framework import POSITIVE, Report, Run, judge
from gridsim.reproduce.others.probes import SAME, SEEDS, compared, figure, gain, measure, names, report

__all__ = ["CLAIMS", "NAME", "SEEDS", "TITLE", "figure", "run"]

NAME = "eagle"
TITLE = "Eagle, Hawk and DLWL on a .tr log"
BETTER = "short jobs complete earlier under Eagle than under Hawk"
CLAIMS = (BETTER, SAME)


def run(how: Run) -> Report:
    """Run Eagle, Hawk and DLWL."""
    made = dict(measure(how, ("eagle", "hawk", "dlwl")))
    rows = []
    for log, each in made.items():
        for metric in (name for name in names() if name.startswith("short")):
            what, measured, there = gain(log, each, "eagle", "hawk", metric)
            rows.append(judge(BETTER, what, "> 0", measured, POSITIVE, math.inf, unit="%", why=there))
        rows += compared(log, each)
    return report(how, made, rows)
