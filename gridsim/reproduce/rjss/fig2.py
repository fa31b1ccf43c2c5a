"""RJSS, Figure 2: turnaround over k, the share of the nodes that are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gridsim.reproduce.framework import BELOW, Grid, Report, Row, Run, judge, panels
from gridsim.reproduce.rjss.common import METRICS, REMARKS, TURNAROUNDS, G, jobs, means, series
from gridsim.schedulers import Rjss
from gridsim.scheduling.contract import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig2"
TITLE = "turnaround of RJSS over the share of the nodes that are asked"
BEST_SHARE = "the best results are obtained when k is between 10 % and 20 % of the nodes"
CLAIMS = (BEST_SHARE,)
SEEDS = (20, 5)

SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
BEST, OTHERS = (0.1, 0.2), (0.05, 0.4, 1.0)
#: Ways to ask -> `probe_latency` of `Rjss`, the time that a question takes.
ASKING: dict[str, float | Literal["network"]] = {"free": 0.0, "in round trips": "network"}
#: Loads; the paper's own numbers make a load of 1.5.
LOADS = (0.6, 0.9, 1.5)


def run(how: Run) -> Report:
    """Run RJSS with each k, where asking takes no time and where each question takes a round trip."""
    rows: list[Row] = []
    grids: list[Grid] = []
    data = {}
    for asking, latency in ASKING.items():
        schedulers: dict[str, Scheduler] = {f"k = {k:.0%}": Rjss(k=k, probe_latency=latency) for k in SHARES}
        made = {
            f"load {load:g}": how.replicate(jobs(how, interarrival=30.0 / load), schedulers, METRICS)
            for load in LOADS
        }
        for where, each in made.items():
            best = min(
                (f"k = {k:.0%}" for k in BEST), key=lambda name: float(each["turnaround"][name].mean())
            )
            for k in OTHERS:
                other = f"k = {k:.0%}"
                quantity = f"asking {asking}, {where}: turnaround with {best} / with {other}"
                measured = each.ratio(best, other, "turnaround")
                rows.append(judge(BEST_SHARE, quantity, "< 1", measured, -float("inf"), BELOW))
        grids.append(means(f"mean turnaround of all jobs, s; asking {asking}", made, "turnaround"))
        grids.append(means(f"G^t when the last job is submitted, s; asking {asking}", made, G))
        grids.append(means(f"messages a job; asking {asking}", made, "messages"))
        data[f"asking {asking}"] = _by_load(series(made, "turnaround"))
    return Report(tuple(how.seeds), how.quick, rows, grids, REMARKS, {"series": data})


def _by_load(made: dict[str, list[object]]) -> dict[str, list[object]]:
    """Return load -> estimates over k."""
    return {f"load {load:g}": [made[f"k = {k:.0%}"][i] for k in SHARES] for i, load in enumerate(LOADS)}


def figure(report: Report) -> Figure:
    """Draw turnaround over k, a panel for each way of asking."""
    properties = {"xlabel": "k, % of the nodes", **TURNAROUNDS}
    return panels(report.data["series"], [100 * k for k in SHARES], properties, shared=True)
