"""RJSS, Figure 1: the prediction error over the number of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import gridsim as gs
from gridsim.reproduce.framework import Measurements, Reproduction, ResultGrid, panels, per_doubling
from gridsim.reproduce.rjss.common import HORIZON, METRICS, REMARKS, SHORT, JobStreams
from gridsim.reproduce.verdicts import NEGATIVE, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.formulas import prediction_errors
from gridsim.results.metrics.registry import MetricFunction
from gridsim.support.random_streams import Streams

SMALL_ERROR = "the prediction error is less than 70 % for most of the cases"
FALLS = "it decreases as the number of nodes increases, and becomes stable"
#: Error below which the paper says most errors are, and minimum share of errors that counts as "most".
SMALL, MAJORITY = 0.7, math.nextafter(0.5, 1.0)
BELOW_SMALL = math.nextafter(SMALL, 0.0)


@dataclass(frozen=True)
class JobRanges:
    """Factory of scenarios of job streams; each seed draws their means from the paper's ranges."""

    nodes: int
    horizon: float

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return f"ranges-{self.nodes}"

    def __call__(self, seed: int) -> gs.Scenario:
        streams = Streams(seed)("reproduce.rjss")
        rate, task, data, clock = (
            float(streams.uniform(low, high))
            for low, high in ((0.030, 0.050), (20.0, 40.0), (5000.0, 40_000.0), (200.0, 500.0))
        )
        job_streams = JobStreams(
            self.nodes, 1 / rate, task, data, clock, reference=350.0, horizon=self.horizon
        )
        return job_streams(seed)


def arrivals(result: gs.Result) -> NDArray[np.float64]:
    """Return the work that RJSS expects to arrive at a job's node during its transfer, s: float64[jobs].

    This is the work of (rate + Q) t' jobs of mean size at the speed of that node, where rate is the rate of
    the node's own jobs, Q the number of jobs sent there by other nodes per time until then, and t' the time
    of the transfer.
    """
    scenario = result.scenario
    workload = scenario.workload.realize(scenario.platform)
    assert workload.data is not None and workload.rates is not None
    node = result.tables["jobs"]["machine"]
    sent = _earlier_counts(node, node != workload.submitter)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = workload.rates[node] + np.where(sent > 0, sent / workload.release, 0.0)
    transit = scenario.network.latency + workload.data / scenario.network.bandwidth
    work: NDArray[np.float64] = rate * transit * workload.task_size.mean() / scenario.platform.speeds[node]
    return work


def _earlier_counts(node: NDArray[np.int32], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each job, the number of earlier jobs at the same node that are in `mask`: int64[jobs]."""
    order = np.argsort(node, kind="stable")
    sums: NDArray[np.int64] = np.cumsum(mask[order]) - mask[order]
    first = np.searchsorted(node[order], node[order])
    counts = np.empty(len(node), np.int64)
    counts[order] = sums - sums[first]
    return counts


def errors(result: gs.Result) -> NDArray[np.float64]:
    """Return |predicted - actual load| / actual load of each job that moved and found a queue.

    The predicted load is the wait at the node when it was chosen, plus the work expected during the transfer.
    """
    jobs = result.tables["jobs"]
    return prediction_errors(jobs["predicted"] + arrivals(result), jobs["waited"])


def mean_error(result: gs.Result) -> float:
    """Return the mean prediction error over the jobs of a run; NaN if there are none."""
    values = errors(result)
    return float(values.mean()) if len(values) else math.nan


def deviation(result: gs.Result) -> float:
    """Return the standard deviation of the prediction error over the jobs of a run; NaN if there are none."""
    values = errors(result)
    return float(values.std()) if len(values) else math.nan


def share_of_small(result: gs.Result) -> float:
    """Return the share of errors below `SMALL` among jobs with a prediction error; NaN if there are none."""
    values = errors(result)
    return float((values < SMALL).mean()) if len(values) else math.nan


def share_of_moved(result: gs.Result) -> float:
    """Return the share of moved jobs with an error below `SMALL`; jobs without an error do not count in it.

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


#: Title of a share of the jobs -> its metric.
SMALL_SHARES = {
    f"share of jobs with an error below {SMALL:g}": "small",
    "the same of all that moved, also those that found no queue": "small of moved",
}
MEAN, DEVIATION = "mean prediction error", "its standard deviation"
#: Title of a row -> its metric.
TABLE = {
    MEAN: "load error",
    DEVIATION: "load deviation",
    **SMALL_SHARES,
    "mean error without the expected arrivals": "error",
    "turnaround, s": "turnaround",
    "share that moves": "migrated",
}


def _rows(data: Measurements) -> Iterator[Row]:
    for label, metric in SMALL_SHARES.items():
        for nodes, values in data.items():
            quantity = f"N = {nodes}: {label}"
            yield judge(
                SMALL_ERROR, quantity, values.mean("RJSS", metric), ClaimedRange("most", MAJORITY, 1.0)
            )
    for nodes, values in data.items():
        quantity, test = f"N = {nodes}: mean prediction error", ClaimedRange(f"< {SMALL:g}", high=BELOW_SMALL)
        yield judge(SMALL_ERROR, quantity, values.mean("RJSS", "load error"), test)
    growth = per_doubling(list(data), [values["load error"]["RJSS"] for values in data.values()])
    yield judge(FALLS, "change of the mean prediction error with a doubling of N", estimate(growth), NEGATIVE)


def _lines(data: Measurements, labels: Iterable[str]) -> dict[str, list[Estimate]]:
    return {label: [values.mean("RJSS", TABLE[label]) for values in data.values()] for label in labels}


FIG1 = Reproduction(
    name="rjss-fig1",
    title="prediction error of RJSS over the number of nodes",
    paper="the paper on RJSS, Figure 1",
    claims=(SMALL_ERROR, FALLS),
    seeds=(20, 5),
    cases=lambda run: {
        nodes: JobRanges(nodes, run.choose(HORIZON, SHORT))
        for nodes in run.choose((100, 200, 300, 400, 500), (40, 80))
    },
    schedulers={"RJSS": gs.Rjss()},
    metrics=_METRICS,
    rows=_rows,
    grids=lambda data: [
        ResultGrid(
            "RJSS over the number of nodes", ["", *(f"N = {nodes}" for nodes in data)], _lines(data, TABLE)
        )
    ],
    remarks=(
        "Rate, processing time, bytes and clock are uniform in the paper's ranges, drawn once a seed.  The "
        "load predicted is the wait at the node when it is chosen and the work that is expected to come "
        "there while the job is on its way, (rate + Q) t' jobs of the mean size; the actual load is the "
        "wait that the job finds: |difference| / actual over the jobs that moved and found a queue.  A job "
        "that found none has no error; in the share of all that moved it counts as one whose error is not "
        "small.",
        REMARKS[0],
    ),
    figure=lambda data: panels(
        {"": _lines(data, (MEAN, DEVIATION))},
        list(data),
        {"xlabel": "nodes", "ylabel": "prediction error", "ylim": (0, None)},
    ),
)
