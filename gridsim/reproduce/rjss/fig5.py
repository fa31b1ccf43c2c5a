"""RJSS, Figure 5: turnaround over the processing time of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsim.reproduce.framework import Report, Run, panels
from gridsim.reproduce.rjss.common import (
    METRICS,
    REMARKS,
    TURNAROUND,
    G,
    all_faster,
    grows_less,
    jobs,
    means,
    rivals,
    series,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig5"
TITLE = "turnaround of RJSS, RE and NM over the processing time"
BETTER = "RJSS performs better than RE and NM"
LESS = "increasing the processing time has less effect on RJSS than on RE and NM"
CLAIMS = (BETTER, LESS)
SEEDS = (20, 5)

#: Mean processing times at 200 Mflop/s, s; a node submits a job every 20 s on average.
TIMES, FEW_TIMES = (20.0, 25.0, 30.0, 35.0, 40.0), (20.0, 40.0)


def run(how: Run) -> Report:
    """Run the three schedulers at each processing time."""
    times = FEW_TIMES if how.quick else TIMES
    made = {f"{t:g} s": how.replicate(jobs(how, processing_time=t), rivals(), METRICS) for t in times}
    rows = all_faster(BETTER, made) + grows_less(LESS, made)
    grids = [
        means("G^t when the last job is submitted, s", made, G),
        means("mean turnaround of all jobs, s", made, "turnaround"),
    ]
    return Report(
        tuple(how.seeds),
        how.quick,
        rows,
        grids,
        REMARKS,
        {"times": times, "series": series(made, "turnaround")},
    )


def figure(report: Report) -> Figure:
    """Draw the mean turnaround of all jobs over the processing time."""
    properties = {"xlabel": "processing time, s", "ylabel": TURNAROUND, "ylim": (0, None)}
    return panels({"": report.data["series"]}, report.data["times"], properties)
