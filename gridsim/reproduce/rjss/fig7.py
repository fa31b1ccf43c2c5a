"""RJSS, Figure 7: turnaround over the number of nodes, and the cost of asking more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridsim.reproduce.framework import Report, Run, judge, panels, per_doubling
from gridsim.reproduce.rjss.common import (
    METRICS,
    REMARKS,
    TURNAROUNDS,
    G,
    all_faster,
    jobs,
    means,
    rivals,
    series,
)
from gridsim.results.metrics.estimates import estimate
from gridsim.schedulers import ResourceExclusion, Rjss
from gridsim.scheduling.contract import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig7"
TITLE = "turnaround of RJSS, RE and NM over the number of nodes"
VARIES = (
    "G^t of RJSS varies slightly with the number of nodes, since more are asked and deciding takes longer"
)
BETTER = "RJSS performs comparatively better than RE and NM"
OTHERS = (
    "(not in the paper) that of RE, and of RJSS that wants the best, varies slightly where asking takes time"
)
CLAIMS = (VARIES, BETTER, OTHERS)
SEEDS = (20, 5)

SIZES, FEW_SIZES = (100, 200, 300, 400, 500), (40, 80)
#: Largest relative change from one size to twice that size that counts as slight.
SLIGHT = 0.1
ASKING = ("RJSS, round trips", "RE, round trips", "RJSS, best, round trips")


def run(how: Run) -> Report:
    """Run the three at each size, where asking takes no time and where each question takes a round trip."""
    sizes = FEW_SIZES if how.quick else SIZES
    schedulers: dict[str, Scheduler] = {
        **rivals(),
        ASKING[0]: Rjss(probe_latency="network"),
        ASKING[1]: ResourceExclusion(probe_latency="network"),
        ASKING[2]: Rjss(probe_latency="network", pick="best"),
    }
    made = {}
    for load in (0.9, 1.5):
        for n in sizes:
            make = jobs(how, nodes=n, interarrival=30.0 / load)
            made[load, n] = how.replicate(make, schedulers, METRICS)
    rows = all_faster(BETTER, {f"load {load:g}, N = {n}": each for (load, n), each in made.items()})
    grids, data = [], {}
    for load in (0.9, 1.5):
        of_load = {f"N = {n}": made[load, n] for n in sizes}
        for name in ("RJSS", *ASKING):
            values = [each["turnaround"][name] for each in of_load.values()]
            slopes = per_doubling(sizes, values) / (sum(values) / len(values))
            quantity = f"load {load:g}, {name}: change of the turnaround with a doubling of N, relative"
            low, high = (-SLIGHT, SLIGHT) if name != ASKING[0] else (0.0, SLIGHT)
            paper = "slight" if name != ASKING[0] else "a slight rise"
            rows.append(
                judge(
                    VARIES if name in ("RJSS", ASKING[0]) else OTHERS,
                    quantity,
                    paper,
                    estimate(slopes),
                    low,
                    high,
                )
            )
        grids += [
            means(f"load {load:g}: mean turnaround of all jobs, s", of_load, "turnaround"),
            means(f"load {load:g}: G^t when the last job is submitted, s", of_load, G),
            means(f"load {load:g}: messages a job", of_load, "messages"),
        ]
        data[f"load {load:g}"] = series(of_load, "turnaround")
    return Report(
        tuple(how.seeds),
        how.quick,
        rows,
        grids,
        (*REMARKS, _REMARK),
        {"sizes": sizes, "series": data},
    )


_REMARK = (
    '"Slight" is taken as at most 10 % of the mean with each doubling.  A round trip takes as long as two '
    "packets of 100 bytes, 0.2 s; at most 10 % of the nodes are asked, one after the other."
)


def figure(report: Report) -> Figure:
    """Draw turnaround over N, a panel for each load."""
    properties = {"xlabel": "nodes", **TURNAROUNDS}
    return panels(report.data["series"], report.data["sizes"], properties, shared=True)
