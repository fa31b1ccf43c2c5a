"""Shared by the experiments on RJSS: job streams on a star of desktops, and claims about what is faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from gridsim.model.bag_workloads import StreamRecipe
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import BELOW, NEGATIVE, Grid, Row, Run, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.formulas import prediction_errors
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.metrics.turnaround import mean_until
from gridsim.results.result import Result
from gridsim.schedulers import NoMigration, ResourceExclusion, Rjss
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

NODES, SMALL = 100, 40
HORIZON, SHORT = 2000.0, 400.0
#: Shares of the horizon at which the mean turnaround so far is measured.
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
#: The label of an axis; and how `panels` draws it.
TURNAROUND = "mean turnaround of all jobs, s"
TURNAROUNDS = {"yscale": "log", "ylabel": TURNAROUND}

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
class Jobs:
    """Makes a scenario of job streams: ``Jobs(interarrival=25.0)(seed)``.  It can be sent to another process.

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
        """Name of the scenario's file, such as ``jobs-100-20-30-200-0.1``."""
        parts = self.nodes, self.interarrival, self.processing_time, self.clock, self.congestion
        return "jobs-" + "-".join(f"{part:g}" for part in parts)

    def __call__(self, seed: int) -> Scenario:
        workload = Workload.job_streams(
            self.horizon,
            self.interarrival,
            self.processing_time,
            self.data,
            reference_speed=self.reference,
            seed=seed,
        )
        network = Network.star(congestion=self.congestion)
        return Scenario(Platform.normal(self.nodes, seed, self.clock), workload, network, seed)


def jobs(how: Run, **changes: Any) -> Jobs:
    """Return the paper's jobs with `changes`; in small, fewer nodes and a shorter horizon."""
    small = {"nodes": SMALL, "horizon": SHORT} if how.quick else {}
    return Jobs(**{**small, **changes})


def rivals() -> dict[str, Scheduler]:
    """Return the three schedulers that the paper compares."""
    return {"NM": NoMigration(), "RE": ResourceExclusion(), "RJSS": Rjss()}


# -- metrics --------------------------------------------------------------------------------------------


def _until(result: Result, share: float) -> float:
    recipe = result.scenario.workload.recipe
    assert isinstance(recipe, StreamRecipe)
    return mean_until(result, share * recipe.horizon)


def error_deviation(result: Result) -> float:
    """Standard deviation of the prediction error over the jobs of a run."""
    table = result.tables["jobs"]
    errors = prediction_errors(table["predicted"], table["waited"])
    return float(np.std(errors)) if len(errors) else math.nan


#: G^t after each share of the horizon, and the other metrics of a run.
METRICS: dict[str, MetricFunction] = {
    **{f"G at {share:g}": partial(_until, share=share) for share in SHARES},
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


def faster(claim: str, where: str, made: Replicates, a: str, b: str, metric: str) -> Row:
    """Return a row about the claim that `a` has a smaller value of a metric than `b`."""
    measured = made.ratio(a, b, metric)
    quantity = f"{where}: {MEASURES.get(metric, metric)}, {a} / {b}"
    return judge(claim, quantity, "< 1", measured, -math.inf, BELOW)


def all_faster(claim: str, made: Mapping[str, Replicates]) -> list[Row]:
    """Return rows about the claim that RJSS is the fastest of the three, by column and by both measures."""
    return [
        faster(claim, where, each, "RJSS", other, metric)
        for metric in MEASURES
        for other in ("RE", "NM")
        for where, each in made.items()
    ]


def grows_less(claim: str, made: Mapping[str, Replicates]) -> list[Row]:
    """Return rows about the claim that RJSS grows less than the others from the first to the last column."""
    first, *_, last = made.values()
    return [
        judge(
            claim,
            f"{said}, last column less first: RJSS less {other}, s",
            "< 0",
            estimate(_more(last, first, "RJSS", metric) - _more(last, first, other, metric)),
            -math.inf,
            NEGATIVE,
        )
        for metric, said in MEASURES.items()
        for other in ("RE", "NM")
    ]


def _more(last: Replicates, first: Replicates, name: str, metric: str) -> Any:
    return last[metric][name] - first[metric][name]


def rises(
    claim: str, made: Mapping[str, Replicates], name: str, metric: str, low: float, high: float, said: str
) -> Row:
    """Return a row about the claim that a scheduler's last column over its first lies in low..high."""
    first, *_, last = made.values()
    measured = estimate(last[metric][name] / first[metric][name])
    return judge(claim, f"{MEASURES[metric]}, last column / first: {name}", said, measured, low, high)


def means(title: str, made: Mapping[str, Replicates], metric: str, names: Sequence[str] = ()) -> Grid:
    """Return a table of means of a metric: a row per scheduler, a column per entry of `made`."""
    rows = names or next(iter(made.values())).schedulers
    return Grid(
        title,
        ["scheduler", *made],
        {name: [each.mean(name, metric) for each in made.values()] for name in rows},
    )


def over_time(title: str, made: Replicates) -> Grid:
    """Return a table of G^t of each scheduler after each share of the horizon."""
    rows = {name: [made.mean(name, f"G at {share:g}") for share in SHARES] for name in made.schedulers}
    return Grid(title, ["scheduler", *(f"t = {share:g} T" for share in SHARES)], rows)


def series(made: Mapping[str, Replicates], metric: str = G) -> dict[str, Any]:
    """Return the lines for `plots.lines`: scheduler -> estimates."""
    names = next(iter(made.values())).schedulers
    return {name: [each.mean(name, metric) for each in made.values()] for name in names}
