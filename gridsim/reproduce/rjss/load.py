"""Turnaround over the load: RJSS, resource exclusion in both readings, and no migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsim.reproduce.framework import Report, Run, panels
from gridsim.reproduce.rjss.common import (
    MEASURES,
    METRICS,
    REMARKS,
    TURNAROUND,
    G,
    faster,
    jobs,
    means,
    rivals,
    series,
)
from gridsim.schedulers import ResourceExclusion, Rjss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-load"
TITLE = "turnaround of RJSS, resource exclusion and no migration, over the load"
BETTER = "RJSS performs better than RE and NM in all cases"
RE_BETTER = "RE performs better than NM (the order in which the paper's figures have them)"
CLAIMS = (BETTER, RE_BETTER)
SEEDS = (10, 5)

LOADS, FEW_LOADS = (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.35, 1.5), (0.3, 0.9)
TASK = 30.0


def run(how: Run) -> Report:
    """Run all schedulers at each load: jobs take 30 s, and their rate sets the load."""
    schedulers = {
        **rivals(),
        "RJSS, best": Rjss(pick="best"),
        "RE, fastest": ResourceExclusion(reading="fastest"),
    }
    loads = FEW_LOADS if how.quick else LOADS
    made = {
        f"load {load:g}": how.replicate(jobs(how, interarrival=TASK / load), schedulers, METRICS)
        for load in loads
    }
    rows = [
        faster(claim, where, each, a, b, metric)
        for metric in MEASURES
        for claim, a, b in ((BETTER, "RJSS", "RE"), (RE_BETTER, "RE", "NM"), (BETTER, "RJSS", "NM"))
        for where, each in made.items()
    ]
    grids = [
        means("mean turnaround of all jobs, s", made, "turnaround"),
        means("G^t when the last job is submitted, s", made, G),
        means("share of the jobs that moves", made, "migrated"),
        means("messages a job", made, "messages"),
        means("prediction error of those that moved and had to wait", made, "error"),
        means("utilization, until the last job is done", made, "utilization"),
    ]
    data = {"loads": loads, "series": series(made, "turnaround")}
    return Report(tuple(how.seeds), how.quick, rows, grids, (*REMARKS, _REMARK), data)


_REMARK = "The paper runs at loads of 0.9 and more."


def figure(report: Report) -> Figure:
    """Draw turnaround over the load."""
    properties = {"xlabel": "load", "ylabel": TURNAROUND, "yscale": "log"}
    return panels({"": report.data["series"]}, report.data["loads"], properties)
