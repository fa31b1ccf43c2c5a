"""Common parts of the experiments on RJSS: job streams on a star of desktops, and claims on turnaround."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.model.bag_workloads import StreamRecipe
from gridsim.reproduce.framework import CaseTable, Check, Measurements, Run, ratio
from gridsim.reproduce.verdicts import NEGATIVE, SMALLER, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.formulas import prediction_errors
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.turnaround import mean_until

NODES, SMALL = 100, 40
HORIZON, SHORT = 2000.0, 400.0
#: Shares of the horizon at which the mean turnaround until then is measured.
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
#: Axis label of the mean turnaround.
TURNAROUND = "mean turnaround of all jobs, s"

REMARKS = (
    "The paper says neither the bandwidth (taken as 1 Mbit/s), nor the variances (all standard deviations "
    "are 0.2 of the mean), nor how long it simulates (2000 s here), nor what RE is: of the nodes asked that "
    "are not slower than the mean, the best one, if it is better than home.",
    "G^t is the mean turnaround of the jobs whose results are back by t, here when the last job is "
    "submitted.  It leaves out those that are still queued, and so those that wait the longest: above a load "
    'of 1 it tells little about how long jobs take.  "All jobs" is the mean over all of them, however long '
    "they take.  Claims are judged by both.",
)


@dataclass(frozen=True)
class JobStreams:
    """Factory of scenarios of job streams: ``JobStreams(interarrival=25.0)(seed)``.

    data : mean bytes of a job.  clock : mean Mflop/s of a node.  reference : Mflop/s at which a job takes
    `processing_time` s on average.  congestion : delay that the star adds to a message, s.
    """

    nodes: int = NODES
    interarrival: float = 20.0
    processing_time: float = 30.0
    data: float = 5000.0
    clock: float = 200.0
    reference: float = 200.0
    congestion: float = 0.1
    horizon: float = HORIZON

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``jobs-100-20-30-200-0.1``."""
        parts = self.nodes, self.interarrival, self.processing_time, self.clock, self.congestion
        return "jobs-" + "-".join(f"{part:g}" for part in parts)

    def __call__(self, seed: int) -> gs.Scenario:
        workload = gs.Workload.job_streams(
            self.horizon,
            self.interarrival,
            self.processing_time,
            self.data,
            reference_speed=self.reference,
            seed=seed,
        )
        network = gs.Network.star(congestion=self.congestion)
        return gs.Scenario(gs.Platform.normal(self.nodes, seed, self.clock), workload, network, seed)


def jobs(run: Run, **changes: Any) -> JobStreams:
    """Return the paper's jobs with `changes`; a quick run has fewer nodes and a shorter horizon."""
    small = run.choose({}, {"nodes": SMALL, "horizon": SHORT})
    return JobStreams(**{**small, **changes})


#: The three schedulers that the paper compares.
RIVALS: Mapping[str, gs.Scheduler] = {"NM": gs.NoMigration(), "RE": gs.ResourceExclusion(), "RJSS": gs.Rjss()}


# -- metrics --------------------------------------------------------------------------------------------


def _mean_until(result: gs.Result, share: float) -> float:
    recipe = result.scenario.workload.recipe
    assert isinstance(recipe, StreamRecipe)
    return mean_until(result, share * recipe.horizon)


def error_deviation(result: gs.Result) -> float:
    """Return the standard deviation of the prediction error over the jobs of a run."""
    table = result.tables["jobs"]
    errors = prediction_errors(table["predicted"], table["waited"])
    return float(np.std(errors)) if len(errors) else math.nan


#: G^t after each share of the horizon, and the other metrics of a run.
METRICS: dict[str, MetricFunction] = {
    **{f"G at {share:g}": partial(_mean_until, share=share) for share in SHARES},
    "turnaround": attrgetter("mean_turnaround"),
    "migrated": attrgetter("migrated"),
    "error": attrgetter("prediction_error"),
    "deviation": error_deviation,
    "messages": attrgetter("messages_per_job"),
    "utilization": attrgetter("utilization"),
}
G = "G at 1"
#: Metrics by which claims are judged -> their names in tables.
MEASURES = {"turnaround": "turnaround of all jobs", G: "G^t"}


# -- claims and tables ----------------------------------------------------------------------------------


def faster(claim: str, a: str, b: str, metric: str) -> Check:
    """Return a check of the claim that a metric of `a` is smaller than that of `b`."""
    return Check(claim, f"{{case}}: {MEASURES.get(metric, metric)}, {a} / {b}", ratio(a, b, metric), SMALLER)


def all_faster(claim: str) -> list[Check]:
    """Return checks of the claim that RJSS is the fastest of the three, by both measures."""
    return [faster(claim, "RJSS", rival, metric) for metric in MEASURES for rival in ("RE", "NM")]


def grows_less(claim: str, cases: Measurements) -> list[Row]:
    """Return the rows about the claim that RJSS grows less than its rivals over the cases."""

    def growth(name: str, metric: str) -> Any:
        return cases.last[metric][name] - cases.first[metric][name]

    return [
        judge(
            claim,
            f"{label}, last column less first: RJSS less {rival}, s",
            estimate(growth("RJSS", metric) - growth(rival, metric)),
            NEGATIVE,
        )
        for metric, label in MEASURES.items()
        for rival in ("RE", "NM")
    ]


def rises(claim: str, cases: Measurements, name: str, metric: str, test: ClaimedRange) -> Row:
    """Return a row about the ratio of a scheduler's metric in the last case to that in the first."""
    ratio = estimate(cases.last[metric][name] / cases.first[metric][name])
    return judge(claim, f"{MEASURES[metric]}, last column / first: {name}", ratio, test)


#: The tables of G^t and of the mean turnaround of all jobs.
TURNAROUNDS = (
    CaseTable("G^t when the last job is submitted, s", G),
    CaseTable("mean turnaround of all jobs, s", "turnaround"),
)
