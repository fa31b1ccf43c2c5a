"""RJSS, Figure 6: turnaround as both the rate of jobs and the clocks grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gridsim.reproduce.framework import ABOVE, Report, Run, panels
from gridsim.reproduce.rjss.common import (
    MEASURES,
    METRICS,
    REMARKS,
    TURNAROUND,
    G,
    all_faster,
    jobs,
    means,
    rises,
    rivals,
    series,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig6"
TITLE = "turnaround of RJSS, RE and NM as rate and clocks grow together"
STAYS = "the increasing rate does not influence RJSS, as the increasing clock compensates that"
INCREASE = "NM and RE increase"
BETTER = "RJSS performs better than RE and NM"
CLAIMS = (STAYS, INCREASE, BETTER)
SEEDS = (20, 5)

#: Jobs of a node in 1000 s, and mean clock, Mflop/s; jobs take 30 s at 200 Mflop/s.
PAIRS, FEW_PAIRS = ((30, 200.0), (40, 300.0), (50, 400.0), (60, 500.0)), ((30, 200.0), (60, 500.0))


def run(how: Run) -> Report:
    """Run the three schedulers at each pair of rate and clock."""
    pairs = FEW_PAIRS if how.quick else PAIRS
    made = {
        f"{rate} jobs, {clock:g} Mflop/s": how.replicate(
            jobs(how, interarrival=1000.0 / rate, clock=clock), rivals(), METRICS
        )
        for rate, clock in pairs
    }
    rows = all_faster(BETTER, made)
    for metric in MEASURES:
        rows.append(rises(STAYS, made, "RJSS", metric, 0.9, 1.1, "about 1"))
        rows += [rises(INCREASE, made, name, metric, ABOVE, math.inf, "> 1") for name in ("RE", "NM")]
    grids = [
        means("mean turnaround of all jobs, s", made, "turnaround"),
        means("G^t when the last job is submitted, s", made, G),
        means("utilization, until the last job is done", made, "utilization"),
    ]
    data = {"labels": [f"{rate}, {clock:g}" for rate, clock in pairs], "series": series(made, "turnaround")}
    return Report(tuple(how.seeds), how.quick, rows, grids, (*REMARKS, _REMARK), data)


_REMARK = (
    "The pairs of rate and clock are not readable in the paper; these span its ranges, at loads of 0.9 to "
    "0.72."
)


def figure(report: Report) -> Figure:
    """Draw the mean turnaround of all jobs at each pair of rate and clock."""
    labels = report.data["labels"]
    ticks = {"xticks": range(len(labels)), "xticklabels": labels, "ylim": (0, None)}
    what = {"xlabel": "jobs of a node in 1000 s, clock in Mflop/s", "ylabel": TURNAROUND}
    return panels({"": report.data["series"]}, range(len(labels)), {**ticks, **what})
