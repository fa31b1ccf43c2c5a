"""Whether work that arrives while a job is on its way matters: RJSS with its conditions, over the time that
a transfer takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.reproduce.framework import BELOW, Grid, Report, Row, Run, judge, panels
from gridsim.reproduce.rjss.common import MEASURES, METRICS, REMARKS, TURNAROUNDS, G, jobs, means, series
from gridsim.results.metrics.estimates import estimate
from gridsim.schedulers import NoMigration, Rjss
from gridsim.scheduling.contract import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-transit"
TITLE = "RJSS with and without its conditions on what comes meanwhile, over the transfer latency"
BETTER = "considering what comes to a node while a job is on its way there makes for better decisions"
NEVER = (
    "(not in the paper) at the paper's latency no condition holds a job back, and P < 0.5 as printed never "
    "does: x exp(-x) is at most 1 / e"
)
CLAIMS = (BETTER, NEVER)
SEEDS = (10, 5)

LATENCIES, FEW_LATENCIES = (0.1, 1.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0), (0.1, 20.0)
LOADS = (0.9, 1.5)
RULES: dict[str, Scheduler] = {
    "as printed": Rjss(),
    "at least one": Rjss(rule="at-least-one"),
    "as printed, without others' jobs": Rjss(remote_threshold=math.inf),
    "at least one, without others' jobs": Rjss(rule="at-least-one", remote_threshold=math.inf),
    "no condition": Rjss(rule="none"),
    "NM": NoMigration(),
}
PLAIN = "no condition"


def run(how: Run) -> Report:
    """Run all rules at each latency and load."""
    latencies = FEW_LATENCIES if how.quick else LATENCIES
    rows: list[Row] = []
    grids: list[Grid] = []
    data: dict[str, Any] = {"latencies": latencies, "series": {}}
    for load in LOADS:
        made = {
            f"{latency:g} s": how.replicate(
                jobs(how, interarrival=30.0 / load, congestion=latency), RULES, METRICS
            )
            for latency in latencies
        }
        near = made[f"{latencies[0]:g} s"]
        for name in ("as printed", "at least one"):
            quantity = f"load {load:g}, {latencies[0]:g} s: turnaround {name} less with {PLAIN}, s"
            rows.append(judge(NEVER, quantity, "0", near.difference(name, PLAIN, "turnaround"), 0.0, 0.0))
        alone = "as printed, without others' jobs"
        apart = np.concatenate(
            [each["turnaround"][alone] - each["turnaround"][PLAIN] for each in made.values()]
        )
        quantity = f"load {load:g}, all latencies: turnaround {alone} less with {PLAIN}, s"
        rows.append(judge(NEVER, quantity, "0", estimate(apart), 0.0, 0.0))
        for metric, said in MEASURES.items():
            for name in ("as printed", "at least one"):
                for where, each in list(made.items())[1:]:
                    quantity = f"load {load:g}, {where}: {said}, {name} / with {PLAIN}"
                    rows.append(
                        judge(BETTER, quantity, "< 1", each.ratio(name, PLAIN, metric), -math.inf, BELOW)
                    )
        grids += [
            means(f"load {load:g}: G^t when the last job is submitted, s; over the latency", made, G),
            means(f"load {load:g}: mean turnaround of all jobs, s", made, "turnaround"),
            means(f"load {load:g}: share of the jobs that moves", made, "migrated"),
            means(f"load {load:g}: prediction error", made, "error", list(RULES)[:-1]),
        ]
        data["series"][f"load {load:g}"] = series(made, "turnaround")
    x = np.linspace(0.0, 10.0, 1_000_001)
    most = float((x * np.exp(-x)).max())
    remark = (
        f"x exp(-x) is {most:.4f} at most (at x = 1), so that P < 0.5 always holds; 1 - exp(-x) < 0.5 as "
        "long as a transfer takes less than ln 2 / rate: 23.1 s at 30 jobs in 1000 s, 13.9 s at 50."
    )
    return Report(tuple(how.seeds), how.quick, rows, grids, (remark, *REMARKS), data)


def figure(report: Report) -> Figure:
    """Draw turnaround over the latency, a panel for each load."""
    properties = {"xlabel": "latency of a transfer, s", "xscale": "log", **TURNAROUNDS}
    return panels(report.data["series"], report.data["latencies"], properties, shared=True)
