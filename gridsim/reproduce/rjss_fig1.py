"""RJSS, Figure 1: the prediction error over the number of nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridsim.estimates import estimate
from gridsim.reproduce.common import NEGATIVE, Grid, Report, Run, judge, per_doubling
from gridsim.reproduce.rjss_common import HORIZON, METRICS, REMARKS, SHORT, Jobs, judged
from gridsim.scenario import Scenario
from gridsim.schedulers import Rjss
from gridsim.streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig1"
TITLE = "prediction error of RJSS over the number of nodes"
CLAIMS = (
    "the prediction error is less than 70 % for most of the cases",
    "it decreases as the number of nodes increases, and becomes stable",
)
SEEDS = (20, 5)

SIZES, FEW_SIZES = (100, 200, 300, 400, 500), (40, 80)


@dataclass(frozen=True)
class Ranges:
    """Job streams whose means are drawn from the paper's ranges, others for each seed."""

    nodes: int
    horizon: float

    @property
    def name(self) -> str:
        """Of a file."""
        return f"ranges-{self.nodes}"

    def __call__(self, seed: int) -> Scenario:
        chance = Streams(seed)("reproduce.rjss")
        rate, task, data, clock = (
            float(chance.uniform(low, high))
            for low, high in ((0.030, 0.050), (20.0, 40.0), (5000.0, 40_000.0), (200.0, 500.0))
        )
        made = Jobs(self.nodes, 1 / rate, task, data, clock, reference=350.0, horizon=self.horizon)
        return made(seed)


def run(how: Run) -> Report:
    """RJSS alone."""
    sizes = FEW_SIZES if how.quick else SIZES
    horizon = SHORT if how.quick else HORIZON
    made = {n: how.replicate(Ranges(n, horizon), {"RJSS": Rjss()}, METRICS) for n in sizes}
    rows = [
        judge(f"N = {n}: mean prediction error", "< 0.7", each.mean("RJSS", "error"), -math.inf, 0.7)
        for n, each in made.items()
    ]
    slopes = per_doubling(sizes, [each["error"]["RJSS"] for each in made.values()])
    rows.append(
        judge(
            "change of the mean prediction error with a doubling of N",
            "< 0",
            estimate(slopes),
            -math.inf,
            NEGATIVE,
        )
    )
    names = {
        "mean prediction error": "error",
        "its standard deviation": "deviation",
        "turnaround, s": "turnaround",
        "share that moves": "migrated",
    }
    columns = {
        label: [each.mean("RJSS", metric) for each in made.values()] for label, metric in names.items()
    }
    grid = Grid("RJSS over the number of nodes", ["", *(f"N = {n}" for n in sizes)], columns)
    return Report(
        tuple(how.seeds),
        how.quick,
        judged(how, rows),
        [grid],
        (_REMARK, REMARKS[0]),
        {"sizes": sizes, "columns": columns},
    )


_REMARK = (
    "Rate, processing time, bytes and clock are uniform in the paper's ranges, drawn once a seed.  The "
    "load predicted is the wait that a job is to find when it arrives, the actual one what it finds: "
    "|difference| / actual over the jobs that moved and found a queue."
)


def figure(report: Report) -> Figure:
    """Mean and standard deviation over N."""
    from gridsim import plots

    made, (axes,) = plots.figure(1)
    columns = report.data["columns"]
    names = ("mean prediction error", "its standard deviation")
    plots.lines(report.data["sizes"], {name: columns[name] for name in names}, axes=axes)
    axes.set_xlabel("nodes")
    axes.set_ylabel("prediction error")
    axes.set_ylim(bottom=0)
    return made
