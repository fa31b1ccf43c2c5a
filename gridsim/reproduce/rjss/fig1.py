"""RJSS, Figure 1: the prediction error over the number of nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridsim.model.scenario import Scenario
from gridsim.reproduce.framework import NEGATIVE, Grid, Report, Run, judge, panels, per_doubling
from gridsim.reproduce.rjss.common import HORIZON, METRICS, REMARKS, SHORT, Jobs
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.formulas import prediction_errors
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import Rjss
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rjss-fig1"
TITLE = "prediction error of RJSS over the number of nodes"
SMALL_ERROR = "the prediction error is less than 70 % for most of the cases"
FALLS = "it decreases as the number of nodes increases, and becomes stable"
CLAIMS = (SMALL_ERROR, FALLS)
SEEDS = (20, 5)

SIZES, FEW_SIZES = (100, 200, 300, 400, 500), (40, 80)
#: The paper says of most cases that their error is below the first; most are more than half of them.
SMALL, MOST = 0.7, math.nextafter(0.5, 1.0)


@dataclass(frozen=True)
class Ranges:
    """Makes job streams whose means are drawn from the paper's ranges, anew for each seed."""

    nodes: int
    horizon: float

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        return f"ranges-{self.nodes}"

    def __call__(self, seed: int) -> Scenario:
        chance = Streams(seed)("reproduce.rjss")
        rate, task, data, clock = (
            float(chance.uniform(low, high))
            for low, high in ((0.030, 0.050), (20.0, 40.0), (5000.0, 40_000.0), (200.0, 500.0))
        )
        made = Jobs(self.nodes, 1 / rate, task, data, clock, reference=350.0, horizon=self.horizon)
        return made(seed)


def arrivals(result: Result) -> NDArray[np.float64]:
    """float64[jobs], work that RJSS expects to arrive at the node while a job is on its way there, s.

    It is that of (rate + Q) t' jobs of the mean size, at the speed of the node where the job ran.  Here rate
    is the rate of the node's own jobs, Q the number of jobs that other nodes have sent there over the time
    so far, and t' the time on the way.
    """
    scenario = result.scenario
    given = scenario.workload.realize(scenario.platform)
    assert given.data is not None and given.rates is not None
    node = result.tables["jobs"]["machine"]
    sent = _before(node, node != given.submitter)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = given.rates[node] + np.where(sent > 0, sent / given.release, 0.0)
    transit = scenario.network.latency + given.data / scenario.network.bandwidth
    work: NDArray[np.float64] = rate * transit * given.task_size.mean() / scenario.platform.speeds[node]
    return work


def _before(node: NDArray[np.int32], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[jobs], for each job the number of earlier jobs at the same node that are `counted`."""
    order = np.argsort(node, kind="stable")
    sums: NDArray[np.int64] = np.cumsum(counted[order]) - counted[order]
    first = np.searchsorted(node[order], node[order])
    found = np.empty(len(node), np.int64)
    found[order] = sums - sums[first]
    return found


def errors(result: Result) -> NDArray[np.float64]:
    """|predicted - actual load| / actual load, for each job that moved and found a queue.

    The predicted load is the wait at the node when it was chosen, plus the work expected to arrive meanwhile.
    """
    jobs = result.tables["jobs"]
    return prediction_errors(jobs["predicted"] + arrivals(result), jobs["waited"])


def mean_error(result: Result) -> float:
    """Mean prediction error over the jobs of a run; NaN if there are none."""
    found = errors(result)
    return float(found.mean()) if len(found) else math.nan


def deviation(result: Result) -> float:
    """Standard deviation of the prediction error over the jobs of a run; NaN if there are none."""
    found = errors(result)
    return float(found.std()) if len(found) else math.nan


def share_of_small(result: Result) -> float:
    """Share of the jobs with a prediction error whose error is below `SMALL`; NaN if there are none."""
    found = errors(result)
    return float((found < SMALL).mean()) if len(found) else math.nan


def share_of_moved(result: Result) -> float:
    """Share of the jobs that moved whose error is below `SMALL`; one that found no queue has no small error.

    NaN if no job moved.
    """
    moved = int((~np.isnan(result.tables["jobs"]["predicted"])).sum())
    return float((errors(result) < SMALL).sum()) / moved if moved else math.nan


_METRICS: dict[str, MetricFunction] = METRICS | {
    "load error": mean_error,
    "load deviation": deviation,
    "small": share_of_small,
    "small of moved": share_of_moved,
}


def run(how: Run) -> Report:
    """Run RJSS alone at each number of nodes."""
    sizes = FEW_SIZES if how.quick else SIZES
    horizon = SHORT if how.quick else HORIZON
    made = {n: how.replicate(Ranges(n, horizon), {"RJSS": Rjss()}, _METRICS) for n in sizes}
    shares = {
        f"share of jobs with an error below {SMALL:g}": "small",
        "the same of all that moved, also those that found no queue": "small of moved",
    }
    rows = [
        judge(SMALL_ERROR, f"N = {n}: {share}", "most", each.mean("RJSS", metric), MOST, 1.0)
        for share, metric in shares.items()
        for n, each in made.items()
    ]
    rows += [
        judge(
            SMALL_ERROR,
            f"N = {n}: mean prediction error",
            f"< {SMALL:g}",
            each.mean("RJSS", "load error"),
            -math.inf,
            math.nextafter(SMALL, 0.0),
        )
        for n, each in made.items()
    ]
    slopes = per_doubling(sizes, [each["load error"]["RJSS"] for each in made.values()])
    rows.append(
        judge(
            FALLS,
            "change of the mean prediction error with a doubling of N",
            "< 0",
            estimate(slopes),
            -math.inf,
            NEGATIVE,
        )
    )
    names = {
        "mean prediction error": "load error",
        "its standard deviation": "load deviation",
        **shares,
        "mean error without the expected arrivals": "error",
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
        rows,
        [grid],
        (_REMARK, REMARKS[0]),
        {"sizes": sizes, "columns": columns},
    )


_REMARK = (
    "Rate, processing time, bytes and clock are uniform in the paper's ranges, drawn once a seed.  The "
    "load predicted is the wait at the node when it is chosen and the work that is expected to come there "
    "while the job is on its way, (rate + Q) t' jobs of the mean size; the actual load is the wait that the "
    "job finds: |difference| / actual over the jobs that moved and found a queue.  A job that found none has "
    "no error; in the share of all that moved it counts as one whose error is not small."
)


def figure(report: Report) -> Figure:
    """Draw mean and standard deviation of the prediction error over N."""
    names = ("mean prediction error", "its standard deviation")
    series = {"": {name: report.data["columns"][name] for name in names}}
    properties = {"xlabel": "nodes", "ylabel": "prediction error", "ylim": (0, None)}
    return panels(series, report.data["sizes"], properties)
