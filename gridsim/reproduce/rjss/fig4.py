"""RJSS, Figure 4: turnaround over the rate at which jobs are submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsim.reproduce.framework import Report, Run, panels
from gridsim.reproduce.rjss.common import (
    METRICS,
    REMARKS,
    SHARES,
    G,
    all_faster,
    faster,
    jobs,
    means,
    over_time,
    rivals,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig4"
TITLE = "turnaround of RJSS, RE and NM over the rate of jobs"
BETTER = "G^t of RJSS is less than that of RE and NM for all rates"
EARLY = "RJSS is better from the early stages of the run on"
CLAIMS = (BETTER, EARLY)
SEEDS = (20, 5)

#: Number of jobs that a node submits in 1000 s.
RATES, FEW_RATES = (30, 40, 50), (30, 50)


def run(how: Run) -> Report:
    """Run the three schedulers at each rate."""
    rates = FEW_RATES if how.quick else RATES
    made = {
        f"{rate} jobs in 1000 s": how.replicate(jobs(how, interarrival=1000.0 / rate), rivals(), METRICS)
        for rate in rates
    }
    rows = all_faster(BETTER, made)
    early = f"G at {SHARES[0]:g}"
    rows += [
        faster(EARLY, where, each, "RJSS", other, early)
        for other in ("RE", "NM")
        for where, each in made.items()
    ]
    grids = [
        means("G^t when the last job is submitted, s", made, G),
        means("mean turnaround of all jobs, s", made, "turnaround"),
        *(
            over_time(f"G^t, s, {where}; T is 2000 s" if not how.quick else where, each)
            for where, each in made.items()
        ),
    ]
    data = {
        where: {name: [each.mean(name, f"G at {share:g}") for share in SHARES] for name in each.schedulers}
        for where, each in made.items()
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, (*REMARKS, _REMARK), {"series": data})


_REMARK = (
    "The paper draws G^t over U^t, whose formula is damaged.  Read as the time over the number of jobs so "
    "far, U^t is all but constant (1 / the rate of all nodes), which cannot be an axis; so here the axis "
    "is the time."
)


def figure(report: Report) -> Figure:
    """Draw G^t over time, a panel for each rate."""
    properties = {"xlabel": "time / T", "ylabel": "G^t, s", "ylim": (0, None)}
    return panels(report.data["series"], SHARES, properties)
